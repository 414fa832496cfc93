/*
 * cmd_show.c - tidemark show: what is in a recording, as tables for people, CSV or JSON.
 */
#include "cli/command.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "record/reader.h"
#include "show/text/recording_tables.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

enum { OVERVIEW_ROWS = 30, SUMMARY_BYTES = 1 << 30, DATE_TEXT = 40 };

struct values {
    bool json, csv;
    const char *what;
};

static const struct tide_option options[] = {
    {0, "json", TIDE_OPTION_FLAG, offsetof(struct values, json), NULL, NULL, 0, 0,
     "print one JSON document (schema tidemark.show/1)"},
    {0, "csv", TIDE_OPTION_FLAG, offsetof(struct values, csv), NULL, NULL, 0, 0,
     "print one table as CSV; without --what, the samples: one row per process and time"},
    {0, "what", TIDE_OPTION_CHOICE, offsetof(struct values, what), "TABLE",
     "processes|phases|marks|peaks|ticks|samples|limits|gpu|heap|notes", 0, 0, "print only this table"},
    {0},
};

/* The recording that is shown. */
struct show {
    const char *path;
    const struct values *values;
    struct tide_reader *reader;
    struct tide_summary summary;
};

/* All tables but the samples. Those with a title make up the overview, in this order. */
static const struct {
    const char *what, *title;
    void (*print)(struct tide_table *table, const struct tide_summary *summary, const char *title);
} TABLES[] = {
    {"peaks", "Peaks", tide_tables_peaks},
    {"processes", "Processes (RSS; PSS and USS as last read)", tide_tables_processes},
    {"phases", "Phases", tide_tables_phases},
    {"marks", "Marks", tide_tables_marks},
    {"limits", "Limits", tide_tables_limits},
    {"gpu", "GPU memory", tide_tables_gpu},
    {"heap", "Heap (what the program holds, and what malloc keeps beside it)", tide_tables_heap},
    {"notes", "Notes", tide_tables_notes},
    {"ticks", NULL, tide_tables_ticks},
};

enum { TABLE_COUNT = sizeof TABLES / sizeof *TABLES };

/* --- the beginning ------------------------------------------------------------------------------------- */

/* Local time for people, "2026-11-15 07:12:00"; UTC for programs, "2026-11-15T06:12:00Z". False: not known.
 */
static bool date_text(int64_t wall_s, bool utc, char out[static DATE_TEXT])
{
    time_t seconds = (time_t)wall_s;
    struct tm parts;

    return wall_s != TIDE_UNKNOWN && (utc ? gmtime_r(&seconds, &parts) : localtime_r(&seconds, &parts)) &&
           strftime(out, DATE_TEXT, utc ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%d %H:%M:%S", &parts) > 0;
}

static void print_head(struct show *show)
{
    const struct tide_history *history = show->summary.history;
    char date[DATE_TEXT], ending[64];

    printf("%s\n", TIDE_SHOWN(show->path, 70));
    printf("  command  %s\n", TIDE_SHOWN(history->command, 68));
    bool dated = date_text(history->started_wall_s, false, date);
    tide_summary_ending(history, ending, sizeof ending);
    printf("  started  %s, lasted %s\n", dated ? date : "at an unknown time",
           TIDE_DURATION((double)show->summary.last_ns / TIDE_NS_PER_S));
    printf("  ended    %s\n", ending);
    printf("  looks    %s", TIDE_COUNT((double)history->tick_count));
    if (history->interval_ns > 0)
        printf(", one every %s", TIDE_DURATION((double)history->interval_ns / TIDE_NS_PER_S));
    if (history->thinned > 1)
        printf(" (a large recording: only the lowest and highest of each %u are here)",
               tide_history_cell_ticks(history));
    putchar('\n');
    if (history->skipped_rows > 0)
        printf("  skipped  %s invalid rows\n", TIDE_COUNT((double)history->skipped_rows));
}

static void json_head(struct show *show, struct tide_json *json)
{
    const struct tide_history *history = show->summary.history;
    char date[DATE_TEXT];

    tide_json_document(json, stdout, false, "tidemark.show/1");
    tide_json_text(json, "file", show->path);
    tide_json_text(json, "command", history->command);
    tide_json_text(json, "host", tide_reader_meta(show->reader, TIDE_META_HOST).text);
    tide_json_text(json, "tool", tide_reader_meta(show->reader, TIDE_META_TOOL).text);
    tide_json_text(json, "started", date_text(history->started_wall_s, true, date) ? date : NULL);
    tide_json_real(json, "lasted_s", (double)show->summary.last_ns / TIDE_NS_PER_S);
    tide_json_bool(json, "clean_end", history->ended_ns != TIDE_UNKNOWN);
    tide_json_whole(json, "exit_status",
                    history->exit_status == TIDE_UNKNOWN ? NAN : (double)history->exit_status);
    tide_json_whole(json, "exit_signal",
                    history->exit_signal == TIDE_UNKNOWN ? NAN : (double)history->exit_signal);
    tide_json_real(json, "interval_s",
                   history->interval_ns == TIDE_UNKNOWN ? NAN : (double)history->interval_ns / TIDE_NS_PER_S);
    tide_json_integer(json, "looks", (int64_t)history->tick_count);
    tide_json_integer(json, "thinned", history->thinned);
    tide_json_integer(json, "skipped_rows", history->skipped_rows);
}

/* --- the tables ---------------------------------------------------------------------------------------- */

/* Prints the table of that name; NULL: those of the overview. */
static int show_tables(struct show *show, struct tide_table *table, const char *what, struct tide_err *err)
{
    table->most = what ? 0 : OVERVIEW_ROWS;
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        bool named = what && !strcmp(TABLES[i].what, what), titled = !what && TABLES[i].title;
        if (named || titled)
            TABLES[i].print(table, &show->summary,
                            titled && table->form == TIDE_TABLE_TEXT ? TABLES[i].title : NULL);
        if (named)
            return 0;
    }
    return what ? tide_tables_samples(table, &show->summary, show->reader, err) : 0;
}

static int show_all(struct show *show, struct tide_err *err)
{
    const struct values *v = show->values;
    const char *what = v->csv && !v->what ? "samples" : v->what;
    struct tide_json json;
    struct tide_table table = {.out = stdout, .json = &json};

    table.form = v->json ? TIDE_TABLE_JSON : v->csv ? TIDE_TABLE_CSV : TIDE_TABLE_TEXT;
    if (v->json)
        json_head(show, &json);
    if (v->csv && show->summary.history->thinned > 1)
        fprintf(stderr, "tidemark: the recording is large: about one sample in %u is listed\n",
                show->summary.history->thinned);
    if (table.form == TIDE_TABLE_TEXT && !what)
        print_head(show);
    int result = show_tables(show, &table, what, err);
    if (v->json)
        tide_json_end(&json);
    return result;
}

static int show_file(const char *path, const struct values *values, struct tide_err *err)
{
    struct show show = {.path = path, .values = values};
    struct tide_history *history = NULL;
    struct tide_arena arena;
    int result = -1;

    tide_arena_init(&arena, SUMMARY_BYTES);
    if (!tide_history_open(path, &history, err) && !tide_reader_new(path, &show.reader, err) &&
        !tide_summary_make(history, &arena, &show.summary, err))
        result = show_all(&show, err);
    tide_history_free(history);
    tide_reader_free(show.reader);
    tide_arena_release(&arena);
    return result;
}

static int run(struct tide_command_call *call, struct tide_err *err)
{
    const struct values *values = (const void *)call->values;

    if (call->count != 1) {
        tide_err_set(
            err, call->count == 0 ? "show: no recording was given" : "show: expected one recording, got %d",
            call->count);
        return tide_err_hint(err, "tidemark show RUN.tide");
    }
    if (values->json && values->csv) {
        tide_err_set(err, "show: --json and --csv cannot be used together");
        return tide_err_hint(err, "--csv prints one table, --json the whole recording");
    }
    return show_file(call->operands[0], values, err);
}

const struct tide_command tide_command_show = {
    .name = "show",
    .synopsis = "[--json | --csv] [--what TABLE] FILE",
    .operands = ":files",
    .summary = "print what a recording holds: processes, phases, marks, peaks",
    .details =
        "Without options, prints an overview: when and how the run ended, peaks (with their step and phase), the process tree with "
        "identical workers as one row, phases, steps and gauges, limits, GPU memory, the heap, notes. Sizes are powers of 1024.\n"
        "\n"
        "A row of several processes has the sums at the moment when their sum was largest.\n"
        "\n"
        "A recording that is still being written can be shown as well.",
    .examples = "tidemark show train.tide\n"
                "tidemark show --what phases train.tide\n"
                "tidemark show --csv train.tide > samples.csv\n"
                "tidemark show --json train.tide | jq .peaks",
    .options = options,
    .values_size = sizeof(struct values),
    .run = run,
};
