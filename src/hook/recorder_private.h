/*
 * recorder_private.h - what the parts of the recorder share: recorder.c, recorder_mappings.c,
 * recorder_device.c, pool.c.
 */
#ifndef TIDE_RECORDER_PRIVATE_H
#define TIDE_RECORDER_PRIVATE_H

#include "hook/recorder.h"

/* Returns the table, with the guard up and errno saved. NULL if nothing is recorded: then do not leave. */
struct tide_heap_head *tide_recorder_enter(void);
void tide_recorder_leave(void);

/* Runs `something`, which may use `table`, between enter and leave. */
#define TIDE_IN_TABLE(something)                                                                             \
    do {                                                                                                     \
        struct tide_heap_head *table = tide_recorder_enter();                                                \
        if (table) {                                                                                         \
            something;                                                                                       \
            tide_recorder_leave();                                                                           \
        }                                                                                                    \
    } while (0)

/* Between enter and leave: the site of the caller's stack, or TIDE_LEDGER_NONE if there is no room. */
int32_t tide_recorder_site(struct tide_heap_head *table, enum tide_site_kind kind,
                           struct tide_unwind_frame caller);

/* Puts a block into the map and counts it. False if there was no room; then it is counted as dropped. */
bool tide_recorder_place(struct tide_heap_head *table, const void *key, struct tide_pointers_block block);

#endif
