/*
 * option.h - one table of options per command, from which parsing and all documentation come.
 *
 * A command has a struct of values and a const table of `struct tide_option` that points into it by offset.
 * The table is parsed here, printed by `-h`, and written into the manual page and the shell completion by
 * src/cli. A table ends with a row whose name is NULL.
 *
 * Accepted: --name VALUE, --name=VALUE, -xVALUE, -x VALUE, bundled flags -ab, and "--", which ends the
 * options. An unknown name gets one suggestion.
 */
#ifndef TIDE_OPTION_H
#define TIDE_OPTION_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tide_option_kind {
    TIDE_OPTION_FLAG,     /* bool */
    TIDE_OPTION_TEXT,     /* const char *, borrowed from argv */
    TIDE_OPTION_SIZE,     /* int64_t bytes of memory; a small number without a unit is refused */
    TIDE_OPTION_BYTES,    /* int64_t bytes of anything; a number without a unit is bytes */
    TIDE_OPTION_DURATION, /* int64_t ns */
    TIDE_OPTION_COUNT,    /* int64_t */
    TIDE_OPTION_REAL,     /* double */
    TIDE_OPTION_CHOICE,   /* const char *, one of `choices` */
};

struct tide_option {
    char letter;      /* 0: none */
    const char *name; /* without the dashes */
    enum tide_option_kind kind;
    size_t offset;       /* of the field in the struct of values */
    const char *arg;     /* name of the value in the help: "SIZE"; NULL for a flag */
    const char *choices; /* TIDE_OPTION_CHOICE: "a|b|c" */
    int64_t least, most; /* accepted range of numbers; most 0: no upper limit */
    const char *help;    /* one sentence, no full stop */
};

enum tide_option_flags {
    TIDE_OPTIONS_STOP_AT_OPERAND = 1, /* the first operand ends the options (commands that run a command) */
};

/*
 * Parses argv[1..argc-1]. values must hold the defaults. Operands are moved to the front of argv+1, in order;
 * *ret_operands points there and *ret_count counts them. *ret_dashes is the number of operands before a "--",
 * or -1 when there was none (may be NULL).
 */
int tide_options_parse(const struct tide_option *table, int flags, int argc, char **argv, void *values,
                       char ***ret_operands, int *ret_count, int *ret_dashes, struct tide_err *err);

#endif
