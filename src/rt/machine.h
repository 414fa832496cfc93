/*
 * machine.h - a graph made runnable: one arena, laid out before anything runs, and steps that allocate
 * nothing.
 *
 * tide_plan_make() says what a graph needs under given choices and touches nothing. tide_machine_new() takes
 * exactly that from the system -> fill parameters and inputs -> tide_machine_pass() for each micro-batch ->
 * tide_machine_update() -> ...; tide_machine_evaluate() in between -> _free.
 *
 * The arena: weights | optimizer | gradients | inputs | what passes share. Training and evaluation share the
 * last part, for they never overlap. `high_bytes` is the end of the highest byte that any instruction was
 * given; it equals the plan, and a check that stays on compares the two.
 *
 * A guest is a second graph (decoding) that runs with the weights of a host and in its last part, between its
 * passes: tide_guest_bytes() -> floor of the host's plan -> tide_machine_guest() -> tide_machine_run().
 */
#ifndef TIDE_MACHINE_H
#define TIDE_MACHINE_H

#include "rt/layout.h"
#include "rt/update.h"

struct tide_plan {
    struct tide_choices choices;
    size_t weights, optimizer, gradients, inputs, passes, total;
    size_t floor; /* of passes, for guests */
    struct tide_layout train, evaluate;
    double work; /* floating-point operations of one training pass */
};

/* trains: false for a graph that is only evaluated. floor: what passes share is not less; 0 without guests.
 */
int tide_plan_make(const struct tide_graph *graph, struct tide_matmuls *matmuls,
                   const struct tide_choices *choices, bool trains, size_t floor, struct tide_plan *ret_plan,
                   struct tide_err *err);

/* The plan that takes least work of those that fit into budget bytes (0: no budget), exact all of them.
 * micro_batches > 1 excludes fused updates. If none fits: -1, and *ret_least is the smallest there is. */
int tide_plan_choose(const struct tide_graph *graph, struct tide_matmuls *matmuls, size_t budget,
                     int64_t micro_batches, bool clips, size_t floor, struct tide_plan *ret_plan,
                     struct tide_plan *ret_least, struct tide_err *err);

struct tide_machine;

/* Its memory is all there, and zeros. Caller frees. graph and matmuls must outlive it. */
int tide_machine_new(const struct tide_graph *graph, struct tide_matmuls *matmuls,
                     const struct tide_plan *plan, bool trains, struct tide_machine **ret_machine,
                     struct tide_err *err);
void tide_machine_free(struct tide_machine *machine);

/* What a graph takes of the part that passes share: its states and inputs, in the order in which the graph
 * has them, then its values. */
int tide_guest_bytes(const struct tide_graph *graph, struct tide_matmuls *matmuls, size_t *ret_bytes,
                     struct tide_err *err);

/* A machine for another graph, forward only, in the memory of a host whose plan has the floor for it. Each of
 * its parameters is the host's of that name and shape; one that the host does not have is refused. Guests
 * whose first tensors are the same states share them. Everything of a guest but its parameters is lost when
 * the host runs, and is cleared here, so that its memory is there from now on. Caller frees, before the host;
 * graph and matmuls must outlive it. */
int tide_machine_guest(struct tide_machine *host, const struct tide_graph *graph,
                       struct tide_matmuls *matmuls, struct tide_machine **ret_machine, struct tide_err *err);

/* Forward, the first row at `position` of its sequence. Returns the first output of the last node, borrowed
 * until something else runs. */
const void *tide_machine_run(struct tide_machine *machine, int64_t position);

/* The tensor's own memory: a parameter, an input or a state. Borrowed; a parameter until the next update,
 * after which it is to be asked for again. */
void *tide_machine_data(struct tide_machine *machine, int tensor);
/* Of a parameter. NULL where the plan keeps none. */
float *tide_machine_gradient(struct tide_machine *machine, int tensor);
float *tide_machine_moments(struct tide_machine *machine, int tensor, int which);

/* How the update that follows (or, fused, happens within) a pass is done. */
struct tide_update_rule {
    struct tide_adamw adamw; /* scale is computed */
    float decay;             /* of parameters that decay */
    float clip;              /* 0: none */
    int64_t micro_batches;
};

/* Forward and backward of one micro-batch; returns its loss. Gradients add up over micro-batches. */
float tide_machine_pass(struct tide_machine *machine, int64_t micro_batch,
                        const struct tide_update_rule *rule);

/* After the last micro-batch. Does nothing when the last loss or the norm is no number, as a fused update in
 * a pass does nothing then. What it does is due from now on (due.h), and done by the next pass, or when
 * somebody asks for a parameter or its moments, or evaluates. Returns the norm of the gradients before
 * clipping, NAN where it was not wanted. */
double tide_machine_update(struct tide_machine *machine, const struct tide_update_rule *rule);

/* Forward only; the loss. */
float tide_machine_evaluate(struct tide_machine *machine);

/* Is told of each instruction of a training pass when it is done, and of the update as a whole: what took how
 * long. NULL: nobody. */
typedef void tide_machine_watcher(void *context, enum tide_action action, const struct tide_node *node);
void tide_machine_watch(struct tide_machine *machine, tide_machine_watcher *watcher, void *context);

size_t tide_machine_high_bytes(const struct tide_machine *machine);

/* The end of the highest byte that instructions of a phase were given when they ran, which is at least the
 * end of what is there all the time; 0: none has run. */
size_t tide_machine_used(const struct tide_machine *machine, enum tide_phase phase);

#endif
