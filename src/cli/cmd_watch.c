/*
 * cmd_watch.c - `tidemark watch`: the full-screen view of a recording, of a running tree, or of a command.
 *
 * The view only reads recordings (show/screen/screen.h). For a PID or a command, a second process, the
 * tracker, writes one. It is forked before the view begins and has a session of its own, so neither keys
 * typed at the terminal nor the end of the view reach it or the program; only signals sent on purpose do. It
 * reports its end through a pipe.
 */
#include "cli/command.h"
#include "base/descriptors.h"
#include "base/text.h"
#include "cli/track.h"
#include "record/reader.h"
#include "record/writer.h"
#include "sense/proc_read.h"
#include "show/screen/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct values {
    struct tide_track_config track; /* first: the shared options are offsets in it */
    struct tide_screen_config screen;
    const char *size;
};

#define VIEW(field) offsetof(struct values, field)

/* The first rows are shared with `run` and `attach`; a view has no use for their other options. */
static const struct tide_option options[] = {
    TIDE_TRACK_RECORDING,
    TIDE_TRACK_ITEMS,
    TIDE_TRACK_QUIET,
    {0, "frames", TIDE_OPTION_COUNT, VIEW(screen.frames), "N", NULL, 1, 1000000,
     "for tests: draw N frames, then quit and stop the program that was started"},
    {0, "keys", TIDE_OPTION_TEXT, VIEW(screen.keys), "TEXT", NULL, 0, 0,
     "for tests: press these keys, one per frame; other keys are written '<down>', '<enter>'"},
    {0, "size", TIDE_OPTION_TEXT, VIEW(size), "COLSxROWS", NULL, 0, 0, "for tests: draw at this size"},
    {0, "dump", TIDE_OPTION_FLAG, VIEW(screen.dump), NULL, NULL, 0, 0,
     "for tests: need no terminal, and print the last frame as plain text"},
    {0},
};

/* ---- the tracker */

/* What the tracker reports when it ends. */
struct farewell {
    int failed;
    struct tide_track_outcome outcome;
    struct tide_err err;
};

struct tracker {
    pid_t pid;
    int pipe; /* a struct farewell is read from it */
    bool ended;
    struct farewell farewell;
    char path[PATH_MAX], log_path[PATH_MAX + 8];
};

static void on_late_signal(int signal_number)
{
    (void)signal_number;
}

/* After its work the tracker no longer reads signals. One that comes then must not keep it from reporting.
 * Handlers, unlike SIG_IGN, are not inherited by the program. */
static void outlive_late_signals(void)
{
    static const int late[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction calm = {.sa_handler = on_late_signal, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < sizeof late / sizeof *late; i++)
        sigaction(late[i], &calm, NULL);
}

static _Noreturn void be_tracker(const struct tide_track_config *config, int pipe_end)
{
    struct farewell farewell = {0};
    int nothing = open("/dev/null", O_RDWR);
    setsid();
    for (int fd = 0; nothing >= 0 && fd <= 2; fd++)
        dup2(nothing, fd);
    outlive_late_signals();
    farewell.failed = tide_track(config, &farewell.outcome, &farewell.err);
    tide_write_all(pipe_end, &farewell, sizeof farewell); /* fails if nobody reads it any more */
    _exit(0);
}

static int start_tracker(struct tracker *tracker, const struct tide_track_config *config,
                         struct tide_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return tide_err_set(err, "cannot make a pipe: %s", strerror(errno));
    fflush(NULL);
    tracker->pid = fork();
    if (tracker->pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return tide_err_set(err, "cannot start a process: %s", strerror(errno));
    }
    if (tracker->pid == 0) {
        signal(SIGPIPE, SIG_IGN);
        be_tracker(config, ends[1]);
    }
    close(ends[1]);
    tracker->pipe = ends[0];
    return 0;
}

/* Waits for the tracker's end, at most that long. True if it has ended. */
static bool tracker_ends(struct tracker *tracker, int timeout_ms)
{
    if (tracker->ended)
        return true;
    struct pollfd fd = {.fd = tracker->pipe, .events = POLLIN};
    if (poll(&fd, 1, timeout_ms) <= 0)
        return false;
    size_t got = 0;
    for (ssize_t n; got < sizeof tracker->farewell; got += (size_t)n) {
        n = TEMP_FAILURE_RETRY(
            read(tracker->pipe, (char *)&tracker->farewell + got, sizeof tracker->farewell - got));
        if (n <= 0)
            break;
    }
    if (got < sizeof tracker->farewell) {
        tracker->farewell = (struct farewell){.failed = 1, .outcome = {.exit_code = TIDE_EXIT_TROUBLE}};
        tide_err_set(&tracker->farewell.err, "the recording process was killed");
        tide_err_hint(&tracker->farewell.err, "the recording holds everything up to that moment");
    }
    TEMP_FAILURE_RETRY(waitpid(tracker->pid, NULL, 0));
    close(tracker->pipe);
    tracker->ended = true;
    return true;
}

/* Set by Ctrl-C while there is no view to take it. */
static volatile sig_atomic_t impatient;

static void on_impatience(int signal_number)
{
    (void)signal_number;
    impatient = 1;
}

static bool on_ended(void *context)
{
    return tracker_ends(context, 0);
}

static void on_interrupt(void *context)
{
    struct tracker *tracker = context;
    if (!tracker->ended)
        kill(tracker->pid, SIGINT);
}

static int on_any_tick(void *context, const void *given)
{
    (void)context;
    (void)given;
    return 1;
}

static bool has_sample(const char *path)
{
    struct tide_reader *reader;
    if (access(path, F_OK) || tide_reader_new(path, &reader, NULL))
        return false;
    bool found = tide_reader_each(reader, TIDE_SCHEMA_TICK, 0, on_any_tick, NULL, NULL) == 1;
    tide_reader_free(reader);
    return found;
}

/* Waits until there is a sample to show, or a reason why there will be none. */
static int wait_for_recording(struct tracker *tracker)
{
    enum { PATIENCE_MS = 15000, LOOK_MS = 20, ENDING_MS = 2000 };
    int ending = 0; /* ms that the program may still take to end without a view */
    for (int waited = 0; waited < PATIENCE_MS; waited += LOOK_MS) {
        if (tracker_ends(tracker, LOOK_MS))
            return tracker->farewell.failed;
        if (impatient && !ending) {
            ending = ENDING_MS;
            on_interrupt(tracker);
        }
        if (ending > LOOK_MS) {
            ending -= LOOK_MS;
            continue;
        }
        if (has_sample(tracker->path))
            return 0;
    }
    return 0;
}

/* ---- ending a program that does not want to */

static bool is_alive(const struct tide_process *process)
{
    struct tide_stat stat;
    return !tide_proc_read_stat(AT_FDCWD, process->pid, &stat) &&
           (int64_t)stat.start_ticks == process->start_ticks;
}

/* The live processes of a recorded tree, and what to do with them. */
struct survivors {
    int signal; /* sent to each of them; 0: none */
    bool command_runs;
};

static int on_survivor(void *context, const void *given)
{
    const struct tide_process *process = given;
    struct survivors *survivors = context;
    if (process->ended_ns != TIDE_UNKNOWN || process->pid <= 1 || process->pid == getpid() ||
        !is_alive(process))
        return 0;
    survivors->command_runs |= process->parent == 0;
    if (survivors->signal)
        kill((pid_t)process->pid, survivors->signal);
    return 0;
}

static bool find_survivors(const char *path, struct survivors *survivors)
{
    struct tide_reader *reader;
    if (tide_reader_new(path, &reader, NULL))
        return false;
    int bad = tide_reader_each(reader, TIDE_SCHEMA_PROCESS, TIDE_READER_ALL, on_survivor, survivors, NULL);
    tide_reader_free(reader);
    return !bad;
}

/* Sends SIGTERM and waits: first the command, which may have work to save and needs its helpers for that,
 * then the processes that outlive it. Ctrl-C ends the wait and kills all of them. */
static void stop_program(struct tracker *tracker)
{
    kill(tracker->pid, SIGTERM);
    bool told = false, asked_all = false;
    int killed = -1; /* the value of `waited` at the kill */
    for (int waited = 0; !tracker_ends(tracker, 100); waited += 100) {
        struct survivors survivors = {0};
        if (waited % 1000 == 500 && !asked_all && find_survivors(tracker->path, &survivors) &&
            !survivors.command_runs) {
            survivors.signal = SIGTERM;
            asked_all = find_survivors(tracker->path, &survivors);
        }
        if (waited >= 2000 && !told) {
            fprintf(stderr, "tidemark: waiting for the program to end; Ctrl-C kills it\n");
            told = true;
        }
        /* When the command is gone, the tracker ends by itself, and a signal on its way out could cut off its
         * report. If it still follows somebody 1.5 s later, it is told to stop. */
        if (killed >= 0 && waited == killed + 1500)
            kill(tracker->pid, SIGTERM);
        if (!impatient)
            continue;
        impatient = 0;
        survivors.signal = SIGKILL;
        find_survivors(tracker->path, &survivors);
        killed = waited;
    }
}

/* ---- the command line */

/* "120x40" */
static int parse_size(const char *text, int *ret_columns, int *ret_rows, struct tide_err *err)
{
    int columns, rows, used = 0;
    if (sscanf(text, "%4dx%4d%n", &columns, &rows, &used) == 2 && !text[used] && columns >= 1 && rows >= 1 &&
        columns <= 1000 && rows <= 500) {
        *ret_columns = columns;
        *ret_rows = rows;
        return 0;
    }
    tide_err_set(err, "watch: option '--size': '%s' is not a screen size", TIDE_SHOWN(text, 64));
    return tide_err_hint(err, "columns and rows, from 1x1 to 1000x500: --size 120x40");
}

static int check_keys(const char *keys, struct tide_err *err)
{
    while (keys && *keys) {
        const char *rest;
        if (!tide_screen_key(keys, &rest)) {
            tide_err_set(err, "watch: option '--keys': unknown key name at '%s'", TIDE_SHOWN(keys, 64));
            return tide_err_hint(
                err, "<up> <down> <left> <right> <pgup> <pgdn> <home> <end> <enter> <esc> <space> "
                     "<ctrl-c> <less> <none>; a letter stands for itself");
        }
        keys = rest;
    }
    return 0;
}

static double known(int64_t value)
{
    return value == TIDE_UNKNOWN ? NAN : (double)value;
}

/* The first option that says how to record; NULL: none was given. */
static const char *recording_option(const struct tide_track_config *track)
{
    static const struct tide_track_config usual = TIDE_TRACK_USUAL;
    return track->path                               ? "output"
           : track->interval_ns != usual.interval_ns ? "interval"
           : track->step_regex                       ? "step-regex"
           : track->quiet                            ? "quiet"
                                                     : NULL;
}

static int watch_file(struct tide_screen_config *screen, const struct values *values, const char *path,
                      struct tide_err *err)
{
    char log_path[PATH_MAX + 8];
    struct tide_screen_outcome outcome;
    const char *option = recording_option(&values->track);
    if (option && tide_reader_is_recording(path, NULL) > 0) {
        tide_err_set(err, "watch: --%s is for a program that is recorded, and '%s' is a recording", option,
                     TIDE_SHOWN(path, 256));
        return tide_err_hint(err, "to watch a program: tidemark watch -- PROG");
    }
    snprintf(log_path, sizeof log_path, "%s.log", path);
    screen->path = path;
    screen->log_path = access(log_path, R_OK) == 0 ? log_path : NULL;
    screen->assess = (struct tide_assess_options){.items = known(values->track.items),
                                                  .items_per_step = known(values->track.items_per_step),
                                                  .limit_bytes = known(values->track.limit_bytes)};
    if (tide_screen_run(screen, &outcome, err)) {
        if (!err->hint[0] && access(path, F_OK))
            tide_err_hint(err, "to watch a program: tidemark watch -- PROG");
        return -1;
    }
    free(outcome.said);
    return TIDE_EXIT_OK;
}

static int name_recording(struct tracker *tracker, const struct tide_track_config *config,
                          struct tide_err *err)
{
    bool elsewhere;
    if (tide_track_path(config, tracker->path, &elsewhere, err))
        return tide_err_wrap(err, "watch");
    snprintf(tracker->log_path, sizeof tracker->log_path, "%s.log", tracker->path);
    const char *taken = access(tracker->path, F_OK) == 0                          ? tracker->path
                        : config->command && access(tracker->log_path, F_OK) == 0 ? tracker->log_path
                                                                                  : NULL;
    if (!taken)
        return 0;
    tide_err_set(err, "watch: '%s' exists already", TIDE_SHOWN(taken, PATH_MAX));
    return tide_err_hint(err, "a recording is never overwritten: choose another name with -o");
}

/* True if judging the recording again takes longer than a user who quits would wait: about 10 ms per MB. */
static bool is_large(const char *path)
{
    enum { LARGE = 16 << 20 };
    char log[PATH_MAX + 8];
    struct stat file = {0}, wal = {0};
    snprintf(log, sizeof log, "%s-wal", path);
    return (stat(path, &file) ? 0 : file.st_size) + (stat(log, &wal) ? 0 : wal.st_size) > LARGE;
}

/* Prints the verdict on the recording; for a large one, the last verdict of the view. */
static void report(const struct tracker *tracker, const struct values *values, const char *said)
{
    struct tide_track_outcome outcome = {0};
    snprintf(outcome.path, sizeof outcome.path, "%s", tracker->path);
    if (values->screen.dump || !is_large(tracker->path)) {
        tide_track_report(&outcome, values->track.quiet);
        return;
    }
    const char *shown = TIDE_SHOWN(tracker->path, PATH_MAX);
    int len = said && values->track.quiet ? (int)strcspn(said, "\n") : INT_MAX;
    fprintf(stderr, "%.*s", len, said ? said : "tidemark: there is no verdict yet\n");
    fprintf(stderr, "%srecording: %s\n", len < INT_MAX ? "\n" : "", shown);
    fprintf(stderr,
            "hint: this is the last verdict of the view; 'tidemark judge %s' judges the whole recording\n",
            shown);
}

/* After the view: does what is left to do, and reports on the normal screen. */
static int finish(struct tracker *tracker, const struct values *values, bool owns_program,
                  const struct tide_screen_outcome *seen)
{
    if (!owns_program) {
        if (!tracker->ended)
            kill(tracker->pid, SIGTERM);
        tracker_ends(tracker, -1);
    } else if (seen->end == TIDE_SCREEN_STOP && !tracker->ended) {
        stop_program(tracker);
    }
    if (tracker->ended) /* it may have ended while the view was reading */
        tide_writer_fold(tracker->path);
    if (tracker->ended && tracker->farewell.failed)
        tide_report(&tracker->farewell.err);
    else if (tracker->ended && tracker->farewell.outcome.trouble.text[0])
        tide_report(&tracker->farewell.outcome.trouble);
    report(tracker, values, seen->said);
    if (tracker->ended)
        return owns_program ? tracker->farewell.outcome.exit_code : TIDE_EXIT_OK;
    const char *shown = TIDE_SHOWN(tracker->path, PATH_MAX);
    fprintf(stderr, "tidemark: the program keeps running; process %d keeps recording it\n",
            (int)tracker->pid);
    fprintf(stderr, "hint: 'tidemark watch %s' shows it again, 'kill %d' stops it\n", shown,
            (int)tracker->pid);
    return TIDE_EXIT_OK;
}

static int watch_tree(struct tide_screen_config *screen, const struct values *values, char **command,
                      int64_t pid, struct tide_err *err)
{
    struct tide_track_config config = values->track;
    struct tracker tracker = {.pipe = -1};
    config.command = command;
    config.pid = pid;
    if (name_recording(&tracker, &config, err))
        return -1;
    if (!command)
        tide_track_say_what_is_missing(&config);
    config.path = tracker.path;
    config.silent = true;
    config.no_status = true;
    config.log_path = command ? tracker.log_path : NULL;
    /* In effect before and after the view's own handler: a Ctrl-C before the view opens goes to the program,
     * and one just as it closes kills the program; neither kills this process. */
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_impatience}, NULL);
    if ((!screen->dump && tide_screen_check(err)) || start_tracker(&tracker, &config, err))
        return -1;
    if (wait_for_recording(&tracker)) {
        if (command)
            unlink(tracker.log_path);
        if (access(tracker.path, F_OK)) /* the tracker removed it while we were reading it */
            tide_writer_discard(tracker.path);
        tide_report(&tracker.farewell.err);
        return tracker.farewell.outcome.exit_code;
    }
    bool left_early = impatient && tracker.ended;
    impatient = 0;
    screen->path = tracker.path;
    screen->log_path = config.log_path;
    screen->live = true;
    screen->ended = on_ended;
    screen->interrupt = command ? on_interrupt : NULL;
    /* cppcheck-suppress autoVariables ; the caller has no use for screen after this */
    screen->context = &tracker;
    struct tide_screen_outcome seen = {.end = TIDE_SCREEN_QUIT};
    if (!left_early && tide_screen_run(screen, &seen, err)) {
        tide_report(err);
        seen.end = TIDE_SCREEN_QUIT; /* a view that fails must not take the program with it */
    }
    int code = finish(&tracker, values, command != NULL, &seen);
    free(seen.said);
    return code;
}

static int run(struct tide_command_call *call, struct tide_err *err)
{
    const struct values *values = (const void *)call->values;
    struct tide_screen_config screen = values->screen;
    screen.out = stdout;
    if ((values->size && parse_size(values->size, &screen.columns, &screen.rows, err)) ||
        check_keys(screen.keys, err))
        return -1;
    int count = call->count;
    if (call->dashes == 0 && count > 0)
        return watch_tree(&screen, values, call->operands, 0, err);
    if (count != 1) {
        tide_err_set(err,
                     count ? "watch: expected one file or process ID, got %d"
                           : "watch: there is nothing to watch%.0d",
                     count);
        return tide_err_hint(err,
                             "tidemark watch FILE, tidemark watch PID, or tidemark watch -- python train.py");
    }
    size_t digits = strspn(call->operands[0], "0123456789");
    if (!digits || call->operands[0][digits])
        return watch_file(&screen, values, call->operands[0], err);
    int64_t pid;
    if (!tide_track_read_pid(call->operands[0], &pid, err))
        return watch_tree(&screen, values, NULL, pid, err);
    tide_err_wrap(err, "watch");
    return tide_err_hint(err, "to open a file of that name, use './%s'", TIDE_SHOWN(call->operands[0], 64));
}

static const struct values usual = {.track = TIDE_TRACK_USUAL, .screen.assess = {NAN, NAN, NAN, NULL}};

const struct tide_command tide_command_watch = {
    .name = "watch",
    .synopsis = "[options] (FILE | PID | -- CMD...)",
    .operands = ":files\n:pids",
    .summary = "see memory in a full-screen view, live or from a recording",
    .details =
        "Shows the verdict so far, a chart of the chosen row with its floor apart from its spikes, the process tree "
        "with who grows and by how much, and the phases and marks of the program.\n"
        "\n"
        "  up down pgup pgdn home end   choose a row; the chart shows it\n"
        "  enter, space   fold or unfold a role or a subtree\n"
        "  s   sort as a tree, by memory, by growth    e   ended ones: large, all, none\n"
        "  left right < >   move through time          z Z (+ -)   zoom in, zoom out\n"
        "  f   freeze, or follow the newest again      t   axis of steps or of time\n"
        "  p [ ]   play, slower, faster                y   chart from zero, or fitted\n"
        "  v   the whole verdict                       l   what the program printed\n"
        "  ?   all keys                                q   quit\n"
        "\n"
        "FILE is a recording: one that has ended opens at its end, and the arrow keys move through time; one that "
        "is being written is followed. PID is a tree that is already running, recorded while it is watched.\n"
        "\n"
        "CMD is started with an empty input; what it prints goes to a file named like the recording with '.log' "
        "after it, and 'l' shows its last lines. The first Ctrl-C is passed on to CMD, the second asks what to do. "
        "When CMD has ended, the view stays until 'q'. Then the verdict and the name of the recording are printed. "
        "(The verdict on a recording over 16 MiB is the last one that the view showed.)\n"
        "\n"
        "If you quit before CMD has ended, the view asks whether to stop it or to leave it running. If it is left "
        "running, it is still recorded. SIGTERM, SIGHUP and a lost terminal leave it running. "
        "Ctrl-Z stops only the view.\n"
        "\n"
        "On a terminal that cannot place a cursor there is no view. NO_COLOR turns colours "
        "off. In a locale without UTF-8 the view uses ASCII.",
    .exits =
        "that of CMD if it has ended, as of `tidemark run`; otherwise 0, or 2 if there is trouble, such as a terminal that cannot place a cursor.",
    .examples = "tidemark watch -- python train.py\n"
                "tidemark watch $(pgrep -of train.py)\n"
                "tidemark watch train-20261115-071200.tide",
    .options = options,
    .values_size = sizeof usual,
    .usual = &usual,
    .run = run,
};
