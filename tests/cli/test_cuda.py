"""Device memory by call stack: the hook in front of a CUDA driver that is not there (tests/fake/fake_cuda.c).

tests/hook/device_user.c takes memory in every way a program can come by the driver's functions, and prints what the driver says
is in use: the live bytes in the table must be the same number. On a real GPU: tests/gpu/run_heap.py.
"""

import math
import pathlib
import re
import shutil
import sqlite3
import statistics
import subprocess

import pytest

from heap_table import symbols, tables
from recording import STEP, Recording

pytestmark = [pytest.mark.unsanitized,  # the hook never is
              pytest.mark.xdist_group("cuda")]  # the driver is compiled once

MIB = 1 << 20
TENSOR_INTERVAL = 32 * 524288  # mean bytes between samples of tensors
WAYS = ["direct", "dlsym", "proc1", "proc2", "static", "streams", "next"]


def library(path, source, *flags):
    subprocess.run(["cc", "-std=gnu11", "-g", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", "-o", path, source, *flags,
                    "-lpthread", "-ldl"], check=True)
    return path


@pytest.fixture(scope="session")
def fake(root, tmp_path_factory):
    return library(tmp_path_factory.mktemp("driver") / "libcuda.so.1", root / "tests/fake/fake_cuda.c")


@pytest.fixture(scope="session")
def direct(root, fake):
    """The same program, linked with the driver."""
    path = fake.parent / "direct"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-std=c11", "-O2", "-g", "-DDIRECT", "-fno-optimize-sibling-calls", "-rdynamic", "-o",
                    path, root / "tests/hook/device_user.c", fake, "-lpthread"], check=True)
    return path


@pytest.fixture
def hooked(run, build, fake, tmp_path):
    """hooked(argv..., driver=directory, code=n) -> (stdout, [Table])."""

    def call(*argv, driver=None, code=0, env=None):
        channel = tmp_path / "channel"
        shutil.rmtree(channel, ignore_errors=True)
        channel.mkdir(mode=0o700)
        result = run(*argv, env={"LD_LIBRARY_PATH": str(driver or fake.parent), "LD_PRELOAD": build / "libtidemark-hook.so",
                                 "TIDEMARK_CHANNEL": str(channel), "TIDEMARK_HEAP": "524288", **(env or {})})
        assert result.code == code, result.err
        return result.out, list(tables(channel).values())

    return call


@pytest.fixture
def device(hooked, build, direct):
    """device(way, mode, argument...) -> (bytes the driver says are in use, [Table])."""

    def call(way, *arguments, **more):
        program = direct if way == "direct" else build / "hook-targets/device_user"
        out, found = hooked(program, way, *arguments, **more)
        return int(out), found

    return call


def held(table):
    return sum(s.live_bytes for s in table.sites if s.kind in ("cuda", "tensor"))


def functions(site, program):
    return symbols(str(program), [hex(a - 1 - m.base) for a, m in site.frames if m and m.path == str(program)])


@pytest.mark.parametrize("mode", ["leak", "mix", "refuse", "virtual", "threads"])
@pytest.mark.parametrize("way", WAYS)
def test_the_table_holds_what_the_driver_holds(device, way, mode):
    used, [table] = device(way, mode)
    assert table.cuda == "on" and used > 0
    assert held(table) == used
    assert table.counters["lost_frees"] == table.counters["dropped_pointers"] == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_leak_has_its_stack(device, build, direct, way):
    _, [table] = device(way, "leak", "7")
    [site] = [s for s in table.sites if s.kind == "cuda"]
    assert (site.live_bytes, site.live_blocks, site.total_blocks) == (7 * MIB, 7, 7)
    program = direct if way == "direct" else build / "hook-targets/device_user"
    assert functions(site, program)[:3] == ["device_leak", "leak", "main"] and not site.truncated


def test_a_refused_allocation_is_not_counted_and_a_refused_free_changes_nothing(device):
    used, [table] = device("static", "refuse")
    assert used == held(table) == 100 * MIB
    assert sum(s.total_bytes for s in table.sites if s.kind == "cuda") == 700 * MIB


def test_pinned_memory_is_host_memory_and_counted_once(device):
    _, [table] = device("static", "mix")
    pinned = [s for s in table.sites if s.kind == "mmap" and s.live_bytes >= MIB]
    assert [(s.live_bytes, s.live_blocks) for s in pinned] == [(17 * MIB, 1)]


def test_a_piece_lives_until_its_last_handle_and_its_last_mapping_went(device):
    used, [table] = device("dlsym", "virtual")
    sites = sorted(s.live_bytes for s in table.sites if s.kind == "cuda")
    assert sites == [0, 2 * MIB, 2 * MIB, 6 * MIB] and used == 10 * MIB


def test_a_forked_child_keeps_an_account_of_its_own(device):
    _, found = device("static", "fork")
    assert sorted(held(t) for t in found) == [MIB, 3 * MIB]


def test_a_driver_that_is_unloaded_and_loaded_again_is_learned_again(device):
    used, [table] = device("dlsym", "reload")
    assert table.cuda == "on" and used == MIB and held(table) == 2 * MIB  # nobody was told that the first one was lost


def test_device_memory_has_python_lines(hooked, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("""\
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
kept = []
def train_step():
    pointer = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(3 << 20)) == 0
    kept.append(pointer)
for step in range(5):
    train_step()
""")
    _, [table] = hooked("/usr/bin/python3", script)
    [site] = [s for s in table.sites if s.kind == "cuda"]
    assert site.live_bytes == 15 * MIB
    assert [(pathlib.Path(f).name, name, line) for f, name, line in site.python] == [("train.py", "train_step", 7),
                                                                                     ("train.py", "<module>", 10)]


ONE_ALLOCATION = """
import ctypes, sys
for path in sys.argv[1:]:
    cuda = ctypes.CDLL(path)
    cuda.cuInit(0)
    pointer = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) == 0 and pointer.value
    cuda.fake_cuda_used.restype = ctypes.c_uint64
    assert cuda.fake_cuda_used() == 1 << 20
"""


def test_a_driver_that_lacks_functions_is_left_alone(hooked, root, tmp_path):
    strange = library(tmp_path / "libcuda.so.1", root / "tests/fake/fake_cuda.c", "-DSTRANGE")
    _, [table] = hooked("/usr/bin/python3", "-c", ONE_ALLOCATION, strange, driver=tmp_path)
    assert table.cuda == "incomplete" and held(table) == 0


def test_of_two_drivers_the_second_is_left_alone(hooked, fake, tmp_path):
    second = shutil.copy(fake, tmp_path / "libcuda.so.1")
    _, [table] = hooked("/usr/bin/python3", "-c", ONE_ALLOCATION, fake, second)
    assert table.cuda == "second" and held(table) == MIB


def test_a_library_of_another_name_is_left_alone(hooked, fake, tmp_path):
    other = shutil.copy(fake, tmp_path / "libother.so")
    _, [table] = hooked("/usr/bin/python3", "-c", ONE_ALLOCATION, other)
    assert table.cuda == "none" and held(table) == 0


DOOR = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#define FORWARD(name, parameters, arguments)                                        \
    int name parameters                                                             \
    {                                                                               \
        static int(*inner) parameters;                                              \
        if (!inner)                                                                 \
            *(void **)&inner = dlsym(dlopen(getenv("INNER"), RTLD_NOW), #name);     \
        return inner arguments;                                                     \
    }
FORWARD(cuInit, (unsigned flags), (flags))
FORWARD(cuMemAlloc_v2, (uint64_t *ret, size_t bytes), (ret, bytes))
FORWARD(cuMemAllocPitch_v2, (uint64_t *ret, size_t *pitch, size_t w, size_t h, unsigned e), (ret, pitch, w, h, e))
FORWARD(cuMemFree_v2, (uint64_t pointer), (pointer))
FORWARD(cuMemHostAlloc, (void **ret, size_t bytes, unsigned flags), (ret, bytes, flags))
FORWARD(cuMemFreeHost, (void *pointer), (pointer))
uint64_t fake_cuda_used(void)
{
    uint64_t (*inner)(void);
    *(void **)&inner = dlsym(dlopen(getenv("INNER"), RTLD_NOW), "fake_cuda_used");
    return inner();
}
"""


def test_a_driver_that_is_a_door_to_another_does_not_go_round_in_circles(hooked, fake, tmp_path):
    (tmp_path / "door.c").write_text(DOOR)
    door = library(tmp_path / "libcuda.so.1", tmp_path / "door.c")
    inner = shutil.copy(fake, tmp_path / "libcuda.so.1.1")
    _, [table] = hooked("/usr/bin/python3", "-c", ONE_ALLOCATION, door, env={"INNER": str(inner)})
    assert held(table) == MIB


def test_the_next_definition_is_the_one_after_the_library_that_asks(hooked, tmp_path):
    for name, code in (("one", "#include <dlfcn.h>\nint cuwhich(void){int(*f)(void);*(void**)&f=dlsym(RTLD_NEXT,\"cuwhich\");"
                               "return 10+f();}"), ("two", "int cuwhich(void){return 2;}")):
        (tmp_path / f"{name}.c").write_text("#define _GNU_SOURCE\n" + code)
        library(tmp_path / f"lib{name}.so", tmp_path / f"{name}.c")
    (tmp_path / "main.c").write_text("int cuwhich(void);int main(void){return cuwhich();}")
    subprocess.run(["cc", "-o", tmp_path / "main", tmp_path / "main.c", f"-L{tmp_path}", "-Wl,--no-as-needed", "-lone", "-ltwo"],
                   check=True)
    hooked(tmp_path / "main", driver=tmp_path, code=12)


def test_without_a_table_the_driver_works_as_ever(run, build, direct, fake):
    env = {"LD_LIBRARY_PATH": str(fake.parent), "LD_PRELOAD": build / "libtidemark-hook.so"}
    for program, way in ((direct, "direct"), (build / "hook-targets/device_user", "static")):
        plain = run(program, way, "virtual", env={"LD_LIBRARY_PATH": str(fake.parent)})
        hooked = run(program, way, "virtual", env=env)
        assert (hooked.code, hooked.out) == (plain.code, plain.out) == (0, f"{10 * MIB}\n")


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no CUDA compiler here")
def test_the_real_static_runtime_finds_its_functions_through_the_hook(hooked, run, fake, tmp_path):
    """It asks for more than the fake driver has and says so, with the hook as without; on a GPU see tests/gpu/run_heap.py."""
    (tmp_path / "probe.cu").write_text("#include <cstdio>\n#include <cuda_runtime.h>\n"
                                       "int main() { void *p = nullptr; printf(\"%d\\n\", cudaMalloc(&p, 1 << 20)); }\n")
    subprocess.run(["nvcc", "-cudart", "static", "-o", tmp_path / "probe", tmp_path / "probe.cu"], check=True)
    plain = run(tmp_path / "probe", env={"LD_LIBRARY_PATH": str(fake.parent)})
    out, [table] = hooked(tmp_path / "probe")
    assert table.cuda == "on" and out == plain.out


# PyTorch's caching allocator with expandable segments, as far as the driver and the profiler see it: addresses are reserved
# once; what does not fit makes pieces of 20 MiB, each created, mapped next to the last one and made accessible; tensors reach
# from one piece into the next; the profiler is told of each; an emptied pool unmaps and releases its pieces.
C10 = r"""
#include <stddef.h>
#include <stdint.h>
struct device { int8_t type, index; };
long told;
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *p, int64_t bytes, size_t a, size_t r, struct device on)
{
    (void)p, (void)a, (void)r;
    told += on.type == 1 && on.index == 0 ? bytes : 1;
}
"""
POOL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
struct device { int8_t type, index; };
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *, int64_t, size_t, size_t, struct device);
enum { PIECE = 20 << 20, PIECES = 64 };
static int (*reserve)(uint64_t *, size_t, size_t, uint64_t, unsigned long long), (*release)(uint64_t);
static int (*create)(uint64_t *, size_t, const void *, unsigned long long), (*unmap)(uint64_t, size_t);
static int (*map)(uint64_t, size_t, size_t, uint64_t, unsigned long long), (*allow)(uint64_t, size_t, const void *, size_t);
static uint64_t start, used, handles[PIECES];
static int pieces;
static void *driver(const char *name)
{
    static void *library;
    static int (*get)(const char *, void **, int, uint64_t, int *);
    void *found = NULL;
    if (!library)
        *(void **)&get = dlsym(library = dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
    if (get(name, &found, 12000, 0, NULL) || !found)
        abort();
    return found;
}
static void grow(void)
{
    static const int properties[8] = {1, 1, 1, 0}, access[3] = {1, 0, 3}; /* a file descriptor can be had of it */
    uint64_t at = start + (uint64_t)pieces * PIECE;
    if (create(&handles[pieces], PIECE, properties, 0) || map(at, PIECE, 0, handles[pieces], 0) || allow(at, PIECE, access, 1))
        abort();
    pieces++;
}
static uint64_t take(uint64_t bytes)
{
    if (!start) {
        *(void **)&reserve = driver("cuMemAddressReserve"), *(void **)&create = driver("cuMemCreate");
        *(void **)&map = driver("cuMemMap"), *(void **)&allow = driver("cuMemSetAccess");
        *(void **)&unmap = driver("cuMemUnmap"), *(void **)&release = driver("cuMemRelease");
        if (reserve(&start, (size_t)PIECES * PIECE, 0, 0, 0))
            abort();
    }
    while (used + bytes > (uint64_t)pieces * PIECE)
        grow();
    used += bytes;
    return start + used - bytes;
}
uint64_t tensor(uint64_t bytes)
{
    uint64_t at = take(bytes);
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE((void *)at, (int64_t)bytes, 0, 0, (struct device){1, 0});
    return at;
}
void gone(uint64_t at, uint64_t bytes) /* only the last one's place is used again */
{
    used -= at + bytes == start + used ? bytes : 0;
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE((void *)at, -(int64_t)bytes, 0, 0, (struct device){1, 0});
}
void on_host(void)
{
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE((void *)start, 4096, 0, 0, (struct device){0, -1});
}
void empty(void)
{
    for (; pieces; pieces--)
        if (unmap(start + (uint64_t)(pieces - 1) * PIECE, PIECE) || release(handles[pieces - 1]))
            abort();
}
"""
TENSORS = """\
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
pool = ctypes.CDLL(sys.argv[1])
c10 = ctypes.CDLL(sys.argv[2])
pool.tensor.restype = cuda.fake_cuda_used.restype = ctypes.c_uint64
pool.tensor.argtypes = [ctypes.c_uint64]
pool.gone.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
MIB = 1 << 20
kept = []
def remember():
    kept.append(pool.tensor(24 * MIB))
def backward():
    t = pool.tensor(30 * MIB)
    pool.gone(t, 30 * MIB)
def remember_little():
    kept.append(pool.tensor(MIB))
def step_of_small_ones():
    for size in (2 * MIB, 512, 3 * MIB, 100000):
        pool.gone(pool.tensor(size), size)
    remember_little()
if sys.argv[3] == "small":
    for step in range(400):
        step_of_small_ones()
elif sys.argv[3] == "steps":
    import tidemark
    for step in range(300):
        tidemark.step(step)
        step_of_small_ones()
        time.sleep(0.01)  # so that there are readings
else:
    for step in range(10):
        backward()
        remember()
pool.on_host()
if sys.argv[3] == "empty":
    for t in kept:
        pool.gone(t, 24 * MIB)
    pool.empty()
print(cuda.fake_cuda_used(), ctypes.c_long.in_dll(c10, "told").value)
"""


@pytest.fixture
def tensor_argv(tmp_path):
    """The program that trains, as far as the driver and the profiler see it; a mode comes last."""
    for name, code in (("c10", C10), ("pool", POOL)):
        (tmp_path / f"{name}.c").write_text(code)
        more = [f"-L{tmp_path}", "-lc10", f"-Wl,-rpath,{tmp_path}"] if name == "pool" else []
        library(tmp_path / f"lib{name}.so", tmp_path / f"{name}.c", *more)
    script = tmp_path / "train.py"
    script.write_text(TENSORS)
    return ["/usr/bin/python3", script, tmp_path / "libpool.so", tmp_path / "libc10.so"]


@pytest.fixture
def tensors(hooked, tensor_argv):
    """tensors(mode) -> (bytes the driver says are in use, what PyTorch's profiler was told, table)"""

    def call(mode, **env):
        out, [table] = hooked(*tensor_argv, mode, env=env)
        used, told = out.split()
        return int(used), int(told), table

    return call


def test_tensors_in_pytorchs_pool_have_their_own_lines(tensors):
    """The pool grows in backward(), because of what remember() keeps."""
    used, told, table = tensors("keep")
    assert used == 13 * 20 * MIB  # 240 MiB are kept, and 30 were once needed beside 216
    assert told == 240 * MIB + 1  # the profiler hears everything, the host's too
    sites = {s.python[0][1]: (s.live_bytes, s.live_blocks, s.total_blocks) for s in table.sites if s.kind == "tensor"}
    assert sites == {"remember": (240 * MIB, 10, 10), "backward": (0, 0, 10)}
    rest = [s for s in table.sites if s.kind == "cuda" and s.live_bytes]
    assert [s.live_bytes for s in rest] == [used - 240 * MIB], "what is in reserve belongs to who began the segment"
    assert held(table) == used


def test_an_emptied_pool_leaves_nothing(tensors):
    used, told, table = tensors("empty")
    assert (used, told, held(table)) == (0, 1, 0)
    assert [s for s in table.sites if s.kind in ("cuda", "tensor") and s.live_bytes] == []


def test_sampled_tensors_are_unbiased_and_what_is_left_of_their_segments_is_exact(tensors):
    """400 tensors of 1 MiB, each sampled with p = 1 - exp(-1/16): the mean over seeds is right to 2 standard errors."""
    seeds, size, count = 16, MIB, 400
    p = -math.expm1(-size / TENSOR_INTERVAL)
    kept = []
    for seed in range(1, seeds + 1):
        used, told, table = tensors("small", TIDEMARK_HEAP_SEED=str(seed))
        assert told == count * size + 1 and used == 21 * 20 * MIB
        reserve = sum(s.live_bytes for s in table.sites if s.kind == "cuda")
        assert reserve == used - count * size, "a tensor is taken off its segment, seen or not"
        live = {s.python[0][1]: s.live_bytes for s in table.sites if s.kind == "tensor" and s.live_bytes}
        assert list(live) == ["remember_little"]
        kept.append(live["remember_little"])
    error = size * math.sqrt(count * (1 - p) / p / seeds)
    assert abs(statistics.fmean(kept) - count * size) <= 2 * error
    assert statistics.stdev(kept) == pytest.approx(error * math.sqrt(seeds), rel=0.6)


def test_a_small_tensor_kept_each_step_is_found_within_a_few_hundred(tidemark, tensor_argv, fake, root, tmp_path):
    got = tidemark("run", "--heap", "-q", "-i", "20ms", "-o", "a.tide", "--", *tensor_argv, "steps",
                   env={"LD_LIBRARY_PATH": str(fake.parent), "PYTHONPATH": str(root / "python"), "TIDEMARK_HEAP_SEED": "7"})
    assert got.code == 0, got.err
    first = tidemark("blame", "--json", "a.tide").json["culprits"][0]
    assert first["kind"] == "tensor" and "remember_little" in [f["function"] for f in first["frames"]]
    assert first["bytes_per_step_low"] < MIB < first["bytes_per_step_high"] and 6 < first["samples"] < 40


# ---- what is said of it


def test_a_device_leak_is_in_the_recording_with_function_file_and_line(tidemark, build, fake, root, tmp_path):
    got = tidemark("run", "--heap", "-o", "a.tide", "--", build / "hook-targets/device_user", "static", "leak", "7",
                   env={"LD_LIBRARY_PATH": str(fake.parent)})
    assert got.code == 0, got.err
    source = root / "tests/hook/device_user.c"
    line = next(n for n, text in enumerate(source.read_text().split("\n"), 1) if '"memory is given"' in text)
    found = sqlite3.connect(tmp_path / "a.tide").execute(
        "SELECT f.function, f.file, f.line, h.live_bytes, h.live_blocks FROM site AS s JOIN site_sample AS h ON h.site = s.id"
        " JOIN stack AS t ON t.id = s.stack AND t.depth = 0 JOIN frame AS f ON f.id = t.frame WHERE s.kind = 3"
        " ORDER BY h.tick DESC LIMIT 1").fetchall()
    assert found == [("device_leak", found[0][1], line, 7 * MIB, 7)] and found[0][1].endswith("tests/hook/device_user.c")


def test_that_a_driver_is_left_alone_is_said(tidemark, root, tmp_path):
    library(tmp_path / "libcuda.so.1", root / "tests/fake/fake_cuda.c", "-DSTRANGE")
    got = tidemark("run", "--heap", "-o", "a.tide", "--", "/usr/bin/python3", "-c", ONE_ALLOCATION, tmp_path / "libcuda.so.1")
    assert got.code == 0, got.err
    notes = sqlite3.connect(tmp_path / "a.tide").execute("SELECT text FROM note").fetchall()
    assert any("no device memory: the CUDA driver lacks functions it should have" in text for (text,) in notes), notes


@pytest.fixture
def trained(tidemark, tmp_path):
    """trained(host=bytes, device=bytes a step, told=whether the driver tells processes apart) -> call(argument...)."""

    def make(host, device, told=True):
        r = Recording(tmp_path / "a.tide")
        process = r.process(4711, "python")
        r.heap(process)
        r.put("gpu_device", device=0, name="H200", total_bytes=141 << 30)
        frame = {"file": "/x/train.py", "line": 7, "python": 1}
        on_host = r.site(process, [{**frame, "function": "log"}], kind=1)
        on_device = r.site(process, [{**frame, "function": "train_step"}], kind=3)
        for step in range(200):
            tick = r.tick(step, {process: 300 * MIB + host * step})
            r.mark(step, STEP, step)
            r.put("gpu", tick=tick, device=0, process=process if told else -1, bytes=600 * MIB + device * step)
            r.hold(tick, on_host, host * step + MIB, blocks=step + 1)
            r.hold(tick, on_device, 512 * MIB + device * step, blocks=step + 1)
        r.close()
        return lambda *arguments: tidemark("blame", *arguments, "a.tide")

    return make


def shares(got):
    return {c["kind"]: c["share"] for c in got.json["culprits"]}


@pytest.mark.parametrize("told", [True, False])
def test_device_memory_is_blamed_for_the_growth_of_the_device(trained, told):
    blame = trained(host=MIB, device=10 * MIB, told=told)
    got = blame("--json")
    assert [c["kind"] for c in got.json["culprits"]] == ["cuda", "malloc"]
    assert shares(got) == {"cuda": pytest.approx(1, abs=0.02), "malloc": pytest.approx(1, abs=0.02)}
    text = blame().out
    assert re.search(r"culprit 1 +10\.0 MiB/step +100 % of the growth on the GPU ", text)
    assert re.search(r"culprit 2 +1\.0 MiB/step +100 % of the growth on the host ", text)


def test_the_culprit_of_what_the_verdict_is_about_comes_first(trained):
    kinds = [c["kind"] for c in trained(host=20 * MIB, device=10 * MIB)("--json").json["culprits"]]
    assert kinds == ["malloc", "cuda"]


def test_shares_of_live_bytes_do_not_mix_host_and_device(trained):
    got = trained(host=MIB, device=0)("--json", "--by", "end")
    assert shares(got) == {"cuda": pytest.approx(1), "malloc": pytest.approx(1)}
    assert got.json["all_bytes"] == 200 * MIB and got.json["all_device_bytes"] == 512 * MIB


def test_the_peaks_of_host_and_device_are_looked_at_each_at_its_moment(tidemark, tmp_path):
    """Host memory is highest at the beginning, device memory at the end: neither answer is of the other's moment."""
    for name, most in (("a", 900 * MIB), ("b", 950 * MIB)):
        r = Recording(tmp_path / f"{name}.tide")
        process = r.process(4711, "python")
        r.heap(process)
        on_host = r.site(process, [{"file": "/x/train.py", "line": 7, "python": 1, "function": "load"}], kind=1)
        on_device = r.site(process, [{"file": "/x/train.py", "line": 9, "python": 1, "function": "train_step"}], kind=3)
        for step in range(100):
            tick = r.tick(step, {process: 1200 * MIB})
            r.mark(step, STEP, step)
            r.hold(tick, on_host, (800 if step < 50 else 100) * MIB, blocks=1)
            r.hold(tick, on_device, 10 * MIB if step < 90 else most, blocks=1)
        r.close()
    held = {c["kind"]: c["bytes"] for c in tidemark("blame", "--json", "--by", "peak", "a.tide").json["culprits"]}
    assert held == {"malloc": 800 * MIB, "cuda": 900 * MIB}
    sites = {s["kind"]: (s["a"]["live_bytes"], s["b"]["live_bytes"])
             for s in tidemark("diff", "--json", "--at", "peak", "a.tide", "b.tide").json["sites"]}
    assert sites["cuda"] == (900 * MIB, 950 * MIB)
