"""tidemark diff: two runs, or two moments of one; who grew, shrank, appeared, disappeared."""

import random
import sqlite3
import textwrap

import pytest

from recording import MIB, STEP, Recording

PYTHON = "/usr/bin/python3"
KIB = 1024


def line(function, number, file="/home/u/train.py"):
    return {"function": function, "file": file, "line": number, "python": 1}


@pytest.fixture
def made(tmp_path):
    """made(name, leak=bytes per step, ...) -> path of a recording of a run of `steps` steps, one look at each."""

    def make(name, leak=0, steps=400, base=100 * MIB, held=None, shift=0, heap=True, script="train.py", worker=0, seed=1,
             small=0, quiet=False, swing=0, signal=0, oom=False):
        rng = random.Random(seed)
        recording = Recording(tmp_path / name)
        recording.meta(command=script, started_wall_s=1, interval_ns=10**8, ended_ns=steps * 10**8, exit_signal=signal,
                       exit_status=128 + signal if signal else 0)
        main = recording.process(100, "python3", role=script, **({"ended": steps / 10} if signal else {}))
        other = recording.process(101, "python3", parent=1, role=f"worker of {script}")
        sites = []
        if heap:
            recording.heap(main)
            sites = [recording.site(main, [line("remember", 20 + shift), line("step", 40 + shift), line("<module>", 90 + shift)]),
                     recording.site(main, [line("load", 8), line("<module>", 80 + shift)]),
                     recording.site(main, [line("parse", 12), line("<module>", 81 + shift)])]
        for step in range(steps):
            noise = 0 if quiet else rng.randrange(2 * MIB if swing else 64 * KIB)
            tick = recording.tick(step / 10, {main: base + leak * step + noise, other: 30 * MIB + worker * step + noise})
            recording.mark(step / 10, STEP, step)
            if heap:
                recording.hold(tick, sites[0], leak * step or MIB, max(step, 1))
            if heap and step == 0:
                recording.hold(tick, sites[1], 20 * MIB if held is None else held, 4)
                recording.hold(tick, sites[2], 8 * MIB + small, 80_000)
        if oom:
            recording.put("note", t_ns=steps * 10**8, text="the kernel killed 1 process", kills=1)
        return recording.close()

    return make


def of_function(document, name):
    return [s for s in document["sites"] if any(f["function"] == name for f in s["frames"])]


def test_a_fixed_leak_is_gone_and_accounts_for_the_change(made, tidemark):
    a, b = made("a.tide", leak=200 * KIB), made("b.tide", shift=3)
    got = tidemark("diff", "--json", a, b)
    assert got.code == 0, got.err
    document = got.json
    assert document["schema"] == "tidemark.diff/1" and document["result"] == "better" and document["axis"] == "step"
    assert document["a"]["verdict"] == "leak" and document["b"]["verdict"] == "flat"
    assert abs(document["a"]["bytes_per_step"] / (200 * KIB) - 1) < 0.02 and document["b"]["bytes_per_step"] == 0
    first, = document["sites"]
    assert abs(first["bytes_per_step_change"] / (-200 * KIB) - 1) < 0.02
    assert first["change"] == "shrank" and first["share"] > 0.95 and first["moved"] is True
    assert [f["line"] for f in first["frames"]] == [23, 43, 93]
    assert [f["line"] for f in first["frames_before"]] == [20, 40, 90]
    text = tidemark("diff", a, b).out
    assert text.startswith("tidemark: BETTER: A leaks 200 KiB per step, B is flat\n")
    assert "-200 KiB/step, gone" in text and "in A at train.py:20 remember" in text


def test_a_leak_that_is_new_is_worse(made, tidemark):
    a, b = made("a.tide"), made("b.tide", leak=200 * KIB)
    got = tidemark("diff", a, b)
    assert got.code == 1
    assert got.out.startswith("tidemark: WORSE: A is flat, B leaks 200 KiB per step\n")
    assert "+200 KiB/step, new" in got.out and "train.py:20 remember" in got.out


def test_a_faster_leak_is_worse_and_a_slower_one_better(made, tidemark):
    slow, fast, same = (made("a.tide", leak=100 * KIB), made("b.tide", leak=150 * KIB), made("c.tide", leak=100 * KIB, seed=2))
    assert tidemark("diff", slow, fast).code == 1
    got = tidemark("diff", "--json", fast, slow)
    assert got.code == 0 and got.json["result"] == "better"
    assert abs(got.json["sites"][0]["bytes_per_step_change"] / (-50 * KIB) - 1) < 0.02
    got = tidemark("diff", "--json", slow, same)
    assert got.code == 0 and got.json["result"] == "same" and got.json["sites"] == []
    assert "at the same rate, as far as two runs can tell" in got.json["sentence"]
    a_little = made("d.tide", leak=106 * KIB)
    assert tidemark("diff", "--json", slow, a_little).json["result"] == "same"


def test_a_run_that_is_too_short_decides_nothing(made, tidemark):
    long, leaky, short = made("a.tide"), made("b.tide", leak=50 * KIB), made("c.tide", steps=12)
    got = tidemark("diff", "--json", long, short)
    assert got.code == 3 and got.json["result"] == "undecided", got.json["sentence"]
    assert tidemark("diff", short, leaky).code == 3
    got = tidemark("diff", "--json", short, long)  # whatever the first did, the second does not leak
    assert got.code == 0 and got.json["result"] == "same", got.json["sentence"]


def test_a_run_that_is_undecided_about_little_still_tells_much(made, tidemark):
    """Noise of 2 MiB in 40 steps: a leak of some KiB per step cannot be told, one of 1 MiB per step would have shown."""
    leaky, unsure = made("a.tide", leak=1 << 20, steps=40), made("b.tide", steps=40, swing=1)
    verdict = tidemark("judge", "--json", unsure).json
    assert verdict["verdict"] == "undecided" and 0 < verdict["detectable_bytes_per_step"] < 200 * KIB
    got = tidemark("diff", leaky, unsure)
    assert got.code == 0 and got.out.startswith("tidemark: BETTER: A leaks 1.0 MiB per step, B leaks less than "), got.out
    assert tidemark("diff", unsure, leaky).code == 1


def test_a_leak_too_small_for_such_short_runs_decides_nothing(made, tidemark):
    """B leaks, as a run five times as long shows; over what both trained that is nothing yet."""
    a, b = made("a.tide", quiet=True), made("b.tide", leak=500, steps=2000, quiet=True)
    got = tidemark("diff", a, b)
    assert got.code == 3 and got.out.startswith("tidemark: UNDECIDED: A is flat, B leaks 500"), got.out
    assert "too little to tell in runs this short" in got.out
    assert tidemark("diff", b, a).code == 0


def test_a_worker_that_leaks_is_worse_though_the_leak_of_the_parent_is_gone(made, tidemark):
    a, b = made("a.tide", leak=200 * KIB), made("b.tide", worker=50 * KIB)
    got = tidemark("diff", a, b)
    assert got.code == 1
    assert got.out.startswith("tidemark: WORSE: worker of train.py leaks now and did not before; as a whole, A leaks 200 KiB per step")


def test_a_run_that_was_killed_for_lack_of_memory_is_worse(made, tidemark):
    a, b = made("a.tide"), made("b.tide", signal=9, oom=True, seed=2)
    got = tidemark("diff", a, b)
    assert got.code == 1
    assert got.out.startswith("tidemark: WORSE: B was killed by the OOM killer at step 399; A is flat, B is flat\n"), got.out
    assert "KILLED by the OOM killer: train.py[100]" in next(s for s in got.out.splitlines() if s.startswith("  B "))
    got = tidemark("diff", "--json", a, b)
    assert got.json["result"] == "worse" and got.json["a"]["death"] is None
    assert got.json["b"]["death"]["cause"] == "oom" and got.json["b"]["death"]["step"] == 399
    got = tidemark("diff", b, a)
    assert got.code == 0
    assert got.out.startswith("tidemark: BETTER: A was killed by the OOM killer at step 399; A is flat, B is flat\n"), got.out


def test_a_kill_for_lack_of_memory_outweighs_a_leak_that_is_gone(made, tidemark):
    a, b = made("a.tide", leak=200 * KIB), made("b.tide", signal=9, oom=True)
    got = tidemark("diff", a, b)
    assert got.code == 1
    assert got.out.startswith("tidemark: WORSE: B was killed by the OOM killer at step 399; A leaks 200 KiB per step, B is flat\n")
    assert tidemark("diff", b, a).code == 1  # a leak that is new is worse all the same
    assert "A was killed by the OOM killer at step 399; " in tidemark("diff", b, a).out.splitlines()[0]


def test_where_both_were_killed_for_lack_of_memory_the_leaks_decide(made, tidemark):
    a, b = made("a.tide", leak=200 * KIB, signal=9, oom=True), made("b.tide", leak=100 * KIB, signal=9, oom=True)
    got = tidemark("diff", a, b)
    assert got.code == 0
    assert got.out.startswith("tidemark: BETTER: both were killed by the OOM killer; A leaks 200 KiB per step, B leaks 100")
    assert tidemark("diff", b, a).code == 1


def test_a_run_that_ended_sooner_is_not_better_than_one_that_was_killed(made, tidemark):
    a, b = made("a.tide", signal=9, oom=True), made("b.tide", steps=200)
    got = tidemark("diff", a, b)
    assert got.code == 3
    assert got.out.startswith("tidemark: UNDECIDED: A was killed by the OOM killer at step 399, and B made fewer steps; A is flat")


def test_a_kill_by_another_signal_is_said_and_does_not_decide(made, tidemark):
    a, b = made("a.tide"), made("b.tide", signal=9, seed=2)
    got = tidemark("diff", a, b)
    assert got.code == 0 and got.out.startswith("tidemark: NO WORSE: A is flat, B is flat\n"), got.out
    assert "KILLED by SIGKILL: train.py[100]" in next(s for s in got.out.splitlines() if s.startswith("  B "))
    got = tidemark("diff", "--json", a, b)
    assert got.json["b"]["death"]["cause"] == "signal" and "KILLED by SIGKILL" in got.json["b"]["sentence"]


def test_more_memory_without_growth_is_shown_and_no_worse(made, tidemark):
    a, b = made("a.tide"), made("b.tide", held=90 * MIB, base=170 * MIB)
    got = tidemark("diff", "--json", a, b)
    assert got.code == 0 and got.json["result"] == "same"
    first, = got.json["sites"]
    assert first["change"] == "grew" and first["bytes_change"] == 70 * MIB and first["bytes_per_step_change"] == 0
    assert first["frames"][0]["function"] == "load"
    main = [p for p in got.json["processes"] if p["name"] == "train.py"][0]
    assert abs(main["b"]["floor_bytes"] - main["a"]["floor_bytes"] - 70 * MIB) < MIB


def test_what_comes_and_goes_within_a_step_is_no_difference(tidemark, tmp_path):
    for name, phase in ("a.tide", 0), ("b.tide", 1):
        recording = Recording(tmp_path / name)
        main = recording.process(1, "python3", role="train.py")
        recording.heap(main)
        steady, activation = recording.site(main, [line("load", 3)]), recording.site(main, [line("forward", 9)])
        for step in range(200):
            tick = recording.tick(step, {main: 200 * MIB})
            recording.mark(step, STEP, step)
            recording.hold(tick, activation, 64 * MIB if (step + phase) % 2 else 0)
            if step == 0:
                recording.hold(tick, steady, 20 * MIB + phase * 5 * MIB)
        recording.close()
    document = tidemark("diff", "--json", "a.tide", "b.tide").json
    assert [(s["frames"][0]["function"], s["bytes_change"]) for s in document["sites"]] == [("load", 5 * MIB)]
    asked = tidemark("diff", "--json", "--at", "150", "a.tide", "b.tide").json  # who asks for a moment gets it
    assert {s["frames"][0]["function"] for s in asked["sites"]} == {"load", "forward"}


def test_what_appears_and_disappears_is_called_so(made, tidemark):
    a, b = made("a.tide", held=0), made("b.tide")
    assert [s["change"] for s in tidemark("diff", "--json", a, b).json["sites"]] == ["appeared"]
    assert [s["change"] for s in tidemark("diff", "--json", b, a).json["sites"]] == ["disappeared"]


def test_what_sampling_alone_may_change_is_not_reported(made, tidemark):
    """100 bytes a block, 8 MiB of them, one sample in 512 KiB: 16 samples, give or take 4."""
    a, b, c = made("a.tide"), made("b.tide", small=5 * MIB), made("c.tide", small=30 * MIB)
    assert tidemark("diff", "--json", a, b).json["sites"] == []
    assert len(of_function(tidemark("diff", "--json", a, c).json, "parse")) == 1


def test_runs_of_different_length_are_compared_where_both_were(made, tidemark):
    a, b = made("a.tide", leak=100 * KIB, steps=300), made("b.tide", leak=100 * KIB, steps=600)
    document = tidemark("diff", "--json", a, b).json
    assert document["same_step"] is True and document["sites"] == []
    assert document["a"]["at_step"] == document["b"]["at_step"] == 299
    assert "at step 299, the last that both reached" in tidemark("diff", a, b).out
    ends = tidemark("diff", "--json", "--at", "end", a, b).json
    assert ends["b"]["at_step"] == 599 and abs(ends["sites"][0]["bytes_change"] / (300 * 100 * KIB) - 1) < 0.01
    assert tidemark("diff", "--json", a, made("c.tide", leak=100 * KIB, steps=302)).json["sites"] == []  # a look or two later
    early = tidemark("diff", "--json", "--at", "100", a, b).json
    assert early["a"]["at_step"] == early["b"]["at_step"] == 100


def test_recordings_without_call_sites_are_compared_by_role(made, tidemark):
    a, b = made("a.tide", heap=False), made("b.tide", leak=100 * KIB, heap=False, script="new_train.py")
    got = tidemark("diff", a, b)
    assert got.code == 1
    assert "train.py -> new_train.py: floor" in got.out and "no leak -> +100 KiB/step" in got.out
    assert "  code        not compared: neither has call sites; record both with 'tidemark run --heap -- PROG'\n" in got.out


def test_the_one_without_call_sites_is_named(made, tidemark):
    without, with_heap = made("a.tide", heap=False), made("c.tide")
    for named, two in (("A", (without, with_heap)), ("B", (with_heap, without))):
        assert (f"  code        not compared: {named} has no call sites; record it with 'tidemark run --heap -- PROG'\n"
                in tidemark("diff", *two).out)
    document = tidemark("diff", "--json", without, with_heap).json
    assert document["sites"] == [] and document["a"]["live_bytes"] is None


def test_a_recording_with_heap_and_without_call_sites_is_not_to_be_recorded_with_heap(made, tidemark):
    seen, unseen = made("a.tide"), made("b.tide", heap=False)
    with sqlite3.connect(unseen) as db:
        db.execute("INSERT INTO note (t_ns, text) VALUES (0, ?)", ("--heap saw no allocations: './s' is statically linked",))
    assert f"  code        not compared: B has no call sites; 'tidemark blame {unseen}' says why\n" in tidemark(
        "diff", seen, unseen).out


def test_two_moments_of_one_run(made, tidemark):
    a = made("a.tide", leak=100 * KIB)
    got = tidemark("diff", "--json", a, "--between", "100", "300")
    assert got.code == 0, got.err
    document = got.json
    assert document["result"] is None and document["processes"] == []
    first, = document["sites"]
    assert first["bytes_change"] == 200 * 100 * KIB and first["change"] == "grew" and first["share"] == 1
    back = tidemark("diff", "--json", "--between", a, "peak", "100").json
    assert back["sites"][0]["change"] == "shrank"
    assert tidemark("diff", "--between", a, "100", "300").out.startswith("tidemark: +19.5 MiB between step 100 and step 300")


def test_memory_of_a_device_is_counted_apart(tidemark, tmp_path):
    for name, ram, device in ("a.tide", 50, 300), ("b.tide", 80, 900):
        recording = Recording(tmp_path / name)
        main = recording.process(1, "python3", role="train.py")
        recording.heap(main)
        sites = [recording.site(main, [line("load", 3)]), recording.site(main, [line("to", 9)], kind=3)]
        for step in range(100):
            tick = recording.tick(step, {main: 200 * MIB})
            recording.mark(step, STEP, step)
            for site, size in zip(sites, (ram, device)):
                recording.hold(tick, site, size * MIB // (2 if step < 50 else 1))
        recording.close()
    document = tidemark("diff", "--json", "a.tide", "b.tide").json
    assert [document[side]["live_bytes"] for side in "ab"] == [50 * MIB, 80 * MIB]
    assert [document[side]["device_bytes"] for side in "ab"] == [300 * MIB, 900 * MIB]
    assert [(s["kind"], s["bytes_change"], s["share"]) for s in document["sites"]] == [("cuda", 600 * MIB, 1), ("malloc", 30 * MIB, 1)]
    text = tidemark("diff", "--between", "a.tide", "10", "60").out
    assert "25.0 MiB -> 50.0 MiB live in all call sites, 150 MiB -> 300 MiB on devices" in text
    assert "150 MiB -> 300 MiB on the GPU   100 % of the change" in text


def test_runs_with_and_without_steps_are_compared_by_the_second(made, tidemark):
    a, b = made("a.tide", leak=100 * KIB), made("b.tide", leak=100 * KIB)
    with sqlite3.connect(b) as db:
        db.execute("DELETE FROM mark")
    document = tidemark("diff", "--json", a, b).json
    assert document["axis"] == "second" and document["result"] == "same"
    for side in "ab":
        assert abs(document[side]["bytes_per_second"] / (1000 * KIB) - 1) < 0.03


def test_trouble_is_one_sentence(made, tidemark):
    a = made("a.tide")
    for arguments in ([], [a], [a, "none.tide"], [a, a, a], ["--between", a, "1"], ["--between", a, "1", "x"], ["--at", "x", a, a],
                      ["--between", "--at", "1", a, "1", "2"], ["--between", a, "1", "99999"], ["--at", "99999", a, a]):
        got = tidemark("diff", *arguments)
        assert got.code == 2 and got.out == "" and got.err.startswith("tidemark: "), arguments
        assert len(got.err.splitlines()) <= 2, got.err


def test_hostile_names_reach_the_terminal_escaped(tidemark, tmp_path):
    for name, size in ("a.tide", 1), ("b\x1b[31m.tide", 50):
        recording = Recording(tmp_path / name)
        main = recording.process(1, "\x1b[31mpy", role="\x1b]0;evil\x07")
        recording.heap(main)
        site = recording.site(main, [line("\x1b[2Jf", 1, "/x/\x1b[31mt.py"), {"module": "/lib/\x1b[1mx.so", "offset": 5}])
        for step in range(40):
            tick = recording.tick(step, {main: 50 * MIB})
            recording.hold(tick, site, size * MIB, size)
            recording.mark(step, STEP, step)
        recording.close()
    for arguments in [], ["--json"]:
        got = tidemark("diff", *arguments, "a.tide", "b\x1b[31m.tide")
        assert got.code in (0, 3) and "\x1b" not in got.out and "\x07" not in got.out
        assert "[2Jf" in got.out


TRAIN = """
    import sys, time
    sys.path.insert(0, {python!r})
    import tidemark
    {filler}
    kept = []
    def train_step():
        kept.append(bytearray(150_000))
        {fix}
    for step in range(200):
        tidemark.step(step)
        train_step()
        time.sleep(0.01)
"""


@pytest.mark.slow
def test_real_runs_of_a_program_before_and_after_its_fix(tidemark, tmp_path, root):
    for name, filler, fix in ("before", "", "pass"), ("after", "import json\n    import random\n    x = 1", "kept.clear()"):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "train.py"
        program.write_text(textwrap.dedent(TRAIN.format(python=str(root / "python"), filler=filler, fix=fix)))
        got = tidemark("run", "--heap", "-i", "50ms", "-o", f"{name}.tide", "--", PYTHON, program)
        assert got.code == 0, got.err
    got = tidemark("diff", "--json", "before.tide", "after.tide")
    assert got.code == 0, got.err
    first = got.json["sites"][0]
    assert abs(first["bytes_per_step_change"] / -150_000 - 1) < 0.05 and first["share"] > 0.9 and first["moved"] is True
    lines = (tmp_path / "after" / "train.py").read_text().splitlines()
    where = [f for f in first["frames"] if f["function"] == "train_step"][0]
    assert "kept.append" in lines[where["line"] - 1]
    assert tidemark("diff", "after.tide", "before.tide").code == 1


def restarting(path, restarts):
    """A program with two workers at a time that grow together, each pair ended and started anew `restarts` times."""
    r = Recording(path)
    steps = 400
    r.meta(command="train.py", started_wall_s=1, interval_ns=10**8, exit_status=0, ended_ns=steps * 10**8)
    main = r.process(100, "python3", role="train.py")
    each = steps / restarts / 10
    pairs = [[r.process(200 + 2 * i + k, "pt_data_worker", parent=main, role="pt_data_worker", began=i * each,
                        ended=(i + 1) * each) for k in range(2)] for i in range(restarts)]
    for step in range(steps):
        now = pairs[min(int(step / 10 / each), restarts - 1)]
        r.tick(step / 10, {main: 100 * MIB, **{worker: 60 * MIB + step * 200 * KIB for worker in now}})
        r.mark(step / 10, STEP, step)
    return r.close()


@pytest.mark.parametrize("before, after", [(10, 12), (12, 10)])
def test_more_or_fewer_restarts_of_a_worker_are_no_difference(tidemark, tmp_path, before, after):
    old, new = restarting(tmp_path / "a.tide", before), restarting(tmp_path / "b.tide", after)
    got = tidemark("diff", old, new)
    assert got.code == 0 and not got.out.startswith("tidemark: WORSE"), got.out
    assert "pt_data_worker: floor 276 MiB -> 276 MiB" in got.out, got.out


@pytest.mark.parametrize("steps, words", [(True, ", peak in its steps 100 MiB -> 100 MiB;"), (False, ", peak 400 MiB -> 400 MiB;")])
def test_the_peak_is_named_for_what_it_covers(tidemark, tmp_path, steps, words):
    """Loading took 400 MiB, before the first step; with steps as the axis that is not in the series."""
    for name in ("a.tide", "b.tide"):
        r = Recording(tmp_path / name)
        main = r.process(100, "python3", role="train.py")
        for look in range(300):
            r.tick(look / 10, {main: (400 if 2 < look < 10 else 100) * MIB})
            if steps and look >= 20:
                r.mark(look / 10, STEP, look - 20)
        r.meta(command="train.py", interval_ns=10**8, exit_status=0, ended_ns=30 * 10**9)
        r.close()
    assert words in tidemark("diff", "a.tide", "b.tide").out
