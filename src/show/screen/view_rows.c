/*
 * view_rows.c - the rows of the process table: which are shown, their parents, folding and order.
 *
 * Processes with the same parent and the same role are one foldable row, folded at first. A parent must have
 * a smaller id than its child; otherwise the child counts as a root. So a recording with a cycle cannot hang
 * the view.
 */
#include "show/screen/view_model.h"
#include "base/grow.h"
#include "base/map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROLE_BIT (UINT64_C(1) << 63)

enum {
    GPU_LOOK_BACK = 4096, /* most GPU samples before the cursor to read */
    GPU_DEVICES = 64,
    ROWS_MOST = 1 << 28,
    LARGE_PART = 100, /* a process is large if its peak was at least 1/100 of the tree's */
};

static const struct tide_history_process *process_of(const struct tide_model *model, int64_t id)
{
    return &model->history->processes[id - 1];
}

static const char *role_of(const struct tide_history_process *process)
{
    return process->row.role[0] ? process->row.role : process->row.name;
}

static int64_t parent_of(const struct tide_model *model, int64_t id)
{
    int64_t parent = process_of(model, id)->row.parent;
    return parent > 0 && parent < id ? parent : 0;
}

/* Updates the peak: the highest point so far, or the kernel's number, which may be higher. */
static void find_peak(struct tide_row_moment *moment, const struct tide_history_process *process)
{
    if (process->point_count < moment->peak_points) /* the history was thinned */
        moment->peak_points = 0;
    for (; moment->peak_points < process->point_count; moment->peak_points++)
        if (process->points[moment->peak_points].rss_bytes > moment->peak)
            moment->peak = process->points[moment->peak_points].rss_bytes;
    if (process->row.peak_rss_bytes > moment->peak)
        moment->peak = process->row.peak_rss_bytes;
}

static void find_moment(struct tide_row_moment *moment, const struct tide_history_process *process,
                        int64_t t_ns)
{
    moment->rss = moment->pss = moment->uss = moment->gpu = moment->threads = TIDE_UNKNOWN;
    moment->begun = process->row.began_ns <= t_ns;
    moment->alive = tide_history_lives(process, t_ns);
    find_peak(moment, process);
    if (!moment->alive)
        return;
    const struct tide_history_point *point = tide_history_point_at(process, t_ns);
    if (point) {
        moment->rss = point->rss_bytes;
        moment->threads = point->threads;
    }
    size_t read = TIDE_UNTIL(process->smaps, process->smaps_count, t_ns);
    if (read) {
        moment->pss = process->smaps[read - 1].pss_bytes;
        moment->uss = process->smaps[read - 1].uss_bytes;
    }
}

/* Adds untrusted numbers; saturates at the largest. */
static void add(int64_t *sum, int64_t bytes)
{
    if (bytes >= 0 && __builtin_add_overflow(*sum < 0 ? 0 : *sum, bytes, sum))
        *sum = INT64_MAX;
}

/* Adds the newest GPU sample of each process and device at or before the cursor. */
static void add_gpu(struct tide_model *model)
{
    const struct tide_history *history = model->history;
    size_t at = TIDE_UNTIL(history->gpu, history->gpu_count, model->cursor_ns);
    struct tide_map seen;
    tide_map_init(&seen, GPU_LOOK_BACK);
    for (int looked = 0; at-- > 0 && looked < GPU_LOOK_BACK; looked++) {
        const struct tide_history_gpu *gpu = &history->gpu[at];
        uint64_t key = (uint64_t)gpu->process * GPU_DEVICES + (uint64_t)gpu->device % GPU_DEVICES, old;
        if (gpu->process <= 0 || (size_t)gpu->process > history->process_count ||
            tide_map_get(&seen, key, &old))
            continue;
        if (tide_map_put(&seen, key, 1))
            break;
        if (model->moments[gpu->process - 1].alive)
            add(&model->moments[gpu->process - 1].gpu, gpu->bytes);
    }
    tide_map_release(&seen);
}

static int fill_moments(struct tide_model *model)
{
    size_t count = model->history->process_count, known = model->moment_capacity;
    if (TIDE_GROW(model->moments, model->moment_capacity, count, ROWS_MOST) ||
        TIDE_GROW(model->members, model->member_capacity, count, ROWS_MOST))
        return -1;
    for (; known < model->moment_capacity; known++)
        model->moments[known] = (struct tide_row_moment){.peak = TIDE_UNKNOWN};
    for (size_t i = 0; i < count; i++)
        find_moment(&model->moments[i], &model->history->processes[i], model->cursor_ns);
    add_gpu(model);
    return 0;
}

/* Process ids are keys themselves; roles have the top bit set; the tree is 0. */
static uint64_t role_key(const struct tide_model *model, int64_t id)
{
    const char *role = role_of(process_of(model, id));
    return tide_map_key(TIDE_MAP_SEED ^ (uint64_t)parent_of(model, id), role, strlen(role)) | ROLE_BIT;
}

static bool same_group(const struct tide_model *model, int64_t a, int64_t b)
{
    return parent_of(model, a) == parent_of(model, b) &&
           !strcmp(role_of(process_of(model, a)), role_of(process_of(model, b)));
}

static int compare_members(const void *left, const void *right, void *context)
{
    const struct tide_model *model = context;
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    int64_t pa = parent_of(model, a), pb = parent_of(model, b);
    if (pa != pb)
        return pa < pb ? -1 : 1;
    int role = strcmp(role_of(process_of(model, a)), role_of(process_of(model, b)));
    return role ? role : a < b ? -1 : a > b;
}

/* True if a process is shown. By default the many small helpers that have ended are hidden. */
static bool visible(const struct tide_model *model, int64_t id)
{
    const struct tide_row_moment *moment = &model->moments[id - 1];
    if (!moment->begun || moment->alive)
        return moment->begun;
    if (model->ended != TIDE_ENDED_LARGE)
        return model->ended == TIDE_ENDED_ALL;
    return moment->peak >= 0 && moment->peak >= model->peak_bytes / LARGE_PART;
}

/* Collects the ids of visible processes, those of a group adjacent. Returns how many. */
static size_t collect(struct tide_model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->history->process_count; i++)
        if (visible(model, (int64_t)i + 1))
            model->members[count++] = (int64_t)i + 1;
    if (count > 1)
        qsort_r(model->members, count, sizeof *model->members, compare_members, model);
    return count;
}

static size_t group_end(const struct tide_model *model, size_t begin, size_t end)
{
    size_t to = begin + 1;
    while (to < end && same_group(model, model->members[begin], model->members[to]))
        to++;
    return to;
}

/* Returns begin and end of the members whose parent is `parent`. */
static void kids_of(const struct tide_model *model, size_t count, int64_t parent, size_t *ret_begin,
                    size_t *ret_end)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (parent_of(model, model->members[middle]) < parent)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_begin = low;
    while (low < count && parent_of(model, model->members[low]) == parent)
        low++;
    *ret_end = low;
}

/* Returns the worst judged series of a row; NULL: none was judged. */
static const struct tide_judged *judged_of(const struct tide_model *model, const struct tide_row *row)
{
    static const enum tide_subject subjects[] = {[TIDE_ROW_TREE] = TIDE_SUBJECT_TREE,
                                                 [TIDE_ROW_ROLE] = TIDE_SUBJECT_ROLE,
                                                 [TIDE_ROW_PROCESS] = TIDE_SUBJECT_PROCESS};
    for (size_t i = 0; model->assessment && i < model->assessment->count; i++) {
        const struct tide_judged *j = &model->assessment->judged[i];
        if (j->subject == subjects[row->kind] &&
            (row->kind != TIDE_ROW_PROCESS || j->process == row->process) &&
            (row->kind != TIDE_ROW_ROLE ||
             !strcmp(j->role ? j->role : "", role_of(process_of(model, row->process)))))
            return j;
    }
    return NULL;
}

static bool toggled(const struct tide_model *model, uint64_t key)
{
    uint64_t value;
    return tide_map_get(&model->toggled, key, &value);
}

/* Adds up the members of a row at the cursor. PSS counts only if known for all. The peak of a role is not the
 * sum of its members' peaks: it is found with the sparkline. */
static void sum_members(struct tide_model *model, struct tide_row *row)
{
    size_t pss_known = 0;
    for (size_t i = 0; i < row->members; i++) {
        int64_t id = model->members[row->first + i];
        const struct tide_row_moment *moment = &model->moments[id - 1];
        row->alive += moment->alive;
        add(&row->rss, moment->rss);
        add(&row->pss, moment->pss);
        add(&row->uss, moment->uss);
        add(&row->gpu, moment->gpu);
        add(&row->threads, moment->threads);
        pss_known += moment->pss >= 0;
        if (row->kind == TIDE_ROW_PROCESS)
            row->peak = moment->peak;
    }
    if (pss_known < row->alive)
        row->pss = row->uss = TIDE_UNKNOWN;
}

/* The tree's row has all members and no process. */
static struct tide_row *add_row(struct tide_model *model, enum tide_row_kind kind, size_t first,
                                size_t members, int depth)
{
    if (TIDE_GROW(model->rows, model->row_capacity, model->row_count + 1, ROWS_MOST))
        return NULL;
    struct tide_row *row = &model->rows[model->row_count++];
    *row = (struct tide_row){.kind = kind, .depth = depth, .first = first, .members = members};
    row->rss = row->peak = row->pss = row->uss = row->threads = row->gpu = TIDE_UNKNOWN;
    row->process = kind == TIDE_ROW_TREE ? 0 : model->members[first];
    row->key = kind == TIDE_ROW_ROLE ? role_key(model, row->process) : (uint64_t)row->process;
    if (kind == TIDE_ROW_ROLE) {
        row->foldable = true;
        row->folded = !toggled(model, row->key);
    }
    sum_members(model, row);
    row->judged = judged_of(model, row);
    return row;
}

static void find_tree_peak(struct tide_model *model)
{
    const struct tide_history *history = model->history;
    if (model->peak_ticks > history->tick_count) /* the history was thinned: indices have changed */
        model->peak_ticks = 0;
    for (; model->peak_ticks < history->tick_count; model->peak_ticks++)
        if (history->ticks[model->peak_ticks].rss_bytes > model->peak_bytes)
            model->peak_bytes = history->ticks[model->peak_ticks].rss_bytes;
}

/* Adds the first row: the whole tree, shared pages counted once as far as known. */
static int add_tree(struct tide_model *model, size_t count)
{
    const struct tide_history *history = model->history;
    struct tide_row *row = add_row(model, TIDE_ROW_TREE, 0, count, 0);
    if (!row)
        return -1;
    row->pss = row->uss = TIDE_UNKNOWN;
    size_t seen = TIDE_UNTIL(history->ticks, history->tick_count, model->cursor_ns);
    if (seen) {
        const struct tide_tick *tick = &history->ticks[seen - 1];
        row->rss = tick->rss_bytes;
        row->pss = tick->pss_known_bytes > 0 ? tick->counted_bytes : TIDE_UNKNOWN;
    }
    row->peak = model->peak_bytes;
    return 0;
}

/* A range of members still to be shown. */
struct pending {
    size_t begin, end;
    int depth;
    bool apart; /* each on its own row: members of an unfolded role */
};

struct walk {
    struct pending *stack;
    size_t count, capacity;
};

static int push(struct walk *walk, size_t begin, size_t end, int depth, bool apart)
{
    if (begin == end)
        return 0;
    if (TIDE_GROW(walk->stack, walk->capacity, walk->count + 1, ROWS_MOST))
        return -1;
    walk->stack[walk->count++] = (struct pending){begin, end, depth, apart};
    return 0;
}

/* Adds the row of the first group in the topmost range and pushes its children. */
static int visit(struct tide_model *model, struct walk *walk, size_t count)
{
    struct pending *top = &walk->stack[walk->count - 1];
    size_t begin = top->begin;
    size_t end = top->apart ? begin + 1 : group_end(model, begin, top->end);
    int depth = top->depth;
    top->begin = end;
    if (top->begin == top->end)
        walk->count--;
    bool role = end - begin > 1;
    struct tide_row *row = add_row(model, role ? TIDE_ROW_ROLE : TIDE_ROW_PROCESS, begin, end - begin, depth);
    if (!row)
        return -1;
    if (role)
        return row->folded ? 0 : push(walk, begin, end, depth + 1, true);
    size_t kid, kid_end;
    kids_of(model, count, row->process, &kid, &kid_end);
    row->foldable = kid < kid_end;
    row->folded = row->foldable && toggled(model, row->key);
    return row->folded ? 0 : push(walk, kid, kid_end, depth + 1, false);
}

static int build_tree(struct tide_model *model, size_t count)
{
    struct walk walk = {0};
    size_t begin, end;
    kids_of(model, count, 0, &begin, &end);
    int bad = push(&walk, begin, end, 0, false);
    /* A process whose parent is hidden must not vanish with it. */
    for (size_t i = 0; !bad && i < count; i = group_end(model, i, count)) {
        int64_t parent = parent_of(model, model->members[i]);
        if (parent && !visible(model, parent))
            bad = push(&walk, i, group_end(model, i, count), 0, false);
    }
    while (!bad && walk.count > 0)
        bad = visit(model, &walk, count);
    free(walk.stack);
    return bad;
}

double tide_row_growth(const struct tide_row *row)
{
    if (!row->judged || !tide_verdict_grows(&row->judged->verdict) || !isfinite(row->judged->verdict.slope))
        return 0;
    return row->judged->verdict.slope;
}

/* Members of an unfolded role stay below it. */
static int compare_rows(const void *left, const void *right, void *context)
{
    const struct tide_model *model = context;
    const struct tide_row *a = left, *b = right;
    double ga = tide_row_growth(a), gb = tide_row_growth(b);
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->depth != b->depth)
        return a->depth - b->depth;
    if (model->sort == TIDE_SORT_GROWTH && ga != gb)
        return ga > gb ? -1 : 1;
    if (a->rss != b->rss)
        return a->rss > b->rss ? -1 : 1;
    return a->process < b->process ? -1 : a->process > b->process;
}

static void sort_rows(struct tide_model *model, size_t first)
{
    if (model->row_count > first)
        qsort_r(model->rows + first, model->row_count - first, sizeof *model->rows, compare_rows, model);
}

/* Adds every group as one row, the largest first, with the members of unfolded ones below them. */
static int build_flat(struct tide_model *model, size_t count)
{
    size_t first = model->row_count;
    for (size_t i = 0, end; i < count; i = end) {
        end = group_end(model, i, count);
        if (!add_row(model, end - i > 1 ? TIDE_ROW_ROLE : TIDE_ROW_PROCESS, i, end - i, 0))
            return -1;
    }
    sort_rows(model, first);
    size_t groups = model->row_count;
    for (size_t g = first; g < groups; g++) {
        struct tide_row group = model->rows[g];
        model->rows[g].group = g;
        for (size_t i = 0; group.foldable && !group.folded && i < group.members; i++) {
            struct tide_row *row = add_row(model, TIDE_ROW_PROCESS, group.first + i, 1, 1);
            if (!row)
                return -1;
            row->group = g;
        }
    }
    sort_rows(model, first);
    return 0;
}

int tide_rows_build(struct tide_model *model)
{
    model->row_count = 0;
    if (fill_moments(model))
        return -1;
    find_tree_peak(model);
    size_t count = collect(model);
    int bad = add_tree(model, count);
    if (!bad)
        bad = model->sort == TIDE_SORT_TREE ? build_tree(model, count) : build_flat(model, count);
    if (bad)
        model->row_count = 0;
    return bad;
}
