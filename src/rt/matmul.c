#include "rt/matmul.h"
#include "base/allocations.h"
#include "base/check.h"
#include "rt/rows.h"
#include "rt/tiles.h"
#include "rt/update.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <stdlib.h>
#include <string.h>

/* The functions of oneDNN that are used, found at run time. */
#define DNNL_FUNCTIONS(X)                                                                                    \
    X(dnnl_engine_create)                                                                                    \
    X(dnnl_engine_destroy)                                                                                   \
    X(dnnl_stream_create)                                                                                    \
    X(dnnl_stream_destroy)                                                                                   \
    X(dnnl_stream_wait)                                                                                      \
    X(dnnl_memory_desc_init_by_strides)                                                                      \
    X(dnnl_memory_desc_get_size)                                                                             \
    X(dnnl_matmul_desc_init)                                                                                 \
    X(dnnl_primitive_attr_create)                                                                            \
    X(dnnl_primitive_attr_destroy)                                                                           \
    X(dnnl_primitive_attr_set_scratchpad_mode)                                                               \
    X(dnnl_primitive_attr_set_post_ops)                                                                      \
    X(dnnl_post_ops_create)                                                                                  \
    X(dnnl_post_ops_destroy)                                                                                 \
    X(dnnl_post_ops_append_sum)                                                                              \
    X(dnnl_primitive_desc_create)                                                                            \
    X(dnnl_primitive_desc_destroy)                                                                           \
    X(dnnl_primitive_desc_query_md)                                                                          \
    X(dnnl_primitive_create)                                                                                 \
    X(dnnl_primitive_destroy)                                                                                \
    X(dnnl_primitive_execute)                                                                                \
    X(dnnl_memory_create)                                                                                    \
    X(dnnl_memory_destroy)                                                                                   \
    X(dnnl_memory_set_data_handle)                                                                           \
    X(dnnl_set_primitive_cache_capacity)

struct functions {
#define X(name) __typeof__(name) *name;
    DNNL_FUNCTIONS(X)
#undef X
};

enum { A, B, BIAS, C, SCRATCH, ARGUMENTS };

struct prepared {
    struct tide_product product;
    bool in_tiles;
    size_t scratch_bytes; /* of the library or of the tiles */
    dnnl_primitive_t primitive;
    dnnl_memory_t memories[ARGUMENTS]; /* NULL: not an argument of this one */
};

struct tide_matmuls {
    enum tide_matmul_kind kind;
    struct functions dnnl;
    void *library; /* NULL: not wanted, or not there */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct prepared *prepared;
    size_t count, capacity;
    struct tide_due *due;
};

struct tide_product tide_product(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed,
                                 enum tide_dtype from, enum tide_dtype to)
{
    return (struct tide_product){.m = m,
                                 .n = n,
                                 .k = k,
                                 .a_stride = a_transposed ? m : k,
                                 .b_stride = b_transposed ? k : n,
                                 .c_stride = n,
                                 .a_transposed = a_transposed,
                                 .b_transposed = b_transposed,
                                 .from = from,
                                 .to = to,
                                 .a_from = from,
                                 .b_from = from};
}

static int load(struct tide_matmuls *m)
{
    void *library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return -1;
    bool whole = true;
#define X(name) whole = (*(void **)&m->dnnl.name = dlsym(library, #name)) && whole;
    DNNL_FUNCTIONS(X)
#undef X
    if (!whole) {
        dlclose(library);
        return -1;
    }
    m->library = library;
    return 0;
}

int tide_matmuls_new(enum tide_matmul_kind kind, struct tide_matmuls **ret_matmuls, struct tide_err *err)
{
    struct tide_matmuls *m = calloc(1, sizeof *m);
    if (!m)
        return tide_err_set(err, "out of memory");
    m->kind = kind;
    if (kind != TIDE_MATMUL_PLAIN && !load(m)) {
        m->dnnl.dnnl_set_primitive_cache_capacity(0); /* they are kept here, and only here */
        if (m->dnnl.dnnl_engine_create(&m->engine, dnnl_cpu, 0) ||
            m->dnnl.dnnl_stream_create(&m->stream, m->engine, dnnl_stream_in_order)) {
            tide_matmuls_free(m);
            return tide_err_set(err, "oneDNN finds no processor to compute on");
        }
    }
    *ret_matmuls = m;
    return 0;
}

static void discard(const struct tide_matmuls *m, const struct prepared *p)
{
    for (int j = 0; j < ARGUMENTS; j++)
        if (p->memories[j])
            m->dnnl.dnnl_memory_destroy(p->memories[j]);
    if (p->primitive)
        m->dnnl.dnnl_primitive_destroy(p->primitive);
}

void tide_matmuls_free(struct tide_matmuls *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++)
        discard(m, &m->prepared[i]);
    if (m->stream)
        m->dnnl.dnnl_stream_destroy(m->stream);
    if (m->engine)
        m->dnnl.dnnl_engine_destroy(m->engine);
    free(m->prepared);
    free(m); /* the library stays: its threads may still be about */
}

static bool has_tiles(const struct tide_matmuls *m)
{
    return m->kind == TIDE_MATMUL_BEST && tide_tiles_can(TIDE_F32);
}

bool tide_matmuls_fast(const struct tide_matmuls *m)
{
    return m->library || has_tiles(m);
}

const char *tide_matmuls_name(const struct tide_matmuls *m)
{
    if (has_tiles(m))
        return m->library ? "AVX-512 tiles, oneDNN" : "AVX-512 tiles";
    return m->library ? "oneDNN" : "plain C products";
}

static bool same(const struct tide_product *a, const struct tide_product *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->a_stride == b->a_stride &&
           a->b_stride == b->b_stride && a->c_stride == b->c_stride && a->a_transposed == b->a_transposed &&
           a->b_transposed == b->b_transposed && a->adds == b->adds && a->has_bias == b->has_bias &&
           a->from == b->from && a->to == b->to && a->a_from == b->a_from && a->b_from == b->b_from;
}

static struct prepared *find(const struct tide_matmuls *m, const struct tide_product *product)
{
    for (size_t i = 0; i < m->count; i++)
        if (same(&m->prepared[i].product, product))
            return &m->prepared[i];
    return NULL;
}

static dnnl_data_type_t type_of(enum tide_dtype dtype)
{
    return dtype == TIDE_BF16 ? dnnl_bf16 : dnnl_f32;
}

static int describe(const struct tide_matmuls *m, dnnl_memory_desc_t *md, int64_t rows, int64_t columns,
                    int64_t stride, bool transposed, enum tide_dtype dtype)
{
    dnnl_dims_t dims = {rows, columns}, strides = {transposed ? 1 : stride, transposed ? stride : 1};
    return m->dnnl.dnnl_memory_desc_init_by_strides(md, 2, dims, type_of(dtype), strides) != dnnl_success;
}

/* The product as oneDNN's descriptors. */
struct described {
    dnnl_memory_desc_t a, b, bias, c;
    dnnl_matmul_desc_t matmul;
};

static int describe_all(const struct tide_matmuls *m, const struct tide_product *p, struct described *d)
{
    dnnl_dims_t bias = {1, p->n}, bias_strides = {p->n, 1};
    return describe(m, &d->a, p->m, p->k, p->a_stride, p->a_transposed, p->from) ||
           describe(m, &d->b, p->k, p->n, p->b_stride, p->b_transposed, p->from) ||
           describe(m, &d->c, p->m, p->n, p->c_stride, false, p->to) ||
           m->dnnl.dnnl_memory_desc_init_by_strides(&d->bias, 2, bias, dnnl_f32, bias_strides) ||
           m->dnnl.dnnl_matmul_desc_init(&d->matmul, &d->a, &d->b, p->has_bias ? &d->bias : NULL, &d->c);
}

static int make_memories(const struct tide_matmuls *m, const struct described *d,
                         const dnnl_memory_desc_t *scratch, struct prepared *to)
{
    const dnnl_memory_desc_t *of[ARGUMENTS] = {&d->a, &d->b, to->product.has_bias ? &d->bias : NULL, &d->c,
                                               to->scratch_bytes ? scratch : NULL};
    for (int i = 0; i < ARGUMENTS; i++)
        if (of[i] && m->dnnl.dnnl_memory_create(&to->memories[i], of[i], m->engine, DNNL_MEMORY_NONE))
            return -1;
    return 0;
}

/* What is smaller pays for packing, and for threads that meet twice, more than tiles gain. */
static bool belongs_in_tiles(const struct tide_matmuls *m, const struct tide_product *p)
{
    const double large = 64e6;
    return m->kind == TIDE_MATMUL_BEST && tide_tiles_can(p->from) &&
           (!m->library || (double)p->m * (double)p->n * (double)p->k >= large);
}

static int prepare(const struct tide_matmuls *m, struct prepared *to)
{
    struct described d;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t after = NULL;
    dnnl_primitive_desc_t pd = NULL;
    int bad = describe_all(m, &to->product, &d) || m->dnnl.dnnl_primitive_attr_create(&attributes) ||
              m->dnnl.dnnl_post_ops_create(&after) ||
              m->dnnl.dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user) ||
              (to->product.adds && (m->dnnl.dnnl_post_ops_append_sum(after, 1.0F) ||
                                    m->dnnl.dnnl_primitive_attr_set_post_ops(attributes, after)));
    if (!bad)
        bad = m->dnnl.dnnl_primitive_desc_create(&pd, &d.matmul, attributes, m->engine, NULL);
    if (!bad) {
        const dnnl_memory_desc_t *scratch =
            m->dnnl.dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        to->scratch_bytes = m->dnnl.dnnl_memory_desc_get_size(scratch);
        bad = m->dnnl.dnnl_primitive_create(&to->primitive, pd) || make_memories(m, &d, scratch, to);
    }
    if (pd)
        m->dnnl.dnnl_primitive_desc_destroy(pd);
    if (after)
        m->dnnl.dnnl_post_ops_destroy(after);
    if (attributes)
        m->dnnl.dnnl_primitive_attr_destroy(attributes);
    return bad ? -1 : 0;
}

bool tide_matmuls_can(const struct tide_matmuls *m, enum tide_dtype dtype)
{
    struct prepared trial = {.product = tide_product(16, 16, 16, false, false, dtype, TIDE_F32)};
    bool can = !m->library || !prepare(m, &trial);
    discard(m, &trial);
    return can;
}

int tide_matmuls_want(struct tide_matmuls *m, const struct tide_product *product, struct tide_err *err)
{
    if (find(m, product))
        return 0;
    if (m->count == m->capacity) {
        size_t more = m->capacity ? m->capacity * 2 : 32;
        struct prepared *moved = realloc(m->prepared, more * sizeof *moved);
        if (!moved)
            return tide_err_set(err, "out of memory");
        m->prepared = moved;
        m->capacity = more;
    }
    struct prepared *added = &m->prepared[m->count++]; /* counted first, so that _free takes back its parts */
    *added = (struct prepared){.product = *product, .in_tiles = belongs_in_tiles(m, product)};
    if (added->in_tiles) {
        added->scratch_bytes = tide_tiles_scratch(product);
    } else if (m->library && prepare(m, added)) {
        if (!tide_matmuls_can(m, product->from)) {
            tide_err_set(err, "this processor does not multiply bf16");
            return tide_err_hint(err, "compute in f32");
        }
        return tide_err_set(err, "oneDNN cannot multiply (%lld x %lld) by (%lld x %lld)",
                            (long long)product->m, (long long)product->k, (long long)product->k,
                            (long long)product->n);
    }
    return 0;
}

/* Operands that are rounded before the product lie in scratch. */
static size_t a_rounded_bytes(const struct prepared *p)
{
    const struct tide_product *of = &p->product;
    return p->primitive && of->a_from != of->from ? tide_aligned((size_t)(of->m * of->k) * 2) : 0;
}

static size_t b_rounded_bytes(const struct prepared *p)
{
    const struct tide_product *of = &p->product;
    return p->primitive && of->b_from != of->from ? tide_aligned((size_t)(of->k * of->n) * 2) : 0;
}

size_t tide_matmuls_scratch(const struct tide_matmuls *m, const struct tide_product *product)
{
    const struct prepared *found = find(m, product);
    TIDE_CHECK_TRUE(found);
    return a_rounded_bytes(found) + b_rounded_bytes(found) + found->scratch_bytes;
}

static double as(enum tide_dtype dtype, double number)
{
    return dtype == TIDE_BF16 ? tide_from_bf16(tide_to_bf16((float)number)) : number;
}

static void multiply_plainly(const struct tide_product *p, const void *a, const void *b, const float *bias,
                             void *c)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->has_bias ? bias[j] : 0;
            for (int64_t k = 0; k < p->k; k++) {
                int64_t a_at = p->a_transposed ? k * p->a_stride + i : i * p->a_stride + k,
                        b_at = p->b_transposed ? j * p->b_stride + k : k * p->b_stride + j;
                sum += as(p->from, tide_number(a, p->a_from, a_at)) *
                       as(p->from, tide_number(b, p->b_from, b_at));
            }
            int64_t at = i * p->c_stride + j;
            if (p->adds)
                sum += tide_number(c, p->to, at);
            tide_number_set(c, p->to, at, sum);
        }
}

static void multiply_in_library(struct tide_matmuls *m, struct prepared *p, void *const data[ARGUMENTS])
{
    static const int names[ARGUMENTS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST,
                                         DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t arguments[ARGUMENTS];
    int count = 0;
    for (int i = 0; i < ARGUMENTS; i++) {
        if (!p->memories[i])
            continue;
        m->dnnl.dnnl_memory_set_data_handle(p->memories[i], data[i]);
        arguments[count++] = (dnnl_exec_arg_t){names[i], p->memories[i]};
    }
    tide_allocations_pause(); /* it keeps its list of arguments for as long as it runs */
    TIDE_CHECK(m->dnnl.dnnl_primitive_execute(p->primitive, m->stream, count, arguments), ==, dnnl_success);
    TIDE_CHECK(m->dnnl.dnnl_stream_wait(m->stream), ==, dnnl_success);
    tide_allocations_resume();
}

/* The operand as it is multiplied; room of that many bytes is taken from scratch. */
static const void *rounded(const void *operand, int64_t count, size_t bytes, char **scratch)
{
    void *room = *scratch;
    if (!bytes)
        return operand;
    tide_rows_convert(room, TIDE_BF16, operand, TIDE_F32, count);
    *scratch += bytes;
    return room;
}

void tide_matmuls_meanwhile(struct tide_matmuls *m, struct tide_due *due)
{
    m->due = due;
}

struct tide_due *tide_matmuls_due(const struct tide_matmuls *m)
{
    return m->due;
}

static void multiply(struct tide_matmuls *m, struct prepared *p, const struct tide_matmul_call *one,
                     void *scratch)
{
    const struct tide_product *product = &one->product;
    const void *a = one->a, *b = one->b;
    if (p->in_tiles) {
        tide_tiles_multiply(one, 1, scratch, m->due);
        return;
    }
    if (p->primitive) {
        char *rest = scratch;
        a = rounded(a, product->m * product->k, a_rounded_bytes(p), &rest);
        b = rounded(b, product->k * product->n, b_rounded_bytes(p), &rest);
        multiply_in_library(m, p, (void *[ARGUMENTS]){(void *)a, (void *)b, (void *)one->bias, one->c, rest});
    } else {
        multiply_plainly(product, a, b, one->bias, one->c);
    }
    if (!one->squares)
        return;
    TIDE_CHECK(product->c_stride, ==, product->n);
    *one->squares = tide_update_squares(one->c, product->m * product->n);
}

void tide_matmul_all(struct tide_matmuls *m, const struct tide_matmul_call *calls, int count, void *scratch)
{
    struct prepared *found[TIDE_MATMULS_AT_ONCE];
    bool in_tiles = count > 0;
    TIDE_CHECK(count, <=, TIDE_MATMULS_AT_ONCE);
    for (int i = 0; i < count; i++) {
        found[i] = find(m, &calls[i].product);
        TIDE_CHECK_TRUE(found[i]);
        in_tiles = in_tiles && found[i]->in_tiles;
    }
    if (in_tiles)
        tide_tiles_multiply(calls, count, scratch, m->due);
    for (int i = 0; i < count && !in_tiles; i++)
        multiply(m, found[i], &calls[i], scratch);
}

void tide_matmul(struct tide_matmuls *m, const struct tide_product *product, const void *a, const void *b,
                 const float *bias, void *c, void *scratch)
{
    struct tide_matmul_call one = {.product = *product, .a = a, .b = b, .bias = bias, .c = c};
    tide_matmul_all(m, &one, 1, scratch);
}
