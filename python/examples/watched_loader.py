"""A plain loop with nothing changed but ``watch``: lines, and at the end the verdict and what grew."""

import torch
from torch.utils.data import DataLoader, TensorDataset

import tidemark


def train():
    model = torch.nn.Linear(256, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    outputs = []
    loader = DataLoader(TensorDataset(torch.randn(2400, 256)), batch_size=8)
    for (batch,) in tidemark.watch(loader, every=100):
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        outputs.append(batch.repeat(64, 1))


train()
