"""Scenarios of whole hosts, one for each product generation, and variants of them.

Every chip has other values than its neighbours, and every kind of value another step between chips, so that a mix-up of
chips or of fields shows. Which calls a product has follows reference tables; what it lacks stays None.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.standin.scenario import (
    PACKET_FIELDS,
    UB_PACKET_FIELDS,
    Card,
    Chip,
    Ddr,
    Ecc,
    EccRecord,
    Flash,
    Hbm,
    Hccn,
    HccsLinks,
    Pcie,
    PcieBandwidth,
    Scenario,
    UbPort,
    Vdev,
)

GIB = 1 << 30


def profile(name: str) -> Scenario:
    """The scenario of a product: 910, 910b, a3, 310p_duo, 310 or 950."""
    try:
        return PROFILES[name]()
    except KeyError:
        raise ValueError(f"no profile {name!r}; there are {', '.join(PROFILES)}") from None


# ---- what the generations share ----


def _common(i: int) -> dict[str, Any]:
    return {
        "logic_id": i,
        "phy_id": i,
        "vdie": (0x185011D4, 0x21104518, 0xA0C4ED94, 0x14CC040A, 0x56102000 + i),
        "temperature": 40 + i,
        "voltage": 80 + 2 * i,
        "boot_status": 16,
        "clock_offset": i,
        "affinity": f"{24 * i}-{24 * i + 23}",
        "share_enable": 0,
        "compatibility": 1,
        "flash": [Flash(flash_id=0x100 + i)],
        "aicpu": (1900, 1850 + i, 6, *(3 + i + k for k in range(6))),
        "rated_power": 350000,
        "throttle": 0,
        "lp_status": 0,
        "acl_attributes": _acl_attributes(i, 20),
        "acl_latency_us": 50 + i,
    }


def _acl_attributes(phy: int, cores: int) -> dict[int, int]:
    return {1: 6, 101: cores, 102: cores, 201: 2 * cores, 204: 196608, 302: 100663296, 402: phy, 408: 0, 501: 0}


def _training_chip(i: int) -> dict[str, Any]:
    """A chip with HBM and a RoCE port: 910, 910B and A3."""
    return _common(i) | {
        "power": 900 + 13 * i,
        "frequencies": {2: 1900 + i, 6: 1600 + i, 7: 1800 - 10 * i, 9: 1850},
        "aicore": (1850, 1800 - 10 * i),
        "utilization": {2: 30 + i, 3: 5 + i, 4: 10 + i, 10: 20 + i, 13: 50 + i},
        "hbm": Hbm(65536, 30000 + 500 * i, 1600 + i, 45 + i, 20 + i),
        "ecc": {2: Ecc(1, 2 * i, i, 20 + 2 * i, 10 + i, 0, i % 3)},
        "processes": [(4000 + 10 * i + k, (2 + i) * GIB + k) for k in range(1 + i % 2)],
        "llc": (70 + i, 80 + i, 1000 + i),
        "cgroup": (8 * GIB, 3 * GIB + i, 2 * GIB + i),
        "domain": (6, 1, 1, 20, 40),
        "core_load": tuple((30 + i + k) % 100 for k in range(20)),
        "sensors": {11: 42 + i, 12: 50 + i, 13: 44 + i, 14: 46 + i},
        "network_health": 0,
        "device_ips": {
            (1, 0): (f"192.168.{100 + i}.{10 + i}", "255.255.255.0"),
            (0, 0): (f"192.168.2.{199 + i}", "255.255.255.0"),
        },
        "packets": _packets(i),
        "rdma_bandwidth": (100 + i, 200 + i),
        "tc_statistics": tuple(1000 * i + k for k in range(24)),
        "pfc_duration": tuple(2000 * i + k for k in range(16)),
        "extra_statistics": tuple(3000 * i + k for k in range(12)),
        "hccn": _hccn(i),
        "acl_uuid": bytes(range(16 * i, 16 * i + 16)) if i < 16 else None,
    }


def _packets(i: int) -> dict[str, int]:
    return {name: (1 << 33) + 1000 * i + k for k, name in enumerate(PACKET_FIELDS)} | {
        "tv_sec": 1780000000 + i,
        "tv_usec": 500 + i,
    }


def _hccn(i: int) -> Hccn:
    return Hccn(
        speed_mbps=200000,
        link_up_count=3 + i,
        link_down_count=2 + i,
        bandwidth_tx=f"{1 + i}.25",
        bandwidth_rx=f"{2 + i}.75",
        statistics={name: 100 * i + k for k, name in enumerate(_TOOL_STATISTICS)},
        optical={
            "present": "present",
            "temperature": f"{40 + i} C",
            "Vcc": f"{3290 + i}.30 mV",
            **{f"Tx Power{k}": f"{1 + k / 10 + i / 100:.4f} mW" for k in range(4)},
            **{f"Rx Power{k}": f"{0.5 + k / 10 + i / 100:.4f} mW" for k in range(4)},
        },
    )


_TOOL_STATISTICS = (
    "mac_tx_mac_pause_num", "mac_rx_mac_pause_num", "mac_tx_pfc_pkt_num", "mac_rx_pfc_pkt_num",
    "mac_tx_bad_pkt_num", "mac_rx_bad_pkt_num", "mac_tx_bad_oct_num", "mac_rx_bad_oct_num", "mac_rx_fcs_err_pkt_num",
    "roce_rx_all_pkt_num", "roce_tx_all_pkt_num", "roce_rx_err_pkt_num", "roce_tx_err_pkt_num",
    "roce_rx_cnp_pkt_num", "roce_tx_cnp_pkt_num", "roce_new_pkt_rty_num", "roce_unexpected_ack_num",
    "roce_out_of_order_num", "roce_verification_err_num", "roce_qp_status_err_num", "roce_ecn_db_num",
)  # fmt: skip


def _hccs(i: int) -> HccsLinks:
    links = range(1, 8)
    return HccsLinks(
        tx_flits=(0, *((1 << 34) + 1000 * i + k for k in links)),
        rx_flits=(0, *((1 << 34) + 1000 * i + 100 + k for k in links)),
        crc_errors=(0, *(10 * i + k for k in links)),
        retries=(0, *(20 * i + k for k in links)),
        tx_gib_per_s=(0.0, *(i + k / 2 for k in links)),
        rx_gib_per_s=(0.0, *(i + k / 2 + 0.25 for k in links)),
    )


def _hccs_state() -> dict[str, Any]:
    return {"hccs_status": (0xFE, 3), "hccs_lanes": (0xFE, 0, *(0xF for _ in range(7)))}


def _pcie_bandwidth(i: int) -> PcieBandwidth:
    def triple(k: int) -> tuple[int, int, int]:
        return (10 * i + k, 10 * i + k + 200, 10 * i + k + 100)

    return PcieBandwidth(*map(triple, range(7)))


def _server_topology(chips: Sequence[Chip], type_: int) -> None:
    for chip in chips:
        chip.topology_default = type_


# ---- the products ----


def _first_910() -> Scenario:
    """Eight 910ProB: HBM and DDR, no vector figure, no multi call, no HCCS calls, no mcu."""
    chips = [
        Chip(
            **_training_chip(i)
            | {
                "card_id": i,
                "chip_name": "910ProB",
                "aicore_count": 30,
                "npu_name": None,
                "pcie": Pcie(0, 0x3D + i, 0, 0, device_id=0xD801),
                "board": (0x20, 1, 2, i),
                "mainboard_id": 0,
                "hbm": Hbm(32768, 3400 + 100 * i, 1200 + i, 45 + i, 20 + i),
                "ddr": Ddr(16384, 8000 - 100 * i, 2400, utilization=50 + i),
                "utilization": {2: 30 + i, 3: 5 + i, 4: 10 + i, 5: 15 + i, 10: 20 + i, 13: 50 + i},
                "frequencies": {2: 2000, 6: 1200 + i, 7: 900 + i, 9: 1000},
                "aicore": (1000, 900 + i),
                "domain": (14, 1, 1, 30, 0),
                "errorcode_width": 4,
                "acl_attributes": _acl_attributes(i, 30),
                "acl_uuid": None,
            }
        )
        for i in range(8)
    ]
    _server_topology(chips, 3)
    cards = {i: Card(elabel_serial=f"A910SN{i:06d}", elabel_product="Atlas 800") for i in range(8)}
    return Scenario(chips, cards=cards, driver_version="24.1.0", dcmi_version="24.1.0", soc_name="Ascend910ProB")


def _a2() -> Scenario:
    """Eight 910B3, one chip a card, in a server."""
    chips = [
        Chip(
            **_training_chip(i)
            | _hccs_state()
            | {
                "card_id": i,
                "chip_name": "910B3",
                "pcie": Pcie(0, 0xC1 - 0x10 * i, 0, 0),
                "board": (0x30, 1, 2, i),
                "mainboard_id": 0x02,
                "utilization": {2: 30 + i, 3: 5 + i, 4: 10 + i, 10: 20 + i, 12: 40 + i, 13: 50 + i},
                "multi_utilization": (60 + i, 40 + i, 30 + i, 50 + i),
                "vector_load": tuple((40 + i + k) % 100 for k in range(40)),
                "hccs": _hccs(i),
                "pcie_bandwidth": _pcie_bandwidth(i),
                "pcie_errors": (i, 10 + i, 20 + i, 30 + i, 40 + i),
                "ecc_times": (1780000000 + i, 1780000100 + i),
                "ecc_records": [EccRecord(0x1000 * (i + 1), 1, 2, 3, i + 1, 1780000000 + i)],
                "hccn": _hccn(i),
            }
        )
        for i in range(8)
    ]
    _server_topology(chips, 3)
    cards = {
        i: Card(mcu_id=1, elabel_serial=f"A2SN{i:06d}", elabel_product="Atlas 800T A2", mcu_temperature=f"{30 + i}")
        for i in range(8)
    }
    return Scenario(chips, cards=cards, vdevice_mode=0)


def _a3() -> Scenario:
    """Eight cards of two dies. The power call answers on die 1 too, though the value means nothing there."""
    chips = []
    for i in range(16):
        card, die = divmod(i, 2)
        values = _training_chip(i) | _hccs_state() | {"card_id": card, "chip_id": die}
        values |= {
            "chip_type": "",
            "chip_name": "Ascend910",
            "aicore_count": 24,
            "pcie": Pcie(0, 0x08 + 0x08 * i, 0, 0, device_id=0xD803),
            "board": (0xB0, 1, 2, card),
            "mainboard_id": 0x18,
            "power": 900 + 13 * i if die == 0 else 11 + i,
            "utilization": {2: 30 + i, 3: 5 + i, 4: 10 + i, 10: 20 + i, 12: 40 + i, 13: 50 + i},
            "multi_utilization": (60 + i, 40 + i, 30 + i, 50 + i),
            "vector_load": tuple((40 + i + k) % 100 for k in range(48)),
            "core_load": tuple((30 + i + k) % 100 for k in range(24)),
            "domain": (6, 1, 1, 24, 48),
            "hccs": _hccs(i),
            "hccs_credit": tuple(100 * i + k for k in range(80)),
            "sio": (i, 100 + i),
            "spod": (0x1000 + i, 384, 5, 7, 1, 2),
            "spod_node": (0x1000 + i, 0),
            "netdev_brother": card,
            "acl_attributes": _acl_attributes(i, 24),
        }
        chip = Chip(**values)
        chip.topology[i ^ 1] = 6
        chips.append(chip)
    _server_topology(chips, 7)
    cards = {i: Card(mcu_id=2, elabel_serial=f"A3SN{i:06d}", elabel_product="Atlas 900 A3") for i in range(8)}
    return Scenario(chips, cards=cards, multi_die_policy=0, vdevice_mode=0, soc_name="Ascend910_9391")


def _310p_duo() -> Scenario:
    """Two 300I Duo cards: two chips behind one PCIe address, power of the board from the MCU, vNPUs on one chip."""
    slots = (2, 5)
    chips = []
    for i in range(4):
        slot = slots[i // 2]
        values = _common(i) | {
            "card_id": slot,
            "chip_id": i % 2,
            "chip_name": "310P3",
            "aicore_count": 8,
            "npu_name": None,
            "pcie": Pcie(0, 0x80 + slot, 0, 0, device_id=0xD500),
            "board": (0x64, 1, 2, slot),
            "product_type": "Atlas 300I Duo",
            "frequencies": {1: 1600 + i, 2: 1500, 7: 1080 - i, 9: 1080, 12: 1000 + i},
            "aicore": (1080, 1080 - i),
            "utilization": {2: 60 + i, 3: 5 + i, 4: 10 + i, 5: 15 + i, 12: 40 + i},
            "ddr": Ddr(44280, 40000 - 1000 * i, 1600 + i, utilization=9 + i),
            "ecc": {0: Ecc(1, 2 * i, i, 20 + 2 * i, 10 + i)},
            "processes": [(5000 + 10 * i, (1 + i) * GIB)],
            "dvpp": (1 + i, 11 + i, 21 + i, 31 + i, 41 + i),
            "sensors": {11: 42 + i},
            "vdev_resources": (8, 8 - i, 21527, 20000 - i),
            "acl_attributes": _acl_attributes(i, 8),
            "current_events": None,
        }
        chips.append(Chip(**values))
    chips[3].vdevs = {100: Vdev("vir02", 2.0, 1, 1, utilization=17, memory_total_kb=6291456, memory_free_kb=4194304)}
    for chip in chips:
        chip.topology[chip.logic_id ^ 1] = 5
        chip.topology_default = 2
    cards = {
        slot: Card(
            mcu_id=2, mcu_power=1100 + slot, mcu_version="1.2.3", elabel_serial=f"DUO{slot:06d}", elabel_product="IT21"
        )
        for slot in slots
    }
    return Scenario(chips, cards=cards, driver_version="24.1.0", dcmi_version="24.1.0", soc_name="Ascend310P3")


def _310() -> Scenario:
    """Two 300I cards of four chips: DDR, MCU power, no process list, no events."""
    slots = (4, 7)
    chips = []
    for i in range(8):
        slot = slots[i // 4]
        values = _common(i) | {
            "card_id": slot,
            "chip_id": i % 4,
            "chip_name": "310",
            "aicore_count": 2,
            "npu_name": None,
            "pcie": Pcie(0, 0x10 + i, 0, 0, device_id=0xD100),
            "board": (0x04, 1, 2, slot),
            "product_type": "Atlas 300I-3010",
            "frequencies": {1: 1600, 2: 1200, 6: 1600, 7: 500 + i, 9: 680},
            "aicore": (680, 500 + i),
            "utilization": {2: 20 + i, 3: 5 + i, 4: 10 + i, 5: 15 + i},
            "ddr": Ddr(8192, 6000 - 100 * i, 1600, utilization=26 + i),
            "ecc": {0: Ecc(0, i, 0, 10 + i, 0)},
            "events": None,
            "throttle": None,
            "rated_power": None,
            "lp_status": None,
            "aicpu": None,
            "acl_attributes": _acl_attributes(i, 2),
        }
        chips.append(Chip(**values))
    _server_topology(chips, 5)
    cards = {
        slot: Card(mcu_id=4, mcu_power=600 + slot, elabel_serial=f"I310{slot:06d}", elabel_product="Atlas 300I")
        for slot in slots
    }
    return Scenario(chips, cards=cards, driver_version="23.0.0", dcmi_version="23.0.0", soc_name="Ascend310")


def _950() -> Scenario:
    """Eight 950 in a server: v2 calls only, UB instead of HCCS and RoCE."""
    chips = []
    for i in range(8):
        values = _training_chip(i) | {
            "card_id": i,
            "chip_name": "Ascend950PR",
            "npu_name": "950PR",
            "aicore_count": 32,
            "vdie": (0x29501100, 0x20000518, 0xA0C40000, 0x04CC040A, 0x66102000 + i),
            "pcie": None,
            "board": (0x03, 1, 2, i),
            "mainboard_id": 0x46,
            "slot_and_chip": (i, 0),
            "elabel_serial": f"A5SN{i:06d}",
            "hbm": Hbm(114688, 30000 + 500 * i, 1600 + i, 45 + i, 20 + i),
            "utilization": {2: 30 + i, 3: 5 + i, 4: 10 + i, 10: 20 + i, 12: 40 + i, 13: 50 + i, 14: 60 + i},
            "multi_utilization": (60 + i, 40 + i, 30 + i, 50 + i),
            "multi_utilization_period": True,
            "sio": (i, 100 + i),
            "spod": (0x2000 + i, 128, 3, 4, 2, 1),
            "current_events": 1,
            "device_ips": {},
            "tc_statistics": None,
            "pfc_duration": None,
            "extra_statistics": None,
            "hccn": None,
            "ub_ports": _ub_ports(i),
            "ub_link_status": (1, 1, 1, 1, *(0 for _ in range(33))),
            "ub_id": (0x100 + i, 0xCC08, 1, 2),
            "netdevs": {"bond0": 0, "bond1": i % 2},
            "urma_eids": [(0x2000 + i, 0x3000 + i)],
            "core_load": None,
            "acl_attributes": _acl_attributes(i, 32) | {408: 2},
        }
        chips.append(Chip(**values))
    _server_topology(chips, 8)
    return Scenario(chips, api=2, driver_version="25.7.rc1", dcmi_version="25.7.rc1", soc_name="Ascend950PR_9589")


def _ub_ports(i: int) -> dict[tuple[int, int], UbPort]:
    ports = {}
    for udie, port in ((0, 4), (0, 5), (1, 4)):
        base = (1 << 33) + 10000 * i + 1000 * udie + 100 * port
        ports[udie, port] = UbPort(
            packets={name: base + k for k, name in enumerate(UB_PACKET_FIELDS)},
            is_uboe=int((udie, port) == (1, 4)),
            tx_mb_per_s=100 * (i + 1) + 10 * udie + port,
            rx_mb_per_s=200 * (i + 1) + 10 * udie + port,
            credit=tuple(base % 10000 + k for k in range(34)),
            optical_dbm=((1.5, 1.25), (1.75, 1.125)) if udie == 1 else (),
        )
    return ports


PROFILES: Mapping[str, Callable[[], Scenario]] = {
    "910": _first_910,
    "910b": _a2,
    "a3": _a3,
    "310p_duo": _310p_duo,
    "310": _310,
    "950": _950,
}


# ---- variants ----


def permute_ids(scenario: Scenario, phy_ids: Sequence[int] | None = None) -> Scenario:
    """The same chips with physical ids that differ from the logic ids: as given by logic id, or turned round."""
    changed = scenario.copy()
    order = list(phy_ids) if phy_ids is not None else list(range(len(changed.chips)))[::-1]
    for chip in changed.chips:
        chip.phy_id = order[chip.logic_id]
    return changed


def sparse_cards(scenario: Scenario, card_ids: Sequence[int] | None = None) -> Scenario:
    """The same chips on cards with other numbers: as given in order of the old ones, or 3, 6, 9 ..."""
    changed = scenario.copy()
    old = sorted({chip.card_id for chip in changed.chips})
    new = dict(zip(old, card_ids if card_ids is not None else range(3, 3 * len(old) + 1, 3), strict=True))
    for chip in changed.chips:
        chip.card_id = new[chip.card_id]
        if isinstance(chip.board, tuple):
            chip.board = (*chip.board[:3], chip.card_id)
    changed.cards = {new[number]: replace(card) for number, card in changed.cards.items()}
    return changed


def with_failed_card(scenario: Scenario, card_id: int) -> Scenario:
    """One card failed at init: -1 in the card list, its chips unknown to a process that starts in this state."""
    changed = scenario.copy()
    for chip in changed.chips:
        if chip.card_id == card_id:
            chip.init_failed = True
    return changed


def with_lost_chip(scenario: Scenario, logic_id: int, code: int = -8012) -> Scenario:
    """One chip no longer answers; a process that has initialised keeps it in its list."""
    changed = scenario.copy()
    changed.chip(logic_id).lost = code
    return changed


# ---- the official exporter's samples ----


def from_exporter_sample(path: Path) -> Scenario:
    """The driver state that a samples/npu-exporter/*.json describes, with the constants of its README.

    The calls that the exporter reads and the sample gives no value for stay unsupported, as its pages show none.
    """
    sample = json.loads(path.read_text())
    chips = [_sample_chip(sample, entry) for entry in sample["chips"]]
    cards = {
        card: Card(
            mcu_id=sample["chips_per_card"],
            mcu_power=1100,
            elabel_serial=f"SN{card:08d}",
            elabel_product="Atlas 800T A2",
        )
        for card in range(sample["cards"])
    }
    return Scenario(
        chips, api=sample["api"], driver_version="24.1.rc2", dcmi_version="24.1.rc2", cards=cards,
        soc_name=f"Ascend{sample['chip'].removeprefix('Ascend')}",
    )  # fmt: skip


def _sample_chip(sample: Mapping[str, Any], entry: Mapping[str, Any]) -> Chip:
    i = entry["logic_id"]
    card, chip_id = divmod(i, sample["chips_per_card"])
    load = [entry[f"utilization_{name}_percent"] for name in ("cube", "vector", "aicore", "overall")]
    chip = Chip(
        card_id=card,
        chip_id=chip_id,
        logic_id=i,
        phy_id=i,
        chip_name=sample["chip"],
        vdie=(0x185011D4, 0x21104518, 0xA0C4ED94, 0x14CC040A, 0x56102000 + i),
        pcie=Pcie(0, 0x10 + 0x10 * i, 0, 0),
        board=(sample["board_id"], 0, 0, card),
        mainboard_id=sample["mainboard_id"],
        product_type="Atlas 800T A2",
        temperature=entry["temperature_celsius"],
        power=entry["power_deciwatt"],
        voltage=entry["voltage_centivolt"],
        frequencies={7: entry["aicore_frequency_mhz"], 12: entry["aicore_frequency_mhz"]},
        utilization={2: load[2], 12: load[1], 13: load[3], 10: entry["hbm_bandwidth_percent"]},
        processes=[(1000 + 100 * i + k, GIB + k) for k in range(entry["processes"])],
        health=entry.get("health", 0),
        error_codes=[entry["error_code"]] if "error_code" in entry else [],
        network_health=entry.get("network_health", 0),
        elabel_serial=f"SN{card:08d}",
    )
    single, double = entry["ecc_single_bit"], entry["ecc_double_bit"]
    chip.ecc = {2: Ecc(1, single, double, single, double)}
    chip.multi_utilization = (load[0], load[1], load[2], load[3])
    _sample_memory(chip, entry)
    _sample_links(chip, entry)
    _without_what_it_lacks(chip, sample["chip"])
    if sample["api"] == 2:
        chip.utilization[14] = load[0]
        chip.hccs = None
    return chip


def _sample_memory(chip: Chip, entry: Mapping[str, Any]) -> None:
    chip.hbm = Hbm(
        entry["hbm_total_mb"],
        entry["hbm_used_mb"],
        entry["aicore_frequency_mhz"],
        entry["hbm_temperature_celsius"],
        entry["hbm_bandwidth_percent"],
    )
    if "ddr_total_mb" in entry:
        total, used = entry["ddr_total_mb"], entry["ddr_used_mb"]
        chip.ddr = Ddr(total, total - used, utilization=100 * used // total)


def _sample_links(chip: Chip, entry: Mapping[str, Any]) -> None:
    h, f, p = entry["hccs_base_gib_per_s"], entry["hccs_base_flits"], entry["pcie_base_mb_per_ms"]
    links = range(1, 8)
    chip.hccs = HccsLinks(
        tx_flits=(0, *(f + k for k in links)),
        rx_flits=(0, *(f + k + 100 for k in links)),
        crc_errors=(0, *links),
        tx_gib_per_s=(0.0, *(h + (k - 1) / 2 for k in links)),
        rx_gib_per_s=(0.0, *(h + (k - 1) / 2 + 0.25 for k in links)),
    )
    triples = [(p + 10 * k, p + 10 * k + 2, p + 10 * k + 1) for k in range(6)]
    chip.pcie_bandwidth = PcieBandwidth(
        tx_p=triples[0],
        tx_np=triples[1],
        tx_cpl=triples[2],
        tx_np_latency=(0, 0, 0),
        rx_p=triples[3],
        rx_np=triples[4],
        rx_cpl=triples[5],
    )
    if "sio_base" in entry:
        chip.sio = (entry["sio_base"], entry["sio_base"] + 1)
    chip.hccn = _sample_hccn(chip.logic_id)


def _sample_hccn(n: int) -> Hccn:
    counts = {
        "mac_tx_mac_pause_num": 0, "mac_rx_mac_pause_num": n, "mac_tx_pfc_pkt_num": 12, "mac_rx_pfc_pkt_num": 13,
        "mac_tx_bad_pkt_num": 14, "mac_rx_bad_pkt_num": 15, "mac_tx_bad_oct_num": 16, "mac_rx_bad_oct_num": 17,
        "mac_rx_fcs_err_pkt_num": 18, "roce_rx_all_pkt_num": 1000, "roce_tx_all_pkt_num": 2000,
        "roce_rx_err_pkt_num": 1, "roce_tx_err_pkt_num": 2, "roce_rx_cnp_pkt_num": 3, "roce_tx_cnp_pkt_num": 4,
        "roce_new_pkt_rty_num": 5, "roce_unexpected_ack_num": 6, "roce_out_of_order_num": 7,
        "roce_verification_err_num": 8, "roce_qp_status_err_num": 9, "roce_ecn_db_num": 10,
    }  # fmt: skip
    powers = {f"Tx Power{k}": f"{value} mW" for k, value in enumerate((f"1.1{n}", "1.2", "1.3", "1.4"))}
    powers |= {f"Rx Power{k}": f"{value} mW" for k, value in enumerate(("0.9", "0.8", "0.7", "0.6"))}
    optical = {"present": "present", "temperature": f"4{n} C", "Vcc": "3290.30 mV", **powers}
    return Hccn("UP", 200000, 3, 2, f"1.5{n}", f"2.5{n}", counts, optical)


def _without_what_it_lacks(chip: Chip, name: str) -> None:
    """What the pages show no series of, though the sample has a number for it."""
    is_310p = name.startswith("310P")
    is_910 = name.startswith("910") and not name.startswith("910B")
    if is_310p or is_910:
        chip.multi_utilization = None
        chip.hccs = chip.pcie_bandwidth = None
    if name == "Ascend910":
        chip.pcie_bandwidth = None
    elif not name.startswith("Ascend950"):
        chip.sio = None
    if is_310p:
        chip.hbm = chip.power = chip.network_health = chip.hccn = None
        chip.ecc = {}
        for kind in (10, 13):
            del chip.utilization[kind]
    else:
        chip.ddr = None
        chip.product_type = None
    if is_910:
        del chip.utilization[12]
