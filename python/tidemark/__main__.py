"""``python -m tidemark ARGS``, and the command ``tidemark`` that pip installs: runs the program itself, if it is there."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from ._binary import find, obstacle


def _undo_what_python_changed() -> None:
    """The program, and what it runs, must not notice that Python was there first: Python ignores signals, and where there is
    no locale it gives its children one."""
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    with contextlib.suppress(OSError), open("/proc/self/environ", "rb") as file:  # as this process got it
        if not any(entry.startswith(b"LC_CTYPE=") for entry in file.read().split(b"\0")):
            os.environ.pop("LC_CTYPE", None)


def main() -> int:
    path = find()
    if path is None:
        print("tidemark: the program is not installed; this package only leaves marks for it", file=sys.stderr)
        print("hint: install a wheel, or 'make && sudo make install' in the checkout, or name it with TIDEMARK_BINARY", file=sys.stderr)
        return 2
    reason = obstacle(path)
    if reason is not None:
        print(f"tidemark: {reason}", file=sys.stderr)
        print("hint: build it here: 'pip install ./python' in a checkout", file=sys.stderr)
        return 2
    _undo_what_python_changed()
    try:
        os.execv(path, ["tidemark", *sys.argv[1:]])
    except OSError as error:
        print(f"tidemark: cannot start '{path}': {error.strerror}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
