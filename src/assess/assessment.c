#include "assess/assessment_private.h"
#include "assess/process_name.h"
#include "base/map.h"
#include "base/text.h"
#include "judge/thresholds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SMAPS = 12 };

#define ARENA_MOST ((size_t)1 << 30)

struct tide_assessment_private {
    struct tide_assessment public;
    struct tide_arena arena;     /* series, names: as long as the assessment */
    struct tide_arena scratch;   /* the judge's */
    struct tide_assessing frame; /* axis, buckets and phases, for tide_assess_levels() */
};

/* --- limits -------------------------------------------------------------------------------------------- */

static void find_rlimits(struct tide_assessing *s)
{
    for (size_t i = 0; i < s->h->limit_count; i++) {
        const struct tide_limit *l = &s->h->limits[i];
        if (!strncmp(l->name, "rlimit AS ", 10))
            s->rlimits[TIDE_RLIMIT_AS] = l;
        else if (!strncmp(l->name, "rlimit DATA ", 12))
            s->rlimits[TIDE_RLIMIT_DATA] = l;
    }
}

/* Finds the lowest limit of the tree at the end: of each name, the last counts. "gpu N" and "rlimit" limits
 * are not the tree's. One that the user asks about is the only one. */
static int find_limit(struct tide_assessing *s)
{
    const struct tide_history *h = s->h;
    struct tide_assessment *a = s->a;
    struct tide_map newer; /* names of those after this one */
    if (isfinite(s->options->limit_bytes)) {
        a->limit_bytes = s->options->limit_bytes;
        snprintf(a->limit_name, sizeof a->limit_name, "--limit");
        return 0;
    }
    int status = 0;
    find_rlimits(s);
    tide_map_init(&newer, h->limit_count + 1);
    for (size_t i = h->limit_count; i-- > 0 && status == 0;) {
        const struct tide_limit *l = &h->limits[i];
        uint64_t key = tide_map_text_key(l->name);
        bool of_a_part = !strncmp(l->name, "gpu", 3) || !strncmp(l->name, "rlimit", 6);
        if (of_a_part || tide_map_get(&newer, key, NULL))
            continue;
        if (tide_map_put(&newer, key, 0))
            status = tide_assessing_no_memory(s->err);
        if (l->bytes <= 0 || (double)l->bytes > a->limit_bytes)
            continue;
        a->limit_bytes = (double)l->bytes;
        tide_text_shown(l->name, a->limit_name, sizeof a->limit_name);
    }
    tide_map_release(&newer);
    return status;
}

/* --- one series ---------------------------------------------------------------------------------------- */

/* Returns the bucket that holds a time; the first if it is earlier than all; `buckets` if it is later. */
static size_t bucket_at(const struct tide_assessing *s, int64_t t_ns)
{
    return tide_until(s->bucket_ns + 1, sizeof *s->bucket_ns, s->buckets, t_ns);
}

/* Finds the lowest and the highest level of each bucket. */
static void hold_levels(const struct tide_assessing *s, const struct tide_level *levels, size_t count,
                        int64_t began, int64_t ended, double *low, double *high)
{
    if (count == 0)
        return;
    int64_t first = levels[0].t_ns > began ? levels[0].t_ns : began;
    for (size_t b = bucket_at(s, first), at = 0; b < s->buckets && s->bucket_ns[b] < ended; b++) {
        int64_t from = s->bucket_ns[b], to = s->bucket_ns[b + 1];
        while (at + 1 < count && levels[at + 1].t_ns <= from)
            at++;
        low[b] = high[b] = levels[at].bytes;
        for (size_t i = at + 1; i < count && levels[i].t_ns < to; i++) {
            low[b] = fmin(low[b], levels[i].bytes);
            high[b] = fmax(high[b], levels[i].bytes);
        }
    }
}

/* The same for levels that are known only where they were read. */
static void put_levels(const struct tide_assessing *s, const struct tide_level *rows, size_t count,
                       double *low, double *high)
{
    for (size_t i = 0, b = 0; i < count; i++) {
        while (b + 1 < s->buckets && rows[i].t_ns >= s->bucket_ns[b + 1])
            b++;
        low[b] = fmin(low[b], rows[i].bytes);
        high[b] = fmax(high[b], rows[i].bytes);
    }
}

/* Returns the process's levels: private bytes, or the pages that are its own. as_read: only where its PSS was
 * read, which alone tells its part of shared memory (shared_parts.c). Lives in the scratch arena. */
static struct tide_level *levels_of(struct tide_arena *scratch, const struct tide_history_process *p,
                                    bool own_pages, bool as_read, size_t *ret_count)
{
    size_t count = as_read ? p->smaps_count : p->point_count, n = 0;
    struct tide_level *levels = tide_arena_take(scratch, count + 1, sizeof *levels);
    for (size_t i = 0; levels && i < count; i++) {
        const struct tide_history_smaps *read = as_read ? &p->smaps[i] : NULL;
        const struct tide_history_point *then =
            as_read ? tide_history_point_at(p, read->t_ns) : &p->points[i];
        if (own_pages && then)
            levels[n++] = (struct tide_level){read->t_ns, tide_assessing_own_pages(p, i)};
        else if (!as_read)
            levels[n++] = (struct tide_level){then->t_ns, (double)then->private_bytes};
        else if (then && read->pss_shmem_bytes >= 0)
            levels[n++] = (struct tide_level){read->t_ns, (double)(then->private_bytes - then->shared_bytes) +
                                                              (double)read->pss_shmem_bytes};
    }
    *ret_count = n;
    return levels;
}

int tide_assessing_series(struct tide_assessing *s, const struct tide_level *levels, size_t count,
                          int64_t began_ns, int64_t ended_ns, bool as_read,
                          struct tide_judge_input *ret_series)
{
    size_t room = 2 * s->buckets + 1, n = 0;
    double *low = tide_arena_take(s->scratch, room, sizeof *low);
    double *x = tide_arena_take(s->scratch, room, sizeof *x);
    double *bytes = tide_arena_take(s->scratch, room, sizeof *bytes);
    int *phase = tide_arena_take(s->scratch, room, sizeof *phase);
    if (!low || !x || !bytes || !phase)
        return tide_assessing_no_memory(s->err);
    double *high = low + s->buckets;
    for (size_t i = 0; i < 2 * s->buckets; i++)
        low[i] = NAN; /* nothing was seen */
    if (as_read)
        put_levels(s, levels, count, low, high);
    else
        hold_levels(s, levels, count, began_ns, ended_ns, low, high);
    for (size_t b = 0; b < s->buckets; b++) {
        if (isnan(low[b]) || isnan(s->bucket_x[b]))
            continue;
        /* The order of several looks is not known: the value nearer to the one before came first. */
        bool falls = n > 0 && fabs(bytes[n - 1] - high[b]) < fabs(bytes[n - 1] - low[b]);
        for (int k = 0; k < (high[b] == low[b] ? 1 : 2); k++) {
            x[n] = s->bucket_x[b];
            phase[n] = s->bucket_phase[b];
            bytes[n++] = (k == 0) == falls ? high[b] : low[b];
        }
    }
    *ret_series = (struct tide_judge_input){
        .x = x, .bytes = bytes, .count = n, .x_is_steps = s->axis.is_steps, .phase_of = phase};
    ret_series->items = ret_series->items_per_step = ret_series->limit_bytes = NAN;
    return 0;
}

/* True if it ended long before the recording did, or took over from one of its role that had ended. It had a
 * piece of work to do, and what it needed for that says nothing about a longer one. */
static bool was_one_of_several(const struct tide_assessing *s, const struct tide_judged *j)
{
    const struct tide_history *h = s->h;
    const struct tide_history_process *p = tide_history_process(h, j->process);
    if (!p)
        return false;
    int64_t from_ns = s->bucket_ns[0], to_ns = s->bucket_ns[s->buckets];
    int64_t ended_ns = p->row.ended_ns == TIDE_UNKNOWN ? to_ns : p->row.ended_ns;
    if ((double)(to_ns - ended_ns) > TIDE_STARTING_OVER * (double)(to_ns - from_ns))
        return true;
    for (size_t i = 0; i < h->process_count; i++)
        if (s->role_of[i] == s->role_of[p->row.id - 1] &&
            tide_assessing_end(s, &h->processes[i]) <= p->row.began_ns)
            return true;
    return false;
}

/* Returns the share of a processor that a computing thread got between two places; 1: not known. */
static double pace(const struct tide_assessing *s, double from_x, double to_x)
{
    const struct tide_tick *ticks = s->h->ticks;
    int64_t from_ns = tide_assessing_time(s, from_x), to_ns = tide_assessing_time(s, to_x);
    double all = 0, got = 0;
    for (size_t i = 1; i < s->h->tick_count && ticks[i].t_ns <= to_ns; i++) {
        if (ticks[i - 1].t_ns < from_ns)
            continue;
        double span = (double)(ticks[i].t_ns - ticks[i - 1].t_ns);
        all += span;
        got += span * (ticks[i].share_ppm > 0 ? (double)ticks[i].share_ppm * 1e-6 : 1);
    }
    return all > 0 ? got / all : 1;
}

/* On a busy machine a start takes longer. */
double tide_assessing_left_of_start(const struct tide_assessing *s, const struct tide_judged *j)
{
    const struct tide_verdict *v = &j->verdict;
    double elapsed = v->x_last - v->x_first, width = (v->slope_high - v->slope_low) / 2;
    double start_s = TIDE_STARTING_SECONDS / pace(s, v->x_first, v->x_last);
    const struct tide_history_process *p = tide_history_process(s->h, j->process);
    bool small = v->growth_bytes < TIDE_STARTING_MATTERS * v->floor_last;
    bool records = p && p->row.rank != TIDE_UNKNOWN && v->growth_bytes < TIDE_STARTING_RECORD;
    if (s->axis.is_steps && small && (records || width > TIDE_STARTING_VAGUE * v->slope))
        return TIDE_STARTING_BUFFER - elapsed;
    if (s->axis.is_steps)
        return elapsed * s->axis.seconds_per_step < start_s ? TIDE_STARTING_STEPS - elapsed : 0;
    bool steady = v->shape == TIDE_SHAPE_LINEAR && width <= TIDE_STARTING_STEADY * v->slope &&
                  v->growth_bytes >= TIDE_STARTING_LEAST;
    double left = steady && !was_one_of_several(s, j) ? 0 : start_s - elapsed;
    double faster = v->slowed_x - v->x_first, since = v->x_last - v->slowed_x;
    return isfinite(v->slowed_x) ? fmax(left, TIDE_STARTING_SLOWED * faster - since) : left;
}

/* Growth that may be no more than the program's start is not called a leak yet. */
static void allow_for_start(const struct tide_assessing *s, struct tide_judged *j)
{
    struct tide_verdict *v = &j->verdict;
    double left = v->kind == TIDE_LEAK ? tide_assessing_left_of_start(s, j) : 0;
    if (left <= 0)
        return;
    j->starting = true;
    tide_assessing_doubt(v, left);
    v->detectable = NAN;
}

/* Copies the series to where it lives as long as the assessment. */
static int keep_series(struct tide_assessing *s, const struct tide_judge_input *input, struct tide_judged *j)
{
    double *kept_x = tide_arena_take(s->arena, input->count + 1, sizeof *kept_x);
    double *kept_bytes = tide_arena_take(s->arena, input->count + 1, sizeof *kept_bytes);
    if (!kept_x || !kept_bytes)
        return tide_assessing_no_memory(s->err);
    memcpy(kept_x, input->x, input->count * sizeof *kept_x);
    memcpy(kept_bytes, input->bytes, input->count * sizeof *kept_bytes);
    j->x = kept_x;
    j->bytes = kept_bytes;
    j->count = input->count;
    return 0;
}

/* Returns how many places of the axis a series has. */
static size_t places_of(const struct tide_judge_input *series)
{
    size_t places = 0;
    for (size_t i = 0; i < series->count; i++)
        places += i == 0 || series->x[i] != series->x[i - 1];
    return places;
}

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

/* Says what the program did when its memory jumped. A jump falls between two looks. If epochs or phases began
 * or ended between them, the jump is moved to the last of these before memory was up, or to the first if that
 * is not known. */
static void find_jump_mark(const struct tide_assessing *s, struct tide_judged *j)
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

/* Judges levels. Returns 1 if judged; 0 if they are too few; -1. */
static int judge_levels(struct tide_assessing *s, const struct tide_level *levels, size_t count,
                        int64_t began_ns, int64_t ended_ns, bool as_read, struct tide_judged *j)
{
    struct tide_judge_input input;
    struct tide_arena_mark mark = tide_arena_mark(s->scratch);
    /* The tree always gets an answer, and so do own pages that judge_own_pages() asks about. Shared memory
     * is in no process, and nothing else shows it. */
    bool always = j->subject == TIDE_SUBJECT_TREE || j->own_pages || j->shared;
    int bad = tide_assessing_series(s, levels, count, began_ns, ended_ns, as_read, &input);
    size_t places = bad ? 0 : places_of(&input);
    bool enough = places >= (always ? 1 : TIDE_LEAST_MOMENTS);
    if (enough) {
        input.phases = s->spans;
        input.phase_count = s->span_count;
        input.epochs = s->epochs;
        input.epoch_count = s->epoch_count;
        input.items = s->a->items;
        input.items_per_step = s->a->items_per_step;
        input.limit_bytes = j->limit_bytes;
        bad = tide_judge(&input, s->scratch, &j->verdict, s->err) || keep_series(s, &input, j);
    }
    tide_arena_rewind(s->scratch, mark);
    if (bad || !enough)
        return bad ? -1 : 0;
    allow_for_start(s, j);
    if (j->shared && places < TIDE_LEAST_MOMENTS && j->verdict.kind != TIDE_UNDECIDED)
        tide_assessing_doubt(&j->verdict, j->verdict.x_last - j->verdict.x_first);
    if (s->axis.given_back && j->verdict.kind == TIDE_LEAK) /* such as a final evaluation */
        tide_assessing_doubt(&j->verdict, j->verdict.x_last - j->verdict.start_x);
    j->room_bytes = NAN;
    j->x_is_steps = s->axis.is_steps;
    j->seconds_per_step = s->axis.seconds_per_step;
    tide_history_name(s->h, j->verdict.spikes.phase, j->phase, sizeof j->phase);
    if (isfinite(j->verdict.jump_x))
        find_jump_mark(s, j);
    return 1;
}

int tide_assessing_levels(struct tide_assessing *s, const struct tide_level *levels, size_t count,
                          int64_t began_ns, int64_t ended_ns, bool as_read, struct tide_judged j)
{
    if (s->options->stop && atomic_load_explicit(s->options->stop, memory_order_relaxed))
        return tide_err_set(s->err, "judging was stopped");
    /* The tree comes last and always has a slot. */
    if (s->a->count >= TIDE_JUDGED_MOST - (j.subject == TIDE_SUBJECT_TREE ? 0 : 1)) {
        s->a->beyond++;
        return 0;
    }
    int judged = judge_levels(s, levels, count, began_ns, ended_ns, as_read, &j);
    if (judged > 0)
        s->a->judged[s->a->count++] = j;
    return judged < 0 ? -1 : 0;
}

/* --- subjects ------------------------------------------------------------------------------------------ */

const char *tide_assessing_role(const struct tide_assessing *s, const struct tide_history_process *p)
{
    const char *text = p->row.role[0] ? p->row.role : p->row.name;
    return tide_arena_text(s->arena, text, strlen(text));
}

int64_t tide_assessing_time(const struct tide_assessing *s, double x)
{
    size_t b = 0;
    while (b + 1 < s->buckets && !(s->bucket_x[b] >= x))
        b++;
    return s->bucket_ns[b];
}

int64_t tide_assessing_end(const struct tide_assessing *s, const struct tide_history_process *p)
{
    if (p->unread_ns) /* its last level is not known to have lasted */
        return p->unread_ns;
    return p->row.ended_ns == TIDE_UNKNOWN ? s->bucket_ns[s->buckets] : p->row.ended_ns;
}

double tide_assessing_limit(const struct tide_assessing *s, double now)
{
    return s->a->limit_bytes - fmax(s->tree_now - now, 0);
}

/* Lowers the limit to what a process may reach before it hits one of its own. These count what it maps or
 * asks for, touched or not: when it was largest, that left so much room. */
static void heed_rlimits(const struct tide_assessing *s, const struct tide_history_process *p,
                         struct tide_judged *j)
{
    const struct tide_history_point *top = p->points;
    for (size_t i = 0; i < p->point_count; i++)
        if (p->points[i].private_bytes >= top->private_bytes)
            top = &p->points[i];
    for (enum tide_rlimit r = TIDE_RLIMIT_AS; r < TIDE_RLIMITS && p->point_count; r++) {
        const struct tide_limit *l = s->rlimits[r];
        int64_t taken = r == TIDE_RLIMIT_AS ? top->mapped_bytes : top->asked_bytes;
        if (!l || l->bytes <= 0 || l->t_ns > tide_assessing_end(s, p))
            continue;
        taken = taken < 0 ? top->private_bytes : taken; /* not known: this at least */
        double most = (double)top->private_bytes + fmax((double)(l->bytes - taken), 0);
        if (most >= j->limit_bytes)
            continue;
        j->limit_bytes = most;
        j->rlimit = r;
        j->rlimit_bytes = (double)l->bytes;
    }
}

/* True if these times span too few buckets to judge anything. */
static bool is_brief(const struct tide_assessing *s, int64_t began_ns, int64_t ended_ns)
{
    size_t first = bucket_at(s, began_ns);
    return first + TIDE_LEAST_MOMENTS > s->buckets ||
           s->bucket_ns[first + TIDE_LEAST_MOMENTS - 1] >= ended_ns;
}

static int judge_process(struct tide_assessing *s, const struct tide_history_process *p, bool own_pages)
{
    int64_t ended =
        own_pages && p->smaps_count ? p->smaps[p->smaps_count - 1].t_ns + 1 : tide_assessing_end(s, p);
    if (is_brief(s, p->row.began_ns, ended))
        return 0;
    struct tide_arena_mark mark = tide_arena_mark(s->scratch);
    size_t count;
    bool as_read = own_pages || p->shares.alone;
    struct tide_level *levels = levels_of(s->scratch, p, own_pages, as_read, &count);
    if (!levels)
        return tide_assessing_no_memory(s->err);
    /* The last look may see the process free its memory as it ends. */
    double now = count ? fmax(levels[count - 1].bytes, levels[count > 1 ? count - 2 : 0].bytes) : 0;
    struct tide_judged j = {.subject = TIDE_SUBJECT_PROCESS,
                            .process = p->row.id,
                            .pid = p->row.pid,
                            .role = tide_assessing_role(s, p),
                            .device = TIDE_UNKNOWN,
                            .own_pages = own_pages,
                            .python = tide_process_is_python(p),
                            .limit_bytes = tide_assessing_limit(s, now)};
    if (!own_pages) /* a page that is copied is mapped already */
        heed_rlimits(s, p, &j);
    size_t before = s->a->count;
    int status = tide_assessing_levels(s, levels, count, p->row.began_ns, ended, as_read, j);
    tide_arena_rewind(s->scratch, mark);
    if (s->a->count > before)
        tide_process_name(s->h, p, s->a->judged[before].name, sizeof j.name);
    if (status == 0 && s->a->count > before && !own_pages)
        status = tide_assessing_retention(s, p, &s->a->judged[before]);
    if (status == 0 && s->a->count > before)
        tide_assessing_asked(s, p, &s->a->judged[before]);
    return status;
}

/* True if a forked process copied much of what it shared in the second half of its readings, too: there is no
 * telling whether that will stop. */
static bool goes_on_copying(const struct tide_history_process *p)
{
    return p->point_count &&
           tide_assessing_no_longer_shared(p, p->smaps_count / 2) >=
               fmax(TIDE_LEVEL_RISE * (double)p->points[p->point_count - 1].rss_bytes, TIDE_STARTING_LEAST);
}

/*
 * A forked process may copy pages of its parent's, which RSS does not show. Its own pages are judged if they
 * were read often enough on the axis. Of few readings, an undecided verdict is dropped, unless they rise.
 */
static int judge_own_pages(struct tide_assessing *s, const struct tide_history_process *p)
{
    size_t read = 0, before = s->a->count;
    for (size_t i = 0; i < p->smaps_count; i++) {
        size_t b = bucket_at(s, p->smaps[i].t_ns);
        read += b < s->buckets && isfinite(s->bucket_x[b]);
    }
    bool rises = read > 2 && goes_on_copying(p);
    if ((read < LEAST_SMAPS && !rises) || !tide_history_process(s->h, p->row.parent) ||
        !tide_assessing_shared_private(p))
        return 0;
    int status = judge_process(s, p, true);
    struct tide_verdict *v = s->a->count > before ? &s->a->judged[before].verdict : NULL;
    if (v && read < LEAST_SMAPS && v->kind != TIDE_UNDECIDED)
        tide_assessing_doubt(v, v->x_last - v->start_x);
    if (v && read < TIDE_SHORT_MOMENTS && !rises && v->kind == TIDE_UNDECIDED)
        s->a->count = before;
    return status;
}

double tide_assess_own_share(const struct tide_history_process *p)
{
    if (p->smaps_count == 0)
        return NAN;
    const struct tide_history_smaps *last = &p->smaps[p->smaps_count - 1];
    const struct tide_history_point *then = tide_history_point_at(p, last->t_ns);
    if (!then || then->rss_bytes <= 0)
        return NAN;
    return fmin((double)last->pss_bytes / (double)then->rss_bytes, 1);
}

/* --- the whole ----------------------------------------------------------------------------------------- */

static struct tide_assessment *new_assessment(size_t most, struct tide_err *err)
{
    struct tide_assessment_private *private = calloc(1, sizeof *private);
    if (!private) {
        tide_assessing_no_memory(err);
        return NULL;
    }
    struct tide_assessment *a = &private->public;
    tide_arena_init(&private->arena, ARENA_MOST);
    tide_arena_init(&private->scratch, ARENA_MOST);
    a->private = private;
    a->limit_bytes = a->items = a->items_per_step = a->pss_known = a->steps = a->broke_off = NAN;
    a->judged = tide_arena_take(&private->arena, most, sizeof *a->judged);
    if (!a->judged) {
        tide_assessment_free(a);
        tide_assessing_no_memory(err);
        return NULL;
    }
    return a;
}

void tide_assessment_free(struct tide_assessment *a)
{
    if (!a)
        return;
    tide_arena_release(&a->private->arena);
    tide_arena_release(&a->private->scratch);
    free(a->private); /* `a` is part of it */
}

static double either(double option, int64_t recorded)
{
    return isfinite(option) ? option : recorded == TIDE_UNKNOWN ? NAN : (double)recorded;
}

/* Largest peak first, so that the small ones are left out if there are too many. */
static int by_peak(const void *a, const void *b)
{
    const struct tide_history_process *left = *(const struct tide_history_process *const *)a;
    const struct tide_history_process *right = *(const struct tide_history_process *const *)b;
    return (left->row.peak_rss_bytes < right->row.peak_rss_bytes) -
           (left->row.peak_rss_bytes > right->row.peak_rss_bytes);
}

static int judge_processes(struct tide_assessing *s)
{
    const struct tide_history *h = s->h;
    const struct tide_history_process **order =
        tide_arena_take(s->arena, h->process_count + 1, sizeof *order);
    if (!order)
        return tide_assessing_no_memory(s->err);
    for (size_t i = 0; i < h->process_count; i++)
        order[i] = &h->processes[i];
    qsort(order, h->process_count, sizeof *order, by_peak);
    for (size_t i = 0; i < h->process_count; i++) {
        size_t before = s->a->count;
        if (before >= TIDE_JUDGED_MOST - 16) { /* the rest is for roles, gauges and GPUs */
            s->a->beyond += !is_brief(s, order[i]->row.began_ns, tide_assessing_end(s, order[i]));
            continue;
        }
        if (judge_process(s, order[i], false))
            return -1;
        bool leaks = s->a->count > before && tide_verdict_grows(&s->a->judged[before].verdict);
        if (!leaks && judge_own_pages(s, order[i]))
            return -1;
    }
    return 0;
}

/*
 * Items per step, as counted by the process that named the steps; NAN: it did not. Loader processes count
 * too, ahead of the training.
 */
static double counted_items_per_step(const struct tide_assessing *s)
{
    const struct tide_history_mark *first = NULL, *last = NULL;
    for (size_t i = 0; i < s->h->mark_count; i++) {
        if (s->h->marks[i].kind != TIDE_MARK_ITEMS ||
            (s->axis.process > 0 && s->h->marks[i].process != s->axis.process))
            continue;
        first = first ? first : &s->h->marks[i];
        last = &s->h->marks[i];
    }
    if (!first || !s->axis.is_steps)
        return NAN;
    double from = tide_axis_at(&s->axis, first->t_ns), to = tide_axis_at(&s->axis, last->t_ns);
    double items = (double)(last->number - first->number);
    return to > from && items > 0 ? items / (to - from) : NAN;
}

/* Returns for how many seconds nothing could be written, by the writer's notes (writer.c), and since when. */
static double find_gap(const struct tide_history *h, double *ret_from)
{
    double seconds = 0;
    for (size_t i = 0; i < h->note_count; i++) {
        double from, to;
        if (sscanf(h->notes[i].text, "nothing could be written between %lf s and %lf s", &from, &to) != 2 ||
            !(to > from))
            continue;
        *ret_from = seconds > 0 ? *ret_from : from;
        seconds += to - from;
    }
    return seconds;
}

static int assess(struct tide_assessing *s)
{
    struct tide_assessment *a = s->a;
    if (s->h->tick_count == 0)
        return tide_err_set(s->err, "the recording is empty: it ended before anything was written");
    const struct tide_tick *last = &s->h->ticks[s->h->tick_count - 1], *seen = last;
    while (seen > s->h->ticks && seen->processes == 0)
        seen--; /* looks after all processes ended say nothing */
    s->tree_now = (double)seen->counted_bytes;
    a->pss_known = seen->rss_bytes > 0 ? (double)seen->pss_known_bytes / (double)seen->rss_bytes : NAN;
    a->items = either(s->options->items, s->h->items);
    a->items_per_step = either(s->options->items_per_step, s->h->items_per_step);
    if (tide_assessing_frame(s))
        return -1;
    a->has_ended = s->h->ended_ns != TIDE_UNKNOWN || tide_history_broke_off(s->h);
    if (tide_history_broke_off(s->h))
        a->broke_off = (double)last->t_ns / 1e9;
    tide_death_find(s->h, &s->axis, &a->phases, &a->death);
    a->gap_seconds = find_gap(s->h, &a->gap_from);
    a->steps = s->axis.is_steps ? s->axis.step[s->axis.count - 1] - s->axis.step[0] : NAN;
    if (isnan(a->items_per_step))
        a->items_per_step = counted_items_per_step(s);
    if (find_limit(s) || judge_processes(s) || tide_assessing_sums(s) || tide_assessing_rows(s))
        return -1;
    if (a->count == 0) /* no look saw a living process, or none came after the first step */
        return tide_err_set(s->err, "the recording has no samples of any process's memory");
    tide_assessing_explain_sums(s);
    if (tide_assessing_crests(s))
        return -1;
    tide_assessing_rank(a);
    tide_assessing_describe(s);
    return 0;
}

int tide_assess_history(const struct tide_history *history, const struct tide_assess_options *options,
                        struct tide_assessment **ret_assessment, struct tide_err *err)
{
    static const struct tide_assess_options as_recorded = {NAN, NAN, NAN, NULL};
    struct tide_assessment *a = new_assessment(TIDE_JUDGED_MOST, err);
    if (!a)
        return -1;
    struct tide_assessing s = {.h = history,
                               .options = options ? options : &as_recorded,
                               .a = a,
                               .arena = &a->private->arena,
                               .scratch = &a->private->scratch,
                               .err = err};
    if (assess(&s)) {
        tide_assessment_free(a);
        return -1;
    }
    a->private->frame = s;
    a->axis = &a->private->frame.axis;
    *ret_assessment = a;
    return 0;
}

int tide_answer_init(struct tide_answer *answer, const char *path, const struct tide_assess_options *options,
                     struct tide_err *err)
{
    struct tide_answer a = {0};
    if (tide_history_open(path, &a.history, err) ||
        tide_assess_history(a.history, options, &a.assessment, err)) {
        tide_answer_release(&a);
        return -1;
    }
    *answer = a;
    return 0;
}

void tide_answer_release(struct tide_answer *answer)
{
    tide_assessment_free(answer->assessment);
    tide_history_free(answer->history);
    *answer = (struct tide_answer){0};
}

int tide_assess_levels(struct tide_assessment *a, const struct tide_level *levels, size_t count,
                       int64_t began_ns, int64_t ended_ns, struct tide_judged *ret_judged,
                       struct tide_err *err)
{
    a->private->frame.err = err;
    return judge_levels(&a->private->frame, levels, count, began_ns, ended_ns, false, ret_judged);
}

int64_t tide_assess_time_of(const struct tide_assessment *a, double x)
{
    const struct tide_assessing *s = &a->private->frame;
    if (!s->axis.is_steps)
        return x >= 0 && x * 1e9 < (double)s->bucket_ns[s->buckets] ? (int64_t)(x * 1e9) : TIDE_UNKNOWN;
    for (size_t i = 0; i < s->axis.count; i++)
        if (s->axis.step[i] >= x)
            return i == 0 && s->axis.step[0] > x ? TIDE_UNKNOWN : s->axis.t_ns[i];
    return TIDE_UNKNOWN;
}

int tide_assess_series(const struct tide_series_set *set, const struct tide_assess_options *options,
                       struct tide_assessment **ret_assessment, struct tide_err *err)
{
    struct tide_assessment *a = new_assessment(set->count, err);
    if (!a)
        return -1;
    a->items = options->items;
    a->items_per_step = options->items_per_step;
    a->limit_bytes = options->limit_bytes;
    snprintf(a->limit_name, sizeof a->limit_name, "--limit");
    for (size_t i = 0; i < set->count; i++) {
        const struct tide_series *series = &set->series[i];
        struct tide_judged *j = &a->judged[a->count];
        *j = (struct tide_judged){.subject = TIDE_SUBJECT_COLUMN,
                                  .device = TIDE_UNKNOWN,
                                  .x_is_steps = set->x_is_steps,
                                  .seconds_per_step = set->x_is_steps ? set->seconds_per_step : 1,
                                  .limit_bytes = options->limit_bytes,
                                  .room_bytes = NAN,
                                  .x = series->x,
                                  .bytes = series->bytes,
                                  .count = series->count};
        tide_text_shown(series->name, j->name, sizeof j->name);
        struct tide_judge_input input = {.x = series->x,
                                         .bytes = series->bytes,
                                         .count = series->count,
                                         .x_is_steps = set->x_is_steps,
                                         .items = options->items,
                                         .items_per_step = options->items_per_step,
                                         .limit_bytes = options->limit_bytes};
        if (tide_judge(&input, &a->private->scratch, &j->verdict, err)) {
            tide_assessment_free(a);
            return -1;
        }
        a->count++;
        if (set->x_is_steps)
            a->steps = fmax(isnan(a->steps) ? 0 : a->steps, j->verdict.x_last - j->verdict.x_first);
    }
    tide_assessing_rank(a);
    *ret_assessment = a;
    return 0;
}

int tide_assessment_exit_code(const struct tide_assessment *assessment)
{
    const struct tide_verdict *worst = &assessment->judged[0].verdict;
    bool found = tide_verdict_grows(worst) || assessment->judged[0].crest.epochs > 0 ||
                 assessment->death.cause == TIDE_DEATH_OOM;
    return found ? 1 : worst->kind == TIDE_UNDECIDED ? 3 : 0;
}
