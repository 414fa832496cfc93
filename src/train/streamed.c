#include "train/streamed.h"
#include "base/check.h"
#include "base/durable.h"
#include "base/text.h"
#include "rt/cpu/threads.h"
#include "train/checkpoint_private.h"
#include "train/shards.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 256 << 10, /* the least that a thread reads */
    SUMMED_BYTES = 16 << 10, /* that a thread reads at once for a checksum */
};

struct tide_streamed {
    const struct tide_graph *graph;
    struct tide_safetensors file;
    char shown[256];
    struct one {
        const struct tide_safetensor *from; /* NULL: not streamed */
        int next;                           /* the tensor read after it */
    } * tensors;                            /* of the graph */
    struct seen {
        off_t size;
        struct timespec written;
    } * seen; /* for each file, when it was opened */
    bool failed;
    struct tide_err err;
};

static int fd_of(const struct tide_streamed *s, const struct tide_safetensor *tensor)
{
    return s->file.shards ? s->file.shards[tensor->shard].fd : s->file.fd;
}

static int look_at(int fd, struct seen *ret_seen, struct tide_err *err)
{
    struct stat info;
    if (fstat(fd, &info))
        return tide_err_set(err, "cannot read it: %s", strerror(errno));
    *ret_seen = (struct seen){.size = info.st_size, .written = info.st_mtim};
    return 0;
}

static int find_one(struct tide_streamed *s, const char *prefix, int tensor, struct tide_err *err)
{
    const struct tide_tensor *t = &s->graph->tensors[tensor];
    struct tide_safetensor_source wanted = {.dtype = t->dtype, .rank = t->rank};
    size_t skipped = strlen(prefix);
    TIDE_CHECK(strncmp(t->name, prefix, skipped), ==, 0);
    memcpy(wanted.dims, t->dims, sizeof t->dims);
    snprintf(wanted.name, sizeof wanted.name, "%s%s", s->graph->prefix ? s->graph->prefix : "",
             t->name + skipped);
    if (t->dtype != TIDE_F32 && t->dtype != TIDE_BF16)
        return tide_err_set(err, "tensor '%s' can be streamed as f32 or bf16", t->name + skipped);
    return tide_checkpoint_pick(s->graph, &s->file, &wanted, &s->tensors[tensor].from, err);
}

/* Tensors are read in the order in which the model made them, again and again. */
static int find_all(struct tide_streamed *s, const char *prefix, struct tide_err *err)
{
    int first = -1, last = -1;
    for (int i = 0; i < s->graph->tensor_count; i++) {
        if (s->graph->tensors[i].role != TIDE_STREAMED)
            continue;
        if (find_one(s, prefix, i, err))
            return -1;
        if (last >= 0)
            s->tensors[last].next = i;
        first = first < 0 ? i : first;
        last = i;
    }
    if (last >= 0)
        s->tensors[last].next = first;
    return 0;
}

static int see_all(struct tide_streamed *s, struct tide_err *err)
{
    if (!s->file.shards)
        return look_at(s->file.fd, &s->seen[0], err);
    for (size_t i = 0; i < s->file.shard_count; i++)
        if (look_at(s->file.shards[i].fd, &s->seen[i], err))
            return -1;
    return 0;
}

int tide_streamed_open(const struct tide_graph *graph, const char *prefix, const char *path,
                       struct tide_streamed **ret_streamed, struct tide_err *err)
{
    struct tide_streamed *s = calloc(1, sizeof *s);
    if (!s)
        return tide_err_set(err, "out of memory");
    s->graph = graph;
    tide_text_escape(path, strlen(path), s->shown, sizeof s->shown);
    if (tide_shards_open(&s->file, path, err)) {
        free(s);
        return -1;
    }
    s->tensors = calloc((size_t)graph->tensor_count + 1, sizeof *s->tensors);
    s->seen = calloc(s->file.shard_count + 1, sizeof *s->seen);
    int status = s->tensors && s->seen ? 0 : tide_err_set(err, "out of memory");
    if (!status && (find_all(s, prefix, err) || see_all(s, err)))
        status = tide_err_wrap(err, "%s", s->shown);
    if (status) {
        tide_streamed_close(s);
        return -1;
    }
    *ret_streamed = s;
    return 0;
}

void tide_streamed_close(struct tide_streamed *s)
{
    if (!s)
        return;
    tide_safetensors_close(&s->file);
    free(s->tensors);
    free(s->seen);
    free(s);
}

/* ---- the checksum */

struct summing {
    int fd;
    const struct tide_safetensor *from;
    uint32_t *sums; /* of each piece */
    atomic_int error;
};

static void sum_pieces(void *context, int64_t first, int64_t last)
{
    struct summing *s = context;
    char bytes[SUMMED_BYTES];
    size_t at = (size_t)first * PIECE_BYTES, end = (size_t)last * PIECE_BYTES;
    end = end < s->from->bytes ? end : s->from->bytes;
    memset(s->sums + first, 0, (size_t)(last - first) * sizeof *s->sums);
    while (at < end) {
        size_t want = end - at < sizeof bytes ? end - at : sizeof bytes;
        ssize_t got = TEMP_FAILURE_RETRY(pread(s->fd, bytes, want, (off_t)(s->from->begin + at)));
        if (got != (ssize_t)want) {
            atomic_store(&s->error, got < 0 ? errno : EIO);
            return;
        }
        uint32_t *sum = &s->sums[at / PIECE_BYTES];
        *sum = tide_durable_checksum(*sum, bytes, want);
        at += want;
    }
}

int tide_streamed_checksum(const struct tide_streamed *s, uint32_t *ret_checksum, struct tide_err *err)
{
    size_t most = 0;
    uint32_t all = 0;
    int error = 0;
    for (int i = 0; i < s->graph->tensor_count; i++)
        if (s->tensors[i].from && s->tensors[i].from->bytes > most)
            most = s->tensors[i].from->bytes;
    struct summing r = {.sums = calloc(most / PIECE_BYTES + 1, sizeof *r.sums)};
    if (!r.sums)
        return tide_err_set(err, "out of memory");
    for (int i = 0; i < s->graph->tensor_count && !error; i++) {
        const char *name = s->graph->tensors[i].name;
        if (!(r.from = s->tensors[i].from))
            continue;
        size_t pieces = (r.from->bytes + PIECE_BYTES - 1) / PIECE_BYTES;
        r.fd = fd_of(s, r.from);
        tide_parallel((int64_t)pieces, 1, sum_pieces, &r);
        error = atomic_load(&r.error);
        all += tide_durable_checksum(tide_durable_checksum(0, name, strlen(name)), r.sums,
                                     pieces * sizeof *r.sums);
    }
    free(r.sums);
    if (error)
        return tide_err_set(err, "%s: cannot read it: %s", s->shown, strerror(error));
    *ret_checksum = all;
    return 0;
}

/* ---- reading */

struct reading {
    const struct tide_streamed *streamed;
    const struct tide_safetensor *from;
    enum tide_dtype dtype;
    int64_t first, columns;
    char *to;
    atomic_bool failed;
};

static int read_rows(const struct reading *r, int64_t first, int64_t last, struct tide_err *err)
{
    struct tide_safetensor rows = tide_safetensor_rows(r->from, r->first + first, last - first);
    return tide_safetensors_read(&r->streamed->file, &rows, r->dtype,
                                 r->to + (size_t)first * tide_row_bytes(r->dtype, r->columns), err);
}

static void read_some(void *context, int64_t first, int64_t last)
{
    struct reading *r = context;
    if (read_rows(r, first, last, NULL))
        atomic_store(&r->failed, true);
}

static int check_unchanged(const struct tide_streamed *s, const struct tide_safetensor *from,
                           struct tide_err *err)
{
    struct seen now, then = s->seen[s->file.shards ? from->shard : 0];
    if (look_at(fd_of(s, from), &now, err))
        return -1;
    return now.size == then.size && now.written.tv_sec == then.written.tv_sec &&
                   now.written.tv_nsec == then.written.tv_nsec
               ? 0
               : tide_err_set(err, "it was changed while it was in use");
}

static int read_checked(struct tide_streamed *s, struct reading *r, int64_t rows, struct tide_err *err)
{
    int64_t grain = PIECE_BYTES / (int64_t)tide_row_bytes(r->dtype, r->columns) + 1;
    if (check_unchanged(s, r->from, err))
        return -1;
    tide_parallel(rows, grain, read_some, r);
    /* Threads report that they failed, not why: read once more for the message. */
    return atomic_load(&r->failed) ? read_rows(r, 0, rows, err) : 0;
}

int tide_streamed_read(void *streamed, int tensor, int64_t first, int64_t rows, void *to)
{
    struct tide_streamed *s = streamed;
    const struct tide_tensor *t = &s->graph->tensors[tensor];
    const struct tide_safetensor *next = s->tensors[s->tensors[tensor].next].from;
    struct reading r = {.streamed = s,
                        .from = s->tensors[tensor].from,
                        .dtype = t->dtype,
                        .first = first,
                        .columns = tide_tensor_columns(t),
                        .to = to};
    TIDE_CHECK_TRUE(r.from);
    TIDE_CHECK(first + rows, <=, tide_tensor_rows(t));
    if (!first)
        (void)posix_fadvise(fd_of(s, next), (off_t)next->begin, (off_t)next->bytes, POSIX_FADV_WILLNEED);
    if (!read_checked(s, &r, rows, &s->err))
        return 0;
    s->failed = true;
    return tide_err_wrap(&s->err, "%s", s->shown);
}

int tide_streamed_failed(const struct tide_streamed *s, struct tide_err *err)
{
    if (s->failed && err)
        *err = s->err;
    return s->failed ? -1 : 0;
}
