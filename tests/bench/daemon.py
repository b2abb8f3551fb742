"""What the whole daemon costs: CPU and memory of parent and worker, at several numbers of devices.

Runs the real daemon on the C stand-in of the vendor's library at 1 s sampling, idle and with one scraper a second, and
prints CPU as a share of one core and resident memory. Beside it, in the same run, the same figures of a program that
does nothing but serve as many series with prometheus_client.

    python -m tests.bench.daemon [--seconds 30] [--devices 8 16 64]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.standin.build import build
from tests.standin.profiles import profile
from tests.standin.scenario import Scenario

WARM_UP_S = 8.0

ROLES = {"npumond.worker": "worker", "npumond.worker.events": "listener"}
"""Module to what the process is; each child is started with one of them."""

PEER = """
import sys, time
from prometheus_client import Gauge, start_http_server, REGISTRY
count, port = int(sys.argv[1]), int(sys.argv[2])
gauge = Gauge("npu_reading_ratio", "A reading.", ["device_id", "name"])
start_http_server(port, "127.0.0.1")
while True:
    for number in range(count):
        gauge.labels(str(number % 16), f"reading{number // 16}").set(time.monotonic())
    time.sleep(1)
"""


def scenario_of(devices: int) -> Scenario:
    """The 910B profile with that many chips."""
    scenario = profile("910b")
    while len(scenario.chips) < devices:
        number = len(scenario.chips)
        extra = scenario.copy().chips[number % 8]
        extra.card_id = extra.logic_id = extra.phy_id = number
        scenario.chips.append(extra)
        scenario.cards.setdefault(number, scenario.copy().cards[number % 8])
    scenario.chips = scenario.chips[:devices]
    return scenario


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(command: list[str], environ: dict[str, str]) -> Iterator[psutil.Process]:
    """A child process for as long as the context lasts."""
    child = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield psutil.Process(child.pid)
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()


def roles(process: psutil.Process) -> dict[str, psutil.Process]:
    """The daemon and its children by what they are; of two workers, while one is being replaced, the newer."""
    found = {"daemon": process}
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            found |= {ROLES[word]: child for word in child.cmdline() if word in ROLES}
    return found


def cost(process: psutil.Process, seconds: float, url: str, scrape: bool) -> tuple[float, str, int]:
    """CPU as a share of one core for the whole process tree, resident MiB of each process, the series of a page."""
    tree = roles(process)
    before = sum(sum(one.cpu_times()[:2]) for one in tree.values())
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(1)
        if scrape:
            page_of(url)
    after = sum(sum(one.cpu_times()[:2]) for one in tree.values())
    rss = {role: one.memory_info().rss / (1 << 20) for role, one in tree.items()}
    memory = " + ".join(f"{role} {mib:.1f}" for role, mib in rss.items())
    series = sum(1 for line in page_of(url).splitlines() if not line.startswith(b"#"))
    return (after - before) / seconds, f"{memory} = {sum(rss.values()):.1f} MiB", series


def page_of(url: str) -> bytes:
    """One scrape."""
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - a loopback address made here
        body: bytes = answer.read()
        return body


def wait_for(url: str) -> None:
    """Until the server answers; at most 20 s."""
    for _ in range(200):
        with contextlib.suppress(OSError):
            page_of(url)
            return
        time.sleep(0.1)
    raise TimeoutError(url)


def measure_daemon(folder: Path, devices: int, seconds: float) -> int:
    """Print the daemon's rows; returns the number of series on its page."""
    standin = build(folder / "standin")
    scenario = folder / f"scenario-{devices}"
    scenario_of(devices).write(scenario)
    config = folder / f"config-{devices}.yaml"
    port = free_port()
    config.write_text(
        f"server: {{listen: ['127.0.0.1:{port}']}}\n"
        f"driver: {{dcmi_library: {standin.dcmi}, hccn_tool: {standin.hccn_tool}}}\n"
    )
    environ = {**os.environ, "NPUMOND_STANDIN_SCENARIO": str(scenario)}
    command = [sys.executable, "-m", "npumond.cli", "run", "--config", str(config)]
    series = 0
    with running(command, environ) as process:
        url = f"http://127.0.0.1:{port}/metrics"
        wait_for(url)
        time.sleep(WARM_UP_S)
        for scrape in (False, True):
            cpu, rss, series = cost(process, seconds, url, scrape)
            print(f"npumond, {devices:3} devices, {series:5} series, {'1 scrape/s' if scrape else 'no scrapes'}: "
                  f"{100 * cpu:5.2f} % of a core, {rss}")  # fmt: skip
    return series


def measure_peer(series: int, seconds: float) -> None:
    """Print the same figures of prometheus_client's server with as many series, set each second."""
    port = free_port()
    with running([sys.executable, "-c", PEER, str(series), str(port)], dict(os.environ)) as process:
        url = f"http://127.0.0.1:{port}/metrics"
        wait_for(url)
        time.sleep(2)
        cpu, rss, _ = cost(process, seconds, url, scrape=True)
        print(f"prometheus_client alone,  {series:5} series, 1 scrape/s: {100 * cpu:5.2f} % of a core, {rss}")


def main() -> None:
    """Run every size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--devices", type=int, nargs="+", default=[8, 16, 64])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for devices in options.devices:
            series = measure_daemon(Path(folder), devices, options.seconds)
            measure_peer(series, options.seconds)


if __name__ == "__main__":
    main()
