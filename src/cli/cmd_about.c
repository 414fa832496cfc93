/*
 * cmd_about.c - the commands about the program itself: help, version, manual, completion. They share one
 * file, because each is only a call into help.c, manual.c or completion.c.
 */
#include "cli/command.h"

/* Fails if there is more than one operand. */
static int check_words(const struct tide_command_call *call, struct tide_err *err)
{
    if (call->count <= 1)
        return 0;
    tide_err_set(err, "%s: expected at most one argument", call->command->name);
    return tide_err_hint(err, "tidemark %s %s", call->command->name, call->command->synopsis);
}

/* Finds the command that the operand names; NULL when there is no operand. */
static int find_command(const struct tide_command_call *call, const struct tide_command **ret_command,
                        struct tide_err *err)
{
    if (check_words(call, err))
        return -1;
    *ret_command = call->count ? tide_command_find(call->operands[0], err) : NULL;
    return call->count && !*ret_command ? -1 : 0;
}

static int run_help(struct tide_command_call *call, struct tide_err *err)
{
    /* "train lm" is two words. */
    const struct tide_command *whole = call->count == 2 ? tide_command_find(call->operands[0], NULL) : NULL,
                              *command = whole ? tide_command_part(whole, call->operands[1]) : NULL;
    if (!command && find_command(call, &command, err))
        return -1;
    if (command)
        tide_help_command(command, stdout);
    else
        tide_help_all(stdout);
    return TIDE_EXIT_OK;
}

static int run_version(struct tide_command_call *call, struct tide_err *err)
{
    if (check_words(call, err))
        return -1;
    if (call->count)
        return tide_err_set(err, "version: expected no argument");
    printf("tidemark %s\n", TIDE_VERSION);
    return TIDE_EXIT_OK;
}

static int run_manual(struct tide_command_call *call, struct tide_err *err)
{
    const struct tide_command *command = NULL;
    if (find_command(call, &command, err))
        return -1;
    tide_help_manual(command, stdout);
    return TIDE_EXIT_OK;
}

static int run_completion(struct tide_command_call *call, struct tide_err *err)
{
    if (check_words(call, err))
        return -1;
    return tide_help_completion(call->count ? call->operands[0] : NULL, stdout, err);
}

const struct tide_command tide_command_help = {
    .name = "help",
    .synopsis = "[COMMAND]",
    .operands = ":commands",
    .summary = "list the commands, or show the help of one",
    .details = "Without COMMAND, lists the commands. With it, prints what 'tidemark COMMAND -h' prints.",
    .examples = "tidemark help run\n"
                "tidemark help train lm",
    .run = run_help,
};

const struct tide_command tide_command_version = {
    .name = "version",
    .synopsis = "",
    .summary = "print the version",
    .details = "Prints the name and the version on one line.",
    .run = run_version,
};

const struct tide_command tide_command_manual = {
    .name = "manual",
    .synopsis = "[COMMAND]",
    .operands = ":commands",
    .summary = "print a manual page",
    .details = "Writes the manual page of COMMAND, or of tidemark itself, in mdoc, the language of man(1). "
               "'make install' puts the same pages where man finds them.",
    .examples = "tidemark manual judge | man -l -",
    .run = run_manual,
};

const struct tide_command tide_command_completion = {
    .name = "completion",
    .synopsis = "bash|zsh|fish",
    .operands = "bash\nzsh\nfish",
    .summary = "print the completion script of a shell",
    .details =
        "Writes a script that teaches the shell to complete the commands, options and values of tidemark. "
        "'make install' puts the same scripts where the shells find them.",
    .examples = "source <(tidemark completion bash)\n"
                "tidemark completion fish > ~/.config/fish/completions/tidemark.fish",
    .run = run_completion,
};
