/* Documents are parsed and never freed. */
#include "pace.h"
#include <libxml/parser.h>
#include <string.h>

static char text[400000];

__attribute__((noinline)) static void parse(int length)
{
    xmlReadMemory(text, length, "feed.xml", NULL, 0); /* LEAK: one text of 200,000 bytes */
}

int main(int argc, char **argv)
{
    (void)argc;
    int length = sprintf(text, "<feed><entry>");
    memset(text + length, 'x', 200000);
    length += 200000;
    length += sprintf(text + length, "</entry></feed>");
    while (next_step(argv) >= 0)
        parse(length);
}
