/*
 * witness.h - was a signal sent to the command too?
 *
 * timeout, systemd and batch systems signal a whole process group or control group: the command gets the
 * signal by itself, and would get it a second time if the tracker passed its own on. A second SIGINT
 * interrupts whatever a program does because of the first, such as saving its state. Nothing tells the
 * tracker whom else the sender meant. So a small process in its process group blocks all signals and reports
 * those that it gets.
 */
#ifndef TIDE_WITNESS_H
#define TIDE_WITNESS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tide_witness {
    pid_t pid;   /* 0: none */
    int reports; /* of struct tide_witness_report */
    struct tide_witness_report {
        int64_t t_ns;
        int32_t signal, sender;
    } last;
};

/* Starts it; it ends with this process. Call with signals blocked and before any thread exists. Without it,
 * nothing is heard. */
void tide_witness_init(struct tide_witness *witness);
void tide_witness_release(struct tide_witness *witness);

/* True if the witness got that signal from that process too, within the last second or in a moment. */
bool tide_witness_heard(struct tide_witness *witness, int signal, pid_t sender);

#endif
