/*
 * mark_order.h - puts marks in order of time. Marks of one moment keep their order: a phase that begins and
 * ends at once still does.
 */
#ifndef TIDE_MARK_ORDER_H
#define TIDE_MARK_ORDER_H

#include "assess/history.h"

/* Never fails; without memory for a copy it is slow. */
void tide_mark_sort(struct tide_history_mark *marks, size_t count);

#endif
