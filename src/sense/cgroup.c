#include "sense/cgroup.h"

#include "sense/proc_read.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The same files and keys under their names in the two versions. */
struct file_names {
    const char *current, *peak, *limit, *high, *events, *kill_key, *hits, *hit_key;
};

static const struct file_names version_2 = {
    .current = "memory.current",
    .peak = "memory.peak",
    .limit = "memory.max",
    .high = "memory.high",
    .events = "memory.events",
    .kill_key = "oom_kill",
    .hits = "memory.events",
    .hit_key = "max",
};
static const struct file_names version_1 = {
    .current = "memory.usage_in_bytes",
    .peak = "memory.max_usage_in_bytes",
    .limit = "memory.limit_in_bytes",
    .high = NULL,
    .events = "memory.oom_control",
    .kill_key = "oom_kill",
    .hits = "memory.failcnt",
    .hit_key = NULL, /* the file is the number */
};

static const struct file_names *names_of(const struct tide_cgroup *cgroup)
{
    return cgroup->unified ? &version_2 : &version_1;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void tide_cgroup_release(struct tide_cgroup *cgroup)
{
    close_fd(&cgroup->current_fd);
    close_fd(&cgroup->peak_fd);
    close_fd(&cgroup->events_fd);
    close_fd(&cgroup->pressure_fd);
    close_fd(&cgroup->limit_events_fd);
    cgroup->directory[0] = '\0';
    cgroup->limit_name[0] = cgroup->high_name[0] = '\0';
    cgroup->limit_bytes = cgroup->high_bytes = TIDE_UNKNOWN;
    cgroup->current_bytes = cgroup->peak_bytes = cgroup->pressure_ppm = TIDE_UNKNOWN;
    cgroup->kills = cgroup->kills_before = cgroup->hits = TIDE_UNKNOWN;
}

void tide_cgroup_init(struct tide_cgroup *cgroup, const char *root, int proc_fd)
{
    *cgroup = (struct tide_cgroup){
        .root = root,
        .proc_fd = proc_fd,
        .current_fd = -1,
        .peak_fd = -1,
        .events_fd = -1,
        .pressure_fd = -1,
        .limit_events_fd = -1,
    };
    tide_cgroup_release(cgroup);
}

/* A descriptor of directory/name, or -1. */
static int open_in(const char *directory, const char *name)
{
    char path[TIDE_CGROUP_DIRECTORY + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int64_t bytes_in(const char *directory, const char *name)
{
    char path[TIDE_CGROUP_DIRECTORY + 64], text[64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    ssize_t len = tide_proc_read(AT_FDCWD, path, text, sizeof text);
    return len < 0 ? TIDE_UNKNOWN : tide_proc_parse_bytes(text);
}

static bool is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool has_file(const char *directory, const char *name)
{
    int fd = open_in(directory, name);
    if (fd < 0)
        return false;
    close(fd);
    return true;
}

/* Skips leading "/.." parts, which lie outside the mounted part of the hierarchy. */
static const char *inside(const char *path)
{
    while (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0'))
        path += 3;
    return path;
}

/* Finds the directory of `path` below root/subdirectory. False if even the mount point does not exist. */
static bool locate(struct tide_cgroup *cgroup, const char *subdirectory, const char *path)
{
    char *directory = cgroup->directory;
    int mount = snprintf(directory, TIDE_CGROUP_DIRECTORY, "%s%s", cgroup->root, subdirectory);
    if (mount < 0 || mount >= TIDE_CGROUP_DIRECTORY - TIDE_PROC_CGROUP_PATH || !is_directory(directory)) {
        directory[0] = '\0';
        return false;
    }
    cgroup->mount_len = (size_t)mount;
    /* Looks for the longest tail of the path that exists: the mount may show only a part of the hierarchy. */
    for (path = inside(path); path && path[0] == '/' && path[1]; path = strchr(path + 1, '/')) {
        snprintf(directory + mount, TIDE_CGROUP_DIRECTORY - (size_t)mount, "%s", path);
        if (!strstr(path, "/../") && is_directory(directory))
            return true;
    }
    directory[mount] = '\0';
    return true;
}

/* Chooses the hierarchy that has memory files: version 1 first, because its line names the controller. */
static void enter_group(struct tide_cgroup *cgroup)
{
    const struct tide_proc_cgroup *paths = &cgroup->paths;
    cgroup->unified = false;
    if (paths->memory_path[0] && locate(cgroup, "/memory", paths->memory_path) &&
        has_file(cgroup->directory, version_1.current))
        return;
    cgroup->unified = true;
    static const char *const places[] = {"", "/unified"};
    for (size_t i = 0; i < 2 && paths->unified_path[0]; i++)
        if (locate(cgroup, places[i], paths->unified_path) && has_file(cgroup->directory, "cgroup.procs"))
            return;
    cgroup->directory[0] = '\0';
}

/* key NULL: the file is the number. */
static int64_t read_counter(int fd, const char *key)
{
    char text[1024];
    ssize_t len = fd < 0 ? -1 : tide_proc_reread(fd, text, sizeof text);
    if (len < 0)
        return TIDE_UNKNOWN;
    return key ? tide_proc_parse_counter(text, key) : tide_proc_parse_bytes(text);
}

static void open_group(struct tide_cgroup *cgroup)
{
    const struct file_names *names = names_of(cgroup);
    cgroup->current_fd = open_in(cgroup->directory, names->current);
    cgroup->peak_fd = open_in(cgroup->directory, names->peak);
    cgroup->events_fd = open_in(cgroup->directory, names->events);
    if (cgroup->unified)
        cgroup->pressure_fd = open_in(cgroup->directory, "memory.pressure");
    cgroup->kills_before = read_counter(cgroup->events_fd, names->kill_key);
}

/* "cgroup /a/b memory.max", with the path as it is below the mount point. */
static void name_limit(const struct tide_cgroup *cgroup, const char *directory, const char *file,
                       char out[static TIDE_CGROUP_NAME])
{
    const char *path = directory + cgroup->mount_len;
    snprintf(out, TIDE_CGROUP_NAME, "cgroup %s %s", path[0] ? path : "/", file);
}

/* Walks from the group to the mount point and keeps the lowest of each limit. */
static void find_limits(struct tide_cgroup *cgroup)
{
    const struct file_names *names = names_of(cgroup);
    char directory[TIDE_CGROUP_DIRECTORY], old_name[TIDE_CGROUP_NAME];
    memcpy(directory, cgroup->directory, sizeof directory);
    memcpy(old_name, cgroup->limit_name, sizeof old_name);
    cgroup->limit_bytes = cgroup->high_bytes = TIDE_UNKNOWN;
    cgroup->limit_name[0] = cgroup->high_name[0] = '\0';
    int events_fd = -1;
    for (;;) {
        int64_t limit = bytes_in(directory, names->limit);
        if (limit >= 0 && (cgroup->limit_bytes < 0 || limit < cgroup->limit_bytes)) {
            cgroup->limit_bytes = limit;
            name_limit(cgroup, directory, names->limit, cgroup->limit_name);
            close_fd(&events_fd);
            events_fd = open_in(directory, names->hits);
        }
        int64_t high = names->high ? bytes_in(directory, names->high) : TIDE_UNKNOWN;
        if (high >= 0 && (cgroup->high_bytes < 0 || high < cgroup->high_bytes)) {
            cgroup->high_bytes = high;
            name_limit(cgroup, directory, names->high, cgroup->high_name);
        }
        char *slash = strrchr(directory + cgroup->mount_len, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
    close_fd(&cgroup->limit_events_fd);
    cgroup->limit_events_fd = events_fd;
    if (strcmp(old_name, cgroup->limit_name) != 0)
        cgroup->hits = TIDE_UNKNOWN; /* another group's count */
}

/* True if a process has ended or is about to: in version 1 it is then already in the topmost group. Call it
 * after reading the process's group. */
static bool is_ending(const struct tide_cgroup *cgroup, int64_t pid)
{
    struct tide_stat stat;
    return tide_proc_read_stat(cgroup->proc_fd, pid, &stat) != 0 || stat.exiting;
}

void tide_cgroup_follow(struct tide_cgroup *cgroup, int64_t pid)
{
    char text[8192];
    struct tide_proc_cgroup paths;
    ssize_t len = tide_proc_read_pid(cgroup->proc_fd, pid, "cgroup", text, sizeof text);
    if (len >= 0 && tide_proc_parse_cgroup(text, &paths) == 0 &&
        (strcmp(paths.memory_path, cgroup->paths.memory_path) != 0 ||
         strcmp(paths.unified_path, cgroup->paths.unified_path) != 0) &&
        !is_ending(cgroup, pid)) {
        tide_cgroup_release(cgroup);
        cgroup->paths = paths;
        enter_group(cgroup);
        if (cgroup->directory[0])
            open_group(cgroup);
    }
    if (cgroup->directory[0])
        find_limits(cgroup);
}

void tide_cgroup_read(struct tide_cgroup *cgroup)
{
    const struct file_names *names = names_of(cgroup);
    char text[512];
    cgroup->current_bytes = read_counter(cgroup->current_fd, NULL);
    cgroup->peak_bytes = read_counter(cgroup->peak_fd, NULL);
    cgroup->kills = read_counter(cgroup->events_fd, names->kill_key);
    cgroup->hits = read_counter(cgroup->limit_events_fd, names->hit_key);
    /* Without a pressure file of the group, use the pressure of the whole machine. */
    ssize_t len = cgroup->pressure_fd >= 0
                      ? tide_proc_reread(cgroup->pressure_fd, text, sizeof text)
                      : tide_proc_read(cgroup->proc_fd, "pressure/memory", text, sizeof text);
    cgroup->pressure_ppm = len < 0 ? TIDE_UNKNOWN : tide_proc_parse_pressure(text);
}
