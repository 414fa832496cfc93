/*
 * Adafactor on processors.
 *
 * It reads the whole gradient twice before it updates anything: once for the means, once for the length of
 * the step. Sums run over a fixed number of ranges in f64 and are added in order.
 */
#include "rt/cpu/rounding.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/update.h"
#include "rt/optimizer_adafactor.h"

enum { STRETCHES = 16 };

/* For a matrix, each range has the sums of squared gradients by column. */
static size_t scratch_bytes(int64_t rows, int64_t columns)
{
    return (size_t)STRETCHES * (size_t)(rows == 1 ? 0 : columns) * sizeof(double);
}

/* ---- sums */

enum { LANES = 16 };

TIDE_INLINE double sum_of(const double lanes[LANES])
{
    double sum = 0;
    for (int k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}

/* The sum of squares of a row of gradients; also adds each square to its column. */
TIDE_KERNEL(double, squares_of_row, (const float *restrict g, double *restrict columns, int64_t count),
            (g, columns, count))
{
    double lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) {
            double square = (double)g[i + k] * g[i + k];
            columns[i + k] += square;
            lanes[k] += square;
        }
    for (; i < count; i++) {
        double square = (double)g[i] * g[i];
        columns[i] += square;
        lanes[0] += square;
    }
    return sum_of(lanes);
}

/* The second moment of a number. The loop over what is left must give the same bits as the vector loop. So
 * each sum here has one product, which the compiler fuses in both loops alike, and there is no branch. */
TIDE_INLINE float second_of(float seconds, float g, float factor, bool is_vector)
{
    return is_vector ? seconds + factor * (g * g - seconds) : factor * seconds;
}

/* The second moment, but at least least_root squared. Bits of non-negative floats are ordered like the
 * floats. */
TIDE_INLINE float at_least(float second)
{
    int32_t bits = (int32_t)tide_float_bits(second),
            least = (int32_t)tide_float_bits(least_root * least_root);
    return tide_bits_float((uint32_t)(bits > least ? bits : least));
}

/* The sum of squares of the step that would be made. */
TIDE_INLINE double squares_of_step(const float *restrict g, const float *restrict seconds, int64_t count,
                                   float scale, float factor, bool is_vector)
{
    double lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float x = g[i + k] * scale;
            lanes[k] += (double)(x * x / at_least(second_of(seconds[i + k], x, factor, is_vector)));
        }
    for (; i < count; i++) {
        float x = g[i] * scale;
        lanes[0] += (double)(x * x / at_least(second_of(seconds[i], x, factor, is_vector)));
    }
    return sum_of(lanes);
}

TIDE_KERNEL(double, squares_of_steps,
            (const float *g, const float *seconds, int64_t count, float scale, float factor, bool is_vector),
            (g, seconds, count, scale, factor, is_vector))
{
    return is_vector ? squares_of_step(g, seconds, count, scale, factor, true)
                     : squares_of_step(g, seconds, count, scale, factor, false);
}

/* ---- the whole gradient */

struct measuring {
    const struct tide_trained *trained;
    const struct tide_factors *factors;
    double *columns; /* [STRETCHES][columns] */
    struct whole whole;
    double weights[STRETCHES], rows[STRETCHES], step[STRETCHES]; /* sums of each range */
};

static int64_t start_of(int64_t count, int64_t stretch)
{
    return count * stretch / STRETCHES;
}

static double squares_of_weights(const struct tide_trained *t, int64_t first, int64_t last)
{
    return tide_squares((const char *)t->weight + (size_t)first * tide_dtype_bytes(t->dtype), t->dtype,
                        last - first);
}

/* Returns the end of the gradients from `at` on that are read together, at most `last`. */
static int64_t end_of(const struct tide_trained *t, int64_t at, int64_t last)
{
    int64_t end = t->dtype == TIDE_BF16 ? (at / TIDE_CHUNK + 1) * TIDE_CHUNK : last;
    return end < last ? end : last;
}

/* Returns these gradients in place, or widened. */
static const float *gradients_of(const struct tide_trained *t, int64_t at, int64_t end,
                                 float room[TIDE_CHUNK])
{
    if (t->dtype == TIDE_F32)
        return (const float *)t->gradient + at;
    tide_rows_convert_here(room, TIDE_F32, (const tide_bf16 *)t->gradient + at, TIDE_BF16, end - at);
    return room;
}

static double measure_row(const struct tide_trained *t, int64_t row, double *columns)
{
    float room[TIDE_CHUNK];
    int64_t first = row * t->columns, last = first + t->columns;
    double sum = 0;
    for (int64_t at = first, end; at < last; at = end) {
        end = end_of(t, at, last);
        sum += squares_of_row(gradients_of(t, at, end, room), columns + (at - first), end - at);
    }
    return sum;
}

/* Measures the numbers [first, last), whose second moments begin at `seconds`. */
static double measure_steps(const struct tide_trained *t, int64_t first, int64_t last, const float *seconds,
                            float scale, float factor)
{
    float room[TIDE_CHUNK];
    double sum = 0;
    for (int64_t at = first, end; at < last; at = end) {
        end = end_of(t, at, last);
        sum += squares_of_steps(gradients_of(t, at, end, room), seconds + (at - first), end - at, scale,
                                factor, has_one_row(t));
    }
    return sum;
}

static void measure_rows(void *context, int64_t first, int64_t last)
{
    struct measuring *m = context;
    const struct tide_trained *t = m->trained;
    float *by_row = t->parts[BY_ROW];
    double scale = (double)m->factors->of.scale * m->factors->of.scale;
    for (int64_t s = first; s < last; s++) {
        double *columns = m->columns + s * t->columns;
        int64_t from = start_of(t->rows, s), to = start_of(t->rows, s + 1);
        memset(columns, 0, (size_t)t->columns * sizeof *columns);
        m->rows[s] = 0;
        for (int64_t i = from; i < to; i++) {
            double sum = measure_row(t, i, columns);
            by_row[i] = mixed(by_row[i], scale * sum / (double)t->columns, (double)m->whole.mixing);
            m->rows[s] += (double)by_row[i];
        }
        m->weights[s] = squares_of_weights(t, from * t->columns, to * t->columns);
    }
}

static void measure_columns(void *context, int64_t first, int64_t last)
{
    const struct measuring *m = context;
    const struct tide_trained *t = m->trained;
    float *by_column = t->parts[BY_COLUMN];
    double scale = (double)m->factors->of.scale * m->factors->of.scale;
    for (int64_t j = first; j < last; j++) {
        double sum = 0;
        for (int s = 0; s < STRETCHES; s++)
            sum += m->columns[s * t->columns + j];
        by_column[j] = mixed(by_column[j], scale * sum / (double)t->rows, (double)m->whole.mixing);
    }
}

static void measure_step(void *context, int64_t first, int64_t last)
{
    struct measuring *m = context;
    const struct tide_trained *t = m->trained;
    const float *by_row = t->parts[BY_ROW], *by_column = t->parts[BY_COLUMN];
    for (int64_t s = first; s < last; s++) {
        m->step[s] = 0;
        for (int64_t i = start_of(t->rows, s); i < start_of(t->rows, s + 1); i++)
            m->step[s] += measure_steps(t, i * t->columns, (i + 1) * t->columns, by_column,
                                        m->factors->of.scale, by_row[i] * m->whole.inverse);
    }
}

static void measure_vector(void *context, int64_t first, int64_t last)
{
    struct measuring *m = context;
    const struct tide_trained *t = m->trained;
    const float *squares = t->parts[SQUARES];
    for (int64_t s = first; s < last; s++) {
        int64_t from = start_of(t->columns, s), to = start_of(t->columns, s + 1);
        m->weights[s] = squares_of_weights(t, from, to);
        m->step[s] = measure_steps(t, from, to, squares + from, m->factors->of.scale, m->whole.mixing);
    }
}

static double total(const double sums[STRETCHES])
{
    double sum = 0;
    for (int s = 0; s < STRETCHES; s++)
        sum += sums[s];
    return sum;
}

static void measure(const struct tide_trained *t, const struct tide_factors *f, void *scratch)
{
    struct measuring m = {.trained = t, .factors = f, .columns = scratch};
    double count = (double)t->rows * (double)t->columns, step = (double)f->of.step;
    m.whole.mixing = (float)pow(step, beta2_decay);
    if (has_one_row(t)) {
        tide_parallel(STRETCHES, 1, measure_vector, &m);
    } else {
        tide_parallel(STRETCHES, 1, measure_rows, &m);
        tide_parallel(t->columns, 256, measure_columns, &m);
        m.whole.inverse = (float)(1.0 / fmax(total(m.rows) / (double)t->rows, (double)least_root));
        tide_parallel(STRETCHES, 1, measure_step, &m);
    }
    m.whole.length =
        (float)length_of(total(m.weights), total(m.step), count, fmin((double)f->of.rate, 1 / sqrt(step)));
    *whole_of(t) = m.whole;
}

/* ---- the update */

/* Some numbers of a row. */
struct some {
    void *weight;
    const float *gradient;
    float *seconds; /* for a matrix: by column */
    int64_t count;
    float factor; /* as for second_of() */
    float length, keep, scale;
    struct tide_rounding rounding;
    uint32_t place;
};

TIDE_INLINE void update_some(const struct some *s, bool is_half, bool is_vector)
{
    float *restrict weight = s->weight;
    tide_bf16 *restrict half = s->weight;
    const float *restrict gradient = s->gradient;
    float *restrict seconds = s->seconds;
    float factor = s->factor, length = s->length, keep = s->keep, scale = s->scale;
    struct tide_rounding rounding = s->rounding;
    for (int64_t i = 0; i < s->count; i++) {
        float g = gradient[i] * scale, second = second_of(seconds[i], g, factor, is_vector);
        float was = is_half ? tide_from_bf16(half[i]) : weight[i];
        float is = was * keep - length * g / sqrtf(at_least(second));
        if (is_vector)
            seconds[i] = second;
        if (is_half)
            half[i] = tide_round(is, rounding, s->place + (uint32_t)i);
        else
            weight[i] = is;
    }
}

TIDE_KERNEL(void, update_numbers, (const struct some *s, bool is_half, bool is_vector),
            (s, is_half, is_vector))
{
    if (is_half && is_vector)
        update_some(s, true, true);
    else if (is_half)
        update_some(s, true, false);
    else if (is_vector)
        update_some(s, false, true);
    else
        update_some(s, false, false);
}

static void update(const struct tide_trained *t, const struct tide_factors *f, int64_t chunk, int64_t count)
{
    const struct whole *whole = whole_of(t);
    float room[TIDE_CHUNK];
    int64_t first = chunk * TIDE_CHUNK, last = first + count;
    struct some s = {.length = whole->length,
                     .keep = f->keep,
                     .scale = f->of.scale,
                     .rounding = tide_rounding(f->seed, t->number, chunk)};
    for (int64_t at = first, end; at < last; at = end) {
        int64_t row = at / t->columns, column = at % t->columns;
        end = (row + 1) * t->columns < last ? (row + 1) * t->columns : last;
        s.weight = (char *)t->weight + (size_t)at * tide_dtype_bytes(t->dtype);
        s.gradient = gradients_of(t, at, end, room);
        s.count = end - at;
        s.place = (uint32_t)(at - first);
        if (has_one_row(t)) {
            s.seconds = (float *)t->parts[SQUARES] + column;
            s.factor = whole->mixing;
        } else {
            s.seconds = (float *)t->parts[BY_COLUMN] + column;
            s.factor = ((const float *)t->parts[BY_ROW])[row] * whole->inverse;
        }
        update_numbers(&s, t->dtype == TIDE_BF16, has_one_row(t));
    }
}

const struct tide_cpu_optimizer tide_cpu_adafactor = {
    .optimizer = &tide_optimizer_adafactor,
    .scratch = scratch_bytes,
    .measure = measure,
    .update = update,
};
