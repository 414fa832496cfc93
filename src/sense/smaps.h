/*
 * smaps.h - PSS and USS of members, read on a time budget.
 *
 * smaps_rollup walks the page tables of a process while holding its mmap lock: about 13 ms per GiB, during
 * which the process cannot map memory. So reads are paid for out of a bucket that fills with `ppm` of wall
 * time, and none is begun that is expected to take over TIDE_SMAPS_LONGEST_NS.
 *
 * Which are read: first those never read, the biggest first; then those whose RSS changed most since their
 * last read, or whose pages changed hands because a process that shares them was forked or ended; then the
 * longest not read, since pages that a fork shares become private without RSS moving at all. Only the first
 * kind may use the whole budget; the second and the third may use a fifth of it each, so that a tree which is
 * known well costs little.
 */
#ifndef TIDE_SMAPS_H
#define TIDE_SMAPS_H

#include "sense/tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIDE_SMAPS_LONGEST_NS ((int64_t)100000000)

/* Why a member is read, in order of urgency. */
enum tide_smaps_reason { TIDE_SMAPS_IDLE, TIDE_SMAPS_CHANGED, TIDE_SMAPS_UNREAD, TIDE_SMAPS_REASONS };

struct tide_smaps_budget {
    int64_t ppm;            /* of wall time; 0: never */
    int64_t (*clock)(void); /* that reads are timed with; tests have their own */
    /* What may be spent for each reason. Every read is paid out of its own purse and out of the last one,
     * which holds the whole budget. */
    int64_t purse_ns[TIDE_SMAPS_REASONS];
    int64_t last_ns; /* when the purses were last filled; TIDE_UNKNOWN: never */
    struct tide_smaps_wish *wishes;
    size_t wish_capacity;
};

void tide_smaps_init(struct tide_smaps_budget *budget, int64_t ppm);
void tide_smaps_release(struct tide_smaps_budget *budget);

/* Reads what the budget allows. Members that were read have smaps.fresh set, all others have it cleared.
 * Returns the time that the reads took. */
int64_t tide_smaps_spend(struct tide_smaps_budget *budget, struct tide_tree *tree, int64_t now_ns);

/* What the next read of this member is expected to cost. */
int64_t tide_smaps_predict_ns(const struct tide_member *member);

/* Bytes of a member with shared pages counted in part, as far as known, and swap: its PSS at the last read,
 * and what its anonymous memory and swap have grown since. When it was never read: RSS and swap; but of a
 * process that was forked, what it had at first sight is its parent's, and counts as far as the parent's PSS
 * left it out. *ret_known says whether PSS is known. TIDE_UNKNOWN when its counters are. */
int64_t tide_smaps_counted(const struct tide_tree *tree, const struct tide_member *member, bool *ret_known);

#endif
