/*
 * mark_sort.h - puts marks in order of time. Marks of one moment keep their order: a phase that begins and
 * ends at once still does.
 */
#ifndef TIDE_MARK_SORT_H
#define TIDE_MARK_SORT_H

#include "show/history.h"

/* Never fails; without memory for a copy it is slow. */
void tide_mark_sort(struct tide_history_mark *marks, size_t count);

#endif
