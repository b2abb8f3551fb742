"""Listening sockets, and good words when an address cannot be had.

Sockets are made here and not by the event loop, so that all addresses are bound before any is served, a Unix socket has
its mode before anyone can connect, and an address that is taken is answered with the name of its owner.
No SO_REUSEPORT: two daemons would share the port in silence. No other port is tried: dashboards hang on the number.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
from msgspec import Struct

from npumond.config import Listen
from npumond.errors import ListenError
from npumond.unix_socket import clear_stale

_BACKLOG = 128
_UNIX_MODE = 0o660


class Listener(Struct):
    """A bound socket that listens already."""

    address: Listen
    """As bound: the port that was taken where 0 was asked for."""
    sock: socket.socket
    inode: int = 0
    """Of a Unix socket's file, so that only our own is removed."""

    def remove_file(self) -> None:
        """Remove the file of a Unix socket, unless another server has put its own in that place."""
        path = Path(self.address.path)
        if self.inode and path.exists() and path.stat().st_ino == self.inode:
            path.unlink()


def _ascii(host: str) -> str | bytes:
    """As bytes where that is possible: Python loads its tables of Unicode names for a host that is given as text."""
    return host.encode() if host.isascii() else host


def open_listeners(addresses: Sequence[Listen]) -> list[Listener]:
    """Bind every address or none. Raises ListenError for the first that cannot be had."""
    listeners: list[Listener] = []
    try:
        for address in addresses:
            for listener in _open(address, addresses):
                listeners.append(listener)  # noqa: PERF402 (what is open has to be known when the next one fails)
    except BaseException:
        for listener in listeners:
            listener.sock.close()
            listener.remove_file()
        raise
    return listeners


def _open(address: Listen, among: Sequence[Listen]) -> Iterator[Listener]:
    try:
        if address.path:
            yield _open_unix(address)
        else:
            yield from _open_tcp(address, among)
    except OSError as error:
        raise ListenError(_explain(address, error)) from error


def _open_tcp(address: Listen, among: Sequence[Listen]) -> Iterator[Listener]:
    """One listener for each address that the host name stands for."""
    host = _ascii(address.host) or None
    found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    places = list(dict.fromkeys((family, (str(place[0]), int(place[1]))) for family, _, _, _, place in found))
    # As everywhere else, [::] takes IPv4 too, unless IPv4 is listed, or among the answers, with the same port.
    alone = len(places) == 1 and Listen("0.0.0.0", address.port) not in among  # noqa: S104 (compared, not bound)
    for family, place in places:
        dual = family == socket.AF_INET6 and place[0] == "::" and alone
        sock = socket.create_server(place, family=family, backlog=_BACKLOG, dualstack_ipv6=dual)
        sock.setblocking(False)
        yield Listener(Listen(*sock.getsockname()[:2]), sock)


def _open_unix(address: Listen) -> Listener:
    """Bind a Unix socket; the file of a server that is gone is replaced."""
    path = Path(address.path)
    clear_stale(path, socket.SOCK_STREAM)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        path.chmod(_UNIX_MODE)  # before listen: until then nobody can connect
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    sock.setblocking(False)
    return Listener(address, sock, path.stat().st_ino)


def _explain(address: Listen, error: OSError) -> str:
    """What happened, who holds the address where that can be seen, and which setting moves us elsewhere."""
    if error.errno == errno.EADDRINUSE:
        why = f"the address is taken by {_owner(address) or 'another process'}"
    else:
        why = error.strerror or str(error)
    return f"cannot listen on {address}: {why}; choose another with server.listen in the configuration or with --listen"


def _owner(address: Listen) -> str:
    """Name and pid of the process that listens there; empty where we may not see it."""
    try:
        for each in psutil.net_connections("unix" if address.path else "tcp"):
            if address.path:
                holds = str(each.laddr) == address.path
            else:
                holds = each.status == psutil.CONN_LISTEN and getattr(each.laddr, "port", 0) == address.port
            if holds and each.pid:
                return f"{psutil.Process(each.pid).name()} (pid {each.pid})"
    except (psutil.Error, OSError):
        pass
    return ""
