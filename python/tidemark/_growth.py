"""What grew between two censuses, and the words for it.

Groups are first merged over their shapes. Sequences of changing length leave one tensor of each shape, and "+1 tensor
of (8, *, 50257) per step" is the finding, not fifty groups of one. Groups of the same holder, kind, dtype, device and
number of dimensions count as one; a dimension that differs is written as a star.

Two censuses differ in a healthy run as well: the variable of a batch has a value in one and not in the other. So a
difference counts as growth (``lasting``) only if it went on from census to census.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import torch

from ._units import change_text

if TYPE_CHECKING:
    from ._census import Census, Key

_STEPS_PER_TENSOR_MOST = 20  # with only two censuses: anything that grows more slowly may be chance
_BY_GRAPHS = ("autograd graph", "unknown")
_OWNED = ("parameter", "buffer", "gradient", "optimizer state")

_Family = Tuple[int, Any, Any, bool, str, str]


def dtype_text(dtype: Any) -> str:
    return str(dtype).replace("torch.", "")


def shape_text(shape: "Tuple[Any, ...]") -> str:
    inside = ", ".join(str(each) for each in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


def tensor_words(key: "Key") -> str:
    """Words like: (8, 174, 50257) float32 cuda:0, with grad"""
    grad = ", with grad" if key.requires_grad and key.kind not in _OWNED else ""
    return f"{shape_text(key.shape)} {dtype_text(key.dtype)} {key.device}{grad}"


def slices(shape: "Tuple[Any, ...]", dtype: Any, count: int, size: int) -> bool:
    """True if tensors keep more than twice the bytes that they show: they are views of storages that nothing else uses."""
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
    """Tensors that became more (``count`` > 0) or larger (``count`` 0) over ``steps`` steps. ``steps`` is None if unknown."""

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
    def family(self) -> "_Family":
        return len(self.shape), self.dtype, self.device, self.requires_grad, self.kind, self.holder

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


def _totals(census: "Census") -> Dict[_Family, int]:
    total: Dict[_Family, int] = {}
    for key, group in census.groups.items():
        total[_family(key)] = total.get(_family(key), 0) + group.bytes
    return total


def _went_on(sizes: List[int], halfway: int, more: bool) -> bool:
    """True if the bytes never fell from census to census, rose at least twice, and rose in the second half.

    Tensors that became larger but not more (batches of changing length) must have grown each time, at least thrice.
    """
    changes = [after - before for before, after in zip(sizes, sizes[1:])]
    rises = sum(change > 0 for change in changes)
    if min(changes) < 0 or sizes[-1] <= sizes[halfway]:
        return False
    return rises >= 2 if more else rises == len(changes) >= 3


def lasting(censuses: "Sequence[Census]", least_bytes: int) -> List[Growth]:
    """Returns what grew from the first census to the last and kept growing between them, the most bytes first.

    Censuses that were cut short are left out: if not every graph was visited, for tensors that graphs keep or that have
    no known holder; if the search for holders was cut short, for all tensors.
    """
    held = _lasting([each for each in censuses if each.holders_complete], least_bytes)
    kept = _lasting([each for each in censuses if each.complete], least_bytes)
    found = [each for each in held if each.kind not in _BY_GRAPHS] + [each for each in kept if each.kind in _BY_GRAPHS]
    return sorted(found, key=lambda each: -each.bytes)


def _lasting(whole: "Sequence[Census]", least_bytes: int) -> List[Growth]:
    """Two censuses show only a difference. It counts as growth if it is many tensors: at least one in every 20 steps."""
    if len(whole) < 2:
        return []
    found = between(whole[0], whole[-1], least_bytes)
    if len(whole) == 2:
        return [each for each in found if each.steps and each.count >= max(2, each.steps / _STEPS_PER_TENSOR_MOST)]
    middle = ((whole[0].step or 0) + (whole[-1].step or 0)) / 2
    halfway = min(range(1, len(whole) - 1), key=lambda index: abs((whole[index].step or 0) - middle))
    totals = [_totals(each) for each in whole]
    return [each for each in found if _went_on([total.get(each.family, 0) for total in totals], halfway, each.count > 0)]
