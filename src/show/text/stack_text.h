/*
 * stack_text.h - how frames and stacks are said: to a person, and in documents.
 */
#ifndef TIDE_STACK_TEXT_H
#define TIDE_STACK_TEXT_H

#include "assess/stacks.h"
#include "base/buf.h"
#include "base/json.h"

#include <stdio.h>

/* "train.py:88 train_step", "libtorch.so  at::empty_cpu", "a.out+0x1234", escaped; with the text of the
 * source line as it was recorded. No file is opened: a name in a recording is not to be trusted. */
void tide_frame_put(struct tide_buf *buf, const struct tide_frame *frame, bool with_source);

/* The chosen frames, one line each, indented as what stands below a finding. */
void tide_stack_print(const struct tide_history *history, const struct tide_history_site *site, size_t most,
                      FILE *out);

/* An array of all frames, innermost first: function, file, line, module, offset, python, inlined. */
void tide_stack_json(struct tide_json *json, const char *key, const struct tide_history *history,
                     int64_t stack);

#endif
