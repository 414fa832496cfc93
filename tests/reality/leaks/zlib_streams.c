/* deflateInit() without deflateEnd(). */
#include "pace.h"
#include <string.h>
#include <zlib.h>

static unsigned char text[100000], packed[200000];

__attribute__((noinline)) static void pack(void)
{
    z_stream stream = {0};
    deflateInit(&stream, 6); /* LEAK: zlib's window, hash table and buffers */
    stream.next_in = text, stream.avail_in = sizeof text;
    stream.next_out = packed, stream.avail_out = sizeof packed;
    deflate(&stream, Z_FINISH);
}

int main(int argc, char **argv)
{
    (void)argc;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(rand() >> 8);
    while (next_step(argv) >= 0)
        pack();
}
