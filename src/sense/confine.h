/*
 * confine.h - takes from this process whatever reading files does not need, for good.
 *
 * For a program that reads untrusted files with large libraries. Afterwards it can read files, have memory
 * up to a limit and use the descriptors that it has. It cannot write or make a file, start a program or a
 * thread, open a socket, send a signal or make memory executable: those calls fail with ENOSYS (seccomp). Of
 * a superuser's capabilities only those are left by which files of other users and containers can be read.
 *
 * The filter of system calls is there on x86-64 and aarch64; on other processors the rest holds without it.
 * A sanitizer's run-time library needs memory and system calls of its own: there neither the filter nor the
 * limit on memory is set.
 */
#ifndef TIDE_CONFINE_H
#define TIDE_CONFINE_H

#include "base/err.h"

#include <stdint.h>

/* 0, or -1 when the process is not confined and should not go on. data_bytes: limit of the memory that is its
 * own; maps of files are not counted. */
int tide_confine(uint64_t data_bytes, struct tide_err *err);

#endif
