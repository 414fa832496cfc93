/*
 * cpu_head.c - the tied head and the loss, on processors.
 *
 * Logits (N, V) never exist as a whole. They are computed, and multiplied back into the gradients of x and of
 * the table, in tiles of `rows` rows and `tokens` tokens, always in the same order: rows in chunks, and in
 * each chunk the tokens twice. The first time, each tile becomes exponentials relative to the largest logit
 * so far, and their running sum is kept; the second time, they become gradients. Tiles for which there is
 * memory are kept between the two times; the others are recomputed in the same way. So the number kept
 * changes the time and no bit.
 *
 * A tile of a few hundred rows and tokens stays in the cache between these uses; products of this size are
 * faster than products with the whole vocabulary. The table and its gradient are read once per chunk, so
 * chunks have many rows. Tiles are f32; products in bf16 round them.
 *
 * Rows without a target are in no chunk: a chunk is the next rows that have one. If they are not consecutive,
 * they are copied together.
 */
#include "base/check.h"
#include "base/whole.h"
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/matmul.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/op_head.h"

#include <math.h>
#include <string.h>

struct head {
    int64_t rows, columns, vocabulary;
    int64_t chunk, width, tiles;  /* rows and tokens of a tile; tiles of a chunk */
    enum tide_dtype from, stored; /* of x and of the table */
    float inverse;                /* 1 / temperature */
    bool streamed;                /* the table is */
};

static struct head head_of(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *table = &graph->tensors[node->in[TABLE]];
    struct head h = {.rows = tide_tensor_rows(x),
                     .columns = tide_tensor_columns(x),
                     .vocabulary = table->dims[0],
                     .from = x->dtype,
                     .stored = table->dtype,
                     .inverse = node->real,
                     .streamed = table->role == TIDE_STREAMED};
    h.chunk = tide_smaller(node->numbers[ROWS], h.rows);
    h.width = tide_smaller(node->numbers[TOKENS], h.vocabulary);
    h.tiles = (h.vocabulary + h.width - 1) / h.width;
    return h;
}

static struct tide_product logits_product(const struct head *h, int64_t rows, int64_t tokens)
{
    struct tide_product p = tide_product(rows, tokens, h->columns, false, true, h->from, TIDE_F32);
    tide_product_stored(&p, h->from, h->stored);
    return p;
}

/* Sums over tiles, therefore always f32. */
static struct tide_product x_grad_product(const struct head *h, int64_t rows, int64_t tokens)
{
    struct tide_product p = tide_product(rows, h->columns, tokens, false, false, h->from, TIDE_F32);
    tide_product_stored(&p, TIDE_F32, h->stored);
    return p;
}

static struct tide_product table_grad_product(const struct head *h, int64_t rows, int64_t tokens)
{
    struct tide_product p = tide_product(tokens, h->columns, rows, true, false, h->from, h->stored);
    p.a_from = TIDE_F32;
    return p;
}

/* Returns the largest scratch of the products of a chunk of that many rows. */
static size_t chunk_bytes(const struct head *h, int64_t rows, enum tide_direction direction)
{
    int64_t tokens[2] = {h->width, h->vocabulary % h->width};
    size_t most = 0;
    for (int i = 0; rows && i < 2 && tokens[i]; i++) {
        struct tide_product logits = logits_product(h, rows, tokens[i]),
                            x = x_grad_product(h, rows, tokens[i]),
                            table = table_grad_product(h, rows, tokens[i]);
        most = tide_larger_size(most, tide_matmul_scratch(&logits));
        if (direction == TIDE_BACKWARD)
            most = tide_larger_size(most,
                                    tide_larger_size(tide_matmul_scratch(&x), tide_matmul_scratch(&table)));
    }
    return most;
}

/* Any number of rows may have a target, and fewer rows may need more scratch: they may be packed
 * differently. */
static size_t product_bytes(const struct head *h, enum tide_direction direction)
{
    size_t most = 0;
    for (int64_t rows = 1; rows <= h->chunk; rows++)
        most = tide_larger_size(most, chunk_bytes(h, rows, direction));
    return most;
}

/* Offsets in scratch. list: rows that have a target; x: the rows of a chunk, copied together; x_grad: their
 * gradients before rounding; rest: the products' scratch, followed by tiles. */
struct room {
    size_t list, most, sums, slopes, x, x_grad, table, rest, tiles, tile_bytes;
};

static struct room room_of(const struct head *h, enum tide_direction direction)
{
    bool rounds = h->from == TIDE_BF16 && direction == TIDE_BACKWARD;
    size_t row = (size_t)h->columns, chunk = (size_t)h->chunk;
    struct room r = {0};
    r.tile_bytes = tide_aligned(chunk * (size_t)h->width * sizeof(float));
    r.list = tide_aligned((size_t)h->rows * sizeof(float));
    r.most = r.list + tide_aligned((size_t)h->rows * sizeof(int32_t));
    r.sums = r.most + tide_aligned((size_t)h->tiles * chunk * sizeof(float));
    r.slopes = r.sums + tide_aligned(chunk * sizeof(float));
    r.x = r.slopes + tide_aligned(chunk * sizeof(float));
    r.x_grad = r.x + tide_aligned(chunk * row * tide_dtype_bytes(h->from));
    r.table = r.x_grad + (rounds ? tide_aligned(chunk * row * sizeof(float)) : 0);
    r.rest =
        r.table + (h->streamed ? tide_aligned((size_t)h->width * tide_row_bytes(h->stored, h->columns)) : 0);
    return r;
}

static size_t scratch(const struct tide_need *n)
{
    struct head h = head_of(n->graph, n->node);
    struct room r = room_of(&h, n->direction);
    int64_t spared = (h.tiles - 1) * n->quarters / TIDE_QUARTERS,
            tiles = n->direction == TIDE_BACKWARD ? h.tiles - spared : 1;
    return r.rest + tide_aligned(product_bytes(&h, n->direction)) + (size_t)tiles * r.tile_bytes;
}

/* The current chunk of rows. */
struct chunk {
    const struct tide_call *call;
    const struct head *head;
    const struct room *room;
    const int32_t *list; /* rows with a target */
    int64_t first, rows; /* of the list */
    int64_t kept;        /* tiles that are kept; the others use the memory of the last */
    float scale;         /* factor for gradients */
    /* Its current tile. */
    int64_t tile, from, tokens; /* from: its first token */
    float *logits;
    bool is_again; /* second time: its largest logits are known */
};

static void *in_scratch(const struct chunk *c, size_t offset)
{
    return (char *)c->call->scratch + offset;
}

/* For each row: the largest logit up to and including this tile. */
static float *most_of(const struct chunk *c, int64_t tile)
{
    return (float *)in_scratch(c, c->room->most) + tile * c->head->chunk;
}

static float *sums_of(const struct chunk *c)
{
    return in_scratch(c, c->room->sums);
}

static void go_to(struct chunk *c, int64_t tile)
{
    const struct head *h = c->head;
    c->tile = tile;
    c->from = tile * h->width;
    c->tokens = tide_smaller(h->width, h->vocabulary - c->from);
    c->logits = in_scratch(c, c->room->tiles + (size_t)tide_smaller(tile, c->kept) * c->room->tile_bytes);
}

/* Returns the tile's rows of the table. Asks for those of a streamed one. */
static const void *table_of(const struct chunk *c)
{
    if (c->head->streamed) {
        c->call->source(c->call->source_context, c->call->node->in[TABLE], c->from, c->tokens,
                        in_scratch(c, c->room->table));
        return in_scratch(c, c->room->table);
    }
    return (const char *)c->call->in[TABLE] +
           (size_t)c->from * tide_row_bytes(c->head->stored, c->head->columns);
}

/* Returns the row of x that is row i of the chunk. */
static int64_t row_of(const struct chunk *c, int64_t i)
{
    return c->list[c->first + i];
}

static int32_t target_of(const struct chunk *c, int64_t i)
{
    return ((const int32_t *)c->call->in[TARGETS])[row_of(c, i)];
}

static const void *x_row(const struct chunk *c, int64_t row)
{
    return (const char *)c->call->in[X] + (size_t)row * tide_row_bytes(c->head->from, c->head->columns);
}

/* True if the chunk's rows are consecutive. */
static bool is_whole(const struct chunk *c)
{
    return row_of(c, c->rows - 1) - row_of(c, 0) == c->rows - 1;
}

static const void *x_of(const struct chunk *c)
{
    return is_whole(c) ? x_row(c, row_of(c, 0)) : in_scratch(c, c->room->x);
}

static void *x_grad_row(const struct chunk *c, int64_t row)
{
    return (char *)c->call->in_grad[X] + (size_t)row * tide_row_bytes(c->head->from, c->head->columns);
}

/* The gradients of the chunk's rows, consecutive, in f32: in place at the first row, or in scratch. */
static float *x_grad_of(const struct chunk *c)
{
    return c->head->from == TIDE_F32 ? x_grad_row(c, row_of(c, 0)) : in_scratch(c, c->room->x_grad);
}

TIDE_KERNEL(float, exponentials, (float *restrict x, int64_t count, float most), (x, count, most))
{
    float sums[64] = {0}, sum = 0;
    int64_t j = 0;
    for (; j + 64 <= count; j += 64)
        for (int k = 0; k < 64; k++) {
            x[j + k] = tide_exp(x[j + k] - most);
            sums[k] += x[j + k];
        }
    for (; j < count; j++) {
        x[j] = tide_exp(x[j] - most);
        sum += x[j];
    }
    for (int k = 0; k < 64; k++)
        sum += sums[k];
    return sum;
}

TIDE_KERNEL(void, multiply, (float *x, int64_t count, float by), (x, count, by))
{
    for (int64_t j = 0; j < count; j++)
        x[j] *= by;
}

/* Turns logits into exponentials. Until the last tile, a row's loss holds the negative logit of its
 * target. */
static void exponential_rows(void *context, int64_t first, int64_t last)
{
    const struct chunk *c = context;
    float *losses = (float *)c->call->scratch + c->first, *sums = sums_of(c), *most = most_of(c, c->tile);
    for (int64_t i = first; i < last; i++) {
        float *x = c->logits + i * c->tokens;
        int64_t target = target_of(c, i) - c->from;
        if (c->head->inverse != 1)
            multiply(x, c->tokens, c->head->inverse);
        if (c->is_again) {
            exponentials(x, c->tokens, most[i]);
            continue;
        }
        if (target >= 0 && target < c->tokens)
            losses[i] = -x[target];
        float before = c->tile ? most_of(c, c->tile - 1)[i] : x[0], here = tide_rows_largest(x, c->tokens);
        most[i] = before > here ? before : here;
        sums[i] = (c->tile ? sums[i] * tide_exp(before - most[i]) : 0) + exponentials(x, c->tokens, most[i]);
    }
}

static void compute_tile(const struct chunk *c)
{
    struct tide_product logits = logits_product(c->head, c->rows, c->tokens);
    struct tide_operands operands = {.a = x_of(c), .b = table_of(c), .c = c->logits};
    tide_matmul(&logits, &operands, in_scratch(c, c->room->rest));
    tide_parallel(c->rows, 1, exponential_rows, (void *)c);
}

/* Turns exponentials into gradients. */
static void gradient_rows(void *context, int64_t first, int64_t last)
{
    const struct chunk *c = context;
    const float *sums = sums_of(c), *most = most_of(c, c->tile), *in_all = most_of(c, c->head->tiles - 1),
                *slopes = in_scratch(c, c->room->slopes);
    for (int64_t i = first; i < last; i++) {
        float *x = c->logits + i * c->tokens;
        int64_t target = target_of(c, i) - c->from;
        multiply(x, c->tokens, slopes[i] / sums[i] * tide_exp(most[i] - in_all[i]));
        if (target >= 0 && target < c->tokens)
            x[target] -= slopes[i];
    }
}

/* Adds the tile's part to the gradients of x and of the table. */
static void give_back(const struct chunk *c)
{
    const struct tide_call *call = c->call;
    const struct head *h = c->head;
    if (call->in_grad[TABLE]) {
        char *to =
            (char *)call->in_grad[TABLE] + (size_t)(c->from * h->columns) * tide_dtype_bytes(h->stored);
        bool adds = c->first > 0 || (call->adds >> TABLE & 1);
        struct tide_product table = table_grad_product(h, c->rows, c->tokens);
        struct tide_operands operands = {.a = c->logits, .b = x_of(c), .c = to, .added = adds ? to : NULL};
        tide_matmul(&table, &operands, in_scratch(c, c->room->rest));
    }
    if (call->in_grad[X]) {
        float *to = x_grad_of(c);
        struct tide_product x = x_grad_product(h, c->rows, c->tokens);
        struct tide_operands operands = {
            .a = c->logits, .b = table_of(c), .c = to, .added = c->tile > 0 ? to : NULL};
        tide_matmul(&x, &operands, in_scratch(c, c->room->rest));
    }
}

/* Copies the chunk's rows together. */
static void gather_rows(void *context, int64_t first, int64_t last)
{
    const struct chunk *c = context;
    size_t bytes = tide_row_bytes(c->head->from, c->head->columns);
    for (int64_t i = first; i < last; i++)
        memcpy((char *)in_scratch(c, c->room->x) + (size_t)i * bytes, x_row(c, row_of(c, i)), bytes);
}

static void chunk_forward(struct chunk *c)
{
    float *losses = (float *)c->call->scratch + c->first, *slopes = in_scratch(c, c->room->slopes),
          *log_probabilities = c->call->out[LOG_PROBABILITIES];
    const float *sums = sums_of(c), *most = most_of(c, c->head->tiles - 1);
    c->is_again = false;
    if (!is_whole(c))
        tide_parallel(c->rows, 64, gather_rows, c);
    for (int64_t tile = 0; tile < c->head->tiles; tile++) {
        go_to(c, tile);
        compute_tile(c);
    }
    for (int64_t i = 0; i < c->rows; i++) {
        int64_t row = row_of(c, i);
        float slope;
        log_probabilities[row] = -(losses[i] + most[i] + logf(sums[i]));
        losses[i] = tide_head_loss(c->call, row, log_probabilities[row], &slope);
        slopes[i] = -slope * c->scale * c->head->inverse;
    }
}

/* Moves the gradients of x to their rows. Starts with the last one, because no row lies before its source. */
static void scatter_rows(const struct chunk *c)
{
    const struct head *h = c->head;
    const float *from = x_grad_of(c);
    for (int64_t i = c->rows - 1; i >= 0; i--)
        if (x_grad_row(c, row_of(c, i)) != from + i * h->columns)
            tide_rows_convert_here(x_grad_row(c, row_of(c, i)), h->from, from + i * h->columns, TIDE_F32,
                                   h->columns);
}

static void chunk_backward(struct chunk *c)
{
    const struct head *h = c->head;
    c->is_again = true;
    for (int64_t tile = 0; tile < h->tiles; tile++) {
        go_to(c, tile);
        if (tile >= c->kept)
            compute_tile(c);
        tide_parallel(c->rows, 1, gradient_rows, c);
        give_back(c);
    }
    if (c->call->in_grad[X])
        scatter_rows(c);
}

/* Lists the rows with a target and returns how many there are. */
static int64_t list_rows(const struct tide_call *call, int64_t rows, int32_t *list)
{
    const int32_t *targets = call->in[TARGETS];
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        if (targets[i] >= 0)
            list[count++] = (int32_t)i;
    return count;
}

/* Clears the gradients of rows without a target. */
static void clear_others(const struct tide_call *call, const struct head *h)
{
    const int32_t *targets = call->in[TARGETS];
    size_t bytes = tide_row_bytes(h->from, h->columns);
    for (int64_t i = 0; i < h->rows; i++) {
        if (targets[i] >= 0)
            continue;
        ((float *)call->out[LOG_PROBABILITIES])[i] = 0;
        if (call->in_grad[X])
            memset((char *)call->in_grad[X] + (size_t)i * bytes, 0, bytes);
    }
}

static void run(const struct tide_call *call, enum tide_direction direction)
{
    struct head h = head_of(call->graph, call->node);
    struct room r = room_of(&h, direction);
    struct chunk c = {.call = call, .head = &h, .room = &r};
    const float *losses = call->scratch;
    int32_t *list = in_scratch(&c, r.list);
    int64_t count = list_rows(call, h.rows, list), divisor = call->node->loss->means && count ? count : 1;
    r.tiles = r.rest + tide_aligned(tide_larger_size(chunk_bytes(&h, tide_smaller(h.chunk, count), direction),
                                                     chunk_bytes(&h, count % h.chunk, direction)));
    TIDE_CHECK(call->scratch_bytes, >=, r.tiles + r.tile_bytes);
    int64_t places = (int64_t)((call->scratch_bytes - r.tiles) / r.tile_bytes);
    c.list = list;
    c.kept = places < h.tiles ? places - 1 : h.tiles;
    c.scale = call->loss_scale / (float)divisor;
    double sum = 0;
    for (; c.first < count; c.first += h.chunk) {
        c.rows = tide_smaller(h.chunk, count - c.first);
        chunk_forward(&c);
        if (direction == TIDE_BACKWARD)
            chunk_backward(&c);
    }
    if (!count && call->in_grad[TABLE] && !(call->adds >> TABLE & 1))
        memset(call->in_grad[TABLE], 0, (size_t)(h.vocabulary * h.columns) * tide_dtype_bytes(h.stored));
    clear_others(call, &h);
    for (int64_t i = 0; i < count; i++)
        sum += losses[i];
    *(float *)call->out[LOSS] = (float)(sum / (double)divisor);
}

static void forward(const struct tide_call *call)
{
    run(call, TIDE_FORWARD);
}

static void backward(const struct tide_call *call)
{
    run(call, TIDE_BACKWARD);
}

const struct tide_cpu_kernels tide_cpu_head = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
