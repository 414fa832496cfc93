#include "plan/net.h"
#include "plan/fully_shard.h"

#include <stdlib.h>

static int make_weight(const struct tide_net *net, struct tide_tape *tape, int64_t count)
{
    return tide_tape_leaf(tape, count, net->how.width, net->how.trains, net->how.owner);
}

/* A weight that is a matrix. */
static int matrix(const struct tide_net *net, struct tide_tape *tape, int64_t rows, int64_t columns)
{
    int leaf = make_weight(net, tape, tide_times(rows, columns));
    if (leaf >= 0)
        tape->leaves[leaf].rows = rows;
    return leaf;
}

static struct tide_linear make_linear(struct tide_net *net, struct tide_tape *tape, int64_t in, int64_t out,
                                      bool bias, bool adapts)
{
    const struct tide_net_options *how = &net->how;
    struct tide_linear l = {.weight = matrix(net, tape, out, in),
                            .bias = -1,
                            .down = -1,
                            .up = -1,
                            .in = in,
                            .out = out,
                            .rank = adapts ? how->rank : 0,
                            .turned = net->model->family != TIDE_FAMILY_GPT2};
    if (bias)
        l.bias = make_weight(net, tape, out);
    if (l.rank) {
        l.down = tide_tape_leaf(tape, tide_times(in, l.rank), how->width, true, how->owner);
        l.up = tide_tape_leaf(tape, tide_times(l.rank, out), how->width, true, how->owner);
    }
    return l;
}

static struct tide_norm make_norm(struct tide_net *net, struct tide_tape *tape, int64_t channels, bool bias)
{
    struct tide_norm n = {.weight = make_weight(net, tape, channels), .bias = -1};
    if (bias)
        n.bias = make_weight(net, tape, channels);
    return n;
}

static struct tide_sized apply_linear(struct tide_tape *tape, const struct tide_linear *l,
                                      struct tide_sized x, enum tide_part owner)
{
    struct tide_sized base = tide_torch_linear(tape, x, l->weight, l->bias, l->in, l->out, l->turned, owner);
    if (!l->rank)
        return base;
    struct tide_sized low = tide_torch_linear(tape, x, l->down, -1, l->in, l->rank, true, owner);
    struct tide_sized high =
        tide_then(tape, low, tide_torch_linear(tape, low, l->up, -1, l->rank, l->out, true, owner));
    struct tide_sized scaled = tide_then(tape, high, tide_torch_map(tape, high, TIDE_SAVES_NOTHING, owner));
    struct tide_sized sum = tide_torch_add(tape, base, scaled, owner);
    TIDE_DROP(tape, base, scaled);
    return sum;
}

static struct tide_sized normalise(struct tide_net *net, struct tide_tape *tape, const struct tide_norm *norm,
                                   struct tide_sized x)
{
    int64_t channels = net->model->channels;
    if (net->how.compiled)
        return tide_torch_fused_norm(tape, x, norm->weight, norm->bias, channels);
    return norm->bias >= 0 ? tide_torch_layer_norm(tape, x, norm->weight, norm->bias, channels)
                           : tide_torch_rms_norm(tape, x, norm->weight, channels);
}

static void init_layer(struct tide_net *net, struct tide_tape *tape, struct tide_layer *layer)
{
    const struct tide_architecture *m = net->model;
    bool gpt = m->family == TIDE_FAMILY_GPT2, rms = m->family == TIDE_FAMILY_LLAMA;
    int64_t wide = tide_times(m->heads, m->head_channels), narrow = tide_times(m->kv_heads, m->head_channels);
    layer->before = make_norm(net, tape, m->channels, !rms);
    if (gpt)
        layer->q = make_linear(net, tape, m->channels, 3 * m->channels, true, true);
    else {
        layer->q = make_linear(net, tape, m->channels, wide, m->qkv_bias, true);
        layer->k = make_linear(net, tape, m->channels, narrow, m->qkv_bias, true);
        layer->v = make_linear(net, tape, m->channels, narrow, m->qkv_bias, true);
    }
    layer->o = make_linear(net, tape, wide, m->channels, m->out_bias, true);
    layer->after = make_norm(net, tape, m->channels, !rms);
    if (rms)
        layer->gate = make_linear(net, tape, m->channels, m->hidden, m->mlp_bias, true);
    layer->up = make_linear(net, tape, m->channels, m->hidden, m->mlp_bias, true);
    layer->down = make_linear(net, tape, m->hidden, m->channels, m->mlp_bias, true);
}

static void init_text(struct tide_net *net, struct tide_tape *tape)
{
    const struct tide_architecture *m = net->model;
    const struct tide_net_options *how = &net->how;
    net->token_table = matrix(net, tape, m->vocabulary, m->channels);
    net->position_table = m->family == TIDE_FAMILY_GPT2 ? matrix(net, tape, m->positions, m->channels) : -1;
    for (int64_t i = 0; i < m->layers && !tape->failed; i++)
        init_layer(net, tape, &net->layers[i]);
    net->last = make_norm(net, tape, m->channels, m->family == TIDE_FAMILY_GPT2);
    net->head = (struct tide_linear){.weight = net->token_table,
                                     .bias = -1,
                                     .down = -1,
                                     .up = -1,
                                     .in = m->channels,
                                     .out = m->vocabulary,
                                     .turned = true};
    if (!m->tied)
        net->head = make_linear(net, tape, m->channels, m->vocabulary, false, false);
    else /* A head is made, and freed when it is tied: the allocator keeps its segment. */
        tide_tape_drop(tape,
                       tide_tape_take(tape, tide_times(m->vocabulary, m->channels), how->width, how->owner));
}

static void init_pictures(struct tide_net *net, struct tide_tape *tape)
{
    const struct tide_architecture *m = net->model;
    if (m->family == TIDE_FAMILY_VIT) {
        int64_t patches = tide_times(m->image / m->patch, m->image / m->patch);
        net->class_token = make_weight(net, tape, m->channels);
        net->position_table = make_weight(net, tape, tide_times(patches + 1, m->channels));
        net->patches = make_linear(net, tape, tide_times(m->planes, tide_times(m->patch, m->patch)),
                                   m->channels, true, false);
        net->last = make_norm(net, tape, m->channels, true);
        net->head = make_linear(net, tape, m->channels, m->classes, true, false);
        return;
    }
    net->patches = make_linear(net, tape, tide_times(m->planes, 49), m->channels, false, false);
    net->patches.window = TIDE_WINDOW_PLANES;
    net->last = make_norm(net, tape, m->channels, true);
    int64_t in = m->channels, at = 0;
    for (int stage = 0; stage < TIDE_STAGES; stage++)
        for (int64_t i = 0; i < m->depths[stage] && !tape->failed; i++, at++) {
            struct tide_stage_block *b = &net->blocks[at];
            int64_t out = m->widths[stage], middle = m->bottleneck ? out / 4 : out;
            *b = (struct tide_stage_block){.stride = stage && !i ? 2 : 1};
            b->conv[0] = make_linear(net, tape, tide_times(in, m->bottleneck ? 1 : 9), middle, false, false);
            b->norm[0] = make_norm(net, tape, middle, true);
            b->conv[1] = make_linear(net, tape, tide_times(middle, 9), middle, false, false);
            b->norm[1] = make_norm(net, tape, middle, true);
            if (m->bottleneck) {
                b->conv[2] = make_linear(net, tape, middle, out, false, false);
                b->norm[2] = make_norm(net, tape, out, true);
            }
            b->conv[0].window = m->bottleneck ? TIDE_WINDOW_PIXEL : TIDE_WINDOW_WIDE;
            b->conv[2].window = TIDE_WINDOW_PIXEL;
            b->conv[3].weight = -1;
            if (in != out || b->stride > 1) {
                b->conv[3] = make_linear(net, tape, in, out, false, false);
                b->norm[3] = make_norm(net, tape, out, true);
                b->conv[3].window = b->stride > 1 ? TIDE_WINDOW_STRIDE : TIDE_WINDOW_PIXEL;
            }
            in = out;
        }
    net->head = make_linear(net, tape, in, m->classes, true, false);
}

int tide_net_init(struct tide_net *net, struct tide_tape *tape, const struct tide_architecture *model,
                  const struct tide_net_options *how, struct tide_err *err)
{
    size_t layers = (size_t)model->layers;
    *net = (struct tide_net){.model = model,
                             .how = *how,
                             .group = -1,
                             .cosine = TIDE_NOTHING,
                             .sine = TIDE_NOTHING,
                             .mask = TIDE_NOTHING,
                             .hidden = TIDE_NOTHING};
    net->layers = calloc(layers, sizeof *net->layers);
    net->blocks = calloc(layers, sizeof *net->blocks);
    net->cache = calloc(layers, sizeof *net->cache);
    net->old_cache = calloc(layers, sizeof *net->old_cache);
    if (!net->layers || !net->blocks || !net->cache || !net->old_cache) {
        tide_net_release(net);
        return tide_err_set(err, "out of memory");
    }
    for (size_t i = 0; i < layers; i++)
        net->cache[i] = net->old_cache[i] = (struct tide_net_cache){TIDE_NOTHING, TIDE_NOTHING};
    int layer = tape->layer;
    tape->layer = 0;
    if (tide_model_sees(model)) {
        init_pictures(net, tape);
        for (int64_t i = 0; model->family == TIDE_FAMILY_VIT && i < model->layers && !tape->failed; i++)
            init_layer(net, tape, &net->layers[i]);
    } else
        init_text(net, tape);
    tape->layer = layer;
    return 0;
}

void tide_net_release(struct tide_net *net)
{
    free(net->layers);
    free(net->blocks);
    free(net->cache);
    free(net->old_cache);
    net->layers = NULL;
    net->blocks = NULL;
    net->cache = net->old_cache = NULL;
}

/* GPT-2's GELU, as eight operators: keeps its input, half of it, the tanh and one plus the tanh. Autocast
 * computes a power in fp32, so all but the half are wide, and a wide copy of the input is kept too. */
static struct tide_sized gelu_new(struct tide_tape *tape, struct tide_sized x)
{
    enum tide_part owner = TIDE_PART_MLP;
    struct tide_sized half = tide_torch_map(tape, x, TIDE_SAVES_NOTHING, owner);
    struct tide_sized wide = tide_torch_cast(tape, x, tape->cast_width ? 4 : x.width, owner);
    struct tide_sized cube = tide_then(tape, wide, tide_torch_power(tape, wide, owner));
    struct tide_sized scaled = tide_then(tape, cube, tide_torch_map(tape, cube, TIDE_SAVES_NOTHING, owner));
    struct tide_sized sum = tide_then(tape, scaled, tide_torch_add(tape, x, scaled, owner));
    struct tide_sized inner = tide_then(tape, sum, tide_torch_map(tape, sum, TIDE_SAVES_NOTHING, owner));
    struct tide_sized bent = tide_then(tape, inner, tide_torch_map(tape, inner, TIDE_SAVES_OUTPUT, owner));
    struct tide_sized one = tide_then(tape, bent, tide_torch_copy(tape, bent, owner));
    struct tide_sized out = tide_torch_multiply(tape, half, one, half.count, one.width, owner);
    TIDE_DROP(tape, half, one);
    return out;
}

static struct tide_sized activate(struct tide_net *net, struct tide_tape *tape, struct tide_sized x)
{
    if (net->model->activation == TIDE_GELU_NEW && !net->how.compiled)
        return gelu_new(tape, x);
    return tide_torch_map(tape, x, TIDE_SAVES_INPUT, TIDE_PART_MLP);
}

/* Saves q, k and v, which a kernel reads, and drops them. */
static void read_inputs(struct tide_tape *tape, int node, const struct tide_sized in[3])
{
    for (int i = 0; i < 3; i++) {
        tide_tape_save(tape, node, in[i]);
        tide_tape_edge(tape, node, in[i], TIDE_EDGE_NEW);
        tide_tape_drop(tape, in[i]);
    }
}

/* One kernel: keeps q, k, v, its output and one number per row and head. */
static struct tide_sized attend_fused(struct tide_net *net, struct tide_tape *tape, struct tide_sized q,
                                      struct tide_sized k, struct tide_sized v)
{
    const struct tide_architecture *m = net->model;
    int64_t rows = tide_times(tide_times(net->call.batch, net->call.rows), m->heads);
    int width = tape->cast_width ? tape->cast_width : q.width;
    struct tide_sized in[3] = {tide_torch_cast(tape, q, width, TIDE_PART_ATTENTION),
                               tide_torch_cast(tape, k, width, TIDE_PART_ATTENTION),
                               tide_torch_cast(tape, v, width, TIDE_PART_ATTENTION)};
    int64_t scratch = tide_times(rows, 4) + tide_times(tide_times(rows, m->head_channels), 4);
    if (k.count < q.count) /* gradients of keys and values for every query head */
        scratch += tide_times(tide_times(rows, m->head_channels), 2 * width);
    int node = in[0].node >= 0 || in[1].node >= 0 ? tide_tape_node(tape, scratch) : -1;
    struct tide_sized out =
        tide_tape_make(tape, node, tide_times(rows, m->head_channels), width, TIDE_PART_ATTENTION);
    struct tide_sized sums = tide_tape_take(tape, rows, 4, TIDE_PART_ATTENTION);
    tide_tape_save(tape, node, out);
    tide_tape_save(tape, node, sums);
    read_inputs(tape, node, in);
    tide_tape_drop(tape, sums);
    if (net->mask.storage >= 0 && net->how.compiled)
        tide_tape_save(tape, node, net->mask);
    else if (net->mask.storage >= 0) { /* as numbers to add, for this layer only */
        struct tide_sized bias = tide_tape_take(tape, net->mask.count, width, TIDE_PART_ATTENTION);
        tide_tape_save(tape, node, bias);
        tide_tape_drop(tape, bias);
    }
    return out;
}

/* softmax(q k' / sqrt(d) + mask) v, operator by operator. q, k and v are copied because their heads are not
 * contiguous. */
static struct tide_sized attend_eager(struct tide_net *net, struct tide_tape *tape, struct tide_sized q,
                                      struct tide_sized k, struct tide_sized v)
{
    const struct tide_architecture *m = net->model;
    enum tide_part owner = TIDE_PART_ATTENTION;
    int64_t keys = net->call.rows + net->call.past;
    int64_t pairs = tide_times(tide_times(tide_times(net->call.batch, m->heads), net->call.rows), keys);
    int width = tape->cast_width ? tape->cast_width : q.width;
    bool upcasts = m->family != TIDE_FAMILY_GPT2 || tape->cast_width;
    struct tide_sized query = tide_torch_copy(tape, q, owner), key = tide_torch_copy(tape, k, owner);
    struct tide_sized scores = tide_torch_multiply(tape, query, key, pairs, query.width, owner);
    TIDE_DROP(tape, query, key);
    struct tide_sized masked =
        tide_then(tape, scores, tide_torch_map(tape, scores, TIDE_SAVES_NOTHING, owner));
    if (net->mask.storage >= 0)
        masked = tide_then(tape, masked, tide_torch_add(tape, masked, net->mask, owner));
    struct tide_sized wide =
        tide_then(tape, masked, tide_torch_cast(tape, masked, upcasts ? 4 : masked.width, owner));
    struct tide_sized shares = tide_then(tape, wide, tide_torch_map(tape, wide, TIDE_SAVES_OUTPUT, owner));
    struct tide_sized narrow = tide_then(tape, shares, tide_torch_cast(tape, shares, width, owner));
    struct tide_sized kept =
        tide_torch_dropout(tape, narrow, net->how.dropout ? m->attention_dropout : 0, owner);
    tide_tape_drop(tape, narrow);
    struct tide_sized value = tide_torch_copy(tape, v, owner);
    struct tide_sized out = tide_torch_multiply(tape, kept, value, q.count, kept.width, owner);
    TIDE_DROP(tape, kept, value);
    return tide_then(tape, out, tide_torch_copy(tape, out, owner));
}

/* Repeats every key-value head for each query head that shares it; a copy. */
static struct tide_sized repeat(struct tide_net *net, struct tide_tape *tape, struct tide_sized x)
{
    int64_t times = net->model->heads / net->model->kv_heads;
    if (times == 1)
        return tide_tape_keep(tape, x);
    int node = x.node >= 0 ? tide_tape_node(tape, 0) : -1;
    struct tide_sized out =
        tide_tape_make(tape, node, tide_times(x.count, times), x.width, TIDE_PART_ATTENTION);
    tide_tape_edge(tape, node, x, TIDE_EDGE_NEW);
    return out;
}

/*
 * Grouped heads in fp32: no fused kernel takes them, so PyTorch falls back to plain products. Keeps the
 * scaled queries, the scaled keys and the values, each for every query head, and the softmax.
 */
static struct tide_sized attend_plain(struct tide_net *net, struct tide_tape *tape, struct tide_sized q,
                                      struct tide_sized k, struct tide_sized v)
{
    enum tide_part owner = TIDE_PART_ATTENTION;
    int64_t keys = net->call.rows + net->call.past;
    int64_t pairs =
        tide_times(tide_times(tide_times(net->call.batch, net->model->heads), net->call.rows), keys);
    int64_t masked = tide_times(net->call.rows, keys);
    struct tide_sized query = tide_torch_map(tape, q, TIDE_SAVES_NOTHING, owner);
    struct tide_sized hides = tide_tape_take(tape, masked, 1, owner);
    struct tide_sized mask = tide_tape_take(tape, masked, q.width, owner);
    tide_tape_drop(tape, hides);
    struct tide_sized key = repeat(net, tape, k), value = repeat(net, tape, v);
    struct tide_sized laid = tide_torch_copy(tape, query, owner);
    struct tide_sized scaled = tide_torch_map(tape, key, TIDE_SAVES_NOTHING, owner);
    struct tide_sized scores = tide_torch_multiply(tape, laid, scaled, pairs, laid.width, owner);
    TIDE_DROP(tape, scaled, laid);
    struct tide_sized shares = tide_torch_map(tape, scores, TIDE_SAVES_OUTPUT, owner);
    if (shares.node >= 0)
        tape->nodes[shares.node].scratch = tide_times(pairs, shares.width);
    tide_tape_drop(tape, tide_tape_take(tape, pairs, 1, owner)); /* a mask of masked scores */
    tide_tape_drop(tape, scores);
    struct tide_sized out = tide_torch_multiply(tape, shares, value, q.count, shares.width, owner);
    TIDE_DROP(tape, key, value, query, mask, shares);
    return tide_then(tape, out, tide_torch_map(tape, out, TIDE_SAVES_NOTHING, owner));
}

/*
 * Compiled image models get a mask that hides nothing, of a shape that no fused kernel takes. So attention is
 * plain products, in fp32 unless under autocast. Keeps queries, keys, values and the softmax.
 */
static struct tide_sized attend_compiled(struct tide_net *net, struct tide_tape *tape, struct tide_sized q,
                                         struct tide_sized k, struct tide_sized v)
{
    enum tide_part owner = TIDE_PART_ATTENTION;
    int64_t pairs = tide_times(tide_times(net->call.batch, net->model->heads),
                               tide_times(net->call.rows, net->call.rows));
    int width = tape->cast_width ? tape->cast_width : 4;
    struct tide_sized in[] = {tide_torch_cast(tape, q, width, owner), tide_torch_cast(tape, k, width, owner),
                              tide_torch_cast(tape, v, width, owner)};
    int node = in[0].node >= 0 ? tide_tape_node(tape, tide_times(pairs, 4)) : -1;
    struct tide_sized shares = tide_tape_take(tape, pairs, 4, owner);
    struct tide_sized out = tide_tape_make(tape, node, q.count, q.width, owner);
    tide_tape_save(tape, node, shares);
    tide_tape_drop(tape, shares);
    read_inputs(tape, node, in);
    return out;
}

/* q, k, v: (batch rows heads channels). */
static struct tide_sized attend(struct tide_net *net, struct tide_tape *tape, struct tide_sized q,
                                struct tide_sized k, struct tide_sized v)
{
    const struct tide_architecture *m = net->model;
    int64_t wide = tide_times(tide_times(net->call.batch, net->call.rows + net->call.past),
                              tide_times(m->heads, m->head_channels));
    if (net->how.eager)
        return attend_eager(net, tape, q, k, v);
    if (net->how.compiled && tide_model_sees(m))
        return attend_compiled(net, tape, q, k, v);
    if (k.count < wide && q.width == 4 && !tape->cast_width && !tape->host)
        return attend_plain(net, tape, q, k, v);
    return attend_fused(net, tape, q, k, v);
}

static struct tide_sized run_blocks(struct tide_net *net, struct tide_tape *tape, tide_block_function *block,
                                    struct tide_sized x)
{
    for (int64_t i = 0; i < net->model->layers && !tape->failed; i++) {
        int group = net->group >= 0 ? net->group + (int)i : -1, first = tape->node_count;
        tide_shard_enter(tape, group);
        tape->group = group;
        struct tide_sized out = net->how.checkpoint && tape->grad
                                    ? tide_tape_checkpoint(tape, block, net, (int)i, x)
                                    : block(tape, net, (int)i, x);
        tape->group = -1;
        if (group >= 0 && tape->node_count > first)
            tape->nodes[first].opens = true;
        tide_tape_drop(tape, x);
        x = out;
        tide_shard_leave(tape, group);
    }
    tape->layer = 0;
    return x;
}

static int outer_group(const struct tide_net *net)
{
    bool blocks = net->model->family != TIDE_FAMILY_RESNET;
    return net->group < 0 ? -1 : net->group + (blocks ? (int)net->model->layers : 0);
}

void tide_net_share(struct tide_net *net, struct tide_tape *tape, int first_leaf, bool stays)
{
    bool text = !tide_model_sees(net->model);
    int blocks = net->model->family == TIDE_FAMILY_RESNET ? 0 : (int)net->model->layers;
    int starts[TIDE_LAYERS_MOST];
    for (int i = 0; i < blocks; i++)
        starts[i] = net->layers[i].before.weight;
    /* cppcheck-suppress uninitvar ; as many are set as are read */
    net->group = tide_shard_net(tape, first_leaf, tape->leaf_count, starts, blocks,
                                text ? net->last.weight : tape->leaf_count, stays);
}

void tide_net_done(struct tide_net *net, struct tide_tape *tape)
{
    tide_tape_drop(tape, net->hidden);
    net->hidden = TIDE_NOTHING;
    tide_shard_done(tape, outer_group(net));
}

/* Appends keys or values to the cached ones: a new tensor of both, which stays. width: the cache's. */
static struct tide_sized extend(struct tide_net *net, struct tide_tape *tape, struct tide_sized *kept,
                                struct tide_sized x, int width)
{
    if (!net->call.caches)
        return x;
    int64_t count = x.count + (kept->storage >= 0 ? kept->count : 0);
    int node = x.node >= 0 ? tide_tape_node(tape, 0) : -1;
    struct tide_sized joined = tide_tape_make(tape, node, count, width, TIDE_PART_CACHE);
    tide_tape_edge(tape, node, x, TIDE_EDGE_NEW);
    tide_tape_edge(tape, node, *kept, TIDE_EDGE_NEW);
    TIDE_DROP(tape, *kept, x);
    *kept = joined;
    return tide_tape_keep(tape, joined);
}

static struct tide_sized gpt2_attention(struct tide_net *net, struct tide_tape *tape, int layer,
                                        struct tide_sized x)
{
    struct tide_layer *l = &net->layers[layer];
    double p = net->how.dropout ? net->model->residual_dropout : 0;
    struct tide_sized all = apply_linear(tape, &l->q, x, TIDE_PART_ATTENTION), parts[3];
    tide_torch_split3(tape, all, parts);
    tide_tape_drop(tape, all);
    parts[1] = extend(net, tape, &net->cache[layer].keys, parts[1], parts[1].width);
    parts[2] = extend(net, tape, &net->cache[layer].values, parts[2], parts[2].width);
    struct tide_sized out = attend(net, tape, parts[0], parts[1], parts[2]);
    struct tide_sized projected = tide_then(tape, out, apply_linear(tape, &l->o, out, TIDE_PART_ATTENTION));
    struct tide_sized dropped = tide_torch_dropout(tape, projected, p, TIDE_PART_ATTENTION);
    tide_tape_drop(tape, projected);
    tide_tape_drop_all(tape, parts, 3);
    return dropped;
}

static struct tide_sized plain_mlp(struct tide_net *net, struct tide_tape *tape, struct tide_layer *l,
                                   struct tide_sized x)
{
    struct tide_sized wide = apply_linear(tape, &l->up, x, TIDE_PART_MLP);
    struct tide_sized bent = tide_then(tape, wide, activate(net, tape, wide));
    struct tide_sized narrow = tide_then(tape, bent, apply_linear(tape, &l->down, bent, TIDE_PART_MLP));
    double p = net->how.dropout ? net->model->residual_dropout : 0;
    return tide_then(tape, narrow, tide_torch_dropout(tape, narrow, p, TIDE_PART_MLP));
}

static struct tide_sized gpt2_block(struct tide_tape *tape, void *context, int layer, struct tide_sized x)
{
    struct tide_net *net = context;
    struct tide_layer *l = &net->layers[layer];
    tape->layer = layer + 1;
    struct tide_sized normal = normalise(net, tape, &l->before, x);
    struct tide_sized attended = gpt2_attention(net, tape, layer, normal);
    struct tide_sized middle = tide_torch_add(tape, attended, x, TIDE_PART_RESIDUAL);
    tide_tape_drop(tape, normal);
    normal = normalise(net, tape, &l->after, middle);
    struct tide_sized fed = plain_mlp(net, tape, l, normal);
    struct tide_sized out = tide_torch_add(tape, middle, fed, TIDE_PART_RESIDUAL);
    TIDE_DROP(tape, normal, fed, middle, attended);
    return out;
}

/* x * cos + rotate_half(x) * sin */
static struct tide_sized rotate(struct tide_net *net, struct tide_tape *tape, struct tide_sized x)
{
    enum tide_part owner = TIDE_PART_ATTENTION;
    if (net->how.compiled)
        return tide_torch_map(tape, x, TIDE_SAVES_NOTHING, owner);
    struct tide_sized first = tide_torch_multiply(tape, x, net->cosine, x.count, net->cosine.width, owner);
    struct tide_sized upper = tide_torch_part(tape, x, x.count / 2);
    struct tide_sized lower = tide_torch_part(tape, x, x.count / 2);
    struct tide_sized minus = tide_torch_map(tape, lower, TIDE_SAVES_NOTHING, owner);
    int node = x.node >= 0 ? tide_tape_node(tape, 0) : -1;
    struct tide_sized turned = tide_tape_make(tape, node, x.count, x.width, owner);
    tide_tape_edge(tape, node, minus, TIDE_EDGE_SAME);
    tide_tape_edge(tape, node, upper, TIDE_EDGE_SAME);
    TIDE_DROP(tape, minus, lower, upper);
    struct tide_sized second = tide_then(
        tape, turned, tide_torch_multiply(tape, turned, net->sine, x.count, net->sine.width, owner));
    struct tide_sized sum = tide_torch_add(tape, first, second, owner);
    TIDE_DROP(tape, first, second);
    return sum;
}

static struct tide_sized llama_attention(struct tide_net *net, struct tide_tape *tape, int layer,
                                         struct tide_sized x)
{
    struct tide_layer *l = &net->layers[layer];
    enum tide_part owner = TIDE_PART_ATTENTION;
    bool turns = net->model->family == TIDE_FAMILY_LLAMA;
    struct tide_sized q = apply_linear(tape, &l->q, x, owner), k = apply_linear(tape, &l->k, x, owner);
    struct tide_sized v = apply_linear(tape, &l->v, x, owner);
    if (turns) {
        struct tide_sized turned_q = rotate(net, tape, q), turned_k = rotate(net, tape, k);
        TIDE_DROP(tape, q, k);
        q = turned_q;
        struct tide_sized alone = tide_tape_keep(tape, v); /* the parts are freed after both are joined */
        tide_tape_keep(tape, turned_k);
        k = extend(net, tape, &net->cache[layer].keys, turned_k, turned_k.width);
        v = extend(net, tape, &net->cache[layer].values, v,
                   turned_k.width); /* the cache has the keys' type */
        TIDE_DROP(tape, turned_k, alone);
    }
    bool repeats = turns && (net->how.eager || net->mask.storage >= 0);
    struct tide_sized keys = k, values = v;
    if (repeats) {
        keys = repeat(net, tape, k);
        values = repeat(net, tape, v);
    }
    struct tide_sized out = attend(net, tape, q, keys, values);
    if (repeats) {
        TIDE_DROP(tape, keys, values);
    }
    struct tide_sized projected = apply_linear(tape, &l->o, out, owner);
    TIDE_DROP(tape, out, q, k, v);
    return projected;
}

static struct tide_sized gated_mlp(struct tide_net *net, struct tide_tape *tape, struct tide_layer *l,
                                   struct tide_sized x)
{
    struct tide_sized gate = apply_linear(tape, &l->gate, x, TIDE_PART_MLP), open = gate;
    if (!net->how.compiled) /* else the activation is recomputed */
        open = tide_then(tape, gate, tide_torch_map(tape, gate, TIDE_SAVES_INPUT, TIDE_PART_MLP));
    struct tide_sized up = apply_linear(tape, &l->up, x, TIDE_PART_MLP);
    struct tide_sized product = tide_torch_multiply(tape, open, up, up.count, up.width, TIDE_PART_MLP);
    TIDE_DROP(tape, open, up);
    return tide_then(tape, product, apply_linear(tape, &l->down, product, TIDE_PART_MLP));
}

/* Llama's block, and ViT's, which differs in norm, MLP and the lack of rotation. */
static struct tide_sized llama_block(struct tide_tape *tape, void *context, int layer, struct tide_sized x)
{
    struct tide_net *net = context;
    struct tide_layer *l = &net->layers[layer];
    bool gated = net->model->family == TIDE_FAMILY_LLAMA;
    tape->layer = layer + 1;
    struct tide_sized normal = normalise(net, tape, &l->before, x);
    struct tide_sized attended = tide_then(tape, normal, llama_attention(net, tape, layer, normal));
    struct tide_sized middle =
        tide_then(tape, attended, tide_torch_add(tape, x, attended, TIDE_PART_RESIDUAL));
    normal = normalise(net, tape, &l->after, middle);
    struct tide_sized fed = gated ? gated_mlp(net, tape, l, normal) : plain_mlp(net, tape, l, normal);
    tide_tape_drop(tape, normal);
    struct tide_sized out = tide_torch_add(tape, middle, fed, TIDE_PART_RESIDUAL);
    TIDE_DROP(tape, fed, middle);
    return out;
}

/* ---- images: ViT as transformers has it, ResNet as torchvision has it */

static struct tide_sized see_patches(struct tide_net *net, struct tide_tape *tape, struct tide_sized pictures)
{
    const struct tide_architecture *m = net->model;
    int64_t side = net->call.rows / m->patch, patches = tide_times(side, side), batch = net->call.batch;
    /* A convolution whose stride is its size: like a linear layer on patches, but the backward pass gives no
     * gradient to the images. */
    struct tide_sized planes = tide_torch_linear(tape, pictures, net->patches.weight, net->patches.bias,
                                                 net->patches.in, m->channels, false, TIDE_PART_RESIDUAL);
    /* cat((class token, patches)): a new tensor. The patches' part of its gradient is a view. */
    int node = planes.node >= 0 ? tide_tape_node(tape, 0) : -1;
    tide_tape_leaf_edge(tape, node, net->class_token, false);
    tide_tape_edge(tape, node, planes, TIDE_EDGE_SAME);
    struct tide_sized joined =
        tide_tape_make(tape, node, tide_times(tide_times(batch, patches + 1), m->channels), net->how.width,
                       TIDE_PART_RESIDUAL);
    tide_tape_drop(tape, planes);
    node = joined.node >= 0 ? tide_tape_node(tape, 0) : -1;
    tide_tape_leaf_edge(tape, node, net->position_table, false);
    tide_tape_edge(tape, node, joined, TIDE_EDGE_SAME);
    struct tide_sized x = tide_tape_make(tape, node, joined.count, joined.width, TIDE_PART_RESIDUAL);
    tide_tape_drop(tape, joined);
    net->call.rows = patches + 1;
    struct tide_sized embedded = tide_tape_keep(tape, x);
    x = run_blocks(net, tape, llama_block, x);
    struct tide_sized normal = normalise(net, tape, &net->last, x);
    TIDE_DROP(tape, x, embedded);
    struct tide_sized first = tide_torch_part(tape, normal, tide_times(batch, m->channels));
    struct tide_sized logits = apply_linear(tape, &net->head, first, TIDE_PART_HEAD);
    TIDE_DROP(tape, first, normal);
    return logits;
}

/* eats: x is freed right after the convolution, as when its variable is assigned again. */
static struct tide_sized conv_norm(struct tide_net *net, struct tide_tape *tape, struct tide_sized x,
                                   const struct tide_linear *l, const struct tide_norm *norm, int64_t pixels,
                                   bool bends, bool eats)
{
    struct tide_sized raw = tide_torch_convolve(tape, x, l->weight, tide_times(pixels, l->out),
                                                pixels / net->call.batch, l->window);
    if (eats)
        tide_tape_drop(tape, x);
    struct tide_sized normal =
        tide_then(tape, raw, tide_torch_batch_norm(tape, raw, norm->weight, norm->bias, l->out));
    return bends ? tide_torch_relu_inplace(tape, normal) : normal;
}

static struct tide_sized residual(struct tide_net *net, struct tide_tape *tape,
                                  const struct tide_stage_block *b, struct tide_sized x, int64_t pixels_in,
                                  int64_t pixels_out)
{
    bool deep = net->model->bottleneck;
    struct tide_sized out =
        conv_norm(net, tape, x, &b->conv[0], &b->norm[0], deep ? pixels_in : pixels_out, true, false);
    out = conv_norm(net, tape, out, &b->conv[1], &b->norm[1], pixels_out, deep, true);
    if (deep)
        out = conv_norm(net, tape, out, &b->conv[2], &b->norm[2], pixels_out, false, true);
    struct tide_sized shortcut = x;
    if (b->conv[3].weight >= 0)
        shortcut = conv_norm(net, tape, x, &b->conv[3], &b->norm[3], pixels_out, false, false);
    struct tide_sized sum = tide_torch_add_inplace(tape, out, shortcut);
    if (b->conv[3].weight >= 0)
        tide_tape_drop(tape, shortcut);
    return tide_torch_relu_inplace(tape, sum);
}

static struct tide_sized see_planes(struct tide_net *net, struct tide_tape *tape, struct tide_sized pictures)
{
    const struct tide_architecture *m = net->model;
    int64_t side = (net->call.rows + 1) / 2, batch = net->call.batch, at = 0;
    struct tide_sized x = conv_norm(net, tape, pictures, &net->patches, &net->last,
                                    tide_times(batch, tide_times(side, side)), true, false);
    side = (side + 1) / 2;
    int64_t pooled = tide_times(tide_times(batch, m->channels), tide_times(side, side));
    x = tide_then(tape, x, tide_torch_max_pool(tape, x, pooled));
    for (int stage = 0; stage < TIDE_STAGES; stage++)
        for (int64_t i = 0; i < m->depths[stage] && !tape->failed; i++, at++) {
            const struct tide_stage_block *b = &net->blocks[at];
            int64_t before = tide_times(batch, tide_times(side, side));
            side = (side + b->stride - 1) / b->stride;
            tape->layer = (int)at + 1;
            int64_t after = tide_times(batch, tide_times(side, side));
            x = tide_then(tape, x, residual(net, tape, b, x, before, after));
        }
    tape->layer = 0;
    struct tide_sized mean =
        tide_then(tape, x, tide_torch_mean(tape, x, tide_times(batch, m->widths[TIDE_STAGES - 1])));
    return tide_then(tape, mean, apply_linear(tape, &net->head, mean, TIDE_PART_HEAD));
}

static struct tide_sized see(struct tide_net *net, struct tide_tape *tape, struct tide_sized pictures)
{
    return net->model->family == TIDE_FAMILY_VIT ? see_patches(net, tape, pictures)
                                                 : see_planes(net, tape, pictures);
}

/* ---- text */

/* Makes the embedding, cosines and sines or GPT-2's positions, and the mask if one is needed. */
static struct tide_sized enter(struct tide_net *net, struct tide_tape *tape, struct tide_sized ids,
                               struct tide_sized *ret_embedded)
{
    const struct tide_architecture *m = net->model;
    int64_t rows = tide_times(net->call.batch, net->call.rows);
    struct tide_sized x = tide_torch_embed(tape, ids, net->token_table, rows, m->channels);
    *ret_embedded = tide_tape_keep(tape, x);
    if (m->family == TIDE_FAMILY_GPT2) {
        struct tide_sized place_ids = tide_tape_take(tape, net->call.rows, 8, TIDE_PART_INPUT);
        struct tide_sized places =
            tide_torch_embed(tape, place_ids, net->position_table, net->call.rows, m->channels);
        struct tide_sized sum = tide_torch_add(tape, x, places, TIDE_PART_RESIDUAL);
        TIDE_DROP(tape, places, x);
        x = tide_torch_dropout(tape, sum, net->how.dropout ? m->embed_dropout : 0, TIDE_PART_RESIDUAL);
        TIDE_DROP(tape, sum, place_ids);
    } else {
        /* The angles are a product, the first of all products. */
        tide_tape_product(tape, -1);
        int64_t count = tide_times(net->call.rows, m->head_channels);
        net->cosine = tide_tape_take(tape, count, x.width, TIDE_PART_ATTENTION);
        net->sine = tide_tape_take(tape, count, x.width, TIDE_PART_ATTENTION);
    }
    bool one_row = net->call.rows == 1;
    int64_t pairs = tide_times(tide_times(net->call.batch, net->call.rows), net->call.rows + net->call.past);
    if (net->how.eager)
        net->mask = tide_tape_take(tape, pairs, x.width, TIDE_PART_ATTENTION);
    else if (net->how.compiled) /* when compiling, it is unknown whether it hides anything */
        net->mask =
            tide_tape_take(tape, pairs, tape->cast_width ? tape->cast_width : x.width, TIDE_PART_ATTENTION);
    else if (net->call.masked && !one_row)
        net->mask = tide_tape_take(tape, pairs, 1, TIDE_PART_ATTENTION);
    return x;
}

/* A checkpointed block needs them again in the backward pass, so they are freed when the next pass begins. */
static void leave(struct tide_net *net, struct tide_tape *tape)
{
    TIDE_DROP(tape, net->cosine, net->sine, net->mask);
    net->cosine = net->sine = net->mask = TIDE_NOTHING;
}

struct tide_sized tide_net_forward(struct tide_net *net, struct tide_tape *tape, struct tide_sized in,
                                   const struct tide_net_call *call)
{
    const struct tide_architecture *m = net->model;
    net->call = *call;
    tide_shard_enter(tape, outer_group(net));
    if (tide_model_sees(m))
        return see(net, tape, in);
    leave(net, tape);
    struct tide_sized embedded;
    struct tide_sized x = enter(net, tape, in, &embedded);
    x = run_blocks(net, tape, m->family == TIDE_FAMILY_GPT2 ? gpt2_block : llama_block, x);
    struct tide_sized normal = normalise(net, tape, &net->last, x);
    TIDE_DROP(tape, x, embedded);
    if (!net->how.checkpoint)
        leave(net, tape);
    if (call->headless)
        return normal;
    int64_t rows = call->logits ? call->logits : call->rows;
    struct tide_sized wanted =
        tide_torch_part(tape, normal, tide_times(tide_times(call->batch, rows), m->channels));
    struct tide_sized logits = apply_linear(tape, &net->head, wanted, TIDE_PART_HEAD);
    TIDE_DROP(tape, wanted, net->hidden);
    net->hidden = normal;
    return logits;
}

void tide_net_drop_cache(const struct tide_net *net, struct tide_tape *tape, struct tide_net_cache *cache)
{
    for (int64_t i = 0; i < net->model->layers; i++) {
        TIDE_DROP(tape, cache[i].keys, cache[i].values);
        cache[i] = (struct tide_net_cache){TIDE_NOTHING, TIDE_NOTHING};
    }
}

void tide_net_stretch_cache(struct tide_net *net, struct tide_tape *tape, int64_t batch, int64_t tokens)
{
    const struct tide_architecture *m = net->model;
    int64_t count = tide_times(tide_times(batch, tokens), tide_times(m->kv_heads, m->head_channels));
    for (int64_t i = 0; i < m->layers; i++)
        for (int k = 0; k < 2; k++) {
            struct tide_sized *kept = k ? &net->cache[i].values : &net->cache[i].keys;
            *kept = tide_then(tape, *kept, tide_tape_take(tape, count, kept->width, TIDE_PART_CACHE));
        }
}

void tide_net_set_cache_aside(struct tide_net *net, struct tide_tape *tape)
{
    struct tide_net_cache *empty = net->old_cache;
    tide_net_drop_cache(net, tape, empty);
    net->old_cache = net->cache;
    net->cache = empty;
}
