#!/usr/bin/python3
"""How fast nets over boards evaluate, beside the PyTorch that people install and the best matrix product. Usage: bench_boardnet.py [BUILD] [--quick]

Each net is timed as it plays (batch norm folded), 15x15, f32, two threads, in several turns, PyTorch (eager and compiled) before and after
ours; the faster of its two ways counts, and the median of the turns' ratios. The peak is what one large matrix product reaches between the
passes. A rate counts the multiplications of direct convolutions, those beyond the edges of boards, too, as everybody does; ours are fewer,
so that it may exceed the peak.
Prints what is asked, what was measured, and whether that is enough; exits 1 when something is not. PyTorch comes from PyPI by
tools/torch-venv. Takes about five minutes on two free cores, --quick about three.
"""

import argparse
import os
import pathlib
import statistics
import sys

from bench_train import ROOT, THREADS, Torch, lines_of, row, short

BOARD, SECONDS = 15, 2
PLAIN, SEPARABLE = ("plain:10x96", "plain", 10, 96), ("10x96", "separable", 10, 96)


def median(found, name):
    return statistics.median(found[name])


class Bench:
    def __init__(self, build):
        self.program, self.torch = build / "bench/bench_boardnet", Torch()

    def ours(self, net, batch, *more, isa=""):
        env = {**os.environ, **({"TIDEMARK_ISA": isa} if isa else {})}
        return lines_of([self.program, "--net", net, "--batch", str(batch), "--board", str(BOARD), "--threads", str(THREADS),
                         "--milliseconds", str(SECONDS * 1000), *more], env)

    def faster(self, kind, blocks, channels, batch):
        """(seconds of a pass, both ways in words) of PyTorch"""
        env = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
        shape = [kind, *map(str, (blocks, channels, batch, BOARD, SECONDS, THREADS))]
        taken = {way: median(lines_of([self.torch.python, ROOT / "bench/torch_boardnet.py", *shape, way], env), "forward_seconds")
                 for way in ("eager", "compiled")}
        return min(taken.values()), f"PyTorch {self.torch.version} " + ", ".join(f"{w} {s * 1e3:.3g} ms" for w, s in taken.items())

    def against_torch(self, net, kind, blocks, channels, batch, turns, asked):
        """Returns the shares of the peak that the turns reached."""
        beside, note = self.faster(kind, blocks, channels, batch)
        ratios, taken, shares = [], [], []
        for _ in range(turns):
            found = self.ours(net, batch)
            taken.append(median(found, "forward_seconds"))
            shares.append(100 * found["forward_gflop"][0] / taken[-1] / median(found, "peak_gflops"))
            after, note = self.faster(kind, blocks, channels, batch)
            ratios.append((beside + after) / 2 / taken[-1])
            beside = after
        row(f"{net}, {batch} boards, against PyTorch", asked, statistics.median(ratios), "x",
            f"{min(ratios):.2f} to {max(ratios):.2f}; {statistics.median(taken) * 1e3:.3g} ms, {note}")
        return shares

    def convolution_rows(self, net, dtype, isa=""):
        found = self.ours(net, 64, "--convolution", "--dtype", dtype, isa=isa)
        for name, asked in (("forward", 65), ("by_x", 50), ("by_weight", 50)):
            rate = median(found, f"{name}_gflops")
            row(f"a convolution of {net}, {dtype}{', ' + isa if isa else ''}, {name.replace('_', ' ')}", asked,
                100 * rate / median(found, "peak_gflops"), "%", f"{rate:.0f} GFLOP/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build/release", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    turns, bench = 1 if arguments.quick else 3, Bench(arguments.build.resolve())
    shares = bench.against_torch(*PLAIN, 64, turns, 1.2)
    row("... of the peak", 65, statistics.median(shares), "%")
    bench.against_torch(*SEPARABLE, 64, turns, 1.2)
    for batch in (1, 8):
        for net in (PLAIN, SEPARABLE):
            bench.against_torch(*net, batch, turns, 1)
    bench.convolution_rows(PLAIN[0], "f32")
    if not arguments.quick:
        bench.convolution_rows(PLAIN[0], "f32", isa="avx2")
        bench.convolution_rows(PLAIN[0], "bf16")
        bench.convolution_rows("plain:10x192", "f32")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
