"""Every step adds a parameter group; parameter, gradient and Adam's two moments stay."""

import torch
from pace import steps

optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(8))], lr=1e-3)
for step in steps():
    adapter = torch.nn.Parameter(torch.randn(128, 128))  # LEAK: 64 KiB
    optimizer.add_param_group({"params": [adapter]})
    adapter.square().sum().backward()  # LEAK: 64 KiB
    optimizer.step()  # LEAK: 128 KiB
