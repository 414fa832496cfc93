/*
 * test_moment.c - what call sites hold at a moment, and which moment is the peak.
 */
#include "assess/moment.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define MIB ((int64_t)1 << 20)

/* Two processes, of which the second ends at 35; ticks at 0, 10, ... 90. */
struct scene {
    struct tide_history h;
    struct tide_history_process processes[2];
    struct tide_tick ticks[10];
    struct tide_history_site sites[2];
    struct tide_history_site_point points[2][4];
    struct tide_heap_status status[2];
};

static void set_scene(struct scene *s)
{
    memset(s, 0, sizeof *s);
    s->h = (struct tide_history){.processes = s->processes,
                                 .process_count = 2,
                                 .ticks = s->ticks,
                                 .tick_count = 10,
                                 .sites = s->sites,
                                 .site_count = 2,
                                 .heap_status = s->status,
                                 .heap_status_count = 2};
    for (int i = 0; i < 10; i++)
        s->ticks[i] = (struct tide_tick){.id = i + 1, .t_ns = 10 * i, .processes = 1};
    s->processes[0].row.ended_ns = TIDE_UNKNOWN;
    s->processes[1].row.ended_ns = 35;
    for (int i = 0; i < 2; i++) {
        s->status[i] = (struct tide_heap_status){.process = i + 1, .state = "on", .interval_bytes = MIB / 2};
        s->sites[i] = (struct tide_history_site){
            .id = i + 1, .process = i + 1, .kind = TIDE_SITE_MALLOC, .points = s->points[i]};
    }
    s->points[0][0] = (struct tide_history_site_point){10, 100, 1, 100, 1};
    s->points[0][1] = (struct tide_history_site_point){50, 300, 3, 300, 3};
    s->points[0][2] = (struct tide_history_site_point){80, 50, 1, 300, 3};
    s->sites[0].point_count = 3;
    s->points[1][0] = (struct tide_history_site_point){20, 150, 2, 150, 2};
    s->points[1][1] = (struct tide_history_site_point){30, 250, 2, 250, 2};
    s->sites[1].point_count = 2;
}

static void a_site_holds_its_last_point(void **state)
{
    (void)state;
    struct scene s;
    set_scene(&s);
    double blocks;
    assert_true(tide_moment_live(&s.h, &s.sites[0], 9, &blocks) == 0 && blocks == 0);
    assert_true(tide_moment_live(&s.h, &s.sites[0], 10, &blocks) == 100 && blocks == 1);
    assert_true(tide_moment_live(&s.h, &s.sites[0], 79, &blocks) == 300 && blocks == 3);
    assert_true(tide_moment_live(&s.h, &s.sites[0], 90, &blocks) == 50 && blocks == 1);
}

static void a_process_that_has_ended_holds_nothing(void **state)
{
    (void)state;
    struct scene s;
    set_scene(&s);
    assert_true(tide_moment_live(&s.h, &s.sites[1], 35, NULL) == 250);
    assert_true(tide_moment_live(&s.h, &s.sites[1], 36, NULL) == 0);
    assert_true(tide_moment_point(&s.sites[1], 90)->live_bytes == 250);
    /* What a killed process held is read after its death, and counts at that moment. */
    s.points[1][2] = (struct tide_history_site_point){40, 900, 2, 900, 2};
    s.sites[1].point_count = 3;
    assert_true(tide_moment_live(&s.h, &s.sites[1], 40, NULL) == 900);
    assert_true(tide_moment_live(&s.h, &s.sites[1], 41, NULL) == 0);
}

static void the_peak_is_that_of_all_sites_together(void **state)
{
    (void)state;
    struct scene s;
    set_scene(&s);
    int64_t t_ns = -1;
    assert_int_equal(tide_moment_peak(&s.h, false, &t_ns, NULL), 0);
    assert_int_equal(t_ns, 30); /* 100 + 250, and not 300 after the second has ended */
    s.processes[1].row.ended_ns = TIDE_UNKNOWN;
    assert_int_equal(tide_moment_peak(&s.h, false, &t_ns, NULL), 0);
    assert_int_equal(t_ns, 50); /* 300 + 250 */
}

static void the_host_and_devices_have_peaks_of_their_own(void **state)
{
    (void)state;
    struct scene s;
    set_scene(&s);
    s.sites[1].kind = TIDE_SITE_CUDA;
    int64_t t_ns = -1;
    assert_int_equal(tide_moment_peak(&s.h, false, &t_ns, NULL), 0);
    assert_int_equal(t_ns, 50); /* 300 */
    assert_int_equal(tide_moment_peak(&s.h, true, &t_ns, NULL), 0);
    assert_int_equal(t_ns, 30); /* 250 */
}

static void growth_is_of_the_lowest(void **state)
{
    (void)state;
    struct scene s;
    set_scene(&s);
    assert_true(tide_moment_growth(&s.sites[0], 10, 70) == 200);
    assert_true(tide_moment_growth(&s.sites[0], 10, 90) == -50);
    assert_true(tide_moment_growth(&s.sites[1], 0, 90) == 250);
}

static void small_blocks_are_uncertain_and_large_ones_are_not(void **state)
{
    (void)state;
    struct scene s;
    set_scene(&s);
    struct tide_history_site *site = &s.sites[0];
    /* 64 samples' worth of tiny blocks: one in the square root of them. */
    double bytes = 64 * 0.5 * (double)MIB;
    assert_true(fabs(tide_moment_noise(&s.h, site, bytes, bytes / 100) / bytes - 1 / 8.) < 0.001);
    assert_true(tide_moment_noise(&s.h, site, bytes, bytes / ((double)MIB / 8)) == 0);
    assert_true(tide_moment_noise(&s.h, site, 0, 0) == 0);
    site->kind = TIDE_SITE_MMAP;
    assert_true(tide_moment_noise(&s.h, site, bytes, bytes / 4096) == 0);
    site->kind = TIDE_SITE_TENSOR; /* with a mean of 16 MiB, and exact from there on */
    double tensors = 64 * 16 * (double)MIB;
    assert_true(fabs(tide_moment_noise(&s.h, site, tensors, tensors / 512) / tensors - 1 / 8.) < 0.001);
    assert_true(tide_moment_noise(&s.h, site, tensors, 65) > 0);
    assert_true(tide_moment_noise(&s.h, site, tensors, 64) == 0);
    site->kind = TIDE_SITE_CUDA;
    assert_true(tide_moment_noise(&s.h, site, tensors, tensors / 512) == 0);
    site->process = 9; /* of which nothing is known */
    site->kind = TIDE_SITE_MALLOC;
    assert_true(tide_moment_noise(&s.h, site, bytes, bytes / 100) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_site_holds_its_last_point),
        cmocka_unit_test(a_process_that_has_ended_holds_nothing),
        cmocka_unit_test(the_peak_is_that_of_all_sites_together),
        cmocka_unit_test(the_host_and_devices_have_peaks_of_their_own),
        cmocka_unit_test(growth_is_of_the_lowest),
        cmocka_unit_test(small_blocks_are_uncertain_and_large_ones_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
