"""Who may be connected, and for how long they may keep us waiting.

aiohttp parses and answers; it limits the length of lines and closes idle keep-alive connections. What it does not limit
is done by a `Guard` in front of each of its connections: their number, the size and the time of a request's head, and
the time that a client takes to read the answer. One slow client costs the others nothing; it is cut off.

Why a wrapper and not a subclass of aiohttp's handler: that class is private in all but name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """What one client, and all of them together, may take."""

    connections: int = 256
    """Connections served at once; further ones get 503."""
    head_s: float = 10.0
    """From the connection, or the first byte of a later request, to the end of the request's head."""
    head_bytes: int = 16 * 1024
    """Request line, headers and body together."""
    line_bytes: int = 8190
    """Request line, and each header."""
    body_bytes: int = 1024
    """No request needs a body; a small one is tolerated."""
    idle_s: float = 90.0
    """Between two requests of a connection; over the usual scrape interval of a minute."""
    write_s: float = 30.0
    """For a client to take an answer whole."""
    stop_s: float = 2.0
    """For open requests to end when the server stops."""


class Door:
    """Counts connections, refuses those over the limit and cuts off those that take too long."""

    def __init__(self, limits: Limits, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        self.limits = limits
        self._make_protocol = make_protocol
        self._guards: set[Guard] = set()
        self._refused: set[Guard] = set()
        self._loop = asyncio.get_running_loop()
        self._empty = asyncio.Event()
        self._empty.set()
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> Guard:
        """The protocol for a new connection."""
        return Guard(self, self._make_protocol, self._loop.time)

    def __len__(self) -> int:
        """Number of connections being served."""
        return len(self._guards)

    def admit(self, guard: Guard) -> bool:
        """Take a connection in; False where it is one too many."""
        admitted = len(self._guards) < self.limits.connections
        (self._guards if admitted else self._refused).add(guard)
        self._empty.clear()
        if self._timer is None:
            self._watch()
        return admitted

    def crowded(self) -> bool:
        """Whether even the refused are too many to be told so."""
        return len(self._refused) > self.limits.connections

    def leave(self, guard: Guard) -> None:
        """Forget a connection that is gone."""
        self._guards.discard(guard)
        self._refused.discard(guard)
        if not self._guards and not self._refused:
            self._empty.set()

    async def close(self) -> None:
        """Close what is idle at once, let open requests end within ``stop_s``, then cut off the rest."""
        for guard in (*self._guards, *self._refused):
            guard.close_if_idle()
        try:
            async with asyncio.timeout(self.limits.stop_s):
                await self._empty.wait()
        except TimeoutError:
            for guard in (*self._guards, *self._refused):
                guard.abort()
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self) -> None:
        """Cut off who is overdue, and look again soon while anyone is connected."""
        now = self._loop.time()
        for guard in (*self._guards, *self._refused):
            if guard.overdue(now):
                guard.abort()
        connected = self._guards or self._refused
        pause = min(1.0, self.limits.head_s / 4, self.limits.write_s / 4)
        self._timer = self._loop.call_later(pause, self._watch) if connected else None


class Guard(asyncio.Protocol):
    """One connection: passes everything to aiohttp's protocol and keeps the time."""

    def __init__(self, door: Door, make_protocol: Callable[[], asyncio.Protocol], clock: Callable[[], float]) -> None:
        self._door = door
        self._make_protocol = make_protocol
        self._clock = clock
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._answering = False
        self._waiting_since: float | None = clock()
        self._writing_since: float | None = None
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._door.admit(self):
            self._inner = self._make_protocol()
            self._inner.connection_made(transport)
        elif self._door.crowded():
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._inner is None:
            # Only now: an answer sent before the request was read is lost when the connection is reset.
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")
            return
        if not self._answering:
            self._waiting_since = self._waiting_since or self._clock()
            self._head_bytes += len(data)
            if self._head_bytes > self._door.limits.head_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too large")
                return
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._inner else None

    def pause_writing(self) -> None:
        if self._inner:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.leave(self)
        if self._inner:
            self._inner.connection_lost(exc)

    def request_began(self) -> None:
        """The head of a request is complete, and its answer is being made."""
        self._answering = True
        self._waiting_since = None
        self._head_bytes = 0

    def request_ended(self) -> None:
        """The answer is made; aiohttp sends it and waits for the next request."""
        self._answering = False

    def overdue(self, now: float) -> bool:
        """Whether the client has kept us waiting for too long, with its request or with reading our answer."""
        limits = self._door.limits
        if self._transport is None or not self._transport.get_write_buffer_size():
            self._writing_since = None
        elif self._writing_since is None:
            self._writing_since = now
        patience = limits.head_s if self._inner else min(1.0, limits.head_s)
        late_head = self._waiting_since is not None and now - self._waiting_since > patience
        late_read = self._writing_since is not None and now - self._writing_since > limits.write_s
        return late_head or late_read

    def close_if_idle(self) -> None:
        """Close after what is already on its way, unless a request is being answered."""
        if self._transport is not None and not self._answering:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection off, whatever is unsent."""
        if self._transport is not None:
            self._transport.abort()

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        """Answer in aiohttp's stead, once, and close."""
        if self._transport is None or self._transport.is_closing():
            return
        body = f"{reason}\n".encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\nRetry-After: 1\r\n\r\n"
        )
        self._transport.write(head.encode() + body)
        self._transport.close()
