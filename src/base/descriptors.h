/*
 * descriptors.h - the files that a process has open.
 */
#ifndef TIDE_DESCRIPTORS_H
#define TIDE_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* Closes every descriptor from `first` on that is not among `kept` (in any order; negative ones mean
 * nothing). For a process that lives on beside the one it was forked from: what it holds open, nobody sees
 * the end of. */
void tide_close_all_but(int first, const int *kept, size_t count);

/* Reads up to `count` bytes from there on, all of them unless the file ends before; -1 with errno. */
ssize_t tide_read_at(int fd, void *to, size_t count, uint64_t at);

/* Writes all of them: 0, or -1 with errno. */
int tide_write_all(int fd, const void *bytes, size_t count);

/* Raises the soft limit of open files as far as it may be of use. *ret_before is what a program that is
 * started should have, and what tide_descriptors_restore() brings back. */
void tide_descriptors_raise(struct rlimit *ret_before);
void tide_descriptors_restore(const struct rlimit *before);

/* How many files may stay open from one look to the next, by all together who would keep some. A caller that
 * gets none opens its file for each look: slower, and nothing is missed. */
struct tide_descriptors {
    size_t most, kept;
};

/* What the limit leaves when there is enough for everything else. */
void tide_descriptors_init(struct tide_descriptors *descriptors);
/* Whether one more may stay open. */
bool tide_descriptors_take(struct tide_descriptors *descriptors);
void tide_descriptors_give(struct tide_descriptors *descriptors);

#endif
