/*
 * test_sampled.c - recordings of programs that leak at a known rate, in blocks of which the hook sees a
 * sample: how often the intervals that are said have the truth in them, and what is said of the shape.
 */
#include "assess/blame.h"
#include "hook/draw.h"
#include "made_recording.h"
#include "sanitized.h"

/* How often the truth is in an interval is no question for a sanitizer: it is shown every program a few
 * times. */
enum { INTERVAL = 512 * 1024, RUNS = SANITIZED ? 12 : 100, CHURN = 1024 };

struct program {
    int steps;
    int64_t block;    /* bytes of each that is kept */
    int64_t per_step; /* bytes in such blocks that a step keeps */
    int64_t faster;   /* and so many more than the step before */
    int64_t exact;    /* bytes in one large block that a step keeps */
    bool fits;        /* into memory that was freed before: the process stays as it is */
};

struct found {
    struct tide_judged judged;
    double low, high; /* of the line that keeps small blocks, by blame; NAN: it is not said to grow */
};

struct hook {
    uint64_t random;
    int64_t left;
};

/* What the hook counts of that many bytes in blocks of one size. */
static int64_t sampled(struct hook *hook, int64_t bytes, int64_t block)
{
    int64_t counted = 0;
    for (int64_t i = 0; i < bytes / block; i++) {
        hook->left -= block;
        if (hook->left >= 0)
            continue;
        counted += (int64_t)((double)block / tide_draw_probability((double)block / INTERVAL));
        hook->left = tide_draw_next(&hook->random, INTERVAL);
    }
    return counted;
}

static struct found judge(struct made *m, int64_t site)
{
    struct tide_answer answer = finish_answer(m);
    struct tide_blame_options options = {.by = TIDE_BLAME_GROWTH, .most = 10, .every_site = true};
    struct tide_blame *blame;
    struct tide_err err;
    ok(tide_blame_new(answer.history, answer.assessment, &options, &blame, &err), &err);
    struct found found = {.judged = answer.assessment->judged[0], .low = NAN, .high = NAN};
    for (size_t i = 0; i < blame->count; i++) {
        const struct tide_culprit *c = &blame->culprits[i];
        if (c->site != &answer.history->sites[site - 1] || !(c->bytes_per_x > 0))
            continue;
        found.low = c->on.verdict.slope_low;
        found.high = c->on.verdict.slope_high;
    }
    tide_blame_free(blame);
    tide_answer_release(&answer);
    return found;
}

static struct found run(const struct program *p, int seed)
{
    struct hook hook = {.random = (uint64_t)(seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1};
    hook.left = tide_draw_next(&hook.random, INTERVAL);
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "train", "train"), kept = 0, exact = 0, truth = 0;
    see_heap(&m, id);
    int64_t leaks = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 10, "keep")),
            stores = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 20, "store")),
            churns = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 30, "work"));
    for (int64_t i = 0; i < p->steps; i++) {
        int64_t more = p->per_step + i * p->faster;
        kept += sampled(&hook, more, p->block);
        exact += p->exact;
        truth += more + p->exact;
        int64_t churn = sampled(&hook, MIB, CHURN), memory = 40 * MIB + (p->fits ? 0 : truth);
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, memory);
        sample(&m, id, memory);
        hold(&m, leaks, kept, kept / p->block);
        hold(&m, stores, exact, i + 1);
        hold(&m, churns, churn, churn / CHURN);
        hold_in_all(&m, id, 10 * MIB + kept + exact + churn, 100 * 1024);
    }
    return judge(&m, leaks);
}

/* Of n intervals of 95 %, so many have the truth in them, but for one time in a hundred thousand. */
static void assert_covers(int covered, int n)
{
    double allowed = 4 * sqrt(n * 0.95 * 0.05);
    assert_true(n > 0);
    if (covered < 0.95 * n - allowed)
        fail_msg("%d of %d intervals have the truth in them", covered, n);
}

static bool is_between(double low, double truth, double high)
{
    return low <= truth && truth <= high;
}

/* The process grows by what it keeps: what is held is said beside that. */
static void the_interval_of_what_is_held_has_the_error_of_its_samples(void **state)
{
    (void)state;
    const struct program programs[] = {{.steps = 80, .block = 256, .per_step = 50 * 1024},
                                       {.steps = 300, .block = 4096, .per_step = 100 * 1024},
                                       {.steps = 100, .block = 65536, .per_step = 256 * 1024}};
    for (size_t k = 0; k < sizeof programs / sizeof *programs; k++) {
        int covered = 0, blamed = 0, blamed_rightly = 0;
        double truth = (double)programs[k].per_step;
        for (int i = 0; i < RUNS; i++) {
            struct found found = run(&programs[k], i);
            assert_true(found.judged.live_known);
            covered += is_between(found.judged.retention.live_low, truth, found.judged.retention.live_high);
            blamed += isfinite(found.low);
            blamed_rightly += is_between(found.low, truth, found.high);
        }
        assert_covers(covered, RUNS);
        assert_covers(blamed_rightly, blamed);
    }
}

/* The process is level, what it holds leaks evenly: its rate has such an interval, and no shape is made of
 * samples that came late by chance. */
static void a_leak_of_samples_that_is_even_is_called_even(void **state)
{
    (void)state;
    const struct program programs[] = {
        {.steps = 100, .block = 256, .per_step = 97 * 1024, .fits = true},
        {.steps = 300, .block = 4096, .per_step = 100 * 1024, .fits = true},
        {.steps = 100, .block = 256, .per_step = 500 * 1024, .fits = true},
    };
    int shaped = 0;
    for (size_t k = 0; k < sizeof programs / sizeof *programs; k++) {
        int covered = 0, inside = 0;
        for (int i = 0; i < RUNS; i++) {
            struct tide_judged j = run(&programs[k], i).judged;
            const struct tide_verdict *v = &j.verdict;
            if (!j.inside)
                continue;
            inside++;
            shaped += v->shape == TIDE_SHAPE_ACCELERATING || isfinite(v->since_x);
            covered += is_between(v->slope_low, (double)programs[k].per_step, v->slope_high);
        }
        assert_true(inside > RUNS / 3);
        assert_covers(covered, inside);
    }
    assert_in_range(shaped, 0, 1);
}

static void a_leak_of_samples_that_becomes_faster_is_said_to(void **state)
{
    (void)state;
    struct program program = {.steps = 300, .block = 256, .faster = 4096, .fits = true};
    int faster = 0;
    for (int i = 0; i < 20; i++)
        faster += run(&program, i).judged.verdict.shape == TIDE_SHAPE_ACCELERATING;
    assert_in_range(faster, 18, 20);
}

/* Beside what is sampled, large blocks are kept, and each of these is seen. */
static void what_is_seen_as_a_whole_widens_no_interval(void **state)
{
    (void)state;
    const struct program program = {
        .steps = 100, .block = 256, .per_step = 50 * 1024, .exact = 400 * 1024, .fits = true};
    const double truth = 450 * 1024;
    double width = 0;
    int covered = 0;
    for (int i = 0; i < RUNS; i++) {
        struct tide_judged j = run(&program, i).judged;
        assert_true(j.inside);
        width += (j.verdict.slope_high - j.verdict.slope_low) / truth;
        covered += is_between(j.verdict.slope_low, truth, j.verdict.slope_high);
    }
    assert_covers(covered, RUNS);
    assert_true(width < 0.25 * RUNS); /* 0.43 if all were sampled */
}

/* Memory that rises ever faster, while what the program holds rises evenly or as memory does. */
static struct tide_assessment *rise_faster(bool held_evenly, char *text, size_t size)
{
    enum { STEPS = 200 };
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "train", "train");
    see_heap(&m, id);
    int64_t site = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 10, "keep"));
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t even = i * MIB / 2, faster = i * even / (2 * STEPS), held = held_evenly ? even : faster;
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, 120 * MIB + faster);
        sample(&m, id, 120 * MIB + faster);
        hold(&m, site, held, held * 2 / MIB);
        hold_in_all(&m, id, 10 * MIB + held, 100 * 1024);
    }
    return finish(&m, text, size);
}

/* What was freed has ever fewer places left for what is kept. */
static void memory_that_filled_what_was_free_first_is_not_called_faster(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = rise_faster(true, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_int_equal(a->judged[0].verdict.shape, TIDE_SHAPE_LINEAR);
    assert_null(strstr(text, "faster"));
    tide_assessment_free(a);
    a = rise_faster(false, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.shape, TIDE_SHAPE_ACCELERATING);
    assert_non_null(strstr(text, ", and accelerating"));
    tide_assessment_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_of_what_is_held_has_the_error_of_its_samples),
        cmocka_unit_test(a_leak_of_samples_that_is_even_is_called_even),
        cmocka_unit_test(a_leak_of_samples_that_becomes_faster_is_said_to),
        cmocka_unit_test(what_is_seen_as_a_whole_widens_no_interval),
        cmocka_unit_test(memory_that_filled_what_was_free_first_is_not_called_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
