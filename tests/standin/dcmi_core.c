#include "dcmi_core.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct snapshot snapshot;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- init ---- */

static void add_unit(struct snapshot *seen, enum unit_type type, int card, int chip, int logic, int phy)
{
    if (seen->unit_count < MAX_UNITS) {
        seen->units[seen->unit_count++] = (struct unit){type, card, chip, logic, phy};
    }
}

static bool dead(const struct sc_section *chip)
{
    return sc_find(chip, "init_failed") != NULL || sc_find(chip, "lost") != NULL;
}

/* With the union policy (0) one dead die takes its card along; independent dies (1) stand for themselves. */
static bool card_usable(const struct scenario *scenario, long long card)
{
    int alive = 0;
    int failed = 0;
    for (int i = 0; i < scenario->chip_count; i++) {
        if (sc_number(&scenario->chips[i], "card_id", -1) == card) {
            *(dead(&scenario->chips[i]) ? &failed : &alive) += 1;
        }
    }
    return alive > 0 && (failed == 0 || sc_number(&scenario->root, "multi_die_policy", 0) == 1);
}

static bool card_known(const long long *order, int count, long long card)
{
    for (int i = 0; i < count; i++) {
        if (order[i] == card) {
            return true;
        }
    }
    return false;
}

static void see_chips(struct snapshot *seen, const struct scenario *scenario, long long card)
{
    for (int i = 0; i < scenario->chip_count; i++) {
        const struct sc_section *chip = &scenario->chips[i];
        if (sc_number(chip, "card_id", -1) == card && !dead(chip)) {
            add_unit(seen, UNIT_NPU, (int)card, (int)sc_number(chip, "chip_id", -1),
                     (int)sc_number(chip, "logic_id", -1), (int)sc_number(chip, "phy_id", -1));
        }
    }
    const struct sc_section *extras = sc_card(scenario, card);
    long long id = sc_number(extras, "mcu_id", -1);
    if (id >= 0) {
        add_unit(seen, UNIT_MCU, (int)card, (int)id, -1, -1);
    }
    id = sc_number(extras, "cpu_id", -1);
    if (id >= 0) {
        add_unit(seen, UNIT_CPU, (int)card, (int)id, -1, -1);
    }
}

static void see_cards(struct snapshot *seen, const struct scenario *scenario)
{
    long long order[MAX_CARDS];
    int count = 0;
    for (int i = 0; i < scenario->chip_count && count < MAX_CARDS; i++) {
        long long card = sc_number(&scenario->chips[i], "card_id", -1);
        if (!card_known(order, count, card)) {
            order[count++] = card;
        }
    }
    for (int i = 0; i < count; i++) {
        bool usable = card_usable(scenario, order[i]);
        seen->cards[seen->card_count++] = usable ? (int)order[i] : -1;
        if (usable) {
            see_chips(seen, scenario, order[i]);
        }
    }
    long long list[MAX_CARDS];
    int listed = sc_numbers(&scenario->root, "card_list", list, MAX_CARDS);
    if (listed >= 0) {
        seen->card_count = listed;
        for (int i = 0; i < listed; i++) {
            seen->cards[i] = (int)list[i];
        }
    }
}

int init(struct target at)
{
    struct sc_call name = {.function = at.function, .logic = -1, .card = -1, .subtype = "-"};
    bool forced;
    int rc;
    struct scenario *scenario = sc_enter(&name, &forced, &rc);
    sc_print_noise(scenario, "noise_init");
    long long api = sc_number(&scenario->root, "api", 0);
    if (rc == 0 && api == 0) {
        rc = INNER_ERR;
    } else if (rc == 0 && api != at.api) {
        rc = NOT_SUPPORT;
    }
    if (rc == 0) {
        pthread_mutex_lock(&init_lock);
        if (snapshot.api == 0) {
            see_cards(&snapshot, scenario);
            snapshot.api = at.api;
        }
        pthread_mutex_unlock(&init_lock);
    }
    sc_release(scenario);
    sc_record(&name, rc);
    return rc;
}

/* ---- finding units ---- */

const struct unit *unit_at(int card, int chip)
{
    for (int i = 0; i < snapshot.unit_count; i++) {
        if (snapshot.units[i].card == card && snapshot.units[i].chip == chip) {
            return &snapshot.units[i];
        }
    }
    return NULL;
}

const struct unit *unit_by_logic(int logic)
{
    for (int i = 0; i < snapshot.unit_count; i++) {
        if (snapshot.units[i].type == UNIT_NPU && snapshot.units[i].logic == logic) {
            return &snapshot.units[i];
        }
    }
    return NULL;
}

const struct unit *unit_by_phy(int phy)
{
    for (int i = 0; i < snapshot.unit_count; i++) {
        if (snapshot.units[i].type == UNIT_NPU && snapshot.units[i].phy == phy) {
            return &snapshot.units[i];
        }
    }
    return NULL;
}

int chips_in_card(int card)
{
    int count = 0;
    for (int i = 0; i < snapshot.unit_count; i++) {
        count += snapshot.units[i].card == card && snapshot.units[i].type == UNIT_NPU;
    }
    return count;
}

/* ---- one call ---- */

static int locate(struct call *call)
{
    struct target at = call->at;
    if (at.scope == WHOLE_HOST) {
        return 0;
    }
    if (snapshot.api != at.api) {
        return NOT_READY;
    }
    if (at.scope == ONE_CARD) {
        return chips_in_card(at.card) > 0 ? 0 : INVALID_DEVICE_ID;
    }
    if (at.scope == BY_CARD) {
        call->unit = unit_at(at.card, at.device);
    } else {
        call->unit = at.scope == BY_LOGIC ? unit_by_logic(at.device) : unit_by_phy(at.device);
    }
    return call->unit != NULL ? 0 : INVALID_DEVICE_ID;
}

static void name_call(struct call *call)
{
    call->name.function = call->at.function;
    call->name.card = call->unit != NULL ? call->unit->card : call->at.card;
    call->name.logic = call->unit != NULL ? call->unit->logic : -1;
}

static int values_of_chip(struct call *call)
{
    const struct unit *unit = call->unit;
    if (unit->type != UNIT_NPU) {
        return NOT_SUPPORT;
    }
    call->values = sc_chip_at(call->scenario, unit->card, unit->chip);
    if (call->values == NULL) {
        return NOT_READY;
    }
    return (int)sc_number(call->values, "lost", 0);
}

static int start(struct call *call, bool needs_chip)
{
    int unknown = locate(call);
    name_call(call);
    bool forced;
    int rc;
    call->scenario = sc_enter(&call->name, &forced, &rc);
    if (rc == 0) {
        rc = unknown;
    }
    if (rc == 0 && call->out == NULL) {
        rc = INVALID_PARAMETER;
    }
    if (rc != 0) {
        return rc;
    }
    if (call->unit != NULL) {
        rc = values_of_chip(call);
        return needs_chip ? rc : 0;
    }
    call->values = call->at.scope == ONE_CARD ? sc_card(call->scenario, call->at.card) : &call->scenario->root;
    return 0;
}

int begin(struct call *call, struct target at, void *out, size_t out_size, const char *subtype_format, ...)
{
    *call = (struct call){.at = at, .out = out, .out_size = out_size};
    va_list arguments;
    va_start(arguments, subtype_format);
    vsnprintf(call->name.subtype, sizeof call->name.subtype, subtype_format, arguments);
    va_end(arguments);
    return start(call, true);
}

int begin_cached(struct call *call, struct target at, void *out, size_t out_size)
{
    *call = (struct call){.at = at, .out = out, .out_size = out_size};
    strcpy(call->name.subtype, NO_SUBTYPE);
    return start(call, false);
}

int finish(struct call *call, int rc)
{
    if (rc == 0 && call->out != NULL) {
        const struct sc_rule *fill = sc_rule_for(call->scenario, RULE_FILL, &call->name);
        if (fill != NULL) {
            memcpy(call->out, fill->argument, fill->length);
        }
        const struct sc_rule *overrun = sc_rule_for(call->scenario, RULE_OVERRUN, &call->name);
        long long bytes = overrun == NULL ? 0 : strtoll(overrun->argument, NULL, 0);
        if (bytes > 0) {
            memset((char *)call->out + call->out_size, 0xA5, (size_t)bytes);
        }
    }
    sc_release(call->scenario);
    sc_record(&call->name, rc);
    return rc;
}

/* ---- values ---- */

int entry_of(const struct call *call, const struct sc_entry **out, const char *format, ...)
{
    char key[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key, sizeof key, format, arguments);
    va_end(arguments);
    *out = sc_find(call->values, key);
    if (*out == NULL) {
        return NOT_SUPPORT;
    }
    return (*out)->is_code ? (int)strtol((*out)->value, NULL, 0) : 0;
}

int numbers_of(const struct call *call, long long *out, int count, const char *format, ...)
{
    char key[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key, sizeof key, format, arguments);
    va_end(arguments);
    const struct sc_entry *entry;
    int rc = entry_of(call, &entry, "%s", key);
    memset(out, 0, (size_t)count * sizeof *out);
    if (rc == 0) {
        sc_parse_numbers(entry, out, count);
    }
    return rc;
}

int doubles_of(const struct call *call, double *out, int count, const char *key)
{
    const struct sc_entry *entry;
    int rc = entry_of(call, &entry, "%s", key);
    memset(out, 0, (size_t)count * sizeof *out);
    if (rc == 0) {
        sc_parse_doubles(entry, out, count);
    }
    return rc;
}

void put_text(void *field, size_t size, const struct sc_entry *entry)
{
    memset(field, 0, size);
    if (entry != NULL && !entry->is_code) {
        memcpy(field, entry->value, entry->length < size ? entry->length : size);
    }
}
