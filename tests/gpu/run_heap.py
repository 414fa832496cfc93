#!/usr/bin/env python3
"""Device memory by call stack on a real GPU: run_heap.py BUILD [PART...], with BUILD/tidemark and BUILD/libtidemark-hook.so.

Needs PyTorch with CUDA in the python3 that runs this, and nvcc for the programs with the static run-time library (or
BUILD/device_steps). Plants leaks with PyTorch's three ways to take memory and with the run-time library alone, and checks
that blame names the line; lets other frameworks run watched and alone; then measures what the hook costs a training loop.
PART: torch, static, cost, loop, loop-async, loop-large, or one of LEAKS or PROGRAMS; without one, everything. SECONDS_MOST: no round of a loop
begins later (420). TIDEMARK_LOOPS: programs of the loop with the hook, and as many without (8); ROUNDS: of each, at most (100).
Exit 0: all held; 1: something did not; 77: no GPU. What it measured is printed, and is written as JSON into the directory named
by OUT, if any.
"""

import errno
import json
import math
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
STEPS = os.environ.get("TIDEMARK_TRAIN_STEPS", "20")  # of a round
LOOPS = int(os.environ.get("TIDEMARK_LOOPS", "8"))
TENSOR_INTERVAL = 16 * MIB  # mean bytes between samples of tensors; from there on all are seen
TRAIN = [sys.executable, HERE / "train.py", "--device", DEVICE, "--width", "256" if DEVICE == "cuda" else "32"]
LARGE = ["--width", "768", "--layers", "12", "--length", "512"]  # blocks of GPT-2's size
# What a loop may take with the hook; the small one on a GPU, which waits for Python all the time, is as hard as it gets.
LOOP_MOST, HARDEST_MOST = 1.03, 1.05
SEGMENT = 20 * MIB  # what PyTorch takes at once for tensors of more than 1 MiB
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


def sampled_variance(size, blocks):
    """Of the bytes that so many tensors of that size count for."""
    if size <= 0 or size >= TENSOR_INTERVAL:
        return 0
    p = -math.expm1(-size / TENSOR_INTERVAL)
    return blocks * size * size * (1 - p) / p


def judge(name, per_step, file, line, function, steps=250, kind="cuda"):
    """The first culprit is on the GPU, with the planted rate, line and nearly all of the growth: to 2 % and 5 %, and where
    tensors are sampled, to 3 standard errors (a line through a sum of samples has 1.2 times the variance of its end)."""
    error = 3 * math.sqrt(1.2 * sampled_variance(per_step, steps)) / (per_step * steps) if kind == "tensor" else 0
    document = blame(name)
    first = (document["culprits"] or [{}])[0]
    rate, share = first.get("bytes_per_step") or 0, first.get("share") or 0
    check(first.get("kind") == (kind if DEVICE == "cuda" else "malloc"), f"{name}: the first culprit is on the GPU",
          document.get("trouble") or first.get("kind"))
    low, high = (first.get(f"bytes_per_step_{end}") or 0 for end in ("low", "high"))
    check(abs(rate - per_step) <= (0.02 + error) * per_step, f"{name}: it takes what was planted",
          f"{rate / MIB:.3f} MiB a step, said to be {low / MIB:.3f} to {high / MIB:.3f}; allowed: {100 * (0.02 + error):.0f} %")
    check(share >= 0.95 - error, f"{name}: it explains the growth", f"{100 * share:.1f} %")
    frames = [f for f in first.get("frames", []) if f["file"] and pathlib.Path(f["file"]).name == file.name]
    got = [(f["function"], f["line"]) for f in frames]
    check((function, line) in got, f"{name}: its line is named", f"{got[:4]}")
    check(first.get("freed_share", 1) is not None and (first.get("freed_share") or 0) < 0.02, f"{name}: nothing is freed")
    measured[name] = {"bytes_per_step": rate, "low": low, "high": high, "samples": first.get("samples"), "share": share,
                      "frames": len(first.get("frames", []))}


def modules_of(culprit):
    return [pathlib.Path(f["module"]).name for f in culprit["frames"] if f["module"]]


def is_pytorchs(culprit):
    """Tensors, and segments that PyTorch's allocator has from the driver; other libraries take memory for themselves."""
    return culprit["kind"] == "tensor" or any(module.startswith("libc10_cuda") for module in modules_of(culprit))


def check_held(name, reserved, allocated, step):
    """At the end of training PyTorch's sites hold what it has reserved: to the sampling error, and what one step takes, since the
    last reading may be that much earlier. What is left of its segments is exact, and least within a step."""
    sites = [c for c in blame(name, "--by", "end", "-n", "1000")["culprits"] if c["kind"] in ("cuda", "tensor")]
    own, others = [c for c in sites if is_pytorchs(c)], [c for c in sites if not is_pytorchs(c)]
    held = sum(c["bytes"] for c in own)
    error = math.sqrt(sum(sampled_variance(c["bytes"] / c["blocks"], c["blocks"]) for c in own if c["kind"] == "tensor" and c["blocks"] > 0))
    check(abs(held - reserved) <= 3 * error + max(step, SEGMENT), f"{name}: PyTorch's sites hold what it has reserved",
          f"{held / MIB:.2f} MiB of {reserved / MIB:.2f} MiB; standard error of the samples {error / MIB:.1f} MiB")
    reserve = sum(c["bytes"] for c in own if c["kind"] == "cuda")
    check(reserve <= reserved - allocated + max(step, SEGMENT), f"{name}: its segments hold no more than no tensor takes up",
          f"{reserve / MIB:.2f} MiB of {(reserved - allocated) / MIB:.2f} MiB")
    for c in sorted(others, key=lambda c: -c["bytes"])[:6]:
        print(f"{name}: beside it {c['bytes'] / MIB:.2f} MiB in {c['blocks']} blocks of {list(dict.fromkeys(modules_of(c)))[-5:]}")
    measured[name].update(held=held, reserved=reserved, error=error, reserve=reserve,
                          others=sum(c["bytes"] for c in others))


def wanted(part):
    return not PARTS or part in PARTS


# Tensors of 24 MiB, which PyTorch takes from the driver one by one, and of 1 MiB, which it cuts from segments: MiB, steps, how.
LEAKS = {
    "torch": (24, 250, ""),
    "torch-async": (24, 250, "backend:cudaMallocAsync"),
    "torch-expandable": (24, 250, "expandable_segments:True"),
    "torch-small": (1, 400, ""),
    "torch-expandable-small": (1, 400, "expandable_segments:True"),
}


def start_torch_leaks():
    return [start(name, [*TRAIN, "--pause", "0.05", "--steps", str(steps), "--leak", str(mib * MIB)], PYTORCH_CUDA_ALLOC_CONF=how)
            for name, (mib, steps, how) in LEAKS.items() if wanted("torch") or name in PARTS]


def torch_leaks(runs):
    train = HERE / "train.py"
    for run in runs:
        code, log = finish(run)
        name = run[0]
        mib, steps, how = LEAKS[name]
        check(code == 0, f"{name}: the program ends as it would alone", f"exit {code}")
        judge(name, mib * MIB, train, line_of(train, "# the leak"), "remember", steps, "cuda" if "Async" in how else "tensor")
        said = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        if said and DEVICE == "cuda" and "Async" not in how:  # there the driver's pool rounds what is reserved
            check_held(name, said[0]["reserved"], said[0]["allocated"], mib * MIB)


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


def start_loops(name, programs, rounds, size=(), **env):
    """Programs with and without the hook; each waits, ready to train, until its turn comes, once a round."""
    loops = []
    for i in range(2 * programs):
        gate = WORK / f"{name}-{i}"
        os.mkfifo(gate)
        command = [*TRAIN, *size, "--steps", STEPS, "--rounds", str(rounds), "--gate", gate]
        if i % 2:
            command = [BUILD / "tidemark", "run", "--heap", "-q", "-o", WORK / f"{name}-{i}.tide", "--", *command]
        loops.append((gate, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**ENV, **env},
                                             stdin=subprocess.DEVNULL)))
    return loops


def take_turn(gate, process):
    """What the program measured in its round; None if it ended instead. Nobody can open a gate before the program waits at it."""
    while process.poll() is None:
        try:
            os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
            break
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            time.sleep(0.002)
    line = process.stdout.readline()
    return json.loads(line) if line.startswith("{") else None


def loop_cost(name, loops, rounds, latest):
    """The programs take turns, a short round each, so that the machine's moods fall on all of them. Programs that are the same
    differ by several percent as long as they live, so each counts once, by its mean against that of those alone in the same
    rounds, and how far programs differ among themselves is the noise."""
    turns, losses = [], set()
    for i in range(rounds):
        if time.monotonic() > latest:
            break
        results = [take_turn(*loop) for loop in (loops if i % 2 else loops[::-1])]
        if not all(results):
            break
        results = results if i % 2 else results[::-1]
        turns.append([r["step_ms"] for r in results])
        losses.update((i, round(r["loss"], 4)) for r in results)
    for _, process in loops:
        process.terminate()
        process.communicate()
    check(len(turns) > 2 and len(losses) == len(turns), f"{name}: every run ends well, with the same losses")
    if len(turns) < 3:
        return
    alone = [statistics.fmean(turn[0::2]) for turn in turns]
    each = [statistics.fmean(turn[i] / base for turn, base in zip(turns, alone)) for i in range(len(loops))]
    ratio = statistics.fmean(each[1::2])
    error = math.sqrt(sum(statistics.variance(each[i::2]) / len(each[i::2]) for i in (0, 1))) if len(loops) > 2 else math.nan
    measured[name] = {"turns_ms": turns, "each": each, "ratio": ratio, "error": error}
    print(f"{name}: a step takes {statistics.median(alone):.3f} ms alone ({min(alone):.3f} to {max(alone):.3f}); with the hook "
          f"{ratio:.3f}x (standard error {error:.3f}; {len(turns)} rounds of {STEPS} steps of {len(loops) // 2} and {len(loops) // 2} programs)")
    for kind, i in (("alone", 0), ("with the hook", 1)):
        print(f"{name}: {kind}, each program: " + ", ".join(f"{r:.3f}x" for r in each[i::2]), flush=True)
    bound = HARDEST_MOST if name == "loop" and DEVICE == "cuda" else LOOP_MOST
    check(ratio <= bound, f"{name}: the hook costs at most {bound:.2f}x")


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
    torch_runs = start_torch_leaks()
    rounds = int(os.environ.get("ROUNDS", 100))
    loops = start_loops("loop", LOOPS, rounds) if wanted("loop") else []
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
    if loops:
        loop_cost("loop", loops, rounds, limit)
    if wanted("loop-async"):
        loop_cost("loop-async", start_loops("loop-async", 1, 20, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync"), 20, limit)
    if wanted("loop-large"):
        loop_cost("loop-large", start_loops("loop-large", LOOPS, rounds, LARGE), rounds, limit)
    if os.environ.get("OUT"):
        (pathlib.Path(os.environ["OUT"]) / "heap.json").write_text(json.dumps(measured, indent=1))
    print(f"{len(failures)} of the checks failed after {time.monotonic() - BEGAN:.0f} s" + "".join(f"\n  {f}" for f in failures))
    return 1 if failures else 0


sys.exit(main())
