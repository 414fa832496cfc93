"""A program that tells the hook about its own pools (tidemark.h): whose bytes they are, that none is counted twice, and
that it comes to no harm with or without a hook, however it is built and whatever it says."""

import math
import os
import shutil
import subprocess

import pytest
from heap_table import family, symbols

pytestmark = pytest.mark.unsanitized  # the hook never is

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture
def pools(hooked, build):
    """pools(mode, argument...) -> the one table it left."""

    def call(*arguments, **more):
        _, found = hooked(build / "hook-targets/pools", *arguments, **more)
        assert len(found) == 1
        return next(iter(found.values()))

    return call


def functions(site):
    """Names of the program's own functions in a stack, innermost first."""
    first = next((m for _, m in site.frames if m), None)
    if not first:
        return []
    return symbols(first.path, [hex(address - 1 - m.base) for address, m in site.frames if m == first])


def pooled(table, function):
    return [s for s in table.sites if s.kind == "pool" and function in functions(s)]


def behind(table):
    """The sites of the chunks themselves."""
    return [s for s in table.sites if s.kind != "pool" and "chunk_new" in functions(s)]


@pytest.mark.parametrize("source, kind", [("malloc", "malloc"), ("mmap", "mmap")])
def test_a_block_belongs_to_the_user_and_not_to_the_chunk(pools, source, kind):
    table = pools("blocks", 30, 200 * KIB, MIB, source)  # 5 in a chunk
    user, = pooled(table, "hold_blocks")
    assert (user.live_bytes, user.live_blocks) == (30 * 200 * KIB, 30)
    assert functions(user)[:4] == ["arena_alloc", "hold_blocks", "blocks", "main"]
    chunk, = behind(table)
    assert chunk.kind == kind
    assert (chunk.live_bytes, chunk.live_blocks, chunk.total_bytes) == (6 * (MIB - 1000 * KIB), 6, 6 * MIB)


@pytest.mark.parametrize("chunk", [32 * KIB, 4 * MIB])
def test_small_blocks_and_small_chunks_leave_nothing_over(pools, chunk):
    """Over many seeds, what users hold is unbiased; together with their chunks it is exact for every single seed."""
    count, size, interval, seeds = 8000, 1000, 65536, 150 if os.environ.get("TIDEMARK_LONG") == "1" else 25
    whole = -(-count // (chunk // size)) * chunk
    held = []
    for seed in range(1001, 1001 + seeds):
        table = pools("blocks", count, size, chunk, "malloc", interval=interval, seed=seed)
        users, chunks = pooled(table, "hold_blocks"), behind(table)
        held.append(sum(s.live_bytes for s in users))
        assert sum(s.live_bytes for s in users + chunks) == whole
    p = 1 - math.exp(-size / interval)
    error = size * math.sqrt(count * (1 - p) / p / seeds)
    assert abs(sum(held) / seeds - count * size) < 2 * error


@pytest.mark.parametrize("source", ["malloc", "mmap"])
@pytest.mark.parametrize("size, interval", [(200 * KIB, 524288), (100, 4096)])
def test_blocks_end_with_their_chunk(pools, source, size, interval):
    table = pools("blocks", 20000 if size == 100 else 40, size, MIB, source, "release", interval=interval)
    assert pooled(table, "hold_blocks")
    for site in pooled(table, "hold_blocks") + behind(table):
        assert (site.live_bytes, site.live_blocks) == (0, 0) and site.total_bytes > 0


@pytest.mark.parametrize("interval", [524288, 4096])
def test_what_is_cleared_at_once_is_gone(pools, interval):
    table = pools("cleared", interval=interval)
    passed = pooled(table, "pass_blocks")
    assert sum(s.live_bytes for s in passed) == 0 and sum(s.live_blocks for s in passed) == 0
    assert 0.8 < sum(s.total_bytes for s in passed) / 200e6 < 1.2
    assert sum(s.live_bytes for s in pooled(table, "hold_blocks")) == 300 * KIB
    assert sum(s.live_bytes for s in behind(table)) == 2 * MIB - 300 * KIB


def test_blocks_that_come_back_one_by_one_or_are_told_again(pools):
    table = pools("single")
    live = sorted((s.live_bytes, s.live_blocks) for s in table.sites if s.kind == "pool" and s.live_bytes)
    assert live == [(150 * KIB, 1), (200 * KIB, 1)]
    assert sum(s.live_bytes for s in behind(table)) == 4 * MIB - 350 * KIB


@pytest.mark.parametrize("interval", [524288, 1])
def test_whatever_a_program_says_is_harmless(pools, interval):
    table = pools("hostile", interval=interval)
    # A chunk that nobody allocated cannot be freed either; all that is real is gone.
    assert all(s.live_bytes == 0 for s in table.sites if s.kind == "pool")
    assert sum(s.live_bytes for s in table.sites if "hostile" in functions(s)) == 8 * MIB
    assert table.counters["lost_frees"] == 0


def test_a_child_knows_nothing_of_inherited_chunks(hooked, build):
    parent, (child,) = family(*hooked(build / "hook-targets/pools", "forked"))
    assert child.live("pool") == MIB and child.live("malloc") <= 64 * KIB
    assert parent.live("pool") == 5 * MIB and sum(s.live_bytes for s in behind(parent)) == 3 * MIB


@pytest.mark.parametrize("interval", [524288, 8192])
def test_threads_with_arenas_and_forks(hooked, build, interval):
    parent, _ = family(*hooked(build / "hook-targets/pools", "threads", "10", interval=interval, timeout=60))
    assert parent.counters["lost_frees"] == 0 and parent.counters["dropped_pointers"] == 0
    assert all((s.live_bytes, s.live_blocks) == (0, 0) for s in pooled(parent, "work") + behind(parent))
    assert pooled(parent, "work")


# ---- blame


def culprits(tidemark, tmp_path, *argv):
    done = tidemark("run", "--heap", "-i", "50ms", "-o", "run.tide", "--", *argv)
    assert done.code == 0, done.err
    got = tidemark("blame", "--json", tmp_path / "run.tide")
    assert got.code == 1, got.err
    return got.json["culprits"]


def names(culprit):
    return [f["function"] for f in culprit["frames"]]


def command(build, language, fault, steps=250):
    if language == "c":
        return [build / "hook-targets/pools", "training", fault, str(steps)]
    program = build / "hook-targets/arenas"
    if not program.exists():
        pytest.skip("no C++ compiler")
    return [program, fault, str(steps)]


@pytest.mark.parametrize("language, guilty", [("c", "chunk_new"), ("c++", "train::Arena::grow()")])
def test_an_arena_that_loses_its_chunks_is_blamed_where_it_makes_them(tidemark, build, tmp_path, language, guilty):
    found = culprits(tidemark, tmp_path, *command(build, language, "orphaned"))
    first = found[0]
    assert first["kind"] == "malloc" and guilty in names(first)
    assert abs(first["bytes_per_step"] / MIB - 1) < 0.05 and first["share"] > 0.9
    assert not any(c["kind"] == "pool" and c["share"] for c in found)


@pytest.mark.parametrize("language, guilty", [("c", "log_loss"), ("c++", "train::remember(train::Arena&)")])
def test_a_user_that_keeps_its_blocks_is_blamed_and_not_the_arena(tidemark, build, tmp_path, language, guilty):
    # Long enough that tables which are read late on a busy machine, by half a second, tell the rate.
    found = culprits(tidemark, tmp_path, *command(build, language, "kept", 600))
    first = found[0]
    assert first["kind"] == "pool" and guilty in names(first)
    assert abs(first["bytes_per_step"] / 150_000 - 1) < 0.05
    assert sum(c["share"] or 0 for c in found) <= 1.1
    # A chunk keeps what its blocks leave over, 146 KB of each MiB.
    assert all((c["bytes_per_step"] or 0) < 30_000 for c in found[1:])


# ---- however it is built

PROGRAM = r"""
#include <tidemark.h>
#include <stdio.h>
#include <stdlib.h>
static char *chunk;
void hand_out(void) { tide_pool_alloc(chunk + 4096, 300000); }
int main(void)
{
    chunk = (char *)malloc(1 << 20);
    tide_pool_chunk(chunk, 1 << 20);
    hand_out();
    tide_pool_alloc(chunk, 200000);
    tide_pool_free(chunk);
    tide_pool_alloc(chunk, 250000);
    tide_pool_clear(chunk, 4096);
    MARK
    int told = 0;
    tide_pool_free((told = 1, (void *)0));
    puts(told ? "told" : "alone");
    return 0;
}
"""


def built(tmp_path, root, compiler, flags, libraries=(), mark="", suffix="c"):
    code = tmp_path / f"program.{suffix}"
    code.write_text(PROGRAM.replace("MARK", mark))
    subprocess.run([compiler, "-I", root / "include", *flags, "-o", tmp_path / "program", code, *libraries], check=True)
    return tmp_path / "program"


def is_told(hooked, run, program, env=None):
    assert run(program, env=env or {}).out == "alone\n"
    result, found = hooked(program, env=env)
    assert result.out == "told\n"
    table = next(iter(found.values()))
    assert table.live("pool") == 300000
    assert sum(s.live_bytes for s in table.sites if s.kind == "malloc" and s.total_bytes == MIB) == MIB - 300000


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld"])
@pytest.mark.parametrize("flags", [["-O0"], ["-O2"], ["-O2", "-fno-pie", "-no-pie"], ["-O0", "-fno-pie", "-no-pie"],
                                   ["-O2", "-fno-plt", "-Wl,-z,now"]], ids=" ".join)
@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++"])
def test_nothing_needs_linking(hooked, run, root, tmp_path, compiler, flags, linker):
    if not shutil.which(compiler) or not shutil.which(f"ld.{linker}"):
        pytest.skip(f"no {compiler} or no {linker}")
    flags = [*flags, f"-fuse-ld={linker}", "-Wall", "-Wextra", "-Werror", "-Wpedantic"]
    is_told(hooked, run, built(tmp_path, root, compiler, flags, suffix="cc" if compiler == "g++" else "c"))


@pytest.mark.parametrize("flags", [[], ["-fno-pie", "-no-pie"]], ids=["pie", "no-pie"])
@pytest.mark.parametrize("library", ["archive", "shared", "as needed"])
def test_the_library_of_marks_changes_nothing(hooked, run, root, build, tmp_path, library, flags):
    libraries = {"archive": [build / "libtidemark.a"], "shared": ["-L", build, "-Wl,-rpath," + str(build), "-ltidemark"],
                 "as needed": ["-Wl,--as-needed", "-L", build, "-Wl,-rpath," + str(build), "-ltidemark"]}[library]
    is_told(hooked, run, built(tmp_path, root, "cc", flags, libraries, mark="tide_step(1);"))


@pytest.mark.parametrize("env", [{"TIDEMARK_CHANNEL": ""}, {"TIDEMARK_HEAP": ""}, {"TIDEMARK_CHANNEL": "/nowhere/at/all"}])
def test_a_hook_without_a_tracker_listens_and_does_nothing(hooked, build, env):
    for mode in (["hostile"], ["blocks", "100", "1000", str(MIB), "malloc", "release"], ["forked"], ["threads", "3"]):
        _, found = hooked(build / "hook-targets/pools", *mode, env=env)
        assert not found


def test_a_static_program_runs_alone(hooked, root, tmp_path):
    program = built(tmp_path, root, "cc", ["-static"])
    result, found = hooked(program)
    assert result.out == "alone\n" and not found


def test_a_library_that_is_opened_later(hooked, root, tmp_path):
    (tmp_path / "pool.c").write_text("""
        #include <tidemark.h>
        #include <stdlib.h>
        void run(void) { char *p = malloc(1 << 20); tide_pool_chunk(p, 1 << 20); tide_pool_alloc(p + 64, 300000); }""")
    (tmp_path / "opener.c").write_text("""
        #include <dlfcn.h>
        int main(int n, char **v) { void *p = dlopen(v[1], RTLD_NOW | RTLD_LOCAL);
            void (*f)(void) = (void (*)(void))dlsym(p, "run"); (void)n; f(); return 0; }""")
    subprocess.run(["cc", "-shared", "-fPIC", "-I", root / "include", "-o", tmp_path / "pool.so", tmp_path / "pool.c"], check=True)
    subprocess.run(["cc", "-o", tmp_path / "opener", tmp_path / "opener.c", "-ldl"], check=True)
    _, found = hooked(tmp_path / "opener", tmp_path / "pool.so")
    assert next(iter(found.values())).live("pool") == 300000


def test_python_says_it_with_ctypes(hooked, run, tmp_path):
    script = tmp_path / "arena.py"
    script.write_text("""
import ctypes, mmap, os
tidemark = ctypes.CDLL(None)
arena = mmap.mmap(-1, 1 << 20)
start = ctypes.addressof(ctypes.c_char.from_buffer(arena))
def hand_out(offset, size):
    if hasattr(tidemark, "tide_pool_alloc"):
        tidemark.tide_pool_alloc(ctypes.c_void_p(start + offset), ctypes.c_size_t(size))
hand_out(100, 400000)
print(hasattr(tidemark, "tide_pool_alloc"), flush=True)
os._exit(0)
""")
    assert run("/usr/bin/python3", script).out == "False\n"
    result, found = hooked("/usr/bin/python3", script)
    assert result.out == "True\n"
    site, = [s for s in next(iter(found.values())).sites if s.kind == "pool"]
    assert site.live_bytes == 400000
    assert [(f[1], f[2]) for f in site.python] == [("hand_out", 8), ("<module>", 9)]
