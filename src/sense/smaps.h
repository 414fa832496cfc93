/*
 * smaps.h - PSS and USS of members, read on a time budget.
 *
 * smaps_rollup walks the page tables of a process while holding its mmap lock: about 13 ms per GiB, during
 * which the process cannot map memory. So reads are paid from a budget that fills with `ppm` of wall time,
 * and no read is started that is expected to take longer than TIDE_SMAPS_LONGEST_NS.
 *
 * Order of reads: first members never read, the largest first. Then those whose RSS changed most since their
 * last read, or whose pages may have changed owner because a process that shares them was forked or ended.
 * Then those not read for longest, because pages shared by a fork become private without any change of RSS.
 * Only the first kind may use the whole budget; the other two may use a fifth of it each, so that a tree that
 * is well known costs little.
 */
#ifndef TIDE_SMAPS_H
#define TIDE_SMAPS_H

#include "sense/tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIDE_SMAPS_LONGEST_NS ((int64_t)100000000)

/* Why a member is read, the least urgent reason first. */
enum tide_smaps_reason { TIDE_SMAPS_IDLE, TIDE_SMAPS_CHANGED, TIDE_SMAPS_UNREAD, TIDE_SMAPS_REASONS };

struct tide_smaps_budget {
    int64_t ppm;            /* of wall time; 0: never */
    int64_t (*clock)(void); /* times the reads; tests have their own */
    /* What may be spent for each reason. Every read is paid from the purse of its reason and from the last
     * one, which holds the whole budget. */
    int64_t purse_ns[TIDE_SMAPS_REASONS];
    int64_t last_ns; /* when the purses were last filled; TIDE_UNKNOWN: never */
    struct tide_smaps_wish *wishes;
    size_t wish_capacity;
};

void tide_smaps_init(struct tide_smaps_budget *budget, int64_t ppm);
void tide_smaps_release(struct tide_smaps_budget *budget);

/* Reads as many members as the budget allows. Sets smaps.fresh of those that were read and clears that of all
 * others. Returns the time that the reads took. */
int64_t tide_smaps_spend(struct tide_smaps_budget *budget, struct tide_tree *tree, int64_t now_ns);

/* Expected cost of the next read of this member. */
int64_t tide_smaps_predict_ns(const struct tide_member *member);

/* Bytes of a member with its share of shared pages, and swap: its PSS at the last read plus the growth of its
 * anonymous memory and swap since. If it was never read: RSS and swap. What a forked process had when first
 * seen is its parent's and counts only as far as the parent's PSS does not include it. *ret_known: PSS is
 * known. TIDE_UNKNOWN if its counters are. */
int64_t tide_smaps_counted(const struct tide_tree *tree, const struct tide_member *member, bool *ret_known);

#endif
