/*
 * html.h - writes untrusted text into a page so that it is shown and never interpreted.
 */
#ifndef TIDE_HTML_H
#define TIDE_HTML_H

#include <stddef.h>
#include <stdio.h>

/* Writes text for an element or a quoted attribute, between our own markup `before` and `after`. Markup in
 * the text becomes entities; control characters, bidirectional marks and bytes that are not UTF-8 become \xNN
 * or \u{NNNN}. A text of more than `most` bytes is cut and ends in ".."; 0: never cut. */
void tide_html_text(FILE *out, const char *before, const char *text, size_t most, const char *after);

#endif
