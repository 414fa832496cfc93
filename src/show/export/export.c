#include "show/export/export.h"
#include "assess/stacks.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct tide_export_format formats[] = {
    {"pprof", ".pb.gz", true, true, true, tide_export_pprof},
    {"speedscope", ".speedscope.json", true, false, true, tide_export_speedscope},
    {"collapsed", ".folded", true, false, true, tide_export_collapsed},
    {"chrome-trace", ".json", false, false, false, tide_export_trace},
    {"openmetrics", ".txt", false, false, true, tide_export_openmetrics},
    {"csv", ".csv", false, false, false, tide_export_csv},
};

const struct tide_export_format *tide_export_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, name))
            return &formats[i];
    return NULL;
}

/* --- what sites hold ----------------------------------------------------------------------------------- */

int tide_export_by_owner(const struct tide_history_site *a, const struct tide_history_site *b)
{
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    return tide_site_is_on_device(a) - tide_site_is_on_device(b);
}

static int by_owner_and_id(const void *a, const void *b)
{
    const struct tide_history_site *left = ((const struct tide_export_value *)a)->site,
                                   *right = ((const struct tide_export_value *)b)->site;
    int order = tide_export_by_owner(left, right);
    return order ? order : (left->id > right->id) - (left->id < right->id);
}

static int64_t known(int64_t value)
{
    return value > 0 ? value : 0;
}

static struct tide_export_value value_of(const struct tide_export *e, const struct tide_history_site *site,
                                         int64_t from_ns, int64_t to_ns)
{
    struct tide_export_value v = {.site = site};
    double blocks, before = 0;
    double bytes = tide_moment_live(e->history, site, e->options.growth ? to_ns : e->at_ns, &blocks);
    if (e->options.growth) {
        bytes = tide_moment_growth(site, from_ns, to_ns);
        tide_moment_live(e->history, site, from_ns, &before);
        blocks -= before;
    }
    const struct tide_history_site_point *p = tide_moment_point(site, e->at_ns);
    v.bytes = bytes > 0 ? llround(bytes) : 0;
    v.blocks = blocks > 0 ? llround(blocks) : 0;
    v.total_bytes = p ? known(p->total_bytes) : 0;
    v.total_blocks = p ? known(p->total_blocks) : 0;
    return v;
}

static int find_values(struct tide_export *e, struct tide_err *err)
{
    int64_t from_ns, to_ns;
    if (tide_moment_find(&e->options.at, e->history, e->assessment, &e->at_ns, err))
        return -1;
    tide_moment_training(e->history, e->assessment, &from_ns, &to_ns);
    e->values = tide_arena_take(e->arena, e->history->site_count + 1, sizeof *e->values);
    if (!e->values)
        return tide_err_set(err, "not enough memory for %zu call sites", e->history->site_count);
    for (size_t i = 0; i < e->history->site_count; i++) {
        const struct tide_history_site *site = &e->history->sites[i];
        if (site->id == 0)
            continue;
        struct tide_export_value v = value_of(e, site, from_ns, to_ns);
        if (v.bytes > 0)
            e->values[e->count++] = v;
    }
    qsort(e->values, e->count, sizeof *e->values, by_owner_and_id);
    return 0;
}

int tide_export_write(const struct tide_export_format *format, const struct tide_history *history,
                      const struct tide_assessment *assessment, struct tide_reader *reader,
                      const struct tide_export_options *options, FILE *out, struct tide_err *err)
{
    struct tide_arena arena;
    struct tide_export e = {
        .history = history, .assessment = assessment, .reader = reader, .options = *options, .arena = &arena};
    bool sites_wanted =
        format->needs_sites || (format->write == tide_export_csv && options->rows == TIDE_EXPORT_SITES);
    if (sites_wanted && history->site_count == 0)
        return tide_sites_missing(history, err);
    tide_arena_init(&arena, (size_t)1 << 30);
    int status = find_values(&e, err);
    if (!status)
        status = format->write(&e, out, err);
    tide_arena_release(&arena);
    return status;
}

/* --- names --------------------------------------------------------------------------------------------- */

void tide_export_owner(const struct tide_export *e, const struct tide_history_site *site, char *out,
                       size_t size)
{
    char process[TIDE_SITE_PROCESS];
    tide_site_process_name(e->history, site, process, sizeof process);
    if (tide_site_is_on_device(site))
        snprintf(out, size, "%s %s", process, tide_site_kind_name(site->kind));
    else
        snprintf(out, size, "%s", process);
}

void tide_export_frame(const struct tide_frame *f, char *out, size_t size)
{
    const char *where = tide_text_last_part(f->file[0] ? f->file : f->module),
               *function = TIDE_SHOWN(f->function, TIDE_EXPORT_TEXT / 2),
               *place = TIDE_SHOWN(where, TIDE_EXPORT_TEXT / 4);
    if (!f->function[0])
        snprintf(out, size, "%s+0x%llx", place[0] ? place : "?",
                 (unsigned long long)(f->offset > 0 ? f->offset : 0));
    else if (f->file[0] && f->line > 0)
        snprintf(out, size, "%s (%s:%lld)", function, place, (long long)f->line);
    else if (place[0])
        snprintf(out, size, "%s (%s)", function, place);
    else
        snprintf(out, size, "%s", function);
}
