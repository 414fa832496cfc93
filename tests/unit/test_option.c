/* Option tables: what is accepted, what is refused, and what is said. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/option.h"

#include <string.h>

struct values {
    bool json, quiet;
    const char *output, *unit;
    int64_t limit_bytes, every_bytes, interval_ns, items;
    double ratio;
};

static const struct tide_option table[] = {
    {'j', "json", TIDE_OPTION_FLAG, offsetof(struct values, json), NULL, NULL, 0, 0, "JSON"},
    {'q', "quiet", TIDE_OPTION_FLAG, offsetof(struct values, quiet), NULL, NULL, 0, 0, "quiet"},
    {'o', "output", TIDE_OPTION_TEXT, offsetof(struct values, output), "FILE", NULL, 0, 0, "file"},
    {0, "unit", TIDE_OPTION_CHOICE, offsetof(struct values, unit), "UNIT", "b|kb|mb", 0, 0, "unit"},
    {0, "limit", TIDE_OPTION_SIZE, offsetof(struct values, limit_bytes), "SIZE", NULL, 0, 0, "limit"},
    {0, "every", TIDE_OPTION_BYTES, offsetof(struct values, every_bytes), "SIZE", NULL, 1, 1000000, "every"},
    {'i', "interval", TIDE_OPTION_DURATION, offsetof(struct values, interval_ns), "TIME", NULL, 1000000,
     INT64_C(3600000000000), "interval"},
    {0, "items", TIDE_OPTION_COUNT, offsetof(struct values, items), "N", NULL, 1, 0, "items"},
    {0, "ratio", TIDE_OPTION_REAL, offsetof(struct values, ratio), "R", NULL, 0, 0, "ratio"},
    {0},
};

enum { MOST = 16 };

/* argv is the words up to NULL, after the command's name. */
static int parse(const char *const *words, int flags, struct values *values, char **operands, int *count,
                 int *dashes, struct tide_err *err)
{
    static char *argv[MOST];
    int argc = 1;
    argv[0] = "judge";
    for (; *words; words++)
        argv[argc++] = (char *)(uintptr_t)*words;
    char **found = NULL;
    *values = (struct values){.items = 7};
    int result = tide_options_parse(table, flags, argc, argv, values, &found, count, dashes, err);
    for (int i = 0; !result && i < *count; i++)
        operands[i] = found[i];
    return result;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void every_way_to_write_a_value_is_accepted(void **state)
{
    (void)state;
    struct values v;
    char *operands[MOST];
    int count, dashes;
    struct tide_err err;
    assert_int_equal(parse(WORDS("--output", "a", "-i", "250ms", "--limit=2G", "--items=1_000", "--unit",
                                 "mb", "--ratio", "0.5", "x"),
                           0, &v, operands, &count, &dashes, &err),
                     0);
    assert_string_equal(v.output, "a");
    assert_int_equal(v.interval_ns, 250000000);
    assert_int_equal(v.limit_bytes, INT64_C(2000000000));
    assert_int_equal(v.items, 1000);
    assert_string_equal(v.unit, "mb");
    assert_true(v.ratio == 0.5);
    assert_int_equal(count, 1);
    assert_int_equal(dashes, -1);
    assert_int_equal(parse(WORDS("-jqofile"), 0, &v, operands, &count, &dashes, &err), 0);
    assert_true(v.json && v.quiet);
    assert_string_equal(v.output, "file");
    assert_int_equal(v.items, 7);
}

static void a_number_without_a_unit_is_bytes_where_it_can_be_meant_so(void **state)
{
    (void)state;
    struct values v;
    char *operands[MOST];
    int count, dashes;
    struct tide_err err;
    assert_int_equal(
        parse(WORDS("--limit", "1000000", "--every", "16"), 0, &v, operands, &count, &dashes, &err), 0);
    assert_int_equal(v.limit_bytes, 1000000);
    assert_int_equal(v.every_bytes, 16);
    assert_int_equal(parse(WORDS("--limit", "16B"), 0, &v, operands, &count, &dashes, &err), 0);
    assert_int_equal(v.limit_bytes, 16);
}

static void options_may_follow_operands_unless_a_command_follows(void **state)
{
    (void)state;
    struct values v;
    char *operands[MOST];
    int count, dashes;
    struct tide_err err;
    assert_int_equal(
        parse(WORDS("a", "--json", "b", "-", "--", "-q"), 0, &v, operands, &count, &dashes, &err), 0);
    assert_true(v.json && !v.quiet);
    assert_int_equal(count, 4);
    assert_int_equal(dashes, 3);
    assert_string_equal(operands[0], "a");
    assert_string_equal(operands[2], "-");
    assert_string_equal(operands[3], "-q");
    assert_int_equal(parse(WORDS("-q", "ls", "--json", "--", "x"), TIDE_OPTIONS_STOP_AT_OPERAND, &v, operands,
                           &count, &dashes, &err),
                     0);
    assert_true(v.quiet && !v.json);
    assert_int_equal(count, 4);
    assert_int_equal(dashes, -1);
    assert_string_equal(operands[1], "--json");
}

static void what_is_wrong_is_said_and_nothing_is_guessed(void **state)
{
    (void)state;
    static const struct {
        const char *words[4];
        const char *text, *hint;
    } cases[] = {
        {{"--jsno"}, "unknown option '--jsno'", "did you mean '--json'?"},
        {{"--completely-else"}, "unknown option '--completely-else'", "-h lists the options"},
        {{"-z"}, "unknown option '-z'", "-h lists the options"},
        {{"-qzj"}, "unknown option '-z'", "-h lists the options"},
        {{"--\x1b[2J"}, "unknown option '--\\x1b[2J'", "-h lists the options"},
        {{"--json=yes"}, "option '--json' takes no value", ""},
        {{"--output"}, "option '--output' needs a FILE", ""},
        {{"-o"}, "option '-o' needs a FILE", ""},
        {{"-o", "--", "true"}, "option '-o' needs a FILE", ""},
        {{"--output", "--"}, "option '--output' needs a FILE", ""},
        {{"--limit", "big"}, "option '--limit': 'big' is not a size", "sizes look like 64K, 512M, 1.5G"},
        {{"--limit=-1"}, "option '--limit': '-1' is not a size", "sizes look like 64K, 512M, 1.5G"},
        {{"--limit", "16"}, "option '--limit': 16 means 16 bytes", "did you mean '16G'?"},
        {{"--limit", "1.5"}, "option '--limit': 1.5 means 1.5 bytes", "did you mean '1.5G'?"},
        {{"--limit", "640"}, "option '--limit': 640 means 640 bytes", "did you mean '640M'?"},
        {{"--limit=64000"}, "option '--limit': 64000 means 64000 bytes", "did you mean '64000M'?"},
        {{"--every", "2M"}, "option '--every': '2M' is out of range", "from 1 B to 1 MB = 977 KiB"},
        {{"-i", "10ns"}, "option '--interval': '10ns' is out of range", "from 1 ms to 1 h 0 m"},
        {{"--items", "0"}, "option '--items': '0' is out of range", "at least 1"},
        {{"--items=-5"}, "option '--items': '-5' is out of range", "at least 1"},
        {{"--unit", "gallon"}, "option '--unit': 'gallon' is not one of its values", "choose one of b|kb|mb"},
        {{"--unit", "b|kb"}, "option '--unit': 'b|kb' is not one of its values", "choose one of b|kb|mb"},
        {{"--ratio", "-0.5"}, "option '--ratio': '-0.5' is out of range", "at least 0"},
        {{"--ratio", "inf"}, "option '--ratio': 'inf' is not a finite number", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct values v;
        char *operands[MOST];
        int count, dashes;
        struct tide_err err;
        assert_int_equal(parse(cases[i].words, 0, &v, operands, &count, &dashes, &err), -1);
        assert_string_equal(err.text, cases[i].text);
        assert_string_equal(err.hint, cases[i].hint);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_write_a_value_is_accepted),
        cmocka_unit_test(a_number_without_a_unit_is_bytes_where_it_can_be_meant_so),
        cmocka_unit_test(options_may_follow_operands_unless_a_command_follows),
        cmocka_unit_test(what_is_wrong_is_said_and_nothing_is_guessed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
