#include "rt/cpu/due.h"
#include "base/check.h"
#include "rt/cpu/threads.h"

#include <stdlib.h>

/* A parameter. It is cut into units: rows if they can be asked for, else numbers. */
struct entry {
    float *weight;
    int64_t units, each; /* each: numbers per unit */
    char *early;         /* for each row: it was updated before its turn; NULL: not by rows */
    bool decays;
};

/* A thread's share is a contiguous range of each parameter, so that no thread writes close to what another
 * reads: that is slow between cores that share no cache. */
struct share {
    _Alignas(128) int entry; /* its share before this entry, and before `unit` of it, is taken */
    int64_t unit, end;       /* end: of its share of that entry */
};

struct tide_due {
    int64_t apart; /* numbers */
    struct tide_factors plain, decaying;
    int threads, count, capacity;
    struct share *shares;
    struct entry list[];
};

int tide_due_new(int capacity, int64_t apart, struct tide_due **ret_due, struct tide_err *err)
{
    int threads = tide_threads();
    struct tide_due *d = calloc(1, sizeof *d + (size_t)capacity * sizeof d->list[0]);
    struct share *shares = aligned_alloc(_Alignof(struct share), (size_t)threads * sizeof *shares);
    if (!d || !shares) {
        free(d);
        free(shares);
        return tide_err_set(err, "out of memory");
    }
    d->apart = apart;
    d->threads = threads;
    d->capacity = capacity;
    d->shares = shares;
    for (int i = 0; i < threads; i++)
        shares[i] = (struct share){0};
    *ret_due = d;
    return 0;
}

void tide_due_free(struct tide_due *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->count; i++)
        free(d->list[i].early);
    free(d->shares);
    free(d);
}

int tide_due_add(struct tide_due *d, float *weight, int64_t rows, int64_t columns, bool by_rows, bool decays,
                 struct tide_err *err)
{
    TIDE_CHECK(d->count, <, d->capacity);
    struct entry *e = &d->list[d->count];
    *e = (struct entry){.weight = weight,
                        .units = by_rows ? rows : rows * columns,
                        .each = by_rows ? columns : 1,
                        .decays = decays};
    if (by_rows && !(e->early = calloc((size_t)rows, 1)))
        return tide_err_set(err, "out of memory");
    d->count++;
    for (int i = 0; i < d->threads; i++)
        d->shares[i].entry = d->count;
    return d->count - 1;
}

/* Returns the first unit of a thread's share. If units are numbers, it starts a cache line. */
static int64_t start_of(const struct tide_due *d, const struct entry *e, int thread)
{
    enum { TOGETHER = TIDE_CACHE_LINE / sizeof(float) };
    int64_t at = e->units * thread / d->threads;
    return thread == d->threads || e->each > 1 ? at : at / TOGETHER * TOGETHER;
}

static void go_to(const struct tide_due *d, int thread, int entry)
{
    struct share *s = &d->shares[thread];
    s->entry = entry;
    if (entry < d->count) {
        s->unit = start_of(d, &d->list[entry], thread);
        s->end = start_of(d, &d->list[entry], thread + 1);
    }
}

void tide_due_begin(struct tide_due *d, const struct tide_optimizer_step *how, float decay)
{
    struct tide_optimizer_step with = *how, without = *how;
    with.decay = decay;
    without.decay = 0;
    d->decaying = tide_optimizer_factors(&with);
    d->plain = tide_optimizer_factors(&without);
    for (int i = 0; i < d->threads; i++) {
        TIDE_CHECK(d->shares[i].entry, ==, d->count);
        go_to(d, i, 0);
    }
}

static void update(const struct tide_due *d, const struct entry *e, int64_t first, int64_t last)
{
    float *at = e->weight + first * e->each;
    struct tide_trained some = {.rows = 1,
                                .columns = (last - first) * e->each,
                                .weight = at,
                                .parts = {at + d->apart, at + 2 * d->apart},
                                .gradient = at + 3 * d->apart};
    tide_cpu_adamw.update(&some, e->decays ? &d->decaying : &d->plain, 0, some.columns);
}

/* A row that was updated early is skipped this once. */
static void update_units(const struct tide_due *d, const struct entry *e, int64_t first, int64_t last)
{
    if (!e->early) {
        update(d, e, first, last);
        return;
    }
    for (int64_t i = first; i < last; i++) {
        if (!e->early[i])
            update(d, e, i, i + 1);
        e->early[i] = 0;
    }
}

/* ---- at once */

struct asked {
    const struct tide_due *due;
    int number;
    const int32_t *rows;
    int64_t count;
};

static void finish_shares(void *context, int64_t first, int64_t last)
{
    const struct asked *a = context;
    for (int i = (int)first; i < last; i++) {
        struct share *s = &a->due->shares[i];
        while (s->entry <= a->number) {
            const struct entry *e = &a->due->list[s->entry];
            update_units(a->due, e, s->unit, s->end);
            go_to(a->due, i, s->entry + 1);
        }
    }
}

static bool is_done(const struct tide_due *d, int number)
{
    for (int i = 0; i < d->threads; i++)
        if (d->shares[i].entry <= number)
            return false;
    return true;
}

void tide_due_until(struct tide_due *d, int number)
{
    struct asked a = {.due = d, .number = number};
    if (!is_done(d, number))
        tide_parallel(d->threads, 1, finish_shares, &a);
}

void tide_due_all(struct tide_due *d)
{
    tide_due_until(d, d->count - 1);
}

static void hasten_rows(void *context, int64_t first, int64_t last)
{
    const struct asked *a = context;
    const struct entry *e = &a->due->list[a->number];
    for (int i = (int)first; i < last; i++) {
        const struct share *s = &a->due->shares[i];
        int64_t from = s->entry < a->number ? start_of(a->due, e, i) : s->unit,
                to = s->entry > a->number ? from : start_of(a->due, e, i + 1);
        for (int64_t k = 0; k < a->count; k++) {
            int64_t row = a->rows[k];
            if (row < from || row >= to || e->early[row])
                continue;
            update(a->due, e, row, row + 1);
            e->early[row] = 1;
        }
    }
}

void tide_due_rows(struct tide_due *d, int number, const int32_t *rows, int64_t count)
{
    struct asked a = {d, number, rows, count};
    TIDE_CHECK_TRUE(d->list[number].early);
    if (!is_done(d, number))
        tide_parallel(d->threads, 1, hasten_rows, &a);
}

/* ---- in pieces */

bool tide_due_take(struct tide_due *d, int thread, int64_t numbers, struct tide_piece *ret_piece)
{
    if (!d || thread >= d->threads)
        return false;
    struct share *s = &d->shares[thread];
    while (s->entry < d->count && s->unit == s->end)
        go_to(d, thread, s->entry + 1);
    if (s->entry == d->count)
        return false;
    const struct entry *e = &d->list[s->entry];
    int64_t first = s->unit, units = numbers > e->each ? numbers / e->each : 1;
    s->unit = first + units < s->end ? first + units : s->end;
    *ret_piece = (struct tide_piece){d, s->entry, first, s->unit};
    return true;
}

struct tide_cache_lines tide_piece_cache_lines(const struct tide_piece *piece)
{
    const struct entry *e = &piece->of->list[piece->number];
    const char *from = (const char *)(e->weight + piece->first * e->each),
               *to = (const char *)(e->weight + piece->last * e->each);
    int64_t skipped = (int64_t)((uintptr_t)from % TIDE_CACHE_LINE),
            lines = (to - from + skipped + TIDE_CACHE_LINE - 1) / TIDE_CACHE_LINE;
    return (struct tide_cache_lines){.row = from - skipped,
                                     .stride = piece->of->apart * (int64_t)sizeof(float),
                                     .per_row = lines,
                                     .count = 4 * lines};
}

void tide_piece_do(const struct tide_piece *piece)
{
    update_units(piece->of, &piece->of->list[piece->number], piece->first, piece->last);
}
