#include "rt/update.h"
#include "rt/kernel.h"
#include "rt/threads.h"

#include <math.h>

enum { STRETCH = 1 << 15, GROUP = 256 }; /* stretches summed before their sums are added up */
enum { PAGE = 4096 };

TIDE_KERNEL(double, squares_of, (const float *x, int64_t count), (x, count))
{
    double lanes[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        for (int k = 0; k < 16; k++)
            lanes[k] += (double)x[i + k] * x[i + k];
    for (; i < count; i++)
        sum += (double)x[i] * x[i];
    for (int k = 0; k < 16; k++)
        sum += lanes[k];
    return sum;
}

struct squares {
    const float *gradient;
    int64_t count;
    double sums[GROUP];
};

static void square_stretches(void *context, int64_t first, int64_t last, int thread)
{
    struct squares *s = context;
    (void)thread;
    for (int64_t i = first; i < last; i++) {
        int64_t at = i * STRETCH, count = s->count - at < STRETCH ? s->count - at : STRETCH;
        s->sums[i] = squares_of(s->gradient + at, count);
    }
}

double tide_update_squares(const float *gradient, int64_t count)
{
    double sum = 0;
    for (int64_t at = 0; at < count; at += (int64_t)GROUP * STRETCH) {
        struct squares s = {.gradient = gradient + at};
        s.count = count - at < (int64_t)GROUP * STRETCH ? count - at : (int64_t)GROUP * STRETCH;
        int64_t stretches = (s.count + STRETCH - 1) / STRETCH;
        tide_parallel(stretches, 1, square_stretches, &s);
        for (int64_t i = 0; i < stretches; i++)
            sum += s.sums[i];
    }
    return sum;
}

/* The first lines of the page after `at`: processors do not fetch ahead beyond a page, and moments lie in
 * small ones (machine.c). */
TIDE_INLINE void fetch_page(const float *at)
{
    const char *page = (const char *)(((uintptr_t)at / PAGE + 1) * PAGE);
    __builtin_prefetch(page, 1);
    __builtin_prefetch(page + 64, 1);
}

TIDE_KERNEL(void, adamw_some,
            (float *restrict weight, float *restrict m, float *restrict v, const float *restrict gradient,
             int64_t count, float scale, float beta1, float beta2, float rate, float inverse, float epsilon,
             float keep),
            (weight, m, v, gradient, count, scale, beta1, beta2, rate, inverse, epsilon, keep))
{
    for (int64_t first = 0; first < count; first += PAGE / (int64_t)sizeof *m) {
        int64_t last = first + PAGE / (int64_t)sizeof *m;
        last = last < count ? last : count;
        if (last < count) {
            fetch_page(m + first);
            fetch_page(v + first);
        }
        for (int64_t i = first; i < last; i++) {
            float g = gradient[i] * scale;
            float m1 = beta1 * m[i] + (1.0F - beta1) * g;
            float v1 = beta2 * v[i] + (1.0F - beta2) * g * g;
            m[i] = m1;
            v[i] = v1;
            weight[i] = weight[i] * keep - rate * m1 / (sqrtf(v1 * inverse) + epsilon);
        }
    }
}

struct tide_adamw_factors tide_adamw_factors(const struct tide_adamw *how)
{
    return (struct tide_adamw_factors){.scale = how->scale,
                                       .beta1 = how->beta1,
                                       .beta2 = how->beta2,
                                       .epsilon = how->epsilon,
                                       .rate =
                                           (float)(how->rate / (1.0 - pow(how->beta1, (double)how->step))),
                                       .inverse = (float)(1.0 / (1.0 - pow(how->beta2, (double)how->step))),
                                       .keep = 1.0F - how->rate * how->decay};
}

void tide_update_stretch(float *weight, float *m, float *v, const float *gradient, int64_t count,
                         const struct tide_adamw_factors *f)
{
    adamw_some(weight, m, v, gradient, count, f->scale, f->beta1, f->beta2, f->rate, f->inverse, f->epsilon,
               f->keep);
}

struct adamw {
    float *weight, *m, *v;
    const float *gradient;
    struct tide_adamw_factors factors;
};

static void adamw_stretch(void *context, int64_t first, int64_t last, int thread)
{
    const struct adamw *a = context;
    (void)thread;
    tide_update_stretch(a->weight + first, a->m + first, a->v + first, a->gradient + first, last - first,
                        &a->factors);
}

void tide_update_adamw(float *weight, float *m, float *v, const float *gradient, int64_t count,
                       const struct tide_adamw *how)
{
    struct adamw a = {weight, m, v, gradient, tide_adamw_factors(how)};
    tide_parallel(count, 16384, adamw_stretch, &a);
}
