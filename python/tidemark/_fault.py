"""No fault of this package reaches a training loop: it is caught here, and reported once.

``quietly`` and ``never_raises`` guard every entry from a callback, an iterator or a hook. Code that runs in every step
has its own ``try`` and calls ``report_quietly``. KeyboardInterrupt and SystemExit pass.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
import traceback
from typing import Any, Callable, Iterator, Set, TypeVar, cast

_said: Set[str] = set()
_lock = threading.RLock()
_KINDS_MOST = 64

_F = TypeVar("_F", bound=Callable[..., Any])


def _renew() -> None:
    """In a forked child: a thread that no longer exists may have held the lock."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew)


def _code_of(handler: Any) -> Any:
    function = getattr(handler, "__func__", handler)
    return getattr(function, "__code__", None) or getattr(type(handler).__call__, "__code__", None)


def from_handler(error: BaseException) -> bool:
    """True if a signal handler of the program raised the error: then it is meant for the program, wherever it was raised."""
    handlers = [signal.getsignal(number) for number in range(1, signal.NSIG)]
    codes = {_code_of(handler) for handler in handlers if callable(handler)} - {None}
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code in codes:
            return True
        at = at.tb_next
    return False


def say(line: str) -> None:
    """Prints one line on standard error, without breaking a progress bar."""
    line = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line)
    try:
        bars = sys.modules.get("tqdm")
        if bars is not None and getattr(bars.tqdm, "_instances", None):
            bars.tqdm.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)
    except Exception:  # noqa: BLE001 - standard error may be closed, or gone at shutdown
        pass


def say_once(line: str) -> None:
    with _lock:
        if line in _said or len(_said) >= _KINDS_MOST:
            return
        _said.add(line)
    say(f"tidemark: {line}")


def report(doing: str, error: BaseException) -> None:
    """Says what went wrong while doing something; the same error at the same place only once."""
    at = traceback.extract_tb(error.__traceback__)
    where = f" ({at[-1].filename.rpartition('/')[2]}:{at[-1].lineno})" if at else ""
    say_once(f"{doing} failed and is skipped: {type(error).__name__}: {error}{where}")


def report_quietly(doing: str, error: BaseException) -> None:
    """The same, but never raises. For code that runs in every step and guards itself."""
    with contextlib.suppress(Exception):
        report(doing, error)


@contextlib.contextmanager
def quietly(doing: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the purpose of this function
        report_quietly(doing, error)


def never_raises(function: _F) -> _F:
    """A decorator: reports an exception once and returns None."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the purpose of this function
            report_quietly(f"tidemark's {function.__name__}", error)
            return None

    return cast(_F, guarded)
