#include "sense/proc_parse.h"

#include <string.h>

/* Larger numbers are not sizes of memory. */
#define SANE_BYTES ((int64_t)1 << 60)

struct line {
    const char *text;
    size_t len;
};

/* Takes the first line off *rest; false at the end. */
static bool next_line(struct line *rest, struct line *ret_line)
{
    if (!rest->len)
        return false;
    const char *end = memchr(rest->text, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->text) : rest->len;
    *ret_line = (struct line){rest->text, len};
    size_t used = len + (end ? 1 : 0);
    rest->text += used;
    rest->len -= used;
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Takes blanks and then decimal digits off *rest. False if there is no digit. A number over 2^63 - 1 becomes
 * TIDE_UNKNOWN. */
static bool next_number(struct line *rest, int64_t *ret_value)
{
    size_t i = 0;
    while (i < rest->len && is_blank(rest->text[i]))
        i++;
    size_t first = i;
    int64_t value = 0;
    bool overflow = false;
    for (; i < rest->len && rest->text[i] >= '0' && rest->text[i] <= '9'; i++)
        overflow |= __builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, rest->text[i] - '0', &value);
    if (i == first)
        return false;
    rest->text += i;
    rest->len -= i;
    *ret_value = overflow ? TIDE_UNKNOWN : value;
    return true;
}

/* If the line starts with `start`, moves *line past it. */
static bool skip(struct line *line, const char *start)
{
    size_t len = 0;
    while (len < line->len && start[len] && line->text[len] == start[len])
        len++;
    if (start[len])
        return false;
    line->text += len;
    line->len -= len;
    return true;
}

static int64_t number_of(struct line line)
{
    int64_t value;
    return next_number(&line, &value) ? value : TIDE_UNKNOWN;
}

/* Converts a number of units to bytes; TIDE_UNKNOWN if it is not a size. */
static int64_t size_of(struct line line, int64_t unit)
{
    int64_t number = number_of(line);
    return number < 0 || number >= SANE_BYTES / unit ? TIDE_UNKNOWN : number * unit;
}

/* A line that starts with `start`, and where its number goes. Numbers for the same place are added. */
struct field {
    const char *start;
    size_t place; /* offset of an int64_t */
    int64_t unit;
};

/* True if any of the lines is there. Fields that are missing or not a size are TIDE_UNKNOWN. */
static bool read_fields(const char *text, size_t len, const struct field *fields, size_t count, void *ret)
{
    struct line rest = {text, len}, line;
    bool any = false;
    bool begins[256] = {false}; /* first bytes of wanted lines, to skip most others quickly */
    for (size_t i = 0; i < count; i++) {
        *(int64_t *)((char *)ret + fields[i].place) = TIDE_UNKNOWN;
        begins[(unsigned char)fields[i].start[0]] = true;
    }
    while (next_line(&rest, &line))
        for (size_t i = 0; i < count && line.len && begins[(unsigned char)line.text[0]]; i++) {
            if (!skip(&line, fields[i].start))
                continue;
            int64_t *sum = (int64_t *)((char *)ret + fields[i].place), size = size_of(line, fields[i].unit);
            if (size >= 0)
                *sum = *sum < 0 ? size : *sum > SANE_BYTES - size ? SANE_BYTES : *sum + size;
            any = true;
            break;
        }
    return any;
}

/* The kernel writes a newline in a name as \n and a backslash as \\. */
static void copy_escaped_name(char out[static TIDE_STAT_NAME], struct line line)
{
    size_t used = 0;
    for (size_t i = 0; i < line.len && used < TIDE_STAT_NAME - 1; i++) {
        char c = line.text[i];
        if (c == '\\' && i + 1 < line.len && (line.text[i + 1] == 'n' || line.text[i + 1] == '\\'))
            c = line.text[++i] == 'n' ? '\n' : '\\';
        out[used++] = c ? c : '?';
    }
    out[used] = '\0';
}

static void read_namespaces(struct line line, struct tide_proc_status *status)
{
    int64_t pid;
    while (status->namespace_count < TIDE_PROC_NAMESPACES && next_number(&line, &pid))
        status->namespace_pids[status->namespace_count++] = pid;
}

static char letter_of(struct line line)
{
    size_t i = 0;
    while (i < line.len && is_blank(line.text[i]))
        i++;
    return i < line.len ? line.text[i] : '?';
}

int tide_proc_parse_status(const char *text, size_t len, struct tide_proc_status *ret_status)
{
    struct found {
        struct tide_proc_status status;
        int64_t rss_bytes;
    } found = {.status = {.state = '?'}};
    static const struct field fields[] = {
        {"PPid:", offsetof(struct found, status.parent_pid), 1},
        {"Threads:", offsetof(struct found, status.threads), 1},
        {"VmHWM:", offsetof(struct found, status.peak_bytes), 1024},
        {"VmRSS:", offsetof(struct found, rss_bytes), 1024},
        {"RssAnon:", offsetof(struct found, status.anon_bytes), 1024},
        {"RssFile:", offsetof(struct found, status.file_bytes), 1024},
        {"RssShmem:", offsetof(struct found, status.shmem_bytes), 1024},
        {"VmSwap:", offsetof(struct found, status.swap_bytes), 1024},
        {"HugetlbPages:", offsetof(struct found, status.huge_bytes), 1024},
        {"VmData:", offsetof(struct found, status.asked_bytes), 1024},
        {"VmSize:", offsetof(struct found, status.mapped_bytes), 1024},
    };
    struct tide_proc_status *status = &found.status;
    struct line rest = {text, len}, line;
    bool named = false;
    read_fields(text, len, fields, sizeof fields / sizeof *fields, &found);
    while (!status->namespace_count && next_line(&rest, &line)) { /* NSpid is the last of the three */
        if (!named && skip(&line, "Name:")) {
            skip(&line, "\t");
            copy_escaped_name(status->name, line);
            named = true;
        } else if (skip(&line, "State:")) {
            status->state = letter_of(line);
        } else if (skip(&line, "NSpid:")) {
            read_namespaces(line, status);
        }
    }
    if (!named)
        return -1;
    if (status->anon_bytes < 0 && status->file_bytes < 0 && status->shmem_bytes < 0)
        status->anon_bytes = found.rss_bytes;
    *ret_status = *status;
    return 0;
}

int tide_proc_parse_rollup(const char *text, size_t len, struct tide_proc_rollup *ret_rollup)
{
    static const struct field fields[] = {
        {"Pss:", offsetof(struct tide_proc_rollup, pss_bytes), 1024},
        {"Pss_Shmem:", offsetof(struct tide_proc_rollup, pss_shmem_bytes), 1024},
        {"Private_Clean:", offsetof(struct tide_proc_rollup, uss_bytes), 1024},
        {"Private_Dirty:", offsetof(struct tide_proc_rollup, uss_bytes), 1024},
        {"Private_Hugetlb:", offsetof(struct tide_proc_rollup, uss_bytes), 1024},
        {"SwapPss:", offsetof(struct tide_proc_rollup, swap_pss_bytes), 1024},
    };
    struct tide_proc_rollup rollup;
    read_fields(text, len, fields, sizeof fields / sizeof *fields, &rollup);
    if (rollup.pss_bytes < 0)
        return -1;
    *ret_rollup = rollup;
    return 0;
}

/* Takes hexadecimal digits off *rest. False if there are none, or too many. */
static bool next_address(struct line *rest, uint64_t *ret_value)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t value = 0;
    size_t i = 0;
    for (const char *digit; i < rest->len && (digit = memchr(digits, rest->text[i], 16)); i++)
        value = value << 4 | (uint64_t)(digit - digits);
    rest->text += i;
    rest->len -= i;
    *ret_value = value;
    return i > 0 && i <= 16;
}

void tide_proc_parse_smaps_line(struct tide_proc_smaps *smaps, const char *text, size_t len)
{
    struct line line = {text, len};
    uint64_t from, to;
    if (next_address(&line, &from) && skip(&line, "-") && next_address(&line, &to) && skip(&line, " ")) {
        bool mine = line.len >= 4 && line.text[1] == 'w' && line.text[3] == 'p';
        smaps->is_large = mine && to > from && to - from >= TIDE_PROC_LARGE;
        smaps->rss_bytes = 0;
        return;
    }
    line = (struct line){text, len};
    if (!smaps->is_large)
        return;
    if (skip(&line, "Rss:")) {
        int64_t bytes = size_of(line, 1024);
        smaps->rss_bytes = bytes < 0 ? 0 : bytes;
    } else if (skip(&line, "VmFlags:")) { /* the last line of a mapping */
        bool unreserved = memmem(line.text, line.len, " nr", 3) != NULL;
        if (unreserved && smaps->unreserved_bytes <= SANE_BYTES - smaps->rss_bytes)
            smaps->unreserved_bytes += smaps->rss_bytes;
        smaps->is_large = false;
    }
}

static bool names_controller(struct line list, const char *name)
{
    size_t len = strlen(name);
    while (list.len) {
        const char *comma = memchr(list.text, ',', list.len);
        size_t item = comma ? (size_t)(comma - list.text) : list.len;
        if (item == len && memcmp(list.text, name, len) == 0)
            return true;
        size_t used = item + (comma ? 1 : 0);
        list.text += used;
        list.len -= used;
    }
    return false;
}

/* Left empty if it does not fit, because a truncated path names another group. */
static void copy_path(char out[static TIDE_PROC_CGROUP_PATH], struct line path)
{
    static const char deleted[] = " (deleted)";
    size_t tail = sizeof deleted - 1;
    if (path.len > tail && memcmp(path.text + path.len - tail, deleted, tail) == 0)
        path.len -= tail;
    if (path.len >= TIDE_PROC_CGROUP_PATH || memchr(path.text, '\0', path.len))
        path.len = 0;
    memcpy(out, path.text, path.len);
    out[path.len] = '\0';
}

int tide_proc_parse_cgroup(const char *text, size_t len, struct tide_proc_cgroup *ret_cgroup)
{
    struct tide_proc_cgroup cgroup = {.memory_path = ""};
    struct line rest = {text, len}, line;
    bool any = false;
    while (next_line(&rest, &line)) {
        const char *first = memchr(line.text, ':', line.len);
        if (!first)
            continue;
        size_t after = (size_t)(first - line.text) + 1;
        const char *second = memchr(first + 1, ':', line.len - after);
        if (!second)
            continue;
        struct line controllers = {first + 1, (size_t)(second - first) - 1};
        struct line path = {second + 1, line.len - (size_t)(second + 1 - line.text)};
        if (!path.len || path.text[0] != '/')
            continue;
        any = true;
        if (!controllers.len && first - line.text == 1 && line.text[0] == '0')
            copy_path(cgroup.unified_path, path);
        else if (names_controller(controllers, "memory"))
            copy_path(cgroup.memory_path, path);
    }
    if (!any)
        return -1;
    *ret_cgroup = cgroup;
    return 0;
}

int tide_proc_parse_meminfo(const char *text, size_t len, struct tide_proc_meminfo *ret_meminfo)
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
    read_fields(text, len, fields, sizeof fields / sizeof *fields, &found);
    if (found.meminfo.total_bytes < 0)
        return -1;
    if (found.meminfo.available_bytes < 0)
        found.meminfo.available_bytes = found.free_and_cached;
    *ret_meminfo = found.meminfo;
    return 0;
}

int tide_proc_parse_limits(const char *text, size_t len, struct tide_proc_limits *ret_limits)
{
    static const struct field fields[] = {
        {"Max address space ", offsetof(struct tide_proc_limits, address_space_bytes), 1},
        {"Max data size ", offsetof(struct tide_proc_limits, data_bytes), 1},
    };
    struct tide_proc_limits limits;
    if (!read_fields(text, len, fields, sizeof fields / sizeof *fields, &limits))
        return -1;
    *ret_limits = limits;
    return 0;
}

int64_t tide_proc_parse_counter(const char *text, size_t len, const char *key)
{
    struct line rest = {text, len}, line;
    while (next_line(&rest, &line))
        if (skip(&line, key) && line.len && is_blank(line.text[0]))
            return number_of(line);
    return TIDE_UNKNOWN;
}

int64_t tide_proc_parse_bytes(const char *text, size_t len)
{
    return size_of((struct line){text, len}, 1);
}

int64_t tide_proc_parse_pressure(const char *text, size_t len)
{
    struct line rest = {text, len}, line;
    while (next_line(&rest, &line)) {
        if (!skip(&line, "some avg10="))
            continue;
        int64_t percent;
        if (!line.len || is_blank(line.text[0]) || !next_number(&line, &percent) || percent < 0 ||
            percent > 100)
            return TIDE_UNKNOWN;
        int64_t ppm = percent * 10000, unit = 1000;
        if (line.len && line.text[0] == '.')
            for (size_t i = 1; i < line.len && unit && line.text[i] >= '0' && line.text[i] <= '9'; i++) {
                ppm += (line.text[i] - '0') * unit;
                unit /= 10;
            }
        return ppm > 1000000 ? 1000000 : ppm;
    }
    return TIDE_UNKNOWN;
}
