/*
 * shared.h - shared memory that lives whether or not a process maps it: files in /dev/shm that came since the
 * recording began, and what the processes of the tree have open of memfds and of files that are gone.
 *
 * Pages that are mapped count as memory of the processes that map them. A segment that was unmapped and never
 * unlinked, or a memfd that was never closed, is nobody's memory, and still there.
 *
 * tide_shared_init -> tide_shared_look() every look, which looks as often as it costs little ->
 * tide_shared_release().
 */
#ifndef TIDE_SHARED_H
#define TIDE_SHARED_H

#include "base/map.h"
#include "sense/tree.h"

#include <sys/types.h>
#include <time.h>

struct tide_shared {
    const char *path;      /* "/dev/shm"; borrowed; NULL: not looked at */
    struct timespec since; /* files older than that are somebody else's */
    uid_t user;            /* and so are files of another user */
    int64_t looked_ns;     /* TIDE_UNKNOWN: never */
    int64_t cost_ns;       /* of the last look */
    struct tide_map seen;  /* open files of this look: several processes have the same */
    int64_t bytes;         /* of the last look */
    int64_t written_bytes; /* as it stands in the recording; TIDE_UNKNOWN: not there */
    int64_t written_ns;    /* since when */
};

void tide_shared_init(struct tide_shared *shared, const char *path);
void tide_shared_release(struct tide_shared *shared);

/* Whether it looked, and `bytes` are worth writing: they changed, or were not said for a while. */
bool tide_shared_look(struct tide_shared *shared, const struct tide_tree *tree, int64_t now_ns);

#endif
