#include "train/rival.h"

#include <string.h>

/* What is done with some bytes of the weights: `own` and `rivals` are their places. */
typedef int visitor(void *context, struct tide_machine *machine, char *window, size_t own, size_t rivals,
                    size_t bytes);

static int own_of(const struct tide_graph *graph, int rivals)
{
    const char *name = graph->tensors[rivals].name + strlen(TIDE_RIVAL);
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TIDE_PARAMETER && !strcmp(graph->tensors[i].name, name))
            return i;
    return -1;
}

/* Calls visit() for all weights of the rival. Returns 0, or what it returned first. */
static int walk(const struct tide_graph *graph, struct tide_machine *machine, visitor *visit, void *context)
{
    char window[1 << 14];
    int status = 0;
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct tide_tensor *t = &graph->tensors[i];
        if (t->role != TIDE_BORROWED)
            continue;
        size_t own = tide_machine_place(machine, own_of(graph, i)), rivals = tide_machine_place(machine, i);
        for (size_t at = 0; !status && at < t->bytes; at += sizeof window)
            status = visit(context, machine, window, own + at, rivals + at,
                           t->bytes - at < sizeof window ? t->bytes - at : sizeof window);
    }
    return status;
}

static int copy_window(void *context, struct tide_machine *machine, char *window, size_t own, size_t rivals,
                       size_t bytes)
{
    (void)context;
    tide_machine_read(machine, own, window, bytes);
    tide_machine_write(machine, rivals, window, bytes);
    return 0;
}

static int write_window(void *file, struct tide_machine *machine, char *window, size_t own, size_t rivals,
                        size_t bytes)
{
    (void)own;
    tide_machine_read(machine, rivals, window, bytes);
    tide_durable_put(file, window, bytes);
    return 0;
}

static int read_window(void *file, struct tide_machine *machine, char *window, size_t own, size_t rivals,
                       size_t bytes)
{
    (void)own;
    if (fread(window, bytes, 1, file) != 1)
        return -1;
    tide_machine_write(machine, rivals, window, bytes);
    return 0;
}

void tide_rival_copy(const struct tide_graph *graph, struct tide_machine *machine)
{
    walk(graph, machine, copy_window, NULL);
}

void tide_rival_write(const struct tide_graph *graph, struct tide_machine *machine, struct tide_durable *file)
{
    walk(graph, machine, write_window, file);
}

int tide_rival_read(const struct tide_graph *graph, struct tide_machine *machine, FILE *file,
                    struct tide_err *err)
{
    return walk(graph, machine, read_window, file)
               ? tide_err_set(err, "the weights of the last match are cut off")
               : 0;
}
