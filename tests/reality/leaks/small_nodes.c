/* A list whose nodes are added and never removed: many small blocks. */
#include "pace.h"
#include <string.h>

struct node {
    struct node *next;
    char text[56];
};

static struct node *list;

__attribute__((noinline)) static void add(int value)
{
    struct node *node = malloc(sizeof *node); /* LEAK: blocks of 64 bytes, 80 with what malloc adds */
    memset(node->text, value, sizeof node->text);
    node->next = list;
    list = node;
}

int main(int argc, char **argv)
{
    (void)argc;
    for (int step; (step = next_step(argv)) >= 0;)
        for (int i = 0; i < 2500; i++)
            add(i);
}
