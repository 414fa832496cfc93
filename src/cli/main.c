/*
 * main.c - the table of commands, and how one is found and started.
 *
 * `tidemark COMMAND [options] [--] ARGS`. Every command sees argv from its own name on. What a command
 * printed on stdout is flushed here, so that an answer that could not be written is trouble and not success.
 */
#include "cli/command.h"
#include "base/check.h"
#include "base/text.h"
#include "rt/cpu/processor.h"
#include "sense/symbol_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct tide_command *const tide_commands[] = {
    &tide_command_run,    &tide_command_attach,     &tide_command_watch,
    &tide_command_judge,  &tide_command_show,       &tide_command_blame,
    &tide_command_diff,   &tide_command_report,     &tide_command_export,
    &tide_command_train,  &tide_command_sample,     &tide_command_play,
    &tide_command_plan,   &tide_command_help,       &tide_command_version,
    &tide_command_manual, &tide_command_completion, NULL,
};

int tide_report(const struct tide_err *err)
{
    fprintf(stderr, "tidemark: %s\n", err->text);
    if (err->hint[0])
        fprintf(stderr, "hint: %s\n", err->hint);
    return TIDE_EXIT_TROUBLE;
}

const struct tide_command *tide_command_find(const char *name, struct tide_err *err)
{
    const char *names[sizeof tide_commands / sizeof *tide_commands];
    size_t n = 0;
    for (; tide_commands[n]; n++) {
        if (!strcmp(tide_commands[n]->name, name))
            return tide_commands[n];
        names[n] = tide_commands[n]->name;
    }
    names[n] = NULL;
    char shown[96];
    tide_err_set(err, "unknown command '%s'", tide_text_shown(name, shown, sizeof shown));
    const char *nearest = tide_text_nearest(name, names);
    if (nearest)
        tide_err_hint(err, "did you mean '%s'?", nearest);
    else
        tide_err_hint(err, "'tidemark help' lists the commands; to watch a program: tidemark run -- PROG");
    return NULL;
}

const struct tide_option *tide_command_option(const struct tide_command *command, size_t index)
{
    for (const struct tide_option *o = command->options; o->name; o++)
        if (index-- == 0)
            return o;
    return command->shared && command->shared[index].name ? &command->shared[index] : NULL;
}

static size_t field_size(enum tide_option_kind kind)
{
    switch (kind) {
    case TIDE_OPTION_FLAG:
        return sizeof(bool);
    case TIDE_OPTION_TEXT:
    case TIDE_OPTION_CHOICE:
        return sizeof(const char *);
    case TIDE_OPTION_REAL:
        return sizeof(double);
    default:
        return sizeof(int64_t);
    }
}

/*
 * Every command has -h, and no command's struct of values has a field for it: the values are parsed in a copy
 * that has one more field behind the last that the table names, and copied back.
 */
int tide_command_parse(const struct tide_command *command, int flags, int argc, char **argv, void *values,
                       char ***ret_operands, int *ret_count, int *ret_dashes, int *ret_exit)
{
    enum { MOST_ROWS = 64, MOST_BYTES = 8192 };
    struct tide_option table[MOST_ROWS + 2];
    _Alignas(16) char copy[MOST_BYTES + sizeof(bool)] = {0};
    size_t rows = 0, used = 0;
    for (const struct tide_option *o; (o = tide_command_option(command, rows));) {
        TIDE_CHECK(rows, <, MOST_ROWS);
        TIDE_CHECK(o->letter, !=, 'h');
        table[rows++] = *o;
        size_t end = o->offset + field_size(o->kind);
        used = end > used ? end : used;
    }
    TIDE_CHECK(used, <=, MOST_BYTES);
    table[rows++] =
        (struct tide_option){.letter = 'h', .name = "help", .kind = TIDE_OPTION_FLAG, .offset = used};
    table[rows] = (struct tide_option){0};

    struct tide_err err = {0};
    if (used)
        memcpy(copy, values, used);
    if (tide_options_parse(table, flags, argc, argv, copy, ret_operands, ret_count, ret_dashes, &err)) {
        tide_err_wrap(&err, "%s", command->name);
        *ret_exit = tide_report(&err);
        return 1;
    }
    if (copy[used]) {
        tide_help_command(command, stdout);
        *ret_exit = TIDE_EXIT_OK;
        return 1;
    }
    if (used)
        memcpy(values, copy, used);
    return 0;
}

/* A file that gets descriptor 0, 1 or 2 because it was closed would receive what is meant for the terminal.
 */
static int occupy_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0)
            return -1;
    return 0;
}

static int flush_answer(int code)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return code;
    struct tide_err err = {0};
    tide_err_set(&err, "cannot write the answer: %s", errno ? strerror(errno) : "output error");
    return tide_report(&err);
}

static int start(int argc, char **argv)
{
    if (argc < 2) {
        tide_help_all(stderr);
        return TIDE_EXIT_TROUBLE;
    }
    const char *word = argv[1];
    struct tide_err err = {0};
    if (!strcmp(word, TIDE_SYMBOL_WORKER))
        return tide_symbol_worker_run(); /* no command of the table: nobody is to type it */
    if (!strcmp(word, TIDE_COMPLETION_WORDS)) {
        tide_help_candidates(argc - 2, argv + 2, stdout); /* nor this */
        return TIDE_EXIT_OK;
    }
    if (!strcmp(word, "-h") || !strcmp(word, "--help"))
        word = "help";
    else if (!strcmp(word, "-V") || !strcmp(word, "--version"))
        word = "version";
    else if (word[0] == '-') {
        char shown[96];
        tide_err_set(&err, "unknown option '%s'", tide_text_shown(word, shown, sizeof shown));
        tide_err_hint(&err, "options follow the command: tidemark COMMAND [options] [--] ARGS");
        return tide_report(&err);
    }
    const struct tide_command *command = tide_command_find(word, &err);
    if (!command)
        return tide_report(&err);
    if (command->computes && tide_processor_check(&err))
        return tide_report(&err);
    return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    if (occupy_standard_descriptors())
        return TIDE_EXIT_TROUBLE;
    setlocale(LC_CTYPE, "");
    return flush_answer(start(argc, argv));
}
