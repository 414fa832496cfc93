#!/usr/bin/python3
"""What self-play takes, in memory and time, beside OpenSpiel's AlphaZero. Usage: bench_selfplay.py [BUILD] [--quick] [--only PART]

Parts: memory (a child of a tree, a pool that is full, 15x15 with all that is asked of it), growth (over 1,000 games), nets (bench_boardnet.py),
search (bench_search, without a net), games (Connect Four against OpenSpiel, from PyPI by tools/openspiel-venv). --quick takes shorter
turns. Prints what is asked, what was measured, and whether that is enough; exits 1 when something is not.

Against OpenSpiel: the same blocks and channels, 200 simulations, two threads of ours with updates in between; two of its actors, before
ours, without a learner beside them. It makes a new tree for each move, ours goes on with the one it has until the root has 200 visits: so
simulations are compared, too. Its actors ask the net op by op; that compiled by JAX, which we did for it, is in the note.
"""

import argparse
import concurrent.futures
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

from bench_train import BEYOND, ROOT, THREADS, lines_of, reports_of, row, short

CHILD = 24
RESIDENT = 1_500_000_000
BIG = ("--game", "gomoku", "--board", "15", "--net", "10x96", "--games-at-once", "64", "--replay", "500000", "--budget", "1.5G")
SIMULATIONS, BLOCKS, CHANNELS = 200, 3, 32  # of Connect Four; the net is `tiny`
LEAST = {"tictactoe": 1_000_000, "gomoku 15 x 15": 300_000}  # simulations a second without a net


class Ours:
    def __init__(self, build):
        self.build = build
        self.command = [build / "tidemark", "train", "selfplay", "--json", "--threads", str(THREADS)]

    def train(self, *options):
        reports, peak = reports_of([*self.command, "--report-every", "1", *map(str, options)])
        return [r for r in reports if "loss" in r], peak

    def plan(self, *options):
        return reports_of([*self.command, "--dry-run", *map(str, options)])[0][0]


def tree_rows(ours):
    """Trees of 1 + 7 x 17 = 120 children, which positions with 7 moves each fill to the last one."""
    games = 8
    shape = ("--game", "connect4", "--games-at-once", games, "--simulations", SIMULATIONS, "--replay", 1000, "--cache", 0)
    small, large = (ours.plan(*shape, "--children", children)["trees_bytes"] for children in (120, 1240))
    row("bytes of a child, in each of the two halves", CHILD, (large - small) / (2 * games * (1240 - 120)), "bytes", most=True)
    reports, _ = ours.train(*shape, "--children", 120, "--positions", 100, "--steps", 2, "--match-games", 0)
    row("full trees, bytes used of those planned", 100, 100 * reports[-1]["trees_high_bytes"] / small, "%",
        f"{reports[-1]['trees_high_bytes']:.0f} of {small} bytes, full {reports[-1]['trees_full']:.0f} times")
    if reports[-1]["trees_high_bytes"] > small:
        sys.exit("bench_selfplay: trees used more than was planned")


def memory_rows(ours):
    """All memory is touched at the start. So few simulations have that of 400, when the trees are as large."""
    tree_rows(ours)
    asked = ours.plan(*BIG, "--simulations", 400)["plan_bytes"]
    reports, peak = ours.train(*BIG, "--simulations", 2, "--children", 1 + 400 * 225, "--positions", 1, "--steps", 2, "--match-games", 0)
    plan = reports[-1]["plan_bytes"]
    if plan != asked:
        sys.exit(f"bench_selfplay: {plan} bytes are planned, and {asked} with 400 simulations")
    row("15x15, 10x96, 64 games, 500,000 positions: peak of memory", RESIDENT / 1e6, peak / 1e6, "MB", most=True)
    row("... beyond the plan", BEYOND / 2**20, (peak - plan) / 2**20, "MiB", f"plan {plan / 1e6:.0f} MB, arena {reports[-1]['arena_high_bytes'] - plan:+d} B", most=True)


def growth_row(ours, games):
    """Evaluations and checkpoints included. Between two reports some 20 games end."""
    positions, length = 512, 21
    with tempfile.TemporaryDirectory() as out:
        reports, _ = ours.train(
            "--game", "connect4", "--simulations", 8, "--positions", positions, "--replay", 10000, "--reuse", 0.5, "--match-games", 8,
            "--eval-every", 10, "--save-every", 10, "--out", out, "--steps", 3 + games * length // positions)  # fmt: skip
    first, last = reports[1], reports[-1]
    grown = max(r["anonymous_bytes"] for r in reports[1:]) - first["anonymous_bytes"]
    row(f"growth from game {first['games']:.0f} to {last['games']:.0f}", 0, grown / resource.getpagesize(), "pages",
        f"{first['anonymous_bytes']} bytes, with matches and checkpoints", most=True)


def nets_rows(ours, quick):
    done = subprocess.run([sys.executable, ROOT / "bench/bench_boardnet.py", ours.build, *(["--quick"] if quick else [])], check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.returncode)
    if done.returncode:
        short.append("nets")


def search_rows(ours, quick):
    out = subprocess.run([ours.build / "bench/bench_search", "1" if quick else "4"], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines()[1:]:
        name, columns, _, rows, rate = line.split()[:5]
        least = LEAST.get(name) or LEAST.get(f"{name} {columns} x {rows}")
        if least:
            row(f"search without a net, {name} {columns}x{rows}, one core", least / 1e6, float(rate) / 1e6, "M/s")


class OpenSpiel:
    def __init__(self):
        made = subprocess.run([ROOT / "tools/openspiel-venv"], stdout=subprocess.PIPE, text=True, check=False)
        if made.returncode:
            sys.exit(made.returncode)
        self.python = made.stdout.strip()
        self.version = subprocess.run([self.python, "-c", "import importlib.metadata as m; print(m.version('open_spiel'))"], capture_output=True, text=True,
                                      check=True).stdout.strip()  # fmt: skip

    def moves_per_second(self, way, seconds):
        """Of one actor for each thread, and the moves of each game that ended."""
        words = (str(seconds), str(SIMULATIONS), str(BLOCKS), str(CHANNELS), way)
        command = [self.python, ROOT / "bench/openspiel_actor.py", *words]
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(lambda _: lines_of(command, {**os.environ, "JAX_PLATFORMS": "cpu"}), range(THREADS)))
        return sum(f["moves"][0] / f["seconds"][0] for f in found), [n for f in found for n in f.get("game_moves", [])]


def games_rows(ours, quick):
    """Moves of its actors are counted, for few of their games end in the time; a game has as many as those that did."""
    peer, rates, lengths = OpenSpiel(), {}, []
    few, many = (30, 10) if quick else (180, 60)
    for way, seconds in (("linen", few), ("nnx", few), ("compiled", many)):
        rates[way], ended = peer.moves_per_second(way, seconds)
        lengths += ended
    reports, _ = ours.train("--game", "connect4", "--net", "tiny", "--simulations", SIMULATIONS, "--match-games", 0, "--steps", 4 if quick else 12)
    first, last = reports[0], reports[-1]
    games = (last["games"] - first["games"]) / (last["seconds"] - first["seconds"])
    length = statistics.mean(r["game_length"] for r in reports[1:])
    searched = statistics.median(r["simulations_per_second"] for r in reports[1:])
    its_length = statistics.mean(lengths)
    theirs, compiled = max(rates["linen"], rates["nnx"]), rates["compiled"]
    each = ", ".join(f"{way} {rate:.2f}" for way, rate in rates.items())
    row(f"Connect Four, {SIMULATIONS} simulations, games an hour, against OpenSpiel", 5, games * its_length / theirs, "x",
        f"{games * 3600:.0f} games of {length:.1f} moves; OpenSpiel {peer.version}: {theirs * 3600 / its_length:.0f} of {its_length:.1f}, moves a second: {each}; "
        f"against compiled {games * its_length / compiled:.1f} x")
    row("... simulations a second", 5, searched / (theirs * SIMULATIONS), "x",
        f"{searched:.0f} against {theirs * SIMULATIONS:.0f}; against compiled {searched / (compiled * SIMULATIONS):.1f} x")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=str(ROOT / "build/release"))
    parser.add_argument("--quick", action="store_true")
    parts = {"memory": lambda ours, quick: memory_rows(ours), "growth": lambda ours, quick: growth_row(ours, 1000), "nets": nets_rows,
             "search": search_rows, "games": games_rows}
    parser.add_argument("--only", choices=parts)
    options = parser.parse_args()
    ours = Ours(pathlib.Path(options.build).resolve())
    for name, part in parts.items():
        if options.only in (None, name):
            part(ours, options.quick)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
