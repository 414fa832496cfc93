#include "sense/heap_frames.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/infile.h"
#include "base/map.h"
#include "base/text.h"
#include "base/units.h"
#include "sense/heap_sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CRASHES_MOST = 2,        /* server crashes per module: after 1 no debug information, after 2 nothing */
    ANSWERS_AT_ONCE = 65536, /* so that a server faster than we are cannot keep us here */
    SOURCE_BYTES = 240,      /* most bytes kept of a source line */
    PIECE_BYTES = 512,       /* of source read at once */
    PIECES_MOST = 200000,    /* of a file read to find a line */
};

struct module {
    struct tide_symbol_module about; /* owns its path */
    int crashes;
};

struct frame {
    uint64_t address; /* of the call, in the module's own addresses */
    int64_t first_row;
    int32_t module; /* -1: none */
    uint8_t rows;   /* 0: not written yet */
};

struct tide_heap_frames {
    struct tide_symbol_server *server;
    struct frame *frames;
    size_t frame_count, frame_capacity;
    struct module *modules;
    size_t module_count, module_capacity;
    struct tide_map by_key; /* -> frame */
    struct tide_map module_by_key;
    size_t next;   /* all frames before this one were asked for */
    size_t undone; /* without rows */
};

struct tide_heap_frames *tide_heap_frames_new(struct tide_symbol_server *server)
{
    struct tide_heap_frames *frames = calloc(1, sizeof *frames);

    if (!frames)
        return NULL;
    frames->server = server;
    tide_map_init(&frames->by_key, TIDE_HEAP_FRAMES_MOST);
    tide_map_init(&frames->module_by_key, TIDE_HEAP_FRAMES_MODULES);
    return frames;
}

void tide_heap_frames_free(struct tide_heap_frames *frames)
{
    if (!frames)
        return;
    for (size_t i = 0; i < frames->module_count; i++)
        free((char *)frames->modules[i].about.path);
    free(frames->modules);
    free(frames->frames);
    tide_map_release(&frames->by_key);
    tide_map_release(&frames->module_by_key);
    free(frames);
}

static int32_t add_module(struct tide_heap_frames *frames, int64_t pid, const struct tide_heap_range *range)
{
    uint64_t key = tide_map_key(tide_map_key(TIDE_MAP_SEED, range->path, strlen(range->path) + 1),
                                range->build_id, range->build_id_bytes);
    uint64_t found;

    if (!tide_map_get(&frames->module_by_key, key, &found)) {
        if (TIDE_GROW(frames->modules, frames->module_capacity, frames->module_count + 1,
                      TIDE_HEAP_FRAMES_MODULES) != 0)
            return -1;
        char *path = strdup(range->path);
        if (!path || tide_map_put(&frames->module_by_key, key, frames->module_count) != 0) {
            free(path);
            return -1;
        }
        found = frames->module_count++;
        frames->modules[found] =
            (struct module){.about = {.path = path, .build_id_bytes = (uint32_t)range->build_id_bytes}};
        memcpy(frames->modules[found].about.build_id, range->build_id, sizeof range->build_id);
    }
    /* The process that has it mapped most recently is asked. */
    struct tide_symbol_module *about = &frames->modules[found].about;
    about->pid = pid;
    about->start = range->start;
    about->end = range->end;
    return (int32_t)found;
}

/* Returns the frame with that key, adding it if necessary. */
static int32_t add_frame(struct tide_heap_frames *frames, uint64_t key, struct frame frame)
{
    uint64_t found;

    if (tide_map_get(&frames->by_key, key, &found))
        return (int32_t)found;
    if (TIDE_GROW(frames->frames, frames->frame_capacity, frames->frame_count + 1, TIDE_HEAP_FRAMES_MOST) !=
            0 ||
        tide_map_put(&frames->by_key, key, frames->frame_count) != 0)
        return -1;
    frames->frames[frames->frame_count] = frame;
    frames->undone++;
    return (int32_t)frames->frame_count++;
}

int32_t tide_heap_frames_native(struct tide_heap_frames *frames, int64_t pid,
                                const struct tide_heap_range *range, uint64_t return_address)
{
    struct frame frame = {.module = -1, .address = return_address ? return_address - 1 : 0};

    if (range) {
        frame.module = add_module(frames, pid, range);
        if (frame.module < 0)
            return -1;
        frame.address -= range->base;
    }
    struct {
        uint64_t address;
        int64_t module;
    } key = {frame.address, frame.module};
    return add_frame(frames, tide_map_key(TIDE_MAP_SEED, &key, sizeof key), frame);
}

/* --- lines of source ----------------------------------------------------------------------------------- */

static bool is_source(const char *path)
{
    static const char *const endings[] = {".py",  ".pyx", ".pxd", ".pxi", ".c",   ".h",  ".cc",
                                          ".cpp", ".cxx", ".hh",  ".hpp", ".hxx", ".cu", ".cuh",
                                          ".inc", ".tcc", ".rs",  ".go",  ".f90", NULL};
    const char *dot = strrchr(tide_text_last_part(path), '.');
    for (const char *const *e = endings; dot && *e; e++)
        if (!strcmp(dot, *e))
            return true;
    return false;
}

/* A superuser opens only what everybody may read: the program that names the file may have fewer rights. */
static FILE *open_source(const char *path)
{
    struct stat st;
    int fd = tide_infile_open(path, &st);
    bool allowed = fd >= 0 && (geteuid() != 0 || (st.st_mode & S_IROTH));
    FILE *file = allowed ? fdopen(fd, "r") : NULL;
    if (!file && fd >= 0)
        close(fd);
    return file;
}

/* Copies a line (from 1) of a source file without its indentation, cut to fit. Copies nothing if there is no
 * such line. Only reads a regular file with an absolute path and a name like source code, and only so far. */
static void copy_source(const char *path, int64_t line, char *out, size_t size)
{
    if (path[0] != '/' || line <= 0 || !is_source(path))
        return;
    FILE *file = open_source(path);
    if (!file)
        return;
    char text[PIECE_BYTES];
    int64_t at = 1;
    for (size_t pieces = 0; pieces < PIECES_MOST && fgets(text, sizeof text, file); pieces++) {
        size_t len = strcspn(text, "\n");
        if (at == line) {
            size_t from = strspn(text, " \t");
            if (len > from)
                snprintf(out, size, "%.*s", (int)(len - from), text + from);
            break;
        }
        at += text[len] == '\n';
    }
    fclose(file);
}

/* --- rows ---------------------------------------------------------------------------------------------- */

static void write_row(struct tide_heap_look *look, struct frame *frame, const struct tide_frame *row)
{
    int64_t id;
    char line[SOURCE_BYTES] = "";
    struct tide_frame whole = *row;
    whole.source = line;
    copy_source(row->file, row->line, line, sizeof line);
    look->failed |= tide_writer_frame(look->writer, &whole, &id, look->err) != 0;
    if (frame->rows++ == 0) {
        frame->first_row = id;
        look->heap->frames->undone--;
    }
}

/* Does nothing if the frame has its rows. */
static void write_frame(struct tide_heap_look *look, struct frame *frame,
                        const struct tide_symbol_answer *answer)
{
    const struct module *module = frame->module < 0 ? NULL : &look->heap->frames->modules[frame->module];
    struct tide_frame row = {.function = "",
                             .file = "",
                             .line = TIDE_UNKNOWN,
                             .module = module ? module->about.path : "",
                             .offset = TIDE_UNKNOWN};

    if (frame->rows > 0)
        return;
    if (frame->address <= TIDE_LARGEST) /* a larger one is left out */
        row.offset = (int64_t)frame->address;
    if (!answer || answer->count == 0)
        write_row(look, frame, &row);
    for (size_t i = 0; answer && i < answer->count; i++) {
        row.function = answer->frames[i].function;
        row.file = answer->frames[i].file;
        row.line = answer->frames[i].line > 0 ? answer->frames[i].line : TIDE_UNKNOWN;
        row.inlined = answer->frames[i].inlined;
        write_row(look, frame, &row);
    }
}

int32_t tide_heap_frames_python(struct tide_heap_look *look, const char *file, const char *function,
                                uint32_t line)
{
    struct tide_heap_frames *frames = look->heap->frames;
    uint64_t key =
        tide_map_key(tide_map_key(TIDE_MAP_SEED ^ 1, file, strlen(file) + 1), function, strlen(function) + 1);
    int32_t number = add_frame(frames, tide_map_key(key, &line, sizeof line), (struct frame){.module = -2});
    struct tide_frame row = {.function = function,
                             .file = file,
                             .line = line > 0 ? (int64_t)line : TIDE_UNKNOWN,
                             .module = "",
                             .offset = TIDE_UNKNOWN,
                             .python = true};

    if (number >= 0 && frames->frames[number].rows == 0)
        write_row(look, &frames->frames[number], &row);
    return number;
}

/* --- asking -------------------------------------------------------------------------------------------- */

/* The server has room. If it has ended, that is noticed when nothing is heard from it. */
static void ask(struct tide_heap_look *look, size_t number)
{
    struct tide_heap_frames *frames = look->heap->frames;
    struct frame *frame = &frames->frames[number];
    const struct module *module = frame->module < 0 ? NULL : &frames->modules[frame->module];

    if (!module || !frames->server || module->crashes >= CRASHES_MOST)
        write_frame(look, frame, NULL);
    else
        tide_symbol_server_ask(frames->server, number, &module->about, frame->address, module->crashes == 0);
}

static void ask_more(struct tide_heap_look *look)
{
    struct tide_heap_frames *frames = look->heap->frames;

    for (; frames->next < frames->frame_count &&
           (!frames->server || tide_symbol_server_has_room(frames->server));
         frames->next++)
        if (frames->frames[frames->next].rows == 0)
            ask(look, frames->next);
}

static void take(struct tide_heap_look *look, const struct tide_symbol_answer *answer)
{
    struct frame *frame = &look->heap->frames->frames[answer->tag];

    if (!answer->crashed) {
        write_frame(look, frame, answer);
    } else if (frame->rows == 0) {
        look->heap->frames->modules[frame->module].crashes++;
        ask(look, answer->tag);
    }
}

void tide_heap_frames_settle(struct tide_heap_look *look, int timeout_ms)
{
    struct tide_heap_frames *frames = look->heap->frames;
    struct tide_symbol_answer answer;
    int64_t until_ns = tide_clock_ns() + timeout_ms * (int64_t)TIDE_NS_PER_MS;

    for (int n = 0; n < ANSWERS_AT_ONCE; n++) {
        ask_more(look);
        if (frames->undone == 0)
            return;
        int64_t left_ms = (until_ns - tide_clock_ns()) / TIDE_NS_PER_MS;
        int heard = frames->server
                        ? tide_symbol_server_hear(frames->server, left_ms > 0 ? (int)left_ms : 0, &answer)
                        : -1;
        if (heard < 0)
            tide_heap_frames_give_up(look);
        else if (heard > 0)
            take(look, &answer);
        if (heard < 0 || (left_ms <= 0 && (heard == 0 || timeout_ms > 0)))
            return;
    }
}

void tide_heap_frames_give_up(struct tide_heap_look *look)
{
    struct tide_heap_frames *frames = look->heap->frames;

    for (size_t i = 0; frames->undone > 0 && i < frames->frame_count; i++)
        write_frame(look, &frames->frames[i], NULL);
    frames->next = frames->frame_count;
}

size_t tide_heap_frames_rows(const struct tide_heap_frames *frames, int32_t number, int64_t *ret_first)
{
    *ret_first = frames->frames[number].first_row;
    return frames->frames[number].rows;
}
