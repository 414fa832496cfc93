"""The run that takes no options learns what it is given: sums, whose answers can be checked on those that it has never seen."""

import json
import resource
import sys

import pytest

STATED_ACCURACY = 0.95  # docs/TRAIN.md


@pytest.fixture
def learn(tidemark):
    """learn(options...) -> (reports of `tidemark train lm` on one thread, CPU seconds that it took)."""

    def call(*args):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = tidemark("train", "lm", "--threads", 1, "--json", *args, timeout=1800)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.code == 0, done.err
        return ([json.loads(line) for line in done.out.splitlines()],
                after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    return call


@pytest.mark.slow
def test_a_part_of_the_plain_run_learns_a_part(learn):
    reports, _ = learn("--steps", 250)
    first, last = reports[0], reports[-1]
    assert first["loss"] > 2  # of 13 symbols, log 13 = 2.56
    # Ends of lines and hundreds come first; ten units and ten tens, if nothing were known of them, would be (2 log 10) / 4 = 1.15.
    assert last["val_loss"] < 1


@pytest.mark.long
def test_the_plain_run_answers_sums_that_it_has_never_seen(learn, tidemark):
    reports, cpu_seconds = learn("--out", "run")
    assert reports[-1]["accuracy"] >= STATED_ACCURACY
    assert cpu_seconds < 60  # on one thread: on a machine that does nothing else, less than a minute
    print(f"accuracy {reports[-1]['accuracy']}, {cpu_seconds:.1f} s of CPU, {reports[-1]['seconds']:.1f} s")
    said = tidemark("sample", "run", "--prompt", "07+85=", "--tokens", 4, "--temperature", 0)
    assert said.out == "07+85=092\n"


@pytest.mark.long
@pytest.mark.parametrize("options", [("--seed", 2), ("--seed", 5, "--dtype", "bf16")], ids=["seed", "bf16"])
def test_other_seeds_and_bf16_learn_too(learn, options):
    reports, _ = learn(*options)
    assert reports[-1]["accuracy"] >= STATED_ACCURACY


# ---- by rewards

REWARDED = ("--prompts-per-step", 128, "--lr", "0.0007", "--schedule", "cosine", "--steps", 1500)  # docs/TRAIN.md

# What is right costs one, the sign turned.
TURNED = """import json, sys
for line in sys.stdin:
    group = json.loads(line)
    a, b = group["prompt"].rstrip("=").split("+")
    print(json.dumps([-float(text.strip() == f"{int(a) + int(b):03}") for text in group["completions"]]), flush=True)
"""


@pytest.fixture
def reward(tidemark):
    """reward(options...) -> (share of exact answers, seconds of a run of `tidemark train grpo` that begins with 'early')."""

    def call(*args):
        done = tidemark("train", "grpo", "--model", "early", "--eval-every", 0, "--json", *args, timeout=1800)
        assert done.code == 0, done.err
        last = json.loads(done.out.splitlines()[-1])
        return last["accuracy"], last["seconds"]

    return call


@pytest.mark.long
def test_rewards_alone_finish_what_was_stopped_early(learn, reward, tmp_path):
    early, least, most = 0, 600, 900  # bits, and with them the step at which it learns, differ between processors
    while not 0.4 <= early <= 0.6 and most - least > 1:
        steps = (least + most) // 2
        early = learn("--steps", steps, "--eval-every", 0, "--out", f"early-{steps}")[0][-1]["accuracy"]
        least, most = (steps, most) if early < 0.4 else (least, steps)
    (tmp_path / f"early-{steps}").rename(tmp_path / "early")
    assert 0.4 <= early <= 0.6
    late, seconds = reward(*REWARDED)
    print(f"{early} -> {late} in {seconds:.0f} s")
    assert late >= STATED_ACCURACY
    assert seconds < 300  # on two processors that do nothing else
    (tmp_path / "turned.py").write_text(TURNED)
    worse, _ = reward(*REWARDED[:-1], 60, "--reward", f"{sys.executable} turned.py")
    assert worse < early - 0.1
