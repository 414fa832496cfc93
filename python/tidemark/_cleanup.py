"""Cleanup that measures itself: what each action freed, what it cost, and whether it is worth going on with.

Recipes say "collect garbage every ten steps". Whether that frees anything depends on the program, and it always costs
time. Here each action is tried a few times, and its effect is read from the counters that it should move. Only actions
that free something go on, as often as the time budget allows. Freed memory may come back; the table says that too.
"""

from __future__ import annotations

import dataclasses
import sys
from time import perf_counter
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Union

from . import _heap
from ._fault import quietly, say
from ._memory import process_bytes
from ._roster import collect_alone
from ._units import change_text, duration_text, size_text

_TRIES = 3
_LEAST_BYTES = 1 << 20  # freeing less than this, or than a thousandth of the process, counts as nothing
_AUTO_STEPS_LEAST = 10
_GROWN = 1.25  # an action that was turned off is tried again after the process has grown by this factor


class Reading(NamedTuple):
    """Counters that cleanup can change: of the process, of the C library's heap, of devices."""

    process: int
    heap: int
    allocated: int
    reserved: int

    def minus(self, other: "Reading") -> "Reading":
        return Reading(*(a - b for a, b in zip(self, other)))


def _device_bytes() -> "tuple[int, int]":
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return 0, 0
    if torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        return sum(map(torch.cuda.memory_allocated, devices)), sum(map(torch.cuda.memory_reserved, devices))
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        return torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory()
    return 0, 0


def read() -> Reading:
    allocator = _heap.heap()
    return Reading(process_bytes(), allocator.in_use if allocator else 0, *_device_bytes())


@dataclasses.dataclass
class Action:
    """One kind of cleanup, and its results. ``moves``: the counters that it should lower."""

    name: str
    run: Callable[[], Any]
    moves: "tuple[str, ...]"
    runs: int = 0
    freed: int = 0
    came_back: int = 0
    cost_s: float = 0.0
    useless: int = 0  # runs in a row that freed nothing
    off: str = ""  # why it no longer runs
    off_at: int = 0  # bytes of the process at that time
    last_step: int = 0
    level_after: Optional[int] = None
    last_freed: int = 0

    def level(self, reading: Reading) -> int:
        return sum(getattr(reading, name) for name in self.moves)

    @property
    def cost_each_s(self) -> float:
        return self.cost_s / self.runs if self.runs else 0.0


def _empty_cache() -> None:
    torch: Any = sys.modules["torch"]
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    else:
        torch.mps.empty_cache()


def _has_device() -> bool:
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return False
    mps = getattr(torch.backends, "mps", None)
    return bool(torch.cuda.is_available() or (mps is not None and mps.is_available()))


def _actions(model: Any) -> "tuple[List[Action], Dict[str, str]]":
    """Returns the actions that are possible here, and why the others are not."""
    found, missing = [Action("gc", collect_alone, ("heap", "allocated"))], {}
    if model is not None:
        found.append(Action("zero_grad", lambda: model.zero_grad(set_to_none=True), ("heap", "allocated")))
    else:
        missing["zero_grad"] = "no model or optimizer was given"
    if _has_device():
        found.append(Action("empty_cache", _empty_cache, ("reserved",)))
    else:
        missing["empty_cache"] = "no GPU"
    if _heap.can_trim():
        found.append(Action("malloc_trim", _heap.trim, ("process",)))
    else:
        missing["malloc_trim"] = "no glibc"
    return found, missing


class Cleanup:
    """Frees memory while training, and says what that achieved.

        cleanup = tidemark.Cleanup(every="auto")
        for batch in loader:
            ...
            optimizer.step()
            cleanup.step()
        print(cleanup.table())

    ``every``: steps between cleanups, or "auto" for as often as ``budget`` (a share of the time) allows.
    ``model``: a model or optimizer whose gradients may be freed. Then call ``step()`` only where gradients are no
    longer needed: after ``optimizer.step()``, not between the parts of an accumulated batch.
    ``verbose``: prints a line for every action; otherwise only decisions are printed. ``out`` gets the lines.
    """

    def __init__(
        self,
        every: Union[int, str] = "auto",
        *,
        model: Any = None,
        budget: float = 0.01,
        verbose: bool = False,
        out: Optional[Callable[[str], None]] = None,
    ) -> None:
        if every != "auto" and (not isinstance(every, int) or every < 1):
            say(f"tidemark: Cleanup(every={every!r}): every must be 'auto' or a number of steps; using 'auto'")
            every = "auto"
        self.actions, self.missing = _actions(model)
        self.every = every
        self.budget = budget
        self.verbose = verbose
        self.spent_s = 0.0
        self._out = out
        self._allowance_s = 0.0
        self._training_s = 0.0
        self._steps = 0
        self._step = 0
        self._at: Optional[float] = None

    def _line(self, text: str) -> None:
        if self._out is not None:
            self._out(text)
        else:
            say(f"tidemark: {text}")

    def step(self, n: Optional[int] = None) -> None:
        """A step has ended. Runs what is due; never raises."""
        with quietly("cleaning up"):
            now = perf_counter()
            self._steps += 1
            self._step = self._steps if n is None else int(n)
            if self._at is not None:
                self._training_s += now - self._at
                self._allowance_s += (now - self._at) * self.budget
            for action in self._due():
                self._run(action)
            self._at = perf_counter()

    def run(self) -> Dict[str, int]:
        """Runs all actions now. Returns the bytes that each freed."""
        with quietly("cleaning up"):
            return {action.name: self._run(action) for action in self.actions}
        return {}

    def _due(self) -> Iterator[Action]:
        """Yields one action at a time, because each run, also the first, uses up time that the next may not take."""
        if self.every != "auto":
            yield from (a for a in self.actions if self._steps % int(self.every) == 0 and self._on(a))
            return
        for action in sorted(self.actions, key=lambda each: each.last_step):
            if self._steps - action.last_step < _AUTO_STEPS_LEAST or action.cost_each_s > self._allowance_s:
                continue
            if self._on(action):
                yield action

    def _on(self, action: Action) -> bool:
        if not action.off:
            return True
        if process_bytes() < action.off_at * _GROWN:
            return False
        action.off, action.useless = "", 0
        self._line(f"cleanup: {action.name} is tried again: the process has grown since")
        return True

    def _run(self, action: Action) -> int:
        begin = perf_counter()
        before = read()
        start = perf_counter()
        action.run()
        cost = perf_counter() - start
        after = read()
        freed = max(0, action.level(before) - action.level(after))
        if action.level_after is not None:
            action.came_back += min(action.last_freed, max(0, action.level(before) - action.level_after))
        action.level_after, action.last_freed = action.level(after), freed
        worth = freed >= max(_LEAST_BYTES, after.process // 1000)
        action.useless = 0 if worth else action.useless + 1
        action.runs += 1
        action.freed += freed
        action.cost_s += cost
        action.last_step = self._steps
        if self.verbose:
            self._say_run(action, cost, before, after)
        self._decide(action, after)
        taken = perf_counter() - begin
        self.spent_s += taken
        self._allowance_s -= taken
        return freed

    def _say_run(self, action: Action, cost: float, before: Reading, after: Reading) -> None:
        change = after.minus(before)
        parts = [f"process {size_text(before.process)} -> {size_text(after.process)} ({change_text(change.process)})"]
        for name in ("heap", "allocated", "reserved"):
            if getattr(before, name) or getattr(after, name):
                parts.append(f"{name} {change_text(getattr(change, name))}")
        self._line(f"[cleanup in step {self._step}] {action.name} took {duration_text(cost)}: {', '.join(parts)}")

    def _decide(self, action: Action, after: Reading) -> None:
        share = 0.0  # share of the time, at the interval that was asked for
        if self.every != "auto" and action.runs >= _TRIES and self._training_s > 0:
            share = action.cost_each_s * self._steps / int(self.every) / self._training_s
        each = duration_text(action.cost_each_s)
        if action.useless >= _TRIES:
            action.off, action.off_at = "frees nothing", after.process
            self._line(f"cleanup: {action.name} is turned off: {_TRIES} runs in a row freed nothing, {each} each")
        elif share > self.budget:
            action.off, action.off_at = f"takes {share * 100:.1f} % of the time", after.process
            self._line(
                f"cleanup: {action.name} is turned off: it takes {share * 100:.1f} % of the time, "
                f"more than {self.budget * 100:g} %; every='auto' would run it less often"
            )
        elif action.runs == _TRIES:
            self._line(f"cleanup: {action.name} is kept: it freed {size_text(action.freed / action.runs)} for {each} each time")

    def table(self) -> str:
        """What each action did and cost, measured on this run."""
        lines = [f"{'cleanup':12} {'runs':>5} {'freed each':>11} {'came back':>11} {'cost each':>10} {'of time':>8}"]
        for action in self.actions:
            runs = max(1, action.runs)
            share = f"{100 * action.cost_s / self._training_s:.2f} %" if self._training_s > 0 else "-"
            lines.append(
                f"{action.name:12} {action.runs:>5} {size_text(action.freed // runs):>11} "
                f"{size_text(action.came_back // max(1, action.runs - 1)):>11} {duration_text(action.cost_each_s):>10} {share:>8}"
                + (f"  off: {action.off}" if action.off else "")
            )
        lines += [f"{name:12} {'-':>5}  {why}" for name, why in self.missing.items()]
        return "\n".join(lines)
