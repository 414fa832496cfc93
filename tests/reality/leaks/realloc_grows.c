/* A log in one buffer that is made larger for every line. */
#include "pace.h"
#include <string.h>

static char *text;
static size_t length;

__attribute__((noinline)) static void append(int step)
{
    text = realloc(text, length + 150000); /* LEAK: 150,000 bytes */
    memset(text + length, step, 150000);
    length += 150000;
}

int main(int argc, char **argv)
{
    (void)argc;
    for (int step; (step = next_step(argv)) >= 0;)
        append(step);
}
