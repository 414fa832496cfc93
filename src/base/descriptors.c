#include "base/descriptors.h"

#include <limits.h>
#include <unistd.h>

/* The smallest of `kept` that is at least `first`; INT_MAX if there is none. */
static int next_kept(int first, const int *kept, size_t count)
{
    int next = INT_MAX;

    for (size_t i = 0; i < count; i++)
        if (kept[i] >= first && kept[i] < next)
            next = kept[i];
    return next;
}

/* Kernels before 5.9 have no close_range: one by one then, as far as a program is likely to have any. */
static void close_from_to(int first, int last)
{
    enum { LIKELY = 65536 };
    long most = sysconf(_SC_OPEN_MAX);
    int limit = most > 0 && most < LIKELY ? (int)most : LIKELY;

    if (close_range((unsigned)first, (unsigned)last, 0) == 0)
        return;
    for (int fd = first; fd <= last && fd < limit; fd++)
        close(fd);
}

void tide_close_all_but(int first, const int *kept, size_t count)
{
    for (;;) {
        int next = next_kept(first, kept, count);
        if (next > first)
            close_from_to(first, next - 1);
        if (next == INT_MAX)
            return;
        first = next + 1;
    }
}
