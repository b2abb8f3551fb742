"""Tells npumond of inference requests from inside the program that serves them::

    from npumond.client import request

    with request(model="resnet50"):            # also: async with, @request(model=...)
        answer = infer(picture)

    with request(model="llama") as r:
        for token in generate(prompt):
            r.first_token()                    # only the first call counts
            yield token

An exception marks the request as an error and goes on its way; ``r.abort()``, and whatever ends the block without being
an error (a cancelled task, a generator that nobody reads on, Ctrl-C), as aborted. Durations go out as DogStatsD lines;
what they are called is in `npumond.sources.inference.pushed.dogstatsd`.

Monitoring must not hurt what it watches. So: nothing blocks, nothing is raised into the caller once the client is made,
and no more than one packet of lines waits, where ``batch`` is asked for or the kernel has no room. What cannot be sent
is dropped and counted in ``Client.dropped``. Threads and forked children may use one client.

By a Unix socket every line that is lost is known here, by UDP the daemon knows. But a Unix socket has room for few
datagrams (``net.unix.max_dgram_qlen``: 10, where systemd does not raise it to 512): for thousands of requests a second
use UDP, or ``Client(..., batch=True)``.

``NPUMOND_STATSD`` says where the daemon listens, as ``inference.statsd.listen`` in its configuration does:
``udp:127.0.0.1:8125`` (also without it) or ``unix:/run/npumond/statsd.sock``. Empty: nothing is sent.

The standard library only, so that this file can be copied into any image.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import random
import socket
import threading
import time
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:  # newer than some Pythons in the images of model servers
    from typing import ParamSpec, Self, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

Status = Literal["success", "error", "aborted"]

ADDRESS = "udp:127.0.0.1:8125"
PACKET_BYTES = 1432
"""What fits into one Ethernet frame; a daemon on the same node takes more, and the loss of one packet costs more."""
RETRY_S = 1.0
"""How long a Unix socket that nobody serves is left alone."""

_UNSAFE = {ord(character): "_" for character in "|#,"}
_MOST_MODELS = 1000
"""Names that are kept ready."""


class Client:
    """A way to the daemon. Make one for a process; `request` without a client uses that of ``NPUMOND_STATSD``."""

    def __init__(
        self,
        address: str = ADDRESS,
        *,
        sample_rate: float = 1.0,
        batch: bool = False,
        batch_s: float = 0.1,
        packet_bytes: int = PACKET_BYTES,
    ) -> None:
        """``sample_rate`` is the share of requests that is told; the daemon multiplies by it.

        With ``batch`` lines wait until a packet is full, or until a request ends when they are older than ``batch_s``,
        or until `flush`: cheaper, and the last lines before a silence come late. A host name is looked up here, once.
        Raises ValueError for an address that is none, a host that is not known, or a rate that is not in (0, 1].
        """
        if not 0 < sample_rate <= 1:
            raise ValueError(f"sample_rate is {sample_rate!r}: must be above 0, and 1 at most")
        self._family, self._place = _place(address)
        self._rate = sample_rate
        self._suffix = "" if sample_rate == 1 else f"|@{sample_rate:.9g}"
        self._batch_s = batch_s if batch else 0.0
        self._packet_bytes = packet_bytes
        self._tags: dict[tuple[str, str], str] = {}
        self._socket: socket.socket | None = None
        self.begin_anew()
        _watch()
        _CLIENTS.add(self)

    @property
    def dropped(self) -> int:
        """Lines that could not be sent: nobody listens, or the kernel has no room.

        By UDP a packet that was refused counts once, whatever was in it, and one that the daemon was too slow for is
        counted there and not here.
        """
        return self._lost

    def request(self, model: str) -> Request:
        """A request to this model, to be measured."""
        return Request(model, self)

    def tell(
        self, model: str, duration_s: float | None, status: Status = "success", *, ttft_s: float | None = None
    ) -> None:
        """Tell of a request that was measured already, in seconds; without a duration it is only counted."""
        if self._place is None or (self._rate < 1 and random.random() >= self._rate):  # noqa: S311 - no secret
            return
        tags = self._tags.get((model, status)) or self._prepare(model, status)
        if duration_s is None:
            line = f"inference.request:1|c{tags}"
        else:
            line = f"inference.request.duration:{duration_s * 1000:.3f}|ms{tags}"
        if ttft_s is not None:
            line = f"{line}\ninference.request.ttft:{ttft_s * 1000:.3f}|ms{tags}"
        told = line.encode(errors="replace")
        if self._batch_s > 0 or self._waiting or not self._send(told):
            self._collect(told)

    def flush(self) -> None:
        """Send what waits for a packet to be full; at the end of the program this happens by itself."""
        with self._lock:
            self._flush()

    def close(self) -> None:
        """Flush, and give the socket back; a later request opens it again. Not while other threads send."""
        with self._lock:
            self._flush()
            for line in self._waiting:
                self._lose(line)
            self._waiting.clear()
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def begin_anew(self) -> None:
        """Forget what a parent process had, in its forked child: its lines are its own, its lock may be held."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._lock = threading.RLock()
        self._retry_at = 0.0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._waiting_since = 0.0
        self._lost = 0

    def _prepare(self, model: str, status: str) -> str:
        """The end of a line for this model and status."""
        name = model.translate(_UNSAFE)
        if not name.isprintable():
            name = "".join(character if character.isprintable() else "_" for character in name)
        told = "" if status == "success" else f",status:{status}"
        tags = f"{self._suffix}|#model:{name[:128]}{told}"
        if len(self._tags) < _MOST_MODELS:
            self._tags[model, status] = tags
        return tags

    def _collect(self, line: bytes) -> None:
        """Put the line into the packet that waits, and send it if it is time."""
        now = time.monotonic()
        with self._lock:
            if self._waiting_bytes + len(line) > self._packet_bytes:
                self._flush()
            if not self._waiting:
                self._waiting_since, self._waiting_bytes = now, 0
            elif self._waiting_bytes + len(line) > self._packet_bytes:
                return self._lose(line)
            self._waiting.append(line)
            self._waiting_bytes += len(line) + 1
            if now - self._waiting_since >= self._batch_s:
                self._flush()
            return None

    def _flush(self) -> None:
        if self._waiting and self._send(b"\n".join(self._waiting)):
            self._waiting.clear()

    def _send(self, packet: bytes) -> bool:
        """Send or drop; False when there was no room, so that the next request may try again with its own line."""
        try:
            (self._socket or self._open()).send(packet)
        except BlockingIOError:
            return False
        except OSError as error:
            self._send_again(packet, error)
        return True

    def _open(self) -> socket.socket:
        """The socket, not connected yet. It is never closed and made anew while threads send: its number could be that
        of another connection by then, and our lines would go there."""
        with self._lock:
            if self._socket is None:
                self._socket = socket.socket(self._family, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            return self._socket

    def _send_again(self, packet: bytes, error: OSError) -> None:
        """Connect, for the first time or since the daemon was started again, and send once more."""
        with self._lock:
            if self._socket is None or time.monotonic() < self._retry_at:
                return self._lose(packet)
            try:
                self._socket.connect(self._place)
                self._socket.send(packet)
            except OSError:
                self._retry_at = time.monotonic() + RETRY_S
                return self._lose(packet)
            if self._family != socket.AF_UNIX and isinstance(error, ConnectionRefusedError):
                self._lost += 1  # by UDP the refusal is of the packet before
            return None

    def _lose(self, packet: bytes) -> None:
        with self._lock:
            self._lost += packet.count(b"\n") + 1


class Request:
    """Measures one request from entering the ``with`` block to leaving it; as a decorator, each call of the function.

    Of a generator function each run is measured, and its first item is the first token.
    """

    __slots__ = ("_began", "_client", "_model", "_status", "_ttft_s")

    def __init__(self, model: str, client: Client | None = None) -> None:
        self._model = model
        self._client = client
        self._status: Status = "success"
        self._began = 0.0
        self._ttft_s: float | None = None

    def first_token(self) -> None:
        """The first token is here. Later calls change nothing."""
        if self._ttft_s is None:
            self._ttft_s = time.perf_counter() - self._began

    def abort(self) -> None:
        """Whoever asked does not want the answer any more: neither good nor bad."""
        self._status = "aborted"

    def fail(self) -> None:
        """It went wrong, without an exception that leaves the block."""
        self._status = "error"

    def __enter__(self) -> Self:
        self._status, self._ttft_s = "success", None
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        duration_s = time.perf_counter() - self._began
        if kind is not None and self._status == "success":
            self._status = "error" if issubclass(kind, Exception) else "aborted"
        (self._client or default()).tell(self._model, duration_s, self._status, ttft_s=self._ttft_s)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        measured: Callable[..., Any]
        if inspect.isasyncgenfunction(function):
            measured = self._each_token_async(function)
        elif inspect.isgeneratorfunction(function):
            measured = self._each_token(function)
        elif inspect.iscoroutinefunction(function):
            measured = self._awaited(function)
        else:
            measured = self._called(function)
        return cast("Callable[P, R]", functools.wraps(function)(measured))

    def _called(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **kwargs: Any) -> Any:
            with Request(self._model, self._client):
                return function(*args, **kwargs)

        return measured

    def _awaited(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def measured(*args: Any, **kwargs: Any) -> Any:
            with Request(self._model, self._client):
                return await function(*args, **kwargs)

        return measured

    def _each_token(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **kwargs: Any) -> Iterator[Any]:
            with Request(self._model, self._client) as request:
                for token in function(*args, **kwargs):
                    request.first_token()
                    yield token

        return measured

    def _each_token_async(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def measured(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            with Request(self._model, self._client) as request:
                tokens = function(*args, **kwargs)
                try:
                    async for token in tokens:
                        request.first_token()
                        yield token
                finally:
                    await tokens.aclose()

        return measured


def request(model: str, client: Client | None = None) -> Request:
    """A request to this model, to be measured: for ``with``, ``async with``, or as a decorator."""
    return Request(model, client)


@functools.lru_cache(maxsize=1)
def default() -> Client:
    """The client of ``NPUMOND_STATSD``. An address that is none is warned of once, and nothing is sent."""
    try:
        return Client(os.environ.get("NPUMOND_STATSD", ADDRESS))
    except ValueError as mistake:
        warnings.warn(f"NPUMOND_STATSD: {mistake}; no requests are told", RuntimeWarning, stacklevel=2)
        return Client("")


_CLIENTS: weakref.WeakSet[Client] = weakref.WeakSet()


@functools.lru_cache(maxsize=1)
def _watch() -> None:
    """Have all clients told of forks and of the program's end."""
    os.register_at_fork(after_in_child=_after_fork)
    atexit.register(_at_exit)


def _after_fork() -> None:
    for client in _CLIENTS:
        client.begin_anew()


def _at_exit() -> None:
    for client in _CLIENTS:
        client.close()


def _place(address: str) -> tuple[int, Any]:
    """Family and address as the socket module wants them; (0, None) for none."""
    scheme, _, rest = address.partition(":")
    if not address:
        return 0, None
    if scheme == "unix" and rest.startswith("/"):
        return socket.AF_UNIX, rest
    host, _, port = rest.rpartition(":")
    if scheme != "udp" or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is no address such as udp:127.0.0.1:8125 or unix:/run/npumond/statsd.sock")
    try:
        family, _, _, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise ValueError(f"{address!r}: {error}") from error
    return family, place
