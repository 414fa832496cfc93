"""A callback for Lightning: marks, lines and a summary, with nothing else to change.

    trainer = lightning.Trainer(callbacks=[tidemark.lightning.TidemarkCallback()])

A step is a batch. Validation (also the sanity check), test and checkpoints are phases. An error in here is reported
once; the training does not notice.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback  # type: ignore[assignment,no-redef,unused-ignore]

from ._callback import LoggingCallback
from ._fault import never_raises
from ._loader import instrument, items_in, size_of
from ._traininglog import TrainingLog


class TidemarkCallback(LoggingCallback, Callback):  # type: ignore[misc,unused-ignore]
    """Keywords as for LoggingCallback."""

    _batches = 0
    _items = 0
    _save: Optional[Callable[..., Any]] = None

    @never_raises
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Opens the log before the sanity check, whose memory counts too."""
        if stage != "fit" or (self.training_log is not None and not self.training_log.closed):
            return
        self._batches = self._items = 0
        self._mark_checkpoints(trainer, self._open_log(trainer.is_global_zero))

    def _mark_checkpoints(self, trainer: Any, log: TrainingLog) -> None:
        """Wraps save_checkpoint, because Lightning calls back before it saves, not after."""
        save = self._save = trainer.save_checkpoint

        @functools.wraps(save)
        def save_checkpoint(*args: Any, **kwargs: Any) -> Any:
            with log.phase("checkpoint"):
                return save(*args, **kwargs)

        trainer.save_checkpoint = save_checkpoint

    @never_raises
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        loader = trainer.train_dataloader
        instrument(loader)
        if self.training_log is not None:
            self.training_log.items_per_pass = items_in(loader)

    @never_raises
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if self.training_log is not None:
            self.training_log.epoch(trainer.current_epoch)

    @never_raises
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self.training_log is None:
            return
        self._batches += 1
        self.training_log.step(self._batches)
        self._items += size_of(batch)
        self.training_log.items(self._items)
        if self._padding is not None:
            self._padding.feed(batch)

    @never_raises
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.training_log is not None:
            self.training_log.step_end()

    @never_raises
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self.training_log is not None:
            self.training_log.epoch_end()

    @never_raises
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if self.training_log is not None:
            self.training_log.phase_begin("sanity check" if trainer.sanity_checking else "validation")

    @never_raises
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self.training_log is not None:
            self.training_log.phase_end("sanity check" if trainer.sanity_checking else "validation")

    @never_raises
    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        if self.training_log is not None:
            self.training_log.phase_begin("test")

    @never_raises
    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        if self.training_log is not None:
            self.training_log.phase_end("test")

    @never_raises
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.training_log is not None:
            self.training_log.close()

    @never_raises
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self.training_log is not None:
            self.training_log.close()

    @never_raises
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if self._save is not None:
            trainer.save_checkpoint = self._save
            self._save = None
