/*
 * places.h - the directories of a channel, on the tracker's side.
 *
 * Each is "tidemark-PID-START-XXXXXX" (the tracker's PID and start), held with flock() for as long as the
 * tracker lives. A memory file system comes first, but only if three quarters of it stay free (file.h); then
 * a second one, on another file system, is what the first one's link leads to.
 *
 * They are removed at the end, also when the tracker is killed: a process waits for that, and for nothing
 * else. If that is killed too, a later tracker of the same user removes a directory whose lock it gets and
 * whose process it does not see: in a container that shares /dev/shm but not its PIDs, the lock alone tells.
 */
#ifndef TIDE_PLACES_H
#define TIDE_PLACES_H

#include "base/err.h"

#include <dirent.h>
#include <stddef.h>
#include <sys/types.h>

enum { TIDE_PLACES = 2 };

struct tide_place {
    char path[256];
    int fd;       /* holds the lock */
    DIR *listing; /* the same directory, with an offset of its own */
};

struct tide_places {
    struct tide_place at[TIDE_PLACES];
    size_t count;
    pid_t sweeper;   /* 0: there is none */
    int sweeper_end; /* it waits until nobody has this open */
};

/* Sweeps up what dead trackers left, and makes the directories. */
int tide_places_init(struct tide_places *places, struct tide_err *err);

/* Removes them. Also of zeros, where there is none. */
void tide_places_release(struct tide_places *places);

#endif
