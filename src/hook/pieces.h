/*
 * pieces.h - device memory that is created without an address and mapped to one later: CUDA's virtual memory
 * functions.
 *
 * A piece of memory is created with one reference, its handle. It may be mapped at any number of addresses,
 * and each of those addresses can give one more reference. It lives until every reference is released and
 * every mapping is unmapped, in any order. The driver may reuse the value of a released handle for a new
 * piece while the old piece is still mapped, so a handle does not identify a piece. A piece has a number
 * instead, which is stored in the ranges of device memory where the piece is mapped (ranges.h).
 *
 * These calls are slow and few, so one latch and a sorted array of TIDE_PIECES_MOST suffice. Same rules as
 * pointers.h: any thread, never twice on one thread, empty in a forked child.
 */
#ifndef TIDE_PIECES_H
#define TIDE_PIECES_H

#include <stdbool.h>
#include <stdint.h>

enum { TIDE_PIECES_MOST = 65536 };

enum tide_pieces_result {
    TIDE_PIECES_DONE,
    TIDE_PIECES_ABSENT, /* not known here: created by somebody else, or earlier */
    TIDE_PIECES_FULL,
    TIDE_PIECES_BUSY /* the latch could not be taken */
};

/* Called when a piece of memory is freed. */
typedef void tide_pieces_gone(void *context, uint32_t site, uint64_t bytes);

/* From a constructor. -1: memory cannot be wiped at fork. */
int tide_pieces_init(void);

/* True if there is any piece. */
bool tide_pieces_any(void);

enum tide_pieces_result tide_pieces_create(uint64_t handle, uint64_t bytes, uint32_t site);

/* The handle's piece is mapped once more. Gives its number and its site. */
enum tide_pieces_result tide_pieces_map(uint64_t handle, uint32_t *ret_piece, uint32_t *ret_site);

/* The driver gave out one more reference, under this handle, to a piece that is mapped. */
enum tide_pieces_result tide_pieces_retain(uint64_t handle, uint32_t piece);

/* A mapped piece belongs to this site from now on. Returns its bytes; 0 if the latch could not be taken. */
uint64_t tide_pieces_set_site(uint32_t piece, uint32_t site);

enum tide_pieces_result tide_pieces_unmap(uint32_t piece, tide_pieces_gone *on_gone, void *context);
enum tide_pieces_result tide_pieces_release(uint64_t handle, tide_pieces_gone *on_gone, void *context);

#endif
