#include "base/gzip.h"
#include "base/check.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

enum { ROOM = 64 * 1024 };

struct tide_gzip {
    z_stream stream;
    FILE *out;
    unsigned char room[ROOM];
};

int tide_gzip_new(FILE *out, struct tide_gzip **ret_gzip, struct tide_err *err)
{
    enum { WINDOW = 15, GZIP_HEAD = 16, MEMORY = 8 };
    struct tide_gzip *g = calloc(1, sizeof *g);
    if (!g || deflateInit2(&g->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW + GZIP_HEAD, MEMORY,
                           Z_DEFAULT_STRATEGY) != Z_OK) {
        free(g);
        return tide_err_set(err, "not enough memory to compress");
    }
    g->out = out;
    *ret_gzip = g;
    return 0;
}

static void pump(struct tide_gzip *g, int how)
{
    int got;
    do {
        g->stream.next_out = g->room;
        g->stream.avail_out = ROOM;
        got = deflate(&g->stream, how);
        TIDE_CHECK(got, !=, Z_STREAM_ERROR);
        fwrite(g->room, 1, ROOM - g->stream.avail_out, g->out);
    } while (how == Z_FINISH ? got != Z_STREAM_END : g->stream.avail_out == 0);
}

void tide_gzip_write(struct tide_gzip *g, const void *data, size_t len)
{
    const unsigned char *from = data;
    while (len > 0) {
        size_t part = len < UINT_MAX ? len : UINT_MAX;
        g->stream.next_in = (unsigned char *)(uintptr_t)from; /* only read */
        g->stream.avail_in = (unsigned)part;
        pump(g, Z_NO_FLUSH);
        from += part;
        len -= part;
    }
}

void tide_gzip_finish(struct tide_gzip *g)
{
    g->stream.avail_in = 0;
    pump(g, Z_FINISH);
}

void tide_gzip_free(struct tide_gzip *g)
{
    if (!g)
        return;
    deflateEnd(&g->stream);
    free(g);
}
