#include "rt/graph.h"
#include "rt/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TENSORS = 1 << 16 };

struct tide_graph *tide_graph_new(enum tide_dtype compute)
{
    struct tide_graph *graph = calloc(1, sizeof *graph);
    if (graph) {
        graph->open_block = -1;
        graph->compute = compute;
    }
    return graph;
}

void tide_graph_free(struct tide_graph *graph)
{
    if (!graph)
        return;
    free(graph->tensors);
    free(graph->nodes);
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

/* Room for one more; returns the array, perhaps moved, or NULL. */
static void *grown(void *array, int count, int *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    int more = *capacity ? *capacity * 2 : 64;
    void *moved = more <= MOST_TENSORS ? realloc(array, (size_t)more * size) : NULL;
    if (moved)
        *capacity = more;
    return moved;
}

static int bytes_of(const struct tide_tensor *tensor, size_t *ret_bytes)
{
    size_t bytes = tide_dtype_bytes(tensor->dtype);
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->dims[i] <= 0 || __builtin_mul_overflow(bytes, (size_t)tensor->dims[i], &bytes) ||
            bytes > (size_t)1 << 50)
            return -1;
    *ret_bytes = bytes;
    return 0;
}

int tide_graph_tensor(struct tide_graph *graph, const char *name, enum tide_tensor_role role,
                      enum tide_dtype dtype, int rank, const int64_t *dims)
{
    if (graph->failed)
        return -1;
    struct tide_tensor *tensors =
        grown(graph->tensors, graph->tensor_count, &graph->tensor_capacity, sizeof *tensors);
    if (!tensors)
        return tide_graph_fail(graph, "out of memory for the graph");
    graph->tensors = tensors;
    struct tide_tensor *tensor = &tensors[graph->tensor_count];
    *tensor = (struct tide_tensor){
        .role = role, .dtype = dtype, .rank = rank, .block = graph->open_block, .producer = -1};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    for (int i = 0; i < rank; i++)
        tensor->dims[i] = dims[i];
    if (bytes_of(tensor, &tensor->bytes))
        return tide_graph_fail(graph, "tensor '%s' has an impossible shape", name);
    return graph->tensor_count++;
}

int tide_graph_parameter(struct tide_graph *graph, const char *name, bool decays, int rank,
                         const int64_t *dims)
{
    int tensor = tide_graph_tensor(graph, name, TIDE_PARAMETER, TIDE_F32, rank, dims);
    if (tensor < 0)
        return -1;
    graph->tensors[tensor].decays = decays;
    graph->parameters += tide_tensor_count(&graph->tensors[tensor]);
    return tensor;
}

int tide_graph_append(struct tide_graph *graph, const struct tide_node *node)
{
    if (graph->failed)
        return -1;
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] < 0 || node->in[i] >= graph->tensor_count)
            return tide_graph_fail(graph, "%s: an input is not there", node->op->name);
    struct tide_node *nodes = grown(graph->nodes, graph->node_count, &graph->node_capacity, sizeof *nodes);
    if (!nodes)
        return tide_graph_fail(graph, "out of memory for the graph");
    graph->nodes = nodes;
    struct tide_node *added = &nodes[graph->node_count];
    *added = *node;
    added->block = graph->open_block;
    if (added->op->shape(graph, added))
        return -1;
    for (int i = 0; i < added->out_count; i++)
        graph->tensors[added->out[i]].producer = graph->node_count;
    graph->node_count++;
    return added->out[0];
}

void tide_graph_block(struct tide_graph *graph)
{
    graph->open_block = graph->block_count++;
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
