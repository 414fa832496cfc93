"""tidemark plan: the table, its JSON, what fits, what explains a number, a recording beside it, and what it refuses."""

import json
import re

import pytest

from recording import MIB, PHASE_BEGIN, PHASE_END, STEP, Recording

GRPO = ["plan", "--model", "gpt2", "--task", "grpo", "--batch", "8", "--seq", "174", "--dtype", "bf16"]


def test_a_plan_names_every_owner_and_the_peak(tidemark):
    got = tidemark(*GRPO, "--optimizer", "adamw")
    assert got.code == 0, got.err
    for word in ("weights", "reference", "gradients", "optimizer", "attention", "mlp", "head and loss", "update scratch", "workspace", "total"):
        assert word in got.out
    assert "124,439,808" in got.out
    assert "allocated, in the phase 'backward'" in got.out
    assert got.err == ""


def test_the_document_adds_up(tidemark):
    got = tidemark(*GRPO, "--json")
    assert got.code == 0, got.err
    plan = json.loads(got.out)
    assert plan["schema"] == "tidemark.plan/1"
    assert sum(plan["at_peak"].values()) == plan["allocated_bytes"]
    assert plan["device_bytes"] == plan["reserved_bytes"] + plan["context_bytes"]
    assert plan["reserved_bytes"] >= plan["allocated_bytes"]
    assert len(plan["layers"]) == 12
    phases = {phase["name"]: phase for phase in plan["phases"]}
    assert {"forward", "reference forward", "backward", "update"} <= set(phases)
    for phase in phases.values():
        assert sum(phase["parts"].values()) == phase["peak_bytes"]
    # Measured on an H200 with torch 2.11: 2.6755 GB.
    assert abs(plan["allocated_bytes"] / 2.6755e9 - 1) < 0.01


def allocated(tidemark, *words):
    got = tidemark("plan", "--model", "gpt2", *words, "--json")
    assert got.code == 0, got.err
    return json.loads(got.out)["allocated_bytes"]


@pytest.mark.parametrize("words, measured, within", [
    (["--autocast", "--batch", "16", "--seq", "1024"], 25.08e9, 0.01),
    (["--batch", "8", "--seq", "512"], 8.61e9, 0.01),
    (["--autocast", "--batch", "16", "--seq", "1024", "--compile"], 13.61e9, 0.03),
])
def test_the_loop_that_people_run_is_the_one_that_is_planned(tidemark, words, measured, within):
    # model(x, labels=x).loss on an H200 with torch 2.11 and transformers 5, without dropout.
    assert abs(allocated(tidemark, *words, "--dropout", "0") / measured - 1) < within


def test_who_computes_the_loss_and_what_is_held_decide_the_bytes(tidemark):
    job = ["--autocast", "--batch", "8", "--seq", "512"]
    logits, keys_and_values = 8 * 512 * 50257 * 2, 2 * 12 * 8 * 512 * 768 * 2
    hf = allocated(tidemark, *job)
    assert hf == allocated(tidemark, *job, "--loss", "hf")
    assert abs(hf - allocated(tidemark, *job, "--no-cache") - keys_and_values) < 1 << 22
    # A Trainer asks for no cache, and so does checkpointing.
    assert allocated(tidemark, *job, "--loss", "trainer") == allocated(tidemark, *job, "--no-cache")
    assert allocated(tidemark, *job, "--checkpointing") == allocated(tidemark, *job, "--checkpointing", "--no-cache")
    assert abs(allocated(tidemark, *job, "--hold-output") - hf - logits) < 1 << 22
    # Autocast takes the narrow logits as they are: on the way back their gradient is narrow too.
    assert abs(hf - allocated(tidemark, *job, "--loss", "own") - logits) < 1 << 22
    assert allocated(tidemark, *job, "--loss", "trl") < hf - 5 * logits
    said = tidemark("plan", "--model", "gpt2", *job, "--loss", "own", "--hold-output", "--no-cache").out
    assert "own loss, no cache, output held" in said.splitlines()[0]


def test_on_the_processor_the_bytes_are_resident(tidemark):
    got = tidemark("plan", "--model", "gpt2", "--task", "infer", "--batch", "4", "--seq", "256", "--where", "cpu", "--json")
    assert got.code == 0, got.err
    plan = json.loads(got.out)
    assert plan["job"]["where"] == "cpu" and "workspace" not in plan["at_peak"]
    # Measured with torch 2.11: a peak RSS of 1.522 GB.
    assert abs(plan["device_bytes"] / 1.522e9 - 1) < 0.1
    assert "resident" in tidemark("plan", "--model", "gpt2", "--seq", "128", "--where", "cpu").out


def test_what_does_not_fit_is_said_with_what_does(tidemark):
    got = tidemark("plan", "--model", "gpt2", "--seq", "1024", "--batch", "64", "--device-memory", "24G", "--json")
    assert got.code == 1, got.err
    device = json.loads(got.out)["device"]
    assert device["fits"] is False and 1 <= device["largest_batch"] < 64
    again = tidemark("plan", "--model", "gpt2", "--seq", "1024", "--batch", str(device["largest_batch"]), "--device-memory", "24G")
    assert again.code == 0 and "fits" in again.out


def test_the_largest_batch_does_not_depend_on_the_batch_that_was_asked_for(tidemark):
    said = {}
    for batch in (8, 219, 240, 300):
        got = tidemark("plan", "--model", "resnet50", "--batch", str(batch), "--device-memory", "24G", "--json")
        device = got.json["device"]
        said.setdefault(device["largest_batch"], []).append(batch)
        assert device["fits"] is (got.code == 0) is (batch <= device["largest_batch"])
    assert len(said) == 1, said


def test_a_run_that_fits_by_giving_segments_back_is_said_to(tidemark):
    got = tidemark("plan", "--model", "resnet50", "--batch", "240", "--device-memory", "24G")
    assert "on the device 26.14 GB" in got.out
    assert "fits, because the allocator gives free segments back when the device is full; the largest batch is" in got.out
    got = tidemark("plan", "--model", "llama-3.2-1b", "--seq", "200", "--dtype", "bf16", "--checkpointing", "--batch", "80",
                   "--device-memory", "40G")
    assert got.code == 1
    assert "does not fit, because the allocator can use less of its free memory than at some larger sizes; the largest batch is 94" in got.out


def test_the_chess_model_held_graphs(tidemark):
    got = tidemark(*GRPO, "--explain", "22.65GB", "--fails-at", "12")
    assert got.code == 0, got.err
    lines = got.out.splitlines()
    assert "leaves out gradients, optimizer state and activations" in lines[0]
    assert re.search(r"1\. 20 forward graphs held before one backward: .*; needs at least 2 forward passes a step$", lines[2])
    assert lines[-1].startswith("To tell 1 from 2, measure the peak of allocated bytes of the phase ")


def test_growth_per_step_points_at_what_grows(tidemark):
    logits = 8 * 174 * 50257 * 2
    got = tidemark(*GRPO, "--explain", str(2675500000 + 11 * logits), "--per-step", str(logits), "--json")
    assert got.code == 0, got.err
    first = json.loads(got.out)["explain"]["explanations"][0]
    assert first["mistakes"] == "outputs" and first["grows"]


@pytest.mark.slow
def test_two_that_grow_to_the_same_height_are_told_apart_by_what_one_pass_adds(tidemark):
    got = tidemark("plan", "--model", "gpt2", "--explain", "5TB")
    assert got.code == 0
    assert got.out.splitlines()[-1].startswith("To tell 1 from 2, measure what one forward pass adds to the allocated bytes: about ")


def test_a_number_that_nothing_explains_is_said_to_be_one(tidemark):
    got = tidemark(*GRPO, "--explain", "1M")
    assert got.code == 3
    assert "No known mistake" in got.out


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2, 5, 12, 150])
def test_a_list_of_logits_has_as_many_as_the_run_had_steps(tidemark, steps):
    logits = 8 * 174 * 50257 * 2
    for bytes, length in ((22650000000, 150), (2675500000 + 11 * logits, 12)):
        got = tidemark(*GRPO, "--explain", str(bytes), "--fails-at", str(steps), "--json")
        found = json.loads(got.out)["explain"]["explanations"]
        kept = [e["count"] for e in found if "outputs" in e["mistakes"]]
        assert all(0.9 * (steps - 1) <= count <= steps for count in kept), kept
        assert steps != length or kept, "a run of so many steps could have kept as many"


PRETRAIN = ["plan", "--model", "gpt2", "--batch", "8", "--seq", "512"]
LOGITS = 8 * 512 * 50257 * 4


def explained(tidemark, *words):
    got = tidemark(*PRETRAIN, *words, "--json")
    return got.json["explain"]["explanations"], tidemark(*PRETRAIN, *words)


def test_a_cause_that_grows_is_not_offered_for_a_step_by_which_it_would_have_filled_the_device(tidemark):
    found, got = explained(tidemark, "--explain", "9.5G", "--fails-at", "300")
    assert found and not [e for e in found if e["count"]], found
    assert "fits a failure" not in got.out
    assert "None of these grows: the run would have used as much in step 3 already." in got.out
    found, got = explained(tidemark, "--explain", "9.5G", "--fails-at", "2")
    assert "None of these grows" not in got.out


@pytest.mark.parametrize("words", [
    ["--explain", "20G", "--fails-at", "1000", "--per-step", "1M"],
    ["--explain", "20G", "--per-step", "1M"],
    ["--explain", "20G", "--per-step", str(LOGITS * 5 // 4)],
    ["--explain", "9.5G", "--fails-at", "2", "--per-step", "8G"],
    ["--explain", "20G", "--fails-at", "30", "--per-step", str(LOGITS)],
])
def test_growth_that_no_mistake_has_is_not_explained(tidemark, words):
    found, got = explained(tidemark, *words)
    assert found == [] and got.code == 3
    last = got.out.splitlines()[-1]
    assert last.startswith("No known mistake") and last.endswith(" a step.")
    assert ("and a failure at step " in last) is ("--fails-at" in words)


@pytest.mark.parametrize("more", [[], ["--fails-at", "15"]])
def test_growth_of_one_list_of_logits_is_explained_by_it(tidemark, more):
    found, got = explained(tidemark, "--explain", "20G", "--per-step", str(LOGITS * 21 // 20), *more)
    assert found[0]["mistakes"] == "outputs" and found[0]["count"] == 15
    assert all(e["grows"] for e in found)


def test_measured_growth_says_how_many_passes_a_step_of_grpo_had(tidemark):
    got = tidemark(*GRPO, "--explain", "22.65GB", "--fails-at", "10", "--per-step", "2.07G")
    lines = got.out.splitlines()
    assert re.search(r"1\. 20 forward graphs held before one backward: .*; grows with steps, which fits a failure at step 10; "
                     r"needs at least 2 forward passes a step$", lines[2])
    # What one adds, without the weights and all else that is there anyway: a graph, and one of twice the batch.
    one, two = (float(n.replace(",", "")) for n in re.findall(r"([\d,]+) MB if \d is", lines[-1].partition("one forward pass adds")[2]))
    assert abs(one / 1033 - 1) < 0.02 and abs(two / one - 2) < 0.02


@pytest.mark.parametrize("steps, passes", [(1, 21), (5, 4), (12, 2), (21, None), (150, 20)])
def test_graphs_that_a_step_may_have_made_alone_are_not_said_to_grow(tidemark, steps, passes):
    """A step of GRPO may go through any number of groups."""
    said = tidemark(*GRPO, "--explain", "22.65GB", "--fails-at", str(steps)).out
    graphs = next(line for line in said.splitlines() if re.search(r"2[01] forward graphs held before one backward:", line))
    assert ("grows with steps" in graphs) == (passes is None)
    assert re.findall(r"needs at least (\d+) forward passes a step$", graphs) == ([str(passes)] if passes else [])


@pytest.mark.parametrize("task", ["pretrain", "sft", "lora"])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_no_more_graphs_are_held_than_the_run_had_forward_passes(tidemark, task, accumulation):
    for dtype, bytes in (("fp32", "40G"), ("bf16", "40G"), ("bf16", "20G")):
        got = tidemark("plan", "--model", "gpt2", "--task", task, "--batch", "4", "--seq", "1024", "--dtype", dtype,
                       "--accumulation", str(accumulation), "--explain", bytes, "--fails-at", "5", "--json")
        for e in json.loads(got.out)["explain"]["explanations"]:
            most = 5 * accumulation if "graphs" in e["mistakes"] else 5
            assert not e["count"] or e["count"] <= most, e


def test_growth_per_step_is_not_innocent(tidemark):
    planned = json.loads(tidemark("plan", "--model", "gpt2", "--json").out)["allocated_bytes"]
    got = tidemark("plan", "--model", "gpt2", "--explain", str(planned), "--per-step", "100M")
    assert "the run may be correct" not in got.out


@pytest.mark.parametrize("failed, measured", [((), ["2", "10"]), (("--fails-at", "3"), ["2", "3"]), (("--fails-at", "2"), [])])
def test_no_measurement_needs_more_steps_than_the_run_had(tidemark, failed, measured):
    got = tidemark("plan", "--model", "gpt2", "--batch", "8", "--seq", "512", "--explain", "12GB", *failed)
    last = got.out.splitlines()[-1]
    assert last.startswith("To tell 1 from 2, measure ") and re.findall(r"step (\d+)", last) == measured, got.out


def test_a_run_that_fails_in_its_first_step_has_no_optimizer_state(tidemark):
    pretrain = ["plan", "--model", "gpt2", "--batch", "8", "--seq", "1024"]
    planned = json.loads(tidemark(*pretrain, "--json").out)
    without = planned["allocated_bytes"] - planned["at_peak"]["optimizer"]
    for step, innocent in ((1, True), (2, False)):
        got = tidemark(*pretrain, "--explain", str(without), "--fails-at", str(step), "--json")
        assert json.loads(got.out)["explain"]["needs_no_mistake"] is innocent
    # Gradients that were zeroed instead of freed are there from the second step on.
    for step, count in ((1, 0), (2, 1)):
        got = tidemark(*pretrain, "--explain", str(planned["allocated_bytes"] + 498 * 1000 * 1000), "--fails-at", str(step), "--json")
        keys = [e["mistakes"] for e in json.loads(got.out)["explain"]["explanations"]]
        assert keys.count("keeps") == count, keys


def test_what_needs_no_mistake_is_not_said_to_be_unexplained(tidemark):
    planned = json.loads(tidemark("plan", "--model", "resnet50", "--json").out)["allocated_bytes"]
    got = tidemark("plan", "--model", "resnet50", "--explain", str(planned))
    assert got.code == 0
    assert "the run may be correct" in got.out and "Nothing that is known" not in got.out
    planned = json.loads(tidemark("plan", "--model", "gpt2", "--json").out)["allocated_bytes"]
    got = tidemark("plan", "--model", "gpt2", "--explain", str(planned))
    assert "the run may be correct" in got.out and "These mistakes would use about as much:" in got.out


def test_the_memory_that_making_the_model_takes_hides_no_mistake(tidemark):
    infer = ["plan", "--model", "gpt2", "--task", "infer", "--batch", "1", "--seq", "64"]
    wide = tidemark(*infer, "--json").json
    phases = {phase["name"]: phase["peak_bytes"] for phase in wide["phases"]}
    assert phases["model"] > phases["inference"] == wide["allocated_bytes"]
    got = tidemark(*infer, "--dtype", "bf16", "--explain", str(wide["allocated_bytes"]))
    assert "1. fp32 instead of bf16: 546 MB (+0.0 %)" in got.out
    # A file may be loaded in any way: no measurement of that is asked for.
    assert "the phase 'model'" not in tidemark("plan", "--model", "resnet50", "--explain", "10G").out


@pytest.mark.parametrize("words, without", [
    (["--model", "qwen2.5-0.5b", "--task", "sft", "--batch", "8", "--seq", "33", "--dtype", "bf16", "--accumulation", "4"], "--checkpointing"),
    (["--model", "gpt2", "--task", "sft", "--batch", "17", "--seq", "33", "--optimizer", "momentum"], "--checkpointing"),
])
def test_what_one_option_changes_is_explained_by_it(tidemark, words, without):
    planned = tidemark("plan", *words, "--json").json["allocated_bytes"]
    found = tidemark("plan", *words, without, "--explain", str(planned), "--json").json["explain"]["explanations"]
    assert [e for e in found if e["mistakes"] == "checkpointing" and abs(e["distance"]) < 0.004], found


def test_on_the_processor_resident_bytes_are_explained(tidemark):
    infer = ["plan", "--model", "qwen2.5-0.5b", "--task", "infer", "--batch", "3", "--seq", "256", "--generate", "20", "--where", "cpu"]
    right = tidemark(*infer, "--json").json["device_bytes"]
    assert tidemark(*infer, "--explain", str(right), "--json").json["explain"]["needs_no_mistake"]


def test_a_mistake_further_off_than_a_correct_run_is_not_offered(tidemark):
    for measured in ("8.61G", "8.8G"):  # a correct run: 8,690 MB; the model there twice: 9,188 MB
        got = tidemark("plan", "--model", "gpt2", "--batch", "8", "--seq", "512", "--explain", measured)
        assert got.code == 0 and "a correct run needs 8,690 MB" in got.out
        assert "of that: the run may be correct" in got.out and "mistake" not in got.out


def test_the_own_runtime_is_laid_out_exactly(tidemark):
    for more in ([], ["--batch", "3", "--budget", "4M"]):
        words = ["train", "lm", "--preset", "tiny", *more]
        got = tidemark("plan", "--json", "--", "tidemark", *words)
        direct = tidemark(*words, "--dry-run", "--json").json
        assert got.code == 0, got.err
        plan = got.json
        assert (plan["schema"], plan["framework"]) == ("tidemark.plan/1", "tidemark")
        assert plan["allocated_bytes"] == direct["plan_bytes"] == sum(plan["at_peak"].values())
        assert {p["name"] for p in plan["phases"]} == {"forward", "backward", "update", "evaluation"}
        assert all(p["peak_bytes"] == sum(p["parts"].values()) <= plan["allocated_bytes"] for p in plan["phases"])
        assert {"weights", "gradients", "optimizer", "attention", "mlp"} <= set(plan["at_peak"])
    table = tidemark("plan", "--", "tidemark", "train", "lm", "--preset", "tiny").out
    assert "at the peak" in table and "bytes, exactly" in table
    for words, word in ((("--", "python", "train.py"), "python"), (("--model", "gpt2", "--autocast", "bf16"), "bf16")):
        refused = tidemark("plan", *words)
        assert refused.code == 2 and f"expected options or a 'tidemark train' command, got '{word}'" in refused.err
    ignored = tidemark("plan", "--optimizer", "sgd", "--", "tidemark", "train", "lm", "--preset", "tiny")
    assert ignored.code == 2 and "only --json can be given" in ignored.err


def test_the_own_runtime_says_which_optimizer_and_how_much_trains(tidemark):
    for optimizer in "adamw", "adamw8", "adafactor", "sgd":
        words = ["--", "tidemark", "train", "lm", "--preset", "tiny", "--optimizer", optimizer]
        plan = tidemark("plan", "--json", *words).json
        assert plan["job"]["optimizer"] == optimizer
        assert plan["trainable"] == plan["parameters"]
        assert tidemark("plan", *words).out.splitlines()[0].endswith(f", fp32, {optimizer}")
    adapted = tidemark("plan", "--json", "--", "tidemark", "train", "lm", "--preset", "tiny", "--adapt", "lora:2").json
    assert 0 < adapted["trainable"] < adapted["parameters"] / 5


def test_the_own_runtime_says_that_it_is_grpo_and_whether_there_is_a_reference(tidemark):
    for options, reference in ((), False), (("--beta", "0.1"), True):
        words = ["--", "tidemark", "train", "grpo", *options]
        job = tidemark("plan", "--json", *words).json["job"]
        assert (job["task"], job["reference"]) == ("grpo", reference)
        assert ", grpo, " in tidemark("plan", *words).out.splitlines()[0]


def recorded(path, device):
    recording = Recording(path)
    recording.process(100, "python3")
    if device:
        recording.put("gpu_device", device=0, name="H200", uuid="u", total_bytes=1 << 37)
    for second in range(10):
        size = (3500 if 3 <= second <= 5 else 1200) * 1000 * 1000
        tick = recording.tick(second, {1: 700 * MIB if device else size})
        if device:
            recording.put("gpu", tick=tick, device=0, process=1, bytes=size)
    recording.mark(3, PHASE_BEGIN, name="backward")
    recording.mark(5, PHASE_END, name="backward")
    return recording.close()


@pytest.mark.parametrize("device", [True, False])
def test_a_recording_beside_the_plan(tidemark, tmp_path, device):
    path = recorded(tmp_path / "run.tide", device)
    got = tidemark(*GRPO, "--against", path)
    assert got.code == 0, got.err
    assert "unexplained" in got.out and "backward" in got.out
    document = json.loads(tidemark(*GRPO, "--against", path, "--json").out)
    assert document["schema"] == "tidemark.against/1"
    assert document["compared"] == ("device" if device else "rss")
    rows = {row["name"]: row for row in document["rows"]}
    assert rows["backward"]["seen_bytes"] == rows["whole run"]["seen_bytes"] == 3500 * 1000 * 1000
    for row in rows.values():
        assert row["seen_bytes"] - row["planned_bytes"] == row["unexplained_bytes"]


def test_the_page_of_a_recording_has_the_plan_beside_it(tidemark, tmp_path):
    path = recorded(tmp_path / "run.tide", True)
    (tmp_path / "plan.json").write_text(tidemark(*GRPO, "--json").out)
    got = tidemark("report", "--plan", tmp_path / "plan.json", "-o", tmp_path / "run.html", path)
    assert got.code == 0, got.err
    page = (tmp_path / "run.html").read_text()
    assert "Planned and seen" in page and 'data-label="Peak of">backward<td' in page and "head and loss" in page
    without = tidemark("report", "-o", "-", path)
    assert without.code == 0 and "Planned and seen" not in without.out
    (tmp_path / "plan.json").write_text('{"schema": "tidemark.verdict/1"}')
    refused = tidemark("report", "--plan", tmp_path / "plan.json", "-o", tmp_path / "other.html", path)
    assert refused.code == 2 and "it is not a plan" in refused.err and not (tmp_path / "other.html").exists()


def test_a_recording_says_at_which_step_it_failed(tidemark, tmp_path):
    recording = Recording(tmp_path / "run.tide")
    recording.meta(exit_status=137)
    recording.process(100, "python3")
    for second in range(13):
        recording.tick(second, {1: 700 * MIB})
        recording.mark(second, STEP, number=second)
    got = tidemark(*GRPO, "--explain", "22.65GB", "--against", recording.close())
    assert got.code == 0, got.err
    assert "fits a failure at step 12" in got.out


def test_a_recording_says_how_many_steps_there_were(tidemark, tmp_path):
    recording = Recording(tmp_path / "run.tide")
    recording.meta(exit_status=0)
    recording.process(100, "python3")
    for second in range(13):
        recording.tick(second, {1: 700 * MIB})
        recording.mark(second, STEP, number=second)
    path = recording.close()
    for more, found in (([], True), (["--against", path], False)):
        got = tidemark(*GRPO, "--explain", "22.65GB", *more)
        assert got.code == 0, got.err
        assert ("logits of 144 steps" in got.out) is found
        assert "fits a failure" not in got.out


@pytest.mark.parametrize("words, because, hint", [
    ([], "--model is missing", "tidemark plan --model"),
    (["--model", "gtp2"], "there is no model 'gtp2'", "did you mean 'gpt2'?"),
    (["--model", "gpt2", "--optimizer", "adanw"], "'adanw' is not one of its values", "did you mean 'adamw'?"),
    (["--model", "gpt2", "--seq", "4096"], "has 1024 positions", "n_positions"),
    (["--model", "./none/config.json"], "cannot open", ""),
    (["--model", "vit-base", "--task", "grpo"], "is an image model", ""),
    (["--model", "gpt2", "--shard", "full"], "needs more than one process", "--processes"),
    (["--model", "gpt2", "--loss", "trl", "--hold-output"], "does not hold the model's output", ""),
    (["--model", "gpt2", "--fails-at", "3"], "--fails-at is about a number to explain", "--explain SIZE"),
    (["--model", "gpt2", "--per-step", "3G"], "--per-step is about a number to explain", "--explain SIZE"),
    (["--model", "gpt2", "--on-device"], "--on-device is about a number to explain", "--explain SIZE"),
    (["--model", "gpt2", "--explain", "9G", "--device-memory", "8G"], "ask one at a time", ""),
    (["--model", "gpt2", "--task", "sft", "--generate", "5"], "only grpo and infer generate tokens, and the task is sft", ""),
    (["--model", "gpt2", "--task", "grpo", "--loss", "own"], "pretrain, sft, lora", ""),
    (["--model", "vit-base", "--loss", "trainer"], "pretrain, sft, lora", ""),
    (["--model", "llama-3.1-8b", "--attention", "eager", "--seq", "131072", "--batch", "16777216"], "too large", ""),
])
def test_what_makes_no_sense_is_refused(tidemark, words, because, hint):
    got = tidemark("plan", *words)
    assert got.code == 2
    assert because in got.err and hint in got.err
    assert got.out == ""


def test_a_configuration_that_is_not_trusted(tidemark, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", "hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 2,
                                "intermediate_size": 700, "num_hidden_layers": 4, "vocab_size": 5000}))
    assert tidemark("plan", "--model", path, "--seq", "128").code == 0
    assert tidemark("plan", "--model", f"{tmp_path}/", "--seq", "128").code == 0
    path.write_text('{"model_type": "llama", "hidden_size": 99999999999999999999999}')
    got = tidemark("plan", "--model", path)
    assert got.code == 2 and "too large" in got.err
    path.write_text('{"model_type": "\\u001b[2Jgpt"}')
    got = tidemark("plan", "--model", path)
    assert got.code == 2 and "\x1b" not in got.err
