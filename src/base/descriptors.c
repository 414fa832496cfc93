#include "base/descriptors.h"
#include "base/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool is_among(int fd, const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] == fd)
            return true;
    return false;
}

void tide_close_all_but(int first, const int *kept, size_t count)
{
    int behind = first; /* all that are kept */

    for (size_t i = 0; i < count; i++)
        behind = kept[i] >= behind ? kept[i] + 1 : behind;
    for (int fd = first; fd < behind; fd++)
        if (!is_among(fd, kept, count))
            close(fd);
    closefrom(behind);
}

DIR *tide_list_directory(int dir_fd, const char *path)
{
    int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !directory)
        close(fd);
    return directory;
}

ssize_t tide_read_at(int fd, void *to, size_t count, uint64_t at)
{
    size_t done = 0;

    while (done < count) {
        ssize_t got = pread(fd, (char *)to + done, count - done, (off_t)(at + done));
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -1;
        done += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)done;
}

int tide_write_all(int fd, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t put = write(fd, (const char *)bytes + done, count - done);
        if (put < 0 && errno != EINTR)
            return -1;
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

enum {
    USEFUL = 1 << 16, /* nobody keeps more open */
    SPARE = 256,      /* for the recording, pipes, drivers and files that are open only briefly */
};

void tide_descriptors_raise(struct rlimit *ret_before)
{
    struct rlimit limit;

    *ret_before = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    *ret_before = limit;
    if (limit.rlim_cur >= USEFUL)
        return;
    limit.rlim_cur = tide_smaller_size(limit.rlim_max, USEFUL);
    setrlimit(RLIMIT_NOFILE, &limit);
}

void tide_descriptors_restore(const struct rlimit *before)
{
    if (before->rlim_cur != RLIM_INFINITY)
        setrlimit(RLIMIT_NOFILE, before);
}

void tide_descriptors_init(struct tide_descriptors *descriptors)
{
    struct rlimit limit;
    size_t all = getrlimit(RLIMIT_NOFILE, &limit) != 0 ? 0 : tide_smaller_size(limit.rlim_cur, USEFUL);

    *descriptors = (struct tide_descriptors){.most = all > 2 * SPARE ? all - SPARE : all / 2};
}

bool tide_descriptors_take(struct tide_descriptors *descriptors)
{
    if (descriptors->kept >= descriptors->most)
        return false;
    descriptors->kept++;
    return true;
}

void tide_descriptors_give(struct tide_descriptors *descriptors)
{
    descriptors->kept--;
}
