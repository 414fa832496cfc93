#include "base/source_line.h"

#include "base/infile.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TEXT = 512,
    PIECES_MOST = 200000, /* of a file that are read to find a line */
};

static bool is_source(const char *path)
{
    static const char *const endings[] = {".py",  ".pyx", ".pxd", ".pxi", ".c",   ".h",  ".cc",
                                          ".cpp", ".cxx", ".hh",  ".hpp", ".hxx", ".cu", ".cuh",
                                          ".inc", ".tcc", ".rs",  ".go",  ".f90", NULL};
    const char *dot = strrchr(tide_text_last_part(path), '.');
    for (const char *const *e = endings; dot && *e; e++)
        if (!strcmp(dot, *e))
            return true;
    return false;
}

static FILE *open_source(const char *path)
{
    struct stat st;
    int fd = tide_infile_open(path, &st);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!file && fd >= 0)
        close(fd);
    return file;
}

bool tide_source_line(const char *path, int64_t line, char *out, size_t size)
{
    if (path[0] != '/' || line <= 0 || !is_source(path))
        return false;
    FILE *file = open_source(path);
    if (!file)
        return false;
    char text[TEXT];
    bool found = false;
    int64_t at = 1;
    for (size_t pieces = 0; pieces < PIECES_MOST && fgets(text, sizeof text, file); pieces++) {
        size_t len = strcspn(text, "\n");
        bool whole = text[len] == '\n';
        if (at == line) {
            size_t from = strspn(text, " \t");
            found = len > from;
            if (found)
                snprintf(out, size, "%.*s", (int)(len - from), text + from);
            break;
        }
        at += whole;
    }
    fclose(file);
    return found;
}
