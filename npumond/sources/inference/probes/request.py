"""One request of ours to an inference endpoint, timed from here, and what came of it.

What is measured is what a new client sees, connecting included: a probe keeps no connection. A request that was
refused, broke off or got no answer in time has no latency: the millisecond that a refusal takes would make a dead
server the fastest of all, and a deadline is not a duration.

A stream of an OpenAI-compatible server is well when it ends with a finish reason or ``[DONE]``; its status of 200 was
sent before the first token and says nothing of the rest. A finish reason of `BROKEN` tells that it is not well: engines
that fail or drop a request say so there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Struct

from npumond.config.settings import Probe
from npumond.connection import FAILURES, Access, TlsContexts, reason_of
from npumond.sources.inference.labels import Status

MOST_BYTES = 1 << 20
"""Of an answer."""
MOST_ELEMENTS = 1 << 20
"""Of all inputs that are made up for a KServe model."""
WORDS_WITHIN_S = 1.0
"""How long the body of an answer with a wrong status is waited for: what is wrong is known without it."""
BROKEN = ("error", "abort")
"""Finish reasons of answers that the engine gave up."""

Clock = Callable[[], float]


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of one request; durations in seconds, None where there is none."""

    status: Status
    reason: str = ""
    """Why it is an error; empty for a success."""
    model: str = ""
    """As the answer names it; empty when it does not."""
    e2e_s: float | None = None
    ttft_s: float | None = None
    itl_s: float | None = None
    """Mean time between two pieces of the answer."""


class ProbeError(Exception):
    """The answer is not what it should be, and why."""


class Endpoint(Struct, frozen=True):
    """A kind of endpoint with the request that is sent to it."""

    kind: str
    body: bytes
    """Empty: none yet, for a KServe model that has to be asked what it takes."""
    streams: bool


def endpoint(probe: Probe) -> Endpoint:
    """What to send, by the settings; the kind by the path where they do not say."""
    kind = probe.kind if probe.kind != "auto" else kind_of_path(urlsplit(probe.url).path)
    if probe.body:
        return Endpoint(kind, probe.body.encode(), kind.startswith("openai") and _wants_stream(probe.body))
    match kind:
        case "openai_chat":
            asked: dict[str, object] = {"messages": [{"role": "user", "content": probe.prompt}]}
        case "openai_completion":
            asked = {"prompt": probe.prompt}
        case _:
            return Endpoint(kind, b"", streams=False)
    named = {"model": probe.model} if probe.model else {}
    asked = {**named, **asked, "max_tokens": probe.max_tokens, "temperature": 0, "stream": probe.stream}
    return Endpoint(kind, msgspec.json.encode(asked), probe.stream)


def kind_of_path(path: str) -> str:
    """``/v1/chat/completions``, ``/v1/completions``, ``/v2/models/NAME/infer``, and any other."""
    if path.endswith("/chat/completions"):
        return "openai_chat"
    if path.endswith("/completions"):
        return "openai_completion"
    return "kserve" if path.startswith("/v2/models/") and path.endswith("/infer") else "http"


def model_of(probe: Probe) -> str:
    """The model that the settings name, themselves or in the body or in the path; empty when they do not."""
    if probe.model:
        return probe.model
    named = _json(probe.body.encode()).get("model")
    if isinstance(named, str):
        return named
    parts = urlsplit(probe.url).path.split("/")
    return parts[parts.index("models") + 1] if kind_of_path(urlsplit(probe.url).path) == "kserve" else ""


async def send(
    session: aiohttp.ClientSession, contexts: TlsContexts, probe: Probe, what: Endpoint, clock: Clock
) -> Outcome:
    """Make the request. Never raises what a server, the network or a file can cause."""
    access = Access(probe.timeout, probe.tls, probe.token_file)
    try:
        async with asyncio.timeout(probe.timeout):
            context = contexts.for_url(probe.url, probe.tls)
            headers = access.headers()
            if what.body:
                headers["Content-Type"] = "application/json"
            began_at = clock()
            async with session.request(
                _method(probe, what),
                probe.url,
                data=what.body or None,
                headers=headers,
                ssl=context,
                allow_redirects=False,
            ) as response:
                return await _read(response, probe, what, began_at, clock)
    except ProbeError as error:
        return Outcome(status="error", reason=str(error))
    except FAILURES as error:
        return Outcome(status="error", reason=reason_of(error, probe.url, access))


def _method(probe: Probe, what: Endpoint) -> str:
    return probe.method if probe.method != "auto" else "POST" if what.body else "GET"


async def _read(
    response: aiohttp.ClientResponse, probe: Probe, what: Endpoint, began_at: float, clock: Clock
) -> Outcome:
    if response.status != probe.expect_status:
        told = await _words(response, min(WORDS_WITHIN_S, probe.timeout / 4))
        raise ProbeError(f"HTTP {response.status}{f': {told}' if told else ''}")
    if what.streams and response.content_type == "text/event-stream":
        return await _stream(response, began_at, clock)
    answer = _json(await _whole(response))
    e2e_s = clock() - began_at
    if what.kind != "http" and (told := _message(answer)):
        raise ProbeError(f"the answer is an error: {told}")
    if what.kind.startswith("openai"):
        if not answer.get("choices"):
            raise ProbeError("the answer has no choices")
        _finishes(answer)
    if what.kind == "kserve" and not isinstance(answer.get("outputs"), list):
        raise ProbeError("the answer has no outputs")
    return Outcome(status="success", model=_named(answer), e2e_s=e2e_s)


async def _stream(response: aiohttp.ClientResponse, began_at: float, clock: Clock) -> Outcome:
    pieces_at: list[float] = []
    finished, model = False, ""
    async for event in _events(response):
        if event == b"[DONE]":
            finished = True
            break
        chunk = _json(event)
        if told := _message(chunk):
            raise ProbeError(f"the stream holds an error: {told}")
        model = model or _named(chunk)
        finished |= _finishes(chunk)
        if any(_has_content(choice) for choice in _choices(chunk)):
            pieces_at.append(clock())
    ended_at = clock()
    if not finished:
        raise ProbeError("the stream ended without [DONE] and without a finish reason")
    if not pieces_at:
        raise ProbeError("the stream held no content")
    gaps = len(pieces_at) - 1
    return Outcome(
        status="success",
        model=model,
        e2e_s=ended_at - began_at,
        ttft_s=pieces_at[0] - began_at,
        itl_s=(pieces_at[-1] - pieces_at[0]) / gaps if gaps else None,
    )


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The data of each server-sent event."""
    rest, size = b"", 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MOST_BYTES:
            raise ProbeError(f"the answer is larger than {MOST_BYTES >> 20} MiB")
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line.removeprefix(b"data:").strip()


async def _words(response: aiohttp.ClientResponse, within_s: float) -> str:
    """What the body of an error says; empty when it does not come in time, or whole, or is too large."""
    try:
        async with asyncio.timeout(within_s):
            return _message(_json(await _whole(response)))
    except (ProbeError, *FAILURES):
        return ""


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > MOST_BYTES:
            raise ProbeError(f"the answer is larger than {MOST_BYTES >> 20} MiB")
    return bytes(body)


def _json(body: bytes) -> Mapping[str, Any]:
    """The object that a body is, an empty one when it is none. Any: it is a stranger's."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _message(answer: Mapping[str, Any]) -> str:
    """What an error object says, at most 200 characters; empty when there is none."""
    error = answer.get("error")
    if isinstance(error, Mapping):
        error = error.get("message") or "without a message"
    elif answer.get("object") == "error":
        error = answer.get("message") or "without a message"
    return "".join(character for character in str(error or "")[:200] if character.isprintable())


def _named(answer: Mapping[str, Any]) -> str:
    named = answer.get("model") or answer.get("model_name")
    return named if isinstance(named, str) else ""


def _choices(chunk: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, Mapping):
            yield choice


def _finishes(answer: Mapping[str, Any]) -> bool:
    """Whether a choice is finished here. Raises `ProbeError` when it is one that the engine gave up."""
    reasons = [choice["finish_reason"] for choice in _choices(answer) if choice.get("finish_reason")]
    for reason in reasons:
        if reason in BROKEN:
            raise ProbeError(f"the engine gave the answer up: its finish reason is {reason}")
    return bool(reasons)


def _has_content(choice: Mapping[str, Any]) -> bool:
    """Chat has it in ``delta``, completions in ``text``; models that think aloud begin with that."""
    delta = choice.get("delta")
    told = delta if isinstance(delta, Mapping) else choice
    return any(told.get(key) for key in ("content", "text", "reasoning_content", "reasoning"))


def _wants_stream(body: str) -> bool:
    return _json(body.encode()).get("stream") is True


# ---- KServe models say what they take ----

_ZEROS: Mapping[str, object] = {"BOOL": False, "BYTES": ""}


async def made_up(session: aiohttp.ClientSession, contexts: TlsContexts, probe: Probe) -> bytes:
    """A request of zeros in the shapes that the model's metadata names; unknown sizes are 1.

    Raises `ProbeError` when there is no metadata to be had, or it asks for too much.
    """
    url = probe.url.removesuffix("/infer")
    access = Access(probe.timeout, probe.tls, probe.token_file)
    try:
        async with asyncio.timeout(probe.timeout):
            context = contexts.for_url(url, probe.tls)
            async with session.get(url, headers=access.headers(), ssl=context, allow_redirects=False) as response:
                if response.status != 200:
                    raise ProbeError(f"the model's metadata cannot be read: HTTP {response.status}")
                metadata = _json(await _whole(response))
    except FAILURES as error:
        raise ProbeError(f"the model's metadata cannot be read: {reason_of(error, url, access)}") from error
    inputs = metadata.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        raise ProbeError("the model's metadata names no inputs; give the probe a body")
    made: list[dict[str, Any]] = []
    left = MOST_ELEMENTS
    for each in inputs:
        made.append(_zeros(each, left))
        left -= len(made[-1]["data"])
    return msgspec.json.encode({"inputs": made})


def _zeros(wanted: Any, most: int) -> dict[str, Any]:
    """Any: what the server says of one input, and JSON. Raises `ProbeError` for more than so many elements."""
    try:
        shape = [max(1, int(size)) for size in wanted["shape"]]
        name, datatype = str(wanted["name"]), str(wanted["datatype"])
    except (KeyError, TypeError, ValueError):
        raise ProbeError("the model's metadata has an input without name, shape or datatype") from None
    count = 1
    for size in shape:
        count *= size
        if count > most:  # at each step: the product of a shape of thousands would take minutes
            raise ProbeError(f"the model's inputs have over {MOST_ELEMENTS} elements; give the probe a body")
    return {"name": name, "shape": shape, "datatype": datatype, "data": [_ZEROS.get(datatype, 0)] * count}
