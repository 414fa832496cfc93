/*
 * help.h - sentences that -h, the manual and the completion share.
 */
#ifndef TIDE_HELP_H
#define TIDE_HELP_H

#define TIDE_HELP_ABOUT                                                                                      \
    "Tidemark says where the memory of a training run goes: whether it leaks, in which process, how much "   \
    "per step, and when it will die. It records a whole process tree without changing its code, and "        \
    "judges the recording: a leak moves the floor that memory returns to, a spike does not."

#define TIDE_HELP_OPTION    "print this help"
#define TIDE_VERSION_OPTION "print the version"

#endif
