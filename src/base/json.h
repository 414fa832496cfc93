/*
 * json.h - writes one JSON document to a stream, piece by piece, in bounded memory.
 *
 * jansson reads JSON. Writing is done here, because our documents can have a million rows and must not be
 * built in memory first. Calls nest like the document; the writer adds commas and indentation. In an object
 * every value has a key; in an array key is NULL. Bytes that are not UTF-8 are written as U+FFFD. Characters
 * that could control a terminal are written as \uNNNN. The caller chooses null for numbers that are not
 * finite and for a negative "unknown".
 */
#ifndef TIDE_JSON_H
#define TIDE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TIDE_JSON_DEPTH = 16 };

struct tide_json {
    FILE *out;
    int depth;
    bool compact; /* everything on one line */
    bool in_page; /* for data in a <script>: characters that could end or open an element become \uNNNN */
    bool filled[TIDE_JSON_DEPTH];
    char closer[TIDE_JSON_DEPTH];
};

void tide_json_init(struct tide_json *json, FILE *out, bool compact);
/* Starts a document that is an object and writes its schema. */
void tide_json_document(struct tide_json *json, FILE *out, bool compact, const char *schema);

void tide_json_object(struct tide_json *json, const char *key);
void tide_json_array(struct tide_json *json, const char *key);
/* Ends the innermost object or array. Ending the outermost one also ends the line. */
void tide_json_end(struct tide_json *json);

void tide_json_text(struct tide_json *json, const char *key, const char *text); /* NULL -> null */
void tide_json_integer(struct tide_json *json, const char *key, int64_t value);
void tide_json_real(struct tide_json *json, const char *key, double value); /* not finite -> null */
void tide_json_bool(struct tide_json *json, const char *key, bool value);
void tide_json_null(struct tide_json *json, const char *key);

/* The rounded value as an integer; null if not finite. For bytes and steps that may be unknown (NAN). */
void tide_json_whole(struct tide_json *json, const char *key, double value);

enum { TIDE_JSON_RUNE = 8 };

/* Writes the first rune of a non-empty text as it appears in a JSON string. Returns how many bytes of the
 * text it took. For callers without a stream. */
size_t tide_json_rune(const char *text, size_t len, char out[static TIDE_JSON_RUNE], size_t *ret_len);

#endif
