/*
 * history_sites.c - what the heap hook saw, in a history: frames, stacks, sites and their points.
 *
 * Frames, stacks and sites are read before the samples that refer to them; rows that refer to nothing are
 * counted and left out. Files and modules, which repeat, are stored once.
 */
#include "assess/history_private.h"

#include <string.h>

enum {
    MAX_FRAMES = 1 << 21,
    MAX_STACK_FRAMES = 1 << 25,
    MAX_DEPTH = 1 << 12,
};

/* --- frames -------------------------------------------------------------------------------------------- */

const char *tide_history_text(struct tide_history *history, const char *text, struct tide_err *err)
{
    struct tide_map *by_key = &history->private->heap.text_by_key;
    uint64_t key = tide_map_text_key(text), found;
    size_t len = strlen(text);

    if (!*text)
        return "";
    if (tide_map_get(by_key, key, &found) && strcmp((const char *)(uintptr_t)found, text) == 0)
        return (const char *)(uintptr_t)found;
    if (tide_history_make_room(history, len + 1, err) != 0)
        return NULL;
    const char *copy = tide_arena_text(&history->private->heap.texts, text, len);
    if (!copy) {
        tide_history_no_memory(err);
        return NULL;
    }
    history->private->bytes += len + 1;
    tide_map_put(by_key, key, (uint64_t)(uintptr_t)copy);
    return copy;
}

static int on_frame(void *context, const void *given)
{
    const struct tide_frame *row = given;
    struct tide_history_load *load = context;
    struct tide_history *history = load->history;
    struct tide_history_heap *heap = &history->private->heap;

    heap->frame_read = row->id;
    /* Ids count from 1; an id that is far off would only cost memory. */
    if (row->id > MAX_FRAMES) {
        history->private->skipped++;
        return 0;
    }
    static const struct tide_frame nothing = {
        .function = "", .file = "", .module = "", .source = "", .line = TIDE_UNKNOWN, .offset = TIDE_UNKNOWN};
    while (history->frame_count < (size_t)row->id)
        if (TIDE_HISTORY_ADD(load, history->frames, history->frame_count, heap->frame_capacity, nothing))
            return -1;
    struct tide_frame frame = *row;
    frame.function = tide_history_text(history, row->function, load->err);
    frame.file = tide_history_text(history, row->file, load->err);
    frame.module = tide_history_text(history, row->module, load->err);
    frame.source = tide_history_text(history, row->source, load->err);
    if (!frame.function || !frame.file || !frame.module || !frame.source)
        return -1;
    history->frames[row->id - 1] = frame;
    return 0;
}

/* --- stacks -------------------------------------------------------------------------------------------- */

/* Rows of one stack come together, in order of depth. Missing depths leave no gap. */
static int on_stack(void *context, const void *given)
{
    const struct tide_stack_row *row = given;
    struct tide_history_load *load = context;
    struct tide_history *history = load->history;
    struct tide_history_heap *heap = &history->private->heap;

    if (row->id > MAX_FRAMES || row->depth >= MAX_DEPTH || (uint64_t)row->frame > history->frame_count ||
        heap->stack_frame_count >= MAX_STACK_FRAMES) {
        history->private->skipped++;
        return 0;
    }
    while (heap->stack_count < (size_t)row->id)
        if (TIDE_HISTORY_ADD(load, heap->stacks, heap->stack_count, heap->stack_capacity,
                             (struct tide_history_stack){heap->stack_frame_count, 0}))
            return -1;
    struct tide_history_stack *stack = &heap->stacks[row->id - 1];
    if ((uint64_t)row->depth < stack->count)
        return 0; /* read already, by a load that failed in the middle of it */
    if (TIDE_HISTORY_ADD(load, heap->stack_frames, heap->stack_frame_count, heap->stack_frame_capacity,
                         (int32_t)(row->frame - 1)))
        return -1;
    stack->count++;
    load->stack = row->id;
    return 0;
}

/* --- sites --------------------------------------------------------------------------------------------- */

static int on_site(void *context, const void *given)
{
    const struct tide_site *row = given;
    struct tide_history_load *load = context;
    struct tide_history *history = load->history;
    struct tide_history_heap *heap = &history->private->heap;

    heap->site_read = row->id;
    if (row->id > MAX_FRAMES || (uint64_t)row->process > history->process_count) {
        history->private->skipped++;
        return 0;
    }
    while (history->site_count < (size_t)row->id)
        if (TIDE_HISTORY_ADD(load, history->sites, history->site_count, heap->site_capacity,
                             (struct tide_history_site){0}))
            return -1;
    struct tide_history_site *site = &history->sites[row->id - 1];
    site->id = row->id;
    site->process = row->process;
    site->kind = row->kind;
    site->stack = row->stack;
    return 0;
}

int tide_history_heap_load(struct tide_history_load *load, struct tide_reader *reader)
{
    struct tide_history *history = load->history;
    struct tide_history_heap *heap = &history->private->heap;

    load->stack = heap->stack_read;
    if (tide_reader_each(reader, TIDE_SCHEMA_FRAME, heap->frame_read, on_frame, load, load->err) != 0 ||
        tide_reader_each(reader, TIDE_SCHEMA_STACK, heap->stack_read, on_stack, load, load->err) != 0)
        return -1;
    heap->stack_read = load->stack;
    return tide_reader_each(reader, TIDE_SCHEMA_SITE, heap->site_read, on_site, load, load->err);
}

const struct tide_heap_status *tide_history_heap_status(const struct tide_history *history, int64_t process)
{
    for (size_t i = history->heap_status_count; i-- > 0;)
        if (history->heap_status[i].process == process)
            return &history->heap_status[i];
    return NULL;
}

bool tide_heap_is_seen(const struct tide_heap_status *status)
{
    size_t len = strlen(TIDE_HEAP_STATE_ON);
    return !strncmp(status->state, TIDE_HEAP_STATE_ON, len) &&
           (!status->state[len] || status->state[len] == ';');
}

size_t tide_history_stack(const struct tide_history *history, int64_t stack, const int32_t **ret_frames)
{
    const struct tide_history_heap *heap = &history->private->heap;

    if (stack < 1 || (uint64_t)stack > heap->stack_count)
        return 0;
    *ret_frames = heap->stack_frames + heap->stacks[stack - 1].first;
    return heap->stacks[stack - 1].count;
}

/* --- points -------------------------------------------------------------------------------------------- */

int tide_history_on_site_sample(struct tide_history_load *load, const void *given, int64_t t_ns)
{
    const struct tide_site_sample *row = given;
    struct tide_history *history = load->history;

    if ((uint64_t)row->site > history->site_count || history->sites[row->site - 1].id == 0) {
        history->private->skipped++;
        return 0;
    }
    struct tide_history_site *site = &history->sites[row->site - 1];
    if (site->point_count > 0 && t_ns <= site->points[site->point_count - 1].t_ns)
        return 0;
    return TIDE_HISTORY_ADD(load, site->points, site->point_count, site->point_capacity,
                            (struct tide_history_site_point){t_ns, row->live_bytes, row->live_blocks,
                                                             row->total_bytes, row->total_blocks});
}

int tide_history_on_heap_sample(struct tide_history_load *load, const void *given, int64_t t_ns)
{
    const struct tide_heap_sample *row = given;
    struct tide_history_process *process = tide_history_sampled(load->history, row->process);

    if (!process || (process->heap_count > 0 && t_ns <= process->heap[process->heap_count - 1].t_ns))
        return 0;
    return TIDE_HISTORY_ADD(load, process->heap, process->heap_count, process->heap_capacity,
                            (struct tide_history_heap_point){t_ns, row->live_bytes, row->free_bytes,
                                                             row->free_blocks, row->top_bytes});
}
