"""A driver without a driver: a server of Ascend 910B3 chips that is made up, for ``npumond run --simulate``.

It answers the calls of the DCMI driver and of hccn_tool under the same names, with the same fields in the vendor's
units and at the vendor's resolution, so that everything behind it is the real thing. Calls that this chip does not have
are not in the list.

Why figures change once a second: then all calls of a round speak of the same moment, and the memory and the processes
in it fit together, whatever the order in which the lanes ask.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from msgspec import Struct

from npumond.drivers.driver import Call, Scope
from npumond.drivers.simulated.chip import HBM_MB, LINKS, RATED_MHZ, RATED_WATTS, Chip, Moment
from npumond.drivers.simulated.load import SCENARIOS
from npumond.errors import DriverError
from npumond.model import CallOutcome, Device, DriverFacts, Lane, LogicId, PhyId, Reading

MAX_DEVICES = 64
"""As many cards as the vendor's own exporter believes in."""

PRODUCT = "Atlas 800T A2"
UNSUPPORTED = -8255

_BUSES = ("C1", "C2", "81", "82", "01", "02", "41", "42")
_GIB = 1 << 30
_FLIT_BYTES = 20
_PACKET_BYTES = 4158
"""A RoCE packet with 4096 bytes in it, on the wire."""
_OS_LIMIT_BYTES = 12 * _GIB


class SimulatedDriver:
    """A node of ``devices`` chips that act out a scenario; see `SCENARIOS` for their names.

    Same seed and same seconds since ``started_at`` give the same answers, in any process. ``started_at`` is a value of
    ``clock``, by default that of the moment of construction; hand it over where a new worker shall go on with the
    story. ``wall`` is what the chips take for the time of day. Raises `DriverError` for a scenario or a number of
    devices that there cannot be.
    """

    def __init__(
        self,
        scenario: str = "mixed",
        *,
        seed: int = 1,
        devices: int = 8,
        clock: Callable[[], float] = time.monotonic,
        started_at: float | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        roles = SCENARIOS.get(scenario)
        if roles is None:
            raise DriverError(f"no simulated scenario {scenario!r}; there are: {', '.join(SCENARIOS)}")
        if not 1 <= devices <= MAX_DEVICES:
            raise DriverError(f"cannot simulate {devices} devices; from 1 to {MAX_DEVICES} are possible")
        self._scenario = scenario
        self._clock = clock
        self._wall = wall
        self._started_at = clock() if started_at is None else started_at
        self._devices = tuple(_device(index, seed) for index in range(devices))
        self._chips = {
            device.phy_id: Chip(device, roles[index % len(roles)], seed) for index, device in enumerate(self._devices)
        }

    def open(self) -> DriverFacts:
        """Say what the made-up node has; nothing is loaded and nothing can fail."""
        return DriverFacts(
            backend="simulated",
            api="simulated",
            library=f"simulated:{self._scenario}",
            driver_version="25.2.0-simulated",
            dcmi_version="25.2.0-simulated",
            devices=self._devices,
        )

    def calls(self, device: Device) -> tuple[Call, ...]:
        """The calls of a 910B in a server; those of the node are the first chip's alone."""
        return tuple(row.call for row in _ROWS if row.call.scope != "node" or device.first_of_node)

    def call(self, device: Device, name: str) -> CallOutcome:
        """Answer one call. ``duration_s`` is made up as well: what the call would take on a chip, not what it took."""
        row, chip = _BY_NAME.get(name), self._chips.get(device.phy_id)
        if row is None or chip is None:
            return CallOutcome(name, "unsupported", UNSUPPORTED, 0.0)
        moment = chip.at(max(0, math.floor(self._clock() - self._started_at)))
        readings = self._system_time() if row.answer is None else row.answer(chip, moment)
        return CallOutcome(name, "ok", 0, _duration(row, chip, moment), readings)

    def _system_time(self) -> tuple[Reading, ...]:
        return (Reading("time", int(self._wall())),)


Answer = Callable[[Chip, Moment], tuple[Reading, ...]]


class _Row(Struct, frozen=True):
    call: Call
    answer: Answer | None
    """None for the wall clock, which is not the chip's to know."""
    typical_s: float


def _device(index: int, seed: int) -> Device:
    return Device(
        phy_id=PhyId(index),
        logic_id=LogicId(index),
        card_id=index,
        chip_id=0,
        chip="910B3",
        generation="910B",
        product=PRODUCT,
        uuid="-".join(
            f"{(seed * 0x9E3779B1 + index * 0x85EBCA6B + word * 0xC2B2AE35) & 0xFFFFFFFF:08X}" for word in range(5)
        ),
        pci_address=f"{index // len(_BUSES):04X}:{_BUSES[index % len(_BUSES)]}:00.0",
        aicore_count=20,
        first_of_node=index == 0,
    )


def _duration(row: _Row, chip: Chip, moment: Moment) -> float:
    """Seconds the call would take; a chip with a fault answers slowly, as sick ones do."""
    slowness = 6.0 if moment.codes else 1.0
    return row.typical_s * slowness * (1 + 0.4 * chip.jitter(6, moment.t))


def _percent(share: float) -> int:
    return max(0, min(100, round(share * 100)))


# Fast lane


def _multi_utilization(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    aicore = _percent(now.aicore)
    return (
        Reading("aic_util", _percent(now.cube)),
        Reading("aiv_util", _percent(now.vector)),
        Reading("aicore_util", aicore),
        Reading("npu_util", max(aicore, _percent(now.vector))),
    )


def _hbm_info(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (
        Reading("memory_size", HBM_MB),
        Reading("memory_usage", now.hbm_mb),
        Reading("memory_usage_ratio", now.hbm_mb / HBM_MB),
        Reading("freq", 1600),
        Reading("temp", _hbm_celsius(now)),
        Reading("bandwith_util_rate", _percent(now.bandwidth)),
    )


def _hbm_celsius(now: Moment) -> int:
    return round(now.celsius + 1 + 4 * now.bandwidth)


def _temperature(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("temperature", round(now.celsius)),)


def _power(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("power", round(now.watts * 10)),)


def _health(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("health", now.health),)


# Normal lane


def _voltage(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("voltage", 56 + round(34 * now.clock_mhz / RATED_MHZ)),)


def _aicore_clock(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("frequency", now.clock_mhz),)


def _aicpu_load(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("rate", _percent(0.09 * now.aicore + 0.01 * (1 + chip.jitter(7, now.t)))),)


def _ctrlcpu_load(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("rate", _percent(0.03 + 0.12 * now.aicore + 0.02 * chip.jitter(8, now.t))),)


def _resource_info(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    processes = chip.processes(now)
    return (
        Reading("proc_num", len(processes)),
        *(Reading("proc_mem_usage", process.hbm_bytes, (str(process.pid),)) for process in processes),
    )


def _errorcode(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return tuple(Reading("error_code", 1, (code,)) for code in now.codes)


def _reduction(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (
        Reading("reason", int(now.idle), ("idle",)),
        Reading("reason", int(now.throttled), ("thermal",)),
        *(Reading("reason", 0, (reason,)) for reason in _REASONS_NEVER_SEEN),
    )


_REASONS_NEVER_SEEN = ("sw_edp", "hw_edp", "power_break", "svfd", "power_capping", "load_aware")


def _llc(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    hits = 0.62 + 0.05 * chip.jitter(9, now.t) if now.aicore else 0.0
    return (
        Reading("rd_hit_rate", _percent(hits)),
        Reading("wr_hit_rate", _percent(hits * 0.8)),
        Reading("throughput", round(1.1e9 * now.bandwidth)),
    )


def _cgroup(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    used = 0.11 + 0.06 * now.aicore + 0.002 * chip.jitter(10, now.t)
    return (
        Reading("usage_in_bytes", int(used * _OS_LIMIT_BYTES) & ~0xFFF),
        Reading("limit_in_bytes", _OS_LIMIT_BYTES),
    )


# Slow lane


def _ecc(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    corrected, lifetime, double = now.t * (chip.key % 7) // 3600, chip.key % 41, chip.uncorrectable(now.t)
    return (
        Reading("enable_flag", 1),
        Reading("single_bit_error_cnt", corrected),
        Reading("double_bit_error_cnt", double),
        Reading("total_single_bit_error_cnt", lifetime + corrected),
        Reading("total_double_bit_error_cnt", double),
        Reading("single_bit_isolated_pages_cnt", 0),
        Reading("double_bit_isolated_pages_cnt", double),
    )


def _soc_sensor(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("temperature", round(now.celsius + 1 + 3 * now.cube)),)


def _optical_sensor(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("temperature", _optical_celsius(chip, now)),)


def _optical_celsius(chip: Chip, now: Moment) -> int:
    return round(36 + chip.key % 4 + 0.12 * (now.celsius - 30) + 3 * chip.traffic(now.t))


def _ndie_sensor(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("temperature", round(now.celsius)),)


def _hbm_sensor(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("temperature", _hbm_celsius(now)),)


def _elabel(chip: Chip, _now: Moment) -> tuple[Reading, ...]:
    serial = f"SIM{chip.key:08X}{chip.device.card_id:02d}"
    return (Reading("elabel", 1, (serial, PRODUCT, "simulated 910B3", "npumond")),)


def _network_health(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("healthy", int(now.link_up)),)


def _rdma_bandwidth(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    sent = chip.role.job.roce * chip.traffic(now.t) / 1e6
    return (
        Reading("tx_bandwidth", round(sent * (1 + 0.04 * chip.jitter(11, now.t)))),
        Reading("rx_bandwidth", round(sent * (1 + 0.04 * chip.jitter(12, now.t)))),
    )


def _packets(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    """All counters of the Ethernet port: RoCE traffic, and a little of everything else that a port sees."""
    roce = chip.bytes_so_far(chip.role.job.roce, now.t)
    other = 1900 * now.t
    link_ups = chip.link_ups(now.t)
    counts = {
        **_traffic_counts("tx", roce, other),
        **_traffic_counts("rx", 0.97 * roce, 1.4 * other),
        **_pfc_counts("tx", 2e-9 * roce),
        **_pfc_counts("rx", 5e-9 * roce),
        # Each time the port loses its light, some frames are cut in the middle.
        "mac_rx_bad_pkt_num": 3 * (link_ups - 1),
        "mac_rx_bad_oct_num": 900 * (link_ups - 1),
        "mac_rx_fcs_err_pkt_num": 3 * (link_ups - 1),
        "roce_cqe_num": roce / 1e6,
        "roce_err_psn_num": 1e-12 * roce,
        "roce_new_pkt_rty_num": 4e-12 * roce + 12 * (link_ups - 1),
        "roce_ecn_db_num": 1e-9 * roce,
    }
    return tuple(Reading(field, math.floor(counts.get(field, 0))) for field in _PACKET_FIELDS)


def _traffic_counts(way: str, roce: float, other: float) -> dict[str, float]:
    packets, more = roce / _PACKET_BYTES, other / 240
    return {
        f"mac_{way}_total_pkt_num": packets + more,
        f"mac_{way}_total_oct_num": roce + other,
        f"roce_{way}_rc_pkt_num": packets,
        f"roce_{way}_all_pkt_num": packets,
        f"roce_{way}_cnp_pkt_num": 1e-9 * roce,
        f"nic_{way}_all_pkg_num": more,
        f"nic_{way}_all_oct_num": other,
    }


def _pfc_counts(way: str, frames: float) -> dict[str, float]:
    """Priority 4 is where RoCE usually travels."""
    return {f"mac_{way}_pfc_pkt_num": frames, f"mac_{way}_pfc_pri4_pkt_num": frames}


_PACKET_FIELDS = (
    *(
        f"mac_{way}_{what}"
        for way in ("tx", "rx")
        for what in (
            "mac_pause_num",
            "pfc_pkt_num",
            *(f"pfc_pri{priority}_pkt_num" for priority in range(8)),
            "total_pkt_num",
            "total_oct_num",
            "bad_pkt_num",
            "bad_oct_num",
        )
    ),
    "mac_rx_fcs_err_pkt_num",
    *(f"roce_{way}_{what}_pkt_num" for way in ("rx", "tx") for what in ("rc", "all", "err", "cnp")),
    "roce_cqe_num",
    "roce_err_ack_num",
    "roce_err_psn_num",
    "roce_verification_err_num",
    "roce_err_qp_status_num",
    "roce_new_pkt_rty_num",
    "roce_ecn_db_num",
    *(f"nic_{way}_all_{what}_num" for way in ("tx", "rx") for what in ("pkg", "oct")),
)


def _pcie_bandwidth(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    rate = chip.role.job.pcie * chip.traffic(now.t) / 1e9
    window = (("min", 0.6), ("max", 1.5), ("avg", 1.0))
    return (
        *(
            Reading(field, round(rate * share * factor), (statistic,))
            for field, share in _PCIE_SHARES
            for statistic, factor in window
        ),
        *(Reading("tx_np_lantency", round(650 + 220 * rate * factor), (statistic,)) for statistic, factor in window),
    )


_PCIE_SHARES = (
    ("tx_p_bw", 0.7),
    ("tx_np_bw", 0.1),
    ("tx_cpl_bw", 0.2),
    ("rx_p_bw", 0.2),
    ("rx_np_bw", 0.1),
    ("rx_cpl_bw", 1.0),
)


def _hccs_bandwidth(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    rate = chip.role.job.hccs * chip.traffic(now.t) / _GIB
    ways = tuple((f"{way}_bandwidth", rate * (1 + 0.04 * chip.jitter(stream, now.t))) for way, stream in _WAYS)
    return tuple(Reading(field, round(gib * share, 3), (link,)) for link, share in _LINK_SHARES for field, gib in ways)


_WAYS = (("tx", 20), ("rx", 21))
_LINK_SHARES = tuple((link, 1 - 0.015 * index) for index, link in enumerate(LINKS))
"""The links of a mesh do nearly, not quite, the same work."""


def _hccs_lanes(_chip: Chip, _now: Moment) -> tuple[Reading, ...]:
    return tuple(Reading("lanes", 4, (link,)) for link in LINKS)


def _hccs_flits(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    flits = chip.bytes_so_far(chip.role.job.hccs, now.t) / _FLIT_BYTES
    return tuple(
        Reading(field, math.floor(flits * share * factor), (link,))
        for link, share in _LINK_SHARES
        for field, factor in (("tx_cnt", 1.0), ("rx_cnt", 0.99), ("crc_err_cnt", 0.0), ("retry_cnt", 1e-12))
    )


def _pcie_errors(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    """Nothing but the retry that a good link sees now and then."""
    retries = now.t * (chip.key % 3) // 7200
    quiet = ("tx_err_cnt", "rx_err_cnt", "lcrc_err_cnt", "ecrc_err_cnt")
    return (*(Reading(field, 0) for field in quiet), Reading("retry_cnt", retries))


# hccn_tool


def _link(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("up", int(now.link_up)),)


def _speed(_chip: Chip, now: Moment) -> tuple[Reading, ...]:
    """200 Gbit/s; a port that is down has agreed on no speed."""
    return (Reading("speed", 200_000),) if now.link_up else ()


def _link_stat(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    return (Reading("link_up_count", chip.link_ups(now.t)),)


def _optical(chip: Chip, now: Moment) -> tuple[Reading, ...]:
    """A module with four lanes; where the link is down it sends, but sees no light."""
    lanes = tuple((str(lane), 0.01 * (chip.key >> 2 * lane & 7)) for lane in range(4))
    light = 0.88 if now.link_up else 0.0
    return (
        Reading("present", 1),
        Reading("temperature", _optical_celsius(chip, now)),
        Reading("Vcc", round(3290 + 6 * chip.jitter(13, now.t), 2)),
        *(Reading("Tx_Power", round(1.05 + spread, 4), (lane,)) for lane, spread in lanes),
        *(Reading("Rx_Power", round(light * (1 + spread), 4), (lane,)) for lane, spread in lanes),
    )


def _fixed(*readings: Reading) -> Answer:
    """An answer that is the same for every chip and at any time."""
    return lambda _chip, _now: readings


def _row(name: str, lane: Lane, answer: Answer | None, typical_s: float = 0.0006, scope: Scope = "device") -> _Row:
    return _Row(Call(name=name, lane=lane, scope=scope), answer, typical_s)


_ROWS = (
    _row("dcmi_get_device_multi_utilization_rate", "fast", _multi_utilization, 0.0011),
    _row("dcmi_get_device_hbm_info", "fast", _hbm_info),
    _row("dcmi_get_device_temperature", "fast", _temperature, 0.0004),
    _row("dcmi_get_device_power_info", "fast", _power, 0.0008),
    _row("dcmi_get_device_health", "fast", _health, 0.0003),
    _row("dcmi_get_device_voltage", "normal", _voltage),
    _row("dcmi_get_device_frequency[7]", "normal", _aicore_clock),
    _row("dcmi_get_device_frequency[9]", "normal", _fixed(Reading("frequency", RATED_MHZ))),
    _row("dcmi_get_device_frequency[2]", "normal", _fixed(Reading("frequency", 2000))),
    _row("dcmi_get_device_aicpu_info", "normal", _fixed(Reading("cur_freq", 2000))),
    _row("dcmi_get_device_utilization_rate[3]", "normal", _aicpu_load),
    _row("dcmi_get_device_utilization_rate[4]", "normal", _ctrlcpu_load),
    _row("dcmi_get_device_resource_info", "normal", _resource_info, 0.002),
    _row("dcmi_get_device_errorcode_v2", "normal", _errorcode),
    _row("dcmi_get_device_info[8,9]", "normal", _reduction),
    _row("dcmi_get_device_llc_perf_para", "normal", _llc),
    _row("dcmi_get_device_cgroup_info", "normal", _cgroup),
    _row("dcmi_get_device_ecc_info[2]", "slow", _ecc),
    _row("dcmi_get_device_sensor_info[11]", "slow", _soc_sensor),
    _row("dcmi_get_device_sensor_info[12]", "slow", _optical_sensor, 0.008),
    _row("dcmi_get_device_sensor_info[13]", "slow", _ndie_sensor),
    _row("dcmi_get_device_sensor_info[14]", "slow", _hbm_sensor),
    _row("dcmi_get_card_elabel_v2", "slow", _elabel, 0.05, "card"),
    _row("dcmi_get_device_boot_status", "slow", _fixed(Reading("status", 16))),
    _row("dcmi_get_device_system_time", "slow", None),
    _row("dcmi_get_driver_health", "slow", _fixed(Reading("health", 0)), scope="node"),
    _row("dcmi_get_device_info[8,10]", "slow", _fixed(Reading("rated_power", RATED_WATTS * 1000))),
    _row("dcmi_get_device_info[16,0]", "slow", _fixed(Reading("healthy", 1))),
    _row("dcmi_get_device_info[16,1]", "slow", _hccs_lanes),
    _row("dcmi_get_device_info[16,5]", "slow", _hccs_flits),
    _row("dcmi_get_device_info[55,1]", "slow", _pcie_errors),
    _row("dcmi_get_device_network_health", "slow", _network_health, 0.003),
    _row("dcmi_get_netdev_pkt_stats_info", "slow", _packets, 0.003),
    _row("dcmi_get_rdma_bandwidth_info", "slow", _rdma_bandwidth, 0.1),
    _row("dcmi_get_pcie_link_bandwidth_info", "slow", _pcie_bandwidth, 0.1),
    _row("dcmi_get_hccs_link_bandwidth_info", "slow", _hccs_bandwidth, 0.1),
    _row("hccn_tool -link", "tool", _link, 0.03),
    _row("hccn_tool -speed", "tool", _speed, 0.03),
    _row("hccn_tool -link_stat", "tool", _link_stat, 0.03),
    _row("hccn_tool -optical", "tool", _optical, 0.06),
)
_BY_NAME = {row.call.name: row for row in _ROWS}
