#include "cli/train_forecast.h"

#include <stdio.h>
#include <string.h>

/* Whose an output is: by its operator, and a linear layer's by the name of its weight. */
static enum tide_part part_of_output(const struct tide_graph *graph, const struct tide_node *node)
{
    const char *op = node->op->name;
    if (node->op->is_loss)
        return TIDE_PART_HEAD;
    if (!strcmp(op, "norm"))
        return TIDE_PART_NORM;
    if (!strcmp(op, "attention"))
        return TIDE_PART_ATTENTION;
    if (!strcmp(op, "gelu"))
        return TIDE_PART_MLP;
    if (!strcmp(op, "linear"))
        return strstr(graph->tensors[node->in[1]].name, "attn") ? TIDE_PART_ATTENTION : TIDE_PART_MLP;
    return TIDE_PART_RESIDUAL;
}

static enum tide_part part_of(const struct tide_graph *graph, const struct tide_schedule *schedule,
                              const struct tide_value *v, int *ret_block)
{
    int at = v->kind == TIDE_VALUE_SCRATCH ? schedule->instructions[v->first].node
             : v->tensor < 0               ? -1
                                           : graph->tensors[v->tensor].producer;
    const struct tide_node *node = at < 0 ? NULL : &graph->nodes[at];
    *ret_block = node ? node->block : -1;
    switch (v->kind) {
    case TIDE_VALUE_PARAMETER_GRADIENT:
        return TIDE_PART_GRADIENTS;
    case TIDE_VALUE_GRADIENT:
        return TIDE_PART_BACKWARD;
    case TIDE_VALUE_SCRATCH:
        return node && node->op->is_loss ? TIDE_PART_HEAD : TIDE_PART_WORKSPACE;
    default:
        return node ? part_of_output(graph, node) : TIDE_PART_INPUT;
    }
}

static int64_t alive_at(const struct tide_schedule *schedule, int instruction)
{
    int64_t sum = 0;
    for (int i = 0; i < schedule->value_count; i++) {
        const struct tide_value *v = &schedule->values[i];
        sum += v->first <= instruction && instruction <= v->last ? (int64_t)tide_aligned(v->bytes) : 0;
    }
    return sum;
}

/* The instructions of a phase at which most is alive; -1: it has none. */
static int peak_of(const struct tide_schedule *schedule, enum tide_phase phase, bool evaluates)
{
    int peak = -1;
    int64_t most = -1;
    for (int i = 0; i < schedule->count; i++) {
        bool belongs = evaluates || tide_phase_of(schedule->instructions[i].action) == phase;
        int64_t alive = belongs ? alive_at(schedule, i) : -1;
        if (alive > most) {
            most = alive;
            peak = i;
        }
    }
    return peak;
}

static void count_lasting(const struct tide_plan *plan, int64_t owned[TIDE_PARTS])
{
    memset(owned, 0, TIDE_PARTS * sizeof *owned);
    owned[TIDE_PART_WEIGHTS] = (int64_t)plan->weights;
    owned[TIDE_PART_OPTIMIZER] = (int64_t)plan->optimizer;
    owned[TIDE_PART_GRADIENTS] = (int64_t)plan->gradients;
    owned[TIDE_PART_INPUT] = (int64_t)plan->inputs;
}

/* census: of the phase of the peak; NULL: not wanted. */
static void count_phase(const struct tide_graph *graph, const struct tide_schedule *schedule, int instruction,
                        struct tide_plan_phase *phase, struct tide_census *census)
{
    for (int i = 0; instruction >= 0 && i < schedule->value_count; i++) {
        const struct tide_value *v = &schedule->values[i];
        if (v->first > instruction || v->last < instruction)
            continue;
        int block;
        enum tide_part part = part_of(graph, schedule, v, &block);
        phase->owned[part] += (int64_t)tide_aligned(v->bytes);
        if (census && block + 1 <= TIDE_LAYERS_MOST)
            census->bytes[part][block + 1] += (int64_t)tide_aligned(v->bytes);
    }
    for (int part = 0; part < TIDE_PARTS; part++)
        phase->peak += phase->owned[part];
}

static void describe(const struct tide_trainer *trainer, struct tide_job *job)
{
    const struct tide_train_options *o = tide_trainer_options(trainer);
    const struct tide_gpt_config *config = tide_trainer_config(trainer);
    tide_job_init(job);
    snprintf(job->model.name, sizeof job->model.name, "%s",
             o->preset   ? o->preset
             : o->config ? "config"
                         : "tiny");
    job->model.layers = config->blocks;
    job->model.words = config->words;
    job->dtype = o->dtype == TIDE_BF16 ? TIDE_DTYPE_BF16 : TIDE_DTYPE_FP32;
    job->batch = o->batch;
    job->sequence = o->sequence;
    job->accumulation = o->accumulate;
    job->checkpointing = tide_trainer_layout(trainer)->choices.again > 0;
    job->host = job->own = true;
}

/* Layouts leave gaps, and the room for speaking may be larger than what training needs: what is planned is
 * all of it. */
static void close_gap(const struct tide_plan *plan, struct tide_forecast *f)
{
    const struct tide_plan_phase *peak = &f->phases[f->peak];
    memcpy(f->owned, peak->owned, sizeof f->owned);
    f->owned[TIDE_PART_GAPS] = (int64_t)plan->total - peak->peak;
    f->allocated = f->reserved = f->device = (int64_t)plan->total;
}

static int count_phases(const struct tide_trainer *trainer, struct tide_forecast *f, struct tide_err *err)
{
    static const char *const names[TIDE_PHASES] = {"forward", "backward", "update", "evaluation"};
    const struct tide_graph *graph = tide_trainer_graph(trainer);
    const struct tide_plan *plan = tide_trainer_layout(trainer);
    struct tide_schedule train, forward;
    if (tide_schedule_train(graph, tide_trainer_matmuls(trainer), &plan->choices, &train, err))
        return -1;
    if (tide_schedule_forward(graph, tide_trainer_matmuls(trainer), &forward, err)) {
        tide_schedule_release(&train);
        return -1;
    }
    int at[TIDE_PHASES];
    for (int i = 0; i < TIDE_PHASES; i++) {
        bool evaluates = i == TIDE_PHASE_EVALUATION;
        const struct tide_schedule *schedule = evaluates ? &forward : &train;
        at[i] = peak_of(schedule, (enum tide_phase)i, evaluates);
        f->phases[i].name = names[i];
        count_lasting(plan, f->phases[i].owned);
        count_phase(graph, schedule, at[i], &f->phases[i], NULL);
        f->peak = f->phases[i].peak > f->phases[f->peak].peak ? i : f->peak;
    }
    f->phase_count = TIDE_PHASES;
    struct tide_plan_phase again = {0};
    count_phase(graph, f->peak == TIDE_PHASE_EVALUATION ? &forward : &train, at[f->peak], &again, &f->census);
    tide_schedule_release(&train);
    tide_schedule_release(&forward);
    return 0;
}

int tide_train_forecast(const struct tide_trainer *trainer, struct tide_job *ret_job,
                        struct tide_forecast *ret_forecast, struct tide_err *err)
{
    memset(ret_forecast, 0, sizeof *ret_forecast);
    ret_forecast->parameters = ret_forecast->trainable = tide_trainer_graph(trainer)->parameters;
    describe(trainer, ret_job);
    if (count_phases(trainer, ret_forecast, err))
        return -1;
    close_gap(tide_trainer_layout(trainer), ret_forecast);
    return 0;
}
