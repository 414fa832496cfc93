#!/usr/bin/python3
"""How fast training is, beside the PyTorch that people install and the processor's own ceiling. Usage: bench_train.py [BUILD] [--quick]

Everything is measured in one run, PyTorch (eager and compiled) before and after ours, and medians are compared: with the faster of the
two. Prints what is asked, what was measured, and whether that is enough; exits 1 when something is not. Takes about fifteen minutes on two
free cores, --quick about six. PyTorch comes from PyPI by tools/torch-venv.

The ceiling is what threads reach together that only multiply registers, measured between the products and steps (bench_train.c). A step's
rate is 6 x parameters x tokens, whatever it computes again. What a user gets (steps of `small`, memory, start) comes from `tidemark train lm`.
"""

import argparse
import array
import json
import os
import pathlib
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
THREADS = 2
RESIDENT, BEYOND = 2_200_000_000, 16 << 20  # bytes of the process, and of those, how many may lie outside the plan
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
    print(f"{what:58} {bound:>10} {measured:10.2f} {unit:7} {ENOUGH if enough else SHORT:6} {note}".rstrip(), flush=True)


def lines_of(command, env=None, may_die_of=0):
    """Each "name value" line of a program as name -> [values]; None if it died of that signal."""
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if may_die_of and out.returncode == -may_die_of:
        return None
    if out.returncode:
        said = out.stderr.strip() or f"ended with status {out.returncode}"
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {' '.join(map(str, command))}: {said}")
    found = {}
    for line in out.stdout.splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name, []).append(float(value))
    return found


def reports_of(command):
    """Lines of JSON that a program writes, each with the seconds since its start, and the peak of its memory in bytes."""
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        reports = [dict(json.loads(line), at=time.monotonic() - start) for line in process.stdout]
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {' '.join(map(str, command))}: {said.strip()}")
    return reports, usage.ru_maxrss * 1024


# ---- PyTorch


class Torch:
    """The two ways to run it; the faster one counts. Where it dies of AMX because CPUID is not whole, it is shown one that is."""

    def __init__(self):
        self.whole_cpuid, self.shows_whole = ROOT / "build/whole_cpuid.so", False
        made = subprocess.run([ROOT / "tools/torch-venv"], stdout=subprocess.PIPE, text=True, check=False)
        if made.returncode:
            sys.exit(made.returncode)
        self.python = made.stdout.strip()
        self.version = subprocess.run([self.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                                      check=True).stdout.strip()

    def steps(self, way, preset, batch, length, count, dtype="f32"):
        env = {**os.environ, "OMP_NUM_THREADS": str(THREADS), **({"LD_PRELOAD": str(self.whole_cpuid)} if self.shows_whole else {})}
        command = [self.python, ROOT / "bench/torch_gpt.py", preset, *map(str, (batch, length, count, THREADS)), way, dtype]
        found = lines_of(command, env, 0 if self.shows_whole else signal.SIGILL)
        if found is None:
            subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-o", self.whole_cpuid, ROOT / "tests/fake/whole_cpuid.c"], check=True)
            self.shows_whole = True
            print("PyTorch dies of SIGILL here: it is shown CPUID leaf 0x1D as it should be (tests/fake/whole_cpuid.c)", flush=True)
            return self.steps(way, preset, batch, length, count, dtype)
        return found

    def faster(self, *shape, **how):
        """(seconds of a step, which way, all of each)"""
        taken = {way: median_step(self.steps(way, *shape, **how)) for way in ("eager", "compiled")}
        way = min(taken, key=taken.get)
        return taken[way], f"PyTorch {self.version} " + ", ".join(f"{w} {s * 1e3:.3g} ms" for w, s in taken.items())


# ---- ours


class Ours:
    def __init__(self, build, folder):
        self.bench, self.tidemark = build / "bench/bench_train", build / "tidemark"
        self.text, self.tokens = folder / "text", folder / "tokens.bin"
        self.reaches = []
        said = subprocess.run([self.tidemark, "train", "lm", "--preset", "tiny", "--dry-run", "--verbose"], capture_output=True, text=True, check=True)
        self.processor = said.stderr.strip()
        self.has_amx = "AMX" in said.stderr
        source = random.Random(1)
        self.text.write_bytes(bytes(source.choices(range(32, 127), k=200_000)) + b"\n")
        with open(self.tokens, "wb") as file:  # llm.c's format
            array.array("i", [20240520, 1, 30_000] + [0] * 253).tofile(file)
            array.array("H", (source.randrange(50257) for _ in range(30_000))).tofile(file)

    def rounds(self, *options, rounds, isa="", threads=THREADS):
        env = {**os.environ, **({"TIDEMARK_ISA": isa} if isa else {})}
        found = lines_of([self.bench, "--threads", str(threads), "--rounds", str(rounds), *options], env)
        self.reaches += found.get("reach_ns", [])
        return found

    def reach(self):
        """How many nanoseconds the two processors are apart just now."""
        return self.rounds("--preset", "tiny", "--batch", "1", "--seq", "16", rounds=1)["reach_ns"][0]

    def train(self, *options):
        """Reports of `tidemark train lm`, and the peak of its memory."""
        reports, peak = reports_of([self.tidemark, "train", "lm", "--json", "--threads", str(THREADS), "--eval-every", "0", *options])
        return [r for r in reports if "loss" in r], peak


def median_step(found):
    return statistics.median(found["step_seconds"])


def ceiling(found):
    return statistics.median(found["ceiling_gflops"])


def products_rate(found):
    """Of all products of a step together: work over time, each product by its median."""
    work = seconds = 0
    for name, values in found.items():
        if name.startswith("product_"):
            m, n, k = map(int, name.split("_")[1].split("x"))
            work += 2 * m * n * k / 1e9
            seconds += 2 * m * n * k / 1e9 / statistics.median(values)
    return work / seconds


class Small:
    """`small` is timed at several moments of the run, PyTorch before and after each: how near to each other the processors are, which it
    depends on, is for the host of a virtual machine to say and changes within minutes."""

    def __init__(self, ours, torch):
        self.ours, self.torch = ours, torch
        self.rates, self.ratios, self.reaches = [], [], []
        self.note = ""

    def visit(self, count):
        """Steps per second of one moment; returns the reports from step 100 on."""
        ours = self.ours
        self.reaches.append(ours.reach())
        before, _ = self.torch.faster("small", 1, 64, 150)
        reports, _ = ours.train("--preset", "small", "--data", ours.text, "--batch", "1", "--seq", "64", "--steps", str(count), "--report-every", "100")
        after, self.note = self.torch.faster("small", 1, 64, 150)
        reports = [r for r in reports if not r["final"] and r["step"] >= 100]
        self.rates.append(statistics.median((b["step"] - a["step"]) / (b["seconds"] - a["seconds"]) for a, b in zip(reports, reports[1:])))
        self.ratios.append(self.rates[-1] * (before + after) / 2)
        return reports

    def growth_row(self, count):
        reports = self.visit(count)
        grown = (max(r["rss_bytes"] for r in reports) - reports[0]["rss_bytes"]) // resource.getpagesize()
        row(f"small, growth from step {reports[0]['step']} to {reports[-1]['step']}", 0, grown, "pages", most=True)

    def rows(self):
        each = ", ".join(f"{r:.0f} at {ns:.0f} ns" for r, ns in zip(self.rates, self.reaches))
        row("small, 1 x 64, f32, against PyTorch", 3, statistics.median(self.ratios), "x", f"{each} between processors; {self.note}")


def against_torch(ours, torch, what, batch, length, asked, turns, dtype="f32", steps=2):
    """Several processes of each in turn, PyTorch's before and after ours: one has the same luck with its memory, and with where its
    processors are, for all its steps, and the machine is faster in one minute than in another. The median of the turns' ratios, and of our
    seconds."""
    shape, ratios, taken = ("--batch", str(batch), "--seq", str(length)), [], []
    beside, note = torch.faster("gpt2", batch, length, steps, dtype=dtype)
    for _ in range(turns):
        taken.append(median_step(ours.rounds("--dtype", dtype, *shape, rounds=4)))
        after, note = torch.faster("gpt2", batch, length, steps, dtype=dtype)
        ratios.append((beside + after) / 2 / taken[-1])
        beside = after
    row(what, asked, statistics.median(ratios), "x", f"{min(ratios):.2f} to {max(ratios):.2f}; {statistics.median(taken):.2f} s/step, {note}")
    return statistics.median(taken)


def gpt2_rows(ours, torch, quick):
    turns, rounds = (1, 2) if quick else (3, 5)
    against_torch(ours, torch, "GPT-2 124M, 4 x 64, f32, against PyTorch", 4, 64, 1.5, turns)
    wide = against_torch(ours, torch, "GPT-2 124M, 8 x 174, f32, against PyTorch", 8, 174, 1.15, turns)
    found = ours.rounds("--peak", rounds=rounds)
    rate = found["step_flops"][0] / median_step(found) / 1e9
    best = max(statistics.median(v) for name, v in found.items() if name.startswith("product_"))
    row("... of the fastest of its products, the whole step", 85, 100 * rate / best, "%",
        f"{rate:.0f} of {best:.0f} GFLOP/s; {100 * rate / ceiling(found):.0f} % of the ceiling")
    row("... and its products", 85, 100 * products_rate(found) / ceiling(found), "%")
    if ours.has_amx:
        narrow = against_torch(ours, torch, "GPT-2 124M, 8 x 174, bf16 with AMX, against PyTorch's bf16", 8, 174, 2.5, turns, "bf16")
        row("... against our own f32", 5, wide / narrow, "x")
        found = ours.rounds("--products", "--dtype", "bf16", rounds=rounds)
        best = max(statistics.median(v) for name, v in found.items() if name.startswith("product_"))
        row("... the fastest product, of the AMX ceiling", 50, 100 * best / ceiling(found), "%", f"{best:.0f} of {ceiling(found):.0f} GFLOP/s")
    isa = "avx512" if ours.has_amx else ""
    both = [median_step(ours.rounds("--batch", "4", "--seq", "64", "--dtype", d, rounds=rounds, isa=isa)) for d in ("f32", "bf16", "f32")]
    row("GPT-2 124M, 4 x 64, bf16 without AMX, against f32", 1, (both[0] + both[2]) / 2 / both[1], "x", f"{both[1]:.2f} s/step")
    found = ours.rounds("--products", rounds=rounds, isa="avx2")
    row("AVX2: products of 8 x 174, of its ceiling", 85, 100 * products_rate(found) / ceiling(found), "%", f"{products_rate(found):.0f} of {ceiling(found):.0f} GFLOP/s")
    if os.cpu_count() >= 16:
        alone, all_of_them = (median_step(ours.rounds(rounds=2, threads=t)) for t in (1, 16))
        row("GPT-2 124M, 8 x 174, f32, 16 threads against one", 11, alone / all_of_them, "x", f"{all_of_them:.2f} s/step")


def memory_rows(ours):
    reports, peak = ours.train("--preset", "gpt2", "--data", ours.tokens, "--batch", "8", "--seq", "174", "--budget", str(RESIDENT - BESIDE), "--steps", "3", "--report-every", "1")
    plan = reports[-1]["plan_bytes"]
    row("GPT-2 124M, 8 x 174, peak of resident memory", RESIDENT / 1e6, peak / 1e6, "MB", most=True)
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
    torch = Torch()
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(build, pathlib.Path(folder))
        print(f"{ours.processor}\n{'':58} {'asked':>10} {'measured':>10}", flush=True)
        small = Small(ours, torch)
        small.growth_row(2500 if arguments.quick else 10000)
        memory_rows(ours)
        small.visit(2500)
        gpt2_rows(ours, torch, arguments.quick)
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
