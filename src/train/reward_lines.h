/*
 * reward_lines.h - the two lines between Tidemark and a reward command (rewards.h): a question, written piece
 * by piece so that it needs no memory of its own, and an answer.
 */
#ifndef TIDE_REWARD_LINES_H
#define TIDE_REWARD_LINES_H

#include "train/rewards.h"

#include <stdbool.h>

/* Borrows both. All but the first three members are zero before the first piece. */
struct tide_reward_question {
    const struct tide_prompt *prompt;
    const struct tide_completion_text *completions;
    int64_t count;
    int part;
    int64_t completion; /* the one being written */
    size_t at;          /* bytes of the part already written */
};

enum { TIDE_REWARD_PIECE_LEAST = 64 };

/* Writes the next piece of the line and returns its length; 0: the end. room: TIDE_REWARD_PIECE_LEAST or
 * more. */
size_t tide_reward_question_next(struct tide_reward_question *question, char *out, size_t room);

/* Returns the longest allowed line of an answer about that many completions. */
size_t tide_reward_answer_most(int64_t count);

/* Parses a line without its end, NUL-terminated, and modifies it. -1 with a sentence that lacks its subject:
 * "answered 7 rewards for 8 completions". */
int tide_reward_answer(char *line, size_t len, int64_t count, float *ret_rewards, struct tide_err *err);

#endif
