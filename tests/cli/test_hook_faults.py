"""The moments at which interposers deadlock or crash, each lived through many times with every allocation recorded.

A mode of tests/hook/faults.c that does not end is a deadlock, one that ends with a signal a crash; afterwards the tables must
hold nothing that was freed. Three times each in make check, and a hundred times more in make check-long.
"""

import pathlib
import shutil
import subprocess

import pytest

from heap_table import tables

pytestmark = pytest.mark.unsanitized  # the hook never is

TIMES, TIMES_LONG = 2, 100
MODES = ["attributes", "before", "exits", "forks", "spawns", "descriptors"]
FREE_ALL = ["destructors", "threads", "handlers", "coroutines", "cancels"]
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
    """endure(mode, argument, interval=bytes, times=n) runs a mode that often, and fails at the first that does not
    end with 0 in a minute. Returns the tables of the last."""

    def call(mode, argument="", interval=1, times=TIMES, program=None, preload=None):
        channel = tmp_path / "channel"
        for n in range(times):
            shutil.rmtree(channel, ignore_errors=True)
            channel.mkdir(mode=0o700)
            done = subprocess.run([program or build / "hook-targets/faults", mode, argument], capture_output=True, text=True,
                                  timeout=60, check=False, cwd=tmp_path,
                                  env={**env, "LD_PRELOAD": preload or str(build / "libtidemark-hook.so"),
                                       "TIDEMARK_CHANNEL": str(channel), "TIDEMARK_HEAP": str(interval)})
            assert done.returncode == 0, f"time {n + 1}: {done.stderr}"
        return tables(channel)

    return call


def is_sane(found):
    return bool(found) and all(t.state == "on" and all(s.live_bytes >= 0 and s.live_blocks >= 0 for s in t.sites) for t in found.values())


@pytest.mark.parametrize("mode", MODES)
def test_the_program_comes_to_no_harm(endure, mode):
    assert is_sane(endure(mode))


@pytest.mark.parametrize("mode", FREE_ALL)
def test_nor_does_one_that_frees_all_in_odd_places_and_nothing_stays(endure, mode):
    """But for a few hundred bytes of each thread's last data."""
    found = endure(mode)
    assert is_sane(found)
    table, = found.values()
    assert table.counters["lost_frees"] == 0 and table.counters["dropped_sites"] == 0
    assert table.live() <= 2 * MIB, [(s.live_bytes, s.frames) for s in table.sites if s.live_bytes > 100000]


def test_no_free_is_lost_to_a_handler_at_any_instruction(endure):
    found = endure("steps", times=1)
    assert is_sane(found)
    table, = found.values()
    assert table.counters["lost_frees"] == 0
    assert all(s.live_bytes == 0 for s in table.sites if s.total_blocks > 100), [(s.live_bytes, s.frames) for s in table.sites]


@pytest.mark.long
@pytest.mark.parametrize("mode", [*MODES, *FREE_ALL, "steps"])
def test_nor_do_they_when_few_allocations_are_recorded(endure, mode):
    assert is_sane(endure(mode, interval=524288))


@pytest.mark.long
@pytest.mark.parametrize("mode", [*MODES, *FREE_ALL, "steps"])
def test_nor_do_they_in_the_long_run(endure, mode):
    assert endure(mode, times=TIMES_LONG)


def test_libraries_come_and_go_while_others_allocate(endure, tmp_path):
    (tmp_path / "plugin.c").write_text(PLUGIN)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", tmp_path / "plugin.so", tmp_path / "plugin.c"], check=True)
    table, = endure("loads", str(tmp_path / "plugin.so")).values()
    assert any(m.path == str(tmp_path / "plugin.so") for m in table.modules)


def test_a_program_that_execs_while_its_threads_allocate(endure):
    found = endure("execs", "5")
    assert sorted(image for _, image in found) == list(range(6))


def test_what_was_handed_out_before_the_real_malloc_was_known_can_be_freed(endure, build):
    symbols = subprocess.run(["nm", build / "libtidemark-hook.so"], capture_output=True, text=True, check=True).stdout
    at = {line.split()[2]: int(line.split()[0], 16) for line in symbols.splitlines() if len(line.split()) == 3}
    table, = endure("early", str(at["bootstrap"] - at["malloc"]), times=1).values()
    assert table.counters["lost_frees"] == 0


@pytest.mark.long
def test_java_runs(endure, tmp_path):
    """A machine whose threads begin by asking for their stack, that maps its heap itself and makes code at run time."""
    java = shutil.which("java")
    if not java:
        pytest.skip("no java")
    (tmp_path / "Hold.java").write_text("public class Hold { public static void main(String[] a) { byte[] b = new byte[50000000];"
                                        " System.out.println(b.length); } }")
    found = endure(str(tmp_path / "Hold.java"), times=2, program=java, interval=524288)
    assert any(t.sites for t in found.values())


LOCKED = """
    #include <pthread.h>
    #include <stdatomic.h>
    #include <stddef.h>
    #include <string.h>
    #include <sys/mman.h>
    /* Takes a mapping for each block and holds its lock, which is not recursive, around that: what the C library allocates on
     * behalf of somebody in front of mmap would wait for ever. */
    static atomic_flag locked = ATOMIC_FLAG_INIT;
    void *malloc(size_t n)
    {
        while (atomic_flag_test_and_set(&locked))
            continue;
        size_t whole = (n + 16 + 4095) & ~(size_t)4095;
        char *p = mmap(NULL, whole + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(p, whole, PROT_READ | PROT_WRITE);
        *(size_t *)p = whole + 4096;
        atomic_flag_clear(&locked);
        return p + 16;
    }
    void free(void *p)
    {
        if (!p)
            return;
        while (atomic_flag_test_and_set(&locked))
            continue;
        munmap((char *)p - 16, *(size_t *)((char *)p - 16));
        atomic_flag_clear(&locked);
    }
    void *calloc(size_t n, size_t s) { return malloc(n * s); }
    void *realloc(void *p, size_t n)
    {
        void *q = malloc(n);
        size_t had = p ? *(size_t *)((char *)p - 16) - 4096 - 16 : 0;
        memcpy(q, p ? p : q, had < n ? had : n);
        free(p);
        return q;
    }
    static void *work(void *argument)
    {
        for (int i = 0; i < 50; i++)
            free(realloc(malloc(3000), 9000));
        return argument;
    }
    int main(void)
    {
        for (int i = 0; i < 20; i++) {
            pthread_t threads[4];
            for (int k = 0; k < 4; k++)
                pthread_create(&threads[k], NULL, work, NULL);
            for (int k = 0; k < 4; k++)
                pthread_join(threads[k], NULL);
        }
        return 0;
    }
"""


def test_an_allocator_that_maps_under_its_own_lock(endure, tmp_path):
    """Chromium's is one. Its mappings are seen with their whole stacks, in threads that never call the C library's malloc."""
    (tmp_path / "locked.c").write_text(LOCKED)
    subprocess.run(["cc", "-O1", "-g", "-rdynamic", "-fno-builtin", "-fno-optimize-sibling-calls", "-o", tmp_path / "locked",
                    tmp_path / "locked.c", "-lpthread"], check=True)
    table, = endure("", program=tmp_path / "locked").values()
    assert table.state == "replaced"
    made = [s for s in table.sites if s.total_blocks >= 4000]
    assert made and all(len(s.frames) >= 3 and not s.truncated for s in made)
    assert sum(s.live_bytes for s in made) == 0


@pytest.mark.parametrize("hook_first", [True, False])
def test_a_preloaded_allocator(endure, build, tmp_path, hook_first):
    """jemalloc, as many preload it for training: behind the hook it serves what the hook sees, ahead of it it is told."""
    library = next(iter(sorted(pathlib.Path("/usr/lib").glob("*/libjemalloc.so.2"))), None)
    if not library:
        pytest.skip("no jemalloc")
    hook = build / "libtidemark-hook.so"
    pair = f"{hook} {library}" if hook_first else f"{library} {hook}"
    found = endure("threads", "5", program=build / "hook-targets/target", times=3, preload=pair)
    states = {t.state for t in found.values()}
    assert states == ({"own new"} if hook_first else {"replaced"})  # jemalloc has an operator new
    assert all(s.live_bytes >= 0 for t in found.values() for s in t.sites)
    assert hook_first is any(s.kind == "malloc" for t in found.values() for s in t.sites)
