/*
 * history.c - see history.h.
 *
 * A load reads processes, then a window of ticks at a time. The window's ticks give the times of its samples,
 * so the time table stays small however long the recording is. Everything is read in one transaction. After a
 * failure the cursors are at the last window that was read whole; rows that come a second time are recognised
 * by their time and left out.
 *
 * Memory is counted in `bytes`. If an array would grow past max_bytes, everything is thinned first
 * (make_room), with cells of time that double in length until at least half of the room is free.
 */
#include "assess/history.h"
#include "assess/downsample.h"
#include "assess/history_private.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/text.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

enum {
    MARK_BATCH = 1 << 18, /* marks read before they are sorted in */
    MAX_NAMES = 1 << 16,  /* distinct names of phases and gauges; further ones become OTHER_NAMES */
    MAX_TEXTS = 1 << 20,  /* distinct texts; further ones are stored each time */
    MAX_LIST = 1 << 16,   /* limits, notes, devices, states of the hook */
    COARSEST = 1 << 24,   /* no thinning beyond this */
};

static const char OTHER_NAMES[] = "(more names)";

static int earlier_first(const void *a, const void *b)
{
    const struct tide_history_mark *left = a, *right = b;
    if (left->t_ns != right->t_ns)
        return left->t_ns < right->t_ns ? -1 : 1;
    return (left->order > right->order) - (left->order < right->order);
}

/* Marks of several processes interleave: sorts in those after sorted_marks. */
static void settle_marks(struct tide_history *history)
{
    struct tide_history_private *p = history->private;
    struct tide_history_mark *marks = history->marks;
    size_t begin = p->sorted_marks, first = begin;
    bool sorted = true;

    for (size_t i = begin; i < history->mark_count; i++) {
        sorted = sorted && (i == 0 || marks[i - 1].t_ns <= marks[i].t_ns);
        if (marks[i].t_ns < marks[first].t_ns)
            first = i;
    }
    while (!sorted && begin > 0 && marks[begin - 1].t_ns > marks[first].t_ns)
        begin--;
    if (!sorted)
        qsort(marks + begin, history->mark_count - begin, sizeof *marks, earlier_first);
    p->sorted_marks = history->mark_count;
}

/* --- memory -------------------------------------------------------------------------------------------- */

int tide_history_no_memory(struct tide_err *err)
{
    return tide_err_set(err, "not enough memory to load the recording");
}

static uint64_t key_of_gpu(const void *element)
{
    const struct tide_history_gpu *gpu = element;
    return (uint64_t)gpu->device << 48 ^ (uint64_t)gpu->process;
}

/* Of each phase, a cell keeps the first begin and end and the last. */
static uint64_t key_of_mark(const void *element)
{
    const struct tide_history_mark *mark = element;
    return (uint64_t)mark->process << 20 ^ (uint64_t)(mark->name + 1) << 3 ^ (uint64_t)mark->kind;
}

static const struct tide_layout points = TIDE_LAYOUT(struct tide_history_point, private_bytes, NULL),
                                smaps = TIDE_LAYOUT(struct tide_history_smaps, pss_bytes, NULL),
                                ticks = TIDE_LAYOUT(struct tide_tick, counted_bytes, NULL),
                                heap_points = TIDE_LAYOUT(struct tide_history_heap_point, live_bytes, NULL),
                                site_points = TIDE_LAYOUT(struct tide_history_site_point, live_bytes, NULL),
                                gpus = TIDE_LAYOUT(struct tide_history_gpu, bytes, key_of_gpu),
                                all_marks = TIDE_LAYOUT(struct tide_history_mark, number, key_of_mark);

/* Thins one array and shrinks its storage. */
static void thin(struct tide_history *history, void *array, size_t *count, size_t *capacity, int64_t cell_ns,
                 const struct tide_layout *layout)
{
    void *elements;

    if (*count == 0)
        return;
    memcpy(&elements, array, sizeof elements);
    *count = tide_thin(elements, *count, cell_ns, layout);
    if (*count == *capacity || !(elements = realloc(elements, *count * layout->size)))
        return;
    memcpy(array, &elements, sizeof elements);
    history->private->bytes -= (*capacity - *count) * layout->size;
    *capacity = *count;
}

static void thin_all(struct tide_history *history)
{
    struct tide_history_private *p = history->private;
    int64_t cell_ns = history->cell_ns;

    for (size_t i = 0; i < history->process_count; i++) {
        struct tide_history_process *process = &history->processes[i];
        process->shares.settled = process->shares.readings = 0;
        thin(history, &process->points, &process->point_count, &process->point_capacity, cell_ns, &points);
        thin(history, &process->smaps, &process->smaps_count, &process->smaps_capacity, cell_ns, &smaps);
        thin(history, &process->heap, &process->heap_count, &process->heap_capacity, cell_ns, &heap_points);
    }
    for (size_t i = 0; i < history->site_count; i++) {
        struct tide_history_site *site = &history->sites[i];
        thin(history, &site->points, &site->point_count, &site->point_capacity, cell_ns, &site_points);
    }
    thin(history, &history->ticks, &history->tick_count, &p->tick_capacity, cell_ns, &ticks);
    thin(history, &history->gpu, &history->gpu_count, &p->gpu_capacity, cell_ns, &gpus);
    settle_marks(history);
    thin(history, &history->marks, &history->mark_count, &p->mark_capacity, cell_ns, &all_marks);
    p->sorted_marks = history->mark_count;
}

/* Mean time between ticks. */
static int64_t tick_spacing(const struct tide_history *history)
{
    if (history->tick_count < 2)
        return 1;
    int64_t span = history->ticks[history->tick_count - 1].t_ns - history->ticks[0].t_ns;
    int64_t mean = span / (int64_t)(history->tick_count - 1);
    return mean > 0 ? mean : 1;
}

int tide_history_make_room(struct tide_history *history, size_t more, struct tide_err *err)
{
    struct tide_history_private *p = history->private;

    if (more <= p->max_bytes && p->bytes <= p->max_bytes - more)
        return 0;
    if (p->cell_base_ns == 0) {
        p->cell_base_ns = tick_spacing(history);
        history->thinned = 2;
    }
    for (;; history->thinned *= 2) {
        int64_t cell = tide_history_cell_ticks(history);
        history->cell_ns = p->cell_base_ns > TIDE_LARGEST / cell ? TIDE_LARGEST : p->cell_base_ns * cell;
        thin_all(history);
        if (p->bytes <= p->max_bytes / 2 || history->thinned >= COARSEST)
            break;
    }
    if (more <= p->max_bytes && p->bytes <= p->max_bytes - more)
        return 0;
    return tide_err_set(err, "the recording does not fit into the %zu MiB that may be used for it",
                        p->max_bytes >> 20);
}

int tide_history_grow(struct tide_history *history, void *array, size_t *count, size_t *capacity, size_t size,
                      struct tide_err *err)
{
    if (*count < *capacity)
        return 0;
    size_t more = *capacity / 2 + 8;
    if (tide_history_make_room(history, more * size, err) != 0)
        return -1;
    /* Thinning may have made it shorter; it is then full again. */
    more = *capacity / 2 + 8;
    void *elements;
    memcpy(&elements, array, sizeof elements);
    elements = realloc(elements, (*capacity + more) * size);
    if (!elements)
        return tide_history_no_memory(err);
    memcpy(array, &elements, sizeof elements);
    *capacity += more;
    history->private->bytes += more * size;
    return 0;
}

/* --- lifecycle ----------------------------------------------------------------------------------------- */

int tide_history_new(size_t max_bytes, struct tide_history **ret_history, struct tide_err *err)
{
    struct tide_history_private *p = calloc(1, sizeof *p);

    if (!p)
        return tide_history_no_memory(err);
    struct tide_history *history = &p->public;
    p->max_bytes = max_bytes ? max_bytes : (size_t)1 << 30;
    tide_map_init(&p->names, MAX_NAMES);
    tide_map_init(&p->births, SIZE_MAX);
    tide_arena_init(&p->lists, p->max_bytes / 8);
    history->private = p;
    tide_arena_init(&p->heap.texts, p->max_bytes);
    tide_map_init(&p->heap.text_by_key, MAX_TEXTS);
    history->command = "";
    history->thinned = 1;
    history->started_wall_s = history->interval_ns = history->ended_ns = history->exit_status =
        history->exit_signal = history->kernel_peak_bytes = history->items = history->items_per_step =
            history->limit_bytes = TIDE_UNKNOWN;
    *ret_history = history;
    return 0;
}

void tide_history_free(struct tide_history *history)
{
    if (!history)
        return;
    for (size_t i = 0; i < history->process_count; i++) {
        struct tide_history_process *process = &history->processes[i];
        free(process->points);
        free(process->smaps);
        free(process->heap);
    }
    free(history->processes);
    free(history->ticks);
    free(history->marks);
    free(history->names);
    free(history->gpu);
    free(history->devices);
    free(history->limits);
    free(history->notes);
    free(history->heap_status);
    free(history->frames);
    for (size_t i = 0; i < history->site_count; i++)
        free(history->sites[i].points);
    free(history->sites);
    struct tide_history_private *p = history->private;
    free(p->heap.stacks);
    free(p->heap.stack_frames);
    tide_arena_release(&p->heap.texts);
    tide_map_release(&p->heap.text_by_key);
    tide_map_release(&p->names);
    tide_map_release(&p->births);
    tide_arena_release(&p->lists);
    free(p); /* `history` is part of it */
}

/* --- processes ----------------------------------------------------------------------------------------- */

bool tide_history_is_same(const struct tide_history_process *a, const struct tide_history_process *b)
{
    return a->row.pid == b->row.pid && a->row.start_ticks == b->row.start_ticks;
}

const struct tide_history_process *tide_history_last_program(const struct tide_history *history,
                                                             const struct tide_history_process *process)
{
    while (process->next_program)
        process = &history->processes[process->next_program - 1];
    return process;
}

/* Links a program to the one that its process was before. */
static void link_programs(struct tide_history *history, const struct tide_process *row)
{
    int64_t birth[] = {row->pid, row->start_ticks};
    uint64_t key = tide_map_key(TIDE_MAP_SEED, birth, sizeof birth), before;
    bool known = tide_map_get(&history->private->births, key, &before);
    if (row->start_ticks == TIDE_UNKNOWN || (known && before >= (uint64_t)row->id))
        return;
    if (tide_map_put(&history->private->births, key, (uint64_t)row->id) == 0 && known)
        history->processes[before - 1].next_program = row->id;
}

static int on_process(void *context, const void *given)
{
    const struct tide_process *row = given;
    struct tide_history_load *load = context;
    struct tide_history *history = load->history;

    /* Ids count from 1; an id that is far off would only cost memory. */
    if ((uint64_t)row->id > history->private->max_bytes / 4 / sizeof *history->processes) {
        load->strays++;
        return 0;
    }
    static const struct tide_history_process unknown = {.row = {.name = "",
                                                                .command = "",
                                                                .role = "",
                                                                .pid = TIDE_UNKNOWN,
                                                                .start_ticks = TIDE_UNKNOWN,
                                                                .began_ns = TIDE_UNKNOWN,
                                                                .ended_ns = TIDE_UNKNOWN,
                                                                .peak_rss_bytes = TIDE_UNKNOWN,
                                                                .rank = TIDE_UNKNOWN}};
    while (history->process_count < (size_t)row->id) {
        if (TIDE_HISTORY_ADD(load, history->processes, history->process_count,
                             history->private->process_capacity, unknown))
            return -1;
        history->processes[history->process_count - 1].row.id = (int64_t)history->process_count;
    }
    struct tide_process process = *row;
    process.name = tide_history_text(history, row->name, load->err);
    process.command = tide_history_text(history, row->command, load->err);
    process.role = tide_history_text(history, row->role, load->err);
    if (!process.name || !process.command || !process.role)
        return -1;
    if ((uint64_t)row->parent >= (uint64_t)row->id) /* it comes before its children, so there is no circle */
        process.parent = 0;
    history->processes[row->id - 1].row = process;
    link_programs(history, row);
    return 0;
}

static int64_t end_of(const struct tide_history_process *p)
{
    return p->row.ended_ns == TIDE_UNKNOWN ? INT64_MAX : p->row.ended_ns;
}

/* Sorts siblings of one role together, by when they came, or if by_end by when they ended. */
static int by_family(const void *left, const void *right, void *by_end)
{
    const struct tide_history_process *a = *(struct tide_history_process *const *)left;
    const struct tide_history_process *b = *(struct tide_history_process *const *)right;
    if (a->row.parent != b->row.parent)
        return a->row.parent < b->row.parent ? -1 : 1;
    int order = strcmp(a->row.role, b->row.role);
    if (!order && by_end && end_of(a) != end_of(b))
        return end_of(a) < end_of(b) ? -1 : 1;
    return order ? order : a < b ? -1 : a > b;
}

/* Sets `number` of every process: of its siblings with the same role that began before it, how many were
 * still there when it began: "worker 3" is the fourth that its parent had at once. A process that replaces
 * one that ended gets its number. -1: it is the only one there ever was, or has no parent. Siblings are
 * sorted twice, by when they came and by when they ended. Of those that came before a process, those that had
 * not ended by then were still there. */
static int number_siblings(struct tide_history *history, struct tide_err *err)
{
    size_t count = history->process_count;
    struct tide_history_process **came = malloc((2 * count + 1) * sizeof *came);
    if (!came)
        return tide_err_set(err, "not enough memory for the names of %zu processes", count);
    struct tide_history_process **ended = came + count;
    for (size_t i = 0; i < count; i++)
        came[i] = ended[i] = &history->processes[i];
    qsort_r(came, count, sizeof(void *), by_family, NULL);
    qsort_r(ended, count, sizeof(void *), by_family, history);
    for (size_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && came[next]->row.parent == came[first]->row.parent; next++)
            if (strcmp(came[next]->row.role, came[first]->row.role) != 0)
                break;
        bool alone = next - first == 1 || came[first]->row.parent <= 0;
        for (size_t i = first, gone = first; i < next; i++) {
            /* One that came and ended at the same look may be later than this one. */
            while (ended[gone] < came[i] && end_of(ended[gone]) <= came[i]->row.began_ns)
                gone++;
            came[i]->number = alone ? -1 : (int64_t)(i - gone);
        }
    }
    free(came);
    return 0;
}

/* --- ticks and what belongs to them -------------------------------------------------------------------- */

static int on_tick(void *context, const void *given)
{
    const struct tide_tick *row = given;
    struct tide_history_load *load = context;
    struct tide_history *history = load->history;
    struct tide_history_private *p = history->private;
    bool known = row->id <= p->tick_read;

    if (p->window_count == TIDE_HISTORY_WINDOW)
        return 1;
    if (!known && history->tick_count > 0 && row->t_ns < history->ticks[history->tick_count - 1].t_ns) {
        p->skipped++; /* time goes forward only */
        return 0;
    }
    if (!known && TIDE_HISTORY_ADD(load, history->ticks, history->tick_count, p->tick_capacity, *row))
        return -1;
    p->tick_read = known ? p->tick_read : row->id;
    p->window[p->window_count++] = (struct tide_history_window_tick){row->id, row->t_ns};
    return 0;
}

/* Gives a row of the window's ticks to load->on_sample, with its time. All such rows begin with their tick,
 * and come in its order. */
static int on_sampled(void *context, const void *row)
{
    struct tide_history_load *load = context;
    struct tide_history_private *p = load->history->private;
    int64_t tick = *(const int64_t *)row;

    if (tick > load->last)
        return 1;
    while (p->window_at < p->window_count && p->window[p->window_at].id < tick)
        p->window_at++;
    if (p->window_at < p->window_count && p->window[p->window_at].id == tick)
        return load->on_sample(load, row, p->window[p->window_at].t_ns);
    p->skipped++;
    return 0;
}

struct tide_history_process *tide_history_sampled(struct tide_history *history, int64_t id)
{
    if (id >= 1 && (uint64_t)id <= history->process_count)
        return &history->processes[id - 1];
    history->private->skipped++;
    return NULL;
}

/* Adds without overflow; what is unknown counts as 0. */
static int64_t add(int64_t a, int64_t b)
{
    return tide_bounded_sum(a > 0 ? a : 0, b > 0 ? b : 0);
}

static int on_sample(struct tide_history_load *load, const void *given, int64_t t_ns)
{
    const struct tide_sample *row = given;
    struct tide_history_process *process = tide_history_sampled(load->history, row->process);

    if (!process || (process->point_count > 0 && t_ns <= process->points[process->point_count - 1].t_ns))
        return 0;
    if (row->anon_bytes == TIDE_UNKNOWN && row->file_bytes == TIDE_UNKNOWN &&
        row->shmem_bytes == TIDE_UNKNOWN) {
        process->unread_ns = process->unread_ns ? process->unread_ns : t_ns;
        return 0;
    }
    process->unread_ns = 0;
    struct tide_history_point point = {
        .t_ns = t_ns,
        .rss_bytes = add(add(row->anon_bytes, row->file_bytes), row->shmem_bytes),
        .private_bytes = add(add(row->anon_bytes, row->shmem_bytes), add(row->swap_bytes, row->huge_bytes)),
        .shared_bytes = add(row->shmem_bytes, 0),
        .shmem_bytes = add(row->shmem_bytes, 0),
        .swap_bytes = add(row->swap_bytes, 0),
        .asked_bytes = row->asked_bytes,
        .mapped_bytes = row->mapped_bytes,
        .threads = row->threads > INT32_MAX ? INT32_MAX : (int32_t)row->threads,
    };
    if (point.shmem_bytes > process->shares.most_bytes)
        process->shares.most_bytes = point.shmem_bytes;
    return TIDE_HISTORY_ADD(load, process->points, process->point_count, process->point_capacity, point);
}

static int on_smaps(struct tide_history_load *load, const void *given, int64_t t_ns)
{
    const struct tide_smaps *row = given;
    struct tide_history_process *process = tide_history_sampled(load->history, row->process);

    if (!process || (process->smaps_count > 0 && t_ns <= process->smaps[process->smaps_count - 1].t_ns))
        return 0;
    struct tide_history_smaps reading = {t_ns, row->pss_bytes, row->uss_bytes, row->pss_shmem_bytes,
                                         row->unreserved_bytes};
    return TIDE_HISTORY_ADD(load, process->smaps, process->smaps_count, process->smaps_capacity, reading);
}

static int on_gpu(struct tide_history_load *load, const void *given, int64_t t_ns)
{
    const struct tide_gpu_sample *row = given;
    struct tide_history *history = load->history;

    if (row->process > 0 && !tide_history_sampled(history, row->process))
        return 0;
    return TIDE_HISTORY_ADD(load, history->gpu, history->gpu_count, history->private->gpu_capacity,
                            (struct tide_history_gpu){t_ns, row->device, row->process, row->bytes});
}

/* Drops GPU rows of a window that was not read whole: they will be read again. */
static void forget_gpu_after(struct tide_history *history, int64_t t_ns)
{
    while (history->gpu_count > 0 && history->gpu[history->gpu_count - 1].t_ns > t_ns)
        history->gpu_count--;
}

/* Reads the next window. Returns 1 if there may be more; 0 if that was the last; -1. */
static int load_window(struct tide_history_load *load, struct tide_reader *reader)
{
    static const struct {
        enum tide_schema table;
        tide_history_on_sample *on;
    } of_ticks[] = {{TIDE_SCHEMA_SAMPLE, on_sample},
                    {TIDE_SCHEMA_SMAPS, on_smaps},
                    {TIDE_SCHEMA_GPU, on_gpu},
                    {TIDE_SCHEMA_SITE_SAMPLE, tide_history_on_site_sample},
                    {TIDE_SCHEMA_HEAP_SAMPLE, tide_history_on_heap_sample}};
    struct tide_history *history = load->history;
    struct tide_history_private *p = history->private;
    int64_t gpu_t_ns = history->gpu_count > 0 ? history->gpu[history->gpu_count - 1].t_ns : TIDE_UNKNOWN;

    p->window_count = 0;
    if (tide_reader_each(reader, TIDE_SCHEMA_TICK, p->window_read, on_tick, load, load->err) < 0)
        return -1;
    if (p->window_count == 0)
        return 0;
    load->last = p->window[p->window_count - 1].id;
    for (size_t i = 0; i < sizeof of_ticks / sizeof *of_ticks; i++) {
        p->window_at = 0;
        load->on_sample = of_ticks[i].on;
        if (tide_reader_each(reader, of_ticks[i].table, p->window_read, on_sampled, load, load->err) < 0) {
            forget_gpu_after(history, gpu_t_ns);
            return -1;
        }
    }
    p->window_read = load->last;
    return p->window_count == TIDE_HISTORY_WINDOW;
}

/* --- marks --------------------------------------------------------------------------------------------- */

/* Returns the index of text in names, and adds it if it is new. -1: none (empty); -2: out of memory. */
static int32_t intern(struct tide_history *history, const char *text, struct tide_err *err)
{
    struct tide_history_private *p = history->private;
    uint64_t key, found;

    if (!*text)
        return -1;
    if (history->name_count >= MAX_NAMES - 1)
        text = OTHER_NAMES;
    for (key = tide_map_text_key(text); tide_map_get(&p->names, key, &found); key++)
        if (strcmp(history->names[found], text) == 0)
            return (int32_t)found;
    if (history->name_count >= MAX_NAMES)
        return -1;
    const char *copy = tide_history_text(history, text, err);
    if (!copy || tide_history_grow(history, &history->names, &history->name_count, &p->name_capacity,
                                   sizeof *history->names, err) != 0)
        return -2;
    if (tide_map_put(&p->names, key, history->name_count) != 0) {
        tide_history_no_memory(err);
        return -2;
    }
    history->names[history->name_count] = copy;
    return (int32_t)history->name_count++;
}

static int on_mark(void *context, const void *given)
{
    const struct tide_mark *row = given;
    struct tide_history_load *load = context;
    struct tide_history *history = load->history;
    struct tide_history_private *p = history->private;
    struct tide_history_mark mark = {
        .t_ns = row->t_ns,
        .process = (uint64_t)row->process <= history->process_count ? row->process : 0,
        .number = row->number,
        .kind = row->kind,
        .source = row->source,
        .name = intern(history, row->name, load->err),
        .order = p->marks_seen++,
    };
    if (mark.name == -2 ||
        TIDE_HISTORY_ADD(load, history->marks, history->mark_count, p->mark_capacity, mark))
        return -1;
    return ++load->batch == MARK_BATCH ? 1 : 0;
}

static int load_marks(struct tide_history_load *load, struct tide_reader *reader)
{
    struct tide_history_private *p = load->history->private;

    load->batch = 0;
    int result = tide_reader_each(reader, TIDE_SCHEMA_MARK, p->mark_read, on_mark, load, load->err);
    settle_marks(load->history);
    p->mark_read = tide_reader_last(reader);
    return result;
}

/* --- what every load reads whole ----------------------------------------------------------------------- */

/* Makes *text a copy that lives until the next load. False, and the row is left out, if there are too many
 * rows or there is no memory. */
static bool keep_text(struct tide_history_load *load, const char **text, size_t count)
{
    *text = tide_arena_text(&load->history->private->lists, *text, strlen(*text));
    bool kept = *text && count < MAX_LIST;
    load->strays += !kept;
    return kept;
}

static int on_device(void *context, const void *row)
{
    struct tide_history_load *load = context;
    struct tide_history *history = load->history;
    struct tide_gpu_device device = *(const struct tide_gpu_device *)row;
    if (!keep_text(load, &device.name, history->device_count) ||
        !keep_text(load, &device.uuid, history->device_count))
        return 0;
    return TIDE_HISTORY_ADD(load, history->devices, history->device_count, history->private->device_capacity,
                            device);
}

static int on_limit(void *context, const void *row)
{
    struct tide_history_load *load = context;
    struct tide_history *history = load->history;
    struct tide_limit limit = *(const struct tide_limit *)row;
    if (!keep_text(load, &limit.name, history->limit_count))
        return 0;
    return TIDE_HISTORY_ADD(load, history->limits, history->limit_count, history->private->limit_capacity,
                            limit);
}

static int on_note(void *context, const void *row)
{
    struct tide_history_load *load = context;
    struct tide_history *history = load->history;
    struct tide_note note = *(const struct tide_note *)row;
    if (!keep_text(load, &note.text, history->note_count))
        return 0;
    return TIDE_HISTORY_ADD(load, history->notes, history->note_count, history->private->note_capacity, note);
}

static int on_status(void *context, const void *row)
{
    struct tide_history_load *load = context;
    struct tide_history *history = load->history;
    struct tide_heap_status status = *(const struct tide_heap_status *)row;
    if (!keep_text(load, &status.state, history->heap_status_count))
        return 0;
    if ((uint64_t)status.process > history->process_count) {
        load->strays++;
        return 0;
    }
    return TIDE_HISTORY_ADD(load, history->heap_status, history->heap_status_count,
                            history->private->status_capacity, status);
}

static int load_meta(struct tide_history *history, struct tide_reader *reader, struct tide_err *err)
{
    const char *command = tide_reader_meta(reader, TIDE_META_COMMAND).text;

    if (command && !(command = tide_history_text(history, command, err)))
        return -1;
    history->command = command ? command : history->command;
    history->started_wall_s = tide_reader_meta(reader, TIDE_META_STARTED).number;
    history->interval_ns = tide_reader_meta(reader, TIDE_META_INTERVAL).number;
    history->ended_ns = tide_reader_meta(reader, TIDE_META_ENDED).number;
    history->exit_status = tide_reader_meta(reader, TIDE_META_EXIT).number;
    history->exit_signal = tide_reader_meta(reader, TIDE_META_SIGNAL).number;
    history->kernel_peak_bytes = tide_reader_meta(reader, TIDE_META_KERNEL_PEAK).number;
    history->items = tide_reader_meta(reader, TIDE_META_ITEMS).number;
    history->items_per_step = tide_reader_meta(reader, TIDE_META_PER_STEP).number;
    history->limit_bytes = tide_reader_meta(reader, TIDE_META_LIMIT).number;
    return 0;
}

static int load_lists(struct tide_history_load *load, struct tide_reader *reader)
{
    static const struct {
        enum tide_schema table;
        tide_on_row *on;
    } lists[] = {{TIDE_SCHEMA_GPU_DEVICE, on_device},
                 {TIDE_SCHEMA_LIMIT, on_limit},
                 {TIDE_SCHEMA_NOTE, on_note},
                 {TIDE_SCHEMA_HEAP_STATE, on_status}};
    struct tide_history *history = load->history;

    history->device_count = history->limit_count = history->note_count = history->heap_status_count = 0;
    tide_arena_release(&history->private->lists);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (tide_reader_each(reader, lists[i].table, TIDE_READER_ALL, lists[i].on, load, load->err) != 0)
            return -1;
    return load_meta(history, reader, load->err);
}

/* Loads piece by piece until there is no more, or until it is late, which returns 1. */
static int load_pieces(struct tide_history_load *load, struct tide_reader *reader, int64_t until_ns,
                       int (*piece)(struct tide_history_load *load, struct tide_reader *reader))
{
    int result;

    while ((result = piece(load, reader)) == 1)
        if (tide_clock_ns() >= until_ns)
            break;
    return result;
}

static int load_until(struct tide_history *history, struct tide_reader *reader, int64_t until_ns,
                      struct tide_err *err)
{
    struct tide_history_load load = {.history = history, .err = err};
    int result;

    if (tide_reader_begin(reader, err) != 0)
        return -1;
    result = tide_reader_each(reader, TIDE_SCHEMA_PROCESS, TIDE_READER_ALL, on_process, &load, err);
    if (result == 0 &&
        (number_siblings(history, err) || load_lists(&load, reader) || tide_history_heap_load(&load, reader)))
        result = -1;
    if (result == 0)
        result = load_pieces(&load, reader, until_ns, load_window);
    if (result == 0)
        result = load_pieces(&load, reader, until_ns, load_marks);
    tide_reader_end(reader);
    tide_shared_parts_settle(history);
    history->skipped_rows = tide_reader_skipped(reader) + history->private->skipped + load.strays;
    return result;
}

int tide_history_load(struct tide_history *history, struct tide_reader *reader, struct tide_err *err)
{
    return load_until(history, reader, INT64_MAX, err);
}

int tide_history_load_part(struct tide_history *history, struct tide_reader *reader, int64_t budget_ns,
                           struct tide_err *err)
{
    return load_until(history, reader, tide_clock_ns() + budget_ns, err);
}

int tide_history_open(const char *path, struct tide_history **ret_history, struct tide_err *err)
{
    struct tide_history *history = NULL;
    struct tide_reader *reader = NULL;
    bool unwritten = !tide_reader_is_written(path);
    int bad = tide_reader_new(path, &reader, err) || tide_history_new(0, &history, err) ||
              tide_history_load(history, reader, err);
    tide_reader_free(reader);
    if (bad) {
        tide_history_free(history);
        return -1;
    }
    history->unwritten = unwritten;
    *ret_history = history;
    return 0;
}

char *tide_history_name(const struct tide_history *history, int32_t name, char *out, size_t size)
{
    const char *text = name >= 0 && (size_t)name < history->name_count ? history->names[name] : "";
    return tide_text_shown(text, out, size);
}

size_t tide_until(const void *times, size_t stride, size_t count, int64_t t_ns)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (*(const int64_t *)(const void *)((const char *)times + middle * stride) <= t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct tide_history_point *tide_history_point_at(const struct tide_history_process *process,
                                                       int64_t t_ns)
{
    size_t count = TIDE_UNTIL(process->points, process->point_count, t_ns);
    return count ? &process->points[count - 1] : NULL;
}

size_t tide_history_tick_from(const struct tide_history *history, int64_t t_ns)
{
    return TIDE_UNTIL(history->ticks, history->tick_count, t_ns - 1);
}
