#include "rt/cpu/shares.h"

#include <stdbool.h>

static uint64_t parts_between(int64_t first, int64_t end)
{
    return (uint64_t)end << 32 | (uint64_t)first;
}

void tide_shares_begin(struct tide_share *shares, int64_t threads, int64_t parts)
{
    for (int64_t i = 0; i < threads; i++)
        atomic_init(&shares[i].parts, parts_between(parts * i / threads, parts * (i + 1) / threads));
}

static int64_t take_parts(_Atomic uint64_t *parts, bool is_own, int64_t whole, int64_t *ret_first)
{
    uint64_t now = atomic_load_explicit(parts, memory_order_acquire);
    for (;;) {
        int64_t first = (int64_t)(now & UINT32_MAX), end = (int64_t)(now >> 32), rest = end - first,
                most = is_own ? whole - first % whole : 1, count = rest < most ? rest : most;
        if (rest <= 0)
            return 0;
        uint64_t then = is_own ? parts_between(first + count, end) : parts_between(first, end - count);
        if (atomic_compare_exchange_weak_explicit(parts, &now, then, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *ret_first = is_own ? first : end - count;
            return count;
        }
    }
}

int64_t tide_share_take(struct tide_taker *t, int64_t whole, int64_t *ret_first)
{
    for (; t->victim < t->threads; t->victim++) {
        int64_t whose = (t->thread + t->victim) % t->threads,
                taken = take_parts(&t->shares[whose].parts, !t->victim, whole, ret_first);
        if (taken)
            return taken;
    }
    return 0;
}
