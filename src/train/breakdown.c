#include "train/breakdown.h"

#include <stdio.h>

static bool is_alive(const struct tide_value *v, int instruction)
{
    return v->first <= instruction && instruction <= v->last;
}

/* The node whose instruction uses a scratch value, which lives for that instruction alone. */
static const struct tide_node *node_of_scratch(const struct tide_graph *graph,
                                               const struct tide_schedule *schedule,
                                               const struct tide_value *v)
{
    int node = schedule->instructions[v->first].node;
    return node < 0 ? NULL : &graph->nodes[node];
}

static void name_value(const struct tide_graph *graph, const struct tide_schedule *schedule,
                       const struct tide_value *v, char name[static TIDE_OWNER_NAME])
{
    const struct tide_tensor *t = v->tensor < 0 ? NULL : &graph->tensors[v->tensor];
    const struct tide_node *node = t && t->producer >= 0 ? &graph->nodes[t->producer] : NULL;
    char place[32] = "";
    if (!t)
        node = node_of_scratch(graph, schedule, v);
    int block = node ? node->block : -1;
    if (block >= 0)
        snprintf(place, sizeof place, " of block %d", block);
    const char *what = v->kind == TIDE_VALUE_AGAIN ? ", computed again" : "";
    if (v->kind == TIDE_VALUE_PARAMETER_GRADIENT)
        snprintf(name, TIDE_OWNER_NAME, "gradient of %s", t ? t->name : "a parameter");
    else
        snprintf(name, TIDE_OWNER_NAME, "%s %s%s%s",
                 v->kind == TIDE_VALUE_SCRATCH    ? "scratch of"
                 : v->kind == TIDE_VALUE_GRADIENT ? "gradient of"
                                                  : "output of",
                 node ? node->op->name : "an input", place, what);
}

/* Keeps the largest, in order; what falls out joins the others. */
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

static void count_peak(const struct tide_graph *graph, const struct tide_schedule *schedule, int peak,
                       struct tide_breakdown *b)
{
    for (int i = 0; i < schedule->value_count; i++) {
        const struct tide_value *v = &schedule->values[i];
        if (!is_alive(v, peak))
            continue;
        struct tide_owner owner = {.bytes = tide_aligned(v->bytes)};
        const struct tide_node *node =
            v->kind == TIDE_VALUE_SCRATCH ? node_of_scratch(graph, schedule, v) : NULL;
        if (v->kind == TIDE_VALUE_PARAMETER_GRADIENT)
            b->gradients += owner.bytes;
        if (node && node->op->is_loss)
            b->head += owner.bytes;
        name_value(graph, schedule, v, owner.name);
        take_owner(b, &owner);
    }
}

/* ---- phases */

static void reach(size_t *to, const struct tide_schedule *schedule, int value)
{
    if (value < 0)
        return;
    const struct tide_value *v = &schedule->values[value];
    size_t end = v->offset + tide_aligned(v->bytes);
    *to = end > *to ? end : *to;
}

static size_t end_of(const struct tide_schedule *schedule, const struct tide_instruction *i)
{
    size_t end = 0;
    for (int k = 0; k < TIDE_OPERANDS; k++) {
        reach(&end, schedule, i->in[k]);
        reach(&end, schedule, i->in_grad[k]);
    }
    for (int k = 0; k < TIDE_OUTPUTS; k++) {
        reach(&end, schedule, i->out[k]);
        reach(&end, schedule, i->out_grad[k]);
    }
    reach(&end, schedule, i->scratch);
    return end;
}

static void count_phases(const struct tide_schedule *schedule, size_t lasting, bool evaluates,
                         size_t phases[static TIDE_PHASES])
{
    for (int i = 0; i < schedule->count; i++) {
        const struct tide_instruction *to = &schedule->instructions[i];
        size_t *phase = &phases[evaluates ? TIDE_PHASE_EVALUATION : tide_phase_of(to->action)];
        size_t end = lasting + end_of(schedule, to);
        *phase = end > *phase ? end : *phase;
    }
}

static int count_evaluation(const struct tide_graph *graph, struct tide_matmuls *matmuls, size_t lasting,
                            struct tide_breakdown *b, struct tide_err *err)
{
    struct tide_schedule schedule;
    struct tide_layout layout;
    if (tide_schedule_forward(graph, matmuls, &schedule, err))
        return -1;
    int bad = tide_layout(&schedule, &layout, err);
    if (!bad)
        count_phases(&schedule, lasting, true, b->phases);
    tide_schedule_release(&schedule);
    return bad;
}

int tide_breakdown(const struct tide_graph *graph, struct tide_matmuls *matmuls, const struct tide_plan *plan,
                   struct tide_breakdown *ret_breakdown, struct tide_err *err)
{
    struct tide_schedule schedule;
    struct tide_layout layout;
    struct tide_breakdown b = {
        .weights = plan->weights, .optimizer = plan->optimizer, .inputs = plan->inputs};
    if (tide_schedule_train(graph, matmuls, &plan->choices, &schedule, err))
        return -1;
    int bad = tide_layout(&schedule, &layout, err);
    size_t lasting = plan->total - plan->passes;
    b.phases[TIDE_PHASE_UPDATE] = lasting;
    if (!bad) {
        count_peak(graph, &schedule, layout.peak, &b);
        count_phases(&schedule, lasting, false, b.phases);
    }
    tide_schedule_release(&schedule);
    if (bad || count_evaluation(graph, matmuls, lasting, &b, err))
        return -1;
    b.activations = plan->passes - b.gradients - b.head;
    b.gradients += plan->gradients;
    *ret_breakdown = b;
    return 0;
}
