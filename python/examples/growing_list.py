"""Who holds the tensors that become more: a list of logits, kept "for a plot"."""

import torch

import tidemark.torch


def train():
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1000))
    optimizer = torch.optim.AdamW(model.parameters())
    history = []
    for step in range(1, 61):
        logits = model(torch.randn(32, 64))
        loss = logits.logsumexp(-1).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        history.append(logits.detach())
        if step == 10:
            before = tidemark.torch.census(step)
    after = tidemark.torch.census(step)
    print(after.table(6))
    for growth in after.since(before):
        print("growing:", growth)


train()
