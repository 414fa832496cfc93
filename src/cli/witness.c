#include "cli/witness.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/title.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOMENT_MS = 100 }; /* a sender that signals processes one after the other needs less */

static const int64_t LATELY_NS = 1000000000;

static _Noreturn void report_signals(pid_t tracker, int reports)
{
    sigset_t all;
    siginfo_t info;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tide_title_set("signal-witness"); /* so that killing the tracker by name spares it */
    tide_close_all_but(0, &reports, 1);
    while (getppid() == tracker) {
        if (sigwaitinfo(&all, &info) < 0)
            continue;
        struct tide_witness_report report = {tide_clock_ns(), info.si_signo, info.si_pid};
        if (write(reports, &report, sizeof report) != sizeof report)
            break;
    }
    _exit(0);
}

void tide_witness_init(struct tide_witness *witness)
{
    int ends[2];
    pid_t tracker = getpid();
    *witness = (struct tide_witness){.reports = -1};
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
        return;
    pid_t pid = fork();
    if (!pid)
        report_signals(tracker, ends[1]);
    close(ends[1]);
    if (pid > 0)
        *witness = (struct tide_witness){.pid = pid, .reports = ends[0]};
    else
        close(ends[0]);
}

void tide_witness_release(struct tide_witness *witness)
{
    if (witness->pid <= 0)
        return;
    kill(witness->pid, SIGKILL);
    waitpid(witness->pid, NULL, 0);
    close(witness->reports);
    *witness = (struct tide_witness){.reports = -1};
}

bool tide_witness_heard(struct tide_witness *witness, int signal, pid_t sender)
{
    struct pollfd fd = {.fd = witness->reports, .events = POLLIN};
    int64_t since_ns = tide_clock_ns() - LATELY_NS;
    do {
        const struct tide_witness_report *last = &witness->last;
        if (last->signal == signal && last->sender == sender && last->t_ns >= since_ns)
            return true;
        if (witness->pid <= 0 || poll(&fd, 1, MOMENT_MS) <= 0)
            return false;
    } while (read(witness->reports, &witness->last, sizeof witness->last) == sizeof witness->last);
    return false;
}
