#include "cli/stepwords.h"

#include "base/escape.h"
#include "base/text.h"
#include "base/units.h"

#include <ctype.h>
#include <regex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    COUNTERS = 12,
    KEPT = 32,        /* sightings of a counter until it is believed; every second one is dropped when full */
    FOUND_STEPS = 64, /* every second one is dropped when full */
    LABEL = 16,
    GIVES_WAY = 5,        /* rises of another counter before one that reached its total gives way */
    SAME_PACE = 4,        /* a counter that is this many times faster or slower counts something else */
    CONFIRM_SLACK = 1000, /* a jump ahead by more than this plus 100 strides must be seen twice */
};

struct line {
    enum tide_escape escape;
    size_t string_bytes;
    bool cut;  /* too long; the rest is ignored */
    bool skip; /* began before a gap */
    size_t len;
    int64_t t_ns;
    char text[TIDE_STEPWORDS_LINE + 1];
};

/* One series of numbers that the program prints. */
struct counter {
    int rank; /* lower is better: 0 the caller's expression, 1 global_step, 2 everything else; -1: free slot
               */
    char label[LABEL];
    int pattern;
    int64_t total; /* 0: none printed */
    int64_t last, offset, stride;
    int64_t suspect; /* a jump ahead not yet confirmed; -1: none */
    int64_t rises;
    int64_t rises_alone;       /* rises since the believed counter was last seen */
    int64_t began_ns, last_ns; /* of the count since its last restart */
    int stage;                 /* in which it was last believed; 0: never */
    int64_t emitted;           /* the last step it supplied before another was believed */
    bool came_back;            /* after it had given way: as training does after validation */
    struct tide_stepwords_found kept[KEPT];
    size_t kept_count;
};

struct tide_stepwords {
    bool has_regex;
    regex_t regex;
    struct line lines[TIDE_STEPWORDS_STREAMS];
    struct counter counters[COUNTERS];
    int believed; /* index, -1: none yet */
    int stage;
    int64_t last_step, last_epoch;
    struct tide_stepwords_found steps[FOUND_STEPS], epochs[TIDE_STEPWORDS_TAKE];
    size_t step_count, epoch_count;
};

/* ---- numbers ---- */

static const char *skip_spaces(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

/* Digits, perhaps grouped as 1,234 or 1_234. Returns where they end, or NULL. */
static const char *whole(const char *p, int64_t *ret)
{
    if (!isdigit((unsigned char)*p))
        return NULL;
    int64_t value = 0;
    int run = 0; /* digits since the last separator */
    for (;; p++) {
        if (isdigit((unsigned char)*p)) {
            value = value * 10 + (*p - '0');
            run++;
            if (value > TIDE_EXACT_MOST)
                return NULL;
        } else if ((*p == ',' || *p == '_') && run >= 1 && run <= 3 && isdigit((unsigned char)p[1]) &&
                   isdigit((unsigned char)p[2]) && isdigit((unsigned char)p[3]) &&
                   !isdigit((unsigned char)p[4])) {
            run = 0;
        } else {
            break;
        }
    }
    *ret = value;
    return p;
}

/* "12/100", with or without spaces at the slash. Returns where it ends, or NULL. */
static const char *whole_of(const char *p, int64_t *ret_number, int64_t *ret_total)
{
    const char *end = whole(p, ret_number), *slash = end ? skip_spaces(end) : "";
    return *slash == '/' ? whole(skip_spaces(slash + 1), ret_total) : NULL;
}

/* Parses a number of a bar, which may be abbreviated: 120, 1.20k, 3M. */
static const char *scaled(const char *p, int64_t *ret)
{
    int64_t value;
    const char *end = whole(p, &value);
    if (!end)
        return NULL;
    double exact = (double)value, place = 0.1;
    if (*end == '.' && isdigit((unsigned char)end[1]))
        for (end++; isdigit((unsigned char)*end); end++, place /= 10)
            exact += (*end - '0') * place;
    double factor = *end == 'k' ? 1e3 : *end == 'M' ? 1e6 : *end == 'G' ? 1e9 : 1;
    if (factor > 1)
        end++;
    if (exact * factor > (double)TIDE_EXACT_MOST)
        return NULL;
    *ret = (int64_t)(exact * factor + 0.5);
    return end;
}

/* ---- what is known of counters ---- */

/* True if a bar or count with this label does not belong to the training loop. */
static bool is_side_work(const char *label)
{
    static const char *const stems[] = {
        "val",     "eval",  "test",  "download", "load",   "fetch",   "map",    "token",   "filter",
        "generat", "sav",   "shard", "comput",   "resolv", "extract", "sampl",  "predict", "collect",
        "cach",    "infer", "read",  "prepar",   "sanity", "writ",    "upload", "quanti",  "warm"};
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++)
        if (!strncmp(label, stems[i], strlen(stems[i])))
            return true;
    return false;
}

/* Copies the first word before `end`, in lower case: the name of a bar, without the numbers that change. */
static void label_of(const char *from, const char *end, char label[LABEL])
{
    size_t n = 0;
    while (from < end && !isalpha((unsigned char)*from))
        from++;
    for (; from < end && isalpha((unsigned char)*from); from++)
        if (n < LABEL - 1)
            label[n++] = (char)tolower((unsigned char)*from);
    label[n] = '\0';
}

/* Copies the word that ends just before `p`, in lower case. */
static void label_before(const char *line, const char *p, char label[LABEL])
{
    while (p > line && !isalnum((unsigned char)p[-1]))
        p--;
    const char *end = p;
    while (p > line && isalpha((unsigned char)p[-1]))
        p--;
    label_of(p, end, label);
}

struct sighting {
    int rank, pattern;
    char label[LABEL];
    int64_t number, total;
};

enum pattern {
    BY_REGEX,
    BY_GLOBAL,
    BY_BAR,
    BY_BARE_COUNT,
    BY_STEP,
    BY_ITER,
    BY_IT,
    BY_UPDATE,
    BY_BATCH,
    BY_BRACKET,
    BY_METRIC
};

/* ---- bars ---- */

static bool is_clock(const char *p) /* "00:12", "1:02:03" */
{
    size_t digits = strspn(p, "0123456789");
    return digits > 0 && digits < 5 && p[digits] == ':' && isdigit((unsigned char)p[digits + 1]);
}

/* True if what follows "12/100" makes it a bar: " [00:12<", " 00:12<", " [====>", " ━━━". */
static bool ends_bar(const char *p)
{
    if (p[0] != ' ')
        return false;
    p = skip_spaces(p);
    if (is_clock(p) && p[strspn(p, "0123456789:")] == '<')
        return true;
    if (!strncmp(p, "\xe2\x94\x81", 3) || !strncmp(p, "\xe2\x95\xb8", 3))
        return true;
    return *p == '[' && (is_clock(p + 1) || (p[1] && strchr("=>.-", p[1])));
}

/* True if a bar precedes the count: "━━ 12/100" as Rich draws it. */
static bool follows_bar(const char *line, const char *p)
{
    while (p > line && p[-1] == ' ')
        p--;
    return p - line >= 3 && (!memcmp(p - 3, "\xe2\x94\x81", 3) || !memcmp(p - 3, "\xe2\x95\xba", 3));
}

/* after_bar: finds only a count that a bar precedes; otherwise only one that a bar or a clock follows. */
static bool find_bar(const char *line, bool after_bar, struct sighting *ret)
{
    for (const char *p = line; *p; p++) {
        if (!isdigit((unsigned char)*p) || (p > line && (isalnum((unsigned char)p[-1]) || p[-1] == '.')))
            continue;
        int64_t number, total;
        const char *end = scaled(p, &number);
        if (!end)
            continue;
        if (!after_bar && !strncmp(end, "it [", 4) && is_clock(end + 4)) {
            *ret = (struct sighting){.rank = 2, .pattern = BY_BARE_COUNT, .number = number};
        } else if (!after_bar && !strncmp(end, "/? [", 4) && is_clock(end + 4)) {
            *ret = (struct sighting){.rank = 2, .pattern = BY_BAR, .number = number};
        } else if (*end == '/') {
            const char *after = scaled(skip_spaces(end + 1), &total);
            if (!after || total < number || total < 2 ||
                !(after_bar ? follows_bar(line, p) : ends_bar(after)))
                continue;
            *ret = (struct sighting){.rank = 2, .pattern = BY_BAR, .number = number, .total = total};
        } else {
            continue;
        }
        label_of(line, p, ret->label);
        return true;
    }
    return false;
}

/* ---- words ---- */

/* Returns the number after a word, or NULL. Between them may stand: a quote, "(train)", spaces, one of : = #
 * |, spaces, a bracket or a quote. */
static const char *to_number(const char *p, char label[LABEL])
{
    if (*p == '\'' || *p == '"')
        p++;
    if (*p == '(') {
        const char *close = strchr(p, ')');
        if (!close || close - p > LABEL)
            return NULL;
        label_of(p, close, label);
        p = close + 1;
    }
    p = skip_spaces(p);
    if (*p == ':' || *p == '=' || *p == '#' || *p == '|')
        p++;
    p = skip_spaces(p);
    if (*p == '[' || *p == '(' || *p == '\'' || *p == '"')
        p = skip_spaces(p + 1);
    return isdigit((unsigned char)*p) ? p : NULL;
}

/* True if a count may end here: before a space, punctuation or the end. "12ms", "12%", "0.5" do not count. */
static bool ends_count(const char *p)
{
    if (*p == '.' && isdigit((unsigned char)p[1]))
        return false;
    if (*p == '%' || isalpha((unsigned char)*p))
        return false;
    const char *unit = skip_spaces(p);
    size_t len = strspn(unit, "abcdefghijklmnopqrstuvwxyz");
    return !((len == 1 && *unit == 's') ||
             (len == 2 && (!strncmp(unit, "ms", 2) || !strncmp(unit, "us", 2))) ||
             (len == 3 && !strncmp(unit, "sec", 3)));
}

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Parses "12" or "12/100" at p into ret. False if it is not a count. */
static bool read_count(const char *p, struct sighting *ret)
{
    int64_t total;
    const char *end = whole(p, &ret->number), *after = whole_of(p, &ret->number, &total);
    bool has_total = after && ends_count(after);
    ret->total = has_total && total >= ret->number ? total : 0;
    return has_total || (end && ends_count(end));
}

static const struct word {
    const char *text;
    int rank;
    enum pattern pattern;
} words_known[] = {
    {"global_step", 1, BY_GLOBAL},
    {"global step", 1, BY_GLOBAL},
    {"globalstep", 1, BY_GLOBAL},
    {"num_updates", 1, BY_GLOBAL},
    {"train_step", 2, BY_STEP},
    {"training_step", 2, BY_STEP},
    {"step", 2, BY_STEP},
    {"iteration", 2, BY_ITER},
    {"iterations", 2, BY_ITER},
    {"iter", 2, BY_ITER},
    {"update", 2, BY_UPDATE},
    {"batch", 2, BY_BATCH},
    {"it", 2, BY_IT},
};

/* True if p is at the start of a line or after punctuation. "it" is a count only there, not in "ran it 12
 * times". */
static bool is_set_apart(const char *line, const char *p)
{
    while (p > line && (p[-1] == ' ' || p[-1] == '\t'))
        p--;
    return p == line || strchr("[](){}|,;:>-", p[-1]);
}

static bool find_this_word(const char *line, const struct word *word, struct sighting *ret)
{
    size_t len = strlen(word->text);
    for (const char *p = line; (p = strcasestr(p, word->text)) != NULL; p += len) {
        if ((p > line && is_word_char(p[-1])) || is_word_char(p[len]))
            continue;
        if (word->pattern == BY_IT && !is_set_apart(line, p))
            continue;
        if (p > line + 1 && p[-1] == '/' && p[-2] != 'r') /* "tokens/step 2048", but "trainer/global_step" */
            continue;
        struct sighting seen = {.rank = word->rank, .pattern = word->pattern};
        char before[LABEL];
        label_before(line, p, before);
        const char *number = to_number(p + len, seen.label);
        if (!number || !strcmp(before, "per") || is_side_work(before) || is_side_work(seen.label) ||
            !read_count(number, &seen))
            continue;
        *ret = seen;
        return true;
    }
    return false;
}

static bool find_word(const char *line, int rank, struct sighting *ret)
{
    for (size_t i = 0; i < sizeof words_known / sizeof *words_known; i++)
        if (words_known[i].rank == rank && find_this_word(line, &words_known[i], ret))
            return true;
    return false;
}

/* "| 200/ 2983 batches |" */
static bool find_batches(const char *line, struct sighting *ret)
{
    static const char *const units[] = {"batches", "steps", "iters", "iterations"};
    for (const char *p = line; *p; p++) {
        if (!isdigit((unsigned char)*p) || (p > line && (is_word_char(p[-1]) || p[-1] == '.')))
            continue;
        int64_t number, total;
        const char *end = whole_of(p, &number, &total);
        if (!end || total < number || *end != ' ')
            continue;
        end = skip_spaces(end);
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (!strncasecmp(end, units[i], strlen(units[i])) && !is_word_char(end[strlen(units[i])])) {
                *ret = (struct sighting){.rank = 2, .pattern = BY_BRACKET, .number = number, .total = total};
                label_of(line, p, ret->label);
                return !is_side_work(ret->label);
            }
    }
    return false;
}

/* True if the rest of the line has a training metric, which makes "12/100" a step. */
static bool has_metric(const char *rest)
{
    static const char *const words[] = {"loss",   "lr",   "acc", "accuracy", "ppl",   "perplexity", "reward",
                                        "return", "grad", "mse", "rmse",     "error", "it/s",       "tok/s"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *p = rest; (p = strcasestr(p, words[i])) != NULL; p++)
            if ((p == rest || !isalpha((unsigned char)p[-1])) && !isalpha((unsigned char)p[strlen(words[i])]))
                return true;
    return false;
}

/* True if the label counts something other than steps: "Epoch [3/10]", "fold 2/5". */
static bool counts_something_else(const char *label)
{
    static const char *const words[] = {"epoch",  "epochs", "fold",  "run",  "trial", "seed",
                                        "worker", "rank",   "gpu",   "file", "part",  "task",
                                        "stage",  "phase",  "round", "test"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(label, words[i]))
            return true;
    return is_side_work(label);
}

/* "[12/100] loss 0.3", "12/100 loss 0.3", "Train Epoch: 1 [640/60000 (1%)] Loss: 0.3" */
static bool find_counted(const char *line, struct sighting *ret)
{
    char first[LABEL], before[LABEL];
    label_of(line, line + strlen(line), first);
    for (const char *p = line; *p && !is_side_work(first); p++) {
        if (!isdigit((unsigned char)*p) || (p > line && !strchr(" \t[(|", p[-1])))
            continue;
        int64_t number, total;
        const char *end = whole_of(p, &number, &total);
        if (!end || total < 2 || total < number || *end == '/' || !ends_count(end) || !has_metric(end))
            continue;
        label_before(line, p, before);
        if (counts_something_else(before))
            continue;
        *ret = (struct sighting){.rank = 2, .pattern = BY_METRIC, .number = number, .total = total};
        memcpy(ret->label, first, LABEL);
        return true;
    }
    return false;
}

/* "[12]<TAB>train-rmse:0.23" */
static bool find_round(const char *line, struct sighting *ret)
{
    int64_t number;
    const char *end = line[0] == '[' ? whole(line + 1, &number) : NULL;
    if (!end || end[0] != ']' || end[1] != '\t' || !strchr(end, ':'))
        return false;
    *ret = (struct sighting){.rank = 2, .pattern = BY_BRACKET, .number = number};
    return true;
}

/* "Epoch 3", "epoch: 3/10", "[Epoch 3]", "'epoch': 0.5"; and the count in "Epoch: [3][ 120/1000]". */
static bool find_epoch(const char *line, int64_t *ret_epoch, struct sighting *ret_step, bool *ret_has_step)
{
    *ret_has_step = false;
    for (const char *p = line; (p = strcasestr(p, "epoch")) != NULL; p += 5) {
        if ((p > line && is_word_char(p[-1])) || is_word_char(p[5]))
            continue;
        char label[LABEL] = "";
        const char *number = to_number(p + 5, label);
        int64_t epoch;
        const char *end = number ? whole(number, &epoch) : NULL;
        if (!end || is_side_work(label))
            continue;
        if (*end == '.')
            end += 1 + strspn(end + 1, "0123456789");
        if (*end == '%' || isalpha((unsigned char)*end))
            continue;
        *ret_epoch = epoch;
        if (end[0] == ']' && end[1] == '[') {
            *ret_step = (struct sighting){.rank = 2, .pattern = BY_BRACKET};
            label_before(line, p, ret_step->label);
            *ret_has_step = read_count(skip_spaces(end + 2), ret_step) && !is_side_work(ret_step->label);
        }
        return true;
    }
    return false;
}

/* ---- following counters ---- */

/* Drops every second step but the last. Returns how many are left. */
static size_t halve(struct tide_stepwords_found *steps, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (i % 2 == 0 || i + 1 == count)
            steps[kept++] = steps[i];
    return kept;
}

static void emit_step(struct tide_stepwords *words, int64_t number, int64_t t_ns)
{
    if (number <= words->last_step)
        return;
    if (words->step_count == FOUND_STEPS)
        words->step_count = halve(words->steps, FOUND_STEPS);
    words->steps[words->step_count++] =
        (struct tide_stepwords_found){t_ns, TIDE_MARK_STEP, number, words->stage};
    words->last_step = number;
}

static void emit_epoch(struct tide_stepwords *words, int64_t number, int64_t t_ns)
{
    if (number <= words->last_epoch)
        return;
    words->last_epoch = number;
    if (words->epoch_count == TIDE_STEPWORDS_TAKE) /* keep the first ones and the newest */
        words->epoch_count--;
    words->epochs[words->epoch_count++] = (struct tide_stepwords_found){t_ns, TIDE_MARK_EPOCH, number, 0};
}

static bool same_total(int64_t a, int64_t b)
{
    if ((a == 0) != (b == 0))
        return false;
    int64_t most = a > b ? a : b, least = a > b ? b : a;
    return most - least <= most / 5;
}

/* Returns the counter of a sighting: the same pattern and name, and about the same total. A new one takes a
 * free slot or that of the least active counter. */
static struct counter *counter_for(struct tide_stepwords *words, const struct sighting *seen)
{
    struct counter *least = NULL;
    for (int i = 0; i < COUNTERS; i++) {
        struct counter *c = &words->counters[i];
        if (c->rank >= 0 && c->pattern == seen->pattern && !strcmp(c->label, seen->label) &&
            same_total(c->total, seen->total))
            return c;
        if (i == words->believed)
            continue;
        if (!least || (c->rank < 0 && least->rank >= 0) || (least->rank >= 0 && c->rises < least->rises))
            least = c;
    }
    *least = (struct counter){.rank = seen->rank,
                              .pattern = seen->pattern,
                              .total = seen->total,
                              .last = -1,
                              .suspect = -1,
                              .stride = 1};
    memcpy(least->label, seen->label, LABEL);
    return least;
}

static bool begins_again(const struct counter *c, const struct sighting *seen)
{
    int64_t back = c->last - seen->number;
    if (back <= 0 || seen->number > c->last / 2)
        return false;
    return back >= 3 || (c->total && c->last >= c->total - 1);
}

/* Adds what was counted before the restart to the offset, so that the sum continues. */
static void carry_over(struct counter *c, const struct sighting *seen)
{
    int64_t counted = c->total && c->last > c->total / 2 ? c->total : c->last + c->stride - seen->number;
    if (c->offset < TIDE_EXACT_MOST && counted > 0)
        c->offset += counted;
    c->last = -1;
}

/* Updates the counter with the number. True if it rose. */
static bool rise(struct counter *c, const struct sighting *seen, int64_t t_ns)
{
    if (c->last >= 0 && begins_again(c, seen))
        carry_over(c, seen);
    if (seen->number <= c->last) {
        c->suspect = -1;
        return false;
    }
    int64_t slack = CONFIRM_SLACK + 100 * c->stride;
    if (c->rises >= 2 && c->last >= 0 && seen->number - c->last > slack) {
        bool confirmed = c->suspect >= 0 && seen->number >= c->suspect && seen->number - c->suspect <= slack;
        c->suspect = confirmed ? -1 : seen->number;
        if (!confirmed)
            return false;
    } else {
        c->suspect = -1;
        if (c->last >= 0)
            c->stride = seen->number - c->last;
    }
    if (c->last < 0)
        c->began_ns = t_ns;
    if (c->last >= 0 || c->offset > 0)
        c->rises++;
    c->last = seen->number;
    c->last_ns = t_ns;
    c->total = seen->total;
    return true;
}

static bool has_finished(const struct counter *c)
{
    return c->total && c->last >= c->total - 1;
}

/* True if a counter that began when the other had finished counts something else: under another name, or at
 * quite another pace. */
static bool is_new_stage(const struct counter *old, const struct counter *c)
{
    if (!has_finished(old) || c->began_ns < old->last_ns)
        return false;
    double old_pace = (double)old->last / (double)(old->last_ns - old->began_ns + 1),
           pace = (double)c->last / (double)(c->last_ns - c->began_ns + 1);
    return c->pattern != old->pattern || strcmp(c->label, old->label) || pace > SAME_PACE * old_pace ||
           pace < old_pace / SAME_PACE;
}

static void believe(struct tide_stepwords *words, struct counter *c)
{
    struct counter *old = words->believed < 0 ? NULL : &words->counters[words->believed];
    bool afresh = !old || is_new_stage(old, c);
    words->believed = (int)(c - words->counters);
    if (old)
        old->emitted = words->last_step;
    if (c->came_back) {
        words->stage = c->stage;
        words->last_step = c->emitted;
    } else if (afresh) {
        words->stage++;
        words->last_step = -1;
        for (size_t i = 0; i < c->kept_count; i++)
            emit_step(words, c->kept[i].number, c->kept[i].t_ns);
    } else if (c->offset + c->last < words->last_step / 2 - 10) {
        c->offset = words->last_step + 1 - c->last; /* a much smaller count: continue from here */
    } /* otherwise its own numbers count, once they are larger */
    c->stage = words->stage;
}

static bool deserves_belief(const struct tide_stepwords *words, const struct counter *c)
{
    if (words->believed < 0)
        return c->rank == 0 || c->rises >= 2;
    const struct counter *now = &words->counters[words->believed];
    if (c->rank != now->rank)
        return c->rank < now->rank && c->rises >= 2;
    if (c->came_back)
        return true;
    if (has_finished(now) && !now->came_back && c->rises_alone >= GIVES_WAY &&
        c->last_ns - now->last_ns > now->last_ns - now->began_ns)
        return true;
    int64_t need = now->rises > 20 ? now->rises : 20;
    return c->rises_alone > need;
}

static void sight(struct tide_stepwords *words, const struct sighting *seen, int64_t t_ns)
{
    struct counter *c = counter_for(words, seen);
    bool is_believed = c - words->counters == words->believed;
    if (is_believed)
        for (int i = 0; i < COUNTERS; i++)
            words->counters[i].rises_alone = 0;
    if (!rise(c, seen, t_ns))
        return;
    c->rises_alone++;
    c->came_back = c->came_back || (!is_believed && c->stage > 0 && c->stage < words->stage);
    if (c->kept_count == KEPT)
        c->kept_count = halve(c->kept, KEPT);
    c->kept[c->kept_count++] = (struct tide_stepwords_found){t_ns, TIDE_MARK_STEP, c->offset + c->last, 0};
    if (!is_believed && deserves_belief(words, c)) {
        believe(words, c);
        is_believed = true;
    }
    if (is_believed)
        emit_step(words, c->offset + c->last, t_ns);
}

static void look_at_line(struct tide_stepwords *words, const char *line, int64_t t_ns)
{
    struct sighting seen = {0};
    if (words->has_regex) {
        regmatch_t group[2];
        seen.pattern = BY_REGEX;
        if (regexec(&words->regex, line, 2, group, 0) == 0 && group[1].rm_so >= 0 &&
            whole(line + group[1].rm_so, &seen.number))
            sight(words, &seen, t_ns);
        return;
    }
    int64_t epoch;
    struct sighting bracket;
    bool has_bracket = false;
    if (find_epoch(line, &epoch, &bracket, &has_bracket))
        emit_epoch(words, epoch, t_ns);
    if (find_word(line, 1, &seen))
        sight(words, &seen, t_ns);
    else if (find_bar(line, true, &seen) || find_bar(line, false, &seen)) {
        if (!is_side_work(seen.label))
            sight(words, &seen, t_ns);
    } else if (has_bracket)
        sight(words, &bracket, t_ns);
    else if (find_word(line, 2, &seen) || find_batches(line, &seen) || find_counted(line, &seen) ||
             find_round(line, &seen))
        sight(words, &seen, t_ns);
}

/* ---- lines ---- */

static void end_line(struct tide_stepwords *words, struct line *line)
{
    if (line->len && !line->skip) {
        line->text[line->len] = '\0';
        look_at_line(words, line->text, line->t_ns);
    }
    line->len = 0;
    line->cut = line->skip = false;
}

void tide_stepwords_feed(struct tide_stepwords *words, int stream, const char *bytes, size_t len,
                         int64_t t_ns)
{
    struct line *line = &words->lines[stream];
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        enum tide_escape before = line->escape;
        if ((c == '\n' || c == '\r') && before < TIDE_ESCAPE_STRING) {
            line->escape = TIDE_ESCAPE_NONE;
            end_line(words, line);
            continue;
        }
        line->escape = tide_escape_next(before, c);
        line->string_bytes = line->escape < TIDE_ESCAPE_STRING ? 0 : line->string_bytes + 1;
        if (line->string_bytes > TIDE_STEPWORDS_LINE) {
            line->escape = TIDE_ESCAPE_NONE;
        } else if (before == TIDE_ESCAPE_NONE && line->escape == TIDE_ESCAPE_NONE &&
                   ((c >= 0x20 && c != 0x7f) || c == '\t')) {
            line->cut = line->cut || line->len == TIDE_STEPWORDS_LINE;
            if (!line->cut)
                line->text[line->len++] = (char)c;
            line->t_ns = t_ns;
        }
    }
}

void tide_stepwords_gap(struct tide_stepwords *words, int stream)
{
    struct line *line = &words->lines[stream];
    line->skip = true;
    line->len = 0;
    line->escape = TIDE_ESCAPE_NONE;
}

void tide_stepwords_end(struct tide_stepwords *words)
{
    for (int i = 0; i < TIDE_STEPWORDS_STREAMS; i++)
        end_line(words, &words->lines[i]);
}

size_t tide_stepwords_take(struct tide_stepwords *words,
                           struct tide_stepwords_found ret_found[static 2 * TIDE_STEPWORDS_TAKE])
{
    size_t steps = words->step_count < TIDE_STEPWORDS_TAKE ? words->step_count : TIDE_STEPWORDS_TAKE;
    size_t count = 0, e = 0;
    for (size_t i = 0; i < steps; i++) {
        size_t at = steps > 1 ? i * (words->step_count - 1) / (steps - 1) : 0;
        while (e < words->epoch_count && words->epochs[e].t_ns <= words->steps[at].t_ns)
            ret_found[count++] = words->epochs[e++];
        ret_found[count++] = words->steps[at];
    }
    while (e < words->epoch_count)
        ret_found[count++] = words->epochs[e++];
    words->step_count = words->epoch_count = 0;
    return count;
}

int tide_stepwords_new(const char *regex, struct tide_stepwords **ret_words, struct tide_err *err)
{
    struct tide_stepwords *words = calloc(1, sizeof *words);
    if (!words)
        return tide_err_set(err, "not enough memory");
    words->believed = -1;
    words->last_step = words->last_epoch = -1;
    for (int i = 0; i < COUNTERS; i++)
        words->counters[i].rank = -1;
    if (regex) {
        int bad = regcomp(&words->regex, regex, REG_EXTENDED);
        if (bad || words->regex.re_nsub < 1) {
            char why[160] = "it has no group (...) for the number";
            if (bad)
                regerror(bad, &words->regex, why, sizeof why);
            else
                regfree(&words->regex);
            free(words);
            tide_err_set(err, "option '--step-regex': '%s': %s", TIDE_SHOWN(regex, 120), why);
            return tide_err_hint(err, "the first group is the step: --step-regex 'update ([0-9]+)'");
        }
        words->has_regex = true;
    }
    *ret_words = words;
    return 0;
}

void tide_stepwords_free(struct tide_stepwords *words)
{
    if (!words)
        return;
    if (words->has_regex)
        regfree(&words->regex);
    free(words);
}
