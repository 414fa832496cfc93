"""What every test of the program shares: where it is, and one way to run it.

TIDEMARK_BUILD names the build directory (default build/release), so that the same tests run against a sanitizer
build. Nothing here builds anything: run them through make, or after it.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import textwrap
import time

import pytest

from heap_table import tables

MIB = 1 << 20
ROOT = pathlib.Path(__file__).resolve().parents[2]

# A shell starts what it runs in the background with SIGINT and SIGQUIT ignored, nohup with SIGHUP, and ignored they would stay
# in every program that these tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def build_dir():
    return (ROOT / os.environ.get("TIDEMARK_BUILD", "build/release")).resolve()


@dataclasses.dataclass
class Result:
    """What a program left: exit code (negative: the signal that killed it), stdout and stderr as text, and who it was."""

    code: int
    out: str
    err: str
    pid: int = 0

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture(scope="session")
def root():
    """The top of the tree."""
    return ROOT


@pytest.fixture(scope="session")
def build():
    """The build directory."""
    return build_dir()


@pytest.fixture(scope="session")
def binary(build):
    """Path of the program."""
    path = build / "tidemark"
    assert path.exists(), f"{path} is not there: run make first"
    return path


@pytest.fixture
def open_folder():
    """A directory that every user may enter and write. pytest closes its own again whenever another pytest begins."""
    with tempfile.TemporaryDirectory(prefix="tidemark-test-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o777)
        yield folder


@pytest.fixture(scope="session")
def plain_env():
    """The environment programs run in: nothing of the user's that changes what is printed."""
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS",
                                                         "TSAN_OPTIONS", "LSAN_OPTIONS", "XDG_RUNTIME_DIR")}
    hook = ROOT / "build/release/libtidemark-hook.so"
    if build_dir().name != "release" and hook.exists():
        kept["TIDEMARK_HOOK"] = str(hook)  # a sanitizer's build of it would need the sanitizer in every program
    return {**kept, "LC_ALL": "C.UTF-8", "TERM": "dumb", "TZ": "UTC"}


@pytest.fixture
def env(plain_env):
    """The same, for a test to change."""
    return dict(plain_env)


@pytest.fixture
def run(tmp_path, env):
    """run(argv..., stdin=text, env={more}, cwd=dir, timeout=s) -> Result. Any program; cwd is the test's own
    empty directory."""

    def call(*argv, stdin="", env=None, cwd=None, timeout=120, base=env):
        with subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, errors="replace", env={**base, **(env or {})}, cwd=cwd or tmp_path) as program:
            try:
                out, err = program.communicate(stdin, timeout=timeout)
            except subprocess.TimeoutExpired:
                program.kill()
                raise
        return Result(program.returncode, out, err, program.pid)

    return call


@pytest.fixture
def tidemark(run, binary):
    """tidemark("judge", "a.csv", ...) -> Result; the same keywords as run."""

    def call(*args, **kwargs):
        return run(binary, *args, **kwargs)

    return call


@pytest.fixture(scope="session")
def workload(build):
    """workload("linear") -> path of the built-in workload of that name. TIDEMARK_WORKLOADS says where they are when
    the build is a sanitizer's, whose workloads would use memory of their own."""
    folder = ROOT / os.environ.get("TIDEMARK_WORKLOADS", build / "workloads")

    def find(name):
        path = folder / name
        assert path.exists(), f"{path} is not there: run make first"
        return path

    return find


@pytest.fixture(scope="session")
def commands(binary):
    """Names of all commands, as the program lists them."""
    text = subprocess.run([binary, "help"], capture_output=True, text=True, check=True).stdout
    block = text.split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in block.splitlines()]


@pytest.fixture
def script(tmp_path):
    """script(text) -> path of a Python program with that text, which can import tidemark."""

    def write(text, name="train.py"):
        path = tmp_path / name
        path.write_text(f"import sys\nsys.path.insert(0, {str(ROOT / 'python')!r})\n" + textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def hooked(run, build, tmp_path):
    """hooked(argv..., interval=bytes, seed=n) -> (Result, {(pid, image): Table}): any program
    with the hook preloaded and no tracker."""

    def call(*argv, interval=524288, seed=0, env=None, code=0, **more):
        channel = tmp_path / "channel"
        shutil.rmtree(channel, ignore_errors=True)
        channel.mkdir(mode=0o700)
        result = run(*argv, env={"LD_PRELOAD": build / "libtidemark-hook.so", "TIDEMARK_CHANNEL": str(channel),
                                 "TIDEMARK_HEAP": str(interval), "TIDEMARK_HEAP_SEED": str(seed), **(env or {})}, **more)
        assert result.code == code, result.err
        return result, tables(channel)

    return call


@pytest.fixture
def small_cgroup():
    """A group whose processes may have 64 MiB together, of either version of cgroups; skips where none can be made."""
    for parent, limit, swap in (("/sys/fs/cgroup", "memory.max", "memory.swap.max"),
                                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes")):
        group = pathlib.Path(parent) / f"tidemark-test-{os.getpid()}"
        try:
            (group.parent / "cgroup.procs").stat()
            group.mkdir()
            (group / limit).stat()
        except OSError:
            if group.exists():
                group.rmdir()
            continue
        try:
            (group / limit).write_text(str(64 * MIB))
            if (group / swap).exists():
                (group / swap).write_text("0" if swap == "memory.swap.max" else str(64 * MIB))
        except OSError:
            group.rmdir()
            continue
        yield group
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)  # until the kernel has let go of its last process
        return
    pytest.skip("no memory cgroup can be made here")
