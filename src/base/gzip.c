#include "base/gzip.h"

#include <zlib.h>

int tide_gzip_write(FILE *out, const struct tide_buf *const *parts, size_t count, struct tide_err *err)
{
    enum { WINDOW = 15, GZIP_HEAD = 16, MEMORY = 8 };
    unsigned char room[64 * 1024];
    z_stream stream = {0};

    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW + GZIP_HEAD, MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return tide_err_set(err, "not enough memory to compress");
    for (size_t i = 0; i <= count; i++) { /* after the parts, the end of the stream */
        stream.next_in = i < count ? (unsigned char *)parts[i]->data : NULL;
        stream.avail_in = i < count ? (unsigned)parts[i]->len : 0;
        do {
            stream.next_out = room;
            stream.avail_out = sizeof room;
            deflate(&stream, i < count ? Z_NO_FLUSH : Z_FINISH);
            fwrite(room, 1, sizeof room - stream.avail_out, out);
        } while (stream.avail_out == 0);
    }
    deflateEnd(&stream);
    return 0;
}
