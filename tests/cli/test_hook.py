"""The hook alone, preloaded into programs: what its table says afterwards, and that the programs come to no harm.

The table is read by heap_table.py. Programs are tests/hook/*, built by make; plugins and odd builds are made here.
"""

import math
import os
import pathlib
import shutil
import subprocess

import pytest

from heap_table import Table, family, symbols, tables
from interpreters import INTERPRETERS

pytestmark = pytest.mark.unsanitized  # the hook never is


MIB = 1 << 20
EARLY = 6 * MIB  # what the constructor of target.c holds


@pytest.fixture
def target(hooked, build):
    """target(mode, argument...) -> the one table it left."""

    def call(*arguments, **more):
        _, found = hooked(build / "hook-targets/target", *arguments, **more)
        assert len(found) == 1
        return next(iter(found.values()))

    return call


def compile_c(tmp_path, name, source, *flags, compiler="cc"):
    code = tmp_path / f"{name}.c"
    code.write_text(source)
    subprocess.run([compiler, "-O1", "-o", tmp_path / name, code, *flags], check=True)
    return tmp_path / name


def names(build, site):
    """Functions of the target in a stack, innermost first."""
    path = str(build / "hook-targets/target")
    return symbols(path, [hex(a - 1 - m.base) for a, m in site.frames if m and m.path == path])


def test_a_large_block_is_exact(target, build):
    table = target("big")
    assert table.state == "on" and table.python == "none"
    big = [s for s in table.sites if s.live_bytes == 512 * MIB]
    assert len(big) == 1 and big[0].live_blocks == 1
    assert names(build, big[0])[:3] == ["hold", "big", "main"] and not big[0].truncated
    assert table.live() - 512 * MIB <= EARLY + MIB


def test_modules_name_file_base_and_build_id(target, build):
    table = target("big")
    program = [m for m in table.modules if m.path == str(build / "hook-targets/target")]
    assert len(program) == 1
    notes = subprocess.run(["readelf", "-n", program[0].path], capture_output=True, text=True, check=True).stdout
    assert program[0].build_id and program[0].build_id in notes
    assert program[0].start <= program[0].base + 4096 < program[0].end


def test_every_way_to_allocate_is_seen(target, build):
    table = target("ways")
    live = [s for s in table.sites if "get" in names(build, s)]
    # 11 ways and one whose realloc failed; what was freed is gone.
    assert sum(s.live_bytes for s in live) == 12 * MIB
    assert sum(s.live_blocks for s in live) == 12
    assert all(s.live_bytes in (0, MIB, 2 * MIB) for s in live)


@pytest.mark.parametrize("mode, live, pieces, maker", [
    ("shared", 6, 1, "shared"), ("cut", 4, 3, "map"), ("across", 2, 2, "overlay"), ("overlaid", 6, 4, None),
    ("grown", 5, 1, "move"), ("shrunk", 1, 1, "move"), ("moved_over", 3, 1, "move"), ("not_moved", 2, 1, "map"),
    ("reserved", 0, 0, None), ("small_noreserve", 8, 1, "map"), ("opened", 3, 1, "commit"),
    ("opened_by_overlay", 2, 1, "overlay"), ("closed", 2, 2, "commit"), ("moved_reservation", 1, 1, "commit"),
    ("not_moved_in_part", 3, 2, None), ("moved_in_part", 2, 1, "move"), ("not_moved_many", 8, 8, "overlay"),
    ("dropped", 16, 1, "map")])
def test_mappings(hooked, build, mode, live, pieces, maker):
    """Cut, overlaid, moved, reserved, opened and closed: what is live at the end, and where it was made."""
    program = build / "hook-targets/mappings"
    result, found = hooked(program, mode)
    table = next(iter(found.values()))
    mapped = [s for s in table.sites if s.kind == "mmap"]
    assert (sum(s.live_bytes for s in mapped), sum(s.live_blocks for s in mapped)) == (live * MIB, pieces)
    assert table.counters["dropped_pointers"] == (2 if mode == "not_moved_many" else 0)
    assert all(s.live_bytes >= 0 and s.live_blocks >= 0 for s in mapped)
    for site in mapped:
        if site.live_bytes and maker:
            assert symbols(str(program), [hex(site.frames[0][0] - 1 - site.frames[0][1].base)]) == [maker]
    if mode == "dropped":
        assert result.out == "0\n"


def test_samples_are_unbiased(target):
    """40 fixed seeds: the mean of live bytes and blocks is within two standard errors of the truth, and the spread is what
    the theory says."""
    count, size, interval, seeds = 5000, 1000, 65536, 40
    bytes_seen, blocks_seen = [], []
    for seed in range(1, seeds + 1):
        table = target("many", count, size, interval=interval, seed=seed)
        site = [s for s in table.sites if s.live_blocks > 100]
        bytes_seen.append(sum(s.live_bytes for s in site))
        blocks_seen.append(sum(s.live_blocks for s in site))
    p = 1 - math.exp(-size / interval)
    deviation = size * math.sqrt(count * (1 - p) / p)
    error = deviation / math.sqrt(seeds)
    assert abs(sum(bytes_seen) / seeds - count * size) < 2 * error
    assert abs(sum(blocks_seen) / seeds - count) < 2 * error / size
    spread = math.sqrt(sum((b - count * size) ** 2 for b in bytes_seen) / seeds)
    assert 0.7 * deviation < spread < 1.3 * deviation


@pytest.mark.long
def test_each_site_of_a_mixture_is_unbiased(target, build):
    """30 fixed seeds, five sites whose blocks are of sizes from 16 bytes to 100,000, in turns: each site's mean is within two
    standard errors of what it holds, and the largest is exact."""
    interval, seeds = 65536, 30
    every = {16: 1, 100: 6, 1000: 62, 10000: 625, 100000: 6250}
    seen = {size: [] for size in every}
    for seed in range(1, seeds + 1):
        table = target("mixed", interval=interval, seed=seed)
        live = dict.fromkeys(every, 0)
        for site in table.sites:
            inner = names(build, site)[:1]
            if inner and inner[0].startswith("hold_"):
                live[int(inner[0][5:])] += site.live_bytes
        for size, held in live.items():
            seen[size].append(held)
    for size, values in seen.items():
        count = -(-250000 // every[size])
        p = 1 if size >= interval // 4 else 1 - math.exp(-size / interval)
        error = size * math.sqrt(count * (1 - p) / p / seeds)
        assert abs(sum(values) / seeds - count * size) <= 2 * error, (size, values)


def test_a_seed_makes_runs_equal(target):
    first, second = (target("many", 20000, 500, seed=7) for _ in range(2))
    values = [[(s.live_bytes, s.total_bytes) for s in t.sites] for t in (first, second)]
    assert values[0] == values[1] and first.counters["sampled"] > 10


def test_a_child_starts_its_own_table(hooked, build):
    parent, (child,) = family(*hooked(build / "hook-targets/target", "forked"))
    assert child.live() == 3 * MIB  # what it inherited is forgotten, and its free harmless
    assert 5 * MIB + EARLY <= parent.live()
    assert all(s.live_bytes >= 0 for t in (parent, child) for s in t.sites)
    assert [s.live_blocks for s in parent.sites if s.total_bytes == 2 * MIB] == [0]


def test_an_exec_begins_another_image(hooked, build):
    _, found = hooked(build / "hook-targets/target", "execed")
    assert sorted(image for _, image in found) == [0, 1]
    before, after = (t for _, t in sorted(found.items(), key=lambda item: item[0][1]))
    assert before.pid == after.pid and before.start == after.start
    assert before.live() == EARLY + 2 * MIB
    assert any(s.live_bytes == 512 * MIB for s in after.sites)


@pytest.mark.parametrize("round_", range(3))
def test_threads_that_fork_neither_hang_nor_leak(hooked, build, round_):
    del round_
    parent, children = family(*hooked(build / "hook-targets/target", "threads", "10", timeout=60))
    assert len(children) == 10
    assert parent.live() <= EARLY + 8 * MIB  # all handed blocks were freed; what is left is the C library's
    assert parent.counters["lost_frees"] == 0 and parent.counters["dropped_pointers"] == 0
    assert all(s.live_bytes >= 0 for s in parent.sites)


@pytest.mark.parametrize("stack", ["own", "alternative"])
def test_signal_handlers_may_map_while_the_hook_works(target, stack):
    for _ in range(3):
        table = target("interrupted", stack, timeout=60)
        assert table.live("mmap") <= 2 * MIB + 4096 * 16
        assert table.counters["lost_frees"] == 0


@pytest.mark.parametrize("stack", ["own", "alternative", "small"])
def test_a_stack_runs_through_a_signal_frame(target, build, stack):
    table = target("handled", stack)
    site = [s for s in table.sites if s.live_bytes == 3 * MIB]
    assert len(site) == 1 and not site[0].truncated
    found = names(build, site[0])
    assert found[0] == "allocate_in_handler" and found[1:4] == ["raise_here", "handled", "main"]


def test_a_jump_out_of_the_hook_does_not_end_recording(target):
    for _ in range(3):
        table = target("jumping", timeout=60)
        # After the jumps, 1000 blocks come and go.
        assert any(s.total_blocks >= 990 and s.live_blocks <= 1 for s in table.sites), table.counters


def test_allocations_at_the_ends_of_threads_and_the_program(target):
    table = target("ends")
    live = sorted(s.live_bytes for s in table.sites if s.live_bytes >= MIB)
    assert live == [EARLY, 7 * MIB]
    assert all(s.live_blocks == 0 for s in table.sites if s.total_bytes == 50 * 300000)


def test_libraries_come_and_go(target, tmp_path):
    source = """
        #include <stdlib.h>
        static void *volatile kept;
        __attribute__((constructor)) static void begin(void) { kept = malloc(1 << 20); free(kept); }
        void *plugin_hold(size_t bytes) { kept = malloc(bytes); return kept; }
    """
    plugin = compile_c(tmp_path, "plugin.so", source, "-shared", "-fPIC")
    table = target("loading", plugin)
    paths = [m.path for m in table.modules]
    assert str(plugin) in paths
    held = [s for s in table.sites if s.live_bytes >= 2 * MIB and any(m and m.path == str(plugin) for _, m in s.frames)]
    assert sum(s.live_bytes for s in held) == 40 * MIB and not any(s.truncated for s in held)
    # The constructor runs inside dlopen, before that returns.
    assert any(s.total_bytes >= MIB and s.frames[0][1] and s.frames[0][1].path == str(plugin) and not s.truncated
               for s in table.sites if s not in held)


def test_the_callers_runpath_still_counts_for_dlopen(hooked, tmp_path):
    """A library that is found through the RUNPATH of the library that opens it: a dlopen of our own in between would be
    the opener."""
    (tmp_path / "lib").mkdir()
    compile_c(tmp_path, "inner.so", "int inner = 1;", "-shared", "-fPIC")
    shutil.move(tmp_path / "inner.so", tmp_path / "lib/libinner.so")
    outer = compile_c(tmp_path, "outer.so", "#include <dlfcn.h>\nvoid *outer(void) { return dlopen(\"libinner.so\", RTLD_NOW); }",
                      "-shared", "-fPIC", "-Wl,-rpath,$ORIGIN/lib", "-ldl")
    program = compile_c(tmp_path, "opener", """
        #include <dlfcn.h>
        int main(int n, char **v) { (void)n; void *p = dlopen(v[1], RTLD_NOW);
            void *(*f)(void) = p ? (void *(*)(void))dlsym(p, "outer") : 0; return f && f() ? 0 : 1; }""", "-ldl")
    hooked(program, outer)


@pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")
def test_exceptions_and_containers(hooked, build):
    for _ in range(3):
        _, found = hooked(build / "hook-targets/throwing", timeout=60)
        table = next(iter(found.values()))
        assert [s.live_bytes for s in table.sites if s.live_bytes > 2 * MIB] == [4 * MIB]
        grown = next(s for s in table.sites if s.live_bytes == 4 * MIB)
        path = str(build / "hook-targets/throwing")
        own = [hex(a - 1 - m.base) for a, m in grown.frames if m.path == path]
        assert "_Z4growRSt6vectorIcSaIcEE" in symbols(path, own, "-i")


def test_errno_and_odd_sizes(target):
    table = target("odd")
    assert table.live() <= EARLY + MIB


def test_a_full_map_samples_more_coarsely_and_stays_small(hooked, build):
    result, found = hooked(build / "hook-targets/target", "flood", "1200000", interval=1024, timeout=120)
    table = next(iter(found.values()))
    assert table.counters["dropped_pointers"] > 0 and table.counters["coarsened"] >= 1
    assert table.interval == 1024 << table.counters["coarsened"] and table.exact == table.interval // 4
    assert table.counters["own_bytes"] <= 40 * MIB
    assert table.counters["lost_frees"] == 0
    # 1.2 million blocks of 272 bytes and the array of pointers, then at most 64 MiB + 2 % for the hook.
    heap = 1200000 * (272 + 8)
    assert int(result.out.split()[1]) * 1024 <= heap * 1.02 + 64 * MIB + EARLY
    held = [s for s in table.sites if s.live_bytes == 100 * MIB]
    assert len(held) == 1 and held[0].live_blocks == 100


@pytest.mark.parametrize("count, size, interval", [(2_000_000, 64, 524288), (2_000_000, 64, 16384), (20_000, 150 * 1024, 524288)],
                         ids=["small blocks", "small blocks, many samples", "large blocks"])
def test_the_hook_takes_little_memory(hooked, run, build, tmp_path, count, size, interval):
    """At most 64 MiB and 2 % of the heap, in the process and in its table; and its own count of it is true."""
    program = [build / "hook-targets/target", "heap", count, size]
    alone = int(run(*program).out.split()[1]) * 1024
    result, found = hooked(*program, interval=interval, timeout=120)
    table = next(iter(found.values()))
    more = int(result.out.split()[1]) * 1024 - alone
    file, = (tmp_path / "channel").glob("heap-*")
    file_bytes = file.stat().st_blocks * 512
    assert more + file_bytes <= 64 * MIB + 0.02 * count * size
    assert table.counters["own_bytes"] + file_bytes <= 64 * MIB + 0.02 * count * size
    assert more <= table.counters["own_bytes"] + file_bytes + MIB


@pytest.mark.long
def test_a_table_without_room_counts_what_it_drops(target, tmp_path):
    table = target("stacks", interval=1, timeout=120)
    file, = (tmp_path / "channel").glob("heap-*")
    assert table.counters["own_bytes"] + file.stat().st_blocks * 512 <= 64 * MIB
    assert len(table.sites) == 65536 and table.counters["dropped_sites"] >= 65535
    assert table.counters["lost_frees"] == 0


OWN_MALLOC = """
    #include <stddef.h>
    static char pool[1 << 20]; static size_t used;
    void *malloc(size_t n) { size_t at = used; used += (n + 15) & ~15ul; return pool + at; }
    void free(void *p) { (void)p; }
    void *calloc(size_t n, size_t s) { return malloc(n * s); }
    void *realloc(void *p, size_t n) { (void)p; return malloc(n); }
    int main(void) { return !malloc(100); }
"""
GAPS = ["-Wl,-z,max-page-size=0x200000", "-Wl,-z,separate-code"]  # between segments, as for large pages


@pytest.mark.parametrize("flags", [[], GAPS], ids=["close", "gaps"])
def test_a_program_with_its_own_malloc_is_told_apart(hooked, tmp_path, flags):
    program = compile_c(tmp_path, "own", OWN_MALLOC, "-rdynamic", "-fno-builtin", *flags)
    _, found = hooked(program)
    assert next(iter(found.values())).state == "replaced"


def test_a_program_that_keeps_low_addresses_free_is_no_sanitizer(hooked, tmp_path):
    program = compile_c(tmp_path, "own", OWN_MALLOC + """
        #include <sys/mman.h>
        static void reserve(void) { mmap((void *)0x10000, 1ul << 32, PROT_NONE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0); }
        __attribute__((section(".preinit_array"), used)) static void (*before_libraries)(void) = reserve;
    """, "-rdynamic", "-fno-builtin")
    _, found = hooked(program)
    assert next(iter(found.values())).state == "replaced"


def test_a_stack_runs_through_a_program_with_gaps_between_its_segments(hooked, tmp_path):
    program = compile_c(tmp_path, "gaps", """
        #include <stdlib.h>
        void *volatile kept;
        __attribute__((noinline, noclone)) void hold(void) { kept = malloc(3 << 20); }
        int main(void) { hold(); return !kept; }
    """, *GAPS)
    _, found = hooked(program)
    site, = [s for s in next(iter(found.values())).sites if s.live_bytes == 3 * MIB]
    inside = [hex(a - 1 - m.base) for a, m in site.frames if m and m.path == str(program)]
    assert symbols(str(program), inside)[:2] == ["hold", "main"]


ALLOCATOR = """
    #define _GNU_SOURCE
    #include <stddef.h>
    #include <string.h>
    #include <sys/mman.h>
    #define WHOLE(n) (((n) + 64 + 4095) & ~4095ul)
    #define HEADER(p) ((size_t *)((char *)(p) - 64))
    static void *take(size_t n)
    {
        size_t *p = mmap(NULL, WHOLE(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *p = n;
        return (char *)p + 64;
    }
    void *malloc(size_t n) { return take(n); }
    void free(void *p) { if (p) munmap(HEADER(p), WHOLE(*HEADER(p))); }
    void *calloc(size_t n, size_t s) { return take(n * s); }
    void *realloc(void *p, size_t n)
    {
        void *q = take(n);
        if (p) { memcpy(q, p, *HEADER(p) < n ? *HEADER(p) : n); free(p); }
        return q;
    }
    #ifdef OWN_NEW
    void *_Znwm(size_t n) { return take(n); }
    void *_Znam(size_t n) { return take(n); }
    void _ZdlPv(void *p) { free(p); }
    void _ZdaPv(void *p) { free(p); }
    void _ZdlPvm(void *p, size_t n) { (void)n; free(p); }
    #endif
"""

USER = """
    #include <cstdlib>
    #include <new>
    static void *volatile kept;
    int main()
    {
        for (int i = 0; i < 10; i++) {
            kept = malloc(1 << 20);
            kept = new char[2 << 20];
            free(malloc(3 << 20));
            delete[] new char[4 << 20];
        }
        return 0;
    }
"""


def allocators():
    """Libraries that replace malloc and can be found, beside two that are built here."""
    more = os.environ.get("TIDEMARK_TEST_ALLOCATORS", "").split(":")
    found = [str(p) for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4")
             for p in sorted(pathlib.Path("/usr/lib").glob(f"*/{name}"))]
    return ["plain", "own new", *found, *filter(None, more)]


@pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")
@pytest.mark.parametrize("way", ["preloaded behind", "preloaded ahead", "linked"])
@pytest.mark.parametrize("allocator", allocators())
def test_a_library_that_replaces_malloc(hooked, build, tmp_path, allocator, way):
    """Behind the hook it is passed on to, what it maps is its own, and a new of its own is said; ahead of the hook it is
    told apart."""
    library = allocator
    if not allocator.startswith("/"):
        flags = ["-DOWN_NEW"] if allocator == "own new" else []
        library = compile_c(tmp_path, "replacement.so", ALLOCATOR, "-shared", "-fPIC", "-fno-builtin", *flags)
    (tmp_path / "user.cc").write_text(USER)
    linked = [library, "-Wl,-rpath," + str(pathlib.Path(library).parent)] if way == "linked" else []
    subprocess.run(["c++", "-O0", "-o", tmp_path / "user", tmp_path / "user.cc", *linked], check=True)
    hook = build / "libtidemark-hook.so"
    preload = {"linked": hook, "preloaded behind": f"{hook}:{library}", "preloaded ahead": f"{library}:{hook}"}[way]
    _, found = hooked(tmp_path / "user", env={"LD_PRELOAD": str(preload)})
    table = next(iter(found.values()))
    if way == "preloaded ahead":
        assert table.state == "replaced" and table.live("malloc") == 0
        return
    assert table.state == ("on" if allocator == "plain" else "own new")
    assert table.live("malloc") == (30 if allocator == "plain" else 10) * MIB
    assert table.live("mmap") == 0 and table.counters["lost_frees"] == 0


def test_sized_frees_of_c23_are_seen(hooked, tmp_path):
    """No C library has them yet: they are looked up, as a newer one's headers would have them linked."""
    program = compile_c(tmp_path, "sized", """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdlib.h>
        int main(void)
        {
            void (*sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
            void (*aligned)(void *, size_t, size_t) =
                (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
            if (!sized || !aligned)
                return 1;
            for (int i = 0; i < 10; i++) {
                sized(malloc(300000), 300000);
                aligned(aligned_alloc(64, 320000), 64, 320000);
                sized(NULL, 0);
            }
            return 0;
        }""")
    _, found = hooked(program)
    table = next(iter(found.values()))
    assert sum(s.total_bytes for s in table.sites) >= 10 * 620000 and table.live() < 64 * 1024


def test_a_sanitized_program_is_left_alone(hooked, tmp_path):
    program = compile_c(tmp_path, "asan", "#include <stdlib.h>\nint main(void) { free(malloc(1 << 20)); return 0; }",
                        "-fsanitize=address", "-static-libasan", compiler="gcc")
    _, found = hooked(program)
    table = next(iter(found.values()))
    assert table.state == "sanitized" and not table.sites


def test_a_static_program_just_runs(hooked, tmp_path):
    program = compile_c(tmp_path, "static", "#include <stdlib.h>\nint main(void) { free(malloc(1 << 20)); return 0; }", "-static")
    _, found = hooked(program)
    assert not found


@pytest.mark.parametrize("env", [{"TIDEMARK_HEAP": ""}, {"TIDEMARK_HEAP": "-1"}, {"TIDEMARK_HEAP": "9999999999999999999999"},
                                 {"TIDEMARK_HEAP": "12x"}, {"TIDEMARK_CHANNEL": ""}, {"TIDEMARK_CHANNEL": "relative"},
                                 {"TIDEMARK_CHANNEL": "/nowhere/at/all"}])
def test_without_a_channel_or_an_interval_the_program_just_runs(hooked, build, env):
    _, found = hooked(build / "hook-targets/target", "ways", env=env)
    assert not found


def test_a_limit_on_file_sizes_is_no_signal(hooked, build):
    _, found = hooked("sh", "-c", f"ulimit -f 100; exec {build}/hook-targets/target ways")
    assert len(found) == 1  # the shell's own


# ---- Python


@pytest.mark.parametrize("python", INTERPRETERS)
def test_python_frames_have_the_right_file_function_and_line(hooked, root, python):
    script = root / "tests/hook/frames.py"
    lines = script.read_text().splitlines()
    _, found = hooked(python, script)
    table = next(iter(found.values()))
    assert table.state == "on" and table.python == "on" and table.counters["python_failed"] == 0

    def stack(size):
        site = [s for s in table.sites if s.live_blocks == 1 and s.live_bytes in (size, size + 1)]
        assert len(site) == 1, size
        return [(name.split(".")[-1], line) for file, name, line in site[0].python if file == str(script)]

    def line(text, after=0):
        return next(i for i, content in enumerate(lines, 1) if text in content and i > after)

    main = lambda text: ("<module>", line(text, line("Trainer().step()") - 1))
    held = ("hold", line("bytearray(size))"))
    assert stack(1001000) == [held, ("step", line("self.hold(1001000)")), main("Trainer().step()")]
    assert stack(1002000) == [held, ("through_map", line("list(map(")), main("Trainer().through_map()")]
    assert stack(1003000) == [("<lambda>", line("1003000")), ("through_lambda", line("1003000")), main("through_lambda()")]
    assert stack(1004000) == [("generator", line("kept.append(bytearray(size))")), main("list(generator())")]
    assert stack(1005000) == [("__del__", line("1005000")), main("del odd")]
    assert stack(1006000) == [("nested", line("1006000")), *[("nested", line("return nested"))] * 5, main("nested(5)")]
    assert stack(1007000) == [("naïve_ünï", line("1007000")), main("naïve_ünï()")]
    assert stack(1008000) == [("<lambda>", line("1008000"))]
    made_up = next(s for s in table.sites if s.live_bytes in (1009000, 1009001))
    assert made_up.python[0] == ("made-up.py", "<module>", 3)
    assert made_up.python[1] == (str(script), "<module>", line("made-up.py"))


@pytest.mark.parametrize("python", INTERPRETERS)
def test_functions_that_follow_each_other_at_the_same_address_are_told_apart(hooked, tmp_path, python):
    """Of 105 functions, each made anew and freed, called from one line: what was seen at an address is no longer there."""
    (tmp_path / "make.py").write_text("""
kept = []
for i in range(420):
    scope = {}
    text = chr(10) * (i % 3) + f"def made_{i % 7}(n):" + chr(10) + "    return bytearray(n)" + chr(10)
    exec(compile(text, f"made_{i % 5}.py", "exec"), scope)
    kept.append(scope[f"made_{i % 7}"](200000 + 16 * (i % 105)))
import os
os._exit(0)
""")
    _, found = hooked(python, tmp_path / "make.py")
    sites = [(s, s.python[0]) for s in next(iter(found.values())).sites if s.python and s.python[0][0].startswith("made_")]
    assert sum(s.live_blocks for s, _ in sites) == 420
    for site, frame in sites:
        i = (site.live_bytes // site.live_blocks - 200000) // 16
        assert frame == (f"made_{i % 5}.py", f"made_{i % 7}", 2 + i % 3)


def test_native_frames_between_python_frames_are_kept(hooked, tmp_path):
    """A C extension (ctypes calling qsort's comparison) shows up between the Python frames around it."""
    script = tmp_path / "between.py"
    script.write_text("""
import ctypes, os
kept = []
libc = ctypes.CDLL(None)
Compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def compare(a, b):
    if len(kept) < 1:
        kept.append(bytearray(2000000))
    return 0
def sort():
    libc.qsort((ctypes.c_int * 4)(), 4, 4, Compare(compare))
sort()
os._exit(0)
""")
    _, found = hooked("/usr/bin/python3", script)
    table = next(iter(found.values()))
    site = next(s for s in table.sites if 2000000 <= s.live_bytes <= 2000001)
    assert [f[1] for f in site.python] == ["compare", "sort", "<module>"]
    at = [i for i, f in enumerate(site.frames) if isinstance(f[0], str)]
    between = [f[1].path for f in site.frames[at[0] + 1:at[1]] if f[1]]
    assert any("libc.so" in p for p in between) and any("ffi" in p or "ctypes" in p for p in between)
    assert not any("python3" in p.rsplit("/", 1)[-1] for p in between)


def test_the_table_can_be_read_while_it_grows(hooked, build, tmp_path, env):
    """Reads in the middle of a run see only complete entries."""
    channel = tmp_path / "live"
    channel.mkdir(mode=0o700)
    process = subprocess.Popen([build / "hook-targets/target", "stacks"],
                               env={**env, "LD_PRELOAD": str(build / "libtidemark-hook.so"), "TIDEMARK_CHANNEL": str(channel),
                                    "TIDEMARK_HEAP": "4096"})
    seen = 0
    while process.poll() is None:
        for path in channel.glob("heap-*"):
            if path.read_bytes()[:8] == b"tidheap1":
                seen = max(seen, len(Table(path).sites))
    assert process.returncode == 0
    assert len(next(iter(tables(channel).values())).sites) >= seen


def test_an_interpreter_that_is_loaded_later_is_recognised(hooked, tmp_path):
    library = next(iter(sorted(pathlib.Path("/usr/lib").glob("*/libpython3.*.so.1.0"))), None)
    if not library:
        pytest.skip("no libpython")
    program = compile_c(tmp_path, "embed", """
        #include <dlfcn.h>
        #include <stdlib.h>
        int main(int n, char **v) {
            (void)n;
            void *p = dlopen(v[1], RTLD_NOW | RTLD_GLOBAL);
            void (*begin)(void) = (void (*)(void))dlsym(p, "Py_Initialize");
            int (*run)(const char *, void *) = (int (*)(const char *, void *))dlsym(p, "PyRun_SimpleStringFlags");
            begin();
            return run("kept = []\\ndef hold(n):\\n  kept.append(bytearray(n))\\nhold(3000000)\\nimport os\\nos._exit(0)", 0);
        }""", "-ldl")
    _, found = hooked(program, library)
    table = next(iter(found.values()))
    assert table.python == "on" and table.python_version >> 16 == int(library.name.split(".")[1]) | 0x300
    site = next(s for s in table.sites if 3000000 <= s.live_bytes <= 3000001)
    assert site.python == [("<string>", "hold", 3), ("<string>", "<module>", 4)]


def test_an_interpreter_that_is_unloaded_is_not_asked_any_more(hooked, tmp_path):
    """What stands in for it is small enough to be unloaded, and its addresses are nobody's afterwards."""
    (tmp_path / "python.c").write_text(FAKE.replace("int main(void)", "void use(void)").replace("return 0;\n    }", "}")
                                       % ("0x030b02f0", "0"))
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", tmp_path / "python.so", tmp_path / "python.c"], check=True)
    program = compile_c(tmp_path, "unloads", """
        #include <dlfcn.h>
        #include <stdlib.h>
        static void *volatile kept;
        int main(int n, char **v) {
            (void)n;
            void *p = dlopen(v[1], RTLD_NOW);
            ((void (*)(void))dlsym(p, "use"))();
            if (dlclose(p))
                return 1;
            for (int i = 0; i < 100; i++)
                kept = malloc(1 << 20);
            return 0;
        }""", "-ldl")
    _, found = hooked(program, tmp_path / "python.so")
    assert sum(s.live_blocks for s in next(iter(found.values())).sites if s.live_bytes >= 100 * MIB) == 200


FAKE = """
    #include <stdlib.h>
    #include <string.h>
    unsigned long Py_Version = %s;
    char PyCode_Type[400], PyUnicode_Type[400], PyBytes_Type[400];
    static char state[4096];
    static void *volatile kept;
    void *PyGILState_GetThisThreadState(void) { return state; }
    void *PyThreadState_GetUnchecked(void) { return state; }
    int Py_IsFinalizing(void) { return 0; }
    __attribute__((noinline)) void _PyEval_EvalFrameDefault(void) { kept = malloc(1 << 20); }
    int main(void) {
        memset(state, %s, sizeof state);
        for (int i = 0; i < 100; i++) _PyEval_EvalFrameDefault();
        return 0;
    }
"""


@pytest.mark.parametrize("version, said", [("0x030b02f0", "check"), ("0x030c01f0", "check"), ("0x030d00f0", "check"),
                                           ("0x030e00f0", "version"), ("0x030800f0", "version")])
@pytest.mark.parametrize("filling", ["0xff", "0x41", "1"])
def test_an_interpreter_that_is_not_what_it_says_gets_native_stacks(hooked, tmp_path, version, said, filling):
    program = compile_c(tmp_path, "fake", FAKE % (version, filling), "-rdynamic")
    _, found = hooked(program)
    table = next(iter(found.values()))
    assert table.python == said
    assert sum(s.live_blocks for s in table.sites if s.live_bytes >= 100 * MIB) == 100


def test_workers_of_a_pool_have_tables_of_their_own(hooked, tmp_path):
    script = tmp_path / "pool.py"
    script.write_text("""
import multiprocessing, os
kept = []
def work(n):
    kept.append(bytearray(4000000))
    return os.getpid()
if __name__ == "__main__":
    kept.append(bytearray(5000000))
    with multiprocessing.get_context("fork").Pool(3) as pool:
        pool.map(work, range(3), chunksize=1)
""")
    _, found = hooked("/usr/bin/python3", script)
    workers = [t for t in found.values() if any(f[1] == "work" for s in t.sites for f in s.python)]
    assert workers
    assert sum(s.total_blocks for t in workers for s in t.sites if s.python and s.python[0][1] == "work") == 3
    assert not any(s.live_bytes in (5000000, 5000001) for t in workers for s in t.sites)


def test_a_killed_program_leaves_its_table(build, tmp_path, env):
    channel = tmp_path / "channel"
    channel.mkdir(mode=0o700)
    script = "import os, signal; kept = bytearray(7000000); os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run(["/usr/bin/python3", "-c", script], check=False,
                          env={**env, "LD_PRELOAD": str(build / "libtidemark-hook.so"), "TIDEMARK_CHANNEL": str(channel),
                               "TIDEMARK_HEAP": "524288"})
    assert done.returncode == -9
    table = next(iter(tables(channel).values()))
    assert [s.python for s in table.sites if 7000000 <= s.live_bytes <= 7000001] == [[("<string>", "<module>", 1)]]


def test_a_kernel_without_the_newer_advice_is_served_too(hooked, build, tmp_path):
    """No MADV_WIPEONFORK (before Linux 4.14) and no MADV_POPULATE_WRITE (before 5.14)."""
    shim = compile_c(tmp_path, "old.so", """
        #define _GNU_SOURCE
        #include <errno.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int madvise(void *p, unsigned long n, int advice) {
            if (advice == 18 || advice == 23) { errno = EINVAL; return -1; }
            return (int)syscall(SYS_madvise, p, n, advice);
        }""", "-shared", "-fPIC")
    env = {"LD_PRELOAD": f"{shim} {build}/libtidemark-hook.so"}
    parent, (child,) = family(*hooked(build / "hook-targets/target", "forked", env=env))
    assert child.live() == 3 * MIB and parent.live() >= 5 * MIB + EARLY
    _, found = hooked(build / "hook-targets/target", "threads", "5", env=env, timeout=60)
    assert len(found) == 6


ASKED = """
    #include <malloc.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <time.h>
    static double read_clock(clockid_t clock)
    {
        struct timespec t;
        clock_gettime(clock, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
    }
    static double now(void) { return read_clock(CLOCK_MONOTONIC); }
    static void allocate_for_a_second(int number)
    {
        (void)number;
        for (double from = now(); now() < from + 1;) {
            void *block = malloc(1 << 20);
            *(volatile char *)block = 1;
            free(block);
        }
    }
    int main(int count, char **words)
    {
        if (count > 1 && !strcmp(words[1], "signal")) {
            signal(SIGUSR1, allocate_for_a_second);
            raise(SIGUSR1);
            return 0;
        }
        enum { PIECES = 300000 };
        double began = now();
        static void *kept[2 * PIECES];
        for (int i = 0; i < 2 * PIECES; i++)
            kept[i] = malloc(1200);
        for (int i = 0; i < 2 * PIECES; i += 2)
            free(kept[i]);
        for (int i = 0; i < 3; i++)
            allocate_for_a_second(0);
        double lasted = now() - began, from = read_clock(CLOCK_THREAD_CPUTIME_ID);
        size_t is_free = mallinfo2().fordblks;
        printf("%zu %f %f", is_free, lasted, read_clock(CLOCK_THREAD_CPUTIME_ID) - from);
        return 0;
    }
"""


def test_malloc_is_asked_rarely_what_it_keeps(hooked, tmp_path):
    done, found = hooked(compile_c(tmp_path, "asked", ASKED))
    counters = next(iter(found.values())).counters
    assert counters["allocator_readings"] >= 3
    free, lasted_s, once_s = map(float, done.out.split())
    assert counters["allocator_readings"] <= 4 * lasted_s + 2
    # Each reading is followed by 200 times its length, but for the last, which on a busy machine takes several times what one
    # takes in the end.
    assert counters["allocator_ns"] <= 1e9 * (0.005 * lasted_s + 10 * once_s)
    assert counters["allocator_pieces"] > 299_000
    assert abs(counters["allocator_free"] / free - 1) < 0.05
    assert counters["allocator_top"] < counters["allocator_free"] < counters["allocator_system"]


def test_malloc_is_not_asked_in_a_signal_handler(hooked, tmp_path):
    _, found = hooked(compile_c(tmp_path, "asked", ASKED), "signal")
    table = next(iter(found.values()))
    assert table.counters["sampled"] > 1000
    assert table.counters["allocator_readings"] <= 1  # at the start, outside of it
