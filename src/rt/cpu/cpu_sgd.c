/* Stochastic gradient descent with momentum, on processors. */
#include "rt/cpu/rounding.h"
#include "rt/cpu/update.h"

TIDE_INLINE float next_weight(float weight, float *momentum, float gradient, const struct tide_factors *f)
{
    float g = gradient * f->of.scale + f->of.decay * weight;
    *momentum = f->of.beta1 * *momentum + g;
    return weight - f->of.rate * *momentum;
}

TIDE_KERNEL(void, update_f32,
            (float *restrict weight, float *restrict momentum, const float *restrict gradient, int64_t count,
             struct tide_factors f),
            (weight, momentum, gradient, count, f))
{
    for (int64_t i = 0; i < count; i++)
        weight[i] = next_weight(weight[i], momentum + i, gradient[i], &f);
}

TIDE_KERNEL(void, update_bf16,
            (tide_bf16 *restrict weight, float *restrict momentum, const tide_bf16 *restrict gradient,
             int64_t count, struct tide_factors f, struct tide_rounding rounding),
            (weight, momentum, gradient, count, f, rounding))
{
    for (int64_t i = 0; i < count; i++)
        weight[i] =
            tide_round(next_weight(tide_from_bf16(weight[i]), momentum + i, tide_from_bf16(gradient[i]), &f),
                       rounding, (uint32_t)i);
}

static void update(const struct tide_trained *t, const struct tide_factors *f, int64_t chunk, int64_t count)
{
    int64_t at = chunk * TIDE_CHUNK;
    float *momentum = (float *)t->parts[0] + at;
    if (t->dtype == TIDE_BF16)
        update_bf16((tide_bf16 *)t->weight + at, momentum, (const tide_bf16 *)t->gradient + at, count, *f,
                    tide_rounding(f->seed, t->number, chunk));
    else
        update_f32((float *)t->weight + at, momentum, (const float *)t->gradient + at, count, *f);
}

const struct tide_cpu_optimizer tide_cpu_sgd = {
    .optimizer = &tide_optimizer_sgd,
    .update = update,
};
