/* Stochastic gradient descent with momentum, as torch.optim.SGD: decay is added to the gradient. */
#include "rt/optimizer.h"

static int parts_of(int64_t rows, int64_t columns, struct tide_state_part *ret_parts)
{
    ret_parts[0] = (struct tide_state_part){"momentum_buffer", TIDE_F32, rows * columns, true};
    return 1;
}

static void reference(const struct tide_trained *t, const struct tide_optimizer_step *s, double *ret_weight)
{
    float *momentum = t->parts[0];
    for (int64_t i = 0; i < t->rows * t->columns; i++) {
        double weight = tide_number(t->weight, t->dtype, i);
        double g = (double)s->scale * tide_number(t->gradient, t->dtype, i) + (double)s->decay * weight;
        double speed = (double)s->beta1 * momentum[i] + g;
        momentum[i] = (float)speed;
        ret_weight[i] = weight - s->rate * speed;
    }
}

const struct tide_optimizer tide_optimizer_sgd = {
    .name = "sgd",
    .parts = parts_of,
    .reference = reference,
};
