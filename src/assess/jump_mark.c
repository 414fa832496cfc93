/*
 * jump_mark.c - what the program did when its memory jumped.
 *
 * A jump falls between two looks. If epochs or phases began or ended between them, the jump is moved to the
 * last of these before memory was up, or to the first if that is not known.
 */
#include "assess/assessment_private.h"

/* Returns when memory was first past half of its jump; INT64_MAX: not known. */
static int64_t jump_time(const struct tide_assessing *s, const struct tide_judged *j)
{
    const struct tide_history *h = s->h;
    const struct tide_history_process *p = tide_history_process(h, j->process);
    bool tree = j->subject == TIDE_SUBJECT_TREE,
         process = j->subject == TIDE_SUBJECT_PROCESS && !j->own_pages;
    size_t count = tree ? h->tick_count : p && process ? p->point_count : 0;
    for (size_t i = 0; i < count; i++) {
        int64_t t_ns = tree ? h->ticks[i].t_ns : p->points[i].t_ns;
        int64_t bytes = tree ? h->ticks[i].counted_bytes : p->points[i].private_bytes;
        if (tide_axis_at(&s->axis, t_ns) >= j->verdict.jump_after &&
            (double)bytes >= j->verdict.floor_last - j->verdict.jump_bytes / 2)
            return t_ns;
    }
    return INT64_MAX;
}

static void name_jump_mark(const struct tide_history *h, const struct tide_history_mark *m,
                           struct tide_judged *j)
{
    char name[48];
    tide_history_name(h, m->name, name, sizeof name);
    if (m->kind == TIDE_MARK_EPOCH)
        snprintf(j->jump_mark, sizeof j->jump_mark, "start of epoch %lld", (long long)m->number);
    else
        snprintf(j->jump_mark, sizeof j->jump_mark, "%s of phase \"%s\"",
                 m->kind == TIDE_MARK_PHASE_BEGIN ? "start" : "end", name);
}

void tide_assessing_jump_mark(const struct tide_assessing *s, struct tide_judged *j)
{
    const struct tide_history *h = s->h;
    struct tide_verdict *v = &j->verdict;
    double after = v->jump_after, until = v->jump_x;
    int64_t up_ns = jump_time(s, j);
    for (size_t i = 0; i < h->mark_count; i++) {
        const struct tide_history_mark *m = &h->marks[i];
        bool phase = m->kind == TIDE_MARK_PHASE_BEGIN || m->kind == TIDE_MARK_PHASE_END;
        if (m->kind != TIDE_MARK_EPOCH && !phase)
            continue;
        double x = tide_axis_at(&s->axis, m->t_ns);
        if (!(x >= after && x <= until) || (m->t_ns > up_ns && j->jump_mark[0]))
            continue;
        name_jump_mark(h, m, j);
        v->jump_x = x;
        if (up_ns == INT64_MAX)
            return;
    }
}
