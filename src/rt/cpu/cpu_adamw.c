/* AdamW on processors. */
#include "rt/cpu/rounding.h"
#include "rt/cpu/update.h"
#include "rt/optimizer_adamw.h"

#include <math.h>

enum { PAGE = 4096 };

/* Prefetches the first lines of the next page: processors do not prefetch across a page, and moments are in
 * small pages (cpu_device.c). */
TIDE_INLINE void fetch_page(const float *at)
{
    const char *page = (const char *)(((uintptr_t)at / PAGE + 1) * PAGE);
    __builtin_prefetch(page, 1);
    __builtin_prefetch(page + 64, 1);
}

/* Returns the weight after the step, and updates its moments. */
TIDE_INLINE float next_weight(float weight, float *m, float *v, float gradient, const struct tide_factors *f)
{
    float g = gradient * f->of.scale;
    float m1 = f->of.beta1 * *m + (1.0F - f->of.beta1) * g;
    float v1 = f->of.beta2 * *v + (1.0F - f->of.beta2) * g * g;
    *m = m1;
    *v = v1;
    return weight * f->keep - f->corrected * m1 / (sqrtf(v1 * f->inverse) + f->of.epsilon);
}

TIDE_KERNEL(void, update_f32,
            (float *restrict weight, float *restrict m, float *restrict v, const float *restrict gradient,
             int64_t count, struct tide_factors f),
            (weight, m, v, gradient, count, f))
{
    for (int64_t i = 0; i < count; i++)
        weight[i] = next_weight(weight[i], m + i, v + i, gradient[i], &f);
}

TIDE_KERNEL(void, update_bf16,
            (tide_bf16 *restrict weight, float *restrict m, float *restrict v,
             const tide_bf16 *restrict gradient, int64_t count, struct tide_factors f,
             struct tide_rounding rounding),
            (weight, m, v, gradient, count, f, rounding))
{
    for (int64_t i = 0; i < count; i++)
        weight[i] =
            tide_round(next_weight(tide_from_bf16(weight[i]), m + i, v + i, tide_from_bf16(gradient[i]), &f),
                       rounding, (uint32_t)i);
}

static void update(const struct tide_trained *t, const struct tide_factors *f, int64_t chunk, int64_t count)
{
    int64_t at = chunk * TIDE_CHUNK;
    float *m = (float *)t->parts[EXP_AVG] + at, *v = (float *)t->parts[EXP_AVG_SQ] + at;
    fetch_page(m);
    fetch_page(v);
    if (t->dtype == TIDE_BF16)
        update_bf16((tide_bf16 *)t->weight + at, m, v, (const tide_bf16 *)t->gradient + at, count, *f,
                    tide_rounding(f->seed, t->number, chunk));
    else
        update_f32((float *)t->weight + at, m, v, (const float *)t->gradient + at, count, *f);
}

const struct tide_cpu_optimizer tide_cpu_adamw = {
    .optimizer = &tide_optimizer_adamw,
    .update = update,
};
