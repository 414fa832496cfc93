/*
 * lent.h - memory of tensors that the device of a test lends, which processors do.
 */
#ifndef TIDE_TEST_LENT_H
#define TIDE_TEST_LENT_H

#include "rt/machine.h"

static inline void *lent(struct tide_machine *machine, int tensor)
{
    return tide_machine_lend(machine, tide_machine_place(machine, tensor));
}

static inline void *lent_gradient(struct tide_machine *machine, int tensor)
{
    return tide_machine_lend(machine, tide_machine_gradient(machine, tensor));
}

static inline void *lent_state(struct tide_machine *machine, int tensor, int part)
{
    return tide_machine_lend(machine, tide_machine_state(machine, tensor, part));
}

#endif
