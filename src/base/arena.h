/*
 * arena.h - memory that is allocated piece by piece and freed all at once.
 *
 * tide_arena_init(a, max) -> tide_arena_take()... -> tide_arena_mark()/tide_arena_rewind() for scopes ->
 * tide_arena_release(). An arena never takes more than max bytes from the system. A take that would exceed
 * this, or that the system refuses, returns NULL; callers turn that into a tide_err. Memory is zeroed and
 * aligned to 16 bytes. Not thread-safe.
 */
#ifndef TIDE_ARENA_H
#define TIDE_ARENA_H

#include <stddef.h>

struct tide_arena_chunk;

struct tide_arena {
    struct tide_arena_chunk *newest;
    size_t held_bytes; /* taken from the system */
    size_t max_bytes;
};

struct tide_arena_mark {
    struct tide_arena_chunk *chunk;
    size_t used_bytes;
};

void tide_arena_init(struct tide_arena *arena, size_t max_bytes);
void tide_arena_release(struct tide_arena *arena);

/* count * size zeroed bytes that live in the arena, or NULL (limit, overflow, system). */
void *tide_arena_take(struct tide_arena *arena, size_t count, size_t size);

/* A copy of the first len bytes of text, NUL-terminated, living in the arena; or NULL. */
char *tide_arena_text(struct tide_arena *arena, const char *text, size_t len);

struct tide_arena_mark tide_arena_mark(const struct tide_arena *arena);
void tide_arena_rewind(struct tide_arena *arena, struct tide_arena_mark mark);

#endif
