"""Sizes on the command line: one meaning in every command, and a question where none can be meant."""

import pytest

PLAN = ["plan", "--model", "gpt2", "--batch", "1", "--seq", "64"]
TRAIN = ["train", "lm", "--preset", "tiny", "--dry-run"]
TAKES_SIZES = ["run", "attach", "judge", "watch", "plan", "train lm", "train grpo"]
LEAK = "step,rss_mb\n" + "".join(f"{i},{1000 + 10 * i}\n" for i in range(200))

EVERY_OPTION = [
    (["run"], "limit", ["--", "true"]),
    (["attach"], "limit", ["1"]),
    (["judge"], "limit", ["-"]),
    (["watch"], "limit", ["--", "true"]),
    (PLAN, "device-memory", []),
    (PLAN, "explain", []),
    (PLAN + ["--explain", "9G"], "per-step", []),
    (TRAIN, "budget", []),
]


@pytest.mark.parametrize("command, option, rest", EVERY_OPTION, ids=[f"{c[0]}-{o}" for c, o, _ in EVERY_OPTION])
@pytest.mark.parametrize("typed, meant", [("16", "16G"), ("1.5", "1.5G"), ("640", "640M"), ("64000", "64000M")])
def test_a_small_number_without_a_unit_is_asked_about(tidemark, command, option, rest, typed, meant):
    done = tidemark(*command, f"--{option}", typed, *rest, stdin=LEAK)
    assert (done.code, done.out) == (2, "")
    name = "train lm" if command == TRAIN else command[0]
    assert done.err == f"tidemark: {name}: option '--{option}': {typed} means {typed} bytes\nhint: did you mean '{meant}'?\n"


@pytest.mark.parametrize("size, limit, said", [
    ("24G", 24_000_000_000, "24 GB = 22.4 GiB"),
    ("24g", 24_000_000_000, "24 GB = 22.4 GiB"),
    ("24GB", 24_000_000_000, "24 GB = 22.4 GiB"),
    ("24Gi", 24 << 30, "25.77 GB = 24.0 GiB"),
    ("24GiB", 24 << 30, "25.77 GB = 24.0 GiB"),
    ("24000000000", 24_000_000_000, "24 GB = 22.4 GiB"),
])
def test_g_is_a_power_of_1000_and_gib_of_1024_in_every_command(tidemark, size, limit, said):
    judged = tidemark("judge", "--limit", size, "-", stdin=LEAK)
    assert f"  limit   {said} (--limit) is reached at step" in judged.out
    assert tidemark("judge", "--json", "--limit", size, "-", stdin=LEAK).json["limit_bytes"] == limit
    tidemark("run", "--limit", size, "-o", "a.tide", "--", "true")
    shown = tidemark("show", "--what", "limits", "--json", "a.tide").json["limits"]
    assert {"t_s": 0, "bytes": limit, "name": "--limit"} in [{**each, "t_s": 0} for each in shown]
    planned = tidemark(*PLAN, "--device-memory", size)
    assert f"device        {said}: fits" in planned.out
    assert tidemark(*TRAIN, "--budget", size, "--json").json["budget_bytes"] == limit
    assert f" of {said}\n" in tidemark(*TRAIN, "--budget", size).out


@pytest.mark.parametrize("command", TAKES_SIZES)
def test_help_says_what_sizes_mean(tidemark, command):
    said = " ".join(tidemark(*command.split(), "-h").out.split())
    assert "Sizes: K, M and G are powers of 1000, as KB, MB and GB are; KiB, MiB and GiB (Ki, Mi, Gi) are powers of 1024." in said


def test_help_of_a_command_without_sizes_does_not_speak_of_them(tidemark):
    assert "Sizes:" not in tidemark("show", "-h").out


def test_a_budget_that_is_too_small_is_said_in_both_units(tidemark):
    done = tidemark(*TRAIN, "--budget", "100K")
    assert done.code == 2
    assert done.err.startswith("tidemark: nothing exact fits into 100 KB = 97.7 KiB: the least possible is ")


def test_the_interval_of_samples_is_bytes_without_a_question(tidemark):
    assert tidemark("run", "--heap-interval", "64", "-o", "a.tide", "--", "true").code == 0


def test_what_a_table_shows_can_be_typed(tidemark):
    tidemark("run", "--limit", "2GiB", "-o", "a.tide", "--", "true")
    assert "2.0Gi --limit" in tidemark("show", "--what", "limits", "a.tide").out


@pytest.mark.parametrize("cell, bytes_", [("512M", 512 << 20), ("512 MB", 512_000_000), ("512Mi", 512 << 20)])
def test_one_letter_in_a_log_is_what_the_tools_that_write_logs_mean(tidemark, cell, bytes_):
    log = "step,rss\n" + "".join(f"{i},{cell}\n" for i in range(100))
    assert tidemark("judge", "--json", "-", stdin=log).json["floor_last_bytes"] == bytes_
