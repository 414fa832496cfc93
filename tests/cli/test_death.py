"""Who died, and why: the first line of every answer. And of a run that has ended nothing is said in the future tense."""

import json
import re
import signal
import sqlite3
import subprocess

import pytest

from test_terminal import terminal  # noqa: F401 (a fixture)
from recording import MIB, PHASE_BEGIN, PHASE_END, STEP, Recording, being_written
from waiting import UNTIL

OOM_NOTE = "the kernel killed 1 process of cgroup /job for lack of memory (oom_kill)"
FUTURE = re.compile(r"\bis reached\b|\bin about\b|\bwould settle\b|\bmore steps would\b(?! have)|then it stops|limit in ")


def leaking(tmp_path, status=None, note=None, limit=None, seconds=60, meta=None, worker=False):
    """A program that leaks 1 MiB a step, a step a second, which ends `seconds` after its start with that status."""
    r = Recording(tmp_path / "a.tide")
    main = r.process(4711, "python", role="train.py", ended=seconds + 0.2, command="python train.py")
    sides = [r.process(4712, "pt_data_worker", parent=main, ended=seconds - 20.0)] if worker else []
    for t in range(4 * seconds):
        r.tick(t / 4, {main: (30 + t // 4) * MIB, **{w: 200 * MIB for w in sides if t / 4 < seconds - 20}},
               cgroup_bytes=(32 + t // 4) * MIB, cgroup_peak_bytes=(32 + t // 4) * MIB)
        if t % 4 == 0:
            r.mark(t / 4, STEP, t // 4)
            r.mark(t / 4 + 0.05, PHASE_BEGIN, name="forward")
            if t < 4 * seconds - 4:
                r.mark(t / 4 + 0.4, PHASE_END, name="forward")
    if note:
        at = seconds - 20 if worker else seconds
        r.put("note", t_ns=int((at + 0.25) * 1e9), text=note, kills=int(note == OOM_NOTE))
    if limit:
        r.put("memory_limit", t_ns=0, name="cgroup /job memory.max", bytes=limit)
    r.meta(command="python train.py", interval_ns=250_000_000, **(meta or {}))
    if status is not None:
        r.meta(ended_ns=int((seconds + 0.5) * 1e9), exit_status=status)
    return r.close()


def first_line(tidemark, path, *more):
    return tidemark("judge", *more, path).out.splitlines()[0]


def test_killed_by_the_kernel_at_a_limit(tidemark, tmp_path):
    path = leaking(tmp_path, 137, OOM_NOTE, limit=92 * MIB)
    got = tidemark("judge", path)
    assert got.out.splitlines()[0] == ('tidemark: KILLED by the OOM killer: train.py[4711] with 89.0 MiB, at step 59 in phase '
                                       '"forward", at the limit of 92.0 MiB (cgroup /job memory.max)')
    assert got.out.splitlines()[1].startswith("  verdict LEAK in train.py[4711]")
    assert not FUTURE.search(got.out), got.out
    assert got.code == 1
    death = tidemark("judge", "--json", path).json["death"]
    assert death == {"cause": "oom", "signal": 9, "pid": 4711, "name": "train.py[4711]", "bytes": 89 * MIB, "step": 59,
                     "second": pytest.approx(60.2), "phase": "forward", "limit_bytes": 92 * MIB,
                     "limit_name": "cgroup /job memory.max"}


def test_a_spike_since_the_last_look_was_at_the_limit_that_the_kernel_saw_reached(tidemark, tmp_path):
    path = leaking(tmp_path, 137, OOM_NOTE, limit=150 * MIB)
    with sqlite3.connect(path) as db:
        db.execute("insert into tick(id, t_ns, processes, rss_bytes, counted_bytes, cgroup_bytes, cgroup_peak_bytes) "
                   "values (241, 60250000000, 0, 0, 0, 4096, ?)", (150 * MIB - 4096,))
    assert first_line(tidemark, path) == ('tidemark: KILLED by the OOM killer: train.py[4711], last seen with 89.0 MiB, at step 59 '
                                          'in phase "forward", at the limit of 150 MiB (cgroup /job memory.max)')


def test_a_spike_during_the_last_look_is_not_its_size(tidemark, tmp_path):
    """Its own memory is read first, that of the group later."""
    path = leaking(tmp_path, 137, OOM_NOTE, limit=150 * MIB)
    with sqlite3.connect(path) as db:
        db.execute("update tick set cgroup_bytes = ? where id = 240", (140 * MIB,))
    line = first_line(tidemark, path)
    assert "train.py[4711], last seen with 89.0 MiB, at step 59" in line and "at the limit of 150 MiB" in line


def test_a_kill_for_want_of_host_memory_names_no_limit_that_was_not_reached(tidemark, tmp_path):
    line = first_line(tidemark, leaking(tmp_path, 137, OOM_NOTE, limit=900 * MIB))
    assert "KILLED by the OOM killer: train.py[4711] with 89.0 MiB" in line and "limit" not in line


def test_a_worker_that_was_killed_is_named_and_the_job_goes_on(tidemark, tmp_path):
    line = first_line(tidemark, leaking(tmp_path, 1, OOM_NOTE, worker=True))
    assert line.startswith("tidemark: KILLED by the OOM killer: pt_data_worker[4712]")
    assert "with 200 MiB, at step 39" in line or "with 200 MiB, at step 40" in line


def test_a_stage_that_ended_before_the_kill_was_not_killed(tidemark, tmp_path):
    """Although it was larger than the victim at the last look, and ended a second before."""
    r = Recording(tmp_path / "a.tide")
    shell = r.process(4710, "sh", ended=61.5)
    first = r.process(4711, "python", parent=shell, role="prepare.py", ended=59.5)
    second = r.process(4712, "python", parent=shell, role="train.py", began=59.5, ended=60.75)
    for t in range(240):
        r.tick(t / 4, {shell: MIB, first: 100 * MIB} if t < 238 else {shell: MIB, second: 20 * MIB})
    for t in range(240, 244):
        r.tick(t / 4, {shell: MIB, **({second: 60 * MIB} if t < 243 else {})})
    r.put("note", t_ns=int(60.75e9), text=OOM_NOTE, kills=1)
    r.meta(command="sh job", interval_ns=250_000_000, ended_ns=int(61.5e9), exit_status=137)
    assert first_line(tidemark, r.close()).startswith("tidemark: KILLED by the OOM killer: train.py[4712]")


def test_a_program_that_ended_by_exec_was_not_killed(tidemark, tmp_path):
    """Nor was the command itself, which passes on the status of its child, in whatever program."""
    r = Recording(tmp_path / "a.tide")
    rows = [r.process(4711, "python", role=role, began=began, ended=ended)
            for role, began, ended in (("prepare.py", 0, 59.0), ("launch.sh", 59.0, 60.5))]
    child = r.process(4712, "python", parent=rows[1], role="train.py", began=59.0, ended=60.2)
    for t in range(240):
        r.tick(t / 4, {rows[0]: 90 * MIB} if t < 236 else {rows[1]: 50 * MIB, child: 40 * MIB})
    r.meta(command="python prepare.py", interval_ns=250_000_000, ended_ns=int(60.5e9), exit_status=137, exit_signal=0)
    assert first_line(tidemark, r.close()).startswith("tidemark: KILLED by SIGKILL: train.py[4712] (child of launch.sh[4711])")


def test_processes_that_ended_unsampled_do_not_hide_the_one_that_was_killed(tidemark, tmp_path):
    path = leaking(tmp_path, 137, OOM_NOTE)
    with sqlite3.connect(path) as db:
        for pid, name in ((4800, "sh"), (4801, "small")):
            db.execute("insert into process(id, pid, parent, start_ticks, name, command, role, began_ns, ended_ns) "
                       "values (?, ?, 1, 1, ?, '', ?, 59000000000, 60100000000)", (pid, pid, name, name))
        db.execute("insert into sample(tick, process, anon_bytes, file_bytes, shmem_bytes, swap_bytes, huge_bytes, threads) "
                   "values (239, 4801, 4096, 0, 0, 0, 0, 1)")
    assert first_line(tidemark, path).startswith("tidemark: KILLED by the OOM killer: train.py[4711] with 89.0 MiB")


def test_a_kill_of_somebody_else_in_the_group_is_no_death(tidemark, tmp_path):
    """Nobody of the run ended when the kernel killed."""
    path = leaking(tmp_path, 0, None)
    with sqlite3.connect(path) as db:
        db.execute("insert into note(t_ns, text, kills) values (20000000000, ?, 1)", (OOM_NOTE,))
    assert tidemark("judge", "--json", path).json["death"] is None


def test_what_a_note_tells_of_is_not_read_from_its_words(tidemark, tmp_path):
    path = leaking(tmp_path, 137, OOM_NOTE, limit=92 * MIB)
    with sqlite3.connect(path) as db:
        db.execute("update note set kills = 0")
    assert "KILLED by SIGKILL" in first_line(tidemark, path)
    with sqlite3.connect(path) as db:
        db.execute("update note set kills = 1, text = 'x'")
    assert "KILLED by the OOM killer" in first_line(tidemark, path)


def test_before_version_9_its_words_were_all_there_was(tidemark, tmp_path):
    path = leaking(tmp_path, 137, OOM_NOTE, limit=92 * MIB)
    with sqlite3.connect(path) as db:
        db.executescript("alter table note drop column kills; pragma user_version = 8")
    assert "KILLED by the OOM killer" in first_line(tidemark, path)


@pytest.mark.parametrize("name, words", [("SIGKILL", "KILLED by SIGKILL: train.py[4711]"),
                                         ("SIGSEGV", "KILLED by SIGSEGV: train.py[4711]"),
                                         ("SIGTERM", "ENDED by SIGTERM: train.py[4711]")])
def test_killed_by_a_signal(tidemark, tmp_path, name, words):
    number = int(getattr(signal, name))
    path = leaking(tmp_path, 128 + number, meta={"exit_signal": number})
    assert first_line(tidemark, path).startswith(f"tidemark: {words} with 89.0 MiB, at step 59")
    assert tidemark("judge", "--json", path).json["death"]["signal"] == number


@pytest.mark.parametrize("worker_ends, more, step", [(59.0, [], 61), (None, [], 59), (59.0, [60.5, 60.8], 60)])
def test_the_last_step_is_read_after_the_end(tidemark, tmp_path, worker_ends, more, step):
    """What a program printed last is read when it is dead. Where others live on, or steps go on, it may be theirs."""
    r = Recording(tmp_path / "a.tide")
    launcher = r.process(4710, "python", role="launch.py", ended=61.0)
    main = r.process(4711, "python", parent=launcher, role="train.py", ended=60.2)
    r.process(4712, "worker", parent=main, **({"ended": worker_ends} if worker_ends else {}))
    for t in range(240):
        r.tick(t / 4, {launcher: 5 * MIB, main: (30 + t // 4) * MIB})
        if t % 4 == 0:
            r.mark(t / 4, STEP, t // 4)
    r.mark(60.19 if more else 60.206, STEP, 60)
    for n, at in enumerate([60.2061, *more]):
        r.mark(at, STEP, 61 + n)
    r.put("note", t_ns=int(60.25e9), text=OOM_NOTE, kills=1)
    r.meta(command="python launch.py", interval_ns=250_000_000, ended_ns=int(61.1e9), exit_status=137)
    assert f"at step {step}" in first_line(tidemark, r.close())


def test_the_last_step_counts_where_workers_live_on(binary, tmp_path):
    """What goes to a file is read at a look: steps printed since the last one came before the end that it finds."""
    (tmp_path / "p.py").write_text(UNTIL + """
import os, signal, time
parent = os.getpid()
if os.fork() == 0:
    until(f"select 1 from process where pid = {parent} and ended_ns is not null")
    os._exit(0)
for step in range(38):
    print("step", step, flush=True)
    time.sleep(0.02)
os.kill(os.getpid(), signal.SIGKILL)
""")
    with open(tmp_path / "out", "w") as out:
        done = subprocess.run([binary, "run", "-i", "1s", "-o", "a.tide", "--", "/usr/bin/python3", "p.py"],
                              cwd=tmp_path, stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 137
    assert re.match(r"tidemark: KILLED by SIGKILL: p\.py\[\d+\].*, at step 37$", done.stderr.splitlines()[0])


def test_a_run_that_ended_well_has_no_death_and_no_future(tidemark, tmp_path):
    path = leaking(tmp_path, 0, limit=900 * MIB)
    got = tidemark("judge", path)
    assert got.out.startswith("tidemark: LEAK in train.py[4711]\n")
    assert "would have been reached at step 86" in got.out or "would have been reached at step 87" in got.out
    assert not FUTURE.search(got.out), got.out
    assert tidemark("judge", "--json", path).json["death"] is None


@pytest.mark.parametrize("name, last, size", [
    ("SIGINT", [100, 7], "100 MiB"),  # the last look fell into the interpreter's teardown
    ("SIGTERM", [100, 60, 7], "100 MiB"),
    ("SIGINT", [100, 99], "99.0 MiB"),  # no teardown was seen
    ("SIGINT", [7] * 12, "7.0 MiB"),  # a level that it has had for longer
    ("SIGKILL", [100, 7], "7.0 MiB"),  # nobody has time to free anything
])
def test_the_size_at_death_is_that_before_the_program_freed_everything(tidemark, tmp_path, name, last, size):
    r = Recording(tmp_path / "a.tide")
    sizes = [100] * 40 + last
    main = r.process(4711, "python3", role="train.py", ended=len(sizes) / 4)
    for look, mib in enumerate(sizes):
        r.tick(look / 4, {main: mib * MIB})
    number = signal.Signals[name].value
    r.meta(interval_ns=250_000_000, ended_ns=len(sizes) * 250_000_000, exit_status=128 + number, exit_signal=number)
    assert f"by {name}: train.py[4711] with {size}, " in first_line(tidemark, r.close())


def test_a_run_that_goes_on_keeps_its_forecast(tidemark, tmp_path):
    with being_written(leaking(tmp_path, None, limit=900 * MIB)):
        got = tidemark("judge", "a.tide")
        assert "still running, or killed" in tidemark("show", "a.tide").out
    assert "is reached at step 8" in got.out and "in about" in got.out and "breaks off" not in got.out


def test_a_recording_that_nobody_writes_any_more_says_so_and_has_no_forecast(tidemark, tmp_path):
    path = leaking(tmp_path, None, limit=900 * MIB)
    got = tidemark("judge", path)
    assert "  end     the recording breaks off 60 s after the start: tidemark was killed, the machine stopped" in got.out
    assert "would have been reached at step 8" in got.out and "after the end of the recording" in got.out
    assert not FUTURE.search(got.out), got.out
    assert tidemark("judge", "--json", path).json["broke_off_seconds"] == 59.75
    assert "no clean end, and nobody writes to it any more" in tidemark("show", path).out
    assert "cut off" in tidemark("watch", "--dump", path).out
    assert tidemark("report", path, "-o", "a.html").code == 0
    page = re.sub(r"<script.*?</script>", "", (tmp_path / "a.html").read_text(), flags=re.S)
    assert "the recording breaks off" in page and not FUTURE.search(page)


def test_the_page_begins_with_the_death(tidemark, tmp_path):
    path = leaking(tmp_path, 137, OOM_NOTE, limit=92 * MIB)
    assert tidemark("report", path, "-o", "a.html").code == 0
    page = (tmp_path / "a.html").read_text()
    headline = re.search(r"<h1>(.*?)</h1>", page).group(1)
    assert headline.startswith("<strong>KILLED</strong> by the OOM killer: train.py[4711]")
    assert "LEAK in train.py[4711]" in page
    assert not FUTURE.search(re.sub(r"<script.*?</script>", "", page, flags=re.S))


def test_the_first_line_of_watch_is_the_death(terminal, binary, tmp_path):  # noqa: F811
    path = leaking(tmp_path, 137, OOM_NOTE, limit=92 * MIB)
    t = terminal(binary, "watch", path, columns=120)
    t.wait(lambda: t.lines[0].startswith("KILLED by the OOM killer: train.py[4711]"), "the death")
    t.send(b"q")
    t.wait_end()
    assert "LEAK in train.py[4711]" in t.bytes.decode()


def test_a_gap_in_the_recording_is_said(tidemark, tmp_path):
    path = leaking(tmp_path, 0)
    with sqlite3.connect(path) as db:
        db.execute("insert into note(t_ns, text) values (31000000000, 'nothing could be written between 21.0 s and 31.0 s')")
    assert "  gap     nothing was recorded for 10 s, beginning 21 s after the start" in tidemark("judge", path).out
    assert tidemark("judge", "--json", path).json["gap_seconds"] == 10


# ---- a program that the kernel really kills

LEAK = """
import sys, time
kept = []
for i in range(500):  # should it not be killed
    kept.append(bytearray(1 << 20))
    print('step', i, flush=True)
    time.sleep(0.02)
"""


@pytest.mark.parametrize("parent", ["exec", ""])
def test_run_says_first_who_was_killed(tidemark, tmp_path, small_cgroup, parent):
    """The command itself, and a child whose shell passes the status on."""
    (tmp_path / "train.py").write_text(LEAK)
    done = tidemark("run", "-i", "50ms", "-o", "a.tide", "--", "sh", "-c",
                    f"echo $$ > {small_cgroup}/cgroup.procs; {parent} /usr/bin/python3 train.py; exit $?")
    assert done.code == 137
    first, second = [line for line in done.err.splitlines() if line != "Killed"][:2]
    assert re.match(r"tidemark: KILLED by the OOM killer: \S+.* with [56]\d(\.\d)? MiB, at step \d+, at the limit of 64.0 MiB "
                    rf"\(cgroup /{small_cgroup.name} memory\.\S+\)$", first), done.err
    assert second.startswith("  verdict ")
    assert not FUTURE.search(done.err), done.err
    assert json.loads(tidemark("judge", "--json", "a.tide").out)["death"]["cause"] == "oom"


def test_quiet_is_one_sentence_with_the_death_first(tidemark, tmp_path, binary):
    done = tidemark("run", "-q", "-o", "a.tide", "--", "sh", "-c", "sleep 0.3; kill -SEGV $$")
    assert done.code == 139
    first, last = done.err.splitlines()
    assert first.startswith("tidemark: KILLED by SIGSEGV: sh[")
    assert last == "recording: a.tide"


def test_a_shell_that_only_reports_a_signal_is_not_the_dead_one(tidemark, tmp_path, env, binary):
    """`sh -c 'prog; exit $?'` ends with 139 by itself: who was killed is its child."""
    (tmp_path / "p.py").write_text(UNTIL + "import os\nx = bytearray(30 << 20)\n"
                                   "until(f'select 1 from process where pid = {os.getpid()}')\nos.kill(os.getpid(), 11)\n")
    done = subprocess.run([binary, "run", "-i", "50ms", "-o", "a.tide", "--", "sh", "-c", "/usr/bin/python3 p.py; exit $?"],
                          cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 139
    line = [text for text in done.stderr.splitlines() if text.startswith("tidemark: ")][0]
    assert re.match(r"tidemark: KILLED by SIGSEGV: p\.py\[\d+\]", line), line
