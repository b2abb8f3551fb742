"""Targets over real HTTP: pages that follow one another, pauses between tries, and what the status tells."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from npumond.config.settings import Target
from npumond.sources.inference.latency_samples import Telling
from npumond.sources.inference.targets import source as module
from npumond.sources.inference.targets.source import MOST_PAUSE_S, TargetSource
from tests.sources.inference.targets.pages import histogram, http, line, page

SAMPLES = Path(__file__).parents[5] / "shared" / "samples" / "inference"
VLLM = [f"synthetic-vllm-v1-dp2-scrape{name}.prom" for name in ("1", "2", "3-idle", "4-restarted")]
Seen = Mapping[tuple[str, ...], float]


class Server:
    """Answers with one page after another; the last one stays."""

    def __init__(self) -> None:
        self.pages: list[bytes | int] = []
        self.asked = 0
        self.url = ""

    async def get(self, request: web.Request) -> web.Response:
        self.asked += 1
        told = self.pages[0] if len(self.pages) == 1 else self.pages.pop(0)
        return web.Response(status=told) if isinstance(told, int) else web.Response(body=told)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_get("/metrics", made.get)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    yield made
    await runner.cleanup()


class Reading:
    """A source with one target, and the time that the test lets pass."""

    def __init__(self, url: str, **target: Any) -> None:
        self.now = 0.0
        self.target = Target(url=url, name="t", **target)
        telling = Telling(min_requests=10, aliases=False)
        self.source = TargetSource([(self.target, None)], 60.0, telling, dict, lambda: self.now)

    async def round(self, later_s: float = 5.0) -> Seen:
        """One round, so many seconds after the one before."""
        self.now += later_s
        (batch,) = (await self.source.sample("t")).batches
        return {(sample.family, *sample.labels): sample.value for sample in batch.samples}

    async def rounds(self, pages: Sequence[object], later_s: float = 30.0) -> list[Seen]:
        return [await self.round(later_s) for _ in pages]


def vllm(good: float, bad: float = 0, sizes: tuple[float, ...] | None = None) -> bytes:
    buckets = histogram("vllm:e2e_request_latency_seconds", (0.1, 0.2), sizes or (good, 0, 0), 1.0, model_name="m")
    return page(buckets, http({"2xx": good, "5xx": bad}))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the sample pages are not there")
async def test_four_pages_of_vllm_are_window_idle_and_restart(server: Server) -> None:
    """The second 30 s after the first, then an idle minute and a half, then a server that began anew."""
    server.pages = [(SAMPLES / name).read_bytes() for name in VLLM]
    reading = Reading(server.url)
    first, second = await reading.rounds(VLLM[:2])
    idle = await reading.round(90.0)
    restarted = await reading.round(30.0)
    await reading.source.close()
    p99 = ("inference_latency_seconds", "qwen3-32b", "t", "e2e", "0.99")
    ratio = ("inference_success_ratio", "qwen3-32b", "t")
    assert p99 not in first
    assert ratio not in first
    assert second[ratio] == pytest.approx(600 / 602)
    assert second[p99] == pytest.approx(9.873584905660378)
    assert p99 not in idle
    assert ratio not in idle
    assert restarted[ratio] == pytest.approx(50 / 51)
    assert restarted["inference_target_restarts_total", "t"] == 1.0
    errors = ("inference_requests_total", "qwen3-32b", "t", "error")
    assert restarted[errors] == second[errors] + 1, "though the server's own counter has its old value"


async def test_totals_stay_while_the_server_is_away_and_what_is_of_the_moment_goes(server: Server) -> None:
    server.pages = [vllm(0), vllm(100, 1), 503]
    reading = Reading(server.url)
    await reading.round()
    up, down = await reading.round(), await reading.round()
    await reading.source.close()
    assert up["inference_success_ratio", "m", "t"] == pytest.approx(100 / 101)
    assert ("inference_success_ratio", "m", "t") not in down
    assert down["inference_requests_total", "m", "t", "success"] == 100.0
    assert down["inference_target_up", "t", "vllm"] == 0.0


async def test_a_server_that_does_not_answer_is_asked_less_and_less_and_is_back_at_once(server: Server) -> None:
    server.pages = [503]
    reading = Reading(server.url)
    asked = []
    for _ in range(40):
        await reading.round()
        asked.append(server.asked)
    assert asked[:2] == [1, 2]
    assert asked[-1] <= 3 + 40 * 5 / MOST_PAUSE_S
    server.pages = [vllm(1)]
    for _ in range(int(MOST_PAUSE_S // 5)):
        seen = await reading.round()
    before = server.asked
    await reading.round()
    await reading.source.close()
    assert seen["inference_target_up", "t", "vllm"] == 1.0
    assert server.asked == before + 1


async def test_a_large_page_is_read_beside_the_loop(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_A_THREAD", 10)
    server.pages = [vllm(0), vllm(50)]
    reading = Reading(server.url)
    await reading.round()
    seen = await reading.round()
    await reading.source.close()
    assert seen["inference_latency_observations", "m", "t", "e2e"] == 50.0


async def test_the_chips_that_the_settings_name_are_its_own(server: Server) -> None:
    server.pages = [vllm(0)]
    reading = Reading(server.url, device_ids=(4, 5))
    seen = await reading.round()
    (state,) = reading.source.json(0.1)
    await reading.source.close()
    assert seen["npu_workload_info", "4", "", "", "t", "inference"] == 1.0
    assert state["device_ids"] == [4, 5]


@pytest.mark.parametrize(("sizes", "notes"), [((0, 99, 1), 0), ((100, 0, 0), 0), ((0, 0, 100), 1), ((98, 0, 2), 1)])
async def test_the_status_tells_where_the_buckets_do_not(server: Server, sizes: tuple[float, ...], notes: int) -> None:
    """At a threshold of 0.15 s, between the bounds 0.1 and 0.2, or 0.3 s, above them all."""
    server.pages = [vllm(0, sizes=(0, 0, 0)), vllm(100, sizes=sizes)]
    reading = Reading(server.url)
    await reading.round()
    await reading.round()
    (state,) = reading.source.json(0.3)
    await reading.source.close()
    assert isinstance(state["notes"], list)
    assert len(state["notes"]) == notes


async def test_a_page_of_nobody_is_told(server: Server) -> None:
    server.pages = [page(line("node_load1", 0.5))]
    reading = Reading(server.url)
    seen = await reading.round()
    (state,) = reading.source.json(None)
    await reading.source.close()
    assert seen["inference_target_up", "t", "unknown"] == 0.0
    assert state["reason"] == "the page has series of no server that is known; name its kind with `server`"
