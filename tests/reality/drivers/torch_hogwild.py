"""PyTorch: Hogwild, two processes that train one model in shared memory."""

import sys

import pace
import torch
import torch.multiprocessing


def train(model, seconds):
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in pace.steps(seconds):
        optimizer.zero_grad()
        x = torch.rand(32, 128)
        torch.nn.functional.mse_loss(model(x), x).backward()
        optimizer.step()


if __name__ == "__main__":
    model = torch.nn.Sequential(torch.nn.Linear(128, 512), torch.nn.ReLU(), torch.nn.Linear(512, 128))
    model.share_memory()
    processes = [torch.multiprocessing.Process(target=train, args=(model, sys.argv[1])) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
