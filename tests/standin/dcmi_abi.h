/*
 * The structures of libdcmi.so as this stand-in serves them; dcmi_abi_check.c holds their sizes and offsets.
 * Written from field tables, not from the vendor's header. Enumerations are plain int: they are four bytes.
 */
#ifndef STANDIN_DCMI_ABI_H
#define STANDIN_DCMI_ABI_H

struct dcmi_chip_info {
    unsigned char chip_type[32];
    unsigned char chip_name[32];
    unsigned char chip_ver[32];
    unsigned int aicore_cnt;
};

struct dcmi_chip_info_v2 {
    unsigned char chip_type[32];
    unsigned char chip_name[32];
    unsigned char chip_ver[32];
    unsigned int aicore_cnt;
    unsigned char npu_name[32];
};

struct dcmi_pcie_info_all {
    unsigned int venderid;
    unsigned int subvenderid;
    unsigned int deviceid;
    unsigned int subdeviceid;
    int domain;
    unsigned int bdf_busid;
    unsigned int bdf_deviceid;
    unsigned int bdf_funcid;
    unsigned char reserve[32];
};

struct dcmi_board_info {
    unsigned int board_id;
    unsigned int pcb_id;
    unsigned int bom_id;
    unsigned int slot_id;
};

struct dcmi_elabel_info {
    char product_name[256];
    char model[256];
    char manufacturer[256];
    char manufacturer_date[256];
    char serial_number[256];
};

struct dcmi_die_id {
    unsigned int soc_die[5];
};

struct dcmi_aicore_info {
    unsigned int freq;
    unsigned int cur_freq;
};

struct dcmi_aicpu_info {
    unsigned int max_freq;
    unsigned int cur_freq;
    unsigned int aicpu_num;
    unsigned int util_rate[16];
};

struct dcmi_hbm_info {
    unsigned long long memory_size;
    unsigned int freq;
    unsigned long long memory_usage;
    int temp;
    unsigned int bandwith_util_rate;
};

struct dcmi_get_memory_info_stru {
    unsigned long long memory_size;
    unsigned long long memory_available;
    unsigned int freq;
    unsigned long hugepagesize;
    unsigned long hugepages_total;
    unsigned long hugepages_free;
    unsigned int utiliza;
    unsigned char reserve[60];
};

struct dcmi_memory_info {
    unsigned long long memory_size;
    unsigned int freq;
    unsigned int utiliza;
};

struct dcmi_ecc_info {
    int enable_flag;
    unsigned int single_bit_error_cnt;
    unsigned int double_bit_error_cnt;
    unsigned int total_single_bit_error_cnt;
    unsigned int total_double_bit_error_cnt;
    unsigned int single_bit_isolated_pages_cnt;
    unsigned int double_bit_isolated_pages_cnt;
};

struct dcmi_multi_ecc_time_data {
    unsigned int multi_record_count;
    unsigned int multi_ecc_times[64];
} __attribute__((packed));

struct dcmi_ecc_common_data {
    unsigned long long physical_addr;
    unsigned int stack_pc_id;
    unsigned int reg_addr_h;
    unsigned int reg_addr_l;
    unsigned int ecc_count;
    int timestamp;
} __attribute__((packed));

struct dcmi_ecc_record_type {
    int read_type;
    int module_type;
};

struct dcmi_multi_utilization_info {
    unsigned int aic_util;
    unsigned int aiv_util;
    unsigned int aicore_util;
    unsigned int npu_util;
    unsigned int reserved[8];
};

struct dcmi_proc_mem_info {
    int proc_id;
    unsigned long proc_mem_usage;
};

struct dcmi_llc_perf {
    unsigned int wr_hit_rate;
    unsigned int rd_hit_rate;
    unsigned int throughput;
};

struct dcmi_cgroup_info {
    unsigned long limit_in_bytes;
    unsigned long max_usage_in_bytes;
    unsigned long usage_in_bytes;
};

struct dcmi_dvpp_ratio {
    int vdec_ratio;
    int vpc_ratio;
    int venc_ratio;
    int jpege_ratio;
    int jpegd_ratio;
};

struct dcmi_pcie_link_bandwidth_info {
    int profiling_time;
    unsigned int tx_p_bw[3];
    unsigned int tx_np_bw[3];
    unsigned int tx_cpl_bw[3];
    unsigned int tx_np_lantency[3];
    unsigned int rx_p_bw[3];
    unsigned int rx_np_bw[3];
    unsigned int rx_cpl_bw[3];
};

struct dcmi_pcie_link_error_info {
    unsigned int tx_err_cnt;
    unsigned int rx_err_cnt;
    unsigned int lcrc_err_cnt;
    unsigned int ecrc_err_cnt;
    unsigned int retry_cnt;
    unsigned int rsv[32];
};

struct dcmi_hccs_bandwidth_info {
    int profiling_time;
    double total_txbw;
    double total_rxbw;
    double tx_bandwidth[16];
    double rx_bandwidth[16];
};

struct dcmi_hccs_statistic_info {
    unsigned int tx_cnt[16];
    unsigned int rx_cnt[16];
    unsigned int crc_err_cnt[16];
    unsigned int retry_cnt[16];
    unsigned int reserved_field_cnt[64];
};

struct dcmi_hccs_statistic_info_u64 {
    unsigned long long tx_cnt[16];
    unsigned long long rx_cnt[16];
    unsigned long long crc_err_cnt[16];
    unsigned long long retry_cnt[16];
    unsigned long long reserved[64];
};

struct dcmi_hccs_lane_info {
    unsigned int hccs_port_pcs_bitmap;
    unsigned int pcs_lane_bitmap[16];
    unsigned int reserve[16];
};

struct dcmi_hccs_statues {
    unsigned int pcs_status;
    unsigned int hdlc_status;
    unsigned char reserve[4];
};

struct dcmi_sio_crc_err_statistics_info {
    unsigned short tx_error_count;
    unsigned short rx_error_count;
    unsigned char reserved[8];
};

struct dcmi_spod_info {
    unsigned int sdid;
    unsigned int super_pod_size;
    unsigned int super_pod_id;
    unsigned int server_index;
    unsigned int chassis_id;
    unsigned int super_pod_type;
    unsigned int reserve[6];
};

struct dcmi_domain_info {
    int ai_cpu_num;
    int ctrl_cpu_num;
    int data_cpu_num;
    int ai_core_num;
    int vector_core_num;
    int reserve[8];
};

struct dcmi_ip_addr {
    union {
        unsigned char u_addr6[16];
        unsigned char u_addr4[4];
    } u_addr;
    int ip_type;
};

struct dcmi_network_rdma_bandwidth_info {
    unsigned int tx_bandwidth;
    unsigned int rx_bandwidth;
};

struct dcmi_event_filter {
    unsigned long long filter_flag;
    unsigned int event_id;
    unsigned char severity;
    unsigned char node_type;
    unsigned char resv[32];
};

struct dcmi_dms_fault_event {
    unsigned int event_id;
    unsigned short deviceid;
    unsigned char node_type;
    unsigned char node_id;
    unsigned char sub_node_type;
    unsigned char sub_node_id;
    unsigned char severity;
    unsigned char assertion;
    int event_serial_num;
    int notify_serial_num;
    unsigned long long alarm_raised_time;
    char event_name[256];
    char additional_info[32];
    unsigned char os_id;
    unsigned char resv_1[1];
    unsigned short node_type_ex;
    unsigned short sub_node_type_ex;
    unsigned char resv_2[2];
    unsigned char resv[24];
};

struct dcmi_event {
    int type;
    union {
        struct dcmi_dms_fault_event dms_event;
    } event_t;
};

struct dcmi_base_resource {
    unsigned long long token;
    unsigned long long token_max;
    unsigned long long task_timeout;
    unsigned int vfg_id;
    unsigned char vip_mode;
    unsigned char reserved[31];
};

struct dcmi_computing_resource {
    float aic;
    float aiv;
    unsigned short dsa;
    unsigned short rtsq;
    unsigned short acsq;
    unsigned short cdqm;
    unsigned short c_core;
    unsigned short ffts;
    unsigned short sdma;
    unsigned short pcie_dma;
    unsigned long long memory_size;
    unsigned int event_id;
    unsigned int notify_id;
    unsigned int stream_id;
    unsigned int model_id;
    unsigned short topic_schedule_aicpu;
    unsigned short host_ctrl_cpu;
    unsigned short host_aicpu;
    unsigned short device_aicpu;
    unsigned short topic_ctrl_cpu_slot;
    unsigned int vdev_aicore_utilization;
    unsigned long long vdev_memory_total;
    unsigned long long vdev_memory_free;
    unsigned char reserved[12];
};

struct dcmi_media_resource {
    float jpegd;
    float jpege;
    float vpc;
    float vdec;
    float pngd;
    float venc;
    unsigned char reserved[32];
};

struct dcmi_vdev_query_info {
    char name[16];
    unsigned int status;
    unsigned int is_container_used;
    unsigned int vfid;
    unsigned int vfg_id;
    unsigned long long container_id;
    struct dcmi_base_resource base;
    struct dcmi_computing_resource computing;
    struct dcmi_media_resource media;
};

struct dcmi_vdev_query_stru {
    unsigned int vdev_id;
    struct dcmi_vdev_query_info query_info;
};

struct dcmi_soc_free_resource {
    unsigned int vfg_num;
    unsigned int vfg_bitmap;
    struct dcmi_base_resource base;
    struct dcmi_computing_resource computing;
    struct dcmi_media_resource media;
};

struct dcmi_soc_total_resource {
    unsigned int vdev_num;
    unsigned int vdev_id[32];
    unsigned int vfg_num;
    unsigned int vfg_bitmap;
    struct dcmi_base_resource base;
    struct dcmi_computing_resource computing;
    struct dcmi_media_resource media;
};

struct dcmi_ub_port_info {
    int udie_id;
    int port_id;
};

struct dcmi_ub_bandwidth_info {
    unsigned int tx_bandwidth;
    unsigned int rx_bandwidth;
    unsigned int reserved[2];
};

struct dcmi_ub_port_link_status {
    int ub_link_status;
    int ub_port_status[36];
};

struct port_info {
    int port_index;
    int mode;
};

struct die_port_list_info {
    int die_index;
    int port_nums;
    struct port_info ports[32];
};

struct dcmi_port_list_info {
    int die_nums;
    struct die_port_list_info die_list_data[2];
};

struct dcmi_netdev_list_info {
    int netdev_nums;
    char netdev_name[8][16];
};

struct dcmi_credit_info {
    unsigned int link_alloc_port_share_credit;
    unsigned int link_cur_used_port_share_credit;
    unsigned int link_alloc_vl_pri_credit[16];
    unsigned int link_cur_used_pri_credit[16];
};

struct dcmi_urma_eid_info {
    union {
        unsigned char raw[16];
        unsigned long long words[2];
    } eid;
    unsigned int eid_index;
};

struct dcmi_ub_id_info {
    unsigned short device_id;
    unsigned short vendor_id;
    unsigned short module_vendor_id;
    unsigned short module_id;
    unsigned char reserved[32];
};

struct dcmi_flash_info {
    unsigned long long flash_id;
    unsigned short device_id;
    unsigned short vendor;
    unsigned int state;
    unsigned long long size;
    unsigned int sector_count;
    unsigned short manufacturer_id;
};

#define DCMI_PKT_COUNTERS 48

/* The 48 counters in the order of the vendor's header; scenario.py names them. */
struct dcmi_network_pkt_stats_info {
    unsigned long long counters[DCMI_PKT_COUNTERS];
    unsigned long long tv_sec;
    unsigned long long tv_usec;
    unsigned char reserved[64];
};

struct dcmi_port_pkt_stats_info {
    unsigned int port_id;
    unsigned int is_uboe_port;
    unsigned long long counters[DCMI_PKT_COUNTERS];
    unsigned char reserved[128];
};

union dcmi_sensor_info {
    unsigned char uchar;
    unsigned short ushort;
    unsigned int uint;
    int iint;
    signed char temp[2];
    int ntc_tmp[4];
    unsigned int data[16];
};

typedef void (*dcmi_fault_event_callback)(struct dcmi_event *event);

#endif
