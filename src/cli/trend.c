#include "cli/trend.h"

#include "assess/assessment.h"
#include "assess/history.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "record/reader.h"
#include "show/text/verdict_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    PACE_MS = 4000,           /* the speed is that of the last 4 to 8 s */
    COST_FACTOR = 200,        /* judging takes at most 1/200 of the time */
    JUDGE_MS = 2000,          /* and is not done more often than this */
    HISTORY_BYTES = 64 << 20, /* upper bound, since this is only for a status line */
};

struct pace {
    int64_t t_ns, number;
};

struct tide_trend {
    const char *path;
    struct tide_reader *reader;
    struct tide_history *history;
    int64_t judge_ns; /* when to judge next */
    char brief[160];
    struct pace from, middle, last; /* the speed is measured from `from`, and from `middle` later */
};

struct tide_trend *tide_trend_new(const char *path)
{
    struct tide_trend *trend = calloc(1, sizeof *trend);
    if (trend) {
        trend->path = path;
        trend->last.number = -1;
    }
    return trend;
}

void tide_trend_free(struct tide_trend *trend)
{
    if (!trend)
        return;
    tide_history_free(trend->history);
    tide_reader_free(trend->reader);
    free(trend);
}

void tide_trend_step(struct tide_trend *trend, int64_t t_ns, int64_t number)
{
    struct pace now = {t_ns, number};
    if (trend->last.number < 0)
        trend->from = trend->middle = now;
    trend->last = now;
    if (t_ns - trend->middle.t_ns >= PACE_MS * (int64_t)TIDE_NS_PER_MS) {
        trend->from = trend->middle;
        trend->middle = now;
    }
}

static double steps_per_second(const struct tide_trend *trend)
{
    double seconds = (double)(trend->last.t_ns - trend->from.t_ns) / 1e9;
    return seconds > 0 ? (double)(trend->last.number - trend->from.number) / seconds : NAN;
}

/* Updates the short text of the verdict so far. On any failure the text stays as it was. */
static void judge(struct tide_trend *trend)
{
    if (!trend->reader && tide_reader_new(trend->path, &trend->reader, NULL))
        return;
    if (!trend->history && tide_history_new(HISTORY_BYTES, &trend->history, NULL))
        return;
    struct tide_assessment *assessment = NULL;
    if (tide_history_load(trend->history, trend->reader, NULL) ||
        tide_assess_history(trend->history, NULL, &assessment, NULL))
        return;
    tide_assessment_brief(assessment, trend->brief, sizeof trend->brief);
    tide_assessment_free(assessment);
}

void tide_trend_text(struct tide_trend *trend, const struct tide_sense_view *view, int64_t t_ns, char *out,
                     size_t size)
{
    int64_t now = tide_clock_ns();
    if (now >= trend->judge_ns) {
        judge(trend);
        int64_t cost = tide_clock_ns() - now, least = JUDGE_MS * (int64_t)TIDE_NS_PER_MS;
        trend->judge_ns = now + (COST_FACTOR * cost > least ? COST_FACTOR * cost : least);
    }
    if (trend->last.number >= 0) {
        snprintf(out, size, "step %s", TIDE_COUNT((double)trend->last.number));
        double rate = steps_per_second(trend);
        if (rate > 0)
            tide_text_add(out, size, rate < 9.95 ? "  %.1f/s" : "  %.0f/s", rate);
    } else {
        snprintf(out, size, "%s", TIDE_DURATION((double)(t_ns / TIDE_NS_PER_S)));
    }
    tide_text_add(out, size, "  memory %s", TIDE_SIZE((double)view->tick.counted_bytes));
    if (view->tick.processes > 1)
        tide_text_add(out, size, " in %s processes", TIDE_COUNT((double)view->tick.processes));
    if (trend->brief[0])
        tide_text_add(out, size, "  %s", trend->brief);
}
