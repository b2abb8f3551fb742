/* The dcmiv2_* family of the 950: the same reads, keyed by the logic id alone. */
#include "dcmi_reads.h"

#include <stdio.h>

static int chips_in_all(void)
{
    int count = 0;
    for (int i = 0; i < snapshot.unit_count; i++) {
        count += snapshot.units[i].type == UNIT_NPU;
    }
    return count;
}

/* ---- host ---- */

int dcmiv2_init(void) { return init(V2_HOST); }

int dcmiv2_get_dcmi_version(char *dcmi_ver, unsigned int len)
{
    return read_text(V2_HOST, "dcmi_version", dcmi_ver, len, 16);
}

int dcmiv2_get_driver_version(char *driver_ver, unsigned int len)
{
    return read_text(V2_HOST, "driver_version", driver_ver, len, 64);
}

int dcmiv2_get_all_device_count(int *count) { return read_all_device_count(V2_HOST, count); }

int dcmiv2_get_driver_health(unsigned int *health) { return read_unsigned(V2_HOST, "health", health); }

int dcmiv2_get_driver_error_code_list(int *count, unsigned int *codes, unsigned int list_len)
{
    return read_driver_error_codes(V2_HOST, count, codes, list_len);
}

int dcmiv2_get_device_share_config_recover_mode(unsigned int *mode)
{
    return read_unsigned(V2_HOST, "share_recover", mode);
}

/* The list comes first. Devices that failed at init are not in it. */
int dcmiv2_get_device_list(int *device_list, int *device_cnt, int list_len)
{
    struct call call;
    int rc = begin_cached(&call, V2_HOST, device_list, list_len > 0 ? (size_t)list_len * sizeof *device_list : 0);
    int count = snapshot.api == 2 ? chips_in_all() : 0;
    if (rc == 0 && snapshot.api != 2) {
        rc = INNER_ERR;
    }
    if (rc == 0 && (device_cnt == NULL || list_len < count)) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        *device_cnt = 0;
        for (int i = 0; i < snapshot.unit_count; i++) {
            if (snapshot.units[i].type == UNIT_NPU) {
                device_list[(*device_cnt)++] = snapshot.units[i].logic;
            }
        }
    }
    return finish(&call, rc);
}

/* ---- identity ---- */

int dcmiv2_get_device_type(int dev_id, int *type)
{
    return read_device_type(V2(dev_id), type);
}

int dcmiv2_get_device_chip_info(int dev_id, struct dcmi_chip_info_v2 *info)
{
    return read_chip_info_v2(V2(dev_id), info);
}

int dcmiv2_get_device_die_id(int dev_id, int input_type, struct dcmi_die_id *die_id)
{
    return read_die(V2(dev_id), input_type, die_id);
}

int dcmiv2_get_device_pcie_info(int dev_id, struct dcmi_pcie_info_all *info)
{
    return read_pcie_info(V2(dev_id), info);
}

int dcmiv2_get_device_board_info(int dev_id, struct dcmi_board_info *info)
{
    return read_board_info(V2(dev_id), info);
}

int dcmiv2_get_mainboard_id(int dev_id, unsigned int *mainboard_id)
{
    return read_unsigned(V2(dev_id), "mainboard_id", mainboard_id);
}

int dcmiv2_get_affinity_cpu_info_by_dev_id(int dev_id, char *affinity_cpu, int *length)
{
    return read_affinity(V2(dev_id), affinity_cpu, length);
}

int dcmiv2_get_device_boot_status(int dev_id, int *boot_status)
{
    return read_int(V2(dev_id), "boot_status", boot_status);
}

int dcmiv2_get_device_system_time(int dev_id, unsigned int *seconds)
{
    return read_system_time(V2(dev_id), seconds);
}

int dcmiv2_get_device_share_enable(int dev_id, int *enable_flag)
{
    return read_int(V2(dev_id), "share_enable", enable_flag);
}

int dcmiv2_get_device_compatibility(int dev_id, int *compatibility)
{
    return read_int(V2(dev_id), "compatibility", compatibility);
}

int dcmiv2_get_device_flash_cnt(int dev_id, unsigned int *flash_count)
{
    return read_flash_count(V2(dev_id), flash_count);
}

int dcmiv2_get_device_flash_info(int dev_id, unsigned int flash_index, struct dcmi_flash_info *info)
{
    return read_flash_info(V2(dev_id), flash_index, info);
}

int dcmiv2_get_chip_phy_id_by_dev_id(int dev_id, unsigned int *phyid) { return read_phy_id(V2(dev_id), phyid); }

int dcmiv2_get_dev_id_by_chip_phy_id(int phyid, unsigned int *dev_id)
{
    return read_logic_id(V2_PHY(phyid), (int *)dev_id);
}

int dcmiv2_get_slot_id_and_chip_id_by_dev_id(int dev_id, unsigned int *slot_id, unsigned int *chip_id)
{
    return read_two_unsigned(V2(dev_id), "slot_and_chip", slot_id, chip_id);
}

int dcmiv2_get_device_board_id(int dev_id, unsigned int *board_id)
{
    return read_unsigned(V2(dev_id), "board", board_id);
}

int dcmiv2_get_device_elabel_info(int dev_id, struct dcmi_elabel_info *info) { return read_elabel(V2(dev_id), info); }

int dcmiv2_get_device_ub_id_info(int dev_id, struct dcmi_ub_id_info *info) { return read_ub_id(V2(dev_id), info); }

int dcmiv2_get_topo_info_by_device_id(int dev_id1, int dev_id2, int *topo_type)
{
    return read_topo(V2(dev_id1), dev_id2, topo_type);
}

/* ---- telemetry ---- */

int dcmiv2_get_device_temperature(int dev_id, int *temperature)
{
    return read_int(V2(dev_id), "temperature", temperature);
}

int dcmiv2_get_device_power_info(int dev_id, int *power)
{
    return read_int(V2(dev_id), "power", power);
}

int dcmiv2_get_device_voltage(int dev_id, unsigned int *voltage)
{
    return read_unsigned(V2(dev_id), "voltage", voltage);
}

int dcmiv2_get_device_frequency(int dev_id, int input_type, unsigned int *frequency)
{
    return read_frequency(V2(dev_id), input_type, frequency);
}

int dcmiv2_get_device_aicore_info(int dev_id, struct dcmi_aicore_info *info)
{
    return read_aicore_info(V2(dev_id), info);
}

int dcmiv2_get_device_aicpu_info(int dev_id, struct dcmi_aicpu_info *info)
{
    return read_aicpu_info(V2(dev_id), info);
}

int dcmiv2_get_device_utilization_rate(int dev_id, int input_type, unsigned int *utilization_rate)
{
    return read_utilization(V2(dev_id), input_type, utilization_rate);
}

int dcmiv2_get_device_multi_utilization_rate(int dev_id, struct dcmi_multi_utilization_info *info)
{
    return read_multi_utilization(V2(dev_id), info);
}

int dcmiv2_get_device_multi_utilization_rate_period(int dev_id, struct dcmi_multi_utilization_info *info, int period)
{
    return read_multi_utilization_period(V2(dev_id), info, period);
}

int dcmiv2_get_device_hbm_info(int dev_id, struct dcmi_hbm_info *info)
{
    return read_hbm_info(V2(dev_id), info);
}

int dcmiv2_get_device_ecc_info(int dev_id, int input_type, struct dcmi_ecc_info *info)
{
    return read_ecc_info(V2(dev_id), input_type, info);
}

int dcmiv2_get_multi_ecc_time_info(int dev_id, struct dcmi_multi_ecc_time_data *data)
{
    return read_ecc_times(V2(dev_id), data);
}

int dcmiv2_get_multi_ecc_record_info(int dev_id, struct dcmi_ecc_record_type type, unsigned int *ecc_count,
                                     struct dcmi_ecc_common_data *records)
{
    return read_ecc_records(V2(dev_id), type, ecc_count, records);
}

int dcmiv2_get_device_sensor_info(int dev_id, int sensor_id, union dcmi_sensor_info *info)
{
    return read_sensor(V2(dev_id), sensor_id, info);
}

int dcmiv2_get_device_proc_mem_info(int dev_id, struct dcmi_proc_mem_info *proc_info, int *proc_num)
{
    return read_processes(V2(dev_id), proc_info, proc_num);
}

int dcmiv2_get_device_llc_perf_para(int dev_id, struct dcmi_llc_perf *perf)
{
    return read_llc(V2(dev_id), perf);
}

int dcmiv2_get_device_cgroup_info(int dev_id, struct dcmi_cgroup_info *info)
{
    return read_cgroup(V2(dev_id), info);
}

int dcmiv2_get_device_info(int dev_id, int main_cmd, unsigned int sub_cmd, void *buf, unsigned int *size)
{
    return read_device_info(V2(dev_id), main_cmd, sub_cmd, buf, size);
}

/* ---- links ---- */

int dcmiv2_get_device_network_health(int dev_id, int *result)
{
    return read_network_health(V2(dev_id), "network_health", result);
}

int dcmiv2_get_pcie_link_bandwidth_info(int dev_id, struct dcmi_pcie_link_bandwidth_info *info)
{
    return read_pcie_bandwidth(V2(dev_id), info);
}

int dcmiv2_get_device_pcie_error_cnt(int dev_id, unsigned int *twelve_words)
{
    return read_words(V2(dev_id), "pcie_error_rate", twelve_words, 12);
}

int dcmiv2_get_netdev_pkt_stats_info(int dev_id, int port_id, struct dcmi_network_pkt_stats_info *info)
{
    return read_packets(V2(dev_id), port_id, info);
}

int dcmiv2_get_rdma_bandwidth_info(int dev_id, int port_id, unsigned int prof_time,
                                   struct dcmi_network_rdma_bandwidth_info *info)
{
    return read_rdma_bandwidth(V2(dev_id), port_id, prof_time, info);
}

int dcmiv2_get_ub_port_link_status(int dev_id, struct dcmi_ub_port_link_status *status)
{
    return read_ub_link_status(V2(dev_id), status);
}

int dcmiv2_get_ub_realtime_bandwidth_info(int dev_id, unsigned int profiling_time, struct dcmi_ub_port_info *port,
                                           struct dcmi_ub_bandwidth_info *info)
{
    return read_ub_bandwidth(V2(dev_id), profiling_time, port, info);
}

int dcmiv2_get_urma_device_cnt(int dev_id, unsigned int *count)
{
    return read_unsigned(V2(dev_id), "urma_device_count", count);
}

int dcmiv2_get_eid_list_by_urma_dev_index(int dev_id, unsigned int dev_index, struct dcmi_urma_eid_info *list,
                                         unsigned int *count)
{
    return read_eids(V2(dev_id), dev_index, list, count);
}

int dcmiv2_get_port_pkt_stats_info(int dev_id, struct dcmi_ub_port_info *port, struct dcmi_port_pkt_stats_info *info)
{
    return read_port_packets(V2(dev_id), port, info);
}

int dcmiv2_get_device_port_list_info(int dev_id, struct dcmi_port_list_info *list)
{
    return read_port_list(V2(dev_id), list);
}

int dcmiv2_get_device_netdev_list_info(int dev_id, struct dcmi_netdev_list_info *list)
{
    return read_netdev_list(V2(dev_id), list);
}

int dcmiv2_get_device_netdev_health(int dev_id, const char *netdev_name, unsigned int len, int *result)
{
    char key[64];
    snprintf(key, sizeof key, "netdev_health.%.*s", (int)len, netdev_name == NULL ? "" : netdev_name);
    return read_network_health(V2(dev_id), key, result);
}

int dcmiv2_get_netdev_ip(int dev_id, const char *netdev_name, unsigned int len, struct dcmi_ip_addr *ip,
                         struct dcmi_ip_addr *mask)
{
    char key[64];
    snprintf(key, sizeof key, "netdev_ip.%.*s", (int)len, netdev_name == NULL ? "" : netdev_name);
    return read_ip(V2(dev_id), key, ip, mask);
}

int dcmiv2_get_port_avail_credit_info(int dev_id, struct dcmi_ub_port_info *port, struct dcmi_credit_info *info)
{
    return read_port_credit(V2(dev_id), port, info);
}

/* ---- health ---- */

int dcmiv2_get_device_health(int dev_id, unsigned int *health)
{
    return read_health(V2(dev_id), health);
}

int dcmiv2_get_device_error_code_list(int dev_id, int *error_count, unsigned int *codes, unsigned int list_len)
{
    return read_error_codes(V2(dev_id), error_count, codes, list_len);
}

int dcmiv2_get_device_error_info(int dev_id, unsigned int code, unsigned char *text, int buf_size)
{
    return read_error_text(V2(dev_id), code, text, buf_size);
}

int dcmiv2_get_fault_event(int dev_id, int timeout, struct dcmi_event_filter filter, struct dcmi_event *event)
{
    return wait_for_event(V2(dev_id), timeout, filter, event);
}

int dcmiv2_subscribe_fault_event(int dev_id, struct dcmi_event_filter filter, dcmi_fault_event_callback handler)
{
    return subscribe(V2(dev_id), filter, handler);
}

int dcmiv2_get_device_current_fault_event(int dev_id, struct dcmi_event *events, int max, int *count)
{
    return read_current_events(V2(dev_id), events, max, count);
}

/* ---- what a monitor must never call ---- */

int dcmiv2_pre_reset_device(int dev_id) { return forbidden(V2(dev_id)); }

int dcmiv2_rescan_device(int dev_id) { return forbidden(V2(dev_id)); }

int dcmiv2_reset_device(int dev_id, int channel_type)
{
    (void)channel_type;
    return forbidden(V2(dev_id));
}

int dcmiv2_clear_device_ecc_stats_info(int dev_id) { return forbidden(V2(dev_id)); }

int dcmiv2_set_device_share_enable(int dev_id, int enable_flag)
{
    (void)enable_flag;
    return forbidden(V2(dev_id));
}

int dcmiv2_set_device_info(int dev_id, int main_cmd, unsigned int sub_cmd, const void *buf, unsigned int size)
{
    (void)main_cmd, (void)sub_cmd, (void)buf, (void)size;
    return forbidden(V2(dev_id));
}
