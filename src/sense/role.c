#include "sense/role.h"

#include "base/text.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_ARGS = 64 }; /* arguments read: an interpreter's options come first */

struct words {
    const char *word[SHOWN_ARGS];
    size_t count;
};

static struct words split(const char *args, size_t len)
{
    struct words words = {.count = 0};
    for (size_t i = 0; i < len && words.count < SHOWN_ARGS;) {
        words.word[words.count++] = args + i;
        i += strlen(args + i) + 1;
    }
    return words;
}

static const char *basename_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Copies start and text. Each run of control characters and bytes that are not UTF-8 becomes one '?'. */
static void put_after(char out[static TIDE_ROLE_MAX], const char *start, const char *text)
{
    char both[2 * TIDE_ROLE_MAX];
    size_t len = (size_t)snprintf(both, sizeof both, "%s%s", start, text);
    size_t used = 0, step;
    if (len >= sizeof both)
        len = sizeof both - 1;
    for (size_t i = 0; i < len; i += step) {
        unsigned rune = 0;
        step = tide_text_rune(both + i, len - i, &rune);
        bool bad = !step || rune < ' ' || (rune >= 0x7f && rune < 0xa0);
        if (!step)
            step = 1;
        if (used + (bad ? 1 : step) >= TIDE_ROLE_MAX)
            break;
        if (!bad)
            memcpy(out + used, both + i, step);
        else if (!used || out[used - 1] != '?')
            out[used] = '?';
        else
            continue;
        used += bad ? 1 : step;
    }
    out[used] = '\0';
}

static void put(char out[static TIDE_ROLE_MAX], const char *text)
{
    put_after(out, "", text);
}

/* The same, with each run of digits as '#', because processes number the names that they give themselves. */
static void put_unnumbered(char out[static TIDE_ROLE_MAX], const char *text)
{
    char copy[TIDE_ROLE_MAX];
    put(copy, text);
    size_t used = 0;
    for (size_t i = 0; copy[i]; i++) {
        bool digit = copy[i] >= '0' && copy[i] <= '9';
        if (digit && used && out[used - 1] == '#')
            continue;
        out[used++] = digit ? '#' : copy[i];
    }
    out[used] = '\0';
}

/* "python", "python3", "python3.11", "python3.13t", but not "python-config". */
static bool is_interpreter(const char *program, const char *interpreter)
{
    size_t len = strlen(interpreter);
    return strncmp(program, interpreter, len) == 0 && !program[len + strspn(program + len, "0123456789.t")];
}

static bool is_any(const char *program, const char *const *names)
{
    for (; *names; names++)
        if (is_interpreter(program, *names))
            return true;
    return false;
}

/* What `python -c CODE` is, if it is a helper of multiprocessing. */
static const char *helper_of(const char *code)
{
    if (strstr(code, "multiprocessing.spawn") || strstr(code, "spawn_main("))
        return "spawn worker";
    if (strstr(code, "resource_tracker"))
        return "resource_tracker";
    if (strstr(code, "semaphore_tracker"))
        return "semaphore_tracker";
    if (strstr(code, "multiprocessing.forkserver"))
        return "forkserver";
    return NULL;
}

static void put_python(const struct words *words, const char *program, char out[static TIDE_ROLE_MAX])
{
    for (size_t i = 1; i < words->count; i++) {
        const char *word = words->word[i];
        if (word[0] != '-') {
            put(out, strstr(word, "/compile_worker/") ? "compile_worker" : basename_of(word));
            return;
        }
        /* Options may be bundled and carry their value: -uc CODE, -mMODULE, -Xdev. */
        size_t at = strcspn(word, "cmXW");
        if (word[1] == '-' || !word[at])
            continue;
        const char *value = word[at + 1] ? word + at + 1 : i + 1 < words->count ? words->word[++i] : "";
        if (word[at] == 'm') {
            put(out, value);
            return;
        }
        if (word[at] == 'c') {
            const char *helper = helper_of(value);
            if (helper)
                put(out, helper);
            else
                snprintf(out, TIDE_ROLE_MAX, "%.40s -c", program);
            return;
        }
    }
    put(out, program);
}

static void put_script(const struct words *words, const char *program, char out[static TIDE_ROLE_MAX])
{
    for (size_t i = 1; i < words->count; i++) {
        const char *word = words->word[i];
        if (word[0] != '-') {
            put(out, basename_of(word));
            return;
        }
        if (word[1] != '-' && strpbrk(word, "ce")) /* the code is an argument, not a script */
            break;
    }
    put(out, program);
}

char *tide_role_base(const char *name, const char *args, size_t args_len, char out[static TIDE_ROLE_MAX])
{
    static const char *const python[] = {"python", "pypy", NULL};
    static const char *const scripted[] = {"sh", "bash", "dash", "zsh", "perl", "ruby", "node", NULL};
    struct words words = split(args, args_len);
    if (!words.count || !words.word[0][0]) {
        put_unnumbered(out, name);
        return out;
    }
    /* A title that a process wrote over its arguments is one word that contains a space or "::". */
    const char *first = words.word[0];
    if ((strchr(first, ' ') && first[0] != '/') || strstr(first, "::")) {
        put_unnumbered(out, first);
        return out;
    }
    const char *program = basename_of(first);
    if (program[0] == '-' && program[1]) /* a login shell */
        program++;
    if (is_any(program, python))
        put_python(&words, program, out);
    else if (is_any(program, scripted))
        put_script(&words, program, out);
    else
        put(out, program);
    return out;
}

char *tide_role_of(const struct tide_role_input *input, char out[static TIDE_ROLE_MAX])
{
    char base[TIDE_ROLE_MAX];
    tide_role_base(input->name, input->args, input->args_len, base);
    const char *parent = input->parent_base;
    bool forked = parent && input->same_args_as_parent && input->args_len;
    static const char torch[] = "/compile_worker/";
    if (strcmp(base, "compile_worker") == 0 && memmem(input->args, input->args_len, torch, sizeof torch - 1))
        put(out, forked ? "compile_worker" : "compile_worker pool");
    else if (forked && input->parent_name && strcmp(input->name, input->parent_name) != 0)
        put_unnumbered(out, input->name[0] ? input->name : "?");
    else if (forked)
        put_after(out, "worker of ", base);
    else if (parent && strcmp(base, "spawn worker") == 0)
        put_after(out, "spawn worker of ", parent);
    else
        put(out, base);
    return out;
}

/* --- ranks --------------------------------------------------------------------------------------------- */

enum { RANK_MOST = 1 << 20 };

/* The value of a variable as a number. TIDE_UNKNOWN: not set, or not a number. */
static int64_t number_in(const char *environment, size_t len, const char *name)
{
    size_t name_len = strlen(name);
    for (const char *p = environment; p < environment + len; p += strlen(p) + 1) {
        if (strncmp(p, name, name_len) != 0 || p[name_len] != '=')
            continue;
        char *end;
        long value = strtol(p + name_len + 1, &end, 10);
        return end == p + name_len + 1 || *end || value < 0 || value > RANK_MOST ? TIDE_UNKNOWN : value;
    }
    return TIDE_UNKNOWN;
}

int64_t tide_rank_of(const char *environment, size_t len)
{
    static const struct {
        const char *rank, *size;
    } launchers[] = {{"RANK", "WORLD_SIZE"},
                     {"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
                     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                     {"PMI_RANK", "PMI_SIZE"},
                     {"SLURM_PROCID", "SLURM_NTASKS"}};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        int64_t rank = number_in(environment, len, launchers[i].rank);
        int64_t size = number_in(environment, len, launchers[i].size);
        if (rank != TIDE_UNKNOWN && (size == TIDE_UNKNOWN ? i < 2 : size > 1 && rank < size))
            return rank;
    }
    return TIDE_UNKNOWN;
}
