#include "assess/plan_compared.h"
#include "assess/phases.h"
#include "base/text.h"

#include <string.h>

#define ARENA_MOST ((size_t)1 << 30)

/* True if a time is in one of the spans, which follow one another. */
static bool inside(const struct tide_stretch *spans, size_t count, int64_t t_ns)
{
    size_t begun = count ? tide_until(&spans->from_ns, sizeof *spans, count, t_ns) : 0;
    return begun > 0 && t_ns <= spans[begun - 1].to_ns;
}

/* Returns the highest sum over the job's processes on devices within the spans; -1: no sample there. */
static int64_t device_peak(const struct tide_history *h, const struct tide_stretch *spans, size_t count)
{
    int64_t peak = -1;
    bool whole = true;
    for (size_t i = 0; i < h->gpu_count; i++)
        whole &= h->gpu[i].process == 0;
    for (size_t at = 0; at < h->gpu_count;) {
        int64_t moment = h->gpu[at].t_ns, sum = 0;
        for (; at < h->gpu_count && h->gpu[at].t_ns == moment; at++)
            sum += (h->gpu[at].process == 0) == whole ? h->gpu[at].bytes : 0;
        if (inside(spans, count, moment) && sum > peak)
            peak = sum;
    }
    return peak;
}

/* Returns the highest resident size of one process within the spans; -1: no sample there. */
static int64_t host_peak(const struct tide_history *h, const struct tide_stretch *spans, size_t count)
{
    int64_t peak = -1;
    for (size_t i = 0; i < h->process_count; i++)
        for (size_t k = 0; k < h->processes[i].point_count; k++) {
            const struct tide_history_point *p = &h->processes[i].points[k];
            if (inside(spans, count, p->t_ns) && p->rss_bytes > peak)
                peak = p->rss_bytes;
        }
    return peak;
}

/* Finds where the program named a phase of this name; spans has room for all. */
static size_t find_spans(const struct tide_history *h, const struct tide_phases *phases, const char *name,
                         struct tide_stretch *spans)
{
    size_t count = 0;
    for (size_t i = 0; i < phases->stretch_count; i++)
        if (!strcmp(h->names[phases->stretches[i].name], name))
            spans[count++] = phases->stretches[i];
    return count;
}

static void add_row(struct tide_against *to, const char *name, int64_t planned, int64_t peak)
{
    struct tide_against_row *row = &to->rows[to->count++];
    tide_text_shown(name, row->name, sizeof row->name);
    row->planned = planned;
    row->seen = peak;
}

int tide_against_compare(bool host, const struct tide_forecast *f, const struct tide_history *h,
                         struct tide_against *to, struct tide_err *err)
{
    struct tide_phases phases;
    struct tide_stretch *spans = NULL, all = {INT64_MIN, INT64_MAX, -1, false};
    struct tide_arena arena;
    tide_arena_init(&arena, ARENA_MOST);
    if (tide_phases_find(h, &arena, &phases) == 0)
        spans = tide_arena_take(&arena, phases.stretch_count + 1, sizeof *spans);
    if (!spans) {
        tide_arena_release(&arena);
        return tide_err_set(err, "not enough memory to compare the plan with the recording");
    }
    bool device = h->gpu_count > 0;
    int64_t above = device ? f->context + f->reserved - f->allocated : host ? f->context : 0;
    to->count = 0;
    to->what = device ? "on the device" : "resident memory of the largest process";
    for (int i = 0; i < f->phase_count; i++) {
        size_t count = find_spans(h, &phases, f->phases[i].name, spans);
        int64_t peak = !count ? -1 : device ? device_peak(h, spans, count) : host_peak(h, spans, count);
        if (peak >= 0)
            add_row(to, f->phases[i].name, f->phases[i].peak + above, peak);
    }
    add_row(to, "whole run", f->allocated + above, device ? device_peak(h, &all, 1) : host_peak(h, &all, 1));
    tide_arena_release(&arena);
    return 0;
}

int tide_against_end(const char *path, int64_t *ret_step, bool *ret_well, struct tide_err *err)
{
    struct tide_history *history;
    int64_t step = 0;
    if (tide_history_open(path, &history, err))
        return -1;
    for (size_t i = 0; i < history->mark_count; i++)
        if (history->marks[i].kind == TIDE_MARK_STEP && history->marks[i].number > step)
            step = history->marks[i].number;
    *ret_step = step;
    *ret_well = history->exit_status == 0;
    tide_history_free(history);
    return 0;
}
