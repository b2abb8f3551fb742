"""A driver whose answers are written down in the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from npumond.drivers.driver import Call
from npumond.model import CallOutcome, Device, DriverFacts, LogicId, OutcomeKind, PhyId, Reading

CODES: dict[OutcomeKind, int] = {"ok": 0, "unsupported": -8255, "denied": -8002, "not_ready": -8012, "timeout": -8006}


def device(number: int, *, first_of_card: bool = True, first_of_node: bool = False) -> Device:
    """A 910B of that physical number."""
    return Device(
        phy_id=PhyId(number),
        logic_id=LogicId(number),
        card_id=number,
        chip_id=0,
        chip="910B3",
        generation="910B",
        first_of_card=first_of_card,
        first_of_node=first_of_node,
    )


class ScriptedDriver:
    """Answers each call with the next kind of its script; the last one is repeated."""

    def __init__(self, calls: Sequence[Call], script: Mapping[str, Sequence[OutcomeKind]], devices: int = 1) -> None:
        self._calls = tuple(calls)
        self._script = {name: list(kinds) for name, kinds in script.items()}
        self._devices = tuple(device(number, first_of_node=number == 0) for number in range(devices))
        self.made: list[tuple[int, str]] = []
        self.before_call: Callable[[Device, str], None] = lambda device, name: None
        self._lock = threading.Lock()

    def open(self) -> DriverFacts:
        return DriverFacts(backend="simulated", api="scripted", library="script", devices=self._devices)

    def calls(self, device: Device) -> tuple[Call, ...]:
        return self._calls

    def call(self, device: Device, name: str) -> CallOutcome:
        self.before_call(device, name)
        with self._lock:
            self.made.append((device.phy_id, name))
            kinds = self._script.get(name, ["ok"])
            kind = kinds.pop(0) if len(kinds) > 1 else kinds[0]
        readings = (Reading("value", 1.0),) if kind == "ok" else ()
        return CallOutcome(name, kind, CODES.get(kind, -8005), 0.001, readings)
