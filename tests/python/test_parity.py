"""The numbers of PyTorch that tests/unit/test_train_parity.c compares the runtime with: made anew, and compared with the
file in the tree."""

import importlib.machinery
import importlib.util
import math
import re

import pytest
from lanes import ROOT

pytestmark = pytest.mark.xdist_group("parity")  # PyTorch is slow to import: once

# A parameter that changes nothing has only roundings for a gradient, of which AdamW makes steps.
FREE = "c_attn.bias"


def made(dtype):
    torch = pytest.importorskip("torch")
    loader = importlib.machinery.SourceFileLoader("torch_reference", str(ROOT / "tools" / "torch-reference"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return [line.split() for line in module.reference(getattr(torch, dtype))]


def kept():
    return [line.split() for line in (ROOT / "tests" / "fixtures" / "gpt2-reference.txt").read_text().splitlines()]


def apart(ours, theirs):
    """{(what, name): how far}: numbers of a tensor by its norm, the sum of n by sqrt(n) times that; losses and norms of steps
    by themselves."""
    assert [line[:2] for line in ours] == [line[:2] for line in theirs]
    distances = {}
    for (what, name, *mine), (_, _, *other) in zip(ours, theirs):
        mine, other = [float(x) for x in mine], [float(x) for x in other]
        errors = [abs(a - b) for a, b in zip(mine, other)]
        if what == "step":
            distances["step_loss", name] = errors[0] / other[0]
            distances["step_norm", name] = errors[1] / other[1]
        else:
            count, _, norm = other[:3]
            distances[what, name] = max(errors[0], errors[1] / math.sqrt(count), *errors[2:]) / norm
    return distances


def test_the_file_holds_what_pytorch_says():
    far = {key: by for key, by in apart(made("float64"), kept()).items() if not by < 1e-8}
    assert not far


def test_pytorch_in_f32_keeps_the_bounds_that_the_runtime_is_held_to():
    source = (ROOT / "tests" / "unit" / "test_train_parity.c").read_text()
    bounds = re.search(r"f32_bounds = \{(.*?)\}", source, re.S).group(1)
    bounds = {what: float(bound) for what, bound in re.findall(r"\.(\w+) = ([^,\s]+)", bounds)}
    far = {(what, name): by for (what, name), by in apart(made("float32"), kept()).items()
           if not by < bounds[what] and not (what == "weight" and name.endswith(FREE))}
    assert not far
