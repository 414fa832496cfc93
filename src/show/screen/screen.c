#include "show/screen/screen.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "show/screen/door.h"
#include "show/screen/log.h"
#include "show/screen/view.h"
#include "show/text/verdict_text.h"
#include "term/term.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define WHO        "the full-screen view"
#define FRAME_NS   INT64_C(250000000)
#define MESSAGE_NS INT64_C(5000000000)
#define SHARE      20 /* reading and judging may each take 1/20 of the time */
#define SILENCE_NS INT64_C(5000000000)
#define SECOND_NS  INT64_C(1000000000)
#define PART_NS    INT64_C(100000000) /* time for reading a large recording between two checks for keys */

enum { ALSO_JUDGED = 100 }; /* series beside the worst that are listed */

/* Judging, in a thread of its own. While it runs, nobody changes the history. */
struct judging {
    pthread_t thread;
    bool running;
    atomic_bool done, stop;
    const struct tide_history *history;
    struct tide_assess_options options;
    struct tide_assessment *result;
    struct tide_err err;
    int64_t cost_ns, ended_ns;
    size_t ticks; /* ticks that were judged */
};

/* The state of a recording's files, to detect changes. */
struct stamp {
    struct timespec file_changed, log_changed;
    off_t file_bytes, log_bytes;
    ino_t log_number;
};

struct screen {
    struct tide_screen_config config;
    struct tide_history *history;
    struct tide_assessment *assessment;
    struct judging judging;
    struct tide_model model;
    struct tide_cells cells;
    struct tide_door *door; /* NULL: a dump */
    struct tide_buf log;
    struct stamp stamp;
    char path[PATH_MAX], log_path[PATH_MAX + 8];
    char sentence[1024], brief[256], message[160], recording[256];
    char *verdict_text; /* allocated; NULL before the first verdict */
    enum tide_style mood;
    int64_t message_until_ns;
    int64_t grown_ns; /* when the recording last grew; 0: never */
    int64_t load_cost_ns, loaded_ns, drawn_ns, played_ns, opened_ns;
    const char *keys;
    int64_t frame;
    bool unread;  /* the recording has more than was read so far */
    bool dirty;   /* something the screen shows has changed */
    bool pressed; /* a key was pressed: draw at once */
};

static const struct {
    const char *name;
    int key;
} key_names[] = {
    {"up", TIDE_KEY_UP},
    {"down", TIDE_KEY_DOWN},
    {"left", TIDE_KEY_LEFT},
    {"right", TIDE_KEY_RIGHT},
    {"pgup", TIDE_KEY_PAGE_UP},
    {"pgdn", TIDE_KEY_PAGE_DOWN},
    {"home", TIDE_KEY_HOME},
    {"end", TIDE_KEY_END},
    {"enter", TIDE_KEY_ENTER},
    {"esc", TIDE_KEY_ESCAPE},
    {"ctrl-c", TIDE_KEY_INTERRUPT},
    {"space", ' '},
    {"less", '<'},
    {"none", 0x10ffff},
};

int tide_screen_key(const char *text, const char **ret_rest)
{
    if (*text != '<') {
        *ret_rest = text + (*text != '\0');
        return (unsigned char)*text;
    }
    for (size_t i = 0; i < sizeof key_names / sizeof *key_names; i++) {
        size_t len = strlen(key_names[i].name);
        if (!strncmp(text + 1, key_names[i].name, len) && text[len + 1] == '>') {
            *ret_rest = text + len + 2;
            return key_names[i].key;
        }
    }
    return 0;
}

static void say(struct screen *screen, int64_t now_ns, const char *text)
{
    snprintf(screen->message, sizeof screen->message, "%s", text);
    screen->message_until_ns = now_ns + MESSAGE_NS;
    screen->dirty = true;
}

/* ---- judging */

static void *judge(void *argument)
{
    struct judging *judging = argument;
    int64_t began_ns = tide_clock_ns();
    judging->result = NULL;
    judging->err = (struct tide_err){0};
    tide_assess_history(judging->history, &judging->options, &judging->result, &judging->err);
    judging->cost_ns = tide_clock_ns() - began_ns;
    atomic_store_explicit(&judging->done, true, memory_order_release);
    return NULL;
}

static bool judging_due(const struct screen *screen, int64_t now_ns)
{
    const struct judging *judging = &screen->judging;
    if (judging->running || screen->unread || screen->history->tick_count == 0)
        return false;
    if (judging->ticks == screen->history->tick_count)
        return false;
    return judging->ticks == 0 || now_ns - judging->ended_ns >= judging->cost_ns * SHARE;
}

/* Starts a thread, with all signals blocked in it. Without a terminal judges at once, so that frames do not
 * depend on timing. */
static void start_judging(struct screen *screen)
{
    struct judging *judging = &screen->judging;
    sigset_t all, old;
    judging->history = screen->history;
    judging->options = screen->config.assess;
    judging->options.stop = &judging->stop;
    judging->ticks = screen->history->tick_count;
    judging->running = true;
    if (!screen->assessment)
        snprintf(screen->sentence, sizeof screen->sentence, "judging what is there so far");
    atomic_store(&judging->done, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool threaded = screen->door && !pthread_create(&judging->thread, NULL, judge, judging);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!threaded) {
        judge(judging);
        judging->thread = pthread_self();
    }
}

/* Prints what a reader of the verdict should know about the recording. */
static void print_remarks(const struct tide_history *history, FILE *out)
{
    if (history->note_count || history->skipped_rows || history->thinned > 1)
        fprintf(out, "\nAbout the recording:\n");
    if (history->thinned > 1)
        fprintf(out, "it does not fit into memory: of every %u looks the lowest and the highest are kept\n",
                tide_history_cell_ticks(history));
    if (history->skipped_rows)
        fprintf(out, "%lld invalid rows were left out\n", (long long)history->skipped_rows);
    for (size_t i = 0; i < history->note_count; i++)
        fprintf(out, "after %s: %s\n", TIDE_DURATION((double)history->notes[i].t_ns / 1e9),
                TIDE_SHOWN(history->notes[i].text, 512));
}

/* Makes all texts that the screen shows about an assessment. */
static void put_into_words(struct screen *screen)
{
    const struct tide_assessment *assessment = screen->assessment;
    size_t len = 0;
    free(screen->verdict_text);
    screen->verdict_text = NULL;
    if (!assessment) {
        snprintf(screen->sentence, sizeof screen->sentence, "not judged yet: %s", screen->judging.err.text);
        snprintf(screen->brief, sizeof screen->brief, "%s", screen->judging.err.hint);
        screen->mood = TIDE_STYLE_DOUBT;
        return;
    }
    screen->mood = assessment->death.cause != TIDE_DEATH_NONE
                       ? TIDE_STYLE_BAD
                       : tide_verdict_style(&assessment->judged[0].verdict);
    tide_assessment_sentence(assessment, screen->sentence, sizeof screen->sentence);
    tide_assessment_brief(assessment, screen->brief, sizeof screen->brief);
    if (isfinite(assessment->limit_bytes))
        tide_text_add(screen->brief, sizeof screen->brief, "  (limit %s: %s)",
                      TIDE_SIZE(assessment->limit_bytes), assessment->limit_name);
    FILE *out = open_memstream(&screen->verdict_text, &len);
    if (!out)
        return;
    tide_assessment_print(assessment, out);
    if (fflush(out) == 0 && screen->door)
        tide_door_say(screen->door, screen->verdict_text);
    for (size_t i = 1; i < assessment->count && i <= ALSO_JUDGED; i++) {
        char sentence[1024];
        tide_judged_sentence(&assessment->judged[i], assessment, sentence, sizeof sentence);
        fprintf(out, "%s%s\n", i == 1 ? "\nAlso judged:\n" : "", sentence);
    }
    if (assessment->count > ALSO_JUDGED + 1)
        fprintf(out, "and %zu more\n", assessment->count - ALSO_JUDGED - 1);
    print_remarks(screen->history, out);
    fclose(out);
}

/* Takes the result of judging that is done. */
static void end_judging(struct screen *screen)
{
    struct judging *judging = &screen->judging;
    if (!pthread_equal(judging->thread, pthread_self()))
        pthread_join(judging->thread, NULL);
    judging->running = false;
    judging->ended_ns = tide_clock_ns();
    tide_assessment_free(screen->assessment);
    screen->assessment = judging->result;
    judging->result = NULL;
    put_into_words(screen);
    tide_model_update(&screen->model, screen->history, screen->assessment);
    screen->dirty = true;
}

/* ---- reading */

/* True if the writer of the recording is known to be done. */
static bool has_ended(struct screen *screen)
{
    const struct tide_screen_config *config = &screen->config;
    if (screen->door)
        return tide_door_program_ended(screen->door);
    return config->ended && config->ended(config->context);
}

/* A recording is live if it grows while we watch, or if the caller says so. */
static void notice_growth(struct screen *screen, int64_t now_ns, bool grown)
{
    struct tide_model *model = &screen->model;
    if (grown) {
        if (screen->grown_ns > 0 && screen->history->ended_ns == TIDE_UNKNOWN)
            model->live = true;
        screen->grown_ns = now_ns;
    }
    int64_t usual_ns = SILENCE_NS + 5 * (screen->history->interval_ns > 0 ? screen->history->interval_ns : 0);
    int64_t silent_ns = screen->grown_ns > 0 ? now_ns - screen->grown_ns : 0;
    silent_ns = model->live && silent_ns > usual_ns ? silent_ns : 0;
    if (silent_ns / SECOND_NS != model->silent_ns / SECOND_NS)
        screen->dirty = true;
    model->silent_ns = silent_ns;
}

/* True if the file or its write-ahead log has changed since the last call: cheaper than opening it. */
static bool has_changed(struct screen *screen)
{
    char log[PATH_MAX + 8];
    struct stat file = {0}, wal = {0};
    snprintf(log, sizeof log, "%s-wal", screen->path);
    bool there = stat(screen->path, &file) == 0;
    if (stat(log, &wal))
        wal = (struct stat){0};
    struct stamp now = {file.st_mtim, wal.st_mtim, file.st_size, wal.st_size, wal.st_ino};
    bool same = there && !memcmp(&now, &screen->stamp, sizeof now);
    screen->stamp = now;
    return !same;
}

/* Loads the recording; on a terminal only a part at a time, so that keys never wait. */
static int load(struct screen *screen, struct tide_reader *reader, struct tide_err *err)
{
    struct tide_history *history = screen->history;
    int left = screen->config.dump ? tide_history_load(history, reader, err)
                                   : tide_history_load_part(history, reader, PART_NS, err);
    if (left < 0)
        return -1;
    if (left > 0 && !screen->assessment)
        snprintf(screen->sentence, sizeof screen->sentence, "reading the recording: %zu looks so far",
                 history->tick_count);
    screen->unread = left > 0;
    return 0;
}

/* The recording is open only while it is read: its writer can then be the last to close it, and tidies up. */
static int read_recording(struct screen *screen, int64_t now_ns, struct tide_err *err)
{
    struct tide_history *history = screen->history;
    struct tide_reader *reader = NULL;
    int64_t began_ns = tide_clock_ns();
    if (!has_changed(screen) && !screen->unread) {
        notice_growth(screen, now_ns, false);
        return 0;
    }
    history->unwritten = !tide_reader_is_written(screen->path);
    if (tide_reader_new(screen->path, &reader, err))
        return -1;
    size_t ticks = history->tick_count, marks = history->mark_count, processes = history->process_count;
    int64_t ended_ns = history->ended_ns;
    bool went_on = screen->unread; /* continues with rows that were already there */
    int bad = load(screen, reader, err);
    tide_reader_free(reader);
    if (bad)
        return -1;
    notice_growth(screen, now_ns, history->tick_count != ticks && !went_on);
    if (history->tick_count != ticks || history->mark_count != marks || history->process_count != processes ||
        history->ended_ns != ended_ns) {
        if (tide_model_update(&screen->model, history, screen->assessment))
            return tide_err_set(err, "not enough memory for this recording");
        screen->dirty = true;
    }
    screen->loaded_ns = tide_clock_ns();
    screen->load_cost_ns = screen->loaded_ns - began_ns;
    return 0;
}

static bool reading_due(const struct screen *screen, int64_t now_ns)
{
    int64_t pause = screen->load_cost_ns * SHARE;
    if (screen->unread)
        return !screen->judging.running && now_ns >= screen->loaded_ns;
    if (screen->history->ended_ns != TIDE_UNKNOWN && screen->history->tick_count > 0)
        return false; /* the recording is complete */
    return !screen->judging.running && now_ns - screen->loaded_ns >= (pause > FRAME_NS ? pause : FRAME_NS);
}

/* ---- keys */

static void press(struct screen *screen, int64_t now_ns, int key)
{
    struct tide_model *model = &screen->model;
    if (!tide_model_key(model, key))
        return;
    screen->dirty = screen->pressed = true;
    screen->message[0] = '\0';
    if (model->wish == TIDE_WISH_REDRAW && screen->door)
        tide_door_tell(screen->door, TIDE_DOOR_REDRAW);
    else if (model->wish == TIDE_WISH_ASK && screen->door)
        tide_door_tell(screen->door, TIDE_DOOR_LEAVE);
    else if (model->wish == TIDE_WISH_INTERRUPT) {
        if (!screen->door) /* the door has passed it on already */
            screen->config.interrupt(screen->config.context);
        say(screen, now_ns, "Ctrl-C was sent to the program; press it again to decide what becomes of it");
    }
    if (model->wish != TIDE_WISH_QUIT)
        model->wish = TIDE_WISH_NONE;
}

/* Notices the end of the program, if there is one. */
static void look_at_program(struct screen *screen, int64_t now_ns)
{
    struct tide_model *model = &screen->model;
    if (model->program_ended || screen->judging.running || !has_ended(screen))
        return;
    struct tide_err ignored;
    read_recording(screen, now_ns, &ignored); /* the last rows say whether the recording was closed */
    bool closed = screen->history->ended_ns != TIDE_UNKNOWN;
    model->program_ended = true;
    if (screen->door)
        tide_door_tell(screen->door, TIDE_DOOR_PROGRAM_ENDED);
    screen->dirty = true;
    if (model->interrupted)
        model->wish = TIDE_WISH_QUIT;
    else
        say(screen, now_ns, closed ? "the program has ended; q quits" : "the tracker was killed; q quits");
}

/* ---- drawing */

static void draw(struct screen *screen, int64_t now_ns)
{
    if (screen->message[0] && now_ns > screen->message_until_ns)
        screen->message[0] = '\0';
    if (screen->model.pane == TIDE_PANE_LOG)
        tide_log_read(&screen->log, screen->config.log_path ? screen->log_path : NULL);
    struct tide_view_info info = {.recording = screen->recording,
                                  .sentence = screen->sentence,
                                  .brief = screen->brief,
                                  .verdict_text =
                                      screen->verdict_text ? screen->verdict_text : screen->sentence,
                                  .log_text = tide_buf_view(&screen->log),
                                  .message = screen->message,
                                  .mood = screen->mood};
    tide_view_draw(&screen->cells, &screen->model, &info);
    if (screen->door)
        tide_door_show(screen->door, &screen->cells);
    screen->drawn_ns = now_ns;
    screen->dirty = screen->pressed = false;
    screen->frame++;
}

static int fit(struct screen *screen, struct tide_err *err)
{
    int columns = 80, rows = 24;
    if (screen->door)
        tide_door_size(screen->door, &columns, &rows);
    if (screen->config.columns > 0 && screen->config.columns < columns + (screen->door ? 0 : 1000))
        columns = screen->config.columns;
    if (screen->config.rows > 0 && screen->config.rows < rows + (screen->door ? 0 : 1000))
        rows = screen->config.rows;
    if (tide_cells_resize(&screen->cells, columns, rows))
        return tide_err_set(err, "not enough memory for a screen of %dx%d", columns, rows);
    screen->dirty = screen->pressed = true;
    return 0;
}

/* ---- the loop */

/* Keeps what was read on the screen if the file can no longer be read. Fails if nothing was read. */
static int bear(struct screen *screen, int64_t now_ns, const struct tide_err *err)
{
    if (screen->history->tick_count == 0)
        return -1;
    say(screen, now_ns, err->text);
    screen->stamp = (struct stamp){0};
    screen->loaded_ns = now_ns + SECOND_NS; /* retry later */
    return 0;
}

/* Reads, judges and plays as far as each is due. */
static int go_on(struct screen *screen, int64_t now_ns, struct tide_err *err)
{
    if (reading_due(screen, now_ns) && read_recording(screen, now_ns, err) && bear(screen, now_ns, err))
        return -1;
    if (screen->judging.running && atomic_load_explicit(&screen->judging.done, memory_order_acquire))
        end_judging(screen);
    if (judging_due(screen, now_ns)) {
        start_judging(screen);
        if (!screen->door)
            end_judging(screen);
    }
    look_at_program(screen, now_ns);
    if (tide_model_advance(&screen->model, now_ns - screen->played_ns))
        screen->dirty = true;
    screen->played_ns = now_ns;
    return 0;
}

static void next_key(struct screen *screen, int64_t now_ns)
{
    if (!screen->keys || !*screen->keys)
        return;
    int key = tide_screen_key(screen->keys, &screen->keys);
    if (key)
        press(screen, now_ns, key);
}

static bool over(const struct screen *screen)
{
    return screen->model.wish == TIDE_WISH_QUIT ||
           (screen->config.frames > 0 && screen->frame >= screen->config.frames);
}

static int run_on_terminal(struct screen *screen, struct tide_err *err)
{
    while (!over(screen)) {
        int64_t now_ns = tide_clock_ns();
        if (go_on(screen, now_ns, err))
            return -1;
        if (screen->message[0] && now_ns > screen->message_until_ns)
            screen->dirty = true;
        bool log_moves = screen->model.pane == TIDE_PANE_LOG && screen->config.live;
        bool counted = screen->config.frames > 0;
        if (screen->pressed ||
            ((screen->dirty || log_moves || counted) && now_ns - screen->drawn_ns >= FRAME_NS)) {
            if (counted)
                next_key(screen, now_ns);
            draw(screen, now_ns);
        }
        int key = 0;
        switch (tide_door_wait(screen->door, screen->unread ? 0 : FRAME_NS / 2, &key)) {
        case TIDE_TERM_KEY:
            press(screen, tide_clock_ns(), key);
            break;
        case TIDE_TERM_RESIZED:
            if (fit(screen, err))
                return -1;
            break;
        case TIDE_TERM_LEAVE:
            screen->model.wish = TIDE_WISH_QUIT;
            break;
        default:
            break;
        }
    }
    return 0;
}

static int run_into_dump(struct screen *screen, struct tide_err *err)
{
    int64_t start_ns = screen->opened_ns;
    do {
        int64_t now_ns = screen->config.live ? tide_clock_ns() : start_ns + screen->frame * FRAME_NS;
        screen->loaded_ns = now_ns - FRAME_NS;
        screen->load_cost_ns = 0;
        if (go_on(screen, now_ns, err))
            return -1;
        next_key(screen, now_ns);
        draw(screen, now_ns);
        if (screen->config.live && !over(screen)) {
            struct timespec frame = {.tv_nsec = FRAME_NS};
            nanosleep(&frame, NULL);
        }
    } while (!over(screen) && screen->config.frames > 0);
    tide_cells_dump(&screen->cells, screen->config.out);
    return 0;
}

static int start(struct screen *screen, const struct tide_screen_config *config, struct tide_err *err)
{
    screen->config = *config;
    snprintf(screen->path, sizeof screen->path, "%s", config->path);
    snprintf(screen->log_path, sizeof screen->log_path, "%s", config->log_path ? config->log_path : "");
    screen->opened_ns = screen->played_ns = tide_clock_ns();
    screen->loaded_ns = screen->drawn_ns = screen->opened_ns - FRAME_NS;
    screen->keys = screen->config.keys;
    screen->mood = TIDE_STYLE_DIM;
    snprintf(screen->sentence, sizeof screen->sentence, "waiting for the first sample");
    tide_text_shown(tide_text_last_part(screen->path), screen->recording, sizeof screen->recording);
    tide_model_init(&screen->model);
    tide_cells_init(&screen->cells, !tide_term_unicode());
    tide_buf_init(&screen->log, TIDE_LOG_TEXT);
    screen->model.live = screen->config.live;
    screen->model.owns_program = screen->config.interrupt != NULL;
    if (tide_history_new(0, &screen->history, err))
        return -1;
    /* Reports a file that cannot be opened before the screen changes. */
    struct tide_reader *reader = NULL;
    if (tide_reader_new(screen->path, &reader, err))
        return -1;
    tide_reader_free(reader);
    return 0;
}

static void screen_free(struct screen *screen)
{
    atomic_store(&screen->judging.stop, true); /* its result is no longer needed */
    if (screen->judging.running)
        end_judging(screen);
    tide_assessment_free(screen->assessment);
    tide_model_release(&screen->model);
    tide_cells_release(&screen->cells);
    tide_buf_release(&screen->log);
    tide_history_free(screen->history);
    tide_door_close(screen->door);
    free(screen->verdict_text);
    free(screen);
}

int tide_screen_check(struct tide_err *err)
{
    if (!tide_term_check(WHO, err))
        return 0;
    return tide_err_hint(err, "'tidemark run -- PROG' needs none; 'tidemark show FILE' prints a recording");
}

/* A view that ended after --frames is a test: it must leave nothing running. */
static enum tide_screen_end how_it_ended(const struct screen *screen)
{
    bool counted_out = screen->model.wish == TIDE_WISH_NONE;
    return counted_out ? TIDE_SCREEN_STOP : TIDE_SCREEN_QUIT;
}

/* The view's thread. It reports its end to the terminal's thread before it frees anything. */
static void *view(void *argument)
{
    struct screen *screen = argument;
    struct tide_err err = {0};
    int bad = fit(screen, &err) || run_on_terminal(screen, &err);
    tide_door_end(screen->door, how_it_ended(screen), bad ? &err : NULL);
    screen_free(screen);
    return NULL;
}

/* Signals go to the terminal's thread, except faults of this thread. */
static int start_view(struct screen *screen)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t others, old;
    pthread_attr_t detached;
    pthread_t thread;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&others, faults[i]);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &others, &old);
    int bad = pthread_create(&thread, &detached, view, screen);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&detached);
    return bad;
}

static int show_on_terminal(struct screen *screen, struct tide_screen_outcome *ret_outcome,
                            struct tide_err *err)
{
    struct tide_term *term;
    if (tide_screen_check(err) || tide_term_open(WHO, &term, err)) {
        screen_free(screen);
        return -1;
    }
    struct tide_door *door = screen->door = tide_door_new(term, &screen->config);
    int bad = !door || start_view(screen);
    if (bad) {
        screen_free(screen);
        tide_err_set(err, "the view cannot be started: out of memory, of threads or of descriptors");
    } else {
        bad = tide_door_serve(door, term, ret_outcome, err);
    }
    tide_term_close(term);
    tide_door_close(door);
    return bad ? -1 : 0;
}

int tide_screen_run(const struct tide_screen_config *config, struct tide_screen_outcome *ret_outcome,
                    struct tide_err *err)
{
    struct screen *screen = calloc(1, sizeof *screen);
    if (!screen)
        return tide_err_set(err, "out of memory");
    if (start(screen, config, err)) {
        screen_free(screen);
        return -1;
    }
    if (!config->dump)
        return show_on_terminal(screen, ret_outcome, err);
    int bad = fit(screen, err) || run_into_dump(screen, err) ? -1 : 0;
    if (!bad)
        *ret_outcome = (struct tide_screen_outcome){.end = how_it_ended(screen)};
    screen_free(screen);
    return bad;
}
