#include "rt/machine.h"

static int plan_evaluation(const struct tide_graph *graph, struct tide_matmuls *matmuls,
                           struct tide_layout *ret_layout, struct tide_err *err)
{
    struct tide_schedule schedule;
    if (tide_schedule_forward(graph, matmuls, &schedule, err))
        return -1;
    int bad = tide_layout(&schedule, ret_layout, err);
    tide_schedule_release(&schedule);
    return bad;
}

/* What does not depend on the layout of a pass. */
static struct tide_plan blank_plan(const struct tide_graph *graph, const struct tide_choices *choices,
                                   bool trains, size_t floor, const struct tide_layout *evaluate)
{
    struct tide_plan plan = {.choices = *choices, .floor = floor, .evaluate = *evaluate};
    for (int i = 0; i < graph->tensor_count; i++) {
        size_t bytes = tide_aligned(graph->tensors[i].bytes);
        if (graph->tensors[i].role == TIDE_PARAMETER)
            plan.weights += bytes;
        else if (graph->tensors[i].role != TIDE_ACTIVATION)
            plan.inputs += bytes;
    }
    plan.optimizer = trains ? 2 * plan.weights : 0;
    plan.gradients = trains && !choices->fused ? plan.weights : 0;
    return plan;
}

static size_t lasting(const struct tide_plan *plan)
{
    return plan->weights + plan->optimizer + plan->gradients + plan->inputs;
}

static void add_up(struct tide_plan *plan)
{
    plan->passes = plan->train.bytes > plan->evaluate.bytes ? plan->train.bytes : plan->evaluate.bytes;
    plan->passes = plan->passes > plan->floor ? plan->passes : plan->floor;
    plan->total = lasting(plan) + plan->passes;
}

int tide_plan_make(const struct tide_graph *graph, struct tide_matmuls *matmuls,
                   const struct tide_choices *choices, bool trains, size_t floor, struct tide_plan *ret_plan,
                   struct tide_err *err)
{
    struct tide_layout evaluate;
    struct tide_schedule schedule;
    if (plan_evaluation(graph, matmuls, &evaluate, err))
        return -1;
    struct tide_plan plan = blank_plan(graph, choices, trains, floor, &evaluate);
    if (trains) {
        if (tide_schedule_train(graph, matmuls, choices, &schedule, err))
            return -1;
        int bad = tide_layout(&schedule, &plan.train, err);
        plan.work = schedule.work;
        tide_schedule_release(&schedule);
        if (bad)
            return -1;
    }
    add_up(&plan);
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

/* ---- choosing */

struct choosing {
    const struct tide_graph *graph;
    struct tide_matmuls *matmuls;
    struct tide_err *err;
    size_t budget; /* SIZE_MAX: none */
    size_t floor;
    struct tide_layout evaluate;
    bool found; /* one that fits; the best so far: */
    struct tide_choices best;
    double best_work;
    struct tide_plan least; /* so far; total 0: none */
};

/* So many blocks are tried one by one. */
enum { FEW = 16 };

static int make_plan(const struct choosing *c, const struct tide_choices *choices,
                     struct tide_schedule *schedule, struct tide_plan *ret_plan)
{
    struct tide_plan plan = blank_plan(c->graph, choices, true, c->floor, &c->evaluate);
    if (tide_layout(schedule, &plan.train, c->err))
        return -1;
    plan.work = schedule->work;
    add_up(&plan);
    *ret_plan = plan;
    return 0;
}

/* Whether the plan takes at most so many bytes. */
static int fits(const struct choosing *c, const struct tide_choices *choices, struct tide_schedule *schedule,
                size_t bytes, bool *ret_fits)
{
    struct tide_plan plan = blank_plan(c->graph, choices, true, c->floor, &c->evaluate);
    add_up(&plan); /* without the pass of training */
    *ret_fits = false;
    return plan.total > bytes
               ? 0
               : tide_layout_fits(schedule, bytes - (plan.total - plan.passes), ret_fits, c->err);
}

/* ret_too_large: whether more blocks have to be computed again; else what follows is not better. */
static int try_better(struct choosing *c, const struct tide_choices *choices, bool *ret_too_large)
{
    struct tide_schedule schedule;
    bool does = false;
    if (tide_schedule_train(c->graph, c->matmuls, choices, &schedule, c->err))
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

/* The fewest blocks computed again that fit: each is more work. It takes less memory, too, but for single
 * ones: the last block saves nothing, and no layout is perfect. So what halving leaves is tried one by one.
 */
static int find_better(struct choosing *c, struct tide_choices *choices)
{
    int from = 0, to = c->graph->block_count;
    bool too_large;
    for (choices->again = 0; from <= to; choices->again = to - from < FEW ? from : from + (to - from) / 2) {
        if (try_better(c, choices, &too_large))
            return -1;
        if (too_large)
            from = choices->again + 1;
        else
            to = choices->again - 1;
    }
    return 0;
}

static int try_smaller(struct choosing *c, const struct tide_choices *choices)
{
    struct tide_schedule schedule;
    bool does = true;
    if (tide_schedule_train(c->graph, c->matmuls, choices, &schedule, c->err))
        return -1;
    int bad = c->least.total ? fits(c, choices, &schedule, c->least.total - 1, &does) : 0;
    if (!bad && does)
        bad = make_plan(c, choices, &schedule, &c->least);
    tide_schedule_release(&schedule);
    return bad;
}

/* With nearly all blocks computed again. */
static int find_smaller(struct choosing *c, struct tide_choices *choices)
{
    int blocks = c->graph->block_count;
    for (choices->again = blocks; choices->again >= 0 && choices->again > blocks - FEW; choices->again--)
        if (try_smaller(c, choices))
            return -1;
    return 0;
}

static int finish(const struct choosing *c, struct tide_plan *ret_plan, struct tide_plan *ret_least)
{
    struct tide_schedule schedule;
    *ret_least = c->least;
    if (!c->found)
        return tide_err_set(c->err, "no exact plan fits into %zu bytes: the least possible is %zu", c->budget,
                            c->least.total);
    if (tide_schedule_train(c->graph, c->matmuls, &c->best, &schedule, c->err))
        return -1;
    int bad = make_plan(c, &c->best, &schedule, ret_plan);
    tide_schedule_release(&schedule);
    return bad;
}

int tide_plan_choose(const struct tide_graph *graph, struct tide_matmuls *matmuls, size_t budget,
                     int64_t micro_batches, bool clips, size_t floor, struct tide_plan *ret_plan,
                     struct tide_plan *ret_least, struct tide_err *err)
{
    static const int spared[] = {0, TIDE_QUARTERS, 1, 2, 3};
    struct choosing c = {
        .graph = graph, .matmuls = matmuls, .err = err, .budget = budget ? budget : SIZE_MAX, .floor = floor};
    if (plan_evaluation(graph, matmuls, &c.evaluate, err))
        return -1;
    for (int fused = 0; fused <= (micro_batches == 1 ? 1 : 0); fused++)
        for (int i = 0; i <= TIDE_QUARTERS; i++) {
            struct tide_choices choices = {.fused = fused, .clips = clips, .spared = spared[i]};
            if (find_better(&c, &choices) || find_smaller(&c, &choices))
                return -1;
        }
    return finish(&c, ret_plan, ret_least);
}
