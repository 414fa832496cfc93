#include "cli/stepwords.h"

#include "base/escape.h"
#include "base/text.h"
#include "base/units.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- the ways of printing a count ---- */

enum pattern {
    BY_REGEX,
    BY_EPOCH,
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

/* What names a counter: the word in parentheses ("Iter(train)"), the word before it, the first word before
 * its number, or the first word of the line. */
enum name { INSIDE, BEFORE, FIRST, FIRST_OF_LINE };

/* Digits, perhaps grouped as 1,234 or 1_234; the same as a bar shortens it: 1.20k, 3M. */
#define NUMBER  "(?>\\d{1,3}(?:[,_]\\d{3}(?!\\d))+|\\d+)"
#define SHORT   "((?>" NUMBER "(?:\\.\\d+)?(?-i:[kMG])?))"
#define OF      "[ \\t]*/[ \\t]*"
#define CLOCK   "\\d{1,4}:\\d" /* 00:12, 1:02:03 */
#define APART   "(?<![\\da-z.])"
#define NO_WORD "()" /* in place of the word in parentheses */

/* A count, perhaps with its total. "12ms", "12%" and "0.5" do not count. */
#define ENDS  "(?!\\.\\d|[%a-z])(?![ \\t]*(?-i:(?:s|ms|us|sec)(?![a-z])))"
#define COUNT "(" NUMBER ")(?:" OF "(" NUMBER "))?" ENDS

/* Between a word and its number: a quote, "(train)", spaces, one of : = # |, spaces, a bracket or a quote. */
#define TO_NUMBER "(?!\\w)['\"]?(?:\\(([^)]{0,15})\\)|(?!\\())[ \\t]*[:=#|]?[ \\t]*(?:[\\[('\"][ \\t]*)?"
/* Not "tokens/step 2048", "time per step 3". */
#define WORD(words) "(?<!\\w)(?<![^r]/)(?<!\\bper[\\W_])(?:" words ")" TO_NUMBER COUNT
#define EPOCH       "(?<!\\w)epoch" TO_NUMBER
#define METRIC                                                                                               \
    "(?<![a-z])(?:loss|lr|acc|accuracy|ppl|perplexity|reward|return|grad|mse|rmse|error|it/s|tok/s)(?![a-z])"

/* How counts are printed, in upper or lower case. A line is looked at for the ways from BY_GLOBAL on, in this
 * order, until one is found. Groups: the word in parentheses, the number, its total. */
static const struct way {
    enum pattern pattern;
    enum name name;
    const char *regex;
} ways[] = {
    {BY_REGEX, INSIDE, NO_WORD "\\G(" NUMBER ")"}, /* where the caller's expression says */
    {BY_EPOCH, INSIDE, EPOCH "(" NUMBER ")(?:\\.\\d*)?+(?![%a-z])"},
    {BY_METRIC, INSIDE, NO_WORD METRIC},
    {BY_GLOBAL, INSIDE, WORD("global[_ ]?step|num_updates")},
    {BY_BAR, FIRST, NO_WORD "(?:\xe2\x94\x81|\xe2\x95\xba) *" SHORT "/[ \\t]*" SHORT}, /* after Rich's bar */
    {BY_BARE_COUNT, FIRST, NO_WORD APART SHORT "it \\[" CLOCK},
    {BY_BAR, FIRST, NO_WORD APART SHORT "/\\? \\[" CLOCK},
    /* before " [00:12<", " 00:12<", " [====>" or a bar */
    {BY_BAR, FIRST,
     NO_WORD APART SHORT "/[ \\t]*" SHORT " [ \\t]*"
                         "(?:" CLOCK "[\\d:]*<|\xe2\x94\x81|\xe2\x95\xb8|\\[(?:" CLOCK "|[=>.-]))"},
    {BY_BRACKET, BEFORE, EPOCH NUMBER "(?:\\.\\d*)?\\]\\[[ \\t]*" COUNT}, /* "Epoch: [3][ 120/1000]" */
    {BY_STEP, INSIDE, WORD("step|train_step|training_step")},
    {BY_ITER, INSIDE, WORD("iterations?|iter")},
    {BY_UPDATE, INSIDE, WORD("update")},
    {BY_BATCH, INSIDE, WORD("batch")},
    {BY_IT, INSIDE, "(?:^|[][(){}|,;:>-])[ \\t]*it" TO_NUMBER COUNT}, /* not "ran it 12 times" */
    {BY_BRACKET, FIRST,
     NO_WORD "(?<![\\w.])(" NUMBER ")" OF "(" NUMBER ") [ \\t]*(?:batches|steps|iters|iterations)(?!\\w)"},
    /* before a metric: "[12/100] loss 0.3", "12/100 loss 0.3", "Train Epoch: 1 [640/60000 (1%)] Loss: 0.3" */
    {BY_METRIC, FIRST_OF_LINE, NO_WORD "(?:^|(?<=[ \\t\\[(|]))(" NUMBER ")" OF "(" NUMBER ")(?!/)" ENDS},
    {BY_BRACKET, INSIDE, "^" NO_WORD "\\[(" NUMBER ")\\]\\t.*:"}, /* "[12]<TAB>train-rmse:0.23" */
};

enum { ANY_NUMBER, AN_EPOCH, A_METRIC, FIRST_WAY, WAYS = sizeof ways / sizeof *ways };

struct tide_stepwords {
    bool has_regex;
    regex_t regex; /* the caller's */
    pcre2_code *code[WAYS];
    pcre2_match_data *match;
    int groups; /* of the last match */
    struct line lines[TIDE_STEPWORDS_STREAMS];
    struct counter counters[COUNTERS];
    int believed; /* index, -1: none yet */
    int stage;
    int64_t last_step, last_epoch;
    struct tide_stepwords_found steps[FOUND_STEPS], epochs[TIDE_STEPWORDS_TAKE];
    size_t step_count, epoch_count;
};

/* ---- looking at a line ---- */

struct sighting {
    int rank, pattern;
    char label[LABEL];
    int64_t number, total;
};

enum { ALL, IN_PARENTHESES, NUMBER_FOUND, TOTAL_FOUND, GROUPS }; /* of a match */

/* Looks for a way from there on, in that much of a line. */
static bool match(struct tide_stepwords *words, int way, const char *line, size_t len, size_t from)
{
    words->groups = pcre2_match(words->code[way], (PCRE2_SPTR)line, len, from, 0, words->match, NULL);
    return words->groups > 0;
}

/* What a group of the last match found; text NULL: nothing. */
struct found {
    const char *text, *end;
};

static struct found found(const struct tide_stepwords *words, const char *line, int group)
{
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(words->match) + 2 * group;
    bool is_set = group < words->groups && at[0] != PCRE2_UNSET;
    return is_set ? (struct found){line + at[0], line + at[1]} : (struct found){0};
}

/* Its number. -1: none, or it is too large. */
static int64_t number_in(struct found group)
{
    double value = 0, unit = 1;
    bool fraction = false;
    for (const char *p = group.text; p < group.end; p++) {
        if (isdigit((unsigned char)*p)) {
            value = value * 10 + (*p - '0');
            unit /= fraction ? 10 : 1;
        }
        fraction |= *p == '.';
        unit *= *p == 'k' ? 1e3 : *p == 'M' ? 1e6 : *p == 'G' ? 1e9 : 1;
    }
    return !group.text || value * unit > (double)TIDE_EXACT_MOST ? -1 : (int64_t)(value * unit + 0.5);
}

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

/* True if a count after this word is not of steps: "Epoch [3/10]", "fold 2/5". */
static bool counts_something_else(const char *word)
{
    char wanted[LABEL + 2];
    snprintf(wanted, sizeof wanted, "|%s|", word);
    return strstr("|epoch|epochs|fold|run|trial|seed|worker|rank|gpu|file|part|task|stage|phase|round|",
                  wanted);
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

/* Returns where the last name of a metric begins; 0: nothing is before one. */
static size_t last_metric(struct tide_stepwords *words, const char *line, size_t len)
{
    size_t last = 0;
    for (size_t at = 0; match(words, A_METRIC, line, len, at); at = last + 1)
        last = (size_t)(found(words, line, ALL).text - line);
    return last;
}

enum verdict { NOT_HERE, COUNTED, SIDE_WORK };

/* Looks for a count that is printed that way, past those that count something else. */
static enum verdict look_for(struct tide_stepwords *words, int which, const char *line, struct sighting *ret)
{
    enum { TRIES = 32 }; /* no line of a log has as many counts */
    const struct way *way = &ways[which];
    size_t len = way->pattern == BY_METRIC ? last_metric(words, line, strlen(line)) : strlen(line);
    for (size_t at = 0, tried = 0; tried < TRIES && match(words, which, line, len, at); at++, tried++) {
        struct found all = found(words, line, ALL), inner = found(words, line, IN_PARENTHESES),
                     number = found(words, line, NUMBER_FOUND), total = found(words, line, TOTAL_FOUND);
        struct sighting seen = {.rank = way->pattern == BY_GLOBAL ? 1 : 2,
                                .pattern = way->pattern,
                                .number = number_in(number),
                                .total = number_in(total)};
        char before[LABEL], inside[LABEL];
        at = (size_t)(all.text - line);
        label_before(line, all.text, before);
        label_of(inner.text, inner.end, inside);
        if (way->name < FIRST)
            memcpy(seen.label, way->name == INSIDE ? inside : before, LABEL);
        else
            label_of(line, way->name == FIRST ? number.text : line + strlen(line), seen.label);
        bool unlikely = total.text && way->name >= FIRST && (seen.total < seen.number || seen.total < 2);
        if (seen.number < 0 || unlikely)
            continue;
        if (way->name == FIRST && is_side_work(seen.label))
            return SIDE_WORK; /* and so is the rest of the line */
        if (is_side_work(seen.label) || is_side_work(inside) ||
            (way->name != FIRST && way->pattern != BY_EPOCH && is_side_work(before)) ||
            (way->pattern == BY_METRIC && counts_something_else(before)))
            continue;
        seen.total = seen.total < seen.number ? 0 : seen.total;
        *ret = seen;
        return COUNTED;
    }
    return NOT_HERE;
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

/* True if a counter that began when the other had finished counts something else: under another name, at
 * quite another pace, or to a much larger total than epochs differ by. */
static bool is_new_stage(const struct counter *old, const struct counter *c)
{
    if (!has_finished(old) || c->began_ns < old->last_ns)
        return false;
    double old_pace = (double)old->last / (double)(old->last_ns - old->began_ns + 1),
           pace = (double)c->last / (double)(c->last_ns - c->began_ns + 1);
    return c->pattern != old->pattern || strcmp(c->label, old->label) || c->total > 2 * old->total ||
           pace > SAME_PACE * old_pace || pace < old_pace / SAME_PACE;
}

static void believe(struct tide_stepwords *words, struct counter *c)
{
    struct counter *old = words->believed < 0 ? NULL : &words->counters[words->believed];
    bool afresh = !old || is_new_stage(old, c);
    bool follows = !afresh && !c->offset && has_finished(old) && c->began_ns >= old->last_ns;
    int64_t ahead = old && follows ? old->offset + old->total : 0; /* the count goes on from there */
    words->believed = (int)(c - words->counters);
    if (old)
        old->emitted = words->last_step;
    if (c->came_back) {
        words->stage = c->stage;
        words->last_step = c->emitted;
    } else if (afresh || follows) {
        words->stage += afresh;
        words->last_step = afresh ? -1 : words->last_step;
        c->offset += ahead;
        for (size_t i = 0; i < c->kept_count; i++)
            emit_step(words, ahead + c->kept[i].number, c->kept[i].t_ns);
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
    struct sighting seen = {.pattern = BY_REGEX};
    if (words->has_regex) {
        regmatch_t group[2];
        if (regexec(&words->regex, line, 2, group, 0) == 0 && group[1].rm_so >= 0 &&
            match(words, ANY_NUMBER, line, strlen(line), (size_t)group[1].rm_so) &&
            (seen.number = number_in(found(words, line, NUMBER_FOUND))) >= 0)
            sight(words, &seen, t_ns);
        return;
    }
    if (look_for(words, AN_EPOCH, line, &seen) == COUNTED)
        emit_epoch(words, seen.number, t_ns);
    enum verdict verdict = NOT_HERE;
    for (int i = FIRST_WAY; i < WAYS && verdict == NOT_HERE; i++)
        verdict = look_for(words, i, line, &seen);
    if (verdict == COUNTED)
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

static int compile_ways(struct tide_stepwords *words)
{
    words->match = pcre2_match_data_create(GROUPS, NULL);
    for (int i = 0; words->match && i < WAYS; i++) {
        int error;
        PCRE2_SIZE where;
        words->code[i] = pcre2_compile((PCRE2_SPTR)ways[i].regex, PCRE2_ZERO_TERMINATED, PCRE2_CASELESS,
                                       &error, &where, NULL);
        if (!words->code[i])
            return -1;
    }
    return words->match ? 0 : -1;
}

static int take_regex(struct tide_stepwords *words, const char *regex, struct tide_err *err)
{
    int bad = regcomp(&words->regex, regex, REG_EXTENDED);
    words->has_regex = !bad;
    if (!bad && words->regex.re_nsub > 0)
        return 0;
    char why[160] = "it has no group (...) for the number";
    if (bad)
        regerror(bad, &words->regex, why, sizeof why);
    tide_err_set(err, "option '--step-regex': '%s': %s", TIDE_SHOWN(regex, 120), why);
    return tide_err_hint(err, "the first group is the step: --step-regex 'update ([0-9]+)'");
}

int tide_stepwords_new(const char *regex, struct tide_stepwords **ret_words, struct tide_err *err)
{
    struct tide_stepwords *words = calloc(1, sizeof *words);
    if (!words)
        return tide_err_set(err, "not enough memory");
    int bad = compile_ways(words) ? tide_err_set(err, "not enough memory") : 0;
    if (bad || (regex && take_regex(words, regex, err))) {
        tide_stepwords_free(words);
        return -1;
    }
    words->believed = -1;
    words->last_step = words->last_epoch = -1;
    for (int i = 0; i < COUNTERS; i++)
        words->counters[i].rank = -1;
    *ret_words = words;
    return 0;
}

void tide_stepwords_free(struct tide_stepwords *words)
{
    if (!words)
        return;
    if (words->has_regex)
        regfree(&words->regex);
    for (int i = 0; i < WAYS; i++)
        pcre2_code_free(words->code[i]);
    pcre2_match_data_free(words->match);
    free(words);
}
