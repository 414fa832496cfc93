"""That self-play learns, against players who are known (bench/strength.c). Takes an hour of one processor: make check-long."""

import json
import os
import resource
import subprocess

import pytest

pytestmark = pytest.mark.skipif(not os.environ.get("TIDEMARK_LONG"), reason="takes an hour of one processor: make check-long")
PROCESSORS = 2


@pytest.fixture
def learned(binary, build, plain_env, tmp_path):
    """learned(seconds, words...) -> strength(check, ...) of a run that took at most so long on two processors. What counts is their time,
    so that it is the same beside other programs."""

    def train(seconds, *words):
        command = [binary, "train", "selfplay", "--threads", PROCESSORS, "--match-games", 0, "--out", tmp_path / "run", *words]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(list(map(str, command)), env=plain_env, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < PROCESSORS * seconds

        def strength(*check):
            made = subprocess.run([build / "bench" / "strength", tmp_path / "run", *map(str, check)], env=plain_env, capture_output=True,
                                  text=True, check=True)
            print(made.stdout)
            return json.loads(made.stdout)

        return strength

    return train


def test_tic_tac_toe_is_never_lost_to_perfect_play(learned):
    strength = learned(120, "--game", "tictactoe", "--steps", 100)
    assert strength("perfect", 1000, 100)["lost"] == 0


def test_a_net_that_has_learned_nothing_loses(learned):
    """The check above can fail."""
    strength = learned(20, "--game", "tictactoe", "--steps", 10, "--lr", "0", "--simulations", 4)
    assert strength("perfect", 1000, 4)["lost"] > 0


def test_a_match_tells_a_run_from_its_beginning(learned, tmp_path):
    strength = learned(120, "--game", "tictactoe", "--steps", 100, "--save-every", 1, "--keep", 100)
    played = strength("match", 200, 2, tmp_path / "run" / "step-00000001")
    assert played["lost"] == 0 and played["won"] + played["drawn"] == 200 and played["elo_low"] > 0, played


@pytest.mark.parametrize("check", [("solver",), ("tactics", 2, 8), ("perfect", "many"), ("perfect", 0), ("perfect", 2, 0), ("rollouts", 2, 8, 0)])
def test_a_check_that_cannot_be_made_is_refused(learned, check):
    strength = learned(20, "--game", "tictactoe", "--steps", 1)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        strength(*check)
    assert refused.value.returncode == 2 and refused.value.stderr.startswith("strength: "), refused.value.stderr


def test_connect_four_beats_plain_search_and_agrees_with_a_solver(learned):
    strength = learned(1800, "--game", "connect4", "--steps", 1000)
    played = strength("rollouts", 200, 1000, 1000)
    assert played["won_share"] >= 0.9, played
    assert played["asked"] == 1000 and played["right_share"] >= 0.9, played


def test_gomoku_beats_plain_search_and_sees_fives_and_fours(learned):
    strength = learned(3600, "--game", "gomoku", "--board", 9, "--steps", 400, "--simulations", 50, "--games-at-once", 128)
    assert strength("rollouts", 100, 400, 1600)["won_share"] >= 0.9
    seen = strength("tactics", 1000, 400)
    assert seen["right"] == 1000, seen
