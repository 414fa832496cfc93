#include "base/json.h"
#include "base/text.h"
#include "train/adapters.h"
#include "train/checkpoint_private.h"
#include "train/config.h"
#include "base/durable.h"
#include "train/safetensors.h"
#include "train/vocabulary.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct saving {
    const char *dir;
    int folder, partial; /* dir, and in it what will be the checkpoint */
    const struct tide_graph *graph;
    struct tide_machine *machine;
    const struct tide_gpt_config *config;
    const struct tide_data *data;
    struct tide_checkpoint_record record;
};

static int cannot(const char *dir, const char *what, int error, struct tide_err *err)
{
    char shown[256];
    return tide_err_set(err, "cannot save a checkpoint in '%s': %s: %s",
                        tide_text_escape(dir, strlen(dir), shown, sizeof shown), what, strerror(error));
}

/* ---- directories */

static int sync_folder(int folder)
{
    return fsync(folder) && errno != EINVAL && errno != ENOTSUP ? -1 : 0;
}

/* Makes every part of the path that is missing. */
static int make_folders(const char *dir)
{
    char path[PATH_MAX];
    size_t len = strlen(dir);
    if (len >= sizeof path || !len) {
        errno = len ? ENAMETOOLONG : ENOENT;
        return -1;
    }
    memcpy(path, dir, len + 1);
    for (size_t i = 1; i < len; i++)
        if (path[i] == '/') {
            path[i] = '\0';
            if (mkdir(path, 0777) && errno != EEXIST && errno != EISDIR && errno != EROFS)
                return -1;
            path[i] = '/';
        }
    return mkdir(path, 0777) && errno != EEXIST ? -1 : 0;
}

/* Removes a hidden checkpoint: the files that are a checkpoint's, and the directory when nothing else is in
 * it. */
static void remove_hidden(int folder, const char *name)
{
    int partial = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (partial < 0)
        return;
    for (int i = 0; i < TIDE_CHECKPOINT_FILES; i++)
        unlinkat(partial, tide_checkpoint_names[i], 0);
    close(partial);
    unlinkat(folder, name, AT_REMOVEDIR);
}

/* What was left by a kill. */
static void remove_stale(int folder)
{
    int64_t step = -1;
    while ((step = tide_checkpoint_among(folder, step + 1, INT64_MAX, true, true, NULL)) >= 0) {
        char name[TIDE_CHECKPOINT_NAME];
        tide_checkpoint_name(step, true, name);
        remove_hidden(folder, name);
        if (step == INT64_MAX)
            return;
    }
}

static bool is_ours(void *others, const char *name)
{
    for (int i = 0; i < TIDE_CHECKPOINT_FILES; i++)
        if (!strcmp(name, tide_checkpoint_names[i]))
            return true;
    *(bool *)others = true;
    return false;
}

static bool is_ours_alone(int folder, const char *name)
{
    bool others = false;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    int status = tide_checkpoint_visit(fd, is_ours, &others);
    close(fd);
    return !status && !others;
}

/* Hidden before it is removed, so that a kill in between leaves none that is half there. One that cannot be
 * removed is tried again with the next save. */
static void remove_old(int folder, int64_t newest, int keep)
{
    int count;
    int64_t step = -1;
    tide_checkpoint_among(folder, 0, newest, true, false, &count);
    for (; count > (keep < 1 ? 1 : keep); count--) {
        char name[TIDE_CHECKPOINT_NAME], hidden[TIDE_CHECKPOINT_NAME];
        step = tide_checkpoint_among(folder, step + 1, newest, true, false, NULL);
        if (step < 0 || step == newest)
            return;
        tide_checkpoint_name(step, false, name);
        tide_checkpoint_name(step, true, hidden);
        if (is_ours_alone(folder, name) && !renameat(folder, name, folder, hidden))
            remove_hidden(folder, hidden);
    }
}

/* Opens dir, alone in it, with nothing of earlier attempts left. */
static int enter(const char *dir, int *ret_folder, struct tide_err *err)
{
    int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 && errno == ENOENT && !make_folders(dir))
        folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return cannot(dir, "the directory", errno, err);
    if (flock(folder, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(folder);
        return cannot(dir, "another process is saving there", EWOULDBLOCK, err);
    }
    remove_stale(folder);
    *ret_folder = folder;
    return 0;
}

/* ---- files */

static bool weight_at(void *context, int index, struct tide_safetensor_source *ret_source)
{
    const struct saving *s = context;
    return tide_checkpoint_tensor(s->graph, s->machine, TIDE_CHECKPOINT_MODEL, index, ret_source);
}

static bool adapter_at(void *context, int index, struct tide_safetensor_source *ret_source)
{
    const struct saving *s = context;
    return tide_checkpoint_tensor(s->graph, s->machine, TIDE_CHECKPOINT_ADAPTERS, index, ret_source);
}

static bool state_at(void *context, int index, struct tide_safetensor_source *ret_source)
{
    const struct saving *s = context;
    return tide_checkpoint_tensor(s->graph, s->machine, TIDE_CHECKPOINT_OPTIMIZER, index, ret_source);
}

/* As text, so that it comes back to the bit. */
static void write_real(struct tide_json *json, const char *key, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.17g", value);
    tide_json_text(json, key, text);
}

static void write_state(const struct saving *s, FILE *out)
{
    struct tide_json json;
    const struct tide_checkpoint_state *state = &s->record.state;
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, state->seed);
    tide_json_init(&json, out, false);
    tide_json_object(&json, NULL);
    tide_json_text(&json, "format", TIDE_CHECKPOINT_FORMAT);
    tide_json_integer(&json, "step", state->step);
    tide_json_integer(&json, "steps", state->steps);
    tide_json_text(&json, "seed", seed); /* a JSON number does not hold all of it */
    tide_json_integer(&json, "batch", state->batch);
    tide_json_integer(&json, "sequence", state->sequence);
    tide_json_integer(&json, "accumulate", state->accumulate);
    tide_json_integer(&json, "warmup", state->warmup);
    write_real(&json, "rate", state->rate);
    write_real(&json, "weight_decay", state->weight_decay);
    write_real(&json, "clip", state->clip);
    tide_json_text(&json, "schedule", state->schedule);
    tide_json_text(&json, "dtype", state->dtype == TIDE_BF16 ? "bf16" : "f32");
    tide_json_text(&json, "weights",
                   state->stored == TIDE_I8     ? "int8"
                   : state->stored == TIDE_BF16 ? "bf16"
                                                : "f32");
    tide_json_text(&json, "optimizer", state->optimizer->name);
    tide_json_object(&json, "files");
    for (int i = 0; i < TIDE_CHECKPOINT_PARTS; i++) {
        if (s->record.parts[i].bytes < 0)
            continue;
        tide_json_object(&json, tide_checkpoint_names[i]);
        tide_json_integer(&json, "bytes", s->record.parts[i].bytes);
        tide_json_integer(&json, "crc32", s->record.parts[i].checksum);
        tide_json_end(&json);
    }
    tide_json_end(&json);
    tide_json_end(&json);
}

static bool is_of_tokenizer(int part)
{
    return part >= TIDE_CHECKPOINT_TOKENIZER && part < TIDE_CHECKPOINT_MODEL;
}

/* What is read of a file that the tokenizer came with; NULL: there is none. */
static const char *tokenizer_part(const struct saving *s, int part, size_t *ret_len)
{
    const struct tide_tokenizer *tokenizer = tide_data_tokenizer(s->data);
    return tokenizer ? tide_tokenizer_file(tokenizer, part - TIDE_CHECKPOINT_TOKENIZER, ret_len) : NULL;
}

static bool is_wanted(const struct saving *s, int part)
{
    size_t len;
    if (is_of_tokenizer(part))
        return tokenizer_part(s, part, &len);
    if (part == TIDE_CHECKPOINT_MODEL)
        return !s->config->adapter_rank;
    return s->config->adapter_rank ||
           (part != TIDE_CHECKPOINT_ADAPTER_CONFIG && part != TIDE_CHECKPOINT_ADAPTERS);
}

static void write_part(struct saving *s, int part, struct tide_durable *file)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    int tensors = tide_checkpoint_tensors(s->graph);
    size_t len = 0;
    if (is_of_tokenizer(part)) {
        const char *text = tokenizer_part(s, part, &len);
        tide_durable_put(file, text, len);
        return;
    }
    switch (part) {
    case TIDE_CHECKPOINT_CONFIG:
        tide_config_write(s->config, file->out);
        break;
    case TIDE_CHECKPOINT_VOCABULARY:
        tide_vocabulary_write(s->data, file->out);
        break;
    case TIDE_CHECKPOINT_MODEL:
        tide_safetensors_write(file, tensors, weight_at, s, metadata);
        break;
    case TIDE_CHECKPOINT_ADAPTER_CONFIG:
        tide_adapters_write(s->config, s->record.state.base, file->out);
        break;
    case TIDE_CHECKPOINT_ADAPTERS:
        tide_safetensors_write(file, tensors, adapter_at, s, metadata);
        break;
    case TIDE_CHECKPOINT_OPTIMIZER:
        tide_safetensors_write(file, tensors, state_at, s, metadata);
        break;
    default:
        write_state(s, file->out);
    }
}

static int write_files(struct saving *s, struct tide_err *err)
{
    struct tide_durable file;
    for (int i = 0; i < TIDE_CHECKPOINT_FILES; i++) {
        if (!is_wanted(s, i)) {
            s->record.parts[i].bytes = -1;
            continue;
        }
        if (tide_durable_open(&file, s->partial, tide_checkpoint_names[i]))
            return cannot(s->dir, tide_checkpoint_names[i], errno, err);
        write_part(s, i, &file);
        if (tide_durable_close(&file))
            return cannot(s->dir, tide_checkpoint_names[i], errno, err);
        if (i < TIDE_CHECKPOINT_PARTS) {
            s->record.parts[i].bytes = (int64_t)file.bytes;
            s->record.parts[i].checksum = file.checksum;
        }
    }
    return sync_folder(s->partial) ? cannot(s->dir, "the directory", errno, err) : 0;
}

/* The name is taken in one step. Where one of this step is there already, the two change places. */
static int take_name(const struct saving *s, const char *hidden, const char *name, struct tide_err *err)
{
    if (renameat(s->folder, hidden, s->folder, name) &&
        ((errno != ENOTEMPTY && errno != EEXIST) ||
         renameat2(s->folder, hidden, s->folder, name, RENAME_EXCHANGE)))
        return cannot(s->dir, name, errno, err);
    return sync_folder(s->folder) ? cannot(s->dir, "the directory", errno, err) : 0;
}

static int write_hidden(struct saving *s, const char *hidden, struct tide_err *err)
{
    if (mkdirat(s->folder, hidden, 0777))
        return cannot(s->dir, hidden, errno, err);
    s->partial = openat(s->folder, hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->partial < 0)
        return cannot(s->dir, hidden, errno, err);
    int status = write_files(s, err);
    close(s->partial);
    return status;
}

int tide_checkpoint_save(const char *dir, int keep, const struct tide_graph *graph,
                         struct tide_machine *machine, const struct tide_gpt_config *config,
                         const struct tide_data *data, const struct tide_checkpoint_state *state,
                         struct tide_err *err)
{
    struct saving s = {.dir = dir,
                       .graph = graph,
                       .machine = machine,
                       .config = config,
                       .data = data,
                       .record = {.state = *state}};
    char name[TIDE_CHECKPOINT_NAME], hidden[TIDE_CHECKPOINT_NAME];
    tide_checkpoint_name(state->step, false, name);
    tide_checkpoint_name(state->step, true, hidden);
    if (enter(dir, &s.folder, err))
        return -1;
    int status = write_hidden(&s, hidden, err) || take_name(&s, hidden, name, err) ? -1 : 0;
    remove_hidden(s.folder, hidden); /* what failed, or what was replaced */
    if (!status)
        remove_old(s.folder, state->step, keep);
    close(s.folder);
    return status;
}

/* ---- beforehand */

/* A small file, in the way in which the large ones will be: what that needs of libraries is then there before
 * the first step. */
static int try_writing(int partial, const char *name)
{
    struct tide_durable file;
    if (tide_durable_open(&file, partial, name))
        return -1;
    for (int i = 0; i < 64; i++)
        fprintf(file.out, "%s\n", name);
    tide_durable_put(&file, name, strlen(name));
    return tide_durable_close(&file);
}

int tide_checkpoint_prepare(const char *dir, struct tide_err *err)
{
    int folder, status = 0;
    char hidden[TIDE_CHECKPOINT_NAME];
    if (enter(dir, &folder, err))
        return -1;
    tide_checkpoint_name(0, true, hidden);
    int partial = mkdirat(folder, hidden, 0777)
                      ? -1
                      : openat(folder, hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (partial < 0 || try_writing(partial, tide_checkpoint_names[TIDE_CHECKPOINT_STATE]))
        status = cannot(dir, hidden, errno, err);
    if (partial >= 0)
        close(partial);
    remove_hidden(folder, hidden);
    close(folder);
    return status;
}
