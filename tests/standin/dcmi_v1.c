/* The dcmi_* family: everything up to A3, keyed by (card_id, device_id). Signatures as the vendor documents them. */
#include "dcmi_reads.h"

#include <stdio.h>

/* ---- host ---- */

int dcmi_init(void) { return init(V1_HOST); }

int dcmi_get_dcmi_version(char *dcmi_ver, unsigned int len)
{
    return read_text(V1_HOST, "dcmi_version", dcmi_ver, len, 16);
}

int dcmi_get_driver_version(char *driver_ver, unsigned int len)
{
    return read_text(V1_HOST, "driver_version", driver_ver, len, 64);
}

static int card_list(struct target at, int *card_num, int *list, int list_len)
{
    struct call call;
    int rc = begin_cached(&call, at, list, list_len > 0 ? (size_t)list_len * sizeof *list : 0);
    if (rc == 0 && snapshot.api != 1) {
        rc = INNER_ERR;
    }
    if (rc == 0 && (card_num == NULL || list_len < snapshot.card_count || list_len > MAX_CARDS)) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        *card_num = snapshot.card_count;
        for (int i = 0; i < snapshot.card_count; i++) {
            list[i] = snapshot.cards[i];
        }
    }
    return finish(&call, rc);
}

int dcmi_get_card_list(int *card_num, int *list, int list_len) { return card_list(V1_HOST, card_num, list, list_len); }

int dcmi_get_card_num_list(int *card_num, int *list, int list_len)
{
    return card_list(V1_HOST, card_num, list, list_len);
}

int dcmi_get_all_device_count(int *count) { return read_all_device_count(V1_HOST, count); }

int dcmi_get_multi_die_policy(int *policy) { return read_int(V1_HOST, "multi_die_policy", policy); }

int dcmi_get_multi_die_policy_config_recover_mode(unsigned int *mode)
{
    return read_unsigned(V1_HOST, "multi_die_policy_recover", mode);
}

int dcmi_get_driver_health(unsigned int *health) { return read_unsigned(V1_HOST, "health", health); }

int dcmi_get_driver_errorcode(int *count, unsigned int *codes, unsigned int list_len)
{
    return read_driver_error_codes(V1_HOST, count, codes, list_len);
}

int dcmi_get_vdevice_mode(int *mode) { return read_int(V1_HOST, "vdevice_mode", mode); }

int dcmi_get_device_share_config_recover_mode(unsigned int *mode)
{
    return read_unsigned(V1_HOST, "share_recover", mode);
}

/* ---- card ---- */

int dcmi_get_device_num_in_card(int card_id, int *device_num)
{
    struct call call;
    int rc = begin_cached(&call, V1_CARD(card_id), device_num, sizeof *device_num);
    if (rc == NOT_READY && snapshot.api == 0 && device_num != NULL) {
        *device_num = 0;
        rc = 0;
    } else if (rc == 0) {
        *device_num = chips_in_card(card_id);
    }
    return finish(&call, rc);
}

int dcmi_get_device_id_in_card(int card_id, int *device_id_max, int *mcu_id, int *cpu_id)
{
    struct call call;
    int rc = begin_cached(&call, V1_CARD(card_id), device_id_max, sizeof *device_id_max);
    if (rc == 0 && (mcu_id == NULL || cpu_id == NULL)) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        *device_id_max = chips_in_card(card_id);
        *mcu_id = *cpu_id = -1;
        for (int i = 0; i < snapshot.unit_count; i++) {
            const struct unit *unit = &snapshot.units[i];
            if (unit->card == card_id && unit->type != UNIT_NPU) {
                *(unit->type == UNIT_MCU ? mcu_id : cpu_id) = unit->chip;
            }
        }
    }
    return finish(&call, rc);
}

int dcmi_get_card_elabel_v2(int card_id, struct dcmi_elabel_info *info)
{
    return read_elabel(V1_CARD(card_id), info);
}

int dcmi_mcu_get_power_info(int card_id, int *power) { return read_int(V1_CARD(card_id), "mcu_power", power); }

int dcmi_mcu_get_chip_temperature(int card_id, char *data_info, int buf_size, int *data_len)
{
    return read_mcu_temperature(V1_CARD(card_id), data_info, buf_size, data_len);
}

int dcmi_get_mcu_version(int card_id, char *version, int len)
{
    return read_text(V1_CARD(card_id), "mcu_version", version, len, 16);
}

int dcmi_get_fault_device_num_in_card(int card_id, int *device_num)
{
    return read_fault_device_count(V1_CARD(card_id), device_num);
}

/* ---- ids: the output comes first in some of them ---- */

int dcmi_get_device_type(int card_id, int device_id, int *type)
{
    return read_device_type(V1(card_id, device_id), type);
}

int dcmi_get_device_logic_id(int *device_logic_id, int card_id, int device_id)
{
    return read_logic_id(V1(card_id, device_id), device_logic_id);
}

int dcmi_get_device_phyid_from_logicid(unsigned int logicid, unsigned int *phyid)
{
    return read_phy_id(V1_LOGIC((int)logicid), phyid);
}

int dcmi_get_device_logicid_from_phyid(unsigned int phyid, unsigned int *logicid)
{
    return read_logic_id(V1_PHY((int)phyid), (int *)logicid);
}

int dcmi_get_card_id_device_id_from_logicid(int *card_id, int *device_id, unsigned int device_logic_id)
{
    return read_card_and_device(V1_LOGIC((int)device_logic_id), card_id, device_id);
}

int dcmi_get_card_id_device_id_from_phyid(int *card_id, int *device_id, unsigned int device_phy_id)
{
    return read_card_and_device(V1_PHY((int)device_phy_id), card_id, device_id);
}

/* ---- identity ---- */

int dcmi_get_device_chip_info(int card_id, int device_id, struct dcmi_chip_info *info)
{
    return read_chip_info(V1(card_id, device_id), info);
}

int dcmi_get_device_chip_info_v2(int card_id, int device_id, struct dcmi_chip_info_v2 *info)
{
    return read_chip_info_v2(V1(card_id, device_id), info);
}

int dcmi_get_device_die_v2(int card_id, int device_id, int input_type, struct dcmi_die_id *die_id)
{
    return read_die(V1(card_id, device_id), input_type, die_id);
}

int dcmi_get_device_pcie_info_v2(int card_id, int device_id, struct dcmi_pcie_info_all *info)
{
    return read_pcie_info(V1(card_id, device_id), info);
}

int dcmi_get_device_board_info(int card_id, int device_id, struct dcmi_board_info *info)
{
    return read_board_info(V1(card_id, device_id), info);
}

int dcmi_get_mainboard_id(int card_id, int device_id, unsigned int *mainboard_id)
{
    return read_unsigned(V1(card_id, device_id), "mainboard_id", mainboard_id);
}

int dcmi_get_product_type(int card_id, int device_id, char *product_type, int buf_size)
{
    return read_text(V1(card_id, device_id), "product_type", product_type, buf_size, 32);
}

int dcmi_get_affinity_cpu_info_by_device_id(int card_id, int device_id, char *affinity_cpu, int *length)
{
    return read_affinity(V1(card_id, device_id), affinity_cpu, length);
}

int dcmi_get_topo_info_by_device_id(int card_id1, int device_id1, int card_id2, int device_id2, int *topo_type)
{
    const struct unit *other = unit_at(card_id2, device_id2);
    return read_topo(V1(card_id1, device_id1), other == NULL ? -1 : other->logic, topo_type);
}

int dcmi_get_device_boot_status(int card_id, int device_id, int *boot_status)
{
    return read_int(V1(card_id, device_id), "boot_status", boot_status);
}

int dcmi_get_device_system_time(int card_id, int device_id, unsigned int *seconds)
{
    return read_system_time(V1(card_id, device_id), seconds);
}

int dcmi_get_device_share_enable(int card_id, int device_id, int *enable_flag)
{
    return read_int(V1(card_id, device_id), "share_enable", enable_flag);
}

int dcmi_get_netdev_brother_device(int card_id, int device_id, int *brother_card_id)
{
    return read_int(V1(card_id, device_id), "netdev_brother", brother_card_id);
}

int dcmi_get_device_compatibility(int card_id, int device_id, int *compatibility)
{
    return read_int(V1(card_id, device_id), "compatibility", compatibility);
}

int dcmi_get_device_flash_count(int card_id, int device_id, unsigned int *flash_count)
{
    return read_flash_count(V1(card_id, device_id), flash_count);
}

int dcmi_get_device_flash_info_v2(int card_id, int device_id, unsigned int flash_index, struct dcmi_flash_info *info)
{
    return read_flash_info(V1(card_id, device_id), flash_index, info);
}

/* ---- telemetry ---- */

int dcmi_get_device_temperature(int card_id, int device_id, int *temperature)
{
    return read_int(V1(card_id, device_id), "temperature", temperature);
}

int dcmi_get_device_power_info(int card_id, int device_id, int *power)
{
    return read_int(V1(card_id, device_id), "power", power);
}

int dcmi_get_device_voltage(int card_id, int device_id, unsigned int *voltage)
{
    return read_unsigned(V1(card_id, device_id), "voltage", voltage);
}

int dcmi_get_device_frequency(int card_id, int device_id, int input_type, unsigned int *frequency)
{
    return read_frequency(V1(card_id, device_id), input_type, frequency);
}

int dcmi_get_device_aicore_info(int card_id, int device_id, struct dcmi_aicore_info *info)
{
    return read_aicore_info(V1(card_id, device_id), info);
}

int dcmi_get_device_aicpu_info(int card_id, int device_id, struct dcmi_aicpu_info *info)
{
    return read_aicpu_info(V1(card_id, device_id), info);
}

int dcmi_get_device_utilization_rate(int card_id, int device_id, int input_type, unsigned int *utilization_rate)
{
    return read_utilization(V1(card_id, device_id), input_type, utilization_rate);
}

int dcmi_get_device_multi_utilization_rate(int card_id, int device_id, struct dcmi_multi_utilization_info *info)
{
    return read_multi_utilization(V1(card_id, device_id), info);
}

int dcmi_get_device_multi_utilization_rate_period(int card_id, int device_id, struct dcmi_multi_utilization_info *info,
                                                  int period)
{
    return read_multi_utilization_period(V1(card_id, device_id), info, period);
}

int dcmi_get_device_hbm_info(int card_id, int device_id, struct dcmi_hbm_info *info)
{
    return read_hbm_info(V1(card_id, device_id), info);
}

int dcmi_get_device_memory_info(int card_id, int device_id, struct dcmi_memory_info *info)
{
    return read_memory_info_v2(V1(card_id, device_id), info);
}

int dcmi_get_device_memory_info_v2(int card_id, int device_id, struct dcmi_memory_info *info)
{
    return read_memory_info_v2(V1(card_id, device_id), info);
}

int dcmi_get_device_memory_info_v3(int card_id, int device_id, struct dcmi_get_memory_info_stru *info)
{
    return read_memory_info_v3(V1(card_id, device_id), info);
}

int dcmi_get_device_ecc_info(int card_id, int device_id, int input_type, struct dcmi_ecc_info *info)
{
    return read_ecc_info(V1(card_id, device_id), input_type, info);
}

int dcmi_get_multi_ecc_time_info_v2(int card_id, int device_id, struct dcmi_multi_ecc_time_data *data)
{
    return read_ecc_times(V1(card_id, device_id), data);
}

int dcmi_get_multi_ecc_record_info_v2(int card_id, int device_id, struct dcmi_ecc_record_type type,
                                      unsigned int *ecc_count, struct dcmi_ecc_common_data *records)
{
    return read_ecc_records(V1(card_id, device_id), type, ecc_count, records);
}

int dcmi_get_device_sensor_info(int card_id, int device_id, int sensor_id, union dcmi_sensor_info *info)
{
    return read_sensor(V1(card_id, device_id), sensor_id, info);
}

int dcmi_get_device_resource_info(int card_id, int device_id, struct dcmi_proc_mem_info *proc_info, int *proc_num)
{
    return read_processes(V1(card_id, device_id), proc_info, proc_num);
}

int dcmi_get_device_llc_perf_para(int card_id, int device_id, struct dcmi_llc_perf *perf)
{
    return read_llc(V1(card_id, device_id), perf);
}

int dcmi_get_device_cgroup_info(int card_id, int device_id, struct dcmi_cgroup_info *info)
{
    return read_cgroup(V1(card_id, device_id), info);
}

int dcmi_get_device_dvpp_ratio_info(int card_id, int device_id, struct dcmi_dvpp_ratio *usage)
{
    return read_dvpp(V1(card_id, device_id), usage);
}

int dcmi_get_device_info(int card_id, int device_id, int main_cmd, unsigned int sub_cmd, void *buf, unsigned int *size)
{
    return read_device_info(V1(card_id, device_id), main_cmd, sub_cmd, buf, size);
}

/* ---- links ---- */

int dcmi_get_device_network_health(int card_id, int device_id, int *result)
{
    return read_network_health(V1(card_id, device_id), "network_health", result);
}

int dcmi_get_device_ip(int card_id, int device_id, int input_type, int port_id, struct dcmi_ip_addr *ip,
                       struct dcmi_ip_addr *mask)
{
    char key[48];
    snprintf(key, sizeof key, "device_ip.%d.%d", input_type, port_id);
    return read_ip(V1(card_id, device_id), key, ip, mask);
}

int dcmi_get_pcie_link_bandwidth_info(int card_id, int device_id, struct dcmi_pcie_link_bandwidth_info *info)
{
    return read_pcie_bandwidth(V1(card_id, device_id), info);
}

int dcmi_get_device_pcie_error_cnt(int card_id, int device_id, unsigned int *twelve_words)
{
    return read_words(V1(card_id, device_id), "pcie_error_rate", twelve_words, 12);
}

int dcmi_get_hccs_link_bandwidth_info(int card_id, int device_id, struct dcmi_hccs_bandwidth_info *info)
{
    return read_hccs_bandwidth(V1(card_id, device_id), info);
}

int dcmi_get_hccs_avail_credit_info(int card_id, int device_id, unsigned int *eighty_words)
{
    return read_words(V1(card_id, device_id), "hccs_credit", eighty_words, 80);
}

int dcmi_get_netdev_pkt_stats_info(int card_id, int device_id, int port_id, struct dcmi_network_pkt_stats_info *info)
{
    return read_packets(V1(card_id, device_id), port_id, info);
}

int dcmi_get_rdma_bandwidth_info(int card_id, int device_id, int port_id, unsigned int prof_time,
                                 struct dcmi_network_rdma_bandwidth_info *info)
{
    return read_rdma_bandwidth(V1(card_id, device_id), port_id, prof_time, info);
}

int dcmi_get_netdev_tc_stat_info(int card_id, int device_id, unsigned long long *twenty_four_counters)
{
    return read_counters(V1(card_id, device_id), "tc_statistics", twenty_four_counters, 24);
}

int dcmi_get_pfc_duration_info(int card_id, int device_id, unsigned long long *sixteen_counters)
{
    return read_counters(V1(card_id, device_id), "pfc_duration", sixteen_counters, 16);
}

int dcmi_get_extra_statistics_info(int card_id, int device_id, unsigned long long *twelve_counters)
{
    return read_counters(V1(card_id, device_id), "extra_statistics", twelve_counters, 12);
}

int dcmi_get_ub_port_link_status_info(int card_id, int device_id, struct dcmi_ub_port_link_status *status)
{
    return read_ub_link_status(V1(card_id, device_id), status);
}

int dcmi_get_ub_realtime_bandwidth_info(int card_id, int device_id, unsigned int profiling_time,
                                        struct dcmi_ub_port_info *port, struct dcmi_ub_bandwidth_info *info)
{
    return read_ub_bandwidth(V1(card_id, device_id), profiling_time, port, info);
}

int dcmi_get_urma_device_cnt(int card_id, int device_id, unsigned int *count)
{
    return read_unsigned(V1(card_id, device_id), "urma_device_count", count);
}

int dcmi_get_eid_list_by_urma_dev_index(int card_id, int device_id, unsigned int dev_index,
                                        struct dcmi_urma_eid_info *list, unsigned int *count)
{
    return read_eids(V1(card_id, device_id), dev_index, list, count);
}

/* ---- health ---- */

int dcmi_get_device_health(int card_id, int device_id, unsigned int *health)
{
    return read_health(V1(card_id, device_id), health);
}

int dcmi_get_device_errorcode_v2(int card_id, int device_id, int *error_count, unsigned int *codes,
                                 unsigned int list_len)
{
    return read_error_codes(V1(card_id, device_id), error_count, codes, list_len);
}

int dcmi_get_device_errorcode(int card_id, int device_id, int *error_count, unsigned int *codes, int *width)
{
    return read_error_code_v1(V1(card_id, device_id), error_count, codes, width);
}

int dcmi_get_device_errorcode_string(int card_id, int device_id, unsigned int code, unsigned char *text, int buf_size)
{
    return read_error_text(V1(card_id, device_id), code, text, buf_size);
}

int dcmi_get_fault_event(int card_id, int device_id, int timeout, struct dcmi_event_filter filter,
                         struct dcmi_event *event)
{
    return wait_for_event(V1(card_id, device_id), timeout, filter, event);
}

int dcmi_subscribe_fault_event(int card_id, int device_id, struct dcmi_event_filter filter,
                               dcmi_fault_event_callback handler)
{
    return subscribe(V1(card_id, device_id), filter, handler);
}

int dcmi_get_device_current_fault_event(int card_id, int device_id, struct dcmi_event *events, int max, int *count)
{
    return read_current_events(V1(card_id, device_id), events, max, count);
}

/* ---- what a monitor must never call ---- */

int dcmi_set_device_pre_reset(int card_id, int device_id) { return forbidden(V1(card_id, device_id)); }

int dcmi_set_device_rescan(int card_id, int device_id) { return forbidden(V1(card_id, device_id)); }

int dcmi_set_device_reset(int card_id, int device_id, int channel_type)
{
    (void)channel_type;
    return forbidden(V1(card_id, device_id));
}

int dcmi_set_device_clear_ecc_statistics_info(int card_id, int device_id) { return forbidden(V1(card_id, device_id)); }

int dcmi_set_device_clear_pcie_error(int card_id, int device_id) { return forbidden(V1(card_id, device_id)); }

int dcmi_set_device_clear_tc_pkt_stats(int card_id, int device_id) { return forbidden(V1(card_id, device_id)); }

int dcmi_clear_pfc_duration(int card_id, int device_id) { return forbidden(V1(card_id, device_id)); }

int dcmi_set_device_share_enable(int card_id, int device_id, int enable_flag)
{
    (void)enable_flag;
    return forbidden(V1(card_id, device_id));
}

int dcmi_set_device_info(int card_id, int device_id, int main_cmd, unsigned int sub_cmd, const void *buf,
                         unsigned int size)
{
    (void)main_cmd, (void)sub_cmd, (void)buf, (void)size;
    return forbidden(V1(card_id, device_id));
}
