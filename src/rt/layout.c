#include "rt/layout.h"
#include "base/check.h"

#include <stdlib.h>
#include <string.h>

static bool meet(const struct tide_value *a, const struct tide_value *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* An order of values, by two places in their list. */
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

/* What a layout is made in: room for as many of each as there are values. */
struct room {
    int *order;
    const struct tide_value **placed; /* lower ones first */
    size_t *alive;                    /* of each instruction, and one more */
};

static size_t most_alive(const struct tide_schedule *s, size_t *alive, int *ret_at)
{
    size_t most = 0, now = 0;
    *ret_at = 0;
    memset(alive, 0, ((size_t)s->count + 1) * sizeof *alive);
    for (int v = 0; v < s->value_count; v++) { /* what begins less what has ended: sums are never negative */
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

/* The lowest place for `value` between the placed ones whose lifetimes meet its own. */
static size_t lowest_gap(const struct tide_value *value, const struct tide_value *const *placed, int count)
{
    size_t at = 0, bytes = tide_aligned(value->bytes);
    for (int i = 0; i < count && placed[i]->offset < at + bytes; i++)
        if (end_of(placed[i]) > at && meet(value, placed[i]))
            at = end_of(placed[i]);
    return at;
}

/* Among the first `count`, which are in order. */
static void insert(const struct tide_value **placed, int count, const struct tide_value *value)
{
    int at = count;
    while (at > 0 && placed[at - 1]->offset > value->offset)
        at--;
    memmove(placed + at + 1, placed + at, (size_t)(count - at) * sizeof(const struct tide_value *));
    placed[at] = value;
}

/* Returns the bytes it takes. */
static size_t place_all(struct tide_schedule *s, tide_value_order *order, const struct room *room)
{
    size_t bytes = 0;
    for (int i = 0; i < s->value_count; i++)
        room->order[i] = i;
    qsort_r(room->order, (size_t)s->value_count, sizeof *room->order, order, s->values);
    for (int i = 0; i < s->value_count; i++) {
        struct tide_value *value = &s->values[room->order[i]];
        value->offset = lowest_gap(value, room->placed, i);
        bytes = end_of(value) > bytes ? end_of(value) : bytes;
        insert(room->placed, i, value);
    }
    return bytes;
}

/* In the first order that takes least. */
static void make(struct tide_schedule *s, const struct room *room, struct tide_layout *layout)
{
    int best = 0, last = 0;
    layout->lower_bound = most_alive(s, room->alive, &layout->peak);
    layout->bytes = place_all(s, orders[0], room);
    for (int i = 1; i < ORDERS && layout->bytes > layout->lower_bound; i++) {
        size_t bytes = place_all(s, orders[i], room);
        last = i;
        if (bytes < layout->bytes) {
            layout->bytes = bytes;
            best = i;
        }
    }
    if (last != best)
        place_all(s, orders[best], room);
}

int tide_layout(struct tide_schedule *s, struct tide_layout *ret_layout, struct tide_err *err)
{
    size_t count = (size_t)s->value_count + 1;
    struct room room = {malloc(count * sizeof *room.order), malloc(count * sizeof(const struct tide_value *)),
                        malloc(((size_t)s->count + 1) * sizeof *room.alive)};
    int bad = room.order && room.placed && room.alive ? 0 : tide_err_set(err, "out of memory for the layout");
    if (!bad)
        make(s, &room, ret_layout);
    free(room.order);
    free(room.placed);
    free(room.alive);
    return bad;
}

int tide_layout_check(const struct tide_schedule *s, size_t bytes, struct tide_err *err)
{
    for (int i = 0; i < s->value_count; i++) {
        const struct tide_value *a = &s->values[i];
        if (a->offset + a->bytes > bytes || a->offset % TIDE_ALIGN)
            return tide_err_set(err, "value %d lies outside the arena", i);
        for (int j = 0; j < i; j++) {
            const struct tide_value *b = &s->values[j];
            if (meet(a, b) && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                return tide_err_set(err, "values %d and %d overlap while both are alive", j, i);
        }
    }
    return 0;
}
