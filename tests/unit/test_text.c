/* Untrusted text, sizes and durations for people, and the JSON that is written from both. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"

#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void what_could_drive_a_terminal_is_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *given, *shown;
    } cases[] = {
        {"python", "python"},
        {"\x1b[31mred", "\\x1b[31mred"},
        {"a\nb\tc\r\x7f", "a\\x0ab\\x09c\\x0d\\x7f"},
        {"\x9b", "\\x9b"},              /* a bare C1 byte is not UTF-8 */
        {"\xc2\x9b", "\\u{9b}"},        /* the same as UTF-8 */
        {"caf\xc3\xa9", "caf\xc3\xa9"}, /* kept */
        {"\xe2\x80\xae"
         "gpj",
         "\\u{202e}gpj"},                                      /* right-to-left override */
        {"\xc0\xaf\xed\xa0\x80", "\\xc0\\xaf\\xed\\xa0\\x80"}, /* overlong, surrogate */
        {"\xf0\x9f\x8c\x8a", "\xf0\x9f\x8c\x8a"},
        {"", ""},
    };
    char out[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(tide_text_escape(cases[i].given, strlen(cases[i].given), out, sizeof out),
                            cases[i].shown);
    assert_string_equal(tide_text_escape("a\0b", 3, out, sizeof out), "a\\x00b");
}

static void a_text_that_does_not_fit_ends_in_two_dots_and_never_overruns(void **state)
{
    (void)state;
    const char *text = "ab\x1b\xc3\xa9\xe2\x80\xae"
                       "cdefghijklmnop";
    for (size_t size = 1; size < 60; size++) {
        char *out = malloc(size);
        tide_text_escape(text, strlen(text), out, size);
        size_t len = strlen(out);
        assert_true(len < size);
        for (size_t i = 0; i < len;) {
            size_t taken = tide_text_rune(out + i, len - i, NULL);
            assert_true(taken > 0);
            i += taken;
        }
        if (size < 30 && size >= 3)
            assert_string_equal(out + len - 2, "..");
        free(out);
    }
}

static void columns_are_counted_as_a_terminal_counts_them(void **state)
{
    (void)state;
    assert_int_equal(tide_text_columns("abc", 3), 3);
    assert_int_equal(tide_text_columns("caf\xc3\xa9", 5), 4);
    assert_int_equal(tide_text_columns("e\xcc\x81", 3), 1);    /* combining accent */
    assert_int_equal(tide_text_columns("\xe6\xb5\xb7", 3), 2); /* wide */
    assert_int_equal(tide_text_columns("\xf0\x9f\x8c\x8a", 4), 2);
}

static void only_a_slip_gets_a_suggestion(void **state)
{
    (void)state;
    static const char *const names[] = {"run", "attach", "watch", "judge", "show", NULL};
    assert_string_equal(tide_text_nearest("wtach", names), "watch");
    assert_string_equal(tide_text_nearest("jugde", names), "judge");
    assert_string_equal(tide_text_nearest("shw", names), "show");
    assert_string_equal(tide_text_nearest("watch", names), "watch");
    assert_null(tide_text_nearest("python", names));
    assert_null(tide_text_nearest("completely-different-and-longer-than-any-name-there-is", names));
}

static void sizes_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"64K", 64000},
        {"64k", 64000},
        {"64Ki", 65536},
        {"1.5G", 1500000000},
        {"1.5g", 1500000000},
        {"1.5Gi", 1610612736},
        {"24GiB", INT64_C(25769803776)},
        {"22.65GB", INT64_C(22650000000)},
        {"1 MiB", 1048576},
        {"1e3", 1000},
        {"0.5T", INT64_C(500000000000)},
        {"0.5TiB", INT64_C(549755813888)},
    };
    int64_t bytes;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(tide_size_parse(good[i].text, &bytes), 0);
        assert_int_equal(bytes, good[i].bytes);
    }
    static const char *const bad[] = {"",   "-1",   "G", "1GG",        "1 2",         "0x10", "nan", "inf",
                                      "1e", "1e99", ".", "12 parsecs", "9999999999G", "1K ",  "+-1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bytes = 77;
        assert_int_equal(tide_size_parse(bad[i], &bytes), -1);
        assert_int_equal(bytes, 77);
    }
    assert_true(tide_size_unit("gb") == 1e9 && tide_size_unit("KiB") == 1024 && tide_size_unit("b") == 1);
    assert_true(isnan(tide_size_unit("")) && isnan(tide_size_unit("furlong")));
}

static void a_size_that_was_typed_is_said_in_both_units(void **state)
{
    (void)state;
    static const struct {
        double bytes;
        const char *text;
    } cases[] = {
        {80e9, "80 GB = 74.5 GiB"},           {2.2e9, "2.2 GB = 2.0 GiB"},  {22.65e9, "22.65 GB = 21.1 GiB"},
        {640e6, "640 MB = 610 MiB"},          {100e3, "100 KB = 97.7 KiB"}, {1, "1 B"},
        {24 * 0x1p30, "25.77 GB = 24.0 GiB"}, {999999, "1 MB = 977 KiB"},   {0x1p62, "4.61 EB = 4.0 EiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[TIDE_UNITS_TEXT];
        assert_string_equal(tide_typed_size_text(cases[i].bytes, text), cases[i].text);
    }
}

static void durations_counts_and_numbers_are_read_strictly(void **state)
{
    (void)state;
    int64_t value;
    assert_int_equal(tide_duration_parse("500ms", &value), 0);
    assert_int_equal(value, 500000000);
    assert_int_equal(tide_duration_parse("2m", &value), 0);
    assert_int_equal(value, INT64_C(120000000000));
    assert_int_equal(tide_duration_parse("90", &value), 0);
    assert_int_equal(value, INT64_C(90000000000));
    assert_int_equal(tide_duration_parse("1 year", &value), -1);
    assert_int_equal(tide_count_parse("10_000", &value), 0);
    assert_int_equal(value, 10000);
    assert_int_equal(tide_count_parse("-3", &value), 0);
    assert_int_equal(value, -3);
    assert_int_equal(tide_count_parse("9223372036854775807", &value), 0);
    assert_int_equal(tide_count_parse("9223372036854775808", &value), -1);
    assert_int_equal(tide_count_parse("_1", &value), -1);
    assert_int_equal(tide_count_parse("1.5", &value), -1);
    assert_int_equal(tide_count_parse("", &value), -1);
    double real;
    assert_int_equal(tide_real_parse("-1.25e2", &real), 0);
    assert_true(real == -125);
    assert_int_equal(tide_real_parse("0.1", &real), 0);
    assert_true(real == 0.1);
    assert_int_equal(tide_real_parse("1,5", &real), -1);
    assert_int_equal(tide_real_parse("1.5x", &real), -1);
    assert_int_equal(tide_real_parse("nan", &real), -1);
}

static void numbers_are_written_for_people(void **state)
{
    (void)state;
    char out[TIDE_UNITS_TEXT];
    assert_string_equal(tide_memory_text(999, out), "999 B");
    assert_string_equal(tide_memory_text(25.7e6, out), "25.7 MB");
    assert_string_equal(tide_memory_text(2176.6e6, out), "2,177 MB");
    assert_string_equal(tide_memory_text(-22.65e9, out), "-22.65 GB");
    assert_string_equal(tide_memory_text(141.24e9, out), "141.2 GB");
    assert_string_equal(tide_size_text(0, out), "0 B");
    assert_string_equal(tide_size_text(212992, out), "208 KiB");
    assert_string_equal(tide_size_text(4.1 * 0x1p30, out), "4.1 GiB");
    assert_string_equal(tide_size_text(-1536, out), "-1.5 KiB");
    assert_string_equal(tide_size_text(1023.7, out), "1.0 KiB");
    assert_string_equal(tide_count_text(118400, out), "118,400");
    assert_string_equal(tide_count_text(-1234567, out), "-1,234,567");
    assert_string_equal(tide_count_text(12.6, out), "13");
    assert_string_equal(tide_duration_text(33000, out), "9 h 10 m");
    assert_string_equal(tide_duration_text(0.25, out), "250 ms");
    assert_string_equal(tide_duration_text(3599, out), "1 h 0 m");
    assert_string_equal(tide_duration_text(1e12, out), "over 30 years");
}

static void no_number_is_too_large_to_write(void **state)
{
    (void)state;
    static const double values[] = {-1e308, -1e18, -1,       0,         1e-300, 1e15,
                                    1e18,   1e300, INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char out[TIDE_UNITS_TEXT];
        assert_true(strlen(tide_size_text(values[i], out)) < sizeof out);
        assert_true(strlen(tide_typed_size_text(values[i], out)) < sizeof out);
        assert_true(strlen(tide_count_text(values[i], out)) < sizeof out);
        assert_true(strlen(tide_duration_text(values[i], out)) < sizeof out);
    }
}

static char *written(void (*write)(struct tide_json *), bool compact)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    struct tide_json json;
    tide_json_init(&json, out, compact);
    write(&json);
    fclose(out);
    return text;
}

static void write_document(struct tide_json *json)
{
    tide_json_object(json, NULL);
    tide_json_text(json, "text", "q\" b\\ \n \x1b \xff \xc3\xa9");
    tide_json_text(json, "none", NULL);
    tide_json_integer(json, "bytes", INT64_MAX);
    tide_json_real(json, "real", 0.1);
    tide_json_real(json, "nan", NAN);
    tide_json_whole(json, "whole", 1e15 + 0.4);
    tide_json_whole(json, "unknown", NAN);
    tide_json_bool(json, "yes", true);
    tide_json_array(json, "empty");
    tide_json_end(json);
    tide_json_array(json, "rows");
    for (int i = 0; i < 3; i++) {
        tide_json_object(json, NULL);
        tide_json_integer(json, "i", i);
        tide_json_end(json);
    }
    tide_json_null(json, NULL);
    tide_json_end(json);
    tide_json_end(json);
}

static void a_document_reads_back_as_it_was_written(void **state)
{
    (void)state;
    for (int compact = 0; compact < 2; compact++) {
        char *text = written(write_document, compact);
        assert_int_equal(strchr(text, '\n') == text + strlen(text) - 1, compact);
        json_t *read = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(read);
        assert_string_equal(json_string_value(json_object_get(read, "text")),
                            "q\" b\\ \n \x1b \xef\xbf\xbd \xc3\xa9");
        assert_true(json_is_null(json_object_get(read, "none")));
        assert_true(json_integer_value(json_object_get(read, "bytes")) == INT64_MAX);
        assert_true(json_real_value(json_object_get(read, "real")) == 0.1);
        assert_true(json_is_null(json_object_get(read, "nan")));
        assert_int_equal(json_integer_value(json_object_get(read, "whole")), 1000000000000000);
        assert_true(json_is_null(json_object_get(read, "unknown")));
        assert_true(json_is_true(json_object_get(read, "yes")));
        assert_int_equal(json_array_size(json_object_get(read, "empty")), 0);
        assert_int_equal(json_array_size(json_object_get(read, "rows")), 4);
        json_decref(read);
        free(text);
    }
}

static void an_error_is_a_sentence_with_its_context_in_front(void **state)
{
    (void)state;
    struct tide_err err;
    assert_int_equal(tide_err_set(&err, "no such file"), -1);
    assert_string_equal(err.hint, "");
    assert_int_equal(tide_err_hint(&err, "record one with '%s'", "tidemark run"), -1);
    assert_int_equal(tide_err_wrap(&err, "cannot open '%s'", "a.tide"), -1);
    assert_string_equal(err.text, "cannot open 'a.tide': no such file");
    assert_string_equal(err.hint, "record one with 'tidemark run'");
    char big[2000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    tide_err_set(&err, "%s", big);
    tide_err_wrap(&err, "%s", big);
    assert_true(strlen(err.text) < sizeof err.text);
    assert_int_equal(tide_err_set(NULL, "nobody cares"), -1);
    assert_int_equal(tide_err_hint(NULL, "nobody cares"), -1);
    assert_int_equal(tide_err_wrap(NULL, "nobody cares"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_could_drive_a_terminal_is_escaped),
        cmocka_unit_test(a_text_that_does_not_fit_ends_in_two_dots_and_never_overruns),
        cmocka_unit_test(columns_are_counted_as_a_terminal_counts_them),
        cmocka_unit_test(only_a_slip_gets_a_suggestion),
        cmocka_unit_test(sizes_are_read_as_people_write_them),
        cmocka_unit_test(a_size_that_was_typed_is_said_in_both_units),
        cmocka_unit_test(durations_counts_and_numbers_are_read_strictly),
        cmocka_unit_test(numbers_are_written_for_people),
        cmocka_unit_test(no_number_is_too_large_to_write),
        cmocka_unit_test(a_document_reads_back_as_it_was_written),
        cmocka_unit_test(an_error_is_a_sentence_with_its_context_in_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
