"""Raw readings become samples in base units; what is lacking, failing or excessive makes none."""

from __future__ import annotations

import pytest

from npumond.catalog import BY_NAME, CATALOG, Family
from npumond.model import CallOutcome, DeviceRound, OutcomeKind, Reading
from npumond.sources.readings import ReadingMap, identity_sample
from tests.worker.scripted import device

DEVICE = device(5)


def reading_map(top_processes: int = 16, aliases: bool = False) -> ReadingMap:
    return ReadingMap(lambda pid: f"p{pid}", top_processes, aliases)


def ok(call: str, *readings: Reading) -> CallOutcome:
    return CallOutcome(call, "ok", 0, 0.001, readings)


def samples(*outcomes: CallOutcome, mapping: ReadingMap | None = None) -> dict[tuple[str, ...], float]:
    made = (mapping or reading_map()).samples(DEVICE, outcomes)
    return {(sample.family, *sample.labels): sample.value for sample in made}


@pytest.mark.parametrize(
    ("call", "field", "raw", "family", "expected"),
    [
        ("dcmi_get_device_power_info", "power", 739.0, "npu_power_watts", "73.9"),
        ("dcmi_get_device_voltage", "voltage", 81.0, "npu_voltage_volts", "0.81"),
        ("dcmi_get_device_temperature", "temperature", -1.0, "npu_temperature_celsius", "-1.0"),
        ("dcmi_get_device_hbm_info", "memory_size", 65536.0, "npu_hbm_total_bytes", "68719476736.0"),
        ("dcmi_get_device_frequency[7]", "frequency", 1650.0, "npu_aicore_frequency_hertz", "1650000000.0"),
        ("dcmi_get_device_utilization_rate[2]", "rate", 57.0, "npu_aicore_utilization_ratio", "0.57"),
    ],
)
def test_vendor_units_become_base_units_without_float_noise(
    call: str, field: str, raw: float, family: str, expected: str
) -> None:
    assert repr(samples(ok(call, Reading(field, raw)))[family, "5"]) == expected


def test_of_two_sources_the_preferred_one_wins_in_any_order() -> None:
    multi = ok("dcmi_get_device_multi_utilization_rate", Reading("aicore_util", 60.0))
    single = ok("dcmi_get_device_utilization_rate[2]", Reading("rate", 10.0))
    assert samples(single, multi) == samples(multi, single) == {("npu_aicore_utilization_ratio", "5"): 0.6}


def test_only_the_largest_processes_become_series_and_all_are_counted() -> None:
    sizes = (Reading("proc_mem_usage", float(pid), (str(pid),)) for pid in (1, 3, 2))
    outcome = ok("dcmi_get_device_resource_info", Reading("proc_num", 3.0), *sizes)
    assert samples(outcome, mapping=reading_map(top_processes=2)) == {
        ("npu_processes", "5"): 3.0,
        ("npu_process_hbm_used_bytes", "5", "3", "p3"): 3.0,
        ("npu_process_hbm_used_bytes", "5", "2", "p2"): 2.0,
    }


def test_a_fault_code_makes_no_sample_here() -> None:
    """The fault book makes them, out of events too."""
    outcome = ok("dcmi_get_device_errorcode_v2", Reading("error_code", 1.0, ("80E18402",)))
    assert samples(outcome) == {}


def test_aliases_can_be_left_out() -> None:
    outcome = ok("dcmi_get_device_utilization_rate[2]", Reading("rate", 57.0))
    assert ("npu_aicore_utilization", "5") not in samples(outcome)
    assert samples(outcome, mapping=reading_map(aliases=True))["npu_aicore_utilization", "5"] == 57.0


def test_a_card_reading_carries_the_card_and_no_device() -> None:
    assert samples(ok("dcmi_mcu_get_power_info", Reading("power", 1100.0))) == {("npu_board_power_watts", "5"): 110.0}


@pytest.mark.parametrize(
    ("kind", "supported"),
    [
        ("ok", True),
        ("unsupported", False),
        ("denied", False),
        ("not_ready", None),
        ("timeout", None),
        ("rejected", None),
    ],
)
def test_support_is_told_by_answers_and_by_a_clear_no_only(kind: OutcomeKind, supported: bool | None) -> None:
    outcome = CallOutcome("dcmi_get_device_voltage", kind, 0, 0.001)
    said = reading_map().support(DeviceRound(DEVICE.phy_id, "normal", 1.0, (outcome,)), ())
    assert said.get("npu_voltage_volts") is supported


def test_a_skipped_call_counts_as_lacking() -> None:
    done = DeviceRound(DEVICE.phy_id, "normal", 1.0, (), ("dcmi_get_device_voltage",))
    assert reading_map().support(done, ()) == {"npu_voltage_volts": False}


def test_the_identity_series_has_a_value_for_each_of_its_labels() -> None:
    sample = identity_sample(DEVICE)
    assert len(sample.labels) == len(BY_NAME["npu_device_info"].labels)


@pytest.mark.parametrize("row", CATALOG, ids=lambda row: row.name)
def test_a_catalogue_row_keeps_the_conventions(row: Family) -> None:
    assert row.help.endswith(".")
    assert (row.kind == "counter") == row.name.endswith("_total")
    assert (row.kind == "info") == row.name.endswith("_info")
    assert (row.kind == "histogram") == bool(row.buckets)
    assert row.name.startswith(("npu_", "npumond_", "inference_", "process_", "python_gc_"))
    assert sorted(row.buckets) == list(row.buckets)
    assert {"job", "instance", "le", "pod", "namespace", "node"}.isdisjoint(row.labels)
