"""The JSON shapes of ``/api/v1``: what scripts hang on.

Pure functions of published values. What is not known is None, never 0; times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npumond.catalog import BY_NAME, CATALOG, Family
from npumond.model import CallOutcome, DeviceState, DriverFacts, PhyId, Sample, Snapshot, SourceState

Json = dict[str, object]

WITHOUT_READING = ("npu_device_up",)
"""Families about a device that have a key of their own beside ``readings``."""

READING_FAMILIES: tuple[Family, ...] = tuple(
    family
    for family in CATALOG
    if family.origin == "npu"
    and family.labels[:1] == ("device_id",)
    and family.kind in ("gauge", "counter")
    and not family.alias
    and family.name not in WITHOUT_READING
)


def devices_json(snapshot: Snapshot | None) -> list[Json]:
    """``/api/v1/devices``: one entry a device, each with every reading that a device can have."""
    if snapshot is None:
        return []
    readings, workloads = _readings_by_device(snapshot), _workloads_by_device(snapshot)
    return [
        _device_json(state, readings.get(str(state.device.phy_id), {}), workloads.get(str(state.device.phy_id), []))
        for state in snapshot.devices
    ]


def _device_json(state: DeviceState, readings: Mapping[str, float], workloads: list[Json]) -> Json:
    device = state.device
    unknown: dict[str, float | None] = {family.name: None for family in READING_FAMILIES if len(family.labels) == 1}
    return {
        "device_id": device.phy_id,
        "logic_id": device.logic_id,
        "card_id": device.card_id,
        "chip_id": device.chip_id,
        "chip": device.chip,
        "generation": device.generation,
        "product": device.product or None,
        "uuid": device.uuid or None,
        "pci_address": device.pci_address or None,
        "up": state.up,
        "reason": state.reason,
        "workloads": workloads,
        "readings": {**unknown, **readings},
    }


def _readings_by_device(snapshot: Snapshot) -> dict[str, dict[str, float]]:
    readings: dict[str, dict[str, float]] = {}
    for family in READING_FAMILIES:
        for sample in snapshot.samples(family.name):
            readings.setdefault(sample.labels[0], {})[reading_key(family, sample)] = sample.value
    return readings


def _workloads_by_device(snapshot: Snapshot) -> dict[str, list[Json]]:
    """Who has each device; what an owner does not have, as a pod outside a cluster, is None."""
    keys = ("namespace", "pod", "container", "source")
    owners: dict[str, list[Json]] = {}
    for sample in snapshot.samples("npu_workload_info"):
        device_id, *values = sample.labels
        owner: Json = {key: value or None for key, value in zip(keys, values, strict=True)}
        owners.setdefault(device_id, []).append(owner)
    return owners


def reading_key(family: Family, sample: Sample) -> str:
    """A reading's key: the family's name, with the labels beyond device_id in braces where there are any."""
    extra = zip(family.labels[1:], sample.labels[1:], strict=True)
    inner = ",".join(f'{name}="{value}"' for name, value in extra)
    return f"{family.name}{{{inner}}}" if inner else family.name


def driver_json(facts: DriverFacts | None, trouble: str, searched: Iterable[str]) -> Json:
    """The driver's part of ``/api/v1/status``."""
    found: Json = {"backend": None, "api": None, "library": None, "driver_version": None, "dcmi_version": None}
    if facts is not None:
        found = {
            "backend": facts.backend,
            "api": facts.api,
            "library": facts.library,
            "driver_version": facts.driver_version or None,
            "dcmi_version": facts.dcmi_version or None,
            "devices_expected": facts.expected,
            "failed_chips": [{"position": chip.position, "reason": chip.reason} for chip in facts.failed],
        }
    return {**found, "reason": trouble, "searched": list(searched)}


def sources_json(states: Iterable[SourceState], now: float) -> list[Json]:
    """The sources' part of ``/api/v1/status``; ``now`` is monotonic, ages are seconds since the last good round."""
    return [
        {
            "source": state.source,
            "group": state.group,
            "success": state.success,
            "age_s": None if state.last_success_at is None else round(now - state.last_success_at, 3),
            "duration_s": round(state.duration_s, 6),
            "reason": state.reason,
        }
        for state in states
    ]


def sample_json(sample: Sample) -> Json:
    """One sample with its labels by name."""
    names = BY_NAME[sample.family].labels
    labels = dict(zip((*names, "le") if sample.suffix == "_bucket" else names, sample.labels, strict=True))
    return {"name": sample.family + sample.suffix, "labels": labels, "value": sample.value}


def call_json(phy_id: PhyId, outcome: CallOutcome) -> Json:
    """One vendor call on one device with everything that it gave, in the vendor's units."""
    return {
        "device_id": phy_id,
        "call": outcome.call,
        "outcome": outcome.kind,
        "code": outcome.code,
        "duration_s": outcome.duration_s,
        "readings": [{"field": it.field, "key": list(it.key), "raw": it.value} for it in outcome.readings],
        "detail": outcome.detail,
    }
