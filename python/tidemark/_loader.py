"""``watch(loader)``: a loader that leaves marks while it is iterated, and whose worker processes do too.

The parent marks steps, epochs and items as it takes batches. Each worker process of a torch DataLoader counts the items
that it has fetched, in its own lane, so that memory growth in a worker can be compared with its items. For that the
loader's ``collate_fn`` is wrapped, in place. The wrapper can be pickled wherever the function can, so workers may be
forked or spawned.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import weakref
from typing import Any, Callable, Generic, Iterable, Iterator, Mapping, Optional, Sized, TypeVar

from . import _lane
from ._fault import quietly
from ._traininglog import TrainingLog

_T = TypeVar("_T")


class CountingCollate:
    """A collate function that counts its items in a worker process, and feeds a padding meter in the main process."""

    def __init__(self, collate: Callable[[Any], Any], padding: Any = None) -> None:
        self.collate = collate
        self.padding = padding
        self._home = os.getpid()
        self._items = 0
        self._pid = 0

    def __call__(self, samples: Any) -> Any:
        batch = self.collate(samples)
        with quietly("counting a worker's items"):
            pid = os.getpid()
            if pid != self._home:
                if pid != self._pid:  # a copy in a new worker
                    self._pid, self._items = pid, 0
                self._items += len(samples) if isinstance(samples, list) else 1
                _lane.items(self._items)
            elif self.padding is not None:
                self.padding.feed(batch)
        return batch

    def __getstate__(self) -> Any:
        return {**self.__dict__, "padding": None}  # useless in another process


def instrument(loader: Any, padding: Any = None) -> None:
    """Makes the workers of a torch DataLoader count their items. Does it once; other loaders are left alone."""
    with quietly("watching a loader's workers"):
        torch: Any = sys.modules.get("torch.utils.data")
        loader = getattr(loader, "base_dataloader", loader)  # accelerate wraps the real loader
        if torch is None or not isinstance(loader, torch.DataLoader):
            return
        if isinstance(loader.collate_fn, CountingCollate):
            return
        if loader.num_workers > 0 or padding is not None:
            loader.collate_fn = CountingCollate(loader.collate_fn, padding)


def size_of(batch: Any) -> int:
    """Returns how many items a batch holds: the first dimension of its first tensor, or its length."""
    if isinstance(batch, Mapping):
        batch = next(iter(batch.values()), ())
    if isinstance(batch, (list, tuple)) and batch and hasattr(batch[0], "shape"):
        batch = batch[0]
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 1
    return len(batch) if isinstance(batch, Sized) and not isinstance(batch, (str, bytes)) else 1


def items_in(loader: Any) -> Optional[int]:
    """Returns the number of items in one pass over a loader, or None if it is unknown."""
    try:
        return len(loader.dataset)
    except (AttributeError, TypeError, NotImplementedError):
        return None


@dataclasses.dataclass
class _Progress:
    """How far the passes over one loader have come."""

    log: Optional[TrainingLog] = None
    epoch: int = 0
    step: int = 0
    items: int = 0


# For loaders that have their own log: a loader that is watched again in each epoch continues where it was.
_progress: "weakref.WeakKeyDictionary[Any, _Progress]" = weakref.WeakKeyDictionary()


def _progress_of(loader: Any, every: int) -> _Progress:
    found = None
    with contextlib.suppress(TypeError):  # a list, for example, has no weak references, and is new each time
        found = _progress.get(loader)
    if found is None or found.log is None or found.log.closed or found.log.pid != os.getpid():
        found = _Progress(TrainingLog(every=every, items=items_in(loader)))
        if found.log is not None:
            found.log.count_graphs()
        with contextlib.suppress(TypeError):
            _progress[loader] = found
    return found


class Watched(Generic[_T]):
    """A watched loader. Everything but iteration is passed to the loader."""

    def __init__(self, loader: Iterable[_T], progress: _Progress, phase: Optional[str], padding: Any) -> None:
        self._loader = loader
        self._progress = progress
        self._phase = phase
        self._padding = padding

    def __iter__(self) -> Iterator[_T]:
        if self._phase is not None:
            yield from self._pass_in_phase(self._phase)
            return
        progress, log = self._progress, self._progress.log
        if log is not None:
            log.epoch(progress.epoch)
        else:
            _lane.epoch(progress.epoch)
        progress.epoch += 1
        for batch in self._loader:
            self._begin(batch)
            yield batch
        if log is not None:
            log.epoch_end()

    def _pass_in_phase(self, name: str) -> Iterator[_T]:
        log = self._progress.log
        begin, end = (log.phase_begin, log.phase_end) if log is not None else (_lane.phase_begin, _lane.phase_end)
        begin(name)
        try:
            yield from self._loader
        finally:
            end(name)

    def _begin(self, batch: _T) -> None:
        with quietly("watching a loader"):
            progress, log = self._progress, self._progress.log
            if log is not None:
                log.step(progress.step)
            else:
                _lane.step(progress.step)
            progress.step += 1
            progress.items += size_of(batch)
            if log is not None:
                log.items(progress.items)
            else:
                _lane.items(progress.items)
            if self._padding is not None and not isinstance(getattr(self._loader, "collate_fn", None), CountingCollate):
                self._padding.feed(batch)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # a copy that is not initialized yet
            raise AttributeError(name)
        return getattr(self._loader, name)


def watch(
    loader: Iterable[_T],
    *,
    every: int = 100,
    phase: Optional[str] = None,
    log: Optional[TrainingLog] = None,
    padding: Any = None,
) -> "Watched[_T]":
    """The same loader, watched: ``for batch in tidemark.watch(loader):``.

    Each pass is an epoch and each batch a step, with a line every ``every`` steps, one per epoch, and a summary at the
    end; ``every=0`` only marks. A loader that is watched again continues its counts and its log. ``phase``: passes over
    this loader are phases of that name instead, for validation. ``log``: a TrainingLog that loaders may share.
    ``padding``: a PaddingMeter to feed.
    """
    progress = _Progress(log)
    with quietly("watching a loader"):
        instrument(loader)
        if log is None and every > 0 and phase is None:
            progress = _progress_of(loader, every)
    return Watched(loader, progress, phase, padding)
