"""The full-screen view: saved screens of recordings with fixed times, scripted keys, and real terminals.

TIDEMARK_SAVE_SCREENS=1 writes the saved screens anew; read the difference before it is committed.
"""

import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys

import pytest

from full_screen import terminal  # the fixture
from recording import EPOCH, GAUGE, MIB, PHASE_BEGIN, PHASE_END, STEP, Recording
from waiting import wait_for

SCREENS = pathlib.Path(__file__).parent / "screens"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f]")


def training(path, seconds=1000, name="python", phase="validation", ended=True, parent=1):
    """uv starts python, which leaks 256 KiB a step and validates every 200 s, and keeps four workers. 4 steps a second."""
    r = Recording(path)
    r.meta(tool="tidemark 0.1.0", command="uv run python train.py", started_wall_s=1790000000, interval_ns=10**9)
    r.process(100, "uv", command="uv run python train.py", peak=2 * MIB)
    r.process(101, name, parent=parent, command="python train.py --epochs 5", peak=3000 * MIB)
    for i in range(4):
        r.process(110 + i, "compile_worker", parent=2, peak=400 * MIB)
    for s in range(seconds):
        if s % 200 == 0:
            r.mark(s, EPOCH, s // 200, process=2)
        if s % 200 == 190:
            r.mark(s, PHASE_BEGIN, name=phase, process=2)
        if s % 200 == 195:
            r.mark(s, PHASE_END, name=phase, process=2)
        r.mark(s, STEP, s * 4, process=2)
        python = (500 + s + (1500 if 190 <= s % 200 < 195 else 0)) * MIB
        anon = {1: 2 * MIB, 2: python, **{3 + i: 400 * MIB for i in range(4)}}
        r.tick(s, anon, counted=python + 402 * MIB, pss_known_bytes=sum(anon.values()))
        if s % 100 == 0:
            for i in range(4):
                r.put("smaps", tick=r.ticks, process=3 + i, pss_bytes=100 * MIB, uss_bytes=0, swap_pss_bytes=0, cost_ns=1)
    r.mark(seconds - 1, GAUGE, 700 * MIB, "torch allocated", process=2)
    r.put("memory_limit", t_ns=0, name="--limit", bytes=8 << 30)
    if ended:
        r.meta(ended_ns=(seconds - 1) * 10**9, exit_status=0)
    return r.close()


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    return training(tmp_path_factory.mktemp("watch") / "train.tide")


@pytest.fixture
def dump(tidemark):
    """dump(file, keys="", size="80x24") -> the lines of the last frame: one key per frame, and one frame more."""

    def call(path, keys="", size="80x24", **env):
        frames = len(re.findall(r"<\w+[\w-]*>|.", keys)) + 1
        done = tidemark("watch", path, "--dump", "--frames", frames, "--keys", keys, "--size", size, env=env)
        assert done.code == 0 and done.err == ""
        assert not CONTROL.search(done.out)
        return done.out

    return call


def compare(name, text):
    """Against the saved screen. What the verdict says above the status line is the judge's, and tested there."""
    text = re.sub(r"\A.*?^(?=step )", "(verdict)\n", text, count=1, flags=re.M | re.S)
    path = SCREENS / f"{name}.txt"
    if os.environ.get("TIDEMARK_SAVE_SCREENS") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"the screen is not that of {path}"


# ---- saved screens


@pytest.mark.parametrize(
    "name, keys, size",
    [
        ("plain", "", "80x24"),
        ("large", "", "132x40"),
        ("narrow", "", "52x16"),
        ("tiny", "", "30x5"),
        ("python", "<down><down>", "80x24"),
        ("memory", "s<down><enter>", "80x24"),
        ("growth", "ss", "80x24"),
        ("folded", "<down><space>", "80x24"),
        ("zoomed", "<less>zzz", "80x24"),
        ("time", "t<left><left>", "80x24"),
        ("range", "<down><down>zzzy", "80x24"),
        ("help", "?", "80x24"),
        ("log", "l", "80x24"),
        ("playing", "p]<none><none>", "80x24"),
    ],
)
def test_the_screen_is_the_saved_one(dump, recording, name, keys, size):
    compare(name, dump(recording, keys, size))


def test_without_utf8_the_screen_is_ascii(dump, recording):
    text = dump(recording, LC_ALL="C")
    assert text.isascii()
    compare("ascii", text)


def test_every_line_fits_and_every_frame_is_full(dump, recording):
    for columns, rows in [(1, 1), (2, 50), (49, 13), (50, 14), (80, 24), (81, 25), (200, 60), (1000, 500)]:
        lines = dump(recording, "s<down><enter>", f"{columns}x{rows}").split("\n")[:-1]
        assert len(lines) == rows
        assert max(len(line) for line in lines) <= columns


def test_the_verdict_is_that_of_judge(dump, tidemark, recording):
    sentence = tidemark("judge", "--json", recording).json["sentence"]
    shown = " ".join(dump(recording, size="200x40").split("\n")[:2])
    assert sentence in shown


def test_the_verdict_pane_has_all_of_it(dump, tidemark, recording):
    text = dump(recording, "v", "200x60")
    for line in tidemark("judge", recording).out.splitlines():
        assert line.strip() in text
    assert "4 x compile_worker" in text.split("Also judged:")[1]


def test_a_hostile_recording_shows_nothing_unescaped(dump, tmp_path):
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    path = training(tmp_path / "evil\x1b[31m.tide", 40, name=evil, phase=evil, parent=99)
    for keys in ["", "<down>", "<down><down>", "v", "s<enter>", "zz<less>"]:
        for size in ["80x24", "133x43"]:
            assert "\u202e" not in dump(path, keys, size)
    assert "\\x1b]0;owned" in dump(path, "<down><down>", "133x43")


def test_absurd_numbers_are_survived(dump, tmp_path):
    most = 1 << 62
    for case, (size, last, steps) in enumerate([(most, 30, [0, most]), (0, most, [-most, 0, most]), (1, 1, [7, 7]),
                                                (most, most // 2, [most, -most])]):
        r = Recording(tmp_path / f"absurd-{case}.tide")
        for i in range(9):
            r.process(most - i, "p", parent=most, ended=None if i % 2 else last / 1e9, peak=most)
        for i in range(60):
            r.ticks += 1
            r.put("tick", id=r.ticks, t_ns=last // 60 * i, processes=9, rss_bytes=size, counted_bytes=size)
            for p in range(1, 10):
                r.put("sample", tick=r.ticks, process=p, anon_bytes=size if i % 2 else 0, file_bytes=size,
                      shmem_bytes=0, swap_bytes=0, huge_bytes=0, threads=most)
            r.put("gpu", tick=r.ticks, device=most, process=i % 9, bytes=size)
            for kind in range(1, 7):
                r.put("mark", t_ns=last // 60 * i, process=i % 3, kind=kind, source=1, number=steps[i % len(steps)], name="x")
        path = r.close()
        for keys in ["", "<down><enter>", "s<down><down>", "zzzzzzzzzzzzzzzzzz<left>", "tpp<less><less>", "v", "e?"]:
            assert dump(path, keys)


def test_wide_names_are_measured_in_columns(dump, tmp_path):
    path = training(tmp_path / "wide.tide", 40, name="訓練プロセス")
    lines = dump(path).split("\n")
    wide, plain = (next(line for line in lines if f" {pid} " in line) for pid in (101, 100))
    # six runes of two columns each: what follows stands six characters earlier in the text, in the same column
    assert wide.index("MiB") + 6 == plain.index("MiB")


def test_a_recording_without_steps_has_time_as_its_axis(dump, tmp_path):
    r = Recording(tmp_path / "time.tide")
    r.process(7, "prog")
    for s in range(300):
        r.tick(s, {1: (100 + s % 3) * MIB})
    text = dump(r.close())
    assert "0:04:59" in text and "no marks: the axis is time" in text
    assert "cut off" in text


def test_notes_are_on_the_screen_and_in_the_verdict(dump, tmp_path):
    path = training(tmp_path / "noted.tide", 60)
    db = sqlite3.connect(path)
    db.execute("INSERT INTO note(t_ns, text) VALUES (30000000000, 'disk full for 12 s\x1b[2J')")
    db.commit()
    db.close()
    assert "note: disk full for 12 s\\x1b[2J" in dump(path)
    assert "after 30 s: disk full for 12 s\\x1b[2J" in dump(path, "v", "120x40")
    assert "disk full" not in dump(path, "<less><less><less>")


def test_an_empty_recording_is_no_crash(dump, tmp_path):
    r = Recording(tmp_path / "empty.tide")
    assert "waiting for the first sample" in dump(r.close(), "zs?<enter>v")


# ---- what cannot be shown


@pytest.mark.parametrize(
    "args, says",
    [
        ([], "there is nothing to watch"),
        (["--"], "there is nothing to watch"),
        (["a", "b"], "expected one file or process ID, got 2"),
        (["no-such.tide"], "no-such.tide"),
        (["."], "'.'"),
        (["999999999"], "there is no process 999999999"),
        (["99999999999999999999"], "is not a process ID"),
        (["--dump", "--size", "80", "x"], "'80' is not a screen size"),
        (["--dump", "--size", "0x5", "x"], "'0x5' is not a screen size"),
        (["--dump", "--keys", "j<dwon>", "x"], "unknown key name at '<dwon>'"),
        (["--frames", "0", "x"], "out of range"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_2(tidemark, args, says):
    done = tidemark("watch", *args)
    assert done.code == 2 and done.out == ""
    first = done.err.splitlines()[0]
    assert first.startswith("tidemark: ") and says in first
    assert len(done.err.splitlines()) <= 2


@pytest.mark.parametrize("options, name", [(["-o", "b.tide"], "output"), (["-i", "5s"], "interval"),
                                           (["--step-regex", "it (.*)"], "step-regex"), (["-q"], "quiet")])
def test_options_for_recording_are_refused_for_a_recording(tidemark, recording, options, name):
    done = tidemark("watch", "--dump", *options, recording)
    assert (done.code, done.out) == (2, "")
    assert done.err == (f"tidemark: watch: --{name} is for a program that is recorded, and '{recording}' is a recording\n"
                        "hint: to watch a program: tidemark watch -- PROG\n")


def test_a_regular_expression_without_a_file_is_told_to_have_no_effect(tidemark, workload):
    with subprocess.Popen([str(workload("linear")), "--steps", "100000"], stdout=subprocess.DEVNULL) as program:
        done = tidemark("watch", "--dump", "--frames", "1", "-o", "a.tide", "--step-regex", "it ([0-9]+)", program.pid)
        program.kill()
    assert done.code == 0
    assert f"tidemark: --step-regex has no effect: process {program.pid} does not write to a file\n" in done.err


def test_what_is_no_recording_is_refused(tidemark, tmp_path):
    (tmp_path / "text").write_text("step,rss\n1,2\n")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t(x)").connection.close()
    for name in ("text", "other.db"):
        done = tidemark("watch", "--dump", name)
        assert done.code == 2 and name in done.err


def test_without_a_terminal_there_is_a_hint(tidemark, recording):
    done = tidemark("watch", recording)
    assert done.code == 2 and done.out == ""
    assert "needs a terminal" in done.err and "tidemark run" in done.err and "show" in done.err
    done = tidemark("watch", "--", "true")
    assert done.code == 2 and "needs a terminal" in done.err
    assert not list(pathlib.Path(".").glob("true-*.tide"))


# ---- real terminals


@pytest.fixture
def trainer(tmp_path):
    """A program that prints steps, holds more each time, and says how it was ended."""
    path = tmp_path / "trainer.py"
    path.write_text(
        "import signal, sys, time\n"
        "def leave(n, frame):\n"
        "    open('ended', 'w').write(str(n)); print('signal', n, flush=True); sys.exit(7)\n"
        "for n in (signal.SIGINT, signal.SIGTERM): signal.signal(n, leave)\n"
        "kept = []\n"
        "for step in range(int(sys.argv[1])):\n"
        "    kept.append(bytearray(1 << 16)); print('step', step, flush=True); time.sleep(0.02)\n"
        "sys.exit(5)\n")
    return [sys.executable, str(path)]


def test_a_view_starts_answers_resizes_and_leaves_the_terminal_as_it_was(terminal, recording):
    t = terminal("watch", recording)
    t.wait(r"LEAK in python\[101\]")
    t.wait("4 x compile_worker")
    t.keys("\x1b[B\x1b[B\x1b[B\r")
    t.wait("112 ")
    t.keys("s")
    t.wait("sort:memory")
    t.size(60, 20)
    os.kill(t.process.pid, signal.SIGWINCH)
    t.wait(r"^\? help.*v verdict *$")
    t.size(20, 3)
    t.wait("20x3 is too small")
    t.size(100, 30)
    t.wait("process tree")
    t.keys("?")
    t.wait("fold or unfold")
    t.keys("\x1b")
    t.wait("sort:memory")
    t.keys("q")
    assert t.end() == 0
    assert "process tree" not in t.text().splitlines()[0]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_view_and_restores_the_terminal(terminal, recording, how):
    t = terminal("watch", recording)
    t.wait("process tree")
    t.process.send_signal(how)
    assert t.end() == 0


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGQUIT])
def test_a_fatal_signal_restores_the_terminal_first(terminal, recording, how):
    t = terminal("watch", recording)
    t.wait("process tree")
    t.process.send_signal(how)
    assert t.end() == -how


def children_of(pid):
    listing = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    if not listing.exists():
        pytest.skip("this kernel does not list children")
    return [int(child) for child in listing.read_text().split()]


@pytest.mark.parametrize("whole_group", [False, True])
def test_a_view_that_is_killed_outright_leaves_the_terminal_as_it_was(terminal, binary, recording, whole_group):
    job = "set -m; " if whole_group else ""  # with job control the view has a process group of its own
    t = terminal(argv=["sh", "-c", f"{job}{binary} watch {recording}; read line; exit 5"])
    t.wait("process tree")
    (view,) = children_of(t.process.pid)
    (keeper,) = children_of(view)
    wait_for(lambda: pathlib.Path(f"/proc/{keeper}/comm").read_text() == "screen-keeper\n", "the keeper's name")
    assert pathlib.Path(f"/proc/{keeper}/cmdline").read_bytes().rstrip(b"\0") == b"screen-keeper"
    os.kill(-view if whole_group else view, signal.SIGKILL)
    wait_for(lambda: not pathlib.Path(f"/proc/{keeper}/exe").exists(), "the keeper ending")
    t.keys("\n")
    assert t.end() == 5


def test_no_keeper_is_left_behind(terminal, recording):
    t = terminal("watch", recording)
    t.wait("process tree")
    (keeper,) = children_of(t.process.pid)
    t.keys("q")
    assert t.end() == 0
    assert not pathlib.Path(f"/proc/{keeper}").exists()


def test_no_colour_means_no_colour(terminal, recording):
    colour = re.compile(rb"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8])(?:;\d+)*m")
    plain, colourful = terminal("watch", recording, env={"NO_COLOR": "1"}), terminal("watch", recording)
    for t in (plain, colourful):
        t.wait("process tree")
        t.keys("q")
        assert t.end() == 0
    assert colour.search(colourful.raw) and not colour.search(plain.raw)


@pytest.mark.parametrize("name", ["dumb", "no-such-terminal", ""])
def test_a_terminal_that_cannot_place_a_cursor_is_refused(run, binary, recording, name):
    done = run("script", "-qec", f"env TERM='{name}' {binary} watch {recording}", "/dev/null")
    assert done.code == 2 and "needs a terminal" in done.out


def test_frames_on_a_terminal_are_counted(terminal, recording):
    t = terminal("watch", "--frames", "3", "--keys", "ss", recording)
    assert t.end() == 0
    assert t.raw


def test_stopping_gives_the_terminal_back_and_fg_takes_it_again(terminal, binary, recording):
    t = terminal(argv=["bash", "--norc", "-i"], env={"PS1": "ready> ", "HISTFILE": ""})
    t.wait("^ready>")
    t.keys(f"{binary} watch {recording}\r")
    t.wait("process tree")
    t.keys("\x1a")
    t.wait("Stopped")
    t.keys("stty -a | grep -c ' icanon' && echo still\t here\r")
    t.wait("^1")
    t.keys("clear; fg\r")
    t.wait("process tree")
    t.keys("s")
    t.wait("sort:memory")
    t.keys("q")
    t.wait("^ready> ")
    t.keys("exit\r")
    t.end()


def test_a_growing_recording_is_followed_and_freezing_holds_it(terminal, tmp_path, workload):
    path = tmp_path / "live.tide"
    t = terminal("watch", "-o", path, "--", workload("linear"), "--steps", "100000")
    t.wait("LIVE")
    first = re.search(r"^step ([\d,]+)", t.wait(r"^step [\d,]+"), re.M)[1]
    t.wait(rf"^step (?!{first}\b)[\d,]+")
    t.wait(r"leak: floor \+")
    second = terminal("watch", path)
    second.wait("LIVE")
    second.keys("f")
    second.wait("FROZEN")
    second.keys("q")
    assert second.end() == 0
    t.keys("qs")
    assert t.end() == 128 + signal.SIGTERM
    assert "recording: " in t.text()


def test_a_recording_that_is_spoilt_meanwhile_stays_on_the_screen(terminal, tmp_path):
    path = training(tmp_path / "spoilt.tide", 60, ended=False)
    t = terminal("watch", path.name)
    t.wait("process tree")
    path.write_bytes(b"no database any more" * 1000)
    t.wait("^'spoilt.tide' is")
    assert "process tree" in t.text()
    t.keys("q")
    assert t.end() == 0


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def large(path, looks=8400, processes=500):
    """A recording that takes seconds to read."""
    r = Recording(path)
    for i in range(processes):
        r.process(100 + i, "python", parent=min(i, 1))
    count = f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {looks - 1})"
    r.db.execute(f"INSERT INTO tick(id, t_ns, processes, rss_bytes, counted_bytes) {count}"
                 f" SELECT i + 1, i * 250000000, {processes}, {processes << 20}, {processes << 20} FROM n")
    r.db.execute("INSERT INTO sample(tick, process, anon_bytes, file_bytes, shmem_bytes, swap_bytes, huge_bytes, threads)"
                 " SELECT tick.id, process.id, 1048576 + 4096 * (tick.id % 7), 0, 0, 0, 0, 1 FROM tick CROSS JOIN process")
    return r.close()


@pytest.mark.unsanitized
def test_who_leaves_does_not_wait_for_a_large_recording(terminal, tmp_path):
    recording = large(tmp_path / "large.tide")
    for key in "q", "\x03":
        t = terminal("watch", recording)
        t.wait("waiting for the first sample|reading the recording")
        before = processor_seconds(t.process.pid)
        t.keys(key)
        _, status, used = os.wait4(t.process.pid, 0)
        t.process.returncode = os.waitstatus_to_exitcode(status)
        assert t.end() == 0
        # Work from the key to the end, which a busy machine does not change: to read what is read at once takes longer.
        assert used.ru_utime + used.ru_stime - before < 0.1


def test_a_program_that_ends_passes_its_status_on(terminal, trainer, tmp_path):
    t = terminal("watch", "-o", "job.tide", "--", *trainer, "60")
    t.wait("the program has ended|ended, status 5")
    t.keys("l")
    t.wait("step 59")
    t.keys("q")
    assert t.end() == 5
    assert "recording: job.tide" in t.text()
    assert (tmp_path / "job.tide.log").read_text().startswith("step 0\n")
    assert sorted(p.name for p in tmp_path.glob("job.tide*")) == ["job.tide", "job.tide.log"]


def test_who_is_asked_about_a_program_that_ends_meanwhile_leaves(terminal, trainer, tmp_path):
    """Also who presses q between the end of the program and the view's knowing of it."""
    t = terminal("watch", "-o", "job.tide", "--", *trainer, "100000")
    t.wait("LIVE")
    wait_for(lambda: (tmp_path / "job.tide.log").stat().st_size > 0, "the first step, before which it has no handler")
    t.keys("q")
    t.wait("still running")
    program = children_of(children_of(t.process.pid)[0])[-1]
    os.kill(program, signal.SIGTERM)
    assert t.end() == 7
    assert "recording: job.tide" in t.text()


def test_ctrl_c_goes_to_the_program_and_then_the_view_ends(terminal, trainer, tmp_path):
    t = terminal("watch", "-o", "job.tide", "--", *trainer, "100000")
    t.wait("LIVE")
    wait_for(lambda: (tmp_path / "job.tide.log").stat().st_size > 0, "the first step, before which it has no handler")
    t.keys("\x03")
    assert t.end() == 7
    assert (tmp_path / "ended").read_text() == str(int(signal.SIGINT))


def test_a_program_can_be_stopped_or_left_running(terminal, trainer, tmp_path):
    t = terminal("watch", "-o", "job.tide", "--", *trainer, "100000")
    t.wait("LIVE")
    t.keys("q")
    t.wait("still running")
    t.keys("x")
    t.wait("LIVE")
    t.keys("qd")
    assert t.end() == 0
    tracker = int(re.search(r"process (\d+) keeps", t.text())[1])
    size = lambda: (tmp_path / "job.tide.log").stat().st_size  # noqa: E731
    before = size()
    wait_for(lambda: size() > before, "the program printing on")
    assert not (tmp_path / "ended").exists()
    again = terminal("watch", "job.tide")
    again.wait("LIVE")
    again.keys("q")
    assert again.end() == 0
    os.kill(tracker, signal.SIGTERM)
    wait_for((tmp_path / "ended").exists, "the program ending")


def test_ctrl_c_before_there_is_a_view_goes_to_the_program(terminal, trainer, tmp_path):
    t = terminal("watch", "-o", "job.tide", "--", *trainer, "100000")
    wait_for(lambda: (tmp_path / "job.tide.log").exists() and (tmp_path / "job.tide.log").stat().st_size > 0, "the first step")
    t.keys("\x03")
    assert t.end() == 7
    assert (tmp_path / "ended").read_text() == str(int(signal.SIGINT))
    assert "recording: job.tide" in t.text()


@pytest.fixture
def busy(terminal, trainer, tmp_path, root):
    """A view of a program that runs, which is busy from now on until the file "busy" is gone."""
    library = tmp_path / "busy.so"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, root / "tests/fake/busy_view.c"], check=True)
    t = terminal("watch", "-o", "job.tide", "--", *trainer, "100000", env={"LD_PRELOAD": str(library)})
    t.wait("LIVE")
    wait_for(lambda: (tmp_path / "job.tide.log").stat().st_size > 0, "the first step, before which it has no handler")
    (tmp_path / "busy").touch()
    wait_for((tmp_path / "held").exists, "the view being busy")
    return t


@pytest.mark.slow
def test_ctrl_c_reaches_the_program_while_the_view_is_busy(busy, tmp_path):
    busy.keys("\x03")
    wait_for((tmp_path / "ended").exists, "the program ending")
    busy.keys("\x03")  # a second one asks, whatever the view does
    busy.wait("still running")
    (tmp_path / "busy").unlink()
    assert busy.end() == 7
    assert (tmp_path / "ended").read_text() == str(int(signal.SIGINT))


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["d", "s"])
def test_the_question_is_asked_while_the_view_is_busy(busy, tmp_path, answer):
    t = busy
    t.keys("q")
    t.wait("still running")
    t.keys("x")
    wait_for(lambda: t.read(0.1) and "still running" not in t.text(), "the question being taken back")
    t.keys("q")
    t.wait("still running")
    t.keys(answer)
    assert t.end() == (7 if answer == "s" else 0)
    assert "recording: job.tide" in t.text()
    assert (tmp_path / "ended").exists() == (answer == "s")


@pytest.mark.parametrize("patient", [True, False])
def test_a_program_that_does_not_want_to_end_is_killed_by_asking_again(terminal, tmp_path, patient):
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); open('ready', 'w'); time.sleep(1000)"
    t = terminal("watch", "-o", "job.tide", "--", sys.executable, "-c", stubborn)
    t.wait("LIVE")
    wait_for((tmp_path / "ready").exists, "the program starting")
    t.keys("qs")
    if patient:
        t.wait("waiting for the program to end; Ctrl-C kills it")
    while b"\x1b[?1049l" not in t.raw:  # else at once, while the view is closing
        assert t.read(60)
    t.keys("\x03")
    assert t.end() == 128 + signal.SIGKILL
    assert "recording: job.tide" in t.text()


def test_a_lost_terminal_leaves_the_program_running(terminal, trainer, tmp_path):
    t = terminal("watch", "-o", "job.tide", "--", *trainer, "100000")
    t.wait("LIVE")
    t.process.send_signal(signal.SIGHUP)
    assert t.end() == 0
    assert not (tmp_path / "ended").exists()
    os.kill(int(re.search(r"process (\d+) keeps", t.text())[1]), signal.SIGTERM)
    wait_for((tmp_path / "ended").exists, "the program ending")


def test_a_tracker_that_is_killed_is_told_from_a_program_that_ended(terminal, trainer, tmp_path):
    t = terminal("watch", "-o", "job.tide", "--", *trainer, "100000")
    t.wait("LIVE")
    tracker = children_of(t.process.pid)[0]
    program = children_of(tracker)[-1]  # beside who tidies up after the tracker
    os.kill(tracker, signal.SIGKILL)
    t.wait("cut off")
    t.keys("q")
    assert t.end() == 2
    assert "the recording process was killed" in t.text()
    os.kill(program, signal.SIGTERM)
    wait_for((tmp_path / "ended").exists, "the program ending")


def test_a_command_that_is_not_there_says_so_before_the_screen_changes(terminal, tmp_path):
    t = terminal("watch", "--", "no-such-program")
    assert t.end() == 127
    assert "cannot run 'no-such-program'" in t.text()
    assert b"\x1b[?1049h" not in t.raw
    assert not list(tmp_path.glob("*.tide*"))


def test_a_recording_is_never_overwritten(terminal, tmp_path):
    (tmp_path / "mine.tide").write_text("precious")
    t = terminal("watch", "-o", "mine.tide", "--", "true")
    assert t.end() == 2
    assert "exists already" in t.text()
    assert (tmp_path / "mine.tide").read_text() == "precious"


def test_a_running_tree_is_recorded_while_it_is_watched(terminal, workload, tmp_path):
    with subprocess.Popen([str(workload("linear")), "--steps", "100000"]) as program:
        try:
            t = terminal("watch", "-o", "it.tide", str(program.pid))
            t.wait(rf"{program.pid} +linear")
            t.wait("LIVE")
            t.keys("q")
            assert t.end() == 0
            assert "recording: it.tide" in t.text()
            assert program.poll() is None
        finally:
            program.kill()
    ticks, ended = sqlite3.connect(tmp_path / "it.tide").execute(
        "SELECT (SELECT count(*) FROM tick), (SELECT value FROM meta WHERE key = 'ended_ns')").fetchone()
    assert ticks > 1 and ended > 0
