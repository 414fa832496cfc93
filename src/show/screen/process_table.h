/*
 * process_table.h - the process table of the terminal view: which columns fit, and the rows in them.
 */
#ifndef TIDE_PROCESS_TABLE_H
#define TIDE_PROCESS_TABLE_H

#include "show/screen/cells.h"
#include "show/screen/view_model.h"

/* A heading and rows - 1 rows of the model, from line `top` on. Keeps the chosen row in sight. */
void tide_table_draw(struct tide_cells *cells, struct tide_model *model, int top, int rows);

#endif
