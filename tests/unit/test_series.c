/*
 * test_series.c - logs that people have, good and bad, as series.
 */
#include "base/units.h"
#include "record/columns.h"
#include "base/buf.h"
#include "record/series.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const struct tide_series_options by_name;

static struct tide_series_set parse(const char *text, const struct tide_series_options *options)
{
    struct tide_series_set set;
    struct tide_err err = {{0}, {0}};
    if (tide_series_parse(text, strlen(text), options, &set, &err))
        fail_msg("%s (%s)", err.text, err.hint);
    return set;
}

static void refused(const char *text, const char *sentence)
{
    struct tide_series_set set;
    struct tide_err err;
    assert_int_equal(tide_series_parse(text, strlen(text), &by_name, &set, &err), -1);
    assert_string_equal(err.text, sentence);
}

static void a_csv_with_a_unit_in_its_column_is_read(void **state)
{
    (void)state;
    struct tide_series_set set = parse("# a comment\nstep,rss_mb\n10,5434\n\n20,7017.5\r\n", &by_name);
    assert_int_equal(set.count, 1);
    assert_true(set.x_is_steps);
    assert_string_equal(set.series[0].name, "rss_mb");
    assert_int_equal(set.series[0].count, 2);
    assert_true(set.series[0].x[1] == 20 && set.series[0].bytes[1] == 7017.5e6);
    tide_series_release(&set);
}

/* As nvidia-smi --format=csv,noheader and loggers that print time.time() write it. */
static void without_a_header_times_are_not_steps(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "2026/11/19 10:00:00.123, 100 MiB\n2026/11/19 10:00:02.123, 200 MiB\n",
        "10:00:00,100 MiB\n10:00:02,200 MiB\n",
        "1763546400.5 100MiB\n1763546402.5 200MiB\n",
        "1763546400500,100MiB\n1763546402500,200MiB\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct tide_series_set set = parse(texts[i], &by_name);
        assert_false(set.x_is_steps);
        assert_true(set.series[0].x[0] == 0 && fabs(set.series[0].x[1] - 2) < 1e-6);
        tide_series_release(&set);
    }
    struct tide_series_set set = parse("100000000,100MiB\n100000001,200MiB\n", &by_name);
    assert_true(set.x_is_steps);
    tide_series_release(&set);
}

static void tabs_semicolons_spaces_and_quotes_are_understood(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "step\trss_kib\n1\t100\n2\t200\n",
        "step;rss_kib\n1;100\n2;200\n",
        "step   rss_kib\n1      100\n2      200\n",
        "step rss_kib \n1 100\n2 200  \n",
        "\"step\",\"RSS (KiB)\"\n\"1\",\"100\"\n2, 200\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct tide_series_set set = parse(texts[i], &by_name);
        assert_int_equal(set.series[0].count, 2);
        assert_true(set.series[0].bytes[1] == 200 * 1024.0);
        tide_series_release(&set);
    }
}

static void json_lines_are_read_by_key(void **state)
{
    (void)state;
    struct tide_series_set set =
        parse("{\"step\": 1, \"loss\": 2.5, \"rss_mb\": 10}\n{\"rss_mb\": 11, \"step\": 2, \"tag\": \"x\"}\n",
              &by_name);
    assert_int_equal(set.count, 1);
    assert_int_equal(set.series[0].count, 2);
    assert_true(set.series[0].bytes[1] == 11e6 && set.series[0].x[1] == 2);
    tide_series_release(&set);
}

static void of_hundreds_of_keys_those_that_matter_are_read(void **state)
{
    (void)state;
    char text[8192];
    size_t len = 0;
    for (int key = 0; key < 300; key++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s\"loss_%d\": 1", key ? ", " : "{", key);
    snprintf(text + len, sizeof text - len, ", \"step\": 7, \"rss_mb\": 10, \"x\": 2}\n");
    struct tide_series_set set = parse(text, &by_name);
    assert_true(set.x_is_steps && set.series[0].x[0] == 7 && set.series[0].bytes[0] == 10e6);
    tide_series_release(&set);
    struct tide_series_options options = {.unit = "GB", .column = "x"};
    set = parse(text, &options);
    assert_true(set.series[0].bytes[0] == 2e9);
    tide_series_release(&set);
}

static void numbers_alone_need_only_a_unit(void **state)
{
    (void)state;
    struct tide_series_options mib = {.unit = "MiB"};
    struct tide_series_set set = parse("5\n6\n7\n", &mib);
    assert_true(set.series[0].count == 3 && set.series[0].bytes[2] == 7 * 1048576.0 &&
                set.series[0].x[2] == 2);
    tide_series_release(&set);
    set = parse("10 5\n20 6\n", &mib);
    assert_true(set.series[0].count == 2 && set.series[0].x[1] == 20);
    tide_series_release(&set);
    refused("10 5\n20 6\n", "column 'memory' has no unit");
}

static void missing_values_are_left_out(void **state)
{
    (void)state;
    struct tide_series_set set = parse("step,rss_mb\n1,\n2,nan\n3,NA\n4,5\n", &by_name);
    assert_int_equal(set.series[0].count, 1);
    assert_true(set.series[0].x[0] == 4);
    tide_series_release(&set);
    refused("step,rss_mb\n1,\n", "every value is missing");
}

static void time_is_the_axis_where_there_are_no_steps(void **state)
{
    (void)state;
    struct tide_series_set set = parse("timestamp,rss_bytes\n1700000000000,5\n1700000001500,6\n", &by_name);
    assert_false(set.x_is_steps);
    assert_true(set.series[0].x[0] == 0 && fabs(set.series[0].x[1] - 1.5) < 1e-6);
    tide_series_release(&set);
    set = parse("date,rss_bytes\n2026-11-15 07:12:00,5\n2026-11-15T07:12:02.5Z,6\n", &by_name);
    assert_true(fabs(set.series[0].x[1] - 2.5) < 1e-6);
    tide_series_release(&set);
    set = parse("t_ms,step,rss_bytes\n0,0,5\n500,10,6\n", &by_name);
    assert_true(set.x_is_steps && fabs(set.seconds_per_step - 0.05) < 1e-12);
    tide_series_release(&set);
}

static void a_time_of_day_and_a_date_with_slashes_are_times(void **state)
{
    (void)state;
    struct tide_series_set set = parse("time,rss_mb\n23:59:58,5\n23:59:59.5,6\n00:00:01,7\n", &by_name);
    assert_false(set.x_is_steps);
    assert_true(fabs(set.series[0].x[1] - 1.5) < 1e-9 && fabs(set.series[0].x[2] - 3) < 1e-9);
    tide_series_release(&set);
    set = parse("timestamp,rss_mb\n2026/11/15 07:12:00.000,5\n2026/11/15 07:13:00.000,6\n", &by_name);
    assert_true(!set.x_is_steps && set.series[0].x[1] == 60);
    tide_series_release(&set);
}

static void an_axis_that_cannot_be_read_is_not_replaced_by_the_row_number(void **state)
{
    (void)state;
    refused("time,rss_mb\nnoon,5\n", "line 2: column 'time' holds 'noon', which is not a time");
    refused("step,rss_mb\n1/10,5\n", "line 2: column 'step' holds '1/10', which is not a number");
    struct tide_series_set set = parse("time,step,rss_mb\nnoon,3,5\n", &by_name);
    assert_true(set.x_is_steps && set.series[0].x[0] == 3);
    tide_series_release(&set);
}

static void cells_may_say_their_unit(void **state)
{
    (void)state;
    struct tide_series_set set = parse("timestamp, memory.used [MiB]\n"
                                       "2026/11/15 07:12:00.000, 512 MiB\n2026/11/15 07:12:01.000, 1GB\n",
                                       &by_name);
    assert_true(set.series[0].bytes[0] == 512 * 0x1p20 && set.series[0].bytes[1] == 1e9);
    tide_series_release(&set);
    set = parse("{\"step\": 1, \"rss\": \"1.5 GiB\"}\n", &by_name);
    assert_true(set.series[0].bytes[0] == 1.5 * 0x1p30);
    tide_series_release(&set);
    refused("step,rss_mb\n1,5\n2,5 MiB\n", "in column 'rss_mb' some numbers have a unit and some have none");
    refused("time,rss_mb\n5 MiB,5\n", "column 'time' holds sizes of memory, where a time was expected");
}

static void a_clock_that_jumps_is_bridged(void **state)
{
    (void)state;
    struct tide_series_set set =
        parse("t_s,rss_mb\n0,1\n1,1\n2,1\n3600000,1\n3600001,1\n5,1\n6,1\n", &by_name);
    static const double expected[] = {0, 1, 2, 3, 4, 5, 6};
    for (size_t i = 0; i < 7; i++)
        assert_true(set.series[0].x[i] == expected[i]);
    tide_series_release(&set);
}

static void steps_that_start_over_go_on(void **state)
{
    (void)state;
    struct tide_series_set set = parse("step,rss_mb\n1,1\n2,1\n3,1\n1,1\n2,1\n", &by_name);
    assert_true(set.series[0].x[3] == 4 && set.series[0].x[4] == 5);
    tide_series_release(&set);
}

static void assert_goes_on(const char *text, const double *x, const double *mb, size_t count)
{
    struct tide_series_set set = parse(text, &by_name);
    assert_int_equal(set.series[0].count, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(set.series[0].x[i] == x[i]);
        assert_true(set.series[0].bytes[i] == mb[i] * 1e6);
    }
    tide_series_release(&set);
}

static void a_log_with_its_newest_row_first_is_read_from_its_end(void **state)
{
    (void)state;
    const double x[] = {0, 1, 2, 3}, mb[] = {5, 6, 7, 8};
    assert_goes_on("step,rss_mb\n3,8\n2,7\n1,6\n0,5\n", x, mb, 4);
    assert_goes_on("time_s,rss_mb\n103,8\n102,7\n101,6\n100,5\n", x, mb, 4);
    assert_goes_on("{\"step\": 3, \"rss_mb\": 8}\n{\"step\": 2, \"rss_mb\": 7}\n"
                   "{\"step\": 1, \"rss_mb\": 6}\n{\"step\": 0, \"rss_mb\": 5}\n",
                   x, mb, 4);
    /* each process by itself, although the rows of both are mixed */
    assert_goes_on("step,pid,rss_mb\n3,1,8\n3,2,1\n2,1,7\n2,2,1\n1,1,6\n1,2,1\n0,1,5\n0,2,1\n", x, mb, 4);
}

static void a_log_with_its_newest_row_first_may_pass_midnight_or_start_over(void **state)
{
    (void)state;
    const double x[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const double mb[] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    assert_goes_on("time,rss_mb\n00:00:08,16\n00:00:07,15\n00:00:06,14\n00:00:05,13\n00:00:04,12\n"
                   "00:00:03,11\n00:00:02,10\n00:00:01,9\n00:00:00,8\n23:59:59,7\n23:59:58,6\n23:59:57,5\n",
                   x, mb, 12);
    assert_goes_on("step,rss_mb\n8,16\n7,15\n6,14\n5,13\n4,12\n3,11\n2,10\n1,9\n0,8\n2,7\n1,6\n0,5\n", x, mb,
                   12);
}

static void the_pace_of_a_log_with_its_newest_row_first_is_known(void **state)
{
    (void)state;
    struct tide_series_set set = parse("step,time_s,rss_mb\n4,18,7\n2,14,6\n0,10,5\n", &by_name);
    assert_true(set.seconds_per_step == 2);
    assert_true(set.series[0].x[2] == 4 && set.series[0].bytes[2] == 7e6);
    tide_series_release(&set);
}

static void steps_that_count_down_by_a_clock_that_rises_keep_their_order(void **state)
{
    (void)state;
    const double x[] = {3, 4, 5, 6}, mb[] = {5, 6, 7, 8};
    assert_goes_on("time_s,step,rss_mb\n10,3,5\n11,2,6\n12,1,7\n13,0,8\n", x, mb, 4);
}

static void every_memory_column_and_every_pid_is_a_series(void **state)
{
    (void)state;
    struct tide_series_set set = parse("step,rss_mb,loss,uss_mb,steps_per_mb\n1,2,3,4,9\n", &by_name);
    assert_int_equal(set.count, 2);
    assert_string_equal(set.series[1].name, "uss_mb");
    tide_series_release(&set);
    set = parse("step,pid,rss_mb\n1,7,10\n1,8,20\n2,7,11\n2,8,21\n", &by_name);
    assert_int_equal(set.count, 2);
    assert_string_equal(set.series[1].name, "rss_mb[8]");
    assert_true(set.series[1].bytes[1] == 21e6);
    tide_series_release(&set);
}

static void rows_without_a_pid_do_not_tear_processes_apart(void **state)
{
    (void)state;
    struct tide_series_set set =
        parse("step,pid,rss_mb\n1,8,20\n1,,5\n1,7,10\n2,8,21\n2,,6\n2,7,11\n3,7,12\n", &by_name);
    assert_int_equal(set.count, 3);
    assert_string_equal(set.series[0].name, "rss_mb[7]");
    assert_int_equal(set.series[0].count, 3);
    assert_string_equal(set.series[1].name, "rss_mb[8]");
    assert_int_equal(set.series[1].count, 2);
    assert_string_equal(set.series[2].name, "rss_mb (rows without a PID)");
    assert_int_equal(set.series[2].count, 2);
    tide_series_release(&set);
}

static void more_series_than_are_read_are_refused(void **state)
{
    (void)state;
    struct tide_buf text;
    tide_buf_init(&text, 1 << 20);
    tide_buf_text(&text, "step,pid,rss_mb\n");
    for (int pid = 1; pid <= TIDE_SERIES_MOST; pid++)
        tide_buf_format(&text, "1,%d,5\n", pid);
    struct tide_series_set set = parse(tide_buf_view(&text), &by_name);
    assert_int_equal(set.count, TIDE_SERIES_MOST);
    tide_series_release(&set);
    tide_buf_text(&text, "1,9999,5\n");
    refused(tide_buf_view(&text), "there are more than 1024 series");
    tide_buf_release(&text);
}

static void a_column_can_be_chosen(void **state)
{
    (void)state;
    struct tide_series_options options = {.unit = "GB", .column = "x"};
    struct tide_series_set set = parse("step,x\n1,2\n", &options);
    assert_true(set.series[0].bytes[0] == 2e9);
    tide_series_release(&set);
    struct tide_err err;
    options.column = "y";
    assert_int_equal(tide_series_parse("step,x\n1,2\n", 11, &options, &set, &err), -1);
    assert_string_equal(err.text, "there is no column 'y'");
    assert_non_null(strstr(err.hint, "step, x"));
}

static void malformed_text_is_refused_with_its_line(void **state)
{
    (void)state;
    refused("", "there are no rows of numbers");
    refused("step,rss_mb\n", "there are no rows of numbers");
    refused("step,rss_mb\n1,2\n3\n", "line 3 has 1 fields where the header has 2");
    refused("step,rss_mb\n1,2,3\n", "line 2 has more fields than the 2 columns of the header");
    refused("step,rss_mb\n1,\"2\n", "line 2: an unterminated quote, or a field of over 4096 bytes");
    refused("step,rss_mb\n1,hello\n", "line 2: column 'rss_mb' holds 'hello', which is not a number");
    refused("step,rss_mb\n1,\"2,000.5\"\n", "line 2: column 'rss_mb' holds '2,000.5', which is not a number");
    refused("step;rss_mb\n1;2000,5\n", "line 2: column 'rss_mb' holds '2000,5', which is not a number");
    refused("{\"step\": 1, \"rss_mb\": {}}\n",
            "line 1: column 'rss_mb' holds something that is not a number");
    refused("step,loss\n1,2\n", "no column looks like memory");
    refused("step,rss\n1,2\n", "column 'rss' has no unit");
    refused("[\n {\"step\": 1, \"rss_mb\": 2}]", "this is a JSON array, not one object per line");
    refused("[", "there are no rows of numbers");
    refused("{\"step\": 1\n", "line 1 is not a JSON object");
    refused("1,2,3\n4,5,6\n", "there are 3 columns and no header row");
    refused("step,rss_mb\n1,-5\n", "row 1: -5e+06 bytes is not a possible size");
    struct tide_series_set set;
    struct tide_err err;
    assert_int_equal(tide_series_parse("step,rss_mb\n1,\0\n", 15, &by_name, &set, &err), -1);
    assert_string_equal(err.text, "line 2 holds a NUL byte: this is not a text file");
}

static void names_are_escaped_in_errors(void **state)
{
    (void)state;
    refused("step,rss\x1b[31m\n1,2\n", "column 'rss\\x1b[31m' has no unit");
}

static void units_come_from_names(void **state)
{
    (void)state;
    assert_true(tide_column_bytes_scale("rss_mb") == 1e6);
    assert_true(tide_column_bytes_scale("RSS (MiB)") == 0x1p20);
    assert_true(tide_column_bytes_scale("gpuMemGB") == 1e9);
    assert_true(tide_column_bytes_scale("VmRSS_kB") == 1e3);
    assert_true(tide_column_bytes_scale("mem [kB]") == 1e3);
    assert_true(tide_column_bytes_scale("memB") == 1);
    assert_true(tide_column_bytes_scale("uss_bytes") == 1);
    assert_true(isnan(tide_column_bytes_scale("rss")));
    assert_true(isnan(tide_column_bytes_scale("b_rss")));
    assert_int_equal(tide_column_role("global_step"), TIDE_COLUMN_STEP);
    assert_int_equal(tide_column_role("elapsed"), TIDE_COLUMN_TIME);
    assert_int_equal(tide_column_role("loss"), TIDE_COLUMN_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_csv_with_a_unit_in_its_column_is_read),
        cmocka_unit_test(without_a_header_times_are_not_steps),
        cmocka_unit_test(tabs_semicolons_spaces_and_quotes_are_understood),
        cmocka_unit_test(json_lines_are_read_by_key),
        cmocka_unit_test(of_hundreds_of_keys_those_that_matter_are_read),
        cmocka_unit_test(numbers_alone_need_only_a_unit),
        cmocka_unit_test(missing_values_are_left_out),
        cmocka_unit_test(time_is_the_axis_where_there_are_no_steps),
        cmocka_unit_test(a_time_of_day_and_a_date_with_slashes_are_times),
        cmocka_unit_test(an_axis_that_cannot_be_read_is_not_replaced_by_the_row_number),
        cmocka_unit_test(cells_may_say_their_unit),
        cmocka_unit_test(a_clock_that_jumps_is_bridged),
        cmocka_unit_test(steps_that_start_over_go_on),
        cmocka_unit_test(a_log_with_its_newest_row_first_is_read_from_its_end),
        cmocka_unit_test(a_log_with_its_newest_row_first_may_pass_midnight_or_start_over),
        cmocka_unit_test(the_pace_of_a_log_with_its_newest_row_first_is_known),
        cmocka_unit_test(steps_that_count_down_by_a_clock_that_rises_keep_their_order),
        cmocka_unit_test(every_memory_column_and_every_pid_is_a_series),
        cmocka_unit_test(rows_without_a_pid_do_not_tear_processes_apart),
        cmocka_unit_test(more_series_than_are_read_are_refused),
        cmocka_unit_test(a_column_can_be_chosen),
        cmocka_unit_test(malformed_text_is_refused_with_its_line),
        cmocka_unit_test(names_are_escaped_in_errors),
        cmocka_unit_test(units_come_from_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
