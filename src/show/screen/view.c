#include "show/screen/view.h"
#include "base/text.h"
#include "base/units.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void draw_rule(struct tide_cells *cells, int row)
{
    for (int c = 0; c < cells->columns; c++)
        tide_cells_rune(cells, row, c, TIDE_STYLE_DIM, cells->ascii ? '-' : 0x2500);
}

/* The text is valid until the end of the enclosing block. */
#define CLOCK(ns) clock_text(ns, (char[TIDE_UNITS_TEXT]){0})

/* Hours, minutes and seconds: "0:12:09". */
static char *clock_text(int64_t ns, char out[static TIDE_UNITS_TEXT])
{
    int64_t seconds = ns / 1000000000;
    snprintf(out, TIDE_UNITS_TEXT, "%" PRId64 ":%02" PRId64 ":%02" PRId64, seconds / 3600, seconds / 60 % 60,
             seconds % 60);
    return out;
}

/* Returns the epoch at the cursor, or NULL. */
static const struct tide_history_mark *epoch_now(const struct tide_model *model)
{
    for (size_t i = model->epoch_count; i-- > 0;)
        if (model->epochs[i].t_ns <= model->cursor_ns)
            return &model->epochs[i];
    return NULL;
}

/* "step 4,000  3.2 steps/s  epoch 3  0:12:09". */
static void status_text(const struct tide_model *model, char *out, size_t size)
{
    const struct tide_history_mark *epoch = epoch_now(model);
    const struct tide_axis *axis = &model->axis;
    double step = axis->is_steps ? tide_axis_between(axis, model->cursor_ns) : NAN;
    out[0] = '\0';
    if (isfinite(step)) {
        double pace = tide_model_pace(model);
        tide_text_add(out, size, "step %s  ", TIDE_COUNT(floor(step)));
        if (isfinite(pace))
            tide_text_add(out, size, pace < 9.95 ? "%.2g steps/s  " : "%.0f steps/s  ", pace);
    }
    if (epoch)
        tide_text_add(out, size, "epoch %s  ", TIDE_COUNT((double)epoch->number));
    tide_text_add(out, size, "%s", CLOCK(model->cursor_ns));
}

/* Says whether the moment shown is the newest, and whether the recording still grows. */
static enum tide_style state_text(const struct tide_model *model, char *out, size_t size)
{
    if (model->playing) {
        snprintf(out, size, "PLAYING x%.3g", model->speed);
        return TIDE_STYLE_STRONG;
    }
    if (!model->following) {
        snprintf(out, size, model->live ? "FROZEN, %s behind" : "%s before the end",
                 CLOCK(model->end_ns - model->cursor_ns));
        return TIDE_STYLE_DOUBT;
    }
    if (model->history->exit_status != TIDE_UNKNOWN) {
        snprintf(out, size, "ended, status %" PRId64, model->history->exit_status);
        return model->history->exit_status ? TIDE_STYLE_BAD : TIDE_STYLE_GOOD;
    }
    bool ended = model->history->ended_ns != TIDE_UNKNOWN;
    if (ended || model->program_ended || tide_history_broke_off(model->history)) {
        snprintf(out, size, "%s", ended ? "ended" : "cut off");
        return ended ? TIDE_STYLE_DIM : TIDE_STYLE_DOUBT;
    }
    if (model->silent_ns > 0) {
        snprintf(out, size, "no sample for %s", CLOCK(model->silent_ns));
        return TIDE_STYLE_DOUBT;
    }
    snprintf(out, size, "%s", model->live ? "LIVE" : "cut off, or not growing now");
    return model->live ? TIDE_STYLE_GOOD : TIDE_STYLE_DOUBT;
}

/* Draws verdict, forecast and status. Returns the lines used. */
static int draw_header(struct tide_cells *cells, const struct tide_model *model,
                       const struct tide_view_info *info)
{
    int columns = cells->columns;
    bool fits = (int)tide_text_columns(info->sentence, strlen(info->sentence)) <= columns;
    int lines = cells->rows >= 20 && !fits ? 2 : 1;
    char status[256];
    tide_cells_wrap(cells, 0, 0, columns, lines, 0, info->mood, info->sentence);
    status_text(model, status, sizeof status);
    const char *const texts[] = {info->brief, status};
    bool named = false;
    for (int i = 0; i < 2; i++) {
        enum tide_style style = i == 0 ? TIDE_STYLE_STRONG : TIDE_STYLE_PLAIN;
        int used = tide_cells_text(cells, lines + i, 0, columns, style, texts[i]) + 2;
        if (named || used + (int)tide_text_columns(info->recording, strlen(info->recording)) > columns)
            continue;
        tide_cells_right(cells, lines + i, used, columns - used, TIDE_STYLE_DIM, info->recording);
        named = true;
    }
    return lines + 2;
}

/* Draws what the chart shows, and at which moment. */
static void draw_title(struct tide_cells *cells, const struct tide_model *model, int row)
{
    char name[128], state[64], about[320] = "";
    const struct tide_row *chosen = &model->rows[model->chosen];
    tide_model_name(model, chosen, name, sizeof name);
    if (chosen->kind == TIDE_ROW_PROCESS) {
        const struct tide_process *process = &model->history->processes[chosen->process - 1].row;
        snprintf(about, sizeof about, "[%" PRId64 "] private memory  %s", process->pid,
                 TIDE_SHOWN(process->command, 200));
    } else {
        snprintf(about, sizeof about, ", shared pages counted once");
    }
    draw_rule(cells, row);
    enum tide_style style = state_text(model, state, sizeof state);
    int right = (int)tide_text_columns(state, strlen(state)) + 2;
    int used = 1;
    if (model->zoom > 0) {
        char zoom[32];
        int len = snprintf(zoom, sizeof zoom, " zoom x%ld ", 1L << model->zoom);
        right += len;
        tide_cells_text(cells, row, cells->columns - right - 1, len, TIDE_STYLE_STRONG, zoom);
    }
    int room = cells->columns - right - 4;
    tide_cells_text(cells, row, used++, 1, TIDE_STYLE_PLAIN, " ");
    used += tide_cells_text(cells, row, used, room, TIDE_STYLE_STRONG, name);
    used += tide_cells_text(cells, row, used, room - used, TIDE_STYLE_PLAIN, about);
    tide_cells_text(cells, row, used, 1, TIDE_STYLE_PLAIN, " ");
    int len = (int)tide_text_columns(state, strlen(state));
    tide_cells_format(cells, row, cells->columns - len - 3, len + 2, style, " %s ", state);
}

static void mark_text(const struct tide_model *model, const struct tide_history_mark *mark, char *out,
                      size_t size)
{
    static const char *const formats[TIDE_MARK_KINDS] = {[TIDE_MARK_STEP] = "step %s",
                                                         [TIDE_MARK_EPOCH] = "epoch %s",
                                                         [TIDE_MARK_PHASE_BEGIN] = "%s begins",
                                                         [TIDE_MARK_PHASE_END] = "%s ends",
                                                         [TIDE_MARK_ITEMS] = "%s items"};
    bool phase = mark->kind == TIDE_MARK_PHASE_BEGIN || mark->kind == TIDE_MARK_PHASE_END;
    char name[64];
    tide_history_name(model->history, mark->name, name, sizeof name);
    if (formats[mark->kind])
        snprintf(out, size, formats[mark->kind], phase ? name : TIDE_COUNT((double)mark->number));
    else
        snprintf(out, size, "%s %s", name, TIDE_SIZE((double)mark->number));
}

/* Draws the newest note at the cursor, in at most half the line. Returns the columns used. */
static int draw_note(struct tide_cells *cells, const struct tide_model *model, int row)
{
    const struct tide_history *history = model->history;
    for (size_t i = history->note_count; i-- > 0;) {
        if (history->notes[i].t_ns > model->cursor_ns)
            continue;
        return 2 + tide_cells_format(cells, row, 0, cells->columns / 2, TIDE_STYLE_DOUBT, "note: %s",
                                     TIDE_SHOWN(history->notes[i].text, 512));
    }
    return 0;
}

/* Draws a note, the running phases, then the last marks that are not steps, newest first. */
static void draw_marks(struct tide_cells *cells, const struct tide_model *model, int row)
{
    enum { SHOWN = 4, LOOKED_AT = 4096 };
    const struct tide_history *history = model->history;
    char text[160];
    const int noted = draw_note(cells, model, row);
    int at = noted;
    for (size_t i = 0; i < model->phases.count && model->phases.all[i].from_ns <= model->cursor_ns; i++) {
        const struct tide_phase *phase = &model->phases.all[i];
        if (!tide_phase_runs(phase, model->cursor_ns))
            continue;
        at += tide_cells_text(cells, row, at, cells->columns - at, TIDE_STYLE_DIM, at == noted ? "in " : "");
        tide_history_name(history, phase->name, text, sizeof text);
        at += tide_cells_format(cells, row, at, cells->columns - at, TIDE_STYLE_PHASE, "%s (%s) ", text,
                                TIDE_DURATION((double)(model->cursor_ns - phase->from_ns) / 1e9));
    }
    int shown = 0;
    size_t looked = 0;
    for (size_t i = history->mark_count; i-- > 0 && shown < SHOWN && looked < LOOKED_AT; looked++) {
        const struct tide_history_mark *mark = &history->marks[i];
        if (mark->t_ns > model->cursor_ns || mark->kind == TIDE_MARK_STEP)
            continue;
        char what[128];
        mark_text(model, mark, what, sizeof what);
        at += tide_cells_format(cells, row, at, cells->columns - at, TIDE_STYLE_DIM, "%s%s %s",
                                shown++ ? ", " : "marks: ", what, CLOCK(mark->t_ns));
    }
    if (at == 0)
        tide_cells_text(cells, row, 0, cells->columns, TIDE_STYLE_DIM,
                        model->axis.is_steps ? "no phases or other marks" : "no marks: the axis is time");
}

static void draw_keys(struct tide_cells *cells, const struct tide_model *model,
                      const struct tide_view_info *info, int row)
{
    static const char *const sorts[] = {"tree", "memory", "growth"};
    static const char *const ended[] = {"ended:large", "ended:all", "ended:none"};
    if (info->message[0]) {
        tide_cells_text(cells, row, 0, cells->columns, TIDE_STYLE_DOUBT, info->message);
        return;
    }
    char sort[32];
    snprintf(sort, sizeof sort, "sort:%s", sorts[model->sort]);
    const char *const keys[][2] = {
        {"?", "help"},
        {"q", "quit"},
        {"s", sort},
        {"z/Z", "zoom"},
        {"f", model->following ? "freeze" : "follow"},
        {"v", "verdict"},
        {"l", "log"},
        {"t", tide_model_steps_shown(model) ? "time" : "steps"},
        {"p", model->playing ? "pause" : "play"},
        {"enter", "fold"},
        {"e", ended[model->ended]},
    };
    int at = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int need = (int)(strlen(keys[i][0]) + strlen(keys[i][1])) + 2;
        if (at + need > cells->columns)
            break;
        at += tide_cells_text(cells, row, at, cells->columns - at, TIDE_STYLE_KEY, keys[i][0]);
        at += tide_cells_format(cells, row, at, cells->columns - at, TIDE_STYLE_PLAIN, " %s", keys[i][1]) + 1;
    }
}

/* Draws a pane of text over `rows` lines. Long lines are wrapped; scrolling counts lines of text. */
static void draw_text_pane(struct tide_cells *cells, struct tide_model *model, int top, int rows,
                           const char *title, const char *text, bool from_end)
{
    tide_cells_blank(cells, top, rows);
    draw_rule(cells, top);
    tide_cells_format(cells, top, 1, cells->columns - 2, TIDE_STYLE_STRONG, " %s ", title);
    int lines = 0;
    for (const char *p = text; *p; p++)
        lines += *p == '\n' || !p[1];
    int most = lines > rows - 1 ? lines - (rows - 1) : 0;
    if (model->pane_scroll > most)
        model->pane_scroll = most;
    int skip = from_end ? most - model->pane_scroll : model->pane_scroll;
    for (int i = 0; i < skip && *text; i++) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    for (int row = 1; row < rows && *text;) {
        char line[2048];
        size_t len = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(len < sizeof line ? len : sizeof line - 1), text);
        int used = tide_cells_wrap(cells, top + row, 1, cells->columns - 2, rows - row,
                                   line[0] == ' ' ? 10 : 4, TIDE_STYLE_PLAIN, line);
        row += used ? used : 1;
        text += len;
        text += *text == '\n';
    }
}

static void draw_help_pane(struct tide_cells *cells, int top, int rows)
{
    tide_cells_blank(cells, top, rows);
    draw_rule(cells, top);
    tide_cells_text(cells, top, 1, cells->columns - 2, TIDE_STYLE_STRONG, " Keys ");
    size_t count = 0;
    while (tide_model_help(count))
        count++;
    int room = rows - 1;
    int across = (int)count > room ? 2 : 1, width = cells->columns / across;
    size_t lines = (count + (size_t)across - 1) / (size_t)across;
    for (size_t i = 0; i < count; i++) {
        int column = (int)(i / lines) * width, row = top + 1 + (int)(i % lines);
        if (row >= top + rows)
            continue;
        const struct tide_key_help *help = tide_model_help(i);
        tide_cells_text(cells, row, column + 1, 11, TIDE_STYLE_KEY, help->keys);
        tide_cells_text(cells, row, column + 13, width - 14, TIDE_STYLE_PLAIN, help->help);
    }
    int row = top + 2 + (int)lines;
    if (row + 1 < top + rows)
        tide_cells_wrap(
            cells, row, 1, cells->columns - 2, top + rows - row, 0, TIDE_STYLE_DIM,
            "The solid body of the chart is the floor: the level memory returns to. Dots above it are "
            "spikes. FLOOR/STEP says by how much a floor grows. RSS counts a shared page in every "
            "process, PSS counts it once.");
}

void tide_view_question(struct tide_cells *cells)
{
    static const char *const lines[] = {
        "",
        "The program is still running.",
        "  d   leave it running, detached; recording continues",
        "  s   stop it (SIGTERM; then Ctrl-C kills it) and quit",
        "  any other key goes back to the view",
        "",
    };
    enum { LINES = sizeof lines / sizeof *lines };
    int top = (cells->rows - LINES) / 2;
    tide_cells_blank(cells, top, LINES);
    for (int i = 0; i < LINES; i++)
        tide_cells_text(cells, top + i, 2, cells->columns - 4, i == 1 ? TIDE_STYLE_STRONG : TIDE_STYLE_PLAIN,
                        lines[i]);
}

static void draw_pane(struct tide_cells *cells, struct tide_model *model, const struct tide_view_info *info,
                      int top, int rows)
{
    switch (model->pane) {
    case TIDE_PANE_HELP:
        draw_help_pane(cells, top, rows);
        break;
    case TIDE_PANE_VERDICT:
        draw_text_pane(cells, model, top, rows, "Verdict so far", info->verdict_text, false);
        break;
    case TIDE_PANE_LOG:
        draw_text_pane(cells, model, top + rows / 2, rows - rows / 2, "What the program printed",
                       info->log_text[0] ? info->log_text : "its output is not known", true);
        break;
    default:
        break;
    }
}

/* Returns the chart's part of `rows` lines: the table gets what it needs, but at most half. */
static int chart_share(const struct tide_model *model, int rows)
{
    int table = (int)(model->row_count < 200 ? model->row_count : 200) + 1;
    int most = rows / 2 > 4 ? rows / 2 : 4;
    return rows - (table < most ? table : most);
}

void tide_view_draw(struct tide_cells *cells, struct tide_model *model, const struct tide_view_info *info)
{
    tide_cells_clear(cells);
    if (cells->columns < TIDE_VIEW_COLUMNS || cells->rows < TIDE_VIEW_ROWS) {
        char text[96];
        snprintf(text, sizeof text, "%dx%d is too small: %dx%d is needed", cells->columns, cells->rows,
                 TIDE_VIEW_COLUMNS, TIDE_VIEW_ROWS);
        tide_cells_wrap(cells, 0, 0, cells->columns, cells->rows, 0, TIDE_STYLE_PLAIN, text);
        return;
    }
    if (!model->history || model->history->tick_count == 0 || model->row_count == 0) {
        tide_cells_text(cells, 0, 0, cells->columns, TIDE_STYLE_STRONG, info->sentence);
        draw_pane(cells, model, info, 1, cells->rows - 2);
        draw_keys(cells, model, info, cells->rows - 1);
        return;
    }
    int top = draw_header(cells, model, info), bottom = cells->rows - 2;
    draw_title(cells, model, top);
    int chart = chart_share(model, bottom - top - 1), table = top + 1 + chart;
    model->page_rows = bottom - table - 1;
    tide_chart_draw(cells, model, top + 1, chart);
    tide_table_draw(cells, model, table, bottom - table);
    draw_marks(cells, model, bottom);
    draw_keys(cells, model, info, bottom + 1);
    draw_pane(cells, model, info, top, bottom - top);
}
