/*
 * fuzz_symbol.c - symbol tables and debug information with any contents, asked for one address.
 *
 * The input begins with the address, eight bytes. What follows is put into the sections of an ELF file that
 * is otherwise in order, piece by piece, each { section, length (2 bytes, little-endian), bytes }. An input
 * that begins as an ELF file does is one, asked for the address of its entry.
 */
#include "base/check.h"
#include "sense/symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What libdw does not free of a damaged file is not ours to free. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libdw.so";
}

enum { SECTION_MOST = 1 << 16 };

static const struct {
    const char *name;
    uint32_t type, link;
} kinds[] = {
    {".symtab", SHT_SYMTAB, 2},           {".strtab", SHT_STRTAB, 0},
    {".dynsym", SHT_DYNSYM, 4},           {".dynstr", SHT_STRTAB, 0},
    {".debug_info", SHT_PROGBITS, 0},     {".debug_abbrev", SHT_PROGBITS, 0},
    {".debug_line", SHT_PROGBITS, 0},     {".debug_aranges", SHT_PROGBITS, 0},
    {".debug_str", SHT_PROGBITS, 0},      {".debug_ranges", SHT_PROGBITS, 0},
    {".debug_rnglists", SHT_PROGBITS, 0}, {".debug_line_str", SHT_PROGBITS, 0},
    {".debug_addr", SHT_PROGBITS, 0},     {".debug_str_offsets", SHT_PROGBITS, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds, TEXT_SECTION = KINDS + 1, NAMES, SECTIONS };

struct content {
    uint8_t bytes[SECTION_MOST];
    size_t used;
};

static void put(int fd, const void *bytes, size_t count)
{
    TIDE_CHECK(write(fd, bytes, count), ==, (ssize_t)count);
}

/* Section 0 is none, then come those with contents, the code, and the names of all. */
static void write_elf(int fd, const struct content *contents)
{
    Elf64_Shdr heads[SECTIONS] = {{0}};
    char names[512] = "";
    size_t name_at = 1, at = sizeof(Elf64_Ehdr);
    for (int i = 0; i < KINDS; i++) {
        bool table = kinds[i].type == SHT_SYMTAB || kinds[i].type == SHT_DYNSYM;
        heads[i + 1] = (Elf64_Shdr){.sh_name = (uint32_t)name_at,
                                    .sh_type = kinds[i].type,
                                    .sh_offset = at,
                                    .sh_size = contents[i].used,
                                    .sh_link = kinds[i].link,
                                    .sh_entsize = table ? sizeof(Elf64_Sym) : 0,
                                    .sh_addralign = 1};
        name_at += (size_t)sprintf(names + name_at, "%s", kinds[i].name) + 1;
        at += contents[i].used;
    }
    heads[TEXT_SECTION] = (Elf64_Shdr){.sh_type = SHT_NOBITS,
                                       .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                       .sh_addr = 0x1000,
                                       .sh_size = 0x100000,
                                       .sh_offset = at};
    heads[NAMES] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = at, .sh_size = name_at};
    Elf64_Ehdr head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                       .e_type = ET_DYN,
                       .e_machine = EM_X86_64,
                       .e_version = EV_CURRENT,
                       .e_shoff = at + name_at,
                       .e_ehsize = sizeof head,
                       .e_shentsize = sizeof *heads,
                       .e_shnum = SECTIONS,
                       .e_shstrndx = NAMES};
    put(fd, &head, sizeof head);
    for (int i = 0; i < KINDS; i++)
        put(fd, contents[i].bytes, contents[i].used);
    put(fd, names, name_at);
    put(fd, heads, sizeof heads);
}

static uint64_t fill(int fd, const uint8_t *data, size_t size)
{
    static struct content contents[KINDS];
    uint64_t address = 0;
    for (int i = 0; i < KINDS; i++)
        contents[i].used = 0;
    memcpy(&address, data, size < 8 ? size : 8);
    for (size_t at = 8; at + 3 <= size;) {
        struct content *content = &contents[data[at] % KINDS];
        size_t len = data[at + 1] | (size_t)data[at + 2] << 8, room = SECTION_MOST - content->used;
        at += 3;
        len = len < size - at ? len : size - at;
        len = len < room ? len : room;
        memcpy(content->bytes + content->used, data + at, len);
        content->used += len;
        at += len;
    }
    write_elf(fd, contents);
    return address;
}

static void ask(struct tide_symbols *symbols, const char *path, uint64_t address, bool debug_info)
{
    struct tide_symbol_module module = {.path = path};
    struct tide_symbol_frame frames[TIDE_SYMBOL_FRAMES];
    size_t count = tide_symbols_resolve(symbols, &module, address, debug_info, frames);
    TIDE_CHECK(count, <=, (size_t)TIDE_SYMBOL_FRAMES);
    for (size_t i = 0; i < count; i++) {
        TIDE_CHECK(strlen(frames[i].function), <, (size_t)TIDE_SYMBOL_TEXT);
        TIDE_CHECK(strlen(frames[i].file), <, (size_t)TIDE_SYMBOL_TEXT);
        TIDE_CHECK(frames[i].line, >=, 0);
        TIDE_CHECK_TRUE(frames[i].inlined == (i + 1 < count));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void *demangler;
    if (!demangler) /* stays loaded from one input to the next */
        demangler = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    int fd = memfd_create("symbols", MFD_CLOEXEC);
    TIDE_CHECK(fd, >=, 0);
    uint64_t address = 0;
    if (size >= SELFMAG && !memcmp(data, ELFMAG, SELFMAG)) {
        put(fd, data, size);
        if (size >= offsetof(Elf64_Ehdr, e_entry) + 8)
            memcpy(&address, data + offsetof(Elf64_Ehdr, e_entry), 8);
    } else {
        address = fill(fd, data, size);
    }
    char path[48];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct tide_symbols *symbols = tide_symbols_new();
    TIDE_CHECK_TRUE(symbols != NULL);
    ask(symbols, path, address, false);
    ask(symbols, path, address, true);
    ask(symbols, path, address + 1, true);
    tide_symbols_free(symbols);
    close(fd);
    return 0;
}
