"""What a training loop says about its memory while it runs, and the summary at its end.

One object serves the callbacks (hf.py, lightning.py), ``watch`` and hand-written loops. Each call is cheap and none
raises: samples take one share of the time at most, censuses another, and a failure is reported once.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import os
import sys
from time import perf_counter
from typing import Any, Callable, Iterator, List, Optional, TypeVar, cast

from . import _lane, _verdict
from ._cleanup import Cleanup
from ._fault import never_raises, quietly, report_quietly, say
from ._samples import Levels, Samples
from ._units import change_text, duration_text, size_text

_CENSUS_FIRST_STEP = 3  # by then optimizer state and caches exist
_CENSUS_SECONDS = 0.1  # at most, for finding holders and graphs
_GROWTHS_MOST = 5
_GROWTH_LEAST = 64 << 10
_GROWTH_SHARE = 0.02  # of the largest: smaller ones are not reported
_LARGEST_MOST = 5

_NEVER = 1 << 62  # steps

_F = TypeVar("_F", bound=Callable[..., Any])
_forks = 0  # from the first process to this one


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


def _while_open(method: _F) -> _F:
    """Guards a method. It does nothing after the end, or in a forked child, which has inherited its parent's log."""
    safe = never_raises(method)

    @functools.wraps(method)
    def checked(self: "TrainingLog", *args: Any, **kwargs: Any) -> Any:
        if self.closed or self._forks != _forks:
            return None
        return safe(self, *args, **kwargs)

    return cast(_F, checked)


def _rank_of_job() -> Optional[int]:
    """Returns the rank of this process in a job of several; None if it is alone."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if not rank.isdecimal() or (size.isdecimal() and int(size) < 2):
        return None
    return int(rank)


class TrainingLog:
    """Marks, lines and a summary for a training loop.

        log = tidemark.TrainingLog(every=50)
        for epoch in range(3):
            log.epoch(epoch)
            for batch in loader:
                log.step(step)
                ...
            with log.phase("validation"):
                evaluate()
        log.close()

    ``every``: steps between lines, 0 for none. ``debug``: a line before and after each phase. ``census``: count tensors
    (if torch is loaded). ``share``: the share of the time that samples may take; censuses may take as much again.
    ``items``: in one pass over the data, to recognise a cache that fills once. ``out``: gets each line; the default is
    standard error. A log that is not closed gives its summary when the interpreter ends.
    """

    def __init__(
        self,
        *,
        every: int = 100,
        debug: bool = False,
        census: bool = True,
        share: float = 0.0003,
        items: Optional[int] = None,
        cleanup: Optional[Cleanup] = None,
        out: Optional[Callable[[str], None]] = None,
        quiet: Optional[bool] = None,
    ) -> None:
        self.pid = os.getpid()
        self._forks = _forks
        self.closed = False
        self.every = every
        self.debug = debug
        self.items_per_pass = items
        self.censuses: List[Any] = []
        self.verdicts: List[_verdict.Verdict] = []
        self._whole: Optional[_verdict.Verdict] = None  # the verdict on the recording of the whole job
        self.samples = Samples(share)
        self.graphs: Any = None
        self._cleanup = cleanup
        self._census_wanted = census
        self._census_due = 0.0
        self._census_step = 0  # steps done at the latest census
        self._census_cost_s = 0.0
        self._roster: Any = None
        self._noted_before_s = 0.0
        self.extra_censuses_s: List[float] = []  # the first, and those at the end of an epoch: not part of the share
        self._share = share
        self._out = out
        self._rank = _rank_of_job()
        self._quiet = self._rank not in (None, 0) if quiet is None else quiet
        self._may_speak = quiet is None or not quiet  # a rank that is quiet by default still reports its growth
        self._step: Optional[int] = None
        self._open_step = False
        self._in_loop = True  # the training functions still run, with all that they hold
        self._steps = 0
        self._due_steps = 0  # until this many steps, only marks are left,
        self._due_s = 0.0  # and until this time
        self._began = perf_counter()
        self._epoch: Optional[int] = None
        self._at_line: Optional[Levels] = None
        self._at_epoch: Optional[Levels] = None
        self._items: Optional[int] = None
        self._phases: List[str] = []
        self._before_phase: List[Optional[Levels]] = []
        atexit.register(self._at_exit)
        if census and "torch" in sys.modules:
            with quietly("preparing the census"):
                from . import _census

                _census.prepare()  # here, so that the third step is not slow

    def _at_exit(self) -> None:
        with quietly("the summary at the end"):
            self._in_loop = False
            self.close()

    def line(self, text: str) -> None:
        """Writes one line to the output."""
        if self._quiet:
            return
        with quietly("writing a line"):
            if self._out is not None:
                self._out(text)
            else:
                say(f"tidemark: {text}")

    @property
    def last_step(self) -> int:
        return self._step if self._step is not None else 0

    # ---- steps

    def step(self, n: int) -> None:
        """A step begins; the one before it has ended."""
        # Runs in every step, when none of this code is cached any more: each avoided call counts.
        if self.closed or self._forks != _forks:
            return
        try:
            if self._open_step:
                self._end_step()
            n = int(n)
            _lane.step(n)
            self._step = n
            self._open_step = True
            self._steps += 1
            if self.graphs is not None:
                self.graphs.step = n
        except Exception as error:  # noqa: BLE001 - as never_raises
            report_quietly("tidemark's step", error)

    def step_end(self) -> None:
        """The step is over and nothing of it is needed any more. Optional: the next step() ends it too."""
        if not self._open_step or self.closed or self._forks != _forks:
            return
        try:
            self._end_step()
        except Exception as error:  # noqa: BLE001 - as never_raises
            report_quietly("tidemark's step_end", error)

    def _end_step(self) -> None:
        self._open_step = False
        if self._steps >= self._due_steps or perf_counter() >= self._due_s:
            self._do_what_is_due()

    def _do_what_is_due(self) -> None:
        n, steps, now = self.last_step, self._steps, perf_counter()
        if self._cleanup is not None:
            self._cleanup.step(n)
        shown = self.every > 0 and steps % self.every == 0
        if shown or now >= self.samples.due_s or steps >= self.samples.due_steps:
            levels = self.samples.take(n, steps, counted=shown)
            if shown:
                self.line(f"step {n}: {levels.words(self._at_line)}{self._graph_words()}")
                self._at_line = levels
        if self._census_wanted and steps >= _CENSUS_FIRST_STEP and now >= self._census_due:
            self._take_census(extra=not self.censuses)
        self._plan(steps)

    def _plan(self, steps: int) -> None:
        """Sets when there is something to do again."""
        next_line = steps - steps % self.every + self.every if self.every > 0 else _NEVER
        self._due_steps = min(self.samples.due_steps, next_line)
        self._due_s = self.samples.due_s
        if self._cleanup is not None:
            self._due_steps = 0
        if self._census_wanted:
            self._due_s = min(self._due_s, self._census_due) if self.censuses else 0.0

    def _graph_words(self) -> str:
        if self.graphs is None or self.graphs.last <= 1:
            return ""
        return f", {self.graphs.last} forward passes alive in backward"

    def count_graphs(self) -> None:
        """From now on, count the forward passes that each backward goes through."""
        with quietly("counting autograd graphs"):
            if self.graphs is None and "torch" in sys.modules:
                from ._graphs import GraphCounter

                self.graphs = GraphCounter(share=self._share / 4).start()

    def _take_census(self, extra: bool = False) -> None:
        if "torch" not in sys.modules:
            return
        from ._census import census, roster

        if self._roster is None:
            self._roster, self._noted_before_s = roster, roster.cost_s
        start = perf_counter()
        seen = census(self.last_step, _CENSUS_SECONDS)
        for kind, size in seen.by_kind.items():
            _lane.gauge(f"torch {kind}" if kind not in ("held", "unknown") else f"torch tensors {kind}", size)
        self._census_step = self._steps
        self.censuses.append(seen)
        if len(self.censuses) > 8:
            del self.censuses[len(self.censuses) // 2]
        cost = perf_counter() - start
        self._census_cost_s += cost
        if extra:
            self.extra_censuses_s.append(cost)
        self._census_due = start + cost / self._share

    # ---- epochs, phases, items

    @_while_open
    def epoch(self, n: int) -> None:
        """An epoch begins."""
        if self._open_step:
            self._end_step()
        self._epoch_line()
        _lane.epoch(n)
        self._epoch = int(n)

    @_while_open
    def epoch_end(self) -> None:
        if self._open_step:
            self._end_step()
        self._epoch_line()

    def _epoch_line(self) -> None:
        if self._epoch is None:
            return
        # A short run ends before the next census is due. One more at each doubling costs a long run little.
        if self.censuses and self._steps >= 2 * self._census_step:
            self._take_census(extra=True)
        levels = self.samples.take(self.last_step, self._steps, fresh=True)
        self.line(f"epoch {self._epoch} ends at step {self.last_step}: {levels.words(self._at_epoch)}")
        self._at_epoch = levels
        self._epoch = None

    def items(self, seen: int) -> None:
        """The number of items seen so far."""
        if self.closed or self._forks != _forks:
            return
        try:
            self._items = int(seen)
            _lane.items(seen)
        except Exception as error:  # noqa: BLE001 - as never_raises
            report_quietly("tidemark's items", error)

    @_while_open
    def phase_begin(self, name: str) -> None:
        _lane.phase_begin(name)
        self._phases.append(name)
        levels = self.samples.take(self.last_step, self._steps, fresh=True) if self.debug else None
        self._before_phase.append(levels)
        if levels is not None:
            self.line(f"[before {name}] {levels.words()}")

    @_while_open
    def phase_end(self, name: str) -> None:
        """Ends the phase of this name, and inner ones that an exception left open. Does nothing if it is not open."""
        if name not in self._phases:
            return
        while self._phases:
            inner, before = self._phases.pop(), self._before_phase.pop()
            _lane.phase_end(inner)
            if self.debug and inner == name:
                levels = self.samples.take(self.last_step, self._steps, fresh=True)
                self.line(f"[after {name}] {levels.words(before)}")
            if inner == name:
                return

    def in_phase(self, name: Optional[str] = None) -> bool:
        """True if this phase is open, or any phase if there is no name."""
        return name in self._phases if name is not None else bool(self._phases)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A named phase; in debug mode with a line before and after it."""
        self.phase_begin(name)
        try:
            yield
        finally:
            self.phase_end(name)

    # ---- the end

    @_while_open
    def close(self) -> None:
        """The training is over: writes the summary, once. Later calls do nothing."""
        atexit.unregister(self._at_exit)
        try:
            if self._open_step:
                self._end_step()
            for name in self._phases[:]:
                self.phase_end(name)
            self._epoch_line()
            if self.graphs is not None:
                self.graphs.stop()
            if self._steps:
                self._summary()
        finally:
            self.closed = True

    def cost_s(self) -> float:
        """Seconds that samples, censuses and counting have taken so far."""
        return self.samples.cost_s + self._census_cost_s + self.background_s()

    def background_s(self) -> float:
        """The part of it that was spent outside calls of this log: in backward, and in the collector."""
        noted = self._roster.cost_s - self._noted_before_s if self._roster is not None else 0.0
        return noted + (self.graphs.cost_s if self.graphs is not None else 0.0)

    def _summary(self) -> None:
        if self._quiet:
            if self._may_speak:
                with quietly("judging this rank"):
                    self._speak_if_grown()
            return
        elapsed = perf_counter() - self._began
        own = self.cost_s()
        if not self.samples.rows or self.samples.rows[-1].step != self.last_step:
            self.samples.take(self.last_step, self._steps, fresh=True)
        first, last = self.samples.rows[0], self.samples.rows[-1]
        share = 100 * own / elapsed if elapsed > 0 else 0.0
        with quietly("judging the run"):
            self._judge()
        with quietly("the summary of what grew"):
            self._growth_lines()
        change = change_text(last.process - first.process)
        self.line(f"process {size_text(first.process)} -> {size_text(last.process)} ({change})")
        self.line(f"{self._steps} steps in {duration_text(elapsed)}; measuring took {duration_text(own)}, {share:.2f} %")
        with quietly("the summary of tensors"):
            self._tensor_summary()
        if self.graphs is not None and self.graphs.most > 1:
            self.line(f"up to {self.graphs.most} forward passes were alive in one backward, first in step {self.graphs.most_at}")
        if self._cleanup is not None:
            for row in self._cleanup.table().splitlines():
                self.line(row)

    def _speak_if_grown(self) -> None:
        """Reports growth of a rank that is otherwise silent, because the first rank's verdict does not cover the job.
        Under ``tidemark run`` the recording covers the whole job, and the first rank reports it."""
        self._find_verdicts()
        grown = [each for each in self.verdicts if each.verdict in _verdict.GROWN]
        if not grown or self._whole is not None:
            return
        self._quiet = False
        for each in grown:
            for sentence in each.sentences():
                self.line(f"rank {self._rank}: {sentence}")
        with quietly("the summary of what grew"):
            self._growth_lines()

    def _find_verdicts(self) -> None:
        per_step = self._items / self._steps if self._items else None
        whole = _verdict.of_recording(self.items_per_pass, per_step)
        decided = whole is not None and whole.verdict != "undecided"
        found = [] if decided else [_verdict.of_table(table, self.items_per_pass, per_step) for table in self.samples.tables()]
        if any(each is not None and each.verdict != "undecided" for each in found):
            whole = None  # a recording of a few seconds has fewer samples than this log
        self._whole = whole
        self.verdicts = [each for each in [whole, *found] if each is not None]

    def _judge(self) -> None:
        self._find_verdicts()
        for each in self.verdicts:
            who = "" if self._rank is None or each is self._whole else f"rank {self._rank}: "
            for sentence in each.sentences():
                self.line(who + sentence)
        if not self.verdicts:
            missing = "the program 'tidemark' was not found; see python/README.md"
            self.line(f"no verdict: {'too few samples' if _verdict.available() else missing}")

    def _tensor_summary(self) -> None:
        if not self.censuses:
            return
        last = self.censuses[-1]
        self.line(f"{last.tensors} tensors, {size_text(last.bytes)}, {last.graphs} autograd graphs alive; the largest:")
        for text in last.rows(_LARGEST_MOST):
            self.line(text)

    def _growth_lines(self) -> None:
        """What keeps growing. If only the judge saw growth, what differs between the first census and the last."""
        if not self.censuses:
            return
        if self._in_loop and self._steps > self._census_step:
            self._take_census()
        from ._growth import lasting

        growths, beginning = lasting(self.censuses, _GROWTH_LEAST), "growing"
        grown = any(each.verdict in _verdict.GROWN for each in self.verdicts)
        if not growths and grown:
            growths = lasting(self.censuses, 1)  # small tensors, but each may have a graph behind it
        if not growths and grown:
            first = self.censuses[0]
            differences = self.censuses[-1].since(first, _GROWTH_LEAST)
            growths, beginning = [dataclasses.replace(each, steps=None) for each in differences], f"more than in step {first.step}"
        most = growths[0].bytes if growths else 0
        for growth in [each for each in growths if each.bytes > most * _GROWTH_SHARE][:_GROWTHS_MOST]:
            self.line(f"{beginning}: {growth}")
        if any(each.kind == "autograd graph" or (each.kind == "held" and each.requires_grad) for each in growths):
            self.line("a tensor that is kept keeps its autograd graph: keep loss.item() or tensor.detach() instead")
