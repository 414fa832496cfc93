"""PyTorch: a small convolutional network from a DataLoader.

    torch_loop.py SECONDS WORKERS [persistent]
"""

import sys

import pace
import torch
import torch.utils.data


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        return torch.rand(3, 64, 64), index % 10


def main():
    torch.set_num_threads(1)
    workers = int(sys.argv[2])
    loader = torch.utils.data.DataLoader(Images(), 16, shuffle=True, num_workers=workers, persistent_workers="persistent" in sys.argv)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, 2), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, 2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
    )
    model(torch.rand(1, 3, 64, 64))
    optimizer = torch.optim.AdamW(model.parameters())
    step = pace.steps()
    while True:
        for x, y in loader:
            if next(step, None) is None:
                return
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
