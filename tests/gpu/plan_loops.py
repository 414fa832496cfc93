"""Training loops that are not the program's own, for plan_measure.py: Hugging Face's Trainer and TRL's SFTTrainer, stepped over the same
model, batch and optimizer as the row says. Needs transformers and accelerate; for TRL also trl and datasets."""

import torch

OPTIMIZERS = {"adamw": "adamw_torch", "adamw-fused": "adamw_torch_fused", "sgd": "sgd", "adafactor": "adafactor"}


def arguments(row, device):
    return dict(output_dir="/tmp/plan-measure-trainer", per_device_train_batch_size=row["batch"], max_steps=row["steps"],
                gradient_accumulation_steps=row["accumulation"], optim=OPTIMIZERS[row["optimizer"]], bf16=bool(row["autocast"]),
                gradient_checkpointing=row["checkpointing"], torch_compile=row["compile"], use_cpu=device == "cpu", report_to="none",
                save_strategy="no", logging_strategy="no", disable_tqdm=True)


def sequences(row, model):
    count = row["batch"] * row["accumulation"] * row["steps"]
    return torch.randint(1, model.config.vocab_size, (count, row["seq"]))


def trainer(row, model, device):
    from transformers import Trainer, TrainingArguments, default_data_collator
    examples = [{"input_ids": ids, "labels": ids} for ids in sequences(row, model)]
    return Trainer(model, TrainingArguments(**arguments(row, device)), default_data_collator, examples)


def sft_trainer(row, model, device):
    from datasets import Dataset
    from datasets.table import InMemoryTable
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer
    words = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1}, "<pad>")), pad_token="<pad>",
                                    eos_token="<eos>")
    options = SFTConfig(**arguments(row, device), max_length=row["seq"], dataset_kwargs={"skip_prepare_dataset": True},
                        remove_unused_columns=False)
    examples = Dataset(InMemoryTable.from_pydict({"input_ids": sequences(row, model).tolist()}), fingerprint="rows")
    return SFTTrainer(model, options, train_dataset=examples, processing_class=words)


def train(row, model, device):
    """Trains as the row says; the mean loss of its steps, alone in a list."""
    made = {"trainer": trainer, "trl": sft_trainer}[row["loss"]](row, model, device)
    return [made.train().training_loss]
