"""Names that people know: the script and the rank, not the interpreter and its number."""

import re

import pytest

from recording import MIB, STEP, Recording

LAUNCHER = """
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, 'train.py'], env={**os.environ, 'RANK': str(r), 'WORLD_SIZE': '2'}) for r in (0, 1)]
sys.exit(max(r.wait() for r in ranks))
"""
TRAIN = """
import os, time
kept = []
for i in range(120):
    if os.environ['RANK'] == '1':
        kept.append(bytearray(1 << 20))
    else:
        print('step', i, flush=True)
    time.sleep(0.02)
"""


def test_the_rank_that_leaks_is_named(tidemark, tmp_path):
    (tmp_path / "launch.py").write_text(LAUNCHER)
    (tmp_path / "train.py").write_text(TRAIN)
    done = tidemark("run", "-i", "50ms", "-o", "a.tide", "--", "/usr/bin/python3", "launch.py")
    assert re.search(r"^tidemark: LEAK in train\.py rank 1\[\d+\] \(child of launch\.py\[\d+\]\)$", done.err, re.M), done.err


def two_workers(path, leaking):
    r = Recording(path)
    r.meta(command="python train.py")
    main = r.process(10, "python", role="train.py", command="python train.py")
    workers = [r.process(11 + i, "pt_data_worker", parent=main, role="pt_data_worker", began=0.1 * i) for i in range(3)]
    for t in range(200):
        r.tick(t / 4, {main: 100 * MIB, **{w: (50 + (t / 4 if w == workers[leaking] else 0)) * MIB for w in workers}})
        r.mark(t / 4, STEP, t, process=main)
    return r.close()


@pytest.mark.parametrize("leaking", [0, 2])
def test_a_worker_has_its_number(tidemark, tmp_path, leaking):
    said = tidemark("judge", two_workers(tmp_path / "a.tide", leaking)).out.splitlines()[0]
    assert said == f"tidemark: LEAK in pt_data_worker {leaking}[{11 + leaking}] (child of train.py[10])"


def test_a_module_is_called_by_its_name(tidemark, tmp_path):
    (tmp_path / "mypackage").mkdir()
    (tmp_path / "mypackage" / "__main__.py").write_text("import time; time.sleep(0.5)")
    said = tidemark("run", "-i", "50ms", "-o", "a.tide", "--", "/usr/bin/python3", "-m", "mypackage").err
    assert re.search(r"^tidemark: .* mypackage\[\d+\]$", said, re.M), said
