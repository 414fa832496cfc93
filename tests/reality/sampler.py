"""What a process tree really takes, read from /proc by code that shares nothing with Tidemark's.

A Sampler is a thread that looks at a tree twice a second and keeps sums over its members: PSS, RSS, and private bytes, which
are anonymous and shared memory by their proportional share, and swap. `growth` and `slope` say what the floor of private bytes did.
"""

from __future__ import annotations

import pathlib
import statistics
import threading
import time
import typing

PROC = pathlib.Path("/proc")
INTERVAL_S = 0.5


class Look(typing.NamedTuple):
    second: float
    processes: int
    pss: int
    rss: int
    private: int


def parents() -> dict[int, int]:
    """The parent of each process."""
    found = {}
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_bytes()
        except OSError:
            continue
        found[int(entry.name)] = int(stat[stat.rindex(b")") + 2 :].split()[1])
    return found


def tree(root: int, without: typing.Optional[str]) -> list[int]:
    """root and what descends from it, less processes that run the program `without`."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    members, left = [], [root]
    while left:
        pid = left.pop()
        left.extend(children.get(pid, ()))
        try:
            program = (PROC / str(pid) / "exe").resolve()
        except OSError:
            continue
        if str(program) != without:
            members.append(pid)
    return members


def rollup(pid: int) -> dict[str, int]:
    """The sums of smaps, in bytes; empty of a process that is gone."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return {}
    fields = (line.split() for line in lines[1:])
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in fields if len(words) == 3}


class Sampler(threading.Thread):
    """Looks at the tree below `root` until `stop`."""

    def __init__(self, root: int, without: typing.Optional[str] = None):
        super().__init__(daemon=True)
        self.root, self.without = root, without
        self.looks: list[Look] = []
        self.ended = threading.Event()
        self.start()

    def look(self, began: float) -> None:
        sums = [found for found in map(rollup, tree(self.root, self.without)) if found]
        if not sums:
            return
        total = {key: sum(found.get(key, 0) for found in sums) for key in ("Pss", "Rss", "Pss_Anon", "Pss_Shmem", "SwapPss")}
        private = total["Pss_Anon"] + total["Pss_Shmem"] + total["SwapPss"]
        self.looks.append(Look(time.monotonic() - began, len(sums), total["Pss"], total["Rss"], private))

    def run(self) -> None:
        began = time.monotonic()
        while not self.ended.is_set():
            self.look(began)
            self.ended.wait(INTERVAL_S)

    def stop(self) -> list[Look]:
        self.ended.set()
        self.join()
        return self.looks


def stretch(looks: list[Look], first: float, last: float) -> list[Look]:
    """Those looks between two shares of the time."""
    end = looks[-1].second
    return [look for look in looks if first * end <= look.second <= last * end]


def low(looks: list[Look]) -> float:
    """The floor of some looks: their lower tenth, so that no single look decides."""
    values = sorted(look.private for look in looks)
    return values[len(values) // 10]


def growth(looks: list[Look]) -> typing.Optional[int]:
    """By how many bytes the floor rose from the third fifth of the time to the fourth: programs start and end in the others."""
    if len(looks) < 10:
        return None
    earlier, later = stretch(looks, 0.4, 0.6), stretch(looks, 0.6, 0.8)
    return int(low(later) - low(earlier)) if earlier and later else None


def slope(looks: list[Look]) -> typing.Optional[float]:
    """Bytes per second over the second two thirds of a run: the median of the slopes between looks half of that apart."""
    late = stretch(looks, 1 / 3, 1) if looks else []
    half = len(late) // 2
    if half < 5:
        return None
    return statistics.median(
        (b.private - a.private) / (b.second - a.second) for a, b in zip(late[:half], late[half:])
    )
