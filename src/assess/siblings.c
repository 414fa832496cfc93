/*
 * siblings.c - the numbers of processes among their siblings: "worker 3" is the fourth that its parent had at
 * once. Processes are sorted so that siblings are together, in the order in which they came. The ends of
 * those that still run are in a heap with the earliest on top.
 */
#include "assess/history_private.h"

#include <stdlib.h>
#include <string.h>

struct ends {
    int64_t *ns;
    size_t count;
};

static void push(struct ends *ends, int64_t ns)
{
    size_t at = ends->count++;
    for (; at > 0 && ends->ns[(at - 1) / 2] > ns; at = (at - 1) / 2)
        ends->ns[at] = ends->ns[(at - 1) / 2];
    ends->ns[at] = ns;
}

static void pop(struct ends *ends)
{
    int64_t last = ends->ns[--ends->count];
    size_t at = 0;
    for (size_t below = 1; below < ends->count; below = 2 * at + 1) {
        below += below + 1 < ends->count && ends->ns[below + 1] < ends->ns[below];
        if (last <= ends->ns[below])
            break;
        ends->ns[at] = ends->ns[below];
        at = below;
    }
    ends->ns[at] = last;
}

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

/* Numbers `count` siblings. */
static void number_family(struct tide_history_process **family, size_t count, struct ends *ends)
{
    bool alone = count == 1 || family[0]->row.parent <= 0;
    ends->count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct tide_process *row = &family[i]->row;
        while (ends->count > 0 && ends->ns[0] <= row->began_ns)
            pop(ends);
        family[i]->number = alone ? -1 : (int64_t)ends->count;
        push(ends, row->ended_ns == TIDE_UNKNOWN ? INT64_MAX : row->ended_ns);
    }
}

int tide_siblings_number(struct tide_history *history, struct tide_err *err)
{
    size_t count = history->process_count;
    struct tide_history_process **sorted = malloc((count + 1) * sizeof *sorted);
    struct ends ends = {.ns = malloc((count + 1) * sizeof *ends.ns)};
    int bad = !sorted || !ends.ns;
    if (bad)
        tide_err_set(err, "not enough memory for the names of %zu processes", count);
    for (size_t i = 0; i < count && !bad; i++)
        sorted[i] = &history->processes[i];
    if (!bad)
        qsort(sorted, count, sizeof(void *), by_family);
    for (size_t i = 0, end; i < count && !bad; i = end) {
        for (end = i + 1; end < count && !by_parent_and_role(&sorted[i]->row, &sorted[end]->row); end++)
            ;
        number_family(sorted + i, end - i, &ends);
    }
    free(sorted);
    free(ends.ns);
    return bad ? -1 : 0;
}
