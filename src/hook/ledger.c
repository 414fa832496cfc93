/*
 * ledger.c - writes the table of sites (ledger.h).
 *
 * The file is mapped whole but has no blocks at first. Before a chunk of an area is used, its pages are made
 * with MADV_POPULATE_WRITE, which fails where a plain write would raise SIGBUS (on a full file system). On a
 * kernel without it, the whole file is allocated at once.
 *
 * Sites are found by the hash of their stack and codes by their key, through private indexes. So the shared
 * areas are plain arrays: the tracker reads a prefix of each and never has to search.
 */
#include "hook/ledger.h"
#include "channel/birth.h"
#include "channel/file.h"
#include "channel/lane.h"
#include "hook/latch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { INDEX_BITS = 17, CODE_BITS = 16, KNOWN_MODULES = 1024, IMAGES_MOST = 256 };
enum { FIRST_BYTES = 160 << 10 }; /* the size of a new table, and a little more */
enum area { SITES, FRAMES, CODES, MODULES, TEXT, AREAS };

static const struct {
    uint64_t at, bytes, chunk;
} areas[AREAS] = {
    [SITES] = {TIDE_HEAP_SITES_AT, (uint64_t)TIDE_HEAP_SITES * sizeof(struct tide_heap_site), 32768},
    [FRAMES] = {TIDE_HEAP_FRAMES_AT, (uint64_t)TIDE_HEAP_FRAMES * 8, 65536},
    [CODES] = {TIDE_HEAP_CODES_AT, (uint64_t)TIDE_HEAP_CODES * sizeof(struct tide_heap_code), 16384},
    [MODULES] = {TIDE_HEAP_MODULES_AT, (uint64_t)TIDE_HEAP_MODULES * sizeof(struct tide_heap_module), 8192},
    [TEXT] = {TIDE_HEAP_TEXT_AT, TIDE_HEAP_TEXT, 32768},
};

/* An object whose module entry is written. */
struct known {
    uintptr_t start, end, base;
    uint64_t name_hash;
    unsigned unloads; /* value of `unloads` when the object was last looked up */
};

struct code_entry {
    _Atomic uint64_t key; /* 0: free; written after index */
    uint32_t index;
};

static struct TIDE_WIPED {
    struct tide_heap_head *_Atomic table;
    atomic_bool attaching;
    tide_latch latch; /* guards appending: the counts, `backed`, `known`, and inserts into the indexes */
    uint64_t backed[AREAS];
    const char *place; /* path of the directory in which the table is */
    unsigned known_count;
    struct known known[KNOWN_MODULES];
    _Atomic uint32_t index[1 << INDEX_BITS]; /* site number + 1 */
    struct code_entry codes[1 << CODE_BITS];
} self;

struct tide_ledger_setup tide_ledger_setup = {.interval_bytes = TIDE_HEAP_INTERVAL, .state = TIDE_HEAP_ON};
void (*tide_ledger_on_object)(const struct tide_object *object);

/* Once true it stays true, in this process and in its children. */
static atomic_bool off;
static atomic_uint unloads;
static char program_path[TIDE_HEAP_STRING];
static char channel_path[256], spare_path[sizeof channel_path + sizeof TIDE_FILE_SPARE];

static struct tide_heap_site *site_at(struct tide_heap_head *table, uint32_t n)
{
    return (struct tide_heap_site *)((char *)table + TIDE_HEAP_SITES_AT) + n;
}

int tide_ledger_init(void)
{
    ssize_t got = readlink("/proc/self/exe", program_path, sizeof program_path - 1);
    program_path[got > 0 ? got : 0] = '\0';
    const char *path = secure_getenv(TIDE_CHANNEL_ENV);
    if (!path || path[0] != '/' || strlen(path) >= sizeof channel_path)
        atomic_store(&off, true);
    else
        memcpy(channel_path, path, strlen(path) + 1);
    strcat(strcat(strcpy(spare_path, channel_path), "/"), TIDE_FILE_SPARE);
    return tide_wiped_declare(&self, sizeof self);
}

/* Pages that were populated before use are resident. Where the whole file was allocated at once, only the
 * written part is. */
uint64_t tide_ledger_resident(const struct tide_heap_head *table)
{
    const uint64_t used[AREAS] = {
        [SITES] = atomic_load(&table->site_count) * sizeof(struct tide_heap_site),
        [FRAMES] = atomic_load(&table->frame_count) * 8,
        [CODES] = atomic_load(&table->code_count) * sizeof(struct tide_heap_code),
        [MODULES] = atomic_load(&table->module_count) * sizeof(struct tide_heap_module),
        [TEXT] = atomic_load(&table->text_count),
    };
    uint64_t bytes = sizeof *table;
    for (int i = 0; i < AREAS; i++)
        bytes += self.backed[i] < areas[i].bytes ? self.backed[i] : (used[i] + 4095) / 4096 * 4096;
    return bytes;
}

/* ---- the file */

/* True if the file may grow by this much. Once the tracker has ended, the directory does not exist and nobody
 * reads the file. */
static bool has_room(uint64_t bytes)
{
    int directory = tide_file_directory(AT_FDCWD, self.place);
    if (directory < 0)
        return false;
    bool room = tide_file_has_room(directory, bytes);
    syscall(SYS_close, directory);
    return room;
}

/* What is not backed has no access, so that a program that locks all its memory (mlockall) does not fill it.
 */
static int set_access(void *from, uint64_t bytes, int protection)
{
    return (int)syscall(SYS_mprotect, from, bytes, protection); /* mprotect() is the hook's own */
}

/* Makes sure that the first `bytes` bytes of the area can be written. Called under the latch, or before other
 * threads know the table. */
static int back(struct tide_heap_head *table, enum area area, uint64_t bytes)
{
    if (bytes <= self.backed[area])
        return 0;
    if (bytes > areas[area].bytes)
        return -1;
    uint64_t want = (bytes + areas[area].chunk - 1) / areas[area].chunk * areas[area].chunk;
    want = want < areas[area].bytes ? want : areas[area].bytes;
    char *from = (char *)table + areas[area].at + self.backed[area];
    if (!has_room(want - self.backed[area]) ||
        set_access(from, want - self.backed[area], PROT_READ | PROT_WRITE) ||
        madvise(from, want - self.backed[area], MADV_POPULATE_WRITE))
        return -1;
    if (!has_room(0)) { /* others took space at the same moment */
        madvise(from, want - self.backed[area], MADV_REMOVE);
        return -1;
    }
    self.backed[area] = want;
    return 0;
}

/* Creates the file of the next image. If a file exists, in this place or the other, this process made it
 * before it called exec. own->name becomes the file's name. */
static int create_file(struct tide_file_own *own, int place, uint32_t *ret_image)
{
    char *end = own->name + strlen(own->name);
    int other = own->places[1 - place], fd = -1;
    uint32_t image = 0;
    do {
        if (image) {
            *end = '-';
            *tide_birth_digits(end + 1, image) = '\0';
        }
        if (other >= 0 && !faccessat(other, own->name, F_OK, 0))
            errno = EEXIST;
        else
            fd = tide_file_create(own->places[place], own->name, TIDE_HEAP_BYTES);
    } while (fd < 0 && errno == EEXIST && ++image < IMAGES_MOST);
    *ret_image = image;
    return fd;
}

static struct tide_heap_head *map_file(int fd)
{
    void *memory = tide_file_map(fd, TIDE_HEAP_BYTES, 0);
    if (!memory)
        return NULL;
    memset(self.backed, 0, sizeof self.backed);
    if (!set_access(memory, TIDE_HEAP_BYTES, PROT_NONE) &&
        !set_access(memory, sizeof(struct tide_heap_head), PROT_READ | PROT_WRITE) &&
        !madvise(memory, sizeof(struct tide_heap_head), MADV_POPULATE_WRITE) && !back(memory, SITES, 1) &&
        !back(memory, FRAMES, 1) && !back(memory, MODULES, 1) && !back(memory, TEXT, 1))
        return memory;
    if (errno == EINVAL && has_room(TIDE_HEAP_BYTES) && !fallocate(fd, 0, 0, (off_t)TIDE_HEAP_BYTES) &&
        !set_access(memory, TIDE_HEAP_BYTES, PROT_READ | PROT_WRITE)) {
        for (int i = 0; i < AREAS; i++)
            self.backed[i] = areas[i].bytes;
        return memory;
    }
    tide_wiped_unmap(memory, TIDE_HEAP_BYTES);
    return NULL;
}

static void write_head(struct tide_heap_head *table, uint64_t start_ticks, uint32_t image)
{
    table->pid = (uint32_t)getpid();
    table->image = image;
    table->start_ticks = start_ticks;
    atomic_store(&table->exact_bytes, tide_ledger_setup.exact_bytes);
    atomic_store(&table->interval_bytes, tide_ledger_setup.interval_bytes);
    atomic_store(&table->state, tide_ledger_setup.state);
    atomic_store(&table->python, tide_ledger_setup.python);
    atomic_store(&table->python_version, tide_ledger_setup.python_version);
    atomic_store(&table->cuda, tide_ledger_setup.cuda);
    atomic_store(&table->text_count, 1); /* offset 0 is the empty string */
    __atomic_store_n(&table->magic, TIDE_HEAP_MAGIC, __ATOMIC_RELEASE);
}

static struct tide_heap_head *make_table_in(struct tide_file_own own, int place)
{
    uint32_t image;
    int fd = create_file(&own, place, &image);
    if (fd < 0)
        return NULL;
    struct tide_heap_head *table = map_file(fd);
    if (table)
        write_head(table, own.start_ticks, image);
    else
        unlinkat(own.places[place], own.name, 0);
    close(fd);
    return table;
}

static struct tide_heap_head *make_table(void)
{
    static const char *const paths[TIDE_FILE_PLACES] = {channel_path, spare_path};
    struct tide_heap_head *table = NULL;
    struct tide_file_own own;
    if (tide_file_begin(channel_path, TIDE_FILE_HEAP, &own))
        return NULL;
    for (int i = 0; i < TIDE_FILE_PLACES && !table; i++) {
        self.place = paths[i];
        if (tide_file_may_take(&own, i, FIRST_BYTES))
            table = make_table_in(own, i);
    }
    tide_file_end(&own, table != NULL);
    return table;
}

static void attach_table(void)
{
    struct tide_heap_head *table = make_table();
    if (!table)
        atomic_store(&off, true);
    atomic_store(&self.table, table);
}

static __attribute__((noinline, cold)) struct tide_heap_head *attach(void)
{
    if (atomic_load(&off) || atomic_exchange(&self.attaching, true))
        return NULL; /* or another thread is attaching: this sample is not worth waiting */
    if (!atomic_load(&self.table))
        tide_file_attach(attach_table);
    atomic_store(&self.attaching, false);
    return atomic_load(&self.table);
}

struct tide_heap_head *tide_ledger_table(void)
{
    struct tide_heap_head *table = atomic_load_explicit(&self.table, memory_order_acquire);
    return table ? table : attach();
}

/* ---- text, modules, codes: all under the latch */

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0;
    for (; *text; text++)
        hash = tide_ledger_mix(hash, (unsigned char)*text);
    return hash;
}

/* Appends head and tail as one text and returns its offset; of a long text the end is kept. 0: no room. */
static uint32_t put_text(struct tide_heap_head *table, const char *head, const char *tail)
{
    size_t head_len = strlen(head), tail_len = strlen(tail), most = TIDE_HEAP_STRING - 1;
    if (tail_len > most) {
        tail += tail_len - most;
        tail_len = most;
    }
    if (head_len > most - tail_len)
        head_len = 0;
    uint64_t at = atomic_load_explicit(&table->text_count, memory_order_relaxed);
    uint64_t end = at + head_len + tail_len + 1;
    if (!(head_len + tail_len) || end > TIDE_HEAP_TEXT || back(table, TEXT, end))
        return 0;
    char *text = (char *)table + TIDE_HEAP_TEXT_AT + at;
    memcpy(text, head, head_len);
    memcpy(text + head_len, tail, tail_len);
    text[head_len + tail_len] = '\0';
    atomic_store_explicit(&table->text_count, end, memory_order_release);
    return (uint32_t)at;
}

static uint32_t put_path(struct tide_heap_head *table, const char *path)
{
    char directory[TIDE_HEAP_STRING] = "";
    if (!path[0])
        path = program_path;
    /* Relative to the current directory. More often than not, that is still where the object was loaded. */
    if (path[0] != '/' && strchr(path, '/') && getcwd(directory, sizeof directory - 1))
        directory[strlen(directory)] = '/';
    return put_text(table, directory, path);
}

static void put_module(struct tide_heap_head *table, const struct tide_object *object)
{
    uint64_t n = atomic_load_explicit(&table->module_count, memory_order_relaxed);
    if (n >= TIDE_HEAP_MODULES || back(table, MODULES, (n + 1) * sizeof(struct tide_heap_module)))
        return;
    struct tide_heap_module *module = (struct tide_heap_module *)((char *)table + TIDE_HEAP_MODULES_AT) + n;
    module->path = put_path(table, object->path);
    module->base = object->base;
    module->start = object->start;
    module->end = object->end;
    module->build_id_bytes = tide_object_build_id(object, module->build_id, sizeof module->build_id);
    atomic_store_explicit(&module->ready, 1, memory_order_release);
    atomic_store_explicit(&table->module_count, n + 1, memory_order_release);
}

static struct known *find_known(uintptr_t address)
{
    for (unsigned i = self.known_count; i--;)
        if (address >= self.known[i].start && address < self.known[i].end)
            return &self.known[i];
    return NULL;
}

/* Makes sure that the object that holds the address has an entry. */
static void learn_module(struct tide_heap_head *table, uintptr_t address)
{
    struct known *known = find_known(address);
    unsigned now = atomic_load(&unloads);
    struct tide_object object;
    if ((known && known->unloads == now) || !tide_object_find(address, &object))
        return;
    uint64_t name_hash = hash_text(object.path);
    if (known && known->start == object.start && known->base == object.base &&
        known->name_hash == name_hash) {
        known->unloads = now;
        return;
    }
    put_module(table, &object);
    if (!known && self.known_count == KNOWN_MODULES)
        return;
    if (!known)
        known = &self.known[self.known_count++];
    *known = (struct known){object.start, object.end, object.base, name_hash, now};
    if (tide_ledger_on_object) {
        tide_ledger_on_object(&object);
        atomic_store(&table->python, tide_ledger_setup.python);
        atomic_store(&table->python_version, tide_ledger_setup.python_version);
    }
}

void tide_ledger_unloaded(void)
{
    atomic_fetch_add(&unloads, 1);
}

static struct code_entry *code_slot(uint64_t key)
{
    uint64_t mask = (1 << CODE_BITS) - 1, at = (key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - CODE_BITS);
    for (unsigned probe = 0; probe < 64; probe++, at = (at + 1) & mask) {
        uint64_t there = atomic_load_explicit(&self.codes[at].key, memory_order_acquire);
        if (there == key || !there)
            return &self.codes[at];
    }
    return NULL;
}

int32_t tide_ledger_code(uint64_t key)
{
    const struct code_entry *entry = code_slot(key);
    return entry && atomic_load_explicit(&entry->key, memory_order_acquire) == key ? (int32_t)entry->index
                                                                                   : TIDE_LEDGER_NONE;
}

static int32_t put_code(struct tide_heap_head *table, const char *file, const char *name, uint32_t first_line)
{
    uint64_t n = atomic_load_explicit(&table->code_count, memory_order_relaxed);
    if (n >= TIDE_HEAP_CODES || back(table, CODES, (n + 1) * sizeof(struct tide_heap_code)))
        return TIDE_LEDGER_NONE;
    struct tide_heap_code *code = (struct tide_heap_code *)((char *)table + TIDE_HEAP_CODES_AT) + n;
    code->file = put_text(table, "", file);
    code->name = put_text(table, "", name);
    code->first_line = first_line;
    atomic_store_explicit(&code->ready, 1, memory_order_release);
    atomic_store_explicit(&table->code_count, n + 1, memory_order_release);
    return (int32_t)n;
}

int32_t tide_ledger_code_add(struct tide_heap_head *table, uint64_t key, const char *file, const char *name,
                             uint32_t first_line)
{
    if (!key || !tide_latch_take(&self.latch))
        return TIDE_LEDGER_NONE;
    int32_t index = TIDE_LEDGER_NONE;
    struct code_entry *entry = code_slot(key);
    if (entry && atomic_load(&entry->key) == key) {
        index = (int32_t)entry->index;
    } else if (entry) {
        index = put_code(table, file, name, first_line);
        if (index >= 0) {
            entry->index = (uint32_t)index;
            atomic_store_explicit(&entry->key, key, memory_order_release);
        }
    }
    tide_latch_release(&self.latch);
    return index;
}

/* ---- sites */

static uint64_t hash_stack(enum tide_site_kind kind, const uint64_t *words, size_t depth)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)kind;
    for (size_t i = 0; i < depth; i++)
        hash = tide_ledger_mix(hash, words[i]);
    return hash ? hash : 1;
}

/* Returns the site with the hash; or TIDE_LEDGER_NONE, and the slot for it (NULL: the index is full). */
static int32_t look_up(struct tide_heap_head *table, uint64_t hash, _Atomic uint32_t **ret_slot)
{
    uint64_t mask = (1 << INDEX_BITS) - 1, at = hash & mask;
    for (unsigned probe = 0; probe < 256; probe++, at = (at + 1) & mask) {
        uint32_t number = atomic_load_explicit(&self.index[at], memory_order_acquire);
        *ret_slot = &self.index[at];
        if (!number)
            return TIDE_LEDGER_NONE;
        if (site_at(table, number - 1)->hash == hash)
            return (int32_t)(number - 1);
    }
    *ret_slot = NULL;
    return TIDE_LEDGER_NONE;
}

static int32_t put_site(struct tide_heap_head *table, enum tide_site_kind kind, const uint64_t *words,
                        size_t depth, bool complete, uint64_t hash)
{
    uint64_t n = atomic_load_explicit(&table->site_count, memory_order_relaxed);
    uint64_t at = atomic_load_explicit(&table->frame_count, memory_order_relaxed);
    if (n >= TIDE_HEAP_SITES || at + depth > TIDE_HEAP_FRAMES ||
        back(table, SITES, (n + 1) * sizeof(struct tide_heap_site)) || back(table, FRAMES, (at + depth) * 8))
        return TIDE_LEDGER_NONE;
    for (size_t i = 0; i < depth; i++)
        if (!(words[i] & TIDE_HEAP_PYTHON_BIT))
            learn_module(table, (uintptr_t)words[i] - 1);
    memcpy((char *)table + TIDE_HEAP_FRAMES_AT + at * 8, words, depth * 8);
    atomic_store_explicit(&table->frame_count, at + depth, memory_order_release);
    struct tide_heap_site *site = site_at(table, (uint32_t)n);
    site->kind = (uint16_t)kind;
    site->flags = complete ? 0 : TIDE_HEAP_TRUNCATED;
    site->frames_at = (uint32_t)at;
    site->depth = (uint32_t)depth;
    site->hash = hash;
    site->modules = (uint32_t)atomic_load(&table->module_count);
    atomic_store_explicit(&site->ready, 1, memory_order_release);
    atomic_store_explicit(&table->site_count, n + 1, memory_order_release);
    return (int32_t)n;
}

static __attribute__((noinline, cold)) int32_t make_site(struct tide_heap_head *table,
                                                         enum tide_site_kind kind, const uint64_t *words,
                                                         size_t depth, bool complete, uint64_t hash)
{
    int32_t site = TIDE_LEDGER_NONE;
    if (tide_latch_take(&self.latch)) {
        _Atomic uint32_t *slot;
        site = look_up(table, hash, &slot);
        if (site < 0 && slot) {
            site = put_site(table, kind, words, depth, complete, hash);
            if (site >= 0)
                atomic_store_explicit(slot, (uint32_t)site + 1, memory_order_release);
        }
        tide_latch_release(&self.latch);
    }
    if (site < 0)
        tide_ledger_count(&table->dropped_sites);
    return site;
}

int32_t tide_ledger_find(struct tide_heap_head *table, enum tide_site_kind kind, const uint64_t *words,
                         size_t depth, bool complete)
{
    if (depth > TIDE_HEAP_DEPTH) {
        depth = TIDE_HEAP_DEPTH;
        complete = false;
    }
    _Atomic uint32_t *slot;
    uint64_t hash = hash_stack(kind, words, depth);
    int32_t site = look_up(table, hash, &slot);
    return site >= 0 ? site : make_site(table, kind, words, depth, complete, hash);
}

void tide_ledger_changed(struct tide_heap_head *table, uint32_t site, int64_t bytes, int64_t blocks)
{
    struct tide_heap_site *s = site_at(table, site);
    atomic_fetch_add_explicit(&s->live_bytes, bytes, memory_order_relaxed);
    if (blocks)
        atomic_fetch_add_explicit(&s->live_blocks, blocks, memory_order_relaxed);
}

void tide_ledger_allocated(struct tide_heap_head *table, uint32_t site, int64_t bytes, int64_t blocks)
{
    struct tide_heap_site *s = site_at(table, site);
    tide_ledger_changed(table, site, bytes, blocks);
    atomic_fetch_add_explicit(&s->total_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->total_blocks, blocks, memory_order_relaxed);
    tide_ledger_count(&table->sampled);
}
