/*
 * recorder_device.c - memory that is not known by a host address: a device's, with an address of its own or
 * by a handle (recorder.h).
 */
#include "hook/device.h"
#include "hook/ledger.h"
#include "hook/recorder_private.h"

void tide_recorder_cuda(enum tide_heap_cuda what)
{
    int saved;
    tide_ledger_setup.cuda = what;
    struct tide_heap_head *table = tide_recorder_enter(&saved);
    if (!table)
        return;
    atomic_store(&table->cuda, what);
    tide_recorder_leave(saved);
}

void tide_recorder_block(enum tide_heap_kind kind, const void *key, size_t bytes,
                         struct tide_unwind_frame caller)
{
    int saved;
    struct tide_heap_head *table = tide_recorder_enter(&saved);
    if (!table)
        return;
    int32_t site = tide_recorder_site(table, kind, caller);
    if (site >= 0)
        tide_recorder_place(
            table, key, (struct tide_pointers_block){.bytes = bytes, .blocks = 1, .site = (uint32_t)site});
    tide_recorder_leave(saved);
}

void tide_recorder_created(enum tide_heap_kind kind, uint64_t handle, size_t bytes,
                           struct tide_unwind_frame caller)
{
    int saved;
    struct tide_heap_head *table = tide_recorder_enter(&saved);
    if (!table)
        return;
    int32_t site = tide_recorder_site(table, kind, caller);
    if (site >= 0 && tide_device_create(handle, bytes, (uint32_t)site) == TIDE_DEVICE_DONE)
        tide_ledger_allocated(table, (uint32_t)site, (int64_t)bytes, 1);
    else if (site >= 0)
        tide_ledger_count(&table->dropped_pointers);
    tide_recorder_leave(saved);
}

static void on_gone(void *context, uint32_t site, uint64_t bytes)
{
    tide_ledger_freed(context, site, (int64_t)bytes, 1);
}

/* A mapping or a reference that could not be noted ends a piece's life too early in the table, one whose end
 * could not be noted never. */
static void note_result(struct tide_heap_head *table, enum tide_device_result result)
{
    if (result == TIDE_DEVICE_BUSY || result == TIDE_DEVICE_FULL)
        tide_ledger_count(&table->lost_frees);
}

#define ON_DEVICE(call)                                                                                      \
    do {                                                                                                     \
        int saved;                                                                                           \
        struct tide_heap_head *table = tide_device_any() ? tide_recorder_enter(&saved) : NULL;               \
        if (table) {                                                                                         \
            note_result(table, call);                                                                        \
            tide_recorder_leave(saved);                                                                      \
        }                                                                                                    \
    } while (0)

void tide_recorder_placed(uint64_t address, size_t bytes, uint64_t handle)
{
    ON_DEVICE(tide_device_map(address, bytes, handle));
}

void tide_recorder_displaced(uint64_t address, size_t bytes)
{
    ON_DEVICE(tide_device_unmap(address, bytes, on_gone, table));
}

void tide_recorder_retained(uint64_t handle, uint64_t address)
{
    ON_DEVICE(tide_device_retain(handle, address));
}

void tide_recorder_released(uint64_t handle)
{
    ON_DEVICE(tide_device_release(handle, on_gone, table));
}
