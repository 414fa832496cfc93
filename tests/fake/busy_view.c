/*
 * busy_view.c - loaded before the C library: a thread, other than the first of its process, that waits for
 * input with a time limit, as the view does between its looks, is held up for as long as there is a file
 * "busy". It leaves a file "held" then.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

int poll(struct pollfd *inputs, nfds_t count, int timeout_ms)
{
    __typeof__(&poll) real = (__typeof__(&poll))dlsym(RTLD_NEXT, "poll");
    while (timeout_ms > 0 && gettid() != getpid() && access("busy", F_OK) == 0) {
        close(open("held", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        usleep(1000);
    }
    return real(inputs, count, timeout_ms);
}
