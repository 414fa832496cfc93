#include "plan/forecast.h"
#include "plan/fully_shard.h"
#include "plan/loss.h"

#include <stdlib.h>
#include <string.h>

enum { STATES = 4 };

struct run {
    const struct tide_job *job;
    int steps;
    struct tide_tape tape;
    struct tide_net policy, reference;
    bool has_reference;
    struct tide_batch batch;
    int policy_leaves;
    int rank;      /* of the process that is planned */
    int old_nodes; /* of a graph that a mistake keeps from the previous step */
};

static int width_of(enum tide_precision precision)
{
    return precision == TIDE_DTYPE_FP32 ? 4 : 2;
}

static bool shares_weights(const struct tide_job *job)
{
    return job->sharding >= TIDE_SHARD_GRADIENTS;
}

static int make_net(struct run *run, struct tide_net *net, bool policy, struct tide_err *err)
{
    const struct tide_job *job = run->job;
    bool lora = job->task == TIDE_TASK_LORA, trains = job->task != TIDE_TASK_INFER;
    struct tide_net_options how = {
        .width = width_of(job->dtype),
        .rank = policy && lora ? job->rank : 0,
        .trains = policy ? (trains && !lora) || job->mistakes.unfrozen || job->mistakes.infer_grad
                         : job->mistakes.reference_grad,
        .eager = job->eager,
        .checkpoint = policy && job->checkpointing,
        .compiled = job->compiled,
        .dropout = policy && trains,
        .owner = policy ? TIDE_PART_WEIGHTS : TIDE_PART_REFERENCE,
    };
    int first = run->tape.leaf_count;
    if (tide_net_init(net, &run->tape, &job->model, &how, err))
        return -1;
    if (shares_weights(job)) /* a model without a backward pass need not stay whole */
        tide_net_share(net, &run->tape, first, policy && trains && job->sharding == TIDE_SHARD_GRADIENTS);
    return 0;
}

/* A model that takes memory and is never used. */
static int make_copy(struct run *run, struct tide_err *err)
{
    struct tide_net net;
    struct tide_net_options how = {.width = width_of(run->job->dtype), .owner = TIDE_PART_COPIES};
    if (tide_net_init(&net, &run->tape, &run->job->model, &how, err))
        return -1;
    tide_net_release(&net);
    return 0;
}

static void make_inputs(struct run *run)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    int64_t count = tide_times(job->batch, job->sequence);
    if (tide_model_sees(&job->model)) {
        int64_t pixels =
            tide_times(tide_times(job->batch, job->model.planes), tide_times(job->sequence, job->sequence));
        run->batch.in = tide_tape_take(tape, pixels, width_of(job->dtype), TIDE_PART_INPUT);
        tide_tape_take(tape, job->batch, 8, TIDE_PART_INPUT); /* labels */
        return;
    }
    run->batch.in = tide_tape_take(tape, count, 8, TIDE_PART_INPUT);
    if (job->loss == TIDE_LOSS_OWN) /* the next tokens */
        tide_tape_take(tape, count, 8, TIDE_PART_INPUT);
    if (job->padded) /* the mask */
        tide_tape_take(tape, count, 8, TIDE_PART_INPUT);
}

static struct tide_sized grpo_loss(struct run *run)
{
    struct tide_tape *tape = &run->tape;
    struct tide_sized old = TIDE_NOTHING;
    if (run->has_reference) {
        bool grad = tape->grad;
        tape->grad = run->job->mistakes.reference_grad;
        tide_tape_phase(tape, "reference forward");
        old = tide_loss_log_probabilities(tape, run->job, &run->reference, run->batch.in);
        tide_tape_end_cast(tape);
        tape->grad = grad;
    }
    tide_tape_phase(tape, "forward");
    struct tide_sized new = tide_loss_log_probabilities(tape, run->job, &run->policy, run->batch.in);
    tide_tape_end_cast(tape);
    struct tide_sized loss = old.storage >= 0 ? tide_torch_add(tape, new, old, TIDE_PART_HEAD) : new;
    if (old.storage >= 0) {
        TIDE_DROP(tape, new, old);
    }
    return tide_then(tape, loss, tide_torch_mean(tape, loss, 1));
}

/* Greedy decoding with a cache: the prompt, then one token at a time. All tokens are alike, so of many only
 * some are run, and the caches are stretched in between. With a graph, every token is run. */
static void generate(struct run *run, int64_t prompt, int64_t tokens, bool keeps_graph)
{
    enum { RUN_EXACT = 40, RUN_FAST = 2 };
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    bool dropout = run->policy.how.dropout;
    int64_t most = tape->cacher.kind == TIDE_CACHER_POOLS ? RUN_EXACT : RUN_FAST;
    int64_t stride = keeps_graph || tokens <= most ? 1 : (tokens + most - 1) / most;
    run->policy.how.dropout = false;
    for (int64_t i = 0; i < tokens && !tape->failed;) {
        struct tide_net_call call = tide_loss_call(job, i ? 1 : prompt);
        call.past = i ? prompt + i - 1 : 0;
        call.caches = true;
        call.masked = false;
        call.logits = job->mistakes.prefill_logits && !i ? 0 : 1;
        struct tide_sized logits = tide_net_forward(&run->policy, tape, run->batch.in, &call);
        if (keeps_graph) {
            struct tide_sized wide = tide_torch_cast(tape, logits, 4, TIDE_PART_HEAD);
            struct tide_sized shares = tide_then(tape, wide, tide_torch_log_softmax(tape, wide));
            tide_tape_drop(tape, tide_torch_pick(tape, shares, job->batch, false));
            tide_tape_drop(tape, shares);
        }
        tide_tape_drop(tape, logits);
        tide_net_done(&run->policy, tape);
        int64_t next = i + stride < tokens || i == tokens - 1 ? i + stride : tokens - 1;
        if (next > i + 1 && next < tokens)
            tide_net_stretch_cache(&run->policy, tape, job->batch, prompt + next - 1);
        i = next;
    }
    run->policy.how.dropout = dropout;
}

static bool is_trained(const struct run *run, int leaf)
{
    return leaf < run->policy_leaves && run->tape.leaves[leaf].trains;
}

/* True if the leaf trains and its state is in this process. */
static bool is_updated(const struct run *run, int leaf)
{
    return is_trained(run, leaf) && run->tape.leaves[leaf].rank == run->rank;
}

static void zero_gradients(struct run *run)
{
    struct tide_tape *tape = &run->tape;
    if (run->job->keep_gradients)
        return;
    for (int i = 0; i < tape->leaf_count; i++)
        if (is_trained(run, i))
            tide_tape_let_go(tape, &tape->leaves[i].gradient);
    tide_shard_drop_gradients(tape);
}

/* ZeroRedundancyOptimizer gives each parameter, the largest first, to the process that has the least. The
 * plan is for the process that ends up with the most. */
static int give_states(struct run *run, struct tide_err *err)
{
    int count = run->policy_leaves;
    int64_t ranks = run->job->degree < count ? run->job->degree : count, most = 0;
    int64_t *sizes = calloc((size_t)ranks + 1, sizeof *sizes);
    if (!sizes)
        return tide_err_set(err, "out of memory");
    for (int i = 0; i < count; i++)
        run->tape.leaves[i].rank = is_trained(run, i) ? -1 : 0;
    for (;;) {
        struct tide_leaf *largest = NULL;
        for (int i = 0; i < count; i++)
            if (run->tape.leaves[i].rank < 0 && (!largest || run->tape.leaves[i].count > largest->count))
                largest = &run->tape.leaves[i];
        if (!largest)
            break;
        int64_t least = 0;
        for (int64_t r = 1; r < ranks; r++)
            least = sizes[r] < sizes[least] ? r : least;
        largest->rank = (int)least;
        sizes[least] += largest->count;
    }
    for (int64_t r = 1; r < ranks; r++)
        most = sizes[r] > sizes[most] ? r : most;
    run->rank = (int)most;
    free(sizes);
    return 0;
}

/* Bytes of one parameter's optimizer state, in up to four tensors. */
static void state_bytes(const struct tide_job *job, const struct tide_leaf *leaf, int64_t sizes[STATES])
{
    int64_t count = shares_weights(job) ? tide_shard_part(leaf, job->degree) : leaf->count;
    int64_t bytes = tide_times(count, leaf->width);
    memset(sizes, 0, STATES * sizeof *sizes);
    switch (job->optimizer) {
    case TIDE_SGD:
        return;
    case TIDE_MOMENTUM:
        sizes[0] = bytes;
        return;
    case TIDE_ADAMW_8BIT:
        /* bitsandbytes: one byte per element and an fp32 scale per block of 256; small ones stay in fp32. */
        sizes[0] = sizes[1] = count < 4096 ? tide_times(count, 4) : count;
        sizes[2] = sizes[3] = count < 4096 ? 0 : tide_times((count + 255) / 256, 4);
        return;
    case TIDE_ADAFACTOR:
        /* A row and a column of squares for a matrix; all squares for other tensors. */
        sizes[0] = leaf->rows > 1 ? tide_times(leaf->rows, leaf->width) : bytes;
        sizes[1] = leaf->rows > 1 ? tide_times(leaf->count / leaf->rows, leaf->width) : 0;
        return;
    default:
        sizes[0] = sizes[1] = bytes;
    }
}

/* Makes the state of one parameter if it does not exist yet. Returns the bytes of its first tensor. */
static int64_t make_state(struct run *run, int leaf)
{
    struct tide_leaf wide = run->tape.leaves[leaf];
    int64_t sizes[STATES];
    wide.width = run->job->mistakes.master ? 4 : wide.width;
    state_bytes(run->job, &wide, sizes);
    for (int k = 0; k < STATES && !wide.has_state; k++)
        tide_tape_take(&run->tape, sizes[k], 1, TIDE_PART_OPTIMIZER);
    run->tape.leaves[leaf].has_state = true;
    return sizes[0];
}

/* Scratch: AdamW over lists (the default) makes the roots of all second moments at once; AdamW in a loop
 * makes two tensors for one parameter at a time; Adafactor one. A master copy in fp32 gets gradients in
 * fp32. */
static void update(struct run *run)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    int64_t largest = 0;
    bool lists = job->optimizer == TIDE_ADAMW && !job->host, master = job->mistakes.master;
    for (int i = 0; i < run->policy_leaves && !tape->failed; i++) {
        if (!is_trained(run, i))
            continue;
        if (master)
            tape->leaves[i].scratch[0] = tide_tape_take(tape, tape->leaves[i].count, 4, TIDE_PART_SCRATCH);
        int64_t own =
            shares_weights(job) ? tide_shard_part(&tape->leaves[i], job->degree) : tape->leaves[i].count;
        int64_t bytes = tide_times(own, tape->leaves[i].width);
        largest = bytes > largest && is_updated(run, i) ? bytes : largest;
    }
    for (int i = 0; i < run->policy_leaves && !tape->failed; i++)
        if (is_updated(run, i))
            make_state(run, i);
    for (int i = 0; i < run->policy_leaves && lists && !tape->failed; i++)
        if (is_updated(run, i))
            tape->leaves[i].scratch[1] = tide_tape_take(tape, make_state(run, i), 1, TIDE_PART_SCRATCH);
    bool loops = job->optimizer == TIDE_ADAMW_LOOP || (job->optimizer == TIDE_ADAMW && job->host);
    int singles = loops ? 2 : job->optimizer == TIDE_ADAFACTOR;
    struct tide_sized one = singles > 0 ? tide_tape_take(tape, largest, 1, TIDE_PART_SCRATCH) : TIDE_NOTHING;
    struct tide_sized two = singles > 1 ? tide_tape_take(tape, largest, 1, TIDE_PART_SCRATCH) : TIDE_NOTHING;
    TIDE_DROP(tape, one, two);
    for (int i = run->policy_leaves - 1; i >= 0; i--)
        for (int k = 1; k >= 0; k--)
            tide_tape_let_go(tape, &tape->leaves[i].scratch[k].storage);
}

/* Data-parallel training (DDP) sums gradients in buckets, which exist beside the gradients. */
static void make_buckets(struct run *run)
{
    const struct tide_job *job = run->job;
    int64_t bytes = 0;
    for (int i = 0; i < run->policy_leaves; i++)
        if (is_trained(run, i))
            bytes += tide_times(run->tape.leaves[i].count, run->tape.leaves[i].width);
    if (job->degree > 1 && job->task != TIDE_TASK_INFER && !shares_weights(job))
        tide_tape_take(&run->tape, bytes, 1, TIDE_PART_BUCKETS);
}

static void make_master(struct run *run)
{
    for (int i = 0; i < run->policy_leaves && run->job->mistakes.master; i++)
        if (is_trained(run, i))
            tide_tape_take(&run->tape, run->tape.leaves[i].count, 4, TIDE_PART_OPTIMIZER);
}

/* Generates the tokens of this step, and keeps what a mistake keeps. */
static void roll_out(struct run *run)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    bool graph = job->mistakes.generate_grad;
    tide_tape_phase(tape, "generation");
    tape->grad = graph;
    tide_net_set_cache_aside(&run->policy, tape);
    generate(run, job->sequence - job->generate, job->generate, graph);
    tape->grad = true;
    tide_tape_forget(tape, run->old_nodes);
    tide_net_drop_cache(&run->policy, tape, run->policy.old_cache);
    if (!job->mistakes.cache_kept && !graph)
        tide_net_drop_cache(&run->policy, tape, run->policy.cache);
}

static void evaluate(struct run *run)
{
    struct tide_tape *tape = &run->tape;
    tide_tape_phase(tape, "evaluation");
    tide_tape_drop(tape, tide_loss(tape, run->job, &run->policy, &run->batch));
    tide_tape_end_cast(tape);
    tide_tape_forget(tape, run->old_nodes);
}

/* Adds the logits of a pass without a graph to a list. Those of steps that are not run are added at once. */
static void keep_logits(struct run *run, int step)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    int64_t kept = job->mistakes.logits_kept, unseen = kept - run->steps;
    struct tide_net_call call = tide_loss_call(job, job->sequence);
    int64_t count = tide_times(tide_times(job->batch, job->sequence), job->model.vocabulary);
    if (step + kept < run->steps)
        return;
    if (!step && unseen > 0)
        tide_tape_take(tape, tide_times(count, unseen), width_of(job->dtype), TIDE_PART_HEAD);
    tape->grad = false;
    tide_net_forward(&run->policy, tape, run->batch.in, &call);
    tide_net_done(&run->policy, tape);
    tape->grad = true;
}

/* Runs forward passes that are summed before one backward, or a backward after each. */
static void passes(struct run *run)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    int start = tape->node_count;
    bool retains = job->mistakes.graphs > 1;
    int64_t count = retains ? job->mistakes.graphs : job->accumulation < 3 ? job->accumulation : 3;
    struct tide_sized sum = TIDE_NOTHING;
    for (int64_t i = 0; i < count && !tape->failed; i++) {
        tide_tape_phase(tape, "forward");
        struct tide_sized loss = job->task == TIDE_TASK_GRPO
                                     ? grpo_loss(run)
                                     : tide_loss(tape, run->job, &run->policy, &run->batch);
        tide_tape_end_cast(tape);
        if (!retains) {
            tide_tape_phase(tape, "backward");
            tide_tape_backward(tape, loss, start);
            continue;
        }
        struct tide_sized both = sum.storage < 0 ? loss : tide_torch_add(tape, sum, loss, TIDE_PART_HEAD);
        if (sum.storage >= 0) {
            TIDE_DROP(tape, sum, loss);
        }
        sum = both;
    }
    if (retains) {
        tide_tape_phase(tape, "backward");
        tide_tape_backward(tape, sum, start);
    }
}

static void train_step(struct run *run, int step)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    zero_gradients(run);
    run->old_nodes = tape->node_count;
    if (job->task == TIDE_TASK_GRPO && job->generate)
        roll_out(run);
    if (job->mistakes.evaluate_grad)
        evaluate(run);
    passes(run);
    tide_tape_phase(tape, "update");
    if (job->mistakes.logits_kept)
        keep_logits(run, step);
    update(run);
}

static void infer_step(struct run *run)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    tide_tape_phase(tape, "inference");
    tape->grad = job->mistakes.infer_grad;
    if (job->generate) {
        generate(run, job->sequence, job->generate, false);
        tide_net_drop_cache(&run->policy, tape, run->policy.cache);
    } else {
        struct tide_net_call call = tide_loss_call(job, job->sequence);
        tide_tape_drop(tape, tide_net_forward(&run->policy, tape, run->batch.in, &call));
        tide_net_done(&run->policy, tape);
    }
    tide_tape_end_cast(tape);
    tide_tape_forget(tape, tape->node_count);
}

/* census: filled with what is alive at the peak of the steps; NULL: not wanted. */
static int run_job(struct run *run, struct tide_census *census, struct tide_err *err)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    tape->cast_width = job->autocast ? 2 : 0;
    tape->processes = job->degree;
    tide_tape_phase(tape, "model");
    if (make_net(run, &run->policy, true, err))
        return -1;
    run->policy_leaves = tape->leaf_count;
    run->has_reference = job->task == TIDE_TASK_GRPO && job->reference;
    if (run->has_reference && make_net(run, &run->reference, false, err))
        return -1;
    for (int64_t i = 0; i < job->mistakes.copies && !tape->failed; i++)
        if (make_copy(run, err))
            return -1;
    if (job->sharding == TIDE_SHARD_OPTIMIZER && give_states(run, err))
        return -1;
    make_master(run);
    make_buckets(run);
    make_inputs(run);
    tape->census = census;
    for (int step = 0; step < run->steps && !tape->failed; step++) {
        if (job->task == TIDE_TASK_INFER)
            infer_step(run);
        else
            train_step(run, step);
    }
    if (tape->failed)
        return tide_err_set(
            err, "the job is too large to plan: its bytes or operations exceed the planner's limits");
    return 0;
}

static void release(struct run *run)
{
    tide_net_release(&run->policy);
    tide_net_release(&run->reference);
    tide_tape_release(&run->tape);
}

static int steps_of(const struct tide_job *job, enum tide_detail detail)
{
    enum { MOST = 24 };
    int64_t steps = detail == TIDE_FULL ? TIDE_STEPS_ALIKE : TIDE_STEPS_ALIKE - 1,
            kept = job->mistakes.logits_kept;
    if (detail == TIDE_FULL && kept > steps)
        steps = kept < MOST ? kept : MOST;
    return (int)(job->steps && job->steps < steps ? job->steps : steps);
}

/*
 * What the process has on the device beside the allocator's segments: the context, loaded kernels and the
 * libraries' own memory. Measured on an H200 with CUDA 13.0 (docs/PLAN.md); other cards and versions differ
 * by some hundred megabytes.
 */
static int64_t context_bytes(const struct tide_job *job)
{
    enum { CONTEXT = 552, FORWARD = 174, BACKWARD = 70, NCCL = 587, HOST = 815 }; /* millions */
    if (job->host) /* the interpreter with torch and transformers, and what the first step loads */
        return HOST * INT64_C(1000000);
    int64_t total = CONTEXT + FORWARD + (job->task != TIDE_TASK_INFER ? BACKWARD : 0);
    total += job->degree > 1 ? NCCL : 0;
    return total * 1000000;
}

static int run_steps(const struct tide_job *job, enum tide_detail detail, struct tide_forecast *to,
                     struct tide_err *err)
{
    struct run run = {
        .job = job, .steps = steps_of(job, detail), .batch = {TIDE_NOTHING, TIDE_NOTHING, TIDE_NOTHING}};
    tide_tape_init(&run.tape, job->host              ? TIDE_CACHER_HEAP
                              : detail == TIDE_ROUGH ? TIDE_CACHER_ROUNDED
                                                     : TIDE_CACHER_POOLS);
    if (job->device_bytes && !job->compiled && !job->host) /* a compiled run's pools are not simulated */
        run.tape.cacher.limit =
            job->device_bytes > context_bytes(job) ? job->device_bytes - context_bytes(job) : 1;
    run.tape.host = job->host;
    run.tape.compiled = job->compiled;
    run.tape.fp16 = job->dtype == TIDE_DTYPE_FP16;
    run.tape.product_ran = run.tape.product_ran_backward = run.tape.bias_ran = job->host;
    int status = run_job(&run, detail == TIDE_FULL ? &to->census : NULL, err);
    if (!status) {
        for (int i = 0; i < run.policy_leaves; i++) {
            to->parameters += run.tape.leaves[i].count;
            to->trainable += run.tape.leaves[i].trains ? run.tape.leaves[i].count : 0;
        }
        memcpy(to->phases, run.tape.phases, sizeof to->phases);
        to->phase_count = run.tape.phase_count;
        to->reserved = run.tape.cacher.reserved;
        for (int i = 0; i < to->phase_count && job->host; i++) /* a heap also shrinks */
            to->reserved = to->phases[i].reserved > to->reserved ? to->phases[i].reserved : to->reserved;
    }
    release(&run);
    return status;
}

bool tide_phase_counts(const struct tide_plan_phase *phase)
{
    return strcmp(phase->name, "model") != 0;
}

int tide_forecast_make(const struct tide_job *job, enum tide_detail detail, struct tide_forecast *f,
                       struct tide_err *err)
{
    memset(f, 0, sizeof *f);
    if (tide_job_check(job, err) || run_steps(job, detail, f, err))
        return -1;
    for (int i = 0; i < f->phase_count; i++)
        if (tide_phase_counts(&f->phases[i]) && f->phases[i].peak > f->phases[f->peak].peak)
            f->peak = i;
    f->allocated = f->phases[f->peak].peak;
    memcpy(f->owned, f->phases[f->peak].owned, sizeof f->owned);
    /* A compiler lays out its own buffers. Measured, the allocator then keeps 7 % more than is in use. */
    if (job->compiled)
        f->reserved = f->allocated + f->allocated / 14;
    f->context = context_bytes(job);
    f->device = f->reserved + f->context;
    return 0;
}

const char *tide_part_name(enum tide_part owner)
{
    static const char *const names[TIDE_PARTS] = {
        "weights",  "reference",     "copies",   "gradients",      "optimizer", "buckets",   "gathered",
        "input",    "cast weights",  "residual", "norms",          "attention", "mlp",       "convolution",
        "kv cache", "head and loss", "backward", "update scratch", "workspace", "gaps",      "trees",
        "replay",   "cache",         "rollout",  "rewards",        "prompts",   "tokenizer",
    };
    return names[owner];
}
