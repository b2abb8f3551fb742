/*
 * A wall clock that jumps, for LD_PRELOAD: the time of day is shifted by the whole seconds that stand in the file named
 * by NPUMOND_STANDIN_CLOCK, which is read at every call. Without the file, or before there is one, it is not shifted.
 * Clocks that only count (CLOCK_MONOTONIC and the like) are left alone, as a real jump of the wall clock leaves them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long shift(void)
{
    const char *path = getenv("NPUMOND_STANDIN_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    char text[32] = "";
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    return length > 0 ? strtoll(text, NULL, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, now);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += shift();
    }
    return rc;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec precise;
    int rc = clock_gettime(CLOCK_REALTIME, &precise);
    if (rc == 0) {
        *now = (struct timeval){.tv_sec = precise.tv_sec, .tv_usec = precise.tv_nsec / 1000};
    }
    return rc;
}

time_t time(time_t *seconds)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return (time_t)-1;
    }
    if (seconds != NULL) {
        *seconds = now.tv_sec;
    }
    return now.tv_sec;
}
