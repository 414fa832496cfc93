"""`tidemark attach`: a tree that is already running."""

import os
import pathlib
import signal
import sqlite3
import subprocess
import sys

import pytest

from waiting import UNTIL, wait_for

TIMEOUT = 30


def rows(path, query):
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            return db.execute(query).fetchall()
    except sqlite3.OperationalError:
        return []


@pytest.fixture
def target(tmp_path):
    """target(text, stdout=) -> a running Python program that has printed "ready" or made the file of that name."""
    started = []

    def start(text, stdout=subprocess.DEVNULL):
        path = tmp_path / "target.py"
        path.write_text("import os, sys, time\n" + UNTIL + text)
        p = subprocess.Popen([sys.executable, str(path)], cwd=tmp_path, stdout=stdout, stdin=subprocess.DEVNULL)
        started.append(p)
        wait_for(lambda: (tmp_path / "ready").exists(), "the target")
        return p

    yield start
    for p in started:
        if p.poll() is None:
            p.kill()
        p.wait()


@pytest.mark.parametrize("word, sentence", [
    ("abc", "'abc' is not a process ID"),
    ("0", "'0' is not a process ID"),
    ("-5", "'-5'"),
    ("99999999999999999999", "is not a process ID"),
    ("12x", "'12x' is not a process ID"),
    ("4194305", "there is no process 4194305"),
])
def test_what_is_no_process_is_refused(tidemark, tmp_path, word, sentence):
    done = tidemark("attach", "--", word)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err and done.err.startswith("tidemark: attach: ")
    assert list(tmp_path.iterdir()) == []


def test_it_takes_one_operand(tidemark):
    assert tidemark("attach").code == 2
    assert tidemark("attach", "1", "2").code == 2


def test_a_process_that_has_vanished_is_refused(tidemark, tmp_path):
    p = subprocess.Popen(["true"])
    p.wait()
    done = tidemark("attach", p.pid)
    assert done.code == 2 and f"there is no process {p.pid}" in done.err


def test_a_process_that_has_ended_but_is_still_listed_is_refused(tidemark, tmp_path):
    zombie = subprocess.Popen(["true"])
    wait_for(lambda: " Z " in pathlib.Path(f"/proc/{zombie.pid}/stat").read_text(), "the end")
    done = tidemark("attach", zombie.pid)
    assert (done.code, done.out) == (2, "")
    assert done.err == (f"tidemark: attach: process {zombie.pid} has ended and is a zombie\n"
                        f"hint: its parent, process {os.getpid()}, has not waited for it yet\n")
    done = tidemark("watch", zombie.pid)
    assert done.code == 2 and done.err.startswith(f"tidemark: watch: process {zombie.pid} has ended and is a zombie\n")
    assert list(tmp_path.iterdir()) == []
    zombie.wait()


@pytest.mark.skipif(not os.path.exists("/proc/2/comm") or "kthreadd" not in open("/proc/2/comm").read(),
                    reason="no thread of the kernel is to be seen here")
@pytest.mark.parametrize("command", ["attach", "watch"])
def test_a_thread_of_the_kernel_is_refused(tidemark, tmp_path, command):
    done = tidemark(command, 2)
    assert done.code == 2
    assert done.err.startswith(f"tidemark: {command}: 2 is a kernel thread; it has no memory of its own\n")
    assert list(tmp_path.iterdir()) == []


def test_itself_is_refused(run, binary, tmp_path):
    done = run("sh", "-c", f"exec {binary} attach $$")
    assert done.code == 2 and "is tidemark itself" in done.err


def test_it_records_the_tree_until_it_ends(tidemark, target, tmp_path):
    p = target("keep = [bytearray(50_000_000)]\n"
               "if os.fork() == 0:\n    keep.append(bytearray(30_000_000)); open('ready', 'w')\n"
               "    until('select 1 from tick where rss_bytes > 80000000'); os._exit(0)\n"
               "os.wait()\n")
    done = tidemark("attach", "-i", "50ms", "-o", "a.tide", p.pid)
    assert done.code == 0, done.err
    assert done.err.splitlines()[-1] == "recording: a.tide"
    names = rows(tmp_path / "a.tide", "select pid, parent from process order by id")
    assert len(names) == 2 and names[0][0] == p.pid
    assert rows(tmp_path / "a.tide", "select max(rss_bytes) from tick")[0][0] > 80_000_000
    meta = dict(rows(tmp_path / "a.tide", "select key, value from meta"))
    assert meta["command"] == f"attach {p.pid}"
    assert "exit_status" not in meta and meta["ended_ns"] > 0


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_recording_and_not_the_target(binary, target, tmp_path, env, sent):
    p = target("open('ready', 'w'); time.sleep(60)\n")
    tracker = subprocess.Popen([binary, "attach", "-i", "50ms", "-o", "a.tide", str(p.pid)], cwd=tmp_path, env=env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: rows(tmp_path / "a.tide", "select 1 from tick"), "a tick")
    tracker.send_signal(sent)
    out, err = tracker.communicate(timeout=TIMEOUT)
    assert (tracker.returncode, out) == (0, "")
    assert err.splitlines()[-1] == "recording: a.tide"
    assert p.poll() is None
    assert dict(rows(tmp_path / "a.tide", "select key, value from meta"))["ended_ns"] > 0


def test_steps_are_read_from_the_file_that_the_target_writes(tidemark, target, tmp_path):
    with open(tmp_path / "log", "wb") as log:
        p = target("print('step 7', flush=True); open('ready', 'w'); until('select 1 from tick')\n"
                   "for i in range(100, 110): print('update', i, 'step', i, flush=True); time.sleep(0.05)\n", stdout=log)
    done = tidemark("attach", "-i", "20ms", "-o", "a.tide", p.pid)
    assert done.code == 0
    assert [n for n, in rows(tmp_path / "a.tide", "select number from mark where kind = 1")] == list(range(100, 110))


def test_steps_are_found_after_the_file_was_truncated(tidemark, target, tmp_path):
    with open(tmp_path / "log", "ab") as log:
        p = target("print('x' * 100000, flush=True); open('ready', 'w')\n"
                   "while not os.path.exists('a.tide'): time.sleep(0.01)\n"
                   "os.truncate('log', 0)\n"
                   "for i in range(100, 110): print('step', i, flush=True); time.sleep(0.05)\n", stdout=log)
    assert tidemark("attach", "-i", "50ms", "-o", "a.tide", p.pid).code == 0
    assert rows(tmp_path / "a.tide", "select min(number), max(number) from mark where kind = 1") == [(100, 109)]


def test_a_regular_expression_without_a_file_is_told_to_have_no_effect(tidemark, target):
    p = target("open('ready', 'w'); until('select 1 from tick')\n")
    done = tidemark("attach", "--step-regex", "a([0-9])", "-o", "a.tide", p.pid)
    assert done.code == 0
    assert "--step-regex has no effect" in done.err


@pytest.mark.skipif(os.geteuid() != 0 or not pathlib.Path("/usr/bin/setpriv").exists(), reason="needs root and setpriv")
def test_a_process_of_someone_else_is_recorded_as_far_as_it_can_be_read(binary, target, tmp_path, open_folder, env):
    p = target("keep = bytearray(40_000_000); open('ready', 'w'); until('select 1 from tick')\n")
    os.symlink(open_folder / "a.tide", tmp_path / "a.tide")  # where the target looks for it
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", binary, "attach", "-i", "50ms",
                           "-o", "a.tide", str(p.pid)], cwd=open_folder, env=env, capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    assert "no permission, because it belongs to another user or has other privileges" in done.stderr
    assert rows(tmp_path / "a.tide", "select max(rss_bytes) from tick")[0][0] > 40_000_000
