"""Names that people know: the script and the rank, not the interpreter and its number."""

import contextlib
import re
import sqlite3

import pytest

from recording import MIB, STEP, Recording
from waiting import UNTIL

# The ranks go step by step together, as in a job whose gradients are added up.
LAUNCHER = """
import os, subprocess, sys
pipe = os.pipe()
ranks = [subprocess.Popen([sys.executable, 'train.py', *map(str, pipe)], pass_fds=pipe, env={**os.environ, 'RANK': str(r), 'WORLD_SIZE': '2'})
         for r in (0, 1)]
sys.exit(max(r.wait() for r in ranks))
"""
TRAIN = """
import os, sys, time
other, me = map(int, sys.argv[1:])
kept = []
for i in range(120):
    if os.environ['RANK'] == '1':
        kept.append(bytearray(1 << 20))
        time.sleep(0.02)
        os.write(me, b'.')
    else:
        os.read(other, 1)
        print('step', i, flush=True)
"""


def test_the_rank_that_leaks_is_named(tidemark, tmp_path):
    (tmp_path / "launch.py").write_text(LAUNCHER)
    (tmp_path / "train.py").write_text(TRAIN)
    done = tidemark("run", "-i", "50ms", "-o", "a.tide", "--", "/usr/bin/python3", "launch.py")
    assert re.search(r"^tidemark: LEAK in train\.py rank 1\[\d+\] \(child of launch\.py\[\d+\]\)$", done.err, re.M), done.err


def test_a_shell_that_becomes_its_program_has_two_rows(tidemark, tmp_path):
    (tmp_path / "train.py").write_text("import time\ntime.sleep(1)")
    tidemark("run", "-i", "50ms", "-o", "a.tide", "--", "sh", "-c", "sleep 1; exec /usr/bin/python3 train.py")
    with contextlib.closing(sqlite3.connect(tmp_path / "a.tide")) as db:
        rows = db.execute("SELECT role, pid, start_ticks, began_ns, ended_ns FROM process WHERE role != 'sleep' ORDER BY id").fetchall()
    assert [row[0] for row in rows] == ["sh", "train.py"], rows
    assert rows[0][1:3] == rows[1][1:3] and rows[0][4] == rows[1][3], rows


def test_a_program_that_starts_itself_again_is_judged_twice(tidemark, tmp_path):
    """Some trainers do so to be rid of what they leaked. The leak is in the recording, and is said."""
    (tmp_path / "train.py").write_text("""
import os, sys, time
kept = []
for n in range(40):
    kept.append(bytearray(300_000))
    print("step", n, flush=True)
    time.sleep(0.05)
if len(sys.argv) == 1:
    os.execv(sys.executable, [sys.executable, "train.py", "again"])
""")
    done = tidemark("run", "-i", "50ms", "-o", "a.tide", "--", "/usr/bin/python3", "train.py")
    assert done.err.startswith("tidemark: LEAK in train.py["), done.err
    assert "other process" not in done.err, done.err
    found = tidemark("judge", "--json", "a.tide").json
    leaks = [s for s in found["series"] if s["subject"] == "process" and s["verdict"] == "leak"]
    assert leaks and {round(s["bytes_per_step"] / 300_000, 1) for s in leaks} == {1}, found  # both, if the machine has the time
    with contextlib.closing(sqlite3.connect(tmp_path / "a.tide")) as db:
        rows = db.execute("SELECT pid, start_ticks FROM process").fetchall()
        assert len(rows) == 2 and rows[0] == rows[1], rows


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


@pytest.mark.parametrize("role, command, name", [
    ("redis-server *:#", "redis-server *:6379", "redis-server *:6379"),
    ("C# host #", "C# host 12 idle", "C# host 12 idle"),
    ("worker #", "python3 train.py", "worker #"),
])
def test_a_process_is_called_as_it_calls_itself(tidemark, tmp_path, role, command, name):
    r = Recording(tmp_path / "a.tide")
    r.process(10, "main", role=role, command=command)
    for t in range(200):
        r.tick(t / 4, {1: (50 + t) * MIB})
        r.mark(t / 4, STEP, t)
    assert tidemark("judge", r.close()).out.splitlines()[0] == f"tidemark: LEAK in {name}[10]"


def launched(path):
    """torchrun starts train.py as rank 1, which starts a helper."""
    r = Recording(path)
    r.meta(command="torchrun train.py", interval_ns=250_000_000, ended_ns=50 * 10**9, exit_status=0)
    root = r.process(25640, "torchrun")
    train = r.process(25644, "python3", parent=root, role="train.py", command="python3 train.py")
    helper = r.process(25650, "python3", parent=train, role="a_long_name_of_a_script.py")
    r.db.execute("UPDATE process SET rank = 1 WHERE id = ?", (train,))
    r.heap(train)
    for t in range(200):
        r.put("gpu", tick=r.tick(t / 4, {root: 10 * MIB, train: 100 * MIB, helper: 10 * MIB}), device=0, process=train, bytes=MIB)
    return r.close()


def test_every_view_calls_processes_by_the_names_people_know(tidemark, tmp_path):
    path = launched(tmp_path / "a.tide")
    shown = tidemark("show", "--what", "processes", path).out
    assert re.findall(r"^ +\S.*?\[\d+\]", shown, re.M) == ["  torchrun[25640]", "   train.py rank 1[25644]", "    a_long_name_..[25650]"]
    assert "train.py rank 1[25644]" in tidemark("show", "--what", "heap", path).out
    assert "train.py rank 1[25644]" in tidemark("show", "--what", "gpu", path).out
    screen = tidemark("watch", "--dump", path).out
    assert re.search(r"25644 .*train\.py rank 1 ", screen) and "python3" not in screen, screen
    assert tidemark("report", path, "-o", "a.html").code == 0
    page = (tmp_path / "a.html").read_text()
    assert 'train.py rank 1<span class="pid">[25644]</span>' in page
    assert "train.py rank 1[25644]: call sites" in page


def test_programs_read_the_kernels_name_and_the_shown_one(tidemark, tmp_path):
    document = tidemark("show", "--json", launched(tmp_path / "a.tide")).json
    assert document["processes"][1]["name"] == "python3"
    assert document["processes"][1]["shown_name"] == "train.py rank 1[25644]"
    assert document["heap"][0]["name"] == "python3[25644]" and document["gpu"][0]["user"] == "python3[25644]"


def test_a_module_is_called_by_its_name(tidemark, tmp_path):
    (tmp_path / "mypackage").mkdir()
    (tmp_path / "mypackage" / "__main__.py").write_text(UNTIL + "until(\"select 1 from process where command like '%mypackage'\")")
    said = tidemark("run", "-i", "50ms", "-o", "a.tide", "--", "/usr/bin/python3", "-m", "mypackage").err
    assert re.search(r"^tidemark: .* mypackage\[\d+\]$", said, re.M), said
