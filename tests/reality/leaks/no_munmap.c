/* mmap() without munmap(). */
#include "pace.h"
#include <string.h>
#include <sys/mman.h>

__attribute__((noinline)) static void receive(void)
{
    void *ring = mmap(NULL, 262144, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* LEAK: 256 KiB */
    memset(ring, 1, 262144);
}

int main(int argc, char **argv)
{
    (void)argc;
    while (next_step(argv) >= 0)
        receive();
}
