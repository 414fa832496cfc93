"""How many forward passes one backward goes through: losses that are summed first keep all their graphs."""

import torch

import tidemark.torch

model = torch.nn.Sequential(torch.nn.Linear(128, 512), torch.nn.GELU(), torch.nn.Linear(512, 128))
stored = []
with tidemark.torch.GraphCounter() as graphs:
    for step in range(1, 31):
        graphs.step = step
        stored.append(torch.randn(16, 128))
        groups = stored if len(stored) >= 25 else stored[-1:]  # from the 25th on, all that is stored
        losses = [(model(group) - group).square().mean() for group in groups]
        if step in (24, 25):
            seen = tidemark.torch.census(step)
            saved = seen.by_kind["autograd graph"] / 2**20
            print(f"step {step}: graphs alive before backward: {seen.graphs}, saved in them: {saved:.1f} MiB")
        sum(losses).backward()
        model.zero_grad()
print(f"up to {graphs.most} forward passes in one backward, in step {graphs.most_at}")
