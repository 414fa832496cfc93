#include "train/safetensors.h"
#include "base/json.h"
#include "base/outfile.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_MOST = 100000000, TENSORS_MOST = 1 << 20 };

static const struct {
    const char *name;
    size_t bytes;
} types[] = {{"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2},    {"I64", 8},
             {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U64", 8},     {"U32", 4},
             {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

static int bad(struct tide_err *err, const char *why)
{
    return tide_err_set(err, "this is no safetensors file: %s", why);
}

static int bad_tensor(struct tide_err *err, const char *name, const char *why)
{
    char shown[96];
    return tide_err_set(err, "tensor '%s' of this safetensors file %s",
                        tide_text_escape(name, strlen(name), shown, sizeof shown), why);
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
        return bad_tensor(err, name, "has too long a name");
    memcpy(to->name, name, strlen(name) + 1);
    if (!type || strlen(type) >= sizeof to->type || !bytes_of_type(type))
        return bad_tensor(err, name, "has numbers of no known type");
    memcpy(to->type, type, strlen(type) + 1);
    if (take_shape(to, json_object_get(entry, "shape"), &expected, err))
        return -1;
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return bad_tensor(err, name, "does not say where its numbers are");
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin || (size_t)end > data_bytes)
        return bad_tensor(err, name, "lies outside the file");
    if ((size_t)(end - begin) != expected)
        return bad_tensor(err, name, "has another size than its shape says");
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
    return at == file->map_bytes ? 0 : bad(err, "there is more in it than its tensors");
}

static void take_metadata(struct tide_safetensors *file, json_t *metadata)
{
    const char *key;
    json_t *value;
    size_t used = 0;
    json_object_foreach(metadata, key, value)
    {
        const char *text = json_string_value(value);
        size_t need = text ? strlen(key) + strlen(text) + 2 : 0;
        if (!text || strpbrk(key, "=\n") || strchr(text, '\n') || used + need >= sizeof file->metadata)
            continue;
        used += (size_t)snprintf(file->metadata + used, sizeof file->metadata - used, "%s=%s\n", key, text);
    }
}

static int take_header(struct tide_safetensors *file, json_t *root, size_t data_at, struct tide_err *err)
{
    const char *name;
    json_t *entry;
    size_t most = json_object_size(root);
    if (!json_is_object(root) || most > TENSORS_MOST)
        return bad(err, "its header is no object");
    file->tensors = calloc(most + 1, sizeof *file->tensors);
    if (!file->tensors)
        return tide_err_set(err, "out of memory");
    json_object_foreach(root, name, entry)
    {
        if (!strcmp(name, "__metadata__")) {
            take_metadata(file, entry);
            continue;
        }
        if (take_tensor(&file->tensors[file->count], name, entry, data_at, file->map_bytes - data_at, err))
            return -1;
        file->count++;
    }
    return check_cover(file, data_at, err);
}

int tide_safetensors_parse(struct tide_safetensors *file, const char *bytes, size_t count,
                           struct tide_err *err)
{
    *file = (struct tide_safetensors){.map = bytes, .map_bytes = count};
    uint64_t header = 0;
    if (count < 9)
        return bad(err, "it is too short");
    for (int i = 7; i >= 0; i--)
        header = header << 8 | (uint8_t)bytes[i];
    if (header > HEADER_MOST || header > count - 8 || bytes[8] != '{')
        return bad(err, "its header does not fit into it");
    json_error_t why;
    json_t *root = json_loadb(bytes + 8, (size_t)header, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return bad(err, "its header is no JSON");
    int status = take_header(file, root, 8 + (size_t)header, err);
    json_decref(root);
    if (status) {
        free(file->tensors);
        file->tensors = NULL;
        file->count = 0;
    }
    return status;
}

static int cannot_open(struct tide_err *err, const char *path, int why)
{
    char shown[256];
    return tide_err_set(err, "cannot open '%s': %s",
                        tide_text_escape(path, strlen(path), shown, sizeof shown), strerror(why));
}

int tide_safetensors_open(struct tide_safetensors *file, const char *path, struct tide_err *err)
{
    struct stat info;
    char shown[256];
    *file = (struct tide_safetensors){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cannot_open(err, path, errno);
    if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
        close(fd);
        return cannot_open(err, path, EINVAL);
    }
    void *map =
        info.st_size > 0 ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    int why = info.st_size > 0 ? errno : EINVAL;
    close(fd);
    if (map == MAP_FAILED)
        return cannot_open(err, path, why);
    if (tide_safetensors_parse(file, map, (size_t)info.st_size, err)) {
        munmap(map, (size_t)info.st_size);
        *file = (struct tide_safetensors){0};
        return tide_err_wrap(err, "%s", tide_text_escape(path, strlen(path), shown, sizeof shown));
    }
    return 0;
}

void tide_safetensors_close(struct tide_safetensors *file)
{
    if (file->map)
        munmap((void *)file->map, file->map_bytes);
    free(file->tensors);
    *file = (struct tide_safetensors){0};
}

const struct tide_safetensor *tide_safetensors_find(const struct tide_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (!strcmp(file->tensors[i].name, name))
            return &file->tensors[i];
    return NULL;
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

int tide_safetensors_read(const struct tide_safetensors *file, const struct tide_safetensor *tensor,
                          float *to, struct tide_err *err)
{
    const char *from = file->map + tensor->begin;
    if (!strcmp(tensor->type, "F32")) {
        memcpy(to, from, tensor->bytes);
        return 0;
    }
    bool brain = !strcmp(tensor->type, "BF16");
    if (!brain && strcmp(tensor->type, "F16") != 0)
        return bad_tensor(err, tensor->name, "has numbers that are neither F32, F16 nor BF16");
    for (size_t i = 0; i < tensor->bytes / 2; i++) {
        uint16_t half;
        memcpy(&half, from + 2 * i, sizeof half);
        to[i] = brain ? tide_from_bf16(half) : from_half(half);
    }
    return 0;
}

int tide_safetensors_metadata(const struct tide_safetensors *file, const char *key, char *to, size_t size)
{
    size_t len = strlen(key);
    for (const char *line = file->metadata; *line;) {
        const char *end = strchr(line, '\n');
        if (!strncmp(line, key, len) && line[len] == '=') {
            size_t text = (size_t)(end - line) - len - 1;
            if (text >= size)
                return -1;
            memcpy(to, line + len + 1, text);
            to[text] = '\0';
            return 0;
        }
        line = end + 1;
    }
    return -1;
}

/* ---- writing */

static size_t source_bytes(const struct tide_safetensor_source *t)
{
    size_t bytes = tide_dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++)
        bytes *= (size_t)t->dims[i];
    return bytes;
}

static void write_header(FILE *out, const struct tide_safetensor_source *tensors, size_t count,
                         const char *const *metadata)
{
    struct tide_json json;
    size_t at = 0;
    tide_json_init(&json, out, true);
    tide_json_object(&json, NULL);
    if (metadata) {
        tide_json_object(&json, "__metadata__");
        for (size_t i = 0; metadata[i]; i += 2)
            tide_json_text(&json, metadata[i], metadata[i + 1]);
        tide_json_end(&json);
    }
    for (size_t i = 0; i < count; i++) {
        const struct tide_safetensor_source *t = &tensors[i];
        tide_json_object(&json, t->name);
        tide_json_text(&json, "dtype", t->dtype == TIDE_F32 ? "F32" : t->dtype == TIDE_BF16 ? "BF16" : "I32");
        tide_json_array(&json, "shape");
        for (int k = 0; k < t->rank; k++)
            tide_json_integer(&json, NULL, t->dims[k]);
        tide_json_end(&json);
        tide_json_array(&json, "data_offsets");
        tide_json_integer(&json, NULL, (int64_t)at);
        at += source_bytes(t);
        tide_json_integer(&json, NULL, (int64_t)at);
        tide_json_end(&json);
        tide_json_end(&json);
    }
    tide_json_end(&json);
}

int tide_safetensors_write(const char *path, const struct tide_safetensor_source *tensors, size_t count,
                           const char *const *metadata, struct tide_err *err)
{
    struct tide_outfile file;
    char *header = NULL;
    size_t header_bytes = 0;
    FILE *memory = open_memstream(&header, &header_bytes);
    if (!memory)
        return tide_err_set(err, "out of memory");
    write_header(memory, tensors, count, metadata);
    if (fclose(memory) || tide_outfile_open(&file, path, err)) {
        free(header);
        return -1;
    }
    /* The numbers begin at a multiple of eight; spaces at the header's end are allowed for that. */
    size_t padded = (header_bytes + 7) / 8 * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(padded >> 8 * i);
    fwrite(length, 1, sizeof length, file.out);
    fwrite(header, 1, header_bytes, file.out);
    for (size_t i = header_bytes; i < padded; i++)
        fputc(' ', file.out);
    for (size_t i = 0; i < count; i++)
        fwrite(tensors[i].data, 1, source_bytes(&tensors[i]), file.out);
    free(header);
    return tide_outfile_commit(&file, err);
}
