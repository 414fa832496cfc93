/*
 * The terminal view without a terminal: a recording made by hand is put into the model, keys are pressed, and
 * rows, columns and drawn cells are looked at.
 */
#include "show/screen/screen.h"
#include "show/screen/view.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_malloc.h"

#define SECOND INT64_C(1000000000)
#define MIB    INT64_C(1048576)

enum { TICKS = 1000, WORKERS = 20, PROCESSES = 2 + WORKERS };

/* uv[100] starts python[101], which leaks 1 MiB per tick, spikes in "validation" every 200 ticks, and keeps
 * 20 compile workers. A tick a second, 4 steps a tick. */
struct fixture {
    struct tide_history history;
    struct tide_history_process processes[PROCESSES];
    struct tide_tick ticks[TICKS];
    struct tide_history_mark marks[TICKS + 64];
    const char *names[1];
    struct tide_assessment assessment;
    struct tide_judged judged[3];
    struct tide_model model;
    struct tide_cells cells;
    struct tide_view_info info;
};

static void add_process(struct fixture *f, size_t i, int64_t pid, int64_t parent, const char *name)
{
    struct tide_history_process *p = &f->processes[i];
    p->row = (struct tide_process){.id = (int64_t)i + 1,
                                   .pid = pid,
                                   .parent = parent,
                                   .name = name,
                                   .command = name,
                                   .role = name,
                                   .ended_ns = TIDE_UNKNOWN,
                                   .peak_rss_bytes = 400 * MIB,
                                   .rank = TIDE_UNKNOWN};
    p->number = -1;
    p->points = calloc(TICKS, sizeof *p->points);
    p->smaps = calloc(1, sizeof *p->smaps);
}

static void add_point(struct fixture *f, size_t i, int64_t t, int64_t bytes)
{
    struct tide_history_process *p = &f->processes[i];
    p->points[p->point_count++] = (struct tide_history_point){
        .t_ns = t, .rss_bytes = bytes + 10 * MIB, .private_bytes = bytes, .threads = 3};
}

static void add_mark(struct fixture *f, int64_t t, enum tide_mark_kind kind, int64_t number)
{
    bool named = kind == TIDE_MARK_PHASE_BEGIN || kind == TIDE_MARK_PHASE_END;
    f->marks[f->history.mark_count++] = (struct tide_history_mark){.t_ns = t,
                                                                   .process = 2,
                                                                   .number = number,
                                                                   .kind = kind,
                                                                   .source = TIDE_SOURCE_PROGRAM,
                                                                   .name = named ? 0 : -1};
}

static bool validates(int tick)
{
    return tick % 200 >= 190 && tick % 200 < 195;
}

static void fill_ticks(struct fixture *f)
{
    for (int i = 0; i < TICKS; i++) {
        int64_t t = i * SECOND, python = (500 + i + (validates(i) ? 1500 : 0)) * MIB;
        add_point(f, 1, t, python);
        add_mark(f, t, TIDE_MARK_STEP, i * 4);
        if (i % 200 == 0)
            add_mark(f, t, TIDE_MARK_EPOCH, i / 200);
        if (validates(i) && !validates(i - 1))
            add_mark(f, t, TIDE_MARK_PHASE_BEGIN, 0);
        if (!validates(i) && validates(i - 1))
            add_mark(f, t, TIDE_MARK_PHASE_END, 0);
        f->ticks[i] = (struct tide_tick){.id = i + 1,
                                         .t_ns = t,
                                         .processes = PROCESSES,
                                         .rss_bytes = python + (2 + WORKERS * 410) * MIB,
                                         .counted_bytes = python + (2 + WORKERS * 100) * MIB,
                                         .pss_known_bytes = python};
    }
}

static struct tide_judged judged(enum tide_subject subject, int64_t process, const char *name,
                                 enum tide_verdict_kind kind, double slope)
{
    struct tide_judged j = {.subject = subject, .process = process, .x_is_steps = true};
    snprintf(j.name, sizeof j.name, "%s", name);
    j.verdict.kind = kind;
    j.verdict.slope = slope;
    return j;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    add_process(f, 0, 100, 0, "uv");
    add_process(f, 1, 101, 1, "python");
    add_point(f, 0, 0, 2 * MIB);
    for (size_t i = 2; i < PROCESSES; i++) {
        add_process(f, i, 100 + (int64_t)i, 2, "compile_worker");
        add_point(f, i, 0, 400 * MIB);
        f->processes[i].smaps[0] =
            (struct tide_history_smaps){.t_ns = 0, .pss_bytes = 100 * MIB, .uss_bytes = 90 * MIB};
        f->processes[i].smaps_count = 1;
    }
    fill_ticks(f);
    f->names[0] = "validation";
    f->history.processes = f->processes;
    f->history.process_count = PROCESSES;
    f->history.ticks = f->ticks;
    f->history.tick_count = TICKS;
    f->history.marks = f->marks;
    f->history.names = f->names;
    f->history.name_count = 1;
    f->history.ended_ns = (TICKS - 1) * SECOND;
    f->history.exit_status = 0;
    f->judged[0] = judged(TIDE_SUBJECT_PROCESS, 2, "python[101] (child of uv[100])", TIDE_LEAK, 0.25 * MIB);
    f->judged[1] = judged(TIDE_SUBJECT_TREE, 0, "process tree", TIDE_LEAK, 0.25 * MIB);
    f->judged[2] = judged(TIDE_SUBJECT_ROLE, 0, "20 x compile_worker", TIDE_FLAT, 0);
    f->judged[2].role = "compile_worker";
    f->assessment =
        (struct tide_assessment){.judged = f->judged, .count = 3, .limit_bytes = 24. * 1024 * MIB};
    f->info = (struct tide_view_info){.recording = "train.tide",
                                      .sentence =
                                          "LEAK in python[101] (child of uv[100]): floor +999 MiB over 4,000 "
                                          "steps, 256 KiB per step (95 % interval 255 KiB..257 KiB)",
                                      .brief = "floor +256 KiB/step, limit 24 GiB in 5 h 20 m",
                                      .verdict_text = "LEAK in python[101]\n  floor +999 MiB\n",
                                      .log_text = "step 1\nstep 2\n",
                                      .message = "",
                                      .mood = TIDE_STYLE_BAD};
    tide_model_init(&f->model);
    tide_cells_init(&f->cells, false);
    assert_int_equal(tide_cells_resize(&f->cells, 80, 24), 0);
    assert_int_equal(tide_model_update(&f->model, &f->history, &f->assessment), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    tide_model_release(&f->model);
    tide_cells_release(&f->cells);
    for (size_t i = 0; i < PROCESSES; i++) {
        free(f->processes[i].points);
        free(f->processes[i].smaps);
    }
    free(f);
    return 0;
}

static void keys(struct fixture *f, const char *text)
{
    for (; *text; text++)
        tide_model_key(&f->model, *text);
}

/* The drawn screen as text. Caller frees. */
static char *screen(struct fixture *f)
{
    char *text = NULL;
    size_t len = 0;
    tide_view_draw(&f->cells, &f->model, &f->info);
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    tide_cells_dump(&f->cells, out);
    fclose(out);
    return text;
}

static void press(struct fixture *f, int key)
{
    tide_model_key(&f->model, key);
}

static const char *name_at(struct fixture *f, size_t row)
{
    static char name[128];
    assert_true(row < f->model.row_count);
    return tide_model_name(&f->model, &f->model.rows[row], name, sizeof name);
}

static void assert_shows(struct fixture *f, const char *text)
{
    char *all = screen(f);
    if (!strstr(all, text))
        fail_msg("'%s' is not on the screen:\n%s", text, all);
    free(all);
}

/* ---- series */

static struct tide_strided strided(const int64_t (*pairs)[2], size_t count, int64_t end_ns)
{
    return (struct tide_strided){.times = (const char *)&pairs[0][0],
                                 .values = (const char *)&pairs[0][1],
                                 .time_stride = sizeof *pairs,
                                 .value_stride = sizeof *pairs,
                                 .count = count,
                                 .end_ns = end_ns};
}

/* The value that holds at t_ns; TIDE_UNKNOWN before the first and after the end. */
static int64_t value_at(const struct tide_strided *series, int64_t t_ns)
{
    size_t count = tide_until(series->times, series->time_stride, series->count, t_ns);
    int64_t value = TIDE_UNKNOWN;
    if (count && t_ns <= series->end_ns)
        memcpy(&value, series->values + (count - 1) * series->value_stride, sizeof value);
    return value;
}

static void a_value_holds_until_the_next(void **state)
{
    (void)state;
    const int64_t pairs[][2] = {{10, 5}, {20, 7}, {40, 1}};
    struct tide_strided series = strided(pairs, 3, 50);
    assert_int_equal(value_at(&series, 9), TIDE_UNKNOWN);
    assert_int_equal(value_at(&series, 10), 5);
    assert_int_equal(value_at(&series, 39), 7);
    assert_int_equal(value_at(&series, 50), 1);
    assert_int_equal(value_at(&series, 51), TIDE_UNKNOWN);
    const int64_t edges[] = {0, 10, 15, 25, 30, 45, 55, 60};
    struct tide_bin bins[7];
    tide_bins_fill(&series, edges, 7, bins);
    const int64_t want[7][2] = {{-1, -1}, {5, 5}, {5, 7}, {7, 7}, {1, 7}, {1, 1}, {-1, -1}};
    for (int i = 0; i < 7; i++) {
        assert_int_equal(bins[i].low, want[i][0]);
        assert_int_equal(bins[i].high, want[i][1]);
    }
}

static void the_floor_leaves_spikes_out_and_keeps_rises(void **state)
{
    (void)state;
    const int64_t low[] = {10, 10, 90, 10, 11, 12, 80, 80, 13, 14, 50, 51, 52, 53};
    enum { N = sizeof low / sizeof *low };
    const int64_t want[N] = {10, 10, 10, 10, 11, 12, 13, 13, 13, 14, 50, 51, 52, 53};
    struct tide_bin bins[N];
    int64_t floors[N];
    for (int i = 0; i < N; i++)
        bins[i] = (struct tide_bin){low[i], low[i]};
    assert_int_equal(tide_bins_floor(bins, N, 3, floors), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(floors[i], want[i]);
    bins[0].low = bins[13].low = bins[5].low = TIDE_UNKNOWN;
    assert_int_equal(tide_bins_floor(bins, N, 3, floors), 0);
    assert_int_equal(floors[0], TIDE_UNKNOWN);
    assert_int_equal(floors[5], TIDE_UNKNOWN);
    assert_int_equal(floors[6], 13);
}

/* ---- rows */

static void same_workers_are_one_folded_row(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(f->model.row_count, 4);
    assert_string_equal(name_at(f, 0), "process tree");
    assert_string_equal(name_at(f, 2), "python");
    assert_string_equal(name_at(f, 3), "20 x compile_worker");
    assert_int_equal(f->model.rows[3].rss, 20 * 410 * MIB);
    assert_int_equal(f->model.rows[3].pss, 20 * 100 * MIB);
    assert_int_equal(f->model.rows[3].depth, 2);
    assert_non_null(f->model.rows[3].judged);
    assert_int_equal(f->model.rows[3].judged->verdict.kind, TIDE_FLAT);
}

static void folding_is_kept_through_sorting(void **state)
{
    struct fixture *f = *state;
    press(f, TIDE_KEY_END);
    press(f, TIDE_KEY_ENTER);
    assert_int_equal(f->model.row_count, 4 + WORKERS);
    keys(f, "s");
    assert_int_equal(f->model.row_count, 4 + WORKERS);
    assert_string_equal(name_at(f, 1), "20 x compile_worker");
    assert_int_equal(f->model.chosen, 1);
    assert_int_equal(f->model.rows[2].depth, 1);
    keys(f, "s");
    assert_string_equal(name_at(f, 1), "python");
    keys(f, "s ");
    assert_int_equal(f->model.row_count, 4);
}

static void a_subtree_folds_under_its_root(void **state)
{
    struct fixture *f = *state;
    keys(f, "j ");
    assert_int_equal(f->model.row_count, 2);
    assert_true(f->model.rows[1].folded);
    keys(f, " ");
    assert_int_equal(f->model.row_count, 4);
}

static void a_circle_of_parents_cannot_hang_the_view(void **state)
{
    struct fixture *f = *state;
    f->processes[0].row.parent = 2;
    f->processes[1].row.parent = 1;
    f->processes[2].row.parent = 3;
    f->processes[3].row.parent = 9999;
    assert_int_equal(tide_model_update(&f->model, &f->history, &f->assessment), 0);
    size_t members = 0;
    for (size_t i = 1; i < f->model.row_count; i++)
        members += f->model.rows[i].members;
    assert_int_equal(members, PROCESSES);
}

static void a_long_chain_of_processes_is_walked_without_recursion(void **state)
{
    struct fixture *f = *state;
    enum { DEPTH = 20000 };
    struct tide_history_process *chain = calloc(DEPTH, sizeof *chain);
    for (int i = 0; i < DEPTH; i++)
        chain[i].row = (struct tide_process){.id = i + 1,
                                             .pid = i + 1,
                                             .parent = i,
                                             .name = "sh",
                                             .role = "sh",
                                             .command = "",
                                             .ended_ns = TIDE_UNKNOWN};
    f->history.processes = chain;
    f->history.process_count = DEPTH;
    assert_int_equal(tide_model_update(&f->model, &f->history, NULL), 0);
    assert_int_equal(f->model.row_count, DEPTH + 1);
    press(f, TIDE_KEY_END);
    assert_shows(f, "20000");
    f->history.processes = f->processes;
    f->history.process_count = PROCESSES;
    assert_int_equal(tide_model_update(&f->model, &f->history, NULL), 0);
    free(chain);
}

static void ended_processes_are_told_apart_and_can_be_hidden(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 2; i < 10; i++)
        f->processes[i].row.ended_ns = 100 * SECOND;
    tide_model_update(&f->model, &f->history, &f->assessment);
    assert_string_equal(name_at(f, 3), "12 x compile_worker (8 ended)");
    assert_int_equal(f->model.rows[3].rss, 12 * 410 * MIB);
    for (size_t i = 2; i < 10; i++)
        f->processes[i].row.peak_rss_bytes = f->processes[i].points[0].rss_bytes = 40 * MIB;
    tide_model_release(&f->model);
    tide_model_init(&f->model);
    tide_model_update(&f->model, &f->history, &f->assessment);
    assert_string_equal(name_at(f, 3), "12 x compile_worker"); /* small ones are left out */
    keys(f, "e");
    assert_string_equal(name_at(f, 3), "12 x compile_worker (8 ended)");
    keys(f, "e");
    assert_string_equal(name_at(f, 3), "12 x compile_worker");
    f->processes[1].row.ended_ns = 100 * SECOND;
    tide_model_update(&f->model, &f->history, &f->assessment);
    assert_string_equal(name_at(f, 1), "12 x compile_worker"); /* though their parent is hidden now */
    assert_int_equal(f->model.row_count, 3);
}

static void the_sum_of_a_role_follows_its_members(void **state)
{
    struct fixture *f = *state;
    f->processes[5].row.ended_ns = 500 * SECOND;
    add_point(f, 6, 700 * SECOND, 900 * MIB);
    tide_model_update(&f->model, &f->history, &f->assessment);
    for (size_t i = 2; i < PROCESSES; i++)
        f->processes[i].smaps_count = 0;
    struct tide_strided series = tide_model_series(&f->model, &f->model.rows[3]);
    assert_int_equal(value_at(&series, 499 * SECOND), 20 * 400 * MIB);
    assert_int_equal(value_at(&series, 501 * SECOND), 19 * 400 * MIB);
    assert_int_equal(value_at(&series, 700 * SECOND), (18 * 400 + 900) * MIB);
}

static void what_members_of_a_role_share_counts_once(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 2; i < PROCESSES; i++)
        f->processes[i].smaps[0].pss_bytes = 41 * MIB; /* a tenth of RSS */
    add_point(f, 6, 700 * SECOND, 900 * MIB);
    tide_model_update(&f->model, &f->history, &f->assessment);
    struct tide_strided series = tide_model_series(&f->model, &f->model.rows[3]);
    assert_int_equal((value_at(&series, 100 * SECOND) + MIB / 2) / MIB, 20 * 40);
    assert_int_equal((value_at(&series, 700 * SECOND) + MIB / 2) / MIB, 20 * 40 + 500);
}

/* ---- time */

static void moving_back_lets_go_of_the_end_and_rows_show_that_moment(void **state)
{
    struct fixture *f = *state;
    int64_t now = f->model.rows[2].rss;
    keys(f, "<<");
    assert_false(f->model.following);
    assert_int_equal(f->model.cursor_ns / SECOND, 499);
    assert_true(f->model.rows[2].rss < now - 400 * MIB);
    assert_shows(f, "0:08:19 before the end");
    keys(f, ">>>");
    assert_true(f->model.following);
    assert_int_equal(f->model.rows[2].rss, now);
}

static void zooming_keeps_the_cursor_in_sight_and_ends_somewhere(void **state)
{
    struct fixture *f = *state;
    keys(f, "<zzz");
    double x = tide_model_x(&f->model, f->model.cursor_ns);
    assert_true(f->model.window_from <= x && x <= f->model.window_to);
    assert_true(fabs((f->model.window_to - f->model.window_from) - 3996. / 8) < 1e-6);
    for (int i = 0; i < 100; i++)
        keys(f, "z");
    free(screen(f));
    assert_true(f->model.window_to > f->model.window_from);
    for (int i = 0; i < 100; i++)
        keys(f, "Z");
    assert_int_equal(f->model.zoom, 0);
    assert_true(f->model.window_from == 0 && f->model.window_to == 3996);
}

static void the_axis_is_steps_until_time_is_asked_for(void **state)
{
    struct fixture *f = *state;
    assert_shows(f, "step 0 ");
    assert_shows(f, "3,996");
    keys(f, "t");
    assert_shows(f, "0:04:09");
    keys(f, "t");
    assert_shows(f, "step 0 ");
}

static void playing_goes_through_the_run_and_stops_at_the_end(void **state)
{
    struct fixture *f = *state;
    keys(f, "p");
    assert_int_equal(f->model.cursor_ns, 0);
    assert_true(tide_model_advance(&f->model, SECOND));
    assert_int_equal(f->model.cursor_ns / SECOND, 33); /* 999 s in 30 */
    keys(f, "]");
    tide_model_advance(&f->model, SECOND);
    assert_int_equal(f->model.cursor_ns / SECOND, 99);
    tide_model_advance(&f->model, 100 * SECOND);
    assert_true(f->model.following);
    assert_false(tide_model_advance(&f->model, SECOND));
}

static void the_last_look_at_a_tree_that_is_gone_is_not_the_end(void **state)
{
    struct fixture *f = *state;
    f->ticks[TICKS - 1].processes = f->ticks[TICKS - 1].rss_bytes = f->ticks[TICKS - 1].counted_bytes = 0;
    f->ticks[TICKS - 2].processes = f->ticks[TICKS - 2].rss_bytes = f->ticks[TICKS - 2].counted_bytes = 0;
    tide_model_update(&f->model, &f->history, &f->assessment);
    assert_int_equal(f->model.end_ns, (TICKS - 3) * SECOND);
    assert_true(f->model.rows[0].rss > 0);
    struct tide_strided series = tide_model_series(&f->model, &f->model.rows[0]);
    struct tide_bin bins[100];
    int64_t edges[101];
    tide_model_edges(&f->model, f->model.window_from, f->model.window_to, 100, edges);
    tide_bins_fill(&series, edges, 100, bins);
    assert_true(bins[99].low > 2000 * MIB);
}

static void freezing_holds_the_moment_while_the_recording_grows(void **state)
{
    struct fixture *f = *state;
    f->history.tick_count = 500;
    tide_model_update(&f->model, &f->history, &f->assessment);
    keys(f, "f");
    f->history.tick_count = TICKS;
    tide_model_update(&f->model, &f->history, &f->assessment);
    assert_int_equal(f->model.cursor_ns, 499 * SECOND);
    keys(f, "f");
    assert_int_equal(f->model.cursor_ns, 999 * SECOND);
}

/* ---- keys */

static void keys_that_mean_nothing_do_nothing(void **state)
{
    struct fixture *f = *state;
    char *before = screen(f);
    for (int key = 1; key < 0x200; key++)
        if (!strchr("kj sezZ+=-<>fp[]tyvl?hqQ\f", key))
            assert_false(tide_model_key(&f->model, key));
    char *after = screen(f);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void every_key_has_its_line_in_the_help(void **state)
{
    struct fixture *f = *state;
    keys(f, "?");
    for (size_t i = 0; tide_model_help(i); i++) {
        assert_shows(f, tide_model_help(i)->keys);
        assert_shows(f, tide_model_help(i)->help);
    }
    keys(f, "?");
    assert_int_equal(f->model.pane, TIDE_PANE_NONE);
}

static void quitting_asks_only_when_a_program_would_be_left(void **state)
{
    struct fixture *f = *state;
    keys(f, "q");
    assert_int_equal(f->model.wish, TIDE_WISH_QUIT);
    f->model.wish = TIDE_WISH_NONE;
    f->model.owns_program = true;
    keys(f, "q");
    assert_int_equal(f->model.wish, TIDE_WISH_ASK);
    f->model.wish = TIDE_WISH_NONE;
    press(f, TIDE_KEY_INTERRUPT);
    assert_int_equal(f->model.wish, TIDE_WISH_INTERRUPT);
    f->model.wish = TIDE_WISH_NONE;
    press(f, TIDE_KEY_INTERRUPT);
    assert_int_equal(f->model.wish, TIDE_WISH_ASK);
    f->model.wish = TIDE_WISH_NONE;
    f->model.program_ended = true;
    keys(f, "q");
    assert_int_equal(f->model.wish, TIDE_WISH_QUIT);
}

/* ---- drawing */

static void the_screen_says_who_grows_and_by_how_much(void **state)
{
    struct fixture *f = *state;
    assert_shows(f, "LEAK in python[101]");
    assert_shows(f, "limit 24 GiB in 5 h 20 m");
    assert_shows(f, "FLOOR/STEP");
    assert_shows(f, "+256 KiB");
    assert_shows(f, "epoch 4");
    assert_shows(f, "phases");
}

static void every_size_is_survived(void **state)
{
    struct fixture *f = *state;
    static const int sizes[] = {1, 2, 3, 5, 8, 13, 14, 20, 24, 49, 50, 51, 60, 80, 133, 300, 1000};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int pane = 0; pane < TIDE_PANES; pane++) {
        f->model.pane = (enum tide_pane)pane;
        for (int c = 0; c < SIZES; c++)
            for (int r = 0; r < SIZES; r++) {
                assert_int_equal(tide_cells_resize(&f->cells, sizes[c], sizes[r]), 0);
                tide_view_draw(&f->cells, &f->model, &f->info);
            }
    }
    f->model.pane = TIDE_PANE_NONE;
    assert_int_equal(tide_cells_resize(&f->cells, 40, 10), 0);
    assert_shows(f, "40x10 is too small: 50x14 is needed");
}

static void without_unicode_every_cell_is_ascii(void **state)
{
    struct fixture *f = *state;
    f->cells.ascii = true;
    f->processes[1].row.role = "\xe6\x97\xa5python";
    for (const char *key = " s?v<z"; *key; key++) {
        tide_model_key(&f->model, *key);
        char *text = screen(f);
        for (const char *p = text; *p; p++)
            assert_true((*p >= 32 && *p < 127) || *p == '\n');
        free(text);
    }
}

static void a_hostile_name_reaches_no_cell_unescaped(void **state)
{
    struct fixture *f = *state;
    f->processes[1].row.role = "a\x1b]0;x\x07";
    f->processes[1].row.command = "\x1b[2J\xe2\x80\xae evil";
    f->names[0] = "\x1b[7mval\n";
    keys(f, "jj");
    assert_shows(f, "a\\x1b]0;x\\x07");
    char *text = screen(f);
    assert_null(strchr(text, 27));
    assert_null(strchr(text, 7));
    assert_null(strstr(text, "\xe2\x80\xae"));
    free(text);
}

static void a_recording_without_samples_says_so(void **state)
{
    struct fixture *f = *state;
    struct tide_history empty = {.ended_ns = TIDE_UNKNOWN, .exit_status = TIDE_UNKNOWN};
    struct tide_model model;
    tide_model_init(&model);
    assert_int_equal(tide_model_update(&model, &empty, NULL), 0);
    f->info.sentence = "waiting for the first sample";
    tide_view_draw(&f->cells, &model, &f->info);
    for (const char *key = "jk s?z<pt\x0cvl"; *key; key++) {
        tide_model_key(&model, *key);
        tide_view_draw(&f->cells, &model, &f->info);
    }
    tide_model_release(&model);
}

static void a_gpu_column_appears_when_somebody_uses_one(void **state)
{
    struct fixture *f = *state;
    struct tide_history_gpu gpu[] = {{.t_ns = 0, .device = 0, .process = 2, .bytes = 9 * MIB},
                                     {.t_ns = 10 * SECOND, .device = 0, .process = 2, .bytes = 700 * MIB},
                                     {.t_ns = 10 * SECOND, .device = 1, .process = 2, .bytes = 77 * MIB},
                                     {.t_ns = 10 * SECOND, .device = 0, .process = 0, .bytes = 999 * MIB},
                                     {.t_ns = 10 * SECOND, .device = 0, .process = 4711, .bytes = 999 * MIB}};
    f->history.gpu = gpu;
    f->history.gpu_count = sizeof gpu / sizeof *gpu;
    tide_model_update(&f->model, &f->history, &f->assessment);
    assert_int_equal(f->model.rows[2].gpu, 777 * MIB);
    assert_int_equal(f->model.rows[0].gpu, 777 * MIB);
    assert_int_equal(f->model.rows[3].gpu, TIDE_UNKNOWN);
    assert_shows(f, " GPU");
    assert_shows(f, "777 MiB");
}

static void a_failed_allocation_is_survived(void **state)
{
#if HAVE_FAILING_MALLOC
    struct fixture *f = *state;
    NEEDS_FAILING_MALLOC();
    bool failed = true;
    for (long good = 0; failed; good++) {
        struct tide_model model;
        struct tide_cells cells;
        tide_model_init(&model);
        tide_cells_init(&cells, false);
        failing_arm(good);
        tide_cells_resize(&cells, 100, 30);
        tide_model_update(&model, &f->history, &f->assessment);
        for (const char *key = "jjj s?vz<"; cells.cells && *key; key++) {
            tide_model_key(&model, *key);
            tide_view_draw(&cells, &model, &f->info);
        }
        failed = failing_disarm();
        assert_int_equal(tide_model_update(&model, &f->history, &f->assessment), 0);
        assert_true(model.row_count >= 4);
        tide_model_release(&model);
        tide_cells_release(&cells);
    }
#else
    (void)state;
    skip();
#endif
}

#define WITH_RUN(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_holds_until_the_next),
        cmocka_unit_test(the_floor_leaves_spikes_out_and_keeps_rises),
        WITH_RUN(same_workers_are_one_folded_row),
        WITH_RUN(folding_is_kept_through_sorting),
        WITH_RUN(a_subtree_folds_under_its_root),
        WITH_RUN(a_circle_of_parents_cannot_hang_the_view),
        WITH_RUN(a_long_chain_of_processes_is_walked_without_recursion),
        WITH_RUN(ended_processes_are_told_apart_and_can_be_hidden),
        WITH_RUN(the_sum_of_a_role_follows_its_members),
        WITH_RUN(what_members_of_a_role_share_counts_once),
        WITH_RUN(moving_back_lets_go_of_the_end_and_rows_show_that_moment),
        WITH_RUN(zooming_keeps_the_cursor_in_sight_and_ends_somewhere),
        WITH_RUN(the_axis_is_steps_until_time_is_asked_for),
        WITH_RUN(playing_goes_through_the_run_and_stops_at_the_end),
        WITH_RUN(the_last_look_at_a_tree_that_is_gone_is_not_the_end),
        WITH_RUN(freezing_holds_the_moment_while_the_recording_grows),
        WITH_RUN(keys_that_mean_nothing_do_nothing),
        WITH_RUN(every_key_has_its_line_in_the_help),
        WITH_RUN(quitting_asks_only_when_a_program_would_be_left),
        WITH_RUN(the_screen_says_who_grows_and_by_how_much),
        WITH_RUN(every_size_is_survived),
        WITH_RUN(without_unicode_every_cell_is_ascii),
        WITH_RUN(a_hostile_name_reaches_no_cell_unescaped),
        WITH_RUN(a_recording_without_samples_says_so),
        WITH_RUN(a_gpu_column_appears_when_somebody_uses_one),
        WITH_RUN(a_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
