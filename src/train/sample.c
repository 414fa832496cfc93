#include "train/sample.h"
#include "base/check.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

struct tide_sampler {
    struct tide_machine *machine;
    struct tide_gpt_decoder decoder;
    int64_t vocabulary;
    int32_t *said; /* the window's tokens that are in the cache */
    int64_t count; /* how many */
    int32_t next;  /* chosen and not read yet; -1: none */
    uint64_t made; /* tokens since _start */
    const float *logits;
};

void tide_decoder_flush(const struct tide_gpt_decoder *d, struct tide_machine *machine, int64_t *rows)
{
    int32_t *tokens = tide_machine_input(machine, d->prompt.tokens),
            *slots = tide_machine_input(machine, d->prompt.slots),
            *positions = tide_machine_input(machine, d->prompt.positions);
    if (!*rows)
        return;
    for (int64_t i = *rows; i < d->rows; i++) {
        tokens[i] = positions[i] = 0;
        slots[i] = -1;
    }
    tide_machine_run(machine, d->prompt.program);
    *rows = 0;
}

void tide_decoder_put(const struct tide_gpt_decoder *d, struct tide_machine *machine, int slot,
                      const int32_t *tokens, int64_t count, int64_t *rows)
{
    int32_t *to = tide_machine_input(machine, d->prompt.tokens),
            *slots = tide_machine_input(machine, d->prompt.slots),
            *positions = tide_machine_input(machine, d->prompt.positions);
    TIDE_CHECK(count, <=, d->window);
    if (*rows + count > d->rows)
        tide_decoder_flush(d, machine, rows);
    for (int64_t i = 0; i < count; i++, (*rows)++) {
        if (*rows == d->rows)
            tide_decoder_flush(d, machine, rows);
        to[*rows] = tokens[i];
        slots[*rows] = slot;
        positions[*rows] = (int32_t)i;
    }
}

void tide_decoder_read(const struct tide_gpt_decoder *d, struct tide_machine *machine, int slot,
                       const int32_t *tokens, int64_t count)
{
    int64_t rows = 0;
    tide_decoder_put(d, machine, slot, tokens, count, &rows);
    tide_decoder_flush(d, machine, &rows);
}

void tide_decoder_copy(const struct tide_gpt_decoder *d, struct tide_machine *machine, int to, int from,
                       int64_t count)
{
    TIDE_CHECK(count, <=, d->window);
    for (int i = 0; i < d->cache_count; i++)
        tide_machine_copy(machine, d->caches + i, to * d->window, from * d->window, count);
}

const float *tide_decoder_next(const struct tide_gpt_decoder *d, struct tide_machine *machine,
                               const int32_t *tokens, const int32_t *positions)
{
    int32_t *to = tide_machine_input(machine, d->next.tokens),
            *slots = tide_machine_input(machine, d->next.slots),
            *places = tide_machine_input(machine, d->next.positions);
    for (int64_t i = 0; i < d->slots; i++) {
        bool is_there = tokens[i] >= 0;
        to[i] = is_there ? tokens[i] : 0;
        slots[i] = is_there ? (int32_t)i : -1;
        places[i] = is_there ? positions[i] : 0;
    }
    tide_machine_run(machine, d->next.program);
    return tide_machine_result(machine, d->next.program, d->logits);
}

int tide_sampler_new(const struct tide_gpt_config *config, const struct tide_gpt_decoder *decoder,
                     struct tide_machine *machine, struct tide_sampler **ret_sampler, struct tide_err *err)
{
    struct tide_sampler *s = calloc(1, sizeof *s);
    if (!s)
        return tide_err_set(err, "out of memory");
    TIDE_CHECK(decoder->slots, ==, 1);
    s->machine = machine;
    s->decoder = *decoder;
    s->next = -1;
    s->vocabulary = config->vocabulary;
    s->said = calloc((size_t)decoder->window, sizeof *s->said);
    if (!s->said) {
        tide_sampler_free(s);
        return tide_err_set(err, "out of memory");
    }
    *ret_sampler = s;
    return 0;
}

void tide_sampler_free(struct tide_sampler *s)
{
    if (!s)
        return;
    free(s->said);
    free(s);
}

/* Reads one row, after the tokens so far. */
static void read_one(struct tide_sampler *s, int32_t token)
{
    int32_t position = (int32_t)s->count;
    TIDE_CHECK(token, >=, 0);
    TIDE_CHECK(token, <, s->vocabulary);
    s->said[s->count++] = token;
    s->logits = tide_decoder_next(&s->decoder, s->machine, &token, &position);
}

void tide_sampler_start(struct tide_sampler *s, const int32_t *prompt, int64_t count)
{
    TIDE_CHECK(count, >, 0);
    int64_t read = count < s->decoder.window ? count : s->decoder.window;
    s->count = read - 1;
    s->made = 0;
    s->next = -1;
    memcpy(s->said, prompt + count - read, (size_t)s->count * sizeof *prompt);
    tide_decoder_read(&s->decoder, s->machine, 0, s->said, s->count);
    read_one(s, prompt[count - 1]);
}

static void append(struct tide_sampler *s, int32_t token)
{
    if (s->count == s->decoder.window) {
        int64_t kept = s->decoder.window / 2;
        memmove(s->said, s->said + s->count - kept, (size_t)kept * sizeof *s->said);
        s->count = kept;
        tide_decoder_read(&s->decoder, s->machine, 0, s->said, kept);
    }
    read_one(s, token);
}

/* Reads the token chosen last. Costs a row, so it is done only when something follows. */
static void read_chosen(struct tide_sampler *s)
{
    if (s->next >= 0)
        append(s, s->next);
    s->next = -1;
}

void tide_sampler_append(struct tide_sampler *s, int32_t token)
{
    read_chosen(s);
    append(s, token);
}

const float *tide_sampler_logits(struct tide_sampler *s)
{
    read_chosen(s);
    return s->logits;
}

int32_t tide_sampler_next(struct tide_sampler *s, const struct tide_sample_rule *rule)
{
    read_chosen(s);
    double draw = tide_random_unit(rule->seed, s->made++, 0);
    int64_t token = tide_sample_choose(s->logits, s->vocabulary, rule, draw, NULL);
    s->next = (int32_t)token;
    return s->next;
}

int64_t tide_sampler_tokens(struct tide_sampler *s, const int32_t *prompt, int64_t prompt_count,
                            const struct tide_sample_rule *rule, int32_t stop, int32_t *out, int64_t most)
{
    int64_t made = 0;
    tide_sampler_start(s, prompt, prompt_count);
    while (made < most) {
        int32_t token = tide_sampler_next(s, rule);
        if (token < 0)
            break;
        out[made++] = token;
        if (token == stop)
            break;
    }
    return made;
}

double tide_sampler_accuracy(struct tide_sampler *s, const struct tide_data *data,
                             const struct tide_vocabulary *vocabulary, int64_t questions)
{
    enum { LONGEST = 32, ANSWER = 8 };
    struct tide_sample_rule greedy = {.top_p = 1};
    int64_t right = 0;
    int32_t end;
    TIDE_CHECK(tide_vocabulary_tokens(vocabulary, "\n", &end, NULL), ==, 1);
    for (int64_t i = 0; i < questions; i++) {
        char prompt[LONGEST], answer[16 * ANSWER + 1];
        int32_t tokens[LONGEST], made[ANSWER];
        tide_data_question(data, (uint64_t)i, true, prompt, sizeof prompt);
        int64_t count = tide_vocabulary_tokens(vocabulary, prompt, tokens, NULL);
        TIDE_CHECK(count, >, 0);
        int64_t said = tide_sampler_tokens(s, tokens, count, &greedy, end, made, ANSWER);
        tide_vocabulary_show(vocabulary, made, said, answer, sizeof answer);
        right += tide_data_is_right(prompt, answer);
    }
    return questions > 0 ? (double)right / (double)questions : 0;
}
