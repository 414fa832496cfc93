#include "show/text/against_text.h"
#include "assess/plan_compared.h"
#include "base/json.h"
#include "base/units.h"
#include "plan/plan_text.h"

static void print_owner(FILE *out, const char *name, int64_t bytes, int64_t *sum)
{
    *sum += bytes;
    fprintf(out, "  %-16s %12s %12s\n", name, TIDE_SIZE((double)bytes), TIDE_SIZE((double)*sum));
}

/* Prints the owners at the peak with running sums up to the plan, then the bytes beyond the plan. */
static void print_waterfall(const struct tide_job *job, const struct tide_forecast *f,
                            const struct tide_against *seen, bool device, FILE *out)
{
    int64_t sum = 0;
    for (int part = 0; part < TIDE_PARTS; part++)
        if (f->owned[part])
            print_owner(out, tide_part_name((enum tide_part)part), f->owned[part], &sum);
    if (device)
        print_owner(out, "kept unused", f->reserved - f->allocated, &sum);
    if (device || job->host)
        print_owner(out, device ? "context" : "interpreter", f->context, &sum);
    print_owner(out, "unexplained", seen->rows[seen->count - 1].seen - sum, &sum);
}

static void print_text(const struct tide_job *job, const struct tide_forecast *f,
                       const struct tide_against *seen, bool device, FILE *out)
{
    char line[256];
    tide_job_text(job, line, sizeof line);
    fprintf(out, "plan          %s\n\n  %-16s %12s %12s\n", line, "owner", "bytes", "in all");
    print_waterfall(job, f, seen, device, out);
    fprintf(out, "\n  %-16s %12s %12s %12s   (%s)\n", "peak of", "planned", "seen", "unexplained",
            seen->what);
    for (int i = 0; i < seen->count; i++) {
        const struct tide_against_row *row = &seen->rows[i];
        fprintf(out, "  %-16s %12s %12s %12s\n", row->name, TIDE_SIZE((double)row->planned),
                TIDE_SIZE((double)row->seen), TIDE_SIZE((double)(row->seen - row->planned)));
    }
}

static void print_json(const struct tide_forecast *f, const struct tide_against *seen, bool device, FILE *out)
{
    struct tide_json json;
    tide_json_document(&json, out, false, "tidemark.against/1");
    tide_json_text(&json, "compared", device ? "device" : "rss");
    tide_json_object(&json, "planned_at_peak");
    for (int part = 0; part < TIDE_PARTS; part++)
        if (f->owned[part])
            tide_json_integer(&json, tide_part_name((enum tide_part)part), f->owned[part]);
    tide_json_end(&json);
    tide_json_array(&json, "rows");
    for (int i = 0; i < seen->count; i++) {
        tide_json_object(&json, NULL);
        tide_json_text(&json, "name", seen->rows[i].name);
        tide_json_integer(&json, "planned_bytes", seen->rows[i].planned);
        tide_json_integer(&json, "seen_bytes", seen->rows[i].seen);
        tide_json_integer(&json, "unexplained_bytes", seen->rows[i].seen - seen->rows[i].planned);
        tide_json_end(&json);
    }
    tide_json_end(&json);
    tide_json_end(&json);
}

int tide_against(const struct tide_job *job, const struct tide_forecast *forecast, const char *path,
                 bool json, FILE *out, struct tide_err *err)
{
    struct tide_history *history;
    struct tide_against seen;
    if (tide_history_open(path, &history, err))
        return -1;
    if (tide_against_compare(job->host, forecast, history, &seen, err)) {
        tide_history_free(history);
        return -1;
    }
    bool known = seen.rows[seen.count - 1].seen >= 0;
    if (known && json)
        print_json(forecast, &seen, history->gpu_count > 0, out);
    else if (known)
        print_text(job, forecast, &seen, history->gpu_count > 0, out);
    tide_history_free(history);
    return known ? 0 : tide_err_set(err, "the recording has no samples of any process's memory");
}
