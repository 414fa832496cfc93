/*
 * test_rt_numbers.c - what operators are made of: exponentials, and rounding to bf16.
 */
#include "rt/cpu/inner_loops.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

/* By one unit in the last place, 2^-23 of the result: e^x as inner_loops.h promises, and a little more for a
 * compiler that rounds each product; tanh, which goes through e^2x, by that of 1. */
static void exponentials_are_right_to_the_last_places(void **state)
{
    (void)state;
    double worst = 0, worst_tanh = 0;
    for (float x = -87.0F; x < 88.0F; x += 0.00137F)
        worst = fmax(worst, fabs(tide_exp(x) / exp((double)x) - 1));
    for (float x = -12.0F; x < 12.0F; x += 0.00037F)
        worst_tanh = fmax(worst_tanh, fabs(tide_tanh(x) - tanh((double)x)));
    if (!(worst < 1.6 / (1 << 23) && worst_tanh < 1.6 / (1 << 23)))
        fail_msg("e^x is off by %g, tanh by %g units", worst * (1 << 23), worst_tanh * (1 << 23));
    assert_true(tide_exp(-INFINITY) < 1e-37F && tide_exp(INFINITY) > 1e38F && isnan(tide_exp(NAN)));
}

/* Every bf16 comes back as it is; what lies between two goes to the nearer, a tie to the even one. */
static void rounding_to_bf16_is_to_the_nearest(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 0x7f80; i++) {
        float low = tide_from_bf16((tide_bf16)i), high = tide_from_bf16((tide_bf16)(i + 1));
        float tie = i + 1 < 0x7f80 ? low + (high - low) / 2 : low;
        assert_int_equal(tide_to_bf16(low), i);
        assert_int_equal(tide_to_bf16(-low), 0x8000 | i);
        if (i + 1 >= 0x7f80)
            continue;
        assert_int_equal(tide_to_bf16(tie), i + (i & 1));
        assert_int_equal(tide_to_bf16(nextafterf(tie, 0)), i);
        assert_int_equal(tide_to_bf16(nextafterf(tie, INFINITY)), i + 1);
    }
    assert_true(isnan(tide_from_bf16(tide_to_bf16(NAN))) && isnan(tide_from_bf16(tide_to_bf16(-NAN))));
    assert_true(isinf(tide_from_bf16(tide_to_bf16(INFINITY))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponentials_are_right_to_the_last_places),
        cmocka_unit_test(rounding_to_bf16_is_to_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
