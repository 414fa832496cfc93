/*
 * siblings.c - the numbers of processes among their like: "worker 3" is the fourth that its parent had at
 * once. Processes are sorted so that siblings lie together, in the order in which they came.
 */
#include "assess/history_private.h"

#include <stdlib.h>
#include <string.h>

static int by_parent_and_role(const struct tide_process *a, const struct tide_process *b)
{
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    return strcmp(a->role, b->role);
}

static int by_family(const void *left, const void *right)
{
    const struct tide_history_process *a = *(struct tide_history_process *const *)left;
    const struct tide_history_process *b = *(struct tide_history_process *const *)right;
    int order = by_parent_and_role(&a->row, &b->row);
    return order ? order : a < b ? -1 : a > b;
}

/* Of `count` siblings. ends: room for when each of those that are still there will be gone. */
static void number_family(struct tide_history_process **family, size_t count, int64_t *ends)
{
    bool alone = count == 1 || family[0]->row.parent <= 0;
    size_t there = 0;
    for (size_t i = 0; i < count; i++) {
        const struct tide_process *row = &family[i]->row;
        size_t kept = 0;
        for (size_t k = 0; k < there; k++)
            if (ends[k] > row->began_ns)
                ends[kept++] = ends[k];
        family[i]->number = alone ? -1 : (int64_t)kept;
        ends[kept] = row->ended_ns == TIDE_UNKNOWN ? INT64_MAX : row->ended_ns;
        there = kept + 1;
    }
}

int tide_siblings_number(struct tide_history *history, struct tide_err *err)
{
    size_t count = history->process_count;
    struct tide_history_process **sorted = malloc((count + 1) * sizeof *sorted);
    int64_t *ends = malloc((count + 1) * sizeof *ends);
    int bad = !sorted || !ends;
    if (bad)
        tide_err_set(err, "not enough memory for the names of %zu processes", count);
    for (size_t i = 0; i < count && !bad; i++)
        sorted[i] = &history->processes[i];
    if (!bad)
        qsort(sorted, count, sizeof(void *), by_family);
    for (size_t i = 0, end; i < count && !bad; i = end) {
        for (end = i + 1; end < count && !by_parent_and_role(&sorted[i]->row, &sorted[end]->row); end++)
            ;
        number_family(sorted + i, end - i, ends);
    }
    free(sorted);
    free(ends);
    return bad ? -1 : 0;
}
