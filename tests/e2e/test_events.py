"""Fault events on the real daemon: on the page long before the next poll, with the severity that the driver gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.daemon import Daemon
from tests.e2e.hosts import host
from tests.standin.build import StandIn

pytestmark = pytest.mark.slow

RARE = {"fast": "200ms", "normal": "10s", "slow": "20s"}
"""Polls of fault codes are ten seconds apart, so what comes sooner has come as an event."""


def test_a_fault_is_on_the_page_between_two_polls_and_leaves_it_when_it_is_over(
    standin: StandIn, tmp_path: Path
) -> None:
    scenario = host("910b")
    fault = frozenset({("device_id", "6"), ("code", "80E01801"), ("severity", "critical")})
    with Daemon(tmp_path, standin, scenario, sampling=RARE) as daemon:
        daemon.until(
            lambda: json.loads(daemon.get("/api/v1/status")[2])["events"]["state"] == "subscribed", "it listens", 10
        )
        scenario.event(6, 0x80E01801, severity=3, assertion=1)
        daemon.put(scenario)
        daemon.page_when(lambda page: fault in page.of("npu_fault_active"), "the fault is active", 5)
        (told,) = json.loads(daemon.get("/api/v1/status")[2])["faults"]
        assert (told["device_id"], told["code"], told["severity"]) == (6, "80E01801", "critical")
        assert told["source"] == "event"
        scenario.event(6, 0x80E01801, severity=3, assertion=0)
        daemon.put(scenario)
        daemon.page_when(lambda page: fault not in page.of("npu_fault_active"), "it is over", 5)
