"""The structures that DCMI calls fill, as the compiler lays them out on 64-bit Linux.

Names of structures and fields are the vendor's, misspellings included, so that one search finds header, binding and
test. Sizes and offsets: reference dcmi.md, section 8; all types are the same on x86_64 and aarch64, so one set serves
both. ``reserve`` and ``reserved`` fields have no meaning yet. A field that is not known to a driver stays 0, since
buffers are zeroed before each call.
"""
# ruff: noqa: N801 - the vendor's own names

from __future__ import annotations

from ctypes import (
    Structure,
    Union,
    c_byte,
    c_char,
    c_double,
    c_float,
    c_int,
    c_ubyte,
    c_uint,
    c_uint64,
    c_ulong,
    c_ushort,
)

HCCS_LINKS = 16
"""Entries of the arrays by HCCS link; which of them exist depends on the product."""
UB_PORTS = 36
"""Entries of the array of UB port states."""
VDEVICES = 32
"""Virtual NPUs that one chip can be cut into."""
PACKET_COUNTERS = (
    *("mac_tx_mac_pause_num", "mac_rx_mac_pause_num"),
    *("mac_tx_pfc_pkt_num", *(f"mac_tx_pfc_pri{priority}_pkt_num" for priority in range(8))),
    *("mac_rx_pfc_pkt_num", *(f"mac_rx_pfc_pri{priority}_pkt_num" for priority in range(8))),
    *("mac_tx_total_pkt_num", "mac_tx_total_oct_num", "mac_tx_bad_pkt_num", "mac_tx_bad_oct_num"),
    *("mac_rx_total_pkt_num", "mac_rx_total_oct_num", "mac_rx_bad_pkt_num", "mac_rx_bad_oct_num"),
    "mac_rx_fcs_err_pkt_num",
    *("roce_rx_rc_pkt_num", "roce_rx_all_pkt_num", "roce_rx_err_pkt_num"),
    *("roce_tx_rc_pkt_num", "roce_tx_all_pkt_num", "roce_tx_err_pkt_num"),
    *("roce_cqe_num", "roce_rx_cnp_pkt_num", "roce_tx_cnp_pkt_num", "roce_err_ack_num", "roce_err_psn_num"),
    *("roce_verification_err_num", "roce_err_qp_status_num", "roce_new_pkt_rty_num", "roce_ecn_db_num"),
    *("nic_tx_all_pkg_num", "nic_tx_all_oct_num", "nic_rx_all_pkg_num", "nic_rx_all_oct_num"),
)
"""Counters of an Ethernet port in the order of the structure: frames, packets, or bytes (``oct``)."""
UB_COUNTERS = (
    *("ub_glb_ipv4_pkt_cnt_rx", "ub_glb_ipv6_pkt_cnt_rx", "unic_ipv4_pkt_cnt_rx", "unic_ipv6_pkt_cnt_rx"),
    *("ub_clan_pkt_cnt_rx", "ub_umoc_ctph_cnt_rx", "ub_umoc_ntph_cnt_rx", "ub_mem_pkt_cnt_rx", "unknown_pkt_cnt_rx"),
    *("drop_ind_cnt_rx", "err_ind_cnt_rx", "to_host_pkt_cnt_rx", "to_imp_pkt_cnt_rx", "to_mar_pkt_cnt_rx"),
    *("to_link_pkt_cnt_rx", "to_noc_pkt_cnt_rx", "route_err_cnt_rx", "out_err_cnt_rx", "length_err_cnt_rx"),
    *("rx_busi_flit_num", "rx_send_ack_flit"),
    *("ub_glb_ipv4_pkt_cnt_tx", "ub_glb_ipv6_pkt_cnt_tx", "unic_ipv4_pkt_cnt_tx", "unic_ipv6_pkt_cnt_tx"),
    *("ub_clan_pkt_cnt_tx", "ub_umoc_ctph_cnt_tx", "ub_umoc_ntph_cnt_tx", "ub_mem_pkt_cnt_tx", "unknown_pkt_cnt_tx"),
    *("drop_ind_cnt_tx", "err_ind_cnt_tx", "lpbk_ind_cnt_tx", "out_err_cnt_tx", "length_err_cnt_tx"),
    *("tx_busi_flit_num", "tx_recv_ack_flit", "retry_req_sum", "retry_ack_sum", "crc_error_sum"),
    *("core_mib_rxpausepkts", "core_mib_txpausepkts", "core_mib_rxpfcpkts", "core_mib_txpfcpkts"),
    *("core_mib_rxbadpkts", "core_mib_txbadpkts", "core_mib_rxbadoctets", "core_mib_txbadoctets"),
)
"""Counters of a UB port in the order of the structure; the ``core_mib`` ones mean something on UBoE ports only."""


class dcmi_chip_info(Structure):
    """Chip type (``Ascend``), name (``910B3``) and version as NUL-ended text, and the number of AI Cores."""

    _fields_ = (
        ("chip_type", c_ubyte * 32),
        ("chip_name", c_ubyte * 32),
        ("chip_ver", c_ubyte * 32),
        ("aicore_cnt", c_uint),
    )


class dcmi_chip_info_v2(Structure):
    """`dcmi_chip_info` with the marketing name, which may be empty."""

    _fields_ = (
        ("chip_type", c_ubyte * 32),
        ("chip_name", c_ubyte * 32),
        ("chip_ver", c_ubyte * 32),
        ("aicore_cnt", c_uint),
        ("npu_name", c_ubyte * 32),
    )


class dcmi_pcie_info_all(Structure):
    """PCI ids and address."""

    _fields_ = (
        ("venderid", c_uint),
        ("subvenderid", c_uint),
        ("deviceid", c_uint),
        ("subdeviceid", c_uint),
        ("domain", c_int),
        ("bdf_busid", c_uint),
        ("bdf_deviceid", c_uint),
        ("bdf_funcid", c_uint),
        ("reserve", c_ubyte * 32),
    )


class dcmi_board_info(Structure):
    """Board ids; ``slot_id`` is the card id on servers."""

    _fields_ = (("board_id", c_uint), ("pcb_id", c_uint), ("bom_id", c_uint), ("slot_id", c_uint))


class dcmi_elabel_info(Structure):
    """Electronic label of the card as NUL-ended text; the manufacturing date is not filled."""

    _fields_ = (
        ("product_name", c_char * 256),
        ("model", c_char * 256),
        ("manufacturer", c_char * 256),
        ("manufacturer_date", c_char * 256),
        ("serial_number", c_char * 256),
    )


class dcmi_die_id(Structure):
    """Identity of the die: five words."""

    _fields_ = (("soc_die", c_uint * 5),)


class dcmi_aicore_info(Structure):
    """Rated and current clock of the AI Cores in MHz."""

    _fields_ = (("freq", c_uint), ("cur_freq", c_uint))


class dcmi_aicpu_info(Structure):
    """Clocks of the AI CPUs in MHz, their number, and the utilisation of each in percent."""

    _fields_ = (("max_freq", c_uint), ("cur_freq", c_uint), ("aicpu_num", c_uint), ("util_rate", c_uint * 16))


class dcmi_hbm_info(Structure):
    """HBM: size and use in MB, clock in MHz, temperature in °C, bandwidth utilisation in percent."""

    _fields_ = (
        ("memory_size", c_uint64),
        ("freq", c_uint),
        ("memory_usage", c_uint64),
        ("temp", c_int),
        ("bandwith_util_rate", c_uint),
    )


class dcmi_get_memory_info_stru(Structure):
    """DDR: size and what is available in MB, clock in MHz, huge pages of ``hugepagesize`` KB; ``utiliza`` in percent.

    112 bytes: the vendor's comment that says 96 is wrong.
    """

    _fields_ = (
        ("memory_size", c_uint64),
        ("memory_available", c_uint64),
        ("freq", c_uint),
        ("hugepagesize", c_ulong),
        ("hugepages_total", c_ulong),
        ("hugepages_free", c_ulong),
        ("utiliza", c_uint),
        ("reserve", c_ubyte * 60),
    )


class dcmi_ecc_info(Structure):
    """ECC counts: since the chip's reset, and (``total``) over the life of the memory.

    Newer drivers append two counters (36 bytes); callers leave room for them.
    """

    _fields_ = (
        ("enable_flag", c_int),
        ("single_bit_error_cnt", c_uint),
        ("double_bit_error_cnt", c_uint),
        ("total_single_bit_error_cnt", c_uint),
        ("total_double_bit_error_cnt", c_uint),
        ("single_bit_isolated_pages_cnt", c_uint),
        ("double_bit_isolated_pages_cnt", c_uint),
    )


class dcmi_multi_utilization_info(Structure):
    """Utilisation of cube (aic), vector (aiv), AI Core and the whole chip in percent."""

    _fields_ = (
        ("aic_util", c_uint),
        ("aiv_util", c_uint),
        ("aicore_util", c_uint),
        ("npu_util", c_uint),
        ("reserved", c_uint * 8),
    )


class dcmi_proc_mem_info(Structure):
    """A process, by its pid on the host, and the bytes of chip memory that it holds."""

    _fields_ = (("proc_id", c_int), ("proc_mem_usage", c_ulong))


class dcmi_llc_perf(Structure):
    """Last-level cache: hit rates in percent, throughput in KB/s."""

    _fields_ = (("wr_hit_rate", c_uint), ("rd_hit_rate", c_uint), ("throughput", c_uint))


class dcmi_cgroup_info(Structure):
    """Memory control group of the chip's own operating system, in bytes."""

    _fields_ = (("limit_in_bytes", c_ulong), ("max_usage_in_bytes", c_ulong), ("usage_in_bytes", c_ulong))


class dcmi_dvpp_ratio(Structure):
    """Utilisation of the media engines in percent."""

    _fields_ = (
        ("vdec_ratio", c_int),
        ("vpc_ratio", c_int),
        ("venc_ratio", c_int),
        ("jpege_ratio", c_int),
        ("jpegd_ratio", c_int),
    )


class dcmi_pcie_link_bandwidth_info(Structure):
    """PCIe traffic over a window: in ``profiling_time`` (ms), out arrays of [min, max, avg] in MB/ms, latency in ns."""

    _fields_ = (
        ("profiling_time", c_int),
        ("tx_p_bw", c_uint * 3),
        ("tx_np_bw", c_uint * 3),
        ("tx_cpl_bw", c_uint * 3),
        ("tx_np_lantency", c_uint * 3),
        ("rx_p_bw", c_uint * 3),
        ("rx_np_bw", c_uint * 3),
        ("rx_cpl_bw", c_uint * 3),
    )


class dcmi_pcie_link_error_info(Structure):
    """Error counts of the PCIe link."""

    _fields_ = (
        ("tx_err_cnt", c_uint),
        ("rx_err_cnt", c_uint),
        ("lcrc_err_cnt", c_uint),
        ("ecrc_err_cnt", c_uint),
        ("retry_cnt", c_uint),
        ("rsv", c_uint * 32),
    )


class dcmi_hccs_bandwidth_info(Structure):
    """HCCS traffic over a window: in ``profiling_time`` (ms), out GiB/s. The library adds to the totals: zero first."""

    _fields_ = (
        ("profiling_time", c_int),
        ("total_txbw", c_double),
        ("total_rxbw", c_double),
        ("tx_bandwidth", c_double * HCCS_LINKS),
        ("rx_bandwidth", c_double * HCCS_LINKS),
    )


class dcmi_hccs_statistic_info(Structure):
    """HCCS counters of older drivers, by link: flits of 20 bytes, checksum errors, retries."""

    _fields_ = (
        ("tx_cnt", c_uint * HCCS_LINKS),
        ("rx_cnt", c_uint * HCCS_LINKS),
        ("crc_err_cnt", c_uint * HCCS_LINKS),
        ("retry_cnt", c_uint * HCCS_LINKS),
        ("reserved_field_cnt", c_uint * 64),
    )


class dcmi_hccs_statistic_info_u64(Structure):
    """HCCS counters by link: flits of 20 bytes, checksum errors, retries."""

    _fields_ = (
        ("tx_cnt", c_uint64 * HCCS_LINKS),
        ("rx_cnt", c_uint64 * HCCS_LINKS),
        ("crc_err_cnt", c_uint64 * HCCS_LINKS),
        ("retry_cnt", c_uint64 * HCCS_LINKS),
        ("reserved", c_uint64 * 64),
    )


class dcmi_hccs_lane_info(Structure):
    """HCCS ports present (bitmap) and the lanes in use of each (bitmap)."""

    _fields_ = (
        ("hccs_port_pcs_bitmap", c_uint),
        ("pcs_lane_bitmap", c_uint * HCCS_LINKS),
        ("reserve", c_uint * HCCS_LINKS),
    )


class dcmi_hccs_statues(Structure):
    """State of HCCS: ports as a bitmap, and the link layer, where 3 is well."""

    _fields_ = (("pcs_status", c_uint), ("hdlc_status", c_uint), ("reserve", c_ubyte * 4))


class dcmi_sio_crc_err_statistics_info(Structure):
    """Checksum errors between the dies of a card; 16-bit counters that wrap."""

    _fields_ = (("tx_error_count", c_ushort), ("rx_error_count", c_ushort), ("reserved", c_ubyte * 8))


class dcmi_spod_info(Structure):
    """Place of the chip in its super pod."""

    _fields_ = (
        ("sdid", c_uint),
        ("super_pod_size", c_uint),
        ("super_pod_id", c_uint),
        ("server_index", c_uint),
        ("chassis_id", c_uint),
        ("super_pod_type", c_uint),
        ("reserve", c_uint * 6),
    )


class dcmi_network_rdma_bandwidth_info(Structure):
    """RoCE traffic over a window, in MB/s."""

    _fields_ = (("tx_bandwidth", c_uint), ("rx_bandwidth", c_uint))


class dcmi_network_pkt_stats_info(Structure):
    """Counters of the chip's Ethernet port, and the chip's time at which they were read."""

    _fields_ = (
        *((name, c_uint64) for name in PACKET_COUNTERS),
        ("tv_sec", c_uint64),
        ("tv_usec", c_uint64),
        ("reserved", c_ubyte * 64),
    )


class dcmi_base_resource(Structure):
    """Scheduling of a virtual NPU."""

    _fields_ = (
        ("token", c_uint64),
        ("token_max", c_uint64),
        ("task_timeout", c_uint64),
        ("vfg_id", c_uint),
        ("vip_mode", c_ubyte),
        ("reserved", c_ubyte * 31),
    )


class dcmi_computing_resource(Structure):
    """Compute share of a virtual NPU; utilisation in percent, its memory in KB."""

    _fields_ = (
        ("aic", c_float),
        ("aiv", c_float),
        ("dsa", c_ushort),
        ("rtsq", c_ushort),
        ("acsq", c_ushort),
        ("cdqm", c_ushort),
        ("c_core", c_ushort),
        ("ffts", c_ushort),
        ("sdma", c_ushort),
        ("pcie_dma", c_ushort),
        ("memory_size", c_uint64),
        ("event_id", c_uint),
        ("notify_id", c_uint),
        ("stream_id", c_uint),
        ("model_id", c_uint),
        ("topic_schedule_aicpu", c_ushort),
        ("host_ctrl_cpu", c_ushort),
        ("host_aicpu", c_ushort),
        ("device_aicpu", c_ushort),
        ("topic_ctrl_cpu_slot", c_ushort),
        ("vdev_aicore_utilization", c_uint),
        ("vdev_memory_total", c_uint64),
        ("vdev_memory_free", c_uint64),
        ("reserved", c_ubyte * 12),
    )


class dcmi_media_resource(Structure):
    """Media share of a virtual NPU, in engines."""

    _fields_ = (
        ("jpegd", c_float),
        ("jpege", c_float),
        ("vpc", c_float),
        ("vdec", c_float),
        ("pngd", c_float),
        ("venc", c_float),
        ("reserved", c_ubyte * 32),
    )


class dcmi_vdev_query_info(Structure):
    """What is known of one virtual NPU."""

    _fields_ = (
        ("name", c_char * 16),
        ("status", c_uint),
        ("is_container_used", c_uint),
        ("vfid", c_uint),
        ("vfg_id", c_uint),
        ("container_id", c_uint64),
        ("base", dcmi_base_resource),
        ("computing", dcmi_computing_resource),
        ("media", dcmi_media_resource),
    )


class dcmi_vdev_query_stru(Structure):
    """A question about one virtual NPU (``vdev_id`` goes in) and its answer."""

    _fields_ = (("vdev_id", c_uint), ("query_info", dcmi_vdev_query_info))


class dcmi_soc_total_resource(Structure):
    """Virtual NPUs of the chip and what the chip has to share out."""

    _fields_ = (
        ("vdev_num", c_uint),
        ("vdev_id", c_uint * VDEVICES),
        ("vfg_num", c_uint),
        ("vfg_bitmap", c_uint),
        ("base", dcmi_base_resource),
        ("computing", dcmi_computing_resource),
        ("media", dcmi_media_resource),
    )


class dcmi_ub_port_info(Structure):
    """Which UB port is meant."""

    _fields_ = (("udie_id", c_int), ("port_id", c_int))


class dcmi_ub_bandwidth_info(Structure):
    """Traffic of a UB port over a window, in MB/s."""

    _fields_ = (("tx_bandwidth", c_uint), ("rx_bandwidth", c_uint), ("reserved", c_uint * 2))


class dcmi_ub_port_link_status(Structure):
    """UB links of the chip (0 none, 1 all, 2 some, 3 none needed) and by port.

    A port is 0 absent, 1 up with all lanes, 2 up with some, 3 initial.
    """

    _fields_ = (("ub_link_status", c_int), ("ub_port_status", c_int * UB_PORTS))


class port_info(Structure):
    """A port of a die; mode 0 is UB, 1 UBoE."""

    _fields_ = (("port_index", c_int), ("mode", c_int))


class die_port_list_info(Structure):
    """The ports of one die."""

    _fields_ = (("die_index", c_int), ("port_nums", c_int), ("ports", port_info * 32))


class dcmi_port_list_info(Structure):
    """The UB ports of a chip, by die."""

    _fields_ = (("die_nums", c_int), ("die_list_data", die_port_list_info * 2))


class dcmi_port_pkt_stats_info(Structure):
    """Counters of one UB port."""

    _fields_ = (
        ("port_id", c_uint),
        ("is_uboe_port", c_uint),
        *((name, c_uint64) for name in UB_COUNTERS),
        ("reserved", c_ubyte * 128),
    )


class dcmi_sensor_info(Union):
    """Answer of a sensor; which member counts depends on the sensor. Temperatures in °C."""

    _fields_ = (
        ("uchar", c_ubyte),
        ("ushort", c_ushort),
        ("uint", c_uint),
        ("iint", c_int),
        ("temp", c_byte * 2),
        ("ntc_tmp", c_int * 4),
        ("data", c_uint * 16),
    )


class lp_rated_power_info(Structure):
    """Rated power of the SoC, by its range in mW (`dcmi_get_device_info` 8, 10). The vendor gives no name."""

    _fields_ = (("rated_power", c_uint), ("reserved", c_ubyte * 32))
