#include "term/keeper.h"

#include "base/descriptors.h"
#include "base/title.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARMED = 'a', DISARMED = 'd' };

/* All signals are blocked: SIGTTOU among them, so that the modes may be set from the background. In a group
 * of its own, so that what kills the view's group leaves it alive; and not called tidemark. */
static _Noreturn void keep(void (*rescue)(void), const int kept[2], int end)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    tide_title_set("screen-keeper");
    tide_close_all_but(3, (const int[]){kept[0], kept[1], end}, 3);
    char state = DISARMED, word;
    while (TEMP_FAILURE_RETRY(read(end, &word, 1)) == 1)
        state = word;
    if (state == ARMED)
        rescue();
    _exit(0);
}

struct tide_keeper tide_keeper_start(void (*rescue)(void), const int kept[2])
{
    struct tide_keeper none = {.hold = -1};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return none;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        keep(rescue, kept, ends[0]);
    }
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return none;
    }
    return (struct tide_keeper){.pid = pid, .hold = ends[1]};
}

void tide_keeper_armed(const struct tide_keeper *keeper, bool armed)
{
    char word = armed ? ARMED : DISARMED;
    if (!keeper->pid)
        return;
    ssize_t ignored = send(keeper->hold, &word, 1, MSG_NOSIGNAL); /* one that is gone keeps nothing */
    (void)ignored;
}

void tide_keeper_end(struct tide_keeper *keeper)
{
    if (!keeper->pid)
        return;
    tide_keeper_armed(keeper, false);
    close(keeper->hold);
    TEMP_FAILURE_RETRY(waitpid(keeper->pid, NULL, 0));
    *keeper = (struct tide_keeper){.hold = -1};
}
