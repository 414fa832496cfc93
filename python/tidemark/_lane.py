"""The writing end of the channel: the layout and protocol of src/channel/lane.h, in Python.

A tracked process finds the channel's directory in TIDEMARK_CHANNEL and makes one file in it, its lane,
"marks-PID-START-py" (the C library makes one without the suffix, so that both can write in one process).

The numbers below are the layout. A slot is written in one piece with sequence 0, and its sequence after that; a lock
keeps threads apart. The lock is reentrant, because a signal handler or a finalizer may run between any two calls and
leave a mark of its own. For the same reason the head is written from the current count, which such a mark has
increased. A forked child gets a new lock.

The head is written through a view of one number, which is one store. struct.pack_into writes zeros first, and a reader
that sees the head go back gives up the lane.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import struct
import threading
from time import monotonic_ns
from typing import Any

_MAGIC = 0x31656E616C646974
_SLOTS = 2048
_SPARE = "spare"
_SLOT_BYTES = 128
_HEAD_BYTES = 128
_LANE_BYTES = _HEAD_BYTES + _SLOTS * _SLOT_BYTES
_NAME_MOST = 95
_HEAD_AT = 24  # where the number of slots taken is

_STEP, _EPOCH, _PHASE_BEGIN, _PHASE_END, _ITEMS, _GAUGE = range(1, 7)

_put_number = struct.Struct("=Q").pack_into
_put_bare = struct.Struct("=QqqIIc").pack_into  # sequence, t_ns, number, kind, tid, the NUL of an empty name
_put_named = struct.Struct("=QqqII96s").pack_into

# What a number or a name of the wrong type raises. A program that trains untracked must train tracked too.
_NOT_A_MARK = (TypeError, ValueError, OverflowError, AttributeError, struct.error)


class _Lane:
    """The state of this process. ``state`` is None before the first call, False without a tracker, otherwise the map."""

    __slots__ = ("state", "taken", "head", "lock")

    def __init__(self) -> None:
        self.state: Any = None
        self.taken = 0
        self.head: Any = None  # a view of the number of slots taken, in the map
        self.lock = threading.RLock()


_lane = _Lane()


def _start_ticks() -> int:
    with open("/proc/self/stat", "rb") as text:
        return int(text.read().rpartition(b")")[2].split()[19])


def _reopen_lane(directory: int, name: str) -> int:
    return os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory)


def _has_room(directory: int, size: int) -> bool:
    """As src/channel/file.h: with a spare place beside it, three quarters of a file system must stay free; otherwise at
    most a quarter of what is free is taken."""
    about = os.fstatvfs(directory)
    free = about.f_bavail * about.f_frsize
    try:
        os.readlink(_SPARE, dir_fd=directory)
    except OSError:
        return about.f_blocks == 0 or free // 4 >= size
    return about.f_blocks == 0 or free - size >= about.f_blocks * about.f_frsize // 4 * 3


def _create_lane(directory: int, name: str) -> int:
    """Returns a descriptor of a new lane with all blocks allocated, so that writing to the map cannot fail."""
    fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory)
    try:
        os.fchmod(fd, 0o600)
        os.posix_fallocate(fd, 0, _LANE_BYTES)
        if not _has_room(directory, 0):
            raise OSError("others took the room at the same moment")
    except OSError:
        os.close(fd)
        os.unlink(name, dir_fd=directory)
        raise
    return fd


def _open_lane(places: list[int], name: str) -> int:
    """Opens the lane that this process made before it called exec, or makes one where there is room."""
    roomy = [place for place in places if _has_room(place, _LANE_BYTES)]
    for attempt, there in ((_reopen_lane, places), (_create_lane, roomy)):
        for place in there:
            try:
                return attempt(place, name)
            except OSError:
                pass
    if not roomy:
        os.close(os.open("full-" + name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=places[0]))
    raise OSError("no lane")


def _make() -> mmap.mmap:
    path = os.environ["TIDEMARK_CHANNEL"]
    if not path.startswith("/"):
        raise OSError("the channel is not an absolute path")
    pid, start = os.getpid(), _start_ticks()
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    places = [os.open(path, flags)]
    try:
        try:
            places.append(os.open(_SPARE, flags, dir_fd=places[0]))
        except OSError:
            pass
        fd = _open_lane(places, f"marks-{pid}-{start}-py")
    finally:
        for place in places:
            os.close(place)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size != _LANE_BYTES or found.st_blocks * 512 < _LANE_BYTES:
            raise OSError("not a lane")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held while it is mapped: this lane is in use
        except OSError:
            pass
        # All pages at once: pages that are mapped one by one would look like a program that grows.
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        memory = mmap.mmap(fd, _LANE_BYTES, flags, mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(fd)
    magic, lane_pid, slots, lane_start, taken = struct.unpack_from("=QIIQQ", memory)
    if magic == 0:
        struct.pack_into("=IIQ", memory, 8, pid, _SLOTS, start)
        _put_number(memory, 0, _MAGIC)
    elif (magic, lane_pid, slots, lane_start) != (_MAGIC, pid, _SLOTS, start):
        raise OSError("not a lane of this process")
    _lane.taken = taken
    _lane.head = memoryview(memory)[_HEAD_AT : _HEAD_AT + 8].cast("Q")
    return memory


def _attach() -> Any:
    """Returns the map, or False. Called when state is None."""
    if "TIDEMARK_CHANNEL" not in os.environ:
        _lane.state = False
        return False
    with _lane.lock:
        if _lane.state is None:
            try:
                _lane.state = _make()
            except (OSError, ValueError, IndexError, KeyError):
                _lane.state = False
        return _lane.state


def _forget() -> None:
    """In a forked child: the parent's lane is not ours. The child of a process without a tracker has none either."""
    if _lane.state is not False:
        _lane.state = None
        _lane.head = None
        _lane.lock = threading.RLock()


os.register_at_fork(after_in_child=_forget)


def _bare(kind: int, number: int) -> None:
    memory = _lane.state
    if memory is None:
        memory = _attach()
    if memory is False:
        return
    try:
        number = int(number)
        with _lane.lock:
            n = _lane.taken
            _lane.taken = n + 1
            at = _HEAD_BYTES + n % _SLOTS * _SLOT_BYTES
            _lane.head[0] = _lane.taken
            _put_bare(memory, at, 0, monotonic_ns(), number, kind, 0, b"\0")
            _put_number(memory, at, n + 1)
    except _NOT_A_MARK:
        return


def _named(kind: int, number: int, name: str) -> None:
    memory = _lane.state
    if memory is None:
        memory = _attach()
    if memory is False:
        return
    try:
        number = int(number)
        text = name.encode("utf-8", "surrogateescape")[:_NAME_MOST]
        with _lane.lock:
            n = _lane.taken
            _lane.taken = n + 1
            at = _HEAD_BYTES + n % _SLOTS * _SLOT_BYTES
            _lane.head[0] = _lane.taken
            _put_named(memory, at, 0, monotonic_ns(), number, kind, 0, text)
            _put_number(memory, at, n + 1)
    except _NOT_A_MARK:
        return


def step(n: int) -> None:
    """A step of training begins; n counts from wherever the program counts."""
    _bare(_STEP, n)


def epoch(n: int) -> None:
    """An epoch begins."""
    _bare(_EPOCH, n)


def phase_begin(name: str) -> None:
    """A phase with this name begins. Phases may nest and overlap."""
    _named(_PHASE_BEGIN, 0, name)


def phase_end(name: str) -> None:
    """The latest open phase with this name ends."""
    _named(_PHASE_END, 0, name)


def items(seen: int) -> None:
    """The number of items (images, sequences, games) seen so far."""
    _bare(_ITEMS, seen)


def gauge(name: str, bytes: int) -> None:
    """A number of bytes that the program counts itself."""
    _named(_GAUGE, bytes, name)


def tracked() -> bool:
    """True if a tracker is listening."""
    memory = _lane.state
    if memory is None:
        memory = _attach()
    return memory is not False
