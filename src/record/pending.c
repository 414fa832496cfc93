/*
 * pending.c - see pending.h. A list in an arena; a map finds the row of a process, which is replaced at every
 * tick.
 */
#include "record/pending.h"
#include "base/arena.h"
#include "base/map.h"
#include "record/record.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PROCESSES = TIDE_PENDING_BYTES / 64 };

/* The rows of one tide_pending_put(). */
struct batch {
    struct batch *next;
    enum tide_schema table;
    size_t count;
    char rows[]; /* aligned for any of them */
};

_Static_assert(offsetof(struct batch, rows) % sizeof(int64_t) == 0, "rows begin with numbers of 8 bytes");

struct tide_pending {
    struct tide_arena arena;
    struct batch *first, *last;
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

int tide_pending_each(const struct tide_pending *pending, tide_on_pending *on, void *context)
{
    int result = 0;

    for (const struct batch *batch = pending->first; batch && result == 0; batch = batch->next)
        result = on(context, batch->table, batch->rows, batch->count);
    return result;
}

/* A copy of text in the arena, or `old` if it is the same text. NULL stays NULL. */
static const char *keep(struct tide_pending *pending, const char *old, const char *text)
{
    if (!text || (old && strcmp(old, text) == 0))
        return text ? old : NULL;
    const char *copy = tide_arena_text(&pending->arena, text, strlen(text));
    if (!copy)
        pending->lost = true;
    return copy ? copy : "";
}

/* Makes `copy`, which holds an older row or zeros, a copy of row. */
static void copy_row(struct tide_pending *pending, const struct tide_schema_table *table, const char *row,
                     char *copy)
{
    for (size_t i = 0; i < table->column_count; i++) {
        const struct tide_schema_column *column = &table->columns[i];
        const void *from = row + column->offset;
        void *to = copy + column->offset;
        bool text = column->type >= TIDE_TYPE_TEXT; /* or starts with a text pointer */
        const char *old = text ? *(const char **)to : NULL;
        memcpy(to, from, column->bytes);
        if (text)
            *(const char **)to = keep(pending, old, *(const char *const *)from);
    }
}

/* Appends a batch of zeros to the list. NULL: out of memory. */
static struct batch *append(struct tide_pending *pending, enum tide_schema table, size_t count)
{
    struct batch *batch =
        tide_arena_take(&pending->arena, 1, sizeof *batch + count * tide_schema_tables[table].row_bytes);

    if (!batch) {
        pending->lost = true;
        return NULL;
    }
    batch->table = table;
    batch->count = count;
    if (pending->last)
        pending->last->next = batch;
    else
        pending->first = batch;
    pending->last = batch;
    return batch;
}

/* Returns the batch of a process, appending one if it has none. NULL: out of memory. */
static struct batch *find_process(struct tide_pending *pending, int64_t id)
{
    uint64_t found;

    if (tide_map_get(&pending->processes, (uint64_t)id, &found))
        return (struct batch *)(uintptr_t)found;
    struct batch *batch = append(pending, TIDE_SCHEMA_PROCESS, 1);
    /* If the map has no room, the next update appends a second row, which is written after this one. */
    if (batch)
        (void)tide_map_put(&pending->processes, (uint64_t)id, (uint64_t)(uintptr_t)batch);
    return batch;
}

void tide_pending_put(struct tide_pending *pending, enum tide_schema which, const void *rows, size_t count)
{
    const struct tide_schema_table *table = &tide_schema_tables[which];
    struct batch *batch = which == TIDE_SCHEMA_PROCESS
                              ? find_process(pending, ((const struct tide_process *)rows)->id)
                              : append(pending, which, count);

    for (size_t i = 0; batch && i < count; i++)
        copy_row(pending, table, (const char *)rows + i * table->row_bytes,
                 batch->rows + i * table->row_bytes);
}
