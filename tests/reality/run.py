#!/usr/bin/python3
"""Runs programs that nobody wrote for Tidemark under `tidemark run`, and compares what it says with what is true of them.

    run.py [options] [PROGRAM...]

Each program has a memory control group to itself where one can be made, as in a container. Each run is one line in
OUT/results.jsonl beside its recording; one that is there already is not repeated. `--modes` are plain and heap,
`--loads` quiet and busy (two loops that only compute, beside the program); without `--all` each program is run in both modes,
and in one of the loads each. Before that each program runs alone, without Tidemark, for its exit status. --judge judges the recordings
that are there once more, with the tidemark of today, and runs nothing. PROGRAM is a name or a part of one.

Ends with a table and the counts; exits with 1 when a bound is broken, 2 for trouble. The bounds are at the top of score.py.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import typing

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import healthy
import leaking
import sampler
import score
from program import Program

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = pathlib.Path(os.environ.get("TIDEMARK_REALITY_VENV") or pathlib.Path.home() / ".cache/tidemark/reality-venv")
ALONE, PLAIN, HEAP = "alone", "plain", "heap"
QUIET, BUSY = "quiet", "busy"
ALONE_S = 5  # what exit status a program has does not take its whole time to see
LATE_S, DEAD_S = 60, 30  # a busy machine is slow; after this, and after that, a program is ended
BUSY_LOOP = "while True: pass"
PORTS = range(20000, 32000)
GROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/memory")  # where groups of version 2 are, or else those of version 1


@dataclasses.dataclass(frozen=True)
class Run:
    program: Program
    mode: str
    load: str
    turn: int
    seconds: int

    @property
    def key(self) -> str:
        return f"{self.program.name}.{self.mode}.{self.load}.{self.turn}"


class Place:
    """The folder of results, and the port numbers that runs get: turn is that of the last, counted from any number."""

    def __init__(self, out: pathlib.Path, tidemark: pathlib.Path):
        self.out, self.tidemark = out, tidemark
        self.lock = threading.Lock()
        self.turn = os.getpid() * 64
        out.mkdir(parents=True, exist_ok=True)

    def results(self) -> dict[str, dict[str, typing.Any]]:
        file = self.out / "results.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return {result["key"]: result for result in map(json.loads, lines)}

    def add(self, result: dict[str, typing.Any]) -> None:
        with self.lock, open(self.out / "results.jsonl", "a") as file:
            file.write(json.dumps(result) + "\n")

    def replace(self, results: typing.Iterable[dict[str, typing.Any]]) -> None:
        new = self.out / "results.new"
        new.write_text("".join(json.dumps(result) + "\n" for result in results))
        new.rename(self.out / "results.jsonl")

    def next_port(self) -> int:
        """One on which nobody listens, below those that the kernel hands out by itself."""
        with self.lock:
            while True:
                self.turn += 1
                port = PORTS[self.turn % len(PORTS)]
                with contextlib.suppress(OSError), socket.socket() as asked:
                    asked.bind(("127.0.0.1", port))
                    return port


def filled(text: str, values: dict[str, typing.Any]) -> str:
    """Only the names of program.py: braces of shells and programs stay."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def environment(program: Program) -> dict[str, str]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(program.threads))
    return {**os.environ, **threads, "PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8", **dict(program.environment)}


@contextlib.contextmanager
def group(name: str) -> typing.Iterator[list[str]]:
    """A control group for what is started with these words before it; none where it may not be made."""
    for parent in GROUPS:
        place = pathlib.Path(parent, name)
        try:
            place.mkdir()
        except OSError:
            continue
        try:
            if (place / "memory.stat").exists():
                yield ["/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(place)]
                return
        finally:
            with contextlib.suppress(OSError):  # what a program left running holds it
                place.rmdir()
    yield []


def end(process: subprocess.Popen, members: typing.Callable[[], list[int]]) -> int:
    """Waits for the end of what was told to end; what does not is killed, with its tree."""
    try:
        return process.wait(DEAD_S)
    except subprocess.TimeoutExpired:
        for pid in members():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return process.wait()


def follow(run: Run, process: subprocess.Popen, load: typing.Optional[subprocess.Popen]) -> tuple[int, bool]:
    """The exit status, and whether the program had to be ended though it should have ended by itself."""
    late = run.seconds * 2 + LATE_S
    members = lambda: sampler.tree(process.pid, None)
    if load:
        deadline = time.monotonic() + late
        while load.poll() is None and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        overran = load.poll() is None and process.poll() is None
        if process.poll() is None:
            process.terminate()
        status = end(process, members)
        if load.poll() is None:
            os.killpg(load.pid, signal.SIGKILL)
        load.wait()
        return status, overran
    try:
        return process.wait(late), False
    except subprocess.TimeoutExpired:
        process.terminate()
        return end(process, members), True


def start(run: Run, place: Place, work: pathlib.Path, recording: pathlib.Path, before: list[str]) -> dict[str, typing.Any]:
    """Runs it, with these words before its command; returns what was seen from outside."""
    program = run.program
    values = {"python": VENV / "bin/python3", "drivers": HERE / "drivers", "work": work, "seconds": run.seconds, "port": place.next_port()}
    shell = lambda text: ["/bin/sh", "-c", filled(text, values)]
    command = shell(program.command) if isinstance(program.command, str) else [filled(word, values) for word in program.command]
    env = environment(program)
    output = open(f"{work}.out", "w")
    if program.prepare:
        subprocess.run(shell(program.prepare), cwd=work, env=env, stdout=output, stderr=output, check=True)
    if run.mode != ALONE:
        heap = ["--heap"] if run.mode == HEAP else []
        command = [str(place.tidemark), "run", "-o", str(recording), *heap, *program.options, "--", *command]
    process = subprocess.Popen([*before, *command], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    watcher = sampler.Sampler(process.pid, str(place.tidemark) if run.mode != ALONE else None)
    load = None
    if program.load:
        load = subprocess.Popen(shell(program.load), cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                start_new_session=True)
    began, others = time.monotonic(), os.getloadavg()[0]
    status, overran = follow(run, process, load)
    took = time.monotonic() - began
    looks = watcher.stop()[:-1]
    with open(f"{work}.csv", "w") as file:
        file.write("second,processes,pss,rss,private\n")
        file.writelines(",".join(map(str, look)) + "\n" for look in looks)
    # As a shell tells it, and tidemark run: 128 and the number of the signal.
    return {"status": 128 - status if status < 0 else status, "overran": overran, "took_s": round(took, 1),
            "machine_load": round(others, 1), "growth": sampler.growth(looks), "slope": sampler.slope(looks),
            "private": looks[-1].private if looks else None, "load_status": load.returncode if load else None}


def judged(tidemark: pathlib.Path, recording: pathlib.Path) -> dict[str, typing.Any]:
    """What tidemark says of a recording."""
    as_json = subprocess.run([tidemark, "judge", "--json", recording], capture_output=True, text=True)
    as_text = subprocess.run([tidemark, "judge", recording], capture_output=True, text=True)
    culprits = subprocess.run([tidemark, "blame", recording], capture_output=True, text=True)  # none without --heap
    if not as_json.stdout:
        return {"verdict": "none", "code": as_json.returncode, "text": as_json.stderr}
    said = json.loads(as_json.stdout)
    wanted = ("verdict", "shape", "subject", "name", "axis", "sentence", "confidence", "growth_bytes", "bounded",
              "bytes_per_step", "bytes_per_second")
    return {**{key: said[key] for key in wanted}, "code": as_json.returncode, "text": culprits.stdout or as_text.stdout}


def execute(run: Run, place: Place) -> dict[str, typing.Any]:
    work = place.out / run.key
    recording = place.out / f"{run.key}.tide"
    shutil.rmtree(work, ignore_errors=True)
    recording.unlink(missing_ok=True)
    work.mkdir(mode=0o777)
    try:
        with group(f"tidemark-reality-{os.getpid()}-{run.key}") as before:
            seen = start(run, place, work, recording, before)
    except (OSError, subprocess.CalledProcessError) as error:
        return {"key": run.key, "trouble": str(error)}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    said = judged(place.tidemark, recording) if run.mode != ALONE else {}
    return {"key": run.key, "program": run.program.name, "mode": run.mode, "load": run.load, "seconds": run.seconds, **seen, **said}


def work_off(runs: list[Run], place: Place, jobs: int) -> None:
    waiting: queue.SimpleQueue[Run] = queue.SimpleQueue()
    for run in runs:
        waiting.put(run)

    def worker() -> None:
        while True:
            try:
                run = waiting.get_nowait()
            except queue.Empty:
                return
            result = execute(run, place)
            place.add(result)
            print(f"{run.key}: {score.line(result)}", flush=True)

    workers = [threading.Thread(target=worker) for _ in range(jobs)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()


def perform(runs: list[Run], place: Place, jobs: int) -> None:
    """The quiet ones first, then the busy ones, beside two loops."""
    work_off([run for run in runs if run.load == QUIET], place, jobs)
    busy = [run for run in runs if run.load == BUSY]
    loops = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(2 if busy else 0)]
    try:
        work_off(busy, place, jobs)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def planned(programs: list[Program], options: argparse.Namespace) -> list[Run]:
    """Each program alone, then in each mode and load; without --all the loads take turns."""
    runs = []
    for turn in range(options.turns):
        for number, program in enumerate(programs):
            seconds = options.seconds or program.seconds
            if turn == 0:
                runs.append(Run(program, ALONE, QUIET, 0, min(seconds, ALONE_S)))
            for which, mode in enumerate(options.modes):
                if mode == HEAP and not program.heap:
                    continue
                loads = options.loads if options.all else [options.loads[(number + which + turn) % len(options.loads)]]
                runs.extend(Run(program, mode, load, turn, seconds) for load in loads)
    return runs


def choose(programs: list[Program], names: list[str]) -> list[Program]:
    if not names:
        return programs
    exact = [program for program in programs if program.name in names]
    return exact or [program for program in programs if any(name in program.name for name in names)]


def lacking(programs: list[Program]) -> dict[str, list[str]]:
    """What is not there, by the program that needs it."""
    needed = sorted({package for program in programs for package in program.needs})
    ask = ["dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", *needed]
    lines = subprocess.run(ask, capture_output=True, text=True).stdout.splitlines() if needed else []
    there = {line.split()[0] for line in lines if line.endswith(" installed")}
    venv = [] if (VENV / "ready").exists() else ["tools/reality-venv"]
    return {program.name: [package for package in program.needs if package not in there] + (venv if program.pip else []) for program in programs}


def options_of(words: list[str]) -> argparse.Namespace:
    listed = lambda text: [word for word in text.split(",") if word]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/reality", help="folder of results")
    parser.add_argument("--tidemark", type=pathlib.Path, default=ROOT / "build/release/tidemark")
    parser.add_argument("--modes", type=listed, default=[PLAIN, HEAP])
    parser.add_argument("--loads", type=listed, default=[QUIET, BUSY])
    parser.add_argument("--all", action="store_true", help="each mode in each load")
    parser.add_argument("--only", choices=("healthy", "leaking"))
    parser.add_argument("--seconds", type=int, help="instead of each program's own")
    parser.add_argument("--turns", type=int, default=1, help="how often each run is made")
    parser.add_argument("--jobs", type=int, default=3, help="runs at a time")
    parser.add_argument("--judge", action="store_true", help="judge the recordings that are there, run nothing")
    parser.add_argument("--table", action="store_true", help="print the table of what is there, run nothing")
    parser.add_argument("--needs", action="store_true", help="print the Debian packages that programs need")
    parser.add_argument("--pip", action="store_true", help="print the PyPI packages that programs need")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = options_of(words)
    both = {"healthy": healthy.PROGRAMS, "leaking": leaking.PROGRAMS}
    programs = choose([program for kind in ([options.only] if options.only else both) for program in both[kind]], options.programs)
    if options.needs or options.pip:
        print(" ".join(sorted({package for program in programs for package in (program.needs if options.needs else program.pip)})))
        return 0
    place = Place(options.out.resolve(), options.tidemark.resolve())
    done = place.results()
    if options.judge:
        again = lambda key, result: {**result, **judged(place.tidemark, place.out / f"{key}.tide")} if "verdict" in result else result
        done = {key: again(key, result) for key, result in done.items()}
        place.replace(done.values())
    elif not options.table:
        lacks = lacking(programs)
        for name, packages in lacks.items():
            if packages:
                print(f"{name}: left out, for it needs {' '.join(packages)}: run 'tools/setup reality' and 'tools/reality-venv'", file=sys.stderr)
        runs = [run for run in planned(programs, options) if run.key not in done and not lacks[run.program.name]]
        perform(runs, place, options.jobs)
        done = place.results()
    return score.report(programs, done)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
