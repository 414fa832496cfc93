#include "sense/confine.h"
#include "base/sanitizer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0 /* no filter: the system call numbers are not known here */
#endif

#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

/* --- system calls -------------------------------------------------------------------------------------- */

#define WRITES (O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY))

/* Allowed. */
static const int calls[] = {
    SYS_read,       SYS_pread64,         SYS_lseek,        SYS_close,         SYS_fstat,
    SYS_newfstatat, SYS_statx,           SYS_readlinkat,   SYS_faccessat,     SYS_getcwd,
    SYS_munmap,     SYS_mremap,          SYS_madvise,      SYS_brk,           SYS_futex,
    SYS_recvfrom,   SYS_sendto,          SYS_setitimer,    SYS_clock_gettime, SYS_getrandom,
    SYS_getpid,     SYS_restart_syscall, SYS_rt_sigreturn, SYS_exit,          SYS_exit_group,
#ifdef SYS_alarm /* aarch64 has neither */
    SYS_alarm,      SYS_readlink,
#endif
};

/* Allowed unless the argument has one of these bits. */
static const struct bounded_call {
    int call, argument;
    unsigned forbidden;
} bounded_calls[] = {
    {SYS_openat, 2, WRITES},
    {SYS_mmap, 2, PROT_EXEC},
    {SYS_mprotect, 2, PROT_EXEC},
    {SYS_fcntl, 1, ~(unsigned)F_GETFD},
};

enum {
    CALLS = sizeof calls / sizeof *calls,
    BOUNDED_CALLS = sizeof bounded_calls / sizeof *bounded_calls,
    STEPS_MOST = 5 + 2 * CALLS + 5 * BOUNDED_CALLS,
    REFUSED = SECCOMP_RET_ERRNO | ENOSYS, /* what the C library expects of a missing system call */
};

static struct sock_filter load(size_t offset)
{
    return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset);
}

static struct sock_filter end(unsigned with)
{
    return (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, with);
}

/* Jumps `yes` or `no` steps further. */
static struct sock_filter ask(unsigned how, unsigned value, uint8_t yes, uint8_t no)
{
    return (struct sock_filter)BPF_JUMP(BPF_JMP | how | BPF_K, value, yes, no);
}

/* Checks only the lower half of an argument, which comes first on both processors. */
static unsigned short write_filter(struct sock_filter filter[STEPS_MOST])
{
    unsigned short n = 0;

    filter[n++] = load(offsetof(struct seccomp_data, arch));
    filter[n++] = ask(BPF_JEQ, ARCHITECTURE, 1, 0);
    filter[n++] = end(REFUSED);
    filter[n++] = load(offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < CALLS; i++) {
        filter[n++] = ask(BPF_JEQ, (unsigned)calls[i], 0, 1);
        filter[n++] = end(SECCOMP_RET_ALLOW);
    }
    for (size_t i = 0; i < BOUNDED_CALLS; i++) {
        filter[n++] = ask(BPF_JEQ, (unsigned)bounded_calls[i].call, 0, 4);
        filter[n++] = load(offsetof(struct seccomp_data, args) + 8 * (size_t)bounded_calls[i].argument);
        filter[n++] = ask(BPF_JSET, bounded_calls[i].forbidden, 0, 1);
        filter[n++] = end(REFUSED);
        filter[n++] = end(SECCOMP_RET_ALLOW);
    }
    filter[n++] = end(REFUSED);
    return n;
}

static int filter_calls(void)
{
    struct sock_filter filter[STEPS_MOST];
    struct sock_fprog program = {.len = write_filter(filter), .filter = filter};

    /* A kernel without filters returns EINVAL. Symbols are looked up there too. */
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 || errno == EINVAL ? 0 : -1;
}

/* --- the rest ------------------------------------------------------------------------------------------ */

/* Keeps only the capabilities that reading needs: files and directories of other users, /proc of their
 * processes, and mapped files that were deleted. */
static int drop_capabilities(void)
{
    static const int reading[] = {CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE};
    struct __user_cap_header_struct self = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct had[2] = {{0}}, kept[2] = {{0}};

    if (syscall(SYS_capget, &self, had) != 0)
        return -1;
    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++)
        kept[reading[i] / 32].permitted |= UINT32_C(1) << reading[i] % 32;
    for (size_t i = 0; i < 2; i++)
        kept[i].effective = kept[i].permitted &= had[i].permitted;
    return (int)syscall(SYS_capset, &self, kept);
}

/* Leaves a limit that is already lower. */
static int limit(__rlimit_resource_t what, rlim_t most)
{
    struct rlimit now;

    if (getrlimit(what, &now) != 0)
        return -1;
    now.rlim_max = now.rlim_max < most ? now.rlim_max : most;
    now.rlim_cur = now.rlim_cur < most ? now.rlim_cur : most;
    return setrlimit(what, &now);
}

int tide_confine(uint64_t data_bytes, struct tide_err *err)
{
    if (limit(RLIMIT_CORE, 0) != 0 || (!TIDE_SANITIZED && limit(RLIMIT_DATA, data_bytes) != 0) ||
        drop_capabilities() != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        (!TIDE_SANITIZED && ARCHITECTURE != 0 && filter_calls() != 0))
        return tide_err_set(err, "cannot confine this process: %s", strerror(errno));
    return 0;
}
