"""The stand-in libraries do what the driver reference says: values, codes, ids, blocking, events."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.standin.build import StandIn
from tests.standin.client import INT, Probe, Start, buf, info, wait_until
from tests.standin.profiles import PROFILES, permute_ids, profile, sparse_cards, with_failed_card, with_lost_chip
from tests.standin.scenario import PACKET_FIELDS, UB_PACKET_FIELDS, Code

RETURN_CODES = (*range(-8017, -8000), -8020, -8022, -8023, -8255)


# ---- the products ----

V1_PROFILES = [name for name in PROFILES if name != "950"]


def card_list(probe: Probe) -> list[int]:
    """What the card list call says."""
    reply = probe.call("dcmi_get_card_list", INT, buf(256), 64)
    assert reply.rc == 0
    return list(reply.unpack(f"{reply.number()}i", 1))


@pytest.mark.parametrize("name", V1_PROFILES)
def test_discovery_walks_from_cards_to_chips_and_back(start: Start, name: str) -> None:
    """Cards, chips of each, logic and physical ids agree with the profile, in both directions."""
    scenario = profile(name)
    probe = start(scenario)
    assert card_list(probe) == list(dict.fromkeys(chip.card_id for chip in scenario.chips))
    for chip in scenario.chips:
        reply = probe.call("dcmi_get_device_logic_id", INT, chip.card_id, chip.chip_id)
        assert (reply.rc, reply.number()) == (0, chip.logic_id)
        assert probe.number("dcmi_get_device_phyid_from_logicid", chip.logic_id) == chip.phy_id
        assert probe.number("dcmi_get_device_logicid_from_phyid", chip.phy_id) == chip.logic_id
        for call, key in (("logicid", chip.logic_id), ("phyid", chip.phy_id)):
            reply = probe.call(f"dcmi_get_card_id_device_id_from_{call}", INT, INT, key)
            assert (reply.number(0), reply.number(1)) == (chip.card_id, chip.chip_id)
    assert probe.number("dcmi_get_all_device_count") == len(scenario.chips)


@pytest.mark.parametrize(("name", "chips", "mcu"), [("910", 1, -1), ("910b", 1, 1), ("a3", 2, 2), ("310p_duo", 2, 2),
                                                    ("310", 4, 4)])  # fmt: skip
def test_mcu_is_visible_but_not_counted(start: Start, name: str, chips: int, mcu: int) -> None:
    """The number of devices in a card leaves the MCU out; its id and type are told by their own calls."""
    probe = start(profile(name))
    card = card_list(probe)[0]
    assert probe.number("dcmi_get_device_num_in_card", card) == chips
    reply = probe.call("dcmi_get_device_id_in_card", card, INT, INT, INT)
    assert [reply.number(i) for i in range(3)] == [chips, mcu, -1]
    if mcu >= 0:
        assert probe.number("dcmi_get_device_type", card, mcu) == 1
        assert probe.number("dcmi_get_device_health", card, mcu) == 0
        assert probe.call("dcmi_get_device_temperature", card, mcu, INT).rc == -8255
    assert probe.number("dcmi_get_device_type", card, 0) == 0


def _key(chip: Any, api: int) -> tuple[int, ...]:
    return (chip.card_id, chip.chip_id) if api == 1 else (chip.logic_id,)


@pytest.mark.parametrize("name", PROFILES)
def test_plain_values_are_those_of_the_chip_asked(start: Start, name: str) -> None:
    """Temperature, power, voltage, frequencies and utilisations of every chip, and -8255 for what the product lacks."""
    scenario = profile(name)
    probe = start(scenario)
    prefix = "dcmi_" if scenario.api == 1 else "dcmiv2_"
    for chip in scenario.chips:
        key = _key(chip, scenario.api)
        for field in ("temperature", "voltage"):
            assert probe.number(f"{prefix}get_device_{field}", *key) == getattr(chip, field)
        power = probe.call(f"{prefix}get_device_power_info", *key, INT)
        assert (power.rc, power.number()) == ((-8255, 0) if chip.power is None else (0, chip.power))
        for kind in range(1, 15):
            for call, values in (("frequency", chip.frequencies), ("utilization_rate", chip.utilization)):
                reply = probe.call(f"{prefix}get_device_{call}", *key, kind, INT)
                if kind in values:
                    assert (reply.rc, reply.number()) == (0, values[kind])
                elif call == "frequency" or kind not in (1, 6):
                    assert (reply.rc, reply.number()) == (-8255, 0)


@pytest.mark.parametrize("name", PROFILES)
def test_identity_of_each_chip(start: Start, name: str) -> None:
    """Name, version, die id, PCI address and board of every chip."""
    scenario = profile(name)
    probe = start(scenario)
    v1 = scenario.api == 1
    for chip in scenario.chips:
        key = _key(chip, scenario.api)
        if v1:
            info = probe.call("dcmi_get_device_chip_info", *key, buf(100))
        else:
            info = probe.call("dcmiv2_get_device_chip_info", *key, buf(132))
            assert info.out[0][100:].rstrip(b"\0") == b"950PR"
        kind, chip_name, version, cores = info.unpack("32s32s32sI")
        assert kind.rstrip(b"\0").decode() == chip.chip_type
        assert chip_name.rstrip(b"\0").decode() == chip.chip_name
        assert version.rstrip(b"\0") == b"V1"
        assert cores == chip.aicore_count
        die = ("dcmi_get_device_die_v2", 1) if v1 else ("dcmiv2_get_device_die_id", 2)
        assert probe.call(die[0], *key, die[1], buf(20)).unpack("5I") == chip.vdie
        assert probe.call(die[0], *key, 0, buf(20)).rc == -8255
        board = probe.call("dcmi_get_device_board_info" if v1 else "dcmiv2_get_device_board_info", *key, buf(16))
        assert board.unpack("4I") == chip.board
        pcie = probe.call("dcmi_get_device_pcie_info_v2" if v1 else "dcmiv2_get_device_pcie_info", *key, buf(64))
        if chip.pcie is None:
            assert pcie.rc == -8255
        else:
            assert pcie.unpack("IIIIiIII") == (*chip.pcie[4:], *chip.pcie[:4])  # type: ignore[index]


@pytest.mark.parametrize("name", PROFILES)
def test_memory_and_ecc_of_each_chip(start: Start, name: str) -> None:
    """HBM or DDR with their holes, memory usage rate made from them, ECC by device type."""
    scenario = profile(name)
    probe = start(scenario)
    prefix = "dcmi_" if scenario.api == 1 else "dcmiv2_"
    for chip in scenario.chips:
        key = _key(chip, scenario.api)
        hbm = probe.call(f"{prefix}get_device_hbm_info", *key, buf(32))
        assert hbm.rc == (0 if chip.hbm else -8255)
        if chip.hbm:
            size, frequency, used, temperature, bandwidth = hbm.unpack("QI4xQiI")
            assert (size, used, frequency, temperature, bandwidth) == chip.hbm
            assert probe.number(f"{prefix}get_device_utilization_rate", *key, 6) == 100 * used // size
        if scenario.api == 1:
            ddr = probe.call("dcmi_get_device_memory_info_v3", *key, buf(112))
            assert ddr.rc == (0 if chip.ddr else -8255)
            if chip.ddr:
                assert ddr.unpack("QQI4xQQQI") == chip.ddr
                expected = 100 * (chip.ddr[0] - chip.ddr[1]) // chip.ddr[0]
                assert probe.number("dcmi_get_device_utilization_rate", *key, 1) == expected
        for kind in range(3):
            ecc = probe.call(f"{prefix}get_device_ecc_info", *key, kind, buf(64))
            assert ecc.rc == (0 if kind in chip.ecc else -8255)
            if kind in chip.ecc:
                assert ecc.unpack("7I") == chip.ecc[kind][:7]  # type: ignore[index]
                assert ecc.out[0][28:] == bytes(36)


def test_a2_families(start: Start) -> None:
    """One value of each further family of an A2 chip, at its offset in the structure."""
    scenario = profile("910b")
    probe = start(scenario)
    chip = scenario.chips[3]
    call = probe.call
    assert call("dcmi_get_device_multi_utilization_rate", 3, 0, buf(48)).unpack("4I") == (63, 43, 33, 53)
    assert call("dcmi_get_device_multi_utilization_rate_period", 3, 0, buf(48), 1).rc == -8255
    assert call("dcmi_get_device_aicore_info", 3, 0, buf(8)).unpack("2I") == chip.aicore
    assert call("dcmi_get_device_aicpu_info", 3, 0, buf(76)).unpack("9I") == chip.aicpu
    assert call("dcmi_get_device_llc_perf_para", 3, 0, buf(12)).unpack("3I") == chip.llc
    assert call("dcmi_get_device_cgroup_info", 3, 0, buf(24)).unpack("3Q") == chip.cgroup
    assert call("dcmi_get_device_dvpp_ratio_info", 3, 0, buf(20)).rc == -8255
    assert call("dcmi_get_device_sensor_info", 3, 0, 11, buf(64)).out[0] == bytes([45]) + bytes(63)
    assert call("dcmi_get_device_sensor_info", 3, 0, 14, buf(64)).unpack("i") == (49,)
    processes = call("dcmi_get_device_resource_info", 3, 0, buf(128 * 16), INT)
    assert processes.number(1) == 2
    assert processes.unpack("i4xQi4xQ") == tuple(n for process in chip.processes for n in process)  # type: ignore[union-attr]
    times = call("dcmi_get_multi_ecc_time_info_v2", 3, 0, buf(260))
    assert times.unpack("3I") == (2, *chip.ecc_times)  # type: ignore[misc]
    records = call("dcmi_get_multi_ecc_record_info_v2", 3, 0, {"pair": [1, 2]}, INT, buf(28 * 64))
    assert records.number() == 1
    assert records.unpack("QIIIIi", 1) == chip.ecc_records[0]
    assert probe.number("dcmi_get_device_network_health", 3, 0) == 0
    ip = call("dcmi_get_device_ip", 3, 0, 1, 0, buf(20), buf(20))
    assert (ip.out[0][:4], ip.out[1][:4]) == (bytes([192, 168, 103, 13]), bytes([255, 255, 255, 0]))
    packets = call("dcmi_get_netdev_pkt_stats_info", 3, 0, 0, buf(464)).unpack("50Q")
    assert packets[: len(PACKET_FIELDS)] == tuple(chip.packets[name] for name in PACKET_FIELDS)  # type: ignore[index]
    assert packets[48:] == (1780000003, 503)
    assert call("dcmi_get_netdev_tc_stat_info", 3, 0, buf(192)).unpack("24Q") == chip.tc_statistics
    elabel = call("dcmi_get_card_elabel_v2", 3, buf(1280))
    assert elabel.out[0][1024:].rstrip(b"\0") == b"A2SN000003"
    assert call("dcmi_mcu_get_power_info", 3, INT).rc == -8255
    length = struct.pack("i", 32)
    affinity = call("dcmi_get_affinity_cpu_info_by_device_id", 3, 0, buf(32), buf(4, length))
    assert (affinity.out[0].rstrip(b"\0"), affinity.number(1)) == (b"72-95", 5)
    assert [probe.number("dcmi_get_topo_info_by_device_id", 3, 0, other, 0) for other in (3, 4)] == [0, 3]
    assert abs(probe.number("dcmi_get_device_system_time", 3, 0) - time.time() - 3) < 5
    assert call("dcmi_get_device_flash_info_v2", 3, 0, 0, buf(32)).unpack("Q") == (0x103,)
    assert probe.number("dcmi_get_device_flash_count", 3, 0) == 1
    assert call("dcmi_get_driver_version", buf(64), 64).out[0].rstrip(b"\0") == b"26.0.rc1"
    assert call("dcmi_get_driver_version", buf(64), 63).rc == -8001
    assert call("dcmi_get_dcmi_version", buf(16), 16).out[0].rstrip(b"\0") == b"26.0.rc1"


def test_device_info_tables(start: Start) -> None:
    """Every (main, sub) pair of the table, with its size on the way out."""
    scenario = profile("a3")
    probe = start(scenario)
    chip = scenario.chips[5]
    chip.throttle = 0x804 | 1 << 40
    chip.spod_node = (9, 8)
    scenario.write(probe.calls.with_suffix(""))
    hccs = chip.hccs
    assert hccs is not None
    assert not isinstance(hccs, Code)
    expected: dict[tuple[int, int], tuple[str, tuple[int, ...], int]] = {
        (8, 5): ("I", (0,), 4),
        (8, 9): ("Q", (0x804 | 1 << 40,), 8),
        (8, 10): ("I", (350000,), 36),
        (11, 0): ("24B", tuple(35 + k for k in range(24)), 24),
        (11, 1): ("48B", tuple(45 + k for k in range(48)), 48),
        (12, 1): ("6I", chip.spod, 48),  # type: ignore[dict-item]
        (12, 2): ("2I", (9, 8), 8),
        (14, 0): ("5i", chip.domain, 52),  # type: ignore[dict-item]
        (16, 0): ("2I", (0xFE, 3), 12),
        (16, 1): ("3I", (0xFE, 0, 0xF), 132),
        (16, 3): ("3I", tuple(n & 0xFFFFFFFF for n in hccs.tx_flits[:3]), 512),
        (16, 5): ("3Q", hccs.tx_flits[:3], 1024),
        (56, 0): ("2H", (5, 105), 12),
        (0x8001, 0): ("i", (0,), 4),
    }
    for (main, sub), (layout, values, size) in expected.items():
        rc, data = info(probe, main, sub, 1100, 2, 1)
        assert (rc, len(data)) == (0, size), (main, sub)
        assert struct.unpack_from(f"={layout}", data) == values
    crc = info(probe, 16, 5, 1100, 2, 1)[1][256:]
    assert struct.unpack_from("=3Q", crc) == hccs.crc_errors[:3]
    assert info(probe, 8, 9, 4, 2, 1)[0] == -8001
    assert info(probe, 11, 0, 24, 2, 1)[0] == -8001
    assert info(probe, 55, 1, 148, 2, 1)[0] == -8255
    assert info(probe, 99, 1, 148, 2, 1)[0] == -8255
    chip.info[99, 1] = b"\x01\x00\xff"
    scenario.write(probe.calls.with_suffix(""))
    assert info(probe, 99, 1, 148, 2, 1) == (0, b"\x01\x00\xff")


def test_old_driver_has_only_the_32_bit_flits(start: Start) -> None:
    """With subs (3,) the 64-bit table is not supported and the 32-bit one wraps."""
    scenario = profile("910b")
    for chip in scenario.chips:
        chip.hccs = chip.hccs._replace(subs=(3,))  # type: ignore[union-attr]
    probe = start(scenario)
    assert info(probe, 16, 5, 1100, 0, 0)[0] == -8255
    assert info(probe, 16, 3, 1100, 0, 0)[0] == 0


def test_pcie_errors_and_vnpu(start: Start) -> None:
    """The PCIe error table of an A2 and the vNPU tables of a 310P."""
    probe = start(profile("910b"))
    assert struct.unpack_from("=5I", info(probe, 55, 1, 148, 2, 0)[1]) == (2, 12, 22, 32, 42)
    probe = start(profile("310p_duo"))
    rc, total = info(probe, 52, 1, 360, 5, 1)
    assert (rc, struct.unpack_from("=2I", total)) == (0, (1, 100))
    which = struct.pack("I", 100)
    rc, activity = info(probe, 52, 5, 264, 5, 1, initial=which)
    assert (rc, len(activity)) == (0, 264)
    computing = 8 + 104
    assert struct.unpack_from("=f", activity, computing) == (2.0,)
    assert struct.unpack_from("=I4xQ", activity, computing + 60)[:1] == (17,)
    assert struct.unpack_from("=QQ", activity, computing + 64) == (6291456, 4194304)
    assert activity[8:24].rstrip(b"\0") == b"vir02"
    assert info(probe, 52, 5, 264, 5, 1, initial=struct.pack("I", 101))[0] == -8255


def test_310p_board_power_product_type_and_dvpp(start: Start) -> None:
    """Power comes from the MCU of the card; media engines and product type are there."""
    probe = start(profile("310p_duo"))
    assert [probe.number("dcmi_mcu_get_power_info", card) for card in (2, 5)] == [1102, 1105]
    assert probe.call("dcmi_get_product_type", 5, 1, buf(32), 32).out[0].rstrip(b"\0") == b"Atlas 300I Duo"
    assert probe.call("dcmi_get_product_type", 5, 1, buf(32), 31).rc == -8001
    assert probe.call("dcmi_get_device_dvpp_ratio_info", 5, 1, buf(20)).unpack("5i") == (4, 14, 24, 34, 44)


def test_a3_power_answers_on_the_second_die_too(start: Start) -> None:
    """Die 1 gives a number that means nothing."""
    probe = start(profile("a3"))
    assert [probe.number("dcmi_get_device_power_info", 1, die) for die in (0, 1)] == [926, 14]
    assert probe.number("dcmi_get_netdev_brother_device", 1, 0) == 1
    assert [probe.number("dcmi_get_topo_info_by_device_id", 1, 0, *other) for other in ((1, 1), (2, 0))] == [6, 7]
    assert probe.number("dcmi_get_multi_die_policy") == 0
    assert probe.call("dcmi_get_hccs_avail_credit_info", 1, 0, buf(320)).unpack("80I")[79] == 279


# ---- the 950 ----


def test_v2_family_of_a_950(start: Start) -> None:
    """List first, ids of their own, UB ports, current faults."""
    scenario = profile("950")
    scenario.chips[2].error_codes = [0x81B18603, 0x80E01801]
    scenario.chips[2].health = 2
    probe = start(scenario)
    call = probe.call
    assert call("dcmi_init").rc == -8255
    listed = call("dcmiv2_get_device_list", buf(256), INT, 64)
    assert listed.unpack(f"{listed.number(1)}i") == tuple(range(8))
    assert call("dcmiv2_get_device_list", buf(256), INT, 7).rc == -8001
    assert probe.number("dcmiv2_get_chip_phy_id_by_dev_id", 5) == 5
    assert probe.number("dcmiv2_get_dev_id_by_chip_phy_id", 6) == 6
    slot = call("dcmiv2_get_slot_id_and_chip_id_by_dev_id", 4, INT, INT)
    assert (slot.number(0), slot.number(1)) == (4, 0)
    port = buf(8, struct.pack("2i", 1, 4))
    packets = call("dcmiv2_get_port_pkt_stats_info", 2, port, buf(520))
    values = packets.unpack("2I48Q", 1)
    assert values[:2] == (4, 1)
    expected = scenario.chips[2].ub_ports[1, 4].packets
    assert values[2:] == tuple(expected[name] for name in UB_PACKET_FIELDS)
    assert call("dcmiv2_get_port_pkt_stats_info", 2, buf(8, struct.pack("2i", 1, 9)), buf(520)).rc == -8255
    bandwidth = call("dcmiv2_get_ub_realtime_bandwidth_info", 2, 20, port, buf(16))
    assert bandwidth.unpack("2I", 1) == (314, 614)
    assert call("dcmiv2_get_ub_realtime_bandwidth_info", 2, 227, port, buf(16)).rc == -8001
    assert call("dcmiv2_get_ub_port_link_status", 2, buf(148)).unpack("5i") == (1, 1, 1, 1, 0)
    ports = call("dcmiv2_get_device_port_list_info", 2, buf(532))
    assert ports.unpack("7i") == (2, 0, 2, 4, 0, 5, 0)
    assert struct.unpack_from("=4i", ports.out[0], 4 + 264) == (1, 1, 4, 1)
    names = call("dcmiv2_get_device_netdev_list_info", 3, buf(132))
    assert names.unpack("i16s16s") == (2, b"bond0".ljust(16, b"\0"), b"bond1".ljust(16, b"\0"))
    assert probe.number("dcmiv2_get_device_netdev_health", 3, {"str": "bond1"}, 5) == 1
    faults = call("dcmiv2_get_device_current_fault_event", 2, buf(360 * 8), 8, INT)
    assert faults.number(1) == 2
    assert struct.unpack_from("=IH", faults.out[0], 8) == (0x81B18603, 2)
    assert call("dcmiv2_get_device_multi_utilization_rate", 7, buf(48)).unpack("4I") == (67, 47, 37, 57)
    assert call("dcmiv2_get_device_proc_mem_info", 1, buf(128 * 16), INT).number(1) == 2
    elabel = call("dcmiv2_get_device_elabel_info", 1, buf(1280))
    assert elabel.out[0][1024:].rstrip(b"\0") == b"A5SN000001"
    assert info(probe, 56, 0, 12, 3)[1][:4] == struct.pack("2H", 3, 103)
    assert probe.number("dcmiv2_get_topo_info_by_device_id", 1, 2) == 8


def test_v1_families_know_nothing_of_a_950_and_the_other_way_round(start: Start) -> None:
    """After the init of one family the calls of the other are not ready."""
    probe = start(profile("950"))
    assert probe.call("dcmi_get_card_list", INT, buf(256), 64).rc == -8005
    assert probe.call("dcmi_get_device_temperature", 0, 0, INT).rc == -8012
    probe = start(profile("910b"))
    assert probe.call("dcmiv2_init").rc == -8255
    assert probe.call("dcmiv2_get_device_temperature", 0, INT).rc == -8012


@pytest.mark.slow
def test_period_call_blocks_for_its_seconds(start: Start) -> None:
    """multi_utilization_rate_period averages over whole seconds, and takes them."""
    probe = start(profile("950"))
    begun = time.monotonic()
    assert probe.call("dcmiv2_get_device_multi_utilization_rate_period", 0, buf(48), 1).unpack("I") == (60,)
    assert time.monotonic() - begun >= 1
    assert probe.call("dcmiv2_get_device_multi_utilization_rate_period", 0, buf(48), 5).rc == -8001


# ---- init and the snapshot ----


def test_before_init(start: Start) -> None:
    """Card list -8005, logic id -8012, device count 0."""
    probe = start(profile("910b"), init=None)
    assert probe.call("dcmi_get_card_list", INT, buf(256), 64).rc == -8005
    assert probe.call("dcmi_get_device_logic_id", INT, 0, 0).rc == -8012
    assert probe.number("dcmi_get_all_device_count") == 0
    assert probe.number("dcmi_get_device_num_in_card", 0) == 0


@pytest.mark.parametrize("code", [-8020, -8005, -8255])
def test_init_fails_as_told_and_works_later(start: Start, tmp_path: Path, code: int) -> None:
    """An init that failed can be tried again in the same process."""
    scenario = profile("910b")
    probe = start(scenario.copy().rc("dcmi_init", code), init=None)
    assert probe.call("dcmi_init").rc == code
    scenario.write(tmp_path / "scenario")
    assert probe.call("dcmi_init").rc == 0
    assert len(card_list(probe)) == 8


def test_init_can_hang_and_be_slow(start: Start, tmp_path: Path) -> None:
    """A hung init goes on when released, and takes its snapshot then; a delayed one takes its time."""
    scenario = profile("910b")
    probe = start(with_failed_card(scenario, 0).hang("dcmi_init"), init=None)
    hung = probe.send("dcmi_init")
    assert probe.call("dcmi_get_card_list", INT, buf(256), 64).rc == -8005
    assert not probe.answered(hung)
    scenario.copy().delay("dcmi_init", 50).write(tmp_path / "scenario")
    begun = time.monotonic()
    assert probe.reply(hung).rc == 0
    assert time.monotonic() - begun >= 0.05
    assert card_list(probe) == list(range(8))


def test_values_are_live_and_cards_are_a_snapshot(start: Start, tmp_path: Path) -> None:
    """A new value is seen at once; a new card only by a new process, and a lost one stays in the list."""
    scenario = profile("910b")
    chips = scenario.chips
    scenario.chips = chips[:6]
    probe = start(scenario)
    scenario.chips = chips
    scenario.chip(2).temperature = 77
    scenario.chip(3).lost = -8012
    scenario.write(tmp_path / "scenario")
    assert probe.number("dcmi_get_device_temperature", 2, 0) == 77
    assert card_list(probe) == list(range(6))
    assert probe.call("dcmi_get_device_temperature", 6, 0, INT).rc == -8007
    assert probe.call("dcmi_get_device_temperature", 3, 0, INT).rc == -8012
    health = probe.call("dcmi_get_device_health", 3, 0, INT)
    assert (health.rc, health.number()) == (-8012, -1)
    assert probe.call("dcmi_get_device_logic_id", INT, 3, 0).number() == 3
    later = start(scenario)
    assert card_list(later) == [0, 1, 2, -1, 4, 5, 6, 7]
    scenario.chip(3).lost = None
    scenario.write(tmp_path / "scenario")
    assert probe.number("dcmi_get_device_temperature", 3, 0) == 43
    assert later.call("dcmi_get_device_temperature", 3, 0, INT).rc == -8007


def test_lost_chip_with_another_code(start: Start) -> None:
    """The code of a lost chip can be chosen, and a chip taken out of the scenario is lost too."""
    scenario = profile("910b")
    probe = start(scenario)
    changed = with_lost_chip(scenario, 1, -8006)
    del changed.chips[7]
    changed.write(probe.calls.with_suffix(""))
    assert probe.call("dcmi_get_device_voltage", 1, 0, INT).rc == -8006
    assert probe.call("dcmi_get_device_voltage", 7, 0, INT).rc == -8012


def test_failed_card_is_a_hole_in_the_list(start: Start) -> None:
    """-1 stands where the card would; on an A3 one die takes its card along, unless dies are independent."""
    probe = start(with_failed_card(profile("910b"), 2))
    assert card_list(probe) == [0, 1, -1, 3, 4, 5, 6, 7]
    assert probe.number("dcmi_get_all_device_count") == 7
    a3 = profile("a3")
    a3.chip(5).init_failed = True
    assert card_list(start(a3))[2] == -1
    a3.multi_die_policy = 1
    probe = start(a3)
    assert card_list(probe)[2] == 2
    assert probe.number("dcmi_get_device_num_in_card", 2) == 1


def test_permuted_ids_and_sparse_cards(start: Start) -> None:
    """Physical ids and card numbers that have nothing to do with the logic ids."""
    scenario = sparse_cards(permute_ids(profile("910b"), [3, 1, 4, 0, 5, 7, 2, 6]))
    probe = start(scenario)
    assert card_list(probe) == [3, 6, 9, 12, 15, 18, 21, 24]
    assert probe.number("dcmi_get_device_phyid_from_logicid", 2) == 4
    assert probe.number("dcmi_get_device_logicid_from_phyid", 4) == 2
    assert probe.number("dcmi_get_device_temperature", 9, 0) == 42
    assert probe.call("dcmi_get_device_temperature", 2, 0, INT).rc == -8007


def test_card_list_override_and_too_small_a_list(start: Start) -> None:
    """Any list can be served; a caller's list that is too small is a bad argument."""
    scenario = profile("910b")
    scenario.card_list = [0, -1, -1, 99]
    probe = start(scenario)
    assert card_list(probe) == [0, -1, -1, 99]
    assert probe.call("dcmi_get_card_list", INT, buf(256), 3).rc == -8001


# ---- knobs ----


def test_every_return_code_can_be_produced(start: Start, tmp_path: Path) -> None:
    """All codes of the reference, by rule and by value, without anything written."""
    scenario = profile("910b")
    probe = start(scenario)
    for code in RETURN_CODES:
        scenario.clear().rc("dcmi_get_device_temperature", code, logic=1)
        scenario.chip(2).voltage = Code(code)
        scenario.write(tmp_path / "scenario")
        reply = probe.call("dcmi_get_device_temperature", 1, 0, INT)
        assert (reply.rc, reply.number()) == (code, 0)
        assert probe.call("dcmi_get_device_voltage", 2, 0, INT).rc == code
        assert probe.number("dcmi_get_device_temperature", 0, 0) == 40


def test_rules_select_function_chip_card_and_subtype(start: Start) -> None:
    """Globs, logic ids, card ids, subtypes and (main, sub) pairs; the last rule that fits wins."""
    scenario = sparse_cards(profile("910b"))
    scenario.rc("dcmi_get_device_*", -8006, logic=1).rc("dcmi_get_device_health", 0, logic=1)
    scenario.rc("dcmi_get_card_elabel_v2", -8014, card=9)
    scenario.rc("dcmi_get_device_utilization_rate", -8010, logic=0, subtype=10)
    scenario.rc("dcmi_get_device_info", -8011, logic=0, subtype=(16, 5))
    probe = start(scenario)
    assert probe.call("dcmi_get_device_temperature", 6, 0, INT).rc == -8006
    assert probe.number("dcmi_get_device_health", 6, 0) == 0
    assert probe.number("dcmi_get_device_temperature", 3, 0) == 40
    assert probe.call("dcmi_get_card_elabel_v2", 9, buf(1280)).rc == -8014
    assert probe.call("dcmi_get_card_elabel_v2", 3, buf(1280)).rc == 0
    assert probe.call("dcmi_get_device_utilization_rate", 3, 0, 10, INT).rc == -8010
    assert probe.number("dcmi_get_device_utilization_rate", 3, 0, 2) == 30
    assert info(probe, 16, 5, 1024, 3, 0)[0] == -8011
    assert info(probe, 16, 3, 1024, 3, 0)[0] == 0


def test_a_hung_call_holds_nobody_up_and_goes_on_when_released(start: Start, tmp_path: Path) -> None:
    """Other chips answer meanwhile; the blocked call answers from the scenario that released it."""
    scenario = profile("910b")
    probe = start(scenario.copy().hang("dcmi_get_device_temperature", logic=3))
    hung = probe.send("dcmi_get_device_temperature", 3, 0, INT)
    assert [probe.number("dcmi_get_device_temperature", card, 0) for card in (0, 1, 2, 4)] == [40, 41, 42, 44]
    assert probe.number("dcmi_get_device_voltage", 3, 0) == 86
    assert not probe.answered(hung)
    scenario.chip(3).temperature = 55
    scenario.write(tmp_path / "scenario")
    assert probe.reply(hung, timeout=2).number() == 55


def test_delay(start: Start) -> None:
    """A delayed call takes that long; others do not wait for it."""
    probe = start(profile("910b").delay("dcmi_get_device_temperature", 150, logic=3))
    begun = time.monotonic()
    slow = probe.send("dcmi_get_device_temperature", 3, 0, INT)
    assert probe.number("dcmi_get_device_temperature", 2, 0) == 42
    assert not probe.answered(slow)
    assert probe.reply(slow).number() == 43
    assert time.monotonic() - begun >= 0.15


def test_crash(start: Start) -> None:
    """The process ends by SIGSEGV."""
    probe = start(profile("910b").crash("dcmi_get_device_hbm_info", logic=3))
    assert probe.call("dcmi_get_device_hbm_info", 2, 0, buf(32)).rc == 0
    probe.send("dcmi_get_device_hbm_info", 3, 0, buf(32))
    assert probe.returncode() == -signal.SIGSEGV


@pytest.mark.slow
def test_missing_symbols(start: Start) -> None:
    """dlsym does not find what an older driver lacks."""
    probe = start(profile("910b"), missing=("dcmi_get_device_multi_utilization_rate", "dcmiv2_init"))
    assert probe.lacks("dcmi_get_device_multi_utilization_rate")
    assert probe.lacks("dcmiv2_init")
    assert probe.number("dcmi_get_device_temperature", 0, 0) == 40


def test_nothing_but_the_vendor_names_is_exported(built: Callable[..., StandIn]) -> None:
    """Both libraries can be in one process without taking each other's symbols."""
    standin = built()
    for library, prefixes in ((standin.dcmi, ("dcmi_", "dcmiv2_")), (standin.acl, ("acl",))):
        listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
        names = [line.split()[-1] for line in listed.stdout.splitlines()]
        assert names
        assert all(name.startswith(prefixes) for name in names)


@pytest.mark.slow
def test_longer_ecc_structure_of_newer_drivers(start: Start) -> None:
    """A 36-byte build writes the two counters that follow."""
    scenario = profile("910b")
    scenario.chip(0).ecc[2] = scenario.chip(0).ecc[2]._replace(next_isolated_double=9)  # type: ignore[union-attr]
    probe = start(scenario, ecc_bytes=36)
    assert probe.call("dcmi_get_device_ecc_info", 0, 0, 2, buf(64)).unpack("9I")[7:] == (0, 9)


def test_overrun_writes_past_the_structure(start: Start) -> None:
    """As many bytes as told, right behind the end that is known."""
    probe = start(profile("910b").overrun("dcmi_get_device_hbm_info", 16))
    out = probe.call("dcmi_get_device_hbm_info", 0, 0, buf(64)).out[0]
    assert out[32:48] == b"\xa5" * 16
    assert out[48:] == bytes(16)


def test_fill_serves_any_bytes(start: Start) -> None:
    """All-ones, NUL and newline included."""
    data = b"\xff" * 8 + b"\0\n\\ #"
    probe = start(profile("910b").fill("dcmi_get_device_hbm_info", data))
    assert probe.call("dcmi_get_device_hbm_info", 0, 0, buf(32)).out[0][: len(data)] == data


def test_odd_text(start: Start) -> None:
    """Invalid UTF-8, NUL inside, and a name that fills its field without an end."""
    scenario = profile("910b")
    scenario.chip(0).chip_name = b"\xff\xfe\0x !"
    scenario.chip(1).chip_name = "N" * 40
    scenario.cards[1].elabel_serial = b"\x80" * 256
    probe = start(scenario)
    assert probe.call("dcmi_get_device_chip_info", 0, 0, buf(100)).out[0][32:64] == b"\xff\xfe\0x !".ljust(32, b"\0")
    assert probe.call("dcmi_get_device_chip_info", 1, 0, buf(100)).out[0][32:64] == b"N" * 32
    assert probe.call("dcmi_get_card_elabel_v2", 1, buf(1280)).out[0][1024:] == b"\x80" * 256


def test_utilisation_above_100(start: Start, tmp_path: Path) -> None:
    """The library turns it into 0 as the real one does; the knob lets it through."""
    scenario = profile("910b")
    scenario.chip(0).utilization[2] = 101
    scenario.chip(0).multi_utilization = (1000, 4, 30, 5)
    probe = start(scenario)
    assert probe.number("dcmi_get_device_utilization_rate", 0, 0, 2) == 0
    assert probe.call("dcmi_get_device_multi_utilization_rate", 0, 0, buf(48)).unpack("4I") == (0, 4, 30, 30)
    scenario.raw_utilization = True
    scenario.write(tmp_path / "scenario")
    assert probe.number("dcmi_get_device_utilization_rate", 0, 0, 2) == 101
    assert probe.call("dcmi_get_device_multi_utilization_rate", 0, 0, buf(48)).unpack("I") == (1000,)


def test_all_64_process_records(start: Start) -> None:
    """With the knob on the library writes 64 records, whatever the count."""
    scenario = profile("910b")
    scenario.process_fill = True
    probe = start(scenario)
    reply = probe.call("dcmi_get_device_resource_info", 0, 0, buf(65 * 16, b"\xee" * 65 * 16), INT)
    assert reply.number(1) == 1
    assert reply.out[0][16:1024] == bytes(1008)
    assert reply.out[0][1024:] == b"\xee" * 16


def test_the_process_count_may_lie(start: Start) -> None:
    """The count says what it is told to; the records are those that there are."""
    scenario = profile("910b")
    scenario.chip(0).processes, scenario.chip(0).process_count = [(11, 5)], -1
    reply = start(scenario).call("dcmi_get_device_resource_info", 0, 0, buf(64 * 16), INT)
    assert reply.number(1) == -1
    assert reply.unpack("i4xQ") == (11, 5)


def test_a_flood_prints_what_it_is_told_before_the_call_returns(start: Start) -> None:
    """The bytes so many times and nothing between them, of the call and the chip that are named."""
    probe = start(profile("910b").flood("dcmi_get_device_temperature", b"\0\xff /", 3, logic=1))
    probe.number("dcmi_get_device_temperature", 0, 0)
    assert probe.stdout.read_bytes() == b""
    probe.number("dcmi_get_device_temperature", 1, 0)
    assert probe.stdout.read_bytes() == b"\0\xff /" * 3


def test_the_clock_shifts_the_time_of_day_and_no_other(built: Callable[..., StandIn], tmp_path: Path) -> None:
    """By the seconds in the file, for every way to ask; what only counts is left alone."""
    (tmp_path / "clock").write_text("-86400")
    environ = {**os.environ, "LD_PRELOAD": str(built().clock), "NPUMOND_STANDIN_CLOCK": str(tmp_path / "clock")}
    asked = "import time; print(time.time(), time.clock_gettime(time.CLOCK_REALTIME), time.monotonic())"
    before = (time.time(), time.time(), time.monotonic())
    said = subprocess.run([sys.executable, "-c", asked], env=environ, capture_output=True, text=True, check=True)
    shifted = [now - then for now, then in zip(map(float, said.stdout.split()), before, strict=True)]
    assert [round(shift / 100) * 100 for shift in shifted] == [-86400, -86400, 0]


def test_quiet_unless_told(start: Start, tmp_path: Path) -> None:
    """Nothing on stdout by default; with the knobs a line at init and one for each call."""
    scenario = profile("910b")
    probe = start(scenario)
    probe.number("dcmi_get_device_temperature", 0, 0)
    assert probe.stdout.read_bytes() == b""
    scenario.noise_init = "DrvMngGetConsoleLogLevel failed. (ret=4)"
    probe = start(scenario)
    assert probe.stdout.read_text() == "DrvMngGetConsoleLogLevel failed. (ret=4)\n"
    scenario.noise_call = b"\xff{}"
    scenario.write(tmp_path / "scenario")
    probe.number("dcmi_get_device_temperature", 0, 0)
    assert probe.stdout.read_bytes().endswith(b"\n\xff{}\n")


def test_call_record(start: Start) -> None:
    """Function, chip or card, subtype and code of every call, also of those a monitor must never make."""
    probe = start(sparse_cards(profile("910b")))
    probe.call("dcmi_get_device_utilization_rate", 6, 0, 12, INT)
    probe.call("dcmi_get_card_elabel_v2", 9, buf(1280))
    info(probe, 16, 5, 4, 3, 0)
    probe.call("dcmi_set_device_reset", 3, 0, 1)
    assert probe.recorded() == [
        "dcmi_init - - 0",
        "dcmi_get_device_utilization_rate 1 12 0",
        "dcmi_get_card_elabel_v2 c9 - 0",
        "dcmi_get_device_info 0 16/5 -8001",
        "dcmi_set_device_reset 0 - 0",
    ]


def test_encoded_time(start: Start) -> None:
    """A frequency can tell when it was read."""
    scenario = profile("910b")
    scenario.encode_time = True
    probe = start(scenario)
    encoded = probe.number("dcmi_get_device_frequency", 0, 0, 7)
    age = (int(time.time() * 1000) - encoded) % 1_000_000
    assert age < 5000


# ---- links ----


@pytest.mark.slow
def test_bandwidth_calls_take_their_window(start: Start) -> None:
    """PCIe, HCCS and RDMA sleep for the time they sample; HCCS totals add up in the caller's structure."""
    scenario = profile("910b")
    probe = start(scenario)
    begun = time.monotonic()
    pcie = probe.call("dcmi_get_pcie_link_bandwidth_info", 2, 0, buf(88, struct.pack("i", 60)))
    assert time.monotonic() - begun >= 0.06
    assert pcie.unpack("i21I")[1:] == tuple(n for triple in scenario.chip(2).pcie_bandwidth for n in triple)  # type: ignore[union-attr]
    begun = time.monotonic()
    hccs = probe.call("dcmi_get_hccs_link_bandwidth_info", 2, 0, buf(280, struct.pack("i", 50)))
    assert time.monotonic() - begun >= 0.05
    tx = scenario.chip(2).hccs.tx_gib_per_s  # type: ignore[union-attr]
    assert hccs.unpack("i4x2d16d")[1] == sum(tx)
    assert hccs.unpack("i4x2d16d")[3:11] == tx
    again = probe.call("dcmi_get_hccs_link_bandwidth_info", 2, 0, buf(280, struct.pack("i", 1) + hccs.out[0][4:]))
    assert again.unpack("i4xd")[1] == 2 * sum(tx)
    for name, size, time_ms in (("pcie", 88, 2001), ("hccs", 280, 1001), ("hccs", 280, 0)):
        window = buf(size, struct.pack("i", time_ms))
        assert probe.call(f"dcmi_get_{name}_link_bandwidth_info", 2, 0, window).rc == -8001
    begun = time.monotonic()
    assert probe.call("dcmi_get_rdma_bandwidth_info", 2, 0, 0, 100, buf(8)).unpack("2I") == (102, 202)
    assert time.monotonic() - begun >= 0.1
    assert probe.call("dcmi_get_rdma_bandwidth_info", 2, 0, 0, 99, buf(8)).rc == -8001


# ---- health and events ----


def test_health_and_error_codes(start: Start, tmp_path: Path) -> None:
    """Levels, up to 128 codes, too small a list, texts short and long, faulty chips of a card."""
    scenario = profile("310p_duo")
    scenario.chip(2).health = 2
    scenario.chip(2).error_codes = [0x80E01801, 0x81078603]
    scenario.error_texts[0x80E01801] = "HBM multi-bit ECC"
    probe = start(scenario)
    assert probe.number("dcmi_get_device_health", 5, 0) == 2
    codes = probe.call("dcmi_get_device_errorcode_v2", 5, 0, INT, buf(512), 128)
    assert (codes.number(), codes.unpack("2I", 1)) == (2, (0x80E01801, 0x81078603))
    assert probe.call("dcmi_get_device_errorcode_v2", 5, 0, INT, buf(512), 1).rc == -8001
    text = probe.call("dcmi_get_device_errorcode_string", 5, 0, 0x80E01801 - (1 << 32), buf(48), 48)
    assert text.out[0].rstrip(b"\0") == b"HBM multi-bit ECC"
    assert probe.call("dcmi_get_device_errorcode_string", 5, 0, 1, buf(47), 47).rc == -8001
    assert [probe.number("dcmi_get_fault_device_num_in_card", card) for card in (2, 5)] == [0, 1]
    assert probe.call("dcmi_get_device_errorcode", 5, 0, INT, buf(512), INT).rc == -8255
    assert probe.number("dcmi_get_driver_health") == 0
    scenario.driver_health = 3
    scenario.driver_error_codes = [7]
    scenario.chip(1).error_codes = list(range(1, 129))
    scenario.write(tmp_path / "scenario")
    assert probe.number("dcmi_get_driver_health") == 3
    assert probe.call("dcmi_get_driver_errorcode", INT, buf(512), 128).unpack("I", 1) == (7,)
    assert probe.call("dcmi_get_device_errorcode_v2", 2, 1, INT, buf(512), 128).number() == 128


def test_events_come_on_another_thread_and_history_does_not(start: Start, tmp_path: Path) -> None:
    """A subscriber gets what is added after it subscribed, bursts in order, with every field in its place."""
    scenario = profile("910b")
    scenario.event(0, 0x80E01801)
    probe = start(scenario)
    no_filter = {"filter": [0, 0, 0, 0]}
    assert probe.call("dcmi_subscribe_fault_event", -1, -1, no_filter, None).rc == -8001
    assert probe.call("dcmi_subscribe_fault_event", -1, -1, no_filter, {"callback": True}).rc == 0
    assert probe.call("dcmi_subscribe_fault_event", -1, -1, no_filter, {"callback": True}).rc == -8020
    scenario.event(
        3, 0x81078603, severity=1, assertion=0, node_type=4, node_id=5, sub_node_type=6, sub_node_id=7,
        raised_at=1780000000123, name=b"link \xff down",
    )  # fmt: skip
    for serial in range(100, 150):
        scenario.event(4, 0x80CB8008, serial=serial)
    scenario.write(tmp_path / "scenario")
    wait_until(lambda: len(probe.events()) == 51)
    events = probe.events()
    first = bytes.fromhex(events[0]["hex"])
    assert struct.unpack_from("=i4xIH6B2i4xQ", first) == (0, 0x81078603, 3, 4, 5, 6, 7, 1, 0, 2, 2, 1780000000123)
    assert first[40:].split(b"\0")[0] == b"link \xff down"
    serials = [struct.unpack_from("=i", bytes.fromhex(event["hex"]), 20)[0] for event in events[1:]]
    assert serials == list(range(100, 150))
    assert probe.call("dcmi_get_fault_event", 0, 0, 0, no_filter, buf(360)).rc == -8020


def test_event_filters_by_value(start: Start, tmp_path: Path) -> None:
    """Severity means this level and above; a subscription to one chip hears only of that chip."""
    scenario = profile("910b")
    probe = start(scenario)
    by_severity = {"filter": [2, 0, 2, 0]}
    assert probe.call("dcmi_subscribe_fault_event", 3, 0, by_severity, {"callback": True}).rc == 0
    for logic, severity in ((3, 1), (2, 3), (3, 2), (3, 3)):
        scenario.event(logic, 0x1000 + severity, severity=severity)
    scenario.write(tmp_path / "scenario")
    wait_until(lambda: len(probe.events()) >= 2)
    codes = [struct.unpack_from("=I", bytes.fromhex(event["hex"]), 8)[0] for event in probe.events()]
    assert codes == [0x1002, 0x1003]


def test_waiting_for_an_event(start: Start, tmp_path: Path) -> None:
    """get_fault_event returns with the next event, or -8006 when its time is over."""
    scenario = profile("910b")
    probe = start(scenario)
    no_filter = {"filter": [0, 0, 0, 0]}
    assert probe.call("dcmi_get_fault_event", 2, 0, 30, no_filter, buf(360)).rc == -8006
    waiting = probe.send("dcmi_get_fault_event", 2, 0, -1, no_filter, buf(360))
    scenario.event(2, 0x80E01801)
    scenario.write(tmp_path / "scenario")
    assert struct.unpack_from("=I", probe.reply(waiting).out[0], 8) == (0x80E01801,)


def test_310_has_no_events(start: Start) -> None:
    """Its chips cannot be subscribed to."""
    probe = start(profile("310"))
    reply = probe.call("dcmi_subscribe_fault_event", 4, 0, {"filter": [0, 0, 0, 0]}, {"callback": True})
    assert reply.rc == -8255
