/* What joins chips: PCIe, HCCS, RoCE, UB. Calls that sample over a window really take that long. */
#include "dcmi_reads.h"

#include <string.h>

#define HCCS_LINKS 16

/* ---- plain arrays ---- */

int read_words(struct target at, const char *key, unsigned int *words, int count)
{
    struct call call;
    int rc = begin(&call, at, words, (size_t)count * sizeof *words, NO_SUBTYPE);
    long long v[128];
    if (rc == 0) {
        rc = numbers_of(&call, v, count, "%s", key);
    }
    for (int i = 0; rc == 0 && i < count; i++) {
        words[i] = (unsigned int)v[i];
    }
    return finish(&call, rc);
}

int read_counters(struct target at, const char *key, unsigned long long *counters, int count)
{
    struct call call;
    int rc = begin(&call, at, counters, (size_t)count * sizeof *counters, NO_SUBTYPE);
    long long v[128];
    if (rc == 0) {
        rc = numbers_of(&call, v, count, "%s", key);
    }
    for (int i = 0; rc == 0 && i < count; i++) {
        counters[i] = (unsigned long long)v[i];
    }
    return finish(&call, rc);
}

/* ---- PCIe and HCCS ---- */

int read_pcie_bandwidth(struct target at, struct dcmi_pcie_link_bandwidth_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    if (rc == 0 && (info->profiling_time < 0 || info->profiling_time > 2000)) {
        rc = INVALID_PARAMETER;
    }
    long long v[21];
    if (rc == 0) {
        rc = numbers_of(&call, v, 21, "pcie_bandwidth");
    }
    if (rc == 0) {
        sc_sleep_ms(info->profiling_time);
        unsigned int *out = info->tx_p_bw;    /* seven arrays of three follow each other */
        for (int i = 0; i < 21; i++) {
            out[i] = (unsigned int)v[i];
        }
    }
    return finish(&call, rc);
}

int read_hccs_bandwidth(struct target at, struct dcmi_hccs_bandwidth_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    if (rc == 0 && (info->profiling_time < 1 || info->profiling_time > 1000)) {
        rc = INVALID_PARAMETER;
    }
    double tx[HCCS_LINKS];
    double rx[HCCS_LINKS];
    if (rc == 0) {
        rc = doubles_of(&call, tx, HCCS_LINKS, "hccs_tx_bandwidth");
    }
    if (rc == 0) {
        rc = doubles_of(&call, rx, HCCS_LINKS, "hccs_rx_bandwidth");
    }
    if (rc == 0) {
        sc_sleep_ms(info->profiling_time);
        for (int i = 0; i < HCCS_LINKS; i++) {
            info->tx_bandwidth[i] = tx[i];
            info->rx_bandwidth[i] = rx[i];
            info->total_txbw += tx[i];    /* as the real library does: a caller that does not zero it sums up */
            info->total_rxbw += rx[i];
        }
    }
    return finish(&call, rc);
}

/* ---- network ---- */

int read_network_health(struct target at, const char *key, int *result)
{
    return read_int(at, key, result);
}

/* v4 address and mask, four numbers each */
int read_ip(struct target at, const char *key, struct dcmi_ip_addr *ip, struct dcmi_ip_addr *mask)
{
    struct call call;
    int rc = begin(&call, at, ip, sizeof *ip, "%s", key);
    long long v[8];
    if (rc == 0 && mask == NULL) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        rc = numbers_of(&call, v, 8, "%s", key);
    }
    for (int i = 0; rc == 0 && i < 4; i++) {
        ip->u_addr.u_addr4[i] = (unsigned char)v[i];
        mask->u_addr.u_addr4[i] = (unsigned char)v[4 + i];
        ip->ip_type = mask->ip_type = 0;
    }
    return finish(&call, rc);
}

int read_packets(struct target at, int port, struct dcmi_network_pkt_stats_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, "%d", port);
    long long v[DCMI_PKT_COUNTERS + 2];
    if (rc == 0 && port != 0) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        rc = numbers_of(&call, v, DCMI_PKT_COUNTERS + 2, "packets");
    }
    if (rc == 0) {
        for (int i = 0; i < DCMI_PKT_COUNTERS; i++) {
            info->counters[i] = (unsigned long long)v[i];
        }
        info->tv_sec = (unsigned long long)v[DCMI_PKT_COUNTERS];
        info->tv_usec = (unsigned long long)v[DCMI_PKT_COUNTERS + 1];
    }
    return finish(&call, rc);
}

int read_rdma_bandwidth(struct target at, int port, unsigned int ms, struct dcmi_network_rdma_bandwidth_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, "%d", port);
    long long v[2];
    if (rc == 0 && (port != 0 || ms < 100 || ms > 10000)) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        rc = numbers_of(&call, v, 2, "rdma_bandwidth");
    }
    if (rc == 0) {
        sc_sleep_ms(ms);
        *info = (struct dcmi_network_rdma_bandwidth_info){(unsigned int)v[0], (unsigned int)v[1]};
    }
    return finish(&call, rc);
}

/* ---- UB ---- */

static int begin_port(struct call *call, struct target at, const struct dcmi_ub_port_info *port, void *out, size_t size)
{
    struct dcmi_ub_port_info which = port == NULL ? (struct dcmi_ub_port_info){-1, -1} : *port;
    int rc = begin(call, at, out, size, "%d/%d", which.udie_id, which.port_id);
    return rc == 0 && port == NULL ? INVALID_PARAMETER : rc;
}

int read_port_packets(struct target at, const struct dcmi_ub_port_info *port, struct dcmi_port_pkt_stats_info *info)
{
    struct call call;
    int rc = begin_port(&call, at, port, info, sizeof *info);
    long long v[1 + DCMI_PKT_COUNTERS];
    if (rc == 0) {
        rc = numbers_of(&call, v, 1 + DCMI_PKT_COUNTERS, "ub_packets.%d.%d", port->udie_id, port->port_id);
    }
    if (rc == 0) {
        info->port_id = (unsigned int)port->port_id;
        info->is_uboe_port = (unsigned int)v[0];
        for (int i = 0; i < DCMI_PKT_COUNTERS; i++) {
            info->counters[i] = (unsigned long long)v[1 + i];
        }
    }
    return finish(&call, rc);
}

int read_ub_bandwidth(struct target at, unsigned int ms, const struct dcmi_ub_port_info *port,
                      struct dcmi_ub_bandwidth_info *info)
{
    struct call call;
    int rc = begin_port(&call, at, port, info, sizeof *info);
    long long v[2];
    if (rc == 0 && (ms < 1 || ms > 226)) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        rc = numbers_of(&call, v, 2, "ub_bandwidth.%d.%d", port->udie_id, port->port_id);
    }
    if (rc == 0) {
        sc_sleep_ms(ms);
        *info = (struct dcmi_ub_bandwidth_info){(unsigned int)v[0], (unsigned int)v[1], {0}};
    }
    return finish(&call, rc);
}

int read_ub_link_status(struct target at, struct dcmi_ub_port_link_status *status)
{
    return read_words(at, "ub_link_status", (unsigned int *)status, 37);
}

/* port_list.D: pairs of port index and mode */
int read_port_list(struct target at, struct dcmi_port_list_info *list)
{
    struct call call;
    int rc = begin(&call, at, list, sizeof *list, NO_SUBTYPE);
    if (rc == 0 && sc_find(call.values, "port_list.0") == NULL) {
        rc = NOT_SUPPORT;
    }
    if (rc == 0) {
        memset(list, 0, sizeof *list);
    }
    for (int die = 0; rc == 0 && die < 2; die++) {
        const struct sc_entry *entry = sc_findf(call.values, "port_list.%d", die);
        if (entry == NULL) {
            break;
        }
        struct die_port_list_info *of_die = &list->die_list_data[list->die_nums++];
        long long v[64];
        of_die->die_index = die;
        of_die->port_nums = sc_parse_numbers(entry, v, 64) / 2;
        for (int i = 0; i < of_die->port_nums; i++) {
            of_die->ports[i] = (struct port_info){(int)v[2 * i], (int)v[2 * i + 1]};
        }
    }
    return finish(&call, rc);
}

int read_netdev_list(struct target at, struct dcmi_netdev_list_info *list)
{
    struct call call;
    int rc = begin(&call, at, list, sizeof *list, NO_SUBTYPE);
    if (rc == 0 && sc_find(call.values, "netdev.0") == NULL) {
        rc = NOT_SUPPORT;
    }
    if (rc == 0) {
        memset(list, 0, sizeof *list);
        for (int i = 0; i < 8; i++) {
            const struct sc_entry *entry = sc_findf(call.values, "netdev.%d", i);
            if (entry == NULL) {
                break;
            }
            put_text(list->netdev_name[list->netdev_nums++], 16, entry);
        }
    }
    return finish(&call, rc);
}

int read_port_credit(struct target at, const struct dcmi_ub_port_info *port, struct dcmi_credit_info *info)
{
    struct call call;
    int rc = begin_port(&call, at, port, info, sizeof *info);
    long long v[34];
    if (rc == 0) {
        rc = numbers_of(&call, v, 34, "ub_credit.%d.%d", port->udie_id, port->port_id);
    }
    for (int i = 0; rc == 0 && i < 34; i++) {
        ((unsigned int *)info)[i] = (unsigned int)v[i];
    }
    return finish(&call, rc);
}

int read_ub_id(struct target at, struct dcmi_ub_id_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    long long v[4];
    if (rc == 0) {
        rc = numbers_of(&call, v, 4, "ub_id");
    }
    if (rc == 0) {
        *info = (struct dcmi_ub_id_info){(unsigned short)v[0], (unsigned short)v[1], (unsigned short)v[2],
                                         (unsigned short)v[3], {0}};
    }
    return finish(&call, rc);
}

/* urma_eids.I: pairs of 64-bit words */
int read_eids(struct target at, unsigned int index, struct dcmi_urma_eid_info *list, unsigned int *count)
{
    struct call call;
    int rc = begin(&call, at, list, 0, "%u", index);
    const struct sc_entry *entry = NULL;
    if (rc == 0 && count == NULL) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        rc = entry_of(&call, &entry, "urma_eids.%u", index);
    }
    if (rc == 0) {
        long long v[64];
        unsigned int found = (unsigned int)sc_parse_numbers(entry, v, 64) / 2;
        if (found > *count) {
            return finish(&call, INVALID_PARAMETER);
        }
        *count = found;
        for (unsigned int i = 0; i < found; i++) {
            list[i].eid.words[0] = (unsigned long long)v[2 * i];
            list[i].eid.words[1] = (unsigned long long)v[2 * i + 1];
            list[i].eid_index = i;
        }
    }
    return finish(&call, rc);
}
