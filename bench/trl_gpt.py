#!/usr/bin/env python3
"""GRPO of GPT-2 124M by TRL, for bench_grpo.py to stand beside. Usage: trl_gpt.py STEPS THREADS f32|bf16 kept|checkpointed

One prompt of 30 tokens, a group of 8 completions of 144 tokens, KL to a reference (beta 0.04), AdamW, one update; everything else as TRL
has it. Weights are random, from a seed, and no completion ends early: min_new_tokens forbids the end of text. checkpointed: activations
are computed again, which is TRL's default; kept: they are not. bf16 is autocast. Prints for each step after the first a line
"step_seconds S", and how much of it generation and log-probabilities of the reference took; at the end the peak of its memory.
"""

import os
import random
import resource
import sys
import tempfile
import time

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", HF_DATASETS_DISABLE_PROGRESS_BARS="1")

import datasets  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402

PROMPT, NEW_TOKENS, GROUP, BETA = 30, 144, 8, 0.04


class Timed(trl.GRPOTrainer):
    """Says how long each part of a step takes."""

    taken = {"generate": 0.0, "reference": 0.0}

    def _generate_single_turn(self, *args, **kwargs):
        start = time.perf_counter()
        made = super()._generate_single_turn(*args, **kwargs)
        self.taken["generate"] += time.perf_counter() - start
        assert all(len(ids) == NEW_TOKENS for ids in made[0])
        return made

    def _get_per_token_logps_and_entropies(self, model, *args, **kwargs):
        start = time.perf_counter()
        found = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        self.taken["reference"] += time.perf_counter() - start if model is self.ref_model else 0
        return found


class Saying(transformers.TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        self.start = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step > 1:
            print(f"step_seconds {time.perf_counter() - self.start:.4f}")
            for part, seconds in Timed.taken.items():
                print(f"{part}_seconds {seconds:.4f}", flush=True)
        Timed.taken = dict.fromkeys(Timed.taken, 0.0)


def tokenizer(vocabulary):
    """One that has a name for each token: nothing here is text."""
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({str(i): i for i in range(vocabulary)}, unk_token="0"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=str(vocabulary - 1), pad_token=str(vocabulary - 1))


def main():
    steps, threads, narrow, checkpointed = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "bf16", sys.argv[4] == "checkpointed"
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    random.seed(1)
    config = transformers.GPT2Config()
    prompts = [{"prompt": " ".join(str(random.randrange(config.vocab_size - 1)) for _ in range(PROMPT))} for _ in range(steps + 1)]
    with tempfile.TemporaryDirectory() as folder:
        transformers.GPT2LMHeadModel(config).save_pretrained(folder)  # a reference is loaded from where the model was
        trainer = Timed(
            model=folder, processing_class=tokenizer(config.vocab_size), train_dataset=datasets.Dataset.from_list(prompts),
            reward_funcs=lambda completions, **_: [random.random() for _ in completions], callbacks=[Saying()],
            args=trl.GRPOConfig(
                output_dir=folder, beta=BETA, num_generations=GROUP, per_device_train_batch_size=GROUP, max_steps=steps + 1,
                max_completion_length=NEW_TOKENS, generation_kwargs={"min_new_tokens": NEW_TOKENS}, bf16=narrow,
                gradient_checkpointing=checkpointed, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, seed=1))
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    print(f"rss_bytes {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}")


if __name__ == "__main__":
    main()
