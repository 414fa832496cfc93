#include "rt/machine.h"
#include "base/check.h"
#include "base/whole.h"

#include <stdlib.h>

enum { MOST_RESULTS = 8 };

struct loaded {
    struct tide_schedule schedule;
    struct tide_launch *launches;
    size_t base;               /* where its values begin */
    size_t used[TIDE_PHASES];  /* ends of the highest bytes that instructions were given */
    size_t input, input_bytes; /* in their section, from the first that it reads to the last */
    struct result {
        int tensor;
        size_t place;
        void *copy; /* in host memory; NULL: the host reads the place itself */
    } results[MOST_RESULTS];
    int result_count;
};

struct tide_machine {
    const struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_plan plan;
    struct tide_arena *arena;
    char *inputs; /* host memory */
    size_t high;
    struct loaded programs[TIDE_PROGRAMS];
    int training; /* the program that trains; -1: none */
    size_t used[TIDE_PHASES];
    tide_watcher *watcher;
    void *watching;
};

/* ---- where things lie */

static size_t home_of(const struct tide_machine *m, int tensor)
{
    const struct tide_tensor *t = &m->graph->tensors[tensor];
    TIDE_CHECK_TRUE(tide_tensor_lasts(t));
    return tide_plan_start(&m->plan, tide_tensor_section(t)) + t->offset;
}

size_t tide_machine_place(const struct tide_machine *m, int tensor)
{
    TIDE_CHECK(m->graph->tensors[tensor].role, !=, TIDE_INPUT); /* the host has another copy of these */
    return home_of(m, tensor);
}

size_t tide_machine_gradient(const struct tide_machine *m, int tensor)
{
    const struct tide_tensor *t = &m->graph->tensors[tensor];
    return m->plan.bytes[TIDE_GRADIENTS] && tide_tensor_trains(t)
               ? tide_plan_start(&m->plan, TIDE_GRADIENTS) + t->gradient
               : TIDE_NOWHERE;
}

size_t tide_machine_state(const struct tide_machine *m, int tensor, int part)
{
    const struct tide_tensor *t = &m->graph->tensors[tensor];
    struct tide_state_part parts[TIDE_STATE_PARTS];
    if (!tide_tensor_trains(t) || part >= tide_graph_parts(m->graph, t, parts))
        return TIDE_NOWHERE;
    return tide_plan_start(&m->plan, TIDE_OPTIMIZER) + tide_graph_state(m->graph, t, part);
}

/* ---- data */

void *tide_machine_input(struct tide_machine *m, int tensor)
{
    const struct tide_tensor *t = &m->graph->tensors[tensor];
    TIDE_CHECK(t->role, ==, TIDE_INPUT);
    return m->inputs + t->offset;
}

void tide_machine_write(struct tide_machine *m, size_t to, const void *from, size_t bytes)
{
    m->device->write(m->arena, to, from, bytes);
}

void tide_machine_read(struct tide_machine *m, size_t from, void *to, size_t bytes)
{
    m->device->read(m->arena, from, to, bytes);
}

void *tide_machine_lend(struct tide_machine *m, size_t place)
{
    return place == TIDE_NOWHERE ? NULL : m->device->lend(m->arena, place);
}

double tide_machine_squares(struct tide_machine *m, int tensor)
{
    const struct tide_tensor *t = &m->graph->tensors[tensor];
    return m->device->squares(m->arena, home_of(m, tensor), t->dtype, tide_tensor_count(t));
}

void tide_machine_copy(struct tide_machine *m, int state, int64_t to, int64_t from, int64_t rows)
{
    const struct tide_tensor *t = &m->graph->tensors[state];
    size_t bytes = tide_row_bytes(t->dtype, tide_tensor_columns(t));
    int64_t apart = to < from ? from - to : to - from;
    TIDE_CHECK(t->role, ==, TIDE_STATE);
    TIDE_CHECK(apart, >=, rows);
    TIDE_CHECK((to < from ? from : to) + rows, <=, tide_tensor_rows(t));
    m->device->copy(m->arena, home_of(m, state) + (size_t)to * bytes,
                    home_of(m, state) + (size_t)from * bytes, (size_t)rows * bytes);
}

/* ---- making one */

/* Returns the place of a value and raises *used to its end. */
static size_t place_of(const struct tide_machine *m, const struct loaded *p, int value, int tensor,
                       bool gradient, size_t *used)
{
    if (value == TIDE_NONE)
        return TIDE_NOWHERE;
    if (value == TIDE_LASTING)
        return gradient ? tide_machine_gradient(m, tensor) : home_of(m, tensor);
    const struct tide_value *v = &p->schedule.values[value];
    *used = tide_larger_size(*used, p->base + v->offset + tide_aligned(v->bytes));
    return p->base + v->offset;
}

/* Notes a result, so that tide_machine_result() finds it by its tensor. */
static void note_result(const struct tide_machine *m, struct loaded *p, int tensor, size_t place)
{
    if (place == TIDE_NOWHERE || !m->graph->tensors[tensor].result)
        return;
    TIDE_CHECK(p->result_count, <, MOST_RESULTS);
    p->results[p->result_count++] = (struct result){.tensor = tensor, .place = place};
}

/* Allocates host memory for copies of results that the host cannot read in place. */
static int add_copies(struct tide_machine *m, struct loaded *p, struct tide_err *err)
{
    for (int i = 0; i < p->result_count; i++) {
        struct result *r = &p->results[i];
        if (m->device->lend(m->arena, r->place))
            continue;
        r->copy = malloc(m->graph->tensors[r->tensor].bytes);
        if (!r->copy)
            return tide_err_set(err, "out of memory for results");
    }
    return 0;
}

static void note_inputs(struct tide_machine *m, int program)
{
    const struct tide_program *nodes = &m->graph->programs[program];
    struct loaded *p = &m->programs[program];
    size_t first = m->plan.bytes[TIDE_INPUTS], end = 0;
    for (int i = nodes->first; i < nodes->end; i++)
        for (int k = 0; k < m->graph->nodes[i].in_count; k++) {
            const struct tide_tensor *t = &m->graph->tensors[m->graph->nodes[i].in[k]];
            if (t->role != TIDE_INPUT)
                continue;
            first = t->offset < first ? t->offset : first;
            end = tide_larger_size(end, t->offset + t->bytes);
        }
    p->input = first;
    p->input_bytes = end > first ? end - first : 0;
}

/* used: the highest byte that the instruction's phase is given. */
static void resolve(const struct tide_machine *m, struct loaded *p, int index, size_t *used)
{
    const struct tide_instruction *from = &p->schedule.instructions[index];
    const struct tide_node *node = from->node < 0 ? NULL : &m->graph->nodes[from->node];
    struct tide_launch *to = &p->launches[index];
    *to = (struct tide_launch){.action = from->action,
                               .node = from->node,
                               .tensor = from->tensor,
                               .adds = from->adds,
                               .scratch = place_of(m, p, from->scratch, -1, false, used)};
    if (from->scratch >= 0)
        to->scratch_bytes = p->schedule.values[from->scratch].bytes;
    for (int i = 0; i < TIDE_OPERANDS; i++) {
        int tensor = node ? node->in[i] : from->tensor;
        to->in[i] = place_of(m, p, from->in[i], tensor, false, used);
        to->in_grad[i] = place_of(m, p, from->in_grad[i], tensor, true, used);
        if (node && from->in_grad[i] == TIDE_LASTING)
            to->accumulates |= 1U << i;
    }
    for (int i = 0; i < TIDE_OUTPUTS; i++) {
        int tensor = node ? node->out[i] : from->tensor;
        to->out[i] = place_of(m, p, from->out[i], tensor, false, used);
        to->out_grad[i] = place_of(m, p, from->out_grad[i], tensor, true, used);
        if (node && (from->action == TIDE_RUN || node->op->is_loss))
            note_result(m, p, tensor, to->out[i]);
    }
}

static int load(struct tide_machine *m, int program, struct tide_err *err)
{
    struct loaded *p = &m->programs[program];
    struct tide_layout layout;
    if (tide_schedule(m->graph, program, m->device, &m->plan.choices, &p->schedule, err) ||
        tide_layout(&p->schedule, &layout, err))
        return -1;
    size_t before = tide_plan_base(m->graph, program), start = tide_plan_start(&m->plan, TIDE_PASSES);
    TIDE_CHECK(before + layout.bytes, <=, m->plan.bytes[TIDE_PASSES]);
    p->base = start + before;
    p->launches = calloc((size_t)p->schedule.count + 1, sizeof *p->launches);
    if (!p->launches)
        return tide_err_set(err, "out of memory for the program");
    for (int i = 0; i < p->schedule.count; i++) {
        enum tide_phase phase = program == m->training ? tide_phase_of(p->schedule.instructions[i].action)
                                                       : TIDE_PHASE_EVALUATION;
        p->used[phase] = tide_larger_size(p->used[phase], start);
        resolve(m, p, i, &p->used[phase]);
        m->high = tide_larger_size(m->high, p->used[phase]);
    }
    note_inputs(m, program);
    return m->device->load(m->arena, program, p->launches, p->schedule.count, err) || add_copies(m, p, err)
               ? -1
               : 0;
}

/* Covers what lasts between runs, what programs were given, and what an update works in. */
static void note_high(struct tide_machine *m)
{
    size_t start = tide_plan_start(&m->plan, TIDE_PASSES), states = m->graph->bytes[TIDE_PASSES];
    m->high = tide_larger_size(m->high, start + tide_larger_size(states, m->plan.update));
    TIDE_CHECK(m->high, ==, m->plan.total);
}

static int fill_machine(struct tide_machine *m, struct tide_err *err)
{
    m->inputs = calloc(1, m->plan.bytes[TIDE_INPUTS] + 1);
    if (!m->inputs)
        return tide_err_set(err, "out of memory for inputs");
    if (m->device->take(m->device, m->graph, m->plan.bytes, &m->arena, err))
        return -1;
    for (int i = 0; i < m->graph->program_count; i++)
        if (load(m, i, err))
            return -1;
    note_high(m);
    return 0;
}

int tide_machine_new(const struct tide_graph *graph, const struct tide_device *device,
                     const struct tide_plan *plan, struct tide_machine **ret_machine, struct tide_err *err)
{
    struct tide_machine *m = calloc(1, sizeof *m);
    if (!m)
        return tide_err_set(err, "out of memory");
    m->graph = graph;
    m->device = device;
    m->plan = *plan;
    m->training = tide_graph_training(graph);
    if (fill_machine(m, err)) {
        tide_machine_free(m);
        return -1;
    }
    *ret_machine = m;
    return 0;
}

void tide_machine_free(struct tide_machine *m)
{
    if (!m)
        return;
    if (m->arena)
        m->device->give_back(m->arena);
    for (int i = 0; i < TIDE_PROGRAMS; i++) {
        tide_schedule_release(&m->programs[i].schedule);
        free(m->programs[i].launches);
        for (int k = 0; k < m->programs[i].result_count; k++)
            free(m->programs[i].results[k].copy);
    }
    free(m->inputs);
    free(m);
}

size_t tide_machine_high_bytes(const struct tide_machine *m)
{
    return m->high;
}

size_t tide_machine_used(const struct tide_machine *m, enum tide_phase phase)
{
    return m->used[phase];
}

/* ---- running */

void tide_machine_watch(struct tide_machine *m, tide_watcher *watcher, void *context)
{
    m->watcher = watcher;
    m->watching = context;
}

static void note_used(struct tide_machine *m, const size_t *used)
{
    for (int i = 0; i < TIDE_PHASES; i++)
        m->used[i] = tide_larger_size(m->used[i], used[i]);
}

/* For a program with lengths: returns their sum. */
static int64_t rows_of(struct tide_machine *m, int program)
{
    const struct tide_program *p = &m->graph->programs[program];
    int64_t rows = 0;
    if (p->lengths < 0)
        return 0;
    const int32_t *lengths = tide_machine_input(m, p->lengths);
    for (int64_t i = 0; i < tide_tensor_count(&m->graph->tensors[p->lengths]); i++)
        rows += lengths[i];
    TIDE_CHECK(rows, >, 0);
    TIDE_CHECK(rows, <=, p->rows);
    return rows;
}

static int run(struct tide_machine *m, int program, int64_t micro_batch, const struct tide_update_rule *rule)
{
    const struct loaded *p = &m->programs[program];
    if (p->input_bytes)
        m->device->write(m->arena, tide_plan_start(&m->plan, TIDE_INPUTS) + p->input, m->inputs + p->input,
                         p->input_bytes);
    note_used(m, p->used);
    return m->device->run(m->arena, program, rows_of(m, program), micro_batch, rule, rule ? m->watcher : NULL,
                          m->watching);
}

float tide_machine_pass(struct tide_machine *m, int64_t micro_batch, const struct tide_update_rule *rule)
{
    run(m, m->training, micro_batch, rule);
    return m->device->loss(m->arena, m->training);
}

double tide_machine_update(struct tide_machine *m, const struct tide_update_rule *rule)
{
    size_t used[TIDE_PHASES] = {[TIDE_PHASE_UPDATE] =
                                    tide_plan_start(&m->plan, TIDE_PASSES) + m->plan.update};
    m->device->update(m->arena, rule);
    note_used(m, used);
    if (m->watcher) {
        m->device->wait(m->arena);
        m->watcher(m->watching, TIDE_UPDATE, NULL);
    }
    return m->device->norm(m->arena);
}

void tide_machine_source(struct tide_machine *m, tide_source *source, void *context)
{
    m->device->ask(m->arena, source, context);
}

int tide_machine_run(struct tide_machine *m, int program)
{
    TIDE_CHECK_TRUE(!m->graph->programs[program].trains);
    return run(m, program, 0, NULL);
}

const void *tide_machine_result(const struct tide_machine *m, int program, int tensor)
{
    const struct loaded *p = &m->programs[program];
    int i = 0;
    while (i < p->result_count && p->results[i].tensor != tensor)
        i++;
    TIDE_CHECK(i, <, p->result_count); /* not a result of this program */
    const struct result *r = &p->results[i];
    if (!r->copy)
        return m->device->lend(m->arena, r->place);
    m->device->read(m->arena, r->place, r->copy, m->graph->tensors[tensor].bytes);
    return r->copy;
}
