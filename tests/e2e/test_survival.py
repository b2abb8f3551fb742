"""What the driver does to us, and what it costs: one device, one reading, one moment, and never the page."""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.daemon import Daemon, Page
from tests.e2e.hosts import host
from tests.standin.build import StandIn
from tests.standin.profiles import with_failed_card, with_lost_chip

pytestmark = pytest.mark.slow

RESTARTS = "npumond_worker_restarts_total"


def replaced(page: Page) -> dict[str, float]:
    """Workers replaced, by reason."""
    return {dict(labels)["reason"]: count for labels, count in page.of(RESTARTS).items()}


def up(page: Page) -> dict[str, float]:
    return {dict(labels)["device_id"]: value for labels, value in page.of("npu_device_up").items()}


def test_one_call_that_never_returns_costs_that_reading_and_nothing_else(standin: StandIn, tmp_path: Path) -> None:
    scenario = host("910b")
    with Daemon(tmp_path, standin, scenario, call_timeout="1s") as daemon:
        daemon.page_when(lambda page: len(page.of("npu_network_healthy")) == 8, "all is read")
        threads, descriptors = daemon.worker.num_threads(), psutil.Process(daemon.pid).num_fds()
        daemon.put(scenario.copy().hang("dcmi_get_device_network_health", logic=5))
        page = daemon.page_when(lambda page: replaced(page) == {"hang": 1.0}, "a new worker took over", 15)
        assert set(up(page).values()) == {1.0}
        daemon.page_when(
            lambda page: (len(page.of("npu_network_healthy")), len(page.of("npu_ecc_enabled"))) == (7, 8),
            "that reading is gone, and the others of its lane are there",
        )
        assert len(daemon.children("npumond.worker")) == 1
        assert daemon.worker.num_threads() <= threads + 1
        assert psutil.Process(daemon.pid).num_fds() <= descriptors + 1


def test_a_chip_that_hangs_altogether_never_holds_up_the_others(standin: StandIn, tmp_path: Path) -> None:
    scenario = host("910b")
    count = "npu_query_duration_seconds_count"
    healthy = frozenset({("device_id", "1")})
    with Daemon(tmp_path, standin, scenario, sampling=None, call_timeout="1s") as daemon:
        daemon.put(scenario.copy().hang("dcmi_get_*", logic=2))
        longest_s, changed_at, seen = 0.0, time.monotonic(), 0.0
        end = time.monotonic() + 15
        while time.monotonic() < end:
            page = daemon.scrape()
            if page.of(count)[healthy] != seen:
                longest_s = max(longest_s, time.monotonic() - changed_at)
                changed_at, seen = time.monotonic(), page.of(count)[healthy]
            time.sleep(0.05)
        assert up(page) == {str(device): float(device != 2) for device in range(8)}
        assert longest_s < 1.5 + 0.2  # the interval is 1 s; a page is looked at each twentieth of a second
        daemon.put(scenario)
        daemon.page_when(lambda page: set(up(page).values()) == {1.0}, "it is back within 5 s", 5)


def test_a_chip_that_failed_at_init_is_found_when_it_answers(standin: StandIn, tmp_path: Path) -> None:
    whole = host("910b")
    with Daemon(tmp_path, standin, with_failed_card(whole, 3)) as daemon:
        before = daemon.scrape()
        assert list(before.of("npu_devices_expected").values()) == [8.0]
        assert list(before.of("npu_devices_seen").values()) == [7.0]
        daemon.put(whole)
        page = daemon.page_when(lambda page: len(up(page)) == 8, "the late chip is there", 30)
        assert set(up(page).values()) == {1.0}
        daemon.page_when(lambda page: replaced(page) == {"missing": 1.0}, "its finding is counted")


def test_a_chip_that_the_driver_forgets_keeps_its_number_and_is_down(standin: StandIn, tmp_path: Path) -> None:
    whole = host("910b")
    with Daemon(tmp_path, standin, whole) as daemon:
        daemon.put(with_failed_card(whole, 6))
        daemon.worker.kill()
        page = daemon.page_when(lambda page: up(page).get("6") == 0.0, "the chip is told to be down", 15)
        assert len(up(page)) == 8
        assert list(page.of("npu_devices_expected").values()) == [8.0]


def test_a_worker_that_is_stopped_is_replaced(standin: StandIn, tmp_path: Path) -> None:
    with Daemon(tmp_path, standin, host("310p_duo")) as daemon:
        stopped = daemon.worker
        stopped.send_signal(signal.SIGSTOP)
        daemon.page_when(lambda page: replaced(page) == {"silent": 1.0}, "a new worker took over", 25)
        daemon.page_when(lambda page: set(up(page).values()) == {1.0}, "every chip answers it", 5)
        gone, _ = psutil.wait_procs([stopped], timeout=5)
        assert gone == [stopped]


def test_a_daemon_that_was_stopped_for_a_while_goes_on_with_the_worker_it_has(standin: StandIn, tmp_path: Path) -> None:
    with Daemon(tmp_path, standin, host("310p_duo")) as daemon:
        worker = daemon.worker
        os.kill(daemon.pid, signal.SIGSTOP)
        time.sleep(12)  # longer than a worker may be silent: the point of the test
        os.kill(daemon.pid, signal.SIGCONT)
        page = daemon.page_when(lambda page: set(up(page).values()) == {1.0}, "all chips are up")
        daemon.until(lambda: daemon.get("/-/ready")[0] == 200, "it is ready", 5)
        assert (replaced(page), daemon.worker) == ({}, worker)


def test_sixteen_chips_that_take_50_ms_a_call_are_read_each_second(standin: StandIn, tmp_path: Path) -> None:
    scenario = host("a3").delay("*", 50)
    count = "npu_query_duration_seconds_count"
    with Daemon(tmp_path, standin, scenario, sampling=None) as daemon:
        first = daemon.scrape()
        began_at = time.monotonic()
        page = daemon.page_when(
            lambda page: min(page.of(count).values()) >= max(first.of(count).values()) + 40, "ten rounds of each", 20
        )
        per_round = 4  # the fewest calls of a fast round here: the second die of a card has no power of its own
        rounds = (min(page.of(count).values()) - max(first.of(count).values())) / per_round
        assert (time.monotonic() - began_at) / rounds < 1.5


def test_with_no_descriptor_left_for_clients_the_chips_are_read_on(standin: StandIn, tmp_path: Path) -> None:
    with Daemon(tmp_path, standin, host("310p_duo")) as daemon:
        count = "npu_query_duration_seconds_count"
        before = daemon.scrape().of(count)
        used = psutil.Process(daemon.pid).num_fds()
        limit = psutil.Process(daemon.pid).rlimit(resource.RLIMIT_NOFILE)
        psutil.Process(daemon.pid).rlimit(resource.RLIMIT_NOFILE, (used + 2, limit[1]))
        clients = [socket.create_connection(daemon.address, timeout=5) for _ in range(20)]
        time.sleep(1)  # five rounds in which nobody can connect
        for client in clients:
            client.close()
        psutil.Process(daemon.pid).rlimit(resource.RLIMIT_NOFILE, limit)
        after = daemon.page_when(lambda page: min(page.of(count).values()) > 0, "it serves again")
        assert all(after.of(count)[device] >= before[device] + 10 for device in before)


def test_a_card_that_stays_lost_has_the_fault_that_the_driver_does_not_report(standin: StandIn, tmp_path: Path) -> None:
    whole = host("910b")
    lost_card = frozenset({("device_id", "4"), ("code", "40F84E00"), ("severity", "critical")})
    with Daemon(tmp_path, standin, whole) as daemon:
        daemon.put(with_lost_chip(whole, 4))
        page = daemon.page_when(lambda page: lost_card in page.of("npu_fault_active"), "the fault is active", 30)
        assert up(page) == {str(device): float(device != 4) for device in range(8)}
        daemon.put(whole)
        daemon.page_when(lambda page: lost_card not in page.of("npu_fault_active"), "it ends when the card answers", 10)
