#include "rt/threads.h"

#ifdef _OPENMP
#include <omp.h>
#else /* compilers without it compute on one thread */
#define omp_set_dynamic(yes)       ((void)0)
#define omp_set_num_threads(count) ((void)(count))
#define omp_get_max_threads()      1
#endif

void tide_threads_set(int count)
{
    omp_set_dynamic(0);
    omp_set_num_threads(count < 1 ? 1 : count);
}

int tide_threads(void)
{
    return omp_get_max_threads();
}

void tide_parallel(int64_t count, int64_t grain, tide_work *work, void *context)
{
    int64_t parts = grain > 0 ? count / grain : count;
    int64_t most = omp_get_max_threads();
    parts = parts < 1 ? 1 : parts > most ? most : parts;
    if (parts == 1) {
        work(context, 0, count, 0);
        return;
    }
#pragma omp parallel for schedule(static, 1) num_threads((int)parts)
    for (int64_t i = 0; i < parts; i++)
        work(context, count * i / parts, count * (i + 1) / parts, (int)i);
}
