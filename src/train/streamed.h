/*
 * streamed.h - parameters that stay in their file: a program that reads one gets it from there.
 *
 * For models that are read too seldom to be worth their memory, such as the reference of a policy. The file
 * is opened once and stays open; each tensor's shape and type are checked then. A later error (a file that is
 * truncated or written to, a disk that fails) ends the program's run, and tide_streamed_failed() says why.
 * Numbers go from the file straight to the program's memory, in pieces on all threads, rounded to the graph's
 * type; the next tensor is prefetched from the disk meanwhile. The process keeps no other copy; the page
 * cache keeps the file as long as there is memory to spare.
 *
 * tide_streamed_open -> tide_machine_source(machine, tide_streamed_read, streamed) -> tide_machine_run ... ->
 * _close. After _open nothing is allocated.
 */
#ifndef TIDE_STREAMED_H
#define TIDE_STREAMED_H

#include "rt/machine.h"

struct tide_streamed;

/* Opens all streamed parameters of the graph; their names are `prefix` and the name in the file. path: of
 * model.safetensors, or of shards (shards.h). The graph must outlive it. Caller closes. */
int tide_streamed_open(const struct tide_graph *graph, const char *prefix, const char *path,
                       struct tide_streamed **ret_streamed, struct tide_err *err);
void tide_streamed_close(struct tide_streamed *streamed);

/* Computes a checksum of the numbers as they are in the file, whatever their order and however many files
 * there are. It reads them once, on all threads, as a run of the program does. */
int tide_streamed_checksum(const struct tide_streamed *streamed, uint32_t *ret_checksum,
                           struct tide_err *err);

/* A tide_source (machine.h) whose context is the struct. */
int tide_streamed_read(void *streamed, int tensor, int64_t first, int64_t rows, void *to);

/* Returns 0, or -1 with the reason why a read failed. */
int tide_streamed_failed(const struct tide_streamed *streamed, struct tide_err *err);

#endif
