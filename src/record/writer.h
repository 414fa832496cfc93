/*
 * writer.h - writes a recording.
 *
 * tide_writer_new -> _meta_* -> repeat { _tick, then rows of that tick, marks, processes; _commit } -> _free.
 *
 * A _commit (one transaction) makes rows survive a kill of this process; the caller commits about once a
 * second. After `kill -9` the file opens and holds everything up to the last commit. The writer never blocks
 * on a reader. All rows reference processes by id, from tide_writer_process().
 *
 * Full disk and I/O errors: the failing call returns -1 with a message, the open transaction is rolled back,
 * and the file stays readable up to the last commit. Later calls return 0 and do nothing, except that a
 * commit at least 10 s later tries again (tide_writer_failed() tells). If that succeeds, it writes a note
 * about the gap. So the caller reports the first error once and continues.
 *
 * One thread. The path must not exist: a recording is never overwritten.
 */
#ifndef TIDE_WRITER_H
#define TIDE_WRITER_H

#include "base/err.h"
#include "record/record.h"

#include <stdbool.h>
#include <stddef.h>

struct tide_writer;

/* Caller frees with tide_writer_free. Fails if the file exists, with a hint. */
int tide_writer_new(const char *path, struct tide_writer **ret_writer, struct tide_err *err);

/* Commits what is open, checkpoints so that only the one file remains, closes. NULL is allowed. Returns -1 if
 * writing failed. */
int tide_writer_free(struct tide_writer *writer, struct tide_err *err);

/* For a recording that has ended: removes the log that a reader kept tide_writer_free() from removing. */
void tide_writer_fold(const char *path);

/* Removes a recording that is of no use, together with SQLite's files beside it, which remain if a reader
 * still has the recording open when its writer closes. */
void tide_writer_discard(const char *path);

int tide_writer_meta_text(struct tide_writer *writer, const char *key, const char *text,
                          struct tide_err *err);
int tide_writer_meta_integer(struct tide_writer *writer, const char *key, int64_t value,
                             struct tide_err *err);

/* Adds a process. process->id is ignored; its id is returned through ret_id. */
int tide_writer_process(struct tide_writer *writer, const struct tide_process *process, int64_t *ret_id,
                        struct tide_err *err);
/* Replaces the row of a process: its name, command, role or parent changed (exec, rename, reparenting), it
 * ended, or its peak rose. */
int tide_writer_process_update(struct tide_writer *writer, const struct tide_process *process,
                               struct tide_err *err);

/* Starts a tick. tick->id is ignored; its id is returned through ret_id. */
int tide_writer_tick(struct tide_writer *writer, const struct tide_tick *tick, int64_t *ret_id,
                     struct tide_err *err);

/* Written only if it differs from the last row of that process. */
int tide_writer_sample(struct tide_writer *writer, const struct tide_sample *sample, struct tide_err *err);
int tide_writer_smaps(struct tide_writer *writer, const struct tide_smaps *smaps, struct tide_err *err);
int tide_writer_mark(struct tide_writer *writer, const struct tide_mark *mark, struct tide_err *err);
int tide_writer_gpu(struct tide_writer *writer, const struct tide_gpu_sample *gpu, struct tide_err *err);
int tide_writer_gpu_device(struct tide_writer *writer, const struct tide_gpu_device *device,
                           struct tide_err *err);
int tide_writer_limit(struct tide_writer *writer, const struct tide_limit *limit, struct tide_err *err);
int tide_writer_note(struct tide_writer *writer, const struct tide_note *note, struct tide_err *err);

/* What the heap hook saw. Frames, stacks and sites get their id like processes. frames[0] is the innermost;
 * depth >= 1. Samples of sites and heaps are written unconditionally: the caller knows which ones changed,
 * and puts all of them again after a failure. */
int tide_writer_frame(struct tide_writer *writer, const struct tide_frame *frame, int64_t *ret_id,
                      struct tide_err *err);
int tide_writer_stack(struct tide_writer *writer, const int64_t *frames, size_t depth, int64_t *ret_id,
                      struct tide_err *err);
int tide_writer_site(struct tide_writer *writer, const struct tide_site *site, int64_t *ret_id,
                     struct tide_err *err);
int tide_writer_site_sample(struct tide_writer *writer, const struct tide_site_sample *sample,
                            struct tide_err *err);
int tide_writer_heap_status(struct tide_writer *writer, const struct tide_heap_status *state,
                            struct tide_err *err);
int tide_writer_heap_sample(struct tide_writer *writer, const struct tide_heap_sample *sample,
                            struct tide_err *err);

int tide_writer_commit(struct tide_writer *writer, struct tide_err *err);

/* True if writing has failed and not yet recovered. */
bool tide_writer_failed(const struct tide_writer *writer);

#endif
