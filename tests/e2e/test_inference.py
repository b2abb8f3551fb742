"""Inference servers beside the chips: the real daemon reads real HTTP pages that change, break and come back."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from npumond.client import Client
from tests.e2e.daemon import QUICK, Daemon, Page
from tests.e2e.hosts import host
from tests.sources.inference.targets.pages import histogram, http, line, page
from tests.standin.build import StandIn
from tests.standin.scenario import Scenario

pytestmark = pytest.mark.slow

BOUNDS = (0.05, 0.1, 0.2, 0.5)
COARSE = (1.0, 2.5)


class Server:
    """An inference server that answers with whatever the test has put there."""

    def __init__(self) -> None:
        self.status = 200
        self.body = page(line("up", 1))
        self.port = 0

    def put(self, body: bytes, status: int = 200) -> None:
        """Answer so from now on."""
        self.status, self.body = status, body


@contextmanager
def serving() -> Iterator[Server]:
    """A server on a free port, in a thread."""
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(server.status)
            self.send_header("Content-Length", str(len(server.body)))
            self.end_headers()
            self.wfile.write(server.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as answering:
        server.port = answering.server_address[1]
        thread = threading.Thread(target=answering.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            answering.shutdown()
            thread.join()


def vllm(
    sizes: tuple[float, ...],
    good: float,
    bad: float = 0,
    *,
    started_at: float = 100.0,
    bounds: tuple[float, ...] = BOUNDS,
) -> bytes:
    """vLLM's page with so many requests in each bucket."""
    return page(
        histogram("vllm:e2e_request_latency_seconds", bounds, sizes, sum(sizes) / 10, model_name="m", engine="0"),
        http({"2xx": good, "5xx": bad}),
        line("process_start_time_seconds", started_at),
        line("vllm:num_requests_running", 3, model_name="m", engine="0"),
    )


def watching(
    directory: Path,
    standin: StandIn,
    server: Server,
    scenario: Scenario | None = None,
    /,
    *,
    window: str = "1m",
    **target: Any,
) -> Daemon:
    """A daemon, not started yet, with this server as its target."""
    daemon = Daemon(directory, standin, scenario or host("310p_duo"))
    url = f"http://127.0.0.1:{server.port}/metrics"
    overrides = {
        "InferenceLatencyHigh": {"for": "1s"},
        "InferenceSuccessLow": {"for": "1s"},
        "InferenceTargetDown": {"for": "1s"},
    }
    daemon.configure(
        sampling=dict(QUICK),
        inference={
            "targets": [{"url": url, "name": "chat", "interval": "200ms", "timeout": "1s", **target}],
            "window": window,
        },
        rules={"overrides": overrides},
    )
    return daemon


def status(daemon: Daemon) -> dict[str, Any]:
    (target,) = json.loads(daemon.get("/api/v1/status")[2])["targets"]
    found: dict[str, Any] = target
    return found


def firing(daemon: Daemon, rule: str) -> bool:
    alerts = json.loads(daemon.get("/api/v1/alerts?state=firing")[2])["alerts"]
    return any(alert["rule"] == rule for alert in alerts)


def one(seen: Page, family: str, **labels: str) -> float | None:
    """The one value of a family with these labels among its own; None where there is none."""
    wanted = set(labels.items())
    values = [value for series, value in seen.of(family).items() if wanted <= set(series)]
    assert len(values) <= 1
    return values[0] if values else None


def p99(seen: Page) -> float | None:
    return one(seen, "inference_latency_seconds", kind="e2e", quantile="0.99")


def test_a_server_is_followed_from_its_first_page_over_traffic_and_restart(standin: StandIn, tmp_path: Path) -> None:
    with serving() as server:
        server.put(vllm((1000, 0, 0, 0, 0), 1000))
        with watching(tmp_path, standin, server) as daemon:
            up = daemon.page_when(lambda seen: one(seen, "inference_target_up", server="vllm") == 1.0, "it is read", 10)
            assert p99(up) is None, "the first page has no window"
            assert one(up, "inference_requests_total", status="success") == 1000.0
            server.put(vllm((1000, 0, 100, 0, 0), 1099, 1))
            slow = daemon.page_when(lambda seen: p99(seen) is not None and (p99(seen) or 0) > 0.15, "its P99", 10)
            assert p99(slow) == pytest.approx(0.199)
            assert one(slow, "inference_latency_resolution_seconds", quantile="0.99") == pytest.approx(0.1)
            assert one(slow, "inference_latency_ms", quantile="0.99") == pytest.approx(199)
            assert one(slow, "inference_success_ratio") == pytest.approx(0.99)
            assert one(slow, "inference_requests_running") == 3.0
            daemon.until(lambda: firing(daemon, "InferenceLatencyHigh"), "the alert on latency fires", 10)
            daemon.until(lambda: firing(daemon, "InferenceSuccessLow"), "the alert on success fires", 10)
            server.put(vllm((20, 0, 0, 0, 0), 20, 1, started_at=200.0))
            again = daemon.page_when(lambda seen: one(seen, "inference_target_restarts_total") == 1.0, "a restart", 10)
            assert p99(again) == pytest.approx(0.0495)
            assert one(again, "inference_requests_total", status="success") == 1119.0
            assert one(again, "inference_requests_total", status="error") == 2.0


def test_without_traffic_there_is_no_latency_no_ratio_and_no_verdict(standin: StandIn, tmp_path: Path) -> None:
    with serving() as server:
        server.put(vllm((0, 0, 0, 0, 0), 0))
        with watching(tmp_path, standin, server, window="1s") as daemon:
            daemon.page_when(lambda seen: one(seen, "inference_target_up") == 1.0, "it is read", 10)
            server.put(vllm((100, 0, 0, 0, 0), 100))
            daemon.page_when(lambda seen: p99(seen) is not None, "traffic", 10)
            idle = daemon.page_when(lambda seen: p99(seen) is None, "no traffic any more", 10)
            assert one(idle, "inference_success_ratio") is None
            assert one(idle, "inference_requests_total", status="success") == 100.0
            assert one(idle, "inference_target_up") == 1.0


def test_buckets_that_are_too_coarse_make_no_alert_and_a_note(standin: StandIn, tmp_path: Path) -> None:
    with serving() as server:
        server.put(vllm((0, 0, 0), 0, bounds=COARSE))
        with watching(tmp_path, standin, server) as daemon:
            daemon.page_when(lambda seen: one(seen, "inference_target_up") == 1.0, "it is read", 10)
            server.put(vllm((500, 0, 0), 500, bounds=COARSE))
            seen = daemon.page_when(lambda seen: p99(seen) is not None, "its P99", 10)
            assert p99(seen) == pytest.approx(0.99)
            assert one(seen, "inference_latency_lower_bound_seconds", quantile="0.99") == 0.0
            (note,) = status(daemon)["notes"]
            assert note.startswith(
                "P99 of m lies between 0 and 1 s: the server's buckets do not tell whether it is above 0.1 s."
            )
            assert seen.of("npumond_rule_state")
            assert not firing(daemon, "InferenceLatencyHigh")


BROKEN: tuple[tuple[Callable[[Server], None], str], ...] = (
    (lambda server: server.put(b"no", 503), "HTTP 503"),
    (lambda server: server.put(b"<!DOCTYPE html><html></html>"), "an HTML page, not metrics"),
    (lambda server: server.put(vllm((5, 0, 0, 0, 0), 5)[:-30]), "the page is cut off in its last line"),
    (
        lambda server: server.put(page(line("process_start_time_seconds", 1))),
        "none of the series of vllm is on the page",
    ),
    (lambda server: server.put(b""), "the page is empty"),
)


def test_a_page_that_is_none_has_its_reason_and_no_number(standin: StandIn, tmp_path: Path) -> None:
    with serving() as server:
        server.put(vllm((0, 0, 0, 0, 0), 0))
        with watching(tmp_path, standin, server, server="vllm") as daemon:
            daemon.page_when(lambda seen: one(seen, "inference_target_up") == 1.0, "it is read", 10)
            for number, (break_it, reason) in enumerate(BROKEN, 1):
                server.put(vllm((100 * number, 0, 0, 0, 0), 100 * number))
                daemon.page_when(lambda seen: p99(seen) is not None, f"it is well before: {reason}", 10)
                break_it(server)
                daemon.until(lambda: reason in status(daemon)["reason"], reason, 10)  # noqa: B023 - called in this turn
                broken = daemon.page_when(lambda seen: one(seen, "inference_target_up") == 0.0, "it is down", 5)
                assert p99(broken) is None
                assert one(broken, "inference_success_ratio") is None
                assert one(broken, "npumond_source_success", group="chat") in (0.0, 1.0)


def test_mindie_that_answers_500_is_told_how_to_be_switched_on(standin: StandIn, tmp_path: Path) -> None:
    with serving() as server:
        server.put(b'{"message": "off"}', 500)
        with watching(tmp_path, standin, server, server="mindie") as daemon:
            daemon.until(lambda: "HTTP 500" in status(daemon)["reason"], "it is tried", 10)
            assert "MIES_SERVICE_MONITOR_MODE=1" in status(daemon)["reason"]


def test_a_server_that_dies_is_down_and_its_alert_fires(standin: StandIn, tmp_path: Path) -> None:
    with serving() as server:
        server.put(vllm((0, 0, 0, 0, 0), 0))
        daemon = watching(tmp_path, standin, server)
        daemon.__enter__()
        daemon.page_when(lambda seen: one(seen, "inference_target_up") == 1.0, "it is read", 10)
    try:
        daemon.until(lambda: status(daemon)["reason"] == "connection refused", "it is gone", 10)
        daemon.until(lambda: firing(daemon, "InferenceTargetDown"), "the alert fires", 10)
    finally:
        daemon.__exit__(None, None, None)


def test_its_chips_are_found_by_its_processes(standin: StandIn, tmp_path: Path) -> None:
    """The server is this process, and a child of it is on chip 2."""
    with serving() as server, subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        server.put(vllm((0, 0, 0, 0, 0), 0))
        scenario = host("310p_duo")
        for chip in scenario.chips:
            chip.processes = [(child.pid, 1 << 30)] if chip.phy_id == 2 else [(1, 1 << 30)]
        with watching(tmp_path, standin, server, scenario) as daemon:
            owned = daemon.page_when(lambda seen: bool(seen.of("npu_workload_info")), "the owner is found", 40)
            assert one(owned, "npu_workload_info", device_id="2", workload_container="chat", source="inference") == 1.0
            assert status(daemon)["device_ids"] == [2]


def pushing(directory: Path, standin: StandIn, **inference: Any) -> Daemon:
    """A daemon, not started yet, to which latencies are pushed."""
    daemon = Daemon(directory, standin, host("310p_duo"))
    daemon.configure(sampling=dict(QUICK), inference={"min_requests": 5, **inference})
    return daemon


def test_an_inference_loop_tells_its_latency_by_the_client(standin: StandIn, tmp_path: Path) -> None:
    """Requests of some 20 ms, one of which fails, by a Unix socket."""
    path = tmp_path / "statsd.sock"
    with pushing(tmp_path, standin, statsd={"listen": f"unix:{path}"}) as daemon:
        client = Client(f"unix:{path}")
        for _ in range(9):
            with client.request(model="resnet50"):
                time.sleep(0.02)
        with suppress(ZeroDivisionError), client.request(model="resnet50"):
            raise ZeroDivisionError
        client.close()
        seen = daemon.page_when(
            lambda seen: one(seen, "inference_success_ratio", model="resnet50") == 0.9, "it is told", 10
        )
        median = one(seen, "inference_latency_seconds", target="statsd", quantile="0.5")
        assert median is not None
        assert 0.0195 < median < 0.2  # 2 % below is the bucket's width, above is a busy machine
        assert one(seen, "inference_latency_ms", quantile="0.5") == pytest.approx(1000 * median)
        assert one(seen, "inference_request_duration_seconds_count", model="resnet50", source="statsd") == 9.0
        daemon.page_when(
            lambda seen: one(seen, "npumond_statsd_lines_total", outcome="taken") == 10.0, "its lines are counted", 5
        )
    assert not path.exists()


def test_a_statsd_address_that_is_taken_ends_the_daemon_with_its_own_status(standin: StandIn, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        config = tmp_path / "npumond.yaml"
        listen = f"udp:127.0.0.1:{taken.getsockname()[1]}"
        config.write_text(f"server: {{listen: ['127.0.0.1:0']}}\ninference: {{statsd: {{listen: '{listen}'}}}}\n")
        command = [sys.executable, "-m", "npumond.cli", "run", "--config", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 3
    assert "the address is taken" in done.stderr
