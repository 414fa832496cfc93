"""What the callbacks of frameworks (hf.py, lightning.py) share: their keywords, and the log that they open with them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from ._cleanup import Cleanup
from ._traininglog import TrainingLog


class LoggingCallback:
    """Keywords as TrainingLog's; ``cleanup``: a Cleanup that runs where steps end; ``padding``: a PaddingMeter, fed every
    batch. The log of the latest training is ``training_log``. Goes before the framework's class among the bases."""

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
        """A new log, silent in all processes of a training but one. ``items``: in one pass over the data."""
        log = self.training_log = TrainingLog(**self._settings, items=items, quiet=not speaks)
        log.count_graphs()
        return log
