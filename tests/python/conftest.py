"""What the tests of the Python package share. They run in the interpreter that runs pytest: Debian's python3 with Debian's
torch in `make check`, a virtual environment with transformers and lightning in `make check-python`.
"""

import gc
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: too slow for a sanitizer build")
    config.addinivalue_line("markers", "long: only in make check-long")


@pytest.fixture(autouse=True)
def clean():
    """No test sees the garbage of the one before."""
    gc.collect()
    yield


@pytest.fixture
def said(capsys):
    """said() -> what was written to standard error since the last call."""
    from tidemark import _fault

    _fault._said.clear()
    return lambda: capsys.readouterr().err
