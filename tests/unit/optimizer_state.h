/*
 * optimizer_state.h - the state of one parameter by itself, its parts one after another. (A graph has each
 * part of all parameters together.)
 */
#ifndef OPTIMIZER_STATE_H
#define OPTIMIZER_STATE_H

#include "rt/optimizer.h"

static inline size_t part_bytes(const struct tide_state_part *part)
{
    return tide_aligned((size_t)part->count * tide_dtype_bytes(part->dtype));
}

static inline size_t bytes_of_state(const struct tide_optimizer *optimizer, int64_t rows, int64_t columns)
{
    struct tide_state_part parts[TIDE_STATE_PARTS];
    size_t bytes = 0;
    for (int i = 0, count = tide_optimizer_parts(optimizer, rows, columns, parts); i < count; i++)
        bytes += part_bytes(&parts[i]);
    return bytes;
}

/* Points the parts of a parameter into a state of so many bytes. */
static inline void place_state(const struct tide_optimizer *optimizer, char *state,
                               struct tide_trained *trained)
{
    struct tide_state_part parts[TIDE_STATE_PARTS];
    int count = tide_optimizer_parts(optimizer, trained->rows, trained->columns, parts);
    for (int i = 0; i < TIDE_STATE_PARTS; i++) {
        trained->parts[i] = i < count ? state : NULL;
        state += i < count ? part_bytes(&parts[i]) : 0;
    }
}

#endif
