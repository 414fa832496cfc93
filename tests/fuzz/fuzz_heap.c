/*
 * The reader of heap tables against any contents: the input is a list of writes into a table that is
 * otherwise as the hook makes it, each { area, index (2 bytes, little-endian), length, bytes }. The first
 * half is written before the first read, the rest before the second; the third read finds a table that has
 * ended. Area 6 writes anywhere in the head's page, area 7 cuts the file off.
 */
#include "base/check.h"
#include "base/units.h"
#include "channel/heap_read.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[64], path[96];

static void clean_up(void)
{
    unlink(path);
    rmdir(directory);
}

/* A table of process 1 that is on, with two modules' room and nothing in it. */
static int make_table(void)
{
    if (!directory[0]) {
        snprintf(directory, sizeof directory, "/dev/shm/fuzz-heap-%d-XXXXXX", (int)getpid());
        TIDE_CHECK_TRUE(mkdtemp(directory) != NULL);
        snprintf(path, sizeof path, "%s/heap-1-1", directory);
        atexit(clean_up);
    }
    static struct tide_heap_head head;
    head = (struct tide_heap_head){
        .magic = TIDE_HEAP_MAGIC,
        .pid = 1,
        .start_ticks = 1,
        .state = TIDE_HEAP_ON,
        .site_count = 16,
        .frame_count = 256,
        .code_count = 8,
        .module_count = 8,
        .text_count = 256,
    };
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    TIDE_CHECK(fd, >=, 0);
    if (pwrite(fd, &head, sizeof head, 0) != sizeof head || ftruncate(fd, (off_t)TIDE_HEAP_BYTES) != 0 ||
        flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Writes until `stop` bytes of the input are used; returns how many are. */
static size_t scribble(int fd, const uint8_t *data, size_t at, size_t stop)
{
    static const struct {
        uint64_t begin;
        size_t step;
    } areas[] = {
        {offsetof(struct tide_heap_head, site_count), 8},
        {TIDE_HEAP_SITES_AT, 4},
        {TIDE_HEAP_FRAMES_AT, 8},
        {TIDE_HEAP_CODES_AT, 4},
        {TIDE_HEAP_MODULES_AT, 4},
        {TIDE_HEAP_TEXT_AT, 1},
        {0, 1},
    };
    while (at + 4 <= stop) {
        unsigned area = data[at] % 8, index = data[at + 1] | (unsigned)data[at + 2] << 8;
        size_t len = data[at + 3];
        at += 4;
        len = len < stop - at ? len : stop - at;
        off_t where = area < 7 ? (off_t)(areas[area].begin + index * areas[area].step) : 0;
        if (area == 7 ? ftruncate(fd, (off_t)index * 4096) != 0
                      : pwrite(fd, data + at, len, where) != (ssize_t)len)
            break;
        at += len;
    }
    return at;
}

static void check_values(const struct tide_heap_site *site)
{
    const int64_t values[] = {site->live_bytes, site->live_blocks, site->total_bytes, site->total_blocks};
    for (size_t i = 0; i < 4; i++) {
        TIDE_CHECK(values[i], >=, 0);
        TIDE_CHECK(values[i], <=, TIDE_LARGEST);
    }
    TIDE_CHECK(site->kind, >=, TIDE_SITE_MALLOC);
    TIDE_CHECK(site->kind, <=, TIDE_SITE_TENSOR);
}

static void check_table(const struct tide_heap_table *table)
{
    TIDE_CHECK(table->site_count, <=, TIDE_HEAP_SITES);
    TIDE_CHECK(table->module_count, <=, TIDE_HEAP_MODULES);
    for (size_t i = 0; i < table->site_count; i++) {
        const struct tide_heap_site *site = &table->sites[i];
        uint64_t words[TIDE_HEAP_DEPTH];
        if (!site->ready)
            continue;
        check_values(site);
        if (i >= 64)
            continue; /* zeros, most of them: not worth the time */
        size_t depth = tide_heap_table_stack(table, site, words);
        TIDE_CHECK(depth, <=, TIDE_HEAP_DEPTH);
        for (size_t k = 0; k < depth; k++) {
            char file[TIDE_HEAP_STRING], name[TIDE_HEAP_STRING];
            uint32_t first;
            const struct tide_heap_range *range = tide_heap_table_module(table, words[k], site->modules);
            if (range) {
                TIDE_CHECK_TRUE(words[k] >= range->start && words[k] < range->end &&
                                range->base <= range->start);
                TIDE_CHECK(strlen(range->path), <, TIDE_HEAP_STRING);
                TIDE_CHECK(range->build_id_bytes, <=, sizeof range->build_id);
            }
            if (tide_heap_table_code(table, TIDE_HEAP_CODE_OF(words[k]), file, name, &first) == 0)
                TIDE_CHECK(strlen(file) + strlen(name), <, 2 * TIDE_HEAP_STRING);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tide_heap_tables *tables;
    struct tide_descriptors descriptors = {.most = 64};
    struct tide_err err;
    int fd = make_table();
    if (fd < 0)
        return 0;
    size_t used = scribble(fd, data, 0, size / 2);
    if (tide_heap_tables_new(directory, &descriptors, &tables, &err) != 0) {
        close(fd);
        return 0;
    }
    tide_heap_tables_find(tables);
    bool good = tables->count == 1;
    for (int round = 0; good && round < 3; round++) {
        struct tide_heap_table *table = tables->tables[0];
        if (round == 1)
            scribble(fd, data, used, size);
        if (round == 2)
            flock(fd, LOCK_UN);
        good = tide_heap_table_read(tables, table) == 0;
        if (good)
            check_table(table);
        TIDE_CHECK(table->ended, ==, round == 2);
    }
    tide_heap_tables_free(tables);
    close(fd);
    return 0;
}
