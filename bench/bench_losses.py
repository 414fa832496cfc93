#!/usr/bin/python3
"""What stored types and optimizers cost in loss. Usage: bench_losses.py [BUILD]

`small`, 200 steps on this project's own documents, five seeds each: the mean of the held-out loss at the end, its spread (the standard
deviation over seeds), and how far the mean is from exact f32 AdamW, in units of that one's spread; then the difference from it seed by seed,
mean and spread. Rates are each optimizer's usual ones. Adapters are trained for 200 steps more on what exact AdamW made of that seed, which
they find in each stored type, and are compared with adapters on f32."""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEEDS = range(1, 6)
RATES = {"adamw": "0.001", "adamw8": "0.001", "adafactor": "0.01", "sgd": "0.1"}
WHOLE = [("adamw", "f32", "f32"), ("adamw", "bf16", "f32"), ("adamw8", "f32", "f32"), ("adamw8", "bf16", "f32"), ("adafactor", "f32", "f32"),
         ("adafactor", "bf16", "f32"), ("sgd", "f32", "f32"), ("sgd", "bf16", "f32"), ("adamw", "bf16", "bf16")]  # fmt: skip
ADAPTED = ["f32", "bf16", "int8"]


def losses_of(build, text, optimizer, weights, products, options):
    """Of each seed; options(seed) are those that say what is trained, and what becomes of it."""
    losses = []
    for seed in SEEDS:
        command = [build / "tidemark", "train", "lm", "--data", text, "--steps", "200", "--warmup", "20", "--optimizer", optimizer, "--lr",
                   RATES[optimizer], "--weights", weights, "--dtype", products, "--seed", str(seed), "--json", *options(seed)]  # fmt: skip
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        losses.append(json.loads(lines[-1])["val_loss"])
    return losses


def show(what, weights, products, losses, exact):
    mean, spread = statistics.mean(losses), statistics.stdev(losses)
    far = (mean - statistics.mean(exact)) / statistics.stdev(exact)
    apart = [ours - theirs for ours, theirs in zip(losses, exact)]
    print(f"{what:10} {weights:8} {products:9} {mean:9.4f} {spread:8.4f} {far:+10.2f}s {statistics.mean(apart):+9.4f} {statistics.stdev(apart):8.4f}", flush=True)


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release").resolve()
    print(f"{'trained by':10} {'weights':8} {'products':9} {'val loss':>9} {'spread':>8} {'from exact':>11} {'by seed':>9} {'spread':>8}")
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text"
        text.write_text("".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))))
        exact = losses_of(build, text, *WHOLE[0], lambda seed: ["--preset", "small", "--out", f"{folder}/{seed}"])
        show(*WHOLE[0], exact, exact)
        for row in WHOLE[1:]:
            show(*row, losses_of(build, text, *row, lambda seed: ["--preset", "small"]), exact)
        exact = None
        for weights in ADAPTED:
            losses = losses_of(build, text, "adamw", weights, "f32", lambda seed: ["--resume", f"{folder}/{seed}", "--adapt", "lora:16"])
            exact = exact or losses
            show("lora:16", weights, "f32", losses, exact)
    return 0


if __name__ == "__main__":
    sys.exit(main())
