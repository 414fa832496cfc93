/*
 * pyframes.c - the interpreter's frames, read by layout (pyframes.h).
 */
#include "hook/pyframes.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LINES_BITS = 13, LINE_MASK = 0xffffff, CHECKED_FRAMES = 64, HASHED_FRAMES = 6, NAME_CHARS = 500 };

/* How the instruction and the line table are written. */
enum lines { LNOTAB, LINETABLE, LOCATIONS };

/* Offsets in bytes; -1: there is no such thing. */
struct layout {
    uint32_t version; /* PY_VERSION_HEX >> 16 */
    enum lines lines;
    int current;     /* thread state: the running frame, or what leads to it */
    int cframe;      /* in what leads to it: the running frame */
    int previous;    /* frame: its caller */
    int code;        /* frame: its code object */
    int instruction; /* frame: a pointer, or a 32-bit index before 3.11, of the instruction it executes */
    int entry;       /* frame: a byte that is 1 in the outermost frame of a run of the loop (3.11) */
    int owner;       /* frame: a byte that is 3 in a frame that only ends a run and has no code (3.12 on) */
    int file, name, first_line, line_table; /* code */
    int code_bytes;     /* code: where its instructions begin; before 3.11, a bytes object of them */
    int ascii, compact; /* text object: where the characters of the two kinds begin */
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
    void *(*this_thread)(void);
    int (*is_ending)(void); /* from then on the states of other threads are freed, who may not notice */
} python;

/* Lines found: hash of code and instruction, with the line in its low bits. */
static _Atomic uint64_t line_cache[1 << LINES_BITS];

static inline uintptr_t word_at(uintptr_t at, int offset)
{
    return *(const uintptr_t *)(at + (uintptr_t)offset);
}

static inline uint32_t half_at(uintptr_t at, int offset)
{
    return *(const uint32_t *)(at + (uintptr_t)offset);
}

static inline uint8_t byte_at(uintptr_t at, int offset)
{
    return *(const uint8_t *)(at + (uintptr_t)offset);
}

/* ---- finding the interpreter */

/* 3.11 and later say their version; the two before are told apart by what came with them. */
static uint32_t version_of(const struct tide_object *object)
{
    uintptr_t version = tide_object_symbol(object, "Py_Version", NULL);
    if (version)
        return half_at(version, 0);
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
    uintptr_t ending = tide_object_symbol(object, "Py_IsFinalizing", NULL);
    python.is_ending =
        (int (*)(void))(ending ? ending : tide_object_symbol(object, "_Py_IsFinalizing", NULL));
    bool usable =
        python.layout && python.code_type && python.text_type && python.bytes_type && python.this_thread;
    tide_ledger_setup.python = usable ? TIDE_HEAP_PYTHON_ON : TIDE_HEAP_PYTHON_VERSION;
    atomic_store(&python.failed, !usable);
    atomic_store(&python.ready, true);
    tide_recall_forget();
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

/* Follows the chain from the thread state; at least one frame with code must be in it. 1: good, 0: nothing to
 * look at yet, -1: not what it should be. */
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

/* Whether the layout can be trusted; found out once. */
static bool is_trusted(struct tide_heap_head *table, uintptr_t thread)
{
    if (atomic_load_explicit(&python.checked, memory_order_acquire))
        return true;
    int good = check_chain(thread);
    if (good > 0) {
        atomic_store(&python.checked, true);
    } else if (good < 0) {
        atomic_store(&python.failed, true);
        tide_ledger_setup.python = TIDE_HEAP_PYTHON_CHECK;
        atomic_store(&table->python, TIDE_HEAP_PYTHON_CHECK);
    }
    return good > 0;
}

/* ---- reading, with notes */

struct merge {
    struct tide_heap_head *table;
    struct tide_recall_notes *notes;
    uintptr_t frame; /* the next Python frame, or 0 */
    uint64_t *out;
    size_t count, room;
    bool full, failed;
};

static inline uintptr_t read_word(struct merge *m, uintptr_t at, int offset)
{
    uintptr_t value = word_at(at, offset);
    tide_recall_note(m->notes, at + (uintptr_t)offset, value);
    return value;
}

static inline uint32_t read_half(struct merge *m, uintptr_t at, int offset)
{
    uint32_t value = half_at(at, offset);
    tide_recall_note_bits(m->notes, at + (uintptr_t)offset, UINT32_MAX, value);
    return value;
}

static inline uint8_t read_byte(struct merge *m, uintptr_t at, int offset)
{
    unsigned shift = 8 * (offset & 3);
    tide_recall_note_bits(m->notes, at + (uintptr_t)(offset & ~3), UINT32_C(0xff) << shift,
                          (uint32_t)byte_at(at, offset) << shift);
    return byte_at(at, offset);
}

/* ---- lines */

struct bytes {
    const uint8_t *at, *end;
};

static uint32_t take_varint(struct bytes *b)
{
    uint32_t value = 0;
    for (unsigned shift = 0; b->at < b->end; shift += 6) {
        uint8_t byte = *b->at++;
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

/* 3.11 on: one entry per run of instructions; `unit` counts two-byte units. */
static uint32_t line_of_locations(struct bytes b, uint32_t line, uint32_t unit)
{
    uint32_t at = 0;
    while (b.at < b.end) {
        uint8_t first = *b.at++;
        unsigned kind = first >> 3 & 15;
        bool known = kind != 15;
        if (kind == 14 || kind == 13)
            line += (uint32_t)take_signed(&b);
        else if (kind >= 10 && kind <= 12)
            line += kind - 10;
        at += (first & 7) + 1;
        if (unit < at)
            return known ? line : 0;
        while (b.at < b.end && !(*b.at & 0x80)) /* columns; only a first byte has its top bit set */
            b.at++;
    }
    return 0;
}

/* 3.10: pairs of a length in bytes and a difference of lines, -128 for code that has no line. */
static uint32_t line_of_linetable(struct bytes b, uint32_t line, uint32_t offset)
{
    uint32_t at = 0;
    for (; b.end - b.at >= 2; b.at += 2) {
        int8_t difference = (int8_t)b.at[1];
        if (difference != -128)
            line += (uint32_t)difference;
        at += b.at[0];
        if (offset < at)
            return difference == -128 ? 0 : line;
    }
    return 0;
}

/* 3.9: pairs of how far to the next line's code and how much later that line is. */
static uint32_t line_of_lnotab(struct bytes b, uint32_t line, uint32_t offset)
{
    uint32_t at = 0;
    for (; b.end - b.at >= 2; b.at += 2) {
        at += b.at[0];
        if (at > offset)
            break;
        line += (uint32_t)(int8_t)b.at[1];
    }
    return line;
}

/* Two-byte units from the beginning of the code. */
static int64_t unit_of(struct merge *m, const struct layout *l, uintptr_t frame, uintptr_t code)
{
    if (l->lines == LOCATIONS)
        return ((int64_t)read_word(m, frame, l->instruction) - (int64_t)(code + (uintptr_t)l->code_bytes)) /
               2;
    int32_t index = (int32_t)read_half(m, frame, l->instruction);
    return l->lines == LNOTAB ? index / 2 : index;
}

static uint32_t decode_line(const struct layout *l, uintptr_t code, int64_t unit)
{
    uintptr_t table = word_at(code, l->line_table);
    uint32_t line = half_at(code, l->first_line), at = (uint32_t)unit;
    uint64_t bytes = word_at(table, OBJECT_SIZE);
    if (unit < 0 || unit > INT32_MAX / 2)
        return line;
    struct bytes b = {.at = (const uint8_t *)table + BYTES_AT,
                      .end = (const uint8_t *)table + BYTES_AT + bytes};
    switch (l->lines) {
    case LNOTAB:
        return line_of_lnotab(b, line, 2 * at);
    case LINETABLE:
        return line_of_linetable(b, line, 2 * at);
    default:
        return line_of_locations(b, line, at);
    }
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 33;
}

static uint32_t find_line(const struct layout *l, uintptr_t code, uint64_t key, int64_t unit)
{
    uint64_t tag = mix(mix(key, (uint64_t)unit), 1);
    _Atomic uint64_t *place = &line_cache[tag >> (64 - LINES_BITS)];
    uint64_t found = atomic_load_explicit(place, memory_order_relaxed);
    if ((found ^ tag) >> 24 == 0)
        return (uint32_t)found & LINE_MASK;
    uint32_t line = decode_line(l, code, unit) & LINE_MASK;
    atomic_store_explicit(place, (tag & ~(uint64_t)LINE_MASK) | line, memory_order_relaxed);
    return line;
}

/* ---- names */

static char *put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    } else {
        *out++ = (char)(0xf0 | (c >> 18 & 7));
        *out++ = (char)(0x80 | (c >> 12 & 63));
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    }
    return out;
}

/* A text object's characters, the last NAME_CHARS of them if keep_end, otherwise the first. */
static void copy_text(const struct layout *l, uintptr_t text, bool keep_end, char out[4 * NAME_CHARS + 1])
{
    out[0] = '\0';
    if (!text || word_at(text, OBJECT_TYPE) != python.text_type ||
        !(half_at(text, TEXT_STATE) & STATE_COMPACT))
        return;
    uint32_t state = half_at(text, TEXT_STATE), kind = state >> 2 & 7;
    uintptr_t at = text + (uintptr_t)(state & STATE_ASCII ? l->ascii : l->compact);
    uint64_t length = word_at(text, TEXT_LENGTH),
             from = keep_end && length > NAME_CHARS ? length - NAME_CHARS : 0;
    for (uint64_t i = from; i < length && i < from + NAME_CHARS; i++) {
        uint32_t c = kind == 1   ? ((const uint8_t *)at)[i]
                     : kind == 2 ? ((const uint16_t *)at)[i]
                                 : ((const uint32_t *)at)[i];
        out = put_utf8(out, c ? c : 0xfffd);
    }
    *out = '\0';
}

/* A code object's number. Its address alone does not name it: it may be freed and another come in its place.
 */
static int32_t number_of(struct merge *m, const struct layout *l, uintptr_t code, uint64_t *ret_key)
{
    uintptr_t file = read_word(m, code, l->file), name = read_word(m, code, l->name);
    uint32_t first_line = read_half(m, code, l->first_line);
    uint64_t key = mix(mix(mix(mix(0, code), file), name), first_line);
    *ret_key = key = key ? key : 1;
    int32_t number = tide_ledger_code(key);
    if (number >= 0)
        return number;
    char file_text[4 * NAME_CHARS + 1], name_text[4 * NAME_CHARS + 1];
    copy_text(l, file, true, file_text);
    copy_text(l, name, false, name_text);
    return tide_ledger_code_add(m->table, key, file_text, name_text, first_line);
}

/* ---- merging */

static void put(struct merge *m, uint64_t word)
{
    if (m->count < m->room)
        m->out[m->count++] = word;
    else
        m->full = true;
}

static void put_frame(struct merge *m, const struct layout *l)
{
    uintptr_t code = read_word(m, m->frame, l->code);
    if (!code || word_at(code, OBJECT_TYPE) != python.code_type) {
        m->failed = true;
        return;
    }
    uint64_t key;
    int32_t number = number_of(m, l, code, &key);
    if (number < 0)
        m->failed = true;
    else
        put(m,
            TIDE_HEAP_PYTHON_WORD((uint32_t)number, find_line(l, code, key, unit_of(m, l, m->frame, code))));
}

/* The frames of one run of the loop, or all that are left. */
static void put_run(struct merge *m, bool all)
{
    const struct layout *l = python.layout;
    while (m->frame && !m->full) {
        bool shim = l->owner >= 0 && read_byte(m, m->frame, l->owner) == OWNED_BY_C;
        bool last = shim || (l->entry >= 0 && read_byte(m, m->frame, l->entry)) || l->lines != LOCATIONS;
        if (!shim)
            put_frame(m, l);
        m->frame = read_word(m, m->frame, l->previous);
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
    uintptr_t frame = read_word(m, thread, l->current);
    return frame && l->cframe >= 0 ? read_word(m, frame, l->cframe) : frame;
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

size_t tide_pyframes_merge(struct tide_heap_head *table, const uint64_t *words, size_t count, uint64_t *out,
                           size_t room, struct tide_recall_notes *notes, bool *complete)
{
    size_t outermost = 0, loops = 0;
    bool usable = atomic_load_explicit(&python.ready, memory_order_acquire) && !atomic_load(&python.failed);
    for (size_t i = 0; usable && i < count; i++)
        if (is_loop(words[i])) {
            outermost = i;
            loops++;
        }
    uintptr_t thread = loops ? (uintptr_t)python.this_thread() : 0;
    if (!thread || !is_trusted(table, thread)) {
        if (loops)
            tide_recall_spoil(notes); /* the next one may have more luck */
        return copy_native(words, count, out, room, complete);
    }
    if (notes && notes->place.python != thread)
        tide_recall_spoil(notes);
    struct merge m = {.table = table, .notes = notes, .out = out, .room = room};
    m.frame = running_frame(&m, thread);
    for (size_t i = 0; i < count && !m.full; i++) {
        if (is_loop(words[i])) {
            put_run(&m, i == outermost && *complete);
            loops = 0;
        } else if (loops || words[i] < python.start || words[i] >= python.end) {
            put(&m, words[i]);
        }
    }
    if (m.failed) {
        tide_ledger_count(&table->python_failed);
        tide_recall_spoil(notes);
    }
    if (m.full)
        *complete = false;
    return m.count;
}

uintptr_t tide_pyframes_whereabouts(uint64_t *ret_hash)
{
    *ret_hash = 0;
    if (!atomic_load_explicit(&python.checked, memory_order_acquire) || !python.is_ending ||
        python.is_ending())
        return 0;
    const struct layout *l = python.layout;
    uintptr_t thread = (uintptr_t)python.this_thread();
    struct merge m = {0};
    uintptr_t frame = thread ? running_frame(&m, thread) : 0;
    for (int i = 0; frame && i < HASHED_FRAMES; i++, frame = word_at(frame, l->previous))
        *ret_hash = mix(*ret_hash, l->lines == LOCATIONS ? word_at(frame, l->instruction)
                                                         : half_at(frame, l->instruction));
    return thread;
}
