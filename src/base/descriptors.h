/*
 * descriptors.h - the files that a process has open.
 */
#ifndef TIDE_DESCRIPTORS_H
#define TIDE_DESCRIPTORS_H

#include <stddef.h>

/* Closes every descriptor from `first` on that is not among `kept` (in any order; negative ones mean
 * nothing). For a process that lives on beside the one it was forked from: what it holds open, nobody sees
 * the end of. */
void tide_close_all_but(int first, const int *kept, size_t count);

#endif
