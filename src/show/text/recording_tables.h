/*
 * recording_tables.h - the tables that `tidemark show` prints, each in one place for people, CSV and JSON.
 *
 * The table is prepared by the caller (form, stream); see table_writer.h.
 */
#ifndef TIDE_RECORDING_TABLES_H
#define TIDE_RECORDING_TABLES_H

#include "assess/summary.h"
#include "show/text/table_writer.h"

/* Text: the tree, indented, roles of many members as one row. CSV, JSON: every process. */
void tide_tables_processes(struct tide_table *table, const struct tide_summary *summary, const char *title);
void tide_tables_phases(struct tide_table *table, const struct tide_summary *summary, const char *title);
/* Steps, epochs, items, and each gauge. */
void tide_tables_marks(struct tide_table *table, const struct tide_summary *summary, const char *title);
void tide_tables_peaks(struct tide_table *table, const struct tide_summary *summary, const char *title);
void tide_tables_ticks(struct tide_table *table, const struct tide_summary *summary, const char *title);
void tide_tables_limits(struct tide_table *table, const struct tide_summary *summary, const char *title);
void tide_tables_gpu(struct tide_table *table, const struct tide_summary *summary, const char *title);
/* What processes held, and what malloc keeps beside it, as last seen. */
void tide_tables_heap(struct tide_table *table, const struct tide_summary *summary, const char *title);
void tide_tables_notes(struct tide_table *table, const struct tide_summary *summary, const char *title);

/* One row per process and look, also where nothing changed. Reads the recording again, since a history has
 * sums only. */
int tide_tables_samples(struct tide_table *table, const struct tide_summary *summary,
                        struct tide_reader *reader, struct tide_err *err);

#endif
