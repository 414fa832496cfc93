/*
 * fuzz_tokenizer.c - any bytes as a tokenizer.json and, after a NUL, as a text. What it makes of the text are
 * tokens of its own, and the same however the text is read.
 */
#include "base/check.h"
#include "train/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reading {
    const char *text;
    size_t len, at, step;
    int32_t *tokens;
    size_t count, room;
};

static ssize_t read_text(void *context, char *to, size_t room, struct tide_err *err)
{
    struct reading *r = context;
    size_t count = r->len - r->at < r->step ? r->len - r->at : r->step;
    (void)err;
    TIDE_CHECK(count, <=, room);
    memcpy(to, r->text + r->at, count);
    r->at += count;
    return (ssize_t)count;
}

static int take_tokens(void *context, const int32_t *tokens, size_t count, struct tide_err *err)
{
    struct reading *r = context;
    (void)err;
    TIDE_CHECK(count, <=, r->room - r->count);
    memcpy(r->tokens + r->count, tokens, count * sizeof *tokens);
    r->count += count;
    return 0;
}

static int64_t read_in_steps(const struct tide_tokenizer *tokenizer, const char *text, size_t len,
                             size_t step, int32_t *out)
{
    struct tide_err err;
    struct reading r = {.text = text, .len = len, .step = step, .tokens = out};
    struct tide_tokenizing way = {read_text, take_tokens, &r};
    r.room = tide_tokenizer_most(tokenizer, len);
    return tide_tokenizer_run(tokenizer, &way, &err) ? -1 : (int64_t)r.count;
}

static void encode(const struct tide_tokenizer *tokenizer, const char *text, size_t len)
{
    size_t room = (tide_tokenizer_most(tokenizer, len) + 1) * sizeof(int32_t);
    int32_t *whole = malloc(room), *parts = malloc(room);
    TIDE_CHECK_TRUE(whole && parts);
    int64_t count = read_in_steps(tokenizer, text, len, len ? len : 1, whole);
    int64_t again = read_in_steps(tokenizer, text, len, 3, parts);
    for (int64_t i = 0; i < count; i++) {
        size_t bytes = 0;
        TIDE_CHECK(whole[i], <, tokenizer->size);
        TIDE_CHECK_TRUE(tide_pairs_text(tokenizer->pairs, whole[i], &bytes) != NULL);
    }
    if (count >= 0 && again >= 0) {
        TIDE_CHECK(count, ==, again);
        TIDE_CHECK(memcmp(whole, parts, (size_t)count * sizeof *whole), ==, 0);
    }
    free(whole);
    free(parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *json = (const char *)data, *text = size ? memchr(json, 0, size) : NULL;
    size_t len = text ? (size_t)(text - json) : size, left = size - len;
    struct tide_tokenizer *tokenizer;
    struct tide_err err;
    if (tide_tokenizer_parse(json, len, NULL, 0, 1000, &tokenizer, &err))
        return 0;
    if (left > 1 && left < 4096)
        encode(tokenizer, text + 1, left - 1);
    tide_tokenizer_free(tokenizer);
    return 0;
}
