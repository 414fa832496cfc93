#include "plan/torch_op.h"

static int64_t bytes_of(struct tide_sized x)
{
    return tide_times(x.count, x.width);
}

/* Returns a node if x is on the graph, else -1. */
static int follow(struct tide_tape *tape, struct tide_sized x)
{
    return x.node >= 0 ? tide_tape_node(tape, 0) : -1;
}

/* Makes `count` elements from x, whose gradient is a new tensor. */
static struct tide_sized make_of(struct tide_tape *tape, struct tide_sized x, int64_t count, int width,
                                 enum tide_saves saves, enum tide_part owner)
{
    int node = follow(tape, x);
    struct tide_sized out = tide_tape_make(tape, node, count, width, owner);
    if (saves & TIDE_SAVES_INPUT)
        tide_tape_save(tape, node, x);
    if (saves & TIDE_SAVES_OUTPUT)
        tide_tape_save(tape, node, out);
    tide_tape_edge(tape, node, x, TIDE_EDGE_NEW);
    return out;
}

struct tide_sized tide_torch_cast(struct tide_tape *tape, struct tide_sized x, int width,
                                  enum tide_part owner)
{
    return x.width == width ? tide_tape_keep(tape, x)
                            : make_of(tape, x, x.count, width, TIDE_SAVES_NOTHING, owner);
}

/* A shared-out weight is saved without storage: fully_shard frees its memory and gathers it again. */
static struct tide_sized whole_of(const struct tide_leaf *leaf)
{
    return (struct tide_sized){.storage = leaf->group < 0 ? leaf->storage : -1,
                               .node = -1,
                               .count = leaf->count,
                               .width = leaf->width};
}

/* The weight as the product reads it. Autocast keeps its copy of a trained weight until its scope ends. */
static struct tide_sized weight_of(struct tide_tape *tape, int number)
{
    struct tide_leaf *leaf = &tape->leaves[number];
    struct tide_sized whole = whole_of(leaf);
    if (!tape->cast_width || leaf->width == tape->cast_width)
        return tide_tape_keep(tape, whole);
    if (leaf->cast.storage >= 0)
        return tide_tape_keep(tape, leaf->cast);
    bool trains = leaf->trains;
    int node = trains ? tide_tape_node(tape, 0) : -1;
    tide_tape_leaf_edge(tape, node, number, false);
    struct tide_sized narrow = tide_tape_make(tape, node, whole.count, tape->cast_width, TIDE_PART_CAST);
    if (trains && tape->grad) {
        tape->leaves[number].cast = narrow;
        tide_tape_keep(tape, narrow);
    }
    return narrow;
}

static void weight_edge(struct tide_tape *tape, int node, struct tide_sized weight, int number, bool turned)
{
    if (weight.node >= 0)
        tide_tape_edge(tape, node, weight, TIDE_EDGE_NEW);
    else
        tide_tape_leaf_edge(tape, node, number, turned);
}

/*
 * Scratch of the sum over rows that is a bias's gradient. PyTorch splits the rows over several blocks of 128
 * columns, 4 rows at a time, such that each sums 16 values. There are at most as many blocks as the device
 * runs at once, unless a block would sum more than 256 values.
 */
static int64_t column_sums(int64_t rows, int64_t columns)
{
    enum { AT_ONCE = 132 * 16, COLUMNS = 128, ROWS = 4, LEAST = 16, MOST = 256 };
    int64_t each = (rows + ROWS - 1) / ROWS, wide = (columns + COLUMNS - 1) / COLUMNS;
    int64_t room = (AT_ONCE + wide - 1) / wide, wanted = (each + LEAST - 1) / LEAST,
            needed = (each + MOST - 1) / MOST;
    int64_t blocks = wanted < room ? wanted : room;
    blocks = blocks > needed ? blocks : needed;
    return blocks > 1 ? tide_times(tide_times(columns, blocks), 4 * COLUMNS) : 0;
}

struct tide_sized tide_torch_linear(struct tide_tape *tape, struct tide_sized x, int weight, int bias,
                                    int64_t in, int64_t out, bool turned, enum tide_part owner)
{
    if (tape->failed)
        return x;
    /* Arguments are cast from the last to the first. */
    struct tide_sized w = weight_of(tape, weight);
    struct tide_sized input =
        tape->cast_width ? tide_torch_cast(tape, x, tape->cast_width, owner) : tide_tape_keep(tape, x);
    struct tide_sized b = TIDE_NOTHING;
    if (bias >= 0)
        b = weight_of(tape, bias);
    bool trains = tape->leaves[weight].trains;
    bool sums_up = bias >= 0 && tape->leaves[bias].trains && !tape->host && !tape->compiled;
    int64_t sums = sums_up ? column_sums(x.count / in, out) : 0;
    int node = input.node >= 0 || trains ? tide_tape_node(tape, sums) : -1;
    struct tide_sized result = tide_tape_make(tape, node, tide_times(x.count / in, out), input.width, owner);
    tide_tape_product(tape, node);
    if (bias >= 0)
        tide_tape_bias(tape);
    if (trains)
        tide_tape_save(tape, node, input);
    if (input.node >= 0)
        tide_tape_save(tape, node, w);
    /* addmm (with a bias) makes the input's gradient first, mm the weight's. */
    if (bias < 0)
        weight_edge(tape, node, w, weight, turned);
    tide_tape_edge(tape, node, input, TIDE_EDGE_NEW);
    if (bias >= 0) {
        weight_edge(tape, node, w, weight, turned);
        weight_edge(tape, node, b, bias, false);
    }
    TIDE_DROP(tape, input, w);
    if (bias >= 0)
        tide_tape_drop(tape, b);
    return result;
}

struct tide_sized tide_torch_map(struct tide_tape *tape, struct tide_sized x, enum tide_saves saves,
                                 enum tide_part owner)
{
    return make_of(tape, x, x.count, x.width, saves, owner);
}

struct tide_sized tide_torch_power(struct tide_tape *tape, struct tide_sized x, enum tide_part owner)
{
    struct tide_sized out = tide_torch_map(tape, x, TIDE_SAVES_INPUT, owner);
    tide_tape_scratch(tape, out.node, TIDE_SCRATCH_TWICE, bytes_of(x));
    return out;
}

struct tide_sized tide_torch_copy(struct tide_tape *tape, struct tide_sized x, enum tide_part owner)
{
    int node = follow(tape, x);
    tide_tape_edge(tape, node, x, TIDE_EDGE_SAME);
    return tide_tape_make(tape, node, x.count, x.width, owner);
}

struct tide_sized tide_torch_multiply(struct tide_tape *tape, struct tide_sized a, struct tide_sized b,
                                      int64_t count, int width, enum tide_part owner)
{
    int node = a.node >= 0 || b.node >= 0 ? tide_tape_node(tape, 0) : -1;
    struct tide_sized out = tide_tape_make(tape, node, count, width, owner);
    if (b.node >= 0)
        tide_tape_save(tape, node, a);
    if (a.node >= 0)
        tide_tape_save(tape, node, b);
    /* The second factor's gradient is made first. A narrow one is made wide, and then cast. */
    tide_tape_edge(tape, node, b, TIDE_EDGE_NEW);
    if (b.node >= 0 && b.width < out.width)
        tide_tape_edge_scratch(tape, node, bytes_of(out));
    tide_tape_edge(tape, node, a, TIDE_EDGE_NEW);
    if (a.node >= 0 && a.width < out.width)
        tide_tape_edge_scratch(tape, node, bytes_of(out));
    return out;
}

struct tide_sized tide_torch_add(struct tide_tape *tape, struct tide_sized a, struct tide_sized b,
                                 enum tide_part owner)
{
    int node = a.node >= 0 || b.node >= 0 ? tide_tape_node(tape, 0) : -1;
    int width = a.width > b.width ? a.width : b.width;
    struct tide_sized out = tide_tape_make(tape, node, a.count > b.count ? a.count : b.count, width, owner);
    tide_tape_edge(tape, node, a, a.width == width && a.count == out.count ? TIDE_EDGE_SAME : TIDE_EDGE_NEW);
    tide_tape_edge(tape, node, b, b.width == width && b.count == out.count ? TIDE_EDGE_SAME : TIDE_EDGE_NEW);
    return out;
}

struct tide_sized tide_torch_dropout(struct tide_tape *tape, struct tide_sized x, double p,
                                     enum tide_part owner)
{
    if (!(p > 0))
        return tide_tape_keep(tape, x);
    struct tide_sized mask = tide_tape_take(tape, x.count, tape->host ? x.width : 1, owner);
    struct tide_sized out = make_of(tape, x, x.count, x.width, TIDE_SAVES_NOTHING, owner);
    tide_tape_save(tape, out.node, mask);
    tide_tape_drop(tape, mask);
    return out;
}

struct tide_sized tide_torch_part(struct tide_tape *tape, struct tide_sized x, int64_t count)
{
    struct tide_sized out = tide_tape_keep(tape, x);
    if (count == x.count)
        return out;
    int node = follow(tape, x);
    tide_tape_edge(tape, node, x, TIDE_EDGE_NEW);
    out.node = node;
    out.slot = 0;
    out.count = count;
    return out;
}

void tide_torch_split3(struct tide_tape *tape, struct tide_sized x, struct tide_sized parts[3])
{
    int node = follow(tape, x);
    tide_tape_edge(tape, node, x, TIDE_EDGE_NEW);
    for (int i = 0; i < 3; i++) {
        parts[i] = tide_tape_keep(tape, x);
        parts[i].node = node;
        parts[i].slot = i;
        parts[i].count = x.count / 3;
        if (node >= 0)
            tape->nodes[node].slot_bytes[i] = bytes_of(parts[i]);
    }
}

/*
 * Scratch of a table's gradient: memory to sort the ids, and past 3072 of them partial sums in fp32, one row
 * per ten ids and one per distinct id. Compiled: a whole table in fp32.
 */
static int64_t table_sums(const struct tide_tape *tape, const struct tide_leaf *table, int64_t rows,
                          int64_t channels)
{
    enum { SORTED_FROM = 3072, EACH = 10 };
    int64_t tokens = table->count / channels, differ = rows < tokens ? rows : tokens;
    if (tape->compiled)
        return table->width < 4 ? tide_times(table->count, 4) : 0;
    if (rows <= SORTED_FROM || tape->host)
        return tide_times(rows, 32);
    return tide_times(tide_times(rows / EACH + differ, channels), 4);
}

struct tide_sized tide_torch_embed(struct tide_tape *tape, struct tide_sized ids, int table, int64_t rows,
                                   int64_t channels)
{
    if (tape->failed)
        return ids;
    struct tide_leaf *leaf = &tape->leaves[table];
    int width = leaf->width;
    int node = leaf->trains ? tide_tape_node(tape, table_sums(tape, leaf, rows, channels)) : -1;
    tide_tape_leaf_edge(tape, node, table, false);
    tide_tape_save(tape, node, ids);
    return tide_tape_make(tape, node, tide_times(rows, channels), width, TIDE_PART_RESIDUAL);
}

/* A norm in one kernel: saves its input, and `pieces` tensors of `numbers` in fp32. */
static struct tide_sized one_kernel_norm(struct tide_tape *tape, struct tide_sized x, int width, int pieces,
                                         int64_t numbers, int weight, int bias)
{
    if (tape->failed)
        return x;
    int node = x.node >= 0 || tape->leaves[weight].trains ? tide_tape_node(tape, 0) : -1;
    struct tide_sized out = tide_tape_make(tape, node, x.count, width, TIDE_PART_NORM);
    struct tide_sized first = tide_tape_take(tape, numbers, 4, TIDE_PART_NORM);
    struct tide_sized second = pieces > 1 ? tide_tape_take(tape, numbers, 4, TIDE_PART_NORM) : TIDE_NOTHING;
    tide_tape_save(tape, node, x);
    tide_tape_save(tape, node, first);
    tide_tape_save(tape, node, second);
    tide_tape_edge(tape, node, x, TIDE_EDGE_NEW);
    tide_tape_leaf_edge(tape, node, weight, false);
    tide_tape_leaf_edge(tape, node, bias, false);
    TIDE_DROP(tape, first, second);
    return out;
}

struct tide_sized tide_torch_layer_norm(struct tide_tape *tape, struct tide_sized x, int weight, int bias,
                                        int64_t channels)
{
    struct tide_sized input = tide_torch_cast(tape, x, tape->cast_width ? 4 : x.width, TIDE_PART_NORM);
    return tide_then(tape, input,
                     one_kernel_norm(tape, input, input.width, 2, x.count / channels, weight, bias));
}

struct tide_sized tide_torch_fused_norm(struct tide_tape *tape, struct tide_sized x, int weight, int bias,
                                        int64_t channels)
{
    return one_kernel_norm(tape, x, tape->cast_width ? tape->cast_width : x.width, 1, x.count / channels,
                           weight, bias);
}

struct tide_sized tide_torch_fused_loss(struct tide_tape *tape, struct tide_sized logits)
{
    return make_of(tape, logits, 1, 4, TIDE_SAVES_INPUT, TIDE_PART_HEAD);
}

enum { TILE_ROWS = 4096, TILE_TOKENS = 32768 };

/* The buffer of the tiles, and narrow copies of what they are computed from. */
static int64_t tile_bytes(const struct tide_tape *tape, int64_t channels, struct tide_sized x,
                          struct tide_sized weight, int64_t tokens)
{
    int width = tape->cast_width ? tape->cast_width : x.width;
    int64_t rows = x.count / channels, once = rows < TILE_ROWS ? rows : TILE_ROWS,
            twice = rows < 2 * TILE_ROWS ? rows : 2 * TILE_ROWS;
    int64_t bytes = tide_times(tide_times(once, TILE_TOKENS), width);
    if (x.width != width)
        bytes = tide_plus(bytes, tide_times(tide_times(twice, channels), width));
    if (weight.width != width)
        bytes = tide_plus(bytes, tide_times(tide_times(tokens, channels), width));
    return bytes;
}

struct tide_sized tide_torch_tiled_head(struct tide_tape *tape, struct tide_sized x, int weight,
                                        int64_t channels)
{
    if (tape->failed)
        return x;
    struct tide_leaf *leaf = &tape->leaves[weight];
    bool trains = leaf->trains;
    struct tide_sized whole = whole_of(leaf);
    int64_t all = whole.count / channels, once = TILE_TOKENS < all ? TILE_TOKENS : all,
            twice = 2 * TILE_TOKENS < all ? 2 * TILE_TOKENS : all;
    int64_t back = tile_bytes(tape, channels, x, whole, twice);
    if (x.node >= 0 && x.width < 4)
        back = tide_plus(back, tide_times(x.count, 4));
    if (trains && whole.width < 4)
        back = tide_plus(back, tide_times(whole.count, 4));
    tide_tape_drop(tape, tide_tape_take(tape, tile_bytes(tape, channels, x, whole, once), 1, TIDE_PART_HEAD));
    int node = x.node >= 0 || trains ? tide_tape_node(tape, 0) : -1;
    tide_tape_scratch(tape, node, TIDE_SCRATCH_BEFORE, back);
    tide_tape_product(tape, node);
    tide_tape_save(tape, node, x);
    tide_tape_save(tape, node, whole);
    tide_tape_edge(tape, node, x, TIDE_EDGE_NEW);
    tide_tape_leaf_edge(tape, node, weight, false);
    return tide_tape_make(tape, node, x.count / channels, 4, TIDE_PART_HEAD);
}

struct tide_sized tide_torch_rms_norm(struct tide_tape *tape, struct tide_sized x, int weight,
                                      int64_t channels)
{
    if (tape->failed)
        return x;
    int64_t rows = x.count / channels;
    enum tide_part owner = TIDE_PART_NORM;
    struct tide_sized wide = tide_torch_cast(tape, x, 4, owner);
    struct tide_sized square = tide_torch_power(tape, wide, owner);
    struct tide_sized mean =
        tide_then(tape, square, make_of(tape, square, rows, 4, TIDE_SAVES_NOTHING, owner));
    struct tide_sized sum = tide_torch_map(tape, mean, TIDE_SAVES_NOTHING, owner);
    struct tide_sized scale = tide_torch_map(tape, sum, TIDE_SAVES_OUTPUT, owner);
    TIDE_DROP(tape, sum, mean);
    /* hidden * rsqrt: saves both. The gradient of the small factor is a sum over a full product. */
    int node = follow(tape, wide);
    struct tide_sized normal = tide_tape_make(tape, node, x.count, 4, owner);
    tide_tape_save(tape, node, wide);
    tide_tape_save(tape, node, scale);
    tide_tape_scratch(tape, node, TIDE_SCRATCH_BEFORE, bytes_of(normal));
    tide_tape_edge(tape, node, wide, TIDE_EDGE_NEW);
    tide_tape_edge(tape, node, scale, TIDE_EDGE_NEW);
    TIDE_DROP(tape, scale, wide);
    struct tide_sized narrow = tide_torch_cast(tape, normal, x.width, owner);
    bool trains = tape->leaves[weight].trains;
    int width = narrow.width > tape->leaves[weight].width ? narrow.width : tape->leaves[weight].width;
    node =
        narrow.node >= 0 || trains ? tide_tape_node(tape, trains ? tide_times(narrow.count, width) : 0) : -1;
    struct tide_sized out = tide_tape_make(tape, node, narrow.count, width, owner);
    if (trains)
        tide_tape_save(tape, node, narrow);
    tide_tape_leaf_edge(tape, node, weight, false);
    tide_tape_edge(tape, node, narrow, TIDE_EDGE_NEW);
    TIDE_DROP(tape, narrow, normal);
    return out;
}

struct tide_sized tide_torch_log_softmax(struct tide_tape *tape, struct tide_sized logits)
{
    return make_of(tape, logits, logits.count, tape->cast_width ? 4 : logits.width, TIDE_SAVES_OUTPUT,
                   TIDE_PART_HEAD);
}

struct tide_sized tide_torch_pick(struct tide_tape *tape, struct tide_sized x, int64_t rows, bool keeps)
{
    return make_of(tape, x, rows, x.width, keeps ? TIDE_SAVES_INPUT : TIDE_SAVES_NOTHING, TIDE_PART_HEAD);
}

/*
 * cuDNN's scratch: it transposes all operands so that channels are contiguous; three planes of bf16 become
 * eight, of fp16 four. A window of one pixel is a product, which needs no scratch in fp32 or if `even`. One
 * with a stride needs none if `even`, except in bf16. Neither needs the weight transposed.
 */
static int64_t turned_bytes(const struct tide_tape *tape, struct tide_sized in, struct tide_sized weight,
                            int64_t out, enum tide_window window, bool even)
{
    bool wide = in.width == 4, bf16 = !wide && !tape->fp16;
    switch (window) {
    case TIDE_WINDOW_PIXEL:
        return even || wide ? 0 : bytes_of(in) + out;
    case TIDE_WINDOW_STRIDE:
        return even && !bf16 ? 0 : bytes_of(in) + out;
    case TIDE_WINDOW_PLANES:
        return (wide ? bytes_of(in) : bytes_of(in) / 3 * (bf16 ? 8 : 4)) + bytes_of(weight) + out;
    default:
        return bytes_of(in) + bytes_of(weight) + out;
    }
}

struct tide_sized tide_torch_convolve(struct tide_tape *tape, struct tide_sized x, int weight, int64_t count,
                                      int64_t pixels, enum tide_window window)
{
    /* Pixels must be a multiple of EVEN for a 16-bit product and of EVEN_SUM for a sum over them. The other
     * values are the bytes of partial sums. */
    enum { EVEN = 4, EVEN_SUM = 8, SUMS = 2 << 20, HALF_SUMS = 1 << 20, PLANE_SUMS = 6 << 20 };
    if (tape->failed)
        return x;
    struct tide_sized w = weight_of(tape, weight);
    struct tide_sized input = tape->cast_width
                                  ? tide_torch_cast(tape, x, tape->cast_width, TIDE_PART_CONVOLUTION)
                                  : tide_tape_keep(tape, x);
    bool trains = tape->leaves[weight].trains, strides = window == TIDE_WINDOW_STRIDE;
    int64_t bytes = tide_times(count, input.width);
    int64_t turned = turned_bytes(tape, input, w, bytes, window, pixels % (strides ? EVEN_SUM : EVEN) == 0);
    int64_t summed = turned_bytes(tape, input, w, bytes, window, pixels % EVEN_SUM == 0);
    if (summed)
        summed += window == TIDE_WINDOW_PLANES ? PLANE_SUMS : tape->fp16 ? HALF_SUMS : SUMS;
    int node = input.node >= 0 || trains ? tide_tape_node(tape, 0) : -1;
    struct tide_sized out = tide_tape_make(tape, node, count, input.width, TIDE_PART_CONVOLUTION);
    tide_tape_drop(tape, tide_tape_take(tape, turned, 1, TIDE_PART_WORKSPACE));
    tide_tape_save(tape, node, input);
    tide_tape_save(tape, node, w);
    if (input.node >= 0) {
        tide_tape_edge(tape, node, input, TIDE_EDGE_NEW);
        tide_tape_edge_scratch(tape, node, turned);
    }
    weight_edge(tape, node, w, weight, false);
    if (trains)
        tide_tape_edge_scratch(tape, node, summed);
    TIDE_DROP(tape, input, w);
    return out;
}

struct tide_sized tide_torch_batch_norm(struct tide_tape *tape, struct tide_sized x, int weight, int bias,
                                        int64_t channels)
{
    return one_kernel_norm(tape, x, x.width, 1, tide_times(channels, 2), weight, bias);
}

struct tide_sized tide_torch_relu_inplace(struct tide_tape *tape, struct tide_sized x)
{
    int node = follow(tape, x);
    tide_tape_save(tape, node, x);
    tide_tape_edge(tape, node, x, TIDE_EDGE_NEW);
    x.node = node;
    x.slot = 0;
    return x;
}

struct tide_sized tide_torch_add_inplace(struct tide_tape *tape, struct tide_sized a, struct tide_sized b)
{
    int node = a.node >= 0 || b.node >= 0 ? tide_tape_node(tape, 0) : -1;
    tide_tape_edge(tape, node, a, TIDE_EDGE_SAME);
    tide_tape_edge(tape, node, b, TIDE_EDGE_SAME);
    a.node = node;
    a.slot = 0;
    return a;
}

struct tide_sized tide_torch_max_pool(struct tide_tape *tape, struct tide_sized x, int64_t count)
{
    struct tide_sized out = make_of(tape, x, count, x.width, TIDE_SAVES_INPUT, TIDE_PART_CONVOLUTION);
    struct tide_sized places = tide_tape_take(tape, count, 8, TIDE_PART_CONVOLUTION);
    tide_tape_save(tape, out.node, places);
    tide_tape_drop(tape, places);
    return out;
}

struct tide_sized tide_torch_mean(struct tide_tape *tape, struct tide_sized x, int64_t count)
{
    return make_of(tape, x, count, x.width, TIDE_SAVES_NOTHING, TIDE_PART_CONVOLUTION);
}
