/*
 * chart.h - the chart of one row: its floor is solid, spikes above it are dots.
 */
#ifndef TIDE_CHART_H
#define TIDE_CHART_H

#include "show/screen/view_model.h"
#include "term/cells.h"

/* Draws the chosen row into `rows` lines from `top`, including axis, labels and phases. */
void tide_chart_draw(struct tide_cells *cells, struct tide_model *model, int top, int rows);

/* Draws a sparkline: the lowest level in each column, so that spikes do not hide growth. At most
 * TIDE_SPARK_MAX columns. */
void tide_spark_draw(struct tide_cells *cells, int row, int column, enum tide_style style,
                     const struct tide_bin *bins, int columns);

#endif
