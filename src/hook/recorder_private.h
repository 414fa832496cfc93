/*
 * recorder_private.h - what the parts of the recorder share: recorder.c, recorder_mappings.c,
 * recorder_device.c, pool.c.
 */
#ifndef TIDE_RECORDER_PRIVATE_H
#define TIDE_RECORDER_PRIVATE_H

#include "hook/recorder.h"

/* The table, with the guard up and errno kept; NULL, and nothing to leave, if nothing is to be recorded. */
struct tide_heap_head *tide_recorder_enter(void);
void tide_recorder_leave(void);

/* Does something with the `table`, in between. */
#define TIDE_IN_TABLE(something)                                                                             \
    do {                                                                                                     \
        struct tide_heap_head *table = tide_recorder_enter();                                                \
        if (table) {                                                                                         \
            something;                                                                                       \
            tide_recorder_leave();                                                                           \
        }                                                                                                    \
    } while (0)

/* In between: the site of the caller's stack, TIDE_LEDGER_NONE if there is no room. */
int32_t tide_recorder_site(struct tide_heap_head *table, enum tide_site_kind kind,
                           struct tide_unwind_frame caller);

/* Puts a block into the map and counts it. false, and counted as dropped: there was no room. */
bool tide_recorder_place(struct tide_heap_head *table, const void *key, struct tide_pointers_block block);

#endif
