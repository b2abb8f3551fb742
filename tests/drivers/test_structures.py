"""The structures have the compiler's layout: in numbers here, and in the reference's own tables where it is at hand."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from npumond.drivers.dcmi import structures

# fmt: off
LAYOUTS: dict[str, tuple[int, int, dict[str, tuple[int, int]]]] = {
    "dcmi_chip_info": (100, 4, {
        "chip_type": (0, 32), "chip_name": (32, 32), "chip_ver": (64, 32), "aicore_cnt": (96, 4),
    }),
    "dcmi_chip_info_v2": (132, 4, {
        "chip_type": (0, 32), "chip_name": (32, 32), "chip_ver": (64, 32), "aicore_cnt": (96, 4),
        "npu_name": (100, 32),
    }),
    "dcmi_pcie_info_all": (64, 4, {
        "venderid": (0, 4), "subvenderid": (4, 4), "deviceid": (8, 4), "subdeviceid": (12, 4), "domain": (16, 4),
        "bdf_busid": (20, 4), "bdf_deviceid": (24, 4), "bdf_funcid": (28, 4), "reserve": (32, 32),
    }),
    "dcmi_board_info": (16, 4, {
        "board_id": (0, 4), "pcb_id": (4, 4), "bom_id": (8, 4), "slot_id": (12, 4),
    }),
    "dcmi_elabel_info": (1280, 1, {
        "product_name": (0, 256), "model": (256, 256), "manufacturer": (512, 256), "manufacturer_date": (768, 256),
        "serial_number": (1024, 256),
    }),
    "dcmi_die_id": (20, 4, {
        "soc_die": (0, 20),
    }),
    "dcmi_aicore_info": (8, 4, {
        "freq": (0, 4), "cur_freq": (4, 4),
    }),
    "dcmi_aicpu_info": (76, 4, {
        "max_freq": (0, 4), "cur_freq": (4, 4), "aicpu_num": (8, 4), "util_rate": (12, 64),
    }),
    "dcmi_hbm_info": (32, 8, {
        "memory_size": (0, 8), "freq": (8, 4), "memory_usage": (16, 8), "temp": (24, 4),
        "bandwith_util_rate": (28, 4),
    }),
    "dcmi_get_memory_info_stru": (112, 8, {
        "memory_size": (0, 8), "memory_available": (8, 8), "freq": (16, 4), "hugepagesize": (24, 8),
        "hugepages_total": (32, 8), "hugepages_free": (40, 8), "utiliza": (48, 4), "reserve": (52, 60),
    }),
    "dcmi_ecc_info": (28, 4, {
        "enable_flag": (0, 4), "single_bit_error_cnt": (4, 4), "double_bit_error_cnt": (8, 4),
        "total_single_bit_error_cnt": (12, 4), "total_double_bit_error_cnt": (16, 4),
        "single_bit_isolated_pages_cnt": (20, 4), "double_bit_isolated_pages_cnt": (24, 4),
    }),
    "dcmi_multi_utilization_info": (48, 4, {
        "aic_util": (0, 4), "aiv_util": (4, 4), "aicore_util": (8, 4), "npu_util": (12, 4), "reserved": (16, 32),
    }),
    "dcmi_proc_mem_info": (16, 8, {
        "proc_id": (0, 4), "proc_mem_usage": (8, 8),
    }),
    "dcmi_llc_perf": (12, 4, {
        "wr_hit_rate": (0, 4), "rd_hit_rate": (4, 4), "throughput": (8, 4),
    }),
    "dcmi_cgroup_info": (24, 8, {
        "limit_in_bytes": (0, 8), "max_usage_in_bytes": (8, 8), "usage_in_bytes": (16, 8),
    }),
    "dcmi_dvpp_ratio": (20, 4, {
        "vdec_ratio": (0, 4), "vpc_ratio": (4, 4), "venc_ratio": (8, 4), "jpege_ratio": (12, 4),
        "jpegd_ratio": (16, 4),
    }),
    "dcmi_pcie_link_bandwidth_info": (88, 4, {
        "profiling_time": (0, 4), "tx_p_bw": (4, 12), "tx_np_bw": (16, 12), "tx_cpl_bw": (28, 12),
        "tx_np_lantency": (40, 12), "rx_p_bw": (52, 12), "rx_np_bw": (64, 12), "rx_cpl_bw": (76, 12),
    }),
    "dcmi_pcie_link_error_info": (148, 4, {
        "tx_err_cnt": (0, 4), "rx_err_cnt": (4, 4), "lcrc_err_cnt": (8, 4), "ecrc_err_cnt": (12, 4),
        "retry_cnt": (16, 4), "rsv": (20, 128),
    }),
    "dcmi_hccs_bandwidth_info": (280, 8, {
        "profiling_time": (0, 4), "total_txbw": (8, 8), "total_rxbw": (16, 8), "tx_bandwidth": (24, 128),
        "rx_bandwidth": (152, 128),
    }),
    "dcmi_hccs_statistic_info": (512, 4, {
        "tx_cnt": (0, 64), "rx_cnt": (64, 64), "crc_err_cnt": (128, 64), "retry_cnt": (192, 64),
        "reserved_field_cnt": (256, 256),
    }),
    "dcmi_hccs_statistic_info_u64": (1024, 8, {
        "tx_cnt": (0, 128), "rx_cnt": (128, 128), "crc_err_cnt": (256, 128), "retry_cnt": (384, 128),
        "reserved": (512, 512),
    }),
    "dcmi_hccs_lane_info": (132, 4, {
        "hccs_port_pcs_bitmap": (0, 4), "pcs_lane_bitmap": (4, 64), "reserve": (68, 64),
    }),
    "dcmi_hccs_statues": (12, 4, {
        "pcs_status": (0, 4), "hdlc_status": (4, 4), "reserve": (8, 4),
    }),
    "dcmi_sio_crc_err_statistics_info": (12, 2, {
        "tx_error_count": (0, 2), "rx_error_count": (2, 2), "reserved": (4, 8),
    }),
    "dcmi_spod_info": (48, 4, {
        "sdid": (0, 4), "super_pod_size": (4, 4), "super_pod_id": (8, 4), "server_index": (12, 4),
        "chassis_id": (16, 4), "super_pod_type": (20, 4), "reserve": (24, 24),
    }),
    "dcmi_network_rdma_bandwidth_info": (8, 4, {
        "tx_bandwidth": (0, 4), "rx_bandwidth": (4, 4),
    }),
    "dcmi_network_pkt_stats_info": (464, 8, {
        "mac_tx_mac_pause_num": (0, 8), "mac_rx_mac_pause_num": (8, 8), "mac_tx_pfc_pkt_num": (16, 8),
        "mac_tx_pfc_pri0_pkt_num": (24, 8), "mac_tx_pfc_pri1_pkt_num": (32, 8), "mac_tx_pfc_pri2_pkt_num": (40, 8),
        "mac_tx_pfc_pri3_pkt_num": (48, 8), "mac_tx_pfc_pri4_pkt_num": (56, 8), "mac_tx_pfc_pri5_pkt_num": (64, 8),
        "mac_tx_pfc_pri6_pkt_num": (72, 8), "mac_tx_pfc_pri7_pkt_num": (80, 8), "mac_rx_pfc_pkt_num": (88, 8),
        "mac_rx_pfc_pri0_pkt_num": (96, 8), "mac_rx_pfc_pri1_pkt_num": (104, 8), "mac_rx_pfc_pri2_pkt_num": (112, 8),
        "mac_rx_pfc_pri3_pkt_num": (120, 8), "mac_rx_pfc_pri4_pkt_num": (128, 8),
        "mac_rx_pfc_pri5_pkt_num": (136, 8), "mac_rx_pfc_pri6_pkt_num": (144, 8),
        "mac_rx_pfc_pri7_pkt_num": (152, 8), "mac_tx_total_pkt_num": (160, 8), "mac_tx_total_oct_num": (168, 8),
        "mac_tx_bad_pkt_num": (176, 8), "mac_tx_bad_oct_num": (184, 8), "mac_rx_total_pkt_num": (192, 8),
        "mac_rx_total_oct_num": (200, 8), "mac_rx_bad_pkt_num": (208, 8), "mac_rx_bad_oct_num": (216, 8),
        "mac_rx_fcs_err_pkt_num": (224, 8), "roce_rx_rc_pkt_num": (232, 8), "roce_rx_all_pkt_num": (240, 8),
        "roce_rx_err_pkt_num": (248, 8), "roce_tx_rc_pkt_num": (256, 8), "roce_tx_all_pkt_num": (264, 8),
        "roce_tx_err_pkt_num": (272, 8), "roce_cqe_num": (280, 8), "roce_rx_cnp_pkt_num": (288, 8),
        "roce_tx_cnp_pkt_num": (296, 8), "roce_err_ack_num": (304, 8), "roce_err_psn_num": (312, 8),
        "roce_verification_err_num": (320, 8), "roce_err_qp_status_num": (328, 8), "roce_new_pkt_rty_num": (336, 8),
        "roce_ecn_db_num": (344, 8), "nic_tx_all_pkg_num": (352, 8), "nic_tx_all_oct_num": (360, 8),
        "nic_rx_all_pkg_num": (368, 8), "nic_rx_all_oct_num": (376, 8), "tv_sec": (384, 8), "tv_usec": (392, 8),
        "reserved": (400, 64),
    }),
    "dcmi_base_resource": (64, 8, {
        "token": (0, 8), "token_max": (8, 8), "task_timeout": (16, 8), "vfg_id": (24, 4), "vip_mode": (28, 1),
        "reserved": (29, 31),
    }),
    "dcmi_computing_resource": (96, 8, {
        "aic": (0, 4), "aiv": (4, 4), "dsa": (8, 2), "rtsq": (10, 2), "acsq": (12, 2), "cdqm": (14, 2),
        "c_core": (16, 2), "ffts": (18, 2), "sdma": (20, 2), "pcie_dma": (22, 2), "memory_size": (24, 8),
        "event_id": (32, 4), "notify_id": (36, 4), "stream_id": (40, 4), "model_id": (44, 4),
        "topic_schedule_aicpu": (48, 2), "host_ctrl_cpu": (50, 2), "host_aicpu": (52, 2), "device_aicpu": (54, 2),
        "topic_ctrl_cpu_slot": (56, 2), "vdev_aicore_utilization": (60, 4), "vdev_memory_total": (64, 8),
        "vdev_memory_free": (72, 8), "reserved": (80, 12),
    }),
    "dcmi_media_resource": (56, 4, {
        "jpegd": (0, 4), "jpege": (4, 4), "vpc": (8, 4), "vdec": (12, 4), "pngd": (16, 4), "venc": (20, 4),
        "reserved": (24, 32),
    }),
    "dcmi_vdev_query_info": (256, 8, {
        "name": (0, 16), "status": (16, 4), "is_container_used": (20, 4), "vfid": (24, 4), "vfg_id": (28, 4),
        "container_id": (32, 8), "base": (40, 64), "computing": (104, 96), "media": (200, 56),
    }),
    "dcmi_vdev_query_stru": (264, 8, {
        "vdev_id": (0, 4), "query_info": (8, 256),
    }),
    "dcmi_soc_total_resource": (360, 8, {
        "vdev_num": (0, 4), "vdev_id": (4, 128), "vfg_num": (132, 4), "vfg_bitmap": (136, 4), "base": (144, 64),
        "computing": (208, 96), "media": (304, 56),
    }),
    "dcmi_ub_port_info": (8, 4, {
        "udie_id": (0, 4), "port_id": (4, 4),
    }),
    "dcmi_ub_bandwidth_info": (16, 4, {
        "tx_bandwidth": (0, 4), "rx_bandwidth": (4, 4), "reserved": (8, 8),
    }),
    "dcmi_ub_port_link_status": (148, 4, {
        "ub_link_status": (0, 4), "ub_port_status": (4, 144),
    }),
    "port_info": (8, 4, {
        "port_index": (0, 4), "mode": (4, 4),
    }),
    "die_port_list_info": (264, 4, {
        "die_index": (0, 4), "port_nums": (4, 4), "ports": (8, 256),
    }),
    "dcmi_port_list_info": (532, 4, {
        "die_nums": (0, 4), "die_list_data": (4, 528),
    }),
    "dcmi_port_pkt_stats_info": (520, 8, {
        "port_id": (0, 4), "is_uboe_port": (4, 4), "ub_glb_ipv4_pkt_cnt_rx": (8, 8),
        "ub_glb_ipv6_pkt_cnt_rx": (16, 8), "unic_ipv4_pkt_cnt_rx": (24, 8), "unic_ipv6_pkt_cnt_rx": (32, 8),
        "ub_clan_pkt_cnt_rx": (40, 8), "ub_umoc_ctph_cnt_rx": (48, 8), "ub_umoc_ntph_cnt_rx": (56, 8),
        "ub_mem_pkt_cnt_rx": (64, 8), "unknown_pkt_cnt_rx": (72, 8), "drop_ind_cnt_rx": (80, 8),
        "err_ind_cnt_rx": (88, 8), "to_host_pkt_cnt_rx": (96, 8), "to_imp_pkt_cnt_rx": (104, 8),
        "to_mar_pkt_cnt_rx": (112, 8), "to_link_pkt_cnt_rx": (120, 8), "to_noc_pkt_cnt_rx": (128, 8),
        "route_err_cnt_rx": (136, 8), "out_err_cnt_rx": (144, 8), "length_err_cnt_rx": (152, 8),
        "rx_busi_flit_num": (160, 8), "rx_send_ack_flit": (168, 8), "ub_glb_ipv4_pkt_cnt_tx": (176, 8),
        "ub_glb_ipv6_pkt_cnt_tx": (184, 8), "unic_ipv4_pkt_cnt_tx": (192, 8), "unic_ipv6_pkt_cnt_tx": (200, 8),
        "ub_clan_pkt_cnt_tx": (208, 8), "ub_umoc_ctph_cnt_tx": (216, 8), "ub_umoc_ntph_cnt_tx": (224, 8),
        "ub_mem_pkt_cnt_tx": (232, 8), "unknown_pkt_cnt_tx": (240, 8), "drop_ind_cnt_tx": (248, 8),
        "err_ind_cnt_tx": (256, 8), "lpbk_ind_cnt_tx": (264, 8), "out_err_cnt_tx": (272, 8),
        "length_err_cnt_tx": (280, 8), "tx_busi_flit_num": (288, 8), "tx_recv_ack_flit": (296, 8),
        "retry_req_sum": (304, 8), "retry_ack_sum": (312, 8), "crc_error_sum": (320, 8),
        "core_mib_rxpausepkts": (328, 8), "core_mib_txpausepkts": (336, 8), "core_mib_rxpfcpkts": (344, 8),
        "core_mib_txpfcpkts": (352, 8), "core_mib_rxbadpkts": (360, 8), "core_mib_txbadpkts": (368, 8),
        "core_mib_rxbadoctets": (376, 8), "core_mib_txbadoctets": (384, 8), "reserved": (392, 128),
    }),
    "dcmi_sensor_info": (64, 4, {
        "uchar": (0, 1), "ushort": (0, 2), "uint": (0, 4), "iint": (0, 4), "temp": (0, 2), "ntc_tmp": (0, 16),
        "data": (0, 64),
    }),
    "lp_rated_power_info": (36, 4, {
        "rated_power": (0, 4), "reserved": (4, 32),
    }),
}
# fmt: on
"""Size, alignment, and (offset, size) of every field, in bytes."""

KINDS: dict[str, type[Any]] = {
    name: kind
    for name, kind in vars(structures).items()
    if isinstance(kind, type)
    and issubclass(kind, (ctypes.Structure, ctypes.Union))
    and kind.__module__ == structures.__name__
}

REFERENCE = Path(os.environ.get("NPUMOND_SHARED", Path(__file__).parents[3] / "shared")) / "reference/dcmi.md"


class Table(NamedTuple):
    """One table of section 8."""

    size: int
    alignment: int
    fields: dict[str, tuple[int, int]]


def layout(kind: type[Any]) -> Table:
    """What ctypes made of our fields."""
    names = [field[0] for field in kind._fields_]
    fields = {name: (getattr(kind, name).offset, getattr(kind, name).size) for name in names}
    return Table(ctypes.sizeof(kind), ctypes.alignment(kind), fields)


def reference_tables(text: str) -> Iterator[tuple[str, Table]]:
    """Name and table of every structure that the reference gives a table of."""
    heads = r"^\*\*`(\w+)`\*\* — (\d+) B, align (\d+)\n\n\| off[^\n]*\n\|[-:| ]+\n((?:\|[^\n]*\n)+)"
    for name, size, alignment, body in re.findall(heads, text, re.MULTILINE):
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]
        yield name, Table(int(size), int(alignment), {row[1]: (int(row[0]), int(row[3])) for row in cells})


@pytest.mark.parametrize("name", KINDS)
def test_every_structure_has_the_layout_written_down_here(name: str) -> None:
    """Size, alignment, offsets and sizes of all fields, none left out."""
    assert layout(KINDS[name]) == Table(*LAYOUTS[name])


def test_no_layout_is_written_down_for_a_structure_that_is_gone() -> None:
    """The numbers above and the module speak of the same structures."""
    assert set(LAYOUTS) == set(KINDS)


@pytest.mark.skipif(not REFERENCE.is_file(), reason=f"{REFERENCE} is not there")
def test_every_structure_agrees_with_the_reference() -> None:
    """The reference's tables come from a compiler, so they are a second witness."""
    tables = dict(reference_tables(REFERENCE.read_text()))
    common = sorted(set(tables) & set(KINDS))

    assert len(common) > 30
    assert {name: layout(KINDS[name]) for name in common} == {name: tables[name] for name in common}


@pytest.mark.skipif(not REFERENCE.is_file(), reason=f"{REFERENCE} is not there")
@pytest.mark.parametrize(
    ("names", "first"),
    [(structures.PACKET_COUNTERS, 0), (structures.UB_COUNTERS, 8)],
)
def test_counters_stand_in_the_order_of_the_reference(names: tuple[str, ...], first: int) -> None:
    """48 counters of 8 bytes: a swap of two neighbours would look like data."""
    text = REFERENCE.read_text()

    assert len(names) == 48
    assert [name for index, name in enumerate(names) if f"{name} @{first + 8 * index}" not in text] == []
