"""What the callbacks for frameworks (hf.py, lightning.py) share: their keywords, and the log that they open."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from ._cleanup import Cleanup
from ._traininglog import TrainingLog


class LoggingCallback:
    """Keywords as for TrainingLog. ``cleanup``: a Cleanup that runs at the end of steps. ``padding``: a PaddingMeter
    for every batch. The log of the latest training is ``training_log``. Must precede the framework's class among the
    bases."""

    def __init__(
        self,
        every: int = 100,
        *,
        debug: bool = False,
        census: bool = True,
        share: float = 0.0003,
        cleanup: Optional[Cleanup] = None,
        padding: Any = None,
        out: Optional[Callable[[str], None]] = None,
    ) -> None:
        super().__init__()
        self.training_log: Optional[TrainingLog] = None
        self._padding = padding
        self._settings: Dict[str, Any] = {
            "every": every, "debug": debug, "census": census, "share": share, "cleanup": cleanup, "out": out
        }

    def _open_log(self, speaks: bool, items: Optional[int] = None) -> TrainingLog:
        """Opens a new log, silent in all processes of a job but one. ``items``: in one pass over the data."""
        log = self.training_log = TrainingLog(**self._settings, items=items, quiet=not speaks)
        log.count_graphs()
        return log
