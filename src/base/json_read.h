/*
 * json_read.h - JSON documents that others wrote: whole files of a bounded size, and fields of an object.
 *
 * `what` names the document in messages ("the model's configuration"). A key that is there twice is refused.
 * A field that is missing, or null, leaves what is there; one of another kind is refused with a sentence and
 * -1.
 */
#ifndef TIDE_JSON_READ_H
#define TIDE_JSON_READ_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The document, whose root is an object; the caller gives it back with json_decref. NULL with a sentence. */
json_t *tide_json_parse(const char *text, size_t len, const char *what, struct tide_err *err);

/* The same of a file of at most so many bytes (infile.h). Sentences name the file. */
json_t *tide_json_read(const char *path, size_t most, const char *what, struct tide_err *err);

int tide_json_take_number(const json_t *root, const char *key, int64_t *to, struct tide_err *err);
/* From 0 to below 1. */
int tide_json_take_share(const json_t *root, const char *key, double *to, struct tide_err *err);
int tide_json_take_flag(const json_t *root, const char *key, bool *to, struct tide_err *err);

#endif
