"""Census, counters, graph count, cleanup and verdict of the Python package on CUDA tensors. Usage: python_census.py

Needs torch with a CUDA device, nothing else; takes well under a minute. Prints tables, checks every number that is known
beforehand, and exits 1 when one is wrong.
"""

import gc
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import tidemark
import tidemark.torch

WRONG = []


def check(what, found, expected):
    good = found == expected
    print(f"{'ok' if good else 'WRONG':6} {what}: {found}" + ("" if good else f", expected {expected}"))
    if not good:
        WRONG.append(what)


def requested():
    """Bytes of the allocator's living blocks as they were asked for, before it rounded them."""
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


def on_device(census):
    return sum(group.bytes for key, group in census.groups.items() if str(key.device) == "cuda:0")


def census_ms():
    """The median of seven, none of which is the first of the process."""
    times = sorted(tidemark.torch.census().seconds * 1e3 for _ in range(7))
    print(f"  {times[3]:.1f} ms among {len(gc.get_objects())} Python objects (median of 7, least {times[0]:.1f})")
    return times[3]


class Policy(torch.nn.Module):
    def __init__(self, vocabulary=5003, width=256):
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, width)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.body = torch.nn.TransformerEncoder(layer, 2)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens)))


def main():
    device = torch.device("cuda:0")
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, {torch.cuda.get_device_name(0)}\n")
    torch.manual_seed(0)
    model = Policy().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 5003, (8, 174), device=device)
    losses, censuses, asked = [], [], []
    log = tidemark.TrainingLog(every=10, share=1.0, out=print)
    log.count_graphs()
    for step in range(1, 41):
        log.step(step)
        logits = model(tokens)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(logits.detach())  # the leak: 8 x 174 x 5003 floats per step
        del logits, loss
        if step in (20, 40):
            censuses.append(tidemark.torch.census(step))
            asked.append(requested())
    log.step_end()
    log.close()

    print("\ncensus at step 40")
    print(censuses[1])
    growths = censuses[1].since(censuses[0])
    for growth in growths:
        print("growing:", growth)
    size = 8 * 174 * 5003 * 4
    check("tensors per step in the list that grows", growths[0].count_per_step, 1.0)
    check("bytes per step in the list that grows", growths[0].bytes_per_step, float(size))
    check("its holder", growths[0].holder.split(" in ")[0], "list `losses`")
    check("its device", str(growths[0].device), "cuda:0")

    print("\nthe allocator's own count")
    check("bytes that the allocator gave out between the two", asked[1] - asked[0], 20 * size)
    check("bytes that the census found between the two", on_device(censuses[1]) - on_device(censuses[0]), 20 * size)
    # What cuBLAS asked for belongs to no tensor: it is given back, and only then are the two the same thing.
    before = requested()
    torch._C._cuda_clearCublasWorkspaces()
    print(f"       workspaces of cuBLAS: {before - requested()} bytes; rounding: {torch.cuda.memory_allocated() - requested()} bytes")
    check("bytes in all that the census found, of those without workspaces", on_device(tidemark.torch.census()), requested())

    print("\ncounters")
    for name, value in tidemark.torch.publish().items():
        print(f"  {name:20} {value / 2**20:10.1f} MiB")

    print("\nautograd graphs")
    with tidemark.torch.GraphCounter() as graphs:
        for number in (1, 20):
            kept = [model(tokens[:2]).square().mean() for _ in range(number)]
            seen = tidemark.torch.census()
            check(f"graphs alive before backward of {number}", (seen.graphs, seen.passes), (number, number))
            saved = seen.by_kind.get("autograd graph", 0)
            print(f"       saved in them: {saved / 2**20:.1f} MiB")
            sum(kept).backward()
            check("forward passes in that backward", graphs.last, number)
            del kept
    optimizer.zero_grad()

    print("\ncleanup")
    losses.clear()
    cleanup = tidemark.Cleanup(model=model, verbose=True, out=print)
    freed = cleanup.run()
    check("empty_cache gave back the 40 logits", freed["empty_cache"] >= 40 * size, True)
    print(cleanup.table())

    print("\ntime of a census with 10,000 CUDA tensors")
    many = [torch.zeros(4, 8, device=device) for _ in range(10_000)]
    check("within 50 ms", census_ms() < 50, True)
    check("tensors in it", sum(group.count for key, group in tidemark.torch.census().groups.items() if key.shape == (4, 8)), len(many))
    start = time.perf_counter()
    for _ in range(200):
        tidemark.torch.counters()
    print(f"  counters: {(time.perf_counter() - start) / 200 * 1e6:.0f} us a reading")
    print("\n" + (f"WRONG: {', '.join(WRONG)}" if WRONG else "all as expected"))
    return 1 if WRONG else 0


if __name__ == "__main__":
    sys.exit(main())
