"""The one table of metrics: a metric is a row here, and nowhere else.

Pages, README tables, rules and the reading of driver values are made from these rows or tested against them.

A row that has ``sources`` is filled from vendor calls: `From` names the row of the driver's call table, the field in
what it returns, and how the vendor's unit becomes the base unit. The first source that gives a value wins. Rows
without sources are filled by the source named in ``origin``.

Units: bytes (the vendor's MB and KB are binary), ratios from 0 to 1, seconds, watts, volts, hertz, celsius.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from npumond.model import Group

Kind = Literal["gauge", "counter", "histogram", "info"]
"""``info`` is a gauge that is always 1 and carries its facts as labels."""

Scale = tuple[int, int]
"""Multiplier and divisor; both whole, so that 739 tenths of a watt are 73.9 and not 73.90000000000001."""

ONE: Scale = (1, 1)
PERCENT: Scale = (1, 100)
MEBI: Scale = (1 << 20, 1)
KIBI: Scale = (1 << 10, 1)
GIBI: Scale = (1 << 30, 1)
MEGA: Scale = (10**6, 1)
MEGABIT: Scale = (125_000, 1)
"""Megabits, in bytes."""
TENTH: Scale = (1, 10)
HUNDREDTH: Scale = (1, 100)
MILLI: Scale = (1, 1000)
NANO: Scale = (1, 10**9)
MB_PER_MS: Scale = (10**9, 1)
"""Taken as decimal megabytes, as bus rates are; the vendor does not say which (reference, section 9)."""


class From(Struct, frozen=True):
    """Where in a vendor call's answer a value is found, and how it becomes the base unit."""

    call: str
    """Row of the driver's call table, for instance ``dcmi_get_device_utilization_rate[2]``."""
    field: str
    scale: Scale = ONE
    fixed: tuple[str, ...] = ()
    """Label values that this source always has, placed before the reading's own key."""


class Family(Struct, frozen=True, kw_only=True):
    """One metric family."""

    name: str
    """Full name, ``_total`` included for counters."""
    kind: Kind = "gauge"
    help: str
    labels: tuple[str, ...] = ("device_id",)
    group: Group
    origin: str = "npu"
    """The source that fills it: npu, self, host, process, inference, rules, workloads, http."""
    sources: tuple[From, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets in the family's unit, without +Inf."""
    alias: bool = False
    """An additional name for something that has a better one; ``metrics.aliases: false`` leaves it out."""

    @property
    def unit(self) -> str:
        """Base unit by the name's suffix, as OpenMetrics wants it; empty when the name has none."""
        stem = self.name.removesuffix("_total")
        return next((unit for unit in UNITS if stem.endswith("_" + unit)), "")


UNITS = (
    "bytes_per_second",
    "seconds",
    "bytes",
    "celsius",
    "watts",
    "joules",
    "volts",
    "hertz",
    "ratio",
    "decibels",
)

QUERY_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
ROUNDTRIP_BUCKETS = (2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.5)
REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_UTIL = "dcmi_get_device_utilization_rate"
_MULTI = "dcmi_get_device_multi_utilization_rate"
_ACL_UTIL = "aclrtGetDeviceUtilizationRate"
_HBM = "dcmi_get_device_hbm_info"
_DDR = "dcmi_get_device_memory_info_v3"
_FREQ = "dcmi_get_device_frequency"
_ECC = "dcmi_get_device_ecc_info"
_INFO = "dcmi_get_device_info"
_PACKETS = "dcmi_get_netdev_pkt_stats_info"
_STAT = "hccn_tool -stat"
_OPTICAL = "hccn_tool -optical"
_PCIE = "dcmi_get_pcie_link_bandwidth_info"
_HCCS = "dcmi_get_hccs_link_bandwidth_info"
_UB = "dcmiv2_get_port_pkt_stats_info"


def _flits(field: str) -> tuple[From, ...]:
    """Wide HCCS counters first, the 32-bit ones of older drivers where those are missing."""
    return From(f"{_INFO}[16,5]", field), From(f"{_INFO}[16,3]", field)


def _roce(field: str, tool_key: str = "", *fixed: str) -> tuple[From, ...]:
    """A network counter: from DCMI, or from hccn_tool where DCMI has no answer."""
    return From(_PACKETS, field, fixed=fixed), From(_STAT, tool_key or field, fixed=fixed)


def _ecc(field: str, kind: str) -> tuple[From, ...]:
    return From(f"{_ECC}[2]", field, fixed=("hbm", kind)), From(f"{_ECC}[0]", field, fixed=("ddr", kind))


_IDENTITY = (
    Family(
        name="npu_device_info",
        kind="info",
        labels=("device_id", "logic_id", "card_id", "chip_id", "uuid", "chip", "product", "pci_address"),
        group="slow",
        help="Identity of the chip; device_id is its physical number in the server.",
    ),
    Family(
        name="npu_driver_info",
        kind="info",
        labels=("driver_version", "dcmi_version", "api"),
        group="slow",
        help="Versions of the driver and of its management library, and the API family in use.",
    ),
    Family(
        name="npu_card_info",
        kind="info",
        labels=("card_id", "serial_number", "product_name", "model", "manufacturer"),
        group="slow",
        help="Electronic label of the card.",
        sources=(From("dcmi_get_card_elabel_v2", "elabel"),),
    ),
    Family(
        name="npu_superpod_info",
        kind="info",
        labels=("device_id", "superpod_id", "server_index", "superpod_device_id", "chassis_id"),
        group="slow",
        help="Place of the chip in its super pod.",
        sources=(From(f"{_INFO}[12,1]", "spod"),),
    ),
    Family(
        name="npu_device_up", group="fast", help="Whether the chip answers: 0 when it is lost, hung or failed at init."
    ),
    Family(
        name="npu_devices_expected",
        labels=(),
        group="slow",
        help="Chips that the driver's card list promises, answering or not.",
    ),
    Family(name="npu_devices_seen", labels=(), group="slow", help="Chips that answer."),
    Family(
        name="npu_aicores",
        group="slow",
        help="AI Cores of the chip that are enabled.",
    ),
    Family(
        name="npu_boot_status",
        group="slow",
        help="Boot stage of the chip: 0 none, 1 BIOS, 2 OS, 3 finishing, 16 started.",
        sources=(From("dcmi_get_device_boot_status", "status"),),
    ),
    Family(
        name="npu_clock_seconds",
        group="slow",
        help="Wall clock of the chip's own operating system in Unix seconds.",
        sources=(From("dcmi_get_device_system_time", "time"),),
    ),
)

_COMPUTE = (
    Family(
        name="npu_aicore_utilization_ratio",
        group="fast",
        help="Share of time in which the AI Cores were busy. Reads 0 while a profiler runs on the chip.",
        sources=(
            From(_MULTI, "aicore_util", PERCENT),
            From(f"{_UTIL}[2]", "rate", PERCENT),
            From(_ACL_UTIL, "cubeUtilization", PERCENT),
        ),
    ),
    Family(
        name="npu_cube_utilization_ratio",
        group="fast",
        help="Share of time in which the Cube (matrix) units were busy.",
        sources=(From(_MULTI, "aic_util", PERCENT), From(f"{_UTIL}[14]", "rate", PERCENT)),
    ),
    Family(
        name="npu_vector_utilization_ratio",
        group="fast",
        help="Share of time in which the Vector cores were busy.",
        sources=(
            From(_MULTI, "aiv_util", PERCENT),
            From(f"{_UTIL}[12]", "rate", PERCENT),
            From(_ACL_UTIL, "vectorUtilization", PERCENT),
        ),
    ),
    Family(
        name="npu_overall_utilization_ratio",
        group="fast",
        help="Utilisation of the chip as a whole, as the driver sums it up.",
        sources=(From(_MULTI, "npu_util", PERCENT), From(f"{_UTIL}[13]", "rate", PERCENT)),
    ),
    Family(
        name="npu_aicpu_utilization_ratio",
        group="normal",
        help="Utilisation of the AI CPUs.",
        sources=(From(f"{_UTIL}[3]", "rate", PERCENT), From(_ACL_UTIL, "aicpuUtilization", PERCENT)),
    ),
    Family(
        name="npu_ctrlcpu_utilization_ratio",
        group="normal",
        help="Utilisation of the control CPUs.",
        sources=(From(f"{_UTIL}[4]", "rate", PERCENT),),
    ),
    Family(
        name="npu_dvpp_utilization_ratio",
        labels=("device_id", "engine"),
        group="normal",
        help="Utilisation of the media engines.",
        sources=tuple(
            From("dcmi_get_device_dvpp_ratio_info", f"{engine}_ratio", PERCENT, (engine,))
            for engine in ("vdec", "vpc", "venc", "jpege", "jpegd")
        ),
    ),
    Family(
        name="npu_aicore_frequency_hertz",
        group="normal",
        help="Current clock of the AI Cores.",
        sources=(From(f"{_FREQ}[7]", "frequency", MEGA), From("dcmi_get_device_aicore_info", "cur_freq", MEGA)),
    ),
    Family(
        name="npu_aicore_rated_frequency_hertz",
        group="normal",
        help="Rated clock of the AI Cores.",
        sources=(From(f"{_FREQ}[9]", "frequency", MEGA), From("dcmi_get_device_aicore_info", "freq", MEGA)),
    ),
    Family(
        name="npu_vector_frequency_hertz",
        group="normal",
        help="Current clock of the Vector cores.",
        sources=(From(f"{_FREQ}[12]", "frequency", MEGA),),
    ),
    Family(
        name="npu_ctrlcpu_frequency_hertz",
        group="normal",
        help="Clock of the control CPUs.",
        sources=(From(f"{_FREQ}[2]", "frequency", MEGA),),
    ),
    Family(
        name="npu_aicpu_frequency_hertz",
        group="normal",
        help="Current clock of the AI CPUs.",
        sources=(From("dcmi_get_device_aicpu_info", "cur_freq", MEGA),),
    ),
    Family(
        name="npu_throttled",
        labels=("device_id", "reason"),
        group="normal",
        help="Whether the AI Core clock is below its rating for this reason.",
        sources=(From(f"{_INFO}[8,9]", "reason"),),
    ),
    Family(
        name="npu_llc_hit_ratio",
        labels=("device_id", "direction"),
        group="normal",
        help="Hit rate of the last-level cache.",
        sources=(
            From("dcmi_get_device_llc_perf_para", "rd_hit_rate", PERCENT, ("read",)),
            From("dcmi_get_device_llc_perf_para", "wr_hit_rate", PERCENT, ("write",)),
        ),
    ),
    Family(
        name="npu_llc_throughput_bytes_per_second",
        group="normal",
        help="Throughput of the last-level cache.",
        sources=(From("dcmi_get_device_llc_perf_para", "throughput", KIBI),),
    ),
)

_MEMORY = (
    Family(
        name="npu_hbm_used_bytes",
        group="fast",
        help="HBM in use, by the driver's count; some gigabytes are in use on an idle chip.",
        sources=(From(_HBM, "memory_usage", MEBI),),
    ),
    Family(
        name="npu_hbm_total_bytes",
        group="fast",
        help="HBM of the chip.",
        sources=(From(_HBM, "memory_size", MEBI), From("aclrtGetDeviceInfo[301]", "value")),
    ),
    Family(
        name="npu_hbm_utilization_ratio",
        group="fast",
        help="HBM in use, as a share of its size.",
        sources=(From(_HBM, "memory_usage_ratio"),),
    ),
    Family(
        name="npu_hbm_bandwidth_utilization_ratio",
        group="fast",
        help="Share of the HBM bandwidth in use.",
        sources=(From(_HBM, "bandwith_util_rate", PERCENT),),
    ),
    Family(
        name="npu_hbm_temperature_celsius",
        group="fast",
        help="Temperature of the HBM.",
        sources=(From(_HBM, "temp"),),
    ),
    Family(
        name="npu_hbm_frequency_hertz",
        group="fast",
        help="Clock of the HBM.",
        sources=(From(_HBM, "freq", MEGA),),
    ),
    Family(
        name="npu_ddr_used_bytes",
        group="fast",
        help="DDR memory of the chip in use: its size less what is available.",
        sources=(From(_DDR, "memory_used", MEBI),),
    ),
    Family(
        name="npu_ddr_total_bytes",
        group="fast",
        help="DDR memory of the chip.",
        sources=(From(_DDR, "memory_size", MEBI),),
    ),
    Family(
        name="npu_ddr_utilization_ratio",
        group="fast",
        help="DDR memory in use, as a share of its size.",
        sources=(From(_DDR, "memory_used_ratio"),),
    ),
    Family(
        name="npu_ddr_frequency_hertz",
        group="fast",
        help="Clock of the DDR memory.",
        sources=(From(_DDR, "freq", MEGA),),
    ),
    Family(
        name="npu_ddr_bandwidth_utilization_ratio",
        group="normal",
        help="Share of the DDR bandwidth in use.",
        sources=(From(f"{_UTIL}[5]", "rate", PERCENT),),
    ),
    Family(
        name="npu_hugepages",
        group="fast",
        help="Huge pages of the chip's memory.",
        sources=(From(_DDR, "hugepages_total"),),
    ),
    Family(
        name="npu_hugepages_free",
        group="fast",
        help="Huge pages of the chip's memory that are free.",
        sources=(From(_DDR, "hugepages_free"),),
    ),
    Family(
        name="npu_hugepage_size_bytes",
        group="fast",
        help="Size of one huge page of the chip's memory.",
        sources=(From(_DDR, "hugepagesize", KIBI),),
    ),
    Family(
        name="npu_os_memory_usage_bytes",
        group="normal",
        help="Memory in use by the chip's own operating system's control group.",
        sources=(From("dcmi_get_device_cgroup_info", "usage_in_bytes"),),
    ),
    Family(
        name="npu_os_memory_limit_bytes",
        group="normal",
        help="Memory limit of the chip's own operating system's control group.",
        sources=(From("dcmi_get_device_cgroup_info", "limit_in_bytes"),),
    ),
)

_POWER = (
    Family(
        name="npu_temperature_celsius",
        group="fast",
        help="Temperature of the chip.",
        sources=(From("dcmi_get_device_temperature", "temperature"),),
    ),
    Family(
        name="npu_sensor_temperature_celsius",
        labels=("device_id", "sensor"),
        group="slow",
        help="Temperatures of single sensors: soc (hottest of the SoC), ndie, optical (module), hbm, ntc0 to ntc3.",
        sources=(
            From("dcmi_get_device_sensor_info[11]", "temperature", fixed=("soc",)),
            From("dcmi_get_device_sensor_info[12]", "temperature", fixed=("optical",)),
            From("dcmi_get_device_sensor_info[13]", "temperature", fixed=("ndie",)),
            From("dcmi_get_device_sensor_info[14]", "temperature", fixed=("hbm",)),
            From("dcmi_get_device_sensor_info[10]", "temperature"),
        ),
    ),
    Family(
        name="npu_power_watts",
        group="fast",
        help="Power drawn by the chip. On A3 the first die speaks for both; 310 and 310P have the card's figure only.",
        sources=(From("dcmi_get_device_power_info", "power", TENTH),),
    ),
    Family(
        name="npu_board_power_watts",
        labels=("card_id",),
        group="normal",
        help="Power drawn by the whole card, from its management controller (310, 310P).",
        sources=(From("dcmi_mcu_get_power_info", "power", TENTH),),
    ),
    Family(
        name="npu_rated_power_watts",
        group="slow",
        help="Rated power of the SoC; the vendor's unit is taken as milliwatts by its range.",
        sources=(From(f"{_INFO}[8,10]", "rated_power", MILLI),),
    ),
    Family(
        name="npu_energy_joules_total",
        kind="counter",
        group="fast",
        help="Energy drawn since the daemon started: the integral of npu_power_watts while it was known.",
    ),
    Family(
        name="npu_voltage_volts",
        group="normal",
        help="Supply voltage of the chip.",
        sources=(From("dcmi_get_device_voltage", "voltage", HUNDREDTH),),
    ),
)

_HEALTH = (
    Family(
        name="npu_health_status",
        group="fast",
        help="Health by the driver's word: 0 ok, 1 minor, 2 major, 3 critical. Unknown is absent.",
        sources=(From("dcmi_get_device_health", "health"),),
    ),
    Family(
        name="npu_fault_active",
        labels=("device_id", "code", "severity"),
        group="normal",
        help="1 while the fault code (eight hexadecimal digits) is active on the chip.",
        sources=(From("dcmi_get_device_errorcode_v2", "error_code"),),
    ),
    Family(
        name="npu_driver_health_status",
        labels=(),
        group="slow",
        help="Health of the host's driver: 0 ok, 1 minor, 2 major, 3 critical. Unknown is absent.",
        sources=(From("dcmi_get_driver_health", "health"),),
    ),
    Family(
        name="npu_ecc_errors_total",
        kind="counter",
        labels=("device_id", "memory", "kind"),
        group="slow",
        help="ECC errors over the life of the memory; single_bit ones were corrected.",
        sources=(*_ecc("total_single_bit_error_cnt", "single_bit"), *_ecc("total_double_bit_error_cnt", "double_bit")),
    ),
    Family(
        name="npu_ecc_errors_since_reset",
        labels=("device_id", "memory", "kind"),
        group="slow",
        help="ECC errors since the chip was last reset.",
        sources=(*_ecc("single_bit_error_cnt", "single_bit"), *_ecc("double_bit_error_cnt", "double_bit")),
    ),
    Family(
        name="npu_ecc_isolated_pages",
        labels=("device_id", "memory", "kind"),
        group="slow",
        help="Memory pages isolated after ECC errors.",
        sources=(
            *_ecc("single_bit_isolated_pages_cnt", "single_bit"),
            *_ecc("double_bit_isolated_pages_cnt", "double_bit"),
        ),
    ),
    Family(
        name="npu_ecc_enabled",
        labels=("device_id", "memory"),
        group="slow",
        help="Whether ECC is on.",
        sources=(From(f"{_ECC}[2]", "enable_flag", fixed=("hbm",)), From(f"{_ECC}[0]", "enable_flag", fixed=("ddr",))),
    ),
)

_PROCESSES = (
    Family(
        name="npu_processes",
        group="normal",
        help="Processes that use the chip.",
        sources=(From("dcmi_get_device_resource_info", "proc_num"),),
    ),
    Family(
        name="npu_process_hbm_used_bytes",
        labels=("device_id", "pid", "process"),
        group="normal",
        help="Memory of the chip held by a process; the largest ones of each chip, by pid on the host.",
        sources=(From("dcmi_get_device_resource_info", "proc_mem_usage"),),
    ),
    Family(
        name="npu_vnpu_aicore_utilization_ratio",
        labels=("device_id", "vdev_id"),
        group="slow",
        help="AI Core utilisation of a virtual NPU cut from the chip.",
        sources=(From(f"{_INFO}[52,5]", "vdev_aicore_utilization", PERCENT),),
    ),
    Family(
        name="npu_vnpu_memory_total_bytes",
        labels=("device_id", "vdev_id"),
        group="slow",
        help="Memory of a virtual NPU cut from the chip.",
        sources=(From(f"{_INFO}[52,5]", "vdev_memory_total", KIBI),),
    ),
    Family(
        name="npu_vnpu_memory_free_bytes",
        labels=("device_id", "vdev_id"),
        group="slow",
        help="Memory of a virtual NPU that is free.",
        sources=(From(f"{_INFO}[52,5]", "vdev_memory_free", KIBI),),
    ),
)

_LINKS = (
    Family(
        name="npu_network_healthy",
        group="slow",
        help="Whether the chip's network port passes the driver's health check.",
        sources=(From("dcmi_get_device_network_health", "healthy"),),
    ),
    Family(
        name="npu_link_up",
        labels=("device_id", "link"),
        group="slow",
        help="Whether the link is up: roce (the chip's Ethernet port), ub0 to ub35 (UB ports that exist).",
        sources=(From("hccn_tool -link", "up", fixed=("roce",)), From("dcmiv2_get_ub_port_link_status", "up")),
    ),
    Family(
        name="npu_link_speed_bytes_per_second",
        labels=("device_id", "link"),
        group="slow",
        help="Negotiated speed of the link.",
        sources=(From("hccn_tool -speed", "speed", MEGABIT, ("roce",)),),
    ),
    Family(
        name="npu_link_up_changes_total",
        kind="counter",
        labels=("device_id", "link"),
        group="slow",
        help="How often the link came up.",
        sources=(From("hccn_tool -link_stat", "link_up_count", fixed=("roce",)),),
    ),
    Family(
        name="npu_roce_bandwidth_bytes_per_second",
        labels=("device_id", "direction"),
        group="slow",
        help="Traffic of the chip's Ethernet port over the driver's own window.",
        sources=(
            From("dcmi_get_rdma_bandwidth_info", "tx_bandwidth", MEGA, ("tx",)),
            From("hccn_tool -bandwidth", "tx_bandwidth", MEGA, ("tx",)),
            From("dcmi_get_rdma_bandwidth_info", "rx_bandwidth", MEGA, ("rx",)),
            From("hccn_tool -bandwidth", "rx_bandwidth", MEGA, ("rx",)),
        ),
    ),
    Family(
        name="npu_network_pause_frames_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="Ethernet pause frames.",
        sources=(*_roce("mac_tx_mac_pause_num", "", "tx"), *_roce("mac_rx_mac_pause_num", "", "rx")),
    ),
    Family(
        name="npu_network_pfc_frames_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="Priority flow control frames.",
        sources=(*_roce("mac_tx_pfc_pkt_num", "", "tx"), *_roce("mac_rx_pfc_pkt_num", "", "rx")),
    ),
    Family(
        name="npu_network_pfc_priority_frames_total",
        kind="counter",
        labels=("device_id", "direction", "priority"),
        group="slow",
        help="Priority flow control frames of one priority.",
        sources=tuple(
            From(_PACKETS, f"mac_{way}_pfc_pri{priority}_pkt_num", fixed=(way, str(priority)))
            for way in ("tx", "rx")
            for priority in range(8)
        ),
    ),
    Family(
        name="npu_network_packets_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="Packets through the MAC of the chip's Ethernet port.",
        sources=(*_roce("mac_tx_total_pkt_num", "", "tx"), *_roce("mac_rx_total_pkt_num", "", "rx")),
    ),
    Family(
        name="npu_network_bytes_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="Bytes through the MAC of the chip's Ethernet port.",
        sources=(*_roce("mac_tx_total_oct_num", "", "tx"), *_roce("mac_rx_total_oct_num", "", "rx")),
    ),
    Family(
        name="npu_network_bad_packets_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="Bad packets at the MAC of the chip's Ethernet port.",
        sources=(*_roce("mac_tx_bad_pkt_num", "", "tx"), *_roce("mac_rx_bad_pkt_num", "", "rx")),
    ),
    Family(
        name="npu_network_bad_bytes_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="Bytes of bad packets at the MAC of the chip's Ethernet port.",
        sources=(*_roce("mac_tx_bad_oct_num", "", "tx"), *_roce("mac_rx_bad_oct_num", "", "rx")),
    ),
    Family(
        name="npu_network_fcs_errors_total",
        kind="counter",
        group="slow",
        help="Received packets with a wrong frame check sequence.",
        sources=_roce("mac_rx_fcs_err_pkt_num"),
    ),
    Family(
        name="npu_nic_packets_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="Packets of the chip's Ethernet port outside RoCE.",
        sources=(*_roce("nic_tx_all_pkg_num", "", "tx"), *_roce("nic_rx_all_pkg_num", "", "rx")),
    ),
    Family(
        name="npu_nic_bytes_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="Bytes of the chip's Ethernet port outside RoCE.",
        sources=(*_roce("nic_tx_all_oct_num", "", "tx"), *_roce("nic_rx_all_oct_num", "", "rx")),
    ),
    Family(
        name="npu_roce_packets_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="RoCE packets.",
        sources=(*_roce("roce_tx_all_pkt_num", "", "tx"), *_roce("roce_rx_all_pkt_num", "", "rx")),
    ),
    Family(
        name="npu_roce_rc_packets_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="RoCE packets of reliable connections.",
        sources=(*_roce("roce_tx_rc_pkt_num", "", "tx"), *_roce("roce_rx_rc_pkt_num", "", "rx")),
    ),
    Family(
        name="npu_roce_error_packets_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="RoCE packets with errors.",
        sources=(*_roce("roce_tx_err_pkt_num", "", "tx"), *_roce("roce_rx_err_pkt_num", "", "rx")),
    ),
    Family(
        name="npu_roce_cnp_packets_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="RoCE congestion notification packets.",
        sources=(*_roce("roce_tx_cnp_pkt_num", "", "tx"), *_roce("roce_rx_cnp_pkt_num", "", "rx")),
    ),
    Family(
        name="npu_roce_completions_total",
        kind="counter",
        group="slow",
        help="RoCE completion queue entries.",
        sources=_roce("roce_cqe_num"),
    ),
    Family(
        name="npu_roce_unexpected_acks_total",
        kind="counter",
        group="slow",
        help="RoCE acknowledgements that were not expected.",
        sources=_roce("roce_err_ack_num", "roce_unexpected_ack_num"),
    ),
    Family(
        name="npu_roce_out_of_order_total",
        kind="counter",
        group="slow",
        help="RoCE packets out of sequence.",
        sources=_roce("roce_err_psn_num", "roce_out_of_order_num"),
    ),
    Family(
        name="npu_roce_verification_errors_total",
        kind="counter",
        group="slow",
        help="RoCE packets that failed verification.",
        sources=_roce("roce_verification_err_num"),
    ),
    Family(
        name="npu_roce_qp_status_errors_total",
        kind="counter",
        group="slow",
        help="RoCE packets for queue pairs in a wrong state.",
        sources=_roce("roce_err_qp_status_num", "roce_qp_status_err_num"),
    ),
    Family(
        name="npu_roce_retries_total",
        kind="counter",
        group="slow",
        help="RoCE packets sent again.",
        sources=_roce("roce_new_pkt_rty_num"),
    ),
    Family(
        name="npu_roce_ecn_packets_total",
        kind="counter",
        group="slow",
        help="RoCE packets marked by explicit congestion notification.",
        sources=_roce("roce_ecn_db_num"),
    ),
    Family(
        name="npu_optical_present",
        group="slow",
        help="Whether an optical module is plugged in.",
        sources=(From(_OPTICAL, "present"),),
    ),
    Family(
        name="npu_optical_temperature_celsius",
        group="slow",
        help="Temperature of the optical module.",
        sources=(From(_OPTICAL, "temperature"),),
    ),
    Family(
        name="npu_optical_voltage_volts",
        group="slow",
        help="Supply voltage of the optical module.",
        sources=(From(_OPTICAL, "Vcc", MILLI),),
    ),
    Family(
        name="npu_optical_power_watts",
        labels=("device_id", "direction", "lane"),
        group="slow",
        help="Light power of one lane of the optical module.",
        sources=(From(_OPTICAL, "Tx_Power", MILLI, ("tx",)), From(_OPTICAL, "Rx_Power", MILLI, ("rx",))),
    ),
    Family(
        name="npu_hccs_healthy",
        group="slow",
        help="Whether the HCCS links between chips are well.",
        sources=(From(f"{_INFO}[16,0]", "healthy"),),
    ),
    Family(
        name="npu_hccs_lanes",
        labels=("device_id", "link"),
        group="slow",
        help="Lanes of the HCCS link that are in use.",
        sources=(From(f"{_INFO}[16,1]", "lanes"),),
    ),
    Family(
        name="npu_hccs_tx_flits_total",
        kind="counter",
        labels=("device_id", "link"),
        group="slow",
        help="Flits (20 bytes each) sent on the HCCS link.",
        sources=_flits("tx_cnt"),
    ),
    Family(
        name="npu_hccs_rx_flits_total",
        kind="counter",
        labels=("device_id", "link"),
        group="slow",
        help="Flits (20 bytes each) received on the HCCS link.",
        sources=_flits("rx_cnt"),
    ),
    Family(
        name="npu_hccs_crc_errors_total",
        kind="counter",
        labels=("device_id", "link"),
        group="slow",
        help="Checksum errors on the HCCS link.",
        sources=_flits("crc_err_cnt"),
    ),
    Family(
        name="npu_hccs_retries_total",
        kind="counter",
        labels=("device_id", "link"),
        group="slow",
        help="Retries on the HCCS link.",
        sources=_flits("retry_cnt"),
    ),
    Family(
        name="npu_hccs_bandwidth_bytes_per_second",
        labels=("device_id", "direction", "link"),
        group="slow",
        help="Traffic of the HCCS link over a window of the driver's.",
        sources=(From(_HCCS, "tx_bandwidth", GIBI, ("tx",)), From(_HCCS, "rx_bandwidth", GIBI, ("rx",))),
    ),
    Family(
        name="npu_sio_crc_errors_total",
        kind="counter",
        labels=("device_id", "direction"),
        group="slow",
        help="Checksum errors between the two dies of a card; the driver's counter has 16 bits and wraps.",
        sources=(
            From(f"{_INFO}[56,0]", "tx_error_count", fixed=("tx",)),
            From(f"{_INFO}[56,0]", "rx_error_count", fixed=("rx",)),
        ),
    ),
    Family(
        name="npu_pcie_bandwidth_bytes_per_second",
        labels=("device_id", "direction", "transaction", "statistic"),
        group="slow",
        help="PCIe traffic by transaction over a window of the driver's, whose min, max and avg it is.",
        sources=tuple(
            From(_PCIE, f"{way}_{short}_bw", MB_PER_MS, (way, word))
            for way in ("tx", "rx")
            for short, word in (("p", "posted"), ("np", "nonposted"), ("cpl", "completion"))
        ),
    ),
    Family(
        name="npu_pcie_read_latency_seconds",
        labels=("device_id", "statistic"),
        group="slow",
        help="Latency of the chip's PCIe reads over a window of the driver's, whose min, max and avg it is.",
        sources=(From(_PCIE, "tx_np_lantency", NANO),),
    ),
    Family(
        name="npu_pcie_errors_total",
        kind="counter",
        labels=("device_id", "kind"),
        group="slow",
        help="PCIe link errors.",
        sources=tuple(
            From(f"{_INFO}[55,1]", f"{field}_cnt", fixed=(kind,))
            for field, kind in (
                ("tx_err", "tx"),
                ("rx_err", "rx"),
                ("lcrc_err", "lcrc"),
                ("ecrc_err", "ecrc"),
                ("retry", "retry"),
            )
        ),
    ),
    Family(
        name="npu_ub_bandwidth_bytes_per_second",
        labels=("device_id", "direction", "udie", "port"),
        group="slow",
        help="Traffic of the UB port over a window of the driver's.",
        sources=(
            From("dcmiv2_get_ub_realtime_bandwidth_info", "tx_bandwidth", MEGA, ("tx",)),
            From("dcmiv2_get_ub_realtime_bandwidth_info", "rx_bandwidth", MEGA, ("rx",)),
        ),
    ),
    Family(
        name="npu_ub_packets_total",
        kind="counter",
        labels=("device_id", "direction", "kind", "udie", "port"),
        group="slow",
        help="Packets of the UB port by kind.",
        sources=tuple(
            From(_UB, f"{field}_pkt_cnt_{way}", fixed=(way, kind))
            for way in ("rx", "tx")
            for field, kind in (
                ("ub_glb_ipv4", "ub_ipv4"),
                ("ub_glb_ipv6", "ub_ipv6"),
                ("unic_ipv4", "unic_ipv4"),
                ("unic_ipv6", "unic_ipv6"),
                ("ub_clan", "ub_compact"),
                ("ub_mem", "ub_mem"),
                ("unknown", "unknown"),
            )
        ),
    ),
    Family(
        name="npu_ub_flits_total",
        kind="counter",
        labels=("device_id", "direction", "kind", "udie", "port"),
        group="slow",
        help="Flits of the UB port: business traffic and acknowledgements.",
        sources=(
            From(_UB, "rx_busi_flit_num", fixed=("rx", "business")),
            From(_UB, "rx_send_ack_flit", fixed=("rx", "ack")),
            From(_UB, "tx_busi_flit_num", fixed=("tx", "business")),
            From(_UB, "tx_recv_ack_flit", fixed=("tx", "ack")),
        ),
    ),
    Family(
        name="npu_ub_errors_total",
        kind="counter",
        labels=("device_id", "kind", "udie", "port"),
        group="slow",
        help="Errors and retries of the UB port by kind.",
        sources=tuple(
            From(_UB, field, fixed=(kind,))
            for field, kind in (
                ("drop_ind_cnt_rx", "rx_drop"),
                ("err_ind_cnt_rx", "rx_error"),
                ("route_err_cnt_rx", "rx_route"),
                ("out_err_cnt_rx", "rx_out"),
                ("length_err_cnt_rx", "rx_length"),
                ("drop_ind_cnt_tx", "tx_drop"),
                ("err_ind_cnt_tx", "tx_error"),
                ("out_err_cnt_tx", "tx_out"),
                ("length_err_cnt_tx", "tx_length"),
                ("retry_req_sum", "retry_request"),
                ("retry_ack_sum", "retry_ack"),
                ("crc_error_sum", "crc"),
            )
        ),
    ),
)

_LATENCY = (
    Family(
        name="npu_query_duration_seconds",
        kind="histogram",
        group="fast",
        buckets=QUERY_BUCKETS,
        help="Time that driver queries of the fast lane took; a chip that answers ever later is going.",
    ),
    Family(
        name="npu_roundtrip_seconds",
        kind="histogram",
        group="slow",
        buckets=ROUNDTRIP_BUCKETS,
        help="Time of a 64-byte copy to the chip and back through ACL (opt-in: it opens a context).",
    ),
)

_INFERENCE = (
    Family(
        name="inference_request_duration_seconds",
        kind="histogram",
        labels=("model", "source"),
        group="fast",
        origin="inference",
        buckets=REQUEST_BUCKETS,
        help="Duration of inference requests that were measured here (statsd, probes).",
    ),
    Family(
        name="inference_latency_seconds",
        labels=("model", "target", "kind", "quantile"),
        group="fast",
        origin="inference",
        help="Quantile of the latency over the sliding window: e2e, ttft (first token) or itl (between tokens).",
    ),
    Family(
        name="inference_latency_resolution_seconds",
        labels=("model", "target", "kind", "quantile"),
        group="fast",
        origin="inference",
        help="Width of the bucket that the quantile fell in: its honest error.",
    ),
    Family(
        name="inference_latency_lower_bound_seconds",
        labels=("model", "target", "kind", "quantile"),
        group="fast",
        origin="inference",
        help="Lower edge of the bucket that the quantile fell in; absent under inference.min_requests.",
    ),
    Family(
        name="inference_latency_mean_seconds",
        labels=("model", "target", "kind"),
        group="fast",
        origin="inference",
        help="Mean latency over the sliding window, exact where the server gives a sum.",
    ),
    Family(
        name="inference_latency_observations",
        labels=("model", "target", "kind"),
        group="fast",
        origin="inference",
        help="Latencies that the sliding window holds.",
    ),
    Family(
        name="inference_requests_total",
        kind="counter",
        labels=("model", "target", "status"),
        group="fast",
        origin="inference",
        help="Requests by status: success, error, aborted.",
    ),
    Family(
        name="inference_success_ratio",
        labels=("model", "target"),
        group="fast",
        origin="inference",
        help="Share of requests that succeeded over the sliding window; absent when there were too few.",
    ),
    Family(
        name="inference_target_up",
        labels=("target", "server"),
        group="fast",
        origin="inference",
        help="Whether the target answers with metrics that can be read.",
    ),
    Family(
        name="inference_requests_running",
        labels=("model", "target"),
        group="fast",
        origin="inference",
        help="Requests that the server works on now.",
    ),
    Family(
        name="inference_requests_waiting",
        labels=("model", "target"),
        group="fast",
        origin="inference",
        help="Requests that wait in the server's queue.",
    ),
    Family(
        name="inference_kv_cache_utilization_ratio",
        labels=("model", "target"),
        group="fast",
        origin="inference",
        help="Share of the server's KV cache in use.",
    ),
    Family(
        name="inference_tokens_total",
        kind="counter",
        labels=("model", "target", "direction"),
        group="fast",
        origin="inference",
        help="Tokens by direction: prompt or generation.",
    ),
    Family(
        name="inference_preemptions_total",
        kind="counter",
        labels=("model", "target"),
        group="fast",
        origin="inference",
        help="Requests that lost their place in the batch.",
    ),
    Family(
        name="inference_target_restarts_total",
        kind="counter",
        labels=("target",),
        group="fast",
        origin="inference",
        help="Times that the target's counters began anew.",
    ),
    Family(
        name="inference_latency_ms",
        labels=("model", "target", "kind", "quantile"),
        group="fast",
        origin="inference",
        alias=True,
        help="Alias of inference_latency_seconds, in milliseconds.",
    ),
)

_WORKLOADS = (
    Family(
        name="npu_workload_info",
        kind="info",
        labels=("device_id", "workload_namespace", "workload_pod", "workload_container", "source"),
        group="normal",
        origin="workloads",
        help="Who has the chip: one series an owner. Of source inference, the container is the target that it serves.",
    ),
)

_ALIASES = (
    Family(
        name="npu_aicore_utilization",
        group="fast",
        alias=True,
        help="Alias of npu_aicore_utilization_ratio, in percent.",
        sources=(From(_MULTI, "aicore_util"), From(f"{_UTIL}[2]", "rate"), From(_ACL_UTIL, "cubeUtilization")),
    ),
)

_SELF = (
    Family(
        name="npumond_build_info",
        kind="info",
        labels=("version", "python"),
        group="slow",
        origin="self",
        help="Version of npumond and of the Python that runs it.",
    ),
    Family(
        name="npumond_source_success",
        labels=("source", "group"),
        group="normal",
        origin="self",
        help="Whether the last round of the source's group went well.",
    ),
    Family(
        name="npumond_source_duration_seconds",
        labels=("source", "group"),
        group="normal",
        origin="self",
        help="Duration of the last round of the source's group.",
    ),
    Family(
        name="npumond_source_last_success_timestamp_seconds",
        labels=("source", "group"),
        group="normal",
        origin="self",
        help="Unix time of the last good round of the source's group.",
    ),
    Family(
        name="npumond_driver_calls_total",
        kind="counter",
        labels=("call", "outcome"),
        group="normal",
        origin="self",
        help="Vendor calls by name and outcome.",
    ),
    Family(
        name="npumond_statsd_lines_total",
        kind="counter",
        labels=("outcome",),
        group="normal",
        origin="self",
        help="Lines of DogStatsD that came in: taken, foreign (of other names or types) or garbage.",
    ),
    Family(
        name="npumond_statsd_lost_packets_total",
        kind="counter",
        labels=(),
        group="normal",
        origin="self",
        help="Datagrams that the kernel threw away since they came faster than they were read.",
    ),
    Family(
        name="npumond_inference_models_overflowed_total",
        kind="counter",
        labels=("source",),
        group="normal",
        origin="self",
        help="Measured requests that were booked under the model other, since there were too many models.",
    ),
    Family(
        name="npumond_mqtt_input_total",
        kind="counter",
        labels=("outcome",),
        group="normal",
        origin="self",
        help="Requests taken by MQTT, and messages that were garbage, too large, retained or lost.",
    ),
    Family(
        name="npumond_worker_restarts_total",
        kind="counter",
        labels=("reason",),
        group="normal",
        origin="self",
        help="Restarts of the worker process that holds the vendor's libraries, by reason.",
    ),
    Family(
        name="npumond_workers_left_behind",
        labels=(),
        group="normal",
        origin="self",
        help="Worker processes that were killed and are still there, held by the kernel; at most two.",
    ),
    Family(
        name="npumond_missed_slots_total",
        kind="counter",
        labels=("source", "group"),
        group="normal",
        origin="self",
        help="Sampling slots that passed while the round before was still running.",
    ),
    Family(
        name="npumond_metric_supported",
        labels=("metric", "device_id"),
        group="slow",
        origin="self",
        help="Whether the chip and its driver can give the metric.",
    ),
    Family(
        name="npumond_alerts",
        labels=("state", "severity"),
        group="fast",
        origin="rules",
        help="Alerts that are pending or firing.",
    ),
    Family(
        name="npumond_rule_state",
        labels=("rule",),
        group="fast",
        origin="rules",
        help="Worst state of the rule's alerts: 0 inactive, 1 pending, 2 firing.",
    ),
    Family(
        name="npumond_config_last_reload_successful",
        labels=(),
        group="normal",
        origin="self",
        help="Whether the last attempt to read the configuration went well.",
    ),
    Family(
        name="npumond_config_last_reload_success_timestamp_seconds",
        labels=(),
        group="normal",
        origin="self",
        help="Unix time at which the configuration in force was read.",
    ),
    Family(
        name="npumond_event_loop_lag_seconds",
        labels=(),
        group="normal",
        origin="self",
        help="How late the event loop woke the daemon for its last slot.",
    ),
)

_PROCESS = (
    Family(
        name="process_cpu_seconds_total",
        kind="counter",
        labels=(),
        group="normal",
        origin="process",
        help="Total user and system CPU time spent in seconds.",
    ),
    Family(
        name="process_resident_memory_bytes",
        labels=(),
        group="normal",
        origin="process",
        help="Resident memory size in bytes.",
    ),
    Family(
        name="process_virtual_memory_bytes",
        labels=(),
        group="normal",
        origin="process",
        help="Virtual memory size in bytes.",
    ),
    Family(
        name="process_start_time_seconds",
        labels=(),
        group="normal",
        origin="process",
        help="Start time of the process since unix epoch in seconds.",
    ),
    Family(
        name="process_open_fds", labels=(), group="normal", origin="process", help="Number of open file descriptors."
    ),
    Family(
        name="process_max_fds",
        labels=(),
        group="normal",
        origin="process",
        help="Maximum number of open file descriptors.",
    ),
    Family(
        name="python_gc_objects_collected_total",
        kind="counter",
        labels=("generation",),
        group="normal",
        origin="process",
        help="Objects collected during gc.",
    ),
    Family(
        name="python_gc_objects_uncollectable_total",
        kind="counter",
        labels=("generation",),
        group="normal",
        origin="process",
        help="Uncollectable objects found during GC.",
    ),
    Family(
        name="python_gc_collections_total",
        kind="counter",
        labels=("generation",),
        group="normal",
        origin="process",
        help="Number of times this generation was collected.",
    ),
    Family(
        name="npumond_worker_cpu_seconds_total",
        kind="counter",
        labels=(),
        group="normal",
        origin="process",
        help="User and system CPU time of the worker process.",
    ),
    Family(
        name="npumond_worker_resident_memory_bytes",
        labels=(),
        group="normal",
        origin="process",
        help="Resident memory of the worker process.",
    ),
)

CATALOG: tuple[Family, ...] = (
    *_IDENTITY,
    *_COMPUTE,
    *_MEMORY,
    *_POWER,
    *_HEALTH,
    *_PROCESSES,
    *_LINKS,
    *_LATENCY,
    *_INFERENCE,
    *_WORKLOADS,
    *_ALIASES,
    *_SELF,
    *_PROCESS,
)

BY_NAME: dict[str, Family] = {family.name: family for family in CATALOG}


def reading_rows() -> Iterator[tuple[Family, int, From]]:
    """Every (family, rank, source) that is filled from a vendor call; rank 0 is preferred."""
    for family in CATALOG:
        for rank, source in enumerate(family.sources):
            yield family, rank, source
