/*
 * layout_check.h - whether no two values of a layout that are alive at the same time overlap.
 */
#ifndef LAYOUT_CHECK_H
#define LAYOUT_CHECK_H

#include "rt/layout.h"

/* 0, or -1 with the first value that lies outside, or the first two that overlap. */
static inline int layout_check(const struct tide_schedule *s, size_t bytes, struct tide_err *err)
{
    for (int i = 0; i < s->value_count; i++) {
        const struct tide_value *a = &s->values[i];
        if (a->offset + a->bytes > bytes || a->offset % TIDE_ALIGN)
            return tide_err_set(err, "value %d lies outside the arena", i);
        for (int j = 0; j < i; j++) {
            const struct tide_value *b = &s->values[j];
            if (a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
                b->offset < a->offset + a->bytes)
                return tide_err_set(err, "values %d and %d overlap while both are alive", j, i);
        }
    }
    return 0;
}

#endif
