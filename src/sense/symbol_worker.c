#include "sense/symbol_worker.h"

#include "base/descriptors.h"
#include "base/resident.h"
#include "sense/confine.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    QUESTIONS = STDIN_FILENO,
    ANSWER_SECONDS = 20,
    GROWN_BYTES = 1 << 30,
};

static const uint64_t DATA_BYTES_MOST = UINT64_C(4) << 30;

/* Resets all signal handlers: the server must see a crash, and no sanitizer may handle it. */
static void settle(void)
{
    sigset_t none;

    for (int signal = 1; signal < NSIG; signal++)
        if (sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL) != 0)
            continue;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_NAME, "tidemark-symbol");
    tide_close_all_but(STDERR_FILENO + 1, NULL, 0);
    (void)!nice(5); /* if that is not allowed, it works all the same */
}

static size_t write_reply(char *out, struct tide_symbol_reply head, const struct tide_symbol_frame *frames,
                          size_t count)
{
    size_t used = sizeof head;

    for (size_t i = 0; i < count; i++) {
        size_t function = strlen(frames[i].function) + 1, file = strlen(frames[i].file) + 1;
        if (used + sizeof frames[i].line + 1 + function + file > TIDE_SYMBOL_REPLY_BYTES)
            break;
        memcpy(out + used, &frames[i].line, sizeof frames[i].line);
        used += sizeof frames[i].line;
        out[used++] = (char)frames[i].inlined;
        memcpy(out + used, frames[i].function, function);
        used += function;
        memcpy(out + used, frames[i].file, file);
        used += file;
        head.count++;
    }
    memcpy(out, &head, sizeof head);
    return used;
}

/* False if nobody waits for answers any more, or another worker should answer. */
static bool answer_one(struct tide_symbols *symbols, bool look_at_size)
{
    static char packet[sizeof(struct tide_symbol_question) + TIDE_SYMBOL_TEXT];
    static char reply[TIDE_SYMBOL_REPLY_BYTES];
    struct tide_symbol_question question;
    ssize_t got = recv(QUESTIONS, packet, sizeof packet - 1, 0);

    if (got < 0 && errno == EINTR)
        return true;
    if (got < (ssize_t)sizeof question)
        return false;
    memcpy(&question, packet, sizeof question);
    packet[got] = '\0';
    question.module.path = packet + sizeof question;
    struct tide_symbol_frame frames[TIDE_SYMBOL_FRAMES];
    alarm(ANSWER_SECONDS);
    size_t count =
        tide_symbols_resolve(symbols, &question.module, question.address, question.debug_info, frames);
    alarm(0);
    struct tide_symbol_reply head = {.tag = question.tag,
                                     .last = look_at_size && tide_resident_now().bytes > GROWN_BYTES};
    size_t len = write_reply(reply, head, frames, count);
    return send(QUESTIONS, reply, len, MSG_NOSIGNAL) >= 0 && !head.last;
}

int tide_symbol_worker_run(void)
{
    struct tide_err err;

    settle();
    struct tide_symbols *symbols = tide_symbols_new();
    if (!symbols || tide_confine(DATA_BYTES_MOST, &err) != 0) {
        tide_symbols_free(symbols);
        return 1;
    }
    for (unsigned n = 1; answer_one(symbols, n % 64 == 0); n++)
        ;
    tide_symbols_free(symbols);
    return 0;
}
