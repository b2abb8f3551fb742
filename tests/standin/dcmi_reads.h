/* What the calls of both families do once they know their target; the names follow the vendor's without the prefix. */
#ifndef STANDIN_DCMI_READS_H
#define STANDIN_DCMI_READS_H

#include "dcmi_core.h"

/* dcmi_identity.c */
int read_text(struct target at, const char *key, char *text, long long size, int min_size);
int read_logic_id(struct target at, int *logic);
int read_phy_id(struct target at, unsigned int *phy);
int read_card_and_device(struct target at, int *card, int *device);
int read_all_device_count(struct target at, int *count);
int read_device_type(struct target at, int *type);
int read_chip_info(struct target at, struct dcmi_chip_info *info);
int read_chip_info_v2(struct target at, struct dcmi_chip_info_v2 *info);
int read_die(struct target at, int type, struct dcmi_die_id *die);
int read_pcie_info(struct target at, struct dcmi_pcie_info_all *info);
int read_board_info(struct target at, struct dcmi_board_info *info);
int read_elabel(struct target at, struct dcmi_elabel_info *info);
int read_affinity(struct target at, char *text, int *length);
int read_topo(struct target at, int other_logic, int *type);
int read_system_time(struct target at, unsigned int *seconds);
int read_flash_count(struct target at, unsigned int *count);
int read_flash_info(struct target at, unsigned int index, struct dcmi_flash_info *info);

/* dcmi_telemetry.c */
int read_int(struct target at, const char *key, int *out);
int read_unsigned(struct target at, const char *key, unsigned int *out);
int read_two_unsigned(struct target at, const char *key, unsigned int *first, unsigned int *second);
int read_frequency(struct target at, int type, unsigned int *mhz);
int read_aicore_info(struct target at, struct dcmi_aicore_info *info);
int read_aicpu_info(struct target at, struct dcmi_aicpu_info *info);
int read_utilization(struct target at, int type, unsigned int *percent);
int read_multi_utilization(struct target at, struct dcmi_multi_utilization_info *info);
int read_multi_utilization_period(struct target at, struct dcmi_multi_utilization_info *info, int period);
int read_hbm_info(struct target at, struct dcmi_hbm_info *info);
int read_memory_info_v2(struct target at, struct dcmi_memory_info *info);
int read_memory_info_v3(struct target at, struct dcmi_get_memory_info_stru *info);
int read_ecc_info(struct target at, int type, struct dcmi_ecc_info *info);
int read_ecc_times(struct target at, struct dcmi_multi_ecc_time_data *data);
int read_ecc_records(struct target at, struct dcmi_ecc_record_type type, unsigned int *count,
                     struct dcmi_ecc_common_data *records);
int read_sensor(struct target at, int id, union dcmi_sensor_info *info);
int read_processes(struct target at, struct dcmi_proc_mem_info *processes, int *count);
int read_llc(struct target at, struct dcmi_llc_perf *perf);
int read_cgroup(struct target at, struct dcmi_cgroup_info *info);
int read_dvpp(struct target at, struct dcmi_dvpp_ratio *ratio);
int read_mcu_temperature(struct target at, char *text, int size, int *length);
int read_health(struct target at, unsigned int *health);
int read_error_codes(struct target at, int *count, unsigned int *codes, unsigned int list_len);
int read_error_code_v1(struct target at, int *count, unsigned int *codes, int *width);
int read_error_text(struct target at, unsigned int code, unsigned char *text, int size);
int read_driver_error_codes(struct target at, int *count, unsigned int *codes, unsigned int list_len);
int read_fault_device_count(struct target at, int *count);

/* dcmi_links.c */
int read_words(struct target at, const char *key, unsigned int *words, int count);
int read_counters(struct target at, const char *key, unsigned long long *counters, int count);
int read_network_health(struct target at, const char *key, int *result);
int read_ip(struct target at, const char *key, struct dcmi_ip_addr *ip, struct dcmi_ip_addr *mask);
int read_pcie_bandwidth(struct target at, struct dcmi_pcie_link_bandwidth_info *info);
int read_hccs_bandwidth(struct target at, struct dcmi_hccs_bandwidth_info *info);
int read_packets(struct target at, int port, struct dcmi_network_pkt_stats_info *info);
int read_rdma_bandwidth(struct target at, int port, unsigned int ms, struct dcmi_network_rdma_bandwidth_info *info);
int read_port_packets(struct target at, const struct dcmi_ub_port_info *port, struct dcmi_port_pkt_stats_info *info);
int read_ub_bandwidth(struct target at, unsigned int ms, const struct dcmi_ub_port_info *port,
                      struct dcmi_ub_bandwidth_info *info);
int read_ub_link_status(struct target at, struct dcmi_ub_port_link_status *status);
int read_port_list(struct target at, struct dcmi_port_list_info *list);
int read_netdev_list(struct target at, struct dcmi_netdev_list_info *list);
int read_port_credit(struct target at, const struct dcmi_ub_port_info *port, struct dcmi_credit_info *info);
int read_ub_id(struct target at, struct dcmi_ub_id_info *info);
int read_eids(struct target at, unsigned int index, struct dcmi_urma_eid_info *list, unsigned int *count);

/* dcmi_info.c */
int read_device_info(struct target at, int main_cmd, unsigned int sub_cmd, void *buf, unsigned int *size);

/* dcmi_events.c */
int subscribe(struct target at, struct dcmi_event_filter filter, dcmi_fault_event_callback handler);
int wait_for_event(struct target at, int timeout_ms, struct dcmi_event_filter filter, struct dcmi_event *event);
int read_current_events(struct target at, struct dcmi_event *events, int max, int *count);

/* A call that changes the device: recorded, so that a test can say it was never made, and without effect. */
int forbidden(struct target at);

#endif
