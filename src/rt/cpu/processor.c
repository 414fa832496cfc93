#include "rt/cpu/processor.h"
#include "base/clock.h"
#include "rt/cpu/amx.h"
#include "rt/cpu/avx512.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const names[TIDE_ISAS] = {"SSE2", "AVX2", "AVX-512", "AMX"};
static const char *const words[TIDE_ISAS] = {"plain", "avx2", "avx512", "amx"};

static struct {
    enum tide_isa best, used, broken;
    bool multiplies_bf16;
} found;

const char *tide_isa_name(enum tide_isa isa)
{
#if defined(__x86_64__)
    return names[isa];
#else
    return isa == TIDE_ISA_PLAIN ? "vectors of the compiler" : names[isa];
#endif
}

/* ---- trials */

static sigjmp_buf way_out;

static void leave(int number)
{
    (void)number;
    siglongjmp(way_out, 1);
}

bool tide_processor_try(bool (*trial)(void))
{
    static const int signals[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
    enum { SIGNALS = sizeof signals / sizeof *signals };
    struct sigaction had[SIGNALS], leaves = {.sa_handler = leave};
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &leaves, &had[i]);
    volatile bool works = false;
    if (!sigsetjmp(way_out, 1))
        works = trial();
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &had[i], NULL);
    return works;
}

#if defined(__x86_64__)

enum { LANES = 16 };

/* Fills in numbers that the compiler cannot know. */
static void fill(float *to, int count)
{
    for (volatile int i = 0; i < count; i++)
        to[i] = (float)(i % 7 + 1);
}

__attribute__((target("avx2,fma"))) static bool try_avx2(void)
{
    float x[8], y[8];
    fill(x, 8);
    __m256 v = _mm256_loadu_ps(x);
    __m256i shifted = _mm256_slli_epi32(_mm256_castps_si256(v), 0);
    _mm256_storeu_ps(y, _mm256_fmadd_ps(v, _mm256_castsi256_ps(shifted), v));
    for (int i = 0; i < 8; i++)
        if (y[i] != x[i] * x[i] + x[i])
            return false;
    return true;
}

TIDE_AVX512 static bool try_avx512(void)
{
    float x[LANES], y[LANES];
    fill(x, LANES);
    __m512 v = _mm512_loadu_ps(x);
    _mm512_storeu_ps(y, _mm512_setzero_ps());
    _mm512_mask_storeu_ps(y, 0x7fff, _mm512_mask3_fmadd_ps(v, v, v, tide_first_16(LANES)));
    for (int i = 0; i < LANES; i++)
        if (y[i] != (i == LANES - 1 ? 0 : x[i] * x[i] + x[i]))
            return false;
    return true;
}

TIDE_AVX512_BF16 static bool try_bf16(void)
{
    float x[LANES], y[LANES];
    fill(x, LANES);
    __m512 v = _mm512_loadu_ps(x);
    __m512bh pairs = _mm512_cvtne2ps_pbh(v, v);
    _mm512_storeu_ps(y, _mm512_dpbf16_ps(v, pairs, pairs));
    for (int i = 0; i < LANES; i++) { /* lane i has numbers 2i and 2i + 1 of v followed by v */
        float first = x[2 * i % LANES], second = x[(2 * i + 1) % LANES];
        if (y[i] != x[i] + first * first + second * second)
            return false;
    }
    return true;
}

/* All that products use: multiplies two tiles and stores one. */
TIDE_AMX static bool try_amx(void)
{
    float sums[LANES * LANES];
    uint16_t one[2 * LANES * LANES];
    for (volatile int i = 0; i < 2 * LANES * LANES; i++)
        one[i] = 0x3f80;
    tide_amx_begin();
    _tile_zero(0);
    _tile_loadd(4, one, TIDE_CACHE_LINE);
    _tile_loadd(6, one, TIDE_CACHE_LINE);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stored(0, sums, TIDE_CACHE_LINE);
    _tile_release();
    for (int i = 0; i < LANES * LANES; i++)
        if (sums[i] != 2 * LANES)
            return false;
    return true;
}

/* Asks the system for permission to use tiles. */
static bool may_use_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
}

static bool announces_amx(void)
{
    unsigned a, b, c, d;
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BF16) && (d & AMX_TILE);
}

static bool announces(enum tide_isa isa)
{
    switch (isa) {
    case TIDE_ISA_PLAIN:
        return true;
    case TIDE_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case TIDE_ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    default:
        return announces_amx() && __builtin_cpu_supports("avx512bf16") && may_use_tiles();
    }
}

/* ---- how fast registers are multiplied */

enum { SUMS = 12, LOOPS = 4096 };

#define MULTIPLY(name, marks, vector, fill_with, factor, PRODUCT)                                            \
    marks static float name(void)                                                                            \
    {                                                                                                        \
        vector sums[SUMS];                                                                                   \
        for (int i = 0; i < SUMS; i++)                                                                       \
            sums[i] = fill_with((float)i);                                                                   \
        for (int k = 0; k < LOOPS; k++)                                                                      \
            _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) sums[i] = PRODUCT(sums[i], factor);      \
        for (int i = 1; i < SUMS; i++)                                                                       \
            sums[0] += sums[i];                                                                              \
        return sums[0][0];                                                                                   \
    }
#define BY_8(sum, x)    _mm256_fmadd_ps(x, x, sum)
#define BY_16(sum, x)   _mm512_fmadd_ps(x, x, sum)
#define BY_BF16(sum, x) _mm512_dpbf16_ps(sum, (__m512bh)(x), (__m512bh)(x))
MULTIPLY(multiply_avx2, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps, _mm256_set1_ps(1e-9F),
         BY_8)
MULTIPLY(multiply_avx512, TIDE_AVX512, __m512, _mm512_set1_ps, _mm512_set1_ps(1e-9F), BY_16)
MULTIPLY(multiply_bf16, TIDE_AVX512_BF16, __m512, _mm512_set1_ps, _mm512_set1_epi32(0x10001), BY_BF16)

TIDE_AMX static float multiply_tiles(void)
{
    float sums[LANES * LANES];
    tide_amx_begin();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    for (int k = 0; k < LOOPS; k++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, sums, TIDE_CACHE_LINE);
    _tile_release();
    return sums[0];
}

static double rate_of(float (*multiply)(void), double flops_per_loop)
{
    enum { TRIES = 12 };
    static volatile float sink;
    int64_t least = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t begin = tide_clock_ns();
        sink = multiply();
        int64_t took = tide_clock_ns() - begin;
        least = took < least ? took : least;
    }
    (void)sink;
    return least > 0 ? flops_per_loop * LOOPS / ((double)least / TIDE_NS_PER_S) : 0;
}

double tide_processor_ceiling(enum tide_isa isa, enum tide_multiplier multiplier)
{
    if (isa > found.best || isa < TIDE_ISA_AVX2)
        return 0;
    if (multiplier == TIDE_MULTIPLIES_TILES)
        return isa == TIDE_ISA_AMX ? rate_of(multiply_tiles, 4.0 * 2 * LANES * LANES * 2 * LANES) : 0;
    if (multiplier == TIDE_MULTIPLIES_F32)
        return isa == TIDE_ISA_AVX2 ? rate_of(multiply_avx2, SUMS * 2.0 * 8)
                                    : rate_of(multiply_avx512, SUMS * 2.0 * LANES);
    return isa >= TIDE_ISA_AVX512 && __builtin_cpu_supports("avx512bf16") && tide_processor_try(try_bf16)
               ? rate_of(multiply_bf16, SUMS * 4.0 * LANES)
               : 0;
}

static bool (*const trials[TIDE_ISAS])(void) = {
    [TIDE_ISA_AVX2] = try_avx2, [TIDE_ISA_AVX512] = try_avx512, [TIDE_ISA_AMX] = try_amx};

static void find_best(void)
{
    for (int isa = TIDE_ISA_AVX2; isa < TIDE_ISAS && announces((enum tide_isa)isa); isa++) {
        if (!tide_processor_try(trials[isa])) {
            found.broken = (enum tide_isa)isa;
            return;
        }
        found.best = (enum tide_isa)isa;
    }
}

#else

double tide_processor_ceiling(enum tide_isa isa, enum tide_multiplier multiplier)
{
    (void)isa, (void)multiplier;
    return 0;
}

static void find_best(void)
{
}

#endif

/* ---- what is used */

/* Returns TIDE_ISAS if the variable is not set, -1 if it has an unknown value. */
static int asked_for(void)
{
    const char *text = getenv("TIDEMARK_ISA");
    if (!text || !*text)
        return TIDE_ISAS;
    for (int i = 0; i < TIDE_ISAS; i++)
        if (!strcmp(text, words[i]))
            return i;
    return -1;
}

/* Rounding operands to bf16 pays only if its product is this much faster. */
static const double clearly = 1.3;

static void find(void)
{
    find_best();
    int asked = asked_for();
    found.used = asked >= 0 && asked < (int)found.best ? (enum tide_isa)asked : found.best;
    found.multiplies_bf16 = found.used >= TIDE_ISA_AVX512 &&
                            tide_processor_ceiling(TIDE_ISA_AVX512, TIDE_MULTIPLIES_BF16) >
                                clearly * tide_processor_ceiling(TIDE_ISA_AVX512, TIDE_MULTIPLIES_F32);
}

static void find_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
}

int tide_processor_check(struct tide_err *err)
{
    int asked = asked_for();
    find_once();
    if (asked < 0) {
        tide_err_set(err, "TIDEMARK_ISA does not name an instruction set");
        return tide_err_hint(err, "it can be plain, avx2, avx512 or amx");
    }
    if (asked == TIDE_ISAS || asked <= (int)found.best)
        return 0;
    tide_err_set(err, "TIDEMARK_ISA asks for %s, which this processor does not have",
                 tide_isa_name((enum tide_isa)asked));
    return tide_err_hint(err, "at most %s", words[found.best]);
}

enum tide_isa tide_isa(void)
{
    find_once();
    return found.used;
}

bool tide_processor_multiplies_bf16(void)
{
    find_once();
    return found.multiplies_bf16;
}

enum tide_isa tide_processor_broken(void)
{
    find_once();
    return found.broken;
}

/* ---- how many there are */

/* Reads one or two numbers from a file of a group. Returns how many. */
static int read_numbers(const char *directory, const char *leaf, long long *first, long long *second)
{
    char name[2 * PATH_MAX + 64];
    snprintf(name, sizeof name, "%s/%s", directory, leaf);
    FILE *file = fopen(name, "re");
    int read = file ? fscanf(file, "%lld %lld", first, second) : 0;
    if (file)
        fclose(file);
    return read;
}

/* Returns the processors that one group is allowed, rounded up; INT64_MAX: any number. */
static int64_t quota_in(const char *directory)
{
    long long most = 0, period = 0, none;
    if (read_numbers(directory, "cpu.max", &most, &period) != 2) { /* not of version 2 */
        read_numbers(directory, "cpu.cfs_quota_us", &most, &none);
        read_numbers(directory, "cpu.cfs_period_us", &period, &none);
    }
    return most > 0 && period > 0 ? (most + period - 1) / period : INT64_MAX;
}

/* Returns the lowest quota of a group and those above it. */
static int64_t lowest_quota(const char *root, const char *group)
{
    char directory[2 * PATH_MAX];
    snprintf(directory, sizeof directory, "%s%s", root, group);
    /* In a container the path may begin with "/.." or with groups that are not mounted. */
    while (*group && (strncmp(group, "/..", 3) == 0 || access(directory, F_OK))) {
        const char *rest = strchr(group + 1, '/');
        group = rest ? rest : "";
        snprintf(directory, sizeof directory, "%s%s", root, group);
    }
    int64_t least = quota_in(directory);
    while (strlen(directory) > strlen(root)) {
        *strrchr(directory, '/') = '\0';
        int64_t above = quota_in(directory);
        least = above < least ? above : least;
    }
    return least;
}

/* True if "cpu" is in a list such as "cpu,cpuacct". */
static bool has_cpu(char *controllers)
{
    char *rest = NULL;
    for (char *name = strtok_r(controllers, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
        if (strcmp(name, "cpu") == 0)
            return true;
    return false;
}

int64_t tide_processor_quota(const char *groups, const char *root)
{
    char line[PATH_MAX], first[PATH_MAX];
    int64_t least = INT64_MAX;
    FILE *file = fopen(groups, "re");
    snprintf(first, sizeof first, "%s/cpu", root);
    while (file && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group || group[1] != '/')
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        bool unified = strcmp(line, "0:") == 0;
        if (!unified && !has_cpu(controllers + 1))
            continue;
        int64_t quota = lowest_quota(unified ? root : first, group);
        least = quota < least ? quota : least;
    }
    if (file)
        fclose(file);
    return least;
}

int tide_processors(void)
{
    cpu_set_t set;
    int64_t count = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    int64_t most = tide_processor_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    count = count < most ? count : most;
    return count < 1 ? 1 : (int)count;
}
