"""The daemon's life: without a driver, with a sick one, told to reload, told to stop."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import psutil
import pytest

from tests.e2e.daemon import QUICK, Daemon
from tests.e2e.hosts import host
from tests.standin.build import StandIn

pytestmark = pytest.mark.slow


def elsewhere(standin: StandIn, folder: Path) -> StandIn:
    """The stand-in as it would be in a folder to which nobody has copied it yet."""
    return StandIn(folder, folder / standin.dcmi.name, folder / standin.acl.name, folder / standin.hccn_tool.name)


def test_without_a_library_it_runs_says_what_it_tried_and_goes_on_looking(standin: StandIn, tmp_path: Path) -> None:
    absent = elsewhere(standin, tmp_path / "driver")
    with Daemon(tmp_path, absent, host("910b"), awaited="/-/healthy") as daemon:
        daemon.until(lambda: b"libdcmi.so" in daemon.get("/-/ready")[2], "/-/ready says what is missing", 10)
        assert daemon.get("/-/ready")[0] == 503
        driver = json.loads(daemon.get("/api/v1/status")[2])["driver"]
        assert any(str(absent.dcmi) in place for place in driver["searched"])
        assert driver["driver_version"] is None
        page = daemon.page_when(
            lambda page: list(page.of("npu_devices_seen").values()) == [0.0], "the first round is on the page"
        )
        assert page.of("npu_devices_expected") == {}
        absent.directory.mkdir()
        shutil.copy(standin.dcmi, absent.dcmi)
        daemon.until(lambda: daemon.get("/-/ready")[0] == 200, "the driver that was installed meanwhile is found", 30)


def test_a_hung_call_costs_its_own_device_only_and_it_stops_in_time_all_the_same(
    standin: StandIn, tmp_path: Path
) -> None:
    scenario = host("910b")
    with Daemon(tmp_path, standin, scenario, call_timeout="1s") as daemon:
        daemon.put(scenario.copy().hang("dcmi_get_device_temperature", logic=3))
        down = daemon.page_when(lambda page: 0.0 in page.of("npu_device_up").values(), "a device is down", 5)
        assert {dict(labels)["device_id"] for labels, up in down.of("npu_device_up").items() if not up} == {"3"}
        count = "npu_query_duration_seconds_count"
        before = down.of(count)
        hung = frozenset({("device_id", "3")})
        daemon.page_when(
            lambda page: all(page.of(count)[one] > before[one] + 10 for one in before if one != hung),
            "the other devices go on",
        )
        devices = json.loads(daemon.get("/api/v1/devices")[2])["devices"]
        (third,) = [device for device in devices if device["device_id"] == 3]
        assert (third["up"], third["reason"][:9]) == (False, "no answer")


def test_a_hung_device_comes_back_when_the_driver_answers_again(standin: StandIn, tmp_path: Path) -> None:
    scenario = host("910b")
    with Daemon(tmp_path, standin, scenario, call_timeout="1s") as daemon:
        daemon.put(scenario.copy().hang("dcmi_get_device_health", logic=0))
        daemon.page_when(lambda page: 0.0 in page.of("npu_device_up").values(), "a device is down", 5)
        daemon.put(scenario)
        daemon.page_when(lambda page: set(page.of("npu_device_up").values()) == {1.0}, "all devices are up", 5)


def test_a_worker_that_crashes_is_replaced_and_counted(standin: StandIn, tmp_path: Path) -> None:
    with Daemon(tmp_path, standin, host("910b")) as daemon:
        daemon.worker.send_signal(signal.SIGSEGV)
        restarts = daemon.page_when(lambda page: bool(page.of("npumond_worker_restarts_total")), "it is counted")
        assert restarts.of("npumond_worker_restarts_total") == {frozenset({("reason", "crashed")}): 1.0}
        daemon.until(lambda: daemon.get("/-/ready")[0] == 200, "a new worker reads the chips", 10)


def test_the_worker_ends_when_the_daemon_is_killed(standin: StandIn, tmp_path: Path) -> None:
    class Killed(Daemon):
        def stop(self) -> None:
            self._kill()

    with Killed(tmp_path, standin, host("910b")) as daemon:
        worker = daemon.worker
    gone, alive = psutil.wait_procs([worker], timeout=5)
    assert (len(gone), alive) == (1, [])


def test_reload_takes_new_rules_and_keeps_the_old_ones_when_the_file_is_bad(standin: StandIn, tmp_path: Path) -> None:
    scenario = host("910b")
    scenario.chips[2].power = 3999
    rule = {"name": "TooHungry", "metric": "npu_power_watts", "op": ">", "threshold": 399, "severity": "info"}

    def firing(daemon: Daemon) -> list[str]:
        alerts = json.loads(daemon.get("/api/v1/alerts?state=firing")[2])["alerts"]
        return [alert["labels"]["device_id"] for alert in alerts if alert["rule"] == "TooHungry"]

    def last_reload(daemon: Daemon) -> list[float]:
        return list(daemon.scrape().of("npumond_config_last_reload_successful").values())

    with Daemon(tmp_path, standin, scenario) as daemon:
        daemon.configure(sampling=QUICK, rules={"extra": [rule]})
        os.kill(daemon.pid, signal.SIGHUP)
        daemon.until(lambda: firing(daemon) == ["2"], "the new rule fires", 5)
        daemon.configure(sampling={"fast": "2 parsecs"})
        os.kill(daemon.pid, signal.SIGHUP)
        daemon.until(lambda: last_reload(daemon) == [0.0], "the bad file is told on the page", 5)
        errors = json.loads(daemon.get("/api/v1/status")[2])["config"]["errors"]
        assert len(errors) == 1
        assert "2 parsecs" in errors[0]
        assert firing(daemon) == ["2"]


def test_healthy_does_not_depend_on_the_driver_and_every_page_answers(standin: StandIn, tmp_path: Path) -> None:
    with Daemon(tmp_path, standin, host("310p_duo")) as daemon:
        pages = ("/", "/metrics", "/-/healthy", "/-/ready", "/api/v1/devices", "/api/v1/alerts", "/api/v1/status")
        assert {path: daemon.get(path)[0] for path in pages} == dict.fromkeys(pages, 200)
        daemon.worker.kill()
        assert daemon.get("/-/healthy")[0] == 200


def test_acl_answers_where_there_is_no_dcmi_and_the_probe_measures_round_trips(
    standin: StandIn, tmp_path: Path
) -> None:
    scenario = host("910b")
    driver = {
        "backend": "acl",
        "acl_library": str(standin.acl),
        "latency_probe": {"enabled": True, "interval": "2s"},
    }
    with Daemon(tmp_path, standin, scenario, driver=driver) as daemon:
        page = daemon.page_when(lambda page: len(page.of("npu_roundtrip_seconds_count")) == 8, "every chip was probed")
    driver_info = [dict(labels)["api"] for labels in page.of("npu_driver_info")]
    ratio = page.of("npu_aicore_utilization_ratio")
    assert driver_info == ["acl"]
    assert {dict(labels)["device_id"]: value for labels, value in ratio.items()} == {
        str(chip.phy_id): rate / 100 for chip in scenario.chips if isinstance(rate := chip.utilization[2], int)
    }
    assert len(page.of("npu_hbm_used_bytes")) == 8
    assert min(page.of("npu_roundtrip_seconds_count").values()) >= 10
