"""tidemark judge: the answer, its exit code and its JSON, on logs that people have."""

import json
import math
import pathlib
import random
import re

import pytest

from recording import EPOCH, MIB, SECOND, STEP, Recording

FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures"

REQUIRED = [
    "schema", "verdict", "shape", "bytes_per_step", "bytes_per_step_low", "bytes_per_step_high", "knee_step",
    "ceiling_bytes", "bytes_per_item", "jump_step", "limit_bytes", "limit_step", "steps_needed", "confidence", "sentence",
]


def series(tmp_path, values, name="run.csv", header="step,rss_mb"):
    path = tmp_path / name
    path.write_text(header + "\n" + "".join(f"{x},{y}\n" for x, y in values))
    return path


def noisy(count, at, shake=2.0, seed=7):
    dice = random.Random(seed)
    return [(i, f"{at(i) + dice.gauss(0, shake):.3f}") for i in range(count)]


def test_the_published_663_image_run_is_one_pass(tidemark):
    got = tidemark("judge", "--json", "--items", "663", "--per-step", "8", FIXTURES / "vision-663.csv")
    assert got.code == 0, got.err
    document = json.loads(got.out)
    assert document["schema"] == "tidemark.verdict/1"
    assert document["verdict"] == "plateau"
    assert abs(document["knee_step"] - 83) <= 5
    assert 17e6 <= document["bytes_per_item"] <= 23e6
    assert document["one_pass"] is True
    assert "one pass over 663 items" in document["sentence"]


def test_the_published_100_image_run_is_one_pass(tidemark):
    got = tidemark("judge", "--json", "--items", "100", "--per-step", "8", FIXTURES / "vision-100.csv")
    document = json.loads(got.out)
    assert document["verdict"] == "plateau"
    assert document["knee_step"] == 12.5


def test_five_samples_without_more_knowledge_are_undecided(tidemark):
    got = tidemark("judge", FIXTURES / "vision-100.csv")
    assert got.code == 3
    assert got.out.startswith("tidemark: UNDECIDED about rss_mb\n")
    assert "more steps would settle a leak of" in got.out


def test_a_leak_exits_1_and_says_rate_and_limit(tidemark, tmp_path):
    path = series(tmp_path, noisy(800, lambda i: 4000 + 0.5 * i))
    got = tidemark("judge", "--json", "--limit", "8GB", path)
    assert got.code == 1
    document = json.loads(got.out)
    for key in REQUIRED:
        assert key in document, key
        assert key in document["series"][0] or key == "schema"
    assert document["verdict"] == "leak" and document["shape"] == "linear"
    assert document["bytes_per_step_low"] <= 0.5e6 <= document["bytes_per_step_high"]
    assert abs(document["limit_step"] - 8000) < 200
    assert document["limit_bytes"] == 8_000_000_000
    assert document["knee_step"] is None and document["jump_step"] is None


def test_without_steps_rates_are_per_second_under_their_own_name(tidemark, tmp_path):
    path = series(tmp_path, noisy(800, lambda i: 4000 + 0.5 * i), header="t_s,rss_mb")
    document = json.loads(tidemark("judge", "--json", path).out)
    assert document["verdict"] == "leak"
    assert document["bytes_per_step"] is None
    assert math.isclose(document["bytes_per_second"], 0.5e6, rel_tol=0.05)


def test_a_flat_run_exits_0(tidemark, tmp_path):
    got = tidemark("judge", series(tmp_path, noisy(800, lambda i: 4000)))
    assert got.code == 0
    assert got.out.startswith("tidemark: FLAT: no leak in rss_mb\n")


def test_a_jump_is_placed_on_its_step(tidemark, tmp_path):
    path = series(tmp_path, noisy(400, lambda i: 4000 if i < 137 else 5000))
    document = json.loads(tidemark("judge", "--json", path).out)
    assert document["verdict"] == "jump"
    assert document["jump_step"] == 137


def test_several_files_give_the_worst_exit_code(tidemark, tmp_path):
    flat = series(tmp_path, noisy(800, lambda i: 4000), "flat.csv")
    leak = series(tmp_path, noisy(800, lambda i: 4000 + i), "leak.csv")
    got = tidemark("judge", flat, leak)
    assert got.code == 1
    assert "flat.csv\ntidemark: FLAT" in got.out and "leak.csv\ntidemark: LEAK" in got.out
    assert tidemark("judge", flat, leak, tmp_path / "missing.csv").code == 2


def test_quiet_says_nothing(tidemark, tmp_path):
    got = tidemark("judge", "-q", series(tmp_path, noisy(800, lambda i: 4000 + i)))
    assert (got.code, got.out, got.err) == (1, "", "")


def test_a_log_comes_in_by_pipe(tidemark):
    lines = "".join(f"{x} {y}\n" for x, y in noisy(400, lambda i: 4000 + i))
    got = tidemark("judge", "--unit", "MB", "-", stdin=lines)
    assert got.code == 1


def test_trouble_is_one_sentence_and_exit_2(tidemark, tmp_path):
    cases = {
        "no unit": ("step,rss\n1,2\n", "has no unit"),
        "short row": ("step,rss_mb\n1,2\n3\n", "line 3 has 1 fields"),
        "no memory": ("step,loss\n1,2\n", "no column looks like memory"),
        "binary": ("\0\1\2", "NUL byte"),
        "empty": ("", "no rows"),
        "words": ("step,rss_mb\n1,much\n", "not a number"),
    }
    for name, (text, sentence) in cases.items():
        path = tmp_path / "bad.csv"
        path.write_text(text)
        got = tidemark("judge", path)
        assert got.code == 2, name
        assert got.out == ""
        assert got.err.startswith("tidemark: ") and sentence in got.err, got.err
    assert tidemark("judge").code == 2
    assert tidemark("judge", tmp_path).code == 2
    assert tidemark("judge", "--items", "5", FIXTURES / "vision-100.csv").code == 2
    assert tidemark("judge", "--unit", "furlong", FIXTURES / "vision-100.csv").code == 2


@pytest.mark.parametrize("options, sentence", [
    (["--unit", "QB"], "judge: --unit is for a plain series, and 'a.tide' is a recording"),
    (["--column", "rss"], "judge: --column is for a plain series, and 'a.tide' is a recording"),
    (["--json", "--quiet"], "judge: --json and --quiet cannot be used together"),
    (["--all", "--quiet"], "judge: --all and --quiet cannot be used together"),
])
def test_options_that_would_do_nothing_are_refused(tidemark, tmp_path, options, sentence):
    r = Recording(tmp_path / "a.tide")
    r.tick(1, {r.process(1, "a"): 5})
    r.close()
    done = tidemark("judge", *options, "a.tide")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0] == f"tidemark: {sentence}"


def test_hostile_column_names_reach_the_terminal_escaped(tidemark, tmp_path):
    path = series(tmp_path, noisy(400, lambda i: 4000), header="step,\x1b[31mrss_mb")
    got = tidemark("judge", path)
    assert got.code == 0
    assert "\x1b" not in got.out and "\\x1b[31mrss_mb" in got.out


def test_what_comes_before_the_first_epoch_is_not_judged(tidemark, tmp_path):
    """Loading PyTorch takes a minute on a busy machine."""
    r = Recording(tmp_path / "a.tide")
    r.process(100, "python")
    for epoch in range(10):
        r.mark(52 + 14 * epoch, EPOCH, epoch)
    for i in range(4 * 192):
        r.tick(i / 4, {1: int((120 if i / 4 >= 52 else 2.2 * i / 4) * MIB) + i % 5 * 4096})
    r.meta(ended_ns=192 * SECOND, exit_status=0)
    assert tidemark("judge", "--json", r.close()).json["verdict"] == "flat"


def test_helpers_that_end_with_the_last_step_are_others(tidemark, tmp_path):
    """A program takes its time to end."""
    r = Recording(tmp_path / "a.tide")
    main = r.process(100, "python", ended=100)
    workers = [r.process(101 + i, "worker", parent=main, ended=84 + i) for i in range(3)]
    for t in range(100):
        r.tick(t, {main: (100 + (t if t < 80 else 80)) * MIB, **{w: 10 * MIB for w in workers if t < 84}})
        if t < 84:
            r.mark(t, STEP, t)
    r.meta(ended_ns=100 * SECOND, exit_status=0)
    assert tidemark("judge", "--json", r.close()).json["others"].startswith("3 x worker steady")


@pytest.mark.parametrize("rss, said", [(120, " but 198 MiB counted once (PSS)"), (90, "")])
def test_what_others_took_since_pss_was_read_counts(tidemark, tmp_path, rss, said):
    """The parent was read once, with 2 MiB of others', and has 200 MiB now; of 90 MiB then too little was seen to tell."""
    r = Recording(tmp_path / "a.tide")
    main = r.process(100, "python", ended=100)
    worker = r.process(101, "worker", parent=main, ended=100)
    for t in range(100):
        tick = r.tick(t, {main: (rss if t == 0 else 200) * MIB, worker: (50 + t) * MIB})
        r.mark(t, STEP, t)
        if t == 0:
            r.put("smaps", tick=tick, process=main, pss_bytes=(rss - 2) * MIB, uss_bytes=(rss - 4) * MIB)
    r.meta(ended_ns=100 * SECOND, exit_status=0)
    assert tidemark("judge", "--json", r.close()).json["others"] == "1 other process steady, 200 MiB RSS" + said


@pytest.mark.parametrize("every", [90, 45])
def test_pages_of_its_own_are_known_only_where_they_were_read(tidemark, tmp_path, every):
    """A process that something started is read while it loads, before its first step, and the next time 100 steps later: it is level,
    whatever a few readings leave open."""
    r = Recording(tmp_path / "a.tide")
    launcher = r.process(100, "python", role="launch.py", ended=900)
    main = r.process(101, "python", parent=launcher, role="train.py", ended=900)
    for t in range(900):
        tick = r.tick(t, {launcher: 5 * MIB, main: (530 if t >= 10 else 360) * MIB})
        if t >= 10:
            r.mark(t, STEP, t - 9)
        if t in (0, 3, 9) or t % every == 20 and t > 100:
            own = 131 if t < 10 else 306 + t // every % 3
            r.put("smaps", tick=tick, process=main, pss_bytes=(own + 90) * MIB, uss_bytes=own * MIB)
    r.meta(ended_ns=900 * SECOND, exit_status=0)
    got = tidemark("judge", r.close())
    assert got.out.startswith("tidemark: FLAT: no leak"), got.out


@pytest.mark.parametrize("parent_grows, how", [(0, "steady"), (32 * 1024, "grows too")])
def test_workers_that_grow_together_are_not_among_the_others(tidemark, tmp_path, parent_grows, how):
    r = Recording(tmp_path / "a.tide")
    r.meta(command="train.py", started_wall_s=1, interval_ns=SECOND // 10, exit_status=0, ended_ns=40 * SECOND)
    parent = r.process(100, "python3", role="train.py")
    workers = [r.process(101 + i, "python3", parent=1, role="worker of train.py") for i in range(3)]
    for step in range(400):
        r.tick(step / 10, {parent: 20 * MIB + parent_grows * step, **{w: 10 * MIB + 50_000 * step for w in workers}})
        r.mark(step / 10, STEP, step)
    found = tidemark("judge", "--json", r.close()).json
    assert found["verdict"] == "leak" and found["others"].startswith(f"1 other process {how}, "), found


def test_a_floor_that_moves_is_not_said_to_stay(tidemark, tmp_path):
    """A collector that runs every 170 steps: its floor is no level, least of all the mean."""
    (tmp_path / "a.csv").write_text("step,rss_mib\n" + "".join(f"{i},{500 + i % 170 * 4}\n" for i in range(400)))
    said = tidemark("judge", "a.csv").out
    assert said.startswith("tidemark: FLAT"), said
    low, high = re.search(r"the floor moves between ([\d.]+) MiB and ([\d.]+) MiB without a trend;", said).groups()
    assert float(low) < 520 and float(high) > 900, said
