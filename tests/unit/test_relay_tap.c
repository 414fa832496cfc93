/*
 * What the program printed, between two processes: all of it in order, or a gap where some is missing.
 */
#include "cli/relay_tap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct got {
    size_t len, gaps;
    uint64_t sum; /* of byte values, each with its place */
    int stream;
};

static void on_output(void *context, int stream, const char *bytes, size_t len, int64_t t_ns)
{
    struct got *got = context;
    (void)t_ns;
    got->stream = stream;
    got->gaps += len == 0;
    for (size_t i = 0; i < len; i++)
        got->sum += (got->len + i) * (unsigned char)bytes[i];
    got->len += len;
}

static void a_ring_that_goes_round_many_times_keeps_every_byte(void **state)
{
    (void)state;
    struct tide_tap *tap = tide_tap_new();
    struct got got = {0}, put = {0};
    char bytes[50000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    for (size_t round = 0; round < 300; round++) {
        size_t len = 1 + round * 8191 % sizeof bytes;
        tide_tap_put(tap, round % 2, bytes, len, (int64_t)round);
        on_output(&put, 0, bytes, len, 0);
        tide_tap_take(tap, on_output, &got);
        assert_int_equal(got.stream, round % 2);
    }
    assert_int_equal(got.len, put.len);
    assert_int_equal(got.sum, put.sum);
    assert_int_equal(got.gaps, 0);
    tide_tap_free(tap);
}

static void what_finds_no_room_is_a_gap_of_its_stream(void **state)
{
    (void)state;
    struct tide_tap *tap = tide_tap_new();
    struct got got = {0};
    static char bytes[64 * 1024];
    size_t pieces = 0;
    for (; pieces < 100; pieces++)
        tide_tap_put(tap, 0, bytes, sizeof bytes, 1);
    tide_tap_take(tap, on_output, &got);
    assert_in_range(got.len, 512 * 1024, 2 * 1024 * 1024);
    assert_int_equal(got.gaps, 0);
    size_t before = got.len;
    tide_tap_put(tap, 0, "after", 5, 2);
    tide_tap_take(tap, on_output, &got);
    assert_int_equal(got.gaps, 1);
    assert_int_equal(got.len, before + 5);
    tide_tap_put(tap, 0, "more", 4, 3);
    tide_tap_take(tap, on_output, &got);
    assert_int_equal(got.gaps, 1);
    tide_tap_free(tap);
}

static void a_writer_in_another_process_is_heard_while_it_writes(void **state)
{
    (void)state;
    enum { LINES = 20000 };
    struct tide_tap *tap = tide_tap_new();
    struct got got = {0};
    pid_t writer = fork();
    if (writer == 0) {
        for (int i = 0; i < LINES; i++)
            tide_tap_put(tap, 1, "step 12345\n", 11, i);
        _exit(0);
    }
    int status = 0;
    for (pid_t ended = 0; ended == 0; ended = waitpid(writer, &status, WNOHANG))
        tide_tap_take(tap, on_output, &got);
    tide_tap_take(tap, on_output, &got);
    assert_int_equal(status, 0);
    assert_int_equal(got.len % 11, 0);
    assert_true(got.gaps ? got.len < 11 * LINES : got.len == 11 * LINES);
    tide_tap_free(tap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_that_goes_round_many_times_keeps_every_byte),
        cmocka_unit_test(what_finds_no_room_is_a_gap_of_its_stream),
        cmocka_unit_test(a_writer_in_another_process_is_heard_while_it_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
