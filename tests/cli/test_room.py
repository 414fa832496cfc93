"""/dev/shm belongs to the job: what the channel takes of it, and what becomes of marks and tables for which there is no room."""

import os
import re
import shutil
import sqlite3
import subprocess

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"),
                                                   reason="needs root, to mount a small /dev/shm")]

MIB = 1 << 20

# COUNT processes mark a step, all at the same moment, and stay until all have. Then the job takes what it may count on: three quarters of /dev/shm, less
# a tenth.
JOB = r"""
#include "tidemark.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 0, begin[2], ready[2], end[2];
    char c = 0;
    if (pipe(begin) || pipe(ready) || pipe(end))
        return 1;
    for (int i = 0; i < count; i++)
        if (!fork()) {
            close(begin[1]);
            close(end[1]);
            if (read(begin[0], &c, 1))
                _exit(1);
            tide_step(i);
            tide_phase_begin("work");
            _exit(write(ready[1], &c, 1) != 1 || read(end[0], &c, 1) != 0);
        }
    close(begin[1]);
    for (int i = 0; i < count; i++)
        if (read(ready[0], &c, 1) != 1)
            return 1;
    struct statvfs about;
    if (statvfs("/dev/shm", &about))
        return 1;
    unsigned long whole = about.f_blocks * about.f_frsize, used = whole - about.f_bavail * about.f_frsize;
    printf("%lu of %lu\n", used, whole);
    fflush(stdout);
    size_t wanted = whole / 40 * 27;
    int fd = open("/dev/shm/job", O_RDWR | O_CREAT, 0600);
    char *p = ftruncate(fd, (off_t)wanted) ? MAP_FAILED : mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return 1;
    memset(p, 1, wanted); /* SIGBUS, if somebody else has it */
    close(end[1]);
    int status, bad = 0;
    while (wait(&status) > 0)
        bad |= status;
    return bad != 0;
}
"""
# Each line is a stack of its own.
STACKS = """
import os
lines = []
for i in range(10000):
    exec(f"def line{i}(): return bytes(150000)", {}, found := {})
    lines.append(found[f"line{i}"])
children = []
for _ in range(4):
    children.append(os.fork())
    if not children[-1]:
        for line in lines:
            line()
        os._exit(0)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
about = os.statvfs("/dev/shm")
print(about.f_blocks - about.f_bavail, "of", about.f_blocks)
"""
# Every page that it may touch is filled at once.
LOCKS = """
import ctypes, os, sys
bytes(1 << 20)
if ctypes.CDLL(None).mlockall(3):  # MCL_CURRENT | MCL_FUTURE
    sys.exit("may not lock memory")
kept = [bytearray(1 << 20) for _ in range(20)]
about = os.statvfs("/dev/shm")
print(about.f_blocks - about.f_bavail, "of", about.f_blocks, flush=True)
os._exit(0)
"""


@pytest.fixture
def job(root, build, tmp_path):
    (tmp_path / "job.c").write_text(JOB)
    subprocess.run(["cc", "-I", root / "include", "-o", tmp_path / "job", tmp_path / "job.c", build.parent / "release" / "libtidemark.a"], check=True)
    return tmp_path / "job"


@pytest.fixture
def confined(run, binary):
    """confined(mounts, argv...) -> Result of `tidemark run ... -o a.tide -- argv` with small memory file systems at these places."""

    def call(mounts, *argv, options=()):
        lines = [f"mount -t tmpfs -o size={size} none {place} || exit 99" for place, size in mounts.items()]
        done = run("unshare", "-m", "sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh", binary, "run", *options, "-o", "a.tide",
                   "--", *argv)
        if done.code == 99 or "unshare failed" in done.err:
            pytest.skip("may not mount")
        return done

    return call


def used_of(done):
    used, whole = done.out.splitlines()[-1].split(" of ")
    return int(used) / int(whole)


def test_the_job_keeps_its_shared_memory_whoever_marks(confined, job, tmp_path):
    done = confined({"/dev/shm": "64m"}, job, 120)
    assert done.code == 0, done.err
    assert used_of(done) <= 0.25  # also when they ask at the same moment
    db = sqlite3.connect(tmp_path / "a.tide")
    assert sorted(n for n, in db.execute("SELECT number FROM mark WHERE kind = 1")) == list(range(120))
    assert not [text for text, in db.execute("SELECT text FROM note") if "lost" in text]


def test_a_full_shared_memory_is_left_alone(confined, job, tmp_path):
    """A quarter is taken already: everything goes elsewhere."""
    done = confined({"/dev/shm": "1m"}, job, 3)
    assert done.code == 0 and used_of(done) < 0.01
    db = sqlite3.connect(tmp_path / "a.tide")
    assert db.execute("SELECT count(*) FROM mark WHERE kind = 1").fetchone() == (3,)


def test_marks_without_any_room_are_said_to_be_lost(run, binary, job, tmp_path):
    """The tests' own directory, and perhaps the program, are under /tmp, which is hidden here."""
    home = tmp_path / "home"
    home.mkdir()
    done = run("unshare", "-m", "sh", "-c", f"""
        mount --bind {home} /mnt || exit 99
        cp {job} /mnt/job && cp {binary} /mnt/tidemark && cd /mnt
        for place in /dev/shm /var/tmp /tmp; do mount -t tmpfs -o size=64k none $place || exit 99; done
        ./tidemark run -o a.tide -- ./job 3""")
    if done.code == 99 or "unshare failed" in done.err:
        pytest.skip("may not mount")
    assert done.code == 0, done.err
    texts = [text for text, in sqlite3.connect(home / "a.tide").execute("SELECT text FROM note")]
    told, = [text for text in texts if "no room for the marks" in text]
    assert re.search(r"of 3 processes, such as (job\[\d+\]|process \d+), in /dev/shm/tidemark-", told) and told in done.err


def test_tables_leave_three_quarters_too(confined, tmp_path):
    done = confined({"/dev/shm": "8m"}, "/usr/bin/python3", "-c", STACKS, options=["--heap"])
    assert done.code == 0, done.err
    assert used_of(done) <= 0.26
    db = sqlite3.connect(tmp_path / "a.tide")
    assert db.execute("SELECT count(DISTINCT process) FROM site").fetchone()[0] >= 4


def test_a_program_that_locks_its_memory_fills_no_table(confined, tmp_path):
    done = confined({"/dev/shm": "8m"}, "/usr/bin/python3", "-c", LOCKS, options=["--heap"])
    if "may not lock" in done.err:
        pytest.skip("may not lock memory")
    assert done.code == 0, done.err
    assert used_of(done) <= 0.26
    db = sqlite3.connect(tmp_path / "a.tide")
    assert db.execute("SELECT max(live_bytes) FROM site_sample").fetchone()[0] >= 20 * MIB
