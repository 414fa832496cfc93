/*
 * fuzz_proc.c - every parser of /proc and cgroup text; the first byte says which.
 *
 * Beyond not crashing, a parser must keep its promises: sizes are TIDE_UNKNOWN or from 0 to 2^62, texts end.
 */
#include "base/check.h"
#include "base/units.h"
#include "channel/birth.h"
#include "sense/proc_parse.h"
#include "sense/role.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_size(int64_t bytes)
{
    TIDE_CHECK(bytes, >=, TIDE_UNKNOWN);
    TIDE_CHECK(bytes, <=, TIDE_LARGEST);
}

static void check_status(const char *text)
{
    struct tide_proc_status status;
    if (tide_proc_parse_status(text, &status) != 0)
        return;
    check_size(status.peak_bytes);
    check_size(status.counters.anon_bytes);
    check_size(status.counters.file_bytes);
    check_size(status.counters.shmem_bytes);
    check_size(status.counters.swap_bytes);
    check_size(status.counters.huge_bytes);
    TIDE_CHECK(strnlen(status.name, sizeof status.name), <, sizeof status.name);
    TIDE_CHECK(status.namespace_count, <=, TIDE_PROC_NAMESPACES);
    TIDE_CHECK(status.counters.threads, >=, TIDE_UNKNOWN);
    TIDE_CHECK(status.parent_pid, >=, TIDE_UNKNOWN);
}

static void check_stat(const char *text, size_t len)
{
    struct tide_stat stat;
    if (tide_stat_parse(text, len, &stat) != 0)
        return;
    TIDE_CHECK(stat.pid, >, 0);
    TIDE_CHECK(stat.parent_pid, >=, 0);
    TIDE_CHECK(strnlen(stat.name, sizeof stat.name), <, sizeof stat.name);
}

static void check_rollup(const char *text)
{
    struct tide_proc_rollup rollup = {.anon_bytes = 0};
    if (tide_proc_parse_rollup(text, &rollup) != 0)
        return;
    TIDE_CHECK(rollup.row.pss_bytes, >=, 0);
    check_size(rollup.row.pss_bytes);
    check_size(rollup.row.uss_bytes);
    check_size(rollup.row.swap_pss_bytes);
    check_size(rollup.row.pss_shmem_bytes);
    check_size(rollup.anon_bytes);
}

static void check_smaps(char *text)
{
    struct tide_proc_smaps smaps = {0};
    for (const char *line; (line = strsep(&text, "\n"));)
        tide_proc_parse_smaps_line(&smaps, line);
    TIDE_CHECK(smaps.unreserved_bytes, >=, 0);
    check_size(smaps.unreserved_bytes);
}

static void check_cgroup(char *text)
{
    struct tide_proc_cgroup cgroup;
    if (tide_proc_parse_cgroup(text, &cgroup) != 0)
        return;
    TIDE_CHECK(strnlen(cgroup.memory_path, sizeof cgroup.memory_path), <, sizeof cgroup.memory_path);
    TIDE_CHECK(strnlen(cgroup.unified_path, sizeof cgroup.unified_path), <, sizeof cgroup.unified_path);
    TIDE_CHECK_TRUE(cgroup.memory_path[0] == '/' || !cgroup.memory_path[0]);
}

/* Half of the input is a process's arguments, half its parent's name. */
static void check_role(const char *args, size_t len)
{
    char out[TIDE_ROLE_MAX];
    struct tide_role_input input = {
        .name = args,
        .args = args,
        .args_len = len,
        .parent_base = len % 2 ? args + len / 2 : NULL,
        .parent_name = len % 3 ? args + len / 2 : NULL,
        .same_args_as_parent = len % 5 == 0,
    };
    tide_role_of(&input, out);
    TIDE_CHECK(strnlen(out, sizeof out), <, sizeof out);
    for (size_t i = 0; out[i]; i++)
        TIDE_CHECK_TRUE((unsigned char)out[i] >= ' ' && out[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    size_t len = size - 1;
    char *text = malloc(len + 1); /* with a NUL, as proc_read.h gives it */
    if (!text)
        return 0;
    memcpy(text, data + 1, len);
    text[len] = '\0';
    struct tide_proc_meminfo meminfo;
    struct tide_proc_limits limits;
    switch (data[0] % 10) {
    case 0:
        check_stat(text, len);
        break;
    case 1:
        check_status(text);
        break;
    case 2:
        check_rollup(text);
        check_smaps(text);
        break;
    case 3:
        check_cgroup(text);
        break;
    case 4:
        if (tide_proc_parse_meminfo(text, &meminfo) == 0) {
            check_size(meminfo.total_bytes);
            check_size(meminfo.available_bytes);
        }
        break;
    case 5:
        if (tide_proc_parse_limits(text, &limits) == 0) {
            check_size(limits.address_space_bytes);
            check_size(limits.data_bytes);
        }
        break;
    case 6:
        TIDE_CHECK(tide_proc_parse_counter(text, "oom_kill"), >=, TIDE_UNKNOWN);
        break;
    case 7:
        check_size(tide_proc_parse_bytes(text));
        break;
    case 8:
        TIDE_CHECK(tide_proc_parse_pressure(text), >=, TIDE_UNKNOWN);
        TIDE_CHECK(tide_proc_parse_pressure(text), <=, 1000000);
        break;
    default:
        check_role(text, len);
        break;
    }
    free(text);
    return 0;
}
