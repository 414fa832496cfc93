"""A training loop on a GPU, to be watched: train.py [--leak BYTES] [--steps N] [--pause S] [--width N] [--layers N]
[--length N] [--device cuda|cpu] [--gate FIFO [--rounds N]].

With --leak each step also keeps a tensor of that many bytes; with --gate it takes a few steps, and waits until somebody opens the
FIFO before it takes the others, and again before each further round of them. Prints one JSON object a round: what PyTorch holds at
its end, and how long a step took.
"""

import argparse
import json
import statistics
import time

import torch

try:
    import tidemark
except ImportError:  # alone, without the package
    tidemark = None

kept = []


def remember():
    kept.append(torch.zeros(options.leak // 4, device=device))  # the leak


def train_step(model, optimizer):
    x = torch.randn(16, options.length, options.width, device=device)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def wait():
    if device == "cuda":
        torch.cuda.synchronize()


parser = argparse.ArgumentParser()
parser.add_argument("--leak", type=int, default=0)
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--pause", type=float, default=0)
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--length", type=int, default=128)
parser.add_argument("--device", default="cuda")
parser.add_argument("--gate")
parser.add_argument("--rounds", type=int, default=1)
options = parser.parse_args()
device = options.device

torch.manual_seed(1)
layer = torch.nn.TransformerEncoderLayer(options.width, 8, 4 * options.width, dropout=0.0, batch_first=True)
model = torch.nn.TransformerEncoder(layer, options.layers).to(device)
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
if options.gate:
    for _ in range(20):
        train_step(model, optimizer)
    wait()
for round_number in range(options.rounds):
    seconds = []
    if options.gate:
        open(options.gate).close()
    for step in range(round_number * options.steps, (round_number + 1) * options.steps):
        if tidemark:
            tidemark.step(step)
        began = time.perf_counter()
        loss = train_step(model, optimizer)
        if options.leak:
            remember()
        wait()
        seconds.append(time.perf_counter() - began)
        time.sleep(options.pause)
    steady = seconds[len(seconds) // 5:]
    print(json.dumps({"torch": torch.__version__, "loss": loss.item(),
                      "reserved": torch.cuda.memory_reserved() if device == "cuda" else 0,
                      "allocated": torch.cuda.memory_allocated() if device == "cuda" else 0, "kept": len(kept) * options.leak,
                      "step_ms": 1000 * statistics.median(steady), "mean_ms": 1000 * statistics.fmean(steady)}), flush=True)
