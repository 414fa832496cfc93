/*
 * diff_text.c - a difference as text (the answer first, the code that accounts for it, the roles), and as the
 * document "tidemark.diff/1".
 */
#include "show/text/diff_text.h"
#include "base/text.h"
#include "base/units.h"
#include "show/text/stack_text.h"
#include "show/text/verdict_text.h"

#include <math.h>

enum { LINE = 512 };

/* In the document, and as the first word of the answer. */
static const struct {
    const char *word, *headline;
} results[] = {[TIDE_DIFF_SAME] = {"same", "NO WORSE"},
               [TIDE_DIFF_BETTER] = {"better", "BETTER"},
               [TIDE_DIFF_WORSE] = {"worse", "WORSE"},
               [TIDE_DIFF_UNDECIDED] = {"undecided", "UNDECIDED"}};
static const char *const change_words[] = {[TIDE_DIFF_GREW] = "grew",
                                           [TIDE_DIFF_SHRANK] = "shrank",
                                           [TIDE_DIFF_APPEARED] = "appeared",
                                           [TIDE_DIFF_DISAPPEARED] = "disappeared"};

static const char *per(const struct tide_diff *d)
{
    return d->x_is_steps ? "step" : "second";
}

/* "+12 MiB", "-3 KiB" */
static void put_change(struct tide_buf *b, double bytes)
{
    tide_buf_format(b, "%s%s", bytes < 0 ? "-" : "+", TIDE_SIZE(fabs(bytes)));
}

/* --- the answer ---------------------------------------------------------------------------------------- */

/* "A leaks 203 KiB per step", "B is flat" */
static void put_verdict(struct tide_buf *b, const struct tide_diff *d, int side)
{
    static const char *const words[TIDE_VERDICTS] = {
        [TIDE_FLAT] = "is flat",
        [TIDE_SPIKES] = "has spikes and no leak",
        [TIDE_PLATEAU] = "levels off, no leak",
        [TIDE_JUMP] = "has one jump and no leak",
        [TIDE_UNDECIDED] = "is too short to tell",
        [TIDE_RETENTION] = "keeps memory that was freed, bounded",
    };
    const struct tide_verdict *v = &d->sides[side].assessment->judged[0].verdict;
    const char *name = side ? "B" : "A";
    if (tide_verdict_grows(v))
        tide_buf_format(b, "%s %s %s per %s", name, v->kind == TIDE_LEAK ? "leaks" : "retains",
                        TIDE_SIZE(d->sides[side].rate.bytes), per(d));
    else if (v->kind == TIDE_UNDECIDED && d->result != TIDE_DIFF_UNDECIDED &&
             isfinite(d->sides[side].rate.high))
        tide_buf_format(b, "%s leaks less than %s per %s, if at all", name,
                        TIDE_SIZE(d->sides[side].rate.high), per(d));
    else
        tide_buf_format(b, "%s %s", name, words[v->kind]);
}

/* "B was killed by the OOM killer at step 200; ", if one of them was. */
static void put_deaths(struct tide_buf *b, const struct tide_diff *d)
{
    const struct tide_death *death[2] = {&d->sides[0].assessment->death, &d->sides[1].assessment->death};
    bool killed[2] = {death[0]->cause == TIDE_DEATH_OOM, death[1]->cause == TIDE_DEATH_OOM};
    if (killed[0] && killed[1])
        tide_buf_text(b, "both were killed by the OOM killer; ");
    if (killed[0] == killed[1])
        return;
    tide_buf_format(b, "%s was killed by the OOM killer", killed[1] ? "B" : "A");
    if (isfinite(death[killed[1]]->step))
        tide_buf_format(b, " at step %s", TIDE_COUNT(death[killed[1]]->step));
    tide_buf_text(b, d->by_death && d->result == TIDE_DIFF_UNDECIDED ? ", and B made fewer steps; " : "; ");
}

static void put_answer(struct tide_buf *b, const struct tide_diff *d)
{
    tide_buf_format(b, "%s: ", results[d->result].headline);
    put_deaths(b, d);
    if (d->culprit)
        tide_buf_format(b, "%s leaks now and did not before; as a whole, ", d->culprit);
    put_verdict(b, d, 0);
    tide_buf_text(b, ", ");
    put_verdict(b, d, 1);
    const struct tide_diff_rate *rate[2] = {&d->sides[0].rate, &d->sides[1].rate};
    if (rate[0]->bytes > 0 && rate[1]->bytes > 0 && d->result == TIDE_DIFF_SAME)
        tide_buf_text(b, ": at the same rate, as far as two runs can tell");
    if (rate[0]->bytes <= 0 && rate[1]->bytes > 0 && d->result == TIDE_DIFF_UNDECIDED && !d->by_death)
        tide_buf_text(b, ": too little to tell in runs this short");
}

static void put_between(struct tide_buf *b, const struct tide_diff *d)
{
    const double *from = d->sides[0].live_bytes, *to = d->sides[1].live_bytes;
    put_change(b, to[0] - from[0]);
    tide_buf_text(b, " between ");
    for (int side = 0; side < 2; side++)
        tide_buf_format(b, "%s%s %.10g", side ? " and " : "", per(d),
                        isfinite(d->sides[side].at_x) ? d->sides[side].at_x
                                                      : (double)d->sides[side].at_ns / 1e9);
    tide_buf_format(b, ": %s -> %s live in all call sites", TIDE_SIZE(from[0]), TIDE_SIZE(to[0]));
    if (from[1] > 0 || to[1] > 0)
        tide_buf_format(b, ", %s -> %s on devices", TIDE_SIZE(from[1]), TIDE_SIZE(to[1]));
}

/* --- call sites ---------------------------------------------------------------------------------------- */

/* "-203 KiB/step, gone" where the rate changed, else "+12 MiB". */
static void put_measure(struct tide_buf *b, const struct tide_diff *d, const struct tide_diff_site *row)
{
    bool rate = row->rate_change > 0 || row->rate_change < 0;
    if (!rate) {
        put_change(b, row->bytes[1] - row->bytes[0]);
        return;
    }
    put_change(b, row->rate_change);
    tide_buf_format(b, "/%s%s", d->x_is_steps ? "step" : "s",
                    !(row->rate[1].bytes > 0)   ? ", gone"
                    : !(row->rate[0].bytes > 0) ? ", new"
                                                : "");
}

static const struct tide_history_site *site_of(const struct tide_diff_site *row, int *ret_side)
{
    *ret_side = row->site[1] ? 1 : 0;
    return row->site[*ret_side];
}

/* Appends where a stack that moved was in A: its innermost frame with another line. */
static void put_moved(struct tide_buf *b, const struct tide_diff *d, const struct tide_diff_site *row)
{
    const struct tide_frame *now[TIDE_STACK_SHOWN], *then[TIDE_STACK_SHOWN];
    size_t n = tide_stack_choose(d->sides[1].history, row->site[1]->stack, TIDE_STACK_SHOWN, now);
    size_t m = tide_stack_choose(d->sides[0].history, row->site[0]->stack, TIDE_STACK_SHOWN, then);
    for (; n > 0 && m > 0; n--, m--) {
        if (then[m - 1]->line <= 0 || then[m - 1]->line == now[n - 1]->line)
            continue;
        tide_buf_text(b, "   in A at ");
        tide_frame_put(b, then[m - 1], false);
        return;
    }
}

static void print_site(const struct tide_diff *d, const struct tide_diff_site *row, size_t frames, FILE *out)
{
    struct tide_buf b = TIDE_BUF_HERE(4 * LINE);
    put_measure(&b, d, row);
    while (b.len < 22)
        tide_buf_text(&b, " ");
    tide_buf_format(&b, "%s -> %s", TIDE_SIZE(row->bytes[0]), TIDE_SIZE(row->bytes[1]));
    int side;
    const struct tide_history_site *site = site_of(row, &side);
    if (tide_site_is_on_device(site))
        tide_buf_text(&b, " on the GPU");
    if (isfinite(row->share))
        tide_buf_format(&b, "   %.0f %% of the change", 100 * row->share);
    if (row->moved && row->site[0] && row->site[1])
        put_moved(&b, d, row);
    fprintf(out, "  %-11s %s\n", change_words[row->change], tide_buf_view(&b));
    tide_stack_print(d->sides[side].history, site, frames, out);
}

/* Prints which recording has no call sites, and what to do about it. */
static void print_why_not(const struct tide_diff *d, FILE *out)
{
    const struct tide_diff_side *a = &d->sides[0], *b = &d->sides[1];
    bool neither = !a->history->site_count && !b->history->site_count;
    const struct tide_diff_side *without = a->history->site_count ? b : a;
    fprintf(out, "  code        not compared: %s call sites; ",
            neither        ? "neither has"
            : without == a ? "A has no"
                           : "B has no");
    if (tide_sites_were_asked(without->history))
        fprintf(out, "'tidemark blame %s' says why\n", TIDE_SHOWN(without->source, LINE));
    else
        fprintf(out, "record %s with 'tidemark run --heap -- PROG'\n", neither ? "both" : "it");
}

static void print_sites(const struct tide_diff *d, size_t most, size_t frames, FILE *out)
{
    for (size_t i = 0; i < d->site_count && i < most; i++)
        print_site(d, &d->sites[i], frames, out);
    if (d->site_count > most)
        fprintf(out, "  and         %zu more call sites that changed (-n)\n", d->site_count - most);
    if (!d->has_sites)
        print_why_not(d, out);
    else
        fprintf(out, "  unchanged   %zu call site%s, as far as samples can tell\n", d->unchanged,
                d->unchanged == 1 ? "" : "s");
}

/* --- roles --------------------------------------------------------------------------------------------- */

static void put_level(struct tide_buf *b, const struct tide_judged *const j[2], bool peak)
{
    for (int side = 0; side < 2; side++) {
        double bytes = !j[side] ? NAN : peak ? j[side]->verdict.peak : j[side]->verdict.floor_last;
        tide_buf_format(b, "%s%s", side ? " -> " : "",
                        isfinite(bytes) ? TIDE_SIZE(bytes)
                        : j[side]       ? "?"
                                        : "not there");
    }
}

static void put_rate(struct tide_buf *b, const struct tide_diff *d, const struct tide_diff_rate *rate)
{
    if (isnan(rate->bytes) && isfinite(rate->high))
        tide_buf_format(b, "under %s/%s", TIDE_SIZE(rate->high), d->x_is_steps ? "step" : "s");
    else if (isnan(rate->bytes))
        tide_buf_text(b, "undecided");
    else if (rate->bytes > 0)
        tide_buf_format(b, "+%s/%s", TIDE_SIZE(rate->bytes), d->x_is_steps ? "step" : "s");
    else
        tide_buf_text(b, "no leak");
}

static bool by_steps(const struct tide_judged *j)
{
    return j && j->x_is_steps;
}

static void print_subjects(const struct tide_diff *d, size_t most, FILE *out)
{
    struct tide_buf b = TIDE_BUF_HERE(4 * LINE);
    for (size_t i = 0; i < d->subject_count && i < most; i++) {
        const struct tide_diff_subject *s = &d->subjects[i];
        tide_buf_format(&b, "%s: floor ", s->name);
        put_level(&b, s->level, false);
        /* with steps, what came before the first is left out of the series */
        tide_buf_text(&b,
                      by_steps(s->level[0]) || by_steps(s->level[1]) ? ", peak in its steps " : ", peak ");
        put_level(&b, s->level, true);
        tide_buf_text(&b, "; ");
        put_rate(&b, d, &s->rate[0]);
        tide_buf_text(&b, " -> ");
        put_rate(&b, d, &s->rate[1]);
        fprintf(out, "  %-11s %s\n", i ? "" : "memory", tide_buf_view(&b));
        tide_buf_clear(&b);
    }
}

static void print_sides(const struct tide_diff *d, FILE *out)
{
    char sentence[2 * LINE];
    for (int side = 0; side < 2; side++) {
        const struct tide_diff_side *s = &d->sides[side];
        tide_assessment_sentence(s->assessment, sentence, sizeof sentence);
        fprintf(out, "  %s           %s: %s\n", side ? "B" : "A", TIDE_SHOWN(s->source, 128), sentence);
    }
    if (d->same_step)
        fprintf(out, "  compared    at step %.10g, the last that both reached\n", d->sides[0].at_x);
}

void tide_diff_print(const struct tide_diff *d, size_t most, size_t frames, FILE *out)
{
    struct tide_buf b = TIDE_BUF_HERE(4 * LINE);
    if (d->between)
        put_between(&b, d);
    else
        put_answer(&b, d);
    fprintf(out, "tidemark: %s\n", tide_buf_view(&b));
    if (!d->between)
        print_sides(d, out);
    print_sites(d, most, frames, out);
    if (!d->between)
        print_subjects(d, most, out);
}

/* --- the document -------------------------------------------------------------------------------------- */

static void json_rate(struct tide_json *json, bool steps, const struct tide_diff_rate *rate)
{
    bool grows = rate->bytes > 0;
    tide_json_real(json, "bytes_per_step", steps ? rate->bytes : NAN);
    tide_json_real(json, "bytes_per_step_low", steps && grows ? rate->low : NAN);
    tide_json_real(json, "bytes_per_step_high", steps && grows ? rate->high : NAN);
    tide_json_real(json, "bytes_per_second", steps ? NAN : rate->bytes);
}

static void json_side(struct tide_json *json, const struct tide_diff *d, int side)
{
    const struct tide_diff_side *s = &d->sides[side];
    const struct tide_judged *worst = &s->assessment->judged[0];
    char sentence[2 * LINE];
    tide_assessment_sentence(s->assessment, sentence, sizeof sentence);
    tide_json_object(json, side ? "b" : "a");
    tide_json_text(json, "source", s->source);
    tide_json_text(json, "verdict", tide_verdict_name(worst->verdict.kind));
    tide_json_text(json, "sentence", sentence);
    tide_death_json(json, &s->assessment->death);
    if (!d->between)
        json_rate(json, d->x_is_steps, &s->rate);
    tide_json_real(json, "at_step", worst->x_is_steps ? s->at_x : NAN);
    tide_json_real(json, "at_second", (double)s->at_ns / 1e9);
    tide_json_whole(json, "live_bytes", d->has_sites ? s->live_bytes[0] : NAN);
    tide_json_whole(json, "device_bytes", d->has_sites ? s->live_bytes[1] : NAN);
    tide_json_end(json);
}

static void json_subject(struct tide_json *json, const struct tide_diff *d, const struct tide_diff_subject *s)
{
    tide_json_object(json, NULL);
    tide_json_text(json, "name", s->name);
    tide_json_text(json, "result", results[s->result].word);
    for (int side = 0; side < 2; side++) {
        const struct tide_judged *level = s->level[side];
        if (!level) {
            tide_json_null(json, side ? "b" : "a");
            continue;
        }
        tide_json_object(json, side ? "b" : "a");
        tide_json_text(json, "name", level->name);
        tide_json_text(json, "verdict", tide_verdict_name(s->growth[side]->verdict.kind));
        tide_json_whole(json, "floor_bytes", level->verdict.floor_last);
        tide_json_whole(json, "peak_bytes", level->verdict.peak);
        json_rate(json, d->x_is_steps, &s->rate[side]);
        tide_json_end(json);
    }
    tide_json_end(json);
}

static void json_site(struct tide_json *json, const struct tide_diff *d, const struct tide_diff_site *row)
{
    int newer;
    const struct tide_history_site *site = site_of(row, &newer);
    tide_json_object(json, NULL);
    tide_json_text(json, "change", change_words[row->change]);
    tide_json_text(json, "kind", tide_site_kind_name(site->kind));
    tide_json_whole(json, "bytes_change", row->bytes[1] - row->bytes[0]);
    tide_json_real(json, "bytes_per_step_change", d->x_is_steps && !d->between ? row->rate_change : NAN);
    tide_json_real(json, "bytes_per_second_change", d->x_is_steps || d->between ? NAN : row->rate_change);
    tide_json_real(json, "share", row->share);
    for (int side = 0; side < 2; side++) {
        char process[TIDE_SITE_PROCESS] = "";
        if (row->site[side])
            tide_site_process_name(d->sides[side].history, row->site[side], process, sizeof process);
        tide_json_object(json, side ? "b" : "a");
        tide_json_text(json, "process", process[0] ? process : NULL);
        tide_json_whole(json, "live_bytes", row->bytes[side]);
        tide_json_whole(json, "blocks", row->blocks[side]);
        if (!d->between)
            json_rate(json, d->x_is_steps, &row->rate[side]);
        tide_json_end(json);
    }
    tide_json_bool(json, "moved", row->moved);
    tide_stack_json(json, "frames", d->sides[newer].history, site->stack);
    if (row->moved && row->site[0])
        tide_stack_json(json, "frames_before", d->sides[0].history, row->site[0]->stack);
    else
        tide_json_null(json, "frames_before");
    tide_json_end(json);
}

void tide_diff_json(const struct tide_diff *d, size_t most, FILE *out)
{
    struct tide_json json;
    struct tide_buf sentence = TIDE_BUF_HERE(4 * LINE);
    if (d->between)
        put_between(&sentence, d);
    else
        put_answer(&sentence, d);
    tide_json_document(&json, out, false, "tidemark.diff/1");
    tide_json_text(&json, "result", d->between ? NULL : results[d->result].word);
    tide_json_text(&json, "sentence", tide_buf_view(&sentence));
    tide_json_text(&json, "axis", per(d));
    tide_json_bool(&json, "same_step", d->same_step);
    json_side(&json, d, 0);
    json_side(&json, d, 1);
    tide_json_array(&json, "processes");
    for (size_t i = 0; i < d->subject_count; i++)
        json_subject(&json, d, &d->subjects[i]);
    tide_json_end(&json);
    tide_json_integer(&json, "changed_sites", (int64_t)d->site_count);
    tide_json_integer(&json, "unchanged_sites", (int64_t)d->unchanged);
    tide_json_array(&json, "sites");
    for (size_t i = 0; i < d->site_count && i < most; i++)
        json_site(&json, d, &d->sites[i]);
    tide_json_end(&json);
    tide_json_end(&json);
}
