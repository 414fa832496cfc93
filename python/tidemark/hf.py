"""A callback for the Hugging Face Trainer: marks, lines and a summary, with nothing else to change.

    trainer = Trainer(..., callbacks=[tidemark.hf.TidemarkCallback()])

Steps, epochs and items are marked, validation and checkpoints are phases, worker processes count their items. An error
in here is reported once; the training does not notice.
"""

from __future__ import annotations

from typing import Any, Optional

from transformers import TrainerCallback

from ._callback import LoggingCallback
from ._fault import never_raises, report_quietly
from ._loader import instrument, items_in

_VALIDATION, _CHECKPOINT = "validation", "checkpoint"


class TidemarkCallback(LoggingCallback, TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Keywords as for LoggingCallback. ``padding`` is fed only if batches are collated in this process (no loader workers)."""

    _per_step = 0
    _epoch_begin = (0, 0)  # step and items at the beginning of this epoch
    _items_per_pass: Optional[int] = None

    @never_raises
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.training_log is not None:
            self.training_log.close()
        loader = kwargs.get("train_dataloader")
        self._items_per_pass = items_in(loader)
        self._per_step = args.train_batch_size * args.gradient_accumulation_steps * max(1, args.world_size)
        instrument(loader, self._padding)
        self._open_log(state.is_world_process_zero, self._items_per_pass)

    @never_raises
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.training_log is None:
            return
        epoch = round(state.epoch or 0)
        before = epoch * self._items_per_pass if self._items_per_pass else state.global_step * self._per_step
        self._epoch_begin = (state.global_step, before)
        self.training_log.epoch(epoch)

    # The two methods that run in every step catch errors themselves: a decorator would unpack and pack the keywords
    # once more.

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        try:
            log = self.training_log
            if log is None:
                return
            if log.in_phase():  # left open by an exception, or by a callback that cancelled it
                for name in (_VALIDATION, _CHECKPOINT):
                    log.phase_end(name)
            log.step(state.global_step + 1)
        except Exception as error:  # noqa: BLE001 - as never_raises
            report_quietly("tidemark's on_step_begin", error)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        try:
            log = self.training_log
            if log is None:
                return
            log.step_end()
            step, items = self._epoch_begin
            seen, most = (state.global_step - step) * self._per_step, self._items_per_pass
            log.items(items + (most if most and seen > most else seen))
            if control.should_evaluate or control.should_save:
                self._begin_what_follows(control)
        except Exception as error:  # noqa: BLE001 - as never_raises
            report_quietly("tidemark's on_step_end", error)

    def _begin_what_follows(self, control: Any) -> None:
        """The Trainer announces validation and checkpoints by these flags, and calls back only when they are over."""
        if self.training_log is None:
            return
        if control.should_evaluate and not self.training_log.in_phase(_VALIDATION):
            self.training_log.phase_begin(_VALIDATION)
        elif control.should_save and not control.should_evaluate and not self.training_log.in_phase(_CHECKPOINT):
            self.training_log.phase_begin(_CHECKPOINT)

    @never_raises
    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.training_log is not None:
            self.training_log.epoch_end()
            self._begin_what_follows(control)

    @never_raises
    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.training_log is not None and not self.training_log.in_phase(_VALIDATION):
            self.training_log.phase_begin(_VALIDATION)  # the program called evaluate() or predict()

    @never_raises
    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.training_log is None:
            return
        self.training_log.phase_end(_VALIDATION)
        if control.should_save and not self.training_log.in_phase(_CHECKPOINT):
            self.training_log.phase_begin(_CHECKPOINT)

    @never_raises
    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        if self.training_log is not None:
            self.training_log.phase_end(_VALIDATION)

    @never_raises
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.training_log is not None:
            self.training_log.phase_end(_CHECKPOINT)

    @never_raises
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.training_log is not None:
            self.training_log.close()
