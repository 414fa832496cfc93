"""A named pipe in the place of a file: nothing waits for ever for somebody at its other end."""

import os
import pathlib

import pytest

from recording import MIB, Recording

FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures"


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("args", [["judge"], ["show"], ["blame"], ["report"], ["plan", "--model"], ["watch", "--dump"],
                                  ["train", "lm", "--dry-run", "--config"], ["train", "lm", "--dry-run", "--data"]])
def test_a_pipe_that_nobody_writes_to_is_refused(tidemark, pipe, args):
    got = tidemark(*args, pipe, timeout=60)
    assert got.code == 2 and got.out == ""
    assert "nobody writes to this pipe" in got.err or "not a regular file" in got.err


@pytest.mark.parametrize("args", [["judge"], ["train", "lm", "--dry-run", "--config"]])
def test_a_device_is_not_read(tidemark, args):
    got = tidemark(*args, "/dev/zero", timeout=60)
    assert (got.code, got.out, got.err) == (2, "", "tidemark: cannot read '/dev/zero': it is a device\n")


def test_a_page_is_not_written_into_a_pipe_that_nobody_reads(tidemark, pipe, tmp_path):
    recording = Recording(tmp_path / "a.tide")
    recording.process(7, "python")
    for i in range(20):
        recording.tick(i, {1: 50 * MIB})
    got = tidemark("export", "--format", "csv", "-o", pipe, recording.close(), timeout=60)
    assert got.code == 2 and "cannot write" in got.err


def test_a_pipe_that_was_written_to_is_read_from_its_first_byte(tidemark, pipe):
    """What was written stays as long as somebody has it open, so that the reader may come as late as it likes."""
    log = FIXTURES / "vision-663.csv"
    other_reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        pipe.write_bytes(log.read_bytes())
        piped = tidemark("judge", pipe, timeout=60)
    finally:
        os.close(other_reader)
    assert (piped.code, piped.out) == (0, tidemark("judge", log).out)
