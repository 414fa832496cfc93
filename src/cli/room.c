#include "cli/room.h"
#include "sense/cgroup.h"
#include "sense/proc_read.h"

#include <fcntl.h>
#include <unistd.h>

static int64_t host_room(int proc)
{
    char text[4096];
    struct tide_proc_meminfo host;
    ssize_t len = tide_proc_read(proc, "meminfo", text, sizeof text);
    return len < 0 || tide_proc_parse_meminfo(text, &host) ? TIDE_UNKNOWN : host.available_bytes;
}

/* Returns the limit itself: much of the group's usage is page cache, which can be reclaimed. */
static int64_t group_room(int proc)
{
    struct tide_cgroup group;
    tide_cgroup_init(&group, "/sys/fs/cgroup", proc);
    tide_cgroup_follow(&group, getpid());
    int64_t limit = group.limit_bytes;
    tide_cgroup_release(&group);
    return limit;
}

int64_t tide_room_bytes(void)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return TIDE_UNKNOWN;
    int64_t host = host_room(proc), group = group_room(proc);
    close(proc);
    return host == TIDE_UNKNOWN || (group != TIDE_UNKNOWN && group < host) ? group : host;
}
