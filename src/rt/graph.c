#include "rt/graph.h"
#include "base/grow.h"
#include "rt/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TENSORS = 1 << 16 };

struct tide_graph *tide_graph_new(enum tide_dtype compute)
{
    struct tide_graph *graph = calloc(1, sizeof *graph);
    if (graph) {
        graph->open_block = -1;
        graph->compute = compute;
        graph->optimizer = tide_optimizers[0];
        tide_map_init(&graph->names, MOST_TENSORS);
    }
    return graph;
}

void tide_graph_free(struct tide_graph *graph)
{
    if (!graph)
        return;
    free(graph->tensors);
    free(graph->nodes);
    tide_map_release(&graph->names);
    free(graph);
}

int tide_graph_fail(struct tide_graph *graph, const char *format, ...)
{
    if (graph->failed)
        return -1;
    char text[sizeof graph->err.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    graph->failed = true;
    return tide_err_set(&graph->err, "%s", text);
}

int tide_graph_failed(const struct tide_graph *graph, struct tide_err *err)
{
    if (!graph->failed)
        return 0;
    if (err)
        *err = graph->err;
    return -1;
}

int tide_graph_parts(const struct tide_graph *graph, const struct tide_tensor *t,
                     struct tide_state_part ret_parts[TIDE_STATE_PARTS])
{
    return tide_optimizer_parts(graph->optimizer, tide_tensor_rows(t), tide_tensor_columns(t), ret_parts);
}

size_t tide_graph_state(const struct tide_graph *graph, const struct tide_tensor *t, int part)
{
    size_t at = t->state[part];
    for (int i = 0; i < part; i++)
        at += graph->state[i];
    return at;
}

/* Sets the offsets of the gradient and the optimizer state of a parameter. */
static void place_training(struct tide_graph *graph, struct tide_tensor *t)
{
    struct tide_state_part parts[TIDE_STATE_PARTS];
    int count = tide_graph_parts(graph, t, parts);
    t->gradient = graph->bytes[TIDE_GRADIENTS];
    graph->bytes[TIDE_GRADIENTS] += tide_aligned(t->bytes);
    for (int i = 0; i < count; i++) {
        size_t bytes = tide_aligned((size_t)parts[i].count * tide_dtype_bytes(parts[i].dtype));
        t->state[i] = graph->state[i];
        graph->state[i] += bytes;
        graph->bytes[TIDE_OPTIMIZER] += bytes;
    }
    graph->trained += tide_tensor_count(t);
}

static int bytes_of(const struct tide_tensor *tensor, size_t *ret_bytes)
{
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->dims[i] <= 0 || __builtin_mul_overflow(count, (size_t)tensor->dims[i], &count) ||
            count > (size_t)1 << 48)
            return -1;
    int64_t columns = tide_tensor_columns(tensor);
    *ret_bytes = count / (size_t)columns * tide_row_bytes(tensor->dtype, columns);
    return 0;
}

/* ---- programs */

int tide_graph_program(struct tide_graph *graph, const char *name, bool trains)
{
    if (graph->failed)
        return -1;
    if (graph->program_count == TIDE_PROGRAMS)
        return tide_graph_fail(graph, "a graph has at most %d programs", TIDE_PROGRAMS);
    if (trains && tide_graph_training(graph) >= 0)
        return tide_graph_fail(graph, "a graph has one program that trains");
    graph->programs[graph->program_count] = (struct tide_program){
        .name = name, .first = graph->node_count, .end = graph->node_count, .trains = trains, .lengths = -1};
    return graph->program_count++;
}

int tide_graph_forward_of(struct tide_graph *graph, const char *name, int program)
{
    int number = tide_graph_program(graph, name, false);
    if (number < 0)
        return -1;
    graph->programs[number] = graph->programs[program];
    graph->programs[number].name = name;
    graph->programs[number].trains = false;
    return number;
}

void tide_graph_lengths(struct tide_graph *graph, int lengths, int64_t rows)
{
    if (graph->failed)
        return;
    struct tide_program *p = &graph->programs[graph->program_count - 1];
    p->lengths = lengths;
    p->rows = rows;
}

bool tide_graph_has_rows(const struct tide_graph *graph, int program, int tensor)
{
    const struct tide_program *p = &graph->programs[program];
    const struct tide_tensor *t = &graph->tensors[tensor];
    return p->lengths >= 0 && tensor != p->lengths && t->dims[0] == p->rows &&
           (t->role == TIDE_ACTIVATION || t->role == TIDE_INPUT);
}

int tide_graph_training(const struct tide_graph *graph)
{
    for (int i = 0; i < graph->program_count; i++)
        if (graph->programs[i].trains)
            return i;
    return -1;
}

/* ---- tensors */

int tide_graph_tensor(struct tide_graph *graph, const char *name, enum tide_tensor_role role,
                      enum tide_dtype dtype, int rank, const int64_t *dims)
{
    if (graph->failed)
        return -1;
    if (TIDE_GROW(graph->tensors, graph->tensor_capacity, graph->tensor_count + 1, MOST_TENSORS))
        return tide_graph_fail(graph, "out of memory for the graph");
    struct tide_tensor *tensor = &graph->tensors[graph->tensor_count];
    *tensor = (struct tide_tensor){
        .role = role, .dtype = dtype, .rank = rank, .block = graph->open_block, .producer = -1};
    tensor->frozen = (role == TIDE_PARAMETER && graph->freezes) || role == TIDE_BORROWED;
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    for (int i = 0; i < rank; i++)
        tensor->dims[i] = dims[i];
    if (bytes_of(tensor, &tensor->bytes))
        return tide_graph_fail(graph, "tensor '%s' has an impossible shape", name);
    if (tide_tensor_lasts(tensor)) {
        size_t *section = &graph->bytes[tide_tensor_section(tensor)];
        tensor->offset = *section;
        *section += tide_aligned(tensor->bytes);
    }
    return graph->tensor_count++;
}

int tide_graph_output(struct tide_graph *graph, struct tide_node *node, const char *name,
                      enum tide_dtype dtype, int rank, const int64_t *dims)
{
    int tensor = tide_graph_tensor(graph, name, TIDE_ACTIVATION, dtype, rank, dims);
    node->out[node->out_count++] = tensor;
    return tensor < 0 ? -1 : 0;
}

/* Returns the parameter of that name and makes it if it does not exist. */
static int find_or_make(struct tide_graph *graph, const char *name, int rank, const int64_t *dims)
{
    uint64_t key = tide_map_key(TIDE_MAP_SEED, name, strlen(name)), found;
    enum tide_dtype dtype = rank > 1 ? graph->stored : TIDE_F32;
    enum tide_tensor_role role = graph->streams   ? TIDE_STREAMED
                                 : graph->borrows ? TIDE_BORROWED
                                                  : TIDE_PARAMETER;
    if (graph->failed)
        return -1;
    if (tide_map_get(&graph->names, key, &found)) {
        const struct tide_tensor *t = &graph->tensors[found];
        if (t->rank == rank && !memcmp(t->dims, dims, (size_t)rank * sizeof *dims))
            return (int)found;
        return tide_graph_fail(graph, "the model has no '%s' of that shape", name);
    }
    if (dtype == TIDE_I8 && role == TIDE_PARAMETER && !graph->freezes)
        return tide_graph_fail(graph, "'%s' is stored as int8 and cannot train", name);
    int tensor = tide_graph_tensor(graph, name, role, dtype, rank, dims);
    if (tensor >= 0 && tide_map_put(&graph->names, key, (uint64_t)tensor))
        return tide_graph_fail(graph, "out of memory for the graph");
    return tensor;
}

int tide_graph_parameter(struct tide_graph *graph, const char *name, bool decays, int rank,
                         const int64_t *dims)
{
    int before = graph->tensor_count, tensor = find_or_make(graph, name, rank, dims);
    if (tensor < before || graph->tensors[tensor].role != TIDE_PARAMETER)
        return tensor;
    struct tide_tensor *t = &graph->tensors[tensor];
    t->decays = decays;
    graph->parameters += tide_tensor_count(t);
    if (!t->frozen)
        place_training(graph, t);
    return tensor;
}

int tide_graph_measured(struct tide_graph *graph, const char *name, int64_t count)
{
    bool freezes = graph->freezes;
    int before = graph->tensor_count;
    graph->freezes = true;
    int tensor = find_or_make(graph, name, 1, &count);
    graph->freezes = freezes;
    if (tensor >= before)
        graph->tensors[tensor].measured = true;
    return tensor;
}

int tide_graph_result(struct tide_graph *graph, int tensor)
{
    if (!graph->failed && tensor >= 0)
        graph->tensors[tensor].result = true;
    return tensor;
}

/* ---- nodes */

static int check_input(struct tide_graph *graph, const struct tide_node *node, int input)
{
    if (input < 0 || input >= graph->tensor_count)
        return tide_graph_fail(graph, "%s: an input is not there", node->op->name);
    const struct tide_tensor *tensor = &graph->tensors[input];
    bool trains = graph->programs[graph->program_count - 1].trains;
    if (trains && tensor->role == TIDE_STREAMED)
        return tide_graph_fail(graph, "%s: '%s' is streamed, and this program trains", node->op->name,
                               tensor->name);
    if (trains && tensor->has_loss)
        return tide_graph_fail(graph, "%s: '%s' has a loss, after which nothing may read it", node->op->name,
                               tensor->name);
    return 0;
}

int tide_graph_append(struct tide_graph *graph, const struct tide_node *node)
{
    if (graph->failed)
        return -1;
    if (!graph->program_count)
        return tide_graph_fail(graph, "%s: no program has begun", node->op->name);
    for (int i = 0; i < node->in_count; i++)
        if (check_input(graph, node, node->in[i]))
            return -1;
    if (TIDE_GROW(graph->nodes, graph->node_capacity, graph->node_count + 1, MOST_TENSORS))
        return tide_graph_fail(graph, "out of memory for the graph");
    struct tide_node *added = &graph->nodes[graph->node_count];
    *added = *node;
    added->block = graph->open_block;
    added->out_count = 0;
    if (added->op->shape(graph, added))
        return -1;
    for (int i = 0; i < added->out_count; i++) {
        graph->tensors[added->out[i]].producer = graph->node_count;
        graph->tensors[added->out[i]].result = added->op->is_loss;
    }
    if (added->op->is_loss && graph->programs[graph->program_count - 1].trains)
        graph->tensors[added->in[0]].has_loss = true;
    graph->programs[graph->program_count - 1].end = ++graph->node_count;
    return added->out[0];
}

void tide_graph_block(struct tide_graph *graph)
{
    if (graph->program_count)
        graph->open_block = graph->programs[graph->program_count - 1].block_count++;
}

void tide_graph_block_end(struct tide_graph *graph)
{
    graph->open_block = -1;
}

int64_t tide_tensor_count(const struct tide_tensor *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        count *= tensor->dims[i];
    return count;
}

int64_t tide_tensor_columns(const struct tide_tensor *tensor)
{
    return tensor->rank ? tensor->dims[tensor->rank - 1] : 1;
}

int64_t tide_tensor_rows(const struct tide_tensor *tensor)
{
    return tide_tensor_count(tensor) / tide_tensor_columns(tensor);
}
