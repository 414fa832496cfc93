#include "train/pairs.h"
#include "base/map.h"
#include "base/text.h"

#include <jansson.h>
#include <locale.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

enum { RUNES = 324, LONGEST = 4096 }; /* runes: bytes are written as those below this number */

struct word {
    size_t at;
    uint32_t len;
    bool known;
};

struct tide_pairs {
    int64_t words;
    struct word *word;
    char *bytes; /* of all words */
    struct tide_map by_text;
    struct tide_map by_pair; /* left << 32 | right -> rank << 32 | joined */
    locale_t locale;         /* 0: none, and everything outside of ASCII is a letter */
};

/* ---- bytes as the files write them */

static bool is_itself(int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

static void know_runes(int16_t byte_of[static RUNES])
{
    int next = 256;
    for (int i = 0; i < RUNES; i++)
        byte_of[i] = -1;
    for (int byte = 0; byte < 256; byte++)
        byte_of[is_itself(byte) ? byte : next++] = (int16_t)byte;
}

/* The bytes that a text of the files stands for; one with other characters stands for itself. `out` has room
 * for len. */
static size_t to_bytes(const int16_t *byte_of, const char *text, size_t len, char *out)
{
    size_t made = 0;
    for (size_t at = 0, step; at < len; at += step) {
        unsigned rune = 0;
        step = tide_text_rune(text + at, len - at, &rune);
        if (!step || rune >= RUNES || byte_of[rune] < 0) {
            memcpy(out, text, len);
            return len;
        }
        out[made++] = (char)byte_of[rune];
    }
    return made;
}

/* ---- reading */

static int take_words(struct tide_pairs *p, json_t *root, const int16_t *byte_of, struct tide_err *err)
{
    const char *key;
    json_t *value;
    size_t used = 0;
    json_object_foreach(root, key, value)
    {
        char shown[64];
        int64_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= p->words || p->word[id].known)
            return tide_err_set(
                err, "the vocabulary gives '%s' a number that is none of the model's %lld, or another's",
                tide_text_escape(key, strlen(key), shown, sizeof shown), (long long)p->words);
        size_t len = to_bytes(byte_of, key, strlen(key), p->bytes + used);
        p->word[id] = (struct word){.at = used, .len = (uint32_t)len, .known = true};
        if (tide_map_put(&p->by_text, tide_map_key(TIDE_MAP_SEED, p->bytes + used, len), (uint64_t)id))
            return tide_err_set(err, "out of memory for the vocabulary");
        used += len;
    }
    return 0;
}

static int read_words(struct tide_pairs *p, const char *text, size_t len, const int16_t *byte_of,
                      struct tide_err *err)
{
    json_error_t why;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return tide_err_set(err, "the vocabulary is no JSON (line %d)", why.line);
    int status = json_is_object(root) ? take_words(p, root, byte_of, err)
                                      : tide_err_set(err, "the vocabulary is no JSON object");
    json_decref(root);
    return status;
}

/* "left right" of merges.txt, as rank. */
static int take_merge(struct tide_pairs *p, const char *line, size_t len, uint64_t rank,
                      const int16_t *byte_of, struct tide_err *err)
{
    char shown[64], both[2 * 512];
    const char *space = memchr(line, ' ', len);
    size_t first = space ? (size_t)(space - line) : 0, second = len - first - 1;
    if (!first || !second || first >= sizeof both / 2 || second >= sizeof both / 2)
        return tide_err_set(err, "the merges have a line that is no pair: '%s'",
                            tide_text_escape(line, len, shown, sizeof shown));
    size_t left = to_bytes(byte_of, line, first, both);
    size_t all = left + to_bytes(byte_of, space + 1, second, both + left);
    int32_t a = tide_pairs_word(p, both, left), b = tide_pairs_word(p, both + left, all - left),
            joined = tide_pairs_word(p, both, all);
    if (a < 0 || b < 0 || joined < 0)
        return tide_err_set(err, "the merges join '%s', which is not in the vocabulary",
                            tide_text_escape(line, len, shown, sizeof shown));
    if (tide_map_put(&p->by_pair, (uint64_t)a << 32 | (uint32_t)b, rank << 32 | (uint32_t)joined))
        return tide_err_set(err, "out of memory for the merges, or there are too many");
    return 0;
}

static int read_merges(struct tide_pairs *p, const char *text, size_t len, const int16_t *byte_of,
                       struct tide_err *err)
{
    uint64_t rank = 0;
    for (size_t at = 0; at < len;) {
        const char *line = text + at, *newline = memchr(line, '\n', len - at);
        size_t line_len = newline ? (size_t)(newline - line) : len - at;
        at += line_len + 1;
        if (line_len && line[line_len - 1] == '\r')
            line_len--;
        bool is_head = line_len >= 8 && !memcmp(line, "#version", 8);
        if (line_len && !is_head && take_merge(p, line, line_len, rank++, byte_of, err))
            return -1;
    }
    return 0;
}

int tide_pairs_new(const char *vocabulary, size_t vocabulary_len, const char *merges, size_t merges_len,
                   int64_t words, struct tide_pairs **ret_pairs, struct tide_err *err)
{
    int16_t byte_of[RUNES];
    struct tide_pairs *p = calloc(1, sizeof *p);
    if (!p)
        return tide_err_set(err, "out of memory for the vocabulary");
    know_runes(byte_of);
    p->words = words;
    p->word = calloc((size_t)words, sizeof *p->word);
    p->bytes = malloc(vocabulary_len + 1); /* no word is longer than what says it */
    p->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    tide_map_init(&p->by_text, (size_t)words);
    tide_map_init(&p->by_pair, (size_t)words);
    int status = p->word && p->bytes ? 0 : tide_err_set(err, "out of memory for the vocabulary");
    if (status || read_words(p, vocabulary, vocabulary_len, byte_of, err) ||
        read_merges(p, merges, merges_len, byte_of, err)) {
        tide_pairs_free(p);
        return -1;
    }
    *ret_pairs = p;
    return 0;
}

void tide_pairs_free(struct tide_pairs *p)
{
    if (!p)
        return;
    tide_map_release(&p->by_text);
    tide_map_release(&p->by_pair);
    if (p->locale)
        freelocale(p->locale);
    free(p->word);
    free(p->bytes);
    free(p);
}

const char *tide_pairs_text(const struct tide_pairs *p, int32_t token, size_t *ret_len)
{
    if (token < 0 || token >= p->words || !p->word[token].known)
        return NULL;
    *ret_len = p->word[token].len;
    return p->bytes + p->word[token].at;
}

int32_t tide_pairs_word(const struct tide_pairs *p, const char *text, size_t len)
{
    uint64_t id;
    if (!tide_map_get(&p->by_text, tide_map_key(TIDE_MAP_SEED, text, len), &id) || p->word[id].len != len ||
        memcmp(p->bytes + p->word[id].at, text, len) != 0)
        return -1;
    return (int32_t)id;
}

/* ---- pieces */

enum kind { SPACE, LETTER, DIGIT, OTHER };

static enum kind kind_of(const struct tide_pairs *p, const char *text, size_t len, size_t *ret_len)
{
    unsigned rune = 0;
    *ret_len = tide_text_rune(text, len, &rune);
    if (!*ret_len) {
        *ret_len = 1;
        return OTHER;
    }
    if (rune == ' ' || (rune >= '\t' && rune <= '\r') || rune == 0x85 || rune == 0xa0)
        return SPACE;
    if (rune < 0x80)
        return rune >= '0' && rune <= '9'                     ? DIGIT
               : (rune | 0x20) >= 'a' && (rune | 0x20) <= 'z' ? LETTER
                                                              : OTHER;
    if (!p->locale || iswalpha_l((wint_t)rune, p->locale))
        return LETTER;
    return iswspace_l((wint_t)rune, p->locale) ? SPACE : OTHER;
}

/* Bytes from the start that are of one kind. ret_last: of its last rune. */
static size_t run_of(const struct tide_pairs *p, const char *text, size_t len, enum kind wanted,
                     size_t *ret_last)
{
    size_t at = 0, step;
    while (at < len && kind_of(p, text + at, len - at, &step) == wanted) {
        at += step;
        *ret_last = step;
    }
    return at;
}

static size_t contraction(const char *text, size_t len)
{
    static const char *const ends[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (len >= strlen(ends[i]) && !memcmp(text, ends[i], strlen(ends[i])))
            return strlen(ends[i]);
    return 0;
}

/* The piece at the start: 's|'t|'re|'ve|'m|'ll|'d| ?letters| ?digits| ?others|white space, whose last
 * character goes to the word behind it. */
static size_t piece(const struct tide_pairs *p, const char *text, size_t len)
{
    size_t last = 0, step, whole = contraction(text, len);
    if (whole)
        return whole;
    size_t skip = text[0] == ' ' && len > 1 && kind_of(p, text + 1, len - 1, &step) != SPACE;
    enum kind what = kind_of(p, text + skip, len - skip, &step);
    size_t run = run_of(p, text + skip, len - skip, what, &last);
    if (what == SPACE && run < len && run > last)
        return run - last;
    return skip + run;
}

/* ---- joining */

static int64_t join(const struct tide_pairs *p, int32_t *tokens, int64_t count)
{
    for (;;) {
        uint64_t best = UINT64_MAX, found;
        int64_t at = -1;
        for (int64_t i = 0; i + 1 < count; i++)
            if (tide_map_get(&p->by_pair, (uint64_t)tokens[i] << 32 | (uint32_t)tokens[i + 1], &found) &&
                found < best) {
                best = found;
                at = i;
            }
        if (at < 0)
            return count;
        tokens[at] = (int32_t)(best & UINT32_MAX);
        memmove(tokens + at + 1, tokens + at + 2, (size_t)(count - at - 2) * sizeof *tokens);
        count--;
    }
}

int64_t tide_pairs_tokens(const struct tide_pairs *p, const char *text, size_t len, int32_t *out,
                          struct tide_err *err)
{
    int64_t made = 0;
    for (size_t at = 0; at < len;) {
        size_t bytes = piece(p, text + at, len - at);
        bytes = bytes > LONGEST ? LONGEST : bytes;
        for (size_t i = 0; i < bytes; i++) {
            char shown[16];
            out[made + (int64_t)i] = tide_pairs_word(p, text + at + i, 1);
            if (out[made + (int64_t)i] < 0)
                return tide_err_set(err, "the vocabulary has no word for the byte '%s'",
                                    tide_text_escape(text + at + i, 1, shown, sizeof shown));
        }
        made += join(p, out + made, (int64_t)bytes);
        at += bytes;
    }
    return made;
}
