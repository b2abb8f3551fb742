"""Alerts outlive the daemon: what fires goes on firing after a crash, with its own times."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.bench.daemon import free_port
from tests.e2e.daemon import QUICK, Daemon
from tests.e2e.hosts import host
from tests.standin.build import StandIn
from tests.standin.scenario import Scenario

pytestmark = pytest.mark.slow

RULES = {"overrides": {"NpuHot": {"for": "1s"}, "NpuAicoreUnderused": {"enabled": False}}}


def hot() -> Scenario:
    """A node with one chip at 95 °C."""
    scenario = host("310p_duo")
    scenario.chips[1].temperature = 95
    return scenario


def started(directory: Path, standin: StandIn, scenario: Scenario) -> Daemon:
    daemon = Daemon(directory, standin, scenario)
    daemon.configure(sampling=dict(QUICK), rules=RULES)
    return daemon


def alerts(daemon: Daemon, rule: str = "NpuHot") -> list[dict[str, Any]]:
    told = json.loads(daemon.get("/api/v1/alerts")[2])["alerts"]
    return [alert for alert in told if alert["rule"] == rule]


def history(daemon: Daemon) -> list[str]:
    """States of the rule's alerts, ended ones too."""
    told = json.loads(daemon.get("/api/v1/alerts?state=all")[2])["alerts"]
    return [alert["state"] for alert in told if alert["rule"] == "NpuHot"]


def is_in(daemon: Daemon, state: str) -> bool:
    return [alert["state"] for alert in alerts(daemon)] == [state]


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where systemd would say that state belongs."""
    place = tmp_path / "state"
    place.mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(place))
    return place / "alerts.json"


def test_a_firing_alert_goes_on_firing_after_a_crash(standin: StandIn, tmp_path: Path, memory: Path) -> None:
    before = started(tmp_path, standin, hot())
    before.__enter__()
    before.until(lambda: is_in(before, "firing"), "it fires", 10)
    (fired,) = alerts(before)
    before.until(lambda: b'"firing"' in memory.read_bytes(), "it is saved", 5)
    before._kill()
    with started(tmp_path, standin, hot()) as after:
        (again,) = alerts(after)
        assert (again["id"], again["state"]) == (fired["id"], "firing")
        assert (again["since"], again["fired_at"]) == (fired["since"], fired["fired_at"])
        after.put(host("310p_duo"))
        after.until(lambda: is_in(after, "resolved"), "it resolves", 10)
        (resolved,) = alerts(after)
        assert resolved["fired_at"] == fired["fired_at"]
    with started(tmp_path, standin, host("310p_duo")) as third:
        assert is_in(third, "resolved"), "and is told for 15 minutes, across restarts too"
        third.put(hot())
        third.until(lambda: is_in(third, "firing"), "it fires again", 10)
        assert history(third) == ["firing", "resolved"]


def test_a_start_that_fails_forgets_nothing(standin: StandIn, tmp_path: Path, memory: Path) -> None:
    """An address that is taken ends the daemon before it has judged anything."""
    with started(tmp_path, standin, hot()) as daemon:
        daemon.until(lambda: is_in(daemon, "firing"), "it fires", 10)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        daemon.configure(inference={"statsd": {"listen": f"udp:127.0.0.1:{taken.getsockname()[1]}"}})
        command = [sys.executable, "-m", "npumond.cli", "run", "--config", str(tmp_path / "npumond.yaml")]
        assert subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 3
    assert b'"firing"' in memory.read_bytes()


def test_a_damaged_memory_is_set_aside_and_begun_anew(standin: StandIn, tmp_path: Path, memory: Path) -> None:
    memory.write_bytes(b'{"format": 1, "state"')
    with started(tmp_path, standin, hot()) as daemon:
        daemon.until(lambda: is_in(daemon, "firing"), "it fires", 10)
        daemon.until(lambda: b'"firing"' in memory.read_bytes(), "it is saved", 5)
    assert memory.with_suffix(".unreadable").exists()


def test_a_memory_that_cannot_be_written_costs_nothing_else(standin: StandIn, tmp_path: Path, memory: Path) -> None:
    memory.mkdir()
    (memory / "occupied").touch()
    with started(tmp_path, standin, hot()) as daemon:
        daemon.until(lambda: is_in(daemon, "firing"), "it fires", 10)


def test_a_full_disk_costs_the_memory_and_nothing_else(standin: StandIn, tmp_path: Path, memory: Path) -> None:
    memory.with_suffix(".new").symlink_to("/dev/full")
    with started(tmp_path, standin, hot()) as daemon:
        daemon.until(lambda: is_in(daemon, "firing"), "it fires", 10)
        told = daemon.log()
        assert told.count("alert_state_not_saved") == 1
        assert "No space left on device" in told
    assert not memory.exists()


def test_a_log_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "npumond.cli", "run", "--simulate", "--listen", f"127.0.0.1:{port}"]
    with Path("/dev/full").open("wb") as full, subprocess.Popen(command, stdout=full, stderr=full) as daemon:
        try:
            end = time.monotonic() + 20
            while not is_ready(port):
                assert time.monotonic() < end
                time.sleep(0.1)
        finally:
            daemon.terminate()
        assert daemon.wait(5) == 0


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
