#include "cli/status_line.h"

#include "base/escape.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_ROWS = 6, LEAST_COLUMNS = 40 };

/* One more state: a sequence too long to hold. */
enum { OVERLONG = TIDE_ESCAPE_STATES };

static void put_text(struct tide_status_line *line, const char *text)
{
    line->put(line->context, text, strlen(text));
}

void tide_status_line_init(struct tide_status_line *line, int rows, int columns, bool wanted, bool colour,
                           tide_status_put *put, void *context)
{
    *line = (struct tide_status_line){.put = put,
                                      .context = context,
                                      .rows = rows,
                                      .columns = columns,
                                      .wanted = wanted,
                                      .colour = colour,
                                      .cells_known = true};
}

static bool fits(const struct tide_status_line *line)
{
    return line->wanted && line->rows >= LEAST_ROWS && line->columns >= LEAST_COLUMNS;
}

int tide_status_line_rows(const struct tide_status_line *line)
{
    return fits(line) ? line->rows - 1 : line->rows;
}

/* The bytes of a sequence that is not a string are held back, so the terminal has not seen its beginning. */
static bool terminal_is_idle(const struct tide_status_line *line)
{
    return line->state < TIDE_ESCAPE_STRING && line->rune_left == 0;
}

void tide_status_line_end(struct tide_status_line *line)
{
    if (!line->shown)
        return;
    line->shown = false;
    if (!terminal_is_idle(line))
        put_text(line, "\033\\"); /* ends the string in which the program died */
    char text[64];
    snprintf(text, sizeof text, "\0337\033[r\033[%d;1H\033[2K\0338", line->rows);
    put_text(line, text);
}

/* Scrolls up if the cursor is in the last row, then keeps that row out of the scroll region. */
static void begin(struct tide_status_line *line)
{
    char text[64];
    snprintf(text, sizeof text, "\n\033[A\0337\033[1;%dr\0338", line->rows - 1);
    put_text(line, text);
    line->shown = true;
}

bool tide_status_line_draw(struct tide_status_line *line, const char *text)
{
    if (!fits(line) || line->retired || line->alternate || line->region || !terminal_is_idle(line) ||
        line->held_len || !line->cells_known || line->cells >= (size_t)line->columns)
        return false;
    if (!line->shown)
        begin(line);
    size_t len = tide_text_fitting(text, strlen(text), (size_t)line->columns - 2);
    char out[1024];
    int used = snprintf(out, sizeof out, "\0337\033[%d;1H\033[0m\033[2K%s%.*s%s\0338", line->rows,
                        line->colour ? "\033[7m " : " ", (int)(len < 900 ? len : 900), text,
                        line->colour ? " \033[0m" : "");
    if (used > 0 && (size_t)used < sizeof out)
        line->put(line->context, out, (size_t)used);
    line->stale = false;
    return true;
}

void tide_status_line_say(struct tide_status_line *line, const char *text)
{
    tide_status_line_flush(line);
    if (!terminal_is_idle(line))
        put_text(line, "\033\\");
    if (line->cells)
        put_text(line, "\r\n");
    put_text(line, text);
    put_text(line, "\r\n");
    line->cells = 0;
    line->cells_known = true;
}

static void set_column(struct tide_status_line *line, long column)
{
    line->cells = column <= 0 ? 0 : column >= line->columns ? (size_t)line->columns - 1 : (size_t)column;
}

/* Puts the cursor at a known column, whatever was known before. */
static void place_cursor(struct tide_status_line *line, long column)
{
    set_column(line, column);
    line->cells_known = true;
}

void tide_status_line_resize(struct tide_status_line *line, int rows, int columns)
{
    /* The terminal has moved the contents of our row, we do not know where to. But the program has nothing
     * below its cursor. */
    if (line->shown && terminal_is_idle(line)) {
        put_text(line, "\0337\033[r\0338");
        if (rows > line->rows)
            put_text(line, "\0337\033[B\r\033[J\0338");
    }
    line->shown = false;
    line->rows = rows;
    line->columns = columns;
    set_column(line, (long)line->cells);
}

/* ---- the program's sequences ---- */

/* The n-th (from 0) parameter, or fallback when it is missing or 0. */
static int parameter(const char *parameters, size_t len, int n, int fallback)
{
    size_t at = 0;
    for (; n > 0 && at < len; at++)
        n -= parameters[at] == ';';
    int value = 0;
    for (; n == 0 && at < len && parameters[at] >= '0' && parameters[at] <= '9' && value < 100000; at++)
        value = value * 10 + (parameters[at] - '0');
    return n == 0 && value ? value : fallback;
}

static bool has_parameter(const char *parameters, size_t len, int wanted)
{
    for (int n = 0; n < (int)len; n++)
        if (parameter(parameters, len, n, 0) == wanted)
            return true;
    return false;
}

static void take_scroll_region(struct tide_status_line *line, const char *parameters, size_t len)
{
    int rows = tide_status_line_rows(line);
    bool whole = parameter(parameters, len, 0, 1) == 1 && parameter(parameters, len, 1, rows) >= rows;
    if (!whole)
        tide_status_line_end(line);
    line->put(line->context, line->held, line->held_len);
    line->region = !whole;
    place_cursor(line, 0); /* the sequence moves the cursor home */
    if (whole && line->shown) {
        line->shown = false;
        begin(line);
    }
}

/* Handles the complete control sequence in `held`. */
static void take_csi(struct tide_status_line *line)
{
    char final = line->held[line->held_len - 1];
    const char *parameters = line->held + 2;
    size_t len = line->held_len - 3;
    bool private = len && *parameters == '?';
    bool plain = !len || (*parameters >= '0' && *parameters <= ';');
    bool screen =
        private && (final == 'h' || final == 'l') &&
        (has_parameter(parameters + 1, len - 1, 1049) || has_parameter(parameters + 1, len - 1, 1047) ||
         has_parameter(parameters + 1, len - 1, 47));
    bool save = (plain && ((final == 's' && !len) || (final == 'u' && !len))) ||
                (private && has_parameter(parameters + 1, len - 1, 1048));
    if (plain && final == 'r') {
        take_scroll_region(line, parameters, len);
        return;
    }
    if (save)
        line->retired = true;
    if (save || (screen && final == 'h'))
        tide_status_line_end(line);
    line->put(line->context, line->held, line->held_len);
    if (screen) {
        line->alternate = final == 'h';
        line->cells_known = false;
    } else if (plain) {
        /* these leave the cursor in its column; after any other, that is not known until the next \r */
        line->cells_known = line->cells_known && strchr("ABdmKJPX@STnchlqt", final);
        line->stale = line->stale || final == 'J';
    } else if (final == 'p' && len && parameters[len - 1] == '!') {
        line->shown = line->region = false; /* soft reset */
    }
}

/* Handles the complete escape sequence in `held`: two bytes, or more with intermediates. */
static void take_escape(struct tide_status_line *line)
{
    char final = line->held[line->held_len - 1];
    bool plain = line->held_len == 2;
    if (plain && (final == '7' || final == '8')) {
        line->retired = true;
        tide_status_line_end(line);
    }
    line->put(line->context, line->held, line->held_len);
    if (plain && final == 'c') {
        line->shown = line->region = line->alternate = false;
        place_cursor(line, 0);
    } else if (plain && final == 'E') {
        line->cells = 0;
    }
}

void tide_status_line_flush(struct tide_status_line *line)
{
    if (line->held_len)
        line->put(line->context, line->held, line->held_len);
    line->held_len = 0;
    if (line->state < TIDE_ESCAPE_STRING)
        line->state = TIDE_ESCAPE_NONE;
}

static bool is_holding(const struct tide_status_line *line)
{
    return line->state > TIDE_ESCAPE_NONE && line->state < TIDE_ESCAPE_STRING;
}

/* Takes one byte of an escape sequence. Bytes are held until the sequence is complete. */
static void feed_sequence(struct tide_status_line *line, unsigned char c)
{
    if (c == 0x1b)
        tide_status_line_flush(line); /* it interrupts a sequence */
    int before = line->state;
    line->state = (int)tide_escape_next((enum tide_escape)before, c);
    line->held[line->held_len++] = (char)c;
    if (is_holding(line)) {
        if (line->held_len == TIDE_STATUS_SEQUENCE) {
            tide_status_line_flush(line);
            line->state = OVERLONG;
        }
        return;
    }
    if (c == 0x18 || c == 0x1a) /* cancelled */
        line->put(line->context, line->held, line->held_len);
    else if (before == TIDE_ESCAPE_CSI)
        take_csi(line);
    else
        take_escape(line);
    line->held_len = 0;
}

/* Follows one byte of a string (OSC etc.) or of a sequence too long to hold; the byte has been passed on. */
static void follow_string(struct tide_status_line *line, unsigned char c)
{
    if (line->state != OVERLONG) {
        line->state = (int)tide_escape_next((enum tide_escape)line->state, c);
        return;
    }
    if (tide_escape_next(TIDE_ESCAPE_CSI, c) == TIDE_ESCAPE_NONE)
        line->state = TIDE_ESCAPE_NONE;
    line->cells_known = false;
}

static void advance(struct tide_status_line *line, size_t width)
{
    size_t columns = line->columns > 0 ? (size_t)line->columns : 1;
    line->cells = line->cells + width > columns ? width : line->cells + width;
}

/* Follows the cursor through one byte of plain output. */
static void follow_ground(struct tide_status_line *line, const char *at, size_t left)
{
    unsigned char c = (unsigned char)*at;
    if (line->rune_left && (c & 0xc0) == 0x80) {
        line->rune_left--;
        return;
    }
    line->rune_left = 0;
    if (c == '\r') {
        place_cursor(line, 0);
    } else if (c == '\t') {
        set_column(line, (long)(line->cells / 8 + 1) * 8);
    } else if (c == '\b') {
        set_column(line, (long)line->cells - 1);
    } else if (c >= 0xc2 && c <= 0xf4) {
        line->rune_left = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        size_t rune = tide_text_rune(at, left, NULL);
        advance(line, rune ? tide_text_columns(at, rune) : 1);
        if (!rune)
            line->cells_known = false; /* cut by the end of the chunk: its width is not known */
    } else if (c >= 0x20 && c != 0x7f) {
        advance(line, 1);
    }
}

void tide_status_line_feed(struct tide_status_line *line, const char *bytes, size_t len)
{
    if (!line->wanted) {
        line->put(line->context, bytes, len);
        return;
    }
    size_t from = 0; /* bytes[from..i) are still to be passed on */
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (is_holding(line) || (line->state == TIDE_ESCAPE_NONE && c == 0x1b)) {
            if (i > from)
                line->put(line->context, bytes + from, i - from);
            from = i + 1;
            line->rune_left = 0;
            feed_sequence(line, c);
        } else if (line->state != TIDE_ESCAPE_NONE) {
            follow_string(line, c);
        } else {
            follow_ground(line, bytes + i, len - i);
        }
    }
    if (len > from)
        line->put(line->context, bytes + from, len - from);
}
