"""tidemark blame: planted leaks, caches and spikes, each named by its file and line."""

import re
import shutil
import subprocess
import textwrap

import pytest

from recording import MIB, PHASE_BEGIN, PHASE_END, STEP, Recording

pytestmark = pytest.mark.slow

PYTHON = "/usr/bin/python3"


@pytest.fixture
def heap(tidemark, tmp_path):
    """heap(argv...) -> path of the recording of that program under run --heap; what it said is in .said."""

    def record(*argv, name="run.tide", code=0):
        got = tidemark("run", "--heap", "-i", "50ms", "-o", name, "--", *argv)
        assert got.code == code, got.err
        record.said = got.err
        return tmp_path / name

    return record


def line_of(path, text):
    """Number of the line that holds the text."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if text in line:
            return number
    raise AssertionError(text)


def frames_of(culprit, name):
    return [(f["function"], f["line"]) for f in culprit["frames"] if f["file"] and f["file"].endswith("/" + name)]


TRAIN = """
    import time
    import tidemark
    kept, cache = [], {}
    def load(i):
        if i % 60 not in cache:
            cache[i % 60] = bytearray(300_000)
    def evaluate():
        scratch = bytearray(50_000_000)
        time.sleep(0.3)
        return len(scratch)
    def train_step(i):
        load(i)
        kept.append(bytearray(150_000))
    for step in range(250):
        tidemark.step(step)
        train_step(step)
        time.sleep(0.012)
        if step % 80 == 79:
            with tidemark.phase("validation"):
                evaluate()
"""


@pytest.fixture
def trained(heap, script):
    program = script(TRAIN)
    return heap(PYTHON, program), program


def test_a_python_leak_is_named_by_its_line(trained, tidemark, heap):
    recording, program = trained
    got = tidemark("blame", "--json", recording)
    assert got.code == 1, got.err
    document = got.json
    assert document["schema"] == "tidemark.blame/1" and document["by"] == "growth" and document["axis"] == "step"
    first = document["culprits"][0]
    assert ("train_step", line_of(program, "kept.append")) in frames_of(first, "train.py")
    assert abs(first["bytes_per_step"] / 150_000 - 1) < 0.05
    assert first["bytes_per_step_low"] <= first["bytes_per_step"] <= first["bytes_per_step_high"]
    assert first["share"] > 0.9 and first["bounded"] is False and first["freed_share"] < 0.02
    assert abs(first["blocks_per_step"] - 1) < 0.05
    assert "culprit 1" in heap.said and "kept.append(bytearray(150_000))" in heap.said


def test_a_cache_that_filled_is_called_bounded(trained, tidemark):
    recording, program = trained
    culprits = tidemark("blame", "--json", recording).json["culprits"]
    cache = [c for c in culprits if ("load", line_of(program, "cache[i % 60] =")) in frames_of(c, "train.py")]
    assert len(cache) == 1 and cache[0]["bounded"] is True and cache[0]["bytes_per_step"] is None


def test_the_bytes_of_a_phase_are_those_of_its_code(trained, tidemark):
    recording, program = trained
    document = tidemark("blame", "--phase", "validation", "--json", recording).json
    first = document["culprits"][0]
    assert ("evaluate", line_of(program, "scratch = ")) in frames_of(first, "train.py")
    assert abs(first["bytes"] / 50_000_000 - 1) < 0.01
    assert first["freed_share"] > 0.99


def test_between_two_steps_only_what_was_added_counts(trained, tidemark):
    recording, program = trained
    document = tidemark("blame", "--between", "--json", recording, "100", "200").json
    first = document["culprits"][0]
    assert ("train_step", line_of(program, "kept.append")) in frames_of(first, "train.py")
    assert abs(first["bytes"] / (100 * 150_000) - 1) < 0.15  # looks come every few steps


def test_what_is_live_at_the_end_is_shared_out(trained, tidemark):
    recording, _ = trained
    document = tidemark("blame", "--by", "end", "-n", "1000", "--json", recording).json
    assert abs(sum(c["share"] for c in document["culprits"]) - 1) < 0.01
    assert document["culprits"][0]["live_bytes"] > 30_000_000


def test_a_c_leak_is_named_by_its_function_and_line(heap, tidemark, tmp_path, root, build):
    source = tmp_path / "leaky.c"
    source.write_text(textwrap.dedent("""
        #include <stdlib.h>
        #include <string.h>
        #include <time.h>
        #include <tidemark.h>
        char *volatile kept;
        __attribute__((noinline)) static void remember(size_t size)
        {
            kept = malloc(size);
            memset(kept, 1, size);
        }
        int main(void)
        {
            for (int step = 0; step < 300; step++) {
                struct timespec pause = {0, 8000000};
                tide_step(step);
                remember(200000);
                nanosleep(&pause, NULL);
            }
            return 0;
        }
    """))
    program = tmp_path / "leaky"
    subprocess.run([shutil.which("cc"), "-g", "-O1", "-o", program, source, f"-I{root}/include", build.parent / "release" / "libtidemark.a",
                    "-lpthread"], check=True)
    document = tidemark("blame", "--json", heap(program)).json
    first = document["culprits"][0]
    assert first["frames"][0]["function"] == "remember"
    assert frames_of(first, "leaky.c")[0] == ("remember", line_of(source, "kept = malloc"))
    assert abs(first["bytes_per_step"] / 200_000 - 1) < 0.05


def test_a_killed_program_still_has_its_culprit(heap, tidemark, script):
    program = script("""
        import os, signal, time
        import tidemark
        kept = []
        for step in range(200):
            tidemark.step(step)
            kept.append(bytearray(150_000))
            time.sleep(0.012)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    recording = heap(PYTHON, program, code=137)
    first = tidemark("blame", "--json", recording).json["culprits"][0]
    assert ("<module>", line_of(program, "kept.append")) in frames_of(first, "train.py")


def test_the_end_of_a_run_names_who_jumped_as_blame_does(heap, tidemark, build):
    recording = heap(build / "workloads" / "jump")
    named = [line for line in tidemark("blame", recording).out.splitlines() if line.startswith("  culprit")]
    assert len(named) == 1 and "100 % of the jump" in named[0]
    assert [line for line in heap.said.splitlines() if line.startswith("  culprit")] == named
    assert f"next    tidemark blame {recording.name}" in heap.said


def test_a_program_that_keeps_nothing_has_no_culprit(heap, tidemark, script):
    program = script("""
        import time
        import tidemark
        for step in range(250):
            tidemark.step(step)
            scratch = bytearray(400_000)
            time.sleep(0.01)
    """)
    got = tidemark("blame", heap(PYTHON, program))
    assert got.code == 0, got.out
    assert "culprit none" in got.out


def test_trouble_is_one_sentence(tidemark, workload, tmp_path):
    tidemark("run", "-o", "plain.tide", "--", workload("linear"), "--steps", "60")
    got = tidemark("blame", "plain.tide")
    assert got.code == 2 and got.err == ("tidemark: the recording has no call sites\n"
                                         "hint: record them with 'tidemark run --heap -- PROG'\n")
    assert tidemark("blame").code == 2
    assert tidemark("blame", "nothing.tide").code == 2
    assert tidemark("blame", "--between", "plain.tide", "1").code == 2
    assert tidemark("blame", "--between", "plain.tide", "a", "b").code == 2
    assert tidemark("blame", "--by", "peak", "--phase", "x", "plain.tide").code == 2


def test_hostile_names_reach_the_terminal_escaped(heap, tidemark, script):
    program = script("""
        import time
        import tidemark
        kept = []
        code = compile("def \\u202eevil(kept): kept.append(bytearray(150_000))", "/tmp/\\x1b[31mevil.py", "exec")
        names = {}
        exec(code.replace(co_filename="/tmp/\\x1b[31mevil.py"), names)
        evil = next(v for k, v in names.items() if k.endswith("evil"))
        for step in range(200):
            tidemark.step(step)
            evil(kept)
            time.sleep(0.01)
    """.replace("\\u202e", "x"))
    got = tidemark("blame", heap(PYTHON, program))
    assert "\x1b" not in got.out and "evil.py" in got.out
    assert "\x1b" not in heap.said


def test_ones_own_lines_are_shown_among_those_of_libraries(heap, tidemark, script):
    """json's decoder calls back from three functions of its own: the line that called it is what a reader looks for."""
    program = script("""
        import json, time
        import tidemark
        kept = []
        def hook(pairs):
            kept.append(bytearray(150_000))
            return pairs
        def parse():
            return json.load(open(DATA), object_hook=hook)
        for step in range(200):
            tidemark.step(step)
            parse()
            time.sleep(0.008)
    """.replace("DATA", repr("data.json")))
    program.with_name("data.json").write_text("{}")
    got = tidemark("blame", "-n", "1", "--frames", "6", heap(PYTHON, program))
    lines = [line.split()[0] for line in got.out.splitlines() if ".py:" in line]
    for text in ("    parse()", "return json.load", "kept.append"):
        assert f"train.py:{line_of(program, text)}" in lines, got.out
    assert lines[0] == f"train.py:{line_of(program, '    parse()')}"
    assert any(line.startswith("json/decoder.py:") for line in lines)


def test_code_without_symbols_is_said_by_module_and_offset(tidemark, tmp_path):
    source = tmp_path / "naked.c"
    source.write_text("#include <stdlib.h>\n#include <unistd.h>\nvoid *volatile kept;\n"
                      "int main(void) { for (int i = 0; i < 20; i++) { kept = malloc(300000); usleep(5000); } return 0; }\n")
    subprocess.run([shutil.which("cc"), "-O1", "-s", "-o", tmp_path / "naked", source], check=True)
    tidemark("run", "--heap", "-i", "20ms", "-o", "a.tide", "--", "./naked")
    got = tidemark("blame", "--by", "end", "-n", "1", "a.tide")
    assert re.search(r"^ +naked\+0x[0-9a-f]+$", got.out, re.M), got.out


def test_a_program_too_small_for_a_sample_is_said(tidemark):
    tidemark("run", "--heap", "--heap-interval", "1G", "-i", "20ms", "-o", "a.tide", "--", "sleep", "0.3",
             env={"TIDEMARK_HEAP_SEED": "1"})  # without a seed, one run in 10,000 would have a sample
    got = tidemark("blame", "a.tide")
    assert got.code == 2
    assert got.err == ("tidemark: the recording has no call sites: the program ended before an allocation was sampled\n"
                       "hint: 'tidemark run --heap-interval 4K -- PROG' samples more of them\n")


def test_a_hook_without_python_frames_is_no_reason_for_having_no_call_sites(tidemark, tmp_path):
    r = Recording(tmp_path / "a.tide")
    process = r.process(100, "python3")
    r.heap(process, state="on; no Python frames: Python 3.15 is not supported")
    for look in range(20):
        r.tick(look, {process: 50 * MIB})
    got = tidemark("blame", r.close())
    assert got.code == 2
    assert got.err.startswith("tidemark: the recording has no call sites: the program ended before an allocation was sampled\n")


def short_run(path, steps, phases=()):
    """One site that takes a MiB a step, a look per step; phases: (step, kind, name)."""
    r = Recording(path)
    r.meta(command="train")
    p = r.process(100, "train")
    r.heap(p)
    site = r.site(p, [{"function": "hoard", "file": "train.c", "line": 7}])
    for i in range(steps):
        tick = r.tick(0.25 * i, {p: (100 + i) * MIB})
        r.mark(0.25 * i, STEP, i, process=p)
        for kind, name in [(k, n) for at, k, n in phases if at == i]:
            r.mark(0.25 * i, kind, name=name, process=p)
        r.hold(tick, site, (1 + i) * MIB, blocks=1 + i)
    return r.close()


def test_sites_that_were_seen_too_rarely_are_not_said_not_to_grow(tidemark, tmp_path):
    said = tidemark("blame", short_run(tmp_path / "a.tide", 6)).out
    assert "culprit none: call sites were seen too rarely to be judged; '--by end' shows what each holds\n" in said


def test_a_phase_in_which_the_program_died_counts(tidemark, tmp_path):
    path = short_run(tmp_path / "a.tide", 20, [(2, PHASE_BEGIN, "load"), (4, PHASE_END, "load"), (15, PHASE_BEGIN, "train")])
    assert tidemark("blame", "--json", "--phase", "load", path).json["culprits"][0]["bytes"] == 2 * MIB
    assert tidemark("blame", "--json", "--phase", "train", path).json["culprits"][0]["bytes"] == 4 * MIB


def test_a_phase_that_there_is_not_is_trouble(tidemark, tmp_path):
    got = tidemark("blame", "--phase", "lode", short_run(tmp_path / "a.tide", 20, [(2, PHASE_BEGIN, "load"), (4, PHASE_END, "load")]))
    assert got.code == 2 and got.err.startswith("tidemark: the recording has no phase 'lode'\nhint: one of its phases is 'load'")


def behind_a_wrapper(path, state, sites):
    """sh, which has the hook, and below it a larger program, which has not."""
    r = Recording(path)
    r.meta(command="sh -c ./train")
    shell = r.process(99, "sh", peak=2 * MIB)
    trainer = r.process(100, "train", parent=shell, peak=200 * MIB)
    r.heap(shell)
    if state:
        r.heap(trainer)
        r.heap(trainer, state=state)
    site = r.site(shell, [{"function": "xmalloc"}]) if sites else None
    for i in range(40):
        tick = r.tick(0.25 * i, {shell: MIB, trainer: (100 + i) * MIB})
        if sites and i == 0:
            r.hold(tick, site, MIB)
    return r.close()


@pytest.mark.parametrize("state", [None, "the process has become another program"])
def test_a_program_behind_a_wrapper_that_did_not_load_the_hook_is_named(tidemark, tmp_path, state):
    why = "train[100]: it is statically linked, setuid, owned by another user, or started without the LD_PRELOAD of --heap\n"
    got = tidemark("blame", behind_a_wrapper(tmp_path / "none.tide", state, False))
    assert got.code == 2 and got.err == "tidemark: the recording has no call sites of " + why
    assert "\n  unseen  " + why in tidemark("blame", behind_a_wrapper(tmp_path / "some.tide", state, True)).out


def test_neither_the_inside_of_a_rust_vector_nor_the_start_of_a_thread_is_shown(tidemark, tmp_path):
    r = Recording(tmp_path / "a.tide")
    r.meta(command="train")
    p = r.process(100, "train")
    r.heap(p)
    inside = [{"function": f"inner{i}", "file": "/rustc/9fc6b431/library/alloc/src/raw_vec/mod.rs", "line": i, "module": "/x/train"}
              for i in range(1, 8)]
    site = r.site(p, [*inside, {"function": "train_step", "file": "/x/train.rs", "line": 3, "module": "/x/train"},
                      {"function": "start_thread", "module": "/lib/x86_64-linux-gnu/libc.so.6"},
                      {"function": "__GI___clone3", "module": "/lib/x86_64-linux-gnu/libc.so.6"}])
    for i in range(40):
        r.hold(r.tick(0.25 * i, {p: (100 + i) * MIB}), site, (1 + i) * MIB, blocks=1 + i)
    said = tidemark("blame", r.close()).out
    assert "\n              train.rs:3 train_step" in said and "inner" not in said and "clone" not in said


def test_it_exits_with_3_when_memory_may_grow_and_no_site_is_known_to(tidemark, tmp_path):
    got = tidemark("blame", short_run(tmp_path / "a.tide", 6))
    assert "UNDECIDED" in got.out
    assert got.code == 3


def test_it_exits_with_3_when_call_sites_were_seen_too_rarely(tidemark, tmp_path):
    r = Recording(tmp_path / "a.tide")
    r.meta(command="train")
    p = r.process(100, "train")
    r.heap(p)
    site = r.site(p, [{"function": "load", "file": "/x/train.py", "line": 3, "module": "/x/train"}])
    for i, at in enumerate((0.045, 0.066, 0.105, 0.185, 0.351, 0.599, 0.846)):  # a program of a second
        tick = r.tick(at, {p: (1 if i == 0 else 4) * MIB})
        if i == 1:
            r.hold(tick, site, MIB, blocks=1)
    got = tidemark("blame", r.close())
    assert "JUMP" in got.out and "seen too rarely to be judged" in got.out
    assert got.code == 3
