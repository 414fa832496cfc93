"""The numbers of PyTorch that the tests of tests/unit whose names end in _parity compare the runtime with: made anew, and compared
with the files in the tree."""

import importlib.machinery
import importlib.util
import math
import re
import subprocess

import pytest
from lanes import ROOT

pytestmark = pytest.mark.xdist_group("parity")  # PyTorch is slow to import: once

# A parameter that changes nothing has only roundings for a gradient, of which AdamW makes steps.
FREE = "c_attn.bias"


def tool(name):
    """A program of tools/ as a module."""
    pytest.importorskip("torch")
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def made(dtype, name="torch-reference"):
    module = tool(name)
    return [line.split() for line in module.reference(getattr(module.torch, dtype))]


def kept(name="gpt2-reference.txt"):
    return [line.split() for line in (ROOT / "tests" / "fixtures" / name).read_text().splitlines()]


def apart(ours, theirs):
    """{(what, name): how far}: numbers of a tensor by its norm, the sum of n by sqrt(n) times that; losses and norms of steps and
    what is reported by themselves; losses that cancel by what they are measured by."""
    assert [line[:2] for line in ours] == [line[:2] for line in theirs]
    distances = {}
    for (what, name, *mine), (_, _, *other) in zip(ours, theirs):
        mine, other = [float(x) for x in mine], [float(x) for x in other]
        errors = [abs(a - b) for a, b in zip(mine, other)]
        if what == "step":
            distances["step_loss", name] = errors[0] / other[0]
            distances["step_norm", name] = errors[1] / other[1]
        elif what == "loss":
            distances[what, name] = errors[0] / other[1]
        elif what == "report":
            distances[what, name] = max(error / (abs(number) or 1) for error, number in zip(errors, other))
        else:
            count, _, norm = other[:3]
            distances[what, name] = max(errors[0], errors[1] / math.sqrt(count), *errors[2:]) / norm
    return distances


def test_the_file_holds_what_pytorch_says():
    far = {key: by for key, by in apart(made("float64"), kept()).items() if not by < 1e-8}
    assert not far


def bounds_of(test, table):
    """{what: how far}, as a unit test has them."""
    source = (ROOT / "tests" / "unit" / f"{test}.c").read_text()
    found = re.search(table + r" = \{(.*?)\}", source, re.S).group(1)
    return {what: float(bound) for what, bound in re.findall(r"\.(\w+) = ([^,\s]+)", found)}


def test_pytorch_in_f32_keeps_the_bounds_that_the_runtime_is_held_to():
    bounds = bounds_of("test_train_parity", "f32_bounds")
    far = {(what, name): by for (what, name), by in apart(made("float32"), kept()).items()
           if not by < bounds[what] and not (what == "weight" and name.endswith(FREE))}
    assert not far


# ---- board nets


def test_the_file_holds_what_pytorch_says_of_board_nets():
    far = apart(made("float64", "boardnet-reference"), kept("boardnet-reference.txt"))
    assert not {key: by for key, by in far.items() if not by < 1e-8}


def test_pytorch_in_f32_keeps_the_bounds_of_board_nets():
    bounds = bounds_of("test_train_boardnet_parity", "bounds")
    far = apart(made("float32", "boardnet-reference"), kept("boardnet-reference.txt"))
    assert not {(what, name): by for (what, name), by in far.items() if not by < bounds[what]}


# ---- GRPO


def apart_in_grpo(lines):
    """What is farther apart from the file than the runtime may be."""
    bounds = bounds_of("test_train_policy_parity", "bounds")
    return {(what, name): by for (what, name), by in apart(lines, kept("grpo-reference.txt")).items() if not by < bounds[what]}


def test_the_file_holds_what_pytorch_says_of_grpo():
    far = apart(made("float64", "grpo-reference"), kept("grpo-reference.txt"))
    assert not {key: by for key, by in far.items() if not by < 1e-8}


def test_pytorch_in_f32_keeps_the_bounds_of_grpo():
    assert not apart_in_grpo(made("float32", "grpo-reference"))


@pytest.mark.long
def test_trls_own_trainer_keeps_the_bounds_of_grpo():
    python = subprocess.run([ROOT / "tools" / "torch-venv"], stdout=subprocess.PIPE, text=True, check=False)
    if python.returncode == 2:
        pytest.skip("there is no TRL: tools/torch-venv needs a network")
    said = subprocess.run([python.stdout.strip(), ROOT / "tools" / "grpo-reference", "trl"], stdout=subprocess.PIPE, text=True,
                          check=True)
    assert not apart_in_grpo([line.split() for line in said.stdout.splitlines()])


# ---- optimizers


def farthest(ours, theirs):
    """{(optimizer, what): how far, of all parameters}: as in apart()."""
    assert [line[:4] for line in ours] == [line[:4] for line in theirs]
    distances = {}
    for (optimizer, what, _, count, *mine), (*_, total, norm, a, b, c, d, e) in zip(ours, theirs):
        mine, other = [float(x) for x in mine], [float(x) for x in (total, norm, a, b, c, d, e)]
        errors = [abs(x - y) for x, y in zip(mine, other)]
        far = max(errors[0] / math.sqrt(float(count)), *errors[1:]) / other[1]
        distances[optimizer, what] = max(far, distances.get((optimizer, what), 0))
    return distances


def optimizer_bounds():
    source = (ROOT / "tests" / "unit" / "test_rt_optimizer_parity.c").read_text()
    found = re.search(r"bounds\[\] = \{(.*?)\};", source, re.S).group(1)
    return {name: float(bound) for name, bound in re.findall(r'\{"(\w+)", ([^}]+)\}', found)}


def optimizers_made(dtype):
    """Those that this PyTorch has: Adafactor came late."""
    module = tool("optimizer-reference")
    has = [name for name in module.OPTIMIZERS if name != "adafactor" or hasattr(module.torch.optim, "Adafactor")]
    lines = [line for name in has
             for line in module.lines_of(name, module.OPTIMIZERS[name], getattr(module.torch, dtype))]
    return [line.split() for line in lines], [line for line in kept("optimizer-reference.txt") if line[0] in has]


def test_the_file_holds_what_published_optimizers_say():
    ours, theirs = optimizers_made("float64")
    assert not {key: by for key, by in farthest(ours, theirs).items() if not by < 1e-8}


def test_published_optimizers_in_f32_keep_the_bounds_that_ours_are_held_to():
    ours, theirs = optimizers_made("float32")
    bounds = optimizer_bounds()
    assert not {key: by for key, by in farthest(ours, theirs).items() if not by < bounds[key[0]]}


def test_eight_bits_are_as_bitsandbytes_has_them():
    """Its own CPU library finds codes in a table of 65,536 equal steps and loses small shares; its kernels for GPUs and what it
    has written out in PyTorch take the nearest code."""
    functional = pytest.importorskip("bitsandbytes.functional")
    published = pytest.importorskip("bitsandbytes.backends.triton.kernels_optim").optimizer_update_8bit_blockwise_pytorch
    module = tool("optimizer-reference")
    torch = module.torch
    maps = [functional.create_dynamic_map(signed=signed) for signed in (True, False)]
    for signed, theirs in zip((True, False), maps):
        ours = module.AdamW8.map_of(signed, torch.float64)
        assert torch.allclose(theirs.double(), ours, rtol=2**-22, atol=0)

    lines = []
    for name in (name for name, shape in module.SHAPES.items() if math.prod(shape) >= module.LEAST):
        p = module.weight(name, torch.float32)
        blocks = -(-p.numel() // module.BLOCK)
        codes = [torch.zeros(p.shape, dtype=torch.uint8) for _ in maps]
        absmax = [torch.zeros(blocks) for _ in maps]
        for step in range(1, module.STEPS + 1):
            published(p, module.gradient(name, step, torch.float32), *codes, *module.BETAS, 0.0, 0.0, module.EPSILON, step,
                      module.RATE, *maps, *absmax, module.DECAY, 1.0, False, optimizer_name="adam")
        numbers = [map_[code.reshape(-1).long()] * most.repeat_interleave(module.BLOCK)[: p.numel()]
                   for map_, code, most in zip(maps, codes, absmax)]
        parts = {"weight": p, "absmax1": absmax[0], "absmax2": absmax[1], "state1": numbers[0], "state2": numbers[1]}
        lines += [module.line("adamw8", what, name, tensor).split() for what, tensor in parts.items()]
    theirs = {(line[1], line[2]): line for line in kept("optimizer-reference.txt") if line[0] == "adamw8"}
    far = farthest(lines, [theirs[line[1], line[2]] for line in lines])
    assert not {key: by for key, by in far.items() if not by < optimizer_bounds()["adamw8"]}
