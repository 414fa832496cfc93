/*
 * fuzz_pairs.c - any contents of vocab.json and merges.txt: the input is both and a text, with a NUL between
 * them. What is encoded decodes to the text that it was.
 */
#include "base/check.h"
#include "train/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VOCABULARY = 300 };

static void encode(const struct tide_tokenizer *tokenizer, const char *text, size_t len)
{
    int32_t *tokens = malloc((len + 1) * sizeof *tokens);
    TIDE_CHECK_TRUE(tokens != NULL);
    int64_t count = tide_tokenizer_tokens(tokenizer, text, len, tokens, NULL);
    size_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        size_t bytes = 0;
        const char *piece = tide_pairs_text(tokenizer->pairs, tokens[i], &bytes);
        TIDE_CHECK_TRUE(piece != NULL);
        TIDE_CHECK(bytes, <=, len - at);
        TIDE_CHECK(memcmp(piece, text + at, bytes), ==, 0);
        at += bytes;
    }
    TIDE_CHECK_TRUE(count < 0 || at == len);
    free(tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *vocab = (const char *)data, *merges = size ? memchr(vocab, 0, size) : NULL;
    if (!merges)
        return 0;
    size_t vocab_len = (size_t)(merges++ - vocab), left = size - vocab_len - 1;
    const char *text = left ? memchr(merges, 0, left) : NULL;
    size_t merges_len = text ? (size_t)(text - merges) : left;
    struct tide_tokenizer *tokenizer;
    if (tide_tokenizer_parse(vocab, vocab_len, merges, merges_len, VOCABULARY, &tokenizer, NULL))
        return 0;
    if (text)
        encode(tokenizer, text + 1, left - merges_len - 1);
    tide_tokenizer_free(tokenizer);
    return 0;
}
