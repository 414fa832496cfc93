/*
 * shared_memory.h - shared memory that lives whether or not a process maps it: segments in /dev/shm, memfds,
 * and files on memory file systems.
 *
 * Pages that are mapped count as memory of the processes that map them. A segment that was unmapped and never
 * unlinked, or a memfd that was never closed, is nobody's memory, and still there.
 *
 * /dev/shm is everybody's. A segment is the tree's from when one of its processes was seen to map it or to
 * have it open, or when its name has a PID of the tree in it. One that is made and left between two looks is
 * the tree's if its name begins as that of another which was, up to the first '_', '-' or '.', and nobody
 * else was seen with such a name; the first that a program leaves so quickly are missed. Where the tree has a
 * control group to itself (unmapped.h), what grew there and was found in none of these ways counts too.
 *
 * tide_shared_init -> tide_shared_look() every look, which looks as often as it costs little ->
 * tide_shared_release().
 */
#ifndef TIDE_SHARED_MEMORY_H
#define TIDE_SHARED_MEMORY_H

#include "base/map.h"
#include "sense/cgroup.h"
#include "sense/tree.h"

struct tide_shared {
    const char *path;  /* "/dev/shm"; borrowed; NULL: not looked at */
    int64_t looked_ns; /* TIDE_UNKNOWN: never */
    int64_t cost_ns;   /* of the last look, computing: waiting for a processor costs nobody anything */
    struct tide_map
        seen; /* memory without a name that this look has counted: several processes have it open */
    struct tide_map mapped; /* what processes map in this look */
    struct tide_map owners; /* of inodes: whether a segment is the tree's, or was there before it */
    struct tide_map stems;  /* of what names begin with: likewise, or used by others too */
    int64_t asked_ns;       /* when others were last asked which names they use; TIDE_UNKNOWN: never */
    int64_t asking_ns;      /* what that cost, which has a share of the time of its own */
    int64_t bytes;          /* of the last look */
    int64_t unmapped_bytes; /* of these, what no process maps */
    int64_t unfound_bytes;  /* what only the group tells of */
    uint64_t group;         /* a key of its directory */
    int64_t group_bytes;    /* what was there of it before the tree was */
    int64_t written_bytes;  /* as it stands in the recording; TIDE_UNKNOWN: not there */
    int64_t written_ns;     /* since when */
};

void tide_shared_init(struct tide_shared *shared, const char *path);
void tide_shared_release(struct tide_shared *shared);

/* Whether it looked, and `bytes` are worth writing: they changed, or were not said for a while. */
bool tide_shared_look(struct tide_shared *shared, const struct tide_cgroup *cgroup,
                      const struct tide_tree *tree, int64_t now_ns);

#endif
