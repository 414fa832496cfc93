/*
 * confine.h - drops every privilege that reading files does not need, for good.
 *
 * For a program that reads untrusted files with large libraries. Afterwards it can read files, allocate
 * memory up to a limit and use its open descriptors. It cannot write or create a file, start a program or a
 * thread, open a socket, send a signal or make memory executable: those calls fail with ENOSYS (seccomp). Of
 * a superuser's capabilities it keeps only those needed to read files of other users and containers.
 *
 * The system call filter exists for x86-64 and aarch64; other processors go without it. With a sanitizer,
 * whose run-time library needs memory and system calls of its own, neither the filter nor the memory limit is
 * set.
 */
#ifndef TIDE_CONFINE_H
#define TIDE_CONFINE_H

#include "base/err.h"

#include <stdint.h>

/* 0, or -1 if the process is not confined and should not continue. data_bytes: limit on its own memory;
 * mapped files do not count. */
int tide_confine(uint64_t data_bytes, struct tide_err *err);

#endif
