#include "rt/schedule.h"
#include "base/check.h"
#include "base/grow.h"

#include <stdlib.h>

enum { LONGEST = 1 << 24 }; /* instructions, and values */

/* What is known of each tensor while a schedule is made. */
struct track {
    int value;      /* from the forward pass; TIDE_NONE: none yet */
    int recomputed; /* value after recomputation; TIDE_NONE: not recomputed */
    int gradient;   /* TIDE_NONE: none yet */
    int first_use;  /* first node that uses it: the last to add to its gradient in the backward pass */
    int from_loss;  /* its gradient as the loss wrote it, kept for a second walk; else TIDE_NONE */
    bool needed;    /* its gradient is: a parameter that trains depends on it */
    bool leaves;    /* used outside its block */
    bool wanted;    /* the current block must recompute it */
    bool settled;   /* a parameter whose gradient is complete after the first of two walks */
    bool of_loss;   /* a parameter that the loss uses */
};

struct maker {
    const struct tide_graph *graph;
    const struct tide_program *program;
    const struct tide_device *device;
    const struct tide_choices *choices;
    struct tide_schedule *to;
    struct track *tracks;
    struct tide_err *err;
    int *awaited; /* for each value, how many readers are left: tensors whose producer will read it as their
                     gradient, and a second walk */
    size_t awaited_capacity;
    bool twice, measures; /* there are two walks; this one is for the norm */
};

static int no_memory(struct maker *m)
{
    return tide_err_set(m->err, "out of memory for the schedule");
}

static int new_value(struct maker *m, enum tide_value_kind kind, int tensor, size_t bytes)
{
    int new = m->to->value_count;
    if (TIDE_GROW(m->to->values, m->to->value_capacity, new + 1, LONGEST) ||
        TIDE_GROW(m->awaited, m->awaited_capacity, new + 1, LONGEST))
        return no_memory(m);
    m->to->values[new] =
        (struct tide_value){.kind = kind, .tensor = tensor, .bytes = bytes, .first = -1, .last = -1};
    m->awaited[new] = 0;
    return m->to->value_count++;
}

static void touch(struct tide_schedule *s, int value)
{
    if (value < 0)
        return;
    struct tide_value *v = &s->values[value];
    if (v->first < 0)
        v->first = s->count;
    v->last = s->count;
}

static int emit(struct maker *m, const struct tide_instruction *instruction)
{
    struct tide_schedule *s = m->to;
    if (TIDE_GROW(s->instructions, s->capacity, s->count + 1, LONGEST))
        return no_memory(m);
    s->instructions[s->count] = *instruction;
    for (int i = 0; i < TIDE_VALUES; i++)
        touch(s, instruction->values[i]);
    s->count++;
    return 0;
}

static struct tide_instruction blank(enum tide_action action, int node, int tensor)
{
    struct tide_instruction i = {.action = action, .node = node, .tensor = tensor};
    for (int k = 0; k < TIDE_VALUES; k++)
        i.values[k] = TIDE_NONE;
    return i;
}

/* Emits an instruction that needs so many bytes of scratch. */
static int emit_with(struct maker *m, struct tide_instruction *instruction, size_t scratch)
{
    if (scratch)
        instruction->scratch = new_value(m, TIDE_VALUE_SCRATCH, -1, scratch);
    return (scratch && instruction->scratch < 0) || emit(m, instruction) ? -1 : 0;
}

/* Returns the value to read a tensor from: in the backward pass, the recomputed one if there is one. */
static int value_of(const struct maker *m, int tensor, bool backward)
{
    const struct track *t = &m->tracks[tensor];
    if (tide_tensor_lasts(&m->graph->tensors[tensor]))
        return TIDE_LASTING;
    return backward && t->recomputed != TIDE_NONE ? t->recomputed : t->value;
}

static bool is_dropped(const struct maker *m, int tensor)
{
    int block = m->graph->tensors[tensor].block;
    return block >= 0 && block < m->choices->recompute && !m->tracks[tensor].leaves;
}

/* Loads a streamed parameter for one node. The next node that reads it loads it again. */
static int load_parameter(struct maker *m, int tensor)
{
    struct tide_instruction to = blank(TIDE_LOAD, -1, tensor);
    to.out[0] = new_value(m, TIDE_VALUE_WINDOW, tensor, m->graph->tensors[tensor].bytes);
    m->tracks[tensor].value = to.out[0];
    return to.out[0] < 0 || emit(m, &to) ? -1 : 0;
}

/* Makes the values that a node writes. */
static int make_outputs(struct maker *m, const struct tide_node *node, bool recomputes,
                        struct tide_instruction *to)
{
    for (int i = 0; i < node->out_count; i++) {
        const struct tide_tensor *tensor = &m->graph->tensors[node->out[i]];
        struct track *track = &m->tracks[node->out[i]];
        if (tide_tensor_lasts(tensor)) {
            to->out[i] = TIDE_LASTING;
            continue;
        }
        to->out[i] = new_value(m, recomputes ? TIDE_VALUE_RECOMPUTED : TIDE_VALUE_ACTIVATION, node->out[i],
                               tensor->bytes);
        *(recomputes ? &track->recomputed : &track->value) = to->out[i];
        if (to->out[i] < 0)
            return -1;
    }
    return 0;
}

static int run_forward(struct maker *m, int index, enum tide_action action)
{
    const struct tide_node *node = &m->graph->nodes[index];
    struct tide_instruction to = blank(action, index, -1);
    bool recomputes = action == TIDE_RUN_RECOMPUTE;
    for (int i = 0; i < node->in_count; i++) {
        if (m->graph->tensors[node->in[i]].role == TIDE_STREAMED && !(node->op->streams >> i & 1) &&
            load_parameter(m, node->in[i]))
            return -1;
        to.in[i] = value_of(m, node->in[i], recomputes);
    }
    if (make_outputs(m, node, recomputes, &to))
        return -1;
    m->to->work += tide_node_work(m->graph, node);
    return emit_with(m, &to, m->device->scratch(m->device, m->graph, node, TIDE_FORWARD, 0));
}

/* ---- the backward pass */

/* True if a node's backward pass computes any gradient that is needed. */
static bool is_needed(const struct maker *m, const struct tide_node *node)
{
    for (int i = 0; i < node->in_count; i++)
        if (m->tracks[node->in[i]].needed)
            return true;
    return false;
}

/* The operands that it reads for that. */
static unsigned reads(const struct maker *m, const struct tide_node *node, const unsigned *masks)
{
    unsigned mask = 0;
    for (int i = 0; i < node->in_count; i++)
        if (m->tracks[node->in[i]].needed)
            mask |= masks[i];
    return mask;
}

/* Marks what a node's backward pass reads, and what recomputing that needs. */
static void want_for(struct maker *m, int index)
{
    const struct tide_node *node = &m->graph->nodes[index];
    unsigned in = reads(m, node, node->op->reads_in), out = reads(m, node, node->op->reads_out);
    for (int i = 0; i < node->in_count; i++)
        if ((in >> i & 1) && is_dropped(m, node->in[i]))
            m->tracks[node->in[i]].wanted = true;
    for (int i = 0; i < node->out_count; i++)
        if ((out >> i & 1) && is_dropped(m, node->out[i]))
            m->tracks[node->out[i]].wanted = true;
}

static bool is_wanted(const struct maker *m, const struct tide_node *node)
{
    for (int i = 0; i < node->out_count; i++)
        if (m->tracks[node->out[i]].wanted)
            return true;
    return false;
}

static int recompute_block(struct maker *m, int first, int last)
{
    for (int i = first; i <= last; i++)
        want_for(m, i);
    for (int i = last; i >= first; i--)
        if (is_wanted(m, &m->graph->nodes[i]))
            for (int k = 0; k < m->graph->nodes[i].in_count; k++)
                if (is_dropped(m, m->graph->nodes[i].in[k]))
                    m->tracks[m->graph->nodes[i].in[k]].wanted = true;
    for (int i = first; i <= last; i++)
        if (is_wanted(m, &m->graph->nodes[i]) && run_forward(m, i, TIDE_RUN_RECOMPUTE))
            return -1;
    return 0;
}

/* True if the backward pass of a tensor's producer is still to come and reads this gradient. */
static bool is_awaited(const struct maker *m, int tensor)
{
    return m->graph->tensors[tensor].producer >= 0 && m->tracks[tensor].gradient >= 0;
}

/* Sets the gradient of an activation, before its producer is walked. */
static void set_gradient(struct maker *m, int tensor, int value)
{
    if (is_awaited(m, tensor))
        m->awaited[m->tracks[tensor].gradient]--;
    m->tracks[tensor].gradient = value;
    if (is_awaited(m, tensor))
        m->awaited[value]++;
}

static void end_wait(struct maker *m, int index)
{
    const struct tide_node *node = &m->graph->nodes[index];
    for (int i = 0; i < node->out_count; i++)
        if (is_awaited(m, node->out[i]))
            m->awaited[m->tracks[node->out[i]].gradient]--;
}

static int copy_gradient(struct maker *m, int tensor, int to, int from, bool adds)
{
    struct tide_instruction copy = blank(TIDE_COPY, -1, tensor);
    copy.in_grad[0] = to;
    copy.out_grad[0] = from;
    copy.adds = adds;
    return emit(m, &copy);
}

/* Before adding to a gradient, copies it if another gradient that is still to be read shares its memory. */
static int own_gradient(struct maker *m, int tensor)
{
    int shared = m->tracks[tensor].gradient;
    if (m->awaited[shared] == is_awaited(m, tensor))
        return 0;
    int own = new_value(m, TIDE_VALUE_GRADIENT, tensor, m->graph->tensors[tensor].bytes);
    set_gradient(m, tensor, own);
    return own < 0 || copy_gradient(m, tensor, own, shared, false) ? -1 : 0;
}

/* Tensors that have the same gradient share its memory until one of them is added to. */
static int pass_gradient(struct maker *m, int index)
{
    const struct tide_node *node = &m->graph->nodes[index];
    int gradient = m->tracks[node->out[0]].gradient;
    TIDE_CHECK(gradient, >=, 0);
    for (int i = 0; i < node->in_count; i++) {
        struct track *t = &m->tracks[node->in[i]];
        if (!t->needed)
            continue;
        if (t->gradient == TIDE_NONE) {
            set_gradient(m, node->in[i], gradient);
            continue;
        }
        if (own_gradient(m, node->in[i]) || copy_gradient(m, node->in[i], t->gradient, gradient, true))
            return -1;
    }
    return 0;
}

static int gradient_of_parameter(struct maker *m, int tensor, struct tide_instruction *to, int operand)
{
    struct track *t = &m->tracks[tensor];
    if (t->settled)
        return 0; /* in_grad stays TIDE_NONE: already complete */
    if (t->gradient != TIDE_NONE)
        to->adds |= 1U << operand;
    else if (m->choices->fused)
        t->gradient = new_value(m, TIDE_VALUE_PARAMETER_GRADIENT, tensor, m->graph->tensors[tensor].bytes);
    else
        t->gradient = TIDE_LASTING;
    to->in_grad[operand] = t->gradient;
    return t->gradient == TIDE_NONE ? -1 : 0;
}

static int gradient_of_activation(struct maker *m, int tensor, struct tide_instruction *to, int operand)
{
    const struct track *t = &m->tracks[tensor];
    if (t->gradient != TIDE_NONE) {
        if (own_gradient(m, tensor))
            return -1;
        to->adds |= 1U << operand;
    } else
        set_gradient(m, tensor, new_value(m, TIDE_VALUE_GRADIENT, tensor, m->graph->tensors[tensor].bytes));
    to->in_grad[operand] = t->gradient;
    return t->gradient == TIDE_NONE ? -1 : 0;
}

/* action: TIDE_MEASURE or TIDE_UPDATE. */
static int use_gradient(struct maker *m, enum tide_action action, int tensor)
{
    struct tide_instruction to = blank(action, -1, tensor);
    to.in_grad[0] = m->tracks[tensor].gradient;
    return emit_with(m, &to,
                     action == TIDE_UPDATE ? m->device->update_scratch(m->device, m->graph, tensor) : 0);
}

/* Uses a parameter's complete gradient: measures it or updates the parameter. */
static int settle(struct maker *m, int tensor)
{
    struct track *t = &m->tracks[tensor];
    bool fused = m->choices->fused;
    if (fused ? !m->measures && t->of_loss && m->choices->clips : !m->choices->clips)
        return 0; /* nothing to do, or done after both walks */
    if (use_gradient(m, fused && !m->measures ? TIDE_UPDATE : TIDE_MEASURE, tensor))
        return -1;
    if (fused && m->measures && t->of_loss)
        t->settled = true;
    else if (fused)
        t->gradient = TIDE_NONE;
    return 0;
}

/* After the last node that adds to it, a parameter's gradient is complete and still in the cache. */
static int settle_parameters(struct maker *m, int index)
{
    const struct tide_node *node = &m->graph->nodes[index];
    for (int i = 0; i < node->in_count; i++) {
        const struct track *t = &m->tracks[node->in[i]];
        if (tide_tensor_trains(&m->graph->tensors[node->in[i]]) && t->first_use == index && !t->settled &&
            settle(m, node->in[i]))
            return -1;
    }
    return 0;
}

/* Sets where a node's backward pass writes or adds the gradients that are needed. */
static int add_gradients(struct maker *m, const struct tide_node *node, struct tide_instruction *to)
{
    for (int i = 0; i < node->in_count; i++) {
        bool trains = tide_tensor_trains(&m->graph->tensors[node->in[i]]);
        if (m->tracks[node->in[i]].needed && (trains ? gradient_of_parameter(m, node->in[i], to, i)
                                                     : gradient_of_activation(m, node->in[i], to, i)))
            return -1;
    }
    return 0;
}

static int run_backward(struct maker *m, int index)
{
    const struct tide_node *node = &m->graph->nodes[index];
    const struct tide_op *op = node->op;
    if (op->passes)
        return pass_gradient(m, index);
    struct tide_instruction to = blank(TIDE_RUN_BACKWARD, index, -1);
    unsigned in = op->is_loss ? ~0U : reads(m, node, op->reads_in), out = reads(m, node, op->reads_out);
    for (int i = 0; i < node->in_count; i++)
        if (in >> i & 1)
            to.in[i] = value_of(m, node->in[i], true);
    for (int i = 0; i < node->out_count; i++) {
        if (out >> i & 1)
            to.out[i] = value_of(m, node->out[i], true);
        to.out_grad[i] = m->tracks[node->out[i]].gradient;
    }
    /* A loss writes its outputs in its backward pass. */
    if ((op->is_loss && make_outputs(m, node, false, &to)) || add_gradients(m, node, &to))
        return -1;
    m->to->work += 2 * tide_node_work(m->graph, node);
    if (op->is_loss)
        m->to->work +=
            tide_node_work(m->graph, node) * (1 + (double)m->choices->recompute_logits / TIDE_QUARTERS);
    size_t scratch =
        m->device->scratch(m->device, m->graph, node, TIDE_BACKWARD, m->choices->recompute_logits);
    return emit_with(m, &to, scratch) || settle_parameters(m, index) ? -1 : 0;
}

/* A loss runs in the first walk only; a second walk uses the gradient that it wrote. */
static int run_loss_backward(struct maker *m, int index)
{
    const struct tide_node *node = &m->graph->nodes[index];
    struct track *x = &m->tracks[node->in[0]];
    TIDE_CHECK(x->gradient, ==, TIDE_NONE); /* nothing after the loss reads it (graph.c) */
    if (m->twice && !m->measures) {
        m->awaited[x->from_loss]--;
        set_gradient(m, node->in[0], x->from_loss);
        return 0;
    }
    if (run_backward(m, index))
        return -1;
    if (m->measures && x->needed) {
        x->from_loss = x->gradient;
        m->awaited[x->from_loss]++;
    }
    return 0;
}

/* From the last node to the first. */
static int walk_backward(struct maker *m)
{
    int begin = m->program->first, end = m->program->end;
    for (int i = end - 1; i >= begin; i--) {
        int block = m->graph->nodes[i].block;
        bool enters = block >= 0 && (i == end - 1 || m->graph->nodes[i + 1].block != block);
        if (enters && block < m->choices->recompute) {
            int first = i;
            while (first > begin && m->graph->nodes[first - 1].block == block)
                first--;
            if (recompute_block(m, first, i))
                return -1;
        }
        bool is_loss = m->graph->nodes[i].op->is_loss;
        if (is_loss ? run_loss_backward(m, i) : is_needed(m, &m->graph->nodes[i]) && run_backward(m, i))
            return -1;
        end_wait(m, i);
    }
    return 0;
}

/* Before the second walk: gradients are computed again. */
static void forget_walk(struct maker *m)
{
    for (int i = 0; i < m->graph->tensor_count; i++) {
        struct track *t = &m->tracks[i];
        if (!t->settled)
            t->gradient = TIDE_NONE;
        t->recomputed = TIDE_NONE;
        t->wanted = false;
    }
}

static int update_settled(struct maker *m)
{
    for (int i = 0; i < m->graph->tensor_count; i++) {
        if (m->tracks[i].settled && use_gradient(m, TIDE_UPDATE, i))
            return -1;
    }
    return 0;
}

static int make_forward(struct maker *m, bool losses)
{
    for (int i = m->program->first; i < m->program->end; i++)
        if ((losses || !m->graph->nodes[i].op->is_loss) && run_forward(m, i, TIDE_RUN))
            return -1;
    return 0;
}

static int make_train(struct maker *m)
{
    m->twice = m->measures = m->choices->fused && m->choices->clips;
    if (make_forward(m, false) || walk_backward(m))
        return -1;
    if (!m->twice)
        return 0;
    m->measures = false;
    forget_walk(m);
    return walk_backward(m) || update_settled(m) ? -1 : 0;
}

static void note_use(struct maker *m, int index, int tensor)
{
    const struct tide_node *node = &m->graph->nodes[index];
    struct track *t = &m->tracks[tensor];
    if (t->first_use < 0)
        t->first_use = index;
    t->leaves |= node->block != m->graph->tensors[tensor].block;
    t->of_loss |= node->op->is_loss;
    if (m->program->trains && tide_tensor_trains(&m->graph->tensors[tensor]))
        t->needed = true;
}

static int begin(struct maker *m)
{
    const struct tide_graph *g = m->graph;
    m->tracks = malloc(((size_t)g->tensor_count + 1) * sizeof *m->tracks);
    if (!m->tracks)
        return no_memory(m);
    for (int i = 0; i < g->tensor_count; i++)
        m->tracks[i] = (struct track){.value = TIDE_NONE,
                                      .recomputed = TIDE_NONE,
                                      .gradient = TIDE_NONE,
                                      .first_use = -1,
                                      .from_loss = TIDE_NONE};
    for (int i = m->program->first; i < m->program->end; i++) {
        for (int k = 0; k < g->nodes[i].in_count; k++)
            note_use(m, i, g->nodes[i].in[k]);
        for (int k = 0; k < g->nodes[i].out_count; k++)
            m->tracks[g->nodes[i].out[k]].needed = is_needed(m, &g->nodes[i]);
    }
    return 0;
}

static int finish(struct maker *m, int bad)
{
    free(m->tracks);
    free(m->awaited);
    /* Results that the caller reads live to the end. */
    for (int i = 0; !bad && i < m->to->value_count; i++) {
        struct tide_value *v = &m->to->values[i];
        if (v->kind == TIDE_VALUE_ACTIVATION && m->graph->tensors[v->tensor].result)
            v->last = m->to->count - 1;
    }
    if (bad)
        tide_schedule_release(m->to);
    return bad;
}

int tide_schedule(const struct tide_graph *graph, int program, const struct tide_device *device,
                  const struct tide_choices *choices, struct tide_schedule *ret_schedule,
                  struct tide_err *err)
{
    static const struct tide_choices none;
    struct tide_schedule made = {0};
    bool trains = graph->programs[program].trains;
    struct maker m = {.graph = graph,
                      .program = &graph->programs[program],
                      .device = device,
                      .choices = trains ? choices : &none,
                      .to = &made,
                      .err = err};
    int bad = begin(&m) || (trains ? make_train(&m) : make_forward(&m, true)) ? -1 : 0;
    bad = finish(&m, bad);
    if (!bad)
        *ret_schedule = made;
    return bad;
}

void tide_schedule_release(struct tide_schedule *schedule)
{
    free(schedule->instructions);
    free(schedule->values);
    *schedule = (struct tide_schedule){0};
}
