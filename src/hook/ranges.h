/*
 * ranges.h - address ranges and their sites: the program's anonymous mappings, its reservations, the chunks
 * that its pools cut up, and device memory.
 *
 * Mappings, unlike blocks, are cut and joined by address, so they are kept sorted. Mapping is a system call
 * and programs have few mappings, so one latch and an array of TIDE_RANGES_MOST for each kind suffice. Same
 * rules as pointers.h.
 */
#ifndef TIDE_RANGES_H
#define TIDE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_RANGES_MOST = 65536 };

enum tide_ranges_kind {
    TIDE_RANGES_MAPPED,
    TIDE_RANGES_RESERVED, /* address space without access: no site */
    TIDE_RANGES_CHUNKS,   /* what tide_pool_chunk() named */
    TIDE_RANGES_DEVICE,   /* device memory that PyTorch's pool cuts up */
    TIDE_RANGES_KINDS
};

struct tide_range {
    uintptr_t start, end; /* [start, end) */
    uint32_t site;
    uint32_t
        piece; /* for device memory: 1 + the number of the piece that is mapped there (pieces.h); 0: none */
};

/* `gone` was cut out of a range; by how much the bytes and the number of ranges of its site changed. */
typedef void tide_ranges_change(void *context, struct tide_range gone, int64_t bytes, int64_t pieces);

/* From a constructor. -1: memory cannot be wiped at fork. */
int tide_ranges_init(void);

/* True if there is any range of this kind. */
bool tide_ranges_any(enum tide_ranges_kind kind);

/* Adds a range. Its addresses must not be in another range: cut them first. With `join` the range extends the
 * one before it if that ends where this one begins and has the same site. 1: it did; 0: the range is
 * separate; -1: no room, or the latch could not be taken. */
int tide_ranges_add(enum tide_ranges_kind kind, struct tide_range range, bool join);

/* Removes the addresses [start, end) from all ranges and calls on_change, under the latch, for each range
 * that lost some (on_change may be NULL). -1: the latch could not be taken. If a range is cut in the middle
 * and there is no room for its second part, that part is lost, and reported as lost. */
int tide_ranges_cut(enum tide_ranges_kind kind, uintptr_t start, uintptr_t end, tide_ranges_change *on_change,
                    void *context);

/* Removes the first range that begins in [start, end), whole. 1: it is in *ret_range; 0: there is none; -1:
 * the latch could not be taken. */
int tide_ranges_take(enum tide_ranges_kind kind, uintptr_t start, uintptr_t end,
                     struct tide_range *ret_range);

/* Finds the first range that overlaps [start, end). False: none, or the latch could not be taken. */
bool tide_ranges_find(enum tide_ranges_kind kind, uintptr_t start, uintptr_t end,
                      struct tide_range *ret_range);

#endif
