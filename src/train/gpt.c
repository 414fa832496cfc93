#include "train/gpt.h"
#include "rt/op.h"

#include <stdio.h>

enum { HEAD_ROWS = 128 };

struct maker {
    struct tide_graph *graph;
    const struct tide_gpt_config *config;
    int block; /* -1: outside */
};

static int parameter(struct maker *m, const char *name, bool decays, int64_t rows, int64_t columns)
{
    char full[TIDE_TENSOR_NAME];
    int64_t dims[2] = {rows ? rows : columns, columns};
    if (m->block < 0)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "h.%d.%s", m->block, name);
    return tide_graph_parameter(m->graph, full, decays, rows ? 2 : 1, dims);
}

static int norm(struct maker *m, const char *name, int x)
{
    char weight[32], bias[32];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    int w = parameter(m, weight, false, 0, m->config->channels);
    int b = parameter(m, bias, false, 0, m->config->channels);
    return tide_op_norm(m->graph, x, w, b, m->config->epsilon);
}

static int linear(struct maker *m, const char *name, int x, int64_t in, int64_t out, bool wide)
{
    char weight[32], bias[32];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    int w = parameter(m, weight, true, in, out);
    int b = parameter(m, bias, false, 0, out);
    return tide_op_linear(m->graph, x, w, b, wide);
}

static int block(struct maker *m, int x, int64_t sequence)
{
    struct tide_graph *g = m->graph;
    int64_t C = m->config->channels, H = m->config->hidden;
    tide_graph_block(g);
    int qkv = linear(m, "attn.c_attn", norm(m, "ln_1", x), C, 3 * C, false);
    int attention = tide_op_attention(g, qkv, m->config->heads, sequence);
    x = tide_op_add(g, x, linear(m, "attn.c_proj", attention, C, C, true));
    int hidden = tide_op_gelu(g, linear(m, "mlp.c_fc", norm(m, "ln_2", x), C, H, false));
    x = tide_op_add(g, x, linear(m, "mlp.c_proj", hidden, H, C, true));
    tide_graph_block_end(g);
    return x;
}

int tide_gpt_build(struct tide_graph *graph, const struct tide_gpt_config *config, int64_t batch,
                   int64_t sequence, struct tide_gpt *ret_gpt, struct tide_err *err)
{
    struct maker m = {graph, config, -1};
    struct tide_gpt gpt;
    int64_t rows[1] = {batch * sequence};
    gpt.tokens = tide_graph_tensor(graph, "tokens", TIDE_INPUT, TIDE_I32, 1, rows);
    gpt.targets = tide_graph_tensor(graph, "targets", TIDE_INPUT, TIDE_I32, 1, rows);
    gpt.words = parameter(&m, "wte.weight", true, config->words, config->channels);
    gpt.places = parameter(&m, "wpe.weight", true, config->positions, config->channels);
    int x = tide_op_embed(graph, gpt.tokens, gpt.words, gpt.places, sequence);
    for (m.block = 0; m.block < config->blocks; m.block++)
        x = block(&m, x, sequence);
    m.block = -1;
    x = norm(&m, "ln_f", x);
    tide_op_head(graph, x, gpt.words, gpt.targets, HEAD_ROWS);
    if (tide_graph_failed(graph, err))
        return -1;
    *ret_gpt = gpt;
    return 0;
}
