/*
 * worst.c - which of the judged series the answer is about, and what is said about the others.
 */
#include "assess/assessment_private.h"
#include "base/text.h"
#include "base/units.h"
#include "judge/thresholds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A role or the tree is the answer if it grows SEVERAL times as fast as the fastest process; the tree must
 * also grow MOST_OF_IT times as fast as the fastest role. */
static const double SEVERAL = 2, MOST_OF_IT = 1.5;

static double rate_per_second(const struct tide_judged *j)
{
    return j->verdict.slope /
           (isfinite(j->seconds_per_step) && j->seconds_per_step > 0 ? j->seconds_per_step : 1);
}

/* True if the program counts these bytes itself. */
static bool is_own_count(const struct tide_judged *j)
{
    return j->subject == TIDE_SUBJECT_GAUGE && !j->shared;
}

bool tide_judged_is_evidence(const struct tide_judged *j)
{
    return is_own_count(j) || (j->subject == TIDE_SUBJECT_GPU && j->process == 0);
}

/* How much a series sums up, which a part may explain: 0 a process, 1 the processes of a role or what several
 * share, 2 all processes. */
static int wholeness(const struct tide_judged *j)
{
    if (j->subject == TIDE_SUBJECT_TREE)
        return 2;
    return j->shared || j->subject == TIDE_SUBJECT_ROLE;
}

/* True if another series says the same better: a process that comes and goes is part of its role, and a tree
 * of one process is that process, whose own pages need no estimate. */
static bool is_said_elsewhere(const struct tide_judged *j)
{
    return (j->passing && j->subject == TIDE_SUBJECT_PROCESS) ||
           (j->subject == TIDE_SUBJECT_TREE && j->members <= 1);
}

/* How much a verdict matters: the largest weight is the answer. */
static double weight(const struct tide_judged *j, double tree_peak)
{
    static const double by_kind[TIDE_VERDICTS] = {
        [TIDE_FLAT] = 1, [TIDE_SPIKES] = 2, [TIDE_UNDECIDED] = 1.5, [TIDE_PLATEAU] = 3,
        [TIDE_JUMP] = 4, [TIDE_LEAK] = 5,   [TIDE_RETENTION] = 4};
    static const double by_subject[] = {
        [TIDE_SUBJECT_PROCESS] = 0.3, [TIDE_SUBJECT_ROLE] = 0.1,  [TIDE_SUBJECT_TREE] = 0,
        [TIDE_SUBJECT_GPU] = 0.2,     [TIDE_SUBJECT_GAUGE] = -10, [TIDE_SUBJECT_COLUMN] = 0,
    };
    enum tide_subject subject = tide_judged_is_evidence(j) ? TIDE_SUBJECT_GAUGE : j->subject;
    double share = tree_peak > 0 ? fmin(j->verdict.peak / tree_peak, 1) : 1;
    double kind = by_kind[j->verdict.kind];
    if (j->verdict.kind == TIDE_UNDECIDED &&
        (j->subject == TIDE_SUBJECT_TREE || j->subject == TIDE_SUBJECT_ROLE))
        kind = 0.5; /* sums of what comes and goes tell less than the process that stays */
    if (tide_verdict_grows(&j->verdict))
        kind = by_kind[TIDE_LEAK] + (j->shared ? -by_subject[TIDE_SUBJECT_GAUGE] : 0);
    if (j->crest.epochs)
        kind = by_kind[TIDE_LEAK] - 0.5;
    if (is_said_elsewhere(j))
        kind = 0.2;
    bool small = share < 0.1 && !tide_verdict_grows(&j->verdict); /* a helper's jump is not the answer */
    return (small ? 0 : kind) + by_subject[subject] * (j->own_pages ? 0.5 : 1) + 0.2 * share;
}

static bool is_growing(const struct tide_judged *j)
{
    return tide_verdict_grows(&j->verdict) && !is_said_elsewhere(j) && !tide_judged_is_evidence(j);
}

static int worse_first(const void *a, const void *b, void *context)
{
    const struct tide_judged *left = a, *right = b;
    double tree_peak = *(const double *)context;
    bool both_grow = is_growing(left) && is_growing(right);
    double l = both_grow ? rate_per_second(left) : weight(left, tree_peak),
           r = both_grow ? rate_per_second(right) : weight(right, tree_peak);
    return (l < r) - (l > r);
}

/* How fast a series grows, or how fast its peaks rise; 0 if they do not. */
typedef double tide_speed(const struct tide_judged *j);

static double floor_speed(const struct tide_judged *j)
{
    return is_growing(j) ? rate_per_second(j) : 0;
}

static double crest_speed(const struct tide_judged *j)
{
    return j->crest.epochs && !is_said_elsewhere(j) && !tide_judged_is_evidence(j) ? j->crest.per_epoch : 0;
}

/* Returns the index of the answer: a part that explains the whole comes before the whole. */
static size_t answer_of(const struct tide_assessment *a, tide_speed *speed)
{
    size_t fastest[] = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
    double rate[] = {0, 0, 0};
    for (size_t i = 0; i < a->count; i++) {
        int whole = wholeness(&a->judged[i]);
        if (!(speed(&a->judged[i]) > rate[whole]))
            continue;
        fastest[whole] = i;
        rate[whole] = speed(&a->judged[i]);
    }
    size_t answer = fastest[0];
    if (answer == SIZE_MAX || rate[1] > SEVERAL * rate[0])
        answer = fastest[1] == SIZE_MAX ? answer : fastest[1];
    if (answer == SIZE_MAX || (rate[2] > SEVERAL * rate[0] && rate[2] > MOST_OF_IT * rate[1]))
        answer = fastest[2] == SIZE_MAX ? answer : fastest[2];
    return answer == SIZE_MAX ? 0 : answer;
}

/* Returns how fast a series rises from its first value to its last; 0 if it came down again by more than a
 * leak may. */
static double rise_per_x(const struct tide_judged *j)
{
    double highest = -INFINITY, retreat = 0;
    for (size_t i = 0; i < j->count; i++) {
        highest = fmax(highest, j->bytes[i]);
        retreat = fmax(retreat, highest - j->bytes[i]);
    }
    double rise = j->bytes[j->count - 1] - j->bytes[0], length = j->x[j->count - 1] - j->x[0];
    return length > 0 && retreat <= TIDE_LEAK_RETREAT * rise ? rise / length : 0;
}

/* An answer that is level names the leak that would have shown. Shared memory is in no process: if it rose by
 * more than that, and cannot be told yet, the job is not known to be level. Returns the index of the answer.
 */
static size_t without_promise(const struct tide_assessment *a, size_t answer)
{
    const struct tide_verdict *level = &a->judged[answer].verdict;
    if (level->kind != TIDE_FLAT && level->kind != TIDE_SPIKES)
        return answer;
    for (size_t i = 0; i < a->count; i++)
        if (a->judged[i].shared && a->judged[i].verdict.kind == TIDE_UNDECIDED &&
            rise_per_x(&a->judged[i]) > fmax(level->detectable, 0))
            return i;
    return answer;
}

/* Where more grows than the answer, the limit is hit sooner than by that alone. */
static void forecast_of_all(struct tide_assessment *a)
{
    struct tide_judged *worst = &a->judged[0];
    struct tide_verdict *v = &worst->verdict;
    bool part = worst->subject == TIDE_SUBJECT_PROCESS || worst->subject == TIDE_SUBJECT_ROLE;
    for (size_t i = 1; i < a->count && part && isfinite(v->limit_x); i++) {
        const struct tide_verdict *tree = &a->judged[i].verdict;
        if (a->judged[i].subject != TIDE_SUBJECT_TREE || tree->kind != TIDE_LEAK ||
            !(tree->slope_low > v->slope_high) || !(tree->limit_x < v->limit_x))
            continue;
        worst->limit_by_all = true;
        worst->rlimit = TIDE_RLIMIT_NONE;
        v->limit_x = tree->limit_x;
        v->limit_x_low = tree->limit_x_low;
        v->limit_x_high = tree->limit_x_high;
    }
}

/* Where a sum grows, one of its processes may hit a limit of its own first. */
static void forecast_of_one(struct tide_assessment *a)
{
    struct tide_judged *worst = &a->judged[0];
    struct tide_verdict *v = &worst->verdict;
    bool role = worst->subject == TIDE_SUBJECT_ROLE, sum = role || worst->subject == TIDE_SUBJECT_TREE;
    for (size_t i = 1; i < a->count && sum && v->kind == TIDE_LEAK; i++) {
        const struct tide_judged *one = &a->judged[i];
        if (!one->rlimit || !(one->verdict.limit_x < (isnan(v->limit_x) ? INFINITY : v->limit_x)) ||
            (role && strcmp(one->role, worst->role) != 0))
            continue;
        worst->limit_by_one = true;
        worst->rlimit = one->rlimit;
        worst->rlimit_bytes = one->rlimit_bytes;
        v->limit_x = one->verdict.limit_x;
        v->limit_x_low = one->verdict.limit_x_low;
        v->limit_x_high = one->verdict.limit_x_high;
    }
}

void tide_assessing_rank(struct tide_assessment *a)
{
    double tree_peak = 0; /* or the highest of its processes, if no two ran at once */
    for (size_t i = 0; i < a->count; i++)
        if (a->judged[i].subject == TIDE_SUBJECT_PROCESS ||
            (a->judged[i].subject == TIDE_SUBJECT_TREE && !is_said_elsewhere(&a->judged[i])))
            tree_peak = fmax(tree_peak, a->judged[i].verdict.peak);
    qsort_r(a->judged, a->count, sizeof *a->judged, worse_first, &tree_peak);
    size_t answer = 0;
    if (is_growing(&a->judged[0]))
        answer = answer_of(a, floor_speed);
    else if (a->judged[0].crest.epochs)
        answer = answer_of(a, crest_speed);
    answer = without_promise(a, answer);
    struct tide_judged first = a->judged[answer];
    memmove(&a->judged[1], &a->judged[0], answer * sizeof *a->judged);
    a->judged[0] = first;
    forecast_of_all(a);
    forecast_of_one(a);
}

/* Returns the end of training: after its last step a program may free all that it had. */
static int64_t training_end(const struct tide_assessing *s)
{
    int64_t end_ns = s->bucket_ns[s->buckets];
    return end_ns < s->axis.end_ns ? end_ns : s->axis.end_ns;
}

/* Returns how much of its RSS at the end of training counts for a process: its PSS at the last reading plus
 * what it has taken since; all of its RSS if that was less than half at the reading. */
static double now_counted(const struct tide_assessing *s, size_t process, double *ret_rss)
{
    const struct tide_history_process *p = &s->h->processes[process];
    const struct tide_history_point *last = tide_history_point_at(p, training_end(s));
    last = last ? last : p->points; /* where looks are rare, it may have been seen first after the end */
    const struct tide_history_smaps *read = p->smaps_count ? &p->smaps[p->smaps_count - 1] : NULL;
    const struct tide_history_point *then = read ? tide_history_point_at(p, read->t_ns) : NULL;
    double counted = *ret_rss = (double)last->rss_bytes;
    if (then && then->rss_bytes >= last->rss_bytes / 2)
        counted = (double)(read->pss_bytes + last->private_bytes - then->private_bytes);
    else if (!read && s->rest[process] < 0) /* it shares its parent's pages */
        counted = tide_assessing_own(s, process, last);
    return fmin(fmax(counted, 0), *ret_rss);
}

bool tide_assessing_shared_private(const struct tide_history_process *p)
{
    for (size_t i = 0; i < p->smaps_count; i++) {
        const struct tide_history_point *then = tide_history_point_at(p, p->smaps[i].t_ns);
        if (then && p->smaps[i].uss_bytes < then->private_bytes)
            return true;
    }
    return false;
}

double tide_assessing_own_pages(const struct tide_history_process *p, size_t reading)
{
    const struct tide_history_point *first = tide_history_point_at(p, p->smaps[0].t_ns),
                                    *then = tide_history_point_at(p, p->smaps[reading].t_ns);
    if (!first || !then)
        return 0;
    int64_t files = (then->rss_bytes - then->private_bytes) - (first->rss_bytes - first->private_bytes);
    double own = (double)(p->smaps[reading].uss_bytes - (files > 0 ? files : 0));
    return fmax(fmin(own, (double)then->private_bytes), 0);
}

double tide_assessing_no_longer_shared(const struct tide_history_process *p, size_t since)
{
    if (!tide_assessing_shared_private(p))
        return 0;
    const struct tide_history_point *then = tide_history_point_at(p, p->smaps[since].t_ns);
    if (!then)
        return 0;
    size_t last = p->smaps_count - 1;
    int64_t taken = tide_history_point_at(p, p->smaps[last].t_ns)->private_bytes - then->private_bytes;
    double more = tide_assessing_own_pages(p, last) - tide_assessing_own_pages(p, since);
    return fmax(more - fmax((double)taken, 0), 0);
}

/* True for the processes besides the worst that were there at one look towards the end (of the steps, if
 * there are any), not for every process that ever was, nor for what the worst itself became by exec. A
 * program may take long to end, without its helpers, on a busy machine. */
static bool is_other(const struct tide_assessing *s, const struct tide_history_process *p)
{
    int64_t late_ns = training_end(s) / 10 * 9;
    size_t look = tide_history_tick_from(s->h, late_ns);
    if (look < s->h->tick_count)
        late_ns = s->h->ticks[look].t_ns;
    const struct tide_judged *worst = &s->a->judged[0];
    const struct tide_history_process *like = tide_history_process(s->h, worst->member);
    if (like && like->row.role && p->row.role && !strcmp(like->row.role, p->row.role))
        return false;
    const struct tide_history_process *answer = tide_history_process(s->h, worst->process);
    return !(answer && tide_history_is_same(p, answer)) && p->point_count > 0 &&
           p->points[0].t_ns <= late_ns && tide_assessing_end(s, p) > late_ns;
}

/* Returns the role that most of the others have (of several, the one that was seen first), and how many have
 * it. Borrowed. */
static const char *commonest_role(const struct tide_assessing *s, size_t *ret_count)
{
    const char *commonest = "";
    size_t earliest = SIZE_MAX;
    *ret_count = 0;
    for (size_t i = 0, count = 0, first = 0; i < s->h->process_count; i++) {
        const struct tide_history_process *p = &s->h->processes[s->by_role[i]];
        if (i == 0 || s->role_of[s->by_role[i]] != s->role_of[s->by_role[i - 1]])
            count = 0;
        if (!*p->row.role || !is_other(s, p))
            continue;
        first = count++ ? first : s->by_role[i];
        if (count < *ret_count || (count == *ret_count && first > earliest))
            continue;
        commonest = p->row.role;
        *ret_count = count;
        earliest = first;
    }
    return commonest;
}

/* "20 x compile_worker steady, 8.0 GiB RSS but 2.1 GiB counted once (PSS)": what other processes hold. */
static void describe_others(const struct tide_assessing *s)
{
    const struct tide_history *h = s->h;
    const struct tide_judged *worst = &s->a->judged[0];
    double rss = 0, counted = 0, unshared = 0, rate = 0;
    size_t others = 0, known = 0, alike, growing = 0;
    for (size_t i = 0; i < h->process_count; i++) {
        if (!is_other(s, &h->processes[i]))
            continue;
        double mine, once = now_counted(s, i, &mine);
        others++;
        known += once < mine;
        rss += mine;
        counted += once;
        if (tide_history_process(h, h->processes[i].row.parent)) /* else workers that shared with it ended */
            unshared += tide_assessing_no_longer_shared(&h->processes[i], 0);
    }
    if (others == 0 || (worst->subject != TIDE_SUBJECT_PROCESS && worst->subject != TIDE_SUBJECT_ROLE))
        return;
    for (size_t i = 1; i < s->a->count; i++) {
        const struct tide_judged *j = &s->a->judged[i];
        const struct tide_history_process *p =
            j->subject == TIDE_SUBJECT_PROCESS ? tide_history_process(h, j->process) : NULL;
        if (!p || !is_other(s, p) || !tide_verdict_grows(&j->verdict) || j->passing)
            continue;
        growing++;
        rate += j->verdict.slope;
    }
    char who[128], role[64], how[96] = "steady";
    const char *per = worst->x_is_steps ? "step" : "second";
    tide_text_shown(commonest_role(s, &alike), role, sizeof role);
    if (alike < 2)
        snprintf(who, sizeof who, "%zu other process%s", others, others == 1 ? "" : "es");
    else if (alike == others)
        snprintf(who, sizeof who, "%zu x %s", alike, role);
    else
        snprintf(who, sizeof who, "%zu x %s and %zu more", alike, role, others - alike);
    if (growing && others == 1)
        snprintf(how, sizeof how, "grows too, by %s per %s", TIDE_SIZE(rate), per);
    else if (growing)
        snprintf(how, sizeof how, "of which %zu grow%s too, by %s per %s%s", growing, growing == 1 ? "s" : "",
                 TIDE_SIZE(rate), per, growing == 1 ? "" : " together");
    else if (unshared >= fmax(TIDE_LEVEL_RISE * rss, TIDE_STARTING_LEAST))
        snprintf(how, sizeof how, "steady, but %s is no longer shared", TIDE_SIZE(unshared));
    snprintf(s->a->others, sizeof s->a->others, "%s %s%s %s RSS%s%s%s", who, how, growing ? ";" : ",",
             TIDE_SIZE(rss), known ? " but " : "", known ? TIDE_SIZE(counted) : "",
             known ? " counted once (PSS)" : "");
}

/* A gauge that is flat while memory grows tells where not to look. A holder that holds more at each census
 * may become a leak; under retention, its blocks lie between freed ones and keep the pages. */
static void describe_evidence(const struct tide_assessing *s)
{
    const struct tide_judged *worst = &s->a->judged[0];
    bool kept = worst->verdict.kind == TIDE_RETENTION, open = worst->verdict.kind == TIDE_UNDECIDED;
    const char *holder = kept || open ? tide_holder_of_more(s->h, worst->process) : NULL;
    if (holder)
        snprintf(s->a->evidence, sizeof s->a->evidence, "%s: it holds more at each census%s",
                 TIDE_SHOWN(holder, 160), kept ? ", and its blocks keep pages from being given back" : "");
    if (holder || (worst->verdict.kind != TIDE_LEAK && worst->crest.epochs == 0))
        return;
    for (size_t i = 1; i < s->a->count; i++) {
        const struct tide_judged *j = &s->a->judged[i];
        if (!is_own_count(j))
            continue;
        bool flat = j->verdict.kind == TIDE_FLAT || j->verdict.kind == TIDE_SPIKES;
        bool same =
            j->verdict.kind == TIDE_LEAK && rate_per_second(j) > 0.5 * rate_per_second(&s->a->judged[0]);
        if (flat)
            snprintf(
                s->a->evidence, sizeof s->a->evidence,
                "%s is flat: it does not count the memory that grows (another process, memory that the allocator keeps, or another allocator)",
                j->name);
        else if (same)
            snprintf(s->a->evidence, sizeof s->a->evidence,
                     "%s grows too: these are bytes that the program itself counts", j->name);
        else
            continue;
        return;
    }
}

void tide_assessing_describe(const struct tide_assessing *s)
{
    describe_evidence(s);
    describe_others(s);
}
