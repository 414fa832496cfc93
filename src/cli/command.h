/*
 * command.h - the table of commands, and what commands share.
 *
 * A command is one file, src/cli/cmd_NAME.c, and one row in the table in main.c. It gets argv with argv[0] =
 * its name, returns the exit code (0 nothing found, 1 found, 2 trouble, 3 not enough data), prints its answer
 * on stdout and everything else on stderr.
 */
#ifndef TIDE_COMMAND_H
#define TIDE_COMMAND_H

#include "base/err.h"
#include "base/option.h"

#include <stdio.h>

#define TIDE_VERSION "0.1.0"

enum { TIDE_EXIT_OK = 0, TIDE_EXIT_FOUND = 1, TIDE_EXIT_TROUBLE = 2, TIDE_EXIT_UNDECIDED = 3 };

struct tide_command {
    const char *name;
    const char *synopsis; /* "[-o FILE] [options] -- CMD..." */
    const char *operands; /* what they are completed to: lines as completion.c has them; NULL: nothing */
    const char *summary;  /* one line, no full stop */
    const char
        *details; /* paragraphs for -h and the manual, with an empty line between; they are filled, except
                     that one whose first character is a space is shown line by line as it stands */
    const char *examples; /* lines of shell; may be NULL */
    const struct tide_option *options;
    const struct tide_option *shared;        /* with other commands, behind its own; may be NULL */
    const struct tide_command *const *parts; /* of "train": "train lm" ..., NULL-terminated; may be NULL */
    int (*run)(int argc, char **argv);
    bool computes; /* with the threads of rt/cpu/threads.h */
};

extern const struct tide_command tide_command_run, tide_command_attach, tide_command_watch,
    tide_command_judge, tide_command_show, tide_command_blame, tide_command_diff, tide_command_report,
    tide_command_export, tide_command_train, tide_command_sample, tide_command_play, tide_command_plan;

/* About the program itself. */
extern const struct tide_command tide_command_help, tide_command_version, tide_command_manual,
    tide_command_completion;

/* NULL-terminated. */
extern const struct tide_command *const tide_commands[];

/* The command of that name, borrowed; or NULL, with a suggestion in the hint. */
const struct tide_command *tide_command_find(const char *name, struct tide_err *err);

/* Its options one after another; NULL: there are no more. */
const struct tide_option *tide_command_option(const struct tide_command *command, size_t index);

/* "tidemark: TEXT" and "hint: HINT" on stderr. Returns TIDE_EXIT_TROUBLE. */
int tide_report(const struct tide_err *err);

/*
 * Parses a command's own options. Handles -h/--help (prints and gives TIDE_EXIT_OK in *ret_exit). Returns 0
 * to go on, 1 when the command should return *ret_exit now.
 */
int tide_command_parse(const struct tide_command *command, int flags, int argc, char **argv, void *values,
                       char ***ret_operands, int *ret_count, int *ret_dashes, int *ret_exit);

void tide_help_command(const struct tide_command *command, FILE *out);
void tide_help_all(FILE *out);
/* The manual page of a command (NULL: of tidemark itself), in mdoc. */
void tide_help_manual(const struct tide_command *command, FILE *out);
/* The script of a shell: bash, zsh or fish. */
int tide_help_completion(const char *shell, FILE *out, struct tide_err *err);
/* What the last of the words, which are those behind 'tidemark', may become: for the scripts. */
#define TIDE_COMPLETION_WORDS "completion-words"
void tide_help_candidates(int count, char **words, FILE *out);

#endif
