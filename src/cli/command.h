/*
 * command.h - the table of commands, and what commands share.
 *
 * A command is one file, src/cli/cmd_NAME.c, and one row in the table in main.c. Its options are parsed
 * before it runs. It returns the exit code (0 nothing found, 1 found, 2 trouble, 3 not enough data), prints
 * its answer on stdout and everything else on stderr.
 */
#ifndef TIDE_COMMAND_H
#define TIDE_COMMAND_H

#include "base/err.h"
#include "base/option.h"

#include <stdio.h>

enum { TIDE_EXIT_OK = 0, TIDE_EXIT_FOUND = 1, TIDE_EXIT_TROUBLE = 2, TIDE_EXIT_UNDECIDED = 3 };

/* The arguments of one call of a command. */
struct tide_command_call {
    const struct tide_command *command;
    char **operands; /* NULL-terminated */
    int count;
    int dashes;                     /* number of operands before "--"; -1: there is no "--" */
    _Alignas(16) char values[8192]; /* the command's struct of values */
};

struct tide_command {
    const char *name;
    const char *synopsis; /* "[-o FILE] [options] -- CMD..." */
    const char *operands; /* how the shell completes them: lines as in completion.c; NULL: not at all */
    const char *summary;  /* one line, no full stop */
    const char *details;  /* paragraphs for -h and the manual, separated by empty lines; filled, except that
                             those which begin with a space are printed line by line */
    const char
        *exits; /* what its exit codes mean, for -h and the manual; NULL: 0, or 2 if there is trouble */
    const char *examples;                    /* lines of shell; may be NULL */
    const struct tide_option *options;       /* may be NULL */
    const struct tide_option *shared;        /* options shared with other commands; may be NULL */
    const struct tide_command *const *parts; /* "train lm" of "train"; NULL-terminated; may be NULL */
    size_t values_size;                      /* of the struct of values */
    const void *usual;                       /* default values; NULL: all zero */
    void (*init)(void *values);              /* sets defaults that `usual` cannot hold; may be NULL */
    int parsing;                             /* TIDE_OPTIONS_STOP_AT_OPERAND, or 0 */
    /* Returns the exit code, or -1 with an error, which the caller prints. */
    int (*run)(struct tide_command_call *call, struct tide_err *err);
    bool computes; /* uses the thread pool of rt/cpu/threads.h */
};

extern const struct tide_command tide_command_run, tide_command_attach, tide_command_watch,
    tide_command_judge, tide_command_show, tide_command_blame, tide_command_diff, tide_command_report,
    tide_command_export, tide_command_train, tide_command_sample, tide_command_play, tide_command_plan;

/* About the program itself. */
extern const struct tide_command tide_command_help, tide_command_version, tide_command_manual,
    tide_command_completion;

/* NULL-terminated. */
extern const struct tide_command *const tide_commands[];

/* Returns the command of that name, borrowed; or NULL, with a suggestion in the hint of `err`. */
const struct tide_command *tide_command_find(const char *name, struct tide_err *err);

/* Options of tidemark itself: -h, which every command has too, and -V. */
extern const struct tide_option tide_own_options[];

/* Returns the command's option number `index`, -h last; NULL: there are no more. */
const struct tide_option *tide_command_option(const struct tide_command *command, size_t index);

/* Prints "tidemark: TEXT" and "hint: HINT" on stderr. Returns TIDE_EXIT_TROUBLE. */
int tide_report(const struct tide_err *err);

/* Parses the arguments of a command, or of the subcommand that they name, without running it. argv[0] is its
 * name. Returns 1 if help was asked for and printed. */
int tide_command_read(const struct tide_command *command, int argc, char **argv,
                      struct tide_command_call *ret_call, struct tide_err *err);

/* The last word of a subcommand's name ("lm" of "train lm"), and the subcommand of that word; NULL: none. */
const char *tide_command_task(const struct tide_command *part);
const struct tide_command *tide_command_part(const struct tide_command *command, const char *word);

/* Sentences that -h, the manual and the completion share. */
#define TIDE_HELP_ABOUT                                                                                      \
    "Tidemark says where the memory of a training run goes: whether it leaks, in which process, how much "   \
    "per step, and when it will die. It records a whole process tree without changing its code, and "        \
    "judges the recording: a leak moves the floor that memory returns to, a spike does not."

#define TIDE_HELP_SIZES                                                                                      \
    "Sizes: K, M and G are powers of 1000, as KB, MB and GB are; KiB, MiB and GiB (Ki, Mi, Gi) are powers "  \
    "of 1024. 80G is 80 GB = 74.5 GiB."

/* True if the command has an option that takes a size, so that its help must include TIDE_HELP_SIZES. */
bool tide_help_takes_sizes(const struct tide_command *command);

void tide_help_command(const struct tide_command *command, FILE *out);
void tide_help_all(FILE *out);
/* Writes the manual page of a command (NULL: of tidemark itself) in mdoc. */
void tide_help_manual(const struct tide_command *command, FILE *out);
/* Writes the completion script for a shell: bash, zsh or fish. NULL: none was named. */
int tide_help_completion(const char *shell, FILE *out, struct tide_err *err);
/* For the completion scripts: writes completions of the last of `words`, the words after 'tidemark'. */
#define TIDE_COMPLETION_WORDS "completion-words"
void tide_help_candidates(int count, char **words, FILE *out);

#endif
