/*
 * source_line.h - a line of somebody's source.
 */
#ifndef TIDE_SOURCE_LINE_H
#define TIDE_SOURCE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The line (from 1) without its indentation, cut to fit; false when the file is not there or does not have
 * it. Only a regular file by its whole path that is called like source is read, and only so far. */
bool tide_source_line(const char *path, int64_t line, char *out, size_t size);

#endif
