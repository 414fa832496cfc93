/*
 * heap_sense.h - copies the tables of live memory (heap_read.h) into the recording.
 *
 * tide_heap_sense_new -> _open (the channel is there) -> _look() after each look of sense.h -> _finish() ->
 * _free.
 *
 * A look reads as many tables as 1 % of wall time allows, those of processes that are gone first and then in
 * turn; a table that has ended is read to its end and then dropped. A call stack becomes a site of the
 * recording when it is among the first 2,000 of its process or has ever held 64 KiB; what is smaller is one
 * site per process and kind, without a stack. Rows are written for sites whose numbers changed, those that
 * changed most first; how many is bounded over time (about 50 a second after the first 200,000), so that a
 * recording stays small however busy the program is. When a process has ended, everything that changed is
 * written.
 *
 * What the user should be told (a program whose allocations cannot be seen, and why) waits in _notice().
 */
#ifndef TIDE_HEAP_SENSE_H
#define TIDE_HEAP_SENSE_H

#include "base/err.h"
#include "record/writer.h"
#include "sense/sense.h"

#include <stddef.h>
#include <stdint.h>

struct tide_heap_sense;

/* program: which looks up symbols (symbol_server.h); when it cannot be started, addresses stay addresses. */
int tide_heap_sense_new(const char *program, struct tide_heap_sense **ret_heap, struct tide_err *err);
void tide_heap_sense_free(struct tide_heap_sense *heap);

/* base_ns: tide_clock_ns() at t = 0 of the recording. descriptors: shared with who else keeps files open. */
int tide_heap_sense_open(struct tide_heap_sense *heap, const char *channel_path,
                         struct tide_descriptors *descriptors, int64_t base_ns, struct tide_err *err);

/* Before a look at the processes: tells it what the hook has in each, and which is the server of symbols. */
void tide_heap_sense_hooks(const struct tide_heap_sense *heap, struct tide_sense *sense);

/* tick: id of the look that was just written, at now_ns. Writer errors are returned. */
int tide_heap_sense_look(struct tide_heap_sense *heap, const struct tide_sense *sense,
                         struct tide_writer *writer, int64_t tick, int64_t now_ns, struct tide_err *err);

/* Reads every table to its end and waits for symbols, for at most wait_ms. */
int tide_heap_sense_finish(struct tide_heap_sense *heap, const struct tide_sense *sense,
                           struct tide_writer *writer, int64_t tick, int64_t now_ns, int wait_ms,
                           struct tide_err *err);

/* PID of the server of symbols, a child of this process, until the next look; 0: there is none. */
int64_t tide_heap_sense_helper(const struct tide_heap_sense *heap);

/* Tables ever seen. */
size_t tide_heap_sense_tables(const struct tide_heap_sense *heap);

/* The next sentence for the user, once each; NULL: none. Borrowed until the next call. */
const char *tide_heap_sense_notice(struct tide_heap_sense *heap);

#endif
