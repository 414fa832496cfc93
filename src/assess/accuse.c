/*
 * accuse.c - which of the sites that grow explain the growth that the verdict is about, and how much of it.
 *
 * A site is a culprit of a leak if its process is accused and the site takes part in the growth during the
 * leak. Sites also grow by imports before that, in processes that do not leak, or by next to nothing: that
 * explains nothing.
 */
#include "assess/blame_private.h"
#include "assess/moment.h"
#include "assess/stacks.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- shares */

/* The growth that a culprit's growth is a part of. */
struct whole {
    double per_x, bytes;
    double from_x, to_x; /* stretch in which it grew at that rate */
};

static bool has_role(const struct tide_history *h, int64_t process, int64_t like)
{
    size_t p = (size_t)process - 1, l = (size_t)like - 1;
    return p < h->process_count && l < h->process_count &&
           !strcmp(h->processes[p].row.role, h->processes[l].row.role);
}

/* True if two processes are one for the reader: they are the same, or the verdict is about all of their role.
 */
static bool are_one(const struct tide_blaming *g, int64_t a, int64_t b)
{
    return a == b || (g->a->judged[0].subject == TIDE_SUBJECT_ROLE && has_role(g->h, a, b));
}

/* Returns the leak around a culprit: of its process, with others if they are one; for device memory, of that
 * process on all its GPUs, or if the driver does not tell processes apart, of the GPUs. per_x 0: none. */
static struct whole leak_around(const struct tide_blaming *g, const struct tide_culprit *c)
{
    struct whole own = {0}, shared = {0};
    bool device = tide_site_is_on_device(c->site);
    for (size_t i = 0; i < g->a->count; i++) {
        const struct tide_judged *j = &g->a->judged[i];
        if (j->verdict.kind != TIDE_LEAK || j->subject != (device ? TIDE_SUBJECT_GPU : TIDE_SUBJECT_PROCESS))
            continue;
        struct whole *to = are_one(g, j->process, c->process) ? &own : &shared;
        if (to == &shared && j->process != TIDE_UNKNOWN)
            continue;
        to->per_x += j->verdict.slope;
        to->bytes += fmax(j->verdict.slope * (j->verdict.x_last - j->verdict.slope_x), 0);
        to->from_x = j->verdict.slope_x;
        to->to_x = j->verdict.x_last;
    }
    return own.per_x > 0 || !device ? own : shared;
}

/* Returns by how much the host memory of a culprit's process jumped, whatever else it did; 0: it did not. */
static double jump_around(const struct tide_blaming *g, const struct tide_culprit *c)
{
    for (size_t i = 0; i < g->a->count && !tide_site_is_on_device(c->site); i++) {
        const struct tide_judged *j = &g->a->judged[i];
        bool jumped = j->verdict.kind == TIDE_JUMP || j->verdict.kind == TIDE_UNDECIDED;
        if (j->subject == TIDE_SUBJECT_PROCESS && j->process == c->process && jumped)
            return fmax(j->verdict.jump_bytes, 0);
    }
    return 0;
}

/* Returns what the sites of a culprit's process ask for in its kind of memory, per step. */
static double asked_around(const struct tide_blaming *g, const struct tide_culprit *c)
{
    double sum = 0;
    for (size_t i = 0; i < g->b->count; i++) {
        const struct tide_culprit *other = &g->b->culprits[i];
        if (are_one(g, other->process, c->process) &&
            tide_site_is_on_device(other->site) == tide_site_is_on_device(c->site))
            sum += fmax(other->bytes_per_x, 0);
    }
    return sum;
}

/* Returns the growth of a site less twice the error of its samples. */
static double least_bytes(const struct tide_culprit *c)
{
    return c->bytes - 2 * (isfinite(c->samples) ? c->bytes / sqrt(fmax(c->samples, 1)) : 0);
}

/* Returns the growth of an undecided site while its process leaked, as a share of that leak. NAN: the site
 * grew by more than the leak, beyond the error of its samples, so it must have been something else. */
static double share_undecided(const struct tide_blaming *g, struct tide_culprit *c, const struct whole *leak)
{
    int64_t from_ns = tide_assess_time_of(g->a, leak->from_x), to_ns = tide_assess_time_of(g->a, leak->to_x);
    to_ns = to_ns == TIDE_UNKNOWN || to_ns > g->to_ns ? g->to_ns : to_ns;
    if (from_ns != TIDE_UNKNOWN)
        c->bytes = fmax(tide_moment_growth(c->site, from_ns, to_ns), 0);
    return least_bytes(c) > leak->bytes ? NAN : fmin(c->bytes / leak->bytes, 1);
}

/* The share of a site that grows is that of the leak, or of all sites that grow in the same memory if nothing
 * leaks. Sites count what was asked for, which may be more than the pages that were touched. Then their sum
 * is the whole, so that shares never add up to more than all. The share of a jump is of the process's. */
static void share_growth(struct tide_blaming *g, const double sum[2], struct tide_culprit *c)
{
    struct whole leak = leak_around(g, c);
    double jump = jump_around(g, c);
    if (jump > 0 && c->on.verdict.kind == TIDE_JUMP)
        c->share = fmin(c->bytes / jump, 1);
    if (leak.bytes > 0 && c->judged && c->on.verdict.kind == TIDE_UNDECIDED)
        c->share = share_undecided(g, c, &leak);
    if (!(c->bytes_per_x > 0))
        return;
    double whole =
        leak.per_x > 0 ? fmax(leak.per_x, asked_around(g, c)) : sum[tide_site_is_on_device(c->site)];
    c->share = fmin(c->bytes_per_x / fmax(whole, 1e-9), 1);
    c->of_sites = !(leak.per_x > 0);
}

/* ---- who is accused */

bool tide_blaming_is_about(const struct tide_blaming *g, int64_t process)
{
    const struct tide_judged *worst = &g->a->judged[0];
    bool of_some = worst->process > 0 || worst->subject == TIDE_SUBJECT_ROLE;
    return !of_some || worst->process == process || has_role(g->h, process, worst->member);
}

/* True if a finding is about a process, or that process grows by itself. */
static bool is_accused(const struct tide_blaming *g, int64_t process)
{
    enum tide_verdict_kind kind = g->a->judged[0].verdict.kind;
    bool finding = kind == TIDE_LEAK || kind == TIDE_RETENTION || kind == TIDE_JUMP || kind == TIDE_PLATEAU;
    if (!finding || tide_blaming_is_about(g, process))
        return true;
    for (size_t i = 1; i < g->a->count; i++) {
        const struct tide_judged *j = &g->a->judged[i];
        if (j->process == process && !j->passing && tide_verdict_grows(&j->verdict))
            return true;
    }
    return false;
}

/* True if the process of a site of host memory is undecided and cannot have grown by as much as the site: as
 * where a runtime moves memory from one site to another. */
static bool outgrows(const struct tide_blaming *g, const struct tide_culprit *c)
{
    bool may = !tide_site_is_on_device(c->site) && !c->bounded && c->on.verdict.kind != TIDE_JUMP;
    for (size_t i = 0; i < g->a->count && may; i++) {
        const struct tide_judged *j = &g->a->judged[i];
        const struct tide_verdict *v = &j->verdict;
        double most = fmax(v->growth_bytes, 0) + fmax(v->detectable, 0) * (v->x_last - v->start_x);
        if (j->subject == TIDE_SUBJECT_PROCESS && j->process == c->process && v->kind == TIDE_UNDECIDED)
            return least_bytes(c) > most;
    }
    return false;
}

/* True if a site has a part in what its process is accused of. Bounded sites stay: they become healthy. */
static bool explains(const struct tide_blaming *g, const struct tide_culprit *c)
{
    if (!is_accused(g, c->process))
        return false;
    bool leaks = leak_around(g, c).per_x > 0, jumps = c->on.verdict.kind == TIDE_JUMP;
    if (c->bounded || (!leaks && !(jumps && jump_around(g, c) > 0)))
        return true;
    return leaks != jumps && c->share >= TIDE_BLAME_LEAST_SHARE;
}

/* ---- in which order */

/* Which memory the verdict is about. */
enum memory { ANY, HOST, DEVICE };

/* Sites that leak come first; of these, those in the memory that the verdict is about. */
static int faster_first(const void *a, const void *b, void *context)
{
    const struct tide_culprit *left = a, *right = b;
    enum memory about = *(const enum memory *)context;
    double l = isnan(left->bytes_per_x) ? -1 : left->bytes_per_x,
           r = isnan(right->bytes_per_x) ? -1 : right->bytes_per_x;
    bool left_device = tide_site_is_on_device(left->site), right_device = tide_site_is_on_device(right->site);
    if (about != ANY && l > 0 && r > 0 && left_device != right_device)
        return left_device == (about == DEVICE) ? -1 : 1;
    if (l != r)
        return (l < r) - (l > r);
    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

static void put_in_order(const struct tide_blaming *g, struct tide_culprit *culprits, size_t count)
{
    const struct tide_judged *worst = &g->a->judged[0];
    enum memory about = worst->verdict.kind != TIDE_LEAK     ? ANY
                        : worst->subject == TIDE_SUBJECT_GPU ? DEVICE
                                                             : HOST;
    qsort_r(culprits, count, sizeof *culprits, faster_first, &about);
}

void tide_blaming_accuse(struct tide_blaming *g)
{
    struct tide_blame *b = g->b;
    double sum[2] = {0};
    size_t kept = 0;
    for (size_t i = 0; i < b->count; i++)
        if (g->options->every_site || !outgrows(g, &b->culprits[i]))
            b->culprits[kept++] = b->culprits[i];
    b->outgrown = b->count - kept;
    b->count = kept;
    for (size_t i = 0; i < b->count; i++)
        sum[tide_site_is_on_device(b->culprits[i].site)] += fmax(b->culprits[i].bytes_per_x, 0);
    for (size_t i = 0; i < b->count; i++)
        share_growth(g, sum, &b->culprits[i]);
    kept = 0;
    for (size_t i = 0; i < b->count; i++)
        if (g->options->every_site || explains(g, &b->culprits[i]))
            b->culprits[kept++] = b->culprits[i];
    b->count = kept;
    put_in_order(g, b->culprits, b->count);
}

/* ---- one allocator, several callers */

static bool is_same_line(const struct tide_frame *a, const struct tide_frame *b)
{
    return a == b || (a && b && a->line == b->line && !strcmp(a->function, b->function) &&
                      !strcmp(a->file, b->file) && (a->line > 0 || a->offset == b->offset));
}

/* Returns the program's n-th own frame in the stack of a site, from 0, the innermost; NULL: there is none. */
static const struct tide_frame *own_frame(const struct tide_history *h, const struct tide_history_site *site,
                                          size_t n)
{
    const struct tide_frame *frame = NULL;
    for (size_t depth = 0, i = 0; i <= n && (frame = tide_stack_own(h, site->stack, &depth)); i++)
        depth++;
    return frame;
}

const struct tide_frame *tide_culprit_caller(const struct tide_history *h, const struct tide_culprit *c)
{
    return own_frame(h, c->site, c->common);
}

/* True if two stacks without a frame of the program's own look the same, as far in as a person is shown: a
 * runtime maps its heap in one function, called from several places. */
static bool look_alike(const struct tide_history *h, const struct tide_culprit *a,
                       const struct tide_culprit *b)
{
    enum { SHOWN = 5 };
    const int32_t *left, *right;
    size_t left_count = tide_history_stack(h, a->site->stack, &left),
           right_count = tide_history_stack(h, b->site->stack, &right), n = 0;
    while (n < SHOWN && n < left_count && n < right_count) {
        const struct tide_frame *l = &h->frames[left[n]], *r = &h->frames[right[n]];
        if (!l->function[0] || strcmp(l->function, r->function) || strcmp(l->module, r->module) ||
            strcmp(l->file, r->file) || l->line != r->line)
            return false;
        n++;
    }
    return n > 0 && (n == SHOWN || left_count == right_count);
}

static bool do_meet(const struct tide_blaming *g, const struct tide_culprit *a, const struct tide_culprit *b)
{
    const struct tide_history *h = g->h;
    const struct tide_frame *line = own_frame(h, a->site, 0), *other = own_frame(h, b->site, 0);
    if (!are_one(g, a->process, b->process) || a->site->kind != b->site->kind || a->bounded || b->bounded)
        return false;
    return line || other ? is_same_line(line, other) : look_alike(h, a, b);
}

/* Returns how many of the program's own frames, from the innermost, the stacks of two sites share. */
static size_t common_frames(const struct tide_history *h, const struct tide_culprit *a,
                            const struct tide_culprit *b, size_t most)
{
    size_t n = 0;
    const struct tide_frame *frame;
    while (n < most && (frame = own_frame(h, a->site, n)) && is_same_line(frame, own_frame(h, b->site, n)))
        n++;
    return n;
}

static void add_known(double *to, double more)
{
    if (isfinite(more))
        *to = isfinite(*to) ? *to + more : more;
}

/* Of some sites of a culprit the rate is known, and their share follows from it; of others only the share.
 * The rate of all is that of their share. */
static void scale_rate(struct tide_culprit *c, double share_of_rated)
{
    double more = c->share / share_of_rated;
    if (!(more > 1) || isinf(more))
        return;
    c->bytes_per_x *= more;
    c->blocks_per_x *= more;
    c->on.verdict.slope_low *= more;
    c->on.verdict.slope_high *= more;
}

static void add_culprit(struct tide_culprit *to, const struct tide_culprit *more)
{
    double all = to->bytes + more->bytes, rated = 0;
    add_known(&rated, to->bytes_per_x > 0 ? to->share : 0);
    add_known(&rated, more->bytes_per_x > 0 ? more->share : 0);
    if (isfinite(to->freed_share) && isfinite(more->freed_share) && all > 0)
        to->freed_share = (to->freed_share * to->bytes + more->freed_share * more->bytes) / all;
    if (more->bytes_per_x > 0) {
        bool first = !(to->bytes_per_x > 0);
        to->on.verdict.slope_low = more->on.verdict.slope_low + (first ? 0 : to->on.verdict.slope_low);
        to->on.verdict.slope_high = more->on.verdict.slope_high + (first ? 0 : to->on.verdict.slope_high);
    }
    add_known(&to->bytes_per_x, more->bytes_per_x);
    add_known(&to->blocks_per_x, more->blocks_per_x);
    add_known(&to->share, more->share);
    to->share = isfinite(to->share) ? fmin(to->share, 1) : to->share;
    scale_rate(to, rated);
    to->bytes = all;
    to->blocks += more->blocks;
    to->live_bytes += more->live_bytes;
    to->samples += more->samples;
    to->factor = NAN;
}

/* Names the processes of sites that are one culprit, if they are several. */
static void name_processes(const struct tide_history *h, struct tide_culprit *met, size_t count)
{
    size_t processes = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (met[k].process != met[i].process)
            k++;
        processes += k == i;
    }
    for (size_t i = 0; i < count && processes > 1; i++)
        snprintf(met[i].process_name, sizeof met[i].process_name, "%zu x %s", processes,
                 TIDE_SHOWN(h->processes[met[i].process - 1].row.role, 48));
}

/* Moves the sites that meet in a culprit's line out of the list and into `met`, the culprit first. */
static size_t take_met(struct tide_blaming *g, size_t at, struct tide_culprit *met)
{
    struct tide_blame *b = g->b;
    size_t count = 0, kept = at + 1, common = SIZE_MAX;
    for (size_t i = at; i < b->count; i++) {
        struct tide_culprit *c = &b->culprits[i];
        if (i > at && !do_meet(g, &met[0], c)) {
            b->culprits[kept++] = *c;
            continue;
        }
        met[count++] = *c;
        common = common_frames(g->h, &met[0], c, common);
    }
    b->count = kept;
    for (size_t k = 0; k < count; k++)
        met[k].common = common;
    name_processes(g->h, met, count);
    return count;
}

/* Joins those of `met` that were called by the same line. */
static size_t join_callers(const struct tide_history *h, struct tide_culprit *met, size_t count)
{
    size_t callers = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < callers && !is_same_line(tide_culprit_caller(h, &met[k]), tide_culprit_caller(h, &met[i])))
            k++;
        if (k == callers)
            met[callers++] = met[i];
        else
            add_culprit(&met[k], &met[i]);
    }
    return callers;
}

static bool is_met(const struct tide_blaming *g, size_t at)
{
    for (size_t i = at + 1; i < g->b->count; i++)
        if (do_meet(g, &g->b->culprits[at], &g->b->culprits[i]))
            return true;
    return false;
}

int tide_blaming_join(struct tide_blaming *g)
{
    struct tide_blame *b = g->b;
    for (size_t at = 0; at < b->count; at++) {
        if (!is_met(g, at))
            continue;
        struct tide_culprit *callers = tide_arena_take(&b->arena, b->count - at, sizeof *callers);
        if (!callers)
            return tide_err_set(g->err, "not enough memory for %zu culprits", b->count);
        size_t count = join_callers(g->h, callers, take_met(g, at, callers));
        struct tide_culprit all = callers[0];
        for (size_t k = 1; k < count; k++)
            add_culprit(&all, &callers[k]);
        put_in_order(g, callers, count);
        while (count > 1 && callers[count - 1].share < TIDE_BLAME_LEAST_SHARE)
            count--;
        if (count > 1) {
            all.callers = callers;
            all.caller_count = count;
        }
        b->culprits[at] = all;
    }
    put_in_order(g, b->culprits, b->count);
    return 0;
}
