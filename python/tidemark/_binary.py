"""Finds the program ``tidemark``: named by TIDEMARK_BINARY, in the checkout that this package is part of, in this
package (from a wheel), or on the PATH. Says why a program from a wheel cannot run here.

A script of the same name that only starts this package is not taken, because it would call itself for ever.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from typing import Iterator, Optional

from . import __version__

_HERE = pathlib.Path(__file__).resolve().parent
_BUNDLED = _HERE / "_program" / "tidemark"


def _candidates() -> Iterator[str]:
    named = os.environ.get("TIDEMARK_BINARY")
    if named:
        yield named
    checkout = _HERE.parents[1]
    if (checkout / "include" / "tidemark.h").exists():
        yield str(checkout / "build" / "release" / "tidemark")
    yield str(_BUNDLED)
    found = shutil.which("tidemark")
    if found:
        yield found


def find() -> Optional[str]:
    """Returns its path, or None."""
    for path in _candidates():
        try:
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF" and os.access(path, os.X_OK):
                    return path
        except OSError:
            continue
    return None


def obstacle(path: str) -> Optional[str]:
    """Says why this system cannot run the program from a wheel, as a sentence without its full stop. None: no reason is
    known. pip checks the same by the wheel's name, but not for files that were copied or unpacked by hand."""
    if path != str(_BUNDLED):
        return None
    try:
        tags = (_HERE.parent / f"tidemark-{__version__}.dist-info" / "WHEEL").read_text()
    except OSError:
        return None
    need = re.search(r"^Tag: .*-manylinux_(\d+)_(\d+)_(\w+)$", tags, re.M)
    if need is None:
        return None
    machine = os.uname().machine
    if machine != need[3]:
        return f"this wheel is for {need[3]}, but this machine is {machine}"
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        name = ""
    have = re.match(r"glibc (\d+)\.(\d+)", name)
    if have is None:
        return f"this wheel needs glibc {need[1]}.{need[2]} or later, but this machine has another C library"
    if (int(have[1]), int(have[2])) < (int(need[1]), int(need[2])):
        return f"this wheel needs glibc {need[1]}.{need[2]} or later, but this machine has {have[1]}.{have[2]}"
    return None
