/*
 * occupied.h - which bytes of an arena are taken at which instructions, and where there is room.
 *
 * tide_occupied_new -> _lowest and _take for one value after another -> _clear, for another layout ->
 * _free. One thread.
 *
 * A tree over the instructions. A node has two sets of bytes: those that something takes at any time of its
 * stretch, of what was put there or below, and those that something takes at all times of it, of what was put
 * there itself. A lifetime is O(log instructions) nodes. Stretches of bytes that touch each other are one: in
 * a layout worth having values lie close together, so that a set is a handful of stretches however many
 * values there are.
 */
#ifndef TIDE_OCCUPIED_H
#define TIDE_OCCUPIED_H

#include <stddef.h>
#include <stdint.h>

struct tide_occupied;

/* Nothing is taken. Caller frees; NULL: out of memory. */
struct tide_occupied *tide_occupied_new(int instructions);
void tide_occupied_clear(struct tide_occupied *occupied);
void tide_occupied_free(struct tide_occupied *occupied);

/* The lowest place with so many bytes that are free from instruction `first` to `last`, both included. */
size_t tide_occupied_lowest(struct tide_occupied *occupied, int first, int last, size_t bytes);

/* Takes bytes there. -1: out of memory. */
int tide_occupied_take(struct tide_occupied *occupied, int first, int last, size_t at, size_t bytes);

/* How many sets were asked since it was new, and how many stretches stepped over: what _lowest costs. */
uint64_t tide_occupied_looks(const struct tide_occupied *occupied);

#endif
