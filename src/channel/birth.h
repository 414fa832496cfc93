/*
 * birth.h - when a process started, which tells two processes with the same PID apart.
 *
 * Used on both ends of the channel, so it needs nothing but system calls of its own: no allocation, no stdio,
 * no place where a thread can be cancelled, safe in a child that was just forked from a threaded process.
 */
#ifndef TIDE_BIRTH_H
#define TIDE_BIRTH_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
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

/* Fields 3 and 22 of the text of a /proc/PID/stat: the letter of its state, and its start. The second field,
 * the name, may itself hold spaces and parentheses. */
static inline int tide_birth_parse(const char *stat, char *ret_state, uint64_t *ret_start_ticks)
{
    const char *p = strrchr(stat, ')'), *after_name = p;
    for (int field = 2; p && field < 22; field++) {
        p = strchr(p, ' ');
        if (p)
            p++;
    }
    if (!p || tide_birth_number(&p, ret_start_ticks))
        return -1;
    *ret_state = after_name[2];
    return 0;
}

/* State and start, in clock ticks after boot, of what this stat file is of. -1 if there is none. */
static inline int tide_birth_look(const char *path, char *ret_state, uint64_t *ret_start_ticks)
{
    char text[1024];
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    long got = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    if (got <= 0)
        return -1;
    text[got] = '\0';
    return tide_birth_parse(text, ret_state, ret_start_ticks);
}

/* The same of a process; pid 0 is the caller. */
static inline int tide_birth_of(int64_t pid, char *ret_state, uint64_t *ret_start_ticks)
{
    char path[48] = "/proc/self/stat";
    if (pid) {
        char *end = tide_birth_digits(path + strlen("/proc/"), (uint64_t)pid);
        memcpy(end, "/stat", sizeof "/stat");
    }
    return tide_birth_look(path, ret_state, ret_start_ticks);
}

static inline int tide_birth_read(int64_t pid, uint64_t *ret_start_ticks)
{
    char state;
    return tide_birth_of(pid, &state, ret_start_ticks);
}

/* Whether there is this process, a zombie included. */
static inline bool tide_birth_is_there(int64_t pid, uint64_t start_ticks)
{
    uint64_t start;
    return !tide_birth_read(pid, &start) && start == start_ticks;
}

#endif
