"""A hook is registered in every step and never removed; each holds the activation that it saw first."""

import torch
from pace import steps

model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 8))


def watch(layer):
    seen = []

    def hook(module, args, output):
        if not seen:
            seen.append(output)

    layer.register_forward_hook(hook)


with torch.no_grad():
    for step in steps():
        watch(model[1])
        model(torch.randn(256, 256))  # LEAK: 256 KiB
