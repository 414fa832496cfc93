/*
 * Codes of eight bits: each stands for what the published map says, and each number gets the nearest one.
 */
#include "rt/cpu/cpu_dynamic8.h"
#include "rt/dynamic8.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { CODES = 256 };

/* All in order: between the ends are the means of neighbours among 2^i + 1 points at equal distances from 0.1
 * to 1, for each of seven decades. */
static void map_as_published(double map[CODES], bool is_signed)
{
    int count = 0;
    for (int i = 0; i < 7; i++) {
        int pieces = 1 << (is_signed ? i : i + 1);
        for (int k = 0; k < pieces; k++) {
            double from = 0.1 + 0.9 * k / pieces, to = 0.1 + 0.9 * (k + 1) / pieces;
            double number = pow(10, i - 6) * (from + to) / 2;
            map[count++] = number;
            if (is_signed)
                map[count++] = -number;
        }
    }
    map[count++] = 0;
    map[count++] = 1;
    assert_int_equal(count, CODES);
    for (int i = 1; i < CODES; i++)
        for (int k = i; k > 0 && map[k] < map[k - 1]; k--) {
            double other = map[k];
            map[k] = map[k - 1];
            map[k - 1] = other;
        }
}

static void codes_stand_for_the_published_numbers(void **state)
{
    (void)state;
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        double map[CODES];
        float numbers[CODES];
        uint8_t codes[CODES];
        map_as_published(map, is_signed);
        for (int i = 0; i < CODES; i++)
            codes[i] = (uint8_t)i;
        for (int count = CODES - 15; count <= CODES; count++) {
            memset(numbers, 0, sizeof numbers);
            tide_dynamic8_decode(numbers, codes, count, 3, is_signed);
            for (int i = 0; i < CODES; i++) {
                double expected = i < count ? 3 * map[i] : 0;
                assert_true(fabs(numbers[i] - expected) <= 0x1p-22 * fabs(expected));
                assert_true(fabs(tide_dynamic8_number(codes[i], is_signed) - map[i]) <=
                            0x1p-50 * fabs(map[i]));
            }
        }
    }
}

static void a_code_is_that_of_its_number(void **state)
{
    (void)state;
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        float numbers[CODES];
        uint8_t codes[CODES], back[CODES];
        for (int i = 0; i < CODES; i++)
            codes[i] = (uint8_t)i;
        for (float absmax = 1e-30F; absmax < 1e30F; absmax *= 7) {
            tide_dynamic8_decode(numbers, codes, CODES, absmax, is_signed);
            tide_dynamic8_encode(back, numbers, CODES, absmax, is_signed);
            assert_memory_equal(codes, back, CODES);
        }
    }
}

/* Whether no code is nearer to x by more than a few roundings. */
static bool is_nearest(uint8_t code, double x, const double map[CODES])
{
    double far = fabs(x - map[code]), room = 0x1p-21 * fabs(x);
    bool below = code == 0 || far <= fabs(x - map[code - 1]) + room;
    return below && (code == CODES - 1 || far <= fabs(x - map[code + 1]) + room);
}

static void nearest_everywhere(const float *x, int count, bool is_signed, const double map[CODES])
{
    uint8_t codes[64];
    tide_dynamic8_encode(codes, x, count, 1, is_signed);
    for (int i = 0; i < count; i++)
        if (!is_nearest(codes[i], x[i], map))
            fail_msg("%.9g has the code %d, which is %.9g", (double)x[i], codes[i], map[codes[i]]);
}

/* Numbers of every size, and on both sides of halfway between neighbours. */
static void a_number_gets_the_nearest_code(void **state)
{
    (void)state;
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        double map[CODES];
        float x[64];
        map_as_published(map, is_signed);
        for (int i = 0; i + 1 < CODES; i++) {
            float middle = (float)((map[i] + map[i + 1]) / 2);
            for (int k = 0; k < 63; k++)
                x[k] = middle * (1 + (float)(k - 31) * 0x1p-20F);
            nearest_everywhere(x, 63, is_signed, map);
        }
        int count = 0;
        for (float size = 1; size > 1e-12F; size *= 0.9997F) {
            x[count] = is_signed && count % 2 ? -size : size;
            if (++count == 64)
                nearest_everywhere(x, count, is_signed, map);
            count %= 64;
        }
        const float ends[] = {0, is_signed ? -0.0F : 0, 1, is_signed ? -1 : 1, 1e-38F, 1e-45F};
        nearest_everywhere(ends, sizeof ends / sizeof *ends, is_signed, map);
    }
}

static void nothing_is_encoded_as_nothing(void **state)
{
    (void)state;
    float zeros[40] = {0}, numbers[40];
    uint8_t codes[40];
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        tide_dynamic8_encode(codes, zeros, 40, 0, is_signed);
        tide_dynamic8_decode(numbers, codes, 40, 0, is_signed);
        for (int i = 0; i < 40; i++) {
            assert_int_equal(codes[i], is_signed ? 127 : 0);
            assert_true(numbers[i] == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_stand_for_the_published_numbers),
        cmocka_unit_test(a_code_is_that_of_its_number),
        cmocka_unit_test(a_number_gets_the_nearest_code),
        cmocka_unit_test(nothing_is_encoded_as_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
