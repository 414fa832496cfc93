#include "cli/track.h"

#include "base/text.h"
#include "record/reader.h"
#include "show/assess.h"
#include "show/history.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void tide_track_options_init(struct tide_track_options *options)
{
    struct tide_track_config standard;
    tide_track_config_init(&standard);
    *options = (struct tide_track_options){.interval_ns = standard.interval_ns,
                                           .limit_bytes = standard.limit_bytes,
                                           .items = standard.items,
                                           .items_per_step = standard.items_per_step};
}

void tide_track_options_apply(const struct tide_track_options *options, struct tide_track_config *config)
{
    tide_track_config_init(config);
    config->path = options->output;
    config->interval_ns = options->interval_ns;
    config->limit_bytes = options->limit_bytes;
    config->items = options->items;
    config->items_per_step = options->items_per_step;
    config->step_regex = options->step_regex;
    config->ignore_output = options->no_steps;
    config->status_line = !options->no_status;
}

static int assess(const char *path, struct tide_assessment **ret_assessment, struct tide_err *err)
{
    struct tide_reader *reader = NULL;
    struct tide_history *history = NULL;
    struct tide_assess_options options = {.items = NAN, .items_per_step = NAN, .limit_bytes = NAN};
    int bad = tide_reader_new(path, &reader, err) || tide_history_new(0, &history, err) ||
              tide_history_load(history, reader, err) ||
              tide_assess_history(history, &options, ret_assessment, err);
    tide_history_free(history);
    tide_reader_free(reader);
    return bad ? -1 : 0;
}

static void print_verdict(const char *path, const char *shown, bool quiet)
{
    struct tide_assessment *assessment = NULL;
    struct tide_err err = {0};
    if (assess(path, &assessment, &err)) {
        fprintf(stderr, "tidemark: no verdict: %s\n", err.text);
        return;
    }
    char text[PATH_MAX + 64];
    if (quiet) {
        tide_judged_sentence(&assessment->judged[0], assessment, text, sizeof text);
        fprintf(stderr, "tidemark: %s\n", text);
    } else {
        snprintf(text, sizeof text, "tidemark watch %s", shown);
        tide_assessment_print(assessment, text, stderr);
    }
    tide_assessment_free(assessment);
}

void tide_track_report(const struct tide_track_outcome *outcome, bool quiet)
{
    char shown[PATH_MAX];
    tide_text_escape(outcome->path, strlen(outcome->path), shown, sizeof shown);
    print_verdict(outcome->path, shown, quiet);
    fprintf(stderr, "recording: %s\n", shown);
}
