/*
 * safetensors.h - tensors in a file, by name: the format of Hugging Face.
 *
 * Eight bytes of header length, a JSON header, then the numbers. A file comes from strangers: every length,
 * product and range is checked before it is used, parts may not overlap nor leave holes, and nothing is
 * trusted beyond the size of the file.
 *
 * Reading: tide_safetensors_open -> _find, _read ... -> _close. The file is mapped, so that opening costs no
 * memory. Writing: one call, from memory that the caller holds; the file is there whole or not at all.
 */
#ifndef TIDE_SAFETENSORS_H
#define TIDE_SAFETENSORS_H

#include "base/err.h"
#include "rt/dtype.h"
#include "rt/graph.h"

struct tide_safetensor {
    char name[128]; /* longer names are refused */
    char type[8];   /* as in the file: "F32", "BF16" ... */
    int rank;
    int64_t dims[TIDE_RANK];
    size_t begin, bytes; /* of its numbers, from the start of the file */
};

struct tide_safetensors {
    const char *map;
    size_t map_bytes;
    struct tide_safetensor *tensors;
    size_t count;
    char metadata[4096]; /* "key=value\n" ..., as far as it fits */
};

int tide_safetensors_open(struct tide_safetensors *file, const char *path, struct tide_err *err);
void tide_safetensors_close(struct tide_safetensors *file);

/* The same from memory, which must stay; for tests and fuzzing. _close then unmaps nothing. */
int tide_safetensors_parse(struct tide_safetensors *file, const char *bytes, size_t count,
                           struct tide_err *err);

/* NULL when there is none. Borrowed. */
const struct tide_safetensor *tide_safetensors_find(const struct tide_safetensors *file, const char *name);

/* Its numbers as f32. F32, F16 and BF16 are read; other types are refused. */
int tide_safetensors_read(const struct tide_safetensors *file, const struct tide_safetensor *tensor,
                          float *to, struct tide_err *err);

/* The value of a key of the metadata; -1 when it is not there or does not fit. */
int tide_safetensors_metadata(const struct tide_safetensors *file, const char *key, char *to, size_t size);

/* One tensor to be written, f32 or i32. */
struct tide_safetensor_source {
    const char *name;
    enum tide_dtype dtype;
    int rank;
    int64_t dims[TIDE_RANK];
    const void *data;
};

/* metadata: pairs of key and value, NULL-terminated; may be NULL. */
int tide_safetensors_write(const char *path, const struct tide_safetensor_source *tensors, size_t count,
                           const char *const *metadata, struct tide_err *err);

#endif
