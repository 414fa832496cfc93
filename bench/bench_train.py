#!/usr/bin/python3
"""How fast training is, beside PyTorch and the matrix library's own speed. Usage: bench_train.py [BUILD] [--quick]

Everything is measured in one run, PyTorch before and after ours, and medians are compared. Prints what is asked, what was measured, and
whether that is enough; exits 1 when something is not. Takes about eight minutes on two free cores, --quick about three.

What is set against the matrix library's speed comes from bench_train.c: 6 x parameters x tokens of a step, whatever it computes again,
over the rate of the fastest of the model's own products in oneDNN, measured between the steps. What a user gets (steps of `small`,
memory, start) comes from `tidemark train lm`. PyTorch gets OpenBLAS, the best of Debian's libraries for it: where another is installed,
OpenBLAS is fetched into the build directory.
"""

import argparse
import array
import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
THREADS = 2
LLMC_STEP_S = 5.9  # llm.c's train_gpt2, gcc -Ofast -march=native -fopenmp, 4 x 64 on two free cores of an AVX-512 machine: not measured here
RESIDENT, BEYOND = 2_200_000_000, 64 << 20  # bytes of the process, and of those, how many may lie outside the plan
BESIDE = 24 << 20  # what the program and its libraries take beside the arena, for which the budget leaves room
SHARED_NS = 130  # a round trip between processors that share a cache takes less
ENOUGH, SHORT = "ok", "SHORT"
short = []


def row(what, asked, measured, unit, note="", most=False):
    """One line of the table; `asked` is the least that is enough, or the most."""
    enough = measured <= asked if most else measured >= asked
    if not enough:
        short.append(what)
    bound = f"{'<=' if most else '>='} {asked:g}"
    print(f"{what:48} {bound:>10} {measured:10.2f} {unit:7} {ENOUGH if enough else SHORT:6} {note}".rstrip(), flush=True)


def lines_of(command, env=None):
    """Each "name value" line of a program as name -> [values]."""
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if out.returncode:
        sys.exit(f"bench_train: {' '.join(map(str, command))}: {out.stderr.strip()}")
    found = {}
    for line in out.stdout.splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name, []).append(float(value))
    return found


# ---- PyTorch

SLOW_BLAS = "the BLAS that is installed, a slow one: libopenblas0-pthread could not be fetched"


def torch_environment(build):
    """Where PyTorch finds OpenBLAS, and what it computes with."""
    env = {**os.environ, "OMP_NUM_THREADS": str(THREADS), "OPENBLAS_NUM_THREADS": str(THREADS)}
    if "openblas" in os.path.realpath("/usr/lib/x86_64-linux-gnu/libblas.so.3"):
        return env, "OpenBLAS"
    folder = build / "openblas"
    library = folder / "usr/lib/x86_64-linux-gnu/openblas-pthread"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(["apt-get", "download", "-q", "libopenblas0-pthread"], cwd=folder, capture_output=True, check=False)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, folder], check=True)
        if fetched.returncode or not library.exists():
            shutil.rmtree(folder)
            return env, SLOW_BLAS
    return {**env, "LD_LIBRARY_PATH": str(library)}, "OpenBLAS"


class Torch:
    def __init__(self, build):
        self.env, self.blas = torch_environment(build)

    def steps(self, preset, batch, length, count):
        if self.blas == SLOW_BLAS and preset == "gpt2":
            count = 1  # of half a minute
        return lines_of([PYTHON, ROOT / "bench/torch_gpt.py", preset, *map(str, (batch, length, count, THREADS))], self.env)


# ---- ours


class Ours:
    def __init__(self, build, folder):
        self.bench, self.tidemark = build / "bench/bench_train", build / "tidemark"
        self.text, self.tokens = folder / "text", folder / "tokens.bin"
        self.reaches = []
        source = random.Random(1)
        self.text.write_bytes(bytes(source.choices(range(32, 127), k=200_000)) + b"\n")
        with open(self.tokens, "wb") as file:  # llm.c's format
            array.array("i", [20240520, 1, 30_000] + [0] * 253).tofile(file)
            array.array("H", (source.randrange(50257) for _ in range(30_000))).tofile(file)

    def rounds(self, *options, rounds):
        found = lines_of([self.bench, "--threads", str(THREADS), "--rounds", str(rounds), *options])
        self.reaches += found["reach_ns"]
        return found

    def reach(self):
        """How many nanoseconds the two processors are apart just now."""
        return self.rounds("--preset", "tiny", "--batch", "1", "--seq", "16", rounds=1)["reach_ns"][0]

    def train(self, *options):
        """Reports of `tidemark train lm`, each with the seconds since the start, and the peak of its memory."""
        command = [self.tidemark, "train", "lm", "--json", "--threads", str(THREADS), "--eval-every", "0", *options]
        start = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            reports = [dict(json.loads(line), at=time.monotonic() - start) for line in process.stdout]
            said = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"bench_train: {' '.join(map(str, command))}: {said.strip()}")
        return [r for r in reports if "loss" in r], usage.ru_maxrss * 1024


def median_step(found):
    return statistics.median(found["step_seconds"])


def peak_gflops(found):
    """The fastest of the model's products, each by its median over the rounds."""
    return max(statistics.median(values) for name, values in found.items() if name.startswith("product_"))


def against_peak(ours, what, asked, rounds, *options):
    found = ours.rounds("--peak", *options, rounds=rounds)
    step, peak = median_step(found), peak_gflops(found)
    rate = found["step_flops"][0] / step / 1e9
    row(what, asked, 100 * rate / peak, "%", f"{step:.2f} s/step, {rate:.0f} of {peak:.0f} GFLOP/s, plan {found['plan_bytes'][0] / 1e6:.0f} MB")


class Small:
    """`small` is timed at several moments of the run, PyTorch before and after each: how near to each other the processors are, which it
    depends on, is for the host of a virtual machine to say and changes within minutes."""

    def __init__(self, ours, torch):
        self.ours, self.torch = ours, torch
        self.rates, self.others, self.reaches = [], [], []

    def visit(self, count):
        """Steps per second of one moment; returns the reports from step 100 on."""
        ours = self.ours
        self.reaches.append(ours.reach())
        self.others += self.torch.steps("small", 1, 64, 150)["step_seconds"]
        reports, _ = ours.train("--preset", "small", "--data", ours.text, "--batch", "1", "--seq", "64", "--steps", str(count), "--report-every", "100")
        self.others += self.torch.steps("small", 1, 64, 150)["step_seconds"]
        reports = [r for r in reports if not r["final"] and r["step"] >= 100]
        self.rates.append(statistics.median((b["step"] - a["step"]) / (b["seconds"] - a["seconds"]) for a, b in zip(reports, reports[1:])))
        return reports

    def growth_row(self, count):
        reports = self.visit(count)
        grown = (max(r["rss_bytes"] for r in reports) - reports[0]["rss_bytes"]) // resource.getpagesize()
        row(f"small, growth from step {reports[0]['step']} to {reports[-1]['step']}", 0, grown, "pages", most=True)

    def rows(self):
        rate, other = statistics.median(self.rates), 1 / statistics.median(self.others)
        narrow = 1 / median_step(self.ours.rounds("--preset", "small", "--batch", "1", "--seq", "64", "--dtype", "bf16", "--steps", "100", rounds=9))
        each = ", ".join(f"{r:.0f} at {ns:.0f} ns" for r, ns in zip(self.rates, self.reaches))
        row("small, 1 x 64", 600, rate, "it/s", f"{each} between processors; bf16 {narrow:.0f}")
        row("small, 1 x 64, against PyTorch", 4, rate / other, "x", f"PyTorch {other:.0f} it/s with {self.torch.blas}")


def gpt2_small_rows(ours, torch, quick):
    """Several processes of each in turn, PyTorch's before and after each of ours: one has the same luck with its memory, and with where its
    processors are, for all its steps, and the machine is faster in one minute than in another. The median of the turns' ratios."""
    shape, steps, ratios = ("--batch", "4", "--seq", "64"), {"f32": [], "bf16": []}, {"f32": [], "bf16": []}
    beside = [median_step(torch.steps("gpt2", 4, 64, 2))]
    for _ in range(2 if quick else 7):
        for dtype, taken in steps.items():
            taken.append(median_step(ours.rounds("--dtype", dtype, *shape, rounds=4)))
        beside.append(median_step(torch.steps("gpt2", 4, 64, 2)))
        for dtype, taken in steps.items():
            ratios[dtype].append((beside[-2] + beside[-1]) / 2 / taken[-1])
    wide, narrow, other = (statistics.median(s) for s in (steps["f32"], steps["bf16"], beside))
    for dtype, asked, what, note in (("f32", 3, "PyTorch", f"{wide:.2f} s/step, PyTorch {other:.2f} with {torch.blas}"),
                                     ("bf16", 5, "PyTorch f32", f"{narrow:.2f} s/step")):
        turns = sorted(ratios[dtype])
        row(f"GPT-2 124M, 4 x 64, {dtype}, against {what}", asked, statistics.median(turns), "x", f"{turns[0]:.2f} to {turns[-1]:.2f}; {note}")
    row("GPT-2 124M, 4 x 64, f32, against llm.c", 4, LLMC_STEP_S / wide, "x", f"its {LLMC_STEP_S} s/step are quoted, not measured here")


def gpt2_rows(ours, quick):
    rounds = 2 if quick else 5
    for dtype, kept, again in ("f32", 75, 55), ("bf16", 60, 45):
        against_peak(ours, f"GPT-2 124M, 8 x 174, {dtype}, of the matrix peak", kept, rounds, "--dtype", dtype)
        against_peak(ours, f"... computing every block again, {dtype}", again, rounds, "--dtype", dtype, "--again", "12")


def memory_rows(ours, torch, quick):
    reports, peak = ours.train("--preset", "gpt2", "--data", ours.tokens, "--batch", "8", "--seq", "174", "--budget", str(RESIDENT - BESIDE), "--steps", "3", "--report-every", "1")
    note = ""
    if not quick and torch.blas != SLOW_BLAS:
        beside = torch.steps("gpt2", 8, 174, 1)
        note = f"PyTorch {beside['rss_bytes'][0] / 1e6:.0f} MB, {median_step(beside):.1f} s/step"
    plan = reports[-1]["plan_bytes"]
    row("GPT-2 124M, 8 x 174, peak of resident memory", RESIDENT / 1e6, peak / 1e6, "MB", note, most=True)
    row("... beyond the plan", BEYOND / 2**20, (peak - plan) / 2**20, "MiB", f"plan {plan / 1e6:.0f} MB, arena {reports[-1]['arena_high_bytes'] - plan:+d} B", most=True)
    first, second = reports[0]["at"], reports[1]["at"]
    row("... from start to the first step, weights made", 3, first - (second - first), "s", f"first step done after {first:.2f} s, the second took {second - first:.2f}", most=True)


def busy_s():
    """Seconds that the processors of this machine have worked."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_s():
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build/release", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    build = (ROOT / arguments.build).resolve()
    start, busy, own = time.monotonic(), busy_s(), own_s()
    torch = Torch(build)
    print(f"{'':48} {'asked':>10} {'measured':>10}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(build, pathlib.Path(folder))
        small = Small(ours, torch)
        small.growth_row(2500 if arguments.quick else 10000)
        memory_rows(ours, torch, arguments.quick)
        gpt2_small_rows(ours, torch, arguments.quick)
        small.visit(2500)
        gpt2_rows(ours, arguments.quick)
        small.visit(2500)
        small.rows()
    took = time.monotonic() - start
    others = 100 * max(0.0, busy_s() - busy - (own_s() - own)) / (took * os.cpu_count())
    disturbed = ": these figures are disturbed" if others > 3 else ""
    print(f"{took:.0f} s, {THREADS} threads on {os.cpu_count()} processors, of which others used {others:.1f} %{disturbed}")
    print(f"{min(ours.reaches):.0f} to {max(ours.reaches):.0f} ns from one processor to the other and back: "
          f"{'in one cache all the time' if max(ours.reaches) < SHARED_NS else 'not always in one cache, which small models feel'}")
    if short:
        print(f"not enough: {'; '.join(short)}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
