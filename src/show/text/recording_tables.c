#include "show/text/recording_tables.h"
#include "assess/process_name.h"
#include "base/map.h"
#include "base/text.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Short names for the columns below. */
#define TEXT     TIDE_CELL_TEXT
#define COUNT    TIDE_CELL_COUNT
#define BYTES    TIDE_CELL_BYTES
#define DURATION TIDE_CELL_DURATION
#define REAL     TIDE_CELL_REAL

/* --- processes ----------------------------------------------------------------------------------------- */

static const struct tide_column TREE[] = {
    {"name", "NAME", -23, TEXT},      {"began_s", "BEGAN", 9, DURATION},  {"lasted_s", "LASTED", 9, DURATION},
    {"peak_bytes", "PEAK", 6, BYTES}, {"first_bytes", "FIRST", 6, BYTES}, {"last_bytes", "LAST", 6, BYTES},
    {"pss_bytes", "PSS", 6, BYTES},   {"uss_bytes", "USS", 6, BYTES},     {NULL, NULL, 0, TEXT},
};

static const struct tide_column EACH_PROCESS[] = {
    {"process", "", 0, COUNT},
    {"pid", "", 0, COUNT},
    {"parent", "", 0, COUNT},
    {"name", "", 0, TEXT},
    {"role", "", 0, TEXT},
    {"command", "", 0, TEXT},
    {"began_s", "", 0, DURATION},
    {"ended_s", "", 0, DURATION},
    {"peak_rss_bytes", "", 0, BYTES},
    {"first_rss_bytes", "", 0, BYTES},
    {"last_rss_bytes", "", 0, BYTES},
    {"last_private_bytes", "", 0, BYTES},
    {"pss_bytes", "", 0, BYTES},
    {"uss_bytes", "", 0, BYTES},
    {"shown_name", "", 0, TEXT},
    {NULL, NULL, 0, TEXT},
};

static void each_process(struct tide_table *table, const struct tide_history *history)
{
    char shown[128];
    tide_table_begin(table, "processes", NULL, EACH_PROCESS);
    for (size_t i = 0; i < history->process_count; i++) {
        const struct tide_history_process *process = &history->processes[i];
        const struct tide_history_point *first = process->point_count ? process->points : NULL,
                                        *last = first ? first + process->point_count - 1 : NULL;
        const struct tide_history_smaps *smaps =
            process->smaps_count ? &process->smaps[process->smaps_count - 1] : NULL;
        union tide_cell cells[] = {
            {process->row.id},
            {process->row.pid},
            {process->row.parent ? process->row.parent : TIDE_UNKNOWN},
            {.text = process->row.name},
            {.text = process->row.role},
            {.text = process->row.command},
            {process->row.began_ns},
            {process->row.ended_ns},
            {process->row.peak_rss_bytes},
            {first ? first->rss_bytes : TIDE_UNKNOWN},
            {last ? last->rss_bytes : TIDE_UNKNOWN},
            {last ? last->private_bytes : TIDE_UNKNOWN},
            {smaps ? smaps->pss_bytes : TIDE_UNKNOWN},
            {smaps ? smaps->uss_bytes : TIDE_UNKNOWN},
            {.text = tide_process_short(process, shown, sizeof shown)},
        };
        tide_table_row(table, cells);
    }
    tide_table_end(table);
}

/* "train.py[141495]", "20 x compile_worker", indented. A long name is cut, never its number and the PID. */
static void name_row(const struct tide_history *history, const struct tide_summary_row *row, char *out,
                     size_t size)
{
    char name[TIDE_PROCESS_TEXT];
    int indent = row->depth < 5 ? row->depth : 5, width = -TREE[0].width - indent;

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
    tide_table_begin(table, "processes", title, TREE);
    for (size_t i = 0; i < summary->row_count && (most == 0 || i < most); i++) {
        const struct tide_summary_row *row = &summary->rows[i];
        name_row(summary->history, row, name, sizeof name);
        union tide_cell cells[] = {
            {.text = name},     {row->began_ns},   {row->lasted_ns}, {row->peak_bytes},
            {row->first_bytes}, {row->last_bytes}, {row->pss_bytes}, {row->uss_bytes},
        };
        tide_table_row(table, cells);
    }
    tide_table_end(table);
    if (most > 0 && summary->row_count > most)
        fprintf(table->out, "  and %zu more rows: --what processes\n", summary->row_count - most);
}

/* --- phases, marks, peaks ------------------------------------------------------------------------------ */

void tide_tables_phases(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    static const struct tide_column columns[] = {
        {"name", "PHASE", -28, TEXT},          {"count", "TIMES", 8, COUNT},
        {"unfinished", "", 0, COUNT},          {"total_s", "TOTAL", 9, DURATION},
        {"longest_s", "LONGEST", 9, DURATION}, {"peak_bytes", "PEAK", 7, BYTES},
        {"rise_bytes", "RISE", 7, BYTES},      {NULL, NULL, 0, TEXT},
    };

    tide_table_begin(table, "phases", title, columns);
    for (size_t i = 0; i < summary->phase_count; i++) {
        const struct tide_summary_phase *phase = &summary->phases[i];
        union tide_cell cells[] = {
            {.text = phase->name}, {(int64_t)phase->count}, {(int64_t)phase->unfinished}, {phase->total_ns},
            {phase->longest_ns},   {phase->peak_bytes},     {phase->rise_bytes},
        };
        tide_table_row(table, cells);
    }
    tide_table_end(table);
}

static void count_row(struct tide_table *table, const char *kind, const struct tide_summary_count *count,
                      double rate)
{
    union tide_cell cells[] = {
        {.text = kind}, {.text = ""},   {(int64_t)count->count}, {count->first},
        {TIDE_UNKNOWN}, {TIDE_UNKNOWN}, {count->last},           {.real = rate},
    };

    if (count->count > 0)
        tide_table_row(table, cells);
}

static double rate_of(const struct tide_summary_count *count)
{
    double seconds = (double)(count->last_ns - count->first_ns) / 1e9;

    return seconds > 0 ? ((double)count->last - (double)count->first) / seconds : NAN;
}

void tide_tables_marks(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    static const struct tide_column columns[] = {
        {"kind", "MARK", -7, TEXT},   {"name", "NAME", -16, TEXT},  {"count", "TIMES", 9, COUNT},
        {"first", "FIRST", 9, COUNT}, {"least", "LEAST", 7, COUNT}, {"most", "MOST", 7, COUNT},
        {"last", "LAST", 9, COUNT},   {"per_s", "PER S", 7, REAL},  {NULL, NULL, 0, TEXT},
    };
    /* Gauges are bytes, the others counts. The keys are the same, so that the CSV has one header. */
    static const struct tide_column bytes[] = {
        {"kind", "MARK", -7, TEXT},   {"name", "NAME", -16, TEXT},  {"count", "TIMES", 9, COUNT},
        {"first", "FIRST", 9, BYTES}, {"least", "LEAST", 7, BYTES}, {"most", "MOST", 7, BYTES},
        {"last", "LAST", 9, BYTES},   {"per_s", "PER S", 7, REAL},  {NULL, NULL, 0, TEXT},
    };

    tide_table_begin(table, "marks", title, columns);
    count_row(table, "step", &summary->steps, summary->steps_per_s);
    count_row(table, "epoch", &summary->epochs, rate_of(&summary->epochs));
    count_row(table, "items", &summary->items, rate_of(&summary->items));
    table->columns = bytes;
    for (size_t i = 0; i < summary->gauge_count; i++) {
        const struct tide_summary_gauge *gauge = &summary->gauges[i];
        union tide_cell cells[] = {
            {.text = "gauge"}, {.text = gauge->name}, {(int64_t)gauge->count}, {gauge->first},
            {gauge->least},    {gauge->most},         {gauge->last},           {.real = NAN},
        };
        tide_table_row(table, cells);
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
    static const struct tide_column columns[] = {
        {"name", "PEAK OF", -28, TEXT}, {"bytes", "BYTES", 7, BYTES},      {"t_s", "AT", 9, DURATION},
        {"step", "STEP", 9, COUNT},     {"processes", "PROCS", 6, COUNT},  {"phase", "PHASE", -13, TEXT},
        {"rss_bytes", "", 0, BYTES},    {"pss_known_bytes", "", 0, BYTES}, {NULL, NULL, 0, TEXT},
    };
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
    tide_table_begin(table, "peaks", title, columns);
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
        const struct tide_summary_peak *peak = peaks[i].peak;
        union tide_cell cells[] = {
            {.text = peaks[i].name}, {peak->bytes},         {peak->t_ns},      {peak->step},
            {peak->processes},       {.text = peak->phase}, {peak->rss_bytes}, {peak->pss_known_bytes},
        };
        if (peak->bytes != TIDE_UNKNOWN)
            tide_table_row(table, cells);
    }
    tide_table_end(table);
    print_pss_share(table, &summary->counted);
}

/* --- ticks, limits, devices, notes --------------------------------------------------------------------- */

void tide_tables_ticks(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    static const struct tide_column columns[] = {
        {"t_s", "T", 9, DURATION},
        {"step", "STEP", 10, COUNT},
        {"processes", "PROCS", 6, COUNT},
        {"rss_bytes", "RSS", 8, BYTES},
        {"counted_bytes", "ONCE", 8, BYTES},
        {"pss_known_bytes", "", 0, BYTES},
        {"cgroup_bytes", "CGROUP", 8, BYTES},
        {"cgroup_peak_bytes", "", 0, BYTES},
        {"pressure_ppm", "", 0, COUNT},
        {"available_bytes", "HOST FREE", 10, BYTES},
        {NULL, NULL, 0, TEXT},
    };

    tide_table_begin(table, "ticks", title, columns);
    for (size_t i = 0; i < summary->history->tick_count; i++) {
        const struct tide_tick *tick = &summary->history->ticks[i];
        union tide_cell cells[] = {
            {tick->t_ns},          {tide_summary_step(summary, tick->t_ns)},
            {tick->processes},     {tick->rss_bytes},
            {tick->counted_bytes}, {tick->pss_known_bytes},
            {tick->cgroup_bytes},  {tick->cgroup_peak_bytes},
            {tick->pressure_ppm},  {tick->available_bytes},
        };
        tide_table_row(table, cells);
    }
    tide_table_end(table);
}

void tide_tables_limits(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    static const struct tide_column columns[] = {
        {"t_s", "FROM", 9, DURATION},
        {"bytes", "BYTES", 8, BYTES},
        {"name", "LIMIT", -1, TEXT},
        {NULL, NULL, 0, TEXT},
    };

    tide_table_begin(table, "limits", title, columns);
    for (size_t i = 0; i < summary->history->limit_count; i++) {
        const struct tide_limit *limit = &summary->history->limits[i];
        union tide_cell cells[] = {{limit->t_ns}, {limit->bytes}, {.text = limit->name}};
        tide_table_row(table, cells);
    }
    tide_table_end(table);
}

void tide_tables_notes(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    static const struct tide_column columns[] = {
        {"t_s", "AT", 9, DURATION},
        {"text", "NOTE", -1, TEXT},
        {NULL, NULL, 0, TEXT},
    };

    tide_table_begin(table, "notes", title, columns);
    for (size_t i = 0; i < summary->history->note_count; i++) {
        const struct tide_note *note = &summary->history->notes[i];
        union tide_cell cells[] = {{note->t_ns}, {.text = note->text}};
        tide_table_row(table, cells);
    }
    tide_table_end(table);
}

struct gpu_use {
    int64_t device, process, peak_bytes, peak_ns, last_bytes;
};

static int compare_uses(const void *a, const void *b)
{
    const struct gpu_use *x = a, *y = b;

    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    /* The whole device (0) comes first, unknown processes (-1) last. */
    return ((uint64_t)x->process > (uint64_t)y->process) - ((uint64_t)x->process < (uint64_t)y->process);
}

/* Returns peak and last use of each device and of each process on it; caller frees. NULL: out of memory. */
static struct gpu_use *gpu_uses(const struct tide_history *history, size_t *ret_count)
{
    enum { MOST = 4096 };
    struct gpu_use *uses = calloc(MOST, sizeof *uses);
    struct tide_map index;
    size_t count = 0;

    tide_map_init(&index, MOST);
    for (size_t i = 0; uses && i < history->gpu_count; i++) {
        const struct tide_history_gpu *gpu = &history->gpu[i];
        uint64_t key = (uint64_t)gpu->device << 40 ^ (uint64_t)(gpu->process + 1), at;
        if (!tide_map_get(&index, key, &at)) {
            if (count == MOST || tide_map_put(&index, key, count) != 0)
                continue;
            at = count++;
            uses[at] = (struct gpu_use){gpu->device, gpu->process, TIDE_UNKNOWN, 0, 0};
        }
        if (gpu->bytes > uses[at].peak_bytes) {
            uses[at].peak_bytes = gpu->bytes;
            uses[at].peak_ns = gpu->t_ns;
        }
        uses[at].last_bytes = gpu->bytes;
    }
    tide_map_release(&index);
    if (uses)
        qsort(uses, count, sizeof *uses, compare_uses);
    *ret_count = uses ? count : 0;
    return uses;
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
    static const struct tide_column columns[] = {
        {"device", "GPU", 4, COUNT},      {"name", "MODEL", -24, TEXT},     {"process", "", 0, COUNT},
        {"user", "USER", -22, TEXT},      {"peak_bytes", "PEAK", 6, BYTES}, {"peak_t_s", "", 0, DURATION},
        {"last_bytes", "LAST", 6, BYTES}, {"total_bytes", "OF", 6, BYTES},  {NULL, NULL, 0, TEXT},
    };
    const struct tide_history *history = summary->history;
    size_t count;
    struct gpu_use *uses = gpu_uses(history, &count);
    char user[96];

    tide_table_begin(table, "gpu", title, columns);
    for (size_t i = 0; i < count; i++) {
        const struct tide_gpu_device *device = find_device(history, uses[i].device);
        if (uses[i].process == 0)
            snprintf(user, sizeof user, "all processes");
        else if (uses[i].process == TIDE_UNKNOWN)
            snprintf(user, sizeof user, "unknown process");
        else
            name_cell(table, &history->processes[uses[i].process - 1], user, sizeof user);
        union tide_cell cells[] = {
            {uses[i].device},     {.text = device ? device->name : NULL},
            {uses[i].process},    {.text = user},
            {uses[i].peak_bytes}, {uses[i].peak_ns},
            {uses[i].last_bytes}, {device ? device->total_bytes : TIDE_UNKNOWN},
        };
        tide_table_row(table, cells);
    }
    tide_table_end(table);
    free(uses);
}

/* --- the heap ------------------------------------------------------------------------------------------ */

void tide_tables_heap(struct tide_table *table, const struct tide_summary *summary, const char *title)
{
    static const struct tide_column columns[] = {
        {"process", "", 0, COUNT},
        {"name", "PROCESS", -22, TEXT},
        {"live_peak_bytes", "MOST", 6, BYTES},
        {"live_last_bytes", "LIVE", 6, BYTES},
        {"free_bytes", "KEPT", 6, BYTES},
        {"free_blocks", "PIECES", 9, COUNT},
        {"top_bytes", "", 0, BYTES},
        {"state", "SEEN", -1, TEXT},
        {NULL, NULL, 0, TEXT},
    };
    const struct tide_history *history = summary->history;
    char name[96];

    tide_table_begin(table, "heap", title, columns);
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
        union tide_cell cells[] = {
            {process->row.id},
            {.text = name},
            {most},
            {last ? last->live_bytes : TIDE_UNKNOWN},
            {asked ? asked->free_bytes : TIDE_UNKNOWN},
            {asked ? asked->free_blocks : TIDE_UNKNOWN},
            {asked ? asked->top_bytes : TIDE_UNKNOWN},
            {.text = status->state},
        };
        tide_table_row(table, cells);
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
        union tide_cell cells[] = {
            {step},
            {tick->t_ns},
            {process->id},
            {process->pid},
            {.text = process->name},
            {rss_of(sample)},
            {sample->anon_bytes},
            {sample->file_bytes},
            {sample->shmem_bytes},
            {sample->swap_bytes},
            {sample->huge_bytes},
            {sample->threads},
            {sample->asked_bytes},
            {sample->mapped_bytes},
        };
        tide_table_row(roll->table, cells);
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
    static const struct tide_column columns[] = {
        {"step", "STEP", 9, COUNT},
        {"t_s", "T", 8, DURATION},
        {"process", "", 0, COUNT},
        {"pid", "PID", 8, COUNT},
        {"name", "NAME", -16, TEXT},
        {"rss_bytes", "RSS", 6, BYTES},
        {"anon_bytes", "ANON", 6, BYTES},
        {"file_bytes", "FILE", 6, BYTES},
        {"shmem_bytes", "SHMEM", 6, BYTES},
        {"swap_bytes", "SWAP", 5, BYTES},
        {"huge_bytes", "", 0, BYTES},
        {"threads", "", 0, COUNT},
        {"asked_bytes", "", 0, BYTES},
        {"mapped_bytes", "", 0, BYTES},
        {NULL, NULL, 0, TEXT},
    };
    const struct tide_history *history = summary->history;
    struct roll roll = {.table = table, .summary = summary};
    int result = -1;

    roll.newest = calloc(history->process_count + 1, sizeof *roll.newest);
    roll.alive = calloc(history->process_count + 1, sizeof *roll.alive);
    if (!roll.newest || !roll.alive) {
        tide_err_set(err, "not enough memory to list the samples");
        goto free_roll;
    }
    tide_table_begin(table, "samples", NULL, columns);
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
