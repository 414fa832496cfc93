"""Cleanup that measures itself: true differences, and actions that free nothing are turned off."""

import gc

import pytest
import tidemark
from tidemark import _cleanup, _heap


class Cycle:
    def __init__(self, size):
        self.me = self
        self.kept = bytearray(size)


@pytest.fixture
def lines():
    return []


def action(cleanup, name):
    return next(each for each in cleanup.actions if each.name == name)


def test_what_frees_nothing_is_turned_off_and_said(lines):
    cleanup = tidemark.Cleanup(every=1, budget=1e9, out=lines.append)
    cleanup.run()  # what was there before
    for _ in range(8):
        cleanup.step()
    gc_action = action(cleanup, "gc")
    assert gc_action.off == "frees nothing"
    assert gc_action.runs <= 4
    assert any(line.startswith("cleanup: gc is turned off: 3 runs in a row freed nothing, ") for line in lines)
    assert "off: frees nothing" in cleanup.table()


def test_what_frees_is_kept_with_the_true_difference(lines):
    size = 20 << 20
    cleanup = tidemark.Cleanup(every=1, budget=1e9, verbose=True, out=lines.append)
    cleanup.run()
    for _ in range(5):
        Cycle(size)
        cleanup.step()
    gc_action = action(cleanup, "gc")
    assert gc_action.off == "" and gc_action.runs == 6
    assert gc_action.freed / 5 == pytest.approx(size, rel=0.05)
    assert gc_action.came_back / 5 == pytest.approx(size * 4 / 5, rel=0.05), "each cycle is as large as the last"
    assert any(line.startswith("cleanup: gc is kept: it freed ") for line in lines)
    assert any(line.startswith("[cleanup in step 3] gc took ") and " -> " in line for line in lines)


def test_auto_keeps_to_its_share_of_the_time(monkeypatch, lines):
    now = [0.0]
    monkeypatch.setattr(_cleanup, "perf_counter", lambda: now[0])
    cleanup = tidemark.Cleanup(every="auto", budget=0.01, out=lines.append)

    def slow():
        now[0] += 0.5

    for each in cleanup.actions:
        each.run = slow
    monkeypatch.setattr(cleanup, "_decide", lambda *_: None)  # go on, whatever it brings
    for steps in range(1, 20_001):
        now[0] += 0.1
        cleanup.step()
        assert cleanup.spent_s <= 0.01 * 0.1 * steps + 0.5, "from the first try on, no more than the one that is owed"
    spent = sum(each.cost_s for each in cleanup.actions)
    assert 0.005 < spent / 2000 <= 0.01 + 0.001


def test_a_fixed_interval_over_the_budget_is_turned_off_and_said(monkeypatch, lines):
    now = [0.0]
    monkeypatch.setattr(_cleanup, "perf_counter", lambda: now[0])
    cleanup = tidemark.Cleanup(every=1, budget=0.01, out=lines.append)
    only = action(cleanup, "gc")
    cleanup.actions = [only]

    def slow():
        now[0] += 0.05
        gc.collect()

    only.run = slow
    for _ in range(5):
        now[0] += 0.1
        Cycle(8 << 20)
        cleanup.step()
    assert only.off.startswith("takes ")
    assert any("more than 1 %; every='auto' would run it less often" in line for line in lines)


def test_what_was_turned_off_is_tried_again_when_the_process_has_grown(monkeypatch, lines):
    cleanup = tidemark.Cleanup(every=1, budget=1e9, out=lines.append)
    cleanup.run()
    for _ in range(5):
        cleanup.step()
    gc_action = action(cleanup, "gc")
    assert gc_action.off
    runs, large = gc_action.runs, gc_action.off_at * 2
    monkeypatch.setattr(_cleanup, "process_bytes", lambda: large)
    cleanup.step()
    assert gc_action.runs == runs + 1
    assert any("gc is tried again" in line for line in lines)


def test_an_action_that_raises_never_reaches_the_loop(said):
    cleanup = tidemark.Cleanup(every=1)
    action(cleanup, "gc").run = lambda: 1 / 0
    for _ in range(3):
        cleanup.step()
    assert said().count("cleaning up failed and is skipped: ZeroDivisionError") == 1


def test_what_cannot_be_done_here_is_named():
    table = tidemark.Cleanup().table()
    assert "zero_grad        -  no model or optimizer was given" in table


def test_an_interval_that_is_none_is_said(said):
    assert tidemark.Cleanup(every=0).every == "auto"
    assert "every must be 'auto' or a number of steps; using 'auto'" in said()


def test_gradients_are_freed_where_a_model_is_given(lines):
    class Model:
        freed = 0

        def zero_grad(self, set_to_none):
            assert set_to_none
            self.freed += 1

    model = Model()
    tidemark.Cleanup(model=model, out=lines.append).run()
    assert model.freed == 1


@pytest.mark.skipif(not _heap.can_trim(), reason="no glibc")
def test_the_heap_is_read_and_trimmed():
    before = _heap.heap()
    kept = [bytearray(1000) for _ in range(20_000)]
    during = _heap.heap()
    assert during.in_use - before.in_use == pytest.approx(20_000 * 1000, rel=0.2)
    del kept
    _heap.trim()
    assert _heap.heap().in_use < during.in_use
