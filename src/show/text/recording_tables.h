/*
 * recording_tables.h - the tables of `tidemark show`, each defined once for text, CSV and JSON.
 *
 * The caller prepares the table (form, stream); see table_writer.h.
 */
#ifndef TIDE_RECORDING_TABLES_H
#define TIDE_RECORDING_TABLES_H

#include "assess/summary.h"
#include "show/text/table_writer.h"

/* Text: the tree, indented; a role with many members is one row. CSV, JSON: every process. */
void tide_tables_processes(struct tide_table *table, const struct tide_summary *summary, const char *title);
void tide_tables_phases(struct tide_table *table, const struct tide_summary *summary, const char *title);
/* Steps, epochs, items, and each gauge. */
void tide_tables_marks(struct tide_table *table, const struct tide_summary *summary, const char *title);
void tide_tables_peaks(struct tide_table *table, const struct tide_summary *summary, const char *title);
void tide_tables_ticks(struct tide_table *table, const struct tide_summary *summary, const char *title);
void tide_tables_limits(struct tide_table *table, const struct tide_summary *summary, const char *title);
void tide_tables_gpu(struct tide_table *table, const struct tide_summary *summary, const char *title);
/* What processes held, and what malloc kept free beside it, when last seen. */
void tide_tables_heap(struct tide_table *table, const struct tide_summary *summary, const char *title);
void tide_tables_notes(struct tide_table *table, const struct tide_summary *summary, const char *title);

/* One row per process and look, even if nothing changed. Reads the recording again, because a history has
 * only sums. */
int tide_tables_samples(struct tide_table *table, const struct tide_summary *summary,
                        struct tide_reader *reader, struct tide_err *err);

#endif
