"""A probe tells what a client sees: true durations of good answers, and of all others the exact reason."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from npumond.config.settings import Probe, Tls
from npumond.connection import WANTS_CERTIFICATE, TlsContexts, new_session
from npumond.sources.inference.probes import request as probing
from npumond.sources.inference.probes.request import Outcome, ProbeError, endpoint, made_up, model_of, send
from tests.sources.inference.servers import Authority, Handler, serving

CHAT, COMPLETIONS, INFER = "/v1/chat/completions", "/v1/completions", "/v2/models/resnet/infer"
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


@pytest.mark.parametrize("reason", ["error", "abort"])
async def test_an_answer_that_the_engine_gave_up_is_an_error_streamed_or_not(reason: str) -> None:
    expected = Outcome(status="error", reason=f"the engine gave the answer up: its finish reason is {reason}")
    whole = {"choices": [{"message": {"content": "He"}, "finish_reason": reason}]}
    assert await asked(streaming(Clock(), chunk("He"), chunk(finish=reason), DONE)) == expected
    assert await asked(answering(whole), stream=False) == expected


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
        (CHAT, answering("x" * (2 << 20), 503), "HTTP 503"),
    ],
)
async def test_an_answer_that_is_none_has_its_reason_and_no_latency(path: str, handler: Handler, reason: str) -> None:
    assert await asked(handler, path) == Outcome(status="error", reason=reason)


async def test_a_wrong_status_is_told_though_its_body_never_comes() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=503)
        await response.prepare(request)
        await response.write(b"{")
        await asyncio.sleep(60)
        return response

    assert await asked(handle, timeout=0.4) == Outcome(status="error", reason="HTTP 503")


async def test_what_is_not_http_is_told_without_the_query_of_the_url() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server, new_session() as session:
        probe = Probe(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x?key=secret")
        found = await send(session, TlsContexts(), probe, endpoint(probe), Clock())
    assert found.reason.startswith("the answer is no valid HTTP: ")
    assert "secret" not in found.reason


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


# ---- What proves who we are ----


async def guarded(request: web.Request) -> web.StreamResponse:
    good = request.headers.get("Authorization") == "Bearer right"
    return await answering("well" if good else {"error": {"message": "bad key"}}, 200 if good else 401)(request)


async def test_a_token_that_was_renewed_is_taken_without_a_restart(tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with serving(guarded) as address, new_session() as session:
        probe = Probe(url=f"{address}/x", token_file=str(token))
        token.write_text("wrong\n")
        refused = await send(session, TlsContexts(), probe, endpoint(probe), Clock())
        token.write_text("right\n")
        taken = await send(session, TlsContexts(), probe, endpoint(probe), Clock())
    assert (refused.reason, taken.status) == ("HTTP 401: bad key", "success")


@pytest.mark.parametrize("held", [b"", b"one\ntwo\n", b"a\0b", b"Bearer right", b"\xff"])
async def test_a_file_without_a_token_is_named_and_ends_nothing(tmp_path: Path, held: bytes) -> None:
    token = tmp_path / "token"
    token.write_bytes(held)
    found = await asked(guarded, "/x", token_file=str(token))
    assert found == Outcome(status="error", reason=f"{token}: must hold a token: one word of printable ASCII")


async def asked_by_tls(context: ssl.SSLContext, tls: Tls) -> Outcome:
    async with serving(answering("well"), context) as address, new_session() as session:
        probe = Probe(url=f"{address}/x", tls=tls)
        return await send(session, TlsContexts(), probe, endpoint(probe), Clock())


async def test_a_private_authority_is_trusted_where_it_is_named(authority: Authority) -> None:
    assert (await asked_by_tls(authority.context(), Tls(ca_file=authority.ca_file))).status == "success"


async def test_a_client_that_shows_its_certificate_is_answered(authority: Authority) -> None:
    tls = Tls(ca_file=authority.ca_file, cert_file=authority.both_file)
    assert (await asked_by_tls(authority.context(of_client=True), tls)).status == "success"


async def test_a_client_without_a_certificate_is_told(authority: Authority) -> None:
    found = await asked_by_tls(authority.context(of_client=True), Tls(ca_file=authority.ca_file))
    assert found == Outcome(status="error", reason=WANTS_CERTIFICATE)


async def test_an_unknown_authority_is_told(authority: Authority) -> None:
    found = await asked_by_tls(authority.context(), Tls())
    assert found.reason == "TLS: the certificate is not accepted: unable to get local issuer certificate"


async def test_a_certificate_that_has_expired_is_told(authority: Authority) -> None:
    found = await asked_by_tls(authority.context(expired=True), Tls(ca_file=authority.ca_file))
    assert found.reason == "TLS: the certificate is not accepted: certificate has expired"


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
         "the model's inputs have over 1048576 elements; give the probe a body"),
        (answering({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1 << 20]}] * 2}),
         "the model's inputs have over 1048576 elements; give the probe a body"),
        (answering({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1 << 62] * 40_000}]}),
         "the model's inputs have over 1048576 elements; give the probe a body"),
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
