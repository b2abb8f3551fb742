"""Calls that need more than their members: lists, bitmaps, several calls for one answer, values made of two.

Vendor facts: reference dcmi.md, sections 6 and 7 (calls), 8 (structures), 9 (ranges), 12 (v2).
"""

from __future__ import annotations

from ctypes import c_int, c_ubyte, c_uint
from typing import Any

from npumond.drivers.dcmi import structures as s
from npumond.drivers.dcmi.codes import OK
from npumond.drivers.dcmi.rows import ALL_ONES, ALL_ONES_64, Field, Question, by_field, call_info, ids_of
from npumond.drivers.text import sanitised

MOST_CODES = 128
"""Fault codes that one chip can have at a time; more is not believed."""
MOST_MB = 1 << 32
"""More memory than any chip has; a larger figure is not believed."""
MOST_PROCESSES = 128
"""Room for process records. The library may write 64 whatever the caller has; the manual says 32."""
CORE_LOADS = 64
"""Room for loads by core; the vendor wants 25 and 50."""

Ports = list[tuple[int, int, bool]]
"""UB ports of a chip: die, port, whether it is UBoE."""

_PROCESS_MEMORY = Field("proc_mem_usage", high=MOST_MB << 20)
_TEMPERATURE = Field("temperature", low=-275, high=1000)
_THROTTLE_BITS = {
    "idle": 0,
    "thermal": 2,
    "sw_edp": 3,
    "hw_edp": 4,
    "power_break": 5,
    "svfd": 8,
    "power_capping": 10,
    "load_aware": 11,
}
_HEALTHY_NETWORK = (0, 6)
"""Well, and still initialising: the driver's own exporter counts both as healthy."""
_NETWORK_STATES = range(9)
_HDLC_WELL = 3
_CORE_DAMAGED, _CORE_INVALID = 0xEE, 0xEF
_UB_COUNTERS = {name: Field(name, absent=(ALL_ONES_64,)) for name in s.UB_COUNTERS}
_STATISTICS = ("min", "max", "avg")


# ---- memory ----


def hbm(question: Question, out: s.dcmi_hbm_info) -> None:
    """HBM and the share in use. A size that cannot be means that nothing else in the answer is true either."""
    if not 0 < out.memory_size <= MOST_MB:
        question.rejected.append(f"memory_size is {out.memory_size}")
    elif out.memory_usage > out.memory_size:
        by_field(question, out, without=("memory_usage",))
        question.rejected.append(f"memory_usage {out.memory_usage} is more than memory_size {out.memory_size}")
    else:
        by_field(question, out)
        question.give("memory_usage_ratio", out.memory_usage / out.memory_size)


def ddr(question: Question, out: s.dcmi_get_memory_info_stru) -> None:
    """DDR and what is in use of it: the size less what is available. As with HBM, all hangs on the size."""
    if not 0 < out.memory_size <= MOST_MB:
        question.rejected.append(f"memory_size is {out.memory_size}")
        return
    by_field(question, out)
    used = out.memory_size - out.memory_available
    if used < 0:
        question.rejected.append(f"memory_available {out.memory_available} is more than memory_size {out.memory_size}")
    else:
        question.give("memory_used", used)
        question.give("memory_used_ratio", used / out.memory_size)


# ---- health and faults ----


def network_health(question: Question, out: c_int) -> None:
    """One number, healthy or not, out of nine states."""
    if out.value in _NETWORK_STATES:
        question.give("healthy", out.value in _HEALTHY_NETWORK)
    else:
        question.rejected.append(f"result: {out.value} is no network state")


def throttle(question: Question, out: Any) -> None:
    """One reading a known reason, 1 while it lowers the clock. All ones is not every reason at once: it is unknown."""
    if out.value == ALL_ONES_64:
        question.remarks.append(f"reason: {out.value:#x} stands for unknown")
        return
    for reason, bit in _THROTTLE_BITS.items():
        question.give("reason", out.value >> bit & 1, reason)


def ask_fault_codes(question: Question) -> int:
    """One reading of 1 for each active fault code."""
    code, faults = _fault_codes(question, question.symbol)
    for fault in faults:
        question.give("error_code", 1, f"{fault:08X}")
    return code


def ask_fault_texts(question: Question) -> int:
    """One reading of 1 for each active fault code and the vendor's short text for it."""
    codes = "dcmiv2_get_device_error_code_list" if question.v2 else "dcmi_get_device_errorcode_v2"
    code, faults = _fault_codes(question, codes)
    for fault in faults:
        out = question.caller.take(c_ubyte * 256)
        # Below 256 bytes the library gives the short text.
        code = question.caller.call(question.symbol, *question.ids, fault, out, 255)
        if code == OK:
            question.give("error_code", 1, f"{fault:08X}", sanitised(bytes(out)))
    return code


def _fault_codes(question: Question, symbol: str) -> tuple[int, list[int]]:
    count = question.caller.take(c_int)
    codes = question.caller.take(c_uint * MOST_CODES)
    code = question.caller.call(symbol, *question.ids, count, codes, MOST_CODES)
    if code != OK:
        return code, []
    if not 0 <= count.value <= MOST_CODES:
        question.rejected.append(f"error_count: {count.value} is not within 0 and {MOST_CODES}")
        return code, []
    faults = dict.fromkeys(codes[: count.value])
    if faults.keys() & {0, ALL_ONES}:
        question.rejected.append("error_code: 0 and all ones are no fault codes")
    return code, [fault for fault in faults if fault not in (0, ALL_ONES)]


# ---- processes and virtual NPUs ----


def ask_processes(question: Question) -> int:
    """The number of processes, and the memory of each by its pid on the host."""
    count = question.caller.take(c_int)
    records = question.caller.take(s.dcmi_proc_mem_info * MOST_PROCESSES)
    code = question.caller.call(question.symbol, *question.ids, records, count)
    if code != OK:
        return code
    if not 0 <= count.value <= MOST_PROCESSES:
        question.rejected.append(f"proc_num: {count.value} is not within 0 and {MOST_PROCESSES}")
        return code
    used = _memory_by_pid(question, records[: count.value])
    question.give("proc_num", len(used))
    for pid, held in used.items():
        question.put(_PROCESS_MEMORY, held, str(pid))
    return code


def _memory_by_pid(question: Question, records: list[s.dcmi_proc_mem_info]) -> dict[int, int]:
    """A pid that is listed twice holds both amounts. A record without a pid is no process: the count was too large."""
    used: dict[int, int] = {}
    for record in records:
        if record.proc_id > 0:
            used[record.proc_id] = used.get(record.proc_id, 0) + record.proc_mem_usage
    without_pid = sum(record.proc_id <= 0 for record in records)
    if without_pid:
        question.rejected.append(f"proc_num: {without_pid} of {len(records)} records have no pid")
    return used


def ask_vdevices(question: Question) -> int:
    """First which virtual NPUs there are, then each of them; one that fails does not hide the others."""
    main, activity = question.row.inputs
    total = question.caller.take(s.dcmi_soc_total_resource)
    code = call_info(question, (main, 1), total)
    if code != OK:
        return code
    if total.vdev_num > s.VDEVICES:
        question.rejected.append(f"vdev_num: {total.vdev_num} is more than {s.VDEVICES}")
        return code
    codes = [_vdevice(question, (main, activity), vdev_id) for vdev_id in total.vdev_id[: total.vdev_num]]
    return _merged(codes)


def _vdevice(question: Question, commands: tuple[int, int], vdev_id: int) -> int:
    query = question.caller.take(s.dcmi_vdev_query_stru)
    query.vdev_id = vdev_id
    code = call_info(question, commands, query)
    if code == OK:
        computing = query.query_info.computing
        for field in question.row.fields:
            question.put(field, getattr(computing, field.name), str(vdev_id))
    else:
        question.remarks.append(f"vdev {vdev_id}: {code}")
    return code


def _merged(codes: list[int]) -> int:
    """The code of several calls that make one answer: well when any of them went well, or when there were none."""
    return OK if not codes or OK in codes else codes[0]


# ---- identity ----


def elabel(question: Question, out: s.dcmi_elabel_info) -> None:
    """One reading of 1 with serial number, product, model, manufacturer."""
    key = [sanitised(text) for text in (out.serial_number, out.product_name, out.model, out.manufacturer)]
    if any(key):
        question.give("elabel", 1, *key)


def super_pod(question: Question, out: s.dcmi_spod_info) -> None:
    """One reading of 1 with super-pod id, server index, super-pod device id, chassis id."""
    ids = (out.super_pod_id, out.server_index, out.sdid, out.chassis_id)
    if any(number != ALL_ONES for number in ids):
        question.give("spod", 1, *("" if number == ALL_ONES else str(number) for number in ids))


def text_value(question: Question, out: Any) -> None:
    """One reading of 1 with the text as its key."""
    text = sanitised(bytes(out))
    if text:
        question.give(question.row.derived[0], 1, text)


def ask_affinity(question: Question) -> int:
    """``f(ids, text, &length)``: NUMA cpu list of the host; the length goes in as the room there is."""
    out = question.caller.take(question.row.out)
    length = question.caller.take(c_int)
    length.value = len(out)
    return question.answer(question.caller.call(question.symbol, *question.ids, out, length), out)


def ask_product_type(question: Question) -> int:
    """``f(ids, text, length)``."""
    out = question.caller.take(question.row.out)
    return question.answer(question.caller.call(question.symbol, *question.ids, out, len(out)), out)


def ask_topology(question: Question) -> int:
    """How this chip reaches each of the others: one reading a peer, keyed by its physical id."""
    codes = []
    peers = (chip for chip in question.chips if chip.device.phy_id != question.chip.device.phy_id)
    for peer in peers:
        out = question.caller.take(c_int)
        other = ids_of(peer.device, "device", v2=question.v2)
        codes.append(question.caller.call(question.symbol, *question.ids, *other, out))
        if codes[-1] == OK:
            question.put(question.row.fields[0], out.value, str(peer.device.phy_id))
    return _merged(codes)


# ---- sensors and cores ----


def ntc(question: Question, out: s.dcmi_sensor_info) -> None:
    """The four thermistors of the board."""
    for index, value in enumerate(out.ntc_tmp):
        question.put(_TEMPERATURE, value, f"ntc{index}")


def core_loads(question: Question, out: Any) -> None:
    """Load of each core in percent; damaged and invalid cores have none."""
    for core, load in enumerate(out[: question.filled]):
        if load not in (_CORE_DAMAGED, _CORE_INVALID):
            question.put(question.row.fields[0], load, str(core))


# ---- HCCS and PCIe ----


def hccs_status(question: Question, out: s.dcmi_hccs_statues) -> None:
    """Well when the link layer says so; all ones says nothing."""
    if out.hdlc_status == ALL_ONES:
        question.remarks.append(f"hdlc_status: {out.hdlc_status:#x} stands for unknown")
    else:
        question.give("healthy", out.hdlc_status == _HDLC_WELL)


def hccs_lanes(question: Question, out: s.dcmi_hccs_lane_info) -> None:
    """Lanes in use of each port that is present."""
    for link in range(s.HCCS_LINKS):
        if out.hccs_port_pcs_bitmap >> link & 1:
            question.give("lanes", int(out.pcs_lane_bitmap[link]).bit_count(), str(link))


def by_link(question: Question, out: Any) -> None:
    """Arrays by HCCS link: the links that the product has."""
    for field in question.row.fields:
        values = getattr(out, field.name)
        for link in question.chip.hccs_links:
            question.put(field, values[link], str(link))


def by_statistic(question: Question, out: s.dcmi_pcie_link_bandwidth_info) -> None:
    """Arrays of [min, max, avg]."""
    for field in question.row.fields:
        for statistic, value in zip(_STATISTICS, getattr(out, field.name), strict=True):
            question.put(field, value, statistic)


# ---- UB (950) ----


def ub_links(question: Question, out: s.dcmi_ub_port_link_status) -> None:
    """Ports that exist: up with all or some of their lanes, down while initial."""
    for index, status in enumerate(out.ub_port_status):
        if status in (1, 2, 3):
            question.give("up", status != 3, f"ub{index}")
        elif status != 0:
            question.rejected.append(f"ub{index}: {status} is no port state")


def ask_ub_packets(question: Question) -> int:
    """The counters of every UB port, keyed by die and port."""
    code, ports = _ub_ports(question)
    if code != OK:
        return code
    return _merged([_ub_packets(question, *port) for port in ports])


def _ub_packets(question: Question, udie: int, port: int, uboe: bool) -> int:
    which, out = _ub_buffers(question, udie, port)
    code = question.caller.call(question.symbol, *question.ids, which, out)
    if code == OK:
        for name in s.UB_COUNTERS:
            if uboe or not name.startswith("core_mib_"):
                question.put(_UB_COUNTERS[name], getattr(out, name), str(udie), str(port))
    return _port_code(question, code, udie, port)


def ask_ub_bandwidth(question: Question) -> int:
    """The traffic of every UB port, one port after the other: the call takes a window for each."""
    code, ports = _ub_ports(question)
    if code != OK:
        return code
    return _merged([_ub_bandwidth(question, udie, port) for udie, port, _ in ports])


def _ub_bandwidth(question: Question, udie: int, port: int) -> int:
    which, out = _ub_buffers(question, udie, port)
    code = question.caller.call(question.symbol, *question.ids, *question.window, which, out)
    if code == OK:
        for field in question.row.fields:
            question.put(field, getattr(out, field.name), str(udie), str(port))
    return _port_code(question, code, udie, port)


def _ub_buffers(question: Question, udie: int, port: int) -> tuple[Any, Any]:
    which = question.caller.take(s.dcmi_ub_port_info)
    which.udie_id, which.port_id = udie, port
    return which, question.caller.take(question.row.out)


def _port_code(question: Question, code: int, udie: int, port: int) -> int:
    if code != OK:
        question.remarks.append(f"die {udie} port {port}: {code}")
    return code


def _ub_ports(question: Question) -> tuple[int, Ports]:
    out = question.caller.take(s.dcmi_port_list_info)
    code = question.caller.call("dcmiv2_get_device_port_list_info", *question.ids, out)
    if code != OK:
        return code, []
    dies = out.die_list_data[: min(max(out.die_nums, 0), len(out.die_list_data))]
    return code, [
        (die.die_index, port.port_index, port.mode == 1)
        for die in dies
        for port in die.ports[: min(max(die.port_nums, 0), len(die.ports))]
    ]
