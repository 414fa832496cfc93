#include "show/report/page_data.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "show/text/verdict_text.h"

#include <math.h>
#include <string.h>

static int64_t milliseconds(int64_t t_ns)
{
    return t_ns / TIDE_NS_PER_MS;
}

/* A series of numbers as differences. */
struct differences {
    struct tide_json *json;
    int64_t before;
};

static void put_difference(struct differences *d, int64_t value)
{
    tide_json_integer(d->json, NULL, value - d->before);
    d->before = value;
}

static void put_line(struct tide_json *json, const char *key, const struct tide_report_line *line)
{
    tide_json_object(json, key);
    struct differences d = {json, 0};
    tide_json_array(json, "t");
    for (size_t i = 0; i < line->count; i++)
        put_difference(&d, milliseconds(line->points[i].t_ns));
    tide_json_end(json);
    d.before = 0;
    tide_json_array(json, "v");
    for (size_t i = 0; i < line->count; i++)
        put_difference(&d, line->points[i].bytes);
    tide_json_end(json);
    tide_json_end(json);
}

static void put_shown(struct tide_json *json, const char *key, const char *text)
{
    char shown[192];
    tide_json_text(json, key, tide_text_escape(text, strlen(text), shown, sizeof shown));
}

static void put_series(struct tide_json *json, const struct tide_summary *summary,
                       const struct tide_assessment *a, const struct tide_report_series *s)
{
    static const char *const subjects[] = {"process", "role", "tree", "gpu", "gauge", "column"};
    const struct tide_judged *j = s->judged;
    const struct tide_verdict *v = &j->verdict;
    char sentence[1024];
    tide_judged_sentence(j, a, sentence, sizeof sentence);
    double limit = j->subject == TIDE_SUBJECT_GPU    ? j->limit_bytes
                   : j->subject == TIDE_SUBJECT_TREE ? a->limit_bytes
                                                     : NAN;
    tide_json_object(json, NULL);
    tide_json_text(json, "name", j->name);
    tide_json_text(json, "subject", subjects[j->subject]);
    tide_json_text(json, "verdict", tide_verdict_name(v->kind));
    tide_json_text(json, "sentence", sentence);
    tide_json_whole(json, "limit", limit);
    tide_json_integer(json, "end", milliseconds(s->end_ns));
    tide_json_whole(json, "jump",
                    v->kind == TIDE_JUMP ? (double)milliseconds(tide_report_time(summary, v->jump_x)) : NAN);
    tide_json_whole(json, "knee",
                    isfinite(v->knee_x) ? (double)milliseconds(tide_report_time(summary, v->knee_x)) : NAN);
    put_line(json, "level", &s->level);
    put_line(json, "floor", &s->floor);
    put_line(json, "spikes", &s->spikes);
    put_line(json, "live", &s->live);
    tide_json_end(json);
}

static void put_marks(struct tide_json *json, const struct tide_report_marks *marks)
{
    tide_json_array(json, "phases");
    for (size_t i = 0; i < marks->name_count; i++)
        put_shown(json, NULL, marks->names[i]);
    tide_json_end(json);
    struct differences d = {json, 0};
    tide_json_array(json, "spans"); /* phase, begin as a difference, length */
    for (size_t i = 0; i < marks->span_count; i++) {
        const struct tide_stretch *s = &marks->spans[i];
        tide_json_integer(json, NULL, s->name);
        put_difference(&d, milliseconds(s->from_ns));
        tide_json_integer(json, NULL, milliseconds(s->to_ns) - milliseconds(s->from_ns));
    }
    tide_json_end(json);
    tide_json_array(json, "epochs"); /* time, number */
    for (size_t i = 0; i < marks->epoch_count; i++) {
        tide_json_integer(json, NULL, milliseconds(marks->epochs[i].t_ns));
        tide_json_integer(json, NULL, marks->epochs[i].number);
    }
    tide_json_end(json);
    tide_json_object(json, "steps");
    d.before = 0;
    tide_json_array(json, "t");
    for (size_t i = 0; i < marks->step_count; i++)
        put_difference(&d, milliseconds(marks->steps[i].t_ns));
    tide_json_end(json);
    d.before = 0;
    tide_json_array(json, "v");
    for (size_t i = 0; i < marks->step_count; i++)
        put_difference(&d, llround(marks->steps[i].step));
    tide_json_end(json);
    tide_json_end(json);
}

void tide_report_data_timeline(FILE *out, const struct tide_summary *summary, const struct tide_assessment *a,
                               const struct tide_report_set *set, const struct tide_report_marks *marks)
{
    struct tide_json json;
    tide_json_init(&json, out, true);
    tide_json_object(&json, NULL);
    tide_json_text(&json, "schema", "tidemark.timeline/1");
    tide_json_integer(&json, "end", milliseconds(summary->last_ns));
    tide_json_integer(&json, "beside", (int64_t)set->beside);
    tide_json_bool(&json, "beside_level", set->beside_level);
    tide_json_array(&json, "series");
    for (size_t i = 0; i < set->count; i++)
        put_series(&json, summary, a, &set->series[i]);
    tide_json_end(&json);
    put_marks(&json, marks);
    tide_json_end(&json);
}

void tide_report_data_sites(FILE *out, const struct tide_report_sites *sites)
{
    struct tide_json json;
    tide_json_init(&json, out, true);
    tide_json_object(&json, NULL);
    tide_json_text(&json, "schema", "tidemark.sites/1");
    struct differences d = {&json, 0};
    tide_json_array(&json, "moments");
    for (size_t i = 0; i < sites->moment_count; i++)
        put_difference(&d, milliseconds(sites->moments_ns[i]));
    tide_json_end(&json);
    tide_json_integer(&json, "first", (int64_t)sites->first);
    tide_json_integer(&json, "last", (int64_t)sites->last);
    tide_json_integer(&json, "peak", (int64_t)sites->peak);
    tide_json_array(&json, "labels"); /* the kind's letter, then the text */
    for (size_t i = 0; i < sites->label_count; i++) {
        char text[160];
        snprintf(text, sizeof text, "%c%s", (char)sites->labels[i].kind, sites->labels[i].text);
        tide_json_text(&json, NULL, text);
    }
    tide_json_end(&json);
    tide_json_array(&json, "nodes"); /* how far back the parent is (0: a root), label */
    for (size_t i = 0; i < sites->node_count; i++) {
        const struct tide_report_node *n = &sites->nodes[i];
        tide_json_integer(&json, NULL, n->parent < 0 ? 0 : (int64_t)i - n->parent);
        tide_json_integer(&json, NULL, n->label);
    }
    tide_json_end(&json);
    tide_json_array(&json, "sites"); /* node, kind, sites merged, culprit, growth, then the values */
    for (size_t i = 0; i < sites->site_count; i++) {
        const struct tide_report_site *s = &sites->sites[i];
        tide_json_array(&json, NULL);
        tide_json_integer(&json, NULL, s->node);
        tide_json_integer(&json, NULL, s->kind);
        tide_json_integer(&json, NULL, (int64_t)s->merged);
        tide_json_integer(&json, NULL, s->culprit);
        tide_json_whole(&json, NULL, s->growth);
        d.before = 0;
        for (size_t k = 0; k < sites->moment_count; k++)
            put_difference(&d, s->values[k]);
        tide_json_end(&json);
    }
    tide_json_end(&json);
    tide_json_integer(&json, "left_out", (int64_t)sites->left_out);
    tide_json_end(&json);
}
