"""What the C library's allocator holds: bytes in use and bytes taken from the system; and returning free memory.

Without glibc, or before 2.33, there are no numbers. Without glibc there is nothing to trim.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional


class Heap(NamedTuple):
    in_use: int
    reserved: int


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def _function(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None


_mallinfo2 = _function("mallinfo2")
if _mallinfo2 is not None:
    _mallinfo2.restype = _Mallinfo2
_malloc_trim = _function("malloc_trim")


def heap() -> Optional[Heap]:
    if _mallinfo2 is None:
        return None
    found = _mallinfo2()
    return Heap(found.uordblks + found.hblkhd, found.arena + found.hblkhd)


def can_trim() -> bool:
    return _malloc_trim is not None


def trim() -> None:
    """Gives free memory back to the system."""
    if _malloc_trim is not None:
        _malloc_trim(ctypes.c_size_t(0))
