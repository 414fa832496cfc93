/*
 * recording_fixture.h - a recording of the test's own, in a file that is gone afterwards.
 */
#ifndef RECORDING_FIXTURE_H
#define RECORDING_FIXTURE_H

#include "record/reader.h"
#include "record/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

static char path[64];

static inline void remove_recording(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char name[96];

    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

/* Nothing is at `path` after that. */
static inline int name_recording(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/tidemark-test.%d.tide", (int)getpid());
    remove_recording();
    return 0;
}

static inline int drop_recording(void **state)
{
    (void)state;
    remove_recording();
    return 0;
}

static inline struct tide_writer *new_writer(void)
{
    struct tide_writer *writer;
    struct tide_err err = {0};

    if (tide_writer_new(path, &writer, &err) != 0)
        fail_msg("%s", err.text);
    return writer;
}

static inline struct tide_reader *new_reader(void)
{
    struct tide_reader *reader;
    struct tide_err err = {0};

    if (tide_reader_new(path, &reader, &err) != 0)
        fail_msg("%s", err.text);
    return reader;
}

#endif
