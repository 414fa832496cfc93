#include "train/gpt.h"
#include "rt/op.h"

#include <stdio.h>
#include <string.h>

const char *const tide_gpt_layers[TIDE_GPT_LAYERS] = {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"};

enum { HEAD_ROWS = 704, HEAD_TOKENS = 1536, PROMPT_ROWS = 64 };

struct maker {
    struct tide_graph *graph;
    const struct tide_gpt_config *config;
    const char *prefix;              /* of parameters' names */
    int block;                       /* -1: outside */
    int64_t sequence;                /* the most rows of one */
    int lengths, positions;          /* if sequences may be shorter: inputs; -1: none */
    int caches;                      /* the first of two states per block; -1: none */
    struct tide_gpt_reading reading; /* for caches */
    bool fills;                      /* only fills the caches */
};

/* A parameter of a layer; end: "weight" or "bias". rows 0: a vector. */
static int parameter(struct maker *m, const char *layer, const char *end, bool decays, int64_t rows,
                     int64_t columns)
{
    char full[TIDE_TENSOR_NAME];
    int64_t dims[2] = {rows ? rows : columns, columns};
    if (m->block < 0)
        snprintf(full, sizeof full, "%s%s.%s", m->prefix, layer, end);
    else
        snprintf(full, sizeof full, "%sh.%d.%s.%s", m->prefix, m->block, layer, end);
    return tide_graph_parameter(m->graph, full, decays, rows ? 2 : 1, dims);
}

static int norm(struct maker *m, const char *name, int x)
{
    int w = parameter(m, name, "weight", false, 0, m->config->channels);
    int b = parameter(m, name, "bias", false, 0, m->config->channels);
    return tide_op_norm(m->graph, x, w, b, m->config->epsilon);
}

/* What an adapter adds to a layer: x A^T B^T times its scale. Its two matrices train and are f32. */
static int adapter(struct maker *m, const char *name, int x, int64_t in, int64_t out, bool wide)
{
    struct tide_graph *g = m->graph;
    enum tide_dtype stored = g->stored;
    int64_t rank = m->config->adapter_rank;
    g->freezes = false;
    g->stored = TIDE_F32;
    int a = parameter(m, name, "lora_A.weight", true, rank, in);
    int b = parameter(m, name, "lora_B.weight", true, out, rank);
    g->freezes = true;
    g->stored = stored;
    int inner = tide_op_linear_transposed(g, x, a, -1, false);
    if (m->config->adapter_scale != 1)
        inner = tide_op_scale(g, inner, m->config->adapter_scale);
    return tide_op_linear_transposed(g, inner, b, -1, wide);
}

static bool is_adapted(const struct maker *m, const char *name)
{
    for (int i = 0; m->config->adapter_rank && i < TIDE_GPT_LAYERS; i++)
        if ((m->config->adapters >> i & 1) && !strcmp(name, tide_gpt_layers[i]))
            return true;
    return false;
}

static int linear(struct maker *m, const char *name, int x, int64_t in, int64_t out, bool wide)
{
    int w = parameter(m, name, "weight", true, in, out);
    int b = parameter(m, name, "bias", false, 0, out);
    int y = tide_op_linear(m->graph, x, w, b, wide);
    return is_adapted(m, name) ? tide_op_add(m->graph, y, adapter(m, name, x, in, out, wide)) : y;
}

/* Attention of the current block: over a sequence, or over its part of a cache. */
static int attend(struct maker *m, int qkv)
{
    if (m->caches < 0)
        return tide_op_attention(m->graph, qkv, m->lengths, m->config->heads, m->sequence);
    return tide_op_cached(m->graph, qkv, m->caches + 2 * m->block, m->caches + 2 * m->block + 1,
                          m->reading.slots, m->reading.positions, m->config->heads);
}

static int block(struct maker *m, int x)
{
    struct tide_graph *g = m->graph;
    int64_t C = m->config->channels, H = m->config->hidden;
    tide_graph_block(g);
    int attention = attend(m, linear(m, "attn.c_attn", norm(m, "ln_1", x), C, 3 * C, false));
    if (m->fills && m->block == m->config->blocks - 1) {
        tide_graph_block_end(g);
        return attention;
    }
    x = tide_op_add(g, x, linear(m, "attn.c_proj", attention, C, C, true));
    int hidden = tide_op_gelu(g, linear(m, "mlp.c_fc", norm(m, "ln_2", x), C, H, false));
    x = tide_op_add(g, x, linear(m, "mlp.c_proj", hidden, H, C, true));
    tide_graph_block_end(g);
    return x;
}

static int blocks(struct maker *m, int x)
{
    for (m->block = 0; m->block < m->config->blocks; m->block++)
        x = block(m, x);
    m->block = -1;
    return x;
}

static struct maker maker_of(struct tide_graph *graph, const struct tide_gpt_config *config)
{
    /* In Hugging Face's files: masks, and the head if it is the embedding. */
    static const char *const beside[] = {".attn.bias", ".attn.masked_bias", "lm_head.weight", NULL};
    graph->freezes |= config->adapter_rank > 0;
    graph->prefix = "transformer.";
    graph->beside = beside;
    return (struct maker){.graph = graph,
                          .config = config,
                          .prefix = "",
                          .block = -1,
                          .lengths = -1,
                          .positions = -1,
                          .caches = -1};
}

static struct tide_head head_with(const struct tide_row_loss *loss)
{
    return (struct tide_head){.rows = HEAD_ROWS, .tokens = HEAD_TOKENS, .loss = loss, .constants = -1};
}

/* From the tokens of whole sequences to the loss of their targets. */
static void read_sequences(struct maker *m, int64_t sequence, const struct tide_head *head,
                           struct tide_gpt *gpt)
{
    const struct tide_gpt_config *c = m->config;
    m->sequence = sequence;
    gpt->token_table = parameter(m, "wte", "weight", true, c->vocabulary, c->channels);
    gpt->position_table = parameter(m, "wpe", "weight", true, c->positions, c->channels);
    int x =
        tide_op_embed(m->graph, gpt->tokens, gpt->token_table, gpt->position_table, m->positions, sequence);
    x = norm(m, "ln_f", blocks(m, x));
    gpt->loss = tide_op_head(m->graph, x, gpt->token_table, gpt->targets, head);
}

int tide_gpt_build(struct tide_graph *graph, const struct tide_gpt_config *config, int64_t batch,
                   int64_t sequence, struct tide_gpt *ret_gpt, struct tide_err *err)
{
    struct maker m = maker_of(graph, config);
    struct tide_head head = head_with(&tide_cross_entropy);
    struct tide_gpt gpt = {.train = tide_graph_program(graph, "train", true)};
    int64_t rows = batch * sequence;
    gpt.tokens = tide_graph_tensor(graph, "tokens", TIDE_INPUT, TIDE_I32, 1, &rows);
    gpt.targets = tide_graph_tensor(graph, "targets", TIDE_INPUT, TIDE_I32, 1, &rows);
    read_sequences(&m, sequence, &head, &gpt);
    gpt.evaluate = tide_graph_forward_of(graph, "evaluate", gpt.train);
    if (tide_graph_failed(graph, err))
        return -1;
    *ret_gpt = gpt;
    return 0;
}

/* ---- a policy */

/* Makes the current program read sequences of different lengths. */
static void read_lengths(struct maker *m, const struct tide_gpt_policy *policy)
{
    m->lengths = policy->lengths;
    m->positions = policy->positions;
    tide_graph_lengths(m->graph, policy->lengths, policy->sequences * policy->rows);
}

/* If the policy trains adapters: the model without them; else another model, which is streamed. */
static void add_reference(struct tide_graph *graph, const struct tide_gpt_config *config, double temperature,
                          struct tide_gpt_policy *policy)
{
    struct tide_gpt_config without = *config;
    without.adapter_rank = 0;
    struct maker m = maker_of(graph, &without);
    struct tide_head head = head_with(&tide_cross_entropy);
    struct tide_gpt reference = policy->gpt;
    head.temperature = (float)temperature;
    policy->reference = tide_graph_program(graph, "reference", false);
    read_lengths(&m, policy);
    graph->streams = !config->adapter_rank;
    if (graph->streams)
        m.prefix = TIDE_GPT_REFERENCE;
    read_sequences(&m, policy->rows, &head, &reference);
    graph->streams = false;
    policy->reference_log = tide_graph_result(graph, reference.loss + 1);
}

int tide_gpt_build_policy(struct tide_graph *graph, const struct tide_gpt_config *config, int64_t sequences,
                          int64_t rows, const struct tide_policy_rule *rule,
                          struct tide_gpt_policy *ret_policy, struct tide_err *err)
{
    static const char *const names[] = {[TIDE_POLICY_ADVANTAGE] = "advantages",
                                        [TIDE_POLICY_WEIGHT] = "weights",
                                        [TIDE_POLICY_OLD] = "old log-probabilities",
                                        [TIDE_POLICY_REFERENCE] = "reference log-probabilities"};
    struct maker m = maker_of(graph, config);
    struct tide_head head = head_with(&tide_policy_loss);
    struct tide_gpt_policy p = {.sequences = sequences, .rows = rows, .reference = -1, .reference_log = -1};
    int64_t all = sequences * rows, constants = TIDE_POLICY_CONSTANTS;
    p.gpt.train = tide_graph_program(graph, "train", true);
    p.lengths = tide_graph_tensor(graph, "lengths", TIDE_INPUT, TIDE_I32, 1, &sequences);
    p.positions = tide_graph_tensor(graph, "positions", TIDE_INPUT, TIDE_I32, 1, &all);
    read_lengths(&m, &p);
    p.gpt.tokens = tide_graph_tensor(graph, "tokens", TIDE_INPUT, TIDE_I32, 1, &all);
    p.gpt.targets = tide_graph_tensor(graph, "targets", TIDE_INPUT, TIDE_I32, 1, &all);
    for (int i = 0; i < TIDE_POLICY_INPUTS; i++)
        head.inputs[i] = p.inputs[i] = tide_graph_tensor(graph, names[i], TIDE_INPUT, TIDE_F32, 1, &all);
    head.constants = p.constants = tide_graph_tensor(graph, "constants", TIDE_INPUT, TIDE_F32, 1, &constants);
    head.temperature = (float)rule->temperature;
    read_sequences(&m, rows, &head, &p.gpt);
    p.log_probabilities = tide_graph_result(graph, p.gpt.loss + 1);
    p.gpt.evaluate = tide_graph_forward_of(graph, "score", p.gpt.train);
    if (rule->beta != 0)
        add_reference(graph, config, rule->temperature, &p);
    if (tide_graph_failed(graph, err))
        return -1;
    *ret_policy = p;
    return 0;
}

struct tide_policy_batch tide_gpt_policy_batch(const struct tide_gpt_policy *policy,
                                               struct tide_machine *machine)
{
    struct tide_policy_batch batch = {.sequences = policy->sequences,
                                      .rows = policy->rows,
                                      .lengths = tide_machine_input(machine, policy->lengths),
                                      .positions = tide_machine_input(machine, policy->positions),
                                      .tokens = tide_machine_input(machine, policy->gpt.tokens),
                                      .targets = tide_machine_input(machine, policy->gpt.targets),
                                      .constants = tide_machine_input(machine, policy->constants)};
    for (int i = 0; i < TIDE_POLICY_INPUTS; i++)
        batch.inputs[i] = tide_machine_input(machine, policy->inputs[i]);
    return batch;
}

/* ---- the decoder */

static int cache(struct maker *m, int64_t slots, int64_t window)
{
    int first = m->graph->tensor_count;
    int64_t dims[3] = {slots, window, m->config->channels};
    for (int64_t i = 0; i < m->config->blocks; i++) {
        tide_graph_tensor(m->graph, "keys", TIDE_STATE, m->graph->compute, 3, dims);
        tide_graph_tensor(m->graph, "values", TIDE_STATE, m->graph->compute, 3, dims);
    }
    return first;
}

/* Returns the logits or, if only the cache is wanted, the output of the last block. */
static int read_rows(struct maker *m, const char *name, int64_t rows, struct tide_gpt_reading *ret_reading)
{
    struct tide_graph *g = m->graph;
    struct tide_gpt_reading r = {.program = tide_graph_program(g, name, false)};
    r.tokens = tide_graph_tensor(g, "tokens", TIDE_INPUT, TIDE_I32, 1, &rows);
    r.slots = tide_graph_tensor(g, "slots", TIDE_INPUT, TIDE_I32, 1, &rows);
    r.positions = tide_graph_tensor(g, "positions", TIDE_INPUT, TIDE_I32, 1, &rows);
    m->reading = *ret_reading = r;
    int token_table = parameter(m, "wte", "weight", true, m->config->vocabulary, m->config->channels);
    int position_table = parameter(m, "wpe", "weight", true, m->config->positions, m->config->channels);
    int x = blocks(m, tide_op_embed(g, r.tokens, token_table, position_table, r.positions, 1));
    return m->fills ? x : tide_op_linear_transposed(g, norm(m, "ln_f", x), token_table, -1, true);
}

int tide_gpt_build_decoder(struct tide_graph *graph, const struct tide_gpt_config *config, int64_t slots,
                           int64_t window, struct tide_gpt_decoder *ret_decoder, struct tide_err *err)
{
    struct maker m = maker_of(graph, config);
    int64_t all = slots * window;
    struct tide_gpt_decoder d = {
        .slots = slots, .window = window, .rows = all < PROMPT_ROWS ? all : PROMPT_ROWS};
    m.caches = d.caches = cache(&m, slots, window);
    d.cache_count = 2 * (int)config->blocks;
    m.fills = true;
    read_rows(&m, "prompt", d.rows, &d.prompt);
    m.fills = false;
    d.logits = tide_graph_result(graph, read_rows(&m, "generate", slots, &d.next));
    if (tide_graph_failed(graph, err))
        return -1;
    *ret_decoder = d;
    return 0;
}
