/*
 * wrapper.c - starts the real program and waits, as `uv run` and its like do.
 *
 * Truth: leak, linear, --bytes (64K) per step, in the child, which calls itself "trainer"; the wrapper is
 * flat and says nothing. The wrapper passes the child's status on.
 */
#include "workload.h"

#include <signal.h>
#include <sys/wait.h>

static int train(struct workload *w)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "trainer");
    workload_sign(w);
    workload_warm_heap(1);
    for (int64_t n = 0; n < w->steps; n++) {
        workload_step(w, n);
        workload_churn(w);
        workload_map(w->bytes);
        workload_pace(w, n);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 64 * 1024};
    workload_init(&w, argc, argv);
    if (w.inner)
        return train(&w);
    workload_map(16 << 20);
    pid_t pid = fork();
    if (pid < 0)
        workload_fail("fork");
    if (pid == 0) {
        char *inner[64] = {argv[0], "--inner"};
        for (int i = 1; i < argc && i < 60; i++)
            inner[i + 1] = argv[i];
        execv("/proc/self/exe", inner);
        workload_fail("execv");
    }
    int status;
    if (waitpid(pid, &status, 0) != pid)
        workload_fail("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
