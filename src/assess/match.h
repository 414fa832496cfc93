/*
 * match.h - the same code in two recordings.
 *
 * Ids and addresses differ from run to run, so call sites are identified by the names of their frames:
 * function and file, or module and function. Directories do not count. Within one recording, sites of one
 * kind with the same stack are one group, whatever their process: twenty workers allocate at one place.
 *
 * Groups are matched in two rounds. First by all frames of their stacks; then what is left by the program's
 * own frames (Python lines, or functions with a source file), since another interpreter has other frames in
 * between. Where several groups differ only in their lines, code that was moved as a whole is matched in
 * order; otherwise the same lines are matched first and the rest in order.
 */
#ifndef TIDE_MATCH_H
#define TIDE_MATCH_H

#include "assess/history.h"
#include "base/arena.h"
#include "base/err.h"

struct tide_match_group {
    const size_t *sites; /* indices into history->sites */
    size_t count;        /* at least 1 */
    uint64_t exact;      /* hash of kind, frames, and the place in each */
    uint64_t chain[2];   /* hash of kind and frames: all frames; the program's own (0: it has none) */
    int64_t stack;       /* of one of the sites; 0: the sum of small ones */
    bool taken;
};

/* One of the two is NULL if the code is in one recording only. */
struct tide_match_pair {
    const struct tide_match_group *a, *b;
};

struct tide_match {
    struct tide_match_pair *pairs;
    size_t count;
};

/* The result lives in the arena. -1: no memory. */
int tide_match_sites(const struct tide_history *a, const struct tide_history *b, struct tide_arena *arena,
                     struct tide_match *ret_match, struct tide_err *err);

#endif
