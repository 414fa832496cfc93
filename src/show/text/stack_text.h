/*
 * stack_text.h - frames and stacks as text and JSON.
 */
#ifndef TIDE_STACK_TEXT_H
#define TIDE_STACK_TEXT_H

#include "assess/stacks.h"
#include "base/buf.h"
#include "base/json.h"

#include <stdio.h>

/* Appends "train.py:88 train_step", "libtorch.so  at::empty_cpu" or "a.out+0x1234", escaped; with_source:
 * also the recorded text of the source line. Opens no file: names in a recording are not trusted. */
void tide_frame_put(struct tide_buf *buf, const struct tide_frame *frame, bool with_source);

/* Prints the chosen frames, one line each, indented below a finding. */
void tide_stack_print(const struct tide_history *history, const struct tide_history_site *site, size_t most,
                      FILE *out);

/* Writes an array of all frames, innermost first: function, file, line, module, offset, python, inlined. */
void tide_stack_json(struct tide_json *json, const char *key, const struct tide_history *history,
                     int64_t stack);

#endif
