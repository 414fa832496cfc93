/*
 * unmapped.h - shared memory that no process maps, from the counters of the control group.
 *
 * Files on a memory file system (/dev/shm, /tmp on many systems), memfds and System V segments take memory
 * whether or not a process maps them, and a file that is written and closed between two looks cannot be
 * traced to a process. The control group knows the total. It belongs to the tree if nobody else is in the
 * group: in a container, a systemd scope, a Slurm step. The process that started the tracker or the program
 * may be in it too, because it only waits.
 */
#ifndef TIDE_UNMAPPED_H
#define TIDE_UNMAPPED_H

#include "sense/cgroup.h"
#include "sense/tree.h"

/* Shared memory of the group, minus what members map and what the tracker itself has on memory file systems
 * (the recording, the channel). A lower bound: pages that several members map are subtracted several times.
 * TIDE_UNKNOWN: others are in the group, or there is no counter. */
int64_t tide_unmapped_bytes(const struct tide_cgroup *cgroup, const struct tide_tree *tree);

#endif
