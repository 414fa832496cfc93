/*
 * role.h - what a process is, in a few words, so that twenty identical workers share one row.
 *
 * Two processes have the same role if they run the same program in the same way. The role is the program's
 * name (for an interpreter, that of its script or module), without arguments and numbers. Helpers of Python's
 * multiprocessing get their own names. A process forked from its parent without an exec is a "worker of" that
 * parent, which tells the two apart.
 *
 *     python3 -u train.py --lr 1e-4              train.py
 *     python3 -m torch.distributed.run x.py      torch.distributed.run
 *     forked from it, unchanged                  worker of train.py
 *     the same, renamed by prctl                 pt_data_worker
 *     python3 -c "from multiprocessing.spawn     spawn worker of train.py
 *     .../torch/_inductor/compile_worker/...     compile_worker, and compile_worker pool, their parent
 *     VLLM::EngineCore_3 (a title it gave itself) VLLM::EngineCore_#
 *
 * The result has no control characters, but it is still untrusted text.
 */
#ifndef TIDE_ROLE_H
#define TIDE_ROLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_ROLE_MAX = 64 };

struct tide_role_input {
    const char *name; /* comm */
    const char *args; /* /proc/PID/cmdline: arguments, each ended by a NUL; args[args_len] is NUL too */
    size_t args_len;  /* 0: a zombie, or nothing known */
    const char *parent_base;  /* the parent's program (tide_role_base); NULL: the parent is not a member */
    const char *parent_name;  /* the parent's comm */
    bool same_args_as_parent; /* forked, and no exec since */
};

/* The role without regard to the parent. Writes into out and returns it. */
char *tide_role_base(const char *name, const char *args, size_t args_len, char out[static TIDE_ROLE_MAX]);

char *tide_role_of(const struct tide_role_input *input, char out[static TIDE_ROLE_MAX]);

/* Returns the rank of a process within its job, from the environment that its launcher set: variables as in
 * /proc/PID/environ, each ended by a NUL; environment[len] is NUL too. torchrun, accelerate and DeepSpeed set
 * RANK. Open MPI, MPICH and Slurm have variables of their own, which they also set for a single process; that
 * one has no rank. TIDE_UNKNOWN if none is set. */
int64_t tide_rank_of(const char *environment, size_t len);

#endif
