"""What the tests of the Python package share. They run in the interpreter that runs pytest: Debian's python3 with Debian's
torch in `make check`, a virtual environment with transformers and lightning in `make check-python`.
"""

import gc
import os
import sys

import pytest
from lanes import ROOT, read_lanes

sys.path.insert(0, str(ROOT / "python"))


@pytest.fixture(autouse=True)
def clean():
    """No test sees the garbage of the one before."""
    gc.collect()
    yield


@pytest.fixture
def binary(monkeypatch):
    """The program of this build, as the package finds it."""
    path = (ROOT / os.environ.get("TIDEMARK_BUILD", "build/release") / "tidemark").resolve()
    assert path.exists(), f"{path} is not there: run make first"
    monkeypatch.setenv("TIDEMARK_BINARY", str(path))
    return path


@pytest.fixture
def marks(tmp_path, monkeypatch):
    """marks() -> {pid: [(kind, number or name)]} of what was marked in this test, gauges left out."""
    from tidemark import _lane

    channel = tmp_path / "channel"
    channel.mkdir(mode=0o700)
    monkeypatch.setenv("TIDEMARK_CHANNEL", str(channel))
    _lane._lane.state = None
    yield lambda: {pid: [m for m in all_of if m[0] != "gauge"] for pid, all_of in read_lanes(channel).items()}
    _lane._lane.state = False


@pytest.fixture
def said(capsys):
    """said() -> what was written to standard error since the last call."""
    from tidemark import _fault

    _fault._said.clear()
    return lambda: capsys.readouterr().err
