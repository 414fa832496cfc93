/*
 * html.h - untrusted text, put into a page so that it is seen and never acts.
 */
#ifndef TIDE_HTML_H
#define TIDE_HTML_H

#include <stddef.h>
#include <stdio.h>

/* Writes text for an element or a quoted attribute, between markup of ours: its own markup as entities;
 * control characters, bidirectional marks and bytes that are not UTF-8 as \xNN or \u{NNNN}. Of more than
 * `most` bytes the rest is left out and ".." stands for it; 0: all. */
void tide_html_text(FILE *out, const char *before, const char *text, size_t most, const char *after);

#endif
