#include "base/resident.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct tide_resident tide_resident_now(void)
{
    char text[128];
    long long all, resident, of_files, page = sysconf(_SC_PAGESIZE);
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    if (sscanf(text, "%lld %lld %lld", &all, &resident, &of_files) != 3)
        return (struct tide_resident){-1, -1};
    return (struct tide_resident){resident * page, (resident - of_files) * page};
}
