/*
 * symbol_worker.h - the program that answers the questions of symbol_server.h: symbol.h behind a socket.
 *
 * This is `tidemark symbol-worker`, which no help mentions. symbol_server.c starts it with a socket as its
 * standard input. It confines itself (confine.h) and answers questions, one after the other, until nobody
 * holds the other end. A question that takes more than 20 seconds ends it (SIGALRM). A worker that has grown
 * too large says so in an answer, which is its last.
 */
#ifndef TIDE_SYMBOL_WORKER_H
#define TIDE_SYMBOL_WORKER_H

#include "sense/symbol.h"

#include <stdint.h>

#define TIDE_SYMBOL_WORKER "symbol-worker"

enum { TIDE_SYMBOL_REPLY_BYTES = 64 * 1024 };

/* One packet; the module's path follows, without a NUL. */
struct tide_symbol_question {
    uint64_t tag, address;
    struct tide_symbol_module module; /* its path is NULL */
    uint64_t debug_info;
};

/* One packet; count times { int64_t line; uint8_t inlined; function NUL; file NUL } follow. */
struct tide_symbol_reply {
    uint64_t tag;
    uint32_t last; /* the worker's last answer: it ends now */
    uint32_t count;
};

/* Answers questions from standard input. Returns the exit status of the process. */
int tide_symbol_worker_run(void);

#endif
