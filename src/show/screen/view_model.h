/*
 * view_model.h - the state of the terminal view: rows, selection, folding, sorting, the window of time.
 *
 * Pure: no terminal, no clock, no I/O. tide_model_init -> repeat { tide_model_update() when the history or
 * the assessment changed; tide_model_key() for each key; draw } -> tide_model_release. The history and the
 * assessment are borrowed: they must outlive the model or be replaced by the next update.
 *
 * The view shows one moment, the cursor. While `following`, it is the newest moment of the recording; moving
 * it back, freezing and playing end that. Rows show the moment of the cursor; the chart and the sparklines
 * show the window around it. Folding and selection belong to processes and roles, not to line numbers, so
 * they survive sorting and growth.
 */
#ifndef TIDE_VIEW_MODEL_H
#define TIDE_VIEW_MODEL_H

#include "assess/assessment.h"
#include "assess/bins.h"
#include "assess/history.h"
#include "base/map.h"
#include "term/keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_SPARK_MAX = 24 };

enum tide_row_kind { TIDE_ROW_TREE, TIDE_ROW_ROLE, TIDE_ROW_PROCESS };

/* Bytes may be TIDE_UNKNOWN. */
struct tide_row {
    enum tide_row_kind kind;
    uint64_t key;    /* stays the same for a process or role */
    int64_t process; /* id; of a role: its first member */
    int depth;
    size_t first, members, alive; /* members are model->members[first ..] */
    size_t group;                 /* when sorted: the place of its role, or its own, among these */
    bool foldable, folded;
    int64_t rss, peak, pss, uss, threads, gpu;
    const struct tide_judged *judged; /* NULL: not judged */
};

enum tide_sort { TIDE_SORT_TREE, TIDE_SORT_MEMORY, TIDE_SORT_GROWTH, TIDE_SORTS };
enum tide_ended { TIDE_ENDED_LARGE, TIDE_ENDED_ALL, TIDE_ENDED_NONE, TIDE_ENDED_CHOICES };
enum tide_pane { TIDE_PANE_NONE, TIDE_PANE_HELP, TIDE_PANE_VERDICT, TIDE_PANE_LOG, TIDE_PANES };

/* What the user wants the caller to do; the caller sets it back to TIDE_WISH_NONE. */
enum tide_wish {
    TIDE_WISH_NONE,
    TIDE_WISH_QUIT,      /* leave the view */
    TIDE_WISH_ASK,       /* leave it, after asking what becomes of the program */
    TIDE_WISH_INTERRUPT, /* Ctrl-C for the program */
    TIDE_WISH_REDRAW,    /* other output may have overwritten the screen */
};

/* The state of one process at the cursor. */
struct tide_row_moment {
    int64_t rss, pss, uss, gpu, threads;
    bool begun, alive;
    int64_t peak;       /* of RSS, over all points; kept between updates */
    size_t peak_points; /* points that are included in `peak` */
};

struct tide_model {
    const struct tide_history *history;
    const struct tide_assessment *assessment; /* NULL: none yet */

    enum tide_sort sort;
    enum tide_pane pane;
    enum tide_wish wish;
    bool by_steps;         /* the axis; only while there are steps */
    enum tide_ended ended; /* which processes that have ended are shown */
    bool from_zero;        /* the chart starts at 0 */
    bool following;
    bool playing;
    bool live;         /* the recording may still grow */
    bool owns_program; /* quitting must ask about the program while it runs */
    bool program_ended;
    int64_t silent_ns; /* time since a live recording last grew, if unusually long; else 0 */
    bool interrupted;  /* Ctrl-C was passed on already */
    int zoom;          /* the window is the whole run / 2^zoom */
    double speed;      /* of playing, as a multiple of real time */
    int64_t end_ns;    /* newest moment of the recording */
    int64_t cursor_ns;
    double window_from, window_to; /* on the axis: steps or seconds */
    int pane_scroll;
    int page_rows; /* rows that the table shows; set when drawing */
    size_t top;    /* first row shown */
    uint64_t chosen_key;
    size_t chosen;

    struct tide_row *rows;
    size_t row_count, row_capacity;
    int64_t *members;
    struct tide_axis axis;     /* steps, where there are any */
    struct tide_phases phases; /* as the program told them */
    struct tide_history_mark *epochs;
    size_t epoch_count;
    struct tide_arena marks_arena; /* holds these three */
    size_t marks, ticks;           /* of the history that they were made from */
    struct tide_map toggled;       /* keys of rows that the user folded or unfolded */
    struct tide_row_moment *moments;
    size_t moment_capacity, member_capacity;
    int64_t *sums; /* of a role: private bytes, then RSS, one of each per tick */
    size_t sum_capacity;
    int64_t peak_bytes; /* of the tree, over the first peak_ticks ticks */
    size_t peak_ticks;
};

void tide_model_init(struct tide_model *model);
void tide_model_release(struct tide_model *model);

/* Sets a history and an assessment (may be NULL) that are new or have grown. -1: out of memory; there are no
 * rows then. */
int tide_model_update(struct tide_model *model, const struct tide_history *history,
                      const struct tide_assessment *assessment);

/* Makes the rows at the cursor (in view_rows.c, for view_model.c only). -1: out of memory; there are no rows
 * then. */
int tide_rows_build(struct tide_model *model);

/* Handles a key. False if it has no meaning. */
bool tide_model_key(struct tide_model *model, int key);

/* Advances playing by that much real time. True if anything moved. */
bool tide_model_advance(struct tide_model *model, int64_t elapsed_ns);

/* True if the axis is steps: they were chosen and there are some. */
bool tide_model_steps_shown(const struct tide_model *model);

/* The extent of the axis, and the place of a moment on it. */
void tide_model_extent(const struct tide_model *model, double *ret_from, double *ret_to);
double tide_model_x(const struct tide_model *model, int64_t t_ns);

/* Returns count + 1 times: those at which `count` columns of [from, to] begin, and the end of the last. */
void tide_model_edges(const struct tide_model *model, double from, double to, size_t count,
                      int64_t *ret_edges);

/* Returns the memory of a row over time, borrowed until the next call or update. */
struct tide_strided tide_model_series(struct tide_model *model, const struct tide_row *row);

/* Makes the sparkline of a row over the window, at most TIDE_SPARK_MAX columns. Finds a role's peak too. */
void tide_model_spark(struct tide_model *model, struct tide_row *row, int columns, struct tide_bin *ret_bins);

/* Escaped: "python", "20 x compile_worker". */
char *tide_model_name(const struct tide_model *model, const struct tide_row *row, char *out, size_t size);

/* Returns the bytes per step (or second) by which a row's floor grows; 0 if it does not. */
double tide_row_growth(const struct tide_row *row);

/* Returns the steps per second shortly before the cursor; NAN if unknown. */
double tide_model_pace(const struct tide_model *model);

/* One row of the key help; NULL after the last. */
struct tide_key_help {
    const char *keys, *help;
};
const struct tide_key_help *tide_model_help(size_t i);

#endif
