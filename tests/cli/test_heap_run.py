"""tidemark run --heap: planted allocations are in the recording with function, file and line, whatever happens to the
program; and where nothing can be seen, a sentence says why."""

import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import textwrap
import time

import pytest

from waiting import UNTIL, wait_for

KIB, MIB = 1024, 1024 * 1024
MANY = 4000  # rounds of a program that is to be ended: 20 s and 1.2 GiB, should it not be

LEAK = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

void *volatile kept;

static inline __attribute__((always_inline)) void *inlined_grow(size_t bytes)
{
    return malloc(bytes); /* INNER */
}

__attribute__((noinline)) void leak_here(void)
{
    kept = inlined_grow(300 * 1024); /* OUTER */
    memset(kept, 1, 300 * 1024);
}

__attribute__((noinline)) void map_here(void)
{
    kept = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* MAP */
    __asm__ volatile("");
}

__attribute__((noinline)) void hold_and_free(void)
{
    void *volatile p = malloc(2 << 20);
    memset(p, 1, 2 << 20);
    free(p);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    if (argc > 2 && !strcmp(argv[2], "unlink"))
        unlink(argv[0]);
    for (int n = 0; n < rounds; n++) {
        leak_here();
        if (n < 5)
            map_here();
        hold_and_free();
        usleep(5000);
        if (argc > 2 && n == 19) {
            puts("twenty");
            fflush(stdout);
        }
    }
    if (argc > 2 && !strcmp(argv[2], "exec")) {
        execl(argv[0], argv[0], "3", (char *)NULL);
        return 99;
    }
    return 0;
}
"""


def line_of(word, text=LEAK):
    return next(n for n, line in enumerate(text.split("\n"), 1) if f"/* {word} */" in line)


@pytest.fixture(scope="session")
def leak(tmp_path_factory):
    """The program above, built with debug information."""
    folder = tmp_path_factory.mktemp("heap")
    (folder / "leak.c").write_text(LEAK)
    subprocess.run([os.environ.get("CC", "cc"), "-g", "-O0", "-o", folder / "leak", folder / "leak.c"], check=True)
    return folder / "leak"


class Heap:
    """The heap of a recording: sites by the function that asked for the memory."""

    def __init__(self, path):
        self.db = sqlite3.connect(path)

    def stack(self, site):
        return self.db.execute("SELECT f.function, f.file, f.line, f.inlined FROM site AS s JOIN frames AS f USING (stack)"
                               " WHERE s.id = ? ORDER BY f.depth", [site]).fetchall()

    def site_of(self, function):
        """(site, kind) whose stack goes through the function; there must be one."""
        found = self.db.execute("SELECT DISTINCT s.id, s.kind FROM site AS s JOIN frames AS f USING (stack)"
                                " WHERE f.function = ?", [function]).fetchall()
        assert len(found) == 1, found
        return found[0]

    def last(self, site):
        """live bytes, live blocks, total bytes, total blocks"""
        return self.db.execute("SELECT live_bytes, live_blocks, total_bytes, total_blocks FROM site_sample"
                               " WHERE site = ? ORDER BY tick DESC LIMIT 1", [site]).fetchone()


def test_a_leak_is_named_with_function_file_and_line(tidemark, leak, tmp_path):
    done = tidemark("run", "--heap", "-i", "20ms", "-o", "a.tide", "--", leak, "40")
    assert done.code == 0, done.err
    heap = Heap(tmp_path / "a.tide")
    site, kind = heap.site_of("leak_here")
    assert kind == 1
    stack = heap.stack(site)
    assert stack[0] == ("inlined_grow", str(leak) + ".c", line_of("INNER"), 1)
    assert stack[1] == ("leak_here", str(leak) + ".c", line_of("OUTER"), 0)
    assert stack[2][0] == "main"
    assert heap.last(site) == (40 * 300 * KIB, 40, 40 * 300 * KIB, 40)
    rows = heap.db.execute("SELECT live_bytes FROM site_sample WHERE site = ? ORDER BY tick", [site]).fetchall()
    assert len(rows) >= 3 and rows == sorted(rows)
    assert len(set(rows)) == len(rows), "a row that says nothing new"


def test_mappings_and_what_is_freed(tidemark, leak, tmp_path):
    assert tidemark("run", "--heap", "-i", "20ms", "-o", "a.tide", "--", leak).code == 0
    heap = Heap(tmp_path / "a.tide")
    site, kind = heap.site_of("map_here")
    assert kind == 2
    assert heap.stack(site)[0][1:3] == (str(leak) + ".c", line_of("MAP"))
    assert heap.last(site) == (5 * MIB, 5, 5 * MIB, 5)
    freed = heap.last(heap.site_of("hold_and_free")[0])
    assert freed == (0, 0, 20 * 2 * MIB, 20)
    states = heap.db.execute("SELECT state, interval_bytes, dropped_sites FROM heap_state").fetchall()
    assert set(states) == {("on", 512 * KIB, 0)}


def is_stopped(pid):
    return "T (stopped)" in pathlib.Path(f"/proc/{pid}/status").read_text()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_program_leaves_what_it_held(binary, env, leak, tmp_path, number):
    """Killed in the middle: the recording has everything up to the kill, read from what the program left behind."""
    with subprocess.Popen([binary, "run", "--heap", "-i", "10s", "-o", "a.tide", "--", "sh", "-c",
                           f"{leak} {MANY} say & echo $!; wait $!"], cwd=tmp_path, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as tracker:
        pid = int(tracker.stdout.readline())
        assert tracker.stdout.readline() == "twenty\n"
        os.kill(pid, number)
        assert tracker.wait(60) == 128 + number
    heap = Heap(tmp_path / "a.tide")
    site, _ = heap.site_of("leak_here")
    assert heap.stack(site)[1][2] == line_of("OUTER")
    live, blocks, *_ = heap.last(site)
    assert blocks >= 20 and live == blocks * 300 * KIB


def test_a_program_that_no_look_saw_leaves_what_it_held(binary, env, leak, tmp_path):
    """It begins and is killed while the tracker stands still, as it may on a busy machine."""
    with subprocess.Popen([binary, "run", "--heap", "-o", "a.tide", "--", "sh", "-c",
                           f"echo ready; read go; {leak} {MANY} say & echo $!; wait $!"], cwd=tmp_path, env=env,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tracker:
        assert tracker.stdout.readline() == "ready\n"
        os.kill(tracker.pid, signal.SIGSTOP)
        wait_for(lambda: is_stopped(tracker.pid))
        tracker.stdin.write("go\n")
        tracker.stdin.flush()
        pid = int(tracker.stdout.readline())
        assert tracker.stdout.readline() == "twenty\n"
        os.kill(pid, signal.SIGSEGV)
        wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists())
        os.kill(tracker.pid, signal.SIGCONT)
        assert tracker.wait(60) == 128 + signal.SIGSEGV
    heap = Heap(tmp_path / "a.tide")
    site, _ = heap.site_of("leak_here")
    live, blocks, *_ = heap.last(site)
    assert blocks >= 20 and live == blocks * 300 * KIB
    assert ("leak", pid) in heap.db.execute("SELECT name, pid FROM process").fetchall()


def test_a_program_that_runs_into_its_limit(tidemark, leak, tmp_path):
    """malloc fails at last, and the program dies of it."""
    done = tidemark("run", "--heap", "-o", "a.tide", "--", "sh", "-c", f"ulimit -v 400000; exec {leak} {MANY}")
    assert done.code == 128 + signal.SIGSEGV, done.err
    heap = Heap(tmp_path / "a.tide")
    live, blocks, *_ = heap.last(heap.site_of("leak_here")[0])
    assert live == blocks * 300 * KIB
    assert 100 * MIB < live < 400000 * KIB


def test_a_program_that_the_kernel_kills_for_its_memory(tidemark, leak, small_cgroup, tmp_path):
    done = tidemark("run", "--heap", "-o", "a.tide", "--", "sh", "-c", f"echo $$ > {small_cgroup}/cgroup.procs; exec {leak} {MANY}")
    assert done.code == 128 + signal.SIGKILL, done.err
    heap = Heap(tmp_path / "a.tide")
    site, _ = heap.site_of("leak_here")
    assert heap.stack(site)[1][2] == line_of("OUTER")
    live, blocks, *_ = heap.last(site)
    assert live == blocks * 300 * KIB
    assert live > 24 * MIB


def test_a_program_without_debug_information(tidemark, leak, tmp_path):
    shutil.copy(leak, tmp_path / "bare")
    subprocess.run(["strip", "--strip-debug", tmp_path / "bare"], check=True)
    assert tidemark("run", "--heap", "-o", "a.tide", "--", "./bare").code == 0
    heap = Heap(tmp_path / "a.tide")
    site, _ = heap.site_of("leak_here")
    assert heap.stack(site)[0] == ("leak_here", "", None, 0)


def test_a_stripped_program_has_module_and_offset(tidemark, leak, tmp_path):
    shutil.copy(leak, tmp_path / "naked")
    subprocess.run(["strip", tmp_path / "naked"], check=True)
    assert tidemark("run", "--heap", "-o", "a.tide", "--", "./naked").code == 0
    heap = Heap(tmp_path / "a.tide")
    site = heap.db.execute("SELECT site FROM site_sample WHERE live_bytes = ?", [20 * 300 * KIB]).fetchone()[0]
    name = heap.stack(site)[0][0]
    match = re.fullmatch(re.escape(str(tmp_path / "naked")) + r"\+0x([0-9a-f]+)", name)
    assert match, name
    # The same address in the program that has its symbols.
    told = subprocess.run(["addr2line", "-f", "-e", leak, match[1]], capture_output=True, text=True, check=False)
    if told.returncode == 0:
        assert told.stdout.split()[0] in ("leak_here", "inlined_grow")


def test_a_program_that_deletes_its_own_file(tidemark, leak, tmp_path):
    shutil.copy(leak, tmp_path / "gone")
    assert tidemark("run", "--heap", "-o", "a.tide", "--", "./gone", "200", "unlink").code == 0
    assert not (tmp_path / "gone").exists()
    heap = Heap(tmp_path / "a.tide")
    assert heap.stack(heap.site_of("leak_here")[0])[1][1:3] == (str(leak) + ".c", line_of("OUTER"))


def test_a_program_that_only_its_own_mount_namespace_has(tidemark, leak, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    script = f"mount -t tmpfs none {inner} && cp {leak} {inner}/there && exec {inner}/there 200"
    done = tidemark("run", "--heap", "-o", "a.tide", "--", "unshare", "-m", "sh", "-c", script)
    if done.code != 0:
        pytest.skip("no mount namespace can be made here")
    assert not (inner / "there").exists()
    heap = Heap(tmp_path / "a.tide")
    assert heap.stack(heap.site_of("leak_here")[0])[1][1:3] == (str(leak) + ".c", line_of("OUTER"))


def test_an_exec_ends_what_the_image_before_it_held(tidemark, leak, tmp_path):
    assert tidemark("run", "--heap", "-i", "20ms", "-o", "a.tide", "--", leak, "20", "exec").code == 0
    heap = Heap(tmp_path / "a.tide")
    sites = [row[0] for row in heap.db.execute(
        "SELECT DISTINCT s.id FROM site AS s JOIN frames AS f USING (stack) WHERE f.function = 'leak_here' ORDER BY 1")]
    assert len(sites) == 2
    # Whose names are known first is written first.
    assert sorted(heap.last(site) for site in sites) == [(0, 0, 20 * 300 * KIB, 20), (3 * 300 * KIB, 3, 3 * 300 * KIB, 3)]


def test_children_have_sites_of_their_own(tidemark, leak, tmp_path):
    assert tidemark("run", "--heap", "-i", "20ms", "-o", "a.tide", "--", "sh", "-c", f"{leak} 30 & {leak} 60 & wait").code == 0
    heap = Heap(tmp_path / "a.tide")
    found = heap.db.execute(
        "SELECT p.command, max(h.live_blocks), s.stack FROM site_sample AS h JOIN site AS s ON s.id = h.site JOIN process AS p"
        " ON p.id = s.process JOIN frames AS f USING (stack) WHERE f.function = 'leak_here' GROUP BY p.id ORDER BY 2").fetchall()
    # A child may be gone before its command line was read; what it held was not.
    assert [row[1] for row in found] == [30, 60]
    assert found[0][2] == found[1][2], "the same stack is written once"


def test_python_frames_are_named(tidemark, tmp_path):
    (tmp_path / "grow.py").write_text("kept = []\n\ndef grow():\n    kept.append(bytearray(1 << 20))\n\n"
                                      "for n in range(20):\n    grow()\n" + UNTIL +
                                      "until('select 1 from site_sample where live_blocks = 20')\n")
    assert tidemark("run", "--heap", "-i", "20ms", "-o", "a.tide", "--", "/usr/bin/python3", "grow.py").code == 0
    heap = Heap(tmp_path / "a.tide")
    row = heap.db.execute("SELECT s.id, f.file, f.line FROM site AS s JOIN frames AS f USING (stack)"
                          " WHERE f.function = 'grow' AND f.python = 1").fetchall()
    assert [(pathlib.Path(file).name, line) for _, file, line in row] == [("grow.py", 4)]
    # The interpreter frees it on its way out; it held all of it before.
    assert heap.last(row[0][0])[3] == 20
    assert heap.db.execute("SELECT max(live_blocks) FROM site_sample WHERE site = ?", [row[0][0]]).fetchone()[0] == 20


@pytest.mark.unsanitized  # a sanitized tracker wants its runtime first
def test_what_the_user_preloads_stays(tidemark, leak, build, tmp_path):
    other = build / "libtidemark.so"
    done = tidemark("run", "--heap", "-o", "a.tide", "--", "sh", "-c", "echo $LD_PRELOAD", env={"LD_PRELOAD": str(other)})
    assert done.out.strip().endswith(f"libtidemark-hook.so:{other}")
    done = tidemark("run", "-o", "b.tide", "--", "sh", "-c", "echo ${LD_PRELOAD-none}")
    assert done.out == "none\n"


def test_an_interval_of_ones_own(tidemark, leak, tmp_path):
    assert tidemark("run", "--heap-interval", "4KiB", "-o", "a.tide", "--", leak).code == 0
    heap = Heap(tmp_path / "a.tide")
    assert heap.db.execute("SELECT DISTINCT interval_bytes FROM heap_state").fetchall() == [(4 * KIB,)]


@pytest.fixture(params=["-static", "-static-pie"])
def static(request, tmp_path):
    """A program that leaks, is statically linked, and ends with status 3, in the test's directory."""
    (tmp_path / "s.c").write_text("""#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < 300; i++) {
        printf("step %d\\n", i);
        memset(malloc(300000), 1, 300000);
        usleep(10000);
    }
    return 3;
}
""")
    built = subprocess.run(["cc", request.param, "-o", tmp_path / "s", tmp_path / "s.c"], capture_output=True, check=False)
    if built.returncode:
        pytest.skip("no static C library")
    return "./s"


def test_a_static_program_is_named(tidemark, static, tmp_path):
    done = tidemark("run", "--heap", "-i", "20ms", "-o", "a.tide", "--", static)
    assert done.code == 3
    assert "tidemark: --heap saw no allocations: './s' is statically linked, so that nothing can be preloaded into it: link it dynamically" in done.err
    notes = sqlite3.connect(tmp_path / "a.tide").execute("SELECT text FROM note").fetchall()
    assert any("statically linked" in text for text, in notes)
    blame = tidemark("blame", "a.tide")
    assert blame.code == 2 and blame.err.startswith("tidemark: the recording has no call sites: './s' is statically linked")
    # It leaks, and nobody is told to do again what was of no use.
    assert "LEAK" in done.err and "run --heap" not in done.err
    assert tidemark("report", "a.tide", "-o", "a.html").code == 0
    page = (tmp_path / "a.html").read_text()
    assert "statically linked" in page and "record with <code>tidemark run --heap" not in page


def test_nobody_is_sent_to_heap_for_a_static_program(tidemark, static):
    """Nor where another program started it."""
    done = tidemark("run", "-i", "20ms", "-o", "a.tide", "--", "sh", "-c", f"{static}; exit 4")
    assert done.code == 4 and "LEAK in s[" in done.err
    said = "'./s' is statically linked, so that nothing can be preloaded into it: link it dynamically"
    assert f"  next    --heap would not name the code that holds it: {said}" in done.err and "run --heap" not in done.err


def test_a_setuid_program_is_named(tidemark, leak, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can make a program of somebody else's")
    shutil.copy(leak, tmp_path / "other")
    os.chown(tmp_path / "other", 65534, 65534)
    (tmp_path / "other").chmod(0o4755)
    done = tidemark("run", "--heap", "-o", "a.tide", "--", "./other", "2")
    assert done.code == 0
    if "saw no allocations" not in done.err:
        pytest.skip("this file system ignores setuid")
    assert "'./other' runs with privileges of its own (setuid), so that the loader ignores what is preloaded" in done.err


@pytest.mark.parametrize("compiler, flags", [
    ("gcc", ["-fsanitize=address"]), ("gcc", ["-fsanitize=address", "-static-libasan"]), ("gcc", ["-fsanitize=thread"]),
    ("gcc", ["-fsanitize=leak"]), ("clang", ["-fsanitize=address"]), ("clang", ["-fsanitize=thread"]),
    ("clang", ["-fsanitize=leak"]), ("clang", ["-fsanitize=memory"])], ids=str)
def test_a_sanitized_program_is_named(tidemark, tmp_path, compiler, flags):
    (tmp_path / "s.c").write_text("#include <stdlib.h>\n#include <unistd.h>\n"
                                  "int main(void) { for (int i = 0; i < 60; i++) { free(malloc(5)); usleep(5000); } return 3; }\n")
    command = [compiler, *flags, "-o", tmp_path / "s", tmp_path / "s.c"]
    if not shutil.which(compiler) or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("not to be had here")
    done = tidemark("run", "--heap", "-i", "20ms", "-o", "a.tide", "--", "./s")
    assert done.code == 3
    assert "built with a sanitizer, whose allocator is left alone: nothing is seen; build it without" in done.err and "ASan runtime" not in done.err, done.err
    blame = tidemark("blame", "a.tide")
    assert blame.code == 2 and "sanitizer" in blame.err


OWN_MALLOC = """
#include <stdio.h>
#include <string.h>
#include <unistd.h>
void *malloc(size_t n) { char *p = sbrk((long)(n + 31 & ~15ul)); return (void *)(((unsigned long)p + 15) & ~15ul); }
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t s) { return malloc(n * s); }
void *realloc(void *p, size_t n) { void *q = malloc(n); if (p) memcpy(q, p, n); return q; }
int main(void)
{
    static char line[32];
    for (int step = 0; step < 200; step++) {
        write(1, line, (size_t)snprintf(line, sizeof line, "step %d\\n", step));
        memset(malloc(300000), 1, 300000);
        usleep(10000);
    }
    return 0;
}
"""


def test_a_program_with_its_own_malloc_is_named_and_its_leak_no_retention(tidemark, tmp_path):
    """Nothing is known of what it holds, so nothing can be said of what its allocator keeps."""
    (tmp_path / "own.c").write_text(OWN_MALLOC)
    subprocess.run(["cc", "-O1", "-w", "-fno-builtin", "-rdynamic", "-o", tmp_path / "own", tmp_path / "own.c"], check=True)
    done = tidemark("run", "--heap", "-i", "50ms", "-o", "a.tide", "--", "./own")
    assert done.code == 0, done.err
    assert re.search(r"allocations of process \d+: the program has a malloc of its own: only mappings are seen; build it without",
                     done.err), done.err
    assert "LEAK" in done.err and "RETENTION" not in done.err


def test_a_library_with_its_own_new_is_named(tidemark, leak):
    library = next(iter(sorted(pathlib.Path("/usr/lib").glob("*/libjemalloc.so.2"))), None)
    if not library or os.environ.get("TIDEMARK_SANITIZED"):
        pytest.skip("no jemalloc, or a sanitizer's allocator")
    done = tidemark("run", "--heap", "-i", "20ms", "-o", "a.tide", "--", "sh", "-c",
                    f"LD_PRELOAD=$LD_PRELOAD:{library} exec {leak} 60")
    assert done.code == 0
    assert "the library that replaces malloc also serves C++ new" in done.err and "run it without that library" in done.err


def test_a_missing_hook_is_one_sentence(tidemark, tmp_path):
    done = tidemark("run", "--heap", "-o", "a.tide", "--", "true", env={"TIDEMARK_HOOK": "/no/such.so"})
    assert done.code == 2
    assert done.err.startswith("tidemark: --heap: TIDEMARK_HOOK is '/no/such.so'")
    assert not (tmp_path / "a.tide").exists()


def test_without_the_option_nothing_of_it_is_there(tidemark, leak, tmp_path):
    assert tidemark("run", "-o", "a.tide", "--", leak).code == 0
    db = sqlite3.connect(tmp_path / "a.tide")
    for table in ("frame", "stack", "site", "site_sample", "heap_state"):
        assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


# Workers that are forked and come to a new line of code again and again, each of which the hook notes down.
WORKERS = """
import os, time
lines = []
for i in range(400):
    exec(f"def line{i}(): return bytes(150000)", {}, found := {})
    lines.append(found[f"line{i}"])
children = []
for _ in range(2):
    children.append(os.fork())
    if not children[-1]:
        for line in lines:
            line()
            time.sleep(0.02)
        os._exit(0)
for child in children:
    os.waitpid(child, 0)
"""


def test_what_the_hook_takes_up_itself_is_taken_off(tidemark, tmp_path):
    if not os.access("/proc/self/pagemap", os.R_OK):
        pytest.skip("this kernel does not say which pages a process has to itself")
    done = tidemark("run", "--heap", "-i", "50ms", "-o", "a.tide", "--", "/usr/bin/python3", "-c", WORKERS)
    assert done.code == 0, done.err
    db = sqlite3.connect(tmp_path / "a.tide")
    workers = [id for id, in db.execute("SELECT id FROM process WHERE parent = 1")]
    assert len(workers) == 2
    for worker in workers:
        rows = db.execute("SELECT t_ns, anon_bytes + shmem_bytes FROM sample JOIN tick ON tick.id = tick WHERE process = ?"
                          " ORDER BY tick", [worker]).fetchall()
        began, ended = rows[0][0], db.execute("SELECT max(t_ns) FROM tick").fetchone()[0]
        assert ended - began > 7e9
        # The first tables are found, and the hook knows its own size; of a process that just ends nothing is known.
        late = [b for t, b in rows if t > began + 1.5e9 and b is not None]
        assert late and max(late) - min(late) < 300 * KIB, late  # of 2.5 MiB that the hook takes


def test_no_process_stays_behind(binary, env, leak, tmp_path):
    """The server of symbols goes with its tracker, even one that is killed."""
    def servers(parent):
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                text = stat.read_text()
            except OSError:
                continue
            if "(tidemark-symbol)" in text and text.rsplit(")", 1)[1].split()[1] == str(parent):
                found.append(int(stat.parent.name))
        return found

    with subprocess.Popen([binary, "run", "--heap", "-o", "a.tide", "--", leak, str(MANY), "say"], cwd=tmp_path, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tracker:
        assert tracker.stdout.readline() == "twenty\n"
        server, = servers(tracker.pid)
        children = pathlib.Path(f"/proc/{tracker.pid}/task/{tracker.pid}/children").read_text().split()
        program = [int(p) for p in children if pathlib.Path(f"/proc/{p}/comm").read_text() == "leak\n"]
        tracker.send_signal(signal.SIGKILL)
        for pid in program:
            os.kill(pid, signal.SIGKILL)
        assert len(program) == 1
    deadline = time.monotonic() + 30
    state = pathlib.Path(f"/proc/{server}/stat")
    while state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
        assert time.monotonic() < deadline, "the server of symbols outlived its tracker"
        time.sleep(0.05)


CENSUS = """
import pathlib, sys, time, types
sys.modules["torch"] = types.ModuleType("torch")
end = time.monotonic() + float(sys.argv[1])
kept = None
while time.monotonic() < end and not pathlib.Path("asked").exists():
    kept = bytearray(1 << 20)
"""


@pytest.fixture
def asked(tidemark, tmp_path):
    """asked(seconds, option...) -> whether a program that has torch was asked who holds its tensors."""
    package = tmp_path / "package" / "tidemark"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "_asked.py").write_text("def census():\n    open('asked', 'w').close()\n    return 'never'\n")
    (tmp_path / "train.py").write_text(CENSUS)

    def call(seconds, *options):
        done = tidemark("run", "--heap", *options, "-q", "-o", f"{seconds}.tide", "--", "/usr/bin/python3", "train.py", str(seconds),
                        env={"PYTHONPATH": str(package.parent)})
        assert done.code == 0, done.err
        return (tmp_path / "asked").exists()

    return call


def test_a_program_is_asked_who_holds_its_tensors_unless_that_is_not_wanted(asked):
    began = time.monotonic()
    assert not asked(5, "--no-census")
    assert asked(60)
    assert time.monotonic() - began < 60, "it was asked before its time was over"


def test_what_a_handler_that_is_an_object_raises_while_the_census_is_looked_for_reaches_the_program(tidemark, tmp_path):
    (tmp_path / "train.py").write_text(textwrap.dedent("""
        import signal, sys, time, types
        class Alarm(Exception):
            pass
        class Ring:
            def __call__(self, number, frame):
                raise Alarm
        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == "tidemark":
                    signal.raise_signal(signal.SIGALRM)
        signal.signal(signal.SIGALRM, Ring())
        sys.meta_path.insert(0, Finder())
        sys.modules["torch"] = types.ModuleType("torch")
        end = time.monotonic() + 60
        try:
            while time.monotonic() < end:
                kept = bytearray(1 << 20)
        except Alarm:
            print("caught")
    """))
    done = tidemark("run", "--heap", "-q", "-o", "job.tide", "--", "/usr/bin/python3", "train.py")
    assert done.code == 0 and done.out == "caught\n", done.err
