/*
 * page_data.c - the data for a page's script as JSON: documents "tidemark.timeline/1" and "tidemark.sites/1",
 * private to the page that holds them.
 *
 * Lists of times (milliseconds) and bytes are delta-encoded, because most deltas are small and a page is
 * limited in size. Texts are escaped for display here; the script only inserts them as text.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "show/report/page.h"
#include "show/text/verdict_text.h"

#include <math.h>
#include <string.h>

static int64_t milliseconds(int64_t t_ns)
{
    return t_ns / TIDE_NS_PER_MS;
}

/* Writes numbers delta-encoded: int64_t that are `stride` bytes apart, each divided by `divisor`. */
static void put_differences(struct tide_json *json, const char *key, const void *numbers, size_t stride,
                            size_t count, int64_t divisor)
{
    int64_t value, before = 0;
    tide_json_array(json, key);
    for (size_t i = 0; i < count; i++) {
        memcpy(&value, (const char *)numbers + i * stride, sizeof value);
        tide_json_integer(json, NULL, value / divisor - before);
        before = value / divisor;
    }
    tide_json_end(json);
}

static void put_line(struct tide_json *json, const char *key, const struct tide_report_curve *line)
{
    const struct tide_report_point *p = line->points;
    tide_json_object(json, key);
    put_differences(json, "t", p ? &p->t_ns : NULL, sizeof *p, line->count, TIDE_NS_PER_MS);
    put_differences(json, "v", p ? &p->bytes : NULL, sizeof *p, line->count, 1);
    tide_json_end(json);
}

static void put_series(struct tide_json *json, const struct tide_report_page *page,
                       const struct tide_report_series *s)
{
    const struct tide_summary *summary = &page->summary;
    const struct tide_judged *j = s->judged;
    const struct tide_verdict *v = &j->verdict;
    char sentence[1024];
    tide_judged_sentence(j, page->a, sentence, sizeof sentence);
    double limit = j->subject == TIDE_SUBJECT_GPU    ? j->limit_bytes
                   : j->subject == TIDE_SUBJECT_TREE ? page->a->limit_bytes
                                                     : NAN;
    tide_json_object(json, NULL);
    tide_json_text(json, "name", j->name);
    tide_json_text(json, "subject", tide_subject_names[j->subject]);
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
        tide_json_text(json, NULL, TIDE_SHOWN(marks->names[i], 192));
    tide_json_end(json);
    tide_json_array(json, "spans"); /* phase, begin (delta), length */
    int64_t before = 0;
    for (size_t i = 0; i < marks->span_count; i++) {
        int64_t from = milliseconds(marks->spans[i].from_ns);
        tide_json_integer(json, NULL, marks->spans[i].name);
        tide_json_integer(json, NULL, from - before);
        tide_json_integer(json, NULL, milliseconds(marks->spans[i].to_ns) - from);
        before = from;
    }
    tide_json_end(json);
    tide_json_array(json, "epochs"); /* time, number */
    for (size_t i = 0; i < marks->epoch_count; i++) {
        tide_json_integer(json, NULL, milliseconds(marks->epochs[i].t_ns));
        tide_json_integer(json, NULL, marks->epochs[i].number);
    }
    tide_json_end(json);
    tide_json_object(json, "steps");
    const struct tide_report_mark *s = marks->steps;
    put_differences(json, "t", &s->t_ns, sizeof *s, marks->step_count, TIDE_NS_PER_MS);
    put_differences(json, "v", &s->number, sizeof *s, marks->step_count, 1);
    tide_json_end(json);
}

void tide_report_put_timeline_data(struct tide_report_page *page)
{
    const struct tide_report_set *set = &page->set;
    struct tide_json json;
    tide_json_document(&json, page->out, true, "tidemark.timeline/1");
    json.in_page = true;
    tide_json_integer(&json, "end", milliseconds(page->summary.last_ns));
    tide_json_integer(&json, "beside", (int64_t)set->beside);
    tide_json_bool(&json, "beside_level", set->beside_level);
    tide_json_array(&json, "series");
    for (size_t i = 0; i < set->count; i++)
        put_series(&json, page, &set->series[i]);
    tide_json_end(&json);
    put_marks(&json, &page->marks);
    tide_json_end(&json);
}

void tide_report_put_sites_data(struct tide_report_page *page)
{
    const struct tide_report_sites *sites = &page->sites;
    struct tide_json json;
    tide_json_document(&json, page->out, true, "tidemark.sites/1");
    json.in_page = true;
    put_differences(&json, "moments", sites->moments_ns, sizeof *sites->moments_ns, sites->moment_count,
                    TIDE_NS_PER_MS);
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
    tide_json_array(&json, "nodes"); /* distance back to the parent (0: a root), label */
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
        for (size_t k = 0; k < sites->moment_count; k++)
            tide_json_integer(&json, NULL, s->values[k] - (k ? s->values[k - 1] : 0));
        tide_json_end(&json);
    }
    tide_json_end(&json);
    tide_json_end(&json);
}
