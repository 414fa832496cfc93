#include "hook/ranges.h"
#include "hook/latch.h"

#include <string.h>

struct list {
    tide_latch latch;
    atomic_size_t count;
    struct tide_range at[TIDE_RANGES_MOST];
};

static struct TIDE_WIPED {
    struct list of[TIDE_RANGES_KINDS];
} ranges;

int tide_ranges_init(void)
{
    return tide_wiped_declare(&ranges, sizeof ranges);
}

static size_t count_of(const struct list *list)
{
    return atomic_load_explicit(&list->count, memory_order_relaxed);
}

bool tide_ranges_any(enum tide_ranges_kind kind)
{
    return count_of(&ranges.of[kind]) != 0;
}

/* Returns the index of the first range that ends after the address, or the count if there is none. */
static size_t first_after(const struct list *list, uintptr_t address)
{
    size_t low = 0, high = count_of(list);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->at[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int insert(struct list *list, size_t at, struct tide_range range)
{
    size_t count = count_of(list);
    if (count == TIDE_RANGES_MOST)
        return -1;
    memmove(&list->at[at + 1], &list->at[at], (count - at) * sizeof *list->at);
    list->at[at] = range;
    atomic_store_explicit(&list->count, count + 1, memory_order_relaxed);
    return 0;
}

static void erase(struct list *list, size_t at, size_t gone)
{
    size_t count = count_of(list) - gone;
    memmove(&list->at[at], &list->at[at + gone], (count - at) * sizeof *list->at);
    atomic_store_explicit(&list->count, count, memory_order_relaxed);
}

int tide_ranges_add(enum tide_ranges_kind kind, struct tide_range range, bool join)
{
    struct list *list = &ranges.of[kind];
    if (!tide_latch_take(&list->latch))
        return -1;
    size_t at = first_after(list, range.start);
    bool joins = join && at > 0 && list->at[at - 1].end == range.start && list->at[at - 1].site == range.site;
    if (joins)
        list->at[at - 1].end = range.end;
    int failed = joins ? 0 : insert(list, at, range);
    tide_latch_release(&list->latch);
    return joins ? 1 : failed;
}

int tide_ranges_cut(enum tide_ranges_kind kind, uintptr_t start, uintptr_t end, tide_ranges_change *on_change,
                    void *context)
{
    struct list *list = &ranges.of[kind];
    if (!tide_latch_take(&list->latch))
        return -1;
    /* Only the first and the last range can be cut in part. The others are erased together, at the end. */
    size_t i = first_after(list, start), first_gone = 0, gone = 0;
    while (i < count_of(list) && list->at[i].start < end) {
        struct tide_range *range = &list->at[i], lost = *range, rest = *range;
        lost.start = start > range->start ? start : range->start;
        lost.end = rest.start = end < range->end ? end : range->end;
        bool before = lost.start > range->start, after = lost.end < range->end;
        int64_t bytes = -(int64_t)(lost.end - lost.start), pieces = before + after - 1;
        if (before)
            range->end = lost.start;
        if (before && after && insert(list, i + 1, rest)) {
            bytes -= (int64_t)(rest.end - rest.start);
            pieces--;
        } else if (!before && after) {
            *range = rest;
        }
        if (!before && !after && gone++ == 0)
            first_gone = i;
        i += before && after ? 2 : 1;
        if (on_change)
            on_change(context, lost, bytes, pieces);
    }
    if (gone)
        erase(list, first_gone, gone);
    tide_latch_release(&list->latch);
    return 0;
}

int tide_ranges_take(enum tide_ranges_kind kind, uintptr_t start, uintptr_t end, struct tide_range *ret_range)
{
    struct list *list = &ranges.of[kind];
    if (!count_of(list))
        return 0;
    if (!tide_latch_take(&list->latch))
        return -1;
    size_t i = first_after(list, start);
    i += i < count_of(list) && list->at[i].start < start;
    bool found = i < count_of(list) && list->at[i].start < end;
    if (found) {
        *ret_range = list->at[i];
        erase(list, i, 1);
    }
    tide_latch_release(&list->latch);
    return found;
}

bool tide_ranges_find(enum tide_ranges_kind kind, uintptr_t start, uintptr_t end,
                      struct tide_range *ret_range)
{
    struct list *list = &ranges.of[kind];
    if (!count_of(list) || !tide_latch_take(&list->latch))
        return false;
    size_t i = first_after(list, start);
    bool found = i < count_of(list) && list->at[i].start < end;
    if (found)
        *ret_range = list->at[i];
    tide_latch_release(&list->latch);
    return found;
}
