/*
 * target.c - programs that the hook is preloaded into, one per mode: target MODE [ARGUMENT...].
 *
 * Each ends by itself with 0, having done what its comment says; the test reads the table it left. Functions
 * whose names the tests look for are exported (-rdynamic) and not inlined.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define VISIBLE __attribute__((noinline, visibility("default")))
#define MIB     ((size_t)1 << 20)

/* What the compiler must not prove unused. */
static void *volatile kept;

static void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "target: %s: %s\n", what, strerror(errno));
        _exit(3);
    }
}

VISIBLE void *hold(size_t bytes)
{
    void *p = malloc(bytes);
    check(p != NULL, "malloc");
    kept = p;
    return p;
}

/* One block of 512 MiB, never touched. */
static void big(char **arguments)
{
    (void)arguments;
    hold(512 * MIB);
}

/* COUNT blocks of SIZE bytes live, as many again freed. */
VISIBLE void hold_many(long count, size_t size)
{
    for (long i = 0; i < count; i++) {
        kept = malloc(size);
        void *p = malloc(size);
        kept = p;
        free(p);
    }
}

static void many(char **arguments)
{
    hold_many(atol(arguments[0]), (size_t)atol(arguments[1]));
}

/* 4 MB each of blocks of several sizes, live, from a function each, in turns; as many again freed. */
#define HOLDER(name, size)                                                                                   \
    VISIBLE void *name(void)                                                                                 \
    {                                                                                                        \
        void *p = malloc(size);                                                                              \
        check(p != NULL, "malloc");                                                                          \
        return p;                                                                                            \
    }
HOLDER(hold_16, 16)
HOLDER(hold_100, 100)
HOLDER(hold_1000, 1000)
HOLDER(hold_10000, 10000)
HOLDER(hold_100000, 100000)

static void mixed(char **arguments)
{
    (void)arguments;
    static const struct {
        void *(*hold)(void);
        int every; /* in units of the smallest */
    } sorts[] = {{hold_16, 1}, {hold_100, 6}, {hold_1000, 62}, {hold_10000, 625}, {hold_100000, 6250}};
    for (int i = 0; i < 250000; i++)
        for (size_t k = 0; k < sizeof sorts / sizeof *sorts; k++)
            if (i % sorts[k].every == 0) {
                kept = sorts[k].hold();
                free(sorts[k].hold());
            }
}

/* Every way to get 1 MiB, held; then every way, and freed. */
VISIBLE void *get(int way)
{
    void *p = NULL;
    switch (way) {
    case 0:
        return malloc(MIB);
    case 1:
        return calloc(1024, 1024);
    case 2:
        return realloc(NULL, MIB);
    case 3:
        return realloc(malloc(200), MIB);
    case 4:
        return reallocarray(NULL, 1024, 1024);
    case 5:
        return posix_memalign(&p, 4096, MIB) ? NULL : p;
    case 6:
        return aligned_alloc(64, MIB);
    case 7:
        return memalign(64, MIB);
    case 8:
        return valloc(MIB);
    case 9:
        return pvalloc(MIB);
    case 10: /* shrunk in place */
        return realloc(malloc(2 * MIB), MIB);
    default:
        return NULL;
    }
}

static void ways(char **arguments)
{
    (void)arguments;
    for (int way = 0; way <= 10; way++) {
        void *p = get(way);
        check(p != NULL, "get");
        memset(p, 1, MIB);
        kept = p;
        p = get(way);
        kept = p;
        free(p);
    }
    void *p = get(0);
    kept = p;
    volatile size_t huge = SIZE_MAX / 2;
    check(realloc(p, huge) == NULL, "a realloc that cannot be"); /* p stays */
}

VISIBLE void *map(size_t bytes, int protection, int flags)
{
    void *p = mmap(NULL, bytes, protection, flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(p != MAP_FAILED, "mmap");
    return p;
}

/* The child frees what it inherited and holds 3 MiB of its own; the parent holds 5. */
static void forked(char **arguments)
{
    (void)arguments;
    void *inherited = hold(2 * MIB);
    kept = inherited;
    for (int i = 0; i < 100; i++)
        kept = malloc(100000);
    pid_t child = fork();
    check(child >= 0, "fork");
    if (!child) {
        free(inherited);
        hold(3 * MIB);
        _exit(0);
    }
    int status;
    check(waitpid(child, &status, 0) == child && !status, "the child");
    free(inherited);
    hold(5 * MIB);
}

/* Holds 2 MiB, becomes itself in another mode that holds 512. */
static void execed(char **arguments)
{
    hold(2 * MIB);
    char *argv[] = {"target", "big", NULL};
    execv(arguments[-2], argv);
    check(false, "exec");
}

/* Threads that allocate, hand blocks to each other and free them, while others fork. */
enum { HANDED = 256 };
static void *_Atomic handed[HANDED];

static void *juggle(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument * 2654435761u + 1;
    for (int i = 0; i < 30000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        size_t bytes = random % 64 ? random % 3000 : 150000 + random % 100000;
        void *p = random & 4096 ? malloc(bytes) : calloc(1, bytes);
        if (random & 8192)
            p = realloc(p, bytes / 2 + 1);
        free(atomic_exchange(&handed[random >> 32 & (HANDED - 1)], p));
    }
    return NULL;
}

static void threads(char **arguments)
{
    pthread_t workers[8];
    int forks = atoi(arguments[0]);
    for (uintptr_t i = 0; i < 8; i++)
        check(!pthread_create(&workers[i], NULL, juggle, (void *)(i + 1)), "thread");
    for (int i = 0; i < forks; i++) {
        pid_t child = fork();
        check(child >= 0, "fork");
        if (!child) {
            for (int j = 0; j < 100; j++)
                free(malloc(200000));
            juggle((void *)77);
            _exit(0);
        }
        int status;
        check(waitpid(child, &status, 0) == child && !status, "the child");
    }
    for (int i = 0; i < 8; i++)
        pthread_join(workers[i], NULL);
    for (int i = 0; i < HANDED; i++)
        free(handed[i]);
}

/* A timer's handler maps and unmaps (which is allowed in a handler), while the program allocates and frees
 * what the hook records. Ends after 200 signals. */
static volatile int signals_seen;

static void on_alarm(int number)
{
    (void)number;
    void *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED)
        munmap(p, MIB);
    signals_seen++;
}

static void interrupted(char **arguments)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    stack_t other = {.ss_sp = map(MIB, PROT_READ | PROT_WRITE, 0), .ss_size = MIB};
    if (!strcmp(arguments[0], "alternative")) {
        check(!sigaltstack(&other, NULL), "sigaltstack");
        action.sa_flags |= SA_ONSTACK;
    }
    check(!sigaction(SIGALRM, &action, NULL), "sigaction");
    struct itimerval often = {.it_interval.tv_usec = 200, .it_value.tv_usec = 200};
    check(!setitimer(ITIMER_REAL, &often, NULL), "setitimer");
    while (signals_seen < 200) {
        void *p = malloc(200000);
        kept = p;
        free(p);
    }
    often.it_value.tv_usec = often.it_interval.tv_usec = 0;
    setitimer(ITIMER_REAL, &often, NULL);
}

/* A handler allocates while the program is outside of malloc: the stack runs through the signal frame. */
VISIBLE void allocate_in_handler(int number)
{
    (void)number;
    kept = malloc(3 * MIB);
}

VISIBLE void raise_here(void)
{
    raise(SIGUSR1);
    __asm__ volatile("" ::: "memory");
}

static void handled(char **arguments)
{
    struct sigaction action = {.sa_handler = allocate_in_handler};
    size_t frame = getauxval(AT_MINSIGSTKSZ);
    stack_t other = {.ss_size = strcmp(arguments[0], "small") ? MIB : (frame ? frame : 4096) + 4096};
    if (strcmp(arguments[0], "own") != 0) {
        other.ss_sp = (char *)map(MIB + 4096, PROT_NONE, 0) + 4096; /* nothing below it may be touched */
        check(!mprotect(other.ss_sp, MIB, PROT_READ | PROT_WRITE), "mprotect");
        check(!sigaltstack(&other, NULL), "sigaltstack");
        action.sa_flags |= SA_ONSTACK;
    }
    free(malloc(MIB)); /* the linker needs more stack for the first call */
    check(!sigaction(SIGUSR1, &action, NULL), "sigaction");
    raise_here();
}

/* A handler that jumps out of whatever it interrupted, the recorder included. Only mappings: jumping out of
 * the C library's malloc would break the program without us. */
static sigjmp_buf back;

static void jump_back(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

static void jumping(char **arguments)
{
    (void)arguments;
    struct sigaction action = {.sa_handler = jump_back, .sa_flags = SA_NODEFER};
    check(!sigaction(SIGALRM, &action, NULL), "sigaction");
    static volatile int jumps;
    struct itimerval often = {.it_interval.tv_usec = 150, .it_value.tv_usec = 150};
    check(!setitimer(ITIMER_REAL, &often, NULL), "setitimer");
    while (sigsetjmp(back, 1))
        if (++jumps == 300)
            break;
    while (jumps < 300) {
        void *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p != MAP_FAILED)
            munmap(p, MIB);
    }
    often.it_value.tv_usec = often.it_interval.tv_usec = 0;
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 1000; i++)
        free(hold(200000));
}

/* Allocations in the destructors of thread-specific data, in atexit handlers and in constructors. */
static pthread_key_t key;

static void destroy(void *value)
{
    free(value);
    free(hold(200000));
    kept = malloc(100);
}

static void *end_with_data(void *argument)
{
    (void)argument;
    pthread_setspecific(key, hold(300000));
    return NULL;
}

static void at_the_end(void)
{
    hold(7 * MIB);
}

static __attribute__((constructor)) void at_the_beginning(void)
{
    kept = malloc(150000);
    free(kept);
    kept = malloc(6 * MIB);
}

static void ends(char **arguments)
{
    (void)arguments;
    check(!pthread_key_create(&key, destroy) && !atexit(at_the_end), "key");
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        check(!pthread_create(&thread, NULL, end_with_data, NULL), "thread");
        pthread_join(thread, NULL);
    }
}

/* Loads LIBRARY, lets its function `plugin_hold` hold 2 MiB, unloads it, 20 times. */
static void loading(char **arguments)
{
    for (int i = 0; i < 20; i++) {
        void *library = dlopen(arguments[0], RTLD_NOW);
        if (!library)
            fprintf(stderr, "%s\n", dlerror());
        check(library != NULL, "dlopen");
        void *(*plugin_hold)(size_t) = (void *(*)(size_t))dlsym(library, "plugin_hold");
        check(plugin_hold && plugin_hold(2 * MIB), "plugin");
        check(!dlclose(library), "dlclose");
    }
}

static void say_resident(void)
{
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    check(status != NULL, "status");
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, "RssAnon:", 8)) /* code and tables are files, and shared */
            fputs(line, stdout);
    fclose(status);
}

/* Samples for longer than the hook lets pass between two counts of its own memory. */
static void be_counted(void)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        void *volatile block = malloc(MIB); /* or the compiler leaves both out */
        free(block);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < 400);
}

/* COUNT live blocks of SIZE bytes, whose first byte is written. Says what is resident. */
static void heap(char **arguments)
{
    long count = atol(arguments[0]);
    size_t size = (size_t)atol(arguments[1]);
    for (long i = 0; i < count; i++)
        *(char *)hold(size) = 1;
    be_counted();
    say_resident();
}

/* More live large blocks than the map of pointers holds, then all freed. */
static void flood(char **arguments)
{
    long count = atol(arguments[0]);
    void **all = malloc((size_t)count * sizeof *all);
    check(all != NULL, "malloc");
    for (long i = 0; i < count; i++)
        all[i] = malloc(256); /* all exact, with an interval of 1024 */
    say_resident();
    for (long i = 0; i < count; i++)
        free(all[i]);
    for (int i = 0; i < 100; i++)
        hold(MIB);
}

/* More stacks than the table has sites: 2^17 ways down a binary tree of calls. */
VISIBLE void left(unsigned path, int depth);
VISIBLE void right(unsigned path, int depth)
{
    if (!depth)
        kept = malloc(500);
    else if (path & 1)
        left(path >> 1, depth - 1);
    else
        right(path >> 1, depth - 1);
    __asm__ volatile("" ::: "memory");
}

VISIBLE void left(unsigned path, int depth)
{
    if (!depth)
        kept = malloc(1000);
    else if (path & 1)
        left(path >> 1, depth - 1);
    else
        right(path >> 1, depth - 1);
    __asm__ volatile("" ::: "memory");
}

static void stacks(char **arguments)
{
    (void)arguments;
    for (unsigned path = 0; path < 1u << 17; path++)
        left(path, 17);
    hold(9 * MIB);
}

/* errno survives; sizes of nothing and too much. */
static void odd(char **arguments)
{
    (void)arguments;
    errno = 42;
    void *p = hold(300000);
    check(errno == 42, "errno after malloc");
    free(p);
    check(errno == 42, "errno after free");
    free(NULL);
    free(malloc(0));
    kept = realloc(hold(400000), 0);
    volatile size_t huge = SIZE_MAX / 2;
    kept = malloc(huge);
    check(kept == NULL, "too much");
    kept = calloc(huge, 4);
    check(kept == NULL, "too much, zeroed");
    check(reallocarray(NULL, huge, 4) == NULL && errno == ENOMEM, "reallocarray");
    void *none = NULL;
    check(posix_memalign(&none, 3, 100) == EINVAL && !none, "posix_memalign");
    check(malloc_usable_size(hold(250000)) >= 250000, "malloc_usable_size");
}

static const struct {
    const char *name;
    void (*run)(char **arguments);
    int needs;
} modes[] = {
    {"big", big, 0},
    {"many", many, 2},
    {"ways", ways, 0},
    {"forked", forked, 0},
    {"execed", execed, 0},
    {"threads", threads, 1},
    {"interrupted", interrupted, 1},
    {"handled", handled, 1},
    {"jumping", jumping, 0},
    {"ends", ends, 0},
    {"loading", loading, 1},
    {"flood", flood, 1},
    {"heap", heap, 2},
    {"stacks", stacks, 0},
    {"odd", odd, 0},
    {"mixed", mixed, 0},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name) && argc - 2 >= modes[i].needs) {
            modes[i].run(argv + 2);
            return 0;
        }
    fprintf(stderr, "target: no such mode\n");
    return 2;
}
