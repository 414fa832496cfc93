#include "train/data.h"
#include "base/text.h"
#include "train/random.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 1024, TOKENS_MAGIC = 20240520, LARGEST = 100 };

static const char sum_symbols[] = "\n+0123456789=";

struct tide_data {
    enum tide_data_kind kind;
    uint64_t seed;
    int64_t sequence, words, symbol_count;
    int64_t count, train_count; /* tokens in all, and before the part that is held out */
    const uint8_t *map;
    size_t map_bytes;
    uint8_t symbols[256];  /* text, sums: the byte of each token */
    int16_t token_of[256]; /* -1: does not occur */
};

/* ---- opening */

static void know_symbols(struct tide_data *d, const bool *occurs)
{
    for (int byte = 0; byte < 256; byte++) {
        d->token_of[byte] = -1;
        if (!occurs[byte])
            continue;
        d->symbols[d->symbol_count] = (uint8_t)byte;
        d->token_of[byte] = (int16_t)d->symbol_count++;
    }
    d->words = d->symbol_count;
}

static int open_sums(struct tide_data *d)
{
    bool occurs[256] = {0};
    for (const char *s = sum_symbols; *s; s++)
        occurs[(uint8_t)*s] = true;
    know_symbols(d, occurs);
    d->kind = TIDE_DATA_SUMS;
    d->count = d->train_count = (int64_t)LARGEST * LARGEST;
    return 0;
}

static uint16_t token_in_file(const struct tide_data *d, int64_t at)
{
    uint16_t token;
    memcpy(&token, d->map + HEAD_BYTES + 2 * at, sizeof token);
    return token;
}

static int open_tokens(struct tide_data *d, int64_t words, struct tide_err *err)
{
    int32_t head[3];
    memcpy(head, d->map, sizeof head);
    d->kind = TIDE_DATA_TOKENS;
    if (head[1] != 1)
        return tide_err_set(err, "it is a token file of version %d; only version 1 is known", head[1]);
    if (head[2] < 0 || (size_t)head[2] > (d->map_bytes - HEAD_BYTES) / 2)
        return tide_err_set(err, "its head promises %d tokens and there are %zu", head[2],
                            (d->map_bytes - HEAD_BYTES) / 2);
    d->count = head[2];
    int64_t most = 0;
    for (int64_t i = 0; i < d->count; i++)
        most = token_in_file(d, i) > most ? token_in_file(d, i) : most;
    d->words = words ? words : most + 1;
    if (most >= d->words)
        return tide_err_set(err, "it has token %lld, and the model knows %lld", (long long)most,
                            (long long)d->words);
    return 0;
}

static int open_text(struct tide_data *d, int64_t words, struct tide_err *err)
{
    bool occurs[256] = {0};
    d->kind = TIDE_DATA_TEXT;
    d->count = (int64_t)d->map_bytes;
    for (size_t i = 0; i < d->map_bytes; i++)
        occurs[d->map[i]] = true;
    know_symbols(d, occurs);
    if (d->words < 2)
        return tide_err_set(err, "it has one symbol only: there is nothing to learn");
    if (words && words < d->words)
        return tide_err_set(err, "it has %lld symbols, and the model knows %lld", (long long)d->words,
                            (long long)words);
    d->words = words > d->words ? words : d->words;
    return 0;
}

static int map_file(struct tide_data *d, const char *path, struct tide_err *err)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return tide_err_set(err, "cannot open it: %s", strerror(errno));
    if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
        close(fd);
        return tide_err_set(err, "it is no regular file");
    }
    void *map = info.st_size ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    int why = errno;
    close(fd);
    if (map == MAP_FAILED)
        return tide_err_set(err, "cannot read it: %s", info.st_size ? strerror(why) : "it is empty");
    d->map = map;
    d->map_bytes = (size_t)info.st_size;
    return 0;
}

static int open_file(struct tide_data *d, const char *path, int64_t words, struct tide_err *err)
{
    int32_t magic = 0;
    if (map_file(d, path, err))
        return -1;
    if (d->map_bytes >= HEAD_BYTES)
        memcpy(&magic, d->map, sizeof magic);
    if (magic == TOKENS_MAGIC ? open_tokens(d, words, err) : open_text(d, words, err))
        return -1;
    int64_t held_out = d->count / 10 > d->sequence + 1 ? d->count / 10 : d->sequence + 1;
    d->train_count = d->count - held_out;
    if (d->train_count < d->sequence + 1) {
        tide_err_set(err, "it has %lld tokens; with a tenth held out a sequence of %lld needs at least %lld",
                     (long long)d->count, (long long)d->sequence, (long long)(2 * (d->sequence + 1)));
        return tide_err_hint(err, "a smaller --seq, or more data");
    }
    return 0;
}

int tide_data_open(const char *path, uint64_t seed, int64_t sequence, int64_t words,
                   struct tide_data **ret_data, struct tide_err *err)
{
    struct tide_data *d = calloc(1, sizeof *d);
    char shown[256];
    if (!d)
        return tide_err_set(err, "out of memory");
    d->seed = seed;
    d->sequence = sequence;
    int status = path ? open_file(d, path, words, err) : open_sums(d);
    if (status) {
        tide_data_free(d);
        return tide_err_wrap(err, "%s", tide_text_escape(path, strlen(path), shown, sizeof shown));
    }
    if (!path && words > d->words)
        d->words = words;
    *ret_data = d;
    return 0;
}

void tide_data_free(struct tide_data *d)
{
    if (!d)
        return;
    if (d->map)
        munmap((void *)d->map, d->map_bytes);
    free(d);
}

enum tide_data_kind tide_data_kind(const struct tide_data *d)
{
    return d->kind;
}

int64_t tide_data_words(const struct tide_data *d)
{
    return d->words;
}

int64_t tide_data_count(const struct tide_data *d)
{
    return d->train_count;
}

/* ---- sums */

static bool is_held_out(int a, int b)
{
    return tide_random_at(0, (uint64_t)a, (uint64_t)b) % 10 == 0;
}

/* Pair number n of the wanted kind. */
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

/* Lines until the row is full; only answers are asked for. All lines have one length, so that a place in the
 * sequence means the same in every row: a small model learns what is to be learned, not where it stands. */
static void fill_sums(const struct tide_data *d, uint64_t row, bool held_out, int32_t *tokens,
                      int32_t *targets)
{
    int64_t at = -1; /* the place of the symbol before the first */
    for (uint64_t n = 0; at < d->sequence; n++) {
        char line[32];
        int a, b;
        choose_sum(d, row, n, held_out, &a, &b);
        int len = snprintf(line, sizeof line, "%02d+%02d=%03d\n", a, b, a + b);
        bool answering = false;
        for (int i = 0; i < len; i++, at++) {
            int32_t token = d->token_of[(uint8_t)line[i]];
            if (at >= 0 && at < d->sequence)
                targets[at] = answering ? token : -1;
            if (at + 1 < d->sequence)
                tokens[at + 1] = token;
            answering |= line[i] == '=';
        }
    }
}

void tide_data_question(const struct tide_data *d, uint64_t number, char *prompt, size_t size)
{
    int a, b;
    choose_sum(d, UINT64_MAX, number, true, &a, &b);
    snprintf(prompt, size, "%02d+%02d=", a, b);
}

bool tide_data_is_right(const char *prompt, const char *answer)
{
    int a, b, sum, used = 0;
    return isdigit((unsigned char)answer[0]) && sscanf(prompt, "%2d+%2d=", &a, &b) == 2 &&
           sscanf(answer, "%4d%n", &sum, &used) == 1 && sum == a + b &&
           (answer[used] == '\0' || answer[used] == '\n');
}

/* ---- batches */

static int32_t token_at(const struct tide_data *d, int64_t at)
{
    return d->kind == TIDE_DATA_TOKENS ? token_in_file(d, at) : d->token_of[d->map[at]];
}

static void fill_from_file(const struct tide_data *d, uint64_t row, bool held_out, int32_t *tokens,
                           int32_t *targets)
{
    int64_t first = held_out ? d->train_count : 0, end = held_out ? d->count : d->train_count;
    uint64_t places = (uint64_t)(end - first - d->sequence);
    int64_t at = first + (int64_t)(tide_random_at(d->seed, held_out, row) % places);
    for (int64_t i = 0; i < d->sequence; i++) {
        tokens[i] = token_at(d, at + i);
        targets[i] = token_at(d, at + i + 1);
    }
}

void tide_data_batch(const struct tide_data *d, uint64_t number, bool held_out, int64_t sequences,
                     int32_t *tokens, int32_t *targets)
{
    for (int64_t i = 0; i < sequences; i++) {
        uint64_t row = number * (uint64_t)sequences + (uint64_t)i;
        int32_t *to = tokens + i * d->sequence, *wanted = targets + i * d->sequence;
        if (d->kind == TIDE_DATA_SUMS)
            fill_sums(d, row, held_out, to, wanted);
        else
            fill_from_file(d, row, held_out, to, wanted);
    }
}

/* ---- text */

int tide_data_symbol(const struct tide_data *d, int32_t token)
{
    return token >= 0 && token < d->symbol_count ? d->symbols[token] : -1;
}

void tide_data_text(const struct tide_data *d, int32_t token, char out[static 8])
{
    if (tide_data_symbol(d, token) < 0) {
        snprintf(out, 8, "%d ", token);
        return;
    }
    out[0] = (char)d->symbols[token];
    out[1] = '\0';
}

int64_t tide_data_tokens(const struct tide_data *d, const char *text, int32_t *out, int64_t most,
                         struct tide_err *err)
{
    int64_t count = 0;
    if (d->kind == TIDE_DATA_TOKENS)
        return tide_err_set(err, "a model of tokens has no symbols to read text with");
    for (; text[count] && count < most; count++) {
        char shown[16];
        out[count] = d->token_of[(uint8_t)text[count]];
        if (out[count] < 0)
            return tide_err_set(err, "the model does not know the symbol '%s'",
                                tide_text_escape(text + count, 1, shown, sizeof shown));
    }
    return count;
}
