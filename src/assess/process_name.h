/*
 * process_name.h - what a process is called in every answer.
 */
#ifndef TIDE_PROCESS_NAME_H
#define TIDE_PROCESS_NAME_H

#include "assess/history.h"

/*
 * "train.py[141495] (child of uv[141489])", "train.py rank 1[25643]", "pt_data_worker 3[25650] (child of
 * ...)": the script, module, program or name that it gave itself, its rank in the job or its number among the
 * like of its parent, and its PID. Escaped. Writes into out and returns it.
 */
char *tide_process_name(const struct tide_history *history, const struct tide_history_process *process,
                        char *out, size_t size);

/* The same without its parent: what does not fit is cut off its title, never off its number and PID. */
char *tide_process_short(const struct tide_history_process *process, char *out, size_t size);

/* Whether it is an interpreter of Python's. */
bool tide_process_is_python(const struct tide_history_process *process);

#endif
