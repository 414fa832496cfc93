"""How long the sequences are, which batch shapes occur, and what padding costs.

A batch of sequences is as wide as its longest one; the rest is padding, which costs memory in the inputs and in every
activation. Feed the meter the batches that the loader yields: tensors, or dicts as tokenizers make them.
"""

from __future__ import annotations

import collections
import threading
from typing import Any, Counter, Dict, Iterable, List, Mapping, Optional, Tuple

from ._fault import quietly
from ._units import size_text

_SHAPES_MOST = 4096


class PaddingMeter:
    """Counts sequence lengths, batch shapes and padding.

        meter = tidemark.torch.PaddingMeter(pad_id=0)
        for batch in loader:
            meter.feed(batch)
        print(meter)

    ``attention_mask`` in a batch says what is padding; without one, ``pad_id`` does. ``bytes_per_token``: what one
    position costs beyond the batch itself (activations, logits), to get the full cost of padding.
    """

    def __init__(self, pad_id: Optional[int] = None, bytes_per_token: int = 0) -> None:
        self.lengths: Counter[int] = collections.Counter()
        self.shapes: Counter[Tuple[int, ...]] = collections.Counter()
        self.tokens = 0
        self.padding = 0
        self.padding_bytes = 0
        self.batches = 0
        self._pad_id = pad_id
        self._bytes_per_token = bytes_per_token
        self._lock = threading.Lock()

    def _kept(self, batch: Any) -> Any:
        """Returns a tensor of booleans: True where a position is not padding. None if that is unknown."""
        if isinstance(batch, Mapping):
            mask = batch.get("attention_mask")
            if mask is not None and mask.dim() == 2:
                return mask != 0
            batch = batch.get("input_ids")
        elif isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        if self._pad_id is None or batch is None or not hasattr(batch, "dim") or batch.dim() != 2:
            return None
        return batch != self._pad_id

    def _tensors(self, batch: Any) -> Iterable[Any]:
        values = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, (list, tuple)) else [batch]
        return (value for value in values if hasattr(value, "element_size"))

    def feed(self, batch: Any) -> None:
        """Counts one batch; ignores what it cannot read. Best called with CPU tensors, before they are moved."""
        with quietly("measuring padding"):
            kept = self._kept(batch)
            if kept is None:
                return
            lengths: List[int] = kept.sum(-1).tolist()
            rows, width = kept.shape
            per_token = self._bytes_per_token
            for tensor in self._tensors(batch):
                if tuple(tensor.shape[:2]) == (rows, width):
                    per_token += tensor.element_size() * (tensor.nelement() // max(1, rows * width))
            missing = rows * width - sum(lengths)
            with self._lock:
                self.lengths.update(lengths)
                if (rows, width) in self.shapes or len(self.shapes) < _SHAPES_MOST:
                    self.shapes[rows, width] += 1
                self.batches += 1
                self.tokens += rows * width - missing
                self.padding += missing
                self.padding_bytes += missing * per_token

    @property
    def share(self) -> float:
        """Padding as a share of all positions."""
        every = self.tokens + self.padding
        return self.padding / every if every else 0.0

    def histogram(self, bars: int = 10) -> List[Tuple[int, int, int]]:
        """Returns (from, to, sequences): lengths in ranges of equal size."""
        if not self.lengths:
            return []
        low, high = min(self.lengths), max(self.lengths)
        width = max(1, -(-(high - low + 1) // bars))
        counts: Dict[int, int] = collections.Counter()
        for length, number in self.lengths.items():
            counts[(length - low) // width] += number
        return [(low + i * width, min(high, low + (i + 1) * width - 1), counts[i]) for i in range(max(counts) + 1)]

    def __str__(self) -> str:
        if not self.batches:
            return "no batch with sequences was seen"
        lines = [
            f"{self.batches} batches of {len(self.shapes)} shapes, {sum(self.lengths.values())} sequences: "
            f"{self.share * 100:.1f} % padding, {size_text(self.padding_bytes)} in all, "
            f"{size_text(self.padding_bytes / self.batches)} per batch"
        ]
        table = self.histogram()
        most = max(number for _, _, number in table)
        for low, high, number in table:
            lines.append(f"{low:>7}..{high:<7} {number:>8}  {'#' * round(40 * number / most)}".rstrip())
        return "\n".join(lines)
