/*
 * products.h - matrix products for tests: the library's where it is wanted and the processor has the type,
 * and never under valgrind, where its generated code reads beyond its own buffers.
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
    if (tide_matmuls_new(plain || getenv("TIDEMARK_VALGRIND") ? TIDE_MATMUL_PLAIN : TIDE_MATMUL_BEST, &made,
                         NULL))
        abort();
    if (tide_matmuls_can(made, compute))
        return made;
    tide_matmuls_free(made);
    return new_products(compute, true);
}

/* The last of the types that tests of whole models go through: bf16 in plain C would take them minutes. */
static inline enum tide_dtype last_type(void)
{
    struct tide_matmuls *fast = new_products(TIDE_F32, false);
    enum tide_dtype last =
        tide_matmuls_fast(fast) && tide_matmuls_can(fast, TIDE_BF16) ? TIDE_BF16 : TIDE_F32;
    tide_matmuls_free(fast);
    return last;
}

#endif
