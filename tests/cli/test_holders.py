"""Who holds what grows: 'run --heap' of a PyTorch program that does not know of tidemark, with the package importable."""

import os
import pathlib
import re
import sqlite3
import textwrap

import pytest

from interpreters import has_torch

pytestmark = pytest.mark.slow

VENV = pathlib.Path(os.environ.get("TIDEMARK_TORCH_VENV", pathlib.Path.home() / ".cache/tidemark/torch-venv")) / "bin/python3"
PYTHONS = [str(python) for python in (VENV, "/usr/bin/python3") if has_torch(python)]
FIRST = PYTHONS[:1]

HEAD = """
    import time
    import torch
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(8)])
    optimizer = torch.optim.Adam(model.parameters())

    def steps(seconds=8, least=400):
        end, step = time.monotonic() + seconds, 0
        while time.monotonic() < end or step < least:
            print("step", step, flush=True)
            yield step
            step += 1
            time.sleep(0.005)
"""


@pytest.fixture
def held(tidemark, tmp_path, root, env):
    """held(python, text) -> what run --heap says at the end of the program with this text after HEAD."""
    env["PYTHONPATH"] = str(root / "python")

    def record(python, text, head=HEAD):
        (tmp_path / "train.py").write_text(textwrap.dedent(head) + textwrap.dedent(text))
        done = tidemark("run", "--heap", "-i", "100ms", "-o", "run.tide", "--", python, "train.py", timeout=300)
        assert done.code == 0, done.err
        return done.err

    return record


def told(tmp_path):
    with sqlite3.connect(tmp_path / "run.tide") as db:
        return [name for (name,) in db.execute("SELECT DISTINCT name FROM marks WHERE name LIKE 'held %'")]


def holders(said):
    return re.findall(r"^    held by   (.*)$", said, re.M)


def line_of(tmp_path, text):
    lines = (tmp_path / "train.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


HOLDERS = {
    "a list of losses, before backward": ("""
        def train():
            losses = []
            for step in steps():
                x = torch.randn(64, 128)
                loss = model(x).pow(2).mean()
                losses.append(loss)
        train()
    """, "list `losses`, train.py:{line}; keep `loss.item()`", "losses.append"),
    "a list of losses, after backward": ("""
        losses = []
        for step in steps():
            for _ in range(4):
                loss = model(torch.randn(8, 128)).pow(2).mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss)
    """, "list `losses`, train.py:{line}; keep `loss.item()`", "losses.append"),
    "a sum of losses": ("""
        def train():
            total = 0
            for step in steps():
                loss = model(torch.randn(64, 128)).pow(2).mean()
                total += loss
        train()
    """, "variable `total`, train.py:{line}; keep `loss.item()`", "total += loss"),
    "outputs with their graph": ("""
        outputs = []
        for step in steps():
            out = model(torch.randn(64, 128))
            outputs.append(out)
    """, "list `outputs`, train.py:{line}; keep `out.detach()`", "outputs.append"),
    "a dict": ("""
        def train(cache):
            for step in steps():
                with torch.no_grad():
                    cache[step] = model(torch.randn(512, 128))
        train({})
    """, "dict `cache`, train.py:{line}", "cache[step] ="),
    "an attribute": ("""
        class Trainer:
            def __init__(self):
                self.history = []
            @torch.no_grad()
            def step(self):
                self.history.append(model(torch.randn(512, 128)))
        trainer = Trainer()
        for step in steps():
            trainer.step()
    """, "Trainer `trainer.history`, train.py:{line}", "self.history.append"),
    "an attribute of a module, filled within the framework": ("""
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.seen = model, []
            def forward(self, x):
                self.seen.append(self.inner(x).detach())
                return self.seen[-1]
        def train():
            net = torch.nn.Sequential(Net())
            for step in steps():
                net(torch.randn(512, 128))
        train()
    """, "Net `self.seen`, train.py:{line}|Sequential `net._modules['0'].seen`, train.py:{line}", "self.seen.append"),
    "a closure": ("""
        def keeper():
            kept = []
            def keep(module, inputs, output):
                kept.append(output.detach().clone())
            return keep
        hook = keeper()
        model.register_forward_hook(hook)
        for step in steps():
            model(torch.randn(512, 128))
    """, "function `hook closing over kept`, train.py:{line}", "kept.append"),
    "optimizer state": ("""
        for step in steps():
            optimizer.state[torch.zeros(1)] = {"history": torch.randn(512, 128)}
    """, "Adam `optimizer.state[*]['history']`, train.py:{line}", "optimizer.state[torch"),
}


@pytest.mark.long
@pytest.mark.parametrize("python", FIRST)
@pytest.mark.parametrize("how", HOLDERS)
def test_what_grows_is_said_with_who_holds_it(held, tmp_path, python, how):
    text, words, filled = HOLDERS[how]
    said = held(python, text)
    assert said.startswith("tidemark: LEAK in train.py["), said
    expected = words.format(line=filled and line_of(tmp_path, filled)).split("|")  # either name is there at some moments
    assert len(holders(said)) == 1 and holders(said)[0] in expected, said
    assert said.index("  culprit 1 ") < said.index("    held by "), "where it was allocated, and below who holds it"


@pytest.mark.long
@pytest.mark.parametrize("python", PYTHONS[1:])
@pytest.mark.parametrize("how", ["a dict", "a list of losses, after backward"])
def test_an_older_pytorch_is_asked_too(held, tmp_path, python, how):
    text, words, filled = HOLDERS[how]
    said = held(python, text)
    assert holders(said) == [words.format(line=line_of(tmp_path, filled))], said


@pytest.mark.long
@pytest.mark.parametrize("python", FIRST)
def test_a_worker_that_keeps_what_it_loaded_is_named(held, tmp_path, tidemark, python):
    said = held(python, """
        class Data(torch.utils.data.Dataset):
            def __init__(self):
                self.cache = {}
            def __len__(self):
                return 100_000
            def __getitem__(self, index):
                self.cache[index] = torch.randn(64, 128)
                return self.cache[index].sum()
        data = Data()
        batches = iter(torch.utils.data.DataLoader(data, batch_size=4, num_workers=1))
        for step in steps():
            next(batches)
    """)
    assert holders(said) == [f"Data `data.cache`, train.py:{line_of(tmp_path, 'self.cache[index] =')}"], said
    with sqlite3.connect(tmp_path / "run.tide") as db:
        pids = {pid for (pid,) in db.execute("SELECT pid FROM marks WHERE name LIKE 'held %'")}
        main = db.execute("SELECT pid FROM marks WHERE kind = 'step'").fetchone()[0]
    assert len(pids) == 1 and main not in pids


@pytest.mark.long
@pytest.mark.parametrize("python", FIRST)
def test_a_healthy_program_gets_no_word_about_holders(held, tmp_path, python):
    said = held(python, """
        recent = []
        for step in steps():
            loss = model(torch.randn(64, 128)).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            recent = recent[-20:] + [loss.detach()]
    """)
    assert "held by" not in said, said
    assert told(tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("python", FIRST)
def test_the_document_and_the_page_say_it_too(held, tidemark, tmp_path, python):
    text, words, filled = HOLDERS["a dict"]
    held(python, text)
    expected = words.format(line=line_of(tmp_path, filled))
    assert tidemark("blame", "--json", "run.tide").json["culprits"][0]["held_by"] == [expected]
    assert tidemark("report", "-o", "page.html", "run.tide").code == 0
    assert f"held by {expected}" in (tmp_path / "page.html").read_text()
