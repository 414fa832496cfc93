/*
 * whole_cpuid.c - for LD_PRELOAD: lets a program see CPUID leaves 0x1D and 0x1E as processors with AMX have
 * them, where a virtual machine leaves them empty. What the processor can do stays as it is.
 *
 * PyTorch 2.15 takes its tiles to have no size there and dies of SIGILL; with the leaves whole it runs, so
 * that bench_train.py can stand beside it at its best. Needs a processor on which CPUID can be made to fault.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { SET_CPUID = 0x1012 }; /* of arch_prctl(2) */
enum { TILES = 0x1d, MULTIPLIER = 0x1e };

static void let_cpuid_fault(int faults)
{
    syscall(SYS_arch_prctl, SET_CPUID, !faults);
}

/* The processor's own answer, and of those two leaves the documented one: a palette of eight tiles of 16 rows
 * of 64 bytes. */
static void answer(uint32_t leaf, uint32_t part, uint32_t r[4])
{
    r[0] = leaf;
    r[2] = part;
    let_cpuid_fault(0);
    __asm__ volatile("cpuid" : "+a"(r[0]), "=b"(r[1]), "+c"(r[2]), "=d"(r[3]));
    let_cpuid_fault(1);
    if (leaf == 0 && r[0] < MULTIPLIER)
        r[0] = MULTIPLIER;
    if (leaf != TILES && leaf != MULTIPLIER)
        return;
    r[0] = r[1] = r[2] = r[3] = 0;
    if (leaf == TILES && part == 0) {
        r[0] = 1;
    } else if (leaf == TILES && part == 1) {
        r[0] = 8192 | 1024 << 16;
        r[1] = 64 | 8 << 16;
        r[2] = 16;
    } else if (leaf == MULTIPLIER && part == 0) {
        r[1] = 16 | 64 << 8;
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)g[REG_RIP];
    uint32_t r[4];
    (void)info;
    if (at[0] != 0x0f || at[1] != 0xa2) { /* a fault of its own */
        signal(number, SIG_DFL);
        return;
    }
    answer((uint32_t)g[REG_RAX], (uint32_t)g[REG_RCX], r);
    g[REG_RAX] = r[0];
    g[REG_RBX] = r[1];
    g[REG_RCX] = r[2];
    g[REG_RDX] = r[3];
    g[REG_RIP] += 2;
}

/* Not for what the program starts: a compiler has a handler of its own. */
__attribute__((constructor)) static void begin(void)
{
    struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    unsetenv("LD_PRELOAD");
    sigaction(SIGSEGV, &act, NULL);
    let_cpuid_fault(1);
}
