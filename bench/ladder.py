#!/usr/bin/python3
"""Whether a run of self-play got better from checkpoint to checkpoint. Usage: ladder.py RUN [BUILD] [--points N] [--games N] [--simulations N]

Takes the last checkpoint and those nearest to a half, a quarter, an eighth ... of its steps; each plays the one before it, the last the
first, and each plain MCTS (bench/strength.c). Games come in pairs, from openings that both sides value about even. One match a processor
at a time. Prints a table: Elo and its 95 % interval.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess


def rungs(steps, most):
    """Of rising steps the last, and at most so many in all, each about half of the next."""
    chosen, wanted = [steps[-1]], steps[-1] / 2
    while len(chosen) < most and wanted >= steps[0] / 2:
        nearest = min(steps, key=lambda step: abs(step - wanted))
        if nearest < chosen[0]:
            chosen.insert(0, nearest)
        wanted /= 2
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("build", nargs="?", default="build/release", type=pathlib.Path)
    parser.add_argument("--points", type=int, default=6)
    parser.add_argument("--games", type=int, default=400)
    parser.add_argument("--simulations", type=int, default=64)
    parser.add_argument("--rollouts", type=int, default=1600)
    arguments = parser.parse_args()
    strength = arguments.build / "bench/strength"
    if not strength.exists():
        parser.error(f"there is no '{strength}': 'make benches' builds it, and BUILD says where")
    at = {int(path.name[5:]): path for path in arguments.run.glob("step-*") if path.name[5:].isdigit()}
    if not at:
        parser.error(f"there is no checkpoint in '{arguments.run}'")
    chosen = rungs(sorted(at), arguments.points)
    matches = [(new, "match", old) for old, new in zip(chosen, chosen[1:])]
    matches += [(chosen[-1], "match", chosen[0])] if len(chosen) > 2 else []
    matches += [(step, "rollouts", arguments.rollouts) for step in chosen]
    processors = sorted(os.sched_getaffinity(0))

    def play(match):
        step, check, other = match
        processor = processors.pop()  # a match is too small for several
        made = subprocess.run(["taskset", "-c", str(processor), strength, at[step], check, str(arguments.games),
                               str(arguments.simulations), at[other] if check == "match" else str(other)],
                              stdout=subprocess.PIPE, check=True)
        processors.append(processor)
        return json.loads(made.stdout)

    print("| step | against | won | drawn | lost | Elo | 95 % |\n|---|---|---|---|---|---|---|")
    with concurrent.futures.ThreadPoolExecutor(len(processors)) as pool:
        for (step, check, other), made in zip(matches, pool.map(play, matches)):
            against = f"step {other}" if check == "match" else f"plain MCTS of {other} rollouts"
            print(f"| {step} | {against} | {made['won']} | {made['drawn']} | {made['lost']} | {made['elo']:+.0f} | "
                  f"{made['elo_low']:+.0f} to {made['elo_high']:+.0f} |", flush=True)


if __name__ == "__main__":
    main()
