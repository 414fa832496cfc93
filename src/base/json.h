/*
 * json.h - writes one JSON document to a stream, piece by piece, in bounded memory.
 *
 * Reading JSON is jansson's work; writing is done here because our documents can have a million rows and must
 * not be built in memory first. Calls nest as the document does; commas and indentation are put by the
 * writer. In an object every value takes its key; in an array key is NULL. Text that is not UTF-8 has its bad
 * bytes written as U+FFFD; what could drive a terminal is written as \uNNNN. A number that is not finite, and
 * a negative "unknown", are written as null by the caller's choice.
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
    bool in_page; /* for a <script> that is data: what could end or open an element is written as \uNNNN */
    bool filled[TIDE_JSON_DEPTH];
    char closer[TIDE_JSON_DEPTH];
};

void tide_json_init(struct tide_json *json, FILE *out, bool compact);
/* Begins a document that is an object and says its schema. */
void tide_json_document(struct tide_json *json, FILE *out, bool compact, const char *schema);

void tide_json_object(struct tide_json *json, const char *key);
void tide_json_array(struct tide_json *json, const char *key);
/* Ends the innermost object or array; the outermost one also ends the line. */
void tide_json_end(struct tide_json *json);

void tide_json_text(struct tide_json *json, const char *key, const char *text); /* NULL -> null */
void tide_json_integer(struct tide_json *json, const char *key, int64_t value);
void tide_json_real(struct tide_json *json, const char *key, double value); /* not finite -> null */
void tide_json_bool(struct tide_json *json, const char *key, bool value);
void tide_json_null(struct tide_json *json, const char *key);

/* The rounded value as an integer; null when it is not finite. For bytes and steps that may be unknown (NAN).
 */
void tide_json_whole(struct tide_json *json, const char *key, double value);

enum { TIDE_JSON_RUNE = 8 };

/* What stands in a JSON string for the first rune of a text that is not empty; how many bytes of the text
 * that is. For who has no stream. */
size_t tide_json_rune(const char *text, size_t len, char out[static TIDE_JSON_RUNE], size_t *ret_len);

#endif
