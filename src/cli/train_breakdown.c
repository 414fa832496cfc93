#include "cli/train_breakdown.h"

#include <stdio.h>
#include <string.h>

const char *const tide_train_phases[TIDE_PHASES] = {"forward", "backward", "update", "evaluation"};

/* ---- what runs, and what is alive while it does */

struct passes {
    const struct tide_graph *graph;
    const struct tide_plan *plan;
    struct tide_schedule train, forward; /* forward: of the largest program without training */
    size_t forward_base;                 /* offset of that program's memory */
};

/* Returns the largest program that does not train. */
static int largest_other(const struct tide_graph *graph, const struct tide_plan *plan)
{
    int largest = -1;
    size_t most = 0;
    for (int i = 0; i < graph->program_count; i++) {
        size_t bytes = tide_plan_base(graph, i) + plan->layouts[i].bytes;
        if (!graph->programs[i].trains && bytes > most) {
            largest = i;
            most = bytes;
        }
    }
    return largest;
}

static int passes_init(struct passes *p, const struct tide_trainer *trainer, struct tide_err *err)
{
    const struct tide_device *device = trainer->device;
    p->graph = trainer->graph;
    p->plan = &trainer->plan;
    int other = largest_other(p->graph, p->plan);
    p->forward_base = tide_plan_base(p->graph, other);
    if (tide_schedule(p->graph, tide_graph_training(p->graph), device, &p->plan->choices, &p->train, err))
        return -1;
    if (!tide_schedule(p->graph, other, device, NULL, &p->forward, err))
        return 0;
    tide_schedule_release(&p->train);
    return -1;
}

static void passes_release(struct passes *p)
{
    tide_schedule_release(&p->train);
    tide_schedule_release(&p->forward);
}

static const struct tide_schedule *schedule_of(const struct passes *p, int phase)
{
    return phase == TIDE_PHASE_EVALUATION ? &p->forward : &p->train;
}

static bool belongs(const struct tide_instruction *instruction, int phase)
{
    return phase == TIDE_PHASE_EVALUATION || (int)tide_phase_of(instruction->action) == phase;
}

static bool is_alive(const struct tide_value *v, int instruction)
{
    return v->first <= instruction && instruction <= v->last;
}

/* Returns the node that a value belongs to: a tensor's producer or, for scratch, which lives for one
 * instruction, that instruction's node. NULL: the value is an input. */
static const struct tide_node *node_of(const struct tide_graph *graph, const struct tide_schedule *schedule,
                                       const struct tide_value *v)
{
    int node = v->kind == TIDE_VALUE_SCRATCH ? schedule->instructions[v->first].node
                                             : graph->tensors[v->tensor].producer;
    return node < 0 ? NULL : &graph->nodes[node];
}

/* ---- by kind, and whose at the peak */

static void name_value(const struct tide_graph *graph, const struct tide_value *v,
                       const struct tide_node *node, char name[static TIDE_OWNER_NAME])
{
    char place[32] = "";
    if (node && node->block >= 0)
        snprintf(place, sizeof place, " of block %d", node->block);
    if (v->kind == TIDE_VALUE_PARAMETER_GRADIENT)
        snprintf(name, TIDE_OWNER_NAME, "gradient of %s", graph->tensors[v->tensor].name);
    else
        snprintf(name, TIDE_OWNER_NAME, "%s %s%s%s",
                 v->kind == TIDE_VALUE_SCRATCH    ? "scratch of"
                 : v->kind == TIDE_VALUE_GRADIENT ? "gradient of"
                                                  : "output of",
                 node ? node->op->name : "an input", place,
                 v->kind == TIDE_VALUE_RECOMPUTED ? ", recomputed" : "");
}

/* Keeps the largest, in order; the bytes of the rest go to `others`. */
static void take_owner(struct tide_breakdown *b, const struct tide_owner *owner)
{
    int at = b->owner_count < TIDE_OWNERS ? b->owner_count++ : TIDE_OWNERS;
    if (at == TIDE_OWNERS) {
        if (owner->bytes <= b->owners[--at].bytes) {
            b->others += owner->bytes;
            return;
        }
        b->others += b->owners[at].bytes;
    }
    for (; at > 0 && b->owners[at - 1].bytes < owner->bytes; at--)
        b->owners[at] = b->owners[at - 1];
    b->owners[at] = *owner;
}

static void count_peak(const struct passes *p, int peak, struct tide_breakdown *b)
{
    for (int i = 0; i < p->train.value_count; i++) {
        const struct tide_value *v = &p->train.values[i];
        if (!is_alive(v, peak))
            continue;
        struct tide_owner owner = {.bytes = tide_aligned(v->bytes)};
        const struct tide_node *node = node_of(p->graph, &p->train, v);
        if (v->kind == TIDE_VALUE_PARAMETER_GRADIENT)
            b->gradients += owner.bytes;
        if (v->kind == TIDE_VALUE_SCRATCH && node && node->op->is_loss)
            b->head += owner.bytes;
        name_value(p->graph, v, node, owner.name);
        take_owner(b, &owner);
    }
}

static void reach(size_t *to, const struct tide_schedule *schedule, int value)
{
    if (value < 0)
        return;
    const struct tide_value *v = &schedule->values[value];
    size_t end = v->offset + tide_aligned(v->bytes);
    *to = end > *to ? end : *to;
}

/* Returns the end of the highest byte, in the memory that passes share, that instructions of a phase use. */
static size_t end_of(const struct tide_schedule *schedule, int phase)
{
    size_t end = 0;
    for (int n = 0; n < schedule->count; n++) {
        const struct tide_instruction *i = &schedule->instructions[n];
        if (!belongs(i, phase))
            continue;
        for (int k = 0; k < TIDE_VALUES; k++)
            reach(&end, schedule, i->values[k]);
    }
    return end;
}

int tide_train_breakdown(const struct tide_trainer *trainer, struct tide_breakdown *ret_breakdown,
                         struct tide_err *err)
{
    struct passes p;
    struct tide_layout train, forward;
    if (passes_init(&p, trainer, err))
        return -1;
    int status = tide_layout(&p.train, &train, err) || tide_layout(&p.forward, &forward, err) ? -1 : 0;
    if (!status) {
        struct tide_breakdown b = {.weights = p.plan->bytes[TIDE_FROZEN] + p.plan->bytes[TIDE_TRAINED],
                                   .optimizer = p.plan->bytes[TIDE_OPTIMIZER],
                                   .inputs = p.plan->bytes[TIDE_INPUTS]};
        count_peak(&p, train.peak, &b);
        for (int i = 0; i < TIDE_PHASES; i++)
            b.phases[i] = tide_plan_start(p.plan, TIDE_PASSES) + end_of(schedule_of(&p, i), i) +
                          (i == TIDE_PHASE_EVALUATION ? p.forward_base : 0);
        b.activations = p.plan->bytes[TIDE_PASSES] - b.gradients - b.head;
        b.gradients += p.plan->bytes[TIDE_GRADIENTS];
        *ret_breakdown = b;
    }
    passes_release(&p);
    return status;
}

/* ---- by part of the model, for `plan` */

/* Returns the part that an output belongs to: by its operator, for a linear layer by its weight's name. */
static enum tide_part part_of_output(const struct tide_graph *graph, const struct tide_node *node)
{
    const char *op = node->op->name;
    if (node->op->is_loss)
        return TIDE_PART_HEAD;
    if (!strcmp(op, "norm") || !strcmp(op, "batchnorm"))
        return TIDE_PART_NORM;
    if (!strcmp(op, "attention"))
        return TIDE_PART_ATTENTION;
    if (!strcmp(op, "conv") || !strcmp(op, "winograd") || !strcmp(op, "depthwise"))
        return TIDE_PART_CONVOLUTION;
    if (!strcmp(op, "gelu"))
        return TIDE_PART_MLP;
    if (!strcmp(op, "linear"))
        return strstr(graph->tensors[node->in[1]].name, "attn") ? TIDE_PART_ATTENTION : TIDE_PART_MLP;
    return TIDE_PART_RESIDUAL;
}

static enum tide_part part_of(const struct tide_graph *graph, const struct tide_value *v,
                              const struct tide_node *node)
{
    switch (v->kind) {
    case TIDE_VALUE_PARAMETER_GRADIENT:
        return TIDE_PART_GRADIENTS;
    case TIDE_VALUE_GRADIENT:
        return TIDE_PART_BACKWARD;
    case TIDE_VALUE_WINDOW:
        return TIDE_PART_WEIGHTS;
    case TIDE_VALUE_SCRATCH:
        return node && node->op->is_loss ? TIDE_PART_HEAD : TIDE_PART_WORKSPACE;
    default:
        return node ? part_of_output(graph, node) : TIDE_PART_INPUT;
    }
}

static int64_t alive_at(const struct tide_schedule *schedule, int instruction)
{
    int64_t sum = 0;
    for (int i = 0; i < schedule->value_count; i++)
        if (is_alive(&schedule->values[i], instruction))
            sum += (int64_t)tide_aligned(schedule->values[i].bytes);
    return sum;
}

/* Returns the instruction of a phase at which most is alive; -1: the phase has none. */
static int peak_of(const struct tide_schedule *schedule, int phase)
{
    int peak = -1;
    int64_t most = -1;
    for (int i = 0; i < schedule->count; i++) {
        int64_t alive = belongs(&schedule->instructions[i], phase) ? alive_at(schedule, i) : -1;
        if (alive > most) {
            most = alive;
            peak = i;
        }
    }
    return peak;
}

/* Returns the part for memory that a task holds outside the arena: tasks use the names of the parts. */
static enum tide_part part_named(const char *name)
{
    int part = TIDE_PARTS - 1;
    while (part > 0 && strcmp(tide_part_name((enum tide_part)part), name) != 0)
        part--;
    return part ? (enum tide_part)part : TIDE_PART_WORKSPACE;
}

/* Returns the bytes of weights that operators keep for programs that use states (tide_op.keeps). */
static int64_t kept_of(const struct passes *p, int phase)
{
    int64_t sum = 0;
    for (int i = 0; phase == TIDE_PHASE_EVALUATION && p->forward_base && i < p->graph->tensor_count; i++) {
        const struct tide_tensor *t = &p->graph->tensors[i];
        if (t->role == TIDE_STATE && t->producer >= 0)
            sum += (int64_t)tide_aligned(t->bytes);
    }
    return sum;
}

/* census: filled for the peak phase; NULL: not wanted. */
static void count_phase(const struct passes *p, const struct tide_task *task, int which,
                        struct tide_plan_phase *phase, struct tide_census *census)
{
    const struct tide_schedule *schedule = schedule_of(p, which);
    int peak = peak_of(schedule, which);
    *phase = (struct tide_plan_phase){.name = tide_train_phases[which]};
    phase->owned[TIDE_PART_WEIGHTS] =
        (int64_t)(p->plan->bytes[TIDE_FROZEN] + p->plan->bytes[TIDE_TRAINED]) + kept_of(p, which);
    phase->owned[TIDE_PART_OPTIMIZER] = (int64_t)p->plan->bytes[TIDE_OPTIMIZER];
    phase->owned[TIDE_PART_GRADIENTS] = (int64_t)p->plan->bytes[TIDE_GRADIENTS];
    phase->owned[TIDE_PART_INPUT] = (int64_t)p->plan->bytes[TIDE_INPUTS];
    for (int i = 0; i < task->memory_count; i++)
        phase->owned[part_named(task->memory[i].name)] += (int64_t)task->memory[i].bytes;
    for (int i = 0; peak >= 0 && i < schedule->value_count; i++) {
        const struct tide_value *v = &schedule->values[i];
        if (!is_alive(v, peak))
            continue;
        const struct tide_node *node = node_of(p->graph, schedule, v);
        enum tide_part part = part_of(p->graph, v, node);
        int layer = node ? node->block + 1 : 0;
        phase->owned[part] += (int64_t)tide_aligned(v->bytes);
        if (census && layer <= TIDE_LAYERS_MOST)
            census->bytes[part][layer] += (int64_t)tide_aligned(v->bytes);
    }
    for (int part = 0; part < TIDE_PARTS; part++)
        phase->peak += phase->owned[part];
}

static bool has_program(const struct tide_graph *graph, const char *name)
{
    for (int i = 0; i < graph->program_count; i++)
        if (!strcmp(graph->programs[i].name, name))
            return true;
    return false;
}

static void describe(const struct tide_trainer *trainer, struct tide_job *job)
{
    const struct tide_task *task = trainer->task;
    int named = tide_name_find(tide_task_names, task->kind->name);
    tide_job_init(job);
    job->task = named < 0 ? TIDE_TASK_PRETRAIN : (enum tide_job_task)named;
    job->reference = has_program(trainer->graph, "reference");
    snprintf(job->model.name, sizeof job->model.name, "%s", task->model);
    job->model.layers = task->blocks;
    job->model.vocabulary = task->vocabulary;
    job->dtype = trainer->graph->compute == TIDE_BF16 ? TIDE_DTYPE_BF16 : TIDE_DTYPE_FP32;
    job->batch = task->batch;
    job->sequence = task->sequence;
    job->accumulation = task->passes;
    job->checkpointing = trainer->plan.choices.recompute > 0;
    job->host = job->own = true;
    job->own_optimizer = trainer->graph->optimizer->name;
}

/* Layouts leave gaps, and sampling may need more room than training. The forecast is for everything that is
 * planned. */
static void close_gap(size_t planned, struct tide_forecast *f)
{
    const struct tide_plan_phase *peak = &f->phases[f->peak];
    memcpy(f->owned, peak->owned, sizeof f->owned);
    f->owned[TIDE_PART_GAPS] = (int64_t)planned - peak->peak;
    f->allocated = f->reserved = f->device = (int64_t)planned;
}

int tide_train_forecast(const struct tide_trainer *trainer, struct tide_job *ret_job,
                        struct tide_forecast *ret_forecast, struct tide_err *err)
{
    struct passes p;
    struct tide_forecast *f = ret_forecast;
    const struct tide_task *task = trainer->task;
    if (passes_init(&p, trainer, err))
        return -1;
    memset(f, 0, sizeof *f);
    f->parameters = p.graph->parameters;
    f->trainable = p.graph->trained;
    f->phase_count = TIDE_PHASES;
    describe(trainer, ret_job);
    for (int i = 0; i < TIDE_PHASES; i++) {
        count_phase(&p, task, i, &f->phases[i], NULL);
        f->peak = f->phases[i].peak > f->phases[f->peak].peak ? i : f->peak;
    }
    count_phase(&p, task, f->peak, &f->phases[f->peak], &f->census);
    close_gap(tide_trainer_planned(trainer), f);
    passes_release(&p);
    return 0;
}
