"""Frameworks that a test needs: one that is not there skips the test, or with TIDEMARK_FRAMEWORKS=1 fails it."""

import importlib
import os

import pytest


def framework(*names):
    """The first of these modules that can be imported, or a skip."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    if os.environ.get("TIDEMARK_FRAMEWORKS") == "1":
        raise ImportError(f"none of {', '.join(names)} can be imported")
    return pytest.skip(f"{names[0]} is not installed for this Python", allow_module_level=True)
