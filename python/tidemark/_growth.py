"""What grew between two censuses, and the words for it.

Groups are first put together over their shapes: sequences of changing length leave one tensor of each shape, and
"+1 tensor of (8, *, 50257) per step" is the finding, not fifty groups of one. Groups of the same holder, kind, dtype, device
and number of dimensions count as one; a dimension that differs is written as a star.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import torch

from ._units import change_text

if TYPE_CHECKING:
    from ._census import Census, Key

_OWNED = ("parameter", "buffer", "gradient", "optimizer state")


def dtype_text(dtype: Any) -> str:
    return str(dtype).replace("torch.", "")


def shape_text(shape: "Tuple[Any, ...]") -> str:
    inside = ", ".join(str(each) for each in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


def tensor_words(key: "Key") -> str:
    """(8, 174, 50257) float32 cuda:0, with grad"""
    grad = ", with grad" if key.requires_grad and key.kind not in _OWNED else ""
    return f"{shape_text(key.shape)} {dtype_text(key.dtype)} {key.device}{grad}"


def slices(shape: "Tuple[Any, ...]", dtype: Any, count: int, size: int) -> bool:
    """Whether tensors keep more than twice the bytes that they show: views of storages that nothing else uses."""
    if count <= 0 or "*" in shape:
        return False
    try:
        return bool(size > 2 * count * math.prod(shape) * torch.empty(0, dtype=dtype).element_size())
    except (RuntimeError, TypeError):
        return False


def _rate_text(count: int, steps: int) -> str:
    rate = count / steps
    if abs(rate - round(rate)) < 0.05 and round(rate) >= 1:
        return str(round(rate))
    return f"{rate:.2g}"


@dataclasses.dataclass(frozen=True)
class Growth:
    """Tensors that became more (``count`` > 0) or larger (``count`` 0) over ``steps`` steps, or an unknown number of them."""

    count: int
    bytes: int
    steps: Optional[int]
    shape: Tuple[Any, ...]  # "*" where shapes differ
    dtype: Any
    device: Any
    requires_grad: bool
    kind: str
    holder: str

    @property
    def count_per_step(self) -> Optional[float]:
        return self.count / self.steps if self.steps else None

    @property
    def bytes_per_step(self) -> Optional[float]:
        return self.bytes / self.steps if self.steps else None

    def __str__(self) -> str:
        what = f"{shape_text(self.shape)} {dtype_text(self.dtype)}"
        if str(self.device) != "cpu":
            what += f" on {self.device}"
        if self.count == 0:
            amount = f"tensors of {what} became larger"
        elif self.steps:
            number = _rate_text(self.count, self.steps)
            amount = f"+{number} tensor{'s' if number != '1' else ''} of {what} per step"
        else:
            amount = f"+{self.count} tensor{'s' if self.count != 1 else ''} of {what}"
        size = change_text(self.bytes / self.steps) + " per step" if self.steps else change_text(self.bytes)
        held = self.holder if self.kind in _OWNED else f"held by {self.holder}"
        views = ", views of larger storages" if slices(self.shape, self.dtype, self.count, self.bytes) else ""
        return f"{amount} ({size}){views}, {held}"


_Family = Tuple[int, Any, Any, bool, str, str]


def _family(key: "Key") -> _Family:
    return len(key.shape), key.dtype, key.device, key.requires_grad, key.kind, key.holder


def _differences(before: "Census", after: "Census") -> "Dict[_Family, List[Tuple[Key, int, int]]]":
    families: Dict[_Family, List[Tuple[Key, int, int]]] = {}
    for key in before.groups.keys() | after.groups.keys():
        old, new = before.groups.get(key), after.groups.get(key)
        count = (new.count if new else 0) - (old.count if old else 0)
        size = (new.bytes if new else 0) - (old.bytes if old else 0)
        if count or size:
            families.setdefault(_family(key), []).append((key, count, size))
    return families


def _common_shape(shapes: "List[Tuple[int, ...]]") -> Tuple[Any, ...]:
    return tuple(sizes[0] if len(set(sizes)) == 1 else "*" for sizes in zip(*shapes))


def between(before: "Census", after: "Census", least_bytes: int) -> List[Growth]:
    steps = None
    if before.step is not None and after.step is not None and after.step > before.step:
        steps = after.step - before.step
    found = []
    for family, changes in _differences(before, after).items():
        count = sum(change[1] for change in changes)
        size = sum(change[2] for change in changes)
        if count < 0 or size < least_bytes:
            continue
        grown = [tuple(key.shape) for key, more, larger in changes if more > 0 or larger > 0]
        _, dtype, device, requires_grad, kind, holder = family
        shape = _common_shape(grown)
        found.append(Growth(count, size, steps, shape, dtype, device, requires_grad, kind, holder))
    return sorted(found, key=lambda each: -each.bytes)
