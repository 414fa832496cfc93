/* A request's buffer is never given back. */
#include "pace.h"
#include <string.h>

static char *volatile latest;

__attribute__((noinline)) static void handle(int step)
{
    char *buffer = malloc(200000); /* LEAK: 200,000 bytes */
    memset(buffer, step, 200000);
    latest = buffer;
}

int main(int argc, char **argv)
{
    (void)argc;
    for (int step; (step = next_step(argv)) >= 0;)
        handle(step);
}
