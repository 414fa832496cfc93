/*
 * title.h - the name by which ps, top and pkill know this process.
 *
 * A forked process keeps its parent's name and command line until it changes them, and somebody who kills by
 * name means the parent, or the command named in its command line.
 */
#ifndef TIDE_TITLE_H
#define TIDE_TITLE_H

/* Call once, at the start of main(), before argv is changed. */
void tide_title_init(int argc, char **argv);

/*
 * Sets the name of this process (the first 15 bytes of `name`) and its command line (as far as the old one
 * had room). Overwrites the strings of argv, so it is for a child that no longer needs them. Without
 * tide_title_init() the command line stays.
 */
void tide_title_set(const char *name);

#endif
