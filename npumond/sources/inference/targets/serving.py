"""Which chips a server runs on: from the processes on the chips to the socket that one of their family listens on.

A server is a family of processes: the one that listens is the process on the chip itself or one of its ancestors
(vLLM's API server starts the engines, which start the workers). So from each process on a chip the way goes up, and the
first that holds a listening socket of the port serves this chip.

Sockets are looked for in each process's own network namespace, since a server in a container has one of its own. Two
containers may well listen on the same port; then the one decides whose namespace has the target's address.

Source: Linux, proc(5): ``/proc/PID/net/tcp`` (state 0A is LISTEN), ``/proc/PID/fd``, ``/proc/PID/net/fib_trie``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_LISTEN = "0A"
_MOST_ANCESTORS = 32
_LOCAL = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")


class _Server(NamedTuple):
    """A listening process."""

    pid: int
    namespace: str


def devices_served(
    host: str, port: int, pids_by_device: Mapping[int, frozenset[int]], proc: Path = Path("/proc")
) -> tuple[int, ...]:
    """Device ids of the chips that the server at this address runs on; empty when that cannot be seen or is ambiguous.

    ``pids_by_device`` has the processes on each chip, as this process's pid namespace numbers them. Reads files of
    those processes and of their ancestors only, a few milliseconds in all; blocks.
    """
    found: dict[_Server, set[int]] = {}
    for device_id, pids in pids_by_device.items():
        for pid in pids:
            if server := _server(pid, port, proc):
                found.setdefault(server, set()).add(device_id)
    if len(found) > 1:
        found = {server: devices for server, devices in found.items() if _has_address(server, host, proc)}
    if len({server.namespace for server in found}) > 1:
        return ()
    return tuple(sorted(set().union(*found.values())))


def _server(pid: int, port: int, proc: Path) -> _Server | None:
    """The process itself or the nearest ancestor that listens on the port."""
    for one in _ancestry(pid, proc):
        try:
            sockets = _listening(proc / str(one), port)
            if sockets and _holds(proc / str(one), sockets):
                return _Server(one, str((proc / str(one) / "ns" / "net").readlink()))
        except OSError:
            continue  # it ended meanwhile, or is not ours to look into
    return None


def _ancestry(pid: int, proc: Path) -> Iterator[int]:
    for _ in range(_MOST_ANCESTORS):
        if pid <= 1:
            return
        yield pid
        try:
            after_name = (proc / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            pid = int(after_name[1])
        except (OSError, IndexError, ValueError):
            return


def _listening(process: Path, port: int) -> frozenset[str]:
    """Inodes of the listening sockets of this port in the process's network namespace."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        path = process / "net" / table
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    return frozenset(inodes)


def _holds(process: Path, inodes: frozenset[str]) -> bool:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for descriptor in (process / "fd").iterdir():
        try:
            if str(descriptor.readlink()) in wanted:
                return True
        except FileNotFoundError:
            continue  # closed meanwhile
    return False


def _has_address(server: _Server, host: str, proc: Path) -> bool:
    """Whether the server's network namespace has the host's address; a loopback address is that of our own."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if address is None or address.is_loopback:
        return server.namespace == str((proc / "self" / "ns" / "net").readlink())
    try:
        return str(address) in _LOCAL.findall((proc / str(server.pid) / "net" / "fib_trie").read_text())
    except OSError:
        return False
