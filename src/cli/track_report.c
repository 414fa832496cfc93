#include "cli/track.h"

#include "assess/assessment.h"
#include "assess/blame.h"
#include "assess/stacks.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/preloading.h"
#include "show/text/blame_text.h"
#include "show/text/verdict_text.h"

#include <stdio.h>

enum { CULPRITS = 3, FRAMES = 5 };

/* Prints who holds the bytes of a leak, and what is healthy, where the recording knows it. False if it knows
 * no culprit. */
static bool print_culprits(const struct tide_answer *answer)
{
    struct tide_blame_options options = {.by = TIDE_BLAME_VERDICT, .most = CULPRITS};
    struct tide_blame *blame = NULL;
    struct tide_err err = {0};
    char unseen[280];
    if (answer->history->site_count == 0) {
        if (tide_sites_unseen(answer->history, unseen, sizeof unseen))
            tide_evidence_print(stderr, "unseen", unseen);
        return false;
    }
    if (tide_blame_new(answer->history, answer->assessment, &options, &blame, &err)) {
        tide_evidence_print(stderr, "culprit", err.text);
        return false;
    }
    bool named = tide_blame_answers(blame, answer->assessment);
    if (named)
        tide_blame_print(blame, answer->history, CULPRITS, FRAMES, stderr);
    else
        tide_healthy_print(blame, answer->history, stderr);
    tide_blame_free(blame);
    return named;
}

static void print_answer(const struct tide_answer *answer, const char *shown)
{
    char next[PATH_MAX + 64], useless[256];
    const struct tide_judged *worst = &answer->assessment->judged[0];
    bool found =
        tide_verdict_grows(&worst->verdict) || worst->verdict.kind == TIDE_JUMP || worst->crest.epochs;
    /* What no process maps has no call site. */
    bool unnamed = found && !worst->shared && !tide_sites_were_asked(answer->history);
    tide_assessment_print(answer->assessment, stderr);
    if (print_culprits(answer))
        snprintf(next, sizeof next, "tidemark blame %s", shown);
    else if (unnamed && tide_preloading_is_useless(answer, useless, sizeof useless))
        snprintf(next, sizeof next, "--heap would not name the code that holds it: %s", useless);
    else if (unnamed)
        snprintf(next, sizeof next, "tidemark run --heap -- ...    names the code that holds it");
    else
        snprintf(next, sizeof next, "tidemark watch %s", shown);
    tide_evidence_print(stderr, "next", next);
}

static void print_verdict(const char *path, const char *shown, bool quiet)
{
    struct tide_answer answer;
    struct tide_err err = {0};
    if (tide_answer_init(&answer, path, NULL, &err)) {
        fprintf(stderr, "tidemark: no verdict: %s\n", err.text);
        return;
    }
    if (quiet) {
        char text[1024];
        tide_assessment_sentence(answer.assessment, text, sizeof text);
        fprintf(stderr, "tidemark: %s\n", text);
    } else
        print_answer(&answer, shown);
    tide_answer_release(&answer);
}

void tide_track_report(const struct tide_track_outcome *outcome, bool quiet)
{
    const char *shown = TIDE_SHOWN(outcome->path, PATH_MAX);
    print_verdict(outcome->path, shown, quiet);
    fprintf(stderr, "recording: %s\n", shown);
}

int tide_track_and_report(const struct tide_track_config *config, struct tide_err *err)
{
    struct tide_track_outcome outcome;
    if (tide_track(config, &outcome, err))
        tide_report(err);
    else
        tide_track_report(&outcome, config->quiet);
    return outcome.exit_code;
}
