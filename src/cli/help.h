/*
 * help.h - sentences that -h, the manual and the completion share.
 */
#ifndef TIDE_HELP_H
#define TIDE_HELP_H

#include "cli/command.h"

#define TIDE_HELP_ABOUT                                                                                      \
    "Tidemark says where the memory of a training run goes: whether it leaks, in which process, how much "   \
    "per step, and when it will die. It records a whole process tree without changing its code, and "        \
    "judges the recording: a leak moves the floor that memory returns to, a spike does not."

#define TIDE_HELP_SIZES                                                                                      \
    "Sizes: K, M and G are powers of 1000, as KB, MB and GB are; KiB, MiB and GiB (Ki, Mi, Gi) are powers "  \
    "of 1024. 80G is 80 GB = 74.5 GiB."

#define TIDE_HELP_OPTION    "print this help"
#define TIDE_VERSION_OPTION "print the version"

/* Whether a size is among the options of a command, so that TIDE_HELP_SIZES has to be said. */
bool tide_help_takes_sizes(const struct tide_command *command);

#endif
