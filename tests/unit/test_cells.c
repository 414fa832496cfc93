/*
 * test_cells.c - what the terminal view is drawn with and driven by: cells, lines of a log, names of keys.
 */
#include "show/screen/log.h"
#include "show/screen/screen.h"
#include "show/screen/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- cells */

static void a_cell_never_holds_a_control_character(void **state)
{
    (void)state;
    struct tide_cells cells;
    tide_cells_init(&cells, false);
    assert_int_equal(tide_cells_resize(&cells, 20, 1), 0);
    tide_cells_text(&cells, 0, 0, 20, TIDE_STYLE_PLAIN, "a\x1b[31mb\x07\xc2\x9b\xff");
    tide_cells_rune(&cells, 0, 19, TIDE_STYLE_PLAIN, 0x1b);
    for (int i = 0; i < 20; i++) {
        uint32_t rune = cells.cells[i].rune;
        assert_true(rune >= 0x20 && rune != 0x7f && !(rune >= 0x80 && rune < 0xa0));
    }
    tide_cells_release(&cells);
}

static void a_wide_rune_takes_two_cells_and_is_never_halved(void **state)
{
    (void)state;
    struct tide_cells cells;
    tide_cells_init(&cells, false);
    assert_int_equal(tide_cells_resize(&cells, 5, 1), 0);
    assert_int_equal(tide_cells_text(&cells, 0, 0, 5, TIDE_STYLE_PLAIN, "\xe6\x97\xa5\xe6\x9c\xac"), 4);
    assert_int_equal(cells.cells[0].columns, 2);
    assert_int_equal(cells.cells[1].columns, 0);
    tide_cells_rune(&cells, 0, 1, TIDE_STYLE_PLAIN, 'x');
    assert_int_equal(cells.cells[0].rune, ' ');
    assert_int_equal(cells.cells[1].rune, 'x');
    tide_cells_clear(&cells);
    assert_int_equal(tide_cells_text(&cells, 0, 4, 1, TIDE_STYLE_PLAIN, "\xe6\x97\xa5"), 0);
    tide_cells_release(&cells);
}

static void drawing_outside_is_clipped(void **state)
{
    (void)state;
    struct tide_cells cells;
    tide_cells_init(&cells, true);
    assert_int_equal(tide_cells_resize(&cells, 3, 2), 0);
    tide_cells_text(&cells, -1, 0, 10, TIDE_STYLE_PLAIN, "above");
    tide_cells_text(&cells, 7, 0, 10, TIDE_STYLE_PLAIN, "below");
    tide_cells_text(&cells, 1, -2, 10, TIDE_STYLE_PLAIN, "abcdefgh");
    tide_cells_paint(&cells, 1, -5, 100, TIDE_STYLE_CHOSEN);
    tide_cells_blank(&cells, -3, 4);
    assert_int_equal(cells.cells[3].rune, 'c');
    assert_int_equal(cells.cells[3].style, TIDE_STYLE_CHOSEN);
    tide_cells_release(&cells);
}

static void text_breaks_at_spaces_and_says_when_it_is_cut(void **state)
{
    (void)state;
    struct tide_cells cells;
    char *text = NULL;
    size_t len = 0;
    tide_cells_init(&cells, false);
    assert_int_equal(tide_cells_resize(&cells, 10, 3), 0);
    assert_int_equal(tide_cells_wrap(&cells, 0, 0, 10, 3, 2, TIDE_STYLE_PLAIN, "one two three four five six"),
                     3);
    FILE *out = open_memstream(&text, &len);
    tide_cells_dump(&cells, out);
    fclose(out);
    assert_string_equal(text, "one two\n  three\n  four f..\n");
    free(text);
    tide_cells_release(&cells);
}

/* ---- log */

static void a_log_shows_what_a_terminal_would(void **state)
{
    (void)state;
    struct tide_buf log;
    tide_buf_init(&log, TIDE_LOG_TEXT);
    const char text[] = "one\r\n 10%\r 20%\r 30%\n\x1b[31mred\x1b[0m \x1b]0;title\x07tab\there\x01\n"
                        "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b(Bplain\nlast";
    tide_log_take(&log, text, sizeof text - 1);
    assert_string_equal(tide_buf_view(&log), "one\n 30%\nred tab here\\x01\nlink plain\nlast\n");
    tide_log_take(&log, "\x1b", 1);
    assert_string_equal(tide_buf_view(&log), "\n");
    char longest[5000];
    memset(longest, 'x', sizeof longest);
    tide_log_take(&log, longest, sizeof longest);
    assert_true(strlen(tide_buf_view(&log)) < 1100);
    tide_log_read(&log, "/no/such/file");
    assert_string_equal(tide_buf_view(&log), "");
    tide_buf_release(&log);
}

static void keys_have_names(void **state)
{
    (void)state;
    const char *rest;
    assert_int_equal(tide_screen_key("zq", &rest), 'z');
    assert_string_equal(rest, "q");
    assert_int_equal(tide_screen_key("<down>q", &rest), TIDE_KEY_DOWN);
    assert_string_equal(rest, "q");
    assert_int_equal(tide_screen_key("<less>", &rest), '<');
    assert_int_equal(tide_screen_key("<dwon>", &rest), 0);
    assert_int_equal(tide_screen_key("<", &rest), 0);
    assert_int_equal(tide_screen_key("", &rest), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_never_holds_a_control_character),
        cmocka_unit_test(a_wide_rune_takes_two_cells_and_is_never_halved),
        cmocka_unit_test(drawing_outside_is_clipped),
        cmocka_unit_test(text_breaks_at_spaces_and_says_when_it_is_cut),
        cmocka_unit_test(a_log_shows_what_a_terminal_would),
        cmocka_unit_test(keys_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
