/*
 * daemon.c - a child that detaches itself (double fork, new session) and outlives the parent.
 *
 * Truth: leak, linear, --bytes (64K) per step, in the daemon, which says the steps and calls itself
 * "detached"; it goes on for all steps, while the parent, flat, ends with status 0 after --every (280) of
 * them.
 */
#include "workload.h"

#include <fcntl.h>
#include <sys/wait.h>

static void detach_and_leak(struct workload *w)
{
    setsid();
    pid_t pid = fork();
    if (pid < 0)
        workload_fail("fork");
    if (pid > 0)
        _exit(0);
    workload_sign(w);
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || chdir("/"))
        workload_fail("detach");
    for (int fd = 0; fd < 3; fd++)
        if (fd != 1 || !w->talk)
            dup2(null, fd);
    prctl(PR_SET_NAME, "detached");
    workload_warm_heap(1);
    for (int64_t n = 0; n < w->steps; n++) {
        workload_step(w, n);
        workload_churn(w);
        workload_map(w->bytes);
        workload_pace(w, n);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 64 * 1024, .every = 280};
    workload_init(&w, argc, argv);
    workload_map(16 << 20);
    pid_t pid = fork();
    if (pid < 0)
        workload_fail("fork");
    if (pid == 0)
        detach_and_leak(&w);
    int status;
    if (waitpid(pid, &status, 0) != pid || status)
        workload_fail("detach");
    workload_pace(&w, (w.every < w.steps ? w.every : w.steps) - 1);
    return 0;
}
