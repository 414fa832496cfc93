/*
 * object.c - asks the loader for loaded ELF objects, without its lock (object.h).
 */
#include "hook/object.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

enum { SCANNED_MOST = 2048 };

#ifdef DLFO_STRUCT_HAS_EH_DBASE
static int (*find_object)(void *, struct dl_find_object *);

/* The program from its first segment to its last. If there are gaps between them, as linkers leave for large
 * pages, _dl_find_object() gives only the segment of the address. In a library, the loader keeps the gaps. */
static struct {
    uintptr_t start, end;
} program;

static void measure_program(void)
{
    const ElfW(Phdr) *segments = (const void *)getauxval(AT_PHDR);
    unsigned long count = getauxval(AT_PHNUM);
    uintptr_t base = 0, start = UINTPTR_MAX, end = 0;
    for (unsigned long i = 0; segments && i < count; i++) {
        uintptr_t from = segments[i].p_vaddr, to = from + segments[i].p_memsz;
        if (segments[i].p_type == PT_PHDR)
            base = (uintptr_t)segments - from;
        if (segments[i].p_type != PT_LOAD)
            continue;
        start = from < start ? from : start;
        end = to > end ? to : end;
    }
    if (end) {
        program.start = base + start;
        program.end = base + end;
    }
}
#endif

/* For an older glibc: the objects that were loaded at the start. */
static struct tide_object scanned_objects[SCANNED_MOST];
static atomic_uint scanned;

static int scan_one(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size, (void)context;
    struct tide_object object = {.start = UINTPTR_MAX, .base = info->dlpi_addr, .path = info->dlpi_name};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD) {
            object.start = start < object.start ? start : object.start;
            object.end = start + segment->p_memsz > object.end ? start + segment->p_memsz : object.end;
        } else if (segment->p_type == PT_GNU_EH_FRAME) {
            object.eh_frame = (const void *)start;
        } else if (segment->p_type == PT_DYNAMIC) {
            object.dynamic = (const void *)start;
        }
    }
    unsigned count = atomic_load_explicit(&scanned, memory_order_relaxed);
    if (object.end && count < SCANNED_MOST) {
        scanned_objects[count] = object;
        atomic_store_explicit(&scanned, count + 1, memory_order_release);
    }
    return 0;
}

void tide_object_init(void)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
    measure_program();
    *(void **)&find_object = dlsym(RTLD_DEFAULT, "_dl_find_object");
    if (find_object)
        return;
#endif
    dl_iterate_phdr(scan_one, NULL);
}

static bool find_scanned(uintptr_t address, struct tide_object *ret_object)
{
    for (unsigned i = atomic_load_explicit(&scanned, memory_order_acquire); i--;)
        if (address >= scanned_objects[i].start && address < scanned_objects[i].end) {
            *ret_object = scanned_objects[i];
            return true;
        }
    return false;
}

bool tide_object_find(uintptr_t address, struct tide_object *ret_object)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
    if (find_object) {
        struct dl_find_object found;
        if (find_object((void *)address, &found))
            return false;
        const struct link_map *map = found.dlfo_link_map;
        bool own = address >= program.start && address < program.end;
        *ret_object = (struct tide_object){.start = own ? program.start : (uintptr_t)found.dlfo_map_start,
                                           .end = own ? program.end : (uintptr_t)found.dlfo_map_end,
                                           .base = map ? map->l_addr : 0,
                                           .eh_frame = found.dlfo_eh_frame,
                                           .path = map && map->l_name ? map->l_name : "",
                                           .dynamic = map ? map->l_ld : NULL};
        return map != NULL;
    }
#endif
    return find_scanned(address, ret_object);
}

static bool is_inside(const struct tide_object *object, uintptr_t address, size_t bytes)
{
    return address >= object->start && address <= object->end && bytes <= object->end - address;
}

/* The same for data that must be aligned to `word` bytes. */
static bool is_readable(const struct tide_object *object, uintptr_t address, size_t bytes, size_t word)
{
    return is_inside(object, address, bytes) && address % word == 0;
}

/* The loader has already added the base to the addresses in the dynamic section, except in the vdso. */
static uintptr_t at(const struct tide_object *object, uintptr_t value)
{
    return is_inside(object, value, 1) ? value : value + object->base;
}

struct dynamic {
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *hash; /* GNU hash table */
};

static bool read_dynamic(const struct tide_object *object, struct dynamic *ret)
{
    *ret = (struct dynamic){0};
    const ElfW(Dyn) *entry = object->dynamic;
    for (; is_readable(object, (uintptr_t)entry, sizeof *entry, 8) && entry->d_tag != DT_NULL; entry++) {
        uintptr_t value = at(object, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB && is_readable(object, value, sizeof *ret->symbols, 8))
            ret->symbols = (const void *)value;
        else if (entry->d_tag == DT_STRTAB && is_inside(object, value, 1))
            ret->names = (const void *)value;
        else if (entry->d_tag == DT_GNU_HASH && is_readable(object, value, 16, 4))
            ret->hash = (const void *)value;
    }
    return ret->symbols && ret->names && ret->hash;
}

uintptr_t tide_object_symbol(const struct tide_object *object, const char *name, uint64_t *ret_size)
{
    struct dynamic dynamic;
    if (!read_dynamic(object, &dynamic) || !dynamic.hash[0])
        return 0;
    uint32_t hash = 5381;
    for (const char *p = name; *p; p++)
        hash = hash * 33 + (unsigned char)*p;
    size_t bucket_count = dynamic.hash[0], first = dynamic.hash[1], bloom_words = dynamic.hash[2];
    uintptr_t buckets = (uintptr_t)(dynamic.hash + 4) + bloom_words * sizeof(ElfW(Addr));
    uintptr_t chain = buckets + bucket_count * 4;
    if (!is_inside(object, buckets, bucket_count * 4))
        return 0;
    size_t len = strlen(name) + 1, i = ((const uint32_t *)buckets)[hash % bucket_count];
    for (; i >= first; i++) {
        uintptr_t at_symbol = (uintptr_t)dynamic.symbols + i * sizeof *dynamic.symbols;
        if (!is_inside(object, chain + (i - first) * 4, 4) ||
            !is_inside(object, at_symbol, sizeof *dynamic.symbols))
            return 0;
        uint32_t link = ((const uint32_t *)chain)[i - first];
        const ElfW(Sym) *symbol = (const void *)at_symbol;
        if ((link | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
            is_inside(object, (uintptr_t)dynamic.names + symbol->st_name, len) &&
            !memcmp(dynamic.names + symbol->st_name, name, len)) {
            if (ret_size)
                *ret_size = symbol->st_size;
            return object->base + symbol->st_value;
        }
        if (link & 1)
            return 0;
    }
    return 0;
}

static uint32_t find_note(const struct tide_object *object, uintptr_t note, size_t bytes, uint8_t *id,
                          uint32_t room)
{
    uintptr_t end = note + bytes;
    while (is_readable(object, note, bytes, 4) && end - note >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *head = (const void *)note;
        uint64_t name_bytes = (head->n_namesz + UINT64_C(3)) & ~UINT64_C(3);
        uint64_t text_bytes = (head->n_descsz + UINT64_C(3)) & ~UINT64_C(3);
        if (name_bytes + text_bytes > end - note - sizeof *head)
            return 0;
        const char *name = (const char *)(head + 1);
        if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
            uint32_t take = head->n_descsz < room ? head->n_descsz : room;
            memcpy(id, name + name_bytes, take);
            return take;
        }
        note += sizeof *head + name_bytes + text_bytes;
        bytes = end - note;
    }
    return 0;
}

uint32_t tide_object_build_id(const struct tide_object *object, uint8_t *bytes, uint32_t room)
{
    const ElfW(Ehdr) *file = (const void *)object->start;
    if (object->end - object->start < sizeof *file || memcmp(file->e_ident, ELFMAG, SELFMAG) ||
        file->e_phentsize != sizeof(ElfW(Phdr)) ||
        !is_readable(object, object->start + file->e_phoff, (size_t)file->e_phnum * sizeof(ElfW(Phdr)), 8))
        return 0;
    const ElfW(Phdr) *segments = (const void *)(object->start + file->e_phoff);
    for (unsigned i = 0; i < file->e_phnum; i++) {
        uint32_t got = segments[i].p_type == PT_NOTE ? find_note(object, object->base + segments[i].p_vaddr,
                                                                 segments[i].p_memsz, bytes, room)
                                                     : 0;
        if (got)
            return got;
    }
    return 0;
}
