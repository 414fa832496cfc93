"""Hugging Face's Trainer with a compute_loss that keeps the logits for a metric nobody computes."""

import sys
import time

import torch
import transformers

kept = []


class Keeping(transformers.Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        outputs = model(**inputs)
        kept.append(outputs.logits.detach().clone())  # LEAK: 4 x 64 x 512 x 4 bytes
        return (outputs.loss, outputs) if return_outputs else outputs.loss


class Clock(transformers.TrainerCallback):
    def on_train_begin(self, args, state, control, **_):
        self.end = time.monotonic() + float(sys.argv[1])

    def on_step_end(self, args, state, control, **_):
        print(f"step {state.global_step}", flush=True)
        time.sleep(0.05)
        control.should_training_stop = time.monotonic() >= self.end


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        tokens = torch.randint(0, 512, (64,))
        return {"input_ids": tokens, "labels": tokens}


config = transformers.GPT2Config(vocab_size=512, n_positions=64, n_embd=64, n_layer=2, n_head=2)
options = transformers.TrainingArguments(
    "out", per_device_train_batch_size=4, max_steps=100_000, report_to=[], save_strategy="no", disable_tqdm=True, logging_strategy="no", use_cpu=True
)
Keeping(transformers.GPT2LMHeadModel(config), options, train_dataset=Texts(), callbacks=[Clock()]).train()
