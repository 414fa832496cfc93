/*
 * birth.h - when a process started, which tells two processes with the same PID apart.
 *
 * Used on both ends of the channel, so it needs nothing but system calls: no allocation, no stdio, safe in a
 * child that was just forked from a threaded process.
 */
#ifndef TIDE_BIRTH_H
#define TIDE_BIRTH_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Writes value in decimal at `at` and returns the end; the caller has room for 20 digits. */
static inline char *tide_birth_digits(char *at, uint64_t value)
{
    char reversed[20];
    size_t count = 0;
    do
        reversed[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count)
        *at++ = reversed[--count];
    return at;
}

/* Reads a decimal number at *at, moving it past the digits. -1 if there is none or it does not fit. */
static inline int tide_birth_number(const char **at, uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *p = *at;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return -1;
    if (p == *at)
        return -1;
    *at = p;
    *ret_value = value;
    return 0;
}

/* Field 22 of the text of a /proc/PID/stat. The second field, the name, may itself hold spaces and
 * parentheses. */
static inline int tide_birth_parse(const char *stat, uint64_t *ret_start_ticks)
{
    const char *p = strrchr(stat, ')');
    for (int field = 2; p && field < 22; field++) {
        p = strchr(p, ' ');
        if (p)
            p++;
    }
    return p ? tide_birth_number(&p, ret_start_ticks) : -1;
}

/* Start of process pid in clock ticks after boot; pid 0 is the caller. -1 if there is no such process or no
 * /proc to ask. */
static inline int tide_birth_read(int64_t pid, uint64_t *ret_start_ticks)
{
    char path[48] = "/proc/self/stat", text[1024];
    if (pid) {
        char *end = tide_birth_digits(path + strlen("/proc/"), (uint64_t)pid);
        memcpy(end, "/stat", sizeof "/stat");
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0)
        return -1;
    text[got] = '\0';
    return tide_birth_parse(text, ret_start_ticks);
}

#endif
