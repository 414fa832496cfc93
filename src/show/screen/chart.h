/*
 * chart.h - the chart of one row: its floor as a solid body, what rises above it as light dots.
 *
 * tide_chart_init -> tide_chart_draw() on every frame -> tide_chart_release.
 */
#ifndef TIDE_CHART_H
#define TIDE_CHART_H

#include "show/screen/view_model.h"
#include "term/cells.h"

struct tide_chart {
    struct tide_bin
        *bins; /* `reach` more than shown on both sides, so that the floor is right at the edges */
    int64_t *floors;
    int64_t *edges;
    int32_t *phases; /* name of the phase in each shown column, -1: none */
    size_t capacity;
    size_t before, shown; /* the shown columns are bins[before .. before + shown - 1] */
};

void tide_chart_init(struct tide_chart *chart);
void tide_chart_release(struct tide_chart *chart);

/* Draws the chosen row into `rows` lines from `top`, axis, labels and phases included. */
void tide_chart_draw(struct tide_chart *chart, struct tide_model *model, struct tide_cells *cells, int top,
                     int rows);

/* One line of a sparkline: the lowest level in each column, so that spikes do not hide who grows. At most
 * TIDE_SPARK_MAX columns. */
void tide_spark_draw(struct tide_cells *cells, int row, int column, enum tide_style style,
                     const struct tide_bin *bins, int columns);

#endif
