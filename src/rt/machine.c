#include "rt/machine.h"
#include "base/check.h"
#include "rt/due.h"
#include "rt/rows.h"
#include "rt/threads.h"

#include <errno.h>
#include <link.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SMALLEST_PAGE = 4096 };

/* An instruction with its pointers. */
struct ready {
    enum tide_action action;
    int tensor;
    unsigned parameters; /* operands whose gradients add up over micro-batches */
    size_t bytes;        /* of a copy */
    size_t end;          /* of the highest byte that it was given */
    struct tide_call call;
};

struct program {
    struct tide_schedule schedule;
    struct ready *ready;
    int count;
    const void *result; /* the first output of the last node */
};

struct tide_machine {
    const struct tide_graph *graph;
    struct tide_matmuls *matmuls;
    struct tide_plan plan;
    char *arena;
    size_t mapped, high; /* mapped 0: the arena is a host's */
    size_t *offsets;     /* of each lasting tensor in its section */
    char *weights, *optimizer, *gradients, *inputs, *passes;
    struct program train, evaluate;
    size_t used[TIDE_PHASES];
    struct tide_due *due; /* the last step's update; NULL: passes do theirs. A guest has its host's */
    int *numbers;         /* of parameters in it */
    double *squares;      /* of each parameter's gradient */
    tide_machine_watcher *watcher;
    void *watching;
};

/* The host's tensor that is this parameter; -1: none. */
static int host_tensor(const struct tide_machine *host, const struct tide_tensor *t)
{
    for (int i = 0; i < host->graph->tensor_count; i++) {
        const struct tide_tensor *h = &host->graph->tensors[i];
        if (h->role == TIDE_PARAMETER && !strcmp(h->name, t->name))
            return h->rank == t->rank && !memcmp(h->dims, t->dims, sizeof h->dims) ? i : -1;
    }
    return -1;
}

static int place_guest(struct tide_machine *m, const struct tide_machine *host, struct tide_err *err)
{
    size_t lasting = 0;
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        int same = t->role == TIDE_PARAMETER ? host_tensor(host, t) : -1;
        if (t->role == TIDE_PARAMETER && same < 0)
            return tide_err_set(err, "the model has no '%s' of that shape", t->name);
        if (t->role == TIDE_PARAMETER) {
            m->offsets[i] = host->offsets[same];
        } else if (t->role != TIDE_ACTIVATION) {
            m->offsets[i] = lasting;
            lasting += tide_aligned(t->bytes);
        }
    }
    m->arena = host->arena;
    m->due = host->due;
    m->weights = host->weights;
    m->inputs = host->passes;
    m->passes = m->inputs + lasting;
    return 0;
}

static void place_lasting(struct tide_machine *m)
{
    size_t parameters = 0, inputs = 0;
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        if (t->role == TIDE_ACTIVATION)
            continue;
        size_t *section = t->role == TIDE_PARAMETER ? &parameters : &inputs;
        m->offsets[i] = *section;
        *section += tide_aligned(t->bytes);
    }
    m->weights = m->arena;
    m->optimizer = m->weights + m->plan.weights;
    m->gradients = m->optimizer + m->plan.optimizer;
    m->inputs = m->gradients + m->plan.gradients;
    m->passes = m->inputs + m->plan.inputs;
}

/* ---- the update that is due */

/* Adds a parameter, if it is one and not there yet. */
static int list_one(struct tide_machine *m, int tensor, struct tide_err *err)
{
    const struct tide_graph *g = m->graph;
    const struct tide_tensor *t = &g->tensors[tensor];
    bool by_rows = false;
    if (t->role != TIDE_PARAMETER || m->numbers[tensor] >= 0)
        return 0;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i].in_count; k++)
            by_rows |= g->nodes[i].in[k] == tensor && (g->nodes[i].op->gathers >> k & 1);
    m->numbers[tensor] = tide_due_add(m->due, (void *)(m->weights + m->offsets[tensor]), tide_tensor_rows(t),
                                      tide_tensor_columns(t), by_rows, t->decays, err);
    return m->numbers[tensor] < 0 ? -1 : 0;
}

/* In the order in which a pass needs them whole. */
static int list_due(struct tide_machine *m, struct tide_err *err)
{
    const struct tide_graph *g = m->graph;
    m->numbers = malloc(((size_t)g->tensor_count + 1) * sizeof *m->numbers);
    if (!m->numbers)
        return tide_err_set(err, "out of memory");
    if (tide_due_new(g->tensor_count, (int64_t)(m->plan.weights / sizeof(float)), &m->due, err))
        return -1;
    for (int i = 0; i < g->tensor_count; i++)
        m->numbers[i] = -1;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i].in_count; k++)
            if (!(g->nodes[i].op->gathers >> k & 1) && list_one(m, g->nodes[i].in[k], err))
                return -1;
    for (int i = 0; i < g->tensor_count; i++)
        if (list_one(m, i, err))
            return -1;
    return 0;
}

/* What a node reads on the way forward. */
static void settle_for(const struct tide_machine *m, const struct tide_node *node)
{
    for (int k = 0; m->due && k < node->in_count; k++) {
        int number = m->numbers[node->in[k]];
        const struct tide_tensor *rows = &m->graph->tensors[node->in[0]];
        if (number >= 0 && (node->op->gathers >> k & 1))
            tide_due_rows(m->due, number, (const void *)(m->inputs + m->offsets[node->in[0]]),
                          tide_tensor_count(rows));
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
    const struct tide_tensor *t = &m->graph->tensors[tensor];
    TIDE_CHECK(t->role, !=, TIDE_ACTIVATION);
    if (t->role != TIDE_PARAMETER)
        return m->inputs + m->offsets[tensor];
    settle(m);
    return m->weights + m->offsets[tensor];
}

float *tide_machine_gradient(struct tide_machine *m, int tensor)
{
    return m->plan.gradients ? (void *)(m->gradients + m->offsets[tensor]) : NULL;
}

float *tide_machine_moments(struct tide_machine *m, int tensor, int which)
{
    settle(m);
    return (void *)(m->optimizer + (size_t)which * m->plan.weights + m->offsets[tensor]);
}

/* A value's memory; the high-water mark goes up to its end. */
static void *value_at(struct tide_machine *m, const struct program *p, int value, int tensor, bool gradient)
{
    if (value == TIDE_NONE)
        return NULL;
    if (value == TIDE_LASTING)
        return gradient ? (void *)tide_machine_gradient(m, tensor) : tide_machine_data(m, tensor);
    const struct tide_value *v = &p->schedule.values[value];
    size_t end = (size_t)(m->passes - m->arena) + v->offset + tide_aligned(v->bytes);
    m->high = end > m->high ? end : m->high;
    return m->passes + v->offset;
}

static void resolve(struct tide_machine *m, struct tide_matmuls *matmuls, struct program *p, int index)
{
    const struct tide_instruction *from = &p->schedule.instructions[index];
    struct ready *to = &p->ready[index];
    *to = (struct ready){.action = from->action, .tensor = from->tensor};
    to->call = (struct tide_call){.graph = m->graph, .matmuls = matmuls, .adds = from->adds, .loss_scale = 1};
    if (from->node < 0) {
        to->bytes = m->graph->tensors[from->tensor].bytes;
        to->call.in_grad[0] = value_at(m, p, from->in_grad[0], from->tensor, true);
        to->call.out_grad[0] = value_at(m, p, from->out_grad[0], from->tensor, true);
        return;
    }
    const struct tide_node *node = &m->graph->nodes[from->node];
    to->call.node = node;
    to->call.scratch = value_at(m, p, from->scratch, -1, false);
    to->call.scratch_bytes = from->scratch < 0 ? 0 : p->schedule.values[from->scratch].bytes;
    for (int i = 0; i < node->in_count; i++) {
        to->call.in[i] = value_at(m, p, from->in[i], node->in[i], false);
        to->call.in_grad[i] = value_at(m, p, from->in_grad[i], node->in[i], true);
        if (from->in_grad[i] == TIDE_LASTING)
            to->parameters |= 1U << i;
    }
    for (int i = 0; i < node->out_count; i++) {
        to->call.out[i] = value_at(m, p, from->out[i], node->out[i], false);
        to->call.out_grad[i] = value_at(m, p, from->out_grad[i], node->out[i], true);
    }
    if (from->node == m->graph->node_count - 1)
        p->result = to->call.out[0];
}

static int load(struct tide_machine *m, struct tide_matmuls *matmuls, struct program *p, struct tide_err *err)
{
    struct tide_layout layout;
    if (tide_layout(&p->schedule, &layout, err))
        return -1;
    TIDE_CHECK(layout.bytes, <=, m->plan.passes);
    p->ready = calloc((size_t)p->schedule.count + 1, sizeof *p->ready);
    if (!p->ready)
        return tide_err_set(err, "out of memory for the program");
    p->count = p->schedule.count;
    size_t high = m->high;
    for (int i = 0; i < p->count; i++) {
        m->high = (size_t)(m->passes - m->arena);
        resolve(m, matmuls, p, i);
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
    size_t from = (m->plan.weights + huge - 1) / huge * huge,
           to = (m->plan.weights + m->plan.optimizer) / huge * huge;
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

static struct tide_machine *blank(const struct tide_graph *graph, struct tide_matmuls *matmuls,
                                  const struct tide_plan *plan)
{
    struct tide_machine *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->graph = graph;
    m->matmuls = matmuls;
    m->plan = *plan;
    m->offsets = calloc((size_t)graph->tensor_count + 1, sizeof *m->offsets);
    m->squares = calloc((size_t)graph->tensor_count + 1, sizeof *m->squares);
    if (m->offsets && m->squares)
        return m;
    tide_machine_free(m);
    return NULL;
}

int tide_machine_new(const struct tide_graph *graph, struct tide_matmuls *matmuls,
                     const struct tide_plan *plan, bool trains, struct tide_machine **ret_machine,
                     struct tide_err *err)
{
    struct tide_machine *m = blank(graph, matmuls, plan);
    if (!m)
        return tide_err_set(err, "out of memory");
    if (map_arena(m, err))
        goto undo;
    place_lasting(m);
    if (trains && !plan->choices.fused && list_due(m, err))
        goto undo;
    touch_arena(m);
    touch_code();
    if (trains && (tide_schedule_train(graph, matmuls, &plan->choices, &m->train.schedule, err) ||
                   load(m, matmuls, &m->train, err)))
        goto undo;
    if (tide_schedule_forward(graph, matmuls, &m->evaluate.schedule, err) ||
        load(m, matmuls, &m->evaluate, err))
        goto undo;
    if (plan->passes > plan->floor)
        TIDE_CHECK(m->high, ==, m->plan.total);
    *ret_machine = m;
    return 0;
undo:
    tide_machine_free(m);
    return -1;
}

int tide_machine_guest(struct tide_machine *host, const struct tide_graph *graph,
                       struct tide_matmuls *matmuls, struct tide_machine **ret_machine, struct tide_err *err)
{
    struct tide_choices none = {0};
    struct tide_plan plan;
    if (tide_plan_make(graph, matmuls, &none, false, 0, &plan, err))
        return -1;
    size_t bytes = plan.inputs + plan.passes;
    TIDE_CHECK(bytes, <=, host->plan.passes);
    struct tide_machine *m = blank(graph, matmuls, &plan);
    if (!m)
        return tide_err_set(err, "out of memory");
    if (place_guest(m, host, err) || tide_schedule_forward(graph, matmuls, &m->evaluate.schedule, err) ||
        load(m, matmuls, &m->evaluate, err)) {
        tide_machine_free(m);
        return -1;
    }
    TIDE_CHECK(m->high, ==, (size_t)(host->passes - host->arena) + bytes);
    host->high = m->high > host->high ? m->high : host->high;
    memset(host->passes, 0, bytes);
    *ret_machine = m;
    return 0;
}

void tide_machine_free(struct tide_machine *m)
{
    if (!m)
        return;
    if (m->mapped && m->due && tide_matmuls_due(m->matmuls) == m->due)
        tide_matmuls_meanwhile(m->matmuls, NULL);
    if (m->mapped)
        tide_due_free(m->due);
    if (m->arena && m->mapped)
        munmap(m->arena, m->mapped);
    tide_schedule_release(&m->train.schedule);
    tide_schedule_release(&m->evaluate.schedule);
    free(m->train.ready);
    free(m->evaluate.ready);
    free(m->offsets);
    free(m->numbers);
    free(m->squares);
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

/* Whether an update would leave numbers behind, as far as that is known before it. */
static bool is_sound(const struct tide_machine *m)
{
    return isfinite(*(const float *)m->train.result) && (!m->plan.choices.clips || isfinite(norm_of(m)));
}

static float scale_of(const struct tide_machine *m, const struct tide_update_rule *rule)
{
    return m->plan.choices.clips ? clip_scale(norm_of(m), rule->clip) : 1.0F;
}

static void update_one(struct tide_machine *m, int tensor, const float *gradient,
                       const struct tide_update_rule *rule)
{
    const struct tide_tensor *t = &m->graph->tensors[tensor];
    struct tide_adamw how = rule->adamw;
    if (!is_sound(m))
        return;
    how.decay = t->decays ? rule->decay : 0;
    how.scale = scale_of(m, rule);
    tide_update_adamw(tide_machine_data(m, tensor), tide_machine_moments(m, tensor, 0),
                      tide_machine_moments(m, tensor, 1), gradient, tide_tensor_count(t), &how);
}

static void copy_gradient(const struct ready *r)
{
    float *to = r->call.in_grad[0];
    const float *from = r->call.out_grad[0];
    size_t count = r->bytes / sizeof *to;
    if (!r->call.adds)
        memcpy(to, from, r->bytes);
    for (size_t i = 0; r->call.adds && i < count; i++)
        to[i] += from[i];
}

float tide_machine_pass(struct tide_machine *m, int64_t micro_batch, const struct tide_update_rule *rule)
{
    for (int i = 0; i < m->train.count; i++) {
        const struct ready *r = &m->train.ready[i];
        struct tide_call call = r->call;
        const struct tide_op *op = call.node ? call.node->op : NULL;
        if (micro_batch > 0)
            call.adds |= r->parameters;
        note_used(m, tide_phase_of(r->action), r->end);
        call.loss_scale = 1.0F / (float)rule->micro_batches;
        switch (r->action) {
        case TIDE_RUN:
            settle_for(m, call.node);
            op->forward(&call);
            break;
        case TIDE_RUN_AGAIN:
            op->forward(&call);
            break;
        case TIDE_RUN_BACK:
            settle(m); /* before gradients are written */
            op->backward(&call);
            break;
        case TIDE_COPY:
            copy_gradient(r);
            break;
        case TIDE_MEASURE:
            if (micro_batch + 1 == rule->micro_batches)
                measure(m, r->tensor, call.in_grad[0]);
            break;
        case TIDE_UPDATE:
            update_one(m, r->tensor, call.in_grad[0], rule);
            break;
        }
        tell(m, r->action, call.node);
    }
    return *(const float *)m->train.result;
}

double tide_machine_update(struct tide_machine *m, const struct tide_update_rule *rule)
{
    if (m->due && is_sound(m)) {
        struct tide_adamw how = rule->adamw;
        how.scale = scale_of(m, rule);
        settle(m);
        tide_due_begin(m->due, &how, rule->decay);
        tide_matmuls_meanwhile(m->matmuls, m->due);
    }
    note_used(m, TIDE_PHASE_UPDATE, (size_t)(m->passes - m->arena));
    tell(m, TIDE_UPDATE, NULL);
    return m->plan.choices.clips ? norm_of(m) : NAN;
}

const void *tide_machine_run(struct tide_machine *m, int64_t position)
{
    settle(m);
    for (int i = 0; i < m->evaluate.count; i++) {
        struct tide_call *call = &m->evaluate.ready[i].call;
        call->position = position;
        note_used(m, TIDE_PHASE_EVALUATION, m->evaluate.ready[i].end);
        call->node->op->forward(call);
    }
    return m->evaluate.result;
}

float tide_machine_evaluate(struct tide_machine *m)
{
    return *(const float *)tide_machine_run(m, 0);
}
