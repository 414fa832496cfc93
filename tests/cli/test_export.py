"""tidemark export: every format read by what reads it, protobuf's and Prometheus's own libraries, JSON schema, CSV; names that
want to break out of each."""

import csv
import errno
import io
import json
import os
import pty
import re
import shutil
import sqlite3
import subprocess
import textwrap

import jsonschema
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from profile_proto import Pprof
from recording import EPOCH, GAUGE, MIB, PHASE_BEGIN, PHASE_END, STEP, Recording

PYTHON = "/usr/bin/python3"
KIB = 1024
STACK_FORMATS = ["pprof", "speedscope", "collapsed"]
FORMATS = STACK_FORMATS + ["chrome-trace", "openmetrics", "csv"]
EVIL = 'a;b\n"c\\d\x1b[31m\x07{e}=1 \u202e</script>\t,\'%s'


def python(function, line, file="/home/u/train.py"):
    return {"function": function, "file": file, "line": line, "python": 1}


OWN = "/src/libt.so"  # what the program brings along; the rest is the system's


def native(function, offset, module="/usr/lib/libx.so", **more):
    return {"function": function, "module": module, "offset": offset, **more}


@pytest.fixture
def made(tmp_path):
    """made(name) -> path of a recording of two processes, a device, a gauge, a phase, and sites of every kind. `odd`
    stands for every name that a program could choose."""

    def make(name="run.tide", odd="x", heap=True, leak=100 * KIB):
        r = Recording(tmp_path / name)
        r.meta(command=f"python train.py {odd}", started_wall_s=1_700_000_000, interval_ns=10**8, exit_status=0, ended_ns=20 * 10**9)
        main = r.process(4711, "python3", role="train.py", peak=200 * MIB)
        worker = r.process(4712, f"worker{odd}", parent=1, role=f"worker of {odd}", ended=15)
        again = r.process(4712, "again", parent=1, began=16)
        r.put("gpu_device", device=0, name=f"GPU {odd}", uuid="u", total_bytes=80 << 30)
        r.put("memory_limit", t_ns=0, name=f"cgroup {odd}", bytes=1 << 34)
        r.put("memory_limit", t_ns=5, name=f"cgroup {odd}", bytes=1 << 33)
        sites = {}
        if heap:
            r.heap(main)
            r.heap(worker)
            root = [native("_start", 0x100, "/usr/bin/python3.11")]
            sites = {
                "leak": r.site(main, [native("at::empty", 0x40), native("inner", 0x1000, OWN, file="/src/t.cc", line=7, inlined=1),
                                      native("middle", 0x1000, OWN, file="/src/t.cc", line=30, inlined=1),
                                      native("outer", 0x1000, OWN, file="/src/t.cc", line=90), python("step", 88), python("<module>", 5)] + root),
                "cache": r.site(main, [native("", 0x77), python(f"load{odd}", 12, f"/home/{odd}/d.py")] + root, kind=2),
                "device": r.site(main, [native("cudaMalloc", 0x5, "/usr/lib/libcudart.so"), python("to", 40)] + root, kind=3),
                "small": r.site(main, []),
                "worker": r.site(worker, [native("at::empty", 0x40), python("work", 3)] + root),
            }
        for step in range(200):
            t = step / 10
            anon = {main: 50 * MIB + leak * step, (worker if t < 15 else again): 20 * MIB}
            tick = r.tick(t, anon)
            r.mark(t, STEP, step)
            if step % 50 == 0:
                r.mark(t, EPOCH, step // 50)
                r.mark(t, PHASE_BEGIN, name=f"eval{odd}")
                r.mark(t + 0.05, PHASE_BEGIN, name="inner")
            if step % 50 == 10:
                r.mark(t, PHASE_END, name=f"eval{odd}")
                r.mark(t + 0.05, PHASE_END, name="inner")
            r.mark(t, GAUGE, step * 1000, f"cache{odd}")
            r.put("gpu", tick=tick, device=0, process=0, bytes=3 << 30)
            r.put("gpu", tick=tick, device=0, process=main, bytes=1 << 30)
            if not heap:
                continue
            r.put("heap_sample", tick=tick, process=main, live_bytes=leak * step, live_blocks=step, free_bytes=step * 10)
            r.hold(tick, sites["leak"], leak * step, step, leak * step + 5 * MIB, 2 * step)
            if step == 0:
                r.hold(tick, sites["cache"], 30 * MIB, 3)
                r.hold(tick, sites["device"], 512 * MIB, 2)
                r.hold(tick, sites["small"], 70_000, 700)
                r.hold(tick, sites["worker"], 9 * MIB, 9)
            if step == 120:
                r.hold(tick, sites["cache"], 300 * MIB, 30)
            if step == 121:
                r.hold(tick, sites["cache"], 30 * MIB, 3, 330 * MIB, 33)
        return r.close()

    return make


@pytest.fixture
def pprof(tidemark, tmp_path):
    def read(*args):
        got = tidemark("export", "--format", "pprof", "-o", "heap.pb.gz", *args)
        assert got.code == 0 and got.out == "", got.err
        return Pprof((tmp_path / "heap.pb.gz").read_bytes())

    return read


# ---- pprof


def test_pprof_is_a_heap_profile(made, pprof):
    profile = pprof(made())
    assert profile.types == [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]
    assert profile.text[profile.raw.default_sample_type] == "inuse_space"
    assert profile.raw.time_nanos == 1_700_000_000 * 10**9 + 199 * 10**8 and profile.raw.duration_nanos == 199 * 10**8
    assert profile.raw.period == 512 * KIB
    assert profile.text[profile.raw.mapping[0].filename] == "/usr/bin/python3.11"
    samples = {stack[1][-1][0] if len(stack) > 1 else "small": (stack, values, labels) for stack, values, labels in profile.samples()}
    assert set(samples) == {"outer", "loadx", "to", "small"}  # the worker has ended
    stack, values, labels = samples["outer"]
    assert values == {"alloc_objects": 398, "alloc_space": 199 * 100 * KIB + 5 * MIB, "inuse_objects": 199, "inuse_space": 199 * 100 * KIB}
    assert labels == {"process": "train.py[4711]", "pid": 4711, "kind": "malloc"}
    assert stack[1] == [("inner", "/src/t.cc", 7), ("middle", "/src/t.cc", 30), ("outer", "/src/t.cc", 90)]
    assert stack[2] == [("step", "/home/u/train.py", 88)]
    assert samples["loadx"][0][0] == [("libx.so+0x77", "/usr/lib/libx.so", 0)] and samples["loadx"][2]["kind"] == "mmap"
    assert samples["to"][2]["kind"] == "cuda"
    assert samples["small"][0] == [[("(many small sites)", "", 0)]]
    assert {profile.text[m.filename] for m in profile.raw.mapping} == {"/usr/bin/python3.11", "/usr/lib/libx.so", "/usr/lib/libcudart.so", OWN}


def test_a_moment_can_be_chosen(made, pprof):
    path = made()

    def held(*args):
        return {s[1][-1][0]: v["inuse_space"] for s, v, _ in pprof(*args, path).samples() if len(s) > 1}

    at_hundred = held("--at", "100")
    assert at_hundred["outer"] == 100 * 100 * KIB and at_hundred["work"] == 9 * MIB
    assert held("--at", "peak")["loadx"] == 300 * MIB and held("--at", "end")["loadx"] == 30 * MIB
    growth = pprof("--growth", path)
    assert growth.types == [("growth_objects", "count"), ("growth_space", "bytes")]
    (stack, values, _), = growth.samples()
    assert stack[1][-1][0] == "outer" and 0.8 < values["growth_space"] / (199 * 100 * KIB) < 1


@pytest.mark.skipif(not shutil.which("go"), reason="golang-go is not installed")
def test_go_tool_pprof_reads_it(made, tidemark, run, tmp_path):
    assert tidemark("export", "-f", "pprof", "-o", "heap.pb.gz", made(odd=EVIL)).code == 0
    got = run("go", "tool", "pprof", "-top", "-cum", "heap.pb.gz", env={"HOME": str(tmp_path), "PPROF_TMPDIR": str(tmp_path)})
    assert got.code == 0 and "Type: inuse_space" in got.out, got.err
    assert re.search(r"19\.4\dMB\s+\S+%\s+outer", got.out) and re.search(r"512MB.* to$", got.out, re.M)


def test_pprof_is_not_put_on_a_terminal(made, binary, env):
    path = made()
    leader, follower = pty.openpty()
    try:
        done = subprocess.run([binary, "export", "--format", "pprof", path], stdout=follower, stderr=subprocess.PIPE, env=env,
                              timeout=60, check=False)
        os.set_blocking(leader, False)
        with pytest.raises(OSError) as nothing:
            os.read(leader, 100)
        assert nothing.value.errno == errno.EAGAIN
    finally:
        os.close(leader)
        os.close(follower)
    assert done.returncode == 2
    assert done.stderr.decode() == "tidemark: export: pprof is binary, and standard output is a terminal\nhint: name a file: -o heap.pb.gz\n"


# ---- speedscope, collapsed

# The rules of https://www.speedscope.app/file-format-schema.json for sampled profiles.
SPEEDSCOPE = {
    "type": "object", "required": ["$schema", "profiles", "shared"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "activeProfileIndex": {"type": "integer", "minimum": 0}, "exporter": {"type": "string"}, "name": {"type": "string"},
        "shared": {"type": "object", "required": ["frames"], "properties": {"frames": {"type": "array", "items": {
            "type": "object", "required": ["name"], "additionalProperties": False,
            "properties": {"name": {"type": "string", "minLength": 1}, "file": {"type": "string"}, "line": {"type": "integer", "minimum": 1},
                           "col": {"type": "integer"}}}}}},
        "profiles": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
            "additionalProperties": False,
            "properties": {"type": {"const": "sampled"}, "name": {"type": "string"},
                           "unit": {"enum": ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]},
                           "startValue": {"type": "number"}, "endValue": {"type": "number"},
                           "samples": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
                           "weights": {"type": "array", "items": {"type": "number", "minimum": 0}}}}}},
}


def speedscope(tidemark, *args):
    got = tidemark("export", "--format", "speedscope", *args)
    assert got.code == 0, got.err
    document = got.json
    jsonschema.validate(document, SPEEDSCOPE)
    frames = document["shared"]["frames"]
    for profile in document["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) == profile["endValue"] - profile["startValue"]
        assert all(i < len(frames) for stack in profile["samples"] for i in stack)
    return document


def test_speedscope_has_a_profile_per_owner_of_memory(made, tidemark):
    document = speedscope(tidemark, made())
    frames = document["shared"]["frames"]
    assert [p["name"] for p in document["profiles"]] == ["train.py[4711]", "train.py[4711] cuda"]
    ram, device = document["profiles"]
    assert device["weights"] == [512 * MIB] and ram["endValue"] == 199 * 100 * KIB + 30 * MIB + 70_000
    stack = [frames[i] for i in ram["samples"][0]]
    assert [f["name"] for f in stack] == ["_start", "<module>", "step", "outer", "middle", "inner", "at::empty"]
    assert stack[2] == {"name": "step", "file": "/home/u/train.py", "line": 88}
    assert len(speedscope(tidemark, "--at", "10", made("b.tide"))["profiles"]) == 3


# As flamegraph.pl takes a line apart.
FOLDED = re.compile(r"^(.*)\s+?(\d+(?:\.\d*)?)$")


def folded(tidemark, *args):
    got = tidemark("export", "--format", "collapsed", *args)
    assert got.code == 0, got.err
    rows = [FOLDED.match(line) for line in got.out.splitlines()]
    assert all(rows), got.out
    return [(row[1].split(";"), int(row[2])) for row in rows]


def test_collapsed_stacks_are_outermost_first_with_their_bytes(made, tidemark):
    rows = folded(tidemark, made())
    assert (["train.py[4711]", "_start (python3.11)", "<module> (train.py:5)", "step (train.py:88)", "outer (t.cc:90)", "middle (t.cc:30)",
             "inner (t.cc:7)", "at::empty (libx.so)"], 199 * 100 * KIB) in rows
    assert (["train.py[4711]", "(many small sites)"], 70_000) in rows
    assert [r for r in rows if r[0][0] == "train.py[4711] cuda"][0][1] == 512 * MIB
    assert len(rows) == 4


# ---- chrome-trace


def trace(tidemark, *args):
    got = tidemark("export", "--format", "chrome-trace", *args)
    assert got.code == 0, got.err
    events = got.json["traceEvents"]
    for event in events:
        assert event["ph"] in "MCBEi" and isinstance(event["ts"], int) and event["ts"] >= 0 and isinstance(event["pid"], int)
        if event["ph"] == "C":
            assert all(isinstance(v, int) for v in event["args"].values())
    return events


def test_a_trace_has_counters_phases_and_steps(made, tidemark):
    events = trace(tidemark, made())
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    assert names[0] == "the process tree" and names[4711] == "python3[4711] train.py" and names[4712] == "workerx[4712] worker of x"
    second, = [pid for pid, name in names.items() if name.startswith("again")]
    assert second not in (0, 4711, 4712)
    private = [(e["ts"], e["args"]["bytes"]) for e in events if e["ph"] == "C" and e["name"] == "private" and e["pid"] == 4711]
    assert private[10] == (1_000_000, 50 * MIB + 10 * 100 * KIB) and len(private) == 200
    ended = [e for e in events if e["ph"] == "C" and e["name"] == "RSS" and e["pid"] == 4712][-1]
    assert ended["ts"] == 15_000_000 and ended["args"]["bytes"] == 0
    assert [e["name"] for e in events if e["ph"] == "i" and e["s"] == "p"] == [f"epoch {i}" for i in range(4)]
    assert sum(e["ph"] == "i" and e["name"].startswith("step ") for e in events) == 200
    live = [e["args"]["bytes"] for e in events if e["name"] == "live heap" and e["pid"] == 4711]
    assert live[-1] == 30 * MIB + 70_000 + 199 * 100 * KIB and max(live) > 300 * MIB
    assert {e["args"]["bytes"] for e in events if e["name"] == "live device memory"} == {512 * MIB}
    assert {(e["pid"], e["args"]["bytes"]) for e in events if e["name"] == "GPU 0"} == {(0, 3 << 30), (4711, 1 << 30)}
    assert [e["args"]["bytes"] for e in events if e["name"] == "gauge cachex"][:2] == [0, 1000]
    assert [e["args"]["bytes"] for e in events if e["name"] == "free, kept by malloc"][-1] == 1990


def test_phases_that_overlap_stay_apart(made, tidemark):
    """A begin and an end on one track nest, as the format wants it, though the phases themselves do not."""
    open_on = {}
    for event in trace(tidemark, made()):
        stack = open_on.setdefault((event["pid"], event["tid"]), [])
        if event["ph"] == "B":
            stack.append(event["name"])
        if event["ph"] == "E":
            assert stack.pop() == event["name"]
    assert not any(open_on.values()) and len(open_on) > 3


# ---- openmetrics


def metrics(tidemark, *args):
    """{family: [(labels, value)]}, by Prometheus's own parser, which is strict."""
    got = tidemark("export", "--format", "openmetrics", *args)
    assert got.code == 0, got.err
    assert got.out.endswith("# EOF\n")
    families = list(text_string_to_metric_families(got.out))
    assert len({f.name for f in families}) == len(families)
    assert all(f.documentation and (f.unit == "bytes") == f.name.endswith("_bytes") for f in families)
    return {f.name: [(s.labels, s.value) for s in f.samples] for f in families}


def test_openmetrics_says_how_the_run_ended(made, tidemark):
    got = metrics(tidemark, made())
    assert got["tidemark_run_info"] == [({"command": "python train.py x"}, 1)]
    assert {labels["verdict"]: on for labels, on in got["tidemark_verdict"]}["leak"] == 1
    assert abs(got["tidemark_growth_bytes_per_step"][0][1] / (100 * KIB) - 1) < 0.02
    assert got["tidemark_processes"] == [({}, 2)] and got["tidemark_step"] == [({}, 199)] and got["tidemark_epoch"] == [({}, 3)]
    assert got["tidemark_limit_bytes"] == [({"limit": "cgroup x"}, 1 << 33)]
    assert got["tidemark_program_bytes"] == [({"gauge": "cachex"}, 199_000)]
    private = {labels["name"]: value for labels, value in got["tidemark_process_private_bytes"]}
    assert private == {"python3": 50 * MIB + 199 * 100 * KIB, "again": 20 * MIB}
    assert {labels.get("pid"): value for labels, value in got["tidemark_gpu_bytes"]} == {None: 3 << 30, "4711": 1 << 30}
    assert {labels["kind"]: value for labels, value in got["tidemark_heap_live_bytes"]} == {
        "malloc": 199 * 100 * KIB + 70_000, "mmap": 30 * MIB, "cuda": 512 * MIB}
    assert [(labels["pid"], value) for labels, value in got["tidemark_heap_free_bytes"]] == [("4711", 1990)]
    assert got["tidemark_site_live_bytes"][0][0]["code"] == "to (train.py:40)" and len(got["tidemark_site_live_bytes"]) == 4


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian: prometheus)")
@pytest.mark.parametrize("heap", [True, False])
def test_openmetrics_is_accepted_by_promtool(made, tidemark, run, heap):
    """The format that the textfile collector of node_exporter reads is the one that this checks."""
    text = tidemark("export", "--format", "openmetrics", made("plain.tide", heap=heap)).out
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_openmetrics_of_an_earlier_moment(made, tidemark):
    got = metrics(tidemark, "--at", "50", made())
    assert got["tidemark_step"] == [({}, 50)] and got["tidemark_epoch"] == [({}, 1)] and got["tidemark_program_bytes"][0][1] == 50_000
    assert {labels["name"] for labels, _ in got["tidemark_process_private_bytes"]} == {"python3", "workerx"}
    assert len(metrics(tidemark, made("plain.tide", heap=False))) > 8


# ---- csv


def rows(tidemark, *args):
    got = tidemark("export", "--format", "csv", *args)
    assert got.code == 0, got.err
    return list(csv.DictReader(io.StringIO(got.out)))


def test_csv_of_processes_is_judged_like_the_recording(made, tidemark, tmp_path):
    path = made()
    (tmp_path / "samples.csv").write_text(tidemark("export", "-f", "csv", path).out)
    again, first = tidemark("judge", "--json", "samples.csv"), tidemark("judge", "--json", path)
    assert again.code == first.code == 1
    assert again.json["verdict"] == first.json["verdict"] == "leak"
    assert abs(again.json["bytes_per_step"] / first.json["bytes_per_step"] - 1) < 0.01


def test_csv_of_sites_and_marks(made, tidemark):
    path = made()
    sites = rows(tidemark, "--what", "sites", path)
    leak = [r for r in sites if r["function"] == "inner"]
    assert len(leak) == 200 and leak[7]["live_bytes"] == str(7 * 100 * KIB) and leak[7]["step"] == "7" and leak[7]["t_s"] == "0.7"
    assert leak[7]["file"] == "/src/t.cc" and leak[7]["line"] == "7" and leak[7]["pid"] == "4711" and leak[7]["kind"] == "malloc"
    assert {r["kind"] for r in sites} == {"malloc", "mmap", "cuda"}
    marks = rows(tidemark, "--what", "marks", path)
    kinds = [r["kind"] for r in marks]
    assert kinds.count("step") == 200 and kinds.count("phase begin") == kinds.count("phase end") == 8
    assert [r["name"] for r in marks if r["kind"] == "gauge"][0] == "cachex"


# ---- what goes wrong


@pytest.mark.parametrize("form", FORMATS)
def test_hostile_names_stay_names(made, tidemark, tmp_path, form):
    path = made(odd=EVIL)
    with sqlite3.connect(path) as db:  # bytes that are not UTF-8, where text is expected
        db.execute("UPDATE frame SET function = CAST(x'ff41fe' AS TEXT) WHERE function = 'middle'")
    got = tidemark("export", "--format", form, "-o", "out", path)
    assert got.code == 0, got.err
    data = (tmp_path / "out").read_bytes()
    if form == "pprof":
        profile = Pprof(data)
        data = "\0".join(profile.text).encode()
        assert any("load" in name and "</script>" in name for name in profile.text)
    text = data.decode("utf-8")
    allowed = "\n" if form != "pprof" else "\0"
    assert not [c for c in text if (ord(c) < 32 or ord(c) == 127 or c == "\u202e") and c not in allowed]
    if form == "speedscope":
        assert any("</script>" in f["name"] for f in speedscope(tidemark, path)["shared"]["frames"])
    if form == "collapsed":
        found = folded(tidemark, path)
        assert len(found) == 4 and [len(stack) for stack, _ in found if "load" in stack[-2]] == [4]
    if form == "chrome-trace":
        assert any("</script>" in e["name"] for e in trace(tidemark, path))
    if form == "openmetrics":
        labels, _ = metrics(tidemark, path)["tidemark_limit_bytes"][0]
        assert labels["limit"].startswith('cgroup a;b\\x0a"c\\d\\x1b[31m')
    if form == "csv":
        for what in "processes", "sites", "marks":
            listed = rows(tidemark, "--what", what, path)
            assert all(None not in r and None not in r.values() for r in listed)
            assert any("</script>" in value for r in listed for value in r.values())


@pytest.mark.parametrize("form", STACK_FORMATS)
def test_without_call_sites_the_way_to_get_them_is_told(made, tidemark, tmp_path, form):
    path = made(heap=False)
    got = tidemark("export", "--format", form, "-o", "out", path)
    assert got.code == 2 and got.err == ("tidemark: the recording has no call sites\n"
                                         "hint: record them with 'tidemark run --heap -- PROG'\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.tide"]
    assert tidemark("export", "--format", "csv", "--what", "sites", path).code == 2


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_is_trouble(made, tidemark, form):
    path = made()
    got = tidemark("export", "--format", form, "-o", "/dev/full", path)
    assert got.code == 2 and got.err == "tidemark: cannot write '/dev/full': No space left on device\n"
    assert not os.path.isfile("/dev/full")


def test_a_file_is_whole_or_as_it_was(made, run, binary, tmp_path):
    path = made()
    (tmp_path / "out.json").write_text("old")
    limited = run("sh", "-c", 'ulimit -f 2; trap "" XFSZ; exec "$@"', "sh", binary, "export", "-f", "chrome-trace", "-o", "out.json", path)
    assert limited.code == 2 and "cannot write '" in limited.err and "File too large" in limited.err
    assert (tmp_path / "out.json").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "run.tide"]
    assert run(binary, "export", "-f", "chrome-trace", "-o", "out.json", path).code == 0
    json.loads((tmp_path / "out.json").read_text())


def test_a_recording_is_not_overwritten(made, tidemark):
    path = made()
    before = path.read_bytes()
    got = tidemark("export", "-f", "csv", "-o", path, path)
    assert got.code == 2 and got.err == f"tidemark: cannot write '{path}': it is a recording, which is never overwritten\nhint: name another file with -o\n"
    assert path.read_bytes() == before


def test_standard_output_is_the_default_and_can_be_named(made, tidemark):
    path = made()
    assert tidemark("export", "-f", "collapsed", path).out == tidemark("export", "-f", "collapsed", "-o", "-", path).out != ""


def test_trouble_is_one_sentence(made, tidemark):
    path = made()
    for arguments in ([path], ["-f", "csv"], ["-f", "html", path], ["-f", "csv", path, path], ["-f", "csv", "none.tide"],
                      ["-f", "csv", "--at", "3", path], ["-f", "csv", "--growth", path], ["-f", "openmetrics", "--growth", path],
                      ["-f", "pprof", "--what", "sites", path], ["-f", "pprof", "--at", "peak", "--growth", path],
                      ["-f", "collapsed", "--at", "99999", path], ["-f", "csv", "-o", "no/where", path]):
        got = tidemark("export", *arguments)
        assert got.code == 2 and got.out == "" and got.err.startswith("tidemark: ") and len(got.err.splitlines()) <= 2, (arguments, got)


# ---- a real program

TRAIN = """
    import sys, time
    sys.path.insert(0, {python!r})
    import tidemark
    kept = []
    def train_step():
        kept.append(bytearray(200_000))
    for step in range(100):
        tidemark.step(step)
        train_step()
        time.sleep(0.01)
"""


@pytest.mark.slow
def test_a_real_recording_in_every_format(tidemark, pprof, tmp_path, root):
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent(TRAIN.format(python=str(root / "python"))))
    assert tidemark("run", "--heap", "-i", "50ms", "-o", "run.tide", "--", PYTHON, program).code == 0
    line = program.read_text().splitlines().index("    kept.append(bytearray(200_000))") + 1
    held = [v["inuse_space"] for s, v, _ in pprof("run.tide").samples() if [("train_step", str(program), line)] in s]
    assert 90 * 200_000 < sum(held) < 101 * 200_000
    frames = speedscope(tidemark, "run.tide")["shared"]["frames"]
    assert {"name": "train_step", "file": str(program), "line": line} in frames
    assert sum(b for stack, b in folded(tidemark, "run.tide") if f"train_step (train.py:{line})" in stack) == sum(held)
    assert max(e["args"]["bytes"] for e in trace(tidemark, "run.tide") if e["name"] == "live heap") > sum(held)
    assert metrics(tidemark, "run.tide")["tidemark_site_live_bytes"][0][0]["code"] == f"train_step (train.py:{line})"
    assert [r for r in rows(tidemark, "--what", "sites", "run.tide") if r["function"] == "train_step"]
