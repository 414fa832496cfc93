/*
 * streamed.h - parameters that stay in their file: a program that reads one gets it from there.
 *
 * For models that are too seldom read to be worth their memory, as the reference of a policy. The file is
 * opened once and stays open; each tensor's shape and type are checked then. What comes later (a file that is
 * cut off or written to, a disk that fails) ends the program's run, and tide_streamed_failed() says why.
 * Numbers go from the file to where the program wants them, by pieces on all threads, rounded to the type
 * that the graph has for them; the tensor that comes next is asked of the disk meanwhile. They are nowhere
 * else in the process; the system keeps the file's pages as long as it has memory to spare.
 *
 * tide_streamed_open -> tide_machine_source(machine, tide_streamed_read, streamed) -> tide_machine_run ... ->
 * _close. After _open nothing is allocated.
 */
#ifndef TIDE_STREAMED_H
#define TIDE_STREAMED_H

#include "rt/machine.h"

struct tide_streamed;

/* All parameters of the graph that are streamed, called `prefix` and then as in the file. path: of
 * model.safetensors, or of shards (shards.h). The graph must outlive it. Caller closes. */
int tide_streamed_open(const struct tide_graph *graph, const char *prefix, const char *path,
                       struct tide_streamed **ret_streamed, struct tide_err *err);
void tide_streamed_close(struct tide_streamed *streamed);

/* A tide_source (machine.h) whose context is the struct. */
int tide_streamed_read(void *streamed, int tensor, int64_t first, int64_t rows, void *to);

/* 0, or -1 with why a read failed. */
int tide_streamed_failed(const struct tide_streamed *streamed, struct tide_err *err);

#endif
