/*
 * places.h - the directories of a channel, on the tracker's side.
 *
 * Each is named "tidemark-PID-START-XXXXXX" (PID and start time of the tracker) and held with flock() as long
 * as the tracker lives. A memory file system is preferred, but only if three quarters of it stay free
 * (file.h). The first directory then links to a second one, on another file system.
 *
 * They are removed at the end. A child process that does nothing else waits to remove them if the tracker is
 * killed. If the child is killed too, a later tracker of the same user removes a directory if it can lock it
 * and does not see its process. In a container that shares /dev/shm but not PIDs, only the lock counts.
 */
#ifndef TIDE_PLACES_H
#define TIDE_PLACES_H

#include "base/err.h"
#include "channel/file.h"

#include <dirent.h>
#include <stddef.h>
#include <sys/types.h>

struct tide_place {
    char path[256];
    int fd;       /* holds the lock */
    DIR *listing; /* the same directory, with its own file offset */
};

struct tide_places {
    struct tide_place at[TIDE_FILE_PLACES];
    size_t count;
    pid_t sweeper;   /* 0: none */
    int sweeper_end; /* write end of its pipe; it waits until nobody has this open */
};

/* Removes what dead trackers left and makes the directories. */
int tide_places_init(struct tide_places *places, struct tide_err *err);

/* Removes the directories. A zeroed struct is allowed. */
void tide_places_release(struct tide_places *places);

#endif
