"""Runs the five cases under tidemark, broken, wrongly fixed and rightly fixed, and checks what tidemark says of each.

    check.py [--docs] [--reuse] [--tidemark PROGRAM] [CASE...]

Prints a table of what was expected and what was found, and exits with 1 when anything differs. --docs also puts the output of the
commands into docs/cases/. --reuse takes the recordings of the last time where they are there.

The expectations are at the end of this file, in one table. Each number has its tolerance beside it. Lines of code are found by
their text, so that they need not be counted.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import time
from typing import Any, Callable, Iterator, Optional

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "cases"
VENV = pathlib.Path(os.environ.get("TIDEMARK_CASES_VENV") or pathlib.Path.home() / ".cache/tidemark/cases-venv")
LONGEST_S, KILLED_S = 120, 1800  # of processor time that a run may take; of time, against one that hangs: a busy machine takes long
MB = 1e6


@dataclasses.dataclass
class Finding:
    """One line of the table."""

    what: str
    expected: str
    found: str
    ok: bool


@dataclasses.dataclass
class Run:
    """A program under tidemark; ``check`` yields what is expected of it, ``views`` are commands for the documents."""

    name: str
    arguments: str
    check: Callable[["Outcome"], Iterator[Finding]]
    options: str = ""
    views: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Case:
    number: str
    program: str
    runs: list[Run]


class Outcome:
    """What a run left behind."""

    def __init__(self, tidemark: str, case: Case, run: Run, others: dict[str, "Outcome"]) -> None:
        self.tidemark, self.case, self.run, self.others = tidemark, case, run, others
        self.recording = WORK / f"{case.number}-{run.name}.tide"
        self.seconds = self.cpu_seconds = 0.0

    @property
    def command(self) -> str:
        options = f"{self.run.options} " if self.run.options else ""
        recording = self.recording.relative_to(ROOT)
        return f"tidemark run {options}-o {recording} -- {self.case.program} {self.run.arguments}".rstrip()

    def command_of(self, view: str) -> str:
        """What stands in a document before that view of this run."""
        return self.command if view == "run" else self.run.views[view].replace("REC", str(self.recording.relative_to(ROOT)))

    def _file(self, kind: str) -> pathlib.Path:
        return self.recording.with_suffix(kind)

    @property
    def output(self) -> str:
        return self._file(".out").read_text()

    @property
    def said(self) -> str:
        """What tidemark said at the end; what else is on stderr comes before it."""
        text = self._file(".err").read_text()
        heads = [m.start() for m in re.finditer(r"^tidemark: [A-Z]{3,}", text, re.M)]
        return text[heads[-1] :] if heads else text

    def exists(self) -> bool:
        return all(self._file(kind).exists() for kind in (".tide", ".out", ".err"))

    def make(self) -> None:
        WORK.mkdir(parents=True, exist_ok=True)
        for kind in (".tide", ".tide-wal", ".tide-shm", ".out", ".err"):
            self._file(kind).unlink(missing_ok=True)
        words = [programs(self.tidemark).get(w, w) for w in shlex.split(self.command)]
        begin, used = time.monotonic(), cpu_of_children()
        with self._file(".out").open("wb") as out, self._file(".err").open("wb") as err:
            code = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=KILLED_S,
                                  env=environment(), check=False).returncode
        self.seconds, self.cpu_seconds = time.monotonic() - begin, cpu_of_children() - used
        if code:
            raise SystemExit(f"{self.command}\nended with status {code}:\n{self._file('.err').read_text()[-2000:]}")

    def ask(self, command: str) -> str:
        """A tidemark command on the recording, as it stands in the documents: REC is the recording."""
        words = shlex.split(command.replace("REC", str(self.recording.relative_to(ROOT))))
        done = subprocess.run([self.tidemark, *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1, 3):
            raise SystemExit(f"{command}: {done.stderr}")
        return done.stdout

    @functools.cached_property
    def verdict(self) -> dict[str, Any]:
        return json.loads(self.ask("tidemark judge --json REC"))

    @functools.lru_cache(maxsize=None)
    def blame(self, how: str = "") -> dict[str, Any]:
        return json.loads(self.ask(f"tidemark blame --json {how} REC"))


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment() -> dict[str, str]:
    # Threads that wait do not spin: on a busy machine that would be most of the processor time, and none of the work.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TIDEMARK_C", "TIDEMARK_H", "OMP_", "MALLOC_"))}
    return {**kept, "PYTHONPATH": str(ROOT / "python"), "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1",
            "TRANSFORMERS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "OMP_WAIT_POLICY": "PASSIVE", "LC_ALL": "C.UTF-8"}


def programs(tidemark: str) -> dict[str, str]:
    """Words of the commands that stand for programs."""
    venv = VENV / "bin" / "python3"
    return {"tidemark": tidemark, "python3": str(venv) if venv.exists() else "/usr/bin/python3"}


# ---- what can be expected


def size(value: Optional[float]) -> str:
    return "-" if value is None else f"{value / MB:.2f} MB"


def is_verdict(outcome: Outcome, *kinds: str) -> Finding:
    found = outcome.verdict["verdict"]
    return Finding("verdict", " or ".join(kinds), found, found in kinds)


def near(what: str, found: Optional[float], expected: Optional[float], share: float, show: Callable[[float], str] = size) -> Finding:
    """Within this share of what was expected."""
    if expected is None:
        return Finding(what, "a number", "-", False)
    ok = found is not None and abs(found - expected) <= share * abs(expected)
    return Finding(what, f"{show(expected)} +-{share:.0%}", "-" if found is None else show(found), ok)


def under(what: str, found: Optional[float], most: float) -> Finding:
    value = found or 0.0
    return Finding(what, f"< {size(most)}", size(value), value < most)


def says(what: str, pattern: str, text: str) -> Finding:
    match = re.search(pattern, text)
    return Finding(what, pattern, match[0] if match else "not said", bool(match))


def is_true(what: str, expected: str, ok: bool) -> Finding:
    return Finding(what, expected, "so" if ok else "not so", ok)


def line_of(path: str, text: str) -> int:
    lines = [n for n, line in enumerate((ROOT / path).read_text().splitlines(), 1) if text in line]
    assert len(lines) == 1, f"{path}: {text!r} is on {len(lines)} lines"
    return lines[0]


def place(path: str, text: str) -> str:
    return f"{pathlib.Path(path).name}:{line_of(path, text)}"


def places(culprit: dict[str, Any]) -> set[str]:
    return {f"{pathlib.Path(f['file']).name}:{f['line']}" for f in culprit["frames"] if f["file"]}


def blames(culprits: list[dict[str, Any]], path: str, text: str) -> Finding:
    """All of them come from this line."""
    wanted = place(path, text)
    found = all(wanted in places(c) for c in culprits) and bool(culprits)
    first = next((f"{pathlib.Path(f['file']).name}:{f['line']}" for c in culprits for f in c["frames"] if f["file"]), "-")
    return Finding("culprit", wanted, wanted if found else first, found)


# ---- 000


def plans_of(outcome: Outcome) -> list[float]:
    """Bytes that the workers' plans had in each epoch, by the program's own account."""
    epochs = re.split(r"^Epoch ", outcome.output, flags=re.M)[:-1]
    return [MB * sum(float(mb) for mb in re.findall(r"shapes, ([\d.]+) MB", epoch)) for epoch in epochs]


def slope(values: list[float]) -> float:
    middle = (len(values) - 1) / 2
    return sum((i - middle) * v for i, v in enumerate(values)) / sum((i - middle) ** 2 for i in range(len(values)))


def root_of(outcome: Outcome) -> dict[str, Any]:
    """The verdict on the process that was started."""
    return next(s for s in outcome.verdict["series"] if s["subject"] == "process" and "child of" not in s["name"])


def rises_in_workers(outcome: Outcome) -> Iterator[Finding]:
    peaks = outcome.verdict.get("rising_peaks") or {}
    yield is_true("verdict", "rising peaks", bool(peaks))
    yield says("where", r"2 x worker of train\.py", outcome.verdict["name"])
    yield says("phase", "self-play", str(peaks.get("phase")))
    yield near("per epoch", peaks.get("bytes_per_epoch"), slope(plans_of(outcome)), 0.2)
    parent = root_of(outcome)
    yield under("parent grows", parent["growth_bytes"] if parent["verdict"] != "flat" else 0, 10 * MB)


def broken_000(outcome: Outcome) -> Iterator[Finding]:
    yield from rises_in_workers(outcome)
    yield says("gauge", r'"torch allocated" is flat', outcome.verdict["evidence"] or "")
    # Of those whose peaks rise: what the parent imported is live at the peak too.
    at_peak = [c for c in outcome.blame("--by peak")["culprits"] if c["share"] >= 0.1 and "worker" in c["process"]]
    yield blames(at_peak, "cases/000/train.py", "self.plans[size] = Plan(size)")
    yield is_true("imports", "no culprit", "import " not in outcome.said)


def wrong_000(outcome: Outcome) -> Iterator[Finding]:
    yield from rises_in_workers(outcome)
    yield says("it claims", r"freed: [\d.]+ MB", outcome.output)


def right_000(outcome: Outcome) -> Iterator[Finding]:
    yield is_true("verdict", "no rising peaks", "rising_peaks" not in outcome.verdict)
    yield is_true("no leak", "not a leak", outcome.verdict["verdict"] != "leak")
    shapes = [int(n) for n in re.findall(r"worker: (\d+) shapes", outcome.output)]
    yield is_true("shapes", "at most 4", max(shapes) <= 4)


# ---- 001

CHUNK = 1792 * 1024 + 32  # with its head
ORPHANED = 2 * CHUNK * 9 / 10  # two chunks in nine of ten iterations


def broken_001(outcome: Outcome) -> Iterator[Finding]:
    culprits = [c for c in outcome.blame()["culprits"] if c["verdict"] == "leak"]
    yield is_verdict(outcome, "leak")
    yield near("asked for per step", sum(c["bytes_per_step"] for c in culprits), ORPHANED, 0.05)
    yield near("memory per step", outcome.verdict["bytes_per_step"], 0.93 * ORPHANED, 0.07)  # the last chunk is not full
    yield blames(culprits, "cases/001/autograd.c", "must(malloc(sizeof *chunk")
    yield is_true("explained", ">= 95 % of it", sum(c["share"] for c in culprits) >= 0.95)


def wrong_001(outcome: Outcome) -> Iterator[Finding]:
    yield is_verdict(outcome, "leak")
    yield near("memory per step", outcome.verdict["bytes_per_step"], outcome.others["broken"].verdict["bytes_per_step"], 0.05)


def right_001(outcome: Outcome) -> Iterator[Finding]:
    yield is_verdict(outcome, "flat")
    yield under("floor", outcome.verdict["floor_last_bytes"], 40 * MB)


# ---- 002 and 003

PHOTOGRAPH = 640 * 480 * 4
TRAINER = r"train\.py\[\d+\] \(child of launch\.py"


def plateau(outcome: Outcome, items: int) -> Iterator[Finding]:
    verdict = outcome.verdict
    yield is_verdict(outcome, "plateau")
    yield says("where", TRAINER, verdict["name"])
    yield near("knee at step", verdict["knee_step"], items / 4, 0.05, lambda v: f"{v:.1f}")
    yield is_true("one pass", f"over {items} items", verdict["one_pass"])
    yield near("per item", verdict["bytes_per_item"], PHOTOGRAPH, 0.08)


def broken_vision(outcome: Outcome, items: int) -> Iterator[Finding]:
    verdict = outcome.verdict
    yield from plateau(outcome, items)
    count, back, phase = (verdict["spikes"][k] for k in ("count", "returned", "phase"))
    goes_on = "the last one going on at the end" in outcome.said  # the last validation ends with the program
    yield Finding("spikes", "5 to 7 in validation, all back", f"{count} in {phase}, {back} back{', one goes on' if goes_on else ''}",
                  5 <= count <= 7 and phase == "validation" and back == count - goes_on)
    yield says("others", r"6 x compile_worker.*steady", verdict["others"] or "")
    kept = [c for c in outcome.blame()["culprits"] if c["bounded"]][:1]
    yield blames(kept, "cases/002/vision.py", "np.asarray(image.resize((EDGE, EDGE))")
    yield near("it holds", kept[0]["live_bytes"] if kept else None, items * PHOTOGRAPH, 0.03)


def wrong_002(outcome: Outcome) -> Iterator[Finding]:
    yield from plateau(outcome, 300)
    yield is_true("workers", "none", "compile_worker" not in (outcome.verdict["others"] or ""))


def wrong_003(outcome: Outcome) -> Iterator[Finding]:
    yield from plateau(outcome, 180)
    text = outcome.output + outcome._file(".err").read_text()
    yield says("gc", r"gc +\d+ +[\d.]+ (B|KiB) .* off: frees nothing", text)
    yield says("zero_grad", r"zero_grad +\d+ +[\d.]+ (B|KiB) .* off: frees nothing", text)


def right_vision(outcome: Outcome) -> Iterator[Finding]:
    """What is left is the first use of code, and pages that the trainer and its helpers no longer share: not the data set."""
    broken = outcome.others["broken"].verdict["growth_bytes"]
    trainer = next(s for s in outcome.verdict["series"] if re.match(TRAINER, s["name"]))
    # Level, with the spikes of validation; or it rose a little, at once or by and by, and has stopped.
    yield is_verdict(outcome, "flat", "spikes", "jump", "plateau")
    yield is_true("trainer", "flat, spikes, jump or plateau", trainer["verdict"] in ("flat", "spikes", "jump", "plateau"))
    # A heap that stops growing after some steps may do so by chance where a pass over the data ends: without a photograph per item.
    yield under("kept per item", outcome.verdict["bytes_per_item"] if outcome.verdict["one_pass"] else 0.0, 0.1 * PHOTOGRAPH)
    # Its heap is larger after the first validation, by 14 MB at the most that was seen.
    yield under("trainer grows", trainer["floor_last_bytes"] - trainer["floor_first_bytes"], 0.1 * broken)


# ---- 004


def jump(outcome: Outcome, step: int) -> Iterator[Finding]:
    yield is_verdict(outcome, "jump")
    yield near("at step", outcome.verdict["jump_step"], step, 1 / step, lambda v: f"{v:.1f}")
    yield says("graphs", rf"most: 50 graphs per backward, first in step {step}\b", outcome.output)


def broken_004(outcome: Outcome) -> Iterator[Finding]:
    yield from jump(outcome, 13)
    rises = [c for c in outcome.blame()["culprits"] if c["share"] >= 0.1]
    yield blames(rises, "cases/004/train.py", "total_loss = sum(self.loss(group)")
    yield is_true("explained", ">= 80 % of the rise", sum(c["share"] for c in rises) >= 0.8)
    yield says("live", "rises within each step and is freed again", outcome.said)


def wrong_004(outcome: Outcome) -> Iterator[Finding]:
    yield from jump(outcome, 13)
    yield near("jump", outcome.verdict["jump_bytes"], outcome.others["broken"].verdict["jump_bytes"], 0.15)


def right_004(outcome: Outcome) -> Iterator[Finding]:
    yield is_verdict(outcome, "flat", "spikes")  # its heap begins with room for all that it needs
    yield under("peak over broken's start", outcome.verdict["peak_bytes"] - outcome.others["broken"].verdict["floor_first_bytes"],
                0.1 * outcome.others["broken"].verdict["jump_bytes"])
    yield says("graphs", r"most: [12] graphs per backward", outcome.output)


# ---- the table

VISION = "python3 cases/002/launch.py cases/{0}/train.py"
TABLE = [
    Case("000", "python3 cases/000/train.py", [
        Run("broken", "", broken_000, "--heap -i 100ms", {"judge": "tidemark judge REC", "peak": "tidemark blame --by peak -n 2 REC"}),
        Run("wrong", "--fix cleanup", wrong_000, "-i 100ms"),
        Run("right", "--fix buckets", right_000, "-i 100ms"),
    ]),
    Case("001", "build/release/cases/001/train", [
        Run("broken", "", broken_001, "--heap", {"blame": "tidemark blame -n 2 REC"}),
        Run("wrong", "--fix suspects", wrong_001),
        Run("right", "--fix next-chunk", right_001),
        Run("tiny", "--preset tiny --iterations 4000", right_001),
    ]),
    Case("002", VISION.format("002"), [
        Run("broken", "", functools.partial(broken_vision, items=300), "--heap -i 100ms --items 300 --per-step 4",
            {"processes": "tidemark show --what processes REC"}),
        Run("wrong", "--fix workers", wrong_002, "-i 100ms --items 300 --per-step 4"),
        Run("right", "--fix per-use --steps 1200", right_vision, "-i 100ms --items 300 --per-step 4"),
    ]),
    Case("003", VISION.format("003"), [
        Run("broken", "", functools.partial(broken_vision, items=180), "--heap -i 100ms --items 180 --per-step 4"),
        Run("wrong", "--fix cleanup", wrong_003, "-i 100ms --items 180 --per-step 4"),
        Run("right", "--fix per-use --steps 800", right_vision, "-i 100ms --items 180 --per-step 4"),
    ]),
    Case("004", "python3 cases/004/train.py", [
        Run("broken", "", broken_004, "--heap -i 100ms", {"blame": "tidemark blame -n 1 REC"}),
        Run("one-group", "--groups-per-step 1 --steps 40", functools.partial(jump, step=25), "-i 100ms"),
        Run("wrong", "--fix padding", wrong_004, "-i 100ms"),
        Run("right", "--fix per-group --steps 56", right_004, "-i 100ms", {"diff": "tidemark diff build/cases/004-broken.tide REC"}),
    ]),
]


# ---- documents


def view_text(outcome: Outcome, view: str) -> str:
    """A command and what it printed. Views of every run: "run", "output"; "output/REGEX" gives its lines that match."""
    kind, _, pattern = view.partition("/")
    if kind == "output":
        text = outcome.output + outcome._file(".err").read_text()
        return "\n".join(line for line in text.splitlines() if re.search(pattern, line))
    command = outcome.command_of(kind)
    return f"$ {command}\n{outcome.said if kind == 'run' else outcome.ask(command)}"


def write_document(number: str, outcomes: dict[str, Outcome]) -> None:
    """Fills each block between "<!-- shown: RUN VIEW -->" and "<!-- end -->"."""
    path = ROOT / "docs" / "cases" / f"{number}.md"

    def fill(match: re.Match[str]) -> str:
        run, view = match[1].split(" ", 1)
        text = view_text(outcomes[run], view).rstrip()
        return f"<!-- shown: {match[1]} -->\n```text\n{text}\n```\n<!-- end -->"

    before = path.read_text()
    path.write_text(re.sub(r"<!-- shown: (.*?) -->\n.*?<!-- end -->", fill, before, flags=re.S))
    print(f"wrote {path.relative_to(ROOT)}")


# ---- the whole


def run_case(case: Case, options: argparse.Namespace) -> bool:
    outcomes: dict[str, Outcome] = {}
    good = True
    for run in case.runs:
        outcome = outcomes[run.name] = Outcome(options.tidemark, case, run, outcomes)
        if not (options.reuse and outcome.exists()):
            outcome.make()
        took = Finding("took", f"< {LONGEST_S} s of processor time", f"{outcome.cpu_seconds:.0f} s, {outcome.seconds:.0f} s in all",
                       outcome.cpu_seconds < LONGEST_S)
        for finding in [*run.check(outcome), took]:
            good &= finding.ok
            print(f"{case.number} {run.name:10} {finding.what:18} {finding.expected[:44]:44} {finding.found[:44]:44} "
                  f"{'ok' if finding.ok else 'NOT AS EXPECTED'}", flush=True)
    if options.docs:
        write_document(case.number, outcomes)
    return good


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", metavar="CASE", default=[])
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--reuse", action="store_true")
    parser.add_argument("--tidemark", default=str(ROOT / "build" / "release" / "tidemark"))
    options = parser.parse_args()
    known = [case.number for case in TABLE]
    if unknown := [c for c in options.cases if c not in known]:
        parser.error(f"no case {unknown[0]}: there are {' '.join(known)}")
    begin = time.monotonic()
    good = [run_case(case, options) for case in TABLE if not options.cases or case.number in options.cases]
    print(f"{sum(good)} of {len(good)} cases as expected, in {time.monotonic() - begin:.0f} s")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
