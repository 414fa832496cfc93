#include "sense/shared_memory.h"

#include "base/clock.h"
#include "sense/proc_read.h"
#include "sense/unmapped.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILES_MOST = 4096, /* files of /dev/shm read in one look */
    OPEN_MOST = 4096,  /* descriptors of all processes read in one look: about 2 us each */
    LINES_MOST = 8192, /* lines of all maps read in one look: about 1 us each */
    OWNERS_MOST = 65536,
};

enum { OURS = 1, THEIRS };

static const int64_t said_again_ns = TIDE_NS_PER_S;
static const int64_t cost_share = 200; /* looks may take one part in so many of the time */

void tide_shared_init(struct tide_shared *shared, const char *path)
{
    *shared = (struct tide_shared){
        .path = path, .looked_ns = TIDE_UNKNOWN, .asked_ns = TIDE_UNKNOWN, .written_bytes = TIDE_UNKNOWN};
    tide_map_init(&shared->seen, OPEN_MOST);
    tide_map_init(&shared->mapped, LINES_MOST);
    tide_map_init(&shared->owners, OWNERS_MOST);
    tide_map_init(&shared->stems, OWNERS_MOST);
}

void tide_shared_release(struct tide_shared *shared)
{
    tide_map_release(&shared->seen);
    tide_map_release(&shared->mapped);
    tide_map_release(&shared->owners);
    tide_map_release(&shared->stems);
}

static const char memfd[] = "/memfd:"; /* the kernel's name for memory without a directory entry */

/* Inodes of the directory and of memfds are numbered independently. */
static uint64_t key_of(uint64_t inode, bool named)
{
    return inode << 1 | named;
}

/* Counts a segment of the tree. */
static void count(struct tide_shared *shared, const struct stat *info, bool named)
{
    int64_t bytes = (int64_t)info->st_blocks * 512;
    shared->bytes += bytes;
    if (!tide_map_get(&shared->mapped, key_of(info->st_ino, named), NULL))
        shared->unmapped_bytes += bytes;
}

/* OURS, THEIRS, or 0: not known. */
static uint64_t owner_of(const struct tide_map *map, uint64_t key)
{
    uint64_t owner = 0;
    return tide_map_get(map, key, &owner) ? owner : 0;
}

static bool is_in(const char *name, const char *path)
{
    size_t len = strlen(path);
    return !strncmp(name, path, len) && name[len] == '/';
}

/* Key of the start of a segment's name; 0: it has no such part. */
static uint64_t stem_of(const char *name)
{
    size_t len = strcspn(name, "_-.");
    return len && name[len] ? tide_map_key(TIDE_MAP_SEED, name, len + 1) : 0;
}

/* Marks a segment, given by its path, as the tree's. */
static void take(struct tide_shared *shared, const char *path, uint64_t inode)
{
    uint64_t stem = stem_of(path + strlen(shared->path) + 1);
    tide_map_put(&shared->owners, inode, OURS);
    if (stem && !owner_of(&shared->stems, stem))
        tide_map_put(&shared->stems, stem, OURS);
}

/* True if a name contains a PID of the tree as a separate word, as names of segments often do. */
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

/* Marks the name starts that other processes use as THEIRS: they do not identify the tree. */
static void leave_to_others(struct tide_shared *shared, const struct tide_tree *tree)
{
    int left = OPEN_MOST;
    DIR *processes = tide_list_directory(tree->proc_fd, ".");
    const struct dirent *process;
    while (processes && left > 0 && (process = readdir(processes))) {
        char link[256];
        int64_t pid = strtoll(process->d_name, NULL, 10);
        if (pid < 1 || tide_tree_find(tree, pid))
            continue;
        DIR *open = tide_proc_list_pid(tree->proc_fd, pid, "fd");
        while (open && left-- > 0 && tide_proc_next_link(open, link, sizeof link)) {
            uint64_t stem = is_in(link, shared->path) ? stem_of(link + strlen(shared->path) + 1) : 0;
            if (stem)
                tide_map_put(&shared->stems, stem, THEIRS);
        }
        if (open)
            closedir(open);
    }
    if (processes)
        closedir(processes);
}

static bool is_due(int64_t last_ns, int64_t cost_ns, int64_t now_ns)
{
    return last_ns == TIDE_UNKNOWN || now_ns - last_ns >= cost_share * cost_ns;
}

/* True if only the tree uses such names, as far as is known. */
static bool is_its_stem(struct tide_shared *shared, const struct tide_tree *tree, uint64_t stem)
{
    if (owner_of(&shared->stems, stem) != OURS)
        return false;
    if (is_due(shared->asked_ns, shared->asking_ns, shared->looked_ns)) {
        int64_t began_ns = tide_clock_thread_ns();
        leave_to_others(shared, tree);
        shared->asked_ns = shared->looked_ns;
        shared->asking_ns = tide_clock_thread_ns() - began_ns;
    }
    return owner_of(&shared->stems, stem) == OURS;
}

/* True if the file's owner is the user that the tree runs as. */
static bool is_by_its_user(const struct tide_tree *tree, const struct stat *info)
{
    char path[32];
    struct stat process;
    for (size_t i = 0; i < tree->member_count; i++) {
        snprintf(path, sizeof path, "%lld", (long long)tree->members[i]->pid);
        if (!tree->members[i]->ended && fstatat(tree->proc_fd, path, &process, 0) == 0)
            return process.st_uid == info->st_uid;
    }
    return false;
}

/* Counts the tree's segments in the directory. */
static void count_files(struct tide_shared *shared, const struct tide_tree *tree, bool first)
{
    DIR *directory = tide_list_directory(AT_FDCWD, shared->path);
    const struct dirent *entry;
    for (int i = 0; directory && i < FILES_MOST && (entry = readdir(directory)); i++) {
        struct stat info;
        if (entry->d_name[0] == '.' || fstatat(dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(info.st_mode))
            continue;
        uint64_t owner = owner_of(&shared->owners, info.st_ino), stem = stem_of(entry->d_name);
        if (!owner && names_member(tree, entry->d_name))
            tide_map_put(&shared->owners, info.st_ino, owner = OURS);
        if (!owner && first)
            tide_map_put(&shared->owners, info.st_ino, owner = THEIRS);
        if (!owner && is_by_its_user(tree, &info) && is_its_stem(shared, tree, stem))
            tide_map_put(&shared->owners, info.st_ino, owner = OURS);
        if (owner == OURS)
            count(shared, &info, true);
    }
    if (directory)
        closedir(directory);
}

/* Reads what a process has open. Files of the directory become the tree's. Memory without a name is counted
 * here, once. */
static void count_open(struct tide_shared *shared, const struct tide_tree *tree, int64_t pid, int *left)
{
    char link[256];
    DIR *directory = tide_proc_list_pid(tree->proc_fd, pid, "fd");
    const char *name;
    while (*left > 0 && (name = tide_proc_next_link(directory, link, sizeof link))) {
        struct stat info;
        (*left)--;
        bool file = is_in(link, shared->path);
        if ((!file && strncmp(link, memfd, strlen(memfd)) != 0) || fstatat(dirfd(directory), name, &info, 0))
            continue;
        if (file && info.st_nlink > 0)
            take(shared, link, info.st_ino);
        else if (!owner_of(&shared->seen, info.st_ino) && tide_map_put(&shared->seen, info.st_ino, 1) == 0)
            count(shared, &info, file);
    }
    if (directory)
        closedir(directory);
}

/* Reads what a process maps. Files of the directory become the tree's. */
static void find_mapped(struct tide_shared *shared, const struct tide_tree *tree, int64_t pid, int *left)
{
    char *line = NULL;
    size_t size = 0;
    FILE *maps = tide_proc_stream_pid(tree->proc_fd, pid, "maps");
    while (maps && (*left)-- > 0 && getline(&line, &size, maps) > 0) {
        unsigned long long inode;
        int name = 0;
        if ((!strstr(line, shared->path) && !strstr(line, memfd)) ||
            sscanf(line, "%*s %*s %*s %*s %llu %n", &inode, &name) != 1 || name == 0)
            continue;
        bool named = is_in(line + name, shared->path);
        if (named)
            take(shared, line + name, inode);
        if (named || !strncmp(line + name, memfd, strlen(memfd)))
            tide_map_put(&shared->mapped, key_of(inode, named), 1);
    }
    free(line);
    if (maps)
        fclose(maps);
}

/* Adds the growth of the tree's group that nothing above explains. Keeps the last value when other processes
 * join the group. */
static void count_unfound(struct tide_shared *shared, const struct tide_cgroup *cgroup,
                          const struct tide_tree *tree)
{
    int64_t unmapped = tide_unmapped_bytes(cgroup, tree);
    if (unmapped != TIDE_UNKNOWN) {
        uint64_t group = tide_map_text_key(cgroup->directory);
        unmapped = unmapped > shared->unmapped_bytes ? unmapped - shared->unmapped_bytes : 0;
        if (group != shared->group || unmapped < shared->group_bytes)
            shared->group_bytes = unmapped;
        shared->group = group;
        shared->unfound_bytes = unmapped - shared->group_bytes;
    }
    shared->bytes += shared->unfound_bytes;
}

bool tide_shared_look(struct tide_shared *shared, const struct tide_cgroup *cgroup,
                      const struct tide_tree *tree, int64_t now_ns)
{
    if (!shared->path || !is_due(shared->looked_ns, shared->cost_ns, now_ns))
        return false;
    int64_t began_ns = tide_clock_thread_ns(), asked_ns = shared->asked_ns;
    bool first = shared->looked_ns == TIDE_UNKNOWN;
    int open_left = OPEN_MOST, lines_left = LINES_MOST;
    shared->looked_ns = now_ns;
    shared->bytes = shared->unmapped_bytes = 0;
    tide_map_clear(&shared->seen);
    tide_map_clear(&shared->mapped);
    for (size_t i = 0; i < tree->member_count; i++)
        if (!tree->members[i]->ended && tree->members[i]->now.counters.shmem_bytes > 0)
            find_mapped(shared, tree, tree->members[i]->pid, &lines_left);
    for (size_t i = 0; i < tree->member_count; i++)
        if (!tree->members[i]->ended)
            count_open(shared, tree, tree->members[i]->pid, &open_left);
    count_files(shared, tree, first);
    count_unfound(shared, cgroup, tree);
    shared->cost_ns =
        tide_clock_thread_ns() - began_ns - (shared->asked_ns != asked_ns ? shared->asking_ns : 0);
    if (shared->written_bytes == TIDE_UNKNOWN)
        return shared->bytes > 0;
    return shared->bytes != shared->written_bytes || now_ns - shared->written_ns >= said_again_ns;
}
