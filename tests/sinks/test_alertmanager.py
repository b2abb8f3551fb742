"""Alerts reach every member of an Alertmanager cluster, and each knows at last what the newest board says."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web
from msgspec.structs import replace

from npumond.config import settings
from npumond.latest import Latest
from npumond.rules import Alert, Board, Told
from npumond.sinks.alertmanager import AlertmanagerSink, Member
from tests.bench.daemon import free_port

ALERTMANAGER = shutil.which("prometheus-alertmanager")
needs_alertmanager = pytest.mark.skipif(ALERTMANAGER is None, reason="prometheus-alertmanager is not installed")
LINK = "http://node1:9090/"
RUNBOOKS = "https://books.example/npu"
FAR_S = 3600.0
"""A round of posts that no test lives to see, unless it sets the clock."""


# Boards by hand


def told(
    rule: str = "NpuHot",
    state: str = "firing",
    *,
    severity: str = "warning",
    fired_at: float | None = None,
    resolved_at: float | None = None,
    runbook: str = "",
    **labels: str,
) -> Told:
    """An alert of a chip; firing since a minute ago, and resolved now, unless it is said otherwise."""
    labels = labels or {"device_id": "0"}
    fired_at = time.time() - 60 if fired_at is None and state != "pending" else fired_at
    alert = Alert(
        id=f"{rule}/{severity}/{sorted(labels.items())}",
        rule=rule,
        severity=severity,  # type: ignore[arg-type]
        names=tuple(labels),
        series=tuple(labels.values()),
        state=state,  # type: ignore[arg-type]
        value=91.0,
        summary=f"{rule} of NPU {labels.get('device_id')}",
        since=time.time() - 120,
        fired_at=fired_at,
        resolved_at=time.time() if state == "resolved" and resolved_at is None else resolved_at,
        timer_at=0.0,
    )
    return Told(alert=alert, description="91 °C is too hot", runbook=runbook)


def board_of(*alerts: Told, at: float | None = None) -> Board:
    return Board(at=time.monotonic() if at is None else at, wall_at=time.time(), told=alerts)


def resolved(firing: Told) -> Told:
    return replace(firing, alert=replace(firing.alert, state="resolved", resolved_at=time.time()))


def moment(text: str) -> float:
    """Unix seconds of a time in an answer."""
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()


# What runs


async def until(holds: Callable[[], bool], deadline_s: float = 10.0) -> None:
    """Let the loop turn until this holds."""
    async with asyncio.timeout(deadline_s):
        while not holds():  # noqa: ASYNC110 - the other side sets no event
            await asyncio.sleep(0.002)


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def __call__(self) -> float:
        return self.now


class Running:
    """A sink that runs, and the boards that it follows."""

    def __init__(self, sink: AlertmanagerSink, boards: Latest[Board], clock: Callable[[], float]) -> None:
        self.sink = sink
        self.boards = boards
        self._clock = clock

    @property
    def member(self) -> Member:
        """The first."""
        return self.sink.members[0]

    def show(self, *alerts: Told) -> None:
        """A new board."""
        self.boards.set(board_of(*alerts, at=self._clock()))

    def later(self, seconds: float) -> None:
        """Set a clock that stands still."""
        assert isinstance(self._clock, Clock)
        self._clock.now += seconds


@asynccontextmanager
async def posting(
    *urls: str, clock: Callable[[], float] | None = None, interval_s: float = 0.1, **wanted: Any
) -> AsyncIterator[Running]:
    """The sink with these members; its clock stands still unless one is given."""
    boards: Latest[Board] = Latest()
    clock = clock or Clock()
    wanted = {"resend": FAR_S, "timeout": 5.0} | wanted
    sink = AlertmanagerSink(
        settings.Alertmanager(urls=urls, **wanted),
        boards,
        "node1",
        LINK,
        clock,
        runbooks=f"{RUNBOOKS}/",
        interval_s=interval_s,
    )
    task = asyncio.create_task(sink.run())
    try:
        yield Running(sink, boards, clock)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Server:
    """Takes posts and keeps them; what it answers can be chosen."""

    def __init__(self) -> None:
        self.posts: list[list[dict[str, Any]]] = []
        self.headers: list[Mapping[str, str]] = []
        self.answer: Callable[[list[dict[str, Any]]], web.Response] = lambda _: web.Response()
        self.gate = asyncio.Event()
        self.gate.set()
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        """One post."""
        alerts = json.loads(await request.read())
        self.posts.append(alerts)
        self.headers.append(request.headers)
        await self.gate.wait()
        return self.answer(alerts)

    @property
    def names(self) -> list[list[str]]:
        """Rules of the alerts in each post that holds any."""
        return [[alert["labels"]["alertname"] for alert in post] for post in self.posts if post]


@asynccontextmanager
async def serving(context: ssl.SSLContext | None = None, path: str = "/api/v2/alerts") -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_post(path, server.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.url = f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        server.gate.set()
        await runner.cleanup()


# What is posted


async def test_a_firing_alert_is_posted_at_once_with_everything_that_is_known_of_it() -> None:
    async with serving() as server, posting(server.url) as running:
        running.show(told(runbook="npu-hot", fired_at=1000.0, device_id="3"))
        await until(lambda: len(server.posts) == 1)
        running_until = running.boards.get()
    assert running_until is not None
    (alert,) = server.posts[0]
    assert moment(alert.pop("endsAt")) == pytest.approx(running_until.wall_at + 4 * FAR_S, abs=1e-3)
    assert alert == {
        "labels": {"alertname": "NpuHot", "severity": "warning", "instance": "node1", "device_id": "3"},
        "annotations": {
            "summary": "NpuHot of NPU 3",
            "description": "91 °C is too hot",
            "runbook_url": "https://books.example/npu/npu-hot.md",
        },
        "startsAt": "1970-01-01T00:16:40Z",
        "generatorURL": LINK,
    }


async def test_an_alert_without_a_runbook_has_no_link_to_one() -> None:
    async with serving() as server, posting(server.url) as running:
        running.show(told())
        await until(lambda: bool(server.posts))
    assert "runbook_url" not in server.posts[0][0]["annotations"]


async def test_the_nodes_own_labels_go_before_those_of_the_series() -> None:
    async with serving() as server, posting(server.url) as running:
        running.show(told(instance="other", alertname="Other"))
        await until(lambda: bool(server.posts))
    assert server.posts[0][0]["labels"] == {"alertname": "NpuHot", "severity": "warning", "instance": "node1"}


async def test_pending_alerts_are_never_posted() -> None:
    async with serving() as server, posting(server.url) as running:
        running.show(told(state="pending"), told("NpuLost"))
        await until(lambda: bool(server.posts))
    assert server.names == [["NpuLost"]]


async def test_an_empty_board_is_posted_too_so_that_a_wrong_address_is_seen_early() -> None:
    async with serving() as server, posting(server.url) as running:
        before = running.member.reason
        running.show()
        await until(lambda: running.member.posts["taken"] == 1)
        assert (before, running.member.reason, server.posts) == ("not connected yet", "", [[]])


async def test_a_resolved_alert_ended_when_it_did() -> None:
    async with serving() as server, posting(server.url) as running:
        running.show(told(state="resolved", fired_at=1000.0, resolved_at=1060.0))
        await until(lambda: bool(server.posts))
    (alert,) = server.posts[0]
    assert (alert["startsAt"], alert["endsAt"]) == ("1970-01-01T00:16:40Z", "1970-01-01T00:17:40Z")


@pytest.mark.parametrize("state", ["firing", "resolved"])
async def test_a_wall_clock_that_was_set_back_makes_no_alert_that_starts_after_its_end(state: str) -> None:
    """Such a one is refused; and a resolved one that ends in the future would go on firing."""
    later = time.time() + 7 * 24 * 3600
    async with serving() as server, posting(server.url) as running:
        ended = later + 60 if state == "resolved" else None
        running.show(told(state=state, fired_at=later, resolved_at=ended))
        await until(lambda: bool(server.posts))
    (alert,) = server.posts[0]
    assert moment(alert["startsAt"]) <= time.time()
    assert moment(alert["endsAt"]) >= moment(alert["startsAt"])
    assert (moment(alert["endsAt"]) <= time.time()) == (state == "resolved")


async def test_a_slow_judge_makes_firing_alerts_last_longer() -> None:
    async with serving() as server, posting(server.url, resend=1.0, interval_s=100.0) as running:
        running.show(told())
        await until(lambda: bool(server.posts))
    assert moment(server.posts[0][0]["endsAt"]) == pytest.approx(time.time() + 400, abs=20)


# When it is posted


async def test_what_is_known_there_is_not_posted_again_with_each_board() -> None:
    hot, lost = told(), told("NpuLost")
    async with serving() as server, posting(server.url) as running:
        running.show(hot)
        await until(lambda: running.member.posts["taken"] == 1)
        running.show(replace(hot, description="92 °C is too hot"), lost)
        await until(lambda: running.member.posts["taken"] == 2)
        running.show(hot, resolved(lost))
        await until(lambda: running.member.posts["taken"] == 3)
    assert server.names == [["NpuHot"], ["NpuLost"], ["NpuLost"]]


async def test_everything_is_posted_again_each_round() -> None:
    hot, lost = told(), told("NpuLost", "resolved")
    async with serving() as server, posting(server.url) as running:
        running.show(hot, lost)
        await until(lambda: running.member.posts["taken"] == 1)
        running.later(FAR_S)
        running.show(hot, lost)
        await until(lambda: running.member.posts["taken"] == 2)
    assert server.names == [["NpuHot", "NpuLost"]] * 2


async def test_rounds_go_on_when_the_judge_stands_still() -> None:
    """Nobody says that it is over, and an alert that is not repeated would end."""
    async with serving() as server, posting(server.url, clock=time.monotonic, resend=0.02) as running:
        running.show(told())
        await until(lambda: len(server.posts) >= 4)
    ends = [moment(post[0]["endsAt"]) for post in server.posts[:4]]
    assert ends == sorted(set(ends))


async def test_an_alert_that_fires_once_more_is_news() -> None:
    hot = told(fired_at=1000.0)
    async with serving() as server, posting(server.url) as running:
        running.show(hot)
        await until(lambda: running.member.posts["taken"] == 1)
        running.show(told(fired_at=2000.0))
        await until(lambda: running.member.posts["taken"] == 2)
    assert [post[0]["startsAt"] for post in server.posts] == ["1970-01-01T00:16:40Z", "1970-01-01T00:33:20Z"]


@pytest.mark.parametrize("then", [(), (told(state="pending"),)], ids=["gone", "pending"])
async def test_a_firing_alert_that_left_the_board_is_posted_once_as_resolved(then: tuple[Told, ...]) -> None:
    """It was resolved and is pending again before anybody looked, or the board forgot it."""
    async with serving() as server, posting(server.url) as running:
        running.show(told())
        await until(lambda: running.member.posts["taken"] == 1)
        running.show(*then)
        await until(lambda: running.member.posts["taken"] == 2)
        running.show(*then, told("NpuLost"))
        await until(lambda: running.member.posts["taken"] == 3)
    assert server.names == [["NpuHot"], ["NpuHot"], ["NpuLost"]]
    assert moment(server.posts[1][0]["endsAt"]) <= time.time()


async def test_boards_that_come_while_a_post_is_under_way_are_skipped_but_for_the_newest() -> None:
    first = told("First")
    async with serving() as server, posting(server.url) as running:
        server.gate.clear()
        running.show(first)
        await until(lambda: bool(server.posts))
        for name in ("Second", "Third", "Fourth"):
            running.show(first, told(name))
        server.gate.set()
        await until(lambda: running.member.posts["taken"] == 2)
    assert server.names == [["First"], ["Fourth"]]


async def test_many_alerts_come_in_batches_of_64() -> None:
    async with serving() as server, posting(server.url) as running:
        running.show(*(told(device_id=str(number)) for number in range(150)))
        await until(lambda: running.member.posts["taken"] == 3)
    assert [len(post) for post in server.posts] == [64, 64, 22]


async def test_nothing_is_posted_on_the_way_out() -> None:
    """What fires goes on firing without us; a daemon that is restarted is no news."""
    async with serving() as server:
        async with posting(server.url) as running:
            running.show(told())
            await until(lambda: running.member.posts["taken"] == 1)
        assert len(server.posts) == 1


# Alerts that are refused


def refusing(*names: str) -> Callable[[list[dict[str, Any]]], web.Response]:
    def answer(alerts: list[dict[str, Any]]) -> web.Response:
        bad = [alert for alert in alerts if alert["labels"]["alertname"] in names]
        return web.json_response("no such name", status=400) if bad else web.Response()

    return answer


async def test_alerts_that_are_refused_are_found_and_the_others_taken() -> None:
    alerts = [told(f"Rule{number}") for number in range(64)]
    async with serving() as server, posting(server.url) as running:
        server.answer = refusing("Rule7", "Rule40")
        running.show(*alerts)
        await until(lambda: running.member.rejected == 2 and running.member.posts["taken"] > 0)
        await until(lambda: len(running.member._known._entries) == 64)
        assert running.member.reason == "alerts that are refused: 2; the last, Rule40/warning: no such name"
    assert {alert.rule for alert in running.member._known.refused} == {"Rule7", "Rule40"}
    assert len(server.posts) < 30


async def test_a_refused_alert_is_not_posted_again_until_it_changes_or_an_hour_is_over() -> None:
    bad, good = told("Bad"), told("Good")
    async with serving() as server, posting(server.url, resend=600.0) as running:
        server.answer = refusing("Bad")
        running.show(bad, good)
        await until(lambda: running.member.posts["taken"] == 1)
        server.posts.clear()
        running.later(600)
        running.show(bad, good)
        await until(lambda: running.member.posts["taken"] == 2)
        running.show(resolved(bad), good)
        await until(lambda: running.member.rejected == 2)
        running.later(3600)
        running.show(resolved(bad), good)
        await until(lambda: running.member.rejected == 3 and running.member.posts["taken"] == 3)
    assert server.names == [["Good"], ["Bad"], ["Bad", "Good"], ["Bad"], ["Good"]]


async def test_a_refusal_is_over_when_its_alert_is() -> None:
    async with serving() as server, posting(server.url) as running:
        server.answer = refusing("Bad")
        running.show(told("Bad"))
        await until(lambda: running.member.rejected == 1)
        running.show(told("Good"))
        await until(lambda: running.member.posts["taken"] == 1)
        assert running.member.reason == ""


async def test_a_refused_alert_is_tried_again_when_the_server_was_away() -> None:
    """A proxy that refused everything, the empty post too, is set right: nothing has to wait for an hour."""
    async with serving() as server, posting(server.url, clock=time.monotonic, resend=0.02) as running:
        server.answer = lambda _: web.Response(status=400, text="go away")
        running.show(told())
        await until(lambda: running.member.rejected >= 1 and running.member.reason == "HTTP 400: go away")
        server.answer = lambda _: web.Response()
        await until(lambda: running.member.reason == "" and bool(running.member._known._entries))
    assert server.posts[-1]


# Members that are away or wrong


async def test_a_dead_and_a_silent_member_delay_no_other() -> None:
    async with (
        serving() as silent,
        serving() as well,
        posting(f"http://127.0.0.1:{free_port()}", silent.url, well.url, timeout=0.05) as running,
    ):
        silent.gate.clear()
        running.show(told())
        dead, slow, fine = running.sink.members
        await until(lambda: fine.posts["taken"] == 1)
        await until(lambda: bool(dead.posts["failed"] and slow.posts["failed"]))
        assert [member.reason for member in running.sink.members] == [
            "connection refused",
            "no answer within 0.05 s",
            "",
        ]


async def test_a_member_that_is_back_gets_everything_of_the_newest_board() -> None:
    """With the times at which it began, and also what ended meanwhile; there is no queue of old boards."""
    async with serving() as server, posting(server.url, clock=time.monotonic, resend=0.05) as running:
        server.answer = lambda _: web.Response(status=500, text="store is full")
        running.show(told("First", fired_at=1000.0))
        await until(lambda: running.member.posts["failed"] >= 2)
        assert running.member.reason == "HTTP 500: store is full"
        running.show(told("First", fired_at=1000.0), told("Second", "resolved", fired_at=1100.0, resolved_at=1160.0))
        server.posts.clear()
        server.answer = lambda _: web.Response()
        await until(lambda: running.member.posts["taken"] >= 1 and bool(server.posts))
        assert running.member.reason == ""
    found = {alert["labels"]["alertname"]: alert["startsAt"] for alert in server.posts[-1]}
    assert found == {"First": "1970-01-01T00:16:40Z", "Second": "1970-01-01T00:18:20Z"}


@pytest.mark.slow
async def test_a_post_that_failed_is_tried_again_with_everything_though_no_board_comes() -> None:
    hot, lost = told(), told("NpuLost")
    async with serving() as server, posting(server.url) as running:
        running.show(hot)
        await until(lambda: running.member.posts["taken"] == 1)
        server.answer = lambda _: web.Response(status=503)
        running.show(hot, lost)
        await until(lambda: running.member.posts["failed"] == 1)
        server.answer = lambda _: web.Response()
        await until(lambda: running.member.posts["taken"] == 2)
    assert server.names == [["NpuHot"], ["NpuLost"], ["NpuHot", "NpuLost"]]


async def test_the_last_success_is_when_the_server_took_something() -> None:
    async with serving() as server, posting(server.url) as running:
        before = running.member.taken_at
        running.show()
        await until(lambda: running.member.posts["taken"] == 1)
        assert before is None
        assert running.member.taken_at == pytest.approx(time.time(), abs=10)


async def test_a_redirection_is_not_taken_for_success() -> None:
    async with serving() as server, posting(server.url) as running:
        server.answer = lambda _: web.Response(status=302, headers={"Location": "/login"})
        running.show(told())
        await until(lambda: running.member.posts["failed"] == 1)
        assert running.member.reason == "HTTP 302: a redirection, which is not followed"


async def test_what_is_no_alertmanager_is_told() -> None:
    async with serving(path="/elsewhere") as server, posting(server.url) as running:
        running.show()
        await until(lambda: running.member.posts["failed"] == 1)
        assert running.member.reason == "HTTP 404: this is no Alertmanager, or one before 0.16"


async def test_a_long_page_of_a_proxy_is_told_in_one_short_line() -> None:
    async with serving() as server, posting(server.url) as running:
        server.answer = lambda _: web.Response(status=502, text="<html>\n" * 1000)
        running.show()
        await until(lambda: running.member.posts["failed"] == 1)
        assert running.member.reason == "HTTP 502: " + ("<html> " * 1000)[:200]


async def test_a_member_may_live_below_a_path() -> None:
    async with serving(path="/am/api/v2/alerts") as server, posting(f"{server.url}/am/") as running:
        running.show()
        await until(lambda: running.member.posts["taken"] == 1)


# Who we are


async def test_a_user_and_the_password_of_a_file_that_is_read_anew(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old\n")
    async with serving() as server, posting(server.url, username="ü", password_file=str(secret)) as running:
        running.show()
        await until(lambda: running.member.posts["taken"] == 1)
        secret.write_text("new\n")
        running.show(told())
        await until(lambda: running.member.posts["taken"] == 2)
    assert [headers["Authorization"] for headers in server.headers] == [
        aiohttp.encode_basic_auth("ü", password, encoding="utf-8") for password in ("old", "new")
    ]


async def test_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    async with serving() as server, posting(server.url, token_file=str(tmp_path / "token")) as running:
        running.show()
        await until(lambda: running.member.posts["taken"] == 1)
    assert server.headers[0]["Authorization"] == "Bearer abc"


@pytest.mark.parametrize("key", ["token_file", "password_file"])
async def test_a_secret_that_is_missing_is_named(tmp_path: Path, key: str) -> None:
    wanted: dict[str, Any] = {key: str(tmp_path / "none")}
    async with serving() as server, posting(server.url, **wanted) as running:
        running.show()
        await until(lambda: running.member.posts["failed"] == 1)
        assert running.member.reason == f"{tmp_path / 'none'}: No such file or directory"


async def test_tls_is_checked_by_the_certificates_given(tmp_path: Path) -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with serving(context) as server:
        async with posting(server.url) as running:
            running.show()
            await until(lambda: running.member.posts["failed"] == 1)
            assert running.member.reason.startswith("TLS: the certificate is not accepted: ")
        async with posting(server.url, tls=settings.Tls(ca_file=str(tmp_path / "ca.pem"))) as running:
            running.show()
            await until(lambda: running.member.posts["taken"] == 1)


# The real Alertmanager

CONFIGURATION = """
route:
  receiver: hook
  group_by: [alertname, instance]
  group_wait: 100ms
  group_interval: 100ms
  repeat_interval: 1h
inhibit_rules:
  - source_matchers: [alertname="NpuLost", severity="critical"]
    target_matchers: [alertname="NpuHot"]
    equal: [instance, device_id]
receivers:
  - name: hook
    webhook_configs:
      - url: {url}/hook
"""


class Alertmanager:
    """A real one on a free loopback port, which can be ended and started again."""

    def __init__(self, folder: Path, hook: str, scheme: str, *options: str) -> None:
        self.url = f"{scheme}://127.0.0.1:{free_port()}"
        self._folder = folder
        self._options = options
        self._process: asyncio.subprocess.Process | None = None
        (folder / "alertmanager.yml").write_text(CONFIGURATION.format(url=hook))

    async def start(self) -> None:
        """Returns when it takes connections."""
        assert ALERTMANAGER is not None
        address = self.url.partition("//")[2]
        with (self._folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                ALERTMANAGER, f"--config.file={self._folder}/alertmanager.yml", f"--storage.path={self._folder}/data",
                f"--web.listen-address={address}", "--cluster.listen-address=", *self._options, stdout=log, stderr=log,
            )  # fmt: skip
        await until(self._is_open)

    def _is_open(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(self.url.rpartition(":")[2]))) == 0

    async def stop(self) -> None:
        """Politely: it writes down what it has told."""
        if self._process is not None:
            self._process.terminate()
            await asyncio.wait_for(self._process.wait(), 10)
            self._process = None

    async def alerts(self) -> dict[str, dict[str, Any]]:
        """What it takes to be firing, by rule and chip."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/api/v2/alerts") as response:
            found = await response.json()
        return {f"{alert['labels']['alertname']}/{alert['labels'].get('device_id')}": alert for alert in found}

    async def has_noted(self) -> None:
        """Wait until it has written to its log what it notified. To be called while it holds alerts of one group.

        A group is looked at again only when it was dealt with before, note included, and each look reads the log.
        """
        looks = await self._looks()
        async with asyncio.timeout(10):
            while await self._looks() == looks:  # noqa: ASYNC110 - it sets no event
                await asyncio.sleep(0.01)

    async def _looks(self) -> str:
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/metrics") as response:
            page = await response.text()
        return page.partition("\nalertmanager_nflog_queries_total ")[2].partition("\n")[0]

    async def holds(self, *names: str) -> dict[str, dict[str, Any]]:
        """The alerts, when they are these."""
        async with asyncio.timeout(10):
            while set(found := await self.alerts()) != set(names):  # noqa: ASYNC110 - it sets no event
                await asyncio.sleep(0.01)
        return found


@asynccontextmanager
async def alertmanager(
    folder: Path, scheme: str = "http", options: tuple[str, ...] = ()
) -> AsyncIterator[tuple[Alertmanager, Server]]:
    """It, and the receiver of its notifications."""
    async with serving(path="/hook") as hook:
        server = Alertmanager(folder, hook.url, scheme, *options)
        await server.start()
        try:
            yield server, hook
        finally:
            await server.stop()


def notified(hook: Server) -> list[tuple[str, list[str]]]:
    """(status, rule and chip of each alert) of each notification."""
    notices: list[Any] = hook.posts
    return [
        (
            notice["status"],
            sorted(f"{alert['labels']['alertname']}/{alert['labels'].get('device_id')}" for alert in notice["alerts"]),
        )
        for notice in notices
    ]


@needs_alertmanager
@pytest.mark.slow
async def test_a_real_one_shows_the_alert_as_it_is_and_ends_it_when_it_does(tmp_path: Path) -> None:
    hot = told(runbook="npu-hot", fired_at=1_700_000_000.5, device_id="3")
    async with alertmanager(tmp_path) as (server, _), posting(server.url) as running:
        running.show(hot)
        found = (await server.holds("NpuHot/3"))["NpuHot/3"]
        running.show(resolved(hot))
        await server.holds()
        assert running.member.reason == ""
    assert found["labels"] == {"alertname": "NpuHot", "severity": "warning", "instance": "node1", "device_id": "3"}
    assert found["annotations"]["runbook_url"] == f"{RUNBOOKS}/npu-hot.md"
    assert (found["startsAt"], found["generatorURL"]) == ("2023-11-14T22:13:20.500Z", LINK)


@needs_alertmanager
@pytest.mark.slow
async def test_alerts_of_a_node_come_as_one_notification_and_their_end_too(tmp_path: Path) -> None:
    first, second = told(device_id="1"), told(device_id="2")
    async with alertmanager(tmp_path) as (server, hook), posting(server.url) as running:
        running.show(first, second)
        await until(lambda: bool(hook.posts))
        running.show(resolved(first), resolved(second))
        await until(lambda: len(hook.posts) >= 2)
    assert notified(hook) == [("firing", ["NpuHot/1", "NpuHot/2"]), ("resolved", ["NpuHot/1", "NpuHot/2"])]


@needs_alertmanager
@pytest.mark.slow
async def test_a_lost_chip_silences_its_heat_and_not_that_of_another(tmp_path: Path) -> None:
    async with alertmanager(tmp_path) as (server, hook), posting(server.url) as running:
        running.show(told("NpuLost", severity="critical", device_id="1"))
        await until(lambda: bool(hook.posts))
        running.show(
            told("NpuLost", severity="critical", device_id="1"), told(device_id="1"), told("NpuHot", device_id="2")
        )
        await until(lambda: len(hook.posts) >= 2)
        found = await server.alerts()
    assert notified(hook) == [("firing", ["NpuLost/1"]), ("firing", ["NpuHot/2"])]
    assert found["NpuHot/1"]["status"]["inhibitedBy"] == [found["NpuLost/1"]["fingerprint"]]


@needs_alertmanager
@pytest.mark.slow
async def test_a_server_that_restarts_loses_nothing_that_fires_and_tells_nobody_again(tmp_path: Path) -> None:
    """It keeps no alerts itself; it knows them again from us, and what it told of them from its own log."""
    hot = told(fired_at=1_700_000_000.0)
    async with (
        alertmanager(tmp_path) as (server, hook),
        posting(server.url, clock=time.monotonic, resend=0.2) as running,
    ):
        running.show(hot)
        await until(lambda: bool(hook.posts))
        await server.has_noted()
        await server.stop()
        await until(lambda: running.member.reason == "connection refused")
        await server.start()
        found = await server.holds("NpuHot/0")
        running.show(hot, told("NpuLost"))
        await until(lambda: len(hook.posts) >= 2)
    assert found["NpuHot/0"]["startsAt"] == "2023-11-14T22:13:20.000Z"
    assert notified(hook) == [("firing", ["NpuHot/0"]), ("firing", ["NpuLost/0"])]


@needs_alertmanager
@pytest.mark.slow
async def test_after_an_absence_what_fires_is_there_and_the_end_of_what_does_not_is_told(tmp_path: Path) -> None:
    """Absence and rounds are compressed. An alert that nobody was told of comes and goes without a word."""
    ends, begins, unseen = told("Ends"), told("Begins", fired_at=1_700_000_000.0), told("Unseen")
    async with (
        alertmanager(tmp_path) as (server, hook),
        posting(server.url, clock=time.monotonic, resend=0.2) as running,
    ):
        running.show(ends)
        await until(lambda: bool(hook.posts))
        await server.has_noted()
        await server.stop()
        running.show(ends, begins, unseen)
        running.show(begins, resolved(ends), resolved(unseen))
        failed = running.member.posts["failed"]
        await until(lambda: running.member.posts["failed"] >= failed + 3)
        await server.start()
        found = await server.holds("Begins/0")
        await until(lambda: len(hook.posts) >= 3)
    assert found["Begins/0"]["startsAt"] == "2023-11-14T22:13:20.000Z"
    assert sorted(notified(hook)) == [
        ("firing", ["Begins/0"]),
        ("firing", ["Ends/0"]),
        ("resolved", ["Ends/0"]),
    ]


@needs_alertmanager
@pytest.mark.slow
async def test_an_alert_that_is_no_longer_posted_ends_there_by_itself(tmp_path: Path) -> None:
    """A daemon that died leaves nothing behind for ever."""
    async with alertmanager(tmp_path) as (server, _):
        async with posting(server.url, clock=time.monotonic, resend=0.2) as running:
            running.show(told())
            await server.holds("NpuHot/0")
        await server.holds()


@needs_alertmanager
@pytest.mark.slow
async def test_a_real_one_gets_every_alert_when_the_other_member_is_dead(tmp_path: Path) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    async with alertmanager(tmp_path) as (server, _), posting(dead, server.url) as running:
        running.show(told())
        await server.holds("NpuHot/0")
        assert [member.posts["taken"] for member in running.sink.members] == [0, 1]


@needs_alertmanager
@pytest.mark.slow
async def test_a_real_one_takes_the_valid_alerts_and_the_invalid_one_is_named(tmp_path: Path) -> None:
    alerts = [told(device_id=str(number)) for number in range(9)]
    odd: dict[str, Any] = {"bad-name": "x"}
    bad = told("Bad", **odd)
    async with alertmanager(tmp_path) as (server, _), posting(server.url) as running:
        running.show(*alerts[:4], bad, *alerts[4:])
        await server.holds(*(f"NpuHot/{number}" for number in range(9)))
        await until(lambda: bool(running.member.reason))
        await until(lambda: running.member.rejected == 1)
        assert running.member.reason == (
            'alerts that are refused: 1; the last, Bad/warning: invalid label set: invalid name "bad-name"'
        )


WEB_CONFIGURATION = """
tls_server_config: {cert_file: cert.pem, key_file: key.pem}
basic_auth_users:
  npumond: $2b$04$abcdefghijklmnopqrstuuFmEfrkTQnczNzw475xE2VhDrK1uwJiC
"""
"""The password is ``right``."""


@needs_alertmanager
@pytest.mark.slow
async def test_a_real_one_with_tls_and_users(tmp_path: Path) -> None:
    authority = trustme.CA()
    own = authority.issue_cert("127.0.0.1")
    own.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    own.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "web.yml").write_text(WEB_CONFIGURATION)
    secret = tmp_path / "secret"
    secret.write_text("wrong\n")
    access: dict[str, Any] = {
        "username": "npumond",
        "password_file": str(secret),
        "tls": settings.Tls(ca_file=f"{tmp_path}/ca.pem"),
    }
    async with (
        alertmanager(tmp_path, "https", (f"--web.config.file={tmp_path}/web.yml",)) as (server, _),
        posting(server.url, clock=time.monotonic, resend=0.2, **access) as running,
    ):
        running.show(told())
        await until(lambda: running.member.reason == "HTTP 401: Unauthorized")
        secret.write_text("right\n")
        await until(lambda: running.member.posts["taken"] >= 1)
