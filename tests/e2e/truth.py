"""What the page has to show of a scenario: every series and its value, said from raw units.

Written from the reference (dcmi.md sections 3 and 6 to 12 for what a call means, 9 for the units) and from the
catalogue's names, and from nothing else of npumond: it shares no line with what reads the driver. A value is the raw
number times an exact fraction, rounded once to the nearest float, which is what a page that rounds to the source's
resolution prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from tests.e2e.daemon import Series, Values, series
from tests.standin.scenario import (
    PACKET_FIELDS,
    Chip,
    Code,
    Ddr,
    Ecc,
    Hbm,
    HccsLinks,
    Pcie,
    PcieBandwidth,
    Scenario,
    UbPort,
)

MOVING = ("npu_clock_seconds", "npu_energy_joules_total", "npu_query_duration_seconds")
"""Families of the chips whose values move by themselves; they have tests of their own."""

NOT_FROM_DCMI = frozenset({"npu_roundtrip_seconds"})
"""Families of the chips that DCMI never fills: the ACL probe is opt-in."""

Raw = float | str | Fraction | Code | None

ONE = Fraction(1)
PERCENT = Fraction(1, 100)
KIB, MIB, GIB = Fraction(1 << 10), Fraction(1 << 20), Fraction(1 << 30)
MEGA = Fraction(10**6)
MILLI = Fraction(1, 1000)

A3_BOARDS = range(0xB0, 0xB5)
SEVERITIES = {0x80E01801: "major", 0x80E18402: "critical", 0x81078603: "notice", 0x80E20207: "minor"}
"""By the level of the reference's section 11.2, of the codes that tests use; others are unknown."""
SHOWN_PROCESSES = 16

THROTTLE = {"idle": 0, "thermal": 2, "sw_edp": 3, "hw_edp": 4, "power_break": 5, "svfd": 8, "power_capping": 10,
            "load_aware": 11}  # fmt: skip


class Truth:
    """The series of one scenario under construction. Nothing is added for a value that the driver does not have."""

    def __init__(self) -> None:
        self.values: Values = {}

    def add(self, family: str, raw: Raw, unit: Fraction = ONE, /, **labels: str | int) -> None:
        """One series. ``raw`` may be text with decimals; None and `Code` make none."""
        if raw is None or isinstance(raw, Code):
            return
        key = series(family, **labels)
        assert key not in self.values, f"two truths of {key}"
        self.values[key] = float(Fraction(raw) * unit)


def truth(scenario: Scenario) -> Values:
    """Every series about the chips but the `MOVING` ones, by name and labels."""
    out = Truth()
    chips = list(alive(scenario))
    _node(out, scenario, chips)
    for chip in chips:
        for part in (_identity, _load, _memory, _power, _health, _processes, _ethernet, _hccs, _pcie, _ub):
            part(out, scenario, chip)
    return out.values


def alive(scenario: Scenario) -> Iterable[Chip]:
    """Chips of cards that initialise: under the union policy one dead die takes its card along."""
    dead = {chip.card_id for chip in scenario.chips if chip.init_failed}
    return (chip for chip in scenario.chips if chip.card_id not in dead)


# ---- the node ----


def _node(out: Truth, scenario: Scenario, chips: Sequence[Chip]) -> None:
    cards = {chip.card_id for chip in scenario.chips}
    failed = len(cards - {chip.card_id for chip in chips})
    out.add(
        "npu_driver_info", 1, driver_version=str(scenario.driver_version), dcmi_version=str(scenario.dcmi_version),
        api=f"v{scenario.api}",
    )  # fmt: skip
    # What a card that failed would have had on it, nobody can say: it counts for one.
    out.add("npu_devices_expected", len(chips) + failed)
    out.add("npu_devices_seen", len(chips))
    out.add("npu_driver_health_status", scenario.driver_health)
    if scenario.api == 2:
        for chip in chips:
            out.add(
                "npu_card_info", 1, card_id=_card_id(scenario, chip), serial_number=_text(chip.elabel_serial),
                product_name="", model="", manufacturer="",
            )  # fmt: skip
        return
    for number in sorted({chip.card_id for chip in chips}):
        card = scenario.cards[number]
        out.add("npu_board_power_watts", card.mcu_power, Fraction(1, 10), card_id=number)
        if card.elabel_serial is not None:
            out.add(
                "npu_card_info", 1, card_id=number, serial_number=_text(card.elabel_serial),
                product_name=_text(card.elabel_product), model=_text(card.elabel_model),
                manufacturer=_text(card.elabel_manufacturer),
            )  # fmt: skip


def _text(raw: str | bytes | Code | None) -> str:
    assert isinstance(raw, str)
    return raw


def _card_id(scenario: Scenario, chip: Chip) -> int:
    if scenario.api == 1:
        return chip.card_id
    assert isinstance(chip.slot_and_chip, tuple)
    return chip.slot_and_chip[0]


def _identity(out: Truth, scenario: Scenario, chip: Chip) -> None:
    device = chip.phy_id
    words = chip.vdie
    assert isinstance(words, tuple)
    pcie = chip.pcie
    address = ""
    if isinstance(pcie, Pcie):
        address = f"{pcie.domain:04X}:{pcie.bus:02X}:{pcie.device:02X}.{pcie.function:X}"
    out.add(
        "npu_device_info", 1, device_id=device, logic_id=chip.logic_id, card_id=_card_id(scenario, chip),
        chip_id=chip.chip_id, uuid="-".join(f"{word:08X}" for word in words), chip=_text(chip.chip_name),
        product=_text(chip.npu_name or chip.product_type or ""), pci_address=address,
    )  # fmt: skip
    out.add("npu_device_up", 1, device_id=device)
    out.add("npu_aicores", chip.aicore_count, device_id=device)
    out.add("npu_boot_status", chip.boot_status, device_id=device)
    if isinstance(chip.spod, tuple):
        own, _size, pod, server, chassis, _type = chip.spod
        out.add(
            "npu_superpod_info", 1, device_id=device, superpod_id=pod, server_index=server, superpod_device_id=own,
            chassis_id=chassis,
        )  # fmt: skip


# ---- load and clocks ----


def _utilization(chip: Chip, kind: int) -> Raw:
    """What the library hands on: above 100 it says 0."""
    return _clamped(chip.utilization.get(kind))


def _clamped(raw: int | Code | None) -> int | Code | None:
    return 0 if isinstance(raw, int) and raw > 100 else raw


def _load(out: Truth, _: Scenario, chip: Chip) -> None:
    device = chip.phy_id
    cube, vector, core, overall = (_utilization(chip, kind) for kind in (14, 12, 2, 13))
    if isinstance(chip.multi_utilization, tuple) and any(chip.multi_utilization):
        of_cube, of_vector, of_core, of_npu = (_clamped(raw) or 0 for raw in chip.multi_utilization)
        assert not isinstance(of_core, Code)
        assert not isinstance(of_npu, Code)
        cube, vector, core, overall = of_cube, of_vector, of_core, max(of_npu, of_core)
    out.add("npu_cube_utilization_ratio", cube, PERCENT, device_id=device)
    out.add("npu_vector_utilization_ratio", vector, PERCENT, device_id=device)
    out.add("npu_aicore_utilization_ratio", core, PERCENT, device_id=device)
    out.add("npu_aicore_utilization", core, device_id=device)
    out.add("npu_overall_utilization_ratio", overall, PERCENT, device_id=device)
    out.add("npu_aicpu_utilization_ratio", _utilization(chip, 3), PERCENT, device_id=device)
    out.add("npu_ctrlcpu_utilization_ratio", _utilization(chip, 4), PERCENT, device_id=device)
    out.add("npu_ddr_bandwidth_utilization_ratio", _utilization(chip, 5), PERCENT, device_id=device)
    if isinstance(chip.dvpp, tuple):
        for engine, percent in zip(("vdec", "vpc", "venc", "jpege", "jpegd"), chip.dvpp, strict=True):
            out.add("npu_dvpp_utilization_ratio", percent, PERCENT, device_id=device, engine=engine)
    for family, kind in (("ctrlcpu", 2), ("aicore", 7), ("aicore_rated", 9), ("vector", 12)):
        out.add(f"npu_{family}_frequency_hertz", chip.frequencies.get(kind), MEGA, device_id=device)
    if isinstance(chip.aicpu, tuple):
        out.add("npu_aicpu_frequency_hertz", chip.aicpu[1], MEGA, device_id=device)
    if isinstance(chip.throttle, int):
        for reason, bit in THROTTLE.items():
            out.add("npu_throttled", chip.throttle >> bit & 1, device_id=device, reason=reason)
    if isinstance(chip.llc, tuple):
        write, read, throughput = chip.llc
        out.add("npu_llc_hit_ratio", write, PERCENT, device_id=device, direction="write")
        out.add("npu_llc_hit_ratio", read, PERCENT, device_id=device, direction="read")
        out.add("npu_llc_throughput_bytes_per_second", throughput, KIB, device_id=device)


# ---- memory ----


def _memory(out: Truth, _: Scenario, chip: Chip) -> None:
    device = chip.phy_id
    if isinstance(chip.hbm, Hbm):
        size, used, frequency, temperature, bandwidth = chip.hbm
        out.add("npu_hbm_total_bytes", size, MIB, device_id=device)
        out.add("npu_hbm_used_bytes", used, MIB, device_id=device)
        out.add("npu_hbm_utilization_ratio", Fraction(used, size), device_id=device)
        out.add("npu_hbm_frequency_hertz", frequency, MEGA, device_id=device)
        out.add("npu_hbm_temperature_celsius", temperature, device_id=device)
        out.add("npu_hbm_bandwidth_utilization_ratio", bandwidth, PERCENT, device_id=device)
    if isinstance(chip.ddr, Ddr):
        size, free, frequency, page_kb, pages, free_pages, _percent = chip.ddr
        out.add("npu_ddr_total_bytes", size, MIB, device_id=device)
        out.add("npu_ddr_used_bytes", size - free, MIB, device_id=device)
        out.add("npu_ddr_utilization_ratio", Fraction(size - free, size), device_id=device)
        out.add("npu_ddr_frequency_hertz", frequency, MEGA, device_id=device)
        out.add("npu_hugepage_size_bytes", page_kb, KIB, device_id=device)
        out.add("npu_hugepages", pages, device_id=device)
        out.add("npu_hugepages_free", free_pages, device_id=device)
    if isinstance(chip.cgroup, tuple):
        limit, _highest, used = chip.cgroup
        out.add("npu_os_memory_limit_bytes", limit, device_id=device)
        out.add("npu_os_memory_usage_bytes", used, device_id=device)
    for memory, kind in (("ddr", 0), ("hbm", 2)):
        ecc = chip.ecc.get(kind)
        if isinstance(ecc, Ecc):
            _errors(out, device, memory, ecc)


def _errors(out: Truth, device: int, memory: str, ecc: Ecc) -> None:
    out.add("npu_ecc_enabled", ecc.enabled, device_id=device, memory=memory)
    for family, single, double in (
        ("npu_ecc_errors_since_reset", ecc.single, ecc.double),
        ("npu_ecc_errors_total", ecc.total_single, ecc.total_double),
        ("npu_ecc_isolated_pages", ecc.isolated_single, ecc.isolated_double),
    ):
        out.add(family, single, device_id=device, memory=memory, kind="single_bit")
        out.add(family, double, device_id=device, memory=memory, kind="double_bit")


# ---- power, heat, health ----


def _power(out: Truth, _: Scenario, chip: Chip) -> None:
    device = chip.phy_id
    out.add("npu_temperature_celsius", chip.temperature, device_id=device)
    board = chip.board[0] if isinstance(chip.board, tuple) else None
    if board not in A3_BOARDS or chip.chip_id == 0:  # the second die answers with a number that means nothing
        out.add("npu_power_watts", chip.power, Fraction(1, 10), device_id=device)
    out.add("npu_voltage_volts", chip.voltage, Fraction(1, 100), device_id=device)
    out.add("npu_rated_power_watts", chip.rated_power, MILLI, device_id=device)
    for kind, sensor in ((11, "soc"), (12, "optical"), (13, "ndie"), (14, "hbm")):
        raw = chip.sensors.get(kind)
        assert not isinstance(raw, tuple)
        out.add("npu_sensor_temperature_celsius", raw, device_id=device, sensor=sensor)
    thermistors = chip.sensors.get(10)
    if isinstance(thermistors, tuple):
        for index, raw in enumerate(thermistors):
            out.add("npu_sensor_temperature_celsius", raw, device_id=device, sensor=f"ntc{index}")


def _health(out: Truth, _: Scenario, chip: Chip) -> None:
    device = chip.phy_id
    out.add("npu_health_status", chip.health if chip.health in range(4) else None, device_id=device)
    if isinstance(chip.error_codes, list):
        for code in chip.error_codes:
            severity = SEVERITIES.get(code, "unknown")
            out.add("npu_fault_active", 1, device_id=device, code=f"{code:08X}", severity=severity)
    if isinstance(chip.network_health, int):
        out.add("npu_network_healthy", int(chip.network_health in (0, 6)), device_id=device)


def _processes(out: Truth, _: Scenario, chip: Chip) -> None:
    """Names are those of processes that do not exist; see `out_of_reach`."""
    device = chip.phy_id
    if isinstance(chip.processes, list):
        out.add("npu_processes", len(chip.processes), device_id=device)
        largest = sorted(chip.processes, key=lambda process: -process[1])[:SHOWN_PROCESSES]
        for pid, used in largest:
            out.add("npu_process_hbm_used_bytes", used, device_id=device, pid=pid, process="")
    if chip.vdev_resources is not None:
        for number, vdev in chip.vdevs.items():
            out.add("npu_vnpu_aicore_utilization_ratio", vdev.utilization, PERCENT, device_id=device, vdev_id=number)
            out.add("npu_vnpu_memory_total_bytes", vdev.memory_total_kb, KIB, device_id=device, vdev_id=number)
            out.add("npu_vnpu_memory_free_bytes", vdev.memory_free_kb, KIB, device_id=device, vdev_id=number)


def out_of_reach(scenario: Scenario) -> Scenario:
    """The same processes under pids that no Linux gives out (the limit is 2**22), so that none has a name by chance."""
    changed = scenario.copy()
    for chip in changed.chips:
        if isinstance(chip.processes, list):
            chip.processes = [((1 << 22) + pid, used) for pid, used in chip.processes]
    return changed


# ---- Ethernet: the tool where DCMI has no answer ----

PACKETS: dict[str, tuple[str, ...]] = {
    "mac_{}_mac_pause_num": ("npu_network_pause_frames_total", "tx", "rx"),
    "mac_{}_pfc_pkt_num": ("npu_network_pfc_frames_total", "tx", "rx"),
    "mac_{}_total_pkt_num": ("npu_network_packets_total", "tx", "rx"),
    "mac_{}_total_oct_num": ("npu_network_bytes_total", "tx", "rx"),
    "mac_{}_bad_pkt_num": ("npu_network_bad_packets_total", "tx", "rx"),
    "mac_{}_bad_oct_num": ("npu_network_bad_bytes_total", "tx", "rx"),
    "mac_rx_fcs_err_pkt_num": ("npu_network_fcs_errors_total",),
    "nic_{}_all_pkg_num": ("npu_nic_packets_total", "tx", "rx"),
    "nic_{}_all_oct_num": ("npu_nic_bytes_total", "tx", "rx"),
    "roce_{}_all_pkt_num": ("npu_roce_packets_total", "tx", "rx"),
    "roce_{}_rc_pkt_num": ("npu_roce_rc_packets_total", "tx", "rx"),
    "roce_{}_err_pkt_num": ("npu_roce_error_packets_total", "tx", "rx"),
    "roce_{}_cnp_pkt_num": ("npu_roce_cnp_packets_total", "tx", "rx"),
    "roce_cqe_num": ("npu_roce_completions_total",),
    "roce_err_ack_num": ("npu_roce_unexpected_acks_total",),
    "roce_err_psn_num": ("npu_roce_out_of_order_total",),
    "roce_verification_err_num": ("npu_roce_verification_errors_total",),
    "roce_err_qp_status_num": ("npu_roce_qp_status_errors_total",),
    "roce_new_pkt_rty_num": ("npu_roce_retries_total",),
    "roce_ecn_db_num": ("npu_roce_ecn_packets_total",),
}
"""Counter of the structure to family, and the directions where it has them."""

TOOL_KEYS = {
    "roce_err_ack_num": "roce_unexpected_ack_num",
    "roce_err_psn_num": "roce_out_of_order_num",
    "roce_err_qp_status_num": "roce_qp_status_err_num",
}
"""Counters that the tool calls otherwise."""


def _ethernet(out: Truth, _: Scenario, chip: Chip) -> None:
    device = chip.phy_id
    tool = chip.hccn
    if isinstance(chip.packets, dict):
        counts = {name: chip.packets.get(name, 0) for name in PACKET_FIELDS}
        _counters(out, device, counts)
        for way in ("tx", "rx"):
            for level in range(8):
                raw = counts[f"mac_{way}_pfc_pri{level}_pkt_num"]
                out.add("npu_network_pfc_priority_frames_total", raw, device_id=device, direction=way, priority=level)
    elif tool is not None:
        printed = tool.statistics
        _counters(out, device, {**printed, **{name: printed.get(key) for name, key in TOOL_KEYS.items()}})
    rates: tuple[Raw, Raw] = (None, None) if tool is None else (tool.bandwidth_tx, tool.bandwidth_rx)
    if isinstance(chip.rdma_bandwidth, tuple):
        rates = chip.rdma_bandwidth
    for way, rate in zip(("tx", "rx"), rates, strict=True):
        out.add("npu_roce_bandwidth_bytes_per_second", rate, MEGA, device_id=device, direction=way)
    if tool is None:
        return
    out.add("npu_link_up", int(tool.link == "UP"), device_id=device, link="roce")
    out.add("npu_link_speed_bytes_per_second", tool.speed_mbps, MEGA / 8, device_id=device, link="roce")
    out.add("npu_link_up_changes_total", tool.link_up_count, device_id=device, link="roce")
    for key, printed_value in (tool.optical or {}).items():
        _optical(out, device, key, printed_value)


def _counters(out: Truth, device: int, counts: dict[str, int | None] | dict[str, int]) -> None:
    for pattern, (family, *ways) in PACKETS.items():
        if not ways:
            out.add(family, counts.get(pattern), device_id=device)
        for way in ways:
            out.add(family, counts.get(pattern.format(way)), device_id=device, direction=way)


def _optical(out: Truth, device: int, key: str, printed: str) -> None:
    number, _, _unit = printed.partition(" ")
    if key == "present":
        out.add("npu_optical_present", int(printed == "present"), device_id=device)
    elif key == "temperature":
        out.add("npu_optical_temperature_celsius", number, device_id=device)
    elif key == "Vcc":
        out.add("npu_optical_voltage_volts", number, MILLI, device_id=device)
    else:
        way, lane = key[:2].lower(), key[-1]
        out.add("npu_optical_power_watts", number, MILLI, device_id=device, direction=way, lane=lane)


# ---- links between chips, and to the host ----


def _hccs(out: Truth, _: Scenario, chip: Chip) -> None:
    device = chip.phy_id
    first = 2 if chip.mainboard_id in (0x1C, 0x1D) else 1
    if isinstance(chip.hccs_status, tuple):
        out.add("npu_hccs_healthy", int(chip.hccs_status[1] == 3), device_id=device)
    if isinstance(chip.hccs_lanes, tuple):
        ports, *lanes = chip.hccs_lanes
        for link, bits in enumerate(lanes):
            if ports & 1 << link:
                out.add("npu_hccs_lanes", f"{bits:b}".count("1"), device_id=device, link=link)
    if isinstance(chip.hccs, HccsLinks):
        links = chip.hccs
        for link in range(first, 8):
            for family, raw in (
                ("npu_hccs_tx_flits_total", links.tx_flits[link]),
                ("npu_hccs_rx_flits_total", links.rx_flits[link]),
                ("npu_hccs_crc_errors_total", links.crc_errors[link]),
                ("npu_hccs_retries_total", links.retries[link] if links.retries else 0),
            ):
                out.add(family, raw, device_id=device, link=link)
            for way, rate in (("tx", links.tx_gib_per_s[link]), ("rx", links.rx_gib_per_s[link])):
                out.add("npu_hccs_bandwidth_bytes_per_second", rate, GIB, device_id=device, direction=way, link=link)
    if isinstance(chip.sio, tuple):
        for way, raw in zip(("tx", "rx"), chip.sio, strict=True):
            out.add("npu_sio_crc_errors_total", raw, device_id=device, direction=way)


def _pcie(out: Truth, _: Scenario, chip: Chip) -> None:
    device = chip.phy_id
    if isinstance(chip.pcie_bandwidth, PcieBandwidth):
        rates = chip.pcie_bandwidth
        for way, transaction, triple in (
            ("tx", "posted", rates.tx_p), ("tx", "nonposted", rates.tx_np), ("tx", "completion", rates.tx_cpl),
            ("rx", "posted", rates.rx_p), ("rx", "nonposted", rates.rx_np), ("rx", "completion", rates.rx_cpl),
        ):  # fmt: skip
            for statistic, raw in zip(("min", "max", "avg"), triple, strict=True):
                out.add(
                    "npu_pcie_bandwidth_bytes_per_second", raw, Fraction(10**9), device_id=device, direction=way,
                    transaction=transaction, statistic=statistic,
                )  # fmt: skip
        for statistic, raw in zip(("min", "max", "avg"), rates.tx_np_latency, strict=True):
            out.add("npu_pcie_read_latency_seconds", raw, Fraction(1, 10**9), device_id=device, statistic=statistic)
    if isinstance(chip.pcie_errors, tuple):
        for kind, raw in zip(("tx", "rx", "lcrc", "ecrc", "retry"), chip.pcie_errors, strict=True):
            out.add("npu_pcie_errors_total", raw, device_id=device, kind=kind)


# ---- UB ----

UB_PACKETS = {"ub_ipv4": "ub_glb_ipv4", "ub_ipv6": "ub_glb_ipv6", "unic_ipv4": "unic_ipv4", "unic_ipv6": "unic_ipv6",
              "ub_compact": "ub_clan", "ub_mem": "ub_mem", "unknown": "unknown"}  # fmt: skip
UB_FLITS = {("rx", "business"): "rx_busi_flit_num", ("rx", "ack"): "rx_send_ack_flit",
            ("tx", "business"): "tx_busi_flit_num", ("tx", "ack"): "tx_recv_ack_flit"}  # fmt: skip
UB_ERRORS = {
    "rx_drop": "drop_ind_cnt_rx", "rx_error": "err_ind_cnt_rx", "rx_route": "route_err_cnt_rx",
    "rx_out": "out_err_cnt_rx", "rx_length": "length_err_cnt_rx", "tx_drop": "drop_ind_cnt_tx",
    "tx_error": "err_ind_cnt_tx", "tx_out": "out_err_cnt_tx", "tx_length": "length_err_cnt_tx",
    "retry_request": "retry_req_sum", "retry_ack": "retry_ack_sum", "crc": "crc_error_sum",
}  # fmt: skip


def _ub(out: Truth, _: Scenario, chip: Chip) -> None:
    device = chip.phy_id
    if isinstance(chip.ub_link_status, tuple):
        for index, state in enumerate(chip.ub_link_status[1:]):
            if state in (1, 2, 3):  # 0: there is no such port
                out.add("npu_link_up", int(state != 3), device_id=device, link=f"ub{index}")
    for (udie, number), port in chip.ub_ports.items():
        _ub_port(out, {"device_id": device, "udie": udie, "port": number}, port)


def _ub_port(out: Truth, at: Mapping[str, int], port: UbPort) -> None:
    for way, rate in (("tx", port.tx_mb_per_s), ("rx", port.rx_mb_per_s)):
        out.add("npu_ub_bandwidth_bytes_per_second", rate, MEGA, direction=way, **at)
        for kind, name in UB_PACKETS.items():
            raw = port.packets.get(f"{name}_pkt_cnt_{way}", 0)
            out.add("npu_ub_packets_total", raw, direction=way, kind=kind, **at)
    for (way, kind), name in UB_FLITS.items():
        out.add("npu_ub_flits_total", port.packets.get(name, 0), direction=way, kind=kind, **at)
    for kind, name in UB_ERRORS.items():
        out.add("npu_ub_errors_total", port.packets.get(name, 0), kind=kind, **at)


def is_moving(key: Series) -> bool:
    """Whether the series belongs to a family whose values move by themselves."""
    return key[0].startswith(MOVING)
