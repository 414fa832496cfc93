/*
 * rank.h - which of the processes of a job one is, by the environment that its launcher gave it.
 *
 * torchrun, accelerate and DeepSpeed set RANK; Open MPI, MPICH and Slurm have variables of their own, and set
 * them for a single process too, which is then no rank.
 */
#ifndef TIDE_RANK_H
#define TIDE_RANK_H

#include <stddef.h>
#include <stdint.h>

/* environment: variables as in /proc/PID/environ, each ended by a NUL; environment[len] is NUL too.
 * TIDE_UNKNOWN when none of them is a rank. */
int64_t tide_rank_of(const char *environment, size_t len);

#endif
