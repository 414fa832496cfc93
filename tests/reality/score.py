"""What runs of tests/reality come to: a table, the counts, and whether the bounds hold."""

from __future__ import annotations

import re
import typing

from program import SECOND, Program

# Asked: no healthy program is called a leak; nearly all leaks are found, with their rate; mostly the line is right; few runs
# of a minute end without an answer.
HEALTHY_ACCUSED_MOST = 0
FOUND_LEAST, RATE_WITHIN, CULPRIT_LEAST, UNDECIDED_MOST = 0.95, 0.10, 0.90, 0.15

ACCUSES = ("leak", "retention")
SUFFIX = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
Result = dict[str, typing.Any]


def size(count: typing.Optional[float]) -> str:
    if count is None:
        return "-"
    for unit, name in SUFFIX:
        if abs(count) >= unit:
            return f"{count / unit:+.1f} {name}"
    return f"{count:+.0f} B"


def rate_error(program: Program, result: Result) -> typing.Optional[float]:
    """How far the rate that was said is from the true one, as a share of that; None where none was said."""
    per = program.rate.per if program.rate else SECOND
    true = program.rate.bytes if program.rate else result["slope"]
    said = result.get(f"bytes_per_{per}")
    several = re.match(r"(\d+) x ", result.get("name") or "")  # what is known is what each of them loses
    said = said / int(several[1]) if said is not None and several else said
    return abs(said - true) / abs(true) if said is not None and true else None


def culprit(result: Result) -> str:
    """What is printed of the first culprit."""
    found = re.search(r"^  culprit (.*?)(?=^  \S|^\s+2 |\Z)", result.get("text", ""), re.M | re.S)
    return found.group(1) if found else ""


def line(result: Result) -> str:
    """One run in one line."""
    if "trouble" in result:
        return f"trouble: {result['trouble']}"
    truth = f"truth {size(result['growth'])} ({size(result['slope'])}/s of {size(result['private'])}), exit {result['status']}"
    if "verdict" not in result:
        return truth
    return f"{result['verdict']} ({result['code']}): {result.get('sentence', '')}; {truth}{', overran' if result['overran'] else ''}"


class Counts:
    """Of all runs; each row of the table adds to them."""

    def __init__(self) -> None:
        self.healthy = self.accused = self.leaking = self.found = self.rated = self.asked = self.blamed = 0
        self.runs = self.undecided = self.minutes = self.minutes_undecided = self.trouble = self.changed = 0

    def add(self, program: Program, result: Result, alone: typing.Optional[Result]) -> tuple[str, ...]:
        """Counts a run and returns its row."""
        accused, undecided = result["verdict"] in ACCUSES, result["verdict"] == "undecided"
        self.runs += 1
        self.undecided += undecided
        if result["took_s"] >= 60:
            self.minutes += 1
            self.minutes_undecided += undecided
        changed = alone is not None and not alone["overran"] and not result["overran"] and alone["status"] != result["status"]
        self.changed += changed
        error, right = None, None
        if program.leaks:
            error = rate_error(program, result) if accused else None
            self.leaking += 1
            self.found += accused
            self.rated += error is not None and error <= RATE_WITHIN
            if program.line and result["mode"] == "heap":
                right = any(place in culprit(result) for place in program.line.split(" or "))
                self.asked += 1
                self.blamed += right
        else:
            self.healthy += 1
            self.accused += accused
        wrong = accused != program.leaks
        says = {None: "", True: "right", False: "wrong"}
        return (program.name, result["mode"], result["load"], f"{result['took_s']:.0f} s", f"**{result['verdict']}**" if wrong else result["verdict"],
                size(result["growth_bytes"]) if result.get("growth_bytes") else "", f"{size(result['growth'])} of {size(result['private'])}",
                "" if error is None else f"{100 * error:.1f} %", says[right], f"{alone['status']} -> {result['status']}" if changed else "")

    def sentences(self) -> list[tuple[str, bool]]:
        """Each count with whether its bound holds."""
        share = lambda part, whole: f"{part} of {whole}" + (f" ({100 * part / whole:.1f} %)" if whole else "")
        at_least = lambda part, whole, least: not whole or part >= least * whole
        return [
            (f"healthy runs called leak or retention: {share(self.accused, self.healthy)}", self.accused <= HEALTHY_ACCUSED_MOST),
            (f"leaks found: {share(self.found, self.leaking)}", at_least(self.found, self.leaking, FOUND_LEAST)),
            (f"rates within 10 % of the truth, of leaks found: {share(self.rated, self.found)}", at_least(self.rated, self.found, FOUND_LEAST)),
            (f"first culprit right: {share(self.blamed, self.asked)}", at_least(self.blamed, self.asked, CULPRIT_LEAST)),
            (f"undecided: {share(self.undecided, self.runs)}; of those that took a minute: {share(self.minutes_undecided, self.minutes)}",
             self.minutes_undecided <= UNDECIDED_MOST * self.minutes),
            (f"exit status other than without Tidemark: {share(self.changed, self.runs)}", not self.changed),
            (f"runs that could not be made: {self.trouble}", not self.trouble),
        ]


HEAD = ("program", "mode", "load", "took", "verdict", "said growth", "true growth", "rate off by", "culprit", "exit status")


def report(programs: list[Program], results: dict[str, Result]) -> int:
    """Prints the table and the counts; 1 if a bound is broken."""
    known, counts, rows = {program.name: program for program in programs}, Counts(), []
    for key, result in sorted(results.items()):
        name = result.get("program")
        if "trouble" in result and key.split(".")[0] in known:
            counts.trouble += 1
            print(f"{key}: {result['trouble']}")
        elif name in known and "verdict" in result:
            rows.append(counts.add(known[name], result, results.get(f"{name}.alone.quiet.0")))
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()
    broken = False
    for sentence, holds in counts.sentences():
        print(f"- {sentence}{'' if holds else ' (out of bounds)'}")
        broken = broken or not holds
    return 1 if broken else 0
