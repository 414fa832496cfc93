"""What a program under observation says about itself.

    import tidemark

    for step, batch in enumerate(loader):
        tidemark.step(step)
        train(batch)
        if step % 1000 == 0:
            with tidemark.phase("validation"):
                evaluate()

Under ``tidemark run``, each call leaves a mark in memory shared with the tracker. Without a tracker, calls do nothing
and never raise. They may come from any thread and from every process of the tree: a forked child leaves its own marks.
Names are cut at 95 bytes of UTF-8.

Besides marks: ``watch`` (a loader that marks by itself), ``TrainingLog`` (lines and a summary with the verdict),
``Cleanup`` (measures what it frees), ``reward`` (a reward function as a command for ``tidemark train grpo``). All need
only the standard library. ``tidemark.torch``, ``.hf`` and ``.lightning`` are imported by name and need their
frameworks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._lane import epoch, gauge, items, phase_begin, phase_end, step, tracked
from ._phase import phase

if TYPE_CHECKING:
    from ._cleanup import Cleanup
    from ._loader import watch
    from ._reward import reward
    from ._traininglog import TrainingLog

__all__ = [
    "Cleanup",
    "TrainingLog",
    "epoch",
    "gauge",
    "items",
    "phase",
    "phase_begin",
    "phase_end",
    "reward",
    "step",
    "tracked",
    "watch",
]
__version__ = "0.1.0"

_LATER = {"Cleanup": "_cleanup", "TrainingLog": "_traininglog", "reward": "_reward", "watch": "_loader"}


def __getattr__(name: str) -> Any:
    """Loads everything but the marks when it is first used."""
    if name not in _LATER:
        raise AttributeError(f"module 'tidemark' has no attribute '{name}'")
    from importlib import import_module

    value = getattr(import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = value
    return value
