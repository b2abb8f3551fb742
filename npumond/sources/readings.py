"""From a device's vendor readings to samples in base units, by the catalogue's rows.

Pure but for one label value that the driver does not know: a process's name comes from a function that is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from npumond.catalog import Family, From, reading_rows
from npumond.model import LACKING, CallOutcome, Device, DeviceRound, Reading, Sample

PROCESS_FAMILY = "npu_process_hbm_used_bytes"
FAULT_FAMILY = "npu_fault_active"
"""Made by the fault book, which knows more than the codes of one round."""


class _Target(Struct, frozen=True, gc=False):
    """One way a reading becomes a sample."""

    family: str
    rank: int
    multiplier: int
    divisor: int
    fixed: tuple[str, ...]
    identity: tuple[str, ...]
    """Leading label names that are the device's own: device_id, card_id, or none."""


def _target(family: Family, rank: int, source: From) -> _Target:
    identity = tuple(label for label in family.labels if label in ("device_id", "card_id"))
    return _Target(family.name, rank, *source.scale, source.fixed, identity)


class ReadingMap:
    """The catalogue's rows arranged by what a driver gives."""

    def __init__(self, process_name: Callable[[int], str], top_processes: int, aliases: bool) -> None:
        self._process_name = process_name
        self._top_processes = top_processes
        self._targets: dict[tuple[str, str], list[_Target]] = {}
        self._families_of_call: dict[str, set[str]] = {}
        self._texts: dict[int, str] = {}
        for family, rank, source in reading_rows():
            if not aliases and family.alias:
                continue
            self._families_of_call.setdefault(source.call, set()).add(family.name)
            if family.name != FAULT_FAMILY:
                self._targets.setdefault((source.call, source.field), []).append(_target(family, rank, source))

    def _text(self, number: int) -> str:
        """The number as a label; one string for all the series of a device."""
        return self._texts.setdefault(number, str(number))

    def samples(self, device: Device, outcomes: Iterable[CallOutcome]) -> list[Sample]:
        """One sample for each series that the outcomes can fill; the preferred source wins where several can."""
        best: dict[tuple[str, tuple[str, ...]], tuple[int, Sample]] = {}
        for outcome in outcomes:
            for reading in self._shown(outcome):
                for target in self._targets.get((outcome.call, reading.field), ()):
                    sample = self._sample(device, target, reading)
                    key = (sample.family, sample.labels)
                    if key not in best or target.rank < best[key][0]:
                        best[key] = (target.rank, sample)
        return [sample for _, sample in best.values()]

    def support(self, done: DeviceRound, given: Sequence[Sample]) -> dict[str, bool]:
        """Which families this round proved to be supported or lacking; a family it says nothing about is left out."""
        said: dict[str, bool] = dict.fromkeys((sample.family for sample in given), True)
        answered = {outcome.call for outcome in done.outcomes if outcome.kind == "ok"}
        lacking = {outcome.call for outcome in done.outcomes if outcome.kind in LACKING} | set(done.skipped)
        for call in answered:
            for family in self._families_of_call.get(call, ()):
                said.setdefault(family, True)
        for call in lacking:
            for family in self._families_of_call.get(call, ()):
                said.setdefault(family, False)
        return said

    def families(self) -> frozenset[str]:
        """Every family that a driver can fill."""
        return frozenset(family for families in self._families_of_call.values() for family in families)

    def _shown(self, outcome: CallOutcome) -> Sequence[Reading]:
        """The readings that become series: of many processes only the largest, to bound the page."""
        if outcome.call != "dcmi_get_device_resource_info" or len(outcome.readings) <= self._top_processes:
            return outcome.readings
        counts = [reading for reading in outcome.readings if not reading.key]
        sizes = sorted((reading for reading in outcome.readings if reading.key), key=lambda reading: -reading.value)
        return [*counts, *sizes[: self._top_processes]]

    def _sample(self, device: Device, target: _Target, reading: Reading) -> Sample:
        return Sample(target.family, self._labels(device, target, reading.key), _in_base_unit(reading.value, target))

    def _labels(self, device: Device, target: _Target, key: tuple[str, ...]) -> tuple[str, ...]:
        own = tuple(self._text(device.phy_id if name == "device_id" else device.card_id) for name in target.identity)
        labels = (*own, *target.fixed, *key)
        if target.family == PROCESS_FAMILY:
            return (*labels, self._process_name(int(key[0])))
        return labels


def _in_base_unit(raw: float, target: _Target) -> float:
    """The raw value in the family's unit, at the resolution of its source.

    A whole number is scaled by whole numbers: exact, or rounded once. Decimals that a tool printed are not whole:
    0.71 mW are 0.00071 W and not 0.0007099999999999999, so these keep 15 digits, all that a double has to itself.
    """
    value = raw * target.multiplier / target.divisor
    return value if raw.is_integer() or value == raw else float(f"{value:.15g}")


def identity_sample(device: Device) -> Sample:
    """The ``npu_device_info`` series of a device."""
    values = (
        device.phy_id, device.logic_id, device.card_id, device.chip_id,
        device.uuid, device.chip, device.product, device.pci_address,
    )  # fmt: skip
    return Sample("npu_device_info", tuple(str(value) for value in values), 1.0)
