#!/usr/bin/python3
"""How fast tokens are generated, beside what memory allows and beside transformers. Usage: bench_generate.py [BUILD]

GPT-2 124M, 8 slots, a prompt of 30 tokens and 144 new ones, two threads, medians of one run. The share is the time to read all weights once
by the time a token of all slots takes, drawn at temperature 1. transformers generates greedily with its cache, before and after ours, in the environment of
tools/torch-venv. Prints what is asked, what was measured, and whether that is enough; exits 1 when something is not."""

import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
THEIRS = """
import sys, time, torch
from transformers import GPT2Config, GPT2LMHeadModel
torch.set_num_threads(2)
torch.manual_seed(1)
model = GPT2LMHeadModel(GPT2Config()).eval()
model.generation_config.eos_token_id = None
prompt = torch.randint(0, 50257, (8, 30))
def run(tokens):
    start = time.perf_counter()
    with torch.no_grad():
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, do_sample=False, use_cache=True, pad_token_id=0)
    assert out.shape[1] == 30 + tokens
    return time.perf_counter() - start
run(4)
print((run(144) - run(1)) / 143)
"""
ROWS = [("f32", "f32", 0.6), ("bf16", "bf16", 0.6), ("f32", "int8", 0.0)]  # compute, stored, share asked
AGAINST = 1.5


def ours(build, dtype, weights):
    out = subprocess.run([build / "bench/bench_generate", "--dtype", dtype, "--weights", weights], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in out.splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name, []).append(float(value))
    return found


def theirs():
    python = subprocess.run([ROOT / "tools/torch-venv"], capture_output=True, text=True, check=True).stdout.strip()
    out = subprocess.run([python, "-c", THEIRS], capture_output=True, text=True, check=True).stdout
    return float(out.splitlines()[-1])


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release").resolve()
    short = False
    peers = [theirs()]
    seconds = {}
    for dtype, weights, asked in ROWS:
        found = ours(build, dtype, weights)
        token, read = statistics.median(found["next_seconds"]), statistics.median(found["read_seconds"])
        seconds[dtype, weights] = token
        enough = read / token >= asked
        short |= not enough
        print(f"{dtype} on {weights} weights: {1e3 * token:6.2f} ms a token of 8 slots ({8 / token:5.0f} tokens/s), "
              f"{100 * read / token:3.0f} % of reading {found['weight_bytes'][0] / 1e6:.0f} MB at {found['weight_bytes'][0] / read / 1e9:.1f} GB/s "
              f"(asked {100 * asked:.0f} %) {'ok' if enough else 'SHORT'}")  # fmt: skip
    peers.append(theirs())
    peer = statistics.mean(peers)
    ratio = peer / seconds["f32", "f32"]
    print(f"transformers, f32: {1e3 * peer:.2f} ms; ours is {ratio:.2f} times as fast (asked {AGAINST}) {'ok' if ratio >= AGAINST else 'SHORT'}")
    return 1 if short or ratio < AGAINST else 0


if __name__ == "__main__":
    sys.exit(main())
