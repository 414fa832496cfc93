"""`tidemark run` on a terminal: a real pseudo-terminal plays the user's, pyte draws what the user would see."""

import errno
import fcntl
import os
import pty
import random
import re
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time

import pyte
import pytest

TIMEOUT = 30


class Screen(pyte.Screen):
    """pyte takes CSI r, which has no parameters, for one with the parameter 0, and keeps the old margins."""

    def set_margins(self, top=None, bottom=None):
        if not top and bottom is None:
            self.margins = None
            self.cursor_position()
        else:
            super().set_margins(top, bottom)


class Terminal:
    """A terminal of rows x columns with a program on it, which leads the session. Everything that was written to it is
    in `bytes`, what it looks like in `lines`."""

    def __init__(self, argv, rows=24, columns=80, env=None, cwd=None):
        self.master, self.slave = pty.openpty()
        self.bytes = bytearray()
        self.screen = Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.resize(rows, columns, tell=False)
        self.settings_before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen([str(a) for a in argv], stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave, env=env, cwd=cwd, preexec_fn=self._lead)

    def _lead(self):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])

    def resize(self, rows, columns, tell=True):
        if tell:
            self.screen.resize(rows, columns)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def pump(self, seconds):
        """Takes what comes within that time; returns as soon as something came."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.master, 1 << 16)
        except OSError as e:
            if e.errno == errno.EIO:
                return False
            raise
        self.bytes += data
        self.stream.feed(data)
        return True

    def wait(self, condition, what="", timeout=TIMEOUT):
        until = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < until, f"not within {timeout} s: {what}\n" + "\n".join(self.lines)
            self.pump(0.05)

    def wait_for(self, text, timeout=TIMEOUT):
        needle, seen = text.encode(), 0

        def found():
            nonlocal seen
            start, seen = max(0, seen - len(needle)), len(self.bytes)
            return self.bytes.find(needle, start) >= 0

        self.wait(found, f"'{text}'", timeout)

    def wait_end(self, timeout=TIMEOUT):
        """The exit code, when the program has ended and all its output is here."""
        self.wait(lambda: self.process.poll() is not None, "the end", timeout)
        while self.pump(0.1):
            pass
        return self.process.returncode

    def send(self, data):
        os.write(self.master, data)

    @property
    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    @property
    def settings(self):
        return termios.tcgetattr(self.slave)

    def close(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(tmp_path, env):
    """terminal(argv..., rows=, columns=, env={more}) -> Terminal; closed at the end."""
    opened = []

    def call(*argv, rows=24, columns=80, env=None, base=env):
        opened.append(Terminal(argv, rows, columns, {**base, "TERM": "xterm-256color", **(env or {})}, tmp_path))
        return opened[-1]

    yield call
    for t in opened:
        t.close()


@pytest.fixture
def script(tmp_path):
    """script(text) -> argv of a Python program with that text, and with `wait(name)` in it: waits until the test makes
    the file of that name."""
    prelude = ("import os, sys, time\n"
               "def wait(name):\n"
               "    while not os.path.exists(name): time.sleep(0.01)\n"
               "def put(data):\n"
               "    sys.stdout.flush()\n"
               "    while data: data = data[os.write(1, data):]\n")

    def make(text):
        path = tmp_path / f"prog{len(list(tmp_path.glob('prog*')))}.py"
        path.write_text(prelude + text)
        return [sys.executable, str(path)]

    return make


def is_status(line):
    return "memory" in line


GARBAGE = bytes(range(256)) * 3 + b"\x1b[31mred\x1b[0m\r\n" + b"\r 12%|##  | 12/100 [00:01<00:02]" * 5 + b"\r\n"


@pytest.mark.parametrize("payload", [GARBAGE, b"x" * 300 + b"\r\n", "grün ✓ 你好\r\n".encode() * 40, b"\x1b[3", b""],
                         ids=["garbage", "long line", "utf-8", "cut sequence", "nothing"])
def test_every_byte_passes_unchanged(terminal, binary, script, payload, tmp_path):
    (tmp_path / "payload").write_bytes(payload)
    prog = script("put(open('payload', 'rb').read())\nput(b'[end]')\nwait('go')\n")
    alone = terminal(*prog)
    alone.wait_for("[end]")
    tracked = terminal(binary, "run", "--no-status", "--", *prog)
    tracked.wait_for("[end]")
    (tmp_path / "go").touch()
    assert tracked.bytes == alone.bytes
    assert tracked.wait_end() == 0


@pytest.mark.slow
def test_ten_megabytes_pass_unchanged(terminal, binary, script):
    prog = script("for i in range(2500): put((b'%07d ' % i + b'z' * 4086) + b'\\r\\n')\nput(b'[end]')\n")
    t = terminal(binary, "run", "--no-status", "--", *prog)
    t.stream = type("Nowhere", (), {"feed": staticmethod(lambda data: None)})
    t.wait_for("[end]")
    expected = b"".join(b"%07d " % i + b"z" * 4086 + b"\r\r\n" for i in range(2500)) + b"[end]"
    assert t.bytes[:len(expected)] == expected


def test_the_status_line_leaves_the_programs_screen_as_it_was(terminal, binary, script, tmp_path):
    prog = script("for i in range(60): put(b'\\x1b[3%dmline %d\\x1b[0m\\r\\n' % (i % 8, i)); time.sleep(0.02)\n"
                  "put(b'\\r 50%|#####     | 50/100 [00:01<00:02]')\nput(b'[end]')\nwait('go')\nput(b'\\r\\nbye\\r\\n')\n")
    alone = terminal(*prog, rows=23)
    alone.wait_for("[end]")
    t = terminal(binary, "run", "--", *prog, rows=24)
    t.wait(lambda: "[end]" in "\n".join(t.lines) and is_status(t.lines[-1]), "end of output and a status line")
    assert t.lines[:-1] == alone.lines
    assert (t.screen.cursor.y, t.screen.cursor.x) == (alone.screen.cursor.y, alone.screen.cursor.x)
    (tmp_path / "go").touch()
    assert t.wait_end() == 0
    assert not any(is_status(line) for line in t.lines)
    assert t.screen.margins is None
    assert t.lines[-1].startswith("recording: ") or any(line.startswith("recording: ") for line in t.lines)


@pytest.mark.parametrize("seed", range(2))
def test_the_screen_is_right_however_the_output_is_cut(terminal, binary, script, tmp_path, seed):
    choice = random.Random(seed)
    pieces = [b"plain words ", b"\x1b[31mred\x1b[0m", b"\r\n", b"\r\n", b"\r 50%|###   | 5/10 [00:01<00:02]", b"x" * 80,
              b"y" * 79, "你好世界".encode() * 5, b"\tTab", "grün ✓".encode(), b"\x1b[A\r", b"\x1b[K", b"\x1b]0;title\x07",
              b"\b\b--", b"\x1b[5C>", b"\x1b[1;34mblue\x1b[m\r\n", b"\x1b[H\x1b[2J", b"\x1b[10;5Hthere"]
    data = b"".join(choice.choice(pieces) for _ in range(600)) + b"\r\n[end]"
    (tmp_path / "data").write_bytes(data)
    prog = script(f"import random\nr = random.Random({seed})\ndata = open('data', 'rb').read()\n"
                  "while data:\n    n = r.randint(1, 90); put(data[:n]); data = data[n:]; time.sleep(0.012)\nwait('go')\n")
    alone = terminal("cat", "data", rows=23)
    alone.wait_for("[end]")
    t = terminal(binary, "run", "-i", "10ms", "--", *prog, rows=24)
    t.wait(lambda: b"[end]" in t.bytes and is_status(t.lines[-1]), "end of output and a status line")
    assert t.bytes.count(b"memory") > 5, "it was drawn in between"
    assert t.lines[:-1] == alone.lines
    assert (t.screen.cursor.y, t.screen.cursor.x) == (alone.screen.cursor.y, alone.screen.cursor.x)
    (tmp_path / "go").touch()
    assert t.wait_end() == 0


def test_the_status_line_says_step_speed_memory_and_trend(terminal, binary, script, tmp_path):
    prog = script("keep = []\n"
                  "for i in range(1000):\n"
                  "    keep.append(bytearray(1000000)); print('step', i, flush=True); time.sleep(0.01)\n"
                  "    if os.path.exists('go'): break\n")
    t = terminal(binary, "run", "--limit", "8G", "--", *prog, columns=120)
    t.wait(lambda: re.search(r"step [0-9,]+  [0-9.]+/s  memory [0-9.]+ MiB  .*floor \+.*limit in", t.lines[-1]),
           "a full status line")
    (tmp_path / "go").touch()
    assert t.wait_end() == 0
    assert b"LEAK" in t.bytes


@pytest.mark.parametrize("options, env, rows, columns", [(["--no-status"], {}, 24, 80), ([], {"TERM": "dumb"}, 24, 80),
                                                         ([], {}, 5, 80), ([], {}, 24, 39)],
                         ids=["--no-status", "TERM=dumb", "5 rows", "39 columns"])
def test_no_status_line_where_none_is_wanted_or_fits(terminal, binary, script, options, env, rows, columns):
    prog = script("print(os.get_terminal_size(), flush=True); time.sleep(1)\n")
    t = terminal(binary, "run", *options, "--", *prog, rows=rows, columns=columns, env=env)
    assert t.wait_end() == 0
    assert f"columns={columns}, lines={rows}".encode() in t.bytes.replace(b"\r\n", b"")
    assert b"\x1b[1;" not in t.bytes and b"memory " not in t.bytes.split(b"tidemark:")[0]


def test_no_color_means_no_attributes(terminal, binary, script, tmp_path):
    t = terminal(binary, "run", "--", *script("wait('go')\n"), env={"NO_COLOR": "1"})
    t.wait(lambda: is_status(t.lines[-1]), "a status line")
    (tmp_path / "go").touch()
    t.wait_end()
    assert b"\x1b[7m" not in t.bytes


def test_the_program_sees_a_terminal_of_its_own_and_its_size(terminal, binary, script, tmp_path):
    prog = script("import signal\nprint([os.isatty(i) for i in range(3)], os.get_terminal_size().lines, flush=True)\n"
                  "signal.signal(signal.SIGWINCH, lambda *a: os.write(1, b'now %s\\n' % str(os.get_terminal_size()).encode()))\n"
                  "print('ready', flush=True)\nwait('go')\nopen('/dev/tty', 'w').write('hello tty\\n')\n")
    t = terminal(binary, "run", "--", *prog)
    t.wait_for("[True, True, True] 23")
    t.wait_for("ready")
    t.resize(40, 100)
    t.wait_for("now os.terminal_size(columns=100, lines=39)")
    t.wait(lambda: is_status(t.lines[-1]), "the status line in the new last row")
    assert sum(is_status(line) for line in t.lines) == 1
    t.resize(10, 60)
    t.wait_for("now os.terminal_size(columns=60, lines=9)")
    t.wait(lambda: is_status(t.lines[-1]), "the status line in the new last row")
    (tmp_path / "go").touch()
    assert t.wait_end() == 0
    assert b"hello tty" in t.bytes


def test_keys_reach_the_program_and_are_echoed_once(terminal, binary, script):
    t = terminal(binary, "run", "--no-status", "--", *script("print('got', repr(input('name: ')))\n"))
    t.wait_for("name: ")
    t.send(b"Ada\n")
    t.wait_for("got 'Ada'")
    assert t.bytes.count(b"Ada") == 2
    assert t.wait_end() == 0


def test_hands_off_in_the_alternate_screen(terminal, binary, script, tmp_path):
    prog = script("put(b'before\\r\\n'); wait('1'); put(b'\\x1b[?1049h\\x1b[H\\x1b[2Jfull screen'); wait('2')\n"
                  "put(b'\\x1b[?1049l'); put(b'after\\r\\n'); wait('3')\n")
    t = terminal(binary, "run", "--", *prog)
    t.wait(lambda: is_status(t.lines[-1]), "a status line")
    (tmp_path / "1").touch()
    t.wait_for("full screen")
    mark = len(t.bytes)
    for _ in range(10):
        t.pump(0.1)
    assert t.bytes[mark:] == b""
    before = t.bytes[:mark].index(b"\x1b[?1049h")
    assert t.bytes[:before].endswith(b"\x1b8"), "the row is given back before the screen is switched"
    (tmp_path / "2").touch()
    t.wait_for("after")
    t.wait(lambda: is_status(t.lines[-1]), "the status line again")
    (tmp_path / "3").touch()
    assert t.wait_end() == 0


@pytest.mark.parametrize("sequence", [rb"\x1b7", rb"\x1b[s", rb"\x1b[3;10r"], ids=["DECSC", "SCOSC", "scroll region"])
def test_hands_off_when_the_program_needs_what_the_line_needs(terminal, binary, script, tmp_path, sequence):
    text = sequence.decode()
    prog = script(f"put(b'before\\r\\n'); wait('1'); put(b'{text}marked'); wait('2'); put(b'\\x1b8')\n")
    t = terminal(binary, "run", "--", *prog)
    t.wait(lambda: is_status(t.lines[-1]), "a status line")
    (tmp_path / "1").touch()
    t.wait_for("marked")
    mark = len(t.bytes)
    for _ in range(10):
        t.pump(0.1)
    assert t.bytes[mark:] == b""
    assert not any(is_status(line) for line in t.lines)
    (tmp_path / "2").touch()
    assert t.wait_end() == 0


def test_a_command_that_ends_at_once_is_no_trouble(terminal, binary):
    for i in range(15):
        t = terminal(binary, "run", "-o", f"{i}.tide", "--", "sh", "-c", "echo hi; exit 3")
        assert t.wait_end() == 3
        assert b"hi\r\n" in t.bytes and t.settings == t.settings_before  # a busy machine may show a status line before


def test_attach_shows_a_status_line_of_its_own(terminal, binary):
    target = subprocess.Popen(["sleep", "60"])
    try:
        t = terminal(binary, "attach", "-o", "a.tide", target.pid)
        t.wait(lambda: is_status(t.lines[t.screen.cursor.y]), "a status line")
        t.send(b"\x03")
        assert t.wait_end() == 0
        assert not any(is_status(line) for line in t.lines)
        assert b"recording: a.tide" in t.bytes
    finally:
        target.kill()
        target.wait()


def test_ctrl_c_reaches_the_program_and_the_verdict_follows(terminal, binary, script):
    # In short pieces: a signal just before a sleep is noticed after it.
    prog = script("try:\n    print('ready', flush=True)\n    for _ in range(600): time.sleep(0.1)\n"
                  "except KeyboardInterrupt:\n    print('caught', flush=True); sys.exit(7)\n")
    t = terminal(binary, "run", "--", *prog)
    t.wait_for("ready")
    t.send(b"\x03")
    assert t.wait_end() == 7
    assert t.bytes.index(b"caught") < t.bytes.index(b"recording: ")
    assert t.settings == t.settings_before


def test_ctrl_backslash_kills_the_program_only(terminal, binary, script):
    t = terminal(binary, "run", "--", *script("print('ready', flush=True); time.sleep(60)\n"))
    t.wait_for("ready")
    t.send(b"\x1c")
    assert t.wait_end() == 128 + signal.SIGQUIT
    assert b"recording: " in t.bytes


@pytest.mark.parametrize("how", ["program killed", "tracker terminated", "tracker hung up", "tracker killed"])
def test_the_terminal_is_as_it_was_whoever_dies(terminal, binary, script, how):
    t = terminal(binary, "run", "--", *script("print('ready', os.getpid(), flush=True); time.sleep(60)\n"))
    t.wait_for("ready")
    t.wait(lambda: is_status(t.lines[-1]), "a status line")
    program = int(re.search(rb"ready (\d+)", t.bytes).group(1))
    assert t.settings != t.settings_before
    if how == "program killed":
        os.kill(program, signal.SIGKILL)
        assert t.wait_end() == 128 + signal.SIGKILL
    elif how == "tracker killed":
        os.kill(t.process.pid, signal.SIGKILL)
        t.wait_end()
    else:
        sent = signal.SIGTERM if how == "tracker terminated" else signal.SIGHUP
        os.kill(t.process.pid, sent)
        assert t.wait_end() == 128 + sent
    t.wait(lambda: t.settings == t.settings_before, "the settings")
    t.pump(0.1)
    assert t.screen.margins is None
    assert not any(is_status(line) for line in t.lines)


def test_ctrl_z_stops_both_and_fg_continues(terminal, binary, script, tmp_path):
    prog = script("i = 0\nwhile not os.path.exists('go'):\n    print('tick', i, flush=True); i += 1; time.sleep(0.05)\n"
                  "print('done', flush=True)\n")
    t = terminal("bash", "--norc", "--noprofile", "-i", env={"PS1": "prompt$ "})
    t.wait_for("prompt$ ")
    t.send(f"{binary} run -- {' '.join(prog)}\n".encode())
    t.wait_for("tick 3")
    t.wait(lambda: is_status(t.lines[-1]), "a status line")
    t.send(b"\x1a")
    t.wait_for("Stopped")
    t.wait(lambda: t.lines[t.screen.cursor.y].startswith("prompt$"), "the prompt")
    assert t.screen.margins is None
    assert not any(is_status(line) for line in t.lines)
    t.send(b"echo $((40 + 2)); stty -a | grep -o -- '[-]*icanon'\n")
    t.wait_for("42")
    t.wait(lambda: "icanon" in t.lines, "canonical input at the prompt")
    mark = len(t.bytes)
    for _ in range(5):
        t.pump(0.1)
    assert b"tick" not in t.bytes[mark:], "it is really stopped"
    t.send(b"fg\n")
    t.wait(lambda: b"tick" in t.bytes[mark:], "ticks after fg")
    t.wait(lambda: is_status(t.lines[-1]), "a status line after fg")
    (tmp_path / "go").touch()
    t.wait_for("recording: ")
    t.send(b"exit\n")
    assert t.wait_end() == 0
    assert t.settings == t.settings_before


def test_ctrl_z_stops_a_script_around_it_too(terminal, binary, script, tmp_path):
    prog = script("print('ready', flush=True)\nwait('go')\n")
    (tmp_path / "job.sh").write_text(f"{binary} run -q -o a.tide -- {' '.join(prog)}\necho script ends with $?\n")
    t = terminal("bash", "--norc", "--noprofile", "-i", env={"PS1": "prompt$ "})
    t.wait_for("prompt$ ")
    t.send(b"sh job.sh\n")
    t.wait_for("ready")
    t.send(b"\x1a")
    t.wait_for("Stopped")
    t.send(b"echo $((40 + 2))\n")
    t.wait(lambda: "42" in t.lines, "an answer from the shell")
    t.send(b"fg\n")
    (tmp_path / "go").touch()
    t.wait_for("script ends with 0")
    t.send(b"exit\n")
    t.wait_end()
    assert t.settings == t.settings_before


def test_a_stopped_job_goes_on_in_the_background_and_comes_back(terminal, binary, script, tmp_path):
    prog = script("i = 0\nwhile not os.path.exists('go'):\n    print('tick', i, flush=True); i += 1; time.sleep(0.05)\n")
    t = terminal("bash", "--norc", "--noprofile", "-i", env={"PS1": "prompt$ "})
    t.wait_for("prompt$ ")
    t.send(f"{binary} run -- {' '.join(prog)}\n".encode())
    t.wait(lambda: is_status(t.lines[-1]), "a status line")
    t.send(b"\x1a")
    t.wait_for("Stopped")
    t.send(b"bg; echo $((40 + 2))\n")
    t.wait(lambda: "42" in t.lines, "an answer from the shell")
    mark = len(t.bytes)
    t.wait(lambda: b"tick" in t.bytes[mark:], "ticks in the background")
    assert t.screen.margins is None, "no status line in the background"
    t.send(b"fg\n")
    t.wait(lambda: is_status(t.lines[-1]), "a status line after fg")
    t.send(b"\x03")
    t.wait_for("recording: ")
    t.send(b"exit\n")
    t.wait_end()
    assert t.settings == t.settings_before


def test_a_terminal_that_goes_away_ends_the_program_and_the_recording(terminal, binary, tmp_path):
    t = terminal(binary, "run", "-o", "a.tide", "--", "sh", "-c", "while :; do echo step $((i=i+1)); sleep 0.05; done")
    t.wait(lambda: is_status(t.lines[-1]), "a status line")
    os.close(t.slave)
    os.close(t.master)
    t.master, t.slave = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_RDONLY)
    assert t.process.wait(TIMEOUT) == 128 + signal.SIGHUP
    with sqlite3.connect(tmp_path / "a.tide") as db:
        assert db.execute("select value from meta where key = 'exit_status'").fetchall() == [(128 + signal.SIGHUP,)]


def test_a_job_in_the_background_leaves_the_terminal_alone(terminal, binary, script, tmp_path):
    prog = script("print('working', os.isatty(1), flush=True); wait('go'); print('done', flush=True)\n")
    t = terminal("bash", "--norc", "--noprofile", "-i", env={"PS1": "prompt$ "})
    t.wait_for("prompt$ ")
    t.send(f"{binary} run -- {' '.join(prog)} &\n".encode())
    t.wait_for("working True")
    t.send(b"echo $((40 + 2))\n")
    t.wait_for("42")
    assert b"\x1b[1;23r" not in t.bytes
    t.send(b"fg\n")
    (tmp_path / "go").touch()
    t.wait_for("recording: ")
    t.send(b"exit\n")
    t.wait_end()


def test_in_a_pipeline_the_terminal_is_shared_and_left_alone(terminal, binary, script):
    prog = script("for i in range(20): print('out', i); print('step', i, os.isatty(2), file=sys.stderr)\n")
    t = terminal("sh", "-c", f"{binary} run -o p.tide -- {' '.join(prog)} | cat; stty -a | grep -o -- '[-]*opost'")
    assert t.wait_end() == 0
    assert b"out 19\r\n" in t.bytes and b"step 19 True\r\n" in t.bytes
    assert b"\x1b" not in t.bytes
    assert "opost" in t.lines


def test_processes_that_outlive_the_command_are_told_of_and_ctrl_c_ends_the_recording(terminal, binary):
    t = terminal(binary, "run", "-o", "a.tide", "--", "sh", "-c", "trap '' INT HUP; sleep 300 & echo started $!")
    t.wait_for("started")
    survivor = int(re.search(rb"started (\d+)", t.bytes).group(1))
    t.wait_for("1 of its processes still runs")
    t.send(b"\x03")
    try:
        assert t.wait_end() == 0
        assert b"recording: a.tide" in t.bytes
        assert t.settings == t.settings_before
    finally:
        os.kill(survivor, signal.SIGKILL)


def test_nothing_unescaped_reaches_the_terminal(terminal, binary, tmp_path):
    evil = tmp_path / "evil\x1b]0;owned\x07\x1b[31m"
    evil.write_text("#!/bin/sh\nsleep 0.6\n")
    evil.chmod(0o755)
    t = terminal(binary, "run", "--", str(evil))
    assert t.wait_end() == 0
    assert b"\x1b]0;owned" not in t.bytes and b"\x1b[31m" not in t.bytes
