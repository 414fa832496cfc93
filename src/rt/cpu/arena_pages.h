/*
 * arena_pages.h - memory for an arena. Every page is faulted in before anything runs, so that what runs
 * seldom (evaluation) does not raise RSS later. The same holds for pages of code.
 */
#ifndef TIDE_ARENA_PAGES_H
#define TIDE_ARENA_PAGES_H

#include "base/err.h"

#include <stddef.h>

struct tide_pages {
    char *start;
    size_t mapped;
};

/* Maps that many bytes, zero, not faulted in yet; in huge pages, except for those from `from` to `to`. */
int tide_pages_map(struct tide_pages *pages, size_t bytes, size_t from, size_t to, struct tide_err *err);

/* Faults in all of it, and the code of the program and of the libraries that steps call. */
void tide_pages_touch(const struct tide_pages *pages, size_t bytes);

void tide_pages_release(struct tide_pages *pages);

#endif
