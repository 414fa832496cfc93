/*
 * history.h - a recording in memory, in the form that verdicts and views want.
 *
 * tide_history_new() -> tide_history_load() once, or again and again while the recording grows (it reads only
 * what is new) -> look at the arrays -> tide_history_free(). Everything reachable from a history is borrowed
 * from it and valid until the next load.
 *
 * The recording leaves out rows that did not change, and the history adds none: a value of a process holds
 * from its point until the next point or the process's end. The same is true for the points of a call site.
 *
 * A history uses at most max_bytes. A larger recording is thinned (every second tick, every fourth ...;
 * `thinned` says so); for each process, the lowest and the highest of merged points are kept.
 */
#ifndef TIDE_HISTORY_H
#define TIDE_HISTORY_H

#include "base/err.h"
#include "record/reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_history_point {
    int64_t t_ns;
    int64_t rss_bytes;     /* anon + file + shmem */
    int64_t private_bytes; /* anon + its part of shmem + swap + hugetlb: what cannot be reclaimed; judged */
    int64_t shared_bytes;  /* part of private_bytes: its part of shmem (shared_parts.c) */
    int64_t shmem_bytes;   /* RssShmem: a page counts as often as it is mapped */
    int64_t swap_bytes;
    int64_t asked_bytes;  /* private memory that may be written, touched or not; TIDE_UNKNOWN */
    int64_t mapped_bytes; /* size of all mappings; TIDE_UNKNOWN */
    int32_t threads;
};

struct tide_history_smaps {
    int64_t t_ns;
    int64_t pss_bytes;
    int64_t uss_bytes;
    int64_t pss_shmem_bytes;  /* of pss_bytes; TIDE_UNKNOWN */
    int64_t unreserved_bytes; /* in large mappings without a reservation (MAP_NORESERVE); TIDE_UNKNOWN */
};

/* What is known of the shared memory that a process maps; for shared_parts.c. */
struct tide_history_shares {
    int64_t most_bytes;       /* RssShmem, at its highest */
    double part, rest_bytes;  /* this part of it, and so much, belongs to the process */
    bool alone;               /* nobody else maps so much: the process itself maps pages several times */
    size_t settled, readings; /* number of points that have their part, and of PSS readings used for it */
};

/* What a process holds in all, and what its allocator keeps free (TIDE_UNKNOWN: it cannot be asked). */
struct tide_history_heap_point {
    int64_t t_ns;
    int64_t live_bytes;
    int64_t free_bytes;
    int64_t free_blocks;
    int64_t top_bytes; /* of free_bytes */
};

struct tide_history_process {
    struct tide_process row; /* strings owned by the history, unescaped */
    int64_t next_program;    /* id of what it became by exec; 0: nothing */
    int64_t number;          /* among its siblings of the same role, from 0; -1: none */
    struct tide_history_point *points;
    size_t point_count, point_capacity;
    int64_t unread_ns; /* since when its counters cannot be read, because it is dying; 0: they can */
    struct tide_history_smaps *smaps;
    size_t smaps_count, smaps_capacity;
    struct tide_history_shares shares;
    struct tide_history_heap_point *heap; /* none without the hook */
    size_t heap_count, heap_capacity;
};

struct tide_history_mark {
    int64_t t_ns;
    int64_t process;
    int64_t number;
    enum tide_mark_kind kind;
    enum tide_mark_source source;
    int32_t name;   /* index into names, -1: none */
    uint32_t order; /* of reading: marks at the same time happened in this order */
};

struct tide_history_gpu {
    int64_t t_ns;
    int64_t device;
    int64_t process; /* as in tide_gpu_sample */
    int64_t bytes;
};

/* What a site holds from this time until its next point. */
struct tide_history_site_point {
    int64_t t_ns;
    int64_t live_bytes;
    int64_t live_blocks;
    int64_t total_bytes; /* allocated so far; TIDE_UNKNOWN */
    int64_t total_blocks;
};

/* A call stack of one process that allocates. */
struct tide_history_site {
    int64_t id;      /* 0: there is no such site in the recording */
    int64_t process; /* id of a process that exists */
    enum tide_site_kind kind;
    int64_t stack; /* id, for tide_history_stack(); 0: the sum of small ones */
    struct tide_history_site_point *points;
    size_t point_count, point_capacity;
};

struct tide_history {
    struct tide_history_process *processes; /* processes[id - 1] */
    size_t process_count;
    struct tide_tick *ticks;
    size_t tick_count;
    struct tide_history_mark *marks; /* in order of time */
    size_t mark_count;
    const char **names; /* of phases and gauges, unescaped */
    size_t name_count;
    struct tide_history_gpu *gpu;
    size_t gpu_count;
    struct tide_gpu_device *devices;
    size_t device_count;
    struct tide_limit *limits;
    size_t limit_count;
    struct tide_note *notes;
    size_t note_count;
    struct tide_frame *frames; /* frames[id - 1]; strings owned by the history, unescaped */
    size_t frame_count;
    struct tide_history_site *sites; /* sites[id - 1] */
    size_t site_count;
    struct tide_heap_status *heap_status; /* in order of time */
    size_t heap_status_count;
    const char *command;    /* "" when unknown */
    int64_t started_wall_s; /* TIDE_UNKNOWN when unknown */
    int64_t interval_ns;
    int64_t ended_ns;    /* TIDE_UNKNOWN: running, or killed */
    bool unwritten;      /* before it was read, nobody wrote to it any more; set by whoever opens it */
    int64_t exit_status; /* TIDE_UNKNOWN likewise */
    int64_t exit_signal; /* 0: the command ended by itself; TIDE_UNKNOWN likewise */
    int64_t kernel_peak_bytes;
    int64_t items, items_per_step; /* as given to the recorder, or TIDE_UNKNOWN */
    int64_t limit_bytes;           /* --limit, or TIDE_UNKNOWN */
    int64_t skipped_rows;
    unsigned thinned; /* 1: every tick is here; 2: about every second; ... see tide_history_cell_ticks() */
    int64_t cell_ns;  /* length of a cell; 0: not thinned */
    struct tide_history_private *private;
};

/* In a thinned history, a cell keeps up to 3 of this many elements: the lowest, the highest and the last. So
 * about 1 / `thinned` of all is left. */
static inline unsigned tide_history_cell_ticks(const struct tide_history *history)
{
    return 4 * history->thinned;
}

/* Caller frees with tide_history_free. max_bytes 0: 1 GiB. */
int tide_history_new(size_t max_bytes, struct tide_history **ret_history, struct tide_err *err);
void tide_history_free(struct tide_history *history);

/* The history of a whole recording. Caller frees with tide_history_free. */
int tide_history_open(const char *path, struct tide_history **ret_history, struct tide_err *err);

/* Reads what is new. After a failure the history has what was read so far, and is consistent. */
int tide_history_load(struct tide_history *history, struct tide_reader *reader, struct tide_err *err);

/* The same, for about budget_ns. Returns 1 if there is more to read; 0 if that was all; -1 on error. */
int tide_history_load_part(struct tide_history *history, struct tide_reader *reader, int64_t budget_ns,
                           struct tide_err *err);

/* Gives the frames of a stack, innermost first, as indices into history->frames. Returns how many; 0 if there
 * is no such stack. Borrowed: valid until the next load. */
size_t tide_history_stack(const struct tide_history *history, int64_t stack, const int32_t **ret_frames);

/* Returns the process with that id; NULL: there is none. Borrowed. */
static inline const struct tide_history_process *tide_history_process(const struct tide_history *history,
                                                                      int64_t id)
{
    return id >= 1 && (size_t)id <= history->process_count ? &history->processes[id - 1] : NULL;
}

/* True if the process lived at a time, as far as is known. */
static inline bool tide_history_lives(const struct tide_history_process *process, int64_t t_ns)
{
    return process->row.began_ns <= t_ns &&
           (process->row.ended_ns == TIDE_UNKNOWN || process->row.ended_ns >= t_ns);
}

/* True if the recording has no end and nobody writes to it any more: its tracker was killed, the machine
 * stopped, or this is a copy that was made before the end. */
static inline bool tide_history_broke_off(const struct tide_history *history)
{
    return history->unwritten && history->ended_ns == TIDE_UNKNOWN;
}

/* Returns the last known state of the heap hook in a process; NULL: nobody looked. Borrowed. */
const struct tide_heap_status *tide_history_heap_status(const struct tide_history *history, int64_t process);

/* True if the hook records in that state, perhaps without Python frames or devices. */
bool tide_heap_is_seen(const struct tide_heap_status *status);

/* Writes the name of a phase or gauge to out, escaped; "" for -1. Returns out. */
char *tide_history_name(const struct tide_history *history, int32_t name, char *out, size_t size);

/* Returns how many elements of an array, sorted by time, are at or before a time. times: the time of the
 * first element; stride: bytes from one element to the next. */
size_t tide_until(const void *times, size_t stride, size_t count, int64_t t_ns);
#define TIDE_UNTIL(array, count, time)                                                                       \
    ((count) ? tide_until(&(array)->t_ns, sizeof *(array), count, time) : (size_t)0)

/* True if both rows are of one process, which has one for each program that it became by exec. */
bool tide_history_is_same(const struct tide_history_process *a, const struct tide_history_process *b);

/* Returns the last program that a process became by exec. Borrowed. */
const struct tide_history_process *tide_history_last_program(const struct tide_history *history,
                                                             const struct tide_history_process *process);

/* Returns the point that holds at a time; NULL before the first point. Borrowed. */
const struct tide_history_point *tide_history_point_at(const struct tide_history_process *process,
                                                       int64_t t_ns);

/* Returns the index of the first tick at or after a time; tick_count when there is none. */
size_t tide_history_tick_from(const struct tide_history *history, int64_t t_ns);

#endif
