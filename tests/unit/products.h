/*
 * products.h - matrix products for tests: the library's where it is wanted and the processor has the type.
 */
#ifndef TIDE_TEST_PRODUCTS_H
#define TIDE_TEST_PRODUCTS_H

#include "rt/matmul.h"

#include <stdlib.h>

/* The leak checker's scan of threads that a library opened later has made crashes in the checker itself. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

/* Caller frees. */
static inline struct tide_matmuls *new_products(enum tide_dtype compute, bool plain)
{
    struct tide_matmuls *made;
    if (tide_matmuls_new(plain, &made, NULL))
        abort();
    if (tide_matmuls_can(made, compute))
        return made;
    tide_matmuls_free(made);
    return new_products(compute, true);
}

#endif
