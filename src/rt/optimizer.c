#include "rt/optimizer.h"
#include "base/check.h"
#include "base/random.h"

#include <math.h>

const struct tide_optimizer *const tide_optimizers[] = {
    &tide_optimizer_adamw, &tide_optimizer_adamw8, &tide_optimizer_adafactor, &tide_optimizer_sgd, NULL,
};

const struct tide_optimizer *tide_optimizer_find(const char *name)
{
    for (int i = 0; tide_optimizers[i]; i++)
        if (!strcmp(tide_optimizers[i]->name, name))
            return tide_optimizers[i];
    return NULL;
}

int tide_optimizer_parts(const struct tide_optimizer *optimizer, int64_t rows, int64_t columns,
                         struct tide_state_part ret_parts[TIDE_STATE_PARTS])
{
    int count = optimizer->parts(rows, columns, ret_parts);
    TIDE_CHECK(count, <=, TIDE_STATE_PARTS);
    return count;
}

struct tide_factors tide_optimizer_factors(const struct tide_optimizer_step *s)
{
    return (struct tide_factors){.of = *s,
                                 .corrected = (float)(s->rate / (1.0 - pow(s->beta1, (double)s->step))),
                                 .inverse = (float)(1.0 / (1.0 - pow(s->beta2, (double)s->step))),
                                 .keep = 1.0F - s->rate * s->decay,
                                 .seed = tide_random_mix(s->seed ^ tide_random_mix((uint64_t)s->step))};
}
