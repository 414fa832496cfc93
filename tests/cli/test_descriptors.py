"""A tree of more processes than files may be open: all of them are read, and the program has the limits that it would have."""

import sqlite3

import pytest

# Workers that hold something, so that each has a table of its own; the last of them leaks, once all are there.
MANY = """
import os, sys, time
count = int(sys.argv[1])
wait, go = os.pipe()
for i in range(count):
    if os.fork() == 0:
        mine = [bytearray(1 << 18) for _ in range(2)]
        if i == count - 1:
            break
        os.close(go)
        os.read(wait, 1)
        os._exit(0)
else:
    os.close(go)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            sys.exit(0)
kept = []

def leak():
    kept.append(bytearray(1 << 18))

for step in range(200):
    leak()
    print("step", step, flush=True)
    time.sleep(0.05)
os._exit(0)
"""


@pytest.mark.slow
def test_a_leak_is_found_and_everybody_read_with_fewer_descriptors_than_processes(run, binary, script, tmp_path):
    recording = tmp_path / "many.tide"
    got = run("prlimit", "--nofile=100:100", binary, "run", "--heap", "-o", recording, "--", "python3",
              script(MANY, "many.py"), "120")
    assert got.code == 0, got.err
    assert "LEAK in " in got.err and "many.py:25 leak" in got.err, got.err
    with sqlite3.connect(recording) as db:
        notes = [text for (text,) in db.execute("SELECT text FROM note")]
        tables = db.execute("SELECT count(DISTINCT process) FROM heap_state").fetchone()[0]
    assert not [text for text in notes if "read" in text], notes
    assert tables >= 120


def test_the_program_has_the_limits_that_it_would_have(run, binary):
    got = run("prlimit", "--nofile=200:300", binary, "run", "-q", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn")
    assert got.code == 0 and got.out == "200\n300\n"
