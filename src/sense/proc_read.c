#include "sense/proc_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { PID_PATH = 64 };

/* One read, not read until the end: the kernel makes these files whole at the first one. */
ssize_t tide_proc_reread(int fd, char *buf, size_t size)
{
    ssize_t got;
    do
        got = pread(fd, buf, size - 1, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    buf[got] = '\0';
    return got;
}

ssize_t tide_proc_read(int dir_fd, const char *path, char *buf, size_t size)
{
    int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t len = tide_proc_reread(fd, buf, size);
    close(fd);
    return len;
}

ssize_t tide_proc_read_pid(int dir_fd, int64_t pid, const char *leaf, char *buf, size_t size)
{
    char path[PID_PATH];
    snprintf(path, sizeof path, "%" PRId64 "/%s", pid, leaf);
    return tide_proc_read(dir_fd, path, buf, size);
}

int tide_proc_open_pid(int dir_fd, int64_t pid, const char *leaf)
{
    char path[PID_PATH];
    snprintf(path, sizeof path, "%" PRId64 "/%s", pid, leaf);
    int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}
