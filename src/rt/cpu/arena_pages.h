/*
 * arena_pages.h - memory for an arena, every page of which is there before anything runs: what runs seldom
 * (evaluation) adds none later. Nor does code that runs seldom.
 */
#ifndef TIDE_ARENA_PAGES_H
#define TIDE_ARENA_PAGES_H

#include "base/err.h"

#include <stddef.h>

struct tide_pages {
    char *start;
    size_t mapped;
};

/* So many bytes, zeros, not there yet; in huge pages, but for those from `from` to `to`. */
int tide_pages_map(struct tide_pages *pages, size_t bytes, size_t from, size_t to, struct tide_err *err);

/* All of it is there, and the code of the program and of the libraries that steps call. */
void tide_pages_touch(const struct tide_pages *pages, size_t bytes);

void tide_pages_release(struct tide_pages *pages);

#endif
