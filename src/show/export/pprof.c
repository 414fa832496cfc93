/*
 * pprof.c - a compressed heap profile in pprof's format (profile.proto), for `go tool pprof` and other
 * readers.
 *
 * The sample types are those of Go's heap profiles: objects and bytes allocated, objects and bytes in use;
 * bytes in use is the default. A Location is an address in a module and has a Line for each function that was
 * inlined there, innermost first; a line of Python is a Location without a module. Modules get consecutive
 * address ranges, because the addresses in a recording are relative to each module.
 */
#include "show/export/export.h"
#include "assess/stacks.h"
#include "base/gzip.h"
#include "base/map.h"
#include "base/proto.h"
#include "base/text.h"

enum {
    MOST_ENTRIES = 1 << 22,
    PAGE = 4096,
    FIRST_ADDRESS = 1 << 20,
    DEPTH_MOST = 4096, /* most frames of a stack in a history */
};

static const size_t PART_MOST = (size_t)1 << 30;
static const int64_t MODULE_MOST = (int64_t)1 << 40; /* bytes; addresses beyond that are put at its end */

/* Field numbers of the messages in profile.proto. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_FUNCTION,
    PROFILE_STRING
};
enum {
    PROFILE_TIME = 9,
    PROFILE_DURATION,
    PROFILE_PERIOD_TYPE,
    PROFILE_PERIOD,
    PROFILE_COMMENT,
    PROFILE_DEFAULT_TYPE
};
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_TEXT, LABEL_NUMBER };
enum { MAPPING_ID = 1, MAPPING_START, MAPPING_LIMIT, MAPPING_OFFSET, MAPPING_FILE };
enum { MAPPING_FUNCTIONS = 7, MAPPING_FILES, MAPPING_LINES, MAPPING_INLINED };
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum {
    FUNCTION_ID = 1,
    FUNCTION_NAME,
    FUNCTION_FILE = 4
}; /* no system_name: pprof would shorten "<module>" to an empty name */

struct module {
    const char *path;
    int64_t end;   /* after the last address that is used */
    int64_t start; /* first address in the profile */
    bool functions, files, inlined;
};

struct profile {
    const struct tide_export *e;
    const struct tide_history *h;
    struct tide_buf head, strings, functions, locations, samples; /* encoded fields of the profile */
    struct tide_buf message, inner;                               /* scratch for one message */
    struct tide_map string_of, function_of, location_of, module_of;
    uint64_t string_count, function_count, location_count;
    struct module *modules;
    size_t module_count;
    bool full; /* a table or the memory is full */
};

/* Writes a message of numbers, each {field, value}. */
#define PUT_NUMBERS(p, out, field, ...)                                                                      \
    put_numbers(p, out, field, (const uint64_t[][2]){__VA_ARGS__},                                           \
                sizeof((const uint64_t[][2]){__VA_ARGS__}) / sizeof(uint64_t[2]))

static void put_numbers(struct profile *p, struct tide_buf *out, unsigned field, const uint64_t (*numbers)[2],
                        size_t count)
{
    tide_buf_clear(&p->inner);
    for (size_t i = 0; i < count; i++)
        tide_proto_number(&p->inner, (unsigned)numbers[i][0], numbers[i][1]);
    tide_proto_message(out, field, &p->inner);
}

/* --- tables -------------------------------------------------------------------------------------------- */

/* Returns the number of a key; a new key gets the next number and sets *ret_new. */
static uint64_t number_of(struct profile *p, struct tide_map *map, uint64_t key, uint64_t *count,
                          bool *ret_new)
{
    uint64_t number;
    *ret_new = false;
    if (tide_map_get(map, key, &number))
        return number;
    if (tide_map_put(map, key, *count)) {
        p->full = true;
        return 0;
    }
    *ret_new = true;
    return (*count)++;
}

/* Returns the index of a text in the table of strings; 0 is "". */
static uint64_t string(struct profile *p, const char *text)
{
    char safe[TIDE_EXPORT_TEXT];
    bool is_new;
    tide_text_shown(text, safe, sizeof safe);
    uint64_t index = number_of(p, &p->string_of, tide_map_text_key(safe), &p->string_count, &is_new);
    if (is_new)
        tide_proto_text(&p->strings, PROFILE_STRING, safe);
    return index;
}

static uint64_t function(struct profile *p, const struct tide_frame *f)
{
    char name[TIDE_EXPORT_TEXT];
    bool is_new;
    const char *file = f->file[0] ? f->file : f->module;
    if (f->function[0])
        snprintf(name, sizeof name, "%s", f->function);
    else
        tide_export_frame(f, name, sizeof name);
    uint64_t numbers[2] = {string(p, name), string(p, file)};
    uint64_t id = number_of(p, &p->function_of, tide_map_key(TIDE_MAP_SEED, numbers, sizeof numbers),
                            &p->function_count, &is_new);
    if (!is_new)
        return id;
    PUT_NUMBERS(p, &p->functions, PROFILE_FUNCTION, {FUNCTION_ID, id}, {FUNCTION_NAME, numbers[0]},
                {FUNCTION_FILE, numbers[1]});
    return id;
}

/* --- modules ------------------------------------------------------------------------------------------- */

/* Returns the frame's module; NULL: it has none. */
static struct module *module_of(struct profile *p, const struct tide_frame *f)
{
    uint64_t count = p->module_count;
    bool is_new;
    if (!f->module[0] || f->python)
        return NULL;
    uint64_t index = number_of(p, &p->module_of, tide_map_text_key(f->module), &count, &is_new);
    if (p->full)
        return NULL;
    if (is_new)
        p->modules[p->module_count++] = (struct module){.path = f->module};
    return &p->modules[index];
}

static int64_t address_in(const struct tide_frame *f)
{
    return f->offset < 0 ? 0 : f->offset < MODULE_MOST ? f->offset : MODULE_MOST - 1;
}

/* The first module is the main program: that of the outermost frame of the first stack. */
static int lay_modules(struct profile *p, struct tide_err *err)
{
    p->modules = tide_arena_take(p->e->arena, p->h->frame_count + 1, sizeof *p->modules);
    if (!p->modules)
        return tide_err_set(err, "not enough memory for %zu frames", p->h->frame_count);
    for (size_t i = 0; i < p->e->count; i++) {
        const int32_t *frames;
        size_t count = tide_history_stack(p->h, p->e->values[i].site->stack, &frames);
        while (count-- > 0) {
            const struct tide_frame *f = &p->h->frames[frames[count]];
            struct module *m = module_of(p, f);
            if (!m)
                continue;
            m->end = address_in(f) >= m->end ? address_in(f) + 1 : m->end;
            m->functions |= f->function[0] != 0;
            m->files |= f->file[0] != 0;
            m->inlined |= f->inlined;
        }
    }
    int64_t next = FIRST_ADDRESS;
    for (size_t i = 0; i < p->module_count; i++) {
        p->modules[i].start = next;
        next += (p->modules[i].end / PAGE + 2) * PAGE;
    }
    return 0;
}

static void put_mappings(struct profile *p, struct tide_buf *out)
{
    for (size_t i = 0; i < p->module_count; i++) {
        const struct module *m = &p->modules[i];
        uint64_t path = string(p, m->path), limit = (uint64_t)(m->start + (m->end / PAGE + 1) * PAGE);
        PUT_NUMBERS(p, out, PROFILE_MAPPING, {MAPPING_ID, i + 1}, {MAPPING_START, (uint64_t)m->start},
                    {MAPPING_LIMIT, limit}, {MAPPING_FILE, path}, {MAPPING_FUNCTIONS, m->functions},
                    {MAPPING_FILES, m->files}, {MAPPING_LINES, m->files}, {MAPPING_INLINED, m->inlined});
    }
}

/* --- samples ------------------------------------------------------------------------------------------- */

/* Returns the location of one address: frames[0] is inlined into the next, and so on; the last is not
 * inlined. count 0: the location of small sites. */
static uint64_t location(struct profile *p, const int32_t *frames, size_t count)
{
    static const struct tide_frame small = {.function = TIDE_EXPORT_SMALL, .file = "", .module = ""};
    bool is_new;
    uint64_t id = number_of(p, &p->location_of, tide_map_key(TIDE_MAP_SEED, frames, count * sizeof *frames),
                            &p->location_count, &is_new);
    if (!is_new)
        return id;
    const struct tide_frame *outer = count ? &p->h->frames[frames[count - 1]] : &small;
    const struct module *m = module_of(p, outer);
    struct tide_buf *body = &p->message;
    tide_buf_clear(body);
    tide_proto_number(body, LOCATION_ID, id);
    if (m) {
        tide_proto_number(body, LOCATION_MAPPING, (uint64_t)(m - p->modules) + 1);
        tide_proto_number(body, LOCATION_ADDRESS, (uint64_t)(m->start + address_in(outer)));
    }
    for (size_t i = 0; i < count || i == 0; i++) {
        const struct tide_frame *f = count ? &p->h->frames[frames[i]] : &small;
        uint64_t of = function(p, f);
        PUT_NUMBERS(p, body, LOCATION_LINE, {LINE_FUNCTION, of},
                    {LINE_LINE, f->line > 0 ? (uint64_t)f->line : 0});
    }
    tide_proto_message(&p->locations, PROFILE_LOCATION, body);
    return id;
}

static void put_label(struct profile *p, struct tide_buf *out, const char *key, const char *text,
                      int64_t number)
{
    uint64_t key_index = string(p, key), text_index = text ? string(p, text) : 0;
    PUT_NUMBERS(p, out, SAMPLE_LABEL, {LABEL_KEY, key_index}, {LABEL_TEXT, text_index},
                {LABEL_NUMBER, text ? 0 : (uint64_t)number});
}

static void put_sample(struct profile *p, const struct tide_export_value *v, uint64_t *ids)
{
    const int32_t *frames;
    size_t count = tide_history_stack(p->h, v->site->stack, &frames), depth = 0;
    for (size_t from = 0, to; from < count && depth < DEPTH_MOST; from = to) {
        to = from + 1;
        while (to < count && p->h->frames[frames[to - 1]].inlined)
            to++;
        ids[depth++] = location(p, frames + from, to - from);
    }
    if (depth == 0)
        ids[depth++] = location(p, NULL, 0);
    uint64_t held[] = {(uint64_t)v->total_blocks, (uint64_t)v->total_bytes, (uint64_t)v->blocks,
                       (uint64_t)v->bytes};
    char process[TIDE_SITE_PROCESS];
    tide_site_process_name(p->h, v->site, process, sizeof process);
    struct tide_buf *body = &p->message;
    tide_buf_clear(body);
    tide_proto_numbers(body, SAMPLE_LOCATION, ids, depth);
    if (p->e->options.growth)
        tide_proto_numbers(body, SAMPLE_VALUE, held + 2, 2);
    else
        tide_proto_numbers(body, SAMPLE_VALUE, held, 4);
    put_label(p, body, "process", process, 0);
    if (v->site->process >= 1 && (size_t)v->site->process <= p->h->process_count)
        put_label(p, body, "pid", NULL, p->h->processes[v->site->process - 1].row.pid);
    put_label(p, body, "kind", tide_site_kind_name(v->site->kind), 0);
    tide_proto_message(&p->samples, PROFILE_SAMPLE, body);
}

static void put_type(struct profile *p, struct tide_buf *out, unsigned field, const char *type,
                     const char *unit)
{
    uint64_t numbers[2] = {string(p, type), string(p, unit)};
    PUT_NUMBERS(p, out, field, {TYPE_TYPE, numbers[0]}, {TYPE_UNIT, numbers[1]});
}

/* Writes the fields that occur once. */
static void put_head(struct profile *p, struct tide_buf *out)
{
    bool growth = p->e->options.growth;
    if (!growth) {
        put_type(p, out, PROFILE_SAMPLE_TYPE, "alloc_objects", "count");
        put_type(p, out, PROFILE_SAMPLE_TYPE, "alloc_space", "bytes");
    }
    put_type(p, out, PROFILE_SAMPLE_TYPE, growth ? "growth_objects" : "inuse_objects", "count");
    put_type(p, out, PROFILE_SAMPLE_TYPE, growth ? "growth_space" : "inuse_space", "bytes");
    int64_t wall_s = p->h->started_wall_s;
    if (wall_s > 0 && wall_s < INT64_MAX / 2000000000)
        tide_proto_number(out, PROFILE_TIME, (uint64_t)(wall_s * 1000000000 + p->e->at_ns));
    tide_proto_number(out, PROFILE_DURATION, (uint64_t)p->e->at_ns);
    double interval = p->e->count ? tide_moment_interval(p->h, p->e->values[0].site->process) : 0;
    put_type(p, out, PROFILE_PERIOD_TYPE, "space", "bytes");
    tide_proto_number(out, PROFILE_PERIOD, interval > 0 && interval < 0x1p62 ? (uint64_t)interval : 0);
    tide_proto_numbers(out, PROFILE_COMMENT, (uint64_t[]){string(p, p->h->command)}, 1);
    tide_proto_number(out, PROFILE_DEFAULT_TYPE, string(p, growth ? "growth_space" : "inuse_space"));
}

/* --- the whole ----------------------------------------------------------------------------------------- */

static int write_parts(struct profile *p, FILE *out, struct tide_err *err)
{
    put_head(p, &p->head);
    put_mappings(p, &p->head);
    const struct tide_buf *parts[] = {&p->head, &p->samples, &p->locations, &p->functions, &p->strings};
    bool failed = p->full;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        failed |= parts[i]->failed;
    return failed ? tide_err_set(err, "not enough memory for a profile of %zu call sites", p->e->count)
                  : tide_gzip_write(out, parts, sizeof parts / sizeof *parts, err);
}

int tide_export_pprof(const struct tide_export *e, FILE *out, struct tide_err *err)
{
    struct profile p = {.e = e, .h = e->history, .function_count = 1, .location_count = 1};
    struct tide_buf *bufs[] = {&p.head,    &p.strings, &p.functions, &p.locations,
                               &p.samples, &p.message, &p.inner};
    struct tide_map *maps[] = {&p.string_of, &p.function_of, &p.location_of, &p.module_of};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        tide_buf_init(bufs[i], PART_MOST);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        tide_map_init(maps[i], MOST_ENTRIES);
    uint64_t *ids = tide_arena_take(e->arena, DEPTH_MOST, sizeof *ids);
    int status = ids ? lay_modules(&p, err) : tide_err_set(err, "not enough memory for a profile");
    string(&p, "");
    for (size_t i = 0; !status && i < e->count; i++)
        put_sample(&p, &e->values[i], ids);
    if (!status)
        status = write_parts(&p, out, err);
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        tide_buf_release(bufs[i]);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        tide_map_release(maps[i]);
    return status;
}
