#include "plan/job.h"

#include <string.h>

void tide_job_init(struct tide_job *job)
{
    *job = (struct tide_job){
        .batch = 8, .accumulation = 1, .rank = 16, .degree = 1, .optimizer = TIDE_ADAMW, .reference = true};
}

static int bounded(const char *name, int64_t value, int64_t least, int64_t most, struct tide_err *err)
{
    if (value >= least && value <= most)
        return 0;
    return tide_err_set(err, "%s is %lld; it must be from %lld to %lld", name, (long long)value,
                        (long long)least, (long long)most);
}

int tide_job_check(const struct tide_job *job, struct tide_err *err)
{
    const struct tide_architecture *m = &job->model;
    bool sees = tide_model_sees(m);
    if (bounded("the batch", job->batch, 1, 1 << 24, err) ||
        bounded(sees ? "the picture's side" : "the sequence", job->sequence, 1, 1 << 24, err) ||
        bounded("the accumulation", job->accumulation, 1, 1 << 20, err) ||
        bounded("the generation", job->generate, 0, 1 << 24, err) ||
        bounded("the rank", job->rank, 1, 1 << 16, err) ||
        bounded("the number of processes", job->degree, 1, 1 << 20, err))
        return -1;
    if (job->loss && (sees || job->task == TIDE_TASK_GRPO || job->task == TIDE_TASK_INFER))
        return tide_err_set(err, "--loss is only for training on text: pretrain, sft, lora");
    if (job->held && (job->loss == TIDE_LOSS_TRAINER || job->loss == TIDE_LOSS_TRL))
        return tide_err_set(err, "a Trainer does not hold the model's output");
    if (sees && (job->task == TIDE_TASK_GRPO || job->task == TIDE_TASK_LORA || job->generate))
        return tide_err_set(err, "'%s' is an image model: it can be trained (pretrain, sft) or run (infer)",
                            m->name);
    if (m->family == TIDE_FAMILY_VIT && job->sequence != m->image) {
        tide_err_set(err, "'%s' takes images of %lld x %lld, not of %lld", m->name, (long long)m->image,
                     (long long)m->image, (long long)job->sequence);
        return tide_err_hint(err, "for images, --seq is the side in pixels");
    }
    if (m->family == TIDE_FAMILY_RESNET && job->checkpointing)
        return tide_err_set(err, "checkpointing cannot be planned for a ResNet: torchvision has none");
    if (m->family == TIDE_FAMILY_GPT2 &&
        job->sequence + (job->task == TIDE_TASK_INFER ? job->generate : 0) > m->positions) {
        tide_err_set(err, "'%s' has %lld positions, and the sequence is longer", m->name,
                     (long long)m->positions);
        return tide_err_hint(err, "a longer context needs a config.json with a larger n_positions");
    }
    if (job->generate && job->task != TIDE_TASK_GRPO && job->task != TIDE_TASK_INFER)
        return tide_err_set(err, "only grpo and infer generate tokens, and the task is %s",
                            tide_task_names[job->task]);
    if (job->task == TIDE_TASK_GRPO && job->generate >= job->sequence)
        return tide_err_set(err, "cannot generate %lld tokens: the sequence has %lld",
                            (long long)job->generate, (long long)job->sequence);
    return 0;
}

const char *const tide_task_names[] = {"pretrain", "sft", "lora", "grpo", "infer", "selfplay", NULL};
const char *const tide_optimizer_names[] = {"sgd",        "momentum",   "adamw",     "adamw-fused",
                                            "adamw-loop", "adamw-8bit", "adafactor", NULL};
const char *const tide_precision_names[] = {"fp32", "bf16", "fp16", NULL};
const char *const tide_sharding_names[] = {"none", "optimizer", "gradients", "full", NULL};
const char *const tide_loss_names[] = {"hf", "own", "trainer", "trl", NULL};

int tide_name_find(const char *const *names, const char *word)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], word))
            return i;
    return -1;
}

int64_t tide_job_sequence(const struct tide_job *job, int64_t generate)
{
    enum { USUAL = 1024 };
    if (tide_model_sees(&job->model))
        return job->model.image;
    int64_t room = job->model.positions - (job->task == TIDE_TASK_INFER ? generate : 0);
    return room < 1 ? 1 : room < USUAL ? room : USUAL;
}
