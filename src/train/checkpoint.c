#include "train/checkpoint.h"
#include "base/text.h"
#include "train/checkpoint_private.h"
#include "base/durable.h"
#include "train/shards.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATE_MOST = 1 << 14, STRETCH = 1 << 16 };

/* ---- names */

void tide_checkpoint_name(int64_t step, bool hidden, char ret_name[static TIDE_CHECKPOINT_NAME])
{
    snprintf(ret_name, TIDE_CHECKPOINT_NAME, hidden ? ".step-%08lld.partial" : "step-%08lld",
             (long long)step);
}

/* Returns the step of a directory with such a name; -1 if it is not one. */
static int64_t step_of(const char *name, bool hidden)
{
    char expected[TIDE_CHECKPOINT_NAME];
    const char *digits = name + (hidden ? strlen(".step-") : strlen("step-"));
    if (strncmp(name, hidden ? ".step-" : "step-", (size_t)(digits - name)) != 0 || *digits < '0' ||
        *digits > '9')
        return -1;
    errno = 0;
    long long step = strtoll(digits, NULL, 10);
    tide_checkpoint_name(step, hidden, expected);
    return !errno && !strcmp(name, expected) ? step : -1;
}

int tide_checkpoint_visit(int folder, bool (*visit)(void *context, const char *name), void *context)
{
    char room[2048] __attribute__((aligned(16)));
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : 0;
    bool more = fd >= 0;
    while (more && (got = getdents64(fd, room, sizeof room)) > 0)
        for (ssize_t at = 0; more && at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(room + at);
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                more = visit(context, entry->d_name);
            at += entry->d_reclen;
        }
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return got < 0 ? -1 : 0;
}

struct among {
    int64_t first, last, chosen;
    bool oldest, hidden;
    int count;
};

static bool look_at(void *context, const char *name)
{
    struct among *a = context;
    int64_t step = step_of(name, a->hidden);
    if (step < 0 || step < a->first || step > a->last)
        return true;
    a->count++;
    if (a->chosen < 0 || (a->oldest ? step < a->chosen : step > a->chosen))
        a->chosen = step;
    return true;
}

int64_t tide_checkpoint_among(int folder, int64_t first, int64_t last, bool oldest, bool hidden,
                              int *ret_count)
{
    struct among a = {first, last, -1, oldest, hidden, 0};
    tide_checkpoint_visit(folder, look_at, &a);
    if (ret_count)
        *ret_count = a.count;
    return a.chosen;
}

/* Makes path/name. -1 if it does not fit. */
static int join(const char *path, const char *name, char to[static PATH_MAX], struct tide_err *err)
{
    size_t len = strlen(path);
    const char *between = len && path[len - 1] == '/' ? "" : "/";
    if (snprintf(to, PATH_MAX, "%s%s%s", path, between, name) >= PATH_MAX)
        return tide_err_set(err, "the path of the checkpoint is too long");
    return 0;
}

static int wrap(const char *path, struct tide_err *err)
{
    return tide_err_wrap(err, "%s", TIDE_SHOWN(path, 256));
}

/* ---- state.json */

/* Copies the settings to where `state` wants them, if it is of this task. */
static int take_state(const json_t *root, struct tide_checkpoint_state *state, struct tide_err *err)
{
    /* Early versions had one task and did not name it. */
    const json_t *named = json_object_get(root, "task");
    const char *task = named ? json_string_value(named) : "lm";
    const struct tide_setting *table = task ? tide_task_settings(task) : NULL;
    bool wanted = state && task && !strcmp(state->task, task);
    int64_t step;
    if (!table)
        return tide_err_set(err, "'task' in state.json is missing or unknown");
    if (tide_setting_count(root, "step", 0, INT64_MAX - 1, &step, err) ||
        tide_settings_read(tide_train_settings, root, wanted ? state->train : NULL, err) ||
        tide_settings_read(table, root, wanted ? state->own : NULL, err))
        return -1;
    if (state) {
        state->step = step;
        state->is_of_task = wanted;
    }
    return 0;
}

static int take_parts(const json_t *root, struct tide_checkpoint_part *ret_parts, struct tide_err *err)
{
    const json_t *files = json_object_get(root, "files");
    for (int i = 0; i < TIDE_CHECKPOINT_PARTS; i++) {
        const json_t *part = json_object_get(files, tide_checkpoint_names[i]);
        int64_t checksum;
        if (!part && tide_checkpoint_is_optional(i)) {
            ret_parts[i].bytes = -1;
            continue;
        }
        if (!part)
            return tide_err_set(err, "state.json does not name %s", tide_checkpoint_names[i]);
        if (tide_setting_count(part, "bytes", 0, INT64_MAX, &ret_parts[i].bytes, err) ||
            tide_setting_count(part, "crc32", 0, UINT32_MAX, &checksum, err))
            return -1;
        ret_parts[i].checksum = (uint32_t)checksum;
    }
    if (ret_parts[TIDE_CHECKPOINT_MODEL].bytes < 0 && ret_parts[TIDE_CHECKPOINT_ADAPTERS].bytes < 0)
        return tide_err_set(err, "state.json does not name %s", tide_checkpoint_names[TIDE_CHECKPOINT_MODEL]);
    return 0;
}

/* The last field, "crc32", is the checksum of everything before its comma. Older programs wrote none: there
 * "files" is last, and its objects are closed after the last comma. */
static int verify_state(const char *text, size_t len, const json_t *root, struct tide_err *err)
{
    const char *comma = memrchr(text, ',', len);
    const char *brace = comma ? memchr(comma, '}', len - (size_t)(comma - text)) : NULL;
    const json_t *sum = json_object_get(root, "crc32");
    if (!sum && (!brace || memchr(brace + 1, '}', len - (size_t)(brace + 1 - text))))
        return 0;
    if (comma && json_is_integer(sum) &&
        json_integer_value(sum) == tide_durable_checksum(0, text, (size_t)(comma - text)))
        return 0;
    return tide_err_set(err, "state.json is not what was written: its checksum differs");
}

int tide_checkpoint_parse(const char *text, size_t len, struct tide_checkpoint_state *state,
                          struct tide_checkpoint_part *ret_parts, struct tide_err *err)
{
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const char *format = json_string_value(json_object_get(root, "format"));
    int status = 0;
    if (!root)
        status = tide_err_set(err, "state.json is not valid JSON");
    else if (!format || strcmp(format, TIDE_CHECKPOINT_FORMAT) != 0)
        status = tide_err_set(err, "state.json does not have the format " TIDE_CHECKPOINT_FORMAT);
    else
        status = verify_state(text, len, root, err) || take_state(root, state, err) ||
                         take_parts(root, ret_parts, err)
                     ? -1
                     : 0;
    json_decref(root);
    return status;
}

/* Opens a regular file of an open directory without ever blocking. */
static int open_file(int folder, const char *name, struct stat *ret_info, struct tide_err *err)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tide_err_set(err, "cannot open %s: %s", name, strerror(errno));
    if (fstat(fd, ret_info) || !S_ISREG(ret_info->st_mode)) {
        close(fd);
        return tide_err_set(err, "%s is not a regular file", name);
    }
    return fd;
}

/* 0: read; 1: there is none; -1. */
static int read_state(int folder, struct tide_checkpoint_state *state,
                      struct tide_checkpoint_part ret_parts[static TIDE_CHECKPOINT_PARTS],
                      struct tide_err *err)
{
    char text[STATE_MOST];
    struct stat info;
    const char *name = tide_checkpoint_names[TIDE_CHECKPOINT_STATE];
    if (faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
        return 1;
    int fd = open_file(folder, name, &info, err);
    if (fd < 0)
        return -1;
    ssize_t len = info.st_size <= STATE_MOST ? read(fd, text, sizeof text) : -1;
    close(fd);
    if (len < 0 || len != info.st_size)
        return tide_err_set(err, "state.json cannot be read or is too long");
    return tide_checkpoint_parse(text, (size_t)len, state, ret_parts, err);
}

/* ---- finding */

static int verify_part(int folder, const char *name, const struct tide_checkpoint_part *part,
                       struct tide_err *err)
{
    unsigned char stretch[STRETCH];
    struct stat info;
    uint32_t sum = 0;
    ssize_t got;
    int fd = open_file(folder, name, &info, err);
    if (fd < 0)
        return -1;
    if (info.st_size != part->bytes) {
        close(fd);
        return tide_err_set(err, "%s has %lld bytes and was written with %lld", name, (long long)info.st_size,
                            (long long)part->bytes);
    }
    while ((got = read(fd, stretch, sizeof stretch)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0)
            sum = tide_durable_checksum(sum, stretch, (size_t)got);
    int why = errno;
    close(fd);
    if (got < 0)
        return tide_err_set(err, "cannot read %s: %s", name, strerror(why));
    return sum == part->checksum
               ? 0
               : tide_err_set(err, "%s is not what was written: its checksum differs", name);
}

/* 0: complete; 1: no checkpoint; -1. */
static int verify(int folder, struct tide_err *err)
{
    struct tide_checkpoint_part parts[TIDE_CHECKPOINT_PARTS];
    int status = read_state(folder, NULL, parts, err);
    for (int i = 0; !status && i < TIDE_CHECKPOINT_PARTS; i++)
        if (parts[i].bytes >= 0)
            status = verify_part(folder, tide_checkpoint_names[i], &parts[i], err);
    return status;
}

static bool has(int folder, enum tide_checkpoint_file file)
{
    return !faccessat(folder, tide_checkpoint_names[file], F_OK, 0);
}

static int verify_step(int folder, const char *name, struct tide_err *err)
{
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return tide_err_set(err, "cannot open it: %s", strerror(errno));
    int status = verify(fd, err);
    close(fd);
    return status == 1 ? tide_err_set(err, "it has no state.json") : status;
}

/* Finds the newest complete one of a run. */
static int find_in_run(int folder, const char *dir, char to[static PATH_MAX], struct tide_err *err)
{
    struct tide_err first = {0}, why;
    int64_t bound = INT64_MAX, step;
    while ((step = tide_checkpoint_among(folder, 0, bound, false, false, NULL)) >= 0) {
        char name[TIDE_CHECKPOINT_NAME];
        tide_checkpoint_name(step, false, name);
        if (join(dir, name, to, err))
            return -1;
        if (!verify_step(folder, name, &why)) {
            if (err)
                *err = first;
            return 0;
        }
        wrap(to, &why);
        if (!first.text[0])
            first = why;
        bound = step - 1;
        if (step == 0)
            break;
    }
    if (!first.text[0])
        return 1;
    if (err)
        *err = first;
    return tide_err_wrap(err, "no checkpoint is complete");
}

int tide_checkpoint_find(const char *dir, char *ret_path, size_t size, struct tide_err *err)
{
    char path[PATH_MAX];
    if (err)
        *err = (struct tide_err){0};
    int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 && errno == ENOENT)
        return 1;
    if (folder < 0) {
        tide_err_set(err, "cannot look for checkpoints: %s", strerror(errno));
        return wrap(dir, err);
    }
    int status = verify(folder, err);
    snprintf(path, sizeof path, "%s", dir);
    if (status < 0)
        wrap(dir, err);
    else if (status == 1 && has(folder, TIDE_CHECKPOINT_ADAPTERS))
        status = 0; /* adapters from elsewhere */
    else if (status == 1 && !has(folder, TIDE_CHECKPOINT_CONFIG))
        status = find_in_run(folder, dir, path, err);
    else if (status == 1 && (has(folder, TIDE_CHECKPOINT_MODEL) ||
                             !faccessat(folder, "model.safetensors.index.json", F_OK, 0)))
        status = 0; /* a model from elsewhere */
    else if (status == 1) {
        tide_err_set(err, "there is a config.json but no model.safetensors");
        tide_err_hint(err, "make one with transformers: model.save_pretrained(DIR, safe_serialization=True)");
        status = wrap(dir, err);
    }
    close(folder);
    if (!status && strlen(path) >= size)
        status = tide_err_set(err, "the path of the checkpoint is too long");
    if (!status)
        strcpy(ret_path, path);
    return status;
}

/* ---- what it says */

static int state_of(const char *path, struct tide_checkpoint_state *state,
                    struct tide_checkpoint_part ret_parts[static TIDE_CHECKPOINT_PARTS], struct tide_err *err)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int status = folder < 0 ? tide_err_set(err, "cannot open the checkpoint: %s", strerror(errno))
                            : read_state(folder, state, ret_parts, err);
    if (folder >= 0)
        close(folder);
    return status < 0 ? wrap(path, err) : status;
}

int tide_checkpoint_read(const char *path, struct tide_checkpoint_state *state, struct tide_err *err)
{
    struct tide_checkpoint_part parts[TIDE_CHECKPOINT_PARTS];
    state->step = 0;
    state->is_of_task = false;
    return state_of(path, state, parts, err) < 0 ? -1 : 0;
}

int tide_checkpoint_holds(const char *path, const char *name, tide_checkpoint_writer *write, void *context,
                          struct tide_err *err)
{
    struct tide_checkpoint_part parts[TIDE_CHECKPOINT_PARTS];
    struct tide_durable counter;
    int part = 0, status = state_of(path, NULL, parts, err);
    if (status)
        return status < 0 ? -1 : 1;
    while (strcmp(tide_checkpoint_names[part], name) != 0)
        part++;
    if (tide_durable_open(&counter, -1, NULL))
        return tide_err_set(err, "out of memory");
    write(context, name, &counter);
    if (tide_durable_close(&counter))
        return tide_err_set(err, "out of memory");
    return (int64_t)counter.bytes == parts[part].bytes && counter.checksum == parts[part].checksum;
}

/* ---- loading */

/* True for tensors that other programs' files have besides the parameters. */
static bool is_beside(const struct tide_graph *graph, const char *name)
{
    size_t len = strlen(name);
    for (const char *const *other = graph->beside; other && *other; other++) {
        size_t end = strlen(*other);
        if (**other == '.' ? len >= end && !strcmp(name + len - end, *other) : !strcmp(name, *other))
            return true;
    }
    return false;
}

int tide_checkpoint_tensors(const struct tide_graph *graph)
{
    return graph->tensor_count * TIDE_STATE_PARTS;
}

/* True if a parameter belongs in a file, for a model with or without adapters. */
static bool is_in(const struct tide_graph *graph, const struct tide_tensor *t, enum tide_checkpoint_file file)
{
    bool adapted = graph->trained < graph->parameters;
    if (t->role != TIDE_PARAMETER)
        return false;
    return file == TIDE_CHECKPOINT_MODEL ? (t->frozen && !t->measured) == adapted : !t->frozen;
}

/* Turns a parameter's description into that of a part of its state; false: there is no such part. */
static bool to_state(const struct tide_graph *graph, const struct tide_tensor *t, int part,
                     struct tide_safetensor_source *source, const char **ret_suffix)
{
    struct tide_state_part parts[TIDE_STATE_PARTS];
    if (part >= tide_graph_parts(graph, t, parts) || !parts[part].name)
        return false;
    *ret_suffix = parts[part].name;
    source->dtype = parts[part].dtype;
    if (!parts[part].is_shaped) {
        source->rank = 1;
        source->dims[0] = parts[part].count;
    }
    return true;
}

bool tide_checkpoint_tensor(const struct tide_graph *graph, struct tide_machine *machine,
                            enum tide_checkpoint_file file, int index,
                            struct tide_safetensor_source *ret_source)
{
    int tensor = index / TIDE_STATE_PARTS, part = index % TIDE_STATE_PARTS;
    const struct tide_tensor *t = &graph->tensors[tensor];
    bool state = file == TIDE_CHECKPOINT_OPTIMIZER;
    const char *suffix = "";
    if (!is_in(graph, t, file) || (part > 0 && !state))
        return false;
    *ret_source = (struct tide_safetensor_source){.dtype = t->dtype, .rank = t->rank};
    memcpy(ret_source->dims, t->dims, sizeof t->dims);
    if (state && !to_state(graph, t, part, ret_source, &suffix))
        return false;
    if (machine) {
        ret_source->place =
            state ? tide_machine_state(machine, tensor, part) : tide_machine_place(machine, tensor);
        ret_source->data = tide_machine_lend(machine, ret_source->place);
    }
    snprintf(ret_source->name, sizeof ret_source->name, "%s%s%s%s%s",
             file == TIDE_CHECKPOINT_ADAPTERS ? TIDE_CHECKPOINT_ADAPTING : "",
             graph->prefix ? graph->prefix : "", t->name, *suffix ? "." : "", suffix);
    return true;
}

/* Returns a name as in files whose tensors have no prefix. */
static const char *bare_name(const struct tide_graph *graph, const char *name)
{
    size_t prefix = graph->prefix ? strlen(graph->prefix) : 0;
    return prefix && !strncmp(name, graph->prefix, prefix) ? name + prefix : name;
}

/* With the prefix, or without it as in other programs' files. */
static const struct tide_safetensor *find_tensor(const struct tide_graph *graph,
                                                 const struct tide_safetensors *file, const char *name)
{
    const struct tide_safetensor *found = tide_safetensors_find(file, name);
    return found ? found : tide_safetensors_find(file, bare_name(graph, name));
}

static void show_shape(int rank, const int64_t *dims, char *to, size_t size)
{
    snprintf(to, size, "(");
    for (int i = 0; i < rank; i++)
        tide_text_add(to, size, "%s%lld", i ? ", " : "", (long long)dims[i]);
    tide_text_add(to, size, ")");
}

int tide_checkpoint_pick(const struct tide_graph *graph, const struct tide_safetensors *file,
                         const struct tide_safetensor_source *t, const struct tide_safetensor **ret_found,
                         struct tide_err *err)
{
    char there[96], wanted[96];
    const struct tide_safetensor *found = find_tensor(graph, file, t->name);
    const char *adapted = strstr(t->name, TIDE_CHECKPOINT_ADAPTING);
    const char *name = bare_name(graph, adapted ? adapted + strlen(TIDE_CHECKPOINT_ADAPTING) : t->name);
    show_shape(t->rank, t->dims, wanted, sizeof wanted);
    if (!found)
        return tide_err_set(err, "the model has a tensor '%s' %s, which the file does not have", name,
                            wanted);
    show_shape(found->rank, found->dims, there, sizeof there);
    if (found->rank != t->rank || memcmp(found->dims, t->dims, (size_t)t->rank * sizeof *t->dims) != 0)
        return tide_err_set(err, "tensor '%s' is %s in the model and %s in the file", name, wanted, there);
    if (!tide_safetensors_reads(found, t->dtype))
        return tide_err_set(err, "tensor '%s' has numbers of type %s; only F32, F16 and BF16 are supported",
                            name, found->type);
    *ret_found = found;
    return 0;
}

/* True if the model or its state has a tensor of that name, with or without its prefix. */
static bool is_known(const struct tide_graph *graph, enum tide_checkpoint_file which, const char *name)
{
    struct tide_safetensor_source source;
    for (int i = 0; i < tide_checkpoint_tensors(graph); i++)
        if (tide_checkpoint_tensor(graph, NULL, which, i, &source) &&
            (!strcmp(source.name, name) || !strcmp(bare_name(graph, source.name), name)))
            return true;
    return false;
}

/* Checks that the model and the file have the same tensors. */
static int check_file(const struct tide_safetensors *file, const struct tide_graph *graph,
                      enum tide_checkpoint_file which, struct tide_err *err)
{
    size_t wanted = 0, beside = 0;
    struct tide_safetensor_source source;
    const struct tide_safetensor *found;
    for (int i = 0; i < tide_checkpoint_tensors(graph); i++) {
        if (!tide_checkpoint_tensor(graph, NULL, which, i, &source))
            continue;
        if (tide_checkpoint_pick(graph, file, &source, &found, err))
            return -1;
        wanted++;
    }
    for (size_t i = 0; i < file->count; i++)
        beside += is_beside(graph, file->tensors[i].name);
    for (size_t i = 0; i < file->count && file->count != wanted + beside; i++) {
        const char *name = file->tensors[i].name;
        if (!is_beside(graph, name) && !is_known(graph, which, name))
            return tide_err_set(err, "the file has a tensor '%s', which the model does not have",
                                TIDE_SHOWN(name, 160));
    }
    return file->count == wanted + beside ? 0 : tide_err_set(err, "the file has tensors twice");
}

static int open_and_check(const char *path, enum tide_checkpoint_file which, const struct tide_graph *graph,
                          struct tide_safetensors *ret_file, struct tide_err *err)
{
    char name[PATH_MAX];
    if (join(path, tide_checkpoint_names[which], name, err) || tide_shards_open(ret_file, name, err))
        return -1;
    if (!check_file(ret_file, graph, which, err))
        return 0;
    tide_safetensors_close(ret_file);
    return wrap(name, err);
}

/* Copies from the file to the device, a few rows at a time. */
static int read_tensor(const struct tide_graph *graph, const struct tide_safetensors *file,
                       const struct tide_safetensor_source *to, struct tide_machine *machine,
                       struct tide_err *err)
{
    enum { WINDOW = 1 << 20 };
    int64_t columns = to->rank ? to->dims[to->rank - 1] : 1, rows = 1, count;
    for (int i = 0; i + 1 < to->rank; i++)
        rows *= to->dims[i];
    size_t row = tide_row_bytes(to->dtype, columns);
    int64_t most = 1 + (int64_t)(WINDOW / (row + 1));
    char *window = malloc((size_t)(most < rows ? most : rows) * row + 1);
    int status = window ? 0 : tide_err_set(err, "out of memory");
    for (int64_t first = 0; !status && first < rows; first += count) {
        count = rows - first < most ? rows - first : most;
        struct tide_safetensor some = tide_safetensor_rows(find_tensor(graph, file, to->name), first, count);
        status = tide_safetensors_read(file, &some, to->dtype, window, err);
        if (!status)
            tide_machine_write(machine, to->place + (size_t)first * row, window, (size_t)count * row);
    }
    free(window);
    return status;
}

static int read_file(const struct tide_safetensors *file, const struct tide_graph *graph,
                     struct tide_machine *machine, enum tide_checkpoint_file which, struct tide_err *err)
{
    struct tide_safetensor_source to;
    for (int i = 0; i < tide_checkpoint_tensors(graph); i++)
        if (tide_checkpoint_tensor(graph, machine, which, i, &to) &&
            read_tensor(graph, file, &to, machine, err))
            return -1;
    return 0;
}

/* machine NULL: only checks. Nothing is loaded before all files are checked. */
static int load(const char *path, enum tide_checkpoint_file which, bool optimizer,
                const struct tide_graph *graph, struct tide_machine *machine, struct tide_err *err)
{
    struct tide_safetensors weights, state = {.fd = -1};
    if (open_and_check(path, which, graph, &weights, err))
        return -1;
    int status = optimizer ? open_and_check(path, TIDE_CHECKPOINT_OPTIMIZER, graph, &state, err) : 0;
    if (!status && machine &&
        (read_file(&weights, graph, machine, which, err) ||
         (optimizer && read_file(&state, graph, machine, TIDE_CHECKPOINT_OPTIMIZER, err))))
        status = wrap(path, err);
    tide_safetensors_close(&weights);
    tide_safetensors_close(&state);
    return status;
}

/* Which file the parameters that train are in. */
static enum tide_checkpoint_file file_of(const struct tide_graph *graph)
{
    return graph->trained < graph->parameters ? TIDE_CHECKPOINT_ADAPTERS : TIDE_CHECKPOINT_MODEL;
}

int tide_checkpoint_load_base(const char *path, const struct tide_graph *graph, struct tide_machine *machine,
                              struct tide_err *err)
{
    return load(path, TIDE_CHECKPOINT_MODEL, false, graph, machine, err);
}

int tide_checkpoint_check(const char *path, const struct tide_graph *graph, struct tide_err *err)
{
    return load(path, file_of(graph), false, graph, NULL, err);
}

int tide_checkpoint_load(const char *path, const struct tide_graph *graph, struct tide_machine *machine,
                         bool optimizer, struct tide_err *err)
{
    return load(path, file_of(graph), optimizer, graph, machine, err);
}
