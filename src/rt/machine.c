#include "rt/machine.h"
#include "base/check.h"
#include "rt/cpu/due.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/update.h"

#include <errno.h>
#include <link.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SMALLEST_PAGE = 4096, MOST_RESULTS = 8 };

/* An instruction with its pointers. */
struct ready {
    enum tide_action action;
    int tensor;
    unsigned parameters; /* operands whose gradients add up over micro-batches */
    size_t end;          /* of the highest byte that it was given */
    struct tide_call call;
};

struct loaded {
    struct tide_schedule schedule;
    struct ready *ready;
    int count;
    char *base; /* of what it computes */
    struct result {
        int tensor;
        const void *data;
    } results[MOST_RESULTS];
    int result_count;
};

struct tide_machine {
    const struct tide_graph *graph;
    struct tide_matmuls *matmuls;
    struct tide_plan plan;
    char *arena;
    size_t mapped, high;
    char *sections[TIDE_SECTIONS];
    struct loaded programs[TIDE_PROGRAMS];
    int training; /* the program that trains; -1: none */
    size_t used[TIDE_PHASES];
    struct tide_trained *trained; /* of each tensor that is a parameter which trains */
    struct tide_due *due;         /* the last step's update; NULL: it is done at once */
    int *numbers;                 /* of parameters in it */
    double *squares;              /* of each parameter's gradient */
    tide_machine_watcher *watcher;
    void *watching;
};

/* Where a tensor lies that has memory from run to run. */
static char *home_of(const struct tide_machine *m, int tensor)
{
    const struct tide_tensor *t = &m->graph->tensors[tensor];
    TIDE_CHECK_TRUE(tide_tensor_lasts(t));
    return m->sections[tide_tensor_section(t)] + t->offset;
}

/* ---- the update that is due */

/* Adds a parameter, if it is one and not there yet. */
static int list_one(struct tide_machine *m, int tensor, struct tide_err *err)
{
    const struct tide_graph *g = m->graph;
    const struct tide_program *p = &g->programs[m->training];
    const struct tide_tensor *t = &g->tensors[tensor];
    bool by_rows = false;
    if (!tide_tensor_trains(t) || m->numbers[tensor] >= 0)
        return 0;
    for (int i = p->first; i < p->end; i++)
        for (int k = 0; k < g->nodes[i].in_count; k++)
            by_rows |= g->nodes[i].in[k] == tensor && (g->nodes[i].op->gathers >> k & 1);
    m->numbers[tensor] = tide_due_add(m->due, (void *)home_of(m, tensor), tide_tensor_rows(t),
                                      tide_tensor_columns(t), by_rows, t->decays, err);
    return m->numbers[tensor] < 0 ? -1 : 0;
}

/* In the order in which a pass needs them whole. */
static int list_due(struct tide_machine *m, struct tide_err *err)
{
    const struct tide_graph *g = m->graph;
    const struct tide_program *p = &g->programs[m->training];
    m->numbers = malloc(((size_t)g->tensor_count + 1) * sizeof *m->numbers);
    if (!m->numbers)
        return tide_err_set(err, "out of memory");
    if (tide_due_new(g->tensor_count, (int64_t)(m->plan.bytes[TIDE_TRAINED] / sizeof(float)), &m->due, err))
        return -1;
    for (int i = 0; i < g->tensor_count; i++)
        m->numbers[i] = -1;
    for (int i = p->first; i < p->end; i++)
        for (int k = 0; k < g->nodes[i].in_count; k++)
            if (!(g->nodes[i].op->gathers >> k & 1) && list_one(m, g->nodes[i].in[k], err))
                return -1;
    for (int i = 0; i < g->tensor_count; i++)
        if (list_one(m, i, err))
            return -1;
    return 0;
}

/* What a node reads on the forward pass. */
static void settle_for(const struct tide_machine *m, const struct tide_node *node)
{
    for (int k = 0; m->due && k < node->in_count; k++) {
        int number = m->numbers[node->in[k]];
        const struct tide_tensor *rows = &m->graph->tensors[node->in[0]];
        if (number >= 0 && (node->op->gathers >> k & 1))
            tide_due_rows(m->due, number, (const void *)home_of(m, node->in[0]), tide_tensor_count(rows));
        else if (number >= 0)
            tide_due_until(m->due, number);
    }
}

static void settle(const struct tide_machine *m)
{
    if (m->due)
        tide_due_all(m->due);
}

void *tide_machine_data(struct tide_machine *m, int tensor)
{
    if (tide_tensor_trains(&m->graph->tensors[tensor]))
        settle(m);
    return home_of(m, tensor);
}

void tide_machine_copy(struct tide_machine *m, int state, int64_t to, int64_t from, int64_t rows)
{
    const struct tide_tensor *t = &m->graph->tensors[state];
    size_t bytes = tide_row_bytes(t->dtype, tide_tensor_columns(t));
    int64_t apart = to < from ? from - to : to - from;
    TIDE_CHECK(t->role, ==, TIDE_STATE);
    TIDE_CHECK(apart, >=, rows);
    TIDE_CHECK((to < from ? from : to) + rows, <=, tide_tensor_rows(t));
    memcpy(home_of(m, state) + (size_t)to * bytes, home_of(m, state) + (size_t)from * bytes,
           (size_t)rows * bytes);
}

float *tide_machine_gradient(struct tide_machine *m, int tensor)
{
    const struct tide_tensor *t = &m->graph->tensors[tensor];
    return m->plan.bytes[TIDE_GRADIENTS] && tide_tensor_trains(t)
               ? (void *)(m->sections[TIDE_GRADIENTS] + t->gradient)
               : NULL;
}

void *tide_machine_state(struct tide_machine *m, int tensor, int part)
{
    settle(m);
    return m->trained[tensor].parts[part];
}

/* A value's memory; the high-water mark goes up to its end. */
static void *value_at(struct tide_machine *m, int program, int value, int tensor, bool gradient)
{
    if (value == TIDE_NONE)
        return NULL;
    if (value == TIDE_LASTING)
        return gradient ? (void *)tide_machine_gradient(m, tensor) : home_of(m, tensor);
    const struct tide_value *v = &m->programs[program].schedule.values[value];
    char *at = m->programs[program].base + v->offset;
    size_t end = (size_t)(at - m->arena) + tide_aligned(v->bytes);
    m->high = end > m->high ? end : m->high;
    return at;
}

/* One that is read again is found by its tensor. */
static void note_result(struct tide_machine *m, int program, int tensor, const void *data)
{
    struct loaded *p = &m->programs[program];
    if (!data || !m->graph->tensors[tensor].result)
        return;
    TIDE_CHECK(p->result_count, <, MOST_RESULTS);
    p->results[p->result_count++] = (struct result){tensor, data};
}

static void resolve(struct tide_machine *m, int program, int index)
{
    struct loaded *p = &m->programs[program];
    const struct tide_instruction *from = &p->schedule.instructions[index];
    struct ready *to = &p->ready[index];
    *to = (struct ready){.action = from->action, .tensor = from->tensor};
    to->call =
        (struct tide_call){.graph = m->graph, .matmuls = m->matmuls, .adds = from->adds, .loss_scale = 1};
    if (from->node < 0) {
        to->call.scratch = value_at(m, program, from->scratch, -1, false);
        to->call.in_grad[0] = value_at(m, program, from->in_grad[0], from->tensor, true);
        to->call.out_grad[0] = value_at(m, program, from->out_grad[0], from->tensor, true);
        return;
    }
    const struct tide_node *node = &m->graph->nodes[from->node];
    to->call.node = node;
    to->call.scratch = value_at(m, program, from->scratch, -1, false);
    to->call.scratch_bytes = from->scratch < 0 ? 0 : p->schedule.values[from->scratch].bytes;
    for (int i = 0; i < node->in_count; i++) {
        to->call.in[i] = value_at(m, program, from->in[i], node->in[i], false);
        to->call.in_grad[i] = value_at(m, program, from->in_grad[i], node->in[i], true);
        if (from->in_grad[i] == TIDE_LASTING)
            to->parameters |= 1U << i;
    }
    for (int i = 0; i < node->out_count; i++) {
        to->call.out[i] = value_at(m, program, from->out[i], node->out[i], false);
        to->call.out_grad[i] = value_at(m, program, from->out_grad[i], node->out[i], true);
        if (from->action == TIDE_RUN || node->op->is_loss)
            note_result(m, program, node->out[i], to->call.out[i]);
    }
}

static int load(struct tide_machine *m, int program, struct tide_err *err)
{
    struct loaded *p = &m->programs[program];
    struct tide_layout layout;
    if (tide_schedule(m->graph, program, m->matmuls, &m->plan.choices, &p->schedule, err) ||
        tide_layout(&p->schedule, &layout, err))
        return -1;
    size_t before = tide_plan_base(m->graph, program);
    TIDE_CHECK(before + layout.bytes, <=, m->plan.bytes[TIDE_PASSES]);
    p->base = m->sections[TIDE_PASSES] + before;
    p->ready = calloc((size_t)p->schedule.count + 1, sizeof *p->ready);
    if (!p->ready)
        return tide_err_set(err, "out of memory for the program");
    p->count = p->schedule.count;
    size_t high = m->high;
    for (int i = 0; i < p->count; i++) {
        m->high = (size_t)(m->sections[TIDE_PASSES] - m->arena);
        resolve(m, program, i);
        p->ready[i].end = m->high;
        high = m->high > high ? m->high : high;
    }
    m->high = high;
    return 0;
}

static int map_arena(struct tide_machine *m, struct tide_err *err)
{
    size_t huge = (size_t)2 << 20, whole = m->plan.total / huge * huge;
    m->mapped = (m->plan.total + huge - 1) / huge * huge;
    void *arena = mmap(NULL, m->mapped + huge, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        return tide_err_set(err, "cannot take %zu bytes from the system: %s", m->plan.total, strerror(errno));
    size_t skip = (huge - (size_t)arena % huge) % huge;
    if (skip)
        munmap(arena, skip);
    munmap((char *)arena + skip + m->mapped, huge - skip);
    m->arena = (char *)arena + skip;
    /* Not the last part: a huge page there would reach beyond the plan, now or when the kernel gets to it. */
    madvise(m->arena, whole, MADV_HUGEPAGE);
    madvise(m->arena + whole, m->mapped - whole, MADV_NOHUGEPAGE);
    /* Nor the optimizer's: it is walked through once a step, for which small pages do, and they are cleared
     * several times as fast as huge ones. */
    size_t from = (tide_plan_start(&m->plan, TIDE_OPTIMIZER) + huge - 1) / huge * huge,
           to = tide_plan_start(&m->plan, TIDE_GRADIENTS) / huge * huge;
    if (from < to)
        madvise(m->arena + from, to - from, MADV_NOHUGEPAGE);
    return 0;
}

static void touch_some(void *context, int64_t first, int64_t last, int thread)
{
    volatile char *page = (char *)context + first * SMALLEST_PAGE;
    (void)thread;
    for (; first < last; first++, page += SMALLEST_PAGE)
        *page = 0;
}

/* Every page is there before anything runs: what runs seldom (evaluation) adds none later. */
static void touch_arena(struct tide_machine *m)
{
    int64_t pages = (int64_t)((m->plan.total + SMALLEST_PAGE - 1) / SMALLEST_PAGE);
    tide_parallel(pages, 4096, touch_some, m->arena);
}

/* Reads the pages of code and constants of the program and of the libraries that steps call. */
static int touch_object(struct dl_phdr_info *info, size_t size, void *context)
{
    static const char *const names[] = {"/libc.so", "/libm.so"};
    bool is_one = !info->dlpi_name[0]; /* the program */
    (void)size;
    (void)context;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is_one = is_one || strstr(info->dlpi_name, names[i]);
    for (int i = 0; is_one && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr, skipped = start % SMALLEST_PAGE;
        if (part->p_type == PT_LOAD && !(part->p_flags & PF_W)) /* kernels before 5.14 cannot */
            madvise((void *)(start - skipped), part->p_memsz + skipped, MADV_POPULATE_READ);
    }
    return 0;
}

/* Nor does code that runs seldom: a page of libm's for a number that is rare would come at any step. */
static void touch_code(void)
{
    dl_iterate_phdr(touch_object, NULL);
}

/* What is there from run to run, what programs were given, and what an update works in. */
static void note_high(struct tide_machine *m)
{
    size_t start = tide_plan_start(&m->plan, TIDE_PASSES), states = m->graph->bytes[TIDE_PASSES];
    size_t others = start + (states > m->plan.update ? states : m->plan.update);
    m->high = others > m->high ? others : m->high;
    TIDE_CHECK(m->high, ==, m->plan.total);
}

/* Where the things of parameters that train lie. */
static void place_trained(struct tide_machine *m)
{
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        struct tide_trained *to = &m->trained[i];
        struct tide_state_part parts[TIDE_STATE_PARTS];
        if (!tide_tensor_trains(t))
            continue;
        *to = (struct tide_trained){.rows = t->rank > 1 ? tide_tensor_rows(t) : 1,
                                    .columns = tide_tensor_columns(t),
                                    .dtype = t->dtype,
                                    .number = (uint64_t)i,
                                    .weight = home_of(m, i)};
        int count = tide_optimizer_parts(m->graph->optimizer, to->rows, to->columns, parts);
        char *plane = m->sections[TIDE_OPTIMIZER];
        for (int k = 0; k < count; plane += m->graph->state[k++])
            to->parts[k] = plane + t->state[k];
    }
}

/* An update may wait (due.h) where weights, both moments and gradients are all f32. */
static bool can_wait(const struct tide_machine *m)
{
    return m->plan.bytes[TIDE_GRADIENTS] && m->graph->optimizer == &tide_optimizer_adamw &&
           m->plan.bytes[TIDE_GRADIENTS] == m->plan.bytes[TIDE_TRAINED];
}

static int fill_machine(struct tide_machine *m, struct tide_err *err)
{
    m->squares = calloc((size_t)m->graph->tensor_count + 1, sizeof *m->squares);
    m->trained = calloc((size_t)m->graph->tensor_count + 1, sizeof *m->trained);
    if (!m->squares || !m->trained)
        return tide_err_set(err, "out of memory");
    if (map_arena(m, err))
        return -1;
    for (int i = 0; i < TIDE_SECTIONS; i++)
        m->sections[i] = m->arena + tide_plan_start(&m->plan, (enum tide_section)i);
    place_trained(m);
    if (can_wait(m) && list_due(m, err))
        return -1;
    touch_arena(m);
    touch_code();
    for (int i = 0; i < m->graph->program_count; i++)
        if (load(m, i, err))
            return -1;
    note_high(m);
    return 0;
}

int tide_machine_new(const struct tide_graph *graph, struct tide_matmuls *matmuls,
                     const struct tide_plan *plan, struct tide_machine **ret_machine, struct tide_err *err)
{
    struct tide_machine *m = calloc(1, sizeof *m);
    if (!m)
        return tide_err_set(err, "out of memory");
    m->graph = graph;
    m->matmuls = matmuls;
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
    if (m->due && tide_matmuls_due(m->matmuls) == m->due)
        tide_matmuls_meanwhile(m->matmuls, NULL);
    tide_due_free(m->due);
    if (m->arena)
        munmap(m->arena, m->mapped);
    for (int i = 0; i < TIDE_PROGRAMS; i++) {
        tide_schedule_release(&m->programs[i].schedule);
        free(m->programs[i].ready);
    }
    free(m->numbers);
    free(m->squares);
    free(m->trained);
    free(m);
}

size_t tide_machine_high_bytes(const struct tide_machine *m)
{
    return m->high;
}

void tide_machine_watch(struct tide_machine *m, tide_machine_watcher *watcher, void *context)
{
    m->watcher = watcher;
    m->watching = context;
}

static void tell(const struct tide_machine *m, enum tide_action action, const struct tide_node *node)
{
    if (m->watcher)
        m->watcher(m->watching, action, node);
}

static double norm_of(const struct tide_machine *m)
{
    double sum = 0;
    for (int i = 0; i < m->graph->tensor_count; i++)
        sum += m->squares[i];
    return sqrt(sum);
}

static void measure(struct tide_machine *m, int tensor, const float *gradient)
{
    m->squares[tensor] = tide_update_squares(gradient, tide_tensor_count(&m->graph->tensors[tensor]));
}

static float clip_scale(double norm, float clip)
{
    return clip > 0 && norm > clip ? (float)(clip / norm) : 1.0F;
}

static void note_used(struct tide_machine *m, enum tide_phase phase, size_t end)
{
    m->used[phase] = end > m->used[phase] ? end : m->used[phase];
}

size_t tide_machine_used(const struct tide_machine *m, enum tide_phase phase)
{
    return m->used[phase];
}

/* The sum of its losses: the first outputs of operators that are one. */
static float loss_of(const struct tide_machine *m, int program)
{
    const struct loaded *p = &m->programs[program];
    float sum = 0;
    for (int i = 0; i < p->result_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[p->results[i].tensor];
        if (m->graph->nodes[t->producer].op->is_loss &&
            m->graph->nodes[t->producer].out[0] == p->results[i].tensor)
            sum += *(const float *)p->results[i].data;
    }
    return sum;
}

/* Whether an update would leave numbers behind, as far as that is known before it. */
static bool is_sound(const struct tide_machine *m)
{
    return isfinite(loss_of(m, m->training)) && (!m->plan.choices.clips || isfinite(norm_of(m)));
}

static float scale_of(const struct tide_machine *m, const struct tide_update_rule *rule)
{
    return m->plan.choices.clips ? clip_scale(norm_of(m), rule->clip) : 1.0F;
}

static void update_one(struct tide_machine *m, int tensor, const float *gradient, void *scratch,
                       const struct tide_update_rule *rule)
{
    const struct tide_optimizer *optimizer = m->graph->optimizer;
    struct tide_trained trained = m->trained[tensor];
    struct tide_optimizer_step step = rule->step;
    step.decay = m->graph->tensors[tensor].decays ? step.decay : 0;
    step.scale = scale_of(m, rule);
    struct tide_factors factors = tide_optimizer_factors(&step);
    trained.gradient = gradient;
    if (optimizer->measure)
        tide_optimizer_measure(optimizer, &trained, &factors, scratch);
    tide_optimizer_update(optimizer, &trained, &factors);
}

static void copy_gradient(const struct ready *r)
{
    const struct tide_tensor *t = &r->call.graph->tensors[r->tensor];
    void *to = r->call.in_grad[0];
    const void *from = r->call.out_grad[0];
    if (r->call.adds)
        tide_rows_add(to, to, from, t->dtype, tide_tensor_count(t));
    else
        memcpy(to, from, t->bytes);
}

float tide_machine_pass(struct tide_machine *m, int64_t micro_batch, const struct tide_update_rule *rule)
{
    const struct loaded *p = &m->programs[m->training];
    for (int i = 0; i < p->count; i++) {
        const struct ready *r = &p->ready[i];
        struct tide_call call = r->call;
        const struct tide_op *op = call.node ? call.node->op : NULL;
        if (micro_batch > 0)
            call.adds |= r->parameters;
        note_used(m, tide_phase_of(r->action), r->end);
        call.loss_scale = 1.0F / (float)rule->micro_batches;
        switch (r->action) {
        case TIDE_RUN:
            settle_for(m, call.node);
            tide_cpu_kernels(op)->forward(&call);
            break;
        case TIDE_RUN_RECOMPUTE:
            tide_cpu_kernels(op)->forward(&call);
            break;
        case TIDE_RUN_BACKWARD:
            settle(m); /* before gradients are written */
            tide_cpu_kernels(op)->backward(&call);
            break;
        case TIDE_COPY:
            copy_gradient(r);
            break;
        case TIDE_MEASURE:
            if (micro_batch + 1 == rule->micro_batches)
                measure(m, r->tensor, call.in_grad[0]);
            break;
        case TIDE_UPDATE:
            if (is_sound(m))
                update_one(m, r->tensor, call.in_grad[0], call.scratch, rule);
            break;
        }
        tell(m, r->action, call.node);
    }
    return loss_of(m, m->training);
}

double tide_machine_update(struct tide_machine *m, const struct tide_update_rule *rule)
{
    if (m->due && is_sound(m)) {
        struct tide_optimizer_step step = rule->step;
        step.scale = scale_of(m, rule);
        settle(m);
        tide_due_begin(m->due, &step, step.decay);
        tide_matmuls_meanwhile(m->matmuls, m->due);
    } else if (m->plan.bytes[TIDE_GRADIENTS] && is_sound(m)) {
        for (int i = 0; i < m->graph->tensor_count; i++)
            if (tide_tensor_trains(&m->graph->tensors[i]))
                update_one(m, i, tide_machine_gradient(m, i), m->sections[TIDE_PASSES], rule);
    }
    note_used(m, TIDE_PHASE_UPDATE, tide_plan_start(&m->plan, TIDE_PASSES) + m->plan.update);
    tell(m, TIDE_UPDATE, NULL);
    return m->plan.choices.clips ? norm_of(m) : NAN;
}

void tide_machine_run(struct tide_machine *m, int program)
{
    const struct loaded *p = &m->programs[program];
    TIDE_CHECK_TRUE(!m->graph->programs[program].trains);
    settle(m);
    for (int i = 0; i < p->count; i++) {
        note_used(m, TIDE_PHASE_EVALUATION, p->ready[i].end);
        tide_cpu_kernels(p->ready[i].call.node->op)->forward(&p->ready[i].call);
    }
}

const void *tide_machine_result(const struct tide_machine *m, int program, int tensor)
{
    const struct loaded *p = &m->programs[program];
    for (int i = 0; i < p->result_count; i++)
        if (p->results[i].tensor == tensor)
            return p->results[i].data;
    TIDE_CHECK_TRUE(!"a result of this program");
    return NULL;
}
