#include "show/text/recording_tables.h"
#include "assess/process_name.h"
#include "base/text.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>

/* --- what the tables hold ------------------------------------------------------------------------------ */

enum { NAME_COLUMNS = 23 };

/* clang-format off */
#define TREE_ROW(COLUMN)                                                                                     \
    COLUMN("name", "NAME", -NAME_COLUMNS, TEXT, name)                                                        \
    COLUMN("began_s", "BEGAN", 9, DURATION, row->began_ns)                                                   \
    COLUMN("lasted_s", "LASTED", 9, DURATION, row->lasted_ns)                                                \
    COLUMN("peak_bytes", "PEAK", 6, BYTES, row->peak_bytes)                                                  \
    COLUMN("first_bytes", "FIRST", 6, BYTES, row->first_bytes)                                               \
    COLUMN("last_bytes", "LAST", 6, BYTES, row->last_bytes)                                                  \
    COLUMN("pss_bytes", "PSS", 6, BYTES, row->pss_bytes)                                                     \
    COLUMN("uss_bytes", "USS", 6, BYTES, row->uss_bytes)

#define PROCESS(COLUMN)                                                                                      \
    COLUMN("process", "", 0, COUNT, row->id)                                                                 \
    COLUMN("pid", "", 0, COUNT, row->pid)                                                                    \
    COLUMN("parent", "", 0, COUNT, row->parent ? row->parent : TIDE_UNKNOWN)                                 \
    COLUMN("name", "", 0, TEXT, row->name)                                                                   \
    COLUMN("role", "", 0, TEXT, row->role)                                                                   \
    COLUMN("command", "", 0, TEXT, row->command)                                                             \
    COLUMN("began_s", "", 0, DURATION, row->began_ns)                                                        \
    COLUMN("ended_s", "", 0, DURATION, row->ended_ns)                                                        \
    COLUMN("peak_rss_bytes", "", 0, BYTES, row->peak_rss_bytes)                                              \
    COLUMN("first_rss_bytes", "", 0, BYTES, first ? first->rss_bytes : TIDE_UNKNOWN)                         \
    COLUMN("last_rss_bytes", "", 0, BYTES, last ? last->rss_bytes : TIDE_UNKNOWN)                            \
    COLUMN("last_private_bytes", "", 0, BYTES, last ? last->private_bytes : TIDE_UNKNOWN)                    \
    COLUMN("pss_bytes", "", 0, BYTES, smaps ? smaps->pss_bytes : TIDE_UNKNOWN)                               \
    COLUMN("uss_bytes", "", 0, BYTES, smaps ? smaps->uss_bytes : TIDE_UNKNOWN)                               \
    COLUMN("shown_name", "", 0, TEXT, tide_process_short(process, shown, sizeof shown))

#define PHASE(COLUMN)                                                                                        \
    COLUMN("name", "PHASE", -28, TEXT, phase->name)                                                          \
    COLUMN("count", "TIMES", 8, COUNT, phase->count)                                                         \
    COLUMN("unfinished", "", 0, COUNT, phase->unfinished)                                                    \
    COLUMN("total_s", "TOTAL", 9, DURATION, phase->total_ns)                                                 \
    COLUMN("longest_s", "LONGEST", 9, DURATION, phase->longest_ns)                                           \
    COLUMN("peak_bytes", "PEAK", 7, BYTES, phase->peak_bytes)                                                \
    COLUMN("rise_bytes", "RISE", 7, BYTES, phase->rise_bytes)

/* Gauges are bytes, the others counts. The keys are the same, so that the CSV has one header. */
#define COUNTED(COLUMN) MARK(COLUMN, COUNT)
#define GAUGE(COLUMN)   MARK(COLUMN, BYTES)
#define MARK(COLUMN, KIND)                                                                                   \
    COLUMN("kind", "MARK", -7, TEXT, kind)                                                                   \
    COLUMN("name", "NAME", -16, TEXT, name)                                                                  \
    COLUMN("count", "TIMES", 9, COUNT, count)                                                                \
    COLUMN("first", "FIRST", 9, KIND, first)                                                                 \
    COLUMN("least", "LEAST", 7, KIND, least)                                                                 \
    COLUMN("most", "MOST", 7, KIND, most)                                                                    \
    COLUMN("last", "LAST", 9, KIND, last)                                                                    \
    COLUMN("per_s", "PER S", 7, REAL, rate)

#define PEAK(COLUMN)                                                                                         \
    COLUMN("name", "PEAK OF", -28, TEXT, peaks[i].name)                                                      \
    COLUMN("bytes", "BYTES", 7, BYTES, peak->bytes)                                                          \
    COLUMN("t_s", "AT", 9, DURATION, peak->t_ns)                                                             \
    COLUMN("step", "STEP", 9, COUNT, peak->step)                                                             \
    COLUMN("processes", "PROCS", 6, COUNT, peak->processes)                                                  \
    COLUMN("phase", "PHASE", -13, TEXT, peak->phase)                                                         \
    COLUMN("rss_bytes", "", 0, BYTES, peak->rss_bytes)                                                       \
    COLUMN("pss_known_bytes", "", 0, BYTES, peak->pss_known_bytes)

#define TICK(COLUMN)                                                                                         \
    COLUMN("t_s", "T", 9, DURATION, tick->t_ns)                                                              \
    COLUMN("step", "STEP", 10, COUNT, tide_summary_step(summary, tick->t_ns))                                \
    COLUMN("processes", "PROCS", 6, COUNT, tick->processes)                                                  \
    COLUMN("rss_bytes", "RSS", 8, BYTES, tick->rss_bytes)                                                    \
    COLUMN("counted_bytes", "ONCE", 8, BYTES, tick->counted_bytes)                                           \
    COLUMN("pss_known_bytes", "", 0, BYTES, tick->pss_known_bytes)                                           \
    COLUMN("cgroup_bytes", "CGROUP", 8, BYTES, tick->cgroup_bytes)                                           \
    COLUMN("cgroup_peak_bytes", "", 0, BYTES, tick->cgroup_peak_bytes)                                       \
    COLUMN("pressure_ppm", "", 0, COUNT, tick->pressure_ppm)                                                 \
    COLUMN("available_bytes", "HOST FREE", 10, BYTES, tick->available_bytes)

#define LIMIT(COLUMN)                                                                                        \
    COLUMN("t_s", "FROM", 9, DURATION, limit->t_ns)                                                          \
    COLUMN("bytes", "BYTES", 8, BYTES, limit->bytes)                                                         \
    COLUMN("name", "LIMIT", -1, TEXT, limit->name)

#define NOTE(COLUMN)                                                                                         \
    COLUMN("t_s", "AT", 9, DURATION, note->t_ns)                                                             \
    COLUMN("text", "NOTE", -1, TEXT, note->text)

#define GPU(COLUMN)                                                                                          \
    COLUMN("device", "GPU", 4, COUNT, use->device)                                                           \
    COLUMN("name", "MODEL", -24, TEXT, device ? device->name : NULL)                                         \
    COLUMN("process", "", 0, COUNT, use->process)                                                            \
    COLUMN("user", "USER", -22, TEXT, user)                                                                  \
    COLUMN("peak_bytes", "PEAK", 6, BYTES, peak->bytes)                                                      \
    COLUMN("peak_t_s", "", 0, DURATION, peak->t_ns)                                                          \
    COLUMN("last_bytes", "LAST", 6, BYTES, rows[to - 1]->bytes)                                              \
    COLUMN("total_bytes", "OF", 6, BYTES, device ? device->total_bytes : TIDE_UNKNOWN)

#define HEAP(COLUMN)                                                                                         \
    COLUMN("process", "", 0, COUNT, process->row.id)                                                         \
    COLUMN("name", "PROCESS", -22, TEXT, name)                                                               \
    COLUMN("live_peak_bytes", "MOST", 6, BYTES, most)                                                        \
    COLUMN("live_last_bytes", "LIVE", 6, BYTES, last ? last->live_bytes : TIDE_UNKNOWN)                      \
    COLUMN("free_bytes", "KEPT", 6, BYTES, asked ? asked->free_bytes : TIDE_UNKNOWN)                         \
    COLUMN("free_blocks", "PIECES", 9, COUNT, asked ? asked->free_blocks : TIDE_UNKNOWN)                     \
    COLUMN("top_bytes", "", 0, BYTES, asked ? asked->top_bytes : TIDE_UNKNOWN)                               \
    COLUMN("state", "SEEN", -1, TEXT, status->state)

#define SAMPLE(COLUMN)                                                                                       \
    COLUMN("step", "STEP", 9, COUNT, step)                                                                   \
    COLUMN("t_s", "T", 8, DURATION, tick->t_ns)                                                              \
    COLUMN("process", "", 0, COUNT, process->id)                                                             \
    COLUMN("pid", "PID", 8, COUNT, process->pid)                                                             \
    COLUMN("name", "NAME", -16, TEXT, process->name)                                                         \
    COLUMN("rss_bytes", "RSS", 6, BYTES, rss_of(sample))                                                     \
    COLUMN("anon_bytes", "ANON", 6, BYTES, sample->anon_bytes)                                               \
    COLUMN("file_bytes", "FILE", 6, BYTES, sample->file_bytes)                                               \
    COLUMN("shmem_bytes", "SHMEM", 6, BYTES, sample->shmem_bytes)                                            \
    COLUMN("swap_bytes", "SWAP", 5, BYTES, sample->swap_bytes)                                               \
    COLUMN("huge_bytes", "", 0, BYTES, sample->huge_bytes)                                                   \
    COLUMN("threads", "", 0, COUNT, sample->threads)                                                         \
    COLUMN("asked_bytes", "", 0, BYTES, sample->asked_bytes)                                                 \
    COLUMN("mapped_bytes", "", 0, BYTES, sample->mapped_bytes)
/* clang-format on */

/* --- processes ----------------------------------------------------------------------------------------- */

static void each_process(struct tide_table *table, const struct tide_history *history)
{
    char shown[128];
    tide_table_begin(table, "processes", NULL, TIDE_COLUMNS(PROCESS));
    for (size_t i = 0; i < history->process_count; i++) {
        const struct tide_history_process *process = &history->processes[i];
        const struct tide_process *row = &process->row;
        const struct tide_history_point *first = process->point_count ? process->points : NULL,
                                        *last = first ? first + process->point_count - 1 : NULL;
        const struct tide_history_smaps *smaps =
            process->smaps_count ? &process->smaps[process->smaps_count - 1] : NULL;
        TIDE_ROW(table, PROCESS);
    }
    tide_table_end(table);
}

/* "train.py[141495]", "20 x compile_worker", indented. A long name is cut, never its number and the PID. */
static void name_row(const struct tide_history *history, const struct tide_summary_row *row, char *out,
                     size_t size)
{
    char name[TIDE_PROCESS_TEXT];
    int indent = row->depth < 5 ? row->depth : 5, width = NAME_COLUMNS - indent;

    if (row->members > 1)
        snprintf(out, size, "%*s%zu x %s", indent, "", row->members, TIDE_SHOWN(row->name, 64));
    else
        snprintf(out, size, "%*s%s", indent, "",
                 tide_process_short(&history->processes[row->id - 1], name, (size_t)width + 1));
}

/* For a table of all forms: the name that people know, or for programs the kernel's. */
static char *name_cell(const struct tide_table *table, const struct tide_history_process *process, char *out,
                       size_t size)
{
    if (table->form == TIDE_TABLE_TEXT || table->form == TIDE_TABLE_HTML)
        return tide_process_short(process, out, size);
    snprintf(out, size, "%.60s[%lld]", process->row.name, (long long)process->row.pid);
    return out;
}

void tide_tables_processes(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    char name[160];
    size_t most = table->most;

    if (table->form != TIDE_TABLE_TEXT) {
        each_process(table, summary->history);
        return;
    }
    tide_table_begin(table, "processes", title, TIDE_COLUMNS(TREE_ROW));
    for (size_t i = 0; i < summary->row_count && (most == 0 || i < most); i++) {
        const struct tide_summary_row *row = &summary->rows[i];
        name_row(summary->history, row, name, sizeof name);
        TIDE_ROW(table, TREE_ROW);
    }
    tide_table_end(table);
    if (most > 0 && summary->row_count > most)
        fprintf(table->out, "  and %zu more rows: --what processes\n", summary->row_count - most);
}

/* --- phases, marks, peaks ------------------------------------------------------------------------------ */

void tide_tables_phases(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    tide_table_begin(table, "phases", title, TIDE_COLUMNS(PHASE));
    for (size_t i = 0; i < summary->phase_count; i++) {
        const struct tide_summary_phase *phase = &summary->phases[i];
        TIDE_ROW(table, PHASE);
    }
    tide_table_end(table);
}

static void mark_row(struct tide_table *table, const char *kind, const char *name, size_t count,
                     int64_t first, int64_t least, int64_t most, int64_t last, double rate)
{
    if (count > 0)
        TIDE_ROW(table, GAUGE);
}

static void count_row(struct tide_table *table, const char *kind, const struct tide_summary_count *c,
                      double rate)
{
    mark_row(table, kind, "", c->count, c->first, TIDE_UNKNOWN, TIDE_UNKNOWN, c->last, rate);
}

static double rate_of(const struct tide_summary_count *count)
{
    double seconds = (double)(count->last_ns - count->first_ns) / 1e9;

    return seconds > 0 ? ((double)count->last - (double)count->first) / seconds : NAN;
}

void tide_tables_marks(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    static const struct tide_column gauges[] = {GAUGE(TIDE_LISTED_COLUMN){NULL, NULL, 0, TIDE_CELL_TEXT}};
    tide_table_begin(table, "marks", title, TIDE_COLUMNS(COUNTED));
    count_row(table, "step", &summary->steps, summary->steps_per_s);
    count_row(table, "epoch", &summary->epochs, rate_of(&summary->epochs));
    count_row(table, "items", &summary->items, rate_of(&summary->items));
    table->columns = gauges;
    for (size_t i = 0; i < summary->gauge_count; i++) {
        const struct tide_summary_gauge *gauge = &summary->gauges[i];
        mark_row(table, "gauge", gauge->name, gauge->count, gauge->first, gauge->least, gauge->most,
                 gauge->last, NAN);
    }
    tide_table_end(table);
}

/* Says for how much of the tree shared pages could be counted once. */
static void print_pss_share(struct tide_table *table, const struct tide_summary_peak *peak)
{
    double share = peak->rss_bytes > 0 && peak->pss_known_bytes >= 0
                       ? (double)peak->pss_known_bytes / (double)peak->rss_bytes
                       : 0;

    if (table->form != TIDE_TABLE_TEXT || peak->bytes == TIDE_UNKNOWN || peak->processes < 2 || share > 0.995)
        return;
    fprintf(table->out, "  (PSS was known for %.0f %% of that RSS; the rest counts in full)\n", 100 * share);
}

void tide_tables_peaks(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    struct tide_summary_peak kernel = {.bytes = summary->history->kernel_peak_bytes};
    kernel.t_ns = kernel.processes = kernel.rss_bytes = kernel.pss_known_bytes = kernel.step = TIDE_UNKNOWN;
    const struct {
        const char *name;
        const struct tide_summary_peak *peak;
    } peaks[] = {
        {"tree, shared pages once", &summary->counted},
        {"tree, sum of RSS", &summary->rss},
        {"cgroup", &summary->cgroup},
        {"one process, by the kernel", &kernel},
    };

    if (title && summary->history->tick_count == 0)
        return; /* the kernel's number alone makes no overview */
    tide_table_begin(table, "peaks", title, TIDE_COLUMNS(PEAK));
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
        const struct tide_summary_peak *peak = peaks[i].peak;
        if (peak->bytes != TIDE_UNKNOWN)
            TIDE_ROW(table, PEAK);
    }
    tide_table_end(table);
    print_pss_share(table, &summary->counted);
}

/* --- ticks, limits, devices, notes --------------------------------------------------------------------- */

void tide_tables_ticks(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    tide_table_begin(table, "ticks", title, TIDE_COLUMNS(TICK));
    for (size_t i = 0; i < summary->history->tick_count; i++) {
        const struct tide_tick *tick = &summary->history->ticks[i];
        TIDE_ROW(table, TICK);
    }
    tide_table_end(table);
}

void tide_tables_limits(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    tide_table_begin(table, "limits", title, TIDE_COLUMNS(LIMIT));
    for (size_t i = 0; i < summary->history->limit_count; i++) {
        const struct tide_limit *limit = &summary->history->limits[i];
        TIDE_ROW(table, LIMIT);
    }
    tide_table_end(table);
}

void tide_tables_notes(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    tide_table_begin(table, "notes", title, TIDE_COLUMNS(NOTE));
    for (size_t i = 0; i < summary->history->note_count; i++) {
        const struct tide_note *note = &summary->history->notes[i];
        TIDE_ROW(table, NOTE);
    }
    tide_table_end(table);
}

/* By device, process and time. */
static int compare_gpu(const void *a, const void *b)
{
    const struct tide_history_gpu *x = *(const struct tide_history_gpu *const *)a,
                                  *y = *(const struct tide_history_gpu *const *)b;
    /* The whole device (0) comes first, unknown processes (-1) last. */
    uint64_t p = (uint64_t)x->process, q = (uint64_t)y->process;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return p != q ? (p < q ? -1 : 1) : (x > y) - (x < y);
}

static const struct tide_gpu_device *find_device(const struct tide_history *history, int64_t device)
{
    for (size_t i = 0; i < history->device_count; i++)
        if (history->devices[i].device == device)
            return &history->devices[i];
    return NULL;
}

void tide_tables_gpu(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    const struct tide_history *history = summary->history;
    size_t count = history->gpu_count;
    const struct tide_history_gpu **rows = calloc(count + 1, sizeof *rows);
    char user[96];

    for (size_t i = 0; rows && i < count; i++)
        rows[i] = &history->gpu[i];
    if (rows)
        qsort(rows, count, sizeof *rows, compare_gpu);
    tide_table_begin(table, "gpu", title, TIDE_COLUMNS(GPU));
    for (size_t from = 0, to; rows && from < count; from = to) {
        const struct tide_history_gpu *use = rows[from], *peak = use;
        for (to = from; to < count && rows[to]->device == use->device && rows[to]->process == use->process;
             to++)
            peak = rows[to]->bytes > peak->bytes ? rows[to] : peak;
        const struct tide_gpu_device *device = find_device(history, use->device);
        if (use->process == 0)
            snprintf(user, sizeof user, "all processes");
        else if (use->process == TIDE_UNKNOWN)
            snprintf(user, sizeof user, "unknown process");
        else
            name_cell(table, &history->processes[use->process - 1], user, sizeof user);
        TIDE_ROW(table, GPU);
    }
    tide_table_end(table);
    free(rows);
}

/* --- the heap ------------------------------------------------------------------------------------------ */

void tide_tables_heap(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    const struct tide_history *history = summary->history;
    char name[96];

    tide_table_begin(table, "heap", title, TIDE_COLUMNS(HEAP));
    for (size_t i = 0; i < history->process_count; i++) {
        const struct tide_history_process *process = &history->processes[i];
        const struct tide_heap_status *status = tide_history_heap_status(history, process->row.id);
        const struct tide_history_heap_point *last = NULL, *asked = NULL;
        int64_t most = TIDE_UNKNOWN;
        if (!status)
            continue;
        for (size_t k = 0; k < process->heap_count; k++) {
            last = &process->heap[k];
            asked = last->free_bytes != TIDE_UNKNOWN ? last : asked;
            most = last->live_bytes > most ? last->live_bytes : most;
        }
        name_cell(table, process, name, sizeof name);
        TIDE_ROW(table, HEAP);
    }
    tide_table_end(table);
}

/* --- samples ------------------------------------------------------------------------------------------- */

/* The processes alive at the look that is being written, and their newest samples. */
struct roll {
    struct tide_table *table;
    const struct tide_summary *summary;
    struct tide_sample *newest; /* by process id - 1 */
    size_t *alive;              /* indices, in order of id */
    size_t alive_count;
    size_t tick; /* next tick to write */
};

/* Unknown parts count as 0, unless all are unknown. */
static int64_t rss_of(const struct tide_sample *sample)
{
    const int64_t parts[] = {sample->anon_bytes, sample->file_bytes, sample->shmem_bytes};
    int64_t sum = TIDE_UNKNOWN;

    for (size_t i = 0; i < 3; i++)
        if (parts[i] != TIDE_UNKNOWN)
            sum = tide_bounded_sum(sum == TIDE_UNKNOWN ? 0 : sum, parts[i]);
    return sum;
}

static void write_look(struct roll *roll, const struct tide_tick *tick)
{
    const struct tide_history *history = roll->summary->history;
    int64_t step = tide_summary_step(roll->summary, tick->t_ns);
    size_t kept = 0;

    for (size_t i = 0; i < roll->alive_count; i++) {
        const struct tide_process *process = &history->processes[roll->alive[i]].row;
        const struct tide_sample *sample = &roll->newest[roll->alive[i]];
        if (process->ended_ns != TIDE_UNKNOWN && process->ended_ns < tick->t_ns)
            continue;
        roll->alive[kept++] = roll->alive[i];
        TIDE_ROW(roll->table, SAMPLE);
    }
    roll->alive_count = kept;
}

/* Inserts in order of id. New processes nearly always come in that order. */
static void add_alive(struct roll *roll, size_t process)
{
    size_t at = roll->alive_count++;

    for (; at > 0 && roll->alive[at - 1] > process; at--)
        roll->alive[at] = roll->alive[at - 1];
    roll->alive[at] = process;
}

static int on_sample(void *context, const void *given)
{
    const struct tide_sample *row = given;
    struct roll *roll = context;
    const struct tide_history *history = roll->summary->history;

    while (roll->tick < history->tick_count && history->ticks[roll->tick].id < row->tick)
        write_look(roll, &history->ticks[roll->tick++]);
    if ((uint64_t)row->process > history->process_count)
        return 0;
    struct tide_sample *newest = &roll->newest[row->process - 1];
    if (newest->process == 0)
        add_alive(roll, (size_t)row->process - 1);
    *newest = *row;
    return ferror(roll->table->out) ? 1 : 0;
}

int tide_tables_samples(struct tide_table *table, const struct tide_summary *summary,
                        struct tide_reader *reader, struct tide_err *err)
{
    const struct tide_history *history = summary->history;
    struct roll roll = {.table = table, .summary = summary};
    int result = -1;

    roll.newest = calloc(history->process_count + 1, sizeof *roll.newest);
    roll.alive = calloc(history->process_count + 1, sizeof *roll.alive);
    if (!roll.newest || !roll.alive) {
        tide_err_set(err, "not enough memory to list the samples");
        goto free_roll;
    }
    tide_table_begin(table, "samples", NULL, TIDE_COLUMNS(SAMPLE));
    result = tide_reader_each(reader, TIDE_SCHEMA_SAMPLE, 0, on_sample, &roll, err);
    while (result == 0 && roll.tick < history->tick_count)
        write_look(&roll, &history->ticks[roll.tick++]);
    tide_table_end(table);
    result = result < 0 ? -1 : 0;
free_roll:
    free(roll.newest);
    free(roll.alive);
    return result;
}
