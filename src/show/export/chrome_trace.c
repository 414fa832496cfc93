/*
 * chrome_trace.c - trace events in JSON, for Perfetto and chrome://tracing: memory as counters of each
 * process, phases as slices, steps and epochs as instants.
 *
 * Times are microseconds since the recording began. Processes keep their PIDs, so that the trace can be laid
 * over another one of the same run; a PID that was reused gets a different number the second time. Each phase
 * has a track (thread) of its own, because phases may overlap and slices of one track may not.
 */
#include "show/export/export.h"
#include "assess/phases.h"
#include "assess/stacks.h"
#include "base/json.h"
#include "base/map.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum {
    TREE_PID = 0,
    SECOND_USE = 1 << 24 /* above all PIDs of Linux */,
    MAIN_TRACK = 0,
    MOST_PROCESSES = 1 << 24,
};

struct trace {
    const struct tide_export *e;
    const struct tide_history *h;
    struct tide_json json;
    int64_t *pids; /* by process id - 1: the PID in the trace */
    bool full;     /* out of memory: something is missing */
};

static int64_t pid_of(const struct trace *t, int64_t process)
{
    return process >= 1 && (size_t)process <= t->h->process_count ? t->pids[process - 1] : TREE_PID;
}

static int number_processes(struct trace *t, struct tide_err *err)
{
    struct tide_map used;
    uint64_t first;
    t->pids = tide_arena_take(t->e->arena, t->h->process_count + 1, sizeof *t->pids);
    if (!t->pids)
        return tide_err_set(err, "not enough memory for %zu processes", t->h->process_count);
    tide_map_init(&used, MOST_PROCESSES);
    for (size_t i = 0; i < t->h->process_count; i++) {
        int64_t pid = t->h->processes[i].row.pid;
        bool again = pid <= 0 || tide_map_get(&used, (uint64_t)pid, &first);
        t->pids[i] = again ? SECOND_USE + (int64_t)i : pid;
        if (!again)
            t->full |= tide_map_put(&used, (uint64_t)pid, 1) != 0;
    }
    tide_map_release(&used);
    return 0;
}

/* --- events -------------------------------------------------------------------------------------------- */

static void event_begin(struct trace *t, const char *phase, const char *name, int64_t pid, int64_t track,
                        int64_t t_ns)
{
    tide_json_object(&t->json, NULL);
    tide_json_text(&t->json, "ph", phase);
    tide_json_text(&t->json, "name", name);
    tide_json_integer(&t->json, "pid", pid);
    tide_json_integer(&t->json, "tid", track);
    tide_json_integer(&t->json, "ts", t_ns / 1000);
}

static void put_metadata(struct trace *t, const char *what, int64_t pid, int64_t track, const char *name)
{
    event_begin(t, "M", what, pid, track, 0);
    tide_json_object(&t->json, "args");
    tide_json_text(&t->json, "name", name);
    tide_json_end(&t->json);
    tide_json_end(&t->json);
}

static void put_counter(struct trace *t, const char *name, int64_t pid, int64_t t_ns, double bytes)
{
    event_begin(t, "C", name, pid, MAIN_TRACK, t_ns);
    tide_json_object(&t->json, "args");
    tide_json_whole(&t->json, "bytes", bytes);
    tide_json_end(&t->json);
    tide_json_end(&t->json);
}

/* --- what there is ------------------------------------------------------------------------------------- */

static void put_names(struct trace *t)
{
    put_metadata(t, "process_name", TREE_PID, MAIN_TRACK, "the process tree");
    for (size_t i = 0; i < t->h->process_count; i++) {
        const struct tide_process *p = &t->h->processes[i].row;
        char text[256];
        snprintf(text, sizeof text, "%s[%lld] %s", TIDE_SHOWN(p->name, 160), (long long)p->pid,
                 TIDE_SHOWN(p->role, 64));
        put_metadata(t, "process_name", t->pids[i], MAIN_TRACK, text);
        put_metadata(t, "thread_name", t->pids[i], MAIN_TRACK, "steps");
    }
}

static void put_memory(struct trace *t)
{
    for (size_t i = 0; i < t->h->tick_count; i++)
        put_counter(t, "memory, shared pages once", TREE_PID, t->h->ticks[i].t_ns,
                    (double)t->h->ticks[i].counted_bytes);
    for (size_t i = 0; i < t->h->process_count; i++) {
        const struct tide_history_process *p = &t->h->processes[i];
        for (size_t k = 0; k < p->point_count; k++) {
            put_counter(t, "private", t->pids[i], p->points[k].t_ns, (double)p->points[k].private_bytes);
            put_counter(t, "RSS", t->pids[i], p->points[k].t_ns, (double)p->points[k].rss_bytes);
        }
        if (p->row.ended_ns == TIDE_UNKNOWN)
            continue;
        put_counter(t, "private", t->pids[i], p->row.ended_ns, 0);
        put_counter(t, "RSS", t->pids[i], p->row.ended_ns, 0);
    }
}

/* Writes what the allocator keeps free, where the hook asked it. */
static void put_kept(struct trace *t)
{
    for (size_t i = 0; i < t->h->process_count; i++) {
        const struct tide_history_process *p = &t->h->processes[i];
        for (size_t k = 0; k < p->heap_count; k++)
            if (p->heap[k].free_bytes != TIDE_UNKNOWN)
                put_counter(t, "free, kept by malloc", t->pids[i], p->heap[k].t_ns,
                            (double)p->heap[k].free_bytes);
    }
}

static void put_gpus(struct trace *t)
{
    for (size_t i = 0; i < t->h->gpu_count; i++) {
        const struct tide_history_gpu *g = &t->h->gpu[i];
        char name[64];
        snprintf(name, sizeof name, "GPU %lld%s", (long long)g->device,
                 g->process == TIDE_UNKNOWN ? ", unidentified processes" : "");
        put_counter(t, name, pid_of(t, g->process), g->t_ns, (double)g->bytes);
    }
}

/* Writes the begin or the end of a phase on its track. */
static void put_phase(struct trace *t, const struct tide_phase *phase, bool begins)
{
    char name[160], text[200];
    int64_t pid = pid_of(t, phase->process), track = (int64_t)phase->name + 1;
    tide_history_name(t->h, phase->name, name, sizeof name);
    if (begins && phase->first) {
        snprintf(text, sizeof text, "phase %s", name);
        put_metadata(t, "thread_name", pid, track, text);
    }
    event_begin(t, begins ? "B" : "E", name, pid, track, begins ? phase->from_ns : phase->to_ns);
    tide_json_end(&t->json);
}

static void put_mark(struct trace *t, const struct tide_history_mark *m)
{
    char name[160], text[200];
    int64_t pid = pid_of(t, m->process);
    if (m->kind == TIDE_MARK_GAUGE) {
        snprintf(text, sizeof text, "gauge %s", tide_history_name(t->h, m->name, name, sizeof name));
        put_counter(t, text, pid, m->t_ns, (double)m->number);
    } else if (m->kind == TIDE_MARK_STEP || m->kind == TIDE_MARK_EPOCH) {
        bool step = m->kind == TIDE_MARK_STEP;
        snprintf(text, sizeof text, "%s %lld", step ? "step" : "epoch", (long long)m->number);
        event_begin(t, "i", text, pid, MAIN_TRACK, m->t_ns);
        tide_json_text(&t->json, "s", step ? "t" : "p");
        tide_json_end(&t->json);
    }
}

/* Writes events in the order of the marks, without ends that end nothing. */
static int put_marks(struct trace *t, struct tide_err *err)
{
    struct tide_phases phases;
    size_t begun = 0, ended = 0;
    if (tide_phases_find(t->h, t->e->arena, &phases))
        return tide_err_set(err, "not enough memory to follow %zu marks", t->h->mark_count);
    for (size_t i = 0; i < t->h->mark_count; i++) {
        const struct tide_history_mark *m = &t->h->marks[i];
        const struct tide_phase *next = begun < phases.count ? &phases.all[begun] : NULL;
        const struct tide_phase *done = ended < phases.count ? &phases.all[phases.by_end[ended]] : NULL;
        if (m->kind == TIDE_MARK_PHASE_BEGIN && next && next->name == m->name) {
            put_phase(t, next, true);
            begun++;
        } else if (m->kind == TIDE_MARK_PHASE_END && done && phases.by_end[ended] < begun && done->ended &&
                   done->name == m->name && done->process == m->process && done->to_ns == m->t_ns) {
            put_phase(t, done, false);
            ended++;
        } else
            put_mark(t, m);
    }
    return 0;
}

static int by_owner(const void *a, const void *b)
{
    return tide_export_by_owner(*(const struct tide_history_site *const *)a,
                                *(const struct tide_history_site *const *)b);
}

/* Writes the live bytes of each owner (the sum over its sites) wherever they changed. */
static int put_heaps(struct trace *t, struct tide_err *err)
{
    size_t ticks = t->h->tick_count, count = t->h->site_count;
    double *changes = tide_arena_take(t->e->arena, ticks + 1, sizeof *changes);
    const struct tide_history_site **sites = tide_arena_take(t->e->arena, count + 1, sizeof *sites);
    if (!changes || !sites)
        return tide_err_set(err, "not enough memory for %zu call sites", count);
    for (size_t i = 0; i < count; i++)
        sites[i] = &t->h->sites[i];
    qsort(sites, count, sizeof *sites, by_owner);
    for (size_t from = 0, to; from < count; from = to) {
        memset(changes, 0, (ticks + 1) * sizeof *changes);
        for (to = from; to < count && !tide_export_by_owner(sites[from], sites[to]); to++)
            tide_moment_add_changes(t->h, sites[to], changes);
        const char *name = tide_site_is_on_device(sites[from]) ? "live device memory" : "live heap";
        double sum = 0;
        for (size_t i = 0; i < ticks && sites[from]->id; i++) {
            sum += changes[i];
            if (changes[i] < 0 || changes[i] > 0)
                put_counter(t, name, pid_of(t, sites[from]->process), t->h->ticks[i].t_ns, sum);
        }
    }
    return 0;
}

int tide_export_trace(const struct tide_export *e, FILE *out, struct tide_err *err)
{
    struct trace t = {.e = e, .h = e->history};
    if (number_processes(&t, err))
        return -1;
    tide_json_init(&t.json, out, true);
    tide_json_object(&t.json, NULL);
    tide_json_text(&t.json, "displayTimeUnit", "ms");
    tide_json_object(&t.json, "otherData");
    tide_json_text(&t.json, "command", e->history->command);
    tide_json_end(&t.json);
    tide_json_array(&t.json, "traceEvents");
    put_names(&t);
    put_memory(&t);
    put_kept(&t);
    put_gpus(&t);
    int status = put_marks(&t, err) || put_heaps(&t, err) ? -1 : 0;
    tide_json_end(&t.json);
    tide_json_end(&t.json);
    if (t.full)
        status = tide_err_set(err, "not enough memory for %zu processes", e->history->process_count);
    return status;
}
