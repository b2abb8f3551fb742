/*
 * libacl_rt.so and libascendcl.so: the few runtime calls that a monitor may use, over the same scenario as libdcmi.so.
 * Device memory is host memory here, so a copy to it and back really moves the bytes.
 */
#define _GNU_SOURCE
#include "scenario.h"

#include <ctype.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ACL_OK = 0,
    INVALID_PARAM = 100000,
    REPEAT_INITIALIZE = 100002,
    REPEAT_FINALIZE = 100037,
    RT_PARAM_INVALID = 107000,
    RT_INVALID_DEVICE = 107001,
    RT_CONTEXT_NULL = 107002,
    RT_STREAM_CONTEXT = 107003,
    BAD_ALLOC = 200000,
    RT_NOT_SUPPORTED = 207000,
    RT_NO_DEVICE = 207004,
    INTERNAL_ERROR = 500000,
    RT_DEV_SETUP = 507033,
    RT_STREAM_TIMEOUT = 507046,
    DRV_INTERNAL = 507899,
};

enum { MAX_DEVICES = 256 };

typedef int aclError;
typedef void *aclrtStream;

typedef struct {
    int cubeUtilization;
    int vectorUtilization;
    int aicpuUtilization;
    int memoryUtilization;
    void *utilizationExtend;
} aclrtUtilizationInfo;

_Static_assert(sizeof(aclrtUtilizationInfo) == 24, "size of aclrtUtilizationInfo");
_Static_assert(offsetof(aclrtUtilizationInfo, vectorUtilization) == 4, "offset of vectorUtilization");
_Static_assert(offsetof(aclrtUtilizationInfo, aicpuUtilization) == 8, "offset of aicpuUtilization");
_Static_assert(offsetof(aclrtUtilizationInfo, memoryUtilization) == 12, "offset of memoryUtilization");
_Static_assert(offsetof(aclrtUtilizationInfo, utilizationExtend) == 16, "offset of utilizationExtend");

typedef struct {
    char bytes[16];
} aclrtUuid;

struct stream {
    int logic;
    bool pending;
};

/* The visible devices, read once in the life of the process as the runtime does. user id -> logic id. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int visible[MAX_DEVICES];
static int visible_count;
static bool visible_bad;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised;
static bool finalised;
static bool device_set_before;
static int context_references[MAX_DEVICES];

static __thread int current_user = -1;
static __thread char message[128];

static aclError fail(aclError code, const char *text)
{
    snprintf(message, sizeof message, "E%d: %s", code, text);
    return code;
}

/* ---- devices ---- */

static int device_total(void)
{
    struct scenario *scenario = sc_acquire();
    int count = 0;
    for (int i = 0; i < scenario->chip_count; i++) {
        count += sc_find(&scenario->chips[i], "init_failed") == NULL;
    }
    sc_release(scenario);
    return count;
}

/*
 * ASCEND_RT_VISIBLE_DEVICES: logic ids, ascending. Reading stops at the first token that is not all digits or not a
 * device; a descending or repeated id, or nothing left, is an error.
 */
static void read_visible_list(const char *list, int total)
{
    int last = -1;
    for (const char *at = list;;) {
        const char *digits = at;
        while (isdigit((unsigned char)*at)) {
            at++;
        }
        if (at == digits || (*at != ',' && *at != '\0') || atoi(digits) >= total) {
            break;
        }
        int logic = atoi(digits);
        if (logic <= last) {
            visible_bad = true;
            return;
        }
        visible[visible_count++] = last = logic;
        if (*at++ == '\0') {
            break;
        }
    }
    visible_bad = visible_count == 0;
}

static void look_at_devices(void)
{
    int total = device_total();
    const char *list = getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (list != NULL) {
        read_visible_list(list, total);
        return;
    }
    struct scenario *scenario = sc_acquire();
    for (int logic = 0; logic < MAX_DEVICES && visible_count < total; logic++) {
        const struct sc_section *chip = sc_chip_by(scenario, "logic_id", logic);
        if (chip != NULL && sc_find(chip, "init_failed") == NULL) {
            visible[visible_count++] = logic;
        }
    }
    sc_release(scenario);
}

static int logic_of(long long user)
{
    pthread_once(&once, look_at_devices);
    return user >= 0 && user < visible_count && !visible_bad ? visible[user] : -1;
}

static int user_of(int logic)
{
    pthread_once(&once, look_at_devices);
    for (int user = 0; user < visible_count; user++) {
        if (visible[user] == logic) {
            return user;
        }
    }
    return -1;
}

/* ---- one call ---- */

struct call {
    struct sc_call name;
    struct scenario *scenario;
    const struct sc_section *chip;
};

static aclError begin(struct call *call, const char *function, int logic, const char *subtype)
{
    *call = (struct call){.name = {.function = function, .logic = logic, .card = -1}};
    snprintf(call->name.subtype, sizeof call->name.subtype, "%s", subtype);
    bool forced;
    int rc;
    call->scenario = sc_enter(&call->name, &forced, &rc);
    call->chip = sc_chip_by(call->scenario, "logic_id", logic);
    return forced ? fail(rc, "forced by the scenario") : ACL_OK;
}

/* For calls about one device: also sees that it exists and answers. */
static aclError begin_device(struct call *call, const char *function, long long user, const char *subtype)
{
    int logic = logic_of(user);
    aclError rc = begin(call, function, logic, subtype);
    if (rc == ACL_OK && logic < 0) {
        rc = fail(RT_INVALID_DEVICE, "invalid device id");
    }
    if (rc == ACL_OK && (call->chip == NULL || sc_find(call->chip, "lost") != NULL)) {
        rc = fail(DRV_INTERNAL, "the driver does not answer");
    }
    return rc;
}

static aclError finish(struct call *call, aclError rc)
{
    sc_release(call->scenario);
    sc_record(&call->name, rc);
    return rc;
}

/* ---- start and end ---- */

aclError aclInit(const char *config_path)
{
    (void)config_path;
    struct call call;
    aclError rc = begin(&call, __func__, -1, "-");
    sc_print_noise(call.scenario, "noise_init");
    if (rc == ACL_OK && sc_find(&call.scenario->root, "soc_name") == NULL) {
        rc = fail(INTERNAL_ERROR, "cannot read the SoC name");
    }
    pthread_mutex_lock(&lock);
    if (rc == ACL_OK && initialised) {
        rc = fail(REPEAT_INITIALIZE, "initialised before");
    } else if (rc == ACL_OK) {
        initialised = true;
        finalised = false;
    }
    pthread_mutex_unlock(&lock);
    return finish(&call, rc);
}

aclError aclFinalize(void)
{
    struct call call;
    aclError rc = begin(&call, __func__, -1, "-");
    pthread_mutex_lock(&lock);
    if (rc == ACL_OK && (finalised || !initialised)) {
        rc = fail(REPEAT_FINALIZE, "finalised before");
    } else if (rc == ACL_OK) {
        initialised = false;
        finalised = true;
    }
    pthread_mutex_unlock(&lock);
    return finish(&call, rc);
}

aclError aclrtGetVersion(int *major, int *minor, int *patch)
{
    *major = 1;
    *minor = 17;
    *patch = 0;
    return ACL_OK;
}

aclError aclsysGetVersionStr(char *package, char *version)
{
    struct call call;
    aclError rc = begin(&call, __func__, -1, package == NULL ? "-" : package);
    if (rc == ACL_OK && (package == NULL || version == NULL)) {
        rc = fail(INVALID_PARAM, "null pointer");
    }
    if (rc == ACL_OK) {
        bool driver = strcmp(package, "driver") == 0;
        const struct sc_entry *found = driver ? sc_find(&call.scenario->root, "driver_version")
                                              : sc_findf(&call.scenario->root, "cann_version.%s", package);
        if (found == NULL) {
            rc = fail(INVALID_PARAM, "no such package");
        } else {
            snprintf(version, 128, "%s", found->value);
        }
    }
    return finish(&call, rc);
}

/* Static storage, as the real one: the first answer stays. */
const char *aclrtGetSocName(void)
{
    static char name[64];
    struct call call;
    aclError rc = begin(&call, __func__, -1, "-");
    const struct sc_entry *found = sc_find(&call.scenario->root, "soc_name");
    pthread_mutex_lock(&lock);
    if (rc == ACL_OK && found != NULL && name[0] == '\0') {
        snprintf(name, sizeof name, "%s", found->value);
    }
    pthread_mutex_unlock(&lock);
    finish(&call, rc);
    return rc == ACL_OK && name[0] != '\0' ? name : NULL;
}

const char *aclGetRecentErrMsg(void) { return message[0] == '\0' ? NULL : message; }

aclError aclrtGetRunMode(int *mode)
{
    struct call call;
    aclError rc = begin(&call, __func__, -1, "-");
    if (rc == ACL_OK) {
        *mode = (int)sc_number(&call.scenario->root, "run_mode", 1);
    }
    return finish(&call, rc);
}

/* ---- without a context ---- */

aclError aclrtGetDeviceCount(uint32_t *count)
{
    struct call call;
    aclError rc = begin(&call, __func__, -1, "-");
    pthread_once(&once, look_at_devices);
    if (rc == ACL_OK && (visible_bad || visible_count == 0)) {
        rc = fail(RT_NO_DEVICE, "EE2002: no device, or a bad ASCEND_RT_VISIBLE_DEVICES");
    }
    if (rc == ACL_OK) {
        *count = (uint32_t)visible_count;
    }
    return finish(&call, rc);
}

aclError aclrtGetDeviceInfo(uint32_t device, int attribute, int64_t *value)
{
    struct call call;
    char subtype[16];
    snprintf(subtype, sizeof subtype, "%d", attribute);
    aclError rc = begin_device(&call, __func__, device, subtype);
    if (rc == ACL_OK) {
        const struct sc_entry *entry = sc_findf(call.chip, "acl_attribute.%d", attribute);
        long long number;
        if (entry == NULL || sc_parse_numbers(entry, &number, 1) != 1) {
            rc = fail(INVALID_PARAM, "no such attribute");
        } else {
            *value = number;
        }
    }
    return finish(&call, rc);
}

static int utilization(const struct sc_section *chip, const char *key)
{
    long long value = sc_find(chip, "lost") == NULL ? sc_number(chip, key, -1) : -1;
    return value > 100 ? -1 : (int)value;
}

/* Succeeds whatever happens underneath: an item that could not be read is -1, memory always is. */
aclError aclrtGetDeviceUtilizationRate(int32_t device, aclrtUtilizationInfo *info)
{
    int logic = logic_of(device);
    struct call call;
    aclError rc = begin(&call, __func__, logic, "-");
    if (rc == ACL_OK && logic < 0) {
        rc = fail(RT_INVALID_DEVICE, "invalid device id");
    }
    if (rc == ACL_OK && (info == NULL || info->utilizationExtend != NULL)) {
        rc = fail(RT_PARAM_INVALID, "utilizationExtend must be NULL");
    }
    if (rc == ACL_OK) {
        info->cubeUtilization = utilization(call.chip, "utilization.2");
        info->vectorUtilization = utilization(call.chip, "utilization.12");
        info->aicpuUtilization = utilization(call.chip, "utilization.3");
        info->memoryUtilization = -1;
    }
    return finish(&call, rc);
}

/* ---- ids ---- */

static aclError translate(const char *function, int logic, int32_t found, int32_t *out)
{
    struct call call;
    aclError rc = begin(&call, function, logic, "-");
    if (rc == ACL_OK && (logic < 0 || found < 0)) {
        rc = fail(RT_INVALID_DEVICE, "invalid device id");
    }
    if (rc == ACL_OK) {
        *out = found;
    }
    return finish(&call, rc);
}

static int phy_of(int logic)
{
    struct scenario *scenario = sc_acquire();
    int phy = (int)sc_number(sc_chip_by(scenario, "logic_id", logic), "phy_id", -1);
    sc_release(scenario);
    return phy;
}

static int logic_by_phy(int phy)
{
    struct scenario *scenario = sc_acquire();
    int logic = (int)sc_number(sc_chip_by(scenario, "phy_id", phy), "logic_id", -1);
    sc_release(scenario);
    return logic;
}

aclError aclrtGetLogicDevIdByUserDevId(int32_t user, int32_t *logic)
{
    return translate(__func__, logic_of(user), logic_of(user), logic);
}

aclError aclrtGetUserDevIdByLogicDevId(int32_t logic, int32_t *user)
{
    return translate(__func__, logic, user_of(logic), user);
}

aclError aclrtGetPhyDevIdByLogicDevId(int32_t logic, int32_t *phy)
{
    return translate(__func__, logic, phy_of(logic), phy);
}

aclError aclrtGetLogicDevIdByPhyDevId(int32_t phy, int32_t *logic)
{
    return translate(__func__, logic_by_phy(phy), logic_by_phy(phy), logic);
}

aclError aclrtGetUserDevIdByPhyDevId(int32_t phy, int32_t *user)
{
    return translate(__func__, logic_by_phy(phy), user_of(logic_by_phy(phy)), user);
}

aclError aclrtGetPhyDevIdByUserDevId(int32_t user, int32_t *phy)
{
    return translate(__func__, logic_of(user), phy_of(logic_of(user)), phy);
}

aclError aclrtDeviceGetPCIBusId(int32_t device, char *text, int32_t len)
{
    struct call call;
    aclError rc = begin_device(&call, __func__, device, "-");
    long long v[8];
    if (rc == ACL_OK && (text == NULL || len < 13)) {
        rc = fail(RT_PARAM_INVALID, "the buffer is too small");
    }
    if (rc == ACL_OK && sc_numbers(call.chip, "pcie_info", v, 8) != 8) {
        rc = fail(RT_NOT_SUPPORTED, "not attached by PCIe");
    }
    if (rc == ACL_OK) {
        snprintf(text, (size_t)len, "%04llx:%02llx:%02llx.%llx", v[4], v[5], v[6], v[7]);
    }
    return finish(&call, rc);
}

aclError aclrtDeviceGetUuid(int32_t device, aclrtUuid *uuid)
{
    struct call call;
    aclError rc = begin_device(&call, __func__, device, "-");
    const struct sc_entry *entry = rc == ACL_OK ? sc_find(call.chip, "acl_uuid") : NULL;
    if (rc == ACL_OK && entry == NULL) {
        rc = fail(RT_NOT_SUPPORTED, "this chip has no uuid");
    }
    if (rc == ACL_OK) {
        memset(uuid, 0, sizeof *uuid);
        memcpy(uuid->bytes, entry->value, entry->length < sizeof *uuid ? entry->length : sizeof *uuid);
    }
    return finish(&call, rc);
}

/* A flag of this process alone, which nothing here sets: the driver is not asked. */
aclError aclrtQueryDeviceStatus(int32_t device, int *status)
{
    struct call call;
    aclError rc = begin(&call, __func__, logic_of(device), "-");
    if (rc == ACL_OK && logic_of(device) < 0) {
        rc = fail(RT_INVALID_DEVICE, "invalid device id");
    }
    if (rc == ACL_OK) {
        *status = 0;
    }
    return finish(&call, rc);
}

/* ---- with a context ---- */

/* Bytes of the memory the chip has: free and total. */
static bool memory_of(const struct sc_section *chip, long long *left, long long *total)
{
    long long v[2];
    if (sc_numbers(chip, "acl_memory", v, 2) == 2) {
        *left = v[0];
        *total = v[1];
    } else if (sc_numbers(chip, "hbm", v, 2) == 2) {
        *left = (v[0] - v[1]) << 20;
        *total = v[0] << 20;
    } else if (sc_numbers(chip, "ddr", v, 2) == 2) {
        *left = v[1] << 20;
        *total = v[0] << 20;
    } else {
        return false;
    }
    return true;
}

/* The first opening of a device in a process starts its helper there; later ones are quick. */
static void wait_for_setup(const struct scenario *scenario)
{
    long long ms[2] = {0};
    sc_numbers(&scenario->root, "acl_set_device_ms", ms, 2);
    pthread_mutex_lock(&lock);
    bool first = !device_set_before;
    device_set_before = true;
    pthread_mutex_unlock(&lock);
    sc_sleep_ms(ms[first ? 0 : 1]);
}

aclError aclrtSetDevice(int32_t device)
{
    struct call call;
    aclError rc = begin_device(&call, __func__, device, "-");
    long long left;
    long long total;
    if (rc == ACL_OK && memory_of(call.chip, &left, &total) &&
        left < sc_number(&call.scenario->root, "acl_context_mb", 0) << 20) {
        rc = fail(RT_DEV_SETUP, "no memory for a context");
    }
    if (rc == ACL_OK) {
        wait_for_setup(call.scenario);
        pthread_mutex_lock(&lock);
        context_references[device]++;
        pthread_mutex_unlock(&lock);
        current_user = device;
    }
    return finish(&call, rc);
}

static bool stuck(int logic)
{
    struct scenario *scenario = sc_acquire();
    bool is = sc_find(sc_chip_by(scenario, "logic_id", logic), "acl_stuck") != NULL;
    sc_release(scenario);
    return is;
}

/* Waits for unfinished tasks, for ever where they never finish. */
static aclError reset(const char *function, int32_t device)
{
    struct call call;
    aclError rc = begin_device(&call, function, device, "-");
    while (rc == ACL_OK && stuck(call.name.logic)) {
        sc_sleep_ms(20);
    }
    if (rc == ACL_OK) {
        pthread_mutex_lock(&lock);
        context_references[device] -= context_references[device] > 0;
        pthread_mutex_unlock(&lock);
        current_user = current_user == device ? -1 : current_user;
    }
    return finish(&call, rc);
}

aclError aclrtResetDevice(int32_t device) { return reset(__func__, device); }

aclError aclrtResetDeviceForce(int32_t device) { return reset(__func__, device); }

static aclError begin_context(struct call *call, const char *function, const char *subtype)
{
    aclError rc = begin(call, function, current_user < 0 ? -1 : logic_of(current_user), subtype);
    return rc == ACL_OK && current_user < 0 ? fail(RT_CONTEXT_NULL, "no device is set in this thread") : rc;
}

aclError aclrtGetMemInfo(int attribute, size_t *left, size_t *total)
{
    struct call call;
    char subtype[16];
    snprintf(subtype, sizeof subtype, "%d", attribute);
    aclError rc = begin_context(&call, __func__, subtype);
    long long found_left = 0;
    long long found_total = 0;
    if (rc == ACL_OK) {
        bool has_hbm = sc_find(call.chip, "hbm") != NULL;
        bool asks_ddr = attribute == 0 || attribute == 2 || attribute == 3;
        if (!(asks_ddr && has_hbm)) {
            memory_of(call.chip, &found_left, &found_total);
        }
        *left = (size_t)found_left;
        *total = (size_t)found_total;
    }
    return finish(&call, rc);
}

static aclError create_stream(const char *function, aclrtStream *out)
{
    struct call call;
    aclError rc = begin_context(&call, function, "-");
    if (rc == ACL_OK) {
        struct stream *stream = calloc(1, sizeof *stream);
        stream->logic = call.name.logic;
        *out = stream;
    }
    return finish(&call, rc);
}

aclError aclrtCreateStream(aclrtStream *stream) { return create_stream(__func__, stream); }

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    (void)priority, (void)flag;
    return create_stream(__func__, stream);
}

static aclError destroy_stream(const char *function, aclrtStream stream)
{
    struct call call;
    aclError rc = begin_context(&call, function, "-");
    if (rc == ACL_OK && stream == NULL) {
        rc = fail(RT_PARAM_INVALID, "null stream");
    }
    if (rc == ACL_OK) {
        free(stream);
    }
    return finish(&call, rc);
}

aclError aclrtDestroyStream(aclrtStream stream) { return destroy_stream(__func__, stream); }

aclError aclrtDestroyStreamForce(aclrtStream stream) { return destroy_stream(__func__, stream); }

static aclError synchronize(const char *function, aclrtStream handle, int32_t timeout_ms)
{
    struct call call;
    aclError rc = begin_context(&call, function, "-");
    struct stream *stream = handle;
    if (rc == ACL_OK && (stream == NULL || timeout_ms < -1)) {
        rc = fail(RT_PARAM_INVALID, "null stream or a timeout below -1");
    }
    long long waited = 0;
    while (rc == ACL_OK && stream->pending && stuck(stream->logic)) {
        if (timeout_ms >= 0 && waited >= timeout_ms) {
            rc = fail(RT_STREAM_TIMEOUT, "stream synchronize timeout");
        }
        sc_sleep_ms(5);
        waited += 5;
    }
    if (rc == ACL_OK && stream->pending) {
        struct timespec latency = {0};
        long long us = sc_number(call.chip, "acl_latency_us", 0);
        latency.tv_sec = us / 1000000;
        latency.tv_nsec = us % 1000000 * 1000;
        nanosleep(&latency, NULL);
        stream->pending = false;
    }
    return finish(&call, rc);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout_ms)
{
    return synchronize(__func__, stream, timeout_ms);
}

aclError aclrtSynchronizeStream(aclrtStream stream) { return synchronize(__func__, stream, -1); }

aclError aclrtStreamQuery(aclrtStream stream, int *status)
{
    struct call call;
    aclError rc = begin_context(&call, __func__, "-");
    if (rc == ACL_OK) {
        *status = ((struct stream *)stream)->pending && stuck(((struct stream *)stream)->logic);
    }
    return finish(&call, rc);
}

static aclError allocate(const char *function, void **out, size_t size)
{
    struct call call;
    aclError rc = begin_context(&call, function, "-");
    if (rc == ACL_OK && (out == NULL || size == 0)) {
        rc = fail(RT_PARAM_INVALID, "null pointer or no size");
    }
    if (rc == ACL_OK && (*out = malloc(size)) == NULL) {
        rc = fail(BAD_ALLOC, "no memory");
    }
    return finish(&call, rc);
}

static aclError release(const char *function, void *memory)
{
    struct call call;
    aclError rc = begin_context(&call, function, "-");
    if (rc == ACL_OK) {
        free(memory);
    }
    return finish(&call, rc);
}

aclError aclrtMalloc(void **device, size_t size, int policy)
{
    (void)policy;
    return allocate(__func__, device, size);
}

aclError aclrtFree(void *device) { return release(__func__, device); }

aclError aclrtMallocHost(void **host, size_t size) { return allocate(__func__, host, size); }

aclError aclrtFreeHost(void *host) { return release(__func__, host); }

/* The bytes move at once; only the stream's completion takes its time. */
aclError aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t count, int kind, aclrtStream handle)
{
    struct call call;
    char subtype[16];
    snprintf(subtype, sizeof subtype, "%d", kind);
    aclError rc = begin_context(&call, __func__, subtype);
    if (rc == ACL_OK && (to == NULL || from == NULL || count > room)) {
        rc = fail(RT_PARAM_INVALID, "null pointer or too little room");
    }
    if (rc == ACL_OK && handle == NULL) {
        rc = fail(RT_STREAM_CONTEXT, "null stream");
    }
    if (rc == ACL_OK) {
        memcpy(to, from, count);
        ((struct stream *)handle)->pending = true;
    }
    return finish(&call, rc);
}
