"""The callback in the real Lightning Trainer."""

import os
import warnings

import pytest
from frameworks import framework

torch = framework("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
        pl = framework("lightning.pytorch", "pytorch_lightning")
    except ValueError:  # Debian's torch 1.13 cannot import its own sharding code on Python 3.11
        pytest.skip("lightning cannot be imported with this torch", allow_module_level=True)
ours = framework("tidemark.lightning")
tidemark = framework("tidemark")
pytestmark = [pytest.mark.unsanitized, pytest.mark.xdist_group("torch")]


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)
        self.kept = []

    def training_step(self, batch, _index):
        out = self.layer(batch[0])
        self.kept.append(out.detach().repeat(1024, 1))
        return out.square().mean()

    def validation_step(self, batch, _index):
        self.layer(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(tmp_path, callback, **more):
    def loader(count):
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(count, 16)), batch_size=8)

    trainer = pl.Trainer(accelerator="cpu", max_epochs=2, logger=False, enable_progress_bar=False, callbacks=[callback],
                         enable_model_summary=False, default_root_dir=str(tmp_path), **more)
    trainer.fit(Model(), loader(36), loader(8))
    return trainer


def test_steps_epochs_items_validation_and_checkpoints_are_marked(tmp_path, marks, binary):
    lines = []
    trainer = fit(tmp_path, ours.TidemarkCallback(every=4, out=lines.append))
    mine = marks()[os.getpid()]
    assert [n for kind, n in mine if kind == "step"] == list(range(1, 11))
    assert [n for kind, n in mine if kind == "epoch"] == [0, 1]
    assert [n for kind, n in mine if kind == "items"] == [8, 16, 24, 32, 36, 44, 52, 60, 68, 72]
    begun = [name for kind, name in mine if kind == "begin"]
    assert begun == ["sanity check", "validation", "checkpoint", "validation", "checkpoint"]
    assert sorted(begun) == sorted(name for kind, name in mine if kind == "end")
    assert [line.split(":")[0] for line in lines if line.startswith(("step", "epoch"))] == [
        "step 4", "epoch 0 ends at step 5", "step 8", "epoch 1 ends at step 10"]
    assert "save_checkpoint" not in vars(trainer) or trainer.save_checkpoint.__name__ == "save_checkpoint"


def test_the_summary_names_what_grew(tmp_path, binary, monkeypatch):
    monkeypatch.setattr("tidemark._traininglog._CENSUS_SECONDS", 60)  # on a machine with other things to do
    lines = []
    fit(tmp_path, ours.TidemarkCallback(every=0, share=1.0, out=lines.append))
    growing = [line for line in lines if line.startswith("growing: ")]
    assert any("tensor of (*, 4) float32 per step" in line and ".kept`" in line for line in growing), lines


def test_no_fault_of_the_callback_makes_training_fail(tmp_path, said, monkeypatch, binary):
    def broken(*_args, **_kwargs):
        raise RuntimeError("inside")

    for name in ("step", "step_end", "epoch", "epoch_end", "items", "phase_begin", "phase_end", "close"):
        monkeypatch.setattr(tidemark.TrainingLog, name, broken)
    assert fit(tmp_path, ours.TidemarkCallback(), enable_checkpointing=False).global_step == 10
    assert "RuntimeError: inside" in said()
