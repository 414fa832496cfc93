/* Why the hook cannot be preloaded into a program, as its file says. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "cli/preloading.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct program {
    Elf64_Ehdr header;
    Elf64_Phdr segments[2];
    char loader[64];
};

/* A 64-bit program with two segments, the second of which names the loader; NULL: none does. */
static struct program program_with(const char *loader)
{
    struct program p = {.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                                   .e_phoff = offsetof(struct program, segments),
                                   .e_phentsize = sizeof(Elf64_Phdr),
                                   .e_phnum = 2}};
    p.segments[0].p_type = p.segments[1].p_type = PT_LOAD;
    if (loader) {
        p.segments[1] = (Elf64_Phdr){.p_type = PT_INTERP,
                                     .p_offset = offsetof(struct program, loader),
                                     .p_filesz = strlen(loader) + 1};
        memcpy(p.loader, loader, strlen(loader) + 1);
    }
    return p;
}

/* What is said of a file with these bytes. */
static const char *said_of(const void *bytes, size_t size)
{
    char path[] = "/tmp/tidemark-program-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
    const char *obstacle = tide_preloading_obstacle(path);
    unlink(path);
    return obstacle;
}

static void a_program_of_glibc_has_no_obstacle(void **state)
{
    (void)state;
    static const char *const loaders[] = {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1",
                                          "/lib64/ld64.so.2", "ld-linux.so.3"};
    for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++) {
        struct program p = program_with(loaders[i]);
        assert_null(said_of(&p, sizeof p));
    }
}

static void other_c_libraries_static_and_small_programs_are_told_apart(void **state)
{
    (void)state;
    struct program musl = program_with("/lib/ld-musl-x86_64.so.1"), alone = program_with(NULL),
                   small = program_with("/lib/ld-linux.so.2");
    small.header.e_ident[EI_CLASS] = ELFCLASS32;
    assert_non_null(strstr(said_of(&musl, sizeof musl), "is not linked with glibc"));
    assert_non_null(strstr(said_of(&alone, sizeof alone), "is statically linked"));
    assert_non_null(strstr(said_of(&small, sizeof small), "is a 32-bit program"));
}

static void what_is_cut_off_or_no_program_has_no_obstacle(void **state)
{
    (void)state;
    struct program p = program_with("/lib/ld-musl-x86_64.so.1");
    assert_null(said_of("", 0));
    assert_null(said_of("#!/bin/sh\n", 10));
    assert_null(said_of(&p, sizeof p.header - 1));
    assert_null(said_of(&p, offsetof(struct program, segments) + sizeof(Elf64_Phdr) / 2));
    assert_null(said_of(&p, offsetof(struct program, loader)));
    p.segments[1].p_filesz = UINT64_MAX;
    assert_null(said_of(&p, sizeof p));
    p.segments[1].p_offset = UINT64_MAX / 2;
    p.segments[1].p_filesz = 5;
    assert_null(said_of(&p, sizeof p));
    p.header.e_phoff = UINT64_MAX;
    assert_null(said_of(&p, sizeof p));
    p.header.e_phnum = 0;
    assert_null(said_of(&p, sizeof p));
    assert_null(tide_preloading_obstacle("/no/such/program"));
    assert_null(tide_preloading_obstacle("/tmp"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_of_glibc_has_no_obstacle),
        cmocka_unit_test(other_c_libraries_static_and_small_programs_are_told_apart),
        cmocka_unit_test(what_is_cut_off_or_no_program_has_no_obstacle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
