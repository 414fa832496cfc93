/*
 * cpu_head.c - the tied head and the loss, on processors.
 *
 * Logits (N, V) never exist. They are computed, and multiplied back into the gradients of x and of the table,
 * in tiles of `rows` rows and `tokens` tokens, always in the same order: rows in chunks, and in each chunk
 * the tokens twice. The first time each tile becomes exponentials, less the largest logit so far, whose sum
 * goes along; the second time these become gradients. Tiles for which there is memory are kept between the
 * two times, the others are computed once more, in the same way: how many are kept changes time, and no bit.
 *
 * A tile of a few hundred rows and tokens stays in the cache from one of these uses to the next; products of
 * this size run faster than those with the whole vocabulary at once. The table and its gradient are read once
 * for each chunk, so chunks have many rows. Tiles are f32, which products with bf16 round for themselves.
 */
#include "base/check.h"
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/op_head.h"

#include <math.h>
#include <string.h>

struct head {
    int64_t rows, columns, vocabulary;
    int64_t chunk, width, tiles;  /* rows and tokens of a tile; tiles of a chunk */
    enum tide_dtype from, stored; /* of x and of the table */
    float inverse;                /* of the temperature */
    bool sparse, streamed;        /* streamed: the table is */
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct head head_of(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *table = &graph->tensors[node->in[TABLE]];
    struct head h = {.rows = tide_tensor_rows(x),
                     .columns = tide_tensor_columns(x),
                     .vocabulary = table->dims[0],
                     .from = x->dtype,
                     .stored = table->dtype,
                     .inverse = node->real,
                     .sparse = node->numbers[SPARSE],
                     .streamed = table->role == TIDE_STREAMED};
    h.chunk = smaller(node->numbers[ROWS], h.rows);
    h.width = smaller(node->numbers[TOKENS], h.vocabulary);
    h.tiles = (h.vocabulary + h.width - 1) / h.width;
    return h;
}

static struct tide_product logits_product(const struct head *h, int64_t rows, int64_t tokens)
{
    struct tide_product p = tide_product(rows, tokens, h->columns, false, true, h->from, TIDE_F32);
    tide_product_stored(&p, h->from, h->stored);
    return p;
}

/* Sums over tiles, so always f32. */
static struct tide_product x_grad_product(const struct head *h, int64_t rows, int64_t tokens, bool adds)
{
    struct tide_product p = tide_product(rows, h->columns, tokens, false, false, h->from, TIDE_F32);
    tide_product_stored(&p, TIDE_F32, h->stored);
    p.adds = adds;
    return p;
}

static struct tide_product table_grad_product(const struct head *h, int64_t rows, int64_t tokens, bool adds)
{
    struct tide_product p = tide_product(tokens, h->columns, rows, true, false, h->from, h->stored);
    p.a_from = TIDE_F32;
    p.adds = adds;
    return p;
}

static size_t bytes_of_products(const struct tide_matmuls *matmuls, const struct head *h, int64_t rows,
                                int64_t tokens, enum tide_direction direction)
{
    struct tide_product logits = logits_product(h, rows, tokens), x = x_grad_product(h, rows, tokens, true),
                        table = table_grad_product(h, rows, tokens, true);
    size_t most = tide_matmuls_scratch(matmuls, &logits);
    if (direction == TIDE_BACKWARD)
        most = larger(most, larger(tide_matmuls_scratch(matmuls, &x), tide_matmuls_scratch(matmuls, &table)));
    return most;
}

/* What the products need that need most. Where rows are left out a chunk may have any number of them, and
 * fewer rows may need more: whether they are packed depends on it. */
static size_t product_bytes(const struct tide_matmuls *matmuls, const struct head *h,
                            enum tide_direction direction)
{
    int64_t tokens[2] = {h->width, h->vocabulary % h->width}, last = h->rows % h->chunk;
    size_t most = 0;
    for (int i = 0; i < 2; i++)
        for (int64_t rows = h->chunk; tokens[i] && rows > 0; rows--)
            if (h->sparse || rows == h->chunk || rows == last)
                most = larger(most, bytes_of_products(matmuls, h, rows, tokens[i], direction));
    return most;
}

/* Where things lie in scratch; tiles come last. list: rows that have a target, where the others are left out;
 * then x and its gradient are those of a chunk's rows, side by side. */
struct room {
    size_t losses, list, most, sums, slopes, x, x_grad, table, rest, tiles, tile_bytes;
};

static struct room room_of(const struct tide_matmuls *matmuls, const struct head *h,
                           enum tide_direction direction)
{
    bool narrow = h->from == TIDE_BF16, back = direction == TIDE_BACKWARD;
    size_t row = (size_t)h->columns, chunk = (size_t)h->chunk;
    struct room r = {0};
    r.tile_bytes = tide_aligned(chunk * (size_t)h->width * sizeof(float));
    r.list = tide_aligned((size_t)h->rows * sizeof(float));
    r.most = r.list + (h->sparse ? tide_aligned((size_t)h->rows * sizeof(int32_t)) : 0);
    r.sums = r.most + tide_aligned((size_t)h->tiles * chunk * sizeof(float));
    r.slopes = r.sums + tide_aligned(chunk * sizeof(float));
    r.x = r.slopes + tide_aligned(chunk * sizeof(float));
    r.x_grad = r.x + (h->sparse ? tide_aligned(chunk * row * tide_dtype_bytes(h->from)) : 0);
    r.table = r.x_grad + ((narrow || h->sparse) && back ? tide_aligned(chunk * row * sizeof(float)) : 0);
    r.rest =
        r.table + (h->streamed ? tide_aligned((size_t)h->width * tide_row_bytes(h->stored, h->columns)) : 0);
    r.tiles = r.rest + tide_aligned(product_bytes(matmuls, h, direction));
    return r;
}

static size_t scratch(const struct tide_matmuls *matmuls, const struct tide_graph *graph,
                      const struct tide_node *node, enum tide_direction direction)
{
    struct head h = head_of(graph, node);
    struct room r = room_of(matmuls, &h, direction);
    return r.tiles + (size_t)(direction == TIDE_BACKWARD ? h.tiles : 1) * r.tile_bytes;
}

static size_t scratch_recomputing(const struct tide_matmuls *matmuls, const struct tide_graph *graph,
                                  const struct tide_node *node, int quarters)
{
    struct head h = head_of(graph, node);
    struct room r = room_of(matmuls, &h, TIDE_BACKWARD);
    return r.tiles + (size_t)(h.tiles - (h.tiles - 1) * quarters / TIDE_QUARTERS) * r.tile_bytes;
}

/* One chunk of rows, as it is worked on. */
struct chunk {
    const struct tide_call *call;
    const struct head *head;
    const struct room *room;
    int64_t first, rows; /* of x, or of the list */
    const int32_t *list; /* NULL: all rows, in their order */
    int64_t kept;        /* tiles that stay; the others have the place of the last */
    float scale;         /* of gradients */
    /* One tile of it. */
    int64_t tile, from, tokens; /* from: its first token */
    float *logits;
    bool is_again; /* its largest logits are known */
};

static void *in_scratch(const struct chunk *c, size_t offset)
{
    return (char *)c->call->scratch + offset;
}

/* Of row i: the largest logit up to and with this tile. */
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
    c->tokens = smaller(h->width, h->vocabulary - c->from);
    c->logits = in_scratch(c, c->room->tiles + (size_t)smaller(tile, c->kept) * c->room->tile_bytes);
}

/* The tile's rows of the table. Those of one that is streamed are asked for. */
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

/* The row of x and of its target that row i of the chunk is. */
static int64_t row_of(const struct chunk *c, int64_t i)
{
    return c->list ? c->list[c->first + i] : c->first + i;
}

static int32_t target_of(const struct chunk *c, int64_t i)
{
    return ((const int32_t *)c->call->in[TARGETS])[row_of(c, i)];
}

static const void *x_row(const struct chunk *c, int64_t row)
{
    return (const char *)c->call->in[X] + (size_t)row * tide_row_bytes(c->head->from, c->head->columns);
}

static const void *x_of(const struct chunk *c)
{
    return c->list ? in_scratch(c, c->room->x) : x_row(c, c->first);
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

TIDE_KERNEL(float, largest, (const float *x, int64_t count), (x, count))
{
    float lanes[64], most;
    int64_t j = 0;
    for (int k = 0; k < 64; k++)
        lanes[k] = x[0];
    for (; j + 64 <= count; j += 64)
        for (int k = 0; k < 64; k++)
            lanes[k] = x[j + k] > lanes[k] ? x[j + k] : lanes[k];
    most = lanes[0];
    for (int k = 1; k < 64; k++)
        most = lanes[k] > most ? lanes[k] : most;
    for (; j < count; j++)
        most = x[j] > most ? x[j] : most;
    return most;
}

TIDE_KERNEL(void, multiply, (float *x, int64_t count, float by), (x, count, by))
{
    for (int64_t j = 0; j < count; j++)
        x[j] *= by;
}

/* Logits become exponentials. Until the last tile a row's loss is the logit of its target, negative. */
static void exponential_rows(void *context, int64_t first, int64_t last, int thread)
{
    const struct chunk *c = context;
    float *losses = (float *)c->call->scratch + c->first, *sums = sums_of(c), *most = most_of(c, c->tile);
    (void)thread;
    for (int64_t i = first; i < last; i++) {
        float *x = c->logits + i * c->tokens;
        int64_t target = target_of(c, i) - c->from;
        if (target_of(c, i) < 0)
            continue;
        if (c->head->inverse != 1)
            multiply(x, c->tokens, c->head->inverse);
        if (c->is_again) {
            exponentials(x, c->tokens, most[i]);
            continue;
        }
        if (target >= 0 && target < c->tokens)
            losses[i] = -x[target];
        float before = c->tile ? most_of(c, c->tile - 1)[i] : x[0], here = largest(x, c->tokens);
        most[i] = before > here ? before : here;
        sums[i] = (c->tile ? sums[i] * tide_exp(before - most[i]) : 0) + exponentials(x, c->tokens, most[i]);
    }
}

static void compute_tile(const struct chunk *c)
{
    struct tide_product logits = logits_product(c->head, c->rows, c->tokens);
    tide_matmul(c->call->matmuls, &logits, x_of(c), table_of(c), NULL, c->logits,
                in_scratch(c, c->room->rest));
    tide_parallel(c->rows, 1, exponential_rows, (void *)c);
}

/* Exponentials become gradients. */
static void gradient_rows(void *context, int64_t first, int64_t last, int thread)
{
    const struct chunk *c = context;
    const float *sums = sums_of(c), *most = most_of(c, c->tile), *in_all = most_of(c, c->head->tiles - 1),
                *slopes = in_scratch(c, c->room->slopes);
    (void)thread;
    for (int64_t i = first; i < last; i++) {
        float *x = c->logits + i * c->tokens;
        int64_t target = target_of(c, i) - c->from;
        if (target_of(c, i) < 0) {
            memset(x, 0, (size_t)c->tokens * sizeof *x);
            continue;
        }
        multiply(x, c->tokens, slopes[i] / sums[i] * tide_exp(most[i] - in_all[i]));
        if (target >= 0 && target < c->tokens)
            x[target] -= slopes[i];
    }
}

/* The tile's part of the gradients of x and of the table. */
static void give_back(const struct chunk *c)
{
    const struct tide_call *call = c->call;
    const struct head *h = c->head;
    bool apart = h->from == TIDE_BF16 || c->list;
    void *x_grad =
        apart ? in_scratch(c, c->room->x_grad) : (void *)((float *)call->in_grad[X] + c->first * h->columns);
    if (call->in_grad[TABLE]) {
        bool adds = c->first > 0 || (call->adds >> TABLE & 1);
        struct tide_product table = table_grad_product(h, c->rows, c->tokens, adds);
        tide_matmul(call->matmuls, &table, c->logits, x_of(c), NULL,
                    (char *)call->in_grad[TABLE] +
                        (size_t)(c->from * h->columns) * tide_dtype_bytes(h->stored),
                    in_scratch(c, c->room->rest));
    }
    if (call->in_grad[X]) {
        struct tide_product x = x_grad_product(h, c->rows, c->tokens, c->tile > 0);
        tide_matmul(call->matmuls, &x, c->logits, table_of(c), NULL, x_grad, in_scratch(c, c->room->rest));
    }
}

/* The chunk's rows side by side, if they are not. */
static void gather_rows(void *context, int64_t first, int64_t last, int thread)
{
    const struct chunk *c = context;
    size_t bytes = tide_row_bytes(c->head->from, c->head->columns);
    (void)thread;
    for (int64_t i = first; i < last; i++)
        memcpy((char *)in_scratch(c, c->room->x) + (size_t)i * bytes, x_row(c, row_of(c, i)), bytes);
}

static void chunk_forward(struct chunk *c)
{
    float *losses = (float *)c->call->scratch + c->first, *slopes = in_scratch(c, c->room->slopes),
          *log_probabilities = c->call->out[LOG_PROBABILITIES];
    const float *sums = sums_of(c), *most = most_of(c, c->head->tiles - 1);
    c->is_again = false;
    if (c->list)
        tide_parallel(c->rows, 64, gather_rows, c);
    for (int64_t tile = 0; tile < c->head->tiles; tile++) {
        go_to(c, tile);
        compute_tile(c);
    }
    for (int64_t i = 0; i < c->rows; i++) {
        int64_t row = row_of(c, i);
        float slope = 0, negative = target_of(c, i) < 0 ? 0 : losses[i] + most[i] + logf(sums[i]);
        log_probabilities[row] = -negative;
        losses[i] = target_of(c, i) < 0 ? 0 : tide_head_loss(c->call, row, -negative, &slope);
        slopes[i] = -slope * c->scale * c->head->inverse;
    }
}

/* Gradients of x go where they belong: rounded, or back to their rows. */
static void scatter_rows(void *context, int64_t first, int64_t last, int thread)
{
    const struct chunk *c = context;
    const struct head *h = c->head;
    const float *from = in_scratch(c, c->room->x_grad);
    (void)thread;
    for (int64_t i = first; i < last; i++)
        tide_rows_convert_here((char *)c->call->in_grad[X] +
                                   (size_t)row_of(c, i) * tide_row_bytes(h->from, h->columns),
                               h->from, from + i * h->columns, TIDE_F32, h->columns);
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
    if ((h->from == TIDE_BF16 || c->list) && c->call->in_grad[X])
        tide_parallel(c->rows, 16, scatter_rows, c);
}

/* Lists rows with a target, where others are left out, and clears what those get. Returns how many there are.
 */
static int64_t list_rows(const struct tide_call *call, const struct head *h, const struct room *r,
                         enum tide_direction direction)
{
    const int32_t *targets = call->in[TARGETS];
    int32_t *list = (int32_t *)(void *)((char *)call->scratch + r->list);
    float *log_probabilities = call->out[LOG_PROBABILITIES];
    size_t bytes = tide_row_bytes(h->from, h->columns);
    int64_t count = 0;
    for (int64_t i = 0; i < h->rows; i++) {
        if (h->sparse && targets[i] >= 0)
            list[count] = (int32_t)i;
        else if (h->sparse) {
            log_probabilities[i] = 0;
            if (direction == TIDE_BACKWARD && call->in_grad[X])
                memset((char *)call->in_grad[X] + (size_t)i * bytes, 0, bytes);
        }
        count += targets[i] >= 0;
    }
    return count;
}

static void run(const struct tide_call *call, enum tide_direction direction)
{
    struct head h = head_of(call->graph, call->node);
    struct room r = room_of(call->matmuls, &h, direction);
    const float *losses = call->scratch;
    int64_t places = (int64_t)((call->scratch_bytes - r.tiles) / r.tile_bytes);
    struct chunk c = {.call = call, .head = &h, .room = &r};
    TIDE_CHECK(places, >=, 1);
    int64_t count = list_rows(call, &h, &r, direction), rows = h.sparse ? count : h.rows;
    c.list = h.sparse ? (const int32_t *)(const void *)((char *)call->scratch + r.list) : NULL;
    c.kept = places < h.tiles ? places - 1 : h.tiles;
    c.scale = count ? call->loss_scale / (float)(call->node->loss->means ? count : 1) : 0;
    for (c.first = 0; c.first < rows; c.first += h.chunk) {
        c.rows = smaller(h.chunk, rows - c.first);
        chunk_forward(&c);
        if (direction == TIDE_BACKWARD)
            chunk_backward(&c);
    }
    if (!rows && direction == TIDE_BACKWARD && call->in_grad[TABLE] && !(call->adds >> TABLE & 1))
        memset(call->in_grad[TABLE], 0, (size_t)(h.vocabulary * h.columns) * tide_dtype_bytes(h.stored));
    double sum = 0;
    for (int64_t i = 0; i < rows; i++)
        sum += losses[i];
    *(float *)call->out[LOSS] = count ? (float)(sum / (double)(call->node->loss->means ? count : 1)) : 0;
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
    .op = &tide_op_of_head,
    .scratch = scratch,
    .scratch_recomputing = scratch_recomputing,
    .forward = forward,
    .backward = backward,
};
