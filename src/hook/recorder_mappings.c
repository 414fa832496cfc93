/*
 * recorder_mappings.c - records anonymous mappings in the table (recorder.h).
 *
 * Writable mappings are memory. The others are address space, which becomes memory of the stack that makes it
 * writable. Both are kept by address (ranges.h). Pages that are given back with madvise() stay with their
 * mapping, because they can be written again without a call.
 */
#include "hook/blocks.h"
#include "hook/ledger.h"
#include "hook/recorder_private.h"

static uintptr_t end_of(uintptr_t start, size_t bytes)
{
    size_t whole = (bytes + 4095) & ~(size_t)4095;
    return whole < bytes || start + whole < start ? UINTPTR_MAX : start + whole;
}

static void on_cut(void *context, struct tide_range gone, int64_t bytes, int64_t pieces)
{
    tide_ledger_changed(context, gone.site, bytes, pieces);
}

/* Forgets all that is known about these addresses. */
static void cut_all(struct tide_heap_head *table, uintptr_t start, uintptr_t end)
{
    tide_blocks_clear(table, start, end);
    bool lost =
        tide_ranges_any(TIDE_RANGES_MAPPED) && tide_ranges_cut(TIDE_RANGES_MAPPED, start, end, on_cut, table);
    if (tide_ranges_any(TIDE_RANGES_RESERVED))
        lost |= tide_ranges_cut(TIDE_RANGES_RESERVED, start, end, NULL, NULL) != 0;
    if (lost)
        tide_ledger_count(&table->lost_frees);
}

/* The range is new memory of its site (open), or a new reservation. Memory that joins the range before it is
 * not a block of its own. */
static void add(struct tide_heap_head *table, struct tide_range range, bool open, bool join)
{
    int added = tide_ranges_add(open ? TIDE_RANGES_MAPPED : TIDE_RANGES_RESERVED, range, join);
    if (added < 0)
        tide_ledger_count(&table->dropped_pointers);
    else if (open)
        tide_ledger_allocated(table, range.site, (int64_t)(range.end - range.start), !added);
}

void tide_recorder_mapped(const void *pointer, size_t bytes, bool open, struct tide_unwind_frame caller)
{
    struct tide_heap_head *table = tide_recorder_enter();
    if (!table)
        return;
    uintptr_t start = (uintptr_t)pointer, end = end_of(start, bytes);
    cut_all(table, start, end);
    int32_t site = open ? tide_recorder_site(table, TIDE_SITE_MMAP, caller) : 0;
    if (site >= 0)
        add(table, (struct tide_range){.start = start, .end = end, .site = (uint32_t)site}, open, false);
    tide_recorder_leave();
}

void tide_recorder_unmapped(const void *pointer, size_t bytes)
{
    if (!tide_ranges_any(TIDE_RANGES_MAPPED) && !tide_ranges_any(TIDE_RANGES_RESERVED) &&
        !tide_pointers_totals.pooled)
        return;
    TIDE_IN_TABLE(cut_all(table, (uintptr_t)pointer, end_of((uintptr_t)pointer, bytes)));
}

/* Moves [start, end) from one list to the other, range by range, so that only one latch is held. */
static int reprotect(struct tide_heap_head *table, uintptr_t start, uintptr_t end, bool open, uint32_t site)
{
    enum tide_ranges_kind from = open ? TIDE_RANGES_RESERVED : TIDE_RANGES_MAPPED;
    struct tide_range piece;
    while (tide_ranges_find(from, start, end, &piece)) {
        piece.start = piece.start > start ? piece.start : start;
        piece.end = piece.end < end ? piece.end : end;
        if (tide_ranges_cut(from, piece.start, piece.end, open ? NULL : on_cut, table))
            return -1;
        piece.site = site;
        add(table, piece, open, open);
        start = piece.end;
    }
    return 0;
}

void tide_recorder_protected(const void *pointer, size_t bytes, bool open, struct tide_unwind_frame caller)
{
    enum tide_ranges_kind from = open ? TIDE_RANGES_RESERVED : TIDE_RANGES_MAPPED;
    uintptr_t start = (uintptr_t)pointer, end = end_of(start, bytes);
    struct tide_range first;
    if (!tide_ranges_any(from))
        return;
    struct tide_heap_head *table = tide_recorder_enter();
    if (!table)
        return;
    if (tide_ranges_find(from, start, end, &first)) {
        int32_t site = open ? tide_recorder_site(table, TIDE_SITE_MMAP, caller) : 0;
        if (site >= 0 && reprotect(table, start, end, open, (uint32_t)site))
            tide_ledger_count(&table->lost_frees);
    }
    tide_recorder_leave();
}

static void on_move_reserved(void *context, struct tide_range gone, int64_t bytes, int64_t pieces)
{
    struct tide_recorder_moving *moving = context;
    (void)bytes, (void)pieces;
    if (moving->count < TIDE_RECORDER_PIECES)
        moving->pieces[moving->count++] = gone;
    else
        moving->lost++;
}

static void on_move(void *context, struct tide_range gone, int64_t bytes, int64_t pieces)
{
    struct tide_recorder_moving *moving = context;
    on_move_reserved(moving, gone, bytes, pieces);
    moving->mapped = moving->count;
    tide_ledger_changed(tide_ledger_table(), gone.site, bytes, pieces);
}

struct tide_recorder_moving tide_recorder_moving(const void *pointer, size_t bytes)
{
    struct tide_recorder_moving moving = {.count = 0};
    uintptr_t start = (uintptr_t)pointer, end = end_of(start, bytes);
    struct tide_heap_head *table = tide_recorder_enter();
    if (!table)
        return moving;
    tide_blocks_clear(table, start, end);
    if (tide_ranges_cut(TIDE_RANGES_MAPPED, start, end, on_move, &moving) ||
        tide_ranges_cut(TIDE_RANGES_RESERVED, start, end, on_move_reserved, &moving))
        tide_ledger_count(&table->lost_frees);
    tide_recorder_leave();
    return moving;
}

void tide_recorder_stayed(const struct tide_recorder_moving *moving)
{
    struct tide_heap_head *table = moving->count ? tide_recorder_enter() : NULL;
    if (!table)
        return;
    for (size_t i = 0; i < moving->count; i++) {
        struct tide_range piece = moving->pieces[i];
        if (i >= moving->mapped)
            add(table, piece, false, false);
        else if (!tide_ranges_add(TIDE_RANGES_MAPPED, piece, false))
            tide_ledger_changed(table, piece.site, (int64_t)(piece.end - piece.start), 1);
        else
            tide_ledger_count(&table->dropped_pointers);
    }
    for (size_t i = 0; i < moving->lost; i++)
        tide_ledger_count(&table->dropped_pointers);
    tide_recorder_leave();
}
