#include "rt/layout.h"

#include <stdlib.h>

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

static size_t most_alive(const struct tide_schedule *s, int *ret_at)
{
    size_t most = 0;
    *ret_at = 0;
    for (int i = 0; i < s->count; i++) {
        size_t alive = 0;
        for (int v = 0; v < s->value_count; v++)
            if (s->values[v].first <= i && i <= s->values[v].last)
                alive += tide_aligned(s->values[v].bytes);
        if (alive > most) {
            most = alive;
            *ret_at = i;
        }
    }
    return most;
}

static int lower_first(const void *a, const void *b)
{
    const struct tide_value *const *x = a, *const *y = b;
    return (*x)->offset < (*y)->offset ? -1 : (*x)->offset > (*y)->offset;
}

/* The lowest place for `value` between the placed ones whose lifetimes meet its own. */
static size_t lowest_gap(const struct tide_value *value, const struct tide_value **neighbours, int count)
{
    size_t at = 0, bytes = tide_aligned(value->bytes);
    qsort(neighbours, (size_t)count, sizeof(const struct tide_value *), lower_first);
    for (int i = 0; i < count; i++) {
        if (neighbours[i]->offset >= at + bytes)
            break;
        size_t end = neighbours[i]->offset + tide_aligned(neighbours[i]->bytes);
        at = end > at ? end : at;
    }
    return at;
}

/* Returns the bytes it takes. list and neighbours are room for all values. */
static size_t place_all(struct tide_schedule *s, tide_value_order *order, int *list,
                        const struct tide_value **neighbours)
{
    size_t bytes = 0;
    for (int i = 0; i < s->value_count; i++)
        list[i] = i;
    qsort_r(list, (size_t)s->value_count, sizeof *list, order, s->values);
    for (int i = 0; i < s->value_count; i++) {
        struct tide_value *value = &s->values[list[i]];
        int near = 0;
        for (int j = 0; j < i; j++)
            if (meet(value, &s->values[list[j]]))
                neighbours[near++] = &s->values[list[j]];
        value->offset = lowest_gap(value, neighbours, near);
        size_t end = value->offset + tide_aligned(value->bytes);
        bytes = end > bytes ? end : bytes;
    }
    return bytes;
}

int tide_layout(struct tide_schedule *s, struct tide_layout *ret_layout, struct tide_err *err)
{
    size_t count = (size_t)s->value_count;
    int *list = malloc((count + 1) * sizeof *list);
    const struct tide_value **neighbours = malloc((count + 1) * sizeof(const struct tide_value *));
    if (!list || !neighbours) {
        free(list);
        free(neighbours);
        return tide_err_set(err, "out of memory for the layout");
    }
    struct tide_layout made = {.lower_bound = most_alive(s, &made.peak)};
    made.bytes = place_all(s, larger_first, list, neighbours);
    if (made.bytes > made.lower_bound) {
        size_t other = place_all(s, longer_first, list, neighbours);
        made.bytes = other < made.bytes ? other : place_all(s, larger_first, list, neighbours);
    }
    free(list);
    free(neighbours);
    *ret_layout = made;
    return 0;
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
