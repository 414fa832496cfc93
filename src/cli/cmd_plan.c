/*
 * cmd_plan.c - tidemark plan: what a training run will need, or which mistakes made a run need more.
 */
#include "cli/command.h"
#include "assess/plan_compared.h"
#include "base/text.h"
#include "cli/train_loop.h"
#include "cli/train_breakdown.h"
#include "plan/plan_text.h"
#include "show/text/against_text.h"

#include <string.h>

struct values {
    struct tide_job job; /* only the fields that options set directly */
    const char *model, *task, *dtype, *attention, *optimizer, *shard, *against, *where, *loss;
    int64_t device_memory, explain, fails_at, per_step;
    double dropout;
    bool no_reference, on_device;
    bool json; /* the last one: see has_more_than_json() */
};

#define AT(field) offsetof(struct values, field)

static const struct tide_option options[] = {
    {'m', "model", TIDE_OPTION_TEXT, AT(model), "NAME", NULL, 0, 0,
     "a preset (gpt2, llama-3.2-1b, qwen2.5-0.5b, vit-base, resnet50, ...) or the path of a Hugging Face config.json"},
    {0, "task", TIDE_OPTION_CHOICE, AT(task), "TASK", "pretrain|sft|lora|grpo|infer", 0, 0,
     "what the run does with the model (pretrain)"},
    {0, "where", TIDE_OPTION_CHOICE, AT(where), "PLACE", "gpu|cpu", 0, 0,
     "plan for a GPU, or for the CPU, where bytes are the resident memory of the process (gpu)"},
    {0, "batch", TIDE_OPTION_COUNT, AT(job.batch), "N", NULL, 1, 1 << 24,
     "sequences or pictures in one forward pass (8)"},
    {0, "seq", TIDE_OPTION_COUNT, AT(job.sequence), "N", NULL, 1, 1 << 24,
     "tokens of a sequence, padding included (1024, or what the model takes), or the side of a picture (224)"},
    {0, "accumulation", TIDE_OPTION_COUNT, AT(job.accumulation), "N", NULL, 1, 1 << 20,
     "forward and backward passes per update (1)"},
    {0, "generate", TIDE_OPTION_COUNT, AT(job.generate), "N", NULL, 0, 1 << 24,
     "tokens to generate: the end of each sequence for grpo, after the prompt for infer (0)"},
    {0, "dtype", TIDE_OPTION_CHOICE, AT(dtype), "TYPE", "fp32|bf16|fp16", 0, 0, "type of the weights (fp32)"},
    {0, "autocast", TIDE_OPTION_FLAG, AT(job.autocast), NULL, NULL, 0, 0,
     "use torch.autocast to bf16, or to fp16 with a GradScaler"},
    {0, "loss", TIDE_OPTION_CHOICE, AT(loss), "WHOSE", "hf|own|trainer|trl", 0, 0,
     "what computes the loss of text: the model (model(x, labels=x).loss), the program's own cross entropy of model(x).logits, Hugging Face's Trainer, or TRL's SFTTrainer (hf)"},
    {0, "no-cache", TIDE_OPTION_FLAG, AT(job.no_cache), NULL, NULL, 0, 0,
     "use_cache=False; by default transformers keeps keys and values in training too, except with checkpointing or its Trainer"},
    {0, "hold-output", TIDE_OPTION_FLAG, AT(job.held), NULL, NULL, 0, 0,
     "a variable holds the model's output until the next step: output = model(...), loss = output.loss"},
    {0, "attention", TIDE_OPTION_CHOICE, AT(attention), "KIND", "sdpa|flash|eager", 0, 0,
     "one fused kernel (sdpa, flash) or one operator after another (eager) (sdpa)"},
    {0, "checkpointing", TIDE_OPTION_FLAG, AT(job.checkpointing), NULL, NULL, 0, 0,
     "recompute blocks in the backward pass"},
    {0, "optimizer", TIDE_OPTION_CHOICE, AT(optimizer), "NAME",
     "sgd|momentum|adamw|adamw-fused|adamw-loop|adamw-8bit|adafactor", 0, 0, "the optimizer (adamw)"},
    {0, "keep-gradients", TIDE_OPTION_FLAG, AT(job.keep_gradients), NULL, NULL, 0, 0,
     "zero_grad(set_to_none=False)"},
    {0, "no-reference", TIDE_OPTION_FLAG, AT(no_reference), NULL, NULL, 0, 0,
     "grpo runs without a reference model"},
    {0, "rank", TIDE_OPTION_COUNT, AT(job.rank), "N", NULL, 1, 1 << 16,
     "rank of lora's adapters, on every linear layer except the head (16)"},
    {0, "dropout", TIDE_OPTION_REAL, AT(dropout), "P", NULL, 0, 1,
     "dropout rate, instead of the model's own"},
    {0, "padded", TIDE_OPTION_FLAG, AT(job.padded), NULL, NULL, 0, 0,
     "batches hold sequences of different length, with a mask"},
    {0, "compile", TIDE_OPTION_FLAG, AT(job.compiled), NULL, NULL, 0, 0, "torch.compile"},
    {0, "processes", TIDE_OPTION_COUNT, AT(job.degree), "N", NULL, 1, 1 << 20,
     "number of data-parallel processes (1); the plan is for one of them"},
    {0, "shard", TIDE_OPTION_CHOICE, AT(shard), "WHAT", "none|optimizer|gradients|full", 0, 0,
     "what the processes shard; each choice includes those before it (none); docs/PLAN.md has details"},
    {0, "device-memory", TIDE_OPTION_SIZE, AT(device_memory), "SIZE", NULL, 1, 0,
     "say whether the run fits, and the largest batch and longest sequence that fit"},
    {0, "explain", TIDE_OPTION_SIZE, AT(explain), "SIZE", NULL, 1, 0,
     "find the mistakes that make the run use SIZE (torch.cuda.max_memory_allocated; with --where cpu, resident bytes)"},
    {0, "on-device", TIDE_OPTION_FLAG, AT(on_device), NULL, NULL, 0, 0,
     "SIZE of --explain is what nvidia-smi shows, context included"},
    {0, "fails-at", TIDE_OPTION_COUNT, AT(fails_at), "STEP", NULL, 1, 0,
     "the step at which the run ran out of memory"},
    {0, "per-step", TIDE_OPTION_SIZE, AT(per_step), "SIZE", NULL, 1, 0,
     "how much memory grows with every step"},
    {0, "against", TIDE_OPTION_TEXT, AT(against), "FILE", NULL, 0, 0,
     "compare the plan with this recording: planned, measured, unexplained; with --explain, use its number of steps and how it ended"},
    {0, "json", TIDE_OPTION_FLAG, AT(json), NULL, NULL, 0, 0,
     "print one JSON document (schema tidemark.plan/1)"},
    {0},
};

static const struct values usual = {.task = "pretrain",
                                    .dtype = "fp32",
                                    .attention = "sdpa",
                                    .optimizer = "adamw",
                                    .shard = "none",
                                    .where = "gpu",
                                    .loss = "hf",
                                    .job = {.batch = 8, .accumulation = 1, .rank = 16, .degree = 1},
                                    .dropout = -1};

static int job_of(const struct values *v, struct tide_job *job, struct tide_err *err)
{
    *job = v->job;
    if (tide_model_find(v->model, &job->model, err))
        return -1;
    job->task = (enum tide_job_task)tide_name_find(tide_task_names, v->task);
    job->dtype = (enum tide_precision)tide_name_find(tide_precision_names, v->dtype);
    job->optimizer = (enum tide_job_optimizer)tide_name_find(tide_optimizer_names, v->optimizer);
    job->sharding = (enum tide_sharding)tide_name_find(tide_sharding_names, v->shard);
    job->loss = (enum tide_loss)tide_name_find(tide_loss_names, v->loss);
    job->sequence = job->sequence ? job->sequence : tide_job_sequence(job, job->generate);
    job->eager = !strcmp(v->attention, "eager");
    job->reference = !v->no_reference;
    job->host = !strcmp(v->where, "cpu");
    if (v->dropout >= 0)
        job->model.embed_dropout = job->model.residual_dropout = job->model.attention_dropout = v->dropout;
    if (job->sharding && job->degree == 1) {
        tide_err_set(err, "plan: --shard %s needs more than one process", v->shard);
        return tide_err_hint(err, "say how many processes there are: --processes N");
    }
    return tide_job_check(job, err);
}

/* Plans a run of tidemark's own runtime: lays it out as it would run. */
static int answer_own(const struct values *v, int argc, char **argv, struct tide_err *err)
{
    static struct tide_forecast forecast;
    struct tide_job job;
    struct tide_capacity room = {0};
    struct tide_trainer *trainer;
    int status = tide_train_open(argc, argv, &trainer, err);
    if (status)
        return status < 0 ? -1 : TIDE_EXIT_OK;
    status = tide_train_forecast(trainer, &job, &forecast, err);
    if (!status && v->json)
        tide_plan_json(&job, &forecast, &room, NULL, NULL, stdout);
    else if (!status)
        tide_forecast_print(&job, &forecast, &room, stdout);
    tide_trainer_free(trainer);
    return status;
}

/* True if an option for PyTorch's plan was given; a run of `train` takes only the options of `train`. */
static bool has_more_than_json(const struct values *v)
{
    return memcmp(v, &usual, offsetof(struct values, json)) != 0; /* they began as a copy, padding included */
}

static int plan_own(const struct values *v, char **words, int count, struct tide_err *err)
{
    int skip = count > 0 && strstr(tide_text_last_part(words[0]), "tidemark") ? 1 : 0;
    if (count <= skip || strcmp(words[skip], "train")) {
        tide_err_set(err, "plan: expected options or a 'tidemark train' command, got '%s'", words[0]);
        return tide_err_hint(
            err, "tidemark plan --model gpt2, or: tidemark plan -- tidemark train lm --preset gpt2");
    }
    if (!has_more_than_json(v))
        return answer_own(v, count - skip, words + skip, err);
    tide_err_set(err, "plan: before '-- tidemark train', only --json can be given");
    return tide_err_hint(err,
                         "give the options of `train`: tidemark plan -- tidemark train lm --optimizer sgd");
}

/* Returns the exit code: 1 if the run does not fit, 3 if nothing explains the number. */
static int answer(const struct values *v, const struct tide_job *job, struct tide_err *err)
{
    static struct tide_forecast forecast;
    static struct tide_explanations found;
    struct tide_capacity room = {0};
    struct tide_evidence evidence = {.bytes = v->explain,
                                     .device = v->on_device || job->host,
                                     .fails_at = v->fails_at,
                                     .per_step = v->per_step};
    bool well = true;
    if (v->explain && v->against && tide_against_end(v->against, &evidence.steps, &well, err))
        return -1;
    if (!well && !evidence.fails_at)
        evidence.fails_at = evidence.steps;
    if (tide_forecast_make(job, TIDE_FULL, &forecast, err) ||
        (v->explain && tide_explain(job, &evidence, &found, err)))
        return -1;
    if (v->device_memory)
        room = tide_capacity_find(job, v->device_memory);
    if (v->against && !v->explain)
        return tide_against(job, &forecast, v->against, v->json, stdout, err);
    if (v->json)
        tide_plan_json(job, &forecast, &room, &evidence, v->explain ? &found : NULL, stdout);
    else if (v->explain)
        tide_explanations_print(job, &evidence, &found, stdout);
    else
        tide_forecast_print(job, &forecast, &room, stdout);
    if (v->device_memory && !room.fits)
        return TIDE_EXIT_FOUND;
    return v->explain && !found.count && !found.innocent ? TIDE_EXIT_UNDECIDED : TIDE_EXIT_OK;
}

/* Refuses options that would be ignored. */
static int check_questions(const struct values *v, struct tide_err *err)
{
    const char *what = v->on_device  ? "--on-device"
                       : v->fails_at ? "--fails-at"
                       : v->per_step ? "--per-step"
                                     : NULL;
    if (v->device_memory && (v->explain || v->against))
        return tide_err_set(err, "%s and --device-memory are two questions: ask one at a time",
                            v->explain ? "--explain" : "--against");
    if (v->explain || !what)
        return 0;
    tide_err_set(err, "%s is about a number to explain", what);
    return tide_err_hint(err, "give the number too: --explain SIZE");
}

static int run(struct tide_command_call *call, struct tide_err *err)
{
    const struct values *v = (const void *)call->values;
    struct tide_job job;
    if (call->count)
        return plan_own(v, call->operands, call->count, err);
    if (!v->model) {
        tide_err_set(err, "plan: --model is missing");
        return tide_err_hint(err, "tidemark plan --model gpt2 --task grpo --batch 8 --seq 174 --dtype bf16");
    }
    return check_questions(v, err) || job_of(v, &job, err) ? -1 : answer(v, &job, err);
}

const struct tide_command tide_command_plan = {
    .name = "plan",
    .synopsis = "--model NAME [options] | -- tidemark train lm ...",
    .summary = "say how much memory a training run needs, or why a run needed more",
    .details =
        "Plans the memory of a PyTorch run before it runs. It goes through the operators of the model, of autograd and of the optimizer by their sizes "
        "alone, on a model of PyTorch's caching allocator. The table shows what the bytes are for at the peak, and at the peak of every phase. docs/PLAN.md "
        "derives each term and compares it with measurements.\n"
        "\n"
        "The plan is for the common loop: `model(x, labels=x).loss`, in which transformers keeps keys and values in training too. `--loss`, `--no-cache` and "
        "`--hold-output` change that; `--loss trainer` and `--loss trl` are the loops of Hugging Face's Trainer and TRL's SFTTrainer.\n"
        "\n"
        "`--explain SIZE` tries the usual mistakes, alone and in pairs, keeps those that make the run use that much, ranks them by how close they come "
        "and how common they are, and says which single measurement would tell the first two apart.\n"
        "\n"
        "A run of `tidemark train` is laid out exactly: `tidemark plan -- tidemark train lm ...` prints that layout in the same table.",
    .exits =
        "0, 1 the run does not fit into `--device-memory`, 2 trouble, 3 no known mistake explains the number.",
    .examples =
        "tidemark plan --model gpt2 --task grpo --batch 8 --seq 174 --dtype bf16 --optimizer adamw\n"
        "tidemark plan --model llama-3.2-1b --task lora --seq 2048 --dtype bf16 --device-memory 24G\n"
        "tidemark plan --model gpt2 --task grpo --seq 174 --dtype bf16 --explain 22.65G --fails-at 12\n"
        "tidemark plan --model my/config.json --json",
    .options = options,
    .values_size = sizeof usual,
    .usual = &usual,
    .parsing = TIDE_OPTIONS_STOP_AT_OPERAND,
    .run = run,
};
