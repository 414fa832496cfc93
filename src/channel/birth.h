/*
 * birth.h - reads /proc/PID/stat, above all the start time of a process, which tells apart two processes with
 * the same PID.
 *
 * Used on both ends of the channel, so it makes its own system calls and needs nothing else: no allocation,
 * no stdio, no cancellation point. It is safe in a child that was just forked from a threaded process.
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

/* Reads a decimal number at *at and before end, moving *at past the digits. -1 if there is none or it does
 * not fit. */
static inline int tide_birth_number(const char **at, const char *end, uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *p = *at;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return -1;
    if (p == *at)
        return -1;
    *at = p;
    *ret_value = value;
    return 0;
}

enum { TIDE_STAT_NAME = 64 };

/* The contents of /proc/PID/stat. The name may contain parentheses, spaces and newlines. */
struct tide_stat {
    int64_t pid, parent_pid;
    uint64_t start_ticks;
    uint64_t stack_start; /* of the program that runs, another one after each exec; 0: may not be known */
    char name[TIDE_STAT_NAME];
    char state;
    bool has_waited; /* for a child, whose page faults then count as its own */
    bool exiting;    /* and may have left its control group already */
};

/* -1, leaving *ret_stat alone, if the text is not that of a stat file. */
static inline int tide_stat_parse(const char *text, size_t len, struct tide_stat *ret_stat)
{
    enum {
        PID = 1,
        STATE = 3,
        PARENT,
        FLAGS = 9,
        CHILD_MINOR = 11,
        CHILD_MAJOR = 13,
        START = 22,
        STACK = 28
    };
    enum { PF_EXITING = 4 }; /* of the kernel */
    const char *p = text, *end = text + len;
    const char *open = memchr(text, '(', len), *close = memrchr(text, ')', len);
    uint64_t field[STACK + 1] = {0};
    /* The name ends at the last ')': only one letter and numbers follow it. */
    if (tide_birth_number(&p, end, &field[PID]) || !open || !close || close < open || end - close < STATE ||
        close[1] != ' ')
        return -1;
    p = close + STATE;
    for (int i = PARENT; i <= STACK; i++) {
        while (p < end && (*p == ' ' || *p == '-'))
            p++;
        if (tide_birth_number(&p, end, &field[i]) && i <= START)
            return -1;
    }
    if (!field[PID] || field[PID] > INT64_MAX || field[PARENT] > INT64_MAX)
        return -1;
    *ret_stat = (struct tide_stat){.pid = (int64_t)field[PID],
                                   .parent_pid = (int64_t)field[PARENT],
                                   .start_ticks = field[START],
                                   .stack_start = field[STACK],
                                   .state = close[2],
                                   .has_waited = field[CHILD_MINOR] || field[CHILD_MAJOR],
                                   .exiting = field[FLAGS] & PF_EXITING};
    size_t name_len = (size_t)(close - open - 1);
    memcpy(ret_stat->name, open + 1, name_len < TIDE_STAT_NAME ? name_len : TIDE_STAT_NAME - 1);
    return 0;
}

/* Reads a stat file. -1 if there is none. */
static inline int tide_birth_look(const char *path, struct tide_stat *ret_stat)
{
    char text[1024];
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    long got = syscall(SYS_read, fd, text, sizeof text);
    syscall(SYS_close, fd);
    return got > 0 ? tide_stat_parse(text, (size_t)got, ret_stat) : -1;
}

/* The same for a process; pid 0 is the caller. */
static inline int tide_birth_of(int64_t pid, struct tide_stat *ret_stat)
{
    char path[48] = "/proc/self/stat";
    if (pid) {
        char *end = tide_birth_digits(path + strlen("/proc/"), (uint64_t)pid);
        memcpy(end, "/stat", sizeof "/stat");
    }
    return tide_birth_look(path, ret_stat);
}

static inline int tide_birth_read(int64_t pid, uint64_t *ret_start_ticks)
{
    struct tide_stat stat;
    if (tide_birth_of(pid, &stat))
        return -1;
    *ret_start_ticks = stat.start_ticks;
    return 0;
}

/* True if this process exists, even as a zombie. */
static inline bool tide_birth_is_there(int64_t pid, uint64_t start_ticks)
{
    uint64_t start;
    return !tide_birth_read(pid, &start) && start == start_ticks;
}

#endif
