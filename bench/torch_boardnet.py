#!/usr/bin/env python3
"""Board nets in PyTorch, for bench_boardnet.py to stand beside. Usage: torch_boardnet.py plain|separable BLOCKS CHANNELS BATCH SIDE SECONDS THREADS eager|compiled

Written as one would to play: batch norm folded into the convolutions before it, channels last, inference mode; compiled with weights as
constants (freezing). Prints a line "forward_seconds S" for each forward pass after the first ones.
"""

import sys
import time

import torch
from torch import nn

PLANES, POLICY, VALUE, HIDDEN, REDUCTION = 5, 32, 16, 256, 16


def convolution(channels, separable):
    if not separable:
        return nn.Conv2d(channels, channels, 3, padding=1)
    return nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False), nn.Conv2d(channels, channels, 1))


class Block(nn.Module):
    def __init__(self, channels, separable):
        super().__init__()
        self.first, self.second = convolution(channels, separable), convolution(channels, separable)
        self.separable = separable
        if separable:
            self.squeeze, self.excite = (nn.Linear(channels, channels // REDUCTION, bias=False),
                                         nn.Linear(channels // REDUCTION, channels, bias=False))

    def forward(self, x):
        y = self.second(torch.relu(self.first(x)))
        if self.separable:
            gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(y.mean((2, 3))))))
            y = y * gate[:, :, None, None]
        return torch.relu(y + x)


class Net(nn.Module):
    def __init__(self, blocks, channels, side, separable):
        super().__init__()
        self.stem = nn.Conv2d(PLANES, channels, 3, padding=1)
        self.blocks = nn.Sequential(*(Block(channels, separable) for _ in range(blocks)))
        self.policy, self.moves = nn.Conv2d(channels, POLICY, 1), nn.Linear(POLICY * side * side, side * side)
        self.value, self.hidden, self.out = nn.Conv2d(channels, VALUE, 1), nn.Linear(VALUE * side * side, HIDDEN), nn.Linear(HIDDEN, 1)

    def forward(self, planes):
        x = self.blocks(torch.relu(self.stem(planes)))
        logits = self.moves(torch.relu(self.policy(x)).flatten(1))
        return logits, torch.tanh(self.out(torch.relu(self.hidden(torch.relu(self.value(x)).flatten(1)))))


def main():
    kind, (blocks, channels, batch, side), seconds, threads, way = sys.argv[1], map(int, sys.argv[2:6]), float(sys.argv[6]), int(sys.argv[7]), sys.argv[8]
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    net = Net(blocks, channels, side, kind == "separable").eval().to(memory_format=torch.channels_last)
    planes = torch.rand(batch, PLANES, side, side).to(memory_format=torch.channels_last)
    with torch.inference_mode() if way == "eager" else torch.no_grad():
        if way == "compiled":
            torch._inductor.config.freezing = True
            net = torch.compile(net)
        for _ in range(3):
            net(planes)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.perf_counter()
            net(planes)
            print("forward_seconds", time.perf_counter() - start)


if __name__ == "__main__":
    main()
