/*
 * kinds.h - the kinds of marks and of call sites, one list each: the numbers used in recordings and in the
 * shared memory of a tracked process, and the words that people read. Only names, because it is compiled into
 * other people's programs too.
 */
#ifndef TIDE_KINDS_H
#define TIDE_KINDS_H

/* clang-format off */
#define TIDE_MARK_LIST(KIND)                                                                                 \
    KIND(STEP, 1, "step")               /* number = step */                                                  \
    KIND(EPOCH, 2, "epoch")             /* number = epoch */                                                 \
    KIND(PHASE_BEGIN, 3, "phase begin") /* name */                                                           \
    KIND(PHASE_END, 4, "phase end")     /* name */                                                           \
    KIND(ITEMS, 5, "items")             /* number = total of items seen so far */                            \
    KIND(GAUGE, 6, "gauge")             /* name, number = bytes */

#define TIDE_SITE_LIST(KIND)                                                                                 \
    KIND(MALLOC, 1, "malloc")                                                                                \
    KIND(MMAP, 2, "mmap")     /* mappings made by the program, not those of the C library's malloc */        \
    KIND(CUDA, 3, "cuda")     /* device memory from the driver, without what tensors take of it */           \
    KIND(POOL, 4, "pool")     /* reported by the program for a pool of its own */                            \
    KIND(TENSOR, 5, "tensor") /* device memory that PyTorch's pool hands out */
/* clang-format on */

#define TIDE_KIND_OF_MARK(name, number, word) TIDE_MARK_##name = (number),
#define TIDE_KIND_OF_SITE(name, number, word) TIDE_SITE_##name = (number),
enum tide_mark_kind { TIDE_MARK_LIST(TIDE_KIND_OF_MARK) TIDE_MARK_KINDS };
enum tide_site_kind { TIDE_SITE_LIST(TIDE_KIND_OF_SITE) TIDE_SITE_KINDS };

#define TIDE_KIND_WORD(name, number, word) [number] = (word),                  /* in a table of words */
#define TIDE_KIND_SQL(name, number, word)  " WHEN " #number " THEN '" word "'" /* in an SQL expression */

#endif
