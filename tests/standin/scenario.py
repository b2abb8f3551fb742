"""The state of a simulated driver, and the file that hands it to the compiled stand-in libraries.

Values are raw, in the driver's own units: 0.1 W, 0.01 V, MB, percent. A field that is None makes its call answer
-8255 (not supported); a field that is a `Code` makes it answer that code. The libraries read the file again whenever it
changes, so `scenario.write(path)` while a daemon runs is how a test makes things happen.
"""

from __future__ import annotations

import copy
import os
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

Text = str | bytes

PACKET_FIELDS: tuple[str, ...] = (
    "mac_tx_mac_pause_num", "mac_rx_mac_pause_num",
    "mac_tx_pfc_pkt_num", *(f"mac_tx_pfc_pri{i}_pkt_num" for i in range(8)),
    "mac_rx_pfc_pkt_num", *(f"mac_rx_pfc_pri{i}_pkt_num" for i in range(8)),
    "mac_tx_total_pkt_num", "mac_tx_total_oct_num", "mac_tx_bad_pkt_num", "mac_tx_bad_oct_num",
    "mac_rx_total_pkt_num", "mac_rx_total_oct_num", "mac_rx_bad_pkt_num", "mac_rx_bad_oct_num",
    "mac_rx_fcs_err_pkt_num", "roce_rx_rc_pkt_num", "roce_rx_all_pkt_num", "roce_rx_err_pkt_num",
    "roce_tx_rc_pkt_num", "roce_tx_all_pkt_num", "roce_tx_err_pkt_num", "roce_cqe_num", "roce_rx_cnp_pkt_num",
    "roce_tx_cnp_pkt_num", "roce_err_ack_num", "roce_err_psn_num", "roce_verification_err_num",
    "roce_err_qp_status_num", "roce_new_pkt_rty_num", "roce_ecn_db_num", "nic_tx_all_pkg_num", "nic_tx_all_oct_num",
    "nic_rx_all_pkg_num", "nic_rx_all_oct_num",
)  # fmt: skip
"""The 48 counters of `dcmi_network_pkt_stats_info`, in their order in the structure."""

UB_PACKET_FIELDS: tuple[str, ...] = (
    "ub_glb_ipv4_pkt_cnt_rx", "ub_glb_ipv6_pkt_cnt_rx", "unic_ipv4_pkt_cnt_rx", "unic_ipv6_pkt_cnt_rx",
    "ub_clan_pkt_cnt_rx", "ub_umoc_ctph_cnt_rx", "ub_umoc_ntph_cnt_rx", "ub_mem_pkt_cnt_rx", "unknown_pkt_cnt_rx",
    "drop_ind_cnt_rx", "err_ind_cnt_rx", "to_host_pkt_cnt_rx", "to_imp_pkt_cnt_rx", "to_mar_pkt_cnt_rx",
    "to_link_pkt_cnt_rx", "to_noc_pkt_cnt_rx", "route_err_cnt_rx", "out_err_cnt_rx", "length_err_cnt_rx",
    "rx_busi_flit_num", "rx_send_ack_flit", "ub_glb_ipv4_pkt_cnt_tx", "ub_glb_ipv6_pkt_cnt_tx",
    "unic_ipv4_pkt_cnt_tx", "unic_ipv6_pkt_cnt_tx", "ub_clan_pkt_cnt_tx", "ub_umoc_ctph_cnt_tx",
    "ub_umoc_ntph_cnt_tx", "ub_mem_pkt_cnt_tx", "unknown_pkt_cnt_tx", "drop_ind_cnt_tx", "err_ind_cnt_tx",
    "lpbk_ind_cnt_tx", "out_err_cnt_tx", "length_err_cnt_tx", "tx_busi_flit_num", "tx_recv_ack_flit",
    "retry_req_sum", "retry_ack_sum", "crc_error_sum", "core_mib_rxpausepkts", "core_mib_txpausepkts",
    "core_mib_rxpfcpkts", "core_mib_txpfcpkts", "core_mib_rxbadpkts", "core_mib_txbadpkts", "core_mib_rxbadoctets",
    "core_mib_txbadoctets",
)  # fmt: skip
"""The 48 counters of `dcmi_port_pkt_stats_info`, in their order in the structure."""


@dataclass(frozen=True)
class Code:
    """In place of a value: the call that would read it answers this return code."""

    value: int


class Pcie(NamedTuple):
    """`dcmi_pcie_info_all`: the address on the bus and the ids of the chip."""

    domain: int = 0
    bus: int = 0
    device: int = 0
    function: int = 0
    vendor_id: int = 0x19E5
    subvendor_id: int = 0x0200
    device_id: int = 0xD802
    subdevice_id: int = 0x0100


class Hbm(NamedTuple):
    """`dcmi_hbm_info`; `used_mb` also gives utilisation type 6 unless that is set by itself."""

    size_mb: int
    used_mb: int
    frequency_mhz: int
    temperature: int
    bandwidth_percent: int


class Ddr(NamedTuple):
    """`dcmi_get_memory_info_stru`; used memory is size - available."""

    size_mb: int
    available_mb: int
    frequency_mhz: int = 1200
    hugepage_kb: int = 2048
    hugepages_total: int = 0
    hugepages_free: int = 0
    utilization: int = 0


class Ecc(NamedTuple):
    """`dcmi_ecc_info`; the last two exist in 36-byte builds only."""

    enabled: int = 1
    single: int = 0
    double: int = 0
    total_single: int = 0
    total_double: int = 0
    isolated_single: int = 0
    isolated_double: int = 0
    next_isolated_single: int = 0
    next_isolated_double: int = 0


class EccRecord(NamedTuple):
    """`dcmi_ecc_common_data`: one recorded error address."""

    physical_address: int
    stack_pc_id: int = 0
    register_high: int = 0
    register_low: int = 0
    errors: int = 1
    timestamp: int = 0


class Flash(NamedTuple):
    """`dcmi_flash_info`."""

    flash_id: int = 1
    device_id: int = 2
    vendor: int = 3
    state: int = 8
    size: int = 0x4000000
    sector_count: int = 16384
    manufacturer_id: int = 32


class PcieBandwidth(NamedTuple):
    """`dcmi_pcie_link_bandwidth_info`: MB/ms and ns, each [min, max, avg]."""

    tx_p: tuple[int, int, int]
    tx_np: tuple[int, int, int]
    tx_cpl: tuple[int, int, int]
    tx_np_latency: tuple[int, int, int]
    rx_p: tuple[int, int, int]
    rx_np: tuple[int, int, int]
    rx_cpl: tuple[int, int, int]


class HccsLinks(NamedTuple):
    """HCCS counters and bandwidths by link index, up to 16 of each (get_device_info 16/5 and 16/3; link_bandwidth)."""

    tx_flits: tuple[int, ...]
    rx_flits: tuple[int, ...]
    crc_errors: tuple[int, ...] = ()
    retries: tuple[int, ...] = ()
    tx_gib_per_s: tuple[float, ...] = ()
    rx_gib_per_s: tuple[float, ...] = ()
    subs: tuple[int, ...] = (5, 3)
    """Which sub commands the driver knows: (3,) is an older one, with 32-bit counters that wrap."""


class Vdev(NamedTuple):
    """A vNPU, as main 52 sub 0 and 5 describe it."""

    name: str = "vir01"
    aicore: float = 1.0
    status: int = 0
    container_used: int = 0
    vfid: int = 1
    vfg_id: int = 0
    container_id: int = 0
    memory_mb: int = 3072
    utilization: int = 0
    memory_total_kb: int = 3145728
    memory_free_kb: int = 3145728


class UbPort(NamedTuple):
    """One UB port of a 950; `packets` takes names of UB_PACKET_FIELDS."""

    packets: Mapping[str, int]
    is_uboe: int = 0
    tx_mb_per_s: int = 0
    rx_mb_per_s: int = 0
    credit: tuple[int, ...] = ()
    link: str = "UP"
    speed_gbps: int | None = 400
    optical_dbm: tuple[tuple[float, float], ...] = ()
    """(tx, rx) of each lane as hccn_tool prints them; empty: no optical module."""


@dataclass
class Hccn:
    """What hccn_tool says of a chip's RoCE port. Numbers with decimals are text: it prints them as they stand."""

    link: str = "UP"
    speed_mbps: int | None = 200000
    link_up_count: int = 1
    link_down_count: int = 0
    bandwidth_tx: str = "0.00"
    bandwidth_rx: str = "0.00"
    statistics: dict[str, int] = field(default_factory=dict)
    optical: dict[str, str] | None = None
    """Key to `value unit`, as printed: {"present": "present", "temperature": "42 C", "Tx Power0": "1.12 mW"}."""


@dataclass
class Card:
    """What belongs to a card rather than to a chip: MCU, CPU, label."""

    mcu_id: int = -1
    cpu_id: int = -1
    mcu_power: int | Code | None = None
    mcu_temperature: Text | Code | None = None
    mcu_version: Text | Code | None = None
    elabel_serial: Text | Code | None = None
    elabel_product: Text = ""
    elabel_model: Text = ""
    elabel_manufacturer: Text = "Huawei"


@dataclass
class Chip:
    """One chip: every raw value the driver can be asked for."""

    card_id: int = 0
    chip_id: int = 0
    logic_id: int = 0
    phy_id: int = 0
    lost: int | None = None
    """Not None: every call about the chip answers this code; at init it makes the card's entry -1."""
    init_failed: bool = False
    """At init the card's entry is -1; no effect on a process that has initialised already."""

    chip_type: Text = "Ascend"
    chip_name: Text | Code | None = "910B3"
    chip_version: Text = "V1"
    aicore_count: int = 20
    npu_name: Text | Code | None = ""
    vdie: tuple[int, int, int, int, int] | Code | None = None
    dies: dict[int, tuple[int, ...] | Code] = field(default_factory=dict)
    """Die ids by type (0 NDIE, 1 VDIE, 2 DDIE); `vdie` is type 1, on a 950 type 2."""
    pcie: Pcie | Code | None = None
    board: tuple[int, int, int, int] | Code | None = None
    """board_id, pcb_id, bom_id, slot_id."""
    mainboard_id: int | Code | None = None
    product_type: Text | Code | None = None
    boot_status: int | Code | None = None
    clock_offset: int | Code | None = None
    """Seconds the device clock is ahead of the host's."""
    affinity: Text | Code | None = None
    topology: dict[int, int] = field(default_factory=dict)
    """By logic id of the other chip."""
    topology_default: int | Code | None = None
    share_enable: int | Code | None = None
    netdev_brother: int | Code | None = None
    compatibility: int | Code | None = None
    flash: list[Flash] = field(default_factory=list)
    slot_and_chip: tuple[int, int] | Code | None = None
    elabel_serial: Text | Code | None = None
    """950 only: there the label is asked by device. Elsewhere see Card."""

    temperature: int | Code | None = None
    power: int | Code | None = None
    voltage: int | Code | None = None
    frequencies: dict[int, int | Code] = field(default_factory=dict)
    aicore: tuple[int, int] | Code | None = None
    """Rated and current MHz."""
    aicpu: tuple[int, ...] | Code | None = None
    """Maximum and current MHz, count, then the percentage of each."""
    utilization: dict[int, int | Code] = field(default_factory=dict)
    multi_utilization: tuple[int, int, int, int] | Code | None = None
    """AIC (cube), AIV (vector), AI Core, NPU overall."""
    multi_utilization_period: bool = False
    """Whether the driver has the call that averages over whole seconds."""
    hbm: Hbm | Code | None = None
    ddr: Ddr | Code | None = None
    ecc: dict[int, Ecc | Code] = field(default_factory=dict)
    ecc_times: tuple[int, ...] | Code | None = None
    ecc_records: list[EccRecord] = field(default_factory=list)
    sensors: dict[int, int | tuple[int, ...] | Code] = field(default_factory=dict)
    processes: list[tuple[int, int]] | Code | None = None
    """(host pid, bytes)."""
    process_count: int | None = None
    """How many processes the driver says it has listed, whatever it has; None: the truth."""
    llc: tuple[int, int, int] | Code | None = None
    """Write hit %, read hit %, KB/s."""
    cgroup: tuple[int, int, int] | Code | None = None
    """Limit, maximum used, used, in bytes."""
    dvpp: tuple[int, int, int, int, int] | Code | None = None
    throttle: int | Code | None = None
    """get_device_info 8/9."""
    rated_power: int | Code | None = None
    """get_device_info 8/10."""
    lp_status: int | Code | None = None
    core_load: tuple[int, ...] | Code | None = None
    """get_device_info 11/0: one byte for each AI Core."""
    vector_load: tuple[int, ...] | Code | None = None
    spod: tuple[int, int, int, int, int, int] | Code | None = None
    """sdid, super-pod size, super-pod id, server index, chassis id, type."""
    spod_node: tuple[int, int] | Code | None = None
    domain: tuple[int, int, int, int, int] | Code | None = None
    """Counts of AI CPU, control CPU, data CPU, AI Core, Vector core."""
    info: dict[tuple[int, int], bytes | Code] = field(default_factory=dict)
    """Raw answers of get_device_info by (main, sub); these come before everything above."""

    health: int | Code | None = 0
    error_codes: list[int] | Code | None = field(default_factory=list)
    errorcode_width: int | Code | None = None
    """Not None: the old dcmi_get_device_errorcode works too."""
    events: int | Code | None = 1
    """None: this chip's events cannot be subscribed to."""
    current_events: int | Code | None = None
    """Not None: get_device_current_fault_event works (the 950)."""

    network_health: int | Code | None = None
    device_ips: dict[tuple[int, int], tuple[str, str] | Code] = field(default_factory=dict)
    """(port type, port) to (address, mask)."""
    pcie_bandwidth: PcieBandwidth | Code | None = None
    pcie_errors: tuple[int, int, int, int, int] | Code | None = None
    """get_device_info 55/1: tx, rx, lcrc, ecrc, retries."""
    pcie_error_rate: tuple[int, ...] | Code | None = None
    hccs: HccsLinks | Code | None = None
    hccs_status: tuple[int, int] | Code | None = None
    """pcs bitmap, hdlc."""
    hccs_lanes: tuple[int, ...] | Code | None = None
    """Port bitmap, then the lane bitmap of each link."""
    hccs_credit: tuple[int, ...] | Code | None = None
    sio: tuple[int, int] | Code | None = None
    packets: dict[str, int] | Code | None = None
    """Names of PACKET_FIELDS; those not named are 0."""
    rdma_bandwidth: tuple[int, int] | Code | None = None
    tc_statistics: tuple[int, ...] | Code | None = None
    pfc_duration: tuple[int, ...] | Code | None = None
    extra_statistics: tuple[int, ...] | Code | None = None
    hccn: Hccn | None = None
    ub_ports: dict[tuple[int, int], UbPort] = field(default_factory=dict)
    """(udie, port)."""
    ub_link_status: tuple[int, ...] | Code | None = None
    """The chip's state, then that of up to 36 ports."""
    ub_id: tuple[int, int, int, int] | Code | None = None
    netdevs: dict[str, int | Code] = field(default_factory=dict)
    """Bond name to health."""
    urma_eids: list[tuple[int, ...]] = field(default_factory=list)

    vdevs: dict[int, Vdev] = field(default_factory=dict)
    vdev_resources: tuple[int, int, int, int] | Code | None = None
    """AI Cores in all and free, memory MB in all and free. None: no vNPU calls."""

    acl_attributes: dict[int, int] = field(default_factory=dict)
    acl_memory: tuple[int, int] | None = None
    """Free and total bytes; None: made from hbm or ddr."""
    acl_uuid: bytes | None = None
    acl_latency_us: int = 0
    """How long a stream takes to finish a copy."""
    acl_stuck: bool = False
    """Streams never finish: synchronising times out (507046), resetting hangs."""

    extra: dict[str, str] = field(default_factory=dict)
    """Scenario lines of your own, written last; the first line of a key wins."""


@dataclass(frozen=True)
class Knob:
    """One rule of the scenario: what happens to which calls."""

    kind: str
    function: str
    who: str
    subtype: str
    argument: str

    def line(self) -> str:
        """The rule as the libraries read it."""
        return f"rule {self.kind} {self.function} {self.who} {self.subtype} {self.argument}"


@dataclass(frozen=True)
class Event:
    """One notification of a fault event."""

    logic: int
    code: int
    severity: int = 2
    assertion: int = 1
    node_type: int = 0
    node_id: int = 0
    sub_node_type: int = 0
    sub_node_id: int = 0
    raised_at: int = 0
    name: Text = "fault"
    serial: int = 1

    def line(self) -> str:
        """The event as the libraries read it."""
        numbers = (
            self.serial, self.logic, self.code, self.severity, self.assertion, self.node_type, self.node_id,
            self.sub_node_type, self.sub_node_id, self.raised_at,
        )  # fmt: skip
        return f"event {' '.join(map(str, numbers))} {escape(self.name)}"


Subtype = int | str | tuple[int, int] | None


@dataclass
class Scenario:
    """A host with its chips, and what goes wrong on it.

    Every knob takes the C function's name or a glob, and narrows by `logic` or `card` id and by `subtype`: the type
    argument of the call, or (main, sub) of get_device_info. The last knob of a kind that fits a call wins.
    """

    chips: list[Chip] = field(default_factory=list)
    api: int = 1
    driver_version: Text = "26.0.rc1"
    dcmi_version: Text = "26.0.rc1"
    cards: dict[int, Card] = field(default_factory=dict)
    card_list: list[int] | None = None
    """Overrides the list made from the chips."""
    multi_die_policy: int | Code | None = None
    driver_health: int | Code | None = 0
    driver_error_codes: list[int] | Code | None = field(default_factory=list)
    vdevice_mode: int | Code | None = None
    share_recover: int | Code | None = 0
    error_texts: dict[int, Text] = field(default_factory=dict)
    raw_utilization: bool = False
    """Lets utilisation above 100 through, which the real library turns into 0."""
    process_fill: bool = False
    """resource_info writes all 64 records, whatever the number of processes."""
    encode_time: bool = False
    """Frequencies are wall-clock milliseconds modulo 1 000 000: how old a value on a page is can be computed."""
    noise_init: Text | None = None
    noise_call: Text | None = None
    """Lines printed to stdout at init and by every call."""
    soc_name: str | None = "Ascend910B3"
    run_mode: int = 1
    cann_versions: dict[str, str] = field(default_factory=lambda: {"runtime": "8.5.0"})
    acl_set_device_ms: tuple[int, int] = (0, 0)
    """The first aclrtSetDevice of a process, and later ones."""
    acl_context_mb: int = 0
    """HBM a context needs; without that much free aclrtSetDevice answers 507033."""
    knobs: list[Knob] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def chip(self, logic_id: int) -> Chip:
        """The chip of a logic id."""
        for chip in self.chips:
            if chip.logic_id == logic_id:
                return chip
        raise KeyError(logic_id)

    def copy(self) -> Scenario:
        """A deep copy, to change without touching this one."""
        return copy.deepcopy(self)

    def rc(
        self,
        function: str,
        code: int,
        *,
        logic: int | None = None,
        card: int | None = None,
        subtype: Subtype = None,
    ) -> Self:
        """These calls answer `code` and write nothing; 0 exempts from an earlier rule."""
        return self._knob("rc", function, logic, card, subtype, str(code))

    def delay(
        self,
        function: str,
        ms: int,
        *,
        logic: int | None = None,
        card: int | None = None,
        subtype: Subtype = None,
    ) -> Self:
        """These calls wait before they answer."""
        return self._knob("delay", function, logic, card, subtype, str(ms))

    def hang(
        self, function: str, *, logic: int | None = None, card: int | None = None, subtype: Subtype = None
    ) -> Self:
        """These calls do not return until a later scenario has no such rule."""
        return self._knob("hang", function, logic, card, subtype, "1")

    def crash(
        self, function: str, *, logic: int | None = None, card: int | None = None, subtype: Subtype = None
    ) -> Self:
        """These calls end the process with SIGSEGV."""
        return self._knob("crash", function, logic, card, subtype, "1")

    def overrun(
        self,
        function: str,
        extra_bytes: int,
        *,
        logic: int | None = None,
        card: int | None = None,
        subtype: Subtype = None,
    ) -> Self:
        """These calls write as many bytes (0xA5) past the end of the structure: a newer, larger one."""
        return self._knob("overrun", function, logic, card, subtype, str(extra_bytes))

    def fill(
        self,
        function: str,
        data: bytes,
        *,
        logic: int | None = None,
        card: int | None = None,
        subtype: Subtype = None,
    ) -> Self:
        """The output of these calls begins with these bytes, whatever the values say."""
        return self._knob("fill", function, logic, card, subtype, escape(data))

    def flood(
        self,
        function: str,
        data: bytes,
        times: int,
        *,
        logic: int | None = None,
        card: int | None = None,
        subtype: Subtype = None,
    ) -> Self:
        """These calls print the bytes so many times, on standard output and on standard error, before they answer."""
        return self._knob("flood", function, logic, card, subtype, escape(b"%d/" % times + data))

    def _knob(
        self, kind: str, function: str, logic: int | None, card: int | None, subtype: Subtype, argument: str
    ) -> Self:
        who = "*" if logic is None else str(logic)
        if card is not None:
            who = f"c{card}"
        if isinstance(subtype, tuple):
            subtype = f"{subtype[0]}/{subtype[1]}"
        self.knobs.append(Knob(kind, function, who, "*" if subtype is None else str(subtype), argument))
        return self

    def clear(self) -> Self:
        """Remove all knobs; values stay."""
        self.knobs.clear()
        return self

    def event(self, logic: int, code: int, *, severity: int = 2, assertion: int = 1, **fields: int | Text) -> Event:
        """Add a notification; a subscriber gets it soon after the next write."""
        values = {"serial": len(self.events) + 1, **fields}
        event = Event(logic, code, severity, assertion, **values)  # type: ignore[arg-type]
        self.events.append(event)
        return event

    def text(self) -> str:
        """The scenario as the libraries read it."""
        out = _Lines()
        self._host(out)
        for card_id, card in self.cards.items():
            out.lines.append(f"card {card_id}")
            _card(out, card)
        for chip in self.chips:
            out.lines.append("chip")
            _chip(out, chip, self.api)
        out.lines += [knob.line() for knob in self.knobs]
        out.lines += [event.line() for event in self.events]
        return "\n".join(out.lines) + "\n"

    def write(self, path: Path) -> None:
        """Put the scenario in force: a reader sees the old file or the new one, never half of one."""
        handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(self.text())
        # The clock of file times is coarse; two writes within one tick must still differ.
        now = time.time_ns()
        os.utime(name, ns=(now, now))
        Path(name).chmod(0o644)
        Path(name).rename(path)

    def _host(self, out: _Lines) -> None:
        out.add("api", self.api)
        out.add("driver_version", self.driver_version)
        out.add("dcmi_version", self.dcmi_version)
        out.add("card_list", self.card_list)
        out.add("multi_die_policy", self.multi_die_policy)
        out.add("health", self.driver_health)
        out.add("error_codes", self.driver_error_codes)
        out.add("vdevice_mode", self.vdevice_mode)
        out.add("share_recover", self.share_recover)
        for code, text in self.error_texts.items():
            out.add(f"error_text.{code:08X}", text)
        for flag in ("raw_utilization", "process_fill", "encode_time"):
            out.add(flag, 1 if getattr(self, flag) else None)
        out.add("noise_init", self.noise_init)
        out.add("noise_call", self.noise_call)
        out.add("soc_name", self.soc_name)
        out.add("run_mode", self.run_mode)
        for package, version in self.cann_versions.items():
            out.add(f"cann_version.{package}", version)
        out.add("acl_set_device_ms", self.acl_set_device_ms)
        out.add("acl_context_mb", self.acl_context_mb)


def escape(text: Text) -> str:
    """Any bytes as one word of the scenario file."""
    data = text.encode() if isinstance(text, str) else text
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:/()+,%"
    return "".join(chr(byte) if byte in plain else f"\\x{byte:02x}" for byte in data)


class _Lines:
    """The lines of a scenario file under construction."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, key: str, value: float | Text | Code | Iterable[float] | None) -> None:
        if value is None:
            return
        if isinstance(value, Code):
            text = f"!{value.value}"
        elif isinstance(value, str | bytes):
            text = escape(value)
        elif isinstance(value, int | float):
            text = str(value)
        else:
            text = " ".join(map(str, value))
        self.lines.append(f"{escape(key)} {text}")


def _card(out: _Lines, card: Card) -> None:
    for name in (
        "mcu_id", "cpu_id", "mcu_power", "mcu_temperature", "mcu_version", "elabel_serial", "elabel_product",
        "elabel_model", "elabel_manufacturer",
    ):  # fmt: skip
        out.add(name, getattr(card, name))


_PLAIN = (
    "card_id", "chip_id", "logic_id", "phy_id", "lost", "chip_type", "chip_name", "chip_version", "aicore_count",
    "npu_name", "board", "mainboard_id", "product_type", "boot_status", "clock_offset", "affinity", "share_enable",
    "netdev_brother", "compatibility", "slot_and_chip", "elabel_serial", "temperature", "power", "voltage", "aicore",
    "aicpu", "multi_utilization", "hbm", "ddr", "ecc_times", "llc", "cgroup", "dvpp", "throttle", "rated_power",
    "lp_status", "core_load", "vector_load", "spod", "spod_node", "domain", "health", "error_codes",
    "errorcode_width", "events", "current_events", "network_health", "pcie_errors", "pcie_error_rate", "hccs_status",
    "hccs_lanes", "hccs_credit", "sio", "rdma_bandwidth", "tc_statistics", "pfc_duration", "extra_statistics",
    "ub_link_status", "ub_id", "vdev_resources", "process_count", "acl_memory", "acl_uuid", "acl_latency_us",
)  # fmt: skip
"""Fields written under their own name, as they stand."""

_BY_NUMBER = {"frequencies": "frequency", "utilization": "utilization", "ecc": "ecc", "sensors": "sensor",
              "topology": "topo", "acl_attributes": "acl_attribute"}  # fmt: skip
"""Fields that are a value for each number: `frequency.7`."""


def _chip(out: _Lines, chip: Chip, api: int) -> None:
    for name in _PLAIN:
        out.add(name, getattr(chip, name))
    for name, key in _BY_NUMBER.items():
        for number, value in getattr(chip, name).items():
            out.add(f"{key}.{number}", value)
    out.add("init_failed", 1 if chip.init_failed else None)
    out.add("acl_stuck", 1 if chip.acl_stuck else None)
    out.add("multi_utilization_period", 1 if chip.multi_utilization_period else None)
    out.add("topo", chip.topology_default)
    _identity(out, chip, api)
    _lists(out, chip)
    _hccs_and_pcie(out, chip)
    _network(out, chip)
    _ub(out, chip)
    out.lines += [f"{escape(key)} {value}" for key, value in chip.extra.items()]


def _identity(out: _Lines, chip: Chip, api: int) -> None:
    out.add(f"die.{1 if api == 1 else 2}", chip.vdie)
    for kind, words in chip.dies.items():
        out.add(f"die.{kind}", words)
    pcie = chip.pcie
    if isinstance(pcie, Pcie):
        out.add("pcie_info", (*pcie[4:], *pcie[:4]))
    else:
        out.add("pcie_info", pcie)
    for (main, sub), answer in chip.info.items():
        out.add(f"info.{main}.{sub}", answer)


def _lists(out: _Lines, chip: Chip) -> None:
    if isinstance(chip.processes, list):
        out.add("processes", [number for process in chip.processes for number in process])
    else:
        out.add("processes", chip.processes)
    for index, flash in enumerate(chip.flash):
        out.add(f"flash.{index}", flash)
    for index, record in enumerate(chip.ecc_records):
        out.add(f"ecc_records.{index}", record)
    for index, eids in enumerate(chip.urma_eids):
        out.add(f"urma_eids.{index}", eids)
    if chip.urma_eids:
        out.add("urma_device_count", len(chip.urma_eids))
    for number, vdev in chip.vdevs.items():
        out.add(f"vdev.{number}", (round(vdev.aicore * 1000), *vdev[2:]))
        out.add(f"vdev_name.{number}", vdev.name)


def _hccs_and_pcie(out: _Lines, chip: Chip) -> None:
    if isinstance(chip.hccs, HccsLinks):
        out.add("hccs_statistics", chip.hccs.subs)
        out.add("hccs_tx_flits", chip.hccs.tx_flits)
        out.add("hccs_rx_flits", chip.hccs.rx_flits)
        out.add("hccs_crc_errors", chip.hccs.crc_errors)
        out.add("hccs_retries", chip.hccs.retries)
        if chip.hccs.tx_gib_per_s:
            out.add("hccs_tx_bandwidth", chip.hccs.tx_gib_per_s)
            out.add("hccs_rx_bandwidth", chip.hccs.rx_gib_per_s)
    elif chip.hccs is not None:
        out.add("hccs_statistics", (5, 3))
        out.add("hccs_tx_flits", chip.hccs)
        out.add("hccs_tx_bandwidth", chip.hccs)
    if isinstance(chip.pcie_bandwidth, PcieBandwidth):
        out.add("pcie_bandwidth", [number for triple in chip.pcie_bandwidth for number in triple])
    else:
        out.add("pcie_bandwidth", chip.pcie_bandwidth)


def _network(out: _Lines, chip: Chip) -> None:
    if isinstance(chip.packets, dict):
        names = (*PACKET_FIELDS, "tv_sec", "tv_usec")
        unknown = set(chip.packets) - set(names)
        if unknown:
            raise ValueError(f"no such packet counters: {sorted(unknown)}")
        out.add("packets", [chip.packets.get(name, 0) for name in names])
    else:
        out.add("packets", chip.packets)
    for (kind, port), addresses in chip.device_ips.items():
        if isinstance(addresses, Code):
            out.add(f"device_ip.{kind}.{port}", addresses)
        else:
            out.add(f"device_ip.{kind}.{port}", [int(part) for text in addresses for part in text.split(".")])
    if chip.hccn is not None:
        _hccn(out, chip.hccn)


def _hccn(out: _Lines, hccn: Hccn) -> None:
    out.add("hccn.link", hccn.link)
    out.add("hccn.speed", hccn.speed_mbps)
    out.add("hccn.link_stat", (hccn.link_up_count, hccn.link_down_count))
    out.add("hccn.tx", hccn.bandwidth_tx)
    out.add("hccn.rx", hccn.bandwidth_rx)
    for name, number in hccn.statistics.items():
        out.add(f"hccn.stat.{name}", number)
    for name, text in (hccn.optical or {}).items():
        out.add(f"hccn.optical.{name}", text)


def _ub(out: _Lines, chip: Chip) -> None:
    by_die: dict[int, list[int]] = {}
    for (udie, number), port in chip.ub_ports.items():
        at = f"{udie}.{number}"
        by_die.setdefault(udie, []).extend((number, port.is_uboe))
        unknown = set(port.packets) - set(UB_PACKET_FIELDS)
        if unknown:
            raise ValueError(f"no such UB packet counters: {sorted(unknown)}")
        out.add(f"ub_packets.{at}", [port.is_uboe, *(port.packets.get(name, 0) for name in UB_PACKET_FIELDS)])
        for name, count in port.packets.items():
            out.add(f"ub_stat.{at}.{name}", count)
        out.add(f"ub_bandwidth.{at}", (port.tx_mb_per_s, port.rx_mb_per_s))
        out.add(f"ub_credit.{at}", port.credit or None)
        out.add(f"ub_link.{at}", port.link)
        out.add(f"ub_speed.{at}", port.speed_gbps)
        for lane, powers in enumerate(port.optical_dbm):
            out.add(f"ub_optical.{at}.{lane}", powers)
    for udie, pairs in by_die.items():
        out.add(f"port_list.{udie}", pairs)
    for index, (name, health) in enumerate(chip.netdevs.items()):
        out.add(f"netdev.{index}", name)
        out.add(f"netdev_health.{name}", health)
