/*
 * blame_text.c - culprits as text, and as the document "tidemark.blame/1".
 */
#include "show/text/blame_text.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "show/text/stack_text.h"

#include <math.h>

enum {
    TEXT = 512,
    FEW_SAMPLES = 400 /* fewer are reported: a 95 % interval of theirs is 10 % wide to each side, and more */
};

/* "100 %" means all of it: a line that leaks one of a thousand frees the rest. */
static const char *percent_freed(double share, char *out, size_t size)
{
    if (share > 0.999 && share < 1)
        snprintf(out, size, "over 99.9 %%");
    else
        snprintf(out, size, "%.*f %%", share >= 0.995 && share < 1 ? 1 : 0, 100 * share);
    return out;
}

void tide_culprit_put_habit(struct tide_buf *b, const struct tide_blame *blame, const struct tide_culprit *c)
{
    if (c->factor > 0) { /* it frees only its own smaller predecessors */
        tide_buf_format(b, "%.3g block%s of %s, %.3g times as large whenever full, never freed", c->blocks,
                        c->blocks == 1 ? "" : "s", TIDE_SIZE(c->live_bytes / fmax(c->blocks, 1)), c->factor);
        return;
    }
    bool rate = c->blocks_per_x > 0 && c->bytes_per_x > 0;
    bool one = c->blocks_per_x > 0.95 && c->blocks_per_x < 1.05;
    if (rate)
        tide_buf_format(b, "%.3g %s%s of %s per %s", one ? 1 : c->blocks_per_x, c->arenas ? "arena" : "block",
                        one ? "" : "s", TIDE_SIZE(c->bytes_per_x / c->blocks_per_x),
                        blame->x_is_steps ? "step" : "second");
    if (rate && c->arenas)
        tide_buf_text(b, " for small Python objects");
    if (!isfinite(c->freed_share))
        return;
    char freed[16];
    if (c->freed_share < 0.02)
        tide_buf_format(b, "%snever freed", rate ? ", " : "");
    else
        tide_buf_format(b, "%s%s of what it allocates is freed", rate ? ", " : "",
                        percent_freed(c->freed_share, freed, sizeof freed));
    if (c->judged && c->samples < FEW_SAMPLES)
        tide_buf_format(b, " (%.0f sample%s)", c->samples, c->samples < 1.5 ? "" : "s");
}

/* True if culprits are ranked by a change rather than by live bytes. */
static bool is_change(const struct tide_blame *blame)
{
    return blame->by == TIDE_BLAME_BETWEEN || blame->by == TIDE_BLAME_GROWTH || blame->by == TIDE_BLAME_RISE;
}

void tide_culprit_put_amount(struct tide_buf *b, const struct tide_blame *blame, const struct tide_culprit *c)
{
    if (blame->by == TIDE_BLAME_GROWTH && c->bytes_per_x > 0)
        tide_buf_format(b, "%s/%s", TIDE_SIZE(c->bytes_per_x), blame->x_is_steps ? "step" : "s");
    else
        tide_buf_format(b, "%s%s", is_change(blame) ? "+" : "", TIDE_SIZE(c->bytes));
}

void tide_culprit_put_part(struct tide_buf *b, const struct tide_blame *blame, const struct tide_culprit *c)
{
    const char *where = tide_site_is_on_device(c->site) ? " on the GPU"
                        : blame->all_device_bytes > 0   ? " on the host"
                                                        : "";
    bool jumps = blame->by == TIDE_BLAME_GROWTH && c->on.verdict.kind == TIDE_JUMP;
    const char *whole = jumps                          ? "the jump"
                        : blame->by == TIDE_BLAME_RISE ? "the rise"
                        : c->of_sites                  ? "what is kept"
                        : is_change(blame)             ? "the growth"
                                                       : "live bytes";
    if (isfinite(c->share))
        tide_buf_format(b, "%.0f %% of %s%s", 100 * c->share, whole, where);
    else if (c->bounded)
        tide_buf_format(b, "bounded: rose and stopped%s", where);
    else
        tide_buf_format(b, "%s%s", jumps ? "at once" : "too early to tell", where);
}

static const double ALL_OF_IT = 0.8; /* a site with this share counts as the source of the bytes */

/* --- what is healthy ------------------------------------------------------------------------------------ */

static void put_place(struct tide_buf *b, const struct tide_history *h, const struct tide_history_site *site)
{
    const struct tide_frame *frame = tide_stack_line(h, site->stack);
    if (frame)
        tide_frame_put(b, frame, false);
    else
        tide_buf_text(b, "code without a name");
}

static void put_cache(struct tide_buf *b, const struct tide_history *h, const struct tide_healthy *c)
{
    put_place(b, h, c->site);
    tide_buf_format(b, " rises to %s in the first ", TIDE_SIZE(c->bytes));
    if (c->x_is_steps)
        tide_buf_format(b, "%s steps", TIDE_COUNT(fmax(c->knee_x, 1)));
    else
        tide_buf_text(b, TIDE_DURATION(c->knee_x));
    tide_buf_text(b, " and stops: a cache, not a leak");
}

void tide_healthy_put(struct tide_buf *b, const struct tide_history *h, const struct tide_healthy *healthy)
{
    if (healthy->kind == TIDE_HEALTHY_CACHE) {
        put_cache(b, h, healthy);
        return;
    }
    tide_buf_format(b, "%s's +%s ", healthy->phase, TIDE_SIZE(healthy->bytes));
    bool all = healthy->part >= ALL_OF_IT;
    if (all)
        tide_buf_text(b, "comes from ");
    else
        tide_buf_format(b, "(%.0f %% from ", 100 * healthy->part);
    put_place(b, h, healthy->site);
    tide_buf_format(b, "%s is freed %s", all ? " and" : ")", healthy->times > 1 ? "each time" : "again");
}

void tide_healthy_print(const struct tide_blame *blame, const struct tide_history *history, FILE *out)
{
    for (size_t i = 0; i < blame->healthy_count; i++) {
        struct tide_buf b = TIDE_BUF_HERE(4 * TEXT);
        tide_healthy_put(&b, history, &blame->healthy[i]);
        fprintf(out, "  healthy     %s\n", tide_buf_view(&b));
    }
}

/* Prints the frames that all callers share, and below them each caller with its share. */
static void print_callers(const struct tide_history *h, const struct tide_culprit *c, size_t most, FILE *out)
{
    const struct tide_frame *own, *common[TIDE_STACK_SHOWN];
    size_t count = 0, shown = c->common < most ? c->common : most;
    shown = shown < TIDE_STACK_SHOWN ? shown : TIDE_STACK_SHOWN;
    struct tide_buf b = TIDE_BUF_HERE(2 * TEXT);
    for (size_t depth = 0; count < shown && (own = tide_stack_own(h, c->site->stack, &depth)); depth++)
        common[count++] = own;
    while (count-- > 0) {
        tide_buf_clear(&b);
        tide_frame_put(&b, common[count], true);
        fprintf(out, "              %s\n", tide_buf_view(&b));
    }
    for (size_t i = 0; i < c->caller_count && i < most; i++) {
        const struct tide_culprit *one = &c->callers[i];
        const struct tide_frame *caller = tide_culprit_caller(h, one);
        tide_buf_clear(&b);
        if (isfinite(one->share))
            tide_buf_format(&b, "%3.0f %%  ", 100 * one->share);
        else
            tide_buf_text(&b, "       ");
        if (caller)
            tide_frame_put(&b, caller, true);
        else
            tide_buf_text(&b, "called by no other line of the program");
        fprintf(out, "       from   %s\n", tide_buf_view(&b));
    }
}

/* True if the culprits belong to several processes, so that each must be named. */
static bool are_of_several(const struct tide_blame *blame)
{
    for (size_t i = 1; i < blame->count; i++)
        if (blame->culprits[i].process != blame->culprits[0].process)
            return true;
    return false;
}

static const char *why_none(const struct tide_blame *blame)
{
    if (blame->by == TIDE_BLAME_BETWEEN || blame->by == TIDE_BLAME_RISE)
        return "no call site grew";
    if (blame->by != TIDE_BLAME_GROWTH)
        return "no call site holds anything";
    if (blame->outgrown)
        return "call sites grow faster than the process, so none explains its growth";
    return blame->unjudged ? "call sites were seen too rarely to be judged; '--by end' shows what each holds"
                           : "no call site grows";
}

void tide_blame_print(const struct tide_blame *blame, const struct tide_history *history, size_t most,
                      size_t frames, FILE *out)
{
    size_t said = 0;
    for (size_t i = 0; i < blame->count && said < most; i++) {
        const struct tide_culprit *c = &blame->culprits[i];
        struct tide_buf amount = TIDE_BUF_HERE(TEXT), part = TIDE_BUF_HERE(TEXT), habit = TIDE_BUF_HERE(TEXT);
        if (c->bounded)
            continue;
        tide_culprit_put_amount(&amount, blame, c);
        tide_culprit_put_part(&part, blame, c);
        tide_culprit_put_habit(&habit, blame, c);
        if (are_of_several(blame))
            tide_buf_format(&habit, "%sin %s", habit.len ? ", " : "", c->process_name);
        fprintf(out, "  culprit %-3zu %-14s%-24s %s\n", ++said, tide_buf_view(&amount), tide_buf_view(&part),
                tide_buf_view(&habit));
        if (c->caller_count)
            print_callers(history, c, frames, out);
        else
            tide_stack_print(history, c->site, frames, out);
        for (size_t k = 0; k < c->holder_count; k++)
            fprintf(out, "    held by   %s\n", TIDE_SHOWN(c->holders[k], TEXT));
    }
    if (said == 0)
        fprintf(out, "  culprit none: %s\n", why_none(blame));
    char unseen[280];
    if (tide_sites_unseen(history, unseen, sizeof unseen))
        fprintf(out, "  unseen  %s\n", unseen);
    if (blame->beyond)
        fprintf(out, "  beyond  %zu more call sites rose, each by less than the %zu that were judged\n",
                blame->beyond, (size_t)TIDE_BLAME_JUDGED);
    tide_healthy_print(blame, history, out);
}

static void json_healthy(struct tide_json *json, const struct tide_history *h,
                         const struct tide_healthy *healthy)
{
    bool phase = healthy->kind == TIDE_HEALTHY_PHASE;
    char process[TIDE_SITE_PROCESS];
    struct tide_buf sentence = TIDE_BUF_HERE(1024);
    tide_healthy_put(&sentence, h, healthy);
    tide_site_process_name(h, healthy->site, process, sizeof process);
    tide_json_object(json, NULL);
    tide_json_text(json, "kind", phase ? "phase" : "cache");
    tide_json_text(json, "sentence", tide_buf_view(&sentence));
    tide_json_text(json, "process", process);
    tide_json_whole(json, "bytes", healthy->bytes);
    tide_json_text(json, "phase", phase ? healthy->phase : NULL);
    tide_json_whole(json, "times", phase ? (double)healthy->times : NAN);
    tide_json_real(json, "share", phase ? healthy->part : NAN);
    tide_json_real(json, "knee_step", healthy->x_is_steps ? healthy->knee_x : NAN);
    tide_json_real(json, "knee_second", healthy->x_is_steps ? NAN : healthy->knee_x);
    tide_stack_json(json, "frames", h, healthy->site->stack);
    tide_json_end(json);
}

static void json_callers(struct tide_json *json, const struct tide_history *history,
                         const struct tide_culprit *c, bool steps)
{
    tide_json_array(json, "callers");
    for (size_t i = 0; i < c->caller_count; i++) {
        const struct tide_culprit *one = &c->callers[i];
        tide_json_object(json, NULL);
        tide_json_real(json, steps ? "bytes_per_step" : "bytes_per_second", one->bytes_per_x);
        tide_json_real(json, "share", one->share);
        tide_json_whole(json, "bytes", one->bytes);
        tide_stack_json(json, "frames", history, one->site->stack);
        tide_json_end(json);
    }
    tide_json_end(json);
}

void tide_blame_json(const struct tide_blame *blame, const struct tide_history *history, const char *source,
                     FILE *out)
{
    static const char *const orders[] = {
        [TIDE_BLAME_GROWTH] = "growth", [TIDE_BLAME_RISE] = "rise",   [TIDE_BLAME_PEAK] = "peak",
        [TIDE_BLAME_END] = "end",       [TIDE_BLAME_PHASE] = "phase", [TIDE_BLAME_BETWEEN] = "between"};
    struct tide_json json;
    tide_json_document(&json, out, false, "tidemark.blame/1");
    tide_json_text(&json, "source", source);
    tide_json_text(&json, "by", orders[blame->by]);
    tide_json_text(&json, "axis", blame->x_is_steps ? "step" : "second");
    tide_json_integer(&json, "sites", (int64_t)blame->sites);
    tide_json_whole(&json, "all_bytes", blame->all_bytes);
    tide_json_whole(&json, "all_device_bytes", blame->all_device_bytes);
    if (blame->beyond)
        tide_json_integer(&json, "sites_not_judged", (int64_t)blame->beyond);
    tide_json_array(&json, "culprits");
    for (size_t i = 0; i < blame->count; i++) {
        const struct tide_culprit *c = &blame->culprits[i];
        bool steps = blame->x_is_steps;
        tide_json_object(&json, NULL);
        tide_json_text(&json, "process", c->process_name);
        tide_json_text(&json, "kind", tide_site_kind_name(c->site->kind));
        tide_json_real(&json, "bytes_per_step", steps ? c->bytes_per_x : NAN);
        tide_json_real(&json, "bytes_per_step_low",
                       steps && c->bytes_per_x > 0 ? c->on.verdict.slope_low : NAN);
        tide_json_real(&json, "bytes_per_step_high",
                       steps && c->bytes_per_x > 0 ? c->on.verdict.slope_high : NAN);
        tide_json_real(&json, "bytes_per_second", steps ? NAN : c->bytes_per_x);
        tide_json_real(&json, "share", c->share);
        tide_json_whole(&json, "bytes", c->bytes);
        tide_json_whole(&json, "live_bytes", c->live_bytes);
        tide_json_whole(&json, "blocks", c->blocks);
        tide_json_real(&json, "blocks_per_step", steps ? c->blocks_per_x : NAN);
        tide_json_real(&json, "freed_share", c->freed_share);
        tide_json_real(&json, "samples", isfinite(c->samples) ? c->samples : NAN);
        tide_json_bool(&json, "bounded", c->bounded);
        tide_json_real(&json, "grows_by_factor", c->factor);
        tide_json_text(&json, "verdict", c->judged ? tide_verdict_name(c->on.verdict.kind) : NULL);
        tide_stack_json(&json, "frames", history, c->site->stack);
        if (c->caller_count)
            json_callers(&json, history, c, steps);
        if (c->holder_count) {
            tide_json_array(&json, "held_by");
            for (size_t k = 0; k < c->holder_count; k++)
                tide_json_text(&json, NULL, c->holders[k]);
            tide_json_end(&json);
        }
        tide_json_end(&json);
    }
    tide_json_end(&json);
    tide_json_array(&json, "healthy");
    for (size_t i = 0; i < blame->healthy_count; i++)
        json_healthy(&json, history, &blame->healthy[i]);
    tide_json_end(&json);
    tide_json_end(&json);
}
