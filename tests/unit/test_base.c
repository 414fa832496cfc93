/* What test_storage.c, test_text.c and test_option.c leave open: scarcity, JSON on a terminal, descriptors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "failing_malloc.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/descriptors.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/map.h"
#include "base/units.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *json_of(const char *text)
{
    char *written = NULL;
    size_t len;
    FILE *out = open_memstream(&written, &len);
    assert_non_null(out);
    struct tide_json json;
    tide_json_init(&json, out, true);
    tide_json_array(&json, NULL);
    tide_json_text(&json, NULL, text);
    tide_json_end(&json);
    assert_int_equal(fclose(out), 0);
    return written;
}

static void what_could_drive_a_terminal_is_escaped_in_json_too(void **state)
{
    (void)state;
    static const struct {
        const char *given, *written;
    } cases[] = {
        {"\xc2\x9b"
         "31m",
         "[\"\\u009b31m\"]\n"},
        {"\xe2\x80\xae"
         "gpj",
         "[\"\\u202egpj\"]\n"},
        {"\xe2\x81\xa6\xef\xbb\xbf", "[\"\\u2066\\ufeff\"]\n"},
        {"\xd8\x9c", "[\"\\u061c\"]\n"},
        {"\x1b\x7f\t", "[\"\\u001b\\u007f\\u0009\"]\n"},
        {"caf\xc3\xa9 \xf0\x9f\x8c\x8a", "[\"caf\xc3\xa9 \xf0\x9f\x8c\x8a\"]\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *written = json_of(cases[i].given);
        assert_string_equal(written, cases[i].written);
        free(written);
    }
}

static void every_short_duration_has_its_own_unit(void **state)
{
    (void)state;
    char out[TIDE_UNITS_TEXT];
    assert_string_equal(tide_duration_text(0.0009996, out), "1 ms");
    assert_string_equal(tide_duration_text(0.9996, out), "1.0 s");
    assert_string_equal(tide_duration_text(9.96, out), "10 s");
    assert_string_equal(tide_duration_text(3569, out), "59 m");
    assert_string_equal(tide_duration_text(3571, out), "1 h 0 m");
}

#if HAVE_FAILING_MALLOC

static void an_arena_survives_a_failed_allocation(void **state)
{
    (void)state;
    NEEDS_FAILING_MALLOC();
    struct tide_arena arena;
    tide_arena_init(&arena, 1 << 30);
    char *kept = tide_arena_text(&arena, "kept", 4);
    assert_non_null(kept);
    size_t held = arena.held_bytes;
    failing_arm(0);
    void *big = tide_arena_take(&arena, 1, 1 << 20);
    void *small = tide_arena_take(&arena, 1, 16);
    assert_true(failing_disarm());
    assert_null(big);
    assert_non_null(small);
    assert_int_equal(arena.held_bytes, held);
    assert_string_equal(kept, "kept");
    assert_non_null(tide_arena_take(&arena, 1, 1 << 20));
    tide_arena_release(&arena);
    assert_int_equal(arena.held_bytes, 0);
}

static void a_buffer_survives_a_failed_allocation(void **state)
{
    (void)state;
    NEEDS_FAILING_MALLOC();
    struct tide_buf buf;
    tide_buf_init(&buf, 1 << 20);
    failing_arm(0);
    tide_buf_text(&buf, "lost");
    assert_true(failing_disarm());
    assert_true(buf.failed);
    assert_string_equal(tide_buf_view(&buf), "");
    tide_buf_text(&buf, "still failed");
    assert_string_equal(tide_buf_view(&buf), "");
    tide_buf_clear(&buf);
    tide_buf_text(&buf, "kept");
    failing_arm(0);
    tide_buf_format(&buf, "%1000d", 5);
    assert_true(failing_disarm());
    assert_true(buf.failed);
    assert_string_equal(tide_buf_view(&buf), "kept");
    tide_buf_release(&buf);
}

static void an_array_survives_a_failed_allocation(void **state)
{
    (void)state;
    NEEDS_FAILING_MALLOC();
    int *numbers = NULL;
    size_t capacity = 0;
    assert_int_equal(TIDE_GROW(numbers, capacity, 1, 1000), 0);
    size_t before = capacity;
    numbers[0] = 7;
    failing_arm(0);
    assert_int_equal(TIDE_GROW(numbers, capacity, before + 1, 1000), -1);
    assert_true(failing_disarm());
    assert_int_equal(capacity, before);
    assert_int_equal(numbers[0], 7);
    free(numbers);
}

static void a_map_survives_every_failed_allocation(void **state)
{
    (void)state;
    NEEDS_FAILING_MALLOC();
    enum { KEYS = 500 };
    bool failed = true;
    for (long good = 0; failed; good++) {
        struct tide_map map;
        tide_map_init(&map, KEYS);
        uint64_t put = 0;
        failing_arm(good);
        while (put < KEYS && !tide_map_put(&map, put * 977, put))
            put++;
        failed = failing_disarm();
        assert_int_equal(put == KEYS, !failed);
        assert_int_equal(map.count, put);
        for (uint64_t i = 0; i < KEYS; i++) {
            uint64_t value = KEYS;
            assert_int_equal(tide_map_get(&map, i * 977, &value), i < put);
            assert_int_equal(value, i < put ? i : KEYS);
        }
        assert_int_equal(tide_map_put(&map, UINT64_MAX, 1), put < KEYS ? 0 : -1);
        tide_map_release(&map);
    }
}

#endif

static void an_array_grows_to_its_maximum_and_no_further(void **state)
{
    (void)state;
    enum { MOST = 1000 };
    uint16_t *numbers = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < MOST; i++) {
        assert_int_equal(TIDE_GROW(numbers, capacity, i + 1, MOST), 0);
        assert_true(capacity > i);
        numbers[i] = (uint16_t)i;
    }
    assert_int_equal(capacity, MOST);
    assert_int_equal(TIDE_GROW(numbers, capacity, MOST + 1, MOST), -1);
    assert_int_equal(TIDE_GROW(numbers, capacity, MOST + 1, SIZE_MAX), -1);
    for (size_t i = 0; i < MOST; i++)
        assert_int_equal(numbers[i], i);
    free(numbers);
}

static void only_the_descriptors_that_are_kept_stay_open(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        int fds[6];
        for (int i = 0; i < 6; i++)
            fds[i] = fcntl(0, F_DUPFD, 100 + 50 * i);
        tide_close_all_but(100, (const int[]){fds[4], -1, fds[1]}, 3);
        for (int i = 0; i < 6; i++)
            if ((fcntl(fds[i], F_GETFD) >= 0) != (i == 1 || i == 4))
                _exit(1 + i);
        _exit(fcntl(0, F_GETFD) >= 0 ? 0 : 9);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_descriptors_that_are_kept_stay_open),
        cmocka_unit_test(what_could_drive_a_terminal_is_escaped_in_json_too),
        cmocka_unit_test(every_short_duration_has_its_own_unit),
        cmocka_unit_test(an_array_grows_to_its_maximum_and_no_further),
#if HAVE_FAILING_MALLOC
        cmocka_unit_test(an_arena_survives_a_failed_allocation),
        cmocka_unit_test(a_buffer_survives_a_failed_allocation),
        cmocka_unit_test(an_array_survives_a_failed_allocation),
        cmocka_unit_test(a_map_survives_every_failed_allocation),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
