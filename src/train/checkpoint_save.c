#include "base/json.h"
#include "base/text.h"
#include "train/checkpoint_private.h"
#include "train/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct saving {
    const char *dir;
    int folder, partial; /* dir, and in it the future checkpoint */
    const struct tide_graph *graph;
    struct tide_machine *machine;
    const struct tide_checkpoint_state *state;
    tide_checkpoint_writer *write;
    void *context;
    enum tide_checkpoint_file file; /* the one being written */
    struct tide_checkpoint_part parts[TIDE_CHECKPOINT_FILES];
};

static int cannot(const char *dir, const char *what, int error, struct tide_err *err)
{
    return tide_err_set(err, "cannot save a checkpoint in '%s': %s: %s", TIDE_SHOWN(dir, 256), what,
                        strerror(error));
}

/* ---- directories */

static int sync_folder(int folder)
{
    return fsync(folder) && errno != EINVAL && errno != ENOTSUP ? -1 : 0;
}

/* Makes every missing part of the path. *made: the length of the path up to the first one made. */
static int make_folders(const char *dir, size_t *made)
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
            if (!mkdir(path, 0777))
                *made = *made ? *made : i;
            else if (errno != EEXIST && errno != EISDIR && errno != EROFS)
                return -1;
            path[i] = '/';
        }
    if (mkdir(path, 0777))
        return errno == EEXIST ? 0 : -1;
    *made = *made ? *made : len;
    return 0;
}

/* Removes a hidden checkpoint: the files of a checkpoint, and the directory if nothing else is in it. */
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

/* Removes what a kill left. */
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

/* Hides a checkpoint before it is removed, so that a kill in between leaves no partial one. The next save
 * tries again to remove what could not be removed. */
static void remove_old(int folder, int64_t newest, int64_t keep)
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

static bool is_same(int a, int b)
{
    struct stat one, two;
    return !fstat(a, &one) && !fstat(b, &two) && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

int tide_checkpoint_enter(struct tide_checkpoint_dir *dir, struct tide_err *err)
{
    int fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && !make_folders(dir->path, &dir->made))
        fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return cannot(dir->path, "the directory", errno, err);
    if (dir->fd >= 0 && is_same(dir->fd, fd)) {
        close(fd);
        return 0;
    }
    /* Any other error: the file system has no locks. */
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(fd);
        tide_err_set(err, "another process is training into '%s'", TIDE_SHOWN(dir->path, 256));
        return tide_err_hint(err, "wait until it has ended, or name another directory with --out");
    }
    if (dir->fd >= 0)
        close(dir->fd);
    dir->fd = fd;
    return 0;
}

void tide_checkpoint_leave(struct tide_checkpoint_dir *dir)
{
    char path[PATH_MAX];
    if (dir->made && tide_checkpoint_among(dir->fd, 0, INT64_MAX, true, false, NULL) < 0)
        unlinkat(dir->fd, TIDE_CHECKPOINT_KEPT, 0);
    for (size_t len = dir->made ? strlen(dir->path) : 0; dir->made && len >= dir->made; len--)
        if (!dir->path[len] || dir->path[len] == '/') {
            memcpy(path, dir->path, len);
            path[len] = '\0';
            if (rmdir(path) && errno != ENOENT)
                break;
        }
    if (dir->fd >= 0)
        close(dir->fd);
    dir->fd = -1;
    dir->made = 0;
}

/* ---- files */

static bool tensor_at(void *context, int index, struct tide_safetensor_source *ret_source)
{
    const struct saving *s = context;
    return tide_checkpoint_tensor(s->graph, s->machine, s->file, index, ret_source);
}

static void read_data(void *context, const struct tide_safetensor_source *source, size_t at, void *to,
                      size_t bytes)
{
    const struct saving *s = context;
    tide_machine_read(s->machine, source->place + at, to, bytes);
}

static void write_state(const struct saving *s, struct tide_durable *file)
{
    struct tide_json json;
    tide_json_init(&json, file->out, false);
    tide_json_object(&json, NULL);
    tide_json_text(&json, "format", TIDE_CHECKPOINT_FORMAT);
    tide_json_text(&json, "task", s->state->task);
    tide_json_integer(&json, "step", s->state->step);
    tide_settings_write(tide_train_settings, s->state->train, &json);
    tide_settings_write(tide_task_settings(s->state->task), s->state->own, &json);
    tide_json_object(&json, "files");
    for (int i = 0; i < TIDE_CHECKPOINT_PARTS; i++) {
        if (s->parts[i].bytes < 0)
            continue;
        tide_json_object(&json, tide_checkpoint_names[i]);
        tide_json_integer(&json, "bytes", s->parts[i].bytes);
        tide_json_integer(&json, "crc32", s->parts[i].checksum);
        tide_json_end(&json);
    }
    tide_json_end(&json);
    tide_durable_put(file, "", 0); /* flushes, so that the checksum covers all text so far */
    tide_json_integer(&json, "crc32", file->checksum);
    tide_json_end(&json);
}

/* Returns false if the checkpoint has no such file. For a model with adapters, they are written instead of
 * the model. file NULL: only asks. */
static bool write_part(struct saving *s, enum tide_checkpoint_file part, struct tide_durable *file)
{
    bool adapted = s->graph->trained < s->graph->parameters;
    switch (part) {
    case TIDE_CHECKPOINT_MODEL:
    case TIDE_CHECKPOINT_ADAPTERS:
    case TIDE_CHECKPOINT_OPTIMIZER:
        s->file = part;
        if (file)
            tide_safetensors_write(file, tide_checkpoint_tensors(s->graph), tensor_at, read_data, s);
        return part != (adapted ? TIDE_CHECKPOINT_MODEL : TIDE_CHECKPOINT_ADAPTERS);
    case TIDE_CHECKPOINT_STATE:
        if (file)
            write_state(s, file);
        return true;
    default:
        return s->write(s->context, tide_checkpoint_names[part], file);
    }
}

static int write_files(struct saving *s, struct tide_err *err)
{
    struct tide_durable file;
    for (int i = 0; i < TIDE_CHECKPOINT_FILES; i++) {
        if (!write_part(s, i, NULL)) {
            s->parts[i].bytes = -1;
            continue;
        }
        if (tide_durable_open(&file, s->partial, tide_checkpoint_names[i]))
            return cannot(s->dir, tide_checkpoint_names[i], errno, err);
        write_part(s, i, &file);
        if (tide_durable_close(&file))
            return cannot(s->dir, tide_checkpoint_names[i], errno, err);
        s->parts[i].bytes = (int64_t)file.bytes;
        s->parts[i].checksum = file.checksum;
    }
    return sync_folder(s->partial) ? cannot(s->dir, "the directory", errno, err) : 0;
}

/* Takes the name in one atomic step. An existing checkpoint of this step changes places with the new one. */
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

int tide_checkpoint_save(struct tide_checkpoint_dir *dir, const struct tide_graph *graph,
                         struct tide_machine *machine, const struct tide_checkpoint_state *state,
                         tide_checkpoint_writer *write, void *context, struct tide_err *err)
{
    struct saving s = {.dir = dir->path,
                       .graph = graph,
                       .machine = machine,
                       .state = state,
                       .write = write,
                       .context = context};
    char name[TIDE_CHECKPOINT_NAME], hidden[TIDE_CHECKPOINT_NAME];
    tide_checkpoint_name(state->step, false, name);
    tide_checkpoint_name(state->step, true, hidden);
    if (tide_checkpoint_enter(dir, err))
        return -1;
    s.folder = dir->fd;
    remove_stale(s.folder);
    int status = write_hidden(&s, hidden, err) || take_name(&s, hidden, name, err) ? -1 : 0;
    remove_hidden(s.folder, hidden); /* what failed, or what was replaced */
    if (!status)
        remove_old(s.folder, state->step, dir->keep);
    return status;
}

/* ---- weights alone */

static int write_weights(struct saving *s, const char *name, struct tide_err *err)
{
    struct tide_durable file;
    unlinkat(s->folder, name, 0);
    if (tide_durable_open(&file, s->folder, name))
        return cannot(s->dir, name, errno, err);
    write_part(s, TIDE_CHECKPOINT_MODEL, &file);
    return tide_durable_close(&file) ? cannot(s->dir, name, errno, err) : 0;
}

int tide_checkpoint_keep(const char *dir, const struct tide_graph *graph, struct tide_machine *machine,
                         char *ret_path, size_t size, int *ret_fd, struct tide_err *err)
{
    char name[64] = TIDE_CHECKPOINT_KEPT;
    const char *place = dir ? dir : getenv("TMPDIR");
    struct saving s = {.dir = place && *place ? place : "/var/tmp", .graph = graph, .machine = machine};
    *ret_fd = -1;
    s.folder = open(s.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s.folder < 0)
        return cannot(s.dir, "the directory", errno, err);
    if (!dir)
        snprintf(name, sizeof name, ".tidemark-%ld-" TIDE_CHECKPOINT_KEPT, (long)getpid());
    int status = write_weights(&s, name, err);
    if (!dir && !status) {
        *ret_fd = openat(s.folder, name, O_RDONLY | O_CLOEXEC);
        status = *ret_fd < 0 ? cannot(s.dir, name, errno, err) : 0;
    }
    if (!dir || status)
        unlinkat(s.folder, name, 0);
    close(s.folder);
    if (status)
        return -1;
    int used = dir ? snprintf(ret_path, size, "%s/%s", dir, name)
                   : snprintf(ret_path, size, "/proc/self/fd/%d", *ret_fd);
    return used < (int)size ? 0 : tide_err_set(err, "the path of '%s' is too long", name);
}

/* ---- beforehand */

/* Writes a small file in the same way as the large ones, so that what this needs of libraries is in memory
 * before the first step. */
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

int tide_checkpoint_prepare(struct tide_checkpoint_dir *dir, struct tide_err *err)
{
    int status = 0;
    char hidden[TIDE_CHECKPOINT_NAME];
    if (tide_checkpoint_enter(dir, err))
        return -1;
    int folder = dir->fd;
    remove_stale(folder);
    tide_checkpoint_name(0, true, hidden);
    int partial = mkdirat(folder, hidden, 0777)
                      ? -1
                      : openat(folder, hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (partial < 0 || try_writing(partial, tide_checkpoint_names[TIDE_CHECKPOINT_STATE]))
        status = cannot(dir->path, hidden, errno, err);
    if (partial >= 0)
        close(partial);
    remove_hidden(folder, hidden);
    return status;
}
