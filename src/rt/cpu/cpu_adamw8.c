/* AdamW with 8-bit moments, on processors. */
#include "rt/cpu/cpu_dynamic8.h"
#include "rt/cpu/rounding.h"
#include "rt/cpu/update.h"
#include "rt/optimizer_adamw8.h"

#include <math.h>

/* A block of a parameter. */
struct block {
    void *weight;
    const void *gradient;
    uint8_t *codes1, *codes2;
    float *absmax1, *absmax2;
    int64_t count;
    struct tide_rounding rounding;
    uint32_t place;
};

TIDE_INLINE int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* One step of AdamW. Updates the moments m and v and their largest magnitudes. */
TIDE_INLINE void step_block(const struct block *b, struct tide_factors f, bool is_half, float *restrict m,
                            float *restrict v)
{
    float *restrict weight = b->weight;
    tide_bf16 *restrict half = b->weight;
    const float *restrict gradient = b->gradient;
    const tide_bf16 *restrict half_gradient = b->gradient;
    int32_t most1 = 0, most2 = 0; /* as bits, which are ordered like the magnitudes */
    for (int64_t i = 0; i < b->count; i++) {
        float g = (is_half ? tide_from_bf16(half_gradient[i]) : gradient[i]) * f.of.scale;
        float was = is_half ? tide_from_bf16(half[i]) : weight[i];
        float m1 = f.of.beta1 * m[i] + (1.0F - f.of.beta1) * g;
        float v1 = f.of.beta2 * v[i] + (1.0F - f.of.beta2) * g * g;
        float is = was * f.keep - f.corrected * m1 / (sqrtf(v1 * f.inverse) + f.of.epsilon);
        m[i] = m1;
        v[i] = v1;
        most1 = larger(most1, (int32_t)(tide_float_bits(m1) & 0x7fffffff));
        most2 = larger(most2, (int32_t)tide_float_bits(v1));
        if (is_half)
            half[i] = tide_round(is, b->rounding, b->place + (uint32_t)i);
        else
            weight[i] = is;
    }
    *b->absmax1 = tide_bits_float((uint32_t)most1);
    *b->absmax2 = tide_bits_float((uint32_t)most2);
}

TIDE_KERNEL(void, step, (const struct block *b, struct tide_factors f, bool is_half, float *m, float *v),
            (b, f, is_half, m, v))
{
    if (is_half)
        step_block(b, f, true, m, v);
    else
        step_block(b, f, false, m, v);
}

static void update_block(const struct block *b, const struct tide_factors *f, enum tide_dtype dtype)
{
    _Alignas(TIDE_ALIGN) float m[BLOCK], v[BLOCK];
    tide_dynamic8_decode(m, b->codes1, b->count, *b->absmax1, true);
    tide_dynamic8_decode(v, b->codes2, b->count, *b->absmax2, false);
    step(b, *f, dtype == TIDE_BF16, m, v);
    tide_dynamic8_encode(b->codes1, m, b->count, *b->absmax1, true);
    tide_dynamic8_encode(b->codes2, v, b->count, *b->absmax2, false);
}

static void update(const struct tide_trained *t, const struct tide_factors *f, int64_t chunk, int64_t count)
{
    if (t->rows * t->columns < LEAST) {
        tide_cpu_adamw.update(t, f, chunk, count);
        return;
    }
    for (int64_t place = 0; place < count; place += BLOCK) {
        int64_t at = chunk * TIDE_CHUNK + place;
        size_t bytes = tide_dtype_bytes(t->dtype);
        struct block b = {.weight = (char *)t->weight + (size_t)at * bytes,
                          .gradient = (const char *)t->gradient + (size_t)at * bytes,
                          .codes1 = (uint8_t *)t->parts[STATE1] + at,
                          .codes2 = (uint8_t *)t->parts[STATE2] + at,
                          .absmax1 = (float *)t->parts[ABSMAX1] + at / BLOCK,
                          .absmax2 = (float *)t->parts[ABSMAX2] + at / BLOCK,
                          .count = count - place < BLOCK ? count - place : BLOCK,
                          .rounding = tide_rounding(f->seed, t->number, chunk),
                          .place = (uint32_t)place};
        update_block(&b, f, t->dtype);
    }
}

const struct tide_cpu_optimizer tide_cpu_adamw8 = {
    .optimizer = &tide_optimizer_adamw8,
    .update = update,
};
