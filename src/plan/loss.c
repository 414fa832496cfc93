#include "plan/loss.h"

struct tide_net_call tide_loss_call(const struct tide_job *job, int64_t rows)
{
    return (struct tide_net_call){.batch = job->batch, .rows = rows, .masked = job->padded};
}

/* Replaces what is held, as an assignment does: the new value exists before the old one is freed. */
static void hold_on(struct tide_tape *tape, struct tide_sized *held, struct tide_sized tensor)
{
    tide_tape_keep(tape, tensor);
    tide_tape_drop(tape, *held);
    *held = tensor;
}

/* transformers keeps a cache of keys and values, unless it is told not to or blocks are recomputed. */
static bool makes_cache(const struct tide_job *job)
{
    return (job->loss == TIDE_LOSS_HF || job->loss == TIDE_LOSS_OWN) && !job->no_cache && !job->checkpointing;
}

/*
 * The backward pass of a compiled graph begins with gradients of zeros for outputs that do not lead to the
 * loss: keys and values, and the logits, if the loss is in the graph too. GPT-2's loss is not: transformers'
 * warning of its missing loss_type ends the graph before, so the last hidden states leave it beside the
 * logits.
 */
static int64_t zeros(const struct tide_tape *tape, const struct tide_job *job, const struct tide_net *net,
                     struct tide_sized logits)
{
    const struct tide_architecture *m = &job->model;
    bool gpt = m->family == TIDE_FAMILY_GPT2;
    int width = tape->cast_width && !gpt ? 4 : logits.width; /* rotation is done in fp32 */
    struct tide_sized more = gpt ? net->hidden : logits;
    int64_t bytes = job->loss == TIDE_LOSS_OWN ? 0 : tide_times(more.count, more.width);
    int64_t row = tide_times(m->kv_heads, m->head_channels),
            rows = tide_times(net->call.batch, net->call.rows);
    return makes_cache(job) ? tide_plus(bytes, tide_times(rows, tide_times(row, 2 * m->layers * width)))
                            : bytes;
}

/*
 * A compiled product with a 16-bit gradient whose rows are not a multiple of 8 is padded: there are two
 * copies of the gradient with rows of whole 128 bytes, and one of the weight in place of autocast's.
 */
static int64_t padding(const struct tide_tape *tape, const struct tide_architecture *m,
                       struct tide_sized logits)
{
    enum { EVEN = 8, ROW = 64, COPIES = 2 };
    if (logits.width == 4 || m->vocabulary % EVEN == 0)
        return 0;
    int64_t row = (m->vocabulary + ROW - 1) / ROW * ROW * logits.width;
    int64_t weight =
        tape->cast_width ? tide_times(tide_times(m->vocabulary, m->channels), tape->cast_width) : 0;
    return tide_times(logits.count / m->vocabulary, COPIES * row) - weight;
}

static void begin_compiled(struct tide_tape *tape, const struct tide_job *job, const struct tide_net *net,
                           struct tide_sized logits, struct tide_sized loss)
{
    int64_t made = zeros(tape, job, net, logits);
    tide_tape_scratch(tape, logits.node, TIDE_SCRATCH_BEFORE,
                      tide_plus(made, padding(tape, &job->model, logits)));
    if (job->loss != TIDE_LOSS_OWN && job->model.family != TIDE_FAMILY_GPT2)
        tide_tape_scratch(tape, loss.node, TIDE_SCRATCH_BEFORE, made);
}

/* Cross entropy. wide: computed from a copy of the logits in fp32. */
static struct tide_sized entropy(struct tide_tape *tape, struct tide_sized logits, bool wide)
{
    struct tide_sized in = tide_torch_cast(tape, logits, wide ? 4 : logits.width, TIDE_PART_HEAD);
    struct tide_sized shares = tide_torch_log_softmax(tape, in);
    struct tide_sized loss = tide_torch_pick(tape, shares, 1, true);
    TIDE_DROP(tape, shares, in);
    return loss;
}

/* The loss that a model of transformers computes from its logits and labels, in fp32. It shifts a copy of the
 * labels, not the logits. */
static struct tide_sized shifted_entropy(struct tide_tape *tape, const struct tide_job *job,
                                         struct tide_sized logits, int64_t rows)
{
    if (job->compiled)
        return tide_torch_fused_loss(tape, logits);
    struct tide_sized targets = tide_tape_take(tape, rows, 8, TIDE_PART_HEAD);
    struct tide_sized loss = entropy(tape, logits, true);
    tide_tape_drop(tape, targets);
    return loss;
}

/* self.float = self.logits.float(); cross_entropy(self.float[:, :-1].flatten(0, 1), ...) */
static struct tide_sized upcast_loss(struct tide_tape *tape, const struct tide_job *job,
                                     struct tide_sized logits, struct tide_batch *batch)
{
    int64_t rows = tide_times(job->batch, job->sequence - 1);
    hold_on(tape, &batch->held, logits);
    struct tide_sized wide = tide_torch_cast(tape, logits, 4, TIDE_PART_HEAD);
    hold_on(tape, &batch->held_wide, wide);
    struct tide_sized part = tide_torch_part(tape, wide, tide_times(rows, job->model.vocabulary));
    struct tide_sized flat = tide_torch_copy(tape, part, TIDE_PART_HEAD);
    TIDE_DROP(tape, part, wide);
    struct tide_sized loss = shifted_entropy(tape, job, flat, rows);
    tide_tape_drop(tape, flat);
    return loss;
}

/* cross_entropy(model(x).logits.flatten(0, 1), next), with or without a variable that holds the logits. */
static struct tide_sized own_loss(struct tide_tape *tape, const struct tide_job *job,
                                  struct tide_sized logits, struct tide_batch *batch)
{
    if (job->held)
        hold_on(tape, &batch->held, logits);
    return entropy(tape, logits, false);
}

/* model(x, labels=x).loss, or output = model(x, labels=x) and output.loss. With the Trainer, Accelerate casts
 * what autocast left narrow to fp32. */
static struct tide_sized model_loss(struct tide_tape *tape, const struct tide_job *job,
                                    struct tide_sized logits, struct tide_batch *batch)
{
    struct tide_sized loss = shifted_entropy(tape, job, logits, tide_times(job->batch, job->sequence));
    if (job->loss == TIDE_LOSS_TRAINER && tape->cast_width)
        tide_tape_drop(tape, tide_torch_cast(tape, logits, 4, TIDE_PART_HEAD));
    if (job->held)
        hold_on(tape, &batch->held, logits);
    return loss;
}

/*
 * TRL's head: log-probabilities of rows that have a label, from tiles. The backward pass recomputes the tiles
 * and sums the gradients in fp32.
 */
static struct tide_sized tiled_loss(struct tide_tape *tape, const struct tide_job *job, struct tide_net *net,
                                    struct tide_sized hidden)
{
    enum { STATISTICS = 7, KEPT = 2 };
    const struct tide_architecture *m = &job->model;
    int64_t rows = tide_times(job->batch, job->sequence - 1);
    struct tide_sized part = tide_torch_part(tape, hidden, tide_times(rows, m->channels));
    struct tide_sized chosen = tide_torch_map(tape, part, TIDE_SAVES_NOTHING, TIDE_PART_HEAD);
    struct tide_sized targets = tide_tape_take(tape, rows, 8, TIDE_PART_HEAD);
    struct tide_sized kept = tide_tape_take(tape, tide_times(rows, KEPT), 4, TIDE_PART_HEAD);
    struct tide_sized statistics = tide_tape_take(tape, tide_times(rows, STATISTICS), 4, TIDE_PART_HEAD);
    struct tide_sized sums = tide_torch_tiled_head(tape, chosen, net->head.weight, m->channels);
    tide_tape_save(tape, sums.node, targets);
    tide_tape_save(tape, sums.node, kept);
    TIDE_DROP(tape, statistics, kept, targets, chosen, part);
    return tide_then(tape, sums, tide_torch_mean(tape, sums, 1));
}

static struct tide_sized text_loss(struct tide_tape *tape, const struct tide_job *job, struct tide_net *net,
                                   struct tide_batch *batch)
{
    struct tide_net_call call = tide_loss_call(job, job->sequence);
    bool own = job->loss == TIDE_LOSS_OWN || job->mistakes.upcast_logits;
    call.caches = makes_cache(job);
    call.headless = job->loss == TIDE_LOSS_TRL;
    tide_net_set_cache_aside(net, tape);
    struct tide_sized out = tide_net_forward(net, tape, batch->in, &call), loss;
    if (own) { /* the model has returned, and only the logits of its output are left */
        tide_net_done(net, tape);
        tide_net_drop_cache(net, tape, net->cache);
    }
    if (job->mistakes.upcast_logits)
        loss = upcast_loss(tape, job, out, batch);
    else if (call.headless)
        loss = tiled_loss(tape, job, net, out);
    else
        loss = own ? own_loss(tape, job, out, batch) : model_loss(tape, job, out, batch);
    if (job->compiled)
        begin_compiled(tape, job, net, out, loss);
    tide_tape_drop(tape, out);
    tide_net_drop_cache(net, tape, net->old_cache);
    if (!own)
        tide_net_done(net, tape);
    if (!job->held)
        tide_net_drop_cache(net, tape, net->cache);
    return loss;
}

struct tide_sized tide_loss(struct tide_tape *tape, const struct tide_job *job, struct tide_net *net,
                            struct tide_batch *batch)
{
    if (!tide_model_sees(&job->model))
        return text_loss(tape, job, net, batch);
    struct tide_net_call call = tide_loss_call(job, job->sequence);
    struct tide_sized logits = tide_net_forward(net, tape, batch->in, &call);
    struct tide_sized loss = entropy(tape, logits, false);
    tide_tape_drop(tape, logits);
    tide_net_done(net, tape);
    return loss;
}

struct tide_sized tide_loss_log_probabilities(struct tide_tape *tape, const struct tide_job *job,
                                              struct tide_net *net, struct tide_sized in)
{
    struct tide_net_call call = tide_loss_call(job, job->sequence);
    int64_t rows = tide_times(job->batch, job->sequence - 1);
    struct tide_sized logits = tide_net_forward(net, tape, in, &call);
    tide_net_done(net, tape);
    struct tide_sized part = tide_torch_part(tape, logits, tide_times(rows, job->model.vocabulary));
    tide_tape_drop(tape, logits);
    struct tide_sized wide = tide_torch_cast(tape, part, 4, TIDE_PART_HEAD);
    struct tide_sized shares = tide_torch_log_softmax(tape, wide);
    if (logits.width == 4) /* all rows but the last are not contiguous, and are copied for a moment */
        tide_tape_drop(tape, tide_tape_take(tape, wide.count, wide.width, TIDE_PART_HEAD));
    tide_tape_drop(tape, wide);
    struct tide_sized picked = tide_torch_pick(tape, shares, rows, false);
    TIDE_DROP(tape, shares, part);
    return picked;
}
