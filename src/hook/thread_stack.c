#include "hook/thread_stack.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Lines of /proc/self/maps begin with "START-END " in hexadecimal; one character after another. */
struct scan {
    uintptr_t number[2];
    unsigned which; /* which number the next digit belongs to; 2: the rest of the line */
};

/* True when the character ends the numbers of a line that holds the address. */
static bool scan_one(struct scan *scan, char c, uintptr_t address)
{
    if (c == '\n') {
        *scan = (struct scan){{0, 0}, 0};
    } else if (scan->which < 2) {
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                : 16;
        if (digit < 16)
            scan->number[scan->which] = scan->number[scan->which] << 4 | digit;
        else if (++scan->which == 2)
            return address >= scan->number[0] && address < scan->number[1];
    }
    return false;
}

/* By system calls of our own: those of the C library may be somebody else's by now, and are places where a
 * thread can be cancelled. */
static bool find_mapping(uintptr_t address, uintptr_t *ret_low, uintptr_t *ret_high)
{
    struct scan scan = {{0, 0}, 0};
    char text[1024];
    bool found = false;
    long got, fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (!found && (got = syscall(SYS_read, fd, text, sizeof text)) > 0)
        for (long i = 0; i < got && !found; i++)
            found = scan_one(&scan, text[i], address);
    syscall(SYS_close, fd);
    if (found) {
        *ret_low = scan.number[0];
        *ret_high = scan.number[1];
    }
    return found;
}

bool tide_thread_stack_find(uintptr_t here, uintptr_t *ret_low, uintptr_t *ret_high)
{
    uintptr_t low, high, own = (uintptr_t)pthread_self();
    if (own <= here || !find_mapping(here, &low, &high) || own >= high)
        return false;
    *ret_low = low;
    *ret_high = own;
    return true;
}
