/*
 * plan_read.c - reads back a plan that was written as JSON: the totals, the parts at the peak and the phases.
 */
#include "base/json_read.h"
#include "base/text.h"
#include "plan/plan_text.h"

#include <string.h>

enum { PLAN_MOST = 4 << 20 };

/* A larger number is not a size. Sums of smaller ones do not overflow. */
static const int64_t LARGEST = INT64_C(1) << 56;

static int64_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    int64_t n = json_is_integer(value) ? json_integer_value(value) : 0;
    return n < 0 || n > LARGEST ? 0 : n;
}

static void take_parts(const json_t *object, int64_t owned[TIDE_PARTS])
{
    for (int part = 0; part < TIDE_PARTS; part++)
        owned[part] = number(object, tide_part_name((enum tide_part)part));
}

/* Returns our copy of a phase's name; NULL for any other name, which is skipped. */
static const char *known_phase(const char *name)
{
    static const char *const names[] = {"forward",    "reference forward", "backward",  "update",
                                        "generation", "evaluation",        "inference", NULL};
    int known = name ? tide_name_find(names, name) : -1;
    return known < 0 ? NULL : names[known];
}

static int take_plan(const json_t *root, struct tide_forecast *f, bool *ret_host, struct tide_err *err)
{
    const char *schema = json_string_value(json_object_get(root, "schema"));
    const char *where = json_string_value(json_object_get(json_object_get(root, "job"), "where"));
    const json_t *phases = json_object_get(root, "phases");
    if (!schema || strcmp(schema, "tidemark.plan/1") != 0) {
        tide_err_set(err, "it is not a plan");
        return tide_err_hint(err, "tidemark plan --model gpt2 --json > plan.json");
    }
    memset(f, 0, sizeof *f);
    f->allocated = number(root, "allocated_bytes");
    f->reserved = number(root, "reserved_bytes");
    f->context = number(root, "context_bytes");
    f->device = f->reserved + f->context;
    take_parts(json_object_get(root, "at_peak"), f->owned);
    for (size_t i = 0; i < json_array_size(phases) && f->phase_count < TIDE_PHASES_MOST; i++) {
        const json_t *phase = json_array_get(phases, i);
        const char *name = known_phase(json_string_value(json_object_get(phase, "name")));
        if (!name)
            continue;
        f->phases[f->phase_count] =
            (struct tide_plan_phase){.name = name, .peak = number(phase, "peak_bytes")};
        take_parts(json_object_get(phase, "parts"), f->phases[f->phase_count++].owned);
    }
    *ret_host = where && !strcmp(where, "cpu");
    return 0;
}

int tide_plan_read(const char *path, struct tide_forecast *ret_forecast, bool *ret_host, struct tide_err *err)
{
    json_t *root = tide_json_read(path, PLAN_MOST, "the plan", err);
    if (!root)
        return -1;
    int status = take_plan(root, ret_forecast, ret_host, err);
    json_decref(root);
    return status ? tide_err_wrap(err, "%s", TIDE_SHOWN(path, 256)) : 0;
}
