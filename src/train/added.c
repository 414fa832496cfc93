#include "train/added.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { RUNE_BYTES = 4 };

void tide_added_release(struct tide_added *a)
{
    for (size_t i = 0; i < a->count; i++)
        free(a->tokens[i].text);
    free(a->tokens);
    *a = (struct tide_added){0};
}

int tide_added_add(struct tide_added *a, const struct tide_added_token *token)
{
    if (!token->len)
        return 0;
    struct tide_added_token *more = reallocarray(a->tokens, a->count + 1, sizeof *more);
    if (!more)
        return -1;
    a->tokens = more;
    more[a->count] = *token;
    more[a->count].text = malloc(token->len);
    if (!more[a->count].text)
        return -1;
    memcpy(more[a->count++].text, token->text, token->len);
    a->longest = token->len > a->longest ? token->len : a->longest;
    a->strips_left |= token->strips_left;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    const struct tide_added_token *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

int tide_added_settle(struct tide_added *a, struct tide_err *err)
{
    if (a->count)
        qsort(a->tokens, a->count, sizeof *a->tokens, by_text);
    for (size_t i = 1; i < a->count; i++)
        if (!by_text(&a->tokens[i - 1], &a->tokens[i]))
            return tide_err_set(err, "the tokenizer adds '%s' twice",
                                TIDE_ESCAPED(a->tokens[i].text, a->tokens[i].len, 64));
    for (size_t i = 0, byte = 0; byte <= 256; byte++) {
        while (i < a->count && (uint8_t)a->tokens[i].text[0] < byte)
            i++;
        a->first[byte] = i;
    }
    return 0;
}

/* ---- runes beside a match */

/* Unicode's White_Space. */
static bool is_space(unsigned rune)
{
    return (rune >= '\t' && rune <= '\r') || rune == ' ' || rune == 0x85 || rune == 0xa0 || rune == 0x1680 ||
           (rune >= 0x2000 && rune <= 0x200a) || rune == 0x2028 || rune == 0x2029 || rune == 0x202f ||
           rune == 0x205f || rune == 0x3000;
}

/* Part of a word: letters, marks, decimal digits, connectors, letter numbers, joiners. */
static bool is_of_word(unsigned rune)
{
    switch (utf8proc_category((utf8proc_int32_t)rune)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default: /* circled letters are alphabetic symbols */
        return rune == 0x200c || rune == 0x200d || (rune >= 0x24b6 && rune <= 0x24e9);
    }
}

/* Finds the rune that ends at `at` and returns its length; 0: none. */
static size_t rune_before(const char *text, size_t start, size_t at, unsigned *ret_rune)
{
    for (size_t len = 1; len <= RUNE_BYTES && len <= at - start; len++)
        if (tide_text_rune(text + at - len, len, ret_rune) == len)
            return len;
    return 0;
}

static size_t spaces_before(const char *text, size_t start, size_t at)
{
    unsigned rune;
    size_t len, first = at;
    while ((len = rune_before(text, start, first, &rune)) && is_space(rune))
        first -= len;
    return first;
}

static size_t spaces_after(const char *text, size_t at, size_t len)
{
    unsigned rune;
    size_t step;
    while (at < len && (step = tide_text_rune(text + at, len - at, &rune)) && is_space(rune))
        at += step;
    return at;
}

static bool stands_alone(const char *text, size_t start, size_t begin, size_t end, size_t len)
{
    unsigned rune;
    return !(rune_before(text, start, begin, &rune) && is_of_word(rune)) &&
           !(end < len && tide_text_rune(text + end, len - end, &rune) && is_of_word(rune));
}

/* ---- finding */

static const struct tide_added_token *longest_at(const struct tide_added *a, const char *text, size_t len)
{
    size_t first = a->first[(uint8_t)*text], i = a->first[(uint8_t)*text + 1];
    while (i-- > first)
        if (a->tokens[i].len <= len && !memcmp(a->tokens[i].text, text, a->tokens[i].len))
            return &a->tokens[i];
    return NULL;
}

/* No match before a place; if a token may strip white space before it, not before that either. */
static struct tide_added_match none_before(const struct tide_added *a, const char *text, size_t from,
                                           size_t place)
{
    return (struct tide_added_match){-1, a->strips_left ? spaces_before(text, from, place) : place, 0};
}

struct tide_added_match tide_added_find(const struct tide_added *a, const char *text, size_t start, size_t at,
                                        size_t len, bool ends)
{
    size_t needed = a->longest + RUNE_BYTES; /* to know the longest match and the rune after it */
    for (size_t place = at; place < len && a->count; place++) {
        if (a->first[(uint8_t)text[place]] == a->first[(uint8_t)text[place] + 1])
            continue;
        if (!ends && len - place < needed)
            return none_before(a, text, at, place);
        const struct tide_added_token *found = longest_at(a, text + place, len - place);
        if (!found)
            continue;
        size_t end = place + found->len;
        if (found->single_word && !stands_alone(text, start, place, end, len)) {
            place = end - 1;
            continue;
        }
        size_t after = found->strips_right ? spaces_after(text, end, len) : end;
        if (found->strips_right && after == len && !ends)
            return none_before(a, text, at, place);
        return (struct tide_added_match){found->id,
                                         found->strips_left ? spaces_before(text, at, place) : place, after};
    }
    if (ends || !a->count)
        return (struct tide_added_match){-1, len, 0};
    return none_before(a, text, at, len);
}
