"""examples/rookworld: what its rewards say of right, wrong and unreadable answers."""

import json
import os
import subprocess
import sys

from lanes import ROOT

EXAMPLE = ROOT / "examples" / "rookworld"
BEFORE = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
AFTER = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
TRUTH = {"position": AFTER, "reward": "0.001", "terminated": "0", "truncated": "0"}


def rewards(question, *arguments):
    done = subprocess.run([sys.executable, EXAMPLE / "reward.py", *arguments], input=json.dumps(question) + "\n", capture_output=True,
                          text=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [round(each, 6) for each in json.loads(done.stdout)]


def test_an_answer_gets_what_its_right_fields_weigh():
    near = 0.4 * 10 / 13  # of eight ranks and five fields three are wrong: the two ranks and the side to move
    completions = {
        f"{AFTER}+0.001+0+0": 1.0,
        f"{AFTER}+0.001+0+0<|endoftext|>": 1.0,
        f"{AFTER}+1.0+1+0": 0.8,
        f"{AFTER}+0.001+0+1": 0.9,
        f"{BEFORE}+0.001+0+0": 0.3 + near,
        f"{BEFORE}+0+0+1": 0.1 + near,
        f"{AFTER}+0.001+0": 0.0,
        "rnbqkbnr/pppppppp+0.001+0+0": 0.0,
        "": 0.0,
    }
    question = {"prompt": f"A: {BEFORE}+e2e4+e2e4+", **TRUTH, "completions": list(completions)}
    assert rewards(question) == [round(each, 6) for each in completions.values()]


def test_a_policy_answer_gets_most_for_the_best_move():
    moves, values = "e2e4 d2d4 g1f3 c2c4 b1c3", "0.31 0.28 0.20 0.15 -0.05"
    completions = {
        f" {moves:<30}E: {values:<40}B: e2e4": 8.5,
        f" {moves:<30}E: {values:<40}B: e2e4<|endoftext|>": 8.5,
        f" {moves} E: {values} B: d2d4": 4.5,
        f" {moves} E: 0.31 0.28 0.20 0.15 0.50 B: e2e4": 8.3,
        f" e2e4 a2a3 h2h3 a2a4 h2h4 E: {values} B: e2e4": 4 + 2 + 0.3 + 0.2,
        f" {moves} E: 1 2 3 four 5 B: e2e4": 0.0,
        f" {moves} E: {values}": 0.0,
        "": 0.0,
    }
    question = {"prompt": f"P: {BEFORE:<90}M:", "moves": moves, "values": values, "best": "e2e4", "completions": list(completions)}
    assert rewards(question, "policy") == [round(each / 8.5, 6) for each in completions.values()]
