/*
 * summary.c - see summary.h. The tree is made row by row: the children of a row are sorted by role, and roles
 * with GROUP_AT members or more become one row.
 */
#include "assess/summary.h"
#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_AT = 4 };

/* --- processes ----------------------------------------------------------------------------------------- */

/* A row of the tree while it is built. */
struct node {
    const int64_t *members; /* ids */
    size_t count;
    int depth;
};

struct tree {
    const struct tide_history *history;
    int64_t *first_child, *next_sibling; /* by process id; 0: none. [0]: the roots */
    int64_t *ids;                        /* of the members of all nodes so far */
    size_t id_count;
    struct node *nodes; /* a stack: those whose rows are still to be made, the next one last */
    size_t node_count;
};

static int compare_roles(const void *a, const void *b, void *context)
{
    const struct tide_history *history = context;
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    int order = strcmp(history->processes[x - 1].row.role, history->processes[y - 1].row.role);

    return order ? order : (x > y) - (x < y);
}

static int last_first(const void *a, const void *b)
{
    const struct node *x = a, *y = b;

    return (x->members[0] < y->members[0]) - (x->members[0] > y->members[0]);
}

static void add_children(struct tree *tree, int64_t parent)
{
    for (int64_t id = tree->first_child[parent]; id; id = tree->next_sibling[id])
        tree->ids[tree->id_count++] = id;
}

/* Puts the ids from `first` on into nodes of that depth, the one with the first member on top. */
static void add_nodes(struct tree *tree, size_t first, int depth)
{
    const struct tide_history *history = tree->history;
    int64_t *children = tree->ids + first;
    size_t count = tree->id_count - first, begin = tree->node_count;

    qsort_r(children, count, sizeof *children, compare_roles, (void *)history);
    for (size_t i = 0, end; i < count; i = end) {
        const char *role = history->processes[children[i] - 1].row.role;
        for (end = i + 1; end < count && *role; end++)
            if (strcmp(role, history->processes[children[end] - 1].row.role) != 0)
                break;
        size_t step = end - i >= GROUP_AT ? end - i : 1;
        for (; i < end; i += step)
            tree->nodes[tree->node_count++] = (struct node){&children[i], step, depth};
    }
    qsort(tree->nodes + begin, tree->node_count - begin, sizeof *tree->nodes, last_first);
}

/* Adds a value if it is known. */
static void add_known(int64_t *sum, int64_t value)
{
    if (value != TIDE_UNKNOWN)
        *sum = tide_bounded_sum(*sum == TIDE_UNKNOWN ? 0 : *sum, value);
}

/* Finds when the members' RSS together was largest, and how much that was. */
static int peak_of_members(const struct tide_summary *summary, const struct node *node, int64_t *ret_t_ns,
                           int64_t *ret_bytes)
{
    const struct tide_history *history = summary->history;
    double *changes = calloc(history->tick_count + 1, sizeof *changes), sum = 0, most = TIDE_UNKNOWN;
    size_t from = history->tick_count, to = 0; /* looks at which something changed */

    if (!changes)
        return -1;
    for (size_t i = 0; i < node->count; i++) {
        const struct tide_history_process *process = &history->processes[node->members[i] - 1];
        bool ended = process->row.ended_ns != TIDE_UNKNOWN;
        double before = 0;
        for (size_t k = 0; k < process->point_count + ended; k++) {
            bool lives = k < process->point_count;
            size_t at =
                tide_history_tick_from(history, lives ? process->points[k].t_ns : process->row.ended_ns);
            double bytes = lives ? (double)process->points[k].rss_bytes : 0;
            changes[at] += bytes - before;
            before = bytes;
            from = at < from ? at : from;
            to = at < to ? to : at + 1;
        }
    }
    for (size_t i = from; i < to && i < history->tick_count; i++) {
        sum += changes[i];
        if (sum <= most)
            continue;
        most = sum;
        *ret_t_ns = history->ticks[i].t_ns;
    }
    free(changes);
    *ret_bytes = (int64_t)fmin(most, (double)TIDE_LARGEST);
    return 0;
}

/* Fills in the row of a node. */
static int fill_row(const struct tide_summary *summary, const struct node *node, struct tide_summary_row *row)
{
    const struct tide_history *history = summary->history;
    const struct tide_process *first = &history->processes[node->members[0] - 1].row;
    int64_t peak_ns = 0, end_ns = 0;

    *row = (struct tide_summary_row){.id = first->id,
                                     .pid = first->pid,
                                     .members = node->count,
                                     .depth = node->depth,
                                     .name = node->count > 1 ? first->role : first->name,
                                     .began_ns = first->began_ns,
                                     .ended_ns = first->ended_ns,
                                     .peak_bytes = first->peak_rss_bytes};
    row->first_bytes = row->last_bytes = row->pss_bytes = row->uss_bytes = row->lasted_ns = TIDE_UNKNOWN;
    if (node->count > 1 && peak_of_members(summary, node, &peak_ns, &row->peak_bytes) != 0)
        return -1;
    for (size_t i = 0; i < node->count; i++) {
        const struct tide_history_process *process = &history->processes[node->members[i] - 1];
        int64_t end = process->row.ended_ns == TIDE_UNKNOWN ? summary->last_ns : process->row.ended_ns;
        end_ns = end > end_ns ? end : end_ns;
        if (process->row.began_ns < row->began_ns)
            row->began_ns = process->row.began_ns;
        if (process->row.ended_ns == TIDE_UNKNOWN || row->ended_ns == TIDE_UNKNOWN)
            row->ended_ns = TIDE_UNKNOWN;
        else if (process->row.ended_ns > row->ended_ns)
            row->ended_ns = process->row.ended_ns;
        if (node->count > 1 && (process->row.began_ns > peak_ns || end < peak_ns))
            continue;
        if (process->point_count > 0) {
            add_known(&row->first_bytes, process->points[0].rss_bytes);
            add_known(&row->last_bytes, process->points[process->point_count - 1].rss_bytes);
        }
        if (process->smaps_count > 0) {
            add_known(&row->pss_bytes, process->smaps[process->smaps_count - 1].pss_bytes);
            add_known(&row->uss_bytes, process->smaps[process->smaps_count - 1].uss_bytes);
        }
    }
    if (row->began_ns != TIDE_UNKNOWN && end_ns >= row->began_ns)
        row->lasted_ns = end_ns - row->began_ns;
    return 0;
}

static int make_rows(struct tide_summary *summary, struct tide_arena *arena)
{
    size_t count = summary->history->process_count;
    struct tree tree = {.history = summary->history,
                        .first_child = tide_arena_take(arena, count + 1, sizeof *tree.first_child),
                        .next_sibling = tide_arena_take(arena, count + 1, sizeof *tree.next_sibling),
                        .ids = tide_arena_take(arena, count + 1, sizeof *tree.ids),
                        .nodes = tide_arena_take(arena, count + 1, sizeof *tree.nodes)};

    summary->rows = tide_arena_take(arena, count + 1, sizeof *summary->rows);
    if (!tree.first_child || !tree.next_sibling || !tree.ids || !tree.nodes || !summary->rows)
        return -1;
    for (size_t id = count; id >= 1; id--) {
        int64_t parent = summary->history->processes[id - 1].row.parent;
        tree.next_sibling[id] = tree.first_child[parent];
        tree.first_child[parent] = (int64_t)id;
    }
    add_children(&tree, 0);
    add_nodes(&tree, 0, 0);
    while (tree.node_count > 0) {
        struct node node = tree.nodes[--tree.node_count];
        size_t first = tree.id_count;
        if (fill_row(summary, &node, &summary->rows[summary->row_count++]) != 0)
            return -1;
        for (size_t i = 0; i < node.count; i++)
            add_children(&tree, node.members[i]);
        add_nodes(&tree, first, node.depth + 1);
    }
    return 0;
}

/* --- phases -------------------------------------------------------------------------------------------- */

/* Largest counted_bytes of any range of ticks, in logarithmic time: a complete binary tree over the ticks. */
struct levels {
    const struct tide_history *history;
    int64_t *largest; /* [1] of all; children of i are 2i and 2i + 1; leaves from `leaves` on */
    size_t leaves;
};

static int levels_make(const struct tide_history *history, struct tide_arena *arena, struct levels *ret)
{
    size_t leaves = history->tick_count ? history->tick_count : 1;
    int64_t *largest = tide_arena_take(arena, 2 * leaves, sizeof *largest);

    if (!largest)
        return -1;
    for (size_t i = 0; i < history->tick_count; i++)
        largest[leaves + i] = history->ticks[i].counted_bytes;
    for (size_t i = leaves - 1; i >= 1; i--)
        largest[i] = largest[2 * i] > largest[2 * i + 1] ? largest[2 * i] : largest[2 * i + 1];
    *ret = (struct levels){history, largest, leaves};
    return 0;
}

static int64_t levels_peak(const struct levels *levels, int64_t begin_ns, int64_t end_ns)
{
    size_t low = tide_history_tick_from(levels->history, begin_ns) + levels->leaves;
    size_t high = tide_history_tick_from(levels->history, end_ns + 1) + levels->leaves;
    int64_t peak = TIDE_UNKNOWN;

    for (; low < high; low /= 2, high /= 2) {
        if (low % 2) {
            peak = levels->largest[low] > peak ? levels->largest[low] : peak;
            low++;
        }
        if (high % 2) {
            high--;
            peak = levels->largest[high] > peak ? levels->largest[high] : peak;
        }
    }
    return peak;
}

static void add_phase(const struct levels *levels, struct tide_summary_phase *phase, int64_t begin_ns,
                      int64_t end_ns)
{
    int64_t lasted = end_ns - begin_ns, peak = levels_peak(levels, begin_ns, end_ns);
    size_t before = tide_history_tick_from(levels->history, begin_ns + 1);

    phase->total_ns += lasted;
    phase->longest_ns = lasted > phase->longest_ns ? lasted : phase->longest_ns;
    if (peak == TIDE_UNKNOWN)
        return;
    phase->peak_bytes = peak > phase->peak_bytes ? peak : phase->peak_bytes;
    if (before == 0 || levels->history->ticks[before - 1].counted_bytes == TIDE_UNKNOWN)
        return;
    int64_t rise = peak - levels->history->ticks[before - 1].counted_bytes;
    if (rise > phase->rise_bytes || phase->rise_bytes == TIDE_UNKNOWN)
        phase->rise_bytes = rise > 0 ? rise : 0;
}

static int make_phases(struct tide_summary *summary, struct tide_arena *arena)
{
    const struct tide_history *history = summary->history;
    struct tide_summary_phase *by_name = tide_arena_take(arena, history->name_count + 1, sizeof *by_name);
    struct levels levels;

    if (!by_name || tide_phases_find(history, arena, &summary->told) || levels_make(history, arena, &levels))
        return -1;
    for (size_t i = 0; i < history->name_count; i++)
        by_name[i] = (struct tide_summary_phase){
            .name = history->names[i], .peak_bytes = TIDE_UNKNOWN, .rise_bytes = TIDE_UNKNOWN};
    for (size_t i = 0; i < summary->told.count; i++) {
        const struct tide_phase *phase = &summary->told.all[i];
        int64_t last_ns = summary->last_ns > phase->from_ns ? summary->last_ns : phase->from_ns;
        by_name[phase->name].count++;
        by_name[phase->name].unfinished += !phase->ended;
        add_phase(&levels, &by_name[phase->name], phase->from_ns,
                  phase->to_ns == INT64_MAX ? last_ns : phase->to_ns);
    }
    summary->phases = by_name;
    for (size_t i = 0; i < history->name_count; i++)
        if (by_name[i].count > 0)
            summary->phases[summary->phase_count++] = by_name[i];
    return 0;
}

/* --- marks and peaks ----------------------------------------------------------------------------------- */

static void count_mark(struct tide_summary_count *count, const struct tide_history_mark *mark)
{
    if (count->count++ == 0) {
        count->first = mark->number;
        count->first_ns = mark->t_ns;
    }
    count->last = mark->number;
    count->last_ns = mark->t_ns;
}

static void add_gauge(struct tide_summary_gauge *gauge, int64_t value)
{
    if (gauge->count++ == 0)
        gauge->first = gauge->least = gauge->most = value;
    gauge->least = value < gauge->least ? value : gauge->least;
    gauge->most = value > gauge->most ? value : gauge->most;
    gauge->last = value;
}

static int make_marks(struct tide_summary *summary, struct tide_arena *arena)
{
    const struct tide_history *history = summary->history;
    struct tide_summary_gauge *gauges = tide_arena_take(arena, history->name_count + 1, sizeof *gauges);

    if (!gauges)
        return -1;
    for (size_t i = 0; i < history->mark_count; i++) {
        const struct tide_history_mark *mark = &history->marks[i];
        if (mark->kind == TIDE_MARK_STEP)
            count_mark(&summary->steps, mark);
        else if (mark->kind == TIDE_MARK_EPOCH)
            count_mark(&summary->epochs, mark);
        else if (mark->kind == TIDE_MARK_ITEMS)
            count_mark(&summary->items, mark);
        else if (mark->kind == TIDE_MARK_GAUGE && mark->name >= 0)
            add_gauge(&gauges[mark->name], mark->number);
    }
    summary->gauges = gauges;
    for (size_t i = 0; i < history->name_count; i++)
        if (gauges[i].count > 0) {
            struct tide_summary_gauge gauge = gauges[i];
            gauge.name = history->names[i];
            gauges[summary->gauge_count++] = gauge;
        }
    double spacing = summary->axis.seconds_per_step;
    summary->steps_per_s = summary->axis.is_steps && spacing > 0 ? 1 / spacing : NAN;
    return 0;
}

int64_t tide_summary_step(const struct tide_summary *summary, int64_t t_ns)
{
    double step = summary->axis.is_steps ? tide_axis_at(&summary->axis, t_ns) : NAN;
    return isfinite(step) && fabs(step) < 9e18 ? (int64_t)step : TIDE_UNKNOWN;
}

static void raise_peak(struct tide_summary_peak *peak, const struct tide_tick *tick, int64_t bytes)
{
    if (bytes > peak->bytes)
        *peak = (struct tide_summary_peak){.bytes = bytes,
                                           .t_ns = tick->t_ns,
                                           .processes = tick->processes,
                                           .rss_bytes = tick->rss_bytes,
                                           .pss_known_bytes = tick->pss_known_bytes};
}

static void place_peak(const struct tide_summary *summary, struct tide_summary_peak *peak)
{
    peak->step = TIDE_UNKNOWN;
    if (peak->bytes == TIDE_UNKNOWN)
        return;
    peak->step = tide_summary_step(summary, peak->t_ns);
    const struct tide_phase *phase = tide_phases_at(&summary->told, 0, peak->t_ns);
    peak->phase = phase ? summary->history->names[phase->name] : NULL;
}

static void make_peaks(struct tide_summary *summary)
{
    const struct tide_history *history = summary->history;

    summary->rss.bytes = summary->counted.bytes = summary->cgroup.bytes = TIDE_UNKNOWN;
    for (size_t i = 0; i < history->tick_count; i++) {
        const struct tide_tick *tick = &history->ticks[i];
        raise_peak(&summary->rss, tick, tick->rss_bytes);
        raise_peak(&summary->counted, tick, tick->counted_bytes);
        raise_peak(&summary->cgroup, tick, tick->cgroup_bytes);
    }
    place_peak(summary, &summary->rss);
    place_peak(summary, &summary->counted);
    place_peak(summary, &summary->cgroup);
}

int tide_summary_make(const struct tide_history *history, struct tide_arena *arena,
                      struct tide_summary *ret_summary, struct tide_err *err)
{
    struct tide_summary summary = {.history = history};

    if (tide_axis_make(history, arena, &summary.axis, err) != 0)
        return -1;
    if (history->tick_count > 0)
        summary.last_ns = history->ticks[history->tick_count - 1].t_ns;
    if (history->ended_ns > summary.last_ns)
        summary.last_ns = history->ended_ns;
    if (make_rows(&summary, arena) != 0 || make_phases(&summary, arena) != 0 ||
        make_marks(&summary, arena) != 0)
        return tide_err_set(err, "not enough memory to summarise the recording");
    make_peaks(&summary);
    *ret_summary = summary;
    return 0;
}

void tide_summary_ending(const struct tide_history *history, char *out, size_t size)
{
    if (tide_history_broke_off(history))
        snprintf(out, size, "no clean end, and nobody writes to it any more");
    else if (history->ended_ns == TIDE_UNKNOWN)
        snprintf(out, size, "no clean end: still running, or killed");
    else if (history->exit_status == TIDE_UNKNOWN)
        snprintf(out, size, "ended");
    else if (history->exit_signal > 0)
        snprintf(out, size, "killed by signal %lld", (long long)history->exit_signal);
    else if (history->exit_signal == TIDE_UNKNOWN && history->exit_status > 128 &&
             history->exit_status < 128 + 65) /* it was not recorded in early versions */
        snprintf(out, size, "killed by signal %d", (int)(history->exit_status - 128));
    else
        snprintf(out, size, "exit status %lld", (long long)history->exit_status);
}
