#include "train/split.h"
#include "base/buf.h"
#include "base/text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* Limits per match. Steps grow with the text: a pattern that gives back white space one by one needs some per
 * byte of it; one that tries all ways to split exceeds any limit. */
enum {
    STEPS = 100000,
    STEPS_PER_BYTE = 16,
    MOST_DEPTH = 1000000,
    MOST_KIB = 32 << 10,
    MOST_PATTERN = 1 << 14
};

struct tide_split {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    bool drops;
};

/* ---- Oniguruma's patterns as PCRE2's */

struct rewriting {
    const char *text;
    size_t len, at;
    struct tide_buf out;
};

static int refuse(const struct rewriting *r, size_t len, struct tide_err *err)
{
    len = len < r->len - r->at ? len : r->len - r->at;
    return tide_err_set(err, "the tokenizer's pattern uses '%s', which is not supported",
                        TIDE_ESCAPED(r->text + r->at, len, 32));
}

static bool starts(const struct rewriting *r, const char *with)
{
    size_t len = strlen(with);
    return r->len - r->at >= len && !memcmp(r->text + r->at, with, len);
}

/* \p{Han} is the script alone; in PCRE2 it would include characters shared with other scripts. */
static int take_property(struct rewriting *r, struct tide_err *err)
{
    const char *open = r->text + r->at + 2;
    size_t left = r->len - r->at - 2;
    const char *close = left && *open == '{' ? memchr(open, '}', left) : NULL;
    size_t name = close ? (size_t)(close - open) - 1 : 0;
    if (!name || name > 32 ||
        strspn(open + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") < name)
        return refuse(r, close ? name + 4 : 2, err);
    tide_buf_append(&r->out, r->text + r->at, 3);
    tide_buf_text(&r->out, name > 2 ? "sc:" : "");
    tide_buf_append(&r->out, open + 1, name + 1);
    r->at += name + 4;
    return 0;
}

static int take_escape(struct rewriting *r, struct tide_err *err)
{
    static const char hex[] = "0123456789abcdefABCDEF";
    char letter = r->len - r->at > 1 ? r->text[r->at + 1] : '\0';
    bool digits = r->len - r->at >= 6 && strspn(r->text + r->at + 2, hex) >= 4;
    if (letter == 'p' || letter == 'P')
        return take_property(r, err);
    if (letter == 's' || letter == 'S')
        tide_buf_text(&r->out, letter == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
    else if (letter == 'v')
        tide_buf_text(&r->out, "\\x0b");
    else if (letter == 'u' && digits) {
        tide_buf_format(&r->out, "\\x{%.4s}", r->text + r->at + 2);
        r->at += 4;
    } else if (letter && (strchr("rntfdD", letter) || strchr("\\[](){}.*+?^$|-/'\"#&!%,:;<=>@_`~ ", letter)))
        tide_buf_append(&r->out, r->text + r->at, 2);
    else
        return refuse(r, 2, err);
    r->at += 2;
    return 0;
}

/* Takes "[...]", from its first bracket. */
static int take_class(struct rewriting *r, struct tide_err *err)
{
    size_t first = r->at + (starts(r, "[^") ? 2 : 1);
    tide_buf_append(&r->out, r->text + r->at, first - r->at);
    for (r->at = first; r->at < r->len;) {
        char c = r->text[r->at];
        if (c == '\\') {
            if (take_escape(r, err))
                return -1;
            continue;
        }
        if (c == '[' || starts(r, "&&") || (c == ']' && r->at == first))
            return refuse(r, 2, err);
        tide_buf_append(&r->out, &c, 1);
        r->at++;
        if (c == ']')
            return 0;
    }
    return tide_err_set(err, "the tokenizer's pattern has a set without an end");
}

/* Takes "{1,3}". Refuses suffixes that mean different things to the two libraries. */
static int take_count(struct rewriting *r, struct tide_err *err)
{
    size_t len = 1 + strspn(r->text + r->at + 1, "0123456789,");
    const char *end = r->text + r->at + len;
    if (len == 1 || r->at + len >= r->len || *end != '}' || r->text[r->at + 1] == ',' || end[1] == '+' ||
        (end[1] == '?' && !memchr(r->text + r->at, ',', len)))
        return refuse(r, len + 2, err);
    tide_buf_append(&r->out, r->text + r->at, len + 1);
    r->at += len + 1;
    return 0;
}

static int take_group(struct rewriting *r, struct tide_err *err)
{
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?>", "(?i:", "(?-i:", "(?i)"};
    size_t len = 1;
    if (starts(r, "(?")) {
        len = 0;
        for (size_t i = 0; i < sizeof known / sizeof *known && !len; i++)
            len = starts(r, known[i]) ? strlen(known[i]) : 0;
    }
    if (!len || starts(r, "(*"))
        return refuse(r, 3, err);
    tide_buf_append(&r->out, r->text + r->at, len);
    r->at += len;
    return 0;
}

/* text[len] must be 0. */
static int rewrite(struct rewriting *r, struct tide_err *err)
{
    while (r->at < r->len) {
        char c = r->text[r->at];
        int status = 0;
        if (c == '\\')
            status = take_escape(r, err);
        else if (c == '[')
            status = take_class(r, err);
        else if (c == '(')
            status = take_group(r, err);
        else if (c == '{')
            status = take_count(r, err);
        else if (c == '^' || c == '$')
            status = refuse(r, 1, err);
        else {
            tide_buf_append(&r->out, &c, 1);
            r->at++;
        }
        if (status)
            return -1;
    }
    return r->out.failed ? tide_err_set(err, "the tokenizer's pattern is too long") : 0;
}

/* ---- matching */

static int compile(struct tide_split *s, const char *pattern, size_t len, bool literal, struct tide_err *err)
{
    int error = 0;
    PCRE2_SIZE where = 0;
    PCRE2_UCHAR why[128];
    uint32_t empty = 0,
             flags = literal ? PCRE2_UTF | PCRE2_LITERAL : PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    s->code = pcre2_compile((PCRE2_SPTR)pattern, len, flags, &error, &where, NULL);
    if (!s->code) {
        pcre2_get_error_message(error, why, sizeof why);
        return tide_err_set(err, "the tokenizer's pattern cannot be read: %s", (const char *)why);
    }
    pcre2_pattern_info(s->code, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty)
        return tide_err_set(err, "the tokenizer's pattern can match an empty text, so it cannot cut text");
    s->match = pcre2_match_data_create(1, NULL);
    s->limits = pcre2_match_context_create(NULL);
    if (!s->match || !s->limits)
        return tide_err_set(err, "out of memory for the tokenizer");
    pcre2_set_depth_limit(s->limits, MOST_DEPTH);
    pcre2_set_heap_limit(s->limits, MOST_KIB);
    return 0;
}

int tide_split_new(const char *pattern, size_t len, bool literal, bool matches_only,
                   struct tide_split **ret_split, struct tide_err *err)
{
    struct rewriting r = {.text = pattern, .len = len};
    struct tide_split *s = calloc(1, sizeof *s);
    if (!s)
        return tide_err_set(err, "out of memory for the tokenizer");
    s->drops = matches_only;
    tide_buf_init(&r.out, MOST_PATTERN);
    int status = literal ? compile(s, pattern, len, true, err)
                         : rewrite(&r, err) || compile(s, tide_buf_view(&r.out), r.out.len, false, err);
    tide_buf_release(&r.out);
    if (status) {
        tide_split_free(s);
        return -1;
    }
    *ret_split = s;
    return 0;
}

void tide_split_free(struct tide_split *s)
{
    if (!s)
        return;
    pcre2_match_context_free(s->limits);
    pcre2_match_data_free(s->match);
    pcre2_code_free(s->code);
    free(s);
}

bool tide_split_drops(const struct tide_split *s)
{
    return s->drops;
}

int tide_split_next(struct tide_split *s, const char *text, size_t len, size_t at, bool ends,
                    size_t *ret_begin, size_t *ret_end, struct tide_err *err)
{
    PCRE2_UCHAR why[128];
    size_t steps = STEPS + STEPS_PER_BYTE * (len - at);
    pcre2_set_match_limit(s->limits, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
    int found = pcre2_match(s->code, (PCRE2_SPTR)text, len, at,
                            PCRE2_NO_UTF_CHECK | (ends ? 0 : PCRE2_PARTIAL_HARD), s->match, s->limits);
    if (found == PCRE2_ERROR_NOMATCH || found == PCRE2_ERROR_PARTIAL)
        return 0;
    if (found < 0) {
        pcre2_get_error_message(found, why, sizeof why);
        return tide_err_set(err, "the tokenizer's pattern cannot be used on this text: %s",
                            (const char *)why);
    }
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(s->match);
    if (place[1] <= place[0] || place[0] < at)
        return tide_err_set(err, "the tokenizer's pattern matches nothing in this text");
    *ret_begin = place[0];
    *ret_end = place[1];
    return 1;
}
