/*
 * cmd_train.c - tidemark train TASK: finds the task's own command.
 */
#include "cli/cmd_train.h"
#include "base/text.h"

#include <string.h>

static const struct tide_command *const parts[] = {&tide_train_lm, &tide_train_grpo, &tide_train_selfplay,
                                                   NULL};
static tide_train_reader *const readers[] = {tide_train_lm_read, tide_train_grpo_read,
                                             tide_train_selfplay_read};

/* "train lm" -> "lm". */
static const char *task_name(const struct tide_command *part)
{
    return strchr(part->name, ' ') + 1;
}

static int find_part(const char *word)
{
    for (int i = 0; parts[i]; i++)
        if (!strcmp(task_name(parts[i]), word))
            return i;
    return -1;
}

/* Which task the words name. It may stand behind options, and is taken out of them. -1: none. */
static int take_task(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int part = find_part(argv[i]);
        if (part < 0)
            continue;
        memmove(argv + 1, argv, (size_t)i * sizeof *argv);
        return part;
    }
    return -1;
}

/* Words that name no task: options of its own, and one sentence. */
static int read_none(int argc, char **argv)
{
    struct tide_err err = {0};
    char shown[96], **operands, none;
    int count, code;
    if (tide_command_parse(&tide_command_train, 0, argc, argv, &none, &operands, &count, NULL, &code))
        return code;
    if (count)
        tide_err_set(&err, "train: there is no task '%s'", tide_text_shown(operands[0], shown, sizeof shown));
    else
        tide_err_set(&err, "train: expected what to train");
    tide_err_hint(&err, "to train a language model: tidemark train lm");
    return tide_report(&err);
}

static int read_words(int argc, char **argv, struct tide_train_values *ret_values,
                      struct tide_task **ret_task, int *ret_exit)
{
    int part = take_task(argc, argv);
    if (part < 0) {
        *ret_exit = read_none(argc, argv);
        return 1;
    }
    if (readers[part](argc - 1, argv + 1, ret_values, ret_task, ret_exit))
        return 1;
    if (*ret_task)
        return 0;
    struct tide_err err = {0};
    tide_err_set(&err, "out of memory");
    *ret_exit = tide_report(&err);
    return 1;
}

int tide_train_open(int argc, char **argv, struct tide_trainer **ret_trainer, int *ret_exit)
{
    struct tide_train_values v;
    struct tide_task *task;
    struct tide_err err = {0};
    if (read_words(argc, argv, &v, &task, ret_exit))
        return 1;
    if (!tide_trainer_new(task, &v.train, ret_trainer, &err))
        return 0;
    *ret_exit = tide_report(&err);
    return 1;
}

static int run(int argc, char **argv)
{
    struct tide_train_values v;
    struct tide_task *task;
    int code;
    return read_words(argc, argv, &v, &task, &code) ? code : tide_train_run(&v, task);
}

static const struct tide_option options[] = {{0}};

const struct tide_command tide_command_train = {
    .name = "train",
    .synopsis = "TASK [options]",
    .summary = "train a model in memory that is planned beforehand",
    .details =
        "Before the first step all memory of the run is laid out in one arena, and the layout is printed; after the first step nothing is allocated and no page is "
        "added. With --budget the fastest layout that fits is chosen.",
    .options = options,
    .parts = parts,
    .run = run,
    .computes = true,
};
