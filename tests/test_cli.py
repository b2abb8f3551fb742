"""Every command as a user would run it, in a process of its own, on the simulated driver or on nothing at all."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from npumond.catalog import CATALOG
from npumond.cli import SCENARIOS
from npumond.drivers.simulated.load import SCENARIOS as SIMULATED

pytestmark = pytest.mark.slow


def npumond(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """One command, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "npumond.cli", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody, namely this process, listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_the_scenarios_of_the_command_line_are_those_of_the_simulated_driver() -> None:
    assert set(SCENARIOS) == set(SIMULATED)


def test_once_as_json_has_every_part_and_unknown_readings_are_null() -> None:
    done = npumond("once", "--simulate=idle", "--json")
    seen = json.loads(done.stdout)
    assert (done.returncode, set(seen)) == (0, {"driver", "devices", "alerts", "samples", "calls"})
    assert len(seen["devices"]) == 8
    readings = seen["devices"][0]["readings"]
    assert readings["npu_ddr_used_bytes"] is None
    assert readings["npu_aicore_utilization_ratio"] < 0.05


def test_once_explain_shows_each_vendor_call_with_its_code() -> None:
    done = npumond("once", "--simulate", "--explain")
    assert done.returncode == 0
    assert "dcmi_get_device_info[8,9]" in done.stdout
    assert "reason[thermal]=" in done.stdout


def test_devices_is_a_table_with_a_row_for_each_chip() -> None:
    done = npumond("devices", "--simulate=busy")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["NPU", *map(str, range(8))]


def test_metrics_lists_the_whole_catalogue() -> None:
    done = npumond("metrics", "--markdown")
    assert [line.split("`")[1] for line in done.stdout.splitlines()[2:]] == [family.name for family in CATALOG]


def test_doctor_says_what_it_looked_for_and_fails_where_there_is_no_driver() -> None:
    done = npumond("doctor")
    assert done.returncode == 1
    assert "/usr/local/dcmi/libdcmi.so: not there" in done.stdout
    assert "listen 0.0.0.0:9090" in done.stdout


def test_doctor_finds_the_simulated_driver() -> None:
    findings = {
        finding["what"]: finding["verdict"] for finding in json.loads(npumond("doctor", "--simulate", "--json").stdout)
    }
    assert findings["driver"] == "ok"


def test_once_without_a_driver_fails_with_the_reason() -> None:
    done = npumond("once")
    assert (done.returncode, done.stdout) == (1, "")
    assert "  /usr/local/dcmi/libdcmi.so: not there" in done.stderr.splitlines()


def test_check_says_well_or_every_mistake_and_exits_with_78(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("sampling: {fast: 2s}\n")
    bad.write_text("sampling: {fast: 2 parsecs}\nsrever: {}\n")
    well, wrong = npumond("check", str(good)), npumond("check", str(bad))
    assert (well.returncode, well.stdout) == (0, f"{good}: well\n")
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (78, 2)
    assert wrong.stderr.startswith(f"{bad}:1: sampling.fast")


def test_check_knows_the_names_of_the_rules(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("rules: {overrides: {NpuHott: {enabled: false}, NpuHbmNearlyFull/critical: {threshold: 0.99}}}\n")
    done = npumond("check", str(path))
    assert (done.returncode, done.stderr) == (
        78,
        "rules.overrides.NpuHott: there is no such default rule, did you mean 'NpuHot'?\n",
    )


def test_wrong_usage_exits_with_2() -> None:
    assert npumond("run", "--listen", "nowhere").returncode == 2
    assert npumond("dance").returncode == 2


def test_a_taken_address_exits_with_3_and_names_its_owner(taken_port: int) -> None:
    done = npumond("run", "--simulate", "--listen", f"127.0.0.1:{taken_port}")
    assert done.returncode == 3
    assert f"127.0.0.1:{taken_port}" in done.stderr
    assert f"pid {os.getpid()}" in done.stderr


def test_a_bad_configuration_ends_the_daemon_with_78_before_it_listens(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("server: {listen: [9090]}\n")
    assert npumond("run", "--config", str(path)).returncode == 78


def test_generated_files_are_fresh() -> None:
    root = Path(__file__).parent.parent
    done = npumond("artifacts", "--check", "--root", str(root))
    assert (done.returncode, done.stdout) == (0, "")


def test_devices_watch_ends_well_on_ctrl_c() -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "npumond.cli", "devices", "--simulate", "--watch"], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    first = child.stdout.readline()
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=10)
    assert (first.split()[0], child.returncode) == ("NPU", 0)
