/*
 * heap_sense.h - copies the tables of live memory (heap_read.h) into the recording.
 *
 * tide_heap_sense_new -> _open (once the channel exists) -> _look() after each look of sense.h -> _free.
 *
 * A look reads as many tables as 1 % of wall time allows: first those of processes that are gone, then the
 * others in turn. A table that has ended is read to its end and then dropped. A call stack becomes a site of
 * the recording if it is among the first 2,000 of its process or has ever held 64 KiB. Smaller ones are
 * summed up in one site per process and kind, without a stack. Rows are written for sites that changed, those
 * that changed most first. Their number is limited over time (about 50 a second after the first 200,000), so
 * that a recording stays small however busy the program is. When a process has ended, all that changed is
 * written. A process that began and ended between two looks at the tree is added to the recording if it held
 * 1 MiB in the end, up to 64 of them.
 *
 * _notice() returns what the user should be told: a program whose allocations cannot be seen, and why.
 */
#ifndef TIDE_HEAP_SENSE_H
#define TIDE_HEAP_SENSE_H

#include "base/err.h"
#include "record/writer.h"
#include "sense/sense.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_heap_sense;

/* program: looks up symbols (symbol_server.h). If it cannot be started, addresses stay addresses. */
int tide_heap_sense_new(const char *program, struct tide_heap_sense **ret_heap, struct tide_err *err);
void tide_heap_sense_free(struct tide_heap_sense *heap);

/* base_ns: tide_clock_ns() at t = 0 of the recording. descriptors: the shared budget of open files. */
int tide_heap_sense_open(struct tide_heap_sense *heap, const char *channel_path,
                         struct tide_descriptors *descriptors, int64_t base_ns, struct tide_err *err);

/* Before a look at the processes: tells it the hook's memory in each, and the symbol server's PID. */
void tide_heap_sense_hooks(const struct tide_heap_sense *heap, struct tide_sense *sense);

/* tick: id of the look that was just written, at now_ns. The last look reads every table to its end and waits
 * up to 20 s for symbols. Returns writer errors. */
int tide_heap_sense_look(struct tide_heap_sense *heap, const struct tide_sense *sense,
                         struct tide_writer *writer, int64_t tick, int64_t now_ns, bool last,
                         struct tide_err *err);

/* PID of the symbol server, a child of this process, valid until the next look. 0: there is none. */
int64_t tide_heap_sense_helper(const struct tide_heap_sense *heap);

/* Number of tables ever seen. */
size_t tide_heap_sense_tables(const struct tide_heap_sense *heap);

/* Returns the next sentence for the user, each once. NULL: none. Borrowed until the next call. */
const char *tide_heap_sense_notice(struct tide_heap_sense *heap);

#endif
