/*
 * view_rows.h - the rows of the process table: who is shown, under whom, folded or not, in which order.
 *
 * Part of the model (view_model.h); nobody else calls it. Processes with the same parent and the same role
 * are one foldable row, folded at first. A parent must have a smaller id than its child, else the child
 * counts as a root: so a recording with a circle in it cannot hang the view.
 */
#ifndef TIDE_VIEW_ROWS_H
#define TIDE_VIEW_ROWS_H

#include "show/screen/view_model.h"

/* Rows at the moment of the cursor. -1: no memory, and there are no rows. */
int tide_rows_build(struct tide_model *model);

struct tide_moment {
    int64_t rss, pss, uss, gpu, threads;
    bool begun, alive;
    int64_t peak;       /* of RSS, over all points there are; kept from one update to the next */
    size_t peak_points; /* that it was found in */
};

#endif
