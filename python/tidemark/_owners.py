"""Which tensors belong to a model or an optimizer: parameters, buffers, gradients, optimizer state.

Answers are by ``id()``, so they are valid only while the caller holds the tensors. Modules and optimizers that are half
built, or whose attributes were replaced, are skipped.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Tuple

import torch

from ._holders import attributes_of

PARAMETER, BUFFER, GRADIENT, STATE, GRAPH, HELD, UNKNOWN = (
    "parameter",
    "buffer",
    "gradient",
    "optimizer state",
    "autograd graph",
    "held",
    "unknown",
)

Owner = Tuple[str, str]  # one of the kinds above, and the words for a person


def _claim_module(module: Any, owners: Dict[int, Owner]) -> None:
    name = type(module).__name__
    attributes = attributes_of(module) or {}  # its __getattr__ must not be called for a missing attribute
    for parameter in attributes["_parameters"].values():
        if parameter is not None:
            owners.setdefault(id(parameter), (PARAMETER, f"parameter of {name}"))
    for buffer in attributes["_buffers"].values():
        if buffer is not None:
            owners.setdefault(id(buffer), (BUFFER, f"buffer of {name}"))


def _claim_state(value: Any, owner: Owner, owners: Dict[int, Owner], depth: int = 0) -> None:
    if isinstance(value, torch.Tensor):
        owners.setdefault(id(value), owner)
    elif depth < 3 and isinstance(value, dict):
        for each in value.values():
            _claim_state(each, owner, owners, depth + 1)
    elif depth < 3 and isinstance(value, (list, tuple)):
        for each in value:
            _claim_state(each, owner, owners, depth + 1)


def _claim_optimizer(optimizer: Any, owners: Dict[int, Owner]) -> None:
    name = type(optimizer).__name__
    for state in optimizer.state.values():
        if not isinstance(state, dict):
            _claim_state(state, (STATE, f"state of {name}"), owners)
            continue
        for key, value in state.items():
            _claim_state(value, (STATE, f"state `{key}` of {name}"), owners)
    for group in optimizer.param_groups:  # parameters of no module: tensors that are trained directly
        for parameter in group["params"]:
            owners.setdefault(id(parameter), (PARAMETER, f"parameter given to {name}"))


def claim(modules: Iterable[Any], optimizers: Iterable[Any]) -> Dict[int, Owner]:
    """Returns the owners of parameters, buffers and optimizer state, by id."""
    owners: Dict[int, Owner] = {}
    for module in modules:
        try:
            _claim_module(module, owners)
        except (AttributeError, KeyError, TypeError, RuntimeError):
            continue
    for optimizer in optimizers:
        try:
            _claim_optimizer(optimizer, owners)
        except (AttributeError, KeyError, TypeError, RuntimeError):
            continue
    return owners
