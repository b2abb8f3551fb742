"""The made-up servers over real HTTP."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from npumond.demo.servers import MINDIE, VLLM, DemoTarget, InferenceServers, Kind
from npumond.demo.traffic import Spell
from npumond.errors import ListenError

ALWAYS = Spell(period_s=1, start_s=0, length_s=1)
FAILING = structs.replace(VLLM, traffic=structs.replace(VLLM.traffic, failing=ALWAYS, failed_share=1.0))
HELLO = {"model": "qwen3-0.6b", "messages": [{"role": "user", "content": "Hello"}]}


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def serving(
    devices: int = 8, *, clock: Clock | None = None, pace: float = 1.0, vllm: Kind = VLLM
) -> AsyncIterator[tuple[InferenceServers, aiohttp.ClientSession]]:
    """Servers that run, and a client."""
    servers = InferenceServers(devices, pace=pace, clock=clock or Clock(), kinds=(vllm, MINDIE))
    await servers.start()
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session:
            yield servers, session
    finally:
        await servers.stop()


async def text(session: aiohttp.ClientSession, url: str) -> str:
    """The body of an answer that is well."""
    async with session.get(url) as response:
        assert response.status == 200
        return await response.text()


def counted(page: str, name: str) -> float:
    """Sum of a sample over all its labels."""
    samples = (each for family in text_string_to_metric_families(page) for each in family.samples)
    return sum(each.value for each in samples if each.name == name)


def chat_url(target: DemoTarget) -> str:
    """Where the server of this target takes requests."""
    return target.url.removesuffix("/metrics") + "/v1/chat/completions"


async def asked(session: aiohttp.ClientSession, target: DemoTarget, body: dict[str, Any]) -> tuple[int, bytes]:
    """Status and body of a chat request."""
    async with session.post(chat_url(target), json=body) as response:
        return response.status, await response.read()


@pytest.mark.parametrize(
    ("devices", "served"),
    [
        (8, [("vllm", (0, 1, 2, 3)), ("mindie", (4, 5, 6, 7))]),
        (16, [("vllm", (0, 1, 2, 3)), ("mindie", (4, 5, 6, 7))]),
        (6, [("vllm", (0, 1, 2, 3)), ("mindie", (4, 5))]),
        (1, [("vllm", (0,))]),
    ],
)
async def test_servers_run_on_the_chips_that_there_are(devices: int, served: list[tuple[str, tuple[int, ...]]]) -> None:
    async with serving(devices) as (servers, _):
        assert [(target.server, target.device_ids) for target in servers.targets] == served


async def test_a_page_over_http_has_the_content_type_of_its_server() -> None:
    async with serving() as (servers, session):
        kinds = []
        for target in servers.targets:
            async with session.get(target.url) as response:
                kinds.append(response.headers["Content-Type"])
    assert kinds == ["text/plain; version=0.0.4; charset=utf-8", "text/plain; charset=utf-8"]


async def test_totals_go_on_with_the_clock() -> None:
    clock = Clock()
    async with serving(clock=clock) as (servers, session):
        url = servers.targets[0].url
        first = counted(await text(session, url), "vllm:e2e_request_latency_seconds_count")
        clock.now += 20
        later = counted(await text(session, url), "vllm:e2e_request_latency_seconds_count")
    assert first == 0
    assert later > 300


async def test_a_faster_pace_tells_more_of_the_story_in_the_same_time() -> None:
    clock, fast_clock = Clock(), Clock()
    async with serving(clock=clock) as (servers, session), serving(clock=fast_clock, pace=4.0) as (fast, _):
        clock.now += 20
        fast_clock.now += 5
        pages = [await text(session, each.targets[1].url) for each in (servers, fast)]
    assert pages[0] == pages[1]


async def test_health_is_answered() -> None:
    async with serving() as (servers, session):
        for target in servers.targets:
            assert await text(session, target.url.replace("/metrics", "/health")) == ""


async def test_a_chat_request_is_answered() -> None:
    async with serving() as (servers, session):
        status, body = await asked(session, servers.targets[0], HELLO)
    answer = msgspec.json.decode(body)
    words = answer["choices"][0]["message"]["content"].split()
    assert (status, answer["model"], answer["usage"]["completion_tokens"]) == (200, "qwen3-0.6b", len(words))


async def test_a_chat_request_is_answered_token_by_token() -> None:
    async with serving() as (servers, session):
        status, body = await asked(session, servers.targets[0], {**HELLO, "stream": True, "max_tokens": 3})
    events = body.decode().removesuffix("\n\n").split("\n\n")
    assert (status, events.pop()) == (200, "data: [DONE]")
    chunks = [msgspec.json.decode(event.removeprefix("data: ")) for event in events]
    choices = [chunk["choices"][0] for chunk in chunks]
    assert [choice["delta"].get("content") for choice in choices] == ["word0", " word1", " word2", None]
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "length"]
    assert chunks[-1]["usage"]["completion_tokens"] == 3


async def test_a_stream_says_so_in_its_content_type() -> None:
    body = {**HELLO, "stream": True}
    async with serving() as (servers, session), session.post(chat_url(servers.targets[0]), json=body) as response:
        assert response.content_type == "text/event-stream"


async def test_a_client_that_leaves_in_the_middle_of_a_stream_harms_nobody() -> None:
    async with serving() as (servers, session):
        async with session.post(chat_url(servers.targets[0]), json={**HELLO, "stream": True}) as response:
            await response.content.readuntil(b"\n\n")
            response.close()
        assert (await asked(session, servers.targets[0], HELLO))[0] == 200


async def test_requests_that_somebody_sends_are_on_the_page() -> None:
    clock = Clock()
    async with serving(clock=clock) as (asked_too, session), serving(clock=clock) as (servers, _):
        await asked(session, asked_too.targets[0], HELLO)
        clock.now += 0.9
        page, without = [await text(session, each.targets[0].url) for each in (asked_too, servers)]
    assert counted(page, "http_requests_total") == counted(without, "http_requests_total") + 1


async def test_a_request_fails_while_the_server_fails() -> None:
    async with serving(vllm=FAILING) as (servers, session):
        status, body = await asked(session, servers.targets[0], {**HELLO, "stream": True})
    assert (status, msgspec.json.decode(body)["error"]["type"]) == (500, "InternalServerError")


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"model": "qwen3-0.6b"}, 400, "messages"),
        ({**HELLO, "messages": []}, 400, "messages"),
        ({**HELLO, "max_tokens": 0}, 400, "max_tokens"),
        ({**HELLO, "model": "gpt"}, 404, "'qwen3-0.6b'"),
    ],
)
async def test_a_request_that_is_wrong_is_told_why(body: dict[str, Any], status: int, reason: str) -> None:
    async with serving() as (servers, session):
        answer = await asked(session, servers.targets[0], body)
    assert answer[0] == status
    assert reason in msgspec.json.decode(answer[1])["error"]["message"]


async def test_a_port_that_is_taken_is_named_and_the_other_server_stops_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as probe:
        free = probe.getsockname()[1]
        probe.close()
        servers = InferenceServers(8, ports=(free, taken.getsockname()[1]))
        with pytest.raises(ListenError, match=f"mindie server cannot listen on 127.0.0.1:{taken.getsockname()[1]}"):
            await servers.start()
        assert servers.targets == []
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", free), timeout=1)


async def test_after_stop_nobody_listens() -> None:
    async with serving() as (servers, session):
        targets = servers.targets
        await servers.stop()
        await servers.stop()
        for target in targets:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(target.url)
