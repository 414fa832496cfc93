"""The framework's own counters. Read beside the system's, they show growth that is flat in the framework.

Per device: ``allocated`` (bytes of tensors), ``reserved`` (what the framework's allocator took from the driver),
``driver`` (what the driver counts: on CUDA for all processes of the device, on MPS for this one). On the CPU the
allocator is the C library's: ``in use`` and ``reserved``. A device that the program has not used is not touched, and
torch is not imported.
"""

from __future__ import annotations

import sys
from typing import Any, Dict

from . import _lane
from ._heap import heap


def _cuda(torch: Any, found: Dict[str, int]) -> None:
    if not torch.cuda.is_initialized():
        return
    for index in range(torch.cuda.device_count()):
        reserved = torch.cuda.memory_reserved(index)
        if not reserved and index != torch.cuda.current_device():
            continue
        found[f"cuda:{index} allocated"] = torch.cuda.memory_allocated(index)
        found[f"cuda:{index} reserved"] = reserved
        free, total = torch.cuda.mem_get_info(index)
        found[f"cuda:{index} driver"] = total - free


def _mps(torch: Any, found: Dict[str, int]) -> None:
    backend = getattr(torch.backends, "mps", None)
    if backend is None or not backend.is_available():
        return
    found["mps allocated"] = torch.mps.current_allocated_memory()
    found["mps driver"] = torch.mps.driver_allocated_memory()


def counters() -> Dict[str, int]:
    """Returns bytes by name, for every device in use."""
    found: Dict[str, int] = {}
    torch = sys.modules.get("torch")
    if torch is not None:
        for read in (_cuda, _mps):
            try:
                read(torch, found)
            except Exception:  # noqa: BLE001 - a driver that fails must not fail the training
                continue
    allocator = heap()
    if allocator is not None:
        found["cpu heap in use"] = allocator.in_use
        found["cpu heap reserved"] = allocator.reserved
    return found


def publish() -> Dict[str, int]:
    """Reads the counters and leaves them as gauges in the recording."""
    found = counters()
    for name, size in found.items():
        _lane.gauge(name, size)
    return found
