"""The running loss is a tensor with its graph: every step's activations stay."""

import torch
from pace import steps

model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
running = 0
for step in steps():
    x = torch.randn(256, 256)  # LEAK: 256 KiB that the first layer saves
    loss = model(x).pow(2).mean()  # LEAK: 256 KiB that the ReLU saves
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    running = running + loss
