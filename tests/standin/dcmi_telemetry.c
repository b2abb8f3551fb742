/* How a chip is: load, heat, memory, errors, health. */
#include "dcmi_reads.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_ERROR_CODES 128
#define MAX_PROCESSES 64

/* A build with -DSTANDIN_ECC_BYTES=36 writes the two counters that newer drivers append. */
#ifndef STANDIN_ECC_BYTES
#define STANDIN_ECC_BYTES 28
#endif

int read_int(struct target at, const char *key, int *out)
{
    struct call call;
    int rc = begin(&call, at, out, sizeof *out, NO_SUBTYPE);
    long long value;
    if (rc == 0) {
        rc = numbers_of(&call, &value, 1, "%s", key);
    }
    if (rc == 0) {
        *out = (int)value;
    }
    return finish(&call, rc);
}

int read_unsigned(struct target at, const char *key, unsigned int *out)
{
    return read_int(at, key, (int *)out);
}

int read_two_unsigned(struct target at, const char *key, unsigned int *first, unsigned int *second)
{
    struct call call;
    int rc = begin(&call, at, first, sizeof *first, NO_SUBTYPE);
    long long v[2];
    if (rc == 0 && second == NULL) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        rc = numbers_of(&call, v, 2, "%s", key);
    }
    if (rc == 0) {
        *first = (unsigned int)v[0];
        *second = (unsigned int)v[1];
    }
    return finish(&call, rc);
}

/* Milliseconds of the wall clock, so that a reader can tell how old a frequency on a page is. */
static unsigned int encoded_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned int)((now.tv_sec * 1000LL + now.tv_nsec / 1000000) % 1000000);
}

int read_frequency(struct target at, int type, unsigned int *mhz)
{
    struct call call;
    int rc = begin(&call, at, mhz, sizeof *mhz, "%d", type);
    long long value;
    if (rc == 0) {
        rc = numbers_of(&call, &value, 1, "frequency.%d", type);
    }
    if (rc == 0) {
        bool encode = sc_find(&call.scenario->root, "encode_time") != NULL;
        *mhz = encode ? encoded_time() : (unsigned int)value;
    }
    return finish(&call, rc);
}

int read_aicore_info(struct target at, struct dcmi_aicore_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    long long v[2];
    if (rc == 0) {
        rc = numbers_of(&call, v, 2, "aicore");
    }
    if (rc == 0) {
        *info = (struct dcmi_aicore_info){(unsigned int)v[0], (unsigned int)v[1]};
    }
    return finish(&call, rc);
}

int read_aicpu_info(struct target at, struct dcmi_aicpu_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    long long v[19];
    if (rc == 0) {
        rc = numbers_of(&call, v, 19, "aicpu");
    }
    if (rc == 0) {
        *info = (struct dcmi_aicpu_info){(unsigned int)v[0], (unsigned int)v[1], (unsigned int)v[2], {0}};
        for (int i = 0; i < 16; i++) {
            info->util_rate[i] = (unsigned int)v[3 + i];
        }
    }
    return finish(&call, rc);
}

/* ---- utilisation ---- */

/* The library does this itself: above 100 becomes 0. The knob lets such values through to test a caller's own guard. */
static unsigned int clamped(const struct call *call, long long percent)
{
    bool raw = sc_find(&call->scenario->root, "raw_utilization") != NULL;
    return (unsigned int)(raw || (percent >= 0 && percent <= 100) ? percent : 0);
}

/* Memory usage rates are computed from the memory calls, so they follow a change of the used amount. */
static int computed_usage(const struct call *call, int type, long long *percent)
{
    long long v[2];
    if (type == 6 && numbers_of(call, v, 2, "hbm") == 0 && v[0] > 0) {
        *percent = v[1] * 100 / v[0];
        return 0;
    }
    if (type == 1 && numbers_of(call, v, 2, "ddr") == 0 && v[0] > 0) {
        *percent = (v[0] - v[1]) * 100 / v[0];
        return 0;
    }
    return NOT_SUPPORT;
}

int read_utilization(struct target at, int type, unsigned int *percent)
{
    struct call call;
    int rc = begin(&call, at, percent, sizeof *percent, "%d", type);
    long long value = 0;
    if (rc == 0) {
        rc = numbers_of(&call, &value, 1, "utilization.%d", type);
        if (rc == NOT_SUPPORT && sc_findf(call.values, "utilization.%d", type) == NULL) {
            rc = computed_usage(&call, type, &value);
        }
        *percent = rc == 0 ? clamped(&call, value) : 0;
    }
    return finish(&call, rc);
}

static int fill_multi(struct call *call, struct dcmi_multi_utilization_info *info)
{
    long long v[4];
    int rc = numbers_of(call, v, 4, "multi_utilization");
    if (rc == 0) {
        *info = (struct dcmi_multi_utilization_info){
            .aic_util = clamped(call, v[0]), .aiv_util = clamped(call, v[1]), .aicore_util = clamped(call, v[2])};
        unsigned int npu = clamped(call, v[3]);
        info->npu_util = npu > info->aicore_util ? npu : info->aicore_util;
    }
    return rc;
}

int read_multi_utilization(struct target at, struct dcmi_multi_utilization_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    return finish(&call, rc == 0 ? fill_multi(&call, info) : rc);
}

int read_multi_utilization_period(struct target at, struct dcmi_multi_utilization_info *info, int period)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, "%d", period);
    if (rc == 0 && (period < 1 || period > 4)) {
        rc = INVALID_PARAMETER;
    }
    long long supported;
    if (rc == 0) {
        rc = numbers_of(&call, &supported, 1, "multi_utilization_period");
    }
    if (rc == 0) {
        sc_sleep_ms(period * 1000LL);
        rc = fill_multi(&call, info);
    }
    return finish(&call, rc);
}

/* ---- memory ---- */

int read_hbm_info(struct target at, struct dcmi_hbm_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    long long v[5];
    if (rc == 0) {
        rc = numbers_of(&call, v, 5, "hbm");
    }
    if (rc == 0) {
        info->memory_size = (unsigned long long)v[0];
        info->memory_usage = (unsigned long long)v[1];
        info->freq = (unsigned int)v[2];
        info->temp = (int)v[3];
        info->bandwith_util_rate = (unsigned int)v[4];
    }
    return finish(&call, rc);
}

/* ddr: size, available, frequency, huge page KB, huge pages total and free, utilisation */
int read_memory_info_v3(struct target at, struct dcmi_get_memory_info_stru *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    long long v[7];
    if (rc == 0) {
        rc = numbers_of(&call, v, 7, "ddr");
    }
    if (rc == 0) {
        info->memory_size = (unsigned long long)v[0];
        info->memory_available = (unsigned long long)v[1];
        info->freq = (unsigned int)v[2];
        info->hugepagesize = (unsigned long)v[3];
        info->hugepages_total = (unsigned long)v[4];
        info->hugepages_free = (unsigned long)v[5];
        info->utiliza = (unsigned int)v[6];
    }
    return finish(&call, rc);
}

int read_memory_info_v2(struct target at, struct dcmi_memory_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    long long v[7];
    if (rc == 0) {
        rc = numbers_of(&call, v, 7, "ddr");
    }
    if (rc == 0) {
        *info = (struct dcmi_memory_info){(unsigned long long)v[0], (unsigned int)v[2], (unsigned int)v[6]};
    }
    return finish(&call, rc);
}

int read_ecc_info(struct target at, int type, struct dcmi_ecc_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, STANDIN_ECC_BYTES, "%d", type);
    long long v[9];
    unsigned int words[9];
    if (rc == 0) {
        rc = numbers_of(&call, v, 9, "ecc.%d", type);
    }
    if (rc == 0) {
        for (int i = 0; i < 9; i++) {
            words[i] = (unsigned int)v[i];
        }
        memcpy((void *)info, words, STANDIN_ECC_BYTES);
    }
    return finish(&call, rc);
}

int read_ecc_times(struct target at, struct dcmi_multi_ecc_time_data *data)
{
    struct call call;
    int rc = begin(&call, at, data, sizeof *data, NO_SUBTYPE);
    const struct sc_entry *entry = NULL;
    if (rc == 0) {
        rc = entry_of(&call, &entry, "ecc_times");
    }
    if (rc == 0) {
        long long times[64];
        int count = sc_parse_numbers(entry, times, 64);
        memset(data, 0, sizeof *data);
        data->multi_record_count = (unsigned int)count;
        for (int i = 0; i < count; i++) {
            data->multi_ecc_times[i] = (unsigned int)times[i];
        }
    }
    return finish(&call, rc);
}

/* ecc_records.N: physical address, stack, register high and low, count, time */
int read_ecc_records(struct target at, struct dcmi_ecc_record_type type, unsigned int *count,
                     struct dcmi_ecc_common_data *records)
{
    struct call call;
    int rc = begin(&call, at, count, sizeof *count, "%d/%d", type.read_type, type.module_type);
    if (rc == 0 && records == NULL) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0 && sc_find(call.values, "ecc_records.0") == NULL) {
        rc = NOT_SUPPORT;
    }
    for (unsigned int i = 0; rc == 0; i++) {
        const struct sc_entry *entry = sc_findf(call.values, "ecc_records.%u", i);
        long long v[6] = {0};
        *count = i;
        if (entry == NULL) {
            break;
        }
        sc_parse_numbers(entry, v, 6);
        records[i] = (struct dcmi_ecc_common_data){
            (unsigned long long)v[0], (unsigned int)v[1], (unsigned int)v[2], (unsigned int)v[3], (unsigned int)v[4],
            (int)v[5],
        };
    }
    return finish(&call, rc);
}

/* ---- sensors, processes and the rest ---- */

enum { SENSOR_NTC = 10, SENSOR_SOC = 11 };

int read_sensor(struct target at, int id, union dcmi_sensor_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, "%d", id);
    long long v[4];
    if (rc == 0) {
        rc = numbers_of(&call, v, 4, "sensor.%d", id);
    }
    if (rc == 0 && id == SENSOR_SOC) {
        info->uchar = (unsigned char)v[0];
    } else if (rc == 0 && id == SENSOR_NTC) {
        for (int i = 0; i < 4; i++) {
            info->ntc_tmp[i] = (int)v[i];
        }
    } else if (rc == 0) {
        info->iint = (int)v[0];
    }
    return finish(&call, rc);
}

int read_processes(struct target at, struct dcmi_proc_mem_info *processes, int *count)
{
    struct call call;
    int rc = begin(&call, at, processes, MAX_PROCESSES * sizeof *processes, NO_SUBTYPE);
    const struct sc_entry *entry = NULL;
    if (rc == 0 && count == NULL) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        rc = entry_of(&call, &entry, "processes");
    }
    if (rc == 0) {
        long long v[2 * MAX_PROCESSES];
        *count = sc_parse_numbers(entry, v, 2 * MAX_PROCESSES) / 2;
        bool all = sc_find(&call.scenario->root, "process_fill") != NULL;
        memset(processes, 0, (size_t)(all ? MAX_PROCESSES : *count) * sizeof *processes);
        for (int i = 0; i < *count; i++) {
            processes[i].proc_id = (int)v[2 * i];
            processes[i].proc_mem_usage = (unsigned long)v[2 * i + 1];
        }
        *count = (int)sc_number(call.values, "process_count", *count);
    }
    return finish(&call, rc);
}

int read_llc(struct target at, struct dcmi_llc_perf *perf)
{
    return read_words(at, "llc", (unsigned int *)perf, 3);
}

int read_cgroup(struct target at, struct dcmi_cgroup_info *info)
{
    return read_counters(at, "cgroup", (unsigned long long *)info, 3);
}

int read_dvpp(struct target at, struct dcmi_dvpp_ratio *ratio)
{
    return read_words(at, "dvpp", (unsigned int *)ratio, 5);
}

int read_mcu_temperature(struct target at, char *text, int size, int *length)
{
    struct call call;
    int rc = begin(&call, at, text, size < 0 ? 0 : (size_t)size, NO_SUBTYPE);
    const struct sc_entry *entry = NULL;
    if (rc == 0 && length == NULL) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        rc = entry_of(&call, &entry, "mcu_temperature");
    }
    if (rc == 0 && (size_t)size < entry->length) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        put_text(text, (size_t)size, entry);
        *length = (int)entry->length;
    }
    return finish(&call, rc);
}

/* ---- health ---- */

#define HEALTH_UNKNOWN 0xFFFFFFFFu

int read_health(struct target at, unsigned int *health)
{
    struct call call;
    int rc = begin(&call, at, health, sizeof *health, NO_SUBTYPE);
    long long value;
    if (call.unit != NULL && call.unit->type != UNIT_NPU && rc == NOT_SUPPORT) {
        *health = 0;
        return finish(&call, 0);
    }
    if (rc == 0) {
        rc = numbers_of(&call, &value, 1, "health");
    }
    if (rc == 0) {
        *health = (unsigned int)value;
    } else if (health != NULL) {
        *health = HEALTH_UNKNOWN;
    }
    return finish(&call, rc);
}

static int fill_codes(const struct call *call, int *count, unsigned int *codes, unsigned int list_len)
{
    const struct sc_entry *entry;
    int rc = entry_of(call, &entry, "error_codes");
    if (rc != 0) {
        return rc;
    }
    long long v[MAX_ERROR_CODES];
    int found = sc_parse_numbers(entry, v, MAX_ERROR_CODES);
    if ((unsigned int)found > list_len) {
        return INVALID_PARAMETER;
    }
    for (int i = 0; i < found; i++) {
        codes[i] = (unsigned int)v[i];
    }
    *count = found;
    return 0;
}

int read_error_codes(struct target at, int *count, unsigned int *codes, unsigned int list_len)
{
    struct call call;
    int rc = begin(&call, at, codes, list_len * sizeof *codes, NO_SUBTYPE);
    if (rc == 0 && count == NULL) {
        rc = INVALID_PARAMETER;
    }
    if (call.unit != NULL && call.unit->type != UNIT_NPU && rc == NOT_SUPPORT && count != NULL) {
        *count = 0;
        return finish(&call, 0);
    }
    return finish(&call, rc == 0 ? fill_codes(&call, count, codes, list_len) : rc);
}

/* The old call: supported where `errorcode_width` stands, which no chip since the first 910 does. */
int read_error_code_v1(struct target at, int *count, unsigned int *codes, int *width)
{
    struct call call;
    int rc = begin(&call, at, codes, MAX_ERROR_CODES * sizeof *codes, NO_SUBTYPE);
    long long value;
    if (rc == 0 && (count == NULL || width == NULL)) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        rc = numbers_of(&call, &value, 1, "errorcode_width");
    }
    if (rc == 0) {
        rc = fill_codes(&call, count, codes, MAX_ERROR_CODES);
    }
    if (rc == 0) {
        *width = (int)value;
    }
    return finish(&call, rc);
}

int read_error_text(struct target at, unsigned int code, unsigned char *text, int size)
{
    struct call call;
    int rc = begin(&call, at, text, size < 0 ? 0 : (size_t)size, "%08X", code);
    if (rc == 0 && size < 48) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        const struct sc_entry *entry = sc_findf(&call.scenario->root, "error_text.%08X", code);
        char made[128];
        if (entry != NULL) {
            put_text(text, (size_t)size, entry);
        } else {
            snprintf(made, sizeof made, size < 256 ? "fault %08X" : "fault %08X, all of its description", code);
            memset(text, 0, (size_t)size);
            strncpy((char *)text, made, (size_t)size - 1);
        }
    }
    return finish(&call, rc);
}

int read_driver_error_codes(struct target at, int *count, unsigned int *codes, unsigned int list_len)
{
    struct call call;
    int rc = begin(&call, at, codes, list_len * sizeof *codes, NO_SUBTYPE);
    if (rc == 0 && count == NULL) {
        rc = INVALID_PARAMETER;
    }
    return finish(&call, rc == 0 ? fill_codes(&call, count, codes, list_len) : rc);
}

int read_fault_device_count(struct target at, int *count)
{
    struct call call;
    int rc = begin(&call, at, count, sizeof *count, NO_SUBTYPE);
    if (rc == 0) {
        *count = 0;
        for (int i = 0; i < call.scenario->chip_count; i++) {
            const struct sc_section *chip = &call.scenario->chips[i];
            *count += sc_number(chip, "card_id", -1) == at.card && sc_number(chip, "health", 0) != 0;
        }
    }
    return finish(&call, rc);
}
