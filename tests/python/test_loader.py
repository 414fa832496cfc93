"""watch(loader): the real DataLoader, with workers that are forked and spawned."""

import os
import subprocess
import sys

import pytest
from lanes import ROOT, read_lanes
from frameworks import framework

torch = framework("torch")
data = framework("torch.utils.data")
tidemark = framework("tidemark")
pytestmark = [pytest.mark.unsanitized, pytest.mark.xdist_group("torch")]


@pytest.fixture
def quiet_log():
    log = tidemark.TrainingLog(every=0, census=False, out=lambda _line: None)
    yield log
    log.close()


def numbers(n=20):
    return data.TensorDataset(torch.arange(n * 3).reshape(n, 3))


def test_batches_are_steps_and_passes_are_epochs(marks, quiet_log):
    loader = tidemark.watch(data.DataLoader(numbers(), batch_size=8), log=quiet_log)
    seen = [batch[0].shape[0] for _ in range(2) for batch in loader]
    assert seen == [8, 8, 4, 8, 8, 4] and len(loader) == 3
    first = [("epoch", 0), ("step", 0), ("items", 8), ("step", 1), ("items", 16), ("step", 2), ("items", 20)]
    second = [("epoch", 1), ("step", 3), ("items", 28), ("step", 4), ("items", 36), ("step", 5), ("items", 40)]
    assert marks() == {os.getpid(): first + second}
    assert loader.batch_size == 8, "everything else is the loader's own"


def test_a_validation_loader_is_a_phase_and_no_steps(marks):
    for _ in tidemark.watch(data.DataLoader(numbers(), batch_size=8), phase="validation"):
        pass
    for _ in tidemark.watch(data.DataLoader(numbers(), batch_size=8), phase="validation"):
        break  # left early
    assert marks() == {os.getpid(): [("begin", "validation"), ("end", "validation")] * 2}


def test_forked_workers_count_their_items_in_lanes_of_their_own(marks, quiet_log):
    loader = tidemark.watch(data.DataLoader(numbers(), batch_size=4, num_workers=2), log=quiet_log)
    assert sum(batch[0].shape[0] for batch in loader) == 20
    found = marks()
    mine = found.pop(os.getpid())
    assert [n for kind, n in mine if kind == "step"] == [0, 1, 2, 3, 4]
    assert sorted(max(n for kind, n in theirs if kind == "items") for theirs in found.values()) == [8, 12]
    assert all(kind == "items" for theirs in found.values() for kind, _ in theirs), "steps are the parent's"


def test_a_loader_that_is_watched_in_each_epoch_has_one_log(marks, binary, said):
    loader = data.DataLoader(data.TensorDataset(torch.zeros(6, 2)), batch_size=2)
    for _ in range(3):
        for _ in tidemark.watch(loader):
            pass
    watched = tidemark.watch(loader)
    assert tidemark.watch(loader)._progress is watched._progress
    watched._progress.log.close()
    mine = marks()[os.getpid()]
    assert [n for kind, n in mine if kind == "epoch"] == [0, 1, 2]
    assert [n for kind, n in mine if kind == "step"] == list(range(9))
    assert [n for kind, n in mine if kind == "items"] == list(range(2, 20, 2))
    assert said().count(" steps in ") == 1
    again = tidemark.watch(loader)
    assert again._progress is not watched._progress, "the log was closed"
    again._progress.log.close()


@pytest.mark.long  # three interpreters that import torch; test_python_marks.py has spawned workers without it
def test_spawned_workers_count_too(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, torch.utils.data as data, tidemark\n"
        "class Numbers(data.Dataset):\n"
        "    def __len__(self): return 6\n"
        "    def __getitem__(self, i): return torch.tensor([i])\n"
        "def main():\n"
        "    loader = data.DataLoader(Numbers(), batch_size=2, num_workers=1, multiprocessing_context='spawn')\n"
        "    print(sum(int(batch.sum()) for batch in tidemark.watch(loader, every=0)))\n"
        "if __name__ == '__main__': main()\n")
    channel = tmp_path / "channel"
    channel.mkdir(mode=0o700)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "TIDEMARK_CHANNEL": str(channel)})
    assert (done.returncode, done.stdout) == (0, "15\n"), done.stderr
    found = sorted(read_lanes(channel).values(), key=len)
    assert found[0] == [("items", 2), ("items", 4), ("items", 6)]
    assert [n for kind, n in found[1] if kind == "step"] == [0, 1, 2]


def test_any_iterable_may_be_watched(marks):
    assert list(tidemark.watch([[1, 2], [3]], every=0)) == [[1, 2], [3]]
    assert list(tidemark.watch((n for n in range(2)), every=0)) == [0, 1]
    assert list(tidemark.watch(["text"], every=0)) == ["text"]
    assert [n for kind, n in marks()[os.getpid()] if kind == "items"] == [2, 3, 1, 2, 1]


def test_a_watched_loader_can_be_copied_and_pickled():
    import copy
    import pickle

    loader = tidemark.watch([1, 2], every=0)
    assert list(copy.copy(loader)) == [1, 2]
    assert list(pickle.loads(pickle.dumps(loader))) == [1, 2]


def test_errors_of_the_loader_pass_through():
    def broken():
        yield 1
        raise KeyError("mine")

    with pytest.raises(KeyError):
        list(tidemark.watch(broken(), every=0))
    with pytest.raises(TypeError):
        list(tidemark.watch(None, every=0))


def test_padding_is_measured_on_the_way():
    meter = framework("tidemark.torch").PaddingMeter(pad_id=0)
    tokens = torch.tensor([[1, 2, 0, 0], [1, 2, 3, 4]])
    loader = data.DataLoader(data.TensorDataset(tokens), batch_size=2)
    list(tidemark.watch(loader, every=0, padding=meter))
    assert (meter.tokens, meter.padding) == (6, 2)


def test_a_loop_over_a_watched_loader_ends_with_a_summary(binary, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, torch.utils.data as data, tidemark, tidemark._traininglog\n"
        "def train():\n"
        "    model = torch.nn.Linear(64, 64); optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
        "    losses = []\n"
        "    loader = data.DataLoader(data.TensorDataset(torch.randn(800, 64)), batch_size=8)\n"
        "    tidemark._traininglog._CENSUS_SECONDS = 60  # on a machine with other things to do\n"
        "    log = tidemark.TrainingLog(every=50, share=1.0, items=800)\n"
        "    for (batch,) in tidemark.watch(loader, log=log):\n"
        "        out = model(batch)\n"
        "        losses.append(out.detach().repeat(512, 1))\n"
        "        out.square().mean().backward(); optimizer.step(); optimizer.zero_grad()\n"
        "    log.close()\n"
        "train()\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert [line.split(":")[1] for line in lines[:3]] == [" step 49", " step 99", " epoch 0 ends at step 99"]
    assert "tidemark: growing: +1 tensor of (4096, 64) float32 per step (+1.0 MiB per step), " \
           "held by list `losses` in train.py:4 train()" in lines
    assert any(line.startswith("tidemark: LEAK in process: ") for line in lines), done.stderr
