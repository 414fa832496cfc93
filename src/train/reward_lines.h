/*
 * reward_lines.h - the two lines between Tidemark and a command that gives rewards: a question, written piece
 * by piece so that it takes no memory of its own, and an answer. See rewards.h.
 */
#ifndef TIDE_REWARD_LINES_H
#define TIDE_REWARD_LINES_H

#include "train/rewards.h"

#include <stdbool.h>

/* Borrows both. Zero but for the first three before its first piece. */
struct tide_reward_question {
    const struct tide_prompt *prompt;
    const struct tide_completion_text *completions;
    int64_t count;
    int part;
    int64_t completion; /* which is being written */
    size_t at;          /* bytes of the part that are written */
};

enum { TIDE_REWARD_PIECE_LEAST = 64 };

/* The next piece of the line; its length, 0 when there is no more. room: TIDE_REWARD_PIECE_LEAST or more. */
size_t tide_reward_question_next(struct tide_reward_question *question, char *out, size_t room);

/* The longest line that an answer about so many completions may be. */
size_t tide_reward_answer_most(int64_t count);

/* The line without its end, and a NUL after it; it is changed meanwhile. -1 with a sentence whose subject is
 * the caller's: "answered 7 rewards for 8 completions". */
int tide_reward_answer(char *line, size_t len, int64_t count, float *ret_rewards, struct tide_err *err);

#endif
