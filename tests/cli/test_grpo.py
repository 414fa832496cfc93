"""`tidemark train grpo`: what it asks, what it says, what it keeps, and what faults get."""

import filecmp
import json
import re
import shutil
import sqlite3
import subprocess
import sys

import pytest

SMALL = ("--threads", 1, "--group", 4, "--prompts-per-step", 2)
FILES = ("config.json", "model.safetensors", "optimizer.safetensors", "state.json", "vocabulary.json")

# Rewards the share of letters 'a'.
LETTERS = """import json, sys
for line in sys.stdin:
    group = json.loads(line)
    print(json.dumps([text.count("a") / max(1, len(text)) for text in group["completions"]]), flush=True)
"""


@pytest.fixture(scope="session")
def model(binary, tmp_path_factory, plain_env):
    """A model of letters that has learned next to nothing."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "corpus.txt").write_text("abcd efgh abab cdcd\n" * 60)
    subprocess.run([binary, "train", "lm", "--data", folder / "corpus.txt", "--threads", "1", "--batch", "4", "--seq", "32",
                    "--steps", "2", "--eval-every", "0", "--out", folder / "run"], env=plain_env, check=True)
    return folder / "run"


@pytest.fixture
def asked(tmp_path):
    """A file of prompts with a field of its own, and a command that rewards."""
    prompts, reward = tmp_path / "prompts.jsonl", tmp_path / "reward.py"
    prompts.write_text("".join(json.dumps({"prompt": text, "n": i}) + "\n" for i, text in enumerate(["ab", "cd ef", "h"])))
    reward.write_text(LETTERS)
    return ["--prompts", prompts, "--reward", f"{sys.executable} {reward}"]


@pytest.fixture
def grpo(tidemark, model):
    """grpo(args...) -> Result of a run of three steps that begins with the model, unless something is resumed."""

    def call(*args, **more):
        begin = () if "--resume" in args or "--preset" in args else ("--model", model)
        return tidemark("train", "grpo", *begin, *SMALL, "--steps", 3, *args, **more)

    return call


def lines(result):
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


@pytest.mark.slow  # with sanitizers
def test_sums_alone_are_enough(tidemark):
    made = lines(tidemark("train", "grpo", "--threads", 1, "--steps", 2, "--report-every", 1, "--json"))
    assert [line["step"] for line in made] == [1, 2] and made[-1]["final"]
    assert made[-1]["schema"] == "tidemark.grpo/1"
    assert {"loss", "reward_mean", "reward_std", "kl", "clip_share", "completion_tokens", "tokens_per_second",
            "steps_per_second", "plan_bytes", "arena_high_bytes", "rss_bytes"} <= made[-1].keys()
    assert made[-1]["plan_bytes"] == made[-1]["arena_high_bytes"]
    assert 0 <= made[-1]["accuracy"] <= 1


@pytest.mark.slow  # likewise
def test_rewards_raise_what_they_reward(grpo, asked):
    made = lines(grpo(*asked, "--new-tokens", 6, "--steps", 60, "--lr", "0.002", "--json", "--report-every", 1))
    rewards = [line["reward_mean"] for line in made]
    assert sum(rewards[-10:]) > sum(rewards[:10]) + 2, rewards


def seen_elsewhere(*values):
    """Left out under sanitizers, which see what it does in other tests of this file, or in tests/unit/test_rewards.c."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize("how", [seen_elsewhere(()), seen_elsewhere(("--beta", "0.1")), ("--beta", "0.1", "--adapt", "lora:4"),
                                 ("--inner-epochs", 2, "--loss", "bnpo", "--beta", "0.1", "--kl", "plain"),
                                 seen_elsewhere(("--micro-batch", 3, "--loss", "dr_grpo", "--scale-rewards", "batch"))], ids=str)
def test_a_run_that_is_resumed_has_the_same_bits(grpo, asked, tmp_path, how):
    one, two = tmp_path / "one", tmp_path / "two"
    whole = grpo(*asked, *how, "--new-tokens", 6, "--out", one, "--steps", 4)
    assert whole.code == 0, whole.err
    assert grpo(*asked, *how, "--new-tokens", 6, "--out", two, "--steps", 2).code == 0
    again = grpo(*asked, "--out", two, "--resume", "auto", "--steps", 4)
    assert again.code == 0 and "resumed  after step 2" in again.out, again.err
    names = ("adapter_model.safetensors", "optimizer.safetensors") if "--adapt" in how else FILES
    for name in names:
        if name != "state.json":
            assert filecmp.cmp(one / "step-00000004" / name, two / "step-00000004" / name, shallow=False), name


def test_a_run_from_before_there_was_a_choice_of_the_kl_term_goes_on(grpo, asked, tmp_path):
    out = tmp_path / "run"
    assert grpo(*asked, "--out", out, "--steps", 1).code == 0
    state = out / "step-00000001/state.json"
    older = json.loads(state.read_text())
    del older["kl"], older["crc32"]
    state.write_text(json.dumps(older))
    again = grpo(*asked, "--out", out, "--resume", "auto", "--steps", 2)
    assert again.code == 0, again.err
    assert json.loads((out / "step-00000002/state.json").read_text())["kl"] == "corrected"


@pytest.mark.slow  # likewise
def test_the_estimate_of_the_kl_term_can_be_chosen(grpo, asked):
    made = {kl: lines(grpo(*asked, "--new-tokens", 6, "--beta", "0.5", "--lr", "0.01", "--kl", kl, "--json"))[-1]["kl"]
            for kl in ("corrected", "plain")}
    assert made["corrected"] != made["plain"] and lines(grpo(*asked, "--new-tokens", 6, "--beta", "0.5", "--lr", "0.01", "--json"))[-1][
        "kl"] == made["corrected"]


def test_the_kl_term_begins_at_nothing(grpo, asked):
    for how in ((), ("--adapt", "lora:4")):
        made = lines(grpo(*asked, *how, "--beta", "0.1", "--new-tokens", 6, "--json", "--report-every", 1))
        assert abs(made[0]["kl"]) < 1e-9 < made[-1]["kl"], made


@pytest.mark.slow  # likewise
def test_a_new_model_keeps_its_first_weights_for_reference(tidemark, tmp_path):
    run = ("train", "grpo", *SMALL, "--beta", "0.1", "--json", "--report-every", 1)
    made = lines(tidemark(*run, "--steps", 2, "--out", tmp_path / "run"))
    assert (tmp_path / "run" / "reference.safetensors").exists()
    assert abs(made[0]["kl"]) < 1e-9
    assert lines(tidemark(*run, "--steps", 3, "--out", tmp_path / "run", "--resume", "auto"))[-1]["step"] == 3
    (tmp_path / "run" / "reference.safetensors").unlink()
    lost = tidemark(*run, "--steps", 4, "--out", tmp_path / "run", "--resume", "auto")
    assert lost.code == 2 and "the reference of the KL term" in lost.err
    assert lines(tidemark(*run, "--steps", 1))[-1]["step"] == 1  # a file without a name


def test_the_first_weights_in_several_files_are_found_from_elsewhere(tidemark, grpo, asked, model, tmp_path):
    one = tmp_path / "model"
    shutil.copytree(next(model.glob("step-*")), one, ignore=shutil.ignore_patterns("state.json", "optimizer.safetensors"))
    weights = (one / "model.safetensors").rename(one / "model-00001-of-00001.safetensors")
    with open(weights, "rb") as file:
        names = json.loads(file.read(int.from_bytes(file.read(8), "little"))).keys() - {"__metadata__"}
    (one / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {name: weights.name for name in names}}))
    begun = tidemark("train", "grpo", "--model", "model", *SMALL, *asked, "--beta", 0.1, "--new-tokens", 6, "--steps", 1, "--out", "run")
    assert begun.code == 0, begun.err
    (tmp_path / "elsewhere").mkdir()
    again = grpo(*asked, "--resume", tmp_path / "run", "--steps", 2, cwd=tmp_path / "elsewhere")
    assert again.code == 0, again.err


@pytest.mark.parametrize("from_a_model", [True, False])
def test_another_reference_than_the_run_began_with_is_refused(tidemark, asked, model, tmp_path, from_a_model):
    one = tmp_path / "model"
    shutil.copytree(next(model.glob("step-*")), one, ignore=shutil.ignore_patterns("state.json", "optimizer.safetensors"))
    run = ("train", "grpo", *SMALL, *((*asked, "--model", "model") if from_a_model else ()), "--new-tokens", 2, "--beta", "0.1",
           "--out", "run", "--resume", "auto", "--steps")
    assert tidemark(*run, 1).code == 0
    file = one / "model.safetensors" if from_a_model else tmp_path / "run" / "reference.safetensors"
    first = file.read_bytes()
    file.write_bytes(first[:-1] + bytes([first[-1] ^ 1]))
    other = tidemark(*run, 2)
    assert other.code == 2 and f"'{file}' does not have the weights that the run began with" in other.err, other.err
    file.write_bytes(first)
    assert tidemark(*run, 2).code == 0


def test_a_run_that_saved_nothing_leaves_no_first_weights(tidemark, tmp_path):
    result = tidemark("train", "grpo", "--preset", "tiny", *SMALL, "--beta", "0.1", "--lr", "1e38", "--clip", 0, "--steps", 3, "--out", "new/run")
    assert result.code == 2 and "step 2" in result.err, result.err
    assert not (tmp_path / "new").exists()


def test_the_reference_moves_with_the_run(tidemark, tmp_path):
    run = ("train", "grpo", *SMALL, "--new-tokens", 1, "--beta", "0.1", "--steps")
    (tmp_path / "elsewhere").mkdir()
    assert tidemark(*run, 1, "--out", "run", cwd=tmp_path).code == 0
    away = tidemark(*run, 2, "--out", tmp_path / "run", "--resume", "auto", cwd=tmp_path / "elsewhere")
    assert away.code == 0, away.err
    (tmp_path / "run").rename(tmp_path / "moved")
    moved = tidemark(*run, 3, "--out", tmp_path / "moved", "--resume", "auto")
    assert moved.code == 0, moved.err


def test_the_command_of_a_run_with_adapters_can_be_given_again(asked, tidemark, model):
    again = ("train", "grpo", "--model", model, *SMALL, *asked, "--out", "run", "--resume", "auto")
    assert tidemark(*again, "--adapt", "lora:4", "--steps", 1).code == 0
    assert "step 2/2" in tidemark(*again, "--adapt", "lora:4", "--steps", 2, "--report-every", 1).out
    for other in "lora:2", "lora:4:8":
        done = tidemark(*again, "--adapt", other, "--steps", 3)
        assert done.code == 2 and "has other adapters: leave --adapt out" in done.err, done.err


def test_what_a_run_did_not_begin_with_cannot_be_added(grpo, asked, tmp_path):
    out = tmp_path / "run"
    assert grpo(*asked, "--out", out, "--steps", 1).code == 0
    for option, said in (("--beta", "0.1"), "without a KL term"), (("--adapt", "lora:4"), "trains the whole model"):
        result = grpo(*asked, "--out", out, "--resume", "auto", *option)
        assert result.code == 2 and said in result.err and "--model" in result.err, result.err
    assert grpo(*asked, "--out", out, "--resume", "auto", "--steps", 2).code == 0


def test_a_run_is_not_mixed_with_that_of_its_model(grpo, tidemark, asked, model, tmp_path):
    shutil.copytree(model, tmp_path / "run")
    lm = ("train", "lm", "--data", model.parent / "corpus.txt", "--seq", 32, "--adapt", "lora:4", "--steps", 2)
    for again in (grpo(*asked, "--out", tmp_path / "run", "--resume", "auto"),
                  tidemark(*lm, "--out", tmp_path / "run", "--resume", "auto")):
        assert again.code == 2 and "holds a run of another kind" in again.err and "--out DIR" in again.err, again.err
    assert grpo(*asked, "--out", tmp_path / "on", "--resume", tmp_path / "run").code == 0


@pytest.mark.parametrize("reward, said", [
    ("exit 3", "status 3"),
    seen_elsewhere("kill -9 $$", "signal 9"),
    ("read line; sleep 60", "answer"),
    seen_elsewhere("while read line; do echo '[1]'; done", "4"),
    ("while read line; do echo 'fine'; done", "fine"),
    seen_elsewhere("while read line; do echo '[NaN, 1, 1, 1]'; done", "NaN"),
    seen_elsewhere("no-such-command-at-all", "127"),
])
def test_a_reward_command_at_fault_is_one_sentence_and_the_checkpoint_stays(grpo, asked, tmp_path, reward, said):
    out = tmp_path / "run"
    assert grpo(*asked, "--new-tokens", 4, "--out", out, "--steps", 1).code == 0
    broken = grpo(*asked[:2], "--reward", reward, "--reward-timeout", "2s", "--out", out, "--resume", "auto", "--steps", 3)
    assert broken.code == 2
    assert any(line.startswith("tidemark: ") and said in line for line in broken.err.splitlines()), broken.err
    assert "the last good checkpoint is" in broken.err
    assert sorted(p.name for p in out.iterdir()) == ["step-00000001"]


def test_what_cannot_be_asked_is_refused(grpo, tidemark, asked, tmp_path):
    for text, said in (("{}\n", "prompt"), ('{"prompt": ""}\n', "line 1"), ("no json\n", "line 1"),
                       ('{"prompt": "a"}\n{"prompt": "' + "ab" * 200 + '"}\n', "line 2"), ('{"prompt": "xyz"}\n', "line 1")):
        (tmp_path / "bad.jsonl").write_text(text)
        result = grpo("--prompts", tmp_path / "bad.jsonl", *asked[2:])
        assert result.code == 2 and said in result.err and len(result.err.splitlines()) <= 2, result.err
    assert "--reward" in grpo(*asked[:2]).err
    assert "--new-tokens" in grpo(*asked, "--new-tokens", 1000).err
    assert "--reward is empty" in grpo(*asked[:2], "--reward", " ").err
    assert "at least 1 ms" in grpo(*asked, "--reward-timeout", "0").err
    assert "there is no model in" in tidemark("train", "grpo", "--model", tmp_path / "none").err
    assert "--prompts FILE --reward" in grpo().err  # letters are no sums
    assert "--tokenizer" in grpo("--preset", "tiny", *asked).err
    assert grpo(*asked, "--temperature", "0").code == 2
    assert grpo(*asked, "--stop", "abcd").code == 2


def test_a_budget_that_does_not_fit_says_what_would(grpo, asked, tmp_path):
    tight = (*asked, "--budget", "3M", "--group", 16, "--new-tokens", 32)
    result = grpo(*tight, "--micro-batch", 32)
    assert result.code == 2 and "--micro-batch" in result.err
    made = lines(grpo(*tight, "--steps", 2, "--json", "--out", tmp_path / "run"))  # what nobody asked for gives way
    assert made[-1]["plan_bytes"] <= 3_000_000
    chosen = json.loads((tmp_path / "run/step-00000002/state.json").read_text())["micro_batch"]
    assert lines(grpo(*tight, "--steps", 2, "--json", "--micro-batch", chosen))[-1]["loss"] == made[-1]["loss"]
    assert grpo(*asked, "--budget", "100M", "--dry-run").code == 0


def test_the_least_that_a_refusal_names_fits_and_one_byte_less_does_not(tidemark, grpo, asked):
    """A pass of fewer sequences needs less; in several passes gradients are kept, which can need more."""
    for call in (lambda *more: grpo(*asked, "--group", 16, "--new-tokens", 32, *more),
                 lambda *more: tidemark("train", "grpo", "--preset", "small", *SMALL, "--group", 6, "--beta", "0.1", *more)):
        least = re.search(r"\((\d+) bytes\)", call("--budget", "1100K", "--dry-run").err).group(1)
        fits = call("--budget", least, "--dry-run")
        assert fits.code == 0, fits.err
        refused = call("--budget", int(least) - 1, "--dry-run")
        assert refused.code == 2 and f"({least} bytes)" in refused.err, refused.err


def test_the_layout_counts_what_a_step_holds_beside_the_arena(grpo, asked, tidemark, model):
    """Tokens of all sequences twice, their log-probabilities, and the texts of a group; in the plan, and in the budget."""
    many = (*asked, "--group", 64, "--prompts-per-step", 1000, "--new-tokens", 8, "--micro-batch", 2)
    said = grpo(*many, "--dry-run", "--json").json
    parts = [said[f"{name}_bytes"] for name in ("weights", "optimizer", "gradients", "activations", "head", "inputs",
                                                "rollout", "rewards", "prompts")]
    assert sum(parts) == said["plan_bytes"]
    assert said["rollout_bytes"] >= 64000 * (8 * 12 + 12 * 4)
    assert said["rewards_bytes"] >= 64 * 8
    few = (*asked, "--group", 64, "--prompts-per-step", 10, "--new-tokens", 8, "--micro-batch", 2)
    assert said["plan_bytes"] - grpo(*few, "--dry-run", "--json").json["plan_bytes"] >= 63360 * (8 * 12 + 12 * 4)
    plan = tidemark("plan", "--json", "--", "tidemark", "train", "grpo", "--model", model, *SMALL, *many).json
    assert plan["allocated_bytes"] == said["plan_bytes"] == sum(plan["at_peak"].values())
    assert plan["at_peak"]["rollout"] == said["rollout_bytes"]
    least = grpo(*many, "--micro-batch", 1, "--dry-run", "--json").json["least_bytes"]
    refused = grpo(*many, "--budget", least - 1, "--dry-run")
    fits = re.search(r"--micro-batch 1 --prompts-per-step (\d+) would fit", refused.err)
    assert refused.code == 2 and fits, refused.err
    less = ("--micro-batch", 1, "--budget", least - 1, "--dry-run", "--prompts-per-step")
    assert grpo(*many, *less, fits[1]).code == 0
    assert grpo(*many, *less, int(fits[1]) + 1).code == 2


@pytest.mark.unsanitized  # a sanitizer takes memory of its own
def test_memory_is_what_was_planned(grpo, asked):
    made = lines(grpo(*asked, "--group", 16, "--prompts-per-step", 2000, "--new-tokens", 48, "--micro-batch", 512, "--threads", 1,
                      "--steps", 1, "--json"))
    assert made[-1]["plan_bytes"] == made[-1]["arena_high_bytes"]
    assert made[-1]["rss_bytes"] <= made[-1]["plan_bytes"] + (16 << 20)


def test_phases_are_marks(tidemark, binary, model, asked, tmp_path):
    run = ("train", "grpo", "--model", model, *SMALL, *asked, "--beta", "0.1", "--steps", 2, "--new-tokens", 4)
    assert tidemark("run", "-o", tmp_path / "a.tide", "--", binary, *run).code == 0
    with sqlite3.connect(tmp_path / "a.tide") as db:
        names = {name for (name,) in db.execute("SELECT DISTINCT name FROM mark")}
    assert {"rollout", "reward", "reference", "update"} <= names


def test_the_longest_answer_fits_what_was_planned(grpo, asked):
    made = lines(grpo(*asked, "--new-tokens", 3, "--json", "--report-every", 1))
    assert all(line["arena_high_bytes"] == line["plan_bytes"] for line in made)
    assert any(line["ended_share"] < 1 for line in made), made
