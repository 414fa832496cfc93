#include "train/prompts.h"
#include "base/descriptors.h"
#include "base/durable.h"
#include "base/grow.h"
#include "base/infile.h"
#include "base/text.h"
#include "base/units.h"
#include "base/random.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 16, SUM_ROOM = 64 };

/* A line of the file, without its end. */
struct entry {
    uint64_t at;
    uint32_t len, checksum;
    int64_t line;
};

struct tide_prompts {
    const struct tide_data *sums; /* NULL: of a file */
    uint64_t seed;
    int fd; /* -1: no file */
    uint64_t file_bytes;
    struct entry *entries;
    int64_t count;
    size_t room; /* entries */
    size_t line_room;
    char *line, *text; /* of the last prompt read: line_room bytes each */
    char shown[256];   /* the path, for messages */
};

/* ---- what a line says */

static unsigned hex_digits(const char *text)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned digit = (unsigned char)text[i];
        value = value << 4 | (digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    return value;
}

static size_t put_rune(unsigned rune, char *out)
{
    if (rune < 0x80) {
        out[0] = (char)rune;
        return 1;
    }
    int more = rune < 0x800 ? 1 : rune < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(lead[more] | rune >> 6 * more);
    for (int i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (rune >> 6 * (more - i) & 0x3f));
    return (size_t)more + 1;
}

/* Writes what an escape in a string stands for to `out`, never more bytes than the escape has. Returns the
 * length of the escape; 0: the text ends in it. */
static size_t take_escape(const char *text, size_t len, char *out, size_t *ret_len)
{
    static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    *ret_len = 1;
    if (len < 2)
        return 0;
    const char *found = strchr(letters, text[1]);
    out[0] = found && *found ? meanings[found - letters] : text[1];
    if (text[1] != 'u')
        return 2;
    if (len < 6)
        return 0;
    unsigned rune = hex_digits(text + 2);
    bool pair = rune >= 0xd800 && rune < 0xdc00 && len >= 12;
    if (pair)
        rune = 0x10000 + ((rune & 0x3ff) << 10 | (hex_digits(text + 8) & 0x3ff));
    *ret_len = put_rune(rune & 0x1fffff, out);
    return pair ? 12 : 6;
}

/* Reads the string whose opening quote is at *at: its text goes to `out`, which has room for len bytes, and
 * *at moves past its end. False: the line ends in it. */
static bool take_string(const char *line, size_t len, size_t *at, char *out, size_t *ret_len)
{
    size_t made = 0;
    for (size_t i = *at + 1; i < len;) {
        size_t got = 1;
        if (line[i] == '"') {
            *at = i + 1;
            *ret_len = made;
            return true;
        }
        size_t step = line[i] == '\\' ? take_escape(line + i, len - i, out + made, &got) : 1;
        if (!step)
            return false;
        if (line[i] != '\\')
            out[made] = line[i];
        made += got;
        i += step;
    }
    return false;
}

/* Finds the text of `prompt` in a line of valid JSON; `out` has room for it and its NUL. jansson would
 * allocate; a line that it accepted before needs no more than this. False: there is none. */
static bool find_prompt(const char *line, size_t len, char *out, size_t *ret_len)
{
    int depth = 0;
    bool is_key = false, wanted = false; /* the next string is a key of the object; is the text */
    for (size_t at = 0, made; at < len;) {
        char c = line[at];
        if (c != '"') {
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            is_key = depth == 1 && (c == '{' || c == ',' || (is_key && c != ':'));
            at++;
            continue;
        }
        if (!take_string(line, len, &at, out, &made))
            return false;
        if (wanted && depth == 1 && !is_key) {
            out[made] = '\0';
            *ret_len = made;
            return true;
        }
        wanted = is_key && made == strlen("prompt") && !memcmp(out, "prompt", made);
    }
    return false;
}

/* Finds the inside of the line's object. Some readers take a carriage return for the end of a line; in valid
 * JSON it is white space, so it becomes a space. */
static void find_fields(char *line, size_t len, struct tide_prompt *prompt)
{
    for (char *at = line; (at = memchr(at, '\r', len - (size_t)(at - line)));)
        *at = ' ';
    const char *first = memchr(line, '{', len), *last = memrchr(line, '}', len);
    prompt->fields = first ? first + 1 : line;
    prompt->fields_len = first && last > first ? (size_t)(last - first - 1) : 0;
}

/* ---- opening */

static int refuse_prompt(const json_t *prompt, struct tide_err *err)
{
    if (!prompt) {
        tide_err_set(err, "it has no field 'prompt'");
        return tide_err_hint(err, "each line is an object like {\"prompt\": \"07+85=\"}");
    }
    if (json_is_array(prompt)) {
        tide_err_set(err, "'prompt' is a list of messages, and must be a text");
        return tide_err_hint(err, "write each conversation as the text that the model reads, by its "
                                  "tokenizer's apply_chat_template(prompt, tokenize=False, "
                                  "add_generation_prompt=True)");
    }
    return tide_err_set(err, json_is_string(prompt) ? "'prompt' is empty" : "'prompt' is not a text");
}

static int refuse_json(const json_error_t *why, struct tide_err *err)
{
    if (json_error_code(why) == json_error_null_character)
        return tide_err_set(err, "it has a NUL (\\u0000), which text may not have");
    tide_err_set(err, "it is not valid JSON: %s", TIDE_SHOWN(why->text, 200));
    return tide_err_hint(err, "each line is an object like {\"prompt\": \"07+85=\"}");
}

/* Checks that a line is a prompt. */
static int look_at(const char *line, size_t len, struct tide_err *err)
{
    json_error_t why;
    for (size_t at = 0, step; at < len; at += step)
        if (!(step = tide_text_rune(line + at, len - at, NULL)))
            return tide_err_set(err, "it is not UTF-8: byte %zu of the line", at + 1);
    /* Whole numbers are for the reward command to read; as reals, none is too large for us. */
    json_t *root = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &why);
    const json_t *prompt = json_object_get(root, "prompt");
    int status = 0;
    if (!root)
        status = refuse_json(&why, err);
    else if (!json_is_object(root))
        status = tide_err_set(err, "it is not a JSON object");
    else if (!json_is_string(prompt) || !json_string_length(prompt))
        status = refuse_prompt(prompt, err);
    else if (json_object_get(root, "completions"))
        status =
            tide_err_set(err, "it has a field 'completions', which is the name of what the model generates");
    json_decref(root);
    return status;
}

static int add_entry(struct tide_prompts *p, const struct entry *entry, struct tide_err *err)
{
    if (p->count == TIDE_PROMPTS_MOST)
        return tide_err_set(err, "it has more than %d prompts", TIDE_PROMPTS_MOST);
    if (TIDE_GROW(p->entries, p->room, p->count + 1, TIDE_PROMPTS_MOST))
        return tide_err_set(err, "out of memory");
    p->entries[p->count++] = *entry;
    p->line_room = entry->len + 1 > p->line_room ? entry->len + 1 : p->line_room;
    return 0;
}

/* Takes a complete line that begins at `at` in the file. */
static int take_line(struct tide_prompts *p, const struct tide_buf *line, uint64_t at, int64_t number,
                     struct tide_err *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* byte order mark, written by some editors */
    const char *text = tide_buf_view(line);
    size_t len = line->len, skipped = number == 1 && !strncmp(text, mark, 3) ? 3 : 0;
    text += skipped;
    len -= skipped;
    if (line->failed) {
        tide_err_set(err, "it is longer than %s", TIDE_SIZE(TIDE_PROMPTS_LINE_MOST));
        return tide_prompts_wrap(p, number, err);
    }
    if (strspn(text, " \t\r") == len)
        return 0;
    if (look_at(text, len, err))
        return tide_prompts_wrap(p, number, err);
    struct entry entry = {at + skipped, (uint32_t)len, tide_durable_checksum(0, text, len), number};
    if (add_entry(p, &entry, err))
        return tide_err_wrap(err, "%s", p->shown);
    return 0;
}

/* Returns how many bytes were read: all, unless the file ends before. -1 with a sentence. */
static ssize_t read_at(const struct tide_prompts *p, char *to, size_t count, uint64_t at,
                       struct tide_err *err)
{
    ssize_t got = tide_read_at(p->fd, to, count, at);
    return got < 0 ? tide_err_set(err, "%s: cannot read it: %s", p->shown, strerror(errno)) : got;
}

static int read_lines(struct tide_prompts *p, struct tide_buf *line, struct tide_err *err)
{
    char chunk[CHUNK];
    uint64_t begin = 0; /* of the line */
    int64_t number = 1;
    ssize_t got;
    while ((got = read_at(p, chunk, sizeof chunk, p->file_bytes, err)) > 0) {
        for (const char *at = chunk, *end = chunk + got; at < end;) {
            const char *newline = memchr(at, '\n', (size_t)(end - at));
            tide_buf_append(line, at, (size_t)((newline ? newline : end) - at));
            if (!newline && !line->failed)
                break;
            if (take_line(p, line, begin, number++, err))
                return -1;
            tide_buf_clear(line);
            at = newline + 1;
            begin = p->file_bytes + (uint64_t)(at - chunk);
        }
        p->file_bytes += (uint64_t)got;
    }
    return got < 0 ? -1 : take_line(p, line, begin, number, err);
}

static int open_file(struct tide_prompts *p, const char *path, struct tide_err *err)
{
    struct stat about;
    struct tide_buf line;
    p->fd = tide_infile_open(path, &about);
    if (p->fd < 0)
        return tide_err_set(err, "cannot open '%s': %s", p->shown,
                            errno == ENXIO ? "it is not a regular file" : strerror(errno));
    tide_buf_init(&line, TIDE_PROMPTS_LINE_MOST);
    int status = read_lines(p, &line, err);
    tide_buf_release(&line);
    if (status)
        return -1;
    if (!p->count) {
        tide_err_set(err, "%s: it has no prompts", p->shown);
        return tide_err_hint(err, "each line is an object like {\"prompt\": \"07+85=\"}");
    }
    struct entry *fitting = reallocarray(p->entries, (size_t)p->count, sizeof *fitting);
    p->entries = fitting ? fitting : p->entries;
    return 0;
}

static struct tide_prompts *prompts_new(struct tide_err *err)
{
    struct tide_prompts *p = calloc(1, sizeof *p);
    if (p)
        p->fd = -1;
    else
        tide_err_set(err, "out of memory");
    return p;
}

/* Allocates memory for the last line and text, and hands the prompts to the caller. */
static int finish(struct tide_prompts *p, struct tide_prompts **ret_prompts, struct tide_err *err)
{
    p->line = malloc(p->line_room);
    p->text = malloc(p->line_room);
    if (!p->line || !p->text) {
        tide_prompts_free(p);
        return tide_err_set(err, "out of memory");
    }
    *ret_prompts = p;
    return 0;
}

int tide_prompts_open(const char *path, uint64_t seed, struct tide_prompts **ret_prompts,
                      struct tide_err *err)
{
    struct tide_prompts *p = prompts_new(err);
    if (!p)
        return -1;
    p->seed = seed;
    tide_text_shown(path, p->shown, sizeof p->shown);
    if (open_file(p, path, err)) {
        tide_prompts_free(p);
        return -1;
    }
    return finish(p, ret_prompts, err);
}

int tide_prompts_sums(const struct tide_data *sums, struct tide_prompts **ret_prompts, struct tide_err *err)
{
    struct tide_prompts *p = prompts_new(err);
    if (!p)
        return -1;
    p->sums = sums;
    p->count = sums->train_count;
    p->line_room = SUM_ROOM;
    return finish(p, ret_prompts, err);
}

void tide_prompts_free(struct tide_prompts *p)
{
    if (!p)
        return;
    if (p->fd >= 0)
        close(p->fd);
    free(p->entries);
    free(p->line);
    free(p->text);
    free(p);
}

size_t tide_prompts_bytes(const struct tide_prompts *p)
{
    return sizeof *p + (p->entries ? (size_t)p->count * sizeof *p->entries : 0) + 2 * p->line_room;
}

int64_t tide_prompts_count(const struct tide_prompts *p)
{
    return p->count;
}

int tide_prompts_wrap(const struct tide_prompts *p, int64_t line, struct tide_err *err)
{
    return line ? tide_err_wrap(err, "%s: line %lld", p->shown, (long long)line) : -1;
}

/* ---- reading */

static int read_sum(struct tide_prompts *p, uint64_t number, struct tide_prompt *ret_prompt)
{
    tide_data_question(p->sums, number, false, p->text, p->line_room);
    int len = snprintf(p->line, p->line_room, "\"prompt\":\"%s\"", p->text);
    *ret_prompt = (struct tide_prompt){p->text, strlen(p->text), p->line, (size_t)len, 0};
    return 0;
}

static int read_entry(struct tide_prompts *p, const struct entry *e, struct tide_prompt *ret_prompt,
                      struct tide_err *err)
{
    struct tide_prompt prompt = {.text = p->text, .line = e->line};
    ssize_t got = read_at(p, p->line, e->len, e->at, err);
    if (got < 0)
        return -1;
    if ((size_t)got < e->len) {
        tide_err_set(err, "it was truncated while in use: it had %llu bytes",
                     (unsigned long long)p->file_bytes);
        return tide_prompts_wrap(p, e->line, err);
    }
    if (tide_durable_checksum(0, p->line, e->len) != e->checksum ||
        !find_prompt(p->line, e->len, p->text, &prompt.len)) {
        tide_err_set(err, "it was changed while in use");
        return tide_prompts_wrap(p, e->line, err);
    }
    find_fields(p->line, e->len, &prompt);
    *ret_prompt = prompt;
    return 0;
}

/* Returns the index in the file of the prompt at a place in an epoch: a Feistel network mixes the halves of
 * the place, again while the result is beyond the last prompt, so that each prompt comes once. */
static int64_t shuffled(const struct tide_prompts *p, uint64_t epoch, uint64_t place)
{
    enum { ROUNDS = 6 };
    unsigned half = 1;
    while (UINT64_C(1) << 2 * half < (uint64_t)p->count)
        half++;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t left = place >> half, right = place & mask;
            place = right << half | (left ^ (tide_random_at(p->seed, epoch, round << 32 | right) & mask));
        }
    while (place >= (uint64_t)p->count);
    return (int64_t)place;
}

int tide_prompts_read(struct tide_prompts *p, uint64_t number, struct tide_prompt *ret_prompt,
                      struct tide_err *err)
{
    if (p->sums)
        return read_sum(p, number, ret_prompt);
    uint64_t count = (uint64_t)p->count;
    return read_entry(p, &p->entries[shuffled(p, number / count, number % count)], ret_prompt, err);
}

int tide_prompts_read_in_order(struct tide_prompts *p, int64_t n, struct tide_prompt *ret_prompt,
                               struct tide_err *err)
{
    return p->sums ? read_sum(p, (uint64_t)n, ret_prompt) : read_entry(p, &p->entries[n], ret_prompt, err);
}
