"""What ships, by what its files say: it is hardened, runs on older systems, and is what unit tests link."""

import os
import re
import subprocess

import pytest


def readelf(*args):
    return subprocess.run(["readelf", "-W", *args], capture_output=True, text=True, check=True).stdout


@pytest.fixture(autouse=True)
def release_alone(build):
    if build.name != "release":
        pytest.skip("other builds do not ship")


each_file = pytest.mark.parametrize("name", ["tidemark", "libtidemark.so", "libtidemark-hook.so"])


@each_file
def test_relocations_are_done_at_once_and_read_only_then(build, name):
    assert re.search(r"\bGNU_RELRO\b", readelf("-l", build / name))
    assert re.search(r"\((FLAGS|FLAGS_1)\).*\b(BIND_NOW|NOW)\b", readelf("-d", build / name))


@each_file
def test_the_stack_cannot_be_executed(build, name):
    stack = re.search(r"GNU_STACK.*", readelf("-l", build / name))[0].split()
    assert stack[6] == "RW"


@each_file
def test_a_stack_that_was_written_over_is_noticed(build, name):
    assert "__stack_chk_fail" in readelf("--dyn-syms", build / name)


def test_writes_behind_the_end_of_a_buffer_are_noticed(build):
    """The libraries have no call whose buffer's size is known and whose length is not, so nothing shows there."""
    assert re.search(r"\b__(memcpy|snprintf)_chk@GLIBC", readelf("--dyn-syms", build / "tidemark"))


def test_the_program_can_be_loaded_anywhere(build):
    assert re.search(r"Type:\s+DYN \(Position-Independent Executable file\)", readelf("-h", build / "tidemark"))
    assert re.search(r"\(FLAGS_1\).*\bPIE\b", readelf("-d", build / "tidemark"))


@each_file
@pytest.mark.skipif(os.confstr("CS_GNU_LIBC_VERSION") != "glibc 2.36", reason="is about what Debian 12 builds")
def test_systems_from_2021_on_can_run_it(build, name):
    """They have glibc 2.34: wheels go to other systems than the one that built them."""
    versions = re.findall(r"@GLIBC_2\.(\d+)", readelf("--dyn-syms", build / name))
    assert max(map(int, versions)) <= 34


def test_unit_tests_link_the_objects_of_the_hook_that_ships(build):
    members = subprocess.run(["ar", "t", build / "libhook.a"], capture_output=True, text=True, check=True).stdout.split()
    assert "recorder.o" in members
    for member in members:
        tested = subprocess.run(["ar", "p", build / "libhook.a", member], capture_output=True, check=True).stdout
        assert tested == (build / "hook" / "hook" / member).read_bytes(), member
