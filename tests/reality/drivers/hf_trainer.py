"""Hugging Face's Trainer on a tiny GPT-2 with random weights.

    hf_trainer.py SECONDS WORKERS
"""

import sys
import time

import torch
import torch.utils.data
import transformers


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        tokens = torch.randint(0, 500, (64,))
        return {"input_ids": tokens, "labels": tokens}


class Until(transformers.TrainerCallback):
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = time.monotonic() > self.end


def main():
    torch.set_num_threads(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=500, n_positions=64, n_embd=64, n_layer=2, n_head=2))
    arguments = transformers.TrainingArguments(
        "out", max_steps=1_000_000, per_device_train_batch_size=8, dataloader_num_workers=int(sys.argv[2]), save_strategy="no",
        logging_steps=20, report_to="none", use_cpu=True
    )
    transformers.Trainer(model, arguments, train_dataset=Tokens(), callbacks=[Until(float(sys.argv[1]))]).train()


if __name__ == "__main__":
    main()
