#include "sense/proc_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Larger numbers are not sizes of memory. */
#define SANE_BYTES ((int64_t)1 << 60)

/* The line after this one; "" at the end. */
static const char *next_line(const char *line)
{
    line = strchrnul(line, '\n');
    return line + (*line == '\n');
}

/* What follows `start`, or NULL if the line does not begin with that. */
static const char *after(const char *line, const char *start)
{
    size_t len = strlen(start);
    return strncmp(line, start, len) == 0 ? line + len : NULL;
}

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " \t");
}

/* The decimal number after blanks, and where it ends. TIDE_UNKNOWN if there is none or it is too large. */
static int64_t next_number(const char *text, const char **ret_end)
{
    char *end = (char *)skip_blanks(text);
    bool digit = *end >= '0' && *end <= '9';
    long long value = digit ? strtoll(end, &end, 10) : INT64_MAX;
    *ret_end = digit ? end : text;
    return value == INT64_MAX ? TIDE_UNKNOWN : value;
}

static int64_t number_of(const char *text)
{
    const char *end;
    return next_number(text, &end);
}

/* Converts a number of units to bytes; TIDE_UNKNOWN if it is not a size. */
static int64_t size_of(const char *text, int64_t unit)
{
    int64_t number = number_of(text);
    return number < 0 || number >= SANE_BYTES / unit ? TIDE_UNKNOWN : number * unit;
}

/* A line that starts with `start`, and where its number goes. Numbers for the same place are added. */
struct field {
    const char *start;
    size_t place; /* offset of an int64_t */
    int64_t unit;
};

/* True if any of the lines is there. Fields that are missing or not a size are TIDE_UNKNOWN. */
static bool read_fields(const char *text, const struct field *fields, size_t count, void *ret)
{
    bool any = false;
    bool begins[256] = {false}; /* first bytes of wanted lines, to skip most others quickly */
    for (size_t i = 0; i < count; i++) {
        *(int64_t *)((char *)ret + fields[i].place) = TIDE_UNKNOWN;
        begins[(unsigned char)fields[i].start[0]] = true;
    }
    for (const char *line = text; *line; line = next_line(line))
        for (size_t i = 0; i < count && begins[(unsigned char)*line]; i++) {
            const char *value = after(line, fields[i].start);
            if (!value)
                continue;
            int64_t *sum = (int64_t *)((char *)ret + fields[i].place), size = size_of(value, fields[i].unit);
            if (size >= 0)
                *sum = *sum < 0 ? size : *sum > SANE_BYTES - size ? SANE_BYTES : *sum + size;
            any = true;
            break;
        }
    return any;
}

/* The kernel writes a newline in a name as \\n and a backslash as \\\\. */
static void copy_escaped_name(char out[static TIDE_STAT_NAME], const char *text)
{
    size_t used = 0;
    for (; *text && *text != '\n' && used < TIDE_STAT_NAME - 1; text++) {
        bool escaped = text[0] == '\\' && (text[1] == 'n' || text[1] == '\\');
        text += escaped;
        out[used++] = escaped && *text == 'n' ? '\n' : *text;
    }
    out[used] = '\0';
}

static void read_namespaces(const char *text, struct tide_proc_status *status)
{
    for (const char *end; status->namespace_count < TIDE_PROC_NAMESPACES; text = end) {
        int64_t pid = next_number(text, &end);
        if (end == text)
            break;
        status->namespace_pids[status->namespace_count++] = pid;
    }
}

int tide_proc_parse_status(const char *text, struct tide_proc_status *ret_status)
{
    struct found {
        struct tide_proc_status status;
        int64_t rss_bytes;
    } found = {.status = {.state = '?'}};
    static const struct field fields[] = {
        {"PPid:", offsetof(struct found, status.parent_pid), 1},
        {"Threads:", offsetof(struct found, status.counters.threads), 1},
        {"VmHWM:", offsetof(struct found, status.peak_bytes), 1024},
        {"VmRSS:", offsetof(struct found, rss_bytes), 1024},
        {"RssAnon:", offsetof(struct found, status.counters.anon_bytes), 1024},
        {"RssFile:", offsetof(struct found, status.counters.file_bytes), 1024},
        {"RssShmem:", offsetof(struct found, status.counters.shmem_bytes), 1024},
        {"VmSwap:", offsetof(struct found, status.counters.swap_bytes), 1024},
        {"HugetlbPages:", offsetof(struct found, status.counters.huge_bytes), 1024},
        {"VmData:", offsetof(struct found, status.counters.asked_bytes), 1024},
        {"VmSize:", offsetof(struct found, status.counters.mapped_bytes), 1024},
    };
    struct tide_proc_status *status = &found.status;
    bool named = false;
    read_fields(text, fields, sizeof fields / sizeof *fields, &found);
    /* NSpid is the last of the three. */
    for (const char *line = text, *value; *line && !status->namespace_count; line = next_line(line)) {
        if (!named && (value = after(line, "Name:"))) {
            copy_escaped_name(status->name, value + (*value == '\t'));
            named = true;
        } else if ((value = after(line, "State:"))) {
            value = skip_blanks(value);
            status->state = *value && *value != '\n' ? *value : '?';
        } else if ((value = after(line, "NSpid:"))) {
            read_namespaces(value, status);
        }
    }
    if (!named)
        return -1;
    if (status->counters.anon_bytes < 0 && status->counters.file_bytes < 0 &&
        status->counters.shmem_bytes < 0)
        status->counters.anon_bytes = found.rss_bytes;
    *ret_status = *status;
    return 0;
}

int tide_proc_parse_rollup(const char *text, struct tide_proc_rollup *ret_rollup)
{
    static const struct field fields[] = {
        {"Pss:", offsetof(struct tide_proc_rollup, row.pss_bytes), 1024},
        {"Pss_Shmem:", offsetof(struct tide_proc_rollup, row.pss_shmem_bytes), 1024},
        {"Private_Clean:", offsetof(struct tide_proc_rollup, row.uss_bytes), 1024},
        {"Private_Dirty:", offsetof(struct tide_proc_rollup, row.uss_bytes), 1024},
        {"Private_Hugetlb:", offsetof(struct tide_proc_rollup, row.uss_bytes), 1024},
        {"SwapPss:", offsetof(struct tide_proc_rollup, row.swap_pss_bytes), 1024},
        {"Anonymous:", offsetof(struct tide_proc_rollup, anon_bytes), 1024},
    };
    struct tide_proc_rollup rollup = *ret_rollup;
    read_fields(text, fields, sizeof fields / sizeof *fields, &rollup);
    if (rollup.row.pss_bytes < 0)
        return -1;
    *ret_rollup = rollup;
    return 0;
}

void tide_proc_parse_smaps_line(struct tide_proc_smaps *smaps, const char *line)
{
    const char *value;
    if (*line < 'A' || *line > 'Z') { /* "START-END rw-p ...": the first line of a mapping */
        char *end;
        uint64_t from = strtoull(line, &end, 16), to = *end == '-' ? strtoull(end + 1, &end, 16) : 0;
        bool mine = strlen(end) > 4 && end[2] == 'w' && end[4] == 'p';
        smaps->is_large = mine && to > from && to - from >= TIDE_PROC_LARGE;
        smaps->rss_bytes = 0;
    } else if (smaps->is_large && (value = after(line, "Rss:"))) {
        int64_t bytes = size_of(value, 1024);
        smaps->rss_bytes = bytes < 0 ? 0 : bytes;
    } else if (smaps->is_large && (value = after(line, "VmFlags:"))) { /* the last line of a mapping */
        if (strstr(value, " nr") && smaps->unreserved_bytes <= SANE_BYTES - smaps->rss_bytes)
            smaps->unreserved_bytes += smaps->rss_bytes;
        smaps->is_large = false;
    }
}

static bool names_memory(char *controllers)
{
    for (const char *name; (name = strsep(&controllers, ","));)
        if (strcmp(name, "memory") == 0)
            return true;
    return false;
}

/* Left empty if it does not fit, because a truncated path names another group. */
static void copy_path(char out[static TIDE_PROC_CGROUP_PATH], const char *path)
{
    static const char deleted[] = " (deleted)";
    size_t len = strlen(path), tail = sizeof deleted - 1;
    if (len > tail && strcmp(path + len - tail, deleted) == 0)
        len -= tail;
    snprintf(out, TIDE_PROC_CGROUP_PATH, "%.*s", len < TIDE_PROC_CGROUP_PATH ? (int)len : 0, path);
}

int tide_proc_parse_cgroup(char *text, struct tide_proc_cgroup *ret_cgroup)
{
    struct tide_proc_cgroup cgroup = {.memory_path = ""};
    bool any = false;
    for (char *line; (line = strsep(&text, "\n"));) { /* "ID:CONTROLLERS:PATH" */
        const char *id = strsep(&line, ":");
        char *controllers = strsep(&line, ":");
        if (!line || line[0] != '/')
            continue;
        any = true;
        if (!controllers[0] && strcmp(id, "0") == 0)
            copy_path(cgroup.unified_path, line);
        else if (names_memory(controllers))
            copy_path(cgroup.memory_path, line);
    }
    if (!any)
        return -1;
    *ret_cgroup = cgroup;
    return 0;
}

int tide_proc_parse_meminfo(const char *text, struct tide_proc_meminfo *ret_meminfo)
{
    struct found {
        struct tide_proc_meminfo meminfo;
        int64_t free_and_cached;
    } found;
    static const struct field fields[] = {
        {"MemTotal:", offsetof(struct found, meminfo.total_bytes), 1024},
        {"MemAvailable:", offsetof(struct found, meminfo.available_bytes), 1024},
        {"MemFree:", offsetof(struct found, free_and_cached), 1024},
        {"Cached:", offsetof(struct found, free_and_cached), 1024},
    };
    read_fields(text, fields, sizeof fields / sizeof *fields, &found);
    if (found.meminfo.total_bytes < 0)
        return -1;
    if (found.meminfo.available_bytes < 0)
        found.meminfo.available_bytes = found.free_and_cached;
    *ret_meminfo = found.meminfo;
    return 0;
}

int tide_proc_parse_limits(const char *text, struct tide_proc_limits *ret_limits)
{
    static const struct field fields[] = {
        {"Max address space ", offsetof(struct tide_proc_limits, address_space_bytes), 1},
        {"Max data size ", offsetof(struct tide_proc_limits, data_bytes), 1},
    };
    struct tide_proc_limits limits;
    if (!read_fields(text, fields, sizeof fields / sizeof *fields, &limits))
        return -1;
    *ret_limits = limits;
    return 0;
}

int64_t tide_proc_parse_counter(const char *text, const char *key)
{
    for (const char *line = text; *line; line = next_line(line)) {
        const char *value = after(line, key);
        if (value && skip_blanks(value) > value)
            return number_of(value);
    }
    return TIDE_UNKNOWN;
}

int64_t tide_proc_parse_bytes(const char *text)
{
    return size_of(text, 1);
}

int64_t tide_proc_parse_pressure(const char *text)
{
    for (const char *line = text; *line; line = next_line(line)) {
        const char *value = after(line, "some avg10=");
        if (!value)
            continue;
        double percent = *value >= '0' && *value <= '9' ? strtod(value, NULL) : -1;
        return percent >= 0 && percent <= 100 ? (int64_t)(percent * 10000 + 0.5) : TIDE_UNKNOWN;
    }
    return TIDE_UNKNOWN;
}
