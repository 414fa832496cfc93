"""Where the memory of a PyTorch program is: counters, a census of tensors, autograd graphs, padding.

    before = tidemark.torch.census(step=10)
    ...
    after = tidemark.torch.census(step=60)
    print(after)                      # what is alive, and who holds it
    for growth in after.since(before):
        print(growth)                 # +1 tensor of (8, 174, 50257) float32 per step (+267 MiB per step), held by list `losses` ...

Nothing here needs a tracker. Under ``tidemark run``, ``publish()`` puts torch's own counters beside the memory that the
system counts.
"""

from __future__ import annotations

from ._census import Census, Group, Key, census, prepare
from ._counters import counters, publish
from ._graphs import GraphCounter
from ._growth import Growth
from ._padding import PaddingMeter

prepare()

__all__ = ["Census", "GraphCounter", "Group", "Growth", "Key", "PaddingMeter", "census", "counters", "publish"]
