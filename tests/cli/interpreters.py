"""Each CPython from 3.9 to 3.13 that is on this machine, for tests that hold for all of them. Nothing is run to find out: every
worker of a test run imports this."""

import pathlib
import shutil

import pytest


def _places(minor):
    yield pathlib.Path("/usr/bin") / f"python3.{minor}"
    yield from sorted(pathlib.Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3.{minor}"))
    found = shutil.which(f"python3.{minor}")
    if found and "shims" not in pathlib.Path(found).parts:  # a shim is there for versions that are not
        yield pathlib.Path(found)


def _found():
    for minor in range(9, 14):
        place = next((p for p in _places(minor) if p.exists()), None)
        if place:
            yield pytest.param(place, id=f"3.{minor}")


INTERPRETERS = list(_found())


def has_torch(python):
    return any(pathlib.Path(python).parents[1].glob("lib/python3*/*-packages/torch/__init__.py"))
