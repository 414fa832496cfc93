#include "train/data.h"
#include "base/descriptors.h"
#include "base/infile.h"
#include "base/text.h"
#include "base/random.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 1024, TOKENS_MAGIC = 20240520, LARGEST = 100, CHUNK = 1 << 16 };

static const char sum_symbols[] = "\n+0123456789=";

/* ---- opening */

static int open_sums(struct tide_data *d, struct tide_err *err)
{
    bool occurs[256] = {0};
    if (d->vocabulary->tokenizer) {
        tide_err_set(err, "sums use 13 symbols, but this model has the vocabulary of its tokenizer");
        return tide_err_hint(err, "name a text for it: --data FILE");
    }
    for (const char *s = sum_symbols; *s; s++)
        occurs[(uint8_t)*s] = true;
    tide_vocabulary_know(d->vocabulary, occurs);
    d->kind = TIDE_DATA_SUMS;
    d->count = d->train_count = (int64_t)LARGEST * LARGEST;
    return 0;
}

/* Reads all of it or fails: the file may become shorter at any time. */
static int read_at(const struct tide_data *d, void *to, size_t count, size_t at, struct tide_err *err)
{
    ssize_t got = tide_read_at(d->fd, to, count, at);
    if (got < 0)
        return tide_err_set(err, "cannot read it: %s", strerror(errno));
    if ((size_t)got < count)
        return tide_err_set(err,
                            "it was truncated while in use: it had %zu bytes and now ends before byte %zu",
                            d->file_bytes, at + (size_t)got + 1);
    return 0;
}

static int highest_token(const struct tide_data *d, int64_t *ret_most, struct tide_err *err)
{
    uint16_t tokens[CHUNK / 2];
    *ret_most = 0;
    for (int64_t at = 0, count; at < d->count; at += count) {
        count = d->count - at < CHUNK / 2 ? d->count - at : CHUNK / 2;
        if (read_at(d, tokens, 2 * (size_t)count, HEAD_BYTES + 2 * (size_t)at, err))
            return -1;
        for (int64_t i = 0; i < count; i++)
            *ret_most = tokens[i] > *ret_most ? tokens[i] : *ret_most;
    }
    return 0;
}

static int open_tokens(struct tide_data *d, const int32_t head[static 3], struct tide_err *err)
{
    int64_t most, *size = &d->vocabulary->size;
    d->kind = TIDE_DATA_TOKENS;
    d->head = HEAD_BYTES;
    d->width = 2;
    if (head[1] != 1)
        return tide_err_set(err, "it is a token file of version %d; only version 1 is supported", head[1]);
    if (head[2] < 0 || (size_t)head[2] > (d->file_bytes - HEAD_BYTES) / 2)
        return tide_err_set(err, "its header says that it has %d tokens, but it has %zu", head[2],
                            (d->file_bytes - HEAD_BYTES) / 2);
    d->count = head[2];
    if (highest_token(d, &most, err))
        return -1;
    *size = *size ? *size : most + 1;
    if (most >= *size)
        return tide_err_set(err, "it has token %lld, but the model knows only %lld tokens", (long long)most,
                            (long long)*size);
    return 0;
}

static int open_text(struct tide_data *d, struct tide_err *err)
{
    int64_t size = d->vocabulary->size;
    bool occurs[256] = {0};
    uint8_t bytes[CHUNK];
    d->kind = TIDE_DATA_TEXT;
    d->width = 1;
    d->count = (int64_t)d->file_bytes;
    for (size_t at = 0, count; at < d->file_bytes; at += count) {
        count = d->file_bytes - at < CHUNK ? d->file_bytes - at : CHUNK;
        if (read_at(d, bytes, count, at, err))
            return -1;
        for (size_t i = 0; i < count; i++)
            occurs[bytes[i]] = true;
    }
    tide_vocabulary_know(d->vocabulary, occurs);
    if (d->vocabulary->symbol_count < 2)
        return tide_err_set(err, "it has one symbol only: there is nothing to learn");
    if (size && size < d->vocabulary->symbol_count)
        return tide_err_set(err, "it has %d symbols, but the model knows only %lld",
                            d->vocabulary->symbol_count, (long long)size);
    return 0;
}

/* ---- text in a tokenizer's tokens */

struct tokens_file {
    const struct tide_data *data;
    size_t read, told; /* bytes of the text */
    void (*tell)(double share);
    int fd;
    size_t width, waiting;
    int64_t count;
    char room[CHUNK];
};

/* Opens a temporary file and removes its name. */
static int open_unnamed(struct tide_err *err)
{
    const char *given = getenv("TMPDIR");
    const char *const places[] = {given && *given ? given : "/var/tmp", "/var/tmp", "/tmp"};
    char path[4096];
    int fd = -1;
    for (size_t i = 0; i < sizeof places / sizeof *places && fd < 0; i++)
        if (snprintf(path, sizeof path, "%s/tidemark-XXXXXX", places[i]) < (int)sizeof path)
            fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return tide_err_set(err, "cannot make a file for its tokens in '%s': %s", TIDE_SHOWN(places[0], 256),
                            strerror(errno));
    unlink(path);
    return fd;
}

static ssize_t read_text(void *context, char *to, size_t room, struct tide_err *err)
{
    struct tokens_file *f = context;
    size_t left = f->data->file_bytes - f->read, count = left < room ? left : room;
    if (read_at(f->data, to, count, f->read, err))
        return -1;
    f->read += count;
    if (f->tell && f->read - f->told >= 1 << 20) {
        f->tell((double)f->read / (double)f->data->file_bytes);
        f->told = f->read;
    }
    return (ssize_t)count;
}

static int write_waiting(struct tokens_file *f, struct tide_err *err)
{
    if (tide_write_all(f->fd, f->room, f->waiting) != 0) {
        tide_err_set(err, "cannot write its tokens: %s", strerror(errno));
        return tide_err_hint(err, "set TMPDIR to a directory with room for %lld MB or more",
                             (long long)(f->data->file_bytes * f->width / 2000000 + 1));
    }
    f->waiting = 0;
    return 0;
}

static int take_tokens(void *context, const int32_t *tokens, size_t count, struct tide_err *err)
{
    struct tokens_file *f = context;
    f->count += (int64_t)count;
    for (size_t i = 0; i < count; i++, f->waiting += f->width) {
        uint16_t narrow = (uint16_t)tokens[i];
        if (f->waiting + f->width > sizeof f->room && write_waiting(f, err))
            return -1;
        memcpy(f->room + f->waiting, f->width == sizeof narrow ? (const void *)&narrow : &tokens[i],
               f->width);
    }
    return 0;
}

/* Writes the tokens of the text to a file. */
static int tokenize(struct tide_data *d, void (*tell)(double share), struct tide_err *err)
{
    struct tokens_file f = {.data = d, .tell = tell, .width = d->vocabulary->size > UINT16_MAX + 1 ? 4 : 2};
    struct tide_tokenizing way = {read_text, take_tokens, &f};
    f.fd = open_unnamed(err);
    if (f.fd < 0)
        return -1;
    int status = tide_tokenizer_run(d->vocabulary->tokenizer, &way, err) || write_waiting(&f, err) ? -1 : 0;
    if (tell)
        tell(1);
    close(d->fd);
    d->fd = f.fd;
    d->kind = TIDE_DATA_TOKENIZED;
    d->width = f.width;
    d->count = f.count;
    d->file_bytes = f.width * (size_t)f.count;
    return status;
}

/* ---- files */

static int open_regular(struct tide_data *d, const char *path, struct tide_err *err)
{
    struct stat info;
    d->fd = tide_infile_open(path, &info);
    if (d->fd < 0)
        return tide_err_set(err, "cannot open it: %s",
                            errno == ENXIO ? "it is not a regular file" : strerror(errno));
    if (!info.st_size)
        return tide_err_set(err, "cannot read it: it is empty");
    d->file_bytes = (size_t)info.st_size;
    d->row = malloc(((size_t)d->sequence + 1) * sizeof(uint32_t));
    return d->row ? 0 : tide_err_set(err, "out of memory");
}

static int open_file(struct tide_data *d, const struct tide_data_source *source, struct tide_err *err)
{
    int32_t head[3] = {0};
    struct tide_tokenizer *tokenizer = d->vocabulary->tokenizer;
    if (open_regular(d, source->path, err))
        return -1;
    if (d->file_bytes >= HEAD_BYTES && read_at(d, head, sizeof head, 0, err))
        return -1;
    if (head[0] == TOKENS_MAGIC ? open_tokens(d, head, err)
        : tokenizer             ? tokenize(d, source->tell, err)
                                : open_text(d, err))
        return -1;
    if (tokenizer)
        tide_tokenizer_drop(tokenizer);
    int64_t held_out = d->count / 10 > d->sequence + 1 ? d->count / 10 : d->sequence + 1;
    d->train_count = d->count - held_out;
    if (d->train_count < d->sequence + 1) {
        tide_err_set(err, "it has %lld tokens; with a tenth held out a sequence of %lld needs at least %lld",
                     (long long)d->count, (long long)d->sequence, (long long)(2 * (d->sequence + 1)));
        return tide_err_hint(err, "use a smaller --seq, or more data");
    }
    return 0;
}

int tide_data_open(const struct tide_data_source *source, struct tide_data **ret_data, struct tide_err *err)
{
    struct tide_data *d = calloc(1, sizeof *d);
    if (!d) {
        tide_tokenizer_free(source->tokenizer);
        return tide_err_set(err, "out of memory");
    }
    d->fd = -1;
    d->seed = source->seed;
    d->sequence = source->sequence;
    if (source->path)
        tide_text_escape(source->path, strlen(source->path), d->shown, sizeof d->shown);
    if (tide_vocabulary_with(source->tokenizer, source->vocabulary, &d->vocabulary, err) ||
        (source->path ? open_file(d, source, err) : open_sums(d, err))) {
        tide_err_wrap(err, "%s", source->path ? d->shown : "train");
        tide_data_free(d);
        return -1;
    }
    *ret_data = d;
    return 0;
}

void tide_data_free(struct tide_data *d)
{
    if (!d)
        return;
    if (d->fd >= 0)
        close(d->fd);
    tide_vocabulary_free(d->vocabulary);
    free(d->row);
    free(d);
}

/* ---- sums */

static bool is_held_out(int a, int b)
{
    return tide_random_at(0, (uint64_t)a, (uint64_t)b) % 10 == 0;
}

/* Draws pair number n, held out or not. */
static void choose_sum(const struct tide_data *d, uint64_t row, uint64_t n, bool held_out, int *ret_a,
                       int *ret_b)
{
    for (uint64_t attempt = 0;; attempt++) {
        uint64_t x = tide_random_at(d->seed ^ (held_out ? UINT64_C(0xe7a1) : 0), row, n << 8 | attempt);
        *ret_a = (int)(x % LARGEST);
        *ret_b = (int)(x / LARGEST % LARGEST);
        if (is_held_out(*ret_a, *ret_b) == held_out)
            return;
    }
}

/* Fills a row with lines; only the answers are targets. All lines have the same length, so a position in the
 * sequence means the same in every row: a small model then learns the sums, not where a line begins. */
static void fill_sums(const struct tide_data *d, uint64_t row, bool held_out, int32_t *tokens,
                      int32_t *targets)
{
    int64_t at = -1; /* position of the symbol before the first */
    for (uint64_t n = 0; at < d->sequence; n++) {
        char line[32];
        int a, b;
        choose_sum(d, row, n, held_out, &a, &b);
        int len = snprintf(line, sizeof line, "%02d+%02d=%03d\n", a, b, a + b);
        bool answering = false;
        for (int i = 0; i < len; i++, at++) {
            int32_t token = d->vocabulary->token_of[(uint8_t)line[i]];
            if (at >= 0 && at < d->sequence)
                targets[at] = answering ? token : -1;
            if (at + 1 < d->sequence)
                tokens[at + 1] = token;
            answering |= line[i] == '=';
        }
    }
}

void tide_data_question(const struct tide_data *d, uint64_t number, bool held_out, char *prompt, size_t size)
{
    int a, b;
    choose_sum(d, UINT64_MAX, number, held_out, &a, &b);
    snprintf(prompt, size, "%02d+%02d=", a, b);
}

bool tide_data_is_right(const char *prompt, const char *answer)
{
    int a, b, sum, used = 0;
    return isdigit((unsigned char)answer[0]) && sscanf(prompt, "%2d+%2d=", &a, &b) == 2 &&
           sscanf(answer, "%4d%n", &sum, &used) == 1 && sum == a + b &&
           (answer[used] == '\0' || answer[used] == '\n');
}

int tide_data_answer(const char *prompt, char *answer, size_t size)
{
    int a = 0, b = 0;
    return sscanf(prompt, "%2d+%2d=", &a, &b) == 2 ? snprintf(answer, size, "%03d", a + b) : 0;
}

/* ---- batches */

/* Returns a token of the row that was read last; -1: one that the model does not know. */
static int32_t token_in_row(const struct tide_data *d, int64_t at)
{
    const uint8_t *place = d->row + d->width * (size_t)at;
    uint16_t narrow = 0;
    uint32_t token = 0;
    if (d->kind == TIDE_DATA_TEXT)
        return d->vocabulary->token_of[*place];
    if (d->width == sizeof narrow) {
        memcpy(&narrow, place, sizeof narrow);
        token = narrow;
    } else {
        memcpy(&token, place, sizeof token);
    }
    return token < d->vocabulary->size ? (int32_t)token : -1;
}

/* The file was checked when it was opened and is checked again, because it may have been written to since. */
static int fill_from_file(const struct tide_data *d, uint64_t row, bool held_out, int32_t *tokens,
                          int32_t *targets, struct tide_err *err)
{
    int64_t first = held_out ? d->train_count : 0, end = held_out ? d->count : d->train_count;
    uint64_t places = (uint64_t)(end - first - d->sequence);
    int64_t at = first + (int64_t)(tide_random_at(d->seed, held_out, row) % places);
    if (read_at(d, d->row, d->width * ((size_t)d->sequence + 1), d->head + d->width * (size_t)at, err))
        return -1;
    for (int64_t i = 0; i <= d->sequence; i++) {
        int32_t token = token_in_row(d, i);
        if (token < 0)
            return tide_err_set(err, "it was changed while in use: the model does not know token %lld",
                                (long long)(at + i));
        if (i < d->sequence)
            tokens[i] = token;
        if (i > 0)
            targets[i - 1] = token;
    }
    return 0;
}

int tide_data_batch(const struct tide_data *d, uint64_t number, bool held_out, int64_t sequences,
                    int32_t *tokens, int32_t *targets, struct tide_err *err)
{
    for (int64_t i = 0; i < sequences; i++) {
        uint64_t row = number * (uint64_t)sequences + (uint64_t)i;
        int32_t *to = tokens + i * d->sequence, *wanted = targets + i * d->sequence;
        if (d->kind == TIDE_DATA_SUMS)
            fill_sums(d, row, held_out, to, wanted);
        else if (fill_from_file(d, row, held_out, to, wanted, err))
            return tide_err_wrap(err, "%s", d->shown);
    }
    return 0;
}
