"""Takes DogStatsD datagrams from the applications of this node, by UDP or by a Unix socket, into the book of requests.

Loss is counted, not guessed: what the kernel threw away since our buffer was full is asked of the socket itself
(SO_MEMINFO, the counter that ``/proc/net/udp`` shows in its last column, without reading every socket of the host). On
a Unix socket nothing is lost here: a sender whose datagram finds no room is told at once (EAGAIN), and counts it.

A burst never holds the loop: after `LINES_A_WAKE` lines everybody else gets a turn. Meanwhile datagrams wait in the
kernel, for which as large a buffer is asked as may be had.

The Unix socket is open to every user (mode 0666), since applications run as whoever they are; the folder it lies in
decides who gets there. Nothing that comes in is trusted: a datagram can at worst invent requests.

Source: Linux, socket(7), udp(7), unix(7), sock_diag(7) for the order of the figures of SO_MEMINFO.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from npumond.config.notation import Listen, show_datagrams
from npumond.errors import ListenError
from npumond.sources.inference.measured import Requests
from npumond.sources.inference.pushed.dogstatsd import Counted, Parser, Timed
from npumond.sources.source import Sampled, lasting_batch
from npumond.unix_socket import clear_stale

TARGET = "statsd"
"""The label ``target`` of what comes in here."""
LINES_A_WAKE = 1000
"""Some 4 ms."""
BUFFER_BYTES = 4 << 20
"""Asked of the kernel: some 5000 datagrams of one line, a tenth of a second at 50 000 a second."""

_LARGEST = 1 << 16
"""Of a datagram. UDP has none larger; on a Unix socket a larger one is garbage."""
_MODE = 0o666
_SO_RCVBUFFORCE = 33  # as SO_RCVBUF, past net.core.rmem_max; wants CAP_NET_ADMIN
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=9I")
_DROPS = 8  # SK_MEMINFO_DROPS


class Lines(Struct, frozen=True):
    """Lines that came in, by what became of them."""

    taken: int
    foreign: int
    """Well-formed, of other names or types than ours; events and service checks too."""
    garbage: int
    """What cannot be read, and datagrams that are too large."""


class StatsdSource:
    """The listener and its book. `start` before the first round, `close` in the end."""

    name = "inference_statsd"

    def __init__(self, address: Listen, requests: Requests, interval_s: float, clock: Callable[[], float]) -> None:
        self._address = address
        self._requests = requests
        self._interval_s = interval_s
        self._clock = clock
        self._parser = Parser()
        self._buffer = memoryview(bytearray(_LARGEST))
        self._bound: list[_Bound] = []
        self._broken = ""
        self._taken = self._foreign = self._garbage = 0
        self.packets = 0
        """Datagrams that came in."""

    @property
    def intervals(self) -> dict[str, float]:
        """One group; what comes in between is booked as it comes."""
        return {"fast": self._interval_s}

    @property
    def lines(self) -> Lines:
        """What became of the lines so far."""
        return Lines(self._taken, self._foreign, self._garbage)

    @property
    def kernel_drops(self) -> int | None:
        """Datagrams that the kernel threw away because we did not read fast enough; None where it does not tell."""
        drops = [bound.drops() for bound in self._bound]
        return None if None in drops else sum(filter(None, drops))

    @property
    def addresses(self) -> tuple[Listen, ...]:
        """Where it listens, with the port that was taken where 0 was asked for."""
        return tuple(bound.address for bound in self._bound)

    async def start(self) -> None:
        """Begin to listen on the running loop. Raises ListenError when the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._bound = await _bind(self._address)
        for bound in self._bound:
            loop.add_reader(bound.sock.fileno(), self._readable, bound)

    async def close(self) -> None:
        """Listen no longer; the file of a Unix socket is removed. What was not read yet is lost."""
        loop = asyncio.get_running_loop()
        for bound in self._bound:
            if bound.sock.fileno() >= 0:
                loop.remove_reader(bound.sock.fileno())
            bound.close()

    async def sample(self, group: str) -> Sampled:
        """The book as it is now."""
        batch = lasting_batch(self.name, group, self._clock(), self._interval_s, self._requests.samples())
        return Sampled(batches=(batch,), reason=self._broken)

    def _readable(self, bound: _Bound) -> None:
        lines = 0
        try:
            while lines < LINES_A_WAKE:
                size = bound.sock.recv_into(self._buffer, 0, socket.MSG_TRUNC)  # the true size, whatever fits
                lines += self._datagram(size)
        except BlockingIOError:
            return
        except OSError as error:  # without this the loop would call again at once, for ever
            self._broken = f"{show_datagrams(bound.address)} cannot be read any more: {error}"
            asyncio.get_running_loop().remove_reader(bound.sock.fileno())

    def _datagram(self, size: int) -> int:
        """Take the lines of the datagram in the buffer; returns how much work it was, in lines."""
        self.packets += 1
        if size > _LARGEST:
            self._garbage += 1
            return 1
        lines = str(self._buffer[:size], "utf-8", "replace").split("\n")
        self._lines(lines)
        return max(len(lines), size // 32)  # one line may hold thousands of values

    def _lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            told = self._parser.parse(line) if line else ""
            if not isinstance(told, str):
                self._taken += 1
                self._book(told)
            elif told == "foreign":
                self._foreign += 1
            elif told:
                self._garbage += 1

    def _book(self, told: Timed | Counted) -> None:
        requests = self._requests
        if isinstance(told, Counted):
            if told.count:
                weight = told.count * told.weight
                requests.request(told.model, TARGET, told.status, weight=weight, seen=told.count)
        elif told.kind == "e2e":
            for duration_s in told.durations_s:
                requests.request(told.model, TARGET, told.status, duration_s, weight=told.weight)
        else:
            for duration_s in told.durations_s:
                requests.latency(told.model, TARGET, told.kind, duration_s, told.weight)


class _Bound:
    """A bound socket, and its losses."""

    def __init__(self, sock: socket.socket, address: Listen) -> None:
        sock.setblocking(False)
        _enlarge(sock)
        self.sock = sock
        self.address = address
        self._inode = Path(address.path).stat().st_ino if address.path else 0
        self._drops = 0

    def drops(self) -> int | None:
        """Datagrams lost so far. The kernel counts in 32 bits, we go on."""
        if self.sock.fileno() >= 0:
            try:
                figures = self.sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
            except OSError:  # Linux before 4.12, or what only resembles it
                return None
            self._drops += (_MEMINFO.unpack(figures)[_DROPS] - self._drops) & 0xFFFFFFFF
        return self._drops

    def close(self) -> None:
        """Close the socket and remove its file, unless another listener has put its own in that place."""
        self.drops()
        self.sock.close()
        with suppress(FileNotFoundError):
            if self._inode and Path(self.address.path).stat().st_ino == self._inode:
                Path(self.address.path).unlink()


async def _bind(address: Listen) -> list[_Bound]:
    """Bind every address that the host name stands for, or none."""
    bound: list[_Bound] = []
    try:
        if address.path:
            return [_bind_unix(address)]
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
        for family, place in dict.fromkeys((family, place[:2]) for family, _, _, _, place in found):
            bound.append(_bind_udp(family, (str(place[0]), int(place[1]))))
    except OSError as error:
        for each in bound:
            each.close()
        raise ListenError(_explain(address, error)) from error
    return bound


def _bind_udp(family: socket.AddressFamily, place: tuple[str, int]) -> _Bound:
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, place[0] != "::")
        sock.bind(place)
        return _Bound(sock, Listen(*sock.getsockname()[:2]))
    except BaseException:
        sock.close()
        raise


def _bind_unix(address: Listen) -> _Bound:
    """Bind a Unix socket; the file of a listener that is gone is replaced."""
    path = Path(address.path)
    clear_stale(path, socket.SOCK_DGRAM)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        sock.bind(str(path))
        path.chmod(_MODE)
        return _Bound(sock, address)
    except BaseException:
        sock.close()
        raise


def _enlarge(sock: socket.socket) -> None:
    """As large a receive buffer as may be had: past the system's limit where we are privileged, up to it elsewhere."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)


def _explain(address: Listen, error: OSError) -> str:
    why = "the address is taken" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return f"cannot listen on {show_datagrams(address)}: {why}; choose another with inference.statsd.listen"
