#include "assess/diff.h"
#include "assess/blame.h"
#include "assess/stacks.h"
#include "base/arena.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    JUDGED_SITES = 1000,
    LEAST_CHANGE = 16 * 1024, /* bytes: below that a call site has not changed */
    LEAST_WORSE = 256 * 1024, /* bytes, over the steps that both trained: a smaller new leak is in doubt */
};

static const double ERRORS = 3.5;  /* standard errors of sampling: less is no change */
static const double FASTER = 1.1;  /* two runs of one program leak at rates that differ by a few per cent */
static const double SURE = 1.5;    /* times what a run would have shown: a leak above that would show */
static const double AS_LONG = 0.9; /* runs count as equally long if one has this share of the other's steps */

static const struct tide_diff_rate no_growth = {0, 0, 0};

/* --- rates --------------------------------------------------------------------------------------------- */

/* The rate of a verdict, in the unit that both sides share. */
static struct tide_diff_rate rate_of(const struct tide_diff *d, int side, const struct tide_verdict *v)
{
    double scale = d->x_is_steps ? 1 : d->sides[side].seconds_per_x;
    if (v->kind == TIDE_UNDECIDED)
        return (struct tide_diff_rate){NAN, NAN, SURE * fmax(v->detectable, v->needed_for) / scale};
    if (!tide_verdict_grows(v))
        return no_growth;
    return (struct tide_diff_rate){v->slope / scale, v->slope_low / scale, v->slope_high / scale};
}

/* Runs that were too short to be judged count as not growing. */
static double rate_change(const struct tide_diff_rate *a, const struct tide_diff_rate *b)
{
    return (b->bytes > 0 ? b->bytes : 0) - (a->bytes > 0 ? a->bytes : 0);
}

/* One of the two was too short to be judged. Still, it did not grow faster than it would have shown. */
static enum tide_diff_result compare_bounds(const struct tide_diff *d, const struct tide_diff_rate *a,
                                            const struct tide_diff_rate *b, double least)
{
    if (b->bytes <= 0)
        return TIDE_DIFF_SAME;
    if (isnan(b->bytes) && a->bytes > 0 && a->low > b->high)
        return TIDE_DIFF_BETTER;
    if (isnan(a->bytes) && b->low > a->high && b->bytes * d->stretch >= least)
        return TIDE_DIFF_WORSE;
    return TIDE_DIFF_UNDECIDED;
}

/* Rates differ if they are beyond the intervals of both, and by more than runs of one program differ. A leak
 * differs from no growth if it comes to `least` bytes. */
static enum tide_diff_result compare_rates(const struct tide_diff *d, const struct tide_diff_rate *a,
                                           const struct tide_diff_rate *b, double least)
{
    if (isnan(a->bytes) || isnan(b->bytes))
        return compare_bounds(d, a, b, least);
    bool grew = a->bytes > 0, grows = b->bytes > 0;
    if (grows && !grew)
        return b->bytes * d->stretch >= least ? TIDE_DIFF_WORSE : TIDE_DIFF_UNDECIDED;
    if (grew && !grows)
        return TIDE_DIFF_BETTER;
    if (b->low > a->high && b->bytes > FASTER * a->bytes)
        return TIDE_DIFF_WORSE;
    return b->high < a->low && a->bytes > FASTER * b->bytes ? TIDE_DIFF_BETTER : TIDE_DIFF_SAME;
}

/* --- moments ------------------------------------------------------------------------------------------- */

static int find_moments(struct tide_diff *d, const struct tide_diff_options *o, struct tide_err *err)
{
    struct tide_diff_side *a = &d->sides[0], *b = &d->sides[1];
    for (int i = 0; i < 2; i++) {
        struct tide_diff_side *s = &d->sides[i];
        static const struct tide_moment end = {TIDE_MOMENT_END, NAN};
        tide_moment_training(s->history, s->assessment, &s->from_ns, &s->to_ns);
        int bad =
            tide_moment_find(o->usual ? &end : &o->moments[i], s->history, s->assessment, &s->at_ns, err);
        s->at_device_ns = s->at_ns;
        if (!bad && !o->usual && o->moments[i].kind == TIDE_MOMENT_PEAK)
            bad = tide_moment_peak(s->history, true, &s->at_device_ns, err);
        if (bad)
            return tide_err_wrap(err, "%s", TIDE_SHOWN(s->source, 256));
        s->at_x = tide_axis_at(s->assessment->axis, s->at_ns);
        double x =
            tide_axis_at(s->assessment->axis, s->to_ns) - tide_axis_at(s->assessment->axis, s->from_ns);
        s->stretch = d->x_is_steps ? x : x * s->seconds_per_x;
    }
    d->stretch = fmin(a->stretch, b->stretch);
    if (!o->usual || !d->x_is_steps)
        return 0;
    double common = fmin(a->at_x, b->at_x);
    struct tide_diff_side *longer = a->at_x > b->at_x ? a : b;
    int64_t t_ns = tide_assess_time_of(longer->assessment, common);
    if (common >= AS_LONG * longer->at_x || t_ns == TIDE_UNKNOWN)
        return 0;
    longer->at_ns = longer->at_device_ns = t_ns;
    longer->at_x = common;
    d->same_step = true;
    return 0;
}

/* --- subjects ------------------------------------------------------------------------------------------ */

/* Names a series the same way in any run: by its role, not its PID. */
static void name_subject(const struct tide_judged *j, char *out, size_t size)
{
    char role[96] = "";
    if (j->role)
        tide_text_shown(j->role, role, sizeof role);
    if (j->subject == TIDE_SUBJECT_GPU && role[0])
        snprintf(out, size, "GPU %lld, %s", (long long)j->device, role);
    else
        snprintf(out, size, "%s", role[0] ? role : j->name);
}

/* If several share a name, their level is the sum over the role. */
static void add_judged(struct tide_diff_subject *s, int side, const struct tide_judged *j)
{
    const struct tide_judged **level = &s->level[side];
    if (!s->growth[side])
        s->growth[side] = j; /* the worst come first */
    if (!*level || (*level)->own_pages || j->subject == TIDE_SUBJECT_ROLE)
        *level = j;
}

static struct tide_diff_subject *find_subject(struct tide_diff *d, const char *name, bool gauge)
{
    for (size_t i = 0; i < d->subject_count; i++) {
        struct tide_diff_subject *s = &d->subjects[i];
        const struct tide_judged *j = s->level[0] ? s->level[0] : s->level[1];
        if ((j->subject == TIDE_SUBJECT_GAUGE) == gauge && !strcmp(s->name, name))
            return s;
    }
    return NULL;
}

/* The programs that were started correspond to each other, whatever their names. */
static void match_roots(struct tide_diff *d)
{
    struct tide_diff_subject *root[2] = {NULL, NULL};
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < d->subject_count; i++) {
            struct tide_diff_subject *s = &d->subjects[i];
            if (s->growth[side] && !s->growth[!side] && s->growth[side]->subject == TIDE_SUBJECT_PROCESS &&
                s->growth[side]->process == 1)
                root[side] = s;
        }
    if (!root[0] || !root[1])
        return;
    char both[sizeof root[0]->name];
    snprintf(both, sizeof both, "%.60s -> %.60s", root[0]->name, root[1]->name);
    memcpy(root[0]->name, both, sizeof both);
    root[0]->level[1] = root[1]->level[1];
    root[0]->growth[1] = root[1]->growth[1];
    *root[1] = d->subjects[--d->subject_count];
}

static double level_change(const struct tide_diff_subject *s)
{
    double a = s->level[0] ? s->level[0]->verdict.floor_last : 0,
           b = s->level[1] ? s->level[1]->verdict.floor_last : 0;
    return fabs((isfinite(b) ? b : 0) - (isfinite(a) ? a : 0));
}

static int more_changed_first(const void *a, const void *b)
{
    const struct tide_diff_subject *left = a, *right = b;
    bool left_both = left->level[0] && left->level[1], right_both = right->level[0] && right->level[1];
    if (left_both != right_both)
        return left_both ? -1 : 1;
    double l = level_change(left), r = level_change(right);
    return l != r ? (l < r) - (l > r) : strcmp(left->name, right->name);
}

static int compare_subjects(struct tide_diff *d, struct tide_err *err)
{
    size_t most = d->sides[0].assessment->count + d->sides[1].assessment->count;
    d->subjects = tide_arena_take(&d->arena, most, sizeof *d->subjects);
    if (!d->subjects)
        return tide_err_set(err, "not enough memory to compare %zu series", most);
    for (int side = 0; side < 2; side++) {
        const struct tide_diff_side *of = &d->sides[side];
        for (size_t i = 0; i < of->assessment->count; i++) {
            const struct tide_judged *j = &of->assessment->judged[i];
            char name[sizeof d->subjects->name];
            name_subject(j, name, sizeof name);
            struct tide_diff_subject *s = find_subject(d, name, j->subject == TIDE_SUBJECT_GAUGE);
            if (!s) {
                s = &d->subjects[d->subject_count++];
                memcpy(s->name, name, sizeof name);
            }
            add_judged(s, side, j);
        }
    }
    match_roots(d);
    for (size_t i = 0; i < d->subject_count; i++) {
        struct tide_diff_subject *s = &d->subjects[i];
        for (int side = 0; side < 2; side++) /* what is not there does not grow */
            s->rate[side] = s->growth[side] ? rate_of(d, side, &s->growth[side]->verdict) : no_growth;
        s->result = compare_rates(d, &s->rate[0], &s->rate[1], LEAST_WORSE);
    }
    qsort(d->subjects, d->subject_count, sizeof *d->subjects, more_changed_first);
    return 0;
}

/* If the kernel killed only one of the two for lack of memory, that one is worse. But the rates count where
 * they decided the same, or against B; and if B made fewer steps, it might have been killed later. */
static void weigh_deaths(struct tide_diff *d)
{
    const struct tide_diff_side *a = &d->sides[0], *b = &d->sides[1];
    bool a_killed = a->assessment->death.cause == TIDE_DEATH_OOM;
    bool b_killed = b->assessment->death.cause == TIDE_DEATH_OOM;
    bool leaves_it =
        d->result == TIDE_DIFF_WORSE || (a_killed && d->result == TIDE_DIFF_BETTER) || a_killed == b_killed;
    if (leaves_it)
        return;
    bool as_far = !d->x_is_steps || b->stretch >= AS_LONG * a->stretch;
    d->result = b_killed ? TIDE_DIFF_WORSE : as_far ? TIDE_DIFF_BETTER : TIDE_DIFF_UNDECIDED;
    d->by_death = true;
}

/* The verdicts on the whole decide; but a part that leaks only in B makes it worse all the same. */
static void conclude(struct tide_diff *d)
{
    for (int side = 0; side < 2; side++)
        d->sides[side].rate = rate_of(d, side, &d->sides[side].assessment->judged[0].verdict);
    d->result = compare_rates(d, &d->sides[0].rate, &d->sides[1].rate, LEAST_WORSE);
    for (size_t i = 0; i < d->subject_count && d->result != TIDE_DIFF_WORSE; i++) {
        const struct tide_diff_subject *s = &d->subjects[i];
        const struct tide_judged *j = s->growth[1];
        bool part = j && j->subject != TIDE_SUBJECT_TREE && !tide_judged_is_evidence(j);
        if (s->result != TIDE_DIFF_WORSE || !part)
            continue;
        d->result = TIDE_DIFF_WORSE;
        d->culprit = s->name;
    }
    weigh_deaths(d);
}

/* --- call sites ---------------------------------------------------------------------------------------- */

/* Returns the rates of the sites of one side, by index; NULL without memory. */
static struct tide_diff_rate *site_rates(struct tide_diff *d, int side, struct tide_err *err)
{
    const struct tide_diff_side *s = &d->sides[side];
    struct tide_diff_rate *rates =
        tide_arena_take(&d->arena, s->history->site_count + 1, sizeof *rates); /* zeroed: no growth */
    struct tide_blame_options growth = {.by = TIDE_BLAME_GROWTH, .most = JUDGED_SITES, .every_site = true};
    struct tide_blame *blame = NULL;
    if (!rates) {
        tide_err_set(err, "not enough memory to compare %zu call sites", s->history->site_count);
        return NULL;
    }
    if (tide_blame_new(s->history, s->assessment, &growth, &blame, err))
        return NULL;
    for (size_t i = 0; i < blame->count; i++)
        rates[blame->culprits[i].site - s->history->sites] = rate_of(d, side, &blame->culprits[i].on.verdict);
    tide_blame_free(blame);
    return rates;
}

/* What comes and goes within a step depends on when in the step somebody looked. So not only the moment
 * counts, but what was there shortly before it. */
static void add_range(const struct tide_diff *d, int side, const struct tide_history_site *site,
                      struct tide_diff_site *row)
{
    enum { LOOKS = 32, PART = 8 };
    const struct tide_diff_side *s = &d->sides[side];
    double before_ns = fmin(LOOKS * s->seconds_per_look * 1e9, (double)(s->to_ns - s->from_ns) / PART);
    double least, most;
    tide_moment_range(s->history, site, s->at_ns - (int64_t)fmax(before_ns, 0), s->at_ns, &least, &most);
    row->least[side] += least;
    row->most[side] += most;
}

static void sum_side(struct tide_diff *d, int side, const struct tide_diff_rate *rates,
                     struct tide_diff_site *row, double *variance)
{
    const struct tide_diff_side *s = &d->sides[side];
    const struct tide_match_group *group = side ? row->pair.b : row->pair.a;
    double largest = -1;
    for (size_t i = 0; group && i < group->count; i++) {
        size_t index = group->sites[i];
        const struct tide_history_site *site = &s->history->sites[index];
        int64_t at_ns = tide_site_is_on_device(site) ? s->at_device_ns : s->at_ns;
        double blocks, bytes = tide_moment_live(s->history, site, at_ns, &blocks);
        double noise = tide_moment_noise(s->history, site, bytes, blocks);
        row->bytes[side] += bytes;
        row->blocks[side] += blocks;
        if (d->usual)
            add_range(d, side, site, row);
        *variance += noise * noise;
        if (rates) {
            row->rate[side].bytes += rates[index].bytes;
            row->rate[side].low += rates[index].low;
            row->rate[side].high += rates[index].high;
        }
        if (bytes > largest)
            row->site[side] = site;
        largest = fmax(largest, bytes);
    }
}

/* Returns by how much a growing site may differ because of when it was looked at: what a look finds is one
 * look old, or two if the site was new. */
static double lag(const struct tide_diff *d, const struct tide_diff_site *row)
{
    enum { LOOKS = 2 };
    double bytes = 0, apart = d->usual && d->x_is_steps ? fabs(d->sides[1].at_x - d->sides[0].at_x) : 0;
    for (int side = 0; side < 2 && !d->between; side++) {
        const struct tide_diff_side *s = &d->sides[side];
        double look = s->seconds_per_look / (d->x_is_steps ? s->seconds_per_x : 1);
        if (row->rate[side].bytes > 0)
            bytes = fmax(bytes, row->rate[side].bytes * (LOOKS * look + apart));
    }
    return isfinite(bytes) ? bytes : 0;
}

/* False if it holds as much as before, as far as can be told. */
static bool judge_row(const struct tide_diff *d, struct tide_diff_site *row, double variance)
{
    double change = row->bytes[1] - row->bytes[0];
    enum tide_diff_result rates =
        d->between ? TIDE_DIFF_SAME : compare_rates(d, &row->rate[0], &row->rate[1], LEAST_CHANGE);
    row->rate_change = rates == TIDE_DIFF_UNDECIDED ? NAN : 0;
    if (rates == TIDE_DIFF_WORSE || rates == TIDE_DIFF_BETTER)
        row->rate_change = rate_change(&row->rate[0], &row->rate[1]);
    bool rate_counts = row->rate_change > 0 || row->rate_change < 0;
    bool bytes_count = fabs(change) >= LEAST_CHANGE && fabs(change) > ERRORS * sqrt(variance) + lag(d, row);
    if (d->usual && row->least[1] <= row->most[0] && row->least[0] <= row->most[1])
        bytes_count = false; /* each held as much as the other a moment before */
    if (!rate_counts && !bytes_count)
        return false;
    row->score = fmax(bytes_count ? fabs(change) : 0, rate_counts ? fabs(row->rate_change) * d->stretch : 0);
    bool more = rate_counts ? row->rate_change > 0 : change > 0;
    row->change = row->bytes[0] <= 0   ? TIDE_DIFF_APPEARED
                  : row->bytes[1] <= 0 ? TIDE_DIFF_DISAPPEARED
                  : more               ? TIDE_DIFF_GREW
                                       : TIDE_DIFF_SHRANK;
    row->moved = row->pair.a && row->pair.b && row->pair.a->exact != row->pair.b->exact;
    return true;
}

static int larger_first(const void *a, const void *b)
{
    const struct tide_diff_site *left = a, *right = b;
    return (left->score < right->score) - (left->score > right->score);
}

static bool is_on_device(const struct tide_diff_site *row)
{
    return tide_site_is_on_device(row->site[1] ? row->site[1] : row->site[0]);
}

/* A site's share of the change of its kind of memory: of the rate if that changed, else of the bytes. */
static void share_out(struct tide_diff *d)
{
    bool by_rate = !d->by_death && (d->result == TIDE_DIFF_WORSE || d->result == TIDE_DIFF_BETTER);
    const struct tide_diff_side *faster = &d->sides[d->result == TIDE_DIFF_WORSE];
    bool device = faster->assessment->judged[0].subject == TIDE_SUBJECT_GPU;
    double rate = d->between ? 0 : rate_change(&d->sides[0].rate, &d->sides[1].rate);
    for (size_t i = 0; i < d->site_count; i++) {
        struct tide_diff_site *row = &d->sites[i];
        int memory = is_on_device(row);
        double bytes = d->sides[1].live_bytes[memory] - d->sides[0].live_bytes[memory];
        double change = row->bytes[1] - row->bytes[0];
        double part = !by_rate                  ? change / bytes
                      : device != memory        ? NAN
                      : isnan(row->rate_change) ? change / (rate * d->stretch)
                                                : row->rate_change / rate;
        row->share = isfinite(part) && part > 0 ? fmin(part, 1) : NAN;
    }
}

static int compare_sites(struct tide_diff *d, struct tide_err *err)
{
    struct tide_diff_rate *rates[2] = {NULL, NULL};
    struct tide_match match;
    if (tide_match_sites(d->sides[0].history, d->sides[1].history, &d->arena, &match, err))
        return -1;
    for (int side = 0; side < 2 && !d->between; side++)
        if (!(rates[side] = site_rates(d, side, err)))
            return -1;
    d->sites = tide_arena_take(&d->arena, match.count + 1, sizeof *d->sites);
    if (!d->sites)
        return tide_err_set(err, "not enough memory to compare %zu call sites", match.count);
    for (size_t i = 0; i < match.count; i++) {
        struct tide_diff_site *row = &d->sites[d->site_count];
        double variance = 0;
        *row = (struct tide_diff_site){.pair = match.pairs[i]};
        for (int side = 0; side < 2; side++)
            sum_side(d, side, rates[side], row, &variance);
        for (int side = 0; side < 2; side++)
            d->sides[side].live_bytes[is_on_device(row)] += row->bytes[side];
        if (judge_row(d, row, variance))
            d->site_count++;
        else
            d->unchanged += row->bytes[0] > 0 || row->bytes[1] > 0;
    }
    qsort(d->sites, d->site_count, sizeof *d->sites, larger_first);
    share_out(d);
    return 0;
}

/* --- the whole ----------------------------------------------------------------------------------------- */

static int compare(struct tide_diff *d, const struct tide_diff_options *options, struct tide_err *err)
{
    d->x_is_steps = isfinite(d->sides[0].assessment->steps) && isfinite(d->sides[1].assessment->steps);
    d->has_sites = d->sides[0].history->site_count > 0 && d->sides[1].history->site_count > 0;
    for (int side = 0; side < 2; side++) {
        struct tide_diff_side *s = &d->sides[side];
        double seconds = s->assessment->judged[0].seconds_per_step;
        s->seconds_per_x = isfinite(s->assessment->steps) && seconds > 0 ? seconds : 1;
        const struct tide_tick *ticks = s->history->ticks;
        size_t looks = s->history->tick_count;
        s->seconds_per_look = (double)(ticks[looks - 1].t_ns - ticks[0].t_ns) / 1e9 / (double)looks;
    }
    if (d->between && !d->has_sites)
        return tide_sites_missing(d->sides[0].history, err);
    if (find_moments(d, options, err))
        return -1;
    if (!d->between) {
        if (compare_subjects(d, err))
            return -1;
        conclude(d);
    }
    return d->has_sites ? compare_sites(d, err) : 0;
}

int tide_diff_new(const struct tide_answer *const answers[2], const char *const sources[2],
                  const struct tide_diff_options *options, struct tide_diff **ret_diff, struct tide_err *err)
{
    struct tide_diff *d = calloc(1, sizeof *d);
    if (!d)
        return tide_err_set(err, "not enough memory");
    tide_arena_init(&d->arena, (size_t)2 << 30);
    d->between = options->between;
    d->usual = options->usual;
    for (int side = 0; side < 2; side++)
        d->sides[side] = (struct tide_diff_side){.history = answers[side]->history,
                                                 .assessment = answers[side]->assessment,
                                                 .source = sources[side],
                                                 .rate = {NAN, NAN, NAN}};
    if (compare(d, options, err)) {
        tide_diff_free(d);
        return -1;
    }
    *ret_diff = d;
    return 0;
}

void tide_diff_free(struct tide_diff *d)
{
    if (!d)
        return;
    tide_arena_release(&d->arena);
    free(d);
}

int tide_diff_exit_code(const struct tide_diff *d)
{
    static const int codes[] = {
        [TIDE_DIFF_SAME] = 0, [TIDE_DIFF_BETTER] = 0, [TIDE_DIFF_WORSE] = 1, [TIDE_DIFF_UNDECIDED] = 3};
    return d->between ? 0 : codes[d->result];
}
