#include "sense/proc_parse.h"

#include <stdbool.h>
#include <string.h>

/* Larger numbers than this many bytes are no memory sizes. */
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

/* Takes blanks and then decimal digits off *rest. False when there is no digit; a number over 2^63 - 1 is
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

/* If the line is "KEY:..." moves *line behind the colon. */
static bool skip_key(struct line *line, const char *key)
{
    size_t len = strlen(key);
    if (line->len <= len || memcmp(line->text, key, len) != 0 || line->text[len] != ':')
        return false;
    line->text += len + 1;
    line->len -= len + 1;
    return true;
}

static int64_t number_of(struct line line)
{
    int64_t value;
    return next_number(&line, &value) ? value : TIDE_UNKNOWN;
}

static int64_t kib_of(struct line line)
{
    int64_t kib = number_of(line);
    return kib < 0 || kib > SANE_BYTES / 1024 ? TIDE_UNKNOWN : kib * 1024;
}

static void copy_name(char out[static TIDE_PROC_NAME], const char *text, size_t len)
{
    if (len > TIDE_PROC_NAME - 1)
        len = TIDE_PROC_NAME - 1;
    memcpy(out, text, len);
    out[len] = '\0';
}

int tide_proc_parse_stat(const char *text, size_t len, struct tide_proc_stat *ret_stat)
{
    enum {
        FIELD_PARENT = 4,
        FIELD_CHILD_MINOR = 11,
        FIELD_CHILD_MAJOR = 13,
        FIELD_THREADS = 20,
        FIELD_START = 22
    };
    struct tide_proc_stat stat = {.threads = TIDE_UNKNOWN};
    struct line rest = {text, len};
    if (!next_number(&rest, &stat.pid) || stat.pid <= 0)
        return -1;
    /* The name ends at the last ')': what comes after it are numbers and one letter. */
    const char *open = memchr(rest.text, '(', rest.len);
    const char *close = memrchr(rest.text, ')', rest.len);
    if (!open || !close || close < open)
        return -1;
    copy_name(stat.name, open + 1, (size_t)(close - open - 1));
    rest.len -= (size_t)(close + 1 - rest.text);
    rest.text = close + 1;
    if (rest.len < 2 || rest.text[0] != ' ')
        return -1;
    stat.state = rest.text[1];
    rest.text += 2;
    rest.len -= 2;
    int64_t value = 0;
    for (int field = FIELD_PARENT; field <= FIELD_START; field++) {
        while (rest.len && (is_blank(rest.text[0]) || rest.text[0] == '-')) {
            rest.text++;
            rest.len--;
        }
        if (!next_number(&rest, &value))
            return -1;
        if (field == FIELD_PARENT)
            stat.parent_pid = value;
        else if (field == FIELD_THREADS)
            stat.threads = value;
        else if (field == FIELD_CHILD_MINOR || field == FIELD_CHILD_MAJOR)
            stat.has_waited |= value != 0;
    }
    if (value < 0 || stat.parent_pid < 0)
        return -1;
    stat.start_ticks = (uint64_t)value;
    *ret_stat = stat;
    return 0;
}

/* In status the kernel writes a newline in a name as \n and a backslash as \\. */
static void copy_escaped_name(char out[static TIDE_PROC_NAME], struct line line)
{
    size_t used = 0;
    for (size_t i = 0; i < line.len && used < TIDE_PROC_NAME - 1; i++) {
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
    struct tide_proc_status status = {
        .state = '?',
        .parent_pid = TIDE_UNKNOWN,
        .threads = TIDE_UNKNOWN,
        .peak_bytes = TIDE_UNKNOWN,
        .anon_bytes = TIDE_UNKNOWN,
        .file_bytes = TIDE_UNKNOWN,
        .shmem_bytes = TIDE_UNKNOWN,
        .swap_bytes = TIDE_UNKNOWN,
        .huge_bytes = TIDE_UNKNOWN,
        .asked_bytes = TIDE_UNKNOWN,
        .mapped_bytes = TIDE_UNKNOWN,
    };
    int64_t rss_bytes = TIDE_UNKNOWN;
    struct line rest = {text, len}, line;
    bool named = false;
    while (next_line(&rest, &line)) {
        switch (line.len ? line.text[0] : 0) {
        case 'N':
            if (!named && skip_key(&line, "Name")) {
                if (line.len && line.text[0] == '\t')
                    line = (struct line){line.text + 1, line.len - 1};
                copy_escaped_name(status.name, line);
                named = true;
            } else if (skip_key(&line, "NSpid")) {
                read_namespaces(line, &status);
            }
            break;
        case 'S':
            if (skip_key(&line, "State"))
                status.state = letter_of(line);
            break;
        case 'P':
            if (skip_key(&line, "PPid"))
                status.parent_pid = number_of(line);
            break;
        case 'T':
            if (skip_key(&line, "Threads"))
                status.threads = number_of(line);
            break;
        case 'H':
            if (skip_key(&line, "HugetlbPages"))
                status.huge_bytes = kib_of(line);
            break;
        case 'V':
            if (skip_key(&line, "VmHWM"))
                status.peak_bytes = kib_of(line);
            else if (skip_key(&line, "VmRSS"))
                rss_bytes = kib_of(line);
            else if (skip_key(&line, "VmSwap"))
                status.swap_bytes = kib_of(line);
            else if (skip_key(&line, "VmData"))
                status.asked_bytes = kib_of(line);
            else if (skip_key(&line, "VmSize"))
                status.mapped_bytes = kib_of(line);
            break;
        case 'R':
            if (skip_key(&line, "RssAnon"))
                status.anon_bytes = kib_of(line);
            else if (skip_key(&line, "RssFile"))
                status.file_bytes = kib_of(line);
            else if (skip_key(&line, "RssShmem"))
                status.shmem_bytes = kib_of(line);
            break;
        default:
            break;
        }
    }
    if (!named)
        return -1;
    if (status.anon_bytes < 0 && status.file_bytes < 0 && status.shmem_bytes < 0)
        status.anon_bytes = rss_bytes;
    *ret_status = status;
    return 0;
}

static void add_known(int64_t *sum, int64_t bytes)
{
    if (bytes >= 0)
        *sum = *sum < 0 ? bytes : *sum > SANE_BYTES - bytes ? SANE_BYTES : *sum + bytes;
}

int tide_proc_parse_rollup(const char *text, size_t len, struct tide_proc_rollup *ret_rollup)
{
    struct tide_proc_rollup rollup = {TIDE_UNKNOWN, TIDE_UNKNOWN, TIDE_UNKNOWN, TIDE_UNKNOWN};
    struct line rest = {text, len}, line;
    while (next_line(&rest, &line)) {
        if (skip_key(&line, "Rss"))
            rollup.rss_bytes = kib_of(line);
        else if (skip_key(&line, "Pss"))
            rollup.pss_bytes = kib_of(line);
        else if (skip_key(&line, "Private_Clean") || skip_key(&line, "Private_Dirty") ||
                 skip_key(&line, "Private_Hugetlb"))
            add_known(&rollup.uss_bytes, kib_of(line));
        else if (skip_key(&line, "SwapPss"))
            rollup.swap_pss_bytes = kib_of(line);
    }
    if (rollup.pss_bytes < 0)
        return -1;
    *ret_rollup = rollup;
    return 0;
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

/* Left empty when it does not fit: half a path names another group. */
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
    struct tide_proc_meminfo meminfo = {TIDE_UNKNOWN, TIDE_UNKNOWN};
    int64_t free_and_cached = TIDE_UNKNOWN;
    struct line rest = {text, len}, line;
    while (next_line(&rest, &line)) {
        if (skip_key(&line, "MemTotal"))
            meminfo.total_bytes = kib_of(line);
        else if (skip_key(&line, "MemAvailable"))
            meminfo.available_bytes = kib_of(line);
        else if (skip_key(&line, "MemFree") || skip_key(&line, "Cached"))
            add_known(&free_and_cached, kib_of(line));
    }
    if (meminfo.total_bytes < 0)
        return -1;
    if (meminfo.available_bytes < 0)
        meminfo.available_bytes = free_and_cached;
    *ret_meminfo = meminfo;
    return 0;
}

int tide_proc_parse_limits(const char *text, size_t len, struct tide_proc_limits *ret_limits)
{
    static const char space[] = "Max address space ", data[] = "Max data size ";
    struct tide_proc_limits limits = {TIDE_UNKNOWN, TIDE_UNKNOWN};
    struct line rest = {text, len}, line;
    bool any = false;
    while (next_line(&rest, &line)) {
        int64_t *field = NULL;
        size_t used = 0;
        if (line.len >= sizeof space && memcmp(line.text, space, sizeof space - 1) == 0) {
            field = &limits.address_space_bytes;
            used = sizeof space - 1;
        } else if (line.len >= sizeof data && memcmp(line.text, data, sizeof data - 1) == 0) {
            field = &limits.data_bytes;
            used = sizeof data - 1;
        }
        if (!field)
            continue;
        any = true;
        int64_t bytes = number_of((struct line){line.text + used, line.len - used});
        *field = bytes >= 0 && bytes < SANE_BYTES ? bytes : TIDE_UNKNOWN;
    }
    if (!any)
        return -1;
    *ret_limits = limits;
    return 0;
}

int64_t tide_proc_parse_counter(const char *text, size_t len, const char *key)
{
    size_t key_len = strlen(key);
    struct line rest = {text, len}, line;
    while (next_line(&rest, &line))
        if (line.len > key_len && memcmp(line.text, key, key_len) == 0 && is_blank(line.text[key_len]))
            return number_of((struct line){line.text + key_len, line.len - key_len});
    return TIDE_UNKNOWN;
}

int64_t tide_proc_parse_bytes(const char *text, size_t len)
{
    int64_t bytes = number_of((struct line){text, len});
    return bytes >= SANE_BYTES ? TIDE_UNKNOWN : bytes;
}

int64_t tide_proc_parse_pressure(const char *text, size_t len)
{
    static const char start[] = "some avg10=";
    struct line rest = {text, len}, line;
    while (next_line(&rest, &line)) {
        if (line.len < sizeof start || memcmp(line.text, start, sizeof start - 1) != 0)
            continue;
        line = (struct line){line.text + sizeof start - 1, line.len - (sizeof start - 1)};
        int64_t percent;
        if (is_blank(line.text[0]) || !next_number(&line, &percent) || percent < 0 || percent > 100)
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
