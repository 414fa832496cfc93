"""What the system counts for this process and for everything that it started.

RSS of one process is cheap (microseconds). The tree is summed by PSS, so that pages which forked workers share with
their parent are counted once. That costs milliseconds, so callers decide how often. Where PSS cannot be read, RSS minus
shared pages is used.
"""

from __future__ import annotations

import os
from typing import List, NamedTuple, Optional

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MEMBERS_MOST = 4096
_statm: Optional[int] = None  # of this process, kept open because opening it in every step would cost more than reading it


class Tree(NamedTuple):
    bytes: int
    processes: int


def _forget() -> None:
    """In a forked child: the open file is the parent's. It is not closed, because the number may belong to another file now."""
    global _statm
    _statm = None


os.register_at_fork(after_in_child=_forget)


def _resident(file: int) -> int:
    return int(os.pread(file, 128, 0).split(None, 2)[1]) * _PAGE


def process_bytes() -> int:
    """RSS of this process; 0 where there is no /proc."""
    global _statm
    if _statm is not None:
        try:
            return _resident(_statm)
        except (OSError, ValueError, IndexError):  # the program may have closed all files
            _statm = None
    try:
        _statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        return _resident(_statm)
    except (OSError, ValueError, IndexError):
        return 0


def _children_of(pid: int) -> List[int]:
    found: List[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as text:
                found += map(int, text.read().split())
        except (OSError, ValueError):
            continue
    return found


def members() -> List[int]:
    """This process and its descendants."""
    found = [os.getpid()]
    for pid in found:  # grows during the loop
        if len(found) < _MEMBERS_MOST:
            found += _children_of(pid)
    return found


def _pss_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as text:
            for line in text:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        with open(f"/proc/{pid}/statm", "rb") as text:
            _, resident, shared = map(int, text.read().split()[:3])
            return max(0, resident - shared) * _PAGE
    except (OSError, ValueError):
        return 0


def tree_bytes() -> Tree:
    """PSS of this process and its descendants; without descendants, its RSS."""
    pids = members()
    if len(pids) == 1:
        return Tree(process_bytes(), 1)
    return Tree(sum(map(_pss_of, pids)), len(pids))
