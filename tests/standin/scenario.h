/*
 * The driver state that the stand-in libraries serve, read from a text file that tests replace while the caller runs.
 *
 * One line is one fact: `key value...`. `chip` and `card` begin a section, `rule` and `event` may stand anywhere.
 * Bytes outside plain text are written \xHH, so a value may hold NUL or invalid UTF-8. A value that begins with `!`
 * is a return code: the call that would read it answers that code. A missing key makes the call answer "not supported".
 */
#ifndef STANDIN_SCENARIO_H
#define STANDIN_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SC_NOT_SUPPORTED (-8255)

struct sc_entry {
    const char *key;
    char *value;   /* unescaped, a NUL follows `length` bytes */
    size_t length;
    bool is_code;
};

struct sc_section {
    struct sc_entry *entries;
    int count;
};

enum sc_rule_kind { RULE_RC, RULE_DELAY, RULE_HANG, RULE_CRASH, RULE_OVERRUN, RULE_FILL, RULE_FLOOD };

struct sc_rule {
    enum sc_rule_kind kind;
    const char *function;   /* glob */
    const char *who;        /* `*`, a logic id, or `c` and a card id */
    const char *subtype;    /* glob */
    const char *argument;
    size_t length;
};

struct sc_event {
    long long fields[10];   /* serial logic code severity assertion node_type node_id sub_type sub_id time */
    const char *name;
    size_t name_length;
};

struct scenario {
    int references;
    char *text;
    struct sc_section root;
    struct sc_section *chips;
    int chip_count;
    struct sc_section *cards;
    int card_count;
    struct sc_rule *rules;
    int rule_count;
    struct sc_event *events;
    int event_count;
};

/* The newest scenario; the caller keeps it until sc_release, whatever happens to the file meanwhile. */
struct scenario *sc_acquire(void);
void sc_release(struct scenario *scenario);

const struct sc_entry *sc_find(const struct sc_section *section, const char *key);
const struct sc_entry *sc_findf(const struct sc_section *section, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Numbers of one key into out; the count found, or -1 when the key is absent. */
int sc_numbers(const struct sc_section *section, const char *key, long long *out, int max);
long long sc_number(const struct sc_section *section, const char *key, long long otherwise);
int sc_parse_numbers(const struct sc_entry *entry, long long *out, int max);
int sc_parse_doubles(const struct sc_entry *entry, double *out, int max);

const struct sc_section *sc_chip_by(const struct scenario *scenario, const char *key, long long value);
const struct sc_section *sc_chip_at(const struct scenario *scenario, long long card, long long chip);
const struct sc_section *sc_card(const struct scenario *scenario, long long card);

/* Which call this is, as rules and the call record name it. */
struct sc_call {
    const char *function;
    int logic;           /* -1: not a call about one chip */
    int card;            /* -1: not a call about one card */
    char subtype[32];    /* "-" when the call has none */
};

/* The last rule of this kind that fits wins, so a later line can exempt what an earlier one covers. */
const struct sc_rule *sc_rule_for(const struct scenario *scenario, enum sc_rule_kind kind, const struct sc_call *call);

/*
 * Waits, hangs or crashes as the rules say and returns the scenario to answer from.
 * A hung call looks at the file every 20 ms and goes on when the rule is gone. No lock is held meanwhile.
 */
struct scenario *sc_enter(const struct sc_call *call, bool *forced, int *rc);

/* Appends `function who subtype rc` to the file named by NPUMOND_STANDIN_CALLS. */
void sc_record(const struct sc_call *call, int rc);

void sc_sleep_ms(long long ms);
void sc_print_noise(const struct scenario *scenario, const char *key);

#endif
