/*
 * test_against.c - a recording beside a plan.
 */
#include "assess/plan_compared.h"
#include "plan/plan_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

static void the_peak_of_a_phase_is_found_however_often_it_ran(void **state)
{
    enum { RUNS = 3000 };
    (void)state;
    static struct tide_history_mark marks[2 * RUNS];
    static struct tide_history_point points[2 * RUNS];
    const char *names[] = {"forward"};
    for (int i = 0; i < RUNS; i++) {
        marks[2 * i] = (struct tide_history_mark){.t_ns = 10 * i, .kind = TIDE_MARK_PHASE_BEGIN};
        marks[2 * i + 1] = (struct tide_history_mark){.t_ns = 10 * i + 4, .kind = TIDE_MARK_PHASE_END};
        points[2 * i] = (struct tide_history_point){.t_ns = 10 * i + 2, .rss_bytes = 1000 + i};
        points[2 * i + 1] = (struct tide_history_point){.t_ns = 10 * i + 6, .rss_bytes = 9000};
    }
    struct tide_history_process process = {.points = points, .point_count = 2 * RUNS};
    struct tide_history history = {.processes = &process,
                                   .process_count = 1,
                                   .marks = marks,
                                   .mark_count = 2 * RUNS,
                                   .names = names,
                                   .name_count = 1};
    struct tide_forecast plan = {.phases = {{.name = "forward", .peak = 500}}, .phase_count = 1};
    struct tide_against seen;
    struct tide_err err;
    assert_int_equal(tide_against_compare(false, &plan, &history, &seen, &err), 0);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.rows[0].name, "forward");
    assert_int_equal(seen.rows[0].seen, 1000 + RUNS - 1);
    assert_int_equal(seen.rows[1].seen, 9000);
}

static void sizes_that_cannot_be_are_not_added_up(void **state)
{
    (void)state;
    char path[64];
    struct tide_forecast plan;
    struct tide_err err;
    bool host;
    snprintf(path, sizeof path, "/tmp/tidemark-test-plan.%d.json", (int)getpid());
    FILE *out = fopen(path, "w");
    fprintf(out, "{\"schema\": \"tidemark.plan/1\", \"reserved_bytes\": %lld, \"context_bytes\": %lld}",
            1LL << 62, 1LL << 62);
    fclose(out);
    int status = tide_plan_read(path, &plan, &host, &err);
    unlink(path);
    assert_int_equal(status, 0);
    assert_int_equal(plan.device, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_of_a_phase_is_found_however_often_it_ran),
        cmocka_unit_test(sizes_that_cannot_be_are_not_added_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
