/*
 * told.c - nothing but an arena's allocations, told to tidemark.h: what telling costs.
 *
 * Usage: told [ROUNDS]
 *
 * Each round (of 2000) fills an arena of 1 MiB with about 2000 blocks of 16 to 1023 bytes, each told and its
 * first byte written, and drops them all at once.
 */
#include "tidemark.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARENA = 1 << 20 };

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 2000;
    uint64_t random = 88172645463325252u;
    char *arena = malloc(ARENA);
    if (!arena)
        return 2;
    tide_pool_chunk(arena, ARENA);
    for (long round = 0; round < rounds; round++) {
        for (size_t used = 0;;) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            size_t bytes = (16 + random % 1008 + 15) & ~(size_t)15;
            if (used + bytes > ARENA)
                break;
            tide_pool_alloc(arena + used, bytes);
            arena[used] = (char)random;
            used += bytes;
        }
        tide_pool_clear(arena, ARENA);
    }
    free(arena);
    return 0;
}
