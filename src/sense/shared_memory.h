/*
 * shared_memory.h - shared memory that exists whether or not a process maps it: segments in /dev/shm, memfds,
 * and files on memory file systems.
 *
 * Mapped pages count as memory of the processes that map them. A segment that was unmapped but never
 * unlinked, or a memfd that was never closed, is in no process's memory but still takes memory.
 *
 * /dev/shm is shared by all. A segment belongs to the tree once one of its processes was seen to map it or
 * have it open, or if its name contains a PID of the tree. A segment that is made and left between two looks
 * belongs to the tree if its name starts like that of another one that does (up to the first '_', '-' or
 * '.'), and nobody else was seen with such a name. The first segments that a program leaves so quickly are
 * missed. If the tree has a control group to itself (unmapped.h), growth of the group's shared memory that
 * none of this explains counts too.
 *
 * tide_shared_init -> tide_shared_look() every look (it limits its own cost) -> tide_shared_release().
 */
#ifndef TIDE_SHARED_MEMORY_H
#define TIDE_SHARED_MEMORY_H

#include "base/map.h"
#include "sense/cgroup.h"
#include "sense/tree.h"

struct tide_shared {
    const char *path;     /* "/dev/shm"; borrowed; NULL: do not look */
    int64_t looked_ns;    /* TIDE_UNKNOWN: never */
    int64_t cost_ns;      /* CPU time of the last look; waiting for a processor is not counted */
    struct tide_map seen; /* unnamed memory that this look has counted: several processes may have it open */
    struct tide_map mapped; /* what processes map in this look */
    struct tide_map owners; /* inode -> OURS, or THEIRS if it was there before the tree */
    struct tide_map stems;  /* start of a name -> OURS, or THEIRS if others use it too */
    int64_t asked_ns;       /* when the names that others use were last read; TIDE_UNKNOWN: never */
    int64_t asking_ns;      /* CPU time of that, which has its own share of the time */
    int64_t bytes;          /* of the last look */
    int64_t unmapped_bytes; /* of these, what no process maps */
    int64_t unfound_bytes;  /* what only the group's counter shows */
    uint64_t group;         /* key of its directory */
    int64_t group_bytes;    /* what the group had before the tree */
    int64_t written_bytes;  /* last value in the recording; TIDE_UNKNOWN: none */
    int64_t written_ns;     /* when it was written */
};

void tide_shared_init(struct tide_shared *shared, const char *path);
void tide_shared_release(struct tide_shared *shared);

/* True if it looked and `bytes` should be written: they changed, or were not written for a while. */
bool tide_shared_look(struct tide_shared *shared, const struct tide_cgroup *cgroup,
                      const struct tide_tree *tree, int64_t now_ns);

#endif
