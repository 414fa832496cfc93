"""A program that takes the whole terminal: a pseudo-terminal plays the user's, pyte draws what the user would see."""

import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

pyte = pytest.importorskip("pyte")


class Terminal:
    """A program on a pseudo-terminal, and what it shows."""

    def __init__(self, argv, env, cwd, columns=80, rows=24):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.master, slave = pty.openpty()
        self.slave = slave
        self.size(columns, rows)
        self.modes = termios.tcgetattr(slave)
        self.raw = b""
        self.process = subprocess.Popen([str(a) for a in argv], stdin=slave, stdout=slave, stderr=slave, cwd=cwd,
                                        env={**env, "TERM": "xterm-256color"}, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def size(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            data = os.read(self.master, 65536)
            self.raw += data
            self.stream.feed(data)
            return True
        return False

    def text(self):
        return "\n".join(self.screen.display)

    def wait(self, pattern, seconds=60):
        """Until the screen shows the pattern."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text(), re.M):
            assert time.monotonic() < end, f"{pattern!r} does not come:\n{self.text()}"
            self.read(0.1)
        return self.text()

    def keys(self, text):
        os.write(self.master, text.encode())

    def end(self, seconds=60):
        """Until the program has ended; its exit code. The terminal must be as it was."""
        limit = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < limit, f"it does not end:\n{self.text()}"
            self.read(0.1)
        while self.read(0.1):
            pass
        assert termios.tcgetattr(self.slave) == self.modes, "the terminal's modes have changed"
        assert self.raw.count(b"\x1b[?1049h") == self.raw.count(b"\x1b[?1049l"), "still on the other screen"
        assert self.raw.rfind(b"\x1b[?25l") <= max(self.raw.rfind(b"\x1b[?25h"), self.raw.rfind(b"\x1b[?12l\x1b[?25h"))
        return self.process.returncode

    def close(self):
        """Leaves nothing running, also after a test that failed: a tracker outlives its view by design."""
        trackers = re.findall(r"process (\d+) keeps", self.text())
        if self.process.poll() is None:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            trackers += children.read_text().split() if children.exists() else []
            self.process.kill()
            self.process.wait()
        for tracker in trackers:
            try:
                os.kill(int(tracker), signal.SIGTERM)
            except ProcessLookupError:
                pass
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(binary, env, tmp_path):
    """terminal("watch", ...) -> Terminal."""
    opened = []

    def start(*args, argv=None, **more):
        extra = more.pop("env", {})
        opened.append(Terminal(argv or [binary, *args], {**env, **extra}, tmp_path, **more))
        return opened[-1]

    yield start
    for one in opened:
        one.close()
