/*
 * descriptors.h - file descriptors: closing, reading and writing, and the limit on open files.
 */
#ifndef TIDE_DESCRIPTORS_H
#define TIDE_DESCRIPTORS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* Closes every descriptor from `first` on that is not in `kept` (in any order; negative ones are ignored).
 * For a forked process that outlives its parent: while it holds a pipe open, the pipe's reader never sees the
 * end. */
void tide_close_all_but(int first, const int *kept, size_t count);

/* Opens a directory to list it, from its beginning, whoever else lists it. The caller closes it with
 * closedir(). NULL with errno. */
DIR *tide_list_directory(int dir_fd, const char *path);

/* Reads up to `count` bytes at offset `at`, fewer only if the file ends. -1 with errno. */
ssize_t tide_read_at(int fd, void *to, size_t count, uint64_t at);

/* Writes all bytes. 0, or -1 with errno. */
int tide_write_all(int fd, const void *bytes, size_t count);

/* Raises the soft limit on open files as far as is useful. *ret_before is the old limit, for
 * tide_descriptors_restore() and for programs that are started. */
void tide_descriptors_raise(struct rlimit *ret_before);
void tide_descriptors_restore(const struct rlimit *before);

/* How many files all users together may keep open from one look to the next. A caller that gets none opens
 * its file for each look, which is slower but misses nothing. */
struct tide_descriptors {
    size_t most, kept;
};

/* Takes the limit on open files, minus a reserve for everything else. */
void tide_descriptors_init(struct tide_descriptors *descriptors);
/* True if one more may stay open. */
bool tide_descriptors_take(struct tide_descriptors *descriptors);
void tide_descriptors_give(struct tide_descriptors *descriptors);

#endif
