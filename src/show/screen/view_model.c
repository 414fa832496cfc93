#include "show/screen/view_model.h"
#include "assess/process_name.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MARKS_BYTES = 512 << 20,
    FOLDS_MAX = 1 << 20,
    ZOOM_MAX = 24,
    PLAY_SECONDS = 30, /* longer recordings play in about this time */
};

void tide_model_init(struct tide_model *model)
{
    *model =
        (struct tide_model){.following = true, .by_steps = true, .page_rows = 1, .peak_bytes = TIDE_UNKNOWN};
    tide_map_init(&model->toggled, FOLDS_MAX);
    tide_arena_init(&model->marks_arena, MARKS_BYTES);
}

void tide_model_release(struct tide_model *model)
{
    tide_map_release(&model->toggled);
    tide_arena_release(&model->marks_arena);
    free(model->rows);
    free(model->members);
    free(model->moments);
    free(model->sums);
    *model = (struct tide_model){0};
}

bool tide_model_steps_shown(const struct tide_model *model)
{
    return model->by_steps && model->axis.is_steps;
}

/* Finds steps, phases and epochs again if there are new marks. */
static int follow_marks(struct tide_model *model)
{
    const struct tide_history *history = model->history;
    struct tide_arena *arena = &model->marks_arena;
    size_t epochs = 0;
    bool same_ticks = model->axis.is_steps || history->tick_count == model->ticks;
    if (history->mark_count == model->marks && same_ticks)
        return 0;
    model->marks = history->mark_count;
    model->ticks = history->tick_count;
    tide_arena_release(arena);
    tide_arena_init(arena, MARKS_BYTES);
    model->axis = (struct tide_axis){.seconds_per_step = 1};
    model->phases = (struct tide_phases){0};
    model->epoch_count = 0;
    for (size_t i = 0; i < history->mark_count; i++)
        epochs += history->marks[i].kind == TIDE_MARK_EPOCH;
    model->epochs = tide_arena_take(arena, epochs + 1, sizeof *model->epochs);
    if (!model->epochs)
        return -1;
    for (size_t i = 0; i < history->mark_count; i++)
        if (history->marks[i].kind == TIDE_MARK_EPOCH)
            model->epochs[model->epoch_count++] = history->marks[i];
    return tide_axis_make(history, arena, &model->axis, NULL) |
           tide_phases_find(history, arena, &model->phases);
}

void tide_model_extent(const struct tide_model *model, double *ret_from, double *ret_to)
{
    if (tide_model_steps_shown(model)) {
        *ret_from = model->axis.step[0];
        *ret_to = model->axis.step[model->axis.count - 1];
        return;
    }
    *ret_from = 0;
    *ret_to = model->end_ns > 0 ? (double)model->end_ns / 1e9 : 1;
}

double tide_model_x(const struct tide_model *model, int64_t t_ns)
{
    if (!tide_model_steps_shown(model))
        return (double)t_ns / 1e9;
    return tide_axis_between(&model->axis, t_ns);
}

static int64_t time_at(const struct tide_model *model, double x)
{
    return tide_model_steps_shown(model) ? tide_axis_time(&model->axis, x) : (int64_t)(x * 1e9);
}

void tide_model_edges(const struct tide_model *model, double from, double to, size_t count,
                      int64_t *ret_edges)
{
    for (size_t i = 0; i <= count; i++)
        ret_edges[i] = time_at(model, from + (to - from) * (double)i / (double)count);
    double first, last;
    tide_model_extent(model, &first, &last);
    if (to >= last && ret_edges[count] < model->end_ns)
        ret_edges[count] = model->end_ns; /* the last column includes what came after the last step */
}

/* Places the window so that it contains the cursor; while following, it ends at the end. */
static void place_window(struct tide_model *model)
{
    double first, last;
    tide_model_extent(model, &first, &last);
    double span = (last - first) / (double)(1L << model->zoom);
    double cursor = tide_model_x(model, model->cursor_ns);
    double from = model->window_from;
    if (model->following || from + span > last)
        from = last - span;
    if (cursor < from)
        from = cursor;
    if (cursor > from + span)
        from = cursor - span;
    if (from < first)
        from = first;
    model->window_from = from;
    model->window_to = from + span;
}

static void keep_chosen(struct tide_model *model)
{
    size_t found = model->chosen < model->row_count ? model->chosen : 0;
    for (size_t i = 0; i < model->row_count; i++)
        if (model->rows[i].key == model->chosen_key) {
            found = i;
            break;
        }
    model->chosen = found;
    model->chosen_key = model->row_count ? model->rows[found].key : 0;
}

static int rebuild(struct tide_model *model)
{
    if (!model->history)
        return 0;
    if (model->following)
        model->cursor_ns = model->end_ns;
    place_window(model);
    int bad = tide_rows_build(model);
    keep_chosen(model);
    return bad;
}

/* Returns the time of the newest look that saw a process. The last look at a tree that has ended sees none,
 * and would make everything before it look like a spike. */
static int64_t last_moment(const struct tide_history *history)
{
    size_t count = history->tick_count;
    while (count > 1 && history->ticks[count - 1].processes == 0)
        count--;
    bool anybody = count > 1 || (count == 1 && history->ticks[0].processes != 0);
    if (!anybody)
        count = history->tick_count;
    return count ? history->ticks[count - 1].t_ns : 0;
}

int tide_model_update(struct tide_model *model, const struct tide_history *history,
                      const struct tide_assessment *assessment)
{
    model->history = history;
    model->assessment = assessment;
    model->end_ns = last_moment(history);
    int bad = follow_marks(model);
    return rebuild(model) | bad;
}

/* Adds with wrap-around: absurd numbers give an absurd sum, but no undefined behaviour. */
static void add_round(int64_t *sum, int64_t bytes)
{
    *sum = (int64_t)((uint64_t)*sum + (uint64_t)bytes);
}

static const struct tide_history_process *member_of(const struct tide_model *model,
                                                    const struct tide_row *row, size_t m)
{
    return &model->history->processes[model->members[row->first + m] - 1];
}

/* Returns the mean share of the members whose share is known; 1 if it is known of none. */
static double usual_share(const struct tide_model *model, const struct tide_row *row)
{
    double sum = 0;
    size_t known = 0;
    for (size_t m = 0; m < row->members; m++) {
        double share = tide_assess_own_share(member_of(model, row, m));
        if (isnan(share))
            continue;
        sum += share;
        known++;
    }
    return known ? sum / (double)known : 1;
}

/* Adds a process's changes at the ticks where they happened. As in judging, the part that it shares from the
 * start stays constant, and growth is its own. */
static void add_changes(const struct tide_history *history, const struct tide_history_process *process,
                        double share, int64_t *private, int64_t *rss)
{
    size_t tick = tide_history_tick_from(history, process->point_count ? process->points[0].t_ns : 0);
    int64_t was_private = 0, was_rss = 0;
    int64_t first = process->point_count ? process->points[0].private_bytes : 0;
    int64_t shared = first > 0 ? (int64_t)((1 - share) * (double)first) : 0;
    for (size_t i = 0; i < process->point_count; i++) {
        const struct tide_history_point *point = &process->points[i];
        int64_t now_private = point->private_bytes > shared ? point->private_bytes - shared : 0;
        int64_t now_rss = point->rss_bytes > 0 ? point->rss_bytes : 0;
        while (tick < history->tick_count && history->ticks[tick].t_ns < point->t_ns)
            tick++;
        add_round(&private[tick], now_private - was_private);
        add_round(&rss[tick], now_rss - was_rss);
        was_private = now_private;
        was_rss = now_rss;
    }
    if (process->row.ended_ns != TIDE_UNKNOWN) {
        while (tick < history->tick_count && history->ticks[tick].t_ns < process->row.ended_ns)
            tick++;
        add_round(&private[tick], -was_private);
        add_round(&rss[tick], -was_rss);
    }
}

/* Makes the sums of a role's members at every tick: first the changes, then their running total. */
static struct tide_strided role_series(struct tide_model *model, const struct tide_row *row)
{
    const struct tide_history *history = model->history;
    size_t ticks = history->tick_count;
    if (ticks + 1 > model->sum_capacity) {
        int64_t *sums = realloc(model->sums, (ticks + 1) * 2 * 2 * sizeof *sums);
        if (!sums)
            return (struct tide_strided){.count = 0};
        model->sums = sums;
        model->sum_capacity = (ticks + 1) * 2;
    }
    int64_t *private = model->sums, *rss = model->sums + ticks + 1;
    memset(model->sums, 0, (ticks + 1) * 2 * sizeof *model->sums);
    struct tide_strided clock = TIDE_STRIDED(history->ticks, counted_bytes, ticks, model->end_ns);
    double usual = usual_share(model, row);
    for (size_t m = 0; m < row->members; m++) {
        double share = tide_assess_own_share(member_of(model, row, m));
        add_changes(history, member_of(model, row, m), isnan(share) ? usual : share, private, rss);
    }
    for (size_t i = 1; i < ticks; i++) {
        add_round(&private[i], private[i - 1]);
        add_round(&rss[i], rss[i - 1]);
    }
    clock.values = (const char *)private;
    clock.value_stride = sizeof *private;
    return clock;
}

struct tide_strided tide_model_series(struct tide_model *model, const struct tide_row *row)
{
    const struct tide_history *history = model->history;
    if (history->tick_count == 0)
        return (struct tide_strided){.count = 0};
    if (row->kind == TIDE_ROW_TREE)
        return TIDE_STRIDED(history->ticks, counted_bytes, history->tick_count, model->end_ns);
    if (row->kind == TIDE_ROW_ROLE)
        return role_series(model, row);
    const struct tide_history_process *process = &history->processes[row->process - 1];
    int64_t ended = process->row.ended_ns;
    if (process->point_count == 0)
        return (struct tide_strided){.count = 0};
    return TIDE_STRIDED(process->points, private_bytes, process->point_count,
                        ended == TIDE_UNKNOWN || ended > model->end_ns ? model->end_ns : ended);
}

void tide_model_spark(struct tide_model *model, struct tide_row *row, int columns, struct tide_bin *ret_bins)
{
    if (columns < 1)
        return;
    int64_t edges[TIDE_SPARK_MAX + 1];
    tide_model_edges(model, model->window_from, model->window_to, (size_t)columns, edges);
    struct tide_strided series = tide_model_series(model, row);
    tide_bins_fill(&series, edges, (size_t)columns, ret_bins);
    if (row->kind == TIDE_ROW_ROLE)
        for (size_t i = 0; i < series.count; i++)
            if (model->sums[model->history->tick_count + 1 + i] > row->peak)
                row->peak = model->sums[model->history->tick_count + 1 + i];
}

char *tide_model_name(const struct tide_model *model, const struct tide_row *row, char *out, size_t size)
{
    if (row->kind == TIDE_ROW_TREE) {
        snprintf(out, size, "process tree");
        return out;
    }
    const struct tide_history_process *process = &model->history->processes[row->process - 1];
    if (row->kind == TIDE_ROW_PROCESS)
        return tide_process_title(process, out, size);
    const char *shown = TIDE_SHOWN(process->row.role[0] ? process->row.role : process->row.name, 96);
    if (row->alive == row->members || row->alive == 0)
        snprintf(out, size, "%zu x %s", row->members, shown);
    else
        snprintf(out, size, "%zu x %s (%zu ended)", row->alive, shown, row->members - row->alive);
    return out;
}

double tide_model_pace(const struct tide_model *model)
{
    const struct tide_axis *axis = &model->axis;
    if (!axis->is_steps)
        return NAN;
    int64_t first = axis->t_ns[0], last = axis->t_ns[axis->count - 1];
    int64_t to = model->cursor_ns < last ? model->cursor_ns : last;
    int64_t stretch = (to - first) / 10;
    if (stretch < INT64_C(10000000000))
        stretch = INT64_C(10000000000);
    int64_t from = to - stretch > first ? to - stretch : first;
    double done = tide_axis_between(axis, to) - tide_axis_between(axis, from);
    return to > from && done > 0 ? done / ((double)(to - from) / 1e9) : NAN;
}

static void move_cursor(struct tide_model *model, double share)
{
    double first, last;
    tide_model_extent(model, &first, &last);
    double x = tide_model_x(model, model->cursor_ns) + share * (model->window_to - model->window_from);
    model->playing = false;
    model->following = x >= last;
    x = x < first ? first : x > last ? last : x;
    model->cursor_ns = model->following ? model->end_ns : time_at(model, x);
    if (model->cursor_ns > model->end_ns)
        model->cursor_ns = model->end_ns;
}

/* The actions of keys. A function gets the key, because some keys come in pairs. */

/* Returns by how many lines a key moves; 0: it does not. */
static ptrdiff_t lines_of(int key, ptrdiff_t page, ptrdiff_t all)
{
    return key == TIDE_KEY_UP || key == 'k'     ? -1
           : key == TIDE_KEY_DOWN || key == 'j' ? 1
           : key == TIDE_KEY_PAGE_UP            ? -page
           : key == TIDE_KEY_PAGE_DOWN          ? page
           : key == TIDE_KEY_HOME               ? -all
           : key == TIDE_KEY_END                ? all
                                                : 0;
}

static void do_choose(struct tide_model *model, int key)
{
    ptrdiff_t page = model->page_rows > 1 ? model->page_rows - 1 : 1, all = (ptrdiff_t)model->row_count;
    ptrdiff_t to = (ptrdiff_t)model->chosen + lines_of(key, page, all);
    to = to > all - 1 ? all - 1 : to;
    model->chosen = to < 0 ? 0 : (size_t)to;
    model->chosen_key = model->row_count ? model->rows[model->chosen].key : 0;
}

static void do_fold(struct tide_model *model, int key)
{
    (void)key;
    if (model->chosen >= model->row_count || !model->rows[model->chosen].foldable)
        return;
    uint64_t row = model->rows[model->chosen].key;
    if (!tide_map_remove(&model->toggled, row))
        tide_map_put(&model->toggled, row, 1);
}

static void do_zoom(struct tide_model *model, int key)
{
    bool in = key == 'z' || key == '+' || key == '=';
    int zoom = model->zoom + (in ? 1 : -1);
    if (zoom < 0 || zoom > ZOOM_MAX || (in && model->window_to - model->window_from < 1e-3))
        return;
    double cursor = tide_model_x(model, model->cursor_ns), span = model->window_to - model->window_from;
    double share = span > 0 ? (cursor - model->window_from) / span : 1;
    model->zoom = zoom;
    model->window_from = cursor - share * (in ? span / 2 : span * 2);
}

static void do_move(struct tide_model *model, int key)
{
    double share = key == TIDE_KEY_LEFT || key == TIDE_KEY_RIGHT ? 1.0 / 64 : 1.0 / 4;
    move_cursor(model, key == TIDE_KEY_LEFT || key == TIDE_KEY_FAR_LEFT || key == '<' ? -share : share);
}

static void do_play(struct tide_model *model, int key)
{
    (void)key;
    model->playing = !model->playing;
    if (!model->playing)
        return;
    if (model->cursor_ns >= model->end_ns)
        model->cursor_ns = 0;
    model->following = false;
    if (model->speed <= 0) {
        model->speed = (double)model->end_ns / 1e9 / PLAY_SECONDS;
        if (model->speed < 1)
            model->speed = 1;
    }
}

static void do_speed(struct tide_model *model, int key)
{
    double speed = (model->speed > 0 ? model->speed : 1) * (key == ']' ? 2 : 0.5);
    if (speed >= 1.0 / 16 && speed <= 1e6)
        model->speed = speed;
}

static void do_axis(struct tide_model *model, int key)
{
    (void)key;
    int64_t from_ns = time_at(model, model->window_from);
    model->by_steps = !tide_model_steps_shown(model);
    model->window_from = tide_model_x(model, from_ns);
}

/* Keys that change one thing. */
static void do_switch(struct tide_model *model, int key)
{
    switch (key) {
    case 's':
        model->sort = (enum tide_sort)((model->sort + 1) % TIDE_SORTS);
        break;
    case 'e':
        model->ended = (enum tide_ended)((model->ended + 1) % TIDE_ENDED_CHOICES);
        break;
    case 'f':
        model->following = !model->following;
        model->playing = false;
        break;
    case 'y':
        model->from_zero = !model->from_zero;
        break;
    case TIDE_KEY_ESCAPE:
        model->pane = TIDE_PANE_NONE;
        break;
    default:
        model->wish = TIDE_WISH_REDRAW;
        break;
    }
}

static void do_pane(struct tide_model *model, int key)
{
    enum tide_pane pane = key == 'l' ? TIDE_PANE_LOG : key == 'v' ? TIDE_PANE_VERDICT : TIDE_PANE_HELP;
    model->pane = model->pane == pane ? TIDE_PANE_NONE : pane;
    model->pane_scroll = 0;
}

static void do_quit(struct tide_model *model, int key)
{
    if (model->owns_program && !model->program_ended) {
        if (key == TIDE_KEY_INTERRUPT && !model->interrupted) {
            model->interrupted = true;
            model->wish = TIDE_WISH_INTERRUPT;
        } else {
            model->wish = TIDE_WISH_ASK;
        }
        return;
    }
    model->wish = TIDE_WISH_QUIT;
}

struct binding {
    int keys[6];
    struct tide_key_help help;
    void (*run)(struct tide_model *model, int key);
};

static const struct binding bindings[] = {
    {{TIDE_KEY_UP, TIDE_KEY_DOWN, 'k', 'j'}, {"up down", "choose a row"}, do_choose},
    {{TIDE_KEY_PAGE_UP, TIDE_KEY_PAGE_DOWN}, {"pgup pgdn", "choose one a page away"}, do_choose},
    {{TIDE_KEY_HOME, TIDE_KEY_END}, {"home end", "the first or last row"}, do_choose},
    {{TIDE_KEY_ENTER, ' '}, {"enter space", "fold or unfold"}, do_fold},
    {{'s'}, {"s", "sort tree, memory, growth"}, do_switch},
    {{'e'}, {"e", "ended: large, all, none"}, do_switch},
    {{'z', '+', '=', 'Z', '-'}, {"z + / Z -", "zoom in / zoom out"}, do_zoom},
    {{TIDE_KEY_LEFT, TIDE_KEY_RIGHT}, {"left right", "move through time"}, do_move},
    {{TIDE_KEY_FAR_LEFT, TIDE_KEY_FAR_RIGHT, '<', '>'}, {"< >", "by a quarter window"}, do_move},
    {{'f'}, {"f", "freeze, or follow the end"}, do_switch},
    {{'p'}, {"p", "play or pause"}, do_play},
    {{'[', ']'}, {"[ ]", "play slower, faster"}, do_speed},
    {{'t'}, {"t", "axis: steps or time"}, do_axis},
    {{'y'}, {"y", "chart from zero, or fitted"}, do_switch},
    {{'v'}, {"v", "the whole verdict"}, do_pane},
    {{'l'}, {"l", "what the program printed"}, do_pane},
    {{'?', 'h'}, {"? h", "this help"}, do_pane},
    {{TIDE_KEY_ESCAPE}, {"esc", "close what covers the view"}, do_switch},
    {{0x0c}, {"ctrl-l", "redraw the screen"}, do_switch},
    {{'q', 'Q'}, {"q", "quit"}, do_quit},
    {{TIDE_KEY_INTERRUPT}, {"ctrl-c", "interrupt it, or quit"}, do_quit},
};

enum { BINDINGS = sizeof bindings / sizeof *bindings };

const struct tide_key_help *tide_model_help(size_t i)
{
    return i < BINDINGS ? &bindings[i].help : NULL;
}

/* In a text pane, the keys that choose rows scroll instead. */
static bool scroll_pane(struct tide_model *model, int key)
{
    enum { PAGE = 10, ALL = 1000000 };
    ptrdiff_t by = lines_of(key, PAGE, ALL), to = model->pane_scroll + by;
    model->pane_scroll = to < 0 ? 0 : to > ALL ? ALL : (int)to;
    return by != 0;
}

bool tide_model_key(struct tide_model *model, int key)
{
    if (model->pane != TIDE_PANE_NONE && scroll_pane(model, key))
        return true;
    for (size_t b = 0; b < BINDINGS; b++)
        for (size_t k = 0; k < sizeof bindings[b].keys / sizeof *bindings[b].keys; k++)
            if (bindings[b].keys[k] && bindings[b].keys[k] == key) {
                bindings[b].run(model, key);
                rebuild(model);
                return true;
            }
    return false;
}

bool tide_model_advance(struct tide_model *model, int64_t elapsed_ns)
{
    if (!model->playing)
        return false;
    double to = (double)model->cursor_ns + (double)elapsed_ns * model->speed;
    if (to >= (double)model->end_ns) {
        model->playing = false;
        model->following = true;
    } else {
        model->cursor_ns = (int64_t)to;
    }
    rebuild(model);
    return true;
}
