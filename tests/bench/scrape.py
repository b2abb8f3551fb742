"""Scrapes, beside prometheus_client's server with the same series in the same run: ``python -m tests.bench.scrape``.

Each server runs in a process of its own on loopback; in both, every value changes each second.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import quantiles

import uvloop
from prometheus_client import start_http_server

from npumond.config import Listen
from npumond.latest import Latest
from npumond.model import Snapshot
from npumond.sinks.http import HttpServer
from tests.bench.render import READINGS, SERIES, Client, snapshot

SECONDS = 6.0
MOST = 20_000
"""Scrapes of one measurement, at most."""
INTERVAL_S = 1.0


async def serve_ours() -> None:
    """Our server, with a new snapshot each second, until the process is ended."""
    snapshots: Latest[Snapshot] = Latest()
    source = random.Random(0)
    snapshots.set(snapshot(READINGS, source))
    server = HttpServer(
        [Listen("127.0.0.1", 0)],
        snapshots=snapshots,
        status=dict,
        alerts=lambda state: [],
        devices=list,
        ready=lambda: (True, ""),
    )
    await server.start()
    print(server.bound[0].port, flush=True)
    while True:
        await asyncio.sleep(INTERVAL_S)
        snapshots.set(snapshot(READINGS, source))


def serve_theirs() -> None:
    """prometheus_client's server, with new values each second, until the process is ended."""
    client = Client()
    source = random.Random(0)
    client.set(READINGS, source)
    server, _ = start_http_server(0, "127.0.0.1", client.registry)
    print(server.server_port, flush=True)
    while True:
        threading.Event().wait(INTERVAL_S)
        client.set(READINGS, source)


@contextmanager
def running(who: str) -> Iterator[int]:
    """A server process; gives its port."""
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.scrape", who], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate(timeout=10)


class Scraper:
    """A client as spare as can be, so that what is measured is the server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def scrape(self) -> int:
        """One page, over the connection of last time where the server keeps it; gives its size."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        reader, writer = self._streams
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: text/plain;version=0.0.4\r\n\r\n")
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        lengths = [line for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
        body = await (reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else reader.read())
        if head.startswith(b"http/1.0"):
            self.close()
        return len(body)

    def close(self) -> None:
        """Leave the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def measure(port: int, clients: int) -> list[float]:
    """Durations of scrapes in milliseconds, made by this many clients without a pause."""
    durations: list[float] = []
    end = time.perf_counter() + SECONDS

    async def work() -> None:
        scraper = Scraper(port)
        while (began := time.perf_counter()) < end and len(durations) < MOST:
            assert await scraper.scrape() > SERIES
            durations.append((time.perf_counter() - began) * 1000)
        scraper.close()

    async with asyncio.timeout(SECONDS * 5), asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(work())
    return durations


def main() -> None:
    """Print the table."""
    print(f"{SERIES} series, every value changed each second, at most {SECONDS:.0f} s a line\n")
    print(f"clients {'server':18} {'pages':>7} {'pages/s':>8} {'p50':>10} {'p99':>10}  p50 ratio  p99 ratio")
    with running("theirs") as theirs, running("ours") as ours:
        for clients in (1, 16):
            baseline = row(clients, "prometheus_client", theirs, None)
            row(clients, "npumond", ours, baseline)


def row(clients: int, name: str, port: int, baseline: tuple[float, float] | None) -> tuple[float, float]:
    """Measure one line and print it; gives its p50 and p99."""
    began = time.perf_counter()
    durations = uvloop.run(measure(port, clients))
    rate = len(durations) / (time.perf_counter() - began)
    cuts = quantiles(durations, n=100)
    p50, p99 = cuts[49], cuts[98]
    ratios = f"{baseline[0] / p50:9.1f}x {baseline[1] / p99:9.1f}x" if baseline else ""
    print(f"{clients:7} {name:18} {len(durations):7} {rate:8.0f} {p50:7.2f} ms {p99:7.2f} ms {ratios}")
    return p50, p99


if __name__ == "__main__":
    if sys.argv[1:] == ["ours"]:
        uvloop.run(serve_ours())
    elif sys.argv[1:] == ["theirs"]:
        serve_theirs()
    else:
        main()
