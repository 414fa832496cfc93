"""A recording is not trusted: the paths in it open nothing. Nor is a program that names its source files."""

import os
import shutil
import sqlite3
import subprocess

import pytest

from recording import MIB, STEP, Recording


def with_site(path, file, source=""):
    r = Recording(path)
    r.meta(command="train", host="elsewhere")
    p = r.process(100, "train")
    r.heap(p)
    frame = {"function": "hoard", "file": str(file), "line": 2, "python": 1}
    site = r.site(p, [{**frame, "source": source} if source else frame])
    for i in range(100):
        tick = r.tick(0.25 * i, {p: (100 + i) * MIB})
        r.mark(0.25 * i, STEP, i, process=p)
        r.hold(tick, site, (1 + i) * MIB, blocks=1 + i)
    return r.close()


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret.py"
    path.write_text("import os\nPASSWORD = 'hunter2'\n")
    return path


@pytest.mark.parametrize("command", [["blame"], ["report", "-o", "-"], ["export", "--format", "collapsed", "-o", "-"]])
def test_no_line_of_a_local_file_is_shown(tidemark, tmp_path, secret, command):
    said = tidemark(*command, with_site(tmp_path / "a.tide", secret))
    assert said.code in (0, 1), said.err
    assert "hoard" in said.out and "hunter2" not in said.out


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("command", [["blame"], ["report", "-o", "/dev/null"]])
def test_no_file_is_opened_by_a_name_in_a_recording(binary, tmp_path, secret, env, command):
    recording = with_site(tmp_path / "a.tide", secret)
    alone = {**env, "ASAN_OPTIONS": env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}  # which needs ptrace for itself
    subprocess.run(["strace", "-f", "-o", tmp_path / "trace", binary, *command, recording], env=alone, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=False)
    trace = (tmp_path / "trace").read_text()
    assert "a.tide" in trace and "secret.py" not in trace


def test_the_line_that_was_recorded_is_shown(tidemark, tmp_path):
    said = tidemark("blame", with_site(tmp_path / "a.tide", "/nowhere/train.py", "kept.append(\x1b[31mloss)"))
    assert "kept.append(" in said.out and "\x1b[31m" not in said.out


def test_recording_keeps_the_lines(tidemark, tmp_path):
    (tmp_path / "train.py").write_text("kept = []\nfor i in range(60):\n    kept.append(bytearray(1 << 20))\n    print('step', i, flush=True)\n"
                                       "    __import__('time').sleep(0.02)\n")
    tidemark("run", "--heap", "-i", "50ms", "-o", "a.tide", "--", "/usr/bin/python3", str(tmp_path / "train.py"))
    (tmp_path / "train.py").unlink()
    assert "kept.append(bytearray(1 << 20))" in tidemark("blame", "a.tide").out


@pytest.mark.unsanitized  # the hook never is
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may read anything")
def test_recording_as_root_keeps_no_line_that_not_everybody_may_read(tidemark, tmp_path, secret):
    """The program may have given up its rights before it named the file."""
    secret.chmod(0o640)
    (tmp_path / "link.py").symlink_to(secret)
    (tmp_path / "train.py").write_text("kept = []\nhoard = compile('\\nkept.append(bytearray(1 << 20))', 'LINK', 'exec')\n"
                                       "for i in range(60):\n    exec(hoard)\n    print('step', i, flush=True)\n"
                                       "    __import__('time').sleep(0.02)\n".replace("LINK", str(tmp_path / "link.py")))
    tidemark("run", "--heap", "-i", "50ms", "-o", "a.tide", "--", "/usr/bin/python3", str(tmp_path / "train.py"))
    db = sqlite3.connect(tmp_path / "a.tide")
    lines = dict(db.execute("SELECT replace(file, rtrim(file, replace(file, '/', '')), ''), source FROM frame WHERE python"))
    assert lines["train.py"] == "exec(hoard)" and lines["link.py"] == ""
