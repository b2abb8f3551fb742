/* The layout of every structure, from the field tables: a compiler that lays one out otherwise must not build this. */
#include "dcmi_abi.h"

#include <stdalign.h>
#include <stddef.h>

#define SIZED(name, bytes, alignment)                                                                                  \
    _Static_assert(sizeof(struct name) == (bytes) && alignof(struct name) == (alignment), "size of " #name)
#define AT(name, field, offset) _Static_assert(offsetof(struct name, field) == (offset), "offset of " #name "." #field)

SIZED(dcmi_chip_info, 100, 4);
AT(dcmi_chip_info, chip_type, 0);
AT(dcmi_chip_info, chip_name, 32);
AT(dcmi_chip_info, chip_ver, 64);
AT(dcmi_chip_info, aicore_cnt, 96);

SIZED(dcmi_chip_info_v2, 132, 4);
AT(dcmi_chip_info_v2, chip_type, 0);
AT(dcmi_chip_info_v2, chip_name, 32);
AT(dcmi_chip_info_v2, chip_ver, 64);
AT(dcmi_chip_info_v2, aicore_cnt, 96);
AT(dcmi_chip_info_v2, npu_name, 100);

SIZED(dcmi_pcie_info_all, 64, 4);
AT(dcmi_pcie_info_all, venderid, 0);
AT(dcmi_pcie_info_all, subvenderid, 4);
AT(dcmi_pcie_info_all, deviceid, 8);
AT(dcmi_pcie_info_all, subdeviceid, 12);
AT(dcmi_pcie_info_all, domain, 16);
AT(dcmi_pcie_info_all, bdf_busid, 20);
AT(dcmi_pcie_info_all, bdf_deviceid, 24);
AT(dcmi_pcie_info_all, bdf_funcid, 28);
AT(dcmi_pcie_info_all, reserve, 32);

SIZED(dcmi_board_info, 16, 4);
AT(dcmi_board_info, board_id, 0);
AT(dcmi_board_info, pcb_id, 4);
AT(dcmi_board_info, bom_id, 8);
AT(dcmi_board_info, slot_id, 12);

SIZED(dcmi_elabel_info, 1280, 1);
AT(dcmi_elabel_info, product_name, 0);
AT(dcmi_elabel_info, model, 256);
AT(dcmi_elabel_info, manufacturer, 512);
AT(dcmi_elabel_info, manufacturer_date, 768);
AT(dcmi_elabel_info, serial_number, 1024);

SIZED(dcmi_die_id, 20, 4);
AT(dcmi_die_id, soc_die, 0);

SIZED(dcmi_aicore_info, 8, 4);
AT(dcmi_aicore_info, freq, 0);
AT(dcmi_aicore_info, cur_freq, 4);

SIZED(dcmi_aicpu_info, 76, 4);
AT(dcmi_aicpu_info, max_freq, 0);
AT(dcmi_aicpu_info, cur_freq, 4);
AT(dcmi_aicpu_info, aicpu_num, 8);
AT(dcmi_aicpu_info, util_rate, 12);

SIZED(dcmi_hbm_info, 32, 8);
AT(dcmi_hbm_info, memory_size, 0);
AT(dcmi_hbm_info, freq, 8);
AT(dcmi_hbm_info, memory_usage, 16);
AT(dcmi_hbm_info, temp, 24);
AT(dcmi_hbm_info, bandwith_util_rate, 28);

SIZED(dcmi_get_memory_info_stru, 112, 8);
AT(dcmi_get_memory_info_stru, memory_size, 0);
AT(dcmi_get_memory_info_stru, memory_available, 8);
AT(dcmi_get_memory_info_stru, freq, 16);
AT(dcmi_get_memory_info_stru, hugepagesize, 24);
AT(dcmi_get_memory_info_stru, hugepages_total, 32);
AT(dcmi_get_memory_info_stru, hugepages_free, 40);
AT(dcmi_get_memory_info_stru, utiliza, 48);
AT(dcmi_get_memory_info_stru, reserve, 52);

SIZED(dcmi_memory_info, 16, 8);
AT(dcmi_memory_info, memory_size, 0);
AT(dcmi_memory_info, freq, 8);
AT(dcmi_memory_info, utiliza, 12);

SIZED(dcmi_ecc_info, 28, 4);
AT(dcmi_ecc_info, enable_flag, 0);
AT(dcmi_ecc_info, single_bit_error_cnt, 4);
AT(dcmi_ecc_info, double_bit_error_cnt, 8);
AT(dcmi_ecc_info, total_single_bit_error_cnt, 12);
AT(dcmi_ecc_info, total_double_bit_error_cnt, 16);
AT(dcmi_ecc_info, single_bit_isolated_pages_cnt, 20);
AT(dcmi_ecc_info, double_bit_isolated_pages_cnt, 24);

SIZED(dcmi_multi_ecc_time_data, 260, 1);
AT(dcmi_multi_ecc_time_data, multi_record_count, 0);
AT(dcmi_multi_ecc_time_data, multi_ecc_times, 4);

SIZED(dcmi_ecc_common_data, 28, 1);
AT(dcmi_ecc_common_data, physical_addr, 0);
AT(dcmi_ecc_common_data, stack_pc_id, 8);
AT(dcmi_ecc_common_data, reg_addr_h, 12);
AT(dcmi_ecc_common_data, reg_addr_l, 16);
AT(dcmi_ecc_common_data, ecc_count, 20);
AT(dcmi_ecc_common_data, timestamp, 24);

SIZED(dcmi_ecc_record_type, 8, 4);
AT(dcmi_ecc_record_type, read_type, 0);
AT(dcmi_ecc_record_type, module_type, 4);

SIZED(dcmi_multi_utilization_info, 48, 4);
AT(dcmi_multi_utilization_info, aic_util, 0);
AT(dcmi_multi_utilization_info, aiv_util, 4);
AT(dcmi_multi_utilization_info, aicore_util, 8);
AT(dcmi_multi_utilization_info, npu_util, 12);
AT(dcmi_multi_utilization_info, reserved, 16);

SIZED(dcmi_proc_mem_info, 16, 8);
AT(dcmi_proc_mem_info, proc_id, 0);
AT(dcmi_proc_mem_info, proc_mem_usage, 8);

SIZED(dcmi_llc_perf, 12, 4);
AT(dcmi_llc_perf, wr_hit_rate, 0);
AT(dcmi_llc_perf, rd_hit_rate, 4);
AT(dcmi_llc_perf, throughput, 8);

SIZED(dcmi_cgroup_info, 24, 8);
AT(dcmi_cgroup_info, limit_in_bytes, 0);
AT(dcmi_cgroup_info, max_usage_in_bytes, 8);
AT(dcmi_cgroup_info, usage_in_bytes, 16);

SIZED(dcmi_dvpp_ratio, 20, 4);
AT(dcmi_dvpp_ratio, vdec_ratio, 0);
AT(dcmi_dvpp_ratio, vpc_ratio, 4);
AT(dcmi_dvpp_ratio, venc_ratio, 8);
AT(dcmi_dvpp_ratio, jpege_ratio, 12);
AT(dcmi_dvpp_ratio, jpegd_ratio, 16);

SIZED(dcmi_pcie_link_bandwidth_info, 88, 4);
AT(dcmi_pcie_link_bandwidth_info, profiling_time, 0);
AT(dcmi_pcie_link_bandwidth_info, tx_p_bw, 4);
AT(dcmi_pcie_link_bandwidth_info, tx_np_bw, 16);
AT(dcmi_pcie_link_bandwidth_info, tx_cpl_bw, 28);
AT(dcmi_pcie_link_bandwidth_info, tx_np_lantency, 40);
AT(dcmi_pcie_link_bandwidth_info, rx_p_bw, 52);
AT(dcmi_pcie_link_bandwidth_info, rx_np_bw, 64);
AT(dcmi_pcie_link_bandwidth_info, rx_cpl_bw, 76);

SIZED(dcmi_pcie_link_error_info, 148, 4);
AT(dcmi_pcie_link_error_info, tx_err_cnt, 0);
AT(dcmi_pcie_link_error_info, rx_err_cnt, 4);
AT(dcmi_pcie_link_error_info, lcrc_err_cnt, 8);
AT(dcmi_pcie_link_error_info, ecrc_err_cnt, 12);
AT(dcmi_pcie_link_error_info, retry_cnt, 16);
AT(dcmi_pcie_link_error_info, rsv, 20);

SIZED(dcmi_hccs_bandwidth_info, 280, 8);
AT(dcmi_hccs_bandwidth_info, profiling_time, 0);
AT(dcmi_hccs_bandwidth_info, total_txbw, 8);
AT(dcmi_hccs_bandwidth_info, total_rxbw, 16);
AT(dcmi_hccs_bandwidth_info, tx_bandwidth, 24);
AT(dcmi_hccs_bandwidth_info, rx_bandwidth, 152);

SIZED(dcmi_hccs_statistic_info, 512, 4);
AT(dcmi_hccs_statistic_info, tx_cnt, 0);
AT(dcmi_hccs_statistic_info, rx_cnt, 64);
AT(dcmi_hccs_statistic_info, crc_err_cnt, 128);
AT(dcmi_hccs_statistic_info, retry_cnt, 192);
AT(dcmi_hccs_statistic_info, reserved_field_cnt, 256);

SIZED(dcmi_hccs_statistic_info_u64, 1024, 8);
AT(dcmi_hccs_statistic_info_u64, tx_cnt, 0);
AT(dcmi_hccs_statistic_info_u64, rx_cnt, 128);
AT(dcmi_hccs_statistic_info_u64, crc_err_cnt, 256);
AT(dcmi_hccs_statistic_info_u64, retry_cnt, 384);
AT(dcmi_hccs_statistic_info_u64, reserved, 512);

SIZED(dcmi_hccs_lane_info, 132, 4);
AT(dcmi_hccs_lane_info, hccs_port_pcs_bitmap, 0);
AT(dcmi_hccs_lane_info, pcs_lane_bitmap, 4);
AT(dcmi_hccs_lane_info, reserve, 68);

SIZED(dcmi_hccs_statues, 12, 4);
AT(dcmi_hccs_statues, pcs_status, 0);
AT(dcmi_hccs_statues, hdlc_status, 4);
AT(dcmi_hccs_statues, reserve, 8);

SIZED(dcmi_sio_crc_err_statistics_info, 12, 2);
AT(dcmi_sio_crc_err_statistics_info, tx_error_count, 0);
AT(dcmi_sio_crc_err_statistics_info, rx_error_count, 2);
AT(dcmi_sio_crc_err_statistics_info, reserved, 4);

SIZED(dcmi_spod_info, 48, 4);
AT(dcmi_spod_info, sdid, 0);
AT(dcmi_spod_info, super_pod_size, 4);
AT(dcmi_spod_info, super_pod_id, 8);
AT(dcmi_spod_info, server_index, 12);
AT(dcmi_spod_info, chassis_id, 16);
AT(dcmi_spod_info, super_pod_type, 20);
AT(dcmi_spod_info, reserve, 24);

SIZED(dcmi_domain_info, 52, 4);
AT(dcmi_domain_info, ai_cpu_num, 0);
AT(dcmi_domain_info, ctrl_cpu_num, 4);
AT(dcmi_domain_info, data_cpu_num, 8);
AT(dcmi_domain_info, ai_core_num, 12);
AT(dcmi_domain_info, vector_core_num, 16);
AT(dcmi_domain_info, reserve, 20);

SIZED(dcmi_ip_addr, 20, 4);
AT(dcmi_ip_addr, u_addr, 0);
AT(dcmi_ip_addr, ip_type, 16);

SIZED(dcmi_network_rdma_bandwidth_info, 8, 4);
AT(dcmi_network_rdma_bandwidth_info, tx_bandwidth, 0);
AT(dcmi_network_rdma_bandwidth_info, rx_bandwidth, 4);

SIZED(dcmi_event_filter, 48, 8);
AT(dcmi_event_filter, filter_flag, 0);
AT(dcmi_event_filter, event_id, 8);
AT(dcmi_event_filter, severity, 12);
AT(dcmi_event_filter, node_type, 13);
AT(dcmi_event_filter, resv, 14);

SIZED(dcmi_dms_fault_event, 352, 8);
AT(dcmi_dms_fault_event, event_id, 0);
AT(dcmi_dms_fault_event, deviceid, 4);
AT(dcmi_dms_fault_event, node_type, 6);
AT(dcmi_dms_fault_event, node_id, 7);
AT(dcmi_dms_fault_event, sub_node_type, 8);
AT(dcmi_dms_fault_event, sub_node_id, 9);
AT(dcmi_dms_fault_event, severity, 10);
AT(dcmi_dms_fault_event, assertion, 11);
AT(dcmi_dms_fault_event, event_serial_num, 12);
AT(dcmi_dms_fault_event, notify_serial_num, 16);
AT(dcmi_dms_fault_event, alarm_raised_time, 24);
AT(dcmi_dms_fault_event, event_name, 32);
AT(dcmi_dms_fault_event, additional_info, 288);
AT(dcmi_dms_fault_event, os_id, 320);
AT(dcmi_dms_fault_event, resv_1, 321);
AT(dcmi_dms_fault_event, node_type_ex, 322);
AT(dcmi_dms_fault_event, sub_node_type_ex, 324);
AT(dcmi_dms_fault_event, resv_2, 326);
AT(dcmi_dms_fault_event, resv, 328);

SIZED(dcmi_event, 360, 8);
AT(dcmi_event, type, 0);
AT(dcmi_event, event_t, 8);

SIZED(dcmi_base_resource, 64, 8);
AT(dcmi_base_resource, token, 0);
AT(dcmi_base_resource, token_max, 8);
AT(dcmi_base_resource, task_timeout, 16);
AT(dcmi_base_resource, vfg_id, 24);
AT(dcmi_base_resource, vip_mode, 28);
AT(dcmi_base_resource, reserved, 29);

SIZED(dcmi_computing_resource, 96, 8);
AT(dcmi_computing_resource, aic, 0);
AT(dcmi_computing_resource, aiv, 4);
AT(dcmi_computing_resource, dsa, 8);
AT(dcmi_computing_resource, rtsq, 10);
AT(dcmi_computing_resource, acsq, 12);
AT(dcmi_computing_resource, cdqm, 14);
AT(dcmi_computing_resource, c_core, 16);
AT(dcmi_computing_resource, ffts, 18);
AT(dcmi_computing_resource, sdma, 20);
AT(dcmi_computing_resource, pcie_dma, 22);
AT(dcmi_computing_resource, memory_size, 24);
AT(dcmi_computing_resource, event_id, 32);
AT(dcmi_computing_resource, notify_id, 36);
AT(dcmi_computing_resource, stream_id, 40);
AT(dcmi_computing_resource, model_id, 44);
AT(dcmi_computing_resource, topic_schedule_aicpu, 48);
AT(dcmi_computing_resource, host_ctrl_cpu, 50);
AT(dcmi_computing_resource, host_aicpu, 52);
AT(dcmi_computing_resource, device_aicpu, 54);
AT(dcmi_computing_resource, topic_ctrl_cpu_slot, 56);
AT(dcmi_computing_resource, vdev_aicore_utilization, 60);
AT(dcmi_computing_resource, vdev_memory_total, 64);
AT(dcmi_computing_resource, vdev_memory_free, 72);
AT(dcmi_computing_resource, reserved, 80);

SIZED(dcmi_media_resource, 56, 4);
AT(dcmi_media_resource, jpegd, 0);
AT(dcmi_media_resource, jpege, 4);
AT(dcmi_media_resource, vpc, 8);
AT(dcmi_media_resource, vdec, 12);
AT(dcmi_media_resource, pngd, 16);
AT(dcmi_media_resource, venc, 20);
AT(dcmi_media_resource, reserved, 24);

SIZED(dcmi_vdev_query_info, 256, 8);
AT(dcmi_vdev_query_info, name, 0);
AT(dcmi_vdev_query_info, status, 16);
AT(dcmi_vdev_query_info, is_container_used, 20);
AT(dcmi_vdev_query_info, vfid, 24);
AT(dcmi_vdev_query_info, vfg_id, 28);
AT(dcmi_vdev_query_info, container_id, 32);
AT(dcmi_vdev_query_info, base, 40);
AT(dcmi_vdev_query_info, computing, 104);
AT(dcmi_vdev_query_info, media, 200);

SIZED(dcmi_vdev_query_stru, 264, 8);
AT(dcmi_vdev_query_stru, vdev_id, 0);
AT(dcmi_vdev_query_stru, query_info, 8);

SIZED(dcmi_soc_free_resource, 224, 8);
AT(dcmi_soc_free_resource, vfg_num, 0);
AT(dcmi_soc_free_resource, vfg_bitmap, 4);
AT(dcmi_soc_free_resource, base, 8);
AT(dcmi_soc_free_resource, computing, 72);
AT(dcmi_soc_free_resource, media, 168);

SIZED(dcmi_soc_total_resource, 360, 8);
AT(dcmi_soc_total_resource, vdev_num, 0);
AT(dcmi_soc_total_resource, vdev_id, 4);
AT(dcmi_soc_total_resource, vfg_num, 132);
AT(dcmi_soc_total_resource, vfg_bitmap, 136);
AT(dcmi_soc_total_resource, base, 144);
AT(dcmi_soc_total_resource, computing, 208);
AT(dcmi_soc_total_resource, media, 304);

SIZED(dcmi_ub_port_info, 8, 4);
AT(dcmi_ub_port_info, udie_id, 0);
AT(dcmi_ub_port_info, port_id, 4);

SIZED(dcmi_ub_bandwidth_info, 16, 4);
AT(dcmi_ub_bandwidth_info, tx_bandwidth, 0);
AT(dcmi_ub_bandwidth_info, rx_bandwidth, 4);
AT(dcmi_ub_bandwidth_info, reserved, 8);

SIZED(dcmi_ub_port_link_status, 148, 4);
AT(dcmi_ub_port_link_status, ub_link_status, 0);
AT(dcmi_ub_port_link_status, ub_port_status, 4);

SIZED(dcmi_port_list_info, 532, 4);
AT(dcmi_port_list_info, die_nums, 0);
AT(dcmi_port_list_info, die_list_data, 4);

SIZED(dcmi_netdev_list_info, 132, 4);
AT(dcmi_netdev_list_info, netdev_nums, 0);
AT(dcmi_netdev_list_info, netdev_name, 4);

SIZED(dcmi_credit_info, 136, 4);
AT(dcmi_credit_info, link_alloc_port_share_credit, 0);
AT(dcmi_credit_info, link_cur_used_port_share_credit, 4);
AT(dcmi_credit_info, link_alloc_vl_pri_credit, 8);
AT(dcmi_credit_info, link_cur_used_pri_credit, 72);

SIZED(dcmi_urma_eid_info, 24, 8);
AT(dcmi_urma_eid_info, eid, 0);
AT(dcmi_urma_eid_info, eid_index, 16);

SIZED(dcmi_ub_id_info, 40, 2);
AT(dcmi_ub_id_info, device_id, 0);
AT(dcmi_ub_id_info, vendor_id, 2);
AT(dcmi_ub_id_info, module_vendor_id, 4);
AT(dcmi_ub_id_info, module_id, 6);
AT(dcmi_ub_id_info, reserved, 8);

SIZED(dcmi_flash_info, 32, 8);
AT(dcmi_flash_info, flash_id, 0);
AT(dcmi_flash_info, device_id, 8);
AT(dcmi_flash_info, vendor, 10);
AT(dcmi_flash_info, state, 12);
AT(dcmi_flash_info, size, 16);
AT(dcmi_flash_info, sector_count, 24);
AT(dcmi_flash_info, manufacturer_id, 28);

SIZED(dcmi_network_pkt_stats_info, 464, 8);
AT(dcmi_network_pkt_stats_info, counters, 0);
AT(dcmi_network_pkt_stats_info, tv_sec, 384);
AT(dcmi_network_pkt_stats_info, tv_usec, 392);
AT(dcmi_network_pkt_stats_info, reserved, 400);

SIZED(dcmi_port_pkt_stats_info, 520, 8);
AT(dcmi_port_pkt_stats_info, port_id, 0);
AT(dcmi_port_pkt_stats_info, is_uboe_port, 4);
AT(dcmi_port_pkt_stats_info, counters, 8);
AT(dcmi_port_pkt_stats_info, reserved, 392);

SIZED(die_port_list_info, 264, 4);
_Static_assert(sizeof(union dcmi_sensor_info) == 64, "size of dcmi_sensor_info");
