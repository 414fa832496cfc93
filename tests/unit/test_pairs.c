/*
 * test_pairs.c - GPT-2's way from text to words and back, with a small vocabulary of its form.
 */
#include "base/buf.h"
#include "train/pairs.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

enum { WORDS = 300, MOST = 64 };

/* All printable ASCII as itself, the space as the files write it, and pairs that would join across pieces. */
static struct tide_pairs *new_pairs(void)
{
    static const char *const joined[] = {"ab",      "a1",      "12",           "a'", "'s", "sa",
                                         "\u0120a", "a\u0120", "\u0120\u0120", "!!", "a!", "\u0120ab"};
    static const char merges[] =
        "#version: 0.2\na b\na 1\n1 2\na '\n' s\ns a\n\u0120 a\na \u0120\n\u0120 \u0120\n"
        "! !\na !\n\u0120a b\n";
    struct tide_err err = {0};
    struct tide_pairs *pairs = NULL;
    struct tide_buf vocabulary;
    tide_buf_init(&vocabulary, 1 << 16);
    tide_buf_text(&vocabulary, "{\"\u0120\": 32, \"\u00c3\": 195, \"\u00a9\": 169, \"\u010a\": 10");
    for (int byte = 33; byte < 127; byte++)
        tide_buf_format(&vocabulary, ", \"%s%c\": %d", byte == '"' || byte == '\\' ? "\\" : "", byte, byte);
    for (size_t i = 0; i < sizeof joined / sizeof *joined; i++)
        tide_buf_format(&vocabulary, ", \"%s\": %zu", joined[i], 256 + i);
    tide_buf_text(&vocabulary, "}");
    assert_false(vocabulary.failed);
    if (tide_pairs_new(vocabulary.data, vocabulary.len, merges, strlen(merges), WORDS, &pairs, &err))
        fail_msg("%s", err.text);
    tide_buf_release(&vocabulary);
    return pairs;
}

/* The words of a text, with bars between them. */
static void expect(const struct tide_pairs *pairs, const char *text, const char *words)
{
    struct tide_err err = {0};
    int32_t tokens[MOST];
    char made[4 * MOST] = "";
    int64_t count = tide_pairs_tokens(pairs, text, strlen(text), tokens, &err);
    if (count < 0)
        fail_msg("%s: %s", text, err.text);
    for (int64_t i = 0; i < count; i++) {
        size_t len;
        const char *word = tide_pairs_text(pairs, tokens[i], &len);
        assert_non_null(word);
        strcat(made, i ? "|" : "");
        strncat(made, word, len);
    }
    assert_string_equal(made, words);
}

static void pairs_join_in_the_order_of_the_merges(void **state)
{
    (void)state;
    struct tide_pairs *pairs = new_pairs();
    expect(pairs, "", "");
    expect(pairs, "abab", "ab|ab");
    expect(pairs, "xab", "x|ab");
    expect(pairs, "112", "1|12");
    expect(pairs, "saab", "sa|ab"); /* 'a b' comes first, then 's a' */
    expect(pairs, "sab", "s|ab");
    tide_pairs_free(pairs);
}

static void nothing_joins_across_words_numbers_and_spaces(void **state)
{
    (void)state;
    struct tide_pairs *pairs = new_pairs();
    expect(pairs, "a12", "a|12");
    expect(pairs, "a a", "a| a");
    expect(pairs, "b ab", "b| |ab"); /* in ' ab' the pair 'a b' comes before ' a' */
    expect(pairs, "b  ab", "b| | |ab");
    expect(pairs, "b   a", "b|  | a"); /* the last of three spaces is the word's */
    expect(pairs, "b  ", "b|  ");
    expect(pairs, "a!!", "a|!!");
    expect(pairs, "a's", "a|'s");
    expect(pairs, "a'sa", "a|'s|a");
    expect(pairs, "a'b", "a|'|b");
    expect(pairs, "a\n\na", "a|\n|\n|a");
    expect(pairs, "\u00e9a", "\xc3|\xa9|a");
    tide_pairs_free(pairs);
}

static void a_byte_that_is_no_word_is_said(void **state)
{
    (void)state;
    struct tide_err err = {0};
    struct tide_pairs *pairs = new_pairs();
    int32_t tokens[MOST];
    size_t len;
    assert_int_equal(tide_pairs_tokens(pairs, "a\x01", 2, tokens, &err), -1);
    assert_non_null(strstr(err.text, "'\\x01'"));
    assert_null(tide_pairs_text(pairs, 299, &len));
    assert_null(tide_pairs_text(pairs, -1, &len));
    assert_null(tide_pairs_text(pairs, WORDS, &len));
    assert_int_equal(tide_pairs_word(pairs, "ab", 2), 256);
    assert_int_equal(tide_pairs_word(pairs, "abc", 3), -1);
    tide_pairs_free(pairs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_join_in_the_order_of_the_merges),
        cmocka_unit_test(nothing_joins_across_words_numbers_and_spaces),
        cmocka_unit_test(a_byte_that_is_no_word_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
