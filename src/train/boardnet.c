#include "train/boardnet.h"
#include "base/text.h"
#include "rt/op.h"
#include "train/initial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { REDUCTION = 16, MOST_BLOCKS = 100, MOST_CHANNELS = 1024 };

static const float epsilon = 1e-5F;

/* ---- presets */

#define NET(depth, width, is_separable, policy, value, inner)                                                \
    {                                                                                                        \
        .blocks = (depth), .channels = (width), .separable = (is_separable), .policy_channels = (policy),    \
        .value_channels = (value), .value_hidden = (inner)                                                   \
    }

static const struct {
    const char *name;
    struct tide_boardnet_config config;
} presets[] = {
    {"tiny", NET(3, 32, false, 8, 4, 64)},       {"10x96", NET(10, 96, true, 32, 16, 256)},
    {"14x128", NET(14, 128, true, 32, 16, 256)}, {"18x192", NET(18, 192, true, 32, 16, 256)},
    {"30x192", NET(30, 192, true, 32, 16, 256)},
};

/* "plain:BxC" */
static bool plain_of(const char *name, struct tide_boardnet_config *ret_config)
{
    static const char begin[] = "plain:";
    int blocks = 0, channels = 0, end = 0;
    if (strncmp(name, begin, strlen(begin)) != 0 || strlen(name) > 16 ||
        sscanf(name + strlen(begin), "%4dx%4d%n", &blocks, &channels, &end) != 2 ||
        name[strlen(begin) + (size_t)end] || blocks < 1 || blocks > MOST_BLOCKS || channels < 1 ||
        channels > MOST_CHANNELS)
        return false;
    *ret_config = (struct tide_boardnet_config)NET(blocks, channels, false, 32, 16, 256);
    return true;
}

static bool preset_of(const char *name, struct tide_boardnet_config *ret_config)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (!strcmp(presets[i].name, name)) {
            *ret_config = presets[i].config;
            return true;
        }
    return plain_of(name, ret_config);
}

int tide_boardnet_preset(const char *name, const struct tide_game *game,
                         struct tide_boardnet_config *ret_config, struct tide_err *err)
{
    if (!preset_of(name, ret_config)) {
        tide_err_set(err, "there is no net '%s'", TIDE_SHOWN(name, 64));
        return tide_err_hint(
            err, "tiny, 10x96, 14x128, 18x192, 30x192, or plain:BxC with up to %d blocks and %d channels",
            MOST_BLOCKS, MOST_CHANNELS);
    }
    ret_config->columns = game->columns;
    ret_config->rows = game->rows;
    ret_config->planes = TIDE_PLANES;
    ret_config->moves = game->moves;
    return 0;
}

/* ---- the net as a graph */

struct maker {
    struct tide_graph *graph;
    const struct tide_boardnet_config *config;
    const char *prefix; /* of parameters' names */
    int64_t cells, batch;
    int block; /* -1: outside */
    bool plays;
};

/* Returns the full name of a parameter of the current block, or of none. */
static const char *named(const struct maker *m, const char *layer, const char *end,
                         char name[static TIDE_TENSOR_NAME])
{
    if (m->block < 0)
        snprintf(name, TIDE_TENSOR_NAME, "%s%s.%s", m->prefix, layer, end);
    else
        snprintf(name, TIDE_TENSOR_NAME, "%sblocks.%d.%s.%s", m->prefix, m->block, layer, end);
    return name;
}

static int matrix(const struct maker *m, const char *layer, int64_t rows, int64_t columns)
{
    char name[TIDE_TENSOR_NAME];
    int64_t dims[2] = {rows, columns};
    return tide_graph_parameter(m->graph, named(m, layer, "weight", name), true, 2, dims);
}

static int vector(const struct maker *m, const char *layer, const char *end, int64_t count)
{
    char name[TIDE_TENSOR_NAME];
    return tide_graph_parameter(m->graph, named(m, layer, end, name), false, 1, &count);
}

static struct tide_batchnorm norm_of(const struct maker *m, const char *layer, int64_t channels)
{
    char name[TIDE_TENSOR_NAME];
    struct tide_batchnorm norm = {.weight = vector(m, layer, "weight", channels), .epsilon = epsilon};
    norm.bias = vector(m, layer, "bias", channels);
    norm.mean = tide_graph_measured(m->graph, named(m, layer, "running_mean", name), channels);
    norm.variance = tide_graph_measured(m->graph, named(m, layer, "running_var", name), channels);
    return norm;
}

static int relu(const struct maker *m, int x)
{
    return tide_op_relu_sum(m->graph, x, -1);
}

/* A convolution across channels, 3x3 or 1x1, and its norm. */
static int convolve(const struct maker *m, int x, const char *layer, const char *norm_layer, bool wide,
                    int64_t in, int64_t out)
{
    const struct tide_boardnet_config *c = m->config;
    int weight = matrix(m, layer, wide ? 9 * in : in, out);
    struct tide_batchnorm norm = norm_of(m, norm_layer, out);
    if (m->plays && wide)
        return tide_op_conv_folded(m->graph, x, weight, &norm, c->columns, c->rows);
    if (m->plays) {
        int folded = tide_op_fold(m->graph, weight, &norm, false);
        return tide_op_linear(m->graph, x, folded, folded + 1, true);
    }
    int y = wide ? tide_op_conv(m->graph, x, weight, -1, c->columns, c->rows)
                 : tide_op_linear(m->graph, x, weight, -1, true);
    return tide_op_batchnorm(m->graph, y, &norm);
}

/* One of the two convolutions of a block. */
static int convolve_block(const struct maker *m, int x, int number)
{
    const struct tide_boardnet_config *c = m->config;
    char conv[16], depthwise[16], norm[16];
    snprintf(conv, sizeof conv, c->separable ? "pointwise%d" : "conv%d", number);
    snprintf(depthwise, sizeof depthwise, "depthwise%d", number);
    snprintf(norm, sizeof norm, "norm%d", number);
    if (c->separable)
        x = tide_op_depthwise(m->graph, x, matrix(m, depthwise, 9, c->channels), -1, c->columns, c->rows);
    return convolve(m, x, conv, norm, !c->separable, c->channels, c->channels);
}

/* Squeeze-and-excitation. */
static int gate(const struct maker *m, int x)
{
    int64_t C = m->config->channels, few = C / REDUCTION;
    int pooled = tide_op_pool(m->graph, x, m->cells);
    int squeezed = tide_op_linear(m->graph, pooled, matrix(m, "squeeze", C, few), -1, true);
    int excited = tide_op_linear(m->graph, relu(m, squeezed), matrix(m, "excite", few, C), -1, true);
    return tide_op_gate(m->graph, x, excited);
}

static int block(const struct maker *m, int x)
{
    struct tide_graph *g = m->graph;
    tide_graph_block(g);
    int y = convolve_block(m, relu(m, convolve_block(m, x, 1)), 2);
    if (m->config->separable)
        y = gate(m, y);
    y = tide_op_relu_sum(g, y, x);
    tide_graph_block_end(g);
    return y;
}

static int tower(struct maker *m, int planes)
{
    const struct tide_boardnet_config *c = m->config;
    int x = relu(m, convolve(m, planes, "stem.conv", "stem.norm", true, c->planes, c->channels));
    for (m->block = 0; m->block < c->blocks; m->block++)
        x = block(m, x);
    m->block = -1;
    return x;
}

static int linear(const struct maker *m, int x, const char *layer, int64_t in, int64_t out)
{
    int weight = matrix(m, layer, in, out);
    return tide_op_linear(m->graph, x, weight, vector(m, layer, "bias", out), true);
}

/* -> (B, moves) */
static int policy_of(const struct maker *m, int x)
{
    const struct tide_boardnet_config *c = m->config;
    int seen = relu(m, convolve(m, x, "policy.conv", "policy.norm", false, c->channels, c->policy_channels));
    return linear(m, seen, "policy.out", m->cells * c->policy_channels, c->moves);
}

/* -> (B, 1) */
static int value_of(const struct maker *m, int x)
{
    const struct tide_boardnet_config *c = m->config;
    int seen = relu(m, convolve(m, x, "value.conv", "value.norm", false, c->channels, c->value_channels));
    int hidden = relu(m, linear(m, seen, "value.hidden", m->cells * c->value_channels, c->value_hidden));
    return tide_op_tanh(m->graph, linear(m, hidden, "value.out", c->value_hidden, 1));
}

static struct maker maker_of(struct tide_graph *graph, const struct tide_boardnet_config *config,
                             int64_t batch)
{
    return (struct maker){.graph = graph,
                          .config = config,
                          .prefix = "",
                          .cells = config->columns * config->rows,
                          .batch = batch,
                          .block = -1};
}

static int input(const struct maker *m, const char *name, int64_t rows, int64_t columns)
{
    int64_t dims[2] = {rows, columns};
    return tide_graph_tensor(m->graph, name, TIDE_INPUT, TIDE_F32, 2, dims);
}

int tide_boardnet_build(struct tide_graph *graph, const struct tide_boardnet_config *config, int64_t batch,
                        float value_weight, struct tide_boardnet *ret_net, struct tide_err *err)
{
    struct maker m = maker_of(graph, config, batch);
    struct tide_boardnet net = {.program = tide_graph_program(graph, "train", true)};
    net.planes = input(&m, "planes", batch * m.cells, config->planes);
    net.policy = input(&m, "policy", batch, config->moves);
    net.value = input(&m, "value", batch, 1);
    int x = tower(&m, net.planes), logits = policy_of(&m, x), value = value_of(&m, x);
    net.policy_loss = tide_op_soft(graph, logits, net.policy, 1);
    net.value_loss = tide_op_squared(graph, value, net.value, value_weight);
    if (tide_graph_failed(graph, err))
        return -1;
    *ret_net = net;
    return 0;
}

int tide_boardnet_build_player(struct tide_graph *graph, const struct tide_boardnet_config *config,
                               const char *prefix, int64_t batch, struct tide_boardnet_player *ret_player,
                               struct tide_err *err)
{
    struct maker m = maker_of(graph, config, batch);
    struct tide_boardnet_player player = {.program = tide_graph_program(graph, "play", false)};
    m.prefix = prefix;
    m.plays = true;
    graph->borrows = *prefix;
    player.planes = input(&m, "planes", batch * m.cells, config->planes);
    int x = tower(&m, player.planes);
    player.logits = tide_graph_result(graph, policy_of(&m, x));
    player.values = tide_graph_result(graph, value_of(&m, x));
    graph->borrows = false;
    if (tide_graph_failed(graph, err))
        return -1;
    *ret_player = player;
    return 0;
}

/* ---- before the first step */

/* For a matrix: each output sums over its rows, and ReLU halves the variance, except between the depthwise
 * 3x3 and the 1x1 convolution. */
static float deviation_of(const struct tide_tensor *t)
{
    bool is_last = strstr(t->name, ".out.");
    float gain = strstr(t->name, ".depthwise") || is_last ? 1 : 2;
    return sqrtf(gain / (float)t->dims[0]) * (is_last ? 0.1F : 1);
}

int tide_boardnet_initial(const struct tide_graph *graph, struct tide_machine *machine, uint64_t seed,
                          struct tide_err *err)
{
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct tide_tensor *t = &graph->tensors[i];
        bool is_one = strstr(t->name, ".weight") || strstr(t->name, ".running_var");
        if (t->role == TIDE_PARAMETER &&
            tide_initial_fill(graph, machine, i, seed, t->rank > 1 ? deviation_of(t) : 0, is_one ? 1 : 0,
                              err))
            return -1;
    }
    return 0;
}
