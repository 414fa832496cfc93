/*
 * machine.h - makes a graph runnable: one arena, laid out before anything runs, and programs that allocate
 * nothing.
 *
 * tide_plan_make() computes what a graph needs under given choices and allocates nothing. tide_machine_new()
 * takes exactly that from a device (device.h) -> fill parameters and inputs -> tide_machine_pass() for each
 * micro-batch -> tide_machine_update() -> ...; tide_machine_run() for other programs in between -> _free.
 *
 * The arena has the sections of graph.h, one after another. Programs share the last one, because only one
 * runs at a time. `high_bytes` is the end of the highest byte that any instruction was given. It equals the
 * plan; a check that is always on compares the two.
 */
#ifndef TIDE_MACHINE_H
#define TIDE_MACHINE_H

#include "rt/layout.h"
#include "rt/optimizer.h"

struct tide_plan {
    struct tide_choices choices;
    size_t bytes[TIDE_SECTIONS], total;
    struct tide_layout layouts[TIDE_PROGRAMS]; /* of what programs compute */
    size_t update;                             /* bytes of the last section that an update works in */
    double work;                               /* floating-point operations of one training pass */
};

/* Returns where a section begins. */
static inline size_t tide_plan_start(const struct tide_plan *plan, enum tide_section section)
{
    size_t start = 0;
    for (int i = 0; i < (int)section; i++)
        start += plan->bytes[i];
    return start;
}

/* Returns where a program's values begin in the last section: after the states, if it uses any. */
size_t tide_plan_base(const struct tide_graph *graph, int program);

int tide_plan_make(const struct tide_graph *graph, const struct tide_device *device,
                   const struct tide_choices *choices, struct tide_plan *ret_plan, struct tide_err *err);

/* For a graph that trains: finds the plan with the least work that fits into `budget` bytes (0: no budget).
 * All plans compute the same bits. micro_batches > 1 excludes fused updates. If none fits, returns -1 and the
 * smallest plan in *ret_least. */
int tide_plan_choose(const struct tide_graph *graph, const struct tide_device *device, size_t budget,
                     int64_t micro_batches, bool clips, struct tide_plan *ret_plan,
                     struct tide_plan *ret_least, struct tide_err *err);

struct tide_machine;

/* All memory is allocated and zero. Caller frees. graph and device must outlive it. */
int tide_machine_new(const struct tide_graph *graph, const struct tide_device *device,
                     const struct tide_plan *plan, struct tide_machine **ret_machine, struct tide_err *err);
void tide_machine_free(struct tide_machine *machine);

/* Sets the source that programs ask for streamed parameters (graph.h). */
void tide_machine_source(struct tide_machine *machine, tide_source *source, void *context);

/* Runs a program forward. Returns -1 if the source could not provide a parameter; then there are no results.
 * Only a program that reads streamed parameters can fail. */
int tide_machine_run(struct tide_machine *machine, int program);

/* ---- data: inputs and results are in host memory, everything else on the device */

/* Returns an input's memory for the caller to fill; each run copies it to the device. Borrowed, valid as long
 * as the machine. */
void *tide_machine_input(struct tide_machine *machine, int tensor);

/* Returns what a program left in a tensor that is a result. Borrowed until another program runs. */
const void *tide_machine_result(const struct tide_machine *machine, int program, int tensor);

/* Where in the arena a parameter or a state is, and the gradient and a part of the optimizer state
 * (optimizer.h) of a parameter that trains. TIDE_NOWHERE: the plan keeps none, or there are fewer parts. */
size_t tide_machine_place(const struct tide_machine *machine, int tensor);
size_t tide_machine_gradient(const struct tide_machine *machine, int tensor);
size_t tide_machine_state(const struct tide_machine *machine, int tensor, int part);

void tide_machine_write(struct tide_machine *machine, size_t to, const void *from, size_t bytes);
void tide_machine_read(struct tide_machine *machine, size_t from, void *to, size_t bytes);

/* Returns the device's own memory if the host can access it (device.h); NULL: it cannot, or place is
 * TIDE_NOWHERE. Borrowed until something runs. */
void *tide_machine_lend(struct tide_machine *machine, size_t place);

/* Returns the sum of squares of a parameter, to check that it is finite. */
double tide_machine_squares(struct tide_machine *machine, int tensor);

/* Copies rows of a state. The ranges must not overlap. */
void tide_machine_copy(struct tide_machine *machine, int state, int64_t to, int64_t from, int64_t rows);

/* Runs forward and backward of one micro-batch of the program that trains. Returns the sum of its losses.
 * Gradients add up over micro-batches. */
float tide_machine_pass(struct tide_machine *machine, int64_t micro_batch,
                        const struct tide_update_rule *rule);

/* Call after the last micro-batch. Does nothing if the last loss or the norm is not finite, just as a fused
 * update does nothing then. Returns the norm of the gradients before clipping, NAN if it was not measured. */
double tide_machine_update(struct tide_machine *machine, const struct tide_update_rule *rule);

/* Sets a function to call after each instruction of a training pass and after the update, to time them, or
 * NULL. */
void tide_machine_watch(struct tide_machine *machine, tide_watcher *watcher, void *context);

size_t tide_machine_high_bytes(const struct tide_machine *machine);

/* The end of the highest byte that instructions of a phase were given when they ran. At least the end of what
 * lasts between runs; 0: none has run. */
size_t tide_machine_used(const struct tide_machine *machine, enum tide_phase phase);

#endif
