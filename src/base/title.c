#include "base/title.h"

#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>

/* The memory that the kernel shows as the command line: the strings of argv, one after the other. The
 * environment after it is not touched. */
static char *line;
static size_t line_size;

void tide_title_init(int argc, char **argv)
{
    line = argc > 0 ? argv[0] : NULL;
    line_size = 0;
    for (int i = 0; i < argc && argv[i] == line + line_size; i++)
        line_size += strlen(argv[i]) + 1;
}

void tide_title_set(const char *name)
{
    if (line_size) {
        memset(line, 0, line_size);
        memcpy(line, name, strnlen(name, line_size - 1));
    }
    prctl(PR_SET_NAME, name);
}
