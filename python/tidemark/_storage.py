"""The identity and the size of the memory behind a tensor, on every version of torch.

Several tensors (views, ``detach()``, tied weights) may share one storage; it is counted once, by its identity. A tensor
without a storage (sparse, quantised in odd ways, a wrapper of another library) is asked for its parts. If that fails
too, its size is that of its elements. Nothing here raises.
"""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

import torch

Piece = Tuple[int, int]  # identity, bytes

# torch 2 calls it untyped_storage(); 1.13 has it under another name, and storage() there is 10 times slower.
storage_of: Callable[[Any], Any] = getattr(
    torch.Tensor, "untyped_storage", getattr(torch.Tensor, "_storage", torch.Tensor.storage)
)


def _piece_of(tensor: Any) -> Piece:
    storage = storage_of(tensor)
    return storage._cdata, storage.nbytes()


def pieces_of(tensor: Any) -> List[Piece]:
    """All storages behind a tensor of any layout; never raises."""
    try:
        return [_piece_of(tensor)]
    except Exception:  # noqa: BLE001 - subclasses of other libraries raise what they like
        pass
    for names in (("_indices", "_values"), ("crow_indices", "col_indices", "values")):
        try:
            return [_piece_of(getattr(tensor, name)()) for name in names]
        except Exception:  # noqa: BLE001
            continue
    try:
        return [(id(tensor), int(tensor.nelement()) * int(tensor.element_size()))]
    except Exception:  # noqa: BLE001
        return []
