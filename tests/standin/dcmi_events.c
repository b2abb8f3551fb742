/*
 * Fault events. Every `event` line of the scenario is one notification; lines that stood there when the subscription
 * was made are history and are not delivered. The handler runs on a thread of this library, as the real one does.
 */
#define _GNU_SOURCE
#include "dcmi_reads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_MS 10

enum { SERIAL, LOGIC, CODE, SEVERITY, ASSERTION, NODE_TYPE, NODE_ID, SUB_TYPE, SUB_ID, RAISED_AT };
enum { BY_EVENT_ID = 1, BY_SEVERITY = 2, BY_NODE_TYPE = 4 };

struct subscription {
    int logic;      /* -1: every device */
    struct dcmi_event_filter filter;
    dcmi_fault_event_callback handler;
    int seen;       /* lines delivered or skipped so far */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t thread;
static bool running;
static atomic_bool stopping;
static struct subscription subscription;
static int waited_seen = -1;    /* the cursor of wait_for_event; -1 before its first call */

static bool wanted(const struct subscription *by, const struct sc_event *event)
{
    const struct dcmi_event_filter *filter = &by->filter;
    return (by->logic < 0 || event->fields[LOGIC] == by->logic) &&
           (!(filter->filter_flag & BY_EVENT_ID) || (unsigned int)event->fields[CODE] == filter->event_id) &&
           (!(filter->filter_flag & BY_SEVERITY) || event->fields[SEVERITY] >= filter->severity) &&
           (!(filter->filter_flag & BY_NODE_TYPE) || event->fields[NODE_TYPE] == filter->node_type);
}

void put_event(struct dcmi_event *event, const long long fields[10], const void *name, size_t length)
{
    struct dcmi_dms_fault_event *fault = &event->event_t.dms_event;
    memset(event, 0, sizeof *event);
    fault->event_id = (unsigned int)fields[CODE];
    fault->deviceid = (unsigned short)fields[LOGIC];
    fault->severity = (unsigned char)fields[SEVERITY];
    fault->assertion = (unsigned char)fields[ASSERTION];
    fault->node_type = (unsigned char)fields[NODE_TYPE];
    fault->node_id = (unsigned char)fields[NODE_ID];
    fault->sub_node_type = (unsigned char)fields[SUB_TYPE];
    fault->sub_node_id = (unsigned char)fields[SUB_ID];
    fault->event_serial_num = (int)fields[SERIAL];
    fault->notify_serial_num = (int)fields[SERIAL];
    fault->alarm_raised_time = (unsigned long long)fields[RAISED_AT];
    memcpy(fault->event_name, name, length < sizeof fault->event_name ? length : sizeof fault->event_name);
}

/* The next line that `by` wants, filled into event; false when there is none yet. */
static bool next_event(struct subscription *by, struct dcmi_event *event)
{
    struct scenario *scenario = sc_acquire();
    bool found = false;
    if (by->seen > scenario->event_count) {
        by->seen = scenario->event_count;
    }
    while (!found && by->seen < scenario->event_count) {
        const struct sc_event *line = &scenario->events[by->seen++];
        if (wanted(by, line)) {
            put_event(event, line->fields, line->name, line->name_length);
            found = true;
        }
    }
    sc_release(scenario);
    return found;
}

static void *deliver(void *unused)
{
    (void)unused;
    while (!stopping) {
        struct dcmi_event event;
        while (!stopping && next_event(&subscription, &event)) {
            subscription.handler(&event);
        }
        sc_sleep_ms(POLL_MS);
    }
    return NULL;
}

/*
 * dlclose must not leave a thread in code that is no longer mapped. The wait has a limit: at process exit the thread
 * may sit in a handler that will never get what it waits for.
 */
__attribute__((destructor)) static void stop(void)
{
    if (running) {
        struct timespec deadline;
        stopping = true;
        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_nsec += 200 * 1000000;
        deadline.tv_sec += deadline.tv_nsec / 1000000000;
        deadline.tv_nsec %= 1000000000;
        pthread_timedjoin_np(thread, NULL, &deadline);
        running = false;
    }
}

static struct target whole_host_if_all(struct target at)
{
    if (at.scope == BY_CARD && at.card == -1 && at.device == -1) {
        at.scope = WHOLE_HOST;
    }
    if (at.scope == BY_LOGIC && at.device == -1) {
        at.scope = WHOLE_HOST;
    }
    return at;
}

int subscribe(struct target at, struct dcmi_event_filter filter, dcmi_fault_event_callback handler)
{
    struct call call;
    int rc = begin(&call, whole_host_if_all(at), &filter, sizeof filter, NO_SUBTYPE);
    if (rc == 0 && snapshot.api != at.api) {
        rc = NOT_READY;
    }
    if (rc == 0 && handler == NULL) {
        rc = INVALID_PARAMETER;
    }
    long long supported;
    if (rc == 0 && call.unit != NULL) {
        rc = numbers_of(&call, &supported, 1, "events");
    }
    pthread_mutex_lock(&lock);
    if (rc == 0 && (running || waited_seen >= 0)) {
        rc = RESOURCE_OCCUPIED;
    }
    if (rc == 0) {
        subscription = (struct subscription){call.unit != NULL ? call.unit->logic : -1, filter, handler,
                                             call.scenario->event_count};
        stopping = false;
        running = pthread_create(&thread, NULL, deliver, NULL) == 0;
        rc = running ? 0 : INNER_ERR;
    }
    pthread_mutex_unlock(&lock);
    return finish(&call, rc);
}

int wait_for_event(struct target at, int timeout_ms, struct dcmi_event_filter filter, struct dcmi_event *event)
{
    struct call call;
    int rc = begin(&call, whole_host_if_all(at), event, sizeof *event, NO_SUBTYPE);
    if (rc == 0 && (timeout_ms < -1 || timeout_ms > 30000)) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0 && running) {
        rc = RESOURCE_OCCUPIED;
    }
    if (rc != 0) {
        return finish(&call, rc);
    }
    if (waited_seen < 0) {
        waited_seen = call.scenario->event_count;
    }
    struct subscription by = {call.unit != NULL ? call.unit->logic : -1, filter, NULL, waited_seen};
    long long left = timeout_ms;
    bool found;
    while (!(found = next_event(&by, event)) && (timeout_ms == -1 || left > 0)) {
        sc_sleep_ms(POLL_MS);
        left -= POLL_MS;
    }
    waited_seen = by.seen;
    return finish(&call, found ? 0 : TIME_OUT);
}

/* One raised event for each active fault code; supported where `current_events` stands. */
int read_current_events(struct target at, struct dcmi_event *events, int max, int *count)
{
    struct call call;
    int rc = begin(&call, at, events, 0, NO_SUBTYPE);
    long long v[128];
    if (rc == 0 && (count == NULL || max < 0)) {
        rc = INVALID_PARAMETER;
    }
    if (rc == 0) {
        rc = numbers_of(&call, v, 1, "current_events");
    }
    if (rc == 0) {
        int found = sc_numbers(call.values, "error_codes", v, 128);
        long long health = sc_number(call.values, "health", 0);
        *count = found < max ? found : max;
        for (int i = 0; i < *count; i++) {
            long long fields[10] = {i + 1, call.unit->logic, v[i], health, 1, 0, 0, 0, 0, time(NULL) * 1000LL};
            put_event(&events[i], fields, "", 0);
        }
    }
    return finish(&call, rc);
}

int forbidden(struct target at)
{
    int nothing = 0;
    struct call call;
    int rc = begin(&call, at, &nothing, 0, NO_SUBTYPE);
    return finish(&call, rc);
}
