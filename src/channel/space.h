/*
 * space.h - how much of a file system the channel may take.
 *
 * /dev/shm belongs to the job: when it is full, the job's own mappings there die of SIGBUS, and a container
 * has 64 MB of it. So where the tracker has put the channel on a memory file system it leaves a link in it,
 * TIDE_SPACE_SPARE, to a directory elsewhere: whoever would leave less than three quarters of the file system
 * free goes there. Without the link, and there, nobody takes more than a quarter of what is free. Several may
 * ask at the same moment: so whoever has taken something asks again whether it may keep it, and gives it back
 * if not. Who finds no room at all leaves an empty file TIDE_SPACE_FULL PID-START behind, so that it can be
 * said.
 *
 * Used on both ends of the channel: system calls only.
 */
#ifndef TIDE_SPACE_H
#define TIDE_SPACE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TIDE_SPACE_SPARE "spare"
#define TIDE_SPACE_FULL  "full-" /* and then "marks-" or "heap-" */

/* Whether a file system is left as described when so many bytes more are taken. shared: of it three quarters
 * must stay free. */
static inline bool tide_space_for(int directory, bool shared, uint64_t bytes)
{
    struct statvfs about;
    if (fstatvfs(directory, &about))
        return true;
    uint64_t free_bytes = (uint64_t)about.f_bavail * about.f_frsize,
             all = (uint64_t)about.f_blocks * about.f_frsize;
    if (!all) /* it has no limit of its own */
        return true;
    return bytes <= free_bytes && (shared ? free_bytes - bytes >= all / 4 * 3 : bytes <= free_bytes / 4);
}

/* Whether the directory of a channel has the link. */
static inline bool tide_space_is_shared(int directory)
{
    return !faccessat(directory, TIDE_SPACE_SPARE, F_OK, AT_SYMLINK_NOFOLLOW);
}

/* Whether what was taken may be kept. */
static inline bool tide_space_keeps(int directory)
{
    return tide_space_for(directory, tide_space_is_shared(directory), 0);
}

/* A directory, to be closed; -1: there is none. Not by the C library's open(), where a thread can be
 * cancelled. */
static inline int tide_space_open(int directory, const char *path)
{
    return (int)syscall(SYS_openat, directory, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

#endif
