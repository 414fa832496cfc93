#include "train/rollout.h"
#include "base/check.h"
#include "rt/cpu/threads.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

struct slot {
    int64_t sequence; /* -1: none */
    int64_t prompt;   /* whose keys and values it has; -1: none */
    bool waits;       /* it gets them when the collected prompts are read */
    int from;         /* copies them from this slot; -1: from the prompt */
};

struct sequence {
    int64_t count;
    bool ended;
};

struct tide_rollout {
    struct tide_gpt_decoder decoder;
    struct tide_machine *machine;
    int64_t vocabulary, most_sequences, most_new;
    struct tide_rollout_request request;
    int64_t sequences, begun, made; /* of the request; started so far; tokens made */
    int latest;                     /* the slot that started last */
    const float *logits;
    /* The following arrays are in memory after this struct. */
    struct slot *slots;
    struct sequence *lengths;         /* of sequences */
    int32_t *tokens;                  /* (sequences, new) */
    float *log_probabilities;         /* likewise */
    int32_t *read, *positions, *busy; /* (slots): next tokens and their positions; slots with a sequence */
    int busy_count;
};

/* Places the struct and its arrays in `memory`; NULL: only returns their size. */
static size_t place(char *memory, size_t slots, int64_t sequences, int64_t new_tokens)
{
    size_t made = (size_t)sequences * (size_t)new_tokens, at = 0;
    struct tide_rollout none = {.slots = NULL}, *r = tide_part(memory, &at, sizeof none);
    r = r ? r : &none;
    r->slots = tide_part(memory, &at, slots * sizeof *r->slots);
    r->lengths = tide_part(memory, &at, (size_t)sequences * sizeof *r->lengths);
    r->tokens = tide_part(memory, &at, made * sizeof *r->tokens);
    r->log_probabilities = tide_part(memory, &at, made * sizeof *r->log_probabilities);
    r->read = tide_part(memory, &at, slots * sizeof *r->read);
    r->positions = tide_part(memory, &at, slots * sizeof *r->positions);
    r->busy = tide_part(memory, &at, slots * sizeof *r->busy);
    return at;
}

size_t tide_rollout_bytes(int64_t slots, int64_t sequences, int64_t new_tokens)
{
    return place(NULL, (size_t)slots, sequences, new_tokens);
}

int tide_rollout_new(const struct tide_gpt_config *config, const struct tide_gpt_decoder *decoder,
                     struct tide_machine *machine, int64_t sequences, int64_t new_tokens,
                     struct tide_rollout **ret_rollout, struct tide_err *err)
{
    enum { MOST = 1 << 24 };
    if (sequences < 1 || new_tokens < 1 || sequences > MOST || new_tokens > MOST)
        return tide_err_set(err, "%lld sequences of %lld new tokens are impossible", (long long)sequences,
                            (long long)new_tokens);
    size_t bytes = tide_rollout_bytes(decoder->slots, sequences, new_tokens);
    char *memory = malloc(bytes);
    if (!memory)
        return tide_err_set(err, "out of memory for %lld completions", (long long)sequences);
    memset(memory, 0, bytes); /* touches its pages */
    place(memory, (size_t)decoder->slots, sequences, new_tokens);
    struct tide_rollout *r = (void *)memory;
    r->decoder = *decoder;
    r->machine = machine;
    r->vocabulary = config->vocabulary;
    r->most_sequences = sequences;
    r->most_new = new_tokens;
    *ret_rollout = r;
    return 0;
}

void tide_rollout_free(struct tide_rollout *rollout)
{
    free(rollout);
}

static int check_prompt(const struct tide_rollout *r, const struct tide_rollout_request *q, int64_t number,
                        struct tide_err *err)
{
    const struct tide_rollout_prompt *p = &q->prompts[number];
    /* The last new token is not read. */
    int64_t room = r->decoder.window + 1 - q->new_tokens;
    if (p->count < 1)
        return tide_err_set(err, "prompt %lld is empty", (long long)number + 1);
    if (p->count > room)
        return tide_err_set(err,
                            "prompt %lld has %lld tokens; with %lld new ones there is room for only %lld",
                            (long long)number + 1, (long long)p->count, (long long)q->new_tokens,
                            (long long)(room > 0 ? room : 0));
    for (int64_t i = 0; i < p->count; i++)
        if (p->tokens[i] < 0 || p->tokens[i] >= r->vocabulary)
            return tide_err_set(err, "prompt %lld has the token %d, and the vocabulary ends at %lld",
                                (long long)number + 1, p->tokens[i], (long long)r->vocabulary - 1);
    return 0;
}

int tide_rollout_start(struct tide_rollout *r, const struct tide_rollout_request *q, struct tide_err *err)
{
    TIDE_CHECK(q->prompt_count * q->group, <=, r->most_sequences);
    TIDE_CHECK(q->new_tokens, <=, r->most_new);
    if (tide_sample_rule_check(&q->rule, err))
        return -1;
    for (int64_t i = 0; i < q->prompt_count; i++)
        if (check_prompt(r, q, i, err))
            return -1;
    r->request = *q;
    r->sequences = q->prompt_count * q->group;
    r->begun = r->made = 0;
    for (int64_t i = 0; i < r->decoder.slots; i++)
        r->slots[i] = (struct slot){.sequence = -1, .prompt = -1};
    memset(r->lengths, 0, (size_t)r->sequences * sizeof *r->lengths);
    return 0;
}

static const struct tide_rollout_prompt *prompt_of(const struct tide_rollout *r, int slot)
{
    return &r->request.prompts[r->slots[slot].prompt];
}

/* Sequences start in order, so if any slot has the next prompt, it is the one that started last. The last
 * token of a prompt is read together with the other slots' tokens, because its logits are needed. */
static void begin(struct tide_rollout *r, int slot, int64_t *rows)
{
    struct slot *s = &r->slots[slot];
    int64_t number = r->begun / r->request.group;
    bool has = s->prompt == number, reads = r->begun % r->request.group == 0;
    *s = (struct slot){.sequence = r->begun++, .prompt = number, .from = -1};
    const struct tide_rollout_prompt *p = prompt_of(r, slot);
    if (!has && reads) {
        s->waits = true;
        tide_decoder_put(&r->decoder, r->machine, slot, p->tokens, p->count - 1, rows);
    } else if (!has && r->slots[r->latest].waits) {
        s->waits = true;
        s->from = r->latest;
    } else if (!has)
        tide_decoder_copy(&r->decoder, r->machine, slot, r->latest, p->count - 1);
    r->latest = slot;
    r->read[slot] = p->tokens[p->count - 1];
    r->positions[slot] = (int32_t)p->count - 1;
}

/* Gives free slots a sequence while there are any. Prompts are read together; a slot that waits for another's
 * copies it afterwards. */
static void begin_all(struct tide_rollout *r)
{
    int64_t rows = 0;
    for (int i = 0; i < (int)r->decoder.slots && r->begun < r->sequences; i++)
        if (r->slots[i].sequence < 0)
            begin(r, i, &rows);
    tide_decoder_flush(&r->decoder, r->machine, &rows);
    for (int i = 0; i < (int)r->decoder.slots; i++) {
        struct slot *s = &r->slots[i];
        if (s->waits && s->from >= 0)
            tide_decoder_copy(&r->decoder, r->machine, i, s->from, prompt_of(r, i)->count - 1);
        s->waits = false;
    }
}

/* Chooses the next token in some slots. Below 0: there is none. */
static void choose_some(void *context, int64_t first, int64_t last)
{
    struct tide_rollout *r = context;
    const struct tide_rollout_request *q = &r->request;
    for (; first < last; first++) {
        int slot = r->busy[first];
        int64_t sequence = r->slots[slot].sequence, at = r->lengths[sequence].count,
                to = sequence * r->most_new + at;
        double draw =
            tide_random_unit(tide_random_at(q->rule.seed, q->step, 0), (uint64_t)sequence, (uint64_t)at);
        r->tokens[to] = (int32_t)tide_sample_choose(r->logits + slot * r->vocabulary, r->vocabulary, &q->rule,
                                                    draw, &r->log_probabilities[to]);
    }
}

/* Appends the token chosen in a slot. */
static int settle(struct tide_rollout *r, int slot, struct tide_err *err)
{
    struct slot *s = &r->slots[slot];
    struct sequence *length = &r->lengths[s->sequence];
    int32_t token = r->tokens[s->sequence * r->most_new + length->count];
    if (token < 0)
        return tide_err_set(err, "the logits after %lld tokens of completion %lld are not numbers",
                            (long long)length->count, (long long)s->sequence + 1);
    length->count++;
    r->made++;
    length->ended = token == r->request.end;
    r->read[slot] = token;
    r->positions[slot]++;
    if (length->ended || length->count == r->request.new_tokens)
        s->sequence = -1;
    return 0;
}

int tide_rollout_next(struct tide_rollout *r, struct tide_err *err)
{
    r->busy_count = 0;
    begin_all(r);
    for (int i = 0; i < (int)r->decoder.slots; i++) {
        if (r->slots[i].sequence >= 0)
            r->busy[r->busy_count++] = i;
        else
            r->read[i] = -1;
    }
    if (!r->busy_count)
        return 0;
    r->logits = tide_decoder_next(&r->decoder, r->machine, r->read, r->positions);
    tide_parallel(r->busy_count, 1, choose_some, r);
    bool more = r->begun < r->sequences;
    for (int i = 0; i < r->busy_count; i++) {
        if (settle(r, r->busy[i], err))
            return -1;
        more |= r->slots[r->busy[i]].sequence >= 0;
    }
    return more;
}

int64_t tide_rollout_made(const struct tide_rollout *r)
{
    return r->made;
}

struct tide_completion tide_rollout_completion(const struct tide_rollout *r, int64_t sequence)
{
    TIDE_CHECK(sequence, <, r->sequences);
    return (struct tide_completion){.tokens = r->tokens + sequence * r->most_new,
                                    .log_probabilities = r->log_probabilities + sequence * r->most_new,
                                    .count = r->lengths[sequence].count,
                                    .ended = r->lengths[sequence].ended};
}
