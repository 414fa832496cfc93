"""The Python package: what it writes into its lane, and that it leaves programs alone.

The lane is read here by the layout of src/channel/lane.h, written down a second time on purpose.
"""

import contextlib
import os
import sqlite3
import struct
import subprocess
import sys

import pytest

STEP, EPOCH, PHASE_BEGIN, PHASE_END, ITEMS, GAUGE = range(1, 7)
SLOTS = 2048
LANE_BYTES = 128 + SLOTS * 128


@pytest.fixture
def channel(tmp_path):
    path = tmp_path / "channel"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def python(run, root, channel):
    """python(code, tracked=True) -> Result of running code in a new interpreter."""

    def call(code, *args, tracked=True, **more):
        env = {"PYTHONPATH": str(root / "python"), **more}
        if tracked:
            env["TIDEMARK_CHANNEL"] = str(channel)
        return run(sys.executable, "-c", code, *args, env=env)

    return call


def marks_of(path, ordered=True):
    """[(kind, number, name)] of a lane, oldest first; ordered: no time is before the one before it."""
    data = path.read_bytes()
    assert len(data) == LANE_BYTES
    magic, pid, slots, start, head = struct.unpack_from("=8sIIQQ", data)
    assert magic == b"tidlane1" and slots == SLOTS
    assert path.name == f"marks-{pid}-{start}-py"
    found, last_ns = [], 0
    for n in range(max(0, head - SLOTS), head):
        at = 128 + n % SLOTS * 128
        sequence, t_ns, number, kind, _tid, name = struct.unpack_from("=QqqII96s", data, at)
        assert sequence == n + 1
        assert t_ns >= last_ns or not ordered
        last_ns = t_ns
        assert b"\0" in name
        found.append((kind, number, name.split(b"\0")[0]))
    return found


def lanes(channel):
    return sorted(channel.iterdir())


def only_lane(channel):
    (path,) = lanes(channel)
    return marks_of(path)


def test_the_count_never_goes_back_while_it_is_written(root, channel, env):
    """A reader that sees it go back gives up the lane for good."""
    code = "import itertools, tidemark as t\nt.step(0)\nprint(flush=True)\nfor n in itertools.count(1): t.step(n)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                          env={**env, "PYTHONPATH": str(root / "python"), "TIDEMARK_CHANNEL": str(channel)}) as program:
        program.stdout.readline()
        (path,) = lanes(channel)
        last, moves = 0, 0
        with open(path, "rb", buffering=0) as lane:
            while moves < 5000:
                head = int.from_bytes(os.pread(lane.fileno(), 8, 24), "little")
                if head < last:
                    break
                moves += head > last
                last = head
        program.kill()
    assert moves == 5000


def test_every_kind_of_mark_is_written(python, channel):
    done = python(
        "import tidemark as t\n"
        "t.step(7); t.epoch(2); t.items(640); t.gauge('replay buffer', 1 << 40)\n"
        "t.phase_begin('a'); t.phase_end('a')\n"
        "assert t.tracked()"
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    assert only_lane(channel) == [
        (STEP, 7, b""),
        (EPOCH, 2, b""),
        (ITEMS, 640, b""),
        (GAUGE, 1 << 40, b"replay buffer"),
        (PHASE_BEGIN, 0, b"a"),
        (PHASE_END, 0, b"a"),
    ]


def test_the_lane_is_private(python, channel):
    python("import os, tidemark; os.umask(0); tidemark.step(1)")
    (path,) = lanes(channel)
    assert path.stat().st_mode & 0o7777 == 0o600


def test_a_phase_is_a_context_manager_and_a_decorator(python, channel):
    done = python(
        "import asyncio\n"
        "from tidemark import phase\n"
        "@phase('plain')\n"
        "def plain(x): return x + 1\n"
        "@phase('later')\n"
        "async def later(): await asyncio.sleep(0); return 5\n"
        "@phase('many')\n"
        "def many(): yield 1; yield 2\n"
        "assert plain(1) == 2 and plain.__name__ == 'plain'\n"
        "assert asyncio.run(later()) == 5\n"
        "assert list(many()) == [1, 2]\n"
        "try:\n"
        "    with phase('broken') as p:\n"
        "        assert p.name == 'broken'\n"
        "        raise KeyError\n"
        "except KeyError: pass\n"
    )
    assert done.code == 0, done.err
    names = [b"plain", b"later", b"many", b"broken"]
    assert only_lane(channel) == [(kind, 0, name) for name in names for kind in (PHASE_BEGIN, PHASE_END)]


def test_long_and_strange_names_are_cut_and_kept(python, channel):
    done = python(
        "import tidemark as t\n"
        "t.phase_begin('x' * 300); t.phase_begin('\\udcff\\x1b[2J'); t.phase_begin('\\u00e9' * 60)\n"
    )
    assert done.code == 0, done.err
    first, second, third = only_lane(channel)
    assert first[2] == b"x" * 95
    assert second[2] == b"\xff\x1b[2J"
    assert third[2] == ("\u00e9" * 60).encode()[:95]


def test_what_is_no_number_or_name_never_stops_the_program(python, channel):
    done = python(
        "import tidemark as t\n"
        "t.step('twelve'); t.step(None); t.step(1 << 70); t.step(-(1 << 70)); t.step(float('nan'))\n"
        "t.gauge(None, 5); t.gauge('g', 2.9); t.step(True)\n"
        "t.step(3)\n"
    )
    assert done.code == 0, done.err
    data = lanes(channel)[0].read_bytes()
    (head,) = struct.unpack_from("=Q", data, 24)
    good = []
    for n in range(head):
        sequence, _t, number, kind = struct.unpack_from("=QqqI", data, 128 + n * 128)
        if sequence == n + 1:
            good.append((kind, number))
    assert good == [(GAUGE, 2), (STEP, 1), (STEP, 3)]


def test_without_a_tracker_nothing_happens(python, channel):
    code = "import tidemark as t\nt.step(1)\nwith t.phase('p'): t.gauge('g', 1)\nassert not t.tracked()"
    assert python(code, tracked=False).code == 0
    assert python(code, tracked=False, TIDEMARK_CHANNEL="").code == 0
    assert python(code, tracked=False, TIDEMARK_CHANNEL="relative").code == 0
    assert python(code, tracked=False, TIDEMARK_CHANNEL=str(channel / "gone")).code == 0
    assert lanes(channel) == []


def test_a_file_size_limit_leaves_the_program_untracked(python, channel):
    done = python(
        "import resource, tidemark as t\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "t.step(1)\n"
        "assert not t.tracked()"
    )
    assert done.code == 0, done.err
    assert lanes(channel) == []


def test_a_tracker_that_dies_is_not_noticed(python, channel):
    done = python(
        "import shutil, sys, tidemark as t\n"
        "t.step(1)\n"
        "shutil.rmtree(sys.argv[1])\n"
        "for n in range(10000): t.step(n)\n",
        channel,
    )
    assert done.code == 0, done.err
    assert not channel.exists()


def test_a_forked_child_has_its_own_lane(python, channel):
    done = python(
        "import os, tidemark as t\n"
        "t.step(1)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    t.step(2)\n"
        "    os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "t.step(3)\n"
    )
    assert done.code == 0, done.err
    assert sorted(marks_of(p) for p in lanes(channel)) == [[(STEP, 1, b""), (STEP, 3, b"")], [(STEP, 2, b"")]]


def test_workers_of_every_start_method_leave_marks(python, channel, tmp_path):
    script = tmp_path / "pool.py"
    script.write_text(
        "import multiprocessing as mp, sys, tidemark\n"
        "if __name__ == '__main__':\n"
        "    tidemark.step(0)\n"
        "    for n, method in enumerate(('fork', 'spawn', 'forkserver'), 1):\n"
        "        p = mp.get_context(method).Process(target=tidemark.step, args=(n,))\n"
        "        p.start(); p.join()\n"
        "        assert p.exitcode == 0\n"
    )
    done = python("import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')", script)
    assert done.code == 0, done.err
    assert sorted(n for p in lanes(channel) for _kind, n, _name in marks_of(p)) == [0, 1, 2, 3]


def test_after_exec_the_lane_goes_on(python, channel):
    done = python(
        "import os, sys, tidemark\n"
        "tidemark.step(1)\n"
        "os.execv(sys.executable, [sys.executable, '-c', 'import tidemark; tidemark.step(2)'])\n"
    )
    assert done.code == 0, done.err
    assert only_lane(channel) == [(STEP, 1, b""), (STEP, 2, b"")]


def test_threads_leave_whole_marks(python, channel):
    done = python(
        "import sys, threading, tidemark as t\n"
        "sys.setswitchinterval(1e-6)\n"
        "def work(me):\n"
        "    for i in range(2000): t.gauge(chr(97 + me) * (i % 90 + 1), i * 4 + me)\n"
        "crew = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n"
        "[c.start() for c in crew]; [c.join() for c in crew]\n"
    )
    assert done.code == 0, done.err
    found = only_lane(channel)
    assert len(found) == SLOTS
    for _kind, number, name in found:
        assert name == bytes([97 + number % 4]) * (number // 4 % 90 + 1)


def test_a_signal_handler_may_leave_marks(python, channel):
    done = python(
        "import itertools, signal, tidemark as t\n"
        "numbers, seen = itertools.count(1), 0\n"
        "def handler(*_):\n"
        "    global seen\n"
        "    mine = next(numbers)\n"
        "    t.gauge('handler', mine)\n"
        "    seen = max(seen, mine)\n"
        "signal.signal(signal.SIGALRM, handler)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0002)\n"
        "n = 0\n"
        "while seen < 200:\n"
        "    t.step(n); n += 1\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)\n"
    )
    assert done.code == 0, done.err
    found = marks_of(lanes(channel)[0], ordered=False)  # a handler may come between a clock and its slot
    handled = sorted(number for _kind, number, name in found if name == b"handler")  # handlers nest, too
    assert handled and handled == list(range(handled[0], handled[-1] + 1)) and handled[-1] >= 200


def test_a_recording_holds_what_the_program_said(tidemark, root, tmp_path):
    script = (
        "import time, tidemark\n"
        "for n in range(5):\n"
        "    tidemark.step(n)\n"
        "    with tidemark.phase('validation'): time.sleep(0.05)\n"
        "tidemark.items(40); tidemark.gauge('loader', 1 << 33)\n"
    )
    done = tidemark("run", "-o", "a.tide", "--", sys.executable, "-c", script, env={"PYTHONPATH": str(root / "python")})
    assert done.code == 0, done.err
    with contextlib.closing(sqlite3.connect(tmp_path / "a.tide")) as recording:
        rows = recording.execute("SELECT kind, number, name FROM mark WHERE source = 1 ORDER BY t_ns, rowid").fetchall()
    steps = [row for n in range(5) for row in ((STEP, n, ""), (PHASE_BEGIN, 0, "validation"), (PHASE_END, 0, "validation"))]
    assert rows == [*steps, (ITEMS, 40, ""), (GAUGE, 1 << 33, "loader")]


def test_marks_at_the_end_of_the_interpreter_are_no_trouble(python):
    done = python(
        "import atexit, threading, time, tidemark\n"
        "class Last:\n"
        "    def __del__(self): tidemark.step(9); tidemark.phase_end('p'); tidemark.gauge('g', 1)\n"
        "last = Last(); last.me = last\n"
        "tidemark.phase_begin('p')\n"
        "atexit.register(lambda: tidemark.step(8))\n"
        "def run():\n"
        "    while True: tidemark.step(1)\n"
        "threading.Thread(target=run, daemon=True).start()\n"
    )
    assert (done.code, done.err) == (0, "")


def test_of_two_trackers_the_inner_one_gets_the_marks(tidemark, binary, root, tmp_path):
    script = "import time, tidemark\nfor n in range(6): tidemark.step(n); time.sleep(0.05)"
    inner = [binary, "run", "-q", "-o", "inner.tide", "--", sys.executable, "-c", script]
    done = tidemark("run", "-q", "-o", "outer.tide", "--", *inner, env={"PYTHONPATH": str(root / "python")})
    assert done.code == 0, done.err
    counts = {}
    for name in ("inner", "outer"):
        with contextlib.closing(sqlite3.connect(tmp_path / f"{name}.tide")) as recording:
            counts[name] = recording.execute("SELECT count(*) FROM mark WHERE kind = 1").fetchone()[0]
            (processes,) = recording.execute("SELECT count(*) FROM process WHERE name LIKE 'python%'").fetchone()
            assert processes >= 1, "both see the program"
    assert counts == {"inner": 6, "outer": 0}


def test_steps_that_go_backwards_and_a_phase_left_open_are_judged(tidemark, root):
    """A run that was resumed, and died in its validation."""
    script = (
        "import time, tidemark\n"
        "kept = []\n"
        "for n in [*range(0, 60), *range(30, 90)]:\n"
        "    tidemark.step(n); kept.append(b'x' * (1 << 20)); time.sleep(0.01)\n"
        "with tidemark.phase('validation'):\n"
        "    tidemark.phase_begin('inner')\n"
        "    raise KeyError('mine')\n"
    )
    done = tidemark("run", "-q", "-i", "10ms", "-o", "a.tide", "--", sys.executable, "-c", script, env={"PYTHONPATH": str(root / "python")})
    assert done.code == 1 and "KeyError: 'mine'" in done.err, done.err
    verdict = tidemark("judge", "--json", "a.tide").json
    assert (verdict["verdict"], verdict["axis"]) == ("leak", "step")
    assert verdict["bytes_per_step"] == pytest.approx(1 << 20, rel=0.15), "of 120 steps, not of 90"
    assert "inner" in tidemark("show", "--what", "phases", "a.tide").out


def test_the_program_is_told_where_its_recording_is(tidemark, tmp_path):
    script = "import os; os.chdir('/'); print(os.environ['TIDEMARK_RECORDING'])"
    done = tidemark("run", "-q", "-o", "a.tide", "--", sys.executable, "-c", script)
    assert (done.code, done.out.strip()) == (0, str((tmp_path / "a.tide").resolve()))


@pytest.mark.slow
def test_items_of_a_loader_process_are_not_taken_for_those_of_the_training(tidemark, root):
    script = (
        "import os, time, tidemark\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    for n in range(120): tidemark.items(n * 1000); time.sleep(0.02)\n"
        "    os._exit(0)\n"
        "kept = []\n"
        "for n in range(120):\n"
        "    tidemark.step(n); tidemark.items(n * 8)\n"
        "    kept.append(b'x' * (1 << 20)); time.sleep(0.02)\n"
        "os.waitpid(pid, 0)\n"
    )
    done = tidemark("run", "-q", "-i", "10ms", "-o", "a.tide", "--", sys.executable, "-c", script,
                    env={"PYTHONPATH": str(root / "python")})
    assert done.code == 0, done.err
    verdict = tidemark("judge", "--json", "a.tide").json
    assert verdict["verdict"] == "leak"
    # Of the growth itself a busy machine sees few moments, and reads each a little after its time.
    assert verdict["bytes_per_item"] == pytest.approx(verdict["bytes_per_step"] / 8, rel=0.01)


def test_only_the_standard_library_is_imported(python):
    done = python(
        "import sys\n"
        "known = {m.split('.')[0] for m in sys.modules} | set(sys.stdlib_module_names) | {'tidemark'}\n"
        "import tidemark\n"
        "extra = {m.split('.')[0] for m in sys.modules} - known\n"
        "print(sorted(extra))\n"
    )
    assert done.out.strip() == "[]", done.out + done.err
