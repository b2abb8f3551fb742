"""Datagrams come in by UDP and by Unix socket, from any client, and what is lost is counted."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from datadog.dogstatsd.base import DogStatsd

from npumond.client import Client
from npumond.config.notation import Listen
from npumond.errors import ListenError
from npumond.sources.inference.latency_samples import Telling
from npumond.sources.inference.measured import Requests
from npumond.sources.inference.pushed import statsd
from npumond.sources.inference.pushed.statsd import Lines, StatsdSource
from tests.sources.inference.pushed.book import series

LOOPBACK = Listen("127.0.0.1", 0)
LINE = b"inference.request.duration:12.5|ms|#model:resnet50"


@asynccontextmanager
async def listening(address: Listen = LOOPBACK) -> AsyncIterator[StatsdSource]:
    """A listener on the running loop."""
    source = StatsdSource(
        address, Requests("statsd", 60.0, Telling(1, aliases=False), time.monotonic), 1.0, time.monotonic
    )
    await source.start()
    try:
        yield source
    finally:
        await source.close()


async def until(holds: Callable[[], bool], deadline_s: float = 5.0) -> None:
    """Let the loop turn until this holds."""
    async with asyncio.timeout(deadline_s):
        while not holds():  # noqa: ASYNC110 - the other side is a process or the kernel and sets no event
            await asyncio.sleep(0.001)


def sender(source: StatsdSource) -> socket.socket:
    (address,) = source.addresses
    sock = socket.socket(socket.AF_UNIX if address.path else socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(address.path or (address.host, address.port))
    return sock


async def told(source: StatsdSource, *packets: bytes) -> Lines:
    """What became of the lines in these datagrams."""
    with sender(source) as sock:
        for packet in packets:
            sock.send(packet)
    await until(lambda: source.packets == len(packets))
    return source.lines


async def totals(source: StatsdSource) -> dict[tuple[str, ...], float]:
    (batch,) = (await source.sample("fast")).batches
    return series(batch.samples, "inference_requests_total")


async def test_a_datagram_of_many_lines_is_taken_line_by_line() -> None:
    async with listening() as source:
        lines = await told(source, LINE + b"\n" + LINE + b"\n", b"page.views:1|c\n\nwhat is this", b"\xff\xfe", b"")
        assert lines == Lines(taken=2, foreign=1, garbage=2)


async def test_what_comes_in_is_on_the_page_under_the_target_statsd() -> None:
    async with listening() as source:
        await told(source, LINE, b"inference.request.ttft:8|ms|#model:resnet50", b"inference.request:2|c|#status:error")
        (batch,) = (await source.sample("fast")).batches
        observed = series(batch.samples, "inference_latency_observations")
        assert observed == {("resnet50", "statsd", "e2e"): 1, ("resnet50", "statsd", "ttft"): 1}
        assert await totals(source) == {("resnet50", "statsd", "success"): 1, ("unknown", "statsd", "error"): 2}
        assert series(batch.samples, "inference_request_duration_seconds") == {("resnet50", "statsd"): 1}


async def test_a_batch_expires_after_three_rounds() -> None:
    async with listening() as source:
        (batch,) = (await source.sample("fast")).batches
        assert (batch.source, batch.group, batch.expires_at - batch.at) == ("inference_statsd", "fast", 3.0)


async def test_packed_and_sampled_durations_count_for_all_they_stand_for() -> None:
    async with listening() as source:
        await told(source, b"inference.request.duration:1:2:3|h|@0.5|#model:a", b"inference.request:0|c|#model:a")
        assert await totals(source) == {("a", "statsd", "success"): 6}


async def test_a_name_stands_for_all_its_addresses() -> None:
    async with listening(Listen("localhost", 0)) as source:
        assert {"127.0.0.1"} <= {address.host for address in source.addresses} <= {"127.0.0.1", "::1"}


async def test_ipv6_is_heard() -> None:
    async with listening(Listen("::1", 0)) as source:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.sendto(LINE, ("::1", source.addresses[0].port))
        await until(lambda: source.lines.taken == 1)


async def test_any_address_of_ipv6_hears_ipv4_too() -> None:
    async with listening(Listen("::", 0)) as source:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(LINE, ("127.0.0.1", source.addresses[0].port))
        await until(lambda: source.lines.taken == 1)


async def test_a_unix_socket_is_open_to_everyone_and_removed_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "statsd.sock"
    async with listening(Listen(path=str(path))) as source:
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert await told(source, LINE) == Lines(1, 0, 0)
    assert not path.exists()


async def test_a_datagram_larger_than_any_is_garbage(tmp_path: Path) -> None:
    async with listening(Listen(path=str(tmp_path / "s"))) as source:
        lines = await told(source, (LINE + b"\n") * 2000, LINE)
        assert lines == Lines(taken=1, foreign=0, garbage=1)


async def test_the_file_of_a_listener_that_was_killed_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "statsd.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left_behind:
        left_behind.bind(str(path))
    async with listening(Listen(path=str(path))) as source:
        assert await told(source, LINE) == Lines(1, 0, 0)


async def test_a_unix_socket_that_somebody_reads_is_left_alone(tmp_path: Path) -> None:
    address = Listen(path=str(tmp_path / "s"))
    async with listening(address) as first:
        with pytest.raises(ListenError, match=r"cannot listen on unix:.*/s: the address is taken; choose another with"):
            async with listening(address):
                pass
        assert await told(first, LINE) == Lines(1, 0, 0)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
async def test_a_socket_of_any_kind_is_not_taken_away(tmp_path: Path, kind: socket.SocketKind) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, kind) as other:
        other.bind(str(path))
        if kind == socket.SOCK_STREAM:
            other.listen()
        with pytest.raises(ListenError):
            async with listening(Listen(path=str(path))):
                pass
    assert path.exists()


async def test_a_file_that_is_no_socket_is_never_removed(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(ListenError, match="it is not a socket"):
        async with listening(Listen(path=str(path))):
            pass
    assert path.read_text() == "data"


async def test_a_folder_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match=r"unix:.*/none/s: No such file or directory"):
        async with listening(Listen(path=str(tmp_path / "none" / "s"))):
            pass


async def test_the_file_of_a_successor_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with listening(Listen(path=str(path))):
        path.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as successor:
            successor.bind(str(path))
    assert path.exists()


async def test_a_port_that_is_taken_is_said() -> None:
    async with listening() as first:
        (address,) = first.addresses
        with pytest.raises(ListenError, match=rf"cannot listen on udp:127.0.0.1:{address.port}: the address is taken"):
            async with listening(address):
                pass


async def test_an_unknown_host_is_said() -> None:
    with pytest.raises(ListenError, match=r"cannot listen on udp:nowhere\.invalid:8125: "):
        async with listening(Listen("nowhere.invalid", 8125)):
            pass


async def test_what_the_kernel_threw_away_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop does not turn while the datagrams come, and the buffer is small."""
    monkeypatch.setattr(statsd, "BUFFER_BYTES", 4096)
    async with listening() as source:
        with sender(source) as sock:
            for _ in range(500):
                sock.send(LINE)
        await until(lambda: source.packets + (source.kernel_drops or 0) == 500)
        assert source.kernel_drops
    assert source.packets + source.kernel_drops == 500


async def test_a_burst_leaves_the_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two portions of the burst somebody else gets a turn."""
    monkeypatch.setattr(statsd, "LINES_A_WAKE", 10)
    async with listening() as source:
        with sender(source) as sock:
            for _ in range(100):
                sock.send(LINE)
        seen = []
        while source.packets < 100:
            seen.append(source.packets)
            await asyncio.sleep(0)
        assert len(set(seen)) >= 9


async def test_a_socket_that_breaks_is_a_reason_and_not_a_busy_loop() -> None:
    async with listening() as source:
        (bound,) = source._bound
        reading, writing = os.pipe()
        os.dup2(reading, bound.sock.fileno())  # recv on it gives ENOTSOCK
        source._readable(bound)
        os.close(reading)
        os.close(writing)
        assert "cannot be read any more" in (await source.sample("fast")).reason


def datadog(source: StatsdSource, **options: Any) -> DogStatsd:
    """Datadog's own client, talking to the listener."""
    (address,) = source.addresses
    options |= {"socket_path": address.path} if address.path else {"host": address.host, "port": address.port}
    return DogStatsd(disable_telemetry=True, **options)


@pytest.fixture(params=["udp", "unix"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Listen:
    return LOOPBACK if request.param == "udp" else Listen(path=str(tmp_path / "statsd.sock"))


async def test_datadogs_client_is_heard(address: Listen) -> None:
    async with listening(address) as source:
        client = datadog(source, disable_buffering=True)
        client.timing("inference.request.duration", 12.5, tags=["model:resnet50"])
        client.histogram("inference.request.duration", 13, tags=["model:resnet50", "status:error"])
        client.distribution("inference.request.ttft", 3, tags=["model:resnet50"])
        client.increment("inference.request", tags=["model:resnet50", "status:aborted"])
        client.gauge("gpu.temperature", 40)
        client.event("deployed", "a\nnew\nversion")
        client.service_check("up", DogStatsd.OK)
        await until(lambda: source.lines == Lines(taken=4, foreign=3, garbage=0))
        assert await totals(source) == {
            ("resnet50", "statsd", "success"): 1,
            ("resnet50", "statsd", "error"): 1,
            ("resnet50", "statsd", "aborted"): 1,
        }
        client.close_socket()


async def test_datadogs_buffered_client_is_heard_line_by_line(address: Listen) -> None:
    async with listening(address) as source:
        with datadog(source, disable_aggregation=True) as client:
            for _ in range(100):
                client.timing("inference.request.duration", 12.5, tags=["model:resnet50"])
        await until(lambda: source.lines.taken == 100)
        assert source.packets < 100
        client.close_socket()


async def test_datadogs_sampled_requests_count_for_all(address: Listen) -> None:
    """Each that is sent stands for ten. Some four hundred are, of which a full queue may refuse a few."""
    async with listening(address) as source:
        with datadog(source, disable_aggregation=True) as client:
            for _ in range(4000):
                client.timing("inference.request.duration", 1, tags=["model:a"], sample_rate=0.1)
        await until(lambda: source.lines.taken > 250)
        assert source.lines == Lines(source.lines.taken, 0, 0)
        client.close_socket()
        (total,) = (await totals(source)).values()
        assert total == pytest.approx(10 * source.lines.taken)


async def test_datadogs_aggregated_counts_are_counted(address: Listen) -> None:
    async with listening(address) as source:
        client = datadog(source, disable_aggregation=False)
        for _ in range(50):
            client.increment("inference.request", tags=["model:a"])
        client.flush()
        await until(lambda: source.lines.taken > 0)
        assert await totals(source) == {("a", "statsd", "success"): 50}
        client.stop()
        client.close_socket()


async def test_our_own_client_is_heard(address: Listen) -> None:
    async with listening(address) as source:
        (bound,) = source.addresses
        client = Client(str(bound) if bound.path else f"udp:{bound}")
        with client.request("llama") as request:
            request.first_token()
        client.close()
        await until(lambda: source.lines.taken == 2)
        assert await totals(source) == {("llama", "statsd", "success"): 1}


@pytest.mark.slow
async def test_a_process_beside_is_heard(address: Listen) -> None:
    """By the environment variable, as applications do it; what is sent at the end arrives too."""
    async with listening(address) as source:
        (bound,) = source.addresses
        code = "from npumond.client import request\nfor _ in range(5):\n    with request('m'): pass"
        environ = {**os.environ, "NPUMOND_STATSD": str(bound) if bound.path else f"udp:{bound}"}
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], env=environ, check=True)
        await until(lambda: source.lines.taken == 5)
