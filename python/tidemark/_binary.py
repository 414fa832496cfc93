"""Where the program ``tidemark`` is: named by TIDEMARK_BINARY, in the checkout that this package is part of, or on the PATH.

A script of the same name that only starts this package would call itself for ever, so it is not taken.
"""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Iterator, Optional


def _candidates() -> Iterator[str]:
    named = os.environ.get("TIDEMARK_BINARY")
    if named:
        yield named
    checkout = pathlib.Path(__file__).resolve().parents[2]
    if (checkout / "include" / "tidemark.h").exists():
        yield str(checkout / "build" / "release" / "tidemark")
    found = shutil.which("tidemark")
    if found:
        yield found


def find() -> Optional[str]:
    """Its path, or None."""
    for path in _candidates():
        try:
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF" and os.access(path, os.X_OK):
                    return path
        except OSError:
            continue
    return None
