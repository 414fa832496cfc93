/* AdamW with decoupled decay, as torch.optim.AdamW: both moments in f32. */
#include "rt/optimizer_adamw.h"

#include <math.h>

static int parts_of(int64_t rows, int64_t columns, struct tide_state_part *ret_parts)
{
    static const char *const names[PARTS] = {"exp_avg", "exp_avg_sq"};
    for (int i = 0; i < PARTS; i++)
        ret_parts[i] = (struct tide_state_part){names[i], TIDE_F32, rows * columns, true};
    return PARTS;
}

static void reference(const struct tide_trained *t, const struct tide_optimizer_step *s, double *ret_weight)
{
    float *m = t->parts[EXP_AVG], *v = t->parts[EXP_AVG_SQ];
    for (int64_t i = 0; i < t->rows * t->columns; i++) {
        double weight = tide_number(t->weight, t->dtype, i),
               g = (double)s->scale * tide_number(t->gradient, t->dtype, i);
        double m1 = (double)s->beta1 * m[i] + (1 - (double)s->beta1) * g;
        double v1 = (double)s->beta2 * v[i] + (1 - (double)s->beta2) * g * g;
        double mean = m1 / (1 - pow(s->beta1, (double)s->step));
        double square = v1 / (1 - pow(s->beta2, (double)s->step));
        m[i] = (float)m1;
        v[i] = (float)v1;
        ret_weight[i] = weight - s->rate * (s->decay * weight + mean / (sqrt(square) + s->epsilon));
    }
}

const struct tide_optimizer tide_optimizer_adamw = {
    .name = "adamw",
    .parts = parts_of,
    .reference = reference,
};
