#!/usr/bin/python3
"""How often `tidemark diff` calls two runs of one program different, and how often it sees that a leak is new.

Usage: bench/alike.py [BUILD] [--runs N]

Each program runs N times (default 6) under `run --heap`; every run is compared with every other. Takes about three minutes.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
CHURN = """
    import json, random, sys, time
    sys.path.insert(0, {python!r})
    import tidemark
    leak, kept, held = int(sys.argv[1]), [], {{}}
    def load():
        return json.loads(json.dumps({{str(k): [random.random() for _ in range(20)] for k in range(60)}}))
    def train_step(step):
        held[step % 40] = [load(), load()]
        scratch = bytearray(random.randrange(50_000, 400_000))
        if leak:
            kept.append(bytearray(leak))
        return scratch
    for step in range(250):
        tidemark.step(step)
        train_step(step)
        time.sleep(0.004)
"""
WORKLOADS = ["flat", "spikes", "cache", "jump", "linear"]
LEAKY = {"linear", "churn-leak"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=str(ROOT / "build/release"))
    parser.add_argument("--runs", type=int, default=6)
    options = parser.parse_args()
    build = pathlib.Path(options.build).resolve()
    tidemark = build / "tidemark"
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "churn.py"
        script.write_text(textwrap.dedent(CHURN.format(python=str(ROOT / "python"))))
        programs = {"churn": [PYTHON, script, "0"], "churn-leak": [PYTHON, script, "60000"]}
        programs |= {w: [build / "workloads" / w, "--steps", "400", "--step-ms", "10"] for w in WORKLOADS}

        def record(job):
            name, number = job
            subprocess.run([tidemark, "run", "--heap", "-i", "50ms", "-o", f"{folder}/{name}-{number}.tide", "--", *programs[name]],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

        def compare(job):
            (a, i), (b, k) = job
            done = subprocess.run([tidemark, "diff", "--json", "-n", "1000", f"{folder}/{a}-{i}.tide", f"{folder}/{b}-{k}.tide"],
                                  capture_output=True, check=False)
            return a, b, done.returncode, len(json.loads(done.stdout)["sites"])

        runs = list(itertools.product(programs, range(options.runs)))
        with concurrent.futures.ThreadPoolExecutor(2 * os.cpu_count()) as pool:
            list(pool.map(record, runs))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = list(pool.map(compare, itertools.permutations(runs, 2)))
    words = {0: "no worse", 1: "worse", 3: "undecided"}
    counts, sites = collections.defaultdict(collections.Counter), collections.Counter()
    for a, b, code, changed in answers:
        kind = "same program" if a == b else "leak is new" if b in LEAKY and a not in LEAKY else None
        if kind:
            counts[kind][words[code]] += 1
            sites[kind] += changed
    for kind, count in counts.items():
        print(f"{kind:14} {sum(count.values()):5} pairs  " + "  ".join(f"{word} {count[word]}" for word in words.values()) +
              f"  call sites that changed, in all: {sites[kind]}")
    return 1 if counts["same program"]["worse"] or counts["leak is new"]["no worse"] else 0


if __name__ == "__main__":
    sys.exit(main())
