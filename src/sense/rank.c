#include "sense/rank.h"

#include "record/record.h"

#include <stdlib.h>
#include <string.h>

enum { RANK_MOST = 1 << 20 };

/* The value of a variable as a number; TIDE_UNKNOWN: it is not there, or is none. */
static int64_t number_of(const char *environment, size_t len, const char *name)
{
    size_t name_len = strlen(name);
    for (const char *p = environment; p < environment + len; p += strlen(p) + 1) {
        if (strncmp(p, name, name_len) != 0 || p[name_len] != '=')
            continue;
        char *end;
        long value = strtol(p + name_len + 1, &end, 10);
        return end == p + name_len + 1 || *end || value < 0 || value > RANK_MOST ? TIDE_UNKNOWN : value;
    }
    return TIDE_UNKNOWN;
}

int64_t tide_rank_of(const char *environment, size_t len)
{
    static const struct {
        const char *rank, *size;
    } launchers[] = {{"RANK", "WORLD_SIZE"},
                     {"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
                     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                     {"PMI_RANK", "PMI_SIZE"},
                     {"SLURM_PROCID", "SLURM_NTASKS"}};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        int64_t rank = number_of(environment, len, launchers[i].rank);
        int64_t size = number_of(environment, len, launchers[i].size);
        if (rank != TIDE_UNKNOWN && (size == TIDE_UNKNOWN ? i < 2 : size > 1 && rank < size))
            return rank;
    }
    return TIDE_UNKNOWN;
}
