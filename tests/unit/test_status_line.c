/*
 * The status line between the program's bytes: when it is drawn, when hands are off, and what is held back.
 */
#include "cli/status_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct terminal {
    struct tide_status_line line;
    char got[4096];
    size_t len;
};

static void put(void *context, const char *bytes, size_t len)
{
    struct terminal *t = context;
    assert_true(t->len + len < sizeof t->got);
    memcpy(t->got + t->len, bytes, len);
    t->len += len;
    t->got[t->len] = '\0';
}

static void begin(struct terminal *t, int rows, int columns)
{
    *t = (struct terminal){0};
    tide_status_line_init(&t->line, rows, columns, true, false, put, t);
}

static void feed(struct terminal *t, const char *text)
{
    t->len = 0;
    t->got[0] = '\0';
    tide_status_line_feed(&t->line, text, strlen(text));
}

static bool draws(struct terminal *t)
{
    t->len = 0;
    t->got[0] = '\0';
    bool drawn = tide_status_line_draw(&t->line, "hello");
    assert_int_equal(drawn, strstr(t->got, "hello") != NULL);
    return drawn;
}

static void the_row_is_reserved_once_and_given_back(void **state)
{
    (void)state;
    struct terminal t;
    begin(&t, 24, 80);
    assert_int_equal(tide_status_line_rows(&t.line), 23);
    assert_true(draws(&t));
    assert_non_null(strstr(t.got, "\x1b[1;23r"));
    assert_true(draws(&t));
    assert_null(strstr(t.got, "\x1b[1;23r"));
    t.len = 0;
    tide_status_line_end(&t.line);
    assert_string_equal(t.got, "\x1b"
                               "7\x1b[r\x1b[24;1H\x1b[2K\x1b"
                               "8");
    t.len = 0;
    t.got[0] = '\0';
    tide_status_line_end(&t.line);
    assert_string_equal(t.got, "");
}

static void small_terminals_keep_all_their_rows(void **state)
{
    (void)state;
    struct terminal t;
    begin(&t, 5, 80);
    assert_int_equal(tide_status_line_rows(&t.line), 5);
    assert_false(draws(&t));
    begin(&t, 24, 39);
    assert_int_equal(tide_status_line_rows(&t.line), 24);
    assert_false(draws(&t));
}

static void nothing_is_drawn_inside_a_sequence_a_string_or_a_letter(void **state)
{
    (void)state;
    static const struct {
        const char *open, *close;
    } cut[] = {{"\x1b", "[m"},
               {"\x1b[3", "1m"},
               {"\x1b]0;ti", "tle\x07"},
               {"\x1bPq", "\x1b\\"},
               {"a\xe2\x96", "\x88\r"}};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        struct terminal t;
        begin(&t, 24, 80);
        feed(&t, cut[i].open);
        assert_false(draws(&t));
        feed(&t, cut[i].close);
        assert_true(draws(&t));
    }
}

static void nothing_is_drawn_while_the_cursor_waits_at_the_edge(void **state)
{
    (void)state;
    struct terminal t;
    begin(&t, 24, 40);
    feed(&t, "0123456789012345678901234567890123456789");
    assert_false(draws(&t));
    feed(&t, "x");
    assert_true(draws(&t));
    feed(
        &t,
        "\r\n\xe4\xbd\xa0\xe5\xa5\xbd" /* two wide runes: 4 columns */ "01234567890123456789012345678901234");
    assert_true(draws(&t));
    feed(&t, "5");
    assert_false(draws(&t));
    feed(&t, "\r");
    assert_true(draws(&t));
}

static void a_sequence_that_is_cut_is_held_back_until_it_is_complete(void **state)
{
    (void)state;
    struct terminal t;
    begin(&t, 24, 80);
    feed(&t, "ab\x1b[3");
    assert_string_equal(t.got, "ab");
    feed(&t, "1mc");
    assert_string_equal(t.got, "\x1b[31mc");
    feed(&t, "\x1b[");
    assert_string_equal(t.got, "");
    tide_status_line_flush(&t.line);
    assert_string_equal(t.got, "\x1b[");
}

static void the_row_is_given_back_before_the_program_takes_the_screen(void **state)
{
    (void)state;
    static const char *const takes[] = {"\x1b[?1049h",
                                        "\x1b[?47h",
                                        "\x1b[?25;1049h",
                                        "\x1b[5;10r",
                                        "\x1b"
                                        "7",
                                        "\x1b[s"};
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++) {
        struct terminal t;
        begin(&t, 24, 80);
        assert_true(draws(&t));
        feed(&t, takes[i]);
        char *reset = strstr(t.got, "\x1b[r"), *own = t.got + t.len - strlen(takes[i]);
        assert_non_null(reset);
        assert_string_equal(own, takes[i]);
        assert_true(reset < own);
        assert_false(draws(&t));
    }
}

static void it_comes_back_after_the_alternate_screen_and_after_a_scroll_region(void **state)
{
    (void)state;
    struct terminal t;
    begin(&t, 24, 80);
    assert_true(draws(&t));
    feed(&t, "\x1b[?1049h\x1b[?1049l\r");
    assert_true(draws(&t));
    feed(&t, "\x1b[2;5r");
    assert_false(draws(&t));
    feed(&t, "\x1b[r");
    assert_true(draws(&t));
    assert_non_null(strstr(t.got, "\x1b[1;23r"));
    feed(&t, "\x1b[1;23r"); /* all that the program knows of: ours is put in place again at once */
    assert_true(draws(&t));
    feed(&t, "\x1b"
             "7\x1b"
             "8\r\n");
    assert_false(draws(&t)); /* for good */
}

static void a_text_that_is_too_long_is_cut_by_columns(void **state)
{
    (void)state;
    struct terminal t;
    begin(&t, 24, 40);
    t.len = 0;
    assert_true(tide_status_line_draw(&t.line, "\xc3\xbc\xc3\xbc 34567890123456789012345678901234567890123"));
    assert_non_null(strstr(t.got, "34567890123456789012345678901234567"));
    assert_null(strstr(t.got, "345678901234567890123456789012345678 "));
    assert_null(strstr(t.got, "0123\x1b"));
}

static void an_unwanted_line_changes_nothing(void **state)
{
    (void)state;
    struct terminal t = {0};
    tide_status_line_init(&t.line, 24, 80, false, true, put, &t);
    feed(&t, "\x1b[");
    assert_string_equal(t.got, "\x1b[");
    assert_int_equal(tide_status_line_rows(&t.line), 24);
    assert_false(draws(&t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_row_is_reserved_once_and_given_back),
        cmocka_unit_test(small_terminals_keep_all_their_rows),
        cmocka_unit_test(nothing_is_drawn_inside_a_sequence_a_string_or_a_letter),
        cmocka_unit_test(nothing_is_drawn_while_the_cursor_waits_at_the_edge),
        cmocka_unit_test(a_sequence_that_is_cut_is_held_back_until_it_is_complete),
        cmocka_unit_test(the_row_is_given_back_before_the_program_takes_the_screen),
        cmocka_unit_test(it_comes_back_after_the_alternate_screen_and_after_a_scroll_region),
        cmocka_unit_test(a_text_that_is_too_long_is_cut_by_columns),
        cmocka_unit_test(an_unwanted_line_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
