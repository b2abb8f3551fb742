#define _GNU_SOURCE
#include "scenario.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HANG_POLL_MS 20

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct scenario *current;
static struct stat current_file;

/* ---- parsing ---- */

static void *grown(void *items, int count, size_t size)
{
    if ((count & (count - 1)) != 0 && count != 0) {
        return items;
    }
    void *more = realloc(items, (count == 0 ? 1 : (size_t)count * 2) * size);
    if (more == NULL) {
        abort();
    }
    return more;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static size_t unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        if (from[0] == '\\' && from[1] == 'x' && hex_digit(from[2]) >= 0 && hex_digit(from[3]) >= 0) {
            *to++ = (char)(hex_digit(from[2]) * 16 + hex_digit(from[3]));
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

/* Cuts the next blank-separated word off *rest; an empty string when there is none. */
static char *next_word(char **rest)
{
    char *word = *rest;
    while (*word == ' ') {
        word++;
    }
    char *end = word;
    while (*end != '\0' && *end != ' ') {
        end++;
    }
    *rest = *end == '\0' ? end : end + 1;
    *end = '\0';
    return word;
}

static long long number(const char *text)
{
    return text[0] == '-' ? strtoll(text, NULL, 0) : (long long)strtoull(text, NULL, 0);
}

static void add_entry(struct sc_section *section, const char *key, char *value)
{
    section->entries = grown(section->entries, section->count, sizeof *section->entries);
    struct sc_entry *entry = &section->entries[section->count++];
    entry->is_code = value[0] == '!';
    entry->key = key;
    entry->value = entry->is_code ? value + 1 : value;
    entry->length = unescape(entry->value);
}

static const char *const rule_names[] = {"rc", "delay", "hang", "crash", "overrun", "fill", "flood"};

static void add_rule(struct scenario *scenario, char *rest)
{
    const char *kind = next_word(&rest);
    for (size_t i = 0; i < sizeof rule_names / sizeof *rule_names; i++) {
        if (strcmp(kind, rule_names[i]) != 0) {
            continue;
        }
        scenario->rules = grown(scenario->rules, scenario->rule_count, sizeof *scenario->rules);
        struct sc_rule *rule = &scenario->rules[scenario->rule_count++];
        rule->kind = (enum sc_rule_kind)i;
        rule->function = next_word(&rest);
        rule->who = next_word(&rest);
        rule->subtype = next_word(&rest);
        char *argument = next_word(&rest);
        rule->length = unescape(argument);
        rule->argument = argument;
    }
}

static void add_event(struct scenario *scenario, char *rest)
{
    scenario->events = grown(scenario->events, scenario->event_count, sizeof *scenario->events);
    struct sc_event *event = &scenario->events[scenario->event_count++];
    for (size_t i = 0; i < sizeof event->fields / sizeof *event->fields; i++) {
        event->fields[i] = number(next_word(&rest));
    }
    char *name = next_word(&rest);
    event->name_length = unescape(name);
    event->name = name;
}

static struct sc_section *add_section(struct sc_section **sections, int *count)
{
    *sections = grown(*sections, *count, sizeof **sections);
    struct sc_section *section = &(*sections)[(*count)++];
    memset(section, 0, sizeof *section);
    return section;
}

static struct scenario *parse(char *text)
{
    struct scenario *scenario = calloc(1, sizeof *scenario);
    if (scenario == NULL) {
        abort();
    }
    scenario->references = 1;
    scenario->text = text;
    enum { IN_ROOT, IN_CHIP, IN_CARD } place = IN_ROOT;
    char *state = NULL;
    for (char *line = strtok_r(text, "\n", &state); line != NULL; line = strtok_r(NULL, "\n", &state)) {
        char *key = next_word(&line);
        if (key[0] == '\0' || key[0] == '#') {
            continue;
        }
        unescape(key);
        if (strcmp(key, "chip") == 0) {
            add_section(&scenario->chips, &scenario->chip_count);
            place = IN_CHIP;
        } else if (strcmp(key, "card") == 0) {
            add_entry(add_section(&scenario->cards, &scenario->card_count), "card_id", line);
            place = IN_CARD;
        } else if (strcmp(key, "rule") == 0) {
            add_rule(scenario, line);
        } else if (strcmp(key, "event") == 0) {
            add_event(scenario, line);
        } else if (place == IN_CHIP) {
            add_entry(&scenario->chips[scenario->chip_count - 1], key, line);
        } else if (place == IN_CARD) {
            add_entry(&scenario->cards[scenario->card_count - 1], key, line);
        } else {
            add_entry(&scenario->root, key, line);
        }
    }
    return scenario;
}

static void destroy(struct scenario *scenario)
{
    for (int i = 0; i < scenario->chip_count; i++) {
        free(scenario->chips[i].entries);
    }
    for (int i = 0; i < scenario->card_count; i++) {
        free(scenario->cards[i].entries);
    }
    free(scenario->chips);
    free(scenario->cards);
    free(scenario->root.entries);
    free(scenario->rules);
    free(scenario->events);
    free(scenario->text);
    free(scenario);
}

/* ---- the file ---- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static char *read_file(const char *path, struct stat *file)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    char *text = NULL;
    if (fstat(fd, file) == 0 && (text = malloc((size_t)file->st_size + 1)) != NULL) {
        ssize_t length = 0;
        for (ssize_t got; (got = read(fd, text + length, (size_t)(file->st_size - length))) > 0;) {
            length += got;
        }
        text[length] = '\0';
    }
    close(fd);
    return text;
}

static void drop(struct scenario *scenario)
{
    if (--scenario->references == 0) {
        destroy(scenario);
    }
}

/* A file that cannot be read leaves the scenario in force: tests replace it by rename, so this is a passing state. */
static void refresh(void)
{
    const char *path = getenv("NPUMOND_STANDIN_SCENARIO");
    struct stat file;
    if (path != NULL && stat(path, &file) == 0 && (current == NULL || !same_file(&file, &current_file))) {
        char *text = read_file(path, &file);
        if (text != NULL) {
            if (current != NULL) {
                drop(current);
            }
            current = parse(text);
            current_file = file;
        }
    }
    if (current == NULL) {
        current = parse(strdup(""));
    }
}

struct scenario *sc_acquire(void)
{
    pthread_mutex_lock(&lock);
    refresh();
    struct scenario *scenario = current;
    scenario->references++;
    pthread_mutex_unlock(&lock);
    return scenario;
}

void sc_release(struct scenario *scenario)
{
    pthread_mutex_lock(&lock);
    drop(scenario);
    pthread_mutex_unlock(&lock);
}

/* ---- values ---- */

const struct sc_entry *sc_find(const struct sc_section *section, const char *key)
{
    for (int i = 0; section != NULL && i < section->count; i++) {
        if (strcmp(section->entries[i].key, key) == 0) {
            return &section->entries[i];
        }
    }
    return NULL;
}

const struct sc_entry *sc_findf(const struct sc_section *section, const char *format, ...)
{
    char key[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key, sizeof key, format, arguments);
    va_end(arguments);
    return sc_find(section, key);
}

int sc_parse_numbers(const struct sc_entry *entry, long long *out, int max)
{
    int count = 0;
    const char *at = entry->value;
    while (count < max) {
        char *end;
        at += strspn(at, " ");
        long long value = *at == '-' ? strtoll(at, &end, 0) : (long long)strtoull(at, &end, 0);
        if (end == at) {
            break;
        }
        out[count++] = value;
        at = end;
    }
    return count;
}

int sc_parse_doubles(const struct sc_entry *entry, double *out, int max)
{
    int count = 0;
    const char *at = entry->value;
    while (count < max) {
        char *end;
        double value = strtod(at, &end);
        if (end == at) {
            break;
        }
        out[count++] = value;
        at = end;
    }
    return count;
}

int sc_numbers(const struct sc_section *section, const char *key, long long *out, int max)
{
    const struct sc_entry *entry = sc_find(section, key);
    return entry == NULL || entry->is_code ? -1 : sc_parse_numbers(entry, out, max);
}

long long sc_number(const struct sc_section *section, const char *key, long long otherwise)
{
    long long value;
    return sc_numbers(section, key, &value, 1) == 1 ? value : otherwise;
}

const struct sc_section *sc_chip_by(const struct scenario *scenario, const char *key, long long value)
{
    for (int i = 0; i < scenario->chip_count; i++) {
        long long found;
        if (sc_numbers(&scenario->chips[i], key, &found, 1) == 1 && found == value) {
            return &scenario->chips[i];
        }
    }
    return NULL;
}

const struct sc_section *sc_chip_at(const struct scenario *scenario, long long card, long long chip)
{
    for (int i = 0; i < scenario->chip_count; i++) {
        const struct sc_section *section = &scenario->chips[i];
        if (sc_number(section, "card_id", -1) == card && sc_number(section, "chip_id", -1) == chip) {
            return section;
        }
    }
    return NULL;
}

const struct sc_section *sc_card(const struct scenario *scenario, long long card)
{
    for (int i = 0; i < scenario->card_count; i++) {
        if (sc_number(&scenario->cards[i], "card_id", -1) == card) {
            return &scenario->cards[i];
        }
    }
    return NULL;
}

/* ---- rules ---- */

static bool fits(const struct sc_rule *rule, const struct sc_call *call)
{
    if (strcmp(rule->who, "*") != 0) {
        bool by_card = rule->who[0] == 'c';
        if (number(rule->who + by_card) != (by_card ? call->card : call->logic)) {
            return false;
        }
    }
    return fnmatch(rule->function, call->function, 0) == 0 && fnmatch(rule->subtype, call->subtype, 0) == 0;
}

const struct sc_rule *sc_rule_for(const struct scenario *scenario, enum sc_rule_kind kind, const struct sc_call *call)
{
    for (int i = scenario->rule_count - 1; i >= 0; i--) {
        if (scenario->rules[i].kind == kind && fits(&scenario->rules[i], call)) {
            return &scenario->rules[i];
        }
    }
    return NULL;
}

void sc_sleep_ms(long long ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

static struct scenario *out_of_hang(const struct sc_call *call)
{
    for (;;) {
        struct scenario *scenario = sc_acquire();
        if (sc_rule_for(scenario, RULE_HANG, call) == NULL) {
            return scenario;
        }
        sc_release(scenario);
        sc_sleep_ms(HANG_POLL_MS);
    }
}

static void write_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, data, length);
        if (written < 0 && errno != EINTR) {
            return;    /* nobody listens any more; the call itself must not change */
        }
        data += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
}

/* `N/bytes`: the bytes N times on standard output and on standard error, with nothing between them. */
static void flood(const struct scenario *scenario, const struct sc_call *call)
{
    const struct sc_rule *rule = sc_rule_for(scenario, RULE_FLOOD, call);
    if (rule == NULL) {
        return;
    }
    char *bytes;
    long long times = strtoll(rule->argument, &bytes, 10);
    size_t length = rule->length - (size_t)(bytes + 1 - rule->argument);
    for (long long i = 0; i < times; i++) {
        write_all(STDOUT_FILENO, bytes + 1, length);
        write_all(STDERR_FILENO, bytes + 1, length);
    }
}

struct scenario *sc_enter(const struct sc_call *call, bool *forced, int *rc)
{
    struct scenario *scenario = out_of_hang(call);
    if (sc_rule_for(scenario, RULE_CRASH, call) != NULL) {
        volatile int *nowhere = NULL;
        *nowhere = 0;
    }
    const struct sc_rule *delay = sc_rule_for(scenario, RULE_DELAY, call);
    if (delay != NULL) {
        long long ms = number(delay->argument);
        sc_release(scenario);
        sc_sleep_ms(ms);
        scenario = sc_acquire();
    }
    const struct sc_rule *rule = sc_rule_for(scenario, RULE_RC, call);
    *rc = rule == NULL ? 0 : (int)number(rule->argument);
    *forced = *rc != 0;
    sc_print_noise(scenario, "noise_call");
    flood(scenario, call);
    return scenario;
}

void sc_record(const struct sc_call *call, int rc)
{
    const char *path = getenv("NPUMOND_STANDIN_CALLS");
    if (path == NULL || path[0] == '\0') {
        return;
    }
    char who[16] = "-";
    if (call->logic >= 0) {
        snprintf(who, sizeof who, "%d", call->logic);
    } else if (call->card >= 0) {
        snprintf(who, sizeof who, "c%d", call->card);
    }
    char line[256];
    int length = snprintf(line, sizeof line, "%s %s %s %d\n", call->function, who, call->subtype, rc);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0) {
        if (write(fd, line, (size_t)length) != length) {
            /* A full disk loses a line of the record; the call itself must not change. */
        }
        close(fd);
    }
}

void sc_print_noise(const struct scenario *scenario, const char *key)
{
    const struct sc_entry *noise = sc_find(&scenario->root, key);
    if (noise != NULL) {
        fwrite(noise->value, 1, noise->length, stdout);
        fputc('\n', stdout);
        fflush(stdout);
    }
}
