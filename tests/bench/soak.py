"""Ten minutes with a driver that misbehaves all the time: does anything grow, gap or stay?

A call hangs every 30 s (for 10 s), the worker crashes every 60 s, a card is lost every 90 s (for 20 s), on 8 chips at
1 s with the PCIe and HCCS windows in every slow round. Measured from outside: resident memory of daemon and worker and
its slope, threads and descriptors against their base, the longest gap of the fast group on chips that nothing happened
to, the slowest page, and for how long a chip was down on which one call hung.

    python -m tests.bench.soak [--minutes 10] [--warm-up 2]

A worker lives for less than a minute here, so its memory is told and has no slope; what could grow is the daemon. How
long its warm-up takes is seen in the figures printed for each minute.

Crashes are left out of the gap: while no worker lives nobody reads, and the gap that a crash makes is told by itself.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil
from msgspec import Struct

from tests.bench.daemon import ROLES, free_port, roles, running, wait_for
from tests.standin.build import build
from tests.standin.profiles import profile, with_lost_chip
from tests.standin.scenario import Scenario

HUNG, LOST = 2, 5
"""Device ids of the chips that things happen to; all others are watched for gaps."""

QUIET_S = 60.0
"""At the start, before the trouble begins."""

COUNT = re.compile(rb'npu_query_duration_seconds_count\{device_id="(\d+)"\} (\S+)')
UP = re.compile(rb'npu_device_up\{device_id="(\d+)"\} (\S+)')


class Seen(Struct):
    """What was measured so far."""

    rss: list[tuple[float, dict[str, float]]]
    """Seconds; MiB by what the process is."""
    pages_s: list[float]
    gaps_s: list[float]
    """Of the fast group on healthy chips, while no worker had crashed."""
    crash_gaps_s: list[float]
    down_s: list[float]
    """How long the chip that hangs was told to be down each time; a new worker leaves the call alone that hung."""
    threads: list[int]
    descriptors: list[int]


class Trouble:
    """The scenario file, changed by the clock."""

    def __init__(self, path: Path, minutes: float) -> None:
        self._path = path
        self._base = profile("910b")
        self._minutes = minutes
        self.crashed_at = 0.0
        self._now = ""

    def step(self, elapsed_s: float, worker: psutil.Process | None) -> None:
        """What has to be wrong at this second; writes the file when that has changed."""
        quiet = elapsed_s < QUIET_S or elapsed_s > self._minutes * 60 - 40
        hang = not quiet and elapsed_s % 30 < 10
        lost = not quiet and elapsed_s % 90 < 20
        if not quiet and elapsed_s % 60 >= 45 and time.monotonic() - self.crashed_at > 30 and worker is not None:
            worker.send_signal(signal.SIGSEGV)
            self.crashed_at = time.monotonic()
        wanted = f"{hang} {lost}"
        if wanted != self._now:
            self._now = wanted
            self._scenario(hang, lost).write(self._path)

    def _scenario(self, hang: bool, lost: bool) -> Scenario:
        scenario = with_lost_chip(self._base, LOST) if lost else self._base.copy()
        return scenario.hang("dcmi_get_device_temperature", logic=HUNG) if hang else scenario


def page(port: int) -> tuple[bytes, float]:
    """One scrape and how long it took, in seconds."""
    began_at = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read(), time.monotonic() - began_at
    finally:
        connection.close()


def watch(process: psutil.Process, port: int, trouble: Trouble, minutes: float) -> Seen:
    """Look at the page twenty times a second until the time is over; a gap is known to a twentieth, therefore."""
    seen = Seen([], [], [], [], [], [], [])
    began_at = time.monotonic()
    counts: dict[bytes, tuple[bytes, float]] = {}
    down_at: float | None = None
    next_books_at = 0.0
    while (elapsed_s := time.monotonic() - began_at) < minutes * 60:
        trouble.step(elapsed_s, roles(process).get("worker"))
        body, took_s = page(port)
        seen.pages_s.append(took_s)
        now = time.monotonic()
        for device, count in COUNT.findall(body):
            before = counts.get(device)
            if before is None or before[0] != count:
                if before is not None and int(device) not in (HUNG, LOST):
                    after_crash = now - trouble.crashed_at < 8
                    (seen.crash_gaps_s if after_crash else seen.gaps_s).append(now - before[1])
                counts[device] = (count, now)
        is_up = dict(UP.findall(body)).get(str(HUNG).encode()) == b"1.0"
        if not is_up and down_at is None:
            down_at = now
        elif is_up and down_at is not None:
            seen.down_s.append(now - down_at)
            down_at = None
        if elapsed_s > next_books_at:
            next_books_at = elapsed_s + 5
            books(process, elapsed_s, seen)
        time.sleep(0.05)
    return seen


def books(process: psutil.Process, elapsed_s: float, seen: Seen) -> None:
    """Memory, threads and descriptors of the daemon and all its workers."""
    tree = roles(process)
    if len(process.children()) != len(ROLES):
        return  # a worker is being replaced
    try:
        rss = {role: one.memory_info().rss / (1 << 20) for role, one in tree.items()}
        threads = sum(one.num_threads() for one in tree.values())
    except psutil.NoSuchProcess:
        return  # a worker was replaced between the list and the look
    seen.rss.append((elapsed_s, rss))
    seen.threads.append(threads)
    seen.descriptors.append(process.num_fds())


def slope_mib_per_hour(points: list[tuple[float, float]], warm_up_s: float) -> float:
    """Least squares over the time after the warm-up."""
    late = [(at, value) for at, value in points if at > warm_up_s]
    if len(late) < 3:
        return float("nan")
    slope, _ = statistics.linear_regression([at for at, _ in late], [value for _, value in late])
    return slope * 3600


def report(seen: Seen, warm_up_s: float) -> None:
    """The figures, each beside what it is to be."""
    slope = slope_mib_per_hour([(at, rss["daemon"]) for at, rss in seen.rss], warm_up_s)
    worst_s = max(seen.down_s, default=float("nan"))
    for minute in range(int(seen.rss[-1][0] // 60) + 1):
        inside = [rss for at, rss in seen.rss if minute * 60 <= at < minute * 60 + 60]
        if inside:
            print(
                f"minute {minute:3}        ", ", ".join(f"{role} {mib:.2f}" for role, mib in inside[-1].items()), "MiB"
            )
    print(f"memory            daemon {slope:+.2f} MiB an hour after {warm_up_s / 60:g} minutes (below 1)")
    print(f"threads           {seen.threads[2]} at first, {seen.threads[-1]} at the end")
    print(f"descriptors       {seen.descriptors[2]} at first, {seen.descriptors[-1]} at the end")
    print(f"longest gap       {max(seen.gaps_s):.2f} s of a 1 s interval on healthy chips (at most 1.5)")
    print(f"  after a crash   {max(seen.crash_gaps_s, default=0):.2f} s")
    print(f"slowest page      {1000 * max(seen.pages_s):.1f} ms of {len(seen.pages_s)} (under 50)")
    print(f"hung chip down    at most {worst_s:.2f} s in {len(seen.down_s)} hangs of 10 s (within 5)")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--warm-up", type=float, default=2.0, help="minutes that the slope leaves out")
    arguments = parser.parse_args()
    minutes = arguments.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        standin = build(folder / "standin")
        scenario, config, port = folder / "scenario", folder / "npumond.yaml", free_port()
        profile("910b").write(scenario)
        config.write_text(
            f"server: {{listen: ['127.0.0.1:{port}']}}\n"
            f"driver: {{dcmi_library: {standin.dcmi}, hccn_tool: {standin.hccn_tool}, call_timeout: 2s}}\n"
            "sampling: {slow: 10s}\n"
        )
        environ = {**os.environ, "NPUMOND_STANDIN_SCENARIO": str(scenario)}
        with running([sys.executable, "-m", "npumond.cli", "run", "--config", str(config)], environ) as process:
            wait_for(f"http://127.0.0.1:{port}/metrics")
            report(watch(process, port, Trouble(scenario, minutes), minutes), arguments.warm_up * 60)


if __name__ == "__main__":
    main()
