#!/usr/bin/python3
"""What a step of GRPO takes, beside TRL. Usage: bench_grpo.py [BUILD] [--quick]

GPT-2 124M with random weights, one prompt of 30 tokens, a group of 8 completions of 144 that never end early, KL to a reference, one
update by AdamW; two threads. TRL (trl_gpt.py, from PyPI by tools/torch-venv) runs before and after ours, in f32 and in bf16, with
activations computed again, which is its default, and kept: the fastest counts for time, the default in f32 for memory. --quick: only the
default in f32, once. Memory is the peak of the process as the system counted it. Prints what is asked, what was measured, and whether
that is enough; exits 1 when something is not. Takes 6 GB of memory, and on two free cores four minutes with --quick.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

from bench_train import BESIDE, ROOT, THREADS, Torch, lines_of, median_step, reports_of, row, short

PROMPT, NEW_TOKENS, GROUP, BETA = 30, 144, 8, 0.04
REWARD = "import json, random, sys\nfor line in sys.stdin: print([random.random() for _ in json.loads(line)['completions']], flush=True)\n"
MEMORY = [  # what, how, the most bytes
    ("LoRA of rank 16, bf16 base", ("--adapt", "lora:16", "--weights", "bf16", "--dtype", "bf16", "--micro-batch", "4"), 420e6),
    ("all parameters, bf16 weights, Adafactor", ("--weights", "bf16", "--dtype", "bf16", "--optimizer", "adafactor"), 600e6),
    ("all parameters, exact f32 AdamW", (), 2.2e9),
]


class Trl(Torch):
    def __init__(self):
        super().__init__()
        found = subprocess.run([self.python, "-c", "import trl; print(trl.__version__)"], capture_output=True, text=True, check=True)
        self.name = f"TRL {found.stdout.strip()}, PyTorch {self.version}"

    def run(self, quick):
        """{(dtype, way): what it said}"""
        ways = [("f32", "checkpointed")] if quick else [(dtype, way) for dtype in ("f32", "bf16") for way in ("checkpointed", "kept")]
        env = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
        program = ROOT / "bench/trl_gpt.py"
        return {way: lines_of([self.python, program, "1" if quick else "2", str(THREADS), *way], env) for way in ways}


def fastest(runs, dtypes):
    """(seconds of a step, what took them), of several runs of each."""
    taken = {way: statistics.mean(median_step(run[way]) for run in runs) for way in runs[0] if way[0] in dtypes}
    way = min(taken, key=taken.get)
    return taken[way], ", ".join(f"{' '.join(w)} {s:.3g} s" for w, s in taken.items())


def tokenizer():
    """A token for each byte and no end of text, in the form of tokenizer.json: completions are as long as they may be."""
    names = {b: chr(b) for b in [*range(33, 127), *range(161, 173), *range(174, 256)]}
    names |= {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in names)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": {name: b for b, name in names.items()}, "merges": []}
    return {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": model}


class Grpo:
    def __init__(self, build, folder):
        self.tidemark = build / "tidemark"
        self.folder, self.reward, self.prompts = folder, folder / "reward.py", folder / "prompts.jsonl"
        self.reward.write_text(REWARD)
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
        self.prompts.write_text("".join(json.dumps({"prompt": f"{i:0{PROMPT}}"}) + "\n" for i in range(64)))
        said = subprocess.run([self.tidemark, "train", "lm", "--preset", "tiny", "--dry-run", "--verbose"], capture_output=True, text=True, check=True)
        self.has_amx = "AMX" in said.stderr

    def train(self, *options):
        return reports_of([self.tidemark, "train", "grpo", "--json", "--threads", str(THREADS), *options])

    def gpt2(self, *options, steps=3):
        """(seconds of a step, the peak of memory, the last report) of the job above; the first step is not timed."""
        reports, peak = self.train(
            "--preset", "gpt2", "--tokenizer", self.folder, "--prompts", self.prompts, "--reward", f"{sys.executable} {self.reward}",
            "--group", str(GROUP), "--new-tokens", str(NEW_TOKENS), "--beta", str(BETA), "--steps", str(steps), "--report-every", "1",
            *options)  # fmt: skip
        reports = [r for r in reports if "reward_mean" in r]
        for report in reports:
            if report["completion_tokens"] != NEW_TOKENS:
                sys.exit(f"bench_grpo: completions have {report['completion_tokens']} tokens, not {NEW_TOKENS}")
        between = [b["at"] - a["at"] for a, b in zip(reports, reports[1:]) if b["step"] > a["step"]]
        return statistics.median(between), peak, reports[-1]


def parts_of(report):
    return ", ".join(f"{part} {report[f'{part}_tokens_per_second']:.0f} tokens/s" for part in ("rollout", "update"))


def memory_rows(ours):
    for what, options, most in MEMORY:
        seconds, peak, report = ours.gpt2("--budget", str(int(most - BESIDE)), *options, steps=2)
        row(f"memory: {what}", most / 1e6, peak / 1e6, "MB", f"planned {report['plan_bytes'] / 1e6:.0f} MB; {seconds:.2f} s a step", most=True)


def speed_rows(ours, trl, quick):
    runs = [trl.run(quick)]
    seconds, peak, report = ours.gpt2("--budget", "2.5G")
    narrow = ours.gpt2("--dtype", "bf16")[0] if ours.has_amx else None
    if not quick:
        runs.append(trl.run(quick))
    theirs, note = fastest(runs, {"f32"})
    default = runs[0]["f32", "checkpointed"]
    parts = ", ".join(f"{part} {statistics.median(default[f'{part}_seconds']):.2f} s" for part in ("generate", "reference"))
    row("whole step, f32, against TRL", 2, theirs / seconds, "x", f"{seconds:.2f} s ({parts_of(report)}); {trl.name}: {note}; of it {parts}")
    row("... and its memory", 0.5, peak / default["rss_bytes"][0], "x", f"{peak / 1e9:.2f} of {default['rss_bytes'][0] / 1e9:.2f} GB", most=True)
    if narrow:
        theirs, note = fastest(runs, {"f32", "bf16"})
        row("whole step, bf16 with AMX, against TRL's faster of f32 and bf16", 3, theirs / narrow, "x", f"{narrow:.2f} s; {note}")
    else:
        print("no row for bf16: this processor has no AMX")


def growth_row(ours, steps):
    reports, _ = ours.train("--preset", "tiny", "--steps", str(steps), "--report-every", "100")
    reports = [r for r in reports if "reward_mean" in r and r["step"] >= 100]
    grown = (max(r["rss_bytes"] for r in reports) - reports[0]["rss_bytes"]) // resource.getpagesize()
    row(f"tiny on sums, growth from step {reports[0]['step']} to {reports[-1]['step']}", 0, grown, "pages", most=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=str(ROOT / "build/release"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    trl = Trl()
    with tempfile.TemporaryDirectory() as folder:
        ours = Grpo(pathlib.Path(options.build).resolve(), pathlib.Path(folder))
        memory_rows(ours)
        speed_rows(ours, trl, options.quick)
        growth_row(ours, 300 if options.quick else 2000)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
