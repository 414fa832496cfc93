#include "base/arena.h"
#include "base/check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct tide_arena_chunk {
    struct tide_arena_chunk *older;
    size_t capacity;
    size_t used;
    size_t pad; /* keeps data[] aligned to 16 */
    unsigned char data[];
};

enum { CHUNK_BYTES = 64 * 1024, ALIGN = 16 };

void tide_arena_init(struct tide_arena *arena, size_t max_bytes)
{
    *arena = (struct tide_arena){.max_bytes = max_bytes};
}

static void drop_newest(struct tide_arena *arena)
{
    struct tide_arena_chunk *chunk = arena->newest;
    arena->newest = chunk->older;
    arena->held_bytes -= sizeof *chunk + chunk->capacity;
    free(chunk);
}

void tide_arena_release(struct tide_arena *arena)
{
    while (arena->newest)
        drop_newest(arena);
}

static struct tide_arena_chunk *add_chunk(struct tide_arena *arena, size_t need)
{
    size_t capacity = need > CHUNK_BYTES ? need : CHUNK_BYTES;
    size_t total = sizeof(struct tide_arena_chunk) + capacity;
    if (total < need || arena->held_bytes > arena->max_bytes || total > arena->max_bytes - arena->held_bytes)
        return NULL;
    struct tide_arena_chunk *chunk = malloc(total);
    if (!chunk)
        return NULL;
    *chunk = (struct tide_arena_chunk){.older = arena->newest, .capacity = capacity};
    arena->newest = chunk;
    arena->held_bytes += total;
    return chunk;
}

void *tide_arena_take(struct tide_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ALIGN)
        return NULL;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    struct tide_arena_chunk *chunk = arena->newest;
    if (!chunk || bytes > chunk->capacity - chunk->used)
        chunk = add_chunk(arena, bytes);
    if (!chunk)
        return NULL;
    void *taken = chunk->data + chunk->used;
    chunk->used += bytes;
    return memset(taken, 0, bytes);
}

char *tide_arena_text(struct tide_arena *arena, const char *text, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *copy = tide_arena_take(arena, len + 1, 1);
    if (copy)
        memcpy(copy, text, len);
    return copy;
}

struct tide_arena_mark tide_arena_mark(const struct tide_arena *arena)
{
    return (struct tide_arena_mark){arena->newest, arena->newest ? arena->newest->used : 0};
}

void tide_arena_rewind(struct tide_arena *arena, struct tide_arena_mark mark)
{
    while (arena->newest != mark.chunk) {
        TIDE_CHECK_TRUE(arena->newest != NULL);
        drop_newest(arena);
    }
    if (mark.chunk)
        mark.chunk->used = mark.used_bytes;
}
