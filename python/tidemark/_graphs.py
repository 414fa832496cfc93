"""Autograd graphs that are alive: how many, how many forward passes they hold, and the tensors saved in them.

Most saved tensors are not Python objects, so the collector does not know them. They are found by walking from visible
tensors along ``grad_fn`` and ``next_functions``. A walk is bounded by nodes and by time.

Saved tensors that hooks have packed (activation checkpointing, offloading to the CPU) are not read, because unpacking
one means computing it again.
"""

from __future__ import annotations

import functools
import statistics
from time import perf_counter, thread_time
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

import torch

from ._fault import quietly

_NODES_MOST = 200_000
_CHANGED_ENOUGH = 3  # tensors in a row, saved under one name by one kind of node, that were changed in place
_CHANGED = "modified by an inplace operation"

_hooks_seen = False


class Graphs(NamedTuple):
    roots: int  # graphs that still hold what backward needs, and from which nothing alive was computed
    passes: int  # forward passes in them: how often the median parameter is used
    nodes: int
    complete: bool


def _watch_for_hooks() -> None:
    """Old torch cannot tell which saved tensors hooks have packed. There, once any hook was used, none is read."""
    holder = torch.autograd.graph.saved_tensors_hooks
    enter: Callable[[Any], Any] = holder.__enter__

    @functools.wraps(enter)
    def noted(self: Any) -> Any:
        global _hooks_seen
        _hooks_seen = True
        return enter(self)

    setattr(holder, "__enter__", noted)


_SavedTensor = getattr(getattr(torch, "_C")._autograd, "SavedTensor", None)
TELLS_HOOKS = hasattr(_SavedTensor, "unpack_hook")
if not TELLS_HOOKS:
    _watch_for_hooks()

_saved_names: Dict[type, Tuple[Tuple[str, str], ...]] = {}


def _names_of(node: Any) -> Tuple[Tuple[str, str], ...]:
    kind = type(node)
    names = _saved_names.get(kind)
    if names is None:
        raw = [name for name in dir(kind) if name.startswith("_raw_saved_")]
        names = _saved_names[kind] = tuple((name, name[len("_raw") :]) for name in raw)
    return names


def _packed(raw: Any) -> bool:
    if not TELLS_HOOKS:
        return _hooks_seen
    pieces = raw if isinstance(raw, (tuple, list)) else (raw,)
    return any(getattr(piece, "unpack_hook", None) is not None for piece in pieces)


def _saved_by(node: Any, changed: Dict[Tuple[type, str], int]) -> Iterator[Any]:
    """Yields the tensors that a node keeps. Raises RuntimeError if backward has freed them.

    A tensor that was changed in place after it was saved (a weight, by the optimizer) cannot be read, and torch takes
    up to half a millisecond to say so. ``changed`` counts these failures; after a few, the tensor is not read any more.
    """
    for raw_name, name in _names_of(node):
        times = changed.get((type(node), name), 0)
        if times >= _CHANGED_ENOUGH or _packed(getattr(node, raw_name)):
            continue
        try:
            value = getattr(node, name)
        except RuntimeError as error:
            if _CHANGED not in str(error):
                raise
            changed[type(node), name] = times + 1
            continue
        if times and value is not None:
            changed[type(node), name] = 0
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from (each for each in value if isinstance(each, torch.Tensor))
    if hasattr(node, "saved_tensors") and not _hooks_seen:  # a Function written in Python
        yield from (each for each in node.saved_tensors if isinstance(each, torch.Tensor))


class Walk:
    """A walk over the graphs of several roots that visits each node once. Keeps the nodes alive, so that ids stay unique."""

    def __init__(self, seconds: float) -> None:
        self.complete = True
        self._deadline = thread_time() + seconds  # processor time: a busy machine must not cut the walk short
        self.size = 0  # number of nodes seen before the next edge
        self._seen: Dict[Any, int] = {}  # node: number of the root from which it was first met
        self._reached: Set[Any] = set()
        self._roots: List[Any] = []
        self._alive: List[bool] = []  # by number of root: True if it leads to a saved tensor
        self._changed: Dict[Tuple[type, str], int] = {}
        self._uses: Dict[Any, int] = {}  # by the node that stands for a parameter: number of edges into it

    def _stop(self) -> bool:
        if len(self._seen) < _NODES_MOST and thread_time() < self._deadline:
            return False
        self.complete = False
        return True

    def _follow(self, node: Any, number: int, left: List[Any], uses: List[Any]) -> None:
        for following, _ in node.next_functions:
            if following is None:
                continue
            if type(following).__name__ == "AccumulateGrad":
                uses.append(following)
                continue
            self._reached.add(following)
            met = self._seen.setdefault(following, number)
            if met != number:
                self._alive[number] |= self._alive[met]
            elif len(self._seen) != self.size:
                left.append(following)
            self.size = len(self._seen)

    def root(self, start: Any, saved: Optional[Callable[[Any], None]]) -> None:
        """Walks from one node. ``saved`` is called with each saved tensor; None: saved tensors are not read."""
        if start in self._seen or self._stop():
            return
        number = len(self._roots)
        self._roots.append(start)
        self._alive.append(saved is None)
        self._seen[start] = number
        self.size = len(self._seen)
        uses: List[Any] = []
        self._from(start, number, uses, saved)
        if self._alive[number]:
            for parameter in uses:
                self._uses[parameter] = self._uses.get(parameter, 0) + 1

    def _from(self, start: Any, number: int, uses: List[Any], saved: Optional[Callable[[Any], None]]) -> None:
        left = [start]
        while left:
            node = left.pop()
            if saved is not None:
                try:
                    for tensor in _saved_by(node, self._changed):
                        self._alive[number] = True
                        saved(tensor)
                except RuntimeError:  # freed by a backward, which has then gone through everything behind this node
                    if not self._alive[number]:
                        return
            self._follow(node, number, left, uses)
            if len(self._seen) % 64 == 0 and self._stop():
                return

    def counts(self) -> Graphs:
        roots = sum(1 for node, alive in zip(self._roots, self._alive) if alive and node not in self._reached)
        passes = round(statistics.median(self._uses.values())) if self._uses else 0
        return Graphs(roots, passes if roots else 0, len(self._seen), self.complete)


class GraphCounter:
    """Counts the autograd graphs that each ``backward()`` goes through.

        with tidemark.torch.GraphCounter() as graphs:
            train()
        print(graphs.most, "forward passes were alive at once, in step", graphs.most_at)

    ``passes`` is how often the median parameter is used in what one backward goes through: 1 in a plain loop, 50 if 50
    losses were summed first. Counting takes about a microsecond per node of the graph. If ``share`` is set, backwards
    are skipped so that counting stays below that share of the time.
    """

    def __init__(self, share: float = 0.0, seconds: float = 0.5) -> None:
        self.last = 0
        self.most = 0
        self.most_at = 0
        self.calls = 0
        self.counted = 0
        self.step = 0  # set by the caller, to say when
        self.cost_s = 0.0  # processor time
        self._share = share
        self._seconds = seconds
        self._due = 0.0
        self._before: Optional[Callable[..., Any]] = None

    def _count(self, tensors: Any) -> None:
        start, used = perf_counter(), thread_time()
        walk = Walk(self._seconds)
        for tensor in tensors if isinstance(tensors, (list, tuple)) else (tensors,):
            node = getattr(tensor, "grad_fn", None)
            if node is not None:
                walk.root(node, None)
        self.last = max(walk.counts().passes, 1)
        self.counted += 1
        if self.last > self.most:
            self.most, self.most_at = self.last, self.step
        cost = thread_time() - used
        self.cost_s += cost
        self._due = start + cost / self._share if self._share > 0 else 0.0

    def start(self) -> "GraphCounter":
        if self._before is not None:
            return self
        before = self._before = torch.autograd.backward

        @functools.wraps(before)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if self._before is not None:
                self.calls += 1
                if self._share <= 0 or perf_counter() >= self._due:
                    with quietly("counting autograd graphs"):
                        self._count(tensors)
            return before(tensors, *args, **kwargs)

        self._ours = backward
        torch.autograd.backward = backward
        return self

    def stop(self) -> None:
        """Removes the counter. If somebody else has wrapped backward since, it only stops counting."""
        if self._before is not None and torch.autograd.backward is self._ours:
            torch.autograd.backward = self._before
        self._before = None

    def __enter__(self) -> "GraphCounter":
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.stop()


def walk_roots(nodes: Iterable[Any], seconds: float, saved: Callable[[Any, int], None]) -> Graphs:
    """Walks from each node and calls ``saved(tensor, number of the root)``."""
    walk = Walk(seconds)
    for number, node in enumerate(nodes):
        walk.root(node, functools.partial(_with_number, saved, number))
    return walk.counts()


def nodes_behind(starts: Iterable[Any], seconds: float) -> List[int]:
    """Returns how many nodes are first met from each start, without those of parameters. Reads no saved tensor."""
    walk, counts = Walk(seconds), []
    for start in starts:
        before = walk.size
        walk.root(start, None)
        counts.append(walk.size - before)
    return counts


def _with_number(saved: Callable[[Any, int], None], number: int, tensor: Any) -> None:
    saved(tensor, number)
