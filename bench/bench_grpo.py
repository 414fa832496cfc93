#!/usr/bin/python3
"""What a step of GRPO takes, beside TRL. Usage: bench_grpo.py [BUILD] [--quick] [--only PART] [--steps N]

Parts: memory, speed, generation (bench_generate), growth. GPT-2 124M with random weights, one prompt of 30 tokens, a group of 8 completions
of 144 that never end early, KL to a reference, one update by AdamW; two threads. TRL (trl_gpt.py, from PyPI by tools/torch-venv) runs in
turns with ours, in f32 and in bf16, with activations computed again, which is its default, and kept: the fastest counts for time, the
default in f32 for memory. Each turn times N steps (2; 1 with --quick) after a first. --quick: TRL's default alone. Memory is the peak of
the process as the system counted it. Turns go to stderr; the table is what is asked, what was measured, and whether that is enough; exits 1
when something is not. Bf16 is asked something only where the processor has AMX. --quick takes 6 GB of memory.
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

    def run(self, steps, *way):
        env = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
        found = lines_of([self.python, ROOT / "bench/trl_gpt.py", str(steps), str(THREADS), *way], env)
        turn(f"TRL {' '.join(way)}", median_step(found), found["rss_bytes"][0])
        return found


def turn(who, seconds, peak):
    print(f"{who}: {seconds:.2f} s a step, {peak / 1e9:.2f} GB", file=sys.stderr, flush=True)


def fastest(theirs, dtypes):
    """(seconds of a step, what each way took)"""
    taken = {way: median_step(found) for way, found in theirs.items() if way[0] in dtypes}
    return min(taken.values()), ", ".join(f"{' '.join(w)} {s:.3g} s" for w, s in taken.items())


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

    def gpt2(self, *options, steps=1):
        """(seconds of a step, the peak of memory, the last report) of the job above, after a first step."""
        reports, peak = self.train(
            "--preset", "gpt2", "--tokenizer", self.folder, "--prompts", self.prompts, "--reward", f"{sys.executable} {self.reward}",
            "--group", str(GROUP), "--new-tokens", str(NEW_TOKENS), "--beta", str(BETA), "--steps", str(steps + 1), "--report-every", "1",
            *options)  # fmt: skip
        reports = [r for r in reports if "reward_mean" in r]
        for report in reports:
            if report["completion_tokens"] != NEW_TOKENS:
                sys.exit(f"bench_grpo: completions have {report['completion_tokens']} tokens, not {NEW_TOKENS}")
        between = [b["at"] - a["at"] for a, b in zip(reports, reports[1:]) if b["step"] > a["step"]]
        seconds = statistics.median(between)
        turn(" ".join(("ours", *options)), seconds, peak)
        return seconds, peak, reports[-1]


def parts_of(report):
    return ", ".join(f"{part} {report[f'{part}_tokens_per_second']:.0f} tokens/s" for part in ("rollout", "update"))


def memory_rows(ours, _quick, _steps):
    for what, options, most in MEMORY:
        seconds, peak, report = ours.gpt2("--budget", str(int(most - BESIDE)), *options)
        row(f"memory: {what}", most / 1e6, peak / 1e6, "MB", f"planned {report['plan_bytes'] / 1e6:.0f} MB; {seconds:.2f} s a step", most=True)


def speed_rows(ours, quick, steps):
    trl, theirs, wide, narrow = Trl(), {}, [], []
    ways = [("f32", "checkpointed"), ("bf16", "checkpointed"), ("f32", "kept"), ("bf16", "kept")]
    ways = ways[:2] if quick else ways
    for way in ways:
        wide.append(ours.gpt2("--budget", "2.5G", steps=steps))
        narrow.append(ours.gpt2("--dtype", "bf16", steps=steps))
        theirs[way] = trl.run(steps, *way)
    default = theirs["f32", "checkpointed"]
    seconds, peak, their_peak = statistics.median(w[0] for w in wide), max(w[1] for w in wide), default["rss_bytes"][0]
    least, note = fastest(theirs, {"f32"})
    parts = ", ".join(f"{part} {statistics.median(default[f'{part}_seconds']):.2f} s" for part in ("generate", "reference"))
    row("whole step, f32, against TRL", 2, least / seconds, "x", f"{seconds:.2f} s ({parts_of(wide[-1][2])}); {trl.name}: {note}; of it {parts}")
    row("... and its memory", 0.5, peak / their_peak, "x", f"{peak / 1e9:.2f} of {their_peak / 1e9:.2f} GB", most=True)
    seconds = statistics.median(n[0] for n in narrow)
    least, note = fastest(theirs, {"f32", "bf16"})
    note = f"{seconds:.2f} s ({parts_of(narrow[-1][2])}); {trl.name}: {note}"
    if ours.has_amx:
        row("whole step, bf16 with AMX, against TRL's faster", 3, least / seconds, "x", note)
    else:
        print(f"whole step, bf16, against TRL's faster: {least / seconds:.2f} x; 3 are asked with AMX, which is not here; {note}", flush=True)


def generation_rows(ours, _quick, _steps):
    for dtype in ("f32", "bf16"):
        found = lines_of([ours.tidemark.parent / "bench/bench_generate", "--dtype", dtype, "--weights", dtype])
        token, read = statistics.median(found["next_seconds"]), statistics.median(found["read_seconds"])
        row(f"generation, 8 slots, {dtype}, of reading the weights", 60, 100 * read / token, "%", f"{8 / token:.0f} tokens/s")


def growth_row(ours, quick, _steps):
    reports, _ = ours.train("--preset", "tiny", "--steps", "300" if quick else "2000", "--report-every", "100")
    reports = [r for r in reports if "reward_mean" in r and r["step"] >= 100]
    grown = (max(r["rss_bytes"] for r in reports) - reports[0]["rss_bytes"]) // resource.getpagesize()
    row(f"tiny on sums, growth from step {reports[0]['step']} to {reports[-1]['step']}", 0, grown, "pages", most=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=str(ROOT / "build/release"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--steps", type=int)
    parts = {"memory": memory_rows, "speed": speed_rows, "generation": generation_rows, "growth": growth_row}
    parser.add_argument("--only", choices=parts)
    options = parser.parse_args()
    steps = options.steps or (1 if options.quick else 2)
    with tempfile.TemporaryDirectory() as folder:
        ours = Grpo(pathlib.Path(options.build).resolve(), pathlib.Path(folder))
        for name, part in parts.items():
            if options.only in (None, name):
                part(ours, options.quick, steps)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
