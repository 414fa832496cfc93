/*
 * downsample.c - see downsample.h. Each cell is read twice: once to find what each series keeps, once to move
 * those elements down.
 */
#include "assess/downsample.h"
#include "base/check.h"
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SERIES = 4096 }; /* in one cell; elements of further series are all kept */

/* One element, read by its layout. */
struct moment {
    int64_t t_ns, value;
    uint64_t key;
};

struct keep {
    size_t lowest, highest, last;
    int64_t low, high;
};

struct cell {
    struct tide_map series; /* key -> index into keeps */
    struct keep keeps[MAX_SERIES];
    size_t keep_count;
};

/* Returns the entry of a series in this cell, or a new one for `index` (SIZE_MAX: none). NULL: no room. */
static struct keep *find(struct cell *cell, const struct moment *moment, size_t index)
{
    uint64_t found;

    if (cell->keep_count > 0 && tide_map_get(&cell->series, moment->key, &found))
        return &cell->keeps[found];
    if (index == SIZE_MAX || cell->keep_count == MAX_SERIES ||
        tide_map_put(&cell->series, moment->key, cell->keep_count) != 0)
        return NULL;
    struct keep *keep = &cell->keeps[cell->keep_count++];
    *keep = (struct keep){index, index, index, moment->value, moment->value};
    return keep;
}

static void look(struct cell *cell, const struct moment *moment, size_t index)
{
    struct keep *keep = find(cell, moment, index);

    if (!keep)
        return;
    if (moment->value < keep->low) {
        keep->low = moment->value;
        keep->lowest = index;
    }
    if (moment->value > keep->high) {
        keep->high = moment->value;
        keep->highest = index;
    }
    keep->last = index;
}

/* Releases a map that has grown, because clearing costs its size at every cell. */
static void empty(struct cell *cell)
{
    if (cell->keep_count > 64) {
        tide_map_release(&cell->series);
        tide_map_init(&cell->series, MAX_SERIES);
    } else {
        tide_map_clear(&cell->series);
    }
    cell->keep_count = 0;
}

static struct moment moment_of(const struct tide_layout *layout, const unsigned char *element)
{
    struct moment m = {.key = layout->key ? layout->key(element) : 0};
    memcpy(&m.t_ns, element + layout->time, sizeof m.t_ns);
    memcpy(&m.value, element + layout->value, sizeof m.value);
    return m;
}

size_t tide_thin(void *elements, size_t count, int64_t cell_ns, const struct tide_layout *layout)
{
    struct cell *cell = malloc(sizeof *cell);
    unsigned char *bytes = elements;
    size_t kept = 0, size = layout->size;

    TIDE_CHECK(cell_ns, >=, 1);
    if (!cell)
        return count;
    tide_map_init(&cell->series, MAX_SERIES);
    cell->keep_count = 0;
    for (size_t begin = 0, end; begin < count; begin = end) {
        int64_t number = moment_of(layout, bytes + begin * size).t_ns / cell_ns;

        empty(cell);
        for (end = begin; end < count; end++) {
            struct moment moment = moment_of(layout, bytes + end * size);
            if (moment.t_ns / cell_ns != number)
                break;
            look(cell, &moment, end);
        }
        for (size_t i = begin; i < end; i++) {
            struct moment moment = moment_of(layout, bytes + i * size);
            const struct keep *keep = find(cell, &moment, SIZE_MAX);
            if (keep && i != keep->lowest && i != keep->highest && i != keep->last)
                continue;
            if (kept != i)
                memmove(bytes + kept * size, bytes + i * size, size);
            kept++;
        }
    }
    tide_map_release(&cell->series);
    free(cell);
    return kept;
}
