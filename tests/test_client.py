"""The client measures, tells, and never hurts the program it is in."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from npumond import client as module
from npumond.client import Client, default, request
from npumond.sources.inference.pushed.dogstatsd import Parser, Timed


class Daemon:
    """A socket where the daemon would listen."""

    def __init__(self, address: str = "udp:127.0.0.1:0") -> None:
        scheme, _, rest = address.partition(":")
        self.sock = socket.socket(socket.AF_UNIX if scheme == "unix" else socket.AF_INET, socket.SOCK_DGRAM)
        if scheme == "unix":
            self.sock.bind(rest)
            self.address = address
        else:
            host, _, port = rest.partition(":")
            self.sock.bind((host, int(port)))
            self.address = f"udp:127.0.0.1:{self.sock.getsockname()[1]}"
        self.sock.settimeout(5)

    def packet(self) -> str:
        """The next datagram."""
        return self.sock.recv(1 << 16).decode()

    def told(self) -> Timed:
        """The next datagram, which is one line, as the daemon understands it."""
        told = Parser().parse(self.packet())
        assert isinstance(told, Timed)
        return told

    def lines(self) -> list[str]:
        """All that has come; on one machine a datagram is there when its sending is over."""
        lines: list[str] = []
        self.sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                lines += self.packet().split("\n")
        self.sock.settimeout(5)
        return lines

    def is_silent(self) -> bool:
        """Whether nothing has come."""
        return not self.lines()


@pytest.fixture(params=["udp", "unix"])
def daemon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon("udp:127.0.0.1:0" if request.param == "udp" else f"unix:{tmp_path}/statsd.sock")
    yield daemon
    daemon.sock.close()


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    client = Client(daemon.address)
    yield client
    client.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The client's clocks stand at the list's last value."""
    now = [100.0]
    monkeypatch.setattr("npumond.client.time.perf_counter", lambda: now[-1])
    monkeypatch.setattr("npumond.client.time.monotonic", lambda: now[-1])
    return now


def test_a_block_is_a_request_that_took_so_long(daemon: Daemon, client: Client, clock: list[float]) -> None:
    with request(model="resnet50", client=client):
        clock.append(100.0125)
    assert daemon.told() == Timed("e2e", "resnet50", "success", (pytest.approx(0.0125),), 1.0)  # type: ignore[arg-type]


def test_an_exception_is_an_error_and_goes_on(daemon: Daemon, client: Client) -> None:
    with pytest.raises(ZeroDivisionError), client.request("a"):
        _ = 1 / 0
    assert daemon.told().status == "error"


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_what_ends_a_block_without_being_an_error_aborts_it(
    daemon: Daemon, client: Client, end: type[BaseException]
) -> None:
    with pytest.raises(end), client.request("a"):
        raise end
    assert daemon.told().status == "aborted"


def test_an_abort_stays_an_abort_whatever_is_raised_then(daemon: Daemon, client: Client) -> None:
    with contextlib.suppress(ConnectionError), client.request("a") as r:
        r.abort()
        raise ConnectionError
    assert daemon.told().status == "aborted"


def test_a_failure_without_an_exception_is_an_error(daemon: Daemon, client: Client) -> None:
    with client.request("a") as r:
        r.fail()
    assert daemon.told().status == "error"


def test_the_first_token_is_the_first(daemon: Daemon, client: Client, clock: list[float]) -> None:
    with client.request("a") as r:
        clock.append(100.2)
        r.first_token()
        clock.append(100.5)
        r.first_token()
    assert daemon.packet().splitlines() == [
        "inference.request.duration:500.000|ms|#model:a",
        "inference.request.ttft:200.000|ms|#model:a",
    ]


async def test_a_block_may_be_async(daemon: Daemon, client: Client) -> None:
    async with client.request("a"):
        await asyncio.sleep(0)
    assert daemon.told().kind == "e2e"


def test_each_call_of_a_decorated_function_is_a_request(daemon: Daemon, client: Client) -> None:
    @request(model="a", client=client)
    def infer(x: int, *, y: int) -> int:
        """Adds."""
        return x + y

    assert (infer(1, y=2), infer(3, y=4), infer.__name__, infer.__doc__) == (3, 7, "infer", "Adds.")
    assert [daemon.told().model, daemon.told().model] == ["a", "a"]


def test_a_decorated_function_may_call_itself(daemon: Daemon, client: Client) -> None:
    @client.request("a")
    def countdown(n: int) -> int:
        return countdown(n - 1) if n else 0

    countdown(2)
    durations = [daemon.told().durations_s[0] for _ in range(3)]
    assert durations == sorted(durations)


async def test_a_decorated_coroutine_is_measured_until_it_ends(daemon: Daemon, client: Client) -> None:
    @client.request("a")
    async def infer() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    waiting = infer()
    assert daemon.is_silent()
    with pytest.raises(ZeroDivisionError):
        await waiting
    assert daemon.told().status == "error"


def test_a_decorated_generator_tells_its_first_token(daemon: Daemon, client: Client) -> None:
    @client.request("a")
    def generate() -> Iterator[str]:
        yield "Hello"
        yield "world"

    assert list(generate()) == ["Hello", "world"]
    assert "ttft" in daemon.packet()


def test_a_generator_that_nobody_reads_on_is_aborted(daemon: Daemon, client: Client) -> None:
    @client.request("a")
    def generate() -> Iterator[str]:
        yield "Hello"
        yield "world"

    tokens = generate()
    next(tokens)
    del tokens
    assert "status:aborted" in daemon.packet()


async def test_a_decorated_async_generator_tells_its_first_token(daemon: Daemon, client: Client) -> None:
    @client.request("a")
    async def generate() -> AsyncIterator[str]:
        yield "Hello"
        yield "world"

    assert [token async for token in generate()] == ["Hello", "world"]
    assert "ttft" in daemon.packet()


def test_a_request_measured_elsewhere_can_be_told(daemon: Daemon, client: Client) -> None:
    client.tell("a", None, "error")
    assert daemon.packet() == "inference.request:1|c|#model:a,status:error"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("a|b#c,d\ne", "a_b_c_d_e"),
        ("llama3:8b", "llama3:8b"),
        ("模型", "模型"),
        ("\ud800", "_"),
        ("x" * 200, "x" * 128),
    ],
)
def test_a_name_cannot_break_the_line(daemon: Daemon, client: Client, name: str, label: str) -> None:
    client.tell(name, 0.01)
    assert daemon.told() == Timed("e2e", label, "success", (0.01,), 1.0)


def test_a_sampled_request_says_what_it_stands_for(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([0.3, 0.1, 0.25, 0.2499])
    monkeypatch.setattr("npumond.client.random.random", lambda: next(drawn))
    client = Client(daemon.address, sample_rate=0.25)
    for _ in range(4):
        client.tell("a", 0.01)
    client.close()
    assert [daemon.told().weight, daemon.told().weight] == [4.0, 4.0]
    assert daemon.is_silent()


def test_a_batch_is_sent_when_it_is_full(daemon: Daemon, clock: list[float]) -> None:
    client = Client(daemon.address, batch=True)
    for _ in range(31):
        client.tell("resnet50", 0.01)
    packet = daemon.packet()
    assert len(packet) <= 1432 < len(packet) + 49
    assert daemon.is_silent()
    client.close()


def test_a_batch_is_sent_when_it_is_old_and_another_request_ends(daemon: Daemon, clock: list[float]) -> None:
    client = Client(daemon.address, batch=True, batch_s=0.1)
    client.tell("a", 0.01)
    clock.append(100.05)
    client.tell("a", 0.01)
    assert daemon.is_silent()
    clock.append(100.11)
    client.tell("a", 0.01)
    assert daemon.packet().count("\n") == 2
    client.close()


def test_a_flush_and_a_close_send_what_waits(daemon: Daemon) -> None:
    client = Client(daemon.address, batch=True)
    client.tell("a", 0.01)
    client.flush()
    assert daemon.told().model == "a"
    client.tell("b", 0.01)
    client.close()
    assert daemon.told().model == "b"


def test_a_closed_client_opens_again(daemon: Daemon, client: Client) -> None:
    client.close()
    client.tell("a", 0.01)
    assert daemon.told().model == "a"


def test_without_a_daemon_lines_are_dropped_and_counted(tmp_path: Path) -> None:
    client = Client(f"unix:{tmp_path}/none", batch=True)
    for _ in range(3):
        client.tell("a", 0.01)
    client.close()
    assert client.dropped == 3


def test_by_udp_the_refused_lines_are_counted_one_packet_late() -> None:
    gone = Daemon()
    gone.sock.close()
    client = Client(gone.address)
    for _ in range(10):
        client.tell("a", 0.01)
    client.close()
    assert client.dropped == 9


def test_a_daemon_that_is_started_again_is_found_by_the_first_line_by_udp() -> None:
    first = Daemon()
    client = Client(first.address)
    client.tell("a", 0.01)
    first.sock.close()
    client.tell("b", 0.01)
    second = Daemon(first.address)
    client.tell("c", 0.01)
    assert second.told().model == "c"
    client.close()
    second.sock.close()


def test_a_daemon_that_is_started_again_is_found_after_a_second_by_unix_socket(
    tmp_path: Path, clock: list[float]
) -> None:
    path = tmp_path / "s"
    first = Daemon(f"unix:{path}")
    client = Client(first.address)
    client.tell("a", 0.01)
    first.sock.close()
    path.unlink()
    client.tell("b", 0.01)
    second = Daemon(first.address)
    client.tell("c", 0.01)
    clock.append(101.5)
    client.tell("d", 0.01)
    assert second.told().model == "d"
    assert client.dropped == 2
    client.close()
    second.sock.close()


@pytest.mark.parametrize("batch", [False, True])
def test_a_daemon_that_does_not_read_blocks_nobody(tmp_path: Path, batch: bool) -> None:
    """The kernel keeps some ten datagrams for a Unix socket."""
    daemon = Daemon(f"unix:{tmp_path}/s")
    client = Client(daemon.address, batch=batch)
    for _ in range(5000):
        client.tell("a", 0.01)
    client.close()
    assert client.dropped > 0
    assert len(daemon.lines()) + client.dropped == 5000
    daemon.sock.close()


def test_a_line_that_found_no_room_goes_with_the_next(tmp_path: Path) -> None:
    daemon = Daemon(f"unix:{tmp_path}/s")
    client = Client(daemon.address)
    sent = 0
    while not client._waiting:
        client.tell("a", 0.01)
        sent += 1
    daemon.lines()
    client.tell("b", 0.01)
    assert [line[-1] for line in daemon.lines()] == ["a", "b"]
    assert client.dropped == 0
    client.close()
    daemon.sock.close()


def test_threads_share_a_client_and_no_line_is_lost_or_torn(daemon: Daemon) -> None:
    client = Client(daemon.address, batch=True)

    def push(name: str) -> None:
        for _ in range(400):
            client.tell(name, 0.01)

    pushers = [threading.Thread(target=push, args=(name,)) for name in "abcd"]
    for pusher in pushers:
        pusher.start()
    for pusher in pushers:
        pusher.join()
    client.close()
    lines = daemon.lines()
    assert len(lines) + client.dropped == 1600
    assert set(lines) <= {f"inference.request.duration:10.000|ms|#model:{name}" for name in "abcd"}


def _in_child(client: Client) -> None:
    client.tell("child", 0.01)
    client.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_tells_its_own_lines_only(daemon: Daemon) -> None:
    client = Client(daemon.address, batch=True)
    client.tell("parent", 0.01)
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(client,))
    child.start()
    child.join(10)
    assert daemon.told().model == "child"
    client.close()
    assert daemon.told().model == "parent"
    assert daemon.is_silent()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_while_another_thread_holds_the_lock_does_not_hang_the_child(daemon: Daemon) -> None:
    client = Client(daemon.address, batch=True)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with client._lock:
            held.set()
            done.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(5)
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(client,))
    child.start()
    child.join(10)
    done.set()
    holder.join()
    assert child.exitcode == 0
    client.close()


def run(code: str, address: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, in which every warning is an error unless it says otherwise."""
    environ = {**os.environ, "NPUMOND_STATSD": address}
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, env=environ, check=False, capture_output=True, text=True, timeout=20)


def test_what_waits_is_sent_at_the_end_of_the_program(daemon: Daemon) -> None:
    code = f"from npumond.client import Client\nc = Client({daemon.address!r}, batch=True)\nc.tell('a', 0.01)"
    assert run(code, "").stderr == ""
    assert daemon.told().model == "a"


def test_the_environment_says_where_the_daemon_is(daemon: Daemon) -> None:
    assert run("from npumond.client import request\nwith request(model='a'): pass", daemon.address).stderr == ""
    assert daemon.told().model == "a"


def test_an_empty_address_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPUMOND_STATSD", "")
    default.cache_clear()
    with request(model="a"):
        pass
    assert (default().dropped, default()._socket) == (0, None)
    default.cache_clear()


def test_a_wrong_address_in_the_environment_warns_and_hurts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPUMOND_STATSD", "tcp:1.2.3.4")
    default.cache_clear()
    with pytest.warns(RuntimeWarning, match="NPUMOND_STATSD: 'tcp:1.2.3.4' is no address such as"), request(model="a"):
        pass
    with request(model="a"):
        pass
    default.cache_clear()


@pytest.mark.parametrize("address", ["127.0.0.1:8125", "udp:8125", "udp:host:", "udp:host:0", "udp:h:99999", "unix:s"])
def test_a_client_of_a_wrong_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="is no address such as"):
        Client(address)


@pytest.mark.parametrize("rate", [0, -1, 1.5, float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="sample_rate is"):
        Client(sample_rate=rate)


def test_the_client_imports_the_standard_library_only() -> None:
    """So that its file can be copied into any image."""
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_importing_the_client_does_nothing() -> None:
    code = "import npumond.client as c\nassert not c._CLIENTS and c.default.cache_info().currsize == 0"
    assert run(code, "nonsense").stderr == ""
