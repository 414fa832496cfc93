#include "base/proto.h"

#include <string.h>

enum { WIRE_NUMBER = 0, WIRE_BYTES = 2, VARINT_MOST = 10 };

static size_t varint(uint64_t value, unsigned char out[static VARINT_MOST])
{
    size_t len = 0;
    for (; value >= 0x80; value >>= 7)
        out[len++] = (unsigned char)(value | 0x80);
    out[len++] = (unsigned char)value;
    return len;
}

static void put_varint(struct tide_buf *buf, uint64_t value)
{
    unsigned char bytes[VARINT_MOST];
    size_t len = varint(value, bytes);
    tide_buf_append(buf, bytes, len);
}

static void put_key(struct tide_buf *buf, unsigned field, unsigned wire)
{
    put_varint(buf, (uint64_t)field << 3 | wire);
}

void tide_proto_number(struct tide_buf *buf, unsigned field, uint64_t value)
{
    if (value == 0)
        return;
    put_key(buf, field, WIRE_NUMBER);
    put_varint(buf, value);
}

static void put_bytes(struct tide_buf *buf, unsigned field, const void *data, size_t len)
{
    put_key(buf, field, WIRE_BYTES);
    put_varint(buf, len);
    if (len)
        tide_buf_append(buf, data, len);
}

void tide_proto_text(struct tide_buf *buf, unsigned field, const char *text)
{
    put_bytes(buf, field, text, strlen(text));
}

void tide_proto_message(struct tide_buf *buf, unsigned field, const struct tide_buf *message)
{
    buf->failed |= message->failed;
    put_bytes(buf, field, message->data, message->len);
}

void tide_proto_numbers(struct tide_buf *buf, unsigned field, const uint64_t *values, size_t count)
{
    unsigned char bytes[VARINT_MOST];
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += varint(values[i], bytes);
    put_key(buf, field, WIRE_BYTES);
    put_varint(buf, len);
    for (size_t i = 0; i < count; i++)
        put_varint(buf, values[i]);
}
