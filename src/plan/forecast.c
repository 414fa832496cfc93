#include "plan/forecast.h"
#include "plan/net.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 3 };

struct run {
    const struct tide_job *job;
    struct tide_tape tape;
    struct tide_net policy, reference;
    bool has_reference;
    struct tide_tensor in, labels, mask;
    int first_trained; /* leaves of the policy */
    int policy_leaves;
    struct tide_tensor *states;         /* two per leaf, a third for an fp32 master copy */
    struct tide_tensor held, held_wide; /* what a mistake holds: logits, and their fp32 copy */
    int old_nodes;                      /* of a graph that a mistake holds from the step before */
};

static const struct tide_tensor NOTHING = {.storage = -1, .node = -1};

static int width_of(enum tide_precision precision)
{
    return precision == TIDE_FP32 ? 4 : 2;
}

static int64_t shared_out(const struct tide_job *job, enum tide_sharding from, int64_t count)
{
    return job->sharding >= from ? (count + job->degree - 1) / job->degree : count;
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
        .owner = policy ? TIDE_OWNER_WEIGHTS : TIDE_OWNER_REFERENCE,
    };
    return tide_net_init(net, &run->tape, &job->model, &how, err);
}

/* A model that lies about and does nothing. */
static int make_copy(struct run *run, struct tide_err *err)
{
    struct tide_net net;
    struct tide_net_options how = {.width = width_of(run->job->dtype), .owner = TIDE_OWNER_COPIES};
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
        run->in = tide_tape_take(tape, pixels, width_of(job->dtype), TIDE_OWNER_INPUT);
        run->labels = tide_tape_take(tape, job->batch, 8, TIDE_OWNER_INPUT);
        return;
    }
    run->in = tide_tape_take(tape, count, 8, TIDE_OWNER_INPUT);
    run->mask = job->padded ? tide_tape_take(tape, count, 8, TIDE_OWNER_INPUT) : NOTHING;
}

static struct tide_call call_of(const struct tide_job *job, int64_t rows)
{
    return (struct tide_call){.batch = job->batch, .rows = rows, .masked = job->padded};
}

/* Cross entropy as the framework does it: in fp32. Returns the loss; drops the logits. */
static struct tide_tensor cross_entropy(struct run *run, struct tide_tensor logits, int64_t rows, bool shifts)
{
    struct tide_tape *tape = &run->tape;
    struct tide_tensor targets = shifts ? tide_tape_take(tape, rows, 8, TIDE_OWNER_HEAD) : NOTHING;
    bool wide = !tide_model_sees(&run->job->model) || tape->cast_width;
    struct tide_tensor in = tide_op_cast(tape, logits, wide ? 4 : logits.width, TIDE_OWNER_HEAD);
    struct tide_tensor shares = tide_op_log_softmax(tape, in);
    struct tide_tensor loss = tide_op_pick(tape, shares, 1, true);
    tide_tape_drop(tape, shares);
    tide_tape_drop(tape, in);
    tide_tape_drop(tape, targets);
    tide_tape_drop(tape, logits);
    return loss;
}

/* Replaces what is held, as an assignment does: the new one is there before the old one goes. */
static void hold_on(struct run *run, struct tide_tensor *held, struct tide_tensor tensor)
{
    tide_tape_keep(&run->tape, tensor);
    tide_tape_drop(&run->tape, *held);
    *held = tensor;
}

/* self.float = self.logits.float(); cross_entropy(self.float[:, :-1].flatten(0, 1), ...) */
static struct tide_tensor held_loss(struct run *run, struct tide_tensor logits)
{
    struct tide_tape *tape = &run->tape;
    const struct tide_job *job = run->job;
    int64_t rows = tide_times(job->batch, job->sequence - 1);
    hold_on(run, &run->held, logits);
    struct tide_tensor wide = tide_op_cast(tape, logits, 4, TIDE_OWNER_HEAD);
    hold_on(run, &run->held_wide, wide);
    struct tide_tensor part = tide_op_part(tape, wide, tide_times(rows, job->model.words));
    struct tide_tensor flat = tide_op_copy(tape, part, TIDE_OWNER_HEAD);
    tide_tape_drop(tape, part);
    tide_tape_drop(tape, wide);
    tide_tape_drop(tape, logits);
    return cross_entropy(run, flat, rows, true);
}

static struct tide_tensor plain_loss(struct run *run)
{
    const struct tide_job *job = run->job;
    struct tide_call call = call_of(job, job->sequence);
    struct tide_tape *tape = &run->tape;
    bool sees = tide_model_sees(&job->model);
    call.caches = job->mistakes.cache_in_training && !sees;
    if (call.caches)
        tide_net_set_cache_aside(&run->policy, tape);
    struct tide_tensor logits = tide_net_forward(&run->policy, tape, run->in, &call);
    if (job->mistakes.upcast_logits)
        return held_loss(run, logits);
    if (call.caches) {
        tide_tape_keep(tape, logits);
        struct tide_tensor loss = cross_entropy(run, logits, tide_times(job->batch, job->sequence), true);
        hold_on(run, &run->held, logits);
        tide_tape_drop(tape, logits);
        tide_net_drop_old_cache(&run->policy, tape);
        return loss;
    }
    return cross_entropy(run, logits, sees ? job->batch : tide_times(job->batch, job->sequence), !sees);
}

/* log_softmax(logits[:, :-1].float()).gather(...): what GRPO needs of a model. */
static struct tide_tensor log_probabilities(struct run *run, struct tide_net *net)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    struct tide_call call = call_of(job, job->sequence);
    int64_t rows = tide_times(job->batch, job->sequence - 1);
    struct tide_tensor logits = tide_net_forward(net, tape, run->in, &call);
    struct tide_tensor part = tide_op_part(tape, logits, tide_times(rows, job->model.words));
    tide_tape_drop(tape, logits);
    struct tide_tensor wide = tide_op_cast(tape, part, 4, TIDE_OWNER_HEAD);
    struct tide_tensor shares = tide_op_log_softmax(tape, wide);
    tide_tape_drop(tape, wide);
    struct tide_tensor picked = tide_op_pick(tape, shares, rows, false);
    tide_tape_drop(tape, shares);
    tide_tape_drop(tape, part);
    return picked;
}

static struct tide_tensor grpo_loss(struct run *run)
{
    struct tide_tape *tape = &run->tape;
    struct tide_tensor old = NOTHING;
    if (run->has_reference) {
        bool grad = tape->grad;
        tape->grad = run->job->mistakes.reference_grad;
        tide_tape_phase(tape, "reference forward");
        old = log_probabilities(run, &run->reference);
        tide_tape_end_cast(tape);
        tape->grad = grad;
    }
    tide_tape_phase(tape, "forward");
    struct tide_tensor new = log_probabilities(run, &run->policy);
    tide_tape_end_cast(tape);
    struct tide_tensor loss = old.storage >= 0 ? tide_op_add(tape, new, old, TIDE_OWNER_HEAD) : new;
    if (old.storage >= 0) {
        tide_tape_drop(tape, new);
        tide_tape_drop(tape, old);
    }
    struct tide_tensor mean = tide_op_mean(tape, loss, 1);
    tide_tape_drop(tape, loss);
    return mean;
}

/* Greedy decoding with a cache: the prompt, then one token at a time. What lies between the first and the
 * last token is like the last, so only as many are run as make a difference. */
static void generate(struct run *run, int64_t prompt, int64_t tokens, bool keeps_graph)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    bool dropout = run->policy.how.dropout;
    run->policy.how.dropout = false;
    for (int64_t i = 0; i < tokens && !tape->failed; i++) {
        struct tide_call call = call_of(job, i ? 1 : prompt);
        call.past = i ? prompt + i - 1 : 0;
        call.caches = true;
        call.masked = false;
        call.logits = job->mistakes.prefill_logits && !i ? 0 : 1;
        struct tide_tensor logits = tide_net_forward(&run->policy, tape, run->in, &call);
        if (keeps_graph) {
            struct tide_tensor wide = tide_op_cast(tape, logits, 4, TIDE_OWNER_HEAD);
            struct tide_tensor shares = tide_op_log_softmax(tape, wide);
            tide_tape_drop(tape, wide);
            tide_tape_drop(tape, tide_op_pick(tape, shares, job->batch, false));
            tide_tape_drop(tape, shares);
        }
        tide_tape_drop(tape, logits);
    }
    run->policy.how.dropout = dropout;
}

static bool is_trained(const struct run *run, int leaf)
{
    return leaf >= run->first_trained && leaf < run->policy_leaves && run->tape.leaves[leaf].trains;
}

static void zero_gradients(struct run *run)
{
    struct tide_tape *tape = &run->tape;
    for (int i = 0; i < tape->leaf_count && !run->job->keep_gradients; i++)
        if (is_trained(run, i)) {
            struct tide_tensor gradient = {.storage = tape->leaves[i].gradient};
            tide_tape_drop(tape, gradient);
            tape->leaves[i].gradient = -1;
        }
}

/* Bytes of one parameter's optimizer state, in two tensors. */
static void state_bytes(const struct tide_job *job, const struct tide_leaf *leaf, int64_t sizes[2])
{
    int64_t bytes = tide_times(shared_out(job, TIDE_SHARD_OPTIMIZER, leaf->count), leaf->width);
    sizes[0] = sizes[1] = 0;
    switch (job->optimizer) {
    case TIDE_SGD:
        return;
    case TIDE_MOMENTUM:
        sizes[0] = bytes;
        return;
    case TIDE_ADAMW_8BIT:
        /* One byte per element and an fp32 scale per block of 256; small tensors stay in fp32. */
        sizes[0] = sizes[1] =
            leaf->count < 4096 ? tide_times(leaf->count, 4) : leaf->count + leaf->count / 64;
        return;
    case TIDE_ADAFACTOR:
        sizes[0] = sizes[1] = 2048;
        return;
    default:
        sizes[0] = sizes[1] = bytes;
    }
}

/* What the optimizer takes besides its state: returns its bytes in one piece. */
static void update(struct run *run)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    int64_t all = 0, largest = 0;
    bool master = job->mistakes.master;
    for (int i = 0; i < run->policy_leaves && !tape->failed; i++) {
        if (!is_trained(run, i))
            continue;
        int64_t sizes[2];
        struct tide_leaf wide = tape->leaves[i];
        wide.width = master ? 4 : wide.width;
        state_bytes(job, &wide, sizes);
        for (int k = 0; k < 2; k++)
            if (sizes[k] && run->states[3 * i + k].storage < 0)
                run->states[3 * i + k] = tide_tape_take(tape, sizes[k], 1, TIDE_OWNER_OPTIMIZER);
        largest = sizes[0] > largest ? sizes[0] : largest;
        all += (sizes[0] + 511) / 512 * 512;
    }
    struct tide_tensor copies = NOTHING, temporary = NOTHING, other = NOTHING;
    if (master)
        copies = tide_tape_take(tape, all, 1, TIDE_OWNER_SCRATCH);
    if (job->optimizer == TIDE_ADAMW)
        temporary = tide_tape_take(tape, all, 1, TIDE_OWNER_SCRATCH);
    else if (job->optimizer == TIDE_ADAMW_LOOP) {
        temporary = tide_tape_take(tape, largest, 1, TIDE_OWNER_SCRATCH);
        other = tide_tape_take(tape, largest, 1, TIDE_OWNER_SCRATCH);
    }
    tide_tape_drop(tape, copies);
    tide_tape_drop(tape, temporary);
    tide_tape_drop(tape, other);
}

static void make_master(struct run *run)
{
    for (int i = 0; i < run->policy_leaves && run->job->mistakes.master; i++)
        if (is_trained(run, i))
            run->states[3 * i + 2] =
                tide_tape_take(&run->tape, run->tape.leaves[i].count, 4, TIDE_OWNER_OPTIMIZER);
}

/* The tokens of this step, and what a careless program keeps of making them. */
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
    tide_tape_forget(tape, 0, run->old_nodes);
    tide_net_drop_old_cache(&run->policy, tape);
    if (!job->mistakes.cache_kept && !graph)
        tide_net_drop_cache(&run->policy, tape);
}

static void evaluate(struct run *run)
{
    struct tide_tape *tape = &run->tape;
    tide_tape_phase(tape, "evaluation");
    tide_tape_drop(tape, plain_loss(run));
    tide_tape_end_cast(tape);
    tide_tape_forget(tape, 0, run->old_nodes);
}

static void keep_logits(struct run *run, int64_t times)
{
    const struct tide_job *job = run->job;
    int64_t count = tide_times(tide_times(job->batch, job->sequence), job->model.words);
    tide_tape_take(&run->tape, tide_times(count, times), width_of(job->dtype), TIDE_OWNER_HEAD);
}

/* Forward passes that are summed before one backward, or a backward after each. */
static void passes(struct run *run)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    int start = tape->node_count;
    bool retains = job->mistakes.graphs > 1;
    int64_t count = retains ? job->mistakes.graphs : job->accumulation < 3 ? job->accumulation : 3;
    struct tide_tensor sum = NOTHING;
    for (int64_t i = 0; i < count && !tape->failed; i++) {
        tide_tape_phase(tape, "forward");
        struct tide_tensor loss = job->task == TIDE_TASK_GRPO ? grpo_loss(run) : plain_loss(run);
        tide_tape_end_cast(tape);
        if (!retains) {
            tide_tape_phase(tape, "backward");
            tide_tape_backward(tape, loss, start);
            continue;
        }
        struct tide_tensor both = sum.storage < 0 ? loss : tide_op_add(tape, sum, loss, TIDE_OWNER_HEAD);
        if (sum.storage >= 0) {
            tide_tape_drop(tape, sum);
            tide_tape_drop(tape, loss);
        }
        sum = both;
    }
    if (retains) {
        tide_tape_phase(tape, "backward");
        tide_tape_backward(tape, sum, start);
    }
}

static void train_step(struct run *run, bool last)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    zero_gradients(run);
    if (last && job->mistakes.logits_kept > 1)
        keep_logits(run, job->mistakes.logits_kept - 1);
    run->old_nodes = tape->node_count;
    if (job->task == TIDE_TASK_GRPO && job->generate)
        roll_out(run);
    if (job->mistakes.evaluate_grad)
        evaluate(run);
    passes(run);
    tide_tape_phase(tape, "update");
    if (last && job->mistakes.logits_kept)
        keep_logits(run, 1);
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
        tide_net_drop_cache(&run->policy, tape);
    } else {
        struct tide_call call = call_of(job, job->sequence);
        tide_tape_drop(tape, tide_net_forward(&run->policy, tape, run->in, &call));
    }
    tide_tape_end_cast(tape);
    tide_tape_forget(tape, 0, tape->node_count);
}

static int run_job(struct run *run, struct tide_err *err)
{
    const struct tide_job *job = run->job;
    struct tide_tape *tape = &run->tape;
    tape->cast_width = job->autocast ? 2 : 0;
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
    run->states = calloc((size_t)tape->leaf_count * 3 + 1, sizeof *run->states);
    if (!run->states)
        return tide_err_set(err, "no memory left");
    for (int i = 0; i < 3 * tape->leaf_count; i++)
        run->states[i] = NOTHING;
    make_master(run);
    make_inputs(run);
    for (int step = 0; step < STEPS && !tape->failed; step++) {
        if (job->task == TIDE_TASK_INFER)
            infer_step(run);
        else
            train_step(run, step == STEPS - 1);
    }
    if (tape->failed)
        return tide_err_set(
            err, "the job is too large to be planned: its bytes, or its operations, pass every bound");
    return 0;
}

static void release(struct run *run)
{
    tide_net_release(&run->policy);
    tide_net_release(&run->reference);
    tide_tape_release(&run->tape);
    free(run->states);
}

static int run_once(const struct tide_job *job, bool exact, long stop, struct tide_census *census,
                    struct tide_forecast *to, struct tide_err *err)
{
    struct run run = {
        .job = job, .in = NOTHING, .labels = NOTHING, .mask = NOTHING, .held = NOTHING, .held_wide = NOTHING};
    tide_tape_init(&run.tape, exact);
    run.tape.stop_tick = stop;
    run.tape.census = census;
    int status = run_job(&run, err);
    if (!status && to) {
        to->parameters = to->trainable = 0;
        for (int i = 0; i < run.policy_leaves; i++) {
            to->parameters += run.tape.leaves[i].count;
            to->trainable += run.tape.leaves[i].trains ? run.tape.leaves[i].count : 0;
        }
        memcpy(to->phases, run.tape.phases, sizeof to->phases);
        to->phase_count = run.tape.phase_count;
        to->reserved = run.tape.cacher.reserved;
    }
    release(&run);
    return status;
}

int tide_forecast_make(const struct tide_job *job, bool exact, struct tide_forecast *f, struct tide_err *err)
{
    memset(f, 0, sizeof *f);
    if (tide_job_check(job, err) || run_once(job, exact, 0, NULL, f, err))
        return -1;
    for (int i = 0; i < f->phase_count; i++)
        if (f->phases[i].peak > f->phases[f->peak].peak)
            f->peak = i;
    f->allocated = f->phases[f->peak].peak;
    memcpy(f->owned, f->phases[f->peak].owned, sizeof f->owned);
    f->device = f->reserved + f->context;
    return exact ? run_once(job, exact, f->phases[f->peak].tick, &f->census, NULL, err) : 0;
}

const char *tide_owner_name(enum tide_owner owner)
{
    static const char *const names[TIDE_OWNERS] = {
        "weights",     "reference",    "copies",        "gradients", "optimizer",      "buckets",
        "input",       "cast weights", "residual",      "norms",     "attention",      "mlp",
        "convolution", "kv cache",     "head and loss", "backward",  "update scratch", "workspace",
    };
    return names[owner];
}
