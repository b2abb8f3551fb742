"""The made-up inference servers on loopback: metrics, health, and a chat endpoint for probes to be aimed at.

They live on the loop of whoever starts them, and do nothing until they are asked. Unlike MindIE, which has a port for
requests and one for metrics, each serves all on one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, NamedTuple

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from npumond.demo.ledger import Bounds, Ledger
from npumond.demo.page import MINDIE_BOUNDS, VLLM_BOUNDS, Served, mindie_page, vllm_page
from npumond.demo.traffic import CHAT, FAST, Request, Traffic, asked
from npumond.errors import ListenError

HOST = "127.0.0.1"
_SHUTDOWN_S = 0.1
_BODY_BYTES = 1 << 20
_DEVICES_EACH = 4

Clock = Callable[[], float]


class Kind(Struct, frozen=True, kw_only=True):
    """One of the servers, as it is built in."""

    server: str
    model: str
    traffic: Traffic
    bounds: Bounds
    whole_ms: bool
    cache_tokens: int
    page: Callable[[Ledger, Served], str]
    content_type: str


VLLM = Kind(
    server="vllm",
    model="qwen3-0.6b",
    traffic=FAST,
    bounds=VLLM_BOUNDS,
    whole_ms=False,
    cache_tokens=8192,
    page=vllm_page,
    content_type="text/plain; version=0.0.4; charset=utf-8",
)
MINDIE = Kind(
    server="mindie",
    model="qwen3-32b",
    traffic=CHAT,
    bounds=MINDIE_BOUNDS,
    whole_ms=True,
    cache_tokens=65536,
    page=mindie_page,
    content_type="text/plain; charset=utf-8",
)


class DemoTarget(NamedTuple):
    """Where a server's metrics are, what it is, and which chips it pretends to run on."""

    url: str
    server: str
    device_ids: tuple[int, ...]


class InferenceServers:
    """A vLLM that serves a small model on chips 0 to 3, and a MindIE that serves a big one on chips 4 to 7.

    ``devices`` is the number of chips there are: of a server's chips those that are missing are left out, and of a
    server that has none left nothing is started. ``pace`` is how many seconds of the story pass in one of ``clock``;
    durations that are told stay as they are. ``ports`` are those of the two; 0 takes a free one. ``kinds`` puts other
    servers in the place of the two.
    """

    def __init__(
        self,
        devices: int,
        *,
        seed: int = 1,
        pace: float = 1.0,
        ports: tuple[int, int] = (0, 0),
        kinds: tuple[Kind, Kind] = (VLLM, MINDIE),
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        self._servers: list[_Server] = []
        for index, kind in enumerate(kinds):
            chips = tuple(range(index * _DEVICES_EACH, min(devices, (index + 1) * _DEVICES_EACH)))
            if chips:
                self._servers.append(_Server(kind, chips, ports[index], seed, _Story(clock, pace), wall()))

    @property
    def targets(self) -> list[DemoTarget]:
        """The servers that run, for the daemon to scrape; empty before `start` and after `stop`."""
        return [target for server in self._servers if (target := server.target) is not None]

    async def start(self) -> None:
        """Listen and serve. Raises ListenError, after taking back what listened already, for a port that is taken."""
        try:
            for server in self._servers:
                await server.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop serving; answers that are still under way are cut off. May be called twice."""
        for server in self._servers:
            await server.stop()


class _Story:
    """Seconds since the start, at some pace."""

    def __init__(self, clock: Clock, pace: float) -> None:
        self._clock = clock
        self._pace = pace
        self._started_at = clock()

    def now(self) -> float:
        return (self._clock() - self._started_at) * self._pace


class _Server:
    """One server: its totals, and its routes."""

    def __init__(
        self, kind: Kind, chips: tuple[int, ...], port: int, seed: int, story: _Story, started_at: float
    ) -> None:
        self._kind = kind
        self._chips = chips
        self._port = port
        self._story = story
        self._served = Served(model=kind.model, started_at=round(started_at, 2), cache_tokens=kind.cache_tokens)
        self._ledger = Ledger(kind.traffic, kind.server, seed, kind.bounds, whole_ms=kind.whole_ms)
        self._source = random.Random(f"{seed}/{kind.server}/asked")  # noqa: S311 - a simulation, not a secret
        self._runner: web.AppRunner | None = None
        self.target: DemoTarget | None = None
        """While it serves."""

    async def start(self) -> None:
        app = web.Application(client_max_size=_BODY_BYTES)
        app.add_routes(
            [
                web.get("/metrics", self._get_metrics),
                web.get("/health", self._get_health),
                web.post("/v1/chat/completions", self._post_chat),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, HOST, self._port).start()
        except OSError as error:
            where = f"{HOST}:{self._port}"
            raise ListenError(f"the simulated {self._kind.server} server cannot listen on {where}: {error}") from error
        port = self._runner.addresses[0][1]
        self.target = DemoTarget(f"http://{HOST}:{port}/metrics", self._kind.server, self._chips)

    async def stop(self) -> None:
        self.target = None
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _get_metrics(self, request: web.Request) -> web.Response:
        self._ledger.advance(self._story.now())
        page = self._kind.page(self._ledger, self._served)
        return web.Response(body=page.encode(), headers={"Content-Type": self._kind.content_type})

    async def _get_health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _post_chat(self, request: web.Request) -> web.StreamResponse:
        """Answer as slowly, and fail as often, as the story has it just now."""
        try:
            chat = msgspec.json.decode(await request.read(), type=_Chat)
        except msgspec.DecodeError as error:
            return _error(400, "BadRequestError", str(error))
        if chat.model not in ("", self._kind.model):
            return _error(404, "NotFoundError", f"there is no model {chat.model!r}; there is {self._kind.model!r}")
        fate = self._take(chat)
        await asyncio.sleep(fate.first_at - fate.arrived_at)
        if fate.outcome == "error":
            return _error(500, "InternalServerError", "the simulated engine failed")
        if chat.stream:
            return await self._stream(request, fate)
        await asyncio.sleep(fate.finished_at - fate.first_at)
        return _json(200, self._completion(fate))

    def _take(self, chat: _Chat) -> Request:
        now = self._story.now()
        self._ledger.advance(now)
        fate = asked(self._kind.traffic, self._source, now, chat.limit)
        self._ledger.take(fate)
        return fate

    async def _stream(self, request: web.Request, fate: Request) -> web.StreamResponse:
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        response = web.StreamResponse(headers=headers)
        try:
            await response.prepare(request)
            async for chunk in self._chunks(fate):
                await response.write(b"data: " + chunk + b"\n\n")
            await response.write_eof()
        except ConnectionError:
            pass  # the client has left, and wants nothing more
        return response

    async def _chunks(self, fate: Request) -> AsyncIterator[bytes]:
        """One for each token, when its time has come; the first is due at once."""
        for index in range(fate.output_tokens):
            if index:
                await asyncio.sleep(fate.stall_s if index <= fate.stalls else fate.step_s)
            role = {"role": "assistant"} if index == 0 else {}
            choice = {"index": 0, "delta": {**role, "content": _token(index)}, "finish_reason": None}
            yield msgspec.json.encode(self._envelope("chat.completion.chunk", choice))
        end = {"index": 0, "delta": {}, "finish_reason": fate.outcome}
        yield msgspec.json.encode({**self._envelope("chat.completion.chunk", end), "usage": _usage(fate)})
        yield b"[DONE]"

    def _completion(self, fate: Request) -> dict[str, Any]:
        text = "".join(map(_token, range(fate.output_tokens)))
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": fate.outcome}
        return {**self._envelope("chat.completion", choice), "usage": _usage(fate)}

    def _envelope(self, what: str, choice: dict[str, Any]) -> dict[str, Any]:
        created = int(self._served.started_at + self._story.now())
        return {
            "id": "chatcmpl-sim",
            "object": what,
            "created": created,
            "model": self._kind.model,
            "choices": [choice],
        }


class _Chat(Struct, frozen=True):
    """What of a chat request matters here; the rest is accepted and ignored."""

    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    model: str = ""
    stream: bool = False
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None

    @property
    def limit(self) -> int | None:
        """Tokens that the client wants at most."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


def _token(index: int) -> str:
    return f" word{index}" if index else "word0"


def _usage(fate: Request) -> dict[str, int]:
    total = fate.prompt_tokens + fate.output_tokens
    return {"prompt_tokens": fate.prompt_tokens, "completion_tokens": fate.output_tokens, "total_tokens": total}


def _json(status: int, value: dict[str, Any]) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(value), content_type="application/json")


def _error(status: int, kind: str, message: str) -> web.Response:
    return _json(status, {"error": {"message": message, "type": kind, "param": None, "code": status}})
