#include "show/report/page_series.h"
#include "assess/bins.h"
#include "assess/downsample.h"
#include "base/units.h"
#include "judge/floor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    POINTS_FIRST = 6000, /* for the tree and the worst series */
    POINTS_OTHER = 1200,
    SPIKES_MOST = 120,
};

/* A process with more than this share of the tree's peak is not drawn: its line would cover the tree's. */
#define TELLS_APART 0.9

static int no_memory(struct tide_err *err)
{
    return tide_err_set(err, "not enough memory to draw the recording");
}

int64_t tide_report_time(const struct tide_summary *summary, double x)
{
    if (!isfinite(x))
        return TIDE_UNKNOWN;
    return summary->axis.is_steps ? tide_axis_time(&summary->axis, x) : (int64_t)(x * 1e9);
}

void tide_report_curve_thin(struct tide_report_curve *line, size_t most)
{
    if (line->count <= most || most < 3)
        return;
    int64_t span = line->points[line->count - 1].t_ns - line->points[0].t_ns;
    int64_t cells = (int64_t)most / 3; /* up to three points of each cell stay */
    static const struct tide_layout points = TIDE_LAYOUT(struct tide_report_point, bytes, NULL);
    line->count = tide_thin(line->points, line->count, span / cells + 1, &points);
}

/* Thins a line in scratch memory and copies it to the arena. */
static int keep(struct tide_arena *arena, struct tide_report_curve *line, size_t most)
{
    tide_report_curve_thin(line, most);
    struct tide_report_point *kept = tide_arena_take(arena, line->count + 1, sizeof *kept);
    if (!kept)
        return -1;
    memcpy(kept, line->points, line->count * sizeof *kept);
    line->points = kept;
    return 0;
}

/* --- where they come from ---------------------------------------------------------------------------- */

struct drawing {
    const struct tide_summary *summary;
    size_t thrift;
    struct tide_arena *arena, scratch;
    struct tide_err *err;
};

/* Appends a point; if the line has no array, only counts it. */
static void add(struct tide_report_curve *line, int64_t t_ns, int64_t bytes)
{
    const int64_t most = TIDE_EXACT_MOST; /* larger values are nonsense */
    bytes = bytes > most ? most : bytes < -most ? -most : bytes;
    if (line->points)
        line->points[line->count] = (struct tide_report_point){t_ns > 0 ? t_ns : 0, bytes};
    line->count++;
}

static void take_process(const struct tide_history_process *p, bool own_pages, struct tide_report_curve *line)
{
    for (size_t i = 0; own_pages && i < p->smaps_count; i++)
        add(line, p->smaps[i].t_ns, p->smaps[i].uss_bytes);
    for (size_t i = 0; !own_pages && i < p->point_count; i++)
        add(line, p->points[i].t_ns, p->points[i].private_bytes);
}

/* Takes the recorded points of a series. If there are none, the series is drawn as it was judged. */
static void take_points(const struct tide_history *h, const struct tide_judged *j,
                        struct tide_report_curve *line)
{
    if (j->subject == TIDE_SUBJECT_TREE)
        for (size_t i = 0; i < h->tick_count; i++)
            if (h->ticks[i].processes > 0)
                add(line, h->ticks[i].t_ns, h->ticks[i].counted_bytes);
    if (j->subject == TIDE_SUBJECT_PROCESS)
        take_process(&h->processes[j->process - 1], j->own_pages, line);
    if (j->subject == TIDE_SUBJECT_GPU)
        for (size_t i = 0; i < h->gpu_count; i++)
            if (h->gpu[i].device == j->device && h->gpu[i].process == j->process)
                add(line, h->gpu[i].t_ns, h->gpu[i].bytes);
    if (j->subject == TIDE_SUBJECT_GAUGE)
        for (size_t i = 0; i < h->mark_count; i++)
            if (h->marks[i].kind == TIDE_MARK_GAUGE && h->marks[i].name == j->gauge)
                add(line, h->marks[i].t_ns, h->marks[i].number);
}

/* Takes a series as it was judged. The sum of a role has no points where no member was alive: there it is 0.
 */
static void take_judged(const struct drawing *d, const struct tide_judged *j, struct tide_report_curve *line)
{
    const struct tide_history *h = d->summary->history;
    int64_t until = INT64_MIN; /* when the last of those that began by now ends */
    size_t next = 0;
    for (size_t i = 0; i < j->count; i++) {
        int64_t t_ns = tide_report_time(d->summary, j->x[i]);
        if (i && until < t_ns && until > line->points[line->count - 1].t_ns)
            add(line, until, 0);
        add(line, t_ns, (int64_t)j->bytes[i]);
        for (; next < h->process_count && h->processes[next].row.began_ns <= t_ns; next++) {
            const struct tide_process *p = &h->processes[next].row;
            int64_t ended_ns = p->ended_ns == TIDE_UNKNOWN ? d->summary->last_ns : p->ended_ns;
            if (j->role && !strcmp(p->role, j->role) && ended_ns > until)
                until = ended_ns;
        }
    }
    if (line->count && until < d->summary->last_ns && until > line->points[line->count - 1].t_ns)
        add(line, until, 0);
}

static int take_level(struct drawing *d, struct tide_report_series *s, size_t most, bool *shortened)
{
    const struct tide_judged *j = s->judged;
    const struct tide_history *h = d->summary->history;
    struct tide_report_curve own = {NULL, 0};
    take_points(h, j, &own);
    struct tide_report_curve line = {
        tide_arena_take(&d->scratch, (own.count ? own.count : 2 * j->count) + 1, sizeof *line.points), 0};
    if (!line.points)
        return no_memory(d->err);
    take_points(h, j, &line);
    if (!own.count)
        take_judged(d, j, &line);
    s->end_ns = d->summary->last_ns;
    if (j->subject == TIDE_SUBJECT_PROCESS && h->processes[j->process - 1].row.ended_ns != TIDE_UNKNOWN)
        s->end_ns = h->processes[j->process - 1].row.ended_ns;
    *shortened = *shortened || line.count > most;
    if (keep(d->arena, &line, most))
        return no_memory(d->err);
    s->level = line;
    return 0;
}

/* --- floor and spikes -------------------------------------------------------------------------------- */

/* Takes the bytes that the program holds, if the hook recorded them. */
static int take_live(struct drawing *d, struct tide_report_series *s)
{
    const struct tide_history *h = d->summary->history;
    const struct tide_history_process *p =
        s->judged->subject == TIDE_SUBJECT_PROCESS ? &h->processes[s->judged->process - 1] : NULL;
    if (!p || p->heap_count == 0)
        return 0;
    struct tide_report_curve line = {tide_arena_take(&d->scratch, p->heap_count, sizeof *line.points), 0};
    if (!line.points)
        return no_memory(d->err);
    for (size_t i = 0; i < p->heap_count; i++)
        add(&line, p->heap[i].t_ns, p->heap[i].live_bytes);
    if (keep(d->arena, &line, POINTS_OTHER / d->thrift))
        return no_memory(d->err);
    s->live = line;
    return 0;
}

static int take_floor(struct drawing *d, struct tide_report_series *s)
{
    const struct tide_judged *j = s->judged;
    struct tide_judge_input input = {
        .x = j->x, .bytes = j->bytes, .count = j->count, .x_is_steps = j->x_is_steps};
    struct tide_moments moments;
    struct tide_floor floor;
    if (j->count == 0)
        return 0;
    if (tide_moments_make(&input, &d->scratch, &moments, d->err) ||
        tide_floor_make(&moments, &d->scratch, &floor, d->err))
        return -1;
    struct tide_report_curve line = {tide_arena_take(d->arena, floor.count + 2, sizeof *line.points), 0};
    if (!line.points)
        return no_memory(d->err);
    for (size_t i = 0; i < floor.count; i++) {
        int64_t t_ns = tide_report_time(d->summary, floor.x[i]);
        if (floor.kept[i] && (line.count == 0 || t_ns > line.points[line.count - 1].t_ns))
            add(&line, t_ns, (int64_t)floor.bytes[i]);
    }
    /* The last window's lowest point is somewhere inside it. Extends the floor to the end of the fit. */
    int64_t end_ns = tide_report_time(d->summary, j->verdict.x_last);
    if (line.count && isfinite(j->verdict.floor_last) && end_ns > line.points[line.count - 1].t_ns)
        add(&line, end_ns, (int64_t)fmin(j->verdict.floor_last, (double)TIDE_EXACT_MOST));
    s->floor = line;
    return 0;
}

/* Returns the floor at a time, interpolated between its points, level beyond; *at must not be past t_ns. */
static double floor_at(const struct tide_report_curve *floor, int64_t t_ns, size_t *at)
{
    const struct tide_report_point *p = floor->points;
    while (*at + 1 < floor->count && p[*at + 1].t_ns <= t_ns)
        ++*at;
    if (t_ns <= p[*at].t_ns || *at + 1 == floor->count)
        return (double)p[*at].bytes;
    double share = (double)(t_ns - p[*at].t_ns) / (double)(p[*at + 1].t_ns - p[*at].t_ns);
    return (double)p[*at].bytes + share * (double)(p[*at + 1].bytes - p[*at].bytes);
}

struct spike {
    struct tide_report_point top;
    double height;
};

static int taller_first(const void *a, const void *b)
{
    const struct spike *left = a, *right = b;
    return (left->height < right->height) - (left->height > right->height);
}

static int earlier_first(const void *a, const void *b)
{
    const struct spike *left = a, *right = b;
    return (left->top.t_ns > right->top.t_ns) - (left->top.t_ns < right->top.t_ns);
}

/* Finds the tops of what rises above the floor by more than half the typical height of the judged spikes; the
 * tallest, at most as many as were judged. */
static int take_spikes(struct drawing *d, struct tide_report_series *s)
{
    const struct tide_verdict *v = &s->judged->verdict;
    size_t want = v->spikes.count < SPIKES_MOST ? v->spikes.count : SPIKES_MOST, found = 0, at = 0;
    if (want == 0 || s->floor.count == 0)
        return 0;
    struct spike *spikes = tide_arena_take(&d->scratch, s->level.count + 1, sizeof *spikes);
    s->spikes.points = tide_arena_take(d->arena, want, sizeof *s->spikes.points);
    if (!spikes || !s->spikes.points)
        return no_memory(d->err);
    int64_t start_ns = tide_report_time(d->summary, v->start_x);
    int64_t end_ns = d->summary->axis.is_steps ? d->summary->axis.end_ns : INT64_MAX;
    bool inside = false;
    for (size_t i = 0; i < s->level.count; i++) {
        struct tide_report_point p = s->level.points[i];
        double height = (double)p.bytes - floor_at(&s->floor, p.t_ns, &at);
        bool above = p.t_ns >= start_ns && p.t_ns <= end_ns && height > v->spikes.typical_bytes / 2;
        if (above && (!inside || height > spikes[found - 1].height))
            spikes[inside ? found - 1 : found++] = (struct spike){p, height};
        inside = above;
    }
    qsort(spikes, found, sizeof *spikes, taller_first);
    found = found < want ? found : want;
    qsort(spikes, found, sizeof *spikes, earlier_first);
    for (size_t i = 0; i < found; i++)
        s->spikes.points[s->spikes.count++] = spikes[i].top;
    return 0;
}

/* --- the whole --------------------------------------------------------------------------------------- */

static int take_series(struct drawing *d, const struct tide_judged *j, struct tide_report_set *set)
{
    struct tide_report_series *s = &set->series[set->count];
    *s = (struct tide_report_series){.judged = j};
    struct tide_arena_mark mark = tide_arena_mark(&d->scratch);
    size_t most = (set->count < 2 ? POINTS_FIRST : POINTS_OTHER) / d->thrift;
    int bad =
        take_level(d, s, most, &set->shortened) || take_live(d, s) || take_floor(d, s) || take_spikes(d, s);
    tide_arena_rewind(&d->scratch, mark);
    set->count++;
    return bad ? -1 : 0;
}

double tide_report_curve_most(const struct tide_report_curve *line)
{
    double most = 0;
    for (size_t i = 0; i < line->count; i++)
        most = fmax(most, (double)line->points[i].bytes);
    return most;
}

static void choose_beside(struct tide_report_set *set)
{
    for (size_t i = 1; i < set->count && !set->beside; i++) {
        enum tide_subject subject = set->series[i].judged->subject;
        if (subject == TIDE_SUBJECT_PROCESS || subject == TIDE_SUBJECT_ROLE)
            set->beside = i;
    }
    const struct tide_report_series *tree = &set->series[0], *other = &set->series[set->beside];
    set->beside_level = set->beside && tide_report_curve_most(&other->level) <
                                           TELLS_APART * tide_report_curve_most(&tree->level);
}

int tide_report_series_make(const struct tide_summary *summary, const struct tide_assessment *a,
                            size_t thrift, struct tide_arena *arena, struct tide_report_set *ret_set,
                            struct tide_err *err)
{
    struct tide_report_set set = {.series =
                                      tide_arena_take(arena, TIDE_REPORT_SERIES_MOST, sizeof *set.series)};
    if (!set.series)
        return no_memory(err);
    struct drawing d = {.summary = summary, .thrift = thrift, .arena = arena, .err = err};
    tide_arena_init(&d.scratch, (size_t)1 << 30);
    int bad = 0;
    for (int tree = 1; tree >= 0 && !bad; tree--)
        for (size_t i = 0; i < a->count && !bad; i++) {
            if ((a->judged[i].subject == TIDE_SUBJECT_TREE) != (tree == 1))
                continue;
            if (set.count == TIDE_REPORT_SERIES_MOST)
                set.left_out++;
            else
                bad = take_series(&d, &a->judged[i], &set);
        }
    tide_arena_release(&d.scratch);
    if (bad)
        return -1;
    choose_beside(&set);
    *ret_set = set;
    return 0;
}

int tide_report_site_curve(const struct tide_history_site *site, struct tide_arena *arena,
                           struct tide_report_curve *ret_line)
{
    struct tide_report_curve line = {tide_arena_take(arena, site->point_count + 1, sizeof *line.points), 0};
    if (!line.points)
        return -1;
    for (size_t i = 0; i < site->point_count; i++)
        add(&line, site->points[i].t_ns, site->points[i].live_bytes > 0 ? site->points[i].live_bytes : 0);
    *ret_line = line;
    return 0;
}

const struct tide_report_series *tide_report_series_find(const struct tide_report_set *set, int64_t process)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->series[i].judged->subject == TIDE_SUBJECT_PROCESS &&
            set->series[i].judged->process == process && !set->series[i].judged->own_pages)
            return &set->series[i];
    return NULL;
}
