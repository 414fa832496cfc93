/*
 * AdamW with 8-bit moments, as bitsandbytes' AdamW8bit. Each block of 256 numbers of a parameter stores, for
 * the first and the second moments, the largest magnitude in f32 and all moments as fractions of it, in the
 * codes of dynamic8.h. A step decodes a block, does AdamW's step, and encodes it again; the weights are
 * updated with the moments before encoding. A parameter of fewer than 4096 numbers keeps its moments in f32.
 */
#include "rt/optimizer_adamw8.h"
#include "rt/dynamic8.h"

#include <math.h>

static int parts_of(int64_t rows, int64_t columns, struct tide_state_part *ret_parts)
{
    static const char *const names[PARTS] = {"state1", "state2", "absmax1", "absmax2"};
    int64_t count = rows * columns;
    enum tide_dtype dtype = count < LEAST ? TIDE_F32 : TIDE_U8;
    int parts = count < LEAST ? ABSMAX1 : PARTS;
    for (int i = 0; i < parts; i++)
        ret_parts[i] = i < ABSMAX1
                           ? (struct tide_state_part){names[i], dtype, count, true}
                           : (struct tide_state_part){names[i], TIDE_F32, (count + BLOCK - 1) / BLOCK, false};
    return parts;
}

/* ---- the reference */

static uint8_t nearest_code(const double *number_of, double x)
{
    uint8_t nearest = 0;
    for (uint8_t code = 1; code; code++)
        if (fabs(number_of[code] - x) < fabs(number_of[nearest] - x))
            nearest = code;
    return nearest;
}

static void encode_block(const double *numbers, int64_t count, bool is_signed, uint8_t *codes, float *absmax)
{
    double most = 0, number_of[UINT8_MAX + 1];
    for (int code = 0; code <= UINT8_MAX; code++)
        number_of[code] = tide_dynamic8_number((uint8_t)code, is_signed);
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(numbers[i]));
    for (int64_t i = 0; i < count; i++)
        codes[i] = nearest_code(number_of, numbers[i] / fmax(most, 1e-38));
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
    .parts = parts_of,
    .reference = reference,
};
