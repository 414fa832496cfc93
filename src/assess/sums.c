/*
 * sums.c - the memory of several processes as one series, for a role and for the whole tree, and whether
 * these processes explain what it did.
 *
 * A page that several processes share must count once. Who shares what is found out late (a process is read
 * now and then), and changes without anybody asking for memory: a forked process writes to a page that it had
 * in common with others, a neighbour loads the same library. None of that is growth. So, at each look, a
 * process counts with its private bytes plus a rest that is the same for its whole life: its part of shared
 * files, negative if it was forked and began with its parent's pages. Processes that come and go are each
 * read at another moment, if at all; they get the usual rest of their role.
 */
#include "assess/assessment_private.h"
#include "base/text.h"
#include "judge/thresholds.h"

#include <math.h>
#include <string.h>

/* The processes of a sum. */
struct sum {
    const size_t *members; /* indices */
    size_t count;
    size_t from, looks; /* from the first look at one of them to the end of the last */
    double *alive;      /* per look of these, and one more: how many lived */
    size_t at_once;     /* most that lived at the same time */
};

/* ---- what a process has of its own */

/* True if it began as a copy of its parent, and so with its parent's memory, not as a program of its own. */
static bool is_forked(const struct tide_history *h, const struct tide_history_process *p)
{
    const struct tide_history_process *parent = tide_history_process(h, p->row.parent);
    if (!parent || !p->point_count || !p->row.command[0] || strcmp(parent->row.command, p->row.command))
        return false;
    const struct tide_history_point *then = tide_history_point_at(parent, p->points[0].t_ns);
    return then && p->points[0].private_bytes >= then->private_bytes / 2;
}

/* Returns the rest of a process by its last reading; NAN: it was never read. */
static double rest_as_read(const struct tide_history_process *p, bool forked)
{
    const struct tide_history_smaps *last = p->smaps_count ? &p->smaps[p->smaps_count - 1] : NULL;
    const struct tide_history_point *then = last ? tide_history_point_at(p, last->t_ns) : NULL;
    if (!then)
        return NAN;
    if (forked) /* what it shares counts for its parent */
        return fmin((double)(last->uss_bytes - then->private_bytes), 0);
    return fmax((double)(last->pss_bytes - then->private_bytes), -(double)then->shared_bytes);
}

/* Returns what a forked process began with: all that its parent had when it forked, which was before the
 * first look at the child and not before the last look without it. What more the child has it took since. */
static double inherited_bytes(const struct tide_history *h, const struct tide_history_process *p)
{
    const struct tide_history_process *parent = tide_history_process(h, p->row.parent);
    int64_t seen_ns = p->points[0].t_ns;
    size_t tick = tide_history_tick_from(h, seen_ns);
    const struct tide_history_point *now = tide_history_point_at(parent, seen_ns);
    const struct tide_history_point *before =
        tick ? tide_history_point_at(parent, h->ticks[tick - 1].t_ns) : NULL;
    double had = fmax((double)now->private_bytes, before ? (double)before->private_bytes : 0);
    return fmin(had, (double)p->points[0].private_bytes);
}

/* Fills s->rest of the members. */
static void find_rests(struct tide_assessing *s, const struct sum *sum)
{
    double usual = 0, known = 0; /* what forked processes have made their own of what they inherited */
    for (size_t i = 0; i < sum->count; i++) {
        const struct tide_history_process *p = &s->h->processes[sum->members[i]];
        bool forked = is_forked(s->h, p);
        double rest = p->point_count ? rest_as_read(p, forked) : 0;
        s->rest[sum->members[i]] = rest;
        if (!forked || isnan(rest) || !p->point_count)
            continue;
        usual += fmax(inherited_bytes(s->h, p) + rest, 0);
        known++;
    }
    usual = known > 0 ? round(usual / known) : 0;
    for (size_t i = 0; i < sum->count; i++) {
        const struct tide_history_process *p = &s->h->processes[sum->members[i]];
        double *rest = &s->rest[sum->members[i]];
        bool passing = sum->at_once < sum->count;
        if (p->point_count && is_forked(s->h, p) && (isnan(*rest) || passing))
            *rest = usual - inherited_bytes(s->h, p);
        else if (isnan(*rest))
            *rest = 0;
    }
}

double tide_assessing_own(const struct tide_assessing *s, size_t process,
                          const struct tide_history_point *point)
{
    return fmax((double)point->private_bytes + s->rest[process], 0);
}

/* ---- adding up */

static bool was_seen(const struct tide_assessing *s, const struct tide_history_process *p)
{
    return p->point_count > 0 && p->points[0].t_ns < tide_assessing_end(s, p);
}

/* Fills from and looks. */
static void find_looks(const struct tide_assessing *s, struct sum *sum)
{
    size_t from = s->h->tick_count, to = 0;
    for (size_t i = 0; i < sum->count; i++) {
        const struct tide_history_process *p = &s->h->processes[sum->members[i]];
        if (!was_seen(s, p))
            continue;
        size_t first = tide_history_tick_from(s->h, p->points[0].t_ns),
               end = tide_history_tick_from(s->h, tide_assessing_end(s, p));
        from = first < from ? first : from;
        to = end > to ? end : to;
    }
    sum->from = from;
    sum->looks = to > from ? to - from : 0;
}

/* Adds the changes at each look because of one process: whether it lives, or what it has. */
static void add_changes(const struct tide_assessing *s, const struct sum *sum, size_t process, bool bytes,
                        double *change)
{
    const struct tide_history *h = s->h;
    const struct tide_history_process *p = &h->processes[process];
    int64_t ended = tide_assessing_end(s, p);
    if (!was_seen(s, p))
        return;
    size_t at = tide_history_tick_from(h, p->points[0].t_ns);
    double level = 0;
    for (size_t i = 0; i < (bytes ? p->point_count : 1) && p->points[i].t_ns < ended; i++) {
        while (at < h->tick_count && h->ticks[at].t_ns < p->points[i].t_ns)
            at++;
        double now = bytes ? tide_assessing_own(s, process, &p->points[i]) : 1;
        change[at - sum->from] += now - level;
        level = now;
    }
    change[tide_history_tick_from(h, ended) - sum->from] -= level;
}

/* Adds up add_changes() over the members. Lives in the scratch arena; NULL without memory. */
static double *add_up(struct tide_assessing *s, const struct sum *sum, bool bytes)
{
    double *values = tide_arena_take(s->scratch, sum->looks + 1, sizeof *values);
    for (size_t i = 0; values && i < sum->count; i++)
        add_changes(s, sum, sum->members[i], bytes, values);
    for (size_t i = 1; values && i < sum->looks; i++)
        values[i] += values[i - 1];
    return values;
}

static int count_members(struct tide_assessing *s, struct sum *sum)
{
    find_looks(s, sum);
    sum->alive = add_up(s, sum, false);
    if (!sum->alive)
        return tide_assessing_no_memory(s->err);
    for (size_t i = 0; i < sum->looks; i++)
        sum->at_once = sum->alive[i] > (double)sum->at_once ? (size_t)sum->alive[i] : sum->at_once;
    return 0;
}

/* True if a process has most of the sum at that look, lives as long as the sum, and came when there was
 * hardly anything; *ret_came is the look at which it came. */
static bool is_main_program(const struct tide_assessing *s, const struct sum *sum, const double *bytes,
                            size_t highest, size_t process, size_t *ret_came)
{
    const struct tide_history *h = s->h;
    const struct tide_history_process *p = &h->processes[process];
    const struct tide_history_point *then = tide_history_point_at(p, h->ticks[sum->from + highest].t_ns);
    double before = 0;
    if (!was_seen(s, p) || !then || tide_assessing_end(s, p) < h->ticks[sum->from + sum->looks - 1].t_ns ||
        tide_assessing_own(s, process, then) < TIDE_SUM_EXPLAINED * bytes[highest])
        return false;
    *ret_came = tide_history_tick_from(h, p->points[0].t_ns) - sum->from;
    for (size_t i = 0; i < *ret_came; i++)
        before = fmax(before, bytes[i]);
    return *ret_came <= sum->looks / 2 && before <= TIDE_SUM_BEFORE * bytes[highest];
}

/* Returns the first look of the tree that is judged. A script gets ready, then starts the program that it is
 * about: that it came is neither growth nor a jump. */
static size_t first_look(const struct tide_assessing *s, const struct sum *sum, const double *bytes)
{
    size_t highest = 0, came = 0;
    for (size_t i = 1; i < sum->looks; i++)
        highest = bytes[i] > bytes[highest] ? i : highest;
    for (size_t i = 0; i < sum->count && sum->looks; i++)
        if (is_main_program(s, sum, bytes, highest, sum->members[i], &came))
            return came;
    return 0;
}

static int judge_sum(struct tide_assessing *s, const struct sum *sum, struct tide_judged j)
{
    size_t count = 0;
    bool lasts = sum->from + sum->looks == s->h->tick_count && sum->looks > 0;
    double *bytes = add_up(s, sum, true);
    struct tide_level *levels = tide_arena_take(s->scratch, sum->looks + 1, sizeof *levels);
    if (!levels || !bytes)
        return tide_assessing_no_memory(s->err);
    for (size_t i = j.subject == TIDE_SUBJECT_TREE ? first_look(s, sum, bytes) : 0; i < sum->looks; i++)
        if (sum->alive[i] >= 1)
            levels[count++] = (struct tide_level){s->h->ticks[sum->from + i].t_ns, bytes[i]};
    if (j.subject == TIDE_SUBJECT_ROLE)
        j.limit_bytes = tide_assessing_limit(s, lasts ? bytes[sum->looks - 1] : 0);
    return tide_assessing_levels(s, levels, count, 0, 0, true, j);
}

/* ---- the sums there are */

static int judge_role(struct tide_assessing *s, const struct sum *sum)
{
    const struct tide_history_process *first = &s->h->processes[sum->members[0]];
    const char *role = TIDE_SHOWN(first->row.role, 64);
    struct tide_judged j = {.subject = TIDE_SUBJECT_ROLE,
                            .device = TIDE_UNKNOWN,
                            .member = first->row.id,
                            .role = tide_assessing_role(s, first),
                            .members = sum->at_once};
    snprintf(j.name, sizeof j.name, "%zu x %s", j.members, role);
    if (j.members < sum->count)
        snprintf(j.name, sizeof j.name, "%zu x %s (%zu in all)", j.members, role, sum->count);
    return judge_sum(s, sum, j);
}

/* Finds the rests of all processes, and judges the roles that have several. */
static int judge_roles(struct tide_assessing *s)
{
    const size_t *order = s->by_role, count = s->h->process_count;
    for (size_t from = 0, to; from < count; from = to) {
        const char *role = s->h->processes[order[from]].row.role;
        for (to = from + 1; *role && to < count && !strcmp(s->h->processes[order[to]].row.role, role);)
            to++;
        struct tide_arena_mark mark = tide_arena_mark(s->scratch);
        struct sum sum = {.members = order + from, .count = to - from, .at_once = 1};
        if (sum.count > 1 && count_members(s, &sum))
            return -1;
        find_rests(s, &sum);
        if (sum.count > 1 && judge_role(s, &sum))
            return -1;
        tide_arena_rewind(s->scratch, mark);
    }
    return 0;
}

int tide_assessing_sums(struct tide_assessing *s)
{
    size_t count = s->h->process_count;
    s->rest = tide_arena_take(s->arena, count + 1, sizeof *s->rest);
    if (!s->rest)
        return tide_assessing_no_memory(s->err);
    if (judge_roles(s))
        return -1;
    struct tide_arena_mark mark = tide_arena_mark(s->scratch);
    struct sum tree = {.members = s->by_role, .count = count};
    if (count_members(s, &tree))
        return -1;
    struct tide_judged j = {.subject = TIDE_SUBJECT_TREE,
                            .device = TIDE_UNKNOWN,
                            .members = tree.at_once,
                            .limit_bytes = s->a->limit_bytes};
    snprintf(j.name, sizeof j.name, "the process tree");
    int status = judge_sum(s, &tree, j);
    tide_arena_rewind(s->scratch, mark);
    return status;
}

/* ---- whether its processes explain what a sum did */

/* The growth of a sum, split by the verdicts on the processes in it. */
struct explained {
    double leaks, retained, filled, room, unknown;
    double steps_needed; /* until `unknown` is known */
    double more;         /* what processes that came have, less those that went */
};

static bool is_member(const struct tide_history *h, const struct tide_judged *sum,
                      const struct tide_history_process *p)
{
    const struct tide_history_process *like = tide_history_process(h, sum->member);
    return !like || !strcmp(like->row.role, p->row.role);
}

static void add_verdict(struct explained *e, const struct tide_judged *j)
{
    double growth = fmax(j->verdict.growth_bytes, 0);
    if (j->verdict.kind == TIDE_RETENTION)
        e->retained += growth;
    else if (j->verdict.kind == TIDE_LEAK)
        e->leaks += growth;
    else if (j->may_go_on) {
        e->unknown += growth;
        e->steps_needed = fmax(e->steps_needed, j->verdict.steps_needed);
    } else if (j->filling) {
        e->filled += growth;
        e->room += j->verdict.ceiling_bytes - j->verdict.floor_last;
    }
}

/* True if a process is in the sums at a time: until the look that finds it gone. */
static bool counts_at(const struct tide_assessing *s, const struct tide_history_process *p, int64_t t_ns)
{
    size_t gone = tide_history_tick_from(s->h, tide_assessing_end(s, p));
    return p->row.began_ns <= t_ns && (gone == s->h->tick_count || s->h->ticks[gone].t_ns >= t_ns);
}

static struct explained explain(const struct tide_assessing *s, const struct tide_judged *sum)
{
    struct explained e = {0};
    const struct tide_history *h = s->h;
    int64_t from_ns = tide_assessing_time(s, sum->verdict.start_x),
            to_ns = tide_assessing_time(s, sum->verdict.x_last);
    for (size_t i = 0; i < s->a->count; i++) {
        const struct tide_judged *j = &s->a->judged[i];
        const struct tide_history_process *p = tide_history_process(h, j->process);
        if (j->subject == TIDE_SUBJECT_PROCESS && is_member(h, sum, p) && counts_at(s, p, to_ns))
            add_verdict(&e, j);
    }
    for (size_t i = 0; i < h->process_count; i++) {
        const struct tide_history_process *p = &h->processes[i];
        bool before = counts_at(s, p, from_ns), after = counts_at(s, p, to_ns);
        const struct tide_history_point *point = tide_history_point_at(p, before ? from_ns : to_ns);
        if (before != after && point && is_member(h, sum, p))
            e.more += (after ? 1 : -1) * tide_assessing_own(s, i, point);
    }
    return e;
}

void tide_assessing_explain_sums(struct tide_assessing *s)
{
    for (size_t i = 0; i < s->a->count; i++) {
        struct tide_judged *j = &s->a->judged[i];
        struct tide_verdict *v = &j->verdict;
        bool sum = j->subject == TIDE_SUBJECT_TREE || j->subject == TIDE_SUBJECT_ROLE;
        bool rose = v->kind == TIDE_LEAK || v->kind == TIDE_PLATEAU || v->kind == TIDE_JUMP;
        if (!sum || !rose)
            continue;
        struct explained e = explain(s, j);
        double nearly_all = (1 - TIDE_RETENTION_LIVE) * v->growth_bytes;
        if (e.retained > 0 && e.retained >= nearly_all)
            v->kind = TIDE_RETENTION;
        else if (v->kind == TIDE_LEAK && e.filled > 0 && e.filled >= nearly_all)
            tide_assessing_fill(j, v->floor_last + e.room);
        else if (v->kind == TIDE_PLATEAU && e.unknown > 0 &&
                 e.unknown >= TIDE_SUM_EXPLAINED * v->growth_bytes)
            tide_assessing_doubt(v, e.steps_needed);
        else if (v->kind == TIDE_LEAK && e.leaks + e.more < TIDE_SUM_EXPLAINED * v->growth_bytes) {
            /* Little for that many processes, or not known why. */
            j->unexplained = v->growth_bytes >= TIDE_LEAK_LEAST * (double)j->members;
            if (j->unexplained)
                tide_assessing_doubt(v, v->x_last - v->x_first);
            else
                tide_assessing_flat(v, v->slope);
        }
    }
}
