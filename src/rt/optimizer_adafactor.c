/*
 * Adafactor, as torch.optim.Adafactor. For a matrix it keeps only the means of squared gradients by row and
 * by column; their product over the mean of all approximates the second moment of each number. For a vector
 * it keeps them all. There is no first moment. The length of a step is proportional to the size of the
 * weights, and the whole step is limited.
 */
#include "rt/optimizer_adafactor.h"

static int parts_of(int64_t rows, int64_t columns, struct tide_state_part *ret_parts)
{
    int count = rows == 1 ? VECTOR_PARTS : MATRIX_PARTS;
    if (rows == 1) {
        ret_parts[SQUARES] = (struct tide_state_part){"exp_avg_sq", TIDE_F32, columns, true};
    } else {
        ret_parts[BY_ROW] = (struct tide_state_part){"exp_avg_sq_row", TIDE_F32, rows, false};
        ret_parts[BY_COLUMN] = (struct tide_state_part){"exp_avg_sq_col", TIDE_F32, columns, false};
    }
    ret_parts[count - 1] = (struct tide_state_part){NULL, TIDE_F32, WHOLE_NUMBERS, false};
    return count;
}

/* ---- the reference */

static double gradient_at(const struct tide_trained *t, const struct tide_optimizer_step *s, int64_t at)
{
    return (double)s->scale * tide_number(t->gradient, t->dtype, at);
}

/* The mean square of `count` gradients that are `apart` numbers apart. */
static double mean_square(const struct tide_trained *t, const struct tide_optimizer_step *s, int64_t first,
                          int64_t apart, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += gradient_at(t, s, first + i * apart) * gradient_at(t, s, first + i * apart);
    return sum / (double)count;
}

/* Computes a matrix's second moments. Updates the factors, which are rounded as they are stored. */
static void reference_matrix(const struct tide_trained *t, const struct tide_optimizer_step *s, double mixing,
                             double *ret_seconds)
{
    float *by_row = t->parts[BY_ROW], *by_column = t->parts[BY_COLUMN];
    double mean = 0;
    for (int64_t i = 0; i < t->rows; i++) {
        by_row[i] = mixed(by_row[i], mean_square(t, s, i * t->columns, 1, t->columns), mixing);
        mean += by_row[i] / (double)t->rows;
    }
    for (int64_t j = 0; j < t->columns; j++)
        by_column[j] = mixed(by_column[j], mean_square(t, s, j, t->columns, t->rows), mixing);
    for (int64_t i = 0; i < t->rows * t->columns; i++)
        ret_seconds[i] =
            (double)by_row[i / t->columns] * by_column[i % t->columns] / fmax(mean, (double)least_root);
}

static void reference_vector(const struct tide_trained *t, const struct tide_optimizer_step *s, double mixing,
                             double *ret_seconds)
{
    float *squares = t->parts[SQUARES];
    for (int64_t i = 0; i < t->columns; i++) {
        squares[i] = mixed(squares[i], mean_square(t, s, i, 1, 1), mixing);
        ret_seconds[i] = squares[i];
    }
}

static void reference(const struct tide_trained *t, const struct tide_optimizer_step *s, double *ret_weight)
{
    int64_t count = t->rows * t->columns;
    double mixing = pow((double)s->step, beta2_decay), weights = 0, steps = 0;
    if (has_one_row(t))
        reference_vector(t, s, mixing, ret_weight);
    else
        reference_matrix(t, s, mixing, ret_weight);
    for (int64_t i = 0; i < count; i++) {
        double weight = tide_number(t->weight, t->dtype, i);
        ret_weight[i] = gradient_at(t, s, i) / fmax(sqrt(ret_weight[i]), (double)least_root);
        weights += weight * weight;
        steps += ret_weight[i] * ret_weight[i];
    }
    double length = length_of(weights, steps, (double)count, fmin(s->rate, 1 / sqrt((double)s->step)));
    for (int64_t i = 0; i < count; i++)
        ret_weight[i] =
            tide_number(t->weight, t->dtype, i) * (1 - (double)s->rate * s->decay) - length * ret_weight[i];
}

const struct tide_optimizer tide_optimizer_adafactor = {
    .name = "adafactor",
    .parts = parts_of,
    .reference = reference,
};
