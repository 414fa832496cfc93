"""run --python-objects: Python's small objects by the line that made them, and their arenas without them."""


import math

import pytest

from interpreters import INTERPRETERS

pytestmark = pytest.mark.slow

LEAK = '''
import os, sys
kept = []
class Record:
    __slots__ = ("value",)
    def __init__(self, value):
        self.value = value
def leak(count):
    for i in range(count):
        kept.append(Record(None))  # LEAK
def churn(count):
    for i in range(count):
        [float(i), str(i), (i, i)]
leak(int(sys.argv[1]))
churn(20000)
print(sys.getsizeof(Record(None)), flush=True)
os._exit(0)
'''


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "leak.py"
    path.write_text(LEAK)
    return path


LINE = next(n for n, line in enumerate(LEAK.split("\n"), 1) if "# LEAK" in line)


def held_at(table, script, line, kind="pool"):
    return [s for s in table.sites if s.kind == kind and (str(script), "leak", line) in s.python]


@pytest.mark.parametrize("python", INTERPRETERS)
def test_small_objects_are_named_by_the_line_that_made_them(hooked, script, python):
    count, interval = 200_000, 1024
    result, found = hooked(python, script, count, interval=interval, seed=1, env={"TIDEMARK_PYTHON_OBJECTS": "1"})
    table = next(iter(found.values()))
    size = int(result.out)
    live = sum(s.live_bytes for s in held_at(table, script, LINE))
    assert abs(live - count * size) < 3 * math.sqrt(interval * count * size)  # three standard errors: 3.4 %
    # Nothing is counted twice: what the arenas keep for themselves is little beside what lies in them.
    assert 0 <= table.live("mmap") + table.live("pool") - live < 6 << 20
    assert all(s.live_blocks >= 0 for s in table.sites) and table.counters["lost_frees"] == 0


@pytest.mark.parametrize("python", INTERPRETERS)
def test_without_the_option_arenas_are_seen(hooked, script, python):
    count = 200_000
    _, found = hooked(python, script, count)
    table = next(iter(found.values()))
    assert not [s for s in table.sites if s.kind == "pool"]
    assert sum(s.live_bytes for s in held_at(table, script, LINE, "mmap")) > count * 32


@pytest.mark.parametrize("choice", ["malloc", "pymalloc", "debug", "pymalloc_debug"])
def test_another_allocator_of_the_users_choice_stays(hooked, script, choice):
    env = {"TIDEMARK_PYTHON_OBJECTS": "1", "PYTHONMALLOC": choice}
    _, found = hooked("/usr/bin/python3", script, 50_000, interval=16384, env=env)
    table = next(iter(found.values()))
    assert table.state == "on"
    if choice == "malloc":  # every object goes through the hooked malloc
        assert sum(s.live_bytes for s in held_at(table, script, LINE, "malloc")) > 50_000 * 32


@pytest.mark.parametrize("round_", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
def test_threads_forks_and_collections(hooked, tmp_path, round_):
    del round_
    script = tmp_path / "many.py"
    script.write_text("""
import gc, multiprocessing, threading
def churn(n):
    for i in range(300):
        rows = [{"a": [j], "b": str(j) * 3} for j in range(100)]
        for row in rows:
            row["self"] = row
    gc.collect()
    return n
if __name__ == "__main__":
    threads = [threading.Thread(target=churn, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.map(churn, range(6)) == list(range(6))
    [t.join() for t in threads]
""")
    _, found = hooked("/usr/bin/python3", script, interval=4096, env={"TIDEMARK_PYTHON_OBJECTS": "1"}, timeout=120)
    for table in found.values():
        assert table.counters["lost_frees"] == 0


def test_blame_names_a_leak_of_fifty_bytes(tidemark, tmp_path, root):
    script = tmp_path / "train.py"
    script.write_text(f"""import sys, time
sys.path.insert(0, {str(root / 'python')!r})
import tidemark
kept = []
def train_step(i):
    for j in range(1000):
        kept.append(f"{{i}}:{{j}}")  # LEAK
    return [float(j) for j in range(1000)]
for i in range(300):
    tidemark.step(i)
    train_step(i)
    time.sleep(0.01)
""")
    done = tidemark("run", "--python-objects", "--heap-interval", "16K", "-i", "50ms", "-o", "a.tide", "--",
                    "/usr/bin/python3", script)
    assert done.code == 0, done.err
    first = tidemark("blame", "--json", "a.tide").json["culprits"][0]
    line = next(n for n, text in enumerate(script.read_text().split("\n"), 1) if "# LEAK" in text)
    assert first["kind"] == "pool"
    assert line in [f["line"] for f in first["frames"] if f["function"] == "train_step"]
    truth = 1000 * 56
    assert abs(first["bytes_per_step"] / truth - 1) < 0.25 or first["bytes_per_step_low"] <= truth <= first["bytes_per_step_high"]


def test_a_program_without_an_interpreter_is_not_troubled(tidemark, tmp_path):
    assert tidemark("run", "--python-objects", "-o", "a.tide", "--", "true").code == 0


def test_the_help_says_what_it_costs(tidemark):
    text = " ".join(tidemark("help", "run").out.split())
    assert "--python-objects" in text and "%" in text[text.index("--python-objects"):]
