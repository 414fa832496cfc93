/*
 * symbol.c - see symbol.h.
 *
 * A module is opened at its first lookup and stays open. Of its symbols only functions are kept, sorted by
 * address. Units of debug information are found by .debug_aranges or, if there is none (clang writes none),
 * by a table of their ranges, which is made once. libdwfl could do both, but it scans all symbols for each
 * address and misses units that .debug_aranges does not name; docs/HOOK.md has the figures.
 */
#include "sense/symbol.h"

#include "base/arena.h"
#include "base/grow.h"
#include "base/infile.h"
#include "base/map.h"
#include "base/text.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SYMBOLS_MOST = 4 << 20,    /* of one file */
    RANGES_MOST = 8 << 20,     /* of all units in one file */
    RANGES_PER_UNIT = 1 << 20, /* bound on a list that does not end */
    REFERENCES_MOST = 8,       /* from a copy of a function to its declaration */
};

struct symbol {
    uint64_t value, size;
    uint32_t name;
    bool open; /* has no size of its own: `size` is an upper bound */
};

struct range {
    uint64_t low, high;
    Dwarf_Off unit; /* offset of its DIE */
};

/* One ELF file: the module itself, or its separate debug information. */
struct file {
    int fd;
    Elf *elf;
    struct symbol *symbols;
    size_t symbol_count;
    size_t strings; /* index of the section with their names */
};

struct module {
    struct file main, debug;
    Dwarf *dwarf; /* NULL: none */
    bool dwarf_tried;
    bool named_only; /* its debug information is not worth the cost */
    bool ranges_made;
    struct range *ranges;
    size_t range_count;
    char *path;
};

typedef char *demangle_function(const char *name, char *buffer, size_t *length, int *status);

struct tide_symbols {
    struct module *modules[TIDE_SYMBOL_MODULES];
    size_t module_count;
    struct tide_map by_key; /* hash of path and build-id -> index */
    void *demangler_library;
    demangle_function *demangle; /* NULL: names stay mangled */
    struct tide_arena texts;     /* of the last lookup */
};

/* --- files --------------------------------------------------------------------------------------------- */

static void close_file(struct file *file)
{
    free(file->symbols);
    if (file->elf)
        elf_end(file->elf);
    if (file->fd >= 0)
        close(file->fd);
    *file = (struct file){.fd = -1};
}

static bool same_build_id(Elf *elf, const uint8_t *wanted, size_t bytes)
{
    const void *found = NULL;
    ssize_t len = dwelf_elf_gnu_build_id(elf, &found);

    if (bytes == 0)
        return true;
    if (len < 0 || !found)
        return false;
    /* The target's table holds only the first 20 bytes. */
    return (size_t)len >= bytes && (bytes == TIDE_SYMBOL_BUILD_ID || (size_t)len == bytes) &&
           memcmp(found, wanted, bytes) == 0;
}

/* Opens path if it is an ELF file of a program or library with the right build-id. */
static int open_file(const char *path, const uint8_t *build_id, size_t build_id_bytes, struct file *ret_file)
{
    struct stat about;
    struct file file = {.fd = tide_infile_open(path, &about)};
    GElf_Ehdr header;

    if (file.fd < 0)
        return -1;
    file.elf = about.st_size > 0 ? elf_begin(file.fd, ELF_C_READ_MMAP, NULL) : NULL;
    if (file.elf && elf_kind(file.elf) == ELF_K_ELF && gelf_getehdr(file.elf, &header) &&
        (header.e_type == ET_DYN || header.e_type == ET_EXEC) &&
        same_build_id(file.elf, build_id, build_id_bytes)) {
        *ret_file = file;
        return 0;
    }
    close_file(&file);
    return -1;
}

/* Returns the link to the file mapped at an address of a process. It works even if the file was deleted. */
static int find_mapped(int64_t pid, uint64_t address, char *out, size_t size)
{
    char line[512];
    int found = -1;

    snprintf(line, sizeof line, "/proc/%" PRId64 "/maps", pid);
    FILE *maps = fopen(line, "re");
    while (maps && found != 0 && fgets(line, sizeof line, maps)) {
        uint64_t start, end;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 && start <= address && address < end) {
            snprintf(out, size, "/proc/%" PRId64 "/map_files/%" PRIx64 "-%" PRIx64, pid, start, end);
            found = 0;
        }
    }
    if (maps)
        fclose(maps);
    return found;
}

static int open_module_file(const struct tide_symbol_module *module, struct file *ret_file)
{
    char path[TIDE_SYMBOL_TEXT + 64];

    if (module->pid > 0 && module->path[0] == '/') {
        snprintf(path, sizeof path, "/proc/%" PRId64 "/root%s", module->pid, module->path);
        if (open_file(path, module->build_id, module->build_id_bytes, ret_file) == 0)
            return 0;
    }
    if (module->path[0] == '/' &&
        open_file(module->path, module->build_id, module->build_id_bytes, ret_file) == 0)
        return 0;
    if (module->pid > 0 && module->end > module->start &&
        find_mapped(module->pid, module->start, path, sizeof path) == 0 &&
        open_file(path, module->build_id, module->build_id_bytes, ret_file) == 0)
        return 0;
    /* Unlike links to mapped files, this one needs no privilege, but it only serves for the executable. */
    if (module->pid <= 0 || module->build_id_bytes == 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/exe", module->pid);
    return open_file(path, module->build_id, module->build_id_bytes, ret_file);
}

/* Looks by build-id, else by name beside the module and under /usr/lib/debug. */
static int open_debug_file(struct module *module)
{
    const void *build_id = NULL;
    ssize_t bytes = dwelf_elf_gnu_build_id(module->main.elf, &build_id);
    char path[2 * TIDE_SYMBOL_TEXT + 64];

    if (bytes > 1 && bytes <= 64) {
        const uint8_t *id = build_id;
        int len = snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%02x/", id[0]);
        for (ssize_t i = 1; i < bytes; i++)
            len += snprintf(path + len, sizeof path - (size_t)len, "%02x", id[i]);
        snprintf(path + len, sizeof path - (size_t)len, ".debug");
        if (open_file(path, id, (size_t)bytes, &module->debug) == 0)
            return 0;
    }
    GElf_Word crc;
    const char *name = dwelf_elf_gnu_debuglink(module->main.elf, &crc);
    const char *slash = strrchr(module->path, '/');
    if (!name || !slash || bytes <= 1 || strchr(name, '/'))
        return -1; /* without a build-id nothing proves that they belong together */
    static const char *const places[] = {"%.*s/%s", "%.*s/.debug/%s", "/usr/lib/debug%.*s/%s"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(path, sizeof path, places[i], (int)(slash - module->path), module->path, name);
#pragma GCC diagnostic pop
        if (strcmp(path, module->path) != 0 && open_file(path, build_id, (size_t)bytes, &module->debug) == 0)
            return 0;
    }
    return -1;
}

/* --- symbol tables ------------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;

    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size);
}

/* End of the section of a symbol without a size. Such a symbol extends at most to the next one. */
static uint64_t section_end(const struct file *file, const GElf_Sym *symbol)
{
    GElf_Shdr header;
    Elf_Scn *section = elf_getscn(file->elf, symbol->st_shndx);

    return section && gelf_getshdr(section, &header) ? header.sh_addr + header.sh_size : symbol->st_value;
}

static size_t keep_functions(const struct file *file, Elf_Data *data, size_t count, struct symbol *symbols)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        GElf_Sym symbol;
        if (!gelf_getsym(data, (int)i, &symbol))
            break;
        int type = GELF_ST_TYPE(symbol.st_info);
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF || !symbol.st_value)
            continue;
        uint64_t size = symbol.st_size ? symbol.st_size : section_end(file, &symbol) - symbol.st_value;
        symbols[kept++] = (struct symbol){symbol.st_value, size, symbol.st_name, symbol.st_size == 0};
    }
    return kept;
}

/* Reads the functions of the file's first section of that type, if there is one. */
static void read_symbols(struct file *file, unsigned type)
{
    for (Elf_Scn *section = NULL; (section = elf_nextscn(file->elf, section)) != NULL;) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || header.sh_type != type || header.sh_entsize == 0)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        size_t count = data ? data->d_size / header.sh_entsize : 0;
        count = count < SYMBOLS_MOST ? count : SYMBOLS_MOST;
        struct symbol *symbols = count ? malloc(count * sizeof *symbols) : NULL;
        if (!symbols)
            continue;
        file->symbol_count = keep_functions(file, data, count, symbols);
        if (file->symbol_count == 0) {
            free(symbols);
            continue;
        }
        qsort(symbols, file->symbol_count, sizeof *symbols, by_address);
        file->symbols = symbols;
        file->strings = header.sh_link;
        return;
    }
}

/* Number of elements with an address up to this one, in an array sorted by the address each starts with. */
static size_t count_until(const void *array, size_t count, size_t size, uint64_t address)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (*(const uint64_t *)((const char *)array + middle * size) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The name of the function at an address, or NULL. Borrowed from the file. */
static const char *find_symbol(const struct file *file, uint64_t address)
{
    size_t low = count_until(file->symbols, file->symbol_count, sizeof *file->symbols, address);

    /* Of several symbols that start there the largest is last. A short one may lie within a longer one before
     * it. */
    for (size_t back = 0; back < 8 && low > back; back++) {
        const struct symbol *symbol = &file->symbols[low - 1 - back];
        if (address - symbol->value < symbol->size && (!symbol->open || back == 0))
            return elf_strptr(file->elf, file->strings, symbol->name);
    }
    return NULL;
}

/* --- modules ------------------------------------------------------------------------------------------- */

static void free_module(struct module *module)
{
    if (!module)
        return;
    if (module->dwarf)
        dwarf_end(module->dwarf);
    free(module->ranges);
    close_file(&module->main);
    close_file(&module->debug);
    free(module->path);
    free(module);
}

/*
 * True for the C library and the loader. Their allocations belong to the caller, which is the next frame, and
 * function names suffice. Distributions compress their debug information: unpacking glibc's takes 40 ms, just
 * for the line that calls main.
 */
static bool is_c_library(const char *path)
{
    const char *name = tide_text_last_part(path);

    return strncmp(name, "libc.so", 7) == 0 || strncmp(name, "libc-", 5) == 0 || strncmp(name, "ld-", 3) == 0;
}

static struct module *open_module(const struct tide_symbol_module *about)
{
    struct module *module = calloc(1, sizeof *module);

    if (!module || !(module->path = strdup(about->path))) {
        free(module);
        return NULL;
    }
    module->main.fd = module->debug.fd = -1;
    module->named_only = is_c_library(about->path);
    if (open_module_file(about, &module->main) != 0)
        return module; /* remembered as unknown */
    read_symbols(&module->main, SHT_SYMTAB);
    if (!module->main.symbols && open_debug_file(module) == 0)
        read_symbols(&module->debug, SHT_SYMTAB);
    if (!module->main.symbols)
        read_symbols(&module->main, SHT_DYNSYM);
    return module;
}

static void forget_modules(struct tide_symbols *symbols)
{
    for (size_t i = 0; i < symbols->module_count; i++)
        free_module(symbols->modules[i]);
    symbols->module_count = 0;
    tide_map_clear(&symbols->by_key);
}

static struct module *find_module(struct tide_symbols *symbols, const struct tide_symbol_module *about)
{
    uint64_t key = tide_map_key(TIDE_MAP_SEED, about->build_id, about->build_id_bytes), found;

    key = tide_map_key(key, about->path, strlen(about->path));
    if (tide_map_get(&symbols->by_key, key, &found))
        return symbols->modules[found];
    if (symbols->module_count == TIDE_SYMBOL_MODULES)
        forget_modules(symbols);
    struct module *module = open_module(about);
    if (!module)
        return NULL;
    if (tide_map_put(&symbols->by_key, key, symbols->module_count) != 0) {
        free_module(module);
        return NULL;
    }
    return symbols->modules[symbols->module_count++] = module;
}

/* --- debug information --------------------------------------------------------------------------------- */

static Dwarf *open_dwarf(struct file *file)
{
    Dwarf *dwarf = file->elf ? dwarf_begin_elf(file->elf, DWARF_C_READ, NULL) : NULL;
    Dwarf_CU *unit = NULL;

    /* A file can have the sections but nothing in them. */
    if (dwarf && dwarf_get_units(dwarf, NULL, &unit, NULL, NULL, NULL, NULL) != 0) {
        dwarf_end(dwarf);
        dwarf = NULL;
    }
    return dwarf;
}

static void find_dwarf(struct module *module)
{
    if (module->dwarf_tried)
        return;
    module->dwarf_tried = true;
    module->dwarf = open_dwarf(&module->main);
    if (!module->dwarf && (module->debug.elf || open_debug_file(module) == 0))
        module->dwarf = open_dwarf(&module->debug);
}

static int by_low(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    return (x->low > y->low) - (x->low < y->low);
}

static bool add_range(struct module *module, size_t *capacity, struct range range)
{
    if (range.high <= range.low)
        return true;
    if (TIDE_GROW(module->ranges, *capacity, module->range_count + 1, RANGES_MOST) != 0)
        return false;
    module->ranges[module->range_count++] = range;
    return true;
}

static void make_ranges(struct module *module)
{
    Dwarf_CU *unit = NULL;
    Dwarf_Die die;
    size_t capacity = 0;
    bool room = true;

    module->ranges_made = true;
    while (room && dwarf_get_units(module->dwarf, unit, &unit, NULL, NULL, &die, NULL) == 0) {
        Dwarf_Addr base, low, high;
        ptrdiff_t at = 0;
        for (int n = 0; room && n < RANGES_PER_UNIT && (at = dwarf_ranges(&die, at, &base, &low, &high)) > 0;
             n++)
            room = add_range(module, &capacity, (struct range){low, high, dwarf_dieoffset(&die)});
    }
    if (module->ranges)
        qsort(module->ranges, module->range_count, sizeof *module->ranges, by_low);
}

/* Finds the DIE of the unit that contains the address. */
static bool find_unit(struct module *module, uint64_t address, Dwarf_Die *ret_unit)
{
    if (dwarf_addrdie(module->dwarf, address, ret_unit))
        return true;
    if (!module->ranges_made)
        make_ranges(module);
    size_t low = count_until(module->ranges, module->range_count, sizeof *module->ranges, address);
    return low > 0 && address < module->ranges[low - 1].high &&
           dwarf_offdie(module->dwarf, module->ranges[low - 1].unit, ret_unit);
}

/* With -gsplit-dwarf the DIEs are in a separate file and this one has only a skeleton. */
static void enter_split_unit(Dwarf_Die *unit)
{
    Dwarf_Die sub;
    uint8_t type;

    if (dwarf_cu_info(unit->cu, NULL, &type, NULL, &sub, NULL, NULL, NULL) == 0 && type == DW_UT_skeleton &&
        dwarf_tag(&sub) != DW_TAG_invalid && sub.addr)
        *unit = sub;
}

/* --- one answer ---------------------------------------------------------------------------------------- */

/* Returns a copy that is valid until the next lookup. */
static const char *keep(struct tide_symbols *symbols, const char *text)
{
    size_t len = text ? strnlen(text, TIDE_SYMBOL_TEXT - 1) : 0;
    const char *copy = len ? tide_arena_text(&symbols->texts, text, len) : NULL;

    return copy ? copy : "";
}

static const char *demangled(struct tide_symbols *symbols, const char *name)
{
    int status = -1;

    if (!symbols->demangle || !name || name[0] != '_' || name[1] != 'Z' ||
        strnlen(name, TIDE_SYMBOL_TEXT) == TIDE_SYMBOL_TEXT)
        return keep(symbols, name);
    char *plain = symbols->demangle(name, NULL, NULL, &status);
    const char *kept = keep(symbols, status == 0 && plain ? plain : name);
    free(plain);
    return kept;
}

/* The declaration of a function, through the copies and definitions that refer to it. */
static Dwarf_Die declaration_of(Dwarf_Die *die)
{
    Dwarf_Die found = *die, next;
    Dwarf_Attribute attribute;
    for (int i = 0; i < REFERENCES_MOST; i++) {
        Dwarf_Attribute *refers = dwarf_attr(&found, DW_AT_abstract_origin, &attribute);
        if (!refers)
            refers = dwarf_attr(&found, DW_AT_specification, &attribute);
        if (!refers || !dwarf_formref_die(refers, &next))
            break;
        found = next;
    }
    return found;
}

static bool is_scope(Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
           tag == DW_TAG_union_type;
}

/* Qualifies the plain name of a function without a linkage name: "lab::keep". */
static const char *qualified(struct tide_symbols *symbols, Dwarf_Die *die, const char *name)
{
    Dwarf_Die declared = declaration_of(die), *scopes = NULL;
    int count = dwarf_getscopes_die(&declared, &scopes);
    char text[TIDE_SYMBOL_TEXT] = "";
    size_t used = 0;

    for (int i = count; i-- > 1 && used < sizeof text;)
        if (is_scope(&scopes[i])) {
            const char *scope = dwarf_diename(&scopes[i]);
            used += (size_t)snprintf(text + used, sizeof text - used, "%s::", scope ? scope : "(anonymous)");
        }
    free(scopes);
    if (used == 0 || used >= sizeof text)
        return keep(symbols, name);
    snprintf(text + used, sizeof text - used, "%s", name);
    return keep(symbols, text);
}

/* Name of a function, inlined or not: its linkage name, which includes the scope, else its plain name. */
static const char *name_of(struct tide_symbols *symbols, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));

    if (!name)
        name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute));
    if (name)
        return demangled(symbols, name);
    name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &attribute));
    return name ? qualified(symbols, die, name) : "";
}

/* Source paths may be relative to the compilation directory. */
static const char *path_of(struct tide_symbols *symbols, Dwarf_Die *unit, const char *file)
{
    Dwarf_Attribute attribute;
    char joined[TIDE_SYMBOL_TEXT];

    if (!file || file[0] == '/')
        return keep(symbols, file);
    const char *directory = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
    if (!directory)
        return keep(symbols, file);
    snprintf(joined, sizeof joined, "%s/%s", directory, file);
    return keep(symbols, joined);
}

static int64_t number_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;

    if (dwarf_formudata(dwarf_attr(die, name, &attribute), &value) != 0 || value > INT32_MAX)
        return 0;
    return (int64_t)value;
}

/* The place where an inlined function is called, which is the place of the frame around it. */
static void call_place(struct tide_symbols *symbols, Dwarf_Die *unit, Dwarf_Die *inlined,
                       struct tide_symbol_frame *around)
{
    Dwarf_Files *files;
    size_t count;
    int64_t file = number_of(inlined, DW_AT_call_file);

    around->line = number_of(inlined, DW_AT_call_line);
    around->file = "";
    if (dwarf_getsrcfiles(unit, &files, &count) == 0 && (uint64_t)file < count)
        around->file = path_of(symbols, unit, dwarf_filesrc(files, (size_t)file, NULL, NULL));
}

/* Walks outwards from the innermost function at the address. Returns the number of frames. The first one
 * already has its place. */
static size_t walk_inlined(struct tide_symbols *symbols, Dwarf_Die *unit, Dwarf_Die *chain, int count,
                           struct tide_symbol_frame *frames)
{
    size_t used = 0;

    for (int i = 0; i < count && used < TIDE_SYMBOL_FRAMES; i++) {
        int tag = dwarf_tag(&chain[i]);
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
            continue;
        struct tide_symbol_frame *frame = &frames[used++];
        frame->function = name_of(symbols, &chain[i]);
        frame->inlined = tag == DW_TAG_inlined_subroutine;
        if (!frame->inlined)
            break;
        if (used < TIDE_SYMBOL_FRAMES)
            call_place(symbols, unit, &chain[i], &frames[used]);
    }
    if (used > 0)
        frames[used - 1].inlined = false;
    return used;
}

static size_t resolve_dwarf(struct tide_symbols *symbols, struct module *module, uint64_t address,
                            struct tide_symbol_frame *frames)
{
    Dwarf_Die unit, *scopes = NULL, *chain = NULL;
    size_t used = 0;
    int line = 0, count;

    find_dwarf(module);
    if (!module->dwarf || !find_unit(module, address, &unit))
        return 0;
    frames[0] = (struct tide_symbol_frame){.function = "", .file = ""};
    Dwarf_Line *row = dwarf_getsrc_die(&unit, address);
    if (row && dwarf_lineno(row, &line) == 0 && line > 0) {
        frames[0].line = line;
        frames[0].file = path_of(symbols, &unit, dwarf_linesrc(row, NULL, NULL));
    }
    enter_split_unit(&unit);
    count = dwarf_getscopes(&unit, address, &scopes);
    for (int i = 0; i < count; i++) {
        int tag = dwarf_tag(&scopes[i]);
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
            continue;
        int depth = dwarf_getscopes_die(&scopes[i], &chain);
        used = walk_inlined(symbols, &unit, chain, depth, frames);
        break;
    }
    free(scopes);
    free(chain);
    if (used == 0 && frames[0].line > 0)
        used = 1; /* assembler: a place without a function */
    return used;
}

size_t tide_symbols_resolve(struct tide_symbols *symbols, const struct tide_symbol_module *about,
                            uint64_t address, bool debug_info,
                            struct tide_symbol_frame ret_frames[TIDE_SYMBOL_FRAMES])
{
    struct module *module = find_module(symbols, about);

    if (!module || !module->main.elf)
        return 0;
    tide_arena_release(&symbols->texts);
    size_t count =
        debug_info && !module->named_only ? resolve_dwarf(symbols, module, address, ret_frames) : 0;
    if (count > 0 && ret_frames[count - 1].function[0])
        return count;
    const char *name = find_symbol(&module->main, address);
    if (!name)
        name = find_symbol(&module->debug, address);
    if (!name)
        return count;
    if (count == 0)
        ret_frames[count++] = (struct tide_symbol_frame){.file = ""};
    ret_frames[count - 1].function = demangled(symbols, name);
    return count;
}

/* --- lifecycle ----------------------------------------------------------------------------------------- */

struct tide_symbols *tide_symbols_new(void)
{
    struct tide_symbols *symbols = calloc(1, sizeof *symbols);

    if (!symbols)
        return NULL;
    elf_version(EV_CURRENT);
    tide_map_init(&symbols->by_key, TIDE_SYMBOL_MODULES);
    tide_arena_init(&symbols->texts, 1 << 20);
    /* This program contains no C++; a machine that runs C++ programs has the library. */
    symbols->demangler_library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    if (symbols->demangler_library)
        *(void **)&symbols->demangle = dlsym(symbols->demangler_library, "__cxa_demangle");
    return symbols;
}

void tide_symbols_free(struct tide_symbols *symbols)
{
    if (!symbols)
        return;
    forget_modules(symbols);
    tide_map_release(&symbols->by_key);
    tide_arena_release(&symbols->texts);
    if (symbols->demangler_library)
        dlclose(symbols->demangler_library);
    free(symbols);
}
