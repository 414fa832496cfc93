/*
 * ranges.h - anonymous mappings that the program made, and their sites.
 *
 * Mappings, unlike blocks, are cut and joined by address, so they are kept sorted. Mapping is a system call
 * and programs have few, so one latch and an array of TIDE_RANGES_MOST suffice. Same rules as pointers.h.
 */
#ifndef TIDE_RANGES_H
#define TIDE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_RANGES_MOST = 65536 };

/* What happened to a site's mappings: bytes and number of pieces that came, or went (negative). */
typedef void tide_ranges_change(void *context, uint32_t site, int64_t bytes, int64_t pieces);

/* From a constructor. -1: forks cannot be seen. */
int tide_ranges_init(void);

/* Whether there is any mapping to ask about. */
bool tide_ranges_any(void);

/* Adds [start, end), whose addresses are not in any range: cut them first. -1: no room, or the latch could
 * not be had. */
int tide_ranges_add(uintptr_t start, uintptr_t end, uint32_t site);

/* Removes the addresses [start, end) from all ranges, telling what each site lost. -1: the latch could not be
 * had. A piece that finds no place when a mapping is cut in the middle is lost, and told as lost. */
int tide_ranges_cut(uintptr_t start, uintptr_t end, tide_ranges_change *on_change, void *context);

#endif
