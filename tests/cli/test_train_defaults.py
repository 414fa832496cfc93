"""What `tidemark train TASK -h` says is used unless it is given is what a run uses."""

import json
import re

import pytest

RUNS = {
    "lm": ("--preset", "tiny", "--data", "text", "--batch", 2, "--seq", 16),
    "grpo": ("--group", 2, "--new-tokens", 2),
    "selfplay": ("--game", "tictactoe", "--positions", 16, "--batch", 4, "--simulations", 4, "--match-games", 0),
}
CHANNELS = 64  # of `tiny`, which is the preset of both


@pytest.mark.parametrize("task", RUNS)
def test_what_is_not_given_is_as_the_help_says(tidemark, tmp_path, task):
    help_text = " ".join(tidemark("train", task, "-h").out.split())
    (tmp_path / "text").write_text("some words to learn from, " * 20)
    done = tidemark("train", task, "--threads", 1, "--steps", 1, "--out", tmp_path / "run", *RUNS[task])
    assert done.code == 0, done.err
    used = json.loads((tmp_path / "run" / "step-00000001" / "state.json").read_text())

    def said(option):
        about = help_text.partition(f" --{option} ")[2].partition(" --")[0]
        found = re.search(rf"\([^()]*\b{task} ([\w.]+)", about)
        assert found, about
        return found[1]

    assert said("warmup") == str(used["warmup"])
    assert said("schedule") == used["schedule"]
    assert float(said("weight-decay")) == float(used["weight_decay"])
    assert float(said("lr")) == pytest.approx(float(used["rate"]) * (1 if task == "selfplay" else CHANNELS))
