/*
 * safetensors.h - tensors in a file, by name: the format of Hugging Face.
 *
 * Eight bytes of header length, a JSON header, then the numbers. A file is not trusted: every length, product
 * and range is checked before use and against the size of the file; parts may not overlap or leave holes.
 *
 * Reading: tide_safetensors_open -> _find, _read ... -> _close. Numbers go straight from the file to the
 * caller's memory. Writing: one call, straight from the caller's memory, or a few kilobytes at a time through
 * a callback; nothing is allocated.
 */
#ifndef TIDE_SAFETENSORS_H
#define TIDE_SAFETENSORS_H

#include "base/err.h"
#include "rt/dtype.h"
#include "rt/graph.h"
#include "base/durable.h"

struct tide_safetensor {
    char name[128]; /* longer names are refused */
    char type[8];   /* as in the file: "F32", "BF16" ... */
    int rank;
    int64_t dims[TIDE_RANK];
    size_t begin, bytes; /* of its numbers, from the start of the file */
    size_t shard;        /* which file, if there are several */
};

struct tide_safetensors {
    int fd;                          /* -1: from several files */
    struct tide_safetensors *shards; /* the files if there are several (shards.h); else NULL */
    size_t shard_count;
    size_t size; /* of all of it */
    struct tide_safetensor *tensors;
    size_t count;
};

int tide_safetensors_open(struct tide_safetensors *file, const char *path, struct tide_err *err);
void tide_safetensors_close(struct tide_safetensors *file);

/* Returns NULL if there is none. Borrowed. The tensors are sorted by name. */
const struct tide_safetensor *tide_safetensors_find(const struct tide_safetensors *file, const char *name);

/* True if its numbers can be read as a type: F32, F16 and BF16 as f32, bf16 or int8; others only as their
 * own. */
bool tide_safetensors_reads(const struct tide_safetensor *tensor, enum tide_dtype dtype);

/* Reads its numbers as such a type, row by row as tensors are stored (dtype.h). */
int tide_safetensors_read(const struct tide_safetensors *file, const struct tide_safetensor *tensor,
                          enum tide_dtype dtype, void *to, struct tide_err *err);

/* Returns `rows` rows of a tensor as a tensor. */
struct tide_safetensor tide_safetensor_rows(const struct tide_safetensor *tensor, int64_t first,
                                            int64_t rows);

/* One tensor to be written. */
struct tide_safetensor_source {
    char name[128];
    enum tide_dtype dtype;
    int rank;
    int64_t dims[TIDE_RANK];
    const void *data; /* NULL: it is read from `place` */
    size_t place;
};

/* Fills in tensor number `index`, always the same for the same number; false: skip it. */
typedef bool tide_safetensor_at(void *context, int index, struct tide_safetensor_source *ret_source);

/* Reads bytes of its data, from `at` on. */
typedef void tide_safetensor_read(void *context, const struct tide_safetensor_source *source, size_t at,
                                  void *to, size_t bytes);

/* read may be NULL if all data is in memory. Asks for each number below count three times: for the header's
 * length, for the header, for its data. Errors stay in the file. */
void tide_safetensors_write(struct tide_durable *file, int count, tide_safetensor_at *at,
                            tide_safetensor_read *read, void *context);

#endif
