/*
 * occupied.h - which bytes of an arena are taken at which instructions, and where there is room.
 *
 * tide_occupied_new -> _lowest and _take for one value after another -> _clear, for another layout -> _free.
 * Not thread-safe.
 *
 * It is a tree over the instructions; each node covers a range of them and has two sets of bytes. The first
 * holds bytes taken at some instruction of the range, by values put at this node or below. The second holds
 * bytes taken at all instructions of the range, by values put at this node itself. A lifetime is O(log
 * instructions) nodes. Adjacent ranges of bytes are merged: a good layout packs values closely, so a set is a
 * handful of ranges however many values there are.
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

/* Returns the lowest offset with that many bytes free from instruction `first` to `last`, both included. */
size_t tide_occupied_lowest(struct tide_occupied *occupied, int first, int last, size_t bytes);

/* Marks those bytes as taken. -1: out of memory. */
int tide_occupied_take(struct tide_occupied *occupied, int first, int last, size_t at, size_t bytes);

/* How many sets were searched and how many ranges stepped over since _new: the cost of _lowest. */
uint64_t tide_occupied_looks(const struct tide_occupied *occupied);

#endif
