"""Files on a memory file system that are written, closed and forgotten: memory of nobody, which a control group tells of."""

import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest

KIB = 1024
STEPS, EACH = 150, 128 * KIB
WRITER = f"""\
import pathlib, time
for step in range({STEPS}):
    (pathlib.Path(FOLDER) / f"batch-{{step}}").write_bytes(bytes({EACH}))
    print("step", step, flush=True)
    time.sleep(0.02)
"""


@pytest.fixture
def memory_folder():
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no memory file system")
    folder = tempfile.mkdtemp(dir="/dev/shm")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def recorded(run, binary, tmp_path, small_cgroup, memory_folder):
    """recorded(tracked) -> what is said of the writer, in the group alone or with its tracker; the recording is in memory too."""

    def call(tracked):
        (tmp_path / "train.py").write_text(f"FOLDER = {memory_folder!r}\n{WRITER}")
        enter, program = f"echo $$ > {small_cgroup}/cgroup.procs; exec", "/usr/bin/python3 train.py"
        track = f"{binary} run -i 50ms -o {memory_folder}/a.tide --"
        line = f"{enter} {track} {program}" if tracked else f"exec {track} sh -c '{enter} {program}'"
        done = run("sh", "-c", line, cwd=tmp_path)
        assert done.code == 0, done.err
        return done.err, json.loads(run(binary, "judge", "--json", f"{memory_folder}/a.tide").out)

    return call


@pytest.mark.parametrize("tracked", [True, False], ids=["with its tracker", "alone"])
def test_they_leak_where_the_program_has_a_group_to_itself(recorded, tracked):
    said, verdict = recorded(tracked)
    assert re.search(r"^tidemark: LEAK in shared memory \(/dev/shm, memfd\)", said, re.M), said
    assert abs(verdict["bytes_per_step"] / EACH - 1) < 0.05, said


def test_where_others_are_in_the_group_nobody_is_accused(recorded, small_cgroup):
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            (small_cgroup / "cgroup.procs").write_text(str(other.pid))
            said, verdict = recorded(False)
        finally:
            other.kill()
    assert verdict["verdict"] != "leak", said


@pytest.mark.slow  # with sanitizers, where looks at shared memory cost too much to be made often enough
def test_no_code_is_promised_for_memory_that_no_process_maps(run, binary, tmp_path):
    (tmp_path / "train.py").write_text(f"""\
import os, time
batches = os.memfd_create("batches")  # one file: looking at many costs more, and so is done less often
for step in range({STEPS}):
    os.write(batches, bytes({EACH}))
    print("step", step, flush=True)
    time.sleep(0.05)
""")
    said = run(binary, "run", "-i", "50ms", "-o", "a.tide", "--", "/usr/bin/python3", "train.py", cwd=tmp_path).err
    assert "LEAK in shared memory" in said and "--heap" not in said, said
    assert re.search(r"^  next +tidemark watch a\.tide$", said, re.M), said
