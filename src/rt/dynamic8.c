#include "rt/dynamic8.h"

#include <math.h>
#include <stdlib.h>

double tide_dynamic8_number(uint8_t code, bool is_signed)
{
    int rank = is_signed ? abs(code - 127) : code, decade = -6, pieces = is_signed ? 1 : 2;
    if (rank == 0 || code == 255)
        return code == 255;
    for (rank--; rank >= pieces; decade++) {
        rank -= pieces;
        pieces *= 2;
    }
    double number = pow(10, decade) * (0.1 + 0.9 * (rank + 0.5) / pieces);
    return is_signed && code < 127 ? -number : number;
}
