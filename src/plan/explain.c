#include "plan/explain.h"
#include "base/units.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Relative error of a plan, and the largest distance at which an explanation is still shown. */
static const double PLAN_ERROR = 0.004, SHOWN_WITHIN = 0.05;
/* The growth of a mistake may differ from the measured growth per step by this share, and its count may be
 * below what the steps make of it by this share. */
static const double GROWTH_WITHIN = 0.1;
/* A pair is rarer than the product of its parts, because one mistake alone is usually noticed. */
static const double PAIR_PENALTY = 0.25;

enum {
    VARIANTS_MOST = 8,
    TRIED_MOST = 2048,
    EXACT_MOST = 9,
    COUNT_MOST = 1000,
    BLOCKS_PLANNED = 384,
    LAYERS_PLANNED = 128
};

/* A mistake that grows has a count, which is fitted: at most one per forward pass, or one per step. */
enum growth { STAYS, ONE_A_PASS, ONE_A_STEP };

/* Facts about a job that decide which mistakes it can contain. */
enum {
    TRAINS = 1 << 0,
    INFERS = 1 << 1,
    TEXT = 1 << 2,
    ATTENDS = 1 << 3,
    LORA = 1 << 4,
    GRPO = 1 << 5,
    NOT_GRPO = 1 << 6,
    REFERS = 1 << 7,
    GENERATES = 1 << 8,
    SHORT = 1 << 9, /* the generated text is short */
    READS = 1 << 10,
    NARROW = 1 << 11,
    STATEFUL = 1 << 12, /* the optimizer keeps state */
    OWN_LOOP = 1 << 13,
};

static unsigned facts_of(const struct tide_job *job)
{
    bool trains = job->task != TIDE_TASK_INFER, grpo = job->task == TIDE_TASK_GRPO;
    return (trains ? TRAINS : INFERS) | (tide_model_sees(&job->model) ? 0 : TEXT) |
           (job->model.family == TIDE_FAMILY_RESNET ? 0 : ATTENDS) |
           (job->task == TIDE_TASK_LORA ? LORA : 0) | (grpo ? GRPO : NOT_GRPO) |
           (job->reference ? REFERS : 0) | (job->generate ? GENERATES : READS) |
           (job->generate <= 512 ? SHORT : 0) | (job->dtype == TIDE_DTYPE_FP32 ? 0 : NARROW) |
           (job->optimizer == TIDE_SGD ? 0 : STATEFUL) | (job->loss <= TIDE_LOSS_OWN ? OWN_LOOP : 0);
}

/* Most mistakes flip one flag of a job, if it is not flipped already; others have a function. */
struct mistake {
    const char *key;
    double prior;
    enum growth growth;
    unsigned needs; /* facts */
    /* Puts variant v of the mistake into the job and describes it. False if there is no such variant, or the
     * job has it already. For a mistake with a count, amount is the count. NULL: the mistake is a flag. */
    bool (*apply)(struct tide_job *job, int variant, int64_t amount, char *what, size_t size);
    size_t flag;      /* offset in the job */
    bool off;         /* the mistake turns it off */
    const char *what; /* the description */
};

static bool graphs(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    job->mistakes.graphs = amount;
    snprintf(what, size, "%lld forward graphs held before one backward", (long long)amount);
    return !v;
}

static bool outputs(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    job->mistakes.logits_kept = amount;
    snprintf(what, size, "logits of %lld steps kept in a list", (long long)amount);
    return !v;
}

static bool padding(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    static const int64_t lengths[] = {256, 512, 1024, 2048, 4096, 8192};
    (void)amount;
    if (v >= (int)(sizeof lengths / sizeof *lengths) || lengths[v] <= job->sequence ||
        lengths[v] > job->model.positions)
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
    snprintf(what, size, "fp32 instead of %s", tide_precision_names[job->dtype]);
    job->dtype = TIDE_DTYPE_FP32;
    job->autocast = false;
    return !v;
}

static bool untyped(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    bool is_eager = job->eager;
    wide(job, v, amount, what, size);
    job->eager = true;
    snprintf(what, size, "fp32 and eager attention (the model was loaded without dtype and attention)");
    return !v && !is_eager;
}

static bool batch(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    static const int64_t times[] = {2, 4, 8, 16};
    (void)amount;
    if (v >= (int)(sizeof times / sizeof *times))
        return false;
    job->batch = tide_times(job->batch, times[v]);
    snprintf(what, size,
             "batch multiplied by %lld (by group size, accumulation or number of devices): %lld sequences",
             (long long)times[v], (long long)job->batch);
    return true;
}

static bool copies(struct tide_job *job, int v, int64_t amount, char *what, size_t size)
{
    (void)amount;
    if (v > 1)
        return false;
    job->mistakes.copies = v + 1;
    snprintf(what, size, v ? "two more copies of the model" : "the model is loaded twice");
    return true;
}

#define FLAG(field)    offsetof(struct tide_job, field), false
#define NO_FLAG(field) offsetof(struct tide_job, field), true
#define FUNCTION       0, false, NULL

/* The priors: how common each mistake is among those who ask, roughly, from public trackers. */
static const struct mistake mistakes[] = {
    {"graphs", 0.15, ONE_A_PASS, TRAINS, graphs, FUNCTION},
    {"padding", 0.15, STAYS, TEXT, padding, FUNCTION},
    {"dtype", 0.18, STAYS, NARROW, wide, FUNCTION},
    {"autocast", 0.10, STAYS, 0, NULL, NO_FLAG(autocast), "no autocast: everything in fp32"},
    {"eager", 0.12, STAYS, ATTENDS, NULL, FLAG(eager), "eager attention"},
    {"untyped", 0.04, STAYS, NARROW | ATTENDS, untyped, FUNCTION},
    {"batch", 0.12, STAYS, 0, batch, FUNCTION},
    {"logits", 0.08, STAYS, TRAINS | TEXT, NULL, FLAG(mistakes.upcast_logits),
     "logits and their fp32 copy held through the backward pass"},
    {"generation", 0.08, STAYS, GRPO | GENERATES | SHORT, NULL, FLAG(mistakes.generate_grad),
     "generation without no_grad"},
    {"reference", 0.08, STAYS, GRPO | REFERS, NULL, FLAG(mistakes.reference_grad),
     "the reference model runs with gradients"},
    {"cache", 0.05, STAYS, GRPO | GENERATES, NULL, FLAG(mistakes.cache_kept),
     "the generation's keys and values are kept during the update"},
    {"copies", 0.08, STAYS, 0, copies, FUNCTION},
    {"master", 0.06, STAYS, NARROW | TRAINS | STATEFUL, NULL, FLAG(mistakes.master),
     "optimizer state and a master copy of the weights in fp32"},
    {"checkpointing", 0.15, STAYS, 0, NULL, NO_FLAG(checkpointing), "checkpointing is not in effect"},
    {"evaluation", 0.06, STAYS, TRAINS | NOT_GRPO, NULL, FLAG(mistakes.evaluate_grad),
     "an evaluation without no_grad, whose loss is kept"},
    {"held", 0.05, STAYS, TRAINS | NOT_GRPO | TEXT | OWN_LOOP, NULL, FLAG(held),
     "the model's output held through the backward pass and the next forward"},
    {"outputs", 0.05, ONE_A_STEP, TRAINS | TEXT, outputs, FUNCTION},
    {"unfrozen", 0.12, STAYS, LORA, NULL, FLAG(mistakes.unfrozen),
     "the base model is not frozen: all of it trains"},
    {"infer-grad", 0.15, STAYS, INFERS | READS, NULL, FLAG(mistakes.infer_grad), "inference without no_grad"},
    {"prefill", 0.08, STAYS, INFERS | GENERATES, NULL, FLAG(mistakes.prefill_logits),
     "logits of the whole prompt instead of its last token"},
    {"keeps", 0.04, STAYS, TRAINS, NULL, FLAG(keep_gradients),
     "gradients zeroed instead of freed (set_to_none=False)"},
};
enum { MISTAKES = sizeof mistakes / sizeof *mistakes };

/* Puts a variant of a mistake into the job and describes it. False if there is none. */
static bool make_mistake(const struct mistake *m, struct tide_job *job, int variant, int64_t amount,
                         char *what, size_t size)
{
    if (m->needs & ~facts_of(job))
        return false;
    if (m->apply)
        return m->apply(job, variant, amount, what, size);
    bool *flag = (bool *)((char *)job + m->flag);
    if (variant || *flag != m->off)
        return false;
    *flag = !m->off;
    snprintf(what, size, "%s", m->what);
    return true;
}

struct tried {
    int first, second; /* mistakes; second -1: none */
    int first_variant, second_variant;
    int64_t amount;
    double bytes, score;
    double unit;   /* what one more of a count adds */
    double choice; /* how many counts there were to choose from */
    int64_t rate;  /* how many a step adds; 0: unknown */
};

static bool any(const struct tried *t, enum growth growth)
{
    return mistakes[t->first].growth == growth || (t->second >= 0 && mistakes[t->second].growth == growth);
}

static bool grows(const struct tried *t)
{
    return any(t, ONE_A_PASS) || any(t, ONE_A_STEP);
}

struct search {
    struct tide_job job; /* with as many steps as the run had */
    const struct tide_evidence *evidence;
    struct tried list[TRIED_MOST];
    int count;
    double within; /* largest distance of an explanation */
};

/* Puts the mistakes of a try into a copy of the job. */
static bool compose(const struct search *s, const struct tried *t, struct tide_job *job, char *what,
                    size_t size)
{
    char one[TIDE_WHAT] = "", two[TIDE_WHAT] = "";
    *job = s->job;
    if (!make_mistake(&mistakes[t->first], job, t->first_variant, t->amount, one, sizeof one) ||
        (t->second >= 0 &&
         !make_mistake(&mistakes[t->second], job, t->second_variant, t->amount, two, sizeof two)))
        return false;
    snprintf(what, size, "%.*s%s%.*s", (int)(size / 2 - 4), one, *two ? ", " : "", (int)(size / 2 - 4), two);
    return true;
}

/* Returns the number of a forecast that the evidence measured. */
static double comparable(const struct search *s, const struct tide_forecast *f)
{
    return (double)(s->evidence->device ? f->device : f->allocated);
}

/*
 * Estimates the bytes of a job from two shorter models: every phase's peak is a straight line in the number
 * of layers. It takes a few per cent of the time of a whole plan and is exact enough for the ranking. What it
 * finds is planned in full afterwards. Any other detail than TIDE_ROUGH plans the whole model at once.
 */
static bool estimate(const struct search *s, const struct tide_job *job, enum tide_detail detail,
                     double *ret_bytes)
{
    /* Large, but on the stack: thread-local memory would be allocated for every command and thread. */
    struct tide_forecast low, high;
    struct tide_job small = *job;
    struct tide_err err;
    int64_t layers = job->model.layers;
    bool whole = layers <= 4 || job->model.family == TIDE_FAMILY_RESNET || detail != TIDE_ROUGH;
    if (whole) {
        if (tide_forecast_make(job, detail, &low, &err))
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
        most = tide_phase_counts(&high.phases[i]) && peak > most ? peak : most;
    }
    *ret_bytes = most + (s->evidence->device ? (double)high.context : 0);
    return true;
}

static double score_of(const struct search *s, const struct tried *t)
{
    const struct tide_evidence *e = s->evidence;
    double off = fabs(t->bytes - (double)e->bytes), prior = mistakes[t->first].prior;
    /* It died on its way to one more, so the measured bytes are a ceiling, not a demand. */
    if (grows(t) && e->fails_at > 2)
        off = off > t->unit / 2 ? off - t->unit / 2 : 0;
    off /= (double)e->bytes * PLAN_ERROR;
    if (t->second >= 0)
        prior *= mistakes[t->second].prior * PAIR_PENALTY;
    /* A count could have been any other, so the prior is spread over its possible values. */
    prior /= 1 + 0.25 * t->choice;
    if (e->fails_at)
        prior *= (e->fails_at > 2) == grows(t) ? 8 : 0.5;
    return log(prior) - off * off / 2;
}

static void add_try(struct search *s, struct tried t)
{
    if (s->count == TRIED_MOST)
        return;
    t.score = score_of(s, &t);
    s->list[s->count++] = t;
}

/* Returns how many of a count a step adds; 0: unknown. How many groups of answers, each a forward pass, a
 * GRPO step goes through only the measured growth can say. */
static int64_t rate_of(const struct search *s, const struct tried *t)
{
    if (!any(t, ONE_A_PASS))
        return 1;
    if (s->job.task != TIDE_TASK_GRPO)
        return s->job.accumulation;
    return llround(fmin((double)s->evidence->per_step / t->unit, COUNT_MOST));
}

/* Returns the least count after so many steps. The last step may not have added to it. */
static int64_t least_after(int64_t steps, int64_t rate)
{
    return (int64_t)ceil((1 - GROWTH_WITHIN) * (double)tide_times(steps - 1, rate));
}

/* Chooses the count nearest to the wanted one that the steps of the run, if known, can have made. */
static bool choose_amount(const struct search *s, struct tried *t, double wanted)
{
    int64_t steps = s->job.steps, least = 2, most = COUNT_MOST;
    if (steps && t->rate) {
        least = least_after(steps, t->rate) > 2 ? least_after(steps, t->rate) : 2;
        most = tide_times(steps, t->rate);
        wanted = fmax((double)least, fmin(wanted, (double)most));
    }
    if (!(wanted > (double)least - 0.5 && wanted < (double)most + 0.5))
        return false;
    t->amount = llround(wanted);
    t->choice = (double)(steps && t->rate ? most - least : t->amount);
    return true;
}

/* True if the mistake adds as much in a step as was measured. */
static bool grows_as_measured(const struct search *s, const struct tried *t)
{
    double measured = (double)s->evidence->per_step;
    return measured == 0 || fabs(t->unit * (double)t->rate / measured - 1) <= GROWTH_WITHIN;
}

/* Fits the count that brings a growing mistake nearest to the measured bytes: they are linear in it. */
static void try_fitted(struct search *s, struct tried t)
{
    struct tide_job job;
    char what[TIDE_WHAT];
    double at[2];
    const int64_t counts[2] = {3, 5};
    for (int i = 0; i < 2; i++) {
        t.amount = counts[i];
        if (!compose(s, &t, &job, what, sizeof what) || !estimate(s, &job, TIDE_ROUGH, &at[i]))
            return;
    }
    double slope = (at[1] - at[0]) / 2;
    if (!(slope > 0))
        return;
    t.unit = slope;
    t.rate = rate_of(s, &t);
    if (!grows_as_measured(s, &t) || !choose_amount(s, &t, 3 + ((double)s->evidence->bytes - at[0]) / slope))
        return;
    t.bytes = at[0] + slope * (double)(t.amount - 3);
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
    /* There are few mistakes alone, and an estimate that is off must not hide one: they are planned. */
    enum tide_detail detail =
        t.second < 0 && s->job.model.layers <= LAYERS_PLANNED ? TIDE_POOLED : TIDE_ROUGH;
    if (!s->evidence->per_step && compose(s, &t, &job, what, sizeof what) &&
        estimate(s, &job, detail, &t.bytes))
        add_try(s, t);
}

/* True for fp32 with eager attention, which is a mistake of its own in the table. */
static bool told_apart(int a, int b)
{
    return mistakes[a].apply == wide && mistakes[b].flag == offsetof(struct tide_job, eager);
}

static void try_all(struct search *s)
{
    for (int a = 0; a < MISTAKES; a++)
        for (int v = 0; v < VARIANTS_MOST; v++) {
            try_one(s, (struct tried){.first = a, .first_variant = v, .second = -1});
            for (int b = a + 1; b < MISTAKES; b++)
                for (int w = 0; w < VARIANTS_MOST; w++)
                    if (!(mistakes[a].growth && mistakes[b].growth) && !told_apart(a, b))
                        try_one(s, (struct tried){
                                       .first = a, .first_variant = v, .second = b, .second_variant = w});
        }
}

static int by_score(const void *left, const void *right)
{
    const struct tried *a = left, *b = right;
    return (a->score < b->score) - (a->score > b->score);
}

/* True if a pair needs the same bytes as one of its two mistakes alone. */
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

static bool plan_amount(const struct search *s, struct tried t, int64_t amount, struct tide_forecast *f,
                        char *what, size_t size)
{
    struct tide_job job;
    struct tide_err err;
    t.amount = amount;
    return compose(s, &t, &job, what, size) && tide_forecast_make(&job, TIDE_POOLED, f, &err) == 0;
}

/* Plans the whole model. A large count is planned for two smaller counts and extrapolated, because a plan
 * visits every tensor that is held. */
static bool plan_whole(const struct search *s, const struct tried *t, struct tide_forecast *f, char *what,
                       size_t size)
{
    struct tide_forecast half;
    struct tide_job job;
    char unsaid[TIDE_WHAT];
    int64_t most = BLOCKS_PLANNED / (s->job.model.layers > 0 ? s->job.model.layers : 1);
    most = most < 8 ? 8 : most > 64 ? 64 : most;
    if (t->amount <= most)
        return plan_amount(s, *t, t->amount, f, what, size);
    if (!compose(s, t, &job, what, size) || !plan_amount(s, *t, most / 2, &half, unsaid, sizeof unsaid) ||
        !plan_amount(s, *t, most, f, unsaid, sizeof unsaid))
        return false;
    double further = (double)(t->amount - most) / (double)(most - most / 2);
    f->allocated = extended(half.allocated, f->allocated, further);
    f->device = extended(half.device, f->device, further);
    for (int i = 0; i < f->phase_count && i < half.phase_count; i++)
        f->phases[i].peak = extended(half.phases[i].peak, f->phases[i].peak, further);
    return true;
}

/* Returns how many forward passes a step must have had for the count; 0: no more than the job says. */
static int64_t passes_of(const struct search *s, const struct tried *t)
{
    int64_t steps = s->job.steps, passes = t->rate;
    if (!any(t, ONE_A_PASS))
        return 0;
    if (!passes && steps) /* fewer than one a step, so that a step must have made them all */
        passes = t->amount < least_after(steps, s->job.accumulation)
                     ? t->amount
                     : t->amount / steps + (t->amount % steps > 0);
    return passes > s->job.accumulation ? passes : 0;
}

static void take(struct search *s, const struct tried *t, struct tide_explanations *to)
{
    struct tide_forecast f;
    struct tried exact = *t;
    struct tide_explanation e = {.amount = t->amount, .unit = t->unit, .passes = passes_of(s, t)};
    if (!plan_whole(s, t, &f, e.what, sizeof e.what))
        return;
    exact.bytes = comparable(s, &f);
    e.bytes = (int64_t)exact.bytes;
    e.distance = exact.bytes / (double)s->evidence->bytes - 1;
    e.score = score_of(s, &exact);
    e.grows = grows(t) && (t->rate || !e.passes);
    snprintf(e.keys, sizeof e.keys, "%s%s%s", mistakes[t->first].key, t->second >= 0 ? "+" : "",
             t->second >= 0 ? mistakes[t->second].key : "");
    memcpy(e.phases, f.phases, sizeof e.phases);
    e.phase_count = f.phase_count;
    if (fabs(e.distance) > s->within || adds_nothing(to, t, e.bytes))
        return;
    int at = to->count < TIDE_EXPLANATIONS ? to->count++ : TIDE_EXPLANATIONS;
    for (; at > 0 && to->list[at - 1].score < e.score; at--)
        if (at < TIDE_EXPLANATIONS)
            to->list[at] = to->list[at - 1];
    if (at < TIDE_EXPLANATIONS)
        to->list[at] = e;
}

enum { APART_PERCENT = 5 }; /* how much two plans must differ for a measurement to tell them apart */

/* For two mistakes with a count that reach the same bytes: compares what one of each adds. */
static void test_growth(const struct tide_explanation *a, const struct tide_explanation *b,
                        struct tide_explanations *to)
{
    if (a->amount && b->amount && fabs(a->unit - b->unit) * 100 > APART_PERCENT * a->unit)
        snprintf(to->test, sizeof to->test,
                 "what one forward pass adds to the allocated bytes: about %s if 1 is true, %s if 2 is",
                 TIDE_MEMORY(a->unit), TIDE_MEMORY(b->unit));
    else
        snprintf(
            to->test, sizeof to->test,
            "which tensors are alive (a census of tidemark.torch): both need the same bytes in every phase");
}

/* Asks for the growth per step if only one of the first two grows, else for the phase that differs most. */
static void find_test(const struct search *s, struct tide_explanations *to)
{
    enum { LATER = 10, LEAST = 3 }; /* the optimizer's state exists from step 2 on */
    int64_t later = s->job.steps && s->job.steps < LATER ? s->job.steps : LATER;
    double most = APART_PERCENT / 100.0;
    to->test[0] = '\0';
    if (to->count < 2)
        return;
    const struct tide_explanation *a = &to->list[0], *b = &to->list[1];
    if (a->grows != b->grows && !a->passes && !b->passes && later >= LEAST) {
        snprintf(
            to->test, sizeof to->test,
            "allocated bytes at the start of step 2 and of step %lld: they differ if %s, and are equal if "
            "not",
            (long long)later, a->grows ? "1 is true" : "2 is true");
        return;
    }
    for (int i = 0; i < a->phase_count; i++)
        for (int k = 0; k < b->phase_count; k++) {
            if (strcmp(a->phases[i].name, b->phases[k].name) != 0 || !tide_phase_counts(&a->phases[i]) ||
                !a->phases[i].peak || !b->phases[k].peak)
                continue;
            double off = fabs((double)a->phases[i].peak / (double)b->phases[k].peak - 1);
            if (off <= most)
                continue;
            most = off;
            snprintf(to->test, sizeof to->test,
                     "the peak of allocated bytes of the phase '%s': %s if 1 is true, %s if 2 is",
                     a->phases[i].name, TIDE_MEMORY((double)a->phases[i].peak),
                     TIDE_MEMORY((double)b->phases[k].peak));
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
            : tide_times(tide_times(tide_times(job->batch, job->sequence), job->model.vocabulary), width);
    return weights * (job->task == TIDE_TASK_GRPO && job->reference ? 2 : 1) + logits;
}

int tide_explain(const struct tide_job *job, const struct tide_evidence *evidence,
                 struct tide_explanations *ret, struct tide_err *err)
{
    memset(ret, 0, sizeof *ret);
    struct search *s = calloc(1, sizeof *s);
    if (!s)
        return tide_err_set(err, "out of memory");
    s->job = *job;
    s->job.steps = evidence->fails_at ? evidence->fails_at : evidence->steps;
    s->evidence = evidence;
    if (tide_forecast_make(&s->job, TIDE_FULL, &ret->right, err)) {
        free(s);
        return -1;
    }
    ret->naive = naive_bytes(job, &ret->right);
    ret->right_distance = comparable(s, &ret->right) / (double)evidence->bytes - 1;
    /* A correct run does not grow with its steps. */
    ret->innocent = fabs(ret->right_distance) < 2 * PLAN_ERROR && !evidence->per_step;
    /* A mistake that is further off than a correct run explains nothing, unless the run grew. */
    bool grew = evidence->fails_at || evidence->per_step;
    s->within = ret->innocent || grew ? SHOWN_WITHIN : fmin(SHOWN_WITHIN, fabs(ret->right_distance));
    try_all(s);
    qsort(s->list, (size_t)s->count, sizeof *s->list, by_score);
    for (int i = 0; i < s->count && i < EXACT_MOST; i++)
        take(s, &s->list[i], ret);
    if (!ret->count && !grew && fabs(ret->right_distance) <= SHOWN_WITHIN)
        ret->innocent = true;
    find_test(s, ret);
    free(s);
    return 0;
}
