"""Ground truth: each built-in workload misbehaves in a way that its header states to the byte. Run under `tidemark run`
and judged, each must get that verdict, in that process, with that number.

A number is right if the judge's own 95 % interval holds the truth, or if it is within 5 % of it.

A run is eight seconds of waiting, so the runs go on beside each other: a test says in its mark `runs` what is to be run, and its
fixture `verdict` waits for that.
"""

import concurrent.futures
import contextlib
import csv
import dataclasses
import itertools
import json
import pathlib
import re
import sqlite3
import subprocess

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("workloads")]

AT_ONCE = 8
LONG = ("--steps", "1000", "--step-ms", "40")  # where only PSS tells, which is read rarely, and the rarer the busier the machine

KIB, MIB = 1024, 1024 * 1024
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def pid_of(series):
    """From "trainer[12] (child of wrapper[11])": 12."""
    match = re.search(r"\[(\d+)\](?: \(child of .*)?$", series["name"])
    return int(match[1]) if match else None


@dataclasses.dataclass
class Verdict:
    """What a run left: the document of `judge --json`, its exit code, what `run` said, and who was to blame."""

    document: dict
    code: int
    said: str
    pid: int
    recording: pathlib.Path

    def series(self, subject, pid=None):
        """The judged series of that subject ("process", "tree", ...), of that process where one is meant."""
        found = [s for s in self.document["series"] if s["subject"] == subject and (pid is None or pid_of(s) == pid)]
        assert len(found) == 1, f"{len(found)} series of {subject} {pid or ''}: {self.document['series']}"
        return found[0]


def runs(name, *args, options=()):
    """`tidemark run OPTIONS -- NAME ARGS`: what a test is about."""
    return pytest.mark.runs(name, *args, options=options)


@pytest.fixture(scope="module")
def begun(request, binary, workload, plain_env, tmp_path_factory):
    """What each test of this file runs, begun: from the test's name to a Verdict to wait for."""

    def tidemark(*args):
        return subprocess.run([str(a) for a in (binary, *args)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=plain_env, timeout=120, check=False)

    def judged(folder, name, *args, options=()):
        recording, pid_file = folder / f"{name}.tide", folder / "pid"
        run = tidemark("run", "-i", "50ms", "-o", recording, *options, "--", workload(name), "--pid-file", pid_file, *args)
        assert run.returncode == 0, run.stderr
        judge = tidemark("judge", "--json", recording)
        assert judge.returncode in (0, 1, 3), judge.stderr
        document = json.loads(judge.stdout)
        assert document["schema"] == "tidemark.verdict/1"
        pid = int(pid_file.read_text()) if pid_file.exists() else None
        return Verdict(document, judge.returncode, run.stderr, pid, recording)

    wanted = {item.nodeid: item.get_closest_marker("runs") for item in request.session.items if item.module is request.module}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(judged, tmp_path_factory.mktemp("run"), *mark.args, **mark.kwargs)
               for name, mark in wanted.items() if mark}


@pytest.fixture
def verdict(begun, request):
    """The Verdict of what the test runs."""
    return begun[request.node.nodeid].result()


@pytest.fixture
def samples(verdict, tidemark):
    """The looks at its processes, as they were recorded."""
    return list(csv.DictReader(tidemark("show", "--csv", "--what", "samples", verdict.recording).out.splitlines()))


def assert_rate(series, truth, name="bytes_per_step"):
    value, low, high = (series[name + suffix] for suffix in ("", "_low", "_high"))
    assert value is not None, series
    assert low <= value <= high
    assert low <= truth <= high or abs(value - truth) <= 0.05 * truth, f"{value} ({low}..{high}), in truth {truth}"


def assert_near(value, truth, part, what):
    assert value is not None and abs(value - truth) <= part * truth, f"{what}: {value}, in truth {truth}"


def assert_leak(verdict, truth, shape="linear", subject="process"):
    top = verdict.document
    assert top["verdict"] == "leak", top["sentence"]
    assert top["shape"] == shape, top["sentence"]
    assert verdict.code == 1
    series = verdict.series(subject, verdict.pid if subject == "process" else None)
    assert series["verdict"] == "leak" and series["shape"] == shape, series
    assert_rate(series, truth)
    return series


def readings(verdict):
    """How often the tracker read the shares of the process that grows."""
    with contextlib.closing(sqlite3.connect(verdict.recording)) as db:
        return db.execute("SELECT count(*) FROM smaps WHERE process IN (SELECT id FROM process WHERE pid = ?)", [verdict.pid]).fetchone()[0]


@runs("cow", "--bytes", "32K", *LONG)
def test_copy_on_write_in_a_forked_worker_is_a_leak_of_the_tree(verdict):
    # Pages that are shared show only in PSS, which is read on a fraction of 1 % of the time when RSS stands still, and the rarer
    # the busier the machine: this takes longer than the rest, and so is begun first, and a small heap, which costs less to read.
    top = verdict.document
    if readings(verdict) < 13:  # one more than are judged, because one may fall before the first step
        assert top["verdict"] in ("leak", "undecided"), top["sentence"]
        pytest.skip(f"the machine is so busy that the shares of the worker were read {readings(verdict)} times only")
    assert top["verdict"] == "leak", top["sentence"]
    assert_rate(top, 32 * KIB)


@runs("views", "--bytes", "32K", *LONG)
def test_a_heap_that_is_mapped_three_times_leaks_what_it_takes_once(verdict):
    # What it takes shows only in PSS, too.
    assert_leak(verdict, 32 * KIB)
    assert pid_of(verdict.document) == verdict.pid


@pytest.mark.parametrize("name", [pytest.param(n, marks=runs(n)) for n in ("linear", "threads", "wrapper", "fork", "rename")])
def test_a_steady_leak_is_found_in_its_process_with_its_number(verdict, name):
    assert_leak(verdict, 64 * KIB)
    assert pid_of(verdict.document) == verdict.pid, "another process is blamed"
    assert f"[{verdict.pid}]" in verdict.said
    others = [s for s in verdict.document["series"] if s["subject"] == "process" and pid_of(s) != verdict.pid]
    assert [s["name"] for s in others if s["verdict"] == "leak"] == [], "an innocent process is accused"
    assert not CONTROL.search(verdict.said)


@runs("memfd")
def test_shared_memory_that_nobody_maps_is_a_leak(verdict):
    assert_leak(verdict, 64 * KIB, subject="shared memory")
    assert verdict.document["subject"] == "shared memory" and "/dev/shm" in verdict.said
    assert verdict.series("process", verdict.pid)["verdict"] != "leak"


@runs("shared")
def test_shared_memory_that_one_process_keeps_for_itself_is_its_leak(verdict):
    assert_leak(verdict, 64 * KIB)
    assert pid_of(verdict.document) == verdict.pid


@runs("segment", "--bytes", "32K", *LONG)
def test_nobody_who_maps_a_segment_is_accused_of_all_of_it(verdict):
    assert_leak(verdict, 32 * KIB, subject="shared memory")
    assert verdict.document["subject"] == "shared memory"
    for series in verdict.document["series"]:
        if series["subject"] == "process" and series["verdict"] == "leak":
            assert_near(series["bytes_per_step"], 32 * KIB / 5, 0.2, series["name"])


@pytest.mark.parametrize("name", [pytest.param(n, marks=runs(n, "--bytes", "0", *LONG)) for n in ("shared", "views", "segment")])
def test_shared_memory_that_is_used_again_is_flat(verdict, name):
    assert verdict.document["verdict"] in ("flat", "spikes"), verdict.document["sentence"]
    assert verdict.code == 0


@runs("daemon")
def test_a_leak_in_a_daemon_is_followed_after_its_parent_is_gone(verdict):
    assert_rate(verdict.document, 64 * KIB)
    assert verdict.document["verdict"] == "leak"
    assert "detached[" in verdict.document["name"]


@runs("linear", "--talk", "--no-marks")
def test_a_program_that_only_prints_its_steps_is_judged_by_step(verdict):
    assert_leak(verdict, 64 * KIB)


def slowest_quarter(samples):
    """How fast memory grew in the slowest quarter of the run, of its mean: less than 1 when the program got less of a processor then."""
    looks = [(float(look["t_s"]), int(look["rss_bytes"])) for look in samples if look["rss_bytes"]]
    (begin, least), (end, most) = looks[0], looks[-1]
    marks = [max(size for at, size in looks if at <= begin + (end - begin) * quarter / 4) for quarter in range(5)]
    return min(after - before for before, after in itertools.pairwise(marks)) / ((most - least) / 4)


@runs("linear", "--no-marks")
def test_a_program_that_says_nothing_is_judged_by_the_clock(verdict, samples):
    top = verdict.document
    slowest = slowest_quarter(samples)
    if slowest < 0.9 and top["verdict"] in ("undecided", "plateau"):  # it may have stood still in the end
        pytest.skip(f"the program ran at {slowest:.2f} of its speed for a while: by the clock, what it does is not even")
    assert top["verdict"] == "leak" and top["bytes_per_step"] is None
    if slowest >= 0.9:
        assert_rate(top, 64 * KIB * 50, "bytes_per_second")


@runs("linear", "--bytes", "4K")
def test_a_leak_twenty_times_smaller_is_still_found(verdict):
    assert_leak(verdict, 4 * KIB)


@runs("linear", options=["--limit", "256MiB"])
def test_the_step_at_which_a_limit_is_reached_is_forecast(verdict):
    top = verdict.document
    assert top["limit_bytes"] == 256 * MIB
    # The floor starts at some 8 MiB and grows by 64 KiB per step.
    assert_near(top["limit_step"], (256 - 8) * 16, 0.05, "limit_step")
    assert "limit" in verdict.said


@runs("staircase")
def test_a_staircase_is_a_leak_per_epoch(verdict):
    assert_leak(verdict, 2 * MIB / 50, shape="staircase")


@runs("accelerating")
def test_an_accelerating_leak_is_told_from_a_linear_one(verdict):
    top = verdict.document
    assert top["verdict"] == "leak" and top["shape"] == "accelerating", top["sentence"]
    # 128 KiB per step on average over the run and 256 KiB at its end: a rate outside that range is wrong.
    assert 0.95 * 128 * KIB <= top["bytes_per_step"] <= 1.05 * 256 * KIB


@pytest.mark.parametrize("options", [pytest.param(o, marks=runs("cache", options=o), id=i) for i, o in
                                     (("by marks", []), ("by options", ["--items", "1000", "--per-step", "5"]))])
def test_a_cache_that_fills_is_a_plateau_and_no_leak(verdict, options):
    top = verdict.document
    assert top["verdict"] == "plateau", top["sentence"]
    assert verdict.code == 0
    assert_near(top["knee_step"], 200, 0.05, "knee_step")
    assert_near(top["bytes_per_item"], 64 * KIB, 0.05, "bytes_per_item")
    filled = (200 - max(top["warmup_ends"], 0)) * 5 * 64 * KIB  # what came before the first step that was judged is not in it
    assert_near(top["ceiling_bytes"] - top["floor_first_bytes"], filled, 0.05, "height of the plateau")
    if options:
        assert top["one_pass"] and "one pass" in top["sentence"]


@runs("spikes")
def test_validation_that_gives_everything_back_is_spikes(verdict, samples):
    top = verdict.document
    assert top["verdict"] == "spikes", top["sentence"]
    assert verdict.code == 0
    # A tracker that gets no processor for the 300 ms of a validation does not see it. One that gets it while a validation still
    # touches its memory, and not later, sees a part of its height: a spike too. What its first look at a step sees did not rise.
    high = [int(look["anon_bytes"] or 0) > 1.06 * top["floor_last_bytes"] for look in samples if look["step"]]
    seen = sum(up for up, _ in itertools.groupby(itertools.dropwhile(bool, high)))
    assert 4 <= seen <= 7
    spikes = top["spikes"]
    assert (spikes["count"], spikes["returned"], spikes["phase"]) == (seen, seen, "validation")
    assert_near(spikes["typical_bytes"], 100 * MIB, 0.05, "height of a spike")
    assert "validation" in verdict.said


@runs("flat")
def test_a_steady_program_is_flat(verdict):
    assert verdict.document["verdict"] == "flat", verdict.document["sentence"]
    assert verdict.code == 0


@runs("jump")
def test_one_lasting_allocation_is_a_jump(verdict):
    top = verdict.document
    assert top["verdict"] == "jump", top["sentence"]
    assert_near(top["jump_step"], 200, 0.02, "jump_step")
    assert_near(top["jump_bytes"], 64 * MIB, 0.05, "jump_bytes")
    assert top["jump_mark"] and "stage 2" in top["jump_mark"]


@runs("fragmentation")
def test_fragmentation_grows_the_process_and_not_what_the_program_holds(verdict):
    assert_leak(verdict, 256 * KIB)
    assert verdict.series("gauge")["verdict"] == "flat"


@runs("storm", "--every", "4")
def test_a_storm_of_short_lived_children_is_no_leak(verdict):
    # How many children live at once depends on how busy the machine is, so that the tree may step up or down with it.
    assert verdict.document["verdict"] in ("flat", "spikes", "jump"), verdict.document["sentence"]
    assert verdict.code == 0


@runs("linear", "--steps", "6", "--bytes", "4K")
def test_a_run_too_short_to_tell_is_undecided_and_says_how_much_longer(verdict):
    top = verdict.document
    assert top["verdict"] == "undecided", top["sentence"]
    assert verdict.code == 3
    # By time, where a busy machine let the tracker look too seldom to see two steps.
    assert (top["steps_needed"] or top["seconds_needed"]) > 0


@pytest.mark.long
def test_the_same_leak_is_found_at_the_default_interval(tidemark, workload, tmp_path):
    recording = tmp_path / "a.tide"
    run = tidemark("run", "-o", recording, "--", workload("linear"), "--steps", "800")
    assert run.code == 0 and "LEAK" in run.err
    judge = tidemark("judge", "--json", recording)
    assert judge.code == 1
    assert_rate(judge.json, 64 * KIB)
