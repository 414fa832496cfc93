/*
 * arena.c - an arena that orphans its chunks.
 *
 * Truth: a reset goes back to the first chunk and keeps the chain; the first overflow after it makes a new
 * chunk and hangs it in the place of the old chain, which nobody can reach any more. A step needs three
 * chunks of --bytes (160K), so two are lost in every step but the first.
 */
#include "workload.h"

struct chunk {
    struct chunk *next;
    size_t used;
    unsigned char data[];
};

struct arena {
    struct chunk *first, *at;
    size_t chunk_bytes;
};

static __attribute__((noinline)) struct chunk *arena_grow(const struct arena *arena)
{
    struct chunk *chunk = malloc(sizeof *chunk + arena->chunk_bytes);
    if (!chunk)
        workload_fail("malloc");
    chunk->next = NULL;
    chunk->used = 0;
    return chunk;
}

static void *arena_take(struct arena *arena, size_t bytes)
{
    if (arena->at->used + bytes > arena->chunk_bytes)
        arena->at = arena->at->next = arena_grow(arena); /* whatever was next is lost here */
    void *memory = arena->at->data + arena->at->used;
    arena->at->used += bytes;
    return memory;
}

static void arena_reset(struct arena *arena)
{
    for (struct chunk *c = arena->first; c; c = c->next)
        c->used = 0;
    arena->at = arena->first;
}

static void train_step(struct workload *w, struct arena *arena)
{
    enum { TENSORS = 20 };
    size_t bytes = arena->chunk_bytes / 8;
    for (int i = 0; i < TENSORS; i++)
        workload_touch(arena_take(arena, bytes), bytes);
    arena_reset(arena);
    workload_churn(w);
}

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 160 * 1024};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    workload_warm_heap(1);
    struct arena arena = {.chunk_bytes = (size_t)w.bytes};
    arena.first = arena.at = arena_grow(&arena);
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        train_step(&w, &arena);
        workload_pace(&w, n);
    }
    return 0;
}
