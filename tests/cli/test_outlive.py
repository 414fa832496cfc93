"""The program outlives its tracker: after kill -9 of `tidemark run` it goes on, and what it prints arrives, whatever its
output is."""

import os
import pathlib
import re
import signal
import subprocess

import pytest

from test_run import TIMEOUT
from waiting import wait_for
from test_terminal import is_status, script, terminal  # noqa: F401 (fixtures)

# Prints numbered lines until the test makes the file `go`, 200 more, and says how it ended in the file `ended`.
TRAINING = """
import signal
def end(how):
    with open('ended.new', 'w') as f: f.write(how)
    os.rename('ended.new', 'ended')
signal.signal(signal.SIGHUP, lambda *_: (end('hung up'), os._exit(1)))
try:
    i, left = 0, 200
    print('pid', os.getpid(), flush=True)
    while left:
        print('step', i, file=sys.stderr if ERRORS and i % 2 else sys.stdout, flush=True)
        left -= os.path.exists('go')
        i += 1
        time.sleep(0.002)
    end(f'printed {i}')
except BrokenPipeError:
    end('nobody reads')
"""


@pytest.fixture
def training(script):  # noqa: F811
    """training(errors) -> argv of the program; with errors every second line goes to standard error."""
    return lambda errors=False: script(f"ERRORS = {errors}\n" + TRAINING)


@pytest.fixture
def tracked(binary, env, tmp_path):
    """tracked(argv, **streams) -> a started `tidemark run`, killed at the end with what it left running."""
    begun = []

    def call(argv, **streams):
        begun.append(subprocess.Popen([str(binary), "run", "-o", "a.tide", "--", *argv], cwd=tmp_path, env=env,
                                      **{"stdin": subprocess.DEVNULL, **streams}))
        return begun[-1]

    yield call
    (tmp_path / "go").touch()
    for process in begun:
        process.kill()
        process.wait()


def helper(tracker, name):
    """The child of that name."""
    def find():
        children = pathlib.Path(f"/proc/{tracker.pid}/task/{tracker.pid}/children").read_text().split()
        return [int(pid) for pid in children if pathlib.Path(f"/proc/{pid}/comm").read_text() == f"{name}\n"]
    wait_for(find, name)
    return find()[0]


def ended(tmp_path):
    wait_for((tmp_path / "ended").exists, "the end of the program")
    return (tmp_path / "ended").read_text()


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait(TIMEOUT)


def assert_all_printed(text, how):
    count = int(re.fullmatch(r"printed (\d+)", how).group(1))
    assert re.findall(r"step (\d+)", text) == [str(i) for i in range(count)]


def without_status_line(t):
    """What the program wrote to the terminal."""
    return re.sub(rb"\x1b7.*?\x1b8|\x1b\[[0-9;?]*[a-zA-Z]|\r", b"", bytes(t.bytes))


def test_into_a_file(tracked, training, tmp_path):
    with open(tmp_path / "out", "w") as out:
        tracker = tracked(training(), stdout=out, stderr=out)
    wait_for(lambda: "step 50" in (tmp_path / "out").read_text(), "steps")
    kill(tracker)
    (tmp_path / "go").touch()
    how = ended(tmp_path)
    assert_all_printed((tmp_path / "out").read_text(), how)


@pytest.mark.parametrize("steps_before", [1, 50])
def test_into_a_pipe(tracked, training, tmp_path, steps_before):
    tracker = tracked(training(errors=True), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = b""
    while b"step %d\n" % steps_before not in text:
        text += os.read(tracker.stdout.fileno(), 1 << 16)
    kill(tracker)
    (tmp_path / "go").touch()
    text += tracker.stdout.read()  # to its end: nobody holds the pipe when the program has ended
    assert_all_printed(text.decode(), ended(tmp_path))


def test_into_two_pipes(tracked, training, tmp_path):
    tracker = tracked(training(errors=True), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert os.read(tracker.stdout.fileno(), 3) == b"pid"
    kill(tracker)
    (tmp_path / "go").touch()
    out, err = tracker.communicate()
    count = int(ended(tmp_path).split()[1])
    assert re.findall(rb"step (\d+)", out) == [b"%d" % i for i in range(0, count, 2)]
    assert re.findall(rb"step (\d+)", err) == [b"%d" % i for i in range(1, count, 2)]


def test_a_slow_reader_misses_no_byte_of_a_fast_program(tracked, script, tmp_path):  # noqa: F811
    """The tracker dies while the pipes are full and the program waits in a write."""
    prog = script("block = bytes(range(256)) * 256\n"
                  "for i in range(100): put(i.to_bytes(4, 'little') + block)\n"
                  "open('ended', 'w').write('done')\n")
    tracker = tracked(prog, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    first = os.read(tracker.stdout.fileno(), 1)
    kill(tracker)
    block = bytes(range(256)) * 256
    assert first + tracker.stdout.read() == b"".join(i.to_bytes(4, "little") + block for i in range(100))
    assert ended(tmp_path) == "done"


def test_a_reader_that_goes_away_later_is_felt_by_the_program(tracked, training, tmp_path):
    tracker = tracked(training(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    tracker.stdout.readline()
    kill(tracker)
    tracker.stdout.close()
    assert ended(tmp_path) == "nobody reads"


def test_what_outlives_an_interrupted_recording_goes_on_printing(tracked, script, tmp_path):  # noqa: F811
    """The command has ended, the user ends the recording, a process in the background prints on."""
    prog = script("if os.fork(): print('parent', flush=True); os._exit(0)\n"
                  "wait('go')\n"
                  "for i in range(100): print('step', i, flush=True)\n"
                  "open('ended', 'w').write('printed 100')\n")
    tracker = tracked(prog, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert tracker.stdout.readline() == b"parent\n"
    wait_for(lambda: subprocess.run(["pgrep", "-P", str(tracker.pid), "-f", prog[1]], stdout=subprocess.DEVNULL).returncode
          == 0, "the orphan to be the tracker's child")
    while tracker.poll() is None:  # the first signals may come before the tracker knows that the command has ended
        tracker.send_signal(signal.SIGINT)
        try:
            tracker.wait(0.05)
        except subprocess.TimeoutExpired:
            pass
    (tmp_path / "go").touch()
    assert_all_printed(tracker.stdout.read().decode(), ended(tmp_path))


def test_on_a_terminal(terminal, binary, training, tmp_path):  # noqa: F811
    t = terminal(binary, "run", "-o", "a.tide", "--", *training())
    t.wait_for("step 50")
    t.wait(lambda: is_status(t.lines[-1]), "a status line")
    os.kill(t.process.pid, signal.SIGKILL)
    t.process.wait(TIMEOUT)
    t.wait(lambda: t.settings == t.settings_before, "the terminal's settings")
    mark = len(t.bytes)
    t.wait(lambda: len(t.bytes) > mark + 500, "more output")
    assert t.screen.margins is None
    assert not any(is_status(line) for line in t.lines)
    (tmp_path / "go").touch()
    t.wait((tmp_path / "ended").exists, "the end of the program")
    count = int(ended(tmp_path).split()[1])
    t.wait_for(f"step {count - 1}\r\n")
    assert [int(i) for i in re.findall(rb"^step (\d+)$", without_status_line(t), re.M)] == list(range(count))
    assert b"\r\r\n" not in t.bytes[-1000:]


def test_a_shell_gets_its_terminal_back_and_the_program_prints_on(terminal, binary, training, tmp_path):  # noqa: F811
    t = terminal("bash", "--norc", "--noprofile", "-i", env={"PS1": "prompt$ "})
    t.wait_for("prompt$ ")
    t.send(f"{binary} run -o a.tide -- {' '.join(training())}\n".encode())
    t.wait_for("step 50")
    program = int(re.search(rb"pid (\d+)", t.bytes).group(1))
    keeper = int(re.search(r"PPid:\s*(\d+)", pathlib.Path(f"/proc/{program}/status").read_text()).group(1))
    tracker = int(re.search(r"PPid:\s*(\d+)", pathlib.Path(f"/proc/{keeper}/status").read_text()).group(1))
    os.kill(tracker, signal.SIGKILL)
    t.wait_for("Killed")
    mark = len(t.bytes)
    t.send(b"echo $((40 + 2))\n")
    t.wait(lambda: re.search(rb"[\r\n]42\r\n", t.bytes[mark:]), "an answer from the shell")
    mark = len(t.bytes)
    t.wait(lambda: b"step" in t.bytes[mark:], "output after the death of the tracker")
    (tmp_path / "go").touch()
    t.wait((tmp_path / "ended").exists, "the end of the program")
    t.wait_for(f"step {int(ended(tmp_path).split()[1]) - 1}")
    wait_for(lambda: not pathlib.Path(f"/proc/{keeper}").exists(), "the end of the keeper")
    t.send(b"exit\n")
    t.wait_end()


def test_on_a_terminal_that_is_only_written_to(terminal, binary, training, tmp_path):  # noqa: F811
    """Standard input is not a terminal: the terminal's keys and signals stay the kernel's."""
    t = terminal("sh", "-c", f"exec {binary} run -o a.tide -- {' '.join(training())} </dev/null")
    t.wait_for("step 50")
    os.kill(t.process.pid, signal.SIGKILL)
    t.process.wait(TIMEOUT)
    # What led the session is dead, and the kernel hangs up on its foreground: the program hears of it as it would have.
    t.wait((tmp_path / "ended").exists, "the end of the program")
    assert ended(tmp_path) == "hung up"


def descendants(pid):
    """PIDs of the processes that it started, and that those started."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [found for child in children for found in (int(child), *descendants(child))]


def named(pid):
    """What `pkill` and `pkill -f` compare with their pattern."""
    line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
    return pathlib.Path(f"/proc/{pid}/comm").read_text().rstrip("\n"), line


def kill_by_line(pattern, pids):
    """`pkill -9 -f pattern`, among those. All are looked at first: whoever sees another die may end at once."""
    for pid in [pid for pid in pids if pattern in named(pid)[1]]:
        os.kill(pid, signal.SIGKILL)


def test_a_tracker_killed_by_name_takes_nobody_along(tracked, training, tmp_path):
    """What stands between the program and its output is not called tidemark, nor by the command's words: `pkill -9
    tidemark` and `pkill -9 -f 'tidemark run'` mean the tracker, `pkill -9 -f train.py` the program."""
    tracker = tracked(training(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    program = int(tracker.stdout.readline().split()[1])
    for name in ("output-relay", "relay-deputy", "channel-sweeper"):
        assert named(helper(tracker, name)) == (name, name)
    assert named(tracker.pid) == ("tidemark", f"{tracker.args[0]} run -o a.tide -- {named(program)[1]}")
    (tmp_path / "go").touch()
    tracker.communicate()
    assert tracker.returncode == 0


@pytest.mark.parametrize("pattern", ["tidemark run", "tidemark", "a.tide"])
def test_on_a_terminal_a_tracker_killed_by_its_line_takes_nobody_along(terminal, binary, script, tmp_path,  # noqa: F811
                                                                       pattern):
    t = terminal(binary, "run", "-o", "a.tide", "--", *script(
        "print('pid', os.getpid(), flush=True)\n"
        "for i in range(50): print('step', i, flush=True)\n"
        "wait('go')\n"
        "for i in range(50, 250): print('step', i, flush=True)\n"
        "open('ended', 'w').write('done')\n"))
    t.wait_for("step 49\r\n")
    t.wait(lambda: is_status(t.lines[-1]), "a status line")
    program = int(re.search(rb"pid (\d+)", t.bytes).group(1))
    ours = [pid for pid in [t.process.pid, *descendants(t.process.pid)] if pid != program]
    assert pattern not in named(program)[1]
    kill_by_line(pattern, ours)
    assert t.wait_end() == -signal.SIGKILL
    (tmp_path / "go").touch()
    t.wait((tmp_path / "ended").exists, "the end of the program")
    t.wait_for("step 249\r\n")
    assert t.settings == t.settings_before
    assert [int(i) for i in re.findall(rb"^step (\d+)$", without_status_line(t), re.M)] == list(range(250))
    for pid in ours:
        wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists(), f"the end of process {pid}")


def test_on_a_terminal_what_stands_between_is_not_called_by_the_commands_words(terminal, binary, script,  # noqa: F811
                                                                               tmp_path):
    t = terminal(binary, "run", "-o", "a.tide", "--", *script("print('pid', os.getpid(), flush=True)\nwait('go')\n"))
    t.wait_for("pid ")
    t.wait(lambda: is_status(t.lines[-1]), "a status line")
    program = int(re.search(rb"pid (\d+)", t.bytes).group(1))
    between = {named(pid) for pid in descendants(t.process.pid) if pid != program}
    assert between == {(name, name) for name in ("output-relay", "relay-deputy", "terminal-keeper", "channel-sweeper")}
    (tmp_path / "go").touch()
    assert t.wait_end() == 0


HELPERS = ["output-relay", "relay-deputy"]


@pytest.mark.parametrize("name", HELPERS)
def test_what_passes_output_on_may_be_killed(tracked, training, tmp_path, name):
    tracker = tracked(training(errors=True), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert os.read(tracker.stdout.fileno(), 3) == b"pid"
    os.kill(helper(tracker, name), signal.SIGKILL)
    (tmp_path / "go").touch()
    out, err = tracker.communicate()
    count = int(ended(tmp_path).split()[1])
    assert tracker.returncode == 0
    assert re.findall(rb"step (\d+)", out) == [b"%d" % i for i in range(0, count, 2)]
    assert re.findall(rb"^step (\d+)$", err, re.M) == [b"%d" % i for i in range(1, count, 2)]
    assert b"tidemark: " in err


def test_nothing_is_lost_with_a_relay_that_waits_for_its_reader(tracked, script, tmp_path):  # noqa: F811
    """It is killed with its pipes full, in the midst of what it has read."""
    prog = script("block = bytes(range(256)) * 256\n"
                  "for i in range(100): put(i.to_bytes(4, 'little') + block)\n")
    tracker = tracked(prog, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    first = os.read(tracker.stdout.fileno(), 1)
    relay = helper(tracker, "output-relay")
    wait_for(lambda: pathlib.Path(f"/proc/{relay}/wchan").read_text() not in ("0", ""), "the relay to wait")
    os.kill(relay, signal.SIGKILL)
    block = bytes(range(256)) * 256
    assert first + tracker.stdout.read() == b"".join(i.to_bytes(4, "little") + block for i in range(100))
    assert tracker.wait(TIMEOUT) == 0


def test_a_deputy_passes_on_that_nobody_reads(tracked, training, tmp_path):
    tracker = tracked(training(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    tracker.stdout.readline()
    os.kill(helper(tracker, "output-relay"), signal.SIGKILL)
    tracker.stdout.close()
    assert ended(tmp_path) == "nobody reads"


def test_a_deputy_goes_on_when_the_tracker_is_killed_after_the_relay(tracked, training, tmp_path):
    tracker = tracked(training(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    text = tracker.stdout.readline()
    os.kill(helper(tracker, "output-relay"), signal.SIGKILL)
    text += tracker.stdout.readline()
    kill(tracker)
    (tmp_path / "go").touch()
    assert_all_printed((text + tracker.stdout.read()).decode(), ended(tmp_path))


@pytest.mark.parametrize("name", HELPERS)
def test_on_a_terminal_what_passes_output_on_may_be_killed(terminal, binary, script, tmp_path, name):  # noqa: F811
    t = terminal(binary, "run", "-o", "a.tide", "--", *script(
        "for i in range(50): print('step', i, flush=True)\n"
        "wait('go')\n"
        "for i in range(50, 250): print('step', i, flush=True)\n"))
    t.wait_for("step 49\r\n")
    t.wait(lambda: is_status(t.lines[-1]), "a status line")
    os.kill(helper(t.process, name), signal.SIGKILL)
    (tmp_path / "go").touch()
    t.wait_for("step 249\r\n")
    t.wait_end()
    assert t.process.returncode == 0 and t.settings == t.settings_before
    assert [int(i) for i in re.findall(rb"^step (\d+)$", without_status_line(t), re.M)] == list(range(250))
