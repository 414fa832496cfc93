/*
 * reader.h - reads a recording, finished or still growing.
 *
 * tide_reader_new -> _meta_*, _each_* as often as wanted -> _free. Each call sees what was committed when it
 * began. Wrap several calls that must agree with each other in tide_reader_begin/_end (one read transaction).
 *
 * The file is not trusted: a database that is truncated, foreign, of a newer version, or has rows out of
 * range gives an error sentence, never a crash. It is opened read-only and nothing in it is executed (no
 * triggers, no views, no extension, defensive mode). Values are checked: sizes in [0, 2^62], kinds known,
 * text at most TIDE_READER_TEXT bytes; rows that fail are skipped and counted (tide_reader_skipped).
 *
 * Callbacks get borrowed rows, valid during the call; a callback that returns non-zero stops the iteration,
 * which then returns that value. One thread.
 */
#ifndef TIDE_READER_H
#define TIDE_READER_H

#include "base/err.h"
#include "record/record.h"

struct tide_reader;

enum { TIDE_READER_TEXT = 64 * 1024 };

/* Caller frees with tide_reader_free. */
int tide_reader_new(const char *path, struct tide_reader **ret_reader, struct tide_err *err);
void tide_reader_free(struct tide_reader *reader);

/* The same of a database that is open, which it takes over, also on failure: for fuzzing, which has databases
 * in memory. name is what error sentences call it. */
struct sqlite3;
int tide_reader_adopt(struct sqlite3 *db, const char *name, struct tide_reader **ret_reader,
                      struct tide_err *err);

/* Whether the first bytes of the file say that it is a SQLite database; -1 with a sentence when it cannot be
 * read. */
int tide_reader_is_recording(const char *path, struct tide_err *err);

int tide_reader_begin(struct tide_reader *reader, struct tide_err *err);
void tide_reader_end(struct tide_reader *reader);

/* NULL / TIDE_UNKNOWN when there is none. The text is borrowed: valid until the reader is freed. */
const char *tide_reader_meta_text(struct tide_reader *reader, const char *key);
int64_t tide_reader_meta_integer(struct tide_reader *reader, const char *key);

typedef int tide_on_process(void *context, const struct tide_process *row);
typedef int tide_on_tick(void *context, const struct tide_tick *row);
typedef int tide_on_sample(void *context, const struct tide_sample *row);
typedef int tide_on_smaps(void *context, const struct tide_smaps *row);
typedef int tide_on_mark(void *context, const struct tide_mark *row);
typedef int tide_on_gpu(void *context, const struct tide_gpu_sample *row);
typedef int tide_on_gpu_device(void *context, const struct tide_gpu_device *row);
typedef int tide_on_limit(void *context, const struct tide_limit *row);
typedef int tide_on_note(void *context, const struct tide_note *row);
typedef int tide_on_frame(void *context, const struct tide_frame *row);
typedef int tide_on_stack(void *context, const struct tide_stack_row *row);
typedef int tide_on_site(void *context, const struct tide_site *row);
typedef int tide_on_site_sample(void *context, const struct tide_site_sample *row);
typedef int tide_on_heap_state(void *context, const struct tide_heap_status *row);
typedef int tide_on_heap_sample(void *context, const struct tide_heap_sample *row);

/* In order of id (processes, ticks), of tick (samples), of writing (marks), of time (the rest). Those with
 * `after` give only rows whose tick id (or, for marks, row number: 0 at first, then what *ret_last said, the
 * last row that the callback took) is larger. All return 0, -1, or the callback's value. */
int tide_reader_each_process(struct tide_reader *reader, tide_on_process *on, void *context,
                             struct tide_err *err);
int tide_reader_each_tick(struct tide_reader *reader, int64_t after, tide_on_tick *on, void *context,
                          struct tide_err *err);
int tide_reader_each_sample(struct tide_reader *reader, int64_t after, tide_on_sample *on, void *context,
                            struct tide_err *err);
int tide_reader_each_smaps(struct tide_reader *reader, int64_t after, tide_on_smaps *on, void *context,
                           struct tide_err *err);
int tide_reader_each_mark(struct tide_reader *reader, int64_t after, int64_t *ret_last, tide_on_mark *on,
                          void *context, struct tide_err *err);
int tide_reader_each_gpu(struct tide_reader *reader, int64_t after, tide_on_gpu *on, void *context,
                         struct tide_err *err);
int tide_reader_each_gpu_device(struct tide_reader *reader, tide_on_gpu_device *on, void *context,
                                struct tide_err *err);
int tide_reader_each_limit(struct tide_reader *reader, tide_on_limit *on, void *context,
                           struct tide_err *err);
int tide_reader_each_note(struct tide_reader *reader, tide_on_note *on, void *context, struct tide_err *err);

/* What the heap hook saw; nothing in a recording of version 1, no heap samples in one of version 2.
 * `after` is an id: of a frame, a stack or a site; for samples, of a tick. Stacks come in order of id and,
 * within one, of depth. */
int tide_reader_each_frame(struct tide_reader *reader, int64_t after, tide_on_frame *on, void *context,
                           struct tide_err *err);
int tide_reader_each_stack(struct tide_reader *reader, int64_t after, tide_on_stack *on, void *context,
                           struct tide_err *err);
int tide_reader_each_site(struct tide_reader *reader, int64_t after, tide_on_site *on, void *context,
                          struct tide_err *err);
int tide_reader_each_site_sample(struct tide_reader *reader, int64_t after, tide_on_site_sample *on,
                                 void *context, struct tide_err *err);
int tide_reader_each_heap_state(struct tide_reader *reader, tide_on_heap_state *on, void *context,
                                struct tide_err *err);
int tide_reader_each_heap_sample(struct tide_reader *reader, int64_t after, tide_on_heap_sample *on,
                                 void *context, struct tide_err *err);

/* Rows left out so far because their values were out of range. */
int64_t tide_reader_skipped(const struct tide_reader *reader);

#endif
