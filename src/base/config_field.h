/*
 * config_field.h - the fields of a model's configuration (Hugging Face's config.json), one at a time.
 *
 * A field that is missing, or null, leaves what is there. One of another kind is refused with a sentence and
 * -1.
 */
#ifndef TIDE_CONFIG_FIELD_H
#define TIDE_CONFIG_FIELD_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

int tide_config_number(const json_t *root, const char *key, int64_t *to, struct tide_err *err);
/* From 0 to below 1. */
int tide_config_share(const json_t *root, const char *key, double *to, struct tide_err *err);
int tide_config_flag(const json_t *root, const char *key, bool *to, struct tide_err *err);

#endif
