#include "base/whole.h"
#include "rt/machine.h"

#include <string.h>

size_t tide_plan_base(const struct tide_graph *graph, int program)
{
    const struct tide_program *p = &graph->programs[program];
    for (int i = p->first; graph->bytes[TIDE_PASSES] && i < p->end; i++)
        for (int k = 0; k < graph->nodes[i].in_count; k++)
            if (graph->tensors[graph->nodes[i].in[k]].role == TIDE_STATE)
                return graph->bytes[TIDE_PASSES];
    return 0;
}

/* Lays out the values of a program under the plan's choices. */
static int lay_out(const struct tide_graph *graph, const struct tide_device *device, int program,
                   struct tide_plan *plan, struct tide_err *err)
{
    struct tide_schedule schedule;
    if (tide_schedule(graph, program, device, &plan->choices, &schedule, err))
        return -1;
    int bad = tide_layout(&schedule, &plan->layouts[program], err);
    if (graph->programs[program].trains)
        plan->work = schedule.work;
    tide_schedule_release(&schedule);
    return bad;
}

/* Lays out all programs, the one that trains only if training is true. */
static int lay_out_all(const struct tide_graph *graph, const struct tide_device *device, bool training,
                       struct tide_plan *plan, struct tide_err *err)
{
    for (int i = 0; i < graph->program_count; i++)
        if ((training || !graph->programs[i].trains) && lay_out(graph, device, i, plan, err))
            return -1;
    return 0;
}

/* Returns the bytes that an update after a pass works in. */
static size_t update_scratch(const struct tide_graph *graph, const struct tide_device *device)
{
    size_t most = 0;
    for (int i = 0; i < graph->tensor_count; i++) {
        size_t bytes = tide_tensor_trains(&graph->tensors[i]) ? device->update_scratch(device, graph, i) : 0;
        most = tide_larger_size(most, bytes);
    }
    return tide_aligned(most);
}

/* Fills in the sections of a plan whose layouts are made. */
static void add_up(const struct tide_graph *graph, const struct tide_device *device, struct tide_plan *plan)
{
    bool trains = tide_graph_training(graph) >= 0;
    memcpy(plan->bytes, graph->bytes, sizeof plan->bytes);
    if (!trains)
        plan->bytes[TIDE_OPTIMIZER] = 0;
    if (!trains || plan->choices.fused)
        plan->bytes[TIDE_GRADIENTS] = 0;
    size_t *passes = &plan->bytes[TIDE_PASSES];
    plan->update = plan->bytes[TIDE_GRADIENTS] ? update_scratch(graph, device) : 0;
    *passes = tide_larger_size(*passes, plan->update);
    for (int i = 0; i < graph->program_count; i++)
        *passes = tide_larger_size(*passes, tide_plan_base(graph, i) + plan->layouts[i].bytes);
    plan->total = tide_plan_start(plan, TIDE_SECTIONS);
}

int tide_plan_make(const struct tide_graph *graph, const struct tide_device *device,
                   const struct tide_choices *choices, struct tide_plan *ret_plan, struct tide_err *err)
{
    struct tide_plan plan = {.choices = *choices};
    if (lay_out_all(graph, device, true, &plan, err))
        return -1;
    add_up(graph, device, &plan);
    *ret_plan = plan;
    return 0;
}

/* ---- choosing */

struct choosing {
    const struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_err *err;
    size_t budget; /* SIZE_MAX: none */
    int training;
    struct tide_plan others; /* the other programs alone */
    bool found;              /* a plan that fits; best and best_work describe the best so far */
    struct tide_choices best;
    double best_work;
    struct tide_plan least; /* so far; total 0: none */
};

/* This many candidates are tried one by one. */
enum { FEW = 16 };

static int make_plan(const struct choosing *c, const struct tide_choices *choices,
                     struct tide_schedule *schedule, struct tide_plan *ret_plan)
{
    struct tide_plan plan = c->others;
    plan.choices = *choices;
    if (tide_layout(schedule, &plan.layouts[c->training], c->err))
        return -1;
    plan.work = schedule->work;
    add_up(c->graph, c->device, &plan);
    *ret_plan = plan;
    return 0;
}

/* *ret_fits: true if the plan takes at most that many bytes. */
static int fits(const struct choosing *c, const struct tide_choices *choices, struct tide_schedule *schedule,
                size_t bytes, bool *ret_fits)
{
    struct tide_plan plan = c->others;
    plan.choices = *choices;
    add_up(c->graph, c->device, &plan); /* without the pass of training */
    *ret_fits = false;
    return plan.total > bytes
               ? 0
               : tide_layout_fits(schedule, bytes - tide_plan_start(&plan, TIDE_PASSES), ret_fits, c->err);
}

/* *ret_too_large: true if more blocks must be recomputed. If false, recomputing more is not better. */
static int try_better(struct choosing *c, const struct tide_choices *choices, bool *ret_too_large)
{
    struct tide_schedule schedule;
    bool does = false;
    if (tide_schedule(c->graph, c->training, c->device, choices, &schedule, c->err))
        return -1;
    bool gains = !c->found || schedule.work < c->best_work;
    int bad = gains ? fits(c, choices, &schedule, c->budget, &does) : 0;
    if (does) {
        c->found = true;
        c->best = *choices;
        c->best_work = schedule.work;
    }
    *ret_too_large = gains && !does;
    tide_schedule_release(&schedule);
    return bad;
}

/* Finds the fewest recomputed blocks that fit, because each block recomputed is more work. Recomputing more
 * takes less memory, with exceptions: the last block saves nothing, and no layout is perfect. So the
 * candidates that bisection leaves are tried one by one. */
static int find_better(struct choosing *c, struct tide_choices *choices)
{
    int from = 0, to = c->graph->programs[c->training].block_count;
    bool too_large;
    for (choices->recompute = 0; from <= to;
         choices->recompute = to - from < FEW ? from : from + (to - from) / 2) {
        if (try_better(c, choices, &too_large))
            return -1;
        if (too_large)
            from = choices->recompute + 1;
        else
            to = choices->recompute - 1;
    }
    return 0;
}

static int try_smaller(struct choosing *c, const struct tide_choices *choices)
{
    struct tide_schedule schedule;
    bool does = true;
    if (tide_schedule(c->graph, c->training, c->device, choices, &schedule, c->err))
        return -1;
    int bad = c->least.total ? fits(c, choices, &schedule, c->least.total - 1, &does) : 0;
    if (!bad && does)
        bad = make_plan(c, choices, &schedule, &c->least);
    tide_schedule_release(&schedule);
    return bad;
}

/* Tries plans that recompute all or nearly all blocks. */
static int find_smaller(struct choosing *c, struct tide_choices *choices)
{
    int blocks = c->graph->programs[c->training].block_count;
    for (choices->recompute = blocks; choices->recompute >= 0 && choices->recompute > blocks - FEW;
         choices->recompute--)
        if (try_smaller(c, choices))
            return -1;
    return 0;
}

static int finish(const struct choosing *c, struct tide_plan *ret_plan, struct tide_plan *ret_least)
{
    *ret_least = c->least;
    if (!c->found)
        return tide_err_set(c->err, "no exact plan fits into %zu bytes: the least possible is %zu", c->budget,
                            c->least.total);
    return tide_plan_make(c->graph, c->device, &c->best, ret_plan, c->err);
}

int tide_plan_choose(const struct tide_graph *graph, const struct tide_device *device, size_t budget,
                     int64_t micro_batches, bool clips, struct tide_plan *ret_plan,
                     struct tide_plan *ret_least, struct tide_err *err)
{
    static const int shares[] = {0, TIDE_QUARTERS, 1, 2, 3};
    struct choosing c = {.graph = graph,
                         .device = device,
                         .err = err,
                         .budget = budget ? budget : SIZE_MAX,
                         .training = tide_graph_training(graph)};
    if (lay_out_all(graph, device, false, &c.others, err))
        return -1;
    for (int fused = 0; fused <= (micro_batches == 1 ? 1 : 0); fused++)
        for (int i = 0; i <= TIDE_QUARTERS; i++) {
            struct tide_choices choices = {.fused = fused, .clips = clips, .recompute_logits = shares[i]};
            if (find_better(&c, &choices) || find_smaller(&c, &choices))
                return -1;
        }
    return finish(&c, ret_plan, ret_least);
}
