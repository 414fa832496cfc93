/*
 * process_name.h - what a process is called in every answer.
 */
#ifndef TIDE_PROCESS_NAME_H
#define TIDE_PROCESS_NAME_H

#include "show/history.h"

enum { TIDE_PROCESS_NAME = 128 };

/* "python[141495] (child of uv[141489])", escaped. Writes into out and returns it. */
char *tide_process_name(const struct tide_history *history, const struct tide_history_process *process,
                        char *out, size_t size);

#endif
