/*
 * unmapped.h - shared memory that no process maps, told by the control group.
 *
 * Files on a memory file system (/dev/shm, /tmp on many systems), memfds and segments of System V take memory
 * whether or not anybody maps them, and a file that is written and closed between two looks tells nobody
 * whose it is. The group of a job knows how much there is. That is the tree's as long as nobody else is in
 * the group: in a container, in a scope of systemd's, in a step of Slurm's. The process that started the
 * tracker or the program may be in it too, because it only waits.
 */
#ifndef TIDE_UNMAPPED_H
#define TIDE_UNMAPPED_H

#include "sense/cgroup.h"
#include "sense/tree.h"

/* Shared memory of the group, less what members map and what the tracker itself has on memory file systems
 * (the recording, the channel). At least so much: pages that several members map are taken off several times.
 * TIDE_UNKNOWN: others are in the group, or nothing tells. */
int64_t tide_unmapped_bytes(const struct tide_cgroup *cgroup, const struct tide_tree *tree);

#endif
