"""What each call has to give, said from the scenario: the other end of the driver's work.

Written against the scenario and the reference, not against the driver; None is "this chip has no such call".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from tests.standin.scenario import PACKET_FIELDS, UB_PACKET_FIELDS, Chip, Ddr, Hbm, HccsLinks, PcieBandwidth, Scenario

Readings = dict[tuple[str, ...], float] | None
Truth = Callable[[Scenario, Chip], Readings]

REASONS = {
    0: "idle",
    2: "thermal",
    3: "sw_edp",
    4: "hw_edp",
    5: "power_break",
    8: "svfd",
    10: "power_capping",
    11: "load_aware",
}
ECC = ("enable_flag", "single_bit_error_cnt", "double_bit_error_cnt", "total_single_bit_error_cnt",
       "total_double_bit_error_cnt", "single_bit_isolated_pages_cnt", "double_bit_isolated_pages_cnt")  # fmt: skip
LINKS = range(1, 8)
UBOE_ONLY = "core_mib_"


def one(field: str, value: Any) -> Readings:
    """A call that gives one number."""
    return None if value is None else {(field,): value}


def several(fields: Iterable[str], values: Any) -> Readings:
    """A call that gives some numbers in order."""
    return None if values is None else {(field,): value for field, value in zip(fields, values, strict=False)}


def hbm(_: Scenario, chip: Chip) -> Readings:
    """Members and the share in use."""
    if chip.hbm is None:
        return None
    hbm = cast("Hbm", chip.hbm)
    fields = ("memory_size", "memory_usage", "freq", "temp", "bandwith_util_rate")
    return {**cast("dict[Any, float]", several(fields, hbm)), ("memory_usage_ratio",): hbm.used_mb / hbm.size_mb}


def ddr(_: Scenario, chip: Chip) -> Readings:
    """Members and what is in use."""
    if chip.ddr is None:
        return None
    ddr = cast("Ddr", chip.ddr)
    used = ddr.size_mb - ddr.available_mb
    return {
        ("memory_size",): ddr.size_mb,
        ("freq",): ddr.frequency_mhz,
        ("hugepagesize",): ddr.hugepage_kb,
        ("hugepages_total",): ddr.hugepages_total,
        ("hugepages_free",): ddr.hugepages_free,
        ("memory_used",): used,
        ("memory_used_ratio",): used / ddr.size_mb,
    }


def processes(_: Scenario, chip: Chip) -> Readings:
    """Their number and the memory of each."""
    if chip.processes is None:
        return None
    listed = cast("list[tuple[int, int]]", chip.processes)
    return {("proc_num",): len(listed), **{("proc_mem_usage", str(pid)): held for pid, held in listed}}


def faults(_: Scenario, chip: Chip) -> Readings:
    """One reading a code."""
    return {("error_code", f"{code:08X}"): 1 for code in cast("list[int]", chip.error_codes)}


def throttle(_: Scenario, chip: Chip) -> Readings:
    """One reading a reason."""
    if chip.throttle is None:
        return None
    return {("reason", reason): cast("int", chip.throttle) >> bit & 1 for bit, reason in REASONS.items()}


def lanes(_: Scenario, chip: Chip) -> Readings:
    """Lanes of each port that is there."""
    if chip.hccs_lanes is None:
        return None
    ports, *lanes = cast("tuple[int, ...]", chip.hccs_lanes)
    return {("lanes", str(link)): bin(bits).count("1") for link, bits in enumerate(lanes) if ports >> link & 1}


def flits(bits: int, sub: int) -> Truth:
    """Counters of this width."""

    def truth(_: Scenario, chip: Chip) -> Readings:
        if not isinstance(chip.hccs, HccsLinks) or sub not in chip.hccs.subs:
            return None
        columns = {"tx_cnt": chip.hccs.tx_flits, "rx_cnt": chip.hccs.rx_flits,
                   "crc_err_cnt": chip.hccs.crc_errors, "retry_cnt": chip.hccs.retries}  # fmt: skip
        return {(field, str(link)): values[link] % (1 << bits) for field, values in columns.items() for link in LINKS}

    return truth


def hccs_bandwidth(_: Scenario, chip: Chip) -> Readings:
    """Both directions of each link."""
    if not isinstance(chip.hccs, HccsLinks):
        return None
    columns = {"tx_bandwidth": chip.hccs.tx_gib_per_s, "rx_bandwidth": chip.hccs.rx_gib_per_s}
    return {(field, str(link)): values[link] for field, values in columns.items() for link in LINKS}


def pcie_bandwidth(_: Scenario, chip: Chip) -> Readings:
    """Three statistics of seven figures."""
    if chip.pcie_bandwidth is None:
        return None
    fields = ("tx_p_bw", "tx_np_bw", "tx_cpl_bw", "tx_np_lantency", "rx_p_bw", "rx_np_bw", "rx_cpl_bw")
    triples = zip(fields, cast("PcieBandwidth", chip.pcie_bandwidth), strict=True)
    return {
        (field, word): value
        for field, triple in triples
        for word, value in zip(("min", "max", "avg"), triple, strict=True)
    }


def packets(_: Scenario, chip: Chip) -> Readings:
    """Every counter of the port."""
    counts = cast("dict[str, int] | None", chip.packets)
    return None if counts is None else {(name,): float(counts.get(name, 0)) for name in PACKET_FIELDS}


def virtual(_: Scenario, chip: Chip) -> Readings:
    """Each virtual NPU."""
    if chip.vdev_resources is None:
        return None
    return {
        (field, str(number)): value
        for number, vdev in chip.vdevs.items()
        for field, value in (
            ("vdev_aicore_utilization", vdev.utilization),
            ("vdev_memory_total", vdev.memory_total_kb),
            ("vdev_memory_free", vdev.memory_free_kb),
        )
    }


def elabel(scenario: Scenario, chip: Chip) -> Readings:
    """By card on v1, by device on v2."""
    if scenario.api == 2:
        return {("elabel", str(chip.elabel_serial), "", "", ""): 1}
    card = scenario.cards[chip.card_id]
    key = (card.elabel_serial, card.elabel_product, card.elabel_model, card.elabel_manufacturer)
    return {("elabel", *map(str, key)): 1}


def spod(_: Scenario, chip: Chip) -> Readings:
    """sdid, size, id, server, chassis, type in the scenario; id, server, sdid, chassis in the reading."""
    if chip.spod is None:
        return None
    sdid, _size, pod, server, chassis, _type = cast("tuple[int, ...]", chip.spod)
    return {("spod", str(pod), str(server), str(sdid), str(chassis)): 1}


def ub_links(_: Scenario, chip: Chip) -> Readings:
    """Ports that are there."""
    if chip.ub_link_status is None:
        return None
    _chip, *ports = cast("tuple[int, ...]", chip.ub_link_status)
    return {("up", f"ub{index}"): float(status != 3) for index, status in enumerate(ports) if status}


def ub_packets(_: Scenario, chip: Chip) -> Readings:
    """Every counter of every port; Ethernet ones on Ethernet ports."""
    return {
        (name, str(udie), str(number)): float(port.packets.get(name, 0))
        for (udie, number), port in chip.ub_ports.items()
        for name in UB_PACKET_FIELDS
        if port.is_uboe or not name.startswith(UBOE_ONLY)
    }


def ub_bandwidth(_: Scenario, chip: Chip) -> Readings:
    """Both directions of every port."""
    return {
        (field, str(udie), str(number)): value
        for (udie, number), port in chip.ub_ports.items()
        for field, value in (("tx_bandwidth", port.tx_mb_per_s), ("rx_bandwidth", port.rx_mb_per_s))
    }


def optical(_: Scenario, chip: Chip) -> Readings:
    """What the tool prints of the module."""
    if chip.hccn is None or chip.hccn.optical is None:
        return None
    readings: dict[tuple[str, ...], float] = {}
    for name, text in chip.hccn.optical.items():
        if name == "present":
            readings["present",] = float(text == "present")
        elif name[2:8] == " Power":
            readings[f"{name[:2]}_Power", name[8:]] = float(text.split()[0])
        else:
            readings[name,] = float(text.split()[0])
    return readings


_INFO = "dcmi_get_device_info"

TRUTH: Mapping[str, Truth] = {
    "dcmi_get_device_multi_utilization_rate": lambda _, c: several(
        ("aic_util", "aiv_util", "aicore_util", "npu_util"), c.multi_utilization
    ),
    **{
        f"dcmi_get_device_utilization_rate[{kind}]": lambda _, c, kind=kind: one("rate", c.utilization.get(kind))  # type: ignore[misc]
        for kind in (2, 3, 4, 5, 12, 13, 14)
    },
    "dcmi_get_device_hbm_info": hbm,
    "dcmi_get_device_memory_info_v3": ddr,
    "dcmi_get_device_temperature": lambda _, c: one("temperature", c.temperature),
    "dcmi_get_device_power_info": lambda _, c: one("power", c.power),
    "dcmi_get_device_health": lambda _, c: one("health", c.health),
    "dcmi_get_device_voltage": lambda _, c: one("voltage", c.voltage),
    **{
        f"dcmi_get_device_frequency[{kind}]": lambda _, c, kind=kind: one("frequency", c.frequencies.get(kind))  # type: ignore[misc]
        for kind in (2, 7, 9, 12)
    },
    "dcmi_get_device_aicore_info": lambda _, c: several(("freq", "cur_freq"), c.aicore),
    "dcmi_get_device_aicpu_info": lambda _, c: several(("max_freq", "cur_freq", "aicpu_num"), c.aicpu),
    "dcmi_get_device_dvpp_ratio_info": lambda _, c: several(
        ("vdec_ratio", "vpc_ratio", "venc_ratio", "jpege_ratio", "jpegd_ratio"), c.dvpp
    ),
    "dcmi_get_device_resource_info": processes,
    "dcmi_get_device_errorcode_v2": faults,
    f"{_INFO}[8,9]": throttle,
    "dcmi_get_device_llc_perf_para": lambda _, c: several(("wr_hit_rate", "rd_hit_rate", "throughput"), c.llc),
    "dcmi_get_device_cgroup_info": lambda _, c: several(
        ("limit_in_bytes", "max_usage_in_bytes", "usage_in_bytes"), c.cgroup
    ),
    "dcmi_mcu_get_power_info": lambda s, c: one("power", s.cards[c.card_id].mcu_power),
    **{
        f"dcmi_get_device_ecc_info[{kind}]": lambda _, c, kind=kind: several(ECC, c.ecc.get(kind))  # type: ignore[misc]
        for kind in (0, 2)
    },
    **{
        f"dcmi_get_device_sensor_info[{kind}]": lambda _, c, kind=kind: one("temperature", c.sensors.get(kind))  # type: ignore[misc]
        for kind in (10, 11, 12, 13, 14)
    },
    "dcmi_get_card_elabel_v2": elabel,
    f"{_INFO}[12,1]": spod,
    f"{_INFO}[8,10]": lambda _, c: one("rated_power", c.rated_power),
    f"{_INFO}[16,0]": lambda _, c: one("healthy", None if c.hccs_status is None else c.hccs_status[1] == 3),  # type: ignore[index]
    f"{_INFO}[16,1]": lanes,
    f"{_INFO}[16,5]": flits(64, 5),
    f"{_INFO}[16,3]": flits(32, 3),
    f"{_INFO}[52,5]": virtual,
    f"{_INFO}[55,1]": lambda _, c: several(
        ("tx_err_cnt", "rx_err_cnt", "lcrc_err_cnt", "ecrc_err_cnt", "retry_cnt"), c.pcie_errors
    ),
    f"{_INFO}[56,0]": lambda _, c: several(("tx_error_count", "rx_error_count"), c.sio),
    "dcmi_get_device_boot_status": lambda _, c: one("status", c.boot_status),
    "dcmi_get_driver_health": lambda s, _: one("health", s.driver_health),
    "dcmi_get_device_network_health": lambda _, c: one(
        "healthy", None if c.network_health is None else c.network_health in (0, 6)
    ),
    "dcmi_get_netdev_pkt_stats_info": packets,
    "dcmi_get_rdma_bandwidth_info": lambda _, c: several(("tx_bandwidth", "rx_bandwidth"), c.rdma_bandwidth),
    "dcmi_get_pcie_link_bandwidth_info": pcie_bandwidth,
    "dcmi_get_hccs_link_bandwidth_info": hccs_bandwidth,
    "dcmiv2_get_ub_port_link_status": ub_links,
    "dcmiv2_get_port_pkt_stats_info": ub_packets,
    "dcmiv2_get_ub_realtime_bandwidth_info": ub_bandwidth,
    "hccn_tool -link": lambda _, c: one("up", None if c.hccn is None else c.hccn.link == "UP"),
    "hccn_tool -speed": lambda _, c: one("speed", None if c.hccn is None else c.hccn.speed_mbps),
    "hccn_tool -link_stat": lambda _, c: one("link_up_count", None if c.hccn is None else c.hccn.link_up_count),
    "hccn_tool -optical": optical,
    "hccn_tool -stat": lambda _, c: (
        None if c.hccn is None else {(name,): value for name, value in c.hccn.statistics.items()}
    ),
    "hccn_tool -bandwidth": lambda _, c: (
        None
        if c.hccn is None
        else {("tx_bandwidth",): float(c.hccn.bandwidth_tx), ("rx_bandwidth",): float(c.hccn.bandwidth_rx)}
    ),
}
"""Every planned call but the chip's clock, which moves."""
