"""PyTorch: DistributedDataParallel over gloo, two ranks; for torchrun."""

import pace
import torch
import torch.distributed


def main():
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))
    )
    optimizer = torch.optim.Adam(model.parameters())
    going_on = torch.ones(1)
    step = pace.steps()
    while going_on:
        optimizer.zero_grad()
        x = torch.rand(64, 256)
        torch.nn.functional.mse_loss(model(x), x).backward()
        optimizer.step()
        going_on[0] = next(step, None) is not None
        torch.distributed.all_reduce(going_on, torch.distributed.ReduceOp.MIN)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
