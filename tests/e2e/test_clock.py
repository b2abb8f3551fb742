"""A wall clock that jumps by a day while the daemon runs, and a daemon for which time stood still.

Ages, readiness, staleness and alerts go by a clock that only counts; the wall clock is for telling people the time.
The wall clock is that of the daemon and its children alone: a library in LD_PRELOAD shifts it by what a file says.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import QUICK, Daemon, Page, Values, is_complete, series
from tests.e2e.hosts import host
from tests.e2e.test_page import differences, of_the_chips
from tests.e2e.truth import truth
from tests.standin.build import StandIn
from tests.standin.scenario import Scenario

pytestmark = pytest.mark.slow

DAY = 86_400
WATCHED_S = 3.0
"""Longer than the slow group's interval: every lane has a round after the jump."""
LAST_SUCCESS = "npumond_source_last_success_timestamp_seconds"

FIRING = {"name": "AlwaysHot", "metric": "npu_temperature_celsius", "op": ">", "threshold": -100, "severity": "info"}
PENDING = {**FIRING, "name": "HotForAnHour", "for": "1h"}
RESOLVED = {**FIRING, "name": "WasHot", "threshold": 150}


class Clock:
    """The wall clock of the daemon that was started under it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def shift(self, seconds: int) -> None:
        """Set it so far ahead of the true one."""
        new = self._path.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(self._path)


@pytest.fixture
def clock(standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """For daemons that are started in the test; the test itself keeps the true time."""
    monkeypatch.setenv("LD_PRELOAD", str(standin.clock))
    monkeypatch.setenv("NPUMOND_STANDIN_CLOCK", str(tmp_path / "clock"))
    return Clock(tmp_path / "clock")


Alerts = dict[tuple[str, str], tuple[str, float, float | None]]


def alerts(daemon: Daemon) -> Alerts:
    """State, and when it began and fired, by rule and device."""
    told = json.loads(daemon.get("/api/v1/alerts")[2])["alerts"]
    return {
        (alert["rule"], alert["labels"].get("device_id", "")): (alert["state"], alert["since"], alert["fired_at"])
        for alert in told
    }


def ages(daemon: Daemon) -> dict[tuple[str, str], float]:
    """Seconds since the last success, by source and group."""
    told = json.loads(daemon.get("/api/v1/status")[2])["sources"]
    return {(source["source"], source["group"]): source["age_s"] for source in told}


@pytest.mark.parametrize("jumps", [(DAY, 0), (-DAY, 0), (DAY, -DAY, 0)], ids=["ahead", "back", "to and fro"])
def test_a_jump_of_the_wall_clock_changes_nothing_but_the_time_that_is_told(
    standin: StandIn, tmp_path: Path, clock: Clock, jumps: tuple[int, ...]
) -> None:
    """Series, values, `npu_device_up`, readiness, ages, energy and alerts stay: one that fires, one that has an hour to
    go, one that is told as resolved for another quarter of an hour.
    """
    with Daemon(tmp_path, standin, fever(), call_timeout="1s") as daemon:
        before = with_alerts(daemon)
        for jump in jumps:
            joules = energy(daemon.scrape())
            clock.shift(jump)
            told = daemon.page_when(tells_the_time(jump), "it tells the new time", 10)
            seen = watch(daemon, WATCHED_S)
            assert differences(of_the_chips(told.values), truth(host("910b"))) == []
            assert seen == {200}
            assert alerts(daemon) == before
            assert max(ages(daemon).values()) < 10
            assert all(0 < now - joules[chip] < 200 * 30 for chip, now in energy(daemon.scrape()).items())


def fever() -> Scenario:
    """The usual host, one chip of which is very hot."""
    scenario = host("910b")
    scenario.chip(2).temperature = 200
    return scenario


def with_alerts(daemon: Daemon) -> Alerts:
    """Have an alert of each kind, and all of the chips on the page; the host is the usual one then."""
    daemon.configure(sampling=QUICK, rules={"extra": [FIRING, PENDING, RESOLVED]})
    os.kill(daemon.pid, signal.SIGHUP)
    daemon.until(lambda: alerts(daemon).get(("WasHot", "2"), ("",))[0] == "firing", "the hot chip is told", 10)
    daemon.put(host("910b"))
    daemon.until(lambda: alerts(daemon)["WasHot", "2"][0] == "resolved", "it has cooled down", 10)
    daemon.page_when(is_complete, "every lane of every device has reported")
    states = {(rule, state) for (rule, _), (state, *_) in alerts(daemon).items()}
    assert {("AlwaysHot", "firing"), ("HotForAnHour", "pending"), ("WasHot", "resolved")} <= states
    return alerts(daemon)


def energy(page: Page) -> dict[str, float]:
    """Joules by device. A chip of the host draws less than 200 W."""
    return {dict(labels)["device_id"]: value for labels, value in page.of("npu_energy_joules_total").items()}


def tells_the_time(shift: int) -> Callable[[Page], bool]:
    """Whether all times of the last success on a page are those of the clock that is so far ahead."""

    def holds(page: Page) -> bool:
        told = page.of(LAST_SUCCESS).values()
        return bool(told) and all(abs(time.time() + shift - moment) < 30 for moment in told)

    return holds


def watch(daemon: Daemon, for_s: float) -> set[int]:
    """Look at pages for a while: none lacks a chip. What readiness answered."""
    answers, end = set(), time.monotonic() + for_s
    while time.monotonic() < end:
        answers.add(daemon.get("/-/ready")[0])
        assert set(daemon.scrape().of("npu_device_up").values()) == {1.0}
        time.sleep(0.02)
    return answers


# ---- a daemon that was stopped ----

STOPPED_S = 4.0
"""Longer than any reading may be shown at these intervals: twice the slow one and a call's deadline are 3 s."""


@pytest.fixture
def stopped(standin: StandIn, tmp_path: Path) -> Iterator[Callable[[], tuple[Daemon, Page, Page]]]:
    """Stops a daemon for a while in which every chip grows hotter."""
    with Daemon(tmp_path, standin, host("910b"), call_timeout="1s") as daemon:
        yield lambda: stopped_for_a_while(daemon)


def heated() -> Values:
    """Temperatures of the chips after the daemon was stopped."""
    return {key: value for key, value in truth(hot()).items() if key[0] == "npu_temperature_celsius"}


def hot() -> Scenario:
    """The usual host when every chip has the same temperature, another than before."""
    scenario = host("910b")
    for chip in scenario.chips:
        chip.temperature = 77
    return scenario


def stopped_for_a_while(daemon: Daemon) -> tuple[Daemon, Page, Page]:
    """The page before, and the answer to a request that was sent in the middle of it."""
    before = daemon.page_when(is_complete, "every lane of every device has reported")
    os.kill(daemon.pid, signal.SIGSTOP)
    daemon.put(hot())
    connection = http.client.HTTPConnection(*daemon.address, timeout=10)
    connection.request("GET", "/metrics", headers={"Accept": "text/plain;version=0.0.4"})
    time.sleep(STOPPED_S)  # the point of the test: time that passes while the daemon stands still
    os.kill(daemon.pid, signal.SIGCONT)
    response = connection.getresponse()
    answer = Page(response.read().decode(), response.headers["Content-Type"])
    connection.close()
    return daemon, before, answer


def test_nothing_old_is_shown_to_who_asked_while_the_daemon_stood_still(
    stopped: Callable[[], tuple[Daemon, Page, Page]],
) -> None:
    """A reading that is older than it may be is not on the page, though nobody was there to take it off."""
    _, _, answer = stopped()
    shown = {key: value for key, value in answer.values.items() if key[0] == "npu_temperature_celsius"}
    assert shown.items() <= heated().items()


def test_slots_that_passed_while_the_daemon_stood_still_are_counted(
    stopped: Callable[[], tuple[Daemon, Page, Page]],
) -> None:
    """As missed, of each group by its interval, and not made up for."""
    daemon, before, _ = stopped()
    missed = series("npumond_missed_slots_total", source="npu", group="fast")
    at_least = before.values.get(missed, 0.0) + STOPPED_S / 0.2 - 2
    daemon.page_when(lambda page: page.values.get(missed, 0.0) >= at_least, "the missed slots are counted", 5)
    daemon.page_when(lambda page: heated().items() <= page.values.items(), "the chips are read again", 5)
