/*
 * proc_read.h - reads small files of /proc and cgroup directories.
 *
 * All return the number of bytes read or -errno, and add a NUL (size includes it). A longer file is cut.
 * ENOENT and ESRCH mean that the process is gone.
 */
#ifndef TIDE_PROC_READ_H
#define TIDE_PROC_READ_H

#include "channel/birth.h"

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Reads the file `path` below the directory dir_fd. */
ssize_t tide_proc_read(int dir_fd, const char *path, char *buf, size_t size);

/* Reads the file `leaf` of process pid. dir_fd: an open /proc, or AT_FDCWD for the system's own. */
ssize_t tide_proc_read_pid(int dir_fd, int64_t pid, const char *leaf, char *buf, size_t size);

/* Reads its `stat`. Returns 0 or -errno. */
int tide_proc_read_stat(int dir_fd, int64_t pid, struct tide_stat *ret_stat);

/* Opens a leaf for reading. Returns a descriptor or -errno. */
int tide_proc_open_pid(int dir_fd, int64_t pid, const char *leaf);

/* The same for a file that is read line by line; the caller closes it with fclose(). NULL: it cannot be read.
 */
FILE *tide_proc_stream_pid(int dir_fd, int64_t pid, const char *leaf);

/* Opens a directory of process pid; the caller closes it with closedir(). NULL with errno. */
DIR *tide_proc_list_pid(int dir_fd, int64_t pid, const char *leaf);

/* Reads the next entry of a directory of links, as /proc/PID/fd. Returns its name, or NULL at the end or if
 * the directory is NULL. The link's target is cut to size; it is empty if the entry is no link or is gone. */
const char *tide_proc_next_link(DIR *directory, char *ret_target, size_t size);

/* Reads an open file again, from its start. */
ssize_t tide_proc_reread(int fd, char *buf, size_t size);

#endif
