/*
 * symbol_server.h - symbol.h in a separate process.
 *
 * Symbols come from untrusted files, read by a large library: a damaged file may crash the reader, and a good
 * one may take seconds and gigabytes. So the tracker asks a worker (symbol_worker.h), another program that
 * can only read files, with limits on its memory and on the time of one answer. If a question kills the
 * worker, a new one is started. The first time, the file is asked about again without its debug information;
 * the second time, nothing is known.
 *
 * tide_symbol_server_new -> _ask() and _hear(), in any order -> _free. The worker is a child of this process;
 * it ends when nobody holds the other end of its socket.
 *
 * Answers come in the order of the questions. At most TIDE_SYMBOL_ASKED questions are open at once.
 */
#ifndef TIDE_SYMBOL_SERVER_H
#define TIDE_SYMBOL_SERVER_H

#include "base/err.h"
#include "sense/symbol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_SYMBOL_ASKED = 512 };

struct tide_symbol_server;

struct tide_symbol_answer {
    uint64_t tag; /* of the question */
    bool crashed; /* it killed the worker: ask again without debug information, or never */
    size_t count; /* frames; 0: nothing known */
    struct tide_symbol_frame frames[TIDE_SYMBOL_FRAMES]; /* borrowed until the next _hear */
};

/* program: runs the worker if its first argument is TIDE_SYMBOL_WORKER; borrowed until _free. */
int tide_symbol_server_new(const char *program, struct tide_symbol_server **ret_server, struct tide_err *err);
void tide_symbol_server_free(struct tide_symbol_server *server);

/* The worker's PID, for code that waits for children. Changes when it is replaced. 0: there is none. */
int64_t tide_symbol_server_pid(const struct tide_symbol_server *server);

/* True if another question may be asked now. */
bool tide_symbol_server_has_room(const struct tide_symbol_server *server);

/* module->path is borrowed until the answer. -1: there is no room, or will be no worker any more. */
int tide_symbol_server_ask(struct tide_symbol_server *server, uint64_t tag,
                           const struct tide_symbol_module *module, uint64_t address, bool debug_info);

/* 1: an answer. 0: none within timeout_ms (0: do not wait). -1: there will be no worker any more. */
int tide_symbol_server_hear(struct tide_symbol_server *server, int timeout_ms,
                            struct tide_symbol_answer *ret_answer);

#endif
