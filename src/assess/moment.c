#include "assess/moment.h"
#include "assess/stacks.h"
#include "base/text.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct tide_history_site_point *tide_moment_point(const struct tide_history_site *site, int64_t t_ns)
{
    size_t count = TIDE_UNTIL(site->points, site->point_count, t_ns);
    return count ? &site->points[count - 1] : NULL;
}

/* Returns when the site's process ended; INT64_MAX: it has not, as far as is known. What a process held last
 * may be read after its death; that point still counts, at its time. */
static int64_t end_of(const struct tide_history *h, const struct tide_history_site *site)
{
    const struct tide_history_process *p = tide_history_process(h, site->process);
    int64_t ended = p ? p->row.ended_ns : TIDE_UNKNOWN;
    if (ended == TIDE_UNKNOWN)
        return INT64_MAX;
    int64_t last = site->point_count ? site->points[site->point_count - 1].t_ns : ended;
    return last > ended ? last : ended;
}

static double bytes_of(const struct tide_history_site_point *p)
{
    return p ? fmax((double)p->live_bytes, 0) : 0;
}

/* A short program may be gone before the names of its code are known, and its sites are first written then.
 * What they hold at that point, they held when the program was last looked at. */
static const struct tide_history_site_point *late_point(const struct tide_history *h,
                                                        const struct tide_history_site *site, int64_t t_ns)
{
    int64_t ended =
        end_of(h, site) == INT64_MAX ? TIDE_UNKNOWN : h->processes[site->process - 1].row.ended_ns;
    if (ended == TIDE_UNKNOWN || site->point_count == 0 || site->points[0].t_ns < ended)
        return NULL;
    size_t at = tide_history_tick_from(h, ended);
    return at > 0 && t_ns >= h->ticks[at - 1].t_ns ? &site->points[0] : NULL;
}

double tide_moment_live(const struct tide_history *h, const struct tide_history_site *site, int64_t t_ns,
                        double *ret_blocks)
{
    bool gone = t_ns > end_of(h, site);
    const struct tide_history_site_point *p = gone ? NULL : tide_moment_point(site, t_ns);
    if (!p && !gone)
        p = late_point(h, site, t_ns);
    if (ret_blocks)
        *ret_blocks = p ? fmax((double)p->live_blocks, 0) : 0;
    return bytes_of(p);
}

/* Widens a range of bytes by what the site held after from_ns and up to to_ns. */
static void widen(const struct tide_history_site *site, int64_t from_ns, int64_t to_ns, double *least,
                  double *most)
{
    for (size_t i = TIDE_UNTIL(site->points, site->point_count, from_ns);
         i < site->point_count && site->points[i].t_ns <= to_ns; i++) {
        *least = fmin(*least, bytes_of(&site->points[i]));
        *most = fmax(*most, bytes_of(&site->points[i]));
    }
}

void tide_moment_range(const struct tide_history *h, const struct tide_history_site *site, int64_t from_ns,
                       int64_t to_ns, double *ret_least, double *ret_most)
{
    double from = tide_moment_live(h, site, from_ns, NULL), to = tide_moment_live(h, site, to_ns, NULL);
    *ret_least = fmin(from, to);
    *ret_most = fmax(from, to);
    widen(site, from_ns, to_ns, ret_least, ret_most);
}

void tide_moment_extremes(const struct tide_history_site *site, int64_t from_ns, int64_t to_ns,
                          double *ret_lowest, double *ret_highest)
{
    *ret_lowest = *ret_highest = bytes_of(tide_moment_point(site, from_ns));
    widen(site, from_ns, to_ns, ret_lowest, ret_highest);
}

double tide_moment_interval(const struct tide_history *h, int64_t process)
{
    const struct tide_heap_status *status = tide_history_heap_status(h, process);
    return status ? fmax((double)status->interval_bytes, 0) : 0;
}

double tide_moment_sampled(const struct tide_history *h, const struct tide_history_site *site, double size)
{
    double interval = tide_moment_interval(h, site->process), exact = interval / 4;
    if (site->kind == TIDE_SITE_TENSOR)
        interval = exact = TIDE_SITE_TENSOR_INTERVALS * interval;
    else if (site->kind != TIDE_SITE_MALLOC && site->kind != TIDE_SITE_POOL)
        return 1;
    return size < exact ? -expm1(-size / interval) : 1;
}

bool tide_moment_is_arena(const struct tide_history *h, const struct tide_history_site *site, double size)
{
    enum { ARENA = 1 << 20, OLD_ARENA = 1 << 18 };
    const int32_t *frames;
    bool python = false;
    if (site->kind != TIDE_SITE_MMAP || (size != ARENA && size != OLD_ARENA))
        return false;
    size_t count = tide_history_stack(h, site->stack, &frames);
    for (size_t i = 0; i < count && !python; i++)
        python = h->frames[frames[i]].python;
    return python;
}

/* A block of s bytes that is sampled with p is counted as s/p: variance s^2 (1 - p)/p. */
double tide_moment_noise(const struct tide_history *h, const struct tide_history_site *site, double bytes,
                         double blocks)
{
    if (bytes <= 0)
        return 0;
    double size = bytes / fmax(blocks, 1);
    if (tide_moment_is_arena(h, site, size)) /* about its line, an arena says as little as a sample */
        return sqrt(bytes * size);
    double p = tide_moment_sampled(h, site, size);
    return sqrt(bytes * size * (1 - p) / p);
}

double tide_moment_growth(const struct tide_history_site *site, int64_t from_ns, int64_t to_ns)
{
    int64_t part = (to_ns - from_ns) / 8;
    double before, after, ignored;
    tide_moment_extremes(site, from_ns, from_ns + part, &before, &ignored);
    tide_moment_extremes(site, to_ns - part, to_ns, &after, &ignored);
    return after - before;
}

void tide_moment_add_changes(const struct tide_history *h, const struct tide_history_site *site,
                             double *changes)
{
    double before = 0;
    int64_t ended = end_of(h, site);
    for (size_t i = 0; i < site->point_count; i++) {
        double now = bytes_of(&site->points[i]);
        changes[tide_history_tick_from(h, site->points[i].t_ns)] += now - before;
        before = now;
    }
    if (ended < INT64_MAX)
        changes[tide_history_tick_from(h, ended + 1)] -= before;
}

int tide_moment_peak(const struct tide_history *h, bool on_device, int64_t *ret_t_ns, struct tide_err *err)
{
    double *changes = calloc(h->tick_count + 1, sizeof *changes), sum = 0, best = -1;
    if (!changes)
        return tide_err_set(err, "not enough memory for %zu looks", h->tick_count);
    for (size_t i = 0; i < h->site_count; i++)
        if (tide_site_is_on_device(&h->sites[i]) == on_device)
            tide_moment_add_changes(h, &h->sites[i], changes);
    for (size_t i = 0; i < h->tick_count; i++) {
        sum += changes[i];
        if (sum <= best)
            continue;
        best = sum;
        *ret_t_ns = h->ticks[i].t_ns;
    }
    free(changes);
    return 0;
}

static double live_at(const struct tide_history *h, size_t tick)
{
    double live = 0;
    for (size_t i = 0; i < h->site_count; i++)
        live += tide_moment_live(h, &h->sites[i], h->ticks[tick].t_ns, NULL);
    return live;
}

/* Returns the look at which live memory last rose, at most a few looks earlier than to_ns and a small part of
 * the run: a program that ends may free everything before it is gone. */
static int64_t before_freeing(const struct tide_history *h, int64_t to_ns)
{
    const size_t most = 16, part = 16;
    size_t last = tide_history_tick_from(h, to_ns), looks = last / part < most ? last / part : most;
    double live = live_at(h, last), before;
    for (; looks > 0 && (before = live_at(h, last - 1)) >= live; looks--, last--)
        live = before;
    return h->ticks[last].t_ns;
}

void tide_moment_training(const struct tide_history *h, const struct tide_assessment *a, int64_t *ret_from_ns,
                          int64_t *ret_to_ns)
{
    int64_t from = h->ticks[0].t_ns, to = h->ticks[h->tick_count - 1].t_ns;
    for (size_t i = 0; i < h->tick_count && isnan(tide_axis_at(a->axis, from)); i++)
        from = h->ticks[i].t_ns;
    for (size_t i = h->tick_count;
         i-- > 0 && (isnan(tide_axis_at(a->axis, to)) || h->ticks[i].processes == 0);)
        to = h->ticks[i > 0 ? i - 1 : 0].t_ns;
    int64_t last_step = isfinite(a->steps) ? tide_assess_time_of(a, tide_axis_at(a->axis, to)) : TIDE_UNKNOWN;
    *ret_from_ns = from;
    *ret_to_ns = last_step > from && last_step < to ? last_step
                 : isfinite(a->steps)               ? to
                                                    : before_freeing(h, to);
}

int tide_moment_parse(const char *text, struct tide_moment *ret_moment, struct tide_err *err)
{
    struct tide_moment moment = {TIDE_MOMENT_END, NAN};
    if (!strcmp(text, "peak"))
        moment.kind = TIDE_MOMENT_PEAK;
    else if (strcmp(text, "end"))
        moment.kind = TIDE_MOMENT_STEP;
    if (moment.kind == TIDE_MOMENT_STEP && (tide_real_parse(text, &moment.step) || moment.step < 0)) {
        tide_err_set(err, "'%s' is not a moment of a run", TIDE_SHOWN(text, 64));
        return tide_err_hint(err, "give 'end', 'peak' or the number of a step");
    }
    *ret_moment = moment;
    return 0;
}

int tide_moment_find(const struct tide_moment *moment, const struct tide_history *h,
                     const struct tide_assessment *a, int64_t *ret_t_ns, struct tide_err *err)
{
    int64_t from, t_ns = TIDE_UNKNOWN;
    if (moment->kind == TIDE_MOMENT_PEAK)
        return tide_moment_peak(h, false, ret_t_ns, err);
    if (moment->kind == TIDE_MOMENT_STEP)
        t_ns = tide_assess_time_of(a, moment->step);
    else
        tide_moment_training(h, a, &from, &t_ns);
    if (t_ns == TIDE_UNKNOWN)
        return tide_err_set(err, "the recording has no %s %g", isfinite(a->steps) ? "step" : "second",
                            moment->step);
    *ret_t_ns = t_ns;
    return 0;
}
