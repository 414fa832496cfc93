/*
 * siblings.h - the numbers of processes among their like: "worker 3" is the fourth that its parent had at
 * once.
 */
#ifndef TIDE_SIBLINGS_H
#define TIDE_SIBLINGS_H

#include "assess/history.h"

/* Sets `number` of every process. Its like are those of the same parent and role; its number is how many of
 * them that came before it were still there when it began. The one who follows another that ended has that
 * one's number. -1: it is the only one there ever was, or nobody's child. */
int tide_siblings_number(struct tide_history *history, struct tide_err *err);

#endif
