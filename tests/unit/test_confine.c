/*
 * test_confine.c - a confined process can read files and cannot do anything to anybody else.
 */
#include "sense/confine.h"
#include "sanitized.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { DATA_BYTES = 256 << 20 };

/* Who runs the program may need what the filter refuses. */
static bool is_filtered(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
    return !is_slow();
#else
    return false;
#endif
}

/* Whether it is so in a process that is confined. */
static bool confined(bool (*is_so)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct tide_err err;
        _exit(tide_confine(DATA_BYTES, &err) != 0 ? 2 : is_so() ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 2);
    return WEXITSTATUS(status) == 1;
}

static bool reads_a_file(void)
{
    char byte;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    return map != MAP_FAILED && read(fd, &byte, 1) == 1 && *(char *)map == byte;
}

static bool has_little_memory(void)
{
    char *memory = malloc(DATA_BYTES / 4);
    if (memory)
        memset(memory, 1, DATA_BYTES / 4);
    return memory != NULL;
}

static bool has_much_memory(void)
{
    void *volatile memory = malloc(2 * (size_t)DATA_BYTES);
    return memory != NULL;
}

static bool is_refused(long result)
{
    return result < 0 && errno == ENOSYS;
}

static bool every_harm_is_refused(void)
{
    char *const nothing[] = {NULL};
    return is_refused(open("/dev/null", O_WRONLY)) && is_refused(open("/dev/null", O_RDWR)) &&
           is_refused(open("/tmp/test_confine", O_RDONLY | O_CREAT, 0600)) &&
           is_refused(open("/tmp", O_TMPFILE | O_RDWR, 0600)) && is_refused(write(1, "x", 1)) &&
           is_refused(unlink("/tmp/test_confine")) && is_refused(kill(getppid(), 0)) &&
           is_refused(socket(AF_INET, SOCK_STREAM, 0)) && is_refused(execve("/bin/true", nothing, nothing)) &&
           is_refused(fork()) &&
           mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

static void it_reads_files_and_has_memory(void **state)
{
    (void)state;
    if (getenv("TIDEMARK_VALGRIND")) /* which would be confined itself */
        skip();
    assert_true(confined(reads_a_file));
    assert_true(confined(has_little_memory));
}

static void its_memory_is_limited(void **state)
{
    (void)state;
    if (!is_filtered())
        skip();
    assert_false(confined(has_much_memory));
}

static void everything_else_is_refused(void **state)
{
    (void)state;
    if (!is_filtered())
        skip();
    assert_true(confined(every_harm_is_refused));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_files_and_has_memory),
        cmocka_unit_test(its_memory_is_limited),
        cmocka_unit_test(everything_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
