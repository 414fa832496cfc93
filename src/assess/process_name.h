/*
 * process_name.h - what a process is called in every answer.
 */
#ifndef TIDE_PROCESS_NAME_H
#define TIDE_PROCESS_NAME_H

#include "assess/history.h"

/*
 * "train.py[141495] (child of uv[141489])", "train.py rank 1[25643]", "pt_data_worker 3[25650] (child of
 * ...)": the script, module, program or name that it gave itself, its rank in the job or its number among
 * similar children of its parent, and its PID. Escaped. Writes into out and returns it.
 */
char *tide_process_name(const struct tide_history *history, const struct tide_history_process *process,
                        char *out, size_t size);

/* The same without the parent. If it does not fit into `size`, the title is cut, never the number and the
 * PID: out must have room for TIDE_PROCESS_TEXT bytes in any case. */
enum { TIDE_PROCESS_TEXT = 64 };
char *tide_process_short(const struct tide_history_process *process, char *out, size_t size);

/* The same without the PID, for tables that have a column for that. */
char *tide_process_title(const struct tide_history_process *process, char *out, size_t size);

/* True if it is a Python interpreter. */
bool tide_process_is_python(const struct tide_history_process *process);

#endif
