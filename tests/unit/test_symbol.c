/*
 * test_symbol.c - addresses of this very program become functions, files and lines; damaged files become
 * nothing worse than less knowledge.
 */
#include "sense/symbol.h"
#include "sense/symbol_server.h"
#include "sense/symbol_worker.h"

#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* --- addresses whose truth is known -------------------------------------------------------------------- */

static int line_of_plain, line_of_outer, line_of_inner;

static __attribute__((noinline, noclone)) uint64_t return_address(void)
{
    __asm__ volatile("" ::: "memory");
    return (uint64_t)(uintptr_t)__builtin_return_address(0);
}

static __attribute__((noinline, noclone)) uint64_t a_plain_function(void)
{
    line_of_plain = __LINE__ + 1;
    uint64_t at = return_address();
    __asm__ volatile("" ::: "memory");
    return at;
}

static inline __attribute__((always_inline)) uint64_t an_inlined_function(void)
{
    line_of_inner = __LINE__ + 1;
    uint64_t at = return_address();
    __asm__ volatile("" ::: "memory");
    return at;
}

static __attribute__((noinline, noclone)) uint64_t the_function_around(void)
{
    __asm__ volatile("" ::: "memory");
    line_of_outer = __LINE__ + 1;
    uint64_t at = an_inlined_function();
    __asm__ volatile("" ::: "memory");
    return at;
}

static int first_base(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uint64_t *)base = info->dlpi_addr;
    return 1;
}

static uint64_t base;
static char self[512];

static int set_up(void **state)
{
    (void)state;
    dl_iterate_phdr(first_base, &base);
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(len > 0);
    self[len] = '\0';
    return 0;
}

static struct tide_symbol_module own_module(void)
{
    return (struct tide_symbol_module){.pid = getpid(), .path = self};
}

static const char *ending(const char *text, const char *end)
{
    size_t len = strlen(text), want = strlen(end);
    return len >= want && strcmp(text + len - want, end) == 0 ? text : NULL;
}

/* --- tests --------------------------------------------------------------------------------------------- */

static void a_call_has_its_function_file_and_line(void **state)
{
    (void)state;
    struct tide_symbols *symbols = tide_symbols_new();
    struct tide_symbol_module module = own_module();
    struct tide_symbol_frame frames[TIDE_SYMBOL_FRAMES];
    size_t count = tide_symbols_resolve(symbols, &module, a_plain_function() - base - 1, true, frames);
    assert_int_equal(count, 1);
    assert_string_equal(frames[0].function, "a_plain_function");
    assert_non_null(ending(frames[0].file, "tests/unit/test_symbol.c"));
    assert_int_equal(frames[0].file[0], '/');
    assert_int_equal(frames[0].line, line_of_plain);
    assert_false(frames[0].inlined);
    tide_symbols_free(symbols);
}

static void what_was_inlined_is_a_frame_of_its_own(void **state)
{
    (void)state;
    struct tide_symbols *symbols = tide_symbols_new();
    struct tide_symbol_module module = own_module();
    struct tide_symbol_frame frames[TIDE_SYMBOL_FRAMES];
    size_t count = tide_symbols_resolve(symbols, &module, the_function_around() - base - 1, true, frames);
    assert_int_equal(count, 2);
    assert_string_equal(frames[0].function, "an_inlined_function");
    assert_int_equal(frames[0].line, line_of_inner);
    assert_true(frames[0].inlined);
    assert_string_equal(frames[1].function, "the_function_around");
    assert_non_null(ending(frames[1].file, "tests/unit/test_symbol.c"));
    assert_int_equal(frames[1].line, line_of_outer);
    assert_false(frames[1].inlined);
    tide_symbols_free(symbols);
}

static void without_debug_information_the_symbol_table_names_the_function(void **state)
{
    (void)state;
    struct tide_symbols *symbols = tide_symbols_new();
    struct tide_symbol_module module = own_module();
    struct tide_symbol_frame frames[TIDE_SYMBOL_FRAMES];
    size_t count = tide_symbols_resolve(symbols, &module, a_plain_function() - base - 1, false, frames);
    assert_int_equal(count, 1);
    assert_string_equal(frames[0].function, "a_plain_function");
    assert_string_equal(frames[0].file, "");
    assert_int_equal(frames[0].line, 0);
    tide_symbols_free(symbols);
}

static void the_c_library_and_the_loader_are_named_and_their_lines_left_alone(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int named_only;
    } files[] = {{"libc.so.6", 1}, {"ld-linux-x86-64.so.2", 1}, {"libcuda.so.1", 0}};
    char folder[] = "/tmp/test_symbol.XXXXXX", path[128];
    assert_non_null(mkdtemp(folder));
    struct tide_symbols *symbols = tide_symbols_new();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct tide_symbol_module module = {.path = path};
        struct tide_symbol_frame frames[TIDE_SYMBOL_FRAMES];
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        assert_int_equal(symlink(self, path), 0);
        assert_int_equal(tide_symbols_resolve(symbols, &module, a_plain_function() - base - 1, true, frames),
                         1);
        assert_string_equal(frames[0].function, "a_plain_function");
        assert_int_equal(frames[0].line, files[i].named_only ? 0 : line_of_plain);
        unlink(path);
    }
    tide_symbols_free(symbols);
    rmdir(folder);
}

static void an_address_outside_every_function_is_nothing(void **state)
{
    (void)state;
    struct tide_symbols *symbols = tide_symbols_new();
    struct tide_symbol_module module = own_module();
    struct tide_symbol_frame frames[TIDE_SYMBOL_FRAMES];
    assert_int_equal(tide_symbols_resolve(symbols, &module, 0, true, frames), 0);
    assert_int_equal(tide_symbols_resolve(symbols, &module, UINT64_MAX, true, frames), 0);
    assert_int_equal(tide_symbols_resolve(symbols, &module, UINT64_C(1) << 40, true, frames), 0);
    tide_symbols_free(symbols);
}

static void a_file_with_another_build_id_is_not_used(void **state)
{
    (void)state;
    struct tide_symbols *symbols = tide_symbols_new();
    struct tide_symbol_module module = own_module();
    struct tide_symbol_frame frames[TIDE_SYMBOL_FRAMES];
    uint8_t wrong[TIDE_SYMBOL_BUILD_ID] = {1, 2, 3};
    memcpy(module.build_id, wrong, sizeof wrong);
    module.build_id_bytes = sizeof wrong;
    assert_int_equal(tide_symbols_resolve(symbols, &module, a_plain_function() - base - 1, true, frames), 0);
    tide_symbols_free(symbols);
}

static void what_is_no_program_is_nothing(void **state)
{
    (void)state;
    struct tide_symbols *symbols = tide_symbols_new();
    struct tide_symbol_frame frames[TIDE_SYMBOL_FRAMES];
    static const char *const paths[] = {
        "", "[vdso]", "relative", "/", "/dev/zero", "/proc/self/status", "/no/such", "/etc/passwd"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct tide_symbol_module module = {.pid = getpid(), .start = 4096, .end = 8192, .path = paths[i]};
        assert_int_equal(tide_symbols_resolve(symbols, &module, 0x1000, true, frames), 0);
    }
    tide_symbols_free(symbols);
}

static void a_file_under_the_root_of_its_process_is_found(void **state)
{
    (void)state;
    /* A path that exists only in the other's eyes is /proc/PID/root/PATH; here both are the same. */
    struct tide_symbols *symbols = tide_symbols_new();
    struct tide_symbol_frame frames[TIDE_SYMBOL_FRAMES];
    struct tide_symbol_module module = own_module();
    module.pid = 0;
    assert_int_equal(tide_symbols_resolve(symbols, &module, a_plain_function() - base - 1, true, frames), 1);
    tide_symbols_free(symbols);
}

/* --- the server ---------------------------------------------------------------------------------------- */

static const char *own_program; /* argv[0]: under valgrind, /proc/self/exe is valgrind */
static char copy_path[64];

/* The first `bytes` bytes of this program; 0: all. Returns its size. */
static size_t copy_self(size_t bytes)
{
    snprintf(copy_path, sizeof copy_path, "/tmp/test_symbol.%d", (int)getpid());
    FILE *in = fopen(self, "r"), *out = fopen(copy_path, "w");
    assert_non_null(in);
    assert_non_null(out);
    static char buffer[1 << 16];
    size_t total = 0, got;
    while ((got = fread(buffer, 1, sizeof buffer, in)) > 0 && (bytes == 0 || total < bytes)) {
        got = bytes && got > bytes - total ? bytes - total : got;
        assert_int_equal(fwrite(buffer, 1, got, out), got);
        total += got;
    }
    fclose(in);
    assert_int_equal(fclose(out), 0);
    return total;
}

static struct tide_symbol_answer ask(struct tide_symbol_server *server, const char *path, uint64_t address,
                                     bool debug)
{
    struct tide_symbol_module module = {.pid = 0, .path = path};
    struct tide_symbol_answer answer;
    assert_int_equal(tide_symbol_server_ask(server, 77, &module, address, debug), 0);
    assert_int_equal(tide_symbol_server_hear(server, 30000, &answer), 1);
    assert_int_equal(answer.tag, 77);
    return answer;
}

static void the_server_answers_in_order(void **state)
{
    (void)state;
    struct tide_symbol_server *server;
    struct tide_err err;
    struct tide_symbol_module module = own_module();
    struct tide_symbol_answer answer;
    assert_int_equal(tide_symbol_server_new(own_program, &server, &err), 0);
    assert_int_equal(tide_symbol_server_hear(server, 0, &answer), 0);
    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(
            tide_symbol_server_ask(server, i, &module, i % 2 ? 0 : the_function_around() - base - 1, true),
            0);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(tide_symbol_server_hear(server, 30000, &answer), 1);
        assert_int_equal(answer.tag, i);
        assert_false(answer.crashed);
        assert_int_equal(answer.count, i % 2 ? 0 : 2);
        if (i % 2 == 0) {
            assert_string_equal(answer.frames[0].function, "an_inlined_function");
            assert_true(answer.frames[0].inlined);
            assert_string_equal(answer.frames[1].function, "the_function_around");
            assert_int_equal(answer.frames[1].line, line_of_outer);
        }
    }
    tide_symbol_server_free(server);
}

static void a_file_that_kills_its_reader_costs_one_answer(void **state)
{
    (void)state;
    struct tide_symbol_server *server;
    struct tide_err err;
    uint64_t address = a_plain_function() - base - 1;
    copy_self(0);
    assert_int_equal(tide_symbol_server_new(own_program, &server, &err), 0);
    struct tide_symbol_answer answer = ask(server, copy_path, address, false);
    assert_int_equal(answer.count, 1);
    /* The file is mapped by now; its debug information is looked at for the first time. */
    assert_int_equal(truncate(copy_path, 0), 0);
    answer = ask(server, copy_path, address, true);
    assert_true(answer.crashed);
    assert_int_equal(answer.count, 0);
    answer = ask(server, self, address, true);
    assert_false(answer.crashed);
    assert_string_equal(answer.frames[0].function, "a_plain_function");
    tide_symbol_server_free(server);
    unlink(copy_path);
}

static void only_the_question_it_died_of_is_lost(void **state)
{
    (void)state;
    struct tide_symbol_server *server;
    struct tide_err err;
    struct tide_symbol_module good = own_module(), bad = {.path = copy_path};
    struct tide_symbol_answer answer;
    uint64_t address = a_plain_function() - base - 1;
    copy_self(0);
    assert_int_equal(tide_symbol_server_new(own_program, &server, &err), 0);
    ask(server, copy_path, address, false);
    assert_int_equal(truncate(copy_path, 0), 0);
    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(tide_symbol_server_ask(server, i, i == 7 ? &bad : &good, address, true), 0);
    /* Answers are there when it is dead, and so are questions that it never read. */
    siginfo_t about;
    assert_int_equal(waitid(P_PID, (id_t)tide_symbol_server_pid(server), &about, WEXITED | WNOWAIT), 0);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(tide_symbol_server_hear(server, 30000, &answer), 1);
        assert_int_equal(answer.tag, i);
        assert_int_equal(answer.crashed, i == 7);
        assert_int_equal(answer.count, i == 7 ? 0 : 1);
    }
    tide_symbol_server_free(server);
    unlink(copy_path);
}

static void a_worker_that_is_killed_costs_no_answer(void **state)
{
    (void)state;
    struct tide_symbol_server *server;
    struct tide_err err;
    struct tide_symbol_module module = own_module();
    struct tide_symbol_answer answer;
    uint64_t address = a_plain_function() - base - 1;
    assert_int_equal(tide_symbol_server_new(own_program, &server, &err), 0);
    for (uint64_t i = 0; i < 4; i++) {
        pid_t worker = (pid_t)tide_symbol_server_pid(server);
        /* Stopped, it never reads the question. */
        assert_int_equal(kill(worker, SIGSTOP), 0);
        assert_int_equal(tide_symbol_server_ask(server, i, &module, address, true), 0);
        assert_int_equal(kill(worker, SIGKILL), 0);
        int heard;
        while ((heard = tide_symbol_server_hear(server, 30000, &answer)) == 0)
            assert_int_not_equal(tide_symbol_server_pid(server), 0);
        assert_int_equal(heard, 1);
        assert_int_equal(answer.tag, i);
        assert_false(answer.crashed);
        assert_int_equal(answer.count, 1);
    }
    tide_symbol_server_free(server);
}

static void truncated_and_scribbled_files_are_survived(void **state)
{
    (void)state;
    struct tide_symbol_server *server;
    struct tide_err err;
    uint64_t address = the_function_around() - base - 1;
    size_t whole = copy_self(0);
    assert_int_equal(tide_symbol_server_new(own_program, &server, &err), 0);
    unsigned random = 12345;
    for (int round = 0; round < 60; round++) {
        /* A new name each time: the server remembers files. */
        char path[96];
        copy_self(round % 2 ? whole : whole * (size_t)(round + 1) / 61);
        int fd = open(copy_path, O_WRONLY);
        for (int i = 0; round % 2 && i < 2000; i++) {
            unsigned char byte = (unsigned char)((random = random * 1103515245 + 12345) >> 16);
            off_t at = (off_t)((random >> 3) % whole);
            assert_int_equal(pwrite(fd, &byte, 1, at < 64 ? at + 64 : at),
                             1); /* still looks like an ELF file */
        }
        close(fd);
        snprintf(path, sizeof path, "%s.%d", copy_path, round);
        assert_int_equal(rename(copy_path, path), 0);
        ask(server, path, address, true);
        unlink(path);
    }
    assert_int_equal(ask(server, self, address, true).count, 2);
    tide_symbol_server_free(server);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], TIDE_SYMBOL_WORKER) == 0)
        return tide_symbol_worker_run();
    own_program = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_has_its_function_file_and_line),
        cmocka_unit_test(what_was_inlined_is_a_frame_of_its_own),
        cmocka_unit_test(without_debug_information_the_symbol_table_names_the_function),
        cmocka_unit_test(the_c_library_and_the_loader_are_named_and_their_lines_left_alone),
        cmocka_unit_test(an_address_outside_every_function_is_nothing),
        cmocka_unit_test(a_file_with_another_build_id_is_not_used),
        cmocka_unit_test(what_is_no_program_is_nothing),
        cmocka_unit_test(a_file_under_the_root_of_its_process_is_found),
        cmocka_unit_test(the_server_answers_in_order),
        cmocka_unit_test(a_file_that_kills_its_reader_costs_one_answer),
        cmocka_unit_test(only_the_question_it_died_of_is_lost),
        cmocka_unit_test(a_worker_that_is_killed_costs_no_answer),
        cmocka_unit_test(truncated_and_scribbled_files_are_survived),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
