#!/usr/bin/python3
"""What the hook costs: each load without, with, and without it again; the ratio of the middle to the mean of the two
around it, and the median of those ratios.

Usage: bench_heap.py [BUILD] [--pairs N] [--only LOAD] [--tool TOOL] [--threads] [--json]

Wall time on a shared machine tells mostly about the neighbours, so CPU time (user and system, of the child) stands beside
it and is what the limits are about. Rivals run the same way where they are installed: heaptrack, and jemalloc's
own profiler against jemalloc without it.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"


def loads(build):
    made = build / "heap-loads"
    torch = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0
    real = {"PyTorch training loop": ([PYTHON, ROOT / "bench/heap/torch_loop.py", "60"], 1.03)} if torch else {}
    return {
        **real,
        "malloc churn": ([made / "churn", "2000000"], 1.15),
        "malloc churn, bare": ([made / "churn", "2000000", "1", "64"], None),  # nothing else between the pairs
        "training-like steps": ([made / "steps", "60"], 1.02),
        "CPython churn": ([PYTHON, ROOT / "bench/heap/pychurn.py", "12"], 1.10),
    }


def run(argv, more):
    """(CPU seconds, wall seconds)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run([str(a) for a in argv], env={**os.environ, **more}, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{argv[0]} ended with {done.returncode}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def paired(argv, base, profiled, pairs, wrap=()):
    """Median, least and greatest ratio of CPU time, and the median ratio of wall time."""
    cpu, wall, base_s, profiled_s = [], [], [], []
    run(argv, base)
    first = run(argv, base)
    for _ in range(pairs):
        middle = run([*wrap, *argv], profiled)
        last = run(argv, base)
        cpu.append(2 * middle[0] / (first[0] + last[0]))
        wall.append(2 * middle[1] / (first[1] + last[1]))
        base_s.append(last[1])
        profiled_s.append(middle[1])
        first = last
    return {"cpu": statistics.median(cpu), "cpu_least": min(cpu), "cpu_most": max(cpu), "wall": statistics.median(wall),
            "base_s": statistics.median(base_s), "profiled_s": statistics.median(profiled_s), "pairs": pairs}


def jemalloc():
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"):
        found = sorted(pathlib.Path(folder).glob("libjemalloc.so.2"))
        if found:
            return str(found[0])
    return os.environ.get("TIDEMARK_BENCH_JEMALLOC")


def tools(build, scratch):
    """name -> (environment without, environment with, command in front, pairs at most)"""
    hook = {"LD_PRELOAD": str(build / "libtidemark-hook.so"), "TIDEMARK_CHANNEL": str(scratch), "TIDEMARK_HEAP": "524288"}
    found = {"tidemark hook, 512 KiB": ({}, hook, (), 99)}
    library = jemalloc()
    if library:
        found["jemalloc prof, 512 KiB"] = ({"LD_PRELOAD": library},
                                           {"LD_PRELOAD": library, "MALLOC_CONF": "prof:true,prof_active:true,lg_prof_sample:19"},
                                           (), 99)
    if shutil.which("heaptrack"):
        found["heaptrack"] = ({}, {}, ("heaptrack", "-o", str(scratch / "heaptrack")), 3)
    return found


OBJECTS = ["--python-objects", "PYTHONMALLOC=malloc, hook", "PYTHONMALLOC=malloc alone"]


def objects(build, scratch):
    """Python's small objects one by one: our way, and what the other way would cost, with and without the hook."""
    hook = {"LD_PRELOAD": str(build / "libtidemark-hook.so"), "TIDEMARK_CHANNEL": str(scratch), "TIDEMARK_HEAP": "524288"}
    settings = [{**hook, "TIDEMARK_PYTHON_OBJECTS": "1"}, {**hook, "PYTHONMALLOC": "malloc"}, {"PYTHONMALLOC": "malloc"}]
    return {name: ({}, more, (), 99) for name, more in zip(OBJECTS, settings)}


def empty(scratch):
    for file in scratch.iterdir():
        file.unlink()


def curve(build, scratch, pairs):
    """Threads that do nothing but allocate and free: million pairs per second without and with the hook, and the ratios."""
    rows = []
    hook = {"LD_PRELOAD": str(build / "libtidemark-hook.so"), "TIDEMARK_CHANNEL": str(scratch), "TIDEMARK_HEAP": "524288"}
    total = 8_000_000
    for threads in (1, 2, 4, 8):
        argv = [build / "heap-loads/churn", str(total // threads), str(threads), "64"]
        result = paired(argv, {}, hook, pairs)
        rows.append({"threads": threads, "alone": total / result["base_s"] / 1e6, "hooked": total / result["profiled_s"] / 1e6,
                     **result})
        empty(scratch)
    return rows


def say_curve(rows):
    for row in rows:
        print(f"{row['threads']} threads   {row['alone']:6.1f} M pairs/s alone   {row['hooked']:6.1f} M with the hook   "
              f"CPU {row['cpu']:.3f}x   {row['hooked'] / rows[0]['hooked']:.2f} times one thread "
              f"({row['alone'] / rows[0]['alone']:.2f} alone)", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only")
    parser.add_argument("--tool", default="")
    parser.add_argument("--threads", action="store_true", help="only how threads scale")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    build = pathlib.Path(args.build).resolve()
    results = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        scratch = pathlib.Path(name)
        for load, (argv, limit) in loads(build).items() if not args.threads else ():
            if args.only and args.only not in load:
                continue
            found = {**tools(build, scratch), **(objects(build, scratch) if "CPython" in load else {})}
            for tool, (base, profiled, wrap, most) in found.items():
                if args.tool not in tool:
                    continue
                result = paired(argv, base, profiled, min(args.pairs, most), wrap)
                empty(scratch)
                allowed = None if tool in OBJECTS else limit
                results.append({"load": load, "tool": tool, "limit": allowed, **result})
                if not args.json:
                    print(f"{load:22} {tool:24} CPU {result['cpu']:6.3f}x ({result['cpu_least']:.3f} to {result['cpu_most']:.3f})"
                          f"  wall {result['wall']:6.3f}x  limit {allowed or '-'}  {result['pairs']} pairs", flush=True)
        threads = curve(build, scratch, min(args.pairs, 5)) if not args.only else []
    if not args.json:
        say_curve(threads)
    if args.json:
        print(json.dumps({"loads": results, "threads": threads, "cpus": os.cpu_count()}, indent=1))
    ours = [r for r in results if r["tool"].startswith("tidemark")]
    return 1 if any(r["limit"] and r["cpu"] > r["limit"] for r in ours) else 0


if __name__ == "__main__":
    sys.exit(main())
