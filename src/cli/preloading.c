#include "cli/preloading.h"

#include "base/infile.h"
#include "base/text.h"
#include "channel/heap.h"
#include "cli/spawn.h"

#include <elf.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define HOOK_NAME "libtidemark-hook.so"

static int find_hook(char out[PATH_MAX], struct tide_err *err)
{
    const char *given = secure_getenv("TIDEMARK_HOOK");
    char self[PATH_MAX];
    static const char *const places[] = {"", "../lib/"};

    if (given && given[0]) {
        if (given[0] == '/' && access(given, R_OK) == 0 && strlen(given) < PATH_MAX) {
            memcpy(out, given, strlen(given) + 1);
            return 0;
        }
        return tide_err_set(
            err, "--heap: TIDEMARK_HOOK is '%s', which is not the absolute path of a readable file",
            TIDE_SHOWN(given, 256));
    }
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        char path[PATH_MAX + 64];
        snprintf(path, sizeof path, "%.*s/%s" HOOK_NAME, (int)(slash - self), self, places[i]);
        if (realpath(path, out) && access(out, R_OK) == 0)
            return 0;
    }
    tide_err_set(err,
                 "--heap: " HOOK_NAME " is neither beside this program nor in the lib directory next to it");
    return tide_err_hint(err, "give its path: TIDEMARK_HOOK=/path/to/" HOOK_NAME);
}

int tide_preloading_init(struct tide_preloading *preload, int64_t interval_bytes, bool python_objects,
                         bool no_census, struct tide_err *err)
{
    char hook[PATH_MAX];
    const char *before = getenv("LD_PRELOAD"), *asan = getenv("ASAN_OPTIONS");

    *preload = (struct tide_preloading){{NULL}};
    if (find_hook(hook, err) != 0)
        return -1;
    if (strpbrk(hook, ": ")) { /* the loader splits the list there and has no quoting */
        tide_err_set(err, "--heap: '%s' cannot be preloaded: its path has a space or a colon in it",
                     TIDE_SHOWN(hook, 256));
        return tide_err_hint(err, "copy it elsewhere and give its path in TIDEMARK_HOOK");
    }
    if (asprintf(&preload->settings[0], "LD_PRELOAD=%s%s%s", hook, before && before[0] ? ":" : "",
                 before ? before : "") < 0)
        preload->settings[0] = NULL;
    if (asprintf(&preload->settings[1], TIDE_HEAP_ENV "=%" PRId64, interval_bytes) < 0)
        preload->settings[1] = NULL;
    if (asprintf(&preload->settings[2], "ASAN_OPTIONS=%s%sverify_asan_link_order=0", asan ? asan : "",
                 asan && asan[0] ? ":" : "") < 0)
        preload->settings[2] = NULL;
    size_t count = 3;
    if (python_objects)
        preload->settings[count++] = strdup(TIDE_HEAP_OBJECTS_ENV "=1");
    if (no_census)
        preload->settings[count++] = strdup(TIDE_HEAP_NO_CENSUS_ENV "=1");
    while (count && preload->settings[count - 1])
        count--;
    if (!count)
        return 0;
    tide_preloading_release(preload);
    return tide_err_set(err, "not enough memory");
}

void tide_preloading_release(struct tide_preloading *preload)
{
    for (size_t i = 0; i < TIDE_PRELOADING_SETTINGS; i++) {
        free(preload->settings[i]);
        preload->settings[i] = NULL;
    }
}

/* Checks which dynamic loader the program names: glibc's is ld-linux*.so or, on some machines, ld64.so. */
static const char *loader_obstacle(int fd, const Elf64_Phdr *segment)
{
    char loader[PATH_MAX];
    ssize_t len = segment->p_filesz < sizeof loader
                      ? pread(fd, loader, (size_t)segment->p_filesz, (off_t)segment->p_offset)
                      : -1;

    if (len <= 0)
        return NULL;
    loader[len] = '\0';
    const char *name = tide_text_last_part(loader);
    if (strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld64", 4) == 0)
        return NULL;
    return "is not linked with glibc, which the hook needs: run it without --heap";
}

/* Returns what in the program's own file prevents preloading; NULL: nothing, or it is not an ELF program. */
static const char *file_obstacle(int fd)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;

    if (pread(fd, &header, sizeof header, 0) != sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return NULL;
    if (header.e_ident[EI_CLASS] != ELFCLASS64)
        return "is a 32-bit program, and the hook is for 64 bits: build it for 64 bits";
    if (header.e_phentsize != sizeof segment || header.e_phnum == 0)
        return NULL;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, at) != sizeof segment)
            return NULL;
        if (segment.p_type == PT_INTERP)
            return loader_obstacle(fd, &segment);
    }
    return "is statically linked, so that nothing can be preloaded into it: link it dynamically, or ask "
           "its runtime's own profiler, such as Go's pprof";
}

/* True if the loader will consider the program privileged: it has more rights than its user. */
static bool has_privileges(int fd, const struct stat *about)
{
    char capability[64];

    return (about->st_mode & S_ISUID && about->st_uid != geteuid()) ||
           (about->st_mode & S_ISGID && about->st_gid != getegid()) ||
           (geteuid() != 0 && fgetxattr(fd, "security.capability", capability, sizeof capability) > 0);
}

const char *tide_preloading_obstacle(const char *program)
{
    char path[PATH_MAX];
    struct stat about;
    int fd = tide_spawn_find(program, X_OK, path) ? tide_infile_open(path, &about) : -1;
    if (fd < 0)
        return NULL;
    const char *obstacle = file_obstacle(fd);
    if (!obstacle && has_privileges(fd, &about))
        obstacle = "runs with privileges of its own (setuid), so that the loader ignores what is preloaded: "
                   "run a copy without them";
    close(fd);
    return obstacle;
}

bool tide_preloading_is_useless(const struct tide_answer *answer, char *out, size_t size)
{
    char program[PATH_MAX];
    if (answer->assessment->count == 0)
        return false;
    const struct tide_judged *worst = &answer->assessment->judged[0];
    const struct tide_history_process *p =
        tide_history_process(answer->history, worst->process > 0 ? worst->process : worst->member);
    if (!p)
        return false;
    snprintf(program, sizeof program, "%.*s", (int)strcspn(p->row.command, " "), p->row.command);
    const char *obstacle = tide_preloading_obstacle(program);
    if (obstacle)
        snprintf(out, size, "'%s' %s", TIDE_SHOWN(program, 64), obstacle);
    return obstacle != NULL;
}
