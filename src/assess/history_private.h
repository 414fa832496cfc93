/*
 * history_private.h - the inside of a history, for history.c and history_sites.c.
 */
#ifndef TIDE_HISTORY_PRIVATE_H
#define TIDE_HISTORY_PRIVATE_H

#include "assess/history.h"
#include "base/arena.h"
#include "base/map.h"

/* What the heap hook saw (history_sites.c). */
struct tide_history_heap {
    struct tide_arena texts;           /* of frames and processes, and names of phases and gauges */
    struct tide_map text_by_key;       /* hash -> a text in the arena: files, modules and commands repeat */
    struct tide_history_stack *stacks; /* stacks[id - 1] */
    size_t stack_count, stack_capacity;
    int32_t *stack_frames; /* of all stacks, one after another */
    size_t stack_frame_count, stack_frame_capacity;
    size_t frame_capacity, site_capacity;
    int64_t frame_read, stack_read, site_read; /* ids of the last rows that were read */
};

struct tide_history_stack {
    size_t first, count; /* in stack_frames */
};

struct tide_history_window_tick {
    int64_t id, t_ns;
};

enum { TIDE_HISTORY_WINDOW = 1 << 12 }; /* ticks */

struct tide_history_private {
    struct tide_history public;
    size_t max_bytes, bytes;
    size_t process_capacity, tick_capacity, mark_capacity, name_capacity, gpu_capacity, device_capacity,
        limit_capacity, note_capacity, status_capacity;
    int64_t tick_read;    /* id of the newest tick in ticks */
    int64_t window_read;  /* id of the last tick of the last window that was read whole */
    int64_t mark_read;    /* row number */
    int64_t cell_base_ns; /* mean time between ticks when thinning began; 0: it has not */
    int64_t skipped;      /* rows that refer to nothing, or that come out of order */
    size_t sorted_marks;
    uint32_t marks_seen;
    struct tide_map names;   /* hash of the text -> index */
    struct tide_map births;  /* PID and start -> id of the last program of that process */
    struct tide_arena lists; /* strings of devices, limits, notes; filled anew by each load */
    struct tide_history_window_tick window[TIDE_HISTORY_WINDOW];
    size_t window_count, window_at;
    struct tide_history_heap heap;
};

/* Handles a row of the window's ticks that was written at t_ns. As tide_on_row. */
struct tide_history_load;
typedef int tide_history_on_sample(struct tide_history_load *load, const void *row, int64_t t_ns);

/* One load in progress. */
struct tide_history_load {
    struct tide_history *history;
    struct tide_err *err;
    int64_t last; /* tick at which the window ends */
    tide_history_on_sample *on_sample;
    size_t batch;   /* marks read in this batch */
    int64_t stack;  /* id of the last stack that was read */
    int64_t strays; /* rows left out of tables that every load reads whole */
};

/* Returns -1 with a sentence. */
int tide_history_no_memory(struct tide_err *err);

/* Makes sure that `more` bytes fit under max_bytes; thins if necessary. */
int tide_history_make_room(struct tide_history *history, size_t more, struct tide_err *err);

/* Makes sure that *array has room for one more element. `array` is the address of a pointer, of whatever
 * type. */
int tide_history_grow(struct tide_history *history, void *array, size_t *count, size_t *capacity, size_t size,
                      struct tide_err *err);

/* Adds an element. 0, or -1 without memory. */
#define TIDE_HISTORY_ADD(load, array, count, capacity, ...)                                                  \
    (tide_history_grow((load)->history, &(array), &(count), &(capacity), sizeof *(array), (load)->err)       \
         ? -1                                                                                                \
         : ((array)[(count)++] = (__VA_ARGS__), 0))

/* Returns the process of a sample. NULL: there is no such process; the row is counted as skipped. */
struct tide_history_process *tide_history_sampled(struct tide_history *history, int64_t id);

/* Updates every point's part of shared memory, as far as that has changed (shared_parts.c). */
void tide_shared_parts_settle(struct tide_history *history);

/* history_sites.c */
/* Returns a copy that lives as long as the history, the same for equal texts; or NULL. */
const char *tide_history_text(struct tide_history *history, const char *text, struct tide_err *err);
/* Reads new frames, stacks and sites; call it before the windows. */
int tide_history_heap_load(struct tide_history_load *load, struct tide_reader *reader);
tide_history_on_sample tide_history_on_site_sample, tide_history_on_heap_sample;

#endif
