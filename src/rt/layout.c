#include "rt/layout.h"
#include "base/check.h"
#include "rt/occupied.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Compares two values by their indexes in the list. */
typedef int tide_value_order(const void *a, const void *b, void *values);

static int larger_first(const void *a, const void *b, void *values)
{
    const struct tide_value *list = values, *x = &list[*(const int *)a], *y = &list[*(const int *)b];
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return *(const int *)a - *(const int *)b;
}

static int longer_first(const void *a, const void *b, void *values)
{
    const struct tide_value *list = values, *x = &list[*(const int *)a], *y = &list[*(const int *)b];
    int longer = (y->last - y->first) - (x->last - x->first);
    return longer ? longer : larger_first(a, b, values);
}

/* By bytes times instructions. */
static int more_first(const void *a, const void *b, void *values)
{
    const struct tide_value *list = values, *x = &list[*(const int *)a], *y = &list[*(const int *)b];
    double more = (double)y->bytes * (y->last - y->first + 1) - (double)x->bytes * (x->last - x->first + 1);
    return more > 0 ? 1 : more < 0 ? -1 : larger_first(a, b, values);
}

static int earlier_first(const void *a, const void *b, void *values)
{
    const struct tide_value *list = values, *x = &list[*(const int *)a], *y = &list[*(const int *)b];
    return x->first != y->first ? x->first - y->first : larger_first(a, b, values);
}

static tide_value_order *const orders[] = {larger_first, longer_first, more_first, earlier_first};
enum { ORDERS = sizeof orders / sizeof *orders };

/* The most looks per value, in every order but the first; an order that needs more is given up. The presets
 * take up to 103 in all orders together. A thousand blocks, ordered by bytes times lifetime, would take
 * 2,700: then free bytes are in thousands of separate ranges. */
enum { MOST_LOOKS = 128 };

/* Work memory for a layout: one element of each array per value. */
struct room {
    int *order;
    size_t *best;  /* offsets */
    size_t *alive; /* for each instruction, and one more */
    struct tide_occupied *occupied;
};

static size_t most_alive(const struct tide_schedule *s, size_t *alive, int *ret_at)
{
    size_t most = 0, now = 0;
    *ret_at = 0;
    memset(alive, 0, ((size_t)s->count + 1) * sizeof *alive);
    for (int v = 0; v < s->value_count; v++) { /* differences, whose running sums are never negative */
        TIDE_CHECK(s->values[v].first, >=, 0);
        alive[s->values[v].first] += tide_aligned(s->values[v].bytes);
        alive[s->values[v].last + 1] -= tide_aligned(s->values[v].bytes);
    }
    for (int i = 0; i < s->count; i++) {
        now += alive[i];
        if (now > most) {
            most = now;
            *ret_at = i;
        }
    }
    return most;
}

static size_t end_of(const struct tide_value *value)
{
    return value->offset + tide_aligned(value->bytes);
}

/* Sets *ret_bytes to the size of the layout, or to SIZE_MAX if it was given up: it would take `limit` bytes
 * or more, or more than `most_looks` looks. */
static int place_all(struct tide_schedule *s, tide_value_order *order, const struct room *room, size_t limit,
                     uint64_t most_looks, size_t *ret_bytes)
{
    uint64_t before = tide_occupied_looks(room->occupied);
    *ret_bytes = 0;
    for (int i = 0; i < s->value_count; i++)
        room->order[i] = i;
    qsort_r(room->order, (size_t)s->value_count, sizeof *room->order, order, s->values);
    tide_occupied_clear(room->occupied);
    for (int i = 0; i < s->value_count; i++) {
        struct tide_value *value = &s->values[room->order[i]];
        size_t bytes = tide_aligned(value->bytes);
        value->offset = tide_occupied_lowest(room->occupied, value->first, value->last, bytes);
        *ret_bytes = end_of(value) > *ret_bytes ? end_of(value) : *ret_bytes;
        if (*ret_bytes >= limit || tide_occupied_looks(room->occupied) - before > most_looks) {
            *ret_bytes = SIZE_MAX;
            return 0;
        }
        if (tide_occupied_take(room->occupied, value->first, value->last, value->offset, bytes))
            return -1;
    }
    return 0;
}

/* Tries the orders until one takes at most `enough` bytes; keeps the one that takes least. */
static int make(struct tide_schedule *s, const struct room *room, size_t enough, struct tide_layout *layout)
{
    size_t bytes;
    layout->bytes = SIZE_MAX;
    for (int i = 0; i < ORDERS && layout->bytes > enough; i++) {
        uint64_t most_looks = i ? (uint64_t)s->value_count * MOST_LOOKS : UINT64_MAX;
        if (place_all(s, orders[i], room, layout->bytes, most_looks, &bytes))
            return -1;
        if (bytes == SIZE_MAX)
            continue;
        layout->bytes = bytes;
        for (int v = 0; v < s->value_count; v++)
            room->best[v] = s->values[v].offset;
    }
    for (int v = 0; v < s->value_count; v++)
        s->values[v].offset = room->best[v];
    layout->looks = tide_occupied_looks(room->occupied);
    return 0;
}

static void release(struct room *room)
{
    free(room->order);
    free(room->best);
    free(room->alive);
    tide_occupied_free(room->occupied);
}

/* Makes no layout if more than `most` bytes are alive at once. */
static int make_within(struct tide_schedule *s, size_t enough, size_t most, struct tide_layout *ret_layout,
                       struct tide_err *err)
{
    size_t count = (size_t)s->value_count + 1;
    struct room room = {malloc(count * sizeof *room.order), malloc(count * sizeof *room.best),
                        malloc(((size_t)s->count + 1) * sizeof *room.alive), tide_occupied_new(s->count)};
    struct tide_layout layout = {0};
    int bad = room.order && room.best && room.alive && room.occupied ? 0 : -1;
    if (!bad) {
        layout.bytes = layout.lower_bound = most_alive(s, room.alive, &layout.peak);
        enough = enough > layout.lower_bound ? enough : layout.lower_bound;
        bad = layout.lower_bound <= most ? make(s, &room, enough, &layout) : 0;
    }
    release(&room);
    if (bad)
        return tide_err_set(err, "out of memory for the layout");
    *ret_layout = layout;
    return 0;
}

int tide_layout(struct tide_schedule *s, struct tide_layout *ret_layout, struct tide_err *err)
{
    return make_within(s, 0, SIZE_MAX, ret_layout, err);
}

int tide_layout_fits(struct tide_schedule *s, size_t bytes, bool *ret_fits, struct tide_err *err)
{
    struct tide_layout layout;
    if (make_within(s, bytes, bytes, &layout, err))
        return -1;
    *ret_fits = layout.bytes <= bytes;
    return 0;
}
