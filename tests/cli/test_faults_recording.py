"""Faults around a recording, through the program: what is damaged or foreign gets one sentence and exit 2; a killed tracker
leaves a recording that opens and judges; a full disk stops nothing but the recording, and is told once."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from recording import MIB, STEP, Recording

READERS = [["show"], ["show", "--json"], ["show", "--csv"], ["judge"]]
IDS = [" ".join(reader) for reader in READERS]


@pytest.fixture
def training(tmp_path):
    r = Recording(tmp_path / "a.tide")
    one = r.process(1, "python", peak=200 * MIB)
    for i in range(400):
        r.tick(0.25 * (i + 1), {one: 100 * MIB + i * 65536})
        r.mark(0.25 * (i + 1), STEP, i)
    return r.close()


def one_sentence(done):
    lines = done.err.splitlines()
    assert done.code == 2, done
    assert lines and lines[0].startswith("tidemark: "), done.err
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: ")), done.err
    return lines[0]


def sql(path, *statements):
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


@pytest.mark.parametrize("reader", READERS, ids=IDS)
def test_damage_gets_one_sentence(tidemark, training, tmp_path, reader):
    whole = training.read_bytes()
    bad = tmp_path / "bad.tide"
    cases = {
        "cut off": lambda: bad.write_bytes(whole[:-1000]),
        "damaged": lambda: bad.write_bytes(whole[:8192]),
        "is damaged: ": lambda: bad.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096)),
        "not a recording": lambda: sql(bad, "CREATE TABLE t(a)"),
        "up to version 9": lambda: (bad.write_bytes(whole), sql(bad, "PRAGMA user_version = 10")),
        "no proper table 'sample'": lambda: (bad.write_bytes(whole),
                                             sql(bad, "DROP TABLE sample", "CREATE VIEW sample AS SELECT 1")),
    }
    for words, make in cases.items():
        bad.unlink(missing_ok=True)
        make()
        done = tidemark(*reader, bad)
        assert words in one_sentence(done)
        assert done.out == ""


@pytest.mark.parametrize("reader", [*READERS, ["watch", "--dump"], ["report"], ["export", "-f", "csv"]], ids=" ".join)
def test_names_in_a_damaged_schema_are_escaped(tidemark, training, tmp_path, reader):
    """SQLite quotes them in its messages."""
    bad = tmp_path / "bad.tide"
    bad.write_bytes(training.read_bytes())
    sql(bad, "PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET name = char(27) || '[31mHI', sql = 'no' WHERE name = 'note'")
    sentence = one_sentence(tidemark(*reader, bad))
    assert "is damaged: malformed database schema (\\x1b[31mHI)" in sentence and "\x1b" not in sentence


def test_what_is_no_file(tidemark, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    assert "it is a directory" in one_sentence(tidemark("show", "folder"))
    assert "is empty" in one_sentence(tidemark("show", "empty"))
    assert "no such file" in one_sentence(tidemark("show", "a\x1b[2J"))
    assert "\x1b" not in tidemark("show", "a\x1b[2J").err
    for name in ("folder", "empty", "none"):
        one_sentence(tidemark("judge", name))


def test_flipped_bytes_never_crash(tidemark, training, tmp_path):
    whole, chance = training.read_bytes(), random.Random(5)
    bad, codes = tmp_path / "bad.tide", set()
    for _ in range(60):
        copy = bytearray(whole)
        for _ in range(chance.randint(1, 20)):
            copy[chance.randrange(len(copy))] = chance.randrange(256)
        bad.write_bytes(copy)
        done = tidemark("show", bad)
        assert done.code in (0, 2), done
        if done.code == 2:
            one_sentence(done)
        codes.add(done.code)
    assert codes == {0, 2}


def test_an_answer_that_cannot_be_written_is_trouble(binary, training, env):
    for options in ([], ["--csv"], ["--json"]):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([binary, "show", *options, training], stdout=full, stderr=subprocess.PIPE, text=True,
                                  env=env, check=False)
        assert done.returncode == 2
        assert "cannot write the output" in done.stderr


def wait_for_looks(path, count):
    """Until the recording, which another process writes, has that many looks."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and path.stat().st_size:
            try:
                with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as db:
                    if db.execute("SELECT count(*) FROM tick").fetchone()[0] >= count:
                        return
            except sqlite3.OperationalError:
                pass  # not yet made
        time.sleep(0.02)
    raise AssertionError("the recording does not grow")


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(5))
def test_a_killed_tracker_leaves_what_it_saw(tidemark, binary, env, tmp_path, round_):
    path = tmp_path / "k.tide"
    tracker = subprocess.Popen([binary, "run", "-i", "20ms", "-o", path, "--", "sleep", "600"], env=env, cwd=tmp_path,
                               stderr=subprocess.DEVNULL)
    try:
        began = time.monotonic()
        wait_for_looks(path, 60)  # which is enough to call it flat
        assert "still running, or killed" in tidemark("show", path).out  # while it is written
        time.sleep(random.Random(round_).random())  # a random moment, which is what is tested
        tracker.kill()
        lived = time.monotonic() - began
        tracker.wait()
        document = tidemark("show", "--json", path).json
        assert document["clean_end"] is False
        assert document["processes"][0]["name"] == "sleep"
        assert document["lasted_s"] > lived - 2.5, "the last second is the most that may be lost"
        judged = tidemark("judge", "--json", path)
        assert (judged.code, judged.json["verdict"]) == (0, "flat"), judged.json["sentence"]
        assert judged.json["broke_off_seconds"] == pytest.approx(document["lasted_s"])
    finally:
        for pid in [p["pid"] for p in tidemark("show", "--json", path).json["processes"]]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def test_a_tracker_killed_while_it_begins_leaves_a_recording_or_nothing(tidemark, binary, env, tmp_path):
    """Killed after 0, 1, ... 39 ms. What it leaves is never taken for a directory that cannot be written."""
    for delay in range(40):
        path = tmp_path / f"{delay}.tide"
        tracker = subprocess.Popen([str(binary), "run", "-o", path, "--", "true"], env=env, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(delay / 1000)
        tracker.kill()
        tracker.wait()
        assert not list(tmp_path.glob("*-journal"))
        if path.exists():
            said = tidemark("judge", path)
            assert "cannot" not in said.err, (delay, said.err)


def test_a_killed_tracker_leaves_no_directory_of_marks_behind(binary, env, tmp_path):
    def left():
        return [path for base in ("/dev/shm", "/tmp", "/var/tmp") for path in pathlib.Path(base).glob(f"tidemark-{tracker.pid}-*")]

    with subprocess.Popen([binary, "run", "-o", "a.tide", "--", "sh", "-c", "echo begun; exec sleep 600"], env=env, cwd=tmp_path,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tracker:
        assert tracker.stdout.readline() == "begun\n"
        children = pathlib.Path(f"/proc/{tracker.pid}/task/{tracker.pid}/children").read_text().split()
        program = [int(p) for p in children if pathlib.Path(f"/proc/{p}/comm").read_text() in ("sh\n", "sleep\n")]
        was = left()
        tracker.kill()
        for pid in program:
            os.kill(pid, signal.SIGKILL)
    assert was and len(program) == 1
    deadline = time.monotonic() + 30
    while left():
        assert time.monotonic() < deadline, left()
        time.sleep(0.05)


@pytest.mark.slow
def test_a_full_disk_stops_the_recording_and_nothing_else(binary, tidemark, run, tmp_path):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root, to mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    # The disk is gone with its namespace, so everything that is asked of the recording is asked in there. The program waits
    # until a look is written, then has children whose command lines are more than the disk holds, until that is said.
    script = f"""
        mount -t tmpfs -o size=200k none {disk} || exit 99
        mkfifo end
        {binary} run -o {disk}/a.tide -- sh -c '
            until {binary} show --json {disk}/a.tide | grep -q "looks.: [1-9]"; do sleep 0.1; done
            exec 9<>end; i=0
            while [ $i -lt 100 ]; do i=$((i + 1)); sh -c "read line; exit" {"x" * 3000} <end 9>&- & done
            until grep -q "disk is full" said; do sleep 0.1; done
            exec 9>&-; wait; exit 7' 2>said
        echo status $?
        cat said >&2
        {binary} show --json {disk}/a.tide
    """
    done = run("unshare", "-m", "sh", "-c", script)
    if done.code == 99 or "unshare failed" in done.err:
        pytest.skip("may not mount")
    status, document = done.out.split("\n", 1)
    assert status == "status 7"
    assert done.err.count("the disk is full") == 1, done.err
    document = json.loads(document)
    assert document["processes"][0]["name"] == "sh"
    assert document["looks"] > 0


def test_a_disk_too_small_to_begin_is_called_full_and_nothing_stays_on_it(binary, run, tmp_path):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root, to mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    # from a disk on which nothing fits to one with room for all of it
    done = run("unshare", "-m", "sh", "-c", f"""
        for size in $(seq 4 4 200); do
            mount -t tmpfs -o size=${{size}}k none {disk} || exit 99
            {binary} run -o {disk}/a.tide -- true 2>said; status=$?
            if [ $status = 2 ]; then cat said; ls -A {disk}; fi
            umount {disk}
        done""")
    if done.code == 99 or "unshare failed" in done.err:
        pytest.skip("may not mount")
    lines = done.out.splitlines()
    assert len(lines) >= 4 and set(lines[1::2]) == {"hint: choose another place with -o FILE"}, done
    words = {line.rsplit(": ", 1)[1] for line in lines[::2]}
    assert words == {"No space left on device", "the disk is full"}, done.out


def test_a_limit_on_file_sizes_stops_the_recording_and_nothing_else(binary, run, tmp_path):
    # 76 KiB: the tables fit, the command lines of 40 processes do not.
    many = 'for i in $(seq 40); do sh -c "sleep 2; : $(printf %3000s | tr " " x)" & done; wait; echo ended; exit 7'
    done = run("bash", "-c", f"ulimit -f 76; {binary} run -i 10ms -o a.tide -- sh -c \"$1\"", "bash", many)
    assert (done.code, done.out) == (7, "ended\n")
    assert done.err.count("cannot write to the recording") >= 1
    shown = run(binary, "show", "a.tide")
    assert shown.code == 0
