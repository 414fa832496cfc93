"""A map-style dataset that caches what it loads, in each of two DataLoader workers."""

import numpy
import torch
from pace import steps


class Images(torch.utils.data.Dataset):
    def __init__(self):
        self.cache = {}

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = numpy.random.rand(64, 64)  # LEAK: 32 KiB
        return torch.from_numpy(self.cache[index])


if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(Images(), batch_size=8, num_workers=2)
    for step, batch in zip(steps(), loader):
        batch.mean()
