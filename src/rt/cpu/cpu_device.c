#include "rt/cpu/cpu_device.h"
#include "base/check.h"
#include "rt/cpu/arena_pages.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/matmul.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LOSSES = 8, SIZES = 16 };

/* A launch with pointers instead of places. */
struct ready {
    const struct tide_launch *launch;
    const struct tide_cpu_kernels *kernels;
    struct tide_call call;
};

struct loaded {
    struct ready *list;
    int count;
    const float *losses[MOST_LOSSES];
    int loss_count;
    bool keeps; /* has operators that keep (tide_op.keeps) */
    /* For a program with lengths: the row counts that it may run with, ascending up to all rows. The scratch
     * planned for all rows suffices for these, but not necessarily for other counts. */
    int64_t sizes[SIZES];
    int size_count;
};

struct tide_arena {
    const struct tide_graph *graph;
    struct tide_graph seen; /* what kernels see: the same, with the row count of the current run */
    struct tide_pages pages;
    size_t start[TIDE_SECTIONS + 1];
    struct loaded programs[TIDE_PROGRAMS];
    int training;                 /* the program that trains; -1: none */
    struct tide_trained *trained; /* for each tensor that is a parameter that trains */
    double *squares;              /* of each parameter's gradient */
    bool measures;                /* there are any squares */
    bool *kept;                   /* for each tensor: written by an operator that keeps, and still valid */
    tide_source *source;          /* of streamed parameters */
    void *source_context;
    bool source_failed; /* in the current run */
};

static void *at(const struct tide_arena *a, size_t place)
{
    return place == TIDE_NOWHERE ? NULL : a->pages.start + place;
}

/* Returns the memory of a tensor that lasts between runs. */
static void *home_of(const struct tide_arena *a, int tensor)
{
    const struct tide_tensor *t = &a->graph->tensors[tensor];
    TIDE_CHECK_TRUE(tide_tensor_lasts(t));
    return at(a, a->start[tide_tensor_section(t)] + t->offset);
}

/* Called when parameters change or a program overwrites the memory of states. */
static void forget_kept(struct tide_arena *a)
{
    memset(a->kept, 0, (size_t)a->graph->tensor_count * sizeof *a->kept);
}

/* ---- memory */

/* Sets the pointers of parameters that train. */
static void place_trained(struct tide_arena *a)
{
    for (int i = 0; i < a->graph->tensor_count; i++) {
        const struct tide_tensor *t = &a->graph->tensors[i];
        struct tide_trained *to = &a->trained[i];
        struct tide_state_part parts[TIDE_STATE_PARTS];
        if (!tide_tensor_trains(t))
            continue;
        *to = (struct tide_trained){.rows = tide_tensor_rows(t),
                                    .columns = tide_tensor_columns(t),
                                    .dtype = t->dtype,
                                    .number = (uint64_t)i,
                                    .weight = home_of(a, i)};
        for (int k = tide_graph_parts(a->graph, t, parts) - 1; k >= 0; k--)
            to->parts[k] = at(a, a->start[TIDE_OPTIMIZER] + tide_graph_state(a->graph, t, k));
    }
}

static void give_back(struct tide_arena *a)
{
    if (!a)
        return;
    tide_pages_release(&a->pages);
    for (int i = 0; i < TIDE_PROGRAMS; i++)
        free(a->programs[i].list);
    free(a->squares);
    free(a->kept);
    free(a->trained);
    free(a->seen.tensors);
    free(a);
}

static int fill_arena(struct tide_arena *a, struct tide_err *err)
{
    a->squares = calloc((size_t)a->graph->tensor_count + 1, sizeof *a->squares);
    a->kept = calloc((size_t)a->graph->tensor_count + 1, sizeof *a->kept);
    a->trained = calloc((size_t)a->graph->tensor_count + 1, sizeof *a->trained);
    a->seen = *a->graph;
    a->seen.tensors = malloc(((size_t)a->graph->tensor_count + 1) * sizeof *a->seen.tensors);
    if (!a->squares || !a->kept || !a->trained || !a->seen.tensors)
        return tide_err_set(err, "out of memory");
    memcpy(a->seen.tensors, a->graph->tensors, (size_t)a->graph->tensor_count * sizeof *a->seen.tensors);
    /* The optimizer state uses small pages: it is read through once a step, for which they suffice, and
     * clearing them is several times as fast. */
    if (tide_pages_map(&a->pages, a->start[TIDE_SECTIONS], a->start[TIDE_OPTIMIZER], a->start[TIDE_GRADIENTS],
                       err))
        return -1;
    place_trained(a);
    tide_pages_touch(&a->pages, a->start[TIDE_SECTIONS]);
    return 0;
}

static int take(const struct tide_device *device, const struct tide_graph *graph, const size_t *bytes,
                struct tide_arena **ret_arena, struct tide_err *err)
{
    struct tide_arena *a = calloc(1, sizeof *a);
    (void)device;
    if (!a)
        return tide_err_set(err, "out of memory");
    a->graph = graph;
    a->training = tide_graph_training(graph);
    for (int i = 0; i < TIDE_SECTIONS; i++)
        a->start[i + 1] = a->start[i] + bytes[i];
    if (fill_arena(a, err)) {
        give_back(a);
        return -1;
    }
    *ret_arena = a;
    return 0;
}

static void *lend(struct tide_arena *a, size_t place)
{
    if (place < a->start[TIDE_INPUTS])
        forget_kept(a);
    return at(a, place);
}

static void write_bytes(struct tide_arena *a, size_t to, const void *from, size_t bytes)
{
    TIDE_CHECK(to + bytes, <=, a->start[TIDE_SECTIONS]);
    memcpy(lend(a, to), from, bytes);
}

static void read_bytes(struct tide_arena *a, size_t from, void *to, size_t bytes)
{
    TIDE_CHECK(from + bytes, <=, a->start[TIDE_SECTIONS]);
    memcpy(to, lend(a, from), bytes);
}

static double squares(struct tide_arena *a, size_t place, enum tide_dtype dtype, int64_t count)
{
    return tide_update_squares(lend(a, place), dtype, count);
}

static void copy_bytes(struct tide_arena *a, size_t to, size_t from, size_t bytes)
{
    write_bytes(a, to, lend(a, from), bytes);
}

/* ---- programs */

static void ask(struct tide_arena *a, tide_source *source, void *context)
{
    a->source = source;
    a->source_context = context;
}

static int ask_source(void *context, int tensor, int64_t first, int64_t rows, void *to)
{
    struct tide_arena *a = context;
    TIDE_CHECK_TRUE(a->source);
    a->source_failed = a->source_failed || a->source(a->source_context, tensor, first, rows, to);
    return a->source_failed ? -1 : 0;
}

static void resolve(struct tide_arena *a, const struct tide_launch *from, struct ready *to)
{
    *to = (struct ready){.launch = from};
    to->call = (struct tide_call){.graph = &a->seen,
                                  .adds = from->adds,
                                  .loss_scale = 1,
                                  .source = ask_source,
                                  .source_context = a,
                                  .scratch = at(a, from->scratch),
                                  .scratch_bytes = from->scratch_bytes};
    for (int i = 0; i < TIDE_OPERANDS; i++) {
        to->call.in[i] = at(a, from->in[i]);
        to->call.in_grad[i] = at(a, from->in_grad[i]);
    }
    for (int i = 0; i < TIDE_OUTPUTS; i++) {
        to->call.out[i] = at(a, from->out[i]);
        to->call.out_grad[i] = at(a, from->out_grad[i]);
    }
    if (from->node >= 0) {
        to->call.node = &a->graph->nodes[from->node];
        to->kernels = tide_cpu_kernels(to->call.node->op);
    }
}

/* ---- the row count of a run */

static void see_rows_of(struct tide_arena *a, int program, int tensor, int64_t rows)
{
    if (tide_graph_has_rows(a->graph, program, tensor))
        a->seen.tensors[tensor].dims[0] = rows;
}

static void see_rows(struct tide_arena *a, int program, int64_t rows)
{
    const struct tide_program *p = &a->graph->programs[program];
    for (int i = p->first; p->lengths >= 0 && i < p->end; i++) {
        const struct tide_node *node = &a->graph->nodes[i];
        for (int k = 0; k < node->in_count; k++)
            see_rows_of(a, program, node->in[k], rows);
        for (int k = 0; k < node->out_count; k++)
            see_rows_of(a, program, node->out[k], rows);
    }
}

/* True if the planned scratch suffices for the current row count. */
static bool is_enough(const struct tide_arena *a, const struct loaded *p)
{
    for (int i = 0; i < p->count; i++) {
        const struct tide_launch *l = p->list[i].launch;
        const struct tide_node *node = p->list[i].call.node;
        bool back = l->action == TIDE_RUN_BACKWARD;
        struct tide_need need = {&a->seen, node, back ? TIDE_BACKWARD : TIDE_FORWARD,
                                 back ? TIDE_QUARTERS : 0};
        if (node && (back || l->action == TIDE_RUN || l->action == TIDE_RUN_RECOMPUTE) &&
            tide_cpu_scratch(&need) > l->scratch_bytes)
            return false;
    }
    return true;
}

static void choose_sizes(struct tide_arena *a, int program)
{
    struct loaded *p = &a->programs[program];
    int64_t all = a->graph->programs[program].rows, step = (all + SIZES * 16 - 1) / (SIZES * 16) * 16;
    if (a->graph->programs[program].lengths < 0)
        return;
    for (int64_t rows = step; rows < all; rows += step) {
        see_rows(a, program, rows);
        if (is_enough(a, p))
            p->sizes[p->size_count++] = rows;
    }
    p->sizes[p->size_count++] = all;
    see_rows(a, program, all);
}

static int64_t size_for(const struct loaded *p, int64_t rows)
{
    int i = 0;
    while (i < p->size_count && p->sizes[i] < rows)
        i++;
    return p->size_count ? p->sizes[i] : 0;
}

static int load(struct tide_arena *a, int program, const struct tide_launch *launches, int count,
                struct tide_err *err)
{
    struct loaded *p = &a->programs[program];
    p->list = calloc((size_t)count + 1, sizeof *p->list);
    if (!p->list)
        return tide_err_set(err, "out of memory for the program");
    p->count = count;
    for (int i = 0; i < count; i++) {
        const struct tide_call *call = &p->list[i].call;
        resolve(a, &launches[i], &p->list[i]);
        a->measures |= launches[i].action == TIDE_MEASURE;
        p->keeps |= call->node && call->node->op->keeps;
        if (call->node && call->node->op->is_loss && call->out[0]) {
            TIDE_CHECK(p->loss_count, <, MOST_LOSSES);
            p->losses[p->loss_count++] = call->out[0];
        }
    }
    choose_sizes(a, program);
    return 0;
}

static float loss_of(struct tide_arena *a, int program)
{
    const struct loaded *p = &a->programs[program];
    float sum = 0;
    for (int i = 0; i < p->loss_count; i++)
        sum += *p->losses[i];
    return sum;
}

static double norm_of(struct tide_arena *a)
{
    double sum = 0;
    for (int i = 0; i < a->graph->tensor_count; i++)
        sum += a->squares[i];
    return a->measures ? sqrt(sum) : NAN;
}

/* True if an update would leave finite weights, as far as is known before it. */
static bool is_sound(struct tide_arena *a)
{
    return isfinite(loss_of(a, a->training)) && (!a->measures || isfinite(norm_of(a)));
}

static float scale_of(struct tide_arena *a, const struct tide_update_rule *rule)
{
    double norm = a->measures ? norm_of(a) : 0;
    return rule->clip > 0 && norm > rule->clip ? (float)(rule->clip / norm) : 1.0F;
}

static void measure(struct tide_arena *a, int tensor, const void *gradient)
{
    const struct tide_tensor *t = &a->graph->tensors[tensor];
    a->squares[tensor] = tide_update_squares(gradient, t->dtype, tide_tensor_count(t));
}

static void update_one(struct tide_arena *a, int tensor, const void *gradient, void *scratch,
                       const struct tide_update_rule *rule)
{
    const struct tide_optimizer *optimizer = a->graph->optimizer;
    struct tide_trained trained = a->trained[tensor];
    struct tide_optimizer_step step = rule->step;
    step.decay = a->graph->tensors[tensor].decays ? step.decay : 0;
    step.scale = scale_of(a, rule);
    struct tide_factors factors = tide_optimizer_factors(&step);
    trained.gradient = gradient;
    tide_optimizer_update(optimizer, &trained, &factors, scratch);
}

static void copy_gradient(const struct tide_call *call, const struct tide_tensor *t)
{
    void *to = call->in_grad[0];
    const void *from = call->out_grad[0];
    if (call->adds)
        tide_rows_add(to, to, from, t->dtype, tide_tensor_count(t));
    else
        memcpy(to, from, (size_t)tide_tensor_count(t) * tide_dtype_bytes(t->dtype));
}

static void run_one(struct tide_arena *a, const struct ready *r, int64_t micro_batch,
                    const struct tide_update_rule *rule)
{
    struct tide_call call = r->call;
    int tensor = r->launch->tensor;
    if (micro_batch > 0)
        call.adds |= r->launch->accumulates;
    if (rule)
        call.loss_scale = 1.0F / (float)rule->micro_batches;
    switch (r->launch->action) {
    case TIDE_RUN:
        if (a->kept[call.node->out[0]])
            break;
        call.learns = rule;
        r->kernels->forward(&call);
        a->kept[call.node->out[0]] = call.node->op->keeps;
        break;
    case TIDE_RUN_RECOMPUTE:
        r->kernels->forward(&call);
        break;
    case TIDE_RUN_BACKWARD:
        r->kernels->backward(&call);
        break;
    case TIDE_COPY:
        copy_gradient(&call, &a->seen.tensors[tensor]);
        break;
    case TIDE_MEASURE:
        if (micro_batch + 1 == rule->micro_batches)
            measure(a, tensor, call.in_grad[0]);
        break;
    case TIDE_LOAD:
        ask_source(a, tensor, 0, tide_tensor_rows(&a->graph->tensors[tensor]), call.out[0]);
        break;
    case TIDE_UPDATE:
        if (is_sound(a))
            update_one(a, tensor, call.in_grad[0], call.scratch, rule);
        break;
    }
}

static int run(struct tide_arena *a, int program, int64_t rows, int64_t micro_batch,
               const struct tide_update_rule *rule, tide_watcher *watcher, void *context)
{
    const struct loaded *p = &a->programs[program];
    see_rows(a, program, size_for(p, rows));
    if (!p->keeps)
        forget_kept(a);
    a->source_failed = false;
    for (int i = 0; i < p->count && !a->source_failed; i++) {
        run_one(a, &p->list[i], micro_batch, rule);
        if (watcher)
            watcher(context, p->list[i].launch->action, p->list[i].call.node);
    }
    return a->source_failed ? -1 : 0;
}

static void update(struct tide_arena *a, const struct tide_update_rule *rule)
{
    if (a->start[TIDE_GRADIENTS] == a->start[TIDE_GRADIENTS + 1] || !is_sound(a))
        return;
    forget_kept(a);
    for (int i = 0; i < a->graph->tensor_count; i++) {
        const struct tide_tensor *t = &a->graph->tensors[i];
        if (tide_tensor_trains(t))
            update_one(a, i, at(a, a->start[TIDE_GRADIENTS] + t->gradient), at(a, a->start[TIDE_PASSES]),
                       rule);
    }
}

/* All work is done when its function returns. */
static void nothing_to_wait_for(struct tide_arena *a)
{
    (void)a;
}

/* ---- the device */

static const char *products(const struct tide_device *device, enum tide_dtype from)
{
    (void)device;
    return tide_matmul_name(from);
}

static double peak(const struct tide_device *device, enum tide_dtype dtype)
{
    (void)device;
    return tide_matmul_peak(dtype);
}

static size_t scratch(const struct tide_device *device, const struct tide_graph *graph,
                      const struct tide_node *node, enum tide_direction direction, int quarters)
{
    (void)device;
    return tide_cpu_scratch(&(struct tide_need){graph, node, direction, quarters});
}

static size_t update_scratch(const struct tide_device *device, const struct tide_graph *graph, int tensor)
{
    const struct tide_tensor *t = &graph->tensors[tensor];
    (void)device;
    return tide_optimizer_scratch(graph->optimizer, tide_tensor_rows(t), tide_tensor_columns(t));
}

const struct tide_device tide_cpu_device = {.products = products,
                                            .peak = peak,
                                            .scratch = scratch,
                                            .update_scratch = update_scratch,
                                            .take = take,
                                            .give_back = give_back,
                                            .write = write_bytes,
                                            .read = read_bytes,
                                            .squares = squares,
                                            .copy = copy_bytes,
                                            .lend = lend,
                                            .load = load,
                                            .ask = ask,
                                            .run = run,
                                            .update = update,
                                            .loss = loss_of,
                                            .norm = norm_of,
                                            .wait = nothing_to_wait_for};
