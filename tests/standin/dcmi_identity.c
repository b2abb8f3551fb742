/* Who a chip is: ids, names, places. */
#include "dcmi_reads.h"

#include <string.h>
#include <time.h>

int read_text(struct target at, const char *key, char *text, long long size, int min_size)
{
    struct call call;
    int rc = begin(&call, at, text, size > 0 ? (size_t)size : 0, NO_SUBTYPE);
    if (rc == 0 && size < min_size) {
        rc = INVALID_PARAMETER;
    }
    const struct sc_entry *entry = NULL;
    if (rc == 0) {
        rc = entry_of(&call, &entry, "%s", key);
    }
    if (rc == 0) {
        put_text(text, (size_t)size, entry);
    }
    return finish(&call, rc);
}

int read_logic_id(struct target at, int *logic)
{
    struct call call;
    int rc = begin_cached(&call, at, logic, sizeof *logic);
    if (rc == 0 && call.unit->type != UNIT_NPU) {
        rc = NOT_SUPPORT;
    }
    if (rc == 0) {
        *logic = call.unit->logic;
    }
    return finish(&call, rc);
}

int read_phy_id(struct target at, unsigned int *phy)
{
    struct call call;
    int rc = begin_cached(&call, at, phy, sizeof *phy);
    if (rc == 0) {
        *phy = (unsigned int)call.unit->phy;
    }
    return finish(&call, rc);
}

int read_card_and_device(struct target at, int *card, int *device)
{
    struct call call;
    int rc = begin_cached(&call, at, card, sizeof *card);
    if (rc == 0 && device == NULL) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        *card = call.unit->card;
        *device = call.unit->chip;
    }
    return finish(&call, rc);
}

int read_all_device_count(struct target at, int *count)
{
    struct call call;
    int rc = begin_cached(&call, at, count, sizeof *count);
    if (rc == 0) {
        *count = 0;
        for (int i = 0; snapshot.api == at.api && i < snapshot.unit_count; i++) {
            *count += snapshot.units[i].type == UNIT_NPU;
        }
    }
    return finish(&call, rc);
}

int read_device_type(struct target at, int *type)
{
    struct call call;
    int rc = begin_cached(&call, at, type, sizeof *type);
    if (rc == 0) {
        *type = (int)call.unit->type;
    }
    return finish(&call, rc);
}

int read_chip_info(struct target at, struct dcmi_chip_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    const struct sc_entry *name = NULL;
    if (rc == 0) {
        rc = entry_of(&call, &name, "chip_name");
    }
    if (rc == 0) {
        put_text(info->chip_name, sizeof info->chip_name, name);
        put_text(info->chip_type, sizeof info->chip_type, sc_find(call.values, "chip_type"));
        put_text(info->chip_ver, sizeof info->chip_ver, sc_find(call.values, "chip_version"));
        info->aicore_cnt = (unsigned int)sc_number(call.values, "aicore_count", 0);
    }
    return finish(&call, rc);
}

int read_chip_info_v2(struct target at, struct dcmi_chip_info_v2 *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    const struct sc_entry *name = NULL;
    const struct sc_entry *npu_name = NULL;
    if (rc == 0) {
        rc = entry_of(&call, &name, "chip_name");
    }
    if (rc == 0) {
        rc = entry_of(&call, &npu_name, "npu_name");
    }
    if (rc == 0) {
        put_text(info->chip_name, sizeof info->chip_name, name);
        put_text(info->npu_name, sizeof info->npu_name, npu_name);
        put_text(info->chip_type, sizeof info->chip_type, sc_find(call.values, "chip_type"));
        put_text(info->chip_ver, sizeof info->chip_ver, sc_find(call.values, "chip_version"));
        info->aicore_cnt = (unsigned int)sc_number(call.values, "aicore_count", 0);
    }
    return finish(&call, rc);
}

int read_die(struct target at, int type, struct dcmi_die_id *die)
{
    struct call call;
    int rc = begin(&call, at, die, sizeof *die, "%d", type);
    long long words[5];
    if (rc == 0) {
        rc = numbers_of(&call, words, 5, "die.%d", type);
    }
    for (int i = 0; rc == 0 && i < 5; i++) {
        die->soc_die[i] = (unsigned int)words[i];
    }
    return finish(&call, rc);
}

int read_pcie_info(struct target at, struct dcmi_pcie_info_all *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    long long v[8];
    if (rc == 0) {
        rc = numbers_of(&call, v, 8, "pcie_info");
    }
    if (rc == 0) {
        *info = (struct dcmi_pcie_info_all){
            .venderid = (unsigned int)v[0], .subvenderid = (unsigned int)v[1], .deviceid = (unsigned int)v[2],
            .subdeviceid = (unsigned int)v[3], .domain = (int)v[4], .bdf_busid = (unsigned int)v[5],
            .bdf_deviceid = (unsigned int)v[6], .bdf_funcid = (unsigned int)v[7],
        };
    }
    return finish(&call, rc);
}

int read_board_info(struct target at, struct dcmi_board_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    long long v[4];
    if (rc == 0) {
        rc = numbers_of(&call, v, 4, "board");
    }
    if (rc == 0) {
        *info = (struct dcmi_board_info){(unsigned int)v[0], (unsigned int)v[1], (unsigned int)v[2],
                                         (unsigned int)v[3]};
    }
    return finish(&call, rc);
}

int read_elabel(struct target at, struct dcmi_elabel_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, NO_SUBTYPE);
    const struct sc_entry *serial = NULL;
    if (rc == 0) {
        rc = entry_of(&call, &serial, "elabel_serial");
    }
    if (rc == 0) {
        memset(info, 0, sizeof *info);
        put_text(info->serial_number, sizeof info->serial_number, serial);
        put_text(info->product_name, sizeof info->product_name, sc_find(call.values, "elabel_product"));
        put_text(info->model, sizeof info->model, sc_find(call.values, "elabel_model"));
        put_text(info->manufacturer, sizeof info->manufacturer, sc_find(call.values, "elabel_manufacturer"));
    }
    return finish(&call, rc);
}

int read_affinity(struct target at, char *text, int *length)
{
    struct call call;
    int rc = begin(&call, at, text, length == NULL || *length < 0 ? 0 : (size_t)*length, NO_SUBTYPE);
    const struct sc_entry *entry = NULL;
    if (rc == 0 && length == NULL) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        rc = entry_of(&call, &entry, "affinity");
    }
    if (rc == 0 && (size_t)*length <= entry->length) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        put_text(text, (size_t)*length, entry);
        *length = (int)entry->length;
    }
    return finish(&call, rc);
}

int read_topo(struct target at, int other_logic, int *type)
{
    struct call call;
    int rc = begin(&call, at, type, sizeof *type, "%d", other_logic);
    long long found;
    if (rc == 0 && unit_by_logic(other_logic) == NULL) {
        rc = INVALID_DEVICE_ID;
    }
    if (rc == 0 && call.unit->logic == other_logic) {
        *type = 0;
        return finish(&call, rc);
    }
    if (rc == 0 && numbers_of(&call, &found, 1, "topo.%d", other_logic) != 0) {
        rc = numbers_of(&call, &found, 1, "topo");
    }
    if (rc == 0) {
        *type = (int)found;
    }
    return finish(&call, rc);
}

int read_system_time(struct target at, unsigned int *seconds)
{
    struct call call;
    int rc = begin(&call, at, seconds, sizeof *seconds, NO_SUBTYPE);
    long long offset;
    if (rc == 0) {
        rc = numbers_of(&call, &offset, 1, "clock_offset");
    }
    if (rc == 0) {
        *seconds = (unsigned int)(time(NULL) + offset);
    }
    return finish(&call, rc);
}

int read_flash_count(struct target at, unsigned int *count)
{
    struct call call;
    int rc = begin(&call, at, count, sizeof *count, NO_SUBTYPE);
    if (rc == 0 && sc_find(call.values, "flash.0") == NULL) {
        rc = NOT_SUPPORT;
    }
    if (rc == 0) {
        for (*count = 0; sc_findf(call.values, "flash.%u", *count) != NULL; *count += 1) {
        }
    }
    return finish(&call, rc);
}

int read_flash_info(struct target at, unsigned int index, struct dcmi_flash_info *info)
{
    struct call call;
    int rc = begin(&call, at, info, sizeof *info, "%u", index);
    long long v[7];
    if (rc == 0) {
        rc = numbers_of(&call, v, 7, "flash.%u", index);
    }
    if (rc == 0) {
        *info = (struct dcmi_flash_info){
            .flash_id = (unsigned long long)v[0], .device_id = (unsigned short)v[1], .vendor = (unsigned short)v[2],
            .state = (unsigned int)v[3], .size = (unsigned long long)v[4], .sector_count = (unsigned int)v[5],
            .manufacturer_id = (unsigned short)v[6],
        };
    }
    return finish(&call, rc);
}
