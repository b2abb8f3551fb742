"""The page for people says what the API says, and shows a foreign text as text."""

from __future__ import annotations

from string import Template
from typing import Any

import pytest

from npumond.sinks.http.overview import UNKNOWN, overview
from npumond.sinks.http.server import WEB

TEMPLATE = Template((WEB / "index.html").read_text("utf-8"))
STATUS: dict[str, Any] = {
    "node": "n1",
    "version": "1.2",
    "driver": {"backend": "dcmi", "driver_version": "24.1"},
    "sources": [{"source": "self", "group": "normal", "success": True, "reason": ""}],
    "faults": [],
}


def device(**readings: float | None) -> dict[str, Any]:
    return {"device_id": 5, "chip": "910B3", "up": True, "reason": "", "readings": readings}


def cells(page: str) -> list[str]:
    """The text of every table cell."""
    return [part.partition("</td>")[0] for part in page.split("<td>")[1:]]


def page(status: dict[str, Any] = STATUS, devices: Any = (), alerts: Any = ()) -> str:
    return overview(TEMPLATE, status, devices, alerts).decode()


def test_a_chip_is_a_row_and_what_is_unknown_is_not_zero() -> None:
    shown = page(devices=[device(npu_aicore_utilization_ratio=0.57, npu_power_watts=None, npu_health_status=2.0)])
    assert cells(shown) == ["5", "910B3", "57%", UNKNOWN, UNKNOWN, UNKNOWN, "major", "up"]


def test_a_chip_that_is_down_says_why() -> None:
    shown = page(devices=[{**device(), "up": False, "reason": "no answer for 12 s"}])
    assert cells(shown)[-1] == "down: no answer for 12 s"


def test_a_fault_has_its_meaning() -> None:
    fault = {"device_id": 6, "code": "80E01801", "severity": "major", "meaning": "HBM multi-bit ECC", "source": "event"}
    assert cells(page({**STATUS, "faults": [fault]})) == ["6", "80E01801", "major", "HBM multi-bit ECC", "event"]


def test_a_source_that_fails_is_named_and_one_that_is_well_is_not() -> None:
    failed = {"source": "npu", "group": "fast", "success": False, "reason": "no chip answered"}
    assert cells(page({**STATUS, "sources": [*STATUS["sources"], failed]})) == ["npu", "fast", "no chip answered"]


def test_an_inference_server_has_its_chips_and_its_latency() -> None:
    latencies = [{"model": "m", "kind": kind, "p99_s": p99_s} for kind, p99_s in (("e2e", 0.0991), ("itl", 0.02))]
    target = {"target": "chat", "server": "vllm", "device_ids": [0, 1], "up": True, "reason": "", "notes": []}
    shown = page({**STATUS, "targets": [{**target, "latencies": latencies}]})
    assert cells(shown) == ["chat", "vllm", "0, 1", "m 0.0991 s", "up", ""]


def test_an_alert_that_ended_is_told_with_its_times() -> None:
    alert = {"rule": "NpuHot", "severity": "warning", "state": "resolved", "labels": {"device_id": "5"}}
    shown = page(alerts=[{**alert, "fired_at": 1_800_000_000.4, "resolved_at": 1_800_000_060.0}])
    assert cells(shown) == ["NpuHot", "warning", "device_id=5", "2027-01-15 08:00:00", "2027-01-15 08:01:00"]


@pytest.mark.parametrize("state", ["firing", "pending"])
def test_an_alert_is_shown_while_it_is_active(state: str) -> None:
    alert = {"rule": "NpuHot", "severity": "warning", "state": state, "labels": {"device_id": "5"}, "summary": "hot"}
    assert cells(page(alerts=[alert])) == ["NpuHot", "warning", state, "device_id=5", "hot"]


def test_without_a_driver_the_reason_is_where_the_chips_would_be() -> None:
    shown = page({**STATUS, "driver": {"backend": None, "reason": "libdcmi.so: not there"}})
    assert "no driver" in shown
    assert "<p>libdcmi.so: not there</p>" in shown


def test_a_text_from_outside_cannot_become_markup() -> None:
    assert "<script" not in page({**STATUS, "node": "<script>"}, [{**device(), "chip": "<script>$node"}])
