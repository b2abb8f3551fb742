"""The worker's threads: one for each lane of each device, one in all for the tool.

A vendor call blocks its thread and nothing else, since ctypes lets go of the interpreter meanwhile. In a lane calls
follow one another, so at most one is outstanding per device and lane; a hung call costs its own lane only.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial

from npumond.drivers.driver import Call, Driver, Scope
from npumond.model import CallOutcome, Device, DeviceRound, Lane, PhyId
from npumond.worker.capability import Capabilities
from npumond.worker.protocol import Busy, Quarantined

Deliver = Callable[[DeviceRound], None]


def calls_of_lane(driver: Driver, device: Device, lane: Lane) -> tuple[Call, ...]:
    """The calls of one lane that are to be made through this device."""
    speaks_for: dict[Scope, bool] = {"device": True, "card": device.first_of_card, "node": device.first_of_node}
    return tuple(call for call in driver.calls(device) if call.lane == lane and speaks_for[call.scope])


def make_round(
    driver: Driver,
    device: Device,
    lane: Lane,
    calls: Sequence[Call],
    capabilities: Capabilities,
    clock: Callable[[], float],
    started: Callable[[str], None] = lambda name: None,
) -> DeviceRound:
    """Make each call of the lane once, leaving out what the chip lacks and stand-ins that are not needed.

    ``started`` is told of each call before it is made, so that a call that hangs has a name.
    """
    outcomes: list[CallOutcome] = []
    skipped: list[str] = []
    for call in calls:
        if call.unless and _is_needless(call, device.phy_id, capabilities):
            continue
        if capabilities.quarantined(device.phy_id, call.name):
            continue
        if capabilities.lacks(device.phy_id, call.name):
            skipped.append(call.name)
            continue
        started(call.name)
        outcome = driver.call(device, call.name)
        capabilities.note(device.phy_id, call.name, outcome.kind)
        outcomes.append(outcome)
    return DeviceRound(device.phy_id, lane, clock(), tuple(outcomes), tuple(skipped))


def _is_needless(stand_in: Call, phy_id: PhyId, capabilities: Capabilities) -> bool:
    if capabilities.answers(phy_id, stand_in.unless):
        return True
    return stand_in.counts and capabilities.steady(phy_id, stand_in.unless)


class Lanes:
    """Hands rounds to the threads and delivers what they give. Threads start at a lane's first round and stay."""

    def __init__(
        self,
        driver: Driver,
        devices: Sequence[Device],
        deliver: Deliver,
        clock: Callable[[], float],
        quarantine: Sequence[Quarantined] = (),
    ) -> None:
        self._driver = driver
        self._devices = {device.phy_id: device for device in devices}
        self._deliver = deliver
        self._clock = clock
        self._capabilities = Capabilities(clock)
        for each in quarantine:
            self._capabilities.quarantine(each.phy_id, each.call, each.for_s)
        self._running: dict[tuple[PhyId, Lane], tuple[str, float]] = {}
        self._plans: dict[tuple[PhyId, Lane], tuple[Call, ...]] = {}
        self._queues: dict[tuple[PhyId | None, Lane], queue.SimpleQueue[PhyId]] = {}

    def start_round(self, lane: Lane, phy_ids: Sequence[PhyId]) -> None:
        """Begin a round on these devices; each is delivered when it is done. Unknown ids are ignored."""
        for phy_id in phy_ids:
            if phy_id in self._devices:
                self._queue(phy_id, lane).put(phy_id)

    def busy(self, longer_than_s: float) -> tuple[Busy, ...]:
        """The calls that have been running for longer than this."""
        now = self._clock()
        running = tuple(self._running.copy().items())
        return tuple(
            Busy(phy_id, lane, name, now - since)
            for (phy_id, lane), (name, since) in running
            if now - since > longer_than_s
        )

    def _queue(self, phy_id: PhyId, lane: Lane) -> queue.SimpleQueue[PhyId]:
        key = (None if lane == "tool" else phy_id, lane)
        waiting = self._queues.get(key)
        if waiting is None:
            waiting = self._queues[key] = queue.SimpleQueue()
            name = f"{lane}" if key[0] is None else f"{lane}-{phy_id}"
            threading.Thread(target=self._work, args=(waiting, lane), name=name, daemon=True).start()
        return waiting

    def _work(self, waiting: queue.SimpleQueue[PhyId], lane: Lane) -> None:
        while True:
            device = self._devices[waiting.get()]
            key = (device.phy_id, lane)
            calls, started = self._plan(device, lane), partial(self._started, key)
            done = make_round(self._driver, device, lane, calls, self._capabilities, self._clock, started)
            self._running.pop(key, None)
            self._deliver(done)

    def _started(self, key: tuple[PhyId, Lane], name: str) -> None:
        self._running[key] = (name, self._clock())

    def _plan(self, device: Device, lane: Lane) -> tuple[Call, ...]:
        key = (device.phy_id, lane)
        if key not in self._plans:
            self._plans[key] = calls_of_lane(self._driver, device, lane)
        return self._plans[key]
