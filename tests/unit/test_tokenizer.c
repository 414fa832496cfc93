/*
 * test_tokenizer.c - from text to tokens and back, with a small vocabulary of GPT-2's form; what a
 * tokenizer.json may say and may not. `tokenizers` says what texts become
 * (tools/tokenizer-reference).
 */
#include "base/buf.h"
#include "train/tokenizer.h"
#include "failing_malloc.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 300, MOST = 64 };

/* All printable ASCII as itself, the space as the files write it, and pairs that would join across pieces. */
static struct tide_tokenizer *new_tokenizer(void)
{
    static const char *const joined[] = {"ab",      "a1",      "12",           "a'", "'s", "sa",
                                         "\u0120a", "a\u0120", "\u0120\u0120", "!!", "a!", "\u0120ab"};
    static const char merges[] =
        "#version: 0.2\na b\na 1\n1 2\na '\n' s\ns a\n\u0120 a\na \u0120\n\u0120 \u0120\n"
        "! !\na !\n\u0120a b\n";
    struct tide_err err = {0};
    struct tide_tokenizer *t = NULL;
    struct tide_buf vocabulary;
    tide_buf_init(&vocabulary, 1 << 16);
    tide_buf_text(&vocabulary, "{\"\u0120\": 32, \"\u00c3\": 195, \"\u00a9\": 169, \"\u010a\": 10");
    for (int byte = 33; byte < 127; byte++)
        tide_buf_format(&vocabulary, ", \"%s%c\": %d", byte == '"' || byte == '\\' ? "\\" : "", byte, byte);
    for (size_t i = 0; i < sizeof joined / sizeof *joined; i++)
        tide_buf_format(&vocabulary, ", \"%s\": %zu", joined[i], 256 + i);
    tide_buf_text(&vocabulary, "}");
    assert_false(vocabulary.failed);
    if (tide_tokenizer_parse(vocabulary.data, vocabulary.len, merges, strlen(merges), VOCABULARY, &t, &err))
        fail_msg("%s", err.text);
    tide_buf_release(&vocabulary);
    return t;
}

/* The tokens of a text, with bars between them. */
static void expect(const struct tide_tokenizer *t, const char *text, const char *shown)
{
    struct tide_err err = {0};
    int32_t tokens[MOST];
    char made[4 * MOST] = "";
    int64_t count = tide_tokenizer_tokens(t, text, strlen(text), tokens, &err);
    if (count < 0)
        fail_msg("%s: %s", text, err.text);
    for (int64_t i = 0; i < count; i++) {
        size_t len;
        const char *piece = tide_pairs_text(t->pairs, tokens[i], &len);
        assert_non_null(piece);
        strcat(made, i ? "|" : "");
        strncat(made, piece, len);
    }
    assert_string_equal(made, shown);
}

static void pairs_join_in_the_order_of_the_merges(void **state)
{
    (void)state;
    struct tide_tokenizer *t = new_tokenizer();
    expect(t, "", "");
    expect(t, "abab", "ab|ab");
    expect(t, "xab", "x|ab");
    expect(t, "112", "1|12");
    expect(t, "saab", "sa|ab"); /* 'a b' comes first, then 's a' */
    expect(t, "sab", "s|ab");
    tide_tokenizer_free(t);
}

static void nothing_joins_across_words_numbers_and_spaces(void **state)
{
    (void)state;
    struct tide_tokenizer *t = new_tokenizer();
    expect(t, "a12", "a|12");
    expect(t, "a a", "a| a");
    expect(t, "b ab", "b| |ab"); /* in ' ab' the pair 'a b' comes before ' a' */
    expect(t, "b  ab", "b| | |ab");
    expect(t, "b   a", "b|  | a"); /* the last of three spaces is the word's */
    expect(t, "b  ", "b|  ");
    expect(t, "a!!", "a|!!");
    expect(t, "a's", "a|'s");
    expect(t, "a'sa", "a|'s|a");
    expect(t, "a'b", "a|'|b");
    expect(t, "a\n\na", "a|\n|\n|a");
    expect(t, "\u00e9a", "\xc3|\xa9|a");
    tide_tokenizer_free(t);
}

static void a_byte_that_is_no_token_is_said(void **state)
{
    (void)state;
    struct tide_err err = {0};
    struct tide_tokenizer *t = new_tokenizer();
    int32_t tokens[MOST];
    size_t len;
    assert_int_equal(tide_tokenizer_tokens(t, "a\x01", 2, tokens, &err), -1);
    assert_non_null(strstr(err.text, "'\\x01'"));
    assert_null(tide_pairs_text(t->pairs, 299, &len));
    assert_null(tide_pairs_text(t->pairs, -1, &len));
    assert_null(tide_pairs_text(t->pairs, VOCABULARY, &len));
    tide_tokenizer_free(t);
}

/* ---- tokenizer.json */

#define TOKENS_OF_BYTES                                                                                      \
    "\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"\u0120\":3,\"ab\":4,\"1\":5,\"\u00c3\":6,\"\u00a9\":7,\"\u00c3\u00a9\":8}"
#define BYTE_LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define MODEL      "\"model\":{\"type\":\"BPE\"," TOKENS_OF_BYTES ",\"merges\":[[\"a\",\"b\"],\"\u00c3 \u00a9\"]}"

static struct tide_tokenizer *parsed(const char *json)
{
    struct tide_err err = {0};
    struct tide_tokenizer *t = NULL;
    if (tide_tokenizer_parse(json, strlen(json), NULL, 0, 0, &t, &err))
        fail_msg("%s", err.text);
    return t;
}

static void added_tokens_are_found_with_their_flags(void **state)
{
    (void)state;
    struct tide_tokenizer *t =
        parsed("{\"added_tokens\":[{\"id\":9,\"content\":\"<b>\",\"special\":true,\"normalized\":false},"
               "{\"id\":10,\"content\":\"<b>c\",\"normalized\":false},"
               "{\"id\":11,\"content\":\"[l]\",\"lstrip\":true,\"normalized\":true},"
               "{\"id\":12,\"content\":\"[r]\",\"rstrip\":true,\"normalized\":false},"
               "{\"id\":13,\"content\":\"cab\",\"single_word\":true,\"normalized\":false}]," BYTE_LEVEL
               "," MODEL "}");
    assert_int_equal(t->size, 14);
    expect(t, "ab<b>ab", "ab|<b>|ab");
    expect(t, "a<b>cb", "a|<b>c|b");
    expect(t, "a  [l] b", "a|[l]| |b");
    expect(t, "a [r]  b", "a| |[r]|b");
    expect(t, "cab cabb bcab cab", "cab| |c|ab|b| |b|c|ab| |cab");
    tide_tokenizer_free(t);
}

static void an_added_token_is_no_token_of_the_vocabulary(void **state)
{
    (void)state;
    struct tide_tokenizer *t = parsed(
        "{\"added_tokens\":[{\"id\":4,\"content\":\"ab\",\"single_word\":true},{\"id\":5,\"content\":\"\u0120a\"},"
        "{\"id\":6,\"content\":\"<|end_of_text|>\"}]," BYTE_LEVEL
        ",\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,"
        "\"vocab\":{\"a\":0,\"b\":1,\"1\":2,\"\u0120\":3},\"merges\":[]}}");
    expect(t, "ab ab1", "ab| |a|b|1");
    expect(t, "b a", "b| |a");
    assert_int_equal(t->end, 6);
    tide_tokenizer_free(t);
}

static void text_is_normalized_where_the_tokenizer_says_so(void **state)
{
    (void)state;
    static const char json[] = "{\"normalizer\":{\"type\":\"NFC\"}," BYTE_LEVEL ","
                               "\"model\":{" TOKENS_OF_BYTES ",\"merges\":[\"\u00c3 \u00a9\"]}}";
    struct tide_tokenizer *t = parsed(json);
    struct tide_err err;
    int32_t tokens[MOST];
    size_t len;
    assert_int_equal(tide_tokenizer_tokens(t, "\u00e9", 2, tokens, NULL), 1);
    assert_int_equal(tokens[0], 8);
    assert_memory_equal(tide_pairs_text(t->pairs, 8, &len), "\u00e9", 2);
    /* 'e' is not a token here: only what it is with its accent */
    assert_int_equal(tide_tokenizer_tokens(t, "e\u0301", 3, tokens, &err), 1);
    assert_int_equal(tokens[0], 8);
    tide_tokenizer_free(t);
}

static void bytes_that_are_no_text_are_tokens_of_bytes(void **state)
{
    (void)state;
    struct tide_tokenizer *t = parsed("{" BYTE_LEVEL "," MODEL "}");
    expect(t, "a\xc3", "a|\xc3");
    expect(t, "\xa9\xc3\xa9\xc3", "\xa9|\u00e9|\xc3");
    expect(t, "\xc3 b", "\xc3| |b");
    tide_tokenizer_free(t);
}

/* What is in the way, in the sentence. */
static void what_is_not_known_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *json, *says;
    } cases[] = {
        {"[]", "not a JSON object"},
        {"{", "not valid JSON"},
        {"{\"model\":{\"type\":\"WordPiece\"}}", "WordPiece"},
        {"{\"model\":{\"type\":\"Unigram\"}}", "Unigram"},
        {"{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true}}", "byte_fallback"},
        {"{\"normalizer\":{\"type\":\"Lowercase\"}," MODEL "}", "Lowercase"},
        {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Strip\"}]}," MODEL
         "}",
         "Strip"},
        {"{" MODEL "}", "pre-tokenizer"},
        {"{\"pre_tokenizer\":{\"type\":\"Metaspace\"}," MODEL "}", "Metaspace"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true}," MODEL "}",
         "add_prefix_space"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?<=a)b\"},"
         "\"behavior\":\"Isolated\"}]}," MODEL "}",
         "(?<"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\w+\"},\"behavior\":\"Isolated\"}," MODEL
         "}",
         "\\w"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a*\"},\"behavior\":\"Isolated\"}," MODEL
         "}",
         "an empty text"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"MergedWithNext\"}," MODEL
         "}",
         "MergedWithNext"},
        {"{" BYTE_LEVEL ",\"model\":{" TOKENS_OF_BYTES ",\"merges\":[\"a q\"]}}", "'q'"},
        {"{" BYTE_LEVEL ",\"model\":{" TOKENS_OF_BYTES ",\"merges\":[\"ab\"]}}", "not a pair"},
        {"{" BYTE_LEVEL ",\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "another token"},
        {"{" BYTE_LEVEL ",\"model\":{\"vocab\":{\"a\":99999999},\"merges\":[]}}", "number"},
        {"{\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]," BYTE_LEVEL "," MODEL "}", "another token"},
        {"{\"added_tokens\":[{\"id\":1,\"content\":\"a\"}]," BYTE_LEVEL "," MODEL "}", "two numbers"},
        {"{\"added_tokens\":[{\"id\":0,\"content\":\"a\"},{\"id\":0,\"content\":\"a\"}]," BYTE_LEVEL "," MODEL
         "}",
         "twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tide_err err = {0};
        struct tide_tokenizer *t;
        assert_int_equal(tide_tokenizer_parse(cases[i].json, strlen(cases[i].json), NULL, 0, 0, &t, &err),
                         -1);
        if (!strstr(err.text, cases[i].says))
            fail_msg("'%s' is not in: %s", cases[i].says, err.text);
    }
}

static void a_tokenizer_with_more_tokens_than_its_model_is_refused(void **state)
{
    (void)state;
    static const char json[] = "{" BYTE_LEVEL "," MODEL "}";
    struct tide_err err = {0};
    struct tide_tokenizer *t;
    assert_int_equal(tide_tokenizer_parse(json, sizeof json - 1, NULL, 0, 8, &t, &err), -1);
    assert_non_null(strstr(err.text, "9 tokens and the model has 8"));
    assert_non_null(strstr(err.hint, "--tokenizer"));
    assert_int_equal(tide_tokenizer_parse(json, sizeof json - 1, NULL, 0, 12, &t, &err), 0);
    tide_tokenizer_free(t);
}

/* ---- what `tokenizers` makes of texts */

/* jansson takes no NUL in a string unless it is told to: of a text it is. */
static json_t *reference(void)
{
    const char *named = getenv("TIDEMARK_TOKENIZERS");
    json_error_t why;
    json_t *root = json_load_file(named ? named : "tests/fixtures/tokenizers.json", JSON_ALLOW_NUL, &why);
    if (!root)
        fail_msg("%s, line %d: %s", why.source, why.line, why.text);
    return root;
}

static bool is_same(const int32_t *tokens, int64_t count, const json_t *wanted)
{
    size_t i;
    const json_t *token;
    bool same = count == (int64_t)json_array_size(wanted);
    json_array_foreach(wanted, i, token) same = same && tokens[i] == json_integer_value(token);
    return same;
}

static void every_text_has_the_tokens_that_tokenizers_gives_it(void **state)
{
    (void)state;
    json_t *root = reference(), *texts = json_object_get(root, "texts"), *row, *text;
    size_t i, k, compared = 0;
    json_array_foreach(json_object_get(root, "tokenizers"), k, row)
    {
        char *json = json_dumps(json_object_get(row, "tokenizer"), 0);
        struct tide_tokenizer *t = parsed(json);
        json_array_foreach(texts, i, text)
        {
            struct tide_err err = {0};
            size_t len = json_string_length(text);
            int32_t *tokens = malloc((tide_tokenizer_most(t, len) + 1) * sizeof *tokens);
            int64_t count = tide_tokenizer_tokens(t, json_string_value(text), len, tokens, &err);
            if (!is_same(tokens, count, json_array_get(json_object_get(row, "ids"), i)))
                fail_msg("%s: text %zu: %s", json_string_value(json_object_get(row, "name")), i, err.text);
            free(tokens);
            compared++;
        }
        tide_tokenizer_free(t);
        free(json);
    }
    assert_true(compared > 0);
    print_message("%zu texts compared\n", compared);
    json_decref(root);
}

/* ---- a text in parts */

struct parts {
    const char *text;
    size_t len, at, step;
    int32_t tokens[1 << 16];
    size_t count;
};

static ssize_t read_part(void *context, char *to, size_t room, struct tide_err *err)
{
    struct parts *p = context;
    size_t count = p->len - p->at < p->step ? p->len - p->at : p->step;
    (void)err;
    assert_true(count <= room);
    memcpy(to, p->text + p->at, count);
    p->at += count;
    return (ssize_t)count;
}

static int take_part(void *context, const int32_t *tokens, size_t count, struct tide_err *err)
{
    struct parts *p = context;
    (void)err;
    assert_true(p->count + count <= sizeof p->tokens / sizeof *p->tokens);
    memcpy(p->tokens + p->count, tokens, count * sizeof *tokens);
    p->count += count;
    return 0;
}

static void a_text_has_the_same_tokens_however_it_is_read(void **state)
{
    (void)state;
    static const char text[] = "ab  ab'sa <|x|> 12 a!!\n\n  sab\xc3\u00e9 a'b   ab ab<|x|><|x|  ";
    struct tide_tokenizer *t = new_tokenizer();
    static struct parts whole, part;
    for (size_t step = 1; step < sizeof text; step++) {
        whole = (struct parts){.text = text, .len = sizeof text - 1, .step = sizeof text};
        part = (struct parts){.text = text, .len = sizeof text - 1, .step = step};
        assert_int_equal(tide_tokenizer_run(t, &(struct tide_tokenizing){read_part, take_part, &whole}, NULL),
                         0);
        assert_int_equal(tide_tokenizer_run(t, &(struct tide_tokenizing){read_part, take_part, &part}, NULL),
                         0);
        assert_int_equal(whole.count, part.count);
        assert_memory_equal(whole.tokens, part.tokens, whole.count * sizeof *whole.tokens);
    }
    tide_tokenizer_free(t);
}

/* One piece of a megabyte: cut where a window ends, in a time that is not its square. */
static void a_piece_without_an_end_is_cut(void **state)
{
    (void)state;
    struct tide_tokenizer *t = parsed("{" BYTE_LEVEL "," MODEL "}");
    size_t len = 1 << 20;
    char *text = malloc(len);
    int32_t *tokens = malloc(len * sizeof *tokens);
    assert_true(text && tokens);
    for (size_t i = 0; i < len; i++)
        text[i] = i % 2 ? 'b' : 'a';
    assert_int_equal(tide_tokenizer_tokens(t, text, len, tokens, NULL), len / 2);
    for (size_t i = 0; i < len / 2; i++)
        assert_int_equal(tokens[i], 4);
    free(text);
    free(tokens);
    tide_tokenizer_free(t);
}

/* ---- no memory */

#if HAVE_FAILING_MALLOC
static bool try_with(long good, const char *json, const char *merges, const int32_t *wanted,
                     int64_t wanted_count)
{
    static const char text[] = "ab <|endoftext|>ab";
    struct tide_err err = {0};
    struct tide_tokenizer *t = NULL;
    int32_t tokens[sizeof text];
    failing_arm(good);
    int64_t count =
        tide_tokenizer_parse(json, strlen(json), merges, merges ? strlen(merges) : 0, 0, &t, &err);
    if (!count)
        count = tide_tokenizer_tokens(t, text, sizeof text - 1, tokens, &err);
    bool failed = failing_disarm();
    tide_tokenizer_free(t);
    if (count < 0) {
        assert_true(failed && err.text[0]);
        return false;
    }
    assert_int_equal(count, wanted_count);
    assert_memory_equal(tokens, wanted, (size_t)count * sizeof *tokens);
    return true;
}

/* Each allocation fails once: a sentence, or the tokens that there are. */
static void no_memory_is_a_sentence_or_the_right_tokens(void **state)
{
    (void)state;
    static const char vocab[] = "{\"a\":0,\"b\":1,\"ab\":2,\"\u0120\":3,\"<|endoftext|>\":4}",
                      merges[] = "a b\n";
    static const char json[] =
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<|endoftext|>\",\"normalized\":false}]," BYTE_LEVEL
        ",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\u0120\":3},\"merges\":[\"a b\"]}}";
    static const int32_t wanted[] = {2, 3, 4, 2};
    NEEDS_FAILING_MALLOC();
    for (long good = 0; !try_with(good, json, NULL, wanted, 4); good++)
        assert_true(good < 10000);
    for (long good = 0; !try_with(good, vocab, merges, wanted, 4); good++)
        assert_true(good < 10000);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_join_in_the_order_of_the_merges),
        cmocka_unit_test(nothing_joins_across_words_numbers_and_spaces),
        cmocka_unit_test(a_byte_that_is_no_token_is_said),
        cmocka_unit_test(added_tokens_are_found_with_their_flags),
        cmocka_unit_test(an_added_token_is_no_token_of_the_vocabulary),
        cmocka_unit_test(text_is_normalized_where_the_tokenizer_says_so),
        cmocka_unit_test(bytes_that_are_no_text_are_tokens_of_bytes),
        cmocka_unit_test(what_is_not_known_is_refused_by_name),
        cmocka_unit_test(a_tokenizer_with_more_tokens_than_its_model_is_refused),
        cmocka_unit_test(every_text_has_the_tokens_that_tokenizers_gives_it),
        cmocka_unit_test(a_text_has_the_same_tokens_however_it_is_read),
        cmocka_unit_test(a_piece_without_an_end_is_cut),
#if HAVE_FAILING_MALLOC
        cmocka_unit_test(no_memory_is_a_sentence_or_the_right_tokens),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
