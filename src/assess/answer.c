#include "assess/answer.h"

int tide_answer_init(struct tide_answer *answer, const char *path, const struct tide_assess_options *options,
                     struct tide_err *err)
{
    struct tide_answer a = {0};
    struct tide_reader *reader = NULL;
    int bad = tide_reader_new(path, &reader, err) || tide_history_new(0, &a.history, err) ||
              tide_history_load(a.history, reader, err) ||
              tide_assess_history(a.history, options, &a.assessment, err);
    tide_reader_free(reader);
    if (bad) {
        tide_answer_release(&a);
        return -1;
    }
    *answer = a;
    return 0;
}

void tide_answer_release(struct tide_answer *answer)
{
    tide_assessment_free(answer->assessment);
    tide_history_free(answer->history);
    *answer = (struct tide_answer){0};
}
