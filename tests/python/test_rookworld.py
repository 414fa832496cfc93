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


def test_an_answer_gets_what_its_right_fields_weigh():
    completions = {
        f"{AFTER}+0.001+0+0": 1.0,
        f"{AFTER}+0.001+0+0<|endoftext|>": 1.0,
        f"{AFTER}+1.0+1+0": 0.7,
        f"{AFTER}+0.001+0+1": 0.8,
        f"{BEFORE}+0.001+0+0": 0.7,
        f"{BEFORE}+0+0+1": 0.4,
        f"{AFTER}+0.001+0": 0.0,
        "rnbqkbnr/pppppppp+0.001+0+0": 0.0,
        "": 0.0,
    }
    question = {"prompt": f"A: {BEFORE}+e2e4+e2e4+", **TRUTH, "completions": list(completions)}
    done = subprocess.run([sys.executable, EXAMPLE / "reward.py"], input=json.dumps(question) + "\n", capture_output=True,
                          text=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert [round(each, 6) for each in json.loads(done.stdout)] == list(completions.values())
