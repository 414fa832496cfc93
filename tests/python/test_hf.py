"""The callback in the real Trainer."""

import os
import subprocess
import sys

import pytest
from lanes import ROOT
from frameworks import framework

torch = framework("torch")
transformers = framework("transformers")
hf = framework("tidemark.hf")
tidemark = framework("tidemark")
pytestmark = [pytest.mark.unsanitized, pytest.mark.xdist_group("torch")]

LENGTH, VOCABULARY = 16, 97


class Tokens(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        tokens = (torch.arange(LENGTH) * 7 + index) % VOCABULARY
        return {"input_ids": tokens, "labels": tokens}


KEPT = []


class Leaky(transformers.Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs = model(**inputs)
        if model.training:
            KEPT.append(outputs.logits.detach())
        return (outputs.loss, outputs) if return_outputs else outputs.loss


def trainer_of(tmp_path, callback, kind=transformers.Trainer, callbacks=(), **more):
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=32, n_embd=32, n_layer=1, n_head=2)
    settings = {"output_dir": str(tmp_path / "out"), "per_device_train_batch_size": 4, "num_train_epochs": 2,
                "report_to": [], "disable_tqdm": True, "logging_steps": 1000, "save_steps": 1000, "use_cpu": True,
                "eval_strategy": "epoch", "save_strategy": "steps", **more}
    names = {field.name for field in transformers.TrainingArguments.__dataclass_fields__.values()}
    if "eval_strategy" not in names:
        settings["evaluation_strategy"] = settings.pop("eval_strategy")
    if "use_cpu" not in names:
        settings["no_cuda"] = settings.pop("use_cpu")
    return kind(model=transformers.GPT2LMHeadModel(config), args=transformers.TrainingArguments(**settings),
                train_dataset=Tokens(18), eval_dataset=Tokens(8), callbacks=[callback, *callbacks])


def named(marks, *kinds):
    return [each for each in marks if each[0] in kinds]


def test_steps_epochs_items_validation_and_checkpoints_are_marked(tmp_path, marks, binary):
    lines = []
    trainer_of(tmp_path, hf.TidemarkCallback(every=3, out=lines.append), save_steps=3).train()
    mine = marks()[os.getpid()]
    assert named(mine, "step") == [("step", n) for n in range(1, 11)]
    assert named(mine, "epoch") == [("epoch", 0), ("epoch", 1)]
    assert named(mine, "items") == [("items", n) for n in (4, 8, 12, 16, 18, 22, 26, 30, 34, 36)]
    phases = named(mine, "begin", "end")
    assert phases.count(("begin", "validation")) == phases.count(("end", "validation")) == 2
    assert phases.count(("begin", "checkpoint")) == phases.count(("end", "checkpoint")) >= 3
    for begin, end in zip(phases[::2], phases[1::2]):
        assert begin == ("begin", end[1]), "none is inside another"
    assert [line.split(":")[0] for line in lines if line.startswith(("step", "epoch"))] == [
        "step 3", "epoch 0 ends at step 5", "step 6", "step 9", "epoch 1 ends at step 10"]
    assert any(" steps in " in line for line in lines)


def test_the_summary_names_what_grew(tmp_path, binary, monkeypatch):
    monkeypatch.setattr("tidemark._traininglog._CENSUS_SECONDS", 60)  # on a machine with other things to do
    lines = []
    KEPT.clear()
    callback = hf.TidemarkCallback(every=0, share=1.0, out=lines.append)
    trainer_of(tmp_path, callback, Leaky, num_train_epochs=6).train()
    growing = [line for line in lines if line.startswith("growing: ")]
    # 18 items in batches of 4: every fifth batch has 2, so the first dimension varies
    assert any(f"{LENGTH}, {VOCABULARY}) float32" in line and "held by list `KEPT` in test_hf.py" in line for line in growing), lines
    assert callback.training_log.verdicts and callback.training_log.graphs.most == 1
    assert all(census.graphs == 0 for census in callback.training_log.censuses), "never between forward and backward"
    KEPT.clear()


def test_loader_workers_count_their_items(tmp_path, marks, binary):
    trainer_of(tmp_path, hf.TidemarkCallback(out=lambda _: None), dataloader_num_workers=1, num_train_epochs=1).train()
    found = marks()
    found.pop(os.getpid())
    assert [("items", 18)] in [named(theirs, "items")[-1:] for theirs in found.values()]


def test_evaluating_without_training_is_no_trouble(tmp_path, marks):
    trainer = trainer_of(tmp_path, hf.TidemarkCallback(out=lambda _: None))
    trainer.evaluate()
    trainer.predict(Tokens(4))
    assert marks() == {}


def test_training_goes_on_being_marked_after_an_evaluation_of_its_own(tmp_path, marks, said, binary):
    trainer = trainer_of(tmp_path, hf.TidemarkCallback(out=lambda _: None), num_train_epochs=1)
    trainer.train()
    trainer.evaluate()
    trainer.train()
    assert named(marks()[os.getpid()], "step") == [("step", n) for n in range(1, 6)] * 2
    assert "is skipped" not in said()


def test_an_exception_in_the_training_is_the_users_alone(tmp_path, marks, said, binary):
    class Stop(transformers.TrainerCallback):
        def on_evaluate(self, args, state, control, **kwargs):
            raise KeyError("mine")

    callback = hf.TidemarkCallback(out=lambda _: None)
    trainer = trainer_of(tmp_path, callback, callbacks=[Stop()])
    trainer.callback_handler.callbacks.sort(key=lambda each: not isinstance(each, Stop))  # before ours
    with pytest.raises(KeyError, match="mine"):
        trainer.train()
    callback.training_log.close()
    phases = named(marks()[os.getpid()], "begin", "end")
    assert phases == [("begin", "validation"), ("end", "validation")], "closed with the log"


def test_no_fault_of_the_callback_makes_training_fail(tmp_path, said, monkeypatch, binary):
    def broken(*_args, **_kwargs):
        raise RuntimeError("inside")

    for name in ("step", "step_end", "epoch", "epoch_end", "items", "phase_begin", "phase_end", "close", "count_graphs"):
        monkeypatch.setattr(tidemark.TrainingLog, name, broken)
    result = trainer_of(tmp_path, hf.TidemarkCallback()).train()
    assert result.global_step == 10
    err = said()
    assert err.count("on_step_begin failed and is skipped: RuntimeError: inside") == 1


def test_a_resumed_training_goes_on(tmp_path, marks, binary):
    trainer_of(tmp_path, hf.TidemarkCallback(out=lambda _: None), save_steps=4, num_train_epochs=1).train()
    again = trainer_of(tmp_path, hf.TidemarkCallback(out=lambda _: None), num_train_epochs=2)
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-4"))
    steps = [n for _, n in named(marks()[os.getpid()], "step")]
    assert steps == [1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10]


def test_under_a_tracker_the_verdict_is_the_recordings(binary, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        f"import sys; sys.path[:0] = [{str(ROOT / 'tests' / 'python')!r}, {str(ROOT / 'python')!r}]\n"
        "import pathlib, test_hf, tidemark._samples\n"
        "tidemark._samples.Samples.tables = lambda self: []  # which would be judged while the recording is short\n"
        "callback = test_hf.hf.TidemarkCallback(every=0)\n"
        "test_hf.trainer_of(pathlib.Path(sys.argv[1]), callback, num_train_epochs=30).train()\n"
        "print(callback.training_log.verdicts[0].document['source'])\n")
    recording = tmp_path / "a.tide"
    done = subprocess.run([binary, "run", "-q", "-o", recording, "--", sys.executable, script, tmp_path],
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(recording)
