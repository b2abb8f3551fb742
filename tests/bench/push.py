"""Requests that applications push: what a call costs them, what a line costs us, and what gets lost.

    python -m tests.bench.push [--seconds 3]

Costs are measured beside a baseline in the same run: Datadog's client, and a parser that only splits a line. The
listener runs in a process of its own on uvloop and books everything, as in the daemon; senders are one or two processes
more, so on two cores the listener shares one at times. Lost is what was sent and neither taken nor counted by anybody.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import uvloop
from datadog.dogstatsd.base import DogStatsd

from npumond.client import Client
from npumond.config.notation import datagrams
from npumond.sources.inference.latency_samples import Telling
from npumond.sources.inference.measured import Requests
from npumond.sources.inference.pushed.dogstatsd import Parser
from npumond.sources.inference.pushed.statsd import StatsdSource

CALLS = 5000
ROUNDS = 21
RATES = (10_000, 50_000, None)
"""Requests a second, of all senders together; None: as fast as they can."""
MOST = 1_000_000
"""Requests of one sender, at most."""
TICK_S = 0.001
LINES = [f"inference.request.duration:{10 + n % 90}.{n % 1000:03d}|ms|#model:resnet50" for n in range(CALLS)]

TELLING = Telling(min_requests=10, aliases=True)


class Report(NamedTuple):
    """What the listener has counted so far."""

    taken: int
    other: int
    packets: int
    drops: int
    cpu_s: float


async def listen(address: str) -> None:
    """The listener, until the process is ended. Prints its address, and a report for each line it is sent."""
    source = StatsdSource(datagrams(address), Requests("statsd", 60.0, TELLING, time.monotonic), 1.0, time.monotonic)
    await source.start()
    (bound,) = source.addresses
    print(str(bound) if bound.path else f"udp:{bound}", flush=True)
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), report, source)
    while True:
        await source.sample("fast")
        await asyncio.sleep(1)


def report(source: StatsdSource) -> None:
    """Answer one line from standard input."""
    sys.stdin.readline()
    used = resource.getrusage(resource.RUSAGE_SELF)
    lines = source.lines
    counted = lines.taken, lines.foreign + lines.garbage, source.packets, source.kernel_drops
    print(json.dumps([*counted, used.ru_utime + used.ru_stime]), flush=True)


class Listener:
    """The listening process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.address = self._out.readline().strip()

    def report(self) -> Report:
        """As it is now."""
        self._in.write("report\n")
        self._in.flush()
        return Report(*json.loads(self._out.readline()))

    def settled(self) -> Report:
        """When nothing more comes in."""
        before = self.report()
        while True:
            time.sleep(0.1)
            after = self.report()
            if after.packets == before.packets:
                return after
            before = after


@contextlib.contextmanager
def listening(address: str) -> Iterator[Listener]:
    """A listener for as long as the context lasts."""
    command = [sys.executable, "-m", "tests.bench.push", "--listen", address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Listener(process)
        finally:
            process.kill()


def send(
    address: str, batch: bool, rate: float | None, seconds: float, result: multiprocessing.Queue[list[int]]
) -> None:
    """One sender. Puts how many requests it made, and how many of them its client dropped."""
    client = Client(address, batch=batch)
    made, began = 0, time.monotonic()
    while (passed := time.monotonic() - began) < seconds and made < MOST:
        due = made + 100 if rate is None else int(passed * rate)
        for _ in range(made, due):
            with client.request("resnet50"):
                pass
        made = max(made, due)
        if rate is not None:
            time.sleep(TICK_S)
    client.close()
    result.put([made, client.dropped])


def push(address: str, batch: bool, rate: float | None, seconds: float, senders: int) -> tuple[int, int]:
    """Requests made and dropped by all senders together."""
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[list[int]] = context.Queue()
    each = None if rate is None else rate / senders
    processes = [context.Process(target=send, args=(address, batch, each, seconds, results)) for _ in range(senders)]
    for process in processes:
        process.start()
    made = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return sum(one[0] for one in made), sum(one[1] for one in made)


def pushing(seconds: float) -> None:
    """The table of rates and losses."""
    print(f"\n{'way':12} {'asked/s':>9} {'senders':>7} {'made/s':>9} {'taken':>8} {'kernel lost':>12} ", end="")
    print(f"{'client dropped':>15} {'lost':>6} {'listener CPU':>13}")
    with tempfile.TemporaryDirectory() as folder:
        ways = [(kind, batch) for kind in ("udp:127.0.0.1:0", f"unix:{folder}/s") for batch in (False, True)]
        for kind, batch in ways:
            for rate in RATES:
                for senders in (1, 2):
                    with listening(kind) as listener:
                        row(
                            listener,
                            f"{kind[:4].strip(':')}{', batch' if batch else ''}",
                            batch,
                            rate,
                            seconds,
                            senders,
                        )


def row(listener: Listener, way: str, batch: bool, rate: float | None, seconds: float, senders: int) -> None:
    """One measurement, and its line."""
    before = listener.report()
    made, dropped = push(listener.address, batch, rate, seconds, senders)
    after = listener.settled()
    taken = after.taken - before.taken
    # The kernel counts datagrams; with batches the lines in them are known from those that came.
    lines_a_packet = taken / max(1, after.packets - before.packets)
    lost_lines = round((after.drops - before.drops) * (lines_a_packet if batch else 1))
    cpu = (after.cpu_s - before.cpu_s) / seconds
    print(f"{way:12} {rate or 'all':>9} {senders:>7} {made / seconds:>9,.0f} {taken / made:>8.2%} ", end="")
    lost = 0 if batch and after.drops else made - taken - dropped - lost_lines
    print(f"{lost_lines / made:>12.2%} {dropped / made:>15.2%} {lost:>6} {cpu:>13.0%}")


def naive(line: str) -> tuple[str, float, str, dict[str, str]]:
    """The least that a parser must do: no check at all, nothing booked."""
    head, type_, tags = line.split("|")
    name, value = head.split(":")
    return name, float(value), type_, dict(tag.split(":", 1) for tag in tags[1:].split(","))


def per_call_us(*sides: Callable[[], object]) -> list[float]:
    """Median microseconds of one call on each side; the sides take turns, so that both meet the same weather."""
    taken: list[list[float]] = [[] for _ in sides]
    for _ in range(ROUNDS):
        for side, times in zip(sides, taken, strict=True):
            began = time.perf_counter()
            side()
            times.append((time.perf_counter() - began) / CALLS * 1e6)
    return [statistics.median(times) for times in taken]


def parsing() -> None:
    """What a line costs the daemon."""
    parser = Parser()
    source = StatsdSource(
        datagrams("udp:127.0.0.1:0"), Requests("s", 60.0, TELLING, time.monotonic), 1.0, time.monotonic
    )
    by_split, by_us, booked = per_call_us(
        lambda: [naive(line) for line in LINES],
        lambda: [parser.parse(line) for line in LINES],
        lambda: source._lines(LINES),
    )
    print(f"\n{'a line':34} {'us':>6}")
    print(f"{'split, nothing checked':34} {by_split:6.2f}")
    print(f"{'our parser':34} {by_us:6.2f} {by_split / by_us:5.1f}x")
    print(f"{'our parser, and booked':34} {booked:6.2f} {1e6 / booked:10,.0f} lines/s at most")


def calling() -> None:
    """What a request costs the application."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        port = sink.getsockname()[1]
        theirs = [DogStatsd(port=port, disable_buffering=direct, disable_telemetry=True) for direct in (True, False)]
        ours = [Client(f"udp:127.0.0.1:{port}", batch=batch) for batch in (False, True)]
        print(f"\n{'a measured request, by UDP':34} {'us':>6}")
        for name, their, our in zip(("one datagram each", "several a datagram"), theirs, ours, strict=True):
            baseline, own = per_call_us(timed_by(their), measured_by(our))
            print(f"{'datadog: ' + name:34} {baseline:6.2f}\n{'npumond: ' + name:34} {own:6.2f} {baseline / own:5.1f}x")
        for their in theirs:
            their.stop()
            their.close_socket()
        for our in ours:
            our.close()


def timed_by(client: DogStatsd) -> Callable[[], object]:
    """Requests measured with Datadog's client."""

    def calls() -> None:
        for _ in range(CALLS):
            with client.timed("inference.request.duration", tags=["model:resnet50"], use_ms=True):
                pass

    return calls


def measured_by(client: Client) -> Callable[[], object]:
    """Requests measured with ours."""

    def calls() -> None:
        for _ in range(CALLS):
            with client.request("resnet50"):
                pass

    return calls


def main() -> None:
    """Print the tables; with --listen be the listener."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=3.0)
    arguments.add_argument("--listen", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.listen:
        uvloop.run(listen(options.listen))
        return
    calling()
    parsing()
    pushing(min(options.seconds, 60.0))


if __name__ == "__main__":
    main()
