#include "train/rival.h"

#include <string.h>

static int own_of(const struct tide_graph *graph, int rivals)
{
    const char *name = graph->tensors[rivals].name + strlen(TIDE_RIVAL);
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TIDE_PARAMETER && !strcmp(graph->tensors[i].name, name))
            return i;
    return -1;
}

/* Walks over the rival's weights: reads them from `in`, or writes them to `out`; with neither, copies the
 * net's own. -1: the file ends too early. */
static int walk(const struct tide_graph *graph, struct tide_machine *machine, FILE *in,
                struct tide_durable *out)
{
    char window[1 << 14];
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct tide_tensor *t = &graph->tensors[i];
        if (t->role != TIDE_BORROWED)
            continue;
        size_t own = tide_machine_place(machine, own_of(graph, i)), rivals = tide_machine_place(machine, i);
        for (size_t at = 0; at < t->bytes; at += sizeof window) {
            size_t bytes = t->bytes - at < sizeof window ? t->bytes - at : sizeof window;
            if (in && fread(window, bytes, 1, in) != 1)
                return -1;
            if (!in)
                tide_machine_read(machine, (out ? rivals : own) + at, window, bytes);
            if (out)
                tide_durable_put(out, window, bytes);
            else
                tide_machine_write(machine, rivals + at, window, bytes);
        }
    }
    return 0;
}

void tide_rival_copy(const struct tide_graph *graph, struct tide_machine *machine)
{
    walk(graph, machine, NULL, NULL);
}

void tide_rival_write(const struct tide_graph *graph, struct tide_machine *machine, struct tide_durable *file)
{
    walk(graph, machine, NULL, file);
}

int tide_rival_read(const struct tide_graph *graph, struct tide_machine *machine, FILE *file,
                    struct tide_err *err)
{
    return walk(graph, machine, file, NULL) ? tide_err_set(err, "the weights of the last match are cut off")
                                            : 0;
}
