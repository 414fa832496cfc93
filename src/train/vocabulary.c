#include "train/vocabulary.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 16 }; /* of vocabulary.json */

void tide_vocabulary_write(const struct tide_vocabulary *v, FILE *out)
{
    static const char *const kinds[] = {"bytes", "pairs", "numbers"};
    struct tide_json json;
    tide_json_init(&json, out, true);
    tide_json_object(&json, NULL);
    tide_json_text(&json, "kind", kinds[v->kind]);
    if (v->kind == TIDE_VOCABULARY_PAIRS)
        tide_json_integer(&json, "crc32", tide_tokenizer_checksum(v->tokenizer));
    if (v->kind == TIDE_VOCABULARY_BYTES) {
        tide_json_array(&json, "symbols");
        for (int i = 0; i < v->symbol_count; i++)
            tide_json_integer(&json, NULL, (unsigned char)v->symbols[i]);
        tide_json_end(&json);
    }
    tide_json_end(&json);
}

/* ---- reading */

static struct tide_vocabulary *new_vocabulary(int64_t size, struct tide_err *err)
{
    struct tide_vocabulary *v = calloc(1, sizeof *v);
    if (!v) {
        tide_err_set(err, "out of memory for the vocabulary");
        return NULL;
    }
    v->kind = TIDE_VOCABULARY_NUMBERS;
    v->size = size;
    memset(v->token_of, -1, sizeof v->token_of);
    return v;
}

static int take_symbols(struct tide_vocabulary *v, const json_t *list, struct tide_err *err)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count < 1 || (int64_t)count > v->size)
        return tide_err_set(err, "the vocabulary has no symbols, or more than the model's %lld",
                            (long long)v->size);
    for (size_t i = 0; i < count; i++) {
        const json_t *symbol = json_array_get(list, i);
        int64_t byte = json_is_integer(symbol) ? json_integer_value(symbol) : -1;
        if (byte < 0 || byte > 255 || v->token_of[byte] >= 0)
            return tide_err_set(err, "the vocabulary's symbol %zu is not a byte, or occurs twice", i);
        v->symbols[i] = (char)byte;
        v->token_of[byte] = (int16_t)i;
    }
    v->symbol_count = (int)count;
    v->kind = TIDE_VOCABULARY_BYTES;
    return 0;
}

/* 0; 1: there is no vocabulary.json; -1. */
static int read_symbols(struct tide_vocabulary *v, const char *dir, struct tide_err *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/vocabulary.json", dir) >= (int)sizeof path)
        return tide_err_set(err, "the path of the vocabulary is too long");
    if (access(path, F_OK) && errno == ENOENT)
        return 1;
    json_t *root = tide_json_read(path, MOST_BYTES, "the vocabulary", err);
    const char *kind = json_string_value(json_object_get(root, "kind"));
    int status = root ? 0 : -1;
    if (kind && !strcmp(kind, "bytes"))
        status = take_symbols(v, json_object_get(root, "symbols"), err);
    else if (kind && !strcmp(kind, "pairs"))
        v->kind = TIDE_VOCABULARY_PAIRS;
    else if (root && (!kind || strcmp(kind, "numbers") != 0))
        status = tide_err_set(err, "the kind of the vocabulary is unknown");
    json_decref(root);
    return status;
}

/* Reads the tokenizer's files next to it; a model that learned with them needs them. */
static int read_tokenizer(struct tide_vocabulary *v, const char *dir, struct tide_err *err)
{
    int status = tide_tokenizer_new(dir, v->size, &v->tokenizer, err);
    if (status == 1 && v->kind == TIDE_VOCABULARY_PAIRS)
        return tide_err_set(err, "%s: the files of the model's tokenizer are gone", TIDE_SHOWN(dir, 256));
    v->kind = v->tokenizer ? TIDE_VOCABULARY_PAIRS : TIDE_VOCABULARY_NUMBERS;
    return status < 0 ? -1 : 0;
}

int tide_vocabulary_new(const char *dir, int64_t size, struct tide_vocabulary **ret_vocabulary,
                        struct tide_err *err)
{
    struct tide_vocabulary *v = new_vocabulary(size, err);
    if (!v)
        return -1;
    int status = read_symbols(v, dir, err);
    if (status < 0)
        tide_err_wrap(err, "%s", TIDE_SHOWN(dir, 256));
    else if (v->kind != TIDE_VOCABULARY_BYTES)
        status = read_tokenizer(v, dir, err);
    if (status < 0) {
        tide_vocabulary_free(v);
        return -1;
    }
    *ret_vocabulary = v;
    return 0;
}

bool tide_vocabulary_is_in(const char *dir)
{
    static const char *const names[] = {"vocabulary.json", "tokenizer.json", "vocab.json"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (snprintf(path, sizeof path, "%s/%s", dir, names[i]) < (int)sizeof path && !access(path, F_OK))
            return true;
    return false;
}

void tide_vocabulary_free(struct tide_vocabulary *v)
{
    if (!v)
        return;
    tide_tokenizer_free(v->tokenizer);
    free(v);
}

int tide_vocabulary_with(struct tide_tokenizer *tokenizer, int64_t size,
                         struct tide_vocabulary **ret_vocabulary, struct tide_err *err)
{
    struct tide_vocabulary *v = new_vocabulary(size || !tokenizer ? size : tokenizer->size, err);
    if (!v) {
        tide_tokenizer_free(tokenizer);
        return -1;
    }
    v->kind = tokenizer ? TIDE_VOCABULARY_PAIRS : TIDE_VOCABULARY_NUMBERS;
    v->tokenizer = tokenizer;
    *ret_vocabulary = v;
    return 0;
}

void tide_vocabulary_know(struct tide_vocabulary *v, const bool occurs[static 256])
{
    v->kind = TIDE_VOCABULARY_BYTES;
    for (int byte = 0; byte < 256; byte++) {
        if (!occurs[byte])
            continue;
        v->symbols[v->symbol_count] = (char)byte;
        v->token_of[byte] = (int16_t)v->symbol_count++;
    }
    v->size = v->size > v->symbol_count ? v->size : v->symbol_count;
}

/* Refuses a named tokenizer if the model in dir has another one. One that cannot be read does not count. */
static int refuse_another(const struct tide_tokenizer *named, const char *dir, int64_t size,
                          struct tide_err *err)
{
    struct tide_vocabulary *own;
    struct tide_err unread;
    if (tide_vocabulary_new(dir, size, &own, &unread))
        return 0;
    bool fits = own->kind == TIDE_VOCABULARY_NUMBERS ||
                (own->tokenizer && tide_tokenizer_checksum(own->tokenizer) == tide_tokenizer_checksum(named));
    tide_vocabulary_free(own);
    if (fits)
        return 0;
    tide_err_set(err, "the model in '%s' was trained with other tokens than --tokenizer names",
                 TIDE_SHOWN(dir, 256));
    return tide_err_hint(err, "the model has its own: leave --tokenizer out");
}

int tide_vocabulary_tokenizer(const char *named, const char *dir, int64_t size,
                              struct tide_tokenizer **ret_tokenizer, struct tide_err *err)
{
    struct tide_vocabulary *v = NULL;
    struct tide_tokenizer *found = NULL;
    int status = named ? tide_tokenizer_new(named, size, &found, err)
                 : dir ? tide_vocabulary_new(dir, size, &v, err)
                       : 0;
    if (status == 1) {
        tide_err_set(err, "there is no tokenizer in '%s'", TIDE_SHOWN(named, 256));
        return tide_err_hint(
            err,
            "--tokenizer takes a tokenizer.json, or a directory with one or with vocab.json and merges.txt");
    }
    if (!status && named && dir)
        status = refuse_another(found, dir, size, err);
    if (status) {
        tide_tokenizer_free(found);
        return -1;
    }
    if (v) {
        found = v->tokenizer;
        v->tokenizer = NULL;
        tide_vocabulary_free(v);
    }
    *ret_tokenizer = found;
    return 0;
}

/* ---- text */

const char *tide_vocabulary_text(const struct tide_vocabulary *v, int32_t token, char room[static 16],
                                 size_t *ret_len)
{
    const char *text = v->tokenizer ? tide_pairs_text(v->tokenizer->pairs, token, ret_len) : NULL;
    if (text)
        return text;
    if (token >= 0 && token < v->symbol_count) {
        *ret_len = 1;
        return v->symbols + token;
    }
    *ret_len = (size_t)snprintf(room, 16, "%d ", token);
    return room;
}

void tide_vocabulary_show(const struct tide_vocabulary *v, const int32_t *tokens, int64_t count, char *out,
                          size_t size)
{
    size_t used = 0;
    for (int64_t i = 0; i < count; i++) {
        char room[16];
        size_t len;
        const char *text = tide_vocabulary_text(v, tokens[i], room, &len);
        if (len >= size - used)
            break;
        memcpy(out + used, text, len);
        used += len;
    }
    out[used] = '\0';
}

int32_t tide_vocabulary_end(const struct tide_vocabulary *v)
{
    return v->tokenizer ? v->tokenizer->end : -1;
}

int32_t tide_vocabulary_begin(const struct tide_vocabulary *v)
{
    int32_t begin = v->kind == TIDE_VOCABULARY_BYTES ? v->token_of['\n'] : tide_vocabulary_end(v);
    return begin < 0 ? 0 : begin;
}

static int64_t symbols_of(const struct tide_vocabulary *v, const char *text, int32_t *out,
                          struct tide_err *err)
{
    int64_t count = 0;
    for (; text[count]; count++) {
        out[count] = v->token_of[(uint8_t)text[count]];
        if (out[count] >= 0)
            continue;
        size_t rune = tide_text_rune(text + count, strlen(text + count), NULL);
        tide_err_set(err, "the model does not know the symbol '%s'",
                     TIDE_ESCAPED(text + count, rune ? rune : 1, 32));
        return tide_err_hint(err, "it knows %d symbols: %s", v->symbol_count,
                             TIDE_ESCAPED(v->symbols, (size_t)v->symbol_count, 200));
    }
    return count;
}

static int64_t numbers_of(const struct tide_vocabulary *v, const char *text, int32_t *out,
                          struct tide_err *err)
{
    int64_t count = 0;
    for (const char *at = text + strspn(text, " ,\n\t"); *at; at += strspn(at, " ,\n\t")) {
        char *end;
        errno = 0;
        long long number = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : -1;
        if (number < 0 || errno || number >= v->size) {
            tide_err_set(err, "the model has no vocabulary, and this is not a list of its tokens' numbers");
            return tide_err_hint(
                err, "tokens are 0 to %lld; a vocab.json and merges.txt beside the weights would be used",
                (long long)v->size - 1);
        }
        out[count++] = (int32_t)number;
        at = end;
    }
    return count;
}

size_t tide_vocabulary_most(const struct tide_vocabulary *v, const char *text)
{
    return v->tokenizer ? tide_tokenizer_most(v->tokenizer, strlen(text)) : strlen(text);
}

int64_t tide_vocabulary_tokens(const struct tide_vocabulary *v, const char *text, int32_t *out,
                               struct tide_err *err)
{
    switch (v->kind) {
    case TIDE_VOCABULARY_BYTES:
        return symbols_of(v, text, out, err);
    case TIDE_VOCABULARY_PAIRS:
        return tide_tokenizer_tokens(v->tokenizer, text, strlen(text), out, err);
    default:
        return numbers_of(v, text, out, err);
    }
}
