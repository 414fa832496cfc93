#include "sense/proc_read.h"
#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { PID_PATH = 64, STAT_TEXT = 1024 };

/* A single read suffices, because the kernel produces the whole file at the first one. */
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

static const char *path_of(int dir_fd, int64_t pid, const char *leaf, char path[static PID_PATH])
{
    snprintf(path, PID_PATH, "%s%" PRId64 "/%s", dir_fd == AT_FDCWD ? "/proc/" : "", pid, leaf);
    return path;
}

ssize_t tide_proc_read_pid(int dir_fd, int64_t pid, const char *leaf, char *buf, size_t size)
{
    char path[PID_PATH];
    return tide_proc_read(dir_fd, path_of(dir_fd, pid, leaf, path), buf, size);
}

int tide_proc_read_stat(int dir_fd, int64_t pid, struct tide_stat *ret_stat)
{
    char text[STAT_TEXT];
    struct tide_stat stat;
    ssize_t len = tide_proc_read_pid(dir_fd, pid, "stat", text, sizeof text);
    if (len < 0)
        return (int)len;
    if (tide_stat_parse(text, (size_t)len, &stat) || stat.pid != pid)
        return -EINVAL;
    *ret_stat = stat;
    return 0;
}

int tide_proc_open_pid(int dir_fd, int64_t pid, const char *leaf)
{
    char path[PID_PATH];
    int fd = openat(dir_fd, path_of(dir_fd, pid, leaf, path), O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

FILE *tide_proc_stream_pid(int dir_fd, int64_t pid, const char *leaf)
{
    int fd = tide_proc_open_pid(dir_fd, pid, leaf);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !stream)
        close(fd);
    return stream;
}

DIR *tide_proc_list_pid(int dir_fd, int64_t pid, const char *leaf)
{
    char path[PID_PATH];
    return tide_list_directory(dir_fd, path_of(dir_fd, pid, leaf, path));
}

const char *tide_proc_next_link(DIR *directory, char *ret_target, size_t size)
{
    const struct dirent *entry = directory ? readdir(directory) : NULL;
    ssize_t len = entry ? readlinkat(dirfd(directory), entry->d_name, ret_target, size - 1) : 0;
    ret_target[len > 0 ? len : 0] = '\0';
    return entry ? entry->d_name : NULL;
}
