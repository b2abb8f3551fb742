"""A probe tells what a client sees: true durations of good answers, and of all others the exact reason."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from npumond.config.settings import Probe
from npumond.sources.inference.connection import TlsContexts, new_session
from npumond.sources.inference.probes import request as probing
from npumond.sources.inference.probes.request import Outcome, ProbeError, endpoint, made_up, model_of, send

CHAT, COMPLETIONS, INFER = "/v1/chat/completions", "/v1/completions", "/v2/models/resnet/infer"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Parts = tuple[bytes | float, ...]
"""Of a stream: bytes to send, and seconds on the clock that pass before the next."""


class Clock:
    """Seconds that pass only where the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A server that answers everything by this handler; gives its address."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def answering(body: str | dict[str, Any], status: int = 200) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=body if isinstance(body, str) else json.dumps(body), status=status)

    return handle


def chunk(content: str = "", finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return b"data: " + json.dumps({"model": "qwen3", "choices": [choice], **more}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def asked(handler: Handler, path: str = CHAT, clock: Clock | None = None, **probe: Any) -> Outcome:
    """What a probe of this path finds."""
    async with serving(handler) as address, new_session() as session:
        wanted = Probe(url=address + path, **probe)
        return await send(session, TlsContexts(), wanted, endpoint(wanted), clock or Clock())


def streaming(clock: Clock, *parts: bytes | float) -> Handler:
    """An event stream; a number lets so many seconds pass, once everything before it has been read."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for part in parts:
            if isinstance(part, bytes):
                await response.write(part)
            else:
                await asyncio.sleep(0.05)
                clock.now += part
        return response

    return handle


async def test_the_first_token_is_the_first_piece_with_content(clock: Clock) -> None:
    parts = (chunk(), 0.5, chunk("He"), 0.2, chunk("l"), 0.2, chunk("lo"), 0.1, chunk(finish="stop"), DONE)
    found = await asked(streaming(clock, *parts), clock=clock)
    assert (found.status, found.model) == ("success", "qwen3")
    assert (found.ttft_s, found.itl_s, found.e2e_s) == pytest.approx((0.5, 0.2, 1.0))


async def test_a_piece_may_come_in_parts(clock: Clock) -> None:
    whole = chunk("Hello", "stop")
    found = await asked(streaming(clock, whole[:20], 0.5, whole[20:], DONE), clock=clock)
    assert found.ttft_s == pytest.approx(0.5)
    assert found.itl_s is None


async def test_a_finish_reason_ends_a_stream_as_well_as_a_word(clock: Clock) -> None:
    assert (await asked(streaming(clock, chunk("Hello", "length")))).status == "success"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((chunk("He"),), "the stream ended without [DONE] and without a finish reason"),
        ((chunk(finish="stop"), DONE), "the stream held no content"),
        (
            (chunk("He"), b'data: {"error": {"message": "out of memory"}}\n\n'),
            "the stream holds an error: out of memory",
        ),
        ((chunk("He"), b'data: {"object": "error", "message": "bad"}\n\n'), "the stream holds an error: bad"),
    ],
)
async def test_a_stream_that_is_not_well_is_an_error_though_its_status_was_200(parts: Parts, reason: str) -> None:
    found = await asked(streaming(Clock(), *parts))
    assert found == Outcome(status="error", reason=reason)


async def test_a_stream_that_breaks_is_an_error() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(chunk("He"))
        assert request.transport is not None
        request.transport.abort()
        return response

    found = await asked(handle)
    assert found.reason in ("the answer was cut off", "the server closed the connection before its answer was whole")


async def test_an_answer_that_is_not_streamed_has_no_first_token(clock: Clock) -> None:
    found = await asked(answering({"model": "qwen3", "choices": [{"message": {"content": "Hello"}}]}), stream=False)
    assert found == Outcome(status="success", model="qwen3", e2e_s=0.0)


@pytest.mark.parametrize(
    ("path", "handler", "reason"),
    [
        (CHAT, answering("overloaded", 503), "HTTP 503"),
        (CHAT, answering({"error": {"message": "no such model"}}, 404), "HTTP 404: no such model"),
        (CHAT, answering({"object": "error", "message": "too long"}, 400), "HTTP 400: too long"),
        (CHAT, answering("", 302), "HTTP 302"),
        (COMPLETIONS, answering("<html></html>"), "the answer has no choices"),
        (COMPLETIONS, answering({"error": "broken"}), "the answer is an error: broken"),
        ("/health", answering("", 429), "HTTP 429"),
    ],
)
async def test_an_answer_that_is_none_has_its_reason_and_no_latency(path: str, handler: Handler, reason: str) -> None:
    assert await asked(handler, path) == Outcome(status="error", reason=reason)


async def test_any_page_is_well_with_the_expected_status() -> None:
    assert (await asked(answering("", 401), "/metrics", expect_status=401)).status == "success"


async def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "MOST_BYTES", 1 << 20)
    assert (await asked(answering("x" * (2 << 20)), "/big")).reason == "the answer is larger than 1 MiB"


async def test_a_server_that_trickles_is_ended_by_the_deadline() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(chunk("x"))
            await asyncio.sleep(0.01)

    assert await asked(handle, timeout=0.2) == Outcome(status="error", reason="no answer within 0.2 s")


async def test_a_server_that_is_not_there_has_no_latency() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        probe = Probe(url=f"http://127.0.0.1:{taken.getsockname()[1]}{CHAT}")
        async with new_session() as session:
            found = await send(session, TlsContexts(), probe, endpoint(probe), Clock())
    assert found == Outcome(status="error", reason="connection refused")


async def seen_by(path: str, **probe: Any) -> tuple[str, dict[str, Any] | None]:
    """Method and body that a server gets."""
    seen: list[tuple[str, dict[str, Any] | None]] = []

    async def handle(request: web.Request) -> web.Response:
        text = await request.text()
        seen.append((request.method, json.loads(text) if text else None))
        return web.Response(text="{}")

    await asked(handle, path, **probe)
    return seen[0]


async def test_a_chat_is_asked_for_with_what_the_settings_say() -> None:
    method, body = await seen_by(CHAT, model="m", prompt="Hi", max_tokens=3)
    assert method == "POST"
    expected = {"messages": [{"role": "user", "content": "Hi"}], "model": "m", "max_tokens": 3, "temperature": 0}
    assert body == {**expected, "stream": True}


async def test_a_completion_is_asked_for_by_its_path() -> None:
    _, body = await seen_by(COMPLETIONS, prompt="Hi", stream=False)
    assert body == {"prompt": "Hi", "max_tokens": 8, "temperature": 0, "stream": False}


async def test_a_body_is_sent_as_it_is() -> None:
    assert await seen_by(CHAT, body='{"messages": []}') == ("POST", {"messages": []})


async def test_without_anything_to_send_it_is_a_get() -> None:
    assert await seen_by("/health") == ("GET", None)


@pytest.mark.parametrize(
    ("probe", "model"),
    [
        (Probe(url=f"http://h{CHAT}", model="m"), "m"),
        (Probe(url=f"http://h{CHAT}", body='{"model": "n"}'), "n"),
        (Probe(url=f"http://h{CHAT}", body="no JSON"), ""),
        (Probe(url=f"http://h{INFER}"), "resnet"),
    ],
)
def test_the_model_is_named_by_settings_body_or_path(probe: Probe, model: str) -> None:
    assert model_of(probe) == model


# ---- KServe ----

METADATA = {
    "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [-1, 2, 2]},
        {"name": "t", "datatype": "BYTES", "shape": [1]},
    ]
}


async def invented(metadata: Handler) -> Any:
    async with serving(metadata) as address, new_session() as session:
        return json.loads(await made_up(session, TlsContexts(), Probe(url=address + INFER)))


async def test_a_kserve_model_says_itself_what_it_takes() -> None:
    assert await invented(answering(METADATA)) == {
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [1, 2, 2], "data": [0, 0, 0, 0]},
            {"name": "t", "datatype": "BYTES", "shape": [1], "data": [""]},
        ]
    }


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        (answering("", 404), "the model's metadata cannot be read: HTTP 404"),
        (answering({}), "the model's metadata names no inputs; give the probe a body"),
        (answering({"inputs": [{"name": "x"}]}), "the model's metadata has an input without name, shape or datatype"),
        (answering({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1 << 11, 1 << 11]}]}),
         "the model's input x has 4194304 elements; give the probe a body"),
    ],
)  # fmt: skip
async def test_a_model_that_does_not_say_is_told(metadata: Handler, reason: str) -> None:
    with pytest.raises(ProbeError) as caught:
        await invented(metadata)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("answer", "status"),
    [({"model_name": "resnet", "outputs": []}, "success"), ({"error": "bad shape"}, "error"), ({}, "error")],
)
async def test_a_kserve_answer_has_outputs(answer: dict[str, Any], status: str) -> None:
    assert (await asked(answering(answer), INFER, body="{}")).status == status
