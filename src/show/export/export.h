/*
 * export.h - a recording in the formats of other tools.
 *
 * One table of formats (export.c), one file each (export_*.c). Two kinds: what the call sites hold at a
 * moment, as stacks with a weight (pprof, speedscope, collapsed), and the run over time or as it ended
 * (chrome-trace, openmetrics, csv). Names are untrusted, as they are in the recording; what leaves here is
 * valid UTF-8 with nothing in it that drives a terminal.
 */
#ifndef TIDE_EXPORT_H
#define TIDE_EXPORT_H

#include "assess/moment.h"
#include "base/arena.h"
#include "record/reader.h"

#include <stdio.h>

enum tide_export_rows { TIDE_EXPORT_PROCESSES, TIDE_EXPORT_SITES, TIDE_EXPORT_MARKS };

struct tide_export_options {
    struct tide_moment at;
    bool growth;                /* instead of what is held: what was added in training and not given back */
    enum tide_export_rows rows; /* of a CSV */
};

/* What a call site holds at the moment asked for. */
struct tide_export_value {
    const struct tide_history_site *site;
    int64_t bytes, blocks;
    int64_t total_bytes, total_blocks; /* allocated until then */
};

struct tide_export {
    const struct tide_history *history;
    const struct tide_assessment *assessment;
    struct tide_reader *reader;
    struct tide_export_options options;
    int64_t at_ns;
    struct tide_export_value *values; /* those that hold something, by process and kind of memory */
    size_t count;
    struct tide_arena *arena;
};

struct tide_export_format {
    const char *name;
    const char *suffix; /* usual end of a file's name */
    bool needs_sites;
    bool is_binary;
    bool has_moment; /* --at means something */
    int (*write)(const struct tide_export *export, FILE *out, struct tide_err *err);
};

/* Borrowed; NULL: there is none of that name. */
const struct tide_export_format *tide_export_find(const char *name);

/* Writes the recording to out; whether that failed is in its error flag. Fails when the format needs what the
 * recording has not. */
int tide_export_write(const struct tide_export_format *format, const struct tide_history *history,
                      const struct tide_assessment *assessment, struct tide_reader *reader,
                      const struct tide_export_options *options, FILE *out, struct tide_err *err);

/* ---- for the formats */

enum { TIDE_EXPORT_TEXT = 1024 };

/* Whose memory: "python3[4711]"; memory of a device is apart: "python3[4711] cuda". */
void tide_export_owner(const struct tide_export *export, const struct tide_history_site *site, char *out,
                       size_t size);
/* Whether two sites have the same owner. */
bool tide_export_same_owner(const struct tide_history_site *a, const struct tide_history_site *b);

/* "train_step (train.py:88)", "at::empty_cpu (libtorch_cpu.so)", "libx.so+0x1234". Escaped. */
void tide_export_frame(const struct tide_frame *frame, char *out, size_t size);

/* Of a site without a stack. */
#define TIDE_EXPORT_SMALL "(many small sites)"

/* "pprof" and friends. */
int tide_export_pprof(const struct tide_export *export, FILE *out, struct tide_err *err);
int tide_export_speedscope(const struct tide_export *export, FILE *out, struct tide_err *err);
int tide_export_collapsed(const struct tide_export *export, FILE *out, struct tide_err *err);
int tide_export_trace(const struct tide_export *export, FILE *out, struct tide_err *err);
int tide_export_openmetrics(const struct tide_export *export, FILE *out, struct tide_err *err);
int tide_export_csv(const struct tide_export *export, FILE *out, struct tide_err *err);

#endif
