"""A target is joined to the chips that its processes are on, by the processes and the socket that they share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from npumond.sources.inference.targets.serving import devices_served

pytestmark = pytest.mark.slow

SERVER = """
import socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
worker = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=sys.stdin)
print(listener.getsockname()[1], worker.pid, flush=True)
sys.stdin.read()
"""


class Running(NamedTuple):
    """A server that listens, and the process of it that would be on a chip."""

    pid: int
    port: int
    worker: int


@pytest.fixture
def servers() -> Iterator[list[Running]]:
    """Two servers of two processes each; they end when their standard input does."""
    with ExitStack() as stack:
        found = []
        for _ in range(2):
            server = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            assert server.stdout is not None
            port, worker = server.stdout.readline().split()
            found.append(Running(server.pid, int(port), int(worker)))
        yield found


def test_the_chips_of_a_servers_children_are_its_own(servers: list[Running]) -> None:
    one, other = servers
    pids = {4: frozenset({one.worker}), 5: frozenset({one.pid}), 6: frozenset({other.worker}), 7: frozenset[int]()}
    assert devices_served("127.0.0.1", one.port, pids) == (4, 5)
    assert devices_served("localhost", other.port, pids) == (6,)


def test_a_port_that_none_of_them_listens_on_has_no_chips(servers: list[Running]) -> None:
    pids = {4: frozenset({servers[0].worker})}
    assert devices_served("127.0.0.1", servers[1].port, pids) == ()


def test_a_process_that_is_gone_is_no_error(servers: list[Running]) -> None:
    assert devices_served("127.0.0.1", servers[0].port, {4: frozenset({2**22 + 1})}) == ()


def container(proc: Path, pid: int, namespace: str, address: str, port: int, inode: str) -> None:
    """A process in a network namespace of its own, as /proc shows it."""
    process = proc / str(pid)
    (process / "fd").mkdir(parents=True)
    (process / "ns").mkdir()
    (process / "net").mkdir()
    (process / "stat").write_text(f"{pid} (python (x) y) S 1 1 1\n")
    (process / "fd" / "3").symlink_to(f"socket:[{inode}]")
    (process / "ns" / "net").symlink_to(f"net:[{namespace}]")
    (process / "net" / "tcp").write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        f"   0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 {inode} 1\n"
    )
    (process / "net" / "fib_trie").write_text(
        f"Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- {address}\n        /32 host LOCAL\n"
    )


def test_of_two_containers_on_one_port_the_address_decides(tmp_path: Path) -> None:
    container(tmp_path, 100, "1", "10.1.0.2", 8000, "11")
    container(tmp_path, 200, "2", "10.1.0.3", 8000, "22")
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "net").symlink_to("net:[9]")
    pids = {0: frozenset({100}), 1: frozenset({200})}
    assert devices_served("10.1.0.3", 8000, pids, tmp_path) == (1,)
    assert devices_served("10.1.0.9", 8000, pids, tmp_path) == ()
    assert devices_served("127.0.0.1", 8000, pids, tmp_path) == ()


def test_a_container_alone_on_its_port_is_found_behind_a_published_port(tmp_path: Path) -> None:
    container(tmp_path, 100, "1", "10.1.0.2", 8000, "11")
    assert devices_served("127.0.0.1", 8000, {3: frozenset({100})}, tmp_path) == (3,)
