"""What a program under observation says about itself.

    import tidemark

    for step, batch in enumerate(loader):
        tidemark.step(step)
        train(batch)
        if step % 1000 == 0:
            with tidemark.phase("validation"):
                evaluate()

Run under ``tidemark run``, each call leaves a mark in memory shared with the tracker; run alone, it does nothing.
Calls never raise for want of a tracker, may come from any thread, and work in every process of the tree: a forked
child leaves its own marks. Names are cut at 95 bytes of UTF-8.
"""

from __future__ import annotations

from . import _lane
from ._lane import epoch, gauge, items, phase_begin, phase_end, step, tracked
from ._phase import phase

__all__ = ["epoch", "gauge", "items", "phase", "phase_begin", "phase_end", "step", "tracked"]
__version__ = "0.1.0"

del _lane
