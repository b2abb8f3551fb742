"""What a vendor's bytes mean: values, markers, and nonsense, for every row that has an opinion."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, cast

import pytest

from npumond.drivers.dcmi import structures as s
from npumond.drivers.dcmi.calling import Caller
from npumond.drivers.dcmi.discovery import generation_of, hccs_links
from npumond.drivers.dcmi.driver import WINDOWS_MS, outcome_of
from npumond.drivers.dcmi.rows import Chip, Question
from npumond.drivers.dcmi.table import BY_NAME
from npumond.drivers.text import sanitised
from npumond.model import CallOutcome, Device, Generation, LogicId, PhyId

ALL_ONES = 0xFFFFFFFF
DEVICE = Device(phy_id=PhyId(5), logic_id=LogicId(3), card_id=2, chip_id=1, chip="910B3", generation="910B")


class ScriptedCaller:
    """Stands in for a library: fills the buffers of each call as told, and remembers the integers."""

    def __init__(self, fill: Callable[..., int | None]) -> None:
        self.seconds = 0.0
        self.calls: list[tuple[Any, ...]] = []
        self._fill = fill

    def take(self, kind: type[Any], room: int = 0) -> Any:
        """A clean buffer."""
        return kind()

    def call(self, symbol: str, *arguments: Any) -> int:
        """Hand the buffers to the script."""
        self.calls.append((symbol, *(argument for argument in arguments if isinstance(argument, int))))
        return self._fill(*(argument for argument in arguments if not isinstance(argument, int))) or 0


def ask(name: str, fill: Callable[..., int | None], *, v2: bool = False) -> tuple[CallOutcome, ScriptedCaller]:
    """The outcome of a row on a library that fills buffers like this."""
    row, caller = BY_NAME[name], ScriptedCaller(fill)
    symbol = row.v2 if v2 else row.v1
    assert symbol is not None
    chip = Chip(device=DEVICE, hccs_links=(1, 2))
    question = Question(row, symbol, chip, cast("Caller", caller), v2=v2, windows_ms=WINDOWS_MS, chips=(chip,))
    return outcome_of(question), caller


def members(**values: Any) -> Callable[..., int | None]:
    """Set these members of the last-but-size buffer; arrays take tuples."""

    def fill(out: Any, *_: Any) -> None:
        for name, value in values.items():
            if isinstance(value, tuple):
                getattr(out, name)[: len(value)] = value
            else:
                setattr(out, name, value)

    return fill


def number(value: int) -> Callable[..., int | None]:
    """The output is this number."""
    return members(value=value)


def read(outcome: CallOutcome) -> dict[tuple[str, ...], float]:
    """Readings by field and key."""
    return {(reading.field, *reading.key): reading.value for reading in outcome.readings}


# ---- plain numbers and their ranges ----


@pytest.mark.parametrize(
    ("name", "value", "kind", "readings"),
    [
        ("dcmi_get_device_temperature", -1, "ok", {("temperature",): -1}),
        ("dcmi_get_device_temperature", -40, "ok", {("temperature",): -40}),
        ("dcmi_get_device_temperature", -276, "rejected", {}),
        ("dcmi_get_device_temperature", 2**31 - 1, "rejected", {}),
        ("dcmi_get_device_power_info", 0, "ok", {("power",): 0}),
        ("dcmi_get_device_power_info", -1, "rejected", {}),
        ("dcmi_get_device_utilization_rate[2]", 100, "ok", {("rate",): 100}),
        ("dcmi_get_device_utilization_rate[2]", 101, "rejected", {}),
        ("dcmi_get_device_utilization_rate[12]", ALL_ONES, "rejected", {}),
        ("dcmi_get_device_voltage", 2**31 - 1, "rejected", {}),
        ("dcmi_get_device_voltage", 80, "ok", {("voltage",): 80}),
        ("dcmi_get_device_frequency[7]", ALL_ONES, "rejected", {}),
        ("dcmi_get_device_frequency[7]", 1800, "ok", {("frequency",): 1800}),
        ("dcmi_get_device_health", 3, "ok", {("health",): 3}),
        ("dcmi_get_device_health", 4, "ok", {}),
        ("dcmi_get_device_health", ALL_ONES, "ok", {}),
        ("dcmi_get_device_health", 5, "rejected", {}),
        ("dcmi_get_driver_health", 1, "ok", {("health",): 1}),
        ("dcmi_mcu_get_power_info", 1100, "ok", {("power",): 1100}),
        ("dcmi_mcu_get_power_info", 0x7FFD, "ok", {}),
        ("dcmi_mcu_get_power_info", 0x7FFF, "ok", {}),
        ("dcmi_get_device_network_health", 0, "ok", {("healthy",): 1}),
        ("dcmi_get_device_network_health", 6, "ok", {("healthy",): 1}),
        ("dcmi_get_device_network_health", 3, "ok", {("healthy",): 0}),
        ("dcmi_get_device_network_health", 0xFF, "rejected", {}),
        ("dcmi_get_device_boot_status", 16, "ok", {("status",): 16}),
        ("dcmi_get_device_system_time", 1780000000, "ok", {("time",): 1780000000}),
    ],
)
def test_a_number_is_a_value_a_marker_or_nonsense(
    name: str, value: int, kind: str, readings: dict[tuple[str, ...], float]
) -> None:
    """-1 °C is a temperature; what stands for unknown gives nothing; what cannot be true is rejected."""
    outcome, _ = ask(name, number(value))

    assert (outcome.kind, read(outcome)) == (kind, readings)
    assert bool(outcome.detail) == (not readings)


def test_a_rejection_names_field_value_and_range() -> None:
    """Someone has to find out what the driver does."""
    outcome, _ = ask("dcmi_get_device_utilization_rate[2]", number(250))

    assert outcome.detail == "rate: 250 is not within 0 and 100"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-8002, "denied"),
        (-8005, "error"),
        (-8006, "timeout"),
        (-8008, "not_ready"),
        (-8011, "fault"),
        (-8012, "not_ready"),
        (-8017, "busy"),
        (-8020, "busy"),
        (-8255, "unsupported"),
        (-1, "error"),
    ],
)
def test_a_return_code_gives_no_reading_whatever_is_in_the_buffer(code: int, kind: str) -> None:
    """The class of the code, the code, and its meaning."""

    def fail(out: Any) -> int:
        out.value = 50
        return code

    outcome, _ = ask("dcmi_get_device_temperature", fail)

    assert (outcome.kind, outcome.code, outcome.readings) == (kind, code, ())
    assert outcome.detail.startswith(f"{code}: ")


# ---- memory ----


def test_hbm_gives_the_share_in_use() -> None:
    """The ratio of two members."""
    fill = members(memory_size=65536, memory_usage=16384, freq=1600, temp=-1, bandwith_util_rate=20)
    outcome, _ = ask("dcmi_get_device_hbm_info", fill)

    assert read(outcome) == {
        ("memory_size",): 65536,
        ("memory_usage",): 16384,
        ("memory_usage_ratio",): 0.25,
        ("freq",): 1600,
        ("temp",): -1,
        ("bandwith_util_rate",): 20,
    }


def test_hbm_of_no_size_is_rejected_whole() -> None:
    """A chip without HBM would otherwise show a temperature of 0."""
    outcome, _ = ask("dcmi_get_device_hbm_info", members(memory_usage=5, temp=30))

    assert (outcome.kind, outcome.readings, outcome.detail) == ("rejected", (), "memory_size is 0")


def test_one_bad_field_does_not_throw_the_others_away() -> None:
    """More in use than there is: the rest is as true as before."""
    outcome, _ = ask(
        "dcmi_get_device_hbm_info", members(memory_size=100, memory_usage=200, temp=30, bandwith_util_rate=101)
    )

    assert outcome.kind == "ok"
    assert set(read(outcome)) == {("memory_size",), ("freq",), ("temp",)}
    assert "memory_usage 200 is more than memory_size 100" in outcome.detail
    assert "bandwith_util_rate: 101 is not within 0 and 100" in outcome.detail


def test_ddr_in_use_is_size_less_available() -> None:
    """And absent when that would be below zero."""
    outcome, _ = ask(
        "dcmi_get_device_memory_info_v3", members(memory_size=1000, memory_available=250, hugepages_total=7)
    )
    assert read(outcome)["memory_used",] == 750
    assert read(outcome)["memory_used_ratio",] == 0.75
    assert read(outcome)["hugepages_total",] == 7

    outcome, _ = ask("dcmi_get_device_memory_info_v3", members(memory_size=1000, memory_available=1001))
    assert ("memory_used",) not in read(outcome)
    assert (outcome.kind, outcome.detail) == ("ok", "memory_available 1001 is more than memory_size 1000")

    outcome, _ = ask("dcmi_get_device_memory_info_v3", members(memory_available=5))
    assert (outcome.kind, outcome.readings) == ("rejected", ())


def test_a_count_of_all_ones_is_no_count() -> None:
    """Four thousand million ECC errors would wake somebody up."""
    fill = members(enable_flag=1, single_bit_error_cnt=3, total_double_bit_error_cnt=ALL_ONES)
    outcome, _ = ask("dcmi_get_device_ecc_info[2]", fill)

    assert outcome.kind == "ok"
    assert read(outcome)["single_bit_error_cnt",] == 3
    assert ("total_double_bit_error_cnt",) not in read(outcome)
    assert outcome.detail == "total_double_bit_error_cnt: 0xffffffff stands for unknown"


# ---- faults, processes ----


def codes(count: int, *values: int) -> Callable[..., int | None]:
    """A list of fault codes."""

    def fill(counted: Any, listed: Any) -> None:
        counted.value = count
        listed[: len(values)] = values

    return fill


def test_fault_codes_are_eight_hexadecimal_digits() -> None:
    """Zero is none, and a code told twice is one fault."""
    outcome, caller = ask("dcmi_get_device_errorcode_v2", codes(4, 0x80E01801, 0, 0x1, 0x80E01801))

    assert read(outcome) == {("error_code", "80E01801"): 1, ("error_code", "00000001"): 1}
    assert caller.calls == [("dcmi_get_device_errorcode_v2", 2, 1, 128)]


@pytest.mark.parametrize("count", [-1, 129, 2**31 - 1])
def test_an_impossible_number_of_fault_codes_is_rejected(count: int) -> None:
    """Nothing behind the buffer is read."""
    outcome, _ = ask("dcmi_get_device_errorcode_v2", codes(count, 1))

    assert (outcome.kind, outcome.readings) == ("rejected", ())


def test_no_fault_is_an_answer() -> None:
    """Not "unsupported": the absence of a fault is what most chips have to say."""
    outcome, _ = ask("dcmi_get_device_errorcode_v2", codes(0))

    assert (outcome.kind, outcome.readings, outcome.detail) == ("ok", (), "")


def processes(count: int, *records: tuple[int, int]) -> Callable[..., int | None]:
    """A process list."""

    def fill(listed: Any, counted: Any) -> None:
        counted.value = count
        for index, (pid, held) in enumerate(records):
            listed[index].proc_id, listed[index].proc_mem_usage = pid, held

    return fill


def test_processes_are_counted_and_keyed_by_pid() -> None:
    """A pid that is told twice holds both amounts; what lies behind the count is not read."""
    outcome, _ = ask("dcmi_get_device_resource_info", processes(3, (11, 100), (12, 5), (11, 1), (13, 7)))

    assert read(outcome) == {("proc_num",): 2, ("proc_mem_usage", "11"): 101, ("proc_mem_usage", "12"): 5}


def test_an_impossible_number_of_processes_is_rejected() -> None:
    """The manual says 32, the library 64; 129 is neither."""
    assert ask("dcmi_get_device_resource_info", processes(129))[0].kind == "rejected"
    assert ask("dcmi_get_device_resource_info", processes(-1))[0].kind == "rejected"


# ---- get_device_info ----


def test_throttling_gives_one_reading_a_reason() -> None:
    """Unknown bits are nobody's."""
    outcome, caller = ask("dcmi_get_device_info[8,9]", number(1 << 2 | 1 << 10 | 1 << 60))

    assert {key[1] for key, value in read(outcome).items() if value} == {"thermal", "power_capping"}
    assert {key[1] for key in read(outcome)} == {
        "idle", "thermal", "sw_edp", "hw_edp", "power_break", "svfd", "power_capping", "load_aware"
    }  # fmt: skip
    assert caller.calls == [("dcmi_get_device_info", 2, 1, 8, 9)]


def test_hccs_is_healthy_when_its_link_layer_is() -> None:
    """3 is well."""
    assert read(ask("dcmi_get_device_info[16,0]", members(hdlc_status=3))[0]) == {("healthy",): 1}
    assert read(ask("dcmi_get_device_info[16,0]", members(pcs_status=0xFE, hdlc_status=1))[0]) == {("healthy",): 0}


def test_hccs_lanes_are_counted_on_ports_that_are_there() -> None:
    """A port without lanes is 0, a port that is not there is absent."""
    fill = members(hccs_port_pcs_bitmap=0b110, pcs_lane_bitmap=(0xF, 0b1011, 0))

    assert read(ask("dcmi_get_device_info[16,1]", fill)[0]) == {("lanes", "1"): 3, ("lanes", "2"): 0}


def test_only_links_that_the_product_has_are_given() -> None:
    """The arrays have 16 entries, whatever the product."""
    fill = members(tx_cnt=(9, 1, 2, 3), crc_err_cnt=(9, 0, 4, 5))
    readings = read(ask("dcmi_get_device_info[16,5]", fill)[0])

    assert {key[1] for key in readings} == {"1", "2"}
    assert (readings["tx_cnt", "2"], readings["crc_err_cnt", "2"]) == (2, 4)


def test_a_bandwidth_that_is_no_number_is_rejected() -> None:
    """NaN compares with nothing."""
    outcome, _ = ask("dcmi_get_hccs_link_bandwidth_info", members(tx_bandwidth=(0, float("nan"), 1.5)))

    assert ("tx_bandwidth", "1") not in read(outcome)
    assert read(outcome)["tx_bandwidth", "2"] == 1.5


def test_the_window_goes_in_by_the_structure() -> None:
    """In milliseconds."""
    seen = []
    ask("dcmi_get_pcie_link_bandwidth_info", lambda out: seen.append(out.profiling_time))

    assert seen == [200]


def test_the_window_goes_in_by_an_argument() -> None:
    """Behind the port."""
    assert ask("dcmi_get_rdma_bandwidth_info", members())[1].calls == [("dcmi_get_rdma_bandwidth_info", 2, 1, 0, 100)]


def test_pcie_rates_are_keyed_by_statistic() -> None:
    """[min, max, avg]."""
    readings = read(ask("dcmi_get_pcie_link_bandwidth_info", members(tx_np_lantency=(1, 3, 2)))[0])

    assert [readings["tx_np_lantency", statistic] for statistic in ("min", "max", "avg")] == [1, 3, 2]


def test_a_super_pod_is_told_by_its_ids() -> None:
    """A chip outside of one has markers everywhere."""
    fill = members(sdid=4096, super_pod_id=5, server_index=7, chassis_id=ALL_ONES)
    assert read(ask("dcmi_get_device_info[12,1]", fill)[0]) == {("spod", "5", "7", "4096", ""): 1}

    markers = members(sdid=ALL_ONES, super_pod_id=ALL_ONES, server_index=ALL_ONES, chassis_id=ALL_ONES)
    assert read(ask("dcmi_get_device_info[12,1]", markers)[0]) == {}


def test_virtual_npus_are_asked_one_by_one() -> None:
    """One that fails does not hide the other."""

    def fill(out: Any, size: Any) -> int | None:
        if isinstance(out, s.dcmi_soc_total_resource):
            out.vdev_num, out.vdev_id[0], out.vdev_id[1] = 2, 100, 101
            return None
        out.query_info.computing.vdev_aicore_utilization = 17
        out.query_info.computing.vdev_memory_total = 4096
        return -8007 if out.vdev_id == 101 else None

    outcome, caller = ask("dcmi_get_device_info[52,5]", fill)

    assert [call[3:] for call in caller.calls] == [(52, 1), (52, 5), (52, 5)]
    assert outcome.kind == "ok"
    assert read(outcome) == {
        ("vdev_aicore_utilization", "100"): 17,
        ("vdev_memory_total", "100"): 4096,
        ("vdev_memory_free", "100"): 0,
    }
    assert outcome.detail == "vdev 101: -8007"


def test_core_loads_leave_out_damaged_and_invalid_cores() -> None:
    """And whatever lies behind the number of valid bytes."""

    def fill(out: Any, size: Any) -> None:
        out[:6] = (10, 0xEE, 0xEF, 20, 101, 99)
        size.value = 5

    outcome, _ = ask("dcmi_get_device_info[11,0]", fill)

    assert read(outcome) == {("load", "0"): 10, ("load", "3"): 20}


# ---- sensors ----


@pytest.mark.parametrize(
    ("sensor", "fill", "readings"),
    [
        (11, members(uint=0xFFFFFF00 | 42), {("temperature",): 42}),
        (13, members(iint=-1), {("temperature",): -1}),
        (12, members(iint=0x7EFF), {}),
        (12, members(iint=50), {("temperature",): 50}),
        (
            10,
            members(ntc_tmp=(30, -5, 0x7FFFFFFF, 33)),
            {("temperature", "ntc0"): 30, ("temperature", "ntc1"): -5, ("temperature", "ntc3"): 33},
        ),
    ],
)
def test_a_sensor_is_read_from_its_own_member(
    sensor: int, fill: Callable[..., int | None], readings: dict[tuple[str, ...], float]
) -> None:
    """One byte for the SoC, a whole integer for others, four of them for thermistors; a copper cable has none."""
    assert read(ask(f"dcmi_get_device_sensor_info[{sensor}]", fill)[0]) == readings


def test_no_optical_module_is_not_a_lost_device() -> None:
    """-8008 means that there is none, but only for this sensor."""
    assert ask("dcmi_get_device_sensor_info[12]", lambda out: -8008)[0].kind == "unsupported"
    assert ask("dcmi_get_device_sensor_info[13]", lambda out: -8008)[0].kind == "not_ready"


# ---- UB ----


def test_ub_ports_that_exist_are_up_or_down() -> None:
    """Full and partial lanes are up, initial is down, absent is absent, and the rest is nonsense."""
    outcome, _ = ask("dcmiv2_get_ub_port_link_status", members(ub_port_status=(1, 2, 3, 0, 9)), v2=True)

    assert read(outcome) == {("up", "ub0"): 1, ("up", "ub1"): 1, ("up", "ub2"): 0}
    assert outcome.detail == "ub4: 9 is no port state"


def ub_ports(out: Any, *ports: tuple[int, int, int]) -> None:
    """A list of (die, port, mode)."""
    out.die_nums = 2
    for die, port, mode in ports:
        listed = out.die_list_data[die]
        listed.die_index = die
        listed.ports[listed.port_nums].port_index = port
        listed.ports[listed.port_nums].mode = mode
        listed.port_nums += 1


def test_ub_counters_are_read_port_by_port() -> None:
    """Ethernet counters only on ports that speak Ethernet; a port that fails is told and left out."""

    def fill(first: Any, out: Any = None) -> int | None:
        if out is None:
            ub_ports(first, (0, 4, 0), (0, 5, 0), (1, 4, 1))
            return None
        if (first.udie_id, first.port_id) == (0, 5):
            return -8006
        out.crc_error_sum = 10 * first.udie_id + first.port_id
        out.core_mib_rxpausepkts = 7
        return None

    outcome, _ = ask("dcmiv2_get_port_pkt_stats_info", fill, v2=True)

    assert outcome.kind == "ok"
    assert {key: value for key, value in read(outcome).items() if key[0] == "crc_error_sum"} == {
        ("crc_error_sum", "0", "4"): 4,
        ("crc_error_sum", "1", "4"): 14,
    }
    assert {key for key in read(outcome) if key[0] == "core_mib_rxpausepkts"} == {("core_mib_rxpausepkts", "1", "4")}
    assert outcome.detail == "die 0 port 5: -8006"


def test_ub_ports_that_all_fail_are_a_failure() -> None:
    """By the first code."""

    def fill(first: Any, out: Any = None) -> int | None:
        if out is None:
            ub_ports(first, (0, 4, 0), (0, 5, 0))
            return None
        return -8006

    outcome, _ = ask("dcmiv2_get_ub_realtime_bandwidth_info", fill, v2=True)

    assert (outcome.kind, outcome.code) == ("timeout", -8006)


def test_a_port_list_with_nonsense_in_it_reads_nothing_beyond_itself() -> None:
    """Counts are bounded by the arrays."""

    def fill(first: Any, out: Any = None) -> None:
        if out is None:
            ctypes.memset(ctypes.addressof(first), 0x7F, ctypes.sizeof(first))

    outcome, caller = ask("dcmiv2_get_port_pkt_stats_info", fill, v2=True)

    assert outcome.kind == "ok"
    assert len(caller.calls) == 1 + 2 * 32


# ---- identity ----


def test_labels_are_cleaned_text() -> None:
    """A reading's key becomes a label."""
    fill = members(serial_number=b"SN\x01 1\n", product_name=b"Atlas \xff", manufacturer=b"Huawei")
    outcome, _ = ask("dcmi_get_card_elabel_v2", fill)

    assert [reading.key for reading in outcome.readings] == [("SN 1", "Atlas \N{REPLACEMENT CHARACTER}", "", "Huawei")]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"910B3\0garbage", "910B3"),
        (b"", ""),
        (b" padded \0", "padded"),
        (b"a\x1b[31mb\x7f\r\n", "a[31mb"),
        (b"\xe6\x98\x87\xe8\x85\xbe", "昇腾"),
        (b"\xff\xfe", "\N{REPLACEMENT CHARACTER}" * 2),
        (b"x" * 256, "x" * 128),
        ("a\N{RIGHT-TO-LEFT OVERRIDE}b".encode(), "ab"),
    ],
)
def test_text_is_cut_at_nul_and_freed_of_what_cannot_be_printed(raw: bytes, text: str) -> None:
    """Whatever a driver leaves in a buffer."""
    assert sanitised(raw) == text


@pytest.mark.parametrize(
    ("chip", "board_id", "generation"),
    [
        ("Ascend910", 0xB0, "A3"),
        ("910B3", 0xD3, "A3"),
        ("Ascend950PR", 0x03, "950"),
        ("310P3", 0x64, "310P"),
        ("310P", None, "310P"),
        ("I2S", None, "310P"),
        ("310B4", 0x28, "310B"),
        ("310", 0x04, "310"),
        ("Ascend310", None, "310"),
        ("910B4", 0x3C, "910B"),
        ("A2G1", None, "910B"),
        ("910B", 0x20, "910"),
        ("910ProB", 0x20, "910"),
        ("910A", None, "910"),
        ("Ascend910", None, "unknown"),
        ("", None, "unknown"),
    ],
)
def test_the_generation_is_told_by_board_and_name(chip: str, board_id: int | None, generation: str) -> None:
    """In the order of the reference; a bare 910B is of the first generation."""
    assert generation_of(chip, board_id) == generation


@pytest.mark.parametrize(
    ("generation", "mainboard", "links"),
    [
        ("910B", 0x02, (1, 2, 3, 4, 5, 6, 7)),
        ("A3", 0x18, (1, 2, 3, 4, 5, 6, 7)),
        ("A3", 0x1C, (2, 3, 4, 5, 6, 7)),
        ("A3", 0x1D, (2, 3, 4, 5, 6, 7)),
        ("910B", None, (1, 2, 3, 4, 5, 6, 7)),
        ("310P", None, ()),
    ],
)
def test_the_links_depend_on_the_product(generation: Generation, mainboard: int | None, links: tuple[int, ...]) -> None:
    """Atlas 9000 A3 begins with 2."""
    assert hccs_links(generation, mainboard) == links
