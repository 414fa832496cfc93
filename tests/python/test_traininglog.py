"""The training log: what it marks, what it says, and that no fault of it reaches the loop."""

import collections
import os
import signal
import subprocess
import sys
import threading

import pytest
import tidemark
from lanes import ROOT
from tidemark import _fault, _samples, _verdict


@pytest.fixture
def lines():
    return []


@pytest.fixture
def log(lines):
    made = tidemark.TrainingLog(every=2, census=False, out=lines.append)
    yield made
    made.close()


def test_an_error_of_an_enum_is_not_taken_for_one_of_a_signal_handler():
    """signal.SIG_DFL is an enum: its class has a __call__ too, that of every enum."""
    with pytest.raises(ValueError) as raised:
        signal.Sigmasks(-1)
    assert not _fault.from_handler(raised.value)


def test_steps_epochs_items_and_phases_are_marked(log, marks):
    for epoch in range(2):
        log.epoch(epoch)
        for step in range(2):
            log.step(epoch * 2 + step)
            log.items((epoch * 2 + step + 1) * 8)
        with log.phase("validation"):
            pass
    log.close()
    one = [("step", 0), ("items", 8), ("step", 1), ("items", 16), ("begin", "validation"), ("end", "validation")]
    two = [("step", 2), ("items", 24), ("step", 3), ("items", 32), ("begin", "validation"), ("end", "validation")]
    assert marks() == {os.getpid(): [("epoch", 0), *one, ("epoch", 1), *two]}


def levels_of(count, process, heap, counted=lambda step: step % 4 == 0):
    """Samples whose heap is read at some steps only; what is between repeats the last reading."""
    samples, read = _samples.Samples(0.0005), 0
    for step in range(count):
        read = heap(step) if counted(step) else read
        samples.rows.append(_samples.Levels(step, process(step), _samples.Tree(0, 1), {"cpu heap in use": read}, counted(step)))
    return samples


@pytest.mark.parametrize("counted, told", [(lambda step: step % 4 == 0, True), (lambda step: step == 0, False)])
def test_a_leak_inside_memory_that_the_process_had_already_is_told(binary, counted, told):
    """Validation left free blocks behind, and the leak fills them: the process is level, and what malloc gave out is not."""
    samples = levels_of(60, lambda step: (280 if step < 20 else 320) << 20, lambda step: (80 << 20) + step * 600_000, counted)
    (table,) = samples.tables()
    said = _verdict.of_table(table).sentences()
    assert any(line.startswith("LEAK in cpu heap in use: +") and "reuses memory" in line for line in said) == told


def test_so_it_is_of_a_recording():
    heap = {"name": 'gauge "cpu heap in use"', "verdict": "leak", "sentence": 'LEAK in gauge "cpu heap in use": +32 MiB'}
    said = {verdict: _verdict.Verdict(verdict, "The run.", "", {"series": [heap]}).sentences() for verdict in ("plateau", "leak")}
    assert said["leak"] == ["The run."]
    assert said["plateau"] == ["The run.", heap["sentence"] + "; it reuses memory that the process already had"]


def test_a_heap_that_was_read_once_is_not_called_flat(binary):
    samples = levels_of(60, lambda step: (280 << 20) + step * 600_000, lambda step: 80 << 20, lambda step: step == 0)
    (table,) = samples.tables()
    said = _verdict.of_table(table).sentences()
    assert len(said) == 1 and said[0].startswith("LEAK in process: "), said


def test_there_is_a_line_every_n_steps_and_one_per_epoch(log, lines):
    log.epoch(0)
    for step in range(1, 6):
        log.step(step)
    log.epoch_end()
    assert [line.split(":")[0] for line in lines] == ["step 2", "step 4", "epoch 0 ends at step 5"]
    assert all("process " in line and "iB" in line for line in lines)


def test_debug_mode_has_a_line_before_and_after_each_phase(lines):
    log = tidemark.TrainingLog(every=0, debug=True, census=False, out=lines.append)
    with log.phase("selfplay"):
        kept = bytearray(40 << 20)
    assert [line.split("]")[0] for line in lines] == ["[before selfplay", "[after selfplay"]
    assert "(+40." in lines[1] or "(+39." in lines[1], "the true difference"
    del kept
    log.close()


def test_a_phase_that_an_exception_left_open_is_closed_with_the_one_around_it(log, marks):
    log.phase_begin("outer")
    log.phase_begin("left open")
    log.phase_end("outer")
    log.phase_end("outer")
    log.phase_end("never begun")
    assert marks()[os.getpid()] == [("begin", "outer"), ("begin", "left open"), ("end", "left open"), ("end", "outer")]


def test_steps_that_go_backwards_are_no_trouble(log, marks, binary):
    for step in [*range(10, 20), *range(15, 20)]:
        log.step(step)
    log.close()
    assert [n for kind, n in marks()[os.getpid()] if kind == "step"] == [*range(10, 20), *range(15, 20)]
    steps = [row.step for row in log.samples.rows]
    assert steps == sorted(set(steps)), "what is judged goes forward only"


def test_the_summary_gives_the_judges_verdict_on_the_samples(lines, binary):
    log = tidemark.TrainingLog(every=0, census=False, share=1.0, out=lines.append)
    kept = []
    for step in range(60):
        log.step(step)
        kept.append(b"x" * (1 << 20))
    log.close()
    (verdict,) = log.verdicts
    process = next(each for each in verdict.document["series"] if each["name"] == "process (bytes)")
    assert process["verdict"] == "leak"
    assert process["bytes_per_step"] == pytest.approx(1 << 20, rel=0.1)
    assert lines[0].startswith("LEAK in process: "), "the answer comes first"
    assert lines[-1].startswith("60 steps in ")


def test_a_recording_too_short_to_judge_gives_way_to_the_samples(lines, binary, monkeypatch):
    short = _verdict.Verdict("undecided", "UNDECIDED", "", {})
    monkeypatch.setattr(_verdict, "of_recording", lambda *_: short)
    for steps, said in ((60, "LEAK in process: "), (1, "UNDECIDED")):
        lines.clear()
        log, kept = tidemark.TrainingLog(every=0, census=False, share=1.0, out=lines.append), []
        for step in range(steps):
            log.step(step)
            kept.append(b"x" * (1 << 20))
        log.close()
        assert lines[0].startswith(said) and not any("LEAK" in line or "UNDECIDED" in line for line in lines[1:])


def test_a_run_too_short_to_judge_is_told(lines, binary, monkeypatch):
    monkeypatch.delenv("TIDEMARK_RECORDING", raising=False)
    log = tidemark.TrainingLog(every=0, census=False, out=lines.append)
    log.step(1)
    log.close()
    assert lines[0] == "no verdict: too few samples"


def test_without_the_program_the_numbers_are_given_as_they_are(lines, monkeypatch, tmp_path):
    monkeypatch.setattr("tidemark._verdict.find", lambda: None)
    log = tidemark.TrainingLog(every=0, census=False, out=lines.append)
    log.step(1)
    log.close()
    assert lines[0].startswith("no verdict: the program 'tidemark' was not found")
    assert lines[1].startswith("process ") and " -> " in lines[1]


def test_after_the_end_calls_do_nothing(log, lines, marks):
    log.step(1)
    log.close()
    before = (list(lines), marks())
    log.step(2), log.epoch(1), log.items(5), log.phase_begin("p"), log.phase_end("p"), log.step_end(), log.close()
    assert (lines, marks()) == before


def test_a_forked_child_leaves_its_parents_log_alone(log, lines):
    log.step(1)
    pid = os.fork()
    if pid == 0:
        log.step(2)
        log.close()
        os._exit(0 if not lines else 1)
    assert os.waitpid(pid, 0)[1] == 0
    log.step(2)
    log.step(3)
    assert [line.split(":")[0] for line in lines] == ["step 2"]


def test_what_goes_wrong_inside_is_said_once_and_the_loop_goes_on(log, said, monkeypatch):
    def broken(*_):
        raise OSError("no /proc")

    monkeypatch.setattr(_samples, "process_bytes", broken)
    for step in range(20):
        log.step(step)
    err = said()
    assert err.count("failed and is skipped: OSError: no /proc") == 1
    assert err.startswith("tidemark: ")


def test_a_place_for_lines_that_raises_is_no_trouble(said):
    def out(_line):
        raise ValueError("closed file")

    log = tidemark.TrainingLog(every=1, census=False, out=out)
    log.step(1), log.step(2)
    log.close()
    assert said().count("ValueError: closed file") == 1


@pytest.mark.parametrize("wrong", [None, "three", float("nan"), object()])
def test_steps_that_are_no_numbers_are_said_and_left_out(log, lines, marks, said, wrong):
    log.step(wrong)
    log.epoch(wrong)
    log.items(wrong)
    log.step(1), log.step(2), log.step(3)
    assert [mark for mark in marks()[os.getpid()] if mark[0] in ("step", "epoch", "items")] == [("step", 1), ("step", 2), ("step", 3)]
    assert said().count("is skipped") >= 1
    assert [line.split(":")[0] for line in lines] == ["step 2"]


def test_threads_may_share_a_log(log, marks, said):
    def work():
        for step in range(60):
            log.step(step)
            with log.phase("inside"):
                pass

    crew = [threading.Thread(target=work) for _ in range(4)]
    [each.start() for each in crew]
    [each.join() for each in crew]
    found = collections.Counter(marks()[os.getpid()])
    assert found["begin", "inside"] == found["end", "inside"] == 4 * 60
    assert {number for kind, number in found if kind == "step"} == set(range(60))
    assert said() == ""


def test_samples_stay_bounded(monkeypatch):
    monkeypatch.setattr(_samples, "_ROWS_MOST", 64)
    samples = _samples.Samples(1.0)
    for step in range(1000):
        samples.take(step, step)
    assert len(samples.rows) <= 65 and samples.rows[0].step == 0


def run_program(code, env, *args):
    return subprocess.run([*args, sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **env})


def test_a_log_that_nobody_closes_ends_with_the_interpreter(binary):
    done = run_program("import tidemark\nlog = tidemark.TrainingLog(every=0)\nlog.step(1)\nraise SystemExit(3)", {})
    assert done.returncode == 3
    assert "tidemark: 1 steps in " in done.stderr and "Traceback" not in done.stderr


def test_under_a_tracker_the_recording_is_what_is_judged(binary, tmp_path):
    code = (
        "import time, tidemark\n"
        "log, kept = tidemark.TrainingLog(every=0), []\n"
        "for n in range(60):\n"
        "    log.step(n); kept.append(b'x' * (1 << 20)); time.sleep(0.05)\n"
        "time.sleep(1.2); log.close()\n"  # what is judged is what was committed: once a second
        "print(log.verdicts[0].document['source'], log.verdicts[0].document['axis'], log.verdicts[0].verdict)\n"
    )
    path = tmp_path / "a.tide"
    done = run_program(code, {}, str(binary), "run", "-q", "-i", "25ms", "-o", str(path), "--")
    assert done.stdout.split() == [str(path), "step", "leak"], done.stderr


def test_the_log_says_what_it_costs(log, lines, binary):
    log.step(1)
    log.close()
    assert "; measuring took " in lines[-1]
    assert log.cost_s() > 0


RANK = """
import os, time, tidemark
kept = []
log = tidemark.TrainingLog(every=0, census=False, share=0.05)
for step in range(400):
    log.step(step)
    if os.environ["RANK"] == "1":
        kept.append(bytearray(1 << 18))
    time.sleep(0.002)
log.close()
"""


def test_a_rank_that_grows_says_so_and_those_that_do_not_are_quiet(binary, monkeypatch):
    """The verdict is of the job, not of its first rank."""
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    ranks = [subprocess.Popen([sys.executable, "-c", RANK], env={**os.environ, "RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
             for rank in range(3)]
    first, second, third = [rank.communicate()[1] for rank in ranks]
    assert "tidemark: rank 0: FLAT" in first
    assert "tidemark: rank 1: LEAK in process" in second
    assert third == ""
