/*
 * job.h - what is to be run: a model, a task and the choices that decide its memory; and mistakes that it may
 * contain.
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
    TIDE_TASK_SELFPLAY /* only in tidemark train */
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
/* Who computes the loss: the model (model(x, labels=x).loss), the program from the model's logits, Hugging
 * Face's Trainer, or TRL's SFTTrainer. */
enum tide_loss { TIDE_LOSS_HF, TIDE_LOSS_OWN, TIDE_LOSS_TRAINER, TIDE_LOSS_TRL };
enum tide_sharding { TIDE_SHARD_NOTHING, TIDE_SHARD_OPTIMIZER, TIDE_SHARD_GRADIENTS, TIDE_SHARD_ALL };

/* The mistakes in a job; all zero: none. */
struct tide_mistakes {
    int64_t graphs;      /* forward passes before one backward; 0 and 1 mean one */
    int64_t logits_kept; /* number of steps whose logits stay alive */
    int64_t copies;      /* unneeded copies of the model */
    bool upcast_logits;  /* logits and their fp32 copy are held through the backward pass */
    bool generate_grad;  /* generation keeps a graph */
    bool reference_grad; /* the reference has a graph and gradients */
    bool cache_kept;     /* keys and values outlive the generation */
    bool evaluate_grad;  /* an evaluation's graph is held while training */
    bool infer_grad;     /* inference keeps a graph */
    bool prefill_logits; /* logits of the whole prompt, not only of its last token */
    bool master;         /* an fp32 copy of the weights with fp32 optimizer state */
    bool unfrozen;       /* with adapters, the base weights train too */
};

struct tide_job {
    struct tide_architecture model;
    enum tide_job_task task;
    enum tide_precision dtype;
    enum tide_job_optimizer optimizer;
    enum tide_sharding sharding;
    enum tide_loss loss; /* for text */
    int64_t batch, sequence, accumulation, generate, rank, degree;
    int64_t steps;        /* of the run; 0: as many as it takes to reach the peak */
    int64_t device_bytes; /* the memory of the device: a plan with pools that needs more fails; 0: no limit */
    bool autocast, eager, checkpointing, keep_gradients, reference, compiled, padded;
    bool no_cache; /* use_cache=False: no cache of keys and values beside what the backward pass needs */
    bool held;     /* a variable holds the model's output until the next one exists */
    bool host;     /* on the processor: bytes are resident bytes of the process */
    bool own;      /* not PyTorch but `tidemark train`, laid out exactly */
    const char *own_optimizer; /* if own: the optimizer's name there */
    struct tide_mistakes mistakes;
};

/* Names of the enumerations' values, in their order, NULL-terminated. */
extern const char *const tide_task_names[], *const tide_optimizer_names[], *const tide_precision_names[],
                                                                               *const tide_sharding_names[],
                                                                                   *const tide_loss_names[];
/* Returns the index of a word among names, or -1. */
int tide_name_find(const char *const *names, const char *word);

/* Defaults for everything but the model. */
void tide_job_init(struct tide_job *job);
/* Returns the default sequence length: what the model takes, at most 1024. For inference, `generate` tokens
 * must fit behind it. */
int64_t tide_job_sequence(const struct tide_job *job, int64_t generate);
/* Returns -1 and a message if the choices contradict each other. */
int tide_job_check(const struct tide_job *job, struct tide_err *err);

#endif
