"""The examples print what docs/PYTHON.md shows."""

import os
import re
import subprocess
import sys

import pytest
from lanes import ROOT
from frameworks import framework

torch = framework("torch")
pytestmark = [pytest.mark.unsanitized, pytest.mark.xdist_group("torch")]

BLOCK = re.compile(r"<!-- python/examples/(\w+)\.py -->\n```text\n(.*?)```", re.S)
SHOWN = dict(BLOCK.findall((ROOT / "docs" / "PYTHON.md").read_text()))


def run_example(name):
    done = subprocess.run([sys.executable, ROOT / "python" / "examples" / f"{name}.py"], capture_output=True, text=True,
                          timeout=120, check=False, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_every_example_is_shown():
    assert set(SHOWN) == {path.stem for path in (ROOT / "python" / "examples").glob("*.py")}


@pytest.mark.parametrize("name", ["growing_list", *(pytest.param(name, marks=pytest.mark.long) for name in ("summed_losses", "padding"))])
def test_what_is_shown_is_what_it_prints(name, binary):
    found = run_example(name)
    if torch.__version__.startswith("1.13"):  # later ones keep other optimizer state
        assert found == SHOWN[name]


@pytest.mark.parametrize("name", ["debug_phases", *(pytest.param(name, marks=pytest.mark.long) for name in ("watched_loader", "cleanup"))])
def test_what_is_shown_is_what_it_prints_but_for_the_numbers(name, binary):
    """Lines of measured sizes and times: their first words. Of a run of seconds the verdict may be that it is too early to tell."""

    def beginnings(text):
        text = re.sub(r"^(FLAT|UNDECIDED)\b.*", "VERDICT", text, flags=re.M)
        return {" ".join(re.sub(r"[\d.,]+( [KMG]?i?B\b)?", "#", line).split()[:3]) for line in text.splitlines()}

    shown, found = beginnings(SHOWN[name]), beginnings(run_example(name))
    assert found == shown
