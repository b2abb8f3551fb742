"""A driver that lies to a running daemon: what is told wrong is rejected and counted, and never shown.

The host has eight 910B3 (where not said otherwise), of which one lies. In each case the page is that of a host whose
chip lacks what it lied about, so every value of the other chips, and every true one of the liar, is on it unchanged.
"""

from __future__ import annotations

import math
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from tests.e2e.daemon import Daemon, Page, Series, Values, is_complete, series
from tests.e2e.hosts import Observed, host, observe
from tests.e2e.test_page import differences, of_the_chips
from tests.e2e.truth import truth
from tests.standin.build import StandIn
from tests.standin.scenario import Ddr, Ecc, Hbm, HccsLinks, Pcie, Scenario

pytestmark = pytest.mark.slow

LIAR = 3
"""Logic, physical and card id of the chip that lies."""
CALLS = "npumond_driver_calls_total"
ALL_ONES, ALL_ONES_64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF

HBM = "dcmi_get_device_hbm_info"
PROCESSES = "dcmi_get_device_resource_info"
MULTI = "dcmi_get_device_multi_utilization_rate"


def rejections(page: Page, call: str) -> float:
    """How often the call's answer, or a part of it, was rejected."""
    return page.values.get(series(CALLS, call=call, outcome="rejected"), 0.0)


def without(*fields: str, **values: Any) -> Scenario:
    """The usual host whose liar lacks these fields, or has other values of them."""
    scenario = host("910b")
    for name in fields:
        setattr(scenario.chip(LIAR), name, None)
    for name, value in values.items():
        setattr(scenario.chip(LIAR), name, value)
    return scenario


@pytest.fixture(scope="module")
def daemon(standin: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for the cases of this module that begin and end with an honest host."""
    with Daemon(tmp_path_factory.mktemp("liars"), standin, host("910b")) as running:
        running.page_when(is_complete, "every lane of every device has reported")
        yield running


def is_page_of(scenario: Scenario) -> Callable[[Page], bool]:
    """Whether a page shows what is true of the host's chips and nothing else of them."""
    true = truth(scenario)
    return lambda page: of_the_chips(page.values) == true


@contextmanager
def lying(daemon: Daemon, lie: Scenario) -> Iterator[None]:
    """Puts a lie in force; afterwards the host is honest again, and the page shows it as before."""
    daemon.put(lie)
    try:
        yield
    finally:
        daemon.put(host("910b"))
    daemon.page_when(is_page_of(host("910b")), "the honest chip is shown as before", 10)


def not_believed(daemon: Daemon, lie: Scenario, remaining: Values, call: str) -> None:
    """While the lie lasts the page shows what remains of the host, and the call is counted as rejected."""
    before = rejections(daemon.scrape(), call)
    with lying(daemon, lie):
        daemon.page_when(lambda page: rejections(page, call) > before + 1, f"{call} is rejected, and counted", 10)
        with suppress(AssertionError):  # what differs says more than that something does
            daemon.page_when(lambda page: of_the_chips(page.values) == remaining, "all else is shown", 5)
        assert differences(of_the_chips(daemon.scrape().values), remaining) == []


# ---- structures larger than ours ----

BEYOND = 64
FAR_BEYOND = 12_000
"""Ten times the guard behind a buffer, and still in memory that is set aside for it."""


def without_packets() -> Scenario:
    """The tool's counters do not stand in for those of a call that has answered before."""
    hccn = host("910b").chip(LIAR).hccn
    assert hccn is not None
    return without("packets", hccn=replace(hccn, statistics={}))


LARGER = [
    (HBM, "*", HBM, without("hbm")),
    (MULTI, "*", MULTI, without("multi_utilization")),
    ("dcmi_get_device_temperature", "*", "dcmi_get_device_temperature", without("temperature")),
    ("dcmi_get_device_health", "*", "dcmi_get_device_health", without("health")),
    ("dcmi_get_device_info", (8, 9), "dcmi_get_device_info[8,9]", without("throttle")),
    ("dcmi_get_device_ecc_info", 2, "dcmi_get_device_ecc_info[2]", without(ecc={})),
    ("dcmi_get_netdev_pkt_stats_info", "*", "dcmi_get_netdev_pkt_stats_info", without_packets()),
    ("dcmi_get_pcie_link_bandwidth_info", "*", "dcmi_get_pcie_link_bandwidth_info", without("pcie_bandwidth")),
]


@pytest.mark.parametrize("extra", [BEYOND, FAR_BEYOND])
@pytest.mark.parametrize(("function", "subtype", "call", "remaining"), LARGER, ids=[case[2] for case in LARGER])
def test_an_answer_larger_than_its_structure_is_not_believed(
    daemon: Daemon, function: str, subtype: Any, call: str, remaining: Scenario, extra: int
) -> None:
    """64 bytes more, as a newer driver's, or far more than the guard behind the buffer holds."""
    lie = host("910b").overrun(function, extra, logic=LIAR, subtype=subtype)
    not_believed(daemon, lie, truth(remaining), call)


def test_a_chip_all_of_whose_answers_are_too_large_is_down_and_leaves_the_others_alone(daemon: Daemon) -> None:
    """Nothing that it says is believed, so it does not count as answering; the worker goes on."""
    worker = daemon.worker
    others = {
        key: value for key, value in truth(host("910b")).items()
        if ("device_id", str(LIAR)) not in key[1] and key[0] not in ("npu_devices_seen", "npu_card_info")
    }  # fmt: skip
    down = series("npu_device_up", device_id=LIAR)
    with lying(daemon, host("910b").overrun("dcmi_get_*", BEYOND, logic=LIAR)):
        page = daemon.page_when(lambda page: page.values[down] == 0.0, "the liar is down", 5)
        assert others.items() <= page.values.items()
    assert daemon.worker == worker


# ---- process lists ----


def records(*processes: tuple[int, int]) -> bytes:
    """Process records as the library lays them out."""
    return b"".join(struct.pack("<i4xQ", pid, held) for pid, held in processes)


PIDS = [(5_000_000 + index, (1 + index) << 20) for index in range(64)]
"""Out of reach of real pids, so that none has a name."""


def test_records_behind_the_processes_that_are_counted_are_not_read(daemon: Daemon) -> None:
    """The library fills all 64 records whatever it counts: two processes are two, not 64."""
    lie = without(processes=PIDS[:2]).fill(PROCESSES, records(*PIDS), logic=LIAR)
    with lying(daemon, lie):
        daemon.page_when(is_page_of(without(processes=PIDS[:2])), "two processes are shown", 10)


def test_64_records_are_read_where_the_manual_says_32(daemon: Daemon) -> None:
    with lying(daemon, without(processes=PIDS)):
        daemon.page_when(is_page_of(without(processes=PIDS)), "all are counted, and the largest shown", 10)


def test_more_records_than_there_is_room_for_are_not_believed(daemon: Daemon) -> None:
    """64 records and 2 KB behind them: there is room for 128, and it is noticed that it did not do."""
    not_believed(daemon, host("910b").overrun(PROCESSES, 2048, logic=LIAR), truth(without("processes")), PROCESSES)


@pytest.mark.parametrize("count", [100, 128])
def test_a_count_of_more_processes_than_are_listed_counts_those_that_are(daemon: Daemon, count: int) -> None:
    """Two processes, and records of nothing behind them: the nothing is not shown, and it is counted as a lie."""
    lie = without(processes=PIDS[:2], process_count=count)
    not_believed(daemon, lie, truth(without(processes=PIDS[:2])), PROCESSES)


@pytest.mark.parametrize("count", [-1, -(2**31), 129, 2**31 - 1])
def test_a_count_of_processes_that_cannot_be_is_not_believed(daemon: Daemon, count: int) -> None:
    not_believed(daemon, without(process_count=count), truth(without("processes")), PROCESSES)


def test_memory_of_a_process_that_no_chip_has_is_not_shown(daemon: Daemon) -> None:
    """All ones is no number of bytes; the process is there all the same."""
    lie = without(processes=[PIDS[0], (PIDS[1][0], ALL_ONES_64)])
    remaining = truth(lie)
    del remaining[series("npu_process_hbm_used_bytes", device_id=LIAR, pid=PIDS[1][0], process="")]
    not_believed(daemon, lie, remaining, PROCESSES)


# ---- values that cannot be ----


def nonsense() -> Scenario:
    """A host whose liar answers all but health with what cannot be; of chip 5 it is health.

    The library lets utilisation above 100 through.
    """
    scenario = host("910b")
    scenario.raw_utilization = True
    chip = scenario.chip(LIAR)
    chip.multi_utilization = (255, 65535, 255, 101)
    chip.utilization |= dict.fromkeys(chip.utilization, 255) | {2: 65535, 3: ALL_ONES, 12: 101}
    chip.power, chip.temperature, chip.voltage = -1, 0x7FFE, ALL_ONES
    chip.frequencies = dict.fromkeys(chip.frequencies, ALL_ONES)
    chip.aicpu, chip.aicore = (ALL_ONES, ALL_ONES, 99), (ALL_ONES, ALL_ONES)
    chip.hbm = Hbm(ALL_ONES_64, ALL_ONES_64, ALL_ONES, 0x7FFE, 255)
    scenario.chip(5).health = 77
    chip.network_health, chip.boot_status = 255, 255
    chip.error_codes = [ALL_ONES]
    chip.throttle = ALL_ONES_64
    chip.llc = (101, 255, ALL_ONES)
    chip.ecc = {2: Ecc(7, *(ALL_ONES,) * 8)}
    chip.sensors |= dict.fromkeys(chip.sensors, 0x7FFE) | {11: 255}
    chip.rated_power = ALL_ONES
    chip.packets = dict.fromkeys(chip.packets, ALL_ONES_64) if isinstance(chip.packets, dict) else None
    chip.rdma_bandwidth = (ALL_ONES, ALL_ONES)
    chip.hccn = None  # or the tool would stand in where the library says nothing
    chip.hccs_status = (ALL_ONES, ALL_ONES)
    chip.hccs = HccsLinks(
        *((ALL_ONES_64,) * 16,) * 4, tx_gib_per_s=(math.nan,) * 8 + (-1.0,) * 8, rx_gib_per_s=(-math.inf,) * 16
    )
    return scenario


def sense() -> Scenario:
    """The same host without what cannot be. An empty list of faults is what is left of one that is no fault."""
    scenario = without(
        "multi_utilization", "power", "temperature", "voltage", "aicpu", "hbm", "network_health", "boot_status",
        "throttle", "llc", "rated_power", "packets", "rdma_bandwidth", "hccn", "hccs_status", "hccs",
        utilization={}, frequencies={}, ecc={}, error_codes=[], sensors={11: 255},
    )  # fmt: skip
    scenario.chip(5).health = None
    return scenario


@pytest.fixture(scope="module")
def mad(standin: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Observed:
    """A run on a host whose liar tells nothing but nonsense."""
    return observe(tmp_path_factory.mktemp("nonsense"), standin, nonsense())


def test_no_value_that_cannot_be_is_on_the_page(mad: Observed) -> None:
    """Percentages above 100, negative watts, all ones, not-a-number: absent, and the other chips as ever."""
    assert differences(of_the_chips(mad.page.values), truth(sense())) == []


@pytest.mark.parametrize(
    "call",
    [
        MULTI, HBM, "dcmi_get_device_utilization_rate[2]", "dcmi_get_device_utilization_rate[3]",
        "dcmi_get_device_power_info", "dcmi_get_device_temperature", "dcmi_get_device_voltage",
        "dcmi_get_device_frequency[7]", "dcmi_get_device_aicpu_info", "dcmi_get_device_health",
        "dcmi_get_device_network_health", "dcmi_get_device_boot_status", "dcmi_get_device_errorcode_v2",
        "dcmi_get_device_llc_perf_para", "dcmi_get_device_ecc_info[2]", "dcmi_get_device_sensor_info[13]",
        "dcmi_get_hccs_link_bandwidth_info",
    ],
)  # fmt: skip
def test_each_answer_that_cannot_be_is_counted(mad: Observed, call: str) -> None:
    """And goes on being counted."""
    assert 0 < rejections(mad.page, call) <= rejections(mad.later, call)


def test_more_hbm_in_use_than_there_is_makes_no_ratio(daemon: Daemon) -> None:
    """What is in use is not believed; size, clock and temperature are."""
    scenario = host("910b")
    hbm = scenario.chip(LIAR).hbm
    assert isinstance(hbm, Hbm)
    remaining = truth(scenario)
    for family in ("npu_hbm_used_bytes", "npu_hbm_utilization_ratio"):
        del remaining[series(family, device_id=LIAR)]
    not_believed(daemon, without(hbm=hbm._replace(used_mb=hbm.size_mb + 1)), remaining, HBM)


@pytest.mark.parametrize("ddr", [Ddr(ALL_ONES_64, 0), Ddr(16384, 16385), Ddr(0, 0)])
def test_ddr_whose_size_cannot_be_makes_no_ratio(standin: StandIn, tmp_path: Path, ddr: Ddr) -> None:
    """All ones of which nothing is free is not "full"; a 310P has DDR and no HBM."""
    lie = host("310p_duo")
    lie.chip(0).ddr = ddr
    with Daemon(tmp_path, standin, lie) as daemon:
        page = daemon.page_when(is_complete, "every lane of every device has reported")
    shown = {family: len(page.of(family)) for family in ("npu_ddr_used_bytes", "npu_ddr_utilization_ratio")}
    chips = len(lie.chips)
    assert shown == dict.fromkeys(shown, chips - 1)
    assert rejections(page, "dcmi_get_device_memory_info_v3") > 0


# ---- text ----

LONG = "x" * 4096
ODD_NAMES: dict[int, tuple[str | bytes, str]] = {
    0: (b"910B3\0and what was there before", "910B3"),
    1: (b"910B3" + b"y" * 40, "910B3" + "y" * 27),
    2: (b"910B3 \xff\xfe\xc3", "910B3 \ufffd\ufffd\ufffd"),
    3: ('91"0\\B3\n# HELP up\r\t\x1b[31m', '91"0\\B3# HELP up[31m'),
    4: ("昇腾 910B3\u202e\u200b", "昇腾 910B3"),
    5: (b"\n\n", ""),
}
"""By chip: what the driver calls it, and what is shown."""


@pytest.fixture(scope="module")
def odd_text(standin: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Observed:
    """A run on a host whose driver has odd names for everything, chip 6 one of 4 KB, in a structure of 132 bytes."""
    scenario = host("910b")
    for logic, (name, _) in ODD_NAMES.items():
        scenario.chip(logic).chip_name = name
    scenario.fill("dcmi_get_device_chip_info_v2", LONG.encode(), logic=6)
    scenario.overrun("dcmi_get_device_chip_info_v2", len(LONG), logic=6)
    chip = scenario.chip(7)
    chip.aicore_count, chip.vdie, chip.pcie = ALL_ONES, (ALL_ONES,) * 5, Pcie(bus=999)
    scenario.driver_version = '25"\\\n.2\0.0'
    scenario.cards[0].elabel_serial = b"\xff" * 256
    scenario.cards[1].elabel_serial = 'S"N\\\n1{a="b"} 5'
    return observe(tmp_path_factory.mktemp("text"), standin, scenario)


def names(page: Page) -> dict[int, str]:
    """Chip names by device id."""
    return {int(dict(labels)["device_id"]): dict(labels)["chip"] for labels in page.of("npu_device_info")}


def test_names_are_shown_without_what_cannot_be_printed(odd_text: Observed) -> None:
    """Up to the NUL or the end of the field, what is not UTF-8 replaced; quotes and backslashes are kept."""
    shown = names(odd_text.page)
    assert {logic: shown[logic] for logic in ODD_NAMES} == {logic: name for logic, (_, name) in ODD_NAMES.items()}


def test_a_name_of_4_kb_costs_the_name_and_not_the_chip(odd_text: Observed) -> None:
    """The older call, with the structure that is known, still has it."""
    assert names(odd_text.page)[6] == "910B3"
    assert set(odd_text.page.of("npu_device_up").values()) == {1.0}
    assert len(odd_text.page.of("npu_temperature_celsius")) == 8


def test_text_of_any_length_is_kept_short(odd_text: Observed) -> None:
    """A field of 256 bytes without an end gives 128 characters at most; no line is longer than a line should be."""
    serials = {dict(labels)["card_id"]: dict(labels)["serial_number"] for labels in odd_text.page.of("npu_card_info")}
    assert serials["0"] == "\ufffd" * 128
    assert serials["1"] == 'S"N\\1{a="b"} 5'
    assert [dict(labels)["driver_version"] for labels in odd_text.page.of("npu_driver_info")] == ['25"\\.2']


def test_an_identity_that_cannot_be_is_left_out(odd_text: Observed) -> None:
    """A die of all ones, a bus beyond 255, four billion AI Cores: the chip has its number and its values."""
    (info,) = [dict(labels) for labels in odd_text.page.of("npu_device_info") if ("device_id", "7") in labels]
    assert (info["uuid"], info["pci_address"]) == ("", "")
    assert series("npu_aicores", device_id=7) not in odd_text.page.values
    assert series("npu_temperature_celsius", device_id=7) in odd_text.page.values


def test_odd_text_says_the_same_in_both_formats(odd_text: Observed) -> None:
    """So neither parser of prometheus_client is misled by it."""
    assert differences(odd_text.openmetrics.values, odd_text.page.values) == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_a_page_with_odd_text(odd_text: Observed) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=odd_text.page.body, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


# ---- counters ----

WRAP = 1 << 32


def counting(low_word: int) -> Scenario:
    """A host whose liar's counters have only 32 bits, and stand at this; its HCCS counters are of an older driver."""
    scenario = host("910b")
    chip = scenario.chip(LIAR)
    flits = (low_word,) * 16
    chip.hccs = HccsLinks(
        flits, flits, (0,) * 16, (0,) * 16, tx_gib_per_s=(1.0,) * 16, rx_gib_per_s=(1.0,) * 16, subs=(3,)
    )
    chip.ecc = {2: Ecc(total_single=low_word)}
    chip.pcie_errors = (low_word,) * 5
    assert isinstance(chip.packets, dict)
    chip.packets |= {"roce_tx_all_pkt_num": low_word, "mac_rx_total_oct_num": low_word}
    return scenario


WRAPPING = (
    series("npu_hccs_tx_flits_total", device_id=LIAR, link=1),
    series("npu_ecc_errors_total", device_id=LIAR, memory="hbm", kind="single_bit"),
    series("npu_pcie_errors_total", device_id=LIAR, kind="tx"),
    series("npu_roce_packets_total", device_id=LIAR, direction="tx"),
    series("npu_network_bytes_total", device_id=LIAR, direction="rx"),
)


def increase(values: list[float]) -> float:
    """As Prometheus counts: a fall is a new beginning at 0."""
    return sum(after - before if after >= before else after for before, after in pairwise(values))


def test_a_counter_that_wraps_is_one_that_begins_anew(standin: StandIn, tmp_path: Path) -> None:
    """4294967291, then all ones, then 3: a few more, never some billions. All ones is shown, or nothing is."""
    seen: dict[Series, list[float]] = {key: [] for key in WRAPPING}

    def has_come_to(low_word: int) -> Callable[[Page], bool]:
        def holds(page: Page) -> bool:
            for key in WRAPPING:
                seen[key] += [page.values[key]] if key in page.values else []
            return all(page.values.get(key, ALL_ONES) == low_word for key in WRAPPING)

        return holds

    with Daemon(tmp_path, standin, counting(WRAP - 5)) as daemon:
        for low_word in (WRAP - 5, WRAP - 1, 3):
            daemon.put(counting(low_word))
            daemon.page_when(has_come_to(low_word), f"the counters are at {low_word}")
    assert {key: increase(values) for key, values in seen.items() if not 3 <= increase(values) <= 8} == {}


def test_a_counter_does_not_change_its_source_when_a_call_fails_for_a_while(daemon: Daemon) -> None:
    """When the 64-bit flit counters time out, the 32-bit ones that stand in for them on older drivers do not.

    They would fall by some billions, and jump up by as many when the others return.
    """
    flits = series("npu_hccs_tx_flits_total", device_id=LIAR, link=1)
    timeouts = series(CALLS, call="dcmi_get_device_info[16,5]", outcome="timeout")
    true, before = truth(host("910b"))[flits], daemon.scrape().values.get(timeouts, 0.0)
    with lying(daemon, host("910b").rc("dcmi_get_device_info", -8006, logic=LIAR, subtype=(16, 5))):
        page = daemon.page_when(lambda page: page.values.get(timeouts, 0.0) > before + 1, "it timed out twice")
        assert page.values.get(flits, true) == true


def test_a_counter_below_zero_is_not_a_huge_one(standin: StandIn, tmp_path: Path) -> None:
    """-2 in 64 bits, of a port of a 950: absent and counted, and the port's other counters are there."""
    lie = host("950")
    (udie, number), port = next(iter(lie.chip(0).ub_ports.items()))
    packets = {**port.packets, "crc_error_sum": ALL_ONES_64 - 1}
    lie.chip(0).ub_ports[udie, number] = port._replace(packets=packets)
    at = {"device_id": lie.chip(0).phy_id, "udie": udie, "port": number}
    remaining = truth(host("950"))
    del remaining[series("npu_ub_errors_total", kind="crc", **at)]
    with Daemon(tmp_path, standin, lie) as daemon:
        page = daemon.page_when(is_complete, "every lane of every device has reported")
    assert differences(of_the_chips(page.values), remaining) == []
    assert rejections(page, "dcmiv2_get_port_pkt_stats_info") > 0


def test_bandwidths_do_not_add_up_from_round_to_round(daemon: Daemon) -> None:
    """The library adds to the totals that it finds in the structure; each round begins with one of zeros."""
    rates = {
        key: value for key, value in truth(host("910b")).items() if key[0] == "npu_hccs_bandwidth_bytes_per_second"
    }
    call = series(CALLS, call="dcmi_get_hccs_link_bandwidth_info", outcome="ok")
    first = daemon.scrape()
    later = daemon.page_when(lambda page: page.values[call] >= first.values[call] + 3 * 8, "three more rounds", 15)
    assert {key: later.values[key] for key in rates} == rates


# ---- output ----

FLOOD_S, FAST_S = 4.0, 0.2
MIB = 1 << 20
ROUNDS = "npu_query_duration_seconds_count"
BINARY = bytes(byte for byte in range(256) if byte not in b"\n\r\v\f\x1c\x1d\x1e\x85") * 16
LINES = b"DrvMngGetConsoleLogLevel failed. (ret=4)\n" * 100


class Flooded(NamedTuple):
    """What a flood did to the daemon."""

    rounds: float
    """The fewest rounds that any chip had in `FLOOD_S`."""
    slowest_s: float
    """Of the pages that were read meanwhile."""
    grown: int
    """Bytes of memory."""
    logged: int
    """Bytes of log."""


@pytest.fixture(scope="module")
def flooded(standin: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], Flooded]:
    """What a library does that prints a MiB of this on each stream with every temperature of a chip."""
    return cache(lambda data: flood(tmp_path_factory.mktemp("flood"), standin, data))


def flood(directory: Path, standin: StandIn, data: bytes) -> Flooded:
    log = directory / "log"
    calls = 6  # in a fast round
    with Daemon(directory, standin, host("910b")) as daemon:
        daemon.page_when(is_complete, "every lane of every device has reported")
        before, resident, logged = daemon.scrape().of(ROUNDS), memory(daemon), log.stat().st_size
        daemon.put(host("910b").flood("dcmi_get_device_temperature", data, MIB // len(data), logic=LIAR))
        slowest_s = scrapes(daemon, FLOOD_S)
        after, grown = daemon.scrape().of(ROUNDS), memory(daemon) - resident
        daemon.put(host("910b"))
        rounds = min(after[chip] - before[chip] for chip in before) / calls
    return Flooded(rounds, slowest_s, grown, log.stat().st_size - logged)


def memory(daemon: Daemon) -> int:
    return int(psutil.Process(daemon.pid).memory_info().rss)


def scrapes(daemon: Daemon, for_s: float) -> float:
    """Read pages for a while; the seconds that the slowest took."""
    end, slowest_s = time.monotonic() + for_s, 0.0
    while (asked_at := time.monotonic()) < end:
        daemon.scrape()
        slowest_s = max(slowest_s, time.monotonic() - asked_at)
    return slowest_s


Flood = Callable[[bytes], Flooded]
floods = pytest.mark.parametrize("data", [BINARY, LINES], ids=["binary", "lines"])


@floods
def test_a_library_that_prints_megabytes_holds_nothing_up(flooded: Flood, data: bytes) -> None:
    """Its pipes are drained, so that no chip is read less often, and pages are answered as ever."""
    seen = flooded(data)
    assert (seen.rounds > FLOOD_S / FAST_S / 2, seen.slowest_s < 0.5) == (True, True), seen


@floods
def test_a_library_that_prints_megabytes_fills_no_memory(flooded: Flood, data: bytes) -> None:
    assert flooded(data).grown < 16 * MIB


@floods
def test_a_library_that_prints_megabytes_does_not_fill_the_log(flooded: Flood, data: bytes) -> None:
    """Some lines of it are told, and how much was not."""
    assert 0 < flooded(data).logged < MIB
