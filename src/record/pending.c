/*
 * pending.c - see pending.h. A list in an arena; a map finds the row of a process, which may be replaced at
 * every tick.
 */
#include "record/pending.h"
#include "base/arena.h"
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PROCESSES = TIDE_PENDING_BYTES / 64 };

struct tide_pending {
    struct tide_arena arena;
    struct tide_pending_row *first, *last;
    struct tide_map processes; /* id -> its row */
    bool lost;
};

struct tide_pending *tide_pending_new(void)
{
    struct tide_pending *pending = calloc(1, sizeof *pending);

    if (!pending)
        return NULL;
    tide_arena_init(&pending->arena, TIDE_PENDING_BYTES);
    tide_map_init(&pending->processes, MAX_PROCESSES);
    return pending;
}

void tide_pending_free(struct tide_pending *pending)
{
    if (!pending)
        return;
    tide_arena_release(&pending->arena);
    tide_map_release(&pending->processes);
    free(pending);
}

void tide_pending_clear(struct tide_pending *pending)
{
    if (!pending->first && !pending->lost)
        return;
    tide_arena_release(&pending->arena);
    tide_arena_init(&pending->arena, TIDE_PENDING_BYTES);
    tide_map_clear(&pending->processes);
    pending->first = pending->last = NULL;
    pending->lost = false;
}

bool tide_pending_lost(const struct tide_pending *pending)
{
    return pending->lost;
}

int tide_pending_each(const struct tide_pending *pending, int (*on)(void *, const struct tide_pending_row *),
                      void *context)
{
    int result = 0;

    for (const struct tide_pending_row *row = pending->first; row && result == 0; row = row->next)
        result = on(context, row);
    return result;
}

/* A copy of text in the arena, or `old` when that says the same; NULL stays NULL. */
static const char *keep(struct tide_pending *pending, const char *old, const char *text)
{
    if (!text || (old && strcmp(old, text) == 0))
        return text ? old : NULL;
    const char *copy = tide_arena_text(&pending->arena, text, strlen(text));
    if (!copy)
        pending->lost = true;
    return copy ? copy : "";
}

/* A new row at the end of the list, or NULL. */
static struct tide_pending_row *append(struct tide_pending *pending, enum tide_pending_kind kind)
{
    struct tide_pending_row *row = tide_arena_take(&pending->arena, 1, sizeof *row);

    if (!row) {
        pending->lost = true;
        return NULL;
    }
    row->kind = kind;
    if (pending->last)
        pending->last->next = row;
    else
        pending->first = row;
    pending->last = row;
    return row;
}

void tide_pending_process(struct tide_pending *pending, const struct tide_process *process)
{
    struct tide_pending_row *row;
    uint64_t found;

    if (tide_map_get(&pending->processes, (uint64_t)process->id, &found)) {
        row = (struct tide_pending_row *)(uintptr_t)found;
    } else {
        row = append(pending, TIDE_PENDING_PROCESS);
        if (!row)
            return;
        /* Without an entry in the map the next update appends a second row, which is written after this one.
         */
        (void)tide_map_put(&pending->processes, (uint64_t)process->id, (uint64_t)(uintptr_t)row);
    }
    struct tide_process old = row->process;
    row->process = *process;
    row->process.name = keep(pending, old.name, process->name);
    row->process.command = keep(pending, old.command, process->command);
    row->process.role = keep(pending, old.role, process->role);
}

void tide_pending_meta(struct tide_pending *pending, const char *key, const char *text, int64_t value)
{
    struct tide_pending_row *row;

    for (row = pending->first; row; row = row->next)
        if (row->kind == TIDE_PENDING_META && strcmp(row->meta.key, key) == 0)
            break;
    if (!row) {
        const char *name = keep(pending, NULL, key);
        row = append(pending, TIDE_PENDING_META);
        if (!row)
            return;
        row->meta.key = name;
    }
    row->meta.text = keep(pending, row->meta.text, text);
    row->meta.value = value;
}

void tide_pending_gpu_device(struct tide_pending *pending, const struct tide_gpu_device *device)
{
    struct tide_pending_row *row = append(pending, TIDE_PENDING_GPU_DEVICE);

    if (!row)
        return;
    row->gpu_device = *device;
    row->gpu_device.name = keep(pending, NULL, device->name);
    row->gpu_device.uuid = keep(pending, NULL, device->uuid);
}

void tide_pending_limit(struct tide_pending *pending, const struct tide_limit *limit)
{
    struct tide_pending_row *row = append(pending, TIDE_PENDING_LIMIT);

    if (!row)
        return;
    row->limit = *limit;
    row->limit.name = keep(pending, NULL, limit->name);
}

void tide_pending_note(struct tide_pending *pending, const struct tide_note *note)
{
    struct tide_pending_row *row = append(pending, TIDE_PENDING_NOTE);

    if (!row)
        return;
    row->note = *note;
    row->note.text = keep(pending, NULL, note->text);
}

void tide_pending_frame(struct tide_pending *pending, const struct tide_frame *frame)
{
    struct tide_pending_row *row = append(pending, TIDE_PENDING_FRAME);

    if (!row)
        return;
    row->frame = *frame;
    row->frame.function = keep(pending, NULL, frame->function);
    row->frame.file = keep(pending, NULL, frame->file);
    row->frame.module = keep(pending, NULL, frame->module);
    row->frame.source = keep(pending, NULL, frame->source ? frame->source : "");
}

void tide_pending_stack(struct tide_pending *pending, int64_t id, const int64_t *frames, size_t depth)
{
    int64_t *copy = tide_arena_take(&pending->arena, depth, sizeof *copy);
    struct tide_pending_row *row = copy ? append(pending, TIDE_PENDING_STACK) : NULL;

    if (!row) {
        pending->lost = true;
        return;
    }
    memcpy(copy, frames, depth * sizeof *copy);
    row->stack.id = id;
    row->stack.frames = copy;
    row->stack.depth = depth;
}

void tide_pending_site(struct tide_pending *pending, const struct tide_site *site)
{
    struct tide_pending_row *row = append(pending, TIDE_PENDING_SITE);

    if (row)
        row->site = *site;
}

void tide_pending_heap_status(struct tide_pending *pending, const struct tide_heap_status *state)
{
    struct tide_pending_row *row = append(pending, TIDE_PENDING_HEAP_STATE);

    if (!row)
        return;
    row->heap_state = *state;
    row->heap_state.state = keep(pending, NULL, state->state);
}
