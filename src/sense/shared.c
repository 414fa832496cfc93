#include "sense/shared.h"

#include "base/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILES_MOST = 4096, /* of a look, in /dev/shm */
    OPEN_MOST = 4096,  /* descriptors of a look, of all processes together: about 2 us each */
};

static const int64_t said_again_ns = TIDE_NS_PER_S;
static const int64_t cost_share = 200; /* looks may take one part in so many of the time */

void tide_shared_init(struct tide_shared *shared, const char *path)
{
    *shared = (struct tide_shared){
        .path = path, .user = getuid(), .looked_ns = TIDE_UNKNOWN, .written_bytes = TIDE_UNKNOWN};
    clock_gettime(CLOCK_REALTIME_COARSE, &shared->since); /* as the kernel stamps files */
    tide_map_init(&shared->seen, OPEN_MOST);
}

void tide_shared_release(struct tide_shared *shared)
{
    tide_map_release(&shared->seen);
}

static int64_t size_of(const struct stat *info)
{
    return (int64_t)info->st_blocks * 512;
}

static bool is_new(const struct tide_shared *shared, const struct stat *info)
{
    const struct timespec *then = &info->st_ctim, *since = &shared->since;
    return then->tv_sec > since->tv_sec || (then->tv_sec == since->tv_sec && then->tv_nsec >= since->tv_nsec);
}

static DIR *open_directory(int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !directory)
        close(fd);
    return directory;
}

static int64_t bytes_of_files(const struct tide_shared *shared)
{
    DIR *directory = open_directory(AT_FDCWD, shared->path);
    const struct dirent *entry;
    int64_t bytes = 0;
    for (int i = 0; directory && i < FILES_MOST && (entry = readdir(directory)); i++) {
        struct stat info;
        if (fstatat(dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode) && info.st_uid == shared->user && is_new(shared, &info))
            bytes += size_of(&info);
    }
    if (directory)
        closedir(directory);
    return bytes;
}

/* Whether a link in /proc/PID/fd says that its file is memory that no directory names. */
static bool is_nameless(const char *link, const char *path)
{
    static const char deleted[] = " (deleted)";
    size_t len = strlen(link), in = strlen(path);
    return !strncmp(link, "/memfd:", 7) ||
           (!strncmp(link, path, in) && link[in] == '/' && len > sizeof deleted &&
            !strcmp(link + len - strlen(deleted), deleted));
}

static int64_t bytes_open(struct tide_shared *shared, const struct tide_tree *tree, int64_t pid, int *left)
{
    char path[64], link[256];
    snprintf(path, sizeof path, "%lld/fd", (long long)pid);
    DIR *directory = open_directory(tree->proc_fd, path);
    const struct dirent *entry;
    int64_t bytes = 0;
    while (directory && *left > 0 && (entry = readdir(directory))) {
        struct stat info;
        ssize_t len = readlinkat(dirfd(directory), entry->d_name, link, sizeof link - 1);
        (*left)--;
        if (len <= 0)
            continue;
        link[len] = '\0';
        if (!is_nameless(link, shared->path) || fstatat(dirfd(directory), entry->d_name, &info, 0) != 0)
            continue;
        uint64_t file[] = {info.st_dev, info.st_ino}, ignored;
        uint64_t key = tide_map_key(TIDE_MAP_SEED, file, sizeof file);
        if (!tide_map_get(&shared->seen, key, &ignored) && tide_map_put(&shared->seen, key, 1) == 0)
            bytes += size_of(&info);
    }
    if (directory)
        closedir(directory);
    return bytes;
}

bool tide_shared_look(struct tide_shared *shared, const struct tide_tree *tree, int64_t now_ns)
{
    if (!shared->path ||
        (shared->looked_ns != TIDE_UNKNOWN && now_ns - shared->looked_ns < cost_share * shared->cost_ns))
        return false;
    int64_t began_ns = tide_clock_ns();
    int left = OPEN_MOST;
    shared->looked_ns = now_ns;
    shared->bytes = bytes_of_files(shared);
    tide_map_clear(&shared->seen);
    for (size_t i = 0; i < tree->member_count && left > 0; i++)
        if (!tree->members[i]->ended)
            shared->bytes += bytes_open(shared, tree, tree->members[i]->pid, &left);
    shared->cost_ns = tide_clock_ns() - began_ns;
    if (shared->written_bytes == TIDE_UNKNOWN)
        return shared->bytes > 0;
    return shared->bytes != shared->written_bytes || now_ns - shared->written_ns >= said_again_ns;
}
