/*
 * cfi.c - reads .eh_frame for one address (cfi.h).
 *
 * The search table in .eh_frame_hdr leads to the function's entry (FDE). Its instructions, after the shared
 * ones of its CIE, are executed up to the address. Only the rules for the frame address, the frame pointer
 * and the return address are kept. The bytes come from the loader's mapping of the file. All reads stay
 * within the object's bounds, because a damaged library must not crash a program that would run without us.
 */
#include "hook/cfi.h"

#include <dwarf.h>
#include <stddef.h>
#include <string.h>

enum { REG_BP = 6, REG_SP = 7, REG_RA = 16, REMEMBERED_MOST = 8 };

/* A reading position. `bad` is set once a read would leave the bounds. */
struct cursor {
    const uint8_t *at, *end;
    bool bad;
};

static uint64_t take(struct cursor *c, unsigned bytes)
{
    uint64_t value = 0;
    if ((size_t)(c->end - c->at) < bytes) {
        c->bad = true;
        c->at = c->end;
        return 0;
    }
    memcpy(&value, c->at, bytes);
    c->at += bytes;
    return value;
}

/* *ret_sign: the bits that extend a negative number beyond its last byte. */
static uint64_t take_leb(struct cursor *c, uint64_t *ret_sign)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = take(c, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80 && !c->bad);
    *ret_sign = shift < 64 && byte & 0x40 ? ~UINT64_C(0) << shift : 0;
    return value;
}

static uint64_t take_uleb(struct cursor *c)
{
    uint64_t sign;
    return take_leb(c, &sign);
}

static int64_t take_sleb(struct cursor *c)
{
    uint64_t sign, value = take_leb(c, &sign);
    return (int64_t)(value | sign);
}

/* An offset in units of the table's alignment factor. */
static int64_t factored(struct cursor *c, int64_t value, int64_t factor)
{
    int64_t offset;
    if (!__builtin_mul_overflow(value, factor, &offset))
        return offset;
    c->bad = true;
    return 0;
}

static struct cursor take_block(struct cursor *c)
{
    uint64_t bytes = take_uleb(c);
    if (bytes > (uint64_t)(c->end - c->at)) {
        c->bad = true;
        bytes = 0;
    }
    struct cursor block = {.at = c->at, .end = c->at + bytes};
    c->at += bytes;
    return block;
}

/* A pointer in one of the encodings of .eh_frame. Those relative to text or function do not occur here. */
static uintptr_t take_pointer(struct cursor *c, uint8_t encoding)
{
    uintptr_t here = (uintptr_t)c->at;
    uint64_t value;
    switch (encoding & 0x0f) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
        value = take(c, 8);
        break;
    case DW_EH_PE_udata4:
        value = take(c, 4);
        break;
    case DW_EH_PE_sdata4:
        value = (uint64_t)(int64_t)(int32_t)take(c, 4);
        break;
    case DW_EH_PE_udata2:
        value = take(c, 2);
        break;
    case DW_EH_PE_sdata2:
        value = (uint64_t)(int64_t)(int16_t)take(c, 2);
        break;
    case DW_EH_PE_uleb128:
        value = take_uleb(c);
        break;
    default:
        c->bad = true;
        return 0;
    }
    if ((encoding & 0x70) == DW_EH_PE_pcrel)
        value += here;
    else if ((encoding & 0x70) != DW_EH_PE_absptr)
        c->bad = true;
    return value;
}

/* Returns the last FDE that begins at or before the address, or NULL. */
static const uint8_t *search_header(const struct tide_object *object, uintptr_t address)
{
    struct cursor c = {.at = object->eh_frame, .end = (const uint8_t *)object->end};
    if ((uintptr_t)c.at < object->start || (uintptr_t)c.at >= object->end)
        return NULL;
    const uint8_t *header = c.at;
    uint8_t version = (uint8_t)take(&c, 1), pointer = (uint8_t)take(&c, 1);
    uint8_t number = (uint8_t)take(&c, 1), table = (uint8_t)take(&c, 1);
    take_pointer(&c, pointer);
    uint64_t count = take_pointer(&c, number);
    if (c.bad || version != 1 || table != (DW_EH_PE_datarel | DW_EH_PE_sdata4) || !count ||
        count > (uint64_t)(c.end - c.at) / 8)
        return NULL;
    int64_t wanted = (int64_t)(address - (uintptr_t)header);
    uint64_t low = 0, high = count; /* entries [low, high) may hold it */
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        int32_t begin;
        memcpy(&begin, c.at + 8 * middle, sizeof begin);
        if (begin <= wanted)
            low = middle;
        else
            high = middle;
    }
    int32_t pair[2];
    memcpy(pair, c.at + 8 * low, sizeof pair);
    uintptr_t fde = (uintptr_t)header + (uintptr_t)(intptr_t)pair[1];
    return pair[0] <= wanted && fde >= object->start && fde < object->end ? (const uint8_t *)fde : NULL;
}

struct common { /* what a CIE says */
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding;
    bool augmented, is_signal;
    struct cursor instructions;
};

/* Returns the body of the entry at c, and the word after its length. Sets c->bad if there is no entry. */
static struct cursor take_entry(struct cursor *c, uint32_t *ret_id)
{
    uint64_t bytes = take(c, 4);
    if (!bytes || bytes == 0xffffffff || bytes > (uint64_t)(c->end - c->at))
        c->bad = true;
    struct cursor body = {.at = c->at, .end = c->bad ? c->at : c->at + bytes, .bad = c->bad};
    *ret_id = (uint32_t)take(&body, 4);
    return body;
}

static bool read_common(const struct tide_object *object, uintptr_t cie, struct common *ret)
{
    if (cie < object->start || cie >= object->end)
        return false;
    struct cursor c = {.at = (const uint8_t *)cie, .end = (const uint8_t *)object->end};
    uint32_t id;
    struct cursor body = take_entry(&c, &id);
    uint8_t version = (uint8_t)take(&body, 1);
    const char *augmentation = (const char *)body.at;
    const uint8_t *nul = memchr(body.at, 0, (size_t)(body.end - body.at));
    if (body.bad || id || !nul || (version != 1 && version != 3))
        return false;
    body.at = nul + 1;
    *ret = (struct common){.code_align = take_uleb(&body), .data_align = take_sleb(&body)};
    uint64_t ra = version == 1 ? take(&body, 1) : take_uleb(&body);
    if (augmentation[0] && augmentation[0] != 'z')
        return false;
    ret->augmented = augmentation[0] == 'z';
    struct cursor data = {.at = body.at, .end = body.at};
    if (ret->augmented)
        data = take_block(&body);
    for (const char *letter = augmentation; *letter && !data.bad; letter++)
        switch (*letter) {
        case 'R':
            ret->encoding = (uint8_t)take(&data, 1);
            break;
        case 'P': {
            uint8_t encoding = (uint8_t)take(&data, 1);
            take_pointer(&data, encoding & 0x0f);
            break;
        }
        case 'L':
            take(&data, 1);
            break;
        case 'S':
            ret->is_signal = true;
            break;
        default:
            break;
        }
    ret->instructions = body;
    return !body.bad && !data.bad && ra == REG_RA;
}

enum where { SAME, AT_CFA, AT_BP, LOST, UNDEFINED };

struct place {
    enum where where;
    int64_t offset; /* from the CFA, if where is AT_CFA */
};

struct row {
    struct tide_cfi_rule cfa; /* kind and offset */
    struct place bp, ra;
};

static void set_register(struct row *row, uint64_t number, enum where where, int64_t offset)
{
    if (number == REG_BP)
        row->bp = (struct place){where, offset};
    else if (number == REG_RA)
        row->ra = (struct place){where, offset};
}

static void set_cfa(struct row *row, uint64_t number, int64_t offset)
{
    row->cfa.kind = number == REG_SP ? TIDE_CFI_SP : number == REG_BP ? TIDE_CFI_BP : TIDE_CFI_NONE;
    row->cfa.offset = (int32_t)offset;
    if (offset < INT32_MIN || offset > INT32_MAX)
        row->cfa.kind = TIDE_CFI_NONE;
}

/* The two expressions that compilers and linkers write for a CFA: "the word at the frame pointer + n", for a
 * function that aligns its stack, and that of the procedure linkage table, which depends on how far the
 * address is into its 16-byte entry. */
static void set_cfa_expression(struct row *row, struct cursor e, uintptr_t address)
{
    static const uint8_t plt[] = {DW_OP_breg16, 0,          DW_OP_lit15, DW_OP_and, 0,
                                  DW_OP_ge,     DW_OP_lit3, DW_OP_shl,   DW_OP_plus};
    uint8_t first = (uint8_t)take(&e, 1);
    int64_t offset = take_sleb(&e);
    size_t rest = (size_t)(e.end - e.at);
    row->cfa = (struct tide_cfi_rule){.kind = TIDE_CFI_NONE};
    if (e.bad || offset < INT32_MIN || offset > INT32_MAX - 8)
        return;
    if (first == DW_OP_breg6 && rest == 1 && e.at[0] == DW_OP_deref) {
        row->cfa = (struct tide_cfi_rule){.kind = TIDE_CFI_BP_DEREF, .offset = (int32_t)offset};
    } else if (first == DW_OP_breg7 && rest == sizeof plt && !memcmp(e.at, plt, 4) &&
               !memcmp(e.at + 5, plt + 5, 4) && e.at[4] >= DW_OP_lit0 && e.at[4] <= DW_OP_lit15) {
        bool pushed = (address & 15) >= (uintptr_t)(e.at[4] - DW_OP_lit0);
        row->cfa = (struct tide_cfi_rule){.kind = TIDE_CFI_SP, .offset = (int32_t)offset + 8 * pushed};
    }
}

static void set_register_expression(struct row *row, uint64_t number, struct cursor e)
{
    bool at_bp = e.end - e.at == 2 && e.at[0] == DW_OP_breg6 && e.at[1] == 0;
    set_register(row, number, at_bp && number == REG_BP ? AT_BP : LOST, 0);
}

struct machine {
    const struct common *common;
    uintptr_t address; /* where to stop */
    uintptr_t location;
    struct row row, initial;
    struct row remembered[REMEMBERED_MOST];
    unsigned depth;
};

static void restore(struct machine *m, uint64_t number)
{
    if (number == REG_BP)
        m->row.bp = m->initial.bp;
    else if (number == REG_RA)
        m->row.ra = m->initial.ra;
}

/* Executes an instruction without an operand in its first byte, other than an advance. False if it is
 * unknown. */
static bool execute_other(struct machine *m, uint8_t code, struct cursor *c)
{
    int64_t factor = m->common->data_align;
    uint64_t number;
    switch (code) {
    case DW_CFA_nop:
        return true;
    case DW_CFA_offset_extended:
        number = take_uleb(c);
        set_register(&m->row, number, AT_CFA, factored(c, (int64_t)take_uleb(c), factor));
        return true;
    case DW_CFA_offset_extended_sf:
        number = take_uleb(c);
        set_register(&m->row, number, AT_CFA, factored(c, take_sleb(c), factor));
        return true;
    case DW_CFA_restore_extended:
        restore(m, take_uleb(c));
        return true;
    case DW_CFA_undefined:
        set_register(&m->row, take_uleb(c), UNDEFINED, 0);
        return true;
    case DW_CFA_same_value:
        set_register(&m->row, take_uleb(c), SAME, 0);
        return true;
    case DW_CFA_register:
    case DW_CFA_val_offset:
        set_register(&m->row, take_uleb(c), LOST, 0);
        take_uleb(c);
        return true;
    case DW_CFA_remember_state:
        if (m->depth == REMEMBERED_MOST)
            return false;
        m->remembered[m->depth++] = m->row;
        return true;
    case DW_CFA_restore_state:
        if (!m->depth)
            return false;
        m->row = m->remembered[--m->depth];
        return true;
    case DW_CFA_def_cfa:
        number = take_uleb(c);
        set_cfa(&m->row, number, (int64_t)take_uleb(c));
        return true;
    case DW_CFA_def_cfa_sf:
        number = take_uleb(c);
        set_cfa(&m->row, number, factored(c, take_sleb(c), factor));
        return true;
    case DW_CFA_def_cfa_register:
        set_cfa(&m->row, take_uleb(c), m->row.cfa.offset);
        return true;
    case DW_CFA_def_cfa_offset:
        m->row.cfa.offset = (int32_t)take_uleb(c);
        return true;
    case DW_CFA_def_cfa_offset_sf:
        m->row.cfa.offset = (int32_t)factored(c, take_sleb(c), factor);
        return true;
    case DW_CFA_def_cfa_expression:
        set_cfa_expression(&m->row, take_block(c), m->address);
        return true;
    case DW_CFA_expression:
        number = take_uleb(c);
        set_register_expression(&m->row, number, take_block(c));
        return true;
    case DW_CFA_val_expression:
        set_register(&m->row, take_uleb(c), LOST, 0);
        take_block(c);
        return true;
    case DW_CFA_GNU_args_size:
        take_uleb(c);
        return true;
    default:
        return false;
    }
}

/* True if the instruction advances the location. *ret_units says by how much. */
static bool advances(uint8_t code, struct cursor *c, uint64_t *ret_units)
{
    unsigned bytes = code == DW_CFA_advance_loc1   ? 1
                     : code == DW_CFA_advance_loc2 ? 2
                     : code == DW_CFA_advance_loc4 ? 4
                                                   : 0;
    *ret_units = bytes ? take(c, bytes) : code & 0x3f;
    return bytes || (code & 0xc0) == DW_CFA_advance_loc;
}

static bool execute(struct machine *m, struct cursor c)
{
    while (c.at < c.end && !c.bad) {
        uint8_t code = (uint8_t)take(&c, 1);
        uint64_t units;
        if (advances(code, &c, &units)) {
            m->location += units * m->common->code_align;
            if (m->location > m->address)
                return !c.bad;
        } else if (code == DW_CFA_set_loc) {
            m->location = take_pointer(&c, m->common->encoding);
            if (m->location > m->address)
                return !c.bad;
        } else if ((code & 0xc0) == DW_CFA_offset) {
            set_register(&m->row, code & 0x3f, AT_CFA,
                         factored(&c, (int64_t)take_uleb(&c), m->common->data_align));
        } else if ((code & 0xc0) == DW_CFA_restore) {
            restore(m, code & 0x3f);
        } else if (!execute_other(m, code, &c)) {
            return false;
        }
    }
    return !c.bad;
}

static struct tide_cfi_rule rule_of(const struct row *row)
{
    struct tide_cfi_rule rule = row->cfa, none = {.kind = TIDE_CFI_NONE};
    int64_t bp_at = row->bp.offset;
    if (row->ra.where == UNDEFINED)
        return (struct tide_cfi_rule){.kind = TIDE_CFI_END};
    if (row->ra.where != AT_CFA || row->ra.offset != -8 || row->bp.where == LOST)
        return none;
    if (row->bp.where == AT_BP) {
        rule.saved = TIDE_CFI_BP_AT_BP;
    } else if (row->bp.where == AT_CFA) {
        if (bp_at >= 0 || bp_at % 8 || bp_at / 8 < -TIDE_CFI_SAVED_MOST)
            return none;
        rule.saved = (uint32_t)(-bp_at / 8);
    }
    return rule;
}

struct tide_cfi_rule tide_cfi_find(const struct tide_object *object, uintptr_t address)
{
    struct tide_cfi_rule none = {.kind = TIDE_CFI_NONE};
    const uint8_t *fde = object->eh_frame ? search_header(object, address) : NULL;
    if (!fde)
        return none;
    struct cursor c = {.at = fde, .end = (const uint8_t *)object->end};
    uint32_t back;
    struct cursor body = take_entry(&c, &back);
    struct common common;
    if (body.bad || !back || !read_common(object, (uintptr_t)body.at - 4 - back, &common))
        return none;
    uintptr_t begin = take_pointer(&body, common.encoding);
    uintptr_t range = take_pointer(&body, common.encoding & 0x0f);
    if (common.augmented)
        take_block(&body);
    if (body.bad || address < begin || address - begin >= range)
        return none;
    if (common.is_signal)
        return (struct tide_cfi_rule){.kind = TIDE_CFI_SIGNAL};
    struct machine m = {.common = &common, .address = address, .location = 0};
    if (!execute(&m, common.instructions))
        return none;
    m.initial = m.row;
    m.location = begin;
    return execute(&m, body) ? rule_of(&m.row) : none;
}
