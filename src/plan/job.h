/*
 * job.h - what is to be run: a model, a task and the choices that decide its memory; and the mistakes that
 * could be in it.
 */
#ifndef TIDE_JOB_H
#define TIDE_JOB_H

#include "plan/model.h"

enum tide_job_task {
    TIDE_TASK_PRETRAIN,
    TIDE_TASK_SFT,
    TIDE_TASK_LORA,
    TIDE_TASK_GRPO,
    TIDE_TASK_INFER,
    TIDE_TASK_SELFPLAY /* of tidemark train alone */
};
enum tide_job_optimizer {
    TIDE_SGD,
    TIDE_MOMENTUM,
    TIDE_ADAMW,
    TIDE_ADAMW_FUSED,
    TIDE_ADAMW_LOOP,
    TIDE_ADAMW_8BIT,
    TIDE_ADAFACTOR,
};
enum tide_precision { TIDE_DTYPE_FP32, TIDE_DTYPE_BF16, TIDE_DTYPE_FP16 };
/* Who computes the loss: the model (model(x, labels=x).loss), the program of the model's logits, Hugging
 * Face's Trainer, TRL's SFTTrainer. */
enum tide_loss { TIDE_LOSS_HF, TIDE_LOSS_OWN, TIDE_LOSS_TRAINER, TIDE_LOSS_TRL };
enum tide_sharding { TIDE_SHARD_NOTHING, TIDE_SHARD_OPTIMIZER, TIDE_SHARD_GRADIENTS, TIDE_SHARD_ALL };

/* What is done wrong; all zero: nothing. */
struct tide_mistakes {
    int64_t graphs;      /* forward passes before one backward, 0 and 1: one */
    int64_t logits_kept; /* logits of so many steps stay alive */
    int64_t copies;      /* models that nobody needs */
    bool upcast_logits;  /* logits and their fp32 copy are held through the way back */
    bool generate_grad;  /* generation with a graph */
    bool reference_grad; /* the reference with a graph and gradients */
    bool cache_kept;     /* keys and values outlive the generation */
    bool evaluate_grad;  /* an evaluation's graph is held while training */
    bool infer_grad;     /* inference with a graph */
    bool prefill_logits; /* logits of the whole prompt, not of its last token */
    bool master;         /* an fp32 copy of the weights with fp32 optimizer state */
    bool unfrozen;       /* adapters on weights that train too */
};

struct tide_job {
    struct tide_architecture model;
    enum tide_job_task task;
    enum tide_precision dtype;
    enum tide_job_optimizer optimizer;
    enum tide_sharding sharding;
    enum tide_loss loss; /* of text */
    int64_t batch, sequence, accumulation, generate, rank, degree;
    int64_t steps; /* that the run has; 0: as many as it takes to need most */
    bool autocast, eager, checkpointing, keep_gradients, reference, compiled, padded, data_parallel;
    bool no_cache; /* use_cache=False: keys and values are not kept beside what the way back needs */
    bool held;     /* a variable holds the model's output until the next one is there */
    bool host;     /* on the processor: resident bytes of the process, not of a device */
    bool own;      /* not PyTorch's: `tidemark train`, laid out exactly */
    const char *own_optimizer; /* then: what that calls it */
    struct tide_mistakes mistakes;
};

/* How they are called, NULL-terminated, in the order of their enumerations. */
extern const char *const tide_task_names[], *const tide_optimizer_names[], *const tide_precision_names[],
                                                                               *const tide_sharding_names[],
                                                                                   *const tide_loss_names[];
/* The place of a word among names, or -1. */
int tide_name_find(const char *const *names, const char *word);

/* Defaults for everything but the model. */
void tide_job_init(struct tide_job *job);
/* A sequence where none is given: what the model takes, at most 1024; generate: tokens that must fit behind
 * it when running. */
int64_t tide_job_sequence(const struct tide_job *job, int64_t generate);
/* 0, or -1 with what does not go together. */
int tide_job_check(const struct tide_job *job, struct tide_err *err);

#endif
