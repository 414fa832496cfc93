/*
 * ranges.c - the sorted array of mappings (ranges.h).
 */
#include "hook/ranges.h"
#include "hook/wiped.h"

#include <string.h>

struct range {
    uintptr_t start, end;
    uint32_t site;
};

static struct TIDE_WIPED {
    tide_latch latch;
    atomic_size_t count;
    struct range at[TIDE_RANGES_MOST];
} ranges;

int tide_ranges_init(void)
{
    return tide_wiped_declare(&ranges, sizeof ranges);
}

bool tide_ranges_any(void)
{
    return atomic_load_explicit(&ranges.count, memory_order_relaxed) != 0;
}

/* The first range that ends after the address; the count if there is none. */
static size_t first_after(uintptr_t address)
{
    size_t low = 0, high = atomic_load_explicit(&ranges.count, memory_order_relaxed);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges.at[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int insert(size_t at, struct range range)
{
    size_t count = atomic_load_explicit(&ranges.count, memory_order_relaxed);
    if (count == TIDE_RANGES_MOST)
        return -1;
    memmove(&ranges.at[at + 1], &ranges.at[at], (count - at) * sizeof *ranges.at);
    ranges.at[at] = range;
    atomic_store_explicit(&ranges.count, count + 1, memory_order_relaxed);
    return 0;
}

static void erase(size_t at)
{
    size_t count = atomic_load_explicit(&ranges.count, memory_order_relaxed) - 1;
    memmove(&ranges.at[at], &ranges.at[at + 1], (count - at) * sizeof *ranges.at);
    atomic_store_explicit(&ranges.count, count, memory_order_relaxed);
}

int tide_ranges_add(uintptr_t start, uintptr_t end, uint32_t site)
{
    if (!tide_latch_take(&ranges.latch))
        return -1;
    int failed = insert(first_after(start), (struct range){start, end, site});
    tide_latch_release(&ranges.latch);
    return failed;
}

int tide_ranges_cut(uintptr_t start, uintptr_t end, tide_ranges_change *on_change, void *context)
{
    if (!tide_latch_take(&ranges.latch))
        return -1;
    size_t i = first_after(start);
    while (i < atomic_load_explicit(&ranges.count, memory_order_relaxed) && ranges.at[i].start < end) {
        struct range *range = &ranges.at[i], whole = *range;
        uintptr_t from = start > whole.start ? start : whole.start, to = end < whole.end ? end : whole.end;
        bool before = from > whole.start, after = to < whole.end;
        int64_t bytes = -(int64_t)(to - from), pieces = before + after - 1;
        if (before)
            range->end = from;
        if (before && after && insert(i + 1, (struct range){to, whole.end, whole.site})) {
            bytes -= (int64_t)(whole.end - to);
            pieces--;
        } else if (!before && after) {
            range->start = to;
        }
        if (!before && !after)
            erase(i);
        else
            i += before && after ? 2 : 1;
        on_change(context, whole.site, bytes, pieces);
    }
    tide_latch_release(&ranges.latch);
    return 0;
}
