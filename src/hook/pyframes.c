/*
 * pyframes.c - reads the interpreter's frames by their layout (pyframes.h).
 */
#include "hook/pyframes.h"
#include "hook/latch.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LINES_BITS = 13, LINE_MASK = 0xffffff, CHECKED_FRAMES = 64, NAME_CHARS = 500 };
enum { WINDOW = 1024, WINDOWS = 2, LINES_MOST = 1 << 20, RUN_MOST = 4096 };

/* The format of the instruction pointer and of the line table. */
enum lines { LNOTAB, LINETABLE, LOCATIONS };

/* Offsets in bytes; -1: this version has no such field. */
struct layout {
    uint32_t version; /* PY_VERSION_HEX >> 16 */
    enum lines lines;
    int current;     /* thread state: the running frame, or the C frame that points to it */
    int cframe;      /* in that C frame: the running frame */
    int previous;    /* frame: its caller */
    int code;        /* frame: its code object */
    int instruction; /* frame: pointer to the current instruction; before 3.11 its 32-bit index */
    int entry;       /* frame: a byte that is 1 in the outermost frame of a run of the loop (3.11) */
    int owner;       /* frame: a byte that is 3 in a frame that only ends a run, without code (from 3.12) */
    int file, name, first_line, line_table; /* code */
    int code_bytes;     /* code: where its instructions begin; before 3.11, a bytes object with them */
    int ascii, compact; /* text object: where the characters of the two forms begin */
};

static const struct layout layouts[] = {
    {0x0309, LNOTAB, 24, -1, 24, 32, 104, -1, -1, 104, 112, 40, 120, 48, 48, 72},
    {0x030a, LINETABLE, 24, -1, 24, 32, 96, -1, -1, 104, 112, 40, 120, 48, 48, 72},
    {0x030b, LOCATIONS, 56, 8, 48, 32, 56, 68, -1, 112, 128, 72, 136, 184, 48, 72},
    {0x030c, LOCATIONS, 56, 0, 8, 0, 56, -1, 70, 112, 128, 68, 136, 192, 40, 56},
    {0x030d, LOCATIONS, 72, -1, 8, 0, 56, -1, 70, 112, 128, 68, 136, 200, 40, 56},
};

/* The same in every version. */
enum {
    OBJECT_TYPE = 8,
    OBJECT_SIZE = 16,
    BYTES_AT = 32,
    TEXT_LENGTH = 16,
    TEXT_STATE = 32,
    OWNED_BY_C = 3,
    STATE_COMPACT = 0x20,
    STATE_ASCII = 0x40
};

/* One interpreter per process. `ready` is set last. */
static struct {
    atomic_bool ready, checked, failed;
    const struct layout *layout;
    uintptr_t start, end;           /* the interpreter's object */
    uintptr_t loop_start, loop_end; /* _PyEval_EvalFrameDefault */
    uintptr_t code_type, text_type, bytes_type;
    void *(*this_thread)(void); /* the calling thread's state, which may have been freed */
    void *(*current)(void);     /* the lock holder's state; from 3.12 on only if that is the calling thread */
    int (*is_ending)(void);     /* once true, the states of other threads are freed */
    atomic_uint begun_by;       /* the first thread that was seen */
} python;

enum { NOBODY, FIRST_THREAD, ANOTHER };

/* Lines that were decoded: a hash of code and instruction, with the line in its low bits. */
static _Alignas(4096) _Atomic uint64_t line_cache[1 << LINES_BITS];

/* ---- finding the interpreter */

/* 3.11 and later export their version. The two before are told apart by functions that were new in them. */
static uint32_t version_of(const struct tide_object *object)
{
    uintptr_t version = tide_object_symbol(object, "Py_Version", NULL);
    if (version)
        return *(const uint32_t *)version;
    if (tide_object_symbol(object, "Py_NewRef", NULL))
        return 0x030a0000;
    return tide_object_symbol(object, "PyFrame_GetBack", NULL) ? 0x03090000 : 0x03080000;
}

static const struct layout *layout_of(uint32_t version)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].version == version >> 16)
            return &layouts[i];
    return NULL;
}

static uintptr_t either_symbol(const struct tide_object *object, const char *name, const char *older)
{
    uintptr_t found = tide_object_symbol(object, name, NULL);
    return found ? found : tide_object_symbol(object, older, NULL);
}

void tide_pyframes_consider(const struct tide_object *object)
{
    if (atomic_load(&python.ready))
        return;
    uint64_t bytes;
    uintptr_t loop = tide_object_symbol(object, "_PyEval_EvalFrameDefault", &bytes);
    if (!loop)
        return;
    uint32_t version = version_of(object);
    tide_ledger_setup.python_version = version;
    python.layout = layout_of(version);
    python.start = object->start;
    python.end = object->end;
    python.loop_start = loop;
    python.loop_end = loop + bytes;
    python.code_type = tide_object_symbol(object, "PyCode_Type", NULL);
    python.text_type = tide_object_symbol(object, "PyUnicode_Type", NULL);
    python.bytes_type = tide_object_symbol(object, "PyBytes_Type", NULL);
    python.this_thread = (void *(*)(void))tide_object_symbol(object, "PyGILState_GetThisThreadState", NULL);
    python.current =
        (void *(*)(void))either_symbol(object, "PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet");
    python.is_ending = (int (*)(void))either_symbol(object, "Py_IsFinalizing", "_Py_IsFinalizing");
    bool usable = python.layout && python.code_type && python.text_type && python.bytes_type &&
                  python.this_thread && python.current && python.is_ending;
    tide_ledger_setup.python = usable ? TIDE_HEAP_PYTHON_ON : TIDE_HEAP_PYTHON_VERSION;
    tide_wiped_count(line_cache, sizeof line_cache);
    atomic_store(&python.failed, !usable);
    atomic_store(&python.ready, true);
}

void tide_pyframes_unloaded(void)
{
    struct tide_object object;
    if (atomic_load(&python.ready) &&
        (!tide_object_find(python.loop_start, &object) || object.start != python.start))
        atomic_store(&python.failed, true);
}

/* ---- the self-check, which reads through the kernel */

static bool peek(uintptr_t at, int offset, void *value, size_t bytes)
{
    struct iovec here = {.iov_base = value, .iov_len = bytes};
    struct iovec there = {.iov_base = (void *)(at + (uintptr_t)offset), .iov_len = bytes};
    return at && process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

static bool has_type(uintptr_t object, uintptr_t type)
{
    uintptr_t found;
    return peek(object, OBJECT_TYPE, &found, sizeof found) && found == type;
}

static bool check_text(uintptr_t code, int offset)
{
    uintptr_t text, length;
    uint32_t state;
    return peek(code, offset, &text, sizeof text) && has_type(text, python.text_type) &&
           peek(text, TEXT_LENGTH, &length, sizeof length) && length < 65536 &&
           peek(text, TEXT_STATE, &state, sizeof state) && state & STATE_COMPACT;
}

static bool check_instruction(const struct layout *l, uintptr_t frame, uintptr_t code)
{
    uintptr_t instruction, count, instructions;
    int32_t index;
    if (l->lines != LOCATIONS)
        return peek(frame, l->instruction, &index, sizeof index) && index >= -1 &&
               peek(code, l->code_bytes, &instructions, sizeof instructions) &&
               has_type(instructions, python.bytes_type) &&
               peek(instructions, OBJECT_SIZE, &count, sizeof count) && (uint64_t)(index + 1) <= count;
    return peek(frame, l->instruction, &instruction, sizeof instruction) &&
           peek(code, OBJECT_SIZE, &count, sizeof count) && count < UINT32_MAX &&
           instruction - (code + (uintptr_t)l->code_bytes) + 2 <= 2 * count + 2;
}

static bool check_code(const struct layout *l, uintptr_t code)
{
    uintptr_t line_table;
    int32_t first_line;
    return has_type(code, python.code_type) && check_text(code, l->file) && check_text(code, l->name) &&
           peek(code, l->line_table, &line_table, sizeof line_table) &&
           has_type(line_table, python.bytes_type) &&
           peek(code, l->first_line, &first_line, sizeof first_line) && first_line >= 0 &&
           first_line < LINE_MASK;
}

/* Follows the chain of frames from the thread state. 1: good, with at least one frame that has code; 0: no
 * such frame yet; -1: not what it should be. */
static int check_chain(uintptr_t thread)
{
    const struct layout *l = python.layout;
    uintptr_t frame;
    int frames = 0;
    if (!peek(thread, l->current, &frame, sizeof frame))
        return -1;
    if (l->cframe >= 0 && frame && !peek(frame, l->cframe, &frame, sizeof frame))
        return -1;
    for (int i = 0; frame && i < CHECKED_FRAMES; i++) {
        uint8_t owner = 0, entry = 0;
        uintptr_t code;
        if ((l->owner >= 0 && (!peek(frame, l->owner, &owner, 1) || owner > OWNED_BY_C)) ||
            (l->entry >= 0 && (!peek(frame, l->entry, &entry, 1) || entry > 1)))
            return -1;
        if (owner != OWNED_BY_C) {
            if (!peek(frame, l->code, &code, sizeof code) || !check_code(l, code) ||
                !check_instruction(l, frame, code))
                return -1;
            frames++;
        }
        if (!peek(frame, l->previous, &frame, sizeof frame))
            return -1;
    }
    return frames > 0;
}

/* True if the layout can be trusted, which is checked once. */
static bool is_trusted(struct tide_heap_head *table, uintptr_t thread)
{
    if (atomic_load_explicit(&python.checked, memory_order_acquire))
        return true;
    int good = check_chain(thread);
    if (good > 0) {
        atomic_store(&python.checked, true);
    } else if (good < 0 && !python.is_ending()) {
        atomic_store(&python.failed, true);
        tide_ledger_setup.python = TIDE_HEAP_PYTHON_CHECK;
        atomic_store(&table->python, TIDE_HEAP_PYTHON_CHECK);
    }
    return good > 0;
}

/* ---- reading */

/* Copies of the memory that was last read through the kernel. */
struct windows {
    unsigned turn;
    uintptr_t at[WINDOWS];
    uint8_t bytes[WINDOWS][WINDOW];
};

struct merge {
    struct tide_heap_head *table;
    uintptr_t frame; /* the next Python frame, or 0 */
    uint64_t *out;
    size_t count, room, run;
    bool full, failed;
    struct windows *guarded; /* not NULL: memory is read through the kernel */
};

/* Returns the bytes at this address, which is aligned to their number. Zeros if they cannot be read. */
static __attribute__((noinline)) const void *through_kernel(struct merge *m, uintptr_t at)
{
    static const uint64_t nothing;
    uintptr_t from = at & ~(uintptr_t)(WINDOW - 1);
    struct windows *w = m->guarded;
    for (unsigned i = 0; i < WINDOWS; i++)
        if (w->at[i] == from && from)
            return w->bytes[i] + (at - from);
    unsigned i = w->turn++ % WINDOWS;
    w->at[i] = 0;
    if (m->failed || !peek(from, 0, w->bytes[i], WINDOW)) {
        m->failed = true;
        return &nothing;
    }
    w->at[i] = from;
    return w->bytes[i] + (at - from);
}

/* Reads are aligned, so that none crosses the end of a window, which is aligned too. */
static inline const void *readable(struct merge *m, uintptr_t at, int offset, uintptr_t bytes)
{
    at += (uintptr_t)offset;
    return m->guarded ? through_kernel(m, at & ~(bytes - 1)) : (const void *)at;
}

static inline uintptr_t word_at(struct merge *m, uintptr_t at, int offset)
{
    return *(const uintptr_t *)readable(m, at, offset, sizeof(uintptr_t));
}

static inline uint32_t half_at(struct merge *m, uintptr_t at, int offset)
{
    return *(const uint32_t *)readable(m, at, offset, sizeof(uint32_t));
}

static inline uint8_t byte_at(struct merge *m, uintptr_t at, int offset)
{
    return *(const uint8_t *)readable(m, at, offset, 1);
}

/* A code object is always plain memory. Its frame holds a reference to it until the thread returns from the
 * frame, and nobody takes that reference away, not even an interpreter that ends and forgets the frame. */
static inline uintptr_t code_word(uintptr_t code, int offset)
{
    return *(const uintptr_t *)(code + (uintptr_t)offset);
}

static inline uint32_t code_half(uintptr_t code, int offset)
{
    return *(const uint32_t *)(code + (uintptr_t)offset);
}

/* ---- lines */

struct bytes {
    struct merge *m;
    uintptr_t at, end;
};

static uint8_t take(struct bytes *b)
{
    return byte_at(b->m, b->at++, 0);
}

static uint32_t take_varint(struct bytes *b)
{
    uint32_t value = 0;
    for (unsigned shift = 0; b->at < b->end; shift += 6) {
        uint8_t byte = take(b);
        if (shift < 30)
            value |= (uint32_t)(byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return value;
}

static int32_t take_signed(struct bytes *b)
{
    uint32_t value = take_varint(b);
    return value & 1 ? -(int32_t)(value >> 1) : (int32_t)(value >> 1);
}

/* From 3.11: one entry per run of instructions. `unit` counts two-byte units. */
static uint32_t line_of_locations(struct bytes b, uint32_t line, uint32_t unit)
{
    uint32_t at = 0;
    while (b.at < b.end) {
        uint8_t first = take(&b);
        unsigned kind = first >> 3 & 15;
        bool known = kind != 15;
        if (kind == 14 || kind == 13)
            line += (uint32_t)take_signed(&b);
        else if (kind >= 10 && kind <= 12)
            line += kind - 10;
        at += (first & 7) + 1;
        if (unit < at)
            return known ? line : 0;
        while (b.at < b.end &&
               !(byte_at(b.m, b.at, 0) & 0x80)) /* columns; only the first byte of an entry has bit 7 */
            b.at++;
    }
    return 0;
}

/* 3.10: pairs of a length in bytes and a line difference; -128 means code without a line. */
static uint32_t line_of_linetable(struct bytes b, uint32_t line, uint32_t offset)
{
    uint32_t at = 0;
    while (b.end - b.at >= 2) {
        at += take(&b);
        int8_t difference = (int8_t)take(&b);
        if (difference != -128)
            line += (uint32_t)difference;
        if (offset < at)
            return difference == -128 ? 0 : line;
    }
    return 0;
}

/* 3.9: pairs of the distance in bytes to the next line's code and the difference to that line. */
static uint32_t line_of_lnotab(struct bytes b, uint32_t line, uint32_t offset)
{
    uint32_t at = 0;
    while (b.end - b.at >= 2) {
        at += take(&b);
        if (at > offset)
            break;
        line += (uint32_t)(int8_t)take(&b);
    }
    return line;
}

/* The position of the frame's instruction, in two-byte units from the beginning of the code. */
static int64_t unit_of(struct merge *m, const struct layout *l, uintptr_t frame, uintptr_t code)
{
    if (l->lines == LOCATIONS)
        return ((int64_t)word_at(m, frame, l->instruction) - (int64_t)(code + (uintptr_t)l->code_bytes)) / 2;
    int32_t index = (int32_t)half_at(m, frame, l->instruction);
    return l->lines == LNOTAB ? index / 2 : index;
}

static uint32_t decode_line(struct merge *m, const struct layout *l, uintptr_t code, int64_t unit)
{
    uintptr_t table = code_word(code, l->line_table);
    uint32_t line = code_half(code, l->first_line), at = (uint32_t)unit;
    uint64_t bytes = word_at(m, table, OBJECT_SIZE);
    if (unit < 0 || unit > INT32_MAX / 2 || bytes > LINES_MOST)
        return line;
    struct bytes b = {.m = m, .at = table + BYTES_AT, .end = table + BYTES_AT + bytes};
    switch (l->lines) {
    case LNOTAB:
        return line_of_lnotab(b, line, 2 * at);
    case LINETABLE:
        return line_of_linetable(b, line, 2 * at);
    default:
        return line_of_locations(b, line, at);
    }
}

static uint32_t find_line(struct merge *m, const struct layout *l, uintptr_t code, uint64_t key, int64_t unit)
{
    uint64_t tag = tide_ledger_mix(tide_ledger_mix(key, (uint64_t)unit), 1);
    _Atomic uint64_t *slot = &line_cache[tag >> (64 - LINES_BITS)];
    uint64_t found = atomic_load_explicit(slot, memory_order_relaxed);
    if ((found ^ tag) >> 24 == 0)
        return (uint32_t)found & LINE_MASK;
    uint32_t line = decode_line(m, l, code, unit) & LINE_MASK;
    if (!m->failed)
        atomic_store_explicit(slot, (tag & ~(uint64_t)LINE_MASK) | line, memory_order_relaxed);
    return line;
}

/* ---- names */

static char *put_utf8(char *out, uint32_t c)
{
    static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    *out++ = (char)(first[more] | (c >> 6 * more & 0x7f));
    for (int i = more - 1; i >= 0; i--)
        *out++ = (char)(0x80 | (c >> 6 * i & 63));
    return out;
}

/* Copies at most NAME_CHARS characters of a text object: the last ones if keep_end, otherwise the first. */
static void copy_text(struct merge *m, const struct layout *l, uintptr_t text, bool keep_end,
                      char out[4 * NAME_CHARS + 1])
{
    out[0] = '\0';
    if (!text || word_at(m, text, OBJECT_TYPE) != python.text_type ||
        !(half_at(m, text, TEXT_STATE) & STATE_COMPACT))
        return;
    uint32_t state = half_at(m, text, TEXT_STATE), kind = state >> 2 & 7;
    uintptr_t at = text + (uintptr_t)(state & STATE_ASCII ? l->ascii : l->compact);
    uint64_t length = word_at(m, text, TEXT_LENGTH),
             from = keep_end && length > NAME_CHARS ? length - NAME_CHARS : 0;
    for (uint64_t i = from; i < length && i < from + NAME_CHARS; i++) {
        uint32_t c = kind == 1   ? byte_at(m, at + i, 0)
                     : kind == 2 ? *(const uint16_t *)readable(m, at + 2 * i, 0, sizeof(uint16_t))
                                 : half_at(m, at + 4 * i, 0);
        out = put_utf8(out, c ? c : 0xfffd);
    }
    *out = '\0';
}

/* Not inlined, because a program's stack may have less room than these texts take. */
static __attribute__((noinline)) int32_t add_code(struct merge *m, const struct layout *l, uintptr_t code,
                                                  uint64_t key)
{
    char file[4 * NAME_CHARS + 1], name[4 * NAME_CHARS + 1];
    copy_text(m, l, code_word(code, l->file), true, file);
    copy_text(m, l, code_word(code, l->name), false, name);
    if (m->failed)
        return TIDE_LEDGER_NONE;
    return tide_ledger_code_add(m->table, key, file, name, code_half(code, l->first_line));
}

/* Returns a code object's number. The key needs more than its address, where another may lie after it is
 * freed. */
static int32_t number_of(struct merge *m, const struct layout *l, uintptr_t code, uint64_t *ret_key)
{
    uintptr_t file = code_word(code, l->file), name = code_word(code, l->name);
    uint32_t first_line = code_half(code, l->first_line);
    uint64_t key =
        tide_ledger_mix(tide_ledger_mix(tide_ledger_mix(tide_ledger_mix(0, code), file), name), first_line);
    *ret_key = key = key ? key : 1;
    int32_t number = tide_ledger_code(key);
    return number >= 0 ? number : add_code(m, l, code, key);
}

/* ---- merging */

static void put(struct merge *m, uint64_t word)
{
    if (m->count < m->room)
        m->out[m->count++] = word;
    else
        m->full = true;
}

/* A code pointer read through the kernel is valid only if the interpreter has freed nothing since. */
static void put_frame(struct merge *m, const struct layout *l)
{
    uintptr_t code = word_at(m, m->frame, l->code);
    if (!code || (m->guarded && python.is_ending()) || code_word(code, OBJECT_TYPE) != python.code_type) {
        m->failed = true;
        return;
    }
    uint64_t key;
    int32_t number = number_of(m, l, code, &key);
    if (number < 0)
        m->failed = true;
    else
        put(m, TIDE_HEAP_PYTHON_WORD((uint32_t)number,
                                     find_line(m, l, code, key, unit_of(m, l, m->frame, code))));
}

/* Puts the frames of one run of the loop, or all that are left. */
static void put_run(struct merge *m, bool all)
{
    const struct layout *l = python.layout;
    while (m->frame && !m->full && !(m->guarded && (m->failed || m->run++ > RUN_MOST))) {
        bool shim = l->owner >= 0 && byte_at(m, m->frame, l->owner) == OWNED_BY_C;
        bool last = shim || (l->entry >= 0 && byte_at(m, m->frame, l->entry)) || l->lines != LOCATIONS;
        if (!shim)
            put_frame(m, l);
        m->frame = word_at(m, m->frame, l->previous);
        if (last && !all)
            return;
    }
}

static bool is_loop(uint64_t word)
{
    return word > python.loop_start && word <= python.loop_end;
}

static uintptr_t running_frame(struct merge *m, uintptr_t thread)
{
    const struct layout *l = python.layout;
    uintptr_t frame = word_at(m, thread, l->current);
    return frame && l->cframe >= 0 ? word_at(m, frame, l->cframe) : frame;
}

static size_t copy_native(const uint64_t *words, size_t count, uint64_t *out, size_t room, bool *complete)
{
    if (count > room) {
        count = room;
        *complete = false;
    }
    memcpy(out, words, count * sizeof *words);
    return count;
}

/* True if the calling thread ends the interpreter. That is the first thread, unless another began it. */
static bool ends_itself(void)
{
    bool first = tide_latch_me()->first;
    if (atomic_load_explicit(&python.begun_by, memory_order_relaxed) == NOBODY) {
        unsigned expected = NOBODY;
        atomic_compare_exchange_strong(&python.begun_by, &expected, first ? FIRST_THREAD : ANOTHER);
    }
    return first && atomic_load_explicit(&python.begun_by, memory_order_relaxed) == FIRST_THREAD;
}

bool tide_pyframes_is_main_thread(void)
{
    return atomic_load_explicit(&python.ready, memory_order_acquire) && ends_itself();
}

/* True if the state may be read. *ret_guarded says how (pyframes.h). */
static bool is_readable(uintptr_t thread, bool *ret_guarded)
{
    bool own = ends_itself();
    *ret_guarded = false;
    if ((uintptr_t)python.current() == thread)
        return own || !python.is_ending();
    *ret_guarded = !own;
    return !python.is_ending();
}

/* Returns the calling thread's state, or 0 if it may not be read. */
static uintptr_t thread_to_read(bool *ret_guarded)
{
    uintptr_t thread = (uintptr_t)python.this_thread();
    return thread && is_readable(thread, ret_guarded) ? thread : 0;
}

static void put_all(struct merge *m, uintptr_t thread, const uint64_t *words, size_t count, bool complete)
{
    bool inner = true;
    size_t outermost = count;
    while (outermost > 0 && !is_loop(words[outermost - 1]))
        outermost--;
    m->frame = running_frame(m, thread);
    for (size_t i = 0; i < count && !m->full; i++) {
        if (is_loop(words[i])) {
            put_run(m, i + 1 == outermost && complete);
            inner = false;
        } else if (inner || words[i] < python.start || words[i] >= python.end) {
            put(m, words[i]);
        }
    }
}

/* Not inlined: as add_code(). */
static __attribute__((noinline)) void put_all_guarded(struct merge *m, uintptr_t thread,
                                                      const uint64_t *words, size_t count, bool complete)
{
    struct windows windows;
    memset(&windows, 0, offsetof(struct windows, bytes));
    m->guarded = &windows;
    put_all(m, thread, words, count, complete);
    m->guarded = NULL;
}

size_t tide_pyframes_merge(struct tide_heap_head *table, const uint64_t *words, size_t count, uint64_t *out,
                           size_t room, bool *complete)
{
    bool usable = atomic_load_explicit(&python.ready, memory_order_acquire) && !atomic_load(&python.failed);
    bool guarded = false, loops = false;
    for (size_t i = 0; usable && i < count && !loops; i++)
        loops = is_loop(words[i]);
    uintptr_t thread = loops ? thread_to_read(&guarded) : 0;
    if (!thread || !is_trusted(table, thread))
        return copy_native(words, count, out, room, complete);
    struct merge m = {.table = table, .out = out, .room = room};
    if (guarded)
        put_all_guarded(&m, thread, words, count, *complete);
    else
        put_all(&m, thread, words, count, *complete);
    if (guarded && python.is_ending())
        return copy_native(words, count, out, room, complete);
    if (m.failed)
        tide_ledger_count(&table->python_failed);
    if (m.full)
        *complete = false;
    return m.count;
}
