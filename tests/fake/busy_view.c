/*
 * busy_view.c - loaded before the C library: a thread that waits for a condition with a time limit, as the
 * view does between its looks, is held up for as long as there is a file "busy". It leaves a file "held"
 * then.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *until)
{
    typedef int wait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    wait *real = (wait *)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    pthread_mutex_unlock(lock);
    while (access("busy", F_OK) == 0) {
        close(open("held", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        usleep(1000);
    }
    pthread_mutex_lock(lock);
    return real(condition, lock, until);
}
