/*
 * verdict_json.c - an assessment as the document "tidemark.verdict/1".
 */
#include "base/clock.h"
#include "show/text/verdict_text.h"

#include <math.h>

enum { SENTENCE = 1024 };

const char *const tide_subject_names[] = {"process", "role", "tree", "gpu", "gauge", "column"};

/* Writes x as a step or as a second, depending on the axis. */
static void json_place(struct tide_json *json, const char *step, const char *second, bool steps, double x)
{
    tide_json_real(json, step, steps ? x : NAN);
    tide_json_real(json, second, steps ? NAN : x);
}

static void json_crest(struct tide_json *json, const struct tide_crest *c)
{
    if (c->epochs == 0)
        return;
    tide_json_object(json, "rising_peaks");
    tide_json_integer(json, "epochs", (int64_t)c->epochs);
    tide_json_whole(json, "bytes_per_epoch", c->per_epoch);
    tide_json_whole(json, "bytes_per_epoch_low", c->low);
    tide_json_whole(json, "bytes_per_epoch_high", c->high);
    tide_json_whole(json, "first_bytes", fmax(c->first_bytes, 0));
    tide_json_whole(json, "last_bytes", c->last_bytes);
    tide_json_text(json, "phase", c->phase[0] ? c->phase : NULL);
    tide_json_end(json);
}

static void json_judged(struct tide_json *json, const struct tide_judged *j, const struct tide_assessment *a)
{
    const struct tide_verdict *v = &j->verdict;
    char sentence[SENTENCE];
    tide_judged_sentence(j, a, sentence, sizeof sentence);
    bool steps = j->x_is_steps;
    tide_json_text(json, "verdict", tide_verdict_name(v->kind));
    tide_json_text(json, "shape", tide_shape_name(v->shape));
    tide_json_text(json, "subject", j->shared ? "shared memory" : tide_subject_names[j->subject]);
    tide_json_text(json, "name", j->name);
    tide_json_whole(json, "leaking_processes", j->each ? (double)j->each : NAN);
    tide_json_whole(json, "pid", j->pid > 0 ? (double)j->pid : NAN);
    tide_json_text(json, "axis", steps ? "step" : "second");
    tide_json_text(json, "sentence", sentence);
    tide_json_real(json, "confidence", v->confidence);
    tide_json_real(json, "bytes_per_step", steps ? v->slope : NAN);
    tide_json_real(json, "bytes_per_step_low", steps ? v->slope_low : NAN);
    tide_json_real(json, "bytes_per_step_high", steps ? v->slope_high : NAN);
    tide_json_real(json, "bytes_per_second", steps ? NAN : v->slope);
    tide_json_real(json, "bytes_per_second_low", steps ? NAN : v->slope_low);
    tide_json_real(json, "bytes_per_second_high", steps ? NAN : v->slope_high);
    tide_json_whole(json, "growth_bytes", v->kind == TIDE_UNDECIDED ? NAN : v->growth_bytes);
    tide_json_whole(json, "floor_first_bytes", v->floor_first);
    tide_json_whole(json, "floor_last_bytes", v->floor_last);
    tide_json_whole(json, "peak_bytes", v->peak);
    json_place(json, "since_step", "since_second", steps, v->since_x);
    json_place(json, "knee_step", "knee_second", steps, v->knee_x);
    tide_json_whole(json, "ceiling_bytes", v->ceiling_bytes);
    tide_json_whole(json, "bytes_per_item", v->bytes_per_item);
    tide_json_bool(json, "one_pass", v->one_pass);
    json_place(json, "jump_step", "jump_second", steps, v->jump_x);
    tide_json_real(json, "jump_after_step", steps ? v->jump_after : NAN);
    tide_json_whole(json, "jump_bytes", v->jump_bytes);
    tide_json_text(json, "jump_mark", j->jump_mark[0] ? j->jump_mark : NULL);
    tide_json_real(json, "stair_period", v->stair_period);
    static const char *const stairs_at[] = {NULL, "epoch", "phase"};
    tide_json_text(json, "stairs_at", stairs_at[v->stairs_at]);
    tide_json_whole(json, "limit_bytes", tide_judged_limit(j, a));
    tide_json_whole(json, "limit_step", steps ? v->limit_x : NAN);
    tide_json_whole(json, "limit_second", steps ? NAN : v->limit_x);
    tide_json_whole(json, "seconds_to_limit", (v->limit_x - v->x_last) * j->seconds_per_step);
    tide_json_whole(json, "steps_needed", steps ? v->steps_needed : NAN);
    tide_json_whole(json, "seconds_needed", steps ? NAN : v->steps_needed);
    json_place(json, "needed_for_bytes_per_step", "needed_for_bytes_per_second", steps, v->needed_for);
    json_place(json, "detectable_bytes_per_step", "detectable_bytes_per_second", steps, v->detectable);
    tide_json_whole(json, "warmup_ends", v->start_x);
    tide_json_integer(json, "samples", (int64_t)j->count);
    static const char *const where[] = {[TIDE_KEPT_UNKNOWN] = NULL,
                                        [TIDE_KEPT_AT_THE_END] = "end of the heap",
                                        [TIDE_KEPT_IN_PAGES] = "whole pages",
                                        [TIDE_KEPT_IN_HOLES] = "holes"};
    const struct tide_retention *r = j->live_known ? &j->retention : NULL;
    const struct tide_kept *k = j->live_known ? &j->kept : NULL;
    tide_json_bool(json, "bounded",
                   v->kind == TIDE_PLATEAU || (v->kind == TIDE_RETENTION && !tide_verdict_grows(v)));
    tide_json_whole(json, "live_bytes", r ? r->live_bytes : NAN);
    tide_json_whole(json, "not_live_bytes", r ? r->not_live_bytes : NAN);
    tide_json_real(json, "live_bytes_per_step", r && steps ? r->live_per_x : NAN);
    tide_json_real(json, "live_bytes_per_step_low", r && steps ? r->live_low : NAN);
    tide_json_real(json, "live_bytes_per_step_high", r && steps ? r->live_high : NAN);
    tide_json_real(json, "live_bytes_per_second", r && !steps ? r->live_per_x : NAN);
    tide_json_whole(json, "allocator_free_bytes", k ? k->free_bytes : NAN);
    tide_json_text(json, "allocator_free_in", k ? where[tide_kept_where(k)] : NULL);
    tide_json_whole(json, "trim_bytes_low", k ? k->trim_low : NAN);
    tide_json_whole(json, "trim_bytes_high", k ? k->trim_high : NAN);
    tide_json_object(json, "spikes");
    tide_json_integer(json, "count", (int64_t)v->spikes.count);
    tide_json_whole(json, "typical_bytes", v->spikes.count ? v->spikes.typical_bytes : NAN);
    tide_json_whole(json, "largest_bytes", v->spikes.count ? v->spikes.largest_bytes : NAN);
    tide_json_integer(json, "returned", (int64_t)v->spikes.returned);
    tide_json_text(json, "phase", j->phase[0] ? j->phase : NULL);
    tide_json_end(json);
    json_crest(json, &j->crest);
}

void tide_death_json(struct tide_json *json, const struct tide_death *d)
{
    if (d->cause == TIDE_DEATH_NONE) {
        tide_json_null(json, "death");
        return;
    }
    tide_json_object(json, "death");
    tide_json_text(json, "cause", d->cause == TIDE_DEATH_OOM ? "oom" : "signal");
    tide_json_integer(json, "signal", d->signal);
    tide_json_integer(json, "pid", d->pid);
    tide_json_text(json, "name", d->name);
    tide_json_whole(json, "bytes", d->bytes);
    tide_json_real(json, "step", d->step);
    tide_json_real(json, "second", d->t_ns >= 0 ? (double)d->t_ns / TIDE_NS_PER_S : NAN);
    tide_json_text(json, "phase", d->phase[0] ? d->phase : NULL);
    tide_json_whole(json, "limit_bytes", d->limit_bytes);
    tide_json_text(json, "limit_name", d->limit_name[0] ? d->limit_name : NULL);
    tide_json_end(json);
}

void tide_assessment_json(const struct tide_assessment *a, const char *source, FILE *out)
{
    struct tide_json json;
    tide_json_document(&json, out, false, "tidemark.verdict/1");
    tide_json_text(&json, "source", source);
    tide_death_json(&json, &a->death);
    json_judged(&json, &a->judged[0], a);
    tide_json_real(&json, "pss_known_share", a->pss_known);
    tide_json_text(&json, "limit_name",
                   a->judged[0].rlimit        ? tide_rlimit_names[a->judged[0].rlimit]
                   : isfinite(a->limit_bytes) ? a->limit_name
                                              : NULL);
    tide_json_text(&json, "others", a->others[0] ? a->others : NULL);
    tide_json_real(&json, "broke_off_seconds", a->broke_off);
    tide_json_real(&json, "gap_seconds", a->gap_seconds > 0 ? a->gap_seconds : NAN);
    tide_json_whole(&json, "series_not_judged", (double)a->beyond);
    tide_json_text(&json, "evidence", a->evidence[0] ? a->evidence : NULL);
    tide_json_array(&json, "series");
    for (size_t i = 0; i < a->count; i++) {
        tide_json_object(&json, NULL);
        json_judged(&json, &a->judged[i], a);
        tide_json_end(&json);
    }
    tide_json_end(&json);
    tide_json_end(&json);
}
