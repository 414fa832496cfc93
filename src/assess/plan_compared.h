/*
 * plan_compared.h - a recording beside a plan: planned, seen, unexplained.
 *
 * Device memory in a recording is compared with the plan's bytes on the device, phase by phase if the program
 * named phases that the plan has (forward, backward, update, generation, ...). A recording without a device
 * is compared with what the plan allocates, which on the host comes on top of the interpreter and its
 * libraries.
 */
#ifndef TIDE_PLAN_COMPARED_H
#define TIDE_PLAN_COMPARED_H

#include "assess/history.h"
#include "plan/forecast.h"

enum { TIDE_AGAINST_ROWS = TIDE_PHASES_MOST + 2, TIDE_AGAINST_NAME = 48 };

struct tide_against_row {
    char name[TIDE_AGAINST_NAME]; /* of a phase, or "whole run", which is the last row; escaped */
    int64_t planned, seen;        /* seen -1: the recording does not know */
};

struct tide_against {
    struct tide_against_row rows[TIDE_AGAINST_ROWS];
    int count;
    const char *what; /* what was compared; static text */
};

/* host: the job runs on the processor, and the interpreter counts. -1: no memory. */
int tide_against_compare(bool host, const struct tide_forecast *forecast, const struct tide_history *history,
                         struct tide_against *ret, struct tide_err *err);

/* How far a run came by its recording: the last step that it named (0: none), and whether it ended well. */
int tide_against_end(const char *path, int64_t *ret_step, bool *ret_well, struct tide_err *err);

#endif
