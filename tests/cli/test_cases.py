"""The cases in short: the one that needs nothing but a C compiler, and that every block of their documents has its command.

The whole is `make cases`."""

import importlib.util
import re
import sys

import pytest
from conftest import ROOT

_spec = importlib.util.spec_from_file_location("cases_check", ROOT / "cases" / "check.py")
check = importlib.util.module_from_spec(_spec)
sys.modules["cases_check"] = check
_spec.loader.exec_module(check)

CASES = {case.number: {run.name: check.Outcome("tidemark", case, run, {}) for run in case.runs} for case in check.TABLE}
TRAIN = ROOT / "build/release/cases/001/train"


@pytest.mark.long
def test_the_orphaned_chunks_of_case_001_are_found_where_they_are_made(tidemark, tmp_path):
    recording = tmp_path / "a.tide"
    done = tidemark("run", "--heap", "-i", "50ms", "-o", recording, "--", TRAIN, "--iterations", "60")
    assert done.code == 0
    assert tidemark("judge", "--json", recording).json["verdict"] == "leak"
    culprits = [c for c in tidemark("blame", "--json", recording).json["culprits"] if c["verdict"] == "leak"]
    assert sum(c["bytes_per_step"] for c in culprits) == pytest.approx(check.ORPHANED, rel=0.1)
    line = check.place("cases/001/autograd.c", "must(malloc(sizeof *chunk")
    assert all(line in check.places(c) for c in culprits)


@pytest.mark.slow
@pytest.mark.long
def test_case_001_rightly_fixed_does_not_leak(tidemark, tmp_path):
    recording = tmp_path / "a.tide"
    tidemark("run", "-i", "50ms", "-o", recording, "--", TRAIN, "--iterations", "450", "--fix", "next-chunk",
             timeout=600)
    assert tidemark("judge", "--json", recording).json["verdict"] == "flat"


@pytest.mark.parametrize("number", sorted(CASES))
def test_every_block_of_a_case_is_output_of_a_command_that_the_driver_runs(number):
    text = (ROOT / "docs" / "cases" / f"{number}.md").read_text()
    blocks = re.findall(r"<!-- shown: (\S+) (.*?) -->\n(.*?)<!-- end -->", text, re.S)
    assert {"broken", "wrong", "right"} <= {run for run, _, _ in blocks}
    for run, view, body in blocks:
        kind, lines = view.partition("/")[0], body.strip().splitlines()
        assert run in CASES[number] and len(lines) > 2, f"{run} {view} is empty: make cases-docs fills it"
        if kind != "output":
            assert lines[1] == f"$ {CASES[number][run].command_of(kind)}", "make cases-docs shows what this command prints"
