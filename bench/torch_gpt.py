#!/usr/bin/env python3
"""GPT-2 in PyTorch, for bench_train.py to stand beside. Usage: torch_gpt.py PRESET BATCH SEQ STEPS THREADS eager|compiled f32|bf16

Written as one would: fused projections for queries, keys and values, scaled_dot_product_attention, the tanh form of GELU in one call,
tied head, AdamW with decay (fused), the global norm clipped; bf16 is autocast. Prints a line "step_seconds S" for each step after the
first (compiled: after the first three).
"""

import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional

PRESETS = {"small": (96, 256, 128, 4, 2, 512), "gpt2": (50257, 1024, 768, 12, 12, 3072)}


class Block(nn.Module):
    def __init__(self, channels, heads, hidden):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.c_attn, self.attn_proj = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.c_fc, self.mlp_proj = nn.Linear(channels, hidden), nn.Linear(hidden, channels)

    def forward(self, x):
        batch, length, channels = x.shape
        width = channels // self.heads
        q, k, v = (part.view(batch, length, self.heads, width).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).split(channels, dim=2))
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_proj(attention.transpose(1, 2).reshape(batch, length, channels))
        return x + self.mlp_proj(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, positions, channels, heads, blocks, hidden):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, channels), nn.Embedding(positions, channels)
        self.blocks = nn.ModuleList(Block(channels, heads, hidden) for _ in range(blocks))
        self.ln_f = nn.LayerNorm(channels)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.t()
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def main():
    preset, batch, length, steps, threads = sys.argv[1], *map(int, sys.argv[2:6])
    compiled, narrow = sys.argv[6] == "compiled", sys.argv[7] == "bf16"
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    shape = PRESETS[preset]
    model = Gpt(*shape)
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = torch.randint(0, shape[0], (batch, length + 1))
    warm = 3 if compiled else 1
    for step in range(steps + warm):
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            loss = run(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss = loss.item()
        if step >= warm:
            print(f"step_seconds {time.perf_counter() - start:.6f}", flush=True)
    print(f"loss {loss:.6f}\nrss_bytes {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}")


if __name__ == "__main__":
    main()
