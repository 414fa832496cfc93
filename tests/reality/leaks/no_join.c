/* Threads that end and are never joined: what glibc does not give back of their stacks stays. */
#include "pace.h"
#include <pthread.h>

static void *work(void *argument)
{
    volatile char scratch[196608];
    for (size_t i = 0; i < sizeof scratch; i += 1024)
        scratch[i] = 1;
    return argument;
}

int main(int argc, char **argv)
{
    (void)argc;
    while (next_step(argv) >= 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL); /* six pages */
    }
}
