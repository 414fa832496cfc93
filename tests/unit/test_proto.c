/*
 * test_proto.c - protocol buffers, byte by byte as their specification has them; and gzip.
 */
#include "base/gzip.h"
#include "base/proto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <zlib.h>

static void assert_bytes(struct tide_buf *buf, const char *expected, size_t len)
{
    assert_false(buf->failed);
    assert_int_equal(buf->len, len);
    if (len)
        assert_memory_equal(buf->data, expected, len);
    tide_buf_clear(buf);
}

static void numbers_are_varints_and_zero_is_left_out(void **state)
{
    (void)state;
    struct tide_buf b;
    tide_buf_init(&b, 1000);
    tide_proto_number(&b, 1, 150); /* the example of the specification */
    assert_bytes(&b, "\x08\x96\x01", 3);
    tide_proto_number(&b, 1, 0);
    assert_bytes(&b, "", 0);
    tide_proto_number(&b, 16, 127);
    assert_bytes(&b, "\x80\x01\x7f", 3);
    tide_proto_number(&b, 2, UINT64_MAX); /* -1 */
    assert_bytes(&b, "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    tide_buf_release(&b);
}

static void texts_and_messages_carry_their_length(void **state)
{
    (void)state;
    struct tide_buf b, inner;
    tide_buf_init(&b, 1000);
    tide_buf_init(&inner, 1000);
    tide_proto_text(&b, 2, "testing");
    assert_bytes(&b, "\x12\x07testing", 9);
    tide_proto_text(&b, 6, ""); /* an element of a list counts though it is empty */
    assert_bytes(&b, "\x32\x00", 2);
    tide_proto_number(&inner, 1, 150);
    tide_proto_message(&b, 3, &inner);
    assert_bytes(&b, "\x1a\x03\x08\x96\x01", 5);
    tide_buf_clear(&inner);
    tide_proto_message(&b, 3, &inner);
    assert_bytes(&b, "\x1a\x00", 2);
    tide_buf_release(&b);
    tide_buf_release(&inner);
}

static void lists_are_packed_with_their_zeros(void **state)
{
    (void)state;
    struct tide_buf b;
    tide_buf_init(&b, 1000);
    tide_proto_numbers(&b, 6, (const uint64_t[]){3, 270, 86942}, 3);
    assert_bytes(&b, "\x32\x06\x03\x8e\x02\x9e\xa7\x05", 8);
    tide_proto_numbers(&b, 2, (const uint64_t[]){0, 0}, 2);
    assert_bytes(&b, "\x12\x02\x00\x00", 4);
    tide_buf_release(&b);
}

static void a_message_that_did_not_fit_is_not_passed_on_as_whole(void **state)
{
    (void)state;
    struct tide_buf b, inner;
    tide_buf_init(&b, 1000);
    tide_buf_init(&inner, 4);
    tide_proto_text(&inner, 1, "too long for it");
    tide_proto_message(&b, 3, &inner);
    assert_true(b.failed);
    tide_buf_release(&b);
    tide_buf_release(&inner);
}

static void what_is_compressed_comes_back(void **state)
{
    (void)state;
    enum { SIZE = 3 << 20 };
    unsigned char *data = malloc(SIZE), *back = malloc(SIZE + 1);
    unsigned seed = 1;
    for (size_t i = 0; i < SIZE; i++) /* half of it cannot be compressed */
        data[i] = (unsigned char)(i & 4096 ? (seed = seed * 1103515245 + 12345) >> 16 : 7);
    FILE *file = tmpfile();
    struct tide_buf first = {.data = (char *)data, .len = SIZE / 3}, empty = {.data = NULL},
                    last = {.data = (char *)data + SIZE / 3, .len = SIZE - SIZE / 3};
    const struct tide_buf *parts[] = {&first, &empty, &last};
    assert_int_equal(tide_gzip_write(file, parts, 3, NULL), 0);
    assert_int_equal(fflush(file), 0);
    rewind(file);
    gzFile reader = gzdopen(dup(fileno(file)), "r");
    assert_int_equal(gzread(reader, back, SIZE + 1), SIZE);
    assert_memory_equal(back, data, SIZE);
    assert_int_equal(gzclose(reader), Z_OK);
    fclose(file);
    free(data);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_varints_and_zero_is_left_out),
        cmocka_unit_test(texts_and_messages_carry_their_length),
        cmocka_unit_test(lists_are_packed_with_their_zeros),
        cmocka_unit_test(a_message_that_did_not_fit_is_not_passed_on_as_whole),
        cmocka_unit_test(what_is_compressed_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
