"""GRPO on a small GPT: a policy and a frozen reference, groups of sampled answers, rewards by rule.

    train.py [--steps N] [--groups-per-step G] [--fix none|padding|per-group]

Truth: a jump, at the step in which the 25th group is stored: step 13 with 2 groups per step, step 25 with 1. Until then each
step updates on its own groups, one backward per group. From then on the trainer walks all stored groups twice, sums the losses and
calls backward once, so that 50 graphs are alive together.

--fix padding does what was tried: sequences cut at a limit, intermediate tensors deleted, the collector run and the cache emptied
after each step. It changes nothing. --fix per-group is the repair: backward for each group, so that gradients are summed and graphs
are not.

The first training of this kind ran on a GPU, whose allocator keeps the memory that it has taken. This one runs on a CPU, so malloc is
told to do the same; by default it gives back the end of its heap whenever that happens to be free, which is now and then.
The loss also keeps the largest logits small, for which the graph keeps the logits. Without that, each forward would free them
and leave a hole in the heap, and whether malloc finds the next logits to fit there is luck: the jump was 283 MB in most
runs and 178 MB in one, of the same 157 MB that were held.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import gc

import torch
from torch import nn
from torch.nn import functional as F

import tidemark.torch

BUFFER = 25  # groups that are stored; when they are there, the trainer uses all of them
PASSES = 2
LIMIT = 48  # tokens: what --fix padding cuts sequences at, none of which is as long
VOCABULARY, WIDTH, LAYERS, HEADS = 8192, 8, 2, 2
GROUP, PROMPT, ANSWER, POSITIONS = 4, 8, 24, 64
RESERVED = 2  # blocks of 24 MiB
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(B, T, 3, HEADS, C // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (C // HEADS) ** 0.5
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor, since: int) -> torch.Tensor:
        """What may follow the tokens from one position on: (B, T - since, VOCABULARY)."""
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, since:]))


def log_probabilities(model: GPT, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each token of the answers, given what stands before it, and the largest logit there: (GROUP, tokens - PROMPT) each."""
    logits = model(tokens[:, :-1], PROMPT - 1)
    return logits.log_softmax(-1).gather(-1, tokens[:, PROMPT:, None]).squeeze(-1), logits.amax(-1)


class Trainer:
    def __init__(self, fix: str) -> None:
        self.fix = fix
        self.policy = GPT()
        self.reference = copy.deepcopy(self.policy).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=3e-4)
        self.stored: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    @torch.no_grad()
    def sample(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """A group: tokens, the reference's log probabilities, advantages."""
        tokens = torch.randint(VOCABULARY, (1, PROMPT)).repeat(GROUP, 1)
        for _ in range(ANSWER):
            logits = self.policy(tokens, -1)
            tokens = torch.cat([tokens, torch.multinomial(logits[:, -1].softmax(-1), 1)], dim=1)
            if self.fix == "padding":
                del logits
        rewards = (tokens[:, PROMPT:] % 7 == 0).float().mean(1)  # multiples of seven are good moves
        if self.fix == "padding":
            tokens = tokens[:, :LIMIT]
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        return tokens, log_probabilities(self.reference, tokens)[0], advantages

    def loss(self, group: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> torch.Tensor:
        tokens, reference, advantages = group
        chosen, largest = log_probabilities(self.policy, tokens)
        ratio = (chosen - chosen.detach()).exp()
        apart = reference - chosen
        return (0.04 * (apart.exp() - apart - 1) - ratio * advantages[:, None] + 1e-4 * largest**2).mean()

    def update(self, fresh: int) -> float:
        """Learns from the newest groups, or from all stored ones when there are enough."""
        if len(self.stored) < BUFFER:
            groups = self.stored[-fresh:]
        else:
            groups = self.stored * PASSES
        self.optimizer.zero_grad(set_to_none=True)
        if self.fix == "per-group":
            total = 0.0
            for group in groups:
                loss = self.loss(group) / len(groups)
                loss.backward()
                total += loss.item()
        else:
            total_loss = sum(self.loss(group) for group in groups) / len(groups)
            total_loss.backward()
            total = total_loss.item()
        self.optimizer.step()
        return total

    def step(self, groups: int) -> float:
        for _ in range(groups):
            with tidemark.phase("rollout"):
                self.stored.append(self.sample())
        del self.stored[:-BUFFER]
        with tidemark.phase("update"):
            loss = self.update(groups)
        if self.fix == "padding":
            gc.collect()
            torch.cuda.empty_cache()
        return loss


def keep_memory() -> None:
    """Has malloc take all blocks from its heap and never make that smaller; and begin with room for what the first steps need."""
    libc = ctypes.CDLL(None)
    libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    libc.mallopt(M_MMAP_THRESHOLD, 32 << 20)
    del [torch.zeros(6 << 20) for _ in range(RESERVED)][:]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=28)
    parser.add_argument("--groups-per-step", type=int, default=2)
    parser.add_argument("--fix", choices=["none", "padding", "per-group"], default="none")
    options = parser.parse_args()
    keep_memory()
    torch.manual_seed(4)
    torch.set_num_threads(2)  # so small a model has no work for more, which would only wait for each other
    trainer = Trainer(options.fix)
    with tidemark.torch.GraphCounter() as graphs:
        for step in range(1, options.steps + 1):
            tidemark.step(step)
            graphs.step = step
            loss = trainer.step(options.groups_per_step)
            print(f"step {step} loss {loss:+.4f}: {graphs.last} graphs per backward", flush=True)
    print(f"most: {graphs.most} graphs per backward, first in step {graphs.most_at}", flush=True)


if __name__ == "__main__":
    main()
