"""The call table of DCMI: a vendor call is a row here.

Lanes follow the reference's advice on load (section 4): what dashboards follow by the second is ``fast``; lists and
clocks are ``normal``; what hardly changes, reads an EEPROM, or watches a link for a window is ``slow``. Within a lane
the order of rows is the order of calls. v2 names: reference section 12 and the vendor's header.

Never a row: reset, rescan, set, clear, upgrade, create and destroy, ping, prbs and log-collecting calls. They change or
disturb what others use.
"""

from __future__ import annotations

from ctypes import c_ubyte, c_uint, c_uint64

from npumond.drivers.dcmi import decoders
from npumond.drivers.dcmi import structures as s
from npumond.drivers.dcmi.codes import DEVICE_NOT_EXIST
from npumond.drivers.dcmi.rows import (
    ALL_ONES,
    ALL_ONES_64,
    Field,
    Row,
    ask_info,
    ask_profiled,
    on,
)
from npumond.model import Device, Generation, Lane

_INT_MAX = 2**31 - 1
_TEXT = c_ubyte * 64
_SERVERS: tuple[Generation, ...] = ("910B", "A3")
_MULTI = "dcmi_get_device_multi_utilization_rate"


def _percent(name: str, member: str = "") -> Field:
    """0 to 100 %; more is rejected, all ones is "not known"."""
    return Field(name, high=100, absent=(ALL_ONES,), member=member)


def _clock(name: str) -> Field:
    """MHz; MC turns the largest int and everything above it into "invalid"."""
    return Field(name, high=_INT_MAX - 1)


def _celsius(name: str, member: str = "", absent: tuple[int, ...] = ()) -> Field:
    """°C. -1 is a temperature like any other; below absolute zero, and hotter than any chip, is not."""
    return Field(name, low=-275, high=1000, member=member, absent=absent)


def _counts(*names: str) -> tuple[Field, ...]:
    """32-bit counts, all ones where there is none."""
    return tuple(Field(name, absent=(ALL_ONES,)) for name in names)


def _counters(*names: str) -> tuple[Field, ...]:
    """64-bit counters, all ones where there is none."""
    return tuple(Field(name, absent=(ALL_ONES_64,)) for name in names)


_HEALTH = Field("health", high=3, absent=(4, ALL_ONES))
"""0 ok to 3 critical; 4 is the library's "unknown", all ones a device that is not in the driver's list."""

_MULTI_FIELDS = tuple(Field(name, high=100) for name in ("aic_util", "aiv_util", "aicore_util", "npu_util"))


def _utilization(kind: int, lane: Lane, unless: str = "") -> Row:
    """One utilisation in percent; npu-smi: ``npu-smi info -t usages``."""
    return Row(
        name=f"dcmi_get_device_utilization_rate[{kind}]",
        v2="dcmiv2_get_device_utilization_rate",
        lane=lane,
        unless=unless,
        inputs=(kind,),
        out=c_uint,
        fields=(Field("rate", high=100),),
    )


def _frequency(kind: int) -> Row:
    """One clock in MHz; npu-smi: ``npu-smi info -t common``."""
    return Row(
        name=f"dcmi_get_device_frequency[{kind}]",
        v2="dcmiv2_get_device_frequency",
        lane="normal",
        inputs=(kind,),
        out=c_uint,
        fields=(_clock("frequency"),),
    )


def _ecc(kind: int) -> Row:
    """Error counts of one memory: 0 DDR, 2 HBM; npu-smi: ``npu-smi info -t ecc``."""
    return Row(
        name=f"dcmi_get_device_ecc_info[{kind}]",
        v2="dcmiv2_get_device_ecc_info",
        lane="slow",
        inputs=(kind,),
        out=s.dcmi_ecc_info,
        room=64,
        fields=(
            Field("enable_flag", high=1),
            *_counts(
                "single_bit_error_cnt",
                "double_bit_error_cnt",
                "total_single_bit_error_cnt",
                "total_double_bit_error_cnt",
                "single_bit_isolated_pages_cnt",
                "double_bit_isolated_pages_cnt",
            ),
        ),
    )


def _sensor(kind: int, *fields: Field, absent_codes: tuple[int, ...] = ()) -> Row:
    """One sensor in °C; npu-smi: ``npu-smi info -t temp``."""
    return Row(
        name=f"dcmi_get_device_sensor_info[{kind}]",
        v2="dcmiv2_get_device_sensor_info",
        lane="slow",
        inputs=(kind,),
        out=s.dcmi_sensor_info,
        fields=fields,
        absent_codes=absent_codes,
    )


_FAST = (
    Row(
        name=_MULTI,
        v2="dcmiv2_get_device_multi_utilization_rate",
        lane="fast",
        out=s.dcmi_multi_utilization_info,
        fields=_MULTI_FIELDS,
        zeros_unproven=True,
    ),
    *(_utilization(kind, "fast", unless=_MULTI) for kind in (2, 12, 13, 14)),
    Row(
        name="dcmi_get_device_hbm_info",
        v2="dcmiv2_get_device_hbm_info",
        lane="fast",
        out=s.dcmi_hbm_info,
        fields=(
            Field("memory_size", high=decoders.MOST_MB),
            Field("memory_usage", high=decoders.MOST_MB),
            _clock("freq"),
            _celsius("temp"),
            _percent("bandwith_util_rate"),
        ),
        derived=("memory_usage_ratio",),
        decode=decoders.hbm,
    ),
    Row(
        name="dcmi_get_device_memory_info_v3",
        v2=None,
        lane="fast",
        out=s.dcmi_get_memory_info_stru,
        fields=(
            Field("memory_size", high=decoders.MOST_MB),
            _clock("freq"),
            *_counters("hugepagesize", "hugepages_total", "hugepages_free"),
        ),
        derived=("memory_used", "memory_used_ratio"),
        decode=decoders.ddr,
    ),
    Row(
        name="dcmi_get_device_temperature",
        v2="dcmiv2_get_device_temperature",
        lane="fast",
        fields=(_celsius("temperature"),),
    ),
    Row(
        name="dcmi_get_device_power_info",
        v2="dcmiv2_get_device_power_info",
        lane="fast",
        # The second die of an A3 card answers too, with a number that means nothing; npu-smi prints "-".
        applies=lambda device: device.generation != "A3" or device.chip_id == 0,
        fields=(Field("power", high=_INT_MAX - 1),),
    ),
    Row(
        name="dcmi_get_device_health",
        v2="dcmiv2_get_device_health",
        lane="fast",
        out=c_uint,
        fields=(_HEALTH,),
    ),
)

_NORMAL = (
    Row(
        name="dcmi_get_device_voltage",
        v2="dcmiv2_get_device_voltage",
        lane="normal",
        out=c_uint,
        fields=(Field("voltage", high=_INT_MAX - 1),),
    ),
    *(_frequency(kind) for kind in (7, 9, 12, 2)),
    Row(
        name="dcmi_get_device_aicore_info",
        v2="dcmiv2_get_device_aicore_info",
        lane="normal",
        unless="dcmi_get_device_frequency[7]",
        out=s.dcmi_aicore_info,
        fields=(_clock("freq"), _clock("cur_freq")),
    ),
    Row(
        name="dcmi_get_device_aicpu_info",
        v2="dcmiv2_get_device_aicpu_info",
        lane="normal",
        out=s.dcmi_aicpu_info,
        fields=(_clock("max_freq"), _clock("cur_freq"), Field("aicpu_num", high=16)),
    ),
    *(_utilization(kind, "normal") for kind in (3, 4, 5)),
    Row(
        name="dcmi_get_device_dvpp_ratio_info",
        v2=None,
        lane="normal",
        applies=on("310", "310B", "310P"),
        out=s.dcmi_dvpp_ratio,
        fields=tuple(Field(f"{engine}_ratio", high=100) for engine in ("vdec", "vpc", "venc", "jpege", "jpegd")),
    ),
    Row(
        name="dcmi_get_device_resource_info",
        v2="dcmiv2_get_device_proc_mem_info",
        lane="normal",
        derived=("proc_num", "proc_mem_usage"),
        ask=decoders.ask_processes,
    ),
    Row(
        name="dcmi_get_device_errorcode_v2",
        v2="dcmiv2_get_device_error_code_list",
        lane="normal",
        derived=("error_code",),
        ask=decoders.ask_fault_codes,
    ),
    Row(
        name="dcmi_get_device_info[8,9]",
        v2="dcmiv2_get_device_info",
        lane="normal",
        inputs=(8, 9),
        out=c_uint64,
        derived=("reason",),
        ask=ask_info,
        decode=decoders.throttle,
    ),
    Row(
        name="dcmi_get_device_llc_perf_para",
        v2="dcmiv2_get_device_llc_perf_para",
        lane="normal",
        out=s.dcmi_llc_perf,
        fields=(_percent("wr_hit_rate"), _percent("rd_hit_rate"), *_counts("throughput")),
    ),
    Row(
        name="dcmi_get_device_cgroup_info",
        v2="dcmiv2_get_device_cgroup_info",
        lane="normal",
        out=s.dcmi_cgroup_info,
        fields=_counters("limit_in_bytes", "max_usage_in_bytes", "usage_in_bytes"),
    ),
    Row(
        name="dcmi_mcu_get_power_info",
        v2=None,
        lane="normal",
        scope="card",
        applies=on("310", "310P"),
        # 0x7FFD: the management controller calls it invalid; 0x7FFF: it could not read it.
        fields=(Field("power", high=_INT_MAX - 1, absent=(0x7FFD, 0x7FFF)),),
    ),
)

_SLOW = (
    _ecc(2),
    _ecc(0),
    Row(
        name="dcmi_get_device_sensor_info[10]",
        v2="dcmiv2_get_device_sensor_info",
        lane="slow",
        inputs=(10,),
        out=s.dcmi_sensor_info,
        derived=("temperature",),
        decode=decoders.ntc,
    ),
    _sensor(11, _celsius("temperature", "uchar")),
    # 0x7EFF is a copper cable, which has no temperature; no such device means that no module is plugged in.
    _sensor(12, _celsius("temperature", "iint", absent=(0x7EFF,)), absent_codes=(DEVICE_NOT_EXIST,)),
    _sensor(13, _celsius("temperature", "iint")),
    _sensor(14, _celsius("temperature", "iint")),
    Row(
        name="dcmi_get_card_elabel_v2",
        v2="dcmiv2_get_device_elabel_info",
        lane="slow",
        scope="card",
        out=s.dcmi_elabel_info,
        derived=("elabel",),
        decode=decoders.elabel,
    ),
    Row(
        name="dcmi_get_device_info[12,1]",
        v2="dcmiv2_get_device_info",
        lane="slow",
        applies=on("A3", "950"),
        inputs=(12, 1),
        out=s.dcmi_spod_info,
        derived=("spod",),
        ask=ask_info,
        decode=decoders.super_pod,
    ),
    Row(
        name="dcmi_get_device_info[8,10]",
        v2="dcmiv2_get_device_info",
        lane="slow",
        inputs=(8, 10),
        out=s.lp_rated_power_info,
        fields=_counts("rated_power"),
        ask=ask_info,
    ),
    Row(
        name="dcmi_get_device_info[16,0]",
        v2=None,
        lane="slow",
        applies=on(*_SERVERS),
        inputs=(16, 0),
        out=s.dcmi_hccs_statues,
        derived=("healthy",),
        ask=ask_info,
        decode=decoders.hccs_status,
    ),
    Row(
        name="dcmi_get_device_info[16,1]",
        v2=None,
        lane="slow",
        applies=on(*_SERVERS),
        inputs=(16, 1),
        out=s.dcmi_hccs_lane_info,
        derived=("lanes",),
        ask=ask_info,
        decode=decoders.hccs_lanes,
    ),
    Row(
        name="dcmi_get_device_info[16,5]",
        v2=None,
        lane="slow",
        applies=on(*_SERVERS),
        inputs=(16, 5),
        out=s.dcmi_hccs_statistic_info_u64,
        fields=_counters("tx_cnt", "rx_cnt", "crc_err_cnt", "retry_cnt"),
        ask=ask_info,
        decode=decoders.by_link,
    ),
    Row(
        name="dcmi_get_device_info[16,3]",
        v2=None,
        lane="slow",
        unless="dcmi_get_device_info[16,5]",
        counts=True,
        applies=on(*_SERVERS),
        inputs=(16, 3),
        out=s.dcmi_hccs_statistic_info,
        # 32-bit counters wrap, so all ones is a count here.
        fields=(Field("tx_cnt"), Field("rx_cnt"), Field("crc_err_cnt"), Field("retry_cnt")),
        ask=ask_info,
        decode=decoders.by_link,
    ),
    Row(
        name="dcmi_get_device_info[52,5]",
        v2="dcmiv2_get_device_info",
        lane="slow",
        inputs=(52, 5),
        fields=(_percent("vdev_aicore_utilization"), *_counters("vdev_memory_total", "vdev_memory_free")),
        ask=decoders.ask_vdevices,
    ),
    Row(
        name="dcmi_get_device_info[55,1]",
        v2="dcmiv2_get_device_info",
        lane="slow",
        inputs=(55, 1),
        out=s.dcmi_pcie_link_error_info,
        fields=_counts("tx_err_cnt", "rx_err_cnt", "lcrc_err_cnt", "ecrc_err_cnt", "retry_cnt"),
        ask=ask_info,
    ),
    Row(
        name="dcmi_get_device_info[56,0]",
        v2="dcmiv2_get_device_info",
        lane="slow",
        applies=on("A3", "950"),
        inputs=(56, 0),
        out=s.dcmi_sio_crc_err_statistics_info,
        fields=(Field("tx_error_count"), Field("rx_error_count")),
        ask=ask_info,
    ),
    Row(
        name="dcmi_get_device_boot_status",
        v2="dcmiv2_get_device_boot_status",
        lane="slow",
        fields=(Field("status", high=16),),
    ),
    Row(
        name="dcmi_get_device_system_time",
        v2="dcmiv2_get_device_system_time",
        lane="slow",
        out=c_uint,
        fields=_counts("time"),
    ),
    Row(
        name="dcmi_get_driver_health",
        v2="dcmiv2_get_driver_health",
        lane="slow",
        scope="node",
        out=c_uint,
        fields=(_HEALTH,),
    ),
    Row(
        name="dcmi_get_device_network_health",
        v2="dcmiv2_get_device_network_health",
        lane="slow",
        derived=("healthy",),
        decode=decoders.network_health,
    ),
    Row(
        name="dcmi_get_netdev_pkt_stats_info",
        v2="dcmiv2_get_netdev_pkt_stats_info",
        lane="slow",
        inputs=(0,),
        out=s.dcmi_network_pkt_stats_info,
        fields=_counters(*s.PACKET_COUNTERS),
    ),
    Row(
        name="dcmi_get_rdma_bandwidth_info",
        v2="dcmiv2_get_rdma_bandwidth_info",
        lane="slow",
        window="rdma",
        inputs=(0,),
        out=s.dcmi_network_rdma_bandwidth_info,
        fields=_counts("tx_bandwidth", "rx_bandwidth"),
    ),
    Row(
        name="dcmi_get_pcie_link_bandwidth_info",
        v2="dcmiv2_get_pcie_link_bandwidth_info",
        lane="slow",
        window="pcie",
        out=s.dcmi_pcie_link_bandwidth_info,
        fields=_counts("tx_p_bw", "tx_np_bw", "tx_cpl_bw", "tx_np_lantency", "rx_p_bw", "rx_np_bw", "rx_cpl_bw"),
        ask=ask_profiled,
        decode=decoders.by_statistic,
    ),
    Row(
        name="dcmi_get_hccs_link_bandwidth_info",
        v2=None,
        lane="slow",
        window="hccs",
        applies=on(*_SERVERS),
        out=s.dcmi_hccs_bandwidth_info,
        fields=(Field("tx_bandwidth"), Field("rx_bandwidth")),
        ask=ask_profiled,
        decode=decoders.by_link,
    ),
    Row(
        name="dcmiv2_get_ub_port_link_status",
        v2="dcmiv2_get_ub_port_link_status",
        lane="slow",
        out=s.dcmi_ub_port_link_status,
        derived=("up",),
        decode=decoders.ub_links,
    ),
    Row(
        name="dcmiv2_get_port_pkt_stats_info",
        v2="dcmiv2_get_port_pkt_stats_info",
        lane="slow",
        out=s.dcmi_port_pkt_stats_info,
        derived=s.UB_COUNTERS,
        ask=decoders.ask_ub_packets,
    ),
    Row(
        name="dcmiv2_get_ub_realtime_bandwidth_info",
        v2="dcmiv2_get_ub_realtime_bandwidth_info",
        lane="slow",
        window="ub",
        out=s.dcmi_ub_bandwidth_info,
        fields=_counts("tx_bandwidth", "rx_bandwidth"),
        ask=decoders.ask_ub_bandwidth,
    ),
)


def _core_loads(sub: int) -> Row:
    """Load by core in percent: 0 AI Cores, 1 Vector cores."""
    return Row(
        name=f"dcmi_get_device_info[11,{sub}]",
        v2="dcmiv2_get_device_info",
        lane="slow",
        planned=False,
        inputs=(11, sub),
        out=c_ubyte * decoders.CORE_LOADS,
        fields=(Field("load", high=100),),
        ask=ask_info,
        decode=decoders.core_loads,
    )


_ON_REQUEST = (
    Row(
        name=f"{_MULTI}_period",
        v2="dcmiv2_get_device_multi_utilization_rate_period",
        lane="slow",
        planned=False,
        out=s.dcmi_multi_utilization_info,
        # Whole seconds, 1 to 4, for which the call may block.
        after=(1,),
        fields=_MULTI_FIELDS,
        zeros_unproven=True,
    ),
    _core_loads(0),
    _core_loads(1),
    Row(
        name="dcmi_get_device_errorcode_string",
        v2="dcmiv2_get_device_error_info",
        lane="slow",
        planned=False,
        derived=("error_code",),
        ask=decoders.ask_fault_texts,
    ),
    Row(
        name="dcmi_get_topo_info_by_device_id",
        v2="dcmiv2_get_topo_info_by_device_id",
        lane="slow",
        planned=False,
        fields=(Field("topo_type", high=8),),
        ask=decoders.ask_topology,
    ),
    Row(
        name="dcmi_get_affinity_cpu_info_by_device_id",
        v2="dcmiv2_get_affinity_cpu_info_by_dev_id",
        lane="slow",
        planned=False,
        out=_TEXT,
        derived=("affinity_cpu",),
        ask=decoders.ask_affinity,
        decode=decoders.text_value,
    ),
    Row(
        name="dcmi_get_product_type",
        v2=None,
        lane="slow",
        planned=False,
        applies=on("310", "310P"),
        out=_TEXT,
        derived=("product_type",),
        ask=decoders.ask_product_type,
        decode=decoders.text_value,
    ),
)

ROWS: tuple[Row, ...] = (*_FAST, *_NORMAL, *_SLOW, *_ON_REQUEST)

BY_NAME: dict[str, Row] = {row.name: row for row in ROWS}


def rows_of(device: Device, *, v2: bool) -> tuple[Row, ...]:
    """The rows that make sense for the device under the API in use, in the order of the table.

    Card and node calls are made through one chip.
    """
    return tuple(row for row in ROWS if _makes_sense(row, device, v2=v2))


def _makes_sense(row: Row, device: Device, *, v2: bool) -> bool:
    speaks = {"device": True, "card": device.first_of_card, "node": device.first_of_node}[row.scope]
    return speaks and row.applies(device) and (row.v2 if v2 else row.v1) is not None
