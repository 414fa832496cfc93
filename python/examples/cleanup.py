"""Which cleanup is worth its time: objects in cycles, which only the collector frees, and nothing else."""

import torch

import tidemark

model = torch.nn.Linear(128, 128)


class Episode:
    def __init__(self):
        self.states = torch.zeros(1 << 20)
        self.first = self  # a cycle


cleanup = tidemark.Cleanup(every=10, model=model, budget=0.5, out=print)
for step in range(1, 41):
    episode = Episode()
    model(episode.states.view(8192, 128)).square().mean().backward()
    cleanup.step(step)
print(cleanup.table())
