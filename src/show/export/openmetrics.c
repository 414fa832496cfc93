/*
 * openmetrics.c - the state of the run when last seen, as OpenMetrics text for Prometheus and similar tools.
 *
 * It uses only gauges, which mean the same in the older text format. The textfile collector and promtool read
 * that format, and treat what is new in OpenMetrics as comments or errors.
 *
 * "Last seen" is the last look at which a process lived. Every family comes once, with its type, unit and
 * help. The label that tells the samples of a family apart is the process's number in the recording, because
 * names and even PIDs may repeat.
 */
#include "show/export/export.h"
#include "assess/stacks.h"
#include "base/map.h"
#include "base/text.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>

enum { SITES_MOST = 100, LABEL = 256, GPU_ROWS_MOST = 4096 };

struct metrics {
    const struct tide_export *e;
    const struct tide_history *h;
    const struct tide_tick *last; /* the look at the chosen moment */
    FILE *out;
    const char *gap; /* written before the next label */
    bool full;       /* out of memory: something is missing */
};

/* --- the text ------------------------------------------------------------------------------------------ */

static void family(struct metrics *m, const char *name, const char *unit, const char *help)
{
    fprintf(m->out, "# TYPE %s gauge\n", name);
    if (unit)
        fprintf(m->out, "# UNIT %s %s\n", name, unit);
    fprintf(m->out, "# HELP %s %s\n", name, help);
}

/* Begins a sample: its name, then labels, then the value. */
static void sample(struct metrics *m, const char *name)
{
    fputs(name, m->out);
    m->gap = "{";
}

/* name="value": backslash and quote are escaped here; tide_text_shown() has escaped control characters. */
static void label(struct metrics *m, const char *name, const char *value)
{
    char safe[LABEL];
    tide_text_shown(value, safe, sizeof safe);
    fprintf(m->out, "%s%s=\"", m->gap, name);
    for (const char *p = safe; *p; p++) {
        if (*p == '\\' || *p == '"')
            fputc('\\', m->out);
        fputc(*p, m->out);
    }
    fputc('"', m->out);
    m->gap = ",";
}

static void label_number(struct metrics *m, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    label(m, name, text);
}

static void value(struct metrics *m, double number)
{
    if (number == floor(number) && fabs(number) < (double)TIDE_LARGEST)
        fprintf(m->out, "%s %lld\n", *m->gap == ',' ? "}" : "", (long long)number);
    else
        fprintf(m->out, "%s %.10g\n", *m->gap == ',' ? "}" : "", number);
}

static void plain(struct metrics *m, const char *name, const char *unit, const char *help, double number)
{
    if (!isfinite(number) || number < 0)
        return;
    family(m, name, unit, help);
    sample(m, name);
    value(m, number);
}

static void label_process(struct metrics *m, int64_t process)
{
    const struct tide_history_process *p = tide_history_process(m->h, process);
    if (!p)
        return;
    label_number(m, "process", p->row.id);
    label_number(m, "pid", p->row.pid);
    label(m, "name", p->row.name);
    label(m, "role", p->row.role);
}

static void put_of_process(struct metrics *m, const char *name, int64_t process, double number)
{
    sample(m, name);
    label_process(m, process);
    value(m, number);
}

/* --- processes and the tree ---------------------------------------------------------------------------- */

static void put_processes(struct metrics *m)
{
    enum { PRIVATE, RSS, PEAK, THREADS };
    static const struct {
        const char *name, *unit, *help;
    } families[] = {
        [PRIVATE] = {"tidemark_process_private_bytes", "bytes",
                     "Anonymous and shared memory, swap and huge pages: what cannot be reclaimed."},
        [RSS] = {"tidemark_process_rss_bytes", "bytes", "Resident set size."},
        [PEAK] = {"tidemark_process_peak_rss_bytes", "bytes", "Largest resident set size so far."},
        [THREADS] = {"tidemark_process_threads", NULL, "Threads."},
    };
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        family(m, families[f].name, families[f].unit, families[f].help);
        for (size_t i = 0; i < m->h->process_count; i++) {
            const struct tide_history_process *p = &m->h->processes[i];
            const struct tide_history_point *point =
                tide_history_lives(p, m->last->t_ns) ? tide_history_point_at(p, m->last->t_ns) : NULL;
            if (!point)
                continue;
            const int64_t numbers[] = {[PRIVATE] = point->private_bytes,
                                       [RSS] = point->rss_bytes,
                                       [PEAK] = p->row.peak_rss_bytes,
                                       [THREADS] = point->threads};
            if (numbers[f] >= 0)
                put_of_process(m, families[f].name, p->row.id, (double)numbers[f]);
        }
    }
}

static void put_tree(struct metrics *m)
{
    const struct tide_tick *t = m->last;
    plain(m, "tidemark_processes", NULL, "Processes of the tree.", (double)t->processes);
    plain(m, "tidemark_tree_bytes", "bytes", "Memory of the tree, shared pages once as far as PSS is known.",
          (double)t->counted_bytes);
    plain(m, "tidemark_tree_rss_bytes", "bytes", "Sum of the resident set sizes of the tree.",
          (double)t->rss_bytes);
    plain(m, "tidemark_cgroup_bytes", "bytes", "Memory of the tree's control group.",
          (double)t->cgroup_bytes);
    plain(m, "tidemark_host_available_bytes", "bytes", "Memory available on the host.",
          (double)t->available_bytes);
}

/* Writes the last row of each limit. */
static void put_limits(struct metrics *m)
{
    const struct tide_history *h = m->h;
    struct tide_map last;
    if (h->limit_count == 0)
        return;
    tide_map_init(&last, h->limit_count);
    for (size_t i = 0; i < h->limit_count; i++)
        m->full |= tide_map_put(&last, tide_map_text_key(h->limits[i].name), i) != 0;
    family(m, "tidemark_limit_bytes", "bytes", "Memory limits that apply.");
    for (size_t i = 0; i < h->limit_count; i++) {
        uint64_t at = i;
        tide_map_get(&last, tide_map_text_key(h->limits[i].name), &at);
        if (at != i || h->limits[i].bytes < 0)
            continue;
        sample(m, "tidemark_limit_bytes");
        label(m, "limit", h->limits[i].name);
        value(m, (double)h->limits[i].bytes);
    }
    tide_map_release(&last);
}

/* --- what the program said ------------------------------------------------------------------------------ */

static void put_marks(struct metrics *m)
{
    double step = tide_axis_at(m->e->assessment->axis, m->e->at_ns), epoch = NAN;
    const struct tide_history *h = m->h;
    int64_t *gauges = tide_arena_take(m->e->arena, h->name_count + 1, sizeof *gauges);
    bool any = false;
    m->full |= !gauges;
    for (size_t i = 0; i < h->name_count && gauges; i++)
        gauges[i] = TIDE_UNKNOWN;
    for (size_t i = 0; i < h->mark_count && h->marks[i].t_ns <= m->e->at_ns; i++) {
        const struct tide_history_mark *mark = &h->marks[i];
        if (mark->kind == TIDE_MARK_EPOCH)
            epoch = (double)mark->number;
        if (gauges && mark->kind == TIDE_MARK_GAUGE && mark->name >= 0 &&
            (size_t)mark->name < h->name_count) {
            gauges[mark->name] = mark->number;
            any = true;
        }
    }
    if (isfinite(m->e->assessment->steps))
        plain(m, "tidemark_step", NULL, "The step that was running.", step);
    plain(m, "tidemark_epoch", NULL, "The epoch that was running.", epoch);
    if (!any)
        return;
    family(m, "tidemark_program_bytes", "bytes", "What the program itself counts.");
    for (size_t i = 0; i < h->name_count; i++) {
        if (gauges[i] == TIDE_UNKNOWN)
            continue;
        sample(m, "tidemark_program_bytes");
        label(m, "gauge", h->names[i]);
        value(m, (double)gauges[i]);
    }
}

static void put_verdict(struct metrics *m)
{
    const struct tide_judged *worst = &m->e->assessment->judged[0];
    family(m, "tidemark_verdict", NULL, "The verdict on the worst process: 1 for the one that applies.");
    for (int kind = 0; kind < TIDE_VERDICTS; kind++)
        fprintf(m->out, "tidemark_verdict{verdict=\"%s\"} %d\n",
                tide_verdict_name((enum tide_verdict_kind)kind), worst->verdict.kind == (unsigned)kind);
    if (!tide_verdict_grows(&worst->verdict))
        return;
    plain(m, worst->x_is_steps ? "tidemark_growth_bytes_per_step" : "tidemark_growth_bytes_per_second", NULL,
          "How fast the worst process grows.", worst->verdict.slope);
}

/* --- devices and call sites ----------------------------------------------------------------------------- */

/* Writes the last row of each device and live process. */
static void put_gpus(struct metrics *m)
{
    const struct tide_history *h = m->h;
    struct tide_map seen;
    uint64_t before;
    if (h->gpu_count == 0)
        return;
    tide_map_init(&seen, GPU_ROWS_MOST);
    family(m, "tidemark_gpu_bytes", "bytes",
           "Device memory that a process uses; without a process, what all of them use.");
    for (size_t i = h->gpu_count; i-- > 0;) {
        const struct tide_history_gpu *g = &h->gpu[i];
        uint64_t key = (uint64_t)g->device << 40 ^ (uint64_t)(g->process + 1);
        const struct tide_history_process *p = tide_history_process(h, g->process);
        if (g->t_ns > m->e->at_ns || tide_map_get(&seen, key, &before))
            continue;
        m->full |= tide_map_put(&seen, key, 1) != 0;
        if (m->full || (p && !tide_history_lives(p, m->last->t_ns)))
            continue;
        sample(m, "tidemark_gpu_bytes");
        label_number(m, "device", g->device);
        if (g->process == TIDE_UNKNOWN)
            label(m, "process", "unknown");
        label_process(m, g->process);
        value(m, (double)g->bytes);
    }
    tide_map_release(&seen);
}

static void put_heaps(struct metrics *m)
{
    const struct tide_export *e = m->e;
    if (e->count == 0)
        return;
    family(m, "tidemark_heap_live_bytes", "bytes", "Live memory that call sites hold, by process and kind.");
    for (size_t from = 0, to; from < e->count; from = to) {
        double sums[TIDE_SITE_KINDS] = {0};
        for (to = from; to < e->count && e->values[to].site->process == e->values[from].site->process; to++)
            sums[e->values[to].site->kind] += (double)e->values[to].bytes;
        for (int kind = 1; kind < TIDE_SITE_KINDS; kind++) {
            if (sums[kind] <= 0)
                continue;
            sample(m, "tidemark_heap_live_bytes");
            label_process(m, e->values[from].site->process);
            label(m, "kind", tide_site_kind_name((enum tide_site_kind)kind));
            value(m, sums[kind]);
        }
    }
}

/* Writes what each allocator keeps free, where the hook asked it. */
static void put_kept(struct metrics *m)
{
    bool any = false;
    for (size_t i = 0; i < m->h->process_count; i++) {
        const struct tide_history_process *p = &m->h->processes[i];
        size_t count =
            tide_history_lives(p, m->last->t_ns) ? TIDE_UNTIL(p->heap, p->heap_count, m->e->at_ns) : 0;
        if (count == 0 || p->heap[count - 1].free_bytes == TIDE_UNKNOWN)
            continue;
        if (!any)
            family(m, "tidemark_heap_free_bytes", "bytes",
                   "Memory that malloc keeps and the program does not hold.");
        any = true;
        put_of_process(m, "tidemark_heap_free_bytes", p->row.id, (double)p->heap[count - 1].free_bytes);
    }
}

static int larger_first(const void *a, const void *b)
{
    const struct tide_export_value *left = *(const struct tide_export_value *const *)a,
                                   *right = *(const struct tide_export_value *const *)b;
    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

static void put_sites(struct metrics *m)
{
    const struct tide_export *e = m->e;
    const struct tide_export_value **order = tide_arena_take(e->arena, e->count + 1, sizeof *order);
    m->full |= !order;
    if (!order || e->count == 0)
        return;
    for (size_t i = 0; i < e->count; i++)
        order[i] = &e->values[i];
    qsort(order, e->count, sizeof *order, larger_first);
    family(m, "tidemark_site_live_bytes", "bytes", "Live memory of the largest call sites.");
    for (size_t i = 0; i < e->count && i < SITES_MOST; i++) {
        const struct tide_history_site *site = order[i]->site;
        const struct tide_frame *line = tide_stack_line(m->h, site->stack);
        char frame[TIDE_EXPORT_TEXT] = TIDE_EXPORT_SMALL;
        if (line)
            tide_export_frame(line, frame, sizeof frame);
        sample(m, "tidemark_site_live_bytes");
        label_number(m, "site", site->id);
        label_process(m, site->process);
        label(m, "kind", tide_site_kind_name(site->kind));
        label(m, "code", frame);
        value(m, (double)order[i]->bytes);
    }
}

int tide_export_openmetrics(const struct tide_export *e, FILE *out, struct tide_err *err)
{
    struct metrics m = {.e = e, .h = e->history, .out = out};
    m.last = &m.h->ticks[m.h->tick_count - 1];
    while (m.last > m.h->ticks && (m.last->t_ns > e->at_ns || m.last->processes == 0))
        m.last--;
    family(&m, "tidemark_run_info", NULL, "The run that was recorded.");
    sample(&m, "tidemark_run_info");
    label(&m, "command", m.h->command);
    value(&m, 1);
    put_verdict(&m);
    put_tree(&m);
    put_limits(&m);
    put_marks(&m);
    put_processes(&m);
    put_gpus(&m);
    put_heaps(&m);
    put_kept(&m);
    put_sites(&m);
    fputs("# EOF\n", out);
    return m.full ? tide_err_set(err, "not enough memory to list %zu processes and %zu call sites",
                                 e->history->process_count, e->count)
                  : 0;
}
