/*
 * title.h - what ps, top and pkill call this process.
 *
 * A process that is forked has its parent's name and command line until it says otherwise, and who kills by
 * either of them means the parent, or the command that is named in it.
 */
#ifndef TIDE_TITLE_H
#define TIDE_TITLE_H

/* Once, at the beginning of main(), before argv is changed. */
void tide_title_init(int argc, char **argv);

/*
 * Makes `name` the name of this process (its first 15 bytes) and its command line (as much of it as the old
 * one has room for). The strings of argv are overwritten: for a child that has no more use for them. Without
 * tide_title_init() the command line stays what it was.
 */
void tide_title_set(const char *name);

#endif
