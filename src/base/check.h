/*
 * check.h - assertions that stay on in every build and print both operands.
 *
 * For programmer errors only. Failures caused by a user, a file or the system are a tide_err.
 */
#ifndef TIDE_CHECK_H
#define TIDE_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define TIDE_CHECK(a, op, b)                                                                                 \
    do {                                                                                                     \
        long long tide_a_ = (long long)(a), tide_b_ = (long long)(b);                                        \
        if (!(tide_a_ op tide_b_)) {                                                                         \
            fprintf(stderr, "tidemark: %s:%d: check failed: %s %s %s (%lld against %lld)\n", __FILE__,       \
                    __LINE__, #a, #op, #b, tide_a_, tide_b_);                                                \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

#define TIDE_CHECK_TRUE(condition)                                                                           \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "tidemark: %s:%d: check failed: %s\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

#endif
