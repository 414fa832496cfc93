/*
 * proto.h - writes protocol buffer messages, field by field, into a buffer.
 *
 * A nested message is built in its own buffer and added with tide_proto_message. Zero is what a reader
 * assumes of a missing field, so it is not written, except within lists. Strings must be UTF-8.
 */
#ifndef TIDE_PROTO_H
#define TIDE_PROTO_H

#include "base/buf.h"

#include <stdint.h>

void tide_proto_number(struct tide_buf *buf, unsigned field, uint64_t value);
/* These two are always written, because an empty element of a repeated field counts too. */
void tide_proto_text(struct tide_buf *buf, unsigned field, const char *text);
void tide_proto_message(struct tide_buf *buf, unsigned field, const struct tide_buf *message);
/* A packed list of numbers. */
void tide_proto_numbers(struct tide_buf *buf, unsigned field, const uint64_t *values, size_t count);

#endif
