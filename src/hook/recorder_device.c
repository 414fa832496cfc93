/*
 * recorder_device.c - memory without a host address: a device's, known by its own address or by a handle
 * (recorder.h).
 */
#include "hook/blocks.h"
#include "hook/pieces.h"
#include "hook/ledger.h"
#include "hook/recorder_private.h"

void tide_recorder_cuda(enum tide_heap_cuda what)
{
    tide_ledger_setup.cuda = what;
    TIDE_IN_TABLE(atomic_store(&table->cuda, what));
}

/* Returns the site, or TIDE_LEDGER_NONE if there was no room. */
static int32_t place(struct tide_heap_head *table, enum tide_site_kind kind, const void *key, size_t bytes,
                     struct tide_unwind_frame caller)
{
    int32_t site = tide_recorder_site(table, kind, caller);
    struct tide_pointers_block block = {.bytes = bytes, .blocks = 1, .site = (uint16_t)site};
    return site >= 0 && tide_recorder_place(table, key, block) ? site : TIDE_LEDGER_NONE;
}

void tide_recorder_block(enum tide_site_kind kind, const void *key, size_t bytes,
                         struct tide_unwind_frame caller)
{
    TIDE_IN_TABLE(place(table, kind, key, bytes, caller));
}

/* Without a range, what a pool hands out of this memory is not subtracted from its site. */
static bool add_range(struct tide_heap_head *table, struct tide_range range)
{
    tide_ranges_cut(TIDE_RANGES_DEVICE, range.start, range.end, NULL, NULL);
    if (!tide_ranges_add(TIDE_RANGES_DEVICE, range, false))
        return true;
    tide_ledger_count(&table->dropped_pointers);
    return false;
}

void tide_recorder_segment(uint64_t address, size_t bytes, struct tide_unwind_frame caller)
{
    struct tide_heap_head *table = tide_recorder_enter();
    if (!table)
        return;
    int32_t site =
        place(table, TIDE_SITE_CUDA, (const void *)(address | TIDE_POINTERS_DEVICE), bytes, caller);
    if (site >= 0)
        add_range(table,
                  (struct tide_range){.start = address, .end = address + bytes, .site = (uint32_t)site});
    tide_recorder_leave();
}

void tide_recorder_device_created(enum tide_site_kind kind, uint64_t handle, size_t bytes,
                                  struct tide_unwind_frame caller)
{
    struct tide_heap_head *table = tide_recorder_enter();
    if (!table)
        return;
    int32_t site = tide_recorder_site(table, kind, caller);
    if (site >= 0 && tide_pieces_create(handle, bytes, (uint32_t)site) == TIDE_PIECES_DONE)
        tide_ledger_allocated(table, (uint32_t)site, (int64_t)bytes, 1);
    else if (site >= 0)
        tide_ledger_count(&table->dropped_pointers);
    tide_recorder_leave();
}

static void on_gone(void *context, uint32_t site, uint64_t bytes)
{
    tide_ledger_changed(context, site, -(int64_t)bytes, -1);
}

/* If a mapping or a reference could not be noted, the piece ends too early in the table; if an end could not
 * be noted, it never ends. */
static void note_result(struct tide_heap_head *table, enum tide_pieces_result result)
{
    if (result == TIDE_PIECES_BUSY || result == TIDE_PIECES_FULL)
        tide_ledger_count(&table->lost_frees);
}

#define ON_DEVICE(call)                                                                                      \
    if (tide_pieces_any())                                                                                   \
    TIDE_IN_TABLE(note_result(table, call))

/* True once a tensor was reported. */
static atomic_bool any_tensor;

void tide_recorder_tensor_bytes(uintptr_t address, int64_t bytes)
{
    struct tide_range segment;
    struct tide_heap_head *table = tide_ranges_any(TIDE_RANGES_DEVICE) ? tide_recorder_enter() : NULL;
    if (!table)
        return;
    atomic_store_explicit(&any_tensor, true, memory_order_relaxed);
    if (tide_ranges_find(TIDE_RANGES_DEVICE, address, address + 1, &segment))
        tide_ledger_changed(table, segment.site, -bytes, 0);
    tide_recorder_leave();
}

/* A pool that grows piece by piece has tensors that reach from one piece into the next. So it is one segment,
 * and all of it belongs to the site that began it. Otherwise the bytes subtracted from the sites of its
 * pieces would not match what those pieces hold. */
static uint32_t join_segment(struct tide_heap_head *table, uint64_t address, uint32_t piece, uint32_t site)
{
    struct tide_range before;
    if (!atomic_load_explicit(&any_tensor, memory_order_relaxed) ||
        !tide_ranges_find(TIDE_RANGES_DEVICE, address - 1, address, &before) || before.site == site)
        return site;
    int64_t bytes = (int64_t)tide_pieces_set_site(piece, before.site);
    if (!bytes)
        return site;
    tide_ledger_changed(table, site, -bytes, -1);
    tide_ledger_changed(table, before.site, bytes, 1);
    return before.site;
}

/* Forgets what was mapped at these addresses. The driver does not cut a mapping in two. */
static enum tide_pieces_result unmap(struct tide_heap_head *table, uint64_t address, size_t bytes)
{
    struct tide_range gone;
    int taken, any = 0;
    while ((taken = tide_ranges_take(TIDE_RANGES_DEVICE, address, address + bytes, &gone)) > 0) {
        if (gone.piece)
            note_result(table, tide_pieces_unmap(gone.piece - 1, on_gone, table));
        any = 1;
    }
    if (any)
        tide_blocks_clear(table, address, address + bytes);
    return taken < 0 ? TIDE_PIECES_BUSY : TIDE_PIECES_DONE;
}

static enum tide_pieces_result map(struct tide_heap_head *table, uint64_t address, size_t bytes,
                                   uint64_t handle)
{
    uint32_t piece, site;
    unmap(table, address, bytes); /* if anything was there, its unmapping was missed */
    enum tide_pieces_result result = tide_pieces_map(handle, &piece, &site);
    if (result != TIDE_PIECES_DONE)
        return result;
    site = join_segment(table, address, piece, site);
    if (add_range(table, (struct tide_range){
                             .start = address, .end = address + bytes, .site = site, .piece = piece + 1}))
        return TIDE_PIECES_DONE;
    tide_pieces_unmap(piece, on_gone, table);
    return TIDE_PIECES_FULL;
}

static enum tide_pieces_result retain(uint64_t handle, uint64_t address)
{
    struct tide_range mapped;
    if (!tide_ranges_find(TIDE_RANGES_DEVICE, address, address + 1, &mapped) || !mapped.piece)
        return TIDE_PIECES_ABSENT;
    return tide_pieces_retain(handle, mapped.piece - 1);
}

void tide_recorder_device_mapped(uint64_t address, size_t bytes, uint64_t handle)
{
    ON_DEVICE(map(table, address, bytes, handle));
}

void tide_recorder_device_unmapped(uint64_t address, size_t bytes)
{
    ON_DEVICE(unmap(table, address, bytes));
}

void tide_recorder_device_retained(uint64_t handle, uint64_t address)
{
    ON_DEVICE(retain(handle, address));
}

void tide_recorder_device_released(uint64_t handle)
{
    ON_DEVICE(tide_pieces_release(handle, on_gone, table));
}
