"""How a Python program ends with the hook in it: as without it, although threads go on to allocate whose states in the
interpreter are freed under them."""

import collections
import os
import shutil
import subprocess

import pytest

from interpreters import INTERPRETERS

pytestmark = pytest.mark.unsanitized  # the hook never is

TIMES = 1000 if os.environ.get("TIDEMARK_LONG") == "1" else 4

# Threads that never end allocate without the interpreter's lock; once all are at it, the program ends, and the destructor of
# an object in some module takes all the memory that was freed until then, and fills it.
LIBRARY = r"""
    #include <stdatomic.h>
    #include <stdlib.h>
    #include <string.h>
    #include <time.h>
    static atomic_int inside;
    int busy(void) { return inside; }
    void churn(long times)
    {
        inside++;
        while (times--) {
            volatile char *p = malloc(200000);
            p[0] = 1;
            free((void *)p);
        }
    }
    void fill(long ns)
    {
        for (size_t size = 16; size < 4096; size += 16)
            for (int i = 0; i < 10; i++)
                memset(malloc(size), 'A', size);
        nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
    }
"""
ENDS = """
import ctypes, sys, threading, types
library = ctypes.CDLL(sys.argv[1])
class Late:
    def __del__(self, fill=library.fill):
        fill(5000000)
sys.modules["late"] = types.ModuleType("late")
sys.modules["late"].it = Late()
for _ in range(4):
    threading.Thread(target=library.churn, args=[10**9], daemon=True).start()
while library.busy() < 4:
    pass
print("done", flush=True)
"""
ENDS_NUMPY = """
import sys, threading, time, types
import numpy
class Late:
    def __del__(self, ones=numpy.ones, range=range):
        self.kept = [ones(25 + i % 120) for i in range(20000)]
sys.modules["late"] = types.ModuleType("late")
sys.modules["late"].it = Late()
inside = []
def work():
    square = numpy.ones((40, 40))
    inside.append(1)
    while True:
        numpy.linalg.eigvals(square)
        numpy.add(numpy.ones(50000), numpy.ones(50000))
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
while len(inside) < 4:
    time.sleep(0)
print("done", flush=True)
"""
WORKS = """
import ctypes, os, sys, threading
library = ctypes.CDLL(sys.argv[1])
def inner():
    library.churn(300)
def outer():
    inner()
def all_threads():
    threads = [threading.Thread(target=outer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
def forks():
    child = os.fork()
    if not child:
        outer()
        all_threads()
        os._exit(0)
    os.waitpid(child, 0)
outer()
all_threads()
forker = threading.Thread(target=forks)
forker.start()
forker.join()
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ends")
    (folder / "churn.c").write_text(LIBRARY)
    subprocess.run(["cc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", folder / "churn.so", folder / "churn.c"], check=True)
    return folder / "churn.so"


@pytest.fixture
def ends(run, build, tmp_path):
    """ends(argv..., times=n) -> how often the program ended how: {(code, stdout, stderr): times}, with the hook in it."""

    def call(*argv, times, hooked=True):
        channel = tmp_path / "channel"
        found = collections.Counter()
        for _ in range(times):
            shutil.rmtree(channel, ignore_errors=True)
            channel.mkdir(mode=0o700)
            done = run(*argv, env={"LD_PRELOAD": build / "libtidemark-hook.so", "TIDEMARK_CHANNEL": str(channel),
                                   "TIDEMARK_HEAP": "524288"} if hooked else {})
            found[done.code, done.out, done.err] += 1
        return found

    return call


@pytest.mark.parametrize("python", INTERPRETERS)
def test_threads_whose_states_are_freed_do_no_harm(ends, python, library, script):
    program = script(ENDS)
    assert ends(python, program, library, times=2, hooked=False) == {(0, "done\n", ""): 2}
    assert ends(python, program, library, times=TIMES) == {(0, "done\n", ""): TIMES}


def test_threads_in_numpy_do_no_harm(ends, run, script):
    if run("/usr/bin/python3", "-c", "import numpy").code:
        pytest.skip("no NumPy")
    program = script(ENDS_NUMPY)
    assert ends("/usr/bin/python3", program, times=TIMES) == {(0, "done\n", ""): TIMES}


@pytest.mark.parametrize("python", INTERPRETERS)
def test_threads_without_the_lock_are_seen_with_their_python_frames(hooked, python, library, script):
    program = script(WORKS)
    done, found = hooked(python, program, library)
    assert len(found) == 2
    for table in found.values():
        churned = [s for s in table.sites if s.total_blocks and any(f[1].path == str(library) for f in s.frames
                                                                    if not isinstance(f[0], str) and f[1])]
        named = [[name.split(".")[-1] for _, name, _ in s.python] for s in churned]
        assert named and all(names[:2] == ["inner", "outer"] for names in named)
        assert sum(s.total_blocks for s in churned) == 5 * 300
        threads = ["_bootstrap" in names for names in named]
        assert any(threads) and all(threads) is (table.pid != done.pid)  # the child was forked by a thread
        assert table.counters["python_failed"] == 0
