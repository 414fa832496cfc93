"""`tidemark train selfplay`: what it says and keeps, that it goes on to the bit, and what faults get."""

import filecmp
import json
import os
import resource
import signal
import sqlite3
import subprocess
import time

import pytest

from waiting import has, wait_for

SMALL = ("--simulations", 12, "--games-at-once", 6, "--positions", 40, "--batch", 16, "--replay", 300, "--match-games", 4)
TICTACTOE = ("--game", "tictactoe", "--net", "plain:1x8")
EVEN = ("--schedule", "constant")  # the same rate whatever the number of steps
FILES = ("config.json", "model.safetensors", "optimizer.safetensors", "replay.bin")


@pytest.fixture
def selfplay(tidemark):
    """selfplay(args...) -> Result of three small steps of tic-tac-toe with a net that is quick, unless another game is named,
    which gets the net that it has by default."""

    def call(*args, **more):
        game = () if "--game" in args or "--resume" in args else TICTACTOE
        return tidemark("train", "selfplay", *game, *SMALL, "--steps", 3, *args, **more)

    return call


def lines(result):
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def test_steps_tell_what_was_played_and_learned(selfplay):
    made = lines(selfplay("--json", "--report-every", 1))
    assert [line["step"] for line in made] == [1, 2, 3] and made[-1]["final"]
    assert made[-1]["schema"] == "tidemark.selfplay/1"
    assert {"loss", "policy_loss", "value_loss", "games", "game_length", "first_wins_share", "draws_share", "replay_positions",
            "simulations_per_second", "positions_per_second", "elo", "elo_low", "elo_high", "trees_full", "trees_high_bytes",
            "plan_bytes", "arena_high_bytes", "rss_bytes"} <= made[-1].keys()
    assert made[-1]["plan_bytes"] == made[-1]["arena_high_bytes"]
    assert made[-1]["elo_low"] <= made[-1]["elo"] <= made[-1]["elo_high"]
    assert made[-1]["games"] >= 3 * 40 / 9 and 5 <= made[-1]["game_length"] <= 9
    assert abs(made[0]["loss"] - made[0]["policy_loss"] - made[0]["value_loss"]) < 1e-4


@pytest.mark.parametrize("game", [pytest.param(("tictactoe",), marks=pytest.mark.slow),  # a kill goes on to the bit with sanitizers
                                  pytest.param(("connect4", "--openings", 0.5), marks=pytest.mark.long),
                                  pytest.param(("gomoku", "--board", 6, "--exact", "--openings", 0.5), marks=pytest.mark.slow)], ids=str)
def test_a_run_that_is_resumed_has_the_same_bits_with_any_number_of_threads(selfplay, tmp_path, game):
    one, two = tmp_path / "one", tmp_path / "two"
    run = ("--game", *game, "--eval-every", 1)
    assert selfplay(*run, "--out", one, "--threads", 1, "--steps", 4).code == 0
    assert selfplay(*run, "--out", two, "--threads", 3, "--steps", 2).code == 0
    again = selfplay("--out", two, "--resume", "auto", "--steps", 4, "--eval-every", 1, "--threads", 2)
    assert again.code == 0 and "resumed  after step 2" in again.out, again.err
    for name in FILES:
        assert filecmp.cmp(one / "step-00000004" / name, two / "step-00000004" / name, shallow=False), name


def test_the_layout_names_trees_replay_and_cache(selfplay, tidemark, binary):
    plan = selfplay("--game", "gomoku", "--board", 15, "--net", "10x96", "--simulations", 400, "--games-at-once", 64, "--replay",
                    500000, "--batch", 256, "--budget", "1.5G", "--dry-run", "--json").json
    assert plan["plan_bytes"] <= 1_500_000_000
    # 64 trees, two halves, at most 24 bytes for each of 225 moves of 400 positions.
    assert plan["trees_bytes"] <= 64 * (2 * 24 * (401 * 225 + 1) + 1024)
    assert plan["replay_bytes"] >= 500000 * (57 + 2 * 225)
    assert plan["cache_bytes"] == 32 << 20
    shown = tidemark("plan", "--", binary, "train", "selfplay", "--game", "gomoku", "--net", "10x96").out
    assert all(word in shown for word in ("weights", "optimizer", "trees", "replay", "cache", "selfplay")), shown


def test_a_plan_counts_weights_that_playing_keeps(tidemark, binary):
    """Of a plain tower, for the net and its rival: 36 numbers for each 9 of a convolution, norms folded in."""
    plan = tidemark("plan", "--json", "--", binary, "train", "selfplay", "--game", "gomoku", "--net", "plain:2x96").json
    weights = {phase["name"]: phase["parts"]["weights"] for phase in plan["phases"]}
    assert weights["evaluation"] - weights["forward"] >= 2 * 4 * 36 * 96 * 96 * 4



@pytest.mark.slow  # test_search_memory sees full trees with sanitizers
def test_a_full_tree_is_searched_on_and_told(selfplay):
    made = lines(selfplay("--game", "gomoku", "--board", 6, "--children", 100, "--simulations", 60, "--json"))
    assert made[-1]["trees_full"] > 0


@pytest.mark.parametrize("words, said", [
    (("--game", "gomoku", "--board", 4), "board"),
    (("--game", "connect4", "--exact"), "--exact is for gomoku"),
    (("--net", "10x"), "net"),
    (("--net", "huge"), "net"),
    (("--children", 3), "children"),
    (("--net", "\x1b[31mred"), "no net '\\x1b[31mred'"),
    (("--noise-alpha", 0), "--noise-share 0 plays without noise"),
    (("--noise-alpha", "1e-300"), "noise-alpha"),
    (("--noise-alpha", "1e300"), "noise-alpha"),
    (("--noise-share", "1.5"), "noise-share"),
    (("--reuse", "1e300"), "--reuse 1e+300 makes more than"),
    (("--openings", "1.5"), "openings"),
    (("--dtype", "bf16"), "computes in f32"),
    (("--weights", "int8"), "cannot be trained"),
    (("--budget", "45M", "--batch", 60000), "would fit"),
    (("--game", "gomoku", "--net", "10x96", "--budget", "10M"), "least possible"),
])
def test_what_cannot_be_played_is_one_sentence(selfplay, words, said):
    result = selfplay(*words)
    assert result.code == 2 and said in result.err, result.err
    assert len(result.err.splitlines()) <= 3 and not result.out, result


def test_a_run_of_another_game_or_task_is_refused(selfplay, tidemark, tmp_path):
    assert selfplay("--out", tmp_path / "run", "--steps", 1).code == 0
    other = tidemark("train", "selfplay", "--game", "connect4", "--out", tmp_path / "run", "--resume", "auto", "--steps", 2)
    assert other.code == 2 and len(other.err.splitlines()) <= 2, other.err
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["step-00000001"]
    lm = tidemark("train", "lm", "--resume", tmp_path / "run", "--steps", 1)
    assert lm.code == 2 and len(lm.err.splitlines()) <= 2, lm.err
    text = tidemark("sample", tmp_path / "run")
    assert text.code == 2 and "tidemark play" in text.err, text.err


def test_what_a_run_cannot_go_on_with_is_named(selfplay, tmp_path):
    assert selfplay("--out", tmp_path / "run", "--steps", 8).code == 0  # more positions than the replay holds
    for option, value, had in (("game", "connect4", "tictactoe"), ("net", "tiny", "plain:1x8"), ("games-at-once", 12, 6),
                               ("replay", 400, 300), ("replay", 200, 300), ("positions", 20, 40)):
        other = selfplay("--out", tmp_path / "run", "--resume", "auto", "--steps", 9, f"--{option}", value)
        assert other.code == 2 and f"made with --{option} {had}, and cannot go on with {value}" in other.err, other.err
        assert f"leave --{option} out" in other.err and not other.out, other


def test_a_run_from_before_there_were_openings_goes_on_without(selfplay, tmp_path):
    def steps(name, count, *more):
        assert selfplay("--out", tmp_path / name, "--steps", count, "--schedule", "constant", *more).code == 0

    steps("one", 4)
    steps("two", 2)
    state = tmp_path / "two/step-00000002/state.json"
    older = json.loads(state.read_text())
    del older["openings"], older["crc32"]
    state.write_text(json.dumps(older))
    steps("two", 4, "--resume", "auto")
    one, two = (tmp_path / name / "step-00000004" for name in ("one", "two"))
    assert json.loads((two / "state.json").read_text())["openings"] == "0"
    for name in FILES:
        assert filecmp.cmp(one / name, two / name, shallow=False), name


def test_a_damaged_replay_is_passed_over(selfplay, tmp_path):
    out = tmp_path / "run"
    assert selfplay("--out", out, "--save-every", 1, "--steps", 2).code == 0
    file = out / "step-00000002" / "replay.bin"
    damaged = bytearray(file.read_bytes())
    damaged[200] ^= 0xFF
    file.write_bytes(damaged)
    again = selfplay("--out", out, "--resume", "auto", "--steps", 3)
    assert again.code == 0 and "resumed  after step 1" in again.out, again.out + again.err


def test_an_interrupt_saves_and_goes_on_to_the_bit(binary, selfplay, tmp_path, env):
    one, two = tmp_path / "one", tmp_path / "two"
    words = [str(w) for w in (binary, "train", "selfplay", *TICTACTOE, *SMALL, *EVEN, "--json", "--report-every", 1)]
    run = subprocess.Popen([*words, "--steps", "100000", "--out", two], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
    assert json.loads(run.stdout.readline())["step"] == 1
    run.send_signal(signal.SIGINT)
    out, err = run.communicate()
    assert run.returncode == 130 and "continue with --resume auto" in err, err
    (kept,) = os.listdir(two)
    steps = int(kept.removeprefix("step-")) + 2
    assert selfplay("--out", one, *EVEN, "--steps", steps).code == 0
    assert selfplay("--out", two, "--resume", "auto", "--steps", steps).code == 0
    for name in FILES:
        assert filecmp.cmp(one / f"step-{steps:08}" / name, two / f"step-{steps:08}" / name, shallow=False), name


@pytest.mark.slow  # likewise test_selfgames
def test_an_interrupt_in_a_long_step_is_not_waited_for(binary, tmp_path, env):
    words = [str(w) for w in (binary, "train", "selfplay", "--game", "connect4", "--simulations", 40, "--positions", 10**6, "--replay", 999,
                              "--steps", 9, "--match-games", 0, "--out", tmp_path / "run")]
    run = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: has(run, "SigCgt", signal.SIGINT))
    run.send_signal(signal.SIGINT)
    wait_for(lambda: not has(run, "ShdPnd", signal.SIGINT))
    run.send_signal(signal.SIGSTOP)  # so that its five seconds pass without work
    asked = time.monotonic()
    wait_for(lambda: time.monotonic() - asked > 5.1)
    run.send_signal(signal.SIGCONT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130 and "stopped in step 1 and saved it" in err, err
    run = subprocess.Popen([*words, "--resume", "auto"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: has(run, "SigCgt", signal.SIGINT))
    run.kill()
    out, err = run.communicate()
    assert "resumed  after step 0" in out, err


def test_a_kill_leaves_a_checkpoint_that_goes_on_to_the_bit(binary, selfplay, tmp_path, env):
    one, two = tmp_path / "one", tmp_path / "two"
    words = [str(w) for w in (binary, "train", "selfplay", *TICTACTOE, *SMALL, *EVEN, "--json", "--report-every", 1, "--save-every", 1)]
    run = subprocess.Popen([*words, "--steps", "100000", "--out", two], env=env, stdout=subprocess.PIPE, text=True)
    assert all(json.loads(run.stdout.readline())["step"] == step for step in (1, 2, 3))
    run.kill()
    run.communicate()
    steps = 1 + max(int(name.removeprefix("step-")) for name in os.listdir(two) if name.startswith("step-"))
    assert selfplay("--out", one, *EVEN, "--steps", steps).code == 0
    assert selfplay("--out", two, "--resume", "auto", "--steps", steps).code == 0
    for name in FILES:
        assert filecmp.cmp(one / f"step-{steps:08}" / name, two / f"step-{steps:08}" / name, shallow=False), name


def test_a_limit_on_files_is_told_and_training_goes_on(binary, tmp_path, env):
    words = [str(w) for w in (binary, "train", "selfplay", *TICTACTOE, *SMALL, "--steps", 3, "--save-every", 1)]
    run = subprocess.run([*words, "--out", tmp_path / "run"], env=env, capture_output=True, text=True,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)))
    assert run.returncode == 2 and "step 3/3" in run.stdout
    assert run.stderr.count("cannot save step") == 3 and not (tmp_path / "run").exists(), run.stderr


def test_phases_are_marks(tidemark, binary, tmp_path):
    run = ("train", "selfplay", *TICTACTOE, *SMALL, "--steps", 3, "--eval-every", 1)
    assert tidemark("run", "-o", tmp_path / "a.tide", "--", binary, *run).code == 0
    with sqlite3.connect(tmp_path / "a.tide") as db:
        names = {name for (name,) in db.execute("SELECT DISTINCT name FROM mark")}
    assert {"selfplay", "train", "evaluation"} <= names


@pytest.mark.unsanitized  # a sanitizer takes memory of its own
@pytest.mark.parametrize("threads", [1, 2])
def test_memory_is_what_was_planned(selfplay, tmp_path, threads):
    made = lines(selfplay("--game", "connect4", "--steps", 8, "--json", "--report-every", 1, "--threads", threads, "--eval-every", 4,
                          "--save-every", 2, "--out", tmp_path / "run"))
    assert made[-1]["rss_bytes"] <= made[-1]["plan_bytes"] + (16 << 20)
    assert made[-1]["anonymous_bytes"] == made[0]["anonymous_bytes"]
