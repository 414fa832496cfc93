/*
 * heap_read.c - see heap_read.h.
 *
 * One buffer of the size of all sites serves every table in turn. Only the head and the modules are kept per
 * table. Bytes are copied out of the file before they are checked, so they cannot change after the check.
 */
#include "channel/heap_read.h"

#include "base/grow.h"
#include "base/units.h"
#include "channel/birth.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ENTRIES_MOST = 65536, /* directory entries read in one search */
    MODULES_AT_ONCE = 64,
    HOOK_MOST = 64 << 20, /* most bytes that the hook can have in a process */
};

/* --- lifecycle ----------------------------------------------------------------------------------------- */

int tide_heap_tables_new(const char *directory, struct tide_descriptors *descriptors,
                         struct tide_heap_tables **ret_tables, struct tide_err *err)
{
    struct tide_heap_tables *tables = calloc(1, sizeof *tables);

    if (!tables)
        return tide_err_set(err, "not enough memory to follow allocations");
    tide_map_init(&tables->by_name, TIDE_HEAP_TABLES);
    tables->listings[0] = opendir(directory);
    if (!tables->listings[0]) {
        tide_err_set(err, "cannot open the channel: %s", strerror(errno));
        tide_heap_tables_free(tables);
        return -1;
    }
    tables->listings[1] = tide_list_directory(dirfd(tables->listings[0]), TIDE_FILE_SPARE);
    tables->descriptors = descriptors;
    *ret_tables = tables;
    return 0;
}

static void close_table(struct tide_heap_tables *tables, struct tide_heap_table *table)
{
    if (table->fd >= 0)
        close(table->fd);
    if (table->kept)
        tide_descriptors_give(tables->descriptors);
    if (tables->passing == table)
        tables->passing = NULL;
    table->fd = -1;
    table->kept = false;
}

static void free_table(struct tide_heap_tables *tables, struct tide_heap_table *table)
{
    close_table(tables, table);
    for (size_t i = 0; i < table->module_count; i++)
        free((char *)table->modules[i].path);
    free(table->modules);
    free(table);
}

void tide_heap_tables_free(struct tide_heap_tables *tables)
{
    if (!tables)
        return;
    for (size_t i = 0; i < tables->count; i++)
        free_table(tables, tables->tables[i]);
    free(tables->tables);
    tide_map_release(&tables->by_name);
    for (int i = 0; i < TIDE_FILE_PLACES; i++)
        if (tables->listings[i])
            closedir(tables->listings[i]);
    free(tables);
}

void tide_heap_tables_drop(struct tide_heap_tables *tables, size_t index)
{
    unlinkat(tables->tables[index]->directory, tables->tables[index]->name, 0);
    tide_map_remove(&tables->by_name, tide_map_text_key(tables->tables[index]->name));
    free_table(tables, tables->tables[index]);
    tables->tables[index] = tables->tables[--tables->count];
}

/* --- finding ------------------------------------------------------------------------------------------- */

/* "heap-PID-START" or "heap-PID-START-N". */
static int parse_name(const char *name, struct tide_heap_table *table)
{
    const char *p;
    uint64_t image = 0;

    if (strlen(name) >= sizeof table->name ||
        tide_file_parse(name, TIDE_FILE_HEAP, &table->pid, &table->start_ticks, &p) != 0)
        return -1;
    if (*p == '-') {
        p++;
        if (tide_birth_number(&p, p + strlen(p), &image) != 0 || image > UINT32_MAX)
            return -1;
    }
    if (*p)
        return -1;
    memcpy(table->name, name, strlen(name) + 1);
    table->image = (uint32_t)image;
    return 0;
}

static bool read_at(int fd, void *out, size_t bytes, uint64_t at)
{
    return tide_read_at(fd, out, bytes, at) == (ssize_t)bytes;
}

static uint64_t clamp(uint64_t count, uint64_t least, uint64_t most)
{
    return count > most ? most : count < least ? least : count;
}

static void clamp_count(_Atomic uint64_t *count, const _Atomic uint64_t *before, uint64_t most)
{
    atomic_store_explicit(count, clamp(*count, *before, most), memory_order_relaxed);
}

/* False if there is no head, or it is not that of this table. */
static bool read_head(struct tide_heap_table *table)
{
    struct tide_heap_head head;

    if (!read_at(table->fd, &head, sizeof head, 0) || head.magic != TIDE_HEAP_MAGIC ||
        head.pid != (uint64_t)table->pid || head.start_ticks != table->start_ticks ||
        head.image != table->image)
        return false;
    clamp_count(&head.site_count, &table->head.site_count, TIDE_HEAP_SITES);
    clamp_count(&head.frame_count, &table->head.frame_count, TIDE_HEAP_FRAMES);
    clamp_count(&head.code_count, &table->head.code_count, TIDE_HEAP_CODES);
    clamp_count(&head.module_count, &table->head.module_count, TIDE_HEAP_MODULES);
    clamp_count(&head.text_count, &table->head.text_count, TIDE_HEAP_TEXT);
    memcpy(&table->head, &head, sizeof head);
    return true;
}

/* Of several images of one process only the last one still holds memory. */
static void supersede(struct tide_heap_tables *tables, struct tide_heap_table *newcomer)
{
    for (size_t i = 0; i < tables->count; i++) {
        struct tide_heap_table *other = tables->tables[i];
        if (other->pid != newcomer->pid || other->start_ticks != newcomer->start_ticks)
            continue;
        other->superseded = other->superseded || other->image < newcomer->image;
        newcomer->superseded = newcomer->superseded || newcomer->image < other->image;
    }
}

static int open_table(const struct tide_heap_table *table)
{
    return tide_file_open(table->directory, table->name, TIDE_HEAP_BYTES, O_RDONLY);
}

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* Follows a table whose file is open. -1: out of memory. */
static int add_table(struct tide_heap_tables *tables, const struct tide_heap_table *table)
{
    struct tide_heap_table *copy = malloc(sizeof *copy);

    if (!copy || TIDE_GROW(tables->tables, tables->capacity, tables->count + 1, TIDE_HEAP_TABLES) != 0 ||
        tide_map_put(&tables->by_name, tide_map_text_key(table->name), 1) != 0) {
        free(copy);
        return -1;
    }
    memcpy(copy, table, sizeof *copy);
    supersede(tables, copy);
    copy->kept = tide_descriptors_take(tables->descriptors);
    if (!copy->kept) {
        close(copy->fd);
        copy->fd = -1;
    }
    tables->tables[tables->count++] = copy;
    return 0;
}

/* Follows the file if it is a complete table; otherwise it is tried again at the next search. */
static void follow(struct tide_heap_tables *tables, int directory, const char *name)
{
    struct tide_heap_table table = {.fd = -1, .directory = directory};

    if (parse_name(name, &table) != 0 || tide_map_get(&tables->by_name, tide_map_text_key(name), NULL))
        return;
    bool full = tables->count >= TIDE_HEAP_TABLES;
    table.fd = full ? -1 : open_table(&table);
    if (table.fd < 0) {
        tables->waiting += full || is_shortage(errno);
        return;
    }
    table.in_memory = tide_file_is_in_memory(table.fd);
    bool ready = read_head(&table);
    if (ready && add_table(tables, &table) == 0)
        return;
    tables->waiting += ready;
    close(table.fd);
}

void tide_heap_tables_find(struct tide_heap_tables *tables)
{
    struct dirent *entry;

    tables->waiting = 0;
    for (int i = 0; i < TIDE_FILE_PLACES && tables->listings[i]; i++) {
        DIR *listing = tables->listings[i];
        rewinddir(listing);
        for (int n = 0; n < ENTRIES_MOST && (entry = readdir(listing)); n++)
            if (strncmp(entry->d_name, TIDE_FILE_HEAP, strlen(TIDE_FILE_HEAP)) == 0)
                follow(tables, dirfd(listing), entry->d_name);
    }
}

/* --- reading ------------------------------------------------------------------------------------------- */

/* True if the process exists and is not a zombie. */
static bool is_running(const struct tide_heap_table *table)
{
    struct tide_stat stat;

    return tide_birth_of(table->pid, &stat) == 0 && !strchr("ZX", stat.state) &&
           stat.start_ticks == table->start_ticks;
}

static bool has_next_image(const struct tide_heap_tables *tables, const struct tide_heap_table *table)
{
    char name[96];

    snprintf(name, sizeof name, TIDE_FILE_HEAP "%" PRId64 "-%" PRIu64 "-%" PRIu64, table->pid,
             table->start_ticks, (uint64_t)table->image + 1);
    for (int i = 0; i < TIDE_FILE_PLACES && tables->listings[i]; i++)
        if (faccessat(dirfd(tables->listings[i]), name, F_OK, 0) == 0)
            return true;
    return false;
}

static void find_end(const struct tide_heap_tables *tables, struct tide_heap_table *table)
{
    if (table->ended || tide_file_is_held(table->fd))
        return;
    table->ended = true;
    table->replaced = table->superseded || has_next_image(tables, table) || is_running(table);
}

/* Reads the NUL-terminated string at an offset of a table with so many bytes of text; "" if there is none. */
static void read_text(int fd, uint64_t bytes, uint32_t at, char out[TIDE_HEAP_STRING])
{
    size_t room = at < bytes ? bytes - at : 0;

    room = room < TIDE_HEAP_STRING - 1 ? room : TIDE_HEAP_STRING - 1;
    if (at == 0 || room == 0 || !read_at(fd, out, room, TIDE_HEAP_TEXT_AT + at))
        room = 0;
    out[room] = '\0';
}

static void take_module(const struct tide_heap_table *table, const struct tide_heap_module *raw,
                        struct tide_heap_range *range)
{
    char path[TIDE_HEAP_STRING];

    if (!raw->ready)
        return;
    if (raw->end <= raw->start || raw->base > raw->start) {
        range->ready = true; /* an empty range */
        return;
    }
    read_text(table->fd, table->head.text_count, raw->path, path);
    range->path = strdup(path);
    if (!range->path)
        return; /* try again at the next read */
    range->ready = true;
    range->start = raw->start;
    range->end = raw->end;
    range->base = raw->base;
    range->build_id_bytes = raw->build_id_bytes <= sizeof raw->build_id ? raw->build_id_bytes : 0;
    memcpy(range->build_id, raw->build_id, sizeof range->build_id);
}

static int read_modules(struct tide_heap_table *table)
{
    size_t count = (size_t)table->head.module_count;

    if (TIDE_GROW(table->modules, table->module_capacity, count, TIDE_HEAP_MODULES) != 0)
        count = table->module_capacity; /* the rest at the next read */
    while (table->module_count < count)
        table->modules[table->module_count++] = (struct tide_heap_range){0};
    for (size_t at = table->module_ready; at < count; at += MODULES_AT_ONCE) {
        struct tide_heap_module raw[MODULES_AT_ONCE];
        size_t some = count - at < MODULES_AT_ONCE ? count - at : MODULES_AT_ONCE;
        if (!read_at(table->fd, raw, some * sizeof *raw, TIDE_HEAP_MODULES_AT + at * sizeof *raw))
            return -1;
        for (size_t i = 0; i < some; i++)
            if (!table->modules[at + i].ready)
                take_module(table, &raw[i], &table->modules[at + i]);
    }
    while (table->module_ready < count && table->modules[table->module_ready].ready)
        table->module_ready++;
    return 0;
}

static void bound(_Atomic int64_t *value)
{
    if (*value < 0 || *value > TIDE_LARGEST)
        *value = *value < 0 ? 0 : TIDE_LARGEST;
}

/* Marks a site that is not valid as not ready, and bounds its values. */
static void check_site(const struct tide_heap_table *table, struct tide_heap_site *site)
{
    if (site->kind < TIDE_SITE_MALLOC || site->kind >= TIDE_SITE_KINDS || site->depth > TIDE_HEAP_DEPTH ||
        (uint64_t)site->frames_at + site->depth > table->head.frame_count)
        site->ready = 0;
    bound(&site->live_bytes);
    bound(&site->live_blocks);
    bound(&site->total_bytes);
    bound(&site->total_blocks);
}

static int64_t believable(uint64_t bytes)
{
    return bytes < HOOK_MOST ? (int64_t)bytes : 0;
}

int tide_heap_table_hook(const struct tide_heap_table *table, int64_t *ret_own_bytes,
                         int64_t *ret_table_bytes)
{
    enum {
        OWN = offsetof(struct tide_heap_head, own_bytes),
        TABLE = offsetof(struct tide_heap_head, table_bytes)
    };
    uint64_t words[(TABLE - OWN) / sizeof(uint64_t) + 1] = {0};

    if (!table->replaced && !table->superseded) {
        int fd = table->fd >= 0 ? table->fd : open_table(table);
        bool good = read_at(fd, words, sizeof words, OWN);
        if (fd >= 0 && fd != table->fd)
            close(fd);
        if (!good)
            return -1;
    }
    *ret_own_bytes = believable(words[0]);
    *ret_table_bytes = table->in_memory ? believable(words[(TABLE - OWN) / sizeof(uint64_t)]) : 0;
    return 0;
}

bool tide_heap_table_is_dead(const struct tide_heap_table *table)
{
    return kill((pid_t)table->pid, 0) != 0 && errno == ESRCH;
}

/* Opens a table that is not kept open, and closes the one that was read before. */
static int reopen(struct tide_heap_tables *tables, struct tide_heap_table *table)
{
    if (table->fd >= 0)
        return 0;
    if (tables->passing)
        close_table(tables, tables->passing);
    table->fd = open_table(table);
    if (table->fd < 0)
        return is_shortage(errno) ? 1 : -1;
    tables->passing = table;
    return 0;
}

int tide_heap_table_read(struct tide_heap_tables *tables, struct tide_heap_table *table)
{
    int opened = reopen(tables, table);
    if (opened != 0)
        return opened;
    find_end(tables, table);
    table->site_count = 0;
    if (!read_head(table) || read_modules(table) != 0)
        return -1;
    size_t count = (size_t)table->head.site_count;
    if (!read_at(table->fd, tables->sites, count * sizeof *tables->sites, TIDE_HEAP_SITES_AT))
        return -1;
    /* A site that became ready after the head was read may refer to frames beyond the head's count. */
    uint64_t frames = table->head.frame_count;
    struct tide_heap_head again;
    if (read_at(table->fd, &again, sizeof again, 0))
        table->head.frame_count = clamp(again.frame_count, frames, TIDE_HEAP_FRAMES);
    for (size_t i = 0; i < count; i++)
        check_site(table, &tables->sites[i]);
    table->sites = tables->sites;
    table->site_count = count;
    return 0;
}

size_t tide_heap_table_stack(const struct tide_heap_table *table, const struct tide_heap_site *site,
                             uint64_t ret_words[TIDE_HEAP_DEPTH])
{
    if (site->depth > TIDE_HEAP_DEPTH ||
        !read_at(table->fd, ret_words, site->depth * sizeof *ret_words,
                 TIDE_HEAP_FRAMES_AT + (uint64_t)site->frames_at * sizeof *ret_words))
        return 0;
    return site->depth;
}

int tide_heap_table_code(const struct tide_heap_table *table, uint32_t code, char ret_file[TIDE_HEAP_STRING],
                         char ret_name[TIDE_HEAP_STRING], uint32_t *ret_first_line)
{
    struct tide_heap_code raw;
    struct tide_heap_head head;

    if (code >= TIDE_HEAP_CODES ||
        !read_at(table->fd, &raw, sizeof raw, TIDE_HEAP_CODES_AT + code * sizeof raw) || !raw.ready)
        return -1;
    if (!read_at(table->fd, &head, sizeof head, 0)) /* text may be newer than the last read of the head */
        return -1;
    uint64_t bytes = clamp(head.text_count, 0, TIDE_HEAP_TEXT);
    read_text(table->fd, bytes, raw.file, ret_file);
    read_text(table->fd, bytes, raw.name, ret_name);
    *ret_first_line = raw.first_line;
    return 0;
}

static bool covers(const struct tide_heap_range *range, uint64_t address)
{
    return range->path && address >= range->start && address < range->end;
}

const struct tide_heap_range *tide_heap_table_module(const struct tide_heap_table *table, uint64_t address,
                                                     uint32_t known)
{
    size_t limit = known < table->module_count ? known : table->module_count;

    for (size_t i = limit; i-- > 0;)
        if (covers(&table->modules[i], address))
            return &table->modules[i];
    for (size_t i = limit; i < table->module_count; i++)
        if (covers(&table->modules[i], address))
            return &table->modules[i];
    return NULL;
}
