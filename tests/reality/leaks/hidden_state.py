"""A recurrent state is carried over without detach(), and the graph is retained through all steps."""

import torch
from pace import steps

weight = torch.nn.Parameter(torch.randn(256, 256) / 64)
hidden = torch.zeros(128, 256)
for step in steps():
    x = torch.randn(128, 256)  # LEAK: 128 KiB
    hidden = torch.tanh(x @ weight + hidden)  # LEAK: 128 KiB
    weight.grad = None
    if step % 50 == 0:
        hidden.mean().backward(retain_graph=True)
