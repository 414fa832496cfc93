#include "train/pairs.h"
#include "base/map.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { RUNES = 324, MOST_MERGES = 1 << 24 }; /* RUNES: files write bytes as runes below this number */

struct token {
    size_t at;
    uint32_t len;
    bool known;
};

struct tide_pairs {
    int64_t size;
    bool whole_first;
    int16_t byte_of[RUNES]; /* -1: the rune stands for no byte */
    struct token *token;
    char *bytes; /* of all tokens */
    size_t used, room;
    int32_t byte_token[256]; /* -1: none */
    uint64_t merges;
    struct tide_map by_text;
    struct tide_map by_pair; /* left << 32 | right -> rank << 32 | joined */
};

/* ---- bytes as the files write them */

static bool is_itself(int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

static void know_runes(int16_t byte_of[static RUNES])
{
    int next = 256;
    for (int i = 0; i < RUNES; i++)
        byte_of[i] = -1;
    for (int byte = 0; byte < 256; byte++)
        byte_of[is_itself(byte) ? byte : next++] = (int16_t)byte;
}

/* Writes the bytes that a text of the files stands for to `out`, which has room for len. Returns false for a
 * text with other characters: it stands for itself, and no piece of text becomes it. */
static bool to_bytes(const int16_t *byte_of, const char *text, size_t len, char *out, size_t *ret_len)
{
    size_t made = 0;
    for (size_t at = 0, step; at < len; at += step) {
        unsigned rune = 0;
        step = tide_text_rune(text + at, len - at, &rune);
        if (!step || rune >= RUNES || byte_of[rune] < 0) {
            memcpy(out, text, len);
            *ret_len = len;
            return false;
        }
        out[made++] = (char)byte_of[rune];
    }
    *ret_len = made;
    return true;
}

/* ---- the vocabulary */

int tide_pairs_new(int64_t size, size_t bytes, bool whole_first, struct tide_pairs **ret_pairs,
                   struct tide_err *err)
{
    struct tide_pairs *p = calloc(1, sizeof *p);
    if (!p)
        return tide_err_set(err, "out of memory for the vocabulary");
    know_runes(p->byte_of);
    memset(p->byte_token, -1, sizeof p->byte_token);
    p->size = size;
    p->whole_first = whole_first;
    p->room = bytes;
    p->token = calloc((size_t)size, sizeof *p->token);
    p->bytes = malloc(bytes + 1);
    tide_map_init(&p->by_text, (size_t)size);
    tide_map_init(&p->by_pair, MOST_MERGES);
    if (!p->token || !p->bytes) {
        tide_pairs_free(p);
        return tide_err_set(err, "out of memory for the vocabulary");
    }
    *ret_pairs = p;
    return 0;
}

void tide_pairs_drop(struct tide_pairs *p)
{
    tide_map_release(&p->by_text);
    tide_map_release(&p->by_pair);
}

size_t tide_pairs_bytes(const struct tide_pairs *p)
{
    return sizeof *p + (size_t)p->size * sizeof *p->token + p->room + 1 + tide_map_bytes(&p->by_text) +
           tide_map_bytes(&p->by_pair);
}

void tide_pairs_free(struct tide_pairs *p)
{
    if (!p)
        return;
    tide_pairs_drop(p);
    free(p->token);
    free(p->bytes);
    free(p);
}

int tide_pairs_add_token(struct tide_pairs *p, const char *text, size_t len, int64_t id, bool added,
                         struct tide_err *err)
{
    size_t bytes;
    if (id < 0 || id >= p->size || p->token[id].known || len > p->room - p->used)
        return tide_err_set(
            err,
            "the vocabulary gives '%s' the number %lld, which another token has or which is beyond the model's %lld tokens",
            TIDE_ESCAPED(text, len, 64), (long long)id, (long long)p->size);
    char *to = p->bytes + p->used;
    bool joins = to_bytes(p->byte_of, text, len, to, &bytes) && !added;
    p->token[id] = (struct token){.at = p->used, .len = (uint32_t)bytes, .known = true};
    if (joins && tide_map_put(&p->by_text, tide_map_key(TIDE_MAP_SEED, to, bytes), (uint64_t)id))
        return tide_err_set(err, "out of memory for the vocabulary");
    if (joins && bytes == 1)
        p->byte_token[(uint8_t)*to] = (int32_t)id;
    p->used += bytes;
    return 0;
}

int tide_pairs_add_merge(struct tide_pairs *p, const char *left, size_t left_len, const char *right,
                         size_t right_len, struct tide_err *err)
{
    char shown[2][64], both[2 * 1024];
    size_t first = 0, second = 0;
    if (left_len > sizeof both / 2 || right_len > sizeof both / 2)
        return tide_err_set(err, "the merges have a pair that is too long");
    bool is_text = to_bytes(p->byte_of, left, left_len, both, &first);
    is_text &= to_bytes(p->byte_of, right, right_len, both + first, &second);
    if (!is_text) { /* has characters that stand for no byte: never found in a text */
        p->merges++;
        return 0;
    }
    int32_t a = tide_pairs_token(p, both, first), b = tide_pairs_token(p, both + first, second),
            joined = tide_pairs_token(p, both, first + second);
    if (a < 0 || b < 0 || joined < 0)
        return tide_err_set(
            err, "the merges join '%s' and '%s', but one of them or their result is not in the vocabulary",
            tide_text_escape(left, left_len, shown[0], sizeof *shown),
            tide_text_escape(right, right_len, shown[1], sizeof *shown));
    if (tide_map_put(&p->by_pair, (uint64_t)a << 32 | (uint32_t)b, p->merges++ << 32 | (uint32_t)joined))
        return tide_err_set(err, "out of memory for the merges, or there are too many");
    return 0;
}

const char *tide_pairs_text(const struct tide_pairs *p, int32_t token, size_t *ret_len)
{
    if (token < 0 || token >= p->size || !p->token[token].known)
        return NULL;
    *ret_len = p->token[token].len;
    return p->bytes + p->token[token].at;
}

int32_t tide_pairs_token(const struct tide_pairs *p, const char *text, size_t len)
{
    uint64_t id;
    if (!tide_map_get(&p->by_text, tide_map_key(TIDE_MAP_SEED, text, len), &id) || p->token[id].len != len ||
        memcmp(p->bytes + p->token[id].at, text, len) != 0)
        return -1;
    return (int32_t)id;
}

/* ---- joining */

/* A symbol of a piece. One that was joined into its predecessor is skipped by that one's `after`. */
struct symbol {
    int32_t token, before, after; /* token -1: joined; before, after -1: none */
};

/* Two neighbours that can be joined. The lower order comes first: by rank, then by place. */
struct pair {
    uint64_t order; /* rank << 32 | place of the left symbol */
    int32_t joined;
};

/* For a text of few pieces, setting up a cache of 3 MB would take longer than it saves. */
enum { CACHED = 1 << 15, CACHED_BYTES = 26, CACHED_TOKENS = 16, FEW_PIECES = 1000 };

/* A piece with its tokens. */
struct cached {
    uint8_t len, count; /* 0: none */
    char text[CACHED_BYTES];
    int32_t tokens[CACHED_TOKENS];
};

struct tide_pairs_encoder {
    const struct tide_pairs *pairs;
    size_t room; /* symbols */
    struct symbol *symbols;
    struct pair *heap; /* three per symbol: its own, and two for each join */
    size_t heap_count;
    int32_t *tokens;
    size_t pieces;
    struct cached *cache; /* NULL: few pieces so far */
};

struct tide_pairs_encoder *tide_pairs_encoder_new(const struct tide_pairs *pairs)
{
    struct tide_pairs_encoder *e = calloc(1, sizeof *e);
    if (e)
        e->pairs = pairs;
    return e;
}

void tide_pairs_encoder_free(struct tide_pairs_encoder *e)
{
    if (!e)
        return;
    free(e->symbols);
    free(e->heap);
    free(e->tokens);
    free(e->cache);
    free(e);
}

static int make_room(struct tide_pairs_encoder *e, size_t len, struct tide_err *err)
{
    if (len <= e->room)
        return 0;
    free(e->symbols);
    free(e->heap);
    free(e->tokens);
    e->room = 0;
    e->symbols = calloc(len, sizeof *e->symbols);
    e->heap = calloc(3 * len, sizeof *e->heap);
    e->tokens = calloc(len, sizeof *e->tokens);
    if (!e->symbols || !e->heap || !e->tokens)
        return tide_err_set(err, "out of memory for a piece of %zu bytes", len);
    e->room = len;
    return 0;
}

/* Pushes the pair that begins at a symbol on the heap, if it can be joined. */
static void offer(struct tide_pairs_encoder *e, int32_t at)
{
    uint64_t found;
    int32_t after = at < 0 ? -1 : e->symbols[at].after;
    if (after < 0 ||
        !tide_map_get(&e->pairs->by_pair,
                      (uint64_t)e->symbols[at].token << 32 | (uint32_t)e->symbols[after].token, &found))
        return;
    struct pair made = {(found & ~(uint64_t)UINT32_MAX) | (uint32_t)at, (int32_t)(found & UINT32_MAX)};
    size_t place = e->heap_count++;
    for (; place && e->heap[(place - 1) / 2].order > made.order; place = (place - 1) / 2)
        e->heap[place] = e->heap[(place - 1) / 2];
    e->heap[place] = made;
}

static struct pair take_first(struct tide_pairs_encoder *e)
{
    struct pair first = e->heap[0], moved = e->heap[--e->heap_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < e->heap_count; at = child) {
        child += child + 1 < e->heap_count && e->heap[child + 1].order < e->heap[child].order;
        if (moved.order <= e->heap[child].order)
            break;
        e->heap[at] = e->heap[child];
    }
    e->heap[at] = moved;
    return first;
}

/* True if a pair of the heap is still current. */
static bool stands(const struct tide_pairs_encoder *e, struct pair pair)
{
    uint64_t found;
    const struct symbol *left = &e->symbols[(uint32_t)pair.order];
    return left->token >= 0 && left->after >= 0 &&
           tide_map_get(&e->pairs->by_pair,
                        (uint64_t)left->token << 32 | (uint32_t)e->symbols[left->after].token, &found) &&
           (int32_t)(found & UINT32_MAX) == pair.joined;
}

static int64_t join(struct tide_pairs_encoder *e, size_t len)
{
    int64_t count = 0;
    e->heap_count = 0;
    for (size_t i = 0; i + 1 < len; i++)
        offer(e, (int32_t)i);
    while (e->heap_count) {
        struct pair pair = take_first(e);
        if (!stands(e, pair))
            continue;
        int32_t at = (int32_t)(uint32_t)pair.order;
        struct symbol *left = &e->symbols[at], *right = &e->symbols[left->after];
        left->token = pair.joined;
        left->after = right->after;
        right->token = -1;
        if (left->after >= 0)
            e->symbols[left->after].before = at;
        offer(e, left->before);
        offer(e, at);
    }
    for (int32_t at = 0; at >= 0; at = e->symbols[at].after)
        e->tokens[count++] = e->symbols[at].token;
    return count;
}

static int64_t encode_new(struct tide_pairs_encoder *e, const char *piece, size_t len, struct tide_err *err)
{
    if (make_room(e, len, err))
        return -1;
    if (e->pairs->whole_first && (e->tokens[0] = tide_pairs_token(e->pairs, piece, len)) >= 0)
        return 1;
    for (size_t i = 0; i < len; i++) {
        int32_t token = e->pairs->byte_token[(uint8_t)piece[i]];
        if (token < 0)
            return tide_err_set(err, "the vocabulary has no token for the byte '%s'",
                                TIDE_ESCAPED(piece + i, 1, 16));
        e->symbols[i] = (struct symbol){token, (int32_t)i - 1, i + 1 < len ? (int32_t)i + 1 : -1};
    }
    return join(e, len);
}

int64_t tide_pairs_encode(struct tide_pairs_encoder *e, const char *piece, size_t len,
                          const int32_t **ret_tokens, struct tide_err *err)
{
    struct cached *c = NULL;
    if (!len)
        return 0;
    if (!e->cache && ++e->pieces == FEW_PIECES)
        e->cache = calloc(CACHED, sizeof *e->cache);
    if (e->cache && len <= CACHED_BYTES) {
        uint64_t key = tide_map_key(TIDE_MAP_SEED, piece, len);
        c = &e->cache[(key ^ key >> 32) % CACHED];
        if (c->len == len && !memcmp(c->text, piece, len)) {
            *ret_tokens = c->tokens;
            return c->count;
        }
    }
    int64_t count = encode_new(e, piece, len, err);
    if (c && count > 0 && count <= CACHED_TOKENS) {
        c->len = (uint8_t)len;
        c->count = (uint8_t)count;
        memcpy(c->text, piece, len);
        memcpy(c->tokens, e->tokens, (size_t)count * sizeof *e->tokens);
    }
    *ret_tokens = e->tokens;
    return count;
}
