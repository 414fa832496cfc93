/*
 * AdamW with moments of eight bits, as bitsandbytes' AdamW8bit: each block of 256 numbers of a parameter has
 * the largest magnitude of its first and of its second moments in f32, and all of them as shares of it, in
 * the codes of dynamic8.h. A step decodes a block, is AdamW's, and encodes it again; the weights are updated
 * with the moments as they were before that. A parameter of fewer than 4096 numbers has them in f32.
 */
#include "rt/cpu/dynamic8.h"
#include "rt/optimizer.h"
#include "rt/cpu/rounding.h"

#include <math.h>

enum { BLOCK = 256, LEAST = 4096 };
enum { STATE1, STATE2, ABSMAX1, ABSMAX2, PARTS };

static int parts_of(int64_t rows, int64_t columns, struct tide_state_part *ret_parts)
{
    static const char *const names[PARTS] = {"state1", "state2", "absmax1", "absmax2"};
    int64_t count = rows * columns;
    enum tide_dtype dtype = count < LEAST ? TIDE_F32 : TIDE_U8;
    int parts = count < LEAST ? ABSMAX1 : PARTS;
    for (int i = 0; i < parts; i++)
        ret_parts[i] =
            i < ABSMAX1 ? (struct tide_state_part){names[i], dtype, count, true, 0}
                        : (struct tide_state_part){names[i], TIDE_F32, (count + BLOCK - 1) / BLOCK, false, 0};
    return parts;
}

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

/* A step of AdamW with the moments m and v, which are brought up to date, and their largest magnitudes. */
TIDE_INLINE void step_block(const struct block *b, struct tide_factors f, bool is_half, float *restrict m,
                            float *restrict v)
{
    float *restrict weight = b->weight;
    tide_bf16 *restrict half = b->weight;
    const float *restrict gradient = b->gradient;
    const tide_bf16 *restrict half_gradient = b->gradient;
    int32_t most1 = 0, most2 = 0; /* bits of magnitudes are ordered as these are */
    for (int64_t i = 0; i < b->count; i++) {
        float g = (is_half ? tide_from_bf16(half_gradient[i]) : gradient[i]) * f.scale;
        float was = is_half ? tide_from_bf16(half[i]) : weight[i];
        float m1 = f.beta1 * m[i] + (1.0F - f.beta1) * g;
        float v1 = f.beta2 * v[i] + (1.0F - f.beta2) * g * g;
        float is = was * f.keep - f.corrected * m1 / (sqrtf(v1 * f.inverse) + f.epsilon);
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

TIDE_KERNEL(void, step_f32, (const struct block *b, struct tide_factors f, float *m, float *v), (b, f, m, v))
{
    step_block(b, f, false, m, v);
}

TIDE_KERNEL(void, step_bf16, (const struct block *b, struct tide_factors f, float *m, float *v), (b, f, m, v))
{
    step_block(b, f, true, m, v);
}

static void update_block(const struct block *b, const struct tide_factors *f, enum tide_dtype dtype)
{
    _Alignas(TIDE_ALIGN) float m[BLOCK], v[BLOCK];
    tide_dynamic8_decode(m, b->codes1, b->count, *b->absmax1, true);
    tide_dynamic8_decode(v, b->codes2, b->count, *b->absmax2, false);
    if (dtype == TIDE_BF16)
        step_bf16(b, *f, m, v);
    else
        step_f32(b, *f, m, v);
    tide_dynamic8_encode(b->codes1, m, b->count, *b->absmax1, true);
    tide_dynamic8_encode(b->codes2, v, b->count, *b->absmax2, false);
}

static void update(const struct tide_trained *t, const struct tide_factors *f, int64_t first, int64_t last)
{
    if (t->rows * t->columns < LEAST) {
        tide_optimizer_adamw.update(t, f, first, last);
        return;
    }
    for (int64_t at = first; at < last; at += BLOCK) {
        size_t bytes = tide_dtype_bytes(t->dtype);
        struct block b = {.weight = (char *)t->weight + (size_t)at * bytes,
                          .gradient = (const char *)t->gradient + (size_t)at * bytes,
                          .codes1 = (uint8_t *)t->parts[STATE1] + at,
                          .codes2 = (uint8_t *)t->parts[STATE2] + at,
                          .absmax1 = (float *)t->parts[ABSMAX1] + at / BLOCK,
                          .absmax2 = (float *)t->parts[ABSMAX2] + at / BLOCK,
                          .count = last - at < BLOCK ? last - at : BLOCK};
        b.rounding = tide_rounding(f->seed, t->number, at / TIDE_CHUNK);
        b.place = (uint32_t)(at % TIDE_CHUNK);
        update_block(&b, f, t->dtype);
    }
}

/* ---- the reference */

static uint8_t nearest_code(double x, bool is_signed)
{
    uint8_t nearest = 0;
    for (uint8_t code = 1; code; code++)
        if (fabs(tide_dynamic8_number(code, is_signed) - x) <
            fabs(tide_dynamic8_number(nearest, is_signed) - x))
            nearest = code;
    return nearest;
}

static void encode_block(const double *numbers, int64_t count, bool is_signed, uint8_t *codes, float *absmax)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(numbers[i]));
    for (int64_t i = 0; i < count; i++)
        codes[i] = nearest_code(numbers[i] / fmax(most, 1e-38), is_signed);
    *absmax = (float)most;
}

static void reference_block(const struct tide_trained *t, const struct tide_optimizer_step *s, int64_t first,
                            double *ret_weight)
{
    double m[BLOCK] = {0}, v[BLOCK] = {0};
    int64_t rest = t->rows * t->columns - first, count = rest < BLOCK ? rest : BLOCK;
    uint8_t *codes1 = (uint8_t *)t->parts[STATE1] + first, *codes2 = (uint8_t *)t->parts[STATE2] + first;
    float *absmax1 = (float *)t->parts[ABSMAX1] + first / BLOCK,
          *absmax2 = (float *)t->parts[ABSMAX2] + first / BLOCK;
    for (int64_t i = 0; i < count; i++) {
        double weight = tide_number(t->weight, t->dtype, first + i);
        double g = (double)s->scale * tide_number(t->gradient, t->dtype, first + i);
        m[i] = s->beta1 * tide_dynamic8_number(codes1[i], true) * *absmax1 + (1 - (double)s->beta1) * g;
        v[i] = s->beta2 * tide_dynamic8_number(codes2[i], false) * *absmax2 + (1 - (double)s->beta2) * g * g;
        double mean = m[i] / (1 - pow(s->beta1, (double)s->step));
        double square = v[i] / (1 - pow(s->beta2, (double)s->step));
        ret_weight[first + i] = weight - s->rate * (s->decay * weight + mean / (sqrt(square) + s->epsilon));
    }
    encode_block(m, count, true, codes1, absmax1);
    encode_block(v, count, false, codes2, absmax2);
}

static void reference(const struct tide_trained *t, const struct tide_optimizer_step *s, double *ret_weight)
{
    if (t->rows * t->columns < LEAST) {
        tide_optimizer_adamw.reference(t, s, ret_weight);
        return;
    }
    for (int64_t first = 0; first < t->rows * t->columns; first += BLOCK)
        reference_block(t, s, first, ret_weight);
}

const struct tide_optimizer tide_optimizer_adamw8 = {
    .name = "adamw8",
    .unit = BLOCK,
    .operations = 100,
    .reads = 1,
    .looks = 1,
    .parts = parts_of,
    .update = update,
    .reference = reference,
};
