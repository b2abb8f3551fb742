/*
 * get_device_info: one call for many tables, told apart by main and sub command. `*size` goes in as the room there is
 * and comes out as the bytes written. A key `info.M.S` of raw bytes answers any pair, before the tables are asked.
 */
#include "dcmi_reads.h"

#include <stdlib.h>
#include <string.h>

enum { MAIN_LP = 8, MAIN_TS = 11, MAIN_CHIP = 12, MAIN_SOC = 14, MAIN_HCCS = 16, MAIN_VDEV = 52, MAIN_PCIE = 55,
       MAIN_SIO = 56, MAIN_SHARE = 0x8001 };

enum { HCCS_LINKS = 16, MAX_VDEVS = 32, MAX_TABLE = 1024 };

/* ---- tables of plain words ---- */

struct table {
    int main_cmd;
    unsigned int sub_cmd;
    const char *key;
    int width;       /* bytes of one number */
    int numbers;
    int bytes;       /* of the whole structure; the rest is reserved and zero */
};

static const struct table tables[] = {
    {MAIN_LP, 5, "lp_status", 4, 1, 4},
    {MAIN_LP, 9, "throttle", 8, 1, 8},
    {MAIN_LP, 10, "rated_power", 4, 1, 36},
    {MAIN_CHIP, 1, "spod", 4, 6, 48},
    {MAIN_CHIP, 2, "spod_node", 4, 2, 8},
    {MAIN_SOC, 0, "domain", 4, 5, 52},
    {MAIN_HCCS, 0, "hccs_status", 4, 2, 12},
    {MAIN_HCCS, 1, "hccs_lanes", 4, 17, 132},
    {MAIN_PCIE, 1, "pcie_errors", 4, 5, 148},
    {MAIN_SIO, 0, "sio", 2, 2, 12},
    {MAIN_SHARE, 0, "share_enable", 4, 1, 4},
};

static int fill_table(const struct call *call, const struct table *table, unsigned char *out)
{
    long long v[32];
    int rc = numbers_of(call, v, table->numbers, "%s", table->key);
    for (int i = 0; rc == 0 && i < table->numbers; i++) {
        memcpy(out + i * table->width, &v[i], (size_t)table->width);    /* little endian on both architectures */
    }
    return rc == 0 ? table->bytes : rc;
}

/* ---- cores, HCCS counters ---- */

static int fill_cores(const struct call *call, const char *key, unsigned int room, unsigned int least,
                      unsigned char *out)
{
    long long v[64];
    const struct sc_entry *entry;
    int rc = entry_of(call, &entry, "%s", key);
    if (rc != 0) {
        return rc;
    }
    if (room < least) {
        return INVALID_PARAMETER;
    }
    int count = sc_parse_numbers(entry, v, 64);
    for (int i = 0; i < count; i++) {
        out[i] = (unsigned char)v[i];
    }
    return count;
}

/* hccs_statistics lists the sub commands the driver knows: newer ones 5 (64 bit), older only 3 (32 bit, wraps). */
static bool hccs_sub_known(const struct call *call, unsigned int sub_cmd)
{
    long long subs[4];
    int count = sc_numbers(call->values, "hccs_statistics", subs, 4);
    for (int i = 0; i < count; i++) {
        if ((unsigned int)subs[i] == sub_cmd) {
            return true;
        }
    }
    return false;
}

static int fill_hccs_statistics(const struct call *call, unsigned int sub_cmd, unsigned char *out)
{
    static const char *const keys[] = {"hccs_tx_flits", "hccs_rx_flits", "hccs_crc_errors", "hccs_retries"};
    int width = sub_cmd == 5 ? 8 : 4;
    if (!hccs_sub_known(call, sub_cmd)) {
        return NOT_SUPPORT;
    }
    for (int k = 0; k < 4; k++) {
        long long v[HCCS_LINKS];
        int rc = numbers_of(call, v, HCCS_LINKS, "%s", keys[k]);
        if (rc != 0) {
            return rc;
        }
        for (int i = 0; i < HCCS_LINKS; i++) {
            memcpy(out + (k * HCCS_LINKS + i) * width, &v[i], (size_t)width);
        }
    }
    return width * 8 * HCCS_LINKS;
}

/* ---- vNPU ---- */

enum { VDEV_AIC_MILLI, VDEV_STATUS, VDEV_CONTAINER_USED, VDEV_VFID, VDEV_VFG, VDEV_CONTAINER, VDEV_MEMORY_MB,
       VDEV_UTILIZATION, VDEV_TOTAL_KB, VDEV_FREE_KB, VDEV_FIELDS };

static int fill_vdev(const struct call *call, const void *buf, unsigned char *out)
{
    unsigned int id;
    memcpy(&id, buf, sizeof id);    /* in: which one */
    long long v[VDEV_FIELDS];
    int rc = numbers_of(call, v, VDEV_FIELDS, "vdev.%u", id);
    if (rc != 0) {
        return rc;
    }
    struct dcmi_vdev_query_stru query = {.vdev_id = id};
    put_text(query.query_info.name, sizeof query.query_info.name, sc_findf(call->values, "vdev_name.%u", id));
    query.query_info.status = (unsigned int)v[VDEV_STATUS];
    query.query_info.is_container_used = (unsigned int)v[VDEV_CONTAINER_USED];
    query.query_info.vfid = (unsigned int)v[VDEV_VFID];
    query.query_info.vfg_id = (unsigned int)v[VDEV_VFG];
    query.query_info.container_id = (unsigned long long)v[VDEV_CONTAINER];
    query.query_info.computing.aic = (float)v[VDEV_AIC_MILLI] / 1000.0f;
    query.query_info.computing.memory_size = (unsigned long long)v[VDEV_MEMORY_MB];
    query.query_info.computing.vdev_aicore_utilization = (unsigned int)v[VDEV_UTILIZATION];
    query.query_info.computing.vdev_memory_total = (unsigned long long)v[VDEV_TOTAL_KB];
    query.query_info.computing.vdev_memory_free = (unsigned long long)v[VDEV_FREE_KB];
    memcpy(out, &query, sizeof query);
    return sizeof query;
}

/* vdev_resources: cores in all, cores free, memory MB in all, memory MB free */
static int fill_vdev_total(const struct call *call, unsigned char *out)
{
    long long v[4];
    int rc = numbers_of(call, v, 4, "vdev_resources");
    if (rc != 0) {
        return rc;
    }
    struct dcmi_soc_total_resource total = {.computing = {.aic = (float)v[0], .memory_size = (unsigned long long)v[2]}};
    for (int i = 0; i < call->values->count && total.vdev_num < MAX_VDEVS; i++) {
        const char *key = call->values->entries[i].key;
        if (strncmp(key, "vdev.", 5) == 0) {
            total.vdev_id[total.vdev_num++] = (unsigned int)strtoul(key + 5, NULL, 10);
        }
    }
    memcpy(out, &total, sizeof total);
    return sizeof total;
}

static int fill_vdev_free(const struct call *call, unsigned char *out)
{
    long long v[4];
    int rc = numbers_of(call, v, 4, "vdev_resources");
    if (rc != 0) {
        return rc;
    }
    struct dcmi_soc_free_resource left = {.computing = {.aic = (float)v[1], .memory_size = (unsigned long long)v[3]}};
    memcpy(out, &left, sizeof left);
    return sizeof left;
}

/* ---- the call ---- */

/* The bytes to write, or a return code below zero. */
static int fill(const struct call *call, int main_cmd, unsigned int sub_cmd, const void *buf, unsigned int room,
                unsigned char *out)
{
    const struct sc_entry *entry;
    int rc = entry_of(call, &entry, "info.%d.%u", main_cmd, sub_cmd);
    if (rc == 0) {
        size_t length = entry->length < MAX_TABLE ? entry->length : MAX_TABLE;
        memcpy(out, entry->value, length);
        return (int)length;
    }
    if (entry != NULL) {
        return rc;
    }
    if (main_cmd == MAIN_TS && sub_cmd <= 1) {
        return fill_cores(call, sub_cmd == 0 ? "core_load" : "vector_load", room, sub_cmd == 0 ? 25 : 50, out);
    }
    if (main_cmd == MAIN_HCCS && (sub_cmd == 3 || sub_cmd == 5)) {
        return fill_hccs_statistics(call, sub_cmd, out);
    }
    if (main_cmd == MAIN_VDEV && sub_cmd == 1) {
        return fill_vdev_total(call, out);
    }
    if (main_cmd == MAIN_VDEV && sub_cmd == 2) {
        return fill_vdev_free(call, out);
    }
    if (main_cmd == MAIN_VDEV && (sub_cmd == 0 || sub_cmd == 5)) {
        return room < sizeof(struct dcmi_vdev_query_stru) ? INVALID_PARAMETER : fill_vdev(call, buf, out);
    }
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (tables[i].main_cmd == main_cmd && tables[i].sub_cmd == sub_cmd) {
            return fill_table(call, &tables[i], out);
        }
    }
    return NOT_SUPPORT;
}

int read_device_info(struct target at, int main_cmd, unsigned int sub_cmd, void *buf, unsigned int *size)
{
    struct call call;
    int rc = begin(&call, at, buf, 0, "%d/%u", main_cmd, sub_cmd);
    if (rc == 0 && size == NULL) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        unsigned char out[MAX_TABLE] = {0};
        int written = fill(&call, main_cmd, sub_cmd, buf, *size, out);
        if (written < 0) {
            rc = written;
        } else if ((unsigned int)written > *size) {
            rc = INVALID_PARAMETER;
        } else {
            memcpy(buf, out, (size_t)written);
            call.out_size = (size_t)written;
            *size = (unsigned int)written;
        }
    }
    return finish(&call, rc);
}
