/*
 * What every call of the stand-in has in common: the snapshot of the cards, finding the chip meant, rules and record.
 * The v1 calls name a chip by (card, chip), the v2 calls by its logic id; from struct target on they are the same.
 */
#ifndef STANDIN_DCMI_CORE_H
#define STANDIN_DCMI_CORE_H

#include "dcmi_abi.h"
#include "scenario.h"

enum {
    DCMI_OK = 0,
    INVALID_PARAMETER = -8001,
    INNER_ERR = -8005,
    TIME_OUT = -8006,
    INVALID_DEVICE_ID = -8007,
    DEVICE_NOT_EXIST = -8008,
    NOT_READY = -8012,
    RESOURCE_OCCUPIED = -8020,
    NOT_SUPPORT = SC_NOT_SUPPORTED,
};

enum unit_type { UNIT_NPU = 0, UNIT_MCU = 1, UNIT_CPU = 2, UNIT_INVALID = 0xFF };

#define MAX_CARDS 64
#define MAX_UNITS 256

struct unit {
    enum unit_type type;
    int card;
    int chip;     /* the device id inside the card */
    int logic;    /* -1 for MCU and CPU */
    int phy;
};

/* What dcmi_init saw. Calls that only translate ids answer from here, whatever has become of the chips since. */
struct snapshot {
    int api;      /* 0 before init */
    int card_count;
    int cards[MAX_CARDS];
    int unit_count;
    struct unit units[MAX_UNITS];
};

extern struct snapshot snapshot;

enum scope { WHOLE_HOST, ONE_CARD, BY_CARD, BY_LOGIC, BY_PHY };

struct target {
    const char *function;
    int api;
    enum scope scope;
    int card;
    int device;
};

#define V1(card_id, device_id) ((struct target){__func__, 1, BY_CARD, (card_id), (device_id)})
#define V1_LOGIC(logic_id) ((struct target){__func__, 1, BY_LOGIC, -1, (logic_id)})
#define V1_PHY(phy_id) ((struct target){__func__, 1, BY_PHY, -1, (phy_id)})
#define V1_CARD(card_id) ((struct target){__func__, 1, ONE_CARD, (card_id), -1})
#define V1_HOST ((struct target){__func__, 1, WHOLE_HOST, -1, -1})
#define V2(dev_id) ((struct target){__func__, 2, BY_LOGIC, -1, (dev_id)})
#define V2_PHY(phy_id) ((struct target){__func__, 2, BY_PHY, -1, (phy_id)})
#define V2_HOST ((struct target){__func__, 2, WHOLE_HOST, -1, -1})

struct call {
    struct sc_call name;
    struct target at;
    struct scenario *scenario;
    const struct unit *unit;            /* of the snapshot; NULL for calls about a card or the host */
    const struct sc_section *values;    /* the chip's, the card's or the host's */
    void *out;
    size_t out_size;
};

#define NO_SUBTYPE "-"

/*
 * Begins a call: 0 to go on, else the code to end with. `out` is checked for NULL and is what overrun and fill rules
 * write to. begin_cached does not need the chip to be alive.
 */
int begin(struct call *call, struct target at, void *out, size_t out_size, const char *subtype_format, ...)
    __attribute__((format(printf, 5, 6)));
int begin_cached(struct call *call, struct target at, void *out, size_t out_size);
int finish(struct call *call, int rc);

/* Readers of one key of the chip at hand: 0, the code written in its place, or NOT_SUPPORT when it is absent. */
int entry_of(const struct call *call, const struct sc_entry **out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int numbers_of(const struct call *call, long long *out, int count, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int doubles_of(const struct call *call, double *out, int count, const char *key);

/* Copies a text into a field that may stay without a terminating NUL, as the real one may. */
void put_text(void *field, size_t size, const struct sc_entry *entry);

const struct unit *unit_at(int card, int chip);
const struct unit *unit_by_logic(int logic);
const struct unit *unit_by_phy(int phy);
int chips_in_card(int card);

int init(struct target at);
/* Fills one event record; code 0 leaves it untouched. */
void put_event(struct dcmi_event *event, const long long fields[10], const void *name, size_t length);

#endif
