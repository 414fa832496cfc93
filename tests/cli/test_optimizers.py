"""Optimizers of `train`: a run goes on with the same bits, its state is saved under published names, and it is as large as
docs/TRAIN.md says."""

import functools
import json

import pytest
from test_adapters import contents, tensors

SMALL = ("train", "lm", "--data", "sums.txt", "--batch", 4, "--seq", 16, "--eval-every", 0)
pytestmark = pytest.mark.slow  # unit tests train with every optimizer under a sanitizer
RATES = {"adamw": "0.001", "adamw8": "0.001", "adafactor": "0.01", "sgd": "0.1"}
NAMES = {"adamw": {"exp_avg", "exp_avg_sq"}, "sgd": {"momentum_buffer"},
         "adamw8": {"state1", "state2", "absmax1", "absmax2"},
         "adafactor": {"exp_avg_sq", "exp_avg_sq_row", "exp_avg_sq_col"}}  # fmt: skip


@pytest.fixture
def train(tidemark, tmp_path):
    """train("--steps", 100, ...) -> Result"""
    (tmp_path / "sums.txt").write_text("".join(f"{a:02}+{b:02}={a + b:03}\n" for a in range(20) for b in range(60, 99)))
    return functools.partial(tidemark, *SMALL)


@pytest.mark.parametrize("weights", ["f32", "bf16"])
@pytest.mark.parametrize("optimizer", sorted(RATES))
def test_a_run_goes_on_with_the_same_bits_whatever_the_threads(train, tmp_path, optimizer, weights):
    how = ("--optimizer", optimizer, "--weights", weights, "--lr", RATES[optimizer])
    assert train("--steps", 16, "--threads", 2, "--out", "whole", *how).code == 0
    assert train("--steps", 8, "--threads", 1, "--out", "parts", *how).code == 0
    assert train("--resume", "auto", "--steps", 16, "--threads", 3, "--out", "parts").code == 0
    one, two = (contents(tmp_path / run / "step-00000016") for run in ("whole", "parts"))
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert one[name] == two[name]
    saved = tensors(tmp_path / "whole/step-00000016/optimizer.safetensors")
    assert {name.rpartition(".")[2] for name in saved} == NAMES[optimizer]


@pytest.mark.parametrize("optimizer,each", [("adamw", 8), ("adamw8", 2 + 8 / 256), ("adafactor", 0.01), ("sgd", 4)])
def test_the_layout_has_the_bytes_that_the_manual_says(train, optimizer, each):
    plan = json.loads(train("--preset", "gpt2", "--dry-run", "--json", "--optimizer", optimizer).out)
    assert plan["optimizer_bytes"] / 124439808 == pytest.approx(each, abs=0.01)


def test_an_optimizer_that_is_not_known_is_refused(train):
    result = train("--steps", 1, "--optimizer", "adamw4")
    assert result.code == 2
    assert result.err == "tidemark: train lm: option '--optimizer': 'adamw4' is not one of its values\nhint: did you mean 'adamw'?\n"
