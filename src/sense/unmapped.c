#include "sense/unmapped.h"

#include "base/map.h"
#include "channel/file.h"
#include "sense/proc_read.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DEEPEST = 64,      /* ancestors followed */
    FILES_MOST = 4096, /* of the tracker */
};

/* --- who is in the group ------------------------------------------------------------------------------- */

/* -1 if the process has ended. */
static int64_t parent_of(const struct tide_tree *tree, int64_t pid)
{
    struct tide_stat stat;
    return tide_proc_read_stat(tree->proc_fd, pid, &stat) ? -1 : stat.parent_pid;
}

static bool is_above(const struct tide_tree *tree, int64_t pid, int64_t below)
{
    for (int i = 0; i < DEEPEST && below > 0; i++)
        if ((below = parent_of(tree, below)) == pid)
            return true;
    return false;
}

static bool is_ours(const struct tide_tree *tree, int64_t pid)
{
    for (size_t i = 0; i < TIDE_TREE_HIDDEN; i++)
        if (pid == tree->hidden_pids[i])
            return true;
    return pid == tree->self_pid || tide_tree_find(tree, pid);
}

/* True if a process is neither in the tree, nor ours, nor an ancestor that waits for either. Of a new process
 * its ancestors decide; one that has ended has no memory. */
static bool is_other(const struct tide_tree *tree, int64_t pid)
{
    if (pid <= 0)
        return true;
    int64_t above = is_ours(tree, pid) ? -1 : parent_of(tree, pid);
    if (above < 0)
        return false;
    for (int i = 0; i < DEEPEST && above > 0; i++, above = parent_of(tree, above))
        if (is_ours(tree, above))
            return false;
    return !is_above(tree, pid, tree->self_pid) &&
           !(tree->member_count && is_above(tree, pid, tree->members[0]->pid));
}

static bool has_others(const struct tide_cgroup *cgroup, const struct tide_tree *tree)
{
    char path[TIDE_CGROUP_DIRECTORY + 32];
    long long pid;
    bool others = false;
    snprintf(path, sizeof path, "%s/cgroup.procs", cgroup->directory);
    FILE *processes = fopen(path, "re");
    if (!processes)
        return true;
    while (!others && fscanf(processes, "%lld", &pid) == 1)
        others = is_other(tree, pid);
    fclose(processes);
    return others;
}

/* --- how much there is --------------------------------------------------------------------------------- */

/* Reads a counter from one of the group's files. */
static int64_t counter_in(const struct tide_cgroup *cgroup, const char *file, const char *key)
{
    char path[TIDE_CGROUP_DIRECTORY + 32], text[8192];
    snprintf(path, sizeof path, "%s/%s", cgroup->directory, file);
    ssize_t len = tide_proc_read(AT_FDCWD, path, text, sizeof text);
    return len < 0 ? TIDE_UNKNOWN : tide_proc_parse_counter(text, key);
}

static int64_t mapped_bytes(const struct tide_tree *tree)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < tree->member_count; i++)
        if (!tree->members[i]->ended && tree->members[i]->now.counters.shmem_bytes > 0)
            bytes += tree->members[i]->now.counters.shmem_bytes;
    return bytes;
}

/* Bytes in memory of the regular files of a directory, each file once, and if `deeper` of those in its
 * subdirectories. Closes the directory. */
static int64_t bytes_in(DIR *directory, bool deeper, struct tide_map *seen)
{
    const struct dirent *entry;
    int64_t bytes = 0;
    while (directory && seen->count < FILES_MOST && (entry = readdir(directory))) {
        struct stat info;
        int fd = entry->d_name[0] == '.' ? -1 : openat(dirfd(directory), entry->d_name, O_PATH | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (tide_file_is_in_memory(fd) && fstat(fd, &info) == 0) {
            uint64_t who[] = {info.st_dev, info.st_ino}, key = tide_map_key(TIDE_MAP_SEED, who, sizeof who);
            bool new = !tide_map_get(seen, key, NULL) && tide_map_put(seen, key, 1) == 0;
            if (new &&S_ISREG(info.st_mode))
                bytes += (int64_t)info.st_blocks * 512;
            else if (new &&S_ISDIR(info.st_mode) && deeper)
                bytes += bytes_in(tide_list_directory(fd, "."), false, seen);
        }
        close(fd);
    }
    if (directory)
        closedir(directory);
    return bytes;
}

/* What the tracker has open, and what is in directories that it has open. */
static int64_t tracker_bytes(const struct tide_tree *tree)
{
    struct tide_map seen;
    tide_map_init(&seen, FILES_MOST);
    int64_t bytes = bytes_in(tide_proc_list_pid(tree->proc_fd, tree->self_pid, "fd"), true, &seen);
    tide_map_release(&seen);
    return bytes;
}

int64_t tide_unmapped_bytes(const struct tide_cgroup *cgroup, const struct tide_tree *tree)
{
    if (!cgroup->directory[0])
        return TIDE_UNKNOWN;
    int64_t bytes = counter_in(cgroup, "memory.stat", "shmem");
    /* Version 2 includes the groups below. */
    if (bytes < 0 || (cgroup->unified && counter_in(cgroup, "cgroup.stat", "nr_descendants") != 0) ||
        has_others(cgroup, tree))
        return TIDE_UNKNOWN;
    bytes -= mapped_bytes(tree) + tracker_bytes(tree);
    return bytes > 0 ? bytes : 0;
}
