#include "show/report/page_marks.h"

#include <math.h>

enum { SPANS_MOST = 1500, GAPS_MOST = 1000, NAMES_MOST = 40, EPOCHS_MOST = 200, STEPS_MOST = 1500 };

static int no_memory(struct tide_err *err)
{
    return tide_err_set(err, "not enough memory to draw the marks");
}

/* Merges stretches of the same phase with less than gap_ns between them. `newest`: for each name the index of
 * its newest span, + 1. */
static void merge(struct tide_report_marks *m, int64_t gap_ns, size_t newest[static NAMES_MOST])
{
    size_t kept = 0;
    for (size_t i = 0; i < NAMES_MOST; i++)
        newest[i] = 0;
    for (size_t i = 0; i < m->span_count; i++) {
        struct tide_stretch s = m->spans[i];
        struct tide_stretch *before = newest[s.name] ? &m->spans[newest[s.name] - 1] : NULL;
        if (before && s.from_ns - before->to_ns < gap_ns) {
            before->to_ns = s.to_ns > before->to_ns ? s.to_ns : before->to_ns;
            continue;
        }
        m->spans[kept++] = s;
        newest[s.name] = kept;
    }
    m->span_count = kept;
    m->merged_ns = gap_ns;
}

static int make_spans(const struct tide_summary *summary, struct tide_arena *arena,
                      struct tide_report_marks *m, struct tide_err *err)
{
    const struct tide_history *h = summary->history;
    const struct tide_phases *told = &summary->told;
    m->names = tide_arena_take(arena, NAMES_MOST, sizeof *m->names);
    m->spans = tide_arena_take(arena, told->stretch_count + 1, sizeof *m->spans);
    int32_t *index = tide_arena_take(arena, h->name_count + 1, sizeof *index); /* in m->names, + 1 */
    if (!m->names || !m->spans || !index)
        return no_memory(err);
    for (size_t i = 0; i < told->stretch_count; i++) {
        struct tide_stretch span = told->stretches[i];
        if (!index[span.name] && m->name_count < NAMES_MOST) {
            m->names[m->name_count++] = h->names[span.name];
            index[span.name] = (int32_t)m->name_count;
        }
        if (!index[span.name]) {
            m->spans_left_out++;
            continue;
        }
        span.name = index[span.name] - 1;
        span.to_ns = span.to_ns == INT64_MAX ? summary->last_ns : span.to_ns;
        m->spans[m->span_count++] = span;
    }
    size_t newest[NAMES_MOST];
    for (int64_t gap_ns = summary->last_ns / GAPS_MOST + 1; m->span_count > SPANS_MOST; gap_ns *= 2)
        merge(m, gap_ns, newest);
    return 0;
}

static int make_epochs(const struct tide_history *h, struct tide_arena *arena, struct tide_report_marks *m,
                       struct tide_err *err)
{
    size_t count = 0, seen = 0;
    for (size_t i = 0; i < h->mark_count; i++)
        count += h->marks[i].kind == TIDE_MARK_EPOCH;
    m->epochs = tide_arena_take(arena, EPOCHS_MOST + 1, sizeof *m->epochs);
    if (!m->epochs)
        return no_memory(err);
    size_t stride = (count + EPOCHS_MOST - 1) / EPOCHS_MOST;
    for (size_t i = 0; i < h->mark_count; i++)
        if (h->marks[i].kind == TIDE_MARK_EPOCH && seen++ % stride == 0)
            m->epochs[m->epoch_count++] = (struct tide_report_mark){h->marks[i].t_ns, h->marks[i].number};
    m->epochs_left_out = count - m->epoch_count;
    return 0;
}

static int make_steps(const struct tide_axis *axis, struct tide_arena *arena, struct tide_report_marks *m,
                      struct tide_err *err)
{
    size_t count = axis->is_steps ? axis->count : 0, kept = count < STEPS_MOST ? count : STEPS_MOST;
    m->steps = tide_arena_take(arena, kept + 1, sizeof *m->steps);
    if (!m->steps)
        return no_memory(err);
    for (size_t i = 0; i < kept; i++) {
        size_t at = kept > 1 ? i * (count - 1) / (kept - 1) : 0;
        m->steps[m->step_count++] = (struct tide_report_mark){axis->t_ns[at], llround(axis->step[at])};
    }
    return 0;
}

int tide_report_marks_make(const struct tide_summary *summary, struct tide_arena *arena,
                           struct tide_report_marks *ret_marks, struct tide_err *err)
{
    struct tide_report_marks marks = {0};
    if (make_spans(summary, arena, &marks, err) || make_epochs(summary->history, arena, &marks, err) ||
        make_steps(&summary->axis, arena, &marks, err))
        return -1;
    *ret_marks = marks;
    return 0;
}
