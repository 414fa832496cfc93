#include "assess/mark_order.h"

#include <stdlib.h>
#include <string.h>

/* Merges two neighbouring runs of `from` into `to`; equal times keep their order. */
static void merge_runs(const struct tide_history_mark *from, size_t begin, size_t middle, size_t end,
                       struct tide_history_mark *to)
{
    size_t left = begin, right = middle;

    for (size_t i = begin; i < end; i++)
        to[i] = left < middle && (right >= end || from[left].t_ns <= from[right].t_ns) ? from[left++]
                                                                                       : from[right++];
}

static void sort_marks_in_place(struct tide_history_mark *marks, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct tide_history_mark mark = marks[i];
        size_t at = i;
        for (; at > 0 && marks[at - 1].t_ns > mark.t_ns; at--)
            marks[at] = marks[at - 1];
        marks[at] = mark;
    }
}

void tide_mark_sort(struct tide_history_mark *marks, size_t count)
{
    struct tide_history_mark *spare = malloc(count * sizeof *spare), *from = marks, *to = spare;

    if (!spare) {
        sort_marks_in_place(marks, count);
        return;
    }
    for (size_t run = 1; run < count; run *= 2) {
        for (size_t begin = 0; begin < count; begin += 2 * run) {
            size_t middle = begin + run < count ? begin + run : count;
            size_t end = middle + run < count ? middle + run : count;
            merge_runs(from, begin, middle, end, to);
        }
        struct tide_history_mark *swap = from;
        from = to;
        to = swap;
    }
    if (from != marks)
        memcpy(marks, from, count * sizeof *marks);
    free(spare);
}
