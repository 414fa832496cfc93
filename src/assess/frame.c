/*
 * frame.c - what all series of a recording are judged on: the axis, its buckets, epochs and phases, and the
 * processes by role.
 */
#include "assess/assessment_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUCKETS = 4096, /* points of a series: more cannot change a verdict, because a floor has at most a hundred
                       windows */
};

/* True if a look is the first of its cell. In a history that is not thinned each look has its own. */
static bool begins_cell(const struct tide_history *h, size_t tick)
{
    return tick == 0 || h->cell_ns == 0 ||
           h->ticks[tick].t_ns / h->cell_ns != h->ticks[tick - 1].t_ns / h->cell_ns;
}

/* Cuts the recording into buckets of equally many looks. There is at least one look. Where a recording is
 * thinned, what came last is not, and would be cut into shorter buckets than the rest; so cells count. */
static int make_buckets(struct tide_assessing *s)
{
    const struct tide_history *h = s->h;
    size_t cells = 0, cell = 0, b = 0;
    for (size_t i = 0; i < h->tick_count; i++)
        cells += begins_cell(h, i);
    s->buckets = cells < BUCKETS ? cells : BUCKETS;
    s->bucket_ns = tide_arena_take(s->arena, s->buckets + 1, sizeof *s->bucket_ns);
    s->bucket_x = tide_arena_take(s->arena, s->buckets + 1, sizeof *s->bucket_x);
    if (!s->bucket_ns || !s->bucket_x)
        return tide_assessing_no_memory(s->err);
    for (size_t i = 0; i < h->tick_count; i++) {
        if (!begins_cell(h, i) || cell++ < b * cells / s->buckets)
            continue;
        s->bucket_ns[b] = h->ticks[i].t_ns;
        s->bucket_x[b] = tide_axis_at(&s->axis, s->bucket_ns[b]);
        b++;
    }
    s->bucket_ns[s->buckets] = h->ticks[h->tick_count - 1].t_ns + 1;
    return 0;
}

static int make_epochs(struct tide_assessing *s)
{
    const struct tide_history *h = s->h;
    size_t epochs = 0;
    for (size_t i = 0; i < h->mark_count; i++)
        epochs += h->marks[i].kind == TIDE_MARK_EPOCH;
    s->epochs = tide_arena_take(s->arena, epochs + 1, sizeof *s->epochs);
    if (!s->epochs)
        return tide_assessing_no_memory(s->err);
    for (size_t i = 0; i < h->mark_count; i++) {
        double x = h->marks[i].kind == TIDE_MARK_EPOCH ? tide_axis_at(&s->axis, h->marks[i].t_ns) : NAN;
        if (isfinite(x))
            s->epochs[s->epoch_count++] = x;
    }
    return 0;
}

/* Phases as stretches of the axis. */
static int make_spans(struct tide_assessing *s)
{
    struct tide_phases *phases = &s->a->phases;
    if (tide_phases_find(s->h, s->arena, phases))
        return tide_assessing_no_memory(s->err);
    s->spans = tide_arena_take(s->arena, phases->stretch_count + 1, sizeof *s->spans);
    if (!s->spans)
        return tide_assessing_no_memory(s->err);
    for (size_t i = 0; i < phases->stretch_count; i++) {
        const struct tide_stretch *t = &phases->stretches[i];
        double from = tide_axis_at(&s->axis, t->from_ns);
        double to = t->to_ns == INT64_MAX ? NAN : tide_axis_at(&s->axis, t->to_ns);
        if (isfinite(from))
            s->spans[s->span_count++] = (struct tide_span){from, isnan(to) ? INFINITY : to, t->name};
    }
    return 0;
}

/* Finds the phase that ran when memory was read. On an axis of steps all phases of a step are at the same
 * place, so only the time tells which of them held a spike. */
static int find_bucket_phases(struct tide_assessing *s)
{
    const struct tide_history *h = s->h;
    const struct tide_phases *phases = &s->a->phases;
    struct tide_arena_mark mark = tide_arena_mark(s->scratch);
    size_t *begun = tide_arena_take(s->scratch, phases->count + 1, sizeof *begun), next = 0, depth = 0;
    s->bucket_phase = tide_arena_take(s->arena, s->buckets + 1, sizeof *s->bucket_phase);
    if (!begun || !s->bucket_phase)
        return tide_assessing_no_memory(s->err);
    int64_t most = 0;
    for (size_t i = 0, b = 0; i < h->tick_count; i++) {
        int64_t t_ns = h->ticks[i].t_ns;
        for (; next < phases->count && phases->all[next].from_ns <= t_ns; next++)
            begun[depth++] = next;
        while (depth > 0 && !tide_phase_runs(&phases->all[begun[depth - 1]], t_ns))
            depth--;
        bool first = i == 0;
        for (; b + 1 < s->buckets && t_ns >= s->bucket_ns[b + 1]; b++)
            first = true;
        if (!first && h->ticks[i].counted_bytes <= most)
            continue;
        most = h->ticks[i].counted_bytes;
        s->bucket_phase[b] = depth ? phases->all[begun[depth - 1]].name : -1;
    }
    tide_arena_rewind(s->scratch, mark);
    return 0;
}

static int by_role(const void *a, const void *b, void *context)
{
    const struct tide_history *h = context;
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    int order = strcmp(h->processes[left].row.role, h->processes[right].row.role);
    return order ? order : (left > right) - (left < right);
}

static int find_roles(struct tide_assessing *s)
{
    const struct tide_history *h = s->h;
    s->by_role = tide_arena_take(s->arena, h->process_count + 1, sizeof *s->by_role);
    s->role_of = tide_arena_take(s->arena, h->process_count + 1, sizeof *s->role_of);
    if (!s->by_role || !s->role_of)
        return tide_assessing_no_memory(s->err);
    for (size_t i = 0; i < h->process_count; i++)
        s->by_role[i] = i;
    qsort_r(s->by_role, h->process_count, sizeof *s->by_role, by_role, (void *)h);
    const char *before = NULL;
    for (size_t i = 0; i < h->process_count; i++) {
        const char *role = h->processes[s->by_role[i]].row.role;
        s->role_count += !before || strcmp(role, before);
        s->role_of[s->by_role[i]] = s->role_count - 1;
        before = role;
    }
    return 0;
}

int tide_assessing_frame(struct tide_assessing *s)
{
    return tide_axis_make(s->h, s->arena, &s->axis, s->err) || make_buckets(s) || make_epochs(s) ||
                   make_spans(s) || find_bucket_phases(s) || find_roles(s)
               ? -1
               : 0;
}
