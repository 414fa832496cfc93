#include "judge/spikes.h"
#include "judge/thresholds.h"

#include <math.h>

enum { SAMPLE = 4096, HEIGHTS = 512, PHASES = 64 };

struct walk {
    const struct tide_moments *m;
    const struct tide_floor *f;
    size_t window; /* of the moment looked at last */
    double at;     /* floor of that window, or of the nearest kept one */
};

/* The floor under moment i; i must not decrease between calls. */
static double floor_under(struct walk *w, size_t i)
{
    size_t window = i * w->f->count / w->m->count;
    while ((window + 1) * w->m->count / w->f->count <= i)
        window++;
    if (window == w->window && !isnan(w->at))
        return w->at;
    w->window = window;
    for (size_t d = 0; d < w->f->count; d++) {
        if (window >= d && w->f->kept[window - d])
            return w->at = w->f->bytes[window - d];
        if (window + d < w->f->count && w->f->kept[window + d])
            return w->at = w->f->bytes[window + d];
    }
    return w->at = w->f->bytes[window];
}

/* Typical height of a moment over its floor, from an even choice of moments. */
static double usual_height(const struct tide_moments *m, const struct tide_floor *f)
{
    double heights[SAMPLE];
    size_t stride = m->count / SAMPLE + 1, n = 0;
    struct walk w = {m, f, 0, NAN};
    for (size_t i = 0; i < m->count && n < SAMPLE; i += stride)
        heights[n++] = fmax(m->high[i] - floor_under(&w, i), 0);
    return tide_median(heights, n);
}

static int phase_at(const struct tide_judge_input *input, double from, double to)
{
    for (size_t p = 0; p < input->phase_count; p++)
        if (input->phases[p].from <= to && input->phases[p].to >= from)
            return input->phases[p].name;
    return -1;
}

void tide_spikes_find(const struct tide_judge_input *input, const struct tide_moments *m,
                      const struct tide_floor *f, double start_x, double level, struct tide_spikes *ret)
{
    struct tide_spikes spikes = {.phase = -1};
    double tall = fmax(TIDE_SPIKE_SHARE * level, TIDE_SPIKE_NOISES * usual_height(m, f) / TIDE_MAD_SIGMA);
    double heights[HEIGHTS], top = 0;
    size_t in_phase[PHASES] = {0}, above = 0, first = 0;
    bool inside = false;
    struct walk w = {m, f, 0, NAN};
    for (size_t i = 0; i <= m->count; i++) {
        bool counts = i < m->count && m->x[i] >= start_x;
        double height = counts ? m->high[i] - floor_under(&w, i) : 0;
        bool now = height > tall;
        above += now;
        if (now && !inside) {
            first = i;
            top = 0;
        }
        if (now)
            top = fmax(top, height);
        if (inside && !now) {
            int phase = phase_at(input, m->x[first], m->x[i - 1]);
            if (phase >= 0 && phase < PHASES)
                in_phase[phase]++;
            heights[spikes.count % HEIGHTS] = top;
            spikes.largest_bytes = fmax(spikes.largest_bytes, top);
            spikes.count++;
            spikes.returned += i < m->count;
        }
        inside = now;
    }
    if ((double)above > TIDE_SPIKE_MOST * (double)m->count)
        spikes = (struct tide_spikes){.phase = -1};
    if (spikes.count)
        spikes.typical_bytes = tide_median(heights, spikes.count < HEIGHTS ? spikes.count : HEIGHTS);
    for (int p = 0; p < PHASES; p++)
        if (in_phase[p] > spikes.in_phase && spikes.count) {
            spikes.in_phase = in_phase[p];
            spikes.phase = p;
        }
    *ret = spikes;
}
