"""Samples of memory at steps, taken as often as a share of the time allows, in bounded memory."""

from __future__ import annotations

from time import perf_counter
from typing import Dict, List, NamedTuple, Optional, Sequence

from ._counters import publish
from ._memory import Tree, process_bytes, tree_bytes
from ._units import change_text, size_text
from ._verdict import Table

_ROWS_MOST = 8192
_TREES_LEAST = 12  # fewer are not judged


class Levels(NamedTuple):
    """Memory at one moment. ``tree`` and ``counters`` are the latest readings; the counters are of now if ``counted``."""

    step: int
    process: int
    tree: Tree
    counters: Dict[str, int]
    counted: bool

    def words(self, since: Optional["Levels"] = None) -> str:
        """Framework, driver, process and whole tree in one line."""
        change = f" ({change_text(self.process - since.process)})" if since and since.process != self.process else ""
        parts = [f"process {size_text(self.process)}{change}"]
        if self.tree.processes > 1:
            parts.append(f"tree {size_text(self.tree.bytes)} in {self.tree.processes} processes")
        for name, size in self.counters.items():
            if not name.startswith("cpu heap reserved"):
                parts.append(f"{name} {size_text(size)}")
        return ", ".join(parts)


class Samples:
    """A series of levels. ``take`` always reads. ``due_s`` and ``due_steps`` say when to, to stay below ``share``.

    A run of quick steps gets a few samples above its share, one for every 16th part of the steps so far, so that there
    is something to judge.
    """

    def __init__(self, share: float) -> None:
        self.rows: List[Levels] = []
        self.trees: List[Levels] = []  # those for which the tree was read
        self.cost_s = 0.0
        self.due_s = 0.0  # by perf_counter()
        self.due_steps = 0  # or after this many steps, whichever comes first
        self._share = share
        self._tree_due = 0.0
        self._counters_due = 0.0
        self._counters: Dict[str, int] = {}
        self._tree = Tree(0, 1)

    def take(self, step: int, steps: int, fresh: bool = False, counted: bool = False) -> Levels:
        """Reads RSS, and what else is due; with ``fresh`` everything, with ``counted`` the counters. ``steps``: done so far."""
        start = perf_counter()
        self.due_steps = steps + steps // 15 + 1
        process = process_bytes()
        counted = counted or fresh or start >= self._counters_due  # a fragmented heap takes long to count
        if counted:
            before = perf_counter()
            self._counters = publish()
            self._counters_due = before + (perf_counter() - before) / (self._share / 8)
        read_tree = fresh or start >= self._tree_due
        if read_tree:
            before = perf_counter()
            self._tree = tree_bytes()
            self._tree_due = before + (perf_counter() - before) / (self._share / 8)
        tree = self._tree if self._tree.processes > 1 else Tree(process, 1)
        levels = Levels(step, process, tree, self._counters, counted)
        if self.rows and self.rows[-1].step >= step:  # counts started over, but the judge needs a rising axis
            levels = levels._replace(step=self.rows[-1].step)
        else:
            self.rows.append(levels)
            if read_tree and tree.processes > 1:
                self.trees.append(levels)
            self._thin()
        cost = perf_counter() - start
        self.cost_s += cost
        self.due_s = start + cost / self._share
        return levels

    def _thin(self) -> None:
        for rows in (self.rows, self.trees):
            if len(rows) > _ROWS_MOST:
                del rows[1::2]

    def tables(self) -> List[Table]:
        """For the judge: the process with its counters where they were read, and the tree if there was one."""
        found: List[Table] = []
        if self.rows:
            names = [name for name in self.rows[-1].counters if all(name in row.counters for row in self.rows)]
            rows: List[Sequence[Optional[float]]] = [
                [row.step, row.process, *(row.counters[name] if row.counted else None for name in names)] for row in self.rows
            ]
            found.append((["step", "process", *names], rows))
        if len(self.trees) >= _TREES_LEAST:
            found.append((["step", "process tree"], [[row.step, row.tree.bytes] for row in self.trees]))
        return found
