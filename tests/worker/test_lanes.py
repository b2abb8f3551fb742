"""Lanes make each call once a round, remember what a chip lacks, and never wait for each other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

from npumond.drivers.driver import Call
from npumond.model import Device, DeviceRound, PhyId
from npumond.worker.capability import DOUBT_S, RECHECK_S, Capabilities
from npumond.worker.lanes import Lanes, calls_of_lane, make_round
from tests.worker.scripted import ScriptedDriver, device

MULTI = Call(name="multi", lane="fast")
SINGLE = Call(name="single", lane="fast", unless="multi")
SLOW = Call(name="slow", lane="slow")
CARD = Call(name="card", lane="slow", scope="card")
NODE = Call(name="node", lane="slow", scope="node")


class Clock:
    """Time that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def names(done: DeviceRound) -> list[str]:
    return [outcome.call for outcome in done.outcomes]


def rounds(driver: ScriptedDriver, calls: Sequence[Call], clock: Clock, count: int) -> list[DeviceRound]:
    capabilities = Capabilities(clock)
    return [make_round(driver, device(0), "fast", calls, capabilities, clock) for _ in range(count)]


def test_a_stand_in_is_not_called_while_the_better_call_answers() -> None:
    (first,) = rounds(ScriptedDriver((MULTI, SINGLE), {}), (MULTI, SINGLE), Clock(), 1)
    assert names(first) == ["multi"]


def test_a_stand_in_is_called_in_the_same_round_when_the_better_call_gives_nothing() -> None:
    driver = ScriptedDriver((MULTI, SINGLE), {"multi": ["unproven", "ok"]})
    first, second = rounds(driver, (MULTI, SINGLE), Clock(), 2)
    assert (names(first), names(second)) == (["multi", "single"], ["multi"])


def test_what_a_chip_lacks_is_skipped_and_asked_again_after_ten_minutes() -> None:
    clock = Clock()
    capabilities = Capabilities(clock)
    driver = ScriptedDriver((MULTI,), {"multi": ["unsupported", "ok"]})
    first = make_round(driver, device(0), "fast", (MULTI,), capabilities, clock)
    clock.now += RECHECK_S - 1
    second = make_round(driver, device(0), "fast", (MULTI,), capabilities, clock)
    clock.now += 1
    third = make_round(driver, device(0), "fast", (MULTI,), capabilities, clock)
    assert [(names(done), done.skipped) for done in (first, second, third)] == [
        (["multi"], ()),
        ([], ("multi",)),
        (["multi"], ()),
    ]


def test_a_no_from_a_call_that_has_answered_before_is_believed_for_seconds_only() -> None:
    clock = Clock()
    capabilities = Capabilities(clock)
    driver = ScriptedDriver((MULTI,), {"multi": ["ok", "unsupported", "ok"]})
    made = []
    for _ in range(3):
        made.append(names(make_round(driver, device(0), "fast", (MULTI,), capabilities, clock)))
        clock.now += DOUBT_S
    assert made == [["multi"]] * 3


def test_a_passing_failure_is_asked_again_at_once() -> None:
    driver = ScriptedDriver((MULTI,), {"multi": ["not_ready", "timeout", "ok"]})
    assert [names(done) for done in rounds(driver, (MULTI,), Clock(), 3)] == [["multi"]] * 3


def test_calls_about_a_card_or_the_node_go_through_one_chip_only() -> None:
    driver = ScriptedDriver((SLOW, CARD, NODE), {})
    second_die = device(1, first_of_card=False)
    assert [call.name for call in calls_of_lane(driver, device(0, first_of_node=True), "slow")] == [
        "slow",
        "card",
        "node",
    ]
    assert [call.name for call in calls_of_lane(driver, second_die, "slow")] == ["slow"]


def test_a_call_that_hangs_holds_up_its_own_lane_of_its_own_device_only() -> None:
    release = threading.Event()
    driver = ScriptedDriver((MULTI, SLOW), {}, devices=2)

    def hang(device: Device, name: str) -> None:
        if device.phy_id == 0 and name == "slow":
            release.wait(10)

    driver.before_call = hang
    delivered: queue.SimpleQueue[DeviceRound] = queue.SimpleQueue()
    lanes = Lanes(driver, driver.open().devices, delivered.put, Clock())
    lanes.start_round("slow", (PhyId(0), PhyId(1)))
    lanes.start_round("fast", (PhyId(0),))
    came = {(done.phy_id, done.lane) for done in (delivered.get(timeout=5), delivered.get(timeout=5))}
    release.set()
    last = delivered.get(timeout=5)
    assert (came, last.phy_id, last.lane) == ({(1, "slow"), (0, "fast")}, 0, "slow")


def test_the_tool_runs_on_one_device_at_a_time() -> None:
    running = threading.Semaphore(1)
    overlapped: list[int] = []
    driver = ScriptedDriver((Call(name="tool", lane="tool"),), {}, devices=4)

    def only_one(device: Device, name: str) -> None:
        if not running.acquire(blocking=False):
            overlapped.append(device.phy_id)
        threading.Event().wait(0.01)
        running.release()

    driver.before_call = only_one
    delivered: queue.SimpleQueue[DeviceRound] = queue.SimpleQueue()
    Lanes(driver, driver.open().devices, delivered.put, Clock()).start_round("tool", tuple(map(PhyId, range(4))))
    assert [delivered.get(timeout=5).phy_id for _ in range(4)] == [0, 1, 2, 3]
    assert overlapped == []
