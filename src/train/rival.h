/*
 * rival.h - a net's weights at its last match.
 *
 * A second net in the same graph plays with them: its parameters are borrowed (graph.h) and named like the
 * net's own, with TIDE_RIVAL before. Nothing here allocates.
 */
#ifndef TIDE_RIVAL_H
#define TIDE_RIVAL_H

#include "base/durable.h"
#include "base/err.h"
#include "rt/machine.h"

#include <stdio.h>

#define TIDE_RIVAL "rival."

/* Copies the net's current weights to the rival. */
void tide_rival_copy(const struct tide_graph *graph, struct tide_machine *machine);
void tide_rival_write(const struct tide_graph *graph, struct tide_machine *machine,
                      struct tide_durable *file);
int tide_rival_read(const struct tide_graph *graph, struct tide_machine *machine, FILE *file,
                    struct tide_err *err);

#endif
