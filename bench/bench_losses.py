#!/usr/bin/python3
"""What stored types and optimizers cost in loss. Usage: bench_losses.py [BUILD]

`small`, 200 steps on this project's own documents, five seeds each: the mean of the held-out loss at the end, its spread (the standard
deviation over seeds), and how far the mean is from exact f32 AdamW, in units of that one's spread. Rates are each optimizer's usual ones."""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEEDS = range(1, 6)
RATES = {"adamw": "0.001", "adamw8": "0.001", "adafactor": "0.01", "sgd": "0.1"}
ROWS = [("adamw", "f32", ()), ("adamw", "bf16", ()), ("adamw8", "f32", ()), ("adamw8", "bf16", ()), ("adafactor", "f32", ()),
        ("adafactor", "bf16", ()), ("sgd", "f32", ()), ("sgd", "bf16", ()), ("adamw", "bf16", ("--dtype", "bf16"))]  # fmt: skip


def loss_of(build, text, optimizer, weights, more, seed):
    command = [build / "tidemark", "train", "lm", "--preset", "small", "--data", text, "--steps", "200", "--warmup", "20", "--optimizer", optimizer,
               "--lr", RATES[optimizer], "--weights", weights, "--seed", str(seed), "--json", *more]  # fmt: skip
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return json.loads(lines[-1])["val_loss"]


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release").resolve()
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text"
        text.write_text("".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))))
        exact = None
        print(f"{'optimizer':10} {'weights':8} {'products':9} {'val loss':>9} {'spread':>8} {'from exact':>11}")
        for optimizer, weights, more in ROWS:
            losses = [loss_of(build, text, optimizer, weights, more, seed) for seed in SEEDS]
            mean, spread = statistics.mean(losses), statistics.stdev(losses)
            exact = exact or (mean, spread)
            print(f"{optimizer:10} {weights:8} {more[1] if more else 'f32':9} {mean:9.4f} {spread:8.4f} {(mean - exact[0]) / exact[1]:+10.2f}s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
