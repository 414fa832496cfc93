/*
 * symbol.h - from an address in an executable or library to function, file and line.
 *
 * tide_symbols_new -> tide_symbols_resolve() as often as wanted -> tide_symbols_free.
 *
 * A module is identified by its path and its build-id. It is looked for under the root of the process that
 * has it mapped (which may be in a container), among that process's mapped files (it may have been deleted),
 * and under its path here. A file with another build-id is another program and is not used. Debug information
 * comes from the file itself, else from a separate file under /usr/lib/debug (by build-id, or by
 * .gnu_debuglink). Without it, .symtab or .dynsym give the function.
 *
 * Files are not trusted. They are mapped, so one that is truncated while it is read causes SIGBUS, and libdw,
 * which reads them, is large. So a tracker does not call this in its own process but through symbol_server.h,
 * where memory and time are limited. Errors of libelf and libdw only mean that less is known.
 *
 * One thread.
 */
#ifndef TIDE_SYMBOL_H
#define TIDE_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TIDE_SYMBOL_FRAMES = 16, /* of one address: a function and those inlined there */
    TIDE_SYMBOL_TEXT = 2048, /* bytes of a name or path, with its NUL; longer ones are cut */
    TIDE_SYMBOL_BUILD_ID = 20,
    TIDE_SYMBOL_MODULES = 1024, /* held open at once */
};

struct tide_symbol_module {
    int64_t pid;         /* that has it mapped; 0: none that could be asked */
    uint64_t start, end; /* where it is mapped; 0: not known */
    const char *path;
    uint8_t build_id[TIDE_SYMBOL_BUILD_ID];
    uint32_t build_id_bytes; /* 0: none; any file at that path is accepted */
};

/* Innermost first. The last one is the function; those before it are inlined into it. Strings are borrowed
 * until the next call. */
struct tide_symbol_frame {
    const char *function; /* demangled if possible; "" if unknown */
    const char *file;     /* "" if unknown */
    int64_t line;         /* 0 if unknown */
    bool inlined;
};

struct tide_symbols;

/* NULL: out of memory. Caller frees with tide_symbols_free. */
struct tide_symbols *tide_symbols_new(void);
void tide_symbols_free(struct tide_symbols *symbols);

/* Looks up an address, in the module's own addresses. Without debug_info only symbol tables are used. Returns
 * the number of frames, 0 if nothing is known. */
size_t tide_symbols_resolve(struct tide_symbols *symbols, const struct tide_symbol_module *module,
                            uint64_t address, bool debug_info,
                            struct tide_symbol_frame ret_frames[TIDE_SYMBOL_FRAMES]);

#endif
