"""The tools that guard the tree can fail: each is shown a fault and must say so."""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import signal

import pytest

from waiting import wait_for


@pytest.fixture
def tree(root, tmp_path):
    """tree({"src/judge/a.c": text}) -> a little tree of its own, with the tools in it."""

    def make(files):
        top = tmp_path / "tree"
        shutil.copytree(root / "tools", top / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        for name, text in files.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(text)
        return top

    return make


@pytest.mark.parametrize(
    "name, text, complaint",
    [
        ("src/judge/a.c", '#include "record/record.h"\n', "src/judge/a.c:1: src/judge may not include 'record/record.h'"),
        ("src/base/a.h", "\n#include <sqlite3.h>\n", "src/base/a.h:2: <sqlite3.h> belongs to src/record"),
        ("src/judge/a.c", "#include <unistd.h>\n", "src/judge/a.c:1: src/judge does no I/O, so no <unistd.h>"),
        ("src/assess/a.c", '#include "show/text/html.h"\n', "src/assess/a.c:1: src/assess may not include 'show/text/html.h'"),
        ("src/show/screen/a.c", '#include "show/report/page.h"\n',
         "src/show/screen/a.c:1: src/show/screen may not include 'show/report/page.h'"),
        ("src/rt/a.c", '#include "sense/sense.h"\n', "src/rt/a.c:1: src/rt may not include 'sense/sense.h'"),
        ("src/rt/a.c", '#include "rt/cpu/matmul.h"\n', "src/rt/a.c:1: src/rt may not include 'rt/cpu/matmul.h'"),
        ("src/hook/a.c", '#include "record/record.h"\n', "src/hook/a.c:1: src/hook may not include 'record/record.h'"),
        ("src/hook/a.c", '#include "base/buf.h"\n', "src/hook/a.c:1: src/hook may not include 'base/buf.h'"),
        ("src/channel/mark.c", '#include "base/buf.h"\n',
         "src/channel/mark.c:1: is linked into other people's programs, so no 'base/buf.h'"),
        ("src/base/a.c", 'void f(void) { printf("x"); }\n',
         "src/base/a.c:1: library code does not print or exit: 'printf('"),
        ("src/base/a.c", "void f(void) { exit(1); }\n",
         "src/base/a.c:1: library code does not print or exit: 'exit('"),
        ("src/base/a.c", '#include "a.h"\n', "src/base/a.c:1: 'a.h' is not named by its layer"),
        ("src/base/utils.c", "", "src/base/utils.c: a name that says nothing"),
        ("src/nowhere/a.c", "", "src/nowhere/a.c: 'src/nowhere' is no layer"),
    ],
)
def test_an_offence_against_the_layers_is_named(tree, run, name, text, complaint):
    done = run(tree({name: text}) / "tools" / "layers")
    assert done.code == 1
    assert done.out.splitlines() == [complaint]


def test_two_files_of_one_name_are_an_offence(tree, run):
    done = run(tree({"src/base/a.c": "", "src/judge/a.c": ""}) / "tools" / "layers")
    assert done.code == 1 and "has the name of" in done.out


def test_what_the_layers_allow_is_no_offence(tree, run):
    done = run(tree({
        "src/base/a.h": "/* never calls printf( or exit( */\n",
        "src/judge/b.c": '#include "base/a.h"\n#include <stdio.h>\nconst char *f(void) { return "exit("; }\n',
        "src/show/text/c.c": '#include "assess/i.h"\n#include "record/d.h"\n#include "base/a.h"\nvoid g(FILE *o) { fprintf(o, "x"); }\n',
        "src/cli/e.c": '#include "sense/f.h"\nvoid h(void) { printf("x"); exit(0); }\n',
    }) / "tools" / "layers")
    assert (done.out, done.code) == ("", 0)


@pytest.fixture
def counted(tree, run):
    """counted({"test_a": script}) -> (counts line, exit code) of the unit part over shell scripts."""

    def call(programs):
        top = tree({f"tests/unit/{name}.c": "" for name in programs})
        for name, script in programs.items():
            path = top / "build" / "release" / "tests" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if script is not None:
                path.write_text("#!/bin/sh\n" + script)
                path.chmod(0o755)
        done = run(top / "tools" / "check", "unit")
        return done.out.splitlines()[-1], done.code

    return call


def test_passed_and_failed_tests_are_counted(counted):
    good = "echo '[  PASSED  ] 3 test(s).'\n"
    assert counted({"test_a": good, "test_b": good}) == ("6 passed, 0 failed", 0)


def test_a_failed_test_fails_the_check(counted):
    good = "echo '[  PASSED  ] 3 test(s).'\n"
    bad = "echo '[  PASSED  ] 2 test(s).'; echo '[  FAILED  ] 1 test(s), listed below:'; exit 1\n"
    assert counted({"test_a": good, "test_b": bad}) == ("5 passed, 1 failed", 1)


@pytest.mark.parametrize("group", ["", "tests: "], ids=["cmocka 1.1.5", "1.1.7"])
def test_a_program_whose_tests_are_all_skipped_is_no_failure(counted, group):
    skips = f"echo '[  PASSED  ] 0 test(s).'; echo '[  SKIPPED ] {group}2 test(s), listed below:'\n"
    assert counted({"test_a": skips}) == ("0 passed, 0 failed", 0)


@pytest.mark.parametrize("script", ["kill -SEGV $$\n", "exit 0\n", "echo '[  PASSED  ] 3 test(s).'; exit 23\n", None],
                         ids=["crash", "silence", "status", "missing"])
def test_a_program_that_does_not_end_well_fails_the_check(counted, script):
    line, code = counted({"test_a": script})
    assert re.fullmatch(r"[03] passed, 1 failed", line) and code == 1


def runs(process):
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_takes_too_long_ends_with_what_it_started(root):
    loader = importlib.machinery.SourceFileLoader("check", str(root / "tools" / "check"))
    check = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(check)
    code, text = check.call(["sh", "-c", "sleep 1000 & echo $!; setsid sleep 1000 & echo $!; wait"], timeout=3)
    children = [pathlib.Path("/proc", number) for number in text.split()[:2]]
    try:
        assert code == 124 and text.endswith("killed after 3 s")
        wait_for(lambda: not any(runs(child) for child in children))
    finally:
        for child in filter(runs, children):
            os.kill(int(child.name), signal.SIGKILL)


@pytest.fixture
def setup(root, run, tmp_path):
    """setup(installed, uid) -> Result of tools/setup test on a system that has those packages and that user. What apt-get
    was told is in tmp_path/apt."""

    def call(installed, uid):
        bin_dir = tmp_path / "bin"
        bin_dir.mkdir(exist_ok=True)
        scripts = {
            "dpkg-query": f'for p; do :; done; case " {installed} " in *" $p "*|" all ") printf installed;; *) exit 1;; esac',
            "id": f"echo {uid}",
            "apt-get": f'echo "$@" >> {tmp_path}/apt',
        }
        for name, script in scripts.items():
            (bin_dir / name).write_text(f"#!/bin/sh\n{script}\n")
            (bin_dir / name).chmod(0o755)
        return run(root / "tools" / "setup", "test", env={"PATH": f"{bin_dir}:/usr/bin:/bin"})

    return call


def test_setup_is_silent_when_nothing_is_missing(setup, tmp_path):
    done = setup("all", 0)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert not (tmp_path / "apt").exists()


def test_setup_tells_a_user_the_one_command(setup, tmp_path):
    done = setup("gcc make", 1000)
    assert done.code == 2
    assert re.search(r"^hint: sudo apt-get install -y --no-install-recommends .*libsqlite3-dev", done.err, re.M)
    assert " gcc" not in done.err
    assert not (tmp_path / "apt").exists()


def test_setup_installs_for_root(setup, tmp_path):
    assert setup("gcc make", 0).code == 0
    told = (tmp_path / "apt").read_text().splitlines()
    assert told[0].startswith("update") and told[1].startswith("install") and "libcmocka-dev" in told[1]


def test_code_is_not_judged_by_a_formatter_of_another_version(root, run, tmp_path):
    formatter = tmp_path / "clang-format"
    formatter.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Debian clang-format version 19.1.7"\n')
    formatter.chmod(0o755)
    said = "the code is laid out by clang-format 14, and here is Debian clang-format version 19.1.7\n"
    done = run("make", "-s", "-C", root, "lint-format", f"CLANG_FORMAT={formatter}")
    assert (done.out, done.code) == ("skipped: " + said, 0)
    done = run("make", "-s", "-C", root, "format", f"CLANG_FORMAT={formatter}")
    assert done.code == 2 and "tidemark: " + said in done.err


def test_what_was_left_out_is_no_success(tree, run):
    rules = "lint-%:\n\t@true\nlint-format:\n\t@echo skipped: no formatter\n"
    done = run(tree({"Makefile": rules}) / "tools" / "check", "lint")
    assert (done.out.splitlines()[-1], done.code) == ("4 passed, 0 failed", 0)
    assert "lint-format skipped: no formatter" in done.out and "1 skipped" in done.out


def test_a_bare_system_is_for_root(root, run, tmp_path):
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    done = run(root / "tools" / "bare", "trixie", env={"PATH": f"{tmp_path}:/usr/bin:/bin", "TIDEMARK_BARE": str(tmp_path / "bare")})
    assert (done.code, done.err) == (2, "tidemark: a bare Debian is made and entered by root: run it as root\n")
    assert not (tmp_path / "bare").exists()


def test_an_old_processor_must_be_taken_for_what_it_is(tree, run, tmp_path):
    """As many runs are shown a Nehalem as a Haswell; all of them find AVX2."""
    (tmp_path / "qemu-x86_64").write_text("#!/bin/sh\necho 'tidemark: this processor has AVX2; products run'\n")
    (tmp_path / "qemu-x86_64").chmod(0o755)
    done = run(tree({}) / "tools" / "check", "old-processors", env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    passed, failed = re.fullmatch(r"(\d+) passed, (\d+) failed", done.out.splitlines()[-1]).groups()
    assert done.code == 1 and passed == failed != "0"
    assert "lm in f32 as Nehalem failed" in done.out and "grpo as Nehalem failed" in done.out and "Haswell failed" not in done.out


def test_the_probe_of_a_gpu_builds_from_the_files_it_names(root, run, tmp_path):
    """It is run where there is a GPU, which is seldom: 77 says that there is none here."""
    got = run(root / "tests" / "gpu" / "run", env={"TMPDIR": tmp_path})
    assert got.code in (0, 77), got.err
