#include "train/reward_lines.h"
#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- the question */

enum part { HEAD, FIELDS, BETWEEN, OPENING, TEXT, CLOSING, TAIL, OVER };

/* Writes as much of a part as there is room for; true: all of it. */
static bool put_some(struct tide_reward_question *q, const char *text, size_t len, char *out, size_t room,
                     size_t *made)
{
    size_t left = len - q->at, count = left < room - *made ? left : room - *made;
    memcpy(out + *made, text + q->at, count);
    *made += count;
    q->at += count;
    return q->at == len;
}

static bool put_word(struct tide_reward_question *q, const char *word, char *out, size_t room, size_t *made)
{
    return put_some(q, word, strlen(word), out, room, made);
}

static bool put_text(struct tide_reward_question *q, char *out, size_t room, size_t *made)
{
    const struct tide_completion_text *c = &q->completions[q->completion];
    while (q->at < c->len) {
        size_t len;
        if (room - *made < TIDE_JSON_RUNE)
            return false;
        q->at += tide_json_rune(c->bytes + q->at, c->len - q->at, out + *made, &len);
        *made += len;
    }
    return true;
}

static bool put_part(struct tide_reward_question *q, char *out, size_t room, size_t *made)
{
    switch ((enum part)q->part) {
    case HEAD:
        return put_word(q, "{", out, room, made);
    case FIELDS:
        return put_some(q, q->prompt->fields, q->prompt->fields_len, out, room, made);
    case BETWEEN:
        return put_word(q, ",\"completions\":[", out, room, made);
    case OPENING:
        return put_word(q, q->completion ? ",\"" : "\"", out, room, made);
    case TEXT:
        return put_text(q, out, room, made);
    case CLOSING:
        return put_word(q, "\"", out, room, made);
    case TAIL:
        return put_word(q, "]}\n", out, room, made);
    case OVER:
        break;
    }
    return false;
}

size_t tide_reward_question_next(struct tide_reward_question *q, char *out, size_t room)
{
    size_t made = 0;
    TIDE_CHECK(room, >=, TIDE_REWARD_PIECE_LEAST);
    while (q->part != OVER && put_part(q, out, room, &made)) {
        bool more = q->part == CLOSING && ++q->completion < q->count;
        q->part = more ? OPENING : q->part + 1;
        q->at = 0;
    }
    return made;
}

/* ---- the answer */

size_t tide_reward_answer_most(int64_t count)
{
    return 4096 + 64 * (size_t)count;
}

static char *after_spaces(char *text)
{
    return text + strspn(text, " \t\r");
}

/* Returns the length of the JSON number at text; 0: there is none. */
static size_t number_length(const char *text)
{
    static const char digits[] = "0123456789";
    const char *at = text + (*text == '-');
    size_t whole = strspn(at, digits);
    if (!whole || (*at == '0' && whole > 1))
        return 0;
    at += whole;
    if (*at == '.') {
        size_t more = strspn(at + 1, digits);
        if (!more)
            return 0;
        at += 1 + more;
    }
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '+' || at[1] == '-');
        size_t more = strspn(at, digits);
        if (!more)
            return 0;
        at += more;
    }
    return (size_t)(at - text);
}

static int refuse_line(const char *line, size_t len, struct tide_err *err)
{
    tide_err_set(err, "answered '%s', which is not a JSON array of numbers", TIDE_ESCAPED(line, len, 160));
    return tide_err_hint(
        err,
        "it must write one line like [1, 0.5] for each line that it reads; messages for people go to standard error");
}

/* Parses reward n at text and returns its end. NULL with a sentence. */
static char *take_reward(char *text, int64_t n, int64_t count, float *ret_reward, struct tide_err *err)
{
    size_t len = number_length(text), shown_len = strcspn(text, ",]");
    double value = NAN;
    if (len) {
        char after = text[len];
        text[len] = '\0';
        if (tide_real_parse(text, &value) || fabs(value) > (double)FLT_MAX)
            value = NAN;
        text[len] = after;
    }
    if (!isnan(value)) {
        *ret_reward = (float)value;
        return after_spaces(text + len);
    }
    tide_err_set(err, "answered '%s' as reward %lld of %lld, which is not a finite number",
                 TIDE_ESCAPED(text, shown_len, 48), (long long)n + 1, (long long)count);
    tide_err_hint(err, "each reward is a number");
    return NULL;
}

/* Returns what follows the bracket that opens the numbers. NULL: something else is there. */
static char *open_array(char *line, bool *ret_object)
{
    static const char key[] = "\"rewards\"";
    char *at = after_spaces(line);
    *ret_object = *at == '{';
    if (*ret_object) {
        at = after_spaces(at + 1);
        if (strncmp(at, key, strlen(key)) != 0)
            return NULL;
        at = after_spaces(at + strlen(key));
        if (*at != ':')
            return NULL;
        at = after_spaces(at + 1);
    }
    return *at == '[' ? after_spaces(at + 1) : NULL;
}

int tide_reward_answer(char *line, size_t len, int64_t count, float *ret_rewards, struct tide_err *err)
{
    bool object;
    int64_t found = 0;
    char *at = strlen(line) == len ? open_array(line, &object) : NULL;
    if (!at)
        return refuse_line(line, len, err);
    for (bool more = *at != ']'; more; found++) {
        float reward;
        if (!(at = take_reward(at, found, count, &reward, err)))
            return -1;
        if (found < count)
            ret_rewards[found] = reward;
        more = *at == ',';
        at = more ? after_spaces(at + 1) : at;
    }
    if (*at != ']')
        return refuse_line(line, len, err);
    at = after_spaces(at + 1);
    if (object && *at != '}')
        return refuse_line(line, len, err);
    if (*after_spaces(at + object))
        return refuse_line(line, len, err);
    if (found != count) {
        tide_err_set(err, "gave %lld rewards for %lld completions", (long long)found, (long long)count);
        return tide_err_hint(err, "it must give one reward for each completion, in their order");
    }
    return 0;
}
