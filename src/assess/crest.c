/*
 * crest.c - peaks that rise: what each epoch reaches, if the floor does not tell.
 *
 * Workers that are started anew in every epoch free what they took, so no floor rises; but if every epoch
 * takes more than the one before, the peaks will hit the limit. A line is fitted to the highest value of each
 * epoch. It counts if its slope is CREST_Z standard errors above zero, the rise matters against the level,
 * and the later half still rises. Above a floor that rose and stopped, it must rise by much more than the
 * floor did. Without epochs the same is asked of processes that come and go; and if they run one after
 * another, whether each of them leaks: what they do is what one does that is started again and again.
 */
#include "assess/assessment_private.h"
#include "judge/fit.h"
#include "judge/floor.h"

#include <math.h>
#include <string.h>

enum { EPOCHS_LEAST = 6, EPOCHS_MOST = 4096, GENERATIONS_LEAST = 4, LEAKING_LEAST = 3 };

static const double CREST_Z = 4;
static const double MATTERS = 0.1; /* of the mean height: less is not reported */
static const double LEAST_BYTES = 1 << 20;
static const double ABOVE_FLOOR = 4;    /* times the rise of a floor that stopped: less may be its own */
static const double STILL = 0.3;        /* of the slope, in the later half */
static const double LIVES_LEAST = 0.25; /* of the run: a process that lives longer is judged by itself */

/* Finds the highest value of each epoch that was seen, and its x (where). Returns how many. */
static size_t crests_of(const struct tide_assessing *s, const struct tide_judged *j, double *bytes,
                        double *where)
{
    size_t at = 0, n = 0;
    for (size_t e = 0; e < s->epoch_count && n < EPOCHS_MOST; e++) {
        double until = e + 1 < s->epoch_count ? s->epochs[e + 1] : INFINITY;
        bool seen = false;
        for (; at < j->count && j->x[at] < until; at++) {
            if (j->x[at] < s->epochs[e] || (seen && j->bytes[at] <= bytes[n]))
                continue;
            bytes[n] = j->bytes[at];
            where[n] = j->x[at];
            seen = true;
        }
        n += seen;
    }
    return n;
}

/* Finds the highest value of each process of a role, in the order in which they began. Returns how many. */
static size_t generations_of(const struct tide_assessing *s, const struct tide_judged *j, double *bytes)
{
    size_t n = 0, role = s->role_of[j->member - 1];
    for (size_t i = 0; i < s->h->process_count && n < EPOCHS_MOST; i++) {
        const struct tide_history_process *p = &s->h->processes[i];
        if (s->role_of[i] != role || p->point_count == 0)
            continue;
        bytes[n] = 0;
        for (size_t k = 0; k < p->point_count; k++)
            bytes[n] = fmax(bytes[n], tide_assessing_own(s, i, &p->points[k]));
        n++;
    }
    return n;
}

/* Returns the phase that runs at x, and its name; -1: none. */
static int name_phase(const struct tide_assessing *s, double x, char *out, size_t size)
{
    for (size_t i = 0; i < s->span_count; i++) {
        const struct tide_span *span = &s->spans[i];
        if (span->from > x || span->to < x)
            continue;
        tide_history_name(s->h, span->name, out, size);
        return span->name;
    }
    return -1;
}

/* Reports the n highest values as spikes over nothing: the processes have all ended. Sorts them. */
static void say_generations(const struct tide_assessing *s, struct tide_judged *j, double *bytes, double x,
                            size_t n)
{
    struct tide_verdict *v = &j->verdict;
    double largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, bytes[i]);
    v->kind = TIDE_SPIKES;
    v->shape = TIDE_SHAPE_LEVEL;
    v->growth_bytes = v->floor_first = v->floor_last = v->floor_lowest = v->floor_highest = 0;
    v->slope = v->slope_low = v->slope_high = v->detectable = v->knee_x = v->jump_x = NAN;
    v->limit_x = v->limit_x_low = v->limit_x_high = NAN;
    j->phase[0] = 0;
    v->spikes = (struct tide_spikes){.count = n,
                                     .typical_bytes = tide_median(bytes, n),
                                     .largest_bytes = largest,
                                     .phase = name_phase(s, x, j->phase, sizeof j->phase),
                                     .in_phase = n,
                                     .returned = n};
}

/* If most processes of a role leak, one after another, as long as they live, the one with the middle rate
 * stands for all. Only with steps: without them, what takes more and more until it has done its work (a
 * compiler) looks the same. slopes has room for all. */
static bool say_each_leaks(const struct tide_assessing *s, struct tide_judged *j, double *slopes)
{
    const struct tide_judged *middle = NULL;
    size_t lived = 0, leaking = 0, role = s->role_of[j->member - 1];
    const struct tide_judged *all = s->a->judged;
    for (size_t i = 0; i < s->a->count; i++) {
        if (all[i].subject != TIDE_SUBJECT_PROCESS || all[i].own_pages ||
            s->role_of[all[i].process - 1] != role)
            continue;
        lived++;
        if (all[i].verdict.kind == TIDE_LEAK)
            slopes[leaking++] = all[i].verdict.slope;
    }
    if (!s->axis.is_steps || j->members > 1 || leaking < LEAKING_LEAST || 2 * leaking <= lived)
        return false;
    double median = tide_median(slopes, leaking);
    for (size_t i = 0; i < s->a->count; i++)
        if (all[i].subject == TIDE_SUBJECT_PROCESS && !all[i].own_pages &&
            s->role_of[all[i].process - 1] == role && all[i].verdict.kind == TIDE_LEAK &&
            (!middle || fabs(all[i].verdict.slope - median) < fabs(middle->verdict.slope - median)))
            middle = &all[i];
    j->each = leaking;
    j->verdict = middle->verdict;
    j->verdict.limit_x = j->verdict.limit_x_low = j->verdict.limit_x_high = NAN; /* it ends before */
    memcpy(j->phase, middle->phase, sizeof j->phase);
    memcpy(j->jump_mark, middle->jump_mark, sizeof j->jump_mark);
    return true;
}

/* True if a line through the peaks counts as a rise. */
static bool fit_crest(const double *bytes, size_t n, struct tide_crest *ret)
{
    struct tide_line line = tide_line_through(NULL, bytes, n);
    double slope = line.slope, later = tide_line_through(NULL, bytes + n / 2, n - n / 2).slope;
    double rise = slope * (double)(n - 1), width = tide_t_quantile95((double)(n - 2)) * line.error;
    if (!(slope > CREST_Z * line.error) || rise < MATTERS * line.mean_y || rise < LEAST_BYTES ||
        later < STILL * slope)
        return false;
    *ret = (struct tide_crest){.epochs = n,
                               .per_epoch = slope,
                               .low = slope - width,
                               .high = slope + width,
                               .first_bytes = line.mean_y - rise / 2,
                               .last_bytes = line.mean_y + rise / 2};
    return true;
}

/* Processes that come and go, one like the other, without epochs: a compiler that is called for each file.
 * What they took they freed, and they have no floor. If they become larger, nothing is reported. */
static void find_generations(const struct tide_assessing *s, struct tide_judged *j, double *bytes)
{
    struct tide_crest rise;
    bool grows = tide_verdict_grows(&j->verdict); /* more and more of them at once */
    if (say_each_leaks(s, j, bytes) || grows)
        return;
    size_t n = generations_of(s, j, bytes);
    if (n >= GENERATIONS_LEAST && !fit_crest(bytes, n, &rise))
        say_generations(s, j, bytes, NAN, n);
}

static bool has_stopped(enum tide_verdict_kind kind)
{
    return kind == TIDE_JUMP || kind == TIDE_PLATEAU;
}

static void find_crest(const struct tide_assessing *s, struct tide_judged *j, double *bytes, double *where)
{
    size_t n = crests_of(s, j, bytes, where);
    if (n < EPOCHS_LEAST && j->passing)
        find_generations(s, j, bytes);
    if (n < EPOCHS_LEAST)
        return;
    struct tide_crest rise;
    bool rises = fit_crest(bytes, n, &rise);
    if (j->passing) /* whatever its floor did */
        say_generations(s, j, bytes, where[n - 1], n);
    if (!rises || (has_stopped(j->verdict.kind) &&
                   rise.last_bytes - rise.first_bytes < ABOVE_FLOOR * j->verdict.growth_bytes))
        return;
    j->crest = rise;
    name_phase(s, where[n - 1], j->crest.phase, sizeof j->crest.phase);
    j->verdict.kind = TIDE_SPIKES;
}

/* When the processes of a role lived. */
struct lives {
    int64_t first_end, last_begin;
    bool passing; /* all of them */
};

/* True if a process is one of a role whose processes come and go: another ended before it began, or began
 * after it had ended. Then what matters is what they all do. */
static bool is_passing(const struct tide_assessing *s, const struct lives *role,
                       const struct tide_history_process *p)
{
    int64_t end = tide_assessing_end(s, p), run = s->bucket_ns[s->buckets] - s->bucket_ns[0];
    return (double)(end - p->row.began_ns) < LIVES_LEAST * (double)run &&
           (role->last_begin >= end || role->first_end <= p->row.began_ns);
}

/* Returns the lives of each role, in the scratch arena. NULL without memory. */
static struct lives *lives_of_roles(const struct tide_assessing *s)
{
    const struct tide_history *h = s->h;
    struct lives *lives = tide_arena_take(s->scratch, s->role_count + 1, sizeof *lives);
    for (size_t i = 0; lives && i < s->role_count; i++)
        lives[i] = (struct lives){INT64_MAX, INT64_MIN, true};
    for (size_t i = 0; lives && i < h->process_count; i++) {
        struct lives *role = &lives[s->role_of[i]];
        int64_t end = tide_assessing_end(s, &h->processes[i]), begin = h->processes[i].row.began_ns;
        role->first_end = end < role->first_end ? end : role->first_end;
        role->last_begin = begin > role->last_begin ? begin : role->last_begin;
    }
    for (size_t i = 0; lives && i < h->process_count; i++) {
        struct lives *role = &lives[s->role_of[i]];
        role->passing = role->passing && is_passing(s, role, &h->processes[i]);
    }
    return lives;
}

static bool is_passing_subject(const struct tide_assessing *s, const struct lives *lives,
                               const struct tide_judged *j)
{
    bool role = j->subject == TIDE_SUBJECT_ROLE;
    const struct tide_history_process *p = tide_history_process(s->h, role ? j->member : j->process);
    if (!p || (!role && j->subject != TIDE_SUBJECT_PROCESS))
        return false;
    const struct lives *its = &lives[s->role_of[p->row.id - 1]];
    return role ? its->passing : is_passing(s, its, p);
}

int tide_assessing_crests(struct tide_assessing *s)
{
    struct tide_arena_mark mark = tide_arena_mark(s->scratch);
    double *bytes = tide_arena_take(s->scratch, EPOCHS_MOST + 1, sizeof *bytes);
    double *where = tide_arena_take(s->scratch, EPOCHS_MOST + 1, sizeof *where);
    struct lives *lives = lives_of_roles(s);
    if (!bytes || !where || !lives)
        return tide_assessing_no_memory(s->err);
    for (size_t i = 0; i < s->a->count; i++) {
        struct tide_judged *j = &s->a->judged[i];
        enum tide_verdict_kind kind = j->verdict.kind;
        bool process = j->subject == TIDE_SUBJECT_PROCESS, role = j->subject == TIDE_SUBJECT_ROLE;
        j->passing = is_passing_subject(s, lives, j);
        if (j->passing && process) {
            j->verdict.limit_x = j->verdict.limit_x_low = j->verdict.limit_x_high = NAN; /* never reached */
            continue;
        }
        bool level = kind == TIDE_FLAT || kind == TIDE_SPIKES || kind == TIDE_UNDECIDED || has_stopped(kind);
        if (((process || j->subject == TIDE_SUBJECT_TREE) && level) || (role && (level || j->passing)))
            find_crest(s, j, bytes, where);
    }
    tide_arena_rewind(s->scratch, mark);
    return 0;
}
