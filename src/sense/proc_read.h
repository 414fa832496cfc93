/*
 * proc_read.h - reads small files of /proc and cgroup directories.
 *
 * All return the number of bytes read or -errno, and end what they read with a NUL (size includes it). A file
 * longer than that is cut. ENOENT and ESRCH mean that the process is gone.
 */
#ifndef TIDE_PROC_READ_H
#define TIDE_PROC_READ_H

#include "channel/birth.h"

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The file `path` below the directory dir_fd. */
ssize_t tide_proc_read(int dir_fd, const char *path, char *buf, size_t size);

/* The file `leaf` of process pid, where dir_fd is /proc, or AT_FDCWD for the system's own. */
ssize_t tide_proc_read_pid(int dir_fd, int64_t pid, const char *leaf, char *buf, size_t size);

/* Its `stat`: 0 or -errno. */
int tide_proc_read_stat(int dir_fd, int64_t pid, struct tide_stat *ret_stat);

/* Opens a leaf read-only; a descriptor or -errno. */
int tide_proc_open_pid(int dir_fd, int64_t pid, const char *leaf);

/* A directory, to be closed with closedir(); NULL with errno. */
DIR *tide_proc_list(int dir_fd, const char *path);
DIR *tide_proc_list_pid(int dir_fd, int64_t pid, const char *leaf);

/* From the start of a kept descriptor. */
ssize_t tide_proc_reread(int fd, char *buf, size_t size);

#endif
