"""The moments at which interposers deadlock or crash, each lived through many times with every allocation recorded.

A mode of tests/hook/faults.c that does not end is a deadlock, one that ends with a signal a crash; afterwards the tables must
hold nothing that was freed. Ten times each in make check, two hundred times in make check-long.
"""

import os
import shutil
import subprocess

import pytest

from heap_table import tables

pytestmark = pytest.mark.slow  # the hook and a sanitizer's allocator exclude each other

TIMES = 200 if os.environ.get("TIDEMARK_LONG") == "1" else 10
MIB = 1 << 20
PLUGIN = """
    #include <stdlib.h>
    static void *volatile kept;
    __attribute__((constructor)) static void begin(void) { kept = malloc(150000); free(kept); }
    __attribute__((destructor)) static void end(void) { kept = malloc(150000); free(kept); }
    void *plugin_churn(size_t bytes) { kept = malloc(bytes); void *p = kept; free(kept); return p; }
"""


@pytest.fixture
def endure(build, tmp_path, env):
    """endure(mode, argument, interval=bytes, times=n) runs a mode that often; yields nothing, fails on the first that does not
    end with 0 in a minute. Returns the tables of the last."""

    def call(mode, argument="", interval=1, times=TIMES, program=None):
        channel = tmp_path / "channel"
        for n in range(times):
            shutil.rmtree(channel, ignore_errors=True)
            channel.mkdir(mode=0o700)
            done = subprocess.run([program or build / "hook-targets/faults", mode, argument], capture_output=True, text=True,
                                  timeout=60, check=False, cwd=tmp_path,
                                  env={**env, "LD_PRELOAD": str(build / "libtidemark-hook.so"), "TIDEMARK_CHANNEL": str(channel),
                                       "TIDEMARK_HEAP": str(interval)})
            assert done.returncode == 0, f"time {n + 1}: {done.stderr}"
        return tables(channel)

    return call


@pytest.mark.parametrize("interval", [1, 524288])
@pytest.mark.parametrize("mode", ["attributes", "handlers", "destructors", "before", "exits", "forks", "spawns", "threads",
                                  "cancels", "coroutines", "descriptors"])
def test_the_program_comes_to_no_harm(endure, mode, interval):
    found = endure(mode, interval=interval)
    assert found and all(t.state == "on" for t in found.values())
    for table in found.values():
        assert all(s.live_bytes >= 0 and s.live_blocks >= 0 for s in table.sites)


def test_libraries_come_and_go_while_others_allocate(endure, tmp_path):
    (tmp_path / "plugin.c").write_text(PLUGIN)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", tmp_path / "plugin.so", tmp_path / "plugin.c"], check=True)
    table, = endure("loads", str(tmp_path / "plugin.so")).values()
    assert any(m.path == str(tmp_path / "plugin.so") for m in table.modules)


def test_a_program_that_execs_while_its_threads_allocate(endure):
    found = endure("execs", "5")
    assert sorted(image for _, image in found) == list(range(6))


@pytest.mark.parametrize("mode", ["destructors", "threads", "handlers", "coroutines", "cancels"])
def test_what_was_freed_in_odd_places_is_gone(endure, mode):
    """All that these modes make they free, but for a few hundred bytes of each thread's last data."""
    table, = endure(mode, times=3).values()
    assert table.counters["lost_frees"] == 0 and table.counters["dropped_sites"] == 0
    assert table.live() <= 2 * MIB, [(s.live_bytes, s.frames) for s in table.sites if s.live_bytes > 100000]


def test_java_runs(endure, tmp_path):
    """A machine whose threads begin by asking for their stack, that maps its heap itself and makes code at run time."""
    java = shutil.which("java")
    if not java:
        pytest.skip("no java")
    (tmp_path / "Hold.java").write_text("public class Hold { public static void main(String[] a) { byte[] b = new byte[50000000];"
                                        " System.out.println(b.length); } }")
    found = endure(str(tmp_path / "Hold.java"), times=2, program=java, interval=524288)
    assert any(t.sites for t in found.values())
