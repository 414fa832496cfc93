"""That self-play learns, against players who are known (bench/strength.c). Takes an hour and a half: make check-long."""

import json
import os
import subprocess

import pytest

pytestmark = pytest.mark.skipif(not os.environ.get("TIDEMARK_LONG"), reason="takes an hour and a half: make check-long")


@pytest.fixture
def learned(binary, build, plain_env, tmp_path):
    """learned(seconds, words...) -> strength(check, ...) of a run that trained for so long on two threads."""

    def train(seconds, *words):
        command = [binary, "train", "selfplay", "--threads", 2, "--match-games", 0, "--out", tmp_path / "run", "--steps", 1 << 30, *words]
        run = subprocess.run(["timeout", "-s", "INT", str(seconds), *map(str, command)], env=plain_env, capture_output=True, text=True)
        assert run.returncode in (124, 130), run.stderr

        def strength(*check):
            made = subprocess.run([build / "bench" / "strength", tmp_path / "run", *map(str, check)], env=plain_env, capture_output=True,
                                  text=True, check=True)
            print(made.stdout)
            return json.loads(made.stdout)

        return strength

    return train


def test_tic_tac_toe_is_never_lost_to_perfect_play(learned):
    strength = learned(120, "--game", "tictactoe")
    assert strength("perfect", 1000, 100)["lost"] == 0


def test_a_net_that_has_learned_nothing_loses(learned):
    """The check above can fail."""
    strength = learned(20, "--game", "tictactoe", "--lr", "0", "--simulations", 4)
    assert strength("perfect", 1000, 4)["lost"] > 0


def test_connect_four_beats_plain_search_and_agrees_with_a_solver(learned):
    strength = learned(1800, "--game", "connect4")
    played = strength("rollouts", 200, 400, 1000)
    assert played["won_share"] >= 0.9, played
    assert played["asked"] == 1000 and played["right_share"] >= 0.9, played


def test_gomoku_beats_plain_search_and_sees_fives_and_fours(learned):
    strength = learned(3600, "--game", "gomoku", "--board", 9, "--simulations", 50, "--games-at-once", 128)
    assert strength("rollouts", 100, 400, 1600)["won_share"] >= 0.9
    seen = strength("tactics", 1000, 400)
    assert seen["right"] == 1000, seen
