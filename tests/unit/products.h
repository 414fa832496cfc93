/*
 * products.h - matrix products for tests.
 */
#ifndef TIDE_TEST_PRODUCTS_H
#define TIDE_TEST_PRODUCTS_H

#include "rt/cpu/matmul.h"

#include <stdlib.h>

/* Caller frees. */
static inline struct tide_matmuls *new_products(bool is_reference)
{
    struct tide_matmuls *made;
    if (tide_matmuls_new(is_reference, &made, NULL))
        abort();
    return made;
}

#endif
