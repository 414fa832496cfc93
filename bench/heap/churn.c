/*
 * churn.c - nothing but malloc and free, from stacks 8 to 20 deep.
 *
 * Usage: churn [PAIRS [THREADS [PAIRS_PER_STACK]]]
 *
 * Each thread makes PAIRS (2 million) pairs: 16 to 1023 bytes, kept in a window of 1024 blocks, so that what
 * is freed was allocated a while ago from another stack. Each pair is made from a stack of its own depth;
 * with PAIRS_PER_STACK above 1 there is less and less between two pairs, and the hook weighs more.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WINDOW = 1024 };

static int pairs_per_stack = 1;

struct worker {
    pthread_t thread;
    long pairs, done;
    uint64_t random;
    char *window[WINDOW];
};

static uint64_t next_random(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static __attribute__((noinline)) void allocate(struct worker *w)
{
    for (int i = 0; i < pairs_per_stack && w->done < w->pairs; i++, w->done++) {
        uint64_t r = next_random(w);
        char **place = &w->window[r % WINDOW];
        free(*place);
        *place = malloc(16 + (r >> 20) % 1008);
        if (*place)
            **place = (char)r;
    }
}

static void descend_odd(struct worker *w, int depth);
static __attribute__((noinline)) void descend_even(struct worker *w, int depth)
{
    if (depth)
        descend_odd(w, depth - 1);
    else
        allocate(w);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void descend_odd(struct worker *w, int depth)
{
    if (depth)
        descend_even(w, depth - 1);
    else
        allocate(w);
    __asm__ volatile("" ::: "memory");
}

static void *work(void *argument)
{
    struct worker *w = argument;
    while (w->done < w->pairs)
        descend_even(w, 3 + (int)(next_random(w) % 13)); /* with what is below and above: 8 to 20 */
    for (int i = 0; i < WINDOW; i++)
        free(w->window[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    long pairs = argc > 1 ? atol(argv[1]) : 2000000;
    int threads = argc > 2 ? atoi(argv[2]) : 1;
    pairs_per_stack = argc > 3 ? atoi(argv[3]) : 1;
    struct worker *workers = calloc((size_t)threads, sizeof *workers);
    if (!workers || threads < 1)
        return 2;
    for (int i = 0; i < threads; i++) {
        workers[i].pairs = pairs;
        workers[i].random = 88172645463325252u + (uint64_t)i * 977;
    }
    for (int i = 1; i < threads; i++)
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    work(&workers[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    free(workers);
    return 0;
}
