#!/usr/bin/python3
"""What each threshold of the judge buys: the error rates on the labelled corpus with it halved, as it is, and doubled.

    bench/thresholds.py [RUNS [SEED [NAME...]]]        prints a Markdown table (docs/STATISTICS.md holds one)

Builds bench_judge once per value in a temporary directory, with a changed copy of src/judge/thresholds.h; what the
judge stands on comes from build/release (run make first).
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADER = ROOT / "src/judge/thresholds.h"
DEFINE = re.compile(r"^#define (TIDE_\w+) +(\([^)]*\)|\S+)", re.M)
COLUMNS = {"false alarms, all lengths": "false alarms", "recall of leaks, long runs": "recall, long",
           "class accuracy, medium and long runs": "right, medium+long", "short runs: wrong": "wrong, short",
           "95 % intervals that cover the truth": "coverage", "retention that is found": "retention",
           "leaks called retention, half of them live": "half live"}


def header():
    """The header with its continued lines joined."""
    return re.sub(r"\\\n\s*", " ", HEADER.read_text())


def measure(name, factor, runs, seed):
    """The five rates with that threshold multiplied by factor; None where it does not compile or run."""
    text = header()
    if name:
        value = DEFINE.search(text[text.index(f"#define {name} "):]).group(2)
        changed = f"({value} * {factor})" if "." in value or "e" in value else str(max(1, round(float(value) * factor)))
        text = re.sub(rf"^#define {name} +(\([^)]*\)|\S+)", f"#define {name} {changed}", text, flags=re.M)
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "judge").mkdir()
        (pathlib.Path(folder) / "judge/thresholds.h").write_text(text)
        program = f"{folder}/bench"
        sources = [ROOT / "bench/bench_judge.c", *ROOT.glob("tests/corpus/*.c"), *ROOT.glob("src/judge/*.c"),
                   ROOT / "build/release/libcore.a"]
        built = subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-O2", "-w", f"-I{folder}",
                                f"-I{ROOT}/src", f"-I{ROOT}/tests/corpus", "-o", program, *sources, "-lm", "-lutf8proc"], check=False)
        if built.returncode:
            return None
        out = subprocess.run([program, str(runs), str(seed)], capture_output=True, text=True, check=False).stdout
    rates = {}
    for label in COLUMNS:
        found = re.search(rf"^{re.escape(label)} +([\d.]+)", out, re.M)
        rates[label] = float(found.group(1)) if found else float("nan")
    return rates


def row(first, rates):
    cells = " | ".join("-" if rates is None else f"{rates[label]:.1f}" for label in COLUMNS)
    return f"| {first} | {cells} |"


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1650
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 20261115
    names = sys.argv[3:] or [m.group(1) for m in DEFINE.finditer(header()) if m.group(1) not in ("TIDE_MAD_SIGMA",)]
    print("| threshold | value | " + " | ".join(COLUMNS.values()) + " |")
    print("|---|---|" + "---|" * len(COLUMNS))
    as_they_are = measure(None, 1, runs, seed)
    if not as_they_are:
        sys.exit("thresholds: the benchmark does not build")
    print(row("all | as they are", as_they_are), flush=True)
    jobs = [(name, factor) for name in names for factor in (0.5, 2)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda job: measure(*job, runs, seed), jobs)
        for (name, factor), rates in zip(jobs, results):
            print(row(f"`{name}` | {'halved' if factor < 1 else 'doubled'}", rates), flush=True)


if __name__ == "__main__":
    main()
