"""Fine-tuning a small vision model on photographs that are kept as base64 JPEG in a list.

    launch.py train.py [--items N] [--per-step K] [--steps S] [--fix none|workers|cleanup|per-use] [--plain]

Truth: a plateau. A photograph is opened when the list is made, and decoded when it is first used: the pixels stay in the object, and
the object stays in the list. Memory rises by one decoded photograph per new item, 4 bytes a pixel, and stops after exactly one pass over
the data, at step N / K. Validation decodes all its photographs at once and gives them back. The compile workers beside it are
constant and share nearly all of their pages with the trainer.

--fix workers (the compile workers are not started) and --fix cleanup (gc, zero_grad and malloc_trim every tenth step) are what was tried:
the plateau stays as high and as far. --fix per-use is the repair: the text is kept, and decoded for each use.

With transformers installed the loop is its Trainer, otherwise (or with --plain) the same steps in a plain loop.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import importlib.util
import io
import multiprocessing
import random
import tempfile
import time
from typing import Any, Optional

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

import tidemark

WIDTH, HEIGHT = 640, 480  # of a photograph: 1.2 MB when it is decoded
EDGE = 96  # of what the model sees
VALIDATION = 24  # photographs, all at once
VALIDATE_EVERY = 25  # steps
HELPERS = 6


def make_photographs(count: int) -> list[str]:
    """JPEG in base64, as a data set on disk has them; a few different ones."""
    draw = np.random.default_rng(2)
    made = []
    for _ in range(min(count, 16)):
        coarse = draw.integers(0, 255, (HEIGHT // 32, WIDTH // 32, 3), dtype=np.uint8)
        file = io.BytesIO()
        Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.BICUBIC).save(file, "JPEG", quality=85)
        made.append(base64.b64encode(file.getvalue()).decode())
    return [made[i % len(made)] for i in range(count)]


def open_photograph(text: str) -> Image.Image:
    """Reads the header; PIL decodes the pixels when they are first asked for."""
    return Image.open(io.BytesIO(base64.b64decode(text)))


def to_pixels(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.asarray(image.resize((EDGE, EDGE)), dtype=np.float32) / 255).permute(2, 0, 1)


class Photographs(torch.utils.data.Dataset):
    """What is trained on: a list in memory."""

    def __init__(self, count: int, per_use: bool) -> None:
        texts = make_photographs(count)
        self.per_use = per_use
        self.examples: list[Any] = texts if per_use else [open_photograph(text) for text in texts]

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        if self.per_use:
            with open_photograph(self.examples[i]) as image:
                pixels = to_pixels(image)
        else:
            pixels = to_pixels(self.examples[i])
        return {"pixels": pixels, "labels": torch.tensor(i % 4)}


class Validation(torch.utils.data.Dataset):
    """Photographs at full size, decoded for each use."""

    def __init__(self) -> None:
        self.texts = make_photographs(VALIDATION)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        with open_photograph(self.texts[i]) as image:
            pixels = torch.from_numpy(np.asarray(image, dtype=np.float32) / 255).permute(2, 0, 1)
        return {"pixels": pixels, "labels": torch.tensor(i % 4)}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU())
        self.head = nn.Linear(32, 4)

    def forward(self, pixels: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        small = F.adaptive_avg_pool2d(pixels, EDGE) if pixels.shape[-1] > EDGE else pixels
        logits = self.head(self.features(small).mean((2, 3)))
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def collate(examples: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: torch.stack([e[name] for e in examples]) for name in examples[0]}


def compile_worker() -> None:
    """Waits for something to compile; the pages it was forked with are shared with the trainer."""
    ctypes.CDLL(None).prctl(15, b"compile_worker", 0, 0, 0)  # PR_SET_NAME
    while True:
        time.sleep(60)


def train_plain(options: argparse.Namespace, model: Model, data: Photographs, validation: Validation,
                cleanup: Optional[tidemark.Cleanup]) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    order: list[int] = []
    for step in range(1, options.steps + 1):
        tidemark.step(step)
        batch = []
        while len(batch) < options.per_step:
            order = order or random.sample(range(len(data)), len(data))
            batch.append(data[order.pop()])
        loss = model(**collate(batch))["loss"]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        tidemark.items(step * options.per_step)
        if cleanup:
            cleanup.step(step)
        if step % VALIDATE_EVERY == 0:
            with tidemark.phase("validation"), torch.no_grad():
                held = model(**collate([validation[i] for i in range(len(validation))]))["loss"]
            print(f"step {step} loss {loss.item():.3f} validation {held.item():.3f}", flush=True)


def train_with_trainer(options: argparse.Namespace, model: Model, data: Photographs, validation: Validation,
                       cleanup: Optional[tidemark.Cleanup]) -> None:
    import transformers
    from tidemark.hf import TidemarkCallback

    names = transformers.TrainingArguments.__dataclass_fields__
    evaluate = "eval_strategy" if "eval_strategy" in names else "evaluation_strategy"
    cpu = "use_cpu" if "use_cpu" in names else "no_cuda"
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, max_steps=options.steps, per_device_train_batch_size=options.per_step,
            per_device_eval_batch_size=VALIDATION, eval_steps=VALIDATE_EVERY, logging_steps=VALIDATE_EVERY, save_strategy="no",
            report_to=[], disable_tqdm=True, remove_unused_columns=False, **{evaluate: "steps", cpu: True})
        transformers.Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=validation, data_collator=collate,
                             callbacks=[TidemarkCallback(cleanup=cleanup)]).train()


def main(items: int) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=items)
    parser.add_argument("--per-step", type=int, default=4)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--fix", choices=["none", "workers", "cleanup", "per-use"], default="none")
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    random.seed(2)
    torch.manual_seed(2)
    torch.set_num_threads(2)  # so small a model has no work for more, which would only wait for each other
    data, validation, model = Photographs(options.items, options.fix == "per-use"), Validation(), Model()
    for _ in range(0 if options.fix == "workers" else HELPERS):
        multiprocessing.get_context("fork").Process(target=compile_worker, daemon=True).start()
    cleanup = tidemark.Cleanup(every=10, model=model, budget=1.0) if options.fix == "cleanup" else None
    plain = options.plain or not importlib.util.find_spec("transformers")
    (train_plain if plain else train_with_trainer)(options, model, data, validation, cleanup)
    if cleanup and plain:  # the callback says it by itself
        print(cleanup.table(), flush=True)
