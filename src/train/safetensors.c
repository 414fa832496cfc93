#include "train/safetensors.h"
#include "rt/cpu/rows.h"
#include "base/descriptors.h"
#include "base/infile.h"
#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The format allows 100 MB of header. Models of this kind need far less: GPT-2 has 15 kB. */
enum { HEADER_MOST = 16 << 20, STRETCH = 1 << 14 };

static const struct {
    const char *name;
    size_t bytes;
} types[] = {{"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2},    {"I64", 8},
             {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U64", 8},     {"U32", 4},
             {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

static int bad(struct tide_err *err, const char *why)
{
    return tide_err_set(err, "this is not a safetensors file: %s", why);
}

static int bad_tensor(struct tide_err *err, const char *name, const char *why)
{
    return tide_err_set(err, "tensor '%s' of this safetensors file %s", TIDE_SHOWN(name, 96), why);
}

static size_t bytes_of_type(const char *type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, type))
            return types[i].bytes;
    return 0;
}

static int take_shape(struct tide_safetensor *to, const json_t *shape, size_t *ret_bytes,
                      struct tide_err *err)
{
    size_t bytes = bytes_of_type(to->type), rank = json_array_size(shape);
    if (!json_is_array(shape) || rank > TIDE_RANK)
        return bad_tensor(err, to->name, "has no shape that can be read");
    for (size_t i = 0; i < rank; i++) {
        json_int_t dim = json_integer_value(json_array_get(shape, i));
        if (!json_is_integer(json_array_get(shape, i)) || dim < 0 ||
            __builtin_mul_overflow(bytes, (size_t)dim, &bytes))
            return bad_tensor(err, to->name, "has an impossible shape");
        to->dims[i] = dim;
    }
    to->rank = (int)rank;
    *ret_bytes = bytes;
    return 0;
}

static int take_tensor(struct tide_safetensor *to, const char *name, const json_t *entry, size_t data_at,
                       size_t data_bytes, struct tide_err *err)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    size_t expected = 0;
    *to = (struct tide_safetensor){0};
    if (strlen(name) >= sizeof to->name)
        return bad_tensor(err, name, "has a name that is too long");
    memcpy(to->name, name, strlen(name) + 1);
    if (!type || strlen(type) >= sizeof to->type || !bytes_of_type(type))
        return bad_tensor(err, name, "has numbers of an unknown type");
    memcpy(to->type, type, strlen(type) + 1);
    if (take_shape(to, json_object_get(entry, "shape"), &expected, err))
        return -1;
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return bad_tensor(err, name, "does not say where its numbers are");
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin || (size_t)end > data_bytes)
        return bad_tensor(err, name, "lies outside the file");
    if ((size_t)(end - begin) != expected)
        return bad_tensor(err, name, "does not have the size that its shape says");
    to->begin = data_at + (size_t)begin;
    to->bytes = expected;
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct tide_safetensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tide_safetensor *)a)->name, ((const struct tide_safetensor *)b)->name);
}

static int check_cover(struct tide_safetensors *file, size_t data_at, struct tide_err *err)
{
    size_t at = data_at;
    qsort(file->tensors, file->count, sizeof *file->tensors, by_place);
    for (size_t i = 0; i < file->count; i++) {
        if (file->tensors[i].begin != at)
            return bad_tensor(err, file->tensors[i].name,
                              file->tensors[i].begin < at ? "overlaps another" : "leaves a hole before it");
        at += file->tensors[i].bytes;
    }
    if (at != file->size)
        return bad(err, "there is more in it than its tensors");
    qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
    return 0;
}

static int take_header(struct tide_safetensors *file, json_t *root, size_t data_at, struct tide_err *err)
{
    const char *name;
    json_t *entry;
    size_t most = json_object_size(root);
    if (!json_is_object(root))
        return bad(err, "its header is not an object");
    file->tensors = calloc(most + 1, sizeof *file->tensors);
    if (!file->tensors)
        return tide_err_set(err, "out of memory");
    json_object_foreach(root, name, entry)
    {
        if (!strcmp(name, "__metadata__"))
            continue;
        if (take_tensor(&file->tensors[file->count], name, entry, data_at, file->size - data_at, err))
            return -1;
        file->count++;
    }
    return check_cover(file, data_at, err);
}

/* Reads the header's length from the first eight bytes. */
static int take_length(const uint8_t *bytes, size_t size, size_t *ret_header, struct tide_err *err)
{
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--)
        header = header << 8 | bytes[i];
    if (header > HEADER_MOST || header > size - 8)
        return bad(err, "its header does not fit into it");
    *ret_header = (size_t)header;
    return 0;
}

static int parse_header(struct tide_safetensors *file, const char *text, size_t header, struct tide_err *err)
{
    if (header < 1 || text[0] != '{')
        return bad(err, "its header is not an object");
    json_error_t why;
    json_t *root = json_loadb(text, header, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return bad(err, "its header is not valid JSON");
    int status = take_header(file, root, 8 + header, err);
    json_decref(root);
    if (status) {
        free(file->tensors);
        file->tensors = NULL;
        file->count = 0;
    }
    return status;
}

/* Reads bytes of the file; a file that became shorter is an error like any other. */
static int fetch(const struct tide_safetensors *file, size_t at, void *to, size_t count, struct tide_err *err)
{
    ssize_t got = tide_read_at(file->fd, to, count, at);
    if (got == (ssize_t)count)
        return 0;
    return tide_err_set(err, "cannot read it: %s", got < 0 ? strerror(errno) : "it became shorter");
}

static int read_header(struct tide_safetensors *file, struct tide_err *err)
{
    uint8_t length[8];
    size_t header = 0;
    if (file->size < sizeof length)
        return bad(err, "it is too short");
    if (fetch(file, 0, length, sizeof length, err) || take_length(length, file->size, &header, err))
        return -1;
    char *text = malloc(header + 1);
    if (!text)
        return tide_err_set(err, "out of memory");
    int status = fetch(file, sizeof length, text, header, err) || parse_header(file, text, header, err);
    free(text);
    return status ? -1 : 0;
}

int tide_safetensors_open(struct tide_safetensors *file, const char *path, struct tide_err *err)
{
    struct stat info;
    const char *shown = TIDE_SHOWN(path, 256);
    *file = (struct tide_safetensors){.fd = tide_infile_open(path, &info)};
    if (file->fd < 0)
        return tide_err_set(err, "cannot open '%s': %s", shown,
                            errno == ENXIO ? "it is not a regular file" : strerror(errno));
    file->size = (size_t)info.st_size;
    if (!read_header(file, err))
        return 0;
    tide_safetensors_close(file);
    return tide_err_wrap(err, "%s", shown);
}

void tide_safetensors_close(struct tide_safetensors *file)
{
    if (file->fd >= 0)
        close(file->fd);
    for (size_t i = 0; i < file->shard_count; i++)
        tide_safetensors_close(&file->shards[i]);
    free(file->shards);
    free(file->tensors);
    *file = (struct tide_safetensors){.fd = -1};
}

static int against_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const struct tide_safetensor *)tensor)->name);
}

const struct tide_safetensor *tide_safetensors_find(const struct tide_safetensors *file, const char *name)
{
    return file->count ? bsearch(name, file->tensors, file->count, sizeof *file->tensors, against_name)
                       : NULL;
}

static float from_half(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    float value = exponent == 0 ? (float)mantissa / 16777216.0F
                  : exponent == 31
                      ? (mantissa ? __builtin_nanf("") : __builtin_inff())
                      : (float)(mantissa + 1024) * (exponent > 25 ? (float)(1 << (exponent - 25))
                                                                  : 1.0F / (float)(1 << (25 - exponent)));
    return half >> 15 ? -value : value;
}

/* Reads a tensor of F32, F16 or BF16 as f32. */
static int read_wide(const struct tide_safetensors *file, const struct tide_safetensor *tensor, float *to,
                     struct tide_err *err)
{
    if (!strcmp(tensor->type, "F32"))
        return fetch(file, tensor->begin, to, tensor->bytes, err);
    bool brain = !strcmp(tensor->type, "BF16");
    uint16_t halves[STRETCH / sizeof(uint16_t)];
    for (size_t at = 0; at < tensor->bytes; at += sizeof halves) {
        size_t bytes = tensor->bytes - at < sizeof halves ? tensor->bytes - at : sizeof halves;
        if (fetch(file, tensor->begin + at, halves, bytes, err))
            return -1;
        for (size_t i = 0; i < bytes / sizeof *halves; i++)
            *to++ = brain ? tide_from_bf16(halves[i]) : from_half(halves[i]);
    }
    return 0;
}

static const char *type_of(enum tide_dtype dtype)
{
    static const char *const names[] = {
        [TIDE_F32] = "F32", [TIDE_BF16] = "BF16", [TIDE_I32] = "I32", [TIDE_I8] = "I8", [TIDE_U8] = "U8"};
    return names[dtype];
}

bool tide_safetensors_reads(const struct tide_safetensor *tensor, enum tide_dtype dtype)
{
    bool is_real =
        !strcmp(tensor->type, "F32") || !strcmp(tensor->type, "F16") || !strcmp(tensor->type, "BF16");
    bool wants_real = dtype == TIDE_F32 || dtype == TIDE_BF16 || dtype == TIDE_I8;
    return wants_real ? is_real : !strcmp(tensor->type, type_of(dtype));
}

/* In pieces: of int8 rows, which are allocated; of other types some numbers, which are not. */
static int read_narrow(const struct tide_safetensors *file, const struct tide_safetensor *tensor,
                       enum tide_dtype dtype, char *to, struct tide_err *err)
{
    enum { NUMBERS = STRETCH / sizeof(float) };
    float room[NUMBERS];
    size_t each = bytes_of_type(tensor->type), end = tensor->begin + tensor->bytes,
           columns = tensor->rank ? (size_t)tensor->dims[tensor->rank - 1] : 1,
           most = dtype == TIDE_I8 ? columns : NUMBERS;
    float *wide = most > NUMBERS ? malloc(most * sizeof *wide) : room;
    int status = wide ? 0 : tide_err_set(err, "out of memory");
    struct tide_safetensor piece = *tensor;
    for (; !status && piece.begin < end; piece.begin += piece.bytes) {
        piece.bytes = end - piece.begin < most * each ? end - piece.begin : most * each;
        int64_t count = (int64_t)(piece.bytes / each);
        status = read_wide(file, &piece, wide, err);
        if (!status)
            tide_rows_convert_here(to, dtype, wide, TIDE_F32, count);
        to += tide_row_bytes(dtype, count);
    }
    if (wide != room)
        free(wide);
    return status;
}

int tide_safetensors_read(const struct tide_safetensors *file, const struct tide_safetensor *tensor,
                          enum tide_dtype dtype, void *to, struct tide_err *err)
{
    if (file->shards)
        file = &file->shards[tensor->shard];
    if (!tide_safetensors_reads(tensor, dtype))
        return bad_tensor(err, tensor->name, "has numbers of another type");
    if (!strcmp(tensor->type, type_of(dtype)))
        return fetch(file, tensor->begin, to, tensor->bytes, err);
    return dtype == TIDE_F32 ? read_wide(file, tensor, to, err) : read_narrow(file, tensor, dtype, to, err);
}

struct tide_safetensor tide_safetensor_rows(const struct tide_safetensor *tensor, int64_t first, int64_t rows)
{
    struct tide_safetensor some = *tensor;
    int64_t columns = tensor->rank ? tensor->dims[tensor->rank - 1] : 1;
    size_t each = (size_t)columns * bytes_of_type(tensor->type);
    some.rank = 2;
    some.dims[0] = rows;
    some.dims[1] = columns;
    some.begin += (size_t)first * each;
    some.bytes = (size_t)rows * each;
    return some;
}

/* ---- writing */

static size_t source_bytes(const struct tide_safetensor_source *t)
{
    size_t bytes = tide_dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++)
        bytes *= (size_t)t->dims[i];
    return bytes;
}

static void describe(struct tide_json *json, const struct tide_safetensor_source *t, size_t at)
{
    tide_json_object(json, t->name);
    tide_json_text(json, "dtype", type_of(t->dtype));
    tide_json_array(json, "shape");
    for (int k = 0; k < t->rank; k++)
        tide_json_integer(json, NULL, t->dims[k]);
    tide_json_end(json);
    tide_json_array(json, "data_offsets");
    tide_json_integer(json, NULL, (int64_t)at);
    tide_json_integer(json, NULL, (int64_t)(at + source_bytes(t)));
    tide_json_end(json);
    tide_json_end(json);
}

static void write_header(FILE *out, int count, tide_safetensor_at *at, void *context)
{
    struct tide_json json;
    struct tide_safetensor_source source;
    size_t place = 0;
    tide_json_init(&json, out, true);
    tide_json_object(&json, NULL);
    tide_json_object(&json, "__metadata__");
    tide_json_text(&json, "format", "pt"); /* transformers requires it */
    tide_json_end(&json);
    for (int i = 0; i < count; i++)
        if (at(context, i, &source)) {
            describe(&json, &source, place);
            place += source_bytes(&source);
        }
    tide_json_end(&json);
}

static size_t header_bytes(int count, tide_safetensor_at *at, void *context)
{
    struct tide_durable counter;
    if (tide_durable_open(&counter, -1, NULL))
        return 0;
    write_header(counter.out, count, at, context);
    return tide_durable_close(&counter) ? 0 : (size_t)counter.bytes;
}

static void write_data(struct tide_durable *file, const struct tide_safetensor_source *source,
                       tide_safetensor_read *read, void *context)
{
    char window[STRETCH];
    for (size_t at = 0, count, all = source_bytes(source); at < all; at += count) {
        count = all - at < sizeof window ? all - at : sizeof window;
        read(context, source, at, window, count);
        tide_durable_put(file, window, count);
    }
}

void tide_safetensors_write(struct tide_durable *file, int count, tide_safetensor_at *at,
                            tide_safetensor_read *read, void *context)
{
    struct tide_safetensor_source source;
    size_t header = header_bytes(count, at, context);
    if (!header) {
        file->error = ENOMEM;
        return;
    }
    /* Numbers start at a multiple of eight; the format allows the header to end with spaces for that. */
    size_t padded = (header + 7) / 8 * 8;
    for (int i = 0; i < 8; i++)
        fputc((uint8_t)(padded >> 8 * i), file->out);
    write_header(file->out, count, at, context);
    for (size_t i = header; i < padded; i++)
        fputc(' ', file->out);
    for (int i = 0; i < count; i++)
        if (at(context, i, &source)) {
            if (source.data)
                tide_durable_put(file, source.data, source_bytes(&source));
            else
                write_data(file, &source, read, context);
        }
}
