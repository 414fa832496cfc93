/*
 * siblings.c - the numbers of processes among their siblings: "worker 3" is the fourth that its parent had at
 * once. Siblings are sorted twice, by when they came and by when they ended. Of those that came before a
 * process, those that had not ended by then were still there.
 */
#include "assess/history_private.h"

#include <stdlib.h>
#include <string.h>

static int by_family(const struct tide_history_process *a, const struct tide_history_process *b)
{
    if (a->row.parent != b->row.parent)
        return a->row.parent < b->row.parent ? -1 : 1;
    return strcmp(a->row.role, b->row.role);
}

static int by_coming(const void *left, const void *right)
{
    const struct tide_history_process *a = *(struct tide_history_process *const *)left;
    const struct tide_history_process *b = *(struct tide_history_process *const *)right;
    int order = by_family(a, b);
    return order ? order : a < b ? -1 : a > b;
}

static int64_t end_of(const struct tide_history_process *p)
{
    return p->row.ended_ns == TIDE_UNKNOWN ? INT64_MAX : p->row.ended_ns;
}

static int by_end(const void *left, const void *right)
{
    const struct tide_history_process *a = *(struct tide_history_process *const *)left;
    const struct tide_history_process *b = *(struct tide_history_process *const *)right;
    int order = by_family(a, b);
    if (!order && end_of(a) != end_of(b))
        return end_of(a) < end_of(b) ? -1 : 1;
    return order ? order : a < b ? -1 : a > b;
}

int tide_siblings_number(struct tide_history *history, struct tide_err *err)
{
    size_t count = history->process_count;
    struct tide_history_process **came = malloc((2 * count + 1) * sizeof *came);
    if (!came)
        return tide_err_set(err, "not enough memory for the names of %zu processes", count);
    struct tide_history_process **ended = came + count;
    for (size_t i = 0; i < count; i++)
        came[i] = ended[i] = &history->processes[i];
    qsort(came, count, sizeof(void *), by_coming);
    qsort(ended, count, sizeof(void *), by_end);
    for (size_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && by_family(came[first], came[next]) == 0;)
            next++;
        bool alone = next - first == 1 || came[first]->row.parent <= 0;
        for (size_t i = first, gone = first; i < next; i++) {
            /* One that came and ended at the same look may be later than this one. */
            while (ended[gone] < came[i] && end_of(ended[gone]) <= came[i]->row.began_ns)
                gone++;
            came[i]->number = alone ? -1 : (int64_t)(i - gone);
        }
    }
    free(came);
    return 0;
}
