/*
 * machine.h - a graph made runnable: one arena, laid out before anything runs, and programs that allocate
 * nothing.
 *
 * tide_plan_make() says what a graph needs under given choices and touches nothing. tide_machine_new() takes
 * exactly that from a device (device.h) -> fill parameters and inputs -> tide_machine_pass() for each
 * micro-batch -> tide_machine_update() -> ...; tide_machine_run() of other programs in between -> _free.
 *
 * The arena has the sections of graph.h, one after another. Programs share the last one, for they never
 * overlap. `high_bytes` is the end of the highest byte that any instruction was given; it equals the plan,
 * and a check that stays on compares the two.
 */
#ifndef TIDE_MACHINE_H
#define TIDE_MACHINE_H

#include "rt/layout.h"
#include "rt/optimizer.h"

struct tide_plan {
    struct tide_choices choices;
    size_t bytes[TIDE_SECTIONS], total;
    struct tide_layout layouts[TIDE_PROGRAMS]; /* of what programs compute */
    size_t update;                             /* of the last section, what an update works in */
    double work;                               /* floating-point operations of one training pass */
};

/* Where a section begins. */
static inline size_t tide_plan_start(const struct tide_plan *plan, enum tide_section section)
{
    size_t start = 0;
    for (int i = 0; i < (int)section; i++)
        start += plan->bytes[i];
    return start;
}

/* Where in the last section what a program computes begins: after the states, if it uses any. */
size_t tide_plan_base(const struct tide_graph *graph, int program);

int tide_plan_make(const struct tide_graph *graph, const struct tide_device *device,
                   const struct tide_choices *choices, struct tide_plan *ret_plan, struct tide_err *err);

/* For a graph that trains: the plan that takes least work of those that fit into budget bytes (0: no budget),
 * exact all of them. micro_batches > 1 excludes fused updates. If none fits: -1, and *ret_least is the
 * smallest there is. */
int tide_plan_choose(const struct tide_graph *graph, const struct tide_device *device, size_t budget,
                     int64_t micro_batches, bool clips, struct tide_plan *ret_plan,
                     struct tide_plan *ret_least, struct tide_err *err);

struct tide_machine;

/* Its memory is all there, and zeros. Caller frees. graph and device must outlive it. */
int tide_machine_new(const struct tide_graph *graph, struct tide_device *device, const struct tide_plan *plan,
                     struct tide_machine **ret_machine, struct tide_err *err);
void tide_machine_free(struct tide_machine *machine);

/* Whom programs ask for parameters that are streamed (graph.h). */
void tide_machine_source(struct tide_machine *machine, tide_source *source, void *context);

/* Runs a program forward. -1: its source could not give a parameter, and there are no results; only a program
 * that reads streamed ones can fail. */
int tide_machine_run(struct tide_machine *machine, int program);

/* ---- data: inputs and results lie in memory of the host, everything else on the device */

/* An input, filled by the caller: a run of a program takes it along. Borrowed, for as long as the machine is
 * there. */
void *tide_machine_input(struct tide_machine *machine, int tensor);

/* What a program that has run left in a tensor that is a result. Borrowed until another program runs. */
const void *tide_machine_result(const struct tide_machine *machine, int program, int tensor);

/* Where a parameter or a state lies in the arena, and of a parameter that trains its gradient and a part of
 * the optimizer's state (optimizer.h). TIDE_NOWHERE: the plan keeps none, or there are fewer parts. */
size_t tide_machine_place(const struct tide_machine *machine, int tensor);
size_t tide_machine_gradient(const struct tide_machine *machine, int tensor);
size_t tide_machine_state(const struct tide_machine *machine, int tensor, int part);

void tide_machine_write(struct tide_machine *machine, size_t to, const void *from, size_t bytes);
void tide_machine_read(struct tide_machine *machine, size_t from, void *to, size_t bytes);

/* The device's own memory, where the host can reach it (device.h); NULL: it cannot, or the place is nowhere.
 * Borrowed until something runs. */
void *tide_machine_lend(struct tide_machine *machine, size_t place);

/* The sum of squares of a parameter: is it a number? */
double tide_machine_squares(struct tide_machine *machine, int tensor);

/* Copies rows of a state, which do not overlap. */
void tide_machine_copy(struct tide_machine *machine, int state, int64_t to, int64_t from, int64_t rows);

/* Forward and backward of one micro-batch of the program that trains; returns the sum of its losses.
 * Gradients add up over micro-batches. */
float tide_machine_pass(struct tide_machine *machine, int64_t micro_batch,
                        const struct tide_update_rule *rule);

/* After the last micro-batch. Does nothing when the last loss or the norm is not a number, as a fused update
 * in a pass does nothing then. What it does is due from now on (due.h), and done by the next pass, or when
 * somebody asks for a parameter or its state, or runs another program. Returns the norm of the gradients
 * before clipping, NAN where it was not wanted. */
double tide_machine_update(struct tide_machine *machine, const struct tide_update_rule *rule);

/* Is told of each instruction of a training pass when it is done, and of the update as a whole: what took how
 * long. NULL: nobody. */
void tide_machine_watch(struct tide_machine *machine, tide_watcher *watcher, void *context);

size_t tide_machine_high_bytes(const struct tide_machine *machine);

/* The end of the highest byte that instructions of a phase were given when they ran, which is at least the
 * end of what is there all the time; 0: none has run. */
size_t tide_machine_used(const struct tide_machine *machine, enum tide_phase phase);

#endif
