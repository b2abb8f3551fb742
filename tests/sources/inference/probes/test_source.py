"""Probes book what they find, and what answers them is a target like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from npumond.config.settings import Probe
from npumond.demo.servers import InferenceServers
from npumond.model import Sample
from npumond.sources.inference.latency_samples import Telling
from npumond.sources.inference.measured import Requests
from npumond.sources.inference.probes.source import BOOK, ProbeSource
from tests.sources.inference.probes.test_request import Clock, answering
from tests.sources.inference.servers import serving


def source(*probes: Probe, clock: Clock | None = None) -> ProbeSource:
    clock = clock or Clock()
    book = Requests("probe", 60.0, Telling(min_requests=1, aliases=False), clock)
    return ProbeSource(probes, book, 1.0, clock, jitter=lambda most: 0.0)


async def shown(probes: ProbeSource) -> Mapping[tuple[str, ...], float]:
    """Every sample by family and labels."""
    (batch,) = (await probes.sample(BOOK)).batches
    return {(sample.family, *sample.labels): sample.value for sample in batch.samples if not sample.suffix}


async def test_before_the_first_request_nothing_is_known() -> None:
    probes = source(Probe(url="http://127.0.0.1:1/x"))
    assert await shown(probes) == {}
    (state,) = probes.json()
    assert (state["up"], state["reason"]) == (False, "not asked yet")


async def test_a_good_answer_is_a_success_with_a_latency() -> None:
    async with serving(answering("well")) as address:
        probes = source(Probe(url=f"{address}/health?key=secret", model="m"))
        sampled = await probes.sample(f"{address}/health m")
        seen = await shown(probes)
        await probes.close()
    target = f"{address}/health"
    assert sampled.reason == ""
    assert seen["inference_target_up", target, "probe"] == 1.0
    assert seen["inference_requests_total", "m", target, "success"] == 1.0
    assert seen["inference_success_ratio", "m", target] == 1.0
    assert ("inference_latency_seconds", "m", target, "e2e", "0.99") in seen


async def test_a_bad_answer_is_an_error_without_one() -> None:
    async with serving(answering("no", 500)) as address:
        probes = source(Probe(url=f"{address}/health", model="m"))
        sampled = await probes.sample(f"{address}/health m")
        seen = await shown(probes)
        await probes.close()
    assert sampled.reason == "HTTP 500"
    assert seen["inference_target_up", f"{address}/health", "probe"] == 0.0
    assert seen["inference_requests_total", "m", f"{address}/health", "error"] == 1.0
    assert not any(family == "inference_latency_seconds" for family, *_ in seen)


async def test_a_target_with_two_probes_is_up_when_both_are() -> None:
    async def handle(request: web.Request) -> web.Response:
        asked: dict[str, Any] = await request.json()
        return web.Response(status=200 if asked["model"] == "a" else 404, text='{"choices": [{}]}')

    async with serving(handle) as address:
        url = f"{address}/v1/completions"
        probes = source(*(Probe(url=url, model=model, stream=False) for model in "ab"))
        await probes.sample(f"{url} a")
        first = await shown(probes)
        await probes.sample(f"{url} b")
        second = await shown(probes)
        await probes.close()
    assert (first["inference_target_up", url, "probe"], second["inference_target_up", url, "probe"]) == (1.0, 0.0)


async def test_the_daemons_of_a_fleet_do_not_ask_at_once() -> None:
    """The first request waits for a part of the interval, and the later ones keep that distance from it."""
    waits: list[float] = []

    def jitter(most: float) -> float:
        waits.append(most)
        return 0.01

    async with serving(answering("well")) as address:
        book = Requests("probe", 60.0, Telling(min_requests=1, aliases=False), Clock())
        probes = ProbeSource((Probe(url=f"{address}/x", interval=7.0),), book, 1.0, Clock(), jitter)
        pauses = []
        for _ in range(3):
            await probes.sample(f"{address}/x")
            pauses.append(probes.intervals[f"{address}/x"])
        await probes.close()
    assert (waits, pauses) == ([7.0], [7.01, 7.0, 7.0])


def test_probes_that_differ_in_the_query_alone_are_all_made() -> None:
    probes = source(*(Probe(url=f"http://127.0.0.1:1/x?part={part}") for part in "abc"))
    groups = [group for group in probes.intervals if group != BOOK]
    assert groups == ["http://127.0.0.1:1/x", "http://127.0.0.1:1/x (2)", "http://127.0.0.1:1/x (3)"]


async def test_a_kserve_model_that_was_replaced_is_asked_again_what_it_takes() -> None:
    size = 4

    async def handle(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({"inputs": [{"name": "x", "datatype": "FP32", "shape": [size]}]})
        asked: dict[str, Any] = await request.json()
        fits = asked["inputs"][0]["shape"] == [size]
        return web.json_response({"outputs": []} if fits else {"error": "wrong shape"}, status=200 if fits else 400)

    async with serving(handle) as address:
        url = f"{address}/v2/models/resnet/infer"
        probes = source(Probe(url=url))
        reasons = [(await probes.sample(url)).reason]
        size = 8
        reasons += [(await probes.sample(url)).reason for _ in range(2)]
        await probes.close()
    assert reasons == ["", "HTTP 400: wrong shape", ""]


async def test_the_simulated_server_is_probed_token_by_token() -> None:
    servers = InferenceServers(8)
    await servers.start()
    try:
        url = servers.targets[0].url.replace("/metrics", "/v1/chat/completions")
        probes = source(Probe(url=url))
        sampled = await probes.sample(url)
        samples: tuple[Sample, ...] = (await probes.sample(BOOK)).batches[0].samples
        await probes.close()
    finally:
        await servers.stop()
    assert sampled.reason == ""
    kinds = {sample.labels[2] for sample in samples if sample.family == "inference_latency_seconds"}
    assert kinds == {"e2e", "ttft", "itl"}
    assert {sample.labels[0] for sample in samples if sample.family == "inference_success_ratio"} == {"qwen3-0.6b"}
