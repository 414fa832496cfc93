#!/usr/bin/python3
"""What the hook costs, and what others cost: each load without, with, and without the profiler again; the ratio of the middle to
the mean of the two around it, and the median of those ratios.

Usage: bench_heap.py [BUILD] [--only LOAD] [--tool TOOL] [--threads] [--quick] [--json]

Wall time on a shared machine tells mostly about the neighbours, so CPU time (user and system, of the program and what it
started) is what the bounds are about. Beside the hook stands all of `tidemark run --heap`, tracker and symbols included, in
CPU time and in wall time, and what of it every run costs, however short: CPU time, and the time from the program's end to
tidemark's. Rivals run the same way where they are: jemalloc's profiler (against jemalloc without it), heaptrack,
and memray and Scalene for the Python loads. With BENCH_RIVALS=1 they are installed first: Debian's packages where root may, and a
virtual environment in ~/.cache/tidemark-bench for the two from PyPI. What is absent is said.

PyTorch trains for 150 steps, some 7 s behind the 1.3 s that it takes to import: what is paid once, for the stacks of the import and
for the tracker's own start and end, is still more of that than of a run that somebody would wait for.

--quick is one pair each, to see that it works. All of it takes about ten minutes on a quiet machine.
"""

import argparse
import dataclasses
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
VENV = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tidemark-bench" / "rivals"
PACKAGES = ["heaptrack", "libjemalloc2", "python3-torch", "python3-venv"]
INTERVAL = 524288
RUN_SECONDS = 120  # one run that takes longer is given up
SETUP_SECONDS = 900


@dataclasses.dataclass
class Load:
    name: str
    argv: list
    bound: float | None


@dataclasses.dataclass
class Tool:
    """How to run a load under it: environment without and with, and argv -> argv. seconds: to spend on one load."""

    name: str
    profiled: dict
    seconds: float
    pairs: tuple = (1, 25)  # at least, at most
    base: dict = dataclasses.field(default_factory=dict)
    wrap: object = staticmethod(lambda argv: argv)
    only: str = ""  # loads whose name has this in it
    wall: bool = False  # is told too


class GaveUp(Exception):
    pass


def install_rivals():
    missing = [p for p in PACKAGES if subprocess.run(["dpkg-query", "-W", p], capture_output=True, check=False).returncode]
    if missing and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-q", "-y", "--no-install-recommends", *missing], check=False,
                       stdout=subprocess.DEVNULL, timeout=SETUP_SECONDS, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    elif missing:
        print(f"missing: sudo apt-get install {' '.join(missing)}", file=sys.stderr)
    if not (VENV / "bin/memray").exists() or not (VENV / "bin/scalene").exists():
        VENV.parent.mkdir(parents=True, exist_ok=True)
        # With the system's packages, so that torch is the same one.
        subprocess.run([PYTHON, "-m", "venv", "--system-site-packages", VENV], check=False, timeout=SETUP_SECONDS)
        subprocess.run([VENV / "bin/pip", "install", "-q", "memray", "scalene"], check=False, timeout=SETUP_SECONDS)


def loads(build):
    made = build / "heap-loads"
    found = [
        Load("malloc churn", [made / "churn", "2000000"], 1.15),
        Load("malloc churn, bare", [made / "churn", "2000000", "1", "64"], None),  # nothing else between the pairs
        Load("arena churn, told", [made / "told", "10000"], None),  # 20 million blocks; alone, a load and a branch each
        Load("training-like steps", [made / "steps", "60"], 1.02),
        Load("CPython churn", [PYTHON, ROOT / "bench/heap/pychurn.py", "24"], 1.10),
    ]
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        # Pairs of whole runs differ by up to 15 %: its bound, 1.03x, is held against programs that take turns (tests/gpu/run_heap.py).
        found.append(Load("PyTorch training", [PYTHON, ROOT / "bench/heap/torch_loop.py", "150"], None))
    return found


def jemalloc():
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"):
        for found in sorted(pathlib.Path(folder).glob("libjemalloc.so.2")):
            return str(found)
    return os.environ.get("TIDEMARK_BENCH_JEMALLOC")


def script_of(argv):
    """(interpreter, script and its arguments) of a Python load, with the rivals' interpreter."""
    return [VENV / "bin/python"], [str(a) for a in argv[1:]]


def with_memray(scratch):
    def wrap(argv):
        python, script = script_of(argv)
        return [*python, "-m", "memray", "run", "-q", "-f", "-o", scratch / "memray.bin", *script]

    return wrap


def with_scalene(scratch):
    def wrap(argv):
        python, script = script_of(argv)
        return [*python, "-m", "scalene", "run", "-o", scratch / "scalene.json", script[0], "---", *script[1:]]

    return wrap


def tools(build, scratch):
    """Those that are here, and sentences about those that are not."""
    hook = {"LD_PRELOAD": str(build / "libtidemark-hook.so"), "TIDEMARK_CHANNEL": str(scratch), "TIDEMARK_HEAP": str(INTERVAL)}
    tracked = [build / "tidemark", "run", "--heap", "-q", "-o", scratch / "run.tide", "--"]
    found = [Tool("hook", hook, 12, pairs=(5, 25)),
             Tool("run --heap", {}, 8, pairs=(3, 15), wrap=lambda argv: [*tracked, *argv], wall=True)]
    absent = []
    library = jemalloc()
    if library:
        found.append(Tool("jemalloc", {"LD_PRELOAD": library, "MALLOC_CONF": "prof:true,prof_active:true,lg_prof_sample:19"}, 8,
                          base={"LD_PRELOAD": library}))
    else:
        absent.append("jemalloc (Debian: libjemalloc2)")
    if shutil.which("heaptrack"):
        found.append(Tool("heaptrack", {}, 8, wrap=lambda argv: ["heaptrack", "-o", scratch / "heaptrack", *argv]))
    else:
        absent.append("heaptrack (Debian: heaptrack)")
    for name, wrap in (("memray", with_memray), ("scalene", with_scalene)):
        if (VENV / "bin" / name).exists():
            found.append(Tool(name, {}, 8, wrap=wrap(scratch), only="Py"))
        else:
            absent.append(f"{name} (PyPI: BENCH_RIVALS=1 installs it)")
    return found, absent


def run(argv, more):
    """CPU and wall seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    with subprocess.Popen([str(a) for a in argv], env={**os.environ, **more}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            code = process.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired as late:
            os.killpg(process.pid, 9)
            raise GaveUp(f"more than {RUN_SECONDS} s") from late
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if code:
        raise GaveUp(f"ended with {code}")
    return {"cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "wall": wall}


def empty(scratch):
    for file in scratch.iterdir():
        file.unlink()


def paired(argv, tool, scratch, quick=False):
    """Median, least and greatest ratio of CPU and of wall time, over as many pairs as the time allows."""
    ratios, seconds = {"cpu": [], "wall": []}, ([], [])
    least, most = (1, 1) if quick else tool.pairs
    run(argv, tool.base)
    first = run(argv, tool.base)
    start = time.monotonic()
    while len(ratios["cpu"]) < least or (len(ratios["cpu"]) < most and time.monotonic() - start < tool.seconds):
        middle = run(tool.wrap(argv), tool.profiled)
        empty(scratch)
        last = run(argv, tool.base)
        for key, values in ratios.items():
            values.append(2 * middle[key] / (first[key] + last[key]))
        for values, one in zip(seconds, (last, middle)):
            values.append(one["wall"])
        first = last
    result = {"pairs": len(ratios["cpu"]), "base_seconds": statistics.median(seconds[0]),
              "profiled_seconds": statistics.median(seconds[1])}
    for key, values in ratios.items():
        result[key], result[key + "_least"], result[key + "_most"] = statistics.median(values), min(values), max(values)
    return result


def say(result, tool):
    if "failed" in result:
        return result["failed"]
    wall = f", wall {result['wall']:.2f}x" if tool.wall else ""
    return f"{result['cpu']:.2f}x ({result['cpu_least']:.2f}..{result['cpu_most']:.2f}){wall}"


def objects(build, scratch):
    """Python's small objects one by one: our way, and what the other way would cost, with and without the hook."""
    hook = tools(build, scratch)[0][0].profiled
    settings = {"--python-objects": {**hook, "TIDEMARK_PYTHON_OBJECTS": "1"},
                "PYTHONMALLOC=malloc, hook": {**hook, "PYTHONMALLOC": "malloc"}, "PYTHONMALLOC=malloc alone": {"PYTHONMALLOC": "malloc"}}
    return [Tool(name, more, 6, only="CPython") for name, more in settings.items()]


def curve(build, scratch, quick):
    """Threads that do nothing but allocate and free: million pairs per second without and with the hook, and the ratios."""
    hook = dataclasses.replace(tools(build, scratch)[0][0], seconds=4, pairs=(3, 15))
    total, rows = 8_000_000, []
    for threads in (1, 2, 4, 8):
        result = paired([build / "heap-loads/churn", str(total // threads), str(threads), "64"], hook, scratch, quick)
        rows.append({"threads": threads, "alone": total / result["base_seconds"] / 1e6,
                     "hooked": total / result["profiled_seconds"] / 1e6, **result})
    return rows


def once(build, scratch, quick):
    """What `run --heap` costs a program that does nothing, in ms: CPU time, and from the program's end to ours."""
    tracked = next(t for t in tools(build, scratch)[0] if t.wall)
    argv = ["/bin/sh", "-c", 'exec date +%s%N >"$0"', scratch / "end"]
    cpu, wait = [], []
    for _ in range(1 if quick else 15):
        alone, whole = run(argv, {}), run(tracked.wrap(argv), {})
        ended = time.time_ns()
        wait.append((ended - int((scratch / "end").read_text())) / 1e6)
        cpu.append(1000 * (whole["cpu"] - alone["cpu"]))
        empty(scratch)
    return {"cpu_ms": statistics.median(cpu), "cpu_ms_least": min(cpu), "wait_ms": statistics.median(wait), "wait_ms_least": min(wait)}


def say_curve(rows):
    for row in rows:
        print(f"{row['threads']} threads   {row['alone']:6.1f} M pairs/s alone   {row['hooked']:6.1f} M with the hook   "
              f"CPU {row['cpu']:.2f}x   {row['hooked'] / rows[0]['hooked']:.2f} times one thread "
              f"({row['alone'] / rows[0]['alone']:.2f} alone)", flush=True)


def print_table(found, chosen, cells):
    """A line for each load, a column for each tool."""
    heads = ["load", "base", "bound", *(t.name for t in chosen)]
    rows = []
    for load in found:
        mine = [cells[load.name].get(t.name) for t in chosen]
        base = next((f"{c['base_seconds']:.2f} s" for c in mine if c and "base_seconds" in c), "-")
        rows.append([load.name, base, f"{load.bound:.2f}x" if load.bound else "-",
                     *(say(c, t) if c else "-" for c, t in zip(mine, chosen))])
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    print()
    for row in [heads, *rows]:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--only", default="", metavar="LOAD", help="loads whose name has this in it")
    parser.add_argument("--tool", default="", metavar="TOOL", help="tools whose name has this in it")
    parser.add_argument("--threads", action="store_true", help="only how threads scale")
    parser.add_argument("--quick", action="store_true", help="one pair each")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if os.environ.get("BENCH_RIVALS") == "1":
        install_rivals()
    build = pathlib.Path(args.build).resolve()
    found = [load for load in loads(build) if args.only in load.name and not args.threads]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        scratch = pathlib.Path(name)
        chosen, absent = tools(build, scratch)
        apart = [t for t in objects(build, scratch) if args.tool in t.name]
        chosen = [t for t in chosen if args.tool in t.name]
        cells = {load.name: {} for load in found}
        for load in found:
            for tool in [*chosen, *apart]:
                if tool.only not in load.name:
                    continue
                try:
                    cells[load.name][tool.name] = paired(load.argv, tool, scratch, args.quick)
                except GaveUp as why:
                    cells[load.name][tool.name] = {"failed": str(why)}
                empty(scratch)
                if not args.json:
                    print(f"{load.name:20} {tool.name:25} {say(cells[load.name][tool.name], tool)}", file=sys.stderr, flush=True)
        threads = curve(build, scratch, args.quick) if not args.only and args.tool in "hook" else []
        fixed = once(build, scratch, args.quick) if not args.threads and args.tool in "run --heap" else None
    if args.json:
        print(json.dumps({"loads": cells, "once": fixed, "threads": threads, "absent": absent, "cpus": os.cpu_count()}, indent=1))
    elif found:
        print_table(found, chosen, cells)
        for load in found:
            for tool in apart:
                if tool.name in cells[load.name]:
                    print(f"{load.name}, {tool.name}: {say(cells[load.name][tool.name], tool)}")
    if not args.json:
        if fixed:
            print(f"run --heap of a program that does nothing: {fixed['cpu_ms']:.1f} ms of CPU time (least {fixed['cpu_ms_least']:.1f}), "
                  f"ends {fixed['wait_ms']:.1f} ms after it (least {fixed['wait_ms_least']:.1f})")
        say_curve(threads)
        if absent and not args.threads:
            print(f"absent: {', '.join(absent)}")
    over = [load.name for load in found if load.bound and "hook" in cells[load.name]
            and cells[load.name]["hook"].get("cpu", 99) > load.bound]
    if over:
        print(f"over its bound: {', '.join(over)}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
