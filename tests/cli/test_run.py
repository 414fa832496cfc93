"""`tidemark run` without a terminal: what the command gets, what it leaves, and what happens when things die."""

import contextlib
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from waiting import has, wait_for

TIMEOUT = 30


def rows(path, query):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        return db.execute(query).fetchall()


def recorded_ns(path):
    """How far a recording that may just be beginning has come."""
    try:
        return rows(path, "select max(t_ns) from tick")[0][0] or 0
    except sqlite3.OperationalError:
        return 0


def meta(path):
    return dict(rows(path, "select key, value from meta"))


def only_recording(folder):
    found = sorted(pathlib.Path(folder).glob("*.tide"))
    assert len(found) == 1, found
    return found[0]


def state(pid):
    """As in /proc/PID/stat; X: it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def alive(pid):
    return state(pid) not in "ZX"


@pytest.fixture
def python(tmp_path):
    """python(text) -> argv of a program with that text."""

    def make(text):
        path = tmp_path / f"prog{len(list(tmp_path.glob('prog*.py')))}.py"
        path.write_text("import os, signal, sys, time\n" + text)
        return [sys.executable, str(path)]

    return make


@pytest.fixture
def start(binary, tmp_path, env):
    """start(args...) -> Popen of tidemark with pipes for stdin, stdout and stderr."""
    started = []

    def call(*args, **more):
        kwargs = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        started.append(subprocess.Popen([str(binary), *map(str, args)], cwd=tmp_path, env=env, **kwargs))
        return started[-1]

    yield call
    for p in started:
        if p.poll() is None:
            p.kill()
        p.communicate()


# ---- what the command gets and gives


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
def test_the_exit_status_is_the_commands(tidemark, tmp_path, code):
    assert tidemark("run", "-o", "a.tide", "--", "sh", "-c", f"exit {code}").code == code
    assert meta(tmp_path / "a.tide")["exit_status"] == code


@pytest.mark.parametrize("name", ["KILL", "SEGV", "TERM"])
def test_a_command_killed_by_a_signal_gives_128_and_the_signal(tidemark, tmp_path, name):
    number = getattr(signal, f"SIG{name}")
    assert tidemark("run", "-o", "a.tide", "--", "sh", "-c", f"kill -{name} $$").code == 128 + number
    assert meta(tmp_path / "a.tide")["exit_status"] == 128 + number


def test_a_command_that_is_not_there_leaves_nothing_behind(tidemark, tmp_path):
    done = tidemark("run", "--", "no-such-command-here")
    assert (done.code, done.out) == (127, "")
    assert done.err.startswith("tidemark: cannot run 'no-such-command-here': command not found\n")
    done = tidemark("run", "--", "./nothing/here")
    assert done.code == 127 and "No such file" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_program_gives_126(tidemark, tmp_path):
    (tmp_path / "data").write_text("hello")
    done = tidemark("run", "--", "./data")
    assert done.code == 126
    assert done.err.startswith("tidemark: cannot run './data': Permission denied\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data"]


@pytest.mark.parametrize("args, sentence", [
    ([], "tidemark: run: no command was given"),
    (["-i", "1ms", "--", "true"], "tidemark: run: option '--interval': '1ms' is out of range"),
    (["-i", "2h", "--", "true"], "tidemark: run: option '--interval': '2h' is out of range"),
    (["--limit", "lots", "--", "true"], "tidemark: run: option '--limit': 'lots' is not a size"),
    (["--limit", "24", "--", "true"], "tidemark: run: option '--limit': 24 means 24 bytes\nhint: did you mean '24G'?"),
    (["--items", "-4", "--", "true"], "tidemark: run: option '--items': '-4' is out of range"),
    (["--step-regex", "a(b", "--", "true"], "tidemark: option '--step-regex': 'a(b': Unmatched ( or \\("),
    (["--step-regex", "ab", "--", "true"], "tidemark: option '--step-regex': 'ab': it has no group (...) for the number"),
    (["-o", "no/such/folder/a.tide", "--", "true"], "tidemark: "),
])
def test_absurd_options_get_one_sentence_and_no_run(tidemark, tmp_path, args, sentence):
    done = tidemark("run", *args)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(sentence)
    assert list(tmp_path.iterdir()) == []


def test_a_recording_is_never_overwritten(tidemark, tmp_path):
    (tmp_path / "a.tide").write_text("precious")
    done = tidemark("run", "-o", "a.tide", "--", "touch", "ran")
    assert done.code == 2 and "a.tide" in done.err
    assert (tmp_path / "a.tide").read_text() == "precious"
    assert not (tmp_path / "ran").exists()


def test_input_and_output_pass_through_unchanged(run, binary, tmp_path):
    payload = bytes(range(256)) * 40
    done = subprocess.run([binary, "run", "-o", "a.tide", "--", "cat"], input=payload, capture_output=True, cwd=tmp_path,
                          timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stdout) == (0, payload)


def test_ten_megabytes_pass_through_a_pipe(binary, tmp_path, python):
    prog = python("for i in range(2560): os.write(1, (b'%08d' % i) * 512)\n")
    done = subprocess.run([binary, "run", "-o", "a.tide", "--", *prog], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          cwd=tmp_path, timeout=TIMEOUT, check=False)
    assert done.returncode == 0
    assert done.stdout == b"".join((b"%08d" % i) * 512 for i in range(2560))


def test_output_and_errors_on_one_pipe_keep_their_order(binary, tmp_path, python):
    prog = python("for i in range(5000): os.write(1 + i % 2, b'%d\\n' % i)\n")
    done = subprocess.run([binary, "run", "-q", "-o", "a.tide", "--", *prog], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, cwd=tmp_path, timeout=TIMEOUT, check=False)
    lines = done.stdout.split(b"\n")
    assert lines[:5000] == [b"%d" % i for i in range(5000)]


def test_output_and_errors_on_two_pipes_stay_apart(binary, tmp_path, python):
    prog = python("os.write(1, b'out' * 50000); os.write(2, b'err' * 50000 + b'\\n')\n")
    done = subprocess.run([binary, "run", "-o", "a.tide", "--", *prog], capture_output=True, cwd=tmp_path,
                          timeout=TIMEOUT, check=False)
    assert done.stdout == b"out" * 50000
    assert done.stderr.startswith(b"err" * 50000 + b"\ntidemark: ")


def test_a_file_is_passed_as_it_is_and_read_for_steps(binary, tmp_path, python):
    prog = python("print(os.path.realpath('/proc/self/fd/1'))\n"
                  "for i in range(8): print('step', i, flush=True); time.sleep(0.1)\n")
    with open(tmp_path / "log", "w+b") as log:
        log.write(b"step 900\nstep 901\nstep 902\n")
        log.flush()
        done = subprocess.run([binary, "run", "-i", "20ms", "-o", "a.tide", "--", *prog], stdout=log,
                              stderr=subprocess.PIPE, cwd=tmp_path, timeout=TIMEOUT, check=False)
    assert done.returncode == 0
    assert str(tmp_path / "log") in (tmp_path / "log").read_text()
    assert [n for n, in rows(tmp_path / "a.tide", "select number from mark where kind = 1")] == list(range(8))


def test_a_reader_that_goes_away_is_felt_by_the_program(start, python, tmp_path):
    prog = python("signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
                  "while True: os.write(1, b'x' * 1000); time.sleep(0.001)\n")
    p = start("run", "-o", "a.tide", "--", *prog)
    p.stdout.read(100)
    p.stdout.close()
    assert p.wait(TIMEOUT) == 128 + signal.SIGPIPE


def test_a_slow_reader_loses_nothing(start, python):
    prog = python("os.write(1, b'y' * 400000); os.write(1, b'END')\n")
    p = start("run", "-o", "a.tide", "--", *prog)
    data = b""
    while piece := os.read(p.stdout.fileno(), 5000):
        data += piece
        time.sleep(0.005)  # slower than the program writes
    assert data == b"y" * 400000 + b"END"
    assert p.wait(TIMEOUT) == 0


def test_the_command_gets_the_signals_and_masks_it_would_have_had(binary, tmp_path, python):
    prog = python("for line in open('/proc/self/status'):\n    if line.startswith('Sig'): print(line.strip())\n")
    strip = lambda text: [line for line in text.splitlines() if not line.startswith("SigQ")]

    def prepare():
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    got = [subprocess.run([*front, *prog], capture_output=True, text=True, cwd=tmp_path, preexec_fn=prepare,
                          timeout=TIMEOUT, check=False).stdout
           for front in ([], [binary, "run", "-o", "a.tide", "--"])]
    assert strip(got[0]) == strip(got[1]) != []


def test_no_descriptor_of_ours_leaks_into_the_command(binary, tmp_path, python):
    prog = python("print(sorted(int(f) for f in os.listdir('/proc/self/fd')))\n")
    done = subprocess.run([binary, "run", "-o", "a.tide", "--", *prog], capture_output=True, text=True, cwd=tmp_path,
                          timeout=TIMEOUT, check=False)
    assert done.stdout == "[0, 1, 2, 3]\n"


def test_closed_descriptors_are_no_trouble(binary, tmp_path):
    done = subprocess.run(["sh", "-c", f"exec {binary} run -o a.tide -- sh -c 'echo hi; exit 4' <&- >&- 2>&-"],
                          cwd=tmp_path, timeout=TIMEOUT, check=False)
    assert done.returncode == 4
    assert meta(tmp_path / "a.tide")["exit_status"] == 4


# ---- signals


@pytest.mark.parametrize("name", ["TERM", "HUP", "USR1", "USR2", "INT", "QUIT"])
def test_a_signal_sent_to_the_tracker_reaches_the_command(start, python, tmp_path, name):
    prog = python("def got(number, frame): os.write(1, b'got %d\\n' % number); os._exit(9)\n"
                  f"signal.signal(signal.SIG{name}, got)\nprint('ready', flush=True)\nfor _ in range(600): time.sleep(0.1)\n")
    p = start("run", "-o", "a.tide", "--", *prog, start_new_session=True)
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(getattr(signal, f"SIG{name}"))
    out, err = p.communicate(timeout=TIMEOUT)
    assert (p.returncode, out) == (9, b"got %d\n" % getattr(signal, f"SIG{name}")), err
    assert b"recording: a.tide\n" in err


@pytest.mark.parametrize("output", ["file", "pipe"])
@pytest.mark.parametrize("name", ["INT", "HUP"])
def test_a_signal_to_the_process_group_arrives_once(start, python, tmp_path, name, output):
    """timeout, systemd and batch systems signal every process. A second SIGINT interrupts what the first one set off."""
    number = getattr(signal, f"SIG{name}")
    prog = python("got, put = os.pipe()\nos.set_blocking(put, False)\nsignal.set_wakeup_fd(put)\n"
                  "seen = open('seen', 'wb', 0)\n"
                  f"signal.signal(signal.SIG{name}, lambda *_: seen.write(b'.'))\n"
                  f"signal.signal(signal.SIGUSR1, lambda *_: os._exit(os.read(got, 99).count(signal.SIG{name})))\n"
                  "open('ready', 'w').close()\nfor _ in range(6000): time.sleep(0.01)\n")
    with open(tmp_path / "out", "wb") as out:
        p = start("run", "-o", "a.tide", "--", *prog, start_new_session=True,
                  **({"stdout": out, "stderr": out} if output == "file" else {}))
        wait_for(lambda: (tmp_path / "ready").exists(), "the program")
        for i in range(TIMES := 20):  # two that come at once may be one
            os.killpg(p.pid, number)
            wait_for(lambda: not has(p, "ShdPnd", number), "the tracker to take it")
            wait_for(lambda: (tmp_path / "seen").stat().st_size > i, "the program to handle it")
        p.send_signal(signal.SIGUSR1)  # to the tracker alone: handled after that
        assert p.wait(TIMEOUT) == TIMES


def test_nohup_is_respected(binary, tmp_path, python, env):
    prog = python("print('ready', flush=True)\n"
                  "while not os.path.exists('go'): time.sleep(0.01)\nprint('done', flush=True)\n")
    p = subprocess.Popen(["nohup", binary, "run", "-o", "a.tide", "--", *prog], cwd=tmp_path, env=env,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(signal.SIGHUP)
    (tmp_path / "go").touch()
    out, _ = p.communicate(timeout=TIMEOUT)
    assert (p.returncode, out) == (0, b"done\n")


# ---- what is recorded


def test_the_default_name_says_what_ran_and_when(tidemark, tmp_path):
    (tmp_path / "train.py").write_text("print('hi')\n")
    done = tidemark("run", "--", "env", "A=1", sys.executable, "train.py", "--epochs", "3")
    assert done.code == 0
    path = only_recording(tmp_path)
    assert re.fullmatch(r"train-\d{8}-\d{6}\.tide", path.name)
    assert done.err.splitlines()[-1] == f"recording: {path.name}"
    assert done.out == "hi\n"


def test_two_runs_in_one_second_get_two_names(tidemark, tmp_path):
    for _ in range(3):
        assert tidemark("run", "--", "true").code == 0
    assert len(list(tmp_path.glob("true-*.tide"))) == 3


def test_a_directory_that_cannot_be_written_is_left_for_another(binary, open_folder, env):
    if os.geteuid() == 0 and not pathlib.Path("/usr/bin/setpriv").exists():
        pytest.skip("needs a user who may not write")
    closed = open_folder / "closed"
    spare = open_folder / "spare"
    closed.mkdir()
    spare.mkdir()
    spare.chmod(0o777)
    closed.chmod(0o555)
    front = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    done = subprocess.run([*front, binary, "run", "--", "true"], capture_output=True, text=True, cwd=closed,
                          env={**env, "TMPDIR": str(spare)}, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"tidemark: cannot write to the current directory; recording to {spare}/true-")
    (recording,) = spare.glob("true-*.tide")
    assert recording.stat().st_mode & 0o777 == 0o600, "others may look into that directory"


def test_a_recording_in_a_directory_of_ones_own_has_the_usual_mode(binary, tmp_path, env):
    subprocess.run(["sh", "-c", 'umask 022; exec "$@"', "sh", binary, "run", "-q", "-o", "a.tide", "--", "true"], cwd=tmp_path, env=env,
                   check=True, stderr=subprocess.DEVNULL)
    assert (tmp_path / "a.tide").stat().st_mode & 0o777 == 0o644


def test_the_recording_says_what_was_run(tidemark, tmp_path):
    tidemark("run", "-o", "a.tide", "-i", "100ms", "--limit", "2G", "--items", "663", "--per-step", "8", "--", "sh", "-c",
             "sleep 0.3")
    m = meta(tmp_path / "a.tide")
    assert m["command"] == "sh -c sleep 0.3"
    assert (m["interval_ns"], m["limit_bytes"], m["items"], m["items_per_step"]) == (100_000_000, 2_000_000_000, 663, 8)
    assert m["tool"].startswith("tidemark ")
    assert m["ended_ns"] > 250_000_000 and m["exit_status"] == 0
    assert abs(m["started_wall_s"] - time.time()) < TIMEOUT
    assert m["kernel_peak_rss_bytes"] > 0
    assert rows(tmp_path / "a.tide", "select count(*) from tick")[0][0] >= 4


def test_only_the_one_file_is_left(tidemark, tmp_path):
    tidemark("run", "-o", "a.tide", "--", "true")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tide"]


def test_steps_come_from_what_is_printed(binary, tmp_path, python):
    prog = python("for i in range(100): print(f'\\r{i}%|# | {i}/100 [00:01<00:02, 9it/s]', end='', file=sys.stderr)\n"
                  "print('Epoch 3')\n")
    subprocess.run([binary, "run", "-o", "a.tide", "--", *prog], capture_output=True, cwd=tmp_path, timeout=TIMEOUT,
                   check=True)
    steps = [n for n, in rows(tmp_path / "a.tide", "select number from mark where kind = 1 and source = 2 order by id")]
    assert steps == sorted(steps) and steps[-1] == 99
    assert [n for n, in rows(tmp_path / "a.tide", "select number from mark where kind = 2")] == [3]


def test_a_regular_expression_finds_other_steps(tidemark, tmp_path):
    tidemark("run", "-o", "a.tide", "--step-regex", "update=([0-9]+)", "--", "sh", "-c",
             "for i in 1 2 3; do echo step 9$i update=$i; done")
    assert [n for n, in rows(tmp_path / "a.tide", "select number from mark where kind = 1")] == [1, 2, 3]


def test_steps_in_the_output_can_be_ignored(tidemark, tmp_path):
    done = tidemark("run", "-o", "a.tide", "--no-steps-from-output", "--", "sh", "-c",
                    "for i in 1 2 3; do echo step $i; done")
    assert done.out == "step 1\nstep 2\nstep 3\n"
    assert rows(tmp_path / "a.tide", "select * from mark") == []


def test_what_the_program_says_itself_is_believed_over_its_output(tidemark, tmp_path, root, python):
    prog = python(f"sys.path.insert(0, {str(root / 'python')!r})\nimport tidemark\n"
                  "for i in range(5):\n"
                  "    tidemark.step(i * 1000); time.sleep(0.05)\n"
                  "    print('step', i, flush=True); time.sleep(0.05)\n")
    done = tidemark("run", "-i", "10ms", "-o", "a.tide", "--", *prog)
    assert done.code == 0, done.err
    assert rows(tmp_path / "a.tide", "select number, source from mark where kind = 1") == [
        (i * 1000, 1) for i in range(5)]


def test_the_peak_of_a_short_process_is_known(tidemark, tmp_path, python):
    prog = python("x = bytearray(80_000_000)\n")
    tidemark("run", "-i", "10s", "-o", "a.tide", "--", *prog)
    assert meta(tmp_path / "a.tide")["kernel_peak_rss_bytes"] > 80_000_000
    assert rows(tmp_path / "a.tide", "select peak_rss_bytes from process where parent is null or parent = 0")[0][0] > 80_000_000


def test_a_leak_is_told_with_its_size_and_quiet_is_one_sentence(tidemark, workload, tmp_path):
    done = tidemark("run", "-i", "50ms", "-o", "a.tide", "--", workload("linear"), "--steps", "400", "--step-ms", "10")
    assert "LEAK" in done.err and "per step" in done.err
    assert done.err.splitlines()[-2].split()[:4] == ["next", "tidemark", "run", "--heap"]
    done = tidemark("run", "-q", "-o", "b.tide", "--", workload("linear"), "--steps", "50", "--step-ms", "10")
    assert len(done.err.splitlines()) == 2


# ---- trees


def test_recording_goes_on_until_a_daemon_ends(tidemark, tmp_path, python):
    prog = python("if os.fork() == 0:\n"
                  "    os.setsid()\n"
                  "    if os.fork(): os._exit(0)\n"
                  "    null = os.open('/dev/null', os.O_RDWR)\n"
                  "    for i in range(3): os.dup2(null, i)\n"
                  "    time.sleep(1.0); open('ended', 'w').close(); os._exit(0)\n"
                  "os.wait()\n")
    done = tidemark("run", "-o", "a.tide", "--", *prog)
    assert done.code == 0
    assert (tmp_path / "ended").exists(), "the daemon was waited for"
    assert meta(tmp_path / "a.tide")["ended_ns"] > 1_000_000_000


def test_a_process_born_as_its_parent_dies_is_waited_for(tidemark, tmp_path):
    for i in range(8):
        began = time.monotonic()
        done = tidemark("run", "-q", "-o", f"{i}.tide", "--", "sh", "-c", "sleep 0.4 >/dev/null 2>&1 & exit 5")
        assert done.code == 5
        assert time.monotonic() - began > 0.4


def test_a_signal_after_the_end_of_the_command_ends_the_recording(start, tmp_path):
    p = start("run", "-o", "a.tide", "--", "sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!; exit 5")
    survivor = int(p.stdout.readline())
    try:
        wait_for(lambda: recorded_ns(tmp_path / "a.tide") > 1e9, "a second")
        p.send_signal(signal.SIGINT)
        assert p.wait(TIMEOUT) == 5
        assert alive(survivor)
    finally:
        os.kill(survivor, signal.SIGKILL)


def test_orphans_are_reaped(start, python, tmp_path):
    prog = python("for i in range(30):\n"
                  "    if os.fork() == 0:\n"
                  "        if os.fork() == 0: os._exit(0)\n"
                  "        os._exit(0)\n"
                  "    os.wait()\n"
                  "print('forked', flush=True); time.sleep(60)\n")
    p = start("run", "-o", "a.tide", "--", *prog)
    assert p.stdout.readline() == b"forked\n"

    def zombies():
        children = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()
        return [child for child in children if state(child) == "Z"]

    wait_for(lambda: not zombies(), "no zombies")
    p.terminate()
    assert p.wait(TIMEOUT) == 128 + signal.SIGTERM


# ---- faults


def test_killing_the_tracker_leaves_a_recording_that_opens(start, tidemark, tmp_path, python):
    prog = python("keep = []\nfor i in range(10000):\n"
                  "    keep.append(bytearray(100000)); print('step', i, flush=True); time.sleep(0.005)\n")
    p = start("run", "-i", "50ms", "-o", "a.tide", "--", *prog, stdout=subprocess.DEVNULL)
    wait_for(lambda: recorded_ns(tmp_path / "a.tide") > 2e9, "two seconds")
    children = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()
    began = time.monotonic()
    p.kill()
    p.wait(TIMEOUT)
    for child in children:
        with contextlib.suppress(ProcessLookupError):  # some end by themselves when the tracker is gone
            os.kill(int(child), signal.SIGKILL)
    m = meta(tmp_path / "a.tide")
    assert "ended_ns" not in m
    last = rows(tmp_path / "a.tide", "select max(t_ns) from tick")[0][0]
    assert began * 1e9 - (m["clock_base_ns"] + last) < 2.5e9
    assert tidemark("judge", "a.tide").code in (0, 1, 3)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file system of its own")
def test_a_full_disk_is_told_once_and_the_program_goes_on(tidemark, tmp_path, python):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], check=False).returncode:
        pytest.skip("may not mount")
    try:
        prog = python("for i in range(40):\n    if i == 10: open('disk/fill', 'wb').write(b'x' * 100_000)\n"
                      "    if i > 12:\n        try: open('disk/fill', 'ab').write(b'x' * 50_000)\n"
                      "        except OSError: pass\n"
                      "    time.sleep(0.1)\nprint('finished')\n")
        done = tidemark("run", "-i", "10ms", "-o", "disk/a.tide", "--", *prog)
        assert (done.code, done.out) == (0, "finished\n")
        assert done.err.count("the program goes on") == 1
        # The last write may find room in the log that is there already.
        assert ("it could not be written any more" in done.err) == ("ended_ns" not in meta(disk / "a.tide"))
        assert rows(disk / "a.tide", "select count(*) from tick")[0][0] > 0
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_steps_are_found_in_output_that_nobody_reads(binary, tmp_path, python, env):
    prog = python("for i in range(40): print('step', i, flush=True); time.sleep(0.02)\n")
    with open(os.devnull, "w") as null:
        done = subprocess.run([binary, "run", "-i", "20ms", "-o", "a.tide", "--", *prog], cwd=tmp_path, env=env,
                              stdin=subprocess.DEVNULL, stdout=null, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0
    assert rows(tmp_path / "a.tide", "select max(number) from mark where kind = 1") == [(39,)]


def test_without_steps_it_is_said_what_would_give_them(tidemark, tmp_path):
    said = tidemark("run", "-o", "a.tide", "--", "sleep", "0.5").err
    assert "  steps   none were found, so the axis is time: print 'step 12'" in said
    assert "none were found" not in tidemark("run", "-o", "b.tide", "--", "sh", "-c",
                                             "for i in 1 2 3 4 5 6 7 8 9 10; do echo step $i; sleep 0.1; done").err


def test_a_signal_that_comes_before_the_program_is_there_ends_it(binary, tmp_path, env):
    """Ctrl-C and timeout signal the whole process group, at any moment; the moments here are those of starting."""
    for i in range(40):
        with subprocess.Popen([binary, "run", "-q", "-o", f"{i}.tide", "--", "sleep", "20"], cwd=tmp_path, env=env,
                              stderr=subprocess.DEVNULL, start_new_session=True) as p:
            time.sleep(0.001 + 0.0004 * i)  # not a wait: the moment is what is tried
            os.killpg(p.pid, signal.SIGINT)
            assert p.wait(timeout=15) in (-signal.SIGINT, 128 + signal.SIGINT), i
