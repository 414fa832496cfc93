/*
 * json_read.h - reads JSON documents of others: whole files of limited size, and fields of an object.
 *
 * `what` names the document in messages ("the model's configuration"). A duplicate key is refused. A field
 * that is missing or null leaves *to as it was. One of the wrong type is refused: -1 with a message.
 */
#ifndef TIDE_JSON_READ_H
#define TIDE_JSON_READ_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the document, an object, which the caller frees with json_decref. NULL with a message. */
json_t *tide_json_parse(const char *text, size_t len, const char *what, struct tide_err *err);

/* The same for a file of at most `most` bytes (infile.h). Messages name the file. */
json_t *tide_json_read(const char *path, size_t most, const char *what, struct tide_err *err);

int tide_json_take_number(const json_t *root, const char *key, int64_t *to, struct tide_err *err);
/* From 0 to below 1. */
int tide_json_take_share(const json_t *root, const char *key, double *to, struct tide_err *err);
int tide_json_take_flag(const json_t *root, const char *key, bool *to, struct tide_err *err);

#endif
