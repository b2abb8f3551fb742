/*
 * hccn_tool, read-only part: the network counters that DCMI does not give. Rules name it `hccn_tool`, with the command
 * (link, speed, link_stat, stat, optical, bandwidth) as subtype.
 * `-i` is a physical id, on a 950 a logic id together with `-u` die and `-p` port.
 */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
    int device;
    int udie;
    int port;
    long time_ms;
    const char *command;
    bool get;
};

static struct request parse_arguments(int argc, char **argv)
{
    struct request request = {-1, -1, -1, 100, NULL, false};
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "-1";
        if (strcmp(argv[i], "-g") == 0) {
            request.get = true;
        } else if (strcmp(argv[i], "-i") == 0) {
            request.device = atoi(next);
            i++;
        } else if (strcmp(argv[i], "-u") == 0) {
            request.udie = atoi(next);
            i++;
        } else if (strcmp(argv[i], "-p") == 0) {
            request.port = atoi(next);
            i++;
        } else if (strcmp(argv[i], "-time") == 0) {
            request.time_ms = atol(next);
            i++;
        } else if (argv[i][0] == '-') {
            request.command = argv[i] + 1;
        }
    }
    return request;
}

static int refuse(const char *why)
{
    printf("Cmd execute failed! %s\n", why);
    return 1;
}

/* ---- RoCE ports: one a chip ---- */

static void print_with_prefix(const struct sc_section *chip, const char *prefix, const char *separator)
{
    size_t length = strlen(prefix);
    for (int i = 0; i < chip->count; i++) {
        const struct sc_entry *entry = &chip->entries[i];
        if (strncmp(entry->key, prefix, length) == 0) {
            printf("%s%s%s\n", entry->key + length, separator, entry->value);
        }
    }
}

static int link_stat(const struct sc_section *chip, int device)
{
    long long counts[2] = {0};
    sc_numbers(chip, "hccn.link_stat", counts, 2);
    printf("[devid %d]current time        : Tue Dec  1 12:00:00 2026\n", device);
    printf("[devid %d]link up count       : %lld\n", device, counts[0]);
    printf("[devid %d]link down count     : %lld\n", device, counts[1]);
    printf("[devid %d]link change records :\n", device);
    return 0;
}

static int answer_roce(const struct sc_section *chip, const struct request *request)
{
    const struct sc_entry *link = sc_find(chip, "hccn.link");
    if (link == NULL) {
        return refuse("This device does not support the command.");
    }
    if (strcmp(request->command, "link") == 0) {
        printf("link status: %s\n", link->value);
    } else if (strcmp(request->command, "speed") == 0) {
        const struct sc_entry *speed = sc_find(chip, "hccn.speed");
        printf(speed == NULL ? "Speed: Unknown!\n" : "Speed: %s Mb/s\n", speed == NULL ? "" : speed->value);
    } else if (strcmp(request->command, "link_stat") == 0) {
        return link_stat(chip, request->device);
    } else if (strcmp(request->command, "bandwidth") == 0) {
        printf("Bandwidth TX: %s MB/sec\n", sc_find(chip, "hccn.tx")->value);
        printf("Bandwidth RX: %s MB/sec\n", sc_find(chip, "hccn.rx")->value);
    } else if (strcmp(request->command, "stat") == 0) {
        printf("packet statistics:\n");
        print_with_prefix(chip, "hccn.stat.", ":");
    } else if (strcmp(request->command, "optical") == 0) {
        printf("optical info:\n");
        print_with_prefix(chip, "hccn.optical.", " : ");
    } else {
        return refuse("Unknown command.");
    }
    return 0;
}

/* ---- UB ports of a 950 ---- */

static void speed_table(int udie, int port, const struct sc_entry *speed)
{
    char text[32] = "NA";
    if (speed != NULL) {
        snprintf(text, sizeof text, "%s G", speed->value);
    }
    printf("+---------+---------+----------+-----------+\n");
    printf("| udie    | port    | type     | speed     |\n");
    printf("+---------+---------+----------+-----------+\n");
    printf("| %-7d | %-7d | UB       | %-9s |\n", udie, port, text);
    printf("+---------+---------+----------+-----------+\n");
}

/* Two tables, the second of eleven columns; its first rows name the module, the others the lanes. */
static int optical_tables(const struct sc_section *chip, int udie, int port)
{
    if (sc_findf(chip, "ub_optical.%d.%d.0", udie, port) == NULL) {
        return refuse("No optical module.");
    }
    static const char *const line = "+-----+-----+-----+------------+----------+-----+-----+-----+-----+-----------+\n";
    printf("%s| %-9s |\n%s| udie %d port %d |\n%s", line, "Power dBm", line, udie, port, line);
    printf("%s", line);
    printf("| no | udie | port | item | value | low | high | warn | alarm | optical |\n%s", line);
    for (int lane = 0;; lane++) {
        const struct sc_entry *entry = sc_findf(chip, "ub_optical.%d.%d.%d", udie, port, lane);
        double powers[2] = {0};
        if (entry == NULL) {
            break;
        }
        sc_parse_doubles(entry, powers, 2);
        const char *module = lane == 0 ? "optical_0" : "";
        printf("| %d | %d | %d | TxPower%d | %.3f | 0 | 0 | 0 | 0 | %s |\n", lane, udie, port, lane, powers[0], module);
        printf("| %d | %d | %d | RxPower%d | %.3f | 0 | 0 | 0 | 0 | |\n", lane, udie, port, lane, powers[1]);
    }
    printf("%s", line);
    return 0;
}

static int device_info(const struct sc_section *chip)
{
    printf("+------+------+------+\n| udie | port | mode |\n+------+------+------+\n");
    for (int udie = 0; udie < 2; udie++) {
        const struct sc_entry *ports = sc_findf(chip, "port_list.%d", udie);
        long long v[64];
        int count = ports == NULL ? 0 : sc_parse_numbers(ports, v, 64) / 2;
        for (int i = 0; i < count; i++) {
            printf("| %4d | %4lld | %-4s |\n", udie, v[2 * i], v[2 * i + 1] ? "UBOE" : "UB");
        }
    }
    printf("+------+------+------+\n");
    return 0;
}

static int answer_ub(const struct sc_section *chip, const struct request *request)
{
    if (strcmp(request->command, "dev_info") == 0) {
        return device_info(chip);
    }
    int udie = request->udie;
    int port = request->port;
    const struct sc_entry *link = sc_findf(chip, "ub_link.%d.%d", udie, port);
    if (link == NULL) {
        return refuse("No such port.");
    }
    char prefix[48];
    snprintf(prefix, sizeof prefix, "ub_stat.%d.%d.", udie, port);
    if (strcmp(request->command, "link") == 0) {
        printf("link status: %s\n", link->value);
    } else if (strcmp(request->command, "speed") == 0) {
        speed_table(udie, port, sc_findf(chip, "ub_speed.%d.%d", udie, port));
    } else if (strcmp(request->command, "bandwidth") == 0) {
        long long v[2] = {0};
        sc_parse_numbers(sc_findf(chip, "ub_bandwidth.%d.%d", udie, port), v, 2);
        sc_sleep_ms(request->time_ms);
        printf("Bandwidth TX: %lld.00 MB/sec\nBandwidth RX: %lld.00 MB/sec\n", v[0], v[1]);
    } else if (strcmp(request->command, "stat") == 0) {
        print_with_prefix(chip, prefix, ":");
    } else if (strcmp(request->command, "optical") == 0) {
        return optical_tables(chip, udie, port);
    } else {
        return refuse("Unknown command.");
    }
    return 0;
}

/* ---- the program ---- */

int main(int argc, char **argv)
{
    struct request request = parse_arguments(argc, argv);
    if (!request.get || request.command == NULL || request.device < 0) {
        return refuse("Wrong arguments.");
    }
    struct scenario *first = sc_acquire();
    bool ub = sc_number(&first->root, "api", 1) == 2;
    const char *key = ub ? "logic_id" : "phy_id";
    const struct sc_section *named = sc_chip_by(first, key, request.device);
    struct sc_call call = {.function = "hccn_tool", .card = (int)sc_number(named, "card_id", -1),
                           .logic = (int)sc_number(named, "logic_id", -1)};
    snprintf(call.subtype, sizeof call.subtype, "%s", request.command);
    sc_release(first);
    bool forced;
    int rc;
    struct scenario *scenario = sc_enter(&call, &forced, &rc);
    const struct sc_section *chip = sc_chip_by(scenario, key, request.device);
    if (forced) {
        rc = refuse("Forced by the scenario.");
    } else if (chip == NULL || sc_find(chip, "lost") != NULL) {
        rc = refuse("Input device id is invalid.");
    } else {
        rc = ub ? answer_ub(chip, &request) : answer_roce(chip, &request);
    }
    sc_release(scenario);
    sc_record(&call, rc);
    return rc;
}
