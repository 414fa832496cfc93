#include "assess/gap.h"

#include <stdio.h>

double tide_gap_find(const struct tide_history *h, double *ret_from)
{
    double seconds = 0;
    for (size_t i = 0; i < h->note_count; i++) {
        double from, to;
        if (sscanf(h->notes[i].text, "nothing could be written between %lf s and %lf s", &from, &to) != 2 ||
            !(to > from)) /* the writer's note (writer.c) */
            continue;
        *ret_from = seconds > 0 ? *ret_from : from;
        seconds += to - from;
    }
    return seconds;
}
