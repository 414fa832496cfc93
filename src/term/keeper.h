/*
 * keeper.h - a process that brings the terminal back when the view is killed with SIGKILL.
 *
 * tide_keeper_start -> tide_keeper_armed() whenever the terminal is taken or given back -> tide_keeper_end().
 * It waits at the other end of a socket, ignores what is typed, and calls `rescue` in its own process if the
 * view dies while armed. Without one (no process to be had) the view works all the same.
 */
#ifndef TIDE_KEEPER_H
#define TIDE_KEEPER_H

#include <stdbool.h>
#include <sys/types.h>

struct tide_keeper {
    pid_t pid; /* 0: none */
    int hold;
};

/* `rescue` may use stdin, stdout, stderr and the descriptors kept (-1: none), no others. */
struct tide_keeper tide_keeper_start(void (*rescue)(void), const int kept[2]);

/* Safe in a signal handler. */
void tide_keeper_armed(const struct tide_keeper *keeper, bool armed);

/* Disarmed, and waited for. */
void tide_keeper_end(struct tide_keeper *keeper);

#endif
