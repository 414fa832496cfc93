#include "plan/explain.h"
#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Relative error of a plan, and how far off something may be and still be shown. */
static const double PLAN_ERROR = 0.004, SHOWN_WITHIN = 0.05;
/* A pair is rarer than the product of its parts says, because one of them is usually enough to be noticed. */
static const double PAIR_PENALTY = 0.25;

enum { VARIANTS_MOST = 8, TRIED_MOST = 2048, EXACT_MOST = 9, COUNT_MOST = 1000, BLOCKS_PLANNED = 384 };

/* A mistake that grows has a count, which is fitted: of what one step may add any number of, or one. */
enum growth { STAYS, GROWS, ONE_A_STEP };

struct mistake {
    const char *key;
    double prior;
    enum growth growth;
    /* Puts variant v of the mistake into the job and says it; false: there is no such variant, or the job has
     * it already. For a mistake with a count, amount is the count. */
    bool (*apply)(struct tide_job *job, int variant, int64_t amount, char *what, size_t size);
};

static bool trains(const struct tide_job *job)
{
    return job->task != TIDE_TASK_INFER;
}

static bool graphs(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    if (v || !trains(job))
        return false;
    job->mistakes.graphs = amount;
    snprintf(what, size, "%lld forward graphs held before one backward", (long long)amount);
    return true;
}

static bool padding(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    static const int64_t lengths[] = {256, 512, 1024, 2048, 4096, 8192};
    (void)amount;
    if (v >= (int)(sizeof lengths / sizeof *lengths) || tide_model_sees(&job->model) ||
        lengths[v] <= job->sequence || lengths[v] > job->model.positions)
        return false;
    if (job->generate && job->task == TIDE_TASK_GRPO && job->generate >= lengths[v])
        return false;
    job->sequence = lengths[v];
    snprintf(what, size, "sequences padded to %lld", (long long)lengths[v]);
    return true;
}

static bool wide(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || job->dtype == TIDE_DTYPE_FP32)
        return false;
    snprintf(what, size, "fp32 instead of %s", tide_precision_names[job->dtype]);
    job->dtype = TIDE_DTYPE_FP32;
    job->autocast = false;
    return true;
}

static bool no_autocast(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || !job->autocast)
        return false;
    job->autocast = false;
    snprintf(what, size, "no autocast: everything in fp32");
    return true;
}

static bool eager(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || job->eager || job->model.family == TIDE_FAMILY_RESNET)
        return false;
    job->eager = true;
    snprintf(what, size, "eager attention");
    return true;
}

static bool untyped(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    char unused[TIDE_WHAT];
    if (v || !wide(job, 0, amount, unused, sizeof unused) || !eager(job, 0, amount, unused, sizeof unused))
        return false;
    snprintf(what, size, "fp32 and eager attention (the model was loaded without dtype and attention)");
    return true;
}

static bool batch(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    static const int64_t times[] = {2, 4, 8, 16};
    (void)amount;
    if (v >= (int)(sizeof times / sizeof *times))
        return false;
    job->batch = tide_times(job->batch, times[v]);
    snprintf(what, size,
             "batch multiplied by %lld (group, accumulation or devices counted in): %lld sequences",
             (long long)times[v], (long long)job->batch);
    return true;
}

static bool upcast(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || !trains(job) || tide_model_sees(&job->model))
        return false;
    job->mistakes.upcast_logits = true;
    snprintf(what, size, "logits and their fp32 copy held through the backward pass");
    return true;
}

static bool generation(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || job->task != TIDE_TASK_GRPO || !job->generate || job->generate > 512)
        return false;
    job->mistakes.generate_grad = true;
    snprintf(what, size, "generation without no_grad");
    return true;
}

static bool reference(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || job->task != TIDE_TASK_GRPO || !job->reference)
        return false;
    job->mistakes.reference_grad = true;
    snprintf(what, size, "the reference model runs with gradients");
    return true;
}

static bool cache(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || job->task != TIDE_TASK_GRPO || !job->generate)
        return false;
    job->mistakes.cache_kept = true;
    snprintf(what, size, "the generation's keys and values are kept during the update");
    return true;
}

static bool copies(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v > 1)
        return false;
    job->mistakes.copies = v + 1;
    snprintf(what, size, v ? "two more copies of the model" : "the model is there twice");
    return true;
}

static bool master(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || job->dtype == TIDE_DTYPE_FP32 || !trains(job) || job->optimizer == TIDE_SGD)
        return false;
    job->mistakes.master = true;
    snprintf(what, size, "optimizer state and a master copy of the weights in fp32");
    return true;
}

static bool unchecked(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || !job->checkpointing)
        return false;
    job->checkpointing = false;
    snprintf(what, size, "checkpointing is not in effect");
    return true;
}

static bool evaluation(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || !trains(job) || job->task == TIDE_TASK_GRPO)
        return false;
    job->mistakes.evaluate_grad = true;
    snprintf(what, size, "an evaluation without no_grad, whose loss is kept");
    return true;
}

static bool held(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || job->held || !trains(job) || job->task == TIDE_TASK_GRPO || tide_model_sees(&job->model) ||
        job->loss > TIDE_LOSS_OWN)
        return false;
    job->held = true;
    snprintf(what, size, "the model's output held through the backward pass and the next forward");
    return true;
}

static bool outputs(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    if (v || !trains(job) || tide_model_sees(&job->model))
        return false;
    job->mistakes.logits_kept = amount;
    snprintf(what, size, "logits of %lld steps kept in a list", (long long)amount);
    return true;
}

static bool unfrozen(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || job->task != TIDE_TASK_LORA)
        return false;
    job->mistakes.unfrozen = true;
    snprintf(what, size, "the base model is not frozen: all of it trains");
    return true;
}

static bool infer_graph(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || trains(job) || job->generate)
        return false;
    job->mistakes.infer_grad = true;
    snprintf(what, size, "inference without no_grad");
    return true;
}

static bool prefill(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || trains(job) || !job->generate)
        return false;
    job->mistakes.prefill_logits = true;
    snprintf(what, size, "logits of the whole prompt instead of its last token");
    return true;
}

static bool keeps(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v || !trains(job) || job->keep_gradients)
        return false;
    job->keep_gradients = true;
    snprintf(what, size, "gradients zeroed instead of freed (set_to_none=False)");
    return true;
}

/* How common each is, among those who ask: from the questions in public trackers, roughly. */
static const struct mistake mistakes[] = {
    {"graphs", 0.15, GROWS, graphs},
    {"padding", 0.15, STAYS, padding},
    {"dtype", 0.18, STAYS, wide},
    {"autocast", 0.10, STAYS, no_autocast},
    {"eager", 0.12, STAYS, eager},
    {"untyped", 0.04, STAYS, untyped},
    {"batch", 0.12, STAYS, batch},
    {"logits", 0.08, STAYS, upcast},
    {"generation", 0.08, STAYS, generation},
    {"reference", 0.08, STAYS, reference},
    {"cache", 0.05, STAYS, cache},
    {"copies", 0.08, STAYS, copies},
    {"master", 0.06, STAYS, master},
    {"checkpointing", 0.15, STAYS, unchecked},
    {"evaluation", 0.06, STAYS, evaluation},
    {"held", 0.05, STAYS, held},
    {"outputs", 0.05, ONE_A_STEP, outputs},
    {"unfrozen", 0.12, STAYS, unfrozen},
    {"infer-grad", 0.15, STAYS, infer_graph},
    {"prefill", 0.08, STAYS, prefill},
    {"keeps", 0.04, STAYS, keeps},
};
enum { MISTAKES = sizeof mistakes / sizeof *mistakes };

struct tried {
    int first, second; /* mistakes; second -1: none */
    int first_variant, second_variant;
    int64_t amount;
    double bytes, score;
    double unit; /* what one more of a count adds */
};

static bool any(const struct tried *t, enum growth growth)
{
    return mistakes[t->first].growth == growth || (t->second >= 0 && mistakes[t->second].growth == growth);
}

static bool grows(const struct tried *t)
{
    return any(t, GROWS) || any(t, ONE_A_STEP);
}

struct search {
    struct tide_job job; /* of as many steps as the run had */
    const struct tide_evidence *evidence;
    struct tried list[TRIED_MOST];
    int count;
};

/* Puts a try's mistakes into a copy of the job. */
static bool compose(const struct search *s, const struct tried *t, struct tide_job *job, char *what,
                    size_t size)
{
    char one[TIDE_WHAT] = "", two[TIDE_WHAT] = "";
    *job = s->job;
    if (!mistakes[t->first].apply(job, t->first_variant, t->amount, one, sizeof one) ||
        (t->second >= 0 && !mistakes[t->second].apply(job, t->second_variant, t->amount, two, sizeof two)))
        return false;
    snprintf(what, size, "%.*s%s%.*s", (int)(size / 2 - 4), one, *two ? ", " : "", (int)(size / 2 - 4), two);
    return true;
}

/* What a forecast says of the measured number. */
static double comparable(const struct search *s, const struct tide_forecast *f)
{
    return (double)(s->evidence->device ? f->device : f->allocated);
}

/*
 * The bytes of a job, from two shorter models: every phase's peak is a straight line in the number of layers.
 * A few percent of the time of a whole plan, and as near as the ranking needs; what it finds is planned in
 * full afterwards.
 */
static bool estimate(const struct search *s, const struct tide_job *job, double *ret_bytes)
{
    /* Large, but on the stack: memory of threads is made at the start of every command and thread. */
    struct tide_forecast low, high;
    struct tide_job small = *job;
    struct tide_err err;
    int64_t layers = job->model.layers;
    bool whole = layers <= 4 || job->model.family == TIDE_FAMILY_RESNET;
    if (whole) {
        if (tide_forecast_make(job, TIDE_ROUGH, &low, &err))
            return false;
        *ret_bytes = comparable(s, &low);
        return true;
    }
    small.model.layers = 2;
    if (tide_forecast_make(&small, TIDE_ROUGH, &low, &err))
        return false;
    small.model.layers = 4;
    if (tide_forecast_make(&small, TIDE_ROUGH, &high, &err))
        return false;
    double most = 0;
    for (int i = 0; i < high.phase_count && i < low.phase_count; i++) {
        double slope = (double)(high.phases[i].peak - low.phases[i].peak) / 2;
        double peak = (double)high.phases[i].peak + slope * (double)(layers - 4);
        most = peak > most ? peak : most;
    }
    *ret_bytes = most + (s->evidence->device ? (double)high.context : 0);
    return true;
}

static double score_of(const struct search *s, const struct tried *t)
{
    const struct tide_evidence *e = s->evidence;
    double off = fabs(t->bytes - (double)e->bytes), prior = mistakes[t->first].prior;
    /* Where it died it was on its way to one more: the number is a ceiling, not a demand. */
    if (grows(t) && e->fails_at > 2)
        off = off > t->unit / 2 ? off - t->unit / 2 : 0;
    off /= (double)e->bytes * PLAN_ERROR;
    if (t->second >= 0)
        prior *= mistakes[t->second].prior * PAIR_PENALTY;
    /* A count could have been any other: the prior is spread over the values it might have had. */
    if (t->amount)
        prior /= 1 + 0.25 * (double)t->amount;
    if (e->fails_at)
        prior *= (e->fails_at > 2) == grows(t) ? 8 : 0.5;
    if (e->per_step)
        prior *= grows(t) ? 20 : 0.05;
    return log(prior) - off * off / 2;
}

static void add_try(struct search *s, struct tried t)
{
    if (s->count == TRIED_MOST)
        return;
    t.score = score_of(s, &t);
    s->list[s->count++] = t;
}

/* The count that brings a growing mistake nearest to what was measured: bytes are a straight line in it. */
static void try_fitted(struct search *s, struct tried t)
{
    struct tide_job job;
    char what[TIDE_WHAT];
    double at[2];
    const int64_t counts[2] = {3, 5};
    for (int i = 0; i < 2; i++) {
        t.amount = counts[i];
        if (!compose(s, &t, &job, what, sizeof what) || !estimate(s, &job, &at[i]))
            return;
    }
    double slope = (at[1] - at[0]) / 2;
    if (!(slope > 0))
        return;
    double wanted = 3 + ((double)s->evidence->bytes - at[0]) / slope;
    if (!(wanted >= 1.5 && wanted <= COUNT_MOST))
        return;
    t.amount = llround(wanted);
    if (any(&t, ONE_A_STEP) && s->job.steps && t.amount > s->job.steps)
        return;
    t.unit = slope;
    t.bytes = at[0] + slope * (double)(t.amount - 3);
    if (s->evidence->per_step && fabs(slope / (double)s->evidence->per_step - 1) > 0.1)
        t.bytes = at[0] + slope * (double)(t.amount - 3) * 1.02;
    add_try(s, t);
}

static void try_one(struct search *s, struct tried t)
{
    struct tide_job job;
    char what[TIDE_WHAT];
    if (grows(&t)) {
        try_fitted(s, t);
        return;
    }
    if (compose(s, &t, &job, what, sizeof what) && estimate(s, &job, &t.bytes))
        add_try(s, t);
}

/* Whether a variant of a mistake is there for this job at all. */
static bool exists(const struct search *s, int mistake, int variant)
{
    struct tide_job job = s->job;
    char what[TIDE_WHAT];
    return mistakes[mistake].apply(&job, variant, 2, what, sizeof what);
}

/* fp32 and eager attention together have a row of their own. */
static bool told_apart(int a, int b)
{
    return mistakes[a].apply == wide && mistakes[b].apply == eager;
}

static void try_all(struct search *s)
{
    for (int a = 0; a < MISTAKES; a++)
        for (int v = 0; v < VARIANTS_MOST; v++) {
            if (!exists(s, a, v))
                continue;
            try_one(s, (struct tried){.first = a, .first_variant = v, .second = -1});
            for (int b = a + 1; b < MISTAKES; b++)
                for (int w = 0; w < VARIANTS_MOST; w++)
                    if (!(mistakes[a].growth && mistakes[b].growth) && !told_apart(a, b) && exists(s, b, w))
                        try_one(s, (struct tried){
                                       .first = a, .first_variant = v, .second = b, .second_variant = w});
        }
}

static int by_score(const void *left, const void *right)
{
    const struct tried *a = left, *b = right;
    return (a->score < b->score) - (a->score > b->score);
}

/* A pair that needs what one of its two needs alone. */
static bool adds_nothing(const struct tide_explanations *to, const struct tried *t, int64_t bytes)
{
    for (int i = 0; i < to->count && t->second >= 0; i++) {
        const struct tide_explanation *e = &to->list[i];
        bool part = !strcmp(e->keys, mistakes[t->first].key) || !strcmp(e->keys, mistakes[t->second].key);
        if (part && fabs((double)e->bytes / (double)bytes - 1) < PLAN_ERROR / 4)
            return true;
    }
    return false;
}

static int64_t extended(int64_t half, int64_t whole, double further)
{
    return whole + llround((double)(whole - half) * further);
}

/* Plans the whole model. A large count is planned for less, twice, and the line extended: a plan goes through
 * every tensor that is held. */
static bool plan_whole(const struct search *s, const struct tried *t, struct tide_forecast *f, char *what,
                       size_t size)
{
    struct tide_forecast half;
    struct tide_job job;
    struct tide_err err;
    struct tried fewer = *t;
    if (!compose(s, t, &job, what, size))
        return false;
    int64_t most = BLOCKS_PLANNED / (job.model.layers > 0 ? job.model.layers : 1);
    most = most < 8 ? 8 : most > 64 ? 64 : most;
    if (t->amount <= most)
        return tide_forecast_make(&job, TIDE_POOLED, f, &err) == 0;
    char unsaid[TIDE_WHAT];
    fewer.amount = most / 2;
    if (!compose(s, &fewer, &job, unsaid, sizeof unsaid) ||
        tide_forecast_make(&job, TIDE_POOLED, &half, &err) != 0)
        return false;
    fewer.amount = most;
    if (!compose(s, &fewer, &job, unsaid, sizeof unsaid) ||
        tide_forecast_make(&job, TIDE_POOLED, f, &err) != 0)
        return false;
    double further = (double)(t->amount - most) / (double)(most - most / 2);
    f->allocated = extended(half.allocated, f->allocated, further);
    f->device = extended(half.device, f->device, further);
    for (int i = 0; i < f->phase_count && i < half.phase_count; i++)
        f->phases[i].peak = extended(half.phases[i].peak, f->phases[i].peak, further);
    return true;
}

static void take(struct search *s, const struct tried *t, struct tide_explanations *to)
{
    struct tide_forecast f;
    struct tried exact = *t;
    struct tide_explanation e = {.amount = t->amount};
    if (!plan_whole(s, t, &f, e.what, sizeof e.what))
        return;
    exact.bytes = comparable(s, &f);
    e.bytes = (int64_t)exact.bytes;
    e.distance = exact.bytes / (double)s->evidence->bytes - 1;
    e.score = score_of(s, &exact);
    e.grows = grows(t);
    snprintf(e.keys, sizeof e.keys, "%s%s%s", mistakes[t->first].key, t->second >= 0 ? "+" : "",
             t->second >= 0 ? mistakes[t->second].key : "");
    memcpy(e.phases, f.phases, sizeof e.phases);
    e.phase_count = f.phase_count;
    if (fabs(e.distance) > SHOWN_WITHIN || adds_nothing(to, t, e.bytes))
        return;
    int at = to->count < TIDE_EXPLANATIONS ? to->count++ : TIDE_EXPLANATIONS;
    for (; at > 0 && to->list[at - 1].score < e.score; at--)
        if (at < TIDE_EXPLANATIONS)
            to->list[at] = to->list[at - 1];
    if (at < TIDE_EXPLANATIONS)
        to->list[at] = e;
}

enum { APART_PERCENT = 5 }; /* what two plans must differ by for a measurement to tell them apart */

/* Two that grow, to the same height: by what one of each adds. */
static void test_growth(const struct tide_explanation *a, const struct tide_explanation *b,
                        struct tide_explanations *to)
{
    char one[TIDE_UNITS_TEXT], two[TIDE_UNITS_TEXT];

    if (a->grows && b->grows && a->amount > 0 && b->amount > 0 &&
        llabs(a->amount - b->amount) * 100 > APART_PERCENT * a->amount)
        snprintf(to->test, sizeof to->test,
                 "what one forward pass adds to the allocated bytes: about %s if 1 is true, %s if 2 is",
                 tide_memory_text((double)a->bytes / (double)a->amount, one),
                 tide_memory_text((double)b->bytes / (double)b->amount, two));
    else
        snprintf(
            to->test, sizeof to->test,
            "which tensors are alive (a census of tidemark.torch): in bytes the two are alike in every phase");
}

/* The phase whose peak differs most between the first two. */
static void find_test(struct tide_explanations *to)
{
    double most = APART_PERCENT / 100.0;
    to->test[0] = '\0';
    if (to->count < 2)
        return;
    const struct tide_explanation *a = &to->list[0], *b = &to->list[1];
    if (a->grows != b->grows) {
        snprintf(
            to->test, sizeof to->test,
            "allocated bytes at the start of step 2 and of step 10: they differ if %s, and are equal if not",
            a->grows ? "1 is true" : "2 is true");
        return;
    }
    for (int i = 0; i < a->phase_count; i++)
        for (int k = 0; k < b->phase_count; k++) {
            if (strcmp(a->phases[i].name, b->phases[k].name) != 0 || !a->phases[i].peak || !b->phases[k].peak)
                continue;
            double off = fabs((double)a->phases[i].peak / (double)b->phases[k].peak - 1);
            if (off <= most)
                continue;
            char one[TIDE_UNITS_TEXT], two[TIDE_UNITS_TEXT];
            most = off;
            snprintf(to->test, sizeof to->test,
                     "the peak of allocated bytes of the phase '%s': %s if 1 is true, %s if 2 is",
                     a->phases[i].name, tide_memory_text((double)a->phases[i].peak, one),
                     tide_memory_text((double)b->phases[k].peak, two));
        }
    if (!to->test[0])
        test_growth(a, b, to);
}

static int64_t naive_bytes(const struct tide_job *job, const struct tide_forecast *f)
{
    int width = job->dtype == TIDE_DTYPE_FP32 ? 4 : 2;
    int64_t weights = tide_times(f->parameters, width);
    int64_t logits =
        tide_model_sees(&job->model)
            ? 0
            : tide_times(tide_times(tide_times(job->batch, job->sequence), job->model.words), width);
    return weights * (job->task == TIDE_TASK_GRPO && job->reference ? 2 : 1) + logits;
}

int tide_explain(const struct tide_job *job, const struct tide_evidence *evidence,
                 struct tide_explanations *ret, struct tide_err *err)
{
    memset(ret, 0, sizeof *ret);
    struct search *s = calloc(1, sizeof *s);
    if (!s)
        return tide_err_set(err, "no memory left");
    s->job = *job;
    s->job.steps = evidence->fails_at ? evidence->fails_at : evidence->steps;
    s->evidence = evidence;
    if (tide_forecast_make(&s->job, TIDE_FULL, &ret->right, err)) {
        free(s);
        return -1;
    }
    ret->naive = naive_bytes(job, &ret->right);
    ret->innocent = fabs(comparable(s, &ret->right) / (double)evidence->bytes - 1) < 2 * PLAN_ERROR;
    try_all(s);
    qsort(s->list, (size_t)s->count, sizeof *s->list, by_score);
    for (int i = 0; i < s->count && i < EXACT_MOST; i++)
        take(s, &s->list[i], ret);
    find_test(ret);
    free(s);
    return 0;
}
