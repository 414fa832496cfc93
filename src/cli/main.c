/*
 * main.c - the table of commands, and how one is found and started.
 *
 * `tidemark COMMAND [options] [--] ARGS`. Every command sees argv from its own name on. stdout is flushed
 * here, so that an answer that could not be written counts as trouble and not as success.
 */
#include "cli/command.h"
#include "base/check.h"
#include "base/text.h"
#include "base/title.h"
#include "rt/cpu/processor.h"
#include "sense/symbol_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

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
    tide_err_set(err, "unknown command '%s'", TIDE_SHOWN(name, 96));
    const char *nearest = tide_text_nearest(name, names);
    if (nearest)
        tide_err_hint(err, "did you mean '%s'?", nearest);
    else
        tide_err_hint(err, "'tidemark help' lists the commands; to watch a program: tidemark run -- PROG");
    return NULL;
}

const struct tide_option tide_own_options[] = {
    {'h', "help", TIDE_OPTION_FLAG, 0, NULL, NULL, 0, 0, "print this help"},
    {'V', "version", TIDE_OPTION_FLAG, 0, NULL, NULL, 0, 0, "print the version"},
    {0},
};

const struct tide_option *tide_command_option(const struct tide_command *command, size_t index)
{
    for (const struct tide_option *o = command->options; o && o->name; o++)
        if (index-- == 0)
            return o;
    for (const struct tide_option *o = command->shared; o && o->name; o++)
        if (index-- == 0)
            return o;
    return index == 0 ? &tide_own_options[0] : NULL;
}

const char *tide_command_task(const struct tide_command *part)
{
    return strchr(part->name, ' ') + 1;
}

const struct tide_command *tide_command_part(const struct tide_command *command, const char *word)
{
    for (size_t i = 0; command->parts && command->parts[i]; i++)
        if (!strcmp(tide_command_task(command->parts[i]), word))
            return command->parts[i];
    return NULL;
}

/* The flag for -h is not in the command's struct of values: it is the byte after it. */
int tide_command_read(const struct tide_command *command, int argc, char **argv,
                      struct tide_command_call *call, struct tide_err *err)
{
    enum { MOST_ROWS = 64 };
    for (int i = 1; i < argc; i++) { /* a subcommand may follow options; it is removed from argv */
        const struct tide_command *part = tide_command_part(command, argv[i]);
        if (part) {
            memmove(argv + 1, argv, (size_t)i * sizeof *argv);
            return tide_command_read(part, argc - 1, argv + 1, call, err);
        }
    }
    struct tide_option table[MOST_ROWS + 1] = {{0}};
    size_t rows = 0;
    for (const struct tide_option *o; (o = tide_command_option(command, rows)); rows++) {
        TIDE_CHECK(rows, <, MOST_ROWS);
        TIDE_CHECK_TRUE(o->letter != 'h' || o == tide_own_options);
        table[rows] = *o;
    }
    TIDE_CHECK(command->values_size, <, sizeof call->values);
    table[rows - 1].offset = command->values_size;
    *call = (struct tide_command_call){.command = command};
    if (command->usual)
        memcpy(call->values, command->usual, command->values_size);
    if (command->init)
        command->init(call->values);
    if (tide_options_parse(table, command->parsing, argc, argv, call->values, &call->operands, &call->count,
                           &call->dashes, err))
        return tide_err_wrap(err, "%s", command->name);
    call->operands[call->count] = NULL;
    if (!call->values[command->values_size])
        return 0;
    tide_help_command(command, stdout);
    return 1;
}

/* Opens /dev/null for each of descriptors 0 to 2 that is closed. Otherwise a file that gets its number would
 * receive what is meant for the terminal. */
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
    tide_err_set(&err, "cannot write the output: %s", errno ? strerror(errno) : "output error");
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
        return tide_symbol_worker_run(); /* internal: not in the table of commands */
    if (!strcmp(word, TIDE_COMPLETION_WORDS)) {
        tide_help_candidates(argc - 2, argv + 2, stdout); /* internal too */
        return TIDE_EXIT_OK;
    }
    if (!strcmp(word, "-h") || !strcmp(word, "--help"))
        word = "help";
    else if (!strcmp(word, "-V") || !strcmp(word, "--version"))
        word = "version";
    else if (word[0] == '-') {
        tide_err_set(&err, "unknown option '%s'", TIDE_SHOWN(word, 96));
        tide_err_hint(&err, "options follow the command: tidemark COMMAND [options] [--] ARGS");
        return tide_report(&err);
    }
    const struct tide_command *command = tide_command_find(word, &err);
    if (!command)
        return tide_report(&err);
    struct tide_command_call call;
    if (command->computes && tide_processor_check(&err))
        return tide_report(&err);
    int code = tide_command_read(command, argc - 1, argv + 1, &call, &err);
    if (code > 0)
        return TIDE_EXIT_OK;
    if (!code)
        code = call.command->run(&call, &err);
    return code < 0 ? tide_report(&err) : code;
}

int main(int argc, char **argv)
{
    tide_title_init(argc, argv);
    if (occupy_standard_descriptors())
        return TIDE_EXIT_TROUBLE;
    setlocale(LC_CTYPE, "");
    return flush_answer(start(argc, argv));
}
