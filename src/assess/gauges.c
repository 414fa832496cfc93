/*
 * gauges.c - series that have rows of their own: gauges of the program, shared memory, and GPUs.
 */
#include "assess/assessment_private.h"
#include "assess/process_name.h"
#include "base/map.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

static bool is_gauge(const struct tide_history *h, const struct tide_history_mark *m)
{
    return m->kind == TIDE_MARK_GAUGE && m->name >= 0 && (size_t)m->name < h->name_count;
}

/* True if a gauge says who holds what grows: holders.c joins it with call sites, and it is not a series. */
static bool is_of_census(const char *name)
{
    return !strncmp(name, TIDE_GAUGE_HELD, strlen(TIDE_GAUGE_HELD)) ||
           !strncmp(name, TIDE_GAUGE_HELD_ON_GPU, strlen(TIDE_GAUGE_HELD_ON_GPU));
}

/* Fills rows with the gauges by name, each in order of time; those of a name begin at first[name]. */
static void sort_gauges(const struct tide_history *h, struct tide_level *rows, size_t *first)
{
    for (size_t i = 0; i < h->mark_count; i++)
        if (is_gauge(h, &h->marks[i]))
            first[h->marks[i].name + 2]++;
    for (size_t name = 0; name < h->name_count; name++)
        first[name + 1] += first[name];
    /* first[name + 1] is where the next row of that name goes; after the last row it is the name's end. */
    for (size_t i = 0; i < h->mark_count; i++)
        if (is_gauge(h, &h->marks[i]))
            rows[first[h->marks[i].name + 1]++] =
                (struct tide_level){h->marks[i].t_ns, (double)h->marks[i].number};
}

static int judge_gauges(struct tide_assessing *s)
{
    const struct tide_history *h = s->h;
    struct tide_level *rows = tide_arena_take(s->arena, h->mark_count + 1, sizeof *rows);
    size_t *first = tide_arena_take(s->arena, h->name_count + 2, sizeof *first);
    if (!rows || !first)
        return tide_assessing_no_memory(s->err);
    sort_gauges(h, rows, first);
    for (size_t name = 0; name < h->name_count; name++) {
        size_t count = first[name + 1] - first[name];
        bool shared = !strcmp(h->names[name], TIDE_GAUGE_SHARED);
        if (count < (shared ? 1 : TIDE_LEAST_MOMENTS) || is_of_census(h->names[name]))
            continue;
        struct tide_judged j = {.subject = TIDE_SUBJECT_GAUGE,
                                .device = TIDE_UNKNOWN,
                                .gauge = (int32_t)name,
                                .shared = shared,
                                .limit_bytes = NAN};
        snprintf(j.name, sizeof j.name, "gauge \"%s\"", TIDE_SHOWN(h->names[name], 80));
        if (shared) {
            snprintf(j.name, sizeof j.name, "%s", TIDE_GAUGE_SHARED);
            j.limit_bytes = tide_assessing_limit(s, rows[first[name + 1] - 1].bytes);
        }
        if (tide_assessing_levels(s, rows + first[name], count, 0, s->bucket_ns[s->buckets], shared, j))
            return -1;
    }
    return 0;
}

static int judge_gpu(struct tide_assessing *s, const struct tide_history_gpu *of,
                     const struct tide_level *rows, size_t count)
{
    const struct tide_history *h = s->h;
    struct tide_judged j = {
        .subject = TIDE_SUBJECT_GPU, .process = of->process, .device = of->device, .limit_bytes = NAN};
    for (size_t d = 0; d < h->device_count; d++)
        if (h->devices[d].device == j.device && h->devices[d].total_bytes > 0)
            j.limit_bytes = (double)h->devices[d].total_bytes;
    const struct tide_history_process *p = tide_history_process(h, j.process);
    char who[96] = "all processes";
    j.pid = p ? p->row.pid : 0;
    j.role = p ? tide_assessing_role(s, p) : NULL;
    if (p)
        tide_process_name(h, p, who, sizeof who);
    else if (j.process == TIDE_UNKNOWN)
        snprintf(who, sizeof who, "unidentified processes");
    snprintf(j.name, sizeof j.name, "GPU %lld, %s", (long long)j.device, who);
    size_t before = s->a->count;
    if (tide_assessing_levels(s, rows, count, 0, s->bucket_ns[s->buckets], false, j))
        return -1;
    return s->a->count > before ? tide_assessing_tensors(s, &s->a->judged[before]) : 0;
}

/* Rows of one device and process, as a list. */
struct gpu_series {
    size_t first, last;
};

/* Links the rows of each series: next[i] is the row after row i, 0 if row i is the last. */
static int link_gpus(struct tide_assessing *s, struct gpu_series *series, size_t *next, size_t *ret_count)
{
    const struct tide_history *h = s->h;
    struct tide_map known;
    size_t count = 0;
    int status = 0;
    tide_map_init(&known, h->gpu_count + 1);
    for (size_t i = 0; i < h->gpu_count && status == 0; i++) {
        int64_t who[] = {h->gpu[i].device, h->gpu[i].process};
        uint64_t key = tide_map_key(TIDE_MAP_SEED, who, sizeof who), number = count;
        if (tide_map_get(&known, key, &number))
            next[series[number].last] = i;
        else if (tide_map_put(&known, key, count))
            status = tide_assessing_no_memory(s->err);
        else
            series[count++].first = i;
        series[number].last = i;
    }
    tide_map_release(&known);
    *ret_count = count;
    return status;
}

static int judge_gpus(struct tide_assessing *s)
{
    const struct tide_history *h = s->h;
    struct tide_level *rows = tide_arena_take(s->arena, h->gpu_count + 1, sizeof *rows);
    struct gpu_series *series = tide_arena_take(s->arena, h->gpu_count + 1, sizeof *series);
    size_t *next = tide_arena_take(s->arena, h->gpu_count + 1, sizeof *next), series_count;
    if (!rows || !series || !next)
        return tide_assessing_no_memory(s->err);
    if (link_gpus(s, series, next, &series_count))
        return -1;
    for (size_t i = 0; i < series_count; i++) {
        size_t count = 0;
        for (size_t at = series[i].first;; at = next[at]) {
            rows[count++] = (struct tide_level){h->gpu[at].t_ns, (double)h->gpu[at].bytes};
            if (at == series[i].last)
                break;
        }
        if (judge_gpu(s, &h->gpu[series[i].first], rows, count))
            return -1;
    }
    return 0;
}

int tide_assessing_rows(struct tide_assessing *s)
{
    return judge_gpus(s) || judge_gauges(s) ? -1 : 0;
}
