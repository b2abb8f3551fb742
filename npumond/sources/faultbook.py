"""The faults that are active: what the chips list when asked, merged with what the driver tells in between.

Polling is complete and late, events are early and may be lost, doubled or out of order (reference dcmi.md, section
11.3). So the list rules, and events fill the time until it can know of them:

- An event that says raised or recovered holds until a poll that is newer by more than one normal interval; such a poll
  had its chance to see the change.
- What happens once is no state and in no list; it is shown for `ONE_SHOT_S`.
- When the listener was lost, recoveries may have been missed: events from before then hold until the next poll only.
- A chip that says "not ready" for `LOST_AFTER_S` is lost; no driver reports that for a card that it has lost.

Pure: times are monotonic seconds and come in as arguments. Why not one list of states: a late event and a late poll
would each overwrite what the other knew; kept apart, their ages decide whenever somebody asks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Literal, TypeVar

from msgspec import Struct

from npumond.faults import FaultSeverity, describe, severity
from npumond.model import LogicId, PhyId, Sample
from npumond.worker.event_protocol import FaultRaised

LOST_CARD = "40F84E00"
"""Heartbeat between the boards lost: the code that the vendor's own tools raise for a card that stays "not ready"."""
LOST_AFTER_S = 15.0
ONE_SHOT_S = 60.0

LATE_S = 10.0
"""An event with an older number than the one before it came late within this time; after it, the numbers have begun
anew, as they do when a chip is reset."""

MOST_CODES = 128
"""Codes kept of a device; the driver lists no more either."""

_NEVER = -math.inf

Source = Literal["polled", "event", "synthetic"]
Value = TypeVar("Value")


class ActiveFault(Struct, frozen=True):
    """A fault that is active now."""

    phy_id: PhyId
    code: str
    severity: FaultSeverity
    source: Source
    """How it is known; ``polled`` when the chip lists it, whoever told first."""
    since: float
    """Monotonic seconds of the first word of it."""
    name: str = ""
    """What the driver's event calls it; empty without one."""


class _Chip:
    """What is known of one device."""

    def __init__(self) -> None:
        self.polled_at = _NEVER
        self.codes: frozenset[str] = frozenset()
        self.events: dict[str, FaultRaised] = {}
        """The newest of each code."""
        self.told: dict[str, tuple[FaultSeverity, str]] = {}
        """Severity and name by code, which outlive the event: a series must not change its labels while it is."""
        self.not_ready_since: float | None = None
        self.since: dict[str, float] = {}


class FaultBook:
    """Who has which fault. One object a daemon; bounded by the devices and `MOST_CODES`."""

    def __init__(self, normal_s: float, stale_s: float) -> None:
        self._chips: dict[PhyId, _Chip] = {}
        self._gap_at = _NEVER
        self.unmatched = 0
        """Events of devices that nobody knows."""
        self.configure(normal_s, stale_s)

    def configure(self, normal_s: float, stale_s: float) -> None:
        """The interval of polls in seconds, and the age after which a list of codes is no longer believed."""
        self._normal_s = normal_s
        self._stale_s = stale_s

    # What comes in.

    def polled(self, phy_id: PhyId, codes: Collection[str], at: float) -> None:
        """The device listed these codes (eight upper-case digits each) in a round that ended at this time."""
        chip = self._chip(phy_id)
        if at < chip.polled_at:
            return
        chip.polled_at = at
        chip.codes = frozenset(islice(codes, MOST_CODES))
        keep_s = max(self._normal_s, LATE_S, ONE_SHOT_S)
        chip.events = {code: event for code, event in chip.events.items() if at - event.heard_at <= keep_s}

    def heard(self, event: FaultRaised, phy_ids: Mapping[LogicId, PhyId]) -> bool:
        """The driver told of an event. Returns whether it changed what is known: doubles and latecomers do not."""
        phy_id = phy_ids.get(event.logic_id)
        if phy_id is None:
            self.unmatched += 1
            return False
        chip = self._chip(phy_id)
        before = chip.events.get(event.code)
        if before is not None and not _follows(event, before):
            return False
        _put(chip.events, event.code, event)
        _put(chip.told, event.code, (_severity(event), event.name))
        return True

    def gap(self, at: float) -> None:
        """The listener was lost at this time: changes since then may not have been told."""
        self._gap_at = at

    def not_ready(self, phy_id: PhyId, at: float) -> None:
        """The device answered a fast round with "not ready" (-8012) and nothing else."""
        chip = self._chip(phy_id)
        if chip.not_ready_since is None:
            chip.not_ready_since = at

    def ready(self, phy_id: PhyId) -> None:
        """The device answered, or failed in another way."""
        self._chip(phy_id).not_ready_since = None

    # What comes out.

    def active(self, now: float) -> list[ActiveFault]:
        """The faults that are active, by device and code. Asking also notes since when each of them is."""
        return [fault for phy_id in sorted(self._chips) for fault in self._active_of(phy_id, self._chips[phy_id], now)]

    def samples(self, now: float) -> list[Sample]:
        """``npu_fault_active`` of every device."""
        return [
            Sample("npu_fault_active", (str(fault.phy_id), fault.code, fault.severity), 1.0)
            for fault in self.active(now)
        ]

    def json(self, now: float, wall_now: float) -> list[dict[str, object]]:
        """The faults' part of ``/api/v1/status``; ``since`` in Unix seconds."""
        return [
            {
                "device_id": fault.phy_id,
                "code": fault.code,
                "severity": fault.severity,
                "meaning": describe(fault.code),
                "name": fault.name or None,
                "source": fault.source,
                "since": round(wall_now - (now - fault.since), 3),
            }
            for fault in self.active(now)
        ]

    def _chip(self, phy_id: PhyId) -> _Chip:
        return self._chips.setdefault(phy_id, _Chip())

    def _active_of(self, phy_id: PhyId, chip: _Chip, now: float) -> Iterator[ActiveFault]:
        found = self._sources(chip, now)
        chip.since = {code: chip.since.get(code, at) for code, (_, at) in found.items()}
        chip.told = {code: told for code, told in chip.told.items() if code in found or code in chip.events}
        for code, (source, _) in sorted(found.items()):
            level, name = chip.told.get(code, (severity(code), ""))
            yield ActiveFault(phy_id, code, level, source, chip.since[code], name)

    def _sources(self, chip: _Chip, now: float) -> dict[str, tuple[Source, float]]:
        """The active codes: how each is known, and since when as far as this source can tell."""
        found: dict[str, tuple[Source, float]] = {}
        if chip.not_ready_since is not None and now - chip.not_ready_since > LOST_AFTER_S:
            found[LOST_CARD] = ("synthetic", chip.not_ready_since)
        for code, event in chip.events.items():
            if self._says(event, chip, now):
                found[code] = ("event", event.heard_at)
        if now - chip.polled_at > self._stale_s:
            return found
        for code in chip.codes:
            if self._says(chip.events.get(code), chip, now) is not False:
                found[code] = ("polled", found[code][1] if code in found else chip.polled_at)
        return found

    def _says(self, event: FaultRaised | None, chip: _Chip, now: float) -> bool | None:
        """Whether the fault is active by its event; None when that says nothing (any more)."""
        if event is None:
            return None
        if event.assertion == "one_shot":
            return True if now - event.heard_at <= ONE_SHOT_S else None
        return event.assertion == "raised" if self._rules(event, chip, now) else None

    def _rules(self, event: FaultRaised, chip: _Chip, now: float) -> bool:
        """Whether the event is believed rather than the last poll."""
        if event.heard_at <= self._gap_at:
            return chip.polled_at <= self._gap_at and now - self._gap_at <= self._stale_s
        return chip.polled_at - event.heard_at <= self._normal_s


def _severity(event: FaultRaised) -> FaultSeverity:
    return event.severity if event.severity != "unknown" else severity(event.code)


def _follows(event: FaultRaised, before: FaultRaised) -> bool:
    """Whether an event is news after the one before it of the same code and device.

    Source: the reference says that doubles and changes of order are possible, not how the serial numbers run; the
    notifications' number is taken to grow, modulo 2^32, until the chip or its driver starts anew.
    """
    numbered = event.notify_serial != 0 and before.notify_serial != 0
    at_once = abs(event.heard_at - before.heard_at) <= LATE_S
    if event.notify_serial == before.notify_serial and (numbered or at_once):
        return _identity(event) != _identity(before)
    if not (numbered and at_once):
        return event.heard_at >= before.heard_at
    return (event.notify_serial - before.notify_serial) % (1 << 32) < 1 << 31


def _identity(event: FaultRaised) -> tuple[object, ...]:
    return event.assertion, event.event_serial, event.raised_at


def _put(kept: dict[str, Value], code: str, value: Value) -> None:
    """Keep the value as the newest, and not more than `MOST_CODES`."""
    kept.pop(code, None)
    kept[code] = value
    if len(kept) > MOST_CODES:
        del kept[next(iter(kept))]
