"""tidemark show: tables that fit the screen, CSV that pandas reads, JSON that says bytes as integers."""

import csv
import io
import sqlite3
import unicodedata

import pytest

from recording import (EPOCH, GAUGE, ITEMS, MIB, PHASE_BEGIN, PHASE_END, SECOND, STEP, ROOT, Recording, blocks)


@pytest.fixture
def training(tmp_path):
    """uv -> python -> 20 compile workers; 100 looks, 100 steps, two validations of which the second is the peak."""
    r = Recording(tmp_path / "train.tide")
    r.meta(tool="tidemark 0.1.0", command="uv run python train.py", host="box", started_wall_s=1794729120,
           interval_ns=250000000, ended_ns=25 * SECOND, exit_status=0, kernel_peak_rss_bytes=900 * MIB,
           limit_bytes=24 << 30)
    uv = r.process(100, "uv", peak=20 * MIB, command="uv run python train.py", ended=25)
    python = r.process(101, "python", parent=uv, peak=900 * MIB, ended=25)
    workers = [r.process(200 + i, "worker", parent=python, role="compile_worker", began=1, ended=24, peak=40 * MIB)
               for i in range(20)]
    for i in range(100):
        t = 0.25 * (i + 1)
        anon = {uv: 20 * MIB, python: (100 + i) * MIB}
        if 40 <= i < 44:
            anon[python] = 500 * MIB
        if 80 <= i < 84:
            anon[python] = 900 * MIB
        if 4 <= i < 96:
            anon |= {worker: 40 * MIB for worker in workers}
        tick = r.tick(t, anon, available_bytes=64 << 30, pss_known_bytes=516 * MIB, cgroup_bytes=sum(anon.values()) + MIB)
        if i % 10 == 0:
            r.put("smaps", tick=tick, process=python, pss_bytes=90 * MIB, uss_bytes=80 * MIB)
        r.mark(t, STEP, i)
        r.mark(t, ITEMS, 8 * i)
        r.mark(t, GAUGE, (i % 7) * MIB, "replay buffer")
        if i in (40, 80):
            r.mark(t - 0.1, PHASE_BEGIN, name="validation")
        if i in (43, 83):
            r.mark(t + 0.1, PHASE_END, name="validation")
    r.mark(0.1, EPOCH, 0)
    r.mark(12, EPOCH, 1)
    r.put("memory_limit", t_ns=0, name="--limit", bytes=24 << 30)
    r.put("gpu_device", device=0, name="NVIDIA H200", uuid="GPU-1", total_bytes=141 << 30)
    r.put("gpu", tick=5, device=0, process=0, bytes=30 << 30)
    r.put("gpu", tick=5, device=0, process=python, bytes=20 << 30)
    r.put("gpu", tick=9, device=0, process=python, bytes=10 << 30)
    r.put("gpu", tick=9, device=0, process=-1, bytes=1 << 30)
    r.put("note", t_ns=3 * SECOND, text="412 marks lost")
    r.put("frame", id=1, function="losses.append", file="train.py", line=88, module="", python=1, inlined=0)
    r.put("frame", id=2, function="", file="", module="/usr/bin/python3", offset=0x1234, python=0, inlined=0)
    for depth, frame in enumerate((2, 1)):
        r.put("stack", id=1, depth=depth, frame=frame)
    r.put("site", id=1, process=python, kind=1, stack=1)
    r.put("site", id=2, process=python, kind=1, stack=0)
    for tick in (1, 50, 100):
        r.put("site_sample", tick=tick, site=1, live_bytes=tick * MIB, live_blocks=tick, total_bytes=tick * MIB, total_blocks=tick)
        r.put("site_sample", tick=tick, site=2, live_bytes=MIB, live_blocks=5, total_bytes=2 * MIB, total_blocks=9)
    r.put("heap_state", process=python, t_ns=SECOND, state="on", interval_bytes=512 << 10, sampled=100, dropped_sites=0)
    for tick in (1, 50, 90):
        r.put("heap_sample", tick=tick, process=python, live_bytes=(200 - tick) * MIB, live_blocks=9,
              free_bytes=None if tick == 90 else tick * MIB, free_blocks=None if tick == 90 else 1200, top_bytes=0)
    return r.close()


def columns(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in line)


def test_overview(tidemark, training):
    done = tidemark("show", training.name)
    assert (done.code, done.err) == (0, "")
    assert done.out == """train.tide
  command  uv run python train.py
  started  2026-11-15 07:52:00, lasted 25 s
  ended    exit status 0
  looks    100, one every 250 ms

Peaks
  PEAK OF                        BYTES        AT      STEP  PROCS PHASE
  tree, shared pages once        1.7Gi      20 s        80     22 validation
  tree, sum of RSS               1.7Gi      20 s        80     22 validation
  cgroup                         1.7Gi      20 s        80     22 validation
  one process, by the kernel     900Mi         -         -      - -
  (PSS was known for 30 % of that RSS; the rest counts in full)

Processes (RSS; PSS and USS as last read)
  NAME                        BEGAN    LASTED   PEAK  FIRST   LAST    PSS    USS
  uv[100]                       0 s      25 s 20.0Mi 20.0Mi 20.0Mi      -      -
   python[101]                  0 s      25 s  900Mi  100Mi  199Mi 90.0Mi 80.0Mi
    20 x compile_worker       1.0 s      23 s  800Mi  800Mi  800Mi      -      -

Phases
  PHASE                           TIMES     TOTAL   LONGEST    PEAK    RISE
  validation                          2     1.9 s    950 ms   1.7Gi   721Mi

Marks
  MARK    NAME                 TIMES     FIRST   LEAST    MOST      LAST   PER S
  step                           100         0       -       -        99       4
  epoch                            2         0       -       -         1   0.084
  items                          100         0       -       -       792      32
  gauge   replay buffer          100        0B      0B   6.0Mi     1.0Mi       -

Limits
       FROM    BYTES LIMIT
        0 s   24.0Gi --limit

GPU memory
   GPU MODEL                    USER                     PEAK   LAST     OF
     0 NVIDIA H200              all processes          30.0Gi 30.0Gi  141Gi
     0 NVIDIA H200              python[101]            20.0Gi 10.0Gi  141Gi
     0 NVIDIA H200              unknown process         1.0Gi  1.0Gi  141Gi

Heap (what the program holds, and what malloc keeps beside it)
  PROCESS                  MOST   LIVE   KEPT    PIECES SEEN
  python[101]             199Mi  110Mi 50.0Mi     1,200 on

Notes
         AT NOTE
      3.0 s 412 marks lost
"""
    assert max(columns(line) for line in done.out.splitlines()) <= 80


def test_json_is_one_document_with_integers(tidemark, training):
    document = tidemark("show", "--json", training).json
    assert document["schema"] == "tidemark.show/1"
    assert document["command"] == "uv run python train.py"
    assert document["started"] == "2026-11-15T07:52:00Z"
    assert document["clean_end"] is True
    assert document["exit_status"] == 0
    assert len(document["processes"]) == 22
    python = document["processes"][1]
    assert python["peak_rss_bytes"] == 900 * MIB
    assert python["uss_bytes"] == 80 * MIB
    assert python["parent"] == 1
    assert document["processes"][0]["pss_bytes"] is None
    assert document["peaks"][0] == {"name": "tree, shared pages once", "bytes": 1720 * MIB, "t_s": 20.25, "step": 80,
                                    "processes": 22, "phase": "validation", "rss_bytes": 1720 * MIB,
                                    "pss_known_bytes": 516 * MIB}
    assert document["phases"] == [{"name": "validation", "count": 2, "unfinished": 0, "total_s": 1.9,
                                   "longest_s": 0.95, "peak_bytes": 1720 * MIB, "rise_bytes": 721 * MIB}]
    assert document["limits"] == [{"t_s": 0, "bytes": 24 << 30, "name": "--limit"}]
    assert document["notes"][0]["text"] == "412 marks lost"
    assert [row["peak_bytes"] for row in document["gpu"]] == [30 << 30, 20 << 30, 1 << 30]


def test_csv_has_one_row_per_process_and_look(tidemark, training):
    done = tidemark("show", "--csv", training)
    assert done.code == 0
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert len(rows) == 100 * 2 + 92 * 20
    python = [row for row in rows if row["pid"] == "101"]
    assert [int(row["step"]) for row in python] == list(range(100))
    assert int(python[80]["rss_bytes"]) == 900 * MIB
    assert python[80]["t_s"] == "20.25"
    assert set(rows[0]) == {"step", "t_s", "process", "pid", "name", "rss_bytes", "anon_bytes", "file_bytes",
                            "shmem_bytes", "swap_bytes", "huge_bytes", "threads", "asked_bytes", "mapped_bytes"}


def test_csv_repeats_what_did_not_change(tidemark, tmp_path):
    r = Recording(tmp_path / "a.tide")
    one, two = r.process(1, "a"), r.process(2, "b", ended=2.5)
    r.tick(1, {one: 5, two: 7})
    r.tick(2, {})
    r.tick(3, {})
    r.tick(4, {one: 6})
    rows = list(csv.DictReader(io.StringIO(tidemark("show", "--csv", r.close()).out)))
    assert [(row["t_s"], row["pid"], row["rss_bytes"]) for row in rows] == [
        ("1", "1", "5"), ("1", "2", "7"), ("2", "1", "5"), ("2", "2", "7"), ("3", "1", "5"), ("4", "1", "6")]
    assert {row["step"] for row in rows} == {""}


@pytest.mark.parametrize("what, header", [
    ("processes", "process,pid,parent,name,role,command,began_s,ended_s,peak_rss_bytes,first_rss_bytes,"
                  "last_rss_bytes,last_private_bytes,pss_bytes,uss_bytes,shown_name"),
    ("phases", "name,count,unfinished,total_s,longest_s,peak_bytes,rise_bytes"),
    ("marks", "kind,name,count,first,least,most,last,per_s"),
    ("peaks", "name,bytes,t_s,step,processes,phase,rss_bytes,pss_known_bytes"),
    ("ticks", "t_s,step,processes,rss_bytes,counted_bytes,pss_known_bytes,cgroup_bytes,cgroup_peak_bytes,pressure_ppm,"
              "available_bytes"),
    ("samples", "step,t_s,process,pid,name,rss_bytes,anon_bytes,file_bytes,shmem_bytes,swap_bytes,huge_bytes,threads,asked_bytes,mapped_bytes"),
    ("limits", "t_s,bytes,name"),
    ("gpu", "device,name,process,user,peak_bytes,peak_t_s,last_bytes,total_bytes"),
    ("heap", "process,name,live_peak_bytes,live_last_bytes,free_bytes,free_blocks,top_bytes,state"),
    ("notes", "t_s,text"),
])
def test_each_table_in_each_form(tidemark, training, what, header):
    table = tidemark("show", "--csv", "--what", what, training)
    assert table.out.splitlines()[0] == header
    rows = list(csv.reader(io.StringIO(table.out)))
    assert len(rows) > 1 and all(len(row) == len(rows[0]) for row in rows)
    document = tidemark("show", "--json", "--what", what, training).json
    assert len(document[what]) == len(rows) - 1
    assert list(document[what][0]) == header.split(",")
    text = tidemark("show", "--what", what, training)
    assert text.code == 0 and max(columns(line) for line in text.out.splitlines()) <= 80


def test_a_recording_without_an_end_says_so(tidemark, tmp_path):
    r = Recording(tmp_path / "a.tide")
    r.tick(1, {r.process(1, "a"): 5})
    done = tidemark("show", r.close())
    assert "no clean end, and nobody writes to it any more" in done.out
    assert tidemark("show", "--json", tmp_path / "a.tide").json["clean_end"] is False


@pytest.mark.parametrize("meta,words", [
    ({"exit_status": 137, "exit_signal": 9}, "killed by signal 9"),
    ({"exit_status": 137, "exit_signal": 0}, "exit status 137"),
    ({"exit_status": 137}, "killed by signal 9"),  # of a version that did not record the signal
    ({"exit_status": 255, "exit_signal": 0}, "exit status 255"),
])
def test_only_a_program_that_was_killed_is_said_to_be(tidemark, tmp_path, meta, words):
    r = Recording(tmp_path / "a.tide")
    r.meta(ended_ns=5 * SECOND, **meta)
    path = r.close()
    assert f"  ended    {words}\n" in tidemark("show", path).out
    document = tidemark("show", "--json", path).json
    assert (document["exit_status"], document["exit_signal"]) == (meta["exit_status"], meta.get("exit_signal"))


def test_an_empty_recording(tidemark, tmp_path):
    path = Recording(tmp_path / "a.tide").close()
    for options in ([], ["--json"], ["--csv"], ["--what", "processes"]):
        done = tidemark("show", *options, path)
        assert (done.code, done.err) == (0, "")


def test_nothing_reaches_the_terminal_unescaped(tidemark, tmp_path):
    evil = "a\x1b[31m\n\x9b\u202e,\"x"
    r = Recording(tmp_path / "a.tide")
    r.meta(command=evil)
    one = r.process(1, evil, command=evil)
    r.put("process", id=2, pid=2, parent=0, name=b"\xff\xfe\x1b", command=b"\xff", role=b"\xff")
    r.tick(1, {one: 5, 2: 6})
    r.mark(1, PHASE_BEGIN, name=evil)
    r.mark(1, GAUGE, name=evil, number=3)
    r.put("note", t_ns=0, text=evil)
    r.put("memory_limit", t_ns=0, name=evil, bytes=1)
    path = r.close()
    for options in ([], ["--csv"], ["--json"], ["--csv", "--what", "processes"]):
        done = tidemark("show", *options, path)
        assert done.code == 0
        assert not [c for c in done.out if c != "\n" and unicodedata.category(c) in ("Cc", "Cf")]
    rows = list(csv.DictReader(io.StringIO(tidemark("show", "--csv", path).out)))
    assert rows[0]["name"] == "a\\x1b[31m\\x0a\\u{9b}\\u{202e},\"x"
    assert tidemark("show", "--json", path).json["command"] == evil


def test_deep_and_wide_trees_fit(tidemark, tmp_path):
    r = Recording(tmp_path / "a.tide")
    parent = 0
    for i in range(300):
        parent = r.process(4194304 + i, "文字" * 20, parent=parent, role=f"role {i}", peak=10**15)
    r.tick(10**6, {1: 10**15})
    done = tidemark("show", r.close())
    assert max(columns(line) for line in done.out.splitlines()) <= 80
    assert "[4194305]" in done.out
    assert "and 270 more rows: --what processes" in done.out
    assert len(tidemark("show", "--what", "processes", tmp_path / "a.tide").out.splitlines()) == 301


def test_workers_that_follow_one_another_are_not_added_up(tidemark, tmp_path):
    r = Recording(tmp_path / "a.tide")
    parent = r.process(1, "pool")
    workers = [r.process(10 + i, "w", parent=parent, role="worker", began=i, ended=i + 0.9, peak=MIB)
               for i in range(10)]
    for i, worker in enumerate(workers):
        r.tick(i + 0.5, {worker: MIB})
    line = [row for row in tidemark("show", r.close()).out.splitlines() if "10 x worker" in row][0]
    assert line.split()[-5:] == ["1.0Mi", "1.0Mi", "1.0Mi", "-", "-"]


def test_phases_nest_overlap_and_stay_open(tidemark, tmp_path):
    r = Recording(tmp_path / "a.tide")
    r.process(1, "a")
    for t in range(1, 11):
        r.tick(t, {1: t * MIB})
    r.mark(1, PHASE_BEGIN, name="outer")
    r.mark(2, PHASE_BEGIN, name="outer")
    r.mark(3, PHASE_END, name="outer")
    r.mark(5, PHASE_END, name="outer")
    r.mark(6, PHASE_END, name="outer")  # one too many
    r.mark(7, PHASE_BEGIN, name="open")
    rows = {row["name"]: row for row in tidemark("show", "--json", r.close()).json["phases"]}
    assert rows["outer"]["count"] == 2 and rows["outer"]["total_s"] == 5 and rows["outer"]["peak_bytes"] == 5 * MIB
    assert rows["open"]["unfinished"] == 1 and rows["open"]["total_s"] == 3 and rows["open"]["rise_bytes"] == 3 * MIB


@pytest.mark.parametrize("arguments, sentence, hint", [
    ([], "show: no recording was given", "tidemark show RUN.tide"),
    (["a.tide", "b.tide"], "show: expected one recording, got 2", "tidemark show RUN.tide"),
    (["none.tide"], "cannot open 'none.tide': no such file", "record one with 'tidemark run -o FILE.tide -- PROG'"),
    (["--json", "--csv", "x"], "show: --json and --csv cannot be used together", "--csv prints one table, --json the whole"),
])
def test_trouble_is_one_sentence_and_a_hint(tidemark, arguments, sentence, hint):
    done = tidemark("show", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0] == "tidemark: " + sentence
    assert done.err.splitlines()[1].startswith("hint: " + hint)
    assert len(done.err.splitlines()) == 2


@pytest.mark.parametrize("query", blocks()[1:])
def test_example_queries_of_the_document_run(training, query):
    with sqlite3.connect(training) as db:
        assert db.execute(query).fetchall(), "no rows"


def test_example_numbers(training):
    with sqlite3.connect(training) as db:
        largest = [q for q in blocks() if "USING (site, tick)" in q][0]
        assert db.execute(largest).fetchall() == [(100 * MIB, 100, "/usr/bin/python3+0x1234", "", None), (MIB, 5, None, None, None)]
        growth = [q for q in blocks() if "AS growth" in q][0]
        assert db.execute(growth).fetchall() == [(1, 99 * MIB), (2, 0)]
        total = [q for q in blocks() if "total_s DESC" in q][0]
        assert db.execute(total).fetchone() == ("validation", 2, pytest.approx(1.9))
        step = [q for q in blocks() if "AS step" in q][0].replace("process = 1", "process = 2")
        assert db.execute(step).fetchall()[80][2] == 80
        assert db.execute("SELECT DISTINCT kind FROM marks ORDER BY 1").fetchall() == [
            ("epoch",), ("gauge",), ("items",), ("phase begin",), ("phase end",), ("step",)]


def test_recordings_of_version_1_load_for_ever(tidemark, tmp_path):
    old = tmp_path / "old.tide"
    with sqlite3.connect(old) as db:
        db.executescript((ROOT / "tests" / "fixtures" / "version-1.sql").read_text(encoding="utf-8"))
    done = tidemark("judge", "--json", old)
    assert done.code == 1
    assert done.json["verdict"] == "leak"
    shown = tidemark("show", old)
    assert shown.code == 0 and "linear" in shown.out
