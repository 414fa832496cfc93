/*
 * export.h - a recording in the formats of other tools.
 *
 * One table of formats (export.c), one file each. There are two kinds: what the call sites hold at a moment,
 * as stacks with a weight (pprof, speedscope, collapsed), and the run over time or at its end (chrome-trace,
 * openmetrics, csv). Names in a recording are untrusted; the output is valid UTF-8 without control
 * characters.
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
    bool growth;                /* bytes allocated in training and not freed, instead of live bytes */
    enum tide_export_rows rows; /* of a CSV */
};

/* What a call site holds at the chosen moment. */
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
    struct tide_export_value *values; /* sites that hold something, by process and kind of memory */
    size_t count;
    struct tide_arena *arena;
};

struct tide_export_format {
    const char *name;
    const char *suffix; /* usual suffix of a file name */
    bool needs_sites;
    bool is_binary;
    bool has_moment; /* --at is allowed */
    int (*write)(const struct tide_export *export, FILE *out, struct tide_err *err);
};

/* Returns the format of that name, borrowed; NULL: there is none. */
const struct tide_export_format *tide_export_find(const char *name);

/* Writes the recording to out; the caller checks ferror(out). Fails if the recording lacks what the format
 * needs. */
int tide_export_write(const struct tide_export_format *format, const struct tide_history *history,
                      const struct tide_assessment *assessment, struct tide_reader *reader,
                      const struct tide_export_options *options, FILE *out, struct tide_err *err);

/* ---- for the formats */

enum { TIDE_EXPORT_TEXT = 1024 };

/* The owner of the memory: "python3[4711]"; for device memory "python3[4711] cuda". */
void tide_export_owner(const struct tide_export *export, const struct tide_history_site *site, char *out,
                       size_t size);
/* Orders sites by owner: by process, and within one, device memory last. 0: the same owner. */
int tide_export_by_owner(const struct tide_history_site *a, const struct tide_history_site *b);

/* "train_step (train.py:88)", "at::empty_cpu (libtorch_cpu.so)", "libx.so+0x1234". Escaped. */
void tide_export_frame(const struct tide_frame *frame, char *out, size_t size);

/* The name of a site without a stack. */
#define TIDE_EXPORT_SMALL "(many small sites)"

int tide_export_pprof(const struct tide_export *export, FILE *out, struct tide_err *err);
int tide_export_speedscope(const struct tide_export *export, FILE *out, struct tide_err *err);
int tide_export_collapsed(const struct tide_export *export, FILE *out, struct tide_err *err);
int tide_export_trace(const struct tide_export *export, FILE *out, struct tide_err *err);
int tide_export_openmetrics(const struct tide_export *export, FILE *out, struct tide_err *err);
int tide_export_csv(const struct tide_export *export, FILE *out, struct tide_err *err);

#endif
