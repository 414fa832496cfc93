/*
 * pieces.h - device memory that is made without an address and mapped to one later: CUDA's virtual memory
 * functions.
 *
 * A piece of memory is made with one reference, its handle; it may be mapped at any number of addresses, and
 * an address gives a further reference. It lives until every reference was released and every mapping was
 * unmapped, in whatever order. The driver may give the value of a released handle to a new piece while the
 * old one is still mapped, so a piece is not known by its handle alone: it has a number, which the ranges of
 * device memory that it is mapped at hold (ranges.h).
 *
 * These calls are slow and few: one latch and a sorted array of TIDE_PIECES_MOST suffice. Same rules as
 * pointers.h: any thread, never twice on one thread, empty in a forked child.
 */
#ifndef TIDE_PIECES_H
#define TIDE_PIECES_H

#include <stdbool.h>
#include <stdint.h>

enum { TIDE_PIECES_MOST = 65536 };

enum tide_pieces_result {
    TIDE_PIECES_DONE,
    TIDE_PIECES_ABSENT, /* not known here: made by somebody else, or before */
    TIDE_PIECES_FULL,
    TIDE_PIECES_BUSY /* the latch could not be had */
};

/* A piece of memory is no more. */
typedef void tide_pieces_gone(void *context, uint32_t site, uint64_t bytes);

/* From a constructor. -1: forks cannot be seen. */
int tide_pieces_init(void);

/* Whether there is any piece to ask about. */
bool tide_pieces_any(void);

enum tide_pieces_result tide_pieces_create(uint64_t handle, uint64_t bytes, uint32_t site);

/* The piece of the handle is mapped once more: its number, and its site. */
enum tide_pieces_result tide_pieces_map(uint64_t handle, uint32_t *ret_piece, uint32_t *ret_site);

/* The handle was given out once more, for a piece that is mapped. */
enum tide_pieces_result tide_pieces_retain(uint64_t handle, uint32_t piece);

/* A piece that is mapped belongs to this site from now on. Its bytes; 0: not to be had. */
uint64_t tide_pieces_set_site(uint32_t piece, uint32_t site);

enum tide_pieces_result tide_pieces_unmap(uint32_t piece, tide_pieces_gone *on_gone, void *context);
enum tide_pieces_result tide_pieces_release(uint64_t handle, tide_pieces_gone *on_gone, void *context);

#endif
