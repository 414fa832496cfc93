#!/usr/bin/python3
"""What being tracked costs the program: paired runs, without - with - without `tidemark run`.

    bench/overhead.py [PAIRS] [--build DIR] [--interval 250ms]

The program multiplies and copies memory and leaves a mark per step, with nothing to wait for, so that every
microsecond taken from it shows. Each tracked run is divided by the mean of the untracked runs just before and after it;
printed are the median of those ratios and its spread, of wall time and of the program's own CPU time. Exit 1 when the
median of wall time is over 1.005 (asked: below 0.5 %).
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]

PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include "tidemark.h"
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }
int main(int argc, char **argv)
{
    enum { N = 1 << 15 }; /* in the cache: the memory bus is shared with strangers and noisier than what is measured */
    int steps = argc > 1 ? atoi(argv[1]) : 400;
    float *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
    for (int i = 0; i < N; i++) { a[i] = 1; b[i] = (float)i; }
    double began = now();
    for (int s = 0; s < steps; s++) {
        tide_step(s);
        float *c = malloc(N * sizeof *c);
        for (int k = 0; k < 64; k++)
            for (int i = 0; i < N; i++) c[i] = a[i] * 0.5f + b[i] * 1e-9f;
        memcpy(a, c, N * sizeof *a);
        free(c);
    }
    double wall = now() - began;
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    double cpu = (double)u.ru_utime.tv_sec + 1e-6 * (double)u.ru_utime.tv_usec + (double)u.ru_stime.tv_sec + 1e-6 * (double)u.ru_stime.tv_usec;
    FILE *out = fopen(argv[2], "w");
    fprintf(out, "%.9f %.9f\n", wall, cpu);
    fclose(out);
    return a[7] < 0;
}
"""


def build(folder, build_dir):
    source, program = folder / "load.c", folder / "load"
    source.write_text(PROGRAM)
    subprocess.run(["cc", "-O2", f"-I{ROOT}/include", "-o", program, source, build_dir / "libtidemark.a", "-lpthread"], check=True)
    return program


def once(command, result):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [float(v) for v in result.read_text().split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="?", type=int, default=61)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--interval", default="250ms")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one run")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program, result = build(folder, args.build), folder / "result"
        alone = [program, "40", result]
        wall, _ = once(alone, result)
        steps = str(max(40, int(40 * args.seconds / wall)))
        alone = [program, steps, result]
        ratios, cpu_ratios, number = [], [], 0
        before = once(alone, result)
        for _ in range(args.pairs):
            number += 1
            recording = folder / f"run{number}.tide"
            tracked = once([args.build / "tidemark", "run", "-o", recording, "-i", args.interval, "--", *alone], result)
            after = once(alone, result)
            ratios.append(2 * tracked[0] / (before[0] + after[0]))
            cpu_ratios.append(2 * tracked[1] / (before[1] + after[1]))
            before = after
    for label, values in (("wall time", ratios), ("its CPU time", cpu_ratios)):
        low, middle, high = min(values), statistics.median(values), max(values)
        error = 1.2533 * statistics.stdev(values) / len(values) ** 0.5  # of a median
        print(f"tracked program, {label:13} x{middle:.4f} +- {error:.4f}  (x{low:.4f} to x{high:.4f}, {len(values)} pairs)")
    return statistics.median(ratios) > 1.005


if __name__ == "__main__":
    sys.exit(main())
