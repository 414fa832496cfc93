/*
 * Rows between their types: int8 by blocks against its definition, number by number, at every length a block
 * can end at, and what cannot be stored.
 */
#include "convert_rows.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void *room_for(enum tide_dtype dtype, int64_t rows, int64_t columns)
{
    void *room = malloc((size_t)rows * tide_row_bytes(dtype, columns)); /* not a byte more */
    assert_non_null(room);
    return room;
}

static float *numbers(int64_t count, unsigned seed)
{
    float *made = room_for(TIDE_F32, 1, count);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        made[i] = (float)(int)(seed >> 8) / (1 << 23) - 1;
    }
    return made;
}

static const char *row_at(const void *rows, enum tide_dtype dtype, int64_t columns, int64_t row)
{
    return (const char *)rows + (size_t)row * tide_row_bytes(dtype, columns);
}

static void a_row_has_room_for_numbers_and_scales(void **state)
{
    static const int64_t columns_and_bytes[][2] = {{0, 0},   {1, 8},   {4, 8},   {5, 12},    {63, 68},
                                                   {64, 68}, {65, 76}, {66, 76}, {128, 136}, {768, 816}};
    (void)state;
    for (size_t i = 0; i < sizeof columns_and_bytes / sizeof *columns_and_bytes; i++) {
        int64_t columns = columns_and_bytes[i][0];
        assert_int_equal(tide_row_bytes(TIDE_I8, columns), columns_and_bytes[i][1]);
        assert_int_equal(tide_row_bytes(TIDE_F32, columns), 4 * columns);
        assert_int_equal(tide_row_bytes(TIDE_BF16, columns), 2 * columns);
        assert_int_equal(tide_row_bytes(TIDE_I32, columns), 4 * columns);
    }
}

static float largest_of(const float *x, int64_t count)
{
    float largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    return largest;
}

static void is_quantized(const char *row, const float *from, int64_t columns)
{
    const int8_t *whole = (const int8_t *)row;
    const float *scales = (const float *)(const void *)(row + tide_row_scales(columns));
    for (int64_t i = 0; i < columns; i++) {
        int64_t block = i / TIDE_BLOCK * TIDE_BLOCK,
                count = columns - block < TIDE_BLOCK ? columns - block : TIDE_BLOCK;
        float scale = largest_of(from + block, count) / 127;
        assert_true(scales[i / TIDE_BLOCK] == scale);
        assert_int_equal(whole[i], (int)nearbyintf(from[i] / scale));
        double read = tide_row_number(row, TIDE_I8, columns, i);
        assert_true(read == (float)whole[i] * scale);
        assert_true(fabs(read - from[i]) <= 0.5001 * scale);
    }
    for (size_t i = (size_t)columns; i < tide_row_scales(columns); i++)
        assert_int_equal(row[i], 0);
}

static const int64_t lengths[] = {1, 2, 3, 4, 31, 63, 64, 65, 127, 128, 130, 511, 512, 700, 1100};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void int8_is_the_nearest_multiple_of_a_scale(void **state)
{
    enum { ROWS = 5 };
    (void)state;
    for (int i = 0; i < LENGTHS; i++) {
        int64_t columns = lengths[i];
        float *from = numbers(ROWS * columns, (unsigned)i);
        char *to = room_for(TIDE_I8, ROWS, columns);
        memset(to, 0x55, ROWS * tide_row_bytes(TIDE_I8, columns));
        convert_rows(to, TIDE_I8, from, TIDE_F32, ROWS, columns);
        for (int64_t row = 0; row < ROWS; row++)
            is_quantized(row_at(to, TIDE_I8, columns, row), from + row * columns, columns);
        free(from);
        free(to);
    }
}

static void ties_go_to_the_even_number(void **state)
{
    static const float from[] = {127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 126.5F, -126.5F, -127};
    static const int should[] = {127, 0, 2, 2, 0, -2, -2, 126, -126, -127};
    enum { COUNT = sizeof from / sizeof *from };
    _Alignas(float) int8_t to[64];
    (void)state;
    tide_rows_convert_here(to, TIDE_I8, from, TIDE_F32, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(to[i], should[i]);
}

/* A block that is all 0, one whose scale would be below the least f32, one whose scale is coarse. */
static void small_blocks_stay_small(void **state)
{
    enum { COLUMNS = 3 * TIDE_BLOCK };
    const float least = 0x1p-149F;
    float from[COLUMNS] = {0}, back[COLUMNS];
    _Alignas(float) char to[256];
    (void)state;
    from[TIDE_BLOCK + 5] = -50 * least;
    from[2 * TIDE_BLOCK] = 150 * least;
    from[2 * TIDE_BLOCK + 1] = -100 * least;
    tide_rows_convert_here(to, TIDE_I8, from, TIDE_F32, COLUMNS);
    tide_rows_convert_here(back, TIDE_F32, to, TIDE_I8, COLUMNS);
    const float *scales = (const float *)(const void *)(to + tide_row_scales(COLUMNS));
    assert_true(scales[0] == 0);
    assert_true(scales[1] == 0);
    assert_true(scales[2] == least);
    for (int i = 0; i < COLUMNS; i++)
        assert_true(back[i] == (i == 2 * TIDE_BLOCK       ? 127 * least
                                : i == 2 * TIDE_BLOCK + 1 ? -100 * least
                                                          : 0));
}

static void what_cannot_be_stored_reads_as_nan(void **state)
{
    enum { COLUMNS = 4 * TIDE_BLOCK + 3 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    (void)state;
    for (int i = 0; i < 3; i++) {
        float *from = numbers(COLUMNS, 7), back[COLUMNS];
        tide_bf16 half[COLUMNS];
        _Alignas(float) char to[512];
        from[TIDE_BLOCK + 7 * i] = from[COLUMNS - 1] = bad[i];
        tide_rows_convert_here(to, TIDE_I8, from, TIDE_F32, COLUMNS);
        tide_rows_convert_here(back, TIDE_F32, to, TIDE_I8, COLUMNS);
        tide_rows_convert_here(half, TIDE_BF16, to, TIDE_I8, COLUMNS);
        for (int j = 0; j < COLUMNS; j++) {
            bool is_bad = j / TIDE_BLOCK == 1 || j / TIDE_BLOCK == 4;
            assert_int_equal(isnan(back[j]) != 0, is_bad);
            assert_int_equal(isnan(tide_from_bf16(half[j])) != 0, is_bad);
            assert_int_equal(isnan(tide_row_number(to, TIDE_I8, COLUMNS, j)) != 0, is_bad);
        }
        free(from);
    }
}

/* From and to every type, as number by number. */
static void conversions_are_those_of_each_number(void **state)
{
    enum { ROWS = 40, TYPES = 3 };
    static const enum tide_dtype types[TYPES] = {TIDE_F32, TIDE_BF16, TIDE_I8};
    (void)state;
    for (int which = 0; which < TYPES * TYPES * LENGTHS; which++) {
        enum tide_dtype a = types[which % TYPES], b = types[which / TYPES % TYPES];
        int64_t columns = lengths[which / TYPES / TYPES];
        float *made = numbers(ROWS * columns, (unsigned)which);
        void *from = room_for(a, ROWS, columns), *to = room_for(b, ROWS, columns),
             *wide = room_for(TIDE_F32, 1, columns), *again = room_for(b, 1, columns);
        convert_rows(from, a, made, TIDE_F32, ROWS, columns);
        convert_rows(to, b, from, a, ROWS, columns);
        for (int64_t row = 0; row < ROWS; row++) {
            const char *in = row_at(from, a, columns, row), *out = row_at(to, b, columns, row);
            for (int64_t i = 0; i < columns; i++)
                tide_number_set(wide, TIDE_F32, i, tide_row_number(in, a, columns, i));
            tide_rows_convert_here(again, b, a == b ? (const void *)in : wide, a == b ? a : TIDE_F32,
                                   columns);
            assert_memory_equal(out, again, tide_row_bytes(b, columns));
            for (int64_t i = 0; b == TIDE_BF16 && i < columns; i++)
                assert_int_equal(((const tide_bf16 *)(const void *)out)[i], tide_to_bf16(((float *)wide)[i]));
        }
        free(made), free(from), free(to), free(wide), free(again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_room_for_numbers_and_scales),
        cmocka_unit_test(int8_is_the_nearest_multiple_of_a_scale),
        cmocka_unit_test(ties_go_to_the_even_number),
        cmocka_unit_test(small_blocks_stay_small),
        cmocka_unit_test(what_cannot_be_stored_reads_as_nan),
        cmocka_unit_test(conversions_are_those_of_each_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
