"""A slow leak beside a large model: 16 KiB a step over 300 MiB."""

import numpy
from pace import steps

weights = numpy.ones(300 << 17)
cache = []
for step in steps():
    weights *= 1.0
    cache.append(numpy.ones(2048))  # LEAK: 16 KiB
