#include "train/shards.h"
#include "base/json_read.h"
#include "base/text.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The largest models today have 200 files. */
enum { MOST_SHARDS = 256, MOST_INDEX = 16 << 20, MOST_NAME = 256 };

struct index {
    char folder[PATH_MAX]; /* with its '/', or empty */
    json_t *root, *map;
    const char *names[MOST_SHARDS]; /* of the files, in order of appearance */
    size_t count;
};

/* True if a name is that of a file next to the index. */
static bool is_plain(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/') && strlen(name) < MOST_NAME;
}

static int take_names(struct index *x, struct tide_err *err)
{
    const char *tensor;
    json_t *value;
    x->map = json_object_get(x->root, "weight_map");
    if (!json_is_object(x->map) || !json_object_size(x->map))
        return tide_err_set(err, "the index has no weight_map");
    json_object_foreach(x->map, tensor, value)
    {
        const char *name = json_string_value(value);
        size_t i = 0;
        if (!name || !is_plain(name))
            return tide_err_set(err, "the index has tensor '%s' in '%s', which is not a file beside it",
                                TIDE_SHOWN(tensor, 96), TIDE_SHOWN(name ? name : "", 96));
        while (i < x->count && strcmp(x->names[i], name) != 0)
            i++;
        if (i == MOST_SHARDS)
            return tide_err_set(err, "the index names more than %d files", MOST_SHARDS);
        if (i == x->count)
            x->names[x->count++] = name;
    }
    return 0;
}

/* Checks that a file has what the index says and nothing else. */
static int check_shard(const struct index *x, size_t number, const struct tide_safetensors *shard,
                       struct tide_err *err)
{
    for (size_t i = 0; i < shard->count; i++) {
        const char *tensor = shard->tensors[i].name;
        const char *where = json_string_value(json_object_get(x->map, tensor));
        if (!where)
            return tide_err_set(err, "'%s' has a tensor '%s' that the index does not name",
                                TIDE_SHOWN(x->names[number], 96), TIDE_SHOWN(tensor, 96));
        if (strcmp(where, x->names[number]) != 0)
            return tide_err_set(err, "'%s' has a tensor '%s' that the index has in '%s'",
                                TIDE_SHOWN(x->names[number], 96), TIDE_SHOWN(tensor, 96),
                                TIDE_SHOWN(where, 96));
    }
    return 0;
}

/* If there are as many tensors as names, and each is in the file of its name, none is missing. */
static int refuse_missing(const struct index *x, const struct tide_safetensors *shards, struct tide_err *err)
{
    const char *tensor;
    json_t *value;
    json_object_foreach(x->map, tensor, value)
    {
        for (size_t i = 0; i < x->count; i++)
            if (!strcmp(x->names[i], json_string_value(value)) && !tide_safetensors_find(&shards[i], tensor))
                return tide_err_set(err, "the index has tensor '%s' in '%s', which has none of that name",
                                    TIDE_SHOWN(tensor, 96), TIDE_SHOWN(x->names[i], 96));
    }
    return tide_err_set(err, "the index and its files have different tensors");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tide_safetensor *)a)->name, ((const struct tide_safetensor *)b)->name);
}

/* Puts all tensors into one list, each with the number of its file. */
static int gather(struct tide_safetensors *file, size_t total, struct tide_err *err)
{
    file->tensors = calloc(total + 1, sizeof *file->tensors);
    if (!file->tensors)
        return tide_err_set(err, "out of memory");
    for (size_t k = 0; k < file->shard_count; k++)
        for (size_t i = 0; i < file->shards[k].count; i++) {
            file->tensors[file->count] = file->shards[k].tensors[i];
            file->tensors[file->count++].shard = k;
        }
    qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
    return 0;
}

static int open_shards(struct index *x, struct tide_safetensors *file, struct tide_err *err)
{
    size_t total = 0;
    char path[PATH_MAX + MOST_NAME];
    file->shards = calloc(x->count, sizeof *file->shards);
    if (!file->shards)
        return tide_err_set(err, "out of memory");
    for (; file->shard_count < x->count; file->shard_count++) {
        struct tide_safetensors *shard = &file->shards[file->shard_count];
        snprintf(path, sizeof path, "%s%s", x->folder, x->names[file->shard_count]);
        if (tide_safetensors_open(shard, path, err))
            return -1;
        total += shard->count;
    }
    for (size_t i = 0; i < x->count; i++)
        if (check_shard(x, i, &file->shards[i], err))
            return -1;
    if (total != json_object_size(x->map))
        return refuse_missing(x, file->shards, err);
    return gather(file, total, err);
}

int tide_shards_open(struct tide_safetensors *file, const char *path, struct tide_err *err)
{
    struct index x = {.root = NULL};
    char name[PATH_MAX];
    int len = snprintf(name, sizeof name, "%s.index.json", path);
    if (!access(path, F_OK) || len >= (int)sizeof name || access(name, F_OK))
        return tide_safetensors_open(file, path, err);
    memcpy(x.folder, path, (size_t)(tide_text_last_part(path) - path));
    *file = (struct tide_safetensors){.fd = -1};
    x.root = tide_json_read(name, MOST_INDEX, "the index", err);
    if (!x.root)
        return -1;
    int status = take_names(&x, err) || open_shards(&x, file, err) ? -1 : 0;
    json_decref(x.root);
    if (!status)
        return 0;
    tide_safetensors_close(file);
    return tide_err_wrap(err, "%s", TIDE_SHOWN(name, 256));
}
