/* GObjects that are taken and never given back, each with its bytes. */
#include "pace.h"
#include <gio/gio.h>
#include <string.h>

__attribute__((noinline)) static void load(int step)
{
    char *data = g_malloc(150000); /* LEAK: 150,000 bytes */
    memset(data, step, 150000);
    GInputStream *stream = g_memory_input_stream_new_from_data(data, 150000, g_free);
    g_object_ref(stream);
    g_object_unref(stream);
}

int main(int argc, char **argv)
{
    (void)argc;
    for (int step; (step = next_step(argv)) >= 0;)
        load(step);
}
