"""The JSON shapes that scripts hang on: every key there, what is not known null, nothing made up."""

from __future__ import annotations

from npumond import api
from npumond.model import DeviceState, DriverFacts, FailedChip, Sample, Snapshot, SourceState
from tests.worker.scripted import device


def snapshot(*samples: Sample, up: bool = True) -> Snapshot:
    families: dict[str, tuple[Sample, ...]] = {}
    for sample in samples:
        families[sample.family] = (*families.get(sample.family, ()), sample)
    state = DeviceState(device(5), up=up, reason="" if up else "timeout (-8006)")
    return Snapshot(at=100.0, wall_at=1_800_000_000.0, families=families, devices=(state,))


def test_a_device_has_every_key_and_null_for_what_is_not_known() -> None:
    (entry,) = api.devices_json(snapshot(Sample("npu_power_watts", ("5",), 73.9)))
    promised = {"device_id", "logic_id", "card_id", "chip_id", "chip", "uuid", "up", "reason", "workloads", "readings"}
    assert promised <= entry.keys()
    readings = entry["readings"]
    assert isinstance(readings, dict)
    assert (readings["npu_power_watts"], readings["npu_hbm_used_bytes"]) == (73.9, None)


def test_a_reading_with_more_labels_carries_them_in_its_key() -> None:
    (entry,) = api.devices_json(snapshot(Sample("npu_throttled", ("5", "thermal"), 1.0)))
    readings = entry["readings"]
    assert isinstance(readings, dict)
    assert readings['npu_throttled{reason="thermal"}'] == 1.0


def test_a_device_names_its_owners() -> None:
    (entry,) = api.devices_json(snapshot(Sample("npu_workload_info", ("5", "", "", "chat", "inference"), 1.0)))
    assert entry["workloads"] == [{"namespace": None, "pod": None, "container": "chat", "source": "inference"}]


def test_a_device_that_is_down_says_why() -> None:
    (entry,) = api.devices_json(snapshot(up=False))
    assert (entry["up"], entry["reason"]) == (False, "timeout (-8006)")


def test_nothing_is_known_before_the_first_snapshot() -> None:
    assert api.devices_json(None) == []


def test_without_a_driver_its_facts_are_null_and_the_reason_and_places_are_told() -> None:
    told = api.driver_json(None, "no library", ("a: not there",))
    assert (told["backend"], told["driver_version"]) == (None, None)
    assert (told["reason"], told["searched"]) == ("no library", ["a: not there"])


def test_chips_that_failed_at_init_are_listed() -> None:
    facts = DriverFacts(
        backend="dcmi", api="v1", library="libdcmi.so", devices=(device(0),), failed=(FailedChip("card 5", "id -1"),)
    )
    told = api.driver_json(facts, "", ())
    assert (told["devices_expected"], told["failed_chips"]) == (2, [{"position": "card 5", "reason": "id -1"}])


def test_the_age_of_a_source_that_never_succeeded_is_null() -> None:
    never = SourceState(
        source="npu", group="fast", success=False, duration_s=0.1, ended_at=95.0, last_success_at=None, reason="x"
    )
    once = SourceState(source="npu", group="slow", success=True, duration_s=0.1, ended_at=95.0, last_success_at=90.0)
    assert [state["age_s"] for state in api.sources_json((never, once), 100.0)] == [None, 10.0]
