#include "plan/plan_text.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/text.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

/* NULL: none. */
static const char *optimizer_of(const struct tide_job *job)
{
    return job->task == TIDE_TASK_INFER ? NULL
           : job->own                   ? job->own_optimizer
                                        : tide_optimizer_names[job->optimizer];
}

void tide_job_text(const struct tide_job *job, char *out, size_t size_of_out)
{
    const char *optimizer = optimizer_of(job);
    char more[192] = "";
    size_t used = 0;
    const struct {
        bool on;
        const char *text;
    } extras[] = {{job->autocast, ", autocast"},
                  {job->eager, ", eager attention"},
                  {job->checkpointing, ", checkpointing"},
                  {job->compiled, ", compiled"},
                  {job->padded, ", padded rows"},
                  {job->keep_gradients, ", gradients kept"},
                  {job->loss == TIDE_LOSS_OWN, ", own loss"},
                  {job->loss == TIDE_LOSS_TRAINER, ", Trainer"},
                  {job->loss == TIDE_LOSS_TRL, ", SFTTrainer"},
                  {job->no_cache, ", no cache"},
                  {job->held, ", output held"}};
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++)
        if (extras[i].on)
            used += (size_t)snprintf(more + used, sizeof more - used, "%s", extras[i].text);
    snprintf(out, size_of_out, "%s, %s, %lld x %lld, %s%s%s%s", job->model.name, tide_task_names[job->task],
             (long long)job->batch, (long long)job->sequence, tide_precision_names[job->dtype],
             optimizer ? ", " : "", optimizer ? optimizer : "", more);
}

static bool is_activation(enum tide_part part)
{
    return part >= TIDE_PART_RESIDUAL && part <= TIDE_PART_CONVOLUTION;
}

static void print_row(const char *name, int64_t peak, const int64_t *cells, int count, FILE *out)
{
    fprintf(out, "  %-16s %12s", name, peak ? TIDE_MEMORY(peak) : "-");
    for (int i = 0; i < count; i++)
        fprintf(out, "  %17s", cells[i] ? TIDE_MEMORY(cells[i]) : "-");
    fputc('\n', out);
}

static void print_parts(const struct tide_forecast *f, FILE *out)
{
    int columns[TIDE_PHASES_MOST], count = 0;
    int64_t cells[TIDE_PHASES_MOST];
    fprintf(out, "  %-16s %12s", "", "at the peak");
    for (int i = 0; i < f->phase_count; i++) {
        if (!f->phases[i].peak || !strcmp(f->phases[i].name, "start") || !tide_phase_counts(&f->phases[i]))
            continue;
        fprintf(out, "  %17s", f->phases[i].name);
        columns[count++] = i;
    }
    fputc('\n', out);
    for (int part = 0; part < TIDE_PARTS; part++) {
        bool any = f->owned[part] > 0;
        for (int i = 0; i < count; i++) {
            cells[i] = f->phases[columns[i]].owned[part];
            any |= cells[i] > 0;
        }
        if (any)
            print_row(tide_part_name((enum tide_part)part), f->owned[part], cells, count, out);
    }
    for (int i = 0; i < count; i++)
        cells[i] = f->phases[columns[i]].peak;
    /* cppcheck-suppress uninitvar ; as many are set as are read */
    print_row("total", f->allocated, cells, count, out);
}

/* Prints activations by layer in one line, because all layers but the first and the last are alike. */
static void print_layers(const struct tide_job *job, const struct tide_forecast *f, FILE *out)
{
    int64_t least = INT64_MAX, most = 0, all = 0, layers = job->model.layers;
    for (int64_t layer = 1; layer <= layers && layer <= TIDE_LAYERS_MOST; layer++) {
        int64_t sum = 0;
        for (int part = 0; part < TIDE_PARTS; part++)
            sum += is_activation((enum tide_part)part) ? f->census.bytes[part][layer] : 0;
        least = sum < least ? sum : least;
        most = sum > most ? sum : most;
        all += sum;
    }
    if (!all)
        return;
    if (most - least < most / 50)
        fprintf(out, "activations   %s in %lld layers, %s each\n", TIDE_MEMORY(all), (long long)layers,
                TIDE_MEMORY(all / layers));
    else
        fprintf(out, "activations   %s in %lld layers, from %s to %s each\n", TIDE_MEMORY(all),
                (long long)layers, TIDE_MEMORY(least), TIDE_MEMORY(most));
}

static void print_room(const struct tide_job *job, const struct tide_forecast *f,
                       const struct tide_capacity *room, FILE *out)
{
    char text[TIDE_UNITS_TEXT];
    if (!room->device_bytes)
        return;
    fprintf(out, "device        %s: %s", tide_typed_size_text((double)room->device_bytes, text),
            room->fits ? "fits" : "does not fit");
    if (room->fits && f->device > room->device_bytes)
        fprintf(out, ", because the allocator gives free segments back when the device is full");
    else if (!room->fits && (room->batch > job->batch || room->sequence > job->sequence))
        fprintf(out, ", because the allocator can use less of its free memory than at some larger sizes");
    if (!room->batch)
        fprintf(out, "; no batch fits");
    else
        fprintf(out, "; the largest batch is %lld", (long long)room->batch);
    if (room->sequence)
        fprintf(out, ", the longest sequence with a batch of %lld is %lld", (long long)job->batch,
                (long long)room->sequence);
    fputc('\n', out);
}

void tide_forecast_print(const struct tide_job *job, const struct tide_forecast *f,
                         const struct tide_capacity *room, FILE *out)
{
    char line[256];
    tide_job_text(job, line, sizeof line);
    fprintf(out, "plan          %s\n", line);
    fprintf(out, "parameters    %s", TIDE_COUNT(f->parameters));
    if (f->trainable != f->parameters)
        fprintf(out, ", of which %s train", TIDE_COUNT(f->trainable));
    fprintf(out, "\n\n");
    print_parts(f, out);
    fprintf(out, "\npeak          %s %s, in the phase '%s'\n", TIDE_MEMORY(f->allocated),
            job->own ? "planned" : "allocated", f->phases[f->peak].name);
    print_layers(job, f, out);
    if (job->own)
        fprintf(out, "arena         %s bytes, exactly\n", TIDE_COUNT(f->allocated));
    else if (job->host)
        fprintf(out, "resident      %s, with the interpreter and its libraries, which take about %s\n",
                TIDE_MEMORY(f->device), TIDE_MEMORY(f->context));
    else
        fprintf(out, "on the device %s: the allocator keeps %s, context and libraries take about %s\n",
                TIDE_MEMORY(f->device), TIDE_MEMORY(f->reserved), TIDE_MEMORY(f->context));
    print_room(job, f, room, out);
}

static void print_innocent(const struct tide_job *job, const struct tide_evidence *evidence,
                           const struct tide_explanations *found, FILE *out)
{
    const char *state =
        job->task == TIDE_TASK_INFER ? "activations" : "gradients, optimizer state and activations";
    fprintf(out, "%s (weights%s) leaves out %s: a correct run needs %s.\n", TIDE_MEMORY(found->naive),
            tide_model_sees(&job->model) ? "" : " and one tensor of logits", state,
            TIDE_MEMORY(evidence->device ? found->right.device : found->right.allocated));
    if (found->innocent)
        fprintf(out, "%s is within %.1f %% of that: the run may be correct.\n", TIDE_MEMORY(evidence->bytes),
                fmax(0.1, 100 * fabs(found->right_distance)));
}

void tide_explanations_print(const struct tide_job *job, const struct tide_evidence *evidence,
                             const struct tide_explanations *found, FILE *out)
{
    print_innocent(job, evidence, found, out);
    if (!found->count && found->innocent)
        return;
    if (!found->count) {
        fprintf(out, "No known mistake, alone or in a pair, explains %s to within 5 %%",
                TIDE_MEMORY(evidence->bytes));
        if (evidence->fails_at)
            fprintf(out, " and a failure at step %lld", (long long)evidence->fails_at);
        if (evidence->per_step)
            fprintf(out, " and growth by %s a step", TIDE_MEMORY(evidence->per_step));
        fprintf(out, ".\n");
        return;
    }
    bool counted = false;
    if (found->innocent)
        fprintf(out, "These mistakes would use about as much:\n");
    else
        fprintf(out, "These mistakes would use %s:\n", TIDE_MEMORY(evidence->bytes));
    for (int i = 0; i < found->count; i++) {
        const struct tide_explanation *e = &found->list[i];
        fprintf(out, "  %d. %s: %s (%+.1f %%)", i + 1, e->what, TIDE_MEMORY(e->bytes), 100 * e->distance);
        if (e->grows && evidence->fails_at > 2)
            fprintf(out, "; grows with steps, which fits a failure at step %lld",
                    (long long)evidence->fails_at);
        else if (e->grows && !evidence->fails_at)
            fprintf(out, "; grows with steps");
        if (e->passes)
            fprintf(out, "; needs at least %lld forward passes a step", (long long)e->passes);
        fputc('\n', out);
        counted |= e->amount > 0;
    }
    if (evidence->fails_at > TIDE_STEPS_ALIKE && !counted)
        fprintf(out, "None of these grows: the run would have used as much in step %d already.\n",
                TIDE_STEPS_ALIKE);
    if (found->test[0])
        fprintf(out, "To tell 1 from 2, measure %s.\n", found->test);
}

/* ---- JSON */

static void put_parts(struct tide_json *json, const char *key, const int64_t owned[TIDE_PARTS])
{
    tide_json_object(json, key);
    for (int part = 0; part < TIDE_PARTS; part++)
        if (owned[part])
            tide_json_integer(json, tide_part_name((enum tide_part)part), owned[part]);
    tide_json_end(json);
}

static void put_job(struct tide_json *json, const struct tide_job *job)
{
    tide_json_object(json, "job");
    tide_json_text(json, "model", job->model.name);
    tide_json_text(json, "task", tide_task_names[job->task]);
    tide_json_integer(json, "batch", job->batch);
    tide_json_integer(json, "sequence", job->sequence);
    tide_json_integer(json, "accumulation", job->accumulation);
    tide_json_integer(json, "generate", job->generate);
    tide_json_text(json, "dtype", tide_precision_names[job->dtype]);
    tide_json_bool(json, "autocast", job->autocast);
    tide_json_text(json, "where", job->host ? "cpu" : "gpu");
    tide_json_text(json, "loss", tide_loss_names[job->loss]);
    tide_json_bool(json, "use_cache", !job->no_cache);
    tide_json_bool(json, "output_held", job->held);
    tide_json_text(json, "attention", job->eager ? "eager" : "sdpa");
    tide_json_bool(json, "checkpointing", job->checkpointing);
    tide_json_text(json, "optimizer", optimizer_of(job));
    tide_json_bool(json, "reference", job->task == TIDE_TASK_GRPO && job->reference);
    tide_json_bool(json, "compiled", job->compiled);
    tide_json_integer(json, "processes", job->degree);
    tide_json_text(json, "sharding", tide_sharding_names[job->sharding]);
    tide_json_end(json);
}

static void put_forecast(struct tide_json *json, const struct tide_job *job, const struct tide_forecast *f)
{
    tide_json_integer(json, "parameters", f->parameters);
    tide_json_integer(json, "trainable", f->trainable);
    tide_json_integer(json, "allocated_bytes", f->allocated);
    tide_json_integer(json, "reserved_bytes", f->reserved);
    tide_json_integer(json, "context_bytes", f->context);
    tide_json_integer(json, "device_bytes", f->device);
    tide_json_text(json, "peak_phase", f->phases[f->peak].name);
    put_parts(json, "at_peak", f->owned);
    tide_json_array(json, "phases");
    for (int i = 0; i < f->phase_count; i++) {
        if (!f->phases[i].peak)
            continue;
        tide_json_object(json, NULL);
        tide_json_text(json, "name", f->phases[i].name);
        tide_json_integer(json, "peak_bytes", f->phases[i].peak);
        put_parts(json, "parts", f->phases[i].owned);
        tide_json_end(json);
    }
    tide_json_end(json);
    tide_json_array(json, "layers");
    for (int64_t layer = 1; layer <= job->model.layers && layer <= TIDE_LAYERS_MOST; layer++) {
        tide_json_object(json, NULL);
        for (int part = 0; part < TIDE_PARTS; part++)
            if (f->census.bytes[part][layer])
                tide_json_integer(json, tide_part_name((enum tide_part)part), f->census.bytes[part][layer]);
        tide_json_end(json);
    }
    tide_json_end(json);
}

static void put_explanations(struct tide_json *json, const struct tide_evidence *evidence,
                             const struct tide_explanations *found)
{
    tide_json_object(json, "explain");
    tide_json_integer(json, "measured_bytes", evidence->bytes);
    tide_json_integer(json, "naive_bytes", found->naive);
    tide_json_bool(json, "needs_no_mistake", found->innocent);
    tide_json_array(json, "explanations");
    for (int i = 0; i < found->count; i++) {
        const struct tide_explanation *e = &found->list[i];
        tide_json_object(json, NULL);
        tide_json_text(json, "mistakes", e->keys);
        tide_json_text(json, "text", e->what);
        tide_json_integer(json, "bytes", e->bytes);
        tide_json_real(json, "distance", e->distance);
        tide_json_bool(json, "grows", e->grows);
        tide_json_whole(json, "count", e->amount ? (double)e->amount : NAN);
        tide_json_end(json);
    }
    tide_json_end(json);
    tide_json_text(json, "measurement", found->test[0] ? found->test : NULL);
    tide_json_end(json);
}

void tide_plan_json(const struct tide_job *job, const struct tide_forecast *forecast,
                    const struct tide_capacity *room, const struct tide_evidence *evidence,
                    const struct tide_explanations *found, FILE *out)
{
    struct tide_json json;
    tide_json_document(&json, out, false, "tidemark.plan/1");
    tide_json_text(&json, "framework", job->own ? "tidemark" : "torch");
    put_job(&json, job);
    put_forecast(&json, job, forecast);
    if (room->device_bytes) {
        tide_json_object(&json, "device");
        tide_json_integer(&json, "bytes", room->device_bytes);
        tide_json_bool(&json, "fits", room->fits);
        tide_json_whole(&json, "largest_batch", room->batch ? (double)room->batch : NAN);
        tide_json_whole(&json, "longest_sequence", room->sequence ? (double)room->sequence : NAN);
        tide_json_end(&json);
    }
    if (found)
        put_explanations(&json, evidence, found);
    tide_json_end(&json);
}

/* ---- reading it back */

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
