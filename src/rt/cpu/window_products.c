#include "rt/cpu/window_products.h"
#include "base/whole.h"
#include "rt/cpu/shares.h"
#include "rt/cpu/threads.h"

#include <string.h>

/* Boards that share tiles: with this many, each sort of cells fills whole tiles. */
enum { CHUNK = 8 };

/* Sorts of cells, by which neighbours they lack; MIXED: left-over cells of several sorts. */
enum { TOP = 1, BOTTOM = 2, LEFT = 4, RIGHT = 8, SORTS = 16, MIXED = SORTS };

/* The most tiles that a thread takes at a time, with all columns; and how often each thread takes some. */
enum { MOST_TILES = 32, TAKES_EACH = 6 };

/* For the other product: bytes of a and b that stay in a cache while tiles read them. */
enum { BLOCK_BYTES = 384 << 10 };

struct tile {
    int32_t rows[TIDE_WINDOW_ROWS]; /* counted from the first row of the chunk */
    int32_t count, sort;
};

/* Scratch holds a share per thread, the tiles of a chunk and of the left-over boards, b if it is packed, and
 * room for each thread. */
struct job {
    const struct tide_tile_kind *kind;
    const struct tide_windows *windows;
    const struct tide_operands *operands;
    int64_t words, cells; /* words of a row; cells of a board */
    int64_t panels, threads;
    int64_t tiles, tiles_left, unit; /* of a chunk; of the left-over boards; taken at a time */
    int64_t block, blocks;           /* for the other product: boards at a time, and how many such blocks */
    bool packs;
    struct tide_share *shares;
    struct tile *list;
    uint32_t *packed; /* panel after panel */
    char *rooms;
    size_t list_bytes, b_bytes, room_bytes;
};

static int64_t chunks_of(const struct job *job)
{
    return job->windows->boards / CHUNK;
}

static struct job job_of(const struct tide_tile_kind *kind, const struct tide_windows *w)
{
    int64_t per_word = kind->cells == TIDE_BF16 ? 2 : 1, cells = w->board.columns * w->board.rows,
            left = w->boards % CHUNK, k = TIDE_WINDOW * w->channels;
    struct job j = {.kind = kind, .windows = w, .words = w->channels / per_word, .cells = cells};
    j.panels = tide_ceiling(w->n, kind->columns);
    j.threads = tide_tiles_threads(2.0 * (double)(w->boards * cells) * (double)w->n * (double)k);
    j.packs = !w->transposed && (kind->cells != TIDE_F32 || w->b_from != TIDE_F32);
    if (w->transposed) {
        int64_t row_bytes = (w->channels + w->n) * (int64_t)sizeof(float);
        j.block = tide_smaller(w->boards, tide_larger(1, BLOCK_BYTES / (cells * row_bytes)));
        j.blocks = tide_ceiling(w->boards, j.block);
        j.room_bytes = tide_aligned(sizeof(struct tide_stretch) * (size_t)(j.block * w->board.rows)) +
                       tide_aligned(sizeof(float) * (size_t)(tide_ceiling(w->channels, kind->rows) *
                                                             kind->rows * kind->columns));
    } else {
        j.tiles = chunks_of(&j) ? tide_ceiling(CHUNK * cells, kind->rows) : 0;
        j.tiles_left = tide_ceiling(left * cells, kind->rows);
        int64_t tiles = chunks_of(&j) * j.tiles + j.tiles_left;
        j.unit = tide_larger(1, tide_smaller(MOST_TILES, tiles / (j.threads * TAKES_EACH)));
        j.list_bytes = tide_aligned(sizeof(struct tile) * (size_t)(j.tiles + j.tiles_left));
        j.room_bytes = tide_aligned(sizeof(uint32_t) * (size_t)(kind->rows * TIDE_WINDOW * j.words));
        j.b_bytes =
            j.packs
                ? tide_aligned(sizeof(uint32_t) * (size_t)(j.panels * kind->columns * TIDE_WINDOW * j.words))
                : 0;
    }
    return j;
}

bool tide_windows_fit(const struct tide_tile_kind *kind, const struct tide_windows *w)
{
    if (!kind->window || w->a_from != kind->cells)
        return false;
    return kind->cells == TIDE_F32 ? !w->transposed || w->b_from == TIDE_F32
                                   : !w->transposed && w->channels % 2 == 0;
}

size_t tide_windows_scratch(const struct tide_tile_kind *kind, const struct tide_windows *windows)
{
    struct job job = job_of(kind, windows);
    return (size_t)job.threads * (sizeof(struct tide_share) + job.room_bytes) + job.list_bytes + job.b_bytes;
}

/* ---- tiles of cells */

static int sort_of(const struct tide_board *board, int64_t y, int64_t x)
{
    return (y == 0 ? TOP : 0) | (y + 1 == board->rows ? BOTTOM : 0) | (x == 0 ? LEFT : 0) |
           (x + 1 == board->columns ? RIGHT : 0);
}

/* Puts a row into the open tile of its sort; appends the tile to the list when it is full. */
static struct tile *put_row(struct tile *open, int sort, int64_t row, int64_t rows, struct tile *end)
{
    open->sort = sort;
    open->rows[open->count++] = (int32_t)row;
    if (open->count < rows)
        return end;
    *end = *open;
    open->count = 0;
    return end + 1;
}

/* Lists the tiles of that many boards. */
static void list_tiles(const struct job *job, int64_t boards, struct tile *list)
{
    const struct tide_board *board = &job->windows->board;
    struct tile open[SORTS + 1] = {0};
    int64_t row = 0, rows = job->kind->rows;
    for (int64_t line = 0; line < boards * board->rows; line++)
        for (int64_t x = 0; x < board->columns; x++, row++) {
            int sort = sort_of(board, line % board->rows, x);
            list = put_row(&open[sort], sort, row, rows, list);
        }
    for (int sort = 0; sort < SORTS; sort++)
        for (int i = 0; i < open[sort].count; i++)
            list = put_row(&open[MIXED], MIXED, open[sort].rows[i], rows, list);
    if (open[MIXED].count)
        *list = open[MIXED];
}

/* The places that exist for a sort: a contiguous range for each line of the window. */
static int64_t stretches_of(const struct job *job, int sort, struct tide_stretch *ret)
{
    int64_t count = 0, left = sort & LEFT ? 1 : 0, right = sort & RIGHT ? 2 : 3;
    for (int64_t y = sort & TOP ? 1 : 0; y < (sort & BOTTOM ? 2 : 3); y++)
        ret[count++] =
            (struct tide_stretch){.a = ((y - 1) * job->windows->board.columns + left - 1) * job->words,
                                  .b = (y * TIDE_WINDOW_SIDE + left) * job->words,
                                  .cells = (right - left) * job->words};
    return count;
}

static const char *row_of(const struct job *job, int64_t row)
{
    return (const char *)job->operands->a + row * job->words * (int64_t)sizeof(uint32_t);
}

/* Copies the windows of the tile's rows, with zeros. */
static void gather(const struct job *job, int64_t first, const struct tile *tile, uint32_t *to)
{
    size_t bytes = (size_t)job->words * sizeof *to;
    for (int i = 0; i < tile->count; i++)
        for (int place = 0; place < TIDE_WINDOW; place++, to += job->words) {
            int64_t near = tide_board_neighbour(&job->windows->board, first + tile->rows[i], place);
            if (near < 0)
                memset(to, 0, bytes);
            else
                memcpy(to, row_of(job, near), bytes);
        }
}

/* Returns what all tiles of a panel have in common. */
static struct tide_window_tile tile_of(const struct job *job, int64_t panel)
{
    const struct tide_windows *w = job->windows;
    const int64_t columns = job->kind->columns, column = panel * columns,
                  at = column * (int64_t)tide_dtype_bytes(w->to);
    const char *add = job->operands->added;
    struct tide_window_tile tile = {.a_cell = 1,
                                    .b = (const uint32_t *)job->operands->b + column,
                                    .b_cell = w->n,
                                    .to = w->to,
                                    .width = tide_smaller(columns, w->n - column),
                                    .bias = job->operands->bias ? job->operands->bias + column : NULL,
                                    .add = add ? add + at : NULL,
                                    .relu = w->relu,
                                    .c = (char *)job->operands->c + at,
                                    .begins = true,
                                    .ends = true};
    tile.is_cut = tile.width < columns;
    if (job->packs) {
        tile.b = job->packed + panel * TIDE_WINDOW * job->words * columns;
        tile.b_cell = columns;
        tile.is_cut = false;
    }
    return tile;
}

static int64_t c_row_bytes(const struct job *job)
{
    return job->windows->n * (int64_t)tide_dtype_bytes(job->windows->to);
}

/* Multiplies a tile of the chunk that begins at row `first`. stretches: memory for the tile's. */
static void multiply_tile(const struct job *job, int64_t first, const struct tile *of,
                          struct tide_window_tile *tile, struct tide_stretch *stretches, uint32_t *room)
{
    const int64_t window = TIDE_WINDOW * job->words, c_bytes = c_row_bytes(job);
    stretches[0] = (struct tide_stretch){0, 0, window};
    tile->stretch_count = of->sort == MIXED ? 1 : stretches_of(job, of->sort, stretches);
    tile->rows = of->count;
    if (of->sort == MIXED)
        gather(job, first, of, room);
    for (int i = 0; i < job->kind->rows; i++) {
        int64_t row = i < of->count ? i : 0;
        tile->a[i] = of->sort == MIXED ? room + row * window
                                       : (const uint32_t *)(const void *)row_of(job, first + of->rows[row]);
        tile->c_row[i] = (first + of->rows[row]) * c_bytes;
    }
    job->kind->window(tile);
}

/* Tiles of all chunks, numbered consecutively. */
static void multiply_tiles(const struct job *job, int64_t from, int64_t until, uint32_t *room)
{
    int64_t whole = chunks_of(job) * job->tiles;
    for (int64_t panel = 0; panel < job->panels; panel++) {
        struct tide_stretch stretches[TIDE_WINDOW_SIDE];
        struct tide_window_tile tile = tile_of(job, panel);
        tile.stretches = stretches;
        for (int64_t i = from; i < until; i++) {
            int64_t chunk = i < whole ? i / job->tiles : chunks_of(job);
            const struct tile *of = job->list + (i < whole ? i % job->tiles : job->tiles + i - whole);
            multiply_tile(job, chunk * CHUNK * job->cells, of, &tile, stretches, room);
        }
    }
}

static void multiply_share(void *context, int64_t first, int64_t last)
{
    const struct job *job = context;
    struct tide_taker taker = {job->shares, job->threads, tide_thread(), 0};
    uint32_t *room = (uint32_t *)(void *)(job->rooms + (size_t)tide_thread() * job->room_bytes);
    int64_t tiles = chunks_of(job) * job->tiles + job->tiles_left, unit;
    (void)first, (void)last;
    while (tide_share_take(&taker, 1, &unit))
        multiply_tiles(job, unit * job->unit, tide_smaller((unit + 1) * job->unit, tiles), room);
}

static void pack_panels(void *context, int64_t first, int64_t last)
{
    const struct job *job = context;
    const struct tide_windows *w = job->windows;
    struct tide_operand b = tide_operand_of(
        job->operands->b, w->b_from, w->b_from == TIDE_I8 ? (int64_t)tide_row_bytes(TIDE_I8, w->n) : w->n,
        false, w->n, TIDE_WINDOW * w->channels);
    const int64_t columns = job->kind->columns, cells = TIDE_WINDOW * job->words;
    b.to = job->kind->cells;
    for (int64_t panel = first; panel < last; panel++)
        job->kind->pack_b(&b, (struct tide_strip){panel * columns, columns, 0, cells},
                          job->packed + panel * columns * cells);
}

static void multiply_windows(struct job *job)
{
    int64_t tiles = chunks_of(job) * job->tiles + job->tiles_left;
    if (job->tiles)
        list_tiles(job, CHUNK, job->list);
    if (job->tiles_left)
        list_tiles(job, job->windows->boards % CHUNK, job->list + job->tiles);
    if (job->packs)
        tide_parallel(job->panels, 1, pack_panels, job);
    tide_shares_begin(job->shares, job->threads, tide_ceiling(tiles, job->unit));
    tide_parallel(job->threads, 1, multiply_share, job);
}

/* ---- the other product: units are a place and a panel */

/* Lists the cells of `boards` boards with a neighbour at that place, as ranges: lines, or whole boards. */
static int64_t list_stretches(const struct job *job, int64_t boards, int place, struct tide_stretch *list,
                              int64_t *ret_cells)
{
    const struct tide_board *board = &job->windows->board;
    int64_t down = place / TIDE_WINDOW_SIDE - 1, right = place % TIDE_WINDOW_SIDE - 1, count = 0,
            x = right < 0 ? 1 : 0, width = board->columns - (right ? 1 : 0),
            shift = down * board->columns + right;
    *ret_cells = 0;
    for (int64_t line = 0; width > 0 && line < boards * board->rows; line++) {
        int64_t y = line % board->rows, row = line * board->columns + x;
        if (y + down < 0 || y + down >= board->rows)
            continue;
        *ret_cells += width;
        if (count && list[count - 1].b + list[count - 1].cells == row)
            list[count - 1].cells += width;
        else
            list[count++] = (struct tide_stretch){(row + shift) * job->words, row, width};
    }
    return count;
}

/* What a tile of this block prefetches of the next: its share of a and b. */
static void ask_for_boards(const struct job *job, int64_t first, int64_t part, int64_t parts, int64_t panel,
                           struct tide_window_tile *tile)
{
    const struct tide_windows *w = job->windows;
    int64_t boards = tide_smaller(job->block, w->boards - first), rows = tide_larger(0, boards * job->cells),
            from = rows * part / parts, until = rows * (part + 1) / parts;
    struct tide_operand a = tide_operand_of(job->operands->a, TIDE_F32, w->channels, false, w->channels,
                                            w->boards * job->cells),
                        b = tide_operand_of(job->operands->b, TIDE_F32, w->n, false, w->n,
                                            w->boards * job->cells);
    from += first * job->cells;
    until += first * job->cells;
    tile->ask[0] = tide_pack_cache_lines(&a, (struct tide_strip){0, w->channels, from, until});
    tile->ask[1] = tide_pack_cache_lines(
        &b, (struct tide_strip){panel * job->kind->columns, job->kind->columns, from, until});
}

static void sum_block(const struct job *job, int64_t first, int place, int64_t panel, float *sums,
                      struct tide_window_tile *tile)
{
    const int64_t rows = job->kind->rows, channels = job->windows->channels, c_bytes = c_row_bytes(job);
    const uint32_t *a = (const uint32_t *)job->operands->a + first * job->cells * job->words;
    tile->b = (const uint32_t *)job->operands->b + first * job->cells * job->windows->n +
              panel * job->kind->columns;
    for (int64_t channel = 0; channel < channels; channel += rows) {
        tile->rows = tide_smaller(rows, channels - channel);
        for (int64_t i = 0; i < rows; i++) {
            int64_t at = channel + (i < tile->rows ? i : 0);
            tile->a[i] = a + at;
            tile->c_row[i] = (place * channels + at) * c_bytes;
        }
        tile->sums = sums + channel * job->kind->columns;
        ask_for_boards(job, first + job->block, channel / rows, tide_ceiling(channels, rows), panel, tile);
        job->kind->window(tile);
    }
}

static void sum_unit(const struct job *job, int place, int64_t panel, char *room)
{
    struct tide_stretch *stretches = (struct tide_stretch *)(void *)room;
    float *sums = (float *)(void *)(room + tide_aligned(sizeof *stretches *
                                                        (size_t)(job->block * job->windows->board.rows)));
    struct tide_window_tile tile = tile_of(job, panel);
    tile.a_cell = job->words;
    tile.stretches = stretches;
    for (int64_t block = 0; block < job->blocks; block++) {
        int64_t first = block * job->block, boards = tide_smaller(job->block, job->windows->boards - first);
        if (!block || boards < job->block)
            tile.stretch_count = list_stretches(job, boards, place, stretches, &tile.cells);
        tile.begins = !block;
        tile.ends = block + 1 == job->blocks;
        sum_block(job, first, place, panel, sums, &tile);
    }
}

static void sum_share(void *context, int64_t first, int64_t last)
{
    const struct job *job = context;
    struct tide_taker taker = {job->shares, job->threads, tide_thread(), 0};
    int64_t unit;
    (void)first, (void)last;
    while (tide_share_take(&taker, 1, &unit))
        sum_unit(job, (int)(unit % TIDE_WINDOW), unit / TIDE_WINDOW,
                 job->rooms + (size_t)tide_thread() * job->room_bytes);
}

void tide_windows_multiply(const struct tide_tile_kind *kind, const struct tide_windows *windows,
                           const struct tide_operands *operands, void *scratch)
{
    struct job job = job_of(kind, windows);
    job.operands = operands;
    job.shares = scratch;
    char *room = (char *)scratch + (size_t)job.threads * sizeof(struct tide_share);
    job.list = (struct tile *)(void *)room;
    job.packed = (uint32_t *)(void *)(room + job.list_bytes);
    job.rooms = room + job.list_bytes + job.b_bytes;
    if (!windows->transposed) {
        multiply_windows(&job);
        return;
    }
    tide_shares_begin(job.shares, job.threads, TIDE_WINDOW * job.panels);
    tide_parallel(job.threads, 1, sum_share, &job);
}
