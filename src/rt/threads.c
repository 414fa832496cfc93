#include "rt/threads.h"

#include <stdlib.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#else /* compilers without it compute on one thread */
#define omp_set_dynamic(yes)       ((void)0)
#define omp_set_num_threads(count) ((void)(count))
#define omp_get_max_threads()      1
#endif

void tide_threads_settle(char **argv)
{
#ifdef _OPENMP
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || setenv("GOMP_SPINCOUNT", "4000", 1))
        return;
    execv("/proc/self/exe", argv); /* where that cannot be, things go on slower */
#else
    (void)argv;
#endif
}

void tide_threads_set(int count)
{
    omp_set_dynamic(0);
    omp_set_num_threads(count < 1 ? 1 : count);
}

int tide_threads(void)
{
    return omp_get_max_threads();
}

static int64_t start_of(int64_t count, int64_t part, int64_t parts)
{
    return count * part / parts;
}

#ifdef __SANITIZE_THREAD__ /* which does not see how OpenMP's threads wait for each other: plain ones, for   \
                              tests */
#include "base/check.h"

#include <pthread.h>

enum { MOST = 64 };

struct part {
    tide_work *work;
    void *context;
    int64_t first, last;
    int number;
};

static void *run_part(void *argument)
{
    const struct part *p = argument;
    p->work(p->context, p->first, p->last, p->number);
    return NULL;
}

static void run_parts(int64_t count, int64_t parts, tide_work *work, void *context)
{
    pthread_t threads[MOST];
    struct part list[MOST];
    TIDE_CHECK(parts, <=, MOST);
    for (int64_t i = 0; i < parts; i++) {
        list[i] =
            (struct part){work, context, start_of(count, i, parts), start_of(count, i + 1, parts), (int)i};
        TIDE_CHECK(pthread_create(&threads[i], NULL, run_part, &list[i]), ==, 0);
    }
    for (int64_t i = 0; i < parts; i++)
        pthread_join(threads[i], NULL);
}
#else
/* All threads take part, even where there is nothing to do for some: a team of another size than the last
 * costs an allocation, and threads that end and are made anew. */
static void run_parts(int64_t count, int64_t parts, tide_work *work, void *context)
{
#pragma omp parallel for schedule(static, 1)
    for (int64_t i = 0; i < parts; i++)
        work(context, start_of(count, i, parts), start_of(count, i + 1, parts), (int)i);
}
#endif

void tide_parallel(int64_t count, int64_t grain, tide_work *work, void *context)
{
    int64_t parts = grain > 0 ? count / grain : count;
    int64_t most = omp_get_max_threads();
    parts = parts < 1 ? 1 : parts > most ? most : parts;
    if (parts == 1)
        work(context, 0, count, 0);
    else
        run_parts(count, parts, work, context);
}
