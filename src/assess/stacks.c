#include "assess/stacks.h"

#include "assess/process_name.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

static bool is_start_up(const struct tide_frame *f)
{
    static const char *const names[] = {"_start",
                                        "__libc_start_main_impl",
                                        "__libc_start_call_main",
                                        "__libc_start_main",
                                        "start_thread",
                                        "clone3",
                                        "clone",
                                        "__clone3",
                                        "__GI___clone3",
                                        "__GI___clone",
                                        NULL};
    for (const char *const *n = names; *n; n++)
        if (!strcmp(f->function, *n))
            return true;
    return !strncmp(f->file, "<frozen ", 8);
}

/* Where packages put what they install, and the paths that distributions build under. */
static bool is_library_path(const char *path)
{
    static const char *const starts[] = {"/usr/", "/lib", "/build/", "./", "../", NULL};
    static const char *const parts[] = {"/site-packages/", "/dist-packages/", "/lib/python3.", NULL};
    for (const char *const *s = starts; *s; s++)
        if (!strncmp(path, *s, strlen(*s)))
            return true;
    for (const char *const *p = parts; *p; p++)
        if (strstr(path, *p))
            return true;
    return false;
}

/* True for what a distribution or its like installed, whatever the path that it was built under. */
static bool is_installed(const char *module)
{
    return !strncmp(module, "/lib", 4) ||
           (!strncmp(module, "/usr/", 5) && strncmp(module, "/usr/local/", 11) != 0);
}

static bool is_interpreter(const struct tide_frame *f)
{
    const char *name = tide_text_last_part(f->module);
    return !f->python && (!strncmp(name, "python", 6) || !strncmp(name, "libpython", 9));
}

/* How interesting a frame is to a reader. LEAST: it has no name, or is the interpreter between Python and a
 * library, or the inside of a container of C++ or Rust. */
enum interest { OWN, PYTHON_LIBRARY, NATIVE_LIBRARY, LEAST, NONE };

static enum interest interest_of(const struct tide_frame *f)
{
    if (is_start_up(f) || (!f->function[0] && !f->file[0] && !f->module[0]))
        return NONE;
    if (is_interpreter(f) || !f->function[0] || strstr(f->file, "/include/c++/") ||
        !strncmp(f->file, "/rustc/", strlen("/rustc/")))
        return LEAST;
    bool own = f->file[0] ? !is_library_path(f->file)
                          : !is_library_path(f->module) && !strstr(tide_text_last_part(f->module), ".so");
    own = own && (f->python || !is_installed(f->module));
    return own ? OWN : f->python ? PYTHON_LIBRARY : NATIVE_LIBRARY;
}

bool tide_frame_is_own(const struct tide_frame *frame)
{
    return interest_of(frame) == OWN;
}

const struct tide_frame *tide_stack_own(const struct tide_history *h, int64_t stack, size_t *ret_depth)
{
    const int32_t *frames;
    size_t count = tide_history_stack(h, stack, &frames);
    for (size_t i = *ret_depth; i < count; i++)
        if (tide_frame_is_own(&h->frames[frames[i]])) {
            *ret_depth = i;
            return &h->frames[frames[i]];
        }
    return NULL;
}

bool tide_stack_is_asked_for(const struct tide_history *h, int64_t stack)
{
    const int32_t *frames;
    size_t count = tide_history_stack(h, stack, &frames);
    for (size_t i = 0; i < count; i++)
        if (h->frames[frames[i]].python || tide_frame_is_own(&h->frames[frames[i]]))
            return true;
    return false;
}

bool tide_stack_is_of_hook(const struct tide_history *h, int64_t stack)
{
    const int32_t *frames;
    size_t count = tide_history_stack(h, stack, &frames);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(tide_text_last_part(h->frames[frames[i]].module), "libtidemark-hook.so"))
            return true;
    return false;
}

enum { LOOKED_AT = 512 }; /* frames of a stack, innermost first */

struct choice {
    enum interest of[LOOKED_AT];
    bool taken[LOOKED_AT];
    size_t frame_count, count, most;
    size_t of_natives; /* of `count` */
};

/* Takes the innermost frames of a kind that are not taken yet, at most `limit`. */
static void take(struct choice *c, enum interest interest, size_t limit)
{
    for (size_t i = 0; i < c->frame_count && limit && c->count < c->most; i++)
        if (c->of[i] == interest && !c->taken[i]) {
            c->taken[i] = true;
            c->count++;
            c->of_natives += interest == NATIVE_LIBRARY;
            limit--;
        }
}

const struct tide_frame *tide_stack_line(const struct tide_history *h, int64_t stack)
{
    const struct tide_frame *shown[TIDE_STACK_SHOWN];
    return tide_stack_choose(h, stack, 1, shown) ? shown[0] : NULL;
}

size_t tide_stack_choose(const struct tide_history *h, int64_t stack, size_t most,
                         const struct tide_frame *out[static TIDE_STACK_SHOWN])
{
    const int32_t *frames;
    struct choice c = {.most = most < TIDE_STACK_SHOWN ? most : TIDE_STACK_SHOWN};
    c.frame_count = tide_history_stack(h, stack, &frames);
    c.frame_count = c.frame_count < LOOKED_AT ? c.frame_count : LOOKED_AT;
    for (size_t i = 0; i < c.frame_count; i++)
        c.of[i] = interest_of(&h->frames[frames[i]]);
    take(&c, OWN, c.most > 3 ? c.most - 2 : 1);
    take(&c, NATIVE_LIBRARY, 1);
    take(&c, OWN, c.most);
    take(&c, PYTHON_LIBRARY, c.most);
    bool has_source = c.count > c.of_natives;
    take(&c, NATIVE_LIBRARY, c.most);
    if (!has_source)
        take(&c, LEAST, c.most);
    size_t count = 0;
    for (size_t i = c.frame_count; i-- > 0;)
        if (c.taken[i])
            out[count++] = &h->frames[frames[i]];
    return count;
}

const char *tide_site_kind_name(enum tide_site_kind kind)
{
    static const char *const names[] = {TIDE_SITE_LIST(TIDE_KIND_WORD)};
    return kind > 0 && kind < TIDE_SITE_KINDS ? names[kind] : "unknown";
}

bool tide_site_is_on_device(const struct tide_history_site *site)
{
    return site->kind == TIDE_SITE_CUDA || site->kind == TIDE_SITE_TENSOR;
}

void tide_site_process_name(const struct tide_history *h, const struct tide_history_site *site, char *out,
                            size_t size)
{
    const struct tide_history_process *p = tide_history_process(h, site->process);
    out[0] = 0;
    if (p)
        tide_process_short(p, out, size);
}

bool tide_sites_unseen(const struct tide_history *h, char *out, size_t size)
{
    size_t largest = 0;
    for (size_t i = 1; i < h->process_count; i++)
        if (h->processes[i].row.peak_rss_bytes > h->processes[largest].row.peak_rss_bytes)
            largest = i;
    if (h->heap_status_count == 0 || h->process_count == 0)
        return false;
    const struct tide_history_process *p = &h->processes[largest];
    const struct tide_heap_status *status = tide_history_heap_status(h, p->row.id);
    bool went_on_unseen = status && !strcmp(status->state, TIDE_HEAP_STATE_GONE) &&
                          tide_history_last_program(h, p) == p; /* the tree did not tell it from the next */
    if (status && !went_on_unseen)
        return false;
    char name[TIDE_SITE_PROCESS];
    snprintf(
        out, size,
        "%s: it is statically linked, setuid, owned by another user, or started without the LD_PRELOAD of --heap",
        tide_process_short(p, name, sizeof name));
    return true;
}

const char *tide_sites_refusal(const struct tide_history *h)
{
    for (size_t i = 0; i < h->heap_status_count; i++) {
        const char *state = h->heap_status[i].state;
        if (!tide_heap_is_seen(&h->heap_status[i]) && strcmp(state, TIDE_HEAP_STATE_STARTING) != 0 &&
            strcmp(state, TIDE_HEAP_STATE_GONE) != 0)
            return state;
    }
    for (size_t i = 0; i < h->note_count; i++)
        if (!strncmp(h->notes[i].text, TIDE_NOTE_UNSEEN, strlen(TIDE_NOTE_UNSEEN)))
            return h->notes[i].text + strlen(TIDE_NOTE_UNSEEN);
    return NULL;
}

bool tide_sites_were_asked(const struct tide_history *h)
{
    return h->heap_status_count > 0 || tide_sites_refusal(h);
}

int tide_sites_missing(const struct tide_history *h, struct tide_err *err)
{
    const char *refusal = tide_sites_refusal(h);
    if (refusal)
        return tide_err_set(err, "the recording has no call sites: %s", TIDE_SHOWN(refusal, 240));
    char unseen[280];
    if (tide_sites_unseen(h, unseen, sizeof unseen))
        return tide_err_set(err, "the recording has no call sites of %s", unseen);
    tide_err_set(err, "the recording has no call sites%s",
                 h->heap_status_count ? ": the program ended before an allocation was sampled" : "");
    return tide_err_hint(err, h->heap_status_count
                                  ? "'tidemark run --heap-interval 4K -- PROG' samples more of them"
                                  : "record them with 'tidemark run --heap -- PROG'");
}
