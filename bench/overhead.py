#!/usr/bin/python3
"""What being tracked costs the program.

    bench/overhead.py [PAIRS] [--build DIR] [--interval 250ms] [--seconds 1] [--runs N]

One run under `tidemark run`, in which the tracker is halted (SIGSTOP) for every second stretch of time, so that the same
process, with the same pages in the same places, is measured with and without it, a second apart: from one process to the
next such a program differs by several per cent on a shared machine, whoever watches. The program computes in the cache
and in fresh memory, leaves a mark per step, and has nothing to wait for, so that every microsecond taken from it shows;
what is counted is the steps it gets done. Each stretch with the tracker is divided by the mean of the stretches without
it just before and after.

Printed are the median of those ratios with its 95 % interval, and the mean; exit 0 when that interval lies below 0.5 %,
1 when it lies above, 3 when it holds both. With --runs N also N whole runs, each between two untracked ones, which
include being started by the tracker.
"""

import argparse
import array
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BOUND = 0.005

PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tidemark.h"
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }
int main(int argc, char **argv) /* FILE SECONDS: when each step ended, as doubles */
{
    enum { N = 1 << 13, FRESH = 1 << 18 };
    static float a[N], b[N], c[N];
    double until = now() + atof(argv[2]);
    size_t most = (size_t)(atof(argv[2]) * 20000), count = 0;
    double *ended = malloc(most * sizeof *ended);
    if (argc != 3 || !ended) return 2;
    for (size_t i = 0; i < most; i++) ended[i] = 1; /* touched now: growth of its own would be measured too */
    for (int i = 0; i < N; i++) { a[i] = 1; b[i] = (float)i; }
    while (count < most) {
        tide_step((int64_t)count);
        for (int k = 0; k < 64; k++) {
            for (int i = 0; i < N; i++) c[i] = a[i] * 0.5f + b[i] * 1e-9f;
            __asm__ volatile("" : : "r"(c) : "memory");
        }
        if (count % 16 == 0) {
            char *fresh = malloc(FRESH);
            if (!fresh) return 2;
            memset(fresh, (int)count, FRESH);
            __asm__ volatile("" : : "r"(fresh) : "memory");
            free(fresh);
        }
        ended[count++] = now();
        if (ended[count - 1] > until) break;
    }
    FILE *out = fopen(argv[1], "w");
    return !out || fwrite(ended, sizeof *ended, count, out) != count || fclose(out);
}
"""


def build(folder, build_dir):
    source, program = folder / "load.c", folder / "load"
    source.write_text(PROGRAM)
    command = ["cc", "-O2", f"-I{ROOT}/include", "-o", program, source, build_dir / "libtidemark.a", "-lpthread"]
    subprocess.run(command, check=True)
    return program


def stretches(args, program, folder):
    """Steps per second in alternating stretches: without, with, without, ..."""
    result = folder / "result"
    length = 1 + (2 * args.pairs + 2) * args.seconds
    command = [args.build / "tidemark", "run", "-q", "-o", folder / "run.tide", "-i", args.interval, "--"]
    tracker = subprocess.Popen([*command, program, result, str(length)])
    bounds = []
    try:
        while not (folder / "run.tide").exists():
            if tracker.poll() is not None:
                sys.exit("bench: the tracker ended early")
            time.sleep(0.01)
        time.sleep(0.5)
        for number in range(2 * args.pairs + 1):
            os.kill(tracker.pid, signal.SIGSTOP if number % 2 == 0 else signal.SIGCONT)
            began = time.monotonic()
            time.sleep(args.seconds)
            bounds.append((began, time.monotonic()))
    finally:
        os.kill(tracker.pid, signal.SIGCONT)
    if tracker.wait() != 0:
        sys.exit("bench: the program failed")
    ended = array.array("d")
    ended.frombytes(result.read_bytes())
    rates, at = [], 0
    for began, until in bounds:
        while ended[at] < began:
            at += 1
        first = at
        while ended[at] < until:
            at += 1
        rates.append((at - 1 - first) / (ended[at - 1] - ended[first]))
    return rates


def whole_runs(args, program, folder):
    """Time per step of whole runs: without, with, without, ..."""
    result = folder / "result"
    alone, times = [program, result, "0.5"], []
    for number in range(2 * args.runs + 1):
        under = [args.build / "tidemark", "run", "-q", "-o", folder / f"{number}.tide", "-i", args.interval, "--"]
        subprocess.run([*under, *alone] if number % 2 else alone, check=True, stderr=subprocess.DEVNULL)
        ended = array.array("d")
        ended.frombytes(result.read_bytes())
        times.append((len(ended) - 1) / (ended[-1] - ended[0]))
    return times


def tell(label, rates):
    """The slowdown of odd entries against their neighbours: the median, and a 95 % interval of it from the ranks, which
    does not mind that a few stretches were disturbed by other programs."""
    ratios = sorted((rates[i - 1] + rates[i + 1]) / 2 / rates[i] for i in range(1, len(rates) - 1, 2))
    count = len(ratios)
    rank = max(0, int(count / 2 - 0.98 * count**0.5))
    low, middle, high = ratios[rank], statistics.median(ratios), ratios[count - 1 - rank]
    print(f"tracked program, {label}: x{middle:.4f}  (95 % interval x{low:.4f} to x{high:.4f}; mean x{statistics.fmean(ratios):.4f}, "
          f"{count} pairs from x{ratios[0]:.3f} to x{ratios[-1]:.3f})", flush=True)
    return low - 1, high - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="?", type=int, default=400)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--interval", default="250ms")
    parser.add_argument("--seconds", type=float, default=0.25, help="length of one stretch")
    parser.add_argument("--runs", type=int, default=0, help="pairs of whole runs as well")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = build(folder, args.build)
        low, high = tell("stretches of one run", stretches(args, program, folder))
        if args.runs > 1:
            tell("whole runs", whole_runs(args, program, folder))
    if low < BOUND <= high:
        print(f"the machine is too restless to tell {BOUND:.1%}; more PAIRS help")
        return 3
    return low >= BOUND


if __name__ == "__main__":
    sys.exit(main())
