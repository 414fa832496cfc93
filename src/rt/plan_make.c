#include "rt/machine.h"

int tide_plan_make(const struct tide_graph *graph, struct tide_matmuls *matmuls,
                   const struct tide_choices *choices, bool trains, size_t floor, struct tide_plan *ret_plan,
                   struct tide_err *err)
{
    struct tide_plan plan = {.choices = *choices, .floor = floor};
    struct tide_schedule schedule;
    for (int i = 0; i < graph->tensor_count; i++) {
        size_t bytes = tide_aligned(graph->tensors[i].bytes);
        if (graph->tensors[i].role == TIDE_PARAMETER)
            plan.weights += bytes;
        else if (graph->tensors[i].role != TIDE_ACTIVATION)
            plan.inputs += bytes;
    }
    if (trains) {
        plan.optimizer = 2 * plan.weights;
        plan.gradients = choices->fused ? 0 : plan.weights;
        if (tide_schedule_train(graph, matmuls, choices, &schedule, err))
            return -1;
        int bad = tide_layout(&schedule, &plan.train, err);
        plan.work = schedule.work;
        tide_schedule_release(&schedule);
        if (bad)
            return -1;
    }
    if (tide_schedule_forward(graph, matmuls, &schedule, err))
        return -1;
    int bad = tide_layout(&schedule, &plan.evaluate, err);
    tide_schedule_release(&schedule);
    if (bad)
        return -1;
    plan.passes = plan.train.bytes > plan.evaluate.bytes ? plan.train.bytes : plan.evaluate.bytes;
    plan.passes = plan.passes > floor ? plan.passes : floor;
    plan.total = plan.weights + plan.optimizer + plan.gradients + plan.inputs + plan.passes;
    *ret_plan = plan;
    return 0;
}

int tide_guest_bytes(const struct tide_graph *graph, struct tide_matmuls *matmuls, size_t *ret_bytes,
                     struct tide_err *err)
{
    struct tide_choices none = {0};
    struct tide_plan plan;
    if (tide_plan_make(graph, matmuls, &none, false, 0, &plan, err))
        return -1;
    *ret_bytes = plan.inputs + plan.passes;
    return 0;
}

/* The best and the smallest so far; total 0: none. */
struct choosing {
    size_t budget;
    struct tide_plan best, least;
};

static void consider(struct choosing *c, const struct tide_plan *plan)
{
    if (!c->least.total || plan->total < c->least.total)
        c->least = *plan;
    if ((!c->budget || plan->total <= c->budget) && (!c->best.total || plan->work < c->best.work))
        c->best = *plan;
}

/* With nothing spared, with all that can be, and with what lies between if that makes a difference. */
static int consider_spared(struct choosing *c, const struct tide_graph *graph, struct tide_matmuls *matmuls,
                           struct tide_choices *choices, size_t floor, struct tide_err *err)
{
    static const int order[] = {0, TIDE_QUARTERS, 1, 2, 3};
    size_t whole = 0;
    for (int i = 0; i <= TIDE_QUARTERS; i++) {
        struct tide_plan plan;
        choices->spared = order[i];
        if (tide_plan_make(graph, matmuls, choices, true, floor, &plan, err))
            return -1;
        consider(c, &plan);
        if (i == 1 && plan.total == whole)
            break;
        whole = plan.total;
    }
    return 0;
}

int tide_plan_choose(const struct tide_graph *graph, struct tide_matmuls *matmuls, size_t budget,
                     int64_t micro_batches, bool clips, size_t floor, struct tide_plan *ret_plan,
                     struct tide_plan *ret_least, struct tide_err *err)
{
    struct choosing c = {.budget = budget};
    for (int fused = 0; fused <= (micro_batches == 1 ? 1 : 0); fused++)
        for (int again = 0; again <= graph->block_count; again++) {
            struct tide_choices choices = {.again = again, .fused = fused, .clips = clips};
            if (consider_spared(&c, graph, matmuls, &choices, floor, err))
                return -1;
        }
    *ret_least = c.least;
    if (!c.best.total)
        return tide_err_set(err, "no exact plan fits into %zu bytes: the least possible is %zu", budget,
                            c.least.total);
    *ret_plan = c.best;
    return 0;
}
