#include "sense/shared.h"

#include "base/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILES_MOST = 4096, /* of a look, in /dev/shm */
    OPEN_MOST = 4096,  /* descriptors of a look, of all processes together: about 2 us each */
    LINES_MOST = 8192, /* of maps of a look, likewise: about 1 us each */
    OURS_MOST = 65536,
};

static const int64_t said_again_ns = TIDE_NS_PER_S;
static const int64_t cost_share = 200; /* looks may take one part in so many of the time */

void tide_shared_init(struct tide_shared *shared, const char *path)
{
    *shared = (struct tide_shared){.path = path, .looked_ns = TIDE_UNKNOWN, .written_bytes = TIDE_UNKNOWN};
    tide_map_init(&shared->seen, OPEN_MOST);
    tide_map_init(&shared->ours, OURS_MOST);
}

void tide_shared_release(struct tide_shared *shared)
{
    tide_map_release(&shared->seen);
    tide_map_release(&shared->ours);
}

static int64_t size_of(const struct stat *info)
{
    return (int64_t)info->st_blocks * 512;
}

static bool has(const struct tide_map *map, uint64_t key)
{
    uint64_t ignored;
    return tide_map_get(map, key, &ignored);
}

static DIR *open_directory(int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !directory)
        close(fd);
    return directory;
}

/* Whether a name has a PID of the tree in it, as a word of its own: segments are often called so. */
static bool names_member(const struct tide_tree *tree, const char *name)
{
    for (const char *at = name; *at;) {
        char *end = (char *)at + 1;
        bool begins = at == name || !isalnum((unsigned char)at[-1]);
        int64_t number = isdigit((unsigned char)*at) ? strtoll(at, &end, 10) : 0;
        if (begins && number > 1 && !isalnum((unsigned char)*end) && tide_tree_find(tree, number))
            return true;
        at = end;
    }
    return false;
}

/* What the directory holds of the tree's. */
static int64_t bytes_of_files(struct tide_shared *shared, const struct tide_tree *tree)
{
    DIR *directory = open_directory(AT_FDCWD, shared->path);
    const struct dirent *entry;
    int64_t bytes = 0;
    for (int i = 0; directory && i < FILES_MOST && (entry = readdir(directory)); i++) {
        struct stat info;
        if (entry->d_name[0] == '.' || fstatat(dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(info.st_mode))
            continue;
        if (!has(&shared->ours, info.st_ino) && names_member(tree, entry->d_name))
            tide_map_put(&shared->ours, info.st_ino, 1);
        if (has(&shared->ours, info.st_ino))
            bytes += size_of(&info);
    }
    if (directory)
        closedir(directory);
    return bytes;
}

static bool is_in(const char *name, const char *path)
{
    size_t len = strlen(path);
    return !strncmp(name, path, len) && name[len] == '/';
}

/* What a process has open: files of the directory become the tree's, and memory that no directory names
 * counts by itself, once. */
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
        bool file = is_in(link, shared->path);
        if ((!file && strncmp(link, "/memfd:", 7) != 0) || fstatat(dirfd(directory), entry->d_name, &info, 0))
            continue;
        if (file && info.st_nlink > 0)
            tide_map_put(&shared->ours, info.st_ino, 1);
        else if (!has(&shared->seen, info.st_ino) && tide_map_put(&shared->seen, info.st_ino, 1) == 0)
            bytes += size_of(&info);
    }
    if (directory)
        closedir(directory);
    return bytes;
}

/* Files of the directory that a process maps become the tree's. */
static void find_mapped(struct tide_shared *shared, const struct tide_tree *tree, int64_t pid, int *left)
{
    char path[64], *line = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%lld/maps", (long long)pid);
    int fd = openat(tree->proc_fd, path, O_RDONLY | O_CLOEXEC);
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    while (maps && (*left)-- > 0 && getline(&line, &size, maps) > 0) {
        unsigned long long inode;
        int name = 0;
        if (strstr(line, shared->path) && sscanf(line, "%*s %*s %*s %*s %llu %n", &inode, &name) == 1 &&
            name > 0 && is_in(line + name, shared->path))
            tide_map_put(&shared->ours, inode, 1);
    }
    free(line);
    if (maps)
        fclose(maps);
    else if (fd >= 0)
        close(fd);
}

bool tide_shared_look(struct tide_shared *shared, const struct tide_tree *tree, int64_t now_ns)
{
    if (!shared->path ||
        (shared->looked_ns != TIDE_UNKNOWN && now_ns - shared->looked_ns < cost_share * shared->cost_ns))
        return false;
    int64_t began_ns = tide_clock_ns();
    int open_left = OPEN_MOST, lines_left = LINES_MOST;
    shared->looked_ns = now_ns;
    shared->bytes = 0;
    tide_map_clear(&shared->seen);
    for (size_t i = 0; i < tree->member_count; i++) {
        const struct tide_member *member = tree->members[i];
        if (member->ended)
            continue;
        shared->bytes += bytes_open(shared, tree, member->pid, &open_left);
        if (member->now.shmem_bytes > 0)
            find_mapped(shared, tree, member->pid, &lines_left);
    }
    shared->bytes += bytes_of_files(shared, tree);
    shared->cost_ns = tide_clock_ns() - began_ns;
    if (shared->written_bytes == TIDE_UNKNOWN)
        return shared->bytes > 0;
    return shared->bytes != shared->written_bytes || now_ns - shared->written_ns >= said_again_ns;
}
