/*
 * cmd_about.c - the commands that speak about the program itself: help, version, manual, completion. Four
 * rows in one file, because each is only a call into help.c, manual.c or completion.c.
 */
#include "cli/command.h"

static const struct tide_option no_options[] = {{0}};

/* At most one operand; *ret_word is NULL when there is none. */
static int one_word(const struct tide_command *command, int argc, char **argv, const char **ret_word,
                    int *ret_exit)
{
    char **operands;
    int count;
    if (tide_command_parse(command, 0, argc, argv, NULL, &operands, &count, NULL, ret_exit))
        return 1;
    if (count > 1) {
        struct tide_err err = {0};
        tide_err_set(&err, "%s: expected at most one argument", command->name);
        tide_err_hint(&err, "tidemark %s %s", command->name, command->synopsis);
        *ret_exit = tide_report(&err);
        return 1;
    }
    *ret_word = count ? operands[0] : NULL;
    return 0;
}

static int run_help(int argc, char **argv)
{
    const char *word;
    int code;
    if (one_word(&tide_command_help, argc, argv, &word, &code))
        return code;
    if (!word) {
        tide_help_all(stdout);
        return TIDE_EXIT_OK;
    }
    struct tide_err err = {0};
    const struct tide_command *command = tide_command_find(word, &err);
    if (!command)
        return tide_report(&err);
    tide_help_command(command, stdout);
    return TIDE_EXIT_OK;
}

static int run_version(int argc, char **argv)
{
    const char *word;
    int code;
    if (one_word(&tide_command_version, argc, argv, &word, &code))
        return code;
    if (word) {
        struct tide_err err = {0};
        tide_err_set(&err, "version: expected no argument");
        return tide_report(&err);
    }
    printf("tidemark %s\n", TIDE_VERSION);
    return TIDE_EXIT_OK;
}

static int run_manual(int argc, char **argv)
{
    const char *word;
    int code;
    if (one_word(&tide_command_manual, argc, argv, &word, &code))
        return code;
    struct tide_err err = {0};
    const struct tide_command *command = NULL;
    if (word && !(command = tide_command_find(word, &err)))
        return tide_report(&err);
    tide_help_manual(command, stdout);
    return TIDE_EXIT_OK;
}

static int run_completion(int argc, char **argv)
{
    const char *word;
    int code;
    if (one_word(&tide_command_completion, argc, argv, &word, &code))
        return code;
    struct tide_err err = {0};
    if (!word) {
        tide_err_set(&err, "completion: the name of a shell is missing");
        tide_err_hint(&err, "the shells are bash, zsh and fish");
        return tide_report(&err);
    }
    return tide_help_completion(word, stdout, &err) ? tide_report(&err) : TIDE_EXIT_OK;
}

const struct tide_command tide_command_help = {
    .name = "help",
    .synopsis = "[COMMAND]",
    .operands = ":commands",
    .summary = "list the commands, or show the help of one",
    .details = "Without COMMAND, lists the commands. With it, prints what 'tidemark COMMAND -h' prints.",
    .examples = "tidemark help run",
    .options = no_options,
    .run = run_help,
};

const struct tide_command tide_command_version = {
    .name = "version",
    .synopsis = "",
    .summary = "print the version",
    .details = "Prints the name and the version on one line.",
    .options = no_options,
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
    .options = no_options,
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
    .options = no_options,
    .run = run_completion,
};
