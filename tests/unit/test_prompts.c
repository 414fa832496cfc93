/*
 * test_prompts.c - files of prompts: good ones, damaged and hostile ones, and those that change while in use.
 */
#include "one_file.h"
#include "base/allocations.h"
#include "failing_malloc.h"
#include "train/prompts.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tide_prompts *opened(const char *text, uint64_t seed)
{
    struct tide_prompts *prompts;
    struct tide_err err;
    write_file(text, strlen(text));
    if (tide_prompts_open(path, seed, &prompts, &err))
        fail_msg("%s", err.text);
    return prompts;
}

/* The sentence after the file's name begins so; what is the matter with JSON, jansson says in its words. */
static void assert_refused(const char *text, size_t len, const char *sentence, const char *hint)
{
    struct tide_prompts *prompts;
    struct tide_err err;
    write_file(text, len);
    assert_int_equal(tide_prompts_open(path, 1, &prompts, &err), -1);
    const char *after = strstr(err.text, ": ");
    assert_non_null(after);
    assert_memory_equal(after + 2, sentence, strlen(sentence));
    assert_true(hint ? strstr(err.hint, hint) != NULL : !*err.hint);
}

static void lines_have_a_prompt_and_fields_as_they_stand(void **state)
{
    (void)state;
    struct tide_err err;
    struct tide_prompt prompt;
    struct tide_prompts *prompts = opened(
        "\xef\xbb\xbf{\"prompt\": \"a\\u00e9\\ud83d\\ude00\\n\\\"\\\\\\/\", \"n\": 18446744073709551616}\n"
        "\n  \r\n"
        "{ \"x\" : {\"prompt\": \"not this\"}, \"y\": [\"prompt\", \"nor\"],\r\"z\": \"prompt\", "
        "\"\\u0070rompt\": \"it\" }\r\n"
        "{\"prompt\":\"without an end\"}",
        7);
    assert_int_equal(tide_prompts_count(prompts), 3);
    assert_int_equal(tide_prompts_read_in_order(prompts, 0, &prompt, &err), 0);
    assert_string_equal(prompt.text, "a\xc3\xa9\xf0\x9f\x98\x80\n\"\\/");
    assert_int_equal(prompt.len, strlen(prompt.text));
    assert_int_equal(prompt.line, 1);
    static const char first[] =
        "\"prompt\": \"a\\u00e9\\ud83d\\ude00\\n\\\"\\\\\\/\", \"n\": 18446744073709551616";
    assert_int_equal(prompt.fields_len, strlen(first));
    assert_memory_equal(prompt.fields, first, strlen(first));
    assert_int_equal(tide_prompts_read_in_order(prompts, 1, &prompt, &err), 0);
    assert_string_equal(prompt.text, "it");
    assert_int_equal(prompt.line, 4);
    assert_null(memchr(prompt.fields, '\r', prompt.fields_len));
    assert_int_equal(tide_prompts_read_in_order(prompts, 2, &prompt, &err), 0);
    assert_string_equal(prompt.text, "without an end");
    assert_int_equal(prompt.line, 5);
    tide_prompts_free(prompts);
}

static void a_bad_line_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *line, *sentence, *hint;
    } cases[] = {
        {"{\"prompt\": \"a\"", "line 2: it is not valid JSON: ", "object like"},
        {"hello", "line 2: it is not valid JSON: ", "object like"},
        {"{\"prompt\":\"a\",\"prompt\":\"b\"}", "line 2: it is not valid JSON: ", "object like"},
        {"{\"prompt\":\"a\",\"n\":NaN}", "line 2: it is not valid JSON: ", "object like"},
        {"[\"a\"]", "line 2: it is not a JSON object", NULL},
        {"{\"question\": \"a\"}", "line 2: it has no field 'prompt'", "object like"},
        {"{\"prompt\": 5}", "line 2: 'prompt' is not a text", NULL},
        {"{\"prompt\": null}", "line 2: 'prompt' is not a text", NULL},
        {"{\"prompt\": \"\"}", "line 2: 'prompt' is empty", NULL},
        {"{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}]}",
         "line 2: 'prompt' is a list of messages, and must be a text", "apply_chat_template"},
        {"{\"prompt\": \"a\", \"completions\": [\"b\"]}",
         "line 2: it has a field 'completions', which is the name of what the model generates", NULL},
        {"{\"prompt\": \"a\xff\"}", "line 2: it is not UTF-8: byte 14 of the line", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"prompt\":\"good\"}\n%s\n", cases[i].line);
        assert_refused(text, strlen(text), cases[i].sentence, cases[i].hint);
    }
    assert_refused("", 0, "it has no prompts", "object like");
    assert_refused("\n \n", 3, "it has no prompts", "object like");
    assert_refused("{\"prompt\":\"a\\u0000\"}", 19, "line 1: it has a NUL (\\u0000), which text may not have",
                   NULL);
    char *large = malloc(TIDE_PROMPTS_LINE_MOST + 100);
    memset(large, ' ', TIDE_PROMPTS_LINE_MOST + 100);
    assert_refused(large, TIDE_PROMPTS_LINE_MOST + 100, "line 1: it is longer than 1.0 MiB", NULL);
    free(large);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    struct tide_prompts *prompts;
    struct tide_err err;
    assert_int_equal(tide_prompts_open("/tmp", 1, &prompts, &err), -1);
    assert_string_equal(err.text, "cannot open '/tmp': it is not a regular file");
    assert_int_equal(tide_prompts_open("/tmp/not/there", 1, &prompts, &err), -1);
    assert_string_equal(err.text, "cannot open '/tmp/not/there': No such file or directory");
}

static struct tide_prompts *numbered(int count, uint64_t seed)
{
    char *text = malloc((size_t)count * 32), *at = text;
    for (int i = 0; i < count; i++)
        at += sprintf(at, "{\"prompt\":\"p%d\"}\n", i);
    struct tide_prompts *prompts = opened(text, seed);
    free(text);
    return prompts;
}

static int64_t line_of(struct tide_prompts *prompts, uint64_t number)
{
    struct tide_prompt prompt;
    struct tide_err err;
    if (tide_prompts_read(prompts, number, &prompt, &err))
        fail_msg("%s", err.text);
    return prompt.line;
}

static void every_prompt_comes_once_in_an_epoch(void **state)
{
    (void)state;
    static const int counts[] = {1, 2, 3, 5, 64, 1000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int count = counts[c], moved = 0;
        struct tide_prompts *prompts = numbered(count, 3);
        int64_t *before = calloc((size_t)count, sizeof *before);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            bool *seen = calloc((size_t)count + 1, sizeof *seen);
            for (int i = 0; i < count; i++) {
                int64_t line = line_of(prompts, epoch * (uint64_t)count + (uint64_t)i);
                assert_false(seen[line]);
                seen[line] = true;
                moved += epoch && line != before[i];
                before[i] = line;
            }
            free(seen);
        }
        assert_true(count < 64 || moved > count); /* of two times as many: another order each */
        free(before);
        tide_prompts_free(prompts);
    }
}

static void the_order_is_the_seeds(void **state)
{
    (void)state;
    struct tide_prompts *one = numbered(100, 1), *other = numbered(100, 2);
    int same = 0;
    for (uint64_t i = 300; i < 400; i++)
        same += line_of(one, i) == line_of(other, i);
    assert_true(same < 20);
    struct tide_prompts *again = numbered(100, 1);
    for (uint64_t i = 399; i >= 300; i--)
        assert_int_equal(line_of(one, i), line_of(again, i));
    tide_prompts_free(one);
    tide_prompts_free(other);
    tide_prompts_free(again);
}

static void a_file_that_changes_is_noticed(void **state)
{
    (void)state;
    struct tide_prompt prompt;
    struct tide_err err;
    struct tide_prompts *prompts = opened("{\"prompt\":\"one\"}\n{\"prompt\":\"two\"}\n", 1);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "w", 1, 28), 1);
    assert_int_equal(pwrite(fd, "W", 1, 29), 1);
    assert_int_equal(tide_prompts_read_in_order(prompts, 0, &prompt, &err), 0);
    assert_int_equal(tide_prompts_read_in_order(prompts, 1, &prompt, &err), -1);
    assert_non_null(strstr(err.text, ": line 2: it was changed while in use"));
    assert_int_equal(ftruncate(fd, 20), 0);
    assert_int_equal(tide_prompts_read_in_order(prompts, 1, &prompt, &err), -1);
    assert_non_null(strstr(err.text, ": line 2: it was truncated while in use: it had 34 bytes"));
    close(fd);
    tide_prompts_free(prompts);
}

static void sums_are_prompts_that_are_not_held_out(void **state)
{
    (void)state;
    struct tide_data_source source = {.seed = 5, .sequence = 8};
    struct tide_data *data;
    struct tide_prompts *prompts;
    struct tide_prompt prompt;
    struct tide_err err;
    assert_int_equal(tide_data_open(&source, &data, &err), 0);
    assert_int_equal(tide_prompts_sums(data, &prompts, &err), 0);
    char asked[500][16];
    for (uint64_t n = 0; n < 500; n++)
        tide_data_question(data, n, true, asked[n], sizeof asked[n]);
    for (uint64_t i = 0; i < 500; i++) {
        char fields[64];
        assert_int_equal(tide_prompts_read(prompts, i, &prompt, &err), 0);
        assert_int_equal(prompt.len, 6);
        snprintf(fields, sizeof fields, "\"prompt\":\"%s\"", prompt.text);
        assert_int_equal(prompt.fields_len, strlen(fields));
        assert_memory_equal(prompt.fields, fields, strlen(fields));
        for (uint64_t n = 0; n < 500; n++)
            assert_string_not_equal(prompt.text, asked[n]);
    }
    tide_prompts_free(prompts);
    tide_data_free(data);
}

static void reading_allocates_nothing(void **state)
{
    (void)state;
    struct tide_prompts *prompts = numbered(50, 1);
    int64_t before = tide_allocations();
#if HAVE_FAILING_MALLOC
    failing_arm(0);
#endif
    for (uint64_t i = 0; i < 200; i++)
        line_of(prompts, i);
#if HAVE_FAILING_MALLOC
    assert_false(failing_disarm());
#endif
    assert_int_equal(tide_allocations(), before);
    tide_prompts_free(prompts);
}

static void a_full_machine_is_a_sentence(void **state)
{
    (void)state;
#if HAVE_FAILING_MALLOC
    NEEDS_FAILING_MALLOC();
    struct tide_prompts *prompts = NULL;
    struct tide_err err;
    tide_prompts_free(numbered(100, 1));
    bool failed = true;
    for (long good = 0; failed; good++) {
        failing_arm(good);
        int status = tide_prompts_open(path, 1, &prompts, &err);
        failed = failing_disarm();
        assert_true(failed || !status);
        if (!status)
            tide_prompts_free(prompts);
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_a_prompt_and_fields_as_they_stand),
        cmocka_unit_test(a_bad_line_is_named),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(every_prompt_comes_once_in_an_epoch),
        cmocka_unit_test(the_order_is_the_seeds),
        cmocka_unit_test(a_file_that_changes_is_noticed),
        cmocka_unit_test(sums_are_prompts_that_are_not_held_out),
        cmocka_unit_test(reading_allocates_nothing),
        cmocka_unit_test(a_full_machine_is_a_sentence),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
