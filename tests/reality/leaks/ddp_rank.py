"""Two ranks train together; rank 1 keeps its outputs."""

import os
import sys
import time

import torch
import torch.distributed
import torch.multiprocessing


def train(rank, seconds):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2], RANK=str(rank), WORLD_SIZE="2")
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = []
    for step in range(int(seconds / 0.1)):
        if rank == 0:
            print(f"step {step}", flush=True)
        output = model(torch.randn(256, 256))  # LEAK: 256 KiB
        optimizer.zero_grad()
        output.square().mean().backward()
        optimizer.step()
        if rank == 1:
            kept.append(output.detach())
        torch.distributed.barrier()
        time.sleep(0.07)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, (float(sys.argv[1]),), nprocs=2)
