/*
 * text.h - untrusted strings, made safe to show.
 *
 * Process names, command lines, symbols and file contents may contain control characters, escape sequences or
 * bytes that are not UTF-8. None of these may reach a terminal, a page or a JSON document unescaped.
 */
#ifndef TIDE_TEXT_H
#define TIDE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Length in bytes of the valid UTF-8 sequence at text (1 to 4), or 0 if there is none. Decodes it into
 * *ret_rune if not NULL. */
size_t tide_text_rune(const char *text, size_t len, unsigned *ret_rune);

/* True if a rune must be escaped: control characters (C0, DEL, C1), line and paragraph separators,
 * bidirectional marks and overrides. All of them are below 0x10000. */
bool tide_text_is_unsafe(unsigned rune);

/* Copies text into out (size bytes, always NUL-terminated), with unsafe runes and bytes that are not UTF-8
 * written as \xNN or \u{NNNN}. A result that does not fit ends in "..". Returns out, which is valid UTF-8. */
char *tide_text_escape(const char *text, size_t len, char *out, size_t size);

/* The same for a whole string. */
static inline char *tide_text_shown(const char *text, char *out, size_t size)
{
    return tide_text_escape(text, strlen(text), out, size);
}

/* The same two as expressions: the text, at most `size` bytes, is valid until the block ends. */
#define TIDE_ESCAPED(text, len, size) tide_text_escape(text, len, (char[size]){0}, size)
#define TIDE_SHOWN(text, size)        tide_text_shown(text, (char[size]){0}, size)

/* Appends to a text in a buffer of `size` bytes; cuts what does not fit. */
void tide_text_add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The last part of a path. Borrowed. */
const char *tide_text_last_part(const char *path);

/* Terminal columns that the first len bytes take (wide East Asian runes count 2, combining ones 0). */
size_t tide_text_columns(const char *text, size_t len);

/* How many of the first len bytes fit into so many columns, without cutting a rune. */
size_t tide_text_fitting(const char *text, size_t len, size_t columns);

/* The name in names (NULL-terminated) nearest to word by edit distance, if near enough to be a typo; else
 * NULL. Borrowed. */
const char *tide_text_nearest(const char *word, const char *const *names);

#endif
