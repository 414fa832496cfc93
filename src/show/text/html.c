#include "show/text/html.h"
#include "base/text.h"

#include <string.h>

static const char *const entities['>' + 1] = {
    ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;"};

void tide_html_text(FILE *out, const char *before, const char *text, size_t most, const char *after)
{
    size_t len = strlen(text);
    fputs(before, out);
    for (size_t i = 0; i < len;) {
        size_t taken = tide_text_rune(text + i, len - i, NULL);
        taken = taken ? taken : 1;
        if (most && i + taken > most) {
            fputs("..", out);
            break;
        }
        const char *entity = (unsigned char)text[i] <= '>' ? entities[(unsigned char)text[i]] : NULL;
        fputs(entity ? entity : TIDE_ESCAPED(text + i, taken, 24), out);
        i += taken;
    }
    fputs(after, out);
}
