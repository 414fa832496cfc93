#!/usr/bin/env python3
"""Device memory by call stack on a real GPU: run_heap.py BUILD [PART...], with BUILD/tidemark and BUILD/libtidemark-hook.so.

Needs PyTorch with CUDA in the python3 that runs this, and nvcc for the programs with the static run-time library (or
BUILD/device_steps). Plants leaks with PyTorch's three ways to take memory and with the run-time library alone, and checks
that blame names the line; lets other frameworks run watched and alone; then measures what the hook costs a training loop.
PART: torch, static, cost, loop, or one of PROGRAMS; without one, everything. SECONDS_MOST: no measurement begins later (420).
Exit 0: all held; 1: something did not; 77: no GPU. What it measured is printed, and is written as JSON into the directory named
by OUT, if any.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MIB = 1 << 20
PARTS = sys.argv[2:]
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release").resolve()
WORK = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / "tidemark-gpu-heap"
DEVICE = os.environ.get("TIDEMARK_TRAIN_DEVICE", "cuda")  # "cpu": to try this script out without a GPU
ENV = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
failures, measured = [], {}
BEGAN = time.monotonic()


def check(condition, sentence, detail=""):
    print(("ok: " if condition else "FAILED: ") + sentence + (f" ({detail})" if detail else ""), flush=True)
    if not condition:
        failures.append(sentence)


def line_of(path, words):
    return next(n for n, line in enumerate(path.read_text().split("\n"), 1) if words in line)


def start(name, argv, **env):
    """Begins a recorded run; finish() waits for it."""
    log = open(WORK / f"{name}.log", "w")
    command = [BUILD / "tidemark", "run", "--heap", "-i", "100ms", "-o", WORK / f"{name}.tide", "--", *argv]
    return name, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**ENV, **env}, stdin=subprocess.DEVNULL)


def finish(run):
    name, process = run
    try:
        code = process.wait(timeout=150)
    except subprocess.TimeoutExpired:
        process.terminate()  # the tracker passes it on
        code = process.wait()
    log = (WORK / f"{name}.log").read_text()
    print(f"---- {name}: exit {code}, {time.monotonic() - BEGAN:.0f} s\n" + "\n".join(line for line in log.splitlines() if not line.startswith("step "))[-3500:])
    return code, log


def blame(name, *options):
    got = subprocess.run([BUILD / "tidemark", "blame", "--json", *options, WORK / f"{name}.tide"], capture_output=True, text=True)
    return json.loads(got.stdout) if got.returncode < 2 else {"culprits": [], "trouble": got.stderr}


def judge(name, per_step, file, line, function):
    """The first culprit is on the GPU, with the planted rate, line and nearly all of the growth."""
    document = blame(name)
    first = (document["culprits"] or [{}])[0]
    rate, share = first.get("bytes_per_step") or 0, first.get("share") or 0
    check(first.get("kind") == ("cuda" if DEVICE == "cuda" else "malloc"), f"{name}: the first culprit is on the GPU",
          document.get("trouble") or first.get("kind"))
    check(abs(rate - per_step) <= 0.02 * per_step, f"{name}: it takes what was planted", f"{rate / MIB:.3f} MiB a step")
    check(share >= 0.95, f"{name}: it explains the growth", f"{100 * share:.1f} %")
    frames = [f for f in first.get("frames", []) if f["file"] and pathlib.Path(f["file"]).name == file.name]
    got = [(f["function"], f["line"]) for f in frames]
    check((function, line) in got, f"{name}: its line is named", f"{got[:4]}")
    check(first.get("freed_share", 1) is not None and (first.get("freed_share") or 0) < 0.02, f"{name}: nothing is freed")
    measured[name] = {"bytes_per_step": rate, "share": share, "frames": len(first.get("frames", []))}


def held_at_end(name):
    """Bytes of CUDA sites at the end of training."""
    return sum(c["bytes"] for c in blame(name, "--by", "end", "-n", "1000")["culprits"] if c["kind"] == "cuda")


def wanted(part):
    return not PARTS or part in PARTS


def start_torch_leaks():
    """Tensors of 24 MiB, which PyTorch takes from the driver one by one, and of 1 MiB, which it cuts from segments."""
    ways = {"torch": (24, ""), "torch-async": (24, "backend:cudaMallocAsync"), "torch-expandable": (24, "expandable_segments:True"),
            "torch-small": (1, ""), "torch-expandable-small": (1, "expandable_segments:True")}
    argv = [sys.executable, HERE / "train.py", "--steps", "250", "--pause", "0.1", "--device", DEVICE]
    return [(mib, start(name, [*argv, "--leak", str(mib * MIB)], PYTORCH_CUDA_ALLOC_CONF=how)) for name, (mib, how) in ways.items()]


def torch_leaks(runs):
    train = HERE / "train.py"
    for mib, run in runs:
        code, log = finish(run)
        name = run[0]
        check(code == 0, f"{name}: the program ends as it would alone", f"exit {code}")
        judge(name, mib * MIB, train, line_of(train, "# the leak"), "remember")
        said = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        if said and DEVICE == "cuda":
            held, reserved = held_at_end(name), said[0]["reserved"]
            check(abs(held - reserved) <= 0.02 * reserved + 64 * MIB, f"{name}: the sites hold what PyTorch has reserved",
                  f"{held / MIB:.0f} MiB of {reserved / MIB:.0f} MiB")
            measured[name].update(held=held, reserved=reserved)


def start_static_leaks(program):
    return [start("static", [program, "leak", "250"]), start("static-virtual", [program, "virtual", "250"])]


def static_leaks(runs):
    source = HERE / "device_steps.cu"
    for run in runs:
        check(finish(run)[0] == 0, f"{run[0]}: the program ends as it would alone")
    judge("static", 8 * MIB, source, line_of(source, "// the leak"), "keep_device_memory")
    first = (blame("static-virtual")["culprits"] or [{}])[0]
    check(first.get("kind") == "cuda" and abs((first.get("bytes_per_step") or 0) - 2 * MIB) < 0.1 * MIB,
          "static-virtual: half of the pieces stay", f"{(first.get('bytes_per_step') or 0) / MIB:.3f} MiB a step")


# Others that come by the driver in their own ways; each prints a number that does not depend on being watched.
PROGRAMS = {
    "cupy": "import cupy; kept = [cupy.ones(6 << 20, cupy.float32) for _ in range(8)]; print(int(sum(float(k.sum()) for k in kept)))",
    "jax": "import jax.numpy as n; kept = [n.ones((6 << 20,)) for _ in range(8)]; print(int(sum(float(k.sum()) for k in kept)))",
    "compile": "import torch; f = torch.compile(lambda x: (x * 2 + 1).relu().sum()); print(int(f(torch.ones(1 << 20, device='cuda'))))",
    "nccl": "import torch, torch.distributed as d; d.init_process_group('nccl', init_method='tcp://127.0.0.1:29511', rank=0, "
            "world_size=1); x = torch.ones(1 << 20, device='cuda'); d.all_reduce(x); print(int(x.sum())); d.destroy_process_group()",
    "graph": "import torch; x = torch.ones(1 << 20, device='cuda'); y = x * 2; g = torch.cuda.CUDAGraph()\n"
             "with torch.cuda.graph(g): y = x * 3 + 1\n"
             "g.replay(); torch.cuda.synchronize(); print(int(y.sum()))",
    "pinned": "import torch; kept = [torch.ones(4 << 20).pin_memory() for _ in range(4)]; print(int(sum(float(k.sum()) for k in kept)))",
    "workers": "import torch, torch.multiprocessing as m\n"
               "def work(i): return float(torch.ones(1 << 20, device='cuda').sum())\n"
               "if __name__ == '__main__':\n"
               "    with m.get_context('spawn').Pool(2) as pool: print(int(sum(pool.map(work, range(4)))))",
}


def programs():
    """They give the same answer watched as alone. What is there is tried; what cannot be imported is left out."""
    runs = []
    for name, code in PROGRAMS.items():
        if not wanted(name):
            continue
        path = WORK / f"use_{name}.py"  # a script called cupy.py would be what "import cupy" finds
        path.write_text(code + "\n")
        alone = subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**ENV, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, stdin=subprocess.DEVNULL)
        if name == "nccl":  # both would use one port
            alone.wait()
        runs.append((alone, start(name, [sys.executable, path], XLA_PYTHON_CLIENT_PREALLOCATE="false")))
    for alone, run in runs:
        name, (out, err) = run[0], alone.communicate(timeout=150)
        code, log = finish(run)
        if alone.returncode:
            print(f"not tried: {name}: {err.strip().splitlines()[-1:]}")
            continue
        check(code == 0 and out.strip() in log.split(), f"{name}: the same answer as alone", f"exit {code}, {out.strip()}")
        sites = blame(name, "--by", "peak", "-n", "1000")["culprits"]
        on_device = [c for c in sites if c["kind"] == "cuda"]
        print(f"{name}: {len(on_device)} sites on the GPU hold {sum(c['bytes'] for c in on_device) / MIB:.0f} MiB at the peak; "
              f"mapped {sum(c['bytes'] for c in sites if c['kind'] == 'mmap') / MIB:.0f} MiB", flush=True)


def once(argv, heap, **env):
    command = [str(a) for a in argv]
    if heap:
        command = [str(BUILD / "tidemark"), "run", "--heap", "-q", "-o", str(WORK / "cost.tide"), "--", *command]
        for left in WORK.glob("cost.tide*"):
            left.unlink()
    got = subprocess.run(command, capture_output=True, text=True, env={**ENV, **env}, stdin=subprocess.DEVNULL, timeout=200)
    lines = [line for line in got.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if got.returncode == 0 and lines else None


def loop_cost(name, pairs, latest, **env):
    """Runs with the hook, each between two alone: the ratio to the mean of those two. How far runs alone differ is the noise."""
    argv = [sys.executable, HERE / "train.py", "--steps", "400", "--device", DEVICE]
    alone, heap, losses = [once(argv, False, **env)], [], set()
    while alone[-1] and len(heap) < pairs and time.monotonic() < latest:
        heap.append(once(argv, True, **env))
        alone.append(once(argv, False, **env))
        if not heap[-1]:
            break
    check(all(alone) and all(heap), f"{name}: every run ends well")
    if not heap or not all(alone) or not all(heap):
        return
    alone_ms, heap_ms = [r["step_ms"] for r in alone], [r["step_ms"] for r in heap]
    ratios = [h / ((a + b) / 2) for h, a, b in zip(heap_ms, alone_ms, alone_ms[1:])]
    losses.update(round(r["loss"], 4) for r in alone + heap)
    measured[name] = {"alone_ms": alone_ms, "heap_ms": heap_ms, "ratios": ratios, "losses": sorted(losses)}
    print(f"{name}: a step takes {statistics.median(alone_ms):.3f} ms alone ({min(alone_ms):.3f} to {max(alone_ms):.3f}); with the hook "
          f"{statistics.median(ratios):.3f}x ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)", flush=True)
    check(statistics.median(ratios) <= 1.03, f"{name}: the hook costs at most 3 %")


def call_cost(program):
    ways = {way: once([program, "cost", "20000"], way == "heap") for way in ("alone", "heap", "alone again")}
    measured["pairs"] = ways
    print(f"pairs of allocating and freeing, ns: {ways}", flush=True)


def main():
    if DEVICE == "cuda" and subprocess.run([sys.executable, "-c", "import torch,sys;sys.exit(not torch.cuda.is_available())"]).returncode:
        print("no GPU that PyTorch sees")
        return 77
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    program = BUILD / "device_steps"
    if not program.exists() and shutil.which("nvcc"):
        program = WORK / "device_steps"
        subprocess.run(["nvcc", "-cudart", "static", "-g", "-o", program, HERE / "device_steps.cu"], check=True)
    has_program = DEVICE == "cuda" and program.exists()
    torch_runs = start_torch_leaks() if wanted("torch") else []
    static_runs = start_static_leaks(program) if wanted("static") and has_program else []
    torch_leaks(torch_runs)
    if static_runs:
        static_leaks(static_runs)
    if DEVICE == "cuda":
        programs()
    if wanted("cost") and has_program:
        call_cost(program)
    print(f"---- leaks after {time.monotonic() - BEGAN:.0f} s", flush=True)
    limit = BEGAN + float(os.environ.get("SECONDS_MOST", 420))
    if wanted("loop"):
        loop_cost("loop", 8, limit - 45)
        loop_cost("loop-async", 2, limit - 30, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
    if os.environ.get("OUT"):
        (pathlib.Path(os.environ["OUT"]) / "heap.json").write_text(json.dumps(measured, indent=1))
    print(f"{len(failures)} of the checks failed after {time.monotonic() - BEGAN:.0f} s" + "".join(f"\n  {f}" for f in failures))
    return 1 if failures else 0


sys.exit(main())
