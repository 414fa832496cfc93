"""Names of functions in `run --heap`: wherever the debug information lies, and whatever happens to the process that reads it."""

import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess

import pytest

from waiting import wait_for

LIBRARY = r"""
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace lab {
struct keeper {
    void *volatile kept;
    void grow(std::size_t bytes);
};
static inline __attribute__((always_inline)) void *inlined(std::size_t bytes)
{
    return malloc(bytes); /* INNER */
}
__attribute__((noinline)) void keeper::grow(std::size_t bytes)
{
    kept = inlined(bytes); /* OUTER */
    memset(kept, 1, bytes);
}
}

extern "C" void leak(int rounds)
{
    static lab::keeper keeper;
    for (int n = 0; n < rounds; n++) {
        keeper.grow(300 * 1024);
        usleep(5000);
    }
}
"""

PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW);
    void (*leak)(int) = library ? (void (*)(int))dlsym(library, "leak") : NULL;
    if (!leak)
        return 99;
    if (argc > 3 && !strcmp(argv[3], "unlink"))
        unlink(argv[1]);
    puts("loaded");
    fflush(stdout);
    if (argc > 3 && !strcmp(argv[3], "wait"))
        getchar();
    leak(atoi(argv[2]));
    return 0;
}
"""

TEXT = LIBRARY.split("\n")
INNER, OUTER = (next(n for n, line in enumerate(TEXT, 1) if f"/* {word} */" in line) for word in ("INNER", "OUTER"))


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("symbols")
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run([os.environ.get("CC", "cc"), "-g", "-o", folder / "program", folder / "program.c", "-ldl"], check=True)
    return folder / "program"


def make_library(folder, compiler="g++", *options):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    (folder / "library.cc").write_text(LIBRARY)
    subprocess.run([compiler, "-g", "-O1", "-fPIC", "-shared", "-Wl,--build-id", *options, "-o", "library.so", "library.cc"],
                   cwd=folder, check=True)
    return folder / "library.so"


def frames_of(recording, function):
    """(function, file, line, inlined) of the site that goes through the function, innermost first."""
    db = sqlite3.connect(recording)
    sites = db.execute("SELECT DISTINCT s.id FROM site AS s JOIN frames AS f USING (stack) WHERE f.function = ?", [function]).fetchall()
    assert len(sites) == 1, db.execute("SELECT DISTINCT function FROM frames").fetchall()
    return db.execute("SELECT f.function, f.file, f.line, f.inlined FROM site AS s JOIN frames AS f USING (stack)"
                      " WHERE s.id = ? ORDER BY f.depth", sites[0]).fetchall()


def run(tidemark, program, library, rounds=60, *more):
    done = tidemark("run", "--heap", "-i", "50ms", "-o", "a.tide", "--", program, library, str(rounds), *more)
    assert done.code == 0, done.err


def complete(folder):
    """What debug information says of the place that leaks."""
    source = str(folder / "library.cc")
    return [("lab::inlined", source, INNER, 1), ("lab::keeper::grow(unsigned long)", source, OUTER, 0)]


@pytest.mark.parametrize("compiler, options", [
    ("g++", []),
    ("g++", ["-gz=zlib"]),
    ("g++", ["-gdwarf-4"]),
    ("g++", ["-gsplit-dwarf"]),
    ("clang++", []),  # without .debug_aranges
], ids=["plain", "compressed", "DWARF 4", "split", "clang"])
def test_whatever_the_compiler_writes(tidemark, program, tmp_path, compiler, options):
    library = make_library(tmp_path, compiler, *options)
    run(tidemark, program, library)
    name = "lab::keeper::grow(unsigned long)"
    got = frames_of(tmp_path / "a.tide", name)[:2]
    assert [frame[1:] for frame in got] == [frame[1:] for frame in complete(tmp_path)]
    assert got[1][0] == name and got[0][0].startswith("lab::inlined")


@pytest.mark.parametrize("place", [".", ".debug"])
def test_a_debug_file_by_its_link(tidemark, program, tmp_path, place):
    library = make_library(tmp_path)
    (tmp_path / place).mkdir(exist_ok=True)
    subprocess.run(["objcopy", "--only-keep-debug", library, f"{place}/library.debug"], cwd=tmp_path, check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={place}/library.debug", library], cwd=tmp_path, check=True)
    run(tidemark, program, library)
    got = frames_of(tmp_path / "a.tide", "lab::keeper::grow(unsigned long)")[:2]
    assert [frame[1:] for frame in got] == [frame[1:] for frame in complete(tmp_path)]


def test_a_debug_file_of_another_build_is_not_used(tidemark, program, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", make_library(other, "g++", "-DOTHER", "-O2"), tmp_path / "library.debug"], check=True)
    library = make_library(tmp_path)
    subprocess.run(["objcopy", "--strip-debug", "--add-gnu-debuglink=library.debug", library], cwd=tmp_path, check=True)
    run(tidemark, program, library)
    assert frames_of(tmp_path / "a.tide", "lab::keeper::grow(unsigned long)")[0] == ("lab::keeper::grow(unsigned long)", "", None, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="links to mapped files are for the superuser")
def test_a_library_that_was_deleted(tidemark, program, tmp_path):
    library = make_library(tmp_path)
    run(tidemark, program, library, 60, "unlink")
    assert not library.exists()
    got = frames_of(tmp_path / "a.tide", "lab::keeper::grow(unsigned long)")[:2]
    assert [frame[1:] for frame in got] == [frame[1:] for frame in complete(tmp_path)]


# --- the process that reads it


def workers_of(tracker):
    found = []
    for pid in pathlib.Path(f"/proc/{tracker}/task/{tracker}/children").read_text().split():
        if pathlib.Path(f"/proc/{pid}/comm").read_text() == "tidemark-symbol\n":
            found.append(int(pid))
    return found


@pytest.fixture
def tracker(binary, env, program, tmp_path):
    """Of a program that has loaded its library, and waits for a line before it uses it."""
    command = [binary, "run", "--heap", "-i", "50ms", "-o", "a.tide", "--", program, make_library(tmp_path), "60", "wait"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout.readline() == "loaded\n"
        yield process
        if process.poll() is None:
            process.kill()


def test_the_worker_can_only_read(tracker, binary):
    worker, = wait_for(lambda: workers_of(tracker.pid))
    about = pathlib.Path(f"/proc/{worker}/status")
    if pathlib.Path(binary).parent.name in ("asan", "tsan"):  # whose run-time libraries need more
        wait_for(lambda: "NoNewPrivs:\t1" in about.read_text())
    else:
        wait_for(lambda: "Seccomp:\t2" in about.read_text())
        limits = pathlib.Path(f"/proc/{worker}/limits").read_text()
        assert f"Max data size             {4 << 30}" in limits
    status = dict(line.split(":\t", 1) for line in about.read_text().splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    reading = 1 << 2 | 1 << 19 | 1 << 40  # DAC_READ_SEARCH, SYS_PTRACE, CHECKPOINT_RESTORE
    assert int(status["CapPrm"], 16) & ~reading == 0
    assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
    assert os.getsid(worker) == worker
    opened = {os.readlink(link).split(":")[0] for link in pathlib.Path(f"/proc/{worker}/fd").iterdir() if int(link.name) < 3}
    assert opened == {"socket", "/dev/null"}


def test_a_worker_that_is_killed_has_a_successor_and_is_never_tracked(tracker, tmp_path):
    first, = wait_for(lambda: workers_of(tracker.pid))
    os.kill(first, signal.SIGKILL)
    tracker.stdin.write("\n")
    tracker.stdin.flush()
    wait_for(lambda: [pid for pid in workers_of(tracker.pid) if pid != first])
    assert tracker.wait(60) == 0
    assert [frame[1:] for frame in frames_of(tmp_path / "a.tide", "lab::keeper::grow(unsigned long)")[:2]] \
        == [frame[1:] for frame in complete(tmp_path)]
    names = sqlite3.connect(tmp_path / "a.tide").execute("SELECT name FROM process").fetchall()
    assert names == [("program",)]


def test_the_hidden_command_is_in_no_help(tidemark):
    assert "symbol-worker" not in tidemark("help").out
    assert "symbol-worker" not in tidemark("manual").out
    assert "symbol-worker" not in tidemark("completion", "bash").out
