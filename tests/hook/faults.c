/*
 * faults.c - allocation at the moments where interposers deadlock or crash: faults MODE [ARGUMENT].
 *
 * Each mode does what its comment says and ends by itself with 0; a test runs it many times with the hook
 * preloaded and every allocation recorded. What a mode does is allowed: it ends with 0 without the hook too.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { WORKERS = 4 };

extern char **environ;
static void *volatile kept; /* what the compiler must not prove unused */
static atomic_bool stop;
static const char *self;

static void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "faults: %s: %s\n", what, strerror(errno));
        _exit(3);
    }
}

/* A block of each sort: sampled, exact, zeroed, moved, mapped. All are freed. */
static void churn(unsigned n)
{
    void *small = malloc(16 + n % 900), *large = malloc(200000 + n % 4096), *zeroed = calloc(3, 100);
    check(small && large && zeroed, "malloc");
    kept = large;
    small = realloc(small, 2000 + n % 100);
    void *mapped = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(small && mapped != MAP_FAILED, "realloc or mmap");
    munmap(mapped, 65536);
    free(zeroed);
    free(large);
    free(small);
}

static void *churn_until_stopped(void *argument)
{
    for (unsigned n = (unsigned)(uintptr_t)argument; !atomic_load(&stop); n++)
        churn(n);
    return NULL;
}

static void start(pthread_t *threads, int count, void *(*work)(void *))
{
    for (int i = 0; i < count; i++)
        check(!pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i * 1000 + 1)), "thread");
}

static void join(pthread_t *threads, int count)
{
    atomic_store(&stop, true);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void await(pid_t child)
{
    int status;
    check(child > 0 && waitpid(child, &status, 0) == child && !status, "a child");
}

/* A thread whose first allocation is the C library's, under the thread's own lock: Java and Rust begin so. */
static void *ask_first(void *argument)
{
    pthread_attr_t attributes;
    check(!pthread_getattr_np(pthread_self(), &attributes), "pthread_getattr_np");
    pthread_attr_destroy(&attributes);
    churn((unsigned)(uintptr_t)argument);
    return NULL;
}

static void attributes(const char *argument)
{
    (void)argument;
    for (int i = 0; i < 50; i++) {
        pthread_t threads[WORKERS];
        start(threads, WORKERS, ask_first);
        join(threads, WORKERS);
    }
}

/* Handlers that allocate. What they interrupt is a computation or a mapping, never malloc itself, which may
 * not be entered twice; other threads are in malloc all the time. */
static volatile int signals_seen;

static void allocate_on_signal(int number)
{
    (void)number;
    int before = errno;
    churn((unsigned)signals_seen);
    signals_seen++;
    errno = before;
}

static void handlers(const char *argument)
{
    (void)argument;
    pthread_t threads[WORKERS];
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    start(threads, 2, churn_until_stopped);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    struct sigaction action = {.sa_handler = allocate_on_signal, .sa_flags = SA_RESTART};
    check(!sigaction(SIGALRM, &action, NULL), "sigaction");
    struct itimerval often = {.it_interval.tv_usec = 100, .it_value.tv_usec = 100};
    check(!setitimer(ITIMER_REAL, &often, NULL), "setitimer");
    while (signals_seen < 100) {
        void *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        check(mapped != MAP_FAILED, "mmap");
        munmap(mapped, 1 << 20);
    }
    often.it_value.tv_usec = often.it_interval.tv_usec = 0;
    setitimer(ITIMER_REAL, &often, NULL);
    join(threads, 2);
}

/* Destructors of thread-specific data that allocate and set the data again, as often as they are called,
 * after those of thread_local variables. */
static pthread_key_t key;

static void destroy(void *value)
{
    free(value);
    churn(7);
    pthread_setspecific(key, malloc(300)); /* the last of these is lost: the C library gives up */
}

static void *end_with_data(void *argument)
{
    extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
    extern void *__dso_handle;
    __cxa_thread_atexit_impl(free, malloc(500), &__dso_handle);
    __cxa_thread_atexit_impl(free, malloc(250000), &__dso_handle);
    pthread_setspecific(key, malloc(200000));
    if ((uintptr_t)argument & 1)
        pthread_exit(NULL);
    return NULL;
}

static void destructors(const char *argument)
{
    (void)argument;
    check(!pthread_key_create(&key, destroy), "key");
    for (int i = 0; i < 50; i++) {
        pthread_t threads[WORKERS];
        start(threads, WORKERS, end_with_data);
        join(threads, WORKERS);
    }
}

/* Before anybody's constructor, and in all of ours: a function chosen while the program is relocated, the
 * array that runs before the libraries' constructors, the first constructors and the last destructors. */
static int chosen_one(void)
{
    return 1;
}

static __attribute__((used)) int (*choose(void))(void)
{
    void *p = malloc(300000);
    kept = realloc(p, 100);
    free(kept);
    kept = calloc(1, 50);
    return chosen_one;
}

static int chosen(void) __attribute__((ifunc("choose")));

static void before_all(int argc, char **argv, char **env)
{
    (void)argc, (void)argv, (void)env;
    churn(1);
    kept = malloc(150000);
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **,
                                                                            char **) = before_all;

static __attribute__((constructor(102))) void early(void)
{
    churn(2);
}

static __attribute__((destructor(102))) void late(void)
{
    churn(3);
}

static void before(const char *argument)
{
    (void)argument;
    check(chosen() == 1, "ifunc");
}

/* Exit while other threads allocate, through handlers and destructors that do. */
static void at_exit(void)
{
    churn(4);
    kept = malloc(1000);
    for (int i = 0; i < 100; i++)
        churn((unsigned)i);
}

static void exits(const char *argument)
{
    (void)argument;
    pthread_t threads[WORKERS];
    start(threads, WORKERS, churn_until_stopped);
    for (int i = 0; i < 20; i++)
        check(!atexit(at_exit), "atexit");
    churn(5);
    exit(0);
}

/* Forks from several threads at once while others allocate, with handlers that allocate on both sides; the
 * child allocates, makes threads and forks again. */
static void at_fork(void)
{
    churn(6);
}

static void *fork_often(void *argument)
{
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        check(child >= 0, "fork");
        if (!child) {
            for (unsigned n = 0; n < 20; n++)
                churn(n);
            pthread_t thread;
            check(!pthread_create(&thread, NULL, ask_first, NULL), "a thread of a child");
            pthread_join(thread, NULL);
            pid_t grandchild = fork();
            if (!grandchild) {
                churn(9);
                _exit(0);
            }
            await(grandchild);
            _exit(0);
        }
        await(child);
    }
    return argument;
}

static void forks(const char *argument)
{
    (void)argument;
    pthread_t threads[2 * WORKERS];
    check(!pthread_atfork(at_fork, at_fork, at_fork), "pthread_atfork");
    start(threads, 2, churn_until_stopped);
    start(threads + 2, 2, fork_often);
    fork_often(NULL);
    pthread_join(threads[2], NULL);
    pthread_join(threads[3], NULL);
    join(threads, 2);
}

/* Children that share the parent's memory until they are another program, while others allocate. */
static void spawns(const char *argument)
{
    (void)argument;
    pthread_t threads[WORKERS];
    start(threads, WORKERS, churn_until_stopped);
    for (int i = 0; i < 5; i++) {
        char *argv[] = {(char *)self, (char *)"nothing", NULL};
        pid_t child;
        check(!posix_spawn(&child, self, NULL, NULL, argv, environ), "posix_spawn");
        await(child);
        child = vfork();
        if (!child) {
            execv(self, argv);
            _exit(9);
        }
        await(child);
        FILE *pipe = popen("true", "r");
        check(pipe && !pclose(pipe), "popen");
        check(!system("true"), "system");
    }
    join(threads, WORKERS);
}

/* Libraries come and go on two threads while others allocate, in and out of them. */
static const char *plugin;

static void *load_often(void *argument)
{
    for (int i = 0; i < 40; i++) {
        void *library = dlopen(plugin, RTLD_NOW | (i & 1 ? RTLD_LOCAL : RTLD_GLOBAL));
        check(library != NULL, plugin);
        void *(*plugin_churn)(size_t) = (void *(*)(size_t))dlsym(library, "plugin_churn");
        check(plugin_churn && plugin_churn(200000), "plugin");
        check(!dlclose(library), "dlclose");
    }
    return argument;
}

static void loads(const char *argument)
{
    pthread_t threads[WORKERS + 2];
    plugin = argument;
    start(threads, WORKERS, churn_until_stopped);
    start(threads + WORKERS, 2, load_often);
    pthread_join(threads[WORKERS], NULL);
    pthread_join(threads[WORKERS + 1], NULL);
    join(threads, WORKERS);
}

/* Thousands of threads that hardly live, on the smallest stacks there are. */
static void *churn_once(void *argument)
{
    churn((unsigned)(uintptr_t)argument);
    return NULL;
}

static void threads(const char *argument)
{
    (void)argument;
    pthread_attr_t small;
    pthread_attr_init(&small);
    check(!pthread_attr_setstacksize(&small, (size_t)sysconf(_SC_THREAD_STACK_MIN)), "the smallest stack");
    for (int i = 0; i < 250; i++) {
        pthread_t made[8];
        for (int j = 0; j < 8; j++)
            check(!pthread_create(&made[j], j & 1 ? &small : NULL, churn_once, (void *)(uintptr_t)i),
                  "thread");
        for (int j = 0; j < 8; j++)
            pthread_join(made[j], NULL);
    }
}

/* Becomes itself again and again while other threads allocate. */
static void execs(const char *argument)
{
    static pthread_t threads[WORKERS];
    int left = atoi(argument);
    if (!left)
        return;
    start(threads, WORKERS, churn_until_stopped);
    for (unsigned n = 0; n < 50; n++)
        churn(n);
    char next[16];
    snprintf(next, sizeof next, "%d", left - 1);
    execl(self, self, "execs", next, (char *)NULL);
    check(false, "exec");
}

/* Threads that are cancelled wherever they wait, with handlers that free. */
static void *churn_and_wait(void *argument)
{
    void *held = malloc(300000);
    pthread_cleanup_push(free, held);
    for (;;) {
        churn((unsigned)(uintptr_t)argument);
        pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static void cancels(const char *argument)
{
    (void)argument;
    for (int i = 0; i < 30; i++) {
        pthread_t made[WORKERS];
        start(made, WORKERS, churn_and_wait);
        churn((unsigned)i);
        for (int j = 0; j < WORKERS; j++)
            check(!pthread_cancel(made[j]), "cancel");
        for (int j = 0; j < WORKERS; j++)
            pthread_join(made[j], NULL);
    }
}

/* Stacks of the program's own making, switched between in the middle of everything. */
static ucontext_t home, away[WORKERS];

static void wander(int n)
{
    for (int i = 0; i < 50; i++) {
        churn((unsigned)(n + i));
        check(!swapcontext(&away[n], &home), "swapcontext");
    }
}

/* The page above the stack is not there: a walk that runs over the end is a crash. */
static void prepare(int n)
{
    enum { BYTES = 65536 };
    char *stack = mmap(NULL, BYTES + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(stack != MAP_FAILED && !munmap(stack + BYTES, 4096), "stack");
    check(!getcontext(&away[n]), "getcontext");
    away[n].uc_stack.ss_sp = stack;
    away[n].uc_stack.ss_size = BYTES;
    away[n].uc_link = &home;
    makecontext(&away[n], (void (*)(void))wander, 1, n);
}

static void coroutines(const char *argument)
{
    (void)argument;
    for (int n = 0; n < WORKERS; n++)
        prepare(n);
    for (int i = 0; i < 50 * WORKERS; i++)
        check(!swapcontext(&home, &away[i % WORKERS]), "swapcontext");
}

/* No descriptor may be opened, in the program and in its child, whose table would need one. */
static void no_descriptors(const char *argument)
{
    (void)argument;
    struct rlimit none = {0, 0};
    check(!setrlimit(RLIMIT_NOFILE, &none), "setrlimit");
    churn(1);
    pid_t child = fork();
    if (!child) {
        for (unsigned n = 0; n < 100; n++)
            churn(n);
        _exit(0);
    }
    await(child);
}

/* A mapping goes, one instruction after another, and a handler frees a block at every STRIDE-th of them, from
 * each of the first STRIDE on: whatever the hook is at then, all must be gone. */
#ifdef __x86_64__
enum { STRIDE = 60, BLOCKS = 14 };
static struct {
    int step, next, freed;
    void **blocks;
} stepping;

static void free_on_step(int number)
{
    (void)number;
    int error = errno;
    if (++stepping.step == stepping.next && stepping.freed < BLOCKS) {
        free(stepping.blocks[stepping.freed++]);
        stepping.next += STRIDE;
    }
    errno = error;
}

static void unmap_stepped(int from, void **blocks)
{
    void *mapped = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(mapped != MAP_FAILED, "mmap");
    stepping.step = stepping.freed = 0;
    stepping.next = from;
    stepping.blocks = blocks;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    munmap(mapped, 65536);
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    while (stepping.freed < BLOCKS)
        free(blocks[stepping.freed++]);
}

static void steps(const char *argument)
{
    (void)argument;
    static void *blocks[STRIDE][BLOCKS]; /* none has the address of another, which would take its place */
    struct sigaction action = {.sa_handler = free_on_step};
    check(!sigaction(SIGTRAP, &action, NULL), "sigaction");
    for (int i = 0; i < STRIDE * BLOCKS; i++)
        check((blocks[i / BLOCKS][i % BLOCKS] = malloc(5000)) != NULL, "malloc");
    for (int i = 0; i < STRIDE; i++)
        unmap_stepped(i + 1, blocks[i]);
}
#else
static void steps(const char *argument)
{
    (void)argument;
}
#endif

/* Blocks that lie 64 KiB apart over 256 MiB, so that the filter says "perhaps" of one address in each 64 KiB
 * of any memory; then the memory is freed that the hook hands out before it knows the real malloc, ARGUMENT
 * bytes behind its own. */
static void frees_early(const char *argument)
{
    enum { APART = 65536, POOL = 65536, UNIT = 256 };
    for (int i = 0; i < (256 << 20) / APART; i++)
        check((kept = malloc(APART - 16)) != NULL, "malloc");
    char *pool = (char *)dlsym(RTLD_DEFAULT, "malloc") + atol(argument);
    for (int at = 16; at < POOL; at += UNIT)
        free(pool + at);
}

static void nothing(const char *argument)
{
    (void)argument;
}

static const struct {
    const char *name;
    void (*run)(const char *argument);
} modes[] = {
    {"attributes", attributes},
    {"handlers", handlers},
    {"destructors", destructors},
    {"before", before},
    {"exits", exits},
    {"forks", forks},
    {"spawns", spawns},
    {"loads", loads},
    {"threads", threads},
    {"execs", execs},
    {"cancels", cancels},
    {"coroutines", coroutines},
    {"steps", steps},
    {"early", frees_early},
    {"nothing", nothing},
    {"descriptors", no_descriptors},
};

int main(int argc, char **argv)
{
    self = argv[0];
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name)) {
            modes[i].run(argc > 2 ? argv[2] : "");
            return 0;
        }
    fprintf(stderr, "faults: no such mode\n");
    return 2;
}
