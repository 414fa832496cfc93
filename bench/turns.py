#!/usr/bin/python3
"""How fast steps of `tidemark train lm` are in two builds. Usage: bench/turns.py OLD NEW [--turns N] [--threads N,...] [--only NAME,...]

The builds run in turns: old, new, old, new. Of each run come the seconds of a step, by the wall and of processors (user and system, which
neighbours disturb less), from the first report to the last; of each build the median of its runs. NEW / OLD is the median of the ratios of
neighbouring runs, with the quarter and three quarters of them. The last column is the load of the machine. Each turn goes to stderr: wall
and processor of OLD, then of NEW, in milliseconds.
"""

import argparse
import array
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

TICKS = os.sysconf("SC_CLK_TCK")
# name: steps, of which the first is not counted, and options
RUNS = {
    "tiny": (601, ["--preset", "tiny", "--report-every", "100"]),
    "small 1x64": (601, ["--preset", "small", "--data", "text", "--batch", "1", "--seq", "64", "--report-every", "100"]),
    "small 16x64": (81, ["--preset", "small", "--data", "text", "--report-every", "20"]),
    "gpt2 4x64": (5, ["--preset", "gpt2", "--data", "tokens.bin", "--batch", "4", "--seq", "64"]),
    "gpt2 4x64 bf16": (5, ["--preset", "gpt2", "--data", "tokens.bin", "--batch", "4", "--seq", "64", "--dtype", "bf16"]),
    "gpt2 8x174": (3, ["--preset", "gpt2", "--data", "tokens.bin", "--batch", "8", "--seq", "174"]),
    "gpt2 8x174 bf16": (3, ["--preset", "gpt2", "--data", "tokens.bin", "--batch", "8", "--seq", "174", "--dtype", "bf16"]),
}


def make_data(folder):
    source = random.Random(1)
    (folder / "text").write_bytes(bytes(source.choices(range(32, 127), k=200_000)) + b"\n")
    with open(folder / "tokens.bin", "wb") as file:  # llm.c's format
        array.array("i", [20240520, 1, 30_000] + [0] * 253).tofile(file)
        array.array("H", (source.randrange(50257) for _ in range(30_000))).tofile(file)


def processor_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def seconds_of_step(build, folder, name, threads):
    """(by the wall, of processors)"""
    steps, options = RUNS[name]
    options = options if "--report-every" in options else [*options, "--report-every", "1"]
    command = [build / "tidemark", "train", "lm", *options, "--steps", str(steps + 1), "--threads", str(threads), "--eval-every", "0", "--json"]
    seen = []
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        for line in process.stdout:
            report = json.loads(line)
            if "loss" in report and not report["final"]:
                seen.append((report["step"], report["seconds"], processor_s(process.pid)))
    if process.returncode or len(seen) < 2:
        sys.exit(f"turns: {' '.join(map(str, command))}: ended with status {process.returncode}")
    count = seen[-1][0] - seen[0][0]
    return tuple((seen[-1][i] - seen[0][i]) / count for i in (1, 2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("builds", nargs=2, type=lambda path: pathlib.Path(path).resolve(), metavar="BUILD")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--threads", default="2,1")
    parser.add_argument("--only", default=",".join(RUNS), help="some of these: %(default)s")
    options = parser.parse_args()
    print(f"{'ms per step':18} threads {'':10} {'old':>9} {'new':>9} {'new / old':>10} {'quarters':>14}   load")
    with tempfile.TemporaryDirectory() as folder:
        make_data(pathlib.Path(folder))
        for name in options.only.split(","):
            for threads in options.threads.split(","):
                old, new = [], []
                for _ in range(options.turns):
                    for build, to in zip(options.builds, (old, new)):
                        to.append(seconds_of_step(build, folder, name, threads))
                    print(f"{name}, {threads}: " + ", ".join(f"{1e3 * s:.1f}" for run in (old[-1], new[-1]) for s in run), file=sys.stderr, flush=True)
                for i, what in enumerate(("wall", "processor")):
                    ratios = [b[i] / a[i] for a, b in zip(old, new)]
                    low, middle, high = statistics.quantiles(ratios, n=4)
                    print(f"{name:18} {threads:7} {what:10} {1e3 * statistics.median(s[i] for s in old):9.3f} "
                          f"{1e3 * statistics.median(s[i] for s in new):9.3f} {middle:10.3f} {low:6.3f} {high:6.3f}   {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
