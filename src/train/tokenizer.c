#include "base/durable.h"
#include "base/infile.h"
#include "base/json_read.h"
#include "base/text.h"
#include "train/tokenizer.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>

enum { MOST_BYTES = 64 << 20, MOST_TOKENS = 1 << 24, MOST_ADDED = 1 << 16, MOST_ADDED_BYTES = 1 << 12 };
enum { WHOLE, VOCABULARY, MERGES, ADDED, CONFIG }; /* numbers of files; later ones are only copied */

const char *const tide_tokenizer_names[TIDE_TOKENIZER_FILES] = {
    "tokenizer.json",         "vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json",
    "special_tokens_map.json"};

/* ---- files */

/* 0 with the whole file, which the caller frees; 1: there is none; -1. */
static int read_file(const char *path, char **ret_text, size_t *ret_len, struct tide_err *err)
{
    struct tide_buf text;
    if (access(path, F_OK) && (errno == ENOENT || errno == ENOTDIR))
        return 1;
    tide_buf_init(&text, MOST_BYTES);
    int status = tide_infile_read(path, &text, err);
    if (!status && text.failed)
        status = tide_err_set(err, "'%s' is too large for a file of a tokenizer", TIDE_SHOWN(path, 256));
    if (!status)
        tide_buf_append(&text, "", 0); /* an empty file is not a missing one */
    if (!status && !(*ret_text = realloc(text.data, text.len + 1)))
        status = tide_err_set(err, "out of memory for the tokenizer");
    if (status) {
        tide_buf_release(&text);
        return -1;
    }
    *ret_len = text.len;
    return 0;
}

/* ---- what is not known */

static int refuse(struct tide_err *err, const char *what, const char *name)
{
    tide_err_set(err,
                 "the tokenizer's %s is '%s'; only byte-level BPE as in GPT-2, Llama 3 and Qwen is supported",
                 what, TIDE_SHOWN(name, 48));
    return tide_err_hint(err,
                         "to train on text cut by any other tokenizer, give --data a token file of llm.c");
}

static const char *type_of(const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "";
}

/* True if a value is not missing, null, false, 0 or empty. */
static bool is_set(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    return value && !json_is_null(value) && !json_is_false(value) && !(text && !*text) &&
           !(json_is_number(value) && json_number_value(value) == 0);
}

/* ---- vocabulary and merges */

/* Computes the highest number + 1 and the length of all tokens together. */
static int measure(json_t *vocabulary, const json_t *added, int64_t *ret_size, size_t *ret_bytes,
                   struct tide_err *err)
{
    const char *key;
    json_t *value;
    int64_t most = -1, id;
    size_t bytes = 0, i;
    if (!json_is_object(vocabulary))
        return tide_err_set(err, "the tokenizer has no vocabulary");
    json_object_foreach(vocabulary, key, value)
    {
        id = json_is_integer(value) ? json_integer_value(value) : MOST_TOKENS;
        most = id > most ? id : most;
        bytes += strlen(key);
    }
    json_array_foreach(added, i, value)
    {
        const json_t *number = json_object_get(value, "id"), *text = json_object_get(value, "content");
        id = json_is_integer(number) ? json_integer_value(number) : MOST_TOKENS;
        most = id > most ? id : most;
        bytes += json_string_length(text);
    }
    if (most < 0 || most >= MOST_TOKENS)
        return tide_err_set(err, "the vocabulary is empty, or has a number outside 0 to %d", MOST_TOKENS - 1);
    *ret_size = most + 1;
    *ret_bytes = bytes;
    return 0;
}

/* Allocates memory for all tokens; none may be beyond the model's. */
static int begin_vocabulary(struct tide_tokenizer *t, json_t *vocabulary, const json_t *added,
                            bool whole_first, int64_t model_size, struct tide_err *err)
{
    size_t bytes = 0;
    if (measure(vocabulary, added, &t->size, &bytes, err))
        return -1;
    if (model_size && t->size > model_size) {
        tide_err_set(err, "the tokenizer has %lld tokens and the model has %lld: it belongs to another model",
                     (long long)t->size, (long long)model_size);
        return tide_err_hint(
            err, "give the model's own with --tokenizer DIR, or make the model's vocab_size larger");
    }
    if (tide_pairs_new(t->size, bytes, whole_first, &t->pairs, err))
        return -1;
    const char *key;
    json_t *value;
    json_object_foreach(vocabulary, key, value)
    {
        if (tide_pairs_add_token(t->pairs, key, strlen(key),
                                 json_is_integer(value) ? json_integer_value(value) : -1, false, err))
            return -1;
    }
    return 0;
}

/* Takes a line "left right". */
static int take_merge(struct tide_tokenizer *t, const char *line, size_t len, struct tide_err *err)
{
    const char *space = memchr(line, ' ', len);
    size_t first = space ? (size_t)(space - line) : 0;
    if (!first || first + 1 == len)
        return tide_err_set(err, "the merges have a line that is not a pair: '%s'",
                            TIDE_ESCAPED(line, len, 64));
    return tide_pairs_add_merge(t->pairs, line, first, space + 1, len - first - 1, err);
}

static int take_merges(struct tide_tokenizer *t, const json_t *merges, struct tide_err *err)
{
    size_t i;
    const json_t *merge;
    if (!json_is_array(merges))
        return tide_err_set(err, "the tokenizer has no merges");
    json_array_foreach(merges, i, merge)
    {
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        int bad = json_is_string(merge)
                      ? take_merge(t, json_string_value(merge), json_string_length(merge), err)
                  : json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right)
                      ? tide_pairs_add_merge(t->pairs, json_string_value(left), json_string_length(left),
                                             json_string_value(right), json_string_length(right), err)
                      : tide_err_set(err, "the tokenizer's merge %zu is not a pair", i);
        if (bad)
            return -1;
    }
    return 0;
}

static int read_merges(struct tide_tokenizer *t, const char *text, size_t len, struct tide_err *err)
{
    for (size_t at = 0; at < len;) {
        const char *line = text + at, *newline = memchr(line, '\n', len - at);
        size_t line_len = newline ? (size_t)(newline - line) : len - at;
        at += line_len + 1;
        if (line_len && line[line_len - 1] == '\r')
            line_len--;
        bool is_head = line_len >= 8 && !memcmp(line, "#version", 8);
        if (line_len && !is_head && take_merge(t, line, line_len, err))
            return -1;
    }
    return 0;
}

/* ---- added tokens */

/* Returns the normalized text of a token that is searched in normalized text. Caller frees. */
static char *composed(const char *text, size_t len, size_t *ret_len)
{
    utf8proc_uint8_t *made = NULL;
    utf8proc_ssize_t bytes = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len, &made,
                                          UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    *ret_len = bytes < 0 ? 0 : (size_t)bytes;
    return (char *)made;
}

static int add_token(struct tide_tokenizer *t, const json_t *token, bool in_composed, struct tide_err *err)
{
    const json_t *content = json_object_get(token, "content");
    const char *text = json_string_value(content);
    struct tide_added_token made = {.len = json_string_length(content),
                                    .id = (int32_t)json_integer_value(json_object_get(token, "id")),
                                    .single_word = is_set(token, "single_word"),
                                    .strips_left = is_set(token, "lstrip"),
                                    .strips_right = is_set(token, "rstrip")};
    char *copy = t->composes && in_composed ? composed(text, made.len, &made.len) : strdup(text);
    made.text = copy;
    int status = !copy || tide_added_add(in_composed ? &t->composed : &t->raw, &made)
                     ? tide_err_set(err, "out of memory for the tokenizer")
                     : 0;
    free(copy);
    return status;
}

/* Takes an entry of tokenizer.json: {"id": 50256, "content": "<|endoftext|>", "special": true, ...}. */
static int take_token(struct tide_tokenizer *t, const json_t *token, const json_t *vocabulary,
                      struct tide_err *err)
{
    const char *text = json_string_value(json_object_get(token, "content"));
    const json_t *number = json_object_get(token, "id"),
                 *known = text ? json_object_get(vocabulary, text) : NULL;
    int64_t id = json_is_integer(number) ? json_integer_value(number) : -1;
    if (!text || strlen(text) > MOST_ADDED_BYTES || id < 0)
        return tide_err_set(err,
                            "an added token of the tokenizer has no number, or no text of at most %d bytes",
                            MOST_ADDED_BYTES);
    if (known && json_integer_value(known) != id)
        return tide_err_set(err, "the tokenizer gives '%s' two numbers", TIDE_SHOWN(text, 64));
    if (!known && tide_pairs_add_token(t->pairs, text, strlen(text), id, true, err))
        return -1;
    return add_token(t, token, is_set(token, "normalized"), err);
}

static int take_added(struct tide_tokenizer *t, const json_t *added, const json_t *vocabulary,
                      struct tide_err *err)
{
    size_t i;
    const json_t *token;
    if (added && (!json_is_array(added) || json_array_size(added) > MOST_ADDED))
        return tide_err_set(err, "the tokenizer's added tokens are not a list, or there are too many");
    json_array_foreach(added, i, token)
    {
        if (take_token(t, token, vocabulary, err))
            return -1;
    }
    return tide_added_settle(&t->raw, err) || tide_added_settle(&t->composed, err) ? -1 : 0;
}

static int32_t added_id(const struct tide_added *added, const char *text)
{
    for (size_t i = 0; i < added->count; i++)
        if (added->tokens[i].len == strlen(text) && !memcmp(added->tokens[i].text, text, strlen(text)))
            return added->tokens[i].id;
    return -1;
}

/* Finds the token that ends a text in the known families. */
static void find_end(struct tide_tokenizer *t)
{
    static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>", "</s>"};
    t->end = -1;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && t->end < 0; i++) {
        int32_t raw = added_id(&t->raw, ends[i]), composed_id = added_id(&t->composed, ends[i]);
        t->end = raw >= 0           ? raw
                 : composed_id >= 0 ? composed_id
                                    : tide_pairs_token(t->pairs, ends[i], strlen(ends[i]));
    }
}

/* ---- tokenizer.json */

static int take_normalizer(struct tide_tokenizer *t, const json_t *normalizer, struct tide_err *err)
{
    size_t i;
    const json_t *one;
    const char *type = type_of(normalizer);
    if (!normalizer || json_is_null(normalizer))
        return 0;
    if (!strcmp(type, "NFC")) {
        t->composes = true;
        return 0;
    }
    const json_t *all = json_object_get(normalizer, "normalizers");
    if (strcmp(type, "Sequence") != 0 || !json_is_array(all))
        return refuse(err, "normalizer", type);
    json_array_foreach(all, i, one)
    {
        if (strcmp(type_of(one), "NFC") != 0)
            return refuse(err, "normalizer", type_of(one));
        t->composes = true;
    }
    return 0;
}

static int add_split(struct tide_tokenizer *t, const char *pattern, bool literal, bool matches_only,
                     struct tide_err *err)
{
    if (t->split_count == TIDE_SPLITS)
        return tide_err_set(err, "the tokenizer cuts text in more than %d ways", TIDE_SPLITS);
    if (tide_split_new(pattern, strlen(pattern), literal, matches_only, &t->splits[t->split_count], err))
        return -1;
    t->split_count++;
    return 0;
}

static int take_split(struct tide_tokenizer *t, const json_t *one, struct tide_err *err)
{
    const json_t *pattern = json_object_get(one, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *text = json_string_value(json_object_get(pattern, "String"));
    const char *behavior = json_string_value(json_object_get(one, "behavior"));
    bool inverts = is_set(one, "invert"), removes = behavior && !strcmp(behavior, "Removed");
    if ((!regex && !text) || (text && !*text))
        return tide_err_set(err, "the tokenizer's Split has no pattern");
    if (!behavior || (removes ? !inverts : strcmp(behavior, "Isolated") != 0))
        return refuse(err, "Split behavior", behavior ? behavior : "");
    return add_split(t, regex ? regex : text, !regex, removes, err);
}

/* *bytes: the text is bytes already; nothing can split it after that. */
static int take_cutter(struct tide_tokenizer *t, const json_t *one, bool *bytes, struct tide_err *err)
{
    const char *type = type_of(one);
    const json_t *regex = json_object_get(one, "use_regex");
    if (*bytes)
        return refuse(err, "pre-tokenizer after ByteLevel", type);
    if (!strcmp(type, "Split"))
        return take_split(t, one, err);
    if (!strcmp(type, "Digits"))
        return add_split(t, is_set(one, "individual_digits") ? "\\p{N}" : "\\p{N}+", false, false, err);
    if (strcmp(type, "ByteLevel") != 0)
        return refuse(err, "pre-tokenizer", type);
    if (is_set(one, "add_prefix_space"))
        return refuse(err, "pre-tokenizer", "ByteLevel with add_prefix_space");
    *bytes = true;
    return json_is_false(regex) ? 0 : add_split(t, TIDE_SPLIT_GPT2, false, false, err);
}

static int take_cutters(struct tide_tokenizer *t, const json_t *cutter, struct tide_err *err)
{
    size_t i;
    const json_t *one, *all = json_object_get(cutter, "pretokenizers");
    bool bytes = false;
    if (strcmp(type_of(cutter), "Sequence") != 0 && take_cutter(t, cutter, &bytes, err))
        return -1;
    json_array_foreach(all, i, one)
    {
        if (take_cutter(t, one, &bytes, err))
            return -1;
    }
    return bytes ? 0 : refuse(err, "pre-tokenizer", "without ByteLevel");
}

static int take_model(struct tide_tokenizer *t, const json_t *root, int64_t size, struct tide_err *err)
{
    static const char *const others[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                         "byte_fallback"};
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    const char *type = *type_of(model) || !json_object_get(model, "merges") ? type_of(model) : "BPE";
    if (strcmp(type, "BPE") != 0)
        return refuse(err, "model", type);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_set(model, others[i])) {
            char what[48];
            snprintf(what, sizeof what, "BPE with %s", others[i]);
            return refuse(err, "model", what);
        }
    json_t *vocabulary = json_object_get(model, "vocab");
    if (begin_vocabulary(t, vocabulary, added, is_set(model, "ignore_merges"), size, err) ||
        take_merges(t, json_object_get(model, "merges"), err))
        return -1;
    return take_added(t, added, vocabulary, err);
}

/* Reads another file of the directory as an object, empty if there is none. NULL with a sentence. */
static json_t *read_beside(const struct tide_tokenizer *t, int number, struct tide_err *err)
{
    if (t->files[number].bytes)
        return tide_json_parse(t->files[number].bytes, t->files[number].len, tide_tokenizer_names[number],
                               err);
    json_t *none = json_object();
    if (!none)
        tide_err_set(err, "out of memory for the tokenizer");
    return none;
}

/* Refuses added tokens of tokenizer_config.json that tokenizer.json lacks: `transformers` would add them. */
static int check_added(json_t *decoder, const json_t *added, struct tide_err *err)
{
    const char *key;
    json_t *token, *one, *numbers = json_object();
    size_t i;
    int status = numbers ? 0 : tide_err_set(err, "out of memory for the tokenizer");
    json_array_foreach(added, i, one)
    {
        const char *text = json_string_value(json_object_get(one, "content"));
        if (!status && json_object_set(numbers, text, json_object_get(one, "id")))
            status = tide_err_set(err, "out of memory for the tokenizer");
    }
    json_object_foreach(decoder, key, token)
    {
        const char *text = json_string_value(json_object_get(token, "content"));
        const json_t *number = text ? json_object_get(numbers, text) : NULL;
        if (!status && (!number || json_integer_value(number) != strtoll(key, NULL, 10)))
            status = tide_err_set(
                err,
                "tokenizer_config.json adds the token '%s' with the number %s, which tokenizer.json does not have",
                TIDE_SHOWN(text ? text : "", 64), TIDE_SHOWN(key, 32));
    }
    json_decref(numbers);
    return status;
}

/* Refuses settings of tokenizer_config.json that change tokens. whole: the tokenizer.json; NULL: none. */
static int check_config(const struct tide_tokenizer *t, const json_t *whole, struct tide_err *err)
{
    json_t *config = read_beside(t, CONFIG, err);
    int status = config ? 0 : -1;
    if (config && is_set(config, "add_prefix_space"))
        status = tide_err_set(err, "tokenizer_config.json asks for add_prefix_space, which is not supported");
    else if (config && whole)
        status = check_added(json_object_get(config, "added_tokens_decoder"),
                             json_object_get(whole, "added_tokens"), err);
    json_decref(config);
    return status;
}

static int read_whole(struct tide_tokenizer *t, int64_t size, struct tide_err *err)
{
    json_t *root =
        tide_json_parse(t->files[WHOLE].bytes, t->files[WHOLE].len, tide_tokenizer_names[WHOLE], err);
    if (!root)
        return -1;
    t->source = tide_tokenizer_names[WHOLE];
    int status =
        take_normalizer(t, json_object_get(root, "normalizer"), err) || take_model(t, root, size, err) ||
                take_cutters(t, json_object_get(root, "pre_tokenizer"), err) || check_config(t, root, err)
            ? -1
            : 0;
    json_decref(root);
    return status;
}

/* ---- vocab.json and merges.txt */

static int name_added(json_t *named, const char *text, json_t *id)
{
    return json_object_set_new(named, text, json_pack("{s:s, s:O}", "content", text, "id", id));
}

/* From added_tokens.json: {"<|im_start|>": 50257}. */
static int name_numbered(json_t *named, json_t *numbers)
{
    const char *text;
    json_t *id;
    json_object_foreach(numbers, text, id)
    {
        if (name_added(named, text, id))
            return -1;
    }
    return 0;
}

/* From tokenizer_config.json: {"added_tokens_decoder": {"50256": {"content": "<|endoftext|>", ...}}}. */
static int name_decoded(json_t *named, json_t *config)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), key, value)
    {
        json_t *token = json_copy(value);
        const char *text = json_string_value(json_object_get(token, "content"));
        json_object_set_new(token, "id", json_integer(strtoll(key, NULL, 10)));
        if (!text || json_object_set(named, text, token)) {
            json_decref(token);
            return -1;
        }
        json_decref(token);
    }
    return 0;
}

/* Collects added tokens that are not in the two files, by text and in tokenizer.json's form: the end of a
 * text, which GPT-2's own classes add; added_tokens.json; and tokenizer_config.json, with flags. Caller
 * releases it. */
static json_t *added_beside(const struct tide_tokenizer *t, const json_t *vocabulary, struct tide_err *err)
{
    static const char end[] = "<|endoftext|>";
    json_t *named = json_object(), *ends = json_object_get(vocabulary, end);
    json_t *numbers = read_beside(t, ADDED, err), *config = numbers ? read_beside(t, CONFIG, err) : NULL;
    bool bad = !named || (ends && name_added(named, end, ends)) || name_numbered(named, numbers) ||
               name_decoded(named, config);
    if (bad && config)
        tide_err_set(
            err, "the tokenizer's added tokens have no text or no number, or there is no memory for them");
    if (bad || !config) {
        json_decref(named);
        named = NULL;
    }
    json_decref(numbers);
    json_decref(config);
    return named;
}

/* Returns the values of an object as a list. */
static json_t *list_of(json_t *object)
{
    const char *key;
    json_t *value, *list = json_array();
    json_object_foreach(object, key, value)
    {
        if (json_array_append(list, value)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int read_pair(struct tide_tokenizer *t, int64_t model_size, struct tide_err *err)
{
    json_t *vocabulary = tide_json_parse(t->files[VOCABULARY].bytes, t->files[VOCABULARY].len,
                                         tide_tokenizer_names[VOCABULARY], err);
    json_t *named = vocabulary ? added_beside(t, vocabulary, err) : NULL,
           *added = named ? list_of(named) : NULL;
    int status = 0;
    t->source = tide_tokenizer_names[VOCABULARY];
    if (!named)
        status = -1;
    else if (!added)
        status = tide_err_set(err, "out of memory for the tokenizer");
    else if (begin_vocabulary(t, vocabulary, added, false, model_size, err) ||
             read_merges(t, t->files[MERGES].bytes, t->files[MERGES].len, err) ||
             take_added(t, added, vocabulary, err) || add_split(t, TIDE_SPLIT_GPT2, false, false, err) ||
             check_config(t, NULL, err))
        status = -1;
    json_decref(added);
    json_decref(named);
    json_decref(vocabulary);
    return status;
}

/* ---- reading */

static int read_kept(struct tide_tokenizer *t, int64_t size, struct tide_err *err)
{
    int status = t->files[WHOLE].bytes ? read_whole(t, size, err) : read_pair(t, size, err);
    if (!status)
        find_end(t);
    return status;
}

static struct tide_tokenizer *new_tokenizer(struct tide_err *err)
{
    struct tide_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        tide_err_set(err, "out of memory for the tokenizer");
    return t;
}

/* Refuses a directory with an unsupported kind of tokenizer: reading text as bytes would be wrong there. */
static int refuse_others(const char *dir, struct tide_err *err)
{
    static const char *const names[] = {"tokenizer.model", "spiece.model", "vocab.txt",
                                        "sentencepiece.bpe.model"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_MAX];
        struct stat info;
        if (snprintf(path, sizeof path, "%s/%s", dir, names[i]) < (int)sizeof path && !stat(path, &info))
            return refuse(err, "file", names[i]);
    }
    return 1;
}

static int read_files(struct tide_tokenizer *t, const char *path, struct tide_err *err)
{
    struct stat info;
    if (!stat(path, &info) && !S_ISDIR(info.st_mode))
        return read_file(path, &t->files[WHOLE].bytes, &t->files[WHOLE].len, err);
    for (int i = 0; i < TIDE_TOKENIZER_FILES; i++) {
        char name[PATH_MAX];
        if (snprintf(name, sizeof name, "%s/%s", path, tide_tokenizer_names[i]) >= (int)sizeof name)
            return tide_err_set(err, "the path of '%s' is too long", tide_tokenizer_names[i]);
        if (read_file(name, &t->files[i].bytes, &t->files[i].len, err) < 0)
            return -1;
    }
    if (t->files[WHOLE].bytes || (t->files[VOCABULARY].bytes && t->files[MERGES].bytes))
        return 0;
    if (t->files[VOCABULARY].bytes || t->files[MERGES].bytes)
        return tide_err_set(err, "there is a %s but no %s",
                            tide_tokenizer_names[t->files[VOCABULARY].bytes ? VOCABULARY : MERGES],
                            tide_tokenizer_names[t->files[VOCABULARY].bytes ? MERGES : VOCABULARY]);
    return refuse_others(path, err);
}

int tide_tokenizer_new(const char *path, int64_t size, struct tide_tokenizer **ret_tokenizer,
                       struct tide_err *err)
{
    struct tide_tokenizer *t = new_tokenizer(err);
    if (!t)
        return -1;
    int status = read_files(t, path, err);
    if (!status)
        status = read_kept(t, size, err);
    malloc_trim(0); /* the freed JSON took some ten times the vocabulary */
    if (status) {
        tide_tokenizer_free(t);
        return status < 0 ? tide_err_wrap(err, "%s", TIDE_SHOWN(path, 256)) : 1;
    }
    *ret_tokenizer = t;
    return 0;
}

static int keep_copy(struct tide_tokenizer *t, int number, const char *text, size_t len, struct tide_err *err)
{
    char *copy = malloc(len + 1);
    if (!copy)
        return tide_err_set(err, "out of memory for the tokenizer");
    memcpy(copy, text, len);
    copy[len] = '\0';
    t->files[number].bytes = copy;
    t->files[number].len = len;
    return 0;
}

int tide_tokenizer_parse(const char *text, size_t len, const char *merges, size_t merges_len, int64_t size,
                         struct tide_tokenizer **ret_tokenizer, struct tide_err *err)
{
    struct tide_tokenizer *t = new_tokenizer(err);
    if (!t)
        return -1;
    int status = keep_copy(t, merges ? VOCABULARY : WHOLE, text, len, err) ||
                 (merges && keep_copy(t, MERGES, merges, merges_len, err));
    if (status || read_kept(t, size, err)) {
        tide_tokenizer_free(t);
        return -1;
    }
    *ret_tokenizer = t;
    return 0;
}

void tide_tokenizer_drop(struct tide_tokenizer *t)
{
    for (; t->split_count; t->split_count--)
        tide_split_free(t->splits[t->split_count - 1]);
    if (t->pairs)
        tide_pairs_drop(t->pairs);
    t->is_dropped = true;
    malloc_trim(0);
}

void tide_tokenizer_free(struct tide_tokenizer *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->split_count; i++)
        tide_split_free(t->splits[i]);
    for (int i = 0; i < TIDE_TOKENIZER_FILES; i++)
        free(t->files[i].bytes);
    tide_added_release(&t->raw);
    tide_added_release(&t->composed);
    tide_pairs_free(t->pairs);
    free(t);
}

size_t tide_tokenizer_bytes(const struct tide_tokenizer *t)
{
    size_t sum = sizeof *t + tide_pairs_bytes(t->pairs);
    for (int i = 0; i < TIDE_TOKENIZER_FILES; i++)
        sum += t->files[i].len;
    return sum;
}

uint32_t tide_tokenizer_checksum(const struct tide_tokenizer *t)
{
    uint32_t sum = 0;
    bool whole = t->source == tide_tokenizer_names[WHOLE];
    for (int i = whole ? WHOLE : VOCABULARY; i <= (whole ? WHOLE : CONFIG); i++)
        if (t->files[i].bytes)
            sum = tide_durable_checksum(sum, t->files[i].bytes, t->files[i].len);
    return sum;
}
